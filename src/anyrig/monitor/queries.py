"""Queries to drivers and to the system: the answer or the reason, expensive ones throttled.

Drivers differ a thousandfold in what a query costs (NVML measures PCIe throughput for 20 ms). So
each query that can wait is timed, and repeated so rarely that all of them together stay within a
CPU budget; in between the last answer is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

# However little CPU a query takes, a reader must not spend all its time waiting for it.
_MAX_WAIT_SHARE = 0.05
_MAX_INTERVAL_S = 30.0


class Unsupported(Exception):
    """The device never answers this query: it is not repeated."""


class DeviceLost(Exception):
    """The device itself is gone."""


class QueryBudget:
    """The CPU time that all throttled queries of one reader share.

    Args:
        cpu_share: of one core.
    """

    def __init__(self, cpu_share: float = 0.004) -> None:
        self.cpu_share = cpu_share
        self.num_queries = 0


class _Throttled:
    __slots__ = ("answer", "due_s", "cpu_s")

    def __init__(self) -> None:
        self.answer: Any = None
        self.due_s = 0.0
        self.cpu_s: float | None = None


class Queries:
    """Queries to one device, with the reason where there is no answer."""

    def __init__(self, budget: QueryBudget | None = None) -> None:
        self.errors: Mapping[str, str] = {}
        """By query. Replaced, never changed: samples share it."""
        self._budget = budget or QueryBudget()
        self._unsupported: set[str] = set()
        self._throttled: dict[str, _Throttled] = {}

    def run(self, name: str, query: Callable[[], T]) -> T | None:
        """The answer now, or None with the reason in `errors`.

        Raises:
            DeviceLost: the device is gone.
        """
        if name in self._unsupported:
            return None
        try:
            answer = query()
        except DeviceLost:
            raise
        except Exception as error:  # noqa: BLE001 - a driver may fail in unforeseen ways
            if isinstance(error, Unsupported):
                self._unsupported.add(name)
            self.set_error(name, str(error) or type(error).__name__)
            return None
        self.set_error(name, "")
        return answer

    def run_throttled(self, name: str, query: Callable[[], T]) -> T | None:
        """As `run`, but the last answer until the budget allows the query again."""
        last = self._throttled.get(name)
        if last is None:
            last = self._throttled[name] = _Throttled()
            self._budget.num_queries += 1
        now_s = time.monotonic()
        if now_s >= last.due_s:
            before_s = time.thread_time()
            last.answer = self.run(name, query)
            spent_s, waited_s = time.thread_time() - before_s, time.monotonic() - now_s
            if last.cpu_s is None:
                last.cpu_s = 0.0  # the first query loads and opens things: it predicts nothing
            else:
                last.cpu_s = 0.5 * last.cpu_s + 0.5 * spent_s
                cpu_interval_s = last.cpu_s * self._budget.num_queries / self._budget.cpu_share
                interval_s = max(cpu_interval_s, waited_s / _MAX_WAIT_SHARE)
                last.due_s = now_s + min(_MAX_INTERVAL_S, interval_s)
        answer: T | None = last.answer
        return answer

    def set_error(self, name: str, reason: str) -> None:
        """Remember why a figure is missing or partial; an empty reason removes the entry."""
        if self.errors.get(name, "") == reason:
            return
        others = {key: text for key, text in self.errors.items() if key != name}
        self.errors = {**others, name: reason} if reason else others
        log.debug("%s: %s", name, reason or "available")


class CounterRates:
    """How fast counters grow, per second."""

    def __init__(self, max_rate: float = float("inf")) -> None:
        self._last: tuple[float, Sequence[float]] | None = None
        self._rates: tuple[float, ...] | None = None
        self._max_rate = max_rate

    def update(self, at_s: float, counts: Sequence[float]) -> tuple[float, ...] | None:
        """The rates; None before the second reading and where a counter was reset or wrapped.

        Args:
            at_s: when the counters were read: the same reading gives the same rates.
            counts: always of the same counters, in the same order.
        """
        last = self._last
        if last is not None and at_s - last[0] < 0.02:
            return self._rates
        self._last = (at_s, counts)
        if last is None:
            return None
        elapsed_s = at_s - last[0]
        rates = tuple((now - then) / elapsed_s for now, then in zip(counts, last[1], strict=True))
        self._rates = rates if all(0 <= rate <= self._max_rate for rate in rates) else None
        return self._rates
