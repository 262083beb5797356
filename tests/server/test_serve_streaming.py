"""Who ends a session when its client leaves at the worst moment; renewing while a model loads."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyrig.app.models import ModelCache
from anyrig.app.settings import ServerSettings
from anyrig.server.streaming import SpeechStream, StreamThreads


class Session:
    """One that is begun and never goes on."""

    sample_rate, num_samples, done, engine = 24000, 0, False, "test"

    def __init__(self) -> None:
        self.closed = 0

    def next_segment(self) -> None:
        return None

    def finish(self, segment: object) -> Any:
        raise OSError("no sound")

    def close(self) -> None:
        self.closed += 1


class Late:
    """A lock; somebody leaves after the last look of who holds it, before it is given back."""

    def __init__(self, stream: SpeechStream) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if not self._stream._closed:
            self._stream.close()
        self._lock.release()


def open_stream(session: Session) -> SpeechStream:
    parts = SimpleNamespace(
        speech=SimpleNamespace(start=lambda _: session, request=lambda **_: None)
    )
    return SpeechStream(cast("Any", parts), {"text": "a text"}, "pcm", StreamThreads())


def test_one_who_leaves_as_it_has_begun_is_let_go() -> None:
    session = Session()
    made = open_stream(session)
    made._busy = cast("Any", Late(made))
    made._open()
    assert session.closed, "its model would be lent for ever"


def test_one_who_leaves_as_a_part_is_made_is_let_go() -> None:
    session = Session()
    made = open_stream(session)
    made._open()
    made._busy = cast("Any", Late(made))
    with pytest.raises(OSError, match="no sound"):
        made._encode(cast("Any", None))
    assert session.closed


def test_an_encoder_that_cannot_be_given_up_keeps_no_model() -> None:
    session = Session()
    made = open_stream(session)
    made._open()

    def broken() -> None:
        raise RuntimeError("the encoder is in pieces")

    made._encoder.abort = broken  # type: ignore[union-attr, method-assign]
    with pytest.raises(RuntimeError):
        made.close()
    assert session.closed


class Thing:
    def __init__(self) -> None:
        self.closed = False

    def __enter__(self) -> Thing:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


def test_what_is_loaded_while_everything_is_renewed_leaves_as_well() -> None:
    cache = ModelCache()
    begun, go_on = threading.Event(), threading.Event()
    made: list[Thing] = []
    given_back = threading.Event()

    def load() -> Thing:
        mine = Thing()
        made.append(mine)
        if len(made) == 1:
            begun.set()
            assert go_on.wait(10)
        return mine

    def use() -> None:
        with cache.borrow("a", load):
            assert given_back.wait(10)

    thread = threading.Thread(target=use)
    thread.start()
    assert begun.wait(10)
    assert cache.reload_all() == ["a"]
    go_on.set()
    with cache.borrow("a", load) as new:
        assert new is made[1], "the first one is on the device of before"
        cache.evict_idle()
        assert not made[0].closed, "somebody has it"
        given_back.set()
        thread.join(10)
        assert cache.evict_idle() == ["a"]
        assert made[0].closed
        assert not new.closed
    cache.close()
    assert made[1].closed


def test_those_who_wait_for_an_engine_that_loads_keep_nobody_else_out() -> None:
    """More wait for one than there are threads for its like; another's engine is there."""
    loaded, begun = threading.Event(), threading.Semaphore(0)

    def start(request: Any) -> Session:
        if request.engine == "large":
            begun.release()
            assert loaded.wait(30)
        return Session()

    settings = ServerSettings(queue=200)
    parts = SimpleNamespace(
        speech=SimpleNamespace(start=start, request=SimpleNamespace), settings=settings
    )
    threads = StreamThreads()

    async def open_(engine: str) -> None:
        made = SpeechStream(
            cast("Any", parts), {"text": "a text", "engine": engine}, "pcm", threads
        )
        with pytest.raises(AssertionError, match="a text has audio"):  # `Session` never goes on
            await made.start()
        made.close()

    async def all_of_them() -> None:
        waiting = [asyncio.create_task(open_("large")) for _ in range(200)]
        while not begun.acquire(blocking=False):
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(open_("small"), 20)
        finally:
            loaded.set()
        await asyncio.gather(*waiting)
        assert threads.starter.num_pending == 0
        assert not threads._per_voice

    asyncio.run(all_of_them())
