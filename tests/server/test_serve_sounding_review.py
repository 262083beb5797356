"""Who ends a reading when its client leaves at the worst moment; renewing while a model loads."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyrig.app.settings import ServerSettings
from anyrig.server.keeper import Keeper
from anyrig.server.sounding import Sounding, Threads
from anyrig.server.speaking import Wish


class Reading:
    """One that is begun and never goes on."""

    rate, num_samples, done, engine = 24000, 0, False, "test"

    def __init__(self) -> None:
        self.closed = 0

    def next(self) -> None:
        return None

    def sound(self, given: object) -> Any:
        raise OSError("no sound")

    def close(self) -> None:
        self.closed += 1


class Late:
    """A lock; somebody leaves after the last look of who holds it, before it is given back."""

    def __init__(self, sounding: Sounding) -> None:
        self._sounding, self._lock = sounding, threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if not self._sounding._closed:
            self._sounding.close()
        self._lock.release()


def sounding(reading: Reading) -> Sounding:
    parts = SimpleNamespace(speech=SimpleNamespace(begin=lambda wish: reading))
    return Sounding(cast("Any", parts), Wish("a text"), "pcm", Threads())


def test_one_who_leaves_as_it_has_begun_is_let_go() -> None:
    reading = Reading()
    made = sounding(reading)
    made._busy = cast("Any", Late(made))
    made._open()
    assert reading.closed, "its model would be lent for ever"


def test_one_who_leaves_as_a_part_is_made_is_let_go() -> None:
    reading = Reading()
    made = sounding(reading)
    made._open()
    made._busy = cast("Any", Late(made))
    with pytest.raises(OSError, match="no sound"):
        made._step(cast("Any", None))
    assert reading.closed


def test_an_encoder_that_cannot_be_given_up_keeps_no_model() -> None:
    reading = Reading()
    made = sounding(reading)
    made._open()

    def broken() -> None:
        raise RuntimeError("the encoder is in pieces")

    made._encoder.abort = broken  # type: ignore[union-attr, method-assign]
    with pytest.raises(RuntimeError):
        made.close()
    assert reading.closed


class Thing:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_what_is_loaded_while_everything_is_renewed_leaves_as_well() -> None:
    keeper = Keeper()
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
        with keeper.lend("a", load):
            assert given_back.wait(10)

    thread = threading.Thread(target=use)
    thread.start()
    assert begun.wait(10)
    assert keeper.renew() == ["a"]
    go_on.set()
    with keeper.lend("a", load) as new:
        assert new is made[1], "the first one is on the device of before"
        keeper.sweep()
        assert not made[0].closed, "somebody has it"
        given_back.set()
        thread.join(10)
        assert keeper.sweep() == ["a"]
        assert made[0].closed
        assert not new.closed
    keeper.close()
    assert made[1].closed


def test_those_who_wait_for_an_engine_that_loads_keep_nobody_else_out() -> None:
    """More wait for one than there are threads for its like; another's engine is there."""
    loaded, begun = threading.Event(), threading.Semaphore(0)

    def begin(wish: Wish) -> Reading:
        if wish.engine == "large":
            begun.release()
            assert loaded.wait(30)
        return Reading()

    settings = ServerSettings(queue=200)
    parts = SimpleNamespace(speech=SimpleNamespace(begin=begin), settings=settings)
    threads = Threads()

    async def open_(engine: str) -> None:
        made = Sounding(cast("Any", parts), Wish("a text", engine=engine), "pcm", threads)
        with pytest.raises(AssertionError, match="a text has sound"):  # `Reading` never goes on
            await made.begin()
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
        assert threads.beginning.num == 0
        assert not threads._alike

    asyncio.run(all_of_them())
