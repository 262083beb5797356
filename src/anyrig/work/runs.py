"""One run after the other over a roster: what a pool and a fleet do alike."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.errors import WorkError
from anyrig.work.outcome import Outcome, Report, in_order, told
from anyrig.work.run import taken
from anyrig.work.shift import SILENT_S, WAKE, Shift
from anyrig.work.source import Source

if TYPE_CHECKING:
    from anyrig.work.crew import Roster
    from anyrig.work.schedule import Plan
    from anyrig.work.worker import Said

T = TypeVar("T")
_LEAVE_S = 5.0


class Runs:
    """A shift at a time.

    Args:
        roster: who works.
        events: what they say.
        name: of the crew, for errors: `pool`, `fleet`.
        clock: seconds that only go forward.
        silent_s: a worker that gives no sign of life for so long is ended.
    """

    def __init__(
        self,
        roster: Roster,
        events: queue.SimpleQueue[Said],
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        silent_s: float = SILENT_S,
    ) -> None:
        self._roster, self._events, self._name = roster, events, name
        self._clock, self._silent_s = clock, silent_s
        self._closed = self._running = False
        self._first = 0
        self._shift: tuple[Shift, threading.Thread] | None = None

    def run(
        self,
        payloads: Iterable[T],
        *,
        cost: Callable[[T], float],
        look_ahead: Callable[[], int],
        report: Report | None,
        noted: Callable[[Outcome[Any]], None] | None,
        ordered: bool,
        ended: Callable[[], None],
        plan: Plan[Any] | None = None,
    ) -> Iterator[Outcome[Any]]:
        """Outcomes as `Crew.run` gives them; `look_ahead` may grow, `ended` is told of the end."""
        if self._closed or self._running:
            state = "closed" if self._closed else "busy with another run"
            raise WorkError(f"the {self._name} is {state}", hint="Make a new one.")
        self._running = True
        report = report if report is not None else Report()
        ahead = max(1, look_ahead())
        # Indices never come twice: what a worker still brings from an earlier run is known as such.
        source = Source(
            payloads, cost, ahead, first=self._first, arrived=lambda: self._events.put(WAKE)
        )
        ready: queue.SimpleQueue[Outcome[Any] | BaseException | None] = queue.SimpleQueue()
        shift = Shift(
            self._roster, source, self._events, ready.put, report, plan,
            clock=self._clock, silent_s=self._silent_s,
        )  # fmt: skip
        thread = threading.Thread(target=shift.work, name=f"anyrig-{self._name}", daemon=True)
        thread.start()
        self._shift = (shift, thread)
        try:
            there = taken(ready)
            there = there if noted is None else told(there, noted)
            for outcome in in_order(there) if ordered else there:
                source.done()
                for _ in range(ahead, look_ahead()):  # more workers have come
                    ahead += 1
                    source.done()
                self._events.put(WAKE)
                yield outcome
        finally:
            source.close()
            shift.leave()
            thread.join(timeout=_LEAVE_S)
            ended()
            self._shift = None
            self._first += report.num_items + ahead + 1
            self._running = False
            warnings = self._roster.warnings
            report.warnings += [one for one in warnings if one not in report.warnings]

    def close(self) -> None:
        """End the run there is, and take no other."""
        self._closed = True
        if self._shift is not None:
            shift, thread = self._shift
            shift.leave(closed=True)
            thread.join(timeout=_LEAVE_S)
