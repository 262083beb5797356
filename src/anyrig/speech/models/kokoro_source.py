"""The voice's buzz and the way back from spectra to samples, for rows of unequal length.

A row ends where it ends: the buzz stands still after its last step, the transform mirrors the row's
own last samples, and the overlapping windows are weighed by those that are really there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F

from anyrig.speech.models.convolve import Kind, Silence, Weights
from anyrig.speech.models.noise import normal

_HARMONICS = 9
_LOUDNESS = 0.1
_VOICED_HZ = 10.0
_NOISE = 0.003
_RATE = 24000


class Shape(NamedTuple):
    """The transform: its size, its hop, and how many samples a step of the pitch lasts."""

    size: int
    hop: int
    step: int


class Source:
    """A sum of harmonics of the pitch, and noise where there is none."""

    def __init__(self, weights: Weights, shape: Shape, kind: Kind) -> None:
        mix = weights.at("l_linear")
        self._mix: list[float] = mix.get("weight")[0].tolist()
        self._bias = float(mix.get("bias")[0])
        self._step = shape.step
        # Noise is drawn for each harmonic and mixed; a sum of normal numbers is a normal number.
        self._spread = math.sqrt(sum(part * part for part in self._mix))

    def __call__(
        self, pitch: torch.Tensor, seeds: torch.Tensor | None, silence: Silence
    ) -> torch.Tensor:
        """Samples [rows, steps * step].

        Args:
            pitch: [rows, steps] in Hz, zero beyond a row's end.
            seeds: of the rows, for the noise; none when None.
            silence: zeroes what is beyond.
        """
        rows, steps = pitch.shape
        voiced = (pitch > _VOICED_HZ).float().unsqueeze(2)
        total = pitch.new_zeros(rows, steps, self._step)
        ahead = self._ahead(pitch.device)
        for number, part in enumerate(self._mix):
            total.add_(self._harmonic(pitch, number + 1, ahead, silence), alpha=part * _LOUDNESS)
        total.mul_(voiced)
        if seeds is not None:
            loudness = (_LOUDNESS / 3 + voiced * (_NOISE - _LOUDNESS / 3)) * self._spread
            numbers = torch.arange(steps, device=pitch.device).expand(rows, steps)
            drawn = normal(seeds.unsqueeze(1).expand(rows, steps), numbers, self._step, 0)
            total.addcmul_(drawn, loudness)
        return torch.tanh(total.add_(self._bias)).flatten(1)

    def _ahead(self, device: torch.device) -> torch.Tensor:
        """How far each sample of a step is from the middle of a step before it, in steps."""
        places = (torch.arange(self._step, device=device) + 0.5) / self._step
        return torch.where(places < 0.5, places + 0.5, places - 0.5)

    def _harmonic(
        self, pitch: torch.Tensor, number: int, ahead: torch.Tensor, silence: Silence
    ) -> torch.Tensor:
        """Its phase is known in the middle of each step, and a straight line in between.

        Whole turns are dropped while the sum is still exact.
        """
        turns = (pitch * number / _RATE) % 1
        turns = silence(turns.unsqueeze(2)).squeeze(2)
        reached = _turned(turns, self._step)
        half = self._step // 2
        before = torch.cat((reached[:, :1], reached[:, :-1]), dim=1).unsqueeze(2)
        rising = F.pad(turns[:, 1:], (1, 0)).unsqueeze(2) * self._step
        falling = F.pad(turns[:, 1:], (0, 1)).unsqueeze(2) * self._step
        phase = torch.cat(
            (torch.addcmul(before, rising, ahead[:half]),
             torch.addcmul(reached.unsqueeze(2), falling, ahead[half:])), dim=2,
        )  # fmt: skip
        return phase.mul_(2 * math.pi).sin_()


def _turned(turns: torch.Tensor, step: int) -> torch.Tensor:
    """The sum so far, times the step, without whole turns. Metal has no fp64."""
    wide = turns if turns.device.type == "mps" else turns.double()
    return ((torch.cumsum(wide, dim=1) * step) % 1).float()


class Transform:
    """Samples to magnitudes and phases and back, as torch.stft and torch.istft do it by row."""

    def __init__(self, shape: Shape, kind: Kind) -> None:
        assert shape.size % shape.hop == 0, "windows that overlap by whole hops"
        self._size, self._hop = shape.size, shape.hop
        self._window = torch.hann_window(shape.size, periodic=True).to(kind.device)

    def forward(self, sound: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """[rows, frames, size + 2]: magnitudes, then phases. `lengths` are of rows, in samples."""
        half = self._size // 2
        padded = F.pad(sound, (half, half))
        padded[:, :half] = sound[:, 1 : half + 1].flip(1)
        away = torch.arange(half, device=sound.device)
        mirrored = sound.gather(1, lengths.unsqueeze(1) - 2 - away)
        padded.scatter_(1, half + lengths.unsqueeze(1) + away, mirrored)
        spectrum = torch.fft.rfft(padded.unfold(1, self._size, self._hop) * self._window)
        return torch.cat((spectrum.abs(), spectrum.angle()), dim=2)

    def backward(self, told: torch.Tensor, frames: torch.Tensor, silence: Silence) -> torch.Tensor:
        """Samples [rows, (frames - 1) * hop] of logarithms of magnitudes, and phases' angles."""
        bins = self._size // 2 + 1
        spectrum = torch.polar(torch.exp(told[..., :bins]), torch.sin(told[..., bins:]))
        parts = silence(torch.fft.irfft(spectrum, self._size) * self._window)
        there = torch.arange(told.shape[1], device=told.device) < frames.unsqueeze(1)
        weights = there.float().unsqueeze(2) * torch.square(self._window)
        sound, weight = self._overlapped(parts), self._overlapped(weights)
        half = self._size // 2
        # Beyond a row's end there is no window at all.
        return (sound / weight.clamp(min=1e-11))[:, half:-half]

    def _overlapped(self, parts: torch.Tensor) -> torch.Tensor:
        rows, frames, _ = parts.shape
        pieces = parts.view(rows, frames, -1, self._hop)
        times = pieces.shape[2]
        total = parts.new_zeros(rows, frames + times - 1, self._hop)
        for number in range(times):
            total[:, number : number + frames] += pieces[:, :, number]
        return total.flatten(1)
