"""PDF by its text layer: characters with places become lines, paragraphs, notes and chapters.

Pages that are pictures of text are named, not read: that is OCR's work.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import (
    InvalidInputError,
    LimitExceededError,
    MissingPackageError,
    ProtectedFileError,
)
from anyrig.install import format_install
from anyrig.text.document import Document, Picture
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.pdf_blocks import chapters_of
from anyrig.text.formats.pdf_glyphs import TooMuchText, read_page
from anyrig.text.formats.pdf_headings import Entry
from anyrig.text.formats.pdf_metadata import read_metadata
from anyrig.text.formats.pdf_page import Page
from anyrig.text.formats.picture import read_first
from anyrig.text.labels import format_pages

if TYPE_CHECKING:
    import pypdfium2 as pdfium

OnPage = Callable[[int, int], None]
"""Called with the number of each page that was read, and of all."""
_COVER_PIXELS = 1400
_MAX_ENTRIES = 20_000
_MAX_PAGE_CHARACTERS = 400_000
_DAMAGED = "Get another copy of the file, or print it to a new PDF."


def read(path: Path, limits: Limits, on_page: OnPage = lambda _page, _of: None) -> Document:
    """All that a PDF says, in chapters; refused if most of its pages have no usable text."""
    on_page(0, 0)
    document = open_pdf(path)
    try:
        count = count_pages(document, path, limits)
        pages: list[Page] = []
        bad: list[int] = []
        num_characters = 0
        for index in range(count):
            page = _read_page(document, index, path)
            if page is None:
                bad.append(index + 1)
            else:
                pages.append(page)
                num_characters += page.num_glyphs
            if num_characters > limits.characters:
                raise LimitExceededError(
                    f"{path.name} contains more than {limits.characters:,} letters",
                    hint="Split it.",
                    limit="characters",
                )
            on_page(index + 1, count)
        warnings = _check_pages(path, pages, bad)
        chapters = chapters_of(pages, outline(document, pages))
        return Document(read_metadata(document), chapters, format="pdf", warnings=tuple(warnings))
    finally:
        document.close()


def draw_cover(path: Path) -> Picture | None:
    """The first page as a JPEG."""
    document = open_pdf(path)
    try:
        page = document[0]
        width, height = page.get_size()
        if not (1 <= width <= 100_000 and 1 <= height <= 100_000):
            return None
        scale = min(_COVER_PIXELS / max(width, height), 4.0)
        image = page.render(scale=scale).to_pil().convert("RGB")
    finally:
        document.close()
    out = io.BytesIO()
    image.save(out, "JPEG", quality=88)
    return Picture(out.getvalue())


def open_pdf(path: Path) -> pdfium.PdfDocument:
    """The file, open; an `InvalidInputError` if it is locked or no PDF."""
    try:
        import pypdfium2 as pdfium
        import pypdfium2.raw as api
    except ImportError:
        raise MissingPackageError(
            "PDF needs the package pypdfium2", hint=format_install("pypdfium2")
        ) from None
    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        if error.err_code == api.FPDF_ERR_PASSWORD:
            raise ProtectedFileError(
                f"{path.name} is protected by a password",
                hint="Save a copy without the password first.",
            ) from None
        if error.err_code == api.FPDF_ERR_SECURITY:
            raise ProtectedFileError(
                f"{path.name} is protected by DRM of an unknown kind",
                hint="Ask the seller for a copy without DRM.",
            ) from None
        raise InvalidInputError(
            f"{path.name} is not a valid PDF (damaged?)", hint="Get another copy of the file."
        ) from None


def count_pages(document: pdfium.PdfDocument, path: Path, limits: Limits) -> int:
    count = len(document)
    if count == 0:
        raise InvalidInputError(f"{path.name} has no pages", hint=_DAMAGED)
    if count > limits.pages:
        raise LimitExceededError(
            f"{path.name} has {count:,} pages, and {limits.pages:,} are read at most",
            hint="Split it.",
            limit="pages",
        )
    return count


def _read_page(document: pdfium.PdfDocument, index: int, path: Path) -> Page | None:
    """A page; None if PDFium cannot load it."""
    import pypdfium2 as pdfium

    try:
        return read_page(document, index, _MAX_PAGE_CHARACTERS)
    except TooMuchText:
        raise LimitExceededError(
            f"{path.name} has more than {_MAX_PAGE_CHARACTERS:,} letters on page {index + 1}",
            hint="Split it.",
            limit="characters",
        ) from None
    except pdfium.PdfiumError:
        return None


def _check_pages(path: Path, pages: list[Page], bad: list[int]) -> list[str]:
    """What is to be said of pages that give no text; refused if they are most of the file."""
    scans = [page.number for page in pages if page.picture]
    blank = [page.number for page in pages if not page.num_glyphs]
    known = sum(page.num_glyphs for page in pages)
    unknown = sum(page.num_unknown for page in pages)
    ocr = read_first(path)
    if not pages:
        raise InvalidInputError(
            f"{path.name} is damaged: none of its pages can be read", hint=_DAMAGED
        )
    if len(blank) == len(pages) or 2 * len(scans) > len(pages):
        shown = scans if 2 * len(scans) > len(pages) else blank
        what = "pictures without text" if scans else "without any text"
        raise InvalidInputError(
            f"{path.name} has no text to read: {format_pages(shown)} {_are(shown)} {what}", hint=ocr
        )
    if 2 * unknown > known:
        garbled = [page.number for page in pages if 2 * page.num_unknown > page.num_glyphs]
        raise InvalidInputError(
            f"{path.name} does not say which letters it shows: the text of"
            f" {format_pages(garbled)} has no meaning",
            hint=ocr,
        )
    found: list[str] = []
    if scans:
        found.append(f"{format_pages(scans)} {_are(scans)} pictures without text")
    garbled = [p.number for p in pages if p.num_glyphs and 2 * p.num_unknown > p.num_glyphs]
    if garbled:
        found.append(f"the text of {format_pages(garbled)} has letters that the file does not name")
    if bad:
        found.append(f"{format_pages(bad)} cannot be read")
    return found


def _are(numbers: list[int]) -> str:
    return "are" if len(numbers) > 1 else "is"


def outline(document: pdfium.PdfDocument, pages: list[Page]) -> list[Entry]:
    """The bookmarks that lead to a page; none if they only count pages."""
    import pypdfium2 as pdfium
    import pypdfium2.raw as api

    numbers = {page.number for page in pages}
    made: list[Entry] = []
    try:
        for mark in document.get_toc(max_depth=8):
            title = " ".join(mark.get_title().replace("\x00", "").split())
            place = mark.get_dest()
            index = place.get_index() if place else None
            if not title or place is None or index is None or index + 1 not in numbers:
                continue
            mode, view = place.get_view()
            height = view[1] if mode == api.PDFDEST_VIEW_XYZ and len(view) > 1 else None
            made.append(Entry(mark.level + 1, title[:500], index + 1, height or None))
            if len(made) >= _MAX_ENTRIES:
                break
    except pdfium.PdfiumError:
        return []
    bare = [entry for entry in made if not _counts_pages(entry.title)]
    return made if len(bare) > 1 else []


def _counts_pages(title: str) -> bool:
    last = title.casefold().split()
    return (
        bool(last)
        and len(last) <= 2
        and last[-1].isdigit()
        and last[0] in ("page", "seite", last[-1])
    )
