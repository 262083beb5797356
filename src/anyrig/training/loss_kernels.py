"""Softmax cross-entropy and its gradient as Triton kernels, and a head's three products in fp8.

The first kernel reads a row of logits once and keeps its log-sum-exp; the second turns the logits
into their gradients, in place. torch.compile's own code for the same reads them four times.

In fp8 states and weight are in e4m3, scaled by their largest value once a step. A logit's gradient
is a probability, or one minus it: between -1 and 1, so e5m2 at a fixed scale holds it from 1 down
to 3e-9, and nothing is measured. The kernel writes it twice, as it is and transposed, because fp8
products read both of their matrices along the inner side.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from anyrig.training.losses import IGNORED

_BLOCK = 4096
_WARPS = 8
_READING_WARPS = 4
"""Of the kernel that only reads: 0.28 ms for 8,192 rows on an H200, with 8 of them 0.37 ms."""


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
        num_warps=_READING_WARPS,
    )  # fmt: skip
    return losses, lse


def kernel_piece(
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


_E4M3, _E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
_LARGEST = torch.finfo(_E4M3).max
_SCALE = 4096.0
"""Of gradients: the largest is 1, e5m2 goes to 57,344 and down to 1.5e-5."""
_ROWS, _COLUMNS, _TILE_WARPS = 32, 128, 4
"""The fastest of 40 tiles on an H200: 0.71 ms for 8,192 rows; with 64 rows and 8 warps 0.90 ms."""


@triton.jit
def gradients_twice(
    logits, targets, lse, along, across, count, scale, vocabulary: tl.constexpr,
    width: tl.constexpr, ignored: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
    even: tl.constexpr,
):  # fmt: skip
    """A tile's gradients in e5m2, as they are and transposed."""
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    at = tl.program_id(0) * columns + tl.arange(0, columns)
    wide_row, wide_at = row.to(tl.int64), at.to(tl.int64)
    # Whole tiles need no look at the last row, and a mask that is always true costs loads.
    there = row < count if not even else row >= 0
    level = tl.load(lse + row, mask=there, other=0.0)
    target = tl.load(targets + row, mask=there, other=ignored)
    share = tl.where(target != ignored, scale, 0.0)
    read = there[:, None] & (at < vocabulary)[None, :]
    places = wide_row[:, None] * width + wide_at[None, :]
    values = tl.load(logits + places, mask=read, other=-float("inf")).to(tl.float32)
    hit = tl.where(at[None, :] == target[:, None], 1.0, 0.0)
    gradient = (tl.exp(values - level[:, None]) - hit) * share[:, None]
    narrow = gradient.to(tl.float8e5)
    tl.store(along + places, narrow, mask=there[:, None] & (at < width)[None, :])
    turned = wide_at[:, None] * count + wide_row[None, :]
    tl.store(across + turned, tl.trans(narrow), mask=(at < width)[:, None] & there[None, :])


class Fp8Pieces:
    """The pieces of one step, called in order.

    Args:
        states: all of them, in bf16.
        weight: of the head.
        vocabulary: rows of it that are tokens.
        rows: states in a piece.
    """

    def __init__(
        self, states: torch.Tensor, weight: torch.Tensor, vocabulary: int, rows: int
    ) -> None:
        self._rows = rows
        self._states, self._of_states = _to_e4m3(states)
        self._weight, self._of_weight = _to_e4m3(weight)
        self._turned = self._weight.t().contiguous()
        self._states_turned = self._states.t().contiguous()
        self._of_gradients = torch.full((), 1.0 / _SCALE, device=states.device)
        width = weight.shape[0]
        self._along = torch.empty(rows, width, dtype=_E5M2, device=states.device)
        self._across = torch.empty(width, rows, dtype=_E5M2, device=states.device)
        self._done = 0

    def __call__(
        self,
        states: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        vocabulary: int,
        of_states: torch.Tensor | None,
        of_weight: torch.Tensor | None,
    ) -> torch.Tensor:
        """One piece: its sum of losses, and the gradients of it."""
        start, count = self._done, states.shape[0]
        self._done += count
        if count % 16:  # the last one: in bf16, as fp8 products take multiples of 16
            return kernel_piece(states, weight, targets, vocabulary, of_states, of_weight)
        mine = self._states[start : start + count]
        logits = torch._scaled_mm(
            mine, self._weight.t(), self._of_states, self._of_weight,
            out_dtype=torch.bfloat16, use_fast_accum=True,
        )  # fmt: skip
        losses, lse = row_losses(logits, targets, vocabulary)
        if of_states is None and of_weight is None:
            return losses.sum()
        along, across = self._buffers(count)
        width = logits.shape[1]
        grid = (triton.cdiv(width, _COLUMNS), triton.cdiv(count, _ROWS))
        gradients_twice[grid](
            logits, targets, lse, along, across, count, _SCALE, vocabulary, width,
            IGNORED, _ROWS, _COLUMNS, count % _ROWS == 0, num_warps=_TILE_WARPS,
        )  # fmt: skip
        if of_states is not None:
            of_states.copy_(
                torch._scaled_mm(
                    along, self._turned.t(), self._of_gradients, self._of_weight,
                    out_dtype=of_states.dtype,
                )
            )  # fmt: skip
        if of_weight is not None:
            inner = self._states_turned[:, start : start + count].contiguous()
            of_weight += torch._scaled_mm(
                across, inner.t(), self._of_gradients, self._of_states, out_dtype=torch.bfloat16
            )
        return losses.sum()

    def _buffers(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        if count == self._rows:
            return self._along, self._across
        width = self._across.shape[0]
        return self._along[:count], self._across.flatten()[: width * count].view(width, count)


def _to_e4m3(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in e4m3, and the factor that brings it back.

    The largest value becomes the format's largest, so none can pass it by more than a rounding.
    """
    factor = (tensor.abs().amax().float() / _LARGEST).clamp(min=1e-12)
    return (tensor * factor.reciprocal().to(tensor.dtype)).to(_E4M3), factor
