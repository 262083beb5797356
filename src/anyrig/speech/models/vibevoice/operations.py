"""What stands between products of matrices, in plain torch or as one kernel of our own each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.layers import has_triton


def add_norm(x: Tensor, more: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """x + more, and the norm of that; without a weight, no norm."""
    if weight is None:
        total = x + more
        return total, total
    if has_triton(x.device):
        from anyrig.speech.models.vibevoice import triton_kernels

        return triton_kernels.add_norm(x, more, weight, eps)
    total = x + more
    return total, F.rms_norm(total, total.shape[-1:], weight, eps)


def multiply_silu(packed: Tensor) -> Tensor:
    """SiLU of the first half of each row, times its second half."""
    if has_triton(packed.device):
        from anyrig.speech.models.vibevoice import triton_kernels

        return triton_kernels.multiply_silu(packed)
    gate, up = packed.chunk(2, dim=-1)
    return F.silu(gate) * up


def modulate(
    x: Tensor,
    residual: tuple[Tensor, Tensor] | None,
    weight: Tensor | None,
    shift: Tensor,
    scale: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """x with a gated residual, and shift + norm of that * scale.

    Args:
        x: row, vector.
        residual: the gate and what it multiplies.
        weight: of the norm, if it has one.
        shift: of the stride that `scale` has.
        scale: of each row.
        eps: of the norm.
    """
    if has_triton(x.device):
        from anyrig.speech.models.vibevoice import triton_kernels

        return triton_kernels.modulate(x, residual, weight, shift, scale, eps)
    if residual is not None:
        x = torch.addcmul(x, *residual)
    return x, torch.addcmul(shift, F.rms_norm(x, x.shape[-1:], weight, eps), scale)


def rotate(
    packed: Tensor, rotary: tuple[Tensor, Tensor], index: Tensor, cached: Tensor, count: int
) -> Tensor:
    """Queries rotated to their places, in groups by key head; keys and values go to the cache.

    Args:
        packed: queries, keys and values of all heads of each input.
        rotary: cosines and sines of each input's place.
        index: of each input's place in the cache.
        cached: row, place, key or value, head, vector.
        count: inputs of a row.

    Returns:
        Row, key head, query heads of its group times inputs, vector.
    """
    if has_triton(packed.device):
        from anyrig.speech.models.vibevoice import triton_kernels

        return triton_kernels.rotate(packed, rotary, index, cached, count)
    kv_heads, size = cached.shape[-2:]
    heads = packed.view(len(packed), -1, size)
    query, key, value = split_heads(heads, kv_heads, rotary)
    cached.flatten(0, 1).index_copy_(0, index, torch.stack((key, value), 1))
    query = query.view(-1, count, kv_heads, query.shape[1] // kv_heads, size)
    return query.permute(0, 2, 3, 1, 4).flatten(2, 3)


def split_heads(
    heads: Tensor, kv_heads: int, rotary: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries and keys, rotated to their places, and values: ..., head, vector."""
    rotated, value = heads[..., :-kv_heads, :], heads[..., -kv_heads:, :]
    cosine, sine = rotary
    first, second = rotated.chunk(2, dim=-1)
    rotated = rotated * cosine + torch.cat((-second, first), dim=-1) * sine
    return rotated[..., :-kv_heads, :], rotated[..., -kv_heads:, :], value
