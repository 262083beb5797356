"""Run a model in a precision with torch: autocast, casts, backward and optimizer step.

`make_policy` returns one object with the same methods for every format, so that a training or
inference loop never asks which format it runs in.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from anyrig.backends.torch import DTYPES, set_tf32
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.precision.choose import resolve_precision
from anyrig.precision.scaler import (
    LossScaler,
    NoOpScaler,
    Optimizers,
    StepOutcome,
    SyncFlag,
)
from anyrig.precision.settings import FallbackSettings, ScalerSettings

log = logging.getLogger(__name__)
T = TypeVar("T")
# DirectML is missing: its autocast does nothing, so models are cast whole.
_AUTOCAST_DEVICES = frozenset({"cuda", "xpu", "mps", "cpu"})
_TF32_DEVICES = frozenset({"cuda", "xpu"})


class PrecisionPolicy:
    """How a model runs in one precision.

    Args:
        precision: the name of the format.
        device_type: torch's name: cuda, cpu, mps, xpu, privateuseone.
        scaler: how backward and step are done.
        autocast_dtype: of torch's autocast; None runs without it.
        weight_dtype: what `cast_model` casts to; None leaves weights as they are.
        input_dtype: what `cast_inputs` casts floating tensors to; None leaves them as they are.
        tf32: whether fp32 products may be rounded to TF32, where the device can; None leaves the
            process's setting.
    """

    def __init__(
        self,
        precision: Precision,
        device_type: str,
        scaler: NoOpScaler | LossScaler | None = None,
        *,
        autocast_dtype: torch.dtype | None = None,
        weight_dtype: torch.dtype | None = torch.float32,
        input_dtype: torch.dtype | None = None,
        tf32: bool | None = None,
    ) -> None:
        self.precision = precision
        self._device_type = device_type
        self._scaler = scaler or NoOpScaler()
        self.autocast_dtype = autocast_dtype
        self._weight_dtype, self._input_dtype = weight_dtype, input_dtype
        self._restore_tf32: Callable[[], None] | None = None
        if tf32 is not None and device_type in _TF32_DEVICES:
            self._restore_tf32 = set_tf32(tf32)

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which the forward pass and the loss run."""
        if self.autocast_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self._device_type, dtype=self.autocast_dtype)

    def cast_model(self, model: nn.Module) -> nn.Module:
        """Cast the model's weights in place."""
        if self._weight_dtype is None:
            return model
        if self._weight_dtype == torch.float32:
            return model.float()  # leaves complex weights alone
        return model.to(self._weight_dtype)

    def cast_inputs(self, inputs: T) -> T:
        """Cast the floating tensors in nested containers."""
        return inputs if self._input_dtype is None else cast_tensors(inputs, self._input_dtype)

    def backward(self, loss: torch.Tensor) -> None:
        """Run the backward pass, with a scaled loss where the format needs it."""
        self._scaler.scale_loss(loss).backward()  # type: ignore[no-untyped-call]  # torch's own

    def step(
        self,
        optimizers: Optimizers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Clip and step, or skip the step if gradients overflowed; the caller zeroes gradients."""
        return self._scaler.step(optimizers, parameters, max_norm)

    def state_dict(self) -> dict[str, Any]:
        return self._scaler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._scaler.load_state_dict(state)

    def restore(self) -> None:
        """Undo what was set for the whole process."""
        if self._restore_tf32 is not None:
            self._restore_tf32()
            self._restore_tf32 = None


def make_policy(
    precision: Precision,
    device_type: str,
    *,
    training: bool = False,
    scaler: ScalerSettings | None = None,
    fallback: Precision | None = None,
    fallback_settings: FallbackSettings | None = None,
    on_fallback: Callable[[FallbackEvent], None] | None = None,
    skip_nonfinite: bool = False,
    sync_flag: SyncFlag | None = None,
) -> PrecisionPolicy:
    """Make the policy for a precision.

    Args:
        precision: fp32, tf32, bf16 or fp16; other spellings (`half`) are accepted, and `auto`
            is fp32.
        device_type: torch's name: cuda, cpu, mps, xpu, privateuseone.
        training: whether gradients are needed; for inference 16-bit models are cast whole.
        scaler: settings of the loss scaler; only training in fp16 has one.
        fallback: the format to switch to when fp16 keeps overflowing; None stays in fp16.
        fallback_settings: when to switch.
        on_fallback: called when training has switched.
        skip_nonfinite: skip steps whose gradients are not finite in formats that are not scaled
            too, at the price of one synchronisation per step.
        sync_flag: for gradients that differ between processes; see `LossScaler`.
    """
    precision = resolve_precision(str(precision)) or "fp32"  # a torch.dtype will do, too
    unscaled = NoOpScaler(skip_nonfinite=skip_nonfinite, sync_flag=sync_flag)
    if precision in ("fp32", "tf32"):
        return PrecisionPolicy(
            precision, device_type, unscaled, input_dtype=torch.float32, tf32=precision == "tf32"
        )
    if precision == "fp8":
        raise InvalidSettingError(
            "fp8 is available in `anyrig train` and its Trainer only", hint="Use bf16."
        )
    dtype = DTYPES[precision]
    if not training:
        return PrecisionPolicy(
            precision, device_type, unscaled, weight_dtype=dtype, input_dtype=dtype
        )
    if device_type not in _AUTOCAST_DEVICES:
        raise InvalidSettingError(
            f"cannot train in {precision} on {device_type}: autocast has no effect there",
            hint="Train in fp32.",
        )
    if precision == "bf16":
        return PrecisionPolicy("bf16", device_type, unscaled, autocast_dtype=dtype)
    loss_scaler = LossScaler(scaler, sync_flag=sync_flag)
    if fallback is None:
        return PrecisionPolicy("fp16", device_type, loss_scaler, autocast_dtype=dtype)
    if fallback not in ("bf16", "fp32", "tf32"):
        raise InvalidSettingError(
            f"cannot fall back from fp16 to {fallback}", hint="Use bf16, tf32 or fp32."
        )
    return DynamicPrecision(
        device_type,
        loss_scaler,
        lambda: make_policy(
            fallback, device_type, training=True,
            skip_nonfinite=skip_nonfinite, sync_flag=sync_flag,
        ),
        settings=fallback_settings,
        on_fallback=on_fallback,
    )  # fmt: skip


def cast_tensors(value: T, dtype: torch.dtype) -> T:
    """The same nested containers with their floating tensors cast."""
    result: Any = value
    if isinstance(value, torch.Tensor):
        result = value.to(dtype) if value.is_floating_point() else value
    elif isinstance(value, Mapping):
        pairs = {key: cast_tensors(inner, dtype) for key, inner in value.items()}
        result = pairs if type(value) is dict else type(value)(pairs)  # type: ignore[call-arg]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        result = type(value)(*(cast_tensors(inner, dtype) for inner in value))
    elif isinstance(value, (list, tuple)):
        result = type(value)(cast_tensors(inner, dtype) for inner in value)
    answer: T = result
    return answer


# -- giving up fp16 --------------------------------------------------------------------------------
# Weights and optimizer state are fp32 under autocast, so the switch to another precision changes
# only the dtype of the forward pass and whether the loss is scaled.


class FallbackEvent(NamedTuple):
    """Training switched to another format."""

    step: int
    """Steps attempted before it."""
    before: Precision
    after: Precision
    reason: str


class DynamicPrecision(PrecisionPolicy):
    """fp16 that switches once to another format if it keeps overflowing.

    Args:
        make_fallback: makes the policy to switch to.
        on_fallback: called with the event, which is logged too.
    """

    def __init__(
        self,
        device_type: str,
        scaler: LossScaler,
        make_fallback: Callable[[], PrecisionPolicy],
        *,
        settings: FallbackSettings | None = None,
        on_fallback: Callable[[FallbackEvent], None] | None = None,
    ) -> None:
        super().__init__("fp16", device_type, scaler, autocast_dtype=torch.float16)
        self._make_fallback = make_fallback
        self._on_fallback = on_fallback
        self._settings = settings or FallbackSettings()
        self._floor = scaler.settings.floor
        self._num_steps = 0
        self._recent: deque[bool] = deque(maxlen=self._settings.window)
        """Whether each of the recent steps was skipped."""
        self._num_at_floor = 0
        """Steps in a row that were skipped at the lowest scale."""
        self.fallback: FallbackEvent | None = None

    def step(
        self,
        optimizers: Optimizers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        outcome = super().step(optimizers, parameters, max_norm)
        self._num_steps += 1
        if self.fallback is None:
            self._recent.append(outcome.skipped)
            at_floor = outcome.skipped and outcome.scale <= self._floor
            self._num_at_floor = self._num_at_floor + 1 if at_floor else 0
            reason = self._find_reason()
            if reason:
                self._switch()
                self.fallback = FallbackEvent(self._num_steps, "fp16", self.precision, reason)
                log.warning("%s: training continues in %s", reason, self.precision)
                if self._on_fallback is not None:
                    self._on_fallback(self.fallback)
        return outcome

    def _find_reason(self) -> str:
        """Why fp16 is given up now; empty if it is not."""
        if self._num_at_floor >= self._settings.at_floor:
            count, floor = self._num_at_floor, f"{self._floor:g}"
            return f"{count} steps in a row overflowed at the lowest loss scale, {floor}"
        num_skipped = sum(self._recent)
        if num_skipped >= self._settings.max_skipped:
            return f"{num_skipped} of the last {len(self._recent)} steps overflowed"
        return ""

    def _switch(self) -> None:
        self.restore()
        vars(self).update(vars(self._make_fallback()))  # format, dtypes and scaler

    def state_dict(self) -> dict[str, Any]:
        return {
            "precision": self.precision,
            "steps": self._num_steps,
            "recent": list(self._recent),
            "floored": self._num_at_floor,
            "moved": list(self.fallback) if self.fallback else None,
            "inner": super().state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint's state; a run that gave up fp16 does not return to it.

        The state may also be that of a plain scaler, or of a run that did not scale.
        """
        if "inner" not in state and "moved" not in state:
            super().load_state_dict(state)
            return
        try:
            fallback = FallbackEvent(*state["moved"]) if state["moved"] else None
            recent = [bool(value) for value in state["recent"]]
            steps, at_floor, inner = int(state["steps"]), int(state["floored"]), state["inner"]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the checkpoint's precision state is invalid: {error!r}",
                hint="Use an earlier checkpoint, or leave the precision state out.",
            ) from error
        if fallback is not None and self.fallback is None:
            self._switch()
            log.info("continuing in %s, as before the checkpoint", self.precision)
        super().load_state_dict(inner)
        self.fallback, self._num_steps, self._num_at_floor = fallback, steps, at_floor
        self._recent = deque(recent, maxlen=self._settings.window)
