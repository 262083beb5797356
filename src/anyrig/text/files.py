"""A path to a document: the format is found by content first, then by name.

    document = read(Path("book.epub"))

Whatever is wrong with a file is a single `InvalidInputError` with a hint; a reader writes nothing,
runs nothing, and fetches nothing from the network. `sandbox.py` calls this in another process.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, ProtectedFileError
from anyrig.text.decode import PDF_HEAD
from anyrig.text.document import Block, Document
from anyrig.text.formats import compressed, memory, ole, picture
from anyrig.text.formats.limits import Limits, OnPage
from anyrig.text.labels import clean_labels, one_line, replace_invalid

FORMATS = {
    "epub": "anyrig.text.formats.epub",
    "txt": "anyrig.text.formats.plain",
    "md": "anyrig.text.formats.markdown",
    "html": "anyrig.text.formats.html",
    "docx": "anyrig.text.formats.docx",
    "odt": "anyrig.text.formats.odt",
    "fb2": "anyrig.text.formats.fb2",
    "rtf": "anyrig.text.formats.rtf",
    "pdf": "anyrig.text.formats.pdf",
    "mobi": "anyrig.text.formats.mobi",
    "csv": "anyrig.text.formats.csv",
    "xlsx": "anyrig.text.formats.sheets",
    "xls": "anyrig.text.formats.sheets",
    "ods": "anyrig.text.formats.sheets",
    "pptx": "anyrig.text.formats.pptx",
    "odp": "anyrig.text.formats.odp",
    "eml": "anyrig.text.formats.eml",
    "msg": "anyrig.text.formats.eml",
    "gz": "anyrig.text.formats.compressed",
    **dict.fromkeys(picture.FORMATS, "anyrig.text.formats.picture"),
}
"""Format -> the module whose `read(path, limits)` reads it, imported when it is needed."""
_PAGED = ("pdf", "eml", "msg", "txt", "gz", *picture.FORMATS)
"""Those whose module has `read_pages(path, limits, on_page)` too."""
_RENDERED = ("pdf", "eml", "msg", "gz", *picture.FORMATS)
"""Those whose module has `render_pages(path, numbers, dpi, limits)`."""

_BY_NAME = {
    ".epub": "epub", ".kepub": "epub",
    ".txt": "txt", ".text": "txt", ".asc": "txt", ".log": "txt",
    ".md": "md", ".markdown": "md", ".mdown": "md", ".mkd": "md",
    ".html": "html", ".htm": "html", ".xhtml": "html", ".xht": "html",
    ".docx": "docx", ".docm": "docx", ".odt": "odt", ".fb2": "fb2", ".fbz": "fb2",
    ".rtf": "rtf", ".pdf": "pdf",
    ".mobi": "mobi", ".azw": "mobi", ".azw3": "mobi", ".prc": "mobi", ".kf8": "mobi",
    ".csv": "csv", ".tsv": "csv", ".tab": "csv",
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".xltx": "xlsx", ".xls": "xls", ".ods": "ods",
    ".pptx": "pptx", ".pptm": "pptx", ".ppsx": "pptx", ".odp": "odp",
    ".msg": "msg", ".gz": "gz",
    ".heic": "heic", ".heif": "heic", ".hif": "heic",
    ".eml": "eml", ".mbox": "eml", ".mbx": "eml", ".mht": "eml", ".mhtml": "eml",
    ".png": "png", ".apng": "png", ".jpg": "jpg", ".jpeg": "jpg", ".jpe": "jpg", ".jfif": "jpg",
    ".tif": "tiff", ".tiff": "tiff", ".webp": "webp", ".gif": "gif", ".bmp": "bmp", ".dib": "bmp",
    ".jp2": "jp2", ".j2k": "jp2", ".avif": "avif",
}  # fmt: skip
# Their first bytes tell them: one that has others is not what it is called.
_KNOWN_BY_CONTENT = (
    "epub", "docx", "odt", "pdf", "mobi", "xlsx", "xls", "ods", "pptx", "odp", "msg",
    "gz", *picture.FORMATS,
)  # fmt: skip
_LABELS = {
    ".pdf": "PDF", ".epub": "EPUB", ".docx": "DOCX", ".doc": "Word document", ".odt": "ODT",
    ".mobi": "MOBI", ".azw3": "AZW3", ".xlsx": "XLSX", ".xls": "XLS", ".ods": "ODS",
    ".pptx": "PPTX", ".odp": "ODP", ".msg": "Outlook message",
}  # fmt: skip
"""What people call formats that are never plain text."""
_HEAD_BYTES = 4096
_HEADER = re.compile(
    rb"(?m)^(?:Received|Message-ID|MIME-Version|Return-Path|From|Subject|Date):", re.I
)
_MESSAGE = re.compile(rb"(?:From \S+ .*\r?\n)?[A-Za-z][!-9;-~]*:[ \t]")
# What people give by mistake, what it is, and what to do about it.
_OTHERS = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "Unpack it and pass the file inside."),
    (b"Rar!\x1a\x07", "a RAR archive", "Unpack it and pass the file inside."),
    (b"RIFF", "an audio or video file", "Pass the text, not a recording."),
    (b"ID3", "an audio file", "Pass the text, not a recording."),
    (b"fLaC", "an audio file", "Pass the text, not a recording."),
    (b"OggS", "an audio file", "Pass the text, not a recording."),
    (b"\x7fELF", "a program", "Pass a book or a text."),
    (b"MZ\x90\x00", "a program", "Pass a book or a text."),
    (b"AT&TFORM", "a DjVu file", "Convert it to PDF with a text layer."),
    (b"ITSF", "a compiled help file", "Convert it to EPUB with Calibre."),
    (b"SQLite format 3\x00", "a database", "Pass a book or a text."),
)
# Members of archives, what they are found in, and what to do where that is not read.
_MEMBERS = (
    ("word/document.xml", "docx"), ("xl/workbook.xml", "xlsx"), ("ppt/presentation.xml", "pptx"),
    ("content.xml", "odt"),
)  # fmt: skip
_UNREAD_MEMBERS = (
    ("xl/workbook.bin", "a binary spreadsheet (xlsb)", "Save it as XLSX first."),
    ("index/document.iwa", "a file of Apple's Pages, Numbers or Keynote", "Export it as PDF."),
)
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument."
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""What no plain text has: words such as RIFF, ID3 or TPZ alone make no recording."""
_SELLERS = (
    (b"\xeaDRMION", "Amazon (KFX)"),
    (b"TPZ", "Amazon (Topaz)"),
)
_KNOWN = ", ".join(FORMATS)


def read(
    path: Path,
    *,
    paged: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    on_page: OnPage | None = None,
) -> Document:
    """All that a file says, in reading order; `InvalidInputError` if it cannot be read.

    It parses in this process: `sandbox.ReaderPool` is for files that others made.

    Args:
        path: of a regular file.
        paged: whether each page keeps what stands on it, and pages without text are scans. A
            message then has its attachments as pages, and a plain text stays letter for letter.
            Formats without pages are read as for a book.
        limits: how much it may ask of the machine.
        on_page: called with the number of each page that is read, where a format has pages, and
            with how many there are.
    """
    path = Path(path)
    with guard_reading(path, limits):
        name = detect_format(path, limits=limits)
        reader: Any = importlib.import_module(FORMATS[name])
        by_page = paged and name in _PAGED
        if by_page:
            document = reader.read_pages(path, limits, on_page)
        elif name == "pdf":
            document = reader.read(path, limits, on_page)
        else:
            document = reader.read(path, limits)
        document = _limit_text(replace(document, path=path), limits)
        if not by_page and not any(map(str.isalnum, document.text)):
            raise InvalidInputError(
                f"there is no text in {path.name}",
                hint="If its pages are pictures, read them with OCR first.",
            )
        return clean_labels(document)


def render_pages(path: Path, numbers: Sequence[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages as PNG, one for each number; `InvalidInputError` at the first that cannot be drawn."""
    with guard_reading(path, limits):
        name = detect_format(path, limits=limits)
        if name not in _RENDERED:
            raise InvalidInputError(
                f"{path.name} has no pages that can be drawn", hint="Pass a PDF or a picture."
            )
        reader: Any = importlib.import_module(FORMATS[name])
        yield from reader.render_pages(path, numbers, dpi, limits)


@contextlib.contextmanager
def guard_reading(path: Path, limits: Limits) -> Iterator[None]:
    """Whatever goes wrong with a file inside is one `AnyrigError` on one line.

    Args:
        path: of the file; what is no regular file of a sensible size is refused at once.
        limits: how much it may ask of the machine.
    """
    try:
        _refuse_odd(path, limits)
        yield
    except AnyrigError as error:
        error.message = one_line(error.message)  # it may quote the file
        error.args = (error.message,)
        raise
    except MemoryError as error:
        if memory.is_limited():
            raise InvalidInputError(
                f"{one_line(path.name)} {memory.MESSAGE}", hint=memory.HINT
            ) from error
        raise InvalidInputError(
            f"{one_line(path.name)} needs more memory than there is",
            hint="Split it, or free memory.",
        ) from error
    except Exception as error:  # noqa: BLE001 - the last net: no file may stop a program
        # A fault of a file that its reader did not foresee is still the file's.
        name = _BY_NAME.get(path.suffix.lower(), "text")
        message = f"{path.name} cannot be read as {name} ({type(error).__name__}: {error})"
        raise InvalidInputError(
            one_line(message, 300),
            hint="Get another copy of the file, or convert it to EPUB with another program.",
        ) from error


def detect_format(path: Path, *, limits: Limits = Limits()) -> str:  # noqa: B008 - it is frozen
    """The format of a file, one of `FORMATS`: what it holds counts before what it is called."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"PK\x03\x04") or head.startswith(b"PK\x05\x06"):
        return _detect_zip_format(path, limits)
    found = (
        picture.detect_picture_format(head) or _detect_by_magic(head, path) or _detect_markup(head)
    )
    named = _BY_NAME.get(path.suffix.lower(), "")
    if found == "html" and named == "md":
        return "md"  # one that begins with a piece of HTML
    if found:
        return found
    if named == "epub" and b"PK\x05\x06" in _read_tail(path):
        return _detect_zip_format(path, limits)  # with something before the archive
    suffix = path.suffix.lower()
    if named in _KNOWN_BY_CONTENT or suffix in _LABELS:
        label = f"{_LABELS[suffix]} (damaged?)" if suffix in _LABELS else f"{path.suffix} file"
        raise InvalidInputError(
            f"{path.name} is not a valid {label}",
            hint="Get another copy of the file: this one is damaged, or in another format.",
        )
    return named or ("eml" if _is_message(head) else "txt")


def guess_format(name: str) -> str:
    """The format that a file's name says, whatever it holds; empty if it says none.

    That of a compressed file is what it holds: `txt` of `a.txt.gz`.
    """
    return _BY_NAME.get(Path(compressed.inner_name(name)).suffix.lower(), "")


def _is_message(head: bytes) -> bool:
    """Whether a file that is called nothing known begins as a message or a mailbox does."""
    names = {name.lower() for name in _HEADER.findall(head.partition(b"\n\n")[0])}
    return bool(_MESSAGE.match(head)) and len(names) >= 3


def _refuse_odd(path: Path, limits: Limits) -> None:
    """What is no regular file of a sensible size; a pipe would be waited for without end."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(
            f"{path} cannot be read: {reason}", hint="Pass the path of a file."
        ) from None
    if path.is_dir():
        hint = "Zip its contents to one .epub file." if path.suffix == ".epub" else "Pass a file."
        raise InvalidInputError(f"{path} is a folder", hint=hint)
    if not path.is_file():
        raise InvalidInputError(f"{path} is not a regular file", hint="Save it as a file first.")
    if size == 0:
        raise InvalidInputError(f"{path.name} is empty", hint="Pass a file with text in it.")
    if size > limits.file_bytes:
        raise LimitExceededError(
            f"{path.name} is larger than {limits.file_bytes / 1e6:,.6g} MB",
            hint="Split it, or pass the text alone.",
            limit="file_bytes",
        )
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror}", hint="Check its permissions."
        ) from None


def _detect_by_magic(head: bytes, path: Path) -> str:
    is_text = not _CONTROLS.search(head)
    for magic, seller in _SELLERS:
        if head.startswith(magic) and not is_text:
            raise ProtectedFileError(
                f"{path.name} is protected by {seller}: it cannot be read",
                hint="Ask the seller for a copy without DRM.",
            )
    if _is_pdf(head, path):
        return "pdf"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        return "rtf"
    if head[60:68] in (b"BOOKMOBI", b"TEXtREAd"):
        return "mobi"
    if head.startswith(ole.MAGIC):
        return ole.detect_format(path)
    if head.startswith(compressed.MAGIC):
        compressed.check_content(path)
        return "gz"
    if not is_text:
        _refuse_others(head, path)
    return ""


def _is_pdf(head: bytes, path: Path) -> bool:
    """PDFs may have something before them; a text that speaks of PDF is none."""
    if guess_format(path.name) in ("txt", "md", "html", "csv", "eml"):
        return PDF_HEAD.match(head) is not None
    return b"%PDF-" in head[:1024]


def _refuse_others(head: bytes, path: Path) -> None:
    if head[4:8] == b"ftyp":
        raise InvalidInputError(
            f"{path.name} is an audio or video file", hint="Pass the text, not a recording."
        )
    for magic, what, hint in _OTHERS:
        if head.startswith(magic):
            raise InvalidInputError(f"{path.name} is {what}, not text", hint=hint)


def _detect_markup(head: bytes) -> str:
    text = head.replace(b"\x00", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n").lower()
    if not text.startswith(b"<"):
        return ""
    if b"<fictionbook" in text:
        return "fb2"
    if text.startswith((b"<!doctype html", b"<html")):
        return "html"
    if text.startswith((b"<?xml", b"<!--")) and (b"<html" in text or b"<!doctype html" in text):
        return "html"
    return ""


def _detect_zip_format(path: Path, limits: Limits) -> str:
    from anyrig.text.formats.zipped import open_archive

    with open_archive(path, limits) as archive:
        names = {name.lower() for name in archive.names}
        kind = b""
        if "mimetype" in archive and archive.size("mimetype") < 200:
            kind = archive.read("mimetype").strip()
    if kind.startswith(_OPEN_DOCUMENT):
        return _detect_open_document(path, kind.removeprefix(_OPEN_DOCUMENT))
    if kind.startswith(b"application/epub") or "meta-inf/container.xml" in names:
        return "epub"
    if found := _detect_by_member(path, names):
        return found
    for ending, found in ((".opf", "epub"), (".fb2", "fb2")):
        if any(name.endswith(ending) for name in names):
            return found
    named = _BY_NAME.get(path.suffix.lower())
    if named in ("epub", "docx", "odt", "xlsx", "ods", "pptx", "odp"):
        return named  # its reader says what is missing
    raise InvalidInputError(
        f"{path.name} is a zip archive without a book", hint="Unpack it and pass one file."
    )


def _detect_by_member(path: Path, names: set[str]) -> str:
    for member, what, hint in _UNREAD_MEMBERS:
        if member in names:
            raise InvalidInputError(f"{path.name} is {what}", hint=hint)
    return next((found for member, found in _MEMBERS if member in names), "")


def _detect_open_document(path: Path, kind: bytes) -> str:
    if kind.startswith(b"text"):
        return "odt"
    if kind.startswith(b"spreadsheet"):
        return "ods"
    if kind.startswith(b"presentation"):
        return "odp"
    raise InvalidInputError(
        f"{path.name} is an OpenDocument drawing", hint="Open it in LibreOffice and save it as PDF."
    )


def _read_tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 66_000))
        return file.read()


def _limit_text(document: Document, limits: Limits) -> Document:
    """The document, if it does not say too much, in characters that can be stored."""
    num_characters = sum(chapter.num_characters for chapter in document.chapters)
    if num_characters > limits.characters:
        raise LimitExceededError(
            f"{document.path.name} contains {num_characters:,} characters of text",
            hint="Split it.",
            limit="characters",
        )
    chapters = tuple(
        replace(chapter, blocks=tuple(map(_replace_invalid, chapter.blocks)))
        for chapter in document.chapters
    )
    scans = tuple(replace(scan, layer=replace_invalid(scan.layer)) for scan in document.scans)
    return replace(document, chapters=chapters, scans=scans)


def _replace_invalid(block: Block) -> Block:
    text = replace_invalid(block.text)
    return block if text == block.text else replace(block, text=text)
