"""`anyrig profile`: memory and speed against batch size, and the largest batch that fits."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.cli import compute
from anyrig.cli.context import Context
from anyrig.cli.devices import writable
from anyrig.cli.pick import pick
from anyrig.cli.show import Progress, paint, print_json, print_warning, table
from anyrig.cli.workload import BUILT_IN, Wanted, Workload, checked, way_to, workload
from anyrig.errors import InvalidInputError
from anyrig.memory.budget import MemoryBudget
from anyrig.units import format_bytes, format_duration, is_whole_number

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device, DeviceBackend, Precision
    from anyrig.memory.batch_size import BatchSizeResult, BatchTrial
    from anyrig.placement import Placement

HELP = """Run a model at growing batch sizes: what each takes of memory at its peak, how fast it
is, and the largest that fits a budget, always verified by running it. WHAT is
`transformer` (built in), MODULE:FUNCTION that returns a torch module, or an .onnx
file. Running out of memory at some size is part of it."""
_BAR = 24
_MOST_SWEPT = 4096
_STEPS = 3  # the first warms up, the fastest of the others tells the speed
_MARKS = {"ran": "", "out of memory": "out of memory", "over budget": "over the budget",
          "slow": "less than half as fast"}  # fmt: skip


class _Items(Progress):
    """Progress counted in items, as time goes by items; how many becomes clear on the way."""

    def update(self, text: str, done: int, total: int) -> None:
        """A size begins, after so many items of so many."""
        self._done, self._total = done, max(total, done + 1)
        self.step(text)


class Profile(NamedTuple):
    """What was measured."""

    device: Device
    backend: DeviceBackend
    title: str
    precision: str
    budget: MemoryBudget
    found: BatchSizeResult


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument("what", nargs="?", metavar="WHAT", default=BUILT_IN,
                        help=f"{BUILT_IN} (the default), MODULE:FUNCTION, FILE.onnx")  # fmt: skip
    parser.add_argument("--inference", action="store_true", help="the forward pass, no training")
    parser.add_argument("--shape", metavar="N,N", type=_counts("--shape"), default=(),
                        help="one input of MODULE:FUNCTION, without the batch")  # fmt: skip
    parser.add_argument("--tokens", metavar="N", type=_count("--tokens"),
                        help="inputs are token numbers below N instead of floats")  # fmt: skip
    parser.add_argument("--length", metavar="N", type=_count("--length"),
                        help="sequence length; in an .onnx file every other open axis")  # fmt: skip
    parser.add_argument("--sizes", metavar="N,N", type=_counts("--sizes"), default=(),
                        help="batch sizes to measure (1, 2, 4, ... while they fit)")  # fmt: skip
    parser.add_argument(
        "--most", metavar="N", type=_count("--most"), help="no batch larger than this"
    )
    parser.add_argument("--longest", metavar="S", type=float, default=30.0,
                        help="no batch that takes longer, in seconds (30)")  # fmt: skip
    parser.add_argument("--plot", metavar="FILE", help="write the plot there as SVG as well")
    compute.arguments(parser, workers=False)


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    context = Context(options)
    if options.plot:
        writable(Path(options.plot))
    if not 0 < options.longest < float("inf"):
        raise InvalidInputError(f"--longest {options.longest:g}", hint="Give seconds above 0.")
    profile = _measure(context)
    if options.plot:
        from anyrig.memory.batch_size import plot_profile
        from anyrig.storage import files

        subtitle = f"{profile.title}, {profile.precision}, on {profile.device.name}"
        files.write_atomic(Path(options.plot), plot_profile(profile.found, subtitle))
    if options.json:
        print_json(as_json(profile))
        return 0
    print(report(profile))
    if options.plot:
        print(f"Plot in {options.plot}.")
    return 0


def _measure(context: Context) -> Profile:
    from anyrig.backends import open_device

    options = context.options
    asked = Wanted(
        options.what, not options.inference, options.shape, options.length, options.tokens
    )
    first = context.choose()  # what cannot be run is said before anything is measured
    way_to(first.device, first.selector, is_onnx=workload(asked, first.device).is_onnx)
    choice = pick(context)
    work = workload(asked, choice.device)
    placement = _placement(context, choice, work, training=asked.training)
    device, precision = placement.device, placement.precision
    handle = open_device(device, placement.backend, threads=placement.threads)
    compute.guard(context, placement)
    wanted = compute.wanted(context)
    held = wanted.memory_gb is not None or wanted.memory_fraction is not None
    if held and placement.budget_bytes is not None:
        # What was asked for is made real where the framework can be held to it.
        handle.limit(placement.budget_bytes)
    step = checked(work, work.make(handle, precision))
    found = _run_trials(context, step, handle, placement.budget_bytes)
    shown = "as in the file" if work.is_onnx else precision
    budget = MemoryBudget(placement.budget_bytes, placement.budget_reason)
    return Profile(device, placement.backend, work.title, shown, budget, found)


def _placement(
    context: Context, choice: DeviceChoice, work: Workload, *, training: bool
) -> Placement:
    """Where and how a workload is measured: on the one device that was chosen."""
    from anyrig.placement import Workload

    backend = way_to(choice.device, choice.selector, is_onnx=work.is_onnx)
    formats: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
    if work.is_onnx:
        formats = ("fp32",)
        if compute.wanted(context).precision != "auto":
            print_warning("an .onnx file holds its number format: --precision changes nothing")
            context.options.precision = "auto"
    need = Workload(work.title, (backend.library,), formats, training=training)
    one = replace(choice, devices=(choice.device,))
    return compute.placed(context, one, need).placements[0]


def _run_trials(
    context: Context, step: Callable[[int], object], device: DeviceHandle, budget_bytes: int | None
) -> BatchSizeResult:
    from anyrig.memory.batch_size import sweep_batch_sizes

    options = context.options
    sizes = [size for size in options.sizes if options.most is None or size <= options.most]
    progress = _Items(1, "item")
    with progress:
        return sweep_batch_sizes(
            step,
            device,
            sizes=sizes or (options.sizes and [1]),
            budget_bytes=budget_bytes,
            max_size=options.most,
            max_trial_s=options.longest,
            on_progress=progress.update,
        )


# -- what is shown ---------------------------------------------------------------------------------


def report(profile: Profile) -> str:
    """The table, bars to see it by, and what follows from it."""
    found, limit = profile.found, profile.budget.num_bytes
    tries = sorted(found.trials, key=lambda one: one.size)
    rows = [["batch", "peak memory", "of the budget", "a step", "items/s", ""]]
    rows += [_row(one, limit) for one in tries]
    top_rate = max((one.rate or 0.0 for one in tries if one.ran), default=0.0)
    bars = [_bars(one, limit, top_rate) for one in tries]
    room = format_bytes(limit) if limit is not None else "unknown"
    fastest = found.fastest
    lines = [
        f"{profile.title}, {profile.precision}, on {profile.device.name} through "
        f"{'torch' if profile.backend.library == 'torch' else 'ONNX Runtime'}",
        f"Budget: {room} ({profile.budget.reason})",
        "",
        table(rows, right=(0, 1, 2, 3, 4)),
        "",
        f"{'batch':>7}  {'memory':<{_BAR}}  speed",
        *bars,
        "",
        f"{paint('Largest batch', 'bold')}: {found.batch_size} ({found.reason})",
        f"{paint('Fastest batch', 'bold')}: {fastest.size}, {fastest.rate or 0:.4g} items/s"
        f"{_early(tries, fastest)}",
    ]
    return "\n".join(lines)


def _row(one: BatchTrial, limit: int | None) -> list[str]:
    peak = format_bytes(one.peak_bytes) if one.peak_bytes is not None else "-"
    share = f"{one.peak_bytes / limit:.0%}" if one.peak_bytes is not None and limit else "-"
    step = format_duration(one.step_s) if one.step_s is not None else "-"
    rate = f"{one.rate:.4g}" if one.rate else "-"
    mark = _MARKS[one.outcome]
    return [str(one.size), peak, share, step, rate, paint(mark, "warning") if mark else ""]


def _bars(one: BatchTrial, limit: int | None, top_rate: float) -> str:
    if not one.ran:
        return f"{one.size:>7}  {_MARKS[one.outcome]}"
    share = one.peak_bytes / limit if one.peak_bytes is not None and limit else 0.0
    memory = "#" * max(1, round(_BAR * min(1.0, share))) if share else "-"
    speed = "#" * max(1, round(_BAR * (one.rate or 0.0) / top_rate)) if top_rate else ""
    return f"{one.size:>7}  {paint(f'{memory:<{_BAR}}', 'warning')}  {paint(speed, 'good')}"


def _early(tries: Sequence[BatchTrial], fastest: BatchTrial) -> str:
    """The smallest batch that is as fast, within a twentieth: it leaves memory to others."""
    for one in tries:
        if one.ran and (one.rate or 0.0) >= 0.95 * (fastest.rate or 0.0):
            return f"; {one.size} is within 5 %" if one.size < fastest.size else ""
    return ""


def as_json(profile: Profile) -> dict[str, Any]:
    """What was measured, for programs."""
    found = profile.found
    tries = [{**asdict(one), "items_per_s": one.rate} for one in found.trials]
    return {
        "device": profile.device.id,
        "backend": profile.backend.library,
        "what": profile.title,
        "precision": profile.precision,
        "budget_bytes": profile.budget.num_bytes,
        "budget_reason": profile.budget.reason,
        "batch": found.batch_size,
        "reason": found.reason,
        "fastest": found.fastest.size,
        "items_per_s": found.best.rate,
        "peak_bytes": found.best.peak_bytes,
        "out_of_memory": found.num_out_of_memory,
        "tries": tries,
    }


def _count(flag: str) -> Callable[[str], int]:
    """What reads a flag's whole number above 0."""

    def read(text: str) -> int:
        if not is_whole_number(text) or int(text) < 1:
            raise InvalidInputError(
                f"{flag} {text}", hint="Give a whole number above 0, such as 64."
            )
        return int(text)

    return read


def _counts(flag: str) -> Callable[[str], tuple[int, ...]]:
    """What reads a flag's numbers, with commas between them."""
    read = _count(flag)
    return lambda text: tuple(read(part.strip()) for part in text.split(",") if part.strip())
