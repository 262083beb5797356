"""`anyrig bench`: figures of every usable device, beside the CPU's, and kept."""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli import bench_speech, events
from anyrig.cli.context import Context
from anyrig.cli.devices import writable
from anyrig.cli.pick import can_ask, pick, save_measurements
from anyrig.cli.show import Progress, paint, print_warning, table
from anyrig.devices.choose import describe_backend_fallback, describe_choice, select_backend
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import DeviceUnusableError, KernelError
from anyrig.install import format_install
from anyrig.units import format_bandwidth, format_bytes, format_duration, format_flops

if TYPE_CHECKING:
    from anyrig.bench.measurements import DeviceMeasurements, Measurement

HELP = """Time every usable device at every number format it has: a 2000 x 2000 matrix product
ten times, as people compare; a larger one that fills the device, and the same
sustained for two seconds; memory bandwidth. Through torch where it is installed, else
ONNX Runtime. Each figure is the median of up to 5 rounds, each after a rest of 0.2 s
and a warm-up, and every round ends with a wait for the device. Figures are kept, and
the choice of a device goes by them. --speech times a speech engine instead, per
device and number format; the voice's flags go with it."""
_BAR = 30


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds a device, no large product"
    )
    parser.add_argument("--plot", metavar="FILE", help="write the plot there as SVG as well")
    parser.add_argument(
        "--speech",
        action="store_true",
        help="measure a speech engine instead: load, first audio, real-time factor",
    )
    parser.add_argument("--no-save", action="store_true", help="do not keep the figures")
    events.argument(parser)
    bench_speech.arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    context = Context(options)
    wanted = _wanted(context)
    if options.speech:
        return bench_speech.run(context, [device for device, _ in wanted])
    if options.plot:
        writable(Path(options.plot))
    devices = measure_devices(context, wanted, quick=options.quick, save=not options.no_save)
    if not any(one.measurements for one in devices):
        names = ", ".join(one.name for one in devices)
        raise KernelError(f"{names} could not be measured", hint="Run `anyrig doctor`.")
    if options.json:
        events.Events(context).end({"devices": [one.to_json() for one in devices]})
    else:
        print(report(devices))
    if options.plot:
        from anyrig.bench.measurements import plot_measurements
        from anyrig.storage import files

        files.write_atomic(Path(options.plot), plot_measurements(devices))
    if options.json:
        return 0
    if not options.no_save:
        print(f"\nKept in {context.folders.measurements}.")
    if options.plot:
        print(f"Plot in {options.plot}.")
    if can_ask() and not options.device:
        options.no_bench = True  # everything has just been measured
        print(f"Using {describe_choice(pick(context))}.")
    return 0


def _wanted(context: Context) -> list[tuple[Device, str]]:
    """The devices asked for, with the word that asked; or all that can be used, and the CPU."""
    machine, word = context.machine, context.options.device
    if not word:
        return [(gpu, "") for gpu in machine.gpus if gpu.usable] + [(machine.cpu_device, "")]
    plain = word.strip().lower()
    if plain == "auto":
        return [(context.choose().device, "")]
    found = context.resolve(word)
    wanted = found if plain == "all" else found[:1]
    for device in wanted:
        other_way = describe_backend_fallback(device, word)
        if other_way and device.usable:
            raise DeviceUnusableError(
                other_way, hint="Leave the backend out of the word to measure it."
            )
        if reason := device.block_reason:
            raise DeviceUnusableError(
                f"{device.name} cannot be measured: {reason}",
                hint=reason.fix or "Run `anyrig doctor`.",
            )
    return [(device, word) for device in wanted]


def find_backend(device: Device, word: str = "") -> DeviceBackend:
    """The backend of this selector, else torch where it can use the device, else ONNX Runtime."""
    backend = select_backend(device, word)
    if backend is None:
        reason = device.block_reason
        fix = reason.fix if reason else ""
        raise DeviceUnusableError(
            f"no usable backend for {device.name}: {reason}",
            hint=fix or format_install("onnxruntime"),
        )
    return backend


def measure_devices(
    context: Context, wanted: Sequence[tuple[Device, str]], *, quick: bool, save: bool = True
) -> list[DeviceMeasurements]:
    """Measure devices one after the other and save the results; a failure stops nothing."""
    from anyrig.bench.measurements import Measurements

    measured = []
    told = events.Events(context, len(wanted), "measuring")
    with Progress(len(wanted), "device") as progress:
        for count, (device, word) in enumerate(wanted):
            told.progress(count, device.name)
            new = _measure(context, device, find_backend(device, word), quick, progress)
            measured.append(new)
            progress.done()
            if save:
                # Loaded again and saved at once: another command may have measured meanwhile.
                known = Measurements.load(context.folders.measurements)
                save = save_measurements(context, known.add(new))
    return measured


def _measure(
    context: Context, device: Device, backend: DeviceBackend, quick: bool, progress: Progress
) -> DeviceMeasurements:
    from anyrig.bench.measurements import DeviceMeasurements, describe_versions
    from anyrig.bench.process import measure_device
    from anyrig.devices.doctor import describe_wrong_result

    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    progress.step(f"{device.name}, starting {backend.library}")
    result = measure_device(
        device,
        backend,
        context.environment,
        quick=quick,
        on_progress=lambda text: progress.step(f"{device.name}, {text}"),
    )
    broken = describe_wrong_result(result.kernel)
    if broken:
        print_warning(f"{device.name} through {backend.provider}: {broken}; it is never chosen")
    elif not result.kernel.ok:
        error = result.kernel.error
        print_warning(f"no kernel runs on {device.name} through {backend.provider}: {error}")
        # One backend of several, or a failure that may pass, says nothing about the device.
        if not result.transient and sum(one.usable for one in device.backends) == 1:
            broken = f"no kernel runs on it: {error}"
    versions = describe_versions(device, context.machine)
    return DeviceMeasurements(device.id, device.name, versions, result.measurements, broken, when)


def report(devices: Sequence[DeviceMeasurements]) -> str:
    """The table, and bars to see it by."""
    rows = [["device", "kernel", "format", "figure", "CPU", "through", "a round", "spread"]]
    base = _cpu_figures(devices)
    for device in devices:
        for figure in device.measurements:
            rows.append(_row(device, figure, base))
    text = table(rows, right=(3, 4, 6, 7))
    if sys.stdout.isatty() and len(text.partition("\n")[0]) > shutil.get_terminal_size().columns:
        # Too narrow for everything: the figures, and of the name what tells devices apart.
        short = [[row[0][:26], *row[1:5]] for row in rows]
        text = table(short, right=(3, 4))
    backends = {figure.backend for device in devices for figure in device.measurements}
    if backends == {"onnx"}:
        text += "\n\nThrough ONNX Runtime fewer formats are measured; torch measures them all."
    bars = [line for device in devices for line in _bars(device, devices)]
    return text + ("\n\n" + "\n".join(bars) if bars else "")


def _row(
    device: DeviceMeasurements, figure: Measurement, base: dict[tuple[str, int], float]
) -> list[str]:
    kernel = "product" if figure.kernel == "sustained" else figure.kernel
    against = base.get((kernel, figure.size)) or base.get((kernel, 0))
    ratio = f"{figure.value / against:.3g}x" if against else "-"
    value = (
        format_flops(figure.value) if figure.unit == "FLOP/s" else format_bandwidth(figure.value)
    )
    return [
        device.name,
        _size(figure),
        figure.precision if figure.unit == "FLOP/s" else "",
        value,
        ratio,
        "torch" if figure.backend == "torch" else "ONNX Runtime",
        format_duration(figure.seconds),
        f"{figure.spread:.0%} of {figure.rounds}" if figure.rounds > 1 else "one round",
    ]


def _size(figure: Measurement) -> str:
    if figure.kernel == "product":
        return f"{figure.size}^2 product x10"
    if figure.kernel == "sustained":
        return f"{figure.size}^2 sustained"
    return f"bandwidth, {format_bytes(figure.size)}"


def _cpu_figures(devices: Sequence[DeviceMeasurements]) -> dict[tuple[str, int], float]:
    """The CPU's fp32 figure of each kernel: what ratios are to."""
    cpu = next((device for device in devices if device.device == "cpu"), None)
    found: dict[tuple[str, int], float] = {}
    for figure in cpu.measurements if cpu else ():
        if figure.precision == "fp32":
            found[figure.kernel, figure.size] = figure.value
            # A size the CPU was too slow for is compared with the largest it did.
            found[figure.kernel, 0] = max(figure.value, found.get((figure.kernel, 0), 0.0))
    return found


def _bars(device: DeviceMeasurements, devices: Sequence[DeviceMeasurements]) -> list[str]:
    top = max(
        (f.value for d in devices for f in d.measurements if f.kernel == "product"), default=0.0
    )
    lines = []
    for figure in device.measurements:
        if figure.kernel == "product":
            bar = "#" * max(1, round(_BAR * figure.value / top))
            label = f"{device.name[:20]:<20} {figure.precision:<5}{figure.size:>5}"
            lines.append(f"{label} {paint(bar, 'good')} {format_flops(figure.value)}")
    return lines
