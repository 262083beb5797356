"""What one look at the devices and the host tells, as frozen values. No reading, no judging.

`None` in a field means that nobody could tell, and `unknown` says why; zero is a measured zero. A
device that stopped answering is `lost`, with all its fields None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

# Plain words for what holds a clock down, whichever vendor's bit says so.
IDLE = "idle"
POWER = "power limit"
HOT = "too hot"
CURRENT = "current limit"
SLOWDOWN = "hardware slowdown"
BRAKE = "power brake"
USER = "clocks set by a user"
OTHER = "another reason"


class Moment(NamedTuple):
    """When something was looked at: for differences, and for people."""

    monotonic_s: float
    wall_s: float


class ProcessUse(NamedTuple):
    """What one process uses of a device."""

    pid: int
    name: str | None = None
    memory_bytes: int | None = None
    compute_percent: float | None = None
    ours: bool | None = None
    """Whether it is one of ours; None where its number means nothing here (another namespace)."""


class Framework(NamedTuple):
    """The framework's own books of a device: what this process holds through it."""

    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_bytes: int | None = None
    peak_reserved_bytes: int | None = None


@dataclass(frozen=True)
class Sample:
    """One look at one device."""

    device: str
    """The device's id."""
    name: str
    monotonic_s: float
    wall_s: float
    lost: str = ""
    """Why the device no longer answers; empty while it does."""
    compute_percent: float | None = None
    """Share of the time in which something computed."""
    memory_busy_percent: float | None = None
    """Share of the time in which memory was read or written."""
    encoder_percent: float | None = None
    decoder_percent: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_ours_bytes: int | None = None
    memory_others_bytes: int | None = None
    """Of other processes and of the driver itself."""
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
    throttling: tuple[str, ...] | None = None
    """What holds the clocks down, in plain words; empty when nothing does."""
    ecc_errors: int | None = None
    """Memory errors since the driver started that could not be corrected."""
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_bytes_s: float | None = None
    """Towards the device."""
    pcie_tx_bytes_s: float | None = None
    """From the device."""
    processes: tuple[ProcessUse, ...] | None = None
    framework: Framework | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Why a field has no answer; kept once for all samples of a device."""

    @property
    def moment(self) -> Moment:
        """When it was taken."""
        return Moment(self.monotonic_s, self.wall_s)

    @property
    def memory_percent(self) -> float | None:
        """How full the memory is."""
        if not self.memory_total_bytes or self.memory_used_bytes is None:
            return None
        return 100.0 * self.memory_used_bytes / self.memory_total_bytes


class HostProcess(NamedTuple):
    """A process as the host sees it."""

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
    """One look at the machine around the devices."""

    monotonic_s: float
    wall_s: float
    cpu_percent: float | None = None
    """Of all cores together; None on the first look, which has nothing to compare with."""
    cores_percent: tuple[float, ...] = ()
    load: tuple[float, float, float] | None = None
    memory_total_bytes: int | None = None
    """What this process may count on: a container's limit where there is one."""
    memory_available_bytes: int | None = None
    memory_ours_bytes: int | None = None
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
class Snapshot:
    """All devices and the host at one moment."""

    monotonic_s: float
    wall_s: float
    devices: tuple[Sample, ...]
    """In the machine's order, the CPU last."""
    host: HostSample

    def of(self, device_id: str) -> Sample | None:
        """The sample of one device."""
        return next((sample for sample in self.devices if sample.device == device_id), None)


class Shares(NamedTuple):
    """A device's used memory, parted."""

    ours: int | None
    others: int | None
    why_unknown: str = ""


def part_memory(
    used: int | None, processes: Iterable[ProcessUse] | None, *, all_visible: bool
) -> Shares:
    """How much of the used memory is ours.

    Args:
        used: of the whole device.
        processes: what the driver lists; None where it does not.
        all_visible: whether process numbers mean the same here and to the driver.
    """
    if processes is None:
        return Shares(None, None, "no answer: the driver does not list processes")
    mine = [process for process in processes if process.ours]
    if any(process.memory_bytes is None for process in mine):
        return Shares(None, None, "no answer: the driver does not tell a process's memory")
    if not mine and not all_visible:
        # The driver counts by the host's numbers, or hides what is not in this container.
        return Shares(None, None, "no answer: the container hides which processes are ours")
    ours = sum(process.memory_bytes or 0 for process in mine)
    return Shares(ours, None if used is None else max(0, used - ours))
