"""How much of the time the device waits for data, and words when that is too much."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch


class _Step(NamedTuple):
    waited_s: float
    whole_s: float


class Starvation:
    """A meter around the loop's waits for data.

        meter = Starvation(tell=print, device="cuda", num_workers=2)
        with meter.waiting():
            batch = next(batches)
        ...
        meter.step()

    A device that still has work while the host waits does not starve: on CUDA the stream is asked,
    without a wait, whether it was idle.

    Args:
        tell: is given a sentence when the share is over the limit for a whole window.
        device: that computes.
        limit: share of the time.
        window: steps that are looked at.
        least_s: how long those must have taken together.
        num_workers: in use, for the sentence.
        clock: seconds that only go forwards.
    """

    def __init__(
        self,
        tell: Callable[[str], None] | None = None,
        device: torch.device | str = "cpu",
        *,
        limit: float = 0.1,
        window: int = 50,
        least_s: float = 5.0,
        num_workers: int = 0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._tell, self._device = tell, torch.device(device)
        self._limit, self._least_s = limit, least_s
        self._num_workers, self._clock = num_workers, clock
        self._recent: deque[_Step] = deque(maxlen=window)
        self._waited_s = self._began = 0.0
        self._total = _Step(0.0, 0.0)
        self._told = False
        self.restart()

    def restart(self) -> None:
        """Count from now: a checkpoint or a validation stood between two steps."""
        self._waited_s, self._began = 0.0, self._clock()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around the wait for a batch."""
        idle_before, began = self._idle(), self._clock()
        try:
            yield
        finally:
            took = self._clock() - began
            # It ran dry somewhere in between: half of the wait is the best guess.
            share = 1.0 if idle_before else 0.5
            self._waited_s += took * share if self._idle() else 0.0

    def step(self) -> float:
        """A step is done; seconds of it that the device waited."""
        now = self._clock()
        step = _Step(self._waited_s, now - self._began)
        self._recent.append(step)
        self._total = _Step(*(a + b for a, b in zip(self._total, step, strict=True)))
        self._waited_s, self._began = 0.0, now
        self._judge()
        return step.waited_s

    @property
    def share(self) -> float:
        """Of the whole run so far."""
        return self._total.waited_s / self._total.whole_s if self._total.whole_s else 0.0

    @property
    def recent_share(self) -> float:
        """Of the last window of steps."""
        whole = sum(step.whole_s for step in self._recent)
        return sum(step.waited_s for step in self._recent) / whole if whole else 0.0

    def _idle(self) -> bool:
        if self._device.type != "cuda":
            return True
        return bool(torch.cuda.current_stream(self._device).query())

    def _judge(self) -> None:
        """Tell once, and again only after it was well in between."""
        long_enough = sum(step.whole_s for step in self._recent) >= self._least_s
        if len(self._recent) < (self._recent.maxlen or 1) or not long_enough:
            return
        share = self.recent_share
        if share < self._limit / 2:
            self._told = False
        elif share > self._limit and not self._told:
            self._told = True
            if self._tell is not None:
                self._tell(f"the device waits for data {share:.0%} of the time: {self._advice()}")

    def _advice(self) -> str:
        cheaper = "make items cheaper (smaller files, decoded once)"
        if not self._num_workers:
            return f"set loading.num_workers above 0, or {cheaper}"
        return (
            f"set loading.num_workers above {self._num_workers}, or where no core is left {cheaper}"
        )
