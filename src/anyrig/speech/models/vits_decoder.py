"""VITS from latents to audio: the flow and the HiFi-GAN vocoder, over packed rows.

Rows of frames lie one behind the other in lanes of one length, with short gaps. A vocoder reads
only a few frames to each side, so rows need not be padded to the longest: they share a lane, and
the steps beside a row are zeroed before every convolution, which is what a row has beside itself
when it is alone. Each then comes out as it would alone, to its last sample. Weight norm is joined
for good, and the mean over residual blocks is part of the next layer's weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from anyrig.speech.models.layers import (
    Conv,
    NamedTensors,
    PaddingMask,
    TensorFormat,
    Upsample,
    expand_ranges,
    to_device,
)

# Lanes come in few lengths: each new one makes the device's libraries search for kernels again.
_ROUND = 256


class RowPlace(NamedTuple):
    """Where a row lies."""

    row: int
    lane: int
    start: int
    """Its first frame."""


class Lanes(NamedTuple):
    """Rows in lanes."""

    places: tuple[RowPlace, ...]
    num_lanes: int
    length: int
    """Of every lane, in frames."""

    def frame_positions(self, frames: Sequence[int]) -> NDArray[np.int64]:
        """The places of all frames of all rows, in the order of `places`, lanes end to end."""
        starts = [place.lane * self.length + place.start for place in self.places]
        lengths = [frames[place.row] for place in self.places]
        return expand_ranges(
            starts, [start + length for start, length in zip(starts, lengths, strict=False)]
        )

    def padding_mask(
        self, frames: Sequence[int], rate: int, margin: int, device: torch.device
    ) -> PaddingMask:
        """What to zero at `rate` steps a frame, for convolutions that read `margin` steps away."""
        size = self.length * rate
        starts, ends = [], []
        for place in self.places:
            base, first = place.lane * size, place.start * rate
            last = first + frames[place.row] * rate
            starts += [base + max(0, first - margin), base + last]
            ends += [base + first, base + min(size, last + margin)]
        positions = np.unique(expand_ranges(starts, ends))
        return PaddingMask(to_device(positions, device) if len(positions) else None)


def pack_rows(frames: Sequence[int], gap: int, most: int) -> list[Lanes]:
    """Blocks of lanes that hold all rows, each of at most `most` frames unless a row is longer.

    Args:
        frames: how many each row has.
        gap: between rows of a lane.
        most: of a block, gaps and all.
    """
    order = sorted(range(len(frames)), key=lambda row: -frames[row])
    blocks = []
    while order:
        length = _lane_length(frames[order[0]], sum(frames[row] + gap for row in order) - gap, most)
        lanes = max(1, most // length)
        block, order = _fill_lanes(order, frames, gap, length, lanes)
        blocks.append(block)
    return blocks


def _lane_length(longest: int, total: int, most: int) -> int:
    """As long as the longest row, or twice that, so that little is left over at its end."""
    length = min(total, max(longest, min(2 * longest, most)))
    return -(-length // _ROUND) * _ROUND if length > _ROUND else length


def _fill_lanes(
    order: Sequence[int], frames: Sequence[int], gap: int, length: int, lanes: int
) -> tuple[Lanes, list[int]]:
    """A block of the rows that fit, longest first, and the rows that are left."""
    free: list[int] = []
    places, left = [], []
    for row in order:
        need = frames[row]
        lane = next((number for number, space in enumerate(free) if space >= need), None)
        if lane is None and len(free) < lanes:
            lane = len(free)
            free.append(length)
        if lane is None:
            left.append(row)
            continue
        places.append(RowPlace(row, lane, length - free[lane]))
        free[lane] -= need + gap
    return Lanes(tuple(places), len(free), length), left


# -- flow and vocoder ------------------------------------------------------------------------------


class CouplingFlow:
    """The coupling layers backwards: from the prior of the text to the latents of the vocoder."""

    def __init__(self, weights: NamedTensors, config: Any, format: TensorFormat) -> None:
        self._layers = [
            _Coupling(weights.at("flows", number), config, format)
            for number in range(config.prior_encoder_num_flows)
        ]
        self.margin = max(layer.margin for layer in self._layers)

    def __call__(
        self, x: torch.Tensor, mask: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        """Latents of [lanes, frames, channels]; `mask` is 0 beside rows."""
        for layer in reversed(self._layers):
            x = layer(x.flip(2), mask, speakers)
        return x


class _Coupling:
    """Half of the channels predict what is subtracted from the others."""

    def __init__(self, weights: NamedTensors, config: Any, format: TensorFormat) -> None:
        net = weights.at("wavenet")
        self._half, self._hidden = config.flow_size // 2, config.hidden_size
        self._pre = Conv.of(weights.at("conv_pre"), format)
        self._post = Conv.of(weights.at("conv_post"), format)
        self._gates, self._outs = [], []
        for number in range(config.prior_encoder_num_wavenet_layers):
            dilation = config.wavenet_dilation_rate**number
            self._gates.append(Conv.of(net.at("in_layers", number), format, dilation=dilation))
            self._outs.append(Conv.of(net.at("res_skip_layers", number), format))
        spoken = config.speaker_embedding_size != 0
        self._speaker = Conv.of(net.at("cond_layer"), format) if spoken else None
        self.margin = max(conv.padding for conv in self._gates)

    def __call__(
        self, x: torch.Tensor, mask: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        first, second = torch.split(x, self._half, dim=2)
        removed = self._post(self._net(self._pre(first) * mask, mask, speakers))
        return torch.cat((first, (second - removed) * mask), dim=2)

    def _net(
        self, x: torch.Tensor, mask: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        size, skip = self._hidden, torch.zeros_like(x)
        hidden = self._speaker(speakers) if self._speaker and speakers is not None else None
        for number, (gate, out) in enumerate(zip(self._gates, self._outs, strict=False)):
            both = gate(x)
            if hidden is not None:
                both = both + hidden[..., 2 * size * number : 2 * size * (number + 1)]
            given = out(torch.tanh(both[..., :size]) * torch.sigmoid(both[..., size:]))
            if number < len(self._outs) - 1:
                x = (x + given[..., :size]) * mask
                skip = skip + given[..., size:]
            else:
                skip = skip + given
        return skip * mask


Block = Sequence[tuple[Conv, Conv]]


class Stage(NamedTuple):
    """An upsampling, and the residual blocks after it."""

    up: Upsample
    blocks: Sequence[Block]
    rate: int
    """Steps a frame."""
    margin: int
    """How far its convolutions, and the upsampling after it, read."""


class Vocoder:
    """HiFi-GAN over packed lanes.

    Args:
        weights: of the decoder.
        config: a VitsConfig.
        format: where it runs and in which format.
    """

    def __init__(self, weights: NamedTensors, config: Any, format: TensorFormat) -> None:
        self._slope = config.leaky_relu_slope
        self._format = format
        self._pre = Conv.of(weights.at("conv_pre"), format)
        spoken = config.speaker_embedding_size != 0
        self._speaker = Conv.of(weights.at("cond"), format) if spoken else None
        self.stages = _build_stages(weights, config, format)
        mean = 1.0 / len(config.resblock_kernel_sizes)
        # Seven channels of nothing beside the one: the fast kernels want a multiple of eight, and
        # the others take tens of gigabytes here.
        post = weights.at("conv_post")
        bias = post.bias()
        self._post = Conv(
            F.pad(post.weight() * mean, (0, 0, 0, 0, 0, 7)),
            None if bias is None else F.pad(bias, (0, 7)), format,
        )  # fmt: skip
        self.samples = self.stages[-1].rate
        """A frame."""
        self.gap = max(
            self._pre.padding, *(math.ceil(stage.margin / stage.rate) for stage in self.stages)
        )

    def __call__(
        self, x: torch.Tensor, paddings: Sequence[PaddingMask], speakers: torch.Tensor | None
    ) -> torch.Tensor:
        """Samples [lanes, samples] in fp32 of latents [lanes, frames, channels].

        Args:
            x: latents, zero beside rows.
            paddings: of the frames, then of each stage.
            speakers: [lanes, frames, size], of a model with several.
        """
        x = self._pre(x.to(self._format.dtype))
        if self._speaker is not None and speakers is not None:
            x = x + self._speaker(speakers.to(self._format.dtype))
        paddings[0](x)
        for stage, padding in zip(self.stages, paddings[1:], strict=False):
            x = padding(stage.up(F.leaky_relu_(x, self._slope)))
            x = self._run_blocks(x, stage, padding)
        # torch's own slope here, not the model's: that is how it was trained.
        x = self._post(F.leaky_relu_(x))
        return torch.tanh(x[..., 0].float())

    def _run_blocks(self, x: torch.Tensor, stage: Stage, padding: PaddingMask) -> torch.Tensor:
        """The sum of the residual blocks."""
        hidden, total = F.leaky_relu(x, self._slope), x
        for number, block in enumerate(stage.blocks):
            run = self._run_fused if self._format.fused else self._run_plain
            output = run(x, hidden, block, padding)
            total = output if number == 0 else total.add_(output)
        return total

    def _run_plain(
        self, x: torch.Tensor, hidden: torch.Tensor, block: Block, padding: PaddingMask
    ) -> torch.Tensor:
        for number, (first, second) in enumerate(block):
            if number:
                hidden = F.leaky_relu(x, self._slope)
            inner = padding(F.leaky_relu_(first(hidden), self._slope))
            x = padding(second(inner).add_(x))
        return x

    def _run_fused(
        self, x: torch.Tensor, hidden: torch.Tensor, block: Block, padding: PaddingMask
    ) -> torch.Tensor:
        """The same, bias, residual and leaky ReLU in one pass after each convolution."""
        from anyrig.speech.models.triton_kernels import add_residual, leaky_relu

        mask = padding.mask(x)
        for first, second in block:
            assert first.bias is not None
            assert second.bias is not None
            inner = leaky_relu(first.without_bias(hidden), first.bias, mask, self._slope)
            x, hidden = add_residual(x, second.without_bias(inner), second.bias, mask, self._slope)
        return x


def _build_stages(weights: NamedTensors, config: Any, format: TensorFormat) -> list[Stage]:
    stages: list[Stage] = []
    rate, num = 1, len(config.resblock_kernel_sizes)
    for number, stride in enumerate(config.upsample_rates):
        # The mean of the blocks before: leaky ReLU lets a positive factor through.
        scale = 1.0 if number == 0 else 1.0 / num
        rate *= stride
        up = Upsample(weights.at("upsampler", number), format, stride=stride, scale=scale)
        blocks = [
            _build_block(weights.at("resblocks", number * num + inner), dilations, format)
            for inner, dilations in enumerate(config.resblock_dilation_sizes)
        ]
        widest = max(conv.padding for block in blocks for pair in block for conv in pair)
        # The layers after it read this far at most: two steps for an upsampling, three at the end.
        stages.append(Stage(up, blocks, rate, max(widest, 4)))
    return stages


def _build_block(
    weights: NamedTensors, dilations: Sequence[int], format: TensorFormat
) -> list[tuple[Conv, Conv]]:
    return [
        (
            Conv.of(weights.at("convs1", number), format, dilation=dilation),
            Conv.of(weights.at("convs2", number), format),
        )
        for number, dilation in enumerate(dilations)
    ]
