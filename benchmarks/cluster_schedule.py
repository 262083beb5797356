"""When a room of unequal workers is done, over the ideal: the real plan under a clock of its own.

The ideal is all work over all speed (with what was lost added), or the largest segment on the
fastest. Beside it, under the same clock: chapters handed out evenly, as many systems do, and a task
queue with Celery's defaults (four taken ahead, acknowledged early, equal shards). Where workers
die, those lose what was acknowledged, so there is no figure for them.
"""

from __future__ import annotations

import heapq
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from anyrig.work.assignment import Slot, assign_best
from benchmarks.cluster_fates import fates, ideal, segments, speeds
from benchmarks.cluster_world import FAR, Settings, play
from benchmarks.harness import Row

SEEDS = 5
MOST = 1.08
LEARNT = replace(FAR, known=False, noise=0.1)
AHEAD = 4
SHARD = 10
"""Segments in a shard of equal parts."""
ROOMS = ((1, 150), (3, 150), (10, 150), (100, 100))
"""Workers, and segments for each of speed 1."""


def run(hardware: str) -> list[Row]:
    rows = []
    for count, each in ROOMS:
        for kind in ("equal", "mixed", "two kinds", "one slow") if count > 1 else ("equal",):
            rows.append(_beside(count, each, kind))
    for count, each, kind, fate, how in (
        (3, 150, "mixed", "none", LEARNT),
        (10, 150, "mixed", "deaths", FAR),
        (10, 150, "mixed", "freezes", FAR),
        (10, 150, "mixed", "comings", FAR),
        (10, 150, "two kinds", "all", FAR),
        (10, 150, "mixed", "all", LEARNT),
    ):
        rows.append(_befallen(count, each, kind, fate, how))
    return [*rows, *_thousand(), _one_more()]


def _drawn(
    count: int, each: int, kind: str, seed: int
) -> tuple[list[float], list[float], random.Random]:
    rng = random.Random(seed)
    paces = speeds(kind, count, rng)
    return segments(round(each * sum(paces)) + 20, rng), paces, rng


def _row(what: str, ratios: Sequence[float], peer: float | None = None, name: str = "") -> Row:
    """The worst of several draws counts; the median is told."""
    spread = f"median {statistics.median(ratios):.3f} of {len(ratios)}"
    return Row(what, max(ratios), "", peer, name, high=MOST, spread=spread)


def _beside(count: int, each: int, kind: str) -> Row:
    ours, evenly, queued = [], [], []
    for seed in range(SEEDS if count < 100 else 2):
        costs, paces, _ = _drawn(count, each, kind, seed)
        least = ideal(costs, paces)
        ours.append(play(costs, paces, FAR, seed=seed).end / least)
        evenly.append(_chapters(costs, paces) / least)
        queued.append(_celery(costs, paces) / least)
    name = f"chapters evenly; Celery's defaults {max(queued):.3g}"
    what = f"time over the ideal, {count} workers, {kind}"
    return _row(what, ours, max(evenly), name)


def _befallen(count: int, each: int, kind: str, fate: str, how: Settings) -> Row:
    ratios = []
    for seed in range(SEEDS):
        costs, paces, rng = _drawn(count, each, kind, seed)
        workers = fates(fate, paces, sum(costs) / sum(paces), rng)
        told = play(costs, workers, how, seed=seed)
        ratios.append(told.end / ideal(costs, workers, lost=told.lost))
    known = "" if how.known else ", speeds learnt and varying by 10 %"
    return _row(f"time over the ideal, {count} workers, {kind}, {fate}{known}", ratios)


def _thousand() -> list[Row]:
    """20,000 segments over 1,000 workers, and what a decision takes."""
    costs, paces, _ = _drawn(1000, 1, "mixed", 1)
    costs = segments(20_000, random.Random(1))
    began = time.process_time()
    told = play(costs, paces, FAR)
    spent = time.process_time() - began
    ratio = told.end / ideal(costs, paces)
    return [
        Row("time over the ideal, 1000 workers, mixed, 20,000 segments", ratio, "", high=MOST),
        Row("CPU for an event of that, plan and shift and world", 1000 * spent / told.num_events,
            "ms", high=0.3),
    ]  # fmt: skip


def _one_more() -> Row:
    """The most that one more worker of any speed made it longer, where speeds are known."""
    rng = random.Random(7)
    worst = 0.0
    for _ in range(200):
        paces = [50 ** -rng.random() for _ in range(rng.randint(1, 20))]
        costs = sorted(segments(rng.randint(1, 200), rng))
        seats = [Slot(n, 0.0, pace) for n, pace in enumerate([*paces, 50 ** -rng.random()])]
        worst = max(worst, assign_best(costs, seats).end_s / assign_best(costs, seats[:-1]).end_s)
    return Row("time with one more worker over without, worst of 200 rooms, speeds known", worst,
               "", high=1 + 1e-9)  # fmt: skip


# -- the usual ways -----------------------------------------------------------------------------


def _chapters(costs: Sequence[float], paces: Sequence[float]) -> float:
    """As many segments to each, in a row."""
    size = -(-len(costs) // len(paces))
    return max(
        sum(costs[place * size : (place + 1) * size]) / pace for place, pace in enumerate(paces)
    )


def _celery(costs: Sequence[float], paces: Sequence[float]) -> float:
    """One queue of equal shards; a worker takes four ahead of the one that it is at."""
    shards = [sum(costs[n : n + SHARD]) for n in range(0, len(costs), SHARD)]
    shards.reverse()
    held: list[list[float]] = [[] for _ in paces]
    for _ in range(AHEAD + 1):
        for mine in held:
            if shards:
                mine.append(shards.pop())
    free = [(0.0, number) for number in range(len(paces))]
    heapq.heapify(free)
    latest = 0.0
    while free:
        now, number = heapq.heappop(free)
        latest = max(latest, now)
        if not held[number]:
            continue
        cost = held[number].pop(0)
        if shards:
            held[number].append(shards.pop())
        heapq.heappush(free, (now + cost / paces[number], number))
    return latest
