"""Training tasks that need documents as well: text classifiers and embedding models.

    task = build({"kind": "classifier", "examples": "bills.csv"}, folder, run, seed=0)

Each has a `[task]` table in a TOML file; fine-tuning prepares the same tasks without one.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.errors import InvalidInputError, InvalidSettingError, Message, OptionRef
from anyrig.events import OnEvent, ProgressEvent
from anyrig.storage.weights import find_cached_repository
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.pipeline import Examples
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.pairs import PairFile
    from anyrig.documents.reading import OpenedSource
    from anyrig.text.manifest import Trouble
    from anyrig.training.lora import LoraConfig
    from anyrig.training.tasks import Task
    from anyrig.training.tasks.classifier import ClassWeights
    from anyrig.training.tasks.texts import Cutter

HELD_OUT_SHARE = 0.2
"""The share of the examples that is only used to measure."""
PIECE = 32
"""Texts of an embedding model that are computed at once, while the loss sees the whole batch."""
TASKS = {
    "classifier": "anyrig.app.training_tasks:build_classifier_task",
    "embedding": "anyrig.app.training_tasks:build_embedding_task",
}
_MIN_EXAMPLES = 8


def build(table: Mapping[str, Any], folder: Path, run: Path, seed: int) -> Task:
    """The task of a `[task]` table of any kind."""
    from anyrig.training import tasks

    return tasks.build_task(table, folder, run, seed, kinds={**tasks.TASKS, **TASKS})


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
    _check_count(len(learnable.texts), held)
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
    piece: int = PIECE,
    seed: int = 0,
) -> PreparedTask:
    from anyrig.training.tasks import embedding

    _check_count(len(found.found), held)
    rows: list[Any] = [
        embedding.Pair(one.one, one.other, one.negatives) if one.score is None
        else embedding.Scored(one.one, one.other, one.score)
        for one in found.found
    ]  # fmt: skip
    cutter = _build_cutter(model)
    options = {"pooling": model.pooling, "normalise": model.normalise, "piece": piece}
    weights = _load_weights(embedding, model, seed, {"dense": model.dense}, **options)
    parts = ([rows[n] for n in part] for part in split_pairs(rows, held, seed=seed))
    task = embedding.embedding(
        weights, cutter, *parts, scale=scale or embedding.SCALE, prompts=model.prompts
    )
    task.skipped = _list_skipped(found.troubles)
    digest = digest_of(model.fingerprint, str(held), str(scale), *map(repr, rows))
    notes = _describe_cut(cutter, [text for row in rows for text in row[:2]])
    return PreparedTask(
        task, digest, troubles=found.troubles, notes=notes, measure=embedding.evaluate_retrieval
    )


def split_pairs(rows: Sequence[Any], held: float, *, seed: int = 0) -> tuple[list[int], list[int]]:
    """Numbers of the pairs to learn from and of those held out.

    Pairs that share a text stay on one side: what was learnt word for word would flatter.
    """
    groups: dict[str, int] = {}
    parents = list(range(len(rows)))

    def find_root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for number, row in enumerate(rows):
        for text in row[:2]:
            parents[find_root(number)] = find_root(groups.setdefault(text, number))
    members: dict[int, list[int]] = {}
    for number in range(len(rows)):
        members.setdefault(find_root(number), []).append(number)
    limit, held_out = round(held * len(rows)), set[int]()
    for some in random.Random(seed).sample(list(members.values()), len(members)):
        if len(held_out) + len(some) <= limit:
            held_out.update(some)
    return [number for number in range(len(rows)) if number not in held_out], sorted(held_out)


def digest_of(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


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


def _check_count(count: int, held: float) -> None:
    if not 0 <= held < 1:
        raise InvalidInputError(
            f"a held-out share of {held}", hint="It must be from 0 up, below 1."
        )
    if count < _MIN_EXAMPLES:
        raise InvalidInputError(
            f"{pluralize(count, 'example')} are too few to fine-tune with",
            hint="Give some dozens of each kind; a classifier on vectors makes do with fewer.",
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
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # new layers are the same in every run
        if model.folder.suffix != ".onnx":
            return loader.from_folder(model.folder, **options, **folder_options)
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


# -- tables of a TOML file -------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassifierTable:
    """The `[task]` table of a classifier."""

    examples: str = ""
    """A folder of folders, a CSV or JSON lines, as for `anyrig classify train`."""
    files: str = ""
    """A JSON file that maps file names in the examples to paths; no other file is opened."""
    model: str = "minilm"
    """The encoder to start from: a packaged model or a folder."""
    multi: bool = False
    """Allow any number of labels per text; implied if an example has several."""
    validation: float = HELD_OUT_SHARE
    """Fraction of each label's examples used for validation."""
    class_weights: Literal["none", "balanced"] | tuple[float, ...] = "none"
    """`balanced` weights rare labels more; or a weight per label."""
    lora: int | Mapping[str, Any] = 0
    """Train LoRA adapters of this rank, or a table as for `language`, and the head; 0 trains all
    weights."""


@dataclass(frozen=True)
class EmbeddingTable:
    """The `[task]` table of an embedding model."""

    pairs: str = ""
    """JSON lines or CSV: query and passage (and negatives), or text1, text2 and score."""
    model: str = "minilm"
    """The model to start from: a packaged model or a folder."""
    validation: float = HELD_OUT_SHARE
    """Fraction of the pairs used for validation."""
    scale: float = 20.0
    """Factor applied to cosine similarities before the softmax."""
    piece: int = PIECE
    """Texts per forward pass; the loss still covers the whole micro batch."""


def build_classifier_task(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    from anyrig.documents.classify.pipeline import select_examples
    from anyrig.documents.reading import read_sources
    from anyrig.text.manifest import read_manifest
    from anyrig.training import tasks

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
