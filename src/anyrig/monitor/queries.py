"""Queries to drivers and to the system: the answer or the reason why there is none.

Queries differ a thousandfold in cost (NVML measures PCIe throughput for 20 ms). Those that can wait
are timed and throttled so that all together stay within a CPU budget; in between, the last answer
is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

CPU_SHARE = 0.004
"""Of one core, for the throttled queries of one reader."""
# However little CPU a query takes, a reader must not spend all its time waiting for it.
_MAX_WAIT_SHARE = 0.05
_MAX_INTERVAL_S = 30.0


class UnsupportedQuery(Exception):
    """The device never answers this query: it is not repeated."""


class DeviceGone(Exception):
    """The device itself no longer responds."""


class _LastAnswer:
    __slots__ = ("answer", "due_s", "cpu_s")

    def __init__(self) -> None:
        self.answer: Any = None
        self.due_s = 0.0
        self.cpu_s: float | None = None


class Queries:
    """Queries to one device.

    Args:
        cpu_share: of one core, for all throttled queries together.
    """

    def __init__(self, cpu_share: float = CPU_SHARE) -> None:
        self.errors: Mapping[str, str] = {}
        """By query. Replaced, never changed: samples share it."""
        self._cpu_share = cpu_share
        self._unsupported: set[str] = set()
        self._throttled: dict[str, _LastAnswer] = {}

    def run(self, name: str, query: Callable[..., T], *arguments: Any) -> T | None:
        """The answer, or None with the reason in `errors`; `DeviceGone` is raised."""
        if name in self._unsupported:
            return None
        try:
            answer = query(*arguments)
        except DeviceGone:
            raise
        except Exception as error:  # noqa: BLE001 - a driver may fail in unforeseen ways
            if isinstance(error, UnsupportedQuery):
                self._unsupported.add(name)
            self.set_error(name, str(error) or type(error).__name__)
            return None
        self.set_error(name, "")
        return answer

    def run_throttled(self, name: str, query: Callable[..., T], *arguments: Any) -> T | None:
        """As `run`, but the last answer until the budget allows the query again."""
        last = self._throttled.get(name)
        if last is None:
            last = self._throttled[name] = _LastAnswer()
        now_s = time.monotonic()
        if now_s >= last.due_s:
            before_s = time.thread_time()
            last.answer = self.run(name, query, *arguments)
            spent_s, waited_s = time.thread_time() - before_s, time.monotonic() - now_s
            if last.cpu_s is None:
                last.cpu_s = 0.0  # the first query loads and opens things: it predicts nothing
            else:
                last.cpu_s = 0.5 * last.cpu_s + 0.5 * spent_s
                cpu_interval_s = last.cpu_s * len(self._throttled) / self._cpu_share
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
    """How fast counters grow, per second; None where a counter was reset or wrapped."""

    def __init__(self, max_rate: float = float("inf")) -> None:
        self._last: tuple[float, Sequence[float]] | None = None
        self._rates: tuple[float, ...] | None = None
        self._max_rate = max_rate

    def update(self, at_s: float, counts: Sequence[float]) -> tuple[float, ...] | None:
        """The rates since the last reading; the same reading gives the same rates.

        Args:
            at_s: when the counters were read.
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
