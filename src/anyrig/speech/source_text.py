"""The words of a source, apart from its markup, and the way back to every character of it.

A `SourceText` is what remains to be spoken when tags, control characters and brackets are taken
out. Each of its characters knows where it came from, and what was taken out is an omission, so
nothing of the source is lost. What markup asks for lies beside the text: marks say how a stretch is
read, styles whose voice it is, breaks where it is silent.

Inline marks work in plain text and in SSML:

    [[kəˈkoʊɹoʊ]]      IPA, spoken in its place
    [[Kokoro|ko-KO-ro]] the word and how to say it
    [[Kokoro|/kəˈkoʊɹoʊ/]] the word and its IPA

`[[Paris]]`, with a capital or a digit, is no IPA and is read as it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from anyrig.speech.segment import Omission, OmissionKind, Span

# Tab, line feed and carriage return are white space, all else of the kind is noise: C0, C1, the
# zero-width marks and the byte-order mark, but not the joiners that hold emoji together.
_CONTROL = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\u2060\ufeff"
_NOTE = re.compile(
    rf"\[\[(?P<word>[^\[\]|\n]{{1,200}})(?:\|(?P<say>[^\[\]|\n]{{1,400}}))?\]\]"
    rf"|(?P<control>[{_CONTROL}]+|\u00ad(?!\s*\n))"
)
_NO_IPA = re.compile(r"[A-Z\d!?@#$%^&*=<>\\]")
STAND_IN = "\ufffc"
"""Stands for an element without text of its own, such as an empty `<phoneme ph="..."/>`."""


@dataclass(frozen=True)
class VoiceStyle:
    """Whose voice a stretch is spoken in, and how fast."""

    language: str = ""
    """Empty: the paragraph's own."""
    voice: str = ""
    rate: float = 1.0


@dataclass(frozen=True)
class Mark:
    """A stretch whose reading is given."""

    start: int
    end: int
    say: str = ""
    """Words, as they are to be said."""
    ipa: str = ""
    interpret: str = ""
    """SSML's interpret-as, with its format after a space."""
    bare: bool = False
    """Whether the stretch is itself the IPA, with no word behind it."""
    fixed: bool = True
    """Whether `say` is left as it stands; else numbers in it are still read."""


def select_outermost(marks: Iterable[Mark]) -> list[Mark]:
    """Marks in order and apart: of two that overlap, the one that begins first, then the longer."""
    outermost: list[Mark] = []
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):
        if not outermost or mark.start >= outermost[-1].end:
            outermost.append(mark)
    return outermost


def overlaps_any(mark: Mark, others: Sequence[Mark]) -> bool:
    """Whether a mark overlaps one of others, which are in order and apart."""
    after = bisect_left(others, mark.end, key=lambda other: other.start)
    return after > 0 and others[after - 1].end > mark.start


EdgeKind = Literal["sentence", "paragraph"]


@dataclass(frozen=True)
class SourceText:
    """The text to speak, with what belongs to it."""

    source: str
    text: str
    pieces: tuple[tuple[int, int, int], ...]
    """Where in the text each begins, and its start and end in the source."""
    omissions: tuple[Omission, ...] = ()
    marks: tuple[Mark, ...] = ()
    styles: tuple[tuple[int, VoiceStyle], ...] = ((0, VoiceStyle()),)
    """Each holds from its position on."""
    breaks: tuple[tuple[int, float], ...] = ()
    """Silence at a position, in seconds."""
    edges: tuple[tuple[int, EdgeKind], ...] = ()
    """Where a sentence or a paragraph must end."""
    warnings: tuple[str, ...] = ()

    @cached_property
    def _starts(self) -> list[int]:
        return [*(piece[0] for piece in self.pieces), len(self.text)]

    def spans(self, start: int, end: int) -> tuple[Span, ...]:
        """Where a stretch of the text lies in the source, in order, neighbours joined."""
        found: list[Span] = []
        number = max(0, bisect_right(self._starts, start) - 1)
        while number < len(self.pieces) and self._starts[number] < end:
            at, left, right = self.pieces[number]
            number += 1
            after = self._starts[number]
            low, high = max(start, at), min(end, after)
            if low >= high:
                continue
            exact = after - at == right - left
            if not exact and low > at:
                continue  # of another length than its source: it goes whole, with its beginning
            span = (left + low - at, left + high - at) if exact else (left, right)
            if found and found[-1][1] == span[0]:
                span = (found.pop()[0], span[1])
            found.append(span)
        return tuple(found)


class SourceTextBuilder:
    """Builds the text from a source read from left to right."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.length = 0
        self.marks: list[Mark] = []
        self.styles: list[tuple[int, VoiceStyle]] = [(0, VoiceStyle())]
        self.breaks: list[tuple[int, float]] = []
        self.edges: list[tuple[int, EdgeKind]] = []
        self._texts: list[str] = []
        self._pieces: list[tuple[int, int, int]] = []
        self._omissions: list[Omission] = []
        self._warnings: dict[str, None] = {}

    def take(self, start: int, end: int, text: str | None = None) -> None:
        """Characters of the source that are spoken, as `text` where that differs."""
        if start == end:
            return
        text = self.source[start:end] if text is None else text
        self._pieces.append((self.length, start, end))
        self._texts.append(text)
        self.length += len(text)

    def omit(self, start: int, end: int, kind: OmissionKind) -> None:
        """Characters that are not."""
        if start < end:
            self._omissions.append(Omission((start, end), kind))

    def set_style(self, style: VoiceStyle) -> None:
        """The style of what is taken from here on."""
        start, current = self.styles[-1]
        if style != current:
            if start == self.length:
                self.styles.pop()
            self.styles.append((self.length, style))

    @property
    def num_pieces(self) -> int:
        """How many stretches were taken so far."""
        return len(self._texts)

    def text_since(self, piece: int) -> str:
        """What was taken from the piece of that number on."""
        return "".join(self._texts[piece:])

    def warn(self, words: str) -> None:
        """Something that could not be done, said once."""
        self._warnings[words] = None

    def take_run(self, start: int, end: int) -> None:
        """A run of plain text: control characters left out, inline marks understood."""
        position = start
        for match in _NOTE.finditer(self.source, start, end):
            self.take(position, match.start())
            position = match.end()
            if match["control"]:
                self.omit(match.start(), match.end(), "control")
            else:
                self._take_inline(match)
        self.take(position, end)

    def _take_inline(self, match: re.Match[str]) -> None:
        inner = match.span("word")
        self.omit(match.start(), inner[0], "markup")
        before = self.length
        self.take(*inner)
        self.omit(inner[1], match.end(), "markup")
        word, say = match["word"], (match["say"] or "").strip()
        if len(say) > 2 and say[0] == say[-1] == "/":
            self.marks.append(Mark(before, self.length, ipa=say[1:-1].strip()))
        elif say:
            self.marks.append(Mark(before, self.length, say=say))
        elif not _NO_IPA.search(word) and word.strip():
            self.marks.append(Mark(before, self.length, ipa=word.strip(), bare=True))

    def build(self) -> SourceText:
        """All that was gathered."""
        return SourceText(
            self.source, "".join(self._texts), tuple(self._pieces), tuple(self._omissions),
            tuple(self.marks), tuple(self.styles), tuple(self.breaks), tuple(self.edges),
            tuple(self._warnings),
        )  # fmt: skip


def read_plain(source: str) -> SourceText:
    """The text of a plain source."""
    builder = SourceTextBuilder(source)
    builder.take_run(0, len(source))
    return builder.build()
