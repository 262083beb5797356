"""Speech on its way to a client: encoded part by part, for as long as the client is connected."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import StreamingResponse

from anyrig.app.access import current_client
from anyrig.errors import OverloadedError, PoisonItemError, UnspeakableTextError, WorkError
from anyrig.server.documents import run_while_connected
from anyrig.server.errors import Problem, error_status
from anyrig.server.waiting import BoundedStarter, ClientDisconnected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from concurrent.futures import Future

    from starlette.types import Message, Receive, Scope, Send

    from anyrig.app.live_speech import SpeechSession
    from anyrig.audio.encode import AudioEncoder
    from anyrig.audio.resample import Resampler
    from anyrig.server.state import ServerState
    from anyrig.speech.synthesis import SegmentPart
    from anyrig.speech.word_times import Timing, WrittenWord

log = logging.getLogger(__name__)
PCM_RATE = 24000
"""Samples per second of pcm, as OpenAI's API and VibeVoice's demo have it."""
_START_THREADS, _START_THREADS_PER_VOICE, _ENCODE_THREADS, _RECOGNISE_THREADS = 128, 16, 2, 8
"""Many clients may wait for an engine that loads, but only some of those that want the same one, so
that clients of an engine that is loaded are not kept out. What computes is kept to a few threads:
each takes the interpreter from the event loop for milliseconds at a time."""
_SYNTHESIS_S = 30.0
"""Added to the deadline, which ends when a segment's turn comes: time to make it or a part."""


class StreamThreads:
    """Where the blocking parts of all streams run."""

    def __init__(self) -> None:
        self.starter = BoundedStarter(_START_THREADS)
        self.encode_limiter = anyio.CapacityLimiter(_ENCODE_THREADS)
        self.recognise_limiter = anyio.CapacityLimiter(_RECOGNISE_THREADS)
        self._per_voice: WeakValueDictionary[tuple[str, ...], asyncio.Semaphore] = (
            WeakValueDictionary()
        )

    def limit_voice(self, client: str, options: Mapping[str, Any]) -> asyncio.Semaphore:
        """The semaphore of a client's requests for the same engine, voice and language."""
        key = (client, *(options.get(name, "") for name in ("engine", "voice", "language")))
        found = self._per_voice.get(key)
        if found is None:
            found = self._per_voice[key] = asyncio.Semaphore(_START_THREADS_PER_VOICE)
        return found


class SpeechStream:
    """A request and its audio: `start`, then `next_part` until None; `close` it in any case.

    The options are those of a `LiveSpeechRequest`, as the client gave them.
    """

    def __init__(
        self, server: ServerState, options: Mapping[str, Any], format: str, threads: StreamThreads
    ) -> None:
        self._server, self._options, self._format, self._threads = server, options, format, threads
        self._client = current_client.get().id
        self._began = time.monotonic()
        self._closed = False
        self._busy = threading.Lock()
        """Held by the thread that works for it."""
        self._session: SpeechSession | None = None
        self._encoder: AudioEncoder | None = None
        self._buffer = io.BytesIO()
        self._resampler: Resampler | None = None
        self._next: Future[SegmentPart] | None = None
        self._is_first = True
        self._words: list[WrittenWord] = []

    @property
    def session(self) -> SpeechSession:
        """Only after `start`."""
        assert self._session is not None
        return self._session

    async def start(self) -> bytes:
        """The first part. Whatever is wrong with the request is raised here."""
        with _unavailable():
            await self._threads.starter.run(
                self._open,
                self._server.settings,
                semaphore=self._threads.limit_voice(self._client, self._options),
            )
        data = await self.next_part()
        assert data is not None, "a text has audio"
        return data

    async def next_part(self) -> bytes | None:
        """The next part; None after the last."""
        with _unavailable():
            while self._next is not None:
                encode: Callable[[], bytes] = self._go_on
                try:
                    encode = partial(self._encode, await self._wait_for(self._next))
                except (UnspeakableTextError, PoisonItemError) as error:
                    if self._is_first:
                        raise
                    # The status was sent: the rest of the text is worth more than an end.
                    log.warning("left out of a stream: %s", error.message)
                data = await to_thread.run_sync(encode, limiter=self._threads.encode_limiter)
                if self.session.words is not None and self.session.words.must_listen:
                    await to_thread.run_sync(self._listen, limiter=self._threads.recognise_limiter)
                if data:
                    return data
        return None

    @property
    def timing(self) -> Timing:
        """Whether the times of words so far are exact."""
        assert self.session.words is not None
        return self.session.words.timing

    def take_words(self) -> list[WrittenWord]:
        """Words that were timed since the last call, in order, if they were requested."""
        words, self._words = self._words, []
        return words

    async def iter_parts(self, first: bytes) -> AsyncIterator[bytes]:
        """The first part and all others."""
        data: bytes | None = first
        while data is not None:
            yield data
            data = await self.next_part()

    def close(self) -> None:
        """The end, or the client disconnected: what has not started is not made. Never blocks."""
        self._closed = True
        if self._busy.acquire(blocking=False):  # else the thread that works for it does, when done
            try:
                self._release()
            finally:
                self._busy.release()

    async def _wait_for(self, future: Future[SegmentPart]) -> SegmentPart:
        try:
            async with asyncio.timeout(self._server.settings.deadline_s + _SYNTHESIS_S):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise OverloadedError(
                "the request waited longer than the deadline", hint="Try again later."
            ) from None

    # -- in threads --------------------------------------------------------------------------------

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Holds the lock. A client may disconnect meanwhile: either this or `close` releases all,
        so it is looked at once `close` can take the lock.
        """
        try:
            with self._busy:
                yield
        finally:
            if self._closed:
                self.close()

    def _open(self) -> None:
        with self._working():
            try:
                speech = self._server.speech
                self._session = speech.start(
                    speech.request(**self._options), client=self._client, check=self._check_open
                )
                self._encoder = self._open_encoder(self._session.sample_rate)
                self._next = self._session.next_part()
            except BaseException:
                self._release()
                raise

    def _check_open(self) -> None:
        if self._closed:
            raise WorkError("the client disconnected", hint="Send the request again.")

    def _open_encoder(self, sample_rate: int) -> AudioEncoder:
        from anyrig.audio.encode import open_encoder

        if self._format == "pcm" and sample_rate != PCM_RATE:
            from anyrig.audio.resample import Resampler

            self._resampler = Resampler(sample_rate, PCM_RATE)
            sample_rate = PCM_RATE
        return open_encoder(self._buffer, self._format, sample_rate)

    def _encode(self, part: SegmentPart) -> bytes:
        """A part as bytes; the next one is requested."""
        with self._working():
            session, encoder, resampler = self.session, self._encoder, self._resampler
            assert encoder is not None
            before = session.num_samples
            samples = session.finish(part)
            encoder.write(resampler.feed(samples) if resampler is not None else samples)
            self._count((session.num_samples - before) / session.sample_rate)
            if session.words is not None and not session.words.must_listen:
                self._words += session.words.take_words()
            return self._request_next()

    def _listen(self) -> None:
        """Time the words of an engine without durations, while the next part is made."""
        with self._working():
            assert self.session.words is not None
            self._words += self.session.words.take_words()

    def _go_on(self) -> bytes:
        """The next part is requested in place of a segment that failed."""
        with self._working():
            return self._request_next()

    def _request_next(self) -> bytes:
        """Request the next part, or end; what is encoded so far."""
        session, encoder, resampler = self.session, self._encoder, self._resampler
        assert encoder is not None
        if session.done:
            if resampler is not None:
                encoder.write(resampler.finish())
            encoder.close()
            self._next = None
        else:
            self._next = session.next_part()
        data = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return data

    def _release(self) -> None:
        """Nothing is left for a second call."""
        try:
            if self._encoder is not None:
                self._encoder.abort()
        finally:
            if self._session is not None:
                self._session.close()

    def _count(self, audio_s: float) -> None:
        metrics = self._server.metrics
        if self._is_first:
            self._is_first = False
            metrics.first_audio.observe(time.monotonic() - self._began)
        metrics.audio.labels(self.session.engine).inc(audio_s)


@contextmanager
def _unavailable() -> Iterator[None]:
    """Failed work is a state of the server (503), not an internal error."""
    try:
        yield
    except WorkError as error:
        if error_status(error) == 500:
            raise Problem(503, error.message, hint=error.hint) from error
        raise


class ClosingStreamResponse(StreamingResponse):
    """A response in parts; `close` is called in any case, also if the client disconnects.

    The client may take `send_s` to accept a part: meanwhile it holds a model.
    """

    def __init__(
        self, content: AsyncIterator[bytes], close: Callable[[], None], send_s: float, **more: Any
    ) -> None:
        super().__init__(content, **more)
        self._close, self._send_s = close, send_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            with anyio.fail_after(self._send_s):
                await send(message)

        try:
            with suppress(ClientDisconnected):
                await run_while_connected(
                    Request(scope, receive), self.stream_response(send_in_time)
                )
        finally:
            self._close()
