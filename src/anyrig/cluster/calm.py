"""A worker's end of Celery that outlives its broker, and whatever lies in its queue.

When a broker goes away under a worker, kombu 5.7 asks a connection that is closed to take back what
was not acknowledged, or to acknowledge it, and ends the whole worker with an `AttributeError`. Here
neither is asked of a closed connection: what is lost with a broker is given again by its run.

A message that is not what Celery writes ends a worker of kombu and Celery as well: they trust their
broker. Here every message is checked before they see it, and rebuilt from the fields that are
known; anything else is dropped with a warning.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import uuid
from contextlib import suppress
from datetime import datetime
from typing import Any

from kombu import transport as transports
from kombu.transport.redis import Channel, QoS, Transport
from redis.exceptions import ConnectionError as Broken
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as Late

log = logging.getLogger(__name__)
_MOST = 32 << 20
"""Letters of a message; the largest shard is much smaller."""
_ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_PIDBOX = "pidbox"
_AWAY = (Broken, Late, OSError)
"""The broker is away. kombu counts a `KeyError` among these, as a message may give one."""
_LISTS, _HASHES, _SORTED = (b"none", b"list"), (b"none", b"hash"), (b"none", b"zset")


class Calm(QoS):
    """Leaves a message alone whose connection is gone."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge a message."""
        if self._there():
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give a message back, or away."""
        if self._there():
            super().reject(delivery_tag, requeue=requeue)

    def restore_visible(self, start: int = 0, num: int = 10, interval: int = 10) -> None:
        """Nothing: what a worker that is no more had taken is given again by its run.

        kombu would hold a lock that it opens with a script, which our own broker does not run.
        """

    def _there(self) -> bool:
        connection: Any = self.channel.connection
        return connection is not None and connection.client is not None


class CalmChannel(Channel):
    """Reads lists that anybody may have written to."""

    QoS = Calm
    do_restore = False

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            self.drop_wrong_types()
        except (ValueError, TypeError, RecursionError) as error:  # it is taken off the list
            _dropped(f"it is not JSON ({type(error).__name__})")
        return True

    def _receive_one(self, c: Any) -> Any:
        try:
            return super()._receive_one(c)  # type: ignore[misc]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            _dropped(f"it is not JSON ({type(error).__name__})")
            return True

    def drop_wrong_types(self) -> None:
        """Delete keys of this worker's queues that hold something else than a queue."""
        whole: Any = self  # its types leave out how queues are named
        kinds = {
            whole._q_for_pri(queue, step): _LISTS
            for queue in self.active_queues
            for step in self.priority_steps
        }
        kinds |= {self.unacked_key: _HASHES, self.unacked_index_key: _SORTED}
        with self.conn_or_acquire() as client:
            for key, right in kinds.items():
                if client.type(key) not in right:
                    client.delete(key)
                    log.warning("the key %s held no queue and is deleted", key)


class CalmTransport(Transport):
    """Delivers nothing but messages that Celery could have written."""

    Channel = CalmChannel

    def _deliver(self, message: Any, queue: str | None) -> None:
        try:
            if queue and queue.endswith(_PIDBOX):  # remote control reads its own bodies
                _check_envelope(message)
            else:
                message = rebuilt(message, queue or "")
            try:
                super()._deliver(message, queue)
            except ResponseError as error:
                if "WRONGTYPE" not in str(error):
                    raise
                channels: Any = self.channels
                for channel in channels:
                    channel.drop_wrong_types()
                super()._deliver(message, queue)
        except _AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the next one may be good
            _dropped(str(error) if isinstance(error, ValueError) else type(error).__name__)
            self._settle(message)

    def _settle(self, message: Any) -> None:
        """A message that was taken is not held: a worker takes so many at once and no more."""
        with suppress(Exception):
            tag = message["properties"]["delivery_tag"]
            channels: Any = self.channels
            for channel in channels:
                if tag in channel.qos._delivered:
                    channel.qos.ack(tag)


def rebuilt(message: Any, queue: str) -> dict[str, Any]:
    """A message of the known fields alone; `ValueError` for what is none of Celery's."""
    headers, properties, body = _check_envelope(message)
    _check_body(base64.b64decode(body, validate=True))
    id, task = _word(headers, "id"), headers.get("task")
    if not isinstance(task, str) or len(task) > 200:
        raise ValueError("it names no task")
    if headers.get("compression"):
        raise ValueError("it is compressed")
    expires = headers.get("expires")
    if expires is not None:
        expires = datetime.fromisoformat(str(expires)).isoformat()
    reply_to = properties.get("reply_to")
    return {
        "body": body, "content-type": "application/json", "content-encoding": "utf-8",
        "headers": {
            "lang": "py", "task": task, "id": id, "root_id": id, "parent_id": None, "group": None,
            "shadow": None, "eta": None, "expires": expires, "retries": 0,
            "timelimit": [None, None], "argsrepr": "(...)", "kwargsrepr": "{}", "origin": "",
            "ignore_result": headers.get("ignore_result") is True,
        },
        "properties": {
            "correlation_id": id, "reply_to": reply_to if isinstance(reply_to, str) else "",
            "delivery_mode": 2, "priority": 0, "body_encoding": "base64",
            # Of our own: one that is taken from elsewhere could settle another message.
            "delivery_tag": str(uuid.uuid4()),
            "delivery_info": {"exchange": "", "routing_key": queue},
        },
    }  # fmt: skip


def _check_envelope(message: Any) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Headers, properties and the encoded body; `ValueError` where there are none."""
    headers, properties = _table(message, "headers"), _table(message, "properties")
    if not isinstance(properties.get("delivery_tag"), str):
        raise ValueError("it has no delivery tag")
    if message.get("content-type") != "application/json":
        raise ValueError("its content type is not application/json")
    if properties.get("body_encoding") != "base64":
        raise ValueError("its body is not in base64")
    body = message.get("body")
    if not isinstance(body, str) or len(body) > _MOST:
        raise ValueError("its body is missing or too large")
    return headers, properties, body


def _table(message: Any, name: str) -> dict[str, Any]:
    found = message.get(name) if isinstance(message, dict) else None
    if not isinstance(found, dict):
        raise ValueError(f"it has no {name}")
    return found


def _word(headers: dict[str, Any], name: str) -> str:
    found = headers.get(name)
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise ValueError(f"its {name} is not valid")
    return found


def _check_body(body: bytes) -> None:
    """Arguments, named ones, and nothing that should be run afterwards."""
    found = json.loads(body)
    if not isinstance(found, list) or len(found) != 3:
        raise ValueError("its body is not the body of a task")
    arguments, named, embedded = found
    if not (isinstance(arguments, list) and isinstance(named, dict) and isinstance(embedded, dict)):
        raise ValueError("its body is not the body of a task")
    if any(embedded.values()):
        raise ValueError("it asks for further tasks, which a worker does not start")


def _dropped(why: str) -> None:
    log.warning("a message in this worker's queue was dropped: %s", why[:200])


def restore_nothing() -> None:
    """For Celery's own commands: leave alone what workers have taken."""
    Channel.QoS = Calm


def keep() -> None:
    """Have it so in this process, from now on."""
    name = f"{__name__}:{CalmTransport.__name__}"
    for scheme in ("redis", "rediss"):
        transports.TRANSPORT_ALIASES[scheme] = name
        transports._transport_cache.pop(scheme, None)  # type: ignore[attr-defined]
