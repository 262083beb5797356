"""Examples and manifests: files or texts, with or without labels.

    folder/invoice/a.pdf    the name of a folder is the label of the files in it
    examples.csv            text,label or file,label; a|b is two labels
    examples.jsonl          {"text": ..., "label": ...} on each line

A row that makes no sense is reported with its line, and the rest is used. A link that leads out of
a folder of examples is reported and not followed.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from anyrig.errors import InvalidInputError
from anyrig.text.decode import decode
from anyrig.text.labels import one_line, replace_invalid

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
SEPARATOR = "|"
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_TEXT = frozenset("text texts content body document texte texto contenido contenu".split())
_FILE = frozenset(
    "file path filename filepath image archivo fichero fichier ruta chemin imagen".split()
)
_LABEL = frozenset(
    "label labels class classes category categories tag tags kind etiqueta etiquetas étiquette"
    " étiquettes categoría catégorie clase classe".split()
)
_HINT = "A CSV with the columns text,label or file,label, JSON lines, or a folder of folders."
_MAX_BYTES = 500_000_000
_PIECE_BYTES = 1 << 20
_MAX_FIELD = 50_000_000
_FIRST_ROWS = 20
_JSON = re.compile(r"\ufeff?\s*[\[{]")
Resolve = Callable[[str], Path]
"""The path of a file that a row names; `InvalidInputError` for one that may not be read."""


@dataclass(frozen=True)
class Example:
    """A text, or the file that holds it, and what it is."""

    labels: tuple[str, ...]
    place: str
    """Where it stands, for errors: `examples.csv, line 4`."""
    text: str = ""
    file: Path | None = None


class Trouble(NamedTuple):
    """A row that was left out, and why."""

    place: str
    reason: str


class Manifest(NamedTuple):
    examples: list[Example]
    troubles: list[Trouble]


def is_manifest(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def read_manifest(path: Path, *, labelled: bool = True, resolve: Resolve | None = None) -> Manifest:
    """All rows of a manifest, or files of a folder of folders; InvalidInputError if none can be
    used.

    Args:
        path: of the table, the JSON lines or the folder.
        labelled: whether each row must have a label.
        resolve: says where a file lies that a row names; without it, names begin at the manifest's
            folder.
    """
    if path.is_dir():
        rows = _iterate_folder(path)
    else:
        check_size(path, _HINT)
        rows = iterate_manifest(path, labelled=labelled, resolve=resolve)
    found = Manifest([], [])
    for one in rows:
        if isinstance(one, Trouble):
            found.troubles.append(one)
        else:
            found.examples.append(one)
    if not found.examples:
        why = f": {found.troubles[0].place}: {found.troubles[0].reason}" if found.troubles else ""
        raise InvalidInputError(f"there are no examples in {path}{why}", hint=_HINT)
    return found


def iterate_manifest(
    path: Path, *, labelled: bool = True, resolve: Resolve | None = None
) -> Iterator[Example | Trouble]:
    """The rows one by one: the manifest may be larger than memory."""
    find = resolve or (lambda name: path.parent / name)
    with open_text(path, _HINT) as file:
        if is_json(path, file, _HINT):
            for place, row in read_json_rows(file, path.name, _HINT):
                yield row if isinstance(row, Trouble) else _from_json(row, place, find, labelled)
        else:
            yield from _iterate_table(file, path, find, labelled)


def _iterate_folder(folder: Path) -> Iterator[Example | Trouble]:
    from anyrig.text.folder import LEADS_OUT, leads_out  # loads every format

    for place in sorted(p for p in folder.iterdir() if not p.name.startswith(".")):
        if not place.is_dir():
            yield Trouble(place.name, "it is not in a label's folder")
            continue
        label = " ".join(place.name.split())
        is_empty = True
        for file in sorted(place.rglob("*")):
            is_hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
            if is_hidden or not file.is_file():
                continue
            is_empty = False
            name = str(file.relative_to(folder))
            if (place.is_symlink() or file.is_symlink()) and leads_out(file, folder):
                yield Trouble(name, LEADS_OUT)
            else:
                yield Example((label,), name, file=file)
        if is_empty:
            yield Trouble(place.name, "the folder is empty")


# -- files -----------------------------------------------------------------------------------------


def check_size(path: Path, hint: str) -> None:
    """Refuse a file that is too large for memory."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error, hint) from error
    if size > _MAX_BYTES:
        raise InvalidInputError(f"{path.name} is larger than 500 MB", hint=hint)


def open_text(path: Path, hint: str) -> TextIO:
    """A text file for reading: UTF-8 as it is on disk, any other encoding decoded in memory."""
    try:
        if not path.is_file() and path.exists():
            raise InvalidInputError(f"{path.name} is not a regular file", hint=hint)
        decoder = codecs.getincrementaldecoder("utf-8")()
        with path.open("rb") as data:
            try:
                while piece := data.read(_PIECE_BYTES):
                    if "\0" in decoder.decode(piece):  # UTF-16 without its mark may be valid UTF-8
                        raise UnicodeError
                decoder.decode(b"", final=True)
            except UnicodeError:
                check_size(path, hint)
                return io.StringIO(decode(path.read_bytes(), path.name).lstrip("\ufeff"))
        return path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise _unreadable(path, error, hint) from error


def _unreadable(path: Path, error: OSError, hint: str) -> InvalidInputError:
    return InvalidInputError(f"{path} cannot be read: {error.strerror or error}", hint=hint)


def is_json(path: Path, file: TextIO, hint: str) -> bool:
    """By the name or by the first characters; an empty file is refused."""
    head = file.read(4096)
    file.seek(0)
    if not head.strip():
        raise InvalidInputError(f"{path.name} is empty", hint=hint)
    return path.suffix.lower() in _JSON_SUFFIXES or _JSON.match(head) is not None


def read_json_rows(
    file: TextIO, name: str, hint: str
) -> Iterator[tuple[str, dict[str, object] | Trouble]]:
    """The objects of JSON lines, or of one array, with the place of each."""
    entries: Iterator[tuple[str, object]]
    first = file.read(4096)
    file.seek(0)
    if first.lstrip().startswith("["):
        try:
            found = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{name} is not valid JSON: {error}", hint=hint) from error
        entries = ((f"{name}, entry {number}", row) for number, row in enumerate(found, 1))
    else:
        entries = _parse_lines(file, name)
    for place, row in entries:
        if isinstance(row, Trouble):
            yield place, row
        elif isinstance(row, dict):
            yield place, {str(key).strip().lower(): value for key, value in row.items()}
        else:
            yield place, Trouble(place, "it is not a JSON object")


def _parse_lines(file: TextIO, name: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        place = f"{name}, line {number}"
        try:
            yield place, json.loads(line)
        except (ValueError, RecursionError) as error:
            yield place, Trouble(place, f"it is not valid JSON: {error}")


def read_table_rows(
    file: TextIO, name: str, rate: Callable[[Sequence[str]], object], hint: str
) -> Iterator[tuple[int, list[str]]]:
    """Rows with their lines, separated by what gives a first row with the best rate."""
    csv.field_size_limit(_MAX_FIELD)
    lines = itertools.dropwhile(lambda line: not line.strip("\r\n"), file)
    first = next(lines, "")

    def rate_separator(mark: str) -> tuple[object, int]:
        cells = next(csv.reader([first], delimiter=mark), [])
        return rate([cell.strip().lower() for cell in cells]), len(cells)

    best = max((",", ";", "\t"), key=rate_separator)
    reader = csv.reader(itertools.chain([first], lines), delimiter=best)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise InvalidInputError(
            f"{name} is not a valid table: line {reader.line_num}: {error}", hint=hint
        ) from error


# -- rows ------------------------------------------------------------------------------------------


class _Columns(NamedTuple):
    content: int
    is_file: bool
    label: int | None


def _from_json(
    row: dict[str, object], place: str, resolve: Resolve, labelled: bool
) -> Example | Trouble:
    label = next((row[name] for name in row if name in _LABEL), None)
    text = next((row[name] for name in row if name in _TEXT), None)
    file = next((row[name] for name in row if name in _FILE), None)
    if isinstance(label, list):
        labels = tuple(filter(None, (one_line(str(one)) for one in label)))
    elif label is None or isinstance(label, dict):
        if labelled:
            return Trouble(place, "it has no label")
        labels = ()
    else:
        labels = parse_labels(str(label))
    if isinstance(text, str):
        return _build_example(labels, place, text=text)
    if isinstance(file, str):
        return _build_file_example(labels, place, file, resolve)
    return Trouble(place, "it has neither text nor file")


def _iterate_table(
    file: TextIO, path: Path, resolve: Resolve, labelled: bool
) -> Iterator[Example | Trouble]:
    def rate(head: Sequence[str]) -> bool:
        return _find_columns(head, labelled) is not None

    rows = read_table_rows(file, path.name, rate, _HINT)
    first = list(itertools.islice(rows, _FIRST_ROWS))
    columns = _find_columns([cell.strip().lower() for cell in first[0][1]], labelled)
    if columns is None:
        columns = _guess_columns([row for _, row in first], path, resolve, labelled)
    else:
        first = first[1:]
    for line, row in itertools.chain(first, rows):
        place = f"{path.name}, line {line}"
        if not any(cell.strip() for cell in row):
            continue
        if len(row) <= max(columns.content, columns.label or 0):
            yield Trouble(place, f"it has {len(row)} columns")
            continue
        labels = () if columns.label is None else parse_labels(row[columns.label])
        if columns.is_file:
            yield _build_file_example(labels, place, row[columns.content].strip(), resolve)
        else:
            yield _build_example(labels, place, text=row[columns.content])


def _find_columns(head: Sequence[str], labelled: bool) -> _Columns | None:
    """Where the text or file and the label stand, if a first row says so."""
    label = next((n for n, name in enumerate(head) if name in _LABEL), None)
    text = next((n for n, name in enumerate(head) if name in _TEXT), None)
    file = next((n for n, name in enumerate(head) if name in _FILE), None)
    content = file if text is None else text
    if content is None or (labelled and label is None):
        return None
    return _Columns(content, text is None, label)


def _guess_columns(
    rows: Sequence[Sequence[str]], path: Path, resolve: Resolve, labelled: bool
) -> _Columns:
    """A table without names of columns: the text or file first, the label last."""
    if not labelled or {len(row) for row in rows if any(row)} != {2}:
        raise InvalidInputError(
            f"{path.name} does not say which column is the text"
            + (" and which the label" if labelled else ""),
            hint="Name them in its first row: text,label or file,label."
            if labelled
            else "Name it in its first row: text, or file.",
        )
    names = [row[0].strip() for row in rows if len(row) == 2]
    return _Columns(0, all(_is_file(name, resolve) for name in names), 1)


def _is_file(name: str, resolve: Resolve) -> bool:
    try:
        return resolve(name).is_file()
    except (OSError, ValueError, InvalidInputError):
        return False


def _build_file_example(
    labels: tuple[str, ...], place: str, name: str, resolve: Resolve
) -> Example | Trouble:
    if not name:
        return Trouble(place, "it names no file")
    try:
        file = resolve(name)  # first: what may not be read is refused whatever else is wrong
    except InvalidInputError as error:
        return Trouble(place, error.message)
    if replace_invalid(name) != name:
        return Trouble(place, "its file name has characters that no name can have")
    return _build_example(labels, place, file=file)


def _build_example(
    labels: tuple[str, ...], place: str, text: str = "", file: Path | None = None
) -> Example | Trouble:
    if file is None and not text.strip():
        return Trouble(place, "its text is empty")
    return Example(labels, place, replace_invalid(text), file)


def parse_labels(cell: str) -> tuple[str, ...]:
    """The labels of `a|b`, each once."""
    names = map(one_line, cell.split(SEPARATOR))
    return tuple(dict.fromkeys(name for name in names if name))
