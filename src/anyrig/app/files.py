"""Files that are written for a user."""

from __future__ import annotations

import os
from pathlib import Path

from anyrig.errors import InvalidInputError


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work that would fill it."""
    if path.is_dir():
        raise InvalidInputError(f"cannot write {path}: it is a folder", hint="Name a file in it.")
    if not path.parent.is_dir():
        raise InvalidInputError(
            f"cannot write {path}: there is no folder {path.parent}",
            hint="Create the folder, or name another file.",
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidInputError(
            f"cannot write {path}: permission denied", hint="Name another file."
        )


def find_unused_name(path: Path) -> Path:
    """The name, or the first numbered one that is free: nothing is overwritten unasked."""
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_stem(f"{path.stem}-{number}")
    return found
