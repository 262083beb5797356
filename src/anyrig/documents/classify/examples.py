"""Examples to learn labels from: a folder of folders, a table, or lines of JSON.

    folder/invoice/a.pdf, folder/letter/b.txt      a label is the name of a folder
    examples.csv                                   text,label or file,label; a|b is two labels
    examples.jsonl                                 {"text": ..., "label": ...} on each line

A line that makes no sense is told of, and the rest go on. So is a link that leads out of a folder
of examples: it is not followed.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.text.decode import decode
from anyrig.text.folder import LEADS_OUT, leads_out

SEPARATOR = "|"
_TEXT = frozenset("text texts content body document texte texto contenido contenu".split())
_FILE = frozenset("file path filename filepath archivo fichero fichier ruta chemin".split())
_LABEL = frozenset(
    "label labels class classes category categories tag tags kind etiqueta etiquetas étiquette"
    " étiquettes categoría catégorie clase classe".split()
)
_HINT = "A folder of folders, a CSV with the columns text,label or file,label, or JSON lines."
_MOST_BYTES = 500_000_000
_LONGEST_FIELD = 50_000_000
_SOME = 20
_JSON = re.compile(r"\ufeff?\s*(\[\s*)?\{")
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
    """Something that was left out, and why."""

    place: str
    said: str


class Found(NamedTuple):
    """What a folder or a file of examples holds."""

    examples: list[Example]
    troubles: list[Trouble]


def examples(path: Path, *, resolve: Resolve | None = None) -> Found:
    """All examples of a folder or a file; InvalidInputError where there are none.

    Args:
        path: of the folder, the table or the JSON lines.
        resolve: says where a file lies that a row names; without it, names begin at the folder of
            `path`.
    """
    path = Path(path)
    find = resolve or (lambda name: path.parent / name)
    found = Found([], [])
    for one in _of_folder(path) if path.is_dir() else _of_file(path, find):
        if isinstance(one, Trouble):
            found.troubles.append(one)
        else:
            found.examples.append(one)
    if not found.examples:
        why = f": {found.troubles[0].place}: {found.troubles[0].said}" if found.troubles else ""
        raise InvalidInputError(f"there are no examples in {path}{why}", hint=_HINT)
    return found


def _of_folder(folder: Path) -> Iterator[Example | Trouble]:
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    for place in inside:
        if not place.is_dir():
            yield Trouble(place.name, "it is not in a label's folder")
            continue
        label = " ".join(place.name.split())
        empty = True
        for file in sorted(place.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(place).parts)
            if file.is_file() and not hidden:
                empty = False
                linked = place.is_symlink() or file.is_symlink()
                if linked and leads_out(file, folder):
                    yield Trouble(str(file.relative_to(folder)), LEADS_OUT)
                    continue
                yield Example((label,), str(file.relative_to(folder)), file=file)
        if empty:
            yield Trouble(place.name, "the folder is empty")


def _of_file(path: Path, resolve: Resolve) -> Iterator[Example | Trouble]:
    try:
        size = path.stat().st_size
        data = path.read_bytes() if path.is_file() and size <= _MOST_BYTES else b""
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}", hint=_HINT
        ) from error
    if not data.strip():
        said = "larger than 500 MB" if size > _MOST_BYTES else "empty, or not a regular file"
        raise InvalidInputError(f"{path.name} is {said}", hint=_HINT)
    text = decode(data, path.name)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json") or _JSON.match(text):
        yield from _of_json(text, path, resolve)
    else:
        yield from _of_table(text, path, resolve)


def _of_json(text: str, path: Path, resolve: Resolve) -> Iterator[Example | Trouble]:
    rows: list[tuple[str, object]] = []
    if text.lstrip().startswith("["):
        try:
            rows = [(f"{path.name}, entry {n}", row) for n, row in enumerate(json.loads(text), 1)]
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"{path.name} is not valid JSON: {error}", hint=_HINT
            ) from error
    for number, line in enumerate([] if rows else text.split("\n"), 1):
        if line.strip():
            try:
                rows.append((f"{path.name}, line {number}", json.loads(line)))
            except (ValueError, RecursionError) as error:
                yield Trouble(f"{path.name}, line {number}", f"it is not valid JSON: {error}")
    for place, row in rows:
        yield _json_example(row, place, resolve)


def _json_example(row: object, place: str, resolve: Resolve) -> Example | Trouble:
    if not isinstance(row, dict):
        return Trouble(place, "it is not a JSON object")
    named = {str(key).strip().lower(): value for key, value in row.items()}
    label = next((named[name] for name in named if name in _LABEL), None)
    text = next((named[name] for name in named if name in _TEXT), None)
    file = next((named[name] for name in named if name in _FILE), None)
    if isinstance(label, list):
        told = tuple(" ".join(str(one).split()) for one in label if str(one).strip())
    elif label is None or isinstance(label, dict):
        return Trouble(place, "it has no label")
    else:
        told = parted(str(label))
    if isinstance(text, str):
        return _example(told, place, text=text)
    if isinstance(file, str):
        return _of_name(told, place, file, resolve)
    return Trouble(place, "it has neither text nor file")


def _of_table(text: str, path: Path, resolve: Resolve) -> Iterator[Example | Trouble]:
    csv.field_size_limit(_LONGEST_FIELD)
    rows = _rows(text, path)
    head = [cell.strip().lower() for cell in rows[0][1]]
    columns = _columns(head)
    if columns is None:
        columns = _guessed([row for _, row in rows], path, resolve)
    else:
        rows = rows[1:]
    where, label, is_file = columns
    for line, row in rows:
        place = f"{path.name}, line {line}"
        if not any(cell.strip() for cell in row):
            continue
        if len(row) <= max(where, label):
            yield Trouble(place, f"it has {len(row)} columns")
        elif is_file:
            yield _of_name(parted(row[label]), place, row[where].strip(), resolve)
        else:
            yield _example(parted(row[label]), place, text=row[where])


def _rows(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """The rows with their lines, by the separator under which the first row makes most sense."""
    first = text.lstrip("\ufeff\r\n").split("\n", 1)[0]

    def sense(mark: str) -> tuple[bool, int]:
        cells = next(csv.reader([first], delimiter=mark), [])
        return _columns([cell.strip().lower() for cell in cells]) is not None, len(cells)

    mark = max((",", ";", "\t"), key=sense)
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=mark)
    rows: list[tuple[int, list[str]]] = []
    try:
        for row in reader:
            rows.append((reader.line_num, row))
    except csv.Error as error:
        raise InvalidInputError(
            f"{path.name} is not a valid table: line {reader.line_num}: {error}", hint=_HINT
        ) from error
    return rows


def _columns(head: Sequence[str]) -> tuple[int, int, bool] | None:
    """Where the text or file and the label stand, if a first row says so."""
    label = next((n for n, name in enumerate(head) if name in _LABEL), None)
    text = next((n for n, name in enumerate(head) if name in _TEXT), None)
    file = next((n for n, name in enumerate(head) if name in _FILE), None)
    if label is None or (text is None and file is None):
        return None
    if text is not None:
        return text, label, False
    assert file is not None
    return file, label, True


def _guessed(rows: Sequence[Sequence[str]], path: Path, resolve: Resolve) -> tuple[int, int, bool]:
    """A table without names of columns: the text or file first, the label last."""
    widths = {len(row) for row in rows if any(row)}
    if widths != {2}:
        raise InvalidInputError(
            f"{path.name} does not say which column is the text and which the label",
            hint="Name them in its first row: text,label or file,label.",
        )
    some = [row[0].strip() for row in rows[:_SOME] if len(row) == 2]
    return 0, 1, all(_is_file(name, resolve) for name in some)


def _is_file(name: str, resolve: Resolve) -> bool:
    try:
        return resolve(name).is_file()
    except (OSError, ValueError, InvalidInputError):
        return False


def _of_name(
    labels: tuple[str, ...], place: str, name: str, resolve: Resolve
) -> Example | Trouble:  # fmt: skip
    try:
        return _example(labels, place, file=resolve(name))
    except InvalidInputError as error:
        return Trouble(place, error.message)


def _example(
    labels: tuple[str, ...], place: str, text: str = "", file: Path | None = None
) -> Example | Trouble:
    if file is None and not text.strip():
        return Trouble(place, "its text is empty")
    return Example(labels, place, text, file)


def parted(cell: str) -> tuple[str, ...]:
    """The labels of `a|b`, each once."""
    names = (" ".join(name.split()) for name in cell.split(SEPARATOR))
    return tuple(dict.fromkeys(name for name in names if name))
