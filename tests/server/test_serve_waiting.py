"""Waiting to begin: so many, so long, and nothing is left behind by those who give up."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from anyrig.app.settings import ServerSettings
from anyrig.errors import OverloadedError
from anyrig.server.routes.documents import submit_patiently
from anyrig.server.waiting import BoundedStarter, TaskTimeout, wait_for_task


def test_more_than_may_wait_to_begin_are_refused_at_once() -> None:
    go_on = threading.Event()

    async def all_of_them() -> list[Any]:
        starter, limits = BoundedStarter(2), ServerSettings(queue=3)
        calls = [starter.run(lambda: go_on.wait(10), limits) for _ in range(9)]
        those = [asyncio.ensure_future(call) for call in calls]
        refused, _ = await asyncio.wait(those, timeout=1)
        assert len(refused) == 4
        go_on.set()
        found = await asyncio.gather(*those, return_exceptions=True)
        assert starter.num_pending == 0
        return found

    found = asyncio.run(all_of_them())
    assert [one for one in found if one is True] == [True] * 5
    assert sum(isinstance(one, OverloadedError) for one in found) == 4


def test_who_waits_too_long_is_told_so_and_what_comes_of_it_is_undone() -> None:
    go_on, undone = threading.Event(), list[str]()

    def call() -> str:
        assert go_on.wait(10)
        return "begun"

    async def one() -> None:
        starter, gate = BoundedStarter(1), asyncio.Semaphore(1)
        short = ServerSettings(deadline_s=0.1)
        for _ in range(2):  # the first one has the thread, the second one waits at the gate
            with pytest.raises(OverloadedError, match="did not start within 0.1 seconds"):
                await starter.run(call, short, semaphore=gate, undo=undone.append)
        assert starter.num_pending == 1, "its thread is still at work"
        assert gate.locked()
        go_on.set()
        assert await starter.run(call, ServerSettings(), semaphore=gate) == "begun"
        assert undone == ["begun"]
        assert starter.num_pending == 0
        assert not gate.locked()

    asyncio.run(one())


def test_who_leaves_before_it_begins_is_let_go_at_once() -> None:
    go_on, undone = threading.Event(), list[int]()

    def call(number: int) -> int:
        assert go_on.wait(10)
        return number

    async def one() -> None:
        starter = BoundedStarter(1)
        limits = ServerSettings()
        those = [
            asyncio.ensure_future(starter.run(partial(call, n), limits, undo=undone.append))
            for n in (1, 2, 3)
        ]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        for those_who_leave in those[:2]:
            those_who_leave.cancel()
        await asyncio.wait(those[:2])
        assert time.monotonic() - began < 5, "the thread goes on without them"
        go_on.set()
        assert await those[2] == 3
        assert undone == [1], "the second one had not begun"

    asyncio.run(one())


def test_an_error_of_the_call_is_its_own() -> None:
    def call() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(BoundedStarter(1).run(call, ServerSettings()))


class _Task(Future[Any]):
    began: float | None = None


def test_work_has_its_time_from_when_it_began() -> None:
    async def one() -> None:
        piece: Any = _Task()
        waiting = asyncio.ensure_future(wait_for_task(piece, 0.2))
        await asyncio.sleep(0.6)
        assert not waiting.done(), "it waits for its turn"
        piece.began = time.monotonic()
        with pytest.raises(TaskTimeout):
            await asyncio.wait_for(waiting, 5)
        assert piece.cancelled(), "whoever does it is told"
        done: Any = _Task()
        done.set_result("here")
        assert await wait_for_task(done, 0.2) == "here"

    asyncio.run(one())


def test_who_was_let_in_waits_for_room_and_who_was_not_is_refused() -> None:
    tries: list[float] = []

    async def hand_in() -> list[Future[Any]]:
        tries.append(time.monotonic())
        if len(tries) % 3:
            raise OverloadedError("full", hint="wait")
        return []

    assert asyncio.run(submit_patiently(hand_in, 30.0)) == []
    assert len(tries) == 3
    with pytest.raises(OverloadedError):
        asyncio.run(submit_patiently(hand_in, 0.0))
    assert len(tries) == 4
