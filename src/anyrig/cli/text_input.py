"""Texts that a command reads: its words, a file, or the standard input for `-`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def looks_like_path(word: str) -> bool:
    """Whether a word names a file or folder: one that exists, or one that was plainly meant to."""
    if not word:
        return False
    # Unlike Path's methods, these take any text: `~5`, one too long for a name, a zero byte.
    if os.path.exists(os.path.expanduser(word)):
        return True
    if any(letter.isspace() for letter in word):
        return False
    from anyrig.text.files import guess_format

    return (
        word.startswith(("/", "./", "../", "~/"))
        or word.endswith(("/", os.sep))
        or bool(guess_format(word))
    )


def read_input(name: str) -> str:
    from anyrig.text.decode import decode, read_plain_text

    if name == "-":
        return decode(sys.stdin.buffer.read(), "the standard input")
    return read_plain_text(Path(name).expanduser())


def read_lines(name: str) -> dict[int, str]:
    """The lines that are not empty, by their numbers."""
    lines = enumerate(read_input(name).splitlines(), 1)
    return {number: line for number, line in lines if line.strip()}
