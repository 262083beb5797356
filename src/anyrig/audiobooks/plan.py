"""What of a book is spoken, and how: every character in a segment or in a named omission.

    document = settle(read(path))
    plan = build_plan(document, SpeechOptions(languages=("en",)), language="en")

A pure function of its arguments: the same book gives the same plan in any process. A table is read
row by row, a poem line by line; the sign of a note is never read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from anyrig.audiobooks.options import ContentOptions
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    UnspeakableTextError,
    UnsupportedLanguageError,
)
from anyrig.speech.language import (
    PARAGRAPH_WORDS,
    choose_language,
    excerpt,
    match_language,
    name_language,
)
from anyrig.speech.paragraphs import Paragraph, find_paragraphs
from anyrig.speech.prepare import prepare_paragraphs
from anyrig.speech.source_text import SourceText, SourceTextBuilder, Style
from anyrig.text.document import SEPARATOR, Block, BlockKind, Chapter, Document, Inline, Role
from anyrig.text.language import detect, num_words
from anyrig.units import parse_range, pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.cast import Casting
    from anyrig.speech.prepare import SpeechOptions
    from anyrig.speech.segment import OmissionKind, Script, Segment, SegmentKind

SKIPPED_ROLES: tuple[Role, ...] = ("cover", "contents", "front", "back")
"""Matter that nobody wants to hear, unless it is asked for."""
_DEFAULT_TITLES: dict[Role, str] = {
    "cover": "Cover", "title": "Title page", "contents": "Contents", "notes": "Notes",
}  # fmt: skip
_LETTERS = re.compile(r"[^\W_]+")
_SAMPLE = 40_000  # characters, to tell a book's language by
_TOP_BLOCKS = 3
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
VoiceSpans = Sequence[tuple[int, int, Style]]
"""Stretches of a block that another voice than the narrator's speaks."""


@dataclass(frozen=True)
class Part:
    """A chapter as it will be spoken."""

    number: int
    """In the book's list of chapters, from 1."""
    title: str
    level: int
    chapter: Chapter
    script: Script
    """Its source is the text of all blocks, parted by blank lines."""
    places: tuple[int, ...]
    """Where each block begins in that source."""


@dataclass(frozen=True)
class Plan:
    """A book as it will be spoken."""

    document: Document
    parts: tuple[Part, ...]
    language: str = "en"
    """Of the whole."""
    foreign: tuple[tuple[str, str], ...] = ()
    """What no voice here speaks, by language and beginning; it is among the omissions, or read
    by a voice of another language where that was asked for."""

    silent: tuple[Part, ...] = ()
    """Chapters that were chosen and of which nothing is spoken."""

    @cached_property
    def num_segments(self) -> int:
        """Of all parts."""
        return sum(len(part.script.segments) for part in self.parts)

    @cached_property
    def num_characters(self) -> int:
        """That are spoken."""
        return sum(len(segment.utterance.text) for segment in self.segments)

    @cached_property
    def segments(self) -> list[Segment]:
        """Of all parts, in order."""
        return [segment for part in self.parts for segment in part.script.segments]

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Of all parts, each once."""
        return tuple(dict.fromkeys(w for part in self.parts for w in part.script.warnings))

    def count_omitted(self) -> Counter[OmissionKind]:
        """How many characters of each kind are not spoken; white space is not counted."""
        counted: Counter[OmissionKind] = Counter()
        for part in self.parts + self.silent:
            for omission in part.script.omissions:
                left, right = omission.span
                text = part.script.source[left:right]
                if omission.kind != "space":
                    counted[omission.kind] += len(text) - sum(map(str.isspace, text))
        return counted


def detect_book_language(document: Document) -> str:
    """The language of a book: what its text tells; where that is unsure, what it says of itself."""
    said = document.metadata.language.lower()
    body = [chapter for chapter in document.chapters if chapter.role == "body"]
    sample, longest = "", sorted(body or document.chapters, key=lambda c: -c.num_characters)
    for chapter in longest:
        sample += "\n".join(block.text for block in chapter.blocks)[:_SAMPLE]
        if len(sample) >= _SAMPLE:
            break
    told = detect(sample, default=said or "en")
    if told.sure and told.language != said.partition("-")[0]:
        return told.language
    return said or told.language


def select_chapters(document: Document, wanted: str, content: ContentOptions) -> tuple[int, ...]:
    """Which chapters are spoken, as positions in the book's list.

    Args:
        document: the book.
        wanted: such as `3-7,9` or `5-`; empty is all but what `content` leaves out.
        content: what is done with covers, contents and the like.
    """
    count = len(document.chapters)
    if not wanted.strip():
        spoken = [n for n in range(count) if _is_selected(document.chapters[n], content)]
        return tuple(spoken or range(count))
    found: dict[int, None] = {}
    for piece in wanted.split(","):
        span = parse_range(piece, count)
        if span is None:
            raise InvalidInputError(
                Message(
                    "{chapters} must be numbers such as 3-7,9 or 5-, not {wanted!r:.80}",
                    chapters=OptionRef("chapters"),
                    wanted=wanted,
                ),
                hint=Message("{list} shows the chapters.", list=OptionRef("list")),
            )
        first, last = span
        if not 1 <= first <= last <= count:
            raise InvalidInputError(
                f"there is no chapter {piece.strip()}: the book has {pluralize(count, 'chapter')}",
                hint=Message("{list} shows them with their numbers.", list=OptionRef("list")),
            )
        found.update(dict.fromkeys(range(first - 1, last)))
    return tuple(sorted(found))


def _is_selected(chapter: Chapter, content: ContentOptions) -> bool:
    if content.matter == "skip" and chapter.role in SKIPPED_ROLES:
        return False
    return not (content.notes == "skip" and chapter.role == "notes") and chapter.num_characters > 0


def build_plan(
    document: Document,
    options: SpeechOptions,
    *,
    language: str,
    content: ContentOptions = ContentOptions(),  # noqa: B008 - it is frozen
    chapters: Sequence[int] | None = None,
    casting: Casting | None = None,
) -> Plan:
    """A book as it will be spoken; UnspeakableTextError when nothing of it can be.

    Args:
        document: the book.
        options: what the person wants and the engine can.
        language: of the book, as the engine calls it.
        content: how notes, tables and the like are read.
        chapters: positions of those that are read; all when None.
        casting: who speaks which words; the narrator speaks all when None.
    """
    positions = range(len(document.chapters)) if chapters is None else chapters
    document = move_notes(document, content, set(positions))
    parts: list[Part] = []
    silent: list[Part] = []
    foreign: dict[tuple[str, str], None] = {}
    begun = content.matter == "speak" or not any(_has_prose(document, n) for n in positions)
    for position in positions:
        chapter = document.chapters[position]
        part, text = _build_part(
            chapter, position + 1, options, language, content, casting, opening=not begun
        )
        begun = begun or _has_prose(document, position)
        foreign.update(dict.fromkeys(text.foreign))
        (parts if part.script.segments else silent).append(part)
    if foreign and content.foreign == "refuse":
        raise _refuse_foreign(tuple(foreign), options.languages)
    if not parts:
        raise UnspeakableTextError(
            "the book has no text to read aloud",
            hint=Message(
                "{list} shows its chapters; {matter} reads covers and contents as well.",
                list=OptionRef("list"),
                matter=OptionRef("matter", "speak"),
            ),
        )
    return Plan(document, tuple(parts), language, tuple(foreign), tuple(silent))


def _build_part(
    chapter: Chapter,
    number: int,
    options: SpeechOptions,
    language: str,
    content: ContentOptions,
    casting: Casting | None,
    *,
    opening: bool,
) -> tuple[Part, _ChapterText]:
    if content.titles == "speak":
        chapter = add_title(chapter)
    voices = casting.list_voice_spans(chapter.blocks, number) if casting is not None else ()
    can_speak = casting.can_speak if casting is not None else None
    reader = _ChapterReader(language, options.languages, content, can_speak)
    text = reader.read(chapter.blocks, voices, opening=opening)
    script = prepare_paragraphs(text.source, text.paragraphs, replace(options, language=language))
    title = choose_title(chapter, number)
    return Part(number, title, chapter.level, chapter, script, text.places), text


def _has_prose(document: Document, position: int) -> bool:
    return any(map(is_prose, document.chapters[position].blocks))


def choose_title(chapter: Chapter, number: int) -> str:
    """What a chapter is called in lists and marks."""
    headings = (block.text for block in chapter.blocks if block.kind == "heading")
    named = " ".join((chapter.title or next(headings, "")).split())
    return named or _DEFAULT_TITLES.get(chapter.role, f"Chapter {number}")


def add_title(chapter: Chapter) -> Chapter:
    """A chapter that begins with its title, also where the book has it in its contents alone."""
    top = [block for block in chapter.blocks if block.text.strip()][:_TOP_BLOCKS]
    printed = any(block.kind == "heading" for block in top)
    if not chapter.title.strip() or not top or printed or _begins_with(chapter.title, top):
        return chapter
    heading = Block(chapter.title.strip(), "heading", level=chapter.level)
    return replace(chapter, blocks=(heading, *chapter.blocks))


def _begins_with(title: str, blocks: Sequence[Block]) -> bool:
    """Whether the first words of a chapter are its title, whatever case and signs it is in."""
    wanted = _LETTERS.findall(title.lower())
    words = [word for block in blocks for word in _LETTERS.findall(block.text.lower()[:400])]
    alone = len(wanted) > 1 or len(blocks[0].text) <= len(title) + 2  # "I was born" is no "I."
    return alone and words[: len(wanted)] == wanted


def move_notes(
    document: Document, content: ContentOptions, chapters: Collection[int] | None = None
) -> Document:
    """The notes where they are to be heard: after what names them, or at their chapter's end.

    Args:
        document: the book.
        content: where notes are heard.
        chapters: those that are spoken; a note goes to the first of them that names it.
    """
    if content.notes == "skip":
        return document
    spoken = range(len(document.chapters)) if chapters is None else chapters
    notes: dict[str, list[Block]] = {}
    for chapter in document.chapters:
        for block in chapter.blocks:
            if block.kind == "note" and block.id:
                notes.setdefault(block.id, []).append(block)
    named = {
        one.value
        for position in spoken
        for block in document.chapters[position].blocks
        if block.kind != "note"
        for one in block.inlines
        if one.kind == "noteref" and one.value in notes
    }
    placed: set[str] = set()
    moved = tuple(
        replace(
            chapter,
            blocks=tuple(
                _place_notes(chapter, notes, named, placed, content, names=position in spoken)
            ),
        )
        for position, chapter in enumerate(document.chapters)
    )
    return replace(document, chapters=moved)


def _place_notes(
    chapter: Chapter,
    notes: dict[str, list[Block]],
    named: set[str],
    placed: set[str],
    content: ContentOptions,
    *,
    names: bool,
) -> list[Block]:
    """The blocks of a chapter with the notes that they name, each note once in the book."""
    blocks: list[Block] = []
    held: list[Block] = []
    for block in chapter.blocks:
        if block.kind == "note" and block.id in named:
            continue  # it goes where it is named
        blocks.append(block)
        if block.kind == "note" or not names:
            continue
        for name in [one.value for one in block.inlines if one.kind == "noteref"]:
            if name in notes and name not in placed:
                placed.add(name)
                (blocks if content.notes == "inline" else held).extend(notes[name])
    return blocks + held


def count_spoken_characters(document: Document, content: ContentOptions) -> list[int]:
    """About how many characters of each chapter are heard if it is spoken, without a plan."""
    return [
        sum(len(block.text) for block in chapter.blocks if find_omission(block, content) is None)
        for chapter in move_notes(document, content).chapters
    ]


def choose_passage(plan: Plan, num_characters: int) -> Script:
    """Segments of about so many characters, from the longest chapter, as that has most prose."""
    part = max(plan.parts, key=lambda part: len(part.script.source))
    segments, count = [], 0
    for segment in part.script.segments:
        if count >= num_characters:
            break
        segments.append(segment)
        count += len(segment.utterance.text)
    return replace(part.script, segments=tuple(segments))


def _refuse_foreign(
    foreign: Sequence[tuple[str, str]], languages: Sequence[str]
) -> UnsupportedLanguageError:
    counted = Counter(language for language, _ in foreign)
    language = counted.most_common(1)[0][0]
    named = ", ".join(f"{count} in {name_language(code)}" for code, count in counted.most_common())
    spoken = ", ".join(map(name_language, languages))
    return UnsupportedLanguageError(
        f"{pluralize(len(foreign), 'passage')} of the book cannot be read by a voice that speaks "
        f"{spoken}: {named}; the first begins {foreign[0][1]!r}",
        hint=Message(
            "{skip} leaves them out, {read} reads them anyway.",
            skip=OptionRef("foreign", "skip"),
            read=OptionRef("foreign", "read"),
        ),
        language=language,
    )


# -- one chapter -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ChapterText:
    """A chapter, ready to become a script."""

    source: SourceText
    paragraphs: tuple[Paragraph, ...]
    places: tuple[int, ...]
    """Where each block of the chapter begins in the source."""
    foreign: tuple[tuple[str, str], ...] = ()
    """What no voice here speaks: the language, and how it begins."""


class _ChapterReader:
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
        self._paragraphs: list[Paragraph] = []
        self._foreign: dict[tuple[str, str], None] = {}

    def read(
        self, blocks: Sequence[Block], voices: Sequence[VoiceSpans] = (), *, opening: bool = False
    ) -> _ChapterText:
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
        return _ChapterText(
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
        begun = self._source.num_pieces
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
            self._set_style(self._choose_style(here, own, left, right, language))
            if announced and language:
                word = announced.get(language.partition("-")[0], announced["en"])
                self._source.take(at + left, at + left + 1, f"{word}: {block.text[left]}")
                left, announced = left + 1, None
            self._take_words(block, at, left, right)
        self._end_paragraph(block, begun)

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

    def _end_paragraph(self, block: Block, begun: int) -> None:
        """Close the paragraph that began with a piece."""
        text = self._source.text_since(begun)
        end = self._source.length - len(text) + len(text.rstrip())
        start = min(end, self._source.length - len(text.lstrip()))
        self._paragraphs.append(Paragraph(start, end, _segment_kind(block, text.strip())))

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
    ) -> Style:
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
                return Style(style.language or language, voice, style.rate)
        return Style(language)

    def _set_style(self, style: Style) -> None:
        if self._source.styles[-1][1] == style:
            return
        if self._source.styles[-1][0] == self._source.length:
            self._source.styles.pop()
        self._source.styles.append((self._source.length, style))


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


def _voice_span(one: tuple[int, int, Style]) -> tuple[int, int]:
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
