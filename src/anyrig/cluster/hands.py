"""Who of a cluster works for a run: seats for workers that match, given up by those that left."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.cluster.calls import Calls, Heard
from anyrig.cluster.card import Card
from anyrig.cluster.link import BEAT_S, PATIENCE_S, BrokerUnavailableError
from anyrig.cluster.seat import AGAIN, Seat
from anyrig.cluster.shard import Answer, Order
from anyrig.errors import AnyrigError, WorkError
from anyrig.units import pluralize
from anyrig.work.protocol import WorkerSource
from anyrig.work.scheduler import WorkerLoad

if TYPE_CHECKING:
    from anyrig.cluster.review import Review
    from anyrig.work.pool import WorkerPool
    from anyrig.work.protocol import WorkerExited

log = logging.getLogger(__name__)
_LOOK_S, _LOOK_EACH_S = 1.0, 0.002
_MISSING_S = 4.0
"""A broker that was started anew has heard from every worker after this."""
_SAID_S = 3.0
"""When nobody is there for so long, that is said."""
_LOST_S = 6.0
"""A shard that its worker does not know after so long may have got lost with the broker."""
_ASIDE_S = (2.0, 10.0, 30.0, 120.0, 600.0)
"""How long a worker that gave a shard back is left alone: the first time, and after that."""
_REFUSALS = 3
"""One that gave back so many shards, and did none since, is nobody to wait for."""
_REMEMBERED = 1024
"""So many workers that are no more are remembered."""
_UNREAD = "its answer cannot be read"
_HURRY = 8
"""Answers that may wait to be looked at before only those of new workers are."""
_LEAST_AHEAD, _AHEAD = 512, 64
"""Lines that are under way at least, and for each worker: takes of as many may wait in memory."""


class _Waiting(NamedTuple):
    """An answer that is to be looked at."""

    seat: Seat
    id: str
    order: Order
    answer: Answer


class _Reviewed(NamedTuple):
    """What was made of one."""

    seat: Seat
    id: str
    answer: Answer | None
    unread: str = ""
    differs: str = ""


class Hands(WorkerSource):
    """The roster of a fleet. One thread listens to the broker; the shift does all the rest."""

    def __init__(self, calls: Calls, *, patience_s: float, review: Review | None = None) -> None:
        self._calls, self._patience_s = calls, patience_s
        self._review = review
        self.on_distrust: Callable[[str], int] = lambda name: 0
        """Drops the takes of a worker, and says how many there were."""
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        """Answers that are looked at before they count."""
        self._reviewed: deque[_Reviewed] = deque()
        self._in_review: set[str] = set()
        self._distrusted: set[str] = set()
        """Workers by name whose takes differ from ours."""
        self._seats: dict[str, Seat] = {}
        """By name; changed by the listening thread alone."""
        self._numbers: dict[int, Seat] = {}
        """The same by number."""
        self._loads: dict[str, WorkerLoad[Any]] = {}
        """By worker, whatever seat it has: its speed is remembered."""
        self._mourned: dict[str, Sequence[int]] = {}
        """By a worker's start: what it had when it was given up. It may only have been asleep."""
        self._alone_since = self._said_alone = time.monotonic()
        """Since when nobody is there, and of which such time that was said."""
        self._first = threading.Event()
        self._refused: dict[str, str] = {}
        """Why a worker is given nothing."""
        self._refusals: dict[str, int] = {}
        """By a worker's start: shards that it gave back since it last did one."""
        self._not_before: dict[str, float] = {}
        """When a worker that gave something back is asked again."""
        self._away_since: float | None = None
        self._back_at = 0.0
        """When the broker was last found again."""
        self._error: AnyrigError | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="anyrig-hands", daemon=True)
        self._reviewer = threading.Thread(
            target=self._review_all, name="anyrig-review", daemon=True
        )

    def start(self, pool: WorkerPool) -> None:
        """Begin to listen."""
        self._pool = pool
        self._thread.start()
        if self._review is not None:
            self._reviewer.start()

    def close(self) -> None:
        """Listen no more."""
        self._end.set()
        for seat in list(self._seats.values()):
            seat.end(AGAIN)
        self._thread.join(timeout=3)
        if self._review is not None:
            self._waiting.put(None)
            self._reviewer.join(timeout=3)
            self._review.close()

    @property
    def devices(self) -> list[str]:
        """Everybody who is there, by name."""
        return list(self._seats)

    @property
    def loading(self) -> bool:
        """Whether nobody has been there yet."""
        return not self._first.is_set()

    @property
    def look_ahead(self) -> int:
        """Takes of as many lines may wait in memory."""
        return max(_LEAST_AHEAD, _AHEAD * len(self._seats))

    # -- what a shift asks -----------------------------------------------------------------------

    def check(self) -> AnyrigError | None:
        """An error when nobody has worked for too long."""
        if self._error is not None:
            return self._error
        if self._somebody or self._away_since is not None:
            self._alone_since = time.monotonic()
            return None
        engine, alone_s = self._calls.offer.engine, time.monotonic() - self._alone_since
        if alone_s > _SAID_S and self._said_alone != self._alone_since:
            self._said_alone = self._alone_since
            left_s = self._patience_s - alone_s
            if left_s > _SAID_S:
                log.warning(
                    "no worker is there that can speak with %s; waiting %.0f s for one",
                    engine,
                    left_s,
                )
        if alone_s < self._patience_s:
            return None
        why = "; ".join(f"{name}: {said}" for name, said in list(self._refused.items()))
        return WorkError(
            f"no worker of the cluster can speak with {engine}" + (f" ({why})" if why else ""),
            hint="`anyrig cluster status` shows who is there; `anyrig worker --join TOKEN` joins.",
        )

    @property
    def _somebody(self) -> bool:
        """Whether anybody has a seat who may be hoped to do something."""
        seats = list(self._seats.values())
        return any(self._refusals.get(seat.card.run, 0) < _REFUSALS for seat in seats)

    def add_worker(self, worker: Seat, load: WorkerLoad[Any]) -> None:
        """A worker that comes back as the one it was did not die: nothing killed it."""
        for index in self._mourned.pop(worker.card.run, ()):
            self._pool.failures.forgive_item(index, worker.device)
        known = worker.card.speeds.get(self._calls.offer.engine)
        before = self._loads.get(worker.card.name)
        if before is not None:
            known = before.rate or known or before.expected_rate
        load.expected_rate = known
        self._loads[worker.card.name] = load
        for book in (self._loads, self._mourned, self._refused, self._refusals, self._not_before):
            if len(book) > _REMEMBERED + len(self._seats):
                del book[next(iter(book))]

    def remove_worker(self, worker: Seat, exited: WorkerExited, suspects: Sequence[int]) -> None:
        """A worker is gone; it may come back and is welcome."""
        worker.end(exited.reason)
        if not exited.crashed:
            return
        self._mourned[worker.card.run] = suspects
        others = any(seat is not worker for seat in list(self._seats.values()))
        way = "goes to others" if others else "waits"
        self._pool.warn(f"{worker.title} {exited.reason}; its work {way}")

    def end_run(self) -> None:
        """Whoever still works for the run stops; the next one plans with the speeds of this."""
        self._calls.over()
        for seat in list(self._seats.values()):
            load = self._pool.loads.get(seat.number)
            if load is not None:
                self._pool.loads[seat.number] = self._loads[seat.card.name] = WorkerLoad(
                    seat.number, load.rate or load.expected_rate, draining=load.draining
                )

    # -- listening -------------------------------------------------------------------------------

    def _listen(self) -> None:
        following = 0.0
        while not self._end.is_set():
            try:
                now = time.monotonic()
                if now >= following:
                    self._calls.renew()
                    living = self._calls.living()
                    # They give a sign every two seconds: of very many, none is looked at twice.
                    following = now + min(BEAT_S, max(_LOOK_S, len(living) * _LOOK_EACH_S))
                    self._here(now)
                    self._look(living, now)
                for heard in self._calls.answers():
                    self._answered(heard)
                while self._reviewed:
                    self._judged(self._reviewed.popleft())
            except Exception as error:  # noqa: BLE001 - told, and tried again
                self._away(error)

    def _here(self, now: float) -> None:
        """The broker answers. Whoever it does not know may not have found it again yet."""
        if self._away_since is None:
            return
        log.warning("the broker is back")
        self._away_since, self._back_at = None, now
        for seat in self._seats.values():
            seat.missing_since = None

    def _away(self, error: Exception) -> None:
        """The broker is away, or something is wrong: what is at work goes on meanwhile."""
        now = time.monotonic()
        if "redis" not in type(error).__module__ and not isinstance(error, OSError):
            log.error("something went wrong while listening", exc_info=error)
        elif self._away_since is None:
            log.warning("the broker is away: %s", error)
        if self._away_since is None:
            self._away_since = now
        if now - self._away_since > PATIENCE_S:
            self._error = BrokerUnavailableError(
                f"the broker has been away for {now - self._away_since:.0f} s: {error}",
                hint="Start it again and run the same command: what was made is kept.",
            )
        self._end.wait(0.5)

    def _look(self, living: dict[str, Card], now: float) -> None:
        """Who has come, who is gone, and what got lost."""
        for name, card in living.items():
            seat = self._seats.get(name)
            if seat is not None and seat.card.run != card.run:
                self._gone(seat, AGAIN if seat.idle else "was started anew")
                seat = None
            if seat is None:
                self._come(card, now)
            else:
                self._stay(seat, card, now)
        for name, seat in list(self._seats.items()):
            if name in living:
                continue
            if seat.missing_since is None:
                seat.missing_since = now
            elif now - seat.missing_since > _MISSING_S:
                fair = seat.idle or seat.leaving
                self._gone(seat, AGAIN if fair else "has left, or gives no sign any more")

    def _stay(self, seat: Seat, card: Card, now: float) -> None:
        """A worker that has a seat gave a sign."""
        seat.missing_since, seat.card = None, card
        if seat.closed:
            self._aside(seat, _ASIDE_S[-1])
            return
        if card.status == "draining":
            seat.leave()
        if seat.leaving and seat.idle:
            self._aside(seat, _ASIDE_S[0])
        else:
            self._find_lost(seat, now)

    def _come(self, card: Card, now: float) -> None:
        if card.name in self._distrusted or now < self._not_before.get(card.name, 0.0):
            return
        why = self._why_not(card)
        if why:
            if self._refused.get(card.name) != why:
                self._refused[card.name] = why
                if card.status != "draining":
                    self._pool.warn(f"{card.name} is not used: {why}")
            return
        self._refused.pop(card.name, None)
        seat = Seat(self, next(self._pool.numbers), card, self._calls, self._pool.events)
        self._seats[card.name] = self._numbers[seat.number] = seat
        self._first.set()
        log.info("%s works with us", seat.title)
        seat.take()

    def _why_not(self, card: Card) -> str:
        """Why a worker must not be given anything; empty when it may be."""
        if other := card.differs():
            return other
        if card.status == "draining":
            return "it is about to leave"
        mine, theirs = self._calls.offer, card.offer(self._calls.offer.engine)
        if theirs is None:
            return f"it has no {mine.engine}"
        able = card.precisions.get(mine.engine, ())
        if able and self._calls.precision not in able:
            return f"it computes {mine.engine} in {', '.join(able)}, not in {self._calls.precision}"
        return mine.differs(theirs)

    def _gone(self, seat: Seat, said: str) -> None:
        del self._seats[seat.card.name], self._numbers[seat.number]
        seat.end(said)

    def _aside(self, seat: Seat, wait_s: float) -> None:
        """What a worker has is taken back, and nobody is to blame; it may take a seat again."""
        self._not_before[seat.card.name] = time.monotonic() + wait_s
        self._gone(seat, AGAIN)

    def _find_lost(self, seat: Seat, now: float) -> None:
        """A shard that was sent a while ago and is neither with its worker nor on the way."""
        if now - self._back_at < 2 * _LOST_S:
            return  # the broker was away: worker and queue are only just finding each other
        late = [id for id in seat.unheard(now, _LOST_S) if id not in self._in_review]
        if not late:
            return
        for heard in self._calls.look(late):
            self._answered(heard)
        lost = set(seat.unheard(now, 2 * _LOST_S)).difference(
            self._calls.queued(seat.card.queue), self._in_review
        )
        for id in lost:
            self._calls.forget(id)
            seat.answered(id, None)
        if lost:
            log.warning("%s of %s got lost; given again", pluralize(len(lost), "shard"), seat.title)

    # -- answers ---------------------------------------------------------------------------------

    def _answered(self, heard: Heard) -> None:
        seat = self._numbers.get(heard.sent.seat) if heard.sent is not None else None
        if seat is None or not seat.knows(heard.id):
            seat = next((one for one in self._seats.values() if one.knows(heard.id)), None)
        if seat is None:
            return
        if heard.sent is None:  # it was dropped, and its worker knows now
            seat.answered(heard.id, None)
            return
        answer = heard.answer
        if answer is not None and answer.is_lost:
            seat.answered(heard.id, None)
        elif answer is None or answer.refused:
            said = answer.refused if answer is not None else _UNREAD
            self._refuse(seat, said)
        elif self._review is not None and answer.recordings:
            order = heard.sent.order
            if self._review.hold:
                self._in_review.add(heard.id)
                self._waiting.put(_Waiting(seat, heard.id, order, answer))
            else:
                self._take_at_once(seat, heard.id, order, answer)
        else:
            self._taken(seat, heard.id, answer)

    def _taken(self, seat: Seat, id: str, answer: Answer) -> None:
        """An answer counts."""
        if not seat.answered(id, answer):
            seat.leave()  # all of it is left: asked again it would say the same
            if seat.idle:
                self._aside(seat, _ASIDE_S[0])
        elif not answer.recordings and len(answer.failures) > 1:
            # All of several lines: the worker is at fault rather than they.
            self._refuse(seat, next(iter(answer.failures.values())).message)
        else:
            self._refusals.pop(seat.card.run, None)

    # -- what is made of them --------------------------------------------------------------------

    def _review_all(self) -> None:
        """In a thread of its own: to make a line here takes a while."""
        while (one := self._waiting.get()) is not None:
            if self._end.is_set():
                continue
            try:
                self._reviewed.extend(self._look_at(one))
            except Exception:
                log.exception("an answer could not be looked at")
                self._reviewed.append(_Reviewed(one.seat, one.id, None, unread=_UNREAD))
            self._calls.wake()

    def _look_at(self, one: _Waiting) -> Iterator[_Reviewed]:
        assert self._review is not None
        card, answer = one.seat.card, one.answer
        if self._review.hold:
            try:
                answer = self._review.examined(one.order, answer, card.name)
            except (AnyrigError, ValueError) as error:
                yield _Reviewed(one.seat, one.id, None, unread=f"a take cannot be read: {error}")
                return
        said = ""
        try:
            hurry = self._waiting.qsize() > _HURRY
            said = self._review.differs(one.order, answer, card.run, hurry=hurry)
        except Exception:  # our own fault, and not the worker's
            log.exception("a take could not be compared")
        if said:
            yield _Reviewed(one.seat, one.id, None, differs=said)
        elif self._review.hold:
            yield _Reviewed(one.seat, one.id, answer)

    def _take_at_once(self, seat: Seat, id: str, order: Order, answer: Answer) -> None:
        """Somebody listens: an answer counts when it was examined, and is compared after that."""
        assert self._review is not None
        try:
            answer = self._review.examined(order, answer, seat.card.name)
        except (AnyrigError, ValueError) as error:
            self._refuse(seat, f"a take cannot be read: {error}")
            return
        self._taken(seat, id, answer)
        if self._waiting.qsize() <= _HURRY:
            self._waiting.put(_Waiting(seat, id, order, answer))

    def _judged(self, one: _Reviewed) -> None:
        self._in_review.discard(one.id)
        if one.differs:
            self._distrust(one.seat, one.differs)
        elif self._numbers.get(one.seat.number) is not one.seat:
            return  # given up meanwhile: its lines were given to others
        elif one.answer is None:
            self._refuse(one.seat, one.unread)
        else:
            self._taken(one.seat, one.id, one.answer)

    def _distrust(self, seat: Seat, said: str) -> None:
        """A worker's take is not what the engine says here: nothing of it is used any more."""
        name = seat.card.name
        if name in self._distrusted:
            return
        self._distrusted.add(name)
        self._refused[name] = "its takes differ from those of this machine"
        if self._numbers.get(seat.number) is seat:
            self._gone(seat, AGAIN)
        count = self.on_distrust(name)
        more = (
            f"; {pluralize(count, 'take')} that it made before were dropped from the cache, and may"
            " be heard in what was written: run the same command again"
            if count
            else ""
        )
        self._pool.warn(
            f"{seat.title} is set aside, as it speaks wrongly: {said}, compared with the same line"
            f" made here{more}"
        )

    def _refuse(self, seat: Seat, said: str) -> None:
        """A worker gave a shard back: it is left alone for a while, each time for longer."""
        count = self._refusals[seat.card.run] = self._refusals.get(seat.card.run, 0) + 1
        self._refused[seat.card.name] = said
        self._pool.warn(f"{seat.title} gave a shard back: {said}")
        self._aside(seat, _ASIDE_S[min(count, len(_ASIDE_S)) - 1])
