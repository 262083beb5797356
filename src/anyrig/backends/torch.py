"""A device through torch: its handle (name, memory, synchronisation) and its kernels."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from anyrig.backends.memory import MemoryUsage, ResidentMemory
from anyrig.backends.precisions import list_precisions
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.errors import DeviceUnusableError

DTYPES: dict[str, torch.dtype] = {
    "fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
}  # fmt: skip


def find_torch_device(device: Device, backend: DeviceBackend) -> torch.device:
    if backend.provider in ("cpu", "mps"):
        return torch.device(backend.provider)
    if backend.provider == "xpu":
        return torch.device("xpu", device.indices.get("xpu", 0))
    return torch.device("cuda", _find_cuda_index(device))


def _find_cuda_index(device: Device) -> int:
    """torch's index of a CUDA or ROCm device: by UUID, then by PCI address, then by order.

    CUDA and NVML order devices differently.
    """
    if not torch.cuda.is_available():
        raise DeviceUnusableError(
            "torch does not see a GPU: torch.cuda.is_available() is False",
            hint="Run `anyrig doctor`: the driver and the torch build must match.",
        )
    uuid = device.id.lower().removeprefix("gpu-").removeprefix("mig-")
    count = torch.cuda.device_count()
    for index in range(count):
        properties: Any = torch.cuda.get_device_properties(index)
        if str(getattr(properties, "uuid", "")).lower() == uuid:
            return index
        if device.part == "whole" and _pci_address(properties) == device.pci_address:
            return index
    index = device.indices.get("cuda", device.indices.get("rocm", 0))
    # A process sees a single MIG instance, under an id of its own.
    return index if index < count else 0


def _pci_address(properties: Any) -> str | None:
    try:
        domain, bus, slot = (
            int(getattr(properties, f"pci_{part}_id")) for part in ("domain", "bus", "device")
        )
    except AttributeError:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def synchronize(device: torch.device) -> None:
    if device.type in ("cuda", "xpu"):
        getattr(torch, device.type).synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


class TorchHandle:
    """A device that this process uses through torch."""

    def __init__(
        self, device: Device, backend: DeviceBackend, *, threads: int | None = None
    ) -> None:
        self.device = find_torch_device(device, backend)
        self.name = str(self.device)
        self.on_host = self.device.type == "cpu"
        self._described_memory = device.memory
        self._resident = ResidentMemory() if self.on_host else None
        if threads is not None and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)

    def synchronize(self) -> None:
        synchronize(self.device)

    def memory(self) -> MemoryUsage:
        described = self._described_memory
        if self._resident is not None:
            return self._resident.read(described.total_bytes)
        if self.device.type in ("cuda", "xpu"):
            return self._read_allocator(getattr(torch, self.device.type))
        if self.device.type == "mps":
            # Metal has no peak; the working set that it recommends counts as the total.
            reserved = torch.mps.driver_allocated_memory()
            total = torch.mps.recommended_max_memory()
            free = max(0, total - reserved)
            allocated = torch.mps.current_allocated_memory()
            return MemoryUsage(allocated, reserved, free_bytes=free, total_bytes=total)
        return MemoryUsage(free_bytes=described.free_bytes, total_bytes=described.total_bytes)

    def _read_allocator(self, module: Any) -> MemoryUsage:
        """CUDA, ROCm and XPU have the same allocator statistics."""
        free, total = None, self._described_memory.total_bytes
        # Some integrated Intel GPUs cannot report free memory, and raise (ComfyUI#9128).
        with contextlib.suppress(RuntimeError):
            free, total = module.mem_get_info(self.device)
        stats = module.memory_stats(self.device)  # empty until the first allocation
        return MemoryUsage(
            allocated_bytes=stats.get("allocated_bytes.all.current", 0),
            reserved_bytes=stats.get("reserved_bytes.all.current", 0),
            peak_bytes=stats.get("allocated_bytes.all.peak", 0),
            peak_reserved_bytes=stats.get("reserved_bytes.all.peak", 0),
            free_bytes=free,
            total_bytes=total,
            num_alloc_retries=stats.get("num_alloc_retries", 0),
        )

    def reset_peak(self) -> None:
        if self._resident is not None:
            self._resident.reset_peak()
        elif self.device.type in ("cuda", "xpu"):
            getattr(torch, self.device.type).reset_peak_memory_stats(self.device)

    def release(self) -> None:
        """Return torch's cached memory to the device."""
        if self.device.type in ("cuda", "xpu", "mps"):
            getattr(torch, self.device.type).empty_cache()

    def limit(self, num_bytes: int) -> bool:
        total = self.memory().total_bytes
        # torch.xpu has it from 2.10 on; the CPU has nothing like it.
        module = getattr(torch, self.device.type, None)
        set_fraction = getattr(module, "set_per_process_memory_fraction", None)
        if not total or set_fraction is None:
            return False
        where = () if self.device.type == "mps" else (self.device,)
        set_fraction(min(1.0, num_bytes / total), *where)
        return True


class TorchRunner:
    """Kernels that test and measure a device through torch."""

    def __init__(self, device: Device, backend: DeviceBackend) -> None:
        self._device = find_torch_device(device, backend)
        self.ran_on = str(self._device)
        self.architectures: tuple[str, ...] = ()
        if self._device.type == "cuda":
            names = torch.cuda.get_arch_list()
            self.architectures = tuple(name.partition(":")[0] for name in names)
        self.precisions = _measurable_precisions(device, backend)
        self._prepared: tuple[object, Callable[[], object]] | None = None

    def product(self, left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float32]:
        a, b = (torch.from_numpy(matrix).to(self._device) for matrix in (left, right))
        result = a @ b
        self.ran_on = str(result.device)
        answer: NDArray[np.float32] = result.cpu().numpy()
        return answer

    def time_products(self, size: int, precision: Precision, num_products: int) -> float:
        multiply = self._prepare((size, precision), lambda: self._make_product(size, precision))
        with use_tf32(precision == "tf32"):
            return self._time(multiply, num_products)

    def time_copies(self, num_bytes: int, num_copies: int) -> float:
        return self._time(self._prepare(num_bytes, lambda: self._make_copy(num_bytes)), num_copies)

    def _prepare(
        self, key: object, make: Callable[[], Callable[[], object]]
    ) -> Callable[[], object]:
        """Work whose matrices are on the device already; kept until other work is prepared."""
        if self._prepared is None or self._prepared[0] != key:
            self._prepared = None  # free the old matrices before the new ones are allocated
            self._prepared = (key, make())
        return self._prepared[1]

    def _time(self, work: Callable[[], object], count: int) -> float:
        synchronize(self._device)
        start = time.perf_counter()
        for _ in range(count):
            work()
        synchronize(self._device)
        return time.perf_counter() - start

    def _make_copy(self, num_bytes: int) -> Callable[[], object]:
        source = torch.ones(num_bytes // 4, dtype=torch.float32, device=self._device)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    def _make_product(self, size: int, precision: Precision) -> Callable[[], object]:
        def draw(dtype: torch.dtype) -> torch.Tensor:
            # Drawn in fp32: not every device draws random numbers in every format.
            return torch.randn(size, size, device=self._device).to(dtype)

        if precision == "fp8":
            left, right = draw(torch.float8_e4m3fn), draw(torch.float8_e4m3fn).t()
            one = torch.ones((), device=self._device)
            return lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16)
        left, right = draw(DTYPES[precision]), draw(DTYPES[precision])
        result = torch.empty_like(left)
        return lambda: torch.mm(left, right, out=result)


def _measurable_precisions(device: Device, backend: DeviceBackend) -> tuple[Precision, ...]:
    """Of what torch can compute in, what the hardware is described to be fast in."""
    features = device.features
    # On a CPU torch's fp16 is slower than fp32 unless matrix units do it. On Metal the speed of
    # fp16 is not described, so a measurement decides.
    fast_fp16 = features.fp16 in ("matrix", "fast") or backend.provider == "mps"
    slow = {"fp16"} if device.kind == "cpu" or not fast_fp16 else set()
    if not features.bf16:
        slow.add("bf16")
    if not hasattr(torch, "_scaled_mm"):
        slow.add("fp8")
    return tuple(one for one in list_precisions(device, backend) if one not in slow)


# -- TF32 ------------------------------------------------------------------------------------------
# torch has two APIs for it. After the newer one (`torch.backends.cuda.matmul.fp32_precision`) any
# read of `torch.backends.cuda.matmul.allow_tf32` or `torch.get_float32_matmul_precision()` raises,
# and libraries do read them (Lightning crashes). `torch.set_float32_matmul_precision` sets both and
# repairs what the newer one left; for cuDNN the older flag does the same.


def set_tf32(enabled: bool) -> Callable[[], None]:
    """Set whether fp32 products may be rounded to TF32; returns a function that restores it."""
    matmul, convolution = _get_matmul_precision(), _get_cudnn_tf32()
    torch.set_float32_matmul_precision("high" if enabled else "highest")
    torch.backends.cudnn.allow_tf32 = enabled

    def restore() -> None:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = convolution

    return restore


@contextlib.contextmanager
def use_tf32(enabled: bool) -> Iterator[None]:
    restore = set_tf32(enabled)
    try:
        yield
    finally:
        restore()


def _get_matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set through the newer API
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _get_cudnn_tf32() -> bool:
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:
        newer: Any = torch.backends.cudnn
        return bool(newer.conv.fp32_precision == "tf32")
