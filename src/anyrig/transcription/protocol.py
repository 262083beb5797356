"""What is asked of a recogniser: an engine of `work` whose items are recordings."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, get_args

from anyrig.audio import SPEECH_RATE
from anyrig.errors import MissingPackageError, MissingWeightsError
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.placement import Placement

INSTALL = format_install("anyrig[recognise]")
FormName = Literal["txt", "md", "srt", "vtt", "json"]
FORMS: tuple[FormName, ...] = get_args(FormName)
"""Files that a transcription is written to."""

Task = Literal["words", "lines", "translate", "language"]
"""Only the words; lines with times, checked for nonsense; those in English; the language."""


class Recording(NamedTuple):
    """Something to be heard."""

    samples: NDArray[np.float32]
    """Mono, -1 to 1."""
    rate: int
    language: str = ""
    """ISO 639-1; the recogniser finds it out when empty, if it can."""
    task: Task = "words"

    @property
    def cost(self) -> float:
        """What it costs to hear: seconds, with a little for each call."""
        return len(self.samples) / self.rate + 0.3


class Word(NamedTuple):
    """A word and when it is heard, in seconds."""

    text: str
    start_s: float
    end_s: float
    confidence: float | None = None
    """0 to 1, where the engine knows."""


@dataclass(frozen=True)
class Line:
    """A stretch of speech, mostly a sentence or a clause, in seconds."""

    text: str
    start_s: float
    end_s: float
    words: tuple[Word, ...] = ()
    """Where the engine gives them."""
    avg_logprob: float | None = None
    """Of its tokens, where the engine knows: near 0 is sure, below -1 is doubtful."""
    no_speech_prob: float | None = None
    compression_ratio: float | None = None
    """Of its text: above 2.4 it most likely repeats itself."""
    temperature: float | None = None
    """At which it was decoded: above 0 a first try was refused."""
    doubt: str = ""
    """What speaks against it; empty when nothing does."""

    @property
    def confidence(self) -> float | None:
        """0 to 1, where the engine knows."""
        return None if self.avg_logprob is None else math.exp(min(0.0, self.avg_logprob))

    def later(self, seconds: float) -> Line:
        """The same line so many seconds later."""
        words = tuple(
            word._replace(start_s=word.start_s + seconds, end_s=word.end_s + seconds)
            for word in self.words
        )
        return replace(
            self, start_s=self.start_s + seconds, end_s=self.end_s + seconds, words=words
        )


@dataclass(frozen=True)
class Transcript:
    """What was heard."""

    text: str
    language: str
    lines: tuple[Line, ...] = ()
    """With times, where they were asked for."""
    languages: tuple[tuple[str, float], ...] = ()
    """The likeliest with their probabilities, where the language was found out."""


class Recogniser(BaseEngine):
    """What every recogniser inherits. `languages` and `transcribe` must be given."""

    languages: ClassVar[tuple[str, ...]]
    """ISO 639-1 codes."""
    modules: ClassVar[tuple[str, ...]]
    """What must be importable."""
    pads = False
    batch_invariant = True
    max_items = 1

    def __init__(self, placement: Placement | None = None, *, folder: str = "") -> None:
        """Load.

        Args:
            placement: how many threads it may use; one without it.
            folder: where a model that comes in parts is put together.
        """

    def transcribe(self, samples: NDArray[np.float32], rate: int, language: str = "") -> Transcript:
        """What is said in a recording."""
        raise NotImplementedError

    def lines(self, samples: NDArray[np.float32], language: str, task: Task) -> Transcript:
        """What is said at 16,000 samples a second, in lines with times."""
        raise NotImplementedError

    def language(self, samples: NDArray[np.float32]) -> tuple[tuple[str, float], ...]:
        """The likeliest languages and their probabilities; the first is the likeliest."""
        return tuple((code, 1.0) for code in self.languages[:1])

    def run(self, batch: Sequence[Recording]) -> list[Transcript]:
        """What is said in each."""
        return [self._one(recording) for recording in batch]

    def _one(self, recording: Recording) -> Transcript:
        samples, rate, language, task = recording
        if task == "words":
            return self.transcribe(samples, rate, language)
        from anyrig.audio.resample import resample
        from anyrig.transcription.guard import careful

        at_16k = resample(samples, rate, SPEECH_RATE)
        if task == "language":
            found = self.language(at_16k)
            return Transcript("", found[0][0] if found else "", languages=found)
        return careful(lambda part: self.lines(part, language, task), at_16k)


def missing(what: str, error: ImportError) -> MissingPackageError:
    """What a person is told when a recogniser's package is not there."""
    return MissingPackageError(f"{what} needs the package {error.name}", hint=INSTALL)


def check_hashes(files: Iterable[tuple[Path, str]], package: str) -> None:
    """That files are the ones that were tried; MissingWeightsError when one is not."""
    for path, wanted in files:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _not_whole(path, package, str(error)) from error
        if found != wanted:
            raise _not_whole(path, package, f"its SHA-256 is {found[:16]}..., not {wanted[:16]}...")


def _not_whole(path: Path, package: str, why: str) -> MissingWeightsError:
    return MissingWeightsError(
        f"{path.name} of {package} cannot be used: {why}",
        hint=format_install(package, options="--force-reinstall --no-deps"),
    )
