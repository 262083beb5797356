"""The loss of a language model without its logits in memory all at once.

A head's logits are by far the largest tensor of a small language model: 50,257 numbers for each
token, in fp32, and their gradients. Here they are made for a piece of the tokens at a time, turned
into the loss and its gradient, and used up before the next piece: backward has nothing left to do.
On an NVIDIA GPU two kernels of our own do the softmax and its gradient, and the products may run in
fp8: the gradient of a logit lies between -1 and 1 by its nature, so its scale needs no measuring.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from anyrig.errors import InvalidInputError

IGNORED = -100
"""Targets that do not count."""
_AUTO_BYTES = 1 << 30
"""What `auto` lets a piece's logits take on a GPU; twice as much gains 0.5 % on an H200."""
_AUTO_ROWS = 1024
"""On a CPU smaller pieces stay in its caches."""


class Plan(NamedTuple):
    """How a loss is computed."""

    rows: int
    """Tokens in a piece."""
    kernels: bool
    """Whether our own kernels do the softmax."""
    eighths: bool
    """Whether products run in fp8."""
    trains: bool = True
    """Whether gradients are computed on the way."""


def linear_cross_entropy(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    chunks: int | Literal["auto"] = "auto",
    vocabulary: int | None = None,
    eighths: bool = False,
) -> torch.Tensor:
    """The mean cross-entropy of `states @ weight.T` to targets, over targets that count.

    Args:
        states: last hidden states, any leading sides.
        weight: of the head, a row for each token.
        targets: a token's number for each state; `IGNORED` does not count.
        chunks: pieces; 1 takes all at once, `auto` by size.
        vocabulary: rows of the weight that are tokens; those behind it are padding.
        eighths: products in fp8 where the device has it.
    """
    rows, size = states.reshape(-1, states.shape[-1]), vocabulary or weight.shape[0]
    flat = targets.reshape(-1)
    if flat.shape[0] != rows.shape[0]:
        raise InvalidInputError(
            f"{rows.shape[0]} states and {flat.shape[0]} targets", hint="Pass one for each."
        )
    plan = _plan(rows, weight, chunks, eighths)
    function: Any = _LinearCrossEntropy
    # Inside, what needs a gradient is said as if there were no `no_grad` around it.
    plan = plan._replace(trains=torch.is_grad_enabled())
    loss: torch.Tensor = function.apply(rows, weight, flat, size, plan)
    return loss


def _plan(
    rows: torch.Tensor, weight: torch.Tensor, chunks: int | Literal["auto"], eighths: bool
) -> Plan:
    # Tensors without data, which FLOPs are counted on, cannot be handed to a kernel of ours.
    real = not hasattr(rows, "fake_mode")
    kernels = real and rows.device.type == "cuda" and _has_triton()
    fits = kernels and rows.shape[1] % 16 == 0 and weight.shape[0] % 16 == 0
    eighths = eighths and fits and _has_fp8(rows.device)
    if chunks == "auto":
        width = weight.shape[0] * (2 if kernels else 4)
        most = _AUTO_BYTES // width if rows.device.type != "cpu" else _AUTO_ROWS
        size = max(64, 1 << (most.bit_length() - 1))  # products are fast on powers of two
    else:
        size = -(-rows.shape[0] // chunks)
    if eighths:  # fp8 products take multiples of 16
        size = -(-size // 64) * 64
    return Plan(max(1, min(size, _rounded(rows.shape[0], eighths))), kernels, eighths)


def _rounded(count: int, eighths: bool) -> int:
    return -(-count // 64) * 64 if eighths else count


def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def _has_fp8(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 9)


class _LinearCrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass over pieces of the tokens."""

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        vocabulary: int,
        plan: Plan,
    ) -> torch.Tensor:
        kind = states.dtype
        if torch.is_autocast_enabled(states.device.type):
            kind = torch.get_autocast_dtype(states.device.type)
        elif weight.dtype != states.dtype:
            kind = weight.dtype
        with torch.autocast(states.device.type, enabled=False):
            first, second = ctx.needs_input_grad[:2]
            needs = (plan.trains and first, plan.trains and second)
            sums = _summed(states.to(kind), weight.to(kind), targets, vocabulary, plan, needs)
        total, count, of_states, of_weight = sums
        ctx.save_for_backward(of_states, of_weight, count)
        ctx.kinds = (states.dtype, weight.dtype)
        return total / count

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        of_states, of_weight, count = ctx.saved_tensors
        factor = gradients[0] / count
        first = None if of_states is None else of_states.mul_(factor).to(ctx.kinds[0])
        second = None if of_weight is None else of_weight.mul_(factor).to(ctx.kinds[1])
        return first, second, None, None, None


def _summed(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    vocabulary: int,
    plan: Plan,
    needs: tuple[bool, bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """The sum of losses, how many count, and the gradients of that sum."""
    # Sums of many pieces in bf16 would lose the small ones.
    sums = torch.float64 if weight.dtype == torch.float64 else torch.float32
    of_states = torch.empty_like(states) if needs[0] else None
    of_weight = torch.zeros_like(weight, dtype=sums) if needs[1] else None
    total = torch.zeros((), dtype=sums, device=states.device)
    count = (targets != IGNORED).sum().clamp(min=1).to(sums)
    if plan.eighths:
        from anyrig.training.head_eighths import Pieces

        piece: Any = Pieces(states, weight, vocabulary, plan.rows)
    elif plan.kernels:
        from anyrig.training.head_kernels import by_kernels as piece
    else:
        piece = _by_torch
    for start in range(0, states.shape[0], plan.rows):
        stop = min(start + plan.rows, states.shape[0])
        out = None if of_states is None else of_states[start:stop]
        total += piece(states[start:stop], weight, targets[start:stop], vocabulary, out, of_weight)
    return total, count, of_states, of_weight


def _by_torch(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    vocabulary: int,
    of_states: torch.Tensor | None,
    of_weight: torch.Tensor | None,
) -> torch.Tensor:
    """One piece with torch's own operations, on any device."""
    wide = torch.float64 if states.dtype == torch.float64 else torch.float32
    head = weight[:vocabulary]
    logits = (states @ head.t()).to(wide)
    counts = targets != IGNORED
    places = targets.clamp(min=0)
    lse = torch.logsumexp(logits, 1)
    picked = logits.gather(1, places[:, None])[:, 0]
    loss = torch.where(counts, lse - picked, 0.0).sum()
    if of_states is None and of_weight is None:
        return loss
    gradient = logits.sub_(lse[:, None]).exp_()
    gradient.scatter_add_(1, places[:, None], gradient.new_full((len(places), 1), -1.0))
    gradient.mul_(counts[:, None])
    narrow = gradient.to(states.dtype)
    if of_states is not None:
        torch.mm(narrow, head, out=of_states)
    if of_weight is not None:
        of_weight[:vocabulary] += narrow.t() @ states
    return loss


class LanguageLoss:
    """The loss of a causal language model: each token told from those before it.

    Takes our own GPT and any causal model of transformers: the model's body gives hidden states,
    and its head's weight goes into `linear_cross_entropy`. A head with a bias, or a model whose
    logits are changed on their way (scaled, capped), computes them as it likes, all at once.

    Args:
        chunks: see `linear_cross_entropy`.
        eighths: see `linear_cross_entropy`.
    """

    across_batch = False

    def __init__(self, chunks: int | Literal["auto"] = "auto", *, eighths: bool = False) -> None:
        self.chunks, self.eighths = chunks, eighths

    def core(self, model: nn.Module) -> nn.Module:
        """The part of a model that compiling is worth it for: all but the head."""
        body = _body(model)
        return model if body is None else body

    def __call__(self, model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The mean over the tokens that count.

        Args:
            model: see the class.
            batch: `tokens` (items x length + 1), and `labels` of the same shape where some tokens
                do not count.
        """
        tokens = batch["tokens"]
        given = tokens[:, :-1]
        targets = batch.get("labels", tokens)[:, 1:]
        if hasattr(model, "head") and hasattr(model, "vocabulary"):
            own: Any = model
            states, weight, size = own(given, hidden=True), own.head.weight, own.vocabulary
        else:
            body = _body(model)
            if body is None:
                return _plain(model, given, targets)
            states = body(input_ids=given).last_hidden_state
            weight, size = _head_of(model).weight, None
        assert isinstance(weight, torch.Tensor)
        return linear_cross_entropy(
            states, weight, targets,
            chunks=self.chunks, vocabulary=size, eighths=self.eighths,
        )  # fmt: skip


def _plain(model: nn.Module, given: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=given).logits
    return nn.functional.cross_entropy(
        logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORED
    )


def _head_of(model: nn.Module) -> Any:
    get = getattr(model, "get_output_embeddings", None)
    return get() if callable(get) else None


_CHANGED = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")


def _body(model: nn.Module) -> nn.Module | None:
    """A causal model of transformers without its head; None where its logits are more than that."""
    head, body = _head_of(model), getattr(model, "base_model", None)
    if not isinstance(head, nn.Linear) or head.bias is not None or body is model:
        return None
    config = getattr(model, "config", None)
    if any(getattr(config, name, None) for name in _CHANGED):
        return None
    return body if isinstance(body, nn.Module) else None
