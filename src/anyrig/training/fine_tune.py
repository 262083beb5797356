"""Fine-tuning: all weights of a text model are trained on examples.

The folder of the new model appears when it is complete; a run that was interrupted continues where
it stopped.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, StorageError, WorkError
from anyrig.events import OnEvent, ProgressEvent
from anyrig.storage.files import write_atomic
from anyrig.training.config import TrainConfig
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.text.manifest import Trouble
    from anyrig.training.step import StepResult
    from anyrig.training.tasks import Task
    from anyrig.training.trainer import Trainer, TrainResult

log = logging.getLogger(__name__)
HELD_OUT_SHARE = 0.2
"""The share of the examples that is only used to measure."""
_MIN_EXAMPLES = 8


@dataclass(frozen=True)
class PreparedTask:
    """A task, and what is known of its examples."""

    task: Task
    digest: str
    """Of everything that shapes the run beside the settings."""
    labels: tuple[str, ...] = ()
    kind: str = ""
    commonest: float = 0.0
    """The share of the most frequent label."""
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    measure: Callable[[Task], dict[str, float]] = lambda task: {}
    """Figures beside those of the task."""


@dataclass(frozen=True)
class FineTuneResult:
    """A fine-tuned model, and what it can do that it could not before."""

    folder: Path
    base: str
    num_learnt: int
    num_held: int
    before: Mapping[str, float]
    """Figures on examples that were held out, before the first step."""
    after: Mapping[str, float]
    steps: int
    seconds: float
    labels: tuple[str, ...] = ()
    kind: str = ""
    commonest: float = 0.0
    """The accuracy of always answering with the most frequent label."""
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def classifier_settings(**changed: Any) -> TrainConfig:
    """What suits some hundreds of examples; any field may be another."""
    default = {"batch": 16, "epochs": 4, "learning_rate": 2e-4, "warmup": 0.1, "drop_last": False}
    return TrainConfig(**{**default, **changed})


def embedding_settings(**changed: Any) -> TrainConfig:
    """What suits some hundreds of pairs. A micro batch is a whole batch: see `tasks.embedding`."""
    batch = changed.get("batch", 32)
    return classifier_settings(**{"batch": batch, "micro_batch": batch, **changed})


def check_count(count: int, share: float) -> None:
    if not 0 <= share < 1:
        raise InvalidInputError(
            f"a held-out share of {share}", hint="It must be from 0 up, below 1."
        )
    if count < _MIN_EXAMPLES:
        raise InvalidInputError(
            f"{pluralize(count, 'example')} are too few to fine-tune with",
            hint="Give some dozens of each kind; a classifier on vectors makes do with fewer.",
        )


def digest_of(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


def fine_tune(
    prepared: PreparedTask,
    base: str,
    folder: Path,
    *,
    settings: TrainConfig,
    placement: Placement | None = None,
    on_event: OnEvent = lambda event: None,
) -> FineTuneResult:
    """Train in a hidden folder beside the new one, and move the model when it is complete.

    Args:
        prepared: what is trained on what.
        base: the name of the model to begin with.
        folder: where the model is saved; it must be empty or not exist.
        settings: of the training.
        placement: where it is trained; by default the best device.
        on_event: receives progress.
    """
    began = time.monotonic()
    task = prepared.task
    digest = digest_of(prepared.digest, repr(sorted(asdict(settings).items())))
    run = folder.parent / f".{folder.name}.{digest}.run"
    result, before, after = _train(prepared, settings, run, placement, on_event)
    try:
        if folder.is_dir():
            folder.rmdir()  # it is empty
        os.replace(run / "model", folder)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be written: {error.strerror or error}",
            hint=f"The trained model is in {run}; free some space and run the same again.",
        ) from error
    shutil.rmtree(run, ignore_errors=True)
    return FineTuneResult(
        folder, base, len(task.data), len(task.validation or ()), before, after,
        result.steps, time.monotonic() - began, prepared.labels, prepared.kind, prepared.commonest,
        prepared.troubles, [*prepared.notes, *_list_notes(result, settings)],
    )  # fmt: skip


def _train(
    prepared: PreparedTask,
    settings: TrainConfig,
    run: Path,
    placement: Placement | None,
    on_event: OnEvent,
) -> tuple[TrainResult, dict[str, float], dict[str, float]]:
    """Train to the end; the figures before and after."""
    from anyrig.training.callbacks import Callback
    from anyrig.training.trainer import Trainer

    task = prepared.task

    class ReportSteps(Callback):
        def on_step(self, trainer: Trainer, result: StepResult) -> None:
            on_event(ProgressEvent("training", trainer.step, trainer.total_steps))

        def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
            log.info("%s: %s", kind, text)

        def on_validate(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
            log.info("step %d: %s", trainer.step, figures)

    with Trainer.of(
        task, config=settings, folder=run, placement=placement, callbacks=[ReportSteps()]
    ) as trainer:
        on_event(ProgressEvent("evaluating", 1, 1))

        def measure() -> dict[str, float]:
            figures = trainer.evaluate() if task.validation else {}
            return {**figures, **prepared.measure(task)}

        before = _measure_once(run / "before.json", measure)
        result = trainer.fit()
        if not result.finished:
            raise WorkError(
                f"stopped after {result.steps} of {pluralize(trainer.total_steps, 'step')}",
                hint="Run the same again to continue from there.",
            )
        return result, before, {**result.validation, **prepared.measure(task)}


def _measure_once(path: Path, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The figures of the untrained model; a resumed run has them from its beginning."""
    try:
        found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = measure()
        write_atomic(path, json.dumps(found))
    return found


def _list_notes(result: TrainResult, settings: TrainConfig) -> list[str]:
    notes = []
    if result.num_retries:
        notes.append(
            f"memory ran out {pluralize(result.num_retries, 'time')}: "
            f"{result.micro_batch} of {settings.batch} were computed at once"
        )
    if result.num_skipped:
        notes.append(f"{pluralize(result.num_skipped, 'step')} gave no finite gradients: left out")
    return notes
