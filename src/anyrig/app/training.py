"""Training: a TOML file in, a trained model out; a run that was interrupted can be resumed.

Fine-tuning trains a text model on examples without a file; estimates and profiles say what a run
needs before it starts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.app.classify import ClassifierModelOptions, SourceReader, load_examples
from anyrig.app.compute import (
    MAX_PROCESSES,
    PRECISIONS,
    DeviceOptions,
    TrainingComputeOptions,
    load_failed_formats,
    place,
    test_device,
)
from anyrig.app.embedding import detect_languages, find_model
from anyrig.app.profiling import BatchSizeProfile, build_profile
from anyrig.devices.machine import parse_precision
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    InvalidOptionError,
    InvalidSettingError,
    Message,
    MissingPackageError,
    OptionRef,
)
from anyrig.events import OnEvent, ProgressEvent, WarningEvent
from anyrig.options import option
from anyrig.precision.profiles import ProfileName
from anyrig.results import to_json
from anyrig.storage.weights import find_cached_repository
from anyrig.training import runs
from anyrig.training.config_file import ConfigFile, check_settings, read_config
from anyrig.training.fine_tune import (
    HELD_OUT_SHARE,
    FineTuneResult,
    PreparedTask,
    check_count,
    classifier_settings,
    digest_of,
    embedding_settings,
)
from anyrig.training.fine_tune import fine_tune as run_fine_tuning
from anyrig.training.runs import Run, TrainingResult
from anyrig.training.train_run import (
    RunEndedEvent,
    RunStartedEvent,
    build_temporarily,
    profile_run,
    train_run,
)
from anyrig.units import is_whole_number, pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device, Precision
    from anyrig.documents.classify.pipeline import Examples
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.pairs import PairFile
    from anyrig.documents.reading import OpenedSource
    from anyrig.placement import Placement
    from anyrig.text.manifest import Trouble
    from anyrig.training.config import TrainConfig
    from anyrig.training.estimate import DeviceEstimate
    from anyrig.training.lora import LoraConfig
    from anyrig.training.tasks import Task
    from anyrig.training.tasks.classifier import ClassWeights
    from anyrig.training.tasks.texts import Cutter

TASKS = {
    "classifier": "anyrig.app.training:build_classifier_task",
    "embedding": "anyrig.app.training:build_embedding_task",
}
"""Kinds of tasks that need documents, beside those of `anyrig.training.tasks`."""
PLOT_FILE = "memory.svg"
_DEFAULT_MODEL = "minilm"
_FOREIGN_SHARE = 0.15
"""Of texts in languages that the model was not trained on, from which there is a warning."""
_REMEMBERED = ("device", "profile", "strict", "no_bench", "nproc")
"""Options that a resumed run has again if they are not given."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(DeviceOptions):
    """Training."""

    file: Path | None = option(
        None, "the TOML file, with [task] and [train]", positional=True, upload=True,
        metavar="CONFIG",
    )  # fmt: skip
    run: Path | None = option(
        None, "folder of the run; default: runs/NAME-DATE; an existing run is resumed",
        short="--folder", alias="folder", http=False, metavar="RUN",
    )  # fmt: skip
    resume: Path | None = option(None, "folder of a run to resume", http=False, metavar="RUN")
    fresh: bool = option(False, "discard the run in the folder and start over", http=False)
    set: Mapping[str, Any] = option(
        {}, "replace a value of the file, such as train.learning_rate=1e-3"
    )
    steps: int | None = option(None, "the same as train.steps", ge=1)
    nproc: str = option(
        "", "number of processes, one per device; auto: all devices of the chosen kind",
        metavar="N",
    )  # fmt: skip
    strategy: str = option(
        "", "ddp: each process has the whole model; fsdp: each has a shard", metavar="NAME"
    )
    export: Path | None = option(
        None, "also copy the trained model to this folder, or its ONNX file to X.onnx",
        http=False, metavar="PATH",
    )  # fmt: skip
    tensorboard: bool = option(False, "also write TensorBoard files into the run's folder")
    # The file comes between these options and the settings: see `merge_settings`.
    precision: str | None = option(
        None, "auto, fp32, tf32, fp16, bf16 or fp8; auto uses the best measured one",
        choices=PRECISIONS, normalize=parse_precision, setting="compute.precision", fill=False,
        metavar="FORMAT",
    )  # fmt: skip
    profile: ProfileName | None = option(
        None, "what to prefer; `anyrig devices --profiles` shows what each means here",
        setting="compute.profile", fill=False,
    )  # fmt: skip
    memory_gb: float | None = option(
        None, "use at most N GiB of a device", gt=0, unit="GiB", metavar="N",
        setting="compute.memory_gb", fill=False, excludes="memory_fraction",
    )  # fmt: skip
    memory_fraction: float | None = option(
        None, "use at most this fraction of a device's memory", gt=0, le=1, metavar="X",
        setting="compute.memory_fraction", fill=False, excludes="memory_gb",
    )  # fmt: skip

    def __post_init__(self) -> None:
        given: object = self.nproc
        if type(given) is int:  # of a Python program or a JSON document
            object.__setattr__(self, "nproc", str(given))
        super().__post_init__()
        count = self.nproc
        if count not in ("", "auto") and not (
            is_whole_number(count) and 1 <= int(count) <= MAX_PROCESSES
        ):
            raise InvalidOptionError(
                "nproc", f"must be a number from 1 to {MAX_PROCESSES}, or auto", value=count
            )


def find_missing_torch(rig: Rig) -> MissingPackageError | None:
    """The error of training without torch, with the command that installs it; None if it is."""
    from importlib.util import find_spec

    if find_spec("torch") is not None:
        return None
    from anyrig.devices.advice import find_torch_install

    return MissingPackageError(
        "training needs torch, which is not installed",
        hint=find_torch_install(rig.machine) or "torch has no wheels for this system.",
    )


def require_torch(rig: Rig) -> None:
    if error := find_missing_torch(rig):
        raise error


def train(rig: Rig, request: TrainingRequest, on_event: OnEvent) -> TrainingResult:
    """Train as a TOML file says, or resume a run, until it is finished or stopped by Ctrl+C."""
    require_torch(rig)
    if request.export is not None and request.export.suffix.lower() != ".onnx":
        runs.check_new_folder(request.export)
    prepared = _prepare_run(rig, request, on_event)
    result = prepared.result or _train_prepared(rig, prepared, on_event)
    on_event(RunEndedEvent(result))
    if request.export is not None and result.finished:
        result = replace(result, exported=str(runs.export_model(result, request.export)))
    return result


# -- which run -------------------------------------------------------------------------------------


class _PreparedRun(NamedTuple):
    run: Run
    request: TrainingRequest
    """With the remembered options of a resumed run."""
    result: TrainingResult | None = None
    """If it was finished before: there is nothing to do."""
    is_new: bool = False
    """Its folder did not exist."""


def _prepare_run(rig: Rig, request: TrainingRequest, on_event: OnEvent) -> _PreparedRun:
    config = load_config(request)
    folder = request.resume or request.run
    if folder is not None and (request.resume or (runs.is_run(folder) and not request.fresh)):
        return _resume(rig, request, runs.open_run(folder), config, on_event)
    settings = merge_settings(rig, request, config.train)
    check_settings(settings)
    if folder is None:
        folder = runs.choose_folder(config, Path.cwd())
    runs.check_folder(folder)
    if request.fresh:
        runs.clear_run(folder)
    is_new = not folder.exists()
    run = runs.create_run(folder, config, settings, _select_remembered(request))
    return _PreparedRun(run, request, is_new=is_new)


def load_config(request: TrainingRequest) -> ConfigFile:
    """The file of a request, or that of the run to resume, with the values that it replaces."""
    if request.file is not None and request.resume is not None:
        raise InvalidInputError(
            Message("a file and {resume} were both given", resume=OptionRef("resume")),
            hint="Leave the file out: a run has a copy of it.",
        )
    if request.fresh and request.resume is not None:
        raise InvalidInputError(
            Message(
                "{resume} and {fresh} were both given",
                resume=OptionRef("resume"),
                fresh=OptionRef("fresh"),
            ),
            hint="Leave one of them out.",
        )
    if request.resume is not None:
        run = runs.open_run(request.resume)
        config = ConfigFile(Path(run.config), run.base, "", run.task, run.train)
    elif request.file is not None:
        config = read_config(request.file)
    else:
        raise InvalidInputError(
            "no configuration was given",
            hint=Message(
                "Give a TOML file, or resume a run with {resume}.", resume=OptionRef("resume")
            ),
        )
    return config.with_values(request.set)


def _resume(
    rig: Rig, request: TrainingRequest, run: Run, config: ConfigFile, on_event: OnEvent
) -> _PreparedRun:
    """Settings of a run may change, with a warning; its task may not."""
    if to_json(config.task) != run.task:
        names = {n for n in {**config.task, **run.task} if config.task.get(n) != run.task.get(n)}
        raise InvalidInputError(
            f"{run.folder} was started with another task: {', '.join(sorted(names))}",
            hint=Message(
                "Choose another folder with {run}, or start again there with {fresh}.",
                run=OptionRef("run"),
                fresh=OptionRef("fresh"),
            ),
        )
    remembered = {
        name: run.flags[name]
        for name in _REMEMBERED
        if not getattr(request, name) and run.flags.get(name) is not None
    }
    request = replace(request, **remembered)
    settings = to_json(merge_settings(rig, request, config.train))
    result = runs.load_result(run.folder)
    if settings == run.train and result is not None and result.finished:
        return _PreparedRun(run, request, replace(result, already=True))
    runs.check_not_running(run.folder)
    check_settings(settings)
    for name in sorted({*settings, *run.train}):
        before, now = (one.get(name, "not set") for one in (run.train, settings))
        if before != now:
            on_event(WarningEvent(f"train.{name} was {before} and is now {now}"))
    if request.resume and runs.has_config_changed(run):
        note = "was edited; the run continues with what it was started with"
        on_event(WarningEvent(f"{run.config} {note}"))
    return _PreparedRun(runs.update_run(run, settings, _select_remembered(request)), request)


def _select_remembered(request: TrainingRequest) -> dict[str, Any]:
    values = {name: getattr(request, name) for name in _REMEMBERED}
    return {name: value for name, value in values.items() if value}


def merge_settings(rig: Rig, request: TrainingRequest, table: Mapping[str, Any]) -> dict[str, Any]:
    """The `[train]` table: options of the request, then the file, then the user's settings."""
    defaults, settings = rig.settings.compute, dict(table)
    limits = ("memory_gb", "memory_fraction")
    if defaults.precision != "auto":
        settings.setdefault("precision", defaults.precision)
    if not settings.keys() & set(limits):
        given = {name: getattr(defaults, name) for name in limits}
        settings |= {name: value for name, value in given.items() if value}
    if any(getattr(request, name) is not None for name in limits):
        settings = {name: value for name, value in settings.items() if name not in limits}
    for name in ("precision", *limits, "steps", "strategy", "tensorboard"):
        if value := getattr(request, name):
            settings[name] = value
    return settings


# -- where it trains -------------------------------------------------------------------------------


def place_training(
    rig: Rig,
    request: TrainingRequest | FineTuneRequest,
    settings: Mapping[str, Any],
    *,
    num_sharing: int = 1,
) -> Placement:
    """The device, ready for torch: the allocator's variables are set, the self-test is done.

    `num_sharing` processes train on it.
    """
    from anyrig.training.config import training_workload

    memory_gb = settings.get("memory_gb") or None
    options = TrainingComputeOptions(
        device=request.device,
        strict=request.strict,
        # Without a GPU there is nothing to choose between.
        no_bench=request.no_bench or not any(gpu.usable for gpu in rig.machine.gpus),
        precision=settings.get("precision") or "auto",
        profile=request.profile or rig.settings.compute.profile,
        memory_gb=memory_gb,
        memory_fraction=None if memory_gb else settings.get("memory_fraction") or None,
        workers_per_device=num_sharing,
    )
    plan = place(rig, rig.choose_device(options), training_workload(options.precision), options)
    placement = _limit_threads(plan.placements[0], rig.environment)
    if "torch" not in sys.modules:
        os.environ.update(placement.variables)
    test_device(rig, placement, options)
    return placement


def _limit_threads(placement: Placement, environment: Mapping[str, str]) -> Placement:
    """No more threads than OMP_NUM_THREADS allows."""
    limit = environment.get("OMP_NUM_THREADS", "")
    if not limit.isdecimal() or not 1 <= int(limit) < placement.threads:
        return placement
    reason = f"{pluralize(int(limit), 'thread')}: set by OMP_NUM_THREADS"
    return replace(placement, threads=int(limit), reasons=(*placement.reasons, reason))


# -- training --------------------------------------------------------------------------------------


def _train_prepared(rig: Rig, prepared: _PreparedRun, on_event: OnEvent) -> TrainingResult:
    from anyrig.app import training_process

    run, request = prepared.run, prepared.request
    runs.register_run(rig.folders.runs, run)
    try:
        devices = choose_devices(rig, request) if request.nproc else []
        on_event(RunStartedEvent(run, max(1, len(devices))))
        if len(devices) > 1:
            return training_process.launch(rig, request, run, devices, on_event)
        placement = place_training(rig, request, run.train)
        return train_run(run, build_task, placement, rig.environment, on_event)
    except AnyrigError:
        if prepared.is_new and runs.delete_if_unstarted(run):
            runs.unregister_run(rig.folders.runs, runs.make_run_id(run.folder))
        raise


def choose_devices(rig: Rig, request: TrainingRequest) -> list[str]:
    """The device of each process, by id."""
    from anyrig.training import config

    choice = rig.preview_device(request)
    for warning in choice.warnings:
        rig.warn(warning)
    count = None if request.nproc == "auto" else int(request.nproc)
    return [one.id for one in config.choose_devices(rig.machine, choice, count, "nproc")]


# -- before it is trained --------------------------------------------------------------------------


def estimate_training(
    rig: Rig, request: TrainingRequest, on_event: OnEvent
) -> list[DeviceEstimate]:
    """Estimate the memory of a training step on every device, without using any."""
    require_torch(rig)
    run = _describe_run(rig, request)
    choice = rig.preview_device(request)
    for warning in choice.warnings:
        rig.warn(warning)
    on_event(ProgressEvent("reading the data"))
    from anyrig.training.estimate import estimate_devices

    with build_temporarily(run, build_task) as (task, settings, optimizer):
        return estimate_devices(
            task, settings, optimizer, rig.machine.devices,
            lambda device: _choose_precision(rig, choice, device, run), on_event,
        )  # fmt: skip


def profile_training(
    rig: Rig, request: TrainingRequest, on_event: OnEvent
) -> tuple[BatchSizeProfile, Path | None]:
    """Measure memory and speed of a run's own step by micro batch.

    Returns the profile, and the plot that was written into the folder of an existing run.
    """
    require_torch(rig)
    run = _describe_run(rig, request)
    placement = place_training(rig, request, run.train)
    plot = run.folder / PLOT_FILE if runs.is_run(run.folder) else None
    found = profile_run(run, build_task, placement, on_event, plot=plot)
    title = f"a step of {run.name}"
    return build_profile(placement, title, placement.precision, found), plot


def _describe_run(rig: Rig, request: TrainingRequest) -> Run:
    """The run as it would be, without a folder of its own."""
    config = load_config(request)
    settings = merge_settings(rig, request, config.train)
    check_settings(settings)
    folder = request.resume or request.run or Path()
    return Run(
        folder, config.name, str(config.path), config.base, config.task, settings, {}, time.time()
    )


def _choose_precision(rig: Rig, choice: DeviceChoice, device: Device, run: Run) -> Precision:
    """What a device would train in; if it cannot be used now: as requested, or bf16 or fp32."""
    from anyrig.placement import PlacementOptions, plan_placement
    from anyrig.training.config import training_workload

    requested = str(run.train.get("precision", "auto"))
    try:
        plan = plan_placement(
            rig.machine,
            replace(choice, devices=(device,), selector=device.id),
            training_workload(requested),
            PlacementOptions(
                precision=requested, profile=rig.settings.compute.profile, workers_per_device=1
            ),
            speeds=rig.measurements.speeds(rig.machine),
            failed=load_failed_formats(rig),
        )
        if plan.placements[0].device.id == device.id:
            return plan.placements[0].precision
    except AnyrigError:
        pass
    if requested in ("bf16", "fp16", "fp8", "tf32"):
        return requested  # type: ignore[return-value]  # one of the literals
    return "bf16" if requested == "auto" and device.features.bf16 else "fp32"


# -- fine-tuning -----------------------------------------------------------------------------------


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


def fine_tune(rig: Rig, request: FineTuneRequest, on_event: OnEvent) -> FineTuneResult:
    """Fine-tune a classifier on examples; the model is saved in a new folder."""
    require_torch(rig)
    from anyrig.documents.classify.pipeline import select_examples
    from anyrig.training.tasks.texts import import_transformers

    folder = request.fine_tune.resolve()
    runs.check_new_folder(folder)
    import_transformers()  # reports a missing package before files are read
    found = load_examples(request.examples)
    examples = select_examples(found, "many" if request.multi else None)
    reader = SourceReader(rig, request, examples.sources)
    model = _find_base_model(rig, request, reader.list_texts(), on_event)
    limits = ("precision", "memory_gb", "memory_fraction")
    placement = place_training(rig, request, {name: getattr(request, name) for name in limits})
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
    runs.check_new_folder(folder)
    settings = settings or classifier_settings()
    prepared = prepare_classifier(
        examples, documents, model, seed=settings.seed, on_event=on_event, **options
    )
    return run_fine_tuning(
        prepared, model.name, folder, settings=settings, placement=placement, on_event=on_event
    )


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
    runs.check_new_folder(folder)
    settings = settings or embedding_settings()
    prepared = prepare_embedding(found, model, seed=settings.seed, **options)
    return run_fine_tuning(
        prepared, model.name, folder, settings=settings, placement=placement, on_event=on_event
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


# -- tasks -----------------------------------------------------------------------------------------


def build_task(run: Run, config: TrainConfig) -> Task:
    """The task of a run's `[task]` table, of any kind."""
    from anyrig.training import tasks

    return tasks.build_task(
        run.task, run.base, run.folder, config.seed, kinds={**tasks.TASKS, **TASKS}
    )


def prepare_classifier(
    examples: Examples,
    documents: Iterable[OpenedSource],
    model: EmbeddingModel,
    *,
    held: float = HELD_OUT_SHARE,
    class_weights: ClassWeights = "none",
    lora: LoraConfig | None = None,
    folder: Path = Path(),
    seed: int = 0,
    on_event: OnEvent = lambda event: None,
) -> PreparedTask:
    from anyrig.documents.classify.pipeline import read_examples
    from anyrig.training.tasks import classifier

    def report(done: int, total: int) -> None:
        on_event(ProgressEvent("reading", done, total))

    kind, learnable = examples.kind, read_examples(examples, documents, report)
    names = tuple(sorted({name for labels in learnable.labels for name in labels}))
    if len(names) < (2 if kind == "one" else 1):
        raise InvalidInputError(
            f"all examples are {names[0]!r}" if names else "no example has a label",
            hint="Give examples of at least two labels.",
        )
    check_count(len(learnable.texts), held)
    numbers = {name: number for number, name in enumerate(names)}
    rows = [
        classifier.LabelledText(text, tuple(numbers[name] for name in labels))
        for text, labels in zip(learnable.texts, learnable.labels, strict=True)
    ]
    cutter = _build_cutter(model)
    weights = _load_weights(classifier, model, seed, labels=names, kind=kind)
    learnt, held_out = ([rows[n] for n in part] for part in classifier.split(rows, held, seed=seed))
    adapted = None if lora is None else classifier.add_adapter(weights, lora, folder)
    task = classifier.classifier(
        weights, cutter, learnt, held_out, names, kind=kind, class_weights=class_weights,
        adapted=adapted,
    )  # fmt: skip
    task.skipped = _list_skipped(learnable.troubles)
    digest = digest_of(model.fingerprint, kind, str(held), str(class_weights), *map(repr, rows))
    commonest = max(map(learnable.labels.count, set(learnable.labels))) / len(rows)
    notes = [*learnable.notes, *_describe_cut(cutter, learnable.texts)]
    return PreparedTask(task, digest, names, kind, commonest, learnable.troubles, notes)


def prepare_embedding(
    found: PairFile,
    model: EmbeddingModel,
    *,
    held: float = HELD_OUT_SHARE,
    scale: float = 0.0,
    piece: int | None = None,
    seed: int = 0,
) -> PreparedTask:
    from anyrig.training.tasks import embedding

    check_count(len(found.found), held)
    rows: list[Any] = [
        embedding.Pair(one.one, one.other, one.negatives) if one.score is None
        else embedding.Scored(one.one, one.other, one.score)
        for one in found.found
    ]  # fmt: skip
    cutter = _build_cutter(model)
    options = {
        "pooling": model.pooling,
        "normalise": model.normalise,
        "piece": embedding.PIECE if piece is None else piece,
    }
    weights = _load_weights(embedding, model, seed, {"dense": model.dense}, **options)
    parts = ([rows[n] for n in part] for part in embedding.split_pairs(rows, held, seed=seed))
    task = embedding.embedding(
        weights, cutter, *parts, scale=scale or embedding.SCALE, prompts=model.prompts
    )
    task.skipped = _list_skipped(found.troubles)
    digest = digest_of(model.fingerprint, str(held), str(scale), *map(repr, rows))
    notes = _describe_cut(cutter, [text for row in rows for text in row[:2]])
    return PreparedTask(
        task, digest, troubles=found.troubles, notes=notes, measure=embedding.evaluate_retrieval
    )


def check_trainable(model: EmbeddingModel) -> EmbeddingModel:
    """The model, if its weights can be trained."""
    if model.form in ("encoder", "auto"):
        return model
    raise InvalidInputError(
        f"{model.name} cannot be fine-tuned: it has no weights that torch can change",
        hint=Message(
            "Pass {model}, or a folder with config.json and model.safetensors.",
            model=OptionRef("model", "minilm"),
        ),
    )


def _build_cutter(model: EmbeddingModel) -> Cutter:
    from anyrig.documents.tokenizer import open_tokenizer
    from anyrig.training.tasks.texts import Cutter

    check_trainable(model)
    tokenizer = open_tokenizer(model.tokenizer or model.folder / "tokenizer.json")
    return Cutter.of(tokenizer, model.longest, lower=model.lower)


def _load_weights(
    loader: Any,
    model: EmbeddingModel,
    seed: int,
    folder_options: Mapping[str, Any] = {},
    **options: Any,
) -> Any:
    """The torch module of a model, by a module of `training.tasks`."""
    from anyrig.training.tasks import seed_torch

    with seed_torch(seed):  # new layers are the same in every run
        if model.folder.suffix != ".onnx":
            return loader.from_folder(model.folder, **options, **folder_options)
        import torch

        from anyrig.documents.models.arrays import read_packaged_floats

        config, state = read_packaged_floats(model.folder)
        tensors = {name: torch.from_numpy(value) for name, value in state.items()}
        return loader.from_state(config, tensors, **options)


def _describe_cut(cutter: Cutter, texts: Sequence[str]) -> list[str]:
    num_cut = sum(len(row) >= cutter.longest for row in cutter.rows(texts))
    limit = f"{cutter.longest} tokens: the rest was not read"
    return [f"{pluralize(num_cut, 'text')} had more than {limit}"] if num_cut else []


def _list_skipped(troubles: Sequence[Trouble]) -> dict[str, str]:
    return {one.place: one.reason for one in troubles}


def build_classifier_task(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    from anyrig.documents.classify.pipeline import select_examples
    from anyrig.documents.reading import read_sources
    from anyrig.text.manifest import read_manifest
    from anyrig.training import tasks
    from anyrig.training.tasks.classifier import ClassifierTable

    table = tasks.read_table(ClassifierTable, values)
    path = _find_file(folder, table.examples, "examples")
    resolve = tasks.read_allowed_files(folder, table.files)
    found = read_manifest(path, resolve=resolve)
    examples = select_examples(found, "many" if table.multi else None)
    return prepare_classifier(
        examples, read_sources(examples.sources), _find_model(folder, table.model),
        held=table.validation, class_weights=table.class_weights,
        lora=tasks.read_lora(table.lora), folder=folder, seed=seed,
    ).task  # fmt: skip


def build_embedding_task(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    from anyrig.documents.pairs import read_pairs
    from anyrig.training import tasks
    from anyrig.training.tasks.embedding import EmbeddingTable

    table = tasks.read_table(EmbeddingTable, values)
    if table.piece < 0:
        raise InvalidSettingError(
            f"[task] piece is {table.piece}", hint="From 1 up; 0 is all at once."
        )
    return prepare_embedding(
        read_pairs(_find_file(folder, table.pairs, "pairs")), _find_model(folder, table.model),
        held=table.validation, scale=table.scale, piece=table.piece, seed=seed,
    ).task  # fmt: skip


def _find_file(folder: Path, name: str, key: str) -> Path:
    from anyrig.training import tasks

    if not name:
        raise InvalidSettingError(f"[task] names no {key}", hint=f'Set {key} = "FILE".')
    return tasks.require_path(folder, name, f"the file of {key}")


def _find_model(folder: Path, name: str) -> EmbeddingModel:
    """A packaged model, one of a folder beside the TOML file, or one in the hub's cache."""
    from anyrig.documents.model import find
    from anyrig.documents.packaged import PACKAGED

    path = folder / Path(name).expanduser()
    if name in PACKAGED or (not path.exists() and find_cached_repository(name) is not None):
        return check_trainable(find(name, models=folder))
    return check_trainable(find(str(path), models=folder))
