"""Figures that were measured, kept by device, driver and library version, and read by `choose`.

A figure of another driver or library says nothing about this one: it is not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from anyrig.devices.choose import Evidence
from anyrig.devices.machine import Device, Library, Machine, Precision
from anyrig.storage import files

_FORMAT = 1
# Formats that any model runs in; FP8 is for the few that were made for it.
_USUAL = ("fp32", "tf32", "fp16", "bf16")


@dataclass(frozen=True)
class Figure:
    """One measured figure."""

    kernel: str
    """`product` of square matrices, the same `sustained` for seconds, or memory `bandwidth`."""
    precision: str
    size: int
    """Rows of the matrix, or bytes swept."""
    value: float
    unit: str
    seconds: float
    """The median round."""
    spread: float = 0.0
    """Slowest less fastest round, as a share of the median."""
    rounds: int = 1
    backend: str = ""


@dataclass(frozen=True)
class Measured:
    """What is known of one device under one driver and one set of libraries."""

    device: str
    name: str
    stamp: str
    """Driver and library versions; figures hold under these alone."""
    figures: tuple[Figure, ...] = ()
    broken: str = ""
    """What the device got wrong, when it did."""
    when: str = ""

    def joined(self, newer: Measured) -> Measured:
        """Both pages' figures; of the same figure the one with more rounds, else the newer."""
        if newer.stamp != self.stamp:
            return newer
        kept = {(f.backend, f.kernel, f.precision, f.size): f for f in self.figures}
        for figure in newer.figures:
            key = (figure.backend, figure.kernel, figure.precision, figure.size)
            if key not in kept or figure.rounds >= kept[key].rounds:
                kept[key] = figure
        return replace(newer, figures=tuple(kept.values()))


@dataclass(frozen=True)
class Book:
    """All that was measured on this machine."""

    devices: Mapping[str, Measured] = field(default_factory=dict)

    def of(self, device: Device, machine: Machine) -> Measured | None:
        """What holds for a device as it is now."""
        found = self.devices.get(device.id)
        return found if found and found.stamp == stamp(device, machine) else None

    def with_(self, measured: Measured) -> Book:
        """The book with what was measured of one device added."""
        old = self.devices.get(measured.device)
        page = old.joined(measured) if old else measured
        return replace(self, devices={**self.devices, measured.device: page})

    def speeds(self, machine: Machine) -> dict[str, dict[tuple[Library, Precision], float]]:
        """By device id: the best measured FLOP/s by backend and number format."""
        found = {}
        for device in machine.devices:
            page = self.of(device, machine)
            if page is not None:
                found[device.id] = _by_format(page)
        return found

    def evidence(self, machine: Machine, kernel: str = "product") -> Evidence:
        """Speeds and faults for `choose`: each device's best figure of the size people compare."""
        speeds: dict[str, float] = {}
        broken: dict[str, str] = {}
        for device in machine.devices:
            page = self.of(device, machine)
            if page is None:
                continue
            values = [f.value for f in page.figures if f.kernel == kernel and f.precision in _USUAL]
            best = max(values, default=None)
            if best is not None:
                speeds[device.id] = best / 1e12
            if page.broken:
                broken[device.id] = page.broken
        return Evidence(speeds=speeds, broken=broken)


def _by_format(page: Measured) -> dict[tuple[Library, Precision], float]:
    found: dict[tuple[Library, Precision], float] = {}
    for figure in page.figures:
        if figure.kernel == "product":
            key = cast("tuple[Library, Precision]", (figure.backend, figure.precision))
            found[key] = max(figure.value, found.get(key, 0.0))
    return found


def stamp(device: Device, machine: Machine) -> str:
    """Driver and libraries under which a figure holds."""
    names = [name for name in ("torch", "torch-directml") if name in machine.packages]
    names += sorted(name for name in machine.packages if name.startswith("onnxruntime"))
    versions = [f"{name} {machine.packages[name]}" for name in names]
    return "; ".join([f"driver {device.driver_version or '-'}", *versions])


def load(path: Path) -> Book:
    """The figures kept so far; a file that cannot be read is an empty book, to be measured anew."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            return Book()
        return Book({key: _page(row) for key, row in data["devices"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Book()


def _page(row: Mapping[str, Any]) -> Measured:
    plain = {**row, "figures": tuple(Figure(**figure) for figure in row["figures"])}
    return Measured(**plain)


def save(path: Path, book: Book) -> None:
    """Keep a book."""
    pages = {key: asdict(page) for key, page in book.devices.items()}
    files.write_atomic(path, json.dumps({"format": _FORMAT, "devices": pages}, indent=1) + "\n")


def best(figures: Iterable[Figure], kernel: str) -> Figure | None:
    """The highest figure of a kernel."""
    return max((f for f in figures if f.kernel == kernel), key=lambda f: f.value, default=None)
