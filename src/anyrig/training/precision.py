"""Training in bf16 and fp8.

In bf16 products are computed in it under autocast, and weights stay fp32. The states that a
model's blocks add to (the residual stream) are fp32 too, since embeddings give fp32; `half_states`
lets embeddings give bf16, which saves a third of the memory traffic beside the products.

In fp8 the products of large linear layers run in it, forward and backward, with scales measured as
they come. Everything else is bf16 under autocast, and weights and what is learnt stay fp32.

Forward products take e4m3, gradients e5m2, which reaches further. A layer gains where its sides are
large: below some 2,048 the casts cost more than the products save, so it stays in bf16.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.devices.machine import Precision
from anyrig.precision.policy import PrecisionPolicy, make_policy
from anyrig.precision.scaler import NoOpScaler

_E4M3, _E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
_MULTIPLE = 16
_LEAST_SIDE = 2048
"""Of a layer's smaller side; measured on an H200: at 768 fp8 was 3 % slower than bf16."""


class Fp8Policy(PrecisionPolicy):
    """bf16 by autocast with the large linear layers in fp8."""

    def __init__(self, device_type: str, scaler: NoOpScaler | None = None) -> None:
        super().__init__("fp8", device_type, scaler, autocast_dtype=torch.bfloat16)
        self._changed: list[nn.Linear] = []

    def cast_model(self, model: nn.Module) -> nn.Module:
        """Large linear layers compute in fp8; weights stay as they are."""
        self._changed = convert_to_fp8(model)
        return model

    def restore(self) -> None:
        """Linear layers as they were."""
        for layer in self._changed:
            layer.__class__ = nn.Linear
        self._changed = []
        super().restore()


def build_policy(
    model: nn.Module, precision: Precision, device_type: str, **options: Any
) -> PrecisionPolicy:
    """The policy of a precision for a model; options are those of `make_policy`.

    Weights keep their format: a model in fp64 or bf16 computes in it, and one with frozen weights
    in half precision under autocast.
    """
    scaler = NoOpScaler(
        skip_nonfinite=options.get("skip_nonfinite", False), sync_flag=options.get("sync_flag")
    )
    kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
    if torch.float64 in kinds:
        return PrecisionPolicy(
            "fp32", device_type, scaler, weight_dtype=None, input_dtype=torch.float64, tf32=False
        )
    if precision == "fp8":
        return Fp8Policy(device_type, scaler)
    half = kinds & {torch.bfloat16, torch.float16}
    if half and precision not in ("fp16", "bf16"):
        alone = kinds == {torch.bfloat16}
        return PrecisionPolicy(
            "bf16", device_type, scaler, weight_dtype=None,
            autocast_dtype=None if alone else torch.bfloat16,
            input_dtype=torch.bfloat16 if alone else None,
        )  # fmt: skip
    return make_policy(precision, device_type, training=True, **options)


@contextlib.contextmanager
def half_states(model: nn.Module) -> Iterator[None]:
    """Embeddings give bf16 under autocast while this lasts, so that the states after them are in
    it; layers whose results autocast keeps in fp32, such as norms, stay as they are.
    """

    def cast(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        in_fp32 = output.dtype == torch.float32
        return (
            output.bfloat16()
            if in_fp32 and torch.is_autocast_enabled(output.device.type)
            else output
        )

    handles = [
        module.register_forward_hook(cast)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class GradientChange(NamedTuple):
    """What another way of computing changes in a batch's loss and gradients."""

    loss: float
    """Relative."""
    cosine: float
    """Of all gradients before and after, as one vector."""

    @property
    def is_small(self) -> bool:
        """Whether training goes the same way: bf16 alone moves the gradients as much."""
        return self.loss <= 0.005 and self.cosine >= 0.99


def compare_gradients(
    model: nn.Module,
    compute: Callable[[], torch.Tensor],
    changed: Callable[[], contextlib.AbstractContextManager[object]],
) -> GradientChange:
    """Loss and gradients of a batch as it is, and in another way of computing.

    Args:
        model: whose gradients are compared; they are dropped afterwards.
        compute: runs forward and backward of a batch and returns its loss, the same in each call.
        changed: the other way, as a context.
    """

    def run() -> float:
        model.zero_grad(set_to_none=True)
        return float(compute())

    try:
        before = run()
        first = {
            one: one.grad.detach().clone() for one in model.parameters() if one.grad is not None
        }
        with changed():
            after = run()
        dot, size, other = (torch.zeros((), dtype=torch.float64) for _ in range(3))
        for parameter, gradient in first.items():
            if parameter.grad is not None:
                one, two = gradient.float().flatten(), parameter.grad.float().flatten()
                dot += (one @ two).double().cpu()
                size += (one @ one).double().cpu()
                other += (two @ two).double().cpu()
    finally:
        model.zero_grad(set_to_none=True)
    cosine = float(dot / (size * other).sqrt()) if size and other else 0.0
    return GradientChange(abs(after - before) / max(abs(before), 1e-12), cosine)


@contextlib.contextmanager
def trainable_in_fp32(model: nn.Module) -> Iterator[int]:
    """Trained fp16 weights in fp32 while this lasts, since updates would be lost in fp16; how many.

    All other weights keep their format: bf16, and whatever is frozen.
    """
    changed = [
        one for one in model.parameters() if one.requires_grad and one.dtype == torch.float16
    ]
    for one in changed:
        one.data = one.data.float()
    try:
        yield len(changed)
    finally:
        for one in changed:
            one.data = one.data.half()
            one.grad = None


class Fp8Linear(nn.Linear):
    """A linear layer that computes in fp8; its weights are what they were."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The layer's product, in bf16."""
        function: Any = _Fp8Product
        flat = inputs.reshape(-1, self.in_features).to(torch.bfloat16)
        if flat.shape[0] % _MULTIPLE:
            return nn.functional.linear(inputs, self.weight, self.bias)
        result = function.apply(flat, self.weight)
        if self.bias is not None:
            result = result + self.bias.to(result.dtype)
        found: torch.Tensor = result.reshape(*inputs.shape[:-1], self.out_features)
        return found


def convert_to_fp8(model: nn.Module, least: int = _LEAST_SIDE) -> list[nn.Linear]:
    """Let a model's large linear layers compute in fp8, in place; which ones.

    Args:
        model: to be trained.
        least: the smaller side of a layer that gains from it.
    """
    found = [
        module
        for module in model.modules()
        if type(module) is nn.Linear
        and min(module.in_features, module.out_features) >= least
        and not (module.in_features % _MULTIPLE or module.out_features % _MULTIPLE)
    ]
    for module in found:
        module.__class__ = Fp8Linear
    return found


class _Fp8Product(torch.autograd.Function):
    """inputs @ weight.T in e4m3; gradients in e5m2."""

    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        narrow, of_inputs = _to_fp8(inputs, _E4M3)
        rows, of_weight = _to_fp8(weight, _E4M3)
        ctx.save_for_backward(narrow, of_inputs, rows, of_weight)
        ctx.kinds = (inputs.dtype, weight.dtype)
        return _multiply_fp8(narrow, rows, of_inputs, of_weight, fast=True)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        narrow, of_inputs, rows, of_weight = ctx.saved_tensors
        gradient, of_gradient = _to_fp8(gradients[0], _E5M2)
        first = second = None
        if ctx.needs_input_grad[0]:
            transposed = rows.t().contiguous()
            first = _multiply_fp8(gradient, transposed, of_gradient, of_weight).to(ctx.kinds[0])
        if ctx.needs_input_grad[1]:
            left, right = gradient.t().contiguous(), narrow.t().contiguous()
            second = _multiply_fp8(left, right, of_gradient, of_inputs).to(ctx.kinds[1])
        return first, second


def _to_fp8(tensor: torch.Tensor, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    largest = torch.finfo(kind).max
    factor = (tensor.abs().amax().float() / largest).clamp(min=1e-12)
    return (tensor.float() / factor).clamp(-largest, largest).to(kind), factor


def _multiply_fp8(
    left: torch.Tensor,
    right: torch.Tensor,
    of_left: torch.Tensor,
    of_right: torch.Tensor,
    *,
    fast: bool = False,
) -> torch.Tensor:
    """left @ right.T in bf16, both given with the inner side last."""
    return torch._scaled_mm(
        left, right.t(), of_left, of_right, out_dtype=torch.bfloat16, use_fast_accum=fast
    )
