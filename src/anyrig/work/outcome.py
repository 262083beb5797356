"""What comes out of work: a result for each item, or why there is none, and a run's figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

from anyrig.errors import WorkError
from anyrig.units import format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.work.wire import Done

R = TypeVar("R")
FailureKind = Literal["error", "memory", "killed"]


@dataclass(frozen=True)
class Failure:
    """Why an item was set aside."""

    kind: FailureKind
    said: str
    """The last error, in one line."""
    tries: int
    hint: str = ""
    """What to try, where something is known to help."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """An item's result, or its failure."""

    index: int
    """Where the item stood in the input."""
    result: R | None = None
    failure: Failure | None = None
    device: str = ""
    """The id of the device that did it, where several did."""


@dataclass
class Report:
    """The figures of a run, while it runs and after."""

    num_items: int = 0
    num_batches: int = 0
    real_cost: float = 0.0
    padded_cost: float = 0.0
    busy_s: float = 0.0
    """Time inside the engine, over all devices."""
    num_out_of_memory: int = 0
    peak_bytes: int | None = None
    set_aside: list[Outcome[object]] = field(default_factory=list)
    by_device: dict[str, int] = field(default_factory=dict)
    """How many items each device did, or each worker of a cluster, by its name."""
    warnings: list[str] = field(default_factory=list)

    @property
    def padding(self) -> float:
        """Padded over real cost; 1.0 is none."""
        return self.padded_cost / self.real_cost if self.real_cost else 1.0

    def batches_done(self, told: Done) -> None:
        """A worker told of a batch, with the pieces it may have been split into."""
        self.batch_done(
            told.real_cost, told.padded_cost, told.seconds, told.peak_bytes, told.num_batches
        )
        self.num_out_of_memory += told.num_out_of_memory

    def batch_done(
        self, real: float, padded: float, seconds: float, peak: int | None, count: int = 1
    ) -> None:
        """One more batch was computed, or several."""
        self.num_batches += count
        self.real_cost += real
        self.padded_cost += padded
        self.busy_s += seconds
        if peak is not None:
            self.peak_bytes = max(peak, self.peak_bytes or 0)

    def join(self, other: Report) -> None:
        """Add the figures of another run; what was set aside and warned of stays its own."""
        self.num_items += other.num_items
        for name, count in other.by_device.items():
            self.by_device[name] = self.by_device.get(name, 0) + count
        self.num_out_of_memory += other.num_out_of_memory
        self.batch_done(
            other.real_cost, other.padded_cost, other.busy_s, other.peak_bytes, other.num_batches
        )

    def add(self, outcome: Outcome[R]) -> None:
        """One more item is through."""
        self.num_items += 1
        if outcome.device and outcome.failure is None:
            self.by_device[outcome.device] = self.by_device.get(outcome.device, 0) + 1
        if outcome.failure is not None:
            self.set_aside.append(cast("Outcome[object]", outcome))

    def summary(self) -> str:
        """The run in one line."""
        parts = [pluralize(self.num_items, "item"), f"{self.num_batches} batches"]
        if self.num_batches == 1:
            parts[1] = "1 batch"
        parts.append(f"{self.padding - 1:.1%} padded")
        if self.peak_bytes is not None:
            parts.append(f"peak {format_bytes(self.peak_bytes)}")
        if self.num_out_of_memory:
            parts.append(f"out of memory {pluralize(self.num_out_of_memory, 'time')}")
        if self.set_aside:
            parts.append(f"{len(self.set_aside)} set aside")
        return ", ".join(parts)


def in_order(outcomes: Iterable[Outcome[R]]) -> Iterator[Outcome[R]]:
    """Outcomes in the order of the input, each as soon as all before it are there."""
    early: dict[int, Outcome[R]] = {}
    following = 0
    for outcome in outcomes:
        early[outcome.index] = outcome
        while following in early:
            yield early.pop(following)
            following += 1


def told(
    outcomes: Iterable[Outcome[R]], noted: Callable[[Outcome[R]], None]
) -> Iterator[Outcome[R]]:
    """The same outcomes, each told to `noted` on its way."""
    for outcome in outcomes:
        noted(outcome)
        yield outcome


def results(outcomes: Iterable[Outcome[R]]) -> Iterator[R]:
    """Plain results in the order of `outcomes`; an error, at the end, when some were set aside."""
    failed: list[Outcome[R]] = []
    for outcome in outcomes:
        if outcome.failure is not None:
            failed.append(outcome)
        else:
            yield cast("R", outcome.result)
    if failed:
        first = failed[0]
        assert first.failure is not None
        raise WorkError(
            f"{pluralize(len(failed), 'item')} could not be done; the first, number {first.index}: "
            f"{first.failure.said}",
            hint=first.failure.hint
            or "The others are done. Look at that item, or run with -vv for the whole story.",
        )
