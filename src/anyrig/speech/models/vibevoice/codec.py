"""Sound and latents: causal convolutions that go on from where the last piece ended.

Vectors stand last (row, time, channel), so that norms and products need no turning. Every dense
convolution here is a product of a window with a matrix: a kernel of twice the stride sees two
blocks, and a transposed one gives a block from two steps. What a piece leaves for the next one, of
all layers together, is one vector a row (`Tape`): it is kept, masked and moved as one tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from anyrig.speech.models.vibevoice.shape import CodecShape
from anyrig.speech.models.vibevoice.weights import Weights


class Tape:
    """What the piece before left, read layer by layer, and what this one leaves."""

    def __init__(self, past: Tensor) -> None:
        self._past = past
        self._at = 0
        self._left: list[Tensor] = []

    def extend(self, x: Tensor, steps: int) -> Tensor:
        """`x` with so many steps of the piece before it in front."""
        channels = x.shape[-1]
        past = self._past[:, self._at : self._at + steps * channels]
        self._at += steps * channels
        full = torch.cat((past.view(-1, steps, channels), x), dim=1)
        self._left.append(full[:, full.shape[1] - steps :].flatten(1))
        return full

    def left(self) -> Tensor:
        """For the next piece."""
        return torch.cat(self._left, dim=1)


class Conv:
    """A causal convolution as a product with windows."""

    def __init__(self, weights: Weights, kernel: int, stride: int = 1) -> None:
        weight = weights["weight"]
        self.kernel, self.stride, self.back = kernel, stride, kernel - stride
        self.memory = self.back * weight.shape[1]
        self._weight, self._bias = weight.flatten(1), weights["bias"]

    def __call__(self, x: Tensor, tape: Tape) -> Tensor:
        """The next steps."""
        windows = tape.extend(x, self.back).unfold(1, self.kernel, self.stride)
        return F.linear(windows.flatten(2), self._weight, self._bias)


class Upward:
    """A causal transposed convolution whose kernel is twice its stride."""

    def __init__(self, weights: Weights, stride: int) -> None:
        weight = weights["weight"]
        self.memory = weight.shape[0]
        blocks = weight.permute(2, 1, 0)
        now, before = blocks[:stride].flatten(0, 1), blocks[stride:].flatten(0, 1)
        # The step before stands first in a window.
        self._weight = torch.cat((before, now), dim=1)
        self._bias = weights["bias"].repeat(stride)
        self._stride = stride

    def __call__(self, x: Tensor, tape: Tape) -> Tensor:
        """A block of steps for each."""
        full = tape.extend(x, 1)
        pairs = torch.cat((full[:, :-1], full[:, 1:]), dim=-1)
        made = F.linear(pairs, self._weight, self._bias)
        return made.reshape(len(x), x.shape[1] * self._stride, -1)


class Block:
    """A depthwise convolution and two products, each added to what came in.

    The gains behind both are folded into their weights.
    """

    def __init__(self, weights: Weights, shape: CodecShape) -> None:
        gain, ffn_gain = weights.exact("gamma"), weights.exact("ffn_gamma")
        dtype, mixer, ffn = weights.dtype, weights.under("mixer.conv"), weights.under("ffn")
        self._norm, self._ffn_norm = weights["norm.weight"], weights["ffn_norm.weight"]
        self._taps = (mixer.exact("weight") * gain[:, None, None]).to(dtype)
        self._bias = (mixer.exact("bias") * gain).to(dtype)
        self._wide, self._wide_bias = ffn["linear1.weight"], ffn["linear1.bias"]
        self._narrow = (ffn.exact("linear2.weight") * ffn_gain[:, None]).to(dtype)
        self._narrow_bias = (ffn.exact("linear2.bias") * ffn_gain).to(dtype)
        self._eps, self._back = shape.eps, shape.kernel - 1
        self.memory = self._back * gain.shape[0]

    def __call__(self, x: Tensor, tape: Tape) -> Tensor:
        """As many steps as came in."""
        normed = F.rms_norm(x, x.shape[-1:], self._norm, self._eps)
        full = tape.extend(normed, self._back).transpose(1, 2)
        mixed = F.conv1d(full, self._taps, self._bias, groups=full.shape[1])
        x = x + mixed.transpose(1, 2)
        normed = F.rms_norm(x, x.shape[-1:], self._ffn_norm, self._eps)
        wide = F.gelu(F.linear(normed, self._wide, self._wide_bias))
        return x + F.linear(wide, self._narrow, self._narrow_bias)


class _Chain:
    """Layers one after the other, with one tape."""

    def __init__(self, parts: Sequence[Conv | Upward | Block], like: Tensor) -> None:
        self._parts = parts
        self._like = like
        self.memory = sum(part.memory for part in parts)

    def silence(self, rows: int) -> Tensor:
        """What stands before the first piece."""
        return torch.zeros(rows, self.memory, dtype=self._like.dtype, device=self._like.device)

    def __call__(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """The next piece, and what it leaves for the one after it."""
        tape = Tape(past)
        for part in self._parts:
            x = part(x, tape)
        return x, tape.left()


class Encoder(_Chain):
    """Sound (row, samples, 1) to features, one a frame."""

    def __init__(self, shape: CodecShape, weights: Weights) -> None:
        parts: list[Conv | Upward | Block] = [Conv(weights.under("stem.conv.conv"), shape.kernel)]
        parts += _blocks(weights.under("stem"), shape, shape.depths[0])
        for n, ratio in enumerate(shape.ratios):
            under = weights.under(f"conv_layers.{n}")
            parts.append(Conv(under.under("conv.conv"), 2 * ratio, ratio))
            parts += _blocks(under, shape, shape.depths[n + 1])
        parts.append(Conv(weights.under("head.conv"), shape.kernel))
        super().__init__(parts, weights["head.conv.bias"])


class Decoder(_Chain):
    """Latents (row, frames, size) to sound."""

    def __init__(self, shape: CodecShape, weights: Weights) -> None:
        depths, ratios = shape.depths[::-1], shape.ratios[::-1]
        parts: list[Conv | Upward | Block] = [Conv(weights.under("stem.conv.conv"), shape.kernel)]
        parts += _blocks(weights.under("stem"), shape, depths[0])
        for n, ratio in enumerate(ratios):
            under = weights.under(f"conv_layers.{n}")
            parts.append(Upward(under.under("convtr.convtr"), ratio))
            parts += _blocks(under, shape, depths[n + 1])
        parts.append(Conv(weights.under("head.conv"), shape.kernel))
        super().__init__(parts, weights["head.conv.bias"])


def _blocks(weights: Weights, shape: CodecShape, count: int) -> list[Conv | Upward | Block]:
    return [Block(weights.under(f"stage.{n}"), shape) for n in range(count)]
