"""The figures of `anyrig bench` beside a plain loop over the same library.

And that the first use of a device is measured within ten seconds, the start of torch included.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

from anyrig.app.bench import find_backend
from anyrig.bench.kernels import NUM_PRODUCTS
from anyrig.bench.measurements import Measurement
from anyrig.bench.process import measure_device
from anyrig.devices.discovery import discover
from benchmarks.harness import Row
from benchmarks.torch_tools import synchronize

# 8192-cubed products on an H200, in TFLOP/s, as measured by hand: figures must be within 10 %.
KNOWN_H200 = {"fp32": (51, 51), "tf32": (404, 404), "fp16": (737, 737), "bf16": (753, 791),
              "fp8": (1417, 1417)}  # fmt: skip


def run(hardware: str) -> list[Row]:
    machine = discover(os.environ)
    device = machine.gpus[0] if hardware == "h200" else machine.cpu_device
    backend = find_backend(device)
    start = time.perf_counter()
    measure_device(device, backend, os.environ, quick=True)
    rows = [Row("first use of a device", time.perf_counter() - start, "s", high=10.0)]
    figures = measure_device(device, backend, os.environ).measurements
    for figure in figures:
        if figure.kernel == "product":
            rows += _product_rows(hardware, figure)
        elif figure.kernel == "sustained":
            rows.append(Row(f"{figure.size}-cubed product, {figure.precision}, sustained",
                            figure.value / 1e12, "TFLOP/s",
                            spread=f"{figure.spread:.0%} of {figure.rounds}"))  # fmt: skip
        else:
            rows.append(Row("memory bandwidth", figure.value / 1e9, "GB/s", low=1.0,
                            spread=f"{figure.spread:.0%} of {figure.rounds}"))  # fmt: skip
    return rows


def _product_rows(hardware: str, figure: Measurement) -> list[Row]:
    title = f"{figure.size}-cubed product, {figure.precision}"
    ours = figure.value / 1e12
    spread = f"{figure.spread:.0%} of {figure.rounds}"
    rows = []
    if figure.precision != "fp8":
        plain = _plain_loop(hardware, figure.size, figure.precision)
        # A shared CPU is noisy; a GPU is not.
        low, high = (0.9, 1.1) if hardware == "h200" else (0.6, 1.7)
        rows.append(Row(title, ours, "TFLOP/s", plain, "plain torch loop", low, high, "ratio",
                        spread))  # fmt: skip
    if hardware == "h200" and figure.size == 8192:
        least, most = KNOWN_H200[figure.precision]
        rows.append(Row(f"{title}, known", ours, "TFLOP/s", low=0.9 * least, high=1.1 * most,
                        spread=spread))  # fmt: skip
    return rows


def _plain_loop(hardware: str, size: int, precision: str) -> float:
    """TFLOP/s of a plain loop, in this process."""
    import torch

    device = "cuda" if hardware == "h200" else "cpu"
    dtypes: dict[str, Any] = {"fp16": torch.float16, "bf16": torch.bfloat16}
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    left = torch.randn(size, size, device=device).to(dtypes.get(precision, torch.float32))
    right = torch.randn(size, size, device=device).to(left.dtype)

    def run_once() -> float:
        if device == "cuda":
            time.sleep(0.2)
            for _ in range(3):
                left @ right
        synchronize(device)
        start = time.perf_counter()
        for _ in range(NUM_PRODUCTS):
            left @ right
        synchronize(device)
        return time.perf_counter() - start

    for _ in range(2):
        run_once()
    seconds = statistics.median(run_once() for _ in range(5))
    torch.backends.cuda.matmul.allow_tf32 = False
    return 2 * size**3 * NUM_PRODUCTS / seconds / 1e12
