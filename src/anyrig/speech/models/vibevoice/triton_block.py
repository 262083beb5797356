"""A block of the codec as Triton kernels: a norm, then everything else, or then two products.

In plain torch a block is a dozen kernels, each of which reads and writes all of its input; at the
rate of the samples, where channels are few, that is nearly all of its time. Up to
`WHOLE_BLOCK_CHANNELS` the products are small enough to be part of the second kernel. Beyond, cuBLAS
computes them.

The norm is a kernel of its own: the convolution reads each step seven times, and would normalize it
seven times (on an H200, 64 rows of 128 channels: 100 us like this, 325 us in one kernel).

Imported only where Triton runs (`layers.has_triton`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from anyrig.speech.models.vibevoice.codec import BlockWeights

WHOLE_BLOCK_CHANNELS = 128
_STEPS = 64
_FEW_STEPS = 16
"""Of a program where `_STEPS` would leave most of a GPU without one; products need as many."""
_MANY_PROGRAMS = 256
_ELEMENTS = 4096
"""Of a program without products: steps times channels."""


@triton.jit
def _normalize(
    x, before, after, extended, norm, total, state_stride, eps,
    CHANNELS: tl.constexpr, CONTEXT: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The normed steps behind those of the part before; the last of both are the state after it."""
    dtype = x.dtype.element_ty
    row = tl.program_id(1).to(tl.int64)
    steps = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
    channel = tl.arange(0, CHANNELS)
    inside = steps < total
    place = steps[:, None] * CHANNELS + channel[None, :]
    x += row * total * CHANNELS
    extended += row * (total + CONTEXT) * CHANNELS
    before += row * state_stride
    after += row * state_stride
    value = tl.load(x + place, mask=inside[:, None], other=0.0).to(tl.float32)
    normed = _scale(value, norm, eps, CHANNELS).to(dtype)
    tl.store(extended + place + CONTEXT * CHANNELS, normed, mask=inside[:, None])
    left = inside & (steps + CONTEXT >= total)
    tl.store(after + place - (total - CONTEXT) * CHANNELS, normed, mask=left[:, None])
    if tl.program_id(0) == 0:
        for n in tl.static_range(CONTEXT):
            earlier = tl.load(before + n * CHANNELS + channel)
            tl.store(extended + n * CHANNELS + channel, earlier)
            # A part shorter than the context leaves some of the part before it.
            if n >= total:
                tl.store(after + (n - total) * CHANNELS + channel, earlier)


@triton.jit
def _scale(x, norm, eps, CHANNELS: tl.constexpr):
    scaled = x * tl.rsqrt(tl.sum(x * x, 1) / CHANNELS + eps)[:, None]
    return scaled * tl.load(norm + tl.arange(0, CHANNELS)).to(tl.float32)[None, :]


@triton.jit
def _convolve(
    x, extended, depthwise, bias, row, steps, total,
    CHANNELS: tl.constexpr, CONTEXT: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """The residual after the depthwise convolution, in fp32 and rounded."""
    dtype = x.dtype.element_ty
    channel = tl.arange(0, CHANNELS)
    inside = (steps < total)[:, None]
    place = steps[:, None] * CHANNELS + channel[None, :]
    extended += row * (total + CONTEXT) * CHANNELS
    mixed = tl.zeros((STEPS, CHANNELS), tl.float32)
    for tap in tl.static_range(CONTEXT + 1):
        value = tl.load(extended + place + tap * CHANNELS, mask=inside, other=0.0)
        weight = tl.load(depthwise + tap * CHANNELS + channel)
        mixed += value.to(tl.float32) * weight.to(tl.float32)[None, :]
    mixed += tl.load(bias + channel).to(tl.float32)[None, :]
    value = tl.load(x + row * total * CHANNELS + place, mask=inside, other=0.0)
    mixed = mixed.to(dtype).to(tl.float32) + value.to(tl.float32)
    return mixed.to(dtype).to(tl.float32)


@triton.jit
def _mix(
    x, extended, residual, normed, depthwise, bias, ffn_norm, down_bias, total, eps,
    CHANNELS: tl.constexpr, CONTEXT: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """What the products start from, and what is added to them."""
    dtype = x.dtype.element_ty
    row = tl.program_id(1).to(tl.int64)
    steps = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
    channel = tl.arange(0, CHANNELS)
    mixed = _convolve(x, extended, depthwise, bias, row, steps, total, CHANNELS, CONTEXT, STEPS)
    place = row * total * CHANNELS + steps[:, None] * CHANNELS + channel[None, :]
    inside = (steps < total)[:, None]
    tl.store(normed + place, _scale(mixed, ffn_norm, eps, CHANNELS).to(dtype), mask=inside)
    mixed += tl.load(down_bias + channel).to(tl.float32)[None, :]
    tl.store(residual + place, mixed.to(dtype), mask=inside)


@triton.jit
def _whole(
    x, extended, out, depthwise, bias, ffn_norm, up, up_bias, down, down_bias, total, eps,
    CHANNELS: tl.constexpr, HIDDEN: tl.constexpr, TILE: tl.constexpr, CONTEXT: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    """All that follows the norm; hidden units are computed a tile at a time and never stored."""
    dtype = x.dtype.element_ty
    row = tl.program_id(1).to(tl.int64)
    steps = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
    channel = tl.arange(0, CHANNELS)
    mixed = _convolve(x, extended, depthwise, bias, row, steps, total, CHANNELS, CONTEXT, STEPS)
    normed = _scale(mixed, ffn_norm, eps, CHANNELS).to(dtype)
    result = tl.zeros((STEPS, CHANNELS), tl.float32)
    for first in range(0, HIDDEN, TILE):
        unit = first + tl.arange(0, TILE)
        weight = tl.load(up + unit[None, :] * CHANNELS + channel[:, None])
        hidden = tl.dot(normed, weight, input_precision="ieee")
        hidden += tl.load(up_bias + unit).to(tl.float32)[None, :]
        hidden = hidden.to(dtype).to(tl.float32)
        hidden = 0.5 * hidden * (1.0 + tl.erf(hidden * 0.7071067811865476))
        weight = tl.load(down + channel[None, :] * HIDDEN + unit[:, None])
        result = tl.dot(hidden.to(dtype), weight, result, input_precision="ieee")
    result += tl.load(down_bias + channel).to(tl.float32)[None, :]
    result = result.to(dtype).to(tl.float32) + mixed
    place = row * total * CHANNELS + steps[:, None] * CHANNELS + channel[None, :]
    tl.store(out + place, result.to(dtype), mask=(steps < total)[:, None])


def run_block(x: Tensor, before: Tensor, after: Tensor, weights: BlockWeights) -> Tensor:
    """A whole block; both states are views of one stride: row, steps times channels.

    Args:
        x: row, step, channel, without gaps in memory.
        before: the normed steps before the first, of each row.
        after: gets those before the next part.
        weights: of the block.
    """
    rows, total, channels = x.shape
    taps, eps = weights.depthwise.shape[0], weights.eps
    sizes = {"CHANNELS": channels, "CONTEXT": taps - 1}
    extended = x.new_empty(rows, total + taps - 1, channels)
    steps = max(1, min(triton.next_power_of_2(total), _ELEMENTS // channels))
    grid = (triton.cdiv(total, steps), rows)
    _normalize[grid](
        x, before, after, extended, weights.norm, total, before.stride(0), eps, **sizes, STEPS=steps
    )
    if channels > WHOLE_BLOCK_CHANNELS:
        residual, normed = torch.empty_like(x), torch.empty_like(x)
        _mix[grid](
            x, extended, residual, normed, weights.depthwise, weights.bias, weights.ffn_norm,
            weights.down_bias, total, eps, **sizes, STEPS=steps,
        )  # fmt: skip
        hidden = F.gelu(F.linear(normed, weights.up, weights.up_bias)).flatten(0, 1)
        return torch.addmm(residual.flatten(0, 1), hidden, weights.down.t()).view_as(x)
    steps = _STEPS if rows * total >= _MANY_PROGRAMS * _STEPS else _FEW_STEPS
    out = torch.empty_like(x)
    _whole[triton.cdiv(total, steps), rows](
        x, extended, out, *weights[1:8], total, eps, **sizes, HIDDEN=weights.up.shape[0],
        TILE=64 if channels == WHOLE_BLOCK_CHANNELS else 32, STEPS=steps,
    )  # fmt: skip
    return out
