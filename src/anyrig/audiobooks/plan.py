"""What of a book is spoken, and how: every character in a segment or in a named omission.

    document = apply_matter(read(path))
    plan = build_plan(document, SpeechOptions(languages=("en",)), language="en")

A pure function of its arguments: the same book gives the same plan in any process. How each chapter
is read is in `chapter_text.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from anyrig.audiobooks.chapter_text import ChapterReader, ChapterText, find_omission, is_prose
from anyrig.audiobooks.options import ContentOptions
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    UnspeakableTextError,
    UnsupportedLanguageError,
)
from anyrig.speech.language import excerpt, name_language
from anyrig.speech.prepare import prepare_paragraphs
from anyrig.text.document import Block, Chapter, Document, Role
from anyrig.units import parse_range, pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.casting import Casting
    from anyrig.speech.prepare import SpeechOptions
    from anyrig.speech.segment import OmissionKind, Script, Segment

SKIPPED_ROLES: tuple[Role, ...] = ("cover", "contents", "front", "back")
"""Matter that nobody wants to hear, unless it is asked for."""
_DEFAULT_TITLES: dict[Role, str] = {
    "cover": "Cover", "title": "Title page", "contents": "Contents", "notes": "Notes",
    "front": "Front matter", "back": "Back matter",
}  # fmt: skip
_LETTERS = re.compile(r"[^\W_]+")
_TOP_BLOCKS = 3
_MANY_CHAPTERS = 25
_SHORT_CHAPTER = 2_000
"""Characters that take about two minutes: where most of many chapters are shorter, they are
entries of a manual."""
_WORDLESS = ("page", "rule", "image", "note")


@dataclass(frozen=True)
class ChapterPlan:
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
class NarrationPlan:
    """A book as it will be spoken."""

    document: Document
    parts: tuple[ChapterPlan, ...]
    language: str = "en"
    """Of the whole."""
    foreign: tuple[tuple[str, str], ...] = ()
    """What no voice here speaks, by language and beginning; it is among the omissions, or read
    by a voice of another language where that was asked for."""

    silent: tuple[ChapterPlan, ...] = ()
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


def select_chapters(document: Document, selection: str, content: ContentOptions) -> tuple[int, ...]:
    """Which chapters are spoken, as positions in the book's list.

    Args:
        document: the book.
        selection: such as `3-7,9` or `5-`; empty is all but what `content` leaves out.
        content: what is done with covers, contents and the like.
    """
    count = len(document.chapters)
    if not selection.strip():
        spoken = [n for n in range(count) if _is_selected(document.chapters[n], content)]
        return tuple(spoken or range(count))
    found: dict[int, None] = {}
    for piece in selection.split(","):
        span = parse_range(piece, count)
        if span is None:
            raise InvalidInputError(
                Message(
                    "{chapters} must be numbers such as 3-7,9 or 5-, not {selection!r:.80}",
                    chapters=OptionRef("chapters"),
                    selection=selection,
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
) -> NarrationPlan:
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
    titles = choose_titles(document)
    parts: list[ChapterPlan] = []
    silent: list[ChapterPlan] = []
    foreign: dict[tuple[str, str], None] = {}
    has_prose = content.matter == "speak" or not any(_has_prose(document, n) for n in positions)
    for position in positions:
        chapter = document.chapters[position]
        part, text = _build_part(
            chapter, position + 1, titles[position], options, language, content, casting,
            opening=not has_prose,
        )  # fmt: skip
        has_prose = has_prose or _has_prose(document, position)
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
    return NarrationPlan(document, tuple(parts), language, tuple(foreign), tuple(silent))


def _build_part(
    chapter: Chapter,
    number: int,
    title: str,
    options: SpeechOptions,
    language: str,
    content: ContentOptions,
    casting: Casting | None,
    *,
    opening: bool,
) -> tuple[ChapterPlan, ChapterText]:
    if content.titles == "speak":
        chapter = add_title(chapter)
    voices = casting.list_voice_spans(chapter.blocks, number) if casting is not None else ()
    can_speak = casting.can_speak if casting is not None else None
    reader = ChapterReader(language, options.languages, content, can_speak)
    text = reader.read(chapter.blocks, voices, opening=opening)
    script = prepare_paragraphs(text.source, text.paragraphs, replace(options, language=language))
    return ChapterPlan(number, title, chapter.level, chapter, script, text.places), text


def _has_prose(document: Document, position: int) -> bool:
    return any(map(is_prose, document.chapters[position].blocks))


def choose_titles(document: Document) -> tuple[str, ...]:
    """What chapters are called in lists and marks.

    One without a title is called by its first words, as "Chapter 1" would stand before a chapter
    that is so named by its author; only where no chapter has a title they are numbered.
    """
    named = [_find_title(chapter) for chapter in document.chapters]
    has_titles = any(named)
    titles: list[str] = []
    number = 0
    for title, chapter in zip(named, document.chapters, strict=True):
        number += chapter.role == "body"
        default = _DEFAULT_TITLES.get(chapter.role, f"Chapter {max(number, 1)}")
        if has_titles and chapter.role == "body":
            default = _find_first_words(chapter) or default
        titles.append(title or default)
    return tuple(titles)


def _find_title(chapter: Chapter) -> str:
    headings = (block.text for block in chapter.blocks if block.kind == "heading")
    return " ".join((chapter.title or next(headings, "")).split())


def _find_first_words(chapter: Chapter) -> str:
    texts = (block.text for block in chapter.blocks if block.kind not in _WORDLESS)
    text = next((text for text in texts if any(map(str.isalpha, text))), "")
    return excerpt(text)


def limit_depth(document: Document, depth: int, content: ContentOptions) -> Document:
    """The document with chapters no deeper than a level: deeper ones belong to those above them.

    Args:
        document: the book.
        depth: 1 is the highest; 0 chooses the deepest at which most chapters are of some length.
        content: whether titles that only the table of contents has are spoken.
    """
    levels = sorted({chapter.level for chapter in document.chapters if chapter.role == "body"})
    allowed = levels[:depth] if depth else levels
    is_long = sum(chapter.role == "body" for chapter in document.chapters) >= _MANY_CHAPTERS
    while is_long and not depth and len(allowed) > 1:
        lengths = sorted(
            sum(document.chapters[number].num_characters for number in group)
            for group in _group_chapters(document.chapters, allowed[-1])
        )
        if lengths[len(lengths) // 2] >= _SHORT_CHAPTER:
            break
        allowed = allowed[:-1]
    if len(allowed) == len(levels):
        return document
    groups = _group_chapters(document.chapters, allowed[-1], others=True)
    chapters = tuple(_join([document.chapters[n] for n in group], content) for group in groups)
    return replace(document, chapters=chapters)


def _group_chapters(
    chapters: Sequence[Chapter], deepest: int, *, others: bool = False
) -> list[list[int]]:
    """Chapters of the text with the deeper ones below them, by position; on request all others."""
    groups: list[list[int]] = []
    last: Role | None = None
    above = 0
    for number, chapter in enumerate(chapters):
        is_body = chapter.role == "body"
        if is_body and last == "body" and chapter.level > deepest:
            groups[above].append(number)
        elif is_body or others:
            groups.append([number])
        if chapter.role != "contents":  # one of a single chapter may stand within it
            last = chapter.role
            above = len(groups) - 1
    return groups


def _join(chapters: Sequence[Chapter], content: ContentOptions) -> Chapter:
    first, below = chapters[0], chapters[1:]
    if content.titles == "speak":
        below = [add_title(chapter) for chapter in below]
    return replace(first, blocks=first.blocks + tuple(b for c in below for b in c.blocks))


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
    title_words = _LETTERS.findall(title.lower())
    words = [word for block in blocks for word in _LETTERS.findall(block.text.lower()[:400])]
    alone = len(title_words) > 1 or len(blocks[0].text) <= len(title) + 2  # "I was born" is no "I."
    return alone and words[: len(title_words)] == title_words


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
    at_end: list[Block] = []
    for block in chapter.blocks:
        if block.kind == "note" and block.id in named:
            continue  # it goes where it is named
        blocks.append(block)
        if block.kind == "note" or not names:
            continue
        for name in [one.value for one in block.inlines if one.kind == "noteref"]:
            if name in notes and name not in placed:
                placed.add(name)
                (blocks if content.notes == "inline" else at_end).extend(notes[name])
    return blocks + at_end


def count_spoken_characters(document: Document, content: ContentOptions) -> list[int]:
    """About how many characters of each chapter are heard if it is spoken, without a plan."""
    return [
        sum(len(block.text) for block in chapter.blocks if find_omission(block, content) is None)
        for chapter in move_notes(document, content).chapters
    ]


def choose_passage(plan: NarrationPlan, num_characters: int) -> Script:
    """Segments of about so many characters, from the longest chapter, as that has most prose."""
    part = max(plan.parts, key=lambda part: len(part.script.source))
    segments: list[Segment] = []
    count = 0
    for segment in part.script.segments:
        length = len(segment.utterance.text)
        if segments and count + length / 2 > num_characters:
            break
        segments.append(segment)
        count += length
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
