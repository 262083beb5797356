"""Files of documents: which ones are read, how, and what reads pictures of pages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.app.cache import open_cache
from anyrig.app.compute import ComputeOptions, place
from anyrig.app.events import OnEvent, WarningEvent
from anyrig.errors import AnyrigError, InvalidInputError, MissingPackageError
from anyrig.options import option
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.ocr.choose import Chosen
    from anyrig.documents.ocr.run import Pages
    from anyrig.documents.reading import Reads, Unread
    from anyrig.placement import PlacementPlan
    from anyrig.storage.cache import Cache
    from anyrig.text.formats.limits import Limits
    from anyrig.text.pages import Paged

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


@dataclass(frozen=True, kw_only=True)
class FileOptions(FileLimitOptions):
    """Files."""

    ocr: OcrMode = option(
        "auto", "run OCR on pages; auto: on those without usable text", setting="documents.ocr"
    )


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be read; the others were."""

    file: str
    error: AnyrigError


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


def read_files(rig: Rig, options: FileOptions, files: Iterable[Path]) -> Iterator[Paged | Unread]:
    """Every file in pages, in order; pictures by OCR where that is wanted and installed."""
    from anyrig.documents.reading import read_all

    with open_ocr(rig, options) as ocr:
        yield from read_all(files, ocr=ocr, limits=build_limits(options), mode=options.ocr)


def build_limits(options: FileLimitOptions) -> Limits:
    """How much one file may ask of the machine."""
    from anyrig.text.formats.limits import Limits

    return Limits(
        file_bytes=max(1, int(options.max_mb * 1e6)),
        pages=options.max_pages,
        seconds=options.max_seconds,
        characters=_MAX_CHARACTERS,
    )


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work that would fill it."""
    if path.is_dir():
        raise InvalidInputError(f"cannot write {path}: it is a folder", hint="Name a file in it.")
    if not path.absolute().parent.is_dir():
        raise InvalidInputError(
            f"cannot write {path}: no such folder: {path.parent}",
            hint="Create the folder, or choose another file.",
        )
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise InvalidInputError(
            f"cannot write {path}: permission denied", hint="Choose another file."
        )


# -- OCR -------------------------------------------------------------------------------------------


@contextmanager
def open_ocr(rig: Rig, options: FileOptions) -> Iterator[Reads | None]:
    """What reads pictures of pages, loaded when the first one comes; cached pages are not read
    again. None if OCR is off or no engine is installed.
    """
    with ExitStack() as stack:
        reader = None
        if options.ocr != "never":
            try:
                engine = choose_ocr_engine(rig, options)
            except MissingPackageError:
                pass
            else:
                cache = stack.enter_context(open_cache(rig))
                reader = stack.enter_context(build_ocr_reader(rig, options, engine, cache=cache))
        yield reader


def choose_ocr_engine(
    rig: Rig, options: ComputeOptions, language: str = "", name: str = "auto"
) -> Chosen:
    """The OCR engine for a language: the one named, or the one that was measured to be best.

    Measures the installed ones once, if measuring is allowed.
    """
    from anyrig.documents.ocr.choose import choose
    from anyrig.documents.ocr.sample import trial

    def open_for_trial(engine: Chosen) -> Pages:
        rig.notice(f"Measuring {engine.engine}, once ...")
        return build_ocr_reader(rig, options, engine, language, num_pages=2)

    return choose(
        language, rig.environment, wanted=name, figures=rig.folders.cache / "ocr.json",
        try_=trial(open_for_trial) if rig.may_measure(options) else None,
    )  # fmt: skip


def build_ocr_reader(
    rig: Rig,
    options: ComputeOptions,
    engine: Chosen,
    language: str = "",
    *,
    cache: Cache | None = None,
    num_pages: int = _ANY_NUMBER_OF_PAGES,
) -> Pages:
    """An OCR engine; its workers start with the first page.

    Args:
        rig: the machine.
        options: where it computes.
        engine: as `choose_ocr_engine` gives it.
        language: of the pages; empty if not known.
        cache: keeps what was read.
        num_pages: no more workers are started than these keep busy.
    """
    from anyrig.documents.ocr.run import Pages

    def place_workers() -> PlacementPlan:
        # Which engine is fast was measured above; devices are not measured for it.
        choice = rig.choose_device(replace(options, no_bench=True))
        return place(rig, choice, engine.need(num_pages), options)

    return Pages(
        engine, placed=place_workers, environment=rig.environment, store=cache, language=language
    )
