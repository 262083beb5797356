"""What is in a book, before it is made: its chapters with their durations, and who speaks in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.app.books import BookRequest, OpenBook, load_casting, load_rate, open_book
from anyrig.app.engines import find_faster_voice, resolve_voice
from anyrig.events import FasterVoice, OnEvent
from anyrig.results import fields_to_json, in_json

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.audiobooks.casting import RoleShare, RoleSuggestion


@dataclass(frozen=True)
class ChapterInfo:
    number: int
    title: str
    level: int
    role: str
    words: int
    characters: int
    estimated_s: float
    is_spoken: bool = field(metadata=in_json("spoken"))


@dataclass(frozen=True)
class ChapterList:
    """A book's chapters, and how long it will be."""

    book: OpenBook = field(metadata=in_json(omit=True))
    voice: str = field(metadata=in_json(omit=True))
    chapters: tuple[ChapterInfo, ...]
    estimated_s: float
    is_measured: bool = field(metadata=in_json("measured"))
    """Whether the estimates are from a measurement of this voice."""
    times_real_time: float | None
    """How fast the voice was made here the last time."""
    faster: FasterVoice | None = None
    """If the chosen engine takes long."""

    json_properties: ClassVar = {"to_make_s": "to_make_s"}

    @property
    def words(self) -> int:
        """That are read."""
        return sum(chapter.words for chapter in self.chapters if chapter.is_spoken)

    @property
    def to_make_s(self) -> float | None:
        """How long it takes to make; None before the voice was measured."""
        return round(self.estimated_s / self.times_real_time, 1) if self.times_real_time else None

    def to_json(self) -> dict[str, Any]:
        document = self.book.document
        about = document.metadata
        return {
            "title": about.title, "authors": list(about.authors), "language": self.book.language,
            "series": about.series or None, "format": document.format,
            "cover": document.cover is not None, "engine": self.book.engine.name,
            **fields_to_json(self),
        }  # fmt: skip


@dataclass(frozen=True)
class Speakers:
    """Who speaks in a book."""

    roles: tuple[RoleShare, ...]
    """Of the cast file."""
    others: tuple[RoleSuggestion, ...]
    """Whom a cast file could name."""


def list_chapters(rig: Rig, request: BookRequest, on_event: OnEvent) -> ChapterList:
    """A book's chapters with their words and estimated durations; nothing is made."""
    from anyrig.audiobooks.plan import choose_titles, count_spoken_characters, select_chapters
    from anyrig.text.language import num_words

    book = open_book(rig, request, on_event)
    document = book.document
    rate = load_rate(rig, request, book.engine)
    spoken = set(select_chapters(document, ",".join(request.chapters), request.content))
    characters = count_spoken_characters(document, request.content)
    titles = choose_titles(document)
    chapters = tuple(
        ChapterInfo(
            number + 1,
            titles[number],
            chapter.level,
            chapter.role,
            words=sum(num_words(block.text) for block in chapter.blocks),
            characters=chapter.num_characters,
            estimated_s=round(
                rate.estimate_audio_s(characters[number], request.rate)
                + request.chapter_pauses.total_s,
                1,
            ),
            is_spoken=number in spoken,
        )
        for number, chapter in enumerate(document.chapters)
    )
    estimated_s = sum(chapter.estimated_s for chapter in chapters if chapter.is_spoken)
    return ChapterList(
        book, resolve_voice(rig, request, book.engine), chapters, round(estimated_s, 1),
        rate.is_measured, rate.times_real_time,
        find_faster_voice(rig, request, book.engine, book.language),
    )  # fmt: skip


def list_speakers(rig: Rig, request: BookRequest, on_event: OnEvent) -> Speakers:
    """Who speaks in a book: the roles of its cast file, and others that it could name."""
    from anyrig.audiobooks.casting import suggest_roles

    book = open_book(rig, request, on_event)
    casting = load_casting(request, book.engine, book.document.metadata.language)
    return Speakers(
        tuple(casting.count_words(book.document)) if casting else (),
        tuple(suggest_roles(book.document, casting.cast if casting else None)),
    )
