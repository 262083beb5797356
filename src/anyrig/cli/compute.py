"""What every command that computes has in common: its options, and the placement they lead to."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from anyrig.cli.context import Context
from anyrig.cli.output import print_warning
from anyrig.errors import InvalidInputError
from anyrig.precision.profiles import PROFILES

if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Precision
    from anyrig.placement import Placement, PlacementOptions, PlacementPlan, Workload
    from anyrig.precision.selftest import SelfTestReport

log = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser, *, workers: bool = True) -> None:
    """The options of a command that computes."""
    group = parser.add_argument_group("how it computes")
    group.add_argument(
        "--precision",
        type=_precision,
        metavar="FORMAT",
        help="auto, fp32, tf32, fp16, bf16 or fp8; auto takes what was measured to be best",
    )
    group.add_argument(
        "--profile",
        choices=tuple(PROFILES),
        help="what to prefer; `anyrig devices --profiles` shows what each means here",
    )
    memory = group.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory-gb", type=memory_gb, metavar="N", help="take no more than N GiB of a device"
    )
    memory.add_argument(
        "--memory-fraction",
        type=memory_fraction,
        metavar="X",
        help="no more than this share, 0 to 1",
    )
    if workers:
        group.add_argument(
            "--workers-per-device",
            type=int,
            metavar="N",
            help="processes on each device; a CPU has one on each core where that is faster",
        )


def _precision(text: str) -> str:
    """A number format by its usual names; what is unknown is refused later, in one place."""
    from anyrig.devices.machine import parse_precision

    return parse_precision(text) or text


def memory_gb(text: str) -> float:
    """A number of GiB above 0."""
    value = _number(text)
    if not 0 < value < float("inf"):
        raise InvalidInputError(
            f"--memory-gb {text} is not an amount of memory",
            hint="Give a number of GiB above 0, such as 8 or 0.5.",
        )
    return value


def memory_fraction(text: str) -> float:
    """A share of a device, above 0 and up to 1."""
    value = _number(text)
    if not 0 < value <= 1:
        raise InvalidInputError(
            f"--memory-fraction {text} is not a share of the device's memory",
            hint="Give a number from 0 to 1, such as 0.8.",
        )
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def wanted(context: Context) -> PlacementOptions:
    """What the person asked for: flags over settings."""
    from anyrig.placement import PlacementOptions

    options, settings = context.options, context.loaded.settings.compute
    gb, share = getattr(options, "memory_gb", None), getattr(options, "memory_fraction", None)
    if gb is None and share is None:
        gb, share = settings.memory_gb or None, settings.memory_fraction or None
    return PlacementOptions(
        precision=getattr(options, "precision", None) or settings.precision,
        profile=getattr(options, "profile", None) or settings.profile,
        memory_gb=gb,
        memory_fraction=share,
        workers_per_device=_workers(context),
    )


def _workers(context: Context) -> int | None:
    """Processes on each device; one for a command that has no such option, None when not said."""
    if not hasattr(context.options, "workers_per_device"):
        return 1
    asked = context.options.workers_per_device
    return (
        int(asked)
        if asked is not None
        else context.loaded.settings.compute.workers_per_device or None
    )


def failures(context: Context) -> dict[str, dict[Precision, str]]:
    """By device id: number formats that a self-test found wrong under the present libraries."""
    known = known_tests(context)
    return {id: report.failed_formats for id, report in known.items() if report.failed_formats}


def placed(context: Context, choice: DeviceChoice, need: Workload) -> PlacementPlan:
    """Where a piece of work runs; its warnings are printed, its reasons logged."""
    from anyrig.placement import plan_placement

    found = plan_placement(
        context.machine,
        choice,
        need,
        wanted(context),
        speeds=context.measurements.speeds(context.machine),
        failed=failures(context),
        environment=context.environment,
    )
    for warning in found.warnings:
        print_warning(warning)
    for placement in found.placements:
        context.log_reasons(placement.title, placement.reasons)
    return with_known_faults(context, found)


def known_tests(context: Context) -> dict[str, SelfTestReport]:
    """By device id: self-tests that were run under the present driver and torch."""
    from anyrig.precision.selftest import find_reports

    version = context.machine.packages.get("torch", "").partition(" ")[0]  # without its build
    return find_reports(context.folders.selftests, context.machine.devices, version)


def with_known_faults(context: Context, found: PlacementPlan) -> PlacementPlan:
    """Placements that tell their workers which attention backends earlier tests found wrong."""
    from anyrig.precision.selftest import select_disableable

    known = known_tests(context)

    def told(placement: Placement) -> Placement:
        report = known.get(placement.device.id)
        if report is None or placement.backend.library != "torch":
            return placement
        return replace(placement, wrong_attention=select_disableable(report.attention_faults))

    return replace(found, placements=tuple(map(told, found.placements)))


def guard_workers(context: Context, found: PlacementPlan) -> PlacementPlan:
    """The placements of a pool, whose workers switch off what a self-test finds wrong on a GPU.

    The test runs once, in a process of its own, and is kept; `--no-bench` leaves it out.
    """
    from anyrig.bench.process import run_self_test
    from anyrig.precision.selftest import select_disableable

    known = known_tests(context)
    made = []
    for placement in found.placements:
        device, backend = placement.device, placement.backend
        if backend.library != "torch" or device.kind != "gpu":
            made.append(placement)
            continue
        wrong: Mapping[str, str] = {}
        if device.id in known:
            wrong = known[device.id].attention_faults
        elif context.measures:
            print(f"Testing {device.name}, once (--no-bench leaves it out) ...", file=sys.stderr)
            tested = run_self_test(
                device, backend, context.folders.selftests, context.environment, full=False
            )
            wrong = tested.faults
            if tested.error:
                log.warning("the self-test of %s failed: %s", device.name, tested.error)
        off = select_disableable(wrong)
        for name, text in wrong.items():
            does = f"every worker on {device.name} switches it off"
            log.warning("%s; %s", text, does if name in off else "it cannot be switched off")
        made.append(replace(placement, wrong_attention=off))
    return replace(found, placements=tuple(made))


def guard(context: Context, placement: Placement) -> None:
    """Switch off in this process what a self-test finds wrong on a GPU; it is run once and kept.

    For what computes in this process; `guard_workers` is for pools. `--no-bench` leaves the test
    out; what an earlier one found still holds.
    """
    device, backend = placement.device, placement.backend
    if backend.library != "torch" or device.kind != "gpu":
        return
    from anyrig.precision import selftest

    path = context.folders.selftests
    known = selftest.report_key(device, backend) in selftest.load_reports(path)
    if not known and not context.measures:
        return
    if not known:
        print(f"Testing {device.name}, once (--no-bench leaves it out) ...", file=sys.stderr)
    selftest.apply_selftest(device, backend, path)  # what it switches off, it says in the log
