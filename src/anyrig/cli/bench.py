"""`anyrig bench`: the speed of every usable device beside the CPU's, or of a speech engine."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anyrig.app.bench import BenchRequest, bench
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, format_table, paint, wrap
from anyrig.cli.prompts import can_ask
from anyrig.cli.rig import open_rig
from anyrig.devices.choose import describe_choice
from anyrig.results import to_json
from anyrig.units import format_bandwidth, format_bytes, format_duration, format_flops

if TYPE_CHECKING:
    from anyrig.app.bench_speech import SpeechTiming
    from anyrig.bench.measurements import DeviceMeasurements, Measurement

HELP = """Measure every usable device in every precision it has: a 2000 x 2000 matrix product
ten times, the usual comparison; a larger one that fills the device, and the same sustained for two
seconds; memory bandwidth. Through torch if it is installed, else ONNX Runtime. Each result is the
median of up to 5 rounds, each after a rest of 0.2 s and a warm-up, and every round ends with a wait
for the device. Results are saved and used to choose a device. --speech measures a speech engine
instead, per device and precision; the voice options apply to it."""
_BAR_WIDTH = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, BenchRequest, exclude=("cluster", "cluster_local"))
    parser.add_argument(
        "--events", action="store_true", help="with --json: a JSON line for each event"
    )


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter(json_lines=arguments.events and arguments.json) as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(BenchRequest, **read_flags(arguments, BenchRequest))
        if request.speech:
            from anyrig.app.bench_speech import bench_speech

            timings = bench_speech(rig, request, printer)
            text, data = format_timings(timings.engine, timings.timings), to_json(timings)
        else:
            result = bench(rig, request, printer)
            text, data = format_measurements(result.devices), to_json(result)
        if arguments.json:
            printer.end(data)
            return 0
    print(text)
    if request.speech:
        return 0
    if not request.no_save:
        print(f"\nSaved in {rig.folders.measurements}.")
    if request.plot is not None:
        print(f"Plot in {request.plot}.")
    if can_ask() and not request.device:
        # Everything has just been measured.
        print(f"Using {describe_choice(rig.choose_device(replace(request, no_bench=True)))}.")
    return 0


def format_measurements(devices: Sequence[DeviceMeasurements]) -> str:
    """A table, and the same as bars."""
    rows = [["device", "kernel", "format", "result", "CPU", "through", "a round", "spread"]]
    baseline = _find_cpu_results(devices)
    for device in devices:
        rows += [_list_cells(device, one, baseline) for one in device.measurements]
    text = format_table(rows, right=(3, 4, 6, 7))
    if sys.stdout.isatty() and len(text.partition("\n")[0]) > shutil.get_terminal_size().columns:
        # Too narrow for everything: the results, and the part of the name that differs.
        text = format_table([[row[0][:26], *row[1:5]] for row in rows], right=(3, 4))
    if {one.backend for device in devices for one in device.measurements} == {"onnx"}:
        text += "\n\nThrough ONNX Runtime fewer formats are measured; torch measures them all."
    bars = [line for device in devices for line in _draw_bars(device, devices)]
    return text + ("\n\n" + "\n".join(bars) if bars else "")


def _list_cells(
    device: DeviceMeasurements, one: Measurement, baseline: dict[tuple[str, int], float]
) -> list[str]:
    kernel = "product" if one.kernel == "sustained" else one.kernel
    cpu = baseline.get((kernel, one.size)) or baseline.get((kernel, 0))
    is_compute = one.unit == "FLOP/s"
    return [
        device.name,
        _describe_kernel(one),
        one.precision if is_compute else "",
        format_flops(one.value) if is_compute else format_bandwidth(one.value),
        f"{one.value / cpu:.3g}x" if cpu else "-",
        "torch" if one.backend == "torch" else "ONNX Runtime",
        format_duration(one.seconds),
        f"{one.spread:.0%} of {one.rounds}" if one.rounds > 1 else "one round",
    ]


def _describe_kernel(one: Measurement) -> str:
    if one.kernel == "product":
        return f"{one.size}^2 product x10"
    if one.kernel == "sustained":
        return f"{one.size}^2 sustained"
    return f"bandwidth, {format_bytes(one.size)}"


def _find_cpu_results(devices: Sequence[DeviceMeasurements]) -> dict[tuple[str, int], float]:
    """The CPU's fp32 result of each kernel: what others are compared with."""
    cpu = next((device for device in devices if device.device == "cpu"), None)
    found: dict[tuple[str, int], float] = {}
    for one in cpu.measurements if cpu else ():
        if one.precision == "fp32":
            found[one.kernel, one.size] = one.value
            # A size that the CPU was too slow for is compared with the largest it did.
            found[one.kernel, 0] = max(one.value, found.get((one.kernel, 0), 0.0))
    return found


def _draw_bars(device: DeviceMeasurements, devices: Sequence[DeviceMeasurements]) -> list[str]:
    products = [one for each in devices for one in each.measurements if one.kernel == "product"]
    best = max((one.value for one in products), default=0.0)
    lines = []
    for one in device.measurements:
        if one.kernel == "product":
            bar = "#" * max(1, round(_BAR_WIDTH * one.value / best))
            label = f"{device.name[:20]:<20} {one.precision:<5}{one.size:>5}"
            lines.append(f"{label} {paint(bar, 'good')} {format_flops(one.value)}")
    return lines


def format_timings(engine: str, timings: Sequence[SpeechTiming]) -> str:
    """A table for each device, narrow enough for any terminal, and what its columns mean."""
    from anyrig.app.bench_speech import NUM_ROUNDS

    blocks = []
    for device in dict.fromkeys(one.device for one in timings):
        rows = [
            ["format", "through", "load", "first run", "first audio", "ten words", "factor",
             "at once"],
        ]  # fmt: skip
        rows += [
            [
                one.precision, one.through, format_duration(one.load_s),
                format_duration(one.first_run_s), format_duration(one.first_audio_s),
                format_duration(one.sentence_s), f"{one.real_time_factor:.3g}",
                f"{one.many:.3g}x",
            ]
            for one in timings if one.device == device
        ]  # fmt: skip
        title = paint(f"{engine} on {device}", "bold")
        blocks.append(f"{title}\n{format_table(rows, right=range(2, 8))}")
    notes = {
        "load": "until a new process can speak",
        "first run": "until the first paragraph after that begins",
        "first audio": "until a later one begins",
        "ten words": f"a sentence, one at a time, the median of up to {NUM_ROUNDS}",
        "factor": "time over audio of those; under 1 is faster than real time",
        "at once": "audio over time, with as many sentences at a time as it likes",
    }
    lines = [wrap(f"  {name + ':':<13}", text) for name, text in notes.items()]
    return "\n\n".join([*blocks, "\n".join(lines)])
