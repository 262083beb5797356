"""Kokoro from frames to samples, for rows of unequal length: pitch and loudness, the decoder, the
generator with its harmonic source and its transform.

A unit of duration is a frame; pitch and loudness have two steps a frame, and the generator ends in
spectra of 120 a frame and one more. The norms look at a whole row, so what lies beyond a row's end
must not be counted: it is zero wherever a mean is taken or a convolution reads it, and the mean
knows the true length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from anyrig.speech.models.layers import (
    Conv,
    NamedTensors,
    PaddingMask,
    TensorFormat,
    Upsample,
    draw_normal,
    expand_ranges,
    to_device,
)

_EPS = 1e-5


class Extent(NamedTuple):
    """How far each row of a padded tensor goes."""

    counts: torch.Tensor
    """[rows, 1], in fp32."""
    ends: torch.Tensor
    """[rows], as whole numbers."""
    padding: PaddingMask
    """Zeroes the rest."""
    full: bool
    """Whether every row goes to the end."""


class Adain:
    """A norm over a row's time, whose scale and shift come from the style."""

    def __init__(self, weights: NamedTensors, format: TensorFormat, pad: int = 0) -> None:
        features = weights.get("fc.weight"), weights.get("fc.bias")
        size = features[0].shape[0] // 2
        own = [weights.get(f"norm.{n}") if f"norm.{n}" in weights else None
               for n in ("weight", "bias")]  # fmt: skip
        scale = torch.ones(size) if own[0] is None else own[0]
        shift = torch.zeros(size) if own[1] is None else own[1]
        # (1 + a) * (scale * x + shift) + b, both parts straight from the style.
        first, second = (part.chunk(2) for part in features)
        matrix = torch.stack((first[0] * scale[:, None], first[0] * shift[:, None] + first[1]))
        bias = torch.stack((scale * (1 + second[0]), shift * (1 + second[0]) + second[1]))
        self._matrix = F.pad(matrix, (0, 0, 0, pad)).flatten(0, 1).to(format.device)
        self._bias = F.pad(bias, (0, pad)).flatten().to(format.device)

    def __call__(
        self, x: torch.Tensor, style: torch.Tensor, extent: Extent
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and shift of x: [rows, 1, channels] each, in fp32."""
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
    total, squares = _row_sums(x)
    mean = total / extent.counts
    return mean, (squares / extent.counts - torch.square(mean)).clamp(min=0)


def _row_sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row's steps and of their squares, in fp32 without a copy in fp32."""
    length = torch.linalg.vector_norm(x, dim=1, dtype=torch.float32)
    return x.sum(dim=1, dtype=torch.float32), torch.square(length)


def _leaky_norm(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """A leaky ReLU of what the norm gives."""
    return F.leaky_relu_(torch.addcmul(shift.to(x.dtype), x, scale.to(x.dtype)), 0.2)


def _snake(
    x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, alpha: torch.Tensor, extent: Extent
) -> torch.Tensor:
    """y + sin(alpha * y)^2 / alpha of what the norm gives, zero beyond each row's end.

    In few passes: the square of the sine is (1 - cos(2 * alpha * y)) / 2.
    """
    twice, half = 2 * alpha, 0.5 / alpha
    wave = torch.addcmul((shift * twice).to(x.dtype), x, (scale * twice).to(x.dtype)).cos_()
    output = torch.addcmul((shift + half).to(x.dtype), x, scale.to(x.dtype))
    return extent.padding(output.addcmul_(wave, (-half).to(x.dtype)))


def _fused_snake(
    x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, alpha: torch.Tensor, extent: Extent
) -> torch.Tensor:
    """The same in one pass."""
    from anyrig.speech.models.triton_kernels import snake as fused_snake

    return fused_snake(x, scale, shift, alpha, extent.ends)


class SnakeBlock:
    """Three rounds of norm, snake and convolution, twice each, around a residual.

    A norm takes away whatever is added to a whole channel, so a bias in front of one does nothing:
    none is added inside, and `bias` is what the block's output lacks.
    """

    def __init__(
        self, weights: NamedTensors, dilations: Sequence[int], format: TensorFormat
    ) -> None:
        self._rounds = []
        self._snake = _fused_snake if format.fused else _snake
        for number, dilation in enumerate(dilations):
            self._rounds += [[
                (Adain(weights.at(f"adain{half}", number), format),
                 weights.get(f"alpha{half}.{number}").reshape(1, 1, -1).to(format.device),
                 Conv.of(weights.at(f"convs{half}", number), format, dilation=spaced))
                for half, spaced in ((1, dilation), (2, 1))
            ]]  # fmt: skip
        biases = [weights.get(f"convs2.{number}.bias") for number in range(len(dilations))]
        self.bias = torch.stack(biases).sum(0)

    def __call__(self, x: torch.Tensor, style: torch.Tensor, extent: Extent) -> torch.Tensor:
        """Zero beyond each row's end, as x must be."""
        for halves in self._rounds:
            inner = x
            for norm, alpha, conv in halves:
                hidden = self._snake(inner, *norm(inner, style, extent), alpha, extent)
                inner = extent.padding(conv.without_bias(hidden))
            x = inner.add_(x)
        return x


class ResBlock:
    """Norm, leaky ReLU and convolution, twice, around a residual; some double the rate.

    Channels are filled up with zeros to a multiple of eight, which the fast kernels ask for.
    """

    def __init__(
        self, weights: NamedTensors, format: TensorFormat, *, doubles: bool = False
    ) -> None:
        first = weights.at("conv1").weight()
        self.pad = -first.shape[1] % 8
        self.doubles = doubles
        wide = (0, 0, 0, self.pad)
        self._norms = (
            Adain(weights.at("norm1"), format, self.pad),
            Adain(weights.at("norm2"), format),
        )
        self._first = Conv(F.pad(first, wide), weights.at("conv1").bias(), format)
        self._second = Conv.of(weights.at("conv2"), format)
        self._short: Conv | None = None
        if "conv1x1.weight_v" in weights or "conv1x1.weight" in weights:
            self._short = Conv(F.pad(weights.at("conv1x1").weight(), wide), None, format)
        self._pool: list[torch.Tensor] = []
        if doubles:
            pool = weights.at("pool")
            taps = F.pad(pool.weight()[:, 0], (0, 0, 0, self.pad)).T
            bias = F.pad(pool.get("bias"), (0, self.pad))
            self._pool = [format.put(part) for part in (*taps, bias)]

    def __call__(
        self, x: torch.Tensor, style: torch.Tensor, extent: Extent, after: Extent
    ) -> torch.Tensor:
        """Zero beyond each row's end; `after` says how far they go when the rate has doubled."""
        hidden = extent.padding(_leaky_norm(x, *self._norms[0](x, style, extent)))
        if self.doubles:
            hidden, x = self._upsample(hidden), x.repeat_interleave(2, dim=1)
            after.padding(hidden)
        inner = after.padding(self._first.without_bias(hidden))  # the norm would take the bias away
        inner = after.padding(_leaky_norm(inner, *self._norms[1](inner, style, after)))
        short = x if self._short is None else self._short(x)
        return after.padding(self._second(inner).add_(short).mul_(math.sqrt(0.5)))

    def _upsample(self, x: torch.Tensor) -> torch.Tensor:
        """A transposed convolution of each channel by itself: three taps, two steps."""
        before, now, behind, bias = self._pool
        following = F.pad(x[:, 1:], (0, 0, 0, 1))
        odd = torch.addcmul(torch.addcmul(bias, x, behind), following, before)
        return torch.stack((torch.addcmul(bias, x, now), odd), dim=2).flatten(1, 2)


# -- harmonic source and transform -----------------------------------------------------------------


_LOUDNESS = 0.1
_VOICED_HZ = 10.0
_NOISE = 0.003
_RATE = 24000


class TransformShape(NamedTuple):
    """The transform: its size, its hop, and how many samples a step of the pitch lasts."""

    size: int
    hop: int
    step: int


class HarmonicSource:
    """A sum of harmonics of the pitch, and noise where there is none."""

    def __init__(self, weights: NamedTensors, shape: TransformShape, format: TensorFormat) -> None:
        mix = weights.at("l_linear")
        self._mix: list[float] = mix.get("weight")[0].tolist()
        self._bias = float(mix.get("bias")[0])
        self._step = shape.step
        # Noise is drawn for each harmonic and mixed; a sum of normal numbers is a normal number.
        self._spread = math.sqrt(sum(part * part for part in self._mix))

    def __call__(
        self, pitch: torch.Tensor, seeds: torch.Tensor | None, padding: PaddingMask
    ) -> torch.Tensor:
        """Samples [rows, steps * step].

        Args:
            pitch: [rows, steps] in Hz, zero beyond a row's end.
            seeds: of the rows, for the noise; none when None.
            padding: zeroes what is beyond.
        """
        rows, steps = pitch.shape
        voiced = (pitch > _VOICED_HZ).float().unsqueeze(2)
        total = pitch.new_zeros(rows, steps, self._step)
        ahead = self._ahead(pitch.device)
        for number, part in enumerate(self._mix):
            total.add_(self._harmonic(pitch, number + 1, ahead, padding), alpha=part * _LOUDNESS)
        total.mul_(voiced)
        if seeds is not None:
            loudness = (_LOUDNESS / 3 + voiced * (_NOISE - _LOUDNESS / 3)) * self._spread
            numbers = torch.arange(steps, device=pitch.device).expand(rows, steps)
            drawn = draw_normal(seeds.unsqueeze(1).expand(rows, steps), numbers, self._step, 0)
            total.addcmul_(drawn, loudness)
        return torch.tanh(total.add_(self._bias)).flatten(1)

    def _ahead(self, device: torch.device) -> torch.Tensor:
        """How far each sample of a step is from the middle of a step before it, in steps."""
        places = (torch.arange(self._step, device=device) + 0.5) / self._step
        return torch.where(places < 0.5, places + 0.5, places - 0.5)

    def _harmonic(
        self, pitch: torch.Tensor, number: int, ahead: torch.Tensor, padding: PaddingMask
    ) -> torch.Tensor:
        """Its phase is known in the middle of each step, and a straight line in between.

        Whole turns are dropped while the sum is still exact.
        """
        turns = (pitch * number / _RATE) % 1
        turns = padding(turns.unsqueeze(2)).squeeze(2)
        reached = _accumulate_phase(turns, self._step)
        half = self._step // 2
        before = torch.cat((reached[:, :1], reached[:, :-1]), dim=1).unsqueeze(2)
        rising = F.pad(turns[:, 1:], (1, 0)).unsqueeze(2) * self._step
        falling = F.pad(turns[:, 1:], (0, 1)).unsqueeze(2) * self._step
        phase = torch.cat(
            (torch.addcmul(before, rising, ahead[:half]),
             torch.addcmul(reached.unsqueeze(2), falling, ahead[half:])), dim=2,
        )  # fmt: skip
        return phase.mul_(2 * math.pi).sin_()


def _accumulate_phase(turns: torch.Tensor, step: int) -> torch.Tensor:
    """The sum so far, times the step, without whole turns. Metal has no fp64."""
    wide = turns if turns.device.type == "mps" else turns.double()
    return ((torch.cumsum(wide, dim=1) * step) % 1).float()


class Transform:
    """Samples to magnitudes and phases and back, as torch.stft and torch.istft do it by row."""

    def __init__(self, shape: TransformShape, format: TensorFormat) -> None:
        assert shape.size % shape.hop == 0, "windows that overlap by whole hops"
        self._size, self._hop = shape.size, shape.hop
        self._window = torch.hann_window(shape.size, periodic=True).to(format.device)

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """[rows, frames, size + 2]: magnitudes, then phases. `lengths` are of rows, in samples."""
        half = self._size // 2
        padded = F.pad(audio, (half, half))
        padded[:, :half] = audio[:, 1 : half + 1].flip(1)
        away = torch.arange(half, device=audio.device)
        mirrored = audio.gather(1, lengths.unsqueeze(1) - 2 - away)
        padded.scatter_(1, half + lengths.unsqueeze(1) + away, mirrored)
        spectrum = torch.fft.rfft(padded.unfold(1, self._size, self._hop) * self._window)
        return torch.cat((spectrum.abs(), spectrum.angle()), dim=2)

    def backward(
        self, features: torch.Tensor, frames: torch.Tensor, padding: PaddingMask
    ) -> torch.Tensor:
        """Samples [rows, (frames - 1) * hop] of logarithms of magnitudes, and phases' angles."""
        bins = self._size // 2 + 1
        spectrum = torch.polar(torch.exp(features[..., :bins]), torch.sin(features[..., bins:]))
        parts = padding(torch.fft.irfft(spectrum, self._size) * self._window)
        there = torch.arange(features.shape[1], device=features.device) < frames.unsqueeze(1)
        weights = there.float().unsqueeze(2) * torch.square(self._window)
        audio, weight = self._overlap_add(parts), self._overlap_add(weights)
        half = self._size // 2
        # Beyond a row's end there is no window at all.
        return (audio / weight.clamp(min=1e-11))[:, half:-half]

    def _overlap_add(self, parts: torch.Tensor) -> torch.Tensor:
        rows, frames, _ = parts.shape
        pieces = parts.view(rows, frames, -1, self._hop)
        times = pieces.shape[2]
        total = parts.new_zeros(rows, frames + times - 1, self._hop)
        for number in range(times):
            total[:, number : number + frames] += pieces[:, :, number]
        return total.flatten(1)


# -- decoder and generator -------------------------------------------------------------------------


class Lstm:
    """A layer that reads both ways, over rows of unequal length, the longest first."""

    def __init__(self, weights: NamedTensors, format: TensorFormat) -> None:
        size, hidden = weights.get("weight_ih_l0").shape[1], weights.get("weight_hh_l0").shape[1]
        self._net = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self._net.load_state_dict({name: weights.get(name) for name in self._net.state_dict()})
        self._net.to(format.device, format.dtype).requires_grad_(False)
        self._net.flatten_parameters()

    def __call__(self, x: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
        if lengths[-1] == lengths[0]:
            return self._net(x)[0]  # type: ignore[no-any-return]
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True)
        output = pad_packed_sequence(self._net(packed)[0], True, total_length=x.shape[1])[0]
        return output.contiguous()  # it comes with time first


class FrameRows:
    """Rows of frames, the longest first, and how far each goes at any rate."""

    def __init__(self, frames: Sequence[int], device: torch.device) -> None:
        self.frames, self._device = list(frames), device
        self._known: dict[tuple[int, int], Extent] = {}

    def at(self, rate: int, more: int = 0) -> Extent:
        """At a number of steps per frame, with some more at the end."""
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
            return Extent(counts, ends, PaddingMask(None), True)
        starts = np.arange(num) * size
        beyond = expand_ranges(list(starts + lengths), list(starts + size))
        return Extent(counts, ends, PaddingMask(to_device(beyond, self._device)), False)

    def lengths(self, rate: int, more: int = 0) -> torch.Tensor:
        return self.at(rate, more).ends


class Curves:
    """Pitch and loudness of each half frame, in fp32."""

    def __init__(self, weights: NamedTensors, format: TensorFormat) -> None:
        self._shared = Lstm(weights.at("shared"), format)
        self._blocks = [
            [ResBlock(weights.at(name, n), format, doubles=n == 1) for n in range(3)]
            for name in ("F0", "N")
        ]
        self._last = [Conv.of(weights.at(name), format) for name in ("F0_proj", "N_proj")]

    def __call__(
        self, features: torch.Tensor, style: torch.Tensor, rows: FrameRows
    ) -> tuple[torch.Tensor, ...]:
        """[rows, 2 * frames] each, zero beyond a row's end."""
        shared = self._shared(features, rows.frames)
        return tuple(
            self._curve(shared, style, rows, blocks, last)
            for blocks, last in zip(self._blocks, self._last, strict=True)
        )

    def _curve(
        self,
        x: torch.Tensor,
        style: torch.Tensor,
        rows: FrameRows,
        blocks: list[ResBlock],
        last: Conv,
    ) -> torch.Tensor:
        now, then = rows.at(1), rows.at(2)
        x = blocks[0](x, style, now, now)
        x = blocks[1](x, style, now, then)
        x = blocks[2](x, style, then, then)
        return then.padding(last(x).contiguous())[..., 0]


class KokoroDecoder:
    """From features of each frame to those of the generator."""

    def __init__(self, weights: NamedTensors, format: TensorFormat) -> None:
        self._format = format
        self._curve_convs = [
            (layer.weight().to(format.device), layer.get("bias").to(format.device))
            for layer in (weights.at("F0_conv"), weights.at("N_conv"))
        ]
        self._narrow = Conv.of(weights.at("asr_res", 0), format)
        self._encode = ResBlock(weights.at("encode"), format)
        self._decode = [ResBlock(weights.at("decode", n), format, doubles=n == 3) for n in range(4)]

    def __call__(
        self,
        features: torch.Tensor,
        curves: Sequence[torch.Tensor],
        style: torch.Tensor,
        rows: FrameRows,
    ) -> torch.Tensor:
        """[rows, 2 * frames, channels]"""
        now, then = rows.at(1), rows.at(2)
        features = features.to(self._format.dtype)
        curves_in = [
            F.conv1d(curve.unsqueeze(1), *layer, stride=2, padding=1).transpose(1, 2)
            for curve, layer in zip(curves, self._curve_convs, strict=True)
        ]
        extra = torch.cat([curve.to(features.dtype) for curve in curves_in], dim=2)
        narrow = torch.cat((self._narrow(features), extra), dim=2)
        x = self._run_block(self._encode, (features, extra), style, now, now)
        for block in self._decode:
            x = self._run_block(block, (x, narrow), style, now, then if block.doubles else now)
        return x

    def _run_block(
        self, block: ResBlock, parts: Sequence[torch.Tensor], style: torch.Tensor,
        now: Extent, then: Extent,
    ) -> torch.Tensor:  # fmt: skip
        first = parts[0]
        filler = first.new_zeros(*first.shape[:2], block.pad)
        return block(now.padding(torch.cat((*parts, filler), dim=2)), style, now, then)


class _UpsampleStage(NamedTuple):
    up: Upsample
    hidden: Conv
    """Of the source."""
    source: SnakeBlock
    blocks: list[SnakeBlock]
    bias: torch.Tensor
    """Of all its layers: every block passes on what is added to a whole channel, and its norms do
    not see it, so that it is added once."""


class WaveGenerator:
    """From half frames and pitch to samples."""

    def __init__(
        self, weights: NamedTensors, settings: dict[str, Any], format: TensorFormat
    ) -> None:
        rates, size = settings["upsample_rates"], settings["gen_istft_n_fft"]
        self._format, self._rates = format, list(rates)
        self.hop: int = settings["gen_istft_hop_size"]
        shape = TransformShape(size, self.hop, math.prod(rates) * self.hop)
        self._source = HarmonicSource(weights.at("m_source"), shape, format)
        self._transform = Transform(shape, format)
        self._channels, self._fill = size + 2, -(size + 2) % 8
        self._stages = [self._stage(weights, settings, number) for number in range(len(rates))]
        last, mean = weights.at("conv_post"), 1.0 / len(settings["resblock_kernel_sizes"])
        self._last = Conv(
            F.pad(last.weight() * mean, (0, 0, 0, 0, 0, self._fill)),
            F.pad(last.get("bias"), (0, self._fill)), format,
        )  # fmt: skip

    def _stage(
        self, weights: NamedTensors, settings: dict[str, Any], number: int
    ) -> _UpsampleStage:
        kinds = settings["resblock_dilation_sizes"]
        follow = math.prod(self._rates[number + 1 :])
        hidden = weights.at("noise_convs", number)
        # The mean of the blocks before is in the weights: leaky ReLU lets a factor through.
        scale = 1.0 / len(kinds) if number else 1.0
        up = weights.at("ups", number)
        source = SnakeBlock(weights.at("noise_res", number), (1, 3, 5), self._format)
        blocks = [
            SnakeBlock(
                weights.at("resblocks", number * len(kinds) + inner), dilations, self._format
            )
            for inner, dilations in enumerate(kinds)
        ]
        bias = (up.get("bias") + hidden.get("bias") + source.bias) * len(blocks)
        bias = bias + torch.stack([block.bias for block in blocks]).sum(0)
        return _UpsampleStage(
            Upsample(up, self._format, stride=self._rates[number], scale=scale),
            Conv(F.pad(hidden.weight(), (0, 0, 0, self._fill)), None, self._format,
                 stride=follow, padding=(follow + 1) // 2 if follow > 1 else 0),
            source, blocks, self._format.put(bias),
        )  # fmt: skip

    def __call__(
        self, x: torch.Tensor, pitch: torch.Tensor, style: torch.Tensor, rows: FrameRows,
        seeds: torch.Tensor | None,
    ) -> torch.Tensor:  # fmt: skip
        """[rows, samples] in fp32."""
        spectra = self._source_spectra(pitch, rows, seeds)
        rate = 2
        for number, stage in enumerate(self._stages):
            rate *= self._rates[number]
            last = number == len(self._stages) - 1
            extent = rows.at(rate, 1 if last else 0)
            x = stage.up.without_bias(F.leaky_relu_(x, 0.1))
            if last:  # one more in front, mirrored
                x = torch.cat((x[:, 1:2], x), dim=1)
            hidden = stage.source(extent.padding(stage.hidden(spectra)), style, extent)
            x = extent.padding(hidden.add_(x))
            x = _add_all([block(x, style, extent) for block in stage.blocks])
            x = extent.padding(x.add_(stage.bias))
        features = self._last(F.leaky_relu_(x))[..., : self._channels].float()
        frames = rows.lengths(rate, 1)
        return self._transform.backward(features, frames, rows.at(rate, 1).padding)

    def _source_spectra(
        self, pitch: torch.Tensor, rows: FrameRows, seeds: torch.Tensor | None
    ) -> torch.Tensor:
        """The source's spectra, with channels to make up a multiple of eight."""
        rate = 2 * math.prod(self._rates)
        audio = self._source(pitch, seeds, rows.at(2).padding)
        spectra = self._transform.forward(audio, rows.lengths(rate * self.hop))
        spectra = rows.at(rate, 1).padding(F.pad(spectra, (0, self._fill)))
        return spectra.to(self._format.dtype)


def _add_all(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total.add_(part)
    return total
