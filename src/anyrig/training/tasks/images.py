"""An image classifier from a folder of pictures with a subfolder for each class, or a manifest.

    [task]
    kind = "images"
    data = "pictures"
    model = "convnet:tiny"

The model takes bytes and normalises them itself, so what is written at the end needs no recipe
beside it: `load(folder).predict([path])` tells the classes of pictures.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.storage.files import write_atomic
from anyrig.storage.weights import find_cached_repository
from anyrig.training.batch import Batch
from anyrig.training.models.vision import (
    PREPROCESSOR,
    PRESETS,
    ConvNet,
    ConvShape,
    Preprocessing,
    build_timm,
    load_transformers,
    read_preprocessing,
    read_timm_preprocessing,
)
from anyrig.training.tasks import (
    Task,
    read_allowed_files,
    read_table,
    require_path,
    resolve_path,
    seed_torch,
)
from anyrig.training.tasks.pictures import (
    Augmentation,
    Pictures,
    PictureSet,
    gather,
    read,
    split_validation,
)

log = logging.getLogger(__name__)
_LABELS = "labels.json"
_WEIGHTS = "model.safetensors"
_DEFAULT_SIZE = 32


@dataclass(frozen=True)
class ImagesConfig:
    """The `[task]` table."""

    data: str = ""
    """A folder with one subfolder of images per class, or a manifest: a CSV or JSON lines with
    `file` and `label`."""
    files: str = ""
    """A JSON file that maps file names in the manifest to paths; no other file is opened."""
    model: str | Mapping[str, Any] = "convnet:tiny"
    """`convnet:PRESET`, `timm:NAME`, or a table with `kind`, `preset` and sizes; a pretrained
    model: a Hugging Face folder or a name in the hub's cache, or a table of timm with
    `pretrained = true`."""
    size: int = 0
    """Image size in pixels; images are scaled and cropped to a centred square; 0: what a pretrained
    model was trained on, else 32."""
    channels: Literal[1, 3] = 3
    """1 for greyscale, 3 for colour."""
    validation: float = 0.1
    """Fraction of each class used for validation."""
    normalise: Literal["data", "each"] = "data"
    """By mean and deviation of the whole data set, or of what a pretrained model was trained on
    (`data`), or of each image (`each`)."""
    crop: int = 0
    """Shift images at random by up to this many pixels."""
    flip: bool = False
    """Flip images horizontally at random."""
    smoothing: float = 0.0
    """Label smoothing."""
    class_weights: Literal["none", "balanced"] = "none"
    """`balanced` weights rare classes more."""
    cache_gb: float = 4.0
    """Cache decoded images in the run's folder, up to this size."""

    def __post_init__(self) -> None:
        _require(bool(self.data), "data is not set", "Name the folder of pictures.")
        _require(
            self.size == 0 or self.size >= 8, f"size is {self.size}", "It must be from 8 up, or 0."
        )
        _require(0 <= self.validation < 1, f"validation is {self.validation}", "From 0, below 1.")
        _require(0 <= self.smoothing < 1, f"smoothing is {self.smoothing}", "From 0, below 1.")


def _require(holds: bool, problem: str, hint: str) -> None:
    if not holds:
        raise InvalidSettingError(f"[task] {problem}", hint=hint)


def build(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    """The job of a `[task]` table; see `anyrig.training.tasks.build`."""
    chosen = read_table(ImagesConfig, values)
    place = require_path(folder, chosen.data, "the folder of pictures")
    resolve = read_allowed_files(folder, chosen.files)
    source, trained_on = _find_pretrained(chosen, folder)
    size = chosen.size or (trained_on.size if trained_on else _DEFAULT_SIZE)
    _require(0 <= chosen.crop < size, f"crop is {chosen.crop}", "It must be less than the size.")
    found = gather(place, run, size, chosen.channels, chosen.cache_gb, resolve)
    classes, labels, stray = _classes(found)
    skipped = {**found.skipped, **stray}
    for path, reason in skipped.items():
        log.warning("%s is left out: %s", path, reason)
    trained, held_out = _split(found.names, labels, chosen.validation, seed)
    with seed_torch(seed):
        if source is None:
            body, shape = build_model(chosen.model, len(classes), chosen.channels)
        else:
            body, shape = load_transformers(source, classes), {"kind": "transformers"}
    known = trained_on or found
    model = NormalizedModel(body, known.mean, known.std, each=chosen.normalise == "each")
    _check_size(model, size, chosen.channels)
    changes = Augmentation(chosen.crop, chosen.flip)
    weights = _weights([labels[one] for one in trained], len(classes), chosen.class_weights)
    about = {
        "classes": classes, "size": size, "channels": chosen.channels,
        "normalise": chosen.normalise, "model": shape,
    }  # fmt: skip
    data = Pictures(found, trained, [labels[one] for one in trained], changes)
    validation = Pictures(found, held_out, [labels[one] for one in held_out]) if held_out else None
    return Task(
        name="images",
        model=model,
        data=data,
        validation=validation,
        loss=PictureLoss(weights, chosen.smoothing),
        metrics={"accuracy": accuracy},
        finish=ImagesOutput(model, about, source),
        skipped=skipped,
    )


def _find_pretrained(
    chosen: ImagesConfig, folder: Path
) -> tuple[Path | None, Preprocessing | None]:
    """The folder of a model of transformers, and what a pretrained model was trained on."""
    requested = chosen.model
    if isinstance(requested, str):
        path = resolve_path(folder, requested)
        source = path if (path / "config.json").is_file() else find_cached_repository(requested)
        if source is None:
            return None, None
        found = read_preprocessing(source)
        _require(
            found.channels == chosen.channels, f"channels is {chosen.channels}",
            f"The model has {found.channels}.",
        )  # fmt: skip
        return source, found
    if requested.get("kind") == "timm" and requested.get("pretrained"):
        return None, read_timm_preprocessing(str(requested.get("preset")), chosen.channels)
    return None, None


@torch.no_grad()
def _check_size(model: nn.Module, size: int, channels: int) -> None:
    """Refuse now what a model would refuse in its first step."""
    was_training = model.training
    try:
        model.eval()(torch.zeros(1, channels, size, size, dtype=torch.uint8))
    except (ValueError, RuntimeError) as error:
        raise InvalidSettingError(
            f"[task] the model takes no images of {size} pixels: {str(error).splitlines()[0]}",
            hint="Leave size out, or set what the model was made for.",
        ) from error
    model.train(was_training)


def _classes(found: PictureSet) -> tuple[list[str], dict[int, int], dict[str, str]]:
    """Class names, the class of each picture by its number, and what is in no class's folder."""
    stray = {
        str(found.folder / name): "it lies in no class's folder"
        for name, label in zip(found.names, found.labels, strict=True)
        if not label
    }
    classes = sorted({label for label in found.labels if label})
    if len(classes) < 2:
        raise InvalidInputError(
            f"{found.folder} has pictures of {len(classes)} classes",
            hint="Put the pictures of each class, two at least, into a folder of the class's name, "
            "or name file and label of each in a CSV.",
        )
    numbers = {name: number for number, name in enumerate(classes)}
    labels = {number: numbers[label] for number, label in enumerate(found.labels) if label}
    return classes, labels, stray


def _split(
    names: Sequence[str], labels: Mapping[int, int], share: float, seed: int
) -> tuple[list[int], list[int]]:
    """Each class is split by itself."""
    trained: list[int] = []
    validation: list[int] = []
    for label in sorted(set(labels.values())):
        numbers = [number for number, its in labels.items() if its == label]
        ours, theirs = split_validation([names[one] for one in numbers], share, seed)
        trained += [numbers[one] for one in ours]
        validation += [numbers[one] for one in theirs]
    return sorted(trained), sorted(validation)


def _weights(labels: Sequence[int], num_classes: int, kind: str) -> torch.Tensor | None:
    """A weight for each class, whose mean over all pictures is 1."""
    if kind == "none":
        return None
    counts = torch.bincount(torch.tensor(labels), minlength=num_classes).double()
    return (len(labels) / (num_classes * counts.clamp(min=1))).float()


class NormalizedModel(nn.Module):
    """A model that takes bytes (0 to 255) and brings them to mean 0 and deviation 1 first."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self, body: nn.Module, mean: Sequence[float], std: Sequence[float], *, each: bool = False
    ) -> None:
        super().__init__()
        self.body = body
        self.each = each
        """Whether a picture counts by its own mean and deviation, not by those of all."""
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (batch, classes)."""
        values = images.to(self.mean.dtype)
        mean, std = self.mean, self.std
        if self.each:
            mean = values.mean(dim=(2, 3), keepdim=True)
            std = (values - mean).square().mean(dim=(2, 3), keepdim=True).sqrt() + 1
        logits: torch.Tensor = self.body((values - mean) / std)
        return logits


def build_model(
    requested: str | Mapping[str, Any], classes: int, channels: int
) -> tuple[nn.Module, dict[str, Any]]:
    """A model by `kind:preset` or by a table, and the table that makes it again."""
    sizes = dict(requested) if isinstance(requested, Mapping) else _table(requested)
    kind, preset = sizes.pop("kind", "convnet"), sizes.pop("preset", "tiny")
    fixed = {"classes": classes, "channels": channels}
    if kind == "convnet":
        first: Any = _preset(PRESETS, preset, kind)
        made = {**dataclasses.asdict(first), **sizes, **fixed}
        return ConvNet(read_table(ConvShape, made, "task.model")), {
            "kind": kind, **made,
        }  # fmt: skip
    if kind == "timm":
        pretrained = bool(sizes.pop("pretrained", False))
        body = build_timm(preset, classes, channels, pretrained=pretrained)
        return body, {"kind": kind, "preset": preset}
    if kind == "vit":
        raise InvalidSettingError(
            "[task] model: the vision transformers of version 0.1.0 are gone",
            hint='Fine-tune a pretrained one: model = "google/vit-base-patch16-224", or '
            "timm:vit_tiny_patch16_224. What 0.1.0 trained still runs as model.onnx.",
        )
    raise InvalidSettingError(
        f"[task] model is {requested!r}, which is no kind of model and no folder with a"
        " config.json",
        hint="Kinds are: convnet, timm. Or give a Hugging Face folder.",
    )


def _table(word: str) -> dict[str, Any]:
    kind, _, preset = word.partition(":")
    return {"kind": kind, "preset": preset or "tiny"}


def _preset(presets: Mapping[str, Any], name: str, kind: str) -> Any:
    if name not in presets:
        raise InvalidSettingError(
            f"unknown {kind} preset {name!r}", hint=f"Valid names: {', '.join(presets)}."
        )
    return presets[name]


class PictureLoss(nn.Module):
    """Cross-entropy as a mean over pictures, with label smoothing and weights of classes.

    A weighted batch is divided by its pictures, not by their weights: so a batch computed in parts
    has the same loss as the whole.
    """

    whole_batch = False
    weights: torch.Tensor | None

    def __init__(self, weights: torch.Tensor | None = None, smoothing: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.smoothing = smoothing

    def forward(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The loss of a batch."""
        logits = model(batch["image"]).float()
        return F.cross_entropy(
            logits, batch["label"], self.weights, label_smoothing=self.smoothing, reduction="none"
        ).mean()


def accuracy(model: nn.Module, batch: Batch) -> tuple[torch.Tensor, float]:
    """How many pictures of a batch are told right, and how many there are."""
    right = model(batch["image"]).argmax(dim=1) == batch["label"]
    return right.sum(), float(len(right))


@dataclass(frozen=True)
class ImagesOutput:
    """Writes the weights, and beside them what is needed to use them."""

    model: nn.Module
    about: Mapping[str, Any]
    source: Path | None = None
    """The folder of transformers that the model is of."""

    def __call__(self, folder: Path) -> Mapping[str, Any]:
        """What was written where."""
        from anyrig.training.export import replace_folder, save_weights, share_permissions

        written: dict[str, Any] = {"model": str(folder / "model")}
        with replace_folder(folder / "model") as place:
            about = dict(self.about)
            if self.source is None:
                save_weights(self.model.state_dict(), place / _WEIGHTS)
            else:
                about |= self._write_transformers(place)
            write_atomic(place / _LABELS, json.dumps(about, indent=2))
            share_permissions(place)
            written["onnx"] = self._onnx(place / "model.onnx")
        return {**written, "classes": list(self.about["classes"])}

    def _write_transformers(self, place: Path) -> dict[str, Any]:
        """A folder that transformers opens; what the normalisation adds for our own `load`."""
        from anyrig.training.export import save_pretrained

        model: Any = self.model
        save_pretrained(model.body.model, place)
        assert self.source is not None
        if (self.source / PREPROCESSOR).is_file():
            shutil.copyfile(self.source / PREPROCESSOR, place / PREPROCESSOR)
        return {"mean": model.mean.flatten().tolist(), "std": model.std.flatten().tolist()}

    def _onnx(self, path: Path) -> str:
        """Whether the ONNX file was written, or why not: the weights are there all the same."""
        from anyrig.training.export import export_onnx

        side = self.about["size"]
        example = torch.zeros(2, self.about["channels"], side, side)
        try:
            export_onnx(self.model, {"images": example}, path)
        except Exception as error:  # noqa: BLE001 - an operation nobody has translated yet
            log.warning("no ONNX file was written: %s", error)
            return f"not written: {error}"
        return path.name


class Prediction(NamedTuple):
    """What a picture shows."""

    label: str
    probability: float


class Classifier:
    """A trained classifier."""

    def __init__(self, model: nn.Module, about: Mapping[str, Any]) -> None:
        self.model = model.eval()
        self.classes: tuple[str, ...] = tuple(about["classes"])
        self.size = int(about["size"])
        self.channels = int(about["channels"])

    @torch.no_grad()
    def predict(self, pictures: Sequence[Path | str | bytes], batch: int = 64) -> list[Prediction]:
        """The likeliest class of each picture: a path, or the bytes of a file."""
        device = next(self.model.parameters()).device
        found = []
        for first in range(0, len(pictures), batch):
            some = [read(one, self.size, self.channels) for one in pictures[first : first + batch]]
            images = torch.stack([torch.from_numpy(one.copy()) for one in some]).to(device)
            shares, labels = self.model(images).float().softmax(dim=1).max(dim=1)
            pairs = zip(labels.tolist(), shares.tolist(), strict=True)
            found += [Prediction(self.classes[label], share) for label, share in pairs]
        return found


def load(folder: Path | str) -> Classifier:
    """The classifier that a run wrote into its folder `model`."""
    from safetensors.torch import load_file

    folder = Path(folder)
    try:
        about = json.loads((folder / _LABELS).read_text(encoding="utf-8"))
        each = about["normalise"] == "each"
        if about["model"]["kind"] == "transformers":
            body: nn.Module = load_transformers(folder, about["classes"])
            return Classifier(NormalizedModel(body, about["mean"], about["std"], each=each), about)
        state = load_file(folder / _WEIGHTS)
        body, _ = build_model(about["model"], len(about["classes"]), about["channels"])
        zeros, one = [0.0] * about["channels"], [1.0] * about["channels"]
        model = NormalizedModel(body, zeros, one, each=each)
        model.load_state_dict(state)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise InvalidInputError(
            f"{folder} contains no image classifier: {error}",
            hint=f"Pass the folder `model` of a run, with {_WEIGHTS} and {_LABELS}.",
        ) from error
    return Classifier(model, about)
