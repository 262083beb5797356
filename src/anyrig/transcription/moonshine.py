"""English through moonshine tiny, whose weights lie in its package: 10 to 14 times real time."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from anyrig.audio import SPEECH_RATE
from anyrig.transcription.protocol import (
    Line,
    Recogniser,
    Task,
    Transcript,
    check_hashes,
    missing,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.placement import Placement

_SHORTEST_S = 0.1  # it says "You" in what is shorter
_SILENCE = [0.0] * (3 * SPEECH_RATE)
_PACKAGE = "moonshine-voice==0.1.0"
_HASHES = {
    "decoder_model_merged.ort": "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
    "encoder_model.ort": "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
    "tokenizer.bin": "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
}


FINGERPRINT = hashlib.sha256("".join(sorted(_HASHES.values())).encode()).hexdigest()


class Moonshine(Recogniser):
    """Hears English."""

    name = "moonshine"
    version = "0.1.0"
    languages = ("en",)
    modules = ("moonshine_voice",)

    def __init__(self, placement: Placement | None = None, *, folder: str = "") -> None:
        super().__init__(placement, folder=folder)
        try:
            # The modules themselves: the package's front door wants PortAudio.
            from moonshine_voice.moonshine_api import ModelArch
            from moonshine_voice.transcriber import Transcriber
            from moonshine_voice.utils import get_model_path
        except ImportError as error:
            raise missing(self.name, error) from error
        model = get_model_path("tiny-en")
        check_hashes([(model / name, digest) for name, digest in _HASHES.items()], _PACKAGE)
        self._transcriber = Transcriber(str(model), ModelArch.TINY)

    def transcribe(self, samples: NDArray[np.float32], rate: int, language: str = "") -> Transcript:
        """What is said, as English whatever the language."""
        if not len(samples):
            return Transcript("", "en")
        self._settle()
        heard = self._transcriber.transcribe_without_streaming(samples.tolist(), rate)
        return Transcript(" ".join(line.text.strip() for line in heard.lines).strip(), "en")

    def lines(self, samples: NDArray[np.float32], language: str, task: Task) -> Transcript:
        """What is said, as English whatever the language; lines as it parts them by pauses."""
        if not len(samples):
            return Transcript("", "en")
        self._settle()
        heard = self._transcriber.transcribe_without_streaming(samples.tolist(), SPEECH_RATE)
        whole_s = len(samples) / SPEECH_RATE
        made = []
        for line in heard.lines:
            text = line.text.strip()
            if text and float(line.duration) >= _SHORTEST_S:
                start_s = min(max(0.0, float(line.start_time)), whole_s)
                end_s = min(whole_s, max(start_s, start_s + float(line.duration)))
                made.append(Line(text, start_s, end_s))
        return Transcript(" ".join(line.text for line in made), "en", tuple(made))

    def _settle(self) -> None:
        """Let its detector of speech come to rest, so that no recording depends on the last one.

        Its state outlives a call, and another transcriber has the same: after speech, a recording
        that begins at once began with a "You" that nobody says. It costs 30 ms.
        """
        self._transcriber.transcribe_without_streaming(_SILENCE, SPEECH_RATE)
