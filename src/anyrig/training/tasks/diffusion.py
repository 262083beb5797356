"""A small diffusion model that learns to draw pictures like those of a folder.

    [task]
    kind = "diffusion"
    data = "pictures"
    size = 32

Noise is added to a picture by a cosine schedule and the U-Net says what was added (`epsilon`), or
the velocity between picture and noise (`v`). Times and noise are drawn from torch's random state of
the device: a run that keeps it sees the same ones again. There is no moving average of the weights.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.storage.files import open_atomic, write_atomic
from anyrig.training.batch import Batch
from anyrig.training.models.unet import PRESETS, Unet, UnetShape
from anyrig.training.tasks import Task, config
from anyrig.training.tasks.images import write_weights
from anyrig.training.tasks.pictures import Changes, Pictures, gather, held_out

log = logging.getLogger(__name__)
Predict = Literal["epsilon", "v"]
Sampler = Literal["ddim", "ancestral"]
STEPS = 1000
"""Of the time that a model is trained on; sampling skips most of them."""
_OFFSET = 0.008  # keeps the first steps from adding almost nothing
_MOST_BETA = 0.999
_GOLDEN = (math.sqrt(5) - 1) / 2
_ABOUT = "diffusion.json"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class DiffusionConfig:
    """The `[task]` table."""

    data: str = ""
    """A folder of images, read recursively."""
    model: str | Mapping[str, Any] = "tiny"
    """A preset of the U-Net, or a table with `preset` and sizes."""
    size: int = 32
    """Image size in pixels; images are scaled and cropped to a centred square."""
    channels: Literal[1, 3] = 1
    """1 for greyscale, 3 for colour."""
    predict: Predict = "v"
    """What the model predicts: `epsilon` (the noise) or `v` (the velocity)."""
    validation: float = 0.05
    """Fraction of the images used for validation."""
    flip: bool = False
    """Flip images horizontally at random."""
    samples: int = 16
    """Images to generate at the end; 0 generates none."""
    sampler: Sampler = "ddim"
    """`ddim`, or `ancestral`, which adds noise in every step."""
    sample_steps: int = 50
    """Sampling steps, of the 1000 used in training."""
    cache_gb: float = 4.0
    """Cache decoded images in the run's folder, up to this size."""

    def __post_init__(self) -> None:
        if not self.data:
            raise InvalidSettingError("[task] data is not set", hint="Name the folder of pictures.")
        if not 0 <= self.validation < 1:
            raise InvalidSettingError(
                f"[task] validation is {self.validation}", hint="It must be at least 0 and below 1."
            )
        if not 1 <= self.sample_steps <= STEPS or self.samples < 0:
            raise InvalidSettingError(
                f"[task] {self.samples} samples in {self.sample_steps} steps cannot be drawn",
                hint=f"Steps are from 1 to {STEPS}, samples from 0 up.",
            )


def build(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    """The job of a `[task]` table; see `anyrig.training.tasks.build`."""
    chosen = config.read(DiffusionConfig, values)
    place = config.existing(folder, chosen.data, "the folder of pictures")
    shape = _shape(chosen)
    found = gather(place, run, chosen.size, chosen.channels, chosen.cache_gb)
    for path, reason in found.skipped.items():
        log.warning("%s is left out: %s", path, reason)
    kept, held = held_out(found.names, chosen.validation, seed)
    with config.seeded(seed):
        model = Diffusion(Unet(shape), chosen.predict)
    return Task(
        name="diffusion",
        model=model,
        data=Pictures(found, kept, changes=Changes(flip=chosen.flip)),
        validation=Measured(Pictures(found, held)) if held else None,
        loss=DiffusionLoss(chosen.predict),
        finish=Finish(model, chosen, seed),
        skipped=found.skipped,
    )


def _shape(chosen: DiffusionConfig) -> UnetShape:
    sizes = {"preset": chosen.model} if isinstance(chosen.model, str) else dict(chosen.model)
    preset = sizes.pop("preset", "tiny")
    if preset not in PRESETS:
        raise InvalidSettingError(
            f"unknown U-Net preset {preset!r}", hint=f"Valid names: {', '.join(PRESETS)}."
        )
    first = dataclasses.asdict(PRESETS[preset])
    fixed = {"size": chosen.size, "channels": chosen.channels}
    return config.read(UnetShape, {**first, **sizes, **fixed}, "task.model")


def kept_share() -> torch.Tensor:
    """How much of a picture's variance is left at each time, from nearly 1 to nearly 0."""
    times = torch.arange(STEPS + 1, dtype=torch.float64) / STEPS
    curve = ((times + _OFFSET) / (1 + _OFFSET) * math.pi / 2).cos().square()
    betas = (1 - curve[1:] / curve[:-1]).clamp(max=_MOST_BETA)
    return (1 - betas).cumprod(0)


class Diffusion(nn.Module):
    """A U-Net, and what its answers mean; pictures are bytes outside, -1 to 1 inside."""

    def __init__(self, body: Unet, predict: Predict) -> None:
        super().__init__()
        self.body = body
        self.predict: Predict = predict

    def forward(self, noisy: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """What the model says of noisy pictures at their times (0 to 999)."""
        said: torch.Tensor = self.body(noisy, times)
        return said


class Measured:
    """Pictures that are only measured, each with a time and noise of its own.

    So a measurement is the same however it is cut into batches and on whatever device: what differs
    between two is the model.
    """

    def __init__(self, pictures: Pictures) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        item = self.pictures[number]
        drawn = torch.Generator().manual_seed(number)
        # Any few of these times, or all, lie evenly over the whole.
        time = int((0.5 + number * _GOLDEN) % 1 * STEPS)
        noise = torch.randn(item["image"].shape, generator=drawn)
        return {**item, "time": torch.tensor(time), "noise": noise}


class DiffusionLoss:
    """The mean squared error of what a model says, at a time drawn for each picture.

    A batch may bring its own times and noise, as those of `Measured` do. Where a model is measured
    on others, they are the same for the same batches.
    """

    def __init__(self, predict: Predict) -> None:
        self.predict: Predict = predict
        self._there: dict[torch.device, torch.Tensor] = {}

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The loss of a batch of pictures in bytes."""
        pictures = batch["image"].float() / 127.5 - 1
        if "noise" in batch:
            return self.at(model, pictures, batch["time"], batch["noise"].float())
        if model.training:
            times = torch.randint(0, STEPS, (len(pictures),), device=pictures.device)
            return self.at(model, pictures, times, torch.randn_like(pictures))
        fixed = torch.Generator(pictures.device).manual_seed(0)
        noise = torch.randn(pictures.shape, device=pictures.device, generator=fixed)
        spread = torch.arange(len(pictures), device=pictures.device) + 0.5
        return self.at(model, pictures, (spread * STEPS / len(pictures)).long(), noise)

    def at(
        self, model: nn.Module, pictures: torch.Tensor, times: torch.Tensor, noise: torch.Tensor
    ) -> torch.Tensor:
        """The loss for given pictures (-1 to 1), times and noise."""
        share = self._share(pictures.device)[times][:, None, None, None]
        keep, add = share.sqrt(), (1 - share).sqrt()
        said: torch.Tensor = model(keep * pictures + add * noise, times)
        target = keep * noise - add * pictures if self.predict == "v" else noise
        return (said.float() - target).square().mean()

    def _share(self, device: torch.device) -> torch.Tensor:
        """Copied to a device once: a copy in each step would wait for it."""
        if device not in self._there:
            self._there[device] = kept_share().float().to(device)
        return self._there[device]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_there": {}}


def picture_in(
    noisy: torch.Tensor, said: torch.Tensor, share: torch.Tensor, predict: Predict
) -> torch.Tensor:
    """The picture that what a model said amounts to, within -1 and 1."""
    keep, add = share.sqrt(), (1 - share).sqrt()
    made = keep * noisy - add * said if predict == "v" else (noisy - add * said) / keep
    return made.clamp(-1, 1)  # all it learned from are, and so errors do not pile up


@torch.no_grad()
def sample(
    model: Diffusion,
    count: int,
    steps: int = 50,
    sampler: Sampler = "ddim",
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Pictures as bytes (count, channels, size, size) drawn out of noise.

    `ddim` goes the straight way and is good in few steps; `ancestral` adds new noise in each.
    """
    weight, shape = next(model.parameters()), model.body.shape
    size = (count, shape.channels, shape.size, shape.size)
    times = torch.linspace(STEPS - 1, 0, steps).round().long()
    shares = [*kept_share()[times].float().to(weight.device), weight.new_ones(()).float()]
    was_training = model.training
    model.eval()
    now = torch.randn(size, device=weight.device, generator=generator)
    for place, time in enumerate(times.to(weight.device)):
        said = model(now.to(weight.dtype), time.expand(count)).float()
        picture = picture_in(now, said, shares[place], model.predict)
        now = _earlier(now, picture, shares[place], shares[place + 1], sampler, generator)
    model.train(was_training)
    return ((now.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)


def _earlier(
    now: torch.Tensor,
    picture: torch.Tensor,
    share: torch.Tensor,
    later: torch.Tensor,
    sampler: Sampler,
    generator: torch.Generator | None,
) -> torch.Tensor:
    """The noisy picture at an earlier time, where `later` of the variance is the picture's."""
    noise = (now - share.sqrt() * picture) / (1 - share).sqrt()
    if sampler == "ddim":
        return later.sqrt() * picture + (1 - later).sqrt() * noise
    spread = ((1 - later) / (1 - share) * (1 - share / later)).clamp(min=0)
    straight = (1 - later - spread).clamp(min=0).sqrt() * noise
    fresh = torch.randn(now.shape, device=now.device, generator=generator)
    return later.sqrt() * picture + straight + spread.sqrt() * fresh


def grid(pictures: torch.Tensor) -> bytes:
    """Pictures side by side in a PNG file, as square as they can be laid."""
    import io

    import numpy as np
    from PIL import Image

    count, channels, high, wide = pictures.shape
    across = math.ceil(math.sqrt(count))
    down = math.ceil(count / across)
    sheet = np.full((down * high, across * wide, channels), 255, dtype=np.uint8)
    for number, picture in enumerate(pictures.permute(0, 2, 3, 1).cpu().numpy()):
        top, left = number // across * high, number % across * wide
        sheet[top : top + high, left : left + wide] = picture
    out = io.BytesIO()
    Image.fromarray(sheet[..., 0] if channels == 1 else sheet).save(out, "PNG")
    return out.getvalue()


@dataclass(frozen=True)
class Finish:
    """Writes the weights and a sheet of pictures that the model drew."""

    model: Diffusion
    chosen: DiffusionConfig
    seed: int

    def __call__(self, folder: Path) -> Mapping[str, Any]:
        """What was written where."""
        from anyrig.training.export import whole_folder

        shape = dataclasses.asdict(self.model.body.shape)
        about = {"predict": self.model.predict, "unet": shape}
        with whole_folder(folder / "model") as place:
            write_weights(self.model, place / _WEIGHTS)
            write_atomic(place / _ABOUT, json.dumps(about, indent=2))
        said: dict[str, Any] = {"model": str(folder / "model")}
        if self.chosen.samples:
            with open_atomic(folder / "samples.png") as file:
                file.write(grid(self.drawn()))
            said["samples"] = str(folder / "samples.png")
        return said

    def drawn(self) -> torch.Tensor:
        """The pictures, the same for the same weights and seed."""
        generator = torch.Generator(next(self.model.parameters()).device).manual_seed(self.seed)
        chosen = self.chosen
        return sample(self.model, chosen.samples, chosen.sample_steps, chosen.sampler, generator)


def load(folder: Path) -> Diffusion:
    """The model that a run wrote, for `sample`."""
    from safetensors.torch import load_file

    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        shape = config.read(UnetShape, about["unet"], "unet")
        model = Diffusion(Unet(shape), "v" if about["predict"] == "v" else "epsilon")
        model.load_state_dict(load_file(folder / _WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise InvalidInputError(
            f"{folder} contains no diffusion model: {error}",
            hint=f"Pass the folder `model` of a run, with {_WEIGHTS} and {_ABOUT}.",
        ) from error
    return model.eval()
