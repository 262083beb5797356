"""Named entities: people, places, dates, amounts and checked numbers in documents."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.compute import describe_model_options, place
from anyrig.app.documents import (
    FailedFile,
    SourceOptions,
    list_sources,
    read_sources,
    report_warnings,
)
from anyrig.app.files import check_writable, format_csv, format_json_lines, write_text
from anyrig.documents.entities.pipeline import SourceEntities, find_in_sources
from anyrig.errors import (
    InvalidInputError,
    InvalidOptionError,
    Message,
    OptionRef,
)
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.text.language_names import language_code
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.entities.finder import EntityFinder
    from anyrig.documents.entities.ner_models import NerModel
    from anyrig.documents.reading import TextSource

OUTPUT_FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".txt")
_REDACTED_FORMATS = ("", ".txt", ".text", ".md")
_COLUMNS = (
    "file", "page", "kind", "text", "value", "start", "end", "valid", "source", "score", "count",
    "pages",
)  # fmt: skip
_BYTES_PER_WORKER = 2_000_000
_NAME_KINDS = ("person", "organisation", "place")


@dataclass(frozen=True, kw_only=True)
class EntitiesRequest(SourceOptions):
    """Entities."""

    files: tuple[Path, ...] = option(
        (), "files and folders", positional=True, upload=True, metavar="FILE"
    )
    kinds: tuple[str, ...] = option((), "find only these kinds, such as person,iban")
    language: str = option(
        "", "language of the texts: en, fr, es, en-GB; default: detected by paragraph",
        normalize=language_code, metavar="CODE",
    )  # fmt: skip
    engine: Literal["auto", "grammar", "spacy", "gliner", "tokens"] = option(
        "auto", "what finds names; grammar: none"
    )
    model: str = option(
        "", "a token-classification or GLiNER model (folder or hub name), or a spaCy model",
        metavar="PATH_OR_NAME",
    )  # fmt: skip
    labels: tuple[str, ...] = option((), "what a GLiNER model looks for: 'disease,medicine'")
    threshold: float = option(0.5, "minimum score of a neural model's entities", ge=0, le=1)
    unchecked: bool = option(
        False, "also report numbers that fail validation and invalid dates, marked"
    )
    filter: str = option(
        "", "find only entities whose text or value contains this, in any case", metavar="TEXT"
    )
    distinct: bool = option(
        False, "a table of names: each entity once per document, with its count and pages"
    )
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
        from anyrig.documents.entities.entity import list_entities

        name = self.source.name
        if not distinct:
            return [{"file": name, **one.to_json()} for one in self.entities]
        placed = {one.entity: one for one in self.entities}
        return [
            {"file": name, **placed[one.first].to_json(), "count": one.count, "pages": one.pages}
            for one in list_entities((one.entity, one.page) for one in self.entities)
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
        warnings += [{"warning": text} for text in names]
        return {
            "entities": self.list_rows(distinct=distinct),
            "warnings": warnings,
            "failed": [one.to_json() for one in self.failed],
        }

    def save(self, path: str | Path, *, distinct: bool = False) -> None:
        """Write a table or a list: .csv, .tsv, .jsonl, .json or .txt, by the name of the file."""
        path = Path(path)
        check_writable(path, OUTPUT_FORMATS)
        format = path.suffix.lower()
        rows = self.list_rows(distinct=distinct)
        if format == ".json":
            data = self.to_json(distinct=distinct)
            text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        elif format == ".jsonl":
            text = format_json_lines([*rows, *(one.to_json() for one in self.failed)])
        elif format == ".txt":
            read = [one for one in self.sources if one.error is None]
            text = "".join(format_found(one, distinct=distinct) for one in read)
        else:
            cells = ([_format_cell(row.get(name)) for name in _COLUMNS] for row in rows)
            text = format_csv([_COLUMNS, *cells], "\t" if format == ".tsv" else ",")
        write_text(path, text)


def find_entities(rig: Rig, request: EntitiesRequest, on_event: OnEvent) -> Iterator[FoundEntities]:
    """Find the entities of each source, in order; one that cannot be read does not stop the others.

    The output is written when all are done, unless none could be read.
    """
    from anyrig.documents.entities.entity import parse_kinds
    from anyrig.documents.entities.ner_models import choose_ner_model

    if request.distinct and request.redact:
        raise InvalidOptionError(
            "distinct", Message("and {redact} were both given", redact=OptionRef("redact"))
        )
    if request.filter and request.redact:
        raise InvalidOptionError(
            "filter", Message("and {redact} were both given", redact=OptionRef("redact"))
        )
    kinds = tuple(parse_kinds(request.kinds)) if request.kinds else None
    model = choose_ner_model(
        request.engine, model=request.model, labels=request.labels, threshold=request.threshold
    )
    sources = list_sources(request, on_event, "search")
    check_output(request, len(sources))
    redacted_files: set[Path] = set()
    done: list[FoundEntities] = []
    on_event(ProgressEvent("finding entities", 0, len(sources)))
    with _borrow_finder(rig, request, model, kinds, sources) as finder:
        for found in find_in_sources(
            read_sources(rig, request, sources), finder, language=request.language,
            on_step=lambda: on_event(ProgressEvent("finding entities", len(done), len(sources))),
        ):  # fmt: skip
            result = _complete(request, finder, found, kinds)
            done.append(replace(result, text="", redacted="", pages=()))
            name = result.source.name
            on_event(ProgressEvent("finding entities", len(done), len(sources), name))
            report_warnings(name, result.warnings, on_event)
            if request.redact and request.output is not None and result.error is None:
                path = _name_redacted(request.output, result, len(sources), redacted_files)
                redacted_files.add(path)
                write_text(path, result.redacted)
            yield result
    read = [one for one in done if one.error is None]
    if not read:
        return
    if request.output is not None and not request.redact:
        EntitiesResult(tuple(done)).save(request.output, distinct=request.distinct)
    for warning in dict.fromkeys(text for one in read for text in one.name_warnings):
        on_event(WarningEvent(warning))
    if request.redact and not _redacts_people(request, kinds):
        on_event(WarningEvent("names of people are still in the text: none were looked for"))
    elif request.redact and (model is None or not model.own_labels):
        on_event(WarningEvent(
            Message(
                "names can be missed, as only grammars and small models looked for them: read the"
                " text before you share it, or pass a larger {model}",
                model=OptionRef("model"),
            )
        ))  # fmt: skip


def _redacts_people(request: EntitiesRequest, kinds: Sequence[str] | None) -> bool:
    return request.engine != "grammar" and (kinds is None or "person" in kinds)


def _complete(
    request: EntitiesRequest,
    finder: EntityFinder,
    found: SourceEntities,
    kinds: Sequence[str] | None,
) -> FoundEntities:
    """Add what depends on the request: the redacted text, and what was not looked for."""
    from anyrig.documents.entities.entity import redact
    from anyrig.documents.entities.ner_models import describe_missing_names
    from anyrig.documents.entities.people import fold
    from anyrig.documents.entities.redaction import add_possible_names

    by_name = request.engine != "grammar"
    if kinds is not None:
        entities = tuple(one for one in found.entities if one.entity.kind in kinds)
        found = replace(found, entities=entities)
    if request.filter:
        wanted = fold(request.filter)
        entities = tuple(
            one for one in found.entities
            if wanted in fold(one.entity.text) or wanted in fold(one.entity.value)
        )  # fmt: skip
        found = replace(found, entities=entities)
    missing: tuple[str, ...] = ()
    if by_name and (kinds is None or any(kind in kinds for kind in _NAME_KINDS)):
        missing = tuple(map(describe_missing_names, found.languages_without_names))
    text = ""
    if request.redact and found.error is None:
        to_redact = [one.entity for one in found.entities]
        if _redacts_people(request, kinds):
            to_redact = add_possible_names(found.text, to_redact, found.languages)
            found = replace(found, entities=tuple(map(found.place, to_redact)))
        text = redact(found.text, to_redact)
    return FoundEntities(**vars(found), name_warnings=missing, redacted=text)


# -- sources and the model -------------------------------------------------------------------------


def _describe_engine(request: EntitiesRequest, model: NerModel | None) -> str:
    return model.name if model else "rule" if request.engine == "grammar" else "lists"


def _measure(source: TextSource) -> int:
    try:
        return source.file.stat().st_size if source.file is not None else len(source.text)
    except OSError:
        return 0


@contextmanager
def _borrow_finder(
    rig: Rig,
    request: EntitiesRequest,
    model: NerModel | None,
    kinds: tuple[str, ...] | None,
    sources: Sequence[TextSource],
) -> Iterator[EntityFinder]:
    """What finds entities: grammars, and workers with a model if names are wanted. One that is kept
    finds all kinds, so that it serves any request.
    """
    from anyrig.documents.entities.finder import EntityFinder, needs_model
    from anyrig.memory.known_sizes import KnownBatchSizes

    if model is not None and not needs_model(model, kinds):
        model = None
    num_bytes = 0 if rig.models.shared else sum(map(_measure, sources))
    some_kinds = None if rig.models.shared else kinds

    def open_finder() -> EntityFinder:
        if model is None:
            return EntityFinder(
                None, kinds=some_kinds, unchecked=request.unchecked,
                lists=request.engine != "grammar",
            )  # fmt: skip
        workload = replace(model.workload, max_workers=max(1, num_bytes // _BYTES_PER_WORKER))
        quiet = replace(request, no_bench=True)
        choice = rig.choose_device(quiet) if workload.gpu else rig.choose_cpu(quiet)
        return EntityFinder(
            model,
            placed=place(rig, choice, workload, request),
            environment=rig.environment,
            limits=KnownBatchSizes(rig.folders.batch_limits),
            kinds=some_kinds,
            unchecked=request.unchecked,
        )

    also = ", unchecked numbers too" if request.unchecked else ""
    with rig.models.borrow(
        f"entities by {_describe_engine(request, model)}{also}",
        open_finder,
        version=f"{request.model} {request.labels} {request.threshold} {some_kinds}"
        f" {describe_model_options(rig, request)}",
        exclusive=not rig.models.shared,
    ) as finder:
        yield finder


# -- output ----------------------------------------------------------------------------------------


def check_output(request: EntitiesRequest, num_sources: int) -> None:
    """Check the output's name before any work."""
    path = request.output
    if path is None:
        return
    if not request.redact:
        check_writable(path, OUTPUT_FORMATS)
    elif num_sources > 1 and path.is_file():
        raise InvalidInputError(f"{path} is a file", hint="Several texts need a folder.")
    elif num_sources == 1 and not path.is_dir():
        check_writable(path, _REDACTED_FORMATS)


def _name_redacted(
    output: Path, found: FoundEntities, num_sources: int, taken: Collection[Path]
) -> Path:
    """The output itself, or a new file in it, whose name names nobody: files of one name may be
    from several folders.
    """
    from anyrig.documents.entities.redaction import redact_file_name

    if num_sources == 1 and not output.is_dir():
        return output
    stem = Path(found.source.name).name if found.source.file else "text"
    people = [one.entity for one in found.entities]
    stem = redact_file_name(stem, people, found.languages)
    path, number = output / f"{stem}.redacted.txt", 1
    while path in taken:
        number += 1
        path = output / f"{stem}.{number}.redacted.txt"
    return path


def format_found(found: FoundEntities, *, distinct: bool = False, width: int = 74) -> str:
    """The entities of a source as lines for people, with `width` characters of each."""
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


def _format_cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list) else value


def _format_row(row: dict[str, Any], distinct: bool, width: int) -> list[str]:
    """Kind, text, value, pages, and where it is or how often."""
    from anyrig.text.labels import format_pages, one_line

    value = str(row.get("value", ""))
    value = one_line(value, 40) if value != row["text"] else ""
    if row.get("valid") is False:
        value = f"{value} (fails its check)".strip()
    where = f"x{row['count']}" if distinct else f"{row['start']}-{row['end']}"
    numbers = row.get("pages") or ([row["page"]] if row["page"] else [])
    page = "p. " + format_pages(numbers).split(" ", 1)[1] if numbers else ""
    return [row["kind"], one_line(str(row["text"]), width), value, page, where]
