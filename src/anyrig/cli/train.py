"""`anyrig train`: a TOML file in, a trained model out."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from anyrig.app.events import OnEvent
from anyrig.app.training import TrainingRequest
from anyrig.cli.flags import add_flags, read_flags
from anyrig.cli.main import EXIT_INTERRUPTED
from anyrig.cli.output import EventPrinter, format_table, paint, print_json
from anyrig.cli.rig import open_rig
from anyrig.cli.training_output import TrainingPrinter, format_resume, print_written
from anyrig.errors import AnyrigError, InvalidInputError

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.app.training_estimate import DeviceEstimate

HELP = """Train a model as a TOML file says: a language model, an image classifier, a diffusion
model, a text classifier or an embedding model, on one device or several. `anyrig train
language.toml` creates a folder in ./runs for the model, checkpoints, metrics and report.html.
Ctrl+C keeps everything so far, and `anyrig train --resume RUN` continues exactly there, without
further options. --set train.batch=64 replaces a value of the file; --estimate shows what fits where
before anything is loaded; --nproc 4 trains with four processes. `anyrig jobs` lists runs."""
MIXED = True


def arguments(parser: argparse.ArgumentParser) -> None:
    add_flags(parser, TrainingRequest)
    parser.add_argument("--queue", action="store_true", help="train later, with `anyrig jobs run`")
    parser.add_argument(
        "--estimate", action="store_true",
        help="show how much memory a step needs and on which devices it fits; train nothing",
    )  # fmt: skip
    parser.add_argument(
        "--profile-memory", action="store_true",
        help="measure memory and speed by micro batch on the device; train nothing",
    )  # fmt: skip
    parser.add_argument(
        "--report", action="store_true",
        help="with --resume: only write report.html again; every run ends with one",
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
            printer.print_failure(error)
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
    from anyrig.app.runs import open_run
    from anyrig.app.training import write_report

    if request.resume is None:
        raise InvalidInputError(
            "--report needs a run", hint="Name one: anyrig train --resume RUN --report."
        )
    printer.print_written("report", str(write_report(open_run(request.resume))))
    return 0


def _queue(rig: Rig, request: TrainingRequest, arguments: argparse.Namespace) -> int:
    from anyrig.app.training import load_config, merge_settings
    from anyrig.app.training_config import check_settings
    from anyrig.cli.jobs import print_queued

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
    with EventPrinter() as printer:
        if arguments.profile_memory:
            return _profile(rig, request, printer, json=arguments.json)
        from anyrig.app.training_estimate import estimate_training

        estimates = estimate_training(rig, request, printer)
    if arguments.json:
        print_json([one.to_json() for one in estimates])
    else:
        print(_format_estimates(estimates))
    return 0


def _profile(rig: Rig, request: TrainingRequest, on_event: OnEvent, *, json: bool) -> int:
    from anyrig.app.training_estimate import profile_training
    from anyrig.cli.profile import format_profile

    profile, plot = profile_training(rig, request, on_event)
    if json:
        print_json(profile.to_json())
        return 0
    print(format_profile(profile))
    if plot is not None:
        print_written("plot", str(plot))
    return 0


def _format_estimates(estimates: list[DeviceEstimate]) -> str:
    from anyrig.training.estimating.fits import rows

    head, *body = rows([one.fitting for one in estimates])
    table = [[head[0], "precision", *head[1:]]]
    for row, one in zip(body, estimates, strict=True):
        table.append([row[0], one.estimate.precision, *row[1:]])
    parts = {(e.device_type, e.precision): e for e in (one.estimate for one in estimates)}
    details = [
        f"{paint(f'{kind} in {precision}', 'bold')}: {one.text}"
        for (kind, precision), one in parts.items()
    ]
    note = "Estimated without the device: --profile-memory measures, and a run adapts its micro"
    return "\n".join([format_table(table), "", *details, f"{note} batch itself."])
