"""A file page by page: its own text first, OCR where that is missing or garbage.

    for found in read_all(paths, ocr=engine):
        ...  # a Document, or a ReadError with what is wrong and what to do

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
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol

from anyrig.documents.ordered import run_ordered
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
from anyrig.text.sandbox import ReaderPool, ReadError, RenderedPage

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
_MAX_PENDING = 128
"""Pages and files that may wait for a page before them."""
_MOST_WORKERS = 8
"""Processes that read at once, by default; on an H200 four were 7,400 passages a second at most."""


@dataclass(frozen=True)
class ReadPicture:
    """What stands on one picture of a page."""

    text: str
    """In reading order, a blank line between paragraphs; empty where nothing stands."""
    confidence: float = 1.0
    """From 0 to 1, over its characters."""
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


OpenedSource = tuple[TextSource, Document | ReadError]


def read_all(
    paths: Iterable[Path],
    *,
    ocr: PictureReader | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
    workers: int = 0,
    pool: ReaderPool | None = None,
) -> Generator[Document | ReadError]:
    """Files page by page, in order; one that cannot be read does not stop the rest.

    Several processes read ahead; the pages of many files are one stream of pictures for `ocr`.

    Args:
        paths: of files; taken as they are needed.
        ocr: reads pictures; without it pages that are pictures stay empty, with a warning.
        limits: how much a file may ask of the machine; the time of `ocr` is not counted.
        mode: when pictures are read.
        workers: processes that read at once; 0 is as many as help.
        pool: reads the files, kept by whoever reads many one by one; its limits hold.
    """
    count = workers or min(_MOST_WORKERS, os.cpu_count() or 1)
    with (
        nullcontext(pool) if pool else ReaderPool(count, limits) as readers,
        closing(readers.read(paths)) as found,
    ):
        yield from _add_ocr(map(_name_limit, found), readers, ocr, mode)


def read_sources(
    sources: Sequence[TextSource],
    read: Callable[[Sequence[Path]], Generator[Document | ReadError]] = read_all,
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
) -> Iterator[Any | ReadError]:
    """What a function makes of each file, in order.

    It runs in the process that reads the file: only where pictures of pages are read by OCR it runs
    here. What it returns must be JSON.

    Args:
        function: `module:name`, called with the document.
        paths: of files; taken as they are needed.
        ocr: as for `read_all`.
        limits: of each file.
        mode: as for `read_all`.
    """
    count = min(_MOST_WORKERS, os.cpu_count() or 1)
    order: deque[Path] = deque()

    def note(path: Path) -> Path:
        order.append(path)
        return path

    with ReaderPool(count, limits) as pool:

        def apply_or_open() -> Iterator[Any]:
            given = {"then": function, "mode": mode}
            for found in pool.apply(f"{__name__}:apply_to_text", map(note, paths), **given):
                path = order.popleft()
                if isinstance(found, ReadError):
                    yield _name_limit(found)
                elif "result" in found:
                    yield found["result"]
                else:
                    yield replace(document_from_json(found["document"]), path=path)

        for found in _add_ocr(apply_or_open(), pool, ocr, mode):
            yield _apply(function, found) if isinstance(found, Document) else found


def apply_to_text(document: Document, *, then: str, mode: Mode) -> dict[str, Any]:
    """What a function makes of a document, or the document itself if it has pages to be read by
    OCR first.
    """
    if document.scans or _list_wanted(document, mode):
        return {"document": document_to_json(document)}
    return {"result": _resolve(then)(document)}


def _apply(function: str, document: Document) -> Any | ReadError:
    try:
        return _resolve(function)(document)
    except AnyrigError as error:
        return ReadError(document.path, error)


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


def _name_limit(found: Document | ReadError) -> Document | ReadError:
    """The same; an error on a limit names the setting that moves it."""
    error = found.error if isinstance(found, ReadError) else None
    if isinstance(error, LimitExceededError) and (setting := _SETTINGS.get(error.limit)):
        error.hint = Message(
            "{hint} The limit is `{setting}` of [documents] in the settings.",
            hint=error.hint,
            setting=setting,
        )
    return found


# -- pictures of pages -----------------------------------------------------------------------------


def _add_ocr(
    found: Iterable[Any], pool: ReaderPool, ocr: PictureReader | None, mode: Mode
) -> Iterator[Any]:
    """Documents with the text on the pictures of their pages, in order; anything else as it is."""
    if ocr is not None:
        yield from _PageStream(pool, ocr, mode).read(found)
        return
    reason: Literal["missing", "off"] = "off" if mode == "never" else "missing"
    for one in found:
        yield _with_layers(one, reason) if isinstance(one, Document) else one


class _PageStream:
    """The pages that OCR reads, of all documents, as one stream of pictures."""

    def __init__(self, pool: ReaderPool, ocr: PictureReader, mode: Mode) -> None:
        self._pool, self._ocr, self._mode = pool, ocr, mode
        self._open: deque[_OpenFile] = deque()
        self._source_error: Exception | None = None

    def read(self, found: Iterable[Any]) -> Iterator[Any]:
        """What was found, in order; each document when its last page was read."""
        files = self._take(found)
        while True:
            try:
                for done in run_ordered(
                    self._draw(files), _expand, self._ocr.read, self._join,
                    max_pending=_MAX_PENDING,
                ):  # fmt: skip
                    yield from done
                break
            except (MissingPackageError, DeviceLostError):
                raise  # no other file would fare better
            except Exception as error:  # noqa: BLE001 - a fault on one file is not the others'
                while self._open and self._open[0].is_complete:
                    yield self._open.popleft().finish()
                if self._open:
                    yield _build_read_error(self._open.popleft().found.path, error)
                # The others are read again.
                files = chain([one.found for one in self._open], files)
                self._open.clear()
        if self._source_error is not None:
            raise self._source_error

    def _take(self, found: Iterable[Any]) -> Iterator[Any]:
        """The files; an error on the way to them is none of the engine's."""
        try:
            yield from found
        except Exception as error:  # noqa: BLE001 - raised when what was found is done
            self._source_error = error

    def _draw(self, files: Iterable[Any]) -> Iterator[tuple[_OpenFile, RenderedPage | None]]:
        """The pages that are wanted of each file; None of a file without any."""
        for one in files:
            opened = _OpenFile(one)
            self._open.append(opened)
            if isinstance(one, Document) and (wanted := _list_wanted(one, self._mode)):
                try:
                    opened.source = digest_file(one.path)
                except OSError as error:
                    opened.found = _build_read_error(one.path, error)
                else:
                    opened.wanted = wanted
                    for page in self._pool.render(one.path, wanted):
                        yield opened, page
                    continue
            yield opened, None

    def _join(
        self, step: tuple[_OpenFile, RenderedPage | None], answers: Sequence[ReadPicture]
    ) -> list[Any]:
        opened, page = step
        if page is not None:
            opened.add(page, answers)
        if not opened.is_complete:
            return []
        self._open.popleft()
        return [opened.finish()]


def _expand(
    step: tuple[_OpenFile, RenderedPage | None],
) -> tuple[tuple[_OpenFile, RenderedPage | None], list[PageImage]]:
    opened, page = step
    if page is None or page.error:
        return step, []
    return (opened, replace(page, data=b"")), [PageImage(page.data, opened.source)]


def _build_read_error(path: Path, error: Exception) -> ReadError:
    if isinstance(error, AnyrigError):
        return ReadError(path, error)
    message = f"the pictures of {path.name} cannot be read ({type(error).__name__}: {error})"
    hint = "Read it without OCR, or try another engine."
    return ReadError(path, InvalidInputError(one_line(message, 300), hint=hint))


@dataclass
class _OpenFile:
    """A document whose pages are being read, or whatever else was found."""

    found: Any
    wanted: Sequence[int] = ()
    source: str = ""
    """The digest of the file."""
    read: dict[int, ReadPicture] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return len(self.read) + len(self.unread) == len(self.wanted)

    def add(self, page: RenderedPage, answers: Sequence[ReadPicture]) -> None:
        failure = page.error or answers[0].failure
        if failure:
            self.unread[page.number] = failure
        else:
            self.read[page.number] = answers[0]

    def finish(self) -> Any:
        """The document with the text on its pictures, or why there is none."""
        document = self.found
        if not isinstance(document, Document):
            return document
        if not self.wanted:
            return _with_layers(document, "")
        has_text = bool(document.text.strip()) or any(scan.layer.strip() for scan in document.scans)
        if not self.read and not has_text:
            error = InvalidInputError(
                next(iter(self.unread.values())),
                hint="Get another copy of the file, or save it again.",
            )
            return ReadError(document.path, error)
        scans = {scan.page: scan for scan in document.scans}
        texts: dict[int, str] = {}
        problems = _PageProblems(self.unread)
        for part in document.parts("page"):
            scan = scans.get(part.page, Scan(part.page, ""))
            chosen = _choose_text(scan, part.text, self.read.get(part.page), problems)
            if chosen is not None:
                scans[part.page], texts[part.page] = chosen
        return replace(
            document.replace_pages(texts),
            scans=tuple(scans[page] for page in sorted(scans)),
            warnings=tuple(dict.fromkeys((*document.warnings, *problems.list_warnings()))),
        )


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

    def __init__(self, unread: dict[int, str]) -> None:
        self.unread = unread
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
