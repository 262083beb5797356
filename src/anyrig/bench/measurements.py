"""Measurements of devices, saved by device, and valid for one driver and set of libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from anyrig.devices.choose import MeasuredDevices
from anyrig.devices.machine import Device, Library, Machine, Precision
from anyrig.storage import files
from anyrig.units import format_flops, shorten

_FORMAT = 1
# Precisions that any model runs in; FP8 is for the few models that were made for it.
_COMMON_PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
_COLOURS = {"fp32": "c0", "tf32": "c4", "fp16": "c1", "bf16": "c3", "fp8": "c2"}


@dataclass(frozen=True)
class Measurement:
    """The speed of one kernel."""

    kernel: str
    """`product` of square matrices, the same `sustained` for seconds, or memory `bandwidth`."""
    precision: str
    size: int
    """Rows of the matrix, or bytes copied."""
    value: float
    unit: str
    seconds: float
    """The median round."""
    spread: float = 0.0
    """Slowest minus fastest round, as a share of the median."""
    rounds: int = 1
    backend: str = ""


@dataclass(frozen=True)
class DeviceMeasurements:
    device: str
    name: str
    versions: str
    """Of the driver and the libraries; the measurements are valid for these only."""
    measurements: tuple[Measurement, ...] = ()
    broken: str = ""
    """What the device computed wrong, or why no kernel runs on it."""
    when: str = ""

    def merge(self, newer: DeviceMeasurements) -> DeviceMeasurements:
        """Both; of the same measurement the one with more rounds, else the newer."""
        if newer.versions != self.versions:
            return newer
        merged: dict[tuple[str, str, str, int], Measurement] = {}
        for one in (*self.measurements, *newer.measurements):
            key = (one.backend, one.kernel, one.precision, one.size)
            if key not in merged or one.rounds >= merged[key].rounds:
                merged[key] = one
        return replace(newer, measurements=tuple(merged.values()))

    def speeds(self) -> dict[tuple[Library, Precision], float]:
        """The highest FLOP/s of a matrix product by library and precision."""
        found: dict[tuple[Library, Precision], float] = {}
        for one in self.measurements:
            if one.kernel == "product":
                key = cast("tuple[Library, Precision]", (one.backend, one.precision))
                found[key] = max(one.value, found.get(key, 0.0))
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "name": self.name,
            "stamp": self.versions,
            "figures": [asdict(one) for one in self.measurements],
            "broken": self.broken,
            "when": self.when,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> DeviceMeasurements:
        measurements = tuple(Measurement(**figure) for figure in row["figures"])
        return cls(
            row["device"], row["name"], row["stamp"], measurements, row["broken"], row["when"]
        )


@dataclass(frozen=True)
class Measurements:
    """All measurements of this machine, by device id."""

    devices: Mapping[str, DeviceMeasurements] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Measurements:
        """The saved measurements; none if the file cannot be read: they can be measured again."""
        try:
            rows = files.read_versioned(path, _FORMAT).get("devices", {}).items()
            return cls({key: DeviceMeasurements.from_json(row) for key, row in rows})
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def save(self, path: Path) -> None:
        rows = {key: one.to_json() for key, one in self.devices.items()}
        files.write_versioned(path, _FORMAT, {"devices": rows})

    def find(self, device: Device, machine: Machine) -> DeviceMeasurements | None:
        """What is valid for a device with its current driver and libraries."""
        found = self.devices.get(device.id)
        return found if found and found.versions == describe_versions(device, machine) else None

    def add(self, new: DeviceMeasurements) -> Measurements:
        old = self.devices.get(new.device)
        return Measurements({**self.devices, new.device: old.merge(new) if old else new})

    def speeds(self, machine: Machine) -> dict[str, dict[tuple[Library, Precision], float]]:
        """By device id: the highest FLOP/s by library and precision."""
        return {id_: one.speeds() for id_, one in self._select_valid(machine).items()}

    def measured_devices(self, machine: Machine) -> MeasuredDevices:
        """What `choose_device` goes by: the highest speed of each device, and its faults."""
        speeds: dict[str, float] = {}
        valid = self._select_valid(machine)
        for id_, one in valid.items():
            known = [v for (_, p), v in one.speeds().items() if p in _COMMON_PRECISIONS]
            if known:
                speeds[id_] = max(known) / 1e12
        return MeasuredDevices(
            speeds, {id_: one.broken for id_, one in valid.items() if one.broken}
        )

    def _select_valid(self, machine: Machine) -> dict[str, DeviceMeasurements]:
        found = {device.id: self.find(device, machine) for device in machine.devices}
        return {id_: one for id_, one in found.items() if one is not None}


def describe_versions(device: Device, machine: Machine) -> str:
    """Versions of the driver and the libraries that speed depends on."""
    names = [name for name in ("torch",) if name in machine.packages]
    names += sorted(name for name in machine.packages if name.startswith("onnxruntime"))
    versions = [f"{name} {machine.packages[name]}" for name in names]
    return "; ".join([f"driver {device.driver_version or '-'}", *versions])


def plot_measurements(devices: Sequence[DeviceMeasurements]) -> str:
    """An SVG document: matrix products by device and precision."""
    from anyrig.plots import ChartBar, draw_bars

    bars = [
        ChartBar(
            f"{shorten(one.name, 36)}, {m.size} {m.precision}",
            m.value,
            _COLOURS.get(m.precision, "c5"),
        )
        for one in devices
        for m in one.measurements
        if m.kernel == "product"
    ]
    subtitle = "median of several rounds of ten products; logarithmic scale"
    return draw_bars("Matrix products by device", subtitle, bars, format_flops)
