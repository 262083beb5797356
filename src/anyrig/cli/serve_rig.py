"""The server's view of the machine: devices and live samples, the choice of one, its figures."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyrig.app.models import ModelCache, list_all_workers
from anyrig.cli.context import Context
from anyrig.devices.choose import suggest_workers
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError

if TYPE_CHECKING:
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device
    from anyrig.monitor import MachineSnapshot
    from anyrig.monitor.sample import DeviceProcess, DeviceSample

INTERVAL_S = 2.0
KEPT = 300
"""Samples of each device: ten minutes of them."""
_DRAWN = ("compute_percent", "memory_used_bytes", "memory_total_bytes", "temperature_c", "power_w")
"""What history keeps of a sample for charts."""


def made(context: Context, stack: ExitStack, models: ModelCache) -> WatchedRig:
    """The part."""
    rig = WatchedRig(context, models)
    stack.callback(rig.close)
    return rig


class WatchedRig:
    """Fits `server.parts.Rig`: one monitor samples for everybody who asks."""

    def __init__(self, context: Context, models: ModelCache) -> None:
        from anyrig.monitor import Monitor

        self._context, self._models = context, models
        self._lock = threading.Lock()
        """One at a time reads or changes the choice."""
        self._monitor: Monitor | None = None
        self._recorded: MachineSnapshot | None = None
        self._shown: tuple[MachineSnapshot | None, Mapping[str, Any]] = (None, {})
        if context.record is None:
            self._monitor = Monitor(context.machine, INTERVAL_S, KEPT)
        else:
            from anyrig.app.devices import describe_recorded

            self._recorded = describe_recorded(context.machine)

    def start(self) -> None:
        """Begin to sample. Not before the app is built: what builds it, and what reads the host,
        both change how warnings are handled for a moment, which is nothing for two threads.
        """
        if self._monitor is not None:
            self._monitor.start()

    def close(self) -> None:
        """Sample no more."""
        if self._monitor is not None:
            self._monitor.stop()

    # -- samples -----------------------------------------------------------------------------------

    def snapshot(self) -> MachineSnapshot | None:
        """The last samples; None before the first."""
        return self._monitor.latest() if self._monitor is not None else self._recorded

    def now(self) -> Mapping[str, Any]:
        """The last sample of every device and of the host; made once of each sample."""
        snapshot = self.snapshot()
        if snapshot is None:
            return {"time": None, "devices": [], "host": None, "warnings": []}
        known, shown = self._shown
        if known is not snapshot:
            from anyrig.monitor.sample import snapshot_to_json

            alerts = self._monitor.alerts() if self._monitor is not None else []
            data = snapshot_to_json(snapshot, alerts)
            kinds = {device.id: device.kind for device in self._context.machine.devices}
            for row in data["devices"]:
                row["kind"] = kinds.get(row["device"], "gpu")
            for process in data["host"]["processes"]:
                del process["command"], process["user"]  # nobody's business over a network
            shown = data
            self._shown = (snapshot, shown)
        return shown

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
                "memory_ours_bytes": host.memory_ours_bytes,
            }
        for device in self._context.machine.devices:
            for sample in self._monitor.history(device.id):
                row = rows.get(sample.monotonic_s)
                if row is not None:
                    row["devices"][device.id] = {name: getattr(sample, name) for name in _DRAWN}
        return [rows[moment] for moment in sorted(rows)]

    # -- devices -----------------------------------------------------------------------------------

    def devices(self) -> Mapping[str, Any]:
        """As `anyrig devices --json`, a row for each, with its last sample and what runs on it."""
        from anyrig.app.devices import choice_to_json
        from anyrig.devices.choose import describe_choice

        context, machine = self._context, self._context.machine
        with self._lock:
            try:
                choice = context.choose(quiet=True)
            except (DeviceNotFoundError, DeviceUnusableError) as error:
                # A wrong word in some file must not hide what is there.
                rows = [self._row(device, None) for device in machine.devices]
                return {"devices": rows, "reason": error.message, "warnings": [error.hint],
                        "word": "", "choice": None}  # fmt: skip
            rows = [self._row(device, choice) for device in machine.devices]
            return {
                "devices": rows,
                "reason": describe_choice(choice),
                "warnings": list(choice.warnings),
                "word": choice.selector,
                "choice": choice_to_json(choice),
            }

    def use(self, device: str) -> Mapping[str, Any]:
        """Choose one from now on, as `anyrig use`; what is loaded elsewhere leaves.

        Raises:
            DeviceNotFoundError: nothing here answers to the word.
        """
        from anyrig.cli.pick import remember
        from anyrig.devices.choose import DeviceRequest, describe_backend_fallback, resolve_request

        context, word = self._context, device.strip()
        warnings: list[str] = []
        saved = name = word.lower()
        if saved not in ("auto", "all"):
            resolved = resolve_request(
                context.machine, DeviceRequest(word, "flag"), strict=context.strict
            )
            if resolved.missing:
                warnings.append(f"{resolved.missing}; until there is one the CPU is used")
            else:
                found = resolved.devices[0]
                warnings += self._objections(found, describe_backend_fallback(found, word))
                saved, name = found.id, found.name
        with self._lock:
            before = _ids(context)
            remember(context, saved, name)
            stronger = context.loaded.origins.get("device")
            if getattr(context.options, "device", None):
                warnings.append("the server was started with --device, which comes first")
            elif stronger:
                asked = context.loaded.settings.device
                warnings.append(f"{stronger[1]} asks for {asked!r}, which comes first")
            changed = _ids(context) != before
        if changed:
            self._models.reload_all()
        told = self.devices()
        # Objections say the same as the choice's own warnings, for one who has just chosen.
        warnings = warnings or list(told["warnings"])
        return {**told, "saved": {"device": saved, "name": name}, "warnings": warnings}

    def _objections(self, device: Device, other_way: str) -> list[str]:
        """What speaks against a device; an error where the user wants it strict."""
        strict = self._context.strict
        if device.block_reason and device.kind == "gpu":
            text = f"{device.name} cannot be used: {device.block_reason}"
            if strict:
                raise DeviceUnusableError(text, hint=self._fix(device) or "Run `anyrig doctor`.")
            return [f"{text}; until that is mended the CPU is used"]
        if other_way and strict:
            raise DeviceUnusableError(other_way, hint="Run `anyrig doctor`.")
        return [other_way] if other_way else []

    def _row(self, device: Device, choice: DeviceChoice | None) -> dict[str, Any]:
        from anyrig.devices.machine import to_json

        snapshot = self.snapshot()
        sample = snapshot.find(device.id) if snapshot is not None else None
        passed = next((p.reason.message for p in choice.skipped if p.device.id == device.id), ""
                      ) if choice is not None else ""  # fmt: skip
        usable = device.usable or device.kind == "cpu"
        broken = self._context.evidence.broken.get(device.id, "")
        lost = sample.lost if sample is not None else ""
        blocked = "" if device.kind == "cpu" else str(device.block_reason or "")
        return {
            **to_json(device),
            "usable": usable and not broken and not lost,
            "why": lost or broken or blocked or passed,
            "fix": "anyrig doctor" if broken or lost else "" if usable else self._fix(device),
            "chosen": choice is not None and any(d.id == device.id for d in choice.devices),
            "suggested_workers": suggest_workers(device),
            **_live(device, sample),
            "running": self._running(device, sample),
        }

    def _fix(self, device: Device) -> str:
        from anyrig.install import localize_install_commands

        fix = device.block_reason.fix if device.block_reason else ""
        return localize_install_commands(fix) if fix and self._context.record is None else fix

    def _running(self, device: Device, sample: DeviceSample | None) -> list[dict[str, Any]]:
        """Our workers there by what they have loaded, then the processes of others."""
        snapshot = self.snapshot()
        host = snapshot.host.processes if snapshot is not None else ()
        resident = {process.pid: process.memory_bytes for process in host}
        uses: dict[int, DeviceProcess] = {}
        if sample is not None:
            uses = {use.pid: use for use in sample.processes or ()}
        rows = []
        for one in self._models.loaded_models():
            for name, worker in list_all_workers(one.name, one.model):
                if worker.device != device.id or worker.state == "dead":
                    continue
                use = uses.pop(worker.pid, None)
                memory = use.memory_bytes if use is not None else resident.get(worker.pid)
                rows.append({"pid": worker.pid, "name": name, "memory_bytes": memory,
                             "ours": True})  # fmt: skip
        rows += [{"pid": use.pid, "name": use.name or "", "memory_bytes": use.memory_bytes,
                  "ours": use.ours} for use in uses.values()]  # fmt: skip
        return rows

    def figures(self) -> Sequence[Mapping[str, Any]]:
        """What `anyrig bench` measured here: read anew, since a job may have measured meanwhile."""
        from anyrig.bench.measurements import Measurements

        context = self._context
        if context.record is not None:
            return []
        # The choice of a device goes by them too.
        context.measurements = Measurements.load(context.folders.measurements)
        rows = []
        for device in context.machine.devices:
            if known := context.measurements.find(device, context.machine):
                about = {"device": device.id, "name": device.name, "when": known.when}
                rows += [{**about, **asdict(one)} for one in known.measurements]
        return rows


def _live(device: Device, sample: DeviceSample | None) -> dict[str, Any]:
    """What changes of a device, from its last sample, else from its description."""
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


def _ids(context: Context) -> list[str]:
    try:
        return [device.id for device in context.choose(quiet=True).devices]
    except (DeviceNotFoundError, DeviceUnusableError):
        return []
