"""Kokoro-82M in torch, many rows at a time, each as the published model speaks it alone.

The published `KModel` takes one row: it counts padding as text and makes one alignment. Here every
row has its own length, alignment, statistics, noise and end. It needs torch alone, and reads the
published weights: `kokoro-v1_0.pth`, opened without running any code, or safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.backends.torch import use_tf32
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.speech.engines.kokoro import UNIT, PhonemeInput
from anyrig.speech.models.kokoro_decoder import (
    Curves,
    FrameRows,
    KokoroDecoder,
    Lstm,
    WaveGenerator,
)
from anyrig.speech.models.layers import (
    DTYPES,
    Conv,
    HostCopy,
    NamedTensors,
    TensorFormat,
    has_triton,
    to_device,
)

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.placement import Placement

# What is encoded and what is decoded at a time, padding and all: a few GB at most. Pitch and
# loudness are computed for many blocks at once: an LSTM goes from frame to frame, and takes as long
# for few rows as for many.
_TEXT_TOKENS, _BLOCK_FRAMES, _CURVES_FRAMES = 1 << 17, 1 << 14, 1 << 18


class _EncodedRow(NamedTuple):
    """A row after the text part."""

    number: int
    """In the order it was given."""
    features: TextFeatures
    place: int
    """Its row in them."""
    units: NDArray[np.int64]

    @property
    def frames(self) -> int:
        return int(self.units.sum())


class _Frames(NamedTuple):
    """Rows whose every frame is known, the longest first."""

    sound: torch.Tensor
    """[rows, frames, channels]"""
    curves: tuple[torch.Tensor, ...]
    """Pitch and loudness, [rows, 2 * frames] each."""
    styles: torch.Tensor

    def take_first(self, count: int, frames: int) -> _Frames:
        """The first rows, no longer than they are."""
        curves = tuple(curve[:count, : 2 * frames].contiguous() for curve in self.curves)
        return _Frames(self.sound[:count, :frames].contiguous(), curves, self.styles[:count])

    def drop_first(self, count: int) -> _Frames:
        """All but the first."""
        curves = tuple(curve[count:] for curve in self.curves)
        return _Frames(self.sound[count:], curves, self.styles[count:])


class KokoroNet:
    """The network on a device.

    Args:
        tensors: by the names of the published model's own state.
        config: its config.json.
        device: where it runs.
        precision: of the decoder and generator; text, pitch and loudness are in fp32 in any case.
        noise: off, it says the same as the published model with its noise off.
        fused: whether our own kernels are used; where they can be when None.
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
        fused: bool | None = None,
        block_frames: int = _BLOCK_FRAMES,
    ) -> None:
        self.device, self._noise = torch.device(device), noise
        # On a CPU padding costs, and a batch gains nothing.
        self._one_by_one = self.device.type == "cpu"
        self._block_frames, self._tf32 = block_frames, precision != "fp32"
        self._limit: int = config["plbert"]["max_position_embeddings"]
        weights, exact = NamedTensors(tensors), TensorFormat(self.device)
        format = TensorFormat(
            self.device, DTYPES.get(precision, torch.float32),
            has_triton(self.device) if fused is None else fused,
        )  # fmt: skip
        self._text = TextPart(weights, config, exact)
        self._curves = Curves(weights.at("predictor"), exact)
        self._decoder = KokoroDecoder(weights.at("decoder"), format)
        self._generator = WaveGenerator(
            weights.at("decoder", "generator"), config["istftnet"], format
        )

    @torch.inference_mode()
    def run(
        self, batch: Sequence[PhonemeInput], seeds: Sequence[int] = ()
    ) -> list[tuple[Samples, list[int]]]:
        """Of each row its samples, and units for each phoneme and for the zeros at both ends."""
        results: list[tuple[Samples, list[int]] | None] = [None] * len(batch)
        seeds = seeds or [0] * len(batch)
        waiting: list[tuple[list[_EncodedRow], HostCopy]] = []
        with use_tf32(False) if self.device.type == "cuda" else nullcontext():
            rows = self._encode_text(batch)
        for group in self._group_rows(rows, _CURVES_FRAMES):
            frames = self._predict_frames(group, batch)
            for block in self._group_rows(group, self._block_frames):
                drawn = [seeds[row.number] for row in block]
                sound, frames = self._decode(block, frames, drawn)
                waiting.append((block, HostCopy(sound)))
                if len(waiting) > 1:
                    _store(*waiting.pop(0), results)
        for entry in waiting:
            _store(*entry, results)
        return [result for result in results if result is not None]

    # -- text --------------------------------------------------------------------------------------

    def _encode_text(self, batch: Sequence[PhonemeInput]) -> list[_EncodedRow]:
        """All rows through the text part, in batches of like length, with one wait at the end."""
        order = sorted(range(len(batch)), key=lambda number: -len(batch[number].ids))
        groups, encoded = [], []
        while order:
            size = 1 if self._one_by_one else _TEXT_TOKENS // (len(batch[order[0]].ids) + 2)
            group, order = order[: max(1, size)], order[max(1, size) :]
            groups.append(group)
            encoded.append(self._text(self._text_batch([batch[number] for number in group])))
        rows = []
        for group, features in zip(groups, encoded, strict=True):
            units = features.units.cpu().numpy()
            for place, number in enumerate(group):
                rows.append(
                    _EncodedRow(number, features, place, units[place, : len(batch[number].ids) + 2])
                )
        return rows

    def _text_batch(self, batch: Sequence[PhonemeInput]) -> TextBatch:
        lengths = [len(one.ids) + 2 for one in batch]
        if lengths[0] > self._limit:
            raise InvalidInputError(
                f"Kokoro reads at most {self._limit - 2} phonemes at a time, not {lengths[0] - 2}",
                hint="Split the text.",
            )
        ids = np.zeros((len(batch), lengths[0]), np.int64)
        for number, one in enumerate(batch):
            ids[number, 1 : len(one.ids) + 1] = one.ids
        mask = np.arange(lengths[0])[None] < np.array(lengths)[:, None]
        speeds = np.array([one.speed for one in batch], np.float32)
        return TextBatch(
            to_device(ids, self.device), lengths, to_device(mask, self.device),
            self._styles(batch), to_device(speeds, self.device),
            to_device(np.flatnonzero(mask), self.device),
        )  # fmt: skip

    def _styles(self, batch: Sequence[PhonemeInput]) -> torch.Tensor:
        styles = np.stack([np.asarray(one.style, np.float32).reshape(-1) for one in batch])
        return to_device(styles, self.device)

    # -- audio -------------------------------------------------------------------------------------

    def _group_rows(self, rows: Sequence[_EncodedRow], most: int) -> Iterator[list[_EncodedRow]]:
        """Rows of like length together, the longest first, padded to so many frames at most.

        On a CPU one by one.
        """
        order = sorted(rows, key=lambda row: -row.frames)
        while order:
            size = 1 if self._one_by_one else most // order[0].frames
            yield order[: max(1, size)]
            order = order[max(1, size) :]

    def _predict_frames(
        self, group: Sequence[_EncodedRow], batch: Sequence[PhonemeInput]
    ) -> _Frames:
        """Features of each frame of some rows, with pitch and loudness."""
        rows = FrameRows([row.frames for row in group], self.device)
        styles = self._styles([batch[row.number] for row in group])
        prosody, sound = self._align(group, rows)
        with use_tf32(False) if self.device.type == "cuda" else nullcontext():
            curves = self._curves(prosody, styles[:, 128:], rows)
        return _Frames(sound, curves, styles[:, :128])

    def _decode(
        self, block: Sequence[_EncodedRow], frames: _Frames, seeds: Sequence[int]
    ) -> tuple[torch.Tensor, _Frames]:
        """Decode the first rows: [rows, samples]; and the frames that are left."""
        rows = FrameRows([row.frames for row in block], self.device)
        drawn = to_device(np.array(seeds, np.int64), self.device) if self._noise else None
        sound, curves, styles = frames.take_first(len(block), rows.frames[0])
        with use_tf32(self._tf32) if self.device.type == "cuda" else nullcontext():
            x = self._decoder(sound, curves, styles, rows)
            return self._generator(x, curves[0], styles, rows, drawn), frames.drop_first(len(block))

    def _align(
        self, block: Sequence[_EncodedRow], rows: FrameRows
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Repeat the features of each phoneme for as long as it lasts; zero beyond a row's end."""
        longest = rows.frames[0]
        prosody, sound = [], []
        for row in block:
            where = np.full(longest, len(row.units) - 1, np.int64)
            where[: row.frames] = np.repeat(np.arange(len(row.units)), row.units)
            index = to_device(where, self.device)
            prosody.append(row.features.prosody[row.place].index_select(0, index))
            sound.append(row.features.sound[row.place].index_select(0, index))
        padding = rows.at(1).padding
        return padding(torch.stack(prosody)), padding(torch.stack(sound))


class KokoroTorch(KokoroNet):
    """The network for a placement, from a file of weights with config.json beside it."""

    batch_invariant = False

    def __init__(self, placement: Placement, weights: Path, *, noise: bool = True) -> None:
        from anyrig.backends.torch import TorchHandle

        handle = TorchHandle(placement.device, placement.backend, threads=placement.threads)
        self.handle: DeviceHandle = handle
        tensors, config = load_weights(weights)
        super().__init__(tensors, config, handle.device, placement.precision, noise=noise)


def load_weights(weights: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors by name and the config, without running any code of the file."""
    path = weights.parent / "config.json"
    if not path.is_file():
        raise MissingWeightsError(
            f"no config.json beside {weights}",
            hint="Download it from the repository of the weights.",
        )
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if weights.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(weights), config
    return _flatten(torch.load(weights, map_location="cpu", weights_only=True)), config


def _flatten(parts: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """One table of the published file's tables by part, whose names begin with `module.`."""
    tensors: dict[str, torch.Tensor] = {}
    for part, value in parts.items():
        if isinstance(value, torch.Tensor):
            tensors[part] = value
            continue
        for name, tensor in value.items():
            tensors[f"{part}.{name.removeprefix('module.')}"] = tensor
    return tensors


def _store(
    block: Sequence[_EncodedRow], copy: HostCopy, results: list[tuple[Samples, list[int]] | None]
) -> None:
    """Cut a block that has reached the host into its rows."""
    sound = copy.wait()
    for place, row in enumerate(block):
        results[row.number] = (sound[place, : row.frames * UNIT].copy(), row.units.tolist())


# -- text to durations -----------------------------------------------------------------------------
# Always in fp32: a duration is rounded, and one unit more or less is another length. Rows come
# sorted, the longest first, and padded; the LSTMs get them packed, so that none reads padding.


class Linear:
    def __init__(self, weights: NamedTensors, format: TensorFormat) -> None:
        self.weight, bias = format.put(weights.get("weight")), weights.bias()
        self.bias = None if bias is None else format.put(bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class _Norm:
    def __init__(
        self, weights: NamedTensors, format: TensorFormat, eps: float, names: tuple[str, str]
    ) -> None:
        self._scale, self._shift = (format.put(weights.get(name)) for name in names)
        self._eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self._scale.shape, self._scale, self._shift, self._eps)


class TextBatch(NamedTuple):
    """Rows of phonemes, padded; the longest first."""

    ids: torch.Tensor
    lengths: Sequence[int]
    mask: torch.Tensor
    """True where there is a phoneme."""
    styles: torch.Tensor
    """[rows, 256]: the half for the voice, the half for how it speaks."""
    speeds: torch.Tensor
    """[rows]"""
    places: torch.Tensor
    """Where the phonemes lie, row behind row."""

    def real(self, x: torch.Tensor) -> torch.Tensor:
        """Of [rows, phonemes, size], the phonemes that are there: [all of them, size]."""
        return x.flatten(0, 1).index_select(0, self.places)

    def pad(self, x: torch.Tensor) -> torch.Tensor:
        """The reverse of `real`; zero where there is no phoneme."""
        out = x.new_zeros(self.ids.numel(), x.shape[1])
        return out.index_copy_(0, self.places, x).view(*self.ids.shape, -1)


class Albert:
    """The phoneme encoder: one layer, gone through many times."""

    def __init__(
        self, weights: NamedTensors, settings: dict[str, Any], format: TensorFormat
    ) -> None:
        eps = settings.get("layer_norm_eps", 1e-12)
        affine = ("weight", "bias")
        embeddings = weights.at("embeddings")
        layer = weights.at("encoder", "albert_layer_groups", 0, "albert_layers", 0)
        attention = layer.at("attention")
        places = embeddings.get("position_embeddings.weight")
        places = places + embeddings.get("token_type_embeddings.weight")[0]
        self._words = format.put(embeddings.get("word_embeddings.weight"))
        self._places = format.put(places)
        self._norm = _Norm(embeddings.at("LayerNorm"), format, eps, affine)
        self._into = Linear(weights.at("encoder", "embedding_hidden_mapping_in"), format)
        self._projections = [Linear(attention.at(n), format) for n in ("query", "key", "value")]
        self._dense = Linear(attention.at("dense"), format)
        self._inner_norm = _Norm(attention.at("LayerNorm"), format, eps, affine)
        self._outer_norm = _Norm(layer.at("full_layer_layer_norm"), format, eps, affine)
        self._up, self._down = (Linear(layer.at(n), format) for n in ("ffn", "ffn_output"))
        self._heads: int = settings["num_attention_heads"]
        self._times: int = settings.get("num_hidden_layers", 12)

    def __call__(self, batch: TextBatch, full: bool) -> torch.Tensor:
        """[rows, phonemes, hidden]. Padding is seen by the attention alone, which skips it."""
        rows, length = batch.ids.shape
        seen = None if full else batch.mask[:, None, None]
        words = self._words[batch.ids] + self._places[:length]
        x = self._into(self._norm(batch.real(words)))
        for _ in range(self._times):
            query, key, value = (
                self._split(batch.pad(project(x))) for project in self._projections
            )
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
            x = self._inner_norm(x + self._dense(batch.real(attended.transpose(1, 2).flatten(2))))
            x = self._outer_norm(x + self._down(F.gelu(self._up(x), approximate="tanh")))
        return batch.pad(x)

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], self._heads, -1).transpose(1, 2)


class TextFeatures(NamedTuple):
    """What is known of each phoneme."""

    prosody: torch.Tensor
    sound: torch.Tensor
    units: torch.Tensor
    """[rows, phonemes]: how long it lasts."""


class TextPart:
    """The encoders of text and the predictor of durations."""

    def __init__(self, weights: NamedTensors, config: dict[str, Any], format: TensorFormat) -> None:
        predictor, sound = weights.at("predictor"), weights.at("text_encoder")
        self._albert = Albert(weights.at("bert"), config["plbert"], format)
        self._into = Linear(weights.at("bert_encoder"), format)
        layers = range(config["n_layer"])
        inner = predictor.at("text_encoder", "lstms")
        self._prosody = [
            (Lstm(inner.at(2 * n), format), Linear(inner.at(2 * n + 1, "fc"), format))
            for n in layers
        ]
        self._last = Lstm(predictor.at("lstm"), format)
        self._units = Linear(predictor.at("duration_proj", "linear_layer"), format)
        self._table = format.put(sound.get("embedding.weight"))
        self._convs = [
            (Conv.of(sound.at("cnn", n, 0), format),
             _Norm(sound.at("cnn", n, 1), format, 1e-5, ("gamma", "beta")))
            for n in layers
        ]  # fmt: skip
        self._sound = Lstm(sound.at("lstm"), format)

    def __call__(self, batch: TextBatch) -> TextFeatures:
        """Features of each phoneme for the decoder, and its duration."""
        full = batch.lengths[-1] == batch.lengths[0]
        keep = batch.mask.unsqueeze(-1).float()
        x = self._into(self._albert(batch, full))
        style = batch.styles[:, 128:]
        styles = style.unsqueeze(1).expand(-1, x.shape[1], -1)
        x = torch.cat((x, styles), dim=2) * keep
        for lstm, features in self._prosody:
            x = lstm(x, batch.lengths)
            scale, shift = features(style).unsqueeze(1).chunk(2, dim=2)
            x = (1 + scale) * F.layer_norm(x, x.shape[-1:]) + shift
            x = torch.cat((x, styles), dim=2) * keep
        spread = torch.sigmoid(self._units(self._last(x, batch.lengths))).sum(-1)
        units = torch.round(spread / batch.speeds.unsqueeze(1)).clamp(min=1) * batch.mask
        return TextFeatures(x, self._encode_sound(batch, keep), units.long())

    def _encode_sound(self, batch: TextBatch, keep: torch.Tensor) -> torch.Tensor:
        x = self._table[batch.ids] * keep
        for conv, norm in self._convs:
            x = F.leaky_relu(norm(conv(x)), 0.2) * keep
        return self._sound(x, batch.lengths)
