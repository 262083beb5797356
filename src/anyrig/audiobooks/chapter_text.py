"""The words of one chapter that are spoken, and names for what is left out.

A table is read row by row, a poem line by line; the sign of a note is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from anyrig.audiobooks.options import ContentOptions
from anyrig.speech.language import PARAGRAPH_WORDS, choose_language, excerpt, match_language
from anyrig.speech.paragraphs import SpokenParagraph, find_paragraphs
from anyrig.speech.source_text import SourceText, SourceTextBuilder, VoiceStyle
from anyrig.text.document import SEPARATOR, Block, BlockKind, Inline
from anyrig.text.language import detect, num_words

if TYPE_CHECKING:
    from anyrig.speech.segment import OmissionKind, SegmentKind

_ANNOUNCED = {
    "note": {"en": "Note", "es": "Nota", "fr": "Note", "de": "Anmerkung", "it": "Nota"},
    "image": {"en": "Image", "es": "Imagen", "fr": "Image", "de": "Bild", "it": "Immagine"},
    "page": {"en": "Page", "es": "Página", "fr": "Page", "de": "Seite", "it": "Pagina"},
}
_SKIPPABLE: dict[BlockKind, str] = {
    "note": "notes", "image": "images", "page": "pages", "table": "tables", "code": "code",
    "poem": "poems",
}  # fmt: skip
"""By kind of block, the option that may leave it out."""
T = TypeVar("T")
VoiceSpans = Sequence[tuple[int, int, VoiceStyle]]
"""Stretches of a block that another voice than the narrator's speaks."""


@dataclass(frozen=True)
class ChapterText:
    """A chapter, ready to become a script."""

    source: SourceText
    paragraphs: tuple[SpokenParagraph, ...]
    places: tuple[int, ...]
    """Where each block of the chapter begins in the source."""
    foreign: tuple[tuple[str, str], ...] = ()
    """What no voice here speaks: the language, and how it begins."""


class ChapterReader:
    """Takes the words of one chapter that are spoken, and names what is left out.

    Args:
        main: the language of the book.
        languages: what the engine speaks.
        content: how notes, tables and the like are read.
        can_speak: whether the voice of a role speaks a language; each does when None.
    """

    def __init__(
        self,
        main: str,
        languages: Sequence[str],
        content: ContentOptions,
        can_speak: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._main, self._languages, self._content = main, languages, content
        self._can_speak = can_speak
        self._source = SourceTextBuilder("")
        self._paragraphs: list[SpokenParagraph] = []
        self._foreign: dict[tuple[str, str], None] = {}

    def read(
        self, blocks: Sequence[Block], voices: Sequence[VoiceSpans] = (), *, opening: bool = False
    ) -> ChapterText:
        """The whole chapter; `voices` has an entry for each block, or is empty.

        With `opening` it begins the book: pictures before the first words of it are left out, as
        those are covers, logos and badges.
        """
        self._source = SourceTextBuilder(SEPARATOR.join(block.text for block in blocks))
        places, position = [], 0
        for number, block in enumerate(blocks):
            if number:
                self._source.take(position, position + len(SEPARATOR))
                position += len(SEPARATOR)
            places.append(position)
            opening = opening and not is_prose(block)
            if opening and block.kind == "image":
                self._source.omit(position, position + len(block.text), "image")
            else:
                self._read_block(block, position, voices[number] if voices else ())
            position += len(block.text)
        return ChapterText(
            self._source.build(), tuple(self._paragraphs), tuple(places), tuple(self._foreign)
        )

    def _read_block(self, block: Block, at: int, voices: VoiceSpans) -> None:
        kind = find_omission(block, self._content)
        if kind is not None:
            self._source.omit(at, at + len(block.text), kind)
            return
        language = self._choose_language(block)
        if not language:
            foreign = block.language or detect(block.text).language
            self._foreign.setdefault((foreign, excerpt(block.text)))
            if self._content.foreign != "read":
                self._source.omit(at, at + len(block.text), "foreign")
                return
        by_line = block.kind == "poem" and self._content.poems == "lines"
        if block.kind in ("table", "code") or by_line:
            self._read_rows(block, at, language, voices)
        else:
            self._read_stretch(block, at, 0, len(block.text), language, block.inlines, voices)

    def _choose_language(self, block: Block) -> str:
        """What a block is spoken in; empty when no voice here can."""
        if block.kind in ("table", "code", "rule"):
            return self._main
        return choose_language(block.text, block.language, self._main, self._languages)

    def _read_rows(self, block: Block, at: int, language: str, voices: VoiceSpans) -> None:
        """Each line of a block by itself."""
        position = 0
        marks, speakers = _Overlaps(block.inlines, _inline_span), _Overlaps(voices, _voice_span)
        for line in block.text.split("\n"):
            end = position + len(line)
            inlines, own = marks.find(position, end), speakers.find(position, end)
            self._read_stretch(block, at, position, end, language, inlines, own)
            if end < len(block.text):
                self._source.take(at + end, at + end + 1)
            position = end + 1

    def _read_stretch(
        self, block: Block, at: int, start: int, end: int, language: str,
        inlines: Sequence[Inline], voices: VoiceSpans,
    ) -> None:  # fmt: skip
        """A stretch of a block, as one paragraph of speech."""
        first_piece = self._source.num_pieces
        announced = _ANNOUNCED.get(block.kind) if start == 0 else None
        inlines = [one for one in inlines if one.start < end and one.end > start]
        edges = {start, end}
        for left, right in [(one.start, one.end) for one in inlines] + [v[:2] for v in voices]:
            edges.update(min(max(edge, start), end) for edge in (left, right))
        marks, speakers = _Overlaps(inlines, _inline_span), _Overlaps(voices, _voice_span)
        for left, right in pairwise(sorted(edges)):
            here = marks.find(left, right)
            kind = self._find_inline_omission(block, here, left, right)
            if kind is not None:
                self._source.omit(at + left, at + right, kind)
                continue
            own = speakers.find(left, right)
            self._source.set_style(self._choose_style(here, own, left, right, language))
            if announced and language:
                word = announced.get(language.partition("-")[0], announced["en"])
                self._source.take(at + left, at + left + 1, f"{word}: {block.text[left]}")
                left, announced = left + 1, None
            self._take_words(block, at, left, right)
        self._end_paragraph(block, first_piece)

    def _take_words(self, block: Block, at: int, start: int, end: int) -> None:
        """Words; between the cells of a table the voice halts."""
        if block.kind != "table":
            self._source.take_run(at + start, at + end)
            return
        position = start
        for cell in block.text[start:end].split("\t"):
            self._source.take_run(at + position, at + position + len(cell))
            position += len(cell)
            if position < end:
                self._source.take(at + position, at + position + 1, ", ")
                position += 1

    def _end_paragraph(self, block: Block, first_piece: int) -> None:
        """Close the paragraph that began with a piece."""
        text = self._source.text_since(first_piece)
        end = self._source.length - len(text) + len(text.rstrip())
        start = min(end, self._source.length - len(text.lstrip()))
        self._paragraphs.append(SpokenParagraph(start, end, _segment_kind(block, text.strip())))

    def _find_inline_omission(
        self, block: Block, inlines: Sequence[Inline], start: int, end: int
    ) -> OmissionKind | None:
        """Why a stretch inside a block is not spoken, if it is not."""
        for one in inlines:
            if not (one.start <= start and end <= one.end):
                continue
            if one.kind == "noteref":
                return "note"
            if one.kind == "page" and self._content.pages == "skip":
                return "page"
            if one.kind == "language" and self._is_foreign(one, block.text):
                return "foreign"
        return None

    def _is_foreign(self, one: Inline, text: str) -> bool:
        """A marked stretch that is long enough to count, and that no voice here speaks."""
        if self._content.foreign == "read" or match_language(one.value, self._languages):
            return False
        stretch = text[one.start : one.end]
        if num_words(stretch) < PARAGRAPH_WORDS:
            return False
        self._foreign.setdefault((one.value, excerpt(stretch)))
        return True

    def _choose_style(
        self, inlines: Sequence[Inline], voices: VoiceSpans, start: int, end: int, language: str
    ) -> VoiceStyle:
        """The voice of the cast, unless it does not speak the language: then the engine's does."""
        if language == self._main:
            language = ""
        for one in inlines:
            inside = one.start <= start and end <= one.end
            if one.kind == "language" and inside:
                language = match_language(one.value, self._languages) or language
        for left, right, style in voices:
            if left <= start and end <= right:
                can_speak = (
                    bool(style.language)
                    or not language
                    or self._can_speak is None
                    or self._can_speak(style.voice, language)
                )
                voice = style.voice if can_speak else ""
                return VoiceStyle(style.language or language, voice, style.rate)
        return VoiceStyle(language)


class _Overlaps(Generic[T]):
    """Which of many stretches overlap one; asked from left to right, so that each is seen once."""

    def __init__(self, items: Sequence[T], span: Callable[[T], tuple[int, int]]) -> None:
        self._waiting = sorted(
            ((*span(item), number, item) for number, item in enumerate(items)),
            key=lambda one: one[0], reverse=True,
        )  # fmt: skip
        self._open: list[tuple[int, int, int, T]] = []

    def find(self, start: int, end: int) -> list[T]:
        """Those that overlap it, in the order they were given in."""
        while self._waiting and self._waiting[-1][0] < end:
            self._open.append(self._waiting.pop())
        self._open = [one for one in self._open if one[1] > start]
        return [one[3] for one in sorted(self._open, key=lambda one: one[2])]


def _inline_span(one: Inline) -> tuple[int, int]:
    return one.start, one.end


def _voice_span(one: tuple[int, int, VoiceStyle]) -> tuple[int, int]:
    return one[:2]


def is_prose(block: Block) -> bool:
    """Whether a block is some of the text itself."""
    return block.kind not in ("heading", "image", "rule", "page") and bool(block.text.strip())


def find_omission(block: Block, content: ContentOptions) -> OmissionKind | None:
    """Whether a setting says that a block is not spoken, and what the omission is called."""
    option = _SKIPPABLE.get(block.kind)
    if option is None or getattr(content, option) != "skip":
        return None
    return cast("OmissionKind", block.kind)


def _segment_kind(block: Block, text: str) -> SegmentKind:
    if block.kind == "heading":
        return "heading"
    if block.kind in ("poem", "table", "item", "code"):
        return "dialogue"
    found = find_paragraphs(text)
    return found[0].kind if len(found) == 1 else "sentence"
