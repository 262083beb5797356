"""`anyrig profile`: memory and speed by batch size, and the largest batch that fits."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyrig.app.profiling import BatchSizeProfile, ProfileRequest, profile
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.output import EventPrinter, format_table, paint, print_json
from anyrig.cli.rig import open_rig
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    from anyrig.memory.batch_size import BatchTrial

HELP = """Run a model at growing batch sizes: the peak memory and the speed of each, and the largest
that fits a memory budget, always verified by running it. WHAT is `transformer` (built in),
MODULE:FUNCTION that returns a torch module, or an .onnx file. Running out of memory at some size is
part of it."""
_BAR_WIDTH = 24
_OUTCOMES = {
    "ran": "", "out of memory": "out of memory", "over budget": "over the budget",
    "slow": "less than half as fast",
}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, ProfileRequest)


def run(arguments: argparse.Namespace) -> int:
    with EventPrinter() as printer:
        rig = open_rig(arguments, printer)
        request = rig.request(ProfileRequest, **read_flags(arguments, ProfileRequest))
        result = profile(rig, request, printer)
    if arguments.json:
        print_json(result.to_json())
        return 0
    print(format_profile(result))
    if request.plot is not None:
        print(f"Plot in {request.plot}.")
    return 0


def format_profile(profile: BatchSizeProfile) -> str:
    """A table, the same as bars, and the batch sizes to use."""
    sizes, limit = profile.sizes, profile.budget_bytes
    trials = sorted(sizes.trials, key=lambda one: one.size)
    rows = [["batch", "peak memory", "of the budget", "a step", "items/s", ""]]
    rows += [_list_cells(one, limit) for one in trials]
    best_rate = max((one.rate or 0.0 for one in trials if one.ran), default=0.0)
    budget = format_bytes(limit) if limit is not None else "unknown"
    library = "torch" if profile.backend.library == "torch" else "ONNX Runtime"
    fastest = sizes.fastest
    lines = [
        f"{profile.title}, {profile.precision}, on {profile.device.name} through {library}",
        f"Budget: {budget} ({profile.budget_reason})",
        "",
        format_table(rows, right=(0, 1, 2, 3, 4)),
        "",
        f"{'batch':>7}  {'memory':<{_BAR_WIDTH}}  speed",
        *(_draw_bars(one, limit, best_rate) for one in trials),
        "",
        f"{paint('Largest batch', 'bold')}: {sizes.batch_size} ({sizes.reason})",
        f"{paint('Fastest batch', 'bold')}: {fastest.size}, {fastest.rate or 0:.4g} items/s"
        f"{_describe_smaller(trials, fastest)}",
    ]
    return "\n".join(lines)


def _list_cells(one: BatchTrial, limit: int | None) -> list[str]:
    peak = format_bytes(one.peak_bytes) if one.peak_bytes is not None else "-"
    share = f"{one.peak_bytes / limit:.0%}" if one.peak_bytes is not None and limit else "-"
    step = format_duration(one.step_s) if one.step_s is not None else "-"
    rate = f"{one.rate:.4g}" if one.rate else "-"
    outcome = _OUTCOMES[one.outcome]
    return [str(one.size), peak, share, step, rate, paint(outcome, "warning") if outcome else ""]


def _draw_bars(one: BatchTrial, limit: int | None, best_rate: float) -> str:
    if not one.ran:
        return f"{one.size:>7}  {_OUTCOMES[one.outcome]}"
    share = one.peak_bytes / limit if one.peak_bytes is not None and limit else 0.0
    memory = "#" * max(1, round(_BAR_WIDTH * min(1.0, share))) if share else "-"
    speed = "#" * max(1, round(_BAR_WIDTH * (one.rate or 0.0) / best_rate)) if best_rate else ""
    return f"{one.size:>7}  {paint(f'{memory:<{_BAR_WIDTH}}', 'warning')}  {paint(speed, 'good')}"


def _describe_smaller(trials: Sequence[BatchTrial], fastest: BatchTrial) -> str:
    """The smallest batch within 5 % of the best speed: it leaves memory to others."""
    for one in trials:
        if one.ran and (one.rate or 0.0) >= 0.95 * (fastest.rate or 0.0):
            return f"; {one.size} is within 5 %" if one.size < fastest.size else ""
    return ""
