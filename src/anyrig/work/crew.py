"""Who does the work, as those see it who give it: processes of this machine, or others' machines.

`Pool` is a crew of this machine's devices, `cluster.Fleet` one of the machines in a room. A run of
either is a `Shift` over a `Roster`: who is there, who is to blame, who is struck off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from anyrig.work.pack import LOOK_AHEAD

if TYPE_CHECKING:
    from anyrig.work import wire
    from anyrig.work.blame import Ledger
    from anyrig.work.outcome import Failure, Outcome, Report
    from anyrig.work.pack import Item
    from anyrig.work.schedule import Lane
    from anyrig.work.seen import Seen
    from anyrig.work.worker import Said

T = TypeVar("T")


class Crew(Protocol):
    """Workers of one engine, kept from one run to the next."""

    @property
    def warnings(self) -> list[str]:
        """What went wrong with devices so far, for the person."""

    @property
    def size(self) -> int:
        """How many workers there are, loading ones included."""

    def workers(self) -> tuple[Seen, ...]:
        """Those of this machine as they were last seen; asks nobody."""

    def wait_ready(self) -> None:
        """Wait until every worker has loaded its engine or was set aside."""

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: int = LOOK_AHEAD,
        report: Report | None = None,
        noted: Callable[[Outcome[Any]], None] | None = None,
        ordered: bool = True,
    ) -> Iterator[Outcome[Any]]:
        """An outcome for every item; one run at a time."""

    def close(self) -> None:
        """Let every worker go."""


class Hand(Protocol):
    """One worker, as a shift sees it."""

    number: int

    @property
    def place(self) -> str:
        """The id of the device it works on; deaths are counted by it."""

    @property
    def called(self) -> str:
        """That device, as a person calls it."""

    @property
    def beat_at(self) -> float | None:
        """When it last gave a sign of life; None where none is known. A worker that gives them is
        alive, however long its item takes.
        """

    def give(self, items: Sequence[Item[Any]]) -> Sequence[tuple[int, str]]:
        """Hand it items; the indices of those that cannot be sent to it, and why."""

    def drop(self, indices: Sequence[int]) -> None:
        """These need not be done any more; it leaves out those that it has not begun."""

    def stop(self) -> None:
        """End it now."""


class Roster(Protocol):
    """Who works, and who is to blame for what."""

    ledger: Ledger
    warnings: list[str]
    """What went wrong so far, for the person."""

    @property
    def ready(self) -> Mapping[int, Hand]:
        """Those that can be given something."""

    def check(self) -> None:
        """Make sure that somebody works, or will; an error where nobody does."""

    def heard(self, said: Said) -> Hand | None:
        """What a message means for the roster; who said it, where it is about work."""

    def lane(self, worker: Any) -> Lane[Any]:
        """A ready worker's lane, which remembers its speed from run to run."""

    def learned(self, worker: Any, told: wire.Done) -> None:
        """How large its batches are."""

    def lose(self, worker: Any, said: str, suspects: list[int]) -> None:
        """A ready worker is gone, and these items may be why."""

    def convict(self, index: int) -> None:
        """An item is guilty of the deaths it was there for."""

    def asks_another(self, failure: Failure, devices: Collection[str]) -> bool:
        """Whether an item that failed on these devices may do better on another."""

    def elsewhere(self, devices: Collection[str]) -> bool:
        """Whether somebody works, or will, on another device than these."""

    def call_fallback(self) -> bool:
        """Start whoever was kept for the end; whether there was one."""
