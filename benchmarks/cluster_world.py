"""A room of workers with a clock of its own, under the real scheduler and dispatch loop.

Nothing here decides anything: orders and answers take their time on the way, a worker does its
shards one after the other at its own speed, and some die, freeze, come back or come late. What is
known of a shard is known when all of it is done. The lease is the cluster's: a worker that gives no
sign is believed gone after it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyrig.cluster.pool import MAX_IN_FLIGHT
from anyrig.work.batching import WorkItem
from anyrig.work.dispatch import DispatchLoop
from anyrig.work.outcome import BatchStats, ItemOutcome, RunReport
from anyrig.work.pool import WorkerPool
from anyrig.work.protocol import (
    BatchDone,
    Draining,
    EngineReady,
    ItemsReturned,
    ItemsStarted,
    WorkerEvent,
    WorkerExited,
    WorkerSource,
)
from anyrig.work.scheduler import Scheduler, WorkerLoad
from benchmarks.cluster_clock import Events, Stream, Timeline
from benchmarks.cluster_fates import Worker

LEASE_S = 14.0
"""When a worker without a heartbeat is believed gone: `LEASE_S` of the broker, and four seconds."""
AGAIN = "takes its seat again"
"""How a worker ended that did not die: nobody is to blame."""


@dataclass(frozen=True)
class Settings:
    """How far the workers are, and what the plan is told of it."""

    slice_s: float = 1.0
    low_s: float = 0.2
    way_s: float = 0.01
    """How long an order travels, and an answer."""
    known: bool = True
    """Whether speeds are known before the first answer."""
    by_item: bool = False
    """Whether every item is answered by itself, as by processes of the same machine."""
    noise: float = 0.0
    """How much the time that one shard takes differs from what it should."""
    lease_s: float = LEASE_S
    look_s: float = 1.0
    """How often a worker asks whether what it does is still wanted."""

    def plan(self, workers: dict[int, WorkerLoad[Any]]) -> Scheduler[Any]:
        return Scheduler(workers, slice_s=self.slice_s, low_s=self.low_s, known_speeds=self.known)


FAR = Settings()
NEAR = Settings(0.1, 0.02, 0.0005, known=False, by_item=True, lease_s=0.05, look_s=0.0)


@dataclass
class Told:
    """What came of it."""

    end: float
    num_done: int
    lost: float
    """The cost of what was computed by workers that then died, less what was finished by workers
    that had said they leave.
    """
    num_events: int
    num_answers: int
    """Items that were computed, those that were computed twice among them."""
    scheduler: Scheduler[Any] = field(repr=False)


class Seat:
    """A worker as the shift sees it, and as it is."""

    def __init__(self, room: Room, number: int, place: str, fate: Worker) -> None:
        self.number, self.device, self.title, self.fate = number, place, place, fate
        self._room = room
        self._shards: list[list[WorkItem[Any]]] = []
        self._there: list[list[WorkItem[Any]]] = []
        self._now: list[WorkItem[Any]] | None = None
        self._run, self._began = 0, 0.0
        self.dead = False
        self.frozen = False
        self.left_at: float | None = None
        """When it said that it leaves."""

    # -- asked by the shift ----------------------------------------------------------------------

    last_heartbeat = None
    confirm_errors = False

    @property
    def source(self) -> Room:
        return self._room

    def send_items(self, items: Sequence[WorkItem[Any]]) -> list[tuple[int, str]]:
        room = self._room
        if self.left_at is not None:  # the shift has not heard yet that it leaves
            room.say(self, ItemsReturned(tuple(item.index for item in items)))
            return []
        for shard in [[item] for item in items] if room.how.by_item else [list(items)]:
            if not self._shards:
                room.say(self, ItemsStarted(tuple(item.index for item in shard)))
            self._shards.append(shard)
            room.line.at(room.line.now + room.how.way_s, partial(self._comes, shard))
        self._limit()
        return []

    def _limit(self) -> None:
        """A worker of a cluster has at most two tasks in flight; a process as many as it gets."""
        load = self._room.pool.loads.get(self.number)
        if load is not None:
            load.full = not self._room.how.by_item and len(self._shards) >= MAX_IN_FLIGHT

    def cancel_items(self, indices: Sequence[int]) -> None:
        gone = set(indices)
        for shard in [one for one in self._shards if gone.issuperset(i.index for i in one)]:
            self._shards.remove(shard)
            self._room.say(self, ItemsReturned(tuple(item.index for item in shard)))
            if shard is self._now:
                look = self._room.how.look_s
                if look:
                    line = self._room.line
                    line.at(line.now + look, partial(self._leaves, self._run))
            elif shard in self._there:
                self._there.remove(shard)
        self._limit()
        self._gone_if_idle()

    def stop(self) -> None:
        self._shards.clear()

    # -- what it does ----------------------------------------------------------------------------

    def _comes(self, shard: list[WorkItem[Any]]) -> None:
        if not self.dead and shard in self._shards:
            self._there.append(shard)
            self._begin()

    def _begin(self) -> None:
        if self._now is None and self._there and not self.dead and not self.frozen:
            self._now = self._there.pop(0)
            self._run += 1
            cost = sum(item.cost for item in self._now)
            spread = self._room.how.noise
            took = cost / self.fate.speed * (1 + self._room.rng.uniform(-spread, spread))
            run, line = self._run, self._room.line
            self._began = line.now
            line.at(line.now + took, lambda: self._ends(run, took))

    def _ends(self, run: int, took: float) -> None:
        if run != self._run or self._now is None or self.dead:
            return
        if self.frozen:
            self._room.line.at(self._room.line.now + 0.1, lambda: self._ends(run, took + 0.1))
            return
        shard, self._now = self._now, None
        room = self._room
        room.num_answers += len(shard)
        if self.left_at is not None:
            room.lost -= min(took, room.line.now - self.left_at) * self.fate.speed
        room.line.at(room.line.now + room.how.way_s, lambda: self._answer(shard, took))
        self._begin()

    def _leaves(self, run: int) -> None:
        if run == self._run and self._now is not None:
            self._now = None
            self._run += 1
            self._begin()

    def _answer(self, shard: list[WorkItem[Any]], took: float) -> None:
        """It has arrived; what nobody waits for any more is not looked at."""
        if shard not in self._shards:
            return
        self._shards.remove(shard)
        self._limit()
        cost = sum(item.cost for item in shard)
        following = self._shards[0] if self._shards else ()
        results = tuple((item.index, None) for item in shard)
        started = tuple(item.index for item in following)
        stats = BatchStats(1, cost, cost, took)
        self._room.say(self, BatchDone(results, (), started, stats))
        self._gone_if_idle()

    def leaves(self) -> None:
        self.left_at = self._room.line.now
        self._room.say(self, Draining())
        self._gone_if_idle()

    def _gone_if_idle(self) -> None:
        """It has said that it leaves, and has brought what it had."""
        if self.left_at is not None and not self._shards and not self.dead:
            self.dead = True
            self._room.left(self)

    def dies(self) -> None:
        now = self._room.line.now
        self.dead = not self.fate.freezes
        self.frozen = self.fate.freezes
        back = self.fate.back if self.fate.freezes else None
        if back is not None and back - now < self._room.how.lease_s:
            return
        if self._now is not None:
            self._room.lost += (now - self._began) * self.fate.speed


class Room(WorkerSource):
    """The roster of a shift: everybody in the room."""

    def __init__(self, line: Timeline, how: Settings, fates: Sequence[Worker], seed: int) -> None:
        self.line, self.how, self.rng = line, how, random.Random(seed)
        self._fates = [(f"w{number}", fate) for number, fate in enumerate(fates)]
        self._rates: dict[str, WorkerLoad[Any]] = {}
        self.lost = 0.0
        self.num_answers = 0

    def start(self, pool: WorkerPool) -> None:
        self.pool = pool
        events: Any = Events(self.line, 1e6)
        pool.events = events
        for place, fate in self._fates:
            self._plan_fate(place, fate)

    def say(self, seat: Seat, message: Any) -> None:
        self.pool.events.put(WorkerEvent(seat, message))

    def _plan_fate(self, place: str, fate: Worker) -> None:
        seat = Seat(self, next(self.pool.numbers), place, fate)
        if fate.comes <= 0.0:
            self.pool.handle_arrival(seat, EngineReady(0.0))
        else:
            ready = partial(self.say, seat, EngineReady(0.0))
            ready() if fate.comes <= self.line.now else self.line.at(fate.comes, ready)
        if fate.dies is None:
            return
        if fate.leaves:
            self.line.at(fate.dies, seat.leaves)
            return
        self.line.at(fate.dies, seat.dies)
        if fate.restarts:
            self.line.at(fate.dies, lambda: self._restarted(seat))
            return
        gone = fate.dies + self.how.lease_s
        back = fate.back
        if back is not None and fate.freezes and back < gone:
            self.line.at(back, lambda: self._thaws(seat))
            return
        self.line.at(gone, lambda: self.say(seat, WorkerExited("has given no sign")))
        if back is not None:
            again = Worker(fate.speed, comes=max(back, gone + 0.1))
            self.line.at(gone, lambda: self._plan_fate(place, again))

    def _restarted(self, seat: Seat) -> None:
        """One look finds the worker under its name with another beginning: gone and there."""
        self.say(seat, WorkerExited("was started anew"))
        self._plan_fate(seat.device, Worker(seat.fate.speed, comes=self.line.now))

    def left(self, seat: Seat) -> None:
        """It has said that it leaves, and has nothing any more; it may come back."""
        self.say(seat, WorkerExited(AGAIN, crashed=False))
        if seat.fate.back is not None:
            again = Worker(seat.fate.speed, comes=max(seat.fate.back, self.line.now))
            self._plan_fate(seat.device, again)

    def _thaws(self, seat: Seat) -> None:
        seat.frozen = False
        seat._begin()

    # -- what a shift asks -----------------------------------------------------------------------

    @property
    def devices(self) -> list[str]:
        return [seat.device for seat in self.pool.workers_by_number.values()]

    def check(self) -> None: ...

    def add_worker(self, worker: Seat, load: WorkerLoad[Any]) -> None:
        before = self._rates.get(worker.device)
        if self.how.known:
            load.expected_rate = worker.fate.speed
        if before is not None and before.rate is not None:
            load.expected_rate = before.rate
        self._rates[worker.device] = load

    def remove_worker(self, worker: Seat, exited: WorkerExited, suspects: Sequence[int]) -> None:
        worker.stop()


def play(
    costs: Sequence[float],
    fates: Sequence[Worker | float],
    how: Settings = FAR,
    *,
    comes: Sequence[float] | None = None,
    seed: int = 0,
) -> Told:
    """A run to its end: when the last result was there.

    Args:
        costs: of the items, in the order of the input; in seconds of a worker of speed 1.
        fates: the workers, or only their speeds.
        how: how far they are.
        comes: when each item comes; all at once where nothing is said.
        seed: of what is left to chance.
    """
    line = Timeline()
    workers = [Worker(one) if isinstance(one, (int, float)) else one for one in fates]
    room = Room(line, how, workers, seed)
    moments: list[float] = []

    def emit(outcome: ItemOutcome[Any] | BaseException | None) -> None:
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is not None:
            assert outcome.failure is None, outcome.failure
            moments.append(line.now)

    pool = WorkerPool(room, scheduler=how.plan, clock=lambda: line.now)
    stream: Any = Stream(line, costs, comes if comes is not None else [0.0] * len(costs))
    loop = DispatchLoop(pool, stream, emit, RunReport())
    loop.run()
    assert len(moments) == len(costs)
    return Told(
        moments[-1], len(moments), room.lost, line.num_events, room.num_answers, loop.scheduler
    )
