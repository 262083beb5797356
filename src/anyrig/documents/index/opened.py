"""A file of a folder, opened: what it says, in passages, or why it cannot be read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyrig.documents.index import rows
from anyrig.documents.passages import passages
from anyrig.documents.reading import digest_file, textless
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.text.document import Document
from anyrig.text.language import detect

if TYPE_CHECKING:
    from pathlib import Path

    from anyrig.documents.index.database import IndexFile
    from anyrig.documents.index.rows import Content, Stamp
    from anyrig.documents.reading import Unread

Reader = Callable[[Iterable["Path"]], Iterator["Document | Unread"]]
"""The pages of files, in order, or why one cannot be read; as `reading.read_all`."""
_SAMPLE = 20_000  # characters that tell a language


@dataclass(frozen=True)
class Opened:
    """A file that was opened."""

    digest: str = ""
    content: Content | None = None
    """None where the index has this content already."""
    texts: dict[bytes, str] = field(default_factory=dict)
    """Its passages by the digests of their texts."""
    vectors: dict[bytes, bytes] = field(default_factory=dict)
    """Those that the index has: held here, as they may be dropped before this is written."""
    error: AnyrigError | None = None


def known(stamp: Stamp, index: IndexFile, how: str, most_bytes: int) -> Opened | str:
    """A file that need not be read, as its content is in the index; else the digest of it.

    Args:
        stamp: the file as it was seen.
        index: is asked what it has.
        how: names the way of reading.
        most_bytes: larger files are left to the reader, which refuses them.
    """
    try:
        digest = f"{_digest(stamp, most_bytes)} {how}"
    except OSError as error:
        said = f"{stamp.file.name} cannot be read: {error.strerror or error}"
        hint = "Check the permissions; it is tried again when it changes."
        return Opened(error=InvalidInputError(said, hint=hint))
    there = index.read(lambda c: rows.content_of(c, digest))
    return digest if there is None else Opened(digest)


def opened(stamp: Stamp, digest: str, read: Document | Unread, index: IndexFile) -> Opened:
    """What a file says; whatever is wrong with it is in the answer, not raised.

    Args:
        stamp: the file as it was seen; when it is another by now, that is its error.
        digest: of what it holds.
        read: its pages.
        index: is asked which vectors it has.
    """
    try:
        content = _content(read, digest)
        _unchanged(stamp)
    except AnyrigError as error:
        return Opened(error=error)
    except Exception as error:  # noqa: BLE001 - no file may stop the others
        said = f"{stamp.file.name} cannot be read ({type(error).__name__}: {error})"[:300]
        hint = "Get another copy of the file; it is tried again when it changes."
        return Opened(error=InvalidInputError(said, hint=hint))
    texts = {rows.text_digest(one.text): one.text for one in content.passages}
    there = index.read(lambda c: rows.vectors_of(c, list(texts)))
    return Opened(digest, content, texts, there)


def language_of(document: Document) -> str:
    """The language of a file, as it says or as it reads; empty where that is unsure."""
    if document.metadata.language:
        return document.metadata.language.partition("-")[0].lower()
    found = detect(document.text[:_SAMPLE])
    return found.language if found.sure else ""


def _content(read: Document | Unread, digest: str) -> Content:
    if not isinstance(read, Document):
        raise InvalidInputError(read.message, hint=read.hint)
    document = read
    language = language_of(document)
    num_unread = sum(scan.source == "none" for scan in document.scans)
    cut = tuple(passages(document, language=language or "en"))
    if not cut and num_unread:
        raise textless(document)
    return rows.Content(
        digest, document.format, language, document.metadata.title, len(document.parts("page")),
        sum(scan.source == "ocr" for scan in document.scans), num_unread, cut, document.warnings,
    )  # fmt: skip


def _digest(stamp: Stamp, most_bytes: int) -> str:
    if stamp.size > most_bytes:
        return hashlib.sha256(b"%d of " % stamp.mtime_ns + stamp.path).hexdigest()
    return digest_file(stamp.path)


def _unchanged(stamp: Stamp) -> None:
    state = os.stat(stamp.path)
    if (state.st_size, state.st_mtime_ns) != (stamp.size, stamp.mtime_ns):
        raise InvalidInputError(
            f"{stamp.file.name} was changed while it was read",
            hint="Run it again when the file is finished.",
        )
