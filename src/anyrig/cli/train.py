"""`anyrig train`: a TOML file in, a trained model out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.cli import EXIT_INTERRUPTED, compute, train_show
from anyrig.cli.context import Context
from anyrig.cli.pick import pick
from anyrig.cli.show import print_warning
from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.services.train_config import Config
    from anyrig.services.train_runs import Run

HELP = """Train a model by a TOML file: a language model, an image classifier, a diffusion model,
a text classifier or an embedding model, on one device or several. `anyrig train language.toml`
makes a folder below ./runs and leaves there the model, checkpoints, every figure and report.html.
Ctrl-C keeps all so far; `anyrig train --resume RUN` goes on exactly where it was, with nothing else
to say. --set train.batch=64 changes a value of the file; --estimate says what will fit where before
anything is loaded; --nproc 4 trains with four processes. `anyrig jobs` lists runs."""
MIXED = True
_FLAGS = ("device", "profile", "strict", "no_bench", "nproc")
"""What is remembered of the command line for a resume."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags."""
    parser.add_argument(
        "file", nargs="?", metavar="CONFIG", help="the TOML file: [task] and [train]"
    )
    parser.add_argument(
        "--folder", "--run", dest="run", metavar="RUN",
        help="the run's folder; runs/NAME-DATE here when not given. One that was begun goes on",
    )  # fmt: skip
    parser.add_argument("--resume", metavar="RUN", help="go on with a run, by its folder")
    parser.add_argument(
        "--fresh", action="store_true", help="begin anew in a folder, from the first step"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[],
        help="instead of the file's value, such as train.learning_rate=1e-3",
    )  # fmt: skip
    parser.add_argument("--steps", type=_count, metavar="N", help="the same as train.steps")
    parser.add_argument("--queue", action="store_true", help="train later: `anyrig jobs run` does")
    _several(parser)
    _looking(parser)
    compute.arguments(parser, workers=False)


def _several(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several processes")
    group.add_argument(
        "--nproc", type=_processes, metavar="N",
        help="processes that train together, a device for each; auto takes all of the chosen kind",
    )  # fmt: skip
    group.add_argument(
        "--strategy", metavar="WORD",
        help="ddp: every process has the whole model; fsdp: each holds a part of it",
    )  # fmt: skip


def _looking(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what it shows and leaves")
    group.add_argument(
        "--estimate", action="store_true",
        help="say what memory a step takes and on which devices it fits; nothing is trained",
    )  # fmt: skip
    group.add_argument(
        "--profile-memory", action="store_true",
        help="measure memory and speed by micro batch on the device; nothing is trained",
    )  # fmt: skip
    group.add_argument(
        "--export", metavar="PATH",
        help="put the trained model into this folder as well, or its ONNX file at X.onnx",
    )  # fmt: skip
    group.add_argument(
        "--report", action="store_true",
        help="with --resume: only write report.html anew; every run ends with one",
    )  # fmt: skip
    group.add_argument(
        "--tensorboard", action="store_true", help="write TensorBoard's files into the folder too"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InvalidInputError(f"--steps {text}", hint="Give a whole number from 1 up.")
    return int(text)


def _processes(text: str) -> str:
    if text != "auto" and (not text.isdecimal() or not 1 <= int(text) <= 1024):
        raise InvalidInputError(f"--nproc {text}", hint="Give a number of processes, or auto.")
    return text


def run(options: argparse.Namespace) -> int:
    """Train, go on, or say what would be; a program that reads events is told of an error too."""
    context = Context(options)
    try:
        return _run(context)
    except AnyrigError as error:
        if options.json and not (options.estimate or options.profile_memory):
            train_show.failed(error)
        raise


def _run(context: Context) -> int:
    options = context.options
    if options.file and options.resume:
        raise InvalidInputError(
            "a file and --resume were both given", hint="A run knows its file: leave it out."
        )
    if not options.file and not options.resume:
        raise InvalidInputError(
            "nothing to train was named",
            hint="`anyrig train CONFIG.toml`, or go on with --resume RUN; see --help.",
        )
    if options.fresh and options.resume:
        raise InvalidInputError(
            "--resume goes on and --fresh begins anew", hint="Leave one of them out."
        )
    if options.estimate or options.profile_memory:
        from anyrig.cli import train_measure

        return train_measure.run(context)
    if options.report:
        return _report(context)
    if options.queue:
        return _queue(context)
    return _train(context)


def _queue(context: Context) -> int:
    from anyrig.cli import jobs
    from anyrig.services import train_config

    options = context.options
    if not options.file:
        raise InvalidInputError(
            "a file is queued, not a run", hint="`anyrig train CONFIG.toml --queue`."
        )
    config = train_config.read(Path(options.file).expanduser()).with_values(options.set)
    train_config.check(merged(context, config.train))
    asked: dict[str, Any] = {"file": options.file}
    if options.set:
        asked["set"] = dict(text.partition("=")[::2] for text in options.set)
    return jobs.queue(context, "train", asked)


def _report(context: Context) -> int:
    from anyrig.services import train, train_runs

    if not context.options.resume:
        raise InvalidInputError(
            "every run ends with a report", hint="Name a run: anyrig train --resume RUN --report."
        )
    run = train_runs.opened(Path(context.options.resume).expanduser())
    train_show.said(context, "report", path=str(train.report(run)))
    return 0


# -- which run -------------------------------------------------------------------------------------


def _train(context: Context) -> int:
    from anyrig.services import train_runs

    if context.options.export:
        train_runs.refuse_export(Path(context.options.export).expanduser())
    run, before, is_new = _asked(context)
    if before is not None:
        train_show.already(context, before)
        return _after(context, {**before, "left_out": {}})
    train_runs.register(context.folders.runs, run)
    try:
        result = _result(context, run)
    except AnyrigError:
        if is_new and train_runs.drop_empty(run):
            train_runs.forget(context.folders.runs, train_runs.id_of(run.folder))
        raise
    except KeyboardInterrupt:
        train_show.interrupted(run)
        raise
    if not result["finished"]:
        train_show.stopped(context, result)
        return EXIT_INTERRUPTED
    train_show.end(context, result)
    return _after(context, result)


def _result(context: Context, run: Run) -> dict[str, Any]:
    """What training comes to, in this process or in several."""
    num = _num_processes(context)
    train_show.begin(context, run, num)
    if num == 1:
        return here(context, run)
    from anyrig.cli import train_worker

    return train_worker.launched(context, run, num)


def _after(context: Context, result: dict[str, Any]) -> int:
    """Put the model where it was asked for; 1 where files had to be left out."""
    if context.options.export:
        from anyrig.services import train

        path = train.export(result, Path(context.options.export).expanduser())
        train_show.said(context, "exported", path=str(path))
    return 1 if result.get("left_out") else 0


Asked = tuple["Run", "dict[str, Any] | None", bool]
"""A run, what it came to where there is nothing to do, and whether its folder is new."""


def _asked(context: Context) -> Asked:
    """The run to train, its folder made."""
    from anyrig.services import train_config, train_runs

    options = context.options
    if options.resume:
        run = train_runs.opened(Path(options.resume).expanduser())
        return _going_on(context, run, train_show.file_changed(run))
    config = train_config.read(Path(options.file).expanduser()).with_values(options.set)
    train = merged(context, config.train)
    folder = Path(options.run).expanduser() if options.run else None
    if folder is not None and train_runs.is_run(folder) and not options.fresh:
        return _going_on(context, train_runs.opened(folder), "", config)
    train_config.check(train)
    if folder is None:
        folder = train_runs.default_folder(config, Path.cwd())
    train_runs.refuse_foreign(folder)
    if options.fresh:
        train_runs.clear(folder)
    is_new = not folder.exists()
    return train_runs.begin(folder, config, train, _flags(options)), None, is_new


def _going_on(context: Context, run: Run, note: str, config: Config | None = None) -> Asked:
    """A run that was begun: settings may have changed, and are told; the task may not."""
    from anyrig.services import train_config, train_runs

    options = context.options
    given = config or train_config.Config(
        Path(run.config), run.base, "", run.task, run.train
    ).with_values(options.set)  # fmt: skip
    if train_runs.plain(given.task) != run.task:
        names = [n for n in {**given.task, **run.task} if given.task.get(n) != run.task.get(n)]
        raise InvalidInputError(
            f"{run.folder} was begun with another task: {', '.join(sorted(names))}",
            hint="Take another --folder, or begin anew there with --fresh.",
        )
    for name in _FLAGS:
        if getattr(options, name, None) in (None, False) and run.flags.get(name) is not None:
            setattr(options, name, run.flags[name])
    train = train_runs.plain(merged(context, given.train))
    result = train_runs.result_of(run.folder)
    if train == run.train and result is not None and result["finished"]:
        return run, result, False
    train_runs.refuse_running(run.folder)
    train_config.check(train)
    for name in sorted({*train, *run.train}):
        if train.get(name) != run.train.get(name):
            print_warning(
                f"train.{name} was {run.train.get(name, 'not set')} and is "
                f"{train.get(name, 'not set')}"
            )
    if note:
        print_warning(note)
    return train_runs.changed(run, train, _flags(options)), None, False


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    found = {name: getattr(options, name, None) for name in _FLAGS}
    return {name: value for name, value in found.items() if value not in (None, False)}


def merged(context: Context, given: Any) -> dict[str, Any]:
    """The `[train]` table: flags over the file, the file over the settings of the house."""
    options, house = context.options, context.loaded.settings.compute
    train = dict(given)
    if house.precision != "auto":
        train.setdefault("precision", house.precision)
    if "memory_gb" not in train and "memory_fraction" not in train:
        train |= {"memory_gb": house.memory_gb} if house.memory_gb else {}
        train |= {"memory_fraction": house.memory_fraction} if house.memory_fraction else {}
    if options.memory_gb is not None or options.memory_fraction is not None:
        train.pop("memory_gb", None)
        train.pop("memory_fraction", None)
    for name in ("precision", "memory_gb", "memory_fraction", "steps", "strategy", "tensorboard"):
        if getattr(options, name) not in (None, False):
            train[name] = getattr(options, name)
    return train


# -- where it trains -------------------------------------------------------------------------------


def _num_processes(context: Context) -> int:
    asked = context.options.nproc
    if asked is None:
        return 1
    if asked != "auto":
        return int(asked)
    from anyrig.cli import train_worker

    return len(train_worker.devices(context, None))


def here(context: Context, run: Run) -> dict[str, Any]:
    """Train in this process."""
    from anyrig.services import train

    placement = placed(context, run.train)
    with train_show.Shown(context) as shown:
        shown.where(placement)
        return train.train(
            run, placement=placement, environment=context.environment, sinks=shown.sinks,
            tell=shown.step, explain=lambda reasons: context.log_reasons("training", reasons),
        )  # fmt: skip


def placed(context: Context, train: Any) -> Placement:
    """The device, ready for torch: its allocator's variables are set, its self-test is done."""
    from anyrig.training.placing import need

    options = context.options
    for name in ("precision", "memory_gb", "memory_fraction"):
        if getattr(options, name) is None and train.get(name):
            setattr(options, name, train[name])
    if options.memory_gb is not None and options.memory_fraction is not None:
        options.memory_fraction = None  # the settings refuse both; a flag has won
    if not any(gpu.usable for gpu in context.machine.gpus):
        options.no_bench = True  # nothing to choose by figures
    found = compute.placed(context, pick(context), need(options.precision or "auto"))
    placement = _threaded(found.placements[0], context.environment)
    if "torch" not in sys.modules:
        os.environ.update(placement.variables)
    compute.guard(context, placement)
    return placement


def _threaded(placement: Placement, environment: Mapping[str, str]) -> Placement:
    """No more threads than the environment allows, where it says so."""
    said = environment.get("OMP_NUM_THREADS", "")
    if not said.isdecimal() or not 1 <= int(said) < placement.threads:
        return placement
    told = f"{pluralize(int(said), 'thread')}: OMP_NUM_THREADS says so"
    return replace(placement, threads=int(said), reasons=(*placement.reasons, told))
