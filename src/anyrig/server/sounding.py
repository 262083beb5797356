"""A reading on its way to a client: bytes of a format, part by part, for as long as they listen."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from starlette.responses import Response

from anyrig.errors import OverloadedError, WorkError
from anyrig.server.errors import Problem, error_status
from anyrig.server.speaking import Reading, Wish
from anyrig.server.waiting import Beginning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Future

    from starlette.types import Receive, Scope, Send

    from anyrig.recognise.resample import Resampler
    from anyrig.server.state import ServerState
    from anyrig.speech.audio import Samples
    from anyrig.speech.live import Given
    from anyrig.speech.sound.encode import Encoder

log = logging.getLogger(__name__)
T = TypeVar("T")
PCM_RATE = 24000
"""Of pcm, as OpenAI's interface and VibeVoice's demo have it."""
_BEGINNING, _ALIKE, _STEPPING = 128, 16, 2
"""Threads. Many may wait for an engine that loads, but only some of those that wish for the same:
others, whose engine is there, are not kept out by them. What computes is kept to a few, as each
takes the interpreter from the event loop for milliseconds at a time."""
_SLACK_S = 30.0
"""Beyond the deadline, which counts until a segment's turn: that it is then made in."""


class Threads:
    """Where the blocking server of all soundings run."""

    def __init__(self) -> None:
        self.beginning = Beginning(_BEGINNING)
        self.stepping = anyio.CapacityLimiter(_STEPPING)
        self._alike: WeakValueDictionary[tuple[str, ...], asyncio.Semaphore] = WeakValueDictionary()

    def alike(self, wish: Wish) -> asyncio.Semaphore:
        """For those who wish for the same speaker; gone with the last of them."""
        key = (wish.engine, wish.voice, wish.language)
        found = self._alike.get(key)
        if found is None:
            found = self._alike[key] = asyncio.Semaphore(_ALIKE)
        return found


class Pipe:
    """Where an encoder writes to, and bytes are taken from."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        """Take bytes."""
        self._held += data
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def taken(self) -> bytes:
        """All that came since the last time."""
        data = bytes(self._held)
        self._held.clear()
        return data


class Sounding:
    """A wish, and what comes of it: `begin`, then `part` after part; `close` it in any case."""

    def __init__(self, server: ServerState, wish: Wish, format: str, threads: Threads) -> None:
        self._server, self._wish, self._format, self._threads = server, wish, format, threads
        self._began = time.monotonic()
        self._closed = False
        self._busy = threading.Lock()
        """Held by the thread that works for it."""
        self._reading: Reading | None = None
        self._encoder: Encoder | None = None
        self._pipe = Pipe()
        self._change: Resampler | None = None
        self._following: Future[Given] | None = None
        self._first = True

    @property
    def reading(self) -> Reading:
        """It, once it has begun."""
        assert self._reading is not None
        return self._reading

    async def begin(self) -> bytes:
        """The first part. Whatever is wrong with the wish is raised here, before any sound."""
        with _told():
            await self._threads.beginning.run(
                self._open, self._server.settings, gate=self._threads.alike(self._wish)
            )
        data = await self.part()
        assert data is not None, "a text has sound"
        return data

    async def part(self) -> bytes | None:
        """The next part; None after the last."""
        with _told():
            while self._following is not None:
                given = await self._waited(self._following)
                data = await to_thread.run_sync(self._step, given, limiter=self._threads.stepping)
                if data:
                    return data
        return None

    def close(self) -> None:
        """It is over, or nobody listens: what has not begun is not made. Takes no time."""
        self._closed = True
        if self._busy.acquire(blocking=False):  # else whoever works for it does so when done
            try:
                self._end()
            finally:
                self._busy.release()

    async def parts(self, first: bytes) -> AsyncIterator[bytes]:
        """All of it."""
        data: bytes | None = first
        while data is not None:
            yield data
            data = await self.part()

    # -- in threads --------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            with self._busy:
                try:
                    self._reading = self._server.speech.begin(self._wish)
                    self._encoder = self._writing(self._reading.rate)
                    self._following = self._reading.next()
                except BaseException:
                    self._end()
                    raise
        finally:
            self._look_up()

    def _writing(self, rate: int) -> Encoder:
        from anyrig.speech.sound.encode import encoder

        if self._format == "pcm" and rate != PCM_RATE:
            from anyrig.recognise.resample import Resampler

            self._change = Resampler(rate, PCM_RATE)
            rate = PCM_RATE
        return encoder(cast("BinaryIO", self._pipe), self._format, rate)

    def _step(self, given: Given) -> bytes:
        """A segment's sound as bytes; the next is asked for."""
        try:
            with self._busy:
                return self._stepped(given)
        finally:
            self._look_up()

    def _look_up(self) -> None:
        """Whether they left meanwhile; asked once `close` can take what was held, so that either
        this or that one ends it.
        """
        if self._closed:
            self.close()

    def _stepped(self, given: Given) -> bytes:
        reading, encoder = self.reading, self._encoder
        assert encoder is not None
        before = reading.num_samples
        encoder.write(self._changed(reading.sound(given)))
        self._count(reading, (reading.num_samples - before) / reading.rate)
        if reading.done:
            if self._change is not None:
                encoder.write(self._change.finish())
            encoder.close()
            self._following = None
        else:
            self._following = reading.next()
        return self._pipe.taken()

    def _end(self) -> None:
        """Give everything back; the second time there is nothing left."""
        try:
            if self._encoder is not None:
                self._encoder.abort()
        finally:
            if self._reading is not None:
                self._reading.close()

    def _changed(self, samples: Samples) -> Samples:
        return self._change.feed(samples) if self._change is not None else samples

    def _count(self, reading: Reading, audio_s: float) -> None:
        figures = self._server.metrics
        if self._first:
            self._first = False
            figures.first_audio.observe(time.monotonic() - self._began)
        figures.audio.labels(reading.engine).inc(audio_s)

    async def _waited(self, future: Future[Given]) -> Given:
        try:
            async with asyncio.timeout(self._server.settings.deadline_s + _SLACK_S):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise OverloadedError(
                "it waited longer than it may", hint="Try again when less is going on."
            ) from None


class _told:  # noqa: N801 - reads as a word where it is used
    """Work that no class of error foresees is a state of the server, not a fault of the request."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WorkError) and error_status(error) == 500:
            raise Problem(503, error.message, hint=error.hint) from error


async def unless_gone(receive: Receive, work: Callable[[], Awaitable[T]]) -> T | None:
    """What comes of some work; None where the client left, and then the work is cancelled."""
    found: list[T] = []
    failed: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            found.append(await work())
        except Exception as error:  # noqa: BLE001 - raised below, out of the group that would wrap it
            failed.append(error)
        group.cancel_scope.cancel()
    if failed:
        raise failed[0]
    return found[0] if found else None


class Streamed(Response):
    """An answer in server that is closed in any case, also when the client leaves in the middle."""

    def __init__(
        self,
        content: AsyncIterator[bytes],
        close: Callable[[], None],
        *,
        patience_s: float,
        headers: dict[str, str],
        media_type: str,
    ) -> None:
        self._content, self._close, self._patience_s = content, close, patience_s
        self.status_code, self.media_type, self.background = 200, media_type, None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await unless_gone(receive, lambda: self._send(send))
        finally:
            self._close()

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async for data in self._content:
            with anyio.fail_after(self._patience_s):  # one who takes nothing holds a model
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
