"""torch's words for a device: its name, how to wait for it, what it holds and gives back.

CUDA's order and NVML's differ, so an NVIDIA device is found by its UUID among those torch sees.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from anyrig.backends import MemoryNow
from anyrig.backends.resident import Resident
from anyrig.devices.machine import BackendName, Device, DeviceBackend
from anyrig.errors import KernelError


def find(device: Device, drive: DeviceBackend) -> torch.device:
    """The device as torch names it."""
    if drive.provider == "cpu":
        return torch.device("cpu")
    if drive.provider == "mps":
        return torch.device("mps")
    if drive.provider == "privateuseone":
        import torch_directml  # type: ignore[import-not-found,unused-ignore]

        return torch.device(torch_directml.device(device.indices.get("dxgi", 0)))
    if drive.provider == "xpu":
        return torch.device("xpu", device.indices.get("xpu", 0))
    return torch.device("cuda", _cuda_index(device))


def _cuda_index(device: Device) -> int:
    """torch's number of a CUDA or ROCm device, by UUID, then by PCI address, then by order."""
    if not torch.cuda.is_available():
        raise KernelError(
            "torch sees no GPU: torch.cuda.is_available() is False",
            hint="Run `anyrig doctor`; the driver and torch's build must fit together.",
        )
    wanted = device.id.lower().removeprefix("gpu-").removeprefix("mig-")
    count = torch.cuda.device_count()
    for index in range(count):
        properties: Any = torch.cuda.get_device_properties(index)
        if str(getattr(properties, "uuid", "")).lower() == wanted:
            return index
        if device.part == "whole" and _address(properties) == device.pci_address:
            return index
    index = device.indices.get("cuda", device.indices.get("rocm", 0))
    # One MIG instance is all a process sees, under an id of its own.
    return index if index < count else 0


def _address(properties: Any) -> str | None:
    try:
        domain, bus, slot = (
            int(getattr(properties, f"pci_{part}_id")) for part in ("domain", "bus", "device")
        )
    except AttributeError:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "xpu":
        torch.xpu.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    elif device.type == "privateuseone":
        # DirectML has no call for it; reading a value back waits for what came before.
        torch.zeros(1, device=device).cpu()


class TorchBound:
    """A device bound to this process through torch."""

    backend: BackendName = "torch"

    def __init__(self, device: Device, drive: DeviceBackend, *, threads: int | None = None) -> None:
        self.device = find(device, drive)
        self.name = str(self.device)
        self.on_host = self.device.type == "cpu"
        self._described = device
        self._resident = Resident() if self.device.type == "cpu" else None
        if threads is not None and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)

    def synchronise(self) -> None:
        """Wait until the device has done all it was given."""
        synchronise(self.device)

    def memory(self) -> MemoryNow:
        """What is held now, and at most since the last `reset_peak`."""
        if self._resident is not None:
            return self._within(self._resident.memory())
        if self.device.type in ("cuda", "xpu"):
            return self._caching(getattr(torch, self.device.type))
        if self.device.type == "mps":
            return self._metal()
        # DirectML tells nothing: the budget comes from the device's description.
        described = self._described.memory
        return MemoryNow(free_bytes=described.free_bytes, total_bytes=described.total_bytes)

    def reset_peak(self) -> None:
        """Begin to measure the peak anew."""
        if self._resident is not None:
            self._resident.reset_peak()
        elif self.device.type in ("cuda", "xpu"):
            getattr(torch, self.device.type).reset_peak_memory_stats(self.device)

    def release(self) -> None:
        """Give back what torch keeps and no tensor uses. DirectML has no call for it."""
        if self.device.type in ("cuda", "xpu", "mps"):
            getattr(torch, self.device.type).empty_cache()

    def limit(self, num_bytes: int) -> bool:
        """Hold this process to so many bytes of the device; whether torch can."""
        total = self.memory().total_bytes
        if not total or self.device.type not in ("cuda", "xpu", "mps"):
            return False
        share = min(1.0, num_bytes / total)
        module = getattr(torch, self.device.type)
        if self.device.type == "mps":
            module.set_per_process_memory_fraction(share)
        else:
            module.set_per_process_memory_fraction(share, self.device)
        return True

    def _caching(self, module: Any) -> MemoryNow:
        """CUDA, ROCm and XPU keep the same books."""
        free, total = None, self._described.memory.total_bytes
        # Some integrated Intel GPUs cannot say what is free, and raise (ComfyUI#9128).
        with contextlib.suppress(RuntimeError):
            free, total = module.mem_get_info(self.device)
        return MemoryNow(
            allocated_bytes=module.memory_allocated(self.device),
            reserved_bytes=module.memory_reserved(self.device),
            peak_bytes=module.max_memory_allocated(self.device),
            peak_reserved_bytes=module.max_memory_reserved(self.device),
            free_bytes=free,
            total_bytes=total,
        )

    def _metal(self) -> MemoryNow:
        """Metal has no peak; the working set it recommends is what counts as all of it."""
        allocated = torch.mps.current_allocated_memory()
        reserved = torch.mps.driver_allocated_memory()
        total = torch.mps.recommended_max_memory()
        return MemoryNow(allocated, reserved, None, None, max(0, total - reserved), total)

    def _within(self, seen: MemoryNow) -> MemoryNow:
        """The host's figures inside a container's limit."""
        total = self._described.memory.total_bytes or seen.total_bytes
        if total is None or seen.free_bytes is None or seen.allocated_bytes is None:
            return seen
        free = min(seen.free_bytes, max(0, total - seen.allocated_bytes))
        return seen._replace(free_bytes=free, total_bytes=total)
