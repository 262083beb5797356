"""A small U-Net: a picture and a point in time in, a picture of the same size out.

Residual blocks with group norms on each level, attention on the lowest, and what each level saw on
the way down is put beside what comes up. Its last layer begins at nought, so an untrained one
answers nought and the first loss of a diffusion model is the size of its noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidSettingError

_MOST_GROUPS = 32
_LONGEST_WAVE = 10_000.0


@dataclass(frozen=True)
class UnetShape:
    """The sizes of a model; the default is for pictures of 64 x 64 in colour."""

    channels: int = 3
    size: int = 64
    """Pixels of a side."""
    width: int = 64
    """Channels of the highest level."""
    levels: tuple[int, ...] = (1, 2, 3, 4)
    """Channels of each level as a multiple of the width; each has half the side of the last."""
    blocks: int = 2
    """Residual blocks of a level on the way down; one more on the way up."""
    heads: int = 4
    dropout: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.channels, self.size, self.width, self.blocks, self.heads, *self.levels)
        if not self.levels or any(type(one) is not int or one < 1 for one in numbers):
            raise InvalidSettingError(
                f"a U-Net cannot be of {self}", hint="Sizes are integers of at least 1."
            )
        halves = 2 ** (len(self.levels) - 1)
        if self.size % halves:
            raise InvalidSettingError(
                f"a side of {self.size} cannot be halved {len(self.levels) - 1} times",
                hint=f"Make it a multiple of {halves}, or give fewer levels.",
            )
        if self.width * self.levels[-1] % self.heads:
            raise InvalidSettingError(
                f"{self.width * self.levels[-1]} channels cannot be shared by {self.heads} heads",
                hint="Make the width a multiple of the heads.",
            )


PRESETS: dict[str, UnetShape] = {
    "nano": UnetShape(channels=1, size=16, width=16, levels=(1, 2), blocks=1, heads=2),
    "tiny": UnetShape(channels=1, size=32, width=32, levels=(1, 2, 2), blocks=1, heads=2),
    "small": UnetShape(),
}


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(_MOST_GROUPS, channels), channels)


def waves(times: torch.Tensor, width: int) -> torch.Tensor:
    """Times (in steps) as sines and cosines of many wavelengths."""
    half = width // 2
    places = torch.arange(half, device=times.device, dtype=torch.float32)
    angles = times.float()[:, None] * torch.exp(-math.log(_LONGEST_WAVE) * places / half)
    return torch.cat((angles.cos(), angles.sin()), dim=1)


class UnetBlock(nn.Module):
    """Two convolutions with the time between them, added to what came in."""

    def __init__(self, inside: int, outside: int, time: int, dropout: float) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = _norm(inside), _norm(outside)
        self.conv_1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv_2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(time, 2 * outside)
        self.drop = nn.Dropout(dropout)
        self.way = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()
        nn.init.zeros_(self.conv_2.weight)
        nn.init.zeros_(self.conv_2.bias)  # type: ignore[arg-type]  # it has one

    def forward(self, states: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """States after the block."""
        made = self.conv_1(F.silu(self.norm_1(states)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        made = self.norm_2(made) * (1 + scale) + shift
        added: torch.Tensor = self.way(states) + self.conv_2(self.drop(F.silu(made)))
        return added


class UnetAttention(nn.Module):
    """Each place looks at all others."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = _norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States with what each place gathered added."""
        size, channels, high, wide = states.shape
        split = self.qkv(self.norm(states)).view(size, 3, self.heads, channels // self.heads, -1)
        query, key, value = split.transpose(3, 4).unbind(1)
        seen = F.scaled_dot_product_attention(query, key, value)
        gathered = seen.transpose(2, 3).reshape(size, channels, high, wide)
        added: torch.Tensor = states + self.out(gathered)
        return added


class Unet(nn.Module):
    """Pictures (batch, channels, size, size) and times (batch) in, pictures out."""

    def __init__(self, shape: UnetShape) -> None:
        super().__init__()
        self.shape = shape
        time = 4 * shape.width
        widths = [shape.width * one for one in shape.levels]
        self.time = nn.Sequential(nn.Linear(shape.width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(shape.channels, shape.width, 3, padding=1)
        self.down, kept = self._way_down(widths, time)
        last = widths[-1]
        self.middle_1 = UnetBlock(last, last, time, shape.dropout)
        self.attention = UnetAttention(last, shape.heads)
        self.middle_2 = UnetBlock(last, last, time, shape.dropout)
        self.up = self._way_up(widths, time, kept)
        self.norm = _norm(widths[0])
        self.leave = nn.Conv2d(widths[0], shape.channels, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]  # it has one

    def _way_down(self, widths: list[int], time: int) -> tuple[nn.ModuleList, list[int]]:
        layers, kept, now = nn.ModuleList(), [self.shape.width], self.shape.width
        for level, width in enumerate(widths):
            for _ in range(self.shape.blocks):
                layers.append(UnetBlock(now, width, time, self.shape.dropout))
                now = width
                kept.append(now)
            if level < len(widths) - 1:
                layers.append(nn.Conv2d(now, now, 3, stride=2, padding=1))
                kept.append(now)
        return layers, kept

    def _way_up(self, widths: list[int], time: int, kept: list[int]) -> nn.ModuleList:
        layers, now, waiting = nn.ModuleList(), widths[-1], list(kept)
        for level in reversed(range(len(widths))):
            for _ in range(self.shape.blocks + 1):
                both = now + waiting.pop()
                layers.append(UnetBlock(both, widths[level], time, self.shape.dropout))
                now = widths[level]
            if level:
                layers.append(nn.Conv2d(now, now, 3, padding=1))
        return layers

    def forward(self, pictures: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """What the model says of each picture at its time."""
        time = self.time(waves(times, self.shape.width).to(pictures.dtype))
        states = self.enter(pictures)
        kept = [states]
        for layer in self.down:
            states = layer(states, time) if isinstance(layer, UnetBlock) else layer(states)
            kept.append(states)
        states = self.middle_2(self.attention(self.middle_1(states, time)), time)
        for layer in self.up:
            if isinstance(layer, UnetBlock):
                states = layer(torch.cat((states, kept.pop()), dim=1), time)
            else:
                states = layer(F.interpolate(states, scale_factor=2.0, mode="nearest"))
        made: torch.Tensor = self.leave(F.silu(self.norm(states)))
        return made
