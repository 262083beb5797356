"""How things look on a terminal: errors, colours, devices, progress. No decisions."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from anyrig.cli.escape import esc
from anyrig.cli.output import print_error as print_error
from anyrig.cli.output import print_warning as print_warning
from anyrig.devices.amd import is_fnuz
from anyrig.devices.choose import describe_memory, gpu_number, suggest_workers
from anyrig.devices.machine import Device, Machine
from anyrig.units import format_bytes, format_duration, pluralize

_INDENT = " " * 8
Fix = Callable[[str], str]
_COLOURS = {
    "good": "32", "warning": "33", "broken": "31", "bold": "1", "dim": "2", "bright": "1;33",
}  # fmt: skip


def print_json(data: Any) -> None:
    """Data for programs: one document, nothing else on the stream."""
    print(json.dumps(data, indent=2, allow_nan=False, default=str))


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """Text in a colour, where the stream is a terminal that wants colours."""
    stream = stream or sys.stdout
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"{esc(stream)}[{_COLOURS[style]}m{text}{esc(stream)}[0m"


def table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Rows with aligned columns; the columns of `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_right = set(right)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def machine_text(machine: Machine, chosen: Sequence[str], fix: Fix = str) -> str:
    """Every device as a person wants to read it.

    Args:
        machine: what to print.
        chosen: the ids of the devices that would be used.
        fix: turns a command into what must be typed here.
    """
    here = machine.platform
    system = " ".join(filter(None, (here.title, here.release)))
    titles = [system, here.distribution, here.machine, here.virtual]
    blocks = [", ".join(filter(None, titles))]
    blocks += [device_text(gpu, gpu.id in chosen, fix) for gpu in machine.gpus]
    blocks.append(_cpu_text(machine, machine.cpu_device.id in chosen, fix))
    return "\n\n".join(blocks)


def device_text(device: Device, chosen: bool, fix: Fix = str) -> str:
    """One GPU in a few lines."""
    mark = " (chosen)" if chosen else ""
    lines = [paint(f"{'GPU ' + gpu_number(device):<7} {device.name}{mark}", "bold")]
    lines.append(_facts(device))
    lines.append(f"number formats: {_formats(device)}")
    lines += _drive_lines(device, fix)
    if device.usable:
        lines.append(f"suggested workers: {suggest_workers(device)}")
    if device.memory.note:
        lines.append(f"memory: {device.memory.note}")
    lines += [note.message for note in device.notes]
    place = f" at {device.pci_address}" if device.pci_address not in (None, device.id) else ""
    lines.append(paint(f"id {device.id}{place}", "dim"))
    return _block(lines)


def _block(lines: list[str]) -> str:
    """A heading and the lines under it, folded to the terminal."""
    return "\n".join([lines[0], *(wrapped(_INDENT, line) for line in lines[1:])])


def _facts(device: Device) -> str:
    capability = device.capability or ""
    if device.vendor == "nvidia" and capability:
        capability = f"compute capability {capability}"
    part = {"mig": "MIG instance", "vgpu": "virtual GPU", "partition": "partition"}.get(device.part)
    driver = " ".join(filter(None, (device.driver, device.driver_version)))
    architecture = device.architecture or "architecture unknown"
    if architecture == device.name:
        architecture = ""
    parts = [part, architecture, capability, describe_memory(device), driver and f"driver {driver}"]
    return ", ".join(filter(None, parts))


def _formats(device: Device) -> str:
    features = device.features
    speed = {"matrix": "fp16 (matrix units)", "fast": "fp16", "slow": "fp16 (slow)"}
    names = [speed.get(features.fp16 or "", "")]
    names += [name for name in ("bf16", "tf32", "fp8", "fp4") if getattr(features, name)]
    if is_fnuz(device.capability):
        names = ["fp8 (fnuz)" if name == "fp8" else name for name in names]
    missing = [name for name in ("bf16", "tf32", "fp8", "fp4") if getattr(features, name) is None]
    told = ", ".join(filter(None, ["fp32", *names]))
    if features.fp16 is None:
        missing.insert(0, "fp16")
    return told + (f"; unknown: {', '.join(missing)}" if missing else "")


def _drive_lines(device: Device, fix: Fix) -> list[str]:
    opened = [backend for backend in device.backends if backend.usable]
    if device.blocked:
        mend = f" ({fix(device.blocked.fix)})" if device.blocked.fix else ""
        return [f"{paint('not usable', 'warning')}: {device.blocked}{mend}"]
    lines = [f"usable as {backend.selector} through {backend.reason}" for backend in opened]
    if not opened:
        lines = [f"{paint('not usable', 'warning')}:"]
        lines += [
            f"  {backend.selector}: {backend.reason}"
            + (f" -> {fix(backend.fix)}" if backend.fix else "")
            for backend in device.backends
        ]
    return lines


def _cpu_text(machine: Machine, chosen: bool, fix: Fix) -> str:
    cpu = machine.cpu
    cores = f"{cpu.cores_usable:g} of {pluralize(cpu.cores_total, 'core')}"
    if cpu.cores_usable == cpu.cores_total:
        cores = pluralize(cpu.cores_total, "core")
    memory = describe_memory(machine.cpu_device)
    lines = [paint(f"CPU     {cpu.name}{' (chosen)' if chosen else ''}", "bold")]
    lines.append(", ".join([cores, memory, *([" ".join(cpu.vectors)] if cpu.vectors else [])]))
    lines += _drive_lines(machine.cpu_device, fix)
    lines.append(f"suggested workers: {suggest_workers(machine.cpu_device)}")
    lines += [limit.message for limit in cpu.limits]
    return _block(lines)


class Progress:
    """One line on the error stream, written over, with a clock; silent without a terminal."""

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what, self._done, self._text = total, what, 0, ""
        self._start = time.monotonic()
        self._live = sys.stderr.isatty()
        self._closed = threading.Event()
        if self._live:
            threading.Thread(target=self._tick, daemon=True).start()

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self._text = text
        self._draw()

    def done(self) -> None:
        """One more is finished."""
        self._done += 1

    def reach(self, count: int) -> None:
        """So many are finished."""
        self._done = count

    def clear(self) -> None:
        """Take the line away, so that something can be printed; the next step draws it anew."""
        if self._live:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        self._closed.set()
        if self._live:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tick(self) -> None:
        while not self._closed.wait(0.5):
            self._draw()

    def _draw(self) -> None:
        if not self._live or self._closed.is_set():
            return
        elapsed = time.monotonic() - self._start
        left = ""
        if self._done:
            rate = self._done / max(elapsed, 1e-3)
            left = (
                f", {rate:.3g}/s, about {format_duration((self._total - self._done) / rate)} left"
            )
        place = f"{self._what} {min(self._done + 1, self._total)}/{self._total}"
        line = f"{place}: {self._text} ({elapsed:.0f} s{left})"
        room = shutil.get_terminal_size().columns - 1
        print(f"\r{esc(sys.stderr)}[2K{line[:room]}", end="", file=sys.stderr, flush=True)


def wrapped(first: str, text: str) -> str:
    """Text behind a beginning, folded to the terminal's width; commands are never cut in a word."""
    if not sys.stdout.isatty():
        return first + text
    width = shutil.get_terminal_size().columns
    indent = " " * len(first)
    lines = textwrap.wrap(text, max(30, width - len(first)), break_long_words=False,
                          break_on_hyphens=False)  # fmt: skip
    return first + f"\n{indent}".join(lines or [""])


def memory_line(device: Device) -> str:
    """Memory in short, for lists to choose from."""
    total = device.memory.total_bytes
    return format_bytes(total) if total is not None else "memory unknown"
