"""The devices of this machine: which one is used, which is saved, and what is wrong with them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import DeviceOptions
from anyrig.app.files import check_writable
from anyrig.devices.choose import (
    DeviceChoice,
    DeviceRequest,
    describe_backend_fallback,
    describe_choice,
    resolve_request,
    suggest_workers,
)
from anyrig.devices.machine import Machine, reason_to_json, to_json
from anyrig.errors import (
    AnyrigError,
    DeviceNotFoundError,
    DeviceUnusableError,
    InvalidInputError,
    InvalidRecordError,
    mention,
)
from anyrig.options import option

if TYPE_CHECKING:
    from anyrig.app.events import OnEvent
    from anyrig.app.rig import Rig
    from anyrig.bench.process import SelfTestSummary
    from anyrig.devices.doctor import Finding, KernelResult, State
    from anyrig.monitor import MachineSnapshot
    from anyrig.settings.saved_device import SavedDevice


# -- list ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceList:
    """The devices of a machine, and the one that would be used."""

    machine: Machine
    choice: DeviceChoice | None
    error: DeviceNotFoundError | None = None
    """If the requested device does not exist: there is no choice then."""

    def to_json(self) -> dict[str, Any]:
        data = to_json(self.machine)
        for row, device in zip(data["gpus"], self.machine.gpus, strict=True):
            row["suggested_workers"] = suggest_workers(device)
        data["cpu_device"]["suggested_workers"] = suggest_workers(self.machine.cpu_device)
        data["choice"] = choice_to_json(self.choice) if self.choice is not None else None
        return data


def list_devices(rig: Rig, options: DeviceOptions) -> DeviceList:
    """List every device, without using any; a wrong name in some file hides nothing."""
    try:
        return DeviceList(rig.machine, rig.preview_device(options))
    except DeviceNotFoundError as error:
        return DeviceList(rig.machine, None, error)


def choice_to_json(choice: DeviceChoice) -> dict[str, Any]:
    return {
        "devices": [device.id for device in choice.devices],
        "origin": choice.origin,
        "reason": choice.reason.message,
        **reason_to_json(choice.reason),
        "passed_over": [
            {
                "device": skipped.device.id,
                "reason": skipped.reason.message,
                **reason_to_json(skipped.reason),
            }
            for skipped in choice.skipped
        ],
        "warnings": list(choice.warnings),
    }


def list_profiles(rig: Rig) -> list[tuple[str, ...]]:
    """What each profile means on each device: rows of `precision.choose.PROFILE_COLUMNS`."""
    from anyrig.app.compute import load_failed_formats
    from anyrig.precision.choose import profile_table

    return [
        tuple(row)
        for row in profile_table(
            rig.machine,
            speeds=rig.measurements.speeds(rig.machine),
            failed=load_failed_formats(rig),
        )
    ]


def record_machine(rig: Rig, path: Path) -> list[str]:
    """Write what the system's interfaces answer to a file; the names of the devices."""
    from anyrig.devices.discover import record
    from anyrig.storage.files import write_atomic

    if rig.is_recorded:
        raise InvalidInputError(
            f"{mention('record')} writes this machine, {mention('machine')} is another",
            hint="Use one of them.",
        )
    check_writable(path)
    machine, answers = record(rig.environment)
    write_atomic(path, json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    return [device.name for device in machine.devices]


# -- use -------------------------------------------------------------------------------------------


def use_device(rig: Rig, options: DeviceOptions) -> SavedDevice:
    """Save the device to use from now on; what speaks against it is a warning, or with
    `strict` an error.
    """
    selector = options.device.strip().lower()
    if selector in ("auto", "all"):
        return _save_device(rig, selector)
    match = resolve_request(
        rig.machine, DeviceRequest(options.device, "flag"), strict=options.strict
    )
    if match.missing:
        rig.warn(f"{match.missing}; the CPU is used until there is one")
        return _save_device(rig, selector)
    device = match.devices[0]
    reason = device.block_reason
    if reason and device.kind == "gpu":
        message = f"{device.name} cannot be used: {reason}"
        if options.strict:
            raise DeviceUnusableError(message, hint=reason.fix or "Run `anyrig doctor`.")
        rig.warn(f"{message}; the CPU is used until that is fixed")
    else:
        detour = describe_backend_fallback(device, options.device)
        if detour and options.strict:
            raise DeviceUnusableError(detour, hint="Run `anyrig doctor`.")
        if detour:
            rig.warn(detour)
        if rig.may_measure(options):
            rig.measure_first_use(device)
    return _save_device(rig, device.id)


def _save_device(rig: Rig, selector: str) -> SavedDevice:
    saved = rig.save_device(selector)
    if origin := rig.loaded_settings.origins.get("device"):
        rig.warn(
            f"{origin[1]} requests {rig.settings.device!r}, which takes precedence over the saved"
            " device"
        )
    return saved


def forget_device(rig: Rig) -> bool:
    """Delete the saved device; whether there was one."""
    from anyrig.settings.saved_device import delete_saved_device

    return delete_saved_device(rig.folders.saved_device)


# -- doctor ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(DeviceOptions):
    """Checks."""

    no_kernels: bool = option(False, "run nothing on the devices")
    selftest: bool = option(
        False, "also compare every attention backend and number format of torch; what is wrong is"
        " not used from then on (up to a minute per GPU)",
    )  # fmt: skip


@dataclass(frozen=True)
class Diagnosis:
    findings: tuple[Finding, ...]
    probes: tuple[KernelResult, ...]
    """Of each device and backend, if kernels were run."""
    selftests: tuple[SelfTestSummary, ...] | None
    """None if they were not requested."""

    @property
    def num_broken(self) -> int:
        return sum(finding.state == "broken" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "findings": [asdict(one) for one in self.findings],
            "probes": [asdict(one) for one in self.probes],
        }
        if self.selftests is not None:
            data["selftests"] = [asdict(one) for one in self.selftests]
        return {**data, "broken": self.num_broken}


def diagnose(
    rig: Rig,
    request: DoctorRequest,
    on_event: OnEvent,
    recorded_probes: Sequence[KernelResult] = (),
) -> Diagnosis:
    """Check the machine, and run a kernel on every usable device.

    Args:
        rig: the machine.
        request: what to check.
        on_event: receives progress.
        recorded_probes: of a recorded machine, on which nothing can run.
    """
    from anyrig.app import bench
    from anyrig.devices import doctor

    if request.selftest and (rig.is_recorded or request.no_kernels):
        raise InvalidInputError(
            f"{mention('selftest')} runs kernels; {mention('machine')} and"
            f" {mention('no_kernels')} do not",
            hint="Leave one of them out.",
        )
    devices: Sequence[Any] = rig.machine.devices
    if request.device and request.device.strip().lower() != "auto":
        devices = bench.resolve_devices(rig, request)
    probes = tuple(recorded_probes)
    if not rig.is_recorded and not request.no_kernels:
        probes = bench.check_kernels(rig, devices, on_event)
    selftests = bench.test_devices(rig, devices, on_event) if request.selftest else None
    findings = (
        *doctor.diagnose(rig.machine, probes),
        *(_list_selftest_findings(selftests) if selftests is not None else ()),
        _describe_choice(rig, request),
    )
    return Diagnosis(findings, probes, selftests)


def parse_recorded_probes(record: Mapping[str, Any]) -> tuple[KernelResult, ...]:
    """The kernel results that a recorded machine contains."""
    from anyrig.devices.doctor import KernelResult

    found = []
    for key, row in record.get("probes", {}).items():
        backend, _, device = key.partition(" ")
        values = {**row, "kernels": tuple(row.get("kernels", ()))}
        max_error = row.get("max_error")
        if isinstance(max_error, float) and max_error != max_error:  # NaN
            values |= {"max_error": None, "finite": False}
        try:
            found.append(KernelResult(backend=backend, device=device, **values))
        except TypeError as error:
            raise InvalidRecordError(
                f"probe {key!r} is not valid: {error}",
                hint="docs/recorded-machines.md describes the format.",
            ) from error
    return tuple(found)


def _list_selftest_findings(selftests: Sequence[SelfTestSummary]) -> Iterator[Finding]:
    from anyrig.devices.doctor import Finding
    from anyrig.install import format_install
    from anyrig.units import format_duration

    if not selftests:
        fix = format_install("anyrig[torch]")
        yield Finding("self-test", "warning", "not run: torch can use no device", fix)
    for test in selftests:
        if test.error:
            yield Finding("self-test", "warning", f"{test.name}: not run: {test.error}")
            continue
        for message in test.messages:
            yield Finding("self-test", "warning", f"{test.name}: {message}")
        for precision, seen in test.failed.items():
            yield Finding("self-test", "warning", f"{test.name}: {precision} is not used: {seen}")
        if not test.messages and not test.failed:
            right = sum(row[4] == "right" for row in test.rows)
            text = f"{right} comparisons agree, in {format_duration(test.seconds)}"
            yield Finding("self-test", "good", f"{test.name}: {text}")


def _describe_choice(rig: Rig, options: DeviceOptions) -> Finding:
    from anyrig.devices.doctor import Finding

    try:
        choice = rig.preview_device(options)
    except AnyrigError as error:
        return Finding("choice", "broken", error.message, error.hint)
    state: State = "warning" if choice.warnings else "good"
    text = "; ".join([f"using {describe_choice(choice)}", *choice.warnings])
    return Finding("choice", state, text)


# -- top -------------------------------------------------------------------------------------------


def select_monitored(rig: Rig, options: DeviceOptions) -> Machine:
    """The machine with the requested GPUs only; the CPU stays, as it is the host."""
    from anyrig.app.bench import resolve_devices

    selector = options.device.strip().lower()
    if selector in ("", "all"):
        return rig.machine
    if selector == "auto":
        devices: Sequence[Any] = [rig.preview_device(options).device]
    else:
        devices = resolve_devices(rig, options)
    ids = {device.id for device in devices}
    return replace(rig.machine, gpus=tuple(gpu for gpu in rig.machine.gpus if gpu.id in ids))


def describe_recorded(machine: Machine) -> MachineSnapshot:
    """A snapshot of a recorded machine: nothing of it can be sampled."""
    from anyrig.monitor import MachineSnapshot
    from anyrig.monitor.sample import HostSample, SampleTime, unknown_sample

    at = SampleTime(time.monotonic(), time.time())
    reason = "a recorded machine is not sampled"
    samples = tuple(unknown_sample(device, at, reason) for device in machine.devices)
    total = machine.cpu.memory.total_bytes
    host = HostSample(*at, memory_total_bytes=total, unknown={"host": reason})
    return MachineSnapshot(*at, samples, host)
