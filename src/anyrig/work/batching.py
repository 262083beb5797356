"""Items into batches: read ahead, packed by cost under a budget that is found by measuring.

A batch is computed as a rectangle: every item is padded to the longest one, so it costs the number
of its items times the cost of the longest. A batch is closed before it is full when padding would
cost more than another call does (`BatchBudget.call_cost`). The next batch is always the oldest
waiting item with its neighbours in cost, so that no item waits for ever.

`BatchSizer` doubles the batch from one item for as long as a larger one computes more per second:
on a GPU until it is full, on a CPU seldom beyond a few items. Memory sets a limit from above: half
of what failed, or the largest that worked. After many good batches the limit is raised a little,
and more seldom each time that fails.
"""

from __future__ import annotations

import bisect
import math
import queue
import statistics
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from anyrig.errors import InvalidInputError

T = TypeVar("T")
LOOK_AHEAD = 4096
"""How many items of a stream may wait: texts of about a megabyte, a second of tokenizing."""
_PADDING = 0.04
"""Share of padding that is always allowed: calls are never free."""
MIN_GAIN = 1.05
"""A larger batch must compute this much more per second to be kept."""
_MIN_TRIES = 2  # the first call of a new shape also loads kernels
_MAX_TRIES = 6
_RETRY_AFTER = 64  # batches after which a settled size is questioned; doubles each time
_RAISE_AFTER = 32  # good batches at the limit before more is tried; doubles with each failure
_RAISE = 1.15
_NEAR_LIMIT = 0.7
_HISTORY = 64
_MIN_CALL_S = 0.001  # a call that costs less than this is not worth any padding


@dataclass(frozen=True)
class WorkItem(Generic[T]):
    index: int
    payload: T
    cost: float
    """In the engine's own unit: tokens, characters, pixels."""
    on_part: Callable[[Any], None] | None = None
    """Called with parts of its result, before that is whole."""


@dataclass(frozen=True)
class BatchBudget:
    """How much may go into one batch."""

    cost: float
    """Of the padded rectangle. An item that costs more goes alone."""
    items: int = 1 << 30
    call_cost: float = 0.0
    """Measured overhead of one more call, in the items' unit."""
    pads: bool = True
    """Whether the engine pads; without padding a batch costs the sum of its items."""

    def allows(self, count: int, longest: float, real: float) -> bool:
        if not self.pads:
            return real <= self.cost
        padded = count * longest
        return padded <= self.cost and padded - real <= max(self.call_cost, _PADDING * real)


@dataclass(frozen=True)
class Batch(Generic[T]):
    """Items that are computed in one call."""

    items: tuple[WorkItem[T], ...]
    pads: bool = True

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(item.index for item in self.items)

    @property
    def real_cost(self) -> float:
        return sum(item.cost for item in self.items)

    @property
    def cost(self) -> float:
        """Padding included."""
        if not self.pads:
            return self.real_cost
        return len(self.items) * max(item.cost for item in self.items)

    def split(self) -> tuple[Batch[T], Batch[T]]:
        """Two batches of half the items each, the cheaper items first."""
        ordered = tuple(sorted(self.items, key=lambda item: item.cost))
        middle = (len(ordered) + 1) // 2
        return Batch(ordered[:middle], self.pads), Batch(ordered[middle:], self.pads)


class BatchQueue(Generic[T]):
    """Waiting items, ordered by cost and by age."""

    def __init__(self) -> None:
        self._by_cost: list[tuple[float, int]] = []
        self._waiting: dict[int, WorkItem[T]] = {}  # in order of age
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, index: int) -> bool:
        return index in self._waiting

    @property
    def total_cost(self) -> float:
        return self._total

    @property
    def by_cost(self) -> list[tuple[float, int]]:
        """Cost and index of every waiting item, the cheapest first."""
        return self._by_cost

    def add(self, item: WorkItem[T]) -> None:
        bisect.insort(self._by_cost, (item.cost, item.index))
        self._waiting[item.index] = item
        self._total += item.cost

    def oldest(self) -> WorkItem[T]:
        return next(iter(self._waiting.values()))

    def cheapest(self) -> WorkItem[T]:
        return self._waiting[self._by_cost[0][1]]

    def remove(self, index: int) -> WorkItem[T]:
        item = self._waiting.pop(index)
        del self._by_cost[bisect.bisect_left(self._by_cost, (item.cost, index))]
        self._total -= item.cost
        return item

    def take_batch(self, first: WorkItem[T], budget: BatchBudget) -> Batch[T]:
        """Remove an item and its neighbours in cost.

        The batch grows on the side where the next item is nearer in cost, until the budget is full
        or padding costs more than a call.
        """
        costs = self._by_cost
        low = bisect.bisect_left(costs, (first.cost, first.index))
        high, real, longest = low + 1, first.cost, first.cost
        while high - low < budget.items:
            below = costs[low - 1][0] if low else None
            above = costs[high][0] if high < len(costs) else None
            if below is None and above is None:
                break
            up = below is None or (above is not None and above - longest <= first.cost - below)
            added = above if up else below
            assert added is not None
            top = max(longest, added)
            if not budget.allows(high - low + 1, top, real + added):
                break
            real, longest = real + added, top
            low, high = (low, high + 1) if up else (low - 1, high)
        chosen = [self._waiting.pop(index) for _, index in costs[low:high]]
        del costs[low:high]
        self._total -= sum(item.cost for item in chosen)
        return Batch(tuple(chosen), budget.pads)


# -- reading the input --------------------------------------------------------------------------


def check_cost(cost: float, position: int) -> float:
    """The cost of an item, greater than zero."""
    if not 0 <= cost < math.inf:
        raise InvalidInputError(
            f"item {position} has the invalid cost {cost}",
            hint="A cost must be a finite number that is not negative.",
        )
    return max(float(cost), 1e-9)


class ItemStream(Protocol):
    """Where a run's items come from."""

    first: int
    """Index of the first item; an outcome's index counts from there."""
    ended: bool
    """Whether everything has been taken."""
    error: BaseException | None
    """Raised by the input; to be raised again once the items before it are done."""

    def take(self, *, wait: bool) -> Iterator[WorkItem[Any]]:
        """The items that have arrived and for which there is room.

        Args:
            wait: wait for the first one if more may come.
        """

    def record_started(self, indices: Iterable[int]) -> None:
        """A worker computes these taken items now."""
        return

    def record_part(self, index: int, part: Any) -> None:
        """A worker sent a part of an item's result; of one that is tried again, perhaps twice."""
        return

    def take_expired(self) -> Sequence[int]:
        """Taken items that did not start before their deadline: they are not needed any more."""
        return ()

    @property
    def deadline_in_s(self) -> float:
        """Seconds until the next deadline passes."""
        return math.inf


class ItemReader(ItemStream, Generic[T]):
    """Reads items ahead: at most `look_ahead` of them are taken and not `done`.

    A collection with a length is read in place. A stream is read by a thread of its own, so that
    the items that have arrived are worked on while the next one is awaited.

    Args:
        payloads: the items.
        cost: of one item.
        look_ahead: how many may be taken and not done.
        first: index of the first item.
        on_arrival: called from another thread when an item of a stream has arrived.
    """

    def __init__(
        self,
        payloads: Iterable[T],
        cost: Callable[[T], float],
        look_ahead: int,
        *,
        first: int = 0,
        on_arrival: Callable[[], None] = lambda: None,
    ) -> None:
        self.first = first
        self._on_arrival = on_arrival
        self._items = (
            WorkItem(first + position, payload, check_cost(cost(payload), position))
            for position, payload in enumerate(payloads)
        )
        self._room = threading.Semaphore(max(1, look_ahead))
        self._closed = False
        self.ended = False
        self.error: BaseException | None = None
        self._arrived: queue.SimpleQueue[WorkItem[T] | None] | None = None
        if not isinstance(payloads, Sized):
            self._arrived = queue.SimpleQueue()
            threading.Thread(target=self._read_stream, name="anyrig-read", daemon=True).start()

    def take(self, *, wait: bool) -> Iterator[WorkItem[T]]:
        while not self.ended and not self._closed:
            item = self._take_one(wait)
            if item is None:
                return
            wait = False
            yield item

    def done(self) -> None:
        """An item is finished, so that one more may be taken."""
        self._room.release()

    def close(self) -> None:
        self._closed = True
        self._room.release()
        if self._arrived is not None:
            self._arrived.put(None)

    def _take_one(self, wait: bool) -> WorkItem[T] | None:
        if self._arrived is None:
            if not self._room.acquire(blocking=wait) or self._closed:
                return None
            item = self._read_one()
        else:
            try:
                item = self._arrived.get(block=wait)
            except queue.Empty:
                return None
        self.ended = item is None
        return item

    def _read_one(self) -> WorkItem[T] | None:
        try:
            return next(self._items, None)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            self.error = error
            return None

    def _read_stream(self) -> None:
        assert self._arrived is not None
        while not self._closed:
            item = self._read_one()
            if item is not None:
                self._room.acquire()
            self._arrived.put(item)
            self._on_arrival()
            if item is None:
                return


# -- the size of a batch ------------------------------------------------------------------------


@dataclass
class _SizeTrials:
    """Measurements of one batch size, a power of two."""

    tries: int = 0
    rate: float = 0.0
    """The best cost per second."""


class BatchSizer:
    """The budget of the next batch, from what the last ones cost and took.

    Args:
        start: a cost that was good here before; 0 starts with one item.
        failed: a cost that ran out of memory here before.
        max_items: in one batch.
        pads: whether the engine pads its batches.
        grow: False keeps to one item per batch, so that no result depends on its batch.
        keep_speed: the smallest size is chosen that keeps this share of the best speed.
    """

    def __init__(
        self,
        *,
        start: float = 0.0,
        failed: float | None = None,
        max_items: int = 1 << 30,
        pads: bool = True,
        grow: bool = True,
        keep_speed: float = 1 / MIN_GAIN,
    ) -> None:
        self._max_items, self._pads, self._grow = max_items, pads, grow
        self._keep_speed = keep_speed
        self.largest_ok = 0.0
        """The largest cost that worked."""
        self.failed_cost: float | None = None
        """The last cost that ran out of memory."""
        self.limit = math.inf
        """The most that memory allows, as far as is known."""
        self._num_failures = self._num_good = self._num_unreached = 0
        # One level lower, so that there is something to compare the old size with.
        self._level: int | None = _nearest_level(start) - 1 if start else None
        """The size tried now, as a power of two."""
        self._trials: dict[int, _SizeTrials] = {}
        self._settled = False
        self._num_settled = self._since_settled = 0
        self._num_calls = 0
        self._call_cost = 0.0
        self._history: deque[tuple[float, float]] = deque(maxlen=_HISTORY)
        if failed is not None:
            self.largest_ok = start if start < failed else 0.0
            self.record_out_of_memory(failed)

    @property
    def budget(self) -> BatchBudget:
        """What the next batch may hold."""
        if not self._grow:
            return BatchBudget(0.0, 1, pads=self._pads)
        cost = min(self._size, self.limit)
        return BatchBudget(cost, self._max_items, self._call_cost, self._pads)

    @property
    def _size(self) -> float:
        return 0.0 if self._level is None else 2.0**self._level

    @property
    def best_cost(self) -> float:
        """The smallest size measured to give nearly the best speed; 0 before."""
        tried = {level: t.rate for level, t in self._trials.items() if t.tries >= _MIN_TRIES}
        return min(2.0 ** self._smallest_fast(tried), self.limit) if tried else 0.0

    def _smallest_fast(self, rates: dict[int, float]) -> int:
        fast = self._keep_speed * max(rates.values())
        return min(level for level, rate in rates.items() if rate >= fast)

    def record_success(self, cost: float, seconds: float) -> None:
        """A batch of this padded cost took this long."""
        seconds = max(seconds, 1e-9)
        self._history.append((cost, seconds))
        self.largest_ok = max(self.largest_ok, cost)
        if self.failed_cost is not None and cost >= self.failed_cost:
            self.failed_cost = None  # less memory was free when it failed
        self._raise_limit(cost)
        self._num_calls += 1
        if self._pads and self._num_calls % 4 == 0:
            self._call_cost = estimate_call_cost(self._history)
        trials = self._trials.setdefault(_nearest_level(cost), _SizeTrials())
        trials.tries += 1
        trials.rate = max(trials.rate, cost / seconds)
        if self._level is None:
            self._level = _nearest_level(cost)
        if self._settled:
            self._reconsider()
        else:
            self._try_larger()

    def record_out_of_memory(self, cost: float) -> None:
        """A batch of this padded cost did not fit into memory."""
        self.failed_cost = cost
        self._num_failures += 1
        self._num_good = 0
        if cost <= self.largest_ok:  # it fitted once: another program holds the memory now
            self.largest_ok = cost / 2
        self.limit = max(self.largest_ok, cost / 2)
        if self._level is not None and self._size > self.limit:
            self._settled = True

    def _raise_limit(self, cost: float) -> None:
        """After many good batches close to the limit, allow a little more."""
        if math.isinf(self.limit) or cost < _NEAR_LIMIT * min(self._size, self.limit):
            return
        self._num_good += 1
        if self._num_good >= _RAISE_AFTER << min(self._num_failures - 1, 8):
            self._num_good = 0
            self.limit *= _RAISE

    def _try_larger(self) -> None:
        """Double while it pays. Items that cost more than the level move it up to them.

        One good measurement is enough to go on; a size is given up only after several poor ones,
        since the first calls of a new shape load kernels and take memory from the driver.
        """
        assert self._level is not None
        tried = [level for level, trials in self._trials.items() if trials.tries >= _MIN_TRIES]
        level = max((other for other in tried if other >= self._level), default=None)
        if level is None:
            self._skip_unreached_level()
            return
        trials = self._trials[level]
        below = [other.rate for at, other in self._trials.items() if at < level]
        if below and trials.rate < MIN_GAIN * max(below):
            if trials.tries >= _MAX_TRIES:
                self._settle()
        else:
            self._level = level + 1
            self._settled = 2.0**self._level > self.limit  # `budget` holds it down

    def _reconsider(self) -> None:
        """Long after it settled, try one level up again: the device may be free now."""
        self._since_settled += 1
        if self._since_settled < _RETRY_AFTER << min(self._num_settled, 6) or self._level is None:
            return
        above = self._level + 1
        if 2.0**above <= self.limit and self._max_items > 1:
            self._trials.pop(above, None)
            self._level, self._settled = above, False

    def _skip_unreached_level(self) -> None:
        """Whole items may not add up to the level, so that no batch ever reaches it.

        Not beyond the double of two such steps: an engine may take one item at a time.
        """
        assert self._level is not None
        self._num_unreached += 1
        if self._num_unreached > _MIN_TRIES and self._level < max(self._trials) + 2:
            self._num_unreached = 0
            self._level += 1

    def _settle(self) -> None:
        self._level = self._smallest_fast({at: t.rate for at, t in self._trials.items()})
        self._settled = True
        self._num_settled += 1
        self._since_settled = 0


def _nearest_level(cost: float) -> int:
    return round(math.log2(max(cost, 1e-9)))


def estimate_call_cost(history: Sequence[tuple[float, float]]) -> float:
    """The overhead of a call in the items' unit, by linear regression of seconds over cost."""
    costs, times = [cost for cost, _ in history], [seconds for _, seconds in history]
    median = statistics.median(costs)
    if max(costs) - min(costs) < 0.1 * median:
        return 0.0
    slope, base = statistics.linear_regression(costs, times)
    if base < _MIN_CALL_S:
        return 0.0
    # A line is a crude model: it may not claim more than the batches that were really seen.
    return median if slope <= 0 else max(0.0, min(base / slope, median))
