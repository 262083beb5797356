"""Where a workload runs: device, backend, precision, memory budget and threads, with reasons.

The single entry point to devices, precision and memory for everything above them. A pure function:
nothing is touched, and no framework is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anyrig.devices.machine import ONE_PROCESS, Device, DeviceBackend, Library, Machine, Precision
from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.errors import (
    AnyrigError,
    DeviceUnusableError,
    InvalidInputError,
    InvalidOptionError,
    Message,
    OptionRef,
    OutOfMemoryError,
)
from anyrig.precision.profiles import ProfileName, get_profile
from anyrig.units import GIB, format_bytes, format_flops, pluralize

# A worker unpickles its `Placement` and plans none: what planning needs is imported late.
if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceChoice, SkippedDevice

Speeds = Mapping[str, Mapping[tuple[Library, Precision], float]]
"""By device id: measured FLOP/s by backend and precision."""
_LIBRARIES = {"onnx": "ONNX Runtime", "torch": "torch"}
# The rest of what is free is left to other users of the device.
_USED_SHARE = 0.9


@dataclass(frozen=True)
class Workload:
    """What a workload needs."""

    name: str
    """For reasons and errors: `the voice amy`."""
    libraries: tuple[Library, ...] = ("onnx", "torch")
    """Libraries its engine can use, the best first."""
    precisions: tuple[Precision, ...] = ("fp32",)
    """Precisions its weights can be used in, its author's preference first."""
    worker_bytes: int = 0
    """The least memory one worker needs, weights and runtime; 0 if unknown."""
    training: bool = False
    gpu: bool = True
    """Whether it benefits from a GPU."""
    cores: int | None = None
    """CPU cores that one process keeps busy; more cores get more processes. None: all."""
    max_workers: int = 1 << 30
    """More processes than this would have nothing to do."""
    gpu_libraries: tuple[Library, ...] = ()
    """The libraries on a GPU, if another order is best there."""
    torch_flavour: str = ""
    """Of an engine with an environment of its own: for which GPUs its torch was built."""


@dataclass(frozen=True)
class PlacementOptions:
    """What the user requested, checked already: of the two limits on memory, one at most."""

    precision: str = "auto"
    profile: ProfileName = "balanced"
    memory_gb: float | None = None
    memory_fraction: float | None = None
    workers_per_device: int | None = None
    """None: one on a GPU, on a CPU as many as the workload benefits from."""


@dataclass(frozen=True)
class Placement:
    """Where a workload runs, how, and why."""

    device: Device
    backend: DeviceBackend
    precision: Precision = "fp32"
    budget_bytes: int | None = None
    """Memory that one worker may use; None if unknown."""
    budget_reason: str = ""
    threads: int = 1
    """Host threads of one worker."""
    workers: int = 1
    """Processes on this device."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that must be set before a worker's framework loads."""
    disabled_attention_backends: tuple[str, ...] = ()
    """Attention backends of torch that failed the device's self-test: a worker disables them
    before it loads its engine."""
    batch_speed: float = 0.95
    """The smallest batch is used that keeps this share of the best speed."""
    speed: float | None = None
    """The device's measured speed at this precision."""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`NVIDIA L4 as cuda:0 in bf16`."""
        return f"{self.device.name} as {self.backend.selector} in {self.precision}"


@dataclass(frozen=True)
class PlacementPlan:
    placements: tuple[Placement, ...]
    fallback: Placement | None = None
    """Where items go when a device is lost: the CPU, unless it is used already."""
    skipped: tuple[SkippedDevice, ...] = ()
    """Chosen devices that cannot run the workload."""
    warnings: tuple[str, ...] = ()


def plan_placement(
    machine: Machine,
    choice: DeviceChoice,
    workload: Workload,
    options: PlacementOptions | None = None,
    *,
    speeds: Speeds | None = None,
    failed: Mapping[str, Mapping[Precision, str]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> PlacementPlan:
    """Where a workload runs: on the chosen devices that can run it, else on the CPU.

    Args:
        machine: all devices.
        choice: those to use, from `devices.choose`.
        workload: what it needs.
        options: what the user requested.
        speeds: measured speeds.
        failed: by device id, precisions that failed its self-test.
        environment: a worker's allocator settings are added to what is set already.
    """
    options = options or PlacementOptions()
    planner = _Planner(machine, choice, workload, options, speeds or {}, failed or {})
    placements, skipped = planner.place_on(choice.devices)
    warnings: list[str] = []
    cpu = machine.cpu_device
    if not placements:
        if any(device.id == cpu.id for device in choice.devices):
            raise _cannot_place(workload, skipped)
        placements, also = planner.place_on((cpu,))
        if not placements:
            raise _cannot_place(workload, (*skipped, *also))
        why = "; ".join(f"{one.device.name}: {one.reason}" for one in skipped)
        warnings.append(f"{workload.name} runs on the CPU: {why}")
    tuned = [_set_allocator(one, machine, environment or {}) for one in placements]
    shared = _share_cores(tuned, machine.cpu.cores_usable)
    warnings += [text for placement in shared for text in placement.warnings]
    return PlacementPlan(shared, planner.fallback(shared), tuple(skipped), tuple(warnings))


@dataclass(frozen=True)
class _Planner:
    machine: Machine
    choice: DeviceChoice
    workload: Workload
    options: PlacementOptions
    speeds: Speeds
    failed: Mapping[str, Mapping[Precision, str]]

    def place_on(self, devices: Sequence[Device]) -> tuple[list[Placement], list[SkippedDevice]]:
        from anyrig.devices.choose import SkippedDevice

        placements, skipped = [], []
        for device in devices:
            placed = self._place(device)
            if isinstance(placed, Placement):
                placements.append(placed)
            else:
                skipped.append(SkippedDevice(device, placed))
        return placements, skipped

    def fallback(self, placements: Sequence[Placement]) -> Placement | None:
        """One worker on the CPU at any precision, whatever was requested of the GPU."""
        cpu = self.machine.cpu_device
        if any(placement.device.id == cpu.id for placement in placements):
            return None
        options = replace(self.options, workers_per_device=1, precision="auto")
        try:
            found, _ = replace(self, options=options).place_on((cpu,))
        except AnyrigError:
            return None
        return replace(found[0], threads=placements[0].threads) if found else None

    def _place(self, device: Device) -> Placement | DeviceReason:
        from anyrig.devices.vendors import vendor_of
        from anyrig.precision.choose import choose_precision

        workload, options = self.workload, self.options
        if device.kind == "gpu" and not workload.gpu:
            return explain(ReasonCode.NO_GPU_BENEFIT, workload=workload.name)
        flavour = workload.torch_flavour
        if device.kind == "gpu" and flavour and flavour != vendor_of(device).torch_flavour:
            return explain(ReasonCode.WRONG_ENVIRONMENT, workload=workload.name, installed=flavour)
        backend = self._choose_backend(device)
        if backend is None:
            return self._explain_no_backend(device)
        measured = {
            precision: value
            for (library, precision), value in self.speeds.get(device.id, {}).items()
            if library == backend.library
        }
        chosen = choose_precision(
            device,
            backend,
            workload.precisions,
            requested=options.precision,
            profile=options.profile,
            speeds=measured,
            failed=self.failed.get(device.id, {}),
            training=workload.training,
        )
        budget, budget_reason = memory_budget(device, options)
        workers = self._count_workers(device, budget)
        if workers > 1 and budget is not None:
            budget_reason += f", shared by {workers} workers"
            budget //= workers
        if budget is not None and workload.worker_bytes > budget:
            needed = format_bytes(workload.worker_bytes)
            code = ReasonCode.INSUFFICIENT_MEMORY
            return explain(code, needed=needed, budget=format_bytes(budget))
        amount = f"{format_bytes(budget)}, " if budget is not None else ""
        reasons = [
            f"{device.name}: {self.choice.reason}",
            f"{backend.selector}: {backend.reason}",
            f"{chosen.precision}: {chosen.reason}",
            f"memory: {amount}{budget_reason}",
        ]
        speed = measured.get(chosen.precision)
        if speed is not None:
            reasons.append(f"speed: {format_flops(speed)} measured in {chosen.precision}")
        return Placement(
            device,
            backend,
            chosen.precision,
            budget,
            budget_reason,
            workers=workers,
            batch_speed=get_profile(options.profile).batch_speed,
            speed=speed,
            reasons=tuple(reasons),
            warnings=chosen.warnings,
        )

    def _choose_backend(self, device: Device) -> DeviceBackend | None:
        """The requested backend if the engine can use it; else the engine's own preference."""
        from anyrig.devices.choose import parse_library, select_backend

        requested = select_backend(device, self.choice.selector)
        if requested and requested.library in self.workload.libraries:
            # `cpu` is what every library calls it: it requests the device, not a backend.
            shared = sum(one.selector == requested.selector for one in device.backends) > 1
            library = parse_library(self.choice.selector)
            if not shared and requested.selector.partition(":")[0] == library:
                return requested
        preferred = self.workload.gpu_libraries if device.kind == "gpu" else ()
        for library in preferred or self.workload.libraries:
            for backend in device.backends:
                if backend.usable and backend.library == library:
                    return backend
        return None

    def _explain_no_backend(self, device: Device) -> DeviceReason:
        needed = self.workload.libraries
        reasons = dict.fromkeys(one.reason for one in device.backends if one.library in needed)
        return explain(
            ReasonCode.NO_LIBRARY,
            workload=self.workload.name,
            libraries=" or ".join(_LIBRARIES[library] for library in needed),
            reasons=device.block_reason or "; ".join(reasons) or "no support for this device",
        )

    def _count_workers(self, device: Device, budget_bytes: int | None) -> int:
        """As many as requested, an error if they do not fit; else as many as are of use."""
        workload, requested = self.workload, self.options.workers_per_device
        each = workload.worker_bytes
        if requested is None:
            if device.kind == "gpu" or workload.cores is None:
                return 1
            cores = math.floor(self.machine.cpu.cores_usable)
            count = min(math.ceil(cores / workload.cores), workload.max_workers)
            if budget_bytes is not None and each:
                count = min(count, budget_bytes // each)
            return max(1, count)
        count = min(requested, max(1, workload.max_workers))
        if count > 1 and device.has_note(ONE_PROCESS):
            raise InvalidOptionError(
                "workers_per_device",
                f"must be 1: the driver lets one process at a time use {device.name}",
                value=requested,
                hint="`anyrig doctor` shows the command that allows more.",
            )
        if count > 1 and budget_bytes is not None and each * count > budget_bytes:
            fit = max(1, budget_bytes // each)
            raise InvalidInputError(
                f"{count} workers of {format_bytes(each)} each do not fit into "
                f"{format_bytes(budget_bytes)} of {device.name}",
                hint=Message(
                    "Use {workers}, or raise the budget with {memory_gb}.",
                    workers=OptionRef("workers_per_device", str(fit)),
                    memory_gb=OptionRef("memory_gb"),
                ),
            )
        check_num_processes(self.machine, "workers_per_device", requested)
        return count


def max_processes(machine: Machine) -> int:
    """Processes that may be requested for one device: twice its host's cores, or four. More would
    only take memory from each other.
    """
    return max(4, 2 * math.ceil(machine.cpu.cores_usable))


def check_num_processes(machine: Machine, option: str, count: int) -> None:
    """Refuse a number of processes that this machine cannot run."""
    limit = max_processes(machine)
    if count > limit:
        cores = pluralize(math.ceil(machine.cpu.cores_usable), "core")
        raise InvalidOptionError(
            option, f"must be at most {limit} on this machine, which has {cores}", value=count,
            hint="Leave it out to have as many as are of use.",
        )  # fmt: skip


def memory_budget(device: Device, options: PlacementOptions) -> tuple[int | None, str]:
    """The memory that a workload may use of a device, and why: never more than is free."""
    total, free = device.memory.total_bytes, device.memory.free_bytes
    available = total if free is None else free
    share = get_profile(options.profile).memory_share(device)
    by_profile = options.memory_gb is None and options.memory_fraction is None
    requested, reason = None, ""
    if options.memory_gb is not None:
        requested = max(1, int(options.memory_gb * GIB))
        reason = f"{options.memory_gb:g} GiB requested"
    elif total is not None and options.memory_fraction is not None:
        requested = int(total * options.memory_fraction)
        reason = f"{options.memory_fraction:.0%} of the device's memory requested"
    elif total is not None:
        requested = int(total * share)
        reason = f"{share:.0%} of {format_bytes(total)} ({options.profile} profile)"
    if available is None:
        return requested, reason or "the device does not report its memory; only speed is measured"
    if requested is not None and requested <= available:
        return requested, reason
    free_text, used = f"{format_bytes(available)} free", f"{_USED_SHARE:.0%}"
    if requested is not None and not by_profile:
        reason += f", but only {free_text}; using {used} of that"
    else:
        reason = f"{used} of the {free_text}"
    return int(available * _USED_SHARE), reason


def _share_cores(placements: Sequence[Placement], cores: float) -> tuple[Placement, ...]:
    """Usable cores over all processes, at least one each."""
    processes = sum(placement.workers for placement in placements)
    threads = max(1, math.floor(cores / processes))
    reason = f"{pluralize(threads, 'thread')}: {cores:g} usable cores over {processes} processes"
    if processes == 1:
        reason = f"{pluralize(threads, 'thread')}: all usable cores"
    return tuple(replace(p, threads=threads, reasons=(*p.reasons, reason)) for p in placements)


def _set_allocator(
    placement: Placement, machine: Machine, environment: Mapping[str, str]
) -> Placement:
    """A worker's allocator is configured before its framework starts; never afterwards."""
    from anyrig.memory.allocator import choose_allocator_settings

    variables = choose_allocator_settings(
        placement.device,
        placement.backend,
        environment,
        torch_version=machine.packages.get("torch", ""),
        linux=machine.platform.system == "Linux" and not machine.platform.wsl,
    )
    if not variables:
        return placement
    reason = "allocator: expandable segments reduce fragmentation"
    return replace(placement, variables=variables, reasons=(*placement.reasons, reason))


def _cannot_place(
    workload: Workload, skipped: Sequence[SkippedDevice]
) -> OutOfMemoryError | DeviceUnusableError:
    why = "; ".join(f"{one.device.name}: {one.reason}" for one in skipped)
    small = [one.device for one in skipped if one.reason.code is ReasonCode.INSUFFICIENT_MEMORY]
    if not small:
        return DeviceUnusableError(
            f"no device can run {workload.name}: {why}", hint="Run `anyrig doctor`."
        )
    error = OutOfMemoryError(
        f"{workload.name} does not fit on any device: {why}",
        hint=Message(
            "Raise {memory_gb}, use {profile}, or choose a smaller model.",
            memory_gb=OptionRef("memory_gb"),
            profile=OptionRef("profile", "low-memory"),
        ),
    )
    if all(device.kind == "gpu" for device in small):
        error.devices = tuple(device.id for device in small)
    return error
