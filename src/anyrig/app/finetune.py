"""Fine-tuning: all weights of a text model are trained on examples.

The folder of the new model can be used as a classifier or as an embedding model. It appears when it
is complete; a run that was interrupted continues where it stopped.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.classify import ClassifierModelOptions, SourceReader, load_examples
from anyrig.app.compute import place, test_device
from anyrig.app.embedding import detect_languages, find_model
from anyrig.app.training import require_torch
from anyrig.app.training_tasks import (
    HELD_OUT_SHARE,
    PreparedTask,
    check_trainable,
    digest_of,
    prepare_classifier,
    prepare_embedding,
)
from anyrig.errors import InvalidInputError, Message, OptionRef, StorageError, WorkError
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.storage.files import write_atomic
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.classify.pipeline import Examples
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.pairs import PairFile
    from anyrig.documents.reading import OpenedSource
    from anyrig.placement import Placement
    from anyrig.text.manifest import Trouble
    from anyrig.training.config import TrainConfig
    from anyrig.training.step import StepResult
    from anyrig.training.trainer import TrainResult

log = logging.getLogger(__name__)
_DEFAULT_MODEL = "minilm"
_FOREIGN_SHARE = 0.15
"""Of texts in languages that the model was not trained on, from which there is a warning."""


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
        help="train all weights and save the new model in this folder; needs the extra torch",
        http=False, metavar="FOLDER",
    )  # fmt: skip
    epochs: int = option(4, "passes over the examples", ge=1)
    batch: int = option(16, "batch size", ge=1)
    learning_rate: float = option(2e-4, "learning rate", gt=0, lt=1)
    seed: int = option(0, "random seed of the split, new layers and order of examples")
    held: float = option(
        HELD_OUT_SHARE, "fraction of the examples held out for evaluation", ge=0, lt=1
    )
    balanced: bool = option(False, "give rare labels the same weight as common ones")


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


def fine_tune(rig: Rig, request: FineTuneRequest, on_event: OnEvent) -> FineTuneResult:
    """Fine-tune a classifier on examples; the model is saved in a new folder."""
    require_torch(rig)
    from anyrig.documents.classify.pipeline import select_examples
    from anyrig.training.tasks.texts import import_transformers

    folder = request.fine_tune.resolve()
    check_new_folder(folder)
    import_transformers()  # reports a missing package before files are read
    found = load_examples(request.examples)
    examples = select_examples(found, "many" if request.multi else None)
    reader = SourceReader(rig, request, examples.sources)
    model = _find_base_model(rig, request, reader.list_texts(), on_event)
    placement = _place(rig, request)
    return tune_classifier(
        examples, reader.documents, model, folder,
        settings=_build_settings(request, placement), placement=placement, on_event=on_event,
        held=request.held,
        class_weights="balanced" if request.balanced else "none",
    )  # fmt: skip


def tune_classifier(
    examples: Examples,
    documents: Iterable[OpenedSource],
    model: EmbeddingModel,
    folder: Path,
    *,
    settings: TrainConfig | None = None,
    placement: Placement | None = None,
    on_event: OnEvent = lambda event: None,
    **options: Any,
) -> FineTuneResult:
    """Train all weights of an encoder to classify.

    Args:
        examples: what is learnt.
        documents: their sources with their pages.
        model: the encoder to begin with.
        folder: where the model is saved; it must be empty or not exist.
        settings: of the training; by default `classifier_settings()`.
        placement: where it is trained; by default the best device.
        on_event: receives progress.
        options: of `prepare_classifier`.
    """
    check_new_folder(folder)
    settings = settings or classifier_settings()
    prepared = prepare_classifier(
        examples, documents, model, seed=settings.seed, on_event=on_event, **options
    )
    return _tune(prepared, model, folder, settings, placement, on_event)


def tune_embedding(
    found: PairFile,
    model: EmbeddingModel,
    folder: Path,
    *,
    settings: TrainConfig | None = None,
    placement: Placement | None = None,
    on_event: OnEvent = lambda event: None,
    **options: Any,
) -> FineTuneResult:
    """Train an embedding model on pairs, as `tune_classifier` does on examples.

    The options are those of `prepare_embedding`.
    """
    check_new_folder(folder)
    settings = settings or embedding_settings()
    prepared = prepare_embedding(found, model, seed=settings.seed, **options)
    return _tune(prepared, model, folder, settings, placement, on_event)


def classifier_settings(**changed: Any) -> TrainConfig:
    """What suits some hundreds of examples; any field may be another."""
    from anyrig.training.config import TrainConfig

    default = {"batch": 16, "epochs": 4, "learning_rate": 2e-4, "warmup": 0.1, "drop_last": False}
    return TrainConfig(**{**default, **changed})


def embedding_settings(**changed: Any) -> TrainConfig:
    """What suits some hundreds of pairs. A micro batch is a whole batch: see `tasks.embedding`."""
    batch = changed.get("batch", 32)
    return classifier_settings(**{"batch": batch, "micro_batch": batch, **changed})


def check_new_folder(folder: Path) -> None:
    """Refuse, before any work, a folder that is not empty."""
    try:
        exists = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise InvalidInputError(
            f"{folder} cannot be read: {error.strerror}", hint="Name another."
        ) from error
    if exists:
        raise InvalidInputError(
            f"{folder} exists already", hint="Name another folder, or remove this one."
        )


def _find_base_model(
    rig: Rig, request: FineTuneRequest, texts: list[str], on_event: OnEvent
) -> EmbeddingModel:
    name = request.model if request.model != "auto" else rig.settings.documents.model
    name = _DEFAULT_MODEL if name in ("auto", "") else name
    model = check_trainable(find_model(rig, replace(request, model=name), {}, on_event))
    shares = detect_languages(texts)
    foreign = {code: share for code, share in shares.items() if code not in model.languages}
    if model.languages and sum(foreign.values()) >= _FOREIGN_SHARE * sum(shares.values()) > 0:
        on_event(WarningEvent(
            Message(
                "some texts are in {foreign}, but {name} was trained on {languages} only: pass"
                " another encoder with {model}",
                foreign=", ".join(sorted(foreign)[:5]), name=model.name,
                languages=", ".join(model.languages), model=OptionRef("model"),
            )
        ))  # fmt: skip
    return model


def _place(rig: Rig, request: FineTuneRequest) -> Placement:
    from anyrig.training.config import training_workload

    options = request
    if not any(gpu.usable for gpu in rig.machine.gpus):
        options = replace(request, no_bench=True)  # nothing to choose between
    plan = place(rig, rig.choose_device(options), training_workload(), request)
    test_device(rig, plan.placements[0], options)
    return plan.placements[0]


def _build_settings(request: FineTuneRequest, placement: Placement) -> TrainConfig:
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


# -- training --------------------------------------------------------------------------------------


def _tune(
    prepared: PreparedTask,
    model: EmbeddingModel,
    folder: Path,
    settings: TrainConfig,
    placement: Placement | None,
    on_event: OnEvent,
) -> FineTuneResult:
    """Train in a hidden folder beside the new one, and move the model when it is complete."""
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
        folder, model.name, len(task.data), len(task.validation or ()), before, after,
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
    batch = 32 if settings.batch == "auto" else settings.batch
    total = settings.steps or settings.epochs * math.ceil(len(task.data) / batch)

    class ReportSteps(Callback):
        def on_step(self, trainer: Trainer, result: StepResult) -> None:
            on_event(ProgressEvent("training", trainer.step, total))

        def on_event(self, trainer: Trainer, kind: str, text: str) -> None:
            log.info("%s: %s", kind, text)

        def on_validate(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
            log.info("step %d: %s", trainer.step, figures)

    with Trainer.of(
        task, config=settings, folder=run, placement=placement, callbacks=[ReportSteps()]
    ) as trainer:
        on_event(ProgressEvent("evaluating", 1, 1))
        before = _measure_once(
            run / "before.json", lambda: {**trainer.evaluate(), **prepared.measure(task)}
        )
        result = trainer.fit()
        if not result.finished:
            raise WorkError(
                f"stopped after {result.steps} of {pluralize(total, 'step')}",
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
