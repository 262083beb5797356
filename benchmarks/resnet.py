"""ResNets of bottleneck units, as ResNet-50 is: 25.6 million weights at a thousand classes.

The stride lies in a unit's 3 x 3 convolution (the form known as v1.5), and the last norm of a unit
begins at nought, so that an untrained unit passes on what came in.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from anyrig.errors import InvalidSettingError

_WIDER = 4


@dataclass(frozen=True)
class ResnetShape:
    """The sizes of a model; the default is ResNet-50."""

    classes: int = 1000
    channels: int = 3
    width: int = 64
    """Channels of the first stage's inner convolutions; each further stage has twice as many."""
    stages: tuple[int, ...] = (3, 4, 6, 3)
    """Units of each stage."""

    def __post_init__(self) -> None:
        numbers = (self.classes, self.channels, self.width, *self.stages)
        if not self.stages or any(type(one) is not int or one < 1 for one in numbers):
            raise InvalidSettingError(
                f"a ResNet cannot be of {self}", hint="Pass integers of at least 1."
            )


class Bottleneck(nn.Module):
    """Down to few channels, across, and up again, added to what came in."""

    def __init__(self, inside: int, inner: int, stride: int) -> None:
        super().__init__()
        outside = inner * _WIDER
        self.conv_1 = nn.Conv2d(inside, inner, 1, bias=False)
        self.norm_1 = nn.BatchNorm2d(inner)
        self.conv_2 = nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False)
        self.norm_2 = nn.BatchNorm2d(inner)
        self.conv_3 = nn.Conv2d(inner, outside, 1, bias=False)
        self.norm_3 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.way: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.way = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )
        nn.init.zeros_(self.norm_3.weight)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States after the unit."""
        made = self.relu(self.norm_1(self.conv_1(states)))
        made = self.relu(self.norm_2(self.conv_2(made)))
        added: torch.Tensor = self.relu(self.norm_3(self.conv_3(made)) + self.way(states))
        return added


class Resnet(nn.Module):
    """Pictures in, a logit for each class out."""

    def __init__(self, shape: ResnetShape | None = None) -> None:
        super().__init__()
        self.shape = shape = shape or ResnetShape()
        self.stem = nn.Sequential(
            nn.Conv2d(shape.channels, shape.width, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(shape.width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, padding=1),
        )
        stages, inside = [], shape.width
        for number, units in enumerate(shape.stages):
            inner = shape.width << number
            stages.append(_stage(inside, inner, units, stride=2 if number else 1))
            inside = inner * _WIDER
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inside, shape.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Logits (batch, classes)."""
        states = self.stages(self.stem(pictures))
        logits: torch.Tensor = self.head(states.mean((2, 3)))
        return logits


def _stage(inside: int, inner: int, units: int, *, stride: int) -> nn.Sequential:
    first = Bottleneck(inside, inner, stride)
    rest = (Bottleneck(inner * _WIDER, inner, 1) for _ in range(units - 1))
    return nn.Sequential(first, *rest)
