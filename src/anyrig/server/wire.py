"""Connections with an end: heads of requests that are bounded in size and in time.

uvicorn's faster reader keeps as many header lines as somebody cares to send, for as long as they
care to take. Its slower one has a bound on size; so does this, and one on time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
HEAD_S = 20.0
"""A head that takes longer than this is not worth waiting for."""


class Bounded(HttpToolsProtocol):
    """uvicorn's reader; whoever sends a head without end is answered 400 and shown out."""

    _in_head = False
    _head_bytes = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody called."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """They have gone."""
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes more."""
        began_in_head = self._in_head
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        if self._late is None:
            self._late = self.loop.call_later(HEAD_S, self._give_up)
        self._head_bytes += len(data) if began_in_head else 0
        if self._head_bytes > MOST_HEAD_BYTES:
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes = True, 0
        self._seen_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of its address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._in_head = False
        self._in_time()
        super().on_headers_complete()

    def _count(self, num_bytes: int) -> None:
        self._seen_bytes += num_bytes
        if self._seen_bytes > MOST_HEAD_BYTES:
            raise ValueError("the head of the request is too long")  # the parser makes it a 400

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()
