"""Which device to use: a pure function of the machine, the wishes and the figures, with its reason.

The order: the flag, the environment variable, the settings file, the saved choice, the best
measured device, the best described one, the CPU. A choice says why it was made and what was passed
over.

`resolve` holds the one rule for a word that names nothing here. A kind (`gpu`, `cuda`) falls back
to the CPU with a warning. One device (an index, an id, a name) is an error that lists what is
there, unless the word comes from a variable that may be meant for other programs (`GPU_ID`): then
it too falls back with a warning. `strict` makes every fallback an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from anyrig.devices.describe import Device, Machine
from anyrig.devices.words import KINDS, detour, kind_of, match, rank, ranked, what_is_there
from anyrig.errors import DeviceNotFoundError, DeviceUnusableError
from anyrig.units import GIB, MIB, format_bytes

Origin = Literal["flag", "environment", "settings", "saved", "measured", "described", "fallback"]
_ORIGIN_TEXT = {
    "flag": "asked for on the command line",
    "environment": "asked for by an environment variable",
    "settings": "asked for by a settings file",
    "saved": "saved by `anyrig use`",
}
# One worker holds its runtime's context and a model of a few hundred million parameters.
_GPU_WORKER_BYTES = 6 * GIB
_CPU_WORKER_BYTES = 3 * GIB
_CORES_PER_WORKER = 4
_OWN = "ANYRIG_"
_MOST_WORKERS = 8


class Wish(NamedTuple):
    """A device somebody asked for, and where they said it."""

    word: str
    origin: Origin
    name: str = ""
    """What a saved device was called, to name it when it is gone."""
    place: str = ""
    """The variable or file that holds the word."""

    @property
    def is_foreign(self) -> bool:
        """Whether it stands in another tool's variable, which may be meant for that tool alone."""
        return self.origin == "environment" and bool(self.place) and not self.place.startswith(_OWN)


class Resolved(NamedTuple):
    """What a word means on a machine."""

    devices: tuple[Device, ...]
    """The devices that it names, best first; the CPU where it names nothing."""
    absent: str = ""
    """What is not there, as a sentence; empty where the word names something."""

    @property
    def warning(self) -> str:
        """What to tell of a fallback."""
        return f"{self.absent}; using the CPU" if self.absent else ""


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
        word = wish.word.strip().lower()
        if word == "auto":
            break
        if wish.origin == "saved" and _is_gone(machine, wish):
            gone = f"the saved device {wish.name or wish.word} is gone"
            if strict:
                hint = f"`anyrig use` saves another. {what_is_there(machine)}"
                raise DeviceNotFoundError(gone, hint=hint)
            warnings.append(f"{gone}; choosing anew")
            continue
        found = resolve(machine, wish, strict=strict)
        if word == "all" or kind_of(word):
            warnings += _unmatched(machine, strict)
        if found.absent:
            passed = _passed(machine, found.devices, evidence)
            told = (*warnings, found.warning)
            return Choice(found.devices, "fallback", found.absent, passed, told, wish.word)
        return _granted(machine, wish, found.devices, evidence, strict, tuple(warnings))
    warnings += _unmatched(machine, strict)
    return _best(machine, evidence, tuple(warnings))


def resolve(machine: Machine, wish: Wish, *, strict: bool = False) -> Resolved:
    """The devices that a word names, whether or not they can be used.

    Args:
        machine: the devices there are.
        wish: the word and who said it; neither `auto` nor empty.
        strict: a word that names nothing is always an error.

    Raises:
        DeviceNotFoundError: the word names one device that is not there.
        DeviceUnusableError: it names a kind that is not there, and `strict` is set.
    """
    try:
        return Resolved(match(machine, wish.word))
    except DeviceNotFoundError as error:
        kind = kind_of(wish.word)
        if kind:
            absent = f"there is no {KINDS[kind]}{_requested(wish)}"
            if strict:
                hint = f"{what_is_there(machine)} `anyrig doctor` says more."
                raise DeviceUnusableError(absent, hint=hint) from error
            return Resolved((machine.cpu_device,), absent)
        absent = f"{error.message}{_requested(wish)}"
        if wish.is_foreign and not strict:
            return Resolved((machine.cpu_device,), absent)
        raise DeviceNotFoundError(absent, hint=error.hint) from error


# -- decisions ----------------------------------------------------------------------------------


def _requested(wish: Wish) -> str:
    """Who asked, where a person could not tell."""
    if wish.origin in ("flag", "saved"):
        return ""
    return f", which {wish.place or wish.origin} asks for"


def _is_gone(machine: Machine, wish: Wish) -> bool:
    """Whether a saved device is not there any more."""
    if kind_of(wish.word):
        return False
    try:
        return not match(machine, wish.word)
    except DeviceNotFoundError:
        return True


def _unmatched(machine: Machine, strict: bool) -> list[str]:
    """Variables such as CUDA_VISIBLE_DEVICES that name devices which are not there."""
    told = [
        f"{one.variable} names {one.entry}, which is not there: ignored"
        for one in machine.unmatched
    ]
    if told and strict:
        raise DeviceNotFoundError(told[0].removesuffix(": ignored"), hint=what_is_there(machine))
    return told


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
    good = [d for d in found if d.kind == "cpu" or not _why_not(d, evidence)]
    if good:
        other_way = detour(good[0], wish.word)
        if other_way and strict:
            raise DeviceUnusableError(other_way, hint=good[0].why_not_fix or "Run `anyrig doctor`.")
        left = _passed(machine, good[:1], evidence)
        told = (*warnings, other_way) if other_way else warnings
        return Choice((good[0],), wish.origin, reason, left, told, wish.word)
    first = found[0]
    why = _why_not(first, evidence)
    fix = first.why_not_fix or "Run `anyrig doctor`."
    if strict:
        raise DeviceUnusableError(f"{first.name} cannot be used: {why}", hint=fix)
    warning = f"{first.name} cannot be used ({why}); using the CPU. {_as_sentence(fix)}"
    return Choice(
        (machine.cpu_device,),
        "fallback",
        f"{first.name} cannot be used: {why}",
        _passed(machine, (machine.cpu_device,), evidence),
        (*warnings, warning),
        wish.word,
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
        better = [d for d in unmeasured if best.kind == "cpu" or rank(d) > rank(best)]
        if not better:
            return Choice(
                (best,),
                "measured",
                _measured_reason(best, measured, evidence),
                _passed(machine, (best,), evidence, best),
                warnings,
            )
        fit = better
    best = ranked(fit)[0]
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


def explain(choice: Choice) -> str:
    """The choice in one sentence."""
    names = ", ".join(_short(d) if d.kind == "cpu" else d.name for d in choice.devices)
    return f"{names} ({choice.reason})"


def memory_text(device: Device) -> str:
    """`24 GiB, 22.9 free`, or what is known."""
    memory = device.memory
    if memory.total_bytes is None:
        return "memory unknown"
    text = format_bytes(memory.total_bytes)
    if memory.kind == "unified":
        text += " unified"
    if memory.free_bytes is not None:
        text += f", {format_bytes(memory.free_bytes)} free"
    return text
