"""A training run from a TOML file: the task is built, trained, its results and report written.

    run = train_runs.begin(folder, config, config.train, {})
    result = train(run, placement=placement)

Also what comes after several processes: results that one process writes (`finish`), and a trained
model put where somebody wants it (`export`).
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import AnyrigError, InvalidInputError
from anyrig.services import train_runs
from anyrig.services.train_config import settings_of
from anyrig.services.train_runs import Run

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.training.loop import Summary, Trainer
    from anyrig.training.protocol import Task
    from anyrig.training.settings import Settings
    from anyrig.training.watch.sinks import Sink, Told

Tell = Callable[[str], None]
Sinks = Callable[[int | None, str], "Sequence[Sink]"]
"""Makes sinks, told the number of steps and what units are."""
_UNITS = {"language": "tokens"}
LEFT = "left"


def build(run: Run, settings: Settings) -> Task:
    """What the run trains on what."""
    from anyrig.services import tune_tasks

    return tune_tasks.build(run.task, run.base, run.folder, settings.seed)


def unit_of(run: Run) -> str:
    """What the units of its loss are called."""
    return _UNITS.get(str(run.task.get("kind")), "samples")


def train(
    run: Run,
    *,
    placement: Placement,
    environment: Mapping[str, str] | None = None,
    sinks: Sinks = lambda steps, unit: (),
    tell: Tell = lambda text: None,
    explain: Callable[[Sequence[str]], None] = lambda reasons: None,
) -> dict[str, Any]:
    """Train to the end, or until asked to stop; what it came to, as plain values.

    In one process of several, the first writes down what came of it.

    Args:
        run: what, and how.
        placement: where.
        environment: a launcher's variables.
        sinks: where figures go beside the folder.
        tell: is told what is being done before the first step.
        explain: is told why everything was chosen as it was, at the first step.
    """
    first = (environment or {}).get("RANK", "0") == "0"
    if first:
        train_runs.mark(run.folder, "running")
    try:
        result = _trained(run, placement, environment or {}, first, sinks, tell, explain)
    except AnyrigError as error:
        if first:
            train_runs.mark(run.folder, "failed", error=error.message)
        raise
    except BaseException:
        if first:
            with contextlib.suppress(AnyrigError):
                train_runs.mark(run.folder, "stopped")
        raise
    if first:
        _kept(run, result)
    return result


def _trained(
    run: Run,
    placement: Placement,
    environment: Mapping[str, str],
    first: bool,
    sinks: Sinks,
    tell: Tell,
    explain: Callable[[Sequence[str]], None],
) -> dict[str, Any]:
    from anyrig.training.loop import Trainer

    settings, optimiser = settings_of(run.train)
    tell("reading the data")
    task = build(run, settings)
    steps = steps_of(task, settings)
    if first:
        train_runs.mark(run.folder, "running", steps=steps)
    explained = _Explaining(explain)
    tell("preparing the first step")
    with Trainer.of(
        task, settings=settings, optimizer=optimiser, placement=placement, folder=run.folder,
        environment=environment, sinks=[*sinks(steps, unit_of(run)), explained],
    ) as trainer:  # fmt: skip
        explained.trainer = trainer
        summary = trainer.run()
    return _told(run, task, summary, steps)


class _Explaining:
    """A sink that hands over the reasons once, with the first figures."""

    name = "reasons"

    def __init__(self, explain: Callable[[Sequence[str]], None]) -> None:
        self.trainer: Trainer | None = None
        self._explain = explain
        self._done = False

    def take(self, told: Told) -> None:
        """Explain, the first time."""
        if not self._done and self.trainer is not None and self.trainer.reasons:
            self._done = True
            self._explain(self.trainer.reasons)

    def close(self) -> None:
        """Nothing to end."""


def steps_of(task: Task, settings: Settings) -> int | None:
    """How many steps a run has; None where nobody knows."""
    from anyrig.training.feed import Feed

    if settings.steps:
        return settings.steps
    feed = Feed(task.data, settings.batch, drop_last=settings.drop_last)
    each = feed.steps_in_epoch
    return settings.epochs * each if each else None


def _told(run: Run, task: Task, summary: Summary, steps: int | None) -> dict[str, Any]:
    """The summary as plain values."""
    loss = summary.loss
    if loss is None:
        loss = train_runs.state_of(run.folder).loss
    why = [text for text in summary.reasons if text.startswith("micro batch:")]
    checkpoint = summary.checkpoint
    told = {
        "run": str(run.folder), "task": run.task.get("kind"), "finished": summary.finished,
        "steps": summary.steps, "total_steps": steps, "epochs": round(summary.epochs, 4),
        "loss": loss, "validation": dict(summary.validation), "seconds": round(summary.seconds, 3),
        "samples_per_s": summary.samples_per_s, "units_per_s": summary.units_per_s,
        "unit": unit_of(run), "peak_bytes": summary.peak_bytes, "precision": summary.precision,
        "micro_batch": summary.micro_batch,
        "micro_batch_why": why[-1].removeprefix("micro batch: ") if why else "",
        "num_retries": summary.num_retries, "num_skipped": summary.num_skipped,
        "resumed_from": summary.resumed_from, "checkpoint": str(checkpoint) if checkpoint else None,
        "made": dict(summary.made), "left_out": dict(task.skipped),
        "reasons": list(summary.reasons),
    }  # fmt: skip
    return dict(train_runs.plain(told))


def _kept(run: Run, result: dict[str, Any]) -> None:
    """Write down what came of it, and the report."""
    with contextlib.suppress(InvalidInputError):  # stopped before anything was logged
        result["report"] = str(report(run))
    train_runs.keep_result(run.folder, result)
    word: train_runs.Word = "finished" if result["finished"] else "stopped"
    train_runs.mark(run.folder, word, steps=result["total_steps"])


def report(run: Run) -> Path:
    """Write `report.html` of a run as it stands."""
    from anyrig.training.watch.report import report as written

    return written(run.folder, title=run.folder.name, unit=unit_of(run))


# -- afterwards ------------------------------------------------------------------------------------


def finish(run: Run, result: dict[str, Any]) -> dict[str, Any]:
    """Write what processes that hold parts of a model could not; the whole result.

    On the host: a model that was trained in parts may be too large for one device.
    """
    from anyrig.training.checkpoint import Checkpoints
    from anyrig.training.distributed.alone import Alone
    from anyrig.training.keep import FOLDER

    settings, _ = settings_of(run.train)
    task = build(run, settings)
    found = Checkpoints(run.folder / FOLDER).load()
    if found is None or task.finish is None:
        return result
    Alone().load(task.model, None, found.saved.weights, None)
    result = {**result, "made": train_runs.plain(task.finish(run.folder))}
    train_runs.keep_result(run.folder, result)
    return result


def export(result: Mapping[str, Any], target: Path) -> Path:
    """Put the trained model into a folder, or its ONNX file at a path; what was written."""
    from anyrig.training.export import whole_folder

    made = result.get("made") or {}
    source = Path(str(made.get("model", "")))
    if not made.get("model") or not source.is_dir():
        raise InvalidInputError(
            "the run has left no model to export",
            hint="Let it finish: anyrig train --resume RUN --export FOLDER.",
        )
    if target.suffix.lower() == ".onnx":
        return _exported_file(source, target)
    train_runs.refuse_export(target)
    with whole_folder(target) as place:
        shutil.copytree(source, place, dirs_exist_ok=True)
    return target


def _exported_file(source: Path, target: Path) -> Path:
    from anyrig.storage.files import open_atomic

    graph = source / "model.onnx"
    if not graph.is_file():
        raise InvalidInputError(
            f"a task of this kind writes no ONNX file into {source}",
            hint="Name a folder instead: all that was written is put there.",
        )
    with graph.open("rb") as data, open_atomic(target) as file:
        shutil.copyfileobj(data, file)
    return target


def shared(placement: Placement, num_sharing: int, cores: float) -> Placement:
    """The placement of one of several processes on the same device: its part of all."""
    if num_sharing < 2:
        return placement
    budget = placement.budget_bytes
    threads = max(1, int(cores) // num_sharing)
    return replace(
        placement,
        threads=threads,
        budget_bytes=budget // num_sharing if budget is not None else None,
        reasons=(*placement.reasons, f"shared by {num_sharing} processes, {threads} threads each"),
    )
