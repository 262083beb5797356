"""Which device to use: a pure function of the machine, the requests and the measurements.

Requests are honoured in this order: the flag, the environment variable, the settings file, the
device saved by `anyrig use`. Without one, the fastest measured device is used, else the one with
the best specifications, else the CPU. A choice says why it was made and why others were skipped.

A selector is `cpu`, `all`, a kind of device (`gpu`, `cuda`, `amd`), an index (`1`, `6:1`), a
library's name for one device (`cuda:1`, `dml:0`), an id or its beginning, a PCI address, or part of
a name. Each form is looked up in its own way and in no other: a number never matches a name.

`resolve_request` has the one rule for a selector that matches nothing. A kind (`gpu`, `cuda`) falls
back to the CPU with a warning. One device (an index, an id, a name) is an error that lists the
devices, unless the selector comes from a variable that may be meant for other programs (`GPU_ID`):
then it is ignored, with a warning. `strict` makes each an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from anyrig.devices.machine import ONE_PROCESS, Device, DeviceBackend, Machine
from anyrig.devices.reasons import DeviceReason, ReasonCode, explain
from anyrig.devices.vendors import SOURCES, VENDORS, vendor_of
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError
from anyrig.units import GIB, MIB, format_bytes, is_whole_number, normalize_pci_address

ChoiceOrigin = Literal[
    "flag", "environment", "settings", "saved", "measured", "specifications", "fallback"
]
_REQUESTED = {
    "flag": ReasonCode.BY_FLAG,
    "environment": ReasonCode.BY_ENVIRONMENT,
    "settings": ReasonCode.BY_SETTINGS,
    "saved": ReasonCode.SAVED,
}
_LIBRARIES = {name: title for source in SOURCES for name, title in source.libraries.items()}
_SYNONYMS = {name: meant for source in SOURCES for name, meant in source.synonyms.items()}
# Selectors of any device of a kind, with what messages call one.
_KINDS = {
    "gpu": "GPU",
    **_LIBRARIES,
    **{vendor.name: f"{vendor.title} GPU" for vendor in VENDORS.values()},
}
_INDEX = re.compile(r"[+-]?[0-9]+(:[0-9]*)?")
_FP16_RANK = {"matrix": 3, "fast": 2, "slow": 1, "none": 0, None: 0}
_MAX_LISTED = 8
_OWN_VARIABLES = "ANYRIG_"
_DOCTOR = "Run `anyrig doctor`."
# One worker needs its runtime's context and a model of a few hundred million parameters.
_GPU_WORKER_BYTES = 6 * GIB
_CPU_WORKER_BYTES = 3 * GIB
_CORES_PER_WORKER = 4
_MAX_WORKERS = 8


class DeviceRequest(NamedTuple):
    """A device that somebody requested, and where."""

    selector: str
    origin: ChoiceOrigin
    name: str = ""
    """The name of a saved device, for messages if it no longer exists."""
    place: str = ""
    """The variable or file that contains the selector."""

    @property
    def is_foreign(self) -> bool:
        """Whether it comes from another program's variable, which may be meant for that alone."""
        own = self.place.startswith(_OWN_VARIABLES)
        return self.origin == "environment" and bool(self.place) and not own

    @property
    def source_text(self) -> str:
        """Who requested it, unless that is obvious."""
        if self.origin in ("flag", "saved"):
            return ""
        return f" (requested by {self.place or self.origin})"


class DeviceMatch(NamedTuple):
    """What a request means on a machine."""

    devices: tuple[Device, ...]
    """The matching devices, best first; the CPU if none matches."""
    missing: DeviceReason | None = None
    """What was not found; None if something matches."""

    @property
    def warning(self) -> str:
        return f"{self.missing}; using the CPU" if self.missing else ""


class SkippedDevice(NamedTuple):
    device: Device
    reason: DeviceReason


@dataclass(frozen=True)
class DeviceChoice:
    """The device or devices to use, and why."""

    devices: tuple[Device, ...]
    origin: ChoiceOrigin
    reason: DeviceReason
    skipped: tuple[SkippedDevice, ...] = ()
    warnings: tuple[str, ...] = ()
    selector: str = "auto"

    @property
    def device(self) -> Device:
        """The one to use if only one can be."""
        return self.devices[0]


@dataclass(frozen=True)
class MeasuredDevices:
    """What was measured on devices."""

    speeds: Mapping[str, float] = field(default_factory=dict)
    """TFLOP/s by device id."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Devices that computed wrong results or nothing, by id, with what they did."""

    def find_block(self, device: Device) -> DeviceReason | None:
        if device.id in self.broken:
            return explain(ReasonCode.WRONG_RESULTS, error=self.broken[device.id])
        return device.block_reason


def choose_device(
    machine: Machine,
    requests: Sequence[DeviceRequest] = (),
    *,
    measured: MeasuredDevices | None = None,
    strict: bool = False,
) -> DeviceChoice:
    """The device for a piece of work.

    Args:
        machine: the devices to choose from.
        requests: what was requested, the strongest first; `auto` ends the list.
        measured: what was measured.
        strict: a request that cannot be met is an error, not a warning and the CPU.
    """
    return _DeviceChooser(machine, measured or MeasuredDevices(), strict).choose(requests)


def resolve_request(
    machine: Machine, request: DeviceRequest, *, strict: bool = False
) -> DeviceMatch:
    """The devices that a request means, whether or not they can be used.

    Raises:
        DeviceNotFoundError: it names one device that does not exist.
        DeviceUnusableError: it names a kind that does not exist, and `strict` is set.
    """
    try:
        return DeviceMatch(match_devices(machine, request.selector))
    except DeviceNotFoundError as error:
        source = request.source_text
        if kind := parse_kind(request.selector):
            missing = explain(ReasonCode.KIND_NOT_FOUND, kind=_KINDS[kind], source=source)
            if strict:
                hint = f"{_format_devices(machine)} {_DOCTOR}"
                raise DeviceUnusableError(str(missing), hint=hint) from error
        else:
            missing = explain(ReasonCode.DEVICE_NOT_FOUND, error=error.message, source=source)
            if strict or not request.is_foreign:
                raise DeviceNotFoundError(str(missing), hint=error.hint) from error
        return DeviceMatch((machine.cpu_device,), missing)


# -- decisions -----------------------------------------------------------------------------------


class _DeviceChooser:
    def __init__(self, machine: Machine, measured: MeasuredDevices, strict: bool) -> None:
        self._machine, self._measured, self._strict = machine, measured, strict
        self._warnings: list[str] = []
        self._ignored: list[DeviceReason] = []
        """Devices that other programs' variables name and that do not exist."""

    def choose(self, requests: Sequence[DeviceRequest]) -> DeviceChoice:
        choice = self._choose(requests)
        names = ", ".join(map(_short_name, choice.devices))
        ignored = [f"{missing}; using {names}" for missing in self._ignored]
        return replace(choice, warnings=(*ignored, *choice.warnings))

    def _choose(self, requests: Sequence[DeviceRequest]) -> DeviceChoice:
        for request in requests:
            selector = request.selector.strip().lower()
            if selector == "auto":
                break
            try:
                match = resolve_request(self._machine, request, strict=self._strict)
            except DeviceNotFoundError as error:
                if request.origin != "saved":
                    raise
                gone = f"the saved device {request.name or request.selector} no longer exists"
                if self._strict:
                    hint = f"Save another with `anyrig use`. {_format_devices(self._machine)}"
                    raise DeviceNotFoundError(gone, hint=hint) from error
                self._warnings.append(f"{gone}; choosing another")
                continue
            if selector == "all" or parse_kind(selector):
                self._warn_unmatched()
            if match.missing and not parse_kind(selector):
                self._ignored.append(match.missing)
                continue
            if match.missing:
                self._warnings.append(match.warning)
                return self._build(match.devices, "fallback", match.missing, request.selector)
            return self._use_requested(request, match.devices)
        self._warn_unmatched()
        return self._choose_best()

    def _build(
        self,
        devices: Sequence[Device],
        origin: ChoiceOrigin,
        reason: DeviceReason,
        selector: str = "auto",
    ) -> DeviceChoice:
        chosen = {device.id for device in devices}
        best = devices[0] if origin in ("measured", "specifications") else None
        skipped = tuple(
            SkippedDevice(device, self._skip_reason(device, best))
            for device in self._machine.devices
            if device.id not in chosen
        )
        warnings = tuple(self._warnings)
        return DeviceChoice(tuple(devices), origin, reason, skipped, warnings, selector)

    def _warn_unmatched(self) -> None:
        """Entries of variables such as CUDA_VISIBLE_DEVICES that match no device."""
        for one in self._machine.unmatched:
            text = f"{one.variable} lists {one.entry}, which does not exist"
            if self._strict:
                raise DeviceNotFoundError(text, hint=_format_devices(self._machine))
            self._warnings.append(text)

    def _use_requested(self, request: DeviceRequest, found: tuple[Device, ...]) -> DeviceChoice:
        """The requested device, or the CPU with a warning if it cannot be used."""
        values = {} if request.origin == "saved" else {"selector": request.selector}
        reason = explain(_REQUESTED[request.origin], **values)
        cpu, selector = self._machine.cpu_device, request.selector
        if selector.strip().lower() == "all":
            devices = [device for device in found if device.id not in self._measured.broken]
            return self._build(devices or [cpu], request.origin, reason, "all")
        for device in found:
            if device.kind == "gpu" and self._measured.find_block(device):
                continue
            if fallback := explain_backend_fallback(device, selector):
                if self._strict:
                    raise DeviceUnusableError(fallback.message, hint=fallback.fix or _DOCTOR)
                self._warnings.append(fallback.message)
            return self._build([device], request.origin, reason, selector)
        blocked = self._measured.find_block(found[0])
        unusable = explain(ReasonCode.UNUSABLE, name=found[0].name, reason=blocked)
        fix = blocked.fix if blocked else ""
        if self._strict:
            raise DeviceUnusableError(str(unusable), hint=fix or _DOCTOR)
        advice = f"To fix: {fix}" if fix else _DOCTOR
        self._warnings.append(
            f"{found[0].name} cannot be used ({blocked}); using the CPU. {advice}"
        )
        return self._build([cpu], "fallback", unusable, selector)

    def _choose_best(self) -> DeviceChoice:
        cpu, speeds = self._machine.cpu_device, self._measured.speeds
        usable = [d for d in self._machine.gpus if not self._measured.find_block(d)]
        if not usable:
            code = ReasonCode.NO_USABLE_GPU if self._machine.gpus else ReasonCode.NO_GPU
            return self._build([cpu], "fallback", explain(code))
        candidates = usable
        measured = [d for d in (*usable, cpu) if d.id in speeds]
        if any(d.kind == "gpu" for d in measured):
            # A GPU that was not measured yet is not skipped for that: specifications rank it.
            best = max(measured, key=lambda d: speeds[d.id])
            unmeasured = [d for d in usable if d.id not in speeds]
            candidates = [d for d in unmeasured if best.kind == "cpu" or _rank(d) > _rank(best)]
            if not candidates:
                return self._build([best], "measured", self._compare_speeds(best, measured))
        code = ReasonCode.ONLY_USABLE if len(usable) == 1 else ReasonCode.BEST_SPECIFICATIONS
        return self._build(_rank_devices(candidates)[:1], "specifications", explain(code))

    def _compare_speeds(self, best: Device, measured: Sequence[Device]) -> DeviceReason:
        speeds = self._measured.speeds
        speed = _format_speed(speeds[best.id])
        others = [device for device in measured if device is not best]
        if not others:
            return explain(ReasonCode.ONLY_MEASURED, speed=speed)
        second = max(others, key=lambda d: speeds[d.id])
        code = ReasonCode.CPU_FASTEST if best.kind == "cpu" else ReasonCode.FASTEST
        slower = _format_speed(speeds[second.id])
        return explain(code, speed=speed, second=slower, name=_short_name(second))

    def _skip_reason(self, device: Device, best: Device | None) -> DeviceReason:
        """Why a device is not used; `best` is the one that was chosen without a request."""
        blocked = None if device.kind == "cpu" else self._measured.find_block(device)
        if blocked or best is None:
            return blocked or explain(ReasonCode.NOT_REQUESTED)
        speeds = self._measured.speeds
        if device.id in speeds and best.id in speeds:
            own, others = _format_speed(speeds[device.id]), _format_speed(speeds[best.id])
            return explain(ReasonCode.SLOWER, name=_short_name(best), speed=own, best=others)
        if device.kind == "cpu":
            return explain(ReasonCode.GPU_AVAILABLE)
        if device.id in speeds:
            return explain(ReasonCode.UNMEASURED_IS_BETTER)
        return explain(ReasonCode.LOWER_SPECIFICATIONS)


def _format_speed(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _short_name(device: Device) -> str:
    return "the CPU" if device.kind == "cpu" else device.name


def suggest_workers(device: Device) -> int:
    """How many processes a device can serve, by its memory (and cores): an estimate."""
    total = device.memory.total_bytes
    if device.kind == "cpu":
        by_cores = max(1, (device.units or 1) // _CORES_PER_WORKER)
        by_memory = max(1, (total or 0) // _CPU_WORKER_BYTES)
        return min(by_cores, by_memory, _MAX_WORKERS)
    if total is None or device.has_note(ONE_PROCESS):
        return 1
    return max(1, min(_MAX_WORKERS, (total + 512 * MIB) // _GPU_WORKER_BYTES))


def describe_choice(choice: DeviceChoice) -> str:
    return f"{', '.join(map(_short_name, choice.devices))} ({choice.reason})"


def describe_memory(device: Device) -> str:
    """`24 GiB, 22.9 GiB free`, or what is known."""
    memory = device.memory
    if memory.total_bytes is None:
        return "memory unknown"
    text = format_bytes(memory.total_bytes)
    if memory.kind == "unified":
        text += " unified"
    if memory.free_bytes is not None:
        text += f", {format_bytes(memory.free_bytes)} free"
    return text


# -- selectors -----------------------------------------------------------------------------------


def parse_kind(selector: str) -> str:
    """The kind of device that a selector means (`directml` is `dml`); empty for one device."""
    name = selector.strip().lower()
    kind = _SYNONYMS.get(name, name)
    return kind if kind in _KINDS else ""


def parse_library(selector: str) -> str:
    """`directml:0` is `dml`."""
    name = selector.strip().lower().partition(":")[0]
    return _SYNONYMS.get(name, name)


def match_devices(machine: Machine, selector: str) -> tuple[Device, ...]:
    """The devices that a selector means, best first; an error lists the devices."""
    plain = selector.strip()
    lower = plain.lower()
    if lower == "cpu":
        return (machine.cpu_device,)
    if lower == "all":
        return (*(device for device in machine.gpus if device.usable), machine.cpu_device)
    found = _match(machine, lower) if lower else ()
    if not found:
        hint = _format_devices(machine, lower)
        raise DeviceNotFoundError(f"no device matches {plain!r}", hint=hint)
    return found


def _match(machine: Machine, selector: str) -> tuple[Device, ...]:
    if selector == "gpu":
        return _rank_devices(machine.gpus)
    if _INDEX.fullmatch(selector):
        return _match_index(machine, selector)
    if selector in VENDORS:
        return _rank_devices(d for d in machine.gpus if d.vendor == selector)
    _, colon, number = selector.partition(":")
    if parse_library(selector) in _LIBRARIES and (not colon or is_whole_number(number)):
        return _match_library(machine, selector)
    found = _match_id(machine, selector)
    # `2.5` or `4,0` is not a name either, though a CPU's name ends in 2.50GHz.
    return found if found or not any(map(str.isalpha, selector)) else _match_name(machine, selector)


def _match_index(machine: Machine, selector: str) -> tuple[Device, ...]:
    """`2` is the third GPU, `6:1` the second MIG instance of the seventh."""
    number, colon, part = selector.partition(":")
    if not is_whole_number(number) or (colon and not is_whole_number(part)):
        return ()
    wanted = (int(number), int(part) if colon else None)
    return tuple(d for d in machine.gpus if (d.indices.get("gpu"), d.indices.get("mig")) == wanted)


def _match_id(machine: Machine, selector: str) -> tuple[Device, ...]:
    address = normalize_pci_address(selector)
    exact = [d for d in machine.devices if selector == d.id.lower()]
    exact = exact or [d for d in machine.gpus if address and address == d.pci_address]
    if exact:
        return tuple(exact[:1])
    if len(selector) < 6:
        return ()
    forms = (selector, f"gpu-{selector}", f"mig-{selector}")
    return _require_one([d for d in machine.gpus if d.id.lower().startswith(forms)], selector)


def _match_library(machine: Machine, selector: str) -> tuple[Device, ...]:
    library, (_, colon, number) = parse_library(selector), selector.partition(":")
    if not any(library in vendor_of(d).libraries for d in machine.gpus):
        # A vendor's torch may call its devices by another vendor's name.
        borrowed = (vendor_of(d).borrowed_libraries.get(library) for d in machine.gpus)
        library = next(filter(None, borrowed), library)
    if not colon:
        return _rank_devices(
            d
            for d in machine.gpus
            if any(one.partition(":")[0] == library for one in d.selectors)
            or (d.part == "mig" and library in vendor_of(d).libraries)
        )
    counted = [d for d in machine.gpus if f"{library}:{number}" in d.selectors]
    if counted:
        return tuple(counted[:1])
    index = int(number)
    instances = [d for d in machine.gpus if d.part == "mig" and d.usable]
    if instances and library in vendor_of(instances[0]).libraries:
        return tuple(instances[index : index + 1])
    # Cards that the library does not count (hidden, no driver) follow those it does.
    uncounted = [d for d in machine.gpus if library in d.selectors]
    index -= sum(any(s.startswith(f"{library}:") for s in d.selectors) for d in machine.gpus)
    return tuple(uncounted[index : index + 1]) if index >= 0 else ()


def _match_name(machine: Machine, selector: str) -> tuple[Device, ...]:
    # The CPU of a Mac or an APU has its GPU's name in its own: GPUs come first.
    named = [d for d in machine.gpus if selector in d.name.lower()]
    named = named or [d for d in (machine.cpu_device,) if selector in d.name.lower()]
    found = [d for d in named if d.name.lower() == selector] or named
    return _require_one([d for d in found if d.part != "mig"] or found, selector)


def _require_one(found: Sequence[Device], selector: str) -> tuple[Device, ...]:
    if len(found) > 1:
        names = ", ".join(f"{d.id} ({d.name})" for d in found)
        raise DeviceNotFoundError(
            f"{selector!r} matches {len(found)} devices: {names}",
            hint="Select one by its number in `anyrig devices` or by its id.",
        )
    return tuple(found)


def _format_devices(machine: Machine, selector: str = "") -> str:
    """The devices of a machine as a hint, with the selector that was probably meant."""
    rows = [f"{gpu.number_text} ({gpu.name}, {', '.join(gpu.selectors)})" for gpu in machine.gpus]
    if len(rows) > _MAX_LISTED:
        rest = len(rows) - _MAX_LISTED
        rows = [*rows[:_MAX_LISTED], f"{rest} more in `anyrig devices`"]
    listed = "; ".join([*rows, f"cpu ({machine.cpu.name})"])
    suggestion = _suggest_selector(machine, selector)
    return f"{suggestion}Devices: {listed}. `auto` selects the best, `all` uses every one."


def _suggest_selector(machine: Machine, selector: str) -> str:
    if is_whole_number(selector):
        # `4090` is an index that does not exist; a model's name needs a letter.
        pattern = rf"\b{selector}\b"
        named = next((gpu for gpu in machine.gpus if re.search(pattern, gpu.name)), None)
        if named is None or len(selector) < 3:
            return ""
        return f"A number is an index: {named.name} is {named.number_text!r}. "
    known = sorted({s for d in machine.devices for s in d.selectors} | {"auto", "all", "cpu"})
    import difflib  # 3 ms that only a mistake should cost

    near = difflib.get_close_matches(selector, known, n=1, cutoff=0.7) if selector else []
    return f"Did you mean {near[0]!r}? " if near else ""


def explain_backend_fallback(device: Device, selector: str) -> DeviceReason | None:
    """Why the backend that a selector names is not used; None if it is, or if none is named."""
    if parse_library(selector) not in _LIBRARIES or device.kind == "cpu":
        return None
    named = _list_named_backends(device, selector)
    if any(backend.usable for backend in named):
        return None
    return explain(
        ReasonCode.BACKEND_UNUSABLE,
        next((one.fix for one in named if one.fix), ""),
        name=device.name,
        selector=selector.strip(),
        reason=named[0].reason if named else "it has no such backend",
        other=next((one.selector for one in device.backends if one.usable), "another backend"),
    )


def _list_named_backends(device: Device, selector: str) -> list[DeviceBackend]:
    library = parse_library(selector)
    same = {library, vendor_of(device).borrowed_libraries.get(library, library)}
    return [
        one
        for one in device.backends
        if one.selector.partition(":")[0] in same or one.selector == device.id
    ]


def select_backend(device: Device, selector: str = "") -> DeviceBackend | None:
    """The backend that the selector names if it is usable, else torch, else any usable one."""
    library = parse_library(selector)
    return min(
        (backend for backend in device.backends if backend.usable),
        key=lambda one: (one.selector.partition(":")[0] != library, one.library != "torch"),
        default=None,
    )


def _rank_devices(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The device with the best specifications first."""
    return tuple(sorted(devices, key=_rank, reverse=True))


def _rank(device: Device) -> tuple[bool, bool, bool, int, bool, int, float]:
    """A sort key, larger is better: usable, then cards, matrix units, memory."""
    return (
        device.usable,
        device.memory.kind == "dedicated",
        device.vendor != "unknown",
        _FP16_RANK[device.features.fp16],
        bool(device.features.bf16),
        # In whole GiB: two equal cards with a few MiB between them are equal.
        (device.memory.total_bytes or 0) // GIB,
        float(device.units or 0),
    )
