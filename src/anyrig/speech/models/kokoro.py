"""Kokoro-82M in torch, many rows at a time, each as the published model says it alone.

The published `KModel` takes one row: it counts padding as text and makes one alignment. Here every
row has its own length, alignment, statistics, noise and end. It needs torch alone, and reads the
published weights: `kokoro-v1_0.pth`, opened without running any code, or safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.backends.torch import use_tf32
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.speech.models.convolve import Kind, Weights, to_device
from anyrig.speech.models.convolve import quick as _quick
from anyrig.speech.models.kokoro_decode import Curves, Decoder, Generator, Rows
from anyrig.speech.models.kokoro_text import TextBatch, TextPart, Told
from anyrig.speech.models.landing import Landing

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.placement import Placement

RATE = 24000
UNIT = 600
"""Samples of a unit of duration."""
_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# What is encoded and what is decoded at a time, padding and all: a few GB at most. Pitch and
# loudness are made for many blocks at once: they wait for an LSTM that goes from frame to frame,
# and many rows take it as long as few.
_TEXT_TOKENS, _BLOCK_FRAMES, _CURVES_FRAMES = 1 << 17, 1 << 14, 1 << 18


class Said(Protocol):
    """What is said at a time."""

    @property
    def ids(self) -> Sequence[int]:
        """Phonemes, without the zeros at both ends."""

    @property
    def style(self) -> Samples:
        """256 numbers."""

    @property
    def speed(self) -> float:
        """2.0 is twice as fast."""


class KokoroRow(NamedTuple):
    """What is said at a time."""

    ids: Sequence[int]
    style: Samples
    speed: float = 1.0


class _Row(NamedTuple):
    """A row after the text part."""

    number: int
    """In the order it was given."""
    told: Told
    place: int
    """Its row of that."""
    units: NDArray[np.int64]

    @property
    def frames(self) -> int:
        return int(self.units.sum())


class _Shaped(NamedTuple):
    """Rows whose every frame is known, the longest first."""

    sound: torch.Tensor
    """[rows, frames, channels]"""
    curves: tuple[torch.Tensor, ...]
    """Pitch and loudness, [rows, 2 * frames] each."""
    styles: torch.Tensor

    def first(self, count: int, frames: int) -> _Shaped:
        """The first rows, no longer than they are."""
        curves = tuple(curve[:count, : 2 * frames].contiguous() for curve in self.curves)
        return _Shaped(self.sound[:count, :frames].contiguous(), curves, self.styles[:count])

    def after(self, count: int) -> _Shaped:
        """All but the first."""
        curves = tuple(curve[count:] for curve in self.curves)
        return _Shaped(self.sound[count:], curves, self.styles[count:])


class KokoroNet:
    """The network on a device.

    Args:
        tensors: by the names of the published model's own state.
        config: its config.json.
        device: where it runs.
        precision: of the decoder and generator; text, pitch and loudness are in fp32 in any case.
        noise: off, it says the same as the published model with its noise off.
        quick: whether our own kernels are used; where they can be when None.
        block_frames: the most decoded at a time, padding included, which bounds the memory.
    """

    def __init__(
        self,
        tensors: Mapping[str, torch.Tensor],
        config: dict[str, Any],
        device: torch.device | str,
        precision: Precision = "fp32",
        *,
        noise: bool = True,
        quick: bool | None = None,
        block_frames: int = _BLOCK_FRAMES,
    ) -> None:
        self.device, self._noise = torch.device(device), noise
        self._alone = self.device.type == "cpu"  # there padding costs and a batch gains nothing
        self._block_frames, self._tf32 = block_frames, precision != "fp32"
        self._limit: int = config["plbert"]["max_position_embeddings"]
        weights, exact = Weights(tensors), Kind(self.device)
        kind = Kind(
            self.device, _DTYPES.get(precision, torch.float32),
            _quick(self.device) if quick is None else quick,
        )  # fmt: skip
        self._text = TextPart(weights, config, exact)
        self._curves = Curves(weights.at("predictor"), exact)
        self._decoder = Decoder(weights.at("decoder"), kind)
        self._generator = Generator(weights.at("decoder", "generator"), config["istftnet"], kind)

    @torch.inference_mode()
    def run(
        self, batch: Sequence[Said], seeds: Sequence[int] = ()
    ) -> list[tuple[Samples, list[int]]]:
        """Of each row its samples, and units for each phoneme and for the zeros at both ends."""
        made: list[tuple[Samples, list[int]] | None] = [None] * len(batch)
        seeds = seeds or [0] * len(batch)
        waiting: list[tuple[list[_Row], Landing]] = []
        with use_tf32(False) if self.device.type == "cuda" else nullcontext():
            rows = self._read(batch)
        for group in self._cut(rows, _CURVES_FRAMES):
            shaped = self._shaped(group, batch)
            for block in self._cut(group, self._block_frames):
                drawn = [seeds[row.number] for row in block]
                sound, shaped = self._spoken(block, shaped, drawn)
                waiting.append((block, Landing(sound)))
                if len(waiting) > 1:
                    _take(*waiting.pop(0), made)
        for entry in waiting:
            _take(*entry, made)
        return [result for result in made if result is not None]

    # -- text --------------------------------------------------------------------------------------

    def _read(self, batch: Sequence[Said]) -> list[_Row]:
        """All rows through the text part, in batches of like length, with one wait at the end."""
        order = sorted(range(len(batch)), key=lambda number: -len(batch[number].ids))
        groups, tolds = [], []
        while order:
            size = 1 if self._alone else _TEXT_TOKENS // (len(batch[order[0]].ids) + 2)
            group, order = order[: max(1, size)], order[max(1, size) :]
            groups.append(group)
            tolds.append(self._text(self._text_batch([batch[number] for number in group])))
        rows = []
        for group, told in zip(groups, tolds, strict=True):
            units = told.units.cpu().numpy()
            for place, number in enumerate(group):
                rows.append(_Row(number, told, place, units[place, : len(batch[number].ids) + 2]))
        return rows

    def _text_batch(self, batch: Sequence[Said]) -> TextBatch:
        lengths = [len(said.ids) + 2 for said in batch]
        if lengths[0] > self._limit:
            raise InvalidInputError(
                f"Kokoro takes {self._limit - 2} phonemes at a time, not {lengths[0] - 2}",
                hint="Cut the line in two.",
            )
        ids = np.zeros((len(batch), lengths[0]), np.int64)
        for number, said in enumerate(batch):
            ids[number, 1 : len(said.ids) + 1] = said.ids
        mask = np.arange(lengths[0])[None] < np.array(lengths)[:, None]
        speeds = np.array([said.speed for said in batch], np.float32)
        return TextBatch(
            to_device(ids, self.device), lengths, to_device(mask, self.device),
            self._styles(batch), to_device(speeds, self.device),
            to_device(np.flatnonzero(mask), self.device),
        )  # fmt: skip

    def _styles(self, batch: Sequence[Said]) -> torch.Tensor:
        styles = np.stack([np.asarray(said.style, np.float32).reshape(-1) for said in batch])
        return to_device(styles, self.device)

    # -- sound -------------------------------------------------------------------------------------

    def _cut(self, rows: Sequence[_Row], most: int) -> Iterator[list[_Row]]:
        """Rows of like length together, the longest first, padded to so many frames at most.

        On a CPU one by one.
        """
        order = sorted(rows, key=lambda row: -row.frames)
        while order:
            size = 1 if self._alone else most // order[0].frames
            yield order[: max(1, size)]
            order = order[max(1, size) :]

    def _shaped(self, group: Sequence[_Row], batch: Sequence[Said]) -> _Shaped:
        """What is told of each frame of some rows, with pitch and loudness."""
        rows = Rows([row.frames for row in group], self.device)
        styles = self._styles([batch[row.number] for row in group])
        prosody, sound = self._aligned(group, rows)
        with use_tf32(False) if self.device.type == "cuda" else nullcontext():
            curves = self._curves(prosody, styles[:, 128:], rows)
        return _Shaped(sound, curves, styles[:, :128])

    def _spoken(
        self, block: Sequence[_Row], shaped: _Shaped, seeds: Sequence[int]
    ) -> tuple[torch.Tensor, _Shaped]:
        """The first rows of what was shaped: [rows, samples]; and what is left."""
        rows = Rows([row.frames for row in block], self.device)
        drawn = to_device(np.array(seeds, np.int64), self.device) if self._noise else None
        sound, curves, styles = shaped.first(len(block), rows.frames[0])
        with use_tf32(self._tf32) if self.device.type == "cuda" else nullcontext():
            x = self._decoder(sound, curves, styles, rows)
            return self._generator(x, curves[0], styles, rows, drawn), shaped.after(len(block))

    def _aligned(self, block: Sequence[_Row], rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """What is told of each phoneme, as many times as it lasts; zero beyond a row's end."""
        longest = rows.frames[0]
        prosody, sound = [], []
        for row in block:
            where = np.full(longest, len(row.units) - 1, np.int64)
            where[: row.frames] = np.repeat(np.arange(len(row.units)), row.units)
            index = to_device(where, self.device)
            prosody.append(row.told.prosody[row.place].index_select(0, index))
            sound.append(row.told.sound[row.place].index_select(0, index))
        silence = rows.at(1).silence
        return silence(torch.stack(prosody)), silence(torch.stack(sound))


class KokoroTorch(KokoroNet):
    """The network for a placement, from a file of weights with config.json beside it."""

    batch_invariant = False

    def __init__(self, placement: Placement, weights: Path, *, noise: bool = True) -> None:
        from anyrig.backends.torch import TorchHandle

        handle = TorchHandle(placement.device, placement.backend, threads=placement.threads)
        self.handle: DeviceHandle = handle
        tensors, config = load(weights)
        super().__init__(tensors, config, handle.device, placement.precision, noise=noise)


def load(weights: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors by name and the config, without running any code of the file."""
    path = weights.parent / "config.json"
    if not path.is_file():
        raise MissingWeightsError(
            f"no config.json beside {weights}", hint="Take it from where the weights came from."
        )
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if weights.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(weights), config
    return flat(torch.load(weights, map_location="cpu", weights_only=True)), config


def flat(parts: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """One table of the published file's tables by part, whose names begin with `module.`."""
    tensors: dict[str, torch.Tensor] = {}
    for part, value in parts.items():
        if isinstance(value, torch.Tensor):
            tensors[part] = value
            continue
        for name, tensor in value.items():
            tensors[f"{part}.{name.removeprefix('module.')}"] = tensor
    return tensors


def _take(
    block: Sequence[_Row], landing: Landing, made: list[tuple[Samples, list[int]] | None]
) -> None:
    """Cut a block that has reached the host into its rows."""
    sound = landing.wait()
    for place, row in enumerate(block):
        made[row.number] = (sound[place, : row.frames * UNIT].copy(), row.units.tolist())
