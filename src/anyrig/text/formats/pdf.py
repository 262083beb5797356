"""PDF by its text layer: as a book in chapters, page by page, and as pictures of its pages.

    characters (pdf_characters) -> lines (pdf_lines) -> paragraphs and chapters (pdf_layout)

All of it runs inside the process of `text/sandbox.py`, as PDFium may crash or hang. Pages that are
pictures of text are named, not read: that is OCR's work.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import pypdfium2 as pdfium
import pypdfium2.raw as api

from anyrig.errors import InvalidInputError, LimitExceededError, ProtectedFileError
from anyrig.text.document import Block, Chapter, Document, Metadata, Picture, Scan
from anyrig.text.formats.limits import Limits, OnPage
from anyrig.text.formats.pdf_characters import PdfPage, TooManyCharacters, read_page
from anyrig.text.formats.pdf_headings import OutlineEntry
from anyrig.text.formats.pdf_layout import build_chapters, build_pages
from anyrig.text.formats.picture import read_first
from anyrig.text.garbage import find_fault
from anyrig.text.labels import format_pages

DrawnAs = Literal["", "picture", "lines", "text"]
"""What is on a page of little text beside it; `text` is a picture with its own text over it."""
Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""
_COVER_PIXELS = 1400
_MAX_ENTRIES = 20_000
_MAX_PAGE_CHARACTERS = 400_000
_MAX_ANNOTATIONS = 2_000
_MAX_PIXELS = 40_000_000
_FEW_CHARACTERS = 150
"""On a scan: a stamp or a page number, not its text."""
_PICTURE_SHARE = 0.25
"""Of a page, from which on pictures are what it shows."""
_TEXT_SHARE = 0.5
"""Of what a picture shows, which a text over it must cover to be the text of it."""
_LOOK_DPI, _MAX_LOOK_PIXELS = 72, 4_000_000
_DAMAGED = "Get another copy of the file, or print it to a new PDF."
_NO_LAYER = "a picture without a text layer"


@dataclass(frozen=True)
class _Contents:
    """What was read of a file, before its layout."""

    metadata: Metadata
    outline: list[OutlineEntry]
    pages: dict[int, PdfPage]
    """By number; those that are damaged are missing."""
    drawn: dict[int, DrawnAs]
    num_pages: int


def read(path: Path, limits: Limits, on_page: OnPage | None = None) -> Document:
    """All that a PDF says, in chapters; refused if most of its pages have no usable text."""
    contents = _read_contents(path, limits, on_page)
    warnings = _check_pages(path, contents)
    chapters = build_chapters(list(contents.pages.values()), contents.outline)
    return Document(contents.metadata, chapters, format="pdf", warnings=tuple(warnings))


def read_pages(path: Path, limits: Limits, on_page: OnPage | None) -> Document:
    """All pages of a PDF, each with what stands on it; those without usable text are scans."""
    contents = _read_contents(path, limits, on_page)
    found = build_pages(list(contents.pages.values()))
    titles = _find_titles(contents)
    chapters: list[Chapter] = []
    scans: list[Scan] = []
    leaves = [(titles[number], *found.get(number, ((), "body")), number) for number in titles]
    for (title, role), run in groupby(leaves, key=lambda leaf: (leaf[0], leaf[2])):
        blocks: list[Block] = []
        for _, here, _, number in run:
            text = "\n\n".join(block.text for block in here)
            reason = _find_reason(contents, number, text)
            if reason:
                scans.append(Scan(number, reason, text))
            blocks += (not reason and here) or (Block("", page=number),)
        chapters.append(Chapter(title, tuple(blocks), role=role))
    return Document(contents.metadata, tuple(chapters), format="pdf", scans=tuple(scans))


def draw_cover(path: Path) -> Picture | None:
    """The first page as a JPEG."""
    document = _open(path)
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


def render_pages(path: Path, numbers: Sequence[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages as PNG in grey, one for each number (from 1), as they are shown.

    A page that is so large that it would be too much is drawn with fewer dots an inch.
    """
    document = _open(path)
    try:
        count = _count_pages(document, path, limits)
        for number in numbers:
            if not 1 <= number <= count:
                raise InvalidInputError(
                    f"{path.name} has no page {number}", hint="Pass one of its pages."
                )
            yield _render_page(document, number, dpi, path)
    finally:
        document.close()


def _render_page(document: pdfium.PdfDocument, number: int, dpi: int, path: Path) -> bytes:
    try:
        page = document[number - 1]
        try:
            width, height = page.get_size()
            if not (1 <= width <= 1e6 and 1 <= height <= 1e6):
                raise InvalidInputError(
                    f"page {number} of {path.name} has no sensible size", hint=_DAMAGED
                )
            scale = min(dpi / 72, (_MAX_PIXELS / (width * height)) ** 0.5)
            image = page.render(scale=scale, grayscale=True, may_draw_forms=True).to_pil()
        finally:
            page.close()
    except pdfium.PdfiumError as error:
        raise InvalidInputError(
            f"page {number} of {path.name} cannot be drawn: {error}", hint=_DAMAGED
        ) from None
    out = io.BytesIO()
    image.convert("L").save(out, "PNG", compress_level=1)
    return out.getvalue()


# -- the file ----------------------------------------------------------------------------------


def _open(path: Path) -> pdfium.PdfDocument:
    """The file, open; an `InvalidInputError` if it is locked or no PDF."""
    try:
        document = pdfium.PdfDocument(path)
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
    with contextlib.suppress(pdfium.PdfiumError):
        document.init_forms()  # what people filled in is drawn then, even without a drawn form
    return document


def _count_pages(document: pdfium.PdfDocument, path: Path, limits: Limits) -> int:
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


def _read_contents(path: Path, limits: Limits, on_page: OnPage | None) -> _Contents:
    on_page = on_page or (lambda _page, _of: None)
    on_page(0, 0)
    document = _open(path)
    try:
        count = _count_pages(document, path, limits)
        pages: dict[int, PdfPage] = {}
        drawn: dict[int, DrawnAs] = {}
        num_characters = 0
        for number in range(1, count + 1):
            page = _read_page(document, number, path)
            if page is not None:
                pages[number] = page
                if page.num_characters <= _FEW_CHARACTERS:
                    drawn[number] = _find_drawn_as(document, page)
                num_characters += page.num_characters
            if num_characters > limits.characters:
                raise LimitExceededError(
                    f"{path.name} contains more than {limits.characters:,} letters",
                    hint="Split it.",
                    limit="characters",
                )
            on_page(number, count)
        if not pages:
            raise InvalidInputError(
                f"{path.name} is damaged: none of its pages can be read", hint=_DAMAGED
            )
        metadata, outline = _read_metadata(document), _read_outline(document, set(pages))
        return _Contents(metadata, outline, pages, drawn, count)
    finally:
        document.close()


def _read_page(document: pdfium.PdfDocument, number: int, path: Path) -> PdfPage | None:
    """A page; None if it cannot be read."""
    try:
        _flatten_filled(document, number - 1)
        return read_page(document, number - 1, _MAX_PAGE_CHARACTERS)
    except TooManyCharacters:
        raise LimitExceededError(
            f"{path.name} has more than {_MAX_PAGE_CHARACTERS:,} letters on page {number}",
            hint="Split it.",
            limit="characters",
        ) from None
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - one page that nobody foresaw does not cost the others
        return None


def _flatten_filled(document: pdfium.PdfDocument, index: int) -> None:
    """What was filled in or written over a page becomes part of it: only then is it text."""
    written = (api.FPDF_ANNOT_WIDGET, api.FPDF_ANNOT_FREETEXT, api.FPDF_ANNOT_STAMP)
    page = document[index]
    try:
        for number in range(min(api.FPDFPage_GetAnnotCount(page.raw), _MAX_ANNOTATIONS)):
            annotation = api.FPDFPage_GetAnnot(page.raw, number)
            kind = api.FPDFAnnot_GetSubtype(annotation)
            api.FPDFPage_CloseAnnot(annotation)
            if kind in written:
                api.FPDFPage_Flatten(page.raw, api.FLAT_NORMALDISPLAY)
                return
    finally:
        page.close()


# -- pages without text of their own -----------------------------------------------------------


def _find_drawn_as(document: pdfium.PdfDocument, page: PdfPage) -> DrawnAs:
    sheet = document[page.number - 1]
    try:
        area, covered, others = max(page.width * page.height, 1.0), 0.0, 0
        invisible: list[Box] = []
        for each in sheet.get_objects(max_depth=3):
            if each.type == api.FPDF_PAGEOBJ_IMAGE:
                left, bottom, right, top = each.get_bounds()
                covered += abs((right - left) * (top - bottom))
            elif each.type != api.FPDF_PAGEOBJ_TEXT:
                others += 1
            elif api.FPDFTextObj_GetTextRenderMode(each.raw) == api.FPDF_TEXTRENDERMODE_INVISIBLE:
                invisible.append(each.get_bounds())
        others += api.FPDFPage_GetAnnotCount(sheet.raw)
        if invisible and covered > _PICTURE_SHARE * area and _covers_text(sheet, invisible):
            return "text"
    except Exception:  # noqa: BLE001 - what cannot be told apart is drawn, and read from its picture
        return "lines"
    finally:
        sheet.close()
    if covered > _PICTURE_SHARE * area:
        return "picture"
    return "lines" if others or covered else ""


def _covers_text(sheet: pdfium.PdfPage, boxes: list[Box]) -> bool:
    """Whether boxes cover most of what a page shows: edges of letters, wherever they are."""
    from PIL import ImageDraw, ImageFilter

    left, bottom, right, top = sheet.get_cropbox()
    area = max(1.0, (right - left) * (top - bottom))
    scale = min(_LOOK_DPI / 72, (_MAX_LOOK_PIXELS / area) ** 0.5)
    straight = (360 - sheet.get_rotation()) % 360  # as it is written, which is how boxes count
    image = sheet.render(scale=scale, rotation=straight, grayscale=True).to_pil().convert("L")
    edges = image.filter(ImageFilter.GaussianBlur(1)).filter(ImageFilter.FIND_EDGES)
    inner = (2, 2, max(3, edges.width - 2), max(3, edges.height - 2))  # the filter's own frame
    least = max(8, 0.3 * int(edges.crop(inner).getextrema()[1]))  # grain is fainter than letters
    edges = edges.point([255 * (value > least) for value in range(256)])
    before = edges.crop(inner).histogram()[255]
    draw = ImageDraw.Draw(edges)
    for x0, y0, x1, y1 in boxes:
        room = 1 + 0.15 * (y1 - y0) * scale
        draw.rectangle(
            ((x0 - left) * scale - room, (top - y1) * scale - room,
             (x1 - left) * scale + room, (top - y0) * scale + room), fill=0,
        )  # fmt: skip
    return bool(edges.crop(inner).histogram()[255] <= (1 - _TEXT_SHARE) * before)


def _find_reason(contents: _Contents, number: int, text: str) -> str:
    """Why the text of a page cannot be used; empty where it can, or where the page is blank."""
    page, drawn = contents.pages.get(number), contents.drawn.get(number, "")
    if page is None:
        return "the page is damaged"
    if not text.strip():
        if drawn in ("picture", "text"):
            return _NO_LAYER
        return "drawn without a text layer" if drawn or page.num_characters else ""
    if reason := find_fault(text, page.num_unknown):
        return reason
    return "a picture with little text on it" if drawn == "picture" else ""


def _check_pages(path: Path, contents: _Contents) -> list[str]:
    """Warnings of pages that give no text; refused if they are most of the file."""
    pages = list(contents.pages.values())
    blank = [page.number for page in pages if not page.num_characters]
    scans = [number for number in blank if contents.drawn.get(number) == "picture"]
    ocr = read_first(path)
    if len(blank) == len(pages) or 2 * len(scans) > len(pages):
        shown = scans if 2 * len(scans) > len(pages) else blank
        what = "pictures without text" if scans else "without any text"
        raise InvalidInputError(
            f"{path.name} has no text to read: {format_pages(shown)} {_are(shown)} {what}", hint=ocr
        )
    garbled = [p.number for p in pages if p.num_characters and 2 * p.num_unknown > p.num_characters]
    known = sum(page.num_characters for page in pages)
    if 2 * sum(page.num_unknown for page in pages) > known:
        raise InvalidInputError(
            f"{path.name} does not say which letters it shows: the text of"
            f" {format_pages(garbled)} has no meaning",
            hint=ocr,
        )
    warnings: list[str] = []
    if scans:
        warnings.append(f"{format_pages(scans)} {_are(scans)} pictures without text")
    if garbled:
        where = format_pages(garbled)
        warnings.append(f"the text of {where} has letters that the file does not name")
    if bad := sorted(set(range(1, contents.num_pages + 1)) - set(contents.pages)):
        warnings.append(f"{format_pages(bad)} cannot be read")
    return warnings


def _are(numbers: list[int]) -> str:
    return "are" if len(numbers) > 1 else "is"


# -- what the file says of itself --------------------------------------------------------------

# Titles that a program put there, not a person.
_NO_TITLE = re.compile(
    r"microsoft (?:word|powerpoint|excel|publisher)\b.*|powerpoint presentation"
    r"|(?:untitled|unbenannt|sans titre|document|dokument|layout|book|slide|presentation)[\s_-]*\d*"
    r"|.*\.(?:docx?|odt|rtf|txt|tex|dvi|ps|eps|indd|qxd|qxp|pdf|wpd|fm|p65|pmd|html?|xml|sxw)"
    r"|(?:about:blank|https?://|file:|[a-z]:\\).*|none|null|title|\W*",
    re.IGNORECASE,
)
_NO_AUTHOR = re.compile(
    r"(?:unknown|anonymous|user|admin(?:istrator)?|owner|author|root|none|null|\W*)", re.IGNORECASE
)
_YEAR = re.compile(r"(?:D:)?\s*((?:1[5-9]|20)\d\d)")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_PAGE_TITLE = re.compile(r"(?:(?:page|seite)\s+)?\d+", re.IGNORECASE)


def _read_metadata(document: pdfium.PdfDocument) -> Metadata:
    """What the file says of itself, less what its programs said."""
    fields = {
        name: _clean(document.get_metadata_value(name))
        for name in ("Title", "Author", "Subject", "Keywords", "CreationDate")
    }
    year = _YEAR.match(fields["CreationDate"])
    authors = (name.strip(" ,") for name in re.split(r"\s*(?:;|&|\band\b|\n)\s*", fields["Author"]))
    return Metadata(
        title="" if _NO_TITLE.fullmatch(fields["Title"]) else fields["Title"],
        authors=tuple(name for name in authors if not _NO_AUTHOR.fullmatch(name)),
        language=_read_language(document),
        year=year[1] if year else "",
        description=fields["Subject"],
        subjects=tuple(filter(None, map(str.strip, re.split(r"[,;]", fields["Keywords"])))),
    )


def _clean(value: str) -> str:
    shown = "".join(letter for letter in value if letter.isprintable() or letter.isspace())
    return " ".join(shown.split())[:2000]


def _read_language(document: pdfium.PdfDocument) -> str:
    """The catalog's `Lang`, where this PDFium tells it."""
    ask = getattr(api, "FPDFCatalog_GetLanguage", None)
    length = ask(document.raw, None, 0) if ask else 0
    if not ask or not 2 < length <= 128:
        return ""
    room = ctypes.create_string_buffer(length)
    ask(document.raw, ctypes.cast(room, ctypes.POINTER(api.FPDF_WCHAR)), length)
    language = room.raw.decode("utf-16-le", "replace").rstrip("\x00").strip()
    return language if _LANGUAGE.fullmatch(language) else ""


def _read_outline(document: pdfium.PdfDocument, numbers: set[int]) -> list[OutlineEntry]:
    """The bookmarks that lead to a page; none if they only count pages."""
    found: list[OutlineEntry] = []
    try:
        for mark in document.get_toc(max_depth=8):
            title = " ".join(mark.get_title().replace("\x00", "").split())
            place = mark.get_dest()
            index = place.get_index() if place else None
            if not title or place is None or index is None or index + 1 not in numbers:
                continue
            mode, view = place.get_view()
            height = view[1] if mode == api.PDFDEST_VIEW_XYZ and len(view) > 1 else None
            found.append(OutlineEntry(mark.level + 1, title[:500], index + 1, height or None))
            if len(found) >= _MAX_ENTRIES:
                break
    except pdfium.PdfiumError:
        return []
    return found if sum(not _PAGE_TITLE.fullmatch(one.title) for one in found) > 1 else []


def _find_titles(contents: _Contents) -> dict[int, str]:
    """By page, the first entry of the outline on it, else the last one before it."""
    starts: dict[int, list[str]] = {}
    for entry in contents.outline:
        starts.setdefault(entry.page, []).append(entry.title)
    titles: dict[int, str] = {}
    before = ""
    for number in range(1, contents.num_pages + 1):
        here = starts.get(number, [before])
        titles[number], before = here[0], here[-1]
    return titles
