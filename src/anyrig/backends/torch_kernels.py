"""The kernels that prove and measure a device, through torch."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from anyrig.backends.torch import find, synchronise
from anyrig.devices.machine import Device, DeviceBackend, Precision

_DTYPES = {
    "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
}  # fmt: skip


class TorchRunner:
    """Kernels through torch."""

    def __init__(self, device: Device, drive: DeviceBackend) -> None:
        self._device = find(device, drive)
        self.ran_on = str(self._device)
        self.kernels = self._list_kernels()
        self.precisions = _precisions(device, drive)
        self._ready: tuple[object, Callable[[], object]] | None = None

    def _list_kernels(self) -> tuple[str, ...]:
        if self._device.type != "cuda":
            return ()
        return tuple(name.partition(":")[0] for name in torch.cuda.get_arch_list())

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        """The matrix product of two fp32 matrices."""
        a = torch.from_numpy(left).to(self._device)
        b = torch.from_numpy(right).to(self._device)
        result = a @ b
        self.ran_on = str(result.device)
        answer: NDArray[np.float32] = result.cpu().numpy()
        return answer

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        """Seconds for products of square matrices already on the device, awaited to the end."""
        multiply = self._work(
            (size, precision),
            lambda: self._fp8(size) if precision == "fp8" else self._dense(size, precision),
        )
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        try:
            return self._timed(multiply, num_products)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        """Seconds for copies within the device's memory, awaited to the end."""
        return self._timed(self._work(num_bytes, lambda: self._copy(num_bytes)), num_copies)

    def _work(self, key: object, make: Callable[[], Callable[[], object]]) -> Callable[[], object]:
        """Work whose matrices are already on the device, kept until other work is asked for."""
        if self._ready is None or self._ready[0] != key:
            self._ready = None  # free the old matrices before the new ones are made
            self._ready = (key, make())
        return self._ready[1]

    def _copy(self, num_bytes: int) -> Callable[[], object]:
        source = torch.ones(num_bytes // 4, dtype=torch.float32, device=self._device)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    def _timed(self, work: Callable[[], object], count: int) -> float:
        synchronise(self._device)
        start = time.perf_counter()
        for _ in range(count):
            work()
        synchronise(self._device)
        return time.perf_counter() - start

    def _dense(self, size: int, precision: Precision) -> Callable[[], object]:
        dtype = _DTYPES[precision]
        # Made in fp32: not every device draws random numbers in every format.
        left = torch.randn(size, size, device=self._device).to(dtype)
        right = torch.randn(size, size, device=self._device).to(dtype)
        result = torch.empty(size, size, dtype=dtype, device=self._device)
        return lambda: torch.mm(left, right, out=result)

    def _fp8(self, size: int) -> Callable[[], object]:
        left = torch.randn(size, size, device=self._device).to(torch.float8_e4m3fn)
        right = torch.randn(size, size, device=self._device).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=self._device)
        return lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16)


def _precisions(device: Device, drive: DeviceBackend) -> tuple[Precision, ...]:
    """The formats worth measuring: those that the silicon has, as described."""
    features = device.features
    found: list[Precision] = ["fp32"]
    if drive.provider == "cuda" and features.tf32:
        found.append("tf32")
    # On a CPU fp16 is slower than fp32 with torch unless the matrix units do it.
    # On Metal no description tells how fast fp16 is: a figure decides.
    if device.kind == "gpu" and (features.fp16 in ("matrix", "fast") or drive.provider == "mps"):
        found.append("fp16")
    if features.bf16 and drive.provider != "privateuseone":
        found.append("bf16")
    if device.vendor == "nvidia" and features.fp8 and hasattr(torch, "_scaled_mm"):
        found.append("fp8")
    return tuple(found)
