"""How a reader asks: an answer or None, the reason kept once, dear questions less often.

Drivers differ a thousandfold in what an answer costs (NVML measures PCIe throughput for 20 ms). So
every question that can wait is timed by the CPU it takes, and is asked so seldom that all of them
together stay under a share of one core; in between the last answer stands.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

# Of one core, for everything in one reader that can wait.
SHARE = 0.004
# However cheap a question is in CPU, a reader that only waits for it must not wait all the time.
_WAIT_SHARE = 0.05
_LONGEST_GAP_S = 30.0


class Unsupported(Exception):
    """The device will never answer this: it is not asked again."""


class Lost(Exception):
    """The device itself is gone."""


class _Kept:
    __slots__ = ("answer", "due", "cost")

    def __init__(self) -> None:
        self.answer: Any = None
        self.due = 0.0
        self.cost: float | None = None


class Asker:
    """Questions to one device, with the reason where there is no answer."""

    def __init__(
        self,
        pool: Pool | None = None,
        *,
        cpu: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.silences: Mapping[str, str] = {}
        """Why questions have no answer. Never changed, only replaced: samples share it."""
        self._pool = pool or Pool()
        self._never: set[str] = set()
        self._kept: dict[str, _Kept] = {}
        self._cpu, self._clock = cpu, clock

    def ask(self, name: str, question: Callable[[], T]) -> T | None:
        """The answer now, or None with the reason kept. Raises `Lost` alone."""
        if name in self._never:
            return None
        try:
            answer = question()
        except Lost:
            raise
        except Unsupported as error:
            self._never.add(name)
            self.note(name, f"no answer: {error}")
            return None
        except Exception as error:  # noqa: BLE001 - a driver may fail in ways nobody foresaw
            self.note(name, f"no answer: {str(error) or type(error).__name__}")
            return None
        self.note(name, "")
        return answer

    def seldom(self, name: str, question: Callable[[], T]) -> T | None:
        """The same for what can wait: the last answer, until asking again is cheap enough."""
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = _Kept()
            self._pool.num_questions += 1
        now = self._clock()
        if now < kept.due:
            answer: T | None = kept.answer
            return answer
        before = self._cpu()
        kept.answer = self.ask(name, question)
        spent, waited = self._cpu() - before, self._clock() - now
        if kept.cost is None:
            kept.cost = 0.0  # the first time loads and opens things: it says nothing of the next
        else:
            kept.cost = 0.5 * kept.cost + 0.5 * spent
            gap = max(kept.cost * self._pool.num_questions / self._pool.share, waited / _WAIT_SHARE)
            kept.due = now + min(_LONGEST_GAP_S, gap)
        fresh: T | None = kept.answer
        return fresh

    def note(self, name: str, reason: str) -> None:
        """Keep why there is no answer, or forget it when there is one."""
        if self.silences.get(name, "") == reason:
            return
        rest = {key: text for key, text in self.silences.items() if key != name}
        self.silences = {**rest, name: reason} if reason else rest
        log.debug("%s: %s", name, reason or "answers")


class Rates:
    """What counters grow by in a second. Between new readings the last rates stand."""

    def __init__(self, most: float = float("inf")) -> None:
        self._before: tuple[float, Sequence[float]] | None = None
        self._rates: tuple[float, ...] | None = None
        self._most = most

    def update(self, at_s: float, counts: Sequence[float]) -> tuple[float, ...] | None:
        """The rates, None before the second reading and where a counter began anew.

        Args:
            at_s: when the counters were read, not when they are looked at.
            counts: always the same ones in the same order.
        """
        before = self._before
        if before is not None and at_s - before[0] < 0.02:
            return self._rates
        self._before = (at_s, counts)
        if before is None:
            return None
        elapsed = at_s - before[0]
        rates = tuple((now - then) / elapsed for now, then in zip(counts, before[1], strict=True))
        self._rates = rates if all(0 <= rate <= self._most for rate in rates) else None
        return self._rates


class Pool:
    """What the questions of one reader share: their number and the CPU they may take."""

    def __init__(self, share: float = SHARE) -> None:
        self.share = share
        self.num_questions = 0
