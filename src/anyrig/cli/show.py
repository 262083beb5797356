"""How things look on a terminal: errors, colours, devices, progress. No decisions."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from anyrig.cli.escape import esc
from anyrig.cli.output import print_error as print_error
from anyrig.cli.output import print_warning as print_warning
from anyrig.units import format_duration

_COLOURS = {
    "good": "32", "warning": "33", "broken": "31", "bold": "1", "dim": "2", "bright": "1;33",
}  # fmt: skip


def print_json(data: Any) -> None:
    """Data for programs: one document, nothing else on the stream."""
    print(json.dumps(data, indent=2, allow_nan=False, default=str))


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """Text in a colour, where the stream is a terminal that wants colours."""
    stream = stream or sys.stdout
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"{esc(stream)}[{_COLOURS[style]}m{text}{esc(stream)}[0m"


def table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Rows with aligned columns; the columns of `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_right = set(right)
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


class Progress:
    """One line on the error stream, written over, with a clock; silent without a terminal."""

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what, self._done, self._text = total, what, 0, ""
        self._start = time.monotonic()
        self._live = sys.stderr.isatty()
        self._closed = threading.Event()
        if self._live:
            threading.Thread(target=self._tick, daemon=True).start()

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self._text = text
        self._draw()

    def done(self) -> None:
        """One more is finished."""
        self._done += 1

    def reach(self, count: int) -> None:
        """So many are finished."""
        self._done = count

    def clear(self) -> None:
        """Take the line away, so that something can be printed; the next step draws it anew."""
        if self._live:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        self._closed.set()
        if self._live:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tick(self) -> None:
        while not self._closed.wait(0.5):
            self._draw()

    def _draw(self) -> None:
        if not self._live or self._closed.is_set():
            return
        elapsed = time.monotonic() - self._start
        left = ""
        if self._done:
            rate = self._done / max(elapsed, 1e-3)
            left = (
                f", {rate:.3g}/s, about {format_duration((self._total - self._done) / rate)} left"
            )
        place = f"{self._what} {min(self._done + 1, self._total)}/{self._total}"
        line = f"{place}: {self._text} ({elapsed:.0f} s{left})"
        room = shutil.get_terminal_size().columns - 1
        print(f"\r{esc(sys.stderr)}[2K{line[:room]}", end="", file=sys.stderr, flush=True)


def wrapped(first: str, text: str) -> str:
    """Text behind a beginning, folded to the terminal's width; commands are never cut in a word."""
    if not sys.stdout.isatty():
        return first + text
    width = shutil.get_terminal_size().columns
    indent = " " * len(first)
    lines = textwrap.wrap(text, max(30, width - len(first)), break_long_words=False,
                          break_on_hyphens=False)  # fmt: skip
    return first + f"\n{indent}".join(lines or [""])
