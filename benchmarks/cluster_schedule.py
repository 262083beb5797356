"""When unequal workers are done, over the ideal: the real scheduler with a virtual clock.

The ideal is all work over all speed (with what was lost added), or the largest segment on the
fastest worker. Peers with the same costs and speeds: equal numbers of segments for each worker, as
many systems split a book by chapters; and a task queue with Celery's defaults (four prefetched,
acknowledged early, equal shards). Where workers crash, both lose what was acknowledged, so they
have no figure.
"""

from __future__ import annotations

import heapq
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

from anyrig.work.assignment import Slot, assign_best
from benchmarks.cluster_simulation import (
    REMOTE,
    SPEED_KINDS,
    SimulationSettings,
    draw_costs,
    draw_faults,
    draw_speeds,
    ideal_s,
    simulate,
)
from benchmarks.harness import Row

NUM_SEEDS = 5
MAX_RATIO = 1.08
UNKNOWN_SPEEDS = replace(REMOTE, known=False, noise=0.1)
PREFETCH = 4
SHARD = 10
"""Segments in one of Celery's tasks."""
CLUSTERS = ((1, 150), (3, 150), (10, 150), (100, 100))
"""Numbers of workers, and of segments for each worker of speed 1."""
FAULTS = (
    (3, "mixed", "none", UNKNOWN_SPEEDS),
    (10, "mixed", "deaths", REMOTE),
    (10, "mixed", "freezes", REMOTE),
    (10, "mixed", "comings", REMOTE),
    (10, "two kinds", "all", REMOTE),
    (10, "mixed", "all", UNKNOWN_SPEEDS),
)


def run(hardware: str) -> list[Row]:
    rows = []
    for count, per_worker in CLUSTERS:
        for kind in SPEED_KINDS if count > 1 else ("equal",):
            rows.append(_without_faults(count, per_worker, kind))
    rows += [_with_faults(*case) for case in FAULTS]
    return [*rows, *_thousand_workers(), _one_more_worker()]


def _draw(
    count: int, per_worker: int, kind: str, seed: int
) -> tuple[list[float], list[float], random.Random]:
    rng = random.Random(seed)
    speeds = draw_speeds(kind, count, rng)
    return draw_costs(round(per_worker * sum(speeds)) + 20, rng), speeds, rng


def _row(what: str, ratios: Sequence[float], peer: float | None = None, name: str = "") -> Row:
    """The worst of several draws is judged."""
    spread = f"median {statistics.median(ratios):.3f} of {len(ratios)}"
    return Row(what, max(ratios), "", peer, name, high=MAX_RATIO, spread=spread)


def _without_faults(count: int, per_worker: int, kind: str) -> Row:
    ours, chapters, celery = [], [], []
    for seed in range(NUM_SEEDS if count < 100 else 2):
        costs, speeds, _ = _draw(count, per_worker, kind, seed)
        best_s = ideal_s(costs, speeds)
        ours.append(simulate(costs, speeds, seed=seed).end_s / best_s)
        chapters.append(_chapters_s(costs, speeds) / best_s)
        celery.append(_celery_s(costs, speeds) / best_s)
    name = f"chapters evenly; Celery's defaults {max(celery):.3g}"
    return _row(f"time over the ideal, {count} workers, {kind}", ours, max(chapters), name)


def _with_faults(count: int, kind: str, faults: str, settings: SimulationSettings) -> Row:
    ratios = []
    for seed in range(NUM_SEEDS):
        costs, speeds, rng = _draw(count, 150, kind, seed)
        workers = draw_faults(faults, speeds, sum(costs) / sum(speeds), rng)
        result = simulate(costs, workers, settings, seed=seed)
        ratios.append(result.end_s / ideal_s(costs, workers, lost=result.lost))
    known = "" if settings.known else ", speeds learnt and varying by 10 %"
    return _row(f"time over the ideal, {count} workers, {kind}, {faults}{known}", ratios)


def _thousand_workers() -> list[Row]:
    _, speeds, _ = _draw(1000, 1, "mixed", 1)
    costs = draw_costs(20_000, random.Random(1))
    start = time.process_time()
    result = simulate(costs, speeds)
    cpu_s = time.process_time() - start
    ratio = result.end_s / ideal_s(costs, speeds)
    return [
        Row("time over the ideal, 1000 workers, mixed, 20,000 segments", ratio, "", high=MAX_RATIO),
        Row("CPU for an event of that, plan and shift and world", 1000 * cpu_s / result.num_events,
            "ms", high=0.3),
    ]  # fmt: skip


def _one_more_worker() -> Row:
    """How much longer a run takes with one more worker of any speed, where speeds are known."""
    rng = random.Random(7)
    worst = 0.0
    for _ in range(200):
        speeds = [50 ** -rng.random() for _ in range(rng.randint(1, 20))]
        costs = sorted(draw_costs(rng.randint(1, 200), rng))
        slots = [Slot(n, 0.0, speed) for n, speed in enumerate([*speeds, 50 ** -rng.random()])]
        worst = max(worst, assign_best(costs, slots).end_s / assign_best(costs, slots[:-1]).end_s)
    return Row("time with one more worker over without, worst of 200 rooms, speeds known", worst,
               "", high=1 + 1e-9)  # fmt: skip


# -- peers ---------------------------------------------------------------------------------------


def _chapters_s(costs: Sequence[float], speeds: Sequence[float]) -> float:
    """An equal number of consecutive segments for each worker."""
    size = -(-len(costs) // len(speeds))
    return max(
        sum(costs[number * size : (number + 1) * size]) / speed
        for number, speed in enumerate(speeds)
    )


def _celery_s(costs: Sequence[float], speeds: Sequence[float]) -> float:
    """One queue of equal shards, of which each worker prefetches four."""
    shards = [sum(costs[n : n + SHARD]) for n in range(0, len(costs), SHARD)]
    shards.reverse()
    prefetched: list[list[float]] = [[] for _ in speeds]
    for _ in range(PREFETCH + 1):
        for own in prefetched:
            if shards:
                own.append(shards.pop())
    free = [(0.0, number) for number in range(len(speeds))]
    heapq.heapify(free)
    end_s = 0.0
    while free:
        now, number = heapq.heappop(free)
        end_s = max(end_s, now)
        if not prefetched[number]:
            continue
        cost = prefetched[number].pop(0)
        if shards:
            prefetched[number].append(shards.pop())
        heapq.heappush(free, (now + cost / speeds[number], number))
    return end_s
