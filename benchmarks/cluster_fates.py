"""What befalls the workers of a simulated room, and how early all could be done in spite of it."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Worker:
    """One worker's fate."""

    speed: float
    comes: float = 0.0
    dies: float | None = None
    back: float | None = None
    """When it works again after it died or froze; None for never."""
    freezes: bool = False
    """Whether it goes on, then, with what it had."""
    restarts: bool = False
    """Whether it is started anew under its name the moment it dies: both are seen at once."""
    leaves: bool = False
    """Whether it says that it goes, instead of dying, and finishes what it has."""


SPEEDS = ("equal", "mixed", "two kinds", "one slow")


def speeds(kind: str, count: int, rng: random.Random) -> list[float]:
    """Workers from 1 to 1/50; the first is always of the fastest."""
    if kind == "equal":
        return [1.0] * count
    if kind == "mixed":
        return [1.0, *(50 ** -rng.random() for _ in range(count - 1))]
    if kind == "two kinds":
        return [1.0, *(rng.choice((1.0, 0.02)) for _ in range(count - 1))]
    return [*([1.0] * (count - 1)), 0.02 if count > 1 else 1.0]


def segments(count: int, rng: random.Random, mean_s: float = 1.0) -> list[float]:
    """Seconds that segments of a book take a worker of speed 1: most near the mean, few long."""
    return [mean_s * min(8.0, rng.lognormvariate(-0.3, 0.8)) for _ in range(count)]


FATES = ("none", "deaths", "freezes", "comings", "restarted", "leaves", "all")


def fates(kind: str, paces: Sequence[float], until: float, rng: random.Random) -> list[Worker]:
    """A tenth of the workers die or freeze, some of them for good, at any time; half come late.

    Or half are restarted, or leave, and half of those that leave come back. The first stays, so
    that there is an end.
    """
    found = [Worker(paces[0])]
    for pace in paces[1:]:
        if kind in ("restarted", "leaves"):
            found.append(_moved(kind, pace, until, rng))
            continue
        comes = (
            rng.uniform(0, until / 2) if kind in ("comings", "all") and rng.random() < 0.5 else 0
        )
        worker = Worker(pace, comes=comes)
        if kind in ("deaths", "freezes", "all") and rng.random() < 0.1:
            dies = comes + rng.uniform(0, until)
            back = dies + rng.uniform(1, until / 2) if rng.random() < 0.5 else None
            freezes = kind == "freezes" or (kind == "all" and rng.random() < 0.5)
            worker = Worker(pace, comes, dies, back, freezes)
        found.append(worker)
    return found


def _moved(kind: str, pace: float, until: float, rng: random.Random) -> Worker:
    """One that is restarted, or leaves, with a chance of a half."""
    if rng.random() > 0.5:
        return Worker(pace)
    when = rng.uniform(0, until)
    if kind == "restarted":
        return Worker(pace, dies=when, back=when, restarts=True)
    back = when + rng.uniform(1, until / 2) if rng.random() < 0.5 else None
    return Worker(pace, dies=when, back=back, leaves=True)


def ideal(
    costs: Sequence[float],
    fates: Sequence[Worker | float],
    *,
    lost: float = 0.0,
    comes: Sequence[float] | None = None,
) -> float:
    """All work, what was lost added, over the speed that is there; or the largest on the fastest.

    Where items come over time, none is begun before it is there.
    """
    workers = [Worker(one) if isinstance(one, (int, float)) else one for one in fates]
    given = [(0.0, sum(costs))] if comes is None else list(zip(comes, costs, strict=True))
    steps: list[tuple[float, float, float]] = [(when, 0.0, cost) for when, cost in given]
    for one in workers:
        steps.append((one.comes, one.speed, 0.0))
        if one.dies is not None:
            steps.append((max(one.dies, one.comes), -one.speed, 0.0))
            if one.back is not None:
                steps.append((one.back, one.speed, 0.0))
    steps.sort()
    left, saved, speed, now, to_come = max(lost, 0.0), min(lost, 0.0), 0.0, 0.0, len(given)
    for moment, change, cost in steps:
        room = speed * (moment - now)
        if not to_come and speed > 0 and left + saved <= room:
            break
        left = max(0.0, left - room) + cost
        now, speed, to_come = moment, speed + change, to_come - (cost > 0)
    fastest = max(one.speed for one in workers)
    end = now + max(0.0, left + saved) / speed if speed > 1e-12 else now
    moments = comes if comes is not None else [0.0] * len(costs)
    longest = max(when + cost / fastest for when, cost in zip(moments, costs, strict=True))
    return max(end, longest)


def unlearnt(costs: Sequence[float], paces: Sequence[float]) -> float:
    """Before when no plan is sure to end that does not know the speeds, however they are dealt out.

    All begin at once, each with a segment that was chosen blindly: at best these are the cheapest.
    Who has not done its first by a moment has done nothing by then. On the average over all ways to
    deal out the speeds, the rest can have done so much by then; where that is less than all there
    is, some of the ways end later. Nor is the longest begun on the fastest before that is known.
    """
    first, total = sorted(costs)[: len(paces)], sum(costs)
    early, late = total / sum(paces), total / max(paces)
    for _ in range(50):
        moment = (early + late) / 2
        done = sum(pace * moment * bisect_right(first, pace * moment) for pace in paces)
        early, late = (early, moment) if done >= total * len(first) else (moment, late)
    return max(late, (first[0] + max(costs)) / max(paces))
