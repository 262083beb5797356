"""The parts of a paragraph: its sentences, in the voices it asks for, cut and joined."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from anyrig.speech.language import (
    PARAGRAPH_WORDS,
    build_language_error,
    excerpt,
    match_language,
    name_language,
)
from anyrig.speech.reading import atoms, reading
from anyrig.speech.segment import SegmentKind, Span
from anyrig.speech.source_text import Mark, SourceText, Style
from anyrig.speech.split import Part, cut, join
from anyrig.speech.ssml import bound_rate
from anyrig.text.language import num_words
from anyrig.text.sentences import sentences

if TYPE_CHECKING:
    from anyrig.speech.prepare import Paragraph, SpeechOptions

_LONGEST = 4000
"""Characters that the rules are given at a time: a sentence longer than that is none."""


@dataclass(frozen=True)
class Spoken:
    """A part with its voice, on its way to a segment."""

    part: Part
    style: Style
    kind: SegmentKind
    block: int


@dataclass
class Reciter:
    """Reads the blocks of a flow, and remembers what there is to warn of."""

    flow: SourceText
    terms: SpeechOptions
    warnings: dict[str, None] = field(default_factory=dict)
    main: str = ""
    """The language that the caller's voice is for."""

    def __post_init__(self) -> None:
        self._marks = _outermost(self.flow.marks)
        self._mark_starts = [mark.start for mark in self._marks]
        self._style_starts = [position for position, _ in self.flow.styles]
        breaks = {position for position, _ in self.flow.breaks}
        self._ends = {position for position, _ in self.flow.edges}
        self._cuts = sorted(breaks | self._ends)
        self._breaks = sorted(breaks)

    def style_at(self, position: int) -> Style:
        """The style that the markup gives to a position."""
        return self.flow.styles[bisect_right(self._style_starts, position) - 1][1]

    def unnamed(self, block: Paragraph) -> str:
        """The text of a block whose language the markup leaves open."""
        starts = [block.start, *_between(self._style_starts, block.start, block.end), block.end]
        open_ones = [pair for pair in pairwise(starts) if not self.style_at(pair[0]).language]
        return " ".join(self.flow.text[start:end] for start, end in open_ones)

    def recite(self, block: Paragraph, number: int, language: str) -> list[Spoken]:
        """All that is said of a block, in order."""
        marks = self._marks_in(block, language)
        runs = list(self._runs(block, language))
        inside = {position for position, _, _ in runs}
        inside.update(_between(self._cuts, block.start, block.end))
        cuts = sorted(at for at in inside if not _within(at, marks))
        spoken = [
            Spoken(short, style, block.kind, number)
            for part, style in self._parts(block, marks, runs, cuts, language)
            for short in cut(part, self.terms.max_chars)
            if _is_said(short)
        ]
        return list(self._joined(spoken))

    def _parts(
        self, block: Paragraph, marks: Sequence[tuple[Mark, str]],
        runs: Sequence[tuple[int, int, Style]], cuts: Sequence[int], language: str,
    ) -> Iterator[tuple[Part, Style]]:  # fmt: skip
        starts = [start for start, _, _ in runs]
        begins = [mark.start for mark, _ in marks]
        for start, end in self._sentences(block, marks, language):
            if self.terms.on_step is not None:
                self.terms.on_step()
            edges = [start, *_between(cuts, start, end), end]
            pieces: list[tuple[Part, Style]] = []
            for left, right in pairwise(edges):
                style = runs[max(0, bisect_right(starts, left) - 1)][2]
                own = marks[bisect_left(begins, left) : bisect_left(begins, right)]
                read = atoms(self.flow.text, left, right, own, style.language)
                pieces.append((Part(read, right == end or right in self._ends), style))
            yield from _sayable(pieces)

    def _joined(self, spoken: Sequence[Spoken]) -> Iterator[Spoken]:
        """Short ones put to a neighbour of the same voice, unless a break stands between them."""

        def together(one: Spoken) -> tuple[Style, int]:
            return one.style, bisect_right(self._breaks, one.part.start)

        for _, group in groupby(spoken, together):
            same = list(group)
            for part in join(
                [one.part for one in same], self.terms.max_chars, self.terms.join_words
            ):
                yield Spoken(part, same[0].style, same[0].kind, same[0].block)

    def _sentences(
        self, block: Paragraph, marks: Sequence[tuple[Mark, str]], language: str
    ) -> Iterator[Span]:
        """The sentences; none ends within a mark."""
        text = self.flow.text
        begun = -1
        for start, end in sentences(text[block.start : block.end], language):
            left = block.start + start if begun < 0 else begun
            right = block.start + end
            if _within(right, marks):
                begun = left
                continue
            begun = -1
            yield from self._bound(left, right, marks)
        if begun >= 0:
            yield from self._bound(begun, block.end, marks)

    def _bound(self, start: int, end: int, marks: Sequence[tuple[Mark, str]]) -> Iterator[Span]:
        while end - start > _LONGEST:
            space = self.flow.text.rfind(" ", start, start + _LONGEST)
            at = space + 1 if space > start else start + _LONGEST
            number = bisect_left(marks, at, key=lambda pair: pair[0].start) - 1
            at = max(at, marks[number][0].end) if number >= 0 else at
            if at >= end:
                break
            yield start, at
            start = at
        if start < end:
            yield start, end

    # Voices

    def _runs(self, block: Paragraph, language: str) -> Iterator[tuple[int, int, Style]]:
        """The stretches of one voice, neighbours that come to the same put together."""
        starts = [block.start, *_between(self._style_starts, block.start, block.end), block.end]
        begun, current = block.start, None
        for start, end in pairwise(starts):
            style = self._resolved(start, end, language)
            if current is not None and style != current:
                yield begun, start, current
                begun = start
            current = style
        if current is not None:
            yield begun, block.end, current

    def _resolved(self, start: int, end: int, language: str) -> Style:
        """A style with everything filled in."""
        style, terms = self.style_at(start), self.terms
        spoken = match_language(style.language or language, terms.languages)
        if not spoken:
            self._foreign(style.language, self.flow.text[start:end], language)
            spoken = language
        base = spoken.partition("-")[0]
        own = terms.voice if base == self.main.partition("-")[0] else ""
        named = terms.voices.get(spoken) or terms.voices.get(base)
        voice = style.voice or own or named or terms.voice
        return Style(spoken, voice, bound_rate(style.rate * terms.rate))

    def _foreign(self, wanted: str, text: str, language: str) -> None:
        what = excerpt(text)
        if num_words(text) >= PARAGRAPH_WORDS:
            raise build_language_error(wanted, self.terms.languages, what=what)
        if text.strip():
            named, instead = name_language(wanted), name_language(language)
            self.warn(f"{what!r} is marked as {named} and is read as {instead}")

    # Marks

    def _marks_in(self, block: Paragraph, language: str) -> list[tuple[Mark, str]]:
        """The marks of a block with their words: the text's own before those of the lexicon."""
        low, high = (bisect_left(self._mark_starts, at) for at in (block.start, block.end))
        own = self._marks[low:high]
        known = self.terms.lexicon.marks(self.flow.text, block.start, block.end, language)
        ends = [mark.end for mark in own]
        known = [mark for mark in known if not _meets(mark, own, ends)]
        found = []
        for mark in sorted([*own, *known], key=lambda mark: mark.start):
            text = self.flow.text[mark.start : mark.end]
            tongue = self._tongue(mark.start, language)
            words, warning = reading(mark, text, tongue, phonemes="ipa" in self.terms.reads)
            self.warn(warning)
            if words is not None and mark.end <= block.end:
                found.append((mark, words))
        return found

    def _tongue(self, position: int, language: str) -> str:
        named = self.style_at(position).language
        return match_language(named, self.terms.languages) if named else language

    def warn(self, words: str) -> None:
        """Say something once."""
        if words:
            self.warnings[words] = None


def _is_said(part: Part) -> bool:
    """Whether there is a letter or a figure to say."""
    return any(map(str.isalnum, part.spoken))


def _sayable(pieces: Sequence[tuple[Part, Style]]) -> Iterator[tuple[Part, Style]]:
    """The pieces of a sentence, those that are mere signs put to the one before, or the next."""
    ready: list[tuple[Part, Style]] = []
    for part, style in pieces:
        said = _is_said(part)
        if ready and not (said and _is_said(ready[-1][0])):
            before, own = ready.pop()
            style = style if said else own
            part = Part(before.atoms + part.atoms, part.ends)
        ready.append((part, style))
    return (pair for pair in ready if _is_said(pair[0]))


def _outermost(marks: Sequence[Mark]) -> list[Mark]:
    """Marks in order, without those inside others."""
    kept: list[Mark] = []
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):
        if not kept or mark.start >= kept[-1].end:
            kept.append(mark)
    return kept


def _meets(mark: Mark, others: Sequence[Mark], ends: Sequence[int]) -> bool:
    """Whether a mark overlaps one of others, which lie in order and apart."""
    number = bisect_right(ends, mark.start)
    return number < len(others) and others[number].start < mark.end


def _between(positions: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Those of sorted positions that lie inside a stretch."""
    return positions[bisect_right(positions, start) : bisect_left(positions, end)]


def _within(position: int, marks: Sequence[tuple[Mark, str]]) -> bool:
    number = bisect_left(marks, position, key=lambda pair: pair[0].start) - 1
    return number >= 0 and position < marks[number][0].end
