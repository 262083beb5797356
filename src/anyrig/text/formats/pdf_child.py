"""The process that a PDF is read in: `python -m anyrig.text.formats.pdf_child PATH PAGES LETTERS`.

PDFium is a large C++ library that is fed with files of others. Here it can crash, fill its memory
or run on without end, and the program that asked for the file goes on: it sees this process end.
Each line of the answer is a JSON object: `{"page": 7, "of": 90}` while pages are read,
`{"refused": ...}`, `{"document": ...}`, and last `{"cover": ...}`, which comes after the text, so
that a first page that cannot be drawn costs no more than the picture.
"""

from __future__ import annotations

import base64
import gc
import io
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.text.document import Document, document_to_json
from anyrig.text.formats import memory
from anyrig.text.formats.memory import limit_memory
from anyrig.text.formats.pdf_blocks import chapters_of
from anyrig.text.formats.pdf_glyphs import TooMuchText, read_page
from anyrig.text.formats.pdf_headings import Entry
from anyrig.text.formats.pdf_metadata import read_metadata
from anyrig.text.formats.pdf_page import Page
from anyrig.text.formats.picture import read_first
from anyrig.text.labels import format_pages

if TYPE_CHECKING:
    import pypdfium2 as pdfium

_COVER_PIXELS = 1400
_MOST_ENTRIES = 20_000
_PAGE_LETTERS = 400_000


class Refused(Exception):
    """The file cannot be read; the words say why, and what to do."""

    def __init__(self, message: str, hint: str, *, locked: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.locked = locked


def main() -> None:
    """Read the file that the command line names, and say what is in it."""
    path, most_pages, most_letters = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever a library prints is not an answer
    limit_memory(path.stat().st_size if path.is_file() else 0)
    gc.set_threshold(200_000)  # a page's glyphs are many and hold no circles: a third faster
    try:
        for answer in _answers(path, most_pages, most_letters):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    except MemoryError:
        os._exit(memory.EXIT_CODE)
    except Refused as error:
        said = {"refused": str(error), "hint": error.hint, "locked": error.locked}
        answers.write(json.dumps(said) + "\n")
    answers.flush()
    os._exit(0)  # PDFium's own clean-up has nothing left to save


def _answers(path: Path, most_pages: int, most_letters: int) -> Iterator[dict[str, object]]:
    yield {"page": 0, "of": 0}
    document = opened(path)
    count = len(document)
    if count == 0:
        raise Refused("has no pages", "Get another copy of the file.")
    if count > most_pages:
        raise Refused(f"has {count:,} pages", f"Split it: {most_pages:,} are read at most.")
    pages: list[Page] = []
    bad: list[int] = []
    letters = 0
    for index in range(count):
        page = _page(document, index)
        if page is None:
            bad.append(index + 1)
        else:
            pages.append(page)
            letters += page.num_glyphs
        if letters > most_letters:
            raise Refused(f"contains more than {most_letters:,} letters", "Split it.")
        yield {"page": index + 1, "of": count}
    found = _checked(path, pages, bad)
    chapters = chapters_of(pages, outline(document, pages))
    made = Document(read_metadata(document), chapters, format="pdf", warnings=tuple(found))
    yield {"document": document_to_json(made)}
    yield {"cover": _cover(document)}


def opened(path: Path) -> pdfium.PdfDocument:
    """The file, open; `Refused` if it is locked or no PDF."""
    import pypdfium2 as pdfium
    import pypdfium2.raw as api

    try:
        return pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        if error.err_code == api.FPDF_ERR_PASSWORD:
            raise Refused(
                "is protected by a password", "Save a copy without the password first.", locked=True
            ) from None
        if error.err_code == api.FPDF_ERR_SECURITY:
            raise Refused(
                "is protected by DRM of an unknown kind",
                "Ask the seller for a copy without DRM.", locked=True,
            ) from None  # fmt: skip
        raise Refused("is not a valid PDF (damaged?)", "Get another copy of the file.") from None


def _page(document: pdfium.PdfDocument, index: int) -> Page | None:
    """A page; None if PDFium cannot load it."""
    import pypdfium2 as pdfium

    try:
        return read_page(document, index, _PAGE_LETTERS)
    except TooMuchText:
        raise Refused(
            f"has more than {_PAGE_LETTERS:,} letters on page {index + 1}", "Split it."
        ) from None
    except pdfium.PdfiumError:
        return None


def _checked(path: Path, pages: list[Page], bad: list[int]) -> list[str]:
    """What is to be said of pages that give no text; refused if they are most of the file."""
    scans = [page.number for page in pages if page.picture]
    blank = [page.number for page in pages if not page.num_glyphs]
    known = sum(page.num_glyphs for page in pages)
    unknown = sum(page.num_unknown for page in pages)
    ocr = read_first(path)
    if not pages:
        raise Refused("is damaged: none of its pages can be read", "Get another copy of the file.")
    if len(blank) == len(pages) or 2 * len(scans) > len(pages):
        shown = scans if 2 * len(scans) > len(pages) else blank
        what = "pictures without text" if scans else "without any text"
        raise Refused(f"has no text to read: {format_pages(shown)} {_are(shown)} {what}", ocr)
    if 2 * unknown > known:
        garbled = [page.number for page in pages if 2 * page.num_unknown > page.num_glyphs]
        raise Refused(
            f"does not say which letters it shows: the text of"
            f" {format_pages(garbled)} has no meaning",
            ocr,
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
            if len(made) >= _MOST_ENTRIES:
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


def _cover(document: pdfium.PdfDocument) -> str:
    """The first page as a JPEG, in base64; empty if it cannot be drawn."""
    page = document[0]
    width, height = page.get_size()
    if not (1 <= width <= 100_000 and 1 <= height <= 100_000):
        return ""
    scale = min(_COVER_PIXELS / max(width, height), 4.0)
    image = page.render(scale=scale).to_pil().convert("RGB")
    made = io.BytesIO()
    image.save(made, "JPEG", quality=88)
    return base64.b64encode(made.getvalue()).decode("ascii")


if __name__ == "__main__":
    main()
