"""Named entities: people, places, dates, amounts and checked numbers in documents."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from anyrig.app.compute import ComputeOptions, place
from anyrig.app.documents import (
    FailedFile,
    FileOptions,
    build_limits,
    find_files,
    name_texts,
    open_ocr,
)
from anyrig.app.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.documents.entities.pipeline import SourceEntities, find_in_sources
from anyrig.documents.reading import TextSource
from anyrig.errors import InvalidInputError, InvalidOptionError, format_mentions, mention
from anyrig.options import option
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.entities.finder import Finder
    from anyrig.documents.entities.names import Namer
    from anyrig.documents.reading import Reads

OUTPUT_FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".txt")
_REDACTED_FORMATS = ("", ".txt", ".text", ".md")
_COLUMNS = (
    "file", "page", "kind", "text", "value", "start", "end", "valid", "source", "score", "count",
)  # fmt: skip
_TEXT_SUFFIXES = frozenset(
    ".txt .text .md .log .csv .tsv .html .htm .eml .epub .docx .odt .rtf .fb2 .mobi".split()
)
"""Files that hold no images of text: no OCR engine is chosen for these, which takes time."""
_BYTES_PER_WORKER = 2_000_000
_NAME_KINDS = ("person", "organisation", "place")


@dataclass(frozen=True, kw_only=True)
class EntitiesRequest(FileOptions):
    """Entities."""

    files: tuple[Path, ...] = option(
        (), "files and folders", positional=True, upload=True, metavar="FILE"
    )
    texts: tuple[str, ...] = option((), "texts to search as well", flag=False)
    names: tuple[str, ...] = option((), "what the texts are called in the result", flag=False)
    kinds: tuple[str, ...] = option((), "find only these kinds, such as person,iban")
    language: str = option(
        "", "language of the texts: en, fr, es, en-GB; by default detected for each paragraph",
        metavar="CODE",
    )  # fmt: skip
    engine: Literal["auto", "grammar", "spacy", "gliner", "tokens"] = option(
        "auto", "what finds names; grammar finds no names"
    )
    model: str = option(
        "", "a token-classification or GLiNER model as a folder or by its name on the hub, or a"
        " spaCy model", metavar="PATH_OR_NAME",
    )  # fmt: skip
    labels: tuple[str, ...] = option((), "what a GLiNER model looks for: 'disease,medicine'")
    threshold: float = option(0.5, "minimum score of what a neural model finds", ge=0, le=1)
    unchecked: bool = option(
        False, "also numbers that fail their check and dates that do not exist, marked as such"
    )
    distinct: bool = option(False, "each entity once per document, with its count")
    redact: bool = option(False, "replace each entity in the text by its kind, such as [PERSON]")
    output: Path | None = option(
        None, "write to a file: .csv, .tsv, .jsonl, .json, .txt; with redact a text file, or a"
        " folder for several texts", short="-o", http=False, metavar="PATH",
    )  # fmt: skip


@dataclass(frozen=True)
class FoundEntities(SourceEntities):
    """The entities of a file or text, and what was made of them."""

    name_warnings: tuple[str, ...] = ()
    """In which languages no names were looked for, and how to change that."""
    redacted: str = ""
    """The text with its entities replaced, if that was requested."""

    def list_rows(self, *, distinct: bool = False) -> list[dict[str, Any]]:
        """A row for each entity, ready for JSON."""
        from anyrig.documents.entities.listing import listed

        name = self.source.name
        if not distinct:
            return [{"file": name, **one.to_json()} for one in self.entities]
        pages = {one.entity: one for one in self.entities}
        return [
            {"file": name, **pages[one.first].to_json(), "count": one.count}
            for one in listed(one.entity for one in self.entities)
        ]


@dataclass(frozen=True)
class EntitiesResult:
    sources: tuple[FoundEntities, ...]

    @property
    def failed(self) -> tuple[FailedFile, ...]:
        return tuple(FailedFile(one.source.name, one.error) for one in self.sources if one.error)

    def list_rows(self, *, distinct: bool = False) -> list[dict[str, Any]]:
        """A row for each entity of all sources, ready for JSON."""
        return [row for one in self.sources for row in one.list_rows(distinct=distinct)]

    def to_json(self, *, distinct: bool = False) -> dict[str, Any]:
        warnings: list[dict[str, str]] = [
            {"file": one.source.name, "warning": text}
            for one in self.sources for text in one.warnings
        ]  # fmt: skip
        names = dict.fromkeys(text for one in self.sources for text in one.name_warnings)
        warnings += [{"warning": format_mentions(text, "command")} for text in names]
        return {
            "entities": self.list_rows(distinct=distinct),
            "warnings": warnings,
            "failed": [_failed_to_json(one) for one in self.failed],
        }


def _failed_to_json(failed: FailedFile) -> dict[str, str]:
    return {
        "file": failed.file,
        "error": format_mentions(failed.error.message, "command"),
        "hint": format_mentions(failed.error.hint, "command"),
    }


def find_entities(rig: Rig, request: EntitiesRequest, on_event: OnEvent) -> Iterator[FoundEntities]:
    """Find the entities of each source, in order; one that cannot be read does not stop the others.

    The output is written when all are done, unless none could be read.
    """
    from anyrig.documents.entities.entity import kinds_of
    from anyrig.documents.entities.names import choose

    if request.distinct and request.redact:
        raise InvalidOptionError("distinct", f"and {mention('redact')} were both given")
    kinds = kinds_of(request.kinds) if request.kinds else None
    namer = choose(
        request.engine, model=request.model, labels=request.labels, threshold=request.threshold
    )
    sources = list_sources(request, on_event)
    check_output(request, len(sources))
    wants_people = request.engine != "grammar" and (kinds is None or "person" in kinds)
    writer = _Writer(request, is_single=len(sources) == 1)
    with (
        suppress(_NothingRead), writer,
        _borrow_finder(rig, request, namer, kinds, sources) as finder,
        _open_ocr(rig, request, sources) as ocr,
    ):  # fmt: skip
        on_event(ProgressEvent("finding entities", 0, len(sources)))
        found = find_in_sources(
            sources, finder, language=request.language, ocr=ocr, limits=build_limits(request),
            mode=request.ocr,
        )  # fmt: skip
        for number, one in enumerate(found, 1):
            on_event(ProgressEvent("finding entities", number, len(sources), one.source.name))
            result = _complete(request, finder, one, kinds, wants_people=wants_people)
            _report_warnings(result, on_event)
            writer.add(result)
            yield result
        writer.finish()
        for warning in dict.fromkeys(writer.name_warnings):
            on_event(WarningEvent(warning))
        if request.redact and (namer is None or not namer.own_labels):
            on_event(WarningEvent(
                "names can be missed, as only grammars and small models looked for them: read the"
                f" text before you share it, or pass a larger {mention('model')}"
            ))  # fmt: skip


def _complete(
    request: EntitiesRequest,
    finder: Finder,
    found: SourceEntities,
    kinds: Sequence[str] | None,
    *,
    wants_people: bool,
) -> FoundEntities:
    """Add what depends on the request: the redacted text, and what was not looked for."""
    from anyrig.documents.entities.cautious import cautious
    from anyrig.documents.entities.listing import redacted

    if kinds is not None:
        wanted = tuple(one for one in found.entities if one.entity.kind in kinds)
        found = replace(found, entities=wanted)
    text = ""
    if request.redact and found.error is None:
        entities = [one.entity for one in found.entities]
        if wants_people:
            entities = cautious(found.text, entities, found.languages)
        text = redacted(found.text, entities)
    return FoundEntities(
        **vars(found), name_warnings=describe_missing_names(request.engine, finder, found, kinds),
        redacted=text,
    )  # fmt: skip


def describe_missing_names(
    engine: str, finder: Finder, found: SourceEntities, kinds: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Why names of some languages were not looked for, unless nobody wanted names."""
    from anyrig.documents.entities.names import nameless

    if engine == "grammar" or not (kinds is None or any(kind in kinds for kind in _NAME_KINDS)):
        return ()
    return tuple(nameless(finder.namer, language) for language in found.languages_without_names)


def _report_warnings(found: FoundEntities, on_event: OnEvent) -> None:
    from anyrig.text.labels import one_line

    for warning in found.warnings:
        name = one_line(found.source.name, 80)
        on_event(WarningEvent(f"{name}: {one_line(warning, 300)}"))


# -- sources and the model -------------------------------------------------------------------------


def list_sources(request: EntitiesRequest, on_event: OnEvent) -> list[TextSource]:
    """The texts of a request, then its files, those in folders included."""
    sources = name_texts(request.texts, request.names)
    if request.files:
        files = find_files(request.files, request.type, on_event)
        sources += [TextSource(str(file), file) for file in files]
    if not sources:
        raise InvalidInputError("nothing to search", hint="Give a text, a file or a folder.")
    return sources


def _measure(source: TextSource) -> int:
    try:
        return source.file.stat().st_size if source.file is not None else len(source.text)
    except OSError:
        return 0


def _open_ocr(
    rig: Rig, request: EntitiesRequest, sources: Sequence[TextSource]
) -> AbstractContextManager[Reads | None]:
    files = [source.file for source in sources if source.file is not None]
    if all(file.suffix.lower() in _TEXT_SUFFIXES for file in files):
        return nullcontext()
    return open_ocr(rig, request)


@contextmanager
def _borrow_finder(
    rig: Rig,
    request: EntitiesRequest,
    namer: Namer | None,
    kinds: Sequence[str] | None,
    sources: Sequence[TextSource],
) -> Iterator[Finder]:
    """What finds entities. One that is kept finds all kinds, so that it serves any request."""
    from anyrig.documents.entities.finder import wants_names

    if namer is not None and not wants_names(namer, None if kinds is None else tuple(kinds)):
        namer = None
    num_bytes = 0 if rig.models.keep else sum(map(_measure, sources))
    some_kinds = None if rig.models.keep else kinds
    also = ", unchecked numbers too" if request.unchecked else ""
    with rig.models.borrow(
        f"entities by {namer.name if namer else 'rule'}{also}",
        lambda: build_finder(
            rig, request, namer, kinds=some_kinds, unchecked=request.unchecked, num_bytes=num_bytes
        ),
        version=f"{request.model} {request.labels} {request.threshold}",
    ) as finder:
        yield finder


def build_finder(
    rig: Rig,
    options: ComputeOptions,
    namer: Namer | None,
    *,
    kinds: Sequence[str] | None,
    unchecked: bool,
    num_bytes: int,
) -> Finder:
    """What finds entities: grammars, and workers with a model if names are wanted.

    Args:
        rig: the machine.
        options: where the model runs.
        namer: the model; None for grammars only.
        kinds: which kinds are wanted; None for all.
        unchecked: whether numbers that fail their check are reported as well.
        num_bytes: size of all texts: no more workers are started than it keeps busy.
    """
    from anyrig.documents.entities.finder import Finder, wants_names
    from anyrig.memory.known_sizes import KnownBatchSizes

    wanted = tuple(kinds) if kinds is not None else None
    if namer is None or not wants_names(namer, wanted):
        return Finder(None, kinds=wanted, unchecked=unchecked)
    workload = replace(namer.need, most_workers=max(1, num_bytes // _BYTES_PER_WORKER))
    quiet = replace(options, no_bench=True)
    choice = rig.choose_device(quiet) if workload.gpu else rig.choose_cpu(quiet)
    return Finder(
        namer,
        placed=place(rig, choice, workload, options),
        environment=rig.environment,
        limits=KnownBatchSizes(rig.folders.batch_limits),
        kinds=wanted,
        unchecked=unchecked,
    )


# -- output ----------------------------------------------------------------------------------------


def check_output(request: EntitiesRequest, num_sources: int) -> None:
    """Check the output's name before any work."""
    from anyrig.app.documents import check_writable

    path = request.output
    if path is None:
        return
    if not request.redact:
        _check_suffix(path, OUTPUT_FORMATS)
        check_writable(path)
    elif num_sources > 1 and path.is_file():
        raise InvalidInputError(f"{path} is a file", hint="Several texts need a folder.")
    elif num_sources == 1 and not path.is_dir():
        _check_suffix(path, _REDACTED_FORMATS)
        check_writable(path)


def _check_suffix(path: Path, suffixes: Sequence[str]) -> None:
    if path.suffix.lower() not in suffixes:
        raise InvalidInputError(
            f"{path.name}: unknown format",
            hint=f"Valid file name extensions: {', '.join(filter(None, suffixes))}.",
        )


class _NothingRead(Exception):
    """Discards the output: no source could be read."""


class _Writer:
    """Writes the output of a request, if it has one; a file replaces an old one when complete."""

    def __init__(self, request: EntitiesRequest, *, is_single: bool) -> None:
        self._request, self._is_single = request, is_single
        self._suffix = request.output.suffix.lower() if request.output else ""
        self._context: AbstractContextManager[BinaryIO] | None = None
        self._file: BinaryIO | None = None
        self._results: list[FoundEntities] = []
        self._redacted_files: set[Path] = set()
        self._num_read = 0
        self.name_warnings: list[str] = []

    def __enter__(self) -> _Writer:
        from anyrig.storage.files import open_atomic

        if self._request.output is not None and not self._request.redact:
            self._context = open_atomic(self._request.output)
            self._file = self._context.__enter__()
            if self._suffix in (".csv", ".tsv"):
                self._write(_to_csv([], self._suffix, header=True))
        return self

    def __exit__(self, *error: Any) -> None:
        if self._context is not None:
            self._context.__exit__(*error)

    def add(self, found: FoundEntities) -> None:
        self._results.append(replace(found, text="", redacted=""))
        if found.error is not None:
            return
        self._num_read += 1
        self.name_warnings += found.name_warnings
        if self._request.redact:
            self._write_redacted(found)
        elif self._file is not None:
            rows = found.list_rows(distinct=self._request.distinct)
            if self._suffix in (".csv", ".tsv"):
                self._write(_to_csv(rows, self._suffix))
            elif self._suffix == ".jsonl":
                self._write_lines(rows)
            elif self._suffix == ".txt":
                self._write(format_found(found, distinct=self._request.distinct))

    def finish(self) -> None:
        if not self._num_read:
            raise _NothingRead
        result = EntitiesResult(tuple(self._results))
        if self._suffix == ".jsonl":
            self._write_lines([_failed_to_json(one) for one in result.failed])
        elif self._suffix == ".json":
            data = result.to_json(distinct=self._request.distinct)
            self._write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    def _write(self, text: str) -> None:
        if self._file is not None:
            self._file.write(text.encode("utf-8", "replace"))

    def _write_lines(self, rows: Sequence[dict[str, Any]]) -> None:
        self._write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

    def _write_redacted(self, found: FoundEntities) -> None:
        from anyrig.storage.files import write_atomic

        path = self._request.output
        if path is None:
            return
        if not self._is_single or path.is_dir():
            stem = Path(found.source.name).name if found.source.file else "text"
            folder, number = path, 1
            path = folder / f"{stem}.redacted.txt"
            while path in self._redacted_files:  # files of one name from several folders
                number += 1
                path = folder / f"{stem}.{number}.redacted.txt"
        self._redacted_files.add(path)
        write_atomic(path, found.redacted)


def _to_csv(rows: Sequence[dict[str, Any]], suffix: str, *, header: bool = False) -> str:
    from anyrig.text.labels import cell

    text = io.StringIO()
    writer = csv.DictWriter(
        text, _COLUMNS, delimiter="\t" if suffix == ".tsv" else ",", extrasaction="ignore",
        lineterminator="\n",
    )  # fmt: skip
    if header:
        writer.writeheader()
    for row in rows:
        writer.writerow(
            {key: cell(value) if isinstance(value, str) else value for key, value in row.items()}
        )
    return text.getvalue()


def format_found(found: FoundEntities, *, distinct: bool = False, width: int = 74) -> str:
    """The entities of a source as lines for people.

    Args:
        found: the entities.
        distinct: each entity once.
        width: characters of an entity's text that are shown.
    """
    from anyrig.text.labels import one_line

    rows = found.list_rows(distinct=distinct)
    languages = f" ({', '.join(found.languages)})" if found.languages else ""
    count = pluralize(len(rows), "entity").replace("entitys", "entities")
    lines = [f"{one_line(found.source.name, 200)}{languages}: {count}"]
    cells = [_format_row(row, distinct, width) for row in rows]
    if not any(row["page"] for row in rows):
        cells = [[*row[:3], row[4]] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        *first, last = row
        padded = [one.ljust(size) for one, size in zip(first, widths, strict=False)]
        lines.append(f"  {'  '.join([*padded, last.rjust(widths[-1])])}".rstrip())
    return "\n".join(lines) + "\n\n"


def _format_row(row: dict[str, Any], distinct: bool, width: int) -> list[str]:
    """Kind, text, value, page, and where it is or how often."""
    from anyrig.text.labels import one_line

    value = str(row.get("value", ""))
    value = one_line(value, 40) if value != row["text"] else ""
    if row.get("valid") is False:
        value = f"{value} (fails its check)".strip()
    where = f"x{row['count']}" if distinct else f"{row['start']}-{row['end']}"
    page = f"p. {row['page']}" if row["page"] else ""
    return [row["kind"], one_line(str(row["text"]), width), value, page, where]
