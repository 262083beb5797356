"""One forward pass for every family of encoders, over texts without padding.

    encoder = load(folder, device, torch.bfloat16)
    vectors = encoder.embed(np.array([101, 7592, 102]), np.array([3]), pooling="mean")

The tokens of all texts lie in one long row, so a batch costs what its tokens cost, whatever their
lengths. On a GPU in half precision attention is Flash Attention's varlen kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from anyrig.documents.models.arrays import read_encoder
from anyrig.documents.models.attend import Attend, Grouped, Rows, Varlen
from anyrig.documents.models.families import (
    ACTIVATIONS,
    Array,
    EncoderLayer,
    EncoderShape,
    EncoderWeights,
)
from anyrig.errors import InvalidInputError

Pooling = Literal["mean", "cls", "max", "last", "mean_sqrt"]


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


_STEPS: tuple[Callable[[Tensor], Tensor], ...] = (F.gelu, _tanh_gelu, _tanh_gelu, F.relu, F.silu)
_ACTIVATIONS = dict(zip(ACTIVATIONS, _STEPS, strict=True))


class PackedEncoder:
    """An encoder on a device, in a precision."""

    def __init__(
        self,
        shape: EncoderShape,
        weights: EncoderWeights[Array],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        if shape.activation not in _ACTIVATIONS:
            raise InvalidInputError(
                f"the activation {shape.activation!r}",
                hint=f"Valid names: {', '.join(_ACTIVATIONS)}.",
            )
        self.shape, self.device, self.dtype = shape, device, dtype
        self._weights = _place_weights(weights, device, dtype)
        self._activation = _ACTIVATIONS[shape.activation]
        self._angles = {theta: _angles(shape, theta, device) for theta in set(shape.thetas)}
        self.varlen = _has_varlen(shape, device, dtype)
        """Whether attention runs without padding as well."""

    @torch.inference_mode()
    def embed(
        self,
        tokens: NDArray[np.int32],
        lengths: NDArray[np.int32],
        pooling: Pooling = "mean",
    ) -> Tensor:
        """A vector for each text, in fp32, on the device; not normalised.

        Args:
            tokens: the numbers of all texts, one after the other, with those at the ends.
            lengths: how many each text has; none has none.
            pooling: how a text's tokens become one vector.
        """
        rows = Rows(tuple(lengths.tolist()), self.device)
        flat = torch.from_numpy(np.ascontiguousarray(tokens))
        if self.device.type == "cuda":
            flat = flat.pin_memory()
        return pool_tokens(
            self.hidden(flat.to(self.device, non_blocking=True), rows), rows, pooling
        )

    def hidden(self, tokens: Tensor, rows: Rows) -> Tensor:
        """The last layer's state of every token, [tokens, hidden]."""
        weights, shape = self._weights, self.shape
        x = weights.words[tokens].float()  # sums stay in fp32, products are in the format
        if weights.positions is not None:
            x = x + weights.positions[rows.places + shape.offset]
        if weights.types is not None:
            x = x + weights.types
        x = self._norm(x, weights.norm, weights.norm_bias)
        attend = Varlen(rows) if self.varlen else Grouped(rows, weights.bias)
        step = self._before if shape.before else self._after
        for number, layer in enumerate(weights.layers):
            x = step(x, layer, number, attend, rows)
        return x if weights.last_norm is None else self._norm(
            x, weights.last_norm, weights.last_norm_bias
        )  # fmt: skip

    def _after(
        self, x: Tensor, layer: EncoderLayer[Tensor], number: int, attend: Attend, rows: Rows
    ) -> Tensor:
        """BERT's way: each half adds, then normalises."""
        x = self._norm(
            x + self._attention(x.to(self.dtype), layer, number, attend, rows),
            layer.norm_1, layer.norm_1_bias,
        )  # fmt: skip
        inner = self._activation(F.linear(x.to(self.dtype), layer.up, layer.up_bias))
        return self._norm(
            x + F.linear(inner, layer.down, layer.down_bias), layer.norm_2, layer.norm_2_bias
        )

    def _before(
        self, x: Tensor, layer: EncoderLayer[Tensor], number: int, attend: Attend, rows: Rows
    ) -> Tensor:
        """ModernBERT's way: each half normalises, then adds."""
        y = x if layer.norm_1 is None else self._norm(x, layer.norm_1, layer.norm_1_bias)
        x = x + self._attention(y.to(self.dtype), layer, number, attend, rows)
        y = self._norm(x, layer.norm_2, layer.norm_2_bias).to(self.dtype)
        value, gate = F.linear(y, layer.up, layer.up_bias).chunk(2, dim=-1)
        return x + F.linear(self._activation(value) * gate, layer.down, layer.down_bias)

    def _attention(
        self, x: Tensor, layer: EncoderLayer[Tensor], number: int, attend: Attend, rows: Rows
    ) -> Tensor:
        shape = self.shape
        qkv = F.linear(x, layer.qkv, layer.qkv_bias).view(-1, 3, shape.heads, shape.head)
        q, k, v = qkv.unbind(1)
        if shape.thetas:
            cos, sin = (table[rows.places] for table in self._angles[shape.thetas[number]])
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        local = bool(shape.attention) and shape.attention[number] == "local"
        found = attend(q, k, v, shape.window if local else 0)
        return F.linear(found.reshape(x.shape), layer.out, layer.out_bias)

    def _norm(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return F.layer_norm(x, (self.shape.hidden,), weight, bias, self.shape.eps)


def pool_tokens(hidden: Tensor, rows: Rows, pooling: Pooling) -> Tensor:
    """A vector for each text, in fp32."""
    if pooling not in get_args(Pooling):
        raise InvalidInputError(
            f"pooling {pooling!r}", hint=f"Valid names: {', '.join(get_args(Pooling))}."
        )
    if pooling == "cls":
        return hidden[rows.edges[:-1]].float()
    if pooling == "last":
        return hidden[rows.edges[1:] - 1].float()
    size = (len(rows.lengths), hidden.shape[1])
    if pooling == "max":
        least = torch.full(size, -torch.inf, device=hidden.device)
        index = rows.owners[:, None].expand_as(hidden)
        return least.scatter_reduce(0, index, hidden.float(), "amax")
    lengths = rows.counts[:, None].float()
    total = torch.segment_reduce(hidden.float(), "sum", lengths=rows.counts, axis=0)
    return total / (lengths if pooling == "mean" else lengths.sqrt())


def load_encoder(folder: Path, device: torch.device, dtype: torch.dtype) -> PackedEncoder:
    """The encoder of a folder. No code of the folder is run."""
    shape, weights = read_encoder(folder)
    return PackedEncoder(shape, weights, device, dtype)


def _place_weights(
    weights: EncoderWeights[Array], device: torch.device, dtype: torch.dtype
) -> EncoderWeights[Tensor]:
    """On a device: matrices in a precision, what is added or scales in fp32."""

    def move(name: str, value: Array) -> Tensor:
        wide = "norm" in name or name in ("positions", "types", "scale")
        made = torch.from_numpy(np.require(value, requirements=["C", "W"]))
        return made.to(device=device, dtype=torch.float32 if wide else dtype)

    if weights.scale is not None:
        words = weights.words.astype(np.float32) * weights.scale
        weights = replace(weights, words=words, scale=None)
    return weights.map_arrays(move)


def _has_varlen(shape: EncoderShape, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether Flash Attention takes this: half precision, a GPU that has it, no bias."""
    if device.type != "cuda" or dtype not in (torch.float16, torch.bfloat16) or shape.buckets:
        return False
    try:
        from inspect import signature

        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return False
    windows = "window_size" in signature(varlen_attn).parameters
    return torch.cuda.get_device_capability(device) >= (8, 0) and (windows or not shape.window)


def _angles(shape: EncoderShape, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines by place, in fp32."""
    steps = torch.arange(0, shape.head, 2, device=device, dtype=torch.float32) / shape.head
    places = torch.arange(shape.longest, device=device, dtype=torch.float32)
    angles = places[:, None] * (1.0 / theta**steps)[None, :]
    both = torch.cat([angles, angles], dim=-1)
    return both.cos()[:, None, :], both.sin()[:, None, :]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, in fp32."""
    wide = x.float()
    one, other = wide.chunk(2, dim=-1)
    return (wide * cos + torch.cat([-other, one], dim=-1) * sin).to(x.dtype)
