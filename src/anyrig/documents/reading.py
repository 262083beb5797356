"""A file to pages of text: its own text first, its pictures where that is none or garbage.

    paged = read(Path("letter.pdf"), ocr=engine)
    for found in read_all(paths, ocr=engine):
        ...  # a Paged, or Unread with what is wrong and what to do

What turns a picture into text is handed in (`Reads`); this file knows no engine of OCR. Every page
says where its text comes from, and what could not be read is a warning of its file.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, Protocol

from anyrig.errors import (
    AnyrigError,
    DeviceLostError,
    InvalidInputError,
    LimitExceededError,
    Message,
    MissingPackageError,
    OptionRef,
)
from anyrig.install import format_install
from anyrig.text.apart import Apart
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import FORMATS as PICTURES
from anyrig.text.garbage import readable
from anyrig.text.labels import one_line
from anyrig.text.pages import DPI, Drawn, Page, Paged, named, placed

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


class Reads(Protocol):
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

    file: Path
    message: str
    hint: str
    past_limit: bool = False
    """Whether it asks more of the machine than it may."""

    @property
    def error(self) -> InvalidInputError:
        """The same as an error."""
        kind = LimitExceededError if self.past_limit else InvalidInputError
        return kind(self.message, hint=self.hint)


def read(
    path: Path,
    *,
    ocr: Reads | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
    dpi: int = DPI,
    apart: Apart | None = None,
) -> Paged:
    """A file in pages of text; `InvalidInputError` if it cannot be read.

    Args:
        path: of a regular file.
        ocr: reads pictures; without it pages that are pictures stay empty, with a warning.
        limits: how much the file may ask of the machine; the time of `ocr` is not counted.
        mode: when pictures are read.
        dpi: at which pages of a PDF are drawn for it.
        apart: a process that reads, kept by whoever reads many files one by one; its limits hold.
    """
    if apart is not None:
        return _with_pictures(_own_text(Path(path), apart), apart, ocr, mode, dpi)
    with Apart(limits) as own:
        return _with_pictures(_own_text(Path(path), own), own, ocr, mode, dpi)


def read_all(
    paths: Iterable[Path],
    *,
    ocr: Reads | None = None,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    mode: Mode = "auto",
    dpi: int = DPI,
    workers: int = 0,
) -> Iterator[Paged | Unread]:
    """Files in pages, in order; one that cannot be read does not stop the rest.

    Several processes read ahead; pictures are read by `ocr` in the thread that takes the results.

    Args:
        paths: of files; taken as they are needed.
        ocr: as for `read`.
        limits: of each file.
        mode: as for `read`.
        dpi: as for `read`.
        workers: processes that read at once; 0 is as many as help.
    """
    count = workers or min(_MOST_WORKERS, os.cpu_count() or 1)
    with _Readers(count, limits) as readers, Apart(limits) as drawing:
        for path, found in readers.read(paths):
            if isinstance(found, Paged):
                yield _pictures_or_error(found, drawing, ocr, mode, dpi)
            else:
                yield Unread(path, found.message, found.hint, isinstance(found, LimitExceededError))


def textless(paged: Paged) -> InvalidInputError:
    """That a file holds no text: why, and what to do, in the same words for every command."""
    name = one_line(paged.file.name)
    pictures = [page.number for page in paged.pages if page.lack]
    if not pictures:
        return InvalidInputError(f"{name} has no text in it", hint="Pass one that has words in it.")
    lack = next(page.lack for page in paged.pages if page.lack)
    said = f"{name} has no text in it: {named(pictures)}: {lack}"
    if any(NO_OCR in one for one in paged.warnings):
        return InvalidInputError(f"{said}, and {NO_OCR}", hint=INSTALL_OCR)
    if any(NOT_WANTED in one for one in paged.warnings):
        return InvalidInputError(
            f"{said}, and {NOT_WANTED}",
            hint=Message("Leave {ocr} out.", ocr=OptionRef("ocr", "never")),
        )
    return InvalidInputError(
        f"{said}, and OCR found none on it", hint="See whether the page is blank."
    )


class _Readers:
    """Processes that read the text of files ahead of whoever takes it."""

    def __init__(self, count: int, limits: Limits) -> None:
        self._all = [Apart(limits) for _ in range(count)]
        self._free: SimpleQueue[Apart] = SimpleQueue()
        for apart in self._all:
            self._free.put(apart)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="reading")
        self._over = False

    def __enter__(self) -> _Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for apart in self._all:
            apart.close()  # whoever waits for it gets an error at once
        self._threads.shutdown()
        for apart in self._all:
            apart.close()

    def read(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Paged | AnyrigError]]:
        """Each path with what is in it, in order."""
        waiting: deque[tuple[Path, Future[Paged | AnyrigError]]] = deque()
        for path in map(Path, paths):
            waiting.append((path, self._threads.submit(self._one, path)))
            if len(waiting) > 2 * len(self._all):
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()

    def _one(self, path: Path) -> Paged | AnyrigError:
        apart = self._free.get()
        try:
            if self._over:
                return InvalidInputError(f"{path.name} was not read", hint="Read it again.")
            return _own_text(path, apart)
        except AnyrigError as error:
            return error
        finally:
            self._free.put(apart)


def _own_text(path: Path, apart: Apart) -> Paged:
    """The text layer; an error on a limit names the setting that moves it."""
    try:
        return apart.pages(path)
    except LimitExceededError as error:
        if setting := _SETTINGS.get(error.limit):
            error.hint = Message(
                "{hint} The limit is `{setting}` of [documents] in the settings.",
                hint=error.hint,
                setting=setting,
            )
        raise


def _pictures_or_error(
    paged: Paged, apart: Apart, ocr: Reads | None, mode: Mode, dpi: int
) -> Paged | Unread:
    try:
        return _with_pictures(paged, apart, ocr, mode, dpi)
    except (MissingPackageError, DeviceLostError):
        raise  # no other file would fare better
    except AnyrigError as error:
        return Unread(paged.file, error.message, error.hint, isinstance(error, LimitExceededError))
    except Exception as error:  # noqa: BLE001 - an engine's fault on one file is not the others'
        said = f"the pictures of {paged.file.name} cannot be read ({type(error).__name__}: {error})"
        return Unread(
            paged.file, one_line(said, 300), "Read it without OCR, or try another engine."
        )


def _with_pictures(paged: Paged, apart: Apart, ocr: Reads | None, mode: Mode, dpi: int) -> Paged:
    """The file with what stands on the pictures of its pages, where that is wanted."""
    wanted = [page.number for page in paged.pages if page.number and _is_wanted(page, paged, mode)]
    if ocr is None or not wanted:
        reason = "" if ocr is not None else NOT_WANTED if mode == "never" else NO_OCR
        return _by_layers(paged, reason)
    told = _Told()
    read_pages = dict(_read_pictures(paged.file, wanted, apart, ocr, dpi, told))
    if told.unread and len(told.unread) == len(wanted) and not _has_text(paged):
        raise InvalidInputError(
            next(iter(told.unread.values())), hint="Get another copy of the file, or save it again."
        )
    pages = [_chosen(page, read_pages.get(page.number), told) for page in paged.pages]
    warnings = dict.fromkeys((*paged.warnings, *told.warnings()))
    return replace(paged, pages=placed(pages), warnings=tuple(warnings))


def _is_wanted(page: Page, paged: Paged, mode: Mode) -> bool:
    if mode == "never":
        return False
    drawable = paged.format == "pdf" or paged.format in PICTURES
    return bool(page.lack) or (mode == "always" and drawable and page.source != "none")


def _has_text(paged: Paged) -> bool:
    return any(page.text.strip() or page.layer.strip() for page in paged.pages)


class _Told:
    """What is to be said of pages at the end."""

    def __init__(self) -> None:
        self.unread: dict[int, str] = {}
        self.bare: list[int] = []
        self.unsure: list[int] = []
        self.doubtful: list[int] = []

    def warnings(self) -> Iterator[str]:
        if self.unread:
            reason = next(iter(self.unread.values()))
            yield f"{named(sorted(self.unread))} could not be read: {reason}"
        if self.bare:
            yield f"no text was found on the picture of {named(self.bare)}"
        if self.doubtful:
            yield f"the text of {named(self.doubtful)} is the file's own and may be of no use"
        if self.unsure:
            yield f"OCR is unsure of {named(self.unsure)}"


def _read_pictures(
    path: Path, wanted: Sequence[int], apart: Apart, ocr: Reads, dpi: int, told: _Told
) -> Iterator[tuple[int, ReadPicture]]:
    """The number of each page that could be read, and what stands on its picture."""
    order: deque[int] = deque()
    source = digest_file(path)

    def pictures(drawn: Iterator[Drawn]) -> Iterator[PageImage]:
        for page in drawn:
            if page.data:
                order.append(page.number)
                yield PageImage(page.data, source)
            else:
                told.unread[page.number] = page.lack

    for found in ocr.read(pictures(apart.pictures(path, wanted, dpi=dpi))):
        number = order.popleft()
        if found.failure:
            told.unread[number] = found.failure
        else:
            yield number, found
    for number in order:
        told.unread[number] = "OCR gave no answer"


def _chosen(page: Page, found: ReadPicture | None, told: _Told) -> Page:
    """A page with the better of its two texts."""
    if found is not None and found.text.strip():
        if found.confidence < _UNSURE:
            told.unsure.append(page.number)
        return replace(page, text=found.text.strip("\n"), source="ocr", layer="")
    if found is not None and not page.text:
        told.bare.append(page.number)
    if page.lack and readable(page.layer):
        told.doubtful.append(page.number)
        return replace(page, text=page.layer, source="text", layer="")
    return page


def _by_layers(paged: Paged, reason: str) -> Paged:
    """The file as its own text has it: doubtful text rather than none, with a warning."""
    by_lack: dict[str, list[int]] = {}
    pages: list[Page] = []
    for page in paged.pages:
        if page.lack:
            by_lack.setdefault(page.lack, []).append(page.number)
        if page.lack and readable(page.layer):
            page = replace(page, text=page.layer, source="text", layer="")
        pages.append(page)
    why = f", and {reason}" if reason else ""
    mend = f" ({INSTALL_OCR})" if reason == NO_OCR else ""
    said = [f"{named(numbers)}: {lack}{why}{mend}" for lack, numbers in by_lack.items()]
    warnings = tuple(dict.fromkeys((*paged.warnings, *said)))
    return replace(paged, pages=placed(pages), warnings=warnings)
