"""Need in, placement out: device, backend, precision, budget and threads, with reasons.

The one front door to devices, precision and memory. Apps receive a `Placement`, never a word. A
pure function: nothing is touched, and no framework is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anyrig.backends.memory import MemoryUsage
from anyrig.devices.choose import DeviceChoice, SkippedDevice, select_backend
from anyrig.devices.machine import (
    BackendName,
    BlockCode,
    BlockReason,
    Device,
    DeviceBackend,
    Machine,
    Precision,
)
from anyrig.errors import AnyrigError, DeviceUnusableError, InvalidInputError, OutOfMemoryError
from anyrig.memory import allocator, estimate
from anyrig.precision import choose as precisions
from anyrig.precision.profiles import ProfileName, get_profile
from anyrig.units import format_bytes, format_flops, pluralize

Speeds = Mapping[str, Mapping[tuple[BackendName, Precision], float]]
"""By device id: measured FLOP/s by backend and number format."""


@dataclass(frozen=True)
class Need:
    """What a piece of work asks for."""

    what: str
    """For reasons and errors: `the voice amy`."""
    backends: tuple[BackendName, ...] = ("onnx", "torch")
    """Libraries its engine has a way through, the best first."""
    precisions: tuple[Precision, ...] = ("fp32",)
    """Number formats its weights bear, its author's best first."""
    worker_bytes: int = 0
    """What one worker holds at least: weights and runtime. 0 when nobody knows."""
    training: bool = False
    gpu: bool = True
    """Whether a GPU is of any use to it."""
    cores: int | None = None
    """How many cores of a CPU one process keeps busy; more cores get more processes. None: all."""
    most_workers: int = 1 << 30
    """More processes than this would have nothing to do."""
    gpu_backends: tuple[BackendName, ...] = ()
    """The libraries on a GPU, where another order is best there; empty is no other."""


@dataclass(frozen=True)
class Wanted:
    """What a person asked for; the defaults leave it to us."""

    precision: str = "auto"
    profile: ProfileName = "balanced"
    memory_gb: float | None = None
    memory_fraction: float | None = None
    workers_per_device: int | None = None
    """None leaves it to the work: one on a GPU, and on a CPU as many as it gains from."""


@dataclass(frozen=True)
class Placement:
    """Where a piece of work runs, how, and why."""

    device: Device
    drive: DeviceBackend
    precision: Precision = "fp32"
    budget_bytes: int | None = None
    """Memory that one worker may use; None when nobody can tell."""
    budget_reason: str = ""
    threads: int = 1
    """Of the host, for one worker."""
    workers: int = 1
    """Processes on this device."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What a worker's environment must hold before its framework loads."""
    wrong_attention: tuple[str, ...] = ()
    """Attention backends of torch that a self-test found wrong on the device: a worker switches
    them off before it loads its engine."""
    batch_speed: float = 0.95
    """The smallest batch is taken that keeps this share of the best speed."""
    speed: float | None = None
    """The device's measured speed at this precision, to begin with."""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """`NVIDIA L4 as cuda:0 in bf16`."""
        return f"{self.device.name} as {self.drive.selector} in {self.precision}"


@dataclass(frozen=True)
class Placed:
    """Every placement of a piece of work, and what was passed over."""

    placements: tuple[Placement, ...]
    fallback: Placement | None = None
    """Where items go when a device is lost: the CPU, unless it works already."""
    passed_over: tuple[SkippedDevice, ...] = ()
    warnings: tuple[str, ...] = ()


def place(
    machine: Machine,
    choice: DeviceChoice,
    need: Need,
    wanted: Wanted | None = None,
    *,
    speeds: Speeds | None = None,
    failed: Mapping[str, Mapping[Precision, str]] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Placed:
    """Where a piece of work runs.

    Args:
        machine: all devices.
        choice: those to use, from `devices.choose`.
        need: what the work asks for.
        wanted: what the person asked for.
        speeds: what was measured.
        failed: by device id, number formats that its self-test found wrong.
        environment: what is set already; a worker's allocator settings are laid on top.
    """
    wanted = wanted or Wanted()
    _check(wanted)
    maker = _Maker(machine, choice, need, wanted, speeds or {}, failed or {})
    placements, passed = maker.all_of(choice.devices)
    warnings: list[str] = []
    cpu = machine.cpu_device
    if not placements:
        why = "; ".join(f"{over.device.name}: {over.reason}" for over in passed)
        if any(device.id == cpu.id for device in choice.devices):
            raise _nowhere(need, passed)
        placements, more = maker.all_of((cpu,))
        if not placements:
            raise _nowhere(need, (*passed, *more))
        warnings.append(f"{need.what} runs on the CPU: {why}")
    tuned = [_with_allocator(p, machine, environment or {}) for p in placements]
    shared = _with_threads(tuned, machine.cpu.cores_usable)
    warnings += [text for placement in shared for text in placement.warnings]
    return Placed(shared, _fallback(maker, shared, cpu), tuple(passed), tuple(warnings))


class _Maker:
    """Placements on one device after the other, for one need."""

    def __init__(
        self,
        machine: Machine,
        choice: DeviceChoice,
        need: Need,
        wanted: Wanted,
        speeds: Speeds,
        failed: Mapping[str, Mapping[Precision, str]],
    ) -> None:
        self._machine, self._choice, self._need, self._wanted = machine, choice, need, wanted
        self._speeds, self._failed = speeds, failed

    def modest(self) -> _Maker:
        """The same for one worker that takes what it gets."""
        wanted = replace(self._wanted, workers_per_device=1, precision="auto")
        return _Maker(self._machine, self._choice, self._need, wanted, self._speeds, self._failed)

    def all_of(
        self, devices: Sequence[Device]
    ) -> tuple[list[Placement], tuple[SkippedDevice, ...]]:
        """A placement on each device that can serve, and why the others cannot."""
        found, passed = [], []
        for device in devices:
            drive = self._drive(device)
            if drive is None or (device.kind == "gpu" and not self._need.gpu):
                reason = BlockReason(BlockCode.UNSUPPORTED, self._no_way(device))
                passed.append(SkippedDevice(device, reason))
                continue
            placement = self._on(device, drive)
            asked = self._need.worker_bytes
            if placement.budget_bytes is not None and asked > placement.budget_bytes:
                passed.append(SkippedDevice(device, _too_small(asked, placement.budget_bytes)))
                continue
            found.append(placement)
        return found, tuple(passed)

    def _on(self, device: Device, drive: DeviceBackend) -> Placement:
        need, wanted = self._need, self._wanted
        measured = {
            precision: value
            for (backend, precision), value in self._speeds.get(device.id, {}).items()
            if backend == drive.backend
        }
        chosen = precisions.choose_precision(
            device,
            drive,
            need.precisions,
            requested=wanted.precision,
            profile=wanted.profile,
            speeds=measured,
            failed=self._failed.get(device.id, {}),
            training=need.training,
        )
        budget_bytes, told = budget(device, wanted)
        workers = self._workers(device, budget_bytes)
        if workers > 1 and budget_bytes is not None:
            told += f", shared by {workers} workers"
            budget_bytes //= workers
        reasons = [f"{device.name}: {self._choice.reason}", f"{drive.selector}: {drive.reason}"]
        room = f"{format_bytes(budget_bytes)}, " if budget_bytes is not None else ""
        reasons += [f"{chosen.precision}: {chosen.reason}", f"memory: {room}{told}"]
        speed = measured.get(chosen.precision)
        if speed is not None:
            reasons.append(f"speed: {format_flops(speed)} measured in {chosen.precision}")
        return Placement(
            device,
            drive,
            chosen.precision,
            budget_bytes,
            told,
            workers=workers,
            batch_speed=get_profile(wanted.profile).batch_speed,
            speed=speed,
            reasons=tuple(reasons),
            warnings=chosen.warnings,
        )

    def _drive(self, device: Device) -> DeviceBackend | None:
        """What the word asks for where the engine has that way; else the engine's own best."""
        asked = select_backend(device, self._choice.selector)
        word = self._choice.selector.strip().lower().partition(":")[0]
        # `cpu` is what every library calls it: that word asks for the device, not for a way.
        alike = [one for one in device.backends if asked and one.selector == asked.selector]
        named = len(alike) == 1 and alike[0].selector.partition(":")[0] == word
        if asked and named and asked.backend in self._need.backends:
            return asked
        own = self._need.gpu_backends if device.kind == "gpu" else ()
        for backend in own or self._need.backends:
            for drive in device.backends:
                if drive.usable and drive.backend == backend:
                    return drive
        return None

    def _no_way(self, device: Device) -> str:
        if device.kind == "gpu" and not self._need.gpu:
            return f"{self._need.what} gains nothing from a GPU"
        names = {"onnx": "ONNX Runtime", "torch": "torch"}
        ways = " or ".join(names[backend] for backend in self._need.backends)
        closed = [d.reason for d in device.backends if d.backend in self._need.backends]
        why = (
            str(device.block_reason or "")
            or "; ".join(dict.fromkeys(closed))
            or "neither drives this device"
        )
        return f"{self._need.what} runs through {ways}: {why}"

    def _workers(self, device: Device, budget_bytes: int | None) -> int:
        """As many as were asked for, refused when they do not fit; else what gains something."""
        asked, each = self._wanted.workers_per_device, self._need.worker_bytes
        if asked is None:
            return self._gaining(device, budget_bytes)
        count = min(asked, max(1, self._need.most_workers))
        if count > 1 and budget_bytes is not None and each * count > budget_bytes:
            fit = max(1, budget_bytes // each)
            raise InvalidInputError(
                f"{count} workers of {format_bytes(each)} each do not fit into "
                f"{format_bytes(budget_bytes)} of {device.name}",
                hint=f"--workers-per-device {fit} fits; --memory-gb raises the budget.",
            )
        return count

    def _gaining(self, device: Device, budget_bytes: int | None) -> int:
        need = self._need
        if device.kind == "gpu" or need.cores is None:
            return 1
        cores = math.floor(self._machine.cpu.cores_usable)
        count = min(math.ceil(cores / need.cores), need.most_workers)
        if budget_bytes is not None and need.worker_bytes:
            count = min(count, budget_bytes // need.worker_bytes)
        return max(1, count)


def budget(device: Device, wanted: Wanted) -> tuple[int | None, str]:
    """The memory that work may take of a device, and why so much."""
    asked = wanted.memory_gb is not None or wanted.memory_fraction is not None
    share = get_profile(wanted.profile).memory_share(device)
    found = estimate.budget(
        MemoryUsage(free_bytes=device.memory.free_bytes, total_bytes=device.memory.total_bytes),
        gib=wanted.memory_gb,
        fraction=wanted.memory_fraction if asked else share,
    )
    if asked or found.num_bytes is None:
        return found.num_bytes, found.reason
    total = device.memory.total_bytes or 0
    if found.num_bytes == int(total * share):
        told = f"{share:.0%} of {format_bytes(total)}, as the {wanted.profile} profile has it"
        return found.num_bytes, told
    free = device.memory.free_bytes or 0
    return found.num_bytes, f"most of the {format_bytes(free)} that are free"


def _with_threads(placements: Sequence[Placement], cores: float) -> tuple[Placement, ...]:
    """Usable cores over all processes, at least one each."""
    processes = sum(placement.workers for placement in placements)
    threads = max(1, math.floor(cores / processes))
    told = f"{pluralize(threads, 'thread')}: {cores:g} usable cores over {processes} processes"
    if processes == 1:
        told = f"{pluralize(threads, 'thread')}: all usable cores"
    return tuple(replace(p, threads=threads, reasons=(*p.reasons, told)) for p in placements)


def _with_allocator(
    placement: Placement, machine: Machine, environment: Mapping[str, str]
) -> Placement:
    """What a worker's allocator is told before its framework starts; never afterwards."""
    found = allocator.settings_for(
        placement.device,
        placement.drive,
        environment,
        torch_started=False,
        torch_version=machine.packages.get("torch", ""),
        platform="linux" if machine.platform.system == "Linux" else "other",
        wsl=bool(machine.platform.wsl),
    )
    if not found.variables:
        return placement
    reasons = (*placement.reasons, f"allocator: {found.reason}")
    return replace(placement, variables=found.variables, reasons=reasons)


def _fallback(maker: _Maker, placements: Sequence[Placement], cpu: Device) -> Placement | None:
    """The CPU as well as it can, whatever was asked of the GPU."""
    if any(placement.device.id == cpu.id for placement in placements):
        return None
    try:
        found, _ = maker.modest().all_of((cpu,))
    except AnyrigError:
        return None
    return replace(found[0], threads=placements[0].threads) if found else None


def _check(wanted: Wanted) -> None:
    if wanted.workers_per_device is not None and wanted.workers_per_device < 1:
        raise InvalidInputError(
            f"--workers-per-device {wanted.workers_per_device}", hint="At least one is needed."
        )
    if wanted.memory_gb is not None and wanted.memory_fraction is not None:
        raise InvalidInputError(
            "--memory-gb and --memory-fraction were both given", hint="Give one of them."
        )


def _too_small(asked: int, budget_bytes: int) -> BlockReason:
    text = f"it needs {format_bytes(asked)} and may use {format_bytes(budget_bytes)}"
    return BlockReason(BlockCode.INSUFFICIENT_MEMORY, text)


def _nowhere(need: Need, passed: Sequence[SkippedDevice]) -> OutOfMemoryError | DeviceUnusableError:
    why = "; ".join(f"{over.device.name}: {over.reason}" for over in passed)
    small = [o.device for o in passed if o.reason.code is BlockCode.INSUFFICIENT_MEMORY]
    if small:
        error = OutOfMemoryError(
            f"{need.what} fits nowhere: {why}",
            hint="Raise --memory-gb, take --profile low-memory, or a smaller model.",
        )
        if all(device.kind == "gpu" for device in small):
            error.devices = tuple(device.id for device in small)
        return error
    return DeviceUnusableError(f"nothing can run {need.what}: {why}", hint="Run `anyrig doctor`.")
