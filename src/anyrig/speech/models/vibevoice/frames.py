"""Many utterances stepped frame by frame, in buffers that never move.

A frame step is the same work every time, whatever a row says next, so on CUDA it is captured as a
graph and replayed: a step is some two thousand small kernels, and starting them one by one costs
far more than running them. Elsewhere the same step runs as it is written.

Each row has two sequences, side by side: the one that leads, with the whole prompt, and the free
one, which knows only what was said. A row's place in the batch changes nothing: its noise is given
by its own seed, what it leaves for its next frame is kept only if it spoke, and the free sequence
grows only by spoken frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyrig.speech.models.vibevoice.model import VibeVoice

END, BEGIN, STOP, SPEAK = range(4)
"""Places in `Tokens.all`."""
TICKS = 8
"""Frames between two looks at what came out."""
_SPAN = 512


@dataclass(frozen=True)
class State:
    """All that a step reads and writes, a place for each row, or two."""

    lengths: Tensor
    """Of both sequences of each row."""
    inputs: Tensor
    """Of both."""
    acoustic: Tensor
    semantic: Tensor
    ended: Tensor
    tick: Tensor
    """The step since the host last looked."""

    def of(self, rows: int) -> State:
        """The first rows."""
        return State(
            self.lengths[: 2 * rows],
            self.inputs[: 2 * rows],
            self.acoustic[:rows],
            self.semantic[:rows],
            self.ended[:rows],
            self.tick,
        )

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Every tensor."""
        return (
            self.lengths,
            self.inputs,
            self.acoustic,
            self.semantic,
            self.ended,
            self.tick,
        )


class Frames:
    """Room for so many rows of so many places, and the step over them."""

    def __init__(
        self, model: VibeVoice, rows: int, length: int, *, guidance: float, graphs: bool = True
    ) -> None:
        self.model, self.rows, self.length = model, rows, length
        self._captures = graphs and model.device.type == "cuda"
        device, latent = model.device, model.shape.acoustic.latent
        self.cache = model.language.cache(2 * rows, length)
        self.state = State(
            lengths=torch.zeros(2 * rows, dtype=torch.int64, device=device),
            inputs=torch.zeros(2 * rows, model.shape.text.hidden, dtype=model.dtype, device=device),
            acoustic=model.decoder.silence(rows),
            semantic=model.listener.silence(rows),
            ended=torch.ones(rows, dtype=torch.bool, device=device),
            tick=torch.zeros(1, dtype=torch.int64, device=device),
        )
        self.noise = torch.zeros(TICKS, rows, latent, device=device)
        self.latents = torch.zeros(TICKS, rows, latent, device=device)
        self.sound = torch.zeros(TICKS, rows, model.shape.acoustic.hop, device=device)
        self.said = torch.full((TICKS, rows), END, dtype=torch.int64, device=device)
        self.leaning = torch.zeros(4, device=device)
        """Added to the scores of the four tokens: a benchmark forces frames with it."""
        self.guidance = torch.tensor(guidance, device=device)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    @torch.inference_mode()
    def begin(self, prompts: Sequence[Tensor]) -> None:
        """Take new utterances into the first rows; the rest of the rows are idle.

        Args:
            prompts: the inputs of each, the last of which begins the audio.
        """
        state = self.state
        for tensor in state.all:
            tensor.zero_()
        state.ended[len(prompts) :] = True
        self._prefill(prompts)
        free = self.model.word_inputs[BEGIN]
        lengths = [count for prompt in prompts for count in (len(prompt) - 1, 0)]
        state.lengths[: len(lengths)] = torch.tensor(lengths, device=self.model.device)
        for row, prompt in enumerate(prompts):
            state.inputs[2 * row], state.inputs[2 * row + 1] = prompt[-1], free

    def _prefill(self, prompts: Sequence[Tensor]) -> None:
        """All but the last input of each prompt, in groups of a bounded size."""
        longest = max(len(prompt) for prompt in prompts) - 1
        if not longest:
            return
        group = max(1, 16384 // longest)
        led = self.cache[:, ::2]
        for start in range(0, len(prompts), group):
            some = [prompt[:-1] for prompt in prompts[start : start + group]]
            padded = torch.nn.utils.rnn.pad_sequence(some, batch_first=True)
            self.model.language.prefill(padded, led[:, start : start + len(some)])

    @torch.inference_mode()
    def run(self, rows: int, longest: int, ticks: int) -> None:
        """So many frames of the first rows.

        Args:
            rows: how many rows are stepped.
            longest: no sequence is longer before the first of these frames.
            ticks: frames; `noise` holds theirs, `sound` and `said` get what comes out.
        """
        span = min(_span(longest + ticks), self.length)
        self.state.tick.zero_()
        if not self._captures:
            for _ in range(ticks):
                self.step(rows, span)
            return
        graph = self._graphs.get((rows, span)) or self._capture(rows, span)
        for _ in range(ticks):
            graph.replay()

    def step(self, rows: int, span: int) -> None:
        """One frame."""
        state, model = self.state.of(rows), self.model
        thoughts = model.language.step(state.inputs, self.cache, state.lengths, span)
        pairs = thoughts.view(rows, 2, -1)
        said = (model.scores(pairs[:, 0]) + self.leaning).argmax(-1)
        said = said.masked_fill(state.ended, END)
        speaks = said == SPEAK
        noise = self.noise.index_select(0, state.tick)[0, :rows]
        latents = model.head.sample(pairs, noise, self.guidance)
        heard = model.hear(latents, state.acoustic, state.semantic)
        spoke = speaks[:, None]
        following = torch.where(spoke, heard.following, model.word_inputs[said])
        state.inputs.copy_(following.repeat_interleave(2, 0))
        state.acoustic.copy_(torch.where(spoke, heard.acoustic, state.acoustic))
        state.semantic.copy_(torch.where(spoke, heard.semantic, state.semantic))
        self._grow(state, said, speaks)
        self.sound[:, :rows].index_copy_(0, state.tick, heard.sound[None].float())
        self.said[:, :rows].index_copy_(0, state.tick, said[None])
        self.latents[:, :rows].index_copy_(0, state.tick, latents[None])
        state.tick.add_(1)

    def _grow(self, state: State, said: Tensor, speaks: Tensor) -> None:
        """The sequences' new lengths: the free one begins anew with each audio."""
        led, free = state.lengths.view(-1, 2).unbind(1)
        state.ended.logical_or_(said == END)
        led.add_(~state.ended)
        free.copy_((free + speaks).masked_fill(said == BEGIN, 0))

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Move some rows to the front; the rest are gone."""
        index = torch.tensor(rows, device=self.model.device)
        pairs = torch.stack((2 * index, 2 * index + 1), dim=1).flatten()
        state, count = self.state, len(rows)
        for tensor in (state.acoustic, state.semantic, state.ended):
            tensor[:count] = tensor[index]
        for tensor in (state.lengths, state.inputs, *self.cache):
            tensor[: 2 * count] = tensor[pairs]
        state.ended[count:] = True

    def _capture(self, rows: int, span: int) -> torch.cuda.CUDAGraph:
        """The step as a graph. Trying it first must leave no trace.

        A try writes keys only where the next step writes them anyway.
        """
        kept = [tensor.clone() for tensor in self.state.all]
        stream: Any = torch.cuda.Stream(self.model.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.model.device))
        with torch.cuda.stream(stream):
            self.step(rows, span)
        torch.cuda.current_stream(self.model.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self.step(rows, span)
        self._pool = self._pool or graph.pool()
        for tensor, before in zip(self.state.all, kept, strict=True):
            tensor.copy_(before)
        self._graphs[rows, span] = graph
        return graph


def _span(length: int) -> int:
    span = _SPAN
    while span < length:
        span *= 2
    return span
