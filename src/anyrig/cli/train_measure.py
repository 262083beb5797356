"""`anyrig train --estimate` and `--profile-memory`: what a run takes, before it begins."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import train as command
from anyrig.cli import train_show
from anyrig.cli.context import Context
from anyrig.cli.show import Progress, paint, print_json, table
from anyrig.errors import AnyrigError

if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device, Precision
    from anyrig.services.train_runs import Run
    from anyrig.training.estimating.estimate import Estimate
    from anyrig.training.estimating.fits import Fitting

_PLOT = "memory.svg"


def run(context: Context) -> int:
    """Say what it takes; nothing is trained."""
    options = context.options
    asked = _asked(context)
    if options.profile_memory:
        return _profile(context, asked)
    return _estimate(context, asked)


def _asked(context: Context) -> Run:
    """The run as it would be, without a folder."""
    from anyrig.services import train_config, train_runs

    options = context.options
    if options.resume:
        there = train_runs.opened(Path(options.resume).expanduser())
        config = train_config.Config(
            Path(there.config), there.base, "", there.task, there.train
        ).with_values(options.set)  # fmt: skip
    else:
        config = train_config.read(Path(options.file).expanduser()).with_values(options.set)
    train = command.merged(context, config.train)
    train_config.check(train)
    folder = Path(options.resume or options.run or ".").expanduser()
    return train_runs.Run(
        folder, config.name, str(config.path), config.base, config.task, train, {}, time.time()
    )


# -- estimated -------------------------------------------------------------------------------------


def _estimate(context: Context, run: Run) -> int:
    from anyrig.services import train_measure

    choice = context.choose()
    with Progress(1, "estimate") as progress:
        found = train_measure.estimates(
            run, context.machine, lambda device: _precision(context, choice, device, run),
            tell=progress.step,
        )  # fmt: skip
    if context.options.json:
        print_json([_plain(fitting, estimate) for fitting, estimate in found])
        return 0
    print(_text(found))
    return 0


def _precision(context: Context, choice: DeviceChoice, device: Device, run: Run) -> Precision:
    """What a device would train in; as asked for, or in full, where it cannot be used now."""
    from anyrig.cli.compute import failures, wanted
    from anyrig.placement import plan_placement
    from anyrig.training.placing import need

    asked = str(run.train.get("precision", "auto"))
    try:
        found = plan_placement(
            context.machine, replace(choice, devices=(device,), selector=device.id), need(asked),
            replace(wanted(context), precision=asked, memory_gb=None, memory_fraction=None),
            speeds=context.measurements.speeds(context.machine), failed=failures(context),
        )  # fmt: skip
        if found.placements[0].device.id == device.id:
            return found.placements[0].precision
    except AnyrigError:
        pass
    if asked in ("bf16", "fp16", "fp8", "tf32"):
        return asked  # type: ignore[return-value]  # one of the literals
    return "bf16" if asked == "auto" and device.features.bf16 else "fp32"


def _text(found: list[tuple[Fitting, Estimate]]) -> str:
    from anyrig.training.estimating.fits import rows

    head, *body = rows([fitting for fitting, _ in found])
    lines = [[head[0], "precision", *head[1:]]]
    for row, (_, estimate) in zip(body, found, strict=True):
        lines.append([row[0], estimate.precision, *row[1:]])
    parts = {(one.device_type, one.precision): one for _, one in found}
    told = [
        f"{paint(f'{kind} in {precision}', 'bold')}: {one.text}"
        for (kind, precision), one in parts.items()
    ]
    return "\n".join([table(lines), "", *told, _CAUTION])


_CAUTION = (
    "Counted without the device; `--profile-memory` measures, and a run fits its micro batch by "
    "itself."
)


def _plain(fitting: Fitting, estimate: Estimate) -> dict[str, Any]:
    return {
        "device": fitting.device.id, "name": fitting.device.name,
        "needed_bytes": fitting.needed_bytes, "there_bytes": fitting.there_bytes,
        "fits": fitting.fits, "largest_micro_batch": fitting.largest, "reason": fitting.reason,
        "estimate": asdict(estimate),
    }  # fmt: skip


# -- measured --------------------------------------------------------------------------------------


def _profile(context: Context, run: Run) -> int:
    from anyrig.cli.profile import Profile, as_json, report
    from anyrig.memory.budget import MemoryBudget
    from anyrig.services import train_measure, train_runs

    placement = command.placed(context, run.train)
    options = context.options
    plot = run.folder / _PLOT if train_runs.is_run(run.folder) else None
    with Progress(1, "profile") as progress:
        found = train_measure.profiled(run, placement, plot=plot, tell=progress.step)
    shown = Profile(
        placement.device, placement.backend, f"a step of {run.name}", placement.precision,
        MemoryBudget(placement.budget_bytes, placement.budget_reason), found,
    )  # fmt: skip
    if options.json:
        print_json(as_json(shown))
        return 0
    print(report(shown))
    if plot is not None:
        train_show.said(context, "plot", path=str(plot))
    return 0
