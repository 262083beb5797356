"""A number format put to work with torch: contexts, casts, backward and step behind one protocol.

The loop never asks whether mixed precision is on: full precision is one more object, and a scaler
that does not scale is one too. `make` gives the object for a format, a device and a purpose.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar, cast, get_args

import torch
from torch import nn

from anyrig.devices.machine import Precision, parse_precision
from anyrig.errors import InvalidSettingError
from anyrig.precision.dynamic import Dynamic, Moved, MoveSettings
from anyrig.precision.eighths import convert
from anyrig.precision.scaler import (
    LossScaler,
    Optimisers,
    PlainStep,
    ScalerSettings,
    StepOutcome,
)
from anyrig.precision.tf32 import set_tf32

T = TypeVar("T")
Agree = Callable[[torch.Tensor], object]
HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
# Whose autocast does something. DirectML's does nothing: its models are cast whole.
_AUTOCASTS = frozenset({"cuda", "xpu", "mps", "cpu"})
_HAS_TF32 = frozenset({"cuda", "xpu"})


class Applied(Protocol):
    """A number format at work."""

    @property
    def precision(self) -> Precision:
        """The format in use now."""

    def forward(self) -> AbstractContextManager[object]:
        """The context that the forward pass and the loss run in."""

    def cast(self, module: nn.Module) -> nn.Module:
        """The model with its weights as the format wants them, changed in place."""

    def prepare(self, inputs: T) -> T:
        """Inputs of any nesting with their floating tensors as the model wants them."""

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass, scaled where the format needs it."""

    def step(
        self,
        optimisers: Optimisers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Clip and step, or skip when gradients overflowed. The caller zeroes gradients after."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint kept."""

    def undo(self) -> None:
        """Put back whatever was set process-wide."""


class FullPrecision:
    """fp32, and the start of all others: no context, weights in fp32, no scaling.

    Args:
        device_type: torch's word: cuda, cpu, mps, xpu, privateuseone.
        stepper: how backward and step are done.
        tf32: whether products may be rounded to TF32. Where a device has it the flags are set here,
            since torch rounds convolutions by default.
    """

    precision: Precision = "fp32"

    def __init__(
        self,
        device_type: str = "cpu",
        stepper: PlainStep | LossScaler | None = None,
        *,
        tf32: bool = False,
    ) -> None:
        self._device_type = device_type
        self._stepper = stepper or PlainStep()
        self._undo: Callable[[], None] | None = None
        if device_type in _HAS_TF32:
            self._undo = set_tf32(tf32)

    def forward(self) -> AbstractContextManager[object]:
        """Nothing to set."""
        return contextlib.nullcontext()

    def cast(self, module: nn.Module) -> nn.Module:
        """Weights in fp32."""
        return module.float()

    def prepare(self, inputs: T) -> T:
        """Floating inputs in fp32."""
        return converted(inputs, torch.float32)

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass."""
        self._stepper.scaled(loss).backward()  # type: ignore[no-untyped-call]  # torch's own

    def step(
        self,
        optimisers: Optimisers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Clip and step."""
        return self._stepper.step(optimisers, parameters, max_norm)

    def state_dict(self) -> dict[str, Any]:
        """The scaler's state, where there is one."""
        return self._stepper.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the scaler's state."""
        self._stepper.load_state_dict(state)

    def undo(self) -> None:
        """Put the TF32 flags back as they were."""
        if self._undo is not None:
            self._undo()
            self._undo = None


class RoundedPrecision(FullPrecision):
    """tf32: fp32 whose products are rounded in matrix units."""

    precision: Precision = "tf32"

    def __init__(self, device_type: str = "cpu", stepper: PlainStep | None = None) -> None:
        super().__init__(device_type, stepper, tf32=True)


class Autocast16(FullPrecision):
    """fp16 or bf16 by autocast: weights stay in fp32, products are done in half."""

    def __init__(
        self, precision: Precision, device_type: str, stepper: PlainStep | LossScaler | None = None
    ) -> None:
        # TF32 is left as it is: it only touches what autocast leaves in fp32.
        self._device_type, self._stepper, self._undo = device_type, stepper or PlainStep(), None
        self.precision = precision

    def forward(self) -> AbstractContextManager[object]:
        """torch's autocast."""
        return torch.autocast(self._device_type, dtype=HALF[self.precision])

    def prepare(self, inputs: T) -> T:
        """As they are: autocast casts where it must."""
        return inputs


class WholeCast16(Autocast16):
    """fp16 or bf16 by casting the whole model, for inference and where autocast does nothing."""

    def forward(self) -> AbstractContextManager[object]:
        """Nothing to set."""
        return contextlib.nullcontext()

    def cast(self, module: nn.Module) -> nn.Module:
        """Weights in half."""
        return module.to(HALF[self.precision])

    def prepare(self, inputs: T) -> T:
        """Floating inputs in half."""
        return converted(inputs, HALF[self.precision])


class Eighths(WholeCast16):
    """fp8 for trained models: linear layers in e4m3, all else in bf16."""

    def __init__(self, device_type: str) -> None:
        super().__init__("bf16", device_type)
        self.precision = "fp8"

    def cast(self, module: nn.Module) -> nn.Module:
        """Linear layers in fp8, the rest in bf16."""
        return convert(module)

    def prepare(self, inputs: T) -> T:
        """Floating inputs in bf16."""
        return converted(inputs, torch.bfloat16)


def make(
    precision: Precision,
    device_type: str,
    *,
    training: bool = False,
    scaler: ScalerSettings | None = None,
    fallback: Precision | None = None,
    moving: MoveSettings | None = None,
    tell: Callable[[Moved], None] | None = None,
    guard: bool = False,
    keep_weights: bool = False,
    agree: Agree | None = None,
) -> Applied:
    """A number format at work.

    Args:
        precision: what `choose` chose.
        device_type: torch's word for the kind of device: cuda, cpu, mps, xpu, privateuseone.
        training: whether gradients will flow.
        scaler: how the loss is scaled in fp16.
        fallback: where fp16 training moves to when it keeps overflowing: bf16 where it is native,
            else fp32; None stays in fp16 and skips.
        moving: when it moves.
        tell: is told of the move.
        guard: skip steps with gradients that are not finite outside fp16 too, for one wait a step.
        keep_weights: in inference too, keep weights in fp32 and compute under autocast.
        agree: makes the answer whether gradients were bad the same in all processes.
    """
    named = parse_precision(precision)
    precision = cast("Precision", named if named in get_args(Precision) else precision)
    if precision not in get_args(Precision):
        raise InvalidSettingError(
            f"no number format is called {precision!r}",
            hint=f"There are: {', '.join(get_args(Precision))}.",
        )
    plain = PlainStep(guard=guard, agree=agree)
    if precision == "fp32":
        return FullPrecision(device_type, plain)
    if precision == "tf32":
        return RoundedPrecision(device_type, plain)
    if precision == "fp8":
        return _eighths(device_type, training)
    if not training and not (keep_weights and device_type in _AUTOCASTS):
        return WholeCast16(precision, device_type, plain)
    if device_type not in _AUTOCASTS:
        raise InvalidSettingError(
            f"{precision} cannot be trained in on {device_type}: its autocast does nothing",
            hint="Train in fp32 there.",
        )
    if precision == "bf16" or not training:
        return Autocast16(precision, device_type, plain)
    scaling = LossScaler(scaler, agree=agree)
    start = Autocast16("fp16", device_type, scaling)
    if fallback is None:
        return start
    if fallback not in ("bf16", "fp32", "tf32"):
        raise InvalidSettingError(
            f"fp16 cannot move to {fallback}", hint="Take bf16, tf32 or fp32."
        )
    return Dynamic(
        start,
        scaling,
        lambda: make(fallback, device_type, training=True, guard=guard, agree=agree),
        settings=moving,
        tell=tell,
    )


def _eighths(device_type: str, training: bool) -> Applied:
    if training:
        raise InvalidSettingError(
            "fp8 here is for trained models alone", hint="Train in bf16, then cast to fp8."
        )
    return Eighths(device_type)


def converted(value: T, dtype: torch.dtype) -> T:
    """The same nest of containers with its floating tensors in a format."""
    found: Any = value
    if isinstance(value, torch.Tensor):
        found = value.to(dtype) if value.is_floating_point() else value
    elif isinstance(value, Mapping):
        pairs = {key: converted(inner, dtype) for key, inner in value.items()}
        found = pairs if type(value) is dict else type(value)(pairs)  # type: ignore[call-arg]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        found = type(value)(*(converted(inner, dtype) for inner in value))
    elif isinstance(value, (list, tuple)):
        found = type(value)(converted(inner, dtype) for inner in value)
    answer: T = found
    return answer
