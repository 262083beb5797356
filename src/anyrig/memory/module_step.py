"""Build a step of any batch size out of a torch module and an input shape.

Inputs are random and the loss is made from the output: memory and speed depend on shapes, not on
values. The step is a plain training loop's: forward under autocast, backward, AdamW.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from anyrig.backends.torch import DTYPES
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, Message, OptionRef


def build_step(
    module: nn.Module,
    shape: Sequence[int],
    device: torch.device | str,
    *,
    training: bool = True,
    precision: Precision = "fp32",
    vocab_size: int | None = None,
) -> Callable[[int], None]:
    """Build a step to pass to `find_batch_size`. Moves the module to the device.

    Args:
        module: takes one tensor. Its output is a tensor, or contains one: first of a tuple, `loss`,
            `logits` or `last_hidden_state` of a mapping or an object.
        shape: of one input, without the batch dimension.
        device: where to run.
        training: with gradients and AdamW; otherwise only the forward pass, with the weights
            themselves cast to fp16 or bf16.
        precision: fp16 and bf16 through autocast when training; tf32 is left to torch's flags.
        vocab_size: inputs are token ids below this instead of floats.
    """
    if precision not in DTYPES:
        raise InvalidInputError(
            f"precision {precision} is not supported for a plain module",
            hint=f"Use {', '.join(DTYPES)}.",
        )
    where, dtype = torch.device(device), DTYPES[precision]
    module.to(where)

    def make_inputs(batch_size: int, dtype: torch.dtype) -> torch.Tensor:
        if vocab_size is not None:
            return torch.randint(vocab_size, (batch_size, *shape), device=where)
        return torch.randn(batch_size, *shape, device=where, dtype=dtype)

    if not training:
        module.eval()
        if dtype != torch.float32:
            module.to(dtype)

        def infer(batch_size: int) -> None:
            with torch.inference_mode():
                module(make_inputs(batch_size, dtype))

        return infer

    module.train()
    parameters = [one for one in module.parameters() if one.requires_grad]
    if not parameters:
        raise InvalidInputError(
            "the module has no trainable parameters",
            hint=Message("Measure it with {inference}.", inference=OptionRef("inference")),
        )
    optimizer = torch.optim.AdamW(parameters, lr=1e-5)

    def train(batch_size: int) -> None:
        optimizer.zero_grad(set_to_none=True)
        inputs = make_inputs(batch_size, torch.float32)
        with _autocast(where, dtype):
            loss = _compute_loss(module(inputs), inputs, vocab_size)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return train


def build_transformer(
    num_layers: int = 8, width: int = 1024, num_heads: int = 16, inner: int = 4096
) -> nn.Module:
    """Build the model that `anyrig profile` and the benchmarks measure: 101 million parameters."""
    layer = nn.TransformerEncoderLayer(
        width, num_heads, inner, dropout=0.0, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)


def _autocast(where: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[Any]:
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(where.type, dtype=dtype)


def _compute_loss(output: Any, inputs: torch.Tensor, vocab_size: int | None) -> torch.Tensor:
    tensor = _find_tensor(output)
    if tensor.dim() == 0:
        return tensor
    per_token = vocab_size is not None and tensor.shape[:-1] == inputs.shape
    if per_token and tensor.shape[-1] >= (vocab_size or 0):
        return nn.functional.cross_entropy(tensor.flatten(0, -2).float(), inputs.flatten())
    return tensor.float().square().mean()


def _find_tensor(output: Any) -> torch.Tensor:
    if isinstance(output, torch.Tensor):
        return output
    for name in ("loss", "logits", "last_hidden_state"):
        found = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(found, torch.Tensor):
            return found
    if isinstance(output, (tuple, list)) and output and isinstance(output[0], torch.Tensor):
        return output[0]
    raise InvalidInputError(
        f"the module returns a {type(output).__name__} without a tensor to train on",
        hint="Return a tensor, or a mapping with `loss` or `logits`.",
    )
