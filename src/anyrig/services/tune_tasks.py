"""Examples that documents read, as tasks that training knows: where both rooms meet.

    task = build({"kind": "classifier", "examples": "bills.csv"}, folder, run, seed=0)

Also the `[task]` tables of these tasks in a TOML file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.errors import InvalidInputError, InvalidSettingError, mention
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.classify.examples import Found, Trouble
    from anyrig.documents.classify.pipeline import Read
    from anyrig.documents.classify.solve import Kind
    from anyrig.documents.model import Model
    from anyrig.documents.pairs import Couples
    from anyrig.training.protocol import Task
    from anyrig.training.tasks.classifier import ClassWeights
    from anyrig.training.tasks.texts import Cutter

Tell = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how many."""
HELD = 0.2
"""The share of the examples that is only measured."""
PIECE = 32
"""Texts of an embedding model that are computed at once, while the loss sees the whole batch."""
TASKS = {
    "classifier": "anyrig.services.tune_tasks:classifier_task",
    "embedding": "anyrig.services.tune_tasks:embedding_task",
}
"""Kinds of tasks that need documents as well as training."""
_FEW = 8
"""Examples below which there is nothing to fine-tune with."""


@dataclass(frozen=True)
class Prepared:
    """A task, and what is known of its examples."""

    task: Task
    digest: str
    """Of everything that shapes the run beside the settings."""
    labels: tuple[str, ...] = ()
    kind: str = ""
    commonest: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def prepare_classifier(
    found: Found,
    model: Model,
    read: Read,
    *,
    kind: Kind | None = None,
    held: float = HELD,
    class_weights: ClassWeights = "none",
    seed: int = 0,
    tell: Tell | None = None,
) -> Prepared:
    """The task of a classifier, for whoever trains it."""
    from anyrig.documents.classify.pipeline import detect_kind, read_examples
    from anyrig.training.tasks.classifier import Labelled, classifier, split

    kind = kind or detect_kind(found)
    told = read_examples(
        found, read, kind=kind, tell=tell and (lambda done, total: tell("example", done, total))
    )
    names = tuple(sorted({name for labels in told.labels for name in labels}))
    if len(names) < (2 if kind == "one" else 1):
        raise InvalidInputError(
            f"all examples are {names[0]!r}" if names else "no example has a label",
            hint="Give examples of at least two labels.",
        )
    enough(len(told.texts), held)
    numbers = {name: number for number, name in enumerate(names)}
    rows = [
        Labelled(text, tuple(numbers[name] for name in labels))
        for text, labels in zip(told.texts, told.labels, strict=True)
    ]
    learnt, kept = ([rows[n] for n in part] for part in split(rows, held, seed=seed))
    cutter = _cutter(model)
    with _seeded(seed):
        built = _classifier_model(model, names, kind)
    task = classifier(built, cutter, learnt, kept, names, kind=kind, class_weights=class_weights)
    notes = [*told.notes, *_cut(cutter, told.texts)]
    counts = [told.labels.count(labels) for labels in set(told.labels)]
    task.skipped = _skipped(told.troubles)
    digest = digest_of(model.fingerprint, kind, str(held), str(class_weights), *map(repr, rows))
    return Prepared(task, digest, names, kind, max(counts) / len(rows), told.troubles, notes)


def prepare_embedding(
    found: Couples,
    model: Model,
    *,
    held: float = HELD,
    scale: float = 0.0,
    piece: int = PIECE,
    seed: int = 0,
) -> Prepared:
    """The task of an embedding model, for whoever trains it."""
    from anyrig.training.tasks.embedding import SCALE, Pair, Scored, embedding

    enough(len(found.found), held)
    rows: list[Any] = [
        Pair(one.one, one.other, one.negatives) if one.score is None
        else Scored(one.one, one.other, one.score)
        for one in found.found
    ]  # fmt: skip
    learnt, kept = apart(rows, held, seed=seed)
    cutter = _cutter(model)
    with _seeded(seed):
        built = _sentence_model(model, piece)
    task = embedding(
        built, cutter, [rows[n] for n in learnt], [rows[n] for n in kept],
        scale=scale or SCALE, prompts=model.prompts,
    )  # fmt: skip
    notes = _cut(cutter, [text for row in rows for text in row[:2]])
    task.skipped = _skipped(found.troubles)
    digest = digest_of(model.fingerprint, str(held), str(scale), *map(repr, rows))
    return Prepared(task, digest, troubles=found.troubles, notes=notes)


def enough(count: int, held: float) -> None:
    """Refuse what nothing can be learnt from."""
    if not 0 <= held < 1:
        raise InvalidInputError(
            f"a held-out share of {held}", hint="It must be from 0 up, below 1."
        )
    if count < _FEW:
        raise InvalidInputError(
            f"{pluralize(count, 'example')} are too few to fine-tune with",
            hint="Give some dozens of each kind; a classifier on vectors makes do with fewer.",
        )


def apart(rows: Sequence[Any], held: float, *, seed: int = 0) -> tuple[list[int], list[int]]:
    """Numbers of the pairs to learn from and of those held out.

    Pairs that share a text stay on one side: what was learnt word for word would flatter.
    """
    groups: dict[str, int] = {}
    parents = list(range(len(rows)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    for number, row in enumerate(rows):
        for text in row[:2]:
            parents[root(number)] = root(groups.setdefault(text, number))
    members: dict[int, list[int]] = {}
    for number in range(len(rows)):
        members.setdefault(root(number), []).append(number)
    want, kept = round(held * len(rows)), list[int]()
    for some in random.Random(seed).sample(list(members.values()), len(members)):
        if len(kept) + len(some) <= want:
            kept += some
    out = set(kept)
    return [number for number in range(len(rows)) if number not in out], sorted(kept)


def digest_of(*parts: str) -> str:
    """A mark of some texts."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """New layers are the same at every run, and nobody else's random numbers are moved."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


# -- models ----------------------------------------------------------------------------------------


def _cutter(model: Model) -> Cutter:
    from anyrig.documents.tokenise import opened
    from anyrig.training.tasks.texts import Cutter

    trainable(model)
    tokenizer = opened(model.tokenizer or model.folder / "tokenizer.json")
    return Cutter.of(tokenizer, model.longest, lower=model.lower)


def trainable(model: Model) -> Model:
    """The model, if its weights can learn."""
    if model.form in ("encoder", "auto"):
        return model
    raise InvalidInputError(
        f"{model.name} cannot be fine-tuned: it has no weights that torch can change",
        hint=f"Pass {mention('model', 'minilm')}, or a folder with config.json and"
        " model.safetensors.",
    )


def _packaged(model: Model) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Config and weights of a model that comes in a package; None for a folder."""
    import torch

    from anyrig.documents.models.arrays import packaged_floats

    if model.folder.suffix != ".onnx":
        return None
    config, state = packaged_floats(model.folder)
    return config, {name: torch.from_numpy(value) for name, value in state.items()}


def _classifier_model(model: Model, labels: Sequence[str], kind: Kind) -> Any:
    from anyrig.training.tasks import classifier

    if (packaged := _packaged(model)) is not None:
        return classifier.from_state(*packaged, labels, kind=kind)
    return classifier.from_folder(model.folder, labels, kind=kind)


def _sentence_model(model: Model, piece: int) -> Any:
    from anyrig.training.tasks import sentence

    options: Mapping[str, Any] = {
        "pooling": model.pooling,
        "normalise": model.normalise,
        "piece": piece,
    }
    if (packaged := _packaged(model)) is not None:
        return sentence.from_state(packaged[0], packaged[1], **options)
    return sentence.from_folder(model.folder, dense=model.dense, **options)


def _cut(cutter: Cutter, texts: Sequence[str]) -> list[str]:
    """A word on texts whose ends are not read."""
    full = sum(len(row) >= cutter.longest for row in cutter.rows(texts))
    if not full:
        return []
    return [
        f"{pluralize(full, 'text')} had more than {cutter.longest} tokens: the rest was not read"
    ]


def _skipped(troubles: Sequence[Trouble]) -> dict[str, str]:
    return {one.place: one.said for one in troubles}


# -- tables of a TOML file -------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassifierTable:
    """The `[task]` table of a classifier."""

    examples: str = ""
    """A folder of folders, a CSV or JSON lines, as `anyrig classify train` takes them."""
    files: str = ""
    """A JSON object that says where each file lies that the examples name; no other is opened."""
    model: str = "minilm"
    """The encoder to begin with: a packaged one, or a folder."""
    multi: bool = False
    """Whether a text may have any number of labels; it may where an example has several."""
    validation: float = HELD
    """The share of each label's examples that is only measured."""
    class_weights: Literal["none", "balanced"] | tuple[float, ...] = "none"
    """`balanced` lets rare labels count as much as common ones; or a number for each label."""


@dataclass(frozen=True)
class EmbeddingTable:
    """The `[task]` table of an embedding model."""

    pairs: str = ""
    """JSON lines or a CSV: query and passage (and negatives), or text1, text2 and score."""
    model: str = "minilm"
    """The model to begin with: a packaged one, or a folder."""
    validation: float = HELD
    """The share of the pairs that is only measured."""
    scale: float = 20.0
    """What cosines are multiplied by before the softmax."""
    piece: int = PIECE
    """Texts computed at once; the loss sees the whole micro batch all the same."""


def build(config: Mapping[str, Any], folder: Path, run: Path, seed: int) -> Task:
    """Any `[task]` table as a task: those of training, and those that need documents too."""
    from anyrig.plugins import load_class
    from anyrig.training import tasks

    kind, known = config.get("kind"), {**tasks.TASKS, **TASKS}
    if not isinstance(kind, str) or not kind:
        raise InvalidSettingError(
            "[task] does not say its kind", hint=f"Set kind to one of: {', '.join(known)}."
        )
    rest = {name: value for name, value in config.items() if name != "kind"}
    task: Task = load_class(kind, known, tasks.GROUP)(rest, folder=folder, run=run, seed=seed)
    return task


def classifier_task(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    """The task of a classifier's table."""
    from anyrig.documents.classify.examples import examples
    from anyrig.documents.reading import read_all
    from anyrig.training.tasks import config

    table = config.read(ClassifierTable, values)
    path = _given(folder, table.examples, "examples")
    resolve = _only(_given(folder, table.files, "files")) if table.files else None
    prepared = prepare_classifier(
        examples(path, resolve=resolve), _model(folder, table.model), read_all,
        kind="many" if table.multi else None, held=table.validation,
        class_weights=table.class_weights, seed=seed,
    )  # fmt: skip
    return prepared.task


def embedding_task(values: Mapping[str, Any], *, folder: Path, run: Path, seed: int) -> Task:
    """The task of an embedding model's table."""
    from anyrig.documents.pairs import pairs
    from anyrig.training.tasks import config

    table = config.read(EmbeddingTable, values)
    if table.piece < 0:
        raise InvalidSettingError(
            f"[task] piece is {table.piece}", hint="From 1 up; 0 is all at once."
        )
    path = _given(folder, table.pairs, "pairs")
    return prepare_embedding(
        pairs(path), _model(folder, table.model), held=table.validation, scale=table.scale,
        piece=table.piece, seed=seed,
    ).task  # fmt: skip


def _given(folder: Path, name: str, what: str) -> Path:
    from anyrig.training.tasks import config

    if not name:
        raise InvalidSettingError(f"[task] names no {what}", hint=f'Set {what} = "FILE".')
    return config.existing(folder, name, f"the file of {what}")


def _only(path: Path) -> Callable[[str], Path]:
    """Finds the files that a JSON object names, and refuses all others."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(known, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as error:
        raise InvalidSettingError(
            f"{path} cannot be read: {error}", hint='{"name": "/its/path"}'
        ) from error

    def find(name: str) -> Path:
        if name not in known:
            raise InvalidInputError("that file may not be read", hint=f"Add it to {path}.")
        return Path(str(known[name]))

    return find


def _model(folder: Path, name: str) -> Model:
    """A packaged model, or one of a folder beside the TOML file."""
    from anyrig.documents.model import find
    from anyrig.documents.packaged import PACKAGED

    if name in PACKAGED:
        return trainable(find(name, models=folder))
    return trainable(find(str(folder / Path(name).expanduser()), models=folder))
