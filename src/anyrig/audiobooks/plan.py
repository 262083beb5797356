"""What of a book is spoken, and how: every character in a segment or in a named omission.

    book = settled(read(path))
    plan = plan_of(book, terms, main="en", ways=Ways(), chosen=chosen(book, "3-7,9", Ways()))

A pure function of its arguments: the same book gives the same plan in any process.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from anyrig.audiobooks.aloud import Aloud, Reader, is_prose, left_out
from anyrig.audiobooks.ways import Ways
from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    UnspeakableTextError,
    UnsupportedLanguageError,
)
from anyrig.speech.prepare import prepare_paragraphs
from anyrig.text.document import Block, Chapter, Document, Role
from anyrig.text.language import detect
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.audiobooks.cast import Casting
    from anyrig.speech.prepare import SpeechOptions
    from anyrig.speech.segment import OmissionKind, Script, Segment

SKIPPED: tuple[Role, ...] = ("cover", "contents", "front", "back")
"""Matter that nobody wants to hear, unless it is asked for."""
PLAIN = Ways()
_UNNAMED: dict[Role, str] = {
    "cover": "Cover", "title": "Title page", "contents": "Contents", "notes": "Notes",
}  # fmt: skip
_RANGE = re.compile(r"\s*(\d+)\s*(?:(-)\s*(\d*)\s*)?")
_LETTERS = re.compile(r"[^\W_]+")
_SAMPLE = 40_000  # characters, to tell a book's language by
_TOP_BLOCKS = 3


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
    main: str = "en"
    """The language of the whole."""
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

    def omitted(self) -> Counter[OmissionKind]:
        """How many characters of each kind are not spoken; white space is not counted."""
        counted: Counter[OmissionKind] = Counter()
        for part in self.parts + self.silent:
            for omission in part.script.omissions:
                left, right = omission.span
                text = part.script.source[left:right]
                if omission.kind != "space":
                    counted[omission.kind] += len(text) - sum(map(str.isspace, text))
        return counted


def language_of(document: Document) -> str:
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


def chosen(document: Document, wanted: str, ways: Ways) -> tuple[int, ...]:
    """Which chapters are spoken, as positions in the book's list.

    Args:
        document: the book.
        wanted: such as `3-7,9` or `5-`; empty is all but what `ways` leaves out.
        ways: what is done with covers, contents and the like.
    """
    count = len(document.chapters)
    if not wanted.strip():
        spoken = [n for n in range(count) if _is_wanted(document.chapters[n], ways)]
        return tuple(spoken or range(count))
    found: dict[int, None] = {}
    for piece in wanted.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise InvalidInputError(
                Message(
                    "{chapters} must be numbers such as 3-7,9 or 5-, not {wanted!r:.80}",
                    chapters=OptionRef("chapters"),
                    wanted=wanted,
                ),
                hint=Message("{list} shows the chapters.", list=OptionRef("list")),
            )
        first = int(match[1])
        last = first if match[2] is None else int(match[3] or count)
        if not 1 <= first <= last <= count:
            raise InvalidInputError(
                f"there is no chapter {piece.strip()}: the book has {pluralize(count, 'chapter')}",
                hint=Message("{list} shows them with their numbers.", list=OptionRef("list")),
            )
        found.update(dict.fromkeys(range(first - 1, last)))
    return tuple(sorted(found))


def _is_wanted(chapter: Chapter, ways: Ways) -> bool:
    if ways.matter == "skip" and chapter.role in SKIPPED:
        return False
    return not (ways.notes == "skip" and chapter.role == "notes") and chapter.num_characters > 0


def plan_of(
    document: Document,
    terms: SpeechOptions,
    *,
    main: str,
    ways: Ways = PLAIN,
    chosen: Sequence[int] | None = None,
    casting: Casting | None = None,
) -> Plan:
    """A book as it will be spoken; UnspeakableTextError when nothing of it can be.

    Args:
        document: the book.
        terms: what the person wants and the engine can.
        main: the language of the book, as the engine calls it.
        ways: what is done with notes, tables and the like.
        chosen: positions of chapters; all when None.
        casting: who speaks which words; the narrator speaks all when None.
    """
    positions = range(len(document.chapters)) if chosen is None else chosen
    document = moved_notes(document, ways, set(positions))
    parts: list[Part] = []
    silent: list[Part] = []
    foreign: dict[tuple[str, str], None] = {}
    begun = ways.matter == "speak" or not any(_has_prose(document, n) for n in positions)
    for position in positions:
        part, aloud = _part(document, position, terms, main, ways, casting, opening=not begun)
        begun = begun or _has_prose(document, position)
        foreign.update(dict.fromkeys(aloud.foreign))
        (parts if part.script.segments else silent).append(part)
    if foreign and ways.foreign == "refuse":
        raise _refusal(tuple(foreign), terms.languages)
    if not parts:
        raise UnspeakableTextError(
            "there is nothing to say in the book",
            hint=Message(
                "{list} shows its chapters; {matter} reads covers and contents as well.",
                list=OptionRef("list"),
                matter=OptionRef("matter", "speak"),
            ),
        )
    return Plan(document, tuple(parts), main, tuple(foreign), tuple(silent))


def _part(
    document: Document,
    position: int,
    terms: SpeechOptions,
    main: str,
    ways: Ways,
    casting: Casting | None,
    *,
    opening: bool,
) -> tuple[Part, Aloud]:
    chapter = document.chapters[position]
    if ways.titles == "speak":
        chapter = with_title(chapter)
    roles = casting.chapter(chapter.blocks, position + 1) if casting is not None else ()
    speaks = casting.speaks if casting is not None else None
    aloud = Reader(main, terms.languages, ways, speaks).read(chapter.blocks, roles, opening=opening)
    script = prepare_paragraphs(aloud.flow, aloud.blocks, replace(terms, language=main))
    title = title_of(chapter, position + 1)
    return Part(position + 1, title, chapter.level, chapter, script, aloud.places), aloud


def _has_prose(document: Document, position: int) -> bool:
    return any(map(is_prose, document.chapters[position].blocks))


def title_of(chapter: Chapter, number: int) -> str:
    """What a chapter is called in lists and marks."""
    headings = (block.text for block in chapter.blocks if block.kind == "heading")
    named = " ".join((chapter.title or next(headings, "")).split())
    return named or _UNNAMED.get(chapter.role, f"Chapter {number}")


def with_title(chapter: Chapter) -> Chapter:
    """A chapter that begins with its title, also where the book has it in its contents alone."""
    top = [block for block in chapter.blocks if block.text.strip()][:_TOP_BLOCKS]
    printed = any(block.kind == "heading" for block in top)
    if not chapter.title.strip() or not top or printed or _within(chapter.title, top):
        return chapter
    heading = Block(chapter.title.strip(), "heading", level=chapter.level)
    return replace(chapter, blocks=(heading, *chapter.blocks))


def _within(title: str, blocks: Sequence[Block]) -> bool:
    """Whether the first words of a chapter are its title, whatever case and signs it is in."""
    wanted = _LETTERS.findall(title.lower())
    words = [word for block in blocks for word in _LETTERS.findall(block.text.lower()[:400])]
    alone = len(wanted) > 1 or len(blocks[0].text) <= len(title) + 2  # "I was born" is no "I."
    return alone and words[: len(wanted)] == wanted


def moved_notes(document: Document, ways: Ways, chosen: Collection[int] | None = None) -> Document:
    """The notes where they are to be heard: after what names them, or at their chapter's end.

    Args:
        document: the book.
        ways: where notes are heard.
        chosen: the chapters that are spoken; a note goes to the first of them that names it.
    """
    if ways.notes == "skip":
        return document
    spoken = range(len(document.chapters)) if chosen is None else chosen
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
    chapters = tuple(
        replace(
            chapter,
            blocks=tuple(_moved(chapter, notes, named, placed, ways, names=position in spoken)),
        )
        for position, chapter in enumerate(document.chapters)
    )
    return replace(document, chapters=chapters)


def _moved(
    chapter: Chapter,
    notes: dict[str, list[Block]],
    named: set[str],
    placed: set[str],
    ways: Ways,
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
                (blocks if ways.notes == "inline" else held).extend(notes[name])
    return blocks + held


def num_spoken(document: Document, ways: Ways) -> list[int]:
    """About how many characters of each chapter are heard if it is spoken, without a plan."""
    return [
        sum(len(block.text) for block in chapter.blocks if left_out(block, ways) is None)
        for chapter in moved_notes(document, ways).chapters
    ]


def _refusal(
    foreign: Sequence[tuple[str, str]], languages: Sequence[str]
) -> UnsupportedLanguageError:
    from anyrig.speech.language import name_language

    counted = Counter(language for language, _ in foreign)
    language = counted.most_common(1)[0][0]
    named = ", ".join(f"{count} in {name_language(code)}" for code, count in counted.most_common())
    spoken = ", ".join(map(name_language, languages))
    return UnsupportedLanguageError(
        f"{pluralize(len(foreign), 'passage')} of the book cannot be read by a voice that speaks "
        f"{spoken}: {named}; the first begins {foreign[0][1]!r}",
        hint=Message(
            "{skip} leaves them out, {read} reads them all the same.",
            skip=OptionRef("foreign", "skip"),
            read=OptionRef("foreign", "read"),
        ),
        language=language,
    )
