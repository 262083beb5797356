"""Answers that are too large for the broker: put with the coordinator over HTTP, fetched once.

PUT     URL/SHARD   the recordings, as JSON; the coordinator keeps them for a while
GET     URL/SHARD   reads them
DELETE  URL/SHARD   takes them out, once they came whole
"""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from anyrig.cluster.shard import Answer, answer_of
from anyrig.errors import WorkError

MOST_BYTES = 512 << 20
_CONNECT_S, _TIMEOUT_S = 5.0, 30.0


def put(url: str, key: str, answer: Answer) -> Answer:
    """The same answer without its recordings, which lie in the box now."""
    data = json.dumps(answer.plain()).encode()
    if len(data) > MOST_BYTES:
        raise WorkError("an answer too large for the box", hint="Give smaller shards.")
    _asked("PUT", f"{url}/{answer.id}", key, data)
    return replace(answer, recordings={}, box=url)


def get(answer: Answer, key: str) -> Answer:
    """The whole answer, which is in the box no more."""
    where = f"{answer.box}/{answer.id}"
    found = answer_of(json.loads(_asked("GET", where, key)))
    with suppress(WorkError):  # it ends by itself
        _asked("DELETE", where, key)
    return found


def _asked(method: str, url: str, key: str, data: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, data=data, method=method)
    request.add_header("Authorization", f"Bearer {key}")
    request.add_header("Content-Type", "application/json")
    # No proxy: the coordinator is a machine of the same room.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    parts = urlsplit(url)
    try:
        # Who asks has more to do than to wait for a wall that swallows what is sent.
        socket.create_connection((parts.hostname or "", parts.port or 80), _CONNECT_S).close()
        with opener.open(request, timeout=_TIMEOUT_S) as found:
            body: Any = found.read(MOST_BYTES + 1)
    except (urllib.error.URLError, HTTPException, OSError, ValueError) as error:
        raise WorkError(
            f"the coordinator's box at {url} does not answer: {error}",
            hint="Is its port open to this machine?",
        ) from error
    if len(body) > MOST_BYTES:
        raise WorkError("the box holds more than an answer", hint="Give smaller shards.")
    return bytes(body)
