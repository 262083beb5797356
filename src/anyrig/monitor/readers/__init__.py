"""Readers: one file per vendor, chosen by what discovery found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from anyrig.devices.machine import Device, Machine, Platform
from anyrig.devices.probe import HostProbe
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.sample import DeviceSample, SampleTime, unknown_sample


class DeviceReader(ABC):
    """Samples some devices of one kind."""

    def __init__(self, devices: Sequence[Device], system: HostProbe) -> None:
        self.devices = tuple(devices)
        self.system = system

    @abstractmethod
    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        """One sample of each device, in their order. Never raises for a device that fails."""

    def close(self) -> None:  # noqa: B027 - most readers keep nothing open
        """Release what was opened."""


class StaticReader(DeviceReader):
    """For devices that cannot be sampled: reports what discovery found, and the reason."""

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        return [unknown_sample(device, at, _explain(device)) for device in self.devices]


def _explain(device: Device) -> str:
    if device.hardware_block:
        return device.hardware_block.message
    return f"devices that use {device.driver or 'no driver'} cannot be sampled here"


def open_readers(machine: Machine, system: HostProbe) -> list[DeviceReader]:
    """A reader for every GPU of this machine. Nothing is read yet."""
    devices: dict[type[DeviceReader], list[Device]] = {}
    for gpu in machine.gpus:
        devices.setdefault(_choose_reader(gpu, machine.platform), []).append(gpu)
    return [reader(gpus, system) for reader, gpus in devices.items()]


def _choose_reader(gpu: Device, platform: Platform) -> type[DeviceReader]:
    from anyrig.monitor.readers.amd import AmdReader
    from anyrig.monitor.readers.apple import AppleReader
    from anyrig.monitor.readers.intel import IntelReader
    from anyrig.monitor.readers.nvidia import NvidiaReader
    from anyrig.monitor.readers.windows import WindowsReader

    if "nvml" in gpu.indices:
        return NvidiaReader
    if platform.system == "macOS":
        return AppleReader
    if platform.system == "Windows" and "dxgi" in gpu.indices:
        return WindowsReader
    if platform.system == "Linux" and not platform.wsl and gpu.pci_address:
        if gpu.vendor == "amd" and gpu.driver not in (None, "vfio-pci", "radeon"):
            return AmdReader
        if gpu.vendor == "intel" and gpu.driver not in (None, "vfio-pci"):
            return IntelReader
    return StaticReader
