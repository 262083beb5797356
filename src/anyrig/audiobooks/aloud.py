"""A chapter's blocks as a flow of speech: what is said, what is left out, in whose voice.

Everything of the chapter is in the flow or in an omission of a named kind. A table is read row by
row, a poem line by line; a note's sign is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Literal, TypeVar

from anyrig.audiobooks.ways import Ways
from anyrig.speech.language import PARAGRAPH_WORDS, choose_language, excerpt, match_language
from anyrig.speech.prepare import Paragraph, find_paragraphs
from anyrig.speech.segment import OmissionKind
from anyrig.speech.source_text import SourceText, SourceTextBuilder, Style
from anyrig.text.document import Block, Inline
from anyrig.text.language import detect, num_words

_ANNOUNCED = {
    "note": {"en": "Note", "es": "Nota", "fr": "Note", "de": "Anmerkung", "it": "Nota"},
    "image": {"en": "Image", "es": "Imagen", "fr": "Image", "de": "Bild", "it": "Immagine"},
    "page": {"en": "Page", "es": "Página", "fr": "Page", "de": "Seite", "it": "Pagina"},
}
_WHOLE: dict[str, OmissionKind] = {
    "note": "note", "image": "image", "page": "page", "table": "table", "code": "code",
    "poem": "poem",
}  # fmt: skip
SEPARATOR = "\n\n"
T = TypeVar("T")
Roles = Sequence[tuple[int, int, Style]]
"""Stretches of a block that another voice than the narrator's speaks."""


@dataclass(frozen=True)
class Aloud:
    """A chapter, ready to become a script."""

    flow: SourceText
    blocks: tuple[Paragraph, ...]
    places: tuple[int, ...]
    """Where each block of the chapter begins in the flow's source."""
    foreign: tuple[tuple[str, str], ...] = ()
    """What no voice here speaks: the language, and how it begins."""


class Reader:
    """Builds the flow of one chapter.

    Args:
        main: the book's language.
        languages: what the engine speaks.
        ways: what is done with what.
        speaks: whether a voice of a role speaks a language; each does when None.
    """

    def __init__(
        self,
        main: str,
        languages: Sequence[str],
        ways: Ways,
        speaks: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._main, self._languages, self._ways = main, languages, ways
        self._speaks = speaks
        self._gather = SourceTextBuilder("")
        self._found: list[Paragraph] = []
        self._foreign: dict[tuple[str, str], None] = {}

    def read(
        self, blocks: Sequence[Block], roles: Sequence[Roles] = (), *, opening: bool = False
    ) -> Aloud:
        """The whole chapter; `roles` has an entry for each block, or is empty.

        With `opening` it begins the book: pictures before the first words of it are left out, as
        those are covers, logos and badges.
        """
        self._gather = SourceTextBuilder(SEPARATOR.join(block.text for block in blocks))
        places, position = [], 0
        for number, block in enumerate(blocks):
            if number:
                self._gather.take(position, position + len(SEPARATOR))
                position += len(SEPARATOR)
            places.append(position)
            opening = opening and not is_prose(block)
            if opening and block.kind == "image":
                self._gather.omit(position, position + len(block.text), "image")
            else:
                self._block(block, position, roles[number] if roles else ())
            position += len(block.text)
        return Aloud(self._gather.build(), tuple(self._found), tuple(places), tuple(self._foreign))

    def _block(self, block: Block, at: int, roles: Roles) -> None:
        kind = left_out(block, self._ways)
        if kind is not None:
            self._gather.omit(at, at + len(block.text), kind)
            return
        tongue = self._tongue(block)
        if not tongue:
            language = block.language or detect(block.text).language
            self._foreign.setdefault((language, excerpt(block.text)))
            if self._ways.foreign != "read":
                self._gather.omit(at, at + len(block.text), "foreign")
                return
        if block.kind in ("table", "code") or (block.kind == "poem" and self._by_line):
            self._rows(block, at, tongue, roles)
        else:
            self._stretch(block, at, 0, len(block.text), tongue, block.inlines, roles)

    @property
    def _by_line(self) -> bool:
        return self._ways.poems == "lines"

    def _tongue(self, block: Block) -> str:
        """What a block is spoken in; empty when no voice here can."""
        if block.kind in ("table", "code", "rule"):
            return self._main
        return choose_language(block.text, block.language, self._main, self._languages)

    # -- rows and stretches ---------------------------------------------------------------------

    def _rows(self, block: Block, at: int, tongue: str, roles: Roles) -> None:
        """Each line of a block by itself."""
        position = 0
        marks, voices = _Overlaps(block.inlines, _span), _Overlaps(roles, _role_span)
        for line in block.text.split("\n"):
            end = position + len(line)
            inlines, own = marks.within(position, end), voices.within(position, end)
            self._stretch(block, at, position, end, tongue, inlines, own)
            if end < len(block.text):
                self._gather.take(at + end, at + end + 1)
            position = end + 1

    def _stretch(
        self, block: Block, at: int, start: int, end: int, tongue: str,
        inlines: Sequence[Inline], roles: Roles,
    ) -> None:  # fmt: skip
        """A stretch of a block, as one block of speech."""
        begun = self._gather.num_pieces
        announced = _ANNOUNCED.get(block.kind) if start == 0 else None
        inlines = [one for one in inlines if one.start < end and one.end > start]
        edges = {start, end}
        for left, right in [(one.start, one.end) for one in inlines] + [r[:2] for r in roles]:
            edges.update(min(max(edge, start), end) for edge in (left, right))
        marks, voices = _Overlaps(inlines, _span), _Overlaps(roles, _role_span)
        for left, right in pairwise(sorted(edges)):
            here = marks.within(left, right)
            kind = self._kind_left_out(block, here, left, right)
            if kind is not None:
                self._gather.omit(at + left, at + right, kind)
                continue
            own = voices.within(left, right)
            self._style(self._style_of(here, own, left, right, tongue))
            if announced and tongue:
                word = announced.get(tongue.partition("-")[0], announced["en"])
                self._gather.take(at + left, at + left + 1, f"{word}: {block.text[left]}")
                left, announced = left + 1, None
            self._take(block, at, left, right)
        self._end(block, begun)

    def _take(self, block: Block, at: int, start: int, end: int) -> None:
        """Words; between the cells of a table the voice halts."""
        if block.kind != "table":
            self._gather.take_run(at + start, at + end)
            return
        position = start
        for cell in block.text[start:end].split("\t"):
            self._gather.take_run(at + position, at + position + len(cell))
            position += len(cell)
            if position < end:
                self._gather.take(at + position, at + position + 1, ", ")
                position += 1

    def _end(self, block: Block, begun: int) -> None:
        """Close the block of speech that began with a piece."""
        text = self._gather.text_since(begun)
        end = self._gather.length - len(text) + len(text.rstrip())
        start = min(end, self._gather.length - len(text.lstrip()))
        self._found.append(Paragraph(start, end, _speech_kind(block, text.strip())))

    # -- voices ---------------------------------------------------------------------------------

    def _kind_left_out(
        self, block: Block, inlines: Sequence[Inline], start: int, end: int
    ) -> OmissionKind | None:
        """Why a stretch inside a block is not spoken, if it is not."""
        for one in inlines:
            if not (one.start <= start and end <= one.end):
                continue
            if one.kind == "noteref":
                return "note"
            if one.kind == "page" and self._ways.pages == "skip":
                return "page"
            if one.kind == "language" and self._is_foreign(one, block.text):
                return "foreign"
        return None

    def _is_foreign(self, one: Inline, text: str) -> bool:
        """A marked stretch that is long enough to count, and that no voice here speaks."""
        if self._ways.foreign == "read" or match_language(one.value, self._languages):
            return False
        stretch = text[one.start : one.end]
        if num_words(stretch) < PARAGRAPH_WORDS:
            return False
        self._foreign.setdefault((one.value, excerpt(stretch)))
        return True

    def _style_of(
        self, inlines: Sequence[Inline], roles: Roles, start: int, end: int, tongue: str
    ) -> Style:
        language = tongue if tongue and tongue != self._main else ""
        for one in inlines:
            inside = one.start <= start and end <= one.end
            if one.kind == "language" and inside:
                language = match_language(one.value, self._languages) or language
        for left, right, style in roles:
            if left <= start and end <= right:
                voice = style.voice if style.language or self._can(style.voice, language) else ""
                return Style(style.language or language, voice, style.rate)
        return Style(language)

    def _can(self, voice: str, language: str) -> bool:
        """Whether a role's voice reads it; else the engine's voice for the language does."""
        return not language or self._speaks is None or self._speaks(voice, language)

    def _style(self, style: Style) -> None:
        if self._gather.styles[-1][1] == style:
            return
        if self._gather.styles[-1][0] == self._gather.length:
            self._gather.styles.pop()
        self._gather.styles.append((self._gather.length, style))


class _Overlaps(Generic[T]):
    """Which of many stretches overlap one, asked from left to right: each is looked at once."""

    def __init__(self, items: Sequence[T], span: Callable[[T], tuple[int, int]]) -> None:
        self._waiting = sorted(
            ((*span(item), number, item) for number, item in enumerate(items)),
            key=lambda one: one[0], reverse=True,
        )  # fmt: skip
        self._open: list[tuple[int, int, int, T]] = []

    def within(self, start: int, end: int) -> list[T]:
        """Those that overlap it, in the order they were given in."""
        while self._waiting and self._waiting[-1][0] < end:
            self._open.append(self._waiting.pop())
        self._open = [one for one in self._open if one[1] > start]
        return [one[3] for one in sorted(self._open, key=lambda one: one[2])]


def _span(one: Inline) -> tuple[int, int]:
    return one.start, one.end


def _role_span(one: tuple[int, int, Style]) -> tuple[int, int]:
    return one[:2]


def is_prose(block: Block) -> bool:
    """Whether a block is some of the text itself."""
    return block.kind not in ("heading", "image", "rule", "page") and bool(block.text.strip())


def left_out(block: Block, ways: Ways) -> OmissionKind | None:
    """Whether a setting says that a block is not spoken, and what the omission is called."""
    skipped = {
        "note": ways.notes == "skip",
        "image": ways.images == "skip",
        "page": ways.pages == "skip",
        "table": ways.tables == "skip",
        "code": ways.code == "skip",
        "poem": ways.poems == "skip",
    }
    return _WHOLE[block.kind] if skipped.get(block.kind) else None


def _speech_kind(block: Block, text: str) -> Literal["sentence", "heading", "dialogue"]:
    if block.kind == "heading":
        return "heading"
    if block.kind in ("poem", "table", "item", "code"):
        return "dialogue"
    found = find_paragraphs(text)
    return found[0].kind if len(found) == 1 else "sentence"
