"""Entities of files and texts, page by page; offsets count in the text of the whole file.

A file that cannot be read is reported with its error, and the others are read all the same.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.documents.entities.entity import Entity
from anyrig.documents.ordered import run_ordered
from anyrig.documents.reading import OpenedSource, TextSource, build_textless_error
from anyrig.errors import AnyrigError
from anyrig.text.document import Document, Part
from anyrig.text.language import detect_document
from anyrig.text.sandbox import ReadError

if TYPE_CHECKING:
    from anyrig.documents.entities.finder import EntityFinder, TextEntities


_PART_CHARACTERS = 50_000
"""Of a page that are searched at a time: a third of a second."""


@dataclass(frozen=True)
class PlacedEntity:
    """An entity and the page it is on."""

    entity: Entity
    """Its offsets count in the text of the file."""
    page: int = 0
    """0 in a file without pages."""
    page_start: int = 0
    """Where the page begins in the text of the file."""

    def to_json(self) -> dict[str, Any]:
        where = {"page": self.page or None, "page_start": self.page_start if self.page else None}
        return self.entity.to_json() | where


@dataclass(frozen=True)
class SourceEntities:
    """The entities of a file or text, or why there are none."""

    source: TextSource
    entities: tuple[PlacedEntity, ...] = ()
    text: str = ""
    languages: tuple[str, ...] = ()
    languages_without_names: tuple[str, ...] = ()
    """Languages in which no model looked for names."""
    warnings: tuple[str, ...] = ()
    error: AnyrigError | None = None
    pages: tuple[Part, ...] = ()

    def place(self, entity: Entity) -> PlacedEntity:
        """An entity of the whole text, with the page it is on."""
        at = bisect.bisect_right(self.pages, entity.start, key=lambda page: page.start) - 1
        if at < 0:
            return PlacedEntity(entity)
        return PlacedEntity(entity, self.pages[at].page, self.pages[at].start)


@dataclass(frozen=True)
class _OpenSource:
    source: TextSource
    pages: tuple[Part, ...] = ()
    language: str = ""
    text: str = ""
    warnings: tuple[str, ...] = ()
    error: AnyrigError | None = None


class _PagePart(NamedTuple):
    """A part of a page that is searched by itself."""

    page: Part
    start: int
    """In the text of the page."""
    end: int


def find_in_sources(
    documents: Iterable[OpenedSource],
    finder: EntityFinder,
    *,
    language: str = "",
    on_step: Callable[[], None] | None = None,
) -> Iterator[SourceEntities]:
    """The entities of each source, in order; files are read while those before are searched.

    Args:
        documents: files and texts with their pages, which may come as a stream.
        finder: grammars, and a model if there is one.
        language: of all of them; detected for each paragraph if empty.
        on_step: called after each part of a text; it may raise an error to stop.
    """
    from anyrig.documents.entities.finder import EntityText  # loads every grammar
    from anyrig.documents.entities.windows import detect_main_language

    def expand(
        pair: OpenedSource,
    ) -> tuple[tuple[_OpenSource, list[_PagePart]], list[EntityText]]:
        opened = _open(*pair)
        parts = [part for page in opened.pages for part in _cut_page(page)]
        texts = []
        for page, start, end in parts:
            default = opened.language or "en"
            if start:  # a long text is of one language, wherever it says too little
                default = detect_main_language(page.text, default)
            texts.append(EntityText(page.text[start:end], language, default))
        return (opened, parts), texts

    def run(texts: Iterator[EntityText]) -> Iterator[TextEntities]:
        for found in finder.find(texts):
            if on_step is not None:
                on_step()
            yield found

    return run_ordered(documents, expand, run, _finish)


def _cut_page(page: Part) -> Iterator[_PagePart]:
    """Parts of a page that lie end to end; cut between paragraphs, else lines, else words."""
    start, end = 0, len(page.text)
    while end - start > _PART_CHARACTERS:
        low, high = start + _PART_CHARACTERS // 2, start + _PART_CHARACTERS
        gaps = (page.text.rfind(gap, low, high) + len(gap) for gap in ("\n\n", "\n", " "))
        cut = next((at for at in gaps if at > low), high)
        yield _PagePart(page, start, cut)
        start = cut
    yield _PagePart(page, start, end)


def _open(source: TextSource, found: Document | ReadError) -> _OpenSource:
    if source.file is None:
        return _OpenSource(source, (Part(source.text),), text=source.text)
    if isinstance(found, ReadError):
        return _OpenSource(source, error=found.error)
    if found.scans and not any(map(str.isalnum, found.text)):
        return _OpenSource(source, error=build_textless_error(found))
    return _OpenSource(
        source, found.parts("page"), detect_document(found).language, found.text, found.warnings
    )


def _finish(
    opened_parts: tuple[_OpenSource, list[_PagePart]], results: Sequence[TextEntities]
) -> SourceEntities:
    opened, parts = opened_parts
    entities: list[PlacedEntity] = []
    languages: dict[str, None] = {}
    without_names: dict[str, None] = {}
    warnings = list(opened.warnings)
    for (page, start, _), found in zip(parts, results, strict=True):
        entities += [
            PlacedEntity(one.shift(page.start + start), page.page, page.start)
            for one in found.entities
        ]
        languages |= dict.fromkeys(found.languages)
        without_names |= dict.fromkeys(found.languages_without_names)
        if found.failure:
            where = f"page {page.page}: " if page.page else ""
            warnings.append(f"{where}some names may be missing: {found.failure}")
    return SourceEntities(
        opened.source, tuple(entities), opened.text, tuple(languages), tuple(without_names),
        tuple(dict.fromkeys(warnings)), opened.error, opened.pages,
    )  # fmt: skip
