"""Lines to takes with VibeVoice: what its engine does once torch may be loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from anyrig.audio.resample import resample
from anyrig.audio.samples import Samples
from anyrig.audio.stretch import stretch
from anyrig.errors import InvalidInputError, UnspeakableTextError
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.expect import expected
from anyrig.speech.models.vibevoice import model as models
from anyrig.speech.models.vibevoice import prompt
from anyrig.speech.models.vibevoice.speak import Speaker, SpeechPrompt

RATE = 24000
_SAMPLE_S = 30.0
_FIRST = 3
# Beyond the longest that a line should take, a model that does not end is stopped.
_PATIENCE = 1.5


class Reader:
    """A loaded model and the voices it has heard."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        dtype: torch.dtype,
        samples: Mapping[str, Path | None],
        *,
        guidance: float,
        num_steps: int,
        most_s: float,
        graphs: bool = True,
    ) -> None:
        self.model = models.load(folder, device, dtype, num_steps=num_steps)
        self._prompter = prompt.Prompter(self.model, prompt.tokenizer_of(folder))
        self._speaker = Speaker(self.model, guidance=guidance, graphs=graphs)
        self._samples = samples
        self._heard: dict[str, Tensor | None] = {}
        self._frame_s = self.model.shape.acoustic.hop / RATE
        self._most_s = most_s

    def takes(self, lines: Sequence[tuple[Utterance, str]]) -> list[Take]:
        """A take of each line with the voice beside it, all at once."""
        parts: list[list[Samples]] = [[] for _ in lines]
        if lines:
            for piece in self._speaker.speak([self._utterance(*line) for line in lines]):
                parts[piece.number].append(piece.samples)
        return [_take(line, some) for (line, _), some in zip(lines, parts, strict=True)]

    def stream(self, line: Utterance, voice: str) -> Iterator[Take]:
        """A line's pieces as they are made, the first one short."""
        if line.rate != 1.0:
            yield from self.takes([(line, voice)])
            return
        heard = False
        for piece in self._speaker.speak([self._utterance(line, voice)], first=_FIRST):
            if len(piece.samples):
                heard = True
                yield Take(piece.samples, RATE)
        if not heard:
            raise _silent(line)

    def _utterance(self, line: Utterance, voice: str) -> SpeechPrompt:
        if not line.text.strip():
            raise UnspeakableTextError("nothing to say", hint="Use a text with words.")
        longest = expected(replace(line, rate=1.0)).most_s * _PATIENCE + 1.0
        most = math.ceil(min(longest, self._most_s) / self._frame_s)
        return SpeechPrompt(self._prompter.inputs(line.text, self._voice(voice)), line.seed, most)

    def _voice(self, name: str) -> Tensor | None:
        """What stands for a voice, worked out once."""
        if name not in self._heard:
            path = self._samples[name]
            self._heard[name] = None if path is None else self.model.voice(_sample(path))
        return self._heard[name]


def _sample(path: Path) -> Tensor:
    """A voice's sample as the model wants it: mono, at its rate and loudness, not too long."""
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise InvalidInputError(
            f"{path} is not a readable audio file: {error}",
            hint="A sample is a WAV or FLAC file of some ten seconds of one voice.",
        ) from error
    mono = resample(np.ascontiguousarray(samples.mean(axis=1)), rate, RATE)
    mono = mono[: int(_SAMPLE_S * RATE)]
    if not len(mono) or float(np.abs(mono).max()) == 0.0:
        raise InvalidInputError(
            f"{path} is silent", hint="Pass some ten seconds of one voice, without music."
        )
    return torch.from_numpy(prompt.loudness(mono))


def _take(line: Utterance, parts: Sequence[Samples]) -> Take:
    whole = np.concatenate(parts) if parts else np.zeros(0, np.float32)
    if not len(whole):
        raise _silent(line)
    return Take(whole if line.rate == 1.0 else stretch(whole, RATE, line.rate), RATE)


def _silent(line: Utterance) -> UnspeakableTextError:
    return UnspeakableTextError(
        f"the model ended {line.text!r} before it began",
        hint="Very short lines are hard for it: join the line with the next one.",
    )
