"""Files and texts to what they name: what every door calls.

    for told in find(sources, finder): ...

A page at a time goes to the finder; offsets count in the text of the whole file. A file that cannot
be read is told with its error, and the rest go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.finder import Finder, Found, Text
from anyrig.documents.reading import Unread, read_all, textless
from anyrig.text.formats.limits import Limits
from anyrig.text.pages import Page, Paged

if TYPE_CHECKING:
    from anyrig.documents.reading import Mode, Reads


@dataclass(frozen=True)
class Source:
    """A file, or a text that has a name."""

    name: str
    file: Path | None = None
    text: str = ""


@dataclass(frozen=True)
class Placed:
    """An entity and the page it stands on."""

    entity: Entity
    """Its offsets count in the text of the file."""
    page: int = 0
    """0 in a file without pages."""
    page_start: int = 0
    """Where the page begins in the text of the file."""

    def plain(self) -> dict[str, Any]:
        """For programs."""
        where = {"page": self.page or None, "page_start": self.page_start if self.page else None}
        return self.entity.plain() | where


@dataclass(frozen=True)
class Told:
    """A source and what it names, or why that cannot be told."""

    source: Source
    entities: tuple[Placed, ...] = ()
    text: str = ""
    """Of the whole source."""
    languages: tuple[str, ...] = ()
    nameless: tuple[str, ...] = ()
    """Languages whose names were not looked for, as no model reads them."""
    warnings: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""
    past_limit: bool = False


@dataclass
class _Open:
    """A source on its way."""

    source: Source
    pages: tuple[Page, ...] = ()
    language: str = ""
    text: str = ""
    warnings: tuple[str, ...] = ()
    error: str = ""
    hint: str = ""
    past_limit: bool = False
    found: list[Found] = field(default_factory=list)


def find(
    sources: Iterable[Source],
    finder: Finder,
    *,
    language: str = "",
    ocr: Reads | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
) -> Iterator[Told]:
    """What each source names, in order; files are read while those before are looked at.

    Args:
        sources: files and texts, which may come as a stream.
        finder: grammars, and a model if there is one.
        language: of all of them; found out by paragraph when empty.
        ocr: reads pages that are pictures.
        limits: how much one file may ask of the machine.
        mode: when pictures are read.
    """
    waiting: deque[_Open] = deque()

    def texts() -> Iterator[Text]:
        for opened in _opened(sources, ocr, limits, mode):
            waiting.append(opened)
            for page in opened.pages:
                yield Text(page.text, language, opened.language or "en")

    for found in finder.find(texts()):
        yield from _done(waiting)
        waiting[0].found.append(found)
        yield from _done(waiting)
    yield from _done(waiting)


def _done(waiting: deque[_Open]) -> Iterator[Told]:
    while waiting and len(waiting[0].found) == len(waiting[0].pages):
        yield _told(waiting.popleft())


def _opened(
    sources: Iterable[Source], ocr: Reads | None, limits: Limits, mode: Mode
) -> Iterator[_Open]:
    """Sources in pages; runs of files are read ahead by processes of their own."""
    files: list[Source] = []
    for source in sources:
        if source.file is not None:
            files.append(source)
            continue
        yield from _read(files, ocr, limits, mode)
        files = []
        yield _Open(source, (Page(source.text),), text=source.text)
    yield from _read(files, ocr, limits, mode)


def _read(files: list[Source], ocr: Reads | None, limits: Limits, mode: Mode) -> Iterator[_Open]:
    if not files:
        return
    paths = [source.file for source in files if source.file is not None]
    workers = 1 if len(files) == 1 else 0
    read = read_all(paths, ocr=ocr, limits=limits, mode=mode, workers=workers)
    for source, paged in zip(files, read, strict=True):
        if isinstance(paged, Unread):
            yield _Open(source, error=paged.message, hint=paged.hint, past_limit=paged.past_limit)
        else:
            yield _of(source, paged)


def _of(source: Source, paged: Paged) -> _Open:
    if any(page.lack for page in paged.pages) and not any(map(str.isalnum, paged.text)):
        error = textless(paged)
        return _Open(source, error=error.message, hint=error.hint)
    return _Open(source, paged.pages, paged.language, paged.text, paged.warnings)


def _told(opened: _Open) -> Told:
    placed: list[Placed] = []
    languages: dict[str, None] = {}
    nameless: dict[str, None] = {}
    warnings = list(opened.warnings)
    for page, found in zip(opened.pages, opened.found, strict=True):
        placed += [Placed(one.moved(page.start), page.number, page.start) for one in found.entities]
        languages |= dict.fromkeys(found.languages)
        nameless |= dict.fromkeys(found.nameless)
        if found.failed:
            where = f"page {page.number}: " if page.number else ""
            warnings.append(f"{where}some names may be missing: {found.failed}")
    return Told(
        opened.source, tuple(placed), opened.text, tuple(languages), tuple(nameless),
        tuple(dict.fromkeys(warnings)), opened.error, opened.hint, opened.past_limit,
    )  # fmt: skip
