"""One run of a pool: the loop that hands out items, hears results, and settles what goes wrong."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyrig.errors import WorkError
from anyrig.units import format_bytes, format_duration
from anyrig.work import wire
from anyrig.work.outcome import Failure, Outcome, Report
from anyrig.work.pack import Item
from anyrig.work.schedule import FEW, Lane, Plan
from anyrig.work.source import Source
from anyrig.work.worker import Gone, Said

if TYPE_CHECKING:
    from anyrig.work.crew import Hand, Roster

log = logging.getLogger(__name__)
WAKE = Said(0, None)
"""Something changed that no worker said."""
TICK_S = 0.02
SILENT_S = 900.0
"""A worker that gives no sign of life for so long is ended. No shorter: a call that keeps the
interpreter's lock, or a machine that swaps, holds up heartbeats too."""
_SLOW = 30
"""Where no signs of life are known, it may also take so many times longer than expected."""


class Shift:
    """Items from a source through the staff, outcomes to whoever takes them."""

    def __init__(
        self,
        staff: Roster,
        source: Source[Any],
        events: queue.SimpleQueue[Said],
        emit: Callable[[Outcome[Any] | BaseException | None], None],
        report: Report,
        plan: Plan[Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
        silent_s: float = SILENT_S,
    ) -> None:
        self._staff, self._source, self._events = staff, source, events
        self._emit, self._report = emit, report
        self._plan: Plan[Any] = plan if plan is not None else Plan()
        self._clock, self._silent_s = clock, silent_s
        self._items: dict[int, Item[Any]] = {}
        """Everything taken from the source that has no outcome yet."""
        self._suspects: deque[Item[Any]] = deque()
        self._now_at: dict[int, tuple[int, ...]] = {}
        """What each worker said it computes."""
        self._left = threading.Event()
        self._closed = False
        self._ran_out: dict[int, set[str]] = {}
        """By item: the devices it did not fit on."""
        self._turn: set[int] = set()
        """Workers that said something since they were last thought of."""
        self._all_at = self._asked_at = 0.0
        """When all of many are thought of again, and were last."""
        self._hanging_at = 0.0
        """When it is looked again for those that hang."""
        self._looked_at = self._awake_since = clock()
        """When it was looked for them last, and since when without a long pause."""
        self._trying: tuple[float, dict[int, Item[Any]]] = (-math.inf, {})

    def leave(self, *, closed: bool = False) -> None:
        """Hand out no more and stop.

        Args:
            closed: the pool is closed under whoever takes the results, and that is told.
        """
        self._closed = closed
        self._left.set()
        self._events.put(WAKE)

    def work(self) -> None:
        """Until every item has its outcome, or nobody is left to work."""
        try:
            for number in self._staff.ready:
                self._seat(number)
            while not self._left.is_set() and self._step():
                pass
            if self._closed:
                self._staff.check()
                raise WorkError("the pool was closed while it worked", hint="Close it later.")
            if self._source.error is not None and not self._left.is_set():
                self._emit(self._source.error)
            self._emit(None)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            self._emit(error)
        finally:
            self._tidy()

    def _step(self) -> bool:
        """Take in, hand out, hear; whether there is more to do."""
        for item in self._source.take(wait=False):
            self._items[item.index] = item
            self._plan.add(item)
            self._all_at = min(self._all_at, self._asked_at + TICK_S)
        self._plan.ended = self._source.ended
        if self._source.ended and not self._items:
            return False
        self._staff.check()
        self._hand_out()
        for said in self._news():
            self._hear(said)
        return True

    # -- handing out ----------------------------------------------------------------------------

    def _hand_out(self) -> None:
        now = self._clock()
        trying = self._tries(now) if self._suspects else {}
        for lane in self._in_turn(now):
            worker = self._staff.ready[lane.number]
            if lane.number in trying:  # it finishes what it has, to try a suspect
                if not lane.hand:
                    self._try_suspect(worker, lane, trying[lane.number], now)
                continue
            chosen = self._plan.next_for(lane, now)
            if chosen:
                self._send(worker, lane, chosen)

    def _in_turn(self, now: float) -> list[Lane[Any]]:
        """Who is thought of now: of many, those that said something, and all from time to time."""
        lanes = self._plan.lanes
        if len(lanes) > FEW and now < self._all_at:
            asked = [lanes[number] for number in self._turn if number in lanes]
        else:
            asked = list(lanes.values())
            self._asked_at, self._all_at = now, now + max(TICK_S, self._plan.low_s / 2)
        self._turn.clear()
        # Who has nothing comes first: where items come one by one, the next is theirs. Of those
        # the fastest: what is done twice is done by whoever is through with it first.
        return sorted(asked, key=lambda lane: (bool(lane.hand), -(lane.rate or lane.prior or 0.0)))

    def _tries(self, now: float) -> dict[int, Item[Any]]:
        """Which suspect each worker is to try, one at a time: every one where it is done first."""
        made, trying = self._trying
        lanes = self._plan.lanes
        if len(lanes) > FEW and now - made < TICK_S:
            waiting = {item.index for item in self._suspects}
            return {number: item for number, item in trying.items() if item.index in waiting}
        able = [lane for lane in lanes.values() if not lane.leaving and self._proven(lane)]
        speeds = {lane.number: self._plan.rate_of(lane) or 1.0 for lane in able}
        free = {lane.number: lane.left_s(now, speeds[lane.number]) for lane in able}
        trying = {}
        for item in self._suspects:
            fit = [n for n in free if self._fit_for(item, self._staff.ready[n])]
            if fit:
                first = min(fit, key=lambda n: free[n] + item.cost / speeds[n])
                free[first] += item.cost / speeds[first]
                trying.setdefault(first, item)
        self._trying = (now, trying)
        return trying

    def _proven(self, lane: Lane[Any]) -> bool:
        """Suspects go to workers that have computed something: so a death tells more."""
        shaky = self._staff.ledger.shaky(self._staff.ready[lane.number].place)
        return lane.rate is not None or not len(self._plan.waiting) or shaky

    def _fit_for(self, item: Item[Any], worker: Hand) -> bool:
        """Whether an item may go to a device: not where it failed, while there is another."""
        device = worker.place
        bad = self._ran_out.get(item.index, set()) | {self._staff.ledger.avoid(item.index)}
        return device not in bad or not (self._staff.elsewhere(bad) or self._staff.call_fallback())

    def _try_suspect(self, worker: Hand, lane: Lane[Any], item: Item[Any], now: float) -> None:
        """Give an idle worker an item that must have no company."""
        self._suspects.remove(item)
        self._plan.give(lane, [item], now)
        lane.alone = True
        self._send(worker, lane, [item])

    def _send(self, worker: Hand, lane: Lane[Any], chosen: list[Item[Any]]) -> None:
        """Hand items over; what cannot be sent is set aside, the rest go."""
        for index, why in worker.give(chosen):
            self._plan.returned(lane, [index], self._clock())
            self._finish(Outcome(index, failure=Failure("error", why, 1)))

    # -- hearing --------------------------------------------------------------------------------

    def _news(self) -> Iterator[Said]:
        """What was said, at least one thing or a moment later."""
        try:
            yield self._events.get(timeout=self._patience_s())
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            self._end_hanging()

    def _patience_s(self) -> float:
        """How long to wait for news; then it is thought of all again."""
        # With nothing to hand out there is nothing to look for: what arrives says so.
        lanes = self._plan.lanes
        idle = bool(self._items) and any(not lane.hand for lane in lanes.values())
        low_s = self._plan.low_s / 2
        if idle:
            return max(TICK_S, low_s) if len(lanes) > FEW else TICK_S
        # Far away there is one answer to many items: who has little left must be seen in between.
        return low_s if low_s > TICK_S else 25 * TICK_S

    def _hear(self, said: Said) -> None:
        self._turn.add(said.number)
        worker = self._staff.heard(said)
        if worker is None:
            self._seat(said.number)
            return
        lane = self._plan.lanes.get(said.number)
        if lane is None:
            return
        message = said.message
        if isinstance(message, wire.Done):
            self._done(worker, lane, message)
        elif isinstance(message, wire.Begun):
            self._now_at[said.number] = message.indices
            lane.since = self._clock()
        elif isinstance(message, wire.Dropped):
            self._plan.dropped(lane, message.indices, self._clock())
        elif isinstance(message, wire.Back):
            self._given_back(lane, message.indices)
        elif isinstance(message, wire.Leaving):
            self._plan.leave(lane)
        elif isinstance(message, (wire.Lost, Gone)):
            self._lost(worker, lane, message.said)

    def _seat(self, number: int) -> None:
        """A worker that has become ready gets its lane, with what is known of its speed."""
        worker = self._staff.ready.get(number)
        if worker is not None and number not in self._plan.lanes:
            lane = self._plan.lanes[number] = self._staff.lane(worker)
            lane.alone = lane.alone and bool(lane.hand)

    def _done(self, worker: Hand, lane: Lane[Any], message: wire.Done) -> None:
        self._now_at[lane.number] = message.begun
        if message.num_batches:
            lane.learn(message.real_cost, message.seconds)
            self._staff.learned(worker, message)
            self._log(worker, message)
        lane.budget = message.budget
        self._report.batches_done(message)
        self._settle(worker, lane, [self._opened(parcel) for parcel in message.parcels])
        failed = [Outcome[Any](index, failure=failure) for index, failure in message.failures]
        self._settle(worker, lane, [o for o in failed if not self._second_chance(worker, lane, o)])

    def _opened(self, parcel: wire.Parcel) -> Outcome[Any]:
        try:
            return Outcome(parcel.number, parcel.opened())
        except Exception as error:  # noqa: BLE001 - pickle throws whatever a class throws
            said = f"the result cannot be made anew in this process: {error}"
            return Outcome(parcel.number, failure=Failure("error", said, 1))

    def _settle(self, worker: Hand, lane: Lane[Any], outcomes: list[Outcome[Any]]) -> None:
        """Outcomes that nobody brought before leave; who still holds their items drops them."""
        brought = [outcome.index for outcome in outcomes]
        fresh = set(self._plan.returned(lane, brought, self._clock()))
        for number, indices in self._plan.elsewhere(lane, fresh).items():
            self._staff.ready[number].drop(indices)
        for outcome in outcomes:
            if outcome.index in fresh and outcome.index in self._items:
                self._staff.ledger.acquit(outcome.index, worker.place)
                self._finish(replace(outcome, device=worker.place))

    def _second_chance(self, worker: Hand, lane: Lane[Any], outcome: Outcome[Any]) -> bool:
        """Whether a failed item is still computed elsewhere, or may fit on another device."""
        index = outcome.index
        if index not in self._items:
            return False
        if any(other is not lane for other in self._plan.holders(index)):
            self._plan.dropped(lane, [index], self._clock())
            return True
        assert outcome.failure is not None
        tried = self._ran_out.setdefault(index, set())
        tried.add(worker.place)
        if not self._staff.elsewhere(tried) or not self._staff.asks_another(outcome.failure, tried):
            return False
        self._plan.dropped(lane, [index], self._clock())
        self._suspects.append(self._items[index])
        return True

    def _log(self, worker: Hand, told: wire.Done) -> None:
        peak = (
            f", peak memory {format_bytes(told.peak_bytes)}" if told.peak_bytes is not None else ""
        )
        log.debug("%s: %d items, cost %g (%g padded), %s%s", worker.called,
                  len(told.parcels) + len(told.failures), told.real_cost, told.padded_cost,
                  format_duration(told.seconds), peak)  # fmt: skip

    def _finish(self, outcome: Outcome[Any]) -> None:
        del self._items[outcome.index]
        self._ran_out.pop(outcome.index, None)
        relative = replace(outcome, index=outcome.index - self._source.first)
        self._report.add(relative)
        self._emit(relative)

    # -- what goes wrong ------------------------------------------------------------------------

    def _lost(self, worker: Hand, lane: Lane[Any], said: str) -> None:
        """A worker is gone. What it was computing is suspect; what only waited there is not."""
        computing = set(self._now_at.pop(lane.number, ()))
        if lane.alone:
            computing = set(lane.hand)  # it may have died before it could say so
        # Those held elsewhere as well are suspect, too, though nobody need do them again.
        suspects = [i for i in lane.hand if i in computing and i in self._items]
        orphans = self._plan.gone(lane)
        self._staff.lose(worker, said, suspects)
        for item in orphans:
            if item.index not in self._items:
                continue
            if item.index not in computing:
                self._plan.add(item)
            elif self._staff.ledger.guilty(item.index):
                self._convict(item, said)
            elif self._staff.ledger.deaths.get(item.index, 0) > 1:
                self._suspects.appendleft(item)  # to the end with it, before another is tried
            else:
                self._suspects.append(item)

    def _given_back(self, lane: Lane[Any], indices: tuple[int, ...]) -> None:
        """What a worker could not do goes to the next one; a suspect is still one."""
        lane.since = self._clock()
        for item in self._plan.back(lane, indices):
            if item.index not in self._items:
                continue
            if self._staff.ledger.suspect(item.index) or item.index in self._ran_out:
                self._suspects.append(item)
            else:
                self._plan.add(item)

    def _convict(self, item: Item[Any], said: str) -> None:
        tries = self._staff.ledger.deaths[item.index]
        self._staff.convict(item.index)
        number = item.index - self._source.first
        log.warning("item %d is set aside: %d workers died of it", number, tries)
        failure = Failure("killed", f"its worker {said}", tries)
        self._finish(Outcome(item.index, failure=failure))

    def _end_hanging(self) -> None:
        """End workers that give no sign of life; `Gone` follows."""
        now = self._clock()
        if now - self._looked_at > self._silent_s / 2:
            # This process was stopped or the machine slept: signs of life could not be read.
            self._awake_since = now
        self._looked_at = now
        if now < self._hanging_at:
            return
        self._hanging_at = now + self._silent_s / 200
        for number, lane in self._plan.lanes.items():
            if not lane.hand:
                continue
            worker, limit_s = self._staff.ready[number], self._silent_s
            beat_at = worker.beat_at
            if beat_at is None:
                rate = self._plan.rate_of(lane)
                limit_s = max(limit_s, _SLOW * lane.held / rate if rate else 0.0)
                beat_at = lane.since
            silent_s = now - max(beat_at, lane.since, self._awake_since)
            if silent_s > limit_s:
                log.warning("a worker on %s has sent no heartbeat for %.0f s and is ended",
                            worker.called, silent_s)  # fmt: skip
                worker.stop()

    def _tidy(self) -> None:
        """What is still held was done elsewhere, or nobody wants it any more."""
        for number, lane in self._plan.lanes.items():
            worker = self._staff.ready.get(number)
            if worker is not None and lane.hand:
                worker.drop(list(lane.hand))
