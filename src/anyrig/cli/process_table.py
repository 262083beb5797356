"""The table of processes in `anyrig top`: who uses which device, and how much of the host."""

from __future__ import annotations

import re
from typing import NamedTuple

from anyrig.cli.canvas import Line, Span, clean, line, padded
from anyrig.devices.choose import gpu_number
from anyrig.devices.machine import Machine
from anyrig.monitor.sample import MachineSnapshot
from anyrig.units import format_bytes

SORTS = ("memory", "gpu", "cpu", "pid")
# Below this many columns the table leaves some out.
_NARROW = 72
# The folders before a program's name. On Windows they may hold spaces: there it ends in .exe.
_FOLDERS = re.compile(r"(?:/(?:[^ /]+/)*|[A-Za-z]:\\.*?(?=[^\\]+\.exe\b))(?=[^ ])")
# An installed command: Python runs a small file among the programs.
_INSTALLED = re.compile(r"(python[^ /]* )/(?:[^ /]+/)*bin/(?=[^ ])")


class _Row(NamedTuple):
    device: str
    pid: int
    user: str
    memory: int | None
    gpu: float | None
    cpu: float | None
    host: int | None
    command: str


def processes(
    snapshot: MachineSnapshot, machine: Machine, width: int, sort: str, everybody: bool, live: bool
) -> list[Line]:
    """The table, or a line that says there is nothing to show.

    Args:
        snapshot: whose processes.
        machine: numbers the devices.
        width: what there is of it.
        sort: one of `SORTS`.
        everybody: not only ours.
        live: whether keys or flags change what is shown.
    """
    rows, others = _rows(snapshot, machine, everybody)
    keys = {
        "memory": lambda row: (-(row.memory or 0), -(row.host or 0)),
        "gpu": lambda row: -(row.gpu or 0.0),
        "cpu": lambda row: -(row.cpu or 0.0),
        "pid": lambda row: row.pid,
    }
    rows.sort(key=keys[sort])
    whose = "all processes" if everybody else "our processes"
    if not rows:
        hint = f" ({others} of others: {'a' if live else '--all'} shows them)"
        none = f"no {'process on a device' if everybody else 'process of ours'}"
        return [line(Span(f"{none}{hint if others else ''}", "dim"))]
    small = width < _NARROW
    user, host = ("", "") if small else (" USER    ", f" {'HOST':>9}")
    head = f"GPU     PID{user} {'MEMORY':>9}  GPU %  CPU %{host}  COMMAND"
    title = padded(f"{head}   ({whose}, by {sort})", width)
    return [line(Span(title, "bold")), *(_process(row, small) for row in rows)]


def _process(row: _Row, small: bool) -> Line:
    user, host = ("", "") if small else (f" {padded(row.user, 8)}", f" {_size(row.host):>9}")
    cells = (
        f"{row.device:>3} {row.pid:>7}{user} {_size(row.memory):>9}"
        f" {_figure(row.gpu):>6} {_figure(row.cpu):>6}{host}  "
    )
    return line(cells, row.command)


def _rows(snapshot: MachineSnapshot, machine: Machine, everybody: bool) -> tuple[list[_Row], int]:
    """The rows to show, and how many processes are left out."""
    known = {process.pid: process for process in snapshot.host.processes}
    rows: list[_Row] = []
    shown, hidden = set(), set()
    for sample in snapshot.devices:
        device = machine.find(sample.device)
        for use in sample.processes or ():
            if use.ours is False and not everybody:
                hidden.add(use.pid)
                continue
            shown.add(use.pid)
            host = known.get(use.pid)
            rows.append(_Row(
                gpu_number(device) if device else "?", use.pid,
                clean(host.user or "-") if host else "-", use.memory_bytes, use.compute_percent,
                host.cpu_percent if host else None, host.memory_bytes if host else None,
                _short(host.command) if host else clean(use.name or "not visible from here"),
            ))  # fmt: skip
    for process in snapshot.host.processes:
        if process.ours and process.pid not in shown:
            rows.append(_Row("-", process.pid, clean(process.user or "-"), None, None,
                             process.cpu_percent, process.memory_bytes,
                             _short(process.command)))  # fmt: skip
    return rows, len(hidden)


def _short(command: str) -> str:
    """A command line without the folders of its program: what it does is to be seen."""
    command = clean(command)
    if folders := _FOLDERS.match(command):
        command = command[folders.end() :]
    installed = _INSTALLED.match(command)
    return f"{installed[1]}{command[installed.end() :]}" if installed else command


def _size(count: int | None) -> str:
    return "-" if count is None else format_bytes(count)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
