"""OCR of files: pages in, and out of them text, JSON, hOCR or a searchable PDF.

    plan = plan_files(paths, options, limits)
    for one in read_files(plan, reader): ...

Pages of all files go through the same workers, so that many small files are read as fast as one
large one. A page that cannot be read does not stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.documents.ordered import run_ordered
from anyrig.documents.reading import PageImage, digest_file
from anyrig.errors import AnyrigError, InvalidInputError, InvalidOptionError
from anyrig.storage.files import write_atomic
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import FORMATS as PICTURES
from anyrig.text.formats.picture import list_pillow_formats
from anyrig.text.garbage import is_readable
from anyrig.text.sandbox import DPI, ReaderPool

if TYPE_CHECKING:
    from anyrig.documents.ocr import OcrFormat
    from anyrig.documents.ocr.page import Box, OcrLine, ReadPage
    from anyrig.documents.ocr.run import OcrReader, PageResult
    from anyrig.text.document import Document
    from anyrig.text.sandbox import RenderedPage

_PAGE_BREAK = "\n\n"
_DPI_BOUNDS = (40.0, 2400.0)
_DEFAULT_DPI = 200.0


@dataclass(frozen=True)
class PageOptions:
    """Which pages are read, and how they are drawn."""

    pages: str = ""
    """Such as `1-3,7`; all if empty."""
    dpi: int = DPI
    """Resolution at which pages of a PDF are drawn."""
    always: bool = False
    """Whether pages with text of their own are read as well."""
    keep_images: bool = False
    """Whether the images are needed afterwards, to be put into a PDF."""


@dataclass(frozen=True)
class FilePage:
    """One page of a file, after OCR."""

    number: int
    page: ReadPage | None = None
    own_text: str = ""
    """The text of the file itself, if that was used."""
    error: str = ""
    cached: bool = False
    image: bytes = field(default=b"", repr=False)

    @property
    def text(self) -> str:
        return self.page.text if self.page is not None else self.own_text


@dataclass(frozen=True)
class OcrFile:
    """A file of which every page was read, or the reason why it could not be opened."""

    path: Path
    format: str = ""
    pages: tuple[FilePage, ...] = ()
    error: AnyrigError | None = None

    @property
    def text(self) -> str:
        return _PAGE_BREAK.join(page.text for page in self.pages).strip("\n") + "\n"

    @property
    def failed_pages(self) -> list[FilePage]:
        return [page for page in self.pages if page.error]

    def to_json(self) -> dict[str, Any]:
        """The file's text with the boxes of lines and words."""
        return {
            "file": str(self.path),
            "format": self.format,
            "pages": [_page_to_json(page) for page in self.pages],
            "failed": [{"page": page.number, "error": page.error} for page in self.failed_pages],
            "error": self.error.message if self.error else "",
        }

    def to_text(self, format: OcrFormat) -> str:
        """The file as plain text, JSON or hOCR."""
        if format == "json":
            return json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n"
        if format == "hocr":
            pages = [(page.number, page.page) for page in self.pages if page.page]
            return format_hocr(self.path.name, pages)
        return self.text

    def write(self, path: Path, format: OcrFormat) -> None:
        if format == "pdf":
            _write_pdf(self, path)
        else:
            write_atomic(path, self.to_text(format))

    def drop_images(self) -> OcrFile:
        return replace(self, pages=tuple(replace(page, image=b"") for page in self.pages))


def _page_to_json(page: FilePage) -> dict[str, Any]:
    data: dict[str, Any] = {"number": page.number}
    if page.error:
        return {**data, "source": "none", "text": "", "error": page.error}
    if page.page is None:
        return {**data, "source": "text", "text": page.own_text}
    return {**data, "source": "ocr", "cached": page.cached, **page.page.to_json()}


# -- which pages -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedFile:
    path: Path
    document: Document | None = None
    error: AnyrigError | None = None
    """Why it could not be opened."""
    numbers: tuple[int, ...] = ()
    """The pages whose images are read."""


@dataclass(frozen=True)
class OcrPlan:
    """Files that were opened, and which of their pages are read."""

    options: PageOptions
    limits: Limits
    files: tuple[PlannedFile, ...]

    @property
    def num_pages(self) -> int:
        return sum(len(file.numbers) for file in self.files)


def plan_files(
    paths: Sequence[Path],
    options: PageOptions,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> OcrPlan:
    """Open every file; the error of one that cannot be opened is part of the plan."""
    files = []
    with ReaderPool(limits=limits) as pool:
        for path in paths:
            try:
                document = pool.read_file(path)
                files.append(PlannedFile(path, document, numbers=_select_pages(options, document)))
            except AnyrigError as error:
                files.append(PlannedFile(path, error=error))
    return OcrPlan(options, limits, tuple(files))


def _select_pages(options: PageOptions, document: Document) -> tuple[int, ...]:
    if document.format not in (*PICTURES, "pdf"):
        raise InvalidInputError(
            f"{document.path.name} has no pages that can be drawn ({document.format})",
            hint="OCR reads PDFs and images; other files are read as text.",
        )
    pages = document.parts("page")
    numbers = parse_pages(options.pages, len(pages))
    scanned = {scan.page for scan in document.scans}
    with_text = {
        page.page
        for page in pages
        if page.text.strip() and page.page not in scanned and is_readable(page.text)
    }
    return tuple(number for number in numbers if options.always or number not in with_text)


def parse_pages(text: str, count: int) -> list[int]:
    """The pages that `1-3,7` or `5-` names, of `count`."""
    if not text.strip():
        return list(range(1, count + 1))
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        is_range = all(not one or (one.isascii() and one.isdigit()) for one in (first, last))
        if not (first or last) or not is_range:
            raise InvalidOptionError(
                "pages", "must be page numbers such as 3, 1-4 or 1-3,7", value=text
            )
        start = int(first or 1)
        end = int(last or count) if dash else start
        numbers.update(range(max(1, start), min(end, count) + 1))
    if not numbers:
        raise InvalidInputError(
            f"there is no page {text} of {count}", hint=f"Pages go from 1 to {count}."
        )
    return sorted(numbers)


# -- reading ---------------------------------------------------------------------------------------


class _PageStep(NamedTuple):
    """A page of a file, or the end of one."""

    file: PlannedFile
    digest: str
    drawn: RenderedPage | None = None


def read_files(plan: OcrPlan, reader: OcrReader) -> Iterator[FilePage | OcrFile]:
    """Every page as it is read, and every file once all its pages are."""
    read: dict[int, FilePage] = {}  # of the file whose pages come

    def join(step: _PageStep, results: list[PageResult]) -> FilePage | OcrFile:
        if step.drawn is None:
            found = _finish_file(step.file, read, plan.options)
            read.clear()
            return found
        page = _build_page(step.file, step.drawn, results, plan.options)
        read[page.number] = page
        return page

    return run_ordered(_draw_pages(plan), _expand, reader.pages, join)


def _draw_pages(plan: OcrPlan) -> Iterator[_PageStep]:
    with ReaderPool(limits=plan.limits) as pool:
        for file in plan.files:
            digest = digest_file(file.path) if file.numbers else ""
            for drawn in pool.render(file.path, file.numbers, dpi=plan.options.dpi):
                yield _PageStep(file, digest, drawn)
            yield _PageStep(file, digest)


def _expand(step: _PageStep) -> tuple[_PageStep, list[PageImage]]:
    if step.drawn is None or step.drawn.error:
        return step, []
    return step, [PageImage(step.drawn.data, step.digest)]


def _build_page(
    file: PlannedFile, drawn: RenderedPage, results: Sequence[PageResult], options: PageOptions
) -> FilePage:
    if drawn.error:
        return FilePage(drawn.number, error=drawn.error)
    (found,) = results
    reason = found.failure.message if found.failure else "no answer"
    is_pdf = file.document is not None and file.document.format == "pdf"
    return FilePage(
        drawn.number, found.page, error="" if found.page is not None else reason,
        cached=found.is_cached, image=drawn.data if options.keep_images and not is_pdf else b"",
    )  # fmt: skip


def _finish_file(file: PlannedFile, read: Mapping[int, FilePage], options: PageOptions) -> OcrFile:
    """The pages that were read, and those whose own text is used."""
    if file.document is None:
        return OcrFile(file.path, error=file.error)
    own = {page.page: page.text for page in file.document.parts("page")}
    numbers = parse_pages(options.pages, len(own))
    pages = tuple(read.get(n) or FilePage(n, own_text=own[n]) for n in numbers)
    return OcrFile(file.path, file.document.format, pages)


# -- PDF -------------------------------------------------------------------------------------------


def _write_pdf(file: OcrFile, path: Path) -> None:
    """The pages of a PDF with a text layer on those that were read, or pages made of images."""
    from anyrig.documents.ocr import pdf

    with ExitStack() as stack:
        if file.format == "pdf":
            document = stack.enter_context(pdf.PdfWriter(file.path))
            for page in file.pages:
                if page.page is not None:
                    document.layer(page.number - 1, page.page)
        else:
            document = stack.enter_context(pdf.PdfWriter())
            for page in file.pages:
                document.add(_build_pdf_page(file, page))
        document.save(path)


def _build_pdf_page(file: OcrFile, page: FilePage) -> Any:
    """An image as a page; one that could not be read is there without text."""
    from anyrig.documents.ocr import pdf
    from anyrig.documents.ocr.page import ReadPage

    original = file.path.read_bytes() if file.format == "jpg" else b""
    dpi = read_resolution(file.path, page.number)
    if page.page is not None:
        data = original if original and pdf.plain_jpeg(original, page.page) else page.image
        return pdf.PdfPicture(data, page.page, dpi)
    if not page.image:
        return pdf.PdfPicture(b"", ReadPage((), round(8 * dpi), round(11 * dpi)), dpi)
    from anyrig.documents.ocr.picture import decode_picture

    height, width = decode_picture(page.image).shape
    return pdf.PdfPicture(page.image, ReadPage((), width, height), dpi)


def read_resolution(path: Path, number: int = 1) -> float:
    """Dots per inch of an image, if its file says something plausible."""
    from PIL import Image

    try:
        with Image.open(path, formats=list_pillow_formats()) as image:
            image.seek(number - 1)
            dpi = float(image.info.get("dpi", (0, 0))[0])
    except (OSError, EOFError, ValueError, TypeError, SyntaxError, Image.DecompressionBombError):
        return _DEFAULT_DPI
    return dpi if _DPI_BOUNDS[0] <= dpi <= _DPI_BOUNDS[1] else _DEFAULT_DPI


# -- hOCR ------------------------------------------------------------------------------------------

_HOCR_HEAD = """<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="{language}">
<head>
<meta charset="utf-8"/>
<title>{title}</title>
<meta name="ocr-system" content="{engine}"/>
<meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_line ocrx_word"/>
</head>
<body>
"""


def format_hocr(title: str, pages: Iterable[tuple[int, ReadPage]]) -> str:
    """Numbered pages as one file."""
    every = list(pages)
    first = every[0][1] if every else None
    language = escape(first.language if first else "", quote=True)
    engine = escape(first.engine if first else "", quote=True)
    head = _HOCR_HEAD.format(language=language, title=escape(title), engine=engine)
    body = "".join(line for number, page in every for line in _format_page(number, page))
    return f"{head}{body}</body>\n</html>\n"


def _format_page(number: int, page: ReadPage) -> Iterator[str]:
    yield (
        f'<div class="ocr_page" id="page_{number}" '
        f'title="bbox 0 0 {page.width} {page.height}; ppageno {number - 1}">\n'
    )
    block = -1
    for count, line in enumerate(page.lines, 1):
        if line.block != block:
            if block >= 0:
                yield "</div>\n"
            block = line.block
            yield f'<div class="ocr_carea" id="block_{number}_{block + 1}">\n'
        yield from _format_line(f"{number}_{count}", line)
    yield "</div>\n</div>\n" if block >= 0 else "</div>\n"


def _format_line(name: str, line: OcrLine) -> Iterator[str]:
    yield f'<span class="ocr_line" id="line_{name}" title="{_format_bounds(line.box)}">'
    for count, word in enumerate(line.words, 1):
        title = f"{_format_bounds(word.box)}; x_wconf {round(100 * word.confidence)}"
        space = " " if count < len(line.words) else ""
        yield f'<span class="ocrx_word" id="word_{name}_{count}" title="{title}">'
        yield f"{escape(word.text)}</span>{space}"
    yield "</span>\n"


def _format_bounds(box: Box) -> str:
    across, down = [point[0] for point in box], [point[1] for point in box]
    edges = (min(across), min(down), max(across), max(down))
    return "bbox " + " ".join(str(max(0, round(edge))) for edge in edges)
