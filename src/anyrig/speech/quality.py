"""Whether a take is a plausible reading of its utterance, and the engine that checks every take.

Judged by the sound alone and cheaply. Samples that are not finite, silence, and length against the
text are checked of every take. The bounds are generous: a voice that speaks slowly or leaves long
pauses must pass, since a false alarm costs a take. Models that sample also repeat themselves at
times: repetition is looked for, and a bad take is made again, only where takes vary with their
seed. What a take says is not heard here: that is `--verify`.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples, frame_power, measure_clipping
from anyrig.backends.memory import trim_heap
from anyrig.speech import engines
from anyrig.speech.engine import (
    OptionValue,
    SpeechEngine,
    Take,
    TakePart,
    Utterance,
    join_parts,
)
from anyrig.speech.repetition import find_repetition, is_repetitive
from anyrig.work.engine import BaseEngine, OnPart

if TYPE_CHECKING:
    from anyrig.placement import Placement

log = logging.getLogger(__name__)
ProblemKind = Literal["length", "silence", "clipping", "repetition", "non-finite", "empty"]
_FRAME_S = 0.01
_SPEECH = 10.0**-4.5  # of the loudest frame's power: 45 dB under it nothing counts as speech
_FAINT = 1e-5  # the power of -50 dBFS: a take whose loudest frame is under it says nothing
_EDGE_S = 2.0  # silence before or after the words; the default voice leaves half a second
_SHORT = 0.8  # of the usual length: with another sign, something is missing
_CLIP_RUN = 4  # samples in a row at the top: a wave that was cut, not one that just reached it
_CLIP_SHARE = 0.015  # a small voice of 16 bits always cuts up to 1 %
_LOUD = 0.01  # of the loudest frame's power: a vowel, not the end of one
# What problems take from the score, so that the least bad of several takes can be kept.
_WEIGHT: dict[ProblemKind, float] = {
    "silence": 0.5, "length": 0.5, "repetition": 0.6, "clipping": 0.2,
}  # fmt: skip


class TakeProblem(NamedTuple):
    """Something that is wrong with a take."""

    kind: ProblemKind
    message: str


@dataclass(frozen=True)
class QualityReport:
    """What is wrong with a take."""

    problems: tuple[TakeProblem, ...] = ()
    score: float = 1.0
    """1 if nothing is wrong, 0 if nothing of the text can be heard."""

    @property
    def is_good(self) -> bool:
        return not self.problems


def check_take(take: Take, utterance: Utterance, *, repetition: bool = True) -> QualityReport:
    """What is wrong with a take.

    Args:
        repetition: whether to look for stretches that are said again; most of the cost.
    """
    samples, rate = take.samples, take.rate
    if not len(samples):
        return QualityReport((TakeProblem("empty", "it has no samples"),), 0.0)
    power = frame_power(samples, max(1, round(_FRAME_S * rate)))
    if not np.isfinite(power).all():
        return QualityReport((TakeProblem("non-finite", "some samples are not finite"),), 0.0)
    expected = expect_duration(utterance)
    loudest = float(power.max())
    speech = np.flatnonzero(power > loudest * _SPEECH)
    if loudest < _FAINT or not len(speech):
        if not expected.max_s:
            return QualityReport()
        return QualityReport((TakeProblem("silence", "it is silent"),), 0.0)
    problems: list[TakeProblem] = []
    spoken_s = (int(speech[-1]) - int(speech[0]) + 1) * _FRAME_S
    breaks_off = float(power[-2:].max()) > _LOUD * loudest
    off = _check_length(problems, spoken_s, breaks_off, expected)
    _check_silence(problems, speech, len(power), expected)
    _check_clipping(problems, samples)
    if repetition and not is_repetitive(utterance.text):
        _check_repetition(problems, samples, rate, expected.slowness)
    return _build_report(problems, off)


def _build_report(problems: list[TakeProblem], off: float) -> QualityReport:
    """Args: off: how far the length is off, 0 to 1: it decides between equals."""
    if not problems:
        return QualityReport()
    lost = sum(_WEIGHT[problem.kind] for problem in problems) + 0.1 * off
    return QualityReport(tuple(problems), 1.0 / (1.0 + lost))


def _check_length(
    problems: list[TakeProblem], seconds: float, breaks_off: bool, expected: ExpectedDuration
) -> float:
    if seconds > expected.max_s:
        message = f"it takes {seconds:.1f} s, expected at most {expected.max_s:.1f} s"
        problems.append(TakeProblem("length", message))
        return min(1.0, (seconds - expected.max_s) / (expected.max_s + 1.0))
    if seconds < expected.min_s:
        message = f"it takes {seconds:.1f} s, expected at least {expected.min_s:.1f} s"
        problems.append(TakeProblem("length", message))
        return min(1.0, (expected.min_s - seconds) / expected.min_s)
    if breaks_off and seconds < _SHORT * expected.usual_s:
        problems.append(TakeProblem("length", f"it ends abruptly after {seconds:.1f} s"))
        return 1.0 - seconds / expected.usual_s
    return 0.0


def _check_silence(
    problems: list[TakeProblem],
    speech: NDArray[np.intp],
    num_frames: int,
    expected: ExpectedDuration,
) -> None:
    gap_s = float(np.diff(speech).max(initial=1) - 1) * _FRAME_S
    if gap_s > expected.max_gap_s:
        problems.append(TakeProblem("silence", f"{gap_s:.1f} s of silence in the middle"))
    edge_s = max(int(speech[0]), num_frames - 1 - int(speech[-1])) * _FRAME_S
    spoken_s = (int(speech[-1]) - int(speech[0])) * _FRAME_S
    usual_s = _EDGE_S if spoken_s > _SHORT * expected.usual_s else _EDGE_S / 2
    if edge_s > usual_s * expected.slowness:
        problems.append(TakeProblem("silence", f"{edge_s:.1f} s of silence at an end"))


def _check_clipping(problems: list[TakeProblem], samples: Samples) -> None:
    peak = max(float(samples.max()), -float(samples.min()))
    if peak < 0.97:
        return
    share = measure_clipping(samples, 0.999, _CLIP_RUN)
    if share > _CLIP_SHARE:
        problems.append(TakeProblem("clipping", f"{100 * share:.1f} % of the samples are clipped"))


def _check_repetition(
    problems: list[TakeProblem], samples: Samples, rate: int, slowness: float
) -> None:
    found = find_repetition(samples, rate, slowness=slowness)
    if found is not None:
        message = f"{found.period_s:.1f} s are repeated from {found.start_s:.1f} s on"
        problems.append(TakeProblem("repetition", message))


# -- how long a take may be ----------------------------------------------------------------------

# Seconds for a letter (a word's end counts as one), of voices of several engines at rate 1.
_PACE = {"en": 0.057, "es": 0.062, "fr": 0.050, "de": 0.062, "it": 0.064, "pt": 0.060}
_OTHER = 0.062
_FASTEST, _SLOWEST = 0.58, 1.6
_FASTEST_OTHER, _SLOWEST_OTHER = 0.4, 2.2
_WIDE = 3.0  # letters that a Chinese, Japanese or Korean character stands for
_PHONEMES = re.compile(r"\[\[(.*?)\]\]")
_PAUSE = re.compile(r"[,;:.!?…—–\n]+(?=\s|$)|\s[-–—]\s")
_STOP = re.compile(r"[.!?…—–\n]+[\"'”’)]*\s")
_CAPITALS = re.compile(r"\b(?:[A-Z]\.?){2,}\b")


class ExpectedDuration(NamedTuple):
    """How long a take may be, from its text and its language.

    Counted in letters and words. What is written short and said long (digits, symbols, letters in
    capitals) widens the range, as it is not known how it was read.
    """

    min_s: float
    max_s: float
    """0 when there is nothing to say."""
    usual_s: float
    """What it takes when nothing in it is longer than it looks."""
    max_gap_s: float
    """The longest pause within it."""
    slowness: float
    """How many times as long silences are at this rate; 1 at least."""


def expect_duration(utterance: Utterance) -> ExpectedDuration:
    least, most = _count_letters(utterance.text)
    language = utterance.language.partition("-")[0].lower()
    pace = _PACE.get(language, _OTHER)
    known = language in _PACE
    fastest, slowest = (_FASTEST, _SLOWEST) if known else (_FASTEST_OTHER, _SLOWEST_OTHER)
    rate = max(utterance.rate, 0.05)
    slowness = max(1.0, 1.0 / rate)
    pauses = len(_PAUSE.findall(utterance.text))
    if not most:
        return ExpectedDuration(0.0, 0.0, 0.0, 1.0, slowness)
    least_s = max(0.04, least * pace * fastest / rate - 0.15)
    most_s = (most * pace * slowest + 0.6 + 0.35 * max(0, pauses - 1)) / min(rate, 1.5)
    # A voice that whispers takes a second at a comma; most take a third of that.
    gap_s = (2.5 if _STOP.search(utterance.text.strip()) else 1.7 if pauses > 1 else 1.2) * slowness
    return ExpectedDuration(least_s, most_s, least * pace / rate, gap_s, slowness)


def _count_letters(text: str) -> tuple[float, float]:
    """How many letters are said, at least and at most."""
    capitals = sum(len(found) for found in _CAPITALS.findall(text))
    text = _PHONEMES.sub(r"\1", text)
    least = most = 0.0
    for character in text:
        few, many = _weight(character)
        least += few
        most += many
    words = len(re.findall(r"\w+", text))
    return least + 0.8 * words, most + words + 2.5 * capitals


def _weight(character: str) -> tuple[float, float]:
    category = unicodedata.category(character)
    if category[0] == "L":
        wide = unicodedata.east_asian_width(character) in "WF"
        return (0.8 * _WIDE, 1.5 * _WIDE) if wide else (1.0, 1.0)
    if category[0] == "N":
        return 1.0, 5.5
    if category in ("Sc", "Sm", "So", "Sk") or character in "%&@#/*":
        return 0.0, 8.0
    return 0.0, 0.0


# -- the engine of a worker -----------------------------------------------------------------------

_MAX_RETRIES = 3
_OTHER_SEED = 7919  # far from the seeds of other utterances
_UTTERANCES_PER_THREAD, _USUAL_COST = 4, 120.0
_TRIM_EVERY = 1024  # utterances on a CPU: seldom, as what is given back must be fetched again


@dataclass(frozen=True)
class CheckedTake:
    """A take as it is stored and sent, and what its checks found."""

    data: bytes
    """Of `encode_take`."""
    problems: tuple[str, ...] = ()
    tries: int = 1
    """How often it was made."""
    unusable: bool = False
    """Whether nothing of the text can be heard in it."""
    streamed: bool = False
    """Whether parts of it were sent before it was whole, and checked."""
    worker: str = ""
    """The worker of a cluster that made it; empty for this machine."""

    @property
    def is_cacheable(self) -> bool:
        """A bad take that was heard part by part could not be made again: the next one may be."""
        return not self.unusable and not (self.streamed and self.problems)


class StreamedSamples(NamedTuple):
    """Audio of a take that is not whole yet."""

    start: int
    """The position of its first sample in the take."""
    samples: Samples


class CheckedEngine(BaseEngine):
    """A speech engine in a worker. Every take is checked before it leaves.

    Where takes vary with their seed, a bad one is made again with another seed, and the best is
    used. What was sent in parts has been heard: it is checked, and not made again.
    """

    def __init__(
        self,
        placement: Placement,
        *,
        engine: str,
        folder: str = "",
        options: dict[str, OptionValue] | None = None,
    ) -> None:
        loaded = self._engine = engines.load_engine(
            placement, engine=engine, folder=folder, options=options
        )
        self.name, self.version = loaded.name, loaded.version
        self.pads, self.batch_invariant = loaded.pads, loaded.batch_invariant
        self.max_items, self.handle = loaded.max_items, loaded.handle
        self.concurrent_items = loaded.concurrent_items
        self.memory_options = loaded.memory_options
        self.emits_parts = loaded.info.streams
        self._varies = loaded.info.varies_with_seed
        self._threads = _open_threads(placement, loaded)
        if self._threads is not None:  # an utterance alone would leave the others idle
            self.first_batch_cost = _UTTERANCES_PER_THREAD * _USUAL_COST * placement.threads
        self._on_host = placement.device.kind == "cpu"
        self._num_made = 0

    def run(
        self, batch: Sequence[Utterance], on_parts: Sequence[OnPart | None] = ()
    ) -> list[CheckedTake]:
        on_parts = on_parts or [None] * len(batch)
        before, self._num_made = self._num_made, self._num_made + len(batch)
        if self._on_host and self._num_made // _TRIM_EVERY > before // _TRIM_EVERY:
            trim_heap()
        if self._threads is None or len(batch) == 1:
            return self._record(batch, on_parts)
        # One each, the longest first, so that none ends long after the others.
        order = sorted(range(len(batch)), key=lambda n: -batch[n].cost)
        done = self._threads.map(lambda n: (n, self._record([batch[n]], [on_parts[n]])[0]), order)
        return [recording for _, recording in sorted(done, key=lambda pair: pair[0])]

    def _record(
        self, batch: Sequence[Utterance], on_parts: Sequence[OnPart | None]
    ) -> list[CheckedTake]:
        from anyrig.speech.takes import encode_take

        parts = _pass_on(self._engine.synthesize(batch), on_parts)
        takes = join_parts(parts, len(batch), self._engine.sample_rate)
        best = [(take, self._check(take, one)) for take, one in zip(takes, batch, strict=True)]
        tries = [1] * len(batch)
        for attempt in range(1, _MAX_RETRIES + 1 if self._varies else 1):
            bad = [n for n, (_, found) in enumerate(best) if found.problems and not on_parts[n]]
            if not bad:
                break
            other = [replace(batch[n], seed=batch[n].seed + attempt * _OTHER_SEED) for n in bad]
            for n, take, one in zip(bad, self._engine.run(other), other, strict=True):
                tries[n] += 1
                found = self._check(take, one)
                if found.score > best[n][1].score:
                    best[n] = (take, found)
        return [
            CheckedTake(
                encode_take(take), tuple(problem.message for problem in found.problems), count,
                unusable=found.score <= 0.0, streamed=on_part is not None,
            )
            for (take, found), count, on_part in zip(best, tries, on_parts, strict=True)
        ]  # fmt: skip

    def _check(self, take: Take, utterance: Utterance) -> QualityReport:
        found = check_take(take, utterance, repetition=self._varies)
        for problem in found.problems:
            log.info("%s: %r", problem.message, utterance.text[:80])
        return found


def _pass_on(parts: Iterator[TakePart], on_parts: Sequence[OnPart | None]) -> Iterator[TakePart]:
    """Give each part to whoever waits for it."""
    num_sent = [0] * len(on_parts)
    for part in parts:
        on_part = on_parts[part.index]
        if on_part is not None and len(part.samples):
            on_part(StreamedSamples(num_sent[part.index], part.samples))
            num_sent[part.index] += len(part.samples)
        yield part


def _open_threads(placement: Placement, engine: SpeechEngine) -> ThreadPoolExecutor | None:
    """Threads that make an utterance each, where the engine may be called from several."""
    count = min(placement.threads, engine.cores or 1)
    if placement.device.kind == "gpu" or count < 2:
        return None
    return ThreadPoolExecutor(count, thread_name_prefix="anyrig-speech")
