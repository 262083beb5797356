"""Which number format to work in: a pure function of device, figures and model, with its reason.

`allowed` is what the model bears, in its author's order of quality, best first. fp32 is the net
under everything: it holds every value of the others. Measured speed beats description; what the
user asks for beats both wherever the device can do it at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.fitness import BYTES, PRECISIONS, Fitness, fitness
from anyrig.precision.presets import Preset, Profile, preset

USUAL: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
"""What most models bear: weights published in fp32, trained or run in half by many."""
_NAMES: Mapping[str, Precision] = {
    "fp32": "fp32", "float32": "fp32", "float": "fp32", "full": "fp32", "32": "fp32",
    "tf32": "tf32", "tensorfloat32": "tf32",
    "fp16": "fp16", "float16": "fp16", "half": "fp16", "16": "fp16",
    "bf16": "bf16", "bfloat16": "bf16",
    "fp8": "fp8", "float8": "fp8",
}  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """The format to work in, and how it came to that."""

    precision: Precision
    reason: str
    warnings: tuple[str, ...] = ()
    passed_over: tuple[tuple[Precision, str], ...] = ()
    """Formats the model bears that were not taken, and why."""


def choose(
    device: Device,
    drive: DeviceBackend,
    allowed: Sequence[Precision] = USUAL,
    *,
    asked: str = "auto",
    profile: Profile = "balanced",
    speeds: Mapping[Precision, float] | None = None,
    failed: Mapping[Precision, str] | None = None,
    training: bool = False,
) -> Chosen:
    """The number format for a model on a device.

    Args:
        device: where the work will run.
        drive: through which backend.
        allowed: what the model bears, its author's best first.
        asked: a format by name, or `auto`.
        profile: what to prefer when nothing is asked for.
        speeds: measured FLOP/s by format, on this device through this backend.
        failed: formats that the self-test found wrong here, and what it saw.
        training: whether gradients will flow.
    """
    wanted = preset(profile)
    rest = {
        p: fitness(p, device, drive, training=training, speeds=speeds or {}) for p in PRECISIONS
    }
    for bad, seen in (failed or {}).items():
        if rest[bad].state != "impossible":
            rest[bad] = rest[bad]._replace(state="poor", why=f"the self-test failed: {seen}")
    name = parse(asked)
    if name is not None:
        return _asked(name, device, drive, allowed, rest, training)
    return _best(wanted, drive, allowed, rest, training)


def parse(word: str) -> Precision | None:
    """A format by any of its usual names; None for `auto`."""
    plain = word.strip().lower().removeprefix("torch.")
    if plain in ("auto", ""):
        return None
    if plain not in _NAMES:
        raise InvalidSettingError(
            f"no number format is called {word!r}",
            hint=f"There are: auto, {', '.join(PRECISIONS)}.",
        )
    return _NAMES[plain]


# -- what was asked for ---------------------------------------------------------------------------


def _asked(
    name: Precision,
    device: Device,
    drive: DeviceBackend,
    allowed: Sequence[Precision],
    rest: Mapping[Precision, Fitness],
    training: bool,
) -> Chosen:
    view = rest[name]
    if view.state == "impossible":
        able = [p for p in PRECISIONS if rest[p].state != "impossible"]
        raise InvalidSettingError(
            f"{name} cannot be used on {device.name}: {view.why}",
            hint=f"Use auto, or one of: {', '.join(able)}.",
        )
    if drive.backend == "onnx" and name not in allowed:
        return _as_the_file_is(name, allowed, rest)
    if name == "tf32" and view.state == "poor" and "self-test" not in view.why:
        warning = f"tf32 was asked for; {device.name} has {view.why}"
        return Chosen("fp32", "asked for as tf32, which is plain fp32 here", (warning,))
    warnings = []
    if view.state == "poor":
        warnings.append(f"{name} was asked for although {view.why}")
    if name not in allowed and name != "fp32":
        known = ", ".join(allowed) or "nothing"
        warnings.append(f"{name} was asked for although the model is known to bear only {known}")
    if training and name == "fp16":
        safer = ": bf16 is native here and needs no scaling" if _native_bf16(rest) else ""
        warnings.append(f"training in fp16 may overflow; the loss is scaled{safer}")
    return Chosen(name, "asked for", tuple(warnings))


def _as_the_file_is(
    name: Precision, allowed: Sequence[Precision], rest: Mapping[Precision, Fitness]
) -> Chosen:
    """ONNX Runtime computes as the file was written, whatever is asked for."""
    runs = next((p for p in allowed if rest[p].state == "good"), allowed[0] if allowed else "fp32")
    warning = f"{name} was asked for, and there is no {name} file of this model; it runs in {runs}"
    return Chosen(runs, f"the model's file is in {runs}", (warning,))


def _native_bf16(rest: Mapping[Precision, Fitness]) -> bool:
    return rest["bf16"].state == "good"


# -- what is best ---------------------------------------------------------------------------------


def _best(
    wanted: Preset,
    drive: DeviceBackend,
    allowed: Sequence[Precision],
    rest: Mapping[Precision, Fitness],
    training: bool,
) -> Chosen:
    passed: dict[Precision, str] = {}
    fit: list[Fitness] = []
    for name in dict.fromkeys(allowed):
        why = _why_not(rest, name, wanted, allowed, training)
        if why:
            passed[name] = why
        else:
            fit.append(rest[name])
    if not fit:
        return _net(drive, allowed, rest, passed)
    taken = _pick(wanted, fit)
    for view in fit:
        if view is not taken:
            passed[view.precision] = _beaten(view, taken, wanted)
    scaled = taken.precision == "fp16" and training and drive.backend == "torch"
    reason = _reason(taken, wanted, passed) + ("; the loss is scaled" if scaled else "")
    return Chosen(taken.precision, reason, (), tuple(passed.items()))


def _why_not(
    rest: Mapping[Precision, Fitness],
    name: Precision,
    wanted: Preset,
    allowed: Sequence[Precision],
    training: bool,
) -> str:
    """Why a format is out before any is compared; empty when it is not."""
    view = rest[name]
    if view.state != "good":
        return view.why
    if name == "tf32" and wanted.rule == "best":
        return "this profile computes whole fp32 products"
    if name == "fp8" and not wanted.fp8 and allowed[0] != "fp8":
        return "fp8 is taken by the profiles fast and low-memory, or by name"
    if name == "fp16" and training and _native_bf16(rest) and "bf16" in allowed:
        return "bf16 is native here and trains without loss scaling"
    return ""


def _pick(wanted: Preset, fit: Sequence[Fitness]) -> Fitness:
    if wanted.rule == "best":
        return fit[0]
    if wanted.rule == "smallest":
        return min(fit, key=lambda view: BYTES[view.precision])
    taken = fit[0]
    for view in fit[1:]:
        if view.speed >= wanted.gain * taken.speed:
            taken = view
    return taken


def _net(
    drive: DeviceBackend,
    allowed: Sequence[Precision],
    rest: Mapping[Precision, Fitness],
    passed: Mapping[Precision, str],
) -> Chosen:
    """Nothing that the model bears is good here: fp32 holds every value, where it can be had."""
    if drive.backend == "onnx" and allowed and "fp32" not in allowed:
        name = next((p for p in allowed if rest[p].state == "poor"), allowed[0])
        return Chosen(name, f"the model's file is in {name}", (f"{rest[name].why}",))
    why = "; ".join(dict.fromkeys(passed.values()))
    return Chosen("fp32", why or "the model names no format", (), tuple(passed.items()))


def _reason(taken: Fitness, wanted: Preset, passed: Mapping[Precision, str]) -> str:
    if wanted.rule == "best":
        return "the best the model has"
    if taken.precision == "fp32":
        others = dict.fromkeys(why for name, why in passed.items() if name != "tf32")
        return "; ".join(others) or "the model bears no other"
    text = taken.why if taken.measured else f"{taken.why} (described, not measured)"
    if wanted.rule == "smallest":
        size = BYTES[taken.precision]
        text = f"{size} {'byte' if size == 1 else 'bytes'} a value; {text}"
    return text


def _beaten(view: Fitness, taken: Fitness, wanted: Preset) -> str:
    if wanted.rule == "best":
        return f"the model's author ranks {taken.precision} higher"
    if wanted.rule == "smallest":
        return f"{BYTES[view.precision]} bytes a value"
    if view.measured and taken.measured and view.speed < taken.speed:
        return f"{taken.speed / view.speed:.1f} times slower than {taken.precision}"
    if view.speed < taken.speed:
        return f"described as slower than {taken.precision}"
    return f"not enough faster than {taken.precision}, which the model's author ranks higher"
