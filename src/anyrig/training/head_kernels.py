"""Softmax cross-entropy and its gradient as two Triton kernels, in place of the logits.

The first reads a row of logits once and keeps its log-sum-exp; the second turns the logits into
their gradients. torch.compile's own code for the same reads them four times.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from anyrig.training.head import IGNORED

_BLOCK = 4096
_WARPS = 8


@triton.jit
def losses_of_rows(
    logits, targets, lse, losses, stride, vocabulary: tl.constexpr, ignored: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Log-sum-exp and loss of each row."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * stride
    largest = tl.full((), -1.0e30, tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for first in range(0, vocabulary, block):
        at = first + tl.arange(0, block)
        values = tl.load(start + at, mask=at < vocabulary, other=-float("inf")).to(tl.float32)
        new = tl.maximum(largest, tl.max(values, 0))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(values - new), 0)
        largest = new
    found = largest + tl.log(total)
    target = tl.load(targets + row)
    counts = target != ignored
    place = tl.where(counts, target, 0)
    picked = tl.load(start + place).to(tl.float32)
    tl.store(lse + row, found)
    tl.store(losses + row, tl.where(counts, found - picked, 0.0))


@triton.jit
def gradients_in_place(
    logits, targets, lse, stride, vocabulary: tl.constexpr, width: tl.constexpr,
    ignored: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Each row's logits become the gradient of its loss; padded columns become nought."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * stride
    level = tl.load(lse + row)
    target = tl.load(targets + row)
    share = tl.where(target != ignored, 1.0, 0.0)
    for first in range(0, width, block):
        at = first + tl.arange(0, block)
        values = tl.load(start + at, mask=at < vocabulary, other=-float("inf")).to(tl.float32)
        gradient = (tl.exp(values - level) - tl.where(at == target, 1.0, 0.0)) * share
        tl.store(start + at, gradient.to(logits.dtype.element_ty), mask=at < width)


def row_losses(
    logits: torch.Tensor, targets: torch.Tensor, vocabulary: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and log-sum-exp of rows of logits."""
    count = logits.shape[0]
    lse = torch.empty(count, device=logits.device)
    losses = torch.empty_like(lse)
    losses_of_rows[(count,)](
        logits, targets, lse, losses, logits.stride(0), vocabulary, IGNORED, _BLOCK,
        num_warps=_WARPS,
    )  # fmt: skip
    return losses, lse


def by_kernels(
    states: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    vocabulary: int,
    of_states: torch.Tensor | None,
    of_weight: torch.Tensor | None,
) -> torch.Tensor:
    """One piece: its sum of losses, and the gradients of it."""
    logits = states @ weight.t()
    losses, lse = row_losses(logits, targets, vocabulary)
    if of_states is None and of_weight is None:
        return losses.sum()
    gradients_in_place[(logits.shape[0],)](
        logits, targets, lse, logits.stride(0), vocabulary, logits.shape[1], IGNORED, _BLOCK,
        num_warps=_WARPS,
    )  # fmt: skip
    if of_states is not None:
        torch.mm(logits, weight, out=of_states)
    if of_weight is not None:
        of_weight += logits.t() @ states
    return losses.sum()
