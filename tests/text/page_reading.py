"""Documents in pages, from files and from texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from anyrig.text.document import Block, Chapter, Document, Metadata
from anyrig.text.formats.limits import Limits
from anyrig.text.sandbox import DPI, ReaderPool, RenderedPage


def read_pages(path: Path, limits: Limits = Limits()) -> Document:  # noqa: B008 - it is frozen
    with ReaderPool(limits=limits) as pool:
        return pool.read_file(path)


def render_pages(
    path: Path,
    numbers: Sequence[int],
    dpi: int = DPI,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> Iterator[RenderedPage]:
    with ReaderPool(limits=limits) as pool:
        yield from pool.render(path, numbers, dpi=dpi)


def list_sources(document: Document) -> list[str]:
    """Where the text of each page comes from: `text`, `layer`, `ocr` or `none`."""
    scans = {scan.page: scan.source for scan in document.scans}
    return [
        scans.get(part.page, "text" if part.text else "none") for part in document.parts("page")
    ]


def list_reasons(document: Document) -> list[str]:
    """Why the text of each page cannot be used; empty where it can."""
    scans = {scan.page: scan.reason for scan in document.scans}
    return [scans.get(part.page, "") for part in document.parts("page")]


def build_document(
    *texts: str, path: Path = Path("a.txt"), titles: Sequence[str] = (), numbered: bool = False
) -> Document:
    """A document of pages, or of chapters."""
    chapters = tuple(
        Chapter(
            titles[number - 1] if titles else "",
            (Block(text, page=number if numbered else 0),),
        )
        for number, text in enumerate(texts, 1)
    )
    return Document(Metadata(), chapters, format=path.suffix.lstrip("."), path=path)
