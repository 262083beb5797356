"""Utterances to audio with VibeVoice: frames in batches, prompts, voices.

A frame is the same work every time, whatever a row predicts, so on CUDA it is captured as a graph
and replayed: a frame is some two thousand small kernels, and launching them one by one costs far
more than running them. Elsewhere the same step runs eagerly.

A row's place in the batch changes nothing: its noise comes from its own seed, frame by frame, so
its audio is the same in any batch and in parts of any length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from anyrig.audio.samples import Samples
from anyrig.errors import InvalidInputError, MissingWeightsError, UnspeakableTextError
from anyrig.speech.engine import Utterance
from anyrig.speech.models.vibevoice.model import VibeVoiceModel, load_model
from anyrig.speech.models.vibevoice.windows import round_batch, round_span

RATE = 24000
END, BEGIN, STOP, SPEAK = range(4)
"""Positions in `SpeechTokens.all`."""
FRAMES_PER_CHECK = 8
"""Frames between two looks of the host at what was generated."""
FIRST_FRAMES = 3
"""Frames before the first look: 0.4 s of audio."""
_LENGTH_STEP = 256
_PREFILL_TOKENS = 16384
_VOICE_SAMPLE_S = 30.0
_PATIENCE = 1.5
"""Beyond the longest that an utterance should take, a model that does not end is stopped."""
_TASK = (
    " Transform the text provided by various speakers into speech output, "
    "utilizing the distinct voice of each respective speaker.\n"
)
_LOUDNESS_DB = -25.0
_TINY = 1e-6


# -- frames ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrameState:
    """All that a frame reads and writes, an entry for each row."""

    lengths: Tensor
    """Of both sequences of each row: two entries."""
    inputs: Tensor
    """Of both."""
    acoustic: Tensor
    semantic: Tensor
    ended: Tensor
    frame: Tensor
    """Frames since the host last looked."""

    def first_rows(self, rows: int) -> FrameState:
        return FrameState(
            self.lengths[: 2 * rows],
            self.inputs[: 2 * rows],
            self.acoustic[:rows],
            self.semantic[:rows],
            self.ended[:rows],
            self.frame,
        )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (
            self.lengths, self.inputs, self.acoustic, self.semantic, self.ended, self.frame
        )  # fmt: skip


class FrameLoop:
    """Runs frames of many rows, in buffers that never move.

    Each row has two sequences, side by side: the conditional one, with the whole prompt, and the
    unconditional one, which has only the frames spoken since the audio began. What a row leaves for
    its next frame is stored only if it spoke.
    """

    def __init__(
        self, model: VibeVoiceModel, rows: int, length: int, *, guidance: float, graphs: bool = True
    ) -> None:
        self.model, self.rows, self.length = model, rows, length
        self._uses_graphs = graphs and model.device.type == "cuda"
        device, latent = model.device, model.shape.acoustic.latent
        self.cache = model.language.new_cache(2 * rows, length)
        self.state = FrameState(
            lengths=torch.zeros(2 * rows, dtype=torch.int64, device=device),
            inputs=torch.zeros(2 * rows, model.shape.text.hidden, dtype=model.dtype, device=device),
            acoustic=model.decoder.zero_state(rows),
            semantic=model.semantic_encoder.zero_state(rows),
            ended=torch.ones(rows, dtype=torch.bool, device=device),
            frame=torch.zeros(1, dtype=torch.int64, device=device),
        )
        self.noise = torch.zeros(FRAMES_PER_CHECK, rows, latent, device=device)
        self.latents = torch.zeros(FRAMES_PER_CHECK, rows, latent, device=device)
        hop = model.shape.acoustic.hop
        self.audio = torch.zeros(FRAMES_PER_CHECK, rows, hop, device=device)
        self.tokens = torch.full((FRAMES_PER_CHECK, rows), END, dtype=torch.int64, device=device)
        self.token_bias = torch.zeros(4, device=device)
        """Added to the logits: a benchmark forces frames with it."""
        self.guidance = torch.tensor(guidance, device=device)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    @torch.inference_mode()
    def begin(self, prompts: Sequence[Tensor]) -> None:
        """Put new utterances into the first rows; the rest of the rows are idle.

        Args:
            prompts: the inputs of each, the last of which begins the audio.
        """
        state = self.state
        for tensor in state.tensors:
            tensor.zero_()
        state.ended[len(prompts) :] = True
        self._prefill(prompts)
        begin = self.model.token_inputs[BEGIN]
        lengths = [count for prompt in prompts for count in (len(prompt) - 1, 0)]
        state.lengths[: len(lengths)] = torch.tensor(lengths, device=self.model.device)
        for row, prompt in enumerate(prompts):
            state.inputs[2 * row], state.inputs[2 * row + 1] = prompt[-1], begin

    def _prefill(self, prompts: Sequence[Tensor]) -> None:
        """All but the last input of each prompt, in groups of a bounded size."""
        longest = max(len(prompt) for prompt in prompts) - 1
        if not longest:
            return
        group = max(1, _PREFILL_TOKENS // longest)
        conditional = self.cache[:, ::2]
        for start in range(0, len(prompts), group):
            some = [prompt[:-1] for prompt in prompts[start : start + group]]
            padded = torch.nn.utils.rnn.pad_sequence(some, batch_first=True)
            self.model.language.prefill(padded, conditional[:, start : start + len(some)])

    @torch.inference_mode()
    def run(self, rows: int, longest: int, num_frames: int) -> None:
        """Run some frames of the first rows.

        Args:
            rows: how many.
            longest: no sequence is longer before the first of these frames.
            num_frames: `noise` holds theirs, `audio` and `tokens` get what comes out.
        """
        span = round_span(longest + num_frames, self.length)
        self.state.frame.zero_()
        if not self._uses_graphs:
            for _ in range(num_frames):
                self.step(rows, span)
            return
        graph = self._graphs.get((rows, span)) or self._capture(rows, span)
        for _ in range(num_frames):
            graph.replay()

    def step(self, rows: int, span: int) -> None:
        """One frame."""
        state, model = self.state.first_rows(rows), self.model
        hidden = model.language.step(state.inputs[:, None], self.cache, state.lengths, span)
        pairs = hidden.view(rows, 2, -1)
        tokens = (model.compute_logits(pairs[:, 0]) + self.token_bias).argmax(-1)
        tokens = tokens.masked_fill(state.ended, END)
        speaks = tokens == SPEAK
        noise = self.noise.index_select(0, state.frame)[0, :rows]
        latents = model.head.sample(pairs, noise, self.guidance)
        output = model.decode_frame(latents, state.acoustic, state.semantic)
        spoke = speaks[:, None]
        next_input = torch.where(spoke, output.next_input, model.token_inputs[tokens])
        state.inputs.copy_(next_input.repeat_interleave(2, 0))
        state.acoustic.copy_(torch.where(spoke, output.acoustic, state.acoustic))
        state.semantic.copy_(torch.where(spoke, output.semantic, state.semantic))
        self._grow(state, tokens, speaks)
        self.audio[:, :rows].index_copy_(0, state.frame, output.audio[None].float())
        self.tokens[:, :rows].index_copy_(0, state.frame, tokens[None])
        self.latents[:, :rows].index_copy_(0, state.frame, latents[None])
        state.frame.add_(1)

    def _grow(self, state: FrameState, tokens: Tensor, speaks: Tensor) -> None:
        """The new lengths: the unconditional sequence starts again with each audio."""
        conditional, unconditional = state.lengths.view(-1, 2).unbind(1)
        state.ended.logical_or_(tokens == END)
        conditional.add_(~state.ended)
        unconditional.copy_((unconditional + speaks).masked_fill(tokens == BEGIN, 0))

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Move some rows to the front, and drop the rest."""
        index = torch.tensor(rows, device=self.model.device)
        pairs = torch.stack((2 * index, 2 * index + 1), dim=1).flatten()
        state, count = self.state, len(rows)
        for tensor in (state.acoustic, state.semantic, state.ended):
            tensor[:count] = tensor[index]
        for tensor in (state.lengths, state.inputs, *self.cache):
            tensor[: 2 * count] = tensor[pairs]
        state.ended[count:] = True

    def _capture(self, rows: int, span: int) -> torch.cuda.CUDAGraph:
        """Capture a step. The warm-up before it leaves no trace: it writes keys only where the next
        step writes them anyway.
        """
        before = [tensor.clone() for tensor in self.state.tensors]
        stream: Any = torch.cuda.Stream(self.model.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.model.device))
        with torch.cuda.stream(stream):
            self.step(rows, span)
        torch.cuda.current_stream(self.model.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            self.step(rows, span)
        self._pool = self._pool or graph.pool()
        for tensor, value in zip(self.state.tensors, before, strict=True):
            tensor.copy_(value)
        self._graphs[rows, span] = graph
        return graph


# -- utterances ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenerationInput:
    prompt: Tensor
    """Inputs of the language model, one vector each."""
    seed: int
    max_frames: int


@dataclass(frozen=True)
class GeneratedPart:
    """A part of an utterance's audio; it follows the one before."""

    index: int
    """Of the utterance."""
    samples: Samples
    last: bool
    ended: bool
    """Whether the model itself ended, rather than the limit."""


class SpeechGenerator:
    """A model with buffers for its rows: made once, enlarged for a larger batch."""

    def __init__(
        self, model: VibeVoiceModel, *, guidance: float = 1.3, graphs: bool = True
    ) -> None:
        self.model = model
        self.token_bias: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
        self._guidance, self._graphs = guidance, graphs
        self._loop: FrameLoop | None = None

    def generate(
        self, inputs: Sequence[GenerationInput], *, first_frames: int = FIRST_FRAMES
    ) -> Iterator[GeneratedPart]:
        """Audio as it is made, a few frames of every row at a time.

        Every few frames the host looks once: finished rows are dropped, and the rest move up when a
        smaller batch holds them.
        """
        try:
            yield from self._generate(inputs, first_frames)
        except torch.OutOfMemoryError:
            self._loop = None  # a smaller batch needs the memory
            raise

    def _generate(
        self, inputs: Sequence[GenerationInput], first_frames: int
    ) -> Iterator[GeneratedPart]:
        longest = max(len(one.prompt) for one in inputs)
        length = max(len(one.prompt) + one.max_frames for one in inputs) + FRAMES_PER_CHECK
        rows = list(range(len(inputs)))
        batch = round_batch(len(rows))
        loop = self._open_loop(batch, length)
        loop.begin([one.prompt for one in inputs])
        sources = [torch.Generator().manual_seed(one.seed) for one in inputs]
        finished: set[int] = set()
        done = 0
        while len(finished) < len(rows):
            left = max(inputs[row].max_frames for row in rows if row not in finished) - done
            count = max(1, min(FRAMES_PER_CHECK if done else first_frames, left))
            _draw_noise(loop, [sources[row] for row in rows], count)
            loop.run(batch, longest + done, count)
            done += count
            limits = [inputs[row].max_frames for row in rows]
            for part in _read_parts(loop, rows, limits, done, count):
                if part.index not in finished:
                    yield part
                    if part.last:
                        finished.add(part.index)
            stay = [place for place, row in enumerate(rows) if row not in finished]
            if stay and round_batch(len(stay)) < batch:
                loop.keep(stay)
                rows, finished = [rows[place] for place in stay], set()
                batch = round_batch(len(rows))

    def _open_loop(self, rows: int, length: int) -> FrameLoop:
        """Buffers that are large enough; the old ones go first, as both may not fit."""
        length = -(-length // _LENGTH_STEP) * _LENGTH_STEP
        loop = self._loop
        if loop is None or loop.rows < rows or loop.length < length:
            if loop is not None:
                rows, length = _cover_both((rows, length), (loop.rows, loop.length))
            del loop
            self._loop = None
            self._loop = loop = FrameLoop(
                self.model, rows, length, guidance=self._guidance, graphs=self._graphs
            )
        loop.token_bias.copy_(torch.tensor(self.token_bias))
        return loop


def _draw_noise(loop: FrameLoop, sources: Sequence[torch.Generator], count: int) -> None:
    """Noise for the next frames. One draw a frame: a longer draw would give other numbers."""
    latent = loop.noise.shape[-1]
    noise = [
        torch.stack([torch.randn(latent, generator=source) for source in sources])
        for _ in range(count)
    ]
    loop.noise[:count, : len(sources)] = torch.stack(noise).to(loop.noise.device)


def _read_parts(
    loop: FrameLoop, rows: Sequence[int], limits: Sequence[int], done: int, count: int
) -> list[GeneratedPart]:
    """What each row spoke in the last frames, up to its end or its limit."""
    tokens = loop.tokens[:count, : len(rows)].cpu().numpy()
    audio = loop.audio[:count, : len(rows)].cpu().numpy()
    parts = []
    for place, (row, limit) in enumerate(zip(rows, limits, strict=True)):
        own = tokens[: max(0, count - max(0, done - limit)), place]
        ended = bool((own == END).any())
        samples = np.ascontiguousarray(audio[: len(own), place][own == SPEAK]).reshape(-1)
        parts.append(GeneratedPart(row, samples, ended or done >= limit, ended))
    return parts


def _cover_both(required: tuple[int, int], current: tuple[int, int]) -> tuple[int, int]:
    """Rows and length for what is wanted and what there is, unless that is far more than either."""
    rows, length = max(required[0], current[0]), max(required[1], current[1])
    either = max(required[0] * required[1], current[0] * current[1])
    return (rows, length) if rows * length <= 2 * either else required


# -- prompts and voices ----------------------------------------------------------------------------


class PromptBuilder:
    """Prompts in the form that the model was trained with, token for token."""

    def __init__(self, model: VibeVoiceModel, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise MissingWeightsError(
                f"{folder} has no tokenizer.json",
                hint="It is part of the converted repository; download it into the same folder.",
            )
        self._model, self._tokenizer = model, Tokenizer.from_file(str(path))

    def build(self, text: str, voice: Tensor | None) -> Tensor:
        """Inputs of the language model, the last of which begins the audio.

        Args:
            text: what is spoken, by one speaker.
            voice: from `VibeVoiceModel.encode_voice`; None lets the model choose one.
        """
        begin, stop = self._model.token_inputs[[BEGIN]], self._model.token_inputs[[STOP]]
        parts = [self._embed(_TASK)]
        if voice is not None:
            before, after = self._embed(" Voice input:\n", " Speaker 0:"), self._embed("\n")
            parts += [before, begin, voice, stop, after]
        line = f" Speaker 0: {' '.join(text.split())}\n"
        parts += [self._embed(" Text input:\n", line, " Speech output:\n"), begin]
        return torch.cat(parts)

    def _embed(self, *texts: str) -> Tensor:
        """Each text by itself: joined, their ends might become other tokens."""
        encode = self._tokenizer.encode
        ids = [token for text in texts for token in encode(text, add_special_tokens=False).ids]
        return self._model.embed_tokens(torch.tensor(ids, dtype=torch.int64))


def normalize_loudness(samples: Samples) -> Samples:
    """A recording as loud as those the model was trained on, and not beyond full scale."""
    root = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    louder = samples * np.float32(10 ** (_LOUDNESS_DB / 20) / (root + _TINY))
    peak = float(np.abs(louder).max())
    return np.asarray(louder / (peak + _TINY) if peak > 1.0 else louder, np.float32)


def _read_recording(path: Path) -> Tensor:
    """A voice's recording as the model expects it: mono, at its rate and loudness, not too long."""
    import soundfile

    from anyrig.audio.resample import resample

    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise InvalidInputError(
            f"{path} is not a readable audio file: {error}",
            hint="Use a WAV or FLAC file of some ten seconds of one voice.",
        ) from error
    mono = resample(np.ascontiguousarray(samples.mean(axis=1)), rate, RATE)
    mono = mono[: int(_VOICE_SAMPLE_S * RATE)]
    if not len(mono) or float(np.abs(mono).max()) == 0.0:
        raise InvalidInputError(
            f"{path} is silent", hint="Pass some ten seconds of one voice, without music."
        )
    return torch.from_numpy(normalize_loudness(mono))


# -- the engine's side -----------------------------------------------------------------------------


class VibeVoiceRuntime:
    """A loaded model and the voices it has encoded.

    Args:
        recordings: of each voice; None for the voice that the model chooses.
        max_s: the longest audio of an utterance.
    """

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        dtype: torch.dtype,
        recordings: Mapping[str, Path | None],
        *,
        guidance: float,
        num_steps: int,
        max_s: float,
        graphs: bool = True,
    ) -> None:
        self.model = load_model(folder, device, dtype, num_steps=num_steps)
        self.prompts = PromptBuilder(self.model, folder)
        self._generator = SpeechGenerator(self.model, guidance=guidance, graphs=graphs)
        self._recordings = recordings
        self._voices: dict[str, Tensor | None] = {}
        self._frame_s = self.model.shape.acoustic.hop / RATE
        self._max_s = max_s

    def generate(self, batch: Sequence[tuple[Utterance, str]]) -> Iterator[GeneratedPart]:
        """Parts of each utterance with the voice beside it, all at once. One at another rate than
        the model's is stretched as a whole, and comes in one part.
        """
        from anyrig.audio.stretch import stretch

        inputs = [self._prepare(*one) for one in batch]
        parts: dict[int, list[Samples]] = {index: [] for index in range(len(batch))}
        for part in self._generator.generate(inputs) if inputs else ():
            utterance, own = batch[part.index][0], parts[part.index]
            own.append(part.samples)
            if part.last and not any(map(len, own)):
                raise UnspeakableTextError(
                    f"the model ended {utterance.text!r} before it began",
                    hint="Very short lines are hard for it: join the line with the next one.",
                )
            if utterance.rate == 1.0:
                if part.last or len(part.samples):
                    yield part
            elif part.last:
                samples = stretch(np.concatenate(own), RATE, utterance.rate)
                yield replace(part, samples=samples)

    def _prepare(self, utterance: Utterance, voice: str) -> GenerationInput:
        from anyrig.speech.quality import expect_duration

        if not utterance.text.strip():
            raise UnspeakableTextError("nothing to say", hint="Use a text with words.")
        longest_s = expect_duration(replace(utterance, rate=1.0)).max_s * _PATIENCE + 1.0
        max_frames = math.ceil(min(longest_s, self._max_s) / self._frame_s)
        prompt = self.prompts.build(utterance.text, self._encode_voice(voice))
        return GenerationInput(prompt, utterance.seed, max_frames)

    def _encode_voice(self, name: str) -> Tensor | None:
        if name not in self._voices:
            path = self._recordings[name]
            sample = None if path is None else _read_recording(path)
            self._voices[name] = None if sample is None else self.model.encode_voice(sample)
        return self._voices[name]
