"""Items of a step to each process: equal, or by measured speed for devices that are not alike.

Shares start equal. After a few steps the processes tell each other how many items a second they
computed, and the next batches are cut so that all would end at the same time, with at least one
item each. They compare again ever more rarely, and move only where a step gets shorter by a
twentieth or more: noise alone does not shift anything.

A loader takes batches ahead of the loop, one process further than another. So new shares hold from
the first batch that no process has taken yet.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

import torch

WAITS = (3, 3, 5, 10, 20, 50)
"""Steps between two comparisons; the last number goes on for ever."""
GAIN = 0.05
"""How much shorter a step must get for shares to move."""


class Totals(Protocol):
    """Who can add a tensor up over all processes."""

    rank: int
    size: int

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum, in place."""


def cut(num_items: int, speeds: Sequence[float]) -> list[int]:
    """Whole numbers that add up to the items, so that the slowest ends as early as it can.

    Each process gets at least one item where there are enough.
    """
    size, whole = len(speeds), sum(speeds)
    least = 1 if num_items >= size else 0
    # Rounded down nobody is late; what is left goes where it is done soonest.
    counts = [max(least, int(num_items * speed / whole)) for speed in speeds]
    while sum(counts) > num_items:
        latest = max(
            (one for one in range(size) if counts[one] > least),
            key=lambda one: (counts[one] / speeds[one], one),
        )
        counts[latest] -= 1
    for _ in range(num_items - sum(counts)):
        soonest = min(range(size), key=lambda one: ((counts[one] + 1) / speeds[one], one))
        counts[soonest] += 1
    return counts


def step_time(counts: Sequence[int], speeds: Sequence[float]) -> float:
    """How long the last process computes."""
    return max(count / speed for count, speed in zip(counts, speeds, strict=True))


class Stopwatch:
    """How long a process computed since it was last asked, without waiting for a GPU before."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device if device is not None and device.type in ("cuda", "xpu") else None
        self._seconds = 0.0
        self._marks: list[tuple[torch.Event, torch.Event]] = []

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Around what is measured; waits for others stay outside."""
        if self._device is None:
            start = time.perf_counter()
            yield
            self._seconds += time.perf_counter() - start
            return
        pair = (
            torch.Event(self._device, enable_timing=True),
            torch.Event(self._device, enable_timing=True),
        )
        pair[0].record()
        yield
        pair[1].record()
        self._marks.append(pair)

    def read(self) -> float:
        """Seconds since the last reading. Waits for the device's last mark."""
        if self._marks:
            self._marks[-1][1].synchronize()
            self._seconds += sum(a.elapsed_time(b) for a, b in self._marks) / 1000
        seconds, self._seconds = self._seconds, 0.0
        self._marks.clear()
        return seconds


class _Plan(NamedTuple):
    first_batch: int
    """Counted from 0: the batch from which these speeds hold."""
    speeds: tuple[float, ...]


class Shares:
    """Who gets which items of a batch.

    Args:
        size: number of processes.
        kind: `equal`, or `measured`.
        device: what computes, for measuring it.
    """

    def __init__(
        self,
        size: int,
        kind: Literal["equal", "measured"] = "equal",
        device: torch.device | None = None,
    ) -> None:
        self.size = size
        self.watch = Stopwatch(device if kind == "measured" else None)
        self._measured = kind == "measured"
        self._plans = [_Plan(0, (1.0,) * size)]
        self._taken = 0
        self._batch = size
        self._samples, self._seconds = 0, 0.0
        self._steps = -1  # the first step warms up and is not counted
        self._comparisons = 0
        self._pace: list[float] = []

    @property
    def speeds(self) -> tuple[float, ...]:
        """Relative speeds that the newest shares follow."""
        return self._plans[-1].speeds

    def counts(self, num_items: int) -> list[int]:
        """Items of each process in a batch of this size, by the newest speeds."""
        return cut(num_items, self.speeds)

    def next(self, num_items: int, rank: int) -> tuple[int, int]:
        """First and number of a process' items in the next batch; called once for each batch."""
        while len(self._plans) > 1 and self._plans[1].first_batch <= self._taken:
            del self._plans[0]
        counts = cut(num_items, self._plans[0].speeds)
        self._taken += 1
        self._batch = num_items
        return sum(counts[:rank]), counts[rank]

    def note(self, samples: int, seconds: float | None, group: Totals) -> None:
        """A step is done. Every process calls it after each of them.

        Args:
            samples: how many items this process computed.
            seconds: how long it took; None takes what the stopwatch measured.
            group: to compare with.
        """
        if not self._measured:
            return
        self._steps += 1
        if self._steps == 0:
            self.watch.read()
            return
        self._samples += samples
        if seconds is not None:
            self._pace.append(samples / max(seconds, 1e-9))
        wait = WAITS[min(self._comparisons, len(WAITS) - 1)]
        if self._steps >= wait:
            self._compare(group)

    def _speed(self) -> float:
        """Items a second: the middle of what was told, or what the stopwatch saw over all."""
        measured = self.watch.read()
        if self._pace:
            return statistics.median(self._pace)
        return self._samples / max(measured, 1e-9)

    def _compare(self, group: Totals) -> None:
        told = torch.zeros(2, group.size, dtype=torch.float64)
        told[0, group.rank] = self._speed()
        told[1, group.rank] = self._taken
        group.total(told)
        self._steps, self._samples = 0, 0
        self._pace.clear()
        self._comparisons += 1
        speeds = tuple(told[0].tolist())
        if min(speeds) <= 0:  # a process without items has no speed to tell
            return
        new, old = cut(self._batch, speeds), self.counts(self._batch)
        if step_time(new, speeds) < (1 - GAIN) * step_time(old, speeds):
            self._plans.append(_Plan(int(told[1].max()), speeds))
