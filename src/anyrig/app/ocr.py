"""OCR: scanned pages and PDFs in, text, boxes or searchable PDFs out."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyrig.app.documents import (
    FailedFile,
    FileLimitOptions,
    build_limits,
    choose_ocr_engine,
    find_files,
    open_ocr_reader,
)
from anyrig.app.files import normalize_format
from anyrig.documents.ocr import FORMATS, OcrFormat
from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    LimitExceededError,
    Message,
    OptionRef,
)
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.text.language_names import language_code
from anyrig.text.sandbox import DPI
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.ocr.choose import OcrChoice
    from anyrig.documents.ocr.pipeline import OcrFile, OcrPlan
    from anyrig.documents.ocr.run import OcrReader

OnFile = Callable[["OcrFile", int], None]
_FORMAT_NAMES = {"html": "hocr", "htm": "hocr", "text": "txt"}
_ANY_PAGE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class OcrRequest(FileLimitOptions):
    """OCR."""

    files: tuple[Path, ...] = option(
        (), "images, PDFs, or folders with them", positional=True, upload=True, metavar="FILE"
    )
    output: str = option(
        "", "the file, or the folder for several", short="-o", http=False, metavar="PATH"
    )
    format: OcrFormat | None = option(
        None, "txt, json, pdf or hocr; default: by the output's suffix",
        normalize=normalize_format, metavar="NAME",
    )  # fmt: skip
    language: str = option(
        "", "language of the pages, such as en, es or fr", normalize=language_code, metavar="CODE"
    )
    engine: Literal["auto", "rapidocr", "tesseract"] = option(
        "auto", "OCR engine; auto: tesseract on a CPU, rapidocr on a GPU and for other languages"
    )
    pages: str = option("", "page numbers, such as 1-3,7", metavar="LIST")
    dpi: int = option(DPI, "resolution at which PDF pages are rendered", ge=36, le=1200)
    always: bool = option(False, "also run OCR on pages that have text")
    fresh: bool = option(False, "ignore cached results")


@dataclass(frozen=True)
class OcrResult:
    engine: OcrChoice
    files: tuple[OcrFile, ...]
    """In the order of the request."""
    outputs: tuple[Path, ...] = ()
    """Where each file's text was written; empty if nothing was."""

    @property
    def text(self) -> str:
        """The text of all files that could be read."""
        return "\n".join(file.text for file in self.files if file.error is None)

    @property
    def failed(self) -> tuple[FailedFile, ...]:
        return tuple(FailedFile(str(one.path), one.error) for one in self.files if one.error)

    @property
    def num_failed_pages(self) -> int:
        return sum(len(file.failed_pages) for file in self.files)


def read_text(
    rig: Rig,
    request: OcrRequest,
    on_event: OnEvent,
    on_file: OnFile = lambda _, __: None,
) -> OcrResult:
    """Read the text of images and PDFs; a page that cannot be read does not stop the others.

    What was read is cached page by page: a run that was interrupted continues there. `on_file`
    receives each file when all of its pages were read, and the number of files.
    """
    from anyrig.documents.ocr.pipeline import PageOptions, parse_pages, plan_files

    rig.choose_device(replace(request, no_bench=True))  # reports a missing device first
    files = find_images(request, on_event)
    format = resolve_format(request, files)
    outputs = plan_outputs(request, files, format)
    options = PageOptions(request.pages, request.dpi, request.always, keep_images=format == "pdf")
    parse_pages(request.pages, _ANY_PAGE)  # a mistake is reported before anything is opened
    language = resolve_language(request.language)
    engine = choose_ocr_engine(rig, request, language, request.engine)
    plan = plan_files(files, options, build_limits(request))
    if request.max_ocr_pages and plan.num_pages > request.max_ocr_pages:
        raise LimitExceededError(
            f"{plan.num_pages} pages are too many for one request",
            hint=Message(
                "Pass {pages}, and the others after that.",
                pages=OptionRef("pages", f"1-{request.max_ocr_pages}"),
            ),
        )
    with open_ocr_reader(
        rig, request, engine, language, num_pages=plan.num_pages, fresh=request.fresh
    ) as reader:
        done: list[OcrFile] = []
        for one in _read_files(request, plan, reader, on_event):
            if one.error is None and outputs:
                one.write(outputs[len(done)], format)
            for page in one.failed_pages:
                on_event(WarningEvent(f"{one.path.name}, page {page.number}: {page.error}"))
            done.append(one.drop_images())
            on_file(done[-1], len(plan.files))
    result = OcrResult(engine, tuple(done), tuple(outputs))
    if result.num_failed_pages:
        count = pluralize(result.num_failed_pages, "page")
        on_event(WarningEvent(f"{count} could not be read; the rest is done"))
    return result


def _read_files(
    request: OcrRequest, plan: OcrPlan, reader: OcrReader, on_event: OnEvent
) -> Iterator[OcrFile]:
    """Each file when its pages are read; an error if they take longer than one call may."""
    from anyrig.documents.ocr.pipeline import FilePage, read_files

    end = time.monotonic() + (request.max_ocr_seconds or math.inf)
    num_files = num_pages = 0
    on_event(ProgressEvent("reading pages", 0, plan.num_pages))
    for one in read_files(plan, reader):
        if not isinstance(one, FilePage):
            num_files += 1
            yield one
            continue
        num_pages += 1
        name = plan.files[num_files].path.name
        on_event(ProgressEvent("reading pages", num_pages, plan.num_pages, name))
        if num_pages < plan.num_pages and time.monotonic() > end:
            raise LimitExceededError(
                f"{num_pages} of {plan.num_pages} pages took {request.max_ocr_seconds:.0f} s",
                hint="Name fewer pages in one request.",
            )


# -- data of languages -----------------------------------------------------------------------------


def install_language(rig: Rig, language: str, source: Path | None, on_event: OnEvent) -> Path:
    """Download what Tesseract needs for a language, or take it from a folder."""
    from anyrig.documents.ocr import languages

    code = resolve_language(language_code(language))

    def report(name: str, done_bytes: int, total_bytes: int) -> None:
        on_event(ProgressEvent("downloading", done_bytes, total_bytes, name))

    return languages.install_language(
        code, rig.folders.tessdata, environment=rig.environment, source=source, on_progress=report
    )


# -- files -----------------------------------------------------------------------------------------


def find_images(request: OcrRequest, on_event: OnEvent) -> list[Path]:
    """The files whose pages can be drawn; others in folders are skipped, with a warning."""
    from anyrig.text.files import guess_format
    from anyrig.text.formats.picture import FORMATS as PICTURES

    found = find_files(request.files, request.type, on_event)
    pages = (None, "", "pdf", *PICTURES)
    named = set(request.files)
    files = [file for file in found if file in named or guess_format(file.name) in pages]
    chosen = set(files)
    skipped = [file for file in found if file not in chosen]
    if skipped:
        suffixes = ", ".join(dict.fromkeys(file.suffix or file.name for file in skipped))
        count = pluralize(len(skipped), "file")
        on_event(WarningEvent(f"skipped {count} without pages: {suffixes[:80]}"))
    if not files:
        raise InvalidInputError("nothing to read", hint="Give an image, a PDF or a folder.")
    return files


def resolve_language(text: str) -> str:
    """The code of a language; empty if it is not known."""
    code = text.strip().lower().partition("-")[0]
    if code in ("", "auto"):
        return ""
    if len(code) not in (2, 3) or not code.isalpha():
        raise InvalidOptionError("language", "must be a code such as en, es, fr or de", value=text)
    return code


def resolve_format(request: OcrRequest, files: Sequence[Path]) -> OcrFormat:
    """The format that was requested, or that the output's name implies."""
    name: str = request.format or ""
    if not name and request.output and not _is_folder(request, files):
        suffix = normalize_format(Path(request.output).suffix)
        name = _FORMAT_NAMES.get(suffix, suffix)
    for format in FORMATS:
        if format == (name or "txt"):
            return format
    raise InvalidInputError(
        f"unknown format {name!r}",
        hint=Message(
            "Valid formats: {formats}; pass {format}, or end the file's name in one of them.",
            formats=", ".join(FORMATS),
            format=OptionRef("format"),
        ),
    )


def _is_folder(request: OcrRequest, files: Sequence[Path]) -> bool:
    """Whether the output is a folder: for several files, and for a folder."""
    is_single = len(files) == 1 and not request.files[0].is_dir()
    output = Path(request.output).expanduser()
    return output.is_dir() or request.output.endswith(("/", "\\")) or not is_single


def plan_outputs(request: OcrRequest, files: Sequence[Path], format: OcrFormat) -> list[Path]:
    """Where each file's text is written; empty if nothing is."""
    if not request.output:
        if format == "pdf":
            raise InvalidInputError(
                "a PDF must be written to a file",
                hint=Message("Pass {output}.", output=OptionRef("output")),
            )
        return []
    output = Path(request.output).expanduser()
    is_folder = _is_folder(request, files)
    if is_folder and output.is_file():
        raise InvalidInputError(f"{output} is a file", hint="Several texts need a folder.")
    outputs = _name_outputs(files, output, format) if is_folder else [output]
    inputs = {file.resolve() for file in files}
    for path in outputs:
        if path.resolve() in inputs:
            raise InvalidInputError(
                f"{path} would be overwritten",
                hint=Message("Pass another {output}.", output=OptionRef("output")),
            )
    return outputs


def _name_outputs(files: Sequence[Path], folder: Path, format: OcrFormat) -> list[Path]:
    """A file in a folder for each; the suffix is part of the name where two share a stem."""
    counts = Counter(file.stem for file in files)
    names: dict[str, None] = {}
    last_number: dict[str, int] = {}
    for file in files:
        stem = file.stem if counts[file.stem] == 1 else file.name
        name, number = f"{stem}.{format}", last_number.get(stem, 1)
        while name in names:
            number += 1
            name = f"{stem}-{number}.{format}"
        last_number[stem] = number
        names[name] = None
    return [folder / name for name in names]
