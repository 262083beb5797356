"""Who of a cluster works for a run: seats for workers that match, given up by those that left."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anyrig import __version__
from anyrig.cluster.calls import Calls, new_id
from anyrig.cluster.card import PROTOCOL, Card
from anyrig.cluster.link import LEASE_S, PATIENCE_S, NoBroker
from anyrig.errors import AnyrigError, WorkFailed
from anyrig.units import plural
from anyrig.work import wire
from anyrig.work.blame import Ledger
from anyrig.work.outcome import Failure
from anyrig.work.pack import Budget
from anyrig.work.schedule import Lane
from anyrig.work.worker import Gone, Said

if TYPE_CHECKING:
    from anyrig.cluster.shard import Answer
    from anyrig.work.pack import Item

log = logging.getLogger(__name__)
_LOOK_S = 1.0
_MISSING_S = 4.0
_ASIDE_S = 30.0
"""A worker that gave a shard back is left alone for so long."""
_LOST_S = 6.0
"""A shard that its worker does not know after so long has got lost with the broker."""


@dataclass(eq=False)
class Seat:
    """One worker, as a shift sees it."""

    number: int
    card: Card
    calls: Calls
    events: queue.SimpleQueue[Any]
    shards: dict[str, list[int]] = field(default_factory=dict)
    """What it was sent and has not answered; items by shard, in the order they were sent."""
    sent: dict[str, float] = field(default_factory=dict)
    missing_since: float | None = None
    """When the broker had no sign of it for the first time."""

    @property
    def place(self) -> str:
        """Deaths are counted by the worker's name."""
        return self.card.name

    @property
    def called(self) -> str:
        """The worker, with what it computes on."""
        return f"{self.card.name} ({self.card.device})"

    def give(self, items: Sequence[Item[Any]]) -> list[tuple[int, str]]:
        """Send a shard."""
        id = new_id()
        if not self.shards:
            self.events.put(Said(self.number, wire.Begun(tuple(item.index for item in items))))
        self.shards[id] = [item.index for item in items]
        self.sent[id] = time.monotonic()
        self.calls.send(id, self.card, items)
        return []

    def drop(self, indices: Sequence[int]) -> None:
        """A shard is taken back when all of it is done elsewhere."""
        gone = set(indices)
        for id, held in list(self.shards.items()):
            if gone.issuperset(held):
                self.forget(id)

    def forget(self, id: str) -> None:
        """Nobody waits for a shard any more."""
        self.calls.forget(id)
        self.shards.pop(id, None)
        self.sent.pop(id, None)

    def stop(self) -> None:
        """Take everything back; the worker itself goes on for others."""
        for id in list(self.shards):
            self.forget(id)

    @property
    def at_work(self) -> tuple[int, ...]:
        """What it computes now: the first shard that it was sent."""
        return tuple(next(iter(self.shards.values()), ()))


class Hands:
    """The roster of a fleet. One thread listens to the broker; the shift does all the rest."""

    def __init__(self, calls: Calls, events: queue.SimpleQueue[Any], *, patience_s: float) -> None:
        self._calls, self._events, self._patience_s = calls, events, patience_s
        self.ready: dict[int, Seat] = {}
        """Changed by the shift alone."""
        self._coming: dict[int, Seat] = {}
        self._seats: dict[str, Seat] = {}
        """By name; changed by the listening thread alone."""
        self.ledger = Ledger()
        self.warnings: list[str] = []
        self._lanes: dict[str, Lane[Any]] = {}
        """By worker, whatever seat it has: its speed is remembered."""
        self._number = 0
        self._alone_since = time.monotonic()
        self._first = threading.Event()
        self._refused: dict[str, str] = {}
        self._not_before: dict[str, float] = {}
        """When a worker that gave something back is asked again."""
        self._away_since: float | None = None
        self._error: AnyrigError | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="anyrig-hands", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._end.set()
        for seat in list(self._seats.values()):
            seat.stop()
        self._thread.join(timeout=3)

    @property
    def size(self) -> int:
        """How many are there."""
        return len(self._seats)

    def wait(self) -> None:
        """Wait until somebody is there."""
        while not self._first.wait(0.1):
            self.check()

    # -- what a shift asks -----------------------------------------------------------------------

    def check(self) -> None:
        """That somebody works; an error when nobody has for too long."""
        if self._error is not None:
            raise self._error
        if self._seats:
            self._alone_since = time.monotonic()
            return
        if time.monotonic() - self._alone_since < self._patience_s:
            return
        engine = self._calls.offer.engine
        why = "; ".join(self._refused.values())
        raise WorkFailed(
            f"no worker of the cluster can speak with {engine}" + (f": {why}" if why else ""),
            hint="`anyrig cluster status` shows who is there; `anyrig worker --broker URL` joins.",
        )

    def heard(self, said: Said) -> Seat | None:
        """Seats are taken and given up here, in the shift's own thread."""
        if isinstance(said.message, wire.Ready):
            self.ready[said.number] = self._coming.pop(said.number)
            return None
        return self.ready.get(said.number)

    def lane(self, worker: Seat) -> Lane[Any]:
        """A worker's lane, with what is known of its speed."""
        name = worker.card.name
        before = self._lanes.get(name)
        prior = worker.card.speeds.get(self._calls.offer.engine)
        lane: Lane[Any] = Lane(worker.number, prior=prior)
        if before is not None and before.rate is not None:
            lane.prior = before.rate
        self._lanes[name] = lane
        return lane

    def learned(self, worker: Seat, told: wire.Done) -> None:
        """Batches are each worker's own affair."""

    def lose(self, worker: Seat, said: str, suspects: list[int]) -> None:
        """A worker is gone; it may come back and is welcome."""
        self.ready.pop(worker.number, None)
        worker.stop()
        self.ledger.died(worker.place, suspects)
        self.ledger.strikes.pop(worker.place, None)
        if said != _AGAIN:
            self._warn(f"{worker.called} {said}; its work goes to others")

    def convict(self, index: int) -> None:
        """No worker is kept out for an item's sake."""
        self.ledger.convict(index)

    def elsewhere(self, devices: Collection[str]) -> bool:
        """Whether somebody else works."""
        return any(seat.place not in devices for seat in list(self.ready.values()))

    def call_fallback(self) -> bool:
        """There is none."""
        return False

    # -- listening -------------------------------------------------------------------------------

    def _listen(self) -> None:
        following = 0.0
        while not self._end.is_set():
            try:
                now = time.monotonic()
                if now >= following:
                    following = now + _LOOK_S
                    self._calls.renew()
                    self._look(self._calls.living(), now)
                for id, answer in self._calls.answers():
                    self._answered(id, answer)
                self._away_since = None
            except Exception as error:  # noqa: BLE001 - told, and tried again
                self._away(error)

    def _away(self, error: Exception) -> None:
        """The broker is away, or something is wrong: what is at work goes on meanwhile."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            log.warning("the broker is away: %s", error)
        if "redis" not in type(error).__module__ and not isinstance(error, OSError):
            log.error("something went wrong while listening", exc_info=error)
        if now - self._away_since > PATIENCE_S:
            self._error = NoBroker(
                f"the broker has been away for {now - self._away_since:.0f} s: {error}",
                hint="Start it again and run the same command: what was made is kept.",
            )
        self._end.wait(0.5)

    def _look(self, living: dict[str, Card], now: float) -> None:
        """Who has come, who is gone, and what got lost."""
        for name, card in living.items():
            seat = self._seats.get(name)
            if seat is not None and seat.card.run != card.run:
                self._gone(seat, "was started anew")
                seat = None
            if seat is None:
                self._come(card, now)
                continue
            seat.missing_since = None
            if card.status == "draining" and not seat.shards:
                self._again(seat)
            else:
                self._find_lost(seat, card, now)
        for name, seat in list(self._seats.items()):
            if name in living:
                continue
            if seat.missing_since is None:
                seat.missing_since = now
            elif now - seat.missing_since > _MISSING_S:  # else the broker itself was started anew
                self._gone(seat, f"has given no sign for {LEASE_S + _MISSING_S:.0f} s")

    def _come(self, card: Card, now: float) -> None:
        if now < self._not_before.get(card.name, 0.0):
            return
        why = self._why_not(card)
        if why:
            if self._refused.get(card.name) != why:
                self._refused[card.name] = why
                if card.status != "draining":
                    self._warn(f"{card.name} is not used: {why}")
            return
        self._refused.pop(card.name, None)
        self._number += 1
        seat = Seat(self._number, card, self._calls, self._events)
        self._seats[card.name] = self._coming[seat.number] = seat
        self._first.set()
        log.info("%s works with us", seat.called)
        self._events.put(Said(seat.number, wire.Ready(0.0, card.name, card.version)))

    def _why_not(self, card: Card) -> str:
        """Why a worker must not be given anything; empty when it may be."""
        if card.version != __version__ or card.protocol != PROTOCOL:
            return f"it runs anyrig {card.version}, this is {__version__}"
        if card.status == "draining":
            return "it is about to leave"
        mine, theirs = self._calls.offer, card.offer(self._calls.offer.engine)
        if theirs is None:
            return f"it has no {mine.engine}"
        return mine.differs(theirs)

    def _gone(self, seat: Seat, said: str) -> None:
        if self._seats.get(seat.card.name) is seat:
            del self._seats[seat.card.name]
            self._events.put(Said(seat.number, Gone(said)))

    def _again(self, seat: Seat, wait_s: float = 0.0) -> None:
        """What a worker has is taken back, and nobody is to blame; it may take a seat again."""
        self._not_before[seat.card.name] = time.monotonic() + wait_s
        self._events.put(Said(seat.number, wire.Begun(())))
        self._gone(seat, _AGAIN)

    def _find_lost(self, seat: Seat, card: Card, now: float) -> None:
        """A shard that was sent a while ago and is neither with its worker nor on the way."""
        seat.card = card
        late = [id for id, when in list(seat.sent.items())
                if now - when > _LOST_S and id not in card.holds]  # fmt: skip
        if not late or self._calls.waiting([card.queue])[card.queue]:
            return
        for id, answer in self._calls.look(late):
            self._answered(id, answer)
        still = [id for id in late if id in seat.shards]
        if still and now - min(seat.sent.get(id, now) for id in still) > 2 * _LOST_S:
            log.warning("%s of %s got lost; given again", plural(len(still), "shard"), seat.called)
            self._again(seat)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            log.warning("%s", text)

    # -- answers ---------------------------------------------------------------------------------

    def _answered(self, id: str, answer: Answer | None) -> None:
        seat = next((one for one in self._seats.values() if id in one.shards), None)
        if seat is None:
            return
        indices = seat.shards.pop(id)
        seat.sent.pop(id, None)
        if answer is None or answer.refused:
            said = answer.refused if answer is not None else "its answer could not be read"
            self._refused[seat.card.name] = said
            self._warn(f"{seat.called} gave a shard back: {said}")
            self._again(seat, _ASIDE_S)
            return
        parcels = tuple(_There(n, one) for n, one in answer.recordings.items() if n in indices)
        failures = tuple((n, one) for n, one in answer.failures.items() if n in indices)
        self._events.put(Said(seat.number, _done(answer, parcels, failures, seat.at_work)))
        if answer.left:
            self._again(seat)


_AGAIN = "takes its seat again"


class _There:
    """A result that is here already, in the place of a parcel."""

    def __init__(self, number: int, thing: Any) -> None:
        self.number, self._thing = number, thing

    def opened(self) -> Any:
        """What it is."""
        return self._thing


def _done(
    answer: Answer, parcels: tuple[Any, ...], failures: tuple[tuple[int, Failure], ...],
    begun: tuple[int, ...],
) -> wire.Done:  # fmt: skip
    return wire.Done(
        parcels,
        failures,
        begun,
        answer.cost,
        answer.cost,
        answer.seconds,
        answer.num_batches,
        answer.num_out_of_memory,
        None,
        Budget(0.0, 1),
        0.0,
        None,
    )
