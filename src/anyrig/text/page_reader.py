"""A file page by page, and pictures of its pages: what `sandbox.py` runs in another process.

Formats with pages give those (a PDF, a TIFF), and a message gives itself and its attachments. A
plain text stays as it is, letter for letter, so that an offset in it is one in the file. All other
formats are read as `files.read` reads them for a book.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError
from anyrig.text import files
from anyrig.text.document import Block, Chapter, Document, Metadata, Scan
from anyrig.text.formats import compressed, eml, picture
from anyrig.text.formats.limits import Limits
from anyrig.text.garbage import find_fault
from anyrig.text.labels import clean_labels, replace_invalid

if TYPE_CHECKING:
    from anyrig.text.formats.eml import Attachment, Email

OnPage = Callable[[int, int], None]
"""Called while pages are read, with the number of the page and of all."""
DPI = 300
"""At which pages are drawn: what OCR engines were trained on."""
_SMALL_PIXELS = 60_000
"""A picture inside a message that is not a page: a logo, an icon."""
_PICTURE = "a picture without a text layer"


@dataclass(frozen=True)
class RenderedPage:
    """The picture of a page."""

    number: int
    data: bytes = field(default=b"", repr=False)
    """A PNG file in grey; empty if it cannot be drawn."""
    error: str = ""
    """Why it cannot be drawn."""


def read_pages(path: Path, limits: Limits, on_page: OnPage) -> Document:
    """A file by its own text; each page keeps what stands on it."""
    with files.guard_reading(path, limits):
        format = files.detect_format(path, limits=limits)
        if format == "gz":
            with compressed.unpack(path, limits) as inner:
                return replace(read_pages(inner, limits, on_page), path=path)
        if format == "pdf":
            from anyrig.text.formats import pdf

            document = pdf.read_pages(path, limits, on_page)
        elif format in picture.FORMATS:
            document = _read_picture(path, format, limits)
        elif format in eml.FORMATS:
            document = _read_message(path, limits, on_page)[0]
        elif format == "txt":
            document = _read_plain(path, limits)
        else:
            document = files.read(path, limits=limits)
        return _finish(replace(document, path=path), limits)


def render_pages(path: Path, numbers: Sequence[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages as PNG, one for each number; `InvalidInputError` at the first that cannot be drawn."""
    with files.guard_reading(path, limits):
        format = files.detect_format(path, limits=limits)
        if format == "gz":
            with compressed.unpack(path, limits) as inner:
                yield from render_pages(inner, numbers, dpi, limits)
        elif format == "pdf":
            from anyrig.text.formats import pdf

            yield from pdf.render(path, list(numbers), dpi, limits)
        elif format in picture.FORMATS:
            yield from picture.draw_pages(path, format, list(numbers), limits)
        elif format in eml.FORMATS:
            yield from _render_attachments(path, numbers, dpi, limits)
        else:
            raise InvalidInputError(
                f"{path.name} has no pages that can be drawn", hint="Pass a PDF or a picture."
            )


def _read_plain(path: Path, limits: Limits) -> Document:
    from anyrig.text.decode import decode
    from anyrig.text.formats.plain import build_empty_error, read_content, refuse_binary

    text = decode(read_content(path, limits), path.name).removeprefix("\ufeff")
    refuse_binary(text, path.name)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise build_empty_error(path.name)
    bad = find_fault(text)
    warnings = (f"the text of {path.name} may be of no use: {bad}",) if bad else ()
    return replace(Document.from_text(text), warnings=warnings)


def _read_picture(path: Path, format: str, limits: Limits) -> Document:
    numbers = range(1, picture.count_pages(path, format, limits) + 1)
    moving = format != "tiff" and picture.is_animation(path, format, limits)
    warning = f"{path.name} is an animation; only its first picture is taken"
    return Document(
        Metadata(),
        (Chapter("", tuple(Block("", page=number) for number in numbers)),),
        format=format,
        warnings=(warning,) if moving else (),
        scans=tuple(Scan(number, _PICTURE) for number in numbers),
    )


# -- messages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PicturePlace:
    """Where the picture of a message's page lies: in which attachment, on which of its pages."""

    attachment: int
    number: int


def _list_messages(path: Path, limits: Limits) -> list[Email]:
    return [each for top in eml.read_messages(path, limits) for each in eml.iterate_thread(top)]


def _read_message(
    path: Path, limits: Limits, on_page: OnPage
) -> tuple[Document, list[_PicturePlace | None]]:
    """A message and its attachments as pages; and where the picture of each page lies."""
    chapters: list[Chapter] = []
    scans: list[Scan] = []
    places: list[_PicturePlace | None] = []
    warnings: list[str] = []
    messages = _list_messages(path, limits)
    num_attachments = sum(len(message.attachments) for message in messages)
    at = 0
    for message in messages:
        places.append(None)
        blocks = message.blocks or [Block("")]
        numbered = tuple(replace(block, page=len(places)) for block in blocks)
        chapters.append(Chapter(message.subject, numbered))
        warnings += message.warnings
        for attachment in message.attachments:
            inner = _read_attachment(attachment, limits, num_attachments, on_page, warnings)
            if inner is not None:
                before = len(places)
                places += [_PicturePlace(at, part.page) for part in inner.parts("page")]
                chapters += _number_pages(inner, before)
                scans += [replace(scan, page=scan.page + before) for scan in inner.scans]
            at += 1
            _check_page_count(len(places), path, limits)
    if not scans and not any(block.text for chapter in chapters for block in chapter.blocks):
        raise InvalidInputError(f"{path.name} has no text in it", hint="Pass a file with text.")
    if len(places) == 1:
        bare = tuple(replace(block, page=0) for block in chapters[0].blocks)
        chapters = [replace(chapters[0], blocks=bare)]
    document = Document(
        Metadata(title=messages[0].subject if messages else ""), tuple(chapters),
        format=eml.detect_format(path), warnings=tuple(warnings), scans=tuple(scans),
    )  # fmt: skip
    return document, places


def _number_pages(document: Document, before: int) -> Iterator[Chapter]:
    """Chapters whose pages follow others; each chapter is a page where the file has none."""
    has_pages = document.has_pages
    for chapter in document.chapters:
        kept = [block for block in chapter.blocks if block.kind != "page"]
        if not has_pages:
            if not any(block.text for block in kept):
                continue
            before += 1
        yield replace(
            chapter, blocks=tuple(replace(block, page=block.page + before) for block in kept)
        )


def _check_page_count(count: int, path: Path, limits: Limits) -> None:
    if count > limits.pages:
        raise LimitExceededError(
            f"{path.name} has more than {limits.pages:,} pages with its attachments",
            hint="Save the attachments by themselves.",
            limit="pages",
        )


def _read_attachment(
    attachment: Attachment,
    limits: Limits,
    num_attachments: int,
    on_page: OnPage,
    warnings: list[str],
) -> Document | None:
    """None, and a warning, where it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = eml.save_attachment(attachment, Path(folder))
            format = files.detect_format(path, limits=limits)
            if attachment.inside and format in picture.FORMATS and _is_small(path, format, limits):
                warnings.append("small pictures inside the message, as logos are, were left out")
                return None
            within = eml.limit_attachment(format, limits, num_attachments)
            inner = read_pages(path, within, on_page)
        except AnyrigError as error:
            warnings.append(eml.describe_error(attachment, error))
            return None
    warnings.extend(f"{attachment.name}: {warning}" for warning in inner.warnings)
    name = attachment.name
    return replace(
        inner,
        chapters=tuple(
            replace(chapter, title=f"{name}: {chapter.title}" if chapter.title else name)
            for chapter in inner.chapters
        ),
    )


def _is_small(path: Path, format: str, limits: Limits) -> bool:
    width, height = picture.read_size(path, format, limits)
    return width * height < _SMALL_PIXELS


def _render_attachments(
    path: Path, numbers: Sequence[int], dpi: int, limits: Limits
) -> Iterator[bytes]:
    """Pages of the attachments of a message; each run of one attachment's is drawn at once."""
    _, places = _read_message(path, limits, lambda _page, _of: None)
    attachments = [one for message in _list_messages(path, limits) for one in message.attachments]

    def find_place(number: int) -> _PicturePlace:
        place = places[number - 1] if 1 <= number <= len(places) else None
        if place is None:
            raise InvalidInputError(
                f"{path.name} has no picture of page {number}", hint="Give another."
            )
        return place

    for at, run in groupby(map(find_place, numbers), key=lambda place: place.attachment):
        with tempfile.TemporaryDirectory() as folder:
            file = eml.save_attachment(attachments[at], Path(folder))
            format = files.detect_format(file, limits=limits)
            within = eml.limit_attachment(format, limits, len(attachments))
            yield from render_pages(file, [place.number for place in run], dpi, within)


# -- the whole -------------------------------------------------------------------------------------


def _finish(document: Document, limits: Limits) -> Document:
    """With labels and characters that can be shown, and no more text than there may be."""
    num_characters = sum(len(block.text) for block in document.blocks)
    if num_characters > limits.characters:
        raise LimitExceededError(
            f"{document.path.name} contains {num_characters:,} characters of text",
            hint="Split it.",
            limit="characters",
        )
    chapters = tuple(
        replace(chapter, blocks=tuple(map(_clean_block, chapter.blocks)))
        for chapter in document.chapters
    )
    scans = tuple(replace(scan, layer=replace_invalid(scan.layer)) for scan in document.scans)
    return clean_labels(replace(document, chapters=chapters, scans=scans))


def _clean_block(block: Block) -> Block:
    text = replace_invalid(block.text)
    return block if text == block.text else replace(block, text=text)
