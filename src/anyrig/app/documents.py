"""Files of documents: which ones are read, how, what reads pictures of pages, what is installed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.app.cache import open_cache
from anyrig.app.compute import ComputeOptions, place
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    MissingPackageError,
)
from anyrig.events import OnEvent, WarningEvent
from anyrig.options import option
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.ocr.choose import OcrChoice
    from anyrig.documents.ocr.run import OcrReader
    from anyrig.documents.reading import OpenedSource, PictureReader, ReadPicture, TextSource
    from anyrig.placement import PlacementPlan
    from anyrig.storage.cache import Cache
    from anyrig.text.document import Document
    from anyrig.text.formats.limits import Limits
    from anyrig.text.sandbox import ReadError

OcrMode = Literal["auto", "never", "always"]
_MAX_CHARACTERS = 50_000_000
"""Of one file: a table or a log may be longer than any novel."""
_ANY_NUMBER_OF_PAGES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class FileLimitOptions(ComputeOptions):
    """Files."""

    type: tuple[str, ...] = option(
        (), "read only files of these types, such as pdf,docx,picture", metavar="LIST"
    )
    max_mb: float = option(
        200.0, "skip and report larger files", gt=0, lt=1e9, unit="MB", flag=False,
        http=False, setting="documents.max_mb",
    )  # fmt: skip
    max_pages: int = option(
        5_000, "skip and report files with more pages, those of attachments included", gt=0,
        lt=1e9, flag=False, http=False, setting="documents.max_pages",
    )  # fmt: skip
    max_seconds: float = option(
        600.0, "time limit for reading one file, without OCR", gt=0, lt=1e9, unit="seconds",
        flag=False, http=False, setting="documents.max_seconds",
    )  # fmt: skip
    max_ocr_pages: int | None = option(
        None, "read no more pages by OCR in one call", gt=0, flag=False, http=False
    )
    max_ocr_seconds: float | None = option(
        None, "time limit for the OCR of one call", gt=0, unit="seconds", flag=False, http=False
    )
    private: bool = option(
        False, "neither use nor keep cached results of these files", flag=False, http=False
    )


@dataclass(frozen=True, kw_only=True)
class FileOptions(FileLimitOptions):
    """Files."""

    ocr: OcrMode = option(
        "auto", "run OCR on pages; auto: on those without usable text", setting="documents.ocr"
    )


@dataclass(frozen=True, kw_only=True)
class SourceOptions(FileOptions):
    """Files."""

    files: tuple[Path, ...] = option((), "files and folders")
    texts: tuple[str, ...] = option((), "texts, besides the files", flag=False, alias="text")
    names: tuple[str, ...] = option((), "what the texts are called in the result", flag=False)


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be read; the others were."""

    file: str
    error: AnyrigError

    def to_json(self) -> dict[str, str]:
        return {"file": self.file, "error": self.error.message, "hint": self.error.hint}


def find_files(places: Sequence[str | Path], types: Sequence[str], on_event: OnEvent) -> list[Path]:
    """The files that paths name, those in folders included; warns of what is left out."""
    from anyrig.text.folder import find, not_followed

    paths = [Path(place).expanduser() for place in places]
    for path in paths:
        if not path.exists():
            raise InvalidInputError(f"no such file or folder: {path}", hint="Check the path.")
    found = find(paths, types=types)
    if found.skipped:
        kinds = ", ".join(dict.fromkeys(one.path.suffix or one.path.name for one in found.skipped))
        count = pluralize(len(found.skipped), "file")
        on_event(WarningEvent(f"skipped {count} of other types: {kinds[:80]}"))
    for folder in found.unreadable:
        on_event(WarningEvent(f"{folder.path}: {folder.reason}"))
    for warning in not_followed([one.path for one in found.outside]):
        on_event(WarningEvent(warning))
    return list(found.files)


def read_files(
    rig: Rig, options: FileOptions, files: Sequence[Path]
) -> Generator[Document | ReadError]:
    """Every file in pages, in order; pictures by OCR where that is wanted and installed."""
    from anyrig.documents.reading import read_all
    from anyrig.text.sandbox import ReaderPool

    limits = build_limits(options)
    with ExitStack() as stack:
        pool = None
        if len(files) == 1:  # a process may be kept: starting one takes longer than most files
            pool = stack.enter_context(rig.models.borrow(
                "file reader", lambda: ReaderPool(limits=limits), version=str(limits),
                counted=False,
            ))  # fmt: skip
        if files:
            ocr = stack.enter_context(open_ocr(rig, options))
            yield from read_all(files, ocr=ocr, limits=limits, mode=options.ocr, pool=pool)


def list_sources(
    request: SourceOptions, on_event: OnEvent, verb: str, default_name: str = "text {}"
) -> list[TextSource]:
    """The texts of a request, then its files, those in folders included.

    Args:
        request: names them.
        on_event: receives warnings of files that are left out.
        verb: what is done with them, for the error if there are none.
        default_name: of texts that have no names; {} is their number.
    """
    from anyrig.documents.reading import TextSource

    sources = name_texts(request.texts, request.names, default_name)
    files = find_files(request.files, request.type, on_event) if request.files else []
    sources += [TextSource(str(file), file) for file in files]
    if not sources:
        raise InvalidInputError(f"nothing to {verb}", hint="Give files, folders or texts.")
    return sources


def name_texts(
    texts: Sequence[str], names: Sequence[str] = (), default_name: str = "text {}"
) -> list[TextSource]:
    from anyrig.documents.reading import TextSource

    names = names or [default_name.format(number) for number in range(1, len(texts) + 1)]
    if len(names) != len(texts):
        raise InvalidInputError(
            f"there are {len(names)} names for {len(texts)} texts",
            hint="Give a name for each text, or none.",
        )
    return [TextSource(name, text=text) for name, text in zip(names, texts, strict=True)]


def read_sources(
    rig: Rig, options: FileOptions, sources: Sequence[TextSource]
) -> Iterator[OpenedSource]:
    """Each file or text with its pages, in order."""
    from anyrig.documents import reading

    return reading.read_sources(sources, partial(read_files, rig, options))


def report_warnings(name: str, warnings: Iterable[str], on_event: OnEvent) -> None:
    """Report what was odd about a file."""
    from anyrig.text.labels import one_line

    for warning in warnings:
        on_event(WarningEvent(f"{one_line(name, 80)}: {one_line(warning, 300)}"))


def build_limits(options: FileLimitOptions) -> Limits:
    """How much one file may ask of the machine."""
    from anyrig.text.formats.limits import Limits

    return Limits(
        file_bytes=max(1, int(options.max_mb * 1e6)),
        pages=options.max_pages,
        seconds=options.max_seconds,
        characters=_MAX_CHARACTERS,
    )


# -- OCR -------------------------------------------------------------------------------------------


@contextmanager
def open_ocr(rig: Rig, options: FileOptions) -> Iterator[PictureReader | None]:
    """What reads pictures of pages; None if OCR is off or no engine is installed.

    Engines are loaded when the first picture comes; cached pages are not read again.
    """
    if options.ocr == "never":
        yield None
        return
    try:
        engine = choose_ocr_engine(rig, options)
    except MissingPackageError:
        yield None
        return
    with ExitStack() as stack:

        @cache
        def open_reader() -> OcrReader:
            return stack.enter_context(open_ocr_reader(rig, options, engine))

        yield LimitedReader(open_reader, options)


@contextmanager
def open_ocr_reader(
    rig: Rig,
    options: FileLimitOptions,
    engine: OcrChoice,
    language: str = "",
    *,
    num_pages: int = _ANY_NUMBER_OF_PAGES,
    fresh: bool = False,
) -> Iterator[OcrReader]:
    """An OCR engine for some files, with no more workers than `num_pages` keep busy. One that uses
    no cache may be kept for other files.
    """
    if options.private:
        num_pages = _ANY_NUMBER_OF_PAGES if rig.models.shared else num_pages
        with rig.models.borrow(
            f"OCR {engine.engine} {language}".rstrip(),
            lambda: build_ocr_reader(rig, options, engine, language, num_pages=num_pages),
            version=str(engine.version),
        ) as reader:
            yield reader
        return
    with (
        nullcontext() if fresh else open_cache(rig) as pages,
        build_ocr_reader(
            rig, options, engine, language, cache=pages, num_pages=num_pages
        ) as reader,
    ):
        yield reader


def choose_ocr_engine(
    rig: Rig, options: ComputeOptions, language: str = "", name: str = "auto"
) -> OcrChoice:
    """The OCR engine for a language: the one named, or the best for the chosen device."""
    from anyrig.documents.ocr.choose import choose

    # Which engine is fast where is known: nothing is measured for it.
    choice = rig.choose_device(replace(options, no_bench=True))
    on_gpu = any(
        backend.usable and backend.library == "onnx"
        for device in choice.devices
        if device.kind != "cpu"
        for backend in device.backends
    )
    return choose(language, rig.environment, wanted=name, on_gpu=on_gpu,
                  more_data=rig.folders.tessdata)  # fmt: skip


def build_ocr_reader(
    rig: Rig,
    options: ComputeOptions,
    engine: OcrChoice,
    language: str = "",
    *,
    cache: Cache | None = None,
    num_pages: int = _ANY_NUMBER_OF_PAGES,
) -> OcrReader:
    """An OCR engine; its workers start with the first page."""
    from anyrig.documents.ocr.run import OcrReader

    def place_workers() -> PlacementPlan:
        choice = rig.choose_device(replace(options, no_bench=True))
        return place(rig, choice, engine.need(num_pages), options)

    return OcrReader(
        engine, placed=place_workers, environment=rig.environment, store=cache, language=language
    )


class LimitedReader:
    """Reads pages up to the limits of a call; the rest are pages that could not be read."""

    def __init__(self, open_reader: Callable[[], PictureReader], options: FileLimitOptions) -> None:
        self._open_reader, self._max_pages = open_reader, options.max_ocr_pages
        self._num_left = options.max_ocr_pages or _ANY_NUMBER_OF_PAGES
        self._end = time.monotonic() + (options.max_ocr_seconds or math.inf)

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        from anyrig.documents.reading import ReadPicture

        waiting = iter(pictures)
        yield from self._open_reader().read(self._take(waiting))
        for _ in waiting:
            limit = f"{self._max_pages} pages" if self._num_left == 0 else "pages for so long"
            yield ReadPicture("", failure=f"one request reads {limit} by OCR")

    def _take(self, pictures: Iterator[bytes]) -> Iterator[bytes]:
        while self._num_left > 0 and time.monotonic() < self._end:
            picture = next(pictures, None)
            if picture is None:
                return
            self._num_left -= 1
            yield picture


# -- what is installed -----------------------------------------------------------------------------

FeatureName = Literal["ocr", "transcription", "names"]


@dataclass(frozen=True)
class Feature:
    name: FeatureName
    installed: bool
    reason: str = ""
    """What is missing; empty if it is installed."""
    fix: str = ""
    """The command that installs it."""


def list_features(environment: Mapping[str, str], language: str) -> list[Feature]:
    """OCR, transcription and the finding of names in a language, each installed or not.

    Args:
        environment: of this process, in which programs are looked for.
        language: ISO 639-1.
    """
    from anyrig.documents.entities.ner_models import choose_ner_model, list_install_commands
    from anyrig.documents.ocr import choose as ocr
    from anyrig.transcription.models import find_model

    found = []
    try:
        ocr.choose(language, environment)
        found.append(Feature("ocr", True))
    except MissingPackageError as error:
        found.append(Feature("ocr", False, error.message, error.hint))
    try:
        find_model(language=language)
        found.append(Feature("transcription", True))
    except MissingPackageError as error:
        found.append(Feature("transcription", False, error.message, error.hint))
    model = choose_ner_model()
    if model is not None and model.reads(language):
        found.append(Feature("names", True))
    else:
        reason = f"no model that finds names in {language!r} is installed"
        found.append(Feature("names", False, reason, " && ".join(list_install_commands(language))))
    return found
