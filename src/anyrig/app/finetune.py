"""Fine-tuning: all weights of a text model are trained on examples.

The folder of the new model can be used as a classifier or as an embedding model. It appears when it
is complete; a run that was interrupted continues where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.classify import ClassifierModelOptions, FileReader, load_examples
from anyrig.app.compute import place, test_device
from anyrig.app.embedding import detect_languages, find_model
from anyrig.app.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.errors import InvalidInputError, StorageError, WorkError, mention
from anyrig.options import option
from anyrig.services.tune_tasks import (
    HELD,
    Prepared,
    Tell,
    digest_of,
    prepare_classifier,
    prepare_embedding,
    trainable,
)
from anyrig.storage.files import write_atomic
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.classify.examples import Found, Trouble
    from anyrig.documents.classify.pipeline import Read
    from anyrig.documents.classify.solve import Kind
    from anyrig.documents.model import Model
    from anyrig.documents.pairs import Couples
    from anyrig.placement import Placement
    from anyrig.training.loop import Summary
    from anyrig.training.protocol import StepFacts, Task
    from anyrig.training.settings import Settings
    from anyrig.training.tasks.classifier import ClassWeights

log = logging.getLogger(__name__)
_DEFAULT_MODEL = "minilm"
_FOREIGN_SHARE = 0.15
"""Of texts in languages that the model was not trained on, from which there is a warning."""
_STAGES = {"example": "reading", "step": "training", "measuring": "evaluating"}


@dataclass(frozen=True, kw_only=True)
class FineTuneRequest(ClassifierModelOptions):
    """Fine-tuning.

    For some dozens of examples of each label and more, where wording matters as much as the topic;
    with fewer examples a classifier on a model's vectors is better, and trained in seconds.
    """

    examples: Path = option(
        help="a folder of folders, a CSV or JSON lines", flag=False, upload=True
    )
    fine_tune: Path = option(
        help="train all weights of the model, and save the new model in this folder; it needs the"
        " torch extra", http=False, metavar="FOLDER",
    )  # fmt: skip
    epochs: int = option(4, "passes over the examples", ge=1)
    batch: int = option(16, "examples in a step", ge=1)
    learning_rate: float = option(2e-4, "learning rate", gt=0, lt=1)
    seed: int = option(0, "of the split, new layers and the order of examples")
    held: float = option(HELD, "share of the examples that is held out to measure", ge=0, lt=1)
    balanced: bool = option(False, "rare labels count as much as common ones")


def fine_tune(rig: Rig, request: FineTuneRequest, on_event: OnEvent) -> Tuned:
    """Fine-tune a classifier on examples; the model is saved in a new folder."""
    from anyrig.documents.classify.pipeline import detect_kind
    from anyrig.training.tasks.texts import library

    folder = request.fine_tune.resolve()
    free(folder)
    library()  # reports a missing package before files are read
    found = load_examples(request.examples)
    files = [one.file for one in found.examples if one.file is not None]
    reader = FileReader(rig, request, files)
    texts = [*reader.list_texts(), *(one.text for one in found.examples if one.text)]
    model = _find_base_model(rig, request, texts, on_event)
    placement = _place(rig, request)

    def report(what: str, done: int, total: int) -> None:
        on_event(ProgressEvent(_STAGES.get(what, what), done, total))

    return tune_classifier(
        found, model, folder, reader, kind="many" if request.multi else detect_kind(found),
        held=request.held, class_weights="balanced" if request.balanced else "none",
        settings=_build_settings(request, placement), placement=placement, tell=report,
    )  # fmt: skip


def _find_base_model(
    rig: Rig, request: FineTuneRequest, texts: list[str], on_event: OnEvent
) -> Model:
    name = request.model if request.model != "auto" else rig.settings.documents.model
    name = _DEFAULT_MODEL if name in ("auto", "") else name
    model = trainable(find_model(rig, replace(request, model=name), {}, on_event))
    shares = detect_languages(texts)
    foreign = {code: share for code, share in shares.items() if code not in model.languages}
    if model.languages and sum(foreign.values()) >= _FOREIGN_SHARE * sum(shares.values()) > 0:
        on_event(WarningEvent(
            f"some texts are in {', '.join(sorted(foreign)[:5])}, but {model.name} was trained on"
            f" {', '.join(model.languages)} only: pass another encoder with {mention('model')}"
        ))  # fmt: skip
    return model


def _place(rig: Rig, request: FineTuneRequest) -> Placement:
    from anyrig.training.placing import need

    options = request
    if not any(gpu.usable for gpu in rig.machine.gpus):
        options = replace(request, no_bench=True)  # nothing to choose between
    plan = place(rig, rig.choose_device(options), need(request.precision), request)
    test_device(rig, plan.placements[0], options)
    return plan.placements[0]


def _build_settings(request: FineTuneRequest, placement: Placement) -> Settings:
    settings = classifier_settings(
        epochs=request.epochs, batch=request.batch, learning_rate=request.learning_rate,
        seed=request.seed, precision=request.precision,
    )  # fmt: skip
    if request.memory_gb is not None or request.memory_fraction is not None:
        settings = replace(
            settings, memory_gb=request.memory_gb or 0.0,
            memory_fraction=request.memory_fraction or 0.0,
        )  # fmt: skip
    if placement.device.kind == "cpu":  # its memory holds any such batch
        settings = replace(settings, micro_batch=settings.batch)
    return settings


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned model, and what it can do that it could not before."""

    folder: Path
    base: str
    num_learnt: int
    num_held: int
    before: Mapping[str, float]
    """Figures on examples that were held out, before a step was made."""
    after: Mapping[str, float]
    steps: int
    seconds: float
    labels: tuple[str, ...] = ()
    kind: str = ""
    commonest: float = 0.0
    """What always saying the commonest label would reach."""
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def tune_classifier(
    found: Found,
    model: Model,
    folder: Path,
    read: Read,
    *,
    kind: Kind | None = None,
    held: float = HELD,
    class_weights: ClassWeights = "none",
    settings: Settings | None = None,
    placement: Placement | None = None,
    tell: Tell | None = None,
) -> Tuned:
    """A classifier all of whose weights have learnt from examples.

    Args:
        found: the examples.
        model: the encoder to begin with.
        folder: where the model is put; there must be nothing yet.
        read: files to their pages.
        kind: whether a text has one label or any number; by default as the examples have it.
        held: the share of each label's examples that is only measured.
        class_weights: `balanced` lets rare labels count as much as common ones.
        settings: of the training; `classifier_settings` when None.
        placement: where it is done; the best device when None.
        tell: is told how far it is.
    """
    free(folder)
    settings = settings or classifier_settings()
    prepared = prepare_classifier(
        found, model, read, kind=kind, held=held, class_weights=class_weights,
        seed=settings.seed, tell=tell,
    )  # fmt: skip
    return _tuned(prepared, model, folder, settings, lambda task: {}, placement, tell)


def tune_embedding(
    found: Couples,
    model: Model,
    folder: Path,
    *,
    held: float = HELD,
    scale: float = 0.0,
    settings: Settings | None = None,
    placement: Placement | None = None,
    tell: Tell | None = None,
) -> Tuned:
    """An embedding model that has learnt what is near from pairs.

    Args:
        found: pairs, or scored pairs.
        model: what to begin with.
        folder: where the model is put; there must be nothing yet.
        held: the share of the pairs that is only measured.
        scale: what cosines are multiplied by before the softmax; 0 is the usual 20.
        settings: of the training; `embedding_settings` when None.
        placement: where it is done; the best device when None.
        tell: is told how far it is.
    """
    from anyrig.training.tasks.embedding import searched

    free(folder)
    settings = settings or embedding_settings()
    prepared = prepare_embedding(found, model, held=held, scale=scale, seed=settings.seed)
    return _tuned(prepared, model, folder, settings, searched, placement, tell)


def classifier_settings(**changed: Any) -> Settings:
    """What suits some hundreds of examples; any field may be another."""
    from anyrig.training.settings import Settings

    usual: dict[str, Any] = {
        "batch": 16, "epochs": 4, "learning_rate": 2e-4, "warmup": 0.1, "drop_last": False,
    }  # fmt: skip
    return Settings(**{**usual, **changed})


def embedding_settings(**changed: Any) -> Settings:
    """What suits some hundreds of pairs. A micro batch is a whole batch: see `tasks.embedding`."""
    from anyrig.training.settings import Settings

    usual: dict[str, Any] = {
        "batch": 32, "epochs": 4, "learning_rate": 2e-4, "warmup": 0.1, "drop_last": False,
    }  # fmt: skip
    values = {**usual, **changed}
    return Settings(**{"micro_batch": values["batch"], **values})


# -- running ---------------------------------------------------------------------------------------


def free(folder: Path) -> None:
    """Refuse, before any work, a folder in which something lies."""
    try:
        there = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise InvalidInputError(
            f"{folder} cannot be read: {error.strerror}", hint="Name another."
        ) from error
    if there:
        raise InvalidInputError(
            f"{folder} exists already", hint="Name another folder, or remove this one."
        )


def _tuned(
    prepared: Prepared,
    model: Model,
    folder: Path,
    settings: Settings,
    measure: Callable[[Task], dict[str, float]],
    placement: Placement | None,
    tell: Tell | None,
) -> Tuned:
    """Train, measure, and put the model where it belongs.

    Args:
        prepared: the task.
        model: what it began with.
        folder: where the model is put.
        settings: of the training.
        measure: figures beside those of the task.
        placement: where it is done.
        tell: is told how far it is.
    """
    began = time.monotonic()
    task = prepared.task
    mark = digest_of(prepared.digest, repr(sorted(asdict(settings).items())))
    run = folder.parent / f".{folder.name}.{mark}.run"
    summary, before, after = _trained(task, settings, run, measure, placement, tell)
    try:
        if folder.is_dir():
            folder.rmdir()  # it is empty
        os.replace(run / "model", folder)
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be written: {error.strerror or error}",
            hint=f"What was learnt is in {run}; make room and say the same again.",
        ) from error
    shutil.rmtree(run, ignore_errors=True)
    return Tuned(
        folder, model.name, len(task.data), len(task.validation or ()), before, after,
        summary.steps, time.monotonic() - began, prepared.labels, prepared.kind, prepared.commonest,
        prepared.troubles, [*prepared.notes, *_notes(summary, settings)],
    )  # fmt: skip


def _notes(summary: Summary, settings: Settings) -> list[str]:
    """What a person should know of a run."""
    notes = []
    if summary.num_retries:
        notes.append(
            f"memory ran out {pluralize(summary.num_retries, 'time')}: "
            f"{summary.micro_batch} of {settings.batch} were computed at once"
        )
    if summary.num_skipped:
        notes.append(f"{pluralize(summary.num_skipped, 'step')} gave no finite gradients: left out")
    return notes


def _trained(
    task: Task,
    settings: Settings,
    run: Path,
    measure: Callable[[Task], dict[str, float]],
    placement: Placement | None,
    tell: Tell | None,
) -> tuple[Summary, dict[str, float], dict[str, float]]:
    """Train to the end; figures before and after. WorkError where somebody has stopped it."""
    from anyrig.training.loop import Trainer

    total = settings.steps or settings.epochs * math.ceil(len(task.data) / settings.batch)
    watch = _Telling(tell, total)
    with Trainer.of(
        task, settings=settings, folder=run, placement=placement, watch=watch
    ) as trainer:
        if tell is not None:
            tell("measuring", 1, 1)
        before = _before(run / "before.json", lambda: {**trainer.evaluate(), **measure(task)})
        summary = trainer.run()
        if not summary.finished:
            raise WorkError(
                f"stopped after {summary.steps} of {pluralize(total, 'step')}",
                hint="Say the same again, and it goes on where it was.",
            )
        return summary, before, {**summary.validation, **measure(task)}


def _before(kept: Path, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The figures of the untrained model; a run that goes on has them from its beginning."""
    try:
        found: dict[str, float] = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = measure()
        write_atomic(kept, json.dumps(found))
    return found


class _Telling:
    """A watch that tells how far a run is."""

    def __init__(self, tell: Tell | None, total: int) -> None:
        self._tell, self._total = tell, total

    def phase(self, name: str) -> AbstractContextManager[object]:
        """Nothing is timed."""
        return contextlib.nullcontext()

    def step(self, facts: StepFacts) -> None:
        """One more is done."""
        if self._tell is not None:
            self._tell("step", facts.number, self._total)

    def event(self, kind: str, text: str, **facts: Any) -> None:
        """The log has it."""
        log.info("%s: %s", kind, text)

    def validated(self, step: int, figures: Mapping[str, float]) -> None:
        """The log has it."""
        log.info("step %d: %s", step, figures)

    def aside(self, what: str) -> AbstractContextManager[object]:
        """Nothing is timed."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Nothing to end."""
