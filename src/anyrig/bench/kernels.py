"""The kernels that check and measure a device: matrix products and copies within its memory.

Each speed is the median of several rounds. Before each round the device rests and warms up: at full
load a large GPU reaches its power limit within a tenth of a second and slows down (an H200 from 785
to 668 TFLOP/s in bf16). Both speeds are real, so the large product is also measured without rest
for two seconds, as `sustained`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from anyrig.bench.measurements import Measurement
from anyrig.precision.choose import BYTES_PER_VALUE
from anyrig.units import GIB, MIB

if TYPE_CHECKING:
    from anyrig.backends import KernelRunner
    from anyrig.devices.machine import Precision

SMALL_SIZE = 2000  # the size that devices are usually compared by
LARGE_SIZES = (8192, 4096)
NUM_PRODUCTS = 10
NUM_ROUNDS = 5
_NUM_COPIES = 8
_WARM_UP_S = 0.3
_REST_S = 0.2
_SUSTAINED_S = 2.0
_CHECK_SIZE = 384


def compare_with_cpu(runner: KernelRunner) -> float:
    """The largest difference of a product to the CPU's, relative to its largest value."""
    import numpy as np

    random = np.random.default_rng(20261115)
    left = random.standard_normal((_CHECK_SIZE, _CHECK_SIZE)).astype(np.float32)
    right = random.standard_normal((_CHECK_SIZE, _CHECK_SIZE)).astype(np.float32)
    result = runner.product(left, right)
    expected = left.astype(np.float64) @ right.astype(np.float64)
    if result.shape != expected.shape or not np.isfinite(result).all():
        return float("nan")
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def measure_kernels(
    runner: KernelRunner,
    *,
    free_bytes: int | None,
    budget_s: float,
    quick: bool,
    on_progress: Callable[[str], None] = lambda text: None,
) -> Iterator[Measurement]:
    """Measure a small product, the memory's bandwidth and a large product, in each precision.

    Args:
        free_bytes: of the device's memory; at most a quarter is used.
        budget_s: seconds after which nothing new is started.
        quick: leave out the large product.
    """
    end_s = time.perf_counter() + budget_s
    num_left = len(runner.precisions) * (1 if quick else 2) + 1

    def next_deadline() -> float:
        nonlocal num_left
        now = time.perf_counter()
        deadline_s = now + max(0.0, end_s - now) / num_left
        num_left -= 1
        return deadline_s

    product_s: dict[Precision, float] = {}
    for precision in runner.precisions:
        on_progress(f"{precision} product of {SMALL_SIZE} x {SMALL_SIZE}")
        small = _measure_product(runner, SMALL_SIZE, precision, next_deadline())
        product_s[precision] = small.seconds / NUM_PRODUCTS
        yield small
    on_progress("memory bandwidth")
    yield _measure_bandwidth(runner, free_bytes, quick, next_deadline())
    for precision in () if quick else runner.precisions:
        deadline_s = next_deadline()
        size = _choose_large_size(product_s[precision], precision, free_bytes, deadline_s)
        if size:
            on_progress(f"{precision} product of {size} x {size}")
            large = _measure_product(runner, size, precision, deadline_s)
            yield large
            if large.seconds < _SUSTAINED_S / 2:
                yield _measure_sustained(runner, size, precision)


def _choose_large_size(
    product_s: float, precision: Precision, free_bytes: int | None, deadline_s: float
) -> int:
    """The largest product that fits a quarter of the memory and the time that is left, or 0."""
    left_s = deadline_s - time.perf_counter()
    for size in LARGE_SIZES:
        # At worst it runs at the small product's speed; on a GPU it is many times faster.
        expected_s = product_s * (size / SMALL_SIZE) ** 3 * NUM_PRODUCTS * 2
        used = 3 * size * size * max(2, BYTES_PER_VALUE[precision]) * 2
        if expected_s < left_s and (free_bytes is None or used < free_bytes // 4):
            return size
    return 0


def _measure_product(
    runner: KernelRunner, size: int, precision: Precision, deadline_s: float
) -> Measurement:
    rounds = _run_rounds(
        lambda count: runner.time_products(size, precision, count), NUM_PRODUCTS, deadline_s
    )
    return _summarize_products("product", precision, size, rounds)


def _measure_sustained(runner: KernelRunner, size: int, precision: Precision) -> Measurement:
    """The second half of two seconds without rest."""
    end_s = time.perf_counter() + _SUSTAINED_S
    rounds = []
    while time.perf_counter() < end_s:
        rounds.append(runner.time_products(size, precision, NUM_PRODUCTS))
    return _summarize_products("sustained", precision, size, rounds[len(rounds) // 2 :])


def _measure_bandwidth(
    runner: KernelRunner, free_bytes: int | None, quick: bool, deadline_s: float
) -> Measurement:
    # Far larger than any cache, far smaller than any memory.
    num_bytes = 256 * MIB if quick or free_bytes is None or free_bytes < 32 * GIB else 1 * GIB
    if free_bytes is not None and num_bytes * 4 > free_bytes:
        num_bytes = max(16 * MIB, free_bytes // 16)
    rounds = _run_rounds(
        lambda count: runner.time_copies(num_bytes, count), _NUM_COPIES, deadline_s
    )
    # Each copy reads and writes.
    return _summarize("bandwidth", "fp32", num_bytes, "B/s", 2.0 * num_bytes * _NUM_COPIES, rounds)


def _summarize_products(
    kernel: str, precision: str, size: int, rounds: Sequence[float]
) -> Measurement:
    operations = 2.0 * size**3 * NUM_PRODUCTS
    return _summarize(kernel, precision, size, "FLOP/s", operations, rounds)


def _summarize(
    kernel: str, precision: str, size: int, unit: str, amount: float, rounds: Sequence[float]
) -> Measurement:
    """The speed at which rounds of an amount each ran."""
    median_s = statistics.median(rounds)
    spread = (max(rounds) - min(rounds)) / median_s
    return Measurement(
        kernel, precision, size, amount / median_s, unit, median_s, spread, len(rounds)
    )


def _run_rounds(run: Callable[[int], float], count: int, deadline_s: float) -> list[float]:
    """Seconds of each round after a warm-up: at least one, fewer than planned if time runs out."""
    run(1)  # loads the library's kernels
    warm_s = time.perf_counter() + _WARM_UP_S
    seconds = run(1)
    while time.perf_counter() < min(warm_s, deadline_s):
        seconds = run(1)
    rounds: list[float] = []
    while not rounds or (
        len(rounds) < NUM_ROUNDS and time.perf_counter() + rounds[-1] < deadline_s
    ):
        if seconds * count < _REST_S:  # a slower device is warm, and far from any limit
            time.sleep(_REST_S)
            run(3)
        rounds.append(run(count))
    return rounds
