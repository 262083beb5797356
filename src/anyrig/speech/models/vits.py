"""VITS in torch, many rows at a time, each exactly as it would sound alone.

The weights and the text encoder are transformers' `VitsModel`. What is ours: noise that belongs to
the row, frames of many rows packed into lanes without padding, a vocoder whose rows do not hear
each other, and results that travel to the host while the next block is made.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.backends.torch import use_tf32
from anyrig.devices.machine import Precision
from anyrig.speech.models.convolve import Kind, Weights, to_device
from anyrig.speech.models.convolve import quick as _quick
from anyrig.speech.models.landing import Landing
from anyrig.speech.models.noise import normal
from anyrig.speech.models.taps import without_cudnn
from anyrig.speech.models.vits_decode import Flow, Vocoder
from anyrig.speech.models.vits_lanes import Lanes, pack
from anyrig.speech.models.vits_text import PRIOR_STREAM, Batch, encode

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# A block of so many frames takes about 3 GB in fp32 at full size, and keeps an H200 busy.
_BLOCK_FRAMES = 16384
# The text encoder looks from every token at every other.
_TEXT_TOKENS, _TEXT_PAIRS = 1 << 15, 1 << 24


@dataclass(frozen=True)
class VitsRow:
    """What is said at a time."""

    ids: Sequence[int]
    """Its tokens."""
    seed: int = 0
    rate: float = 1.0
    """2.0 is twice as fast."""
    speaker: int = 0
    durations: Sequence[int] | None = None
    """Frames of each token, instead of those the model would choose."""


class _Text(NamedTuple):
    """All rows after the text encoder."""

    table: torch.Tensor
    """[tokens of all rows + 1, 2 * flow]; the last is zero, for frames of no row."""
    durations: list[NDArray[np.int64]]
    """Of each row."""
    firsts: NDArray[np.int64]
    """The number in the table of each row's first token."""


class VitsTorch:
    """VITS on a device.

    Args:
        model: a `VitsModel` of transformers.
        device: where it runs.
        precision: of the vocoder; the text is encoded in fp32 in any case.
        noise: how much the voice varies; the model's own when None.
        duration_noise: how much the rhythm varies; likewise.
        quick: whether our own kernels are used; where they can be when None.
        block_frames: the most frames decoded at a time, which bounds the memory; 1 for rows one by
            one, as a CPU likes it.
    """

    def __init__(
        self,
        model: Any,
        device: torch.device | str,
        precision: Precision = "fp32",
        *,
        noise: float | None = None,
        duration_noise: float | None = None,
        quick: bool | None = None,
        block_frames: int = _BLOCK_FRAMES,
    ) -> None:
        config = model.config
        self.config, self.device = config, torch.device(device)
        self.sample_rate: int = config.sampling_rate
        self._noise = config.noise_scale if noise is None else noise
        own = config.noise_scale_duration
        self._duration_noise = own if duration_noise is None else duration_noise
        self._block_frames, self._tf32 = block_frames, precision != "fp32"
        self._alone = block_frames == 1
        state = model.state_dict()
        dtype = _DTYPES.get(precision, torch.float32)
        self._flow = Flow(Weights(state).at("flow"), config, Kind(self.device))
        self._vocoder = Vocoder(
            Weights(state).at("decoder"),
            config,
            Kind(self.device, dtype, _quick(self.device) if quick is None else quick),
        )
        self._gap = max(self._vocoder.gap, self._flow.reach)
        self._model = _text_part(model).to(self.device).eval()
        if self.device.type == "cuda":
            without_cudnn(self._model)

    @classmethod
    def load(
        cls,
        folder: Path,
        device: torch.device | str,
        precision: Precision = "fp32",
        *,
        noise: float | None = None,
        duration_noise: float | None = None,
        quick: bool | None = None,
        block_frames: int = _BLOCK_FRAMES,
    ) -> VitsTorch:
        """From a folder as transformers saves it. Pickled weights are not opened."""
        model = peer().from_pretrained(folder, use_safetensors=True, local_files_only=True)
        return cls(
            model, device, precision,
            noise=noise, duration_noise=duration_noise, quick=quick, block_frames=block_frames,
        )  # fmt: skip

    @torch.inference_mode()
    def run(self, rows: Sequence[VitsRow]) -> list[Samples]:
        """The samples of each row, in order."""
        if not rows:
            return []
        with use_tf32(False) if self.device.type == "cuda" else nullcontext():
            text = self._encoded(rows)
        frames = [int(durations.sum()) for durations in text.durations]
        made: list[Samples | None] = [None] * len(rows)
        blocks = pack(frames, self._gap, self._block_frames)
        waiting: list[tuple[Lanes, Landing]] = []
        with use_tf32(self._tf32) if self.device.type == "cuda" else nullcontext():
            for lanes in blocks:
                sound = self._decoded(rows, text, lanes, frames)
                waiting.append((lanes, Landing(sound)))
                if len(waiting) > 1:
                    self._take(*waiting.pop(0), frames, made)
        for entry in waiting:
            self._take(*entry, frames, made)
        return [samples for samples in made if samples is not None]

    def _take(
        self, lanes: Lanes, landing: Landing, frames: Sequence[int], made: list[Samples | None]
    ) -> None:
        """Cut a block that has reached the host into its rows."""
        sound, step = landing.wait(), self._vocoder.samples
        for place in lanes.places:
            start = place.start * step
            made[place.row] = sound[place.lane, start : start + frames[place.row] * step].copy()

    # -- text --------------------------------------------------------------------------------------

    def _encoded(self, rows: Sequence[VitsRow]) -> _Text:
        """All rows through the text encoder, in batches of like length, with one wait at the end.

        Rows keep their order in the table, whatever batch they were in.
        """
        tables, logs, order = [], [], []
        for group in _groups(rows, self._alone):
            batch, kept = self._batch([rows[number] for number in group])
            encoded = encode(self._model, batch, self._duration_noise)
            tables.append(encoded.prior.flatten(0, 1).index_select(0, kept))
            logs.append(encoded.log_durations.flatten().index_select(0, kept))
            order += group
        table = torch.cat([*tables, tables[0].new_zeros(1, tables[0].shape[1])])
        flat = torch.exp(torch.cat(logs)).cpu().numpy()
        firsts, durations = np.zeros(len(rows), np.int64), [np.zeros(0, np.int64)] * len(rows)
        position = 0
        for number in order:
            row, firsts[number] = rows[number], position
            position += len(row.ids)
            durations[number] = self._durations(row, flat[firsts[number] : position])
        return _Text(table, durations, firsts)

    def _durations(self, row: VitsRow, lengths: NDArray[np.float32]) -> NDArray[np.int64]:
        """Frames of each token: rounded up, and at least one in all."""
        if row.durations is not None:
            return np.asarray(row.durations, np.int64)
        scale = np.float32(1.0 / (self.config.speaking_rate * row.rate))
        chosen: NDArray[np.int64] = np.ceil(lengths * scale).astype(np.int64)
        if not chosen.sum():
            chosen[-1] = 1
        return chosen

    def _batch(self, rows: Sequence[VitsRow]) -> tuple[Batch, torch.Tensor]:
        """Rows padded to the longest, and where their tokens lie."""
        longest = max(len(row.ids) for row in rows)
        ids = np.zeros((len(rows), longest), np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row.ids)] = row.ids
        lengths = np.array([len(row.ids) for row in rows])
        mask = np.arange(longest)[None] < lengths[:, None]
        seeds = np.array([_signed(row.seed) for row in rows], np.int64)
        batch = Batch(
            to_device(ids, self.device), to_device(mask, self.device),
            to_device(seeds, self.device), self._speakers([row.speaker for row in rows]),
        )  # fmt: skip
        return batch, to_device(np.flatnonzero(mask), self.device)

    def _speakers(self, numbers: Sequence[int]) -> torch.Tensor | None:
        if self.config.num_speakers <= 1:
            return None
        chosen: torch.Tensor = self._model.embed_speaker(
            to_device(np.array(numbers, np.int64), self.device)
        )
        return chosen

    # -- sound -------------------------------------------------------------------------------------

    def _decoded(
        self, rows: Sequence[VitsRow], text: _Text, lanes: Lanes, frames: Sequence[int]
    ) -> torch.Tensor:
        """One block of rows: [lanes, samples]."""
        tokens, steps, seeds, speakers = self._maps(rows, text, lanes, frames)
        mask = (tokens < len(text.table) - 1).unsqueeze(-1).float()
        means, deviations = text.table[tokens].chunk(2, dim=-1)
        if self._noise:
            drawn = normal(seeds, steps, means.shape[-1], PRIOR_STREAM)
            means = means + drawn * torch.exp(deviations) * self._noise * mask
        voices = None
        if (table := self._speakers(range(self.config.num_speakers))) is not None:
            voices = table[speakers]
        latents = self._flow(means, mask, voices)
        stages = self._vocoder.stages
        reaches = [(1, self._gap), *((stage.rate, stage.reach) for stage in stages)]
        silences = [lanes.silence(frames, *pair, self.device) for pair in reaches]
        return self._vocoder(latents, silences, voices)

    def _maps(
        self, rows: Sequence[VitsRow], text: _Text, lanes: Lanes, frames: Sequence[int]
    ) -> Iterator[torch.Tensor]:
        """Of every frame of every lane: token, number in its row, seed, speaker."""
        shape = (4, lanes.num_lanes * lanes.length)
        maps = np.zeros(shape, np.int64)
        maps[0] = len(text.table) - 1
        where = lanes.flat(frames)
        order = [place.row for place in lanes.places]
        lengths = [frames[row] for row in order]
        maps[0, where] = np.concatenate(
            [np.repeat(np.arange(len(rows[row].ids)) + text.firsts[row], text.durations[row])
             for row in order]
        )  # fmt: skip
        maps[1, where] = np.concatenate([np.arange(length) for length in lengths])
        maps[2, where] = np.repeat([_signed(rows[row].seed) for row in order], lengths)
        maps[3, where] = np.repeat([rows[row].speaker for row in order], lengths)
        moved = to_device(maps.reshape(4, lanes.num_lanes, lanes.length), self.device)
        return iter(moved.unbind())


def peer() -> Any:
    """transformers' own class. Importing it makes torch warn, of nothing a user could mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from transformers import VitsModel
    return VitsModel


def _groups(rows: Sequence[VitsRow], alone: bool) -> Iterator[list[int]]:
    """Numbers of rows, of like length together, none too much for the text encoder at once."""
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number].ids))
    while order:
        longest = max(1, len(rows[order[0]].ids))
        fits = min(_TEXT_TOKENS // longest, _TEXT_PAIRS // longest**2)
        size = 1 if alone else max(1, fits)
        yield order[:size]
        order = order[size:]


def _signed(seed: int) -> int:
    """Any integer as one of 64 bits."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


def _text_part(model: Any) -> Any:
    """The model without what is ours by now and what only training uses."""
    for name in ("decoder", "flow", "posterior_encoder"):
        setattr(model, name, torch.nn.Module())
    return model.float()
