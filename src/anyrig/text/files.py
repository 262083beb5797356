"""A path to a document: the format is found by content first, then by name.

    document = read(Path("book.epub"))

The one door to files that others wrote. Whatever is wrong with one is a single `BadInput` with a
hint; a reader writes nothing, runs nothing, and fetches nothing from the network.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from anyrig.errors import AnyrigError, BadInput, Protected
from anyrig.text.document import Document
from anyrig.text.formats.limits import Limits
from anyrig.text.labels import labelled, one_line

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
}
"""Format -> the module whose `read(path, limits)` reads it, imported when it is needed."""

_BY_NAME = {
    ".epub": "epub", ".kepub": "epub",
    ".txt": "txt", ".text": "txt", ".asc": "txt", ".log": "txt",
    ".md": "md", ".markdown": "md", ".mdown": "md", ".mkd": "md",
    ".html": "html", ".htm": "html", ".xhtml": "html", ".xht": "html",
    ".docx": "docx", ".docm": "docx", ".odt": "odt", ".fb2": "fb2", ".fbz": "fb2",
    ".rtf": "rtf", ".pdf": "pdf",
    ".mobi": "mobi", ".azw": "mobi", ".azw3": "mobi", ".prc": "mobi", ".kf8": "mobi",
}  # fmt: skip
_HEAD_BYTES = 4096
# What people give by mistake, what it is, and what to do about it.
_OTHERS = (
    (b"\x1f\x8b", "a gzip archive", "Unpack it and give the file inside."),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "Unpack it and give the file inside."),
    (b"Rar!\x1a\x07", "a RAR archive", "Unpack it and give the file inside."),
    (b"RIFF", "a sound or a film", "Give the text, not its sound."),
    (b"ID3", "a sound file", "Give the text, not its sound."),
    (b"fLaC", "a sound file", "Give the text, not its sound."),
    (b"OggS", "a sound file", "Give the text, not its sound."),
    (b"\x89PNG", "a picture", "Read its text with OCR first."),
    (b"\xff\xd8\xff", "a picture", "Read its text with OCR first."),
    (b"GIF8", "a picture", "Read its text with OCR first."),
    (b"\x7fELF", "a program", "Give a book or a text."),
    (b"MZ\x90\x00", "a program", "Give a book or a text."),
    (b"AT&TFORM", "a DjVu file", "Convert it to PDF with a text layer."),
    (b"ITSF", "a compiled help file", "Convert it to EPUB with Calibre."),
    (b"SQLite format 3\x00", "a database", "Give a book or a text."),
)
_SELLERS = (
    (b"\xeaDRMION", "Amazon (KFX)"),
    (b"TPZ", "Amazon (Topaz)"),
)
_KNOWN = ", ".join(FORMATS)


class _Reader(Protocol):
    def read(self, path: Path, limits: Limits) -> Document: ...


def read(path: Path, *, limits: Limits = Limits()) -> Document:  # noqa: B008 - it is frozen
    """All that a file says, in reading order; `BadInput` if it cannot be read.

    Args:
        path: of a regular file.
        limits: how much it may ask of the machine.
    """
    path = Path(path)
    name = "text"
    try:
        _refuse_odd(path, limits)
        name = format_of(path, limits=limits)
        reader = cast(_Reader, importlib.import_module(FORMATS[name]))
        return labelled(_sound(reader.read(path, limits), path, limits))
    except AnyrigError as error:
        error.message = one_line(error.message)  # it may quote the file
        error.args = (error.message,)
        raise
    except MemoryError as error:
        raise BadInput(
            f"{one_line(path.name)} needs more memory than there is",
            hint="Split it, or free memory.",
        ) from error
    except Exception as error:  # noqa: BLE001 - the last net: no file may stop a program
        # A fault of a file that its reader did not foresee is still the file's.
        said = f"{path.name} cannot be read as {name} ({type(error).__name__}: {error})"
        raise BadInput(
            one_line(said, 300),
            hint="Get the file anew, or convert it to EPUB with another program.",
        ) from error


def format_of(path: Path, *, limits: Limits = Limits()) -> str:  # noqa: B008 - it is frozen
    """The format of a file, one of `FORMATS`: what it holds counts before what it is called."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"PK\x03\x04") or head.startswith(b"PK\x05\x06"):
        return _zip_format(path, limits)
    if head[4:8] == b"ftyp":
        raise BadInput(f"{path.name} is a sound or a film", hint="Give the text, not its sound.")
    found = _by_magic(head, path) or _by_mark_up(head)
    named = _BY_NAME.get(path.suffix.lower(), "")
    if found == "html" and named == "md":
        return "md"  # one that begins with a piece of HTML
    if found:
        return found
    if named == "epub" and b"PK\x05\x06" in _tail(path):
        return _zip_format(path, limits)  # with something before the archive
    if named in ("epub", "docx", "odt", "pdf", "mobi"):
        raise BadInput(
            f"{path.name} is called {path.suffix} and is none",
            hint="Get the file anew: it is cut short, damaged, or something else.",
        )
    return named or "txt"


def _refuse_odd(path: Path, limits: Limits) -> None:
    """What is no regular file of a sensible size; a pipe would be waited for without end."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{path} cannot be read: {reason}", hint="Give the path of a file."
        ) from None
    if path.is_dir():
        hint = "Zip its contents to one .epub file." if path.suffix == ".epub" else "Give a file."
        raise BadInput(f"{path} is a folder", hint=hint)
    if not path.is_file():
        raise BadInput(f"{path} is no regular file", hint="Save it as a file first.")
    if size == 0:
        raise BadInput(f"{path.name} is empty", hint="Give a file with text in it.")
    if size > limits.file_bytes:
        raise BadInput(
            f"{path.name} is larger than {limits.file_bytes // 1_000_000:,} MB",
            hint="Split it, or give the text alone.",
        )
    try:
        path.open("rb").close()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}", hint="Allow it.") from None


def _by_magic(head: bytes, path: Path) -> str:
    for magic, seller in _SELLERS:
        if head.startswith(magic):
            raise Protected(
                f"{path.name} is locked by {seller}: it cannot be read here",
                hint="Ask the seller for a copy without DRM.",
            )
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        return "rtf"
    if head[60:68] in (b"BOOKMOBI", b"TEXtREAd"):
        return "mobi"
    if head.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "docx"  # its reader tells an old file from one with a password
    for magic, what, hint in _OTHERS:
        if head.startswith(magic):
            raise BadInput(f"{path.name} is {what}, no text", hint=hint)
    return ""


def _by_mark_up(head: bytes) -> str:
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


def _zip_format(path: Path, limits: Limits) -> str:
    from anyrig.text.formats.zipped import opened

    with opened(path, limits) as archive:
        names = {name.lower() for name in archive.names}
        kind = b""
        if "mimetype" in archive and archive.size("mimetype") < 200:
            kind = archive.read("mimetype").strip()
    if kind.startswith(b"application/vnd.oasis.opendocument.text"):
        return "odt"
    if kind.startswith(b"application/epub") or "meta-inf/container.xml" in names:
        return "epub"
    for member, found in (("word/document.xml", "docx"), ("content.xml", "odt")):
        if member in names:
            return found
    for ending, found in ((".opf", "epub"), (".fb2", "fb2")):
        if any(name.endswith(ending) for name in names):
            return found
    named = _BY_NAME.get(path.suffix.lower())
    if named in ("epub", "docx", "odt"):
        return named  # its reader says what is missing
    raise BadInput(
        f"{path.name} is a zip archive that holds no book", hint="Unpack it and give one file."
    )


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 66_000))
        return file.read()


def _sound(document: Document, path: Path, limits: Limits) -> Document:
    """The document, if it says anything and not too much."""
    num_characters = sum(chapter.num_characters for chapter in document.chapters)
    if num_characters > limits.characters:
        raise BadInput(f"{path.name} holds {num_characters:,} characters of text", hint="Split it.")
    blocks = (block for each in document.chapters for block in each.blocks)
    if not any(any(map(str.isalnum, block.text)) for block in blocks):
        raise BadInput(
            f"there is no text in {path.name}",
            hint="If its pages are pictures, read them with OCR first.",
        )
    return document
