"""Choose the precision for a model on a device, and give the reason.

A model lists the formats it supports, in its author's order of quality, best first. fp32 is the
fallback: every device computes in it and it holds every value of the other formats. A measured
speed overrides the description of the hardware, and an explicit request overrides both wherever
the device can run the format at all. Nothing here imports a framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from anyrig.backends.precisions import list_precisions
from anyrig.devices.choose import select_backend
from anyrig.devices.machine import (
    Device,
    DeviceBackend,
    Library,
    Machine,
    Precision,
    parse_precision,
)
from anyrig.errors import InvalidSettingError
from anyrig.precision.profiles import PROFILES, Profile, ProfileName, get_profile
from anyrig.units import format_bytes, format_flops

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16", "fp8")
DEFAULT_PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
"""What most models support: weights published in fp32 that also run in a 16-bit format."""
BYTES_PER_VALUE: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
_TF32_PROVIDERS = ("cuda", "xpu", "CUDAExecutionProvider", "TensorrtExecutionProvider")
# Assumed speed relative to fp32 where nothing was measured: below the lowest figure seen, so that
# an assumption never beats a measurement. TF32 gains little on consumer cards, eightfold on
# data-centre cards.
_TF32_SPEED = 1.5
_FP16_SPEED = {"matrix": 3.0, "fast": 1.7, "slow": 0.9, "none": 0.5, None: 1.0}
_BF16_CPU_SPEED = 1.5

SupportLevel = Literal["good", "slow", "unreliable", "no effect", "unsupported"]
"""Only `good` is chosen automatically. `slow` is a matter of speed alone, or unknown: a measurement
decides. `unreliable` runs with results that are wrong or not proven, and `no effect` computes as
fp32: no measurement changes that. `unsupported` cannot run."""


_FP16_RATES: Mapping[str | None, tuple[SupportLevel, str]] = {
    "matrix": ("good", "fp16 matrix units"),
    "fast": ("good", "fp16 runs at twice the fp32 rate or more"),
    "slow": ("slow", "fp16 is no faster than fp32 here"),
    "none": ("slow", "there is no fp16 arithmetic here"),
    None: ("slow", "the speed of fp16 is unknown here"),
}


class FormatSupport(NamedTuple):
    """How well a device runs a precision through one backend."""

    precision: Precision
    level: SupportLevel
    reason: str
    speed: float = 1.0
    """Relative to fp32: measured where both formats were, else assumed from the description."""
    measured: bool = False


@dataclass(frozen=True)
class PrecisionChoice:
    precision: Precision
    reason: str
    warnings: tuple[str, ...] = ()


def choose_precision(
    device: Device,
    backend: DeviceBackend,
    supported: Sequence[Precision] = DEFAULT_PRECISIONS,
    *,
    requested: str = "auto",
    profile: ProfileName = "balanced",
    speeds: Mapping[Precision, float] | None = None,
    failed: Mapping[Precision, str] | None = None,
    training: bool = False,
) -> PrecisionChoice:
    """Choose the precision for a model on a device.

    Args:
        supported: formats that the model supports, its author's best first.
        requested: a format by name, or `auto`.
        profile: what to prefer when no format is requested.
        speeds: measured FLOP/s by format, on this device through this backend.
        failed: formats that failed the self-test here, and what it found.
    """
    rules, name = get_profile(profile), resolve_precision(requested)
    support = {
        precision: check_format(precision, device, backend, training=training, speeds=speeds or {})
        for precision in PRECISIONS
    }
    for precision, finding in (failed or {}).items():
        if support[precision].level != "unsupported":
            reason = f"{precision} failed the self-test: {finding}"
            support[precision] = support[precision]._replace(level="unreliable", reason=reason)
    chooser = _PrecisionChooser(device, backend, supported, support, training)
    return chooser.choose_best(rules) if name is None else chooser.choose_requested(name)


def resolve_precision(text: str) -> Precision | None:
    """Parse the name of a format, such as `fp16`, `half` or `torch.float16`; None for `auto`."""
    name = parse_precision(text.strip() or "auto")
    if name == "auto":
        return None
    if name not in PRECISIONS:
        raise InvalidSettingError(
            f"unknown precision {text!r}",
            hint=f"Available: auto, {', '.join(PRECISIONS)}.",
        )
    return name


@dataclass(frozen=True)
class _PrecisionChooser:
    device: Device
    backend: DeviceBackend
    supported: Sequence[Precision]
    support: Mapping[Precision, FormatSupport]
    training: bool

    def choose_requested(self, name: Precision) -> PrecisionChoice:
        found, supported, device = self.support[name], self.supported, self.device
        if found.level == "unsupported":
            able = [p for p in PRECISIONS if self.support[p].level != "unsupported"]
            raise InvalidSettingError(
                f"{name} cannot be used on {device.name}: {found.reason}",
                hint=f"Use auto, or one of: {', '.join(able)}.",
            )
        if self.backend.library == "onnx" and name not in supported:
            # ONNX Runtime computes in the format that the file was written in.
            runs = next((p for p in supported if self.support[p].level == "good"), None)
            runs = runs or (supported[0] if supported else "fp32")
            warning = f"{name} was requested, but the model has no {name} file; it runs in {runs}"
            return PrecisionChoice(runs, f"the model's file is in {runs}", (warning,))
        if name == "tf32" and found.level in ("slow", "no effect"):
            warning = f"tf32 was requested, but fp32 is used on {device.name}: {found.reason}"
            reason = "requested as tf32, which gains nothing here"
            return PrecisionChoice("fp32", reason, (warning,))
        warnings = []
        if found.level != "good":
            warnings.append(f"using {name} as requested; {found.reason}")
        if name not in supported and name != "fp32":
            known = ", ".join(supported) or "no format"
            warnings.append(f"using {name} as requested; the model is known to support {known}")
        if self.training and name == "fp16":
            native = self.support["bf16"].level == "good"
            safer = "; bf16 is native here and needs no scaling" if native else ""
            warnings.append(f"training in fp16 may overflow, so the loss is scaled{safer}")
        return PrecisionChoice(name, "requested", tuple(warnings))

    def choose_best(self, profile: Profile) -> PrecisionChoice:
        names = dict.fromkeys(self.supported)
        reasons = {name: self._exclusion_reason(name, profile) for name in names}
        candidates = [self.support[name] for name in names if not reasons[name]]
        excluded = {name: reason for name, reason in reasons.items() if reason}
        if not candidates:
            return self._fall_back(excluded)
        best = candidates[0]
        if profile.rule == "smallest":
            best = min(candidates, key=lambda one: BYTES_PER_VALUE[one.precision])
        elif profile.rule == "fastest":
            for other in candidates[1:]:
                if other.speed >= profile.min_speedup * best.speed:
                    best = other
        reason = _choice_reason(best, candidates, profile, excluded)
        if best.precision == "fp16" and self.training and self.backend.library == "torch":
            reason += "; the loss is scaled"
        return PrecisionChoice(best.precision, reason)

    def _exclusion_reason(self, name: Precision, profile: Profile) -> str:
        """Why a format is out before speeds are compared; empty if it is not."""
        if self.support[name].level != "good":
            return self.support[name].reason
        if name == "tf32" and profile.rule == "best":
            return "this profile does not round fp32 products"
        if name == "fp16" and self.training and self.device.kind == "cpu":
            return "fp16 is not trained in on a CPU"  # a measured product says nothing of a step
        native = self.support["bf16"].level == "good" and "bf16" in self.supported
        if name == "fp16" and self.training and native:
            return "bf16 is native here and trains without loss scaling"
        return ""

    def _fall_back(self, excluded: Mapping[Precision, str]) -> PrecisionChoice:
        """No supported format runs well here: use fp32, or for ONNX Runtime the file's format."""
        supported = self.supported
        if self.backend.library == "onnx" and supported and "fp32" not in supported:
            able = (p for p in supported if self.support[p].level != "unsupported")
            name = next(able, supported[0])
            warning = self.support[name].reason
            return PrecisionChoice(name, f"the model's file is in {name}", (warning,))
        reason = "; ".join(dict.fromkeys(excluded.values())) or "the model lists no format"
        return PrecisionChoice("fp32", reason)


def _choice_reason(
    best: FormatSupport,
    candidates: Sequence[FormatSupport],
    profile: Profile,
    excluded: Mapping[Precision, str],
) -> str:
    if profile.rule == "best":
        return "ranked first by the model's author"
    if best.precision == "fp32":
        others = [reason for name, reason in excluded.items() if name != "tf32"]
        others += [
            f"{one.precision} is not enough faster than fp32, which the model's author ranks higher"
            for one in candidates
            if one.precision not in ("fp32", "tf32")
        ]
        return "; ".join(dict.fromkeys(others)) or "the only format that the model supports"
    reason = best.reason if best.measured else f"{best.reason} (not measured)"
    if profile.rule == "smallest":
        size = BYTES_PER_VALUE[best.precision]
        return f"{size} {'byte' if size == 1 else 'bytes'} per value; {reason}"
    return reason


# -- what a device supports ------------------------------------------------------------------------


def check_format(
    precision: Precision,
    device: Device,
    backend: DeviceBackend,
    *,
    training: bool,
    speeds: Mapping[Precision, float],
) -> FormatSupport:
    """How well a device runs a format: by its description, and by measured FLOP/s where given."""
    described = _describe(precision, device, backend, training)
    speed, base = speeds.get(precision), speeds.get("fp32")
    if not speed or not base or described.level == "unsupported":
        return described
    ratio = speed / base
    if precision == "fp32":
        return FormatSupport("fp32", "good", f"measured {format_flops(base)}", ratio, True)
    if ratio <= 1.0:
        reason = (
            f"{precision} was measured no faster than fp32: "
            f"{format_flops(speed)} against {format_flops(base)}"
        )
        return FormatSupport(precision, "slow", reason, ratio, True)
    if described.level in ("unreliable", "no effect"):
        return described._replace(speed=ratio, measured=True)
    times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
    reason = f"measured {format_flops(speed)}, {times} times as fast as fp32 ({format_flops(base)})"
    return FormatSupport(precision, "good", reason, ratio, True)


def _describe(
    precision: Precision, device: Device, backend: DeviceBackend, training: bool
) -> FormatSupport:
    if precision == "fp32":
        return FormatSupport("fp32", "good", "every device computes in fp32")
    if precision == "tf32":
        return _describe_tf32(device, backend)
    if precision == "bf16":
        return _describe_bf16(device, backend)
    if precision == "fp16":
        return _describe_fp16(device, backend, training)
    return _describe_fp8(device, backend, training)


def _describe_tf32(device: Device, backend: DeviceBackend) -> FormatSupport:
    if backend.provider in _TF32_PROVIDERS:
        if device.features.tf32:
            reason = "TF32 matrix units multiply fp32 values"
            return FormatSupport("tf32", "good", reason, _TF32_SPEED)
        if device.features.tf32 is None:
            reason = "it is unknown whether the device has TF32 matrix units"
            return FormatSupport("tf32", "slow", reason)
    return FormatSupport("tf32", "no effect", "without TF32 matrix units it is the same as fp32")


def _describe_bf16(device: Device, backend: DeviceBackend) -> FormatSupport:
    native = device.features.bf16
    if native is False:
        # A GPU without bf16 units rounds every product in software: fast does not mean right.
        level: SupportLevel = "unreliable" if device.kind == "gpu" else "slow"
        return FormatSupport("bf16", level, "bf16 is emulated here and slower than fp32", 0.5)
    if backend.library == "onnx":
        return FormatSupport("bf16", "slow", "few ONNX Runtime operators support bf16")
    if native is None:
        return FormatSupport("bf16", "slow", "it is unknown whether bf16 is native here")
    speed = _BF16_CPU_SPEED if device.kind == "cpu" else _FP16_SPEED["matrix"]
    return FormatSupport("bf16", "good", "bf16 is native here", speed)


def _describe_fp16(device: Device, backend: DeviceBackend, training: bool) -> FormatSupport:
    if device.kind == "cpu":
        reason = "torch computes fp16 no faster than fp32 on a CPU"
        if training:
            reason = "a CPU trains far slower in fp16 than in fp32: use bf16 or fp32"
        if backend.library == "onnx":
            reason = "ONNX Runtime casts fp16 to fp32 and back on a CPU"
        return FormatSupport("fp16", "slow", reason, 0.5)
    if backend.provider == "mps" and training:
        return FormatSupport("fp16", "slow", "training in fp16 on Metal is not proven")
    rate = device.features.fp16
    level, reason = _FP16_RATES[rate]
    if rate == "fast" and device.capability == "7.5":
        # Turing without tensor cores (GTX 16xx). ComfyUI and Stable Diffusion's web UI exclude
        # these cards from fp16 by name.
        level = "unreliable"
        reason = "fp16 convolutions return NaN on Turing GPUs without tensor cores"
    return FormatSupport("fp16", level, reason, _FP16_SPEED[rate])


def _describe_fp8(device: Device, backend: DeviceBackend, training: bool) -> FormatSupport:
    if not training or backend.library == "onnx":
        return FormatSupport("fp8", "unsupported", "only training with torch computes in fp8")
    if "fp8" not in list_precisions(device, backend):
        reason = f"{device.name} does not support fp8 through torch"
        if device.features.fnuz:
            reason = "it has the fnuz variant of fp8, and models are cast to OCP e4m3"
        return FormatSupport("fp8", "unsupported", reason)
    return FormatSupport("fp8", "unreliable", "training in fp8 may diverge")


# -- what every profile chooses --------------------------------------------------------------------

PROFILE_COLUMNS = ("device", "profile", "format", "memory", "batch", "reason")


def profile_table(
    machine: Machine,
    *,
    supported: Sequence[Precision] = DEFAULT_PRECISIONS,
    speeds: Mapping[str, Mapping[tuple[Library, Precision], float]] | None = None,
    failed: Mapping[str, Mapping[Precision, str]] | None = None,
    training: bool = False,
) -> list[tuple[str, ...]]:
    """What every profile chooses on every usable device, as rows of text under PROFILE_COLUMNS.

    Args:
        supported: formats that the model supports, its author's best first.
        speeds: measured FLOP/s by device id, then by backend and format.
        failed: formats that failed the self-test, by device id.
    """
    rows: list[tuple[str, ...]] = []
    for device in machine.devices:
        backend = select_backend(device)
        if backend is None or device.hardware_block:
            continue
        measured = {
            precision: speed
            for (library, precision), speed in (speeds or {}).get(device.id, {}).items()
            if library == backend.library
        }
        for name, profile in PROFILES.items():
            choice = choose_precision(
                device, backend, supported, profile=name, speeds=measured,
                failed=(failed or {}).get(device.id), training=training,
            )  # fmt: skip
            share, total = profile.memory_share(device), device.memory.total_bytes
            memory = f"{share:.0%}"
            if total is not None:
                memory += f", {format_bytes(int(total * share))}"
            speed = profile.batch_speed
            batch = "fastest" if speed >= 1 else f"{speed:.0%} of speed"
            title = f"{device.name} ({backend.library})"
            rows.append((title, name, choice.precision, memory, batch, choice.reason))
    return rows
