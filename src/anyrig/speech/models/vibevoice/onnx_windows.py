"""Windows of VibeVoice-Realtime with ONNX Runtime, on whatever it drives.

The graphs of `onnx_export.py` compute; everything between them is NumPy on the host. Keys and
values stay on the host as well: a step is given those of the places before it and returns its own,
so nothing depends on what a provider can keep on its device. Torch is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyrig.backends.onnx import OnnxHandle
from anyrig.speech.models.vibevoice.checkpoint import RealtimeShape, TextShape
from anyrig.speech.models.vibevoice.onnx_graphs import GRAPHS, TIMES_FILE
from anyrig.speech.models.vibevoice.presets import Preset, widen_bfloat16
from anyrig.speech.models.vibevoice.solver import COEFFICIENTS, plan_steps, stack_steps
from anyrig.speech.models.vibevoice.windows import (
    MAX_STEPS,
    WindowInput,
    round_span,
)

Array = NDArray[np.float32]
_EMBEDDING = "model.language_model.embed_tokens.weight"
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_HIDDEN = np.float32(-1e9)
"""Added to what attention must not see."""


class OnnxRealtimeVoice:
    """A model as ONNX graphs, ready to be stepped by `OnnxWindowLoop`.

    Args:
        folder: of the published weights, whose embedding is read in place.
        graphs: the folder of its graphs.
    """

    first_length = 512
    captures = False

    def __init__(
        self, shape: RealtimeShape, folder: Path, graphs: Path, handle: OnnxHandle
    ) -> None:
        self.shape = shape
        self.graphs = {name: handle.load(graphs / f"{name}.onnx") for name in GRAPHS}
        self.embedding = TokenEmbedding(folder)
        self.times: Array = np.load(graphs / TIMES_FILE)
        inputs = {one.name: one.shape for one in self.graphs["frame"].session.get_inputs()}
        self.state_size = int(inputs["state"][1])

    def open_loop(self, rows: int, length: int) -> OnnxWindowLoop:
        return OnnxWindowLoop(self, rows, length)

    def read_text(self, inputs: Array, cache: Array, lengths: NDArray[np.int64]) -> list[Array]:
        """Inputs of the speech model from embeddings, and the new keys and values: layer, key or
        value, row, head, place, vector.
        """
        return self._run_language("text", self.shape.text, inputs, cache, lengths)

    def read_speech(self, inputs: Array, cache: Array, lengths: NDArray[np.int64]) -> list[Array]:
        """Hidden states, whether the speech ends (above 0), and the new keys and values."""
        return self._run_language("speech", self.shape.speech, inputs, cache, lengths)

    def _run_language(
        self, name: str, shape: TextShape, inputs: Array, cache: Array, lengths: NDArray[np.int64]
    ) -> list[Array]:
        """
        Args:
            inputs: row, input, vector.
            cache: of the rows, with as many places as attention looks at.
            lengths: how many places of each row are filled.
        """
        count = inputs.shape[1]
        cosine, sine = _compute_rotary(shape, lengths[:, None] + np.arange(count))
        is_past = np.arange(cache.shape[4]) < lengths[:, None]
        feeds = {
            "inputs": inputs,
            "cosine": cosine,
            "sine": sine,
            "past_mask": np.where(is_past, np.float32(0), _HIDDEN),
            "new_mask": np.triu(np.full((count, count), _HIDDEN), 1),
        }
        for layer in range(shape.layers):
            feeds[f"key_{layer}"] = np.ascontiguousarray(cache[layer, 0])
            feeds[f"value_{layer}"] = np.ascontiguousarray(cache[layer, 1])
        return self.graphs[name].run(feeds)

    def sample(
        self, hidden: Array, noise: Array, times: Array, steps: Array, guidance: Array
    ) -> Array:
        """Latents. Each row has steps of its own; see `RealtimeVoice.sample`."""
        feeds = {"hidden": hidden.reshape(-1, hidden.shape[-1]), "times": np.repeat(times, 2, 1)}
        (shifts,) = self.graphs["condition"].run(feeds)
        latent: Array = noise[0]
        last = np.zeros_like(latent)
        for modulation, numbers, fresh in zip(shifts, steps[..., None], noise[1:], strict=True):
            (found,) = self.graphs["head"].run({"latent": latent, "modulation": modulation})
            conditional, unconditional = found.reshape(-1, 2, latent.shape[-1]).swapaxes(0, 1)
            velocity = unconditional + guidance[:, None] * (conditional - unconditional)
            alpha, sigma, keep, now, before, spread = numbers
            clean = alpha * latent - sigma * velocity
            latent = keep * latent + now * clean + before * last + spread * fresh
            last = clean
        return latent

    def decode(self, latents: Array, state: Array) -> list[Array]:
        """The audio of one frame of each row, the decoder's state after it, and the next inputs of
        the speech model.
        """
        return self.graphs["frame"].run({"latents": latents, "state": state})


class OnnxWindowLoop:
    """Runs windows of many rows. Keys and values: layer, key or value, row, head, place, vector;
    rows of the speech model come in pairs, of the conditional and the unconditional sequence.
    """

    def __init__(self, model: OnnxRealtimeVoice, rows: int, length: int) -> None:
        self.model, self.rows, self.length = model, rows, length
        shape = model.shape
        self.text_cache = _new_cache(shape.text, rows, length)
        self.cache = _new_cache(shape.speech, 2 * rows, length)
        self.hidden = np.zeros((2 * rows, shape.text.hidden), np.float32)
        self.decoder = np.zeros((rows, model.state_size), np.float32)
        self.guidance = np.ones(rows, np.float32)
        self.steps = np.zeros((MAX_STEPS, len(COEFFICIENTS), rows), np.float32)
        self.times = np.zeros((MAX_STEPS, rows, shape.text.hidden), np.float32)
        self._window: WindowInput | None = None
        self._num_frames = 0
        """Of this window, so far."""
        self._span = 0
        """Places that attention looks at in this window."""

    # -- rows

    def place(self, row: int, preset: Preset, guidance: float, num_steps: int, sde: bool) -> None:
        for cache, at, values in (
            (self.text_cache, row, preset.text),
            (self.cache, 2 * row, preset.speech),
            (self.cache, 2 * row + 1, preset.negative),
        ):
            cache[:, :, at, :, : values.shape[1]] = values.transpose(0, 2, 3, 1, 4)
        self.hidden[2 * row : 2 * row + 2] = preset.hidden
        self.decoder[row] = 0
        self.guidance[row] = guidance
        steps = plan_steps(num_steps, stochastic=sde)
        self.steps[:, :, row] = stack_steps(steps, MAX_STEPS)
        self.times[:num_steps, row] = self.model.times[[step.time for step in steps]]

    def move(self, source: int, target: int) -> None:
        pair, other = slice(2 * source, 2 * source + 2), slice(2 * target, 2 * target + 2)
        for array in (self.decoder, self.guidance):
            array[target] = array[source]
        self.hidden[other] = self.hidden[pair]
        self.text_cache[:, :, target] = self.text_cache[:, :, source]
        self.cache[:, :, other] = self.cache[:, :, pair]
        self.steps[..., target] = self.steps[..., source]
        self.times[:, target] = self.times[:, source]

    def copy_rows(self, other: OnnxWindowLoop) -> None:
        self.text_cache[..., : other.length, :] = other.text_cache
        self.cache[..., : other.length, :] = other.cache
        self.hidden, self.decoder, self.guidance = other.hidden, other.decoder, other.guidance
        self.steps, self.times = other.steps, other.times

    # -- computing

    def begin(self, window: WindowInput) -> None:
        self._window, self._num_frames = window, 0
        self._span = round_span(window.longest, self.length)
        counts, rows = window.num_tokens, window.rows
        if not counts.any():
            return
        text_span = round_span(window.longest_text, self.length)
        inputs, new = self.model.read_text(
            self.model.embedding.read(window.tokens),
            self.text_cache[:, :, :rows, :, :text_span],
            window.text_lengths,
        )
        _append(self.text_cache, new, window.text_lengths, counts)
        lengths = window.lengths[:, 0]
        cache = self.cache[:, :, : 2 * rows : 2]
        found, _, new = self.model.read_speech(inputs, cache[..., : self._span, :], lengths)
        _append(cache, new, lengths, counts)
        read = np.flatnonzero(counts)
        self.hidden[2 * read] = found[read, counts[read] - 1]
        lengths += counts

    def run_frames(self, count: int) -> tuple[Array, NDArray[np.bool_]]:
        frames = [self._speak() for _ in range(count)]
        return np.stack([audio for audio, _ in frames]), np.stack([ended for _, ended in frames])

    def _speak(self) -> tuple[Array, NDArray[np.bool_]]:
        window, model = self._window, self.model
        assert window is not None
        rows, num_steps = window.rows, window.num_steps
        hidden = self.hidden[: 2 * rows]
        latents = model.sample(
            hidden.reshape(rows, 2, -1),
            window.noise[self._num_frames],
            self.times[:num_steps, :rows],
            self.steps[:num_steps, :, :rows],
            self.guidance[:rows],
        )
        audio, decoder, inputs = model.decode(latents, self.decoder[:rows])
        lengths = window.lengths.reshape(-1)
        cache = self.cache[:, :, : 2 * rows, :, : self._span]
        found, ends, new = model.read_speech(np.repeat(inputs, 2, 0)[:, None], cache, lengths)
        both = np.repeat(window.active, 2)
        _append(self.cache, new, lengths, both.astype(np.int64))
        hidden[both] = found[both, 0]
        self.decoder[:rows][window.active] = decoder[window.active]
        lengths += both
        self._num_frames += 1
        return audio, ends[::2, 0] > 0


def _new_cache(shape: TextShape, rows: int, length: int) -> Array:
    size = (shape.layers, 2, rows, shape.kv_heads, length, shape.head_dim)
    return np.zeros(size, np.float32)


def _append(
    cache: Array, new: Array, lengths: NDArray[np.int64], counts: NDArray[np.int64]
) -> None:
    """Write a row's first new keys and values, as many as count, behind those it has."""
    for row in np.flatnonzero(counts):
        start, count = lengths[row], counts[row]
        cache[:, :, row, :, start : start + count] = new[:, :, row, :, :count]


def _compute_rotary(shape: TextShape, places: NDArray[np.int64]) -> tuple[Array, Array]:
    """Cosines and sines of the rotary embedding at some places: row, place, vector."""
    half = np.arange(0, shape.head_dim, 2, dtype=np.float32)
    frequencies = np.float32(shape.theta) ** -(half / np.float32(shape.head_dim))
    angles = places[..., None].astype(np.float32) * frequencies
    angles = np.concatenate((angles, angles), axis=-1)
    return np.cos(angles), np.sin(angles)


class TokenEmbedding:
    """The embedding of each token, read from the published file where it is needed: the largest
    matrix of the model, of which a window uses five rows.
    """

    def __init__(self, folder: Path) -> None:
        for path in sorted(folder.glob("*.safetensors")):
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header: Mapping[str, Any] = json.loads(file.read(size))
            if _EMBEDDING in header:
                break
        entry = header[_EMBEDDING]
        self._is_bfloat16 = entry["dtype"] == "BF16"
        self._values = np.memmap(
            path, _DTYPES[entry["dtype"]], "r", 8 + size + entry["data_offsets"][0],
            tuple(entry["shape"]),
        )  # fmt: skip

    def read(self, tokens: NDArray[np.int64]) -> Array:
        found = self._values[tokens]
        return widen_bfloat16(found) if self._is_bfloat16 else np.asarray(found, np.float32)
