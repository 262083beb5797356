"""`anyrig bench`: figures of every usable device, beside the CPU's, and kept."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.pick import can_ask, pick
from anyrig.cli.show import Progress, paint, print_json, print_warning, table
from anyrig.devices.choose import match
from anyrig.devices.describe import Device, Drive
from anyrig.errors import DeviceUnusable, KernelFailed
from anyrig.units import bandwidth_text, bytes_text, flops_text, seconds_text

if TYPE_CHECKING:
    from anyrig.bench.figures import Figure, Measured

HELP = """Time every usable device at every number format it has: a 2000 x 2000 matrix product
ten times, as people compare; a larger one that fills the device, and the same
sustained for two seconds; memory bandwidth. Through torch where it is installed, else
ONNX Runtime. Each figure is the median of up to 5 rounds, each after a rest of 0.2 s
and a warm-up, and every round ends with a wait for the device. Figures are kept, and
the choice of a device goes by them."""
_BAR = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "--quick", action="store_true", help="a few seconds a device, no large product"
    )
    parser.add_argument("--plot", metavar="FILE", help="write the plot there as SVG as well")
    parser.add_argument("--no-save", action="store_true", help="do not keep the figures")


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    context = Context(options)
    devices = _wanted(context)
    pages = measure_devices(context, devices, quick=options.quick, keep=not options.no_save)
    if options.plot:
        _write_plot(Path(options.plot), pages)
    if options.json:
        print_json({"devices": [asdict(page) for page in pages]})
        return 0
    print(report(pages))
    if not options.no_save:
        print(f"\nKept in {context.folders.figures}.")
    if options.plot:
        print(f"Plot in {options.plot}.")
    if can_ask() and not options.device:
        options.no_bench = True  # everything has just been measured
        choice = pick(context)
        print(f"Using {choice.device.name} ({choice.reason}).")
    return 0


def _wanted(context: Context) -> Sequence[Device]:
    """The devices asked for, or all that can be used, and the CPU to compare with."""
    machine = context.machine
    if not context.options.device:
        return [*(gpu for gpu in machine.gpus if gpu.usable), machine.cpu_device]
    found = match(machine, context.options.device)
    wanted = found if context.options.device.strip().lower() == "all" else found[:1]
    for device in wanted:
        if device.why_not:
            raise DeviceUnusable(
                f"{device.name} cannot be measured: {device.why_not}",
                hint=device.why_not_fix or "Run `anyrig doctor`.",
            )
    return wanted


def drive_of(device: Device) -> Drive:
    """torch where it can drive the device, else ONNX Runtime."""
    usable = [drive for drive in device.drives if drive.usable]
    if not usable:
        raise DeviceUnusable(
            f"nothing can drive {device.name}: {device.why_not}",
            hint=device.why_not_fix or "pip install onnxruntime",
        )
    return next((drive for drive in usable if drive.backend == "torch"), usable[0])


def measure_devices(
    context: Context, devices: Sequence[Device], *, quick: bool, keep: bool = True
) -> list[Measured]:
    """Measure devices one after the other and keep what was found."""
    from anyrig.bench import figures

    progress = Progress(len(devices), "device")
    pages = []
    for device in devices:
        page = _measure(context, device, quick, progress)
        pages.append(page)
        progress.done()
        if keep:
            # Read anew and write at once: another command may have measured meanwhile.
            book = figures.load(context.folders.figures).with_(page)
            figures.save(context.folders.figures, book)
            context.book = book
    progress.close()
    return pages


def _measure(context: Context, device: Device, quick: bool, progress: Progress) -> Measured:
    from anyrig.bench import isolate
    from anyrig.bench.figures import Measured, stamp
    from anyrig.devices.checks.kernels import wrong
    from anyrig.devices.diagnose import Probe

    drive = drive_of(device)
    asked = isolate.Asked(True, quick, isolate.QUICK_S if quick else isolate.MEASURE_S)
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    page = Measured(device.id, device.name, stamp(device, context.machine), when=when)
    progress.step(f"{device.name}, starting {drive.backend}")
    for answer in isolate.run(device, drive, asked, context.environment):
        if isinstance(answer, Probe):
            if not answer.ok:
                raise KernelFailed(
                    f"no kernel runs on {device.name} through {drive.backend}: {answer.error}",
                    hint="Run `anyrig doctor`.",
                )
            page = replace(page, broken=wrong(answer))
            if page.broken:
                print_warning(f"{device.name} answers wrongly: {page.broken}; it is never chosen")
                break
        else:
            page = replace(page, figures=(*page.figures, answer))
            progress.step(f"{device.name}, {answer.precision} {_size(answer)}")
    return page


def report(pages: Sequence[Measured]) -> str:
    """The table, and bars to see it by."""
    rows = [["device", "through", "kernel", "format", "figure", "CPU", "a round", "spread"]]
    base = _cpu_figures(pages)
    for page in pages:
        for figure in page.figures:
            rows.append(_row(page, figure, base))
    text = table(rows, right=(4, 5, 6, 7))
    bars = [line for page in pages for line in _bars(page, pages)]
    return text + ("\n\n" + "\n".join(bars) if bars else "")


def _row(page: Measured, figure: Figure, base: dict[tuple[str, int], float]) -> list[str]:
    kernel = "product" if figure.kernel == "sustained" else figure.kernel
    against = base.get((kernel, figure.size)) or base.get((kernel, 0))
    ratio = f"{figure.value / against:.3g}x" if against else "-"
    value = flops_text(figure.value) if figure.unit == "FLOP/s" else bandwidth_text(figure.value)
    return [
        page.name,
        "torch" if figure.backend == "torch" else "ONNX Runtime",
        _size(figure),
        figure.precision if figure.unit == "FLOP/s" else "",
        value,
        ratio,
        seconds_text(figure.seconds),
        f"{figure.spread:.0%} of {figure.rounds}",
    ]


def _size(figure: Figure) -> str:
    if figure.kernel == "product":
        return f"{figure.size}^2 product x10"
    if figure.kernel == "sustained":
        return f"{figure.size}^2 sustained"
    return f"bandwidth, {bytes_text(figure.size)}"


def _cpu_figures(pages: Sequence[Measured]) -> dict[tuple[str, int], float]:
    """The CPU's fp32 figure of each kernel: what ratios are to."""
    cpu = next((page for page in pages if page.device == "cpu"), None)
    found: dict[tuple[str, int], float] = {}
    for figure in cpu.figures if cpu else ():
        if figure.precision == "fp32":
            found[figure.kernel, figure.size] = figure.value
            # A size the CPU was too slow for is compared with the largest it did.
            found[figure.kernel, 0] = max(figure.value, found.get((figure.kernel, 0), 0.0))
    return found


def _bars(page: Measured, pages: Sequence[Measured]) -> list[str]:
    top = max((f.value for p in pages for f in p.figures if f.kernel == "product"), default=0.0)
    lines = []
    for figure in page.figures:
        if figure.kernel == "product":
            bar = "#" * max(1, round(_BAR * figure.value / top))
            label = f"{page.name[:28]:<28} {figure.precision:<5}{figure.size:>5}"
            lines.append(f"{label} {paint(bar, 'good')} {flops_text(figure.value)}")
    return lines


def _write_plot(path: Path, pages: Sequence[Measured]) -> None:
    from anyrig.bench.plot import svg
    from anyrig.errors import BadInput
    from anyrig.store import atomic

    try:
        atomic.write_text(path, svg(pages))
    except OSError as error:
        raise BadInput(
            f"cannot write {path}: {error.strerror}", hint="Name another file."
        ) from error
