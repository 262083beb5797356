"""What each framework computes in, without importing it."""

from __future__ import annotations

from anyrig.devices.machine import Device, DeviceBackend, Precision


def list_precisions(device: Device, backend: DeviceBackend) -> tuple[Precision, ...]:
    """What torch can compute in on a device, fast or not."""
    cuda = backend.provider == "cuda"
    supported: dict[Precision, bool] = {
        "fp32": True,
        "tf32": cuda and bool(device.features.tf32),
        "fp16": True,
        "bf16": True,
        # Models are cast to OCP's fp8.
        "fp8": cuda and bool(device.features.fp8) and not device.features.fnuz,
    }
    return tuple(precision for precision, able in supported.items() if able)
