"""What was found out about a finished book, for a person and for a program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from anyrig.errors import Message, OptionRef
from anyrig.units import format_duration, pluralize, shorten

FindingKind = Literal[
    "chapters", "duration", "silence", "clipping", "dc", "dropout", "loudness", "peak", "noise",
    "missing", "doubled", "moved", "extra", "wrong", "words",
]  # fmt: skip
_SHOWN = 200  # characters of a passage


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    kind: FindingKind
    said: str
    """For a person, without the place."""
    chapter: int = 0
    """In the book's list of chapters, from 1; 0 for the whole."""
    title: str = ""
    start_s: float | None = None
    """In the whole book; of chapters that are files, `in_chapter_s` is what a player shows."""
    end_s: float | None = None
    in_chapter_s: float | None = None
    segments: tuple[tuple[int, int], ...] = ()
    """Chapter and segment, both from 1."""
    text: str = ""
    """The passage."""

    @property
    def again(self) -> tuple[str, ...]:
        """The values of the option `again` that make the passage again."""
        return tuple(f"{chapter}:{segment}" for chapter, segment in self.segments)

    def line(self) -> str:
        """All of it in one line."""
        where = f"chapter {self.chapter}" if self.chapter else "the whole"
        if self.start_s is not None:
            where += f", {clock(self.start_s)}"
        text = f": {shortened(self.text)!r}" if self.text else ""
        line = f"{where}: {self.said}{text}"
        if not self.again:
            return line
        again = OptionRef("again", ",".join(self.again))
        return Message("{line} [{again}]", line=line, again=again)

    def plain(self) -> dict[str, object]:
        """For programs."""
        return {
            "kind": self.kind, "said": self.said, "chapter": self.chapter, "title": self.title,
            "start_s": _figure(self.start_s, 2), "end_s": _figure(self.end_s, 2),
            "in_chapter_s": _figure(self.in_chapter_s, 2), "text": self.text,
            "again": list(self.again),
        }  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """The figures of a chapter, or of the whole."""

    chapter: int
    """0 for the whole, and for a chapter that is not in the book."""
    title: str
    start_s: float
    duration_s: float
    characters: int
    """That should be spoken in it."""
    lufs: float
    true_peak_db: float
    peak_db: float
    rms_db: float
    noise_floor_db: float
    longest_silence_s: float
    heard_s: float = 0.0
    """How much of it a recogniser heard."""
    words: int = 0
    """That should have been heard in that."""
    errors: int = 0

    @property
    def ms_per_character(self) -> float | None:
        """How long a character takes; None where nothing should be spoken."""
        return 1000.0 * self.duration_s / self.characters if self.characters else None

    @property
    def word_error_rate(self) -> float | None:
        """Wrong words for each word; None where nothing was heard."""
        return self.errors / self.words if self.words else None

    def plain(self) -> dict[str, object]:
        """For programs; what is silent has no loudness, and says null."""
        return {
            "chapter": self.chapter, "title": self.title, "start_s": _figure(self.start_s, 3),
            "duration_s": _figure(self.duration_s, 3), "characters": self.characters,
            "ms_per_character": _figure(self.ms_per_character, 2), "lufs": _figure(self.lufs, 2),
            "true_peak_db": _figure(self.true_peak_db, 2), "peak_db": _figure(self.peak_db, 2),
            "rms_db": _figure(self.rms_db, 2), "noise_floor_db": _figure(self.noise_floor_db, 1),
            "longest_silence_s": _figure(self.longest_silence_s, 2),
            "heard_s": _figure(self.heard_s, 1), "words": self.words, "errors": self.errors,
            "word_error_rate": _figure(self.word_error_rate, 4),
        }  # fmt: skip


@dataclass(frozen=True)
class Report:
    """A finished book, checked."""

    path: str
    levels: str
    """The preset it was held to."""
    problems: tuple[Finding, ...]
    rows: tuple[Measured, ...]
    """Each chapter of the file, in its order."""
    whole: Measured
    notes: tuple[str, ...] = ()
    """Worth knowing, but no fault."""
    unchecked: tuple[str, ...] = ()
    """What nobody could check, and why: silence about it would be taken for praise."""
    recognisers: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether nothing is wrong with what was checked."""
        return not self.problems

    @property
    def again(self) -> tuple[str, ...]:
        """All passages that are worth making again, as values of the option `again`."""
        return tuple(dict.fromkeys(one for found in self.problems for one in found.again))

    def plain(self) -> dict[str, object]:
        """For programs."""
        return {
            "path": self.path, "levels": self.levels, "good": self.good,
            "problems": [found.plain() for found in self.problems],
            "chapters": [row.plain() for row in self.rows], "whole": self.whole.plain(),
            "notes": list(self.notes), "unchecked": list(self.unchecked),
            "recognisers": list(self.recognisers), "again": list(self.again),
        }  # fmt: skip

    def lines(self) -> list[str]:
        """A table of the chapters, and what was found, in plain lines."""
        made = [*_table([*self.rows, self.whole]), ""]
        made += [f"problem: {found.line()}" for found in self.problems]
        made += [f"not checked: {said}" for said in self.unchecked]
        made += [f"note: {said}" for said in self.notes]
        return [*made, self.summary()]

    def summary(self) -> str:
        """All of it in one line."""
        told = pluralize(len(self.problems), "problem") if self.problems else "nothing wrong"
        heard = "; no words were checked"
        if not self.whole.words and not self.problems:
            told = "no problem with the sound"
        if self.whole.words:
            heard = (
                f"; {format_duration(self.whole.heard_s)} heard by {', '.join(self.recognisers)}, "
                f"{self.whole.errors / self.whole.words:.1%} of "
                f"{pluralize(self.whole.words, 'word')} differ"
            )
        length = format_duration(self.whole.duration_s)
        return f"{told} in {pluralize(len(self.rows), 'chapter')}, {length}{heard}"


def clock(seconds: float) -> str:
    """A time as players show it: `1:02:03`, `4:05`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def shortened(text: str) -> str:
    """A passage in one line that is not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."


def _table(rows: list[Measured]) -> list[str]:
    head = ("", "chapter", "start", "length", "ms/char", "LUFS", "true peak", "RMS", "floor",
            "silence", "words", "wrong")  # fmt: skip
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(head))]
    return [
        "  ".join(
            text.ljust(width) if at == 1 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _cells(row: Measured) -> tuple[str, ...]:
    pace, wrong = row.ms_per_character, row.word_error_rate
    return (
        str(row.chapter or ""), _cut(row.title), clock(row.start_s), clock(row.duration_s),
        "-" if pace is None else f"{pace:.1f}", _level(row.lufs), _level(row.true_peak_db),
        _level(row.rms_db), _level(row.noise_floor_db), f"{row.longest_silence_s:.1f} s",
        str(row.words) if row.words else "-", "-" if wrong is None else f"{wrong:.1%}",
    )  # fmt: skip


def _cut(title: str) -> str:
    return shorten(title, 32)


def _level(decibels: float) -> str:
    return f"{decibels:.1f}" if math.isfinite(decibels) else "-inf"


def _figure(value: float | None, digits: int) -> float | None:
    return round(value, digits) if value is not None and math.isfinite(value) else None
