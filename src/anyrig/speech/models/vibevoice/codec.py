"""Audio and latents: causal convolutions that continue from where the last part ended.

Channels come last (row, time, channel), so that norms and products need no transposing. Every dense
convolution is a product of a window with a matrix: a kernel of twice the stride sees two blocks,
and a transposed one gives a block from two steps. What a part leaves for the next one, of all
layers together, is one vector per row (`ConvState`): it is stored, masked and moved as one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.layers import has_triton
from anyrig.speech.models.vibevoice.checkpoint import CodecShape


class LazyWeights:
    """Tensors under a prefix. Each is read on demand, so a model is never in memory twice."""

    def __init__(
        self,
        read: Callable[[str], Tensor],
        device: torch.device,
        dtype: torch.dtype,
        prefix: str = "",
    ) -> None:
        self._read = read
        self.device = device
        self.dtype = dtype
        self.prefix = prefix

    def __getitem__(self, name: str) -> Tensor:
        """A tensor, in the model's format."""
        return self.read_fp32(name).to(self.dtype)

    def read_fp32(self, name: str) -> Tensor:
        """A tensor in single precision, for what is computed before it is rounded."""
        return self._read(self.prefix + name).detach().to(self.device, torch.float32)

    def under(self, prefix: str) -> LazyWeights:
        """The tensors whose names begin so."""
        return LazyWeights(self._read, self.device, self.dtype, f"{self.prefix}{prefix}.")

    def concatenate(self, *names: str) -> Tensor:
        """Several matrices of one input as one: one kernel instead of several."""
        return torch.cat([self[name] for name in names])


class ConvState:
    """What the part before left, read layer by layer, and what this one leaves (`after`)."""

    def __init__(self, before: Tensor) -> None:
        self._before = before
        self._offset = 0
        self.after = torch.empty_like(before)

    def take(self, size: int) -> tuple[Tensor, Tensor]:
        """A layer's part of the state, to be read and to be written."""
        part = slice(self._offset, self._offset + size)
        self._offset += _align(size)
        return self._before[:, part], self.after[:, part]

    def extend(self, x: Tensor, steps: int) -> Tensor:
        """`x` with some steps of the part before it in front."""
        channels = x.shape[-1]
        before, after = (part.view(-1, steps, channels) for part in self.take(steps * channels))
        full = torch.cat((before, x), dim=1)
        after.copy_(full[:, full.shape[1] - steps :])
        return full


def _align(size: int) -> int:
    """Elements that a layer's state takes: the next one's begins where wide loads can."""
    return -(-size // 16) * 16


class CausalConv:
    """A causal convolution as a product with windows."""

    def __init__(self, weights: LazyWeights, kernel: int, stride: int = 1) -> None:
        weight = weights["weight"]
        self.kernel, self.stride, self.context = kernel, stride, kernel - stride
        self.state_size = self.context * weight.shape[1]
        self._weight, self._bias = weight.flatten(1), weights["bias"]

    def __call__(self, x: Tensor, state: ConvState) -> Tensor:
        windows = state.extend(x, self.context).unfold(1, self.kernel, self.stride)
        return F.linear(windows.flatten(2), self._weight, self._bias)


class ConvTranspose:
    """A causal transposed convolution whose kernel is twice its stride."""

    def __init__(self, weights: LazyWeights, stride: int) -> None:
        weight = weights["weight"]
        self.state_size = weight.shape[0]
        blocks = weight.permute(2, 1, 0)
        now, before = blocks[:stride].flatten(0, 1), blocks[stride:].flatten(0, 1)
        # In a window the earlier step comes first.
        self._weight = torch.cat((before, now), dim=1)
        self._bias = weights["bias"].repeat(stride)
        self._stride = stride

    def __call__(self, x: Tensor, state: ConvState) -> Tensor:
        full = state.extend(x, 1)
        pairs = torch.cat((full[:, :-1], full[:, 1:]), dim=-1)
        blocks = F.linear(pairs, self._weight, self._bias)
        return blocks.reshape(len(x), x.shape[1] * self._stride, -1)


class BlockWeights(NamedTuple):
    """Of a block; gains are folded in, and the depthwise convolution is tap by channel."""

    norm: Tensor
    depthwise: Tensor
    bias: Tensor
    ffn_norm: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor
    eps: float


class CodecBlock:
    """A depthwise convolution and two products, each around a residual.

    The gains behind both are folded into their weights.
    """

    def __init__(self, weights: LazyWeights, shape: CodecShape) -> None:
        gamma, ffn_gamma = weights.read_fp32("gamma"), weights.read_fp32("ffn_gamma")
        dtype, mixer, ffn = weights.dtype, weights.under("mixer.conv"), weights.under("ffn")
        self._weights = BlockWeights(
            norm=weights["norm.weight"],
            depthwise=(mixer.read_fp32("weight") * gamma[:, None, None])[:, 0]
            .t()
            .to(dtype)
            .contiguous(),
            bias=(mixer.read_fp32("bias") * gamma).to(dtype),
            ffn_norm=weights["ffn_norm.weight"],
            up=ffn["linear1.weight"],
            up_bias=ffn["linear1.bias"],
            down=(ffn.read_fp32("linear2.weight") * ffn_gamma[:, None]).to(dtype),
            down_bias=(ffn.read_fp32("linear2.bias") * ffn_gamma).to(dtype),
            eps=shape.eps,
        )
        channels, self._context = gamma.shape[0], shape.kernel - 1
        self.state_size = self._context * channels
        # A kernel handles all channels of a step, and Triton counts in powers of two.
        self._fused = has_triton(weights.device) and channels >= 16 and channels.bit_count() == 1

    def __call__(self, x: Tensor, state: ConvState) -> Tensor:
        weights = self._weights
        if self._fused:
            from anyrig.speech.models.vibevoice.triton_kernels import run_block

            return run_block(x.contiguous(), *state.take(self.state_size), weights)
        normed = F.rms_norm(x, x.shape[-1:], weights.norm, weights.eps)
        full = state.extend(normed, self._context).transpose(1, 2)
        mixed = F.conv1d(full, weights.depthwise.t()[:, None], weights.bias, groups=full.shape[1])
        x = x + mixed.transpose(1, 2)
        normed = F.rms_norm(x, x.shape[-1:], weights.ffn_norm, weights.eps)
        hidden = F.gelu(F.linear(normed, weights.up, weights.up_bias))
        return x + F.linear(hidden, weights.down, weights.down_bias)


_Layer = CausalConv | ConvTranspose | CodecBlock


class _CausalStack:
    """Layers one after the other, with one state for all."""

    def __init__(self, parts: Sequence[_Layer], like: Tensor) -> None:
        self._parts = parts
        self._like = like
        self.state_size = sum(_align(part.state_size) for part in parts)

    def zero_state(self, rows: int) -> Tensor:
        """The state before the first part."""
        return torch.zeros(rows, self.state_size, dtype=self._like.dtype, device=self._like.device)

    def __call__(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """The next part, and the state after it."""
        state = ConvState(before)
        for part in self._parts:
            x = part(x, state)
        return x, state.after


class CodecEncoder(_CausalStack):
    """Audio (row, samples, 1) to features, one a frame."""

    def __init__(self, shape: CodecShape, weights: LazyWeights) -> None:
        parts: list[_Layer] = [CausalConv(weights.under("stem.conv.conv"), shape.kernel)]
        parts += _list_blocks(weights.under("stem"), shape, shape.depths[0])
        for n, ratio in enumerate(shape.ratios):
            under = weights.under(f"conv_layers.{n}")
            parts.append(CausalConv(under.under("conv.conv"), 2 * ratio, ratio))
            parts += _list_blocks(under, shape, shape.depths[n + 1])
        parts.append(CausalConv(weights.under("head.conv"), shape.kernel))
        super().__init__(parts, weights["head.conv.bias"])


class CodecDecoder(_CausalStack):
    """Latents (row, frames, size) to audio."""

    def __init__(self, shape: CodecShape, weights: LazyWeights) -> None:
        depths, ratios = shape.depths[::-1], shape.ratios[::-1]
        parts: list[_Layer] = [CausalConv(weights.under("stem.conv.conv"), shape.kernel)]
        parts += _list_blocks(weights.under("stem"), shape, depths[0])
        for n, ratio in enumerate(ratios):
            under = weights.under(f"conv_layers.{n}")
            parts.append(ConvTranspose(under.under("convtr.convtr"), ratio))
            parts += _list_blocks(under, shape, depths[n + 1])
        parts.append(CausalConv(weights.under("head.conv"), shape.kernel))
        super().__init__(parts, weights["head.conv.bias"])


def _list_blocks(weights: LazyWeights, shape: CodecShape, count: int) -> list[_Layer]:
    return [CodecBlock(weights.under(f"stage.{n}"), shape) for n in range(count)]
