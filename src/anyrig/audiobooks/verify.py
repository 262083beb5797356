"""Check a finished book against its source: chapters, lengths, levels, and the words.

    report = verify(Path("book.m4b"), plan, timeline, words="sample", transcribe=transcribe)
    for line in report.format(): ...

The timeline, known from the takes, says where every segment is: the file is cut there, each segment
is transcribed and compared with its text. Books of other programs have no timeline and are refused.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.audio.decode import AudioFile, open_audio
from anyrig.audiobooks.metadata import build_chapter_titles
from anyrig.audiobooks.verify_audio import (
    AudioFigures,
    AudioMeter,
    AudioProblem,
    AudioProblemKind,
    Levels,
    find_chapter_problems,
    find_whole_problems,
)
from anyrig.errors import AnyrigError, InvalidInputError, Message, OptionRef
from anyrig.transcription.compare import count_word_errors
from anyrig.transcription.engines import Recording, Transcript
from anyrig.units import format_duration, pluralize, shorten

if TYPE_CHECKING:
    from anyrig.audiobooks.plan import ChapterPlan, NarrationPlan
    from anyrig.audiobooks.record import Cue, Timeline

FindingKind = Literal["chapters", "duration", "words"] | AudioProblemKind
Words = Literal["none", "sample", "all"]
Transcribe = Callable[[Iterable[Recording], str], Iterator[Transcript | None]]
"""Transcribes segments of a language, in order; None for one that failed. It raises where there is
no model of the language."""
OnProgress = Callable[[str, float, float], None]
"""Stage, seconds done, seconds in all."""

SUFFIXES = (".m4b", ".m4a", ".mp4", ".mp3", ".opus", ".ogg", ".flac", ".wav")
SAMPLE_S = 600.0
"""What a sample transcribes, and something of each chapter in any case."""
_SEED = 1
_SLACK_S = 0.1  # that an encoder may add or take
_EDGE_S = 0.05  # left around a segment
_MIN_WRONG = 3  # words, and a share of them: less is taken for an error of the recogniser
_MIN_WRONG_SHARE = 0.34
_MAX_SHOWN = 200


@dataclass(frozen=True)
class BookFinding:
    """Something that is not as it should be."""

    kind: FindingKind
    message: str
    """Without the place."""
    chapter: int = 0
    """In the book's list of chapters, from 1; 0 for the whole."""
    title: str = ""
    start_s: float | None = None
    """In the whole book; of chapters that are files, `in_chapter_s` is what a player shows."""
    end_s: float | None = None
    in_chapter_s: float | None = None
    segment: int = 0
    """Of the chapter, from 1; 0 where it is none."""
    text: str = ""
    """The passage."""

    @property
    def again(self) -> tuple[str, ...]:
        """The values of the option `again` that make the passage again."""
        return (f"{self.chapter}:{self.segment}",) if self.segment else ()

    def format(self) -> str:
        place = f"chapter {self.chapter}" if self.chapter else "the whole"
        if self.start_s is not None:
            place += f", {format_clock(self.start_s)}"
        text = f": {shorten(' '.join(self.text.split()), _MAX_SHOWN)!r}" if self.text else ""
        line = f"{place}: {self.message}{text}"
        if not self.again:
            return line
        return Message("{line} [{again}]", line=line, again=OptionRef("again", self.again[0]))

    def to_json(self) -> dict[str, object]:
        return {
            "kind": self.kind, "message": self.message,
            "chapter": self.chapter, "title": self.title,
            "start_s": _round(self.start_s, 2), "end_s": _round(self.end_s, 2),
            "in_chapter_s": _round(self.in_chapter_s, 2), "text": self.text,
            "again": list(self.again),
        }  # fmt: skip


@dataclass(frozen=True)
class ChapterReport:
    """The figures of a chapter, or of the whole."""

    chapter: int
    """0 for the whole."""
    title: str
    start_s: float
    characters: int
    """That should be spoken in it."""
    audio: AudioFigures
    transcribed_s: float = 0.0
    words: int = 0
    """Of the text of what was transcribed."""
    errors: int = 0

    @property
    def word_error_rate(self) -> float | None:
        """Wrong words for each word; None where nothing was transcribed."""
        return self.errors / self.words if self.words else None

    def to_json(self) -> dict[str, object]:
        """What is silent has no loudness, which is null."""
        audio = self.audio
        pace = 1000.0 * audio.duration_s / self.characters if self.characters else None
        return {
            "chapter": self.chapter, "title": self.title, "start_s": _round(self.start_s, 3),
            "duration_s": _round(audio.duration_s, 3), "characters": self.characters,
            "ms_per_character": _round(pace, 2), "lufs": _round(audio.lufs, 2),
            "true_peak_db": _round(audio.true_peak_db, 2), "peak_db": _round(audio.peak_db, 2),
            "rms_db": _round(audio.rms_db, 2), "noise_floor_db": _round(audio.noise_floor_db, 1),
            "longest_silence_s": _round(audio.longest_silence_s, 2),
            "heard_s": _round(self.transcribed_s, 1), "words": self.words, "errors": self.errors,
            "word_error_rate": _round(self.word_error_rate, 4),
        }  # fmt: skip


@dataclass(frozen=True)
class Report:
    """A finished book, checked."""

    path: str
    levels: str
    """The preset that it was checked against."""
    problems: tuple[BookFinding, ...]
    chapters: tuple[ChapterReport, ...]
    whole: ChapterReport
    notes: tuple[str, ...] = ()
    """Worth knowing, but no fault."""
    unchecked: tuple[str, ...] = ()
    """What could not be checked, and why."""

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong with what was checked."""
        return not self.problems

    @property
    def again(self) -> tuple[str, ...]:
        """All passages that are worth making again, as values of the option `again`."""
        return tuple(dict.fromkeys(one for found in self.problems for one in found.again))

    def to_json(self) -> dict[str, object]:
        return {
            "path": self.path, "levels": self.levels, "good": self.is_good,
            "problems": [found.to_json() for found in self.problems],
            "chapters": [row.to_json() for row in self.chapters], "whole": self.whole.to_json(),
            "notes": list(self.notes), "unchecked": list(self.unchecked),
            "again": list(self.again),
        }  # fmt: skip

    def format(self) -> list[str]:
        """A table of the chapters, and what was found, in plain lines."""
        lines = [*_format_table([*self.chapters, self.whole]), ""]
        lines += [f"problem: {found.format()}" for found in self.problems]
        lines += [f"not checked: {reason}" for reason in self.unchecked]
        lines += [f"note: {note}" for note in self.notes]
        return [*lines, self.summarize()]

    def summarize(self) -> str:
        result = pluralize(len(self.problems), "problem") if self.problems else "nothing wrong"
        words = "; no words were checked"
        if not self.whole.words and not self.problems:
            result = "no problem with the audio"
        if self.whole.words:
            words = (
                f"; {format_duration(self.whole.transcribed_s)} transcribed, "
                f"{self.whole.errors / self.whole.words:.1%} of "
                f"{pluralize(self.whole.words, 'word')} differ"
            )
        length = format_duration(self.whole.audio.duration_s)
        return f"{result} in {pluralize(len(self.chapters), 'chapter')}, {length}{words}"


@dataclass
class _CheckedChapter:
    """A chapter of the file, with what should be in it."""

    part: ChapterPlan
    title: str
    file: Path
    start: int
    """In samples of the file."""
    end: int
    origin: int
    """Where the file begins, in samples of the timeline."""
    offset_s: float
    """When it begins in the whole book."""
    rate: int
    cues: list[Cue]
    meter: AudioMeter
    transcribed_s: float = 0.0
    words: int = 0
    errors: int = 0
    findings: list[BookFinding] = field(default_factory=list)

    def add(
        self, kind: FindingKind, message: str, start_s: float | None = None,
        end_s: float | None = None, segment: int = 0, text: str = "",
    ) -> None:  # fmt: skip
        """Times are from the beginning of the chapter."""
        start, end = (None if s is None else self.offset_s + s for s in (start_s, end_s))
        self.findings.append(
            BookFinding(
                kind, message, self.part.number, self.title, start, end, start_s, segment, text
            )
        )

    def report(self, figures: AudioFigures) -> ChapterReport:
        return ChapterReport(
            self.part.number, self.title, self.offset_s, _count_characters([self.part]), figures,
            self.transcribed_s, self.words, self.errors,
        )  # fmt: skip


def verify(
    path: Path,
    plan: NarrationPlan,
    timeline: Timeline,
    *,
    words: Words = "sample",
    levels: Levels | None = None,
    transcribe: Transcribe | None = None,
    sample_s: float = SAMPLE_S,
    on_progress: OnProgress = lambda *_: None,
) -> Report:
    """Check a finished book.

    Args:
        path: the book, or the folder of its chapters.
        plan: what should be spoken.
        timeline: when, as the takes say.
        words: how much of it is transcribed.
        levels: what is required of the audio.
        transcribe: without it the words are not checked, and the report says so.
        sample_s: how much a sample transcribes.
        on_progress: is called while it runs.
    """
    levels = levels or Levels()
    tracks, notes = _open_tracks(path, plan, timeline, levels)
    _measure(tracks, timeline, on_progress)
    unchecked: list[str] = []
    if words == "none":
        notes.insert(0, "the words were not transcribed")
    elif transcribe is None:
        unchecked.append("the words: no speech recognition is installed")
    else:
        cues = _choose_cues(tracks, timeline, sample_s if words == "sample" else math.inf)
        unchecked += _check_words(tracks, cues, timeline, transcribe, on_progress)
    figures = [track.meter.measure() for track in tracks]
    whole = AudioMeter.measure_all([track.meter for track in tracks])
    problems = [BookFinding(one.kind, one.message) for one in find_whole_problems(whole, levels)]
    for track, measured in zip(tracks, figures, strict=True):
        pauses = [s.pause_before_s + s.pause_after_s for s in track.part.script.segments]
        one: AudioProblem
        for one in find_chapter_problems(measured, whole, levels, pauses):
            track.add(one.kind, one.message, one.start_s, one.end_s)
        problems += sorted(track.findings, key=lambda found: found.start_s or -1.0)
    rows = tuple(track.report(one) for track, one in zip(tracks, figures, strict=True))
    total = ChapterReport(
        0, "all", 0.0, _count_characters(plan.parts), replace(whole, pauses=_longest(figures)),
        sum(row.transcribed_s for row in rows), sum(row.words for row in rows),
        sum(row.errors for row in rows),
    )  # fmt: skip
    return Report(
        str(path), levels.name, tuple(problems), rows, total, tuple(notes), tuple(unchecked)
    )


def _count_characters(parts: Iterable[ChapterPlan]) -> int:
    return sum(len(s.spoken) for part in parts for s in part.script.segments)


def _longest(figures: Sequence[AudioFigures]) -> tuple[tuple[float, float], ...]:
    pauses = [pause for one in figures for pause in one.pauses]
    return (max(pauses, key=lambda pause: pause[1] - pause[0]),) if pauses else ()


# -- chapters --------------------------------------------------------------------------------------


def _open_tracks(
    path: Path, plan: NarrationPlan, timeline: Timeline, levels: Levels
) -> tuple[list[_CheckedChapter], list[str]]:
    """The chapters where the timeline has them, and notes; a book of other takes is refused."""
    titles = build_chapter_titles(timeline.chapters)
    by_part = timeline.group_cues()
    files = _list_files(path)
    tracks: list[_CheckedChapter] = []
    notes: list[str] = []
    num_alike = 0
    for number, (part, mark) in enumerate(zip(plan.parts, timeline.chapters, strict=True)):
        is_folder = path.is_dir()
        if is_folder and number >= len(files):
            break
        with open_audio(files[number] if is_folder else files[0]) as file:
            scale = file.rate / timeline.rate
            origin = mark.start if is_folder else 0
            start, end = (round((place - origin) * scale) for place in (mark.start, mark.end))
            track = _CheckedChapter(
                part, titles[number], files[number] if is_folder else files[0], start, end,
                origin, mark.start / timeline.rate, file.rate, by_part.get(number, []),
                AudioMeter(file.rate),
            )  # fmt: skip
            num_alike += _check_mark(track, file, number, is_folder=is_folder)
            if not tracks:
                notes += _compare_format(file, levels)
        tracks.append(track)
    if 2 * num_alike <= len(timeline.chapters):
        raise InvalidInputError(
            f"{path} is not the book that these options make of this source",
            hint="Pass the options that it was made with. Books of other programs, and books made"
            " on another machine, cannot be verified.",
        )
    missing = [titles[number] for number in range(len(tracks), len(timeline.chapters))]
    for title in missing:
        tracks[-1].findings.append(BookFinding("chapters", f"{title!r} is not in the folder"))
    return tracks, notes


def _check_mark(track: _CheckedChapter, file: AudioFile, number: int, *, is_folder: bool) -> bool:
    """Note what is wrong with a chapter's mark; whether it is where it should be."""
    if is_folder:
        length_s = (track.end - track.start) / track.rate
        off_s = (file.duration_s or 0.0) - max(length_s, 0.1)  # an empty chapter has a moment
        title = file.title
    else:
        marks = file.chapters
        if number >= len(marks):
            track.add("chapters", f"{track.title!r} is not in the file")
            return False
        off_s = (marks[number].start - track.start) / track.rate
        title = marks[number].title
    if title != track.title:
        track.add("chapters", f"it is called {title!r}, not {track.title!r}")
    if abs(off_s) > _SLACK_S:
        what = "longer than its takes" if is_folder else "late"
        track.add("duration", f"it is {off_s:+.1f} s {what}")
    return abs(off_s) <= _SLACK_S


def _compare_format(file: AudioFile, levels: Levels) -> Iterator[str]:
    """How the file differs from what a shop takes."""
    if levels.format is None:
        return
    codec, rate, bitrate = levels.format
    if (file.codec, file.rate) != (codec, rate) or file.bitrate < 0.97 * bitrate:
        yield (
            f"{levels.name} takes {codec} of {rate / 1000:g} kHz and {bitrate // 1000} kbit/s, a "
            f"file for each chapter; this is {file.codec} of {file.rate / 1000:g} kHz and "
            f"{file.bitrate // 1000} kbit/s"
        )


def _list_files(path: Path) -> list[Path]:
    if not path.exists():
        raise InvalidInputError(
            f"no such file: {path}", hint="The finished book comes first, then its source."
        )
    if not path.is_dir():
        return [path]
    listed = [one for one in path.iterdir() if one.is_file() and not one.name.startswith(".")]
    kinds = {one.suffix.lower() for one in listed if one.suffix.lower() in SUFFIXES}
    if len(kinds) != 1:
        problem = "audio of several formats" if kinds else "no audio"
        raise InvalidInputError(
            f"{path} contains {problem}", hint="Name the folder that the chapters were written to."
        )
    return sorted((one for one in listed if one.suffix.lower() in kinds), key=_natural_order)


def _natural_order(path: Path) -> tuple[tuple[int, str], ...]:
    """`chapter 2` before `chapter 10`."""
    pieces = re.findall(r"\d+|\D+", path.stem.lower())
    return tuple((int(one), "") if one.isdecimal() else (1 << 60, one) for one in pieces)


def _measure(
    tracks: Sequence[_CheckedChapter], timeline: Timeline, on_progress: OnProgress
) -> None:
    """Feed every sample to the meters; what follows the last mark belongs to the last chapter."""
    done_s = 0.0
    for file in dict.fromkeys(track.file for track in tracks):
        inside = [track for track in tracks if track.file == file]
        place, at = 0, 0
        with open_audio(file) as audio:
            for samples in audio.read():
                done_s += len(samples) / audio.rate
                while at + 1 < len(inside) and place + len(samples) > inside[at].end:
                    head = max(0, inside[at].end - place)
                    inside[at].meter.add(samples[:head])
                    samples, place, at = samples[head:], place + head, at + 1
                inside[at].meter.add(samples)
                place += len(samples)
                on_progress("measuring", min(done_s, timeline.duration_s), timeline.duration_s)
        last = inside[-1]
        if place < last.end - _SLACK_S * last.rate:
            short_s = (last.end - place) / last.rate
            last.add("duration", f"the file ends {short_s:.1f} s too early")


# -- words -----------------------------------------------------------------------------------------


def _choose_cues(
    tracks: Sequence[_CheckedChapter], timeline: Timeline, sample_s: float
) -> list[tuple[_CheckedChapter, Cue]]:
    """All segments, or a sample of `sample_s` by the length of chapters, one of each at least."""
    chosen: list[tuple[_CheckedChapter, Cue]] = []
    whole_s = sum((cue.end - cue.start) / timeline.rate for cue in timeline.cues)
    for track in tracks:
        spoken = [cue for cue in track.cues if not cue.is_gap]
        order = list(spoken)
        random.Random(f"{_SEED} {track.part.number}").shuffle(order)
        chapter_s = sum((cue.end - cue.start) / timeline.rate for cue in spoken)
        left_s = chapter_s * min(1.0, sample_s / whole_s) if whole_s else 0.0
        taken = set()
        for cue in order:
            if left_s <= 0:
                break
            taken.add(cue.segment)
            left_s -= (cue.end - cue.start) / timeline.rate
        chosen += [(track, cue) for cue in spoken if cue.segment in taken]
    return chosen


def _check_words(
    tracks: Sequence[_CheckedChapter],
    cues: Sequence[tuple[_CheckedChapter, Cue]],
    timeline: Timeline,
    transcribe: Transcribe,
    on_progress: OnProgress,
) -> list[str]:
    """Compare each segment with its text; what could not be transcribed, and why."""
    unchecked: list[str] = []
    by_language: dict[str, list[tuple[_CheckedChapter, Cue]]] = {}
    for track, cue in cues:
        language = track.part.script.segments[cue.segment].utterance.language
        by_language.setdefault(language, []).append((track, cue))
    total_s = sum((cue.end - cue.start) / timeline.rate for _, cue in cues)
    done_s = 0.0
    for language, chosen in by_language.items():
        with contextlib.closing(_read_segments(chosen, timeline, language)) as recordings:
            try:
                transcripts = transcribe(recordings, language)
                for (track, cue), made in zip(chosen, transcripts, strict=True):
                    length_s = (cue.end - cue.start) / timeline.rate
                    done_s += length_s
                    on_progress("listening", done_s, total_s)
                    if made is None:
                        unchecked.append(f"segment {track.part.number}:{cue.segment + 1}: failed")
                        continue
                    track.transcribed_s += length_s
                    _compare(track, cue, made.text, language, timeline)
            except AnyrigError as error:  # no model of this language
                unchecked.append(f"words in the language {language!r}: {error.message}")
    return unchecked


def _read_segments(
    chosen: Sequence[tuple[_CheckedChapter, Cue]], timeline: Timeline, language: str
) -> Generator[Recording]:
    """The segments, cut out of the files with a little around them."""
    for file in dict.fromkeys(track.file for track, _ in chosen):
        spans = []
        rate = next(track.rate for track, _ in chosen if track.file == file)
        for track, cue in chosen:
            if track.file == file:
                scale, edge = rate / timeline.rate, round(_EDGE_S * rate)
                start, end = (round((p - track.origin) * scale) for p in (cue.start, cue.end))
                spans.append((max(0, start - edge), end + edge))
        with open_audio(file) as audio:
            for samples in audio.read_spans(spans):
                yield Recording(samples, rate, language)


def _compare(
    track: _CheckedChapter, cue: Cue, transcript: str, language: str, timeline: Timeline
) -> None:
    segment = track.part.script.segments[cue.segment]
    found = count_word_errors(segment.spoken, transcript, language)
    track.words += found.words
    track.errors += min(found.errors, found.words)
    if found.errors >= _MIN_WRONG and found.rate >= _MIN_WRONG_SHARE:
        heard = shorten(" ".join(transcript.split()), 80) or "nothing"
        start_s, end_s = (place / timeline.rate - track.offset_s for place in (cue.start, cue.end))
        message = f"{found.errors} of {pluralize(found.words, 'word')} differ ({heard!r} is heard)"
        track.add("words", message, start_s, end_s, cue.segment + 1, segment.text.strip())


# -- the report ------------------------------------------------------------------------------------


def format_clock(seconds: float) -> str:
    """A time as players show it: `1:02:03`, `4:05`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _format_table(rows: Sequence[ChapterReport]) -> list[str]:
    head = ("", "chapter", "start", "length", "LUFS", "true peak", "RMS", "floor", "silence",
            "words", "wrong")  # fmt: skip
    cells = [head, *(_format_row(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
    return [
        "  ".join(
            text.ljust(width) if at == 1 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _format_row(row: ChapterReport) -> tuple[str, ...]:
    audio, wrong = row.audio, row.word_error_rate
    figures = (audio.lufs, audio.true_peak_db, audio.rms_db, audio.noise_floor_db)
    return (
        str(row.chapter or ""), shorten(row.title, 32), format_clock(row.start_s),
        format_clock(audio.duration_s),
        *(f"{value:.1f}" if math.isfinite(value) else "-inf" for value in figures),
        f"{audio.longest_silence_s:.1f} s", str(row.words) if row.words else "-",
        "-" if wrong is None else f"{wrong:.1%}",
    )  # fmt: skip


def _round(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None and math.isfinite(value) else None
