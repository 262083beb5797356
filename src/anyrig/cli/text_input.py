"""Texts that a command reads: a file, or the standard input for `-`."""

from __future__ import annotations

import sys
from pathlib import Path

from anyrig.errors import InvalidInputError


def read_input(name: str) -> str:
    from anyrig.text.decode import decode

    if name == "-":
        return decode(sys.stdin.buffer.read(), "the standard input")
    path = Path(name).expanduser()
    if not path.is_file():
        raise InvalidInputError(f"no such file: {name}", hint="Check the path; - reads stdin.")
    return decode(path.read_bytes(), name)


def read_lines(name: str) -> dict[int, str]:
    """The lines that are not empty, by their numbers."""
    lines = enumerate(read_input(name).splitlines(), 1)
    return {number: line for number, line in lines if line.strip()}
