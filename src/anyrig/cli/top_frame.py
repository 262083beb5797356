"""One frame of `anyrig top`: a snapshot and its history as lines. Nothing is read or printed."""

from __future__ import annotations

import re
import sys
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from anyrig.cli.escape import esc
from anyrig.devices.machine import Device, Machine
from anyrig.monitor.alerts import DeviceAlert
from anyrig.monitor.sample import (
    DeviceSample,
    HostProcess,
    HostSample,
    MachineSnapshot,
    ThrottleReason,
)
from anyrig.units import GIB, MIB, format_bandwidth, format_bytes

SORTS = ("memory", "gpu", "cpu", "pid")
Style = Literal["", "good", "warning", "broken", "bold", "dim", "accent"]
_CODES: dict[Style, str] = {
    "good": "32", "warning": "33", "broken": "31", "bold": "1", "dim": "2", "accent": "36",
}  # fmt: skip
# Above these percentages a bar is yellow, then red.
_BUSY, _FULL = 60.0, 85.0
_MAX_GRAPH_ROWS = 4
_ALERT_S = 300.0
_KEYS = ("q quit  s sort  a all  p pause  h help", "q quit  h help", "q quit")
_HELP = (
    "q    quit (Ctrl-C too)",
    "s    sort processes by memory, load of the device, load of the CPU, number",
    "a    all processes on the devices, or ours alone",
    "p    pause and go on",
    "h    this help",
    "",
    "Ours are processes that run anyrig, and all that they started.",
    "A dash is a value that is not known; --json says why.",
)
_BRAILLE = 0x2800
# The dots of a braille cell from the bottom up, left column and right.
_LEFT, _RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)
_STEPS, _BLOCKS = " .:-=+*#", " ▁▂▃▄▅▆▇█"
# Below this many columns the table of processes leaves some out.
_NARROW = 72
# The folders before a program's name. On Windows they may contain spaces: there it ends in .exe.
_FOLDERS = re.compile(r"(?:/(?:[^ /]+/)*|[A-Za-z]:\\.*?(?=[^\\]+\.exe\b))(?=[^ ])")
# An installed command: Python runs a small file among the programs.
_INSTALLED = re.compile(r"(python[^ /]* )/(?:[^ /]+/)*bin/(?=[^ ])")


class Span(NamedTuple):
    """A part of a line in one style."""

    text: str
    style: Style = ""


Line = tuple[Span, ...]


class View(NamedTuple):
    width: int = 80
    height: int | None = 24
    """None: unlimited."""
    unicode: bool = True
    sort: str = "memory"
    everybody: bool = False
    paused: bool = False
    help: bool = False
    live: bool = True


def render(line: Line, colours: bool) -> str:
    """A line as it is written to a terminal."""
    if not colours:
        return "".join(span.text for span in line).rstrip()
    mark = esc(sys.stdout)
    return "".join(
        f"{mark}[{_CODES[span.style]}m{span.text}{mark}[0m"
        if span.style and span.text else span.text
        for span in line
    )  # fmt: skip


def build_frame(
    snapshot: MachineSnapshot,
    histories: Mapping[str, Sequence[DeviceSample]],
    machine: Machine,
    view: View,
    alerts: Iterable[DeviceAlert] = (),
) -> list[Line]:
    """The lines of one frame, cut to the view's size."""
    top = [_build_header(snapshot, machine, view)]
    if view.help:
        return _cut_lines([*top, (), *((Span(f"  {text}"),) for text in _HELP)], view)
    recent = [alert for alert in alerts if snapshot.wall_s - alert.wall_s < _ALERT_S][-2:]
    top += [(Span(f"! {alert.name}: {alert.text}", "warning"),) for alert in recent]
    table = _build_processes(snapshot, machine, view)
    detail, graph_rows = _choose_layout(len(snapshot.devices), len(top), len(table), view)
    blocks: list[Line] = []
    shown: set[Line] = set()
    for sample in snapshot.devices:
        history = histories.get(sample.device, ()) if graph_rows else ()
        device = machine.find(sample.device)
        rows = _build_device(sample, device, snapshot.host, detail, view)
        rows[2:2] = _build_graphs(history, graph_rows, view) if not sample.lost else []
        blocks += [row for row in rows if row not in shown]
        # Why nothing is known is shown once if it applies to several devices.
        shown.update(row for row in rows[2:] if row[-1].style == "dim")
    if view.height is not None:
        # The table's title and a row of it stay, however many devices there are.
        num_left = max(1, view.height - len(top) - min(2, len(table)))
        if len(blocks) > num_left:
            hidden = len(snapshot.devices) - (num_left - 1) // (detail + graph_rows)
            blocks = [*blocks[: num_left - 1], (Span(f"... {hidden} more devices", "dim"),)]
    return _cut_lines([*top, *blocks, *table], view)


def _choose_layout(num_devices: int, above: int, below: int, view: View) -> tuple[int, int]:
    """Lines of each device (3: title, bars, detail; 2: title, bars; 1: all in one) and rows of its
    graphs: as many as leave space for a few processes.
    """
    if view.height is None:
        return 3, 0
    num_left = view.height - above - min(below, max(4, view.height // 4))
    for rows in range(_MAX_GRAPH_ROWS, -1, -1):
        if num_devices * (3 + rows) <= num_left:
            return 3, rows
    return 2 if num_devices * 2 <= num_left else 1, 0


def _build_header(snapshot: MachineSnapshot, machine: Machine, view: View) -> Line:
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.wall_s))
    versions = {f"{gpu.driver} {gpu.driver_version}" for gpu in machine.gpus if gpu.driver_version}
    facts = ", ".join(filter(None, (machine.platform.title, *sorted(versions)[:1])))
    left = [Span("anyrig top", "bold"), Span(f"  {clock}  {clean(facts)}")]
    if view.paused:
        left.append(Span("  paused", "warning"))
    num_left = view.width - sum(measure_width(span.text) for span in left)
    keys = next((text for text in _KEYS if len(text) < num_left), "") if view.live else ""
    return (*left, Span(keys.rjust(num_left), "dim")) if keys else tuple(left)


# -- a device --------------------------------------------------------------------------------------


def _build_device(
    sample: DeviceSample, device: Device | None, host: HostSample, detail: int, view: View
) -> list[Line]:
    is_cpu = device is not None and device.kind == "cpu"
    number = Span(pad("CPU" if is_cpu else _name_gpu(device), 3, right=True), "accent")
    if detail == 1:
        return [(number, Span(" "), *_build_short(sample, view))]
    values = [
        _format(sample.temperature_c, "{:.0f} C"), _format_power(sample),
        _format(sample.clock_mhz, "{:.0f} MHz"), _format(sample.fan_percent, "fan {:.0f} %"),
    ]  # fmt: skip
    text = "  ".join(filter(None, values))
    name = pad(clean(sample.name), max(8, view.width - len(text) - 6))
    title = (
        number, Span(" "), Span(name, "broken" if sample.lost else "bold"),
        Span(f" {text}", _choose_heat_style(sample.temperature_c)),
    )  # fmt: skip
    if sample.lost:
        return [title, (Span("    "), Span(f"lost: {clean(sample.lost)}", "broken"))]
    half, load = (view.width - 5) // 2, sample.compute_percent
    bars = (
        Span("    "), *_build_gauge("load", load, _format(load, "{:.0f} %", "-"), half, view),
        Span(" "),
        *_build_gauge("memory", sample.memory_percent, _format_memory(sample), half, view),
    )  # fmt: skip
    parts = list(_list_host_details(host, view) if is_cpu else _list_details(sample))
    if not parts:
        unknown = host.unknown.get("host", "") if is_cpu else sample.unknown.get("device", "")
        parts = [Span(clean(unknown), "dim")]
    separated = [span for part in parts for span in (Span("; "), part)][1:]
    return [title, bars, (Span("    "), *separated)][:detail]


def _build_short(sample: DeviceSample, view: View) -> Line:
    """A device in one line."""
    name_width = max(8, min(26, view.width // 3))
    name = Span(pad(clean(sample.name), name_width), "broken" if sample.lost else "")
    if sample.lost:
        return name, Span(f" lost: {clean(sample.lost)}", "broken")
    load, memory = sample.compute_percent, sample.memory_percent
    values = pad(_format(load, "{:.0f} %", "-"), 6, right=True)
    values += pad(_format_memory(sample), 16, right=True)
    values += pad(_format(sample.temperature_c, "{:.0f} C"), 6, right=True)
    values += pad(_format_power(sample), 11, right=True) if view.width >= 76 else ""
    width = min(80, view.width - 4 - name_width - len(values) - 1)
    bars = draw_bar(load, width, unicode=view.unicode)
    if width >= 30:
        left = draw_bar(load, width // 2 - 1, unicode=view.unicode)
        right = draw_bar(memory, width - width // 2, unicode=view.unicode)
        bars = (*left, Span(" "), *right)
    return (name, Span(" "), *bars, Span(values))


def _build_gauge(label: str, percent: float | None, text: str, width: int, view: View) -> Line:
    """A label, a bar and its figure in exactly a width; in a narrow view the label goes first."""
    head = f"{label} " if width >= 30 else ""
    text_width = max(14 if label == "memory" else 5, len(text) + 1)
    bar_width = width - len(head) - text_width
    if bar_width < 4:
        return (Span(pad(text, width)),)
    bar = draw_bar(percent, bar_width, unicode=view.unicode)
    return (Span(head), *bar, Span(pad(text, text_width, right=True)))


def _build_graphs(history: Sequence[DeviceSample], rows: int, view: View) -> list[Line]:
    half = (view.width - 5) // 2
    graphs = []
    for values in ([s.compute_percent for s in history], [s.memory_percent for s in history]):
        style = _choose_load_style(values[-1] if values else None)
        drawn = draw_graph(values, half, rows, unicode=view.unicode)
        graphs.append([Span(row, style) for row in drawn])
    return [(Span("    "), a, Span(" "), b) for a, b in zip(*graphs, strict=True)]


def _list_details(sample: DeviceSample) -> Iterable[Span]:
    """What is left to say of a GPU, the important first."""
    limits = [word for word in sample.throttling or () if word != ThrottleReason.IDLE]
    if limits:
        yield Span(f"held down by {', '.join(limits)}", "warning")
    if sample.ecc_errors:
        yield Span(f"{sample.ecc_errors} memory errors", "broken")
    if sample.memory_own_bytes is not None:
        others = _format(sample.memory_others_bytes, "bytes")
        ours = f"ours {format_bytes(sample.memory_own_bytes)}"
        yield Span(f"{ours}, others {others}" if others else ours)
    if sample.pcie_generation and sample.pcie_width:
        yield Span(_format_pcie(sample))
    if sample.memory_temperature_c is not None:
        yield Span(f"memory {sample.memory_temperature_c:.0f} C")
    if sample.memory_busy_percent is not None:
        yield Span(f"memory busy {sample.memory_busy_percent:.0f} %")


def _list_host_details(host: HostSample, view: View) -> Iterable[Span]:
    if host.cores_percent:
        cores = draw_columns(host.cores_percent, unicode=view.unicode)
        yield Span(f"cores {cores[: view.width // 2]}")
    if host.load:
        yield Span("load " + " ".join(f"{value:.2f}" for value in host.load))
    if host.swap_total_bytes:
        used, total = format_bytes(host.swap_used_bytes or 0), format_bytes(host.swap_total_bytes)
        yield Span(f"swap {used} of {total}")
    if host.memory_own_bytes:
        yield Span(f"ours {format_bytes(host.memory_own_bytes)}")


def _format_pcie(sample: DeviceSample) -> str:
    text = f"PCIe {sample.pcie_generation} x{sample.pcie_width}"
    best = (sample.pcie_generation_max, sample.pcie_width_max)
    if None not in best and best != (sample.pcie_generation, sample.pcie_width):
        text += f" of {best[0]} x{best[1]}"
    if sample.pcie_rx_bytes_s is not None and sample.pcie_tx_bytes_s is not None:
        rates = (format_bandwidth(sample.pcie_rx_bytes_s), format_bandwidth(sample.pcie_tx_bytes_s))
        text += f" in {rates[0]} out {rates[1]}"
    return text


def _format_power(sample: DeviceSample) -> str:
    limit = f"/{sample.power_limit_w:.0f}" if sample.power_limit_w else ""
    return _format(sample.power_w, "{:.0f}" + limit + " W")


def _format_memory(sample: DeviceSample) -> str:
    """`63.2/140 GiB`."""
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if total is None:
        return _format(used, "bytes", "-")
    unit, name = (GIB, "GiB") if total >= GIB else (MIB, "MiB")
    first = "-" if used is None else f"{used / unit:.{0 if used >= 100 * unit else 1}f}"
    return f"{first}/{total / unit:.{0 if total >= 10 * unit else 1}f} {name}"


def _format(value: float | None, form: str, unknown: str = "") -> str:
    if value is None:
        return unknown
    return format_bytes(int(value)) if form == "bytes" else form.format(value)


def _name_gpu(device: Device | None) -> str:
    return device.number_text if device else "?"


def _choose_load_style(percent: float | None) -> Style:
    if percent is None:
        return "dim"
    return "good" if percent < _BUSY else "warning" if percent < _FULL else "broken"


def _choose_heat_style(celsius: float | None) -> Style:
    if celsius is None or celsius < 75:
        return ""
    return "warning" if celsius < 85 else "broken"


# -- processes -------------------------------------------------------------------------------------


class _ProcessRow(NamedTuple):
    device: str
    pid: int
    memory: int | None
    gpu: float | None
    host: HostProcess | None
    name: str = ""

    @property
    def sort_keys(self) -> dict[str, tuple[float, ...]]:
        host = self.host
        return {
            "memory": (-(self.memory or 0), -((host.memory_bytes if host else 0) or 0)),
            "gpu": (-(self.gpu or 0.0),),
            "cpu": (-((host.cpu_percent if host else 0) or 0.0),),
            "pid": (self.pid,),
        }

    def build(self, is_narrow: bool) -> Line:
        host = self.host
        user, size = "", ""
        if not is_narrow:
            user = f" {pad(clean((host.user if host else '') or '-'), 8)}"
            size = f" {_format(host.memory_bytes if host else None, 'bytes', '-'):>9}"
        command = _shorten_command(host.command) if host else clean(self.name)
        cells = (
            f"{self.device:>3} {self.pid:>7}{user} {_format(self.memory, 'bytes', '-'):>9}"
            f" {_format(self.gpu, '{:.0f}', '-'):>6}"
            f" {_format(host.cpu_percent if host else None, '{:.0f}', '-'):>6}{size}  "
        )
        return Span(cells), Span(command)


def _build_processes(snapshot: MachineSnapshot, machine: Machine, view: View) -> list[Line]:
    """The table of processes, or a line that says that there are none."""
    rows, num_hidden = _list_processes(snapshot, machine, view.everybody)
    if not rows:
        hint = f" ({num_hidden} of others: {'a' if view.live else '--all'} shows them)"
        none = f"no {'process on a device' if view.everybody else 'process of ours'}"
        return [(Span(f"{none}{hint if num_hidden else ''}", "dim"),)]
    rows.sort(key=lambda row: row.sort_keys[view.sort])
    is_narrow = view.width < _NARROW
    user, host = ("", "") if is_narrow else (" USER    ", f" {'HOST':>9}")
    head = f"GPU     PID{user} {'MEMORY':>9}  GPU %  CPU %{host}  COMMAND"
    whose = "all processes" if view.everybody else "our processes"
    title = pad(f"{head}   ({whose}, by {view.sort})", view.width)
    return [(Span(title, "bold"),), *(row.build(is_narrow) for row in rows)]


def _list_processes(
    snapshot: MachineSnapshot, machine: Machine, everybody: bool
) -> tuple[list[_ProcessRow], int]:
    """The rows to show, and how many processes are left out."""
    hosts = {process.pid: process for process in snapshot.host.processes}
    rows: list[_ProcessRow] = []
    hidden = set()
    for sample in snapshot.devices:
        device = _name_gpu(machine.find(sample.device))
        for use in sample.processes or ():
            if use.ours is False and not everybody:
                hidden.add(use.pid)
                continue
            name = use.name or "not visible from here"
            rows.append(_ProcessRow(
                device, use.pid, use.memory_bytes, use.compute_percent, hosts.get(use.pid), name
            ))  # fmt: skip
    shown = {row.pid for row in rows}
    rows += [
        _ProcessRow("-", process.pid, None, None, process)
        for process in snapshot.host.processes
        if process.ours and process.pid not in shown
    ]
    return rows, len(hidden)


def _shorten_command(command: str) -> str:
    """A command line without the folders of its program."""
    command = clean(command)
    if folders := _FOLDERS.match(command):
        command = command[folders.end() :]
    installed = _INSTALLED.match(command)
    return f"{installed[1]}{command[installed.end() :]}" if installed else command


# -- text ------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Text of others without what could move the cursor or reverse the direction of writing."""
    if text.isascii() and text.isprintable():
        return text
    unsafe = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return "".join("?" if unicodedata.category(sign) in unsafe else sign for sign in text)


def measure_width(text: str) -> int:
    """How many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_count_columns, text))


def _count_columns(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The beginning of a text that fits a width."""
    if text.isascii():
        return text[: max(0, width)]
    used = 0
    for position, sign in enumerate(text):
        used += _count_columns(sign)
        if used > width:
            return text[:position]
    return text


def pad(text: str, width: int, *, right: bool = False) -> str:
    """A text cut or filled up to exactly a width."""
    text = cut(text, width)
    fill = " " * (width - measure_width(text))
    return fill + text if right else text + fill


def cut_line(line: Line, width: int) -> Line:
    spans: list[Span] = []
    for span in line:
        spans.append(Span(cut(span.text, width), span.style))
        width -= measure_width(spans[-1].text)
    return tuple(span for span in spans if span.text)


def _cut_lines(lines: list[Line], view: View) -> list[Line]:
    return [cut_line(line, view.width) for line in lines[: view.height]]


# -- bars and graphs -------------------------------------------------------------------------------


def draw_bar(percent: float | None, width: int, *, unicode: bool) -> Line:
    full, half, rest = ("█", "▌", "░") if unicode else ("#", "", ".")
    if percent is None or width <= 0:
        return (Span(rest * max(0, width), "dim"),)
    whole, odd = divmod(round(2 * width * min(100.0, max(0.0, percent)) / 100), 2)
    filled = full * whole + half * odd
    if not filled and percent > 0:
        filled = half or full
    return Span(filled, _choose_load_style(percent)), Span(rest * (width - len(filled)), "dim")


def draw_graph(
    values: Sequence[float | None], width: int, height: int, *, unicode: bool
) -> list[str]:
    """The newest percentages as rows of dots, oldest to the left; two samples to a column."""
    if width <= 0 or height <= 0:
        return []
    if not unicode:
        signs = [_STEPS[_scale(value, len(_STEPS) - 1)] for value in values[-width:]]
        return ["".join(signs).rjust(width)] + [" " * width] * (height - 1)
    newest = list(values)[-2 * width :]
    padding: list[float | None] = [None] * (2 * width - len(newest))
    levels = [_scale(value, 4 * height) for value in padding + newest]
    rows = []
    for floor in range(4 * (height - 1), -1, -4):
        dots = [max(0, min(4, level - floor)) for level in levels]
        cells = [
            sum(_LEFT[:left]) | sum(_RIGHT[:right])
            for left, right in zip(dots[::2], dots[1::2], strict=True)
        ]
        rows.append("".join(chr(_BRAILLE + cell) if cell else " " for cell in cells))
    return rows


def draw_columns(values: Sequence[float], *, unicode: bool) -> str:
    """One sign for each percentage: the cores at a glance."""
    steps = _BLOCKS if unicode else _STEPS
    return "".join(steps[_scale(value, len(steps) - 1) if value > 1 else 1] for value in values)


def _scale(value: float | None, top: int) -> int:
    """A percentage as a height; at least 1 for what is known."""
    return 0 if value is None else max(1, round(top * min(100.0, max(0.0, value)) / 100))
