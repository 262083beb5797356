"""A step out of a torch module and an input shape, so that `fit` can be given a module.

Inputs are random and the loss is what the output suggests: memory and speed depend on shapes, not
on values. The step is what a plain loop runs: forward under autocast, backward, optimiser.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import nn

from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError
from anyrig.memory.fit import Fit, Meter, fit
from anyrig.memory.host import Trimming
from anyrig.memory.oom import recognise

Optimiser = Literal["adamw", "sgd", "momentum"]
_KINDS: Mapping[str, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16}


def step_of(
    module: nn.Module,
    shape: Sequence[int],
    device: torch.device | str,
    *,
    training: bool = True,
    precision: Precision = "fp32",
    optimiser: Optimiser = "adamw",
    vocabulary: int | None = None,
) -> Callable[[int], None]:
    """A step of any batch size. Moves the module to the device.

    Args:
        module: takes one tensor. Its output is a tensor, or holds one: first of a tuple, `loss`,
            `logits` or `last_hidden_state` of a mapping or an object.
        shape: of one item's input, without the batch.
        device: where to run.
        training: with gradients and an optimiser; else only the forward pass, and then the weights
            themselves are cast to fp16 or bf16.
        precision: fp16 and bf16 through autocast when training; tf32 is left to the caller's flags.
        optimiser: whose state is held beside the weights.
        vocabulary: inputs are token numbers below this instead of floats.
    """
    if precision not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise InvalidInputError(
            f"no number format is called {precision!r}", hint=f"There are: {known}."
        )
    if precision == "fp8":
        raise InvalidInputError("a plain module has no fp8 step", hint="Take bf16, fp16 or fp32.")
    where, kind = torch.device(device), _KINDS.get(precision)
    module.to(where)
    if not training:
        return _forward(module, shape, where, kind, vocabulary)
    module.train()
    rule = _optimiser(module, optimiser)

    def step(batch: int) -> None:
        rule.zero_grad(set_to_none=True)
        given = _inputs(batch, shape, where, torch.float32, vocabulary)
        with _autocast(where, kind):
            loss = _loss(module(given), vocabulary, given)
        loss.backward()  # type: ignore[no-untyped-call]
        rule.step()

    return step


def fit_module(
    module: nn.Module,
    shape: Sequence[int],
    bound: Meter,
    *,
    budget_bytes: int | None,
    training: bool = True,
    precision: Precision = "fp32",
    optimiser: Optimiser = "adamw",
    vocabulary: int | None = None,
    **limits: Any,
) -> Fit:
    """The largest batch of a module on a device opened by `open_device` through torch.

    Args:
        module: see `step_of`, as for the options up to `vocabulary`.
        shape: of one item's input.
        bound: the device.
        budget_bytes: the most that may be taken of it.
        training: whether steps train.
        precision: of the step.
        optimiser: of the step.
        vocabulary: for token numbers as inputs.
        limits: what else `fit` takes: most, start, multiple, tell, ...
    """
    device = getattr(bound, "device", None)
    if not isinstance(device, torch.device):
        raise InvalidInputError(
            "a module needs a device bound through torch", hint="open_device(device, torch's drive)"
        )
    step = step_of(
        module, shape, device,
        training=training, precision=precision, optimiser=optimiser, vocabulary=vocabulary,
    )  # fmt: skip
    if device.type == "cpu":
        limits.setdefault("cliff", 0.0)
        bound = Trimming(bound)
    return fit(step, meter=bound, budget_bytes=budget_bytes, recognise=recognise, **limits)


def transformer(
    num_layers: int = 8, width: int = 1024, num_heads: int = 16, inner: int = 4096
) -> nn.Module:
    """The model that `anyrig profile` and the benchmarks measure: 101 million parameters."""
    layer = nn.TransformerEncoderLayer(
        width, num_heads, inner, dropout=0.0, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def _forward(
    module: nn.Module,
    shape: Sequence[int],
    where: torch.device,
    kind: torch.dtype | None,
    vocabulary: int | None,
) -> Callable[[int], None]:
    module.eval()
    if kind is not None:
        module.to(kind)

    def step(batch: int) -> None:
        with torch.inference_mode():
            module(_inputs(batch, shape, where, kind or torch.float32, vocabulary))

    return step


def _inputs(
    batch: int,
    shape: Sequence[int],
    where: torch.device,
    kind: torch.dtype,
    vocabulary: int | None,
) -> torch.Tensor:
    if vocabulary is not None:
        return torch.randint(vocabulary, (batch, *shape), device=where)
    return torch.randn(batch, *shape, device=where, dtype=kind)


def _optimiser(module: nn.Module, name: Optimiser) -> torch.optim.Optimizer:
    parameters = [one for one in module.parameters() if one.requires_grad]
    if not parameters:
        raise InvalidInputError(
            "the module has nothing to train", hint="Measure it with --inference."
        )
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-5)
    return torch.optim.SGD(parameters, lr=1e-5, momentum=0.9 if name == "momentum" else 0.0)


def _autocast(
    where: torch.device, kind: torch.dtype | None
) -> contextlib.AbstractContextManager[Any]:
    # DirectML takes autocast and does nothing.
    if kind is None or where.type == "privateuseone":
        return contextlib.nullcontext()
    return torch.autocast(where.type, dtype=kind)


def _loss(output: Any, vocabulary: int | None, given: torch.Tensor) -> torch.Tensor:
    """A number to run backwards from."""
    found = _tensor(output)
    if found.dim() == 0:
        return found
    tokens = vocabulary is not None and found.shape[:-1] == given.shape
    if tokens and found.shape[-1] >= (vocabulary or 0):
        return nn.functional.cross_entropy(found.flatten(0, -2).float(), given.flatten())
    return found.float().square().mean()


def _tensor(output: Any) -> torch.Tensor:
    if isinstance(output, torch.Tensor):
        return output
    for name in ("loss", "logits", "last_hidden_state"):
        found = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(found, torch.Tensor):
            return found
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], torch.Tensor):
        return output[0]
    raise InvalidInputError(
        f"the module gives a {type(output).__name__}, which holds no tensor to train on",
        hint="Let it return a tensor, or a mapping with `loss` or `logits`.",
    )
