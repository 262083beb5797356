"""Models that are loaded, as those see them who look after them: plain facts, nobody is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anyrig.work.live import Lane
    from anyrig.work.outcome import RunReport
    from anyrig.work.protocol import NestedModel, WorkerStatus


class Closes(Protocol):
    """Something that holds a device's memory."""

    def close(self) -> None:
        """Give it back."""


class Counter(Protocol):
    """Where a model's items wait and are worked on, as in a `LiveQueue`. Looking takes no time."""

    report: RunReport

    @property
    def open(self) -> bool:
        """Whether it takes anything."""

    @property
    def running(self) -> int:
        """Items at work."""

    def waiting(self, lane: Lane) -> int:
        """Items that wait."""

    def workers(self) -> Sequence[WorkerStatus]:
        """Its processes, as they were last seen."""


class Short(NamedTuple):
    """Memory that is short."""

    device: str
    """Whose memory; empty is the host's."""
    said: str

    @property
    def devices(self) -> tuple[str, ...]:
        """Where something has to go; anywhere when empty."""
        return (self.device,) if self.device else ()


class Kept(NamedTuple):
    """A model that is loaded, as it stands."""

    name: str
    value: Closes
    lent: int
    idle_s: float


@dataclass
class Tally:
    """What a keeper has done so far."""

    loads: int = 0
    load_s: float = 0.0
    failures: int = 0
    unloads: dict[str, int] = field(
        default_factory=lambda: {"idle": 0, "memory": 0, "broken": 0, "renewed": 0}
    )
    """By reason."""
    out_of_memory: int = 0
    """Loads that found too little memory, whether a second try went well or not."""


def counter(value: object) -> Counter | None:
    """What a model's items wait at, where it shows that."""
    found = getattr(value, "live", value)
    return cast("Counter", found) if hasattr(found, "workers") else None


def inner_name(name: str, held: str) -> str:
    """What a model within another's workers is called."""
    return f"{name}: {held}"


def places(value: object) -> frozenset[str]:
    """Ids of the devices that a value's workers sit on."""
    live = counter(value)
    return devices_of(live.workers()) if live is not None else frozenset()


def devices_of(workers: Iterable[WorkerStatus]) -> frozenset[str]:
    """Ids of the devices that workers sit on, while they live."""
    return frozenset(seen.device for seen in workers if seen.state != "dead")


def within(value: object) -> list[NestedModel]:
    """Models that a value's workers have in processes of their own."""
    live = counter(value)
    return (
        [held for seen in live.workers() for held in seen.nested_models] if live is not None else []
    )


def everybody(name: str, value: object) -> list[tuple[str, WorkerStatus]]:
    """Each worker of a model with the model's name, and those that workers have of their own."""
    live = counter(value)
    found: list[tuple[str, WorkerStatus]] = []
    for seen in live.workers() if live is not None else ():
        found.append((name, seen))
        for held in seen.nested_models:
            found += [(inner_name(name, held.name), inner) for inner in held.workers]
    return found
