"""Whether a device does a number format well, badly or not at all, through one of its drives.

Descriptions first; a measurement overrules them where a description is only about speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from anyrig.devices.amd import is_fnuz
from anyrig.devices.machine import Device, DeviceBackend, Precision
from anyrig.units import format_flops

State = Literal["good", "poor", "impossible"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16", "fp8")
BYTES: Mapping[Precision, int] = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
DIRECTML = "privateuseone"
_TF32_DRIVES = ("cuda", "xpu", "CUDAExecutionProvider", "TensorrtExecutionProvider")
# Times fp32's speed where nothing was measured: less than the least seen, so that a guess never
# beats a figure. Consumer parts gain little from tf32, data-centre parts eight times.
_TF32_GUESS = 1.5
_FP16_GUESS = {"matrix": 3.0, "fast": 1.7, "slow": 0.9, "none": 0.5, None: 1.0}
_BF16_CPU_GUESS = 1.5
_FP8_GUESS = 4.0


class Fitness(NamedTuple):
    """How a format fares on a device."""

    precision: Precision
    state: State
    """`poor` runs and is known or feared to be bad: never taken unasked."""
    why: str
    speed: float
    """Times fp32's: measured where both were, else guessed from the description."""
    measured: bool = False


def fitness(
    precision: Precision,
    device: Device,
    drive: DeviceBackend,
    *,
    training: bool,
    speeds: Mapping[Precision, float],
) -> Fitness:
    """How a format fares, with the figures that say so."""
    described = _described(precision, device, drive, training)
    ratio = _ratio(precision, speeds)
    if ratio is None or described.state == "impossible":
        return described
    figures = f"{format_flops(speeds[precision])} against {format_flops(speeds['fp32'])} in fp32"
    if precision != "fp32" and ratio <= 1.0:
        return Fitness(precision, "poor", f"measured no faster: {figures}", ratio, True)
    if described.state == "poor" and not _only_speed(precision, device, drive, training):
        return described._replace(speed=ratio, measured=True)
    why = f"measured {format_flops(speeds['fp32'])}"
    if precision != "fp32":
        why = f"measured {figures}, {_times(ratio)} as fast"
    return Fitness(precision, "good", why, ratio, True)


def _ratio(precision: Precision, speeds: Mapping[Precision, float]) -> float | None:
    mine, plain = speeds.get(precision), speeds.get("fp32")
    return mine / plain if mine and plain else None


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 10 else f"{ratio:.0f} times"


def _only_speed(precision: Precision, device: Device, drive: DeviceBackend, training: bool) -> bool:
    """Whether a poor description is about speed, so that a figure settles it."""
    if precision == "tf32":
        return drive.provider in _TF32_DRIVES and device.features.tf32 is None
    if precision == "fp8" and training:
        return False
    if precision == "fp16" and _broken_half(device):
        return False
    # A GPU without bf16 units rounds each product by hand; a lucky figure does not make it right.
    return not (precision == "bf16" and device.kind == "gpu" and device.features.bf16 is False)


def _broken_half(device: Device) -> bool:
    """Turing without tensor cores (GTX 16xx): quick in fp16, and its convolutions give NaN.

    ComfyUI and Stable Diffusion's web page both keep these cards out of fp16 by name.
    """
    return device.capability == "7.5" and device.features.fp16 == "fast"


def _described(
    precision: Precision, device: Device, drive: DeviceBackend, training: bool
) -> Fitness:
    if precision == "fp32":
        return Fitness("fp32", "good", "every device computes in it", 1.0)
    if drive.backend == "onnx":
        return _onnx(precision, device, drive)
    if drive.provider == DIRECTML:
        return _directml(precision, device, drive, training)
    return _torch(precision, device, drive, training)


def _torch(precision: Precision, device: Device, drive: DeviceBackend, training: bool) -> Fitness:
    if precision == "tf32":
        return _tf32(device, drive)
    if precision == "fp8":
        return _fp8(device, drive.provider == "cuda", training)
    if precision == "bf16":
        return _bf16(device)
    if device.kind == "cpu":
        why = "on a CPU torch computes fp16 no faster than fp32"
        return Fitness("fp16", "poor", why, 0.5)
    if drive.provider == "mps" and training:
        return Fitness("fp16", "poor", "training in fp16 on Metal is not proven", 1.0)
    return _fp16(device)


def _directml(
    precision: Precision, device: Device, drive: DeviceBackend, training: bool
) -> Fitness:
    if precision == "tf32":
        return _tf32(device, drive)
    if precision != "fp16":
        return Fitness(precision, "impossible", f"DirectML has no {precision}", 1.0)
    if training:
        why = "DirectML's autocast does nothing, and weights held in fp16 do not train"
        return Fitness("fp16", "impossible", why, 1.0)
    found = _fp16(device)
    return found._replace(why=f"{found.why}; the whole model is cast, DirectML has no autocast")


def _onnx(precision: Precision, device: Device, drive: DeviceBackend) -> Fitness:
    if precision == "tf32":
        return _tf32(device, drive)
    if precision == "fp8":
        return Fitness("fp8", "impossible", "ONNX Runtime runs no model in fp8", 1.0)
    if precision == "bf16":
        return Fitness("bf16", "poor", "few operators of ONNX Runtime take bf16", 1.0)
    if device.kind == "cpu":
        why = "ONNX Runtime casts fp16 to fp32 and back on a CPU"
        return Fitness("fp16", "poor", why, 0.5)
    return _fp16(device)


def _tf32(device: Device, drive: DeviceBackend) -> Fitness:
    if device.features.tf32 and drive.provider in _TF32_DRIVES:
        return Fitness("tf32", "good", "fp32 with products in matrix units", _TF32_GUESS)
    why = "no matrix units for it: it would be plain fp32"
    return Fitness("tf32", "poor", why, 1.0)


def _bf16(device: Device) -> Fitness:
    if device.features.bf16:
        guess = _BF16_CPU_GUESS if device.kind == "cpu" else _FP16_GUESS["matrix"]
        return Fitness("bf16", "good", "native, fp32's range", guess)
    if device.features.bf16 is None:
        return Fitness("bf16", "poor", "nobody could tell whether bf16 is native here", 1.0)
    return Fitness("bf16", "poor", "bf16 is only emulated here, slower than fp32", 0.5)


def _fp16(device: Device) -> Fitness:
    kind = device.features.fp16
    guess = _FP16_GUESS[kind]
    if kind == "matrix":
        return Fitness("fp16", "good", "has matrix units for it", guess)
    if _broken_half(device):
        why = "fp16 convolutions give NaN on this Turing part without tensor cores"
        return Fitness("fp16", "poor", why, guess)
    if kind == "fast":
        return Fitness("fp16", "good", "at least twice fp32's rate", guess)
    why = "fp16 is no faster than fp32 here" if kind == "slow" else "no fp16 arithmetic here"
    if kind is None:
        why = "nobody could tell how fast fp16 is here"
    return Fitness("fp16", "poor", why, guess)


def _fp8(device: Device, driven: bool, training: bool) -> Fitness:
    if not device.features.fp8 or not driven:
        return Fitness("fp8", "impossible", f"{device.name} has no fp8 through this backend", 1.0)
    if is_fnuz(device.capability):
        why = "its fp8 is the fnuz variant; models are cast to OCP's e4m3, which it cannot compute"
        return Fitness("fp8", "impossible", why, 1.0)
    if training:
        return Fitness("fp8", "poor", "fp8 is for trained models; training in it diverges", 1.0)
    return Fitness("fp8", "good", "native; three bits of mantissa", _FP8_GUESS)
