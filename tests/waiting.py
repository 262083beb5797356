"""Waiting for something that takes as long as a busy machine needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

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
