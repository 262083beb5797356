"""The kernels that prove and measure a device: products of matrices, sweeps over memory.

Runs inside a child process (`child.py`) so that a driver that hangs or dies takes nothing along.
Every figure is the median of several rounds, each after a short rest and a warm-up and awaited to
its end. The rest matters: a large GPU at full work reaches its power limit within a tenth of a
second and slows down (an H200 from 785 to 668 TFLOP/s in bf16). Both are true, so the large product
is also timed without rest, for two seconds, and called `sustained`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from anyrig.bench.figures import Figure
from anyrig.units import GIB, MIB

if TYPE_CHECKING:
    from anyrig.backends import KernelRunner
    from anyrig.devices.machine import Precision

SQUARE = 2000
"""The size people compare devices by."""
PRODUCTS = 10
ROUNDS = 5
LARGE = (8192, 4096)
WARM_UP_S = 0.3
REST_S = 0.2
SUSTAINED_S = 2.0
_WARM_PRODUCTS = 3
_PROBE_SIZE = 384
_BYTES_PER_VALUE = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def probe(runner: KernelRunner) -> float:
    """The largest difference to the CPU's product, relative to its largest value."""
    import numpy as np

    random = np.random.default_rng(20261115)
    left = random.standard_normal((_PROBE_SIZE, _PROBE_SIZE)).astype(np.float32)
    right = random.standard_normal((_PROBE_SIZE, _PROBE_SIZE)).astype(np.float32)
    answer = runner.product(left, right)
    truth = left.astype(np.float64) @ right.astype(np.float64)
    if answer.shape != truth.shape or not np.isfinite(answer).all():
        return float("nan")
    return float(np.abs(answer - truth).max() / np.abs(truth).max())


def measure(
    runner: KernelRunner,
    *,
    free_bytes: int | None,
    budget_s: float,
    quick: bool,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[Figure]:
    """Figures of a device as they come: the 2000-square product, a large one, memory bandwidth.

    Args:
        runner: the device through one framework.
        free_bytes: memory that may be filled; a quarter of it is.
        budget_s: seconds after which nothing new is begun.
        quick: leave the large product out.
        tell: is told what is begun.
    """
    end = time.perf_counter() + budget_s
    steps = len(runner.precisions) * (1 if quick else 2) + 1
    per_product: dict[Precision, float] = {}
    for precision in runner.precisions:
        tell(f"{precision} product of {SQUARE} x {SQUARE}")
        figure = _products(runner, SQUARE, precision, PRODUCTS, _share(end, steps))
        steps -= 1
        per_product[precision] = figure.seconds / PRODUCTS
        yield figure
    tell("memory bandwidth")
    yield _bandwidth(runner, free_bytes, quick, _share(end, steps))
    for precision in () if quick else runner.precisions:
        steps -= 1
        deadline = _share(end, steps)
        size = _large_size(per_product[precision], precision, free_bytes, deadline)
        if size:
            tell(f"{precision} product of {size} x {size}")
            figure = _products(runner, size, precision, PRODUCTS, deadline)
            yield figure
            if figure.seconds < SUSTAINED_S / 2:
                yield _sustained(runner, figure)


def _share(end: float, steps: int) -> float:
    """When the next of `steps` steps should be over, so that all of them are by `end`."""
    now = time.perf_counter()
    return now + max(0.0, end - now) / max(1, steps)


def _large_size(
    seconds: float, precision: Precision, free_bytes: int | None, deadline: float
) -> int:
    """The largest product that fits into a quarter of memory and into the time that is left."""
    left = deadline - time.perf_counter()
    for size in LARGE:
        # At worst it runs at the small product's rate; on a GPU it is many times faster.
        expected = seconds * (size / SQUARE) ** 3 * PRODUCTS * 2
        held = 3 * size * size * max(2, _BYTES_PER_VALUE[precision]) * 2
        if expected < left and (free_bytes is None or held < free_bytes // 4):
            return size
    return 0


def _products(
    runner: KernelRunner, size: int, precision: Precision, count: int, deadline: float
) -> Figure:
    rounds = _rounds(lambda n: runner.time_products(size, precision, n), count, deadline)
    middle = statistics.median(rounds)
    return Figure(
        kernel="product",
        precision=precision,
        size=size,
        value=2.0 * size**3 * count / middle,
        unit="FLOP/s",
        seconds=middle,
        spread=(max(rounds) - min(rounds)) / middle,
        rounds=len(rounds),
    )


def _bandwidth(
    runner: KernelRunner, free_bytes: int | None, quick: bool, deadline: float
) -> Figure:
    # Far larger than any cache, far smaller than any memory.
    num_bytes = 256 * MIB if quick or free_bytes is None or free_bytes < 32 * GIB else 1 * GIB
    if free_bytes is not None and num_bytes * 4 > free_bytes:
        num_bytes = max(16 * MIB, free_bytes // 16)
    rounds = _rounds(lambda n: runner.time_copies(num_bytes, n), 8, deadline)
    middle = statistics.median(rounds)
    return Figure(
        kernel="bandwidth",
        precision="fp32",
        size=num_bytes,
        value=2.0 * num_bytes * 8 / middle,
        unit="B/s",
        seconds=middle,
        spread=(max(rounds) - min(rounds)) / middle,
        rounds=len(rounds),
    )


def _rounds(run: Callable[[int], float], count: int, deadline: float) -> list[float]:
    """Timed rounds after a warm-up; at least one, fewer than planned when time runs out."""
    run(1)  # loads the library's kernels
    warm_until = time.perf_counter() + WARM_UP_S
    seconds = run(1)
    while time.perf_counter() < min(warm_until, deadline):
        seconds = run(1)
    rounds: list[float] = []
    while not rounds or (len(rounds) < ROUNDS and time.perf_counter() + rounds[-1] < deadline):
        if seconds * count < REST_S:  # a slower device is warm, and far from any limit
            time.sleep(REST_S)
            run(_WARM_PRODUCTS)
        rounds.append(run(count))
    return rounds


def _sustained(runner: KernelRunner, burst: Figure) -> Figure:
    """The rate of the second half of two seconds without rest."""
    precision: Precision = burst.precision  # type: ignore[assignment]
    end = time.perf_counter() + SUSTAINED_S
    rounds = []
    while time.perf_counter() < end:
        rounds.append(runner.time_products(burst.size, precision, PRODUCTS))
    late = rounds[len(rounds) // 2 :]
    middle = statistics.median(late)
    return replace(
        burst,
        kernel="sustained",
        value=2.0 * burst.size**3 * PRODUCTS / middle,
        seconds=middle,
        spread=(max(late) - min(late)) / middle,
        rounds=len(late),
    )
