"""A file page by page: its own text first, OCR where that is missing or garbage.

    document = read(Path("letter.pdf"), ocr=engine)
    for found in read_all(paths, ocr=engine):
        ...  # a Document, or Unread with what is wrong and what to do

What turns a picture into text is handed in (`Reads`); this file knows no engine of OCR.
`Document.scans` tells which pages have no usable text of their own and where their text comes from;
what could not be read is a warning of its file.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from anyrig.errors import (
    AnyrigError,
    DeviceLostError,
    InvalidInputError,
    LimitExceededError,
    Message,
    MissingOcrError,
    MissingPackageError,
    OptionRef,
)
from anyrig.install import format_install
from anyrig.text.document import Document, Scan, document_from_json, document_to_json
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import FORMATS as PICTURES
from anyrig.text.garbage import is_readable
from anyrig.text.labels import format_pages, one_line
from anyrig.text.page_reader import DPI
from anyrig.text.sandbox import ReaderPool, ReadError

Mode = Literal["auto", "never", "always"]
"""When pictures are read: where there is no usable text, never, or always."""
NO_OCR = "no OCR is installed"
NOT_WANTED = "OCR is turned off"
INSTALL_OCR = format_install("anyrig[ocr]")
"""What every command says where a page is a picture that nothing reads."""
_SETTINGS = {"file_bytes": "max_mb", "pages": "max_pages", "seconds": "max_seconds"}
"""Limit -> the setting of `[documents]` that a person gives it by."""
_UNSURE = 0.5
_BLOCK = 1 << 20
_GROUP_PAGES, _GROUP_FILES = 128, 32
"""Pages, and files, that are gathered for one stream."""
_MOST_WORKERS = 4
"""Processes that read at once, by default: one is seldom short of files to hand on."""


@dataclass(frozen=True)
class ReadPicture:
    """What stands on one picture of a page."""

    text: str
    """In reading order, a blank line between paragraphs; empty where nothing stands."""
    turned_degrees: int = 0
    """How far the page was turned clockwise before it was read: 0, 90, 180 or 270."""
    confidence: float = 1.0
    """From 0 to 1, over its characters."""
    language: str = ""
    """The one it was read in, where the engine knows; `en`, `fr`."""
    failure: str = ""
    """Why the picture could not be read; empty where it was."""


class PageImage(bytes):
    """A page drawn as a picture, and the file it is of."""

    source: str
    """The digest of the file: what is cached of the picture is deleted with it."""

    def __new__(cls, data: bytes, source: str) -> PageImage:
        image = super().__new__(cls, data)
        image.source = source
        return image


def digest_file(path: Path | bytes) -> str:
    """The digest of a file's bytes, and of the end of its name, which its reader may go by."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    found.update(b"\0" + os.path.splitext(os.fsencode(path))[1].lower())
    return found.hexdigest()


class PictureReader(Protocol):
    """Whatever reads the text on pictures."""

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        """What stands on each picture, in order, one for one.

        Args:
            pictures: each a whole PNG file, upright as the page is shown; a `PageImage` where
                it is of a file. Taken as they are needed, so that a long file is never in
                memory as a whole.
        """
        ...


@dataclass(frozen=True)
class TextSource:
    """A file, or a text that has a name."""

    name: str
    file: Path | None = None
    text: str = ""


@dataclass(frozen=True)
class Unread:
    """A file that could not be read."""

    path: Path
    message: str
    hint: str
    past_limit: bool = False
    """Whether it asks more of the machine than it may."""
    lacks_ocr: bool = False
    """Whether its pages are pictures that nothing read."""

    @classmethod
    def from_error(cls, path: Path, error: AnyrigError) -> Unread:
        return cls(
            path, error.message, error.hint, isinstance(error, LimitExceededError),
            isinstance(error, MissingOcrError),
        )  # fmt: skip

    @property
    def error(self) -> InvalidInputError:
        """The same as an error."""
        if self.lacks_ocr:
            return MissingOcrError(self.message, hint=self.hint)
        kind = LimitExceededError if self.past_limit else InvalidInputError
        return kind(self.message, hint=self.hint)


OpenedSource = tuple[TextSource, Document | Unread]


def read(
    path: Path,
    *,
    ocr: PictureReader | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
    dpi: int = DPI,
    pool: ReaderPool | None = None,
) -> Document:
    """A file page by page; `InvalidInputError` if it cannot be read.

    Args:
        path: of a regular file.
        ocr: reads pictures; without it pages that are pictures stay empty, with a warning.
        limits: how much the file may ask of the machine; the time of `ocr` is not counted.
        mode: when pictures are read.
        dpi: at which pages of a PDF are drawn for it.
        pool: reads the file, kept by whoever reads many one by one; its limits hold.
    """
    if pool is None:
        with ReaderPool(limits=limits) as own:
            return read(path, ocr=ocr, mode=mode, dpi=dpi, pool=own)
    try:
        document = pool.read_file(Path(path))
    except AnyrigError as error:
        raise _name_setting(error) from None
    (found,) = _add_ocr([document], pool, ocr, mode, dpi)
    if isinstance(found, Exception):
        raise found
    return found


def read_all(
    paths: Iterable[Path],
    *,
    ocr: PictureReader | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
    dpi: int = DPI,
    workers: int = 0,
) -> Generator[Document | Unread]:
    """Files page by page, in order; one that cannot be read does not stop the rest.

    Several processes read ahead; the pages of many files are one stream of pictures for `ocr`.

    Args:
        paths: of files; taken as they are needed.
        ocr: as for `read`.
        limits: of each file.
        mode: as for `read`.
        dpi: as for `read`.
        workers: processes that read at once; 0 is as many as help.
    """
    count = workers or min(_MOST_WORKERS, os.cpu_count() or 1)
    with ReaderPool(count, limits) as pool:
        opened = map(_open_or_unread, pool.read(paths))
        yield from _read_groups(opened, pool, ocr, mode, dpi)


def read_sources(
    sources: Sequence[TextSource],
    read: Callable[[Sequence[Path]], Generator[Document | Unread]] = read_all,
) -> Iterator[OpenedSource]:
    """Each file or text with its pages, in order; files are read ahead by a function that gives one
    result for each path.
    """
    files = read([one.file for one in sources if one.file is not None])
    try:
        for one in sources:
            if one.file is None:
                yield one, Document.from_text(one.text, Path(one.name))
            else:
                yield one, next(files)
    finally:
        files.close()


def apply_all(
    function: str,
    paths: Iterable[Path],
    *,
    ocr: PictureReader | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
) -> Iterator[Any | Unread]:
    """What a function makes of each file, in order.

    It runs in the process that reads the file: only where pictures of pages are read by OCR it runs
    here. What it returns must be JSON.

    Args:
        function: `module:name`, called with the document.
        paths: of files; taken as they are needed.
        ocr: as for `read`.
        limits: of each file.
        mode: as for `read`.
    """
    count = min(_MOST_WORKERS, os.cpu_count() or 1)
    order: deque[Path] = deque()

    def note(path: Path) -> Path:
        order.append(path)
        return path

    with ReaderPool(count, limits) as pool:

        def apply_or_open() -> Iterator[Any | Unread | Document]:
            given = {"then": function, "mode": mode}
            for found in pool.apply(f"{__name__}:apply_to_text", map(note, paths), **given):
                path = order.popleft()
                if isinstance(found, ReadError):
                    yield _open_or_unread(found)
                elif "result" in found:
                    yield found["result"]
                else:
                    yield replace(document_from_json(found["document"]), path=path)

        for found in _read_groups(apply_or_open(), pool, ocr, mode, DPI):
            yield _apply(function, found) if isinstance(found, Document) else found


def _open_or_unread(found: Document | ReadError) -> Document | Unread:
    if isinstance(found, Document):
        return found
    return Unread.from_error(found.path, _name_setting(found.error))


def apply_to_text(document: Document, *, then: str, mode: Mode) -> dict[str, Any]:
    """What a function makes of a document, or the document itself if it has pages to be read by
    OCR first.
    """
    if document.scans or _list_wanted(document, mode):
        return {"document": document_to_json(document)}
    return {"result": _resolve(then)(document)}


def _apply(function: str, document: Document) -> Any | Unread:
    try:
        return _resolve(function)(document)
    except AnyrigError as error:
        return Unread.from_error(document.path, error)


def _resolve(function: str) -> Callable[[Document], Any]:
    module, _, name = function.partition(":")
    found: Callable[[Document], Any] = getattr(importlib.import_module(module), name)
    return found


def build_textless_error(document: Document) -> InvalidInputError:
    """That a file holds no text: why, and what to do, in the same words for every command."""
    name = one_line(document.path.name)
    scans = [scan for scan in document.scans if scan.reason]
    if not scans:
        return InvalidInputError(f"{name} has no text in it", hint="Pass one that has words in it.")
    pages = format_pages([scan.page for scan in scans])
    message = f"{name} has no text in it: {pages}: {scans[0].reason}"
    if any(scan.ocr == "missing" for scan in document.scans):
        return MissingOcrError(f"{message}, and {NO_OCR}", hint=INSTALL_OCR)
    if any(scan.ocr == "off" for scan in document.scans):
        return MissingOcrError(
            f"{message}, and {NOT_WANTED}",
            hint=Message("Leave {ocr} out.", ocr=OptionRef("ocr", "never")),
        )
    return InvalidInputError(
        f"{message}, and OCR found none on it", hint="See whether the page is blank."
    )


def _name_setting(error: AnyrigError) -> AnyrigError:
    """The error; one on a limit names the setting that moves it."""
    if isinstance(error, LimitExceededError) and (setting := _SETTINGS.get(error.limit)):
        error.hint = Message(
            "{hint} The limit is `{setting}` of [documents] in the settings.",
            hint=error.hint,
            setting=setting,
        )
    return error


# -- pictures of pages -----------------------------------------------------------------------------


def _read_groups(
    found: Iterable[Any], pool: ReaderPool, ocr: PictureReader | None, mode: Mode, dpi: int
) -> Iterator[Any]:
    """Documents with the text on the pictures of their pages, in order; anything else as it is.

    Files are gathered until their pages keep all workers busy for a while.
    """
    group: list[Any] = []
    num_pages = 0
    for one in found:
        num_wanted = len(_list_wanted(one, mode)) if ocr and isinstance(one, Document) else 0
        group.append(one)
        num_pages += num_wanted
        if not num_pages or num_pages >= _GROUP_PAGES or len(group) >= _GROUP_FILES:
            yield from _read_group(group, pool, ocr, mode, dpi)
            group, num_pages = [], 0
    yield from _read_group(group, pool, ocr, mode, dpi)


def _read_group(
    group: list[Any], pool: ReaderPool, ocr: PictureReader | None, mode: Mode, dpi: int
) -> Iterator[Any]:
    documents = [one for one in group if isinstance(one, Document)]
    finished = _add_ocr(documents, pool, ocr, mode, dpi)
    for one in group:
        if not isinstance(one, Document):
            yield one
            continue
        answer = next(finished)
        if isinstance(answer, (MissingPackageError, DeviceLostError)):
            raise answer  # no other file would fare better
        yield _to_unread(one.path, answer) if isinstance(answer, Exception) else answer


def _to_unread(path: Path, error: Exception) -> Unread:
    if isinstance(error, AnyrigError):
        return Unread.from_error(path, error)
    message = f"the pictures of {path.name} cannot be read ({type(error).__name__}: {error})"
    return Unread(path, one_line(message, 300), "Read it without OCR, or try another engine.")


class _OpenDocument:
    """A document whose pages are being read."""

    def __init__(self, document: Document, wanted: Sequence[int]) -> None:
        self.document = document
        self.wanted = wanted
        self.problems = _PageProblems()
        self.found: dict[int, ReadPicture] = {}
        self.error: Exception | None = None

    @property
    def is_complete(self) -> bool:
        num_done = len(self.found) + len(self.problems.unread)
        return self.error is not None or num_done == len(self.wanted)

    def add(self, number: int, found: ReadPicture) -> None:
        if found.failure:
            self.problems.unread[number] = found.failure
        else:
            self.found[number] = found

    def finish(self) -> Document | Exception:
        """The document with the text on its pictures, or why there is none."""
        if self.error is not None:
            return self.error
        if not self.wanted:
            return _with_layers(self.document, "")
        document, problems = self.document, self.problems
        for number in self.wanted:
            if number not in self.found:
                problems.unread.setdefault(number, "OCR gave no answer")
        has_text = bool(document.text.strip()) or any(scan.layer.strip() for scan in document.scans)
        if problems.unread and len(problems.unread) == len(self.wanted) and not has_text:
            return InvalidInputError(
                next(iter(problems.unread.values())),
                hint="Get another copy of the file, or save it again.",
            )
        scans = {scan.page: scan for scan in document.scans}
        texts: dict[int, str] = {}
        for part in document.parts("page"):
            scan = scans.get(part.page, Scan(part.page, ""))
            chosen = _choose_text(scan, part.text, self.found.get(part.page), problems)
            if chosen is not None:
                scans[part.page], texts[part.page] = chosen
        return replace(
            document.replace_pages(texts),
            scans=tuple(scans[page] for page in sorted(scans)),
            warnings=tuple(dict.fromkeys((*document.warnings, *problems.list_warnings()))),
        )


def _add_ocr(
    documents: Sequence[Document], pool: ReaderPool, ocr: PictureReader | None, mode: Mode, dpi: int
) -> Iterator[Document | Exception]:
    """Documents with the text on the pictures of their pages, each when its last page was read; the
    pages of all are one stream.
    """
    if ocr is None:
        reason: Literal["missing", "off"] = "off" if mode == "never" else "missing"
        yield from (_with_layers(one, reason) for one in documents)
        return
    waiting = deque(_OpenDocument(one, _list_wanted(one, mode)) for one in documents)
    while waiting:
        try:
            for _ in _read_pictures(list(waiting), pool, ocr, dpi):
                while waiting and waiting[0].is_complete:
                    yield waiting.popleft().finish()
            while waiting:
                yield waiting.popleft().finish()
        except Exception as error:  # noqa: BLE001 - an engine's fault on one file is not the others'
            if not waiting:
                return  # all had been read
            yield error
            if isinstance(error, (MissingPackageError, DeviceLostError)):
                return
            waiting.popleft()
            # The others are read again.
            waiting = deque(_OpenDocument(one.document, one.wanted) for one in waiting)


def _read_pictures(
    documents: Sequence[_OpenDocument], pool: ReaderPool, ocr: PictureReader, dpi: int
) -> Iterator[None]:
    """Read the pictures of documents; yields when one more may be complete."""
    drawn: deque[tuple[_OpenDocument, int]] = deque()
    if not any(opened.wanted for opened in documents):
        return
    yield
    for answer in ocr.read(_draw_pages(documents, pool, dpi, drawn)):
        opened, number = drawn.popleft()
        opened.add(number, answer)
        yield


def _draw_pages(
    documents: Sequence[_OpenDocument],
    pool: ReaderPool,
    dpi: int,
    drawn: deque[tuple[_OpenDocument, int]],
) -> Iterator[PageImage]:
    """The pictures of all pages that are wanted; each is noted in `drawn`."""
    for opened in documents:
        if not opened.wanted:
            continue
        path = opened.document.path
        try:
            source = digest_file(path)
        except OSError as error:
            opened.error = error
            continue
        for page in pool.render(path, opened.wanted, dpi=dpi):
            if page.data:
                drawn.append((opened, page.number))
                yield PageImage(page.data, source)
            else:
                opened.problems.unread[page.number] = page.error


def _list_wanted(document: Document, mode: Mode) -> list[int]:
    """The pages whose pictures are read."""
    if mode == "never":
        return []
    scans = [scan.page for scan in document.scans]
    if mode == "auto" or not (document.format == "pdf" or document.format in PICTURES):
        return scans
    with_text = {part.page for part in document.parts("page") if part.text}
    return sorted(with_text.union(scans))


class _PageProblems:
    """What the warnings name."""

    def __init__(self) -> None:
        self.unread: dict[int, str] = {}
        self.bare: list[int] = []
        self.unsure: list[int] = []
        self.doubtful: list[int] = []

    def list_warnings(self) -> Iterator[str]:
        if self.unread:
            reason = next(iter(self.unread.values()))
            yield f"{format_pages(sorted(self.unread))} could not be read: {reason}"
        if self.bare:
            yield f"no text was found on the picture of {format_pages(self.bare)}"
        if self.doubtful:
            pages = format_pages(self.doubtful)
            yield f"the text of {pages} is the file's own and may be of no use"
        if self.unsure:
            yield f"OCR is unsure of {format_pages(self.unsure)}"


def _choose_text(
    scan: Scan, own: str, found: ReadPicture | None, problems: _PageProblems
) -> tuple[Scan, str] | None:
    """The better of the two texts of a page; None where its own stays."""
    if found is not None and found.text.strip():
        if found.confidence < _UNSURE:
            problems.unsure.append(scan.page)
        return replace(scan, source="ocr", layer=""), found.text.strip("\n")
    if found is not None and not own:
        problems.bare.append(scan.page)
    if scan.reason and is_readable(scan.layer):
        problems.doubtful.append(scan.page)
        return replace(scan, source="layer", layer=""), scan.layer
    return None


def _with_layers(document: Document, ocr: Literal["", "missing", "off"]) -> Document:
    """The file as its own text has it: doubtful text rather than none, with a warning."""
    by_reason: dict[str, list[int]] = {}
    scans: list[Scan] = []
    texts: dict[int, str] = {}
    for scan in document.scans:
        by_reason.setdefault(scan.reason, []).append(scan.page)
        if is_readable(scan.layer):
            texts[scan.page] = scan.layer
            scan = replace(scan, source="layer", layer="")
        scans.append(replace(scan, ocr=ocr))
    why = {"": "", "missing": f", and {NO_OCR}", "off": f", and {NOT_WANTED}"}[ocr]
    fix = f" ({INSTALL_OCR})" if ocr == "missing" else ""
    warnings = [f"{format_pages(pages)}: {one}{why}{fix}" for one, pages in by_reason.items()]
    return replace(
        document.replace_pages(texts),
        scans=tuple(scans),
        warnings=tuple(dict.fromkeys((*document.warnings, *warnings))),
    )
