"""Files that are written for a user: checked before the work, complete or not there at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError


def check_writable(path: Path, formats: Sequence[str] = (), *, new_folder: bool = False) -> None:
    """Refuse a file that cannot be written, before the work that would fill it.

    Args:
        path: of the file.
        formats: the endings that its name may have; any if empty.
        new_folder: whether its folder will be made if there is none.
    """
    folder = path.absolute().parent
    if formats and path.suffix.lower() not in formats:
        raise InvalidInputError(
            f"{path.name}: unknown format",
            hint=f"Valid file name extensions: {', '.join(filter(None, formats))}.",
        )
    if path.is_dir():
        raise InvalidInputError(f"cannot write {path}: it is a folder", hint="Name a file in it.")
    if not folder.is_dir():
        if new_folder:
            return
        raise InvalidInputError(
            f"cannot write {path}: there is no folder {path.parent}",
            hint="Create the folder, or name another file.",
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InvalidInputError(
            f"cannot write {path}: permission denied", hint="Name another file."
        )


def normalize_format(text: str) -> str:
    """A format by its name or a suffix, in any case: `M4B` and `.m4b` are m4b."""
    return text.strip().lower().lstrip(".")


def find_unused_name(path: Path) -> Path:
    """The name, or the first numbered one that is free: nothing is overwritten unasked."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step. What UTF-8 cannot express, as in odd file names, becomes `?`."""
    from anyrig.storage.files import open_atomic

    with open_atomic(path) as file:
        file.write(text.encode("utf-8", "replace"))


def format_csv(rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Rows as a table for spreadsheets, which take no text of it for a formula."""
    from anyrig.text.labels import cell

    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow([cell(one) if isinstance(one, str) else one for one in row])
    return text.getvalue()


def format_json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
