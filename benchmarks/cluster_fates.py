"""What befalls the workers of a simulated room, and how early all could be done in spite of it."""

from __future__ import annotations

import random
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


FATES = ("none", "deaths", "freezes", "comings", "all")


def fates(kind: str, paces: Sequence[float], until: float, rng: random.Random) -> list[Worker]:
    """A tenth of the workers die or freeze, some of them for good, at any time; half come late.

    The first stays, so that there is an end.
    """
    found = [Worker(paces[0])]
    for pace in paces[1:]:
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
    steps: list[tuple[float, float]] = []
    for one in workers:
        steps.append((one.comes, one.speed))
        if one.dies is not None:
            steps.append((max(one.dies, one.comes), -one.speed))
            if one.back is not None:
                steps.append((one.back, one.speed))
    steps.sort()
    left, speed, now = sum(costs) + lost, 0.0, 0.0
    for moment, change in steps:
        if speed > 0 and left <= speed * (moment - now):
            break
        left -= speed * (moment - now)
        now, speed = moment, speed + change
    fastest = max(one.speed for one in workers)
    ends = [now + left / speed if speed > 1e-12 else now, max(costs) / fastest]
    if comes is not None:
        ends.append(max(when + cost / fastest for when, cost in zip(comes, costs, strict=True)))
        after, most = 0.0, sum(one.speed for one in workers)
        for when, cost in sorted(zip(comes, costs, strict=True), reverse=True):
            after += cost
            ends.append(when + after / most)
    return max(ends)
