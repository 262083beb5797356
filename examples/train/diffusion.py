"""A diffusion model that learns to draw shapes, as a program of its own with the Trainer.

    python examples/train/make_images.py     # the pictures to learn from
    python examples/train/diffusion.py       # folder diffusion-run, with samples.png

A picture gets noise by a cosine schedule, and a U-Net predicts the velocity between picture and
noise. The loss begins near 1 and comes below 0.12 in 400 steps. Starting it again continues where
it was stopped.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from anyrig.training import Trainer

HERE = Path(__file__).resolve().parent
STEPS = 1000
"""Noise levels that are trained; sampling skips most of them."""


# -- the model -------------------------------------------------------------------------------------


class ResidualBlock(nn.Module):
    """Two convolutions with the time between them."""

    def __init__(self, in_channels: int, out_channels: int, time_width: int) -> None:
        super().__init__()
        self.norm_1 = nn.GroupNorm(math.gcd(32, in_channels), in_channels)
        self.norm_2 = nn.GroupNorm(math.gcd(32, out_channels), out_channels)
        self.conv_1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.conv_2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.time = nn.Linear(time_width, 2 * out_channels)
        same = in_channels == out_channels
        self.shortcut = nn.Identity() if same else nn.Conv2d(in_channels, out_channels, 1)
        for value in self.conv_2.parameters():
            nn.init.zeros_(value)

    def forward(self, states: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.conv_1(F.silu(self.norm_1(states)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        hidden = self.norm_2(hidden) * (1 + scale) + shift
        result: torch.Tensor = self.shortcut(states) + self.conv_2(F.silu(hidden))
        return result


class Attention(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(math.gcd(32, channels), channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = states.shape
        heads = self.qkv(self.norm(states)).view(batch, 3, self.heads, channels // self.heads, -1)
        query, key, value = heads.transpose(3, 4).unbind(1)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(2, 3)
        result: torch.Tensor = states + self.out(mixed.reshape(batch, channels, height, width))
        return result


class Unet(nn.Module):
    """Pictures (batch, channels, size, size) and times (batch) in, pictures out.

    Each level has half the side of the one before and `width` times its factor in channels. The
    last layer starts at zero, so the first loss is the size of the noise.
    """

    def __init__(
        self,
        channels: int = 1,
        width: int = 32,
        factors: Sequence[int] = (1, 2),
        blocks: int = 1,
        heads: int = 2,
    ) -> None:
        super().__init__()
        self.width = width
        time_width, current, skips = 4 * width, width, [width]
        self.time = nn.Sequential(
            nn.Linear(width, time_width), nn.SiLU(), nn.Linear(time_width, time_width)
        )
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, factor in enumerate(factors):
            for _ in range(blocks):
                self.down.append(ResidualBlock(current, width * factor, time_width))
                current = width * factor
                skips.append(current)
            if level < len(factors) - 1:
                self.down.append(nn.Conv2d(current, current, 3, stride=2, padding=1))
                skips.append(current)
        self.middle_1 = ResidualBlock(current, current, time_width)
        self.attention = Attention(current, heads)
        self.middle_2 = ResidualBlock(current, current, time_width)
        for level, factor in reversed([*enumerate(factors)]):
            for _ in range(blocks + 1):
                self.up.append(ResidualBlock(current + skips.pop(), width * factor, time_width))
                current = width * factor
            if level:
                self.up.append(nn.Conv2d(current, current, 3, padding=1))
        self.norm = nn.GroupNorm(math.gcd(32, current), current)
        self.last = nn.Conv2d(current, channels, 3, padding=1)
        for value in self.last.parameters():
            nn.init.zeros_(value)

    def forward(self, pictures: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        places = torch.arange(half, device=times.device, dtype=torch.float32)
        angles = times.float()[:, None] * torch.exp(-math.log(10_000) * places / half)
        time = self.time(torch.cat((angles.cos(), angles.sin()), dim=1).to(pictures.dtype))
        states = self.first(pictures)
        skips = [states]
        for layer in self.down:
            states = layer(states, time) if isinstance(layer, ResidualBlock) else layer(states)
            skips.append(states)
        states = self.middle_2(self.attention(self.middle_1(states, time)), time)
        for layer in self.up:
            if isinstance(layer, ResidualBlock):
                states = layer(torch.cat((states, skips.pop()), dim=1), time)
            else:
                states = layer(F.interpolate(states, scale_factor=2.0, mode="nearest"))
        result: torch.Tensor = self.last(F.silu(self.norm(states)))
        return result


# -- noise -----------------------------------------------------------------------------------------


def signal_shares() -> torch.Tensor:
    """How much of a picture's variance is left at each time, from nearly 1 to nearly 0."""
    curve = ((torch.arange(STEPS + 1) / STEPS + 0.008) / 1.008 * math.pi / 2).cos().square()
    betas = (1 - curve[1:] / curve[:-1]).clamp(max=0.999)
    return (1 - betas).cumprod(0)


def velocity_loss(model: nn.Module, batch: Sequence[torch.Tensor]) -> torch.Tensor:
    """The error of the predicted velocity, each picture at a time of its own.

    In validation times and noise are the same every time, so that the values can be compared.
    """
    pictures = batch[0]
    seed = None if model.training else torch.Generator(pictures.device).manual_seed(0)
    times = torch.randint(STEPS, (len(pictures),), device=pictures.device, generator=seed)
    noise = torch.randn(pictures.shape, device=pictures.device, generator=seed)
    share = signal_shares().to(pictures.device)[times][:, None, None, None]
    predicted = model(share.sqrt() * pictures + (1 - share).sqrt() * noise, times)
    return F.mse_loss(predicted.float(), share.sqrt() * noise - (1 - share).sqrt() * pictures)


@torch.no_grad()
def sample(model: nn.Module, shape: Sequence[int], steps: int = 50, seed: int = 0) -> torch.Tensor:
    """Pictures from noise, by DDIM: values from -1 to 1."""
    model.eval()
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    pictures = torch.randn(tuple(shape), generator=generator).to(device)
    times = torch.linspace(STEPS - 1, 0, steps).round().long()
    shares = [*signal_shares()[times].tolist(), 1.0]
    for number, time in enumerate(times.to(device)):
        share, later = shares[number], shares[number + 1]
        velocity = model(pictures, time.expand(len(pictures))).float()
        clean = (share**0.5 * pictures - (1 - share) ** 0.5 * velocity).clamp(-1, 1)
        noise = (pictures - share**0.5 * clean) / (1 - share) ** 0.5
        pictures = later**0.5 * clean + (1 - later) ** 0.5 * noise
    return pictures


# -- the program -----------------------------------------------------------------------------------


def read_pictures(folder: Path, size: int) -> torch.utils.data.TensorDataset:
    """Grey squares with values from -1 to 1."""
    rows = []
    for path in sorted(folder.rglob("*.png")):
        with Image.open(path) as image:
            rows.append(np.asarray(image.convert("L").resize((size, size)), dtype=np.float32))
    return torch.utils.data.TensorDataset(torch.from_numpy(np.stack(rows))[:, None] / 127.5 - 1)


def write_grid(pictures: torch.Tensor, path: Path) -> None:
    """Grey pictures side by side in one file."""
    values = ((pictures.clamp(-1, 1) + 1) * 127.5).round().byte().cpu()
    across = math.ceil(math.sqrt(len(values)))
    rows = [
        torch.cat(list(row), dim=2) for row in torch.split(values, across) if len(row) == across
    ]
    Image.fromarray(torch.cat(rows, dim=1)[0].numpy()).save(path)


def main(arguments: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=HERE / "shapes", help="folder of PNG files")
    parser.add_argument("--folder", type=Path, default=Path("diffusion-run"))
    parser.add_argument("--size", type=int, default=16, help="side of the pictures in pixels")
    parser.add_argument("--width", type=int, default=32, help="channels of the U-Net")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args(arguments)

    data = read_pictures(options.data, options.size)
    generator = torch.Generator().manual_seed(0)
    train, held_out = torch.utils.data.random_split(data, [0.95, 0.05], generator)
    torch.manual_seed(0)
    model = Unet(width=options.width)
    with Trainer(
        model, train, loss=velocity_loss, validation=held_out, batch=32, steps=options.steps,
        learning_rate=2e-3, ema=0.99, folder=options.folder,
    ) as trainer:  # fmt: skip
        result = trainer.fit()
    print(
        f"step {result.steps}: loss {result.loss:.3f}, validation {result.validation['loss']:.3f}"
    )
    write_grid(sample(model, (36, 1, options.size, options.size)), options.folder / "samples.png")
    return result.validation["loss"]


if __name__ == "__main__":
    main()
