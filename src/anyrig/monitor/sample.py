"""What one reading of the devices and the host gives, as frozen values, and as JSON.

`None` means unknown, and `unknown` says why; zero is a measured zero. A device that stopped
responding is `lost`, and all its figures are None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from anyrig.devices.machine import Device
    from anyrig.monitor.alerts import DeviceAlert


class ThrottleReason(StrEnum):
    """Why clocks are reduced, in the same words for every vendor."""

    IDLE = "idle"
    POWER = "power limit"
    THERMAL = "thermal"
    CURRENT = "current limit"
    HARDWARE_SLOWDOWN = "hardware slowdown"
    POWER_BRAKE = "power brake"
    USER = "clocks set by a user"
    SYNC_BOOST = "sync boost"
    DISPLAY = "display clocks"
    BOARD_LIMIT = "board limit"
    RELIABILITY = "reliability"
    OTHER = "another reason"


class SampleTime(NamedTuple):
    """When a sample was taken: for differences, and for people."""

    monotonic_s: float
    wall_s: float


class DeviceProcess(NamedTuple):
    """What one process uses of a device."""

    pid: int
    name: str | None = None
    memory_bytes: int | None = None
    compute_percent: float | None = None
    ours: bool | None = None
    """None where the pid belongs to another PID namespace."""


@dataclass(frozen=True)
class DeviceSample:
    device: str
    """The device's id."""
    name: str
    monotonic_s: float
    wall_s: float
    lost: str = ""
    """Why the device no longer responds; empty while it does."""
    compute_percent: float | None = None
    """Share of the time in which a kernel ran."""
    memory_busy_percent: float | None = None
    """Share of the time in which memory was read or written."""
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    """By all processes and the driver."""
    memory_own_bytes: int | None = None
    memory_allocated_bytes: int | None = None
    """In live tensors of torch in this process; None where it has not loaded torch."""
    memory_reserved_bytes: int | None = None
    """Held by torch in this process: live tensors and its cache."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    hotspot_c: float | None = None
    memory_temperature_c: float | None = None
    fan_percent: float | None = None
    fan_rpm: int | None = None
    clock_mhz: int | None = None
    clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    throttling: tuple[ThrottleReason, ...] | None = None
    """Why clocks are reduced; empty when they are not."""
    ecc_errors: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_bytes_s: float | None = None
    """Towards the device."""
    pcie_tx_bytes_s: float | None = None
    processes: tuple[DeviceProcess, ...] | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a figure is missing; samples of a device share the mapping."""

    @property
    def memory_free_bytes(self) -> int | None:
        return _subtract(self.memory_total_bytes, self.memory_used_bytes)

    @property
    def memory_others_bytes(self) -> int | None:
        """Used by other processes and by the driver itself."""
        return _subtract(self.memory_used_bytes, self.memory_own_bytes)

    @property
    def memory_cached_bytes(self) -> int | None:
        """Reserved by torch in this process and in no tensor: what releasing memory returns."""
        return _subtract(self.memory_reserved_bytes, self.memory_allocated_bytes)

    @property
    def memory_percent(self) -> float | None:
        if not self.memory_total_bytes or self.memory_used_bytes is None:
            return None
        return 100.0 * self.memory_used_bytes / self.memory_total_bytes


def _subtract(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else max(0, whole - part)


def unknown_sample(
    device: Device, at: SampleTime, reason: str, *, lost: bool = False
) -> DeviceSample:
    """What discovery found of a device that cannot be sampled."""
    total, unknown = device.memory.total_bytes, {"device": reason}
    sample = DeviceSample(device.id, device.name, *at, memory_total_bytes=total, unknown=unknown)
    return replace(sample, lost=reason) if lost else sample


class HostProcess(NamedTuple):
    pid: int
    name: str
    user: str | None
    command: str
    cpu_percent: float | None
    """100 is one core."""
    memory_bytes: int | None
    ours: bool


@dataclass(frozen=True)
class HostSample:
    monotonic_s: float
    wall_s: float
    cpu_percent: float | None = None
    """Of all cores together; None in the first sample, which has nothing to compare with."""
    cores_percent: tuple[float, ...] = ()
    load: tuple[float, float, float] | None = None
    memory_total_bytes: int | None = None
    """The container's limit where there is one."""
    memory_available_bytes: int | None = None
    memory_own_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    disk_read_bytes_s: float | None = None
    disk_write_bytes_s: float | None = None
    network_rx_bytes_s: float | None = None
    network_tx_bytes_s: float | None = None
    processes: tuple[HostProcess, ...] = ()
    """Ours, and those that use a device."""
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineSnapshot:
    """All devices and the host at one moment."""

    monotonic_s: float
    wall_s: float
    devices: tuple[DeviceSample, ...]
    """In the machine's order, the CPU last."""
    host: HostSample

    def find(self, device_id: str) -> DeviceSample | None:
        return next((sample for sample in self.devices if sample.device == device_id), None)


def snapshot_to_json(
    snapshot: MachineSnapshot, alerts: Sequence[DeviceAlert] = ()
) -> dict[str, Any]:
    """Plain data without NaN or infinity, with the same keys every time."""
    return {
        "time": snapshot.wall_s,
        "monotonic": snapshot.monotonic_s,
        "devices": [_device_to_json(sample) for sample in snapshot.devices],
        "host": _fields_to_json(snapshot.host),
        "warnings": [alert._asdict() for alert in alerts],
    }


def _device_to_json(sample: DeviceSample) -> dict[str, Any]:
    fields = _fields_to_json(sample)
    allocated, reserved = (fields.pop(f"memory_{name}_bytes") for name in ("allocated", "reserved"))
    framework = None  # commands load none
    if allocated is not None:
        framework = {"allocated_bytes": allocated, "reserved_bytes": reserved}
    return {
        **fields,
        "memory_free_bytes": sample.memory_free_bytes,
        "memory_others_bytes": sample.memory_others_bytes,
        "framework": framework,
    }


def _fields_to_json(sample: DeviceSample | HostSample) -> dict[str, Any]:
    return {name: _to_json(value) for name, value in vars(sample).items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, DeviceProcess | HostProcess):
        return value._asdict()
    if isinstance(value, tuple):
        return [_to_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
