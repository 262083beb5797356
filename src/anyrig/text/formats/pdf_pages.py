"""A PDF page by page: the text of each, why it cannot be used where it cannot, and its picture.

A book is laid out as a whole, with paragraphs that run over pages (`pdf_blocks.py`). Here each page
keeps what stands on it, so that a place in the text is a page of the file. All of it runs inside
the process of `text/sandbox.py`, as PDFium may crash or hang.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.document import SEPARATOR, Block, Metadata, Role
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.pdf import count_pages, open_pdf, outline
from anyrig.text.formats.pdf_blocks import blocks_by_page
from anyrig.text.formats.pdf_glyphs import TooMuchText, read_page
from anyrig.text.formats.pdf_metadata import read_metadata
from anyrig.text.formats.pdf_page import Page
from anyrig.text.garbage import fault

if TYPE_CHECKING:
    import pypdfium2 as pdfium

_PAGE_LETTERS = 400_000
_LITTLE = 150
"""Letters on a scan that are a stamp or a page number, not its text."""
_PICTURE = 0.25
"""The share of a page from which on pictures are what it shows."""
_COVERS = 0.5
"""The share of what a picture shows that a text over it must cover to be the text of it."""
_LOOK, _MOST_LOOKED = 72, 4_000_000
_MOST_NOTES = 2_000
_MOST_DRAWN = 40_000_000
_NUMBER = re.compile(r"\W*(?:\d{1,5}|[ivxlc]{1,7})\W*", re.IGNORECASE)
_DAMAGED = "Get another copy of the file, or print it to a new PDF."

Told = Callable[[int, int], None]
Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""


class Leaf(NamedTuple):
    """A page of a PDF."""

    blocks: tuple[Block, ...] = ()
    lack: str = ""
    """Why its text cannot be used."""
    title: str = ""
    role: Role = "body"

    @property
    def text(self) -> str:
        return SEPARATOR.join(block.text for block in self.blocks)


class Read(NamedTuple):
    """A PDF in pages."""

    metadata: Metadata
    leaves: list[Leaf]
    warnings: list[str]


def read(path: Path, limits: Limits, told: Told) -> Read:
    """All pages of a PDF.

    Args:
        path: of the file.
        limits: how much it may ask of the machine.
        told: called with each page that is read, and how many there are.
    """
    told(0, 0)
    document = _open(path)
    try:
        count = count_pages(document, path, limits)
        pages: dict[int, Page] = {}
        drawn: dict[int, str] = {}
        letters = 0
        for index in range(count):
            page = _page(document, index, path)
            if page is not None:
                pages[index + 1] = page
                drawn[index + 1] = _drawn_as(document, index, page)
                letters += page.num_glyphs
            if letters > limits.characters:
                raise LimitExceededError(
                    f"{path.name} contains more than {limits.characters:,} letters",
                    hint="Split it.",
                    limit="characters",
                )
            told(index + 1, count)
        if not pages:
            raise InvalidInputError(
                f"{path.name} is damaged: none of its pages can be read", hint=_DAMAGED
            )
        blocks, roles = _find_blocks(list(pages.values()))
        titles = _titles(document, list(pages.values()), count)
        leaves = [
            _leaf(pages.get(number), blocks.get(number, ()), drawn.get(number, ""))._replace(
                title=titles.get(number, ""), role=roles.get(number, "body")
            )
            for number in range(1, count + 1)
        ]
        return Read(read_metadata(document), leaves, [])
    finally:
        document.close()


def drawn(path: Path, numbers: list[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages as PNG in grey, one for each number (from 1), as they are shown.

    Args:
        path: of the file.
        numbers: of pages.
        dpi: dots an inch; less where a page is so large that it would be too much.
        limits: of which `pages` holds.
    """
    document = _open(path)
    try:
        count = count_pages(document, path, limits)
        for number in numbers:
            if not 1 <= number <= count:
                raise InvalidInputError(
                    f"{path.name} has no page {number}", hint="Pass one of its pages."
                )
            yield _png(document, number, dpi, path)
    finally:
        document.close()


def _open(path: Path) -> pdfium.PdfDocument:
    import pypdfium2 as pdfium

    document = open_pdf(path)
    with contextlib.suppress(pdfium.PdfiumError):
        document.init_forms()  # what people filled in is drawn then, even without a drawn form
    return document


def _page(document: pdfium.PdfDocument, index: int, path: Path) -> Page | None:
    """A page; None if PDFium cannot load it."""
    try:
        _put_in_filled(document, index)
        return read_page(document, index, _PAGE_LETTERS)
    except TooMuchText:
        raise LimitExceededError(
            f"{path.name} has more than {_PAGE_LETTERS:,} letters on page {index + 1}",
            hint="Split it.",
            limit="characters",
        ) from None
    except Exception:  # noqa: BLE001 - one page that nobody foresaw does not cost the others
        return None


def _put_in_filled(document: pdfium.PdfDocument, index: int) -> None:
    """What was filled in or written over a page becomes part of it: only then is it text."""
    import pypdfium2.raw as api

    written = (api.FPDF_ANNOT_WIDGET, api.FPDF_ANNOT_FREETEXT, api.FPDF_ANNOT_STAMP)
    page = document[index]
    try:
        for number in range(min(api.FPDFPage_GetAnnotCount(page.raw), _MOST_NOTES)):
            note = api.FPDFPage_GetAnnot(page.raw, number)
            kind = api.FPDFAnnot_GetSubtype(note)
            api.FPDFPage_CloseAnnot(note)
            if kind in written:
                api.FPDFPage_Flatten(page.raw, api.FLAT_NORMALDISPLAY)
                return
    finally:
        page.close()


def _drawn_as(document: pdfium.PdfDocument, index: int, page: Page) -> str:
    """What is on a page of little text beside it: `picture`, `lines` or nothing.

    A picture whose text was laid unseen over most of what stands on it has been read: that text is
    its own, and `read` is the answer.
    """
    import pypdfium2.raw as api

    if page.num_glyphs > _LITTLE:
        return ""
    sheet = document[index]
    try:
        area, covered, others = max(page.width * page.height, 1.0), 0.0, 0
        unseen: list[Box] = []
        for each in sheet.get_objects(max_depth=3):
            if each.type == api.FPDF_PAGEOBJ_IMAGE:
                left, bottom, right, top = each.get_bounds()
                covered += abs((right - left) * (top - bottom))
            elif each.type != api.FPDF_PAGEOBJ_TEXT:
                others += 1
            elif api.FPDFTextObj_GetTextRenderMode(each.raw) == api.FPDF_TEXTRENDERMODE_INVISIBLE:
                unseen.append(each.get_bounds())
        others += api.FPDFPage_GetAnnotCount(sheet.raw)
        if unseen and covered > _PICTURE * area and _lies_over(sheet, unseen):
            return "read"
    except Exception:  # noqa: BLE001 - what cannot be told apart is drawn, and read from its picture
        return "lines"
    finally:
        sheet.close()
    if covered > _PICTURE * area:
        return "picture"
    return "lines" if others or covered else ""


def _lies_over(sheet: pdfium.PdfPage, boxes: list[Box]) -> bool:
    """Whether boxes cover most of what a page shows: edges of letters, wherever they are."""
    from PIL import ImageDraw, ImageFilter

    left, bottom, right, top = sheet.get_cropbox()
    scale = min(_LOOK / 72, (_MOST_LOOKED / max(1.0, (right - left) * (top - bottom))) ** 0.5)
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
    return bool(edges.crop(inner).histogram()[255] <= (1 - _COVERS) * before)


def _find_blocks(pages: list[Page]) -> tuple[dict[int, tuple[Block, ...]], dict[int, Role]]:
    """The blocks of each page, of which a running head is one and a page number is not; and the
    pages that are no text.
    """
    try:
        by_page, roles = blocks_by_page(pages)
    except Exception:  # noqa: BLE001 - a layout nobody foresaw: its lines as they stand
        texts = {
            page.number: "\n".join(piece.text for piece in page.pieces if not piece.aside)
            for page in pages
        }
        return {number: (Block(text, page=number),) for number, text in texts.items()}, {}
    blocks = {
        number: tuple(
            replace(block, kind="paragraph") if block.kind == "page" else block
            for block in here
            if block.text and not (block.kind == "page" and _counts(block.text))
        )
        for number, here in by_page.items()
    }
    return blocks, roles


def _titles(document: pdfium.PdfDocument, pages: list[Page], count: int) -> dict[int, str]:
    """By page, the first entry of the table of contents on it, else the last one before it."""
    starts: dict[int, list[str]] = {}
    for entry in outline(document, pages):
        starts.setdefault(entry.page, []).append(entry.title)
    made: dict[int, str] = {}
    before = ""
    for number in range(1, count + 1):
        here = starts.get(number, [before])
        made[number], before = here[0], here[-1]
    return made


def _counts(text: str) -> bool:
    """Whether a line at a page's edge is only its number."""
    return bool(_NUMBER.fullmatch(text))


def _leaf(page: Page | None, blocks: tuple[Block, ...], drawn_as: str) -> Leaf:
    if page is None:
        return Leaf(lack="the page is damaged")
    text = Leaf(blocks).text
    if not text.strip():
        if drawn_as in ("picture", "read"):
            return Leaf(lack="a picture without a text layer")
        return Leaf(lack="drawn without a text layer" if drawn_as or page.num_glyphs else "")
    bad = fault(text, page.num_unknown)
    if not bad and drawn_as == "picture" and page.num_glyphs <= _LITTLE:
        bad = "a picture with little text on it"
    return Leaf(blocks, bad)


def _png(document: pdfium.PdfDocument, number: int, dpi: int, path: Path) -> bytes:
    import pypdfium2 as pdfium

    try:
        page = document[number - 1]
        try:
            width, height = page.get_size()
            if not (1 <= width <= 1e6 and 1 <= height <= 1e6):
                raise InvalidInputError(
                    f"page {number} of {path.name} has no sensible size", hint=_DAMAGED
                )
            scale = min(dpi / 72, (_MOST_DRAWN / (width * height)) ** 0.5)
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
