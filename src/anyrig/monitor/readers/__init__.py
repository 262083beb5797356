"""Who reads which device: one file per vendor, chosen by what the machine's description says.

A vendor is named here, in `devices.sources` and in `backends`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from anyrig.devices.machine import Device, Machine
from anyrig.devices.probe import System
from anyrig.monitor.processes import Crowd
from anyrig.monitor.sample import Moment, Sample


class Reader(Protocol):
    """Samples some devices of one kind."""

    devices: tuple[Device, ...]

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        """One sample of each device, in their order. Never raises for a device that fails."""

    def close(self) -> None:
        """Give back what was opened."""


class NoReader:
    """Stands for devices that nobody can read, and says why."""

    def __init__(self, devices: Sequence[Device], reason: str) -> None:
        self.devices = tuple(devices)
        self._unknown = {"device": f"no answer: {reason}"}

    def read(self, moment: Moment, crowd: Crowd | None = None) -> list[Sample]:
        """What the description itself tells."""
        return [
            Sample(
                device.id,
                device.name,
                *moment,
                memory_total_bytes=device.memory.total_bytes,
                unknown=self._unknown,
            )
            for device in self.devices
        ]

    def close(self) -> None:
        """Nothing was opened."""


def open_readers(machine: Machine, system: System, root: str = "/") -> list[Reader]:
    """A reader for every GPU of this machine. Nothing is asked yet.

    Args:
        machine: what was found here.
        system: the seam to its files and programs.
        root: where its file system begins.
    """
    readers: list[Reader] = []
    rest = list(machine.gpus)
    for kind, devices in _kinds(machine):
        rest = [device for device in rest if device not in devices]
        if devices:
            readers.append(_open(kind, devices, system, root))
    readers += [NoReader([device], _why(device)) for device in rest]
    return readers


def _kinds(machine: Machine) -> Iterator[tuple[str, list[Device]]]:
    """Kinds of reader, with the devices each can read here."""
    yield "nvidia", [gpu for gpu in machine.of("nvidia") if "nvml" in gpu.indices]
    here = machine.platform
    others = [gpu for gpu in machine.gpus if "nvml" not in gpu.indices]
    if here.system == "Linux" and not here.wsl:
        for vendor in ("amd", "intel"):
            held = [gpu for gpu in others if gpu.vendor == vendor and gpu.pci_address]
            yield vendor, [gpu for gpu in held if gpu.driver not in (None, "vfio-pci", "radeon")]
    elif here.system == "macOS":
        yield "apple", others
    elif here.system == "Windows":
        yield "windows", [gpu for gpu in others if "dxgi" in gpu.indices]


def _open(kind: str, devices: list[Device], system: System, root: str) -> Reader:
    if kind == "nvidia":
        from anyrig.monitor.readers.nvidia import NvidiaReader

        return NvidiaReader(devices)
    if kind == "amd":
        from anyrig.monitor.readers.amd import AmdReader

        return AmdReader(devices, system, root)
    if kind == "intel":
        from anyrig.monitor.readers.intel import IntelReader

        return IntelReader(devices, system, root)
    if kind == "apple":
        from anyrig.monitor.readers.apple import AppleReader

        return AppleReader(devices, system)
    from anyrig.monitor.readers.windows import WindowsReader

    return WindowsReader(devices, system)


def _why(device: Device) -> str:
    if device.blocked:
        return device.blocked.message
    return f"nothing here samples a device under {device.driver or 'no driver'}"
