"""A simulated cluster: the real scheduler and dispatch loop over workers with a virtual clock.

Messages take their time on the way; a worker computes its shards one after the other at its own
speed, and some crash, freeze, leave, return or join late. Results of a shard arrive together when
all of it is done. A worker without a heartbeat is removed after its lease.
"""

from __future__ import annotations

import heapq
import itertools
import queue
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from anyrig.cluster.pool import MAX_IN_FLIGHT
from anyrig.work.batching import ItemStream, WorkItem
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

LEASE_S = 14.0
"""Until a worker without a heartbeat is removed: the broker's `LEASE_S`, and four seconds."""
_GIVE_UP_S = 1e6


@dataclass(frozen=True)
class SimulatedWorker:
    """A worker's speed, and its faults."""

    speed: float
    joins_s: float = 0.0
    fails_s: float | None = None
    """When it crashes, freezes, restarts or leaves."""
    returns_s: float | None = None
    """When it works again after that; None for never."""
    freezes: bool = False
    """It does not crash: when it returns, it continues with what it had."""
    restarts: bool = False
    """It starts again under its name at once: exit and start are seen together."""
    leaves: bool = False
    """It does not crash: it announces that it leaves, and finishes what it has."""


@dataclass(frozen=True)
class SimulationSettings:
    """How far away the workers are, and what the scheduler is told."""

    slice_s: float = 1.0
    low_s: float = 0.2
    latency_s: float = 0.01
    """Of a message, one way."""
    known: bool = True
    """Whether speeds are known before the first result."""
    by_item: bool = False
    """Whether each item has its own result, as from processes of the same machine."""
    noise: float = 0.0
    """How much the time of a shard varies, as a share of it."""
    lease_s: float = LEASE_S
    cancel_check_s: float = 1.0
    """How often a worker looks whether its shard was cancelled."""

    def make_scheduler(self, workers: dict[int, WorkerLoad[Any]]) -> Scheduler[Any]:
        return Scheduler(workers, slice_s=self.slice_s, low_s=self.low_s, known_speeds=self.known)


REMOTE = SimulationSettings()
LOCAL = SimulationSettings(
    0.1, 0.02, 0.0005, known=False, by_item=True, lease_s=0.05, cancel_check_s=0.0
)


@dataclass
class SimulationResult:
    end_s: float
    num_done: int
    lost: float
    """Cost of what was computed by workers that then crashed, less what was finished by workers
    after they had announced that they leave.
    """
    num_events: int
    num_computed: int
    """Items that were computed, counting those that were computed twice."""
    scheduler: Scheduler[Any] = field(repr=False)


def simulate(
    costs: Sequence[float],
    workers: Sequence[SimulatedWorker | float],
    settings: SimulationSettings = REMOTE,
    *,
    arrivals_s: Sequence[float] | None = None,
    seed: int = 0,
) -> SimulationResult:
    """Run all items to the end.

    Args:
        costs: of the items in order, in seconds of a worker of speed 1.
        workers: or only their speeds.
        settings: of the cluster.
        arrivals_s: when each item arrives; all at 0 when not given.
        seed: of the noise.
    """
    clock = VirtualClock()
    cluster = SimulatedCluster(clock, settings, _as_workers(workers), seed)
    done_s: list[float] = []

    def emit(outcome: ItemOutcome[Any] | BaseException | None) -> None:
        if isinstance(outcome, BaseException):
            raise outcome
        if outcome is not None:
            assert outcome.failure is None, outcome.failure
            done_s.append(clock.now)

    pool = WorkerPool(cluster, scheduler=settings.make_scheduler, clock=lambda: clock.now)
    source: Any = _TimedSource(clock, costs, arrivals_s or [0.0] * len(costs))
    loop = DispatchLoop(pool, source, emit, RunReport())
    loop.run()
    assert len(done_s) == len(costs)
    return SimulationResult(
        done_s[-1], len(done_s), cluster.lost, clock.num_events, cluster.num_computed,
        loop.scheduler,
    )  # fmt: skip


def _as_workers(workers: Sequence[SimulatedWorker | float]) -> list[SimulatedWorker]:
    return [SimulatedWorker(one) if isinstance(one, (int, float)) else one for one in workers]


# -- the clock -----------------------------------------------------------------------------------


class VirtualClock:
    """Events in the order of their times; nothing really waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._ticket = itertools.count()
        self.num_events = 0

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (max(when, self.now), next(self._ticket), callback))

    def call_after(self, delay: float, callback: Callable[[], None]) -> None:
        self.call_at(self.now + delay, callback)

    def step(self, until: float) -> bool:
        """Run the next event before a time; False where there is none."""
        if not self._heap or self._heap[0][0] > until:
            self.now = until
            return False
        self.now, _, callback = heapq.heappop(self._heap)
        self.num_events += 1
        callback()
        return True


class _EventQueue:
    """Replaces the queue that the dispatch loop waits on: waiting advances the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._events = clock, list[WorkerEvent]()

    def put(self, event: WorkerEvent) -> None:
        self._events.append(event)

    def get(self, timeout: float) -> WorkerEvent:
        until = self._clock.now + timeout
        while not self._events:
            if not self._clock.step(until):
                assert self._clock.now < _GIVE_UP_S, "the simulation does not end"
                raise queue.Empty
        return self._events.pop(0)

    def get_nowait(self) -> WorkerEvent:
        if not self._events:
            raise queue.Empty
        return self._events.pop(0)


class _TimedSource(ItemStream):
    """Replaces the source of items: each arrives at its time."""

    def __init__(
        self, clock: VirtualClock, costs: Sequence[float], arrivals_s: Sequence[float]
    ) -> None:
        self._clock, self.first, self.error = clock, 0, None
        pairs = enumerate(zip(arrivals_s, costs, strict=True))
        self._left = [(when, WorkItem(number, None, cost)) for number, (when, cost) in pairs]
        self._left.reverse()
        self.ended = not self._left

    def take(self, *, wait: bool) -> Iterator[WorkItem[Any]]:
        while self._left and self._left[-1][0] <= self._clock.now:
            item = self._left.pop()[1]
            self.ended = not self._left
            yield item


# -- workers -------------------------------------------------------------------------------------


class WorkerSimulator:
    """A worker as the dispatch loop sees it, and what it really does."""

    last_heartbeat = None
    confirm_errors = False

    def __init__(
        self, cluster: SimulatedCluster, number: int, name: str, worker: SimulatedWorker
    ) -> None:
        self.number, self.device, self.title, self.worker = number, name, name, worker
        self._cluster = cluster
        self._sent: list[list[WorkItem[Any]]] = []
        """Shards whose results the dispatch loop waits for."""
        self._received: list[list[WorkItem[Any]]] = []
        self._running: list[WorkItem[Any]] | None = None
        self._run, self._started_s = 0, 0.0
        self.dead = self.frozen = False
        self.left_s: float | None = None
        """When it announced that it leaves."""

    # -- called by the dispatch loop -------------------------------------------------------------

    @property
    def source(self) -> SimulatedCluster:
        return self._cluster

    def send_items(self, items: Sequence[WorkItem[Any]]) -> list[tuple[int, str]]:
        cluster = self._cluster
        if self.left_s is not None:  # the dispatch loop does not know yet
            cluster.report(self, ItemsReturned(_indices(items)))
            return []
        for shard in [[item] for item in items] if cluster.settings.by_item else [list(items)]:
            if not self._sent:
                cluster.report(self, ItemsStarted(_indices(shard)))
            self._sent.append(shard)
            cluster.clock.call_after(cluster.settings.latency_s, partial(self._receive, shard))
        self._update_full()
        return []

    def _update_full(self) -> None:
        """A cluster's worker has at most two tasks in flight; a process has no limit."""
        load = self._cluster.pool.loads.get(self.number)
        if load is not None:
            limited = not self._cluster.settings.by_item
            load.full = limited and len(self._sent) >= MAX_IN_FLIGHT

    def cancel_items(self, indices: Sequence[int]) -> None:
        cancelled = set(indices)
        for shard in [one for one in self._sent if cancelled.issuperset(_indices(one))]:
            self._sent.remove(shard)
            self._cluster.report(self, ItemsReturned(_indices(shard)))
            delay = self._cluster.settings.cancel_check_s
            if shard is self._running and delay:
                self._cluster.clock.call_after(delay, partial(self._abandon, self._run))
            elif shard in self._received:
                self._received.remove(shard)
        self._update_full()
        self._exit_if_left()

    def stop(self) -> None:
        self._sent.clear()

    # -- what it does ----------------------------------------------------------------------------

    def _receive(self, shard: list[WorkItem[Any]]) -> None:
        if not self.dead and shard in self._sent:
            self._received.append(shard)
            self.start_next()

    def start_next(self) -> None:
        if self._running is None and self._received and not self.dead and not self.frozen:
            self._running = self._received.pop(0)
            self._run += 1
            self._started_s = self._cluster.clock.now
            noise = self._cluster.settings.noise
            factor = 1 + self._cluster.rng.uniform(-noise, noise)
            took_s = _cost(self._running) / self.worker.speed * factor
            self._cluster.clock.call_after(took_s, partial(self._finish, self._run, took_s))

    def _finish(self, run: int, took_s: float) -> None:
        if run != self._run or self._running is None or self.dead:
            return
        cluster = self._cluster
        if self.frozen:
            cluster.clock.call_after(0.1, partial(self._finish, run, took_s + 0.1))
            return
        shard, self._running = self._running, None
        cluster.num_computed += len(shard)
        if self.left_s is not None:
            cluster.lost -= min(took_s, cluster.clock.now - self.left_s) * self.worker.speed
        cluster.clock.call_after(cluster.settings.latency_s, partial(self._answer, shard, took_s))
        self.start_next()

    def _abandon(self, run: int) -> None:
        if run == self._run and self._running is not None:
            self._running = None
            self._run += 1
            self.start_next()

    def _answer(self, shard: list[WorkItem[Any]], took_s: float) -> None:
        """Results arrive; those of a cancelled shard are ignored."""
        if shard not in self._sent:
            return
        self._sent.remove(shard)
        self._update_full()
        cost = _cost(shard)
        results = tuple((item.index, None) for item in shard)
        started = _indices(self._sent[0]) if self._sent else ()
        stats = BatchStats(1, cost, cost, took_s)
        self._cluster.report(self, BatchDone(results, (), started, stats))
        self._exit_if_left()

    def leave(self) -> None:
        self.left_s = self._cluster.clock.now
        self._cluster.report(self, Draining())
        self._exit_if_left()

    def _exit_if_left(self) -> None:
        if self.left_s is not None and not self._sent and not self.dead:
            self.dead = True
            self._cluster.remove_left(self)

    def fail(self) -> None:
        """Crash or freeze."""
        now = self._cluster.clock.now
        self.frozen = self.worker.freezes
        self.dead = not self.frozen
        returns_s = self.worker.returns_s if self.frozen else None
        if returns_s is not None and returns_s - now < self._cluster.settings.lease_s:
            return
        if self._running is not None:
            self._cluster.lost += (now - self._started_s) * self.worker.speed


def _indices(items: Sequence[WorkItem[Any]]) -> tuple[int, ...]:
    return tuple(item.index for item in items)


def _cost(items: Sequence[WorkItem[Any]]) -> float:
    return sum(item.cost for item in items)


class SimulatedCluster(WorkerSource):
    """The source of workers for a pool."""

    def __init__(
        self,
        clock: VirtualClock,
        settings: SimulationSettings,
        workers: Sequence[SimulatedWorker],
        seed: int,
    ) -> None:
        self.clock, self.settings, self.rng = clock, settings, random.Random(seed)
        self._workers = [(f"w{number}", worker) for number, worker in enumerate(workers)]
        self._loads: dict[str, WorkerLoad[Any]] = {}
        self.lost = 0.0
        self.num_computed = 0

    def start(self, pool: WorkerPool) -> None:
        self.pool = pool
        events: Any = _EventQueue(self.clock)
        pool.events = events
        for name, worker in self._workers:
            self._schedule(name, worker)

    def report(self, simulator: WorkerSimulator, message: Any) -> None:
        self.pool.events.put(WorkerEvent(simulator, message))

    def _schedule(self, name: str, worker: SimulatedWorker) -> None:
        """Plan all events of a worker."""
        simulator = WorkerSimulator(self, next(self.pool.numbers), name, worker)
        ready = partial(self.report, simulator, EngineReady(0.0))
        if worker.joins_s <= 0.0:
            self.pool.handle_arrival(simulator, EngineReady(0.0))
        elif worker.joins_s <= self.clock.now:
            ready()
        else:
            self.clock.call_at(worker.joins_s, ready)
        if worker.fails_s is None:
            return
        self.clock.call_at(worker.fails_s, simulator.leave if worker.leaves else simulator.fail)
        if worker.leaves:
            return
        if worker.restarts:
            self.clock.call_at(worker.fails_s, partial(self._restart, simulator))
            return
        removed_s, returns_s = worker.fails_s + self.settings.lease_s, worker.returns_s
        if returns_s is not None and worker.freezes and returns_s < removed_s:
            self.clock.call_at(returns_s, partial(self._resume, simulator))
            return
        exited = WorkerExited("has no heartbeat")
        self.clock.call_at(removed_s, partial(self.report, simulator, exited))
        if returns_s is not None:
            again = SimulatedWorker(worker.speed, joins_s=max(returns_s, removed_s + 0.1))
            self.clock.call_at(removed_s, partial(self._schedule, name, again))

    def _restart(self, simulator: WorkerSimulator) -> None:
        self.report(simulator, WorkerExited("was restarted"))
        again = SimulatedWorker(simulator.worker.speed, joins_s=self.clock.now)
        self._schedule(simulator.device, again)

    def _resume(self, simulator: WorkerSimulator) -> None:
        simulator.frozen = False
        simulator.start_next()

    def remove_left(self, simulator: WorkerSimulator) -> None:
        """A worker that left has nothing any more; it may come back."""
        self.report(simulator, WorkerExited("left", crashed=False))
        returns_s = simulator.worker.returns_s
        if returns_s is not None:
            joins_s = max(returns_s, self.clock.now)
            again = SimulatedWorker(simulator.worker.speed, joins_s=joins_s)
            self._schedule(simulator.device, again)

    # -- called by the pool ----------------------------------------------------------------------

    @property
    def devices(self) -> list[str]:
        return [worker.device for worker in self.pool.workers_by_number.values()]

    def check(self) -> None: ...

    def add_worker(self, worker: WorkerSimulator, load: WorkerLoad[Any]) -> None:
        before = self._loads.get(worker.device)
        if self.settings.known:
            load.expected_rate = worker.worker.speed
        if before is not None and before.rate is not None:
            load.expected_rate = before.rate
        self._loads[worker.device] = load

    def remove_worker(
        self, worker: WorkerSimulator, exited: WorkerExited, suspects: Sequence[int]
    ) -> None:
        worker.stop()


# -- what is drawn -------------------------------------------------------------------------------

SPEED_KINDS = ("equal", "mixed", "two kinds", "one slow")
FAULT_KINDS = ("none", "deaths", "freezes", "comings", "restarted", "leaves", "all")


def draw_speeds(kind: str, count: int, rng: random.Random) -> list[float]:
    """Speeds from 1 to 1/50; the first worker is one of the fastest."""
    if kind == "equal":
        return [1.0] * count
    if kind == "mixed":
        return [1.0, *(50 ** -rng.random() for _ in range(count - 1))]
    if kind == "two kinds":
        return [1.0, *(rng.choice((1.0, 0.02)) for _ in range(count - 1))]
    return [*([1.0] * (count - 1)), 0.02 if count > 1 else 1.0]


def draw_costs(count: int, rng: random.Random, mean_s: float = 1.0) -> list[float]:
    """Seconds of the segments of a book at speed 1: most near the mean, few long."""
    return [mean_s * min(8.0, rng.lognormvariate(-0.3, 0.8)) for _ in range(count)]


def draw_faults(
    kind: str, speeds: Sequence[float], until_s: float, rng: random.Random
) -> list[SimulatedWorker]:
    """A tenth of the workers crash or freeze, half of them for good; half of all join late.

    Or half are restarted, or leave, and half of those return. The first has no fault, so that
    every run ends.
    """
    workers = [SimulatedWorker(speeds[0])]
    for speed in speeds[1:]:
        if kind in ("restarted", "leaves"):
            workers.append(_draw_departure(kind, speed, until_s, rng))
            continue
        late = kind in ("comings", "all") and rng.random() < 0.5
        joins_s = rng.uniform(0, until_s / 2) if late else 0
        worker = SimulatedWorker(speed, joins_s)
        if kind in ("deaths", "freezes", "all") and rng.random() < 0.1:
            fails_s = joins_s + rng.uniform(0, until_s)
            returns_s = fails_s + rng.uniform(1, until_s / 2) if rng.random() < 0.5 else None
            freezes = kind == "freezes" or (kind == "all" and rng.random() < 0.5)
            worker = SimulatedWorker(speed, joins_s, fails_s, returns_s, freezes)
        workers.append(worker)
    return workers


def _draw_departure(kind: str, speed: float, until_s: float, rng: random.Random) -> SimulatedWorker:
    """A worker that is restarted, or leaves, with a probability of one half."""
    if rng.random() > 0.5:
        return SimulatedWorker(speed)
    when = rng.uniform(0, until_s)
    if kind == "restarted":
        return SimulatedWorker(speed, fails_s=when, returns_s=when, restarts=True)
    returns_s = when + rng.uniform(1, until_s / 2) if rng.random() < 0.5 else None
    return SimulatedWorker(speed, fails_s=when, returns_s=returns_s, leaves=True)


# -- lower bounds --------------------------------------------------------------------------------


def ideal_s(
    costs: Sequence[float],
    workers: Sequence[SimulatedWorker | float],
    *,
    lost: float = 0.0,
    arrivals_s: Sequence[float] | None = None,
) -> float:
    """All work, what was lost added, over the speed that is present; or the largest item on the
    fastest worker. No item is started before it arrives.
    """
    known = _as_workers(workers)
    given = [(0.0, sum(costs))] if arrivals_s is None else list(zip(arrivals_s, costs, strict=True))
    steps: list[tuple[float, float, float]] = [(when, 0.0, cost) for when, cost in given]
    for worker in known:
        steps.append((worker.joins_s, worker.speed, 0.0))
        if worker.fails_s is not None:
            steps.append((max(worker.fails_s, worker.joins_s), -worker.speed, 0.0))
            if worker.returns_s is not None:
                steps.append((worker.returns_s, worker.speed, 0.0))
    steps.sort()
    left, saved, speed, now, num_to_arrive = max(lost, 0.0), min(lost, 0.0), 0.0, 0.0, len(given)
    for when, change, cost in steps:
        capacity = speed * (when - now)
        if not num_to_arrive and speed > 0 and left + saved <= capacity:
            break
        left = max(0.0, left - capacity) + cost
        now, speed, num_to_arrive = when, speed + change, num_to_arrive - (cost > 0)
    fastest = max(worker.speed for worker in known)
    end_s = now + max(0.0, left + saved) / speed if speed > 1e-12 else now
    arrivals = arrivals_s if arrivals_s is not None else [0.0] * len(costs)
    return max(end_s, *(when + cost / fastest for when, cost in zip(arrivals, costs, strict=True)))
