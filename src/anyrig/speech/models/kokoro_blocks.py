"""The blocks of Kokoro's predictor and decoder, for rows of unequal length.

Its norms look at a whole row, so what lies beyond a row's end must neither be counted nor be heard.
It is zero wherever a mean is taken or a convolution hears it; the mean knows the true length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F

from anyrig.speech.models.convolve import Conv, Kind, Silence, Weights

_EPS = 1e-5


class Extent(NamedTuple):
    """How far each row of a padded tensor goes."""

    counts: torch.Tensor
    """[rows, 1], in fp32."""
    ends: torch.Tensor
    """[rows], as whole numbers."""
    silence: Silence
    """Zeroes what is beyond."""
    full: bool
    """Whether every row goes to the end."""


class Adain:
    """A norm over a row's time, whose scale and shift come from the style."""

    def __init__(self, weights: Weights, kind: Kind, pad: int = 0) -> None:
        told = weights.get("fc.weight"), weights.get("fc.bias")
        size = told[0].shape[0] // 2
        own = [weights.get(f"norm.{n}") if f"norm.{n}" in weights else None
               for n in ("weight", "bias")]  # fmt: skip
        scale = torch.ones(size) if own[0] is None else own[0]
        shift = torch.zeros(size) if own[1] is None else own[1]
        # (1 + a) * (scale * x + shift) + b, both parts straight from the style.
        first, second = (part.chunk(2) for part in told)
        matrix = torch.stack((first[0] * scale[:, None], first[0] * shift[:, None] + first[1]))
        bias = torch.stack((scale * (1 + second[0]), shift * (1 + second[0]) + second[1]))
        self._matrix = F.pad(matrix, (0, 0, 0, pad)).flatten(0, 1).to(kind.device)
        self._bias = F.pad(bias, (0, pad)).flatten().to(kind.device)

    def __call__(
        self, x: torch.Tensor, style: torch.Tensor, extent: Extent
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What x is to be multiplied by and what added: [rows, 1, channels] each, in fp32."""
        scale, shift = F.linear(style, self._matrix, self._bias).chunk(2, dim=1)
        mean, variance = _moments(x, extent)
        scale = scale * torch.rsqrt(variance + _EPS)
        return scale.unsqueeze(1), (shift - mean * scale).unsqueeze(1)


def _moments(x: torch.Tensor, extent: Extent) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance over each row's time, [rows, channels] in fp32; zero beyond its end."""
    if x.dtype == torch.float32:
        variance, mean = torch.var_mean(x, dim=1, correction=0)
        if extent.full:
            return mean, variance
        share = x.shape[1] / extent.counts
        true = mean * share
        # Of all steps around the true mean, less what the zeros beyond the end give to that.
        spread = share * (variance + torch.square(mean - true)) - (share - 1) * torch.square(true)
        return true, spread.clamp(min=0)
    total, squares = sums(x)
    mean = total / extent.counts
    return mean, (squares / extent.counts - torch.square(mean)).clamp(min=0)


def sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row's steps and of their squares, in fp32 without a copy in fp32."""
    length = torch.linalg.vector_norm(x, dim=1, dtype=torch.float32)
    return x.sum(dim=1, dtype=torch.float32), torch.square(length)


def scaled_leaky(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """A leaky ReLU of what the norm gives."""
    return F.leaky_relu_(torch.addcmul(shift.to(x.dtype), x, scale.to(x.dtype)), 0.2)


def snake(
    x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, alpha: torch.Tensor, extent: Extent
) -> torch.Tensor:
    """y + sin(alpha * y)^2 / alpha of what the norm gives, zero beyond each row's end.

    In few passes: the square of the sine is (1 - cos(2 * alpha * y)) / 2.
    """
    twice, half = 2 * alpha, 0.5 / alpha
    wave = torch.addcmul((shift * twice).to(x.dtype), x, (scale * twice).to(x.dtype)).cos_()
    done = torch.addcmul((shift + half).to(x.dtype), x, scale.to(x.dtype))
    return extent.silence(done.addcmul_(wave, (-half).to(x.dtype)))


def quick_snake(
    x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, alpha: torch.Tensor, extent: Extent
) -> torch.Tensor:
    """The same in one pass, by a kernel of our own."""
    from anyrig.speech.models.triton_kernels import snake as in_one_pass

    return in_one_pass(x, scale, shift, alpha, extent.ends)


class SnakeBlock:
    """Three rounds of norm, snake and convolution, twice each, around a residual.

    A norm takes away whatever is added to a whole channel, so a bias in front of one does nothing:
    none is added inside, and `bias` is what the block's output lacks.
    """

    def __init__(self, weights: Weights, dilations: Sequence[int], kind: Kind) -> None:
        self._rounds = []
        self._snake = quick_snake if kind.quick else snake
        for number, dilation in enumerate(dilations):
            self._rounds += [[
                (Adain(weights.at(f"adain{half}", number), kind),
                 weights.get(f"alpha{half}.{number}").reshape(1, 1, -1).to(kind.device),
                 Conv.of(weights.at(f"convs{half}", number), kind, dilation=spaced))
                for half, spaced in ((1, dilation), (2, 1))
            ]]  # fmt: skip
        biases = [weights.get(f"convs2.{number}.bias") for number in range(len(dilations))]
        self.bias = torch.stack(biases).sum(0)

    def __call__(self, x: torch.Tensor, style: torch.Tensor, extent: Extent) -> torch.Tensor:
        """Zero beyond each row's end, as x must be."""
        for halves in self._rounds:
            inner = x
            for norm, alpha, conv in halves:
                heard = self._snake(inner, *norm(inner, style, extent), alpha, extent)
                inner = extent.silence(conv.bare(heard))
            x = inner.add_(x)
        return x


class ResBlock:
    """Norm, leaky ReLU and convolution, twice, around a residual; some double the rate.

    Channels are filled up with zeros to a multiple of eight, which the fast kernels ask for.
    """

    def __init__(self, weights: Weights, kind: Kind, *, doubles: bool = False) -> None:
        first = weights.at("conv1").weight()
        self.pad = -first.shape[1] % 8
        self.doubles = doubles
        wide = (0, 0, 0, self.pad)
        self._norms = (Adain(weights.at("norm1"), kind, self.pad), Adain(weights.at("norm2"), kind))
        self._first = Conv(F.pad(first, wide), weights.at("conv1").bias(), kind)
        self._second = Conv.of(weights.at("conv2"), kind)
        self._short: Conv | None = None
        if "conv1x1.weight_v" in weights or "conv1x1.weight" in weights:
            self._short = Conv(F.pad(weights.at("conv1x1").weight(), wide), None, kind)
        self._pool: list[torch.Tensor] = []
        if doubles:
            pool = weights.at("pool")
            taps = F.pad(pool.weight()[:, 0], (0, 0, 0, self.pad)).T
            bias = F.pad(pool.get("bias"), (0, self.pad))
            self._pool = [kind.put(part) for part in (*taps, bias)]

    def __call__(
        self, x: torch.Tensor, style: torch.Tensor, extent: Extent, after: Extent
    ) -> torch.Tensor:
        """Zero beyond each row's end; `after` says how far they go when the rate has doubled."""
        heard = extent.silence(scaled_leaky(x, *self._norms[0](x, style, extent)))
        if self.doubles:
            heard, x = self._doubled(heard), x.repeat_interleave(2, dim=1)
            after.silence(heard)
        inner = after.silence(self._first.bare(heard))  # the norm would take the bias away
        inner = after.silence(scaled_leaky(inner, *self._norms[1](inner, style, after)))
        short = x if self._short is None else self._short(x)
        return after.silence(self._second(inner).add_(short).mul_(math.sqrt(0.5)))

    def _doubled(self, x: torch.Tensor) -> torch.Tensor:
        """A transposed convolution of each channel by itself: three taps, two steps."""
        before, now, behind, bias = self._pool
        following = F.pad(x[:, 1:], (0, 0, 0, 1))
        odd = torch.addcmul(torch.addcmul(bias, x, behind), following, before)
        return torch.stack((torch.addcmul(bias, x, now), odd), dim=2).flatten(1, 2)
