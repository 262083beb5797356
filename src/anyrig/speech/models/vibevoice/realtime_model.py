"""VibeVoice-Realtime: a small VibeVoice that speaks while its text still comes.

The language model is split. Its lower layers (the text model) read text alone; their hidden states,
in the place of embeddings, and latents of speech go to the upper layers (the speech model). Five
tokens of text, six frames of speech, and so on. A frame's latent comes from the diffusion head,
guided by a second, unconditional sequence of the speech model that sees only speech.
`realtime.py` runs many utterances at once, in windows of text and speech (`windows.py`). On CUDA
both parts of a window are captured as graphs and replayed, as in `generate.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from anyrig.speech.models.vibevoice.checkpoint import (
    RealtimeShape,
    published_name,
    read_config,
    read_realtime_shape,
)
from anyrig.speech.models.vibevoice.codec import CodecDecoder, LazyWeights
from anyrig.speech.models.vibevoice.model import (
    Connector,
    DiffusionHead,
    SpeechLanguageModel,
    open_weights,
)
from anyrig.speech.models.vibevoice.presets import Preset
from anyrig.speech.models.vibevoice.solver import COEFFICIENTS, plan_steps, stack_steps
from anyrig.speech.models.vibevoice.windows import (
    MAX_STEPS,
    WINDOW_FRAMES,
    WINDOW_TOKENS,
    WindowInput,
    round_span,
)

SPEECH, TEXT = 0, 1
"""Types of inputs of the speech model."""


class FrameDecoder:
    """From latents to the audio of a frame, and to the next input of the speech model."""

    def __init__(self, shape: RealtimeShape, weights: LazyWeights) -> None:
        self.decoder = CodecDecoder(shape.codec, weights.under("acoustic_decoder"))
        self._connector = Connector(weights.under("acoustic_connector"))
        self._type = weights["tts_input_types.weight"][SPEECH]
        self._scale = weights.read_fp32("speech_scaling_factor")
        self._offset = weights.read_fp32("speech_bias_factor")

    def decode(self, latents: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The audio of one frame of each row, and the decoder's state after it."""
        unscaled = (latents[:, None] / self._scale - self._offset).to(self._type.dtype)
        audio, state = self.decoder(unscaled, state)
        return audio[..., 0], state

    def connect(self, latents: Tensor) -> Tensor:
        """Inputs of the speech model, from latents."""
        return self._connector(latents.to(self._type.dtype)) + self._type


class EndClassifier:
    """Whether the speech ends with the frame of a hidden state: above 0."""

    def __init__(self, weights: LazyWeights) -> None:
        self._first, self._first_bias = weights["fc1.weight"], weights["fc1.bias"]
        self._second, self._second_bias = weights["fc2.weight"], weights["fc2.bias"]

    def __call__(self, hidden: Tensor) -> Tensor:
        inner = torch.relu(F.linear(hidden, self._first, self._first_bias))
        return F.linear(inner, self._second, self._second_bias)[..., 0]


class RealtimeVoice:
    """A model, ready to be stepped by `TorchWindowLoop`.

    Args:
        weights: under the names of the published file.
        graphs: whether windows are captured on CUDA.
    """

    first_length = 2048  # two minutes of speech after a voice's prompt

    def __init__(self, shape: RealtimeShape, weights: LazyWeights, *, graphs: bool = True) -> None:
        self.shape = shape
        self.device, self.dtype = weights.device, weights.dtype
        self.captures = graphs and self.device.type == "cuda"
        inner = weights.under("model")
        self.embedding = inner["language_model.embed_tokens.weight"]
        self.text = SpeechLanguageModel(shape.text, inner.under("language_model"), norm=False)
        self.text_type = inner["tts_input_types.weight"][TEXT]
        self.speech = SpeechLanguageModel(shape.speech, inner.under("tts_language_model"))
        self.head = DiffusionHead(shape.head, inner.under("diffusion_head"), 1)
        self.frames = FrameDecoder(shape, inner)
        self.compute_end = EndClassifier(weights.under("tts_eos_classifier"))

    def open_loop(self, rows: int, length: int) -> TorchWindowLoop:
        return TorchWindowLoop(self, rows, length)

    def sample(
        self, hidden: Tensor, noise: Tensor, times: Tensor, steps: Tensor, guidance: Tensor
    ) -> Tensor:
        """Latents, in single precision. Each row has steps of its own.

        Args:
            hidden: of the conditional and the unconditional sequence: row, 2, vector.
            noise: the start of each row, then what its steps add: step + 1, row, vector.
            times: of `DiffusionHead.embed_times`: step, row, vector.
            steps: of `stack_steps`: step, coefficient, row.
            guidance: of each row.
        """
        shifts = self.head.modulate(hidden.flatten(0, 1), times.repeat_interleave(2, 1))
        latent, last = noise[0], torch.zeros_like(noise[0])
        for modulation, numbers, fresh in zip(shifts, steps[..., None], noise[1:], strict=True):
            branches = self.head.predict(latent, modulation).view(-1, 2, latent.shape[-1])
            conditional, unconditional = branches.float().unbind(1)
            velocity = torch.lerp(unconditional, conditional, guidance[:, None])
            alpha, sigma, keep, now, before, spread = numbers
            clean = alpha * latent - sigma * velocity
            latent = keep * latent + now * clean + before * last + spread * fresh
            last = clean
        return latent


@dataclass(frozen=True)
class WindowState:
    """All that a window reads and writes, an entry for each row; two of `lengths` and `hidden`, of
    the conditional and the unconditional sequence.
    """

    lengths: Tensor
    text_lengths: Tensor
    hidden: Tensor
    """The last hidden states of the speech model."""
    decoder: Tensor
    frame: Tensor
    """Frames of this window so far."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.lengths, self.text_lengths, self.hidden, self.decoder, self.frame)


class TorchWindowLoop:
    """Runs windows of many rows, in buffers that never move."""

    def __init__(self, model: RealtimeVoice, rows: int, length: int) -> None:
        self.model, self.rows, self.length = model, rows, length
        device, dtype = model.device, model.dtype
        shape = model.shape
        hidden, latent = shape.text.hidden, shape.codec.latent
        self.text_cache = model.text.new_cache(rows, length)
        self.cache = model.speech.new_cache(2 * rows, length)
        self.state = WindowState(
            lengths=torch.zeros(2 * rows, dtype=torch.int64, device=device),
            text_lengths=torch.zeros(rows, dtype=torch.int64, device=device),
            hidden=torch.zeros(2 * rows, hidden, dtype=dtype, device=device),
            decoder=model.frames.decoder.zero_state(rows),
            frame=torch.zeros(1, dtype=torch.int64, device=device),
        )
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.tokens = torch.zeros(rows, WINDOW_TOKENS, dtype=torch.int64, device=device)
        self.num_tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self.guidance = torch.ones(rows, device=device)
        self.steps = torch.zeros(MAX_STEPS, len(COEFFICIENTS), rows, device=device)
        self.times = torch.zeros(MAX_STEPS, rows, hidden, dtype=dtype, device=device)
        self.noise = torch.zeros(WINDOW_FRAMES, MAX_STEPS + 1, rows, latent, device=device)
        self.latents = torch.zeros(WINDOW_FRAMES, rows, latent, device=device)
        self.audio = torch.zeros(WINDOW_FRAMES, rows, shape.codec.hop, device=device)
        self.ended = torch.zeros(WINDOW_FRAMES, rows, dtype=torch.bool, device=device)
        self._window: WindowInput | None = None
        self._num_frames = 0
        """Of this window, so far."""
        self._graphs: dict[tuple[int, ...], torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    # -- rows

    def place(self, row: int, preset: Preset, guidance: float, num_steps: int, sde: bool) -> None:
        state, model = self.state, self.model
        for cache, at, values in (
            (self.text_cache, row, preset.text),
            (self.cache, 2 * row, preset.speech),
            (self.cache, 2 * row + 1, preset.negative),
        ):
            cache[:, at, : values.shape[1]] = torch.from_numpy(values).to(cache)
        state.hidden[2 * row : 2 * row + 2] = torch.from_numpy(preset.hidden).to(state.hidden)
        state.decoder[row] = 0
        self.guidance[row] = guidance
        steps = plan_steps(num_steps, stochastic=sde)
        self.steps[:, :, row] = torch.from_numpy(stack_steps(steps, MAX_STEPS)).to(model.device)
        self.times[:num_steps, row] = model.head.embed_times([step.time for step in steps])

    def move(self, source: int, target: int) -> None:
        state, pair, other = self.state, slice(2 * source, 2 * source + 2), 2 * target
        for tensor in (state.decoder, self.guidance):
            tensor[target] = tensor[source]
        state.hidden[other : other + 2] = state.hidden[pair].clone()
        self.text_cache[:, target] = self.text_cache[:, source]
        self.cache[:, other : other + 2] = self.cache[:, pair].clone()
        self.steps[..., target], self.times[:, target] = (
            self.steps[..., source],
            self.times[:, source],
        )

    def copy_rows(self, other: TorchWindowLoop) -> None:
        rows, length = other.rows, other.length
        self.text_cache[:, :rows, :length] = other.text_cache
        self.cache[:, : 2 * rows, :length] = other.cache
        for mine, theirs in zip(self.state.tensors, other.state.tensors, strict=True):
            mine[: len(theirs)] = theirs
        self.guidance[:rows] = other.guidance
        self.steps[..., :rows], self.times[:, :rows] = other.steps, other.times

    # -- computing

    @torch.inference_mode()
    def begin(self, window: WindowInput) -> None:
        self._window, self._num_frames = window, 0
        rows, state = window.rows, self.state
        for mine, given in (
            (state.lengths[: 2 * rows], window.lengths.reshape(-1)),
            (state.text_lengths[:rows], window.text_lengths),
            (self.active[:rows], window.active),
            (self.num_tokens[:rows], window.num_tokens),
            (self.tokens[:rows], window.tokens),
            (self.noise[:, : window.num_steps + 1, :rows], window.noise),
        ):
            mine.copy_(torch.from_numpy(given))
        state.frame.zero_()
        if not window.num_tokens.any():
            return
        text_span = round_span(window.longest_text, self.length)
        span = round_span(window.longest, self.length)
        self._run((rows, text_span, span), lambda: self._read_text(rows, text_span, span))

    @torch.inference_mode()
    def run_frames(self, count: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        window = self._window
        assert window is not None
        rows, num_steps = window.rows, window.num_steps
        span = round_span(window.longest, self.length)
        for _ in range(count):
            self._run((rows, -num_steps, span), lambda: self._speak(rows, span, num_steps))
        start, self._num_frames = self._num_frames, self._num_frames + count
        audio, ended = (
            tensor[start : self._num_frames, :rows].to("cpu", copy=True).numpy()
            for tensor in (self.audio, self.ended)
        )
        return audio, ended

    def _read_text(self, rows: int, text_span: int, span: int) -> None:
        state, model, counts = self.state, self.model, self.num_tokens[:rows]
        lengths, text_lengths = state.lengths[: 2 * rows : 2], state.text_lengths[:rows]
        inputs = model.embedding[self.tokens[:rows]]
        inputs = model.text.step(inputs, self.text_cache, text_lengths, text_span)
        inputs = inputs + model.text_type
        found = model.speech.step(inputs, self.cache, lengths, span, stride=2)
        last = (counts - 1).clamp(min=0)[:, None, None].expand(-1, 1, found.shape[-1])
        hidden = state.hidden[: 2 * rows : 2]
        hidden.copy_(torch.where(counts[:, None] > 0, found.gather(1, last)[:, 0], hidden))
        lengths.add_(counts)
        text_lengths.add_(counts)

    def _speak(self, rows: int, span: int, num_steps: int) -> None:
        state, model, active = self.state, self.model, self.active[:rows]
        hidden, decoder = state.hidden[: 2 * rows], state.decoder[:rows]
        latents = model.sample(
            hidden.view(rows, 2, -1),
            self.noise[:, : num_steps + 1, :rows].index_select(0, state.frame)[0],
            self.times[:num_steps, :rows],
            self.steps[:num_steps, :, :rows],
            self.guidance[:rows],
        )
        audio, decoder_after = model.frames.decode(latents, decoder)
        inputs = model.frames.connect(latents).repeat_interleave(2, 0)[:, None]
        lengths = state.lengths[: 2 * rows]
        found = model.speech.step(inputs, self.cache, lengths, span)[:, 0]
        both = active.repeat_interleave(2)
        hidden.copy_(torch.where(both[:, None], found, hidden))
        decoder.copy_(torch.where(active[:, None], decoder_after, decoder))
        lengths.add_(both)
        self.audio[:, :rows].index_copy_(0, state.frame, audio[None].float())
        self.latents[:, :rows].index_copy_(0, state.frame, latents[None])
        self.ended[:, :rows].index_copy_(0, state.frame, (model.compute_end(found[::2]) > 0)[None])
        state.frame.add_(1)

    def _run(self, key: tuple[int, ...], compute: Callable[[], None]) -> None:
        if not self.model.captures:
            compute()
            return
        graph = self._graphs.get(key) or self._capture(key, compute)
        graph.replay()

    def _capture(self, key: tuple[int, ...], compute: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """Capture a part of a window. The warm-up before it leaves no trace: it writes keys only
        where the same part writes them anyway.
        """
        device = self.model.device
        before = [tensor.clone() for tensor in self.state.tensors]
        stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            compute()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            compute()
        self._pool = self._pool or graph.pool()
        for tensor, value in zip(self.state.tensors, before, strict=True):
            tensor.copy_(value)
        self._graphs[key] = graph
        return graph


def load_realtime_model(
    folder: Path, device: torch.device, dtype: torch.dtype, *, graphs: bool = True
) -> RealtimeVoice:
    """The model of a folder: `config.json` and safetensors, as published."""
    shape = read_realtime_shape(read_config(folder))
    weights = rename_weights(open_weights(folder, device, dtype))
    return RealtimeVoice(shape, weights, graphs=graphs)


def rename_weights(published: LazyWeights) -> LazyWeights:
    """Published tensors under the names that the parts of the 1.5B model have."""
    return LazyWeights(
        lambda name: published.read_fp32(published_name(name)), published.device, published.dtype
    )
