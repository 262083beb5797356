"""When each written word of synthesised speech is heard.

An engine with durations says so itself: these times are exact. For the others a recogniser listens
to what was synthesised, and the words it heard are matched with the text: these are aligned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from anyrig.app.speech import TimedTake, open_recogniser
from anyrig.errors import AnyrigError, Message, OptionRef, WorkError
from anyrig.speech.choose import EngineChoice, list_infos
from anyrig.speech.engine import WordTime
from anyrig.speech.word_times import Timing, WrittenWord, place_words

if TYPE_CHECKING:
    from anyrig.app.compute import DeviceOptions
    from anyrig.app.rig import Rig
    from anyrig.app.speech import Speech
    from anyrig.audio.samples import Samples
    from anyrig.speech.chunks import AudioChunk
    from anyrig.speech.segment import Script
    from anyrig.text.captions import TimedText
    from anyrig.transcription.transcribe import TakeTranscriber

_MAX_WINDOW_S = 28.0
"""A recogniser computes half a minute however short the recording: takes are heard together."""

ReadSamples = Callable[[int, int], "Samples"]
"""The samples from one to another."""


@dataclass(frozen=True)
class WordTimes:
    """Written words, and where their times come from."""

    by_take: tuple[tuple[WrittenWord, ...], ...]
    timing: Timing

    @property
    def words(self) -> tuple[WrittenWord, ...]:
        """All in order."""
        return tuple(word for words in self.by_take for word in words)

    def to_json(self) -> dict[str, Any]:
        return {"timing": self.timing, "words": [describe_word(word) for word in self.words]}


def describe_word(word: WrittenWord) -> dict[str, Any]:
    """For programs; the names are those of a transcription's words."""
    return {
        "word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3),
        "span": list(word.span),
    }  # fmt: skip


def check_word_times(choice: EngineChoice, script: Script) -> None:
    """Check that words can be timed, before anything is spoken."""
    if choice.info.word_times:
        return
    from anyrig.transcription.models import find_model

    for language in dict.fromkeys(segment.utterance.language for segment in script.segments):
        try:
            find_model(language=language, words=True)
        except AnyrigError as error:
            raise type(error)(
                Message(
                    "{engine} gives no word times, and they cannot be found by listening:"
                    " {problem}",
                    engine=choice.name, problem=error.message,
                ),
                hint=Message("{hint} {other}", hint=error.hint, other=_suggest_engines()),
            ) from error  # fmt: skip


def time_takes(
    rig: Rig,
    options: DeviceOptions,
    source: str,
    takes: Sequence[TimedTake],
    read: ReadSamples,
    rate: int,
) -> WordTimes:
    """The written words of takes in order.

    Takes without words are listened to. One in which nothing is recognised has no words here; if
    that is so of all, an error says what to do.
    """
    missing = [take for take in takes if not take.words and take.end > take.start]
    heard = dict(_listen(rig, options, missing, read, rate)) if missing else {}
    found: list[tuple[WrittenWord, ...]] = []
    for take in takes:
        words = take.words or heard.get(id(take), ())
        bounds = take.start / rate, take.end / rate
        found.append(tuple(place_words(source, take.segment, words, *bounds)) if words else ())
    if takes and not any(found):
        raise WorkError(
            "no word times: the recogniser heard no words in the audio", hint=_suggest_engines()
        )
    return WordTimes(tuple(found), "aligned" if missing else "exact")


class WordTimer:
    """The words of a text while it is spoken: `add` its chunks in order, `take_words` in between.

    For one thread at a time.
    """

    def __init__(self, rig: Rig, options: DeviceOptions, script: Script, rate: int) -> None:
        self._rig, self._options, self._script, self._rate = rig, options, script, rate
        self._audio: list[AudioChunk] = []
        """Of the segment that is being spoken."""
        self._take: TimedTake | None = None
        self.timing: Timing = "exact"

    @property
    def must_listen(self) -> bool:
        """Whether `take_words` will take a second or more."""
        return self._take is not None and not self._take.words

    def add(self, chunk: AudioChunk) -> None:
        self._audio.append(chunk)
        if chunk.last:
            segment = self._script.segments[chunk.segment]
            self._take = TimedTake(segment, *chunk.take, chunk.words)

    def take_words(self) -> list[WrittenWord]:
        """The words of the segment that ended; none before its end."""
        if self._take is None:
            return []
        take, audio = self._take, self._audio
        self._take, self._audio = None, []

        def read(start: int, stop: int) -> Samples:
            import numpy as np

            first = audio[0].start
            whole = np.concatenate([chunk.samples for chunk in audio])
            return whole[start - first : stop - first]

        if not take.words and take.end > take.start:
            self.timing = "aligned"
        try:
            found = time_takes(
                self._rig, self._options, self._script.source, [take], read, self._rate
            )
        except WorkError:
            if len(self._script.segments) == 1:
                raise
            return []  # other segments have words
        return list(found.words)


CaptionKind = Literal["srt", "vtt", "json"]
CAPTION_KINDS: tuple[CaptionKind, ...] = get_args(CaptionKind)


def write_captions(speech: Speech, audio: Path, kinds: Sequence[CaptionKind]) -> list[Path]:
    """Files beside the audio and named after it: captions, or the words with their times."""
    from anyrig.storage.atomic_file import write_file
    from anyrig.text.captions import build_captions, srt, vtt

    times, written = speech.word_times, []
    captions = build_captions(list(_time_texts(speech.takes, times.by_take, speech.sample_rate)))
    for kind in kinds:
        if kind == "json":
            found = {"duration": round(speech.audio_s, 3), **times.to_json()}
            text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        else:
            text = srt(captions) if kind == "srt" else vtt(captions)
        written.append(write_file(audio.with_suffix(f".{kind}"), text))
    return written


def _time_texts(
    takes: Sequence[TimedTake], words: Sequence[Sequence[WrittenWord]], rate: int
) -> Iterator[TimedText]:
    """Each segment, with a time for each word between spaces."""
    from anyrig.text.captions import TimedText

    for take, own in zip(takes, words, strict=True):
        tokens = take.segment.text.split()
        starts: list[float] = []
        number, last_s = 0, take.start / rate
        for token in tokens:
            begins_s, rest = None, token
            while number < len(own) and own[number].text in rest:
                word = own[number]
                begins_s = word.start_s if begins_s is None else begins_s
                rest = rest.partition(word.text)[2]
                number, last_s = number + 1, word.end_s
            starts.append(last_s if begins_s is None else begins_s)
        yield TimedText(" ".join(tokens), take.start / rate, take.end / rate, starts if own else ())


def _suggest_engines() -> Message:
    names = [name for name, info in list_infos() if info.word_times]
    return Message(
        "Or pass {engine} with one that gives word times: {names}.",
        engine=OptionRef("engine"), names=", ".join(names),
    )  # fmt: skip


# -- listening -------------------------------------------------------------------------------------


def _listen(
    rig: Rig, options: DeviceOptions, takes: Sequence[TimedTake], read: ReadSamples, rate: int
) -> Iterator[tuple[int, tuple[WordTime, ...]]]:
    """The words that are recognised in each take, by its id."""
    from anyrig.transcription.engines import Recording

    groups = list(_group(takes, round(_MAX_WINDOW_S * rate)))
    recordings = [
        Recording(
            read(group[0].start, group[-1].end), rate, group[0].segment.utterance.language, "lines"
        )
        for group in groups
    ]
    languages = {recording.language for recording in recordings}
    with _borrow_recogniser(rig, options, languages, len(recordings)) as recogniser:
        outcomes = list(recogniser.transcribe(recordings))
    for group, outcome in zip(groups, outcomes, strict=True):
        if outcome.result is None:
            continue
        start_s = group[0].start / rate
        words: dict[int, list[WordTime]] = {}
        for line in outcome.result.lines:
            for word in line.words:
                one = WordTime(word.text, start_s + word.start_s, start_s + word.end_s)
                words.setdefault(id(_nearest(group, one, rate)), []).append(one)
        for key, some in words.items():
            yield key, tuple(some)


def _group(takes: Sequence[TimedTake], max_samples: int) -> Iterator[list[TimedTake]]:
    """Neighbours in one language, as many as a recogniser hears at a time."""
    group: list[TimedTake] = []
    for take in takes:
        if group and (
            take.end - group[0].start > max_samples
            or take.segment.utterance.language != group[0].segment.utterance.language
        ):
            yield group
            group = []
        group.append(take)
    if group:
        yield group


def _nearest(group: Sequence[TimedTake], word: WordTime, rate: int) -> TimedTake:
    middle = (word.start_s + word.end_s) / 2 * rate
    return min(group, key=lambda take: max(take.start - middle, middle - take.end, 0.0))


@contextmanager
def _borrow_recogniser(
    rig: Rig, options: DeviceOptions, languages: set[str], num_recordings: int
) -> Iterator[TakeTranscriber]:
    """Whisper, as it gives the times of words; a server keeps it for the next text."""
    from anyrig.transcription.models import find_model

    model = [find_model(language=language, words=True) for language in languages][0]

    def load() -> TakeTranscriber:
        return open_recogniser(rig, options, model, num_recordings, words=True)

    with rig.models.borrow(f"word times {model.name}", load, version=model.version) as recogniser:
        yield recogniser
