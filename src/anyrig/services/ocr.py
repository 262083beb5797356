"""Files with pages that are pictures, from the file to text, JSON, hOCR or a searchable PDF.

    plan = plan_of(order)
    for done in read_files(plan, reader): ...

Pages of all files go through the same workers, so many small files are read as fast as one large
one. A page that cannot be read is named and the rest go on; what was read is kept by the reader's
store, so that a run which was cut off goes on where it was.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from anyrig.documents.ocr import hocr
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.storage import files
from anyrig.text.apart import Apart
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import FORMATS as PICTURES
from anyrig.text.formats.picture import pillow_formats
from anyrig.text.garbage import readable
from anyrig.text.pages import DPI

if TYPE_CHECKING:
    from anyrig.documents.ocr.page import ReadPage
    from anyrig.documents.ocr.run import Found, Pages
    from anyrig.text.pages import Drawn, Page, Paged

Form = Literal["txt", "json", "pdf", "hocr"]
FORMS: tuple[Form, ...] = get_args(Form)
BREAK = "\n\n"
"""Between the pages of a text."""
_DPI_BOUNDS = (40.0, 2400.0)


@dataclass(frozen=True)
class Order:
    """What is wanted of some files."""

    sources: tuple[Path, ...]
    pages: str = ""
    """Such as `1-3,7`; empty is all."""
    dpi: int = DPI
    """At which pages of a PDF are drawn."""
    always: bool = False
    """Whether pages with text of their own are read as well."""
    pictures: bool = False
    """Whether the pictures are wanted back, to be put into a PDF."""


@dataclass(frozen=True)
class PageDone:
    """One page of a file."""

    number: int
    page: ReadPage | None = None
    own_text: str = ""
    """The file's own text, where that was taken."""
    error: str = ""
    kept: bool = False
    picture: bytes = field(default=b"", repr=False)

    @property
    def text(self) -> str:
        """What stands on it."""
        return self.page.text if self.page is not None else self.own_text


@dataclass(frozen=True)
class Done:
    """A file that is through."""

    file: Path
    format: str = ""
    pages: tuple[PageDone, ...] = ()
    error: AnyrigError | None = None

    @property
    def failed(self) -> list[PageDone]:
        """Pages that could not be read."""
        return [page for page in self.pages if page.error]


@dataclass(frozen=True)
class Plan:
    """Files that were opened, and which of their pages are to be read."""

    order: Order
    limits: Limits
    files: tuple[tuple[Path, Paged | AnyrigError, tuple[int, ...]], ...]

    @property
    def num_pages(self) -> int:
        """Pages whose pictures are read."""
        return sum(len(numbers) for _, _, numbers in self.files)


def plan_of(order: Order, limits: Limits = Limits()) -> Plan:  # noqa: B008 - it is frozen
    """Every file opened; one that cannot be is an error of its own."""
    files: list[tuple[Path, Paged | AnyrigError, tuple[int, ...]]] = []
    with Apart(limits) as apart:
        for path in order.sources:
            try:
                paged = apart.pages(path)
                files.append((path, paged, _wanted(order, paged)))
            except AnyrigError as error:
                files.append((path, error, ()))
    return Plan(order, limits, tuple(files))


def _wanted(order: Order, paged: Paged) -> tuple[int, ...]:
    """Pages that must be read from their pictures."""
    if paged.format not in (*PICTURES, "pdf"):
        raise InvalidInputError(
            f"{paged.file.name} has no pages to draw ({paged.format})",
            hint="anyrig ocr reads PDFs and pictures; the text of others is read as it is.",
        )
    asked = numbers_of(order.pages, len(paged.pages))
    by_number = {page.number or 1: page for page in paged.pages}
    return tuple(n for n in asked if order.always or not _has_text(by_number[n]))


def _has_text(page: Page) -> bool:
    return bool(page.text.strip()) and not page.lack and readable(page.text)


def numbers_of(text: str, count: int) -> list[int]:
    """The pages that `1-3,7` or `5-` names, of `count`.

    InvalidInputError where there are none such.
    """
    if not text.strip():
        return list(range(1, count + 1))
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first or last) or not all(not one or one.isascii() and one.isdigit()
                                          for one in (first, last)):  # fmt: skip
            raise InvalidInputError(f"--pages {text} names no pages", hint="Write 3, 1-4 or 1-3,7.")
        start = int(first or 1)
        end = int(last or count) if dash else start
        found += range(max(1, start), min(end, count) + 1)
    if not found:
        raise InvalidInputError(
            f"there is no page {text} of {count}", hint=f"Pages go from 1 to {count}."
        )
    return sorted(set(found))


# ---------------------------------------------------------------- reading


@dataclass
class _File:
    """A file on its way: pages come in order."""

    path: Path
    paged: Paged
    numbers: tuple[int, ...]
    pages: list[PageDone] = field(default_factory=list)


def read_files(plan: Plan, reader: Pages) -> Iterator[PageDone | Done]:
    """Every page as it is read, and every file once all its pages are."""
    told: deque[tuple[_File, Drawn] | Done | _File] = deque()

    def pictures() -> Iterator[bytes]:
        with Apart(plan.limits) as apart:
            for path, paged, numbers in plan.files:
                if isinstance(paged, AnyrigError):
                    told.append(Done(path, error=paged))
                    continue
                file = _File(path, paged, numbers)
                for drawn in apart.pictures(path, numbers, dpi=plan.order.dpi):
                    told.append((file, drawn))
                    if not drawn.lack:
                        yield drawn.data
                told.append(file)

    for found in reader.pages(pictures()):
        yield from _settled(told, plan.order)
        entry = told.popleft()
        assert isinstance(entry, tuple)
        file, drawn = entry
        yield _page_done(file, drawn, found, plan.order)
    yield from _settled(told, plan.order)


def _settled(
    told: deque[tuple[_File, Drawn] | Done | _File], order: Order
) -> Iterator[PageDone | Done]:
    """What needs no answer of the reader: pages that could not be drawn, files that are through."""
    while told:
        first = told[0]
        if isinstance(first, tuple):
            file, drawn = first
            if not drawn.lack:
                return
            made = PageDone(drawn.number, error=drawn.lack)
            file.pages.append(made)
            yield made
        elif isinstance(first, _File):
            yield _file_done(first, order)
        else:
            yield first
        told.popleft()


def _page_done(file: _File, drawn: Drawn, found: Found, order: Order) -> PageDone:
    said = found.failure.message if found.failure else "no answer"
    made = PageDone(
        drawn.number, found.page, error="" if found.page is not None else said, kept=found.kept,
        picture=drawn.data if order.pictures and file.paged.format != "pdf" else b"",
    )  # fmt: skip
    file.pages.append(made)
    return made


def _file_done(file: _File, order: Order) -> Done:
    """A file with the pages that were read, and those whose own text is taken."""
    read = {page.number: page for page in file.pages}
    own = {page.number or 1: page.text for page in file.paged.pages}
    asked = numbers_of(order.pages, len(file.paged.pages))
    pages = tuple(read.get(n) or PageDone(n, own_text=own[n]) for n in asked)
    return Done(file.path, file.paged.format, pages)


# ---------------------------------------------------------------- writing


def text_of(done: Done) -> str:
    """All that stands in a file."""
    return BREAK.join(page.text for page in done.pages).strip("\n") + "\n"


def json_of(done: Done) -> dict[str, Any]:
    """A file for programs, with the boxes of lines and words."""
    return {
        "file": str(done.file),
        "format": done.format,
        "pages": [_page_json(page) for page in done.pages],
        "failed": [{"page": page.number, "error": page.error} for page in done.failed],
        "error": done.error.message if done.error else "",
    }


def _page_json(page: PageDone) -> dict[str, Any]:
    told: dict[str, Any] = {"number": page.number}
    if page.error:
        return {**told, "source": "none", "text": "", "error": page.error}
    if page.page is None:
        return {**told, "source": "text", "text": page.own_text}
    return {**told, "source": "ocr", "kept": page.kept, **page.page.to_json()}


def write(done: Done, path: Path, form: Form) -> None:
    """Put what was read of a file at a path."""
    if form == "pdf":
        _write_pdf(done, path)
    else:
        files.write_atomic(path, written(done, form))


def written(done: Done, form: Form) -> str:
    """What was read of a file, as text, JSON or hOCR."""
    if form == "json":
        return json.dumps(json_of(done), indent=1, ensure_ascii=False) + "\n"
    if form == "hocr":
        return hocr.written(done.file.name, [(p.number, p.page) for p in done.pages if p.page])
    return text_of(done)


def _write_pdf(done: Done, path: Path) -> None:
    """The pages of a PDF with words on those that were read, or pages made of pictures."""
    from anyrig.documents.ocr import pdf

    with ExitStack() as stack:
        if done.format == "pdf":
            document = stack.enter_context(pdf.Document(done.file))
            for page in done.pages:
                if page.page is not None:
                    document.layer(page.number - 1, page.page)
        else:
            document = stack.enter_context(pdf.Document())
            for page in done.pages:
                document.add(_picture(done, page))
        document.save(path)


def _picture(done: Done, page: PageDone) -> Any:
    """A picture for a page of its own; one that could not be read is there without words."""
    from anyrig.documents.ocr import pdf
    from anyrig.documents.ocr.page import ReadPage

    whole = done.file.read_bytes() if done.format == "jpg" else b""
    dpi = resolution(done.file, page.number)
    if page.page is not None:
        data = whole if whole and pdf.plain_jpeg(whole, page.page) else page.picture
        return pdf.Picture(data, page.page, dpi)
    if not page.picture:
        return pdf.Picture(b"", ReadPage((), round(8 * dpi), round(11 * dpi)), dpi)
    from anyrig.documents.ocr.picture import grey

    height, width = grey(page.picture).shape
    return pdf.Picture(page.picture, ReadPage((), width, height), dpi)


def resolution(path: Path, number: int = 1) -> float:
    """Dots an inch of a picture, as its file says; a page's width at 200 where it says nothing."""
    from PIL import Image

    try:
        with Image.open(path, formats=pillow_formats()) as image:
            image.seek(number - 1)
            told = float(image.info.get("dpi", (0, 0))[0])
    except (OSError, EOFError, ValueError, TypeError, SyntaxError, Image.DecompressionBombError):
        return 200.0
    return told if _DPI_BOUNDS[0] <= told <= _DPI_BOUNDS[1] else 200.0


def only_texts(done: Done) -> Done:
    """The same without its pictures."""
    return replace(done, pages=tuple(replace(page, picture=b"") for page in done.pages))


def outputs(sources: Sequence[Path], folder: Path, form: Form) -> list[Path]:
    """A file in a folder for each source: by its name, with its ending where two share a name."""
    stems = [source.stem for source in sources]
    names: list[str] = []
    for source in sources:
        name = source.stem if stems.count(source.stem) == 1 else source.name
        taken, count = f"{name}.{form}", 2
        while taken in names:
            taken, count = f"{name}-{count}.{form}", count + 1
        names.append(taken)
    return [folder / name for name in names]
