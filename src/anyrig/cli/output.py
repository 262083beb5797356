"""What commands print: errors, warnings, tables, JSON, and progress from the events of their work.

`rich` draws the progress of long work and is imported when there is some; tables are plain.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from anyrig.cli.escape import esc, escape_controls
from anyrig.errors import AnyrigError, render, render_json
from anyrig.install import localize_install_commands
from anyrig.units import format_speed, format_time_left, pluralize, shorten

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from anyrig.app.documents import FailedFile
    from anyrig.estimates import StageEstimate
    from anyrig.events import ClusterEvent, Event, JsonEvents, ProgressEvent

_COLOURS = {
    "good": "32", "warning": "33", "broken": "31", "bold": "1", "dim": "2", "bright": "1;33",
}  # fmt: skip
_LOG_INTERVAL_S = 15.0
_DRAW_INTERVAL_S = 0.1
_MAX_NAMED = 20


def print_error(error: AnyrigError) -> None:
    """One line for the error, one for what to do."""
    message, hint = (render(text, "command") for text in (error.message, error.hint))
    print(f"{paint('error', 'broken', sys.stderr)}: {message}", file=sys.stderr)
    if hint:
        print(f"  hint: {localize_install_commands(hint)}", file=sys.stderr)


def print_warning(text: str) -> None:
    text = localize_install_commands(render(text, "command"))
    print(f"{paint('warning', 'warning', sys.stderr)}: {text}", file=sys.stderr)


def print_warnings(texts: Sequence[str]) -> None:
    """Print the first warnings of many, and how many more there are."""
    for text in texts[:_MAX_NAMED]:
        print_warning(text)
    if len(texts) > _MAX_NAMED:
        print_warning(f"and {len(texts) - _MAX_NAMED} more; --json lists all")


def failed_to_json(failed: Iterable[FailedFile]) -> list[dict[str, str]]:
    return [one.to_json() for one in failed]


def report_failed(failed: Sequence[FailedFile], total: int, noun: str = "file") -> int:
    """Print a warning for each file that could not be read; returns the exit code.

    Where none could be read, the first error is the command's own.

    Args:
        failed: those that could not be read.
        total: how many were given.
        noun: what they are called.
    """
    if not failed:
        return 0
    nothing_read = len(failed) >= total
    print_warnings([_describe_failed(one) for one in failed[nothing_read:]])
    if total > 1:
        print_warning(f"{len(failed)} of {pluralize(total, noun)} could not be read")
    if nothing_read:
        failed[0].error.message = _name_file(failed[0])
        raise failed[0].error
    return 1


def _describe_failed(failed: FailedFile) -> str:
    return f"{_name_file(failed)}\n  hint: {render(failed.error.hint, 'command')}"


def _name_file(failed: FailedFile) -> str:
    """The error's message, with the file's name in front if the message does not contain it."""
    from anyrig.text.labels import one_line

    message = one_line(render(failed.error.message, "command"), 400)
    if one_line(Path(failed.file).name, 200) in message:
        return message
    return f"{one_line(failed.file, 200)}: {message}"


def print_json(data: Any) -> None:
    """Print one JSON document for programs."""
    print(json.dumps(render_json(data, "command"), indent=2, allow_nan=False, default=str))


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """Colour a text if the stream is a terminal that wants colours."""
    stream = stream or sys.stdout
    if "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"{esc(stream)}[{_COLOURS[style]}m{text}{esc(stream)}[0m"


def format_table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> str:
    """Rows with aligned columns; those of `right` are aligned to the right."""
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


def wrap(first: str, text: str) -> str:
    """Text behind a beginning, folded to the terminal's width; words are never split."""
    if not sys.stdout.isatty():
        return first + text
    width = shutil.get_terminal_size().columns
    lines = textwrap.wrap(
        text, max(30, width - len(first)), break_long_words=False, break_on_hyphens=False
    )
    return first + f"\n{' ' * len(first)}".join(lines or [""])


class EventPrinter:
    """Shows the events of some work: warnings as lines, progress as a bar on a terminal.

    Where stderr is a file, progress is a line every 15 seconds.

    Args:
        json_lines: print progress as JSON lines on stdout, for a program that follows.
        format_cluster: the line on stdout for an event of a worker or a coordinator.
    """

    def __init__(
        self,
        *,
        json_lines: bool = False,
        format_cluster: Callable[[ClusterEvent], str] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self._json_lines, self._format_cluster = json_lines, format_cluster
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._next_line = time.monotonic() + _LOG_INTERVAL_S
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._held: list[Event] | None = None
        """What is shown later, while a person is asked something."""

    @cached_property
    def _json_events(self) -> JsonEvents:
        from anyrig.events import JsonEvents

        return JsonEvents()

    @cached_property
    def _estimate(self) -> StageEstimate:
        from anyrig.estimates import StageEstimate

        return StageEstimate()

    def __call__(self, event: Event) -> None:
        from anyrig.events import ClusterEvent, NoticeEvent, ProgressEvent, WarningEvent

        if self._held is not None:
            if not isinstance(event, ProgressEvent):
                self._held.append(event)
        elif isinstance(event, ProgressEvent):
            if self._json_lines:
                self._print_line(event)
            elif self._is_terminal:
                self._draw(event)
            elif time.monotonic() >= self._next_line:
                self._next_line = time.monotonic() + _LOG_INTERVAL_S
                done = f" {event.done / event.total:.0%}" if event.total else ""
                line = f"{event.stage}{done}  {shorten(event.detail, 80)}"
                print(line.rstrip(), file=sys.stderr, flush=True)
        elif isinstance(event, WarningEvent):
            self.warnings.append(event.message)
            self.pause()
            print_warning(event.message)
        elif isinstance(event, NoticeEvent):
            self.pause()
            print(render(event.message, "command"), file=sys.stderr)
        elif isinstance(event, ClusterEvent) and self._format_cluster is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads any more
                print(self._format_cluster(event), flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Leave the terminal to a question: progress is not drawn, the rest is shown afterwards."""
        self.pause()
        held: list[Event] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for event in held:
                self(event)

    def end(self, result: Mapping[str, Any]) -> None:
        """Print the result as JSON: as the last line for a program that follows, or a document."""
        if self._json_lines:
            print_line("done", result)
        else:
            print_json(dict(result))

    def _print_line(self, event: ProgressEvent) -> None:
        if row := self._json_events.encode(event):
            print_line(row.pop("event"), row)

    def _draw(self, event: ProgressEvent) -> None:
        from anyrig.events import estimate_progress

        left, speed = estimate_progress(self._estimate, event)
        detail = event.detail if speed is None else f"{format_speed(speed)}, {event.detail}"
        if self._progress is None:
            self._progress = _start_bar()
            self._task = self._progress.add_task("", total=None, left="", detail="")
        assert self._task is not None
        self._progress.update(
            self._task, description=event.stage, completed=event.done, total=event.total or None,
            left=format_time_left(*left) if left and left.high_s else "",
            detail=escape_controls(detail),
        )  # fmt: skip

    def pause(self) -> None:
        """Remove the bar, so that a line can be printed; the next event draws it again."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = self._task = None


class PlainEventPrinter(EventPrinter):
    """Shows progress as one line that is written over, for commands that never import `rich`."""

    _has_line = False
    _next_draw, _stage = 0.0, ""

    def _draw(self, event: ProgressEvent) -> None:
        from anyrig.events import estimate_progress

        now = time.monotonic()
        if now < self._next_draw and event.stage == self._stage:
            return
        self._next_draw, self._stage = now + _DRAW_INTERVAL_S, event.stage
        place = f" {min(event.done + 1, event.total)}/{event.total}" if event.total else ""
        if event.unit == "bytes":  # the detail has them in larger units
            left, _ = estimate_progress(self._estimate, event)
            place = f" {event.fraction:.0%}"
            place += f", {format_time_left(*left)}" if left and left.high_s else ""
        self._draw_line(f"{event.stage}{place}" + (f": {event.detail}" * bool(event.detail)))

    def _draw_line(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        line = escape_controls(text)[:width]
        print(f"\r{esc(sys.stderr)}[2K{line}", end="", file=sys.stderr, flush=True)
        self._has_line = True

    def pause(self) -> None:
        if self._has_line:
            print(f"\r{esc(sys.stderr)}[2K", end="", file=sys.stderr, flush=True)
            self._has_line = False


def print_line(event: str, facts: Mapping[str, Any]) -> None:
    """Print an event as a line of JSON."""
    row = {"event": event, **render_json(facts, "command")}
    print(json.dumps(row, allow_nan=False, default=str), flush=True)


def _start_bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
    )
    from rich.table import Column

    # Past the stream that escapes control characters: rich writes some of its own.
    console = Console(file=getattr(sys.stderr, "stream", sys.stderr))
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        # On a narrow terminal only this column is cut.
        TextColumn("{task.fields[detail]}", markup=False, table_column=Column(ratio=1)),
        console=console,
        expand=True,
        transient=True,
    )
    progress.start()
    return progress
