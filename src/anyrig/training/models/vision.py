"""Image classifiers: a small residual convnet, folders of transformers, and models of timm."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidInputError, InvalidSettingError, MissingPackageError
from anyrig.install import format_install


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


# -- models of transformers ------------------------------------------------------------------------


PREPROCESSOR = "preprocessor_config.json"
_DEFAULT_SIZE = 224


class Preprocessing(NamedTuple):
    """What a model was trained on."""

    size: int
    channels: int
    mean: tuple[float, ...]
    """Of each channel, from 0 to 255."""
    std: tuple[float, ...]


class TransformersImages(nn.Module):
    """An image classifier of transformers that gives its logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(pixel_values=images).logits
        return logits


def load_transformers(folder: Path, classes: Sequence[str]) -> TransformersImages:
    """A model of a folder with a head for these classes; a head of other classes is left out."""
    from anyrig.training.tasks import texts

    model, _ = texts.load_pretrained(
        "AutoModelForImageClassification", folder, ignore_mismatched_sizes=True,
        num_labels=len(classes), id2label=dict(enumerate(classes)),
        label2id={name: number for number, name in enumerate(classes)},
    )  # fmt: skip
    return TransformersImages(model)


def read_preprocessing(folder: Path) -> Preprocessing:
    """How a folder of transformers wants its pictures."""
    about = _read_json(folder / "config.json")
    named = _read_json(folder / PREPROCESSOR) if (folder / PREPROCESSOR).is_file() else {}
    try:
        channels = int(about.get("num_channels", 3))
        size = _read_size(named.get("crop_size")) or _read_size(named.get("size"))
        size = size or _read_size(about.get("image_size")) or _DEFAULT_SIZE
        mean, std = [0.5] * channels, [0.5] * channels  # as transformers' own default
        if not named.get("do_normalize", True):
            mean, std = [0.0] * channels, [1.0] * channels
        elif "image_mean" in named:
            mean, std = ([float(one) for one in named[f"image_{name}"]] for name in ("mean", "std"))
        if not len(mean) == len(std) == channels:
            raise ValueError(f"{len(mean)} means for {channels} channels")
        factor = float(named.get("rescale_factor") or 1 / 255)
    except (TypeError, ValueError, KeyError) as error:
        raise InvalidInputError(
            f"{folder / PREPROCESSOR} is not valid: {error}", hint="Get the model again."
        ) from error
    return Preprocessing(
        size, channels, tuple(one / factor for one in mean), tuple(one / factor for one in std)
    )


def _read_size(value: Any) -> int:
    """The side of the square, from a number or from one of the tables that processors have."""
    if isinstance(value, Mapping):
        value = value.get("shortest_edge") or value.get("height")
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    return int(value or 0)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is not an object")
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error}", hint="Get the model again."
        ) from error
    return found


# -- timm ------------------------------------------------------------------------------------------


def build_timm(name: str, classes: int, channels: int, *, pretrained: bool = False) -> nn.Module:
    """A model of timm; only with `pretrained` are its weights fetched."""
    try:
        model: nn.Module = _import_timm(name).create_model(
            name, pretrained=pretrained, num_classes=classes, in_chans=channels
        )
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise InvalidSettingError(
            f"timm makes no model of {name!r}: {error}",
            hint="timm.list_models(pretrained=True) gives the names."
            if pretrained
            else "timm.list_models() gives the names.",
        ) from error
    return model


def read_timm_preprocessing(name: str, channels: int) -> Preprocessing:
    """How a model of timm was trained; of greyscale pictures the mean over the colours."""
    found = _import_timm(name).get_pretrained_cfg(name)
    if found is None:
        raise InvalidSettingError(
            f"timm has no weights of {name!r}",
            hint="timm.list_models(pretrained=True) gives the names.",
        )
    mean, std = [float(one) * 255 for one in found.mean], [float(one) * 255 for one in found.std]
    if channels != len(mean):
        mean, std = [sum(mean) / len(mean)] * channels, [sum(std) / len(std)] * channels
    return Preprocessing(int(found.input_size[-1]), channels, tuple(mean), tuple(std))


def _import_timm(name: str) -> Any:
    try:
        return importlib.import_module("timm")
    except (ImportError, RuntimeError, OSError) as error:  # a torchvision of another torch
        raise MissingPackageError(
            f"timm:{name} needs the packages timm and torchvision: {error}",
            hint=f"{format_install('timm')}, with a torchvision that fits the installed torch; on "
            "ARM processors its wheel needs CUDA. convnet and folders of transformers do not need "
            "them.",
        ) from error
