"""Kokoro from frames to samples: pitch and loudness, the decoder, the generator.

A unit of duration is a frame; pitch and loudness have two steps a frame, and the generator ends in
spectra of 120 a frame and one more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from anyrig.speech.models.convolve import (
    Conv,
    Kind,
    Silence,
    Upsample,
    Weights,
    spans,
    to_device,
)
from anyrig.speech.models.kokoro_blocks import Extent, ResBlock, SnakeBlock
from anyrig.speech.models.kokoro_source import Shape, Source, Transform
from anyrig.speech.models.kokoro_text import Lstm


class Rows:
    """Rows of frames, the longest first, and how far each goes at any rate."""

    def __init__(self, frames: Sequence[int], device: torch.device) -> None:
        self.frames, self._device = list(frames), device
        self._known: dict[tuple[int, int], Extent] = {}

    def at(self, rate: int, more: int = 0) -> Extent:
        """At so many steps a frame, and some more at the end."""
        if (rate, more) not in self._known:
            self._known[rate, more] = self._extent(rate, more)
        return self._known[rate, more]

    def _extent(self, rate: int, more: int) -> Extent:
        lengths = np.array(self.frames, np.int64) * rate + more
        size, num = int(lengths[0]), len(lengths)
        full = bool(lengths[-1] == size)
        ends = to_device(lengths, self._device)
        counts = ends.float().unsqueeze(1)
        if full:
            return Extent(counts, ends, Silence(None), True)
        starts = np.arange(num) * size
        beyond = spans(list(starts + lengths), list(starts + size))
        return Extent(counts, ends, Silence(to_device(beyond, self._device)), False)

    def lengths(self, rate: int, more: int = 0) -> torch.Tensor:
        """How far each goes, as whole numbers."""
        return self.at(rate, more).ends


class Curves:
    """Pitch and loudness of each half frame, in fp32."""

    def __init__(self, weights: Weights, kind: Kind) -> None:
        self._shared = Lstm(weights.at("shared"), kind)
        self._blocks = [
            [ResBlock(weights.at(name, n), kind, doubles=n == 1) for n in range(3)]
            for name in ("F0", "N")
        ]
        self._last = [Conv.of(weights.at(name), kind) for name in ("F0_proj", "N_proj")]

    def __call__(
        self, told: torch.Tensor, style: torch.Tensor, rows: Rows
    ) -> tuple[torch.Tensor, ...]:
        """[rows, 2 * frames] each, zero beyond a row's end."""
        shared = self._shared(told, rows.frames)
        return tuple(
            self._curve(shared, style, rows, blocks, last)
            for blocks, last in zip(self._blocks, self._last, strict=True)
        )

    def _curve(
        self, x: torch.Tensor, style: torch.Tensor, rows: Rows, blocks: list[ResBlock], last: Conv
    ) -> torch.Tensor:
        now, then = rows.at(1), rows.at(2)
        x = blocks[0](x, style, now, now)
        x = blocks[1](x, style, now, then)
        x = blocks[2](x, style, then, then)
        return then.silence(last(x).contiguous())[..., 0]


class Decoder:
    """From what is told of each frame to what the generator makes sound of."""

    def __init__(self, weights: Weights, kind: Kind) -> None:
        self._kind = kind
        self._halved = [
            (layer.weight().to(kind.device), layer.get("bias").to(kind.device))
            for layer in (weights.at("F0_conv"), weights.at("N_conv"))
        ]
        self._narrow = Conv.of(weights.at("asr_res", 0), kind)
        self._encode = ResBlock(weights.at("encode"), kind)
        self._decode = [ResBlock(weights.at("decode", n), kind, doubles=n == 3) for n in range(4)]

    def __call__(
        self, told: torch.Tensor, curves: Sequence[torch.Tensor], style: torch.Tensor, rows: Rows
    ) -> torch.Tensor:
        """[rows, 2 * frames, channels]"""
        now, then = rows.at(1), rows.at(2)
        told = told.to(self._kind.dtype)
        halved = [
            F.conv1d(curve.unsqueeze(1), *layer, stride=2, padding=1).transpose(1, 2)
            for curve, layer in zip(curves, self._halved, strict=True)
        ]
        beside = torch.cat([curve.to(told.dtype) for curve in halved], dim=2)
        narrow = torch.cat((self._narrow(told), beside), dim=2)
        x = self._joined(self._encode, (told, beside), style, now, now)
        for block in self._decode:
            x = self._joined(block, (x, narrow), style, now, then if block.doubles else now)
        return x

    def _joined(
        self, block: ResBlock, parts: Sequence[torch.Tensor], style: torch.Tensor,
        now: Extent, then: Extent,
    ) -> torch.Tensor:  # fmt: skip
        first = parts[0]
        filler = first.new_zeros(*first.shape[:2], block.pad)
        return block(now.silence(torch.cat((*parts, filler), dim=2)), style, now, then)


class _Stage(NamedTuple):
    up: Upsample
    heard: Conv
    """Of the source."""
    source: SnakeBlock
    blocks: list[SnakeBlock]
    bias: torch.Tensor
    """Of all its layers: every block passes on what is added to a whole channel, and its norms do
    not see it, so that it is added once."""


class Generator:
    """From half frames and pitch to samples."""

    def __init__(self, weights: Weights, settings: dict[str, Any], kind: Kind) -> None:
        rates, size = settings["upsample_rates"], settings["gen_istft_n_fft"]
        self._kind, self._rates = kind, list(rates)
        self.hop: int = settings["gen_istft_hop_size"]
        shape = Shape(size, self.hop, math.prod(rates) * self.hop)
        self._source = Source(weights.at("m_source"), shape, kind)
        self._transform = Transform(shape, kind)
        self._channels, self._fill = size + 2, -(size + 2) % 8
        self._stages = [self._stage(weights, settings, number) for number in range(len(rates))]
        last, mean = weights.at("conv_post"), 1.0 / len(settings["resblock_kernel_sizes"])
        self._last = Conv(
            F.pad(last.weight() * mean, (0, 0, 0, 0, 0, self._fill)),
            F.pad(last.get("bias"), (0, self._fill)), kind,
        )  # fmt: skip

    def _stage(self, weights: Weights, settings: dict[str, Any], number: int) -> _Stage:
        kinds = settings["resblock_dilation_sizes"]
        follow = math.prod(self._rates[number + 1 :])
        heard = weights.at("noise_convs", number)
        # The mean of the blocks before is in the weights: leaky ReLU lets a factor through.
        scale = 1.0 / len(kinds) if number else 1.0
        up = weights.at("ups", number)
        source = SnakeBlock(weights.at("noise_res", number), (1, 3, 5), self._kind)
        blocks = [
            SnakeBlock(weights.at("resblocks", number * len(kinds) + inner), dilations, self._kind)
            for inner, dilations in enumerate(kinds)
        ]
        bias = (up.get("bias") + heard.get("bias") + source.bias) * len(blocks)
        bias = bias + torch.stack([block.bias for block in blocks]).sum(0)
        return _Stage(
            Upsample(up, self._kind, stride=self._rates[number], scale=scale),
            Conv(F.pad(heard.weight(), (0, 0, 0, self._fill)), None, self._kind,
                 stride=follow, padding=(follow + 1) // 2 if follow > 1 else 0),
            source, blocks, self._kind.put(bias),
        )  # fmt: skip

    def __call__(
        self, x: torch.Tensor, pitch: torch.Tensor, style: torch.Tensor, rows: Rows,
        seeds: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        """[rows, samples] in fp32."""
        buzz = self._buzz(pitch, rows, seeds)
        rate = 2
        for number, stage in enumerate(self._stages):
            rate *= self._rates[number]
            last = number == len(self._stages) - 1
            extent = rows.at(rate, 1 if last else 0)
            x = stage.up.bare(F.leaky_relu_(x, 0.1))
            if last:  # one more in front, mirrored
                x = torch.cat((x[:, 1:2], x), dim=1)
            heard = stage.source(extent.silence(stage.heard(buzz)), style, extent)
            x = extent.silence(heard.add_(x))
            x = _sum([block(x, style, extent) for block in stage.blocks])
            x = extent.silence(x.add_(stage.bias))
        told = self._last(F.leaky_relu_(x))[..., : self._channels].float()
        frames = rows.lengths(rate, 1)
        return self._transform.backward(told, frames, rows.at(rate, 1).silence)

    def _buzz(self, pitch: torch.Tensor, rows: Rows, seeds: torch.Tensor | None) -> torch.Tensor:
        """The source's spectra, with channels to make up a multiple of eight."""
        rate = 2 * math.prod(self._rates)
        sound = self._source(pitch, seeds, rows.at(2).silence)
        spectra = self._transform.forward(sound, rows.lengths(rate * self.hop))
        spectra = rows.at(rate, 1).silence(F.pad(spectra, (0, self._fill)))
        return spectra.to(self._kind.dtype)


def _sum(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total.add_(part)
    return total
