"""Triton kernels of VibeVoice: of a block of its codec, and of what stands between the products of
its language model and its diffusion head.

In plain torch a block is a dozen kernels, each of which reads and writes all of its input; at the
rate of the samples, where channels are few, that is nearly all of its time. Here it is a norm, then
everything else, or then two products: up to `WHOLE_BLOCK_CHANNELS` these are small enough to be
part of the second kernel, beyond, cuBLAS computes them. The norm is a kernel of its own: the
convolution reads each step seven times, and would normalize it seven times (on an H200, 64 rows of
128 channels: 100 us like this, 325 us in one kernel).

A frame of one row is a thousand products of a vector with a matrix, and in plain torch five small
kernels follow each: they, and not the products, take most of its time. `operations.py` has the same
in plain torch, and says what each does.

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


# -- between the products of the language model and the diffusion head ----------------------------


@triton.jit
def _add_norm(x, more, weight, total, normed, eps, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    inside = place < SIZE
    start = tl.program_id(0).to(tl.int64) * SIZE + place
    value = tl.load(x + start, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(more + start, mask=inside, other=0.0).to(tl.float32)
    value = value.to(total.dtype.element_ty)
    tl.store(total + start, value, mask=inside)
    value = value.to(tl.float32)
    gain = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    value = value * tl.rsqrt(tl.sum(value * value, 0) / SIZE + eps) * gain
    tl.store(normed + start, value.to(normed.dtype.element_ty), mask=inside)


def add_norm(x: Tensor, more: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    rows, size = x.shape
    total, normed = torch.empty_like(x), torch.empty_like(x)
    _add_norm[rows,](
        x, more, weight, total, normed, eps, SIZE=size, BLOCK=triton.next_power_of_2(size)
    )
    return total, normed


@triton.jit
def _multiply_silu(packed, out, size, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    gate = tl.load(packed + row * 2 * size + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(packed + row * 2 * size + size + place, mask=inside, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * up
    tl.store(out + row * size + place, result.to(out.dtype.element_ty), mask=inside)


def multiply_silu(packed: Tensor) -> Tensor:
    rows, size = packed.shape[0], packed.shape[1] // 2
    out = packed.new_empty(rows, size)
    _multiply_silu[triton.cdiv(size, 1024), rows](packed, out, size, BLOCK=1024)
    return out


@triton.jit
def _modulate(
    x, gate, more, weight, shift, scale, total, out, gate_stride, shift_stride, eps,
    ADDS: tl.constexpr, WEIGHTED: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.arange(0, BLOCK)
    inside = place < SIZE
    row = tl.program_id(0).to(tl.int64)
    start = row * SIZE + place
    value = tl.load(x + start, mask=inside, other=0.0).to(tl.float32)
    if ADDS:
        factor = tl.load(gate + row * gate_stride + place, mask=inside, other=0.0).to(tl.float32)
        value += factor * tl.load(more + start, mask=inside, other=0.0).to(tl.float32)
        value = value.to(total.dtype.element_ty)
        tl.store(total + start, value, mask=inside)
        value = value.to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / SIZE + eps)
    if WEIGHTED:
        value *= tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(scale + row * shift_stride + place, mask=inside, other=0.0).to(tl.float32)
    value *= factor
    value += tl.load(shift + row * shift_stride + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + start, value.to(out.dtype.element_ty), mask=inside)


def modulate(
    x: Tensor,
    residual: tuple[Tensor, Tensor] | None,
    weight: Tensor | None,
    shift: Tensor,
    scale: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    rows, size = x.shape
    gate, more = residual or (x, x)
    total = x if residual is None else torch.empty_like(x)
    out = torch.empty_like(x)
    _modulate[rows,](
        x, gate, more, x if weight is None else weight, shift, scale, total, out,
        gate.stride(0), shift.stride(0), eps, ADDS=residual is not None,
        WEIGHTED=weight is not None, SIZE=size, BLOCK=triton.next_power_of_2(size),
    )  # fmt: skip
    return total, out


@triton.jit
def _rotate(
    packed, cosine, sine, index, cached, queries, count,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    place = tl.arange(0, BLOCK)
    inside = place < HALF
    source = packed + (token * (HEADS + 2 * KV_HEADS) + head) * 2 * HALF + place
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    if head < HEADS + KV_HEADS:
        cos = tl.load(cosine + token * 2 * HALF + place, mask=inside, other=0.0).to(tl.float32)
        sin = tl.load(sine + token * 2 * HALF + place, mask=inside, other=0.0).to(tl.float32)
        rotated = first * cos - second * sin
        second = second * cos + first * sin
        first = rotated
    if head < HEADS:
        row, number = token // count, token % count
        target = queries + ((row * HEADS + head) * count + number) * 2 * HALF + place
    else:
        slot = tl.load(index + token) * 2 * KV_HEADS + head - HEADS
        target = cached + slot * 2 * HALF + place
    tl.store(target, first.to(queries.dtype.element_ty), mask=inside)
    tl.store(target + HALF, second.to(queries.dtype.element_ty), mask=inside)


def rotate(
    packed: Tensor, rotary: tuple[Tensor, Tensor], index: Tensor, cached: Tensor, count: int
) -> Tensor:
    kv_heads, size = cached.shape[-2:]
    heads = packed.shape[1] // size - 2 * kv_heads
    queries = packed.new_empty(len(packed) // count, kv_heads, heads // kv_heads * count, size)
    _rotate[len(packed), heads + 2 * kv_heads](
        packed, *rotary, index, cached, queries, count, HEADS=heads, KV_HEADS=kv_heads,
        HALF=size // 2, BLOCK=triton.next_power_of_2(size // 2), num_warps=1,
    )  # fmt: skip
    return queries
