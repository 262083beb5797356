"""The language model: Qwen2 with its keys and values in buffers that never move.

A row is a sequence of its own length. One step takes one input of every row; keys and values go to
the row's own next place, and attention looks at the places before it. The group of query heads that
share a key head stands where a sequence would: one key head is then read once for all of them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyrig.speech.models.vibevoice.shape import TextShape
from anyrig.speech.models.vibevoice.weights import Weights


@dataclass(frozen=True)
class Layer:
    """One layer's weights; matrices that share their input are one."""

    norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Language:
    """The layers and the last norm. The embedding is `embedding`."""

    def __init__(self, shape: TextShape, weights: Weights) -> None:
        self.shape = shape
        self.embedding = weights["embed_tokens.weight"]
        self.layers = [_layer(weights.under(f"layers.{n}")) for n in range(shape.layers)]
        self.norm = weights["norm.weight"]
        half = torch.arange(0, shape.head_dim, 2, device=weights.device, dtype=torch.float32)
        self._frequencies = shape.theta ** -(half / shape.head_dim)

    def cache(self, rows: int, length: int) -> Tensor:
        """Room for the keys and values of so many rows: layer, row, place, key or value, head."""
        shape = self.shape
        size = (shape.layers, rows, length, 2, shape.kv_heads, shape.head_dim)
        return torch.zeros(size, dtype=self.norm.dtype, device=self.norm.device)

    def step(self, inputs: Tensor, cache: Tensor, lengths: Tensor, span: int) -> Tensor:
        """What the model thinks after one more input of each row.

        Args:
            inputs: a vector a row.
            cache: written at each row's place.
            lengths: how many places of each row are filled; this input goes to the next.
            span: no row is longer than this; attention looks no further.
        """
        rows = inputs.shape[0]
        places = torch.arange(span, device=inputs.device)
        open_ = torch.zeros((), dtype=inputs.dtype, device=inputs.device)
        mask = open_.masked_fill(places > lengths[:, None], float("-inf"))[:, None, None]
        turn = self._turn(lengths)
        index = lengths + torch.arange(rows, device=inputs.device) * cache.shape[2]
        x = inputs
        with _steady_attention(inputs.device):
            for layer, kept in zip(self.layers, cache, strict=True):
                x = x + self._attend(layer, x, kept[:rows], turn, index, mask, span)
                x = x + _mlp(layer, x, self.shape.eps)
        return F.rms_norm(x, x.shape[-1:], self.norm, self.shape.eps)

    def prefill(self, inputs: Tensor, cache: Tensor) -> None:
        """Keys and values of whole beginnings, row, place, vector: padded at their ends.

        What stands on the padding never matters: no earlier place sees it, and a later one of the
        same row is written over it.
        """
        rows, length, _ = inputs.shape
        shape = self.shape
        turn = self._turn(torch.arange(length, device=inputs.device))
        x = inputs
        for layer, kept in zip(self.layers, cache, strict=True):
            normed = F.rms_norm(x, x.shape[-1:], layer.norm, shape.eps)
            packed = F.linear(normed, layer.qkv, layer.qkv_bias)
            heads = packed.view(rows, length, -1, shape.head_dim)
            query, key, value = self._split(heads, turn)
            kept[:rows, :length, 0], kept[:rows, :length, 1] = key, value
            group = shape.heads // shape.kv_heads
            seen = F.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2).repeat_interleave(group, 1),
                value.transpose(1, 2).repeat_interleave(group, 1),
                is_causal=True,
            )
            x = x + F.linear(seen.transpose(1, 2).flatten(2), layer.out)
            x = x + _mlp(layer, x, shape.eps)

    def _attend(
        self,
        layer: Layer,
        x: Tensor,
        kept: Tensor,
        turn: tuple[Tensor, Tensor],
        index: Tensor,
        mask: Tensor,
        span: int,
    ) -> Tensor:
        shape, rows = self.shape, x.shape[0]
        normed = F.rms_norm(x, x.shape[-1:], layer.norm, shape.eps)
        heads = F.linear(normed, layer.qkv, layer.qkv_bias).view(rows, -1, shape.head_dim)
        query, key, value = self._split(heads, turn)
        kept.flatten(0, 1).index_copy_(0, index, torch.stack((key, value), 1))
        looked = kept[:, :span].permute(2, 0, 3, 1, 4)
        group = query.view(rows, shape.kv_heads, -1, shape.head_dim)
        seen = F.scaled_dot_product_attention(
            group, looked[0], looked[1], attn_mask=mask.expand(-1, *group.shape[1:3], -1)
        )
        return F.linear(seen.flatten(1), layer.out)

    def _split(self, heads: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, turned to their places, and values."""
        shape = self.shape
        turned, value = torch.split(heads, [shape.heads + shape.kv_heads, shape.kv_heads], dim=-2)
        cosine, sine = turn
        first, second = turned.chunk(2, dim=-1)
        turned = turned * cosine + torch.cat((-second, first), dim=-1) * sine
        query, key = torch.split(turned, [shape.heads, shape.kv_heads], dim=-2)
        return query, key, value

    def _turn(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the rotary embedding, for each place and every head."""
        angles = places[:, None, None].float() * self._frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(self.norm.dtype), angles.sin().to(self.norm.dtype)


def _steady_attention(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """On CUDA, the kernels that are right with a mask: cuDNN's were not (`precision.selftest`)."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    kept: contextlib.AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )
    return kept


def _mlp(layer: Layer, x: Tensor, eps: float) -> Tensor:
    normed = F.rms_norm(x, x.shape[-1:], layer.mlp_norm, eps)
    gate, up = F.linear(normed, layer.gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, layer.down)


def _layer(weights: Weights) -> Layer:
    attention, mlp = weights.under("self_attn"), weights.under("mlp")
    return Layer(
        norm=weights["input_layernorm.weight"],
        qkv=attention.packed(*(f"{part}_proj.weight" for part in "qkv")),
        qkv_bias=attention.packed(*(f"{part}_proj.bias" for part in "qkv")),
        out=attention["o_proj.weight"],
        mlp_norm=weights["post_attention_layernorm.weight"],
        gate_up=mlp.packed("gate_proj.weight", "up_proj.weight"),
        down=mlp["down_proj.weight"],
    )
