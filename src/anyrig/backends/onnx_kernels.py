"""The kernels that prove and measure a device, through ONNX Runtime."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrig.backends import graph
from anyrig.backends.onnx import session, where_it_ran
from anyrig.devices.machine import Device, DeviceBackend, Precision

_COPIES_IN_GRAPH = 8
_PRODUCTS_IN_GRAPH = 10


def _product_chain(size: int, precision: Precision) -> bytes:
    random = np.random.default_rng(0)
    # Scaled so that a long chain of products neither grows nor vanishes.
    matrix = (random.standard_normal((size, size)) / np.sqrt(size)).astype(np.float32)
    if precision == "fp16":
        matrix = matrix.astype(np.float16)
    return graph.product_chain(matrix, _PRODUCTS_IN_GRAPH)


class OnnxRunner:
    """Kernels through ONNX Runtime."""

    kernels: tuple[str, ...] = ()

    def __init__(self, device: Device, drive: DeviceBackend) -> None:
        self._device, self._drive = device, drive
        self._ready: tuple[object, Any] | None = None
        self.ran_on = drive.provider
        self.precisions: tuple[Precision, ...] = ("fp32",)
        if device.kind == "gpu" and device.features.fp16 in ("matrix", "fast"):
            self.precisions = ("fp32", "fp16")

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        """The matrix product of two fp32 matrices."""
        model = graph.product(left.shape[0])
        with tempfile.TemporaryDirectory() as folder:
            made = session(model, self._device, self._drive, profile=os.path.join(folder, "run"))
            (answer,) = made.run(None, {"left": left, "right": right})
            ran = where_it_ran(Path(made.end_profiling()))
        self.ran_on = max(ran, key=lambda name: ran[name]) if ran else made.get_providers()[0]
        result: NDArray[np.float32] = answer
        return result

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        """Seconds for a chain of products inside one graph, whose matrices it holds."""
        made = self._chain((size, precision), lambda: _product_chain(size, precision))
        return self._timed(made, num_products, _PRODUCTS_IN_GRAPH)

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        """Seconds for sweeps over a vector (read it, write it), inside one graph."""
        made = self._chain(num_bytes, lambda: graph.sweep_chain(num_bytes // 4, _COPIES_IN_GRAPH))
        # Filling the vector and reducing it are one sweep more.
        return self._timed(made, num_copies, _COPIES_IN_GRAPH + 1)

    def _chain(self, key: object, model: Callable[[], bytes]) -> Any:
        """The session of a graph, kept until another graph is asked for."""
        if self._ready is None or self._ready[0] != key:
            self._ready = None  # free the old one's memory before the new one takes its own
            self._ready = (key, session(model(), self._device, self._drive))
        return self._ready[1]

    def _timed(self, made: Any, count: int, in_graph: int) -> float:
        runs = max(1, round(count / in_graph))
        one = np.ones(1, np.float32)
        start = time.perf_counter()
        for _ in range(runs):
            made.run(None, {"scale": one})  # a run returns when its output is on the host
        return (time.perf_counter() - start) * count / (runs * in_graph)
