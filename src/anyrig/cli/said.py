"""Errors for programs: with `--json`, a command that fails before it has said anything says so.

The lines on the error stream are for people, and stay. Where something stands on the output already
(a document that names the files which failed, events, sound) nothing is added: a program that reads
one document must not find two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, TextIO


class Said:
    """An output that remembers whether anything was written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._anything = False

    def write(self, text: str) -> int:
        """Pass it on."""
        self._anything = self._anything or bool(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Pass them on."""
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        """For bytes; whoever asks for it writes some."""
        self._anything = True
        return self._stream.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def fail(self, message: str, hint: str, exit_code: int) -> None:
        """Tell a program of the error, if nothing was told yet."""
        if self._anything:
            return
        import json

        told = {"error": message, "hint": hint, "exit_code": exit_code}
        with contextlib.suppress(OSError, ValueError):  # a closed output: nobody reads
            print(json.dumps(told), file=self._stream, flush=True)


def for_programs(words: Sequence[str]) -> bool:
    """Whether JSON is wanted; looked up before the words are parsed, as that may fail."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options
