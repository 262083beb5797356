"""Which worker gets which items next: a pure scheduler over workers of unequal speed.

No process is touched here and the time is an argument. While there is plenty to do, a worker gets
the oldest items and their neighbours in cost. Near the end each item goes to the worker that would
finish it first, the most expensive first; a worker that would finish after the others gets nothing.
What a slow worker still holds then is given to an idle faster one as well, and the first result
counts.

Where every worker's speed is known and no more items will come, all items are assigned at once
(`assign_best`) and the assignment is followed: one more worker then never makes the run longer.
That lasts until a worker is off by more than a little; from then on the rules above hold.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from anyrig.work.assignment import (
    Assignment,
    Slot,
    assign_best,
    assign_greedily,
    assign_items,
    lower_bound_s,
)
from anyrig.work.batching import BatchBudget, BatchQueue, WorkItem

T = TypeVar("T")
SLICE_S = 0.1
"""How much a worker is given at once, unless one call or one item takes longer."""
LOW_S = 0.02
"""Near the end a worker is given more only if it has less than this left; a reply takes 1 ms."""
FEW_WORKERS = 16
"""Up to so many workers are examined for every decision; of more, a snapshot is kept a while."""
_PLENTY = 5.0
"""There is plenty while what is left takes so many times as long as a slice or an item."""
_MAX_COST_RATIO = 4.0
"""Beside the first item, no other is given that costs so many times more."""
_MAX_GREEDY = 4096
"""Items times workers up to which the end is planned anew for every decision."""
_MAX_PLANNED = 200_000
"""So many items are assigned at once; it takes half a second."""
_REPLAN_ITEM_S = 5e-5
"""A plan is kept at least so long for each of its items: twenty times as long as making it."""
_MARGIN = 0.3
"""Near the end, where speeds are only measured, a worker keeps this share of its most expensive
item's time free: the item may take longer, or the speed was measured at a good moment."""
_SPEED_TOLERANCE = 0.02
_RECENT_CALLS = 8
_LATE_FACTOR, _LATE_SHARE = 5.0, 0.25
"""A late worker is expected to need so many times its delay, up to a share of the whole."""
_UNKNOWN_SLOWDOWN = 7.0
"""A worker of unknown speed is taken to be so many times slower than the fastest: the geometric
middle between as fast and fifty times slower."""
_THIRD_COPY = 0.75
"""A third copy must take less than this share of the time that the second still needs."""
_MAX_LATE = 8
"""How many late workers an idle one examines for something to do as well."""


@dataclass(eq=False)
class WorkerLoad(Generic[T]):
    """What one worker holds, how fast it is, and how long it will be busy."""

    number: int
    expected_rate: float | None = None
    """Its speed before anything was measured here, in a unit that all workers share."""
    budget: BatchBudget = field(default_factory=lambda: BatchBudget(0.0, 1))
    """Of its next batch, as the worker last reported."""
    concurrent_items: int = 1
    """How many items it computes at the same time: one that arrives joins the others."""
    items: dict[int, WorkItem[T]] = field(default_factory=dict)
    """What it was given and has not finished, in order."""
    isolated: bool = False
    """Whether it holds a suspect, which must be computed alone."""
    draining: bool = False
    """Whether it finishes what it has and takes nothing new."""
    full: bool = False
    """Whether it has as many calls in flight as it may have; set by its source."""
    since: float = 0.0
    """When it started on the first of its items."""
    rate: float | None = None
    """Cost per second; None before the first result."""
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_RECENT_CALLS))
    _num_calls: int = 0

    @property
    def cost(self) -> float:
        return sum(item.cost for item in self.items.values())

    def record_call(self, cost: float, seconds: float) -> None:
        """A call of this real cost took so long."""
        if not cost > 0:
            return
        self._recent.append((cost, max(seconds, 1e-9)))
        self._num_calls += 1
        recent = list(self._recent)
        if 1 < self._num_calls <= _RECENT_CALLS:
            recent = recent[1:]  # the first call also loads kernels
        self.rate = sum(cost for cost, _ in recent) / sum(seconds for _, seconds in recent)

    def busy_s(self, now: float, rate: float) -> float:
        """How long it will be busy; a late worker is expected to stay late for a while."""
        if not self.items:
            return 0.0
        elapsed = now - self.since
        left = self.cost / rate - elapsed
        return left if left >= 0 else min(_LATE_FACTOR * -left, _LATE_SHARE * elapsed)


class Scheduler(Generic[T]):
    """What waits, who holds what, and what comes next.

    Args:
        workers: those that can be given items, by number; others may come and go.
        slice_s: how much a worker is given at once, unless a call or an item takes longer.
        low_s: near the end a worker is given more only if it has less than this left.
        known_speeds: whether a worker's expected rate is in cost per second, not only relative.
    """

    def __init__(
        self,
        workers: dict[int, WorkerLoad[T]] | None = None,
        *,
        slice_s: float = SLICE_S,
        low_s: float = LOW_S,
        known_speeds: bool = False,
    ) -> None:
        self.waiting: BatchQueue[T] = BatchQueue()
        self.workers = workers if workers is not None else {}
        self.ended = False
        """Whether no more items will come."""
        self.low_s = low_s
        self._slice_s, self._known_speeds = slice_s, known_speeds
        # Where speeds are known, a whole slice lies ready beside the one being computed.
        self._refill_s = (slice_s if known_speeds else slice_s / 2) * (1 + 1e-9)
        self._holders: dict[int, list[WorkerLoad[T]]] = {}
        """By item: the workers that hold it; several hold a copy."""
        self._finished: set[int] = set()
        """Items that are finished and still held by a slower worker."""
        self._copies: dict[int, tuple[int, float]] = {}
        """By item: the worker with the latest copy, and when that should be finished."""
        self._snapshot: _Snapshot | None = None
        self._late: tuple[float, list[tuple[float, WorkerLoad[T]]]] | None = None
        self._plan: _Plan | None = None
        self._awaits_replan = False
        """Whether a worker gets nothing only because there is no new plan yet."""
        self.on_plan = known_speeds
        """Whether everything has gone as planned so far."""

    # -- what happens ---------------------------------------------------------------------------

    def add(self, item: WorkItem[T]) -> None:
        self.waiting.add(item)
        self._drop_plan()
        if self._snapshot is not None:
            self._snapshot.end += item.cost / self._snapshot.total_rate

    def assign(self, worker: WorkerLoad[T], chosen: Sequence[WorkItem[T]], now: float) -> None:
        """The worker holds these from now on."""
        if chosen and not worker.items:
            worker.since = now
        for item in chosen:
            worker.items[item.index] = item
            self._holders.setdefault(item.index, []).append(worker)
        if self._snapshot is not None:
            self._snapshot.assigned_cost += sum(item.cost for item in chosen)

    def record_results(
        self, worker: WorkerLoad[T], indices: Iterable[int], now: float
    ) -> list[int]:
        """The worker finished items; those of them that no other had finished before."""
        fresh = []
        for index in indices:
            finished_before = index in self._finished
            self._release(worker, index)
            if not finished_before:
                fresh.append(index)
                self._copies.pop(index, None)
                if index in self._holders:
                    self._finished.add(index)
        worker.since = now
        worker.isolated = False
        return fresh

    def return_items(
        self, worker: WorkerLoad[T], indices: Iterable[int], now: float
    ) -> list[WorkItem[T]]:
        """The worker will not finish these; those unfinished ones that nobody else holds."""
        unfinished = []
        for index in indices:
            if index == next(iter(worker.items), None):
                worker.since = now  # it was computing them
            if self._copies.get(index, (None,))[0] == worker.number:
                del self._copies[index]
            item = self._release(worker, index)
            if item is not None:
                unfinished.append(item)
        if not worker.items:
            worker.isolated = False
        return unfinished

    def remove_worker(self, worker: WorkerLoad[T]) -> list[WorkItem[T]]:
        """The worker is gone: its items that are unfinished and that nobody else holds.

        No further copy is made of what others hold: one worker crashed with it.
        """
        self._drop_plan()
        self.workers.pop(worker.number, None)
        released = [self._release(worker, index) for index in list(worker.items)]
        return [item for item in released if item is not None]

    def discard(self, index: int) -> list[int]:
        """Forget an item if it waits; otherwise the numbers of the workers that hold it."""
        if index in self.waiting:
            self.waiting.remove(index)
            self._drop_plan()
        return [worker.number for worker in self._holders.get(index, ())]

    def drain(self, worker: WorkerLoad[T]) -> None:
        """The worker takes nothing new: what was planned for it goes to others."""
        worker.draining, self._snapshot = True, None
        self._drop_plan()

    def other_holders(self, worker: WorkerLoad[T], indices: Iterable[int]) -> dict[int, list[int]]:
        """By number of another worker: which of these items it holds too."""
        found: dict[int, list[int]] = {}
        for index in indices:
            for other in self._holders.get(index, ()):
                if other is not worker:
                    found.setdefault(other.number, []).append(index)
        return found

    def _release(self, worker: WorkerLoad[T], index: int) -> WorkItem[T] | None:
        """Take an item from a worker; the item if it is unfinished and nobody else holds it."""
        item = worker.items.pop(index, None)
        holders = self._holders.get(index, [])
        if worker in holders:
            holders.remove(worker)
        if holders:
            return None
        self._holders.pop(index, None)
        self._copies.pop(index, None)
        if index in self._finished:
            self._finished.remove(index)
            return None
        return item

    def _drop_plan(self) -> None:
        """Something unforeseen happened: the plan is void."""
        if self._plan is not None or not self.ended:
            self._plan = None
            self.on_plan = self.on_plan and not self.ended
        if len(self.workers) <= FEW_WORKERS:
            self._snapshot = None

    # -- what comes next ------------------------------------------------------------------------

    def rate_of(self, worker: WorkerLoad[T]) -> float | None:
        """The measured rate, else one scaled from the device's measured speed."""
        if worker.rate is not None:
            return worker.rate
        if self._known_speeds or not worker.expected_rate:
            return worker.expected_rate or None
        scales = [
            other.rate / other.expected_rate
            for other in self.workers.values()
            if other.rate is not None and other.expected_rate
        ]
        return worker.expected_rate * statistics.median(scales) if scales else None

    def next_items(self, worker: WorkerLoad[T], now: float) -> list[WorkItem[T]]:
        """What a worker gets now; nothing if it should wait or has enough."""
        rate = self.rate_of(worker)
        if worker.isolated or worker.draining or worker.full:
            return []
        if worker.concurrent_items > 1:
            return self._join_others(worker, now)
        if worker.items and (rate is None or not self._is_low(worker, rate, now)):
            return []
        if not len(self.waiting):
            return self._copy_late_items(worker, rate, now)
        if rate is None:
            chosen = [self.waiting.remove(self.waiting.cheapest().index)]  # measure it cheaply
        else:
            self._awaits_replan = False
            chosen = self._choose(worker, rate, now)
        if not chosen and not worker.items and not self._awaits_replan:
            return self._copy_late_items(worker, rate, now)
        self.assign(worker, chosen, now)
        return chosen

    def _join_others(self, worker: WorkerLoad[T], now: float) -> list[WorkItem[T]]:
        """The oldest items, as many as a worker has room for; of many, an equal share for each."""
        share = -(-len(self.waiting) // len(self.workers))
        count = min(share, worker.concurrent_items - len(worker.items))
        chosen = [self.waiting.remove(self.waiting.oldest().index) for _ in range(count)]
        self.assign(worker, chosen, now)
        return chosen

    def _is_low(self, worker: WorkerLoad[T], rate: float, now: float) -> bool:
        """Whether it would soon wait for more. One item is kept ready beside the current one."""
        soon = max(self._refill_s, worker.budget.cost / rate)
        return len(worker.items) == 1 or worker.busy_s(now, rate) < soon

    def _choose(self, worker: WorkerLoad[T], rate: float, now: float) -> list[WorkItem[T]]:
        plan = self._lasting_plan(worker, rate, now)
        if plan is not None:
            return self._take_planned(plan, worker, rate * self._slice_s, math.inf)
        snapshot = self._take_snapshot(worker, now)
        target = max(rate * self._slice_s, 2 * worker.budget.cost)
        oldest = self.waiting.oldest()
        busy = worker.busy_s(now, rate)
        slower_by = oldest.cost * (1 / rate - 1 / snapshot.best_rate)
        if not self.ended and busy + slower_by > snapshot.end - now:
            return []  # others will have finished everything, this item too, before
        alone = len(snapshot.rates) == 1
        if alone or self._is_plenty(busy + max(target, oldest.cost) / rate, snapshot, now):
            target, budget = self._fair_share(worker, snapshot, target)
            return (
                self._take_slice(oldest, target, budget) if target > 0 or not worker.items else []
            )
        if busy > self.low_s:
            return []  # near the end nobody takes more than it computes
        return self._choose_by_plan(worker, rate, now)

    def _slots(self, now: float) -> list[Slot]:
        return [
            Slot(number, worker.busy_s(now, rate), rate)
            for number, worker in self.workers.items()
            if not worker.draining and (rate := self.rate_of(worker)) is not None
        ]

    def _take_snapshot(self, worker: WorkerLoad[T], now: float) -> _Snapshot:
        old, count = self._snapshot, len(self.workers)
        # One may have gone and this one come since: as many as before, and not the same.
        if (
            old is not None
            and count > FEW_WORKERS
            and old.num_workers == count
            and worker.number in old.rates
            and now - old.at < self._slice_s / 4
        ):
            return old
        slots = self._slots(now)
        rates = {slot.number: slot.rate for slot in slots}
        self._snapshot = _Snapshot(
            now,
            count,
            rates,
            sum(rates.values()),
            max(rates.values()),
            sum(other.cost for other in self.workers.values()),
            now + lower_bound_s(slots, self.waiting.total_cost),
        )
        return self._snapshot

    def _is_plenty(self, seconds: float, snapshot: _Snapshot, now: float) -> bool:
        if not self.ended:
            return True
        longest_s = self.waiting.by_cost[-1][0] / snapshot.best_rate
        return max(seconds, longest_s) * _PLENTY < snapshot.end - now

    def _fair_share(
        self, worker: WorkerLoad[T], snapshot: _Snapshot, target: float
    ) -> tuple[float, BatchBudget]:
        """How much a worker is given at once, and in what calls, where more may come at any time.

        Where little waits, a worker that took it all would leave the others to copy it.
        """
        if self.ended or len(snapshot.rates) == 1:
            return target, worker.budget
        total = self.waiting.total_cost + snapshot.assigned_cost
        share = total * snapshot.rates[worker.number] / snapshot.total_rate - worker.cost
        if share >= target:
            return target, worker.budget
        # Half of it is enough: a group may hold twice what a call does, and is given whole.
        cost = min(worker.budget.cost, max(0.0, share / 2))
        return share / 2, replace(worker.budget, cost=cost)

    def _take_slice(
        self, first: WorkItem[T], target: float, budget: BatchBudget
    ) -> list[WorkItem[T]]:
        """Groups of similar items, from an item and the oldest ones after it, up to a cost.

        A group is enough for two calls, so that a worker can try a batch of twice the size.
        """
        chosen: list[WorkItem[T]] = []
        total, most = 0.0, _MAX_COST_RATIO * max(target, first.cost)
        group = replace(budget, cost=2 * budget.cost, items=2 * budget.items)
        while True:
            batch = self.waiting.take_batch(first, group)
            chosen += batch.items
            total += batch.real_cost
            if total >= target or not len(self.waiting):
                return chosen
            first = self.waiting.oldest()
            if first.cost > most:
                return chosen  # whether this worker should do that one is another decision

    def _solo_item_s(self, worker: WorkerLoad[T]) -> float:
        """An item that takes so long goes by itself near the end, where calls hold one item."""
        return self.low_s if worker.budget.cost == 0.0 else math.inf

    # -- copies of late items -------------------------------------------------------------------
    #
    # A worker of unknown speed is taken to be slow. When nothing more will come, what it holds is
    # computed by an idle one at once: that keeps nobody from anything. Were its result waited for,
    # one more worker could make the run longer by more than the item that it took.

    def _copy_late_items(
        self, worker: WorkerLoad[T], rate: float | None, now: float
    ) -> list[WorkItem[T]]:
        """Items that another worker holds, and this idle one would finish sooner."""
        if rate is None or worker.items:
            return []
        # Where everything goes as planned, only what is late is computed twice.
        plan = self._plan if self.on_plan else None
        after = plan.end + self.low_s if plan is not None else now
        tries = 0
        for finish, other in self._late_workers(now, after):
            chosen = self._faster_here(worker, other, rate, finish, now)
            if chosen:
                self.assign(worker, chosen, now)
                return chosen
            tries += next(iter(other.items), None) not in self._copies
            if tries > _MAX_LATE:
                break
        return []

    def _late_workers(self, now: float, after: float) -> list[tuple[float, WorkerLoad[T]]]:
        """Those that hold something which might be finished sooner, the last to finish first."""
        many = len(self.workers) > FEW_WORKERS
        if many and self._late is not None and now - self._late[0] < self.low_s / 4:
            return self._late[1]
        fastest = max(rate for one in self.workers.values() if (rate := self.rate_of(one)))
        found = [
            (max(self._copy_deadline(index, finish, now) for index in other.items), finish, other)
            for other in self.workers.values()
            if other.items
            and not other.isolated
            and (finish := now + self._expected_busy_s(other, fastest, now)) > after
        ]
        # Of what is computed twice already the second is likely to come first.
        found.sort(key=lambda one: (-one[0], -one[2].number))
        late = [(finish, other) for deadline, finish, other in found if deadline > now]
        self._late = (now, late)
        return late

    def _expected_busy_s(self, other: WorkerLoad[T], fastest: float, now: float) -> float:
        rate = self.rate_of(other)
        if rate is not None:
            return other.busy_s(now, rate)
        if not self.ended:  # whoever asks had better be idle when more comes
            return max(other.busy_s(now, fastest), now - other.since)
        return _UNKNOWN_SLOWDOWN * other.cost / fastest + now - other.since

    def _copy_deadline(self, index: int, finish: float, now: float) -> float:
        """When another copy must be finished to be worth computing."""
        if index in self._finished:
            return now
        if index not in self._copies:
            return finish
        return min(finish, now + _THIRD_COPY * (self._copies[index][1] - now))

    def _faster_here(
        self, worker: WorkerLoad[T], other: WorkerLoad[T], rate: float, finish: float, now: float
    ) -> list[WorkItem[T]]:
        chosen: list[WorkItem[T]] = []
        moment, most = now, max(rate * self._slice_s, worker.budget.cost)
        # The most expensive first, and what it is computing last: that it will finish first.
        current = next(iter(other.items), None)
        for item in sorted(other.items.values(), key=lambda one: (one.index == current, -one.cost)):
            done = moment + item.cost / rate
            if done >= self._copy_deadline(item.index, finish, now):
                continue  # a shorter one behind it may be finished sooner
            if chosen and (done - now) * rate > most:
                break
            moment = done
            chosen.append(item)
            self._copies[item.index] = (worker.number, moment)
        return chosen

    # -- plans ----------------------------------------------------------------------------------

    def _take_planned(
        self, plan: _Plan, worker: WorkerLoad[T], target: float, alone_from: float
    ) -> list[WorkItem[T]]:
        """The next of what the plan has for a worker, up to a cost."""
        chosen: list[WorkItem[T]] = []
        total, rate = 0.0, plan.rates.get(worker.number, 1.0)
        while total < target and (index := plan.pop(worker.number)) is not None:
            if index not in self.waiting:
                continue  # another worker took it to measure its speed
            item = self.waiting.remove(index)
            chosen.append(item)
            total += item.cost
            if item.cost > alone_from * rate:
                break
        return chosen

    def _lasting_plan(self, worker: WorkerLoad[T], rate: float, now: float) -> _Plan | None:
        """The plan that is followed to the end; None if speeds are unknown or it did not hold."""
        if not (self.on_plan and self.ended) or len(self.waiting) > _MAX_PLANNED:
            return None
        plan = self._plan
        if plan is None:
            plan = self._make_lasting_plan(now)
        elif worker.number not in plan.rates and now >= plan.reconsider_at:
            plan = self._replan_with_new_workers(plan, now)
        if plan is not None and not self._is_off(plan, worker, rate, now):
            idle = not worker.items and not plan.items.get(worker.number)
            if not idle or not self._has_deviated(plan, now):
                self._plan = plan
                return plan
        self.on_plan, self._plan = False, None
        return None

    def _make_lasting_plan(self, now: float) -> _Plan | None:
        for worker in self.workers.values():
            if worker.draining:
                continue
            if not worker.expected_rate or _differs(
                worker.rate or worker.expected_rate, worker.expected_rate
            ):
                return None
        slots = sorted(self._slots(now))
        found = assign_best([cost for cost, _ in self.waiting.by_cost], slots)
        return _Plan(found, slots, self.waiting.by_cost, now, oldest_first=True)

    def _replan_with_new_workers(self, plan: _Plan, now: float) -> _Plan:
        """A plan with the workers that have come since, if everything would finish earlier."""
        slots = self._slots(now)
        planned = sorted(slot for slot in slots if slot.number in plan.rates)
        new = sorted(slot for slot in slots if slot.number not in plan.rates)
        costs = [cost for cost, _ in self.waiting.by_cost]
        found = assign_best(costs, planned + new, at_least=len(planned) + 1)
        if now + found.end_s < plan.end - self.low_s:
            return _Plan(found, slots, self.waiting.by_cost, now, oldest_first=True)
        plan.reconsider_at = now + max(self._slice_s, 4 * _REPLAN_ITEM_S * len(costs))
        return plan

    def _is_off(self, plan: _Plan, worker: WorkerLoad[T], rate: float, now: float) -> bool:
        """Whether a worker has another speed than was planned with, or will finish late."""
        planned = plan.rates.get(worker.number)
        if planned is None:
            return False
        rest = plan.rest.get(worker.number, 0.0)
        late = now + worker.busy_s(now, rate) + rest / rate > plan.end + self.low_s
        return _differs(rate, planned) or (late and (rest > 0 or bool(worker.items)))

    def _has_deviated(self, plan: _Plan, now: float) -> bool:
        """Whether another worker has stopped, which would not ask for more."""
        if now - plan.checked_at < self._slice_s / 4:
            return False
        plan.checked_at = now
        return any(
            self._is_off(plan, worker, rate, now)
            for worker in self.workers.values()
            if (rate := self.rate_of(worker)) is not None
        )

    def _choose_by_plan(self, worker: WorkerLoad[T], rate: float, now: float) -> list[WorkItem[T]]:
        """From a plan for the moment: made anew for every decision if that takes little time."""
        plan, target = self._plan, max(rate * self._slice_s, worker.budget.cost)
        few = len(self.workers) <= FEW_WORKERS
        small = few and len(self.waiting) * len(self.workers) <= _MAX_GREEDY
        if plan is None or (small and plan.at < now) or self._may_replan(plan, worker, rate, now):
            slots = self._slots(now)
            costs = [cost for cost, _ in self.waiting.by_cost]
            assignment = (
                assign_greedily(costs, slots)
                if small
                else assign_items(costs, slots, margin=_MARGIN)
            )
            plan = _Plan(assignment, slots, self.waiting.by_cost, now, oldest_first=False)
            self._plan = plan
        chosen = self._take_planned(plan, worker, target, self._solo_item_s(worker))
        if chosen or plan.at == now:
            return chosen
        # It finished early, or has come since: until the next plan it does what is short.
        self._awaits_replan = True
        oldest = self.waiting.oldest() if len(self.waiting) else None
        if oldest is not None and oldest.cost / rate * _PLENTY < plan.end - now:
            return self._take_slice(oldest, 0.0, worker.budget)
        return []

    def _may_replan(self, plan: _Plan, worker: WorkerLoad[T], rate: float, now: float) -> bool:
        if now - plan.at <= max(self.low_s, _REPLAN_ITEM_S * len(self.waiting)):
            return False
        return not plan.items.get(worker.number) or self._is_off(plan, worker, rate, now)


def _differs(rate: float, known: float) -> bool:
    return abs(rate - known) > _SPEED_TOLERANCE * known


@dataclass
class _Snapshot:
    """All workers of known speed, as they were a moment ago."""

    at: float
    num_workers: int
    rates: dict[int, float]
    total_rate: float
    best_rate: float
    assigned_cost: float
    end: float
    """When everything would be finished if it could be shared without loss."""


class _Plan:
    """An assignment that is followed."""

    def __init__(
        self,
        assignment: Assignment,
        slots: Sequence[Slot],
        by_cost: Sequence[tuple[float, int]],
        now: float,
        *,
        oldest_first: bool,
    ) -> None:
        self.at, self.end = now, now + assignment.end_s
        self.rates = {slot.number: slot.rate for slot in slots}
        self.items: dict[int, list[int]] = {}
        """By worker: the items it is to compute, the next one last."""
        self.rest: dict[int, float] = {}
        """By worker: the cost of what it is still to be given."""
        self._costs = {index: cost for cost, index in by_cost}
        self.reconsider_at = 0.0
        """When newcomers are considered again."""
        self.checked_at = 0.0
        """When it was last checked whether everyone is in time."""
        for number, positions in assignment.positions.items():
            mine = [by_cost[position][1] for position in positions]
            mine.sort(reverse=True) if oldest_first else mine.reverse()
            self.items[number] = mine
            self.rest[number] = sum(by_cost[position][0] for position in positions)

    def pop(self, number: int) -> int | None:
        mine = self.items.get(number)
        if not mine:
            return None
        index = mine.pop()
        self.rest[number] -= self._costs[index]
        return index
