"""Waiting for something that takes as long as a busy machine needs."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
LONG_S = 120.0
"""Far more than anything takes: it ends tests that would wait forever."""


def wait_until(
    condition: Callable[[], T | None],
    timeout_s: float = LONG_S,
    *,
    errors: tuple[type[Exception], ...] = (),
    what: str = "",
) -> T:
    """Ask until the answer is true, and return it; these errors count as no."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            last: object = (answer := condition())
        except errors as error:
            last = error
        else:
            if answer:
                return answer
        if time.monotonic() > end:
            raise AssertionError(f"{what or condition} did not come in {timeout_s:g} s: {last!r}")
        time.sleep(0.02)


class _SkippingSelector(selectors.DefaultSelector):
    """Waits for nothing that is due later: the time until then has passed already."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout:
            self.now += timeout
        return super().select(0)


def run_without_waiting(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` by a clock that moves only while all tasks sleep, however slow the machine is.

    For tasks that wait for no thread and no other process.
    """
    selector = _SkippingSelector()

    def make_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.now  # type: ignore[method-assign]
        return loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(main)
