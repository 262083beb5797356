"""One frame of `anyrig top`: a snapshot and its history as lines. Pure: no reading, no printing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from anyrig.cli.canvas import Line, Span, Style, bar, clean, clipped, columns, graph, line, padded
from anyrig.cli.canvas import wide as wide_of
from anyrig.cli.process_table import processes
from anyrig.devices.choose import gpu_number
from anyrig.devices.machine import Device, Machine
from anyrig.monitor.alerts import DeviceAlert
from anyrig.monitor.sample import DeviceSample, HostSample, MachineSnapshot, ThrottleReason
from anyrig.units import GIB, MIB, format_bandwidth, format_bytes

# Above these percentages a bar is yellow, then red.
_BUSY, _FULL = 60.0, 85.0
_MOST_GRAPH_ROWS = 4
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
    "A dash is something that nobody could tell; --json says why.",
)


class JobLine(NamedTuple):
    """A job as the view shows it."""

    name: str
    state: str
    progress: float | None = None
    """From 0 to 1."""
    text: str = ""


class View(NamedTuple):
    """How to show it."""

    width: int = 80
    height: int | None = 24
    """None: as long as it gets."""
    unicode: bool = True
    sort: str = "memory"
    everybody: bool = False
    paused: bool = False
    help: bool = False
    live: bool = True


class Layout(NamedTuple):
    """How many lines a device gets."""

    detail: int
    """3: title, bars, detail; 2: title, bars; 1: all in one."""
    graph_rows: int

    @property
    def lines(self) -> int:
        """Of one device."""
        return self.detail + self.graph_rows


def frame(
    snapshot: MachineSnapshot,
    histories: Mapping[str, Sequence[DeviceSample]],
    machine: Machine,
    view: View,
    *,
    alerts: Iterable[DeviceAlert] = (),
    jobs: Sequence[JobLine] = (),
) -> list[Line]:
    """The lines of one frame, cut to the view's size."""
    top = [_header(snapshot, machine, view)]
    if view.help:
        return _cut([*top, (), *(line(f"  {text}") for text in _HELP)], view)
    fresh = [alert for alert in alerts if snapshot.wall_s - alert.wall_s < _ALERT_S][-2:]
    top += [line(Span(f"! {alert.name}: {alert.text}", "warning")) for alert in fresh]
    table = processes(snapshot, machine, view.width, view.sort, view.everybody, view.live)
    below = _jobs(jobs, view) + table
    layout = _layout(len(snapshot.devices), len(top), len(below), view)
    blocks: list[Line] = []
    said: set[Line] = set()
    for sample in snapshot.devices:
        device = machine.find(sample.device)
        history = histories.get(sample.device, ())
        rows = _device(sample, device, snapshot.host, history, layout, view)
        blocks += [row for row in rows if row not in said]
        # Why nothing is known is said once where it holds for several devices.
        said.update(row for row in rows[2:] if row[-1].style == "dim")
    if view.height is not None:
        # The table's title and a row of it stay, whatever number of devices there is.
        room = max(1, view.height - len(top) - min(2, len(below)))
        if len(blocks) > room:
            hidden = len(snapshot.devices) - (room - 1) // layout.lines
            blocks = [*blocks[: room - 1], line(Span(f"... {hidden} more devices", "dim"))]
    return _cut([*top, *blocks, *below], view)


def _cut(lines: list[Line], view: View) -> list[Line]:
    return [clipped(row, view.width) for row in lines[: view.height]]


def _layout(num_devices: int, above: int, below: int, view: View) -> Layout:
    """As much of each device as leaves room for a few processes."""
    if view.height is None:
        return Layout(3, 0)
    room = view.height - above - min(below, max(4, view.height // 4))
    for rows in range(_MOST_GRAPH_ROWS, -1, -1):
        if num_devices * (3 + rows) <= room:
            return Layout(3, rows)
    return Layout(2 if num_devices * 2 <= room else 1, 0)


def _header(snapshot: MachineSnapshot, machine: Machine, view: View) -> Line:
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.wall_s))
    versions = {f"{gpu.driver} {gpu.driver_version}" for gpu in machine.gpus if gpu.driver_version}
    facts = ", ".join(filter(None, (machine.platform.title, *sorted(versions)[:1])))
    left = [Span("anyrig top", "bold"), Span(f"  {clock}  {clean(facts)}")]
    if view.paused:
        left.append(Span("  paused", "warning"))
    room = view.width - sum(wide_of(span.text) for span in left)
    keys = next((text for text in _KEYS if len(text) < room), "") if view.live else ""
    return (*left, Span(keys.rjust(room), "dim")) if keys else tuple(left)


def _device(
    sample: DeviceSample,
    device: Device | None,
    host: HostSample,
    history: Sequence[DeviceSample],
    layout: Layout,
    view: View,
) -> list[Line]:
    is_cpu = device is not None and device.kind == "cpu"
    number = "CPU" if is_cpu else gpu_number(device) if device else "?"
    if layout.detail == 1:
        return [_short(sample, number, view)]
    title = _title(sample, number, view)
    if sample.lost:
        reason = line("    ", Span(f"lost: {clean(sample.lost)}", "broken"))
        return [title, reason]
    rows = [title, _bars(sample, view)]
    rows += _graphs(history, layout.graph_rows, view)
    if layout.detail == 3:
        rows.append(_host_detail(host, view) if is_cpu else _detail(sample))
    return rows


def _title(sample: DeviceSample, number: str, view: View) -> Line:
    facts = [
        _reading(sample.temperature_c, "{:.0f} C"),
        _power(sample),
        _reading(sample.clock_mhz, "{:.0f} MHz"),
        _reading(sample.fan_percent, "fan {:.0f} %"),
    ]
    told = "  ".join(filter(None, facts))
    style: Style = "broken" if sample.lost else "bold"
    room = max(8, view.width - len(told) - 6)
    return line(
        Span(padded(number, 3, right=True), "accent"),
        " ",
        Span(padded(clean(sample.name), room), style),
        Span(f" {told}", _heat(sample.temperature_c)),
    )


def _power(sample: DeviceSample) -> str:
    if sample.power_w is None:
        return ""
    limit = f"/{sample.power_limit_w:.0f}" if sample.power_limit_w else ""
    return f"{sample.power_w:.0f}{limit} W"


def _reading(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _bars(sample: DeviceSample, view: View) -> Line:
    half = (view.width - 5) // 2
    left = _gauge("load", sample.compute_percent, _percent(sample.compute_percent), half, view)
    memory = _memory_pair(sample)
    right = _gauge("memory", sample.memory_percent, memory, half, view)
    return line("    ", *left, " ", *right)


def _gauge(label: str, percent: float | None, text: str, width: int, view: View) -> Line:
    """A label, a bar and its figure in exactly a width; in a narrow view the label goes first."""
    head = f"{label} " if width >= 30 else ""
    room = max(14 if label == "memory" else 5, len(text) + 1)
    bar_width = width - len(head) - room
    if bar_width < 4:
        return line(padded(text, width))
    style = _load(percent)
    parts = bar(percent, bar_width, style, unicode=view.unicode)
    return line(head, *parts, padded(text, room, right=True))


def _graphs(history: Sequence[DeviceSample], rows: int, view: View) -> list[Line]:
    if not rows:
        return []
    half = (view.width - 5) // 2
    loads = [sample.compute_percent for sample in history]
    memories = [sample.memory_percent for sample in history]
    left = graph(loads, half, rows, unicode=view.unicode)
    right = graph(memories, half, rows, unicode=view.unicode)
    load_style = _load(loads[-1] if loads else None)
    memory_style = _load(memories[-1] if memories else None)
    return [
        line("    ", Span(a, load_style), " ", Span(b, memory_style))
        for a, b in zip(left, right, strict=True)
    ]


def _detail(sample: DeviceSample) -> Line:
    """What is left to say of a GPU, the important first."""
    parts: list[Span] = []
    held = [word for word in sample.throttling or () if word != ThrottleReason.IDLE]
    if held:
        parts.append(Span(f"held down by {', '.join(held)}", "warning"))
    if sample.ecc_errors:
        parts.append(Span(f"{sample.ecc_errors} memory errors", "broken"))
    if sample.memory_ours_bytes is not None:
        others = sample.memory_others_bytes
        text = f"ours {format_bytes(sample.memory_ours_bytes)}"
        parts.append(
            Span(text + (f", others {format_bytes(others)}" if others is not None else ""))
        )
    if sample.pcie_generation and sample.pcie_width:
        parts.append(Span(_pcie(sample)))
    if sample.memory_temperature_c is not None:
        parts.append(Span(f"memory {sample.memory_temperature_c:.0f} C"))
    if sample.memory_busy_percent is not None:
        parts.append(Span(f"memory busy {sample.memory_busy_percent:.0f} %"))
    if not parts:
        parts.append(Span(clean(sample.unknown.get("device", "")), "dim"))
    return _joined(parts)


def _pcie(sample: DeviceSample) -> str:
    text = f"PCIe {sample.pcie_generation} x{sample.pcie_width}"
    best = (sample.pcie_generation_max, sample.pcie_width_max)
    if None not in best and best != (sample.pcie_generation, sample.pcie_width):
        text += f" of {best[0]} x{best[1]}"
    if sample.pcie_rx_bytes_s is not None and sample.pcie_tx_bytes_s is not None:
        rates = (format_bandwidth(sample.pcie_rx_bytes_s), format_bandwidth(sample.pcie_tx_bytes_s))
        text += f" in {rates[0]} out {rates[1]}"
    return text


def _host_detail(host: HostSample, view: View) -> Line:
    parts: list[Span] = []
    if host.cores_percent:
        cores = columns(host.cores_percent, unicode=view.unicode)
        parts.append(Span(f"cores {cores[: view.width // 2]}"))
    if host.load:
        parts.append(Span("load " + " ".join(f"{value:.2f}" for value in host.load)))
    if host.swap_total_bytes:
        used, total = format_bytes(host.swap_used_bytes or 0), format_bytes(host.swap_total_bytes)
        parts.append(Span(f"swap {used} of {total}"))
    if host.memory_ours_bytes:
        parts.append(Span(f"ours {format_bytes(host.memory_ours_bytes)}"))
    if not parts:
        parts.append(Span(clean(host.unknown.get("host", "")), "dim"))
    return _joined(parts)


def _joined(parts: Sequence[Span]) -> Line:
    spans: list[Span | str] = ["    "]
    for number, part in enumerate(parts):
        spans += ["; ", part] if number else [part]
    return line(*spans)


def _short(sample: DeviceSample, number: str, view: View) -> Line:
    """A device in one line."""
    head = line(Span(padded(number, 3, right=True), "accent"), " ")
    name_width = max(8, min(26, view.width // 3))
    name = Span(padded(clean(sample.name), name_width), "broken" if sample.lost else "")
    if sample.lost:
        return (*head, name, Span(f" lost: {clean(sample.lost)}", "broken"))
    facts = f"{padded(_percent(sample.compute_percent), 6, right=True)}"
    facts += padded(_memory_pair(sample), 16, right=True)
    facts += padded(_reading(sample.temperature_c, "{:.0f} C"), 6, right=True)
    facts += padded(_power(sample), 11, right=True) if view.width >= 76 else ""
    room = min(80, view.width - 4 - name_width - len(facts) - 1)
    load = _load(sample.compute_percent)
    if room < 30:
        drawn = bar(sample.compute_percent, room, load, unicode=view.unicode)
        return (*head, name, Span(" "), *drawn, Span(facts))
    half = room // 2
    left = bar(sample.compute_percent, half - 1, load, unicode=view.unicode)
    memory = sample.memory_percent
    right = bar(memory, room - half, _load(memory), unicode=view.unicode)
    return (*head, name, Span(" "), *left, Span(" "), *right, Span(facts))


def _jobs(jobs: Sequence[JobLine], view: View) -> list[Line]:
    if not jobs:
        return []
    rows = [line(Span(padded("jobs", view.width), "bold"))]
    for job in jobs:
        done = "" if job.progress is None else f"{job.progress:.0%}"
        drawn = () if job.progress is None else bar(100 * job.progress, 20, "good",
                                                    unicode=view.unicode)  # fmt: skip
        name = padded(clean(job.name), 24)
        rows.append(line("    ", name, " ", padded(job.state, 9), *drawn, f" {done} {job.text}"))
    return rows


def _memory_pair(sample: DeviceSample) -> str:
    """`63.2/140 GiB`."""
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if total is None:
        return "-" if used is None else format_bytes(used)
    unit, name = (GIB, "GiB") if total >= GIB else (MIB, "MiB")
    first = "-" if used is None else f"{used / unit:.{0 if used >= 100 * unit else 1}f}"
    return f"{first}/{total / unit:.{0 if total >= 10 * unit else 1}f} {name}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


def _load(percent: float | None) -> Style:
    if percent is None:
        return "dim"
    return "good" if percent < _BUSY else "warning" if percent < _FULL else "broken"


def _heat(celsius: float | None) -> Style:
    if celsius is None or celsius < 75:
        return ""
    return "warning" if celsius < 85 else "broken"
