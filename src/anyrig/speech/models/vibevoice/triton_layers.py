"""What the language model and the diffusion head do between products, as Triton kernels.

A frame of one row is a thousand products of a vector with a matrix, and in plain torch five small
kernels follow each: they, and not the products, take most of its time.

Imported only where Triton runs (`layers.has_triton`). `operations.py` has the same in plain torch,
and says what each does.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
