"""The devices of this machine: which one is used, which is saved, and what is wrong with them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import DeviceOptions, resolve_devices
from anyrig.app.files import check_writable
from anyrig.devices.choose import (
    DeviceChoice,
    DeviceRequest,
    describe_choice,
    explain_backend_fallback,
    resolve_request,
    suggest_workers,
)
from anyrig.devices.machine import Machine, device_to_json, machine_to_json, reason_to_json
from anyrig.devices.reasons import ReasonCode, explain
from anyrig.errors import (
    AnyrigError,
    DeviceNotFoundError,
    DeviceUnusableError,
    InvalidInputError,
    InvalidRecordError,
    Message,
    OptionRef,
)
from anyrig.options import option

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.bench.process import SelfTestSummary
    from anyrig.devices.doctor import Finding, KernelResult, State
    from anyrig.devices.machine import Device
    from anyrig.events import Event, OnEvent
    from anyrig.monitor import MachineSnapshot
    from anyrig.monitor.sample import DeviceProcess, DeviceSample
    from anyrig.settings.saved_device import SavedDevice
    from anyrig.work.protocol import WorkerStatus


# -- list ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeviceList:
    """The devices of a machine, and the one that would be used."""

    machine: Machine
    choice: DeviceChoice | None
    error: DeviceNotFoundError | None = None
    """If the requested device does not exist: there is no choice then."""

    def to_json(self) -> dict[str, Any]:
        data = machine_to_json(self.machine)
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
    from anyrig.devices.discovery import record
    from anyrig.storage.files import write_atomic

    if rig.is_recorded:
        raise InvalidInputError(
            Message(
                "{record} writes this machine, {machine} is another",
                record=OptionRef("record"),
                machine=OptionRef("machine"),
            ),
            hint="Use one of them.",
        )
    check_writable(path)
    machine, answers = record(rig.environment)
    write_atomic(path, json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    return [device.name for device in machine.devices]


# -- use -------------------------------------------------------------------------------------------


def use_device(rig: Rig, options: DeviceOptions, on_event: OnEvent | None = None) -> SavedDevice:
    """Save the device to use from now on; what speaks against it is a warning, or with
    `strict` an error.
    """
    from anyrig.events import WarningEvent

    report = on_event or rig.report
    selector = options.device.strip().lower()
    if selector in ("auto", "all"):
        return _save_device(rig, selector, report)
    match = resolve_request(
        rig.machine, DeviceRequest(options.device, "flag"), strict=options.strict
    )
    if match.missing:
        report(WarningEvent(f"{match.missing}; the CPU is used until there is one"))
        return _save_device(rig, selector, report)
    device = match.devices[0]
    reason = device.block_reason
    if reason and device.kind == "gpu":
        message = f"{device.name} cannot be used: {reason}"
        if options.strict:
            raise DeviceUnusableError(message, hint=reason.fix or "Run `anyrig doctor`.")
        advice = f". To fix: {reason.fix}" if reason.fix else ""
        report(WarningEvent(f"{message}; the CPU is used until that is fixed{advice}"))
    else:
        fallback = explain_backend_fallback(device, options.device)
        if fallback and options.strict:
            raise DeviceUnusableError(fallback.message, hint=fallback.fix or "Run `anyrig doctor`.")
        if fallback:
            report(WarningEvent(fallback.message))
        if rig.may_measure(options):
            rig.measure_first_use(device)
    return _save_device(rig, device.id, report)


def _save_device(rig: Rig, selector: str, report: OnEvent) -> SavedDevice:
    from anyrig.events import WarningEvent

    saved = rig.save_device(selector)
    if origin := rig.loaded_settings.origins.get("device"):
        message = f"{origin[1]} requests {rig.settings.device!r}"
        report(WarningEvent(f"{message}, which takes precedence over the saved device"))
    return saved


def forget_device(rig: Rig) -> bool:
    """Delete the saved device; whether there was one."""
    from anyrig.settings.saved_device import delete_saved_device

    return delete_saved_device(rig.folders.saved_device)


# -- doctor ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DoctorRequest(DeviceOptions):
    """Checks."""

    no_kernels: bool = option(False, "do not run kernels on the devices")
    selftest: bool = option(
        False, "also test every attention backend and precision of torch, and disable those with"
        " wrong results (up to a minute per GPU)",
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
            Message(
                "{selftest} runs kernels; {machine} and {no_kernels} do not",
                selftest=OptionRef("selftest"),
                machine=OptionRef("machine"),
                no_kernels=OptionRef("no_kernels"),
            ),
            hint="Leave one of them out.",
        )
    devices: Sequence[Any] = rig.machine.devices
    if request.device and request.device.strip().lower() != "auto":
        devices = resolve_devices(rig, request)
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
                hint="tests/machines/README.md describes the format.",
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


# -- serve -----------------------------------------------------------------------------------------

SAMPLE_INTERVAL_S = 2.0
_NUM_SAMPLES = 300
"""Kept of each device: ten minutes."""
_CHART_FIELDS = (
    "compute_percent", "memory_used_bytes", "memory_total_bytes", "temperature_c", "power_w",
)  # fmt: skip


class MonitoredMachine:
    """The devices of a running server with live samples, made by one monitor for everybody.

    Args:
        rig: the machine.
        options: the server's own, which take precedence over a saved device.
        list_workers: names and states of the worker processes.
        on_change: called after another device was chosen.
    """

    def __init__(
        self,
        rig: Rig,
        options: DeviceOptions,
        *,
        list_workers: Callable[[], Iterable[tuple[str, WorkerStatus]]] = lambda: (),
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        from anyrig.monitor import Monitor

        self._rig, self._options = rig, options
        self._list_workers, self._on_change = list_workers, on_change
        self._lock = threading.Lock()
        """Held while the choice is read or changed."""
        self._monitor = None
        self._recorded: MachineSnapshot | None = None
        self._json: tuple[MachineSnapshot | None, Mapping[str, Any]] = (None, {})
        if rig.is_recorded:
            self._recorded = describe_recorded(rig.machine)
        else:
            self._monitor = Monitor(rig.machine, SAMPLE_INTERVAL_S, _NUM_SAMPLES)

    def start(self) -> None:
        """Start sampling. Not before the app is built: building it and reading the host both change
        the warning filters for a moment, which two threads must not do at once.
        """
        if self._monitor is not None:
            self._monitor.start()

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.stop()

    def snapshot(self) -> MachineSnapshot | None:
        """The last samples; None before the first."""
        return self._monitor.latest() if self._monitor is not None else self._recorded

    def now(self) -> Mapping[str, Any]:
        """The last sample of every device and of the host, as JSON; built once for each sample."""
        snapshot = self.snapshot()
        if snapshot is None:
            return {"time": None, "devices": [], "host": None, "warnings": []}
        known, data = self._json
        if known is not snapshot:
            data = self._to_json(snapshot)
            self._json = (snapshot, data)
        return data

    def _to_json(self, snapshot: MachineSnapshot) -> dict[str, Any]:
        from anyrig.monitor.sample import snapshot_to_json

        alerts = self._monitor.alerts() if self._monitor is not None else []
        data = snapshot_to_json(snapshot, alerts)
        kinds = {device.id: device.kind for device in self._rig.machine.devices}
        for row in data["devices"]:
            row["kind"] = kinds.get(row["device"], "gpu")
        for process in data["host"]["processes"]:
            del process["command"], process["user"]  # private, and this goes over the network
        return data

    def history(self) -> Sequence[Mapping[str, Any]]:
        """Samples of the last minutes, the oldest first: a row for each moment."""
        if self._monitor is None:
            return []
        rows: dict[float, dict[str, Any]] = {}
        for host in self._monitor.host_history():
            rows[host.monotonic_s] = {
                "time": host.wall_s,
                "devices": {},
                "cpu_percent": host.cpu_percent,
                "memory_available_bytes": host.memory_available_bytes,
                "memory_own_bytes": host.memory_own_bytes,
            }
        for device in self._rig.machine.devices:
            for sample in self._monitor.history(device.id):
                row = rows.get(sample.monotonic_s)
                if row is not None:
                    values = {name: getattr(sample, name) for name in _CHART_FIELDS}
                    row["devices"][device.id] = values
        return [rows[moment] for moment in sorted(rows)]

    def devices(self) -> Mapping[str, Any]:
        """Every device with its last sample and what runs on it, and which one is used."""
        with self._lock:
            try:
                choice = self._rig.preview_device(self._options)
            except (DeviceNotFoundError, DeviceUnusableError) as error:
                # A wrong name in some file hides nothing.
                rows = [self._describe(device, None) for device in self._rig.machine.devices]
                return {"devices": rows, "reason": error.message, "warnings": [error.hint],
                        "selector": "", "choice": None}  # fmt: skip
            return {
                "devices": [self._describe(device, choice) for device in self._rig.machine.devices],
                "reason": describe_choice(choice),
                "warnings": list(choice.warnings),
                "selector": choice.selector,
                "choice": choice_to_json(choice),
            }

    def use(self, device: str) -> Mapping[str, Any]:
        """Use a device from now on, as `anyrig use` does; the devices after that."""
        from anyrig.events import WarningEvent

        warnings: list[str] = []

        def collect(event: Event) -> None:
            if isinstance(event, WarningEvent):
                warnings.append(event.message)

        with self._lock:
            before = self._list_chosen()
            options = DeviceOptions(
                device=device.strip(), strict=self._options.strict, no_bench=True
            )
            saved = use_device(self._rig, options, collect)
            has_changed = self._list_chosen() != before
        if self._options.device:
            warnings.append(
                f"the server was started for {self._options.device!r}, which takes precedence"
            )
        if has_changed:
            self._on_change()
        now = self.devices()
        # The choice's own warnings say the same as those of `use_device`.
        return {**now, "saved": asdict(saved), "warnings": warnings or list(now["warnings"])}

    def measurements(self) -> Sequence[Mapping[str, Any]]:
        """What `anyrig bench` measured; read again, as a job may have measured since."""
        from anyrig.bench.measurements import Measurements

        rig = self._rig
        if rig.is_recorded:
            return []
        rig.measurements = Measurements.load(rig.folders.measurements)
        rows = []
        for device in rig.machine.devices:
            if known := rig.measurements.find(device, rig.machine):
                common = {"device": device.id, "name": device.name, "when": known.when}
                rows += [{**common, **asdict(one)} for one in known.measurements]
        return rows

    def _list_chosen(self) -> list[str]:
        try:
            return [device.id for device in self._rig.preview_device(self._options).devices]
        except (DeviceNotFoundError, DeviceUnusableError):
            return []

    def _describe(self, device: Device, choice: DeviceChoice | None) -> dict[str, Any]:
        snapshot = self.snapshot()
        sample = snapshot.find(device.id) if snapshot is not None else None
        skipped = choice.skipped if choice is not None else ()
        passed = next((one.reason for one in skipped if one.device.id == device.id), None)
        is_usable = device.usable or device.kind == "cpu"
        broken = self._rig.measured_devices.broken.get(device.id, "")
        lost = sample.lost if sample is not None else ""
        blocked = None if device.kind == "cpu" else device.block_reason
        reason = explain(ReasonCode.WRONG_RESULTS, error=broken) if broken else blocked or passed
        return {
            **device_to_json(device),
            "usable": is_usable and not broken and not lost,
            "reason": lost or str(reason or ""),
            **reason_to_json(None if lost else reason),  # codes of why, for translations
            "fix": "anyrig doctor" if broken or lost else "" if is_usable else self._fix(device),
            "chosen": choice is not None and any(d.id == device.id for d in choice.devices),
            "suggested_workers": suggest_workers(device),
            **_describe_sample(device, sample),
            "running": self._list_running(device, sample),
        }

    def _fix(self, device: Device) -> str:
        from anyrig.install import localize_install_commands

        fix = device.block_reason.fix if device.block_reason else ""
        return localize_install_commands(fix) if fix and not self._rig.is_recorded else fix

    def _list_running(self, device: Device, sample: DeviceSample | None) -> list[dict[str, Any]]:
        """Our workers on a device by what they have loaded, then other processes."""
        snapshot = self.snapshot()
        host = snapshot.host.processes if snapshot is not None else ()
        resident = {process.pid: process.memory_bytes for process in host}
        others: dict[int, DeviceProcess] = {}
        if sample is not None:
            others = {process.pid: process for process in sample.processes or ()}
        rows = []
        for name, worker in self._list_workers():
            if worker.device != device.id or worker.state == "dead":
                continue
            process = others.pop(worker.pid, None)
            memory = process.memory_bytes if process is not None else resident.get(worker.pid)
            rows.append({"pid": worker.pid, "name": name, "memory_bytes": memory, "ours": True})
        for process in others.values():
            rows.append({"pid": process.pid, "name": process.name or "",
                         "memory_bytes": process.memory_bytes, "ours": process.ours})  # fmt: skip
        return rows


def _describe_sample(device: Device, sample: DeviceSample | None) -> dict[str, Any]:
    """What changes of a device: from its last sample, else from its description."""
    memory = device.memory
    free = sample.memory_free_bytes if sample is not None else memory.free_bytes
    total = sample.memory_total_bytes if sample is not None else None
    return {
        "memory_total_bytes": total if total is not None else memory.total_bytes,
        "memory_free_bytes": free,
        "load": sample.compute_percent if sample is not None else None,
        "temperature_c": sample.temperature_c if sample is not None else None,
        "power_w": sample.power_w if sample is not None else None,
        "power_limit_w": sample.power_limit_w if sample is not None else None,
    }
