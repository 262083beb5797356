"""How found entities are put out: a table, lines of JSON, CSV, or the text without them."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from anyrig.cli.devices import writable
from anyrig.cli.escape import esc
from anyrig.cli.failed import Failed, plain
from anyrig.cli.show import paint, print_json, print_warning, table
from anyrig.errors import InvalidInputError
from anyrig.text.labels import cell, one_line
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.services.entities import Told

_COLUMNS = (
    "file", "page", "kind", "text", "value", "start", "end", "valid", "source", "score", "count",
)  # fmt: skip
_FORMATS = (".csv", ".tsv", ".jsonl", ".json", ".txt")
_TEXTS = ("", ".txt", ".text", ".md")


class Output(Protocol):
    """Where entities go."""

    def tell(self, told: Told) -> None:
        """One more source that could be read."""

    def end(self, failed: Sequence[Failed], warnings: Sequence[str]) -> None:
        """All are through; these could not be read."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...  # fmt: skip


def output(options: argparse.Namespace, *, num_sources: int, people: bool) -> Output:
    """What was asked for; `people` says whether their names are wanted."""
    path = Path(options.output).expanduser() if options.output else None
    if options.redact:
        if options.json:
            raise InvalidInputError("--redact writes text, not JSON", hint="Leave one of them out.")
        return _Redacted(path, single=num_sources == 1, people=people)
    if path is not None:
        _check(path)
    ending = path.suffix.lower() if path is not None else ""
    if ending in (".csv", ".tsv"):
        return _Csv(path, options.distinct, "\t" if ending == ".tsv" else ",")
    if ending == ".jsonl":
        return _Lines(path, options.distinct)
    if ending == ".json" or (options.json and path is None):
        return _Whole(path, options.distinct)
    return _Table(path, options.distinct)


def _check(path: Path) -> None:
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInputError(
            f"{path.name} is no format for entities",
            hint=f"End it in one of {', '.join(_FORMATS)}.",
        )
    writable(path)


class _Written:
    """Text to the terminal, or to a file that is there when it is whole."""

    def __init__(self, path: Path | None, distinct: bool) -> None:
        self._path, self._distinct = path, distinct
        self._stack = contextlib.ExitStack()
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Written:
        from anyrig.storage.files import open_atomic

        if self._path is not None:
            self._file = self._stack.enter_context(open_atomic(self._path))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.__exit__(kind, error, trace)

    def end(self, failed: Sequence[Failed], warnings: Sequence[str]) -> None:
        return

    def _write(self, text: str) -> None:
        if self._file is not None:
            self._file.write(text.encode("utf-8", "replace"))
        else:
            if sys.stderr.isatty():
                print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)
            sys.stdout.write(text)
            sys.stdout.flush()

    def _rows(self, told: Told) -> list[dict[str, Any]]:
        from anyrig.documents.entities.listing import listed

        name = told.source.name
        if not self._distinct:
            return [{"file": name, **one.plain()} for one in told.entities]
        pages = {one.entity: one for one in told.entities}
        return [
            {"file": name, **pages[one.first].plain(), "count": one.count}
            for one in listed(one.entity for one in told.entities)
        ]


class _Lines(_Written):
    """A JSON object a line; a file that cannot be read is one with an error, at the end."""

    def tell(self, told: Told) -> None:
        self._put(self._rows(told))

    def end(self, failed: Sequence[Failed], warnings: Sequence[str]) -> None:
        self._put(plain(failed))

    def _put(self, rows: Sequence[dict[str, Any]]) -> None:
        self._write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


class _Whole(_Written):
    """One JSON document."""

    def __init__(self, path: Path | None, distinct: bool) -> None:
        super().__init__(path, distinct)
        self._found: list[dict[str, Any]] = []
        self._warned: list[dict[str, str]] = []

    def tell(self, told: Told) -> None:
        self._found += self._rows(told)
        self._warned += [{"file": told.source.name, "warning": one} for one in told.warnings]

    def end(self, failed: Sequence[Failed], warnings: Sequence[str]) -> None:
        warned = [*self._warned, *({"warning": one} for one in warnings)]
        data = {"entities": self._found, "warnings": warned, "failed": plain(failed)}
        self._write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


class _Csv(_Written):
    """Rows for a spreadsheet."""

    def __init__(self, path: Path | None, distinct: bool, mark: str) -> None:
        super().__init__(path, distinct)
        self._mark, self._begun = mark, False

    def tell(self, told: Told) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(
            text, _COLUMNS, delimiter=self._mark, extrasaction="ignore", lineterminator="\n"
        )
        if not self._begun:
            writer.writeheader()
            self._begun = True
        writer.writerows({key: cell(value) if isinstance(value, str) else value
                          for key, value in row.items()} for row in self._rows(told))  # fmt: skip
        self._write(text.getvalue())


class _Table(_Written):
    """What a person reads."""

    def tell(self, told: Told) -> None:
        rows = self._rows(told)
        tongues = f" ({', '.join(told.languages)})" if told.languages else ""
        title = f"{one_line(told.source.name, 200)}{tongues}: {pluralize(len(rows), 'entity')}"
        title = title.replace("entitys", "entities")
        self._write(paint(title, "bold") + "\n")
        if rows:
            self._write(_indented(rows, self._distinct) + "\n")
        self._write("\n")


def _indented(rows: list[dict[str, Any]], distinct: bool) -> str:
    room = max(24, shutil.get_terminal_size((120, 24)).columns - 46)
    paged = any(row["page"] for row in rows)
    shown = []
    for row in rows:
        place = f"{row['start']}-{row['end']}"
        told = [f"  {row['kind']}", one_line(str(row["text"]), room)]
        value = str(row.get("value", ""))
        told.append(one_line(value, 40) if value != row["text"] else "")
        if row.get("valid") is False:
            told[-1] = f"{told[-1]} (fails its check)".strip()
        told += [f"p. {row['page']}" if row["page"] else ""] if paged else []
        told.append(f"x{row['count']}" if distinct else place)
        shown.append(told)
    return table(shown, right=(len(shown[0]) - 1,))


class _Redacted:
    """The text of each source with what was found blotted out."""

    def __init__(self, path: Path | None, *, single: bool, people: bool) -> None:
        if path is None and not single:
            raise InvalidInputError("several texts and no place for them", hint="-o FOLDER.")
        if path is not None and not single and path.is_file():
            raise InvalidInputError(f"{path} is a file", hint="Several texts need a folder.")
        if path is not None and single and not path.is_dir():
            if path.suffix.lower() not in _TEXTS:
                raise InvalidInputError(
                    f"{path.name} is no format for a text", hint="End it in .txt or .md."
                )
            writable(path)
        self._path, self._single, self._people = path, single, people
        self._names: set[Path] = set()

    def __enter__(self) -> _Redacted:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def tell(self, told: Told) -> None:
        from anyrig.documents.entities.cautious import cautious
        from anyrig.documents.entities.listing import redacted
        from anyrig.storage.files import write_atomic

        found = [one.entity for one in told.entities]
        if self._people:
            found = cautious(told.text, found, told.languages)
        text = redacted(told.text, found)
        if self._path is None:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        else:
            write_atomic(self._place(told), text)

    def end(self, failed: Sequence[Failed], warnings: Sequence[str]) -> None:
        return

    def _place(self, told: Told) -> Path:
        assert self._path is not None
        if self._single and not self._path.is_dir():
            return self._path
        stem = Path(told.source.name).name if told.source.file else "text"
        place, number = self._path / f"{stem}.redacted.txt", 1
        while place in self._names:  # files of one name from several folders
            number += 1
            place = self._path / f"{stem}.{number}.redacted.txt"
        self._names.add(place)
        return place


def say_warnings(told: Told) -> None:
    """What was wrong with a source though it could be read."""
    for warning in told.warnings:
        print_warning(f"{one_line(told.source.name, 80)}: {one_line(warning, 300)}")


def models(*, as_json: bool) -> None:
    """The kinds, and which models of names are there."""
    from anyrig.documents.entities.engines.spacy_names import is_there
    from anyrig.documents.entities.entity import CHECKED, NAMES
    from anyrig.documents.entities.names import OFFERED

    rows: list[dict[str, str]] = [
        {"model": one.module, "language": one.language, "licence": one.licence,
         "install": "" if is_there(one.module) and is_there("spacy") else one.install}
        for one in OFFERED
    ]  # fmt: skip
    if as_json:
        told = [{**one, "installed": not one["install"]} for one in rows]
        print_json({"names": NAMES, "checked": CHECKED, "models": told})
        return
    print(f"by grammar, with no model: {', '.join(CHECKED)}")
    print(f"by a model: {', '.join(NAMES)}\n")
    print(table([[*list(one.values())[:3], one["install"] or "installed"] for one in rows]))
    print("\nAny token-classification or GLiNER model serves as well: --model FOLDER_OR_NAME.")
