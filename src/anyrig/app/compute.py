"""Where work runs: the options of everything that computes, and the placement they lead to."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from anyrig.devices.machine import Precision, parse_precision
from anyrig.options import Request, list_options, option
from anyrig.precision.profiles import ProfileName

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device
    from anyrig.placement import Placement, PlacementPlan, Workload
    from anyrig.precision.selftest import SelfTestReport

log = logging.getLogger(__name__)
PRECISIONS = ("auto", *get_args(Precision))
_INFERENCE_PRECISIONS = tuple(name for name in PRECISIONS if name != "fp8")
MAX_PROCESSES = 1024
"""That any option may request; `placement.max_processes` is the limit of a machine."""


@dataclass(frozen=True, kw_only=True)
class DeviceOptions(Request):
    """The device."""

    device: str = option(
        "", "auto, all, cpu, cuda:1, rocm:0, xpu:0, mps, dml:0, webgpu:0, an index, an id or part"
        " of a name", setting="device", fill=False, metavar="DEVICE",
    )  # fmt: skip
    strict: bool = option(False, "fail if the requested device cannot be used", setting="strict")
    no_bench: bool = option(False, "do not measure a device on first use")


@dataclass(frozen=True, kw_only=True)
class ComputeOptions(DeviceOptions):
    """Computing."""

    precision: str = option(
        "auto", "auto, fp32, tf32, fp16 or bf16; auto uses the best measured one",
        choices=_INFERENCE_PRECISIONS, refused={"fp8": "only `anyrig train` computes in fp8"},
        normalize=parse_precision, setting="compute.precision", metavar="FORMAT",
    )  # fmt: skip
    profile: ProfileName = option(
        "balanced", "what to prefer; `anyrig devices --profiles` shows what each means here",
        setting="compute.profile",
    )  # fmt: skip
    memory_gb: float | None = option(
        None, "use at most N GiB of a device", gt=0, unit="GiB", metavar="N",
        setting="compute.memory_gb", excludes="memory_fraction",
    )  # fmt: skip
    memory_fraction: float | None = option(
        None, "use at most this fraction of a device's memory", gt=0, le=1, metavar="X",
        setting="compute.memory_fraction", excludes="memory_gb",
    )  # fmt: skip
    workers_per_device: int | None = option(
        None, "processes on each device; a CPU has one on each core where that is faster", ge=1,
        le=MAX_PROCESSES, metavar="N", setting="compute.workers_per_device",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrainingComputeOptions(ComputeOptions):
    """Computing, where fp8 can be used."""

    precision: str = option(
        "auto", "auto, fp32, tf32, fp16 or bf16, and for training also fp8; auto uses the best"
        " measured one", choices=PRECISIONS, normalize=parse_precision,
        setting="compute.precision", metavar="FORMAT",
    )  # fmt: skip


def describe_model_options(rig: Rig, options: ComputeOptions) -> str:
    """What tells a kept model from one for other options; empty where all clients share models.

    Warnings about the device come with every call, not only with the one that loads the model.
    """
    if rig.models.shared or not rig.models.keep:
        return ""
    for warning in rig.preview_device(options).warnings:
        rig.warn(warning)
    return str([getattr(options, name) for name in list_options(ComputeOptions)])


def resolve_devices(rig: Rig, options: DeviceOptions) -> tuple[Device, ...]:
    """The devices that a request names; the CPU, with a warning, if there is none of that kind."""
    from anyrig.devices.choose import DeviceRequest, resolve_request

    request = DeviceRequest(options.device, "flag")
    match = resolve_request(rig.machine, request, strict=options.strict)
    if match.warning:
        rig.warn(match.warning)
    return match.devices


def place(
    rig: Rig, choice: DeviceChoice, workload: Workload, options: ComputeOptions
) -> PlacementPlan:
    """Decide where a piece of work runs; the reasons go to the log, warnings to `rig`."""
    from anyrig.placement import PlacementOptions, plan_placement

    reports = _load_selftests(rig)
    plan = plan_placement(
        rig.machine,
        choice,
        workload,
        PlacementOptions(
            precision=options.precision,
            profile=options.profile,
            memory_gb=options.memory_gb,
            memory_fraction=options.memory_fraction,
            workers_per_device=options.workers_per_device,
        ),
        speeds=rig.measurements.speeds(rig.machine),
        failed={id: report.failed_formats for id, report in reports.items()},
        environment=rig.environment,
    )
    for warning in plan.warnings:
        rig.warn(warning)
    for placement in plan.placements:
        log.info("%s", placement.title)
        for reason in placement.reasons:
            log.info("  %s", reason)
    faults = {id: report.attention_faults for id, report in reports.items()}
    return _disable_faults(plan, faults)


def test_devices(rig: Rig, plan: PlacementPlan, options: DeviceOptions) -> PlacementPlan:
    """Have the workers of a pool disable the attention kernels that fail a GPU's self-test.

    The test runs once, in a child process, and its result is saved.
    """
    if not any(map(_needs_test, plan.placements)):
        return plan
    from anyrig.bench import process
    from anyrig.precision.selftest import describe_faults

    reports = _load_selftests(rig)
    faults: dict[str, Mapping[str, str]] = {
        id: report.attention_faults for id, report in reports.items()
    }
    for placement in filter(_needs_test, plan.placements):
        device = placement.device
        if device.id not in faults and rig.may_measure(options):
            rig.notice(f"Testing {device.name}, once ...")
            summary = process.run_self_test(
                device, placement.backend, rig.folders.selftests, rig.environment, full=False
            )
            faults[device.id] = summary.faults
            if summary.error:
                log.warning("the self-test of %s failed: %s", device.name, summary.error)
        for message in describe_faults(faults.get(device.id, {})):
            log.warning("%s", message)
    return _disable_faults(plan, faults)


def _needs_test(placement: Placement) -> bool:
    return placement.backend.library == "torch" and placement.device.kind == "gpu"


def _disable_faults(plan: PlacementPlan, faults: Mapping[str, Mapping[str, str]]) -> PlacementPlan:
    from anyrig.precision.selftest import select_disableable

    def disable(placement: Placement) -> Placement:
        if not _needs_test(placement) or placement.device.id not in faults:
            return placement
        disabled = select_disableable(faults[placement.device.id])
        return replace(placement, disabled_attention_backends=disabled)

    return replace(plan, placements=tuple(map(disable, plan.placements)))


def test_device(rig: Rig, placement: Placement, options: DeviceOptions) -> None:
    """Disable in this process the attention kernels that fail a GPU's self-test.

    The test runs once, and its result is saved; `test_devices` is for the workers of a pool.
    """
    if not _needs_test(placement):
        return
    from anyrig.precision import selftest

    device, backend, path = placement.device, placement.backend, rig.folders.selftests
    if selftest.report_key(device, backend) not in selftest.load_reports(path):
        if not rig.may_measure(options):
            return
        rig.notice(f"Testing {device.name}, once ...")
    selftest.apply_selftest(device, backend, path)


def format_stamp(rig: Rig, plan: PlacementPlan) -> str:
    """Driver and library versions of a plan's devices, under which learnt batch sizes are valid."""
    from anyrig.bench.measurements import describe_versions

    return " | ".join(
        sorted({describe_versions(one.device, rig.machine) for one in plan.placements})
    )


def load_failed_formats(rig: Rig) -> dict[str, dict[Precision, str]]:
    """By device id: precisions that a self-test found wrong under the present libraries."""
    reports = _load_selftests(rig).items()
    return {id: report.failed_formats for id, report in reports if report.failed_formats}


def _load_selftests(rig: Rig) -> Mapping[str, SelfTestReport]:
    """By device id: self-tests that ran under the present driver and torch."""
    from anyrig.precision.selftest import find_reports

    version = rig.machine.packages.get("torch", "").partition(" ")[0]  # without its build
    return find_reports(rig.folders.selftests, rig.machine.devices, version)
