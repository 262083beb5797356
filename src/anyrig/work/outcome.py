"""What comes out of a run: a result or a failure for each item, and statistics."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from anyrig.units import format_bytes, format_duration

log = logging.getLogger(__name__)
R = TypeVar("R")
FailureKind = Literal["error", "memory", "crash"]
_POLL_S = 0.5


@dataclass(frozen=True)
class ItemFailure:
    kind: FailureKind
    message: str
    """The last error, in one line."""
    tries: int
    hint: str = ""


@dataclass(frozen=True)
class ItemOutcome(Generic[R]):
    """An item's result, or its failure."""

    index: int
    """Position of the item in the input."""
    result: R | None = None
    failure: ItemFailure | None = None
    device: str = ""
    """Id of the device that computed it; of a cluster, name of the worker."""


@dataclass
class BatchStats:
    """Statistics of one or more calls of an engine."""

    num_batches: int = 0
    real_cost: float = 0.0
    padded_cost: float = 0.0
    busy_s: float = 0.0
    """Time inside the engine, over all devices."""
    num_out_of_memory: int = 0
    peak_bytes: int | None = None

    def add_batches(self, other: BatchStats) -> None:
        self.num_batches += other.num_batches
        self.real_cost += other.real_cost
        self.padded_cost += other.padded_cost
        self.busy_s += other.busy_s
        self.num_out_of_memory += other.num_out_of_memory
        if other.peak_bytes is not None:
            self.peak_bytes = max(other.peak_bytes, self.peak_bytes or 0)


def log_batch(name: str, num_items: int, stats: BatchStats) -> None:
    if log.isEnabledFor(logging.DEBUG):
        peak = stats.peak_bytes
        log.debug(
            "%s: %d items, cost %g (%g padded), %s%s",
            name,
            num_items,
            stats.real_cost,
            stats.padded_cost,
            format_duration(stats.busy_s),
            f", peak memory {format_bytes(peak)}" if peak is not None else "",
        )


@dataclass
class RunReport(BatchStats):
    """Statistics of a run, filled while it goes on."""

    num_items: int = 0
    by_device: dict[str, int] = field(default_factory=dict)
    """Number of items by device id, or by the name of a cluster's worker."""
    warnings: list[str] = field(default_factory=list)

    def add(self, outcome: ItemOutcome[R]) -> None:
        self.num_items += 1
        if outcome.failure is not None:
            log.info("item %d failed: %s", outcome.index, outcome.failure.message)
        elif outcome.device:
            self.by_device[outcome.device] = self.by_device.get(outcome.device, 0) + 1

    def merge(self, other: RunReport) -> None:
        """Add the numbers of another run; its warnings stay its own."""
        self.add_batches(other)
        self.num_items += other.num_items
        for name, count in other.by_device.items():
            self.by_device[name] = self.by_device.get(name, 0) + count


OutcomeQueue = queue.SimpleQueue[ItemOutcome[R] | BaseException | None]
"""Outcomes from a thread; an error ends it, and so does None."""


def drain(outcomes: OutcomeQueue[R]) -> Iterator[ItemOutcome[R]]:
    """Outcomes as they come. Polls, so that Ctrl-C is handled on every system."""
    while True:
        try:
            outcome = outcomes.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if outcome is None:
            return
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome


def in_order(outcomes: Iterable[ItemOutcome[R]]) -> Iterator[ItemOutcome[R]]:
    """Outcomes in the order of the input, each as soon as all before it are there."""
    early: dict[int, ItemOutcome[R]] = {}
    following = 0
    for outcome in outcomes:
        early[outcome.index] = outcome
        while following in early:
            yield early.pop(following)
            following += 1
