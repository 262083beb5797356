"""A small residual convnet that tells pictures apart, for sides from 16 pixels up."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidSettingError


@dataclass(frozen=True)
class ConvShape:
    """The sizes of a model."""

    classes: int = 10
    channels: int = 3
    widths: tuple[int, ...] = (32, 64, 128)
    """Channels of each stage; a stage has half the side of the one before."""
    blocks: int = 1
    """Residual blocks of a stage."""
    stem: int = 1
    """By how much the first convolution shrinks a side: 1 for small pictures, 4 for photographs."""
    dropout: float = 0.0

    def __post_init__(self) -> None:
        numbers = (self.classes, self.channels, self.blocks, self.stem, *self.widths)
        if not self.widths or any(type(one) is not int or one < 1 for one in numbers):
            raise InvalidSettingError(
                f"a convnet cannot be of {self}", hint="Sizes are integers of at least 1."
            )


PRESETS: dict[str, ConvShape] = {
    "nano": ConvShape(widths=(8, 16)),
    "tiny": ConvShape(widths=(16, 32, 64)),
    "small": ConvShape(widths=(32, 64, 128, 256), blocks=2),
    "medium": ConvShape(widths=(64, 128, 256, 512), blocks=2, stem=4),
}


class ConvBlock(nn.Module):
    """Two convolutions with batch norms, added to what came in."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
        self.norm_1 = nn.BatchNorm2d(outside)
        self.conv_2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm_2 = nn.BatchNorm2d(outside)
        self.way: nn.Module = nn.Identity()
        if stride > 1 or inside != outside:
            around = nn.Conv2d(inside, outside, 1, stride=stride, bias=False)
            self.way = nn.Sequential(around, nn.BatchNorm2d(outside))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States after the block."""
        made = F.relu(self.norm_1(self.conv_1(states)))
        return F.relu(self.norm_2(self.conv_2(made)) + self.way(states))


class ConvNet(nn.Module):
    """Pictures (batch, channels, height, width) in, a logit for each class out."""

    def __init__(self, shape: ConvShape) -> None:
        super().__init__()
        self.shape = shape
        first = shape.widths[0]
        side = 3 if shape.stem == 1 else 2 * shape.stem - 1
        self.stem = nn.Conv2d(
            shape.channels, first, side, stride=shape.stem, padding=side // 2, bias=False
        )
        self.norm = nn.BatchNorm2d(first)
        self.blocks = nn.ModuleList(_stages(shape))
        self.drop = nn.Dropout(shape.dropout)
        self.head = nn.Linear(shape.widths[-1], shape.classes)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits (batch, classes)."""
        states = F.relu(self.norm(self.stem(pictures)))
        for block in self.blocks:
            states = block(states)
        logits: torch.Tensor = self.head(self.drop(states.mean(dim=(2, 3))))
        return logits


def _stages(shape: ConvShape) -> list[ConvBlock]:
    made, now = [], shape.widths[0]
    for stage, width in enumerate(shape.widths):
        for number in range(shape.blocks):
            made.append(ConvBlock(now, width, stride=2 if stage and not number else 1))
            now = width
    return made
