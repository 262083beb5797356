"""Windows of VibeVoice-Realtime with torch.

On CUDA both parts of a window are captured as graphs and replayed, as in `generate.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anyrig.speech.models.vibevoice.presets import Preset
from anyrig.speech.models.vibevoice.solver import COEFFICIENTS, plan_steps, stack_steps
from anyrig.speech.models.vibevoice.windows import (
    MAX_STEPS,
    WINDOW_FRAMES,
    WINDOW_TOKENS,
    WindowInput,
    round_span,
)

if TYPE_CHECKING:
    from anyrig.speech.models.vibevoice.realtime_model import RealtimeVoice


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
