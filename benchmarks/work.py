"""Batching and scheduling beside the usual ways: padding, and when unequal devices are done.

Devices are simulated by engines that sleep, so the figures are those of the scheduler and the pool:
real processes and pipes, no computation, no loading. The peer is a shared queue from which each
process takes the next item, as `multiprocessing.Pool` and task queues with a prefetch of one do.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import random
import re
import time
from collections.abc import Sequence
from typing import Any

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.placement import Placement
from anyrig.work.batching import LOOK_AHEAD, Batch, BatchBudget, BatchQueue, WorkItem
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from benchmarks.harness import Row, median_and_range
from benchmarks.texts import read_novel

ROUNDS = 5
BACKEND = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
BATCH = 32


def run(hardware: str) -> list[Row]:
    return [*_packing(), *_pools()]


# -- packing ------------------------------------------------------------------------------------


def _packing() -> list[Row]:
    rng = random.Random(20261115)
    mu = math.log(61) - 0.32
    tokens = [min(482, max(1, round(rng.lognormvariate(mu, 0.8)))) for _ in range(20_000)]
    letters = [len(sentence) for sentence in re.split(r"(?<=[.!?])\s+", read_novel())]
    rows = []
    for what, costs in (("20,000 lognormal lengths", tokens), ("sentences of Alice", letters)):
        batches = pack(costs, BatchBudget(8192))
        ours = sum(b.cost for b in batches) / sum(costs)
        by_length = _fixed_batch_padding(sorted(costs, reverse=True))
        rows.append(Row(f"padded over real cost, {what}", ours, "", _fixed_batch_padding(costs),
                        f"batches of {BATCH} in order", high=1.05))  # fmt: skip
        rows.append(Row(f"padded over real cost, {what}", ours, "", by_length,
                        f"batches of {BATCH}, all sorted", high=1.05))  # fmt: skip
    return rows


def pack(
    costs: Sequence[float], budget: BatchBudget, look_ahead: int = LOOK_AHEAD
) -> list[Batch[float]]:
    """Batches of a stream with so many items waiting; each batch contains the oldest."""
    waiting: BatchQueue[float] = BatchQueue()
    batches = []
    for index, cost in enumerate(costs):
        waiting.add(WorkItem(index, cost, max(cost, 1e-9)))
        if len(waiting) >= look_ahead:
            batches.append(waiting.take_batch(waiting.oldest(), budget))
    while len(waiting):
        batches.append(waiting.take_batch(waiting.oldest(), budget))
    return batches


def _fixed_batch_padding(costs: Sequence[int]) -> float:
    parts = [costs[i : i + BATCH] for i in range(0, len(costs), BATCH)]
    return sum(len(part) * max(part) for part in parts) / sum(costs)


# -- unequal devices ----------------------------------------------------------------------------


def _pools() -> list[Row]:
    rng = random.Random(7)
    costs = [0.1 * rng.uniform(0.2, 1.8) for _ in range(100)]
    rows = []
    for speeds, against, best_s, bar in (
        ((1.0, 0.5, 0.2), "the ideal", ideal(costs, (1.0, 0.5, 0.2)), 1.04),
        ((1.0, 0.2, 0.025), "the best subset", best_subset(costs, (1.0, 0.2, 0.025)), 1.015),
    ):
        ours, spread = median_and_range(_measure_ours(costs, speeds), 1 / best_s)
        peer, _ = median_and_range(_measure_peer(costs, speeds), 1 / best_s)
        named = ", ".join(f"{speed:g}" for speed in speeds)
        rows.append(
            Row(f"time over {against}, speeds {named}", ours, "", peer, "shared queue", high=bar,
                spread=spread)
        )  # fmt: skip
    return rows


def _measure_ours(costs: Sequence[float], speeds: Sequence[float]) -> list[float]:
    names = {f"device{number}": speed for number, speed in enumerate(speeds)}
    placements = [Placement(Device(name, "cpu", "test", name), BACKEND) for name in names]
    factory = EngineFactory("anyrig.work.fake:FakeEngine", {"speeds": names})
    times = []
    for _ in range(ROUNDS):
        with WorkerPool(LocalWorkers(placements, factory, environment=os.environ)) as pool:
            pool.wait_ready()
            start = time.perf_counter()
            assert sum(1 for _ in pool.run(costs, cost=float)) == len(costs)
            times.append(time.perf_counter() - start)
    return times


_speed = 1.0


def _set_speed(speeds: Any) -> None:
    global _speed
    _speed = speeds.get()


def _sleep(cost: float) -> float:
    time.sleep(cost / _speed)
    return 2 * cost


def _measure_peer(costs: Sequence[float], speeds: Sequence[float]) -> list[float]:
    spawn = multiprocessing.get_context("spawn")
    times = []
    for _ in range(ROUNDS):
        waiting = spawn.SimpleQueue()
        for speed in speeds:
            waiting.put(speed)
        with spawn.Pool(len(speeds), _set_speed, (waiting,)) as pool:
            pool.map(_sleep, [0.0] * 30, chunksize=1)  # every process has started
            time.sleep(0.5)
            start = time.perf_counter()
            list(pool.imap(_sleep, costs))
            times.append(time.perf_counter() - start)
    return times


def ideal(costs: Sequence[float], speeds: Sequence[float]) -> float:
    """All work over all speed, or the largest item on the fastest."""
    return max(sum(costs) / sum(speeds), max(costs) / max(speeds))


def best_subset(costs: Sequence[float], speeds: Sequence[float]) -> float:
    """Of every subset of devices: each item goes to the device that finishes it first."""
    ends = []
    for size in range(1, len(speeds) + 1):
        for subset in itertools.combinations(speeds, size):
            free = [0.0] * size
            for cost in sorted(costs, reverse=True):
                place = min(range(size), key=lambda n: free[n] + cost / subset[n])
                free[place] += cost / subset[place]
            ends.append(max(free))
    return min(ends)
