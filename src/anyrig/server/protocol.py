"""uvicorn's HTTP protocol with limits on the size and the duration of a request's head.

The httptools implementation stores as many header lines as a client sends, for as long as it takes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
MAX_HEAD_S = 20.0


class LimitedHttpProtocol(HttpToolsProtocol):
    """Answers 400 to a head that is too large, and disconnects one that takes too long."""

    _in_head = False
    _head_bytes = 0
    _parsed_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(MAX_HEAD_S, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        began_in_head = self._in_head
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        if self._timer is None:
            self._timer = self.loop.call_later(MAX_HEAD_S, self._close)
        self._head_bytes += len(data) if began_in_head else 0
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes, self._parsed_bytes = True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def _count(self, num_bytes: int) -> None:
        self._parsed_bytes += num_bytes
        if self._parsed_bytes > MAX_HEAD_BYTES:
            raise ValueError("the head of the request is too large")  # the parser makes it a 400

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.close()
