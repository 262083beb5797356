"""`anyrig train`: a TOML file in, a trained model out.

A live line or JSON lines while it trains, a table at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.app.training import TrainingRequest
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.main import EXIT_INTERRUPTED
from anyrig.cli.output import (
    EventPrinter,
    PlainEventPrinter,
    format_table,
    paint,
    print_json,
    print_line,
    print_warning,
)
from anyrig.cli.rig import open_rig
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.events import Event, JsonEvents, NoticeEvent, WarningEvent
from anyrig.results import to_json
from anyrig.training.runs import TrainingResult, is_existing_path
from anyrig.training.train_run import DeviceEvent, RunEndedEvent, RunStartedEvent, TrainingEvent
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.training.estimate import DeviceEstimate

HELP = """Train a model as a TOML file says: a language model, an image classifier, a text
classifier or an embedding model, on one device or several. `anyrig train
language.toml` creates a folder in ./runs for the model, checkpoints, metrics and report.html.
Ctrl+C keeps everything so far, and `anyrig train --resume RUN` continues exactly there, without
further options. --set train.batch=64 replaces a value of the file; --estimate shows what fits where
before anything is loaded; --nproc 4 trains with four processes. `anyrig jobs` lists runs."""
MIXED = True
_LABEL_WIDTH = 11
_JSON_INTERVAL_S = 1.0
_REDRAW_S, _LINE_INTERVAL_S = 0.1, 10.0
_QUIET = frozenset({"epoch", "start", "end"})
"""Events that a person at a terminal sees in the live line."""
_MAX_NAMED_FILES = 10
_SAMPLE_CHARACTERS = 300
_MIN_READABLE = 0.9
"""Share of a sample's characters that a terminal can show, from which on it is printed."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, TrainingRequest)
    parser.add_argument("--queue", action="store_true", help="queue it; `anyrig jobs run` runs it")
    parser.add_argument(
        "--estimate", action="store_true",
        help="estimate a step's memory and the devices it fits; do not train",
    )  # fmt: skip
    parser.add_argument(
        "--profile-memory", action="store_true",
        help="measure memory and speed by micro batch; do not train",
    )  # fmt: skip
    parser.add_argument(
        "--report", action="store_true",
        help="with --resume: only write report.html again",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    printer = TrainingPrinter(json_lines=arguments.json)
    rig = open_rig(arguments, printer)
    is_document = arguments.estimate or arguments.profile_memory
    try:
        request = rig.request(TrainingRequest, **read_flags(arguments, TrainingRequest))
        if is_document:
            return _measure(rig, request, arguments)
        if arguments.report:
            return _report(request, printer)
        if arguments.queue:
            return _queue(rig, request, arguments)
        return _train(rig, request, printer)
    except AnyrigError as error:
        if arguments.json and not is_document:
            print_line("failed", {"error": error.message, "hint": error.hint})
        raise


def _train(rig: Rig, request: TrainingRequest, printer: TrainingPrinter) -> int:
    from anyrig.app.training import train

    try:
        with printer:
            result = train(rig, request, printer)
    except KeyboardInterrupt:
        if printer.run_folder is not None:
            print(f"\nTo continue: {format_resume(printer.run_folder)}", file=sys.stderr)
        raise
    if not result.finished:
        return EXIT_INTERRUPTED
    if result.exported:
        printer.print_written("exported", result.exported)
    return 1 if result.left_out and not result.already else 0


def _report(request: TrainingRequest, printer: TrainingPrinter) -> int:
    from anyrig.training.runs import open_run
    from anyrig.training.train_run import write_report

    if request.resume is None:
        raise InvalidInputError(
            "--report needs a run", hint="Name one: anyrig train --resume RUN --report."
        )
    printer.print_written("report", str(write_report(open_run(request.resume))))
    return 0


def _queue(rig: Rig, request: TrainingRequest, arguments: argparse.Namespace) -> int:
    from anyrig.app.training import load_config, merge_settings
    from anyrig.cli.jobs import print_queued
    from anyrig.training.config_file import check_settings

    if request.file is None:
        raise InvalidInputError(
            "--queue needs a TOML file", hint="Use: anyrig train CONFIG.toml --queue."
        )
    check_settings(merge_settings(rig, request, load_config(request).train))
    given = read_flags(arguments, TrainingRequest)
    given.pop("fresh", None)  # a job that is resumed must not start again
    job = rig.jobs.submit("train", **given)
    return print_queued([job], as_json=arguments.json)


def _measure(rig: Rig, request: TrainingRequest, arguments: argparse.Namespace) -> int:
    from anyrig.app.training import estimate_training, profile_training
    from anyrig.cli.profile import format_profile

    with EventPrinter() as printer:
        if not arguments.profile_memory:
            estimates = estimate_training(rig, request, printer)
            text, data, plot = _format_estimates(estimates), to_json(estimates), None
        else:
            profile, plot = profile_training(rig, request, printer)
            text, data = format_profile(profile), to_json(profile)
    if arguments.json:
        print_json(data)
        return 0
    print(text)
    if plot is not None:
        print_written("plot", str(plot))
    return 0


def _format_estimates(estimates: list[DeviceEstimate]) -> str:
    table = [["device", "precision", "memory", "needed", "fits", "largest micro batch", ""]]
    for one in estimates:
        existing, largest = one.existing_bytes, one.largest_micro_batch
        table.append([
            one.device.name, one.estimate.precision,
            "unknown" if existing is None else format_bytes(existing),
            format_bytes(one.needed_bytes), {True: "yes", False: "no", None: "unknown"}[one.fits],
            "-" if largest is None else str(largest or "none"), one.reason,
        ])  # fmt: skip
    parts = {(e.device_type, e.precision): e for e in (one.estimate for one in estimates)}
    details = [
        f"{paint(f'{kind} in {precision}', 'bold')}: {one.text}"
        for (kind, precision), one in parts.items()
    ]
    note = "Estimated without the device: --profile-memory measures, and a run adapts its micro"
    return "\n".join([format_table(table), "", *details, f"{note} batch itself."])


# -- while it trains -------------------------------------------------------------------------------


class TrainingPrinter(PlainEventPrinter):
    """Shows a training run: on a terminal, as plain lines, or as JSON lines."""

    def __init__(self, *, json_lines: bool = False) -> None:
        super().__init__()
        self.run_folder: Path | None = None
        self._json = JsonEvents(_JSON_INTERVAL_S) if json_lines else None
        self._unprinted = ""
        """The figures of the newest step."""
        self._next_step_s = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStartedEvent):
            self.run_folder = event.run.folder
        if isinstance(event, RunEndedEvent):
            self._print_last_step()
            self._print_end(event.result)
        elif self._json and not isinstance(event, WarningEvent | NoticeEvent):
            if row := self._json.encode(event):
                print_line(row.pop("event"), row)
        elif isinstance(event, TrainingEvent):
            self._print_report(event)
        elif isinstance(event, RunStartedEvent):
            num = event.num_processes
            together = f" with {num} processes" if num > 1 else ""
            kind = paint(str(event.run.task.get("kind") or ""), "bold")
            print(f"{kind}{together}, in {shorten(event.run.folder)}", flush=True)
        elif isinstance(event, DeviceEvent):
            self.pause()
            print(f"on {event.title}", flush=True)
        else:
            super().__call__(event)

    def __exit__(self, *details: object) -> None:
        self._print_last_step()
        super().__exit__(*details)

    def print_written(self, name: str, path: str) -> None:
        if self._json:
            print_line(name, {"path": path})
        else:
            print_written(name, path)

    def _print_report(self, event: TrainingEvent) -> None:
        from anyrig.training.loggers import format_record
        from anyrig.training.metrics import RunEvent, StepMetrics

        report, now = event.report, time.monotonic()
        if isinstance(report, StepMetrics):
            self._unprinted = format_record(report, event.total_steps, event.unit)
            if now < self._next_step_s:
                return
            if self._is_terminal:
                self._next_step_s = now + _REDRAW_S
                self._draw_line(self._unprinted)
            else:
                self._next_step_s = now + _LINE_INTERVAL_S
                self._print_last_step()
        elif not (self._is_terminal and isinstance(report, RunEvent) and report.kind in _QUIET):
            self.pause()
            print(format_record(report), file=sys.stderr, flush=True)

    def _print_last_step(self) -> None:
        """A line that stays."""
        if self._unprinted:
            self.pause()
            print(self._unprinted, file=sys.stderr, flush=True)
            self._unprinted = ""

    def _print_end(self, result: TrainingResult) -> None:
        self.pause()
        if not result.finished:
            self._print_stopped(result)
            return
        if self._json:
            print_line("done", {"files": result.files, **to_json(result)})
        elif result.already:
            print(f"{shorten(result.run)} is already finished; nothing was trained.")
            print(format_summary(result))
            print("To train further, pass more steps: --steps N.")
            print("To start again: anyrig train CONFIG.toml --folder FOLDER --fresh")
        else:
            print(format_summary(result))
        files = [] if result.already else list(result.left_out.items())
        for path, reason in files[:_MAX_NAMED_FILES]:
            print_warning(f"{path} was skipped: {reason}")
        if len(files) > _MAX_NAMED_FILES:
            print_warning(f"{len(files) - _MAX_NAMED_FILES} more were skipped; --json lists all")

    def _print_stopped(self, result: TrainingResult) -> None:
        resume = format_resume(result.run)
        stream = sys.stdout
        if self._json:
            print_line("stopped", {"resume": resume, **to_json(result)})
            stream = sys.stderr
        steps = f" of {result.total_steps}" if result.total_steps else ""
        loss = f", loss {result.loss:.4f}" if result.loss is not None else ""
        print(f"Stopped after step {result.steps}{steps}{loss}; everything is saved.", file=stream)
        print(f"To continue: {resume}", file=stream)


def print_written(name: str, path: str) -> None:
    print(f"{name:<{_LABEL_WIDTH}}  {shorten(path)}")


# -- the summary -----------------------------------------------------------------------------------


def format_summary(result: TrainingResult) -> str:
    return format_table(list(_list_rows(result)))


def _list_rows(result: TrainingResult) -> Iterator[tuple[str, str]]:
    resumed = f", resumed at {result.resumed_from}" if result.resumed_from is not None else ""
    yield "steps", f"{result.steps} ({result.epochs:.2f} epochs{resumed})"
    if result.loss is not None:
        yield "loss", f"{result.loss:.4f}"
    if result.validation:
        values = [
            f"{name} {'not finite' if value is None else f'{value:.4g}'}"
            for name, value in result.validation.items()
        ]
        yield "validation", ", ".join(values)
    yield "time", _format_speed(result)
    if result.peak_bytes:
        yield "peak memory", format_bytes(result.peak_bytes)
    yield "precision", result.precision
    yield "micro batch", result.micro_batch_why or f"{result.micro_batch}, as set"
    retries = f"out of memory {pluralize(result.num_retries, 'time')}" * bool(result.num_retries)
    skipped = f"{pluralize(result.num_skipped, 'step')} without finite gradients"
    if recovered := ", ".join(filter(None, [retries, skipped * bool(result.num_skipped)])):
        yield "recovered", recovered
    yield from _list_files(result)


def _format_speed(result: TrainingResult) -> str:
    text = format_duration(result.seconds)
    if result.units_per_s and result.unit != "samples":
        text += f", {result.units_per_s:,.0f} {result.unit}/s"
    if result.samples_per_s:
        text += f", {result.samples_per_s:,.1f} samples/s"
    return text


def _list_files(result: TrainingResult) -> Iterator[tuple[str, str]]:
    if result.checkpoint:
        yield "checkpoint", shorten(result.checkpoint)
    for name, value in result.made.items():
        if isinstance(value, str) and value:
            is_path = is_existing_path(value)
            yield name, shorten(value) if is_path else _format_sample(name, value, result)
    if result.report:
        yield "report", shorten(result.report)


def _format_sample(name: str, text: str, result: TrainingResult) -> str:
    """The beginning of a text that a model wrote; its file, if it is not readable yet."""
    readable = sum(sign.isprintable() or sign.isspace() for sign in text) - text.count("\ufffd")
    if readable >= _MIN_READABLE * len(text):
        quoted = json.dumps(text[:_SAMPLE_CHARACTERS], ensure_ascii=False)
        return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in quoted)
    path = Path(result.run) / f"{name}.txt"
    return f"not readable text yet{f'; see {shorten(path)}' if path.is_file() else ''}"


def format_resume(folder: str | Path) -> str:
    path = shorten(folder)
    quoted = f'"{path}"' if sys.platform == "win32" and " " in path else shlex.quote(path)
    return f"anyrig train --resume {quoted}"


def shorten(path: str | Path) -> str:
    """A path as a person would type it here."""
    absolute = str(path)
    try:
        relative = os.path.relpath(absolute)
    except ValueError:  # another drive of Windows
        return absolute
    is_near = not relative.startswith("..") and len(relative) < len(absolute)
    return relative if is_near else absolute
