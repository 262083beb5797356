"""Control characters on their way to the terminal.

Names of files, titles and texts come from strangers: a sequence in them could recolour or clear the
terminal, or hide what was done. `main` puts `EscapedStream` in front of both outputs; whatever a
command prints goes through it. Sequences of our own are made with `esc`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, TextIO

_UNSAFE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]|\r(?!\n)")
# Whatever breaks a line or changes the direction of what follows.
_UNSAFE_IN_LINE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class EscapedStream:
    """A text stream that writes control characters by their numbers, as JSON does.

    Line ends, tabs and form feeds stay. Bytes that are written to `buffer` are left alone.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.escape = f"\x00{os.urandom(6).hex()}\x00"
        """Stands for the escape character; nobody else can know it."""
        self.is_used = False
        """Whether anything was written."""

    def write(self, text: str) -> int:
        self.is_used = self.is_used or bool(text)
        if _UNSAFE.search(text):
            *begun, last = text.split(self.escape)
            safe = [  # a carriage return before a sequence of our own is ours as well
                escape_controls(piece.removesuffix("\r")) + "\r" * piece.endswith("\r")
                for piece in begun
            ]
            self.stream.write("\x1b".join([*safe, escape_controls(last)]))
        else:
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """For bytes; whoever asks for it writes some."""
        self.is_used = True
        return self.stream.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def esc(stream: Any) -> str:
    """The escape character for sequences of our own on this stream."""
    found = getattr(stream, "escape", "\x1b")
    return found if isinstance(found, str) else "\x1b"


def escape_controls(text: str) -> str:
    return _UNSAFE.sub(_to_number, text)


def escape_line(text: object) -> str:
    """A text of somebody else as a part of one line: nothing in it breaks or turns the line."""
    return _UNSAFE_IN_LINE.sub(_to_number, str(text))


def _to_number(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
