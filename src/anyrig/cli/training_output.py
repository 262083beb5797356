"""What `anyrig train` prints: a live line or JSON lines while it trains, a table at the end."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.events import (
    DeviceEvent,
    Event,
    JsonEvents,
    NoticeEvent,
    RunEndedEvent,
    RunStartedEvent,
    TrainingEvent,
    WarningEvent,
)
from anyrig.app.runs import TrainingResult, is_existing_path, to_plain_json
from anyrig.cli.escape import esc
from anyrig.cli.output import EventPrinter, format_table, paint, print_line, print_warning
from anyrig.errors import AnyrigError, format_mentions
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.training.watch.sinks.console import Console

_LABEL_WIDTH = 11
_JSON_INTERVAL_S = 1.0
_MAX_NAMED_FILES = 10
_SAMPLE_CHARACTERS = 300
_MIN_READABLE = 0.9
"""Share of a sample's characters that a terminal can show, from which on it is printed."""


class TrainingPrinter(EventPrinter):
    """Shows a training run: on a terminal, as plain lines, or as JSON lines."""

    def __init__(self, *, json_lines: bool = False) -> None:
        super().__init__()
        self.run_folder: Path | None = None
        self._json = JsonEvents(_JSON_INTERVAL_S) if json_lines else None
        self._console: Console | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStartedEvent):
            self.run_folder = event.run.folder
        if isinstance(event, RunEndedEvent):
            self._close_console()
            self._print_end(event.result)
        elif self._json and not isinstance(event, WarningEvent | NoticeEvent):
            if row := self._json.encode(event):
                print_line(row.pop("event"), row)
        elif isinstance(event, TrainingEvent):
            self._draw_report(event)
        elif isinstance(event, RunStartedEvent):
            self._print_start(event)
        elif isinstance(event, DeviceEvent):
            self._print_device(event)
        else:
            super().__call__(event)

    def __exit__(self, *details: object) -> None:
        self._close_console()
        super().__exit__(*details)

    def print_written(self, name: str, path: str) -> None:
        if self._json:
            _print_json(name, path=path)
        else:
            print_written(name, path)

    def print_failure(self, error: AnyrigError) -> None:
        message, hint = (format_mentions(text, "command") for text in (error.message, error.hint))
        _print_json("failed", error=message, hint=hint)

    def _print_start(self, event: RunStartedEvent) -> None:
        run, num = event.run, event.num_processes
        kind = run.task.get("kind")
        together = f" with {num} processes" if num > 1 else ""
        print(f"{paint(str(kind or ''), 'bold')}{together}, in {shorten(run.folder)}", flush=True)

    def _print_device(self, event: DeviceEvent) -> None:
        self.pause()
        print(f"on {event.title}", flush=True)

    def _draw_report(self, event: TrainingEvent) -> None:
        if self._console is None:
            from anyrig.training.watch.sinks.console import Console

            self.pause()
            self._console = Console(
                _write_live, tty=sys.stderr.isatty(), total_steps=event.total_steps,
                unit=event.unit,
            )  # fmt: skip
        self._console.take(event.report)

    def _close_console(self) -> None:
        if self._console is not None:
            console, self._console = self._console, None
            console.close()

    def _print_end(self, result: TrainingResult) -> None:
        self.pause()
        if not result.finished:
            self._print_stopped(result)
            return
        if self._json:
            already = {"already": True} if result.already else {}
            _print_json("done", **already, files=result.files, **_without_already(result))
        elif result.already:
            print(f"{shorten(result.run)} is already finished; nothing was trained.")
            print(format_summary(result))
            print("To train further, pass more steps: --steps N.")
            print("To start again: anyrig train CONFIG.toml --folder FOLDER --fresh")
        else:
            print(format_summary(result))
        if not result.already:
            _warn_left_out(result)

    def _print_stopped(self, result: TrainingResult) -> None:
        resume = format_resume(result.run)
        stream = sys.stdout
        if self._json:
            _print_json("stopped", resume=resume, **_without_already(result))
            stream = sys.stderr
        steps = f" of {result.total_steps}" if result.total_steps else ""
        loss = f", loss {result.loss:.4f}" if result.loss is not None else ""
        print(f"Stopped after step {result.steps}{steps}{loss}; everything is saved.", file=stream)
        print(f"To continue: {resume}", file=stream)


def print_written(name: str, path: str) -> None:
    print(f"{name:<{_LABEL_WIDTH}}  {shorten(path)}")


def _without_already(result: TrainingResult) -> dict[str, Any]:
    return {name: value for name, value in result.to_json().items() if name != "already"}


def _print_json(event: str, **facts: Any) -> None:
    print_line(event, to_plain_json(facts))


def _write_live(text: str) -> None:
    sys.stderr.write(text.replace("\r\x1b[K", f"\r{esc(sys.stderr)}[K"))
    sys.stderr.flush()


def _warn_left_out(result: TrainingResult) -> None:
    files = list(result.left_out.items())
    for path, reason in files[:_MAX_NAMED_FILES]:
        print_warning(f"{path} was skipped: {reason}")
    if len(files) > _MAX_NAMED_FILES:
        print_warning(f"{len(files) - _MAX_NAMED_FILES} more were skipped; --json lists all")


# -- the summary -----------------------------------------------------------------------------------


def format_summary(result: TrainingResult) -> str:
    return format_table([[name, text] for name, text in _list_rows(result)])


def _list_rows(result: TrainingResult) -> Iterator[tuple[str, str]]:
    resumed = f", resumed at {result.resumed_from}" if result.resumed_from is not None else ""
    yield "steps", f"{result.steps} ({result.epochs:.2f} epochs{resumed})"
    if result.loss is not None:
        yield "loss", f"{result.loss:.4f}"
    if result.validation:
        values = result.validation.items()
        yield "validation", ", ".join(f"{name} {_format_number(one)}" for name, one in values)
    yield "time", _format_time(result)
    if result.peak_bytes:
        yield "peak memory", format_bytes(result.peak_bytes)
    yield "precision", result.precision
    yield "micro batch", result.micro_batch_why or f"{result.micro_batch}, as set"
    if recovered := _format_recovered(result):
        yield "recovered", recovered
    if result.checkpoint:
        yield "checkpoint", shorten(result.checkpoint)
    for name, value in result.made.items():
        if isinstance(value, str) and value:
            is_path = is_existing_path(value)
            yield name, shorten(value) if is_path else _format_sample(name, value, result)
    if result.report:
        yield "report", shorten(result.report)


def _format_number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def _format_time(result: TrainingResult) -> str:
    text = format_duration(result.seconds)
    if result.units_per_s and result.unit != "samples":
        text += f", {result.units_per_s:,.0f} {result.unit}/s"
    if result.samples_per_s:
        text += f", {result.samples_per_s:,.1f} samples/s"
    return text


def _format_recovered(result: TrainingResult) -> str:
    parts = []
    if result.num_retries:
        parts.append(f"out of memory {pluralize(result.num_retries, 'time')}")
    if result.num_skipped:
        parts.append(f"{pluralize(result.num_skipped, 'step')} without finite gradients")
    return ", ".join(parts)


def _format_sample(name: str, text: str, result: TrainingResult) -> str:
    """The beginning of a text that a model wrote; its file, if it is not readable yet."""
    readable = sum(sign.isprintable() or sign.isspace() for sign in text) - text.count("\ufffd")
    if readable >= _MIN_READABLE * len(text):
        quoted = json.dumps(text[:_SAMPLE_CHARACTERS], ensure_ascii=False)
        return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in quoted)
    path = Path(result.run) / f"{name}.txt"
    return f"not readable text yet{f'; see {shorten(path)}' if path.is_file() else ''}"


def format_resume(folder: str | Path) -> str:
    return f"anyrig train --resume {quote(shorten(folder))}"


def shorten(path: str | Path) -> str:
    """A path as a person would type it here."""
    absolute = str(path)
    try:
        relative = os.path.relpath(absolute)
    except ValueError:  # another drive of Windows
        return absolute
    is_near = not relative.startswith("..") and len(relative) < len(absolute)
    return relative if is_near else absolute


def quote(text: str) -> str:
    """One word of a command line."""
    return f'"{text}"' if sys.platform == "win32" and " " in text else shlex.quote(text)
