"""Which device to use: a pure function of the machine, the wishes and the figures, with its reason.

The order: the flag, the environment variable, the settings file, the saved choice, the best
measured device, the best described one, the CPU. A choice says why it was made and what was passed
over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from anyrig.devices.describe import Device, Drive, Machine
from anyrig.errors import DeviceUnusable, NoSuchDevice
from anyrig.units import GIB, MIB, bytes_text, is_number, normal_address

Origin = Literal["flag", "environment", "settings", "saved", "measured", "described", "fallback"]
_ORIGIN_TEXT = {
    "flag": "asked for on the command line",
    "environment": "asked for by an environment variable",
    "settings": "asked for by a settings file",
    "saved": "saved by `anyrig use`",
}
_LIBRARY_WORDS = ("cuda", "rocm", "xpu", "mps", "dml", "webgpu")
_SYNONYMS = {"directml": "dml", "hip": "rocm", "metal": "mps"}
_FP16_RANK = {"matrix": 3, "fast": 2, "slow": 1, "none": 0, None: 0}
# One worker holds its runtime's context and a model of a few hundred million parameters.
_GPU_WORKER_BYTES = 6 * GIB
_CPU_WORKER_BYTES = 3 * GIB
_CORES_PER_WORKER = 4
_MOST_WORKERS = 8
_MOST_LISTED = 8


class Wish(NamedTuple):
    """A device somebody asked for, and where they said it."""

    word: str
    origin: Origin
    name: str = ""
    """What a saved device was called, to name it when it is gone."""
    place: str = ""
    """The variable or file that holds the word."""


class PassedOver(NamedTuple):
    """A device that was not taken, and why."""

    device: Device
    reason: str


@dataclass(frozen=True)
class Choice:
    """The device to use, or all of them, and how it came to that."""

    devices: tuple[Device, ...]
    origin: Origin
    reason: str
    passed_over: tuple[PassedOver, ...] = ()
    warnings: tuple[str, ...] = ()
    word: str = "auto"

    @property
    def device(self) -> Device:
        """The first device: the one to use when only one can be."""
        return self.devices[0]


@dataclass(frozen=True)
class Evidence:
    """What was seen of devices, beside their description."""

    speeds: Mapping[str, float] = field(default_factory=dict)
    """Measured speed for the job at hand by device id; larger is faster."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Devices that answered wrongly or ran nothing, by id, with what they did."""
    unit: str = "TFLOP/s"


def choose(
    machine: Machine,
    wishes: Sequence[Wish] = (),
    *,
    evidence: Evidence | None = None,
    strict: bool = False,
) -> Choice:
    """The device for a piece of work.

    Args:
        machine: the devices to choose from.
        wishes: what was asked for, the strongest first; `auto` ends the list of wishes.
        evidence: what was measured and found wrong.
        strict: a wish that cannot be met is an error instead of a warning and the CPU.
    """
    evidence = evidence or Evidence()
    warnings: list[str] = []
    for wish in wishes:
        if wish.word.strip().lower() == "auto":
            break
        try:
            found = match(machine, wish.word)
        except NoSuchDevice as error:
            if wish.origin == "flag":
                raise
            if wish.origin != "saved":
                where = f"{error.message}, which {wish.place or wish.origin} asks for"
                raise NoSuchDevice(where, hint=error.hint) from error
            warnings.append(f"the saved device {wish.name or wish.word} is gone; choosing anew")
            continue
        return _granted(machine, wish, found, evidence, strict, tuple(warnings))
    return _best(machine, evidence, tuple(warnings))


# -- words --------------------------------------------------------------------------------------


def match(machine: Machine, word: str) -> tuple[Device, ...]:
    """The devices that a word names, best first; an error lists what is there."""
    plain = word.strip()
    lower = plain.lower()
    if lower == "cpu":
        return (machine.cpu_device,)
    if lower == "all":
        usable = tuple(device for device in machine.gpus if device.usable)
        return (*usable, machine.cpu_device)
    if lower == "gpu":
        return _ranked(machine.gpus) or (machine.cpu_device,)
    for way in (_by_index, _by_id, _by_vendor, _by_library, _by_name) if lower else ():
        found = way(machine, lower)
        if found:
            return found
    raise NoSuchDevice(f"no device matches {plain!r}", hint=_what_is_there(machine, lower))


def _by_index(machine: Machine, word: str) -> tuple[Device, ...]:
    """`2` is the third GPU, `6:1` the second MIG instance of the seventh."""
    number, colon, part = word.partition(":")
    if not is_number(number) or (colon and not is_number(part)):
        return ()
    wanted = (int(number), int(part) if colon else None)
    return tuple(d for d in machine.gpus if (d.indices.get("gpu"), d.indices.get("mig")) == wanted)


def _by_id(machine: Machine, word: str) -> tuple[Device, ...]:
    address = normal_address(word)
    exact = [d for d in machine.devices if word == d.id.lower()]
    exact = exact or [d for d in machine.gpus if address and address == d.pci_address]
    if exact:
        return tuple(exact[:1])
    if len(word) < 6:
        return ()
    forms = (word, f"gpu-{word}", f"mig-{word}")
    return _single([d for d in machine.gpus if d.id.lower().startswith(forms)], word)


def _by_vendor(machine: Machine, word: str) -> tuple[Device, ...]:
    return _ranked(d for d in machine.gpus if d.vendor == word)


def _by_library(machine: Machine, word: str) -> tuple[Device, ...]:
    library, colon, number = word.partition(":")
    library = _SYNONYMS.get(library, library)
    if library not in _LIBRARY_WORDS or (colon and not is_number(number)):
        return ()
    if library == "cuda" and not any(d.vendor == "nvidia" for d in machine.gpus):
        library = "rocm"  # torch's ROCm build calls its devices cuda
    wanted = library if library == "mps" else f"{library}:{number}"
    if colon or library == "mps":
        counted = [d for d in machine.gpus if wanted in d.words]
        # Cards that the library does not count (hidden, no driver) follow those it does.
        uncounted = [d for d in machine.gpus if library in d.words]
        if counted or library == "mps":
            return tuple(counted)[:1]
        number_left = int(number) - sum(any(w.startswith(f"{library}:") for w in d.words)
                                        for d in machine.gpus)  # fmt: skip
        return tuple(uncounted[number_left : number_left + 1]) if number_left >= 0 else ()
    return _ranked(d for d in machine.gpus if any(w.split(":")[0] == library for w in d.words))


def _by_name(machine: Machine, word: str) -> tuple[Device, ...]:
    # The CPU of a Mac or an APU has its GPU's name in its own: GPUs come first.
    named = [d for d in machine.gpus if word in d.name.lower()]
    named = named or [d for d in (machine.cpu_device,) if word in d.name.lower()]
    exact = [d for d in named if d.name.lower() == word]
    found = exact or named
    return _single([d for d in found if d.part != "mig"] or found, word)


def _single(found: Sequence[Device], word: str) -> tuple[Device, ...]:
    if len(found) > 1:
        names = ", ".join(f"{d.id} ({d.name})" for d in found)
        raise NoSuchDevice(
            f"{word!r} matches {len(found)} devices: {names}",
            hint="Name one by its number in `anyrig devices` or by its id.",
        )
    return tuple(found)


def _what_is_there(machine: Machine, word: str) -> str:
    rows = [f"{number_text(gpu)} ({gpu.name}, {', '.join(gpu.words)})" for gpu in machine.gpus]
    words = sorted({w for d in machine.devices for w in d.words} | {"auto", "all", "cpu"})
    import difflib  # 3 ms that only a mistake should cost

    near = difflib.get_close_matches(word, words, n=1, cutoff=0.7)
    nearest = f"Did you mean {near[0]!r}? " if near else ""
    if len(rows) > _MOST_LISTED:
        rest = len(rows) - _MOST_LISTED
        rows = [*rows[:_MOST_LISTED], f"{rest} more in `anyrig devices`"]
    listed = "; ".join([*rows, f"cpu ({machine.cpu.name})"])
    return f"{nearest}There is: {listed}. `auto` picks the best, `all` takes every one."


# -- decisions ----------------------------------------------------------------------------------


def _granted(
    machine: Machine,
    wish: Wish,
    found: tuple[Device, ...],
    evidence: Evidence,
    strict: bool,
    warnings: tuple[str, ...],
) -> Choice:
    """What was asked for, or the CPU with a warning when it cannot be used."""
    reason = f"{_ORIGIN_TEXT.get(wish.origin, wish.origin)}: {wish.word}"
    if wish.origin == "saved":
        reason = _ORIGIN_TEXT["saved"]
    if wish.word.strip().lower() == "all":
        fit = tuple(d for d in found if d.id not in evidence.broken)
        return Choice(
            fit or (machine.cpu_device,),
            wish.origin,
            reason,
            _passed(machine, fit, evidence),
            warnings,
            "all",
        )
    if wish.word.strip().lower() == "gpu" and not machine.gpus:
        return _no_gpu(machine, wish, strict, warnings)
    good = [d for d in found if d.kind == "cpu" or not _why_not(d, evidence)]
    if good:
        other_way = detour(good[0], wish.word)
        if other_way and strict:
            raise DeviceUnusable(other_way, hint=good[0].why_not_fix or "Run `anyrig doctor`.")
        left = _passed(machine, good[:1], evidence)
        told = (*warnings, other_way) if other_way else warnings
        return Choice((good[0],), wish.origin, reason, left, told, wish.word)
    first = found[0]
    why = _why_not(first, evidence)
    fix = first.why_not_fix or "Run `anyrig doctor`."
    if strict:
        raise DeviceUnusable(f"{first.name} cannot be used: {why}", hint=fix)
    warning = f"{first.name} cannot be used ({why}); using the CPU. {_as_sentence(fix)}"
    return Choice(
        (machine.cpu_device,),
        "fallback",
        f"{first.name} cannot be used: {why}",
        _passed(machine, (machine.cpu_device,), evidence),
        (*warnings, warning),
        wish.word,
    )


def detour(device: Device, word: str) -> str:
    """What to say when a word asks for one way to a device and only another is open."""
    library = word.strip().lower().partition(":")[0]
    library = _SYNONYMS.get(library, library)
    if library not in _LIBRARY_WORDS or device.kind == "cpu":
        return ""
    same = {"cuda", "rocm"} if library in ("cuda", "rocm") else {library}
    asked = [d for d in device.drives if d.word.partition(":")[0] in same or d.word == device.id]
    if any(drive.usable for drive in asked):
        return ""
    other = next((drive.word for drive in device.drives if drive.usable), "another way")
    reason = asked[0].reason if asked else "it has no such backend"
    return f"{device.name} cannot be used as {word.strip()} ({reason}); using it as {other}"


def drive_for(device: Device, word: str = "") -> Drive | None:
    """The way to run on a device: what the word asks for, else torch, else whatever is open."""
    library = word.strip().lower().partition(":")[0]
    library = _SYNONYMS.get(library, library)
    usable = [drive for drive in device.drives if drive.usable]
    asked = [drive for drive in usable if drive.word.partition(":")[0] == library]
    for drives in (asked, usable):
        for backend in ("torch", "onnx"):
            for drive in drives:
                if drive.backend == backend:
                    return drive
    return None


def _no_gpu(machine: Machine, wish: Wish, strict: bool, warnings: tuple[str, ...]) -> Choice:
    if strict:
        raise DeviceUnusable("there is no GPU", hint="Run `anyrig doctor`.")
    text = "a GPU was asked for and there is none; using the CPU"
    return Choice(
        (machine.cpu_device,), "fallback", "there is no GPU", (), (*warnings, text), wish.word
    )


def _as_sentence(fix: str) -> str:
    return fix if fix.endswith(".") else f"To mend it: {fix}"


def _best(machine: Machine, evidence: Evidence, warnings: tuple[str, ...]) -> Choice:
    fit = [d for d in machine.gpus if not _why_not(d, evidence)]
    cpu = machine.cpu_device
    if not fit:
        reason = "no GPU can be used" if machine.gpus else "there is no GPU"
        return Choice((cpu,), "fallback", reason, _passed(machine, (cpu,), evidence), warnings)
    usable = fit
    measured = [d for d in (*fit, cpu) if d.id in evidence.speeds]
    gpus_measured = [d for d in measured if d.kind == "gpu"]
    if gpus_measured:
        # What has no figure yet is not passed over for want of one: it is ranked by description.
        unmeasured = [d for d in fit if d.id not in evidence.speeds]
        best = max(measured, key=lambda d: evidence.speeds[d.id])
        better = [d for d in unmeasured if best.kind == "cpu" or _rank(d) > _rank(best)]
        if not better:
            return Choice(
                (best,),
                "measured",
                _measured_reason(best, measured, evidence),
                _passed(machine, (best,), evidence, best),
                warnings,
            )
        fit = better
    best = _ranked(fit)[0]
    reason = (
        "the only usable GPU" if len(usable) == 1 else "the best of the usable GPUs by description"
    )
    return Choice((best,), "described", reason, _passed(machine, (best,), evidence, best), warnings)


def _measured_reason(best: Device, measured: Sequence[Device], evidence: Evidence) -> str:
    speed = evidence.speeds[best.id]
    others = [d for d in measured if d is not best]
    if not others:
        return f"measured: {_figure(speed)} {evidence.unit}"
    second = max(others, key=lambda d: evidence.speeds[d.id])
    what = "the CPU is the fastest measured" if best.kind == "cpu" else "the fastest measured"
    return (
        f"{what}: {_figure(speed)} {evidence.unit} against "
        f"{_figure(evidence.speeds[second.id])} of {_short(second)}"
    )


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _short(device: Device) -> str:
    return "the CPU" if device.kind == "cpu" else device.name


def _why_not(device: Device, evidence: Evidence) -> str:
    if device.id in evidence.broken:
        return evidence.broken[device.id]
    return device.why_not


def _passed(
    machine: Machine, taken: Sequence[Device], evidence: Evidence, best: Device | None = None
) -> tuple[PassedOver, ...]:
    ids = {device.id for device in taken}
    return tuple(
        PassedOver(device, _why_passed(device, evidence, best))
        for device in machine.devices
        if device.id not in ids
    )


def _why_passed(device: Device, evidence: Evidence, best: Device | None) -> str:
    why = "" if device.kind == "cpu" else _why_not(device, evidence)
    if why:
        return why
    if best is None:
        return "not asked for"
    mine, theirs = evidence.speeds.get(device.id), evidence.speeds.get(best.id)
    if mine is not None and theirs is not None:
        slower = f"slower than {_short(best)}"
        return f"measured {slower}: {_figure(mine)} against {_figure(theirs)} {evidence.unit}"
    if device.kind == "cpu":
        return "a GPU is there"
    if mine is not None:
        return "measured, but described as slower or smaller than one not measured yet"
    return "described as slower or smaller"


def _ranked(devices: Iterable[Device]) -> tuple[Device, ...]:
    """The best described device first."""
    return tuple(sorted(devices, key=_rank, reverse=True))


def _rank(device: Device) -> tuple[bool, bool, bool, int, bool, int, float]:
    return (
        device.usable,
        device.memory.kind == "dedicated",
        device.vendor not in ("unknown",),
        _FP16_RANK[device.features.fp16],
        bool(device.features.bf16),
        # In whole GiB: two equal cards with a few MiB between them are equal.
        (device.memory.total_bytes or 0) // GIB,
        float(device.units or 0),
    )


def suggested_workers(device: Device) -> int:
    """How many processes a device can feed, from its memory (and cores): a start, not a promise."""
    total = device.memory.total_bytes
    if device.kind == "cpu":
        by_cores = max(1, (device.units or 1) // _CORES_PER_WORKER)
        by_memory = max(1, (total or 0) // _CPU_WORKER_BYTES)
        return min(by_cores, by_memory, _MOST_WORKERS)
    if total is None:
        return 1
    return max(1, min(_MOST_WORKERS, (total + 512 * MIB) // _GPU_WORKER_BYTES))


def number_text(device: Device) -> str:
    """What to call a GPU by: `0`, or `6:1` for a MIG instance."""
    number = str(device.indices.get("gpu", 0))
    return f"{number}:{device.indices['mig']}" if device.part == "mig" else number


def explain(choice: Choice) -> str:
    """The choice in one sentence."""
    names = ", ".join(_short(d) if d.kind == "cpu" else d.name for d in choice.devices)
    return f"{names} ({choice.reason})"


def memory_text(device: Device) -> str:
    """`24 GiB, 22.9 free`, or what is known."""
    memory = device.memory
    if memory.total_bytes is None:
        return "memory unknown"
    text = bytes_text(memory.total_bytes)
    if memory.kind == "unified":
        text += " unified"
    if memory.free_bytes is not None:
        text += f", {bytes_text(memory.free_bytes)} free"
    return text
