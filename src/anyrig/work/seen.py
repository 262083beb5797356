"""A worker as it was last seen: what health checks read, without asking anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from anyrig.devices.machine import DeviceKind

State = Literal["loading", "ready", "dead"]


class Seen(NamedTuple):
    """Facts of one process. Times are of the monotonic clock."""

    pid: int
    device: str
    """The id of the device it sits on."""
    kind: DeviceKind
    word: str
    """By what word it drives the device: `cuda:0`, `cpu`."""
    state: State
    started: float
    heard: float
    """When it last said anything; one that lives does so every few seconds, busy or not."""
    holds: tuple[str, ...] = ()
    """The models it says that it has loaded."""
    busy_since: float | None = None
    """When it began with what it computes; None while it waits."""
    expected_s: float = 0.0
    """How long that should take, by what it did before; 0 when nobody knows."""
    said: str = ""
    """How it ended, of one that is dead."""
    held: tuple[Held, ...] = ()
    """Models that it has in processes of its own, on other devices perhaps."""


class Held(NamedTuple):
    """A model that a worker has in processes of its own."""

    name: str
    """As among those that the worker says it holds."""
    opened: float
    used: float
    """When a task last had it."""
    busy: bool
    """Whether the task at hand has it."""
    workers: tuple[Seen, ...]
    num_batches: int = 0
    num_items: int = 0
    busy_s: float = 0.0
    num_out_of_memory: int = 0
