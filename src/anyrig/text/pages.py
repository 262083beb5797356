"""What a file says, cut where it has pages, each with its place: file, page, offset.

    paged = pages(Path("letter.pdf"))

A page whose text layer is missing or garbage says so, and holds no text until its picture is read.
Files are read in a process of their own (`apart.py`), which may crash, hang or fill its memory
without harm; whoever reads many keeps one such process with `apart.Apart`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from anyrig.errors import InvalidInputError
from anyrig.text.formats.limits import Limits

Source = Literal["text", "ocr", "none"]
"""Where a page's text comes from: the file's own text, its picture, or there is none."""
JOINT = "\n\n"
"""What stands between two pages in the text of a file: offsets count it."""
DPI = 300
"""At which pages are drawn: what engines of OCR were trained on."""


@dataclass(frozen=True)
class Page:
    """A page of a file; a chapter or the whole of one that has no pages."""

    text: str
    number: int = 0
    """From 1; 0 in a file without pages."""
    start: int = 0
    """Where its text begins in the text of the file, in characters."""
    source: Source = "text"
    title: str = ""
    """Of the chapter, the sheet, the message: what helps a person to find the place."""
    lack: str = ""
    """Why its own text cannot be used, `a picture without a text layer`; empty when it can."""
    layer: str = field(default="", repr=False)
    """Its own text where that is kept out of `text`, for when nothing better is to be had."""
    pictures: tuple[tuple[int, int], ...] = ()
    """Where its text describes pictures, from and to: that is no part of the prose."""
    headings: tuple[tuple[int, int], ...] = ()
    """Where the headings in its text are, from and to; empty where the format marks none."""


@dataclass(frozen=True)
class Paged:
    """A file in pages."""

    file: Path
    format: str
    pages: tuple[Page, ...]
    language: str = ""
    """As the file says; empty where it does not."""
    title: str = ""
    warnings: tuple[str, ...] = ()
    """What could not be read as it should be, each said once."""

    @property
    def text(self) -> str:
        """All of it: `text[page.start:page.start + len(page.text)]` is the page's."""
        return JOINT.join(page.text for page in self.pages)


@dataclass(frozen=True)
class Drawn:
    """The picture of a page."""

    number: int
    data: bytes = field(default=b"", repr=False)
    """A PNG file in grey; empty if it cannot be drawn."""
    lack: str = ""
    """Why not."""


def without_pictures(paged: Paged) -> Paged:
    """The same with blanks for the descriptions of pictures, so that all offsets stay."""
    if not any(page.pictures for page in paged.pages):
        return paged
    return replace(paged, pages=tuple(map(_blanked, paged.pages)))


def _blanked(page: Page) -> Page:
    text = page.text
    for start, end in page.pictures:
        text = text[:start] + " " * (end - start) + text[end:]
    return replace(page, text=text, pictures=())


def placed(found: Iterable[Page]) -> tuple[Page, ...]:
    """Pages with their offsets, after their texts were changed."""
    made: list[Page] = []
    start = 0
    for page in found:
        made.append(page if page.start == start else replace(page, start=start))
        start += len(page.text) + len(JOINT)
    return tuple(made)


def named(numbers: Sequence[int]) -> str:
    """Pages as people name them: "pages 1-3, 7"."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] + 1 == number:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    said = [f"{a}" if a == b else f"{a}-{b}" for a, b in spans]
    if len(said) > 12:
        said = [*said[:12], "..."]
    return f"page{'s' if len(numbers) > 1 else ''} {', '.join(said)}"


def pages(path: Path, *, limits: Limits = Limits()) -> Paged:  # noqa: B008 - it is frozen
    """A file in pages by its own text; `InvalidInputError` if it cannot be read.

    Args:
        path: of a regular file.
        limits: how much it may ask of the machine.
    """
    from anyrig.text.apart import Apart

    with Apart(limits) as apart:
        return apart.pages(Path(path))


def pictures(
    path: Path,
    numbers: Sequence[int],
    *,
    dpi: int = DPI,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> Iterator[Drawn]:
    """Pages drawn, one for each number and in order; one that cannot be drawn says why.

    Args:
        path: of a file whose pages can be drawn: a PDF, a picture, a message with such files.
        numbers: of pages, from 1, as `Page.number` has them.
        dpi: dots an inch of a PDF's page; a picture is handed on as it is.
        limits: how much the file may ask of the machine.
    """
    from anyrig.text.apart import Apart

    with Apart(limits) as apart:
        yield from apart.pictures(Path(path), numbers, dpi=dpi)


def picture(
    path: Path,
    number: int = 1,
    *,
    dpi: int = DPI,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> bytes:
    """One page drawn, as a PNG file in grey; `InvalidInputError` if it cannot be."""
    drawn = next(iter(list(pictures(path, [number], dpi=dpi, limits=limits))))
    if not drawn.data:
        raise InvalidInputError(
            drawn.lack, hint="Get another copy of the file, or save it with another program."
        )
    return drawn.data
