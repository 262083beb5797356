"""What the model is given: a few fixed words, a sample of the voice, the text.

The form is the one it was trained with, token for token. A sample is brought to the loudness it was
trained at, and stands in the prompt as its frames.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from anyrig.audio.samples import Samples
from anyrig.errors import MissingWeightsError
from anyrig.speech.models.vibevoice.frames import BEGIN, STOP
from anyrig.speech.models.vibevoice.model import VibeVoice

_TASK = (
    " Transform the text provided by various speakers into speech output, "
    "utilizing the distinct voice of each respective speaker.\n"
)
_LOUDNESS_DB = -25.0
_TINY = 1e-6


def tokenizer_of(folder: Path) -> Tokenizer:
    """The tokenizer in a model's folder."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise MissingWeightsError(
            f"{folder} has no tokenizer.json",
            hint="It is part of the converted repository; fetch it into the same folder.",
        )
    return Tokenizer.from_file(str(path))


def loudness(samples: Samples) -> Samples:
    """A sample as loud as those the model was trained on, and not beyond full scale."""
    root = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    louder = samples * np.float32(10 ** (_LOUDNESS_DB / 20) / (root + _TINY))
    peak = float(np.abs(louder).max())
    return np.asarray(louder / (peak + _TINY) if peak > 1.0 else louder, np.float32)


class Prompter:
    """Prompts for one model."""

    def __init__(self, model: VibeVoice, tokenizer: Tokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer

    def inputs(self, text: str, voice: Tensor | None) -> Tensor:
        """A prompt: a vector a place, of which the last begins the audio.

        Args:
            text: what is said, by one speaker.
            voice: what `VibeVoice.voice` gives; None lets the model choose one.
        """
        begin, stop = self._model.word_inputs[[BEGIN]], self._model.word_inputs[[STOP]]
        parts = [self._words(_TASK)]
        if voice is not None:
            before, after = self._words(" Voice input:\n", " Speaker 0:"), self._words("\n")
            parts += [before, begin, voice, stop, after]
        said = " ".join(text.split())
        parts += [
            self._words(" Text input:\n", f" Speaker 0: {said}\n", " Speech output:\n"),
            begin,
        ]
        return torch.cat(parts)

    def _words(self, *texts: str) -> Tensor:
        """Each text by itself: joined, their ends might make other tokens."""
        ids = [
            token
            for text in texts
            for token in self._tokenizer.encode(text, add_special_tokens=False).ids
        ]
        return self._model.words(torch.tensor(ids, dtype=torch.int64))
