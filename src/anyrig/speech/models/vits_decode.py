"""VITS from latents to sound: the flow, and the HiFi-GAN vocoder, over packed lanes.

Weight norm is joined for good, the mean over residual blocks is part of the next layer's weights,
and the steps beside each row are zeroed at every stage (see `vits_lanes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from anyrig.speech.models.convolve import Conv, Kind, Silence, Upsample, Weights


class Flow:
    """The coupling layers backwards: from what the text says to what the vocoder hears."""

    def __init__(self, weights: Weights, config: Any, kind: Kind) -> None:
        self._layers = [
            _Coupling(weights.at("flows", number), config, kind)
            for number in range(config.prior_encoder_num_flows)
        ]
        self.reach = max(layer.reach for layer in self._layers)

    def __call__(
        self, x: torch.Tensor, mask: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        """Latents of [lanes, frames, channels]; `mask` is 0 beside rows."""
        for layer in reversed(self._layers):
            x = layer(x.flip(2), mask, speakers)
        return x


class _Coupling:
    """Half of the channels say what is taken off the others."""

    def __init__(self, weights: Weights, config: Any, kind: Kind) -> None:
        net = weights.at("wavenet")
        self._half, self._hidden = config.flow_size // 2, config.hidden_size
        self._pre = Conv.of(weights.at("conv_pre"), kind)
        self._post = Conv.of(weights.at("conv_post"), kind)
        self._gates, self._outs = [], []
        for number in range(config.prior_encoder_num_wavenet_layers):
            dilation = config.wavenet_dilation_rate**number
            self._gates.append(Conv.of(net.at("in_layers", number), kind, dilation=dilation))
            self._outs.append(Conv.of(net.at("res_skip_layers", number), kind))
        spoken = config.speaker_embedding_size != 0
        self._speaker = Conv.of(net.at("cond_layer"), kind) if spoken else None
        self.reach = max(conv.padding for conv in self._gates)

    def __call__(
        self, x: torch.Tensor, mask: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        first, second = torch.split(x, self._half, dim=2)
        taken = self._post(self._net(self._pre(first) * mask, mask, speakers))
        return torch.cat((first, (second - taken) * mask), dim=2)

    def _net(
        self, x: torch.Tensor, mask: torch.Tensor, speakers: torch.Tensor | None
    ) -> torch.Tensor:
        size, kept = self._hidden, torch.zeros_like(x)
        heard = self._speaker(speakers) if self._speaker and speakers is not None else None
        for number, (gate, out) in enumerate(zip(self._gates, self._outs, strict=False)):
            both = gate(x)
            if heard is not None:
                both = both + heard[..., 2 * size * number : 2 * size * (number + 1)]
            given = out(torch.tanh(both[..., :size]) * torch.sigmoid(both[..., size:]))
            if number < len(self._outs) - 1:
                x = (x + given[..., :size]) * mask
                kept = kept + given[..., size:]
            else:
                kept = kept + given
        return kept * mask


Block = Sequence[tuple[Conv, Conv]]


class Stage(NamedTuple):
    """One step up in rate, and the residual blocks behind it."""

    up: Upsample
    blocks: Sequence[Block]
    rate: int
    """Steps a frame."""
    reach: int
    """How far its convolutions, and the step up behind it, hear."""


class Vocoder:
    """HiFi-GAN over packed lanes.

    Args:
        weights: of the decoder.
        config: a VitsConfig.
        kind: where it runs and in which format.
    """

    def __init__(self, weights: Weights, config: Any, kind: Kind) -> None:
        self._slope = config.leaky_relu_slope
        self._kind = kind
        self._pre = Conv.of(weights.at("conv_pre"), kind)
        spoken = config.speaker_embedding_size != 0
        self._speaker = Conv.of(weights.at("cond"), kind) if spoken else None
        self.stages = _stages(weights, config, kind)
        mean = 1.0 / len(config.resblock_kernel_sizes)
        # Seven channels of nothing beside the one: the fast kernels want a multiple of eight, and
        # the others take tens of gigabytes here.
        post = weights.at("conv_post")
        bias = post.bias()
        self._post = Conv(
            F.pad(post.weight() * mean, (0, 0, 0, 0, 0, 7)),
            None if bias is None else F.pad(bias, (0, 7)), kind,
        )  # fmt: skip
        self.samples = self.stages[-1].rate
        """A frame."""
        self.gap = max(
            self._pre.padding, *(math.ceil(stage.reach / stage.rate) for stage in self.stages)
        )

    def __call__(
        self, x: torch.Tensor, silences: Sequence[Silence], speakers: torch.Tensor | None
    ) -> torch.Tensor:
        """Samples [lanes, samples] in fp32 of latents [lanes, frames, channels].

        Args:
            x: latents, zero beside rows.
            silences: of the frames, then of each stage.
            speakers: [lanes, frames, size], of a model with several.
        """
        x = self._pre(x.to(self._kind.dtype))
        if self._speaker is not None and speakers is not None:
            x = x + self._speaker(speakers.to(self._kind.dtype))
        silences[0](x)
        for stage, silence in zip(self.stages, silences[1:], strict=False):
            x = silence(stage.up(F.leaky_relu_(x, self._slope)))
            x = self._joined(x, stage, silence)
        # torch's own slope here, not the model's: that is how it was trained.
        x = self._post(F.leaky_relu_(x))
        return torch.tanh(x[..., 0].float())

    def _joined(self, x: torch.Tensor, stage: Stage, silence: Silence) -> torch.Tensor:
        """The sum of the residual blocks."""
        heard, total = F.leaky_relu(x, self._slope), x
        for number, block in enumerate(stage.blocks):
            run = self._quick if self._kind.quick else self._plain
            done = run(x, heard, block, silence)
            total = done if number == 0 else total.add_(done)
        return total

    def _plain(
        self, x: torch.Tensor, heard: torch.Tensor, block: Block, silence: Silence
    ) -> torch.Tensor:
        for number, (first, second) in enumerate(block):
            if number:
                heard = F.leaky_relu(x, self._slope)
            inner = silence(F.leaky_relu_(first(heard), self._slope))
            x = silence(second(inner).add_(x))
        return x

    def _quick(
        self, x: torch.Tensor, heard: torch.Tensor, block: Block, silence: Silence
    ) -> torch.Tensor:
        """The same, bias, residual and leaky ReLU in one pass behind each convolution."""
        from anyrig.speech.models.triton_kernels import bent, joined

        kept = silence.kept(x)
        for first, second in block:
            assert first.bias is not None
            assert second.bias is not None
            inner = bent(first.bare(heard), first.bias, kept, self._slope)
            x, heard = joined(x, second.bare(inner), second.bias, kept, self._slope)
        return x


def _stages(weights: Weights, config: Any, kind: Kind) -> list[Stage]:
    made: list[Stage] = []
    rate, num = 1, len(config.resblock_kernel_sizes)
    for number, stride in enumerate(config.upsample_rates):
        # The mean of the blocks before: leaky ReLU lets a positive factor through.
        scale = 1.0 if number == 0 else 1.0 / num
        rate *= stride
        up = Upsample(weights.at("upsampler", number), kind, stride=stride, scale=scale)
        blocks = [
            _pairs(weights.at("resblocks", number * num + inner), dilations, kind)
            for inner, dilations in enumerate(config.resblock_dilation_sizes)
        ]
        widest = max(conv.padding for block in blocks for pair in block for conv in pair)
        # The layers behind it hear this far at most: two steps for a step up, three at the end.
        made.append(Stage(up, blocks, rate, max(widest, 4)))
    return made


def _pairs(weights: Weights, dilations: Sequence[int], kind: Kind) -> list[tuple[Conv, Conv]]:
    return [
        (
            Conv.of(weights.at("convs1", number), kind, dilation=dilation),
            Conv.of(weights.at("convs2", number), kind),
        )
        for number, dilation in enumerate(dilations)
    ]
