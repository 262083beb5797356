"""Ready-made jobs by name: what a TOML file's `[task]` table says becomes a `Task`.

    table = {"kind": "language", "text": "book.txt"}
    task = build_task(table, folder=Path(), run=Path("run"), seed=0)

A kind is imported when it is asked for; other packages bring theirs by the entry point
`anyrig.training`.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.plugins import load_class
from anyrig.training.config import check_name, check_value, convert_value

if TYPE_CHECKING:
    from torch import nn

    from anyrig.text.manifest import Resolve
    from anyrig.training.batch import Batch
    from anyrig.training.evaluate import Metric
    from anyrig.training.lora import LoraConfig
    from anyrig.training.losses import CountUnits, TensorLoss

T = TypeVar("T")
TASKS = {
    "language": "anyrig.training.tasks.language:build",
    "images": "anyrig.training.tasks.images:build",
}
"""Kind -> its builder. Those that need documents too are in `anyrig.app.training`."""
GROUP = "anyrig.training"
REMOVED = {
    "diffusion": "examples/train/diffusion.py of the source code trains such a model with Trainer; "
    "a run of version 0.1.0 can only be continued with that version.",
}
"""Kinds of version 0.1.0 that are gone -> what to do instead."""


@dataclass
class Task:
    """What is trained on what."""

    name: str
    model: nn.Module
    data: Any
    loss: TensorLoss
    units: CountUnits | None = None
    collate: Callable[[Sequence[Any]], Batch] | None = None
    validation: Any = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    finish: Callable[[Path], Mapping[str, Any]] | None = None
    """Writes what a user wants of the trained model into a folder, and returns what it wrote."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be used, and why."""


def build_task(
    config: Mapping[str, Any],
    folder: Path,
    run: Path,
    seed: int,
    *,
    kinds: Mapping[str, str] = TASKS,
) -> Task:
    """The task of a `[task]` table; everything drawn at random comes from the seed.

    Args:
        config: the table; its `kind` names the task, the rest is the task's own.
        folder: where its relative paths begin: where the TOML file lies.
        run: the run's folder, for what is worth keeping between two starts.
        seed: of the weights and of how the data are split.
        kinds: the builder of each kind.
    """
    rest = dict(config)
    kind = rest.pop("kind", "")
    if not isinstance(kind, str) or not kind:
        raise InvalidSettingError(
            "[task] does not say its kind", hint=f"Set kind to one of: {', '.join(kinds)}."
        )
    if kind in REMOVED:
        raise InvalidSettingError(
            f"[task] kind {kind!r} is no longer part of anyrig", hint=REMOVED[kind]
        )
    builder = load_class(kind, kinds, GROUP)
    task: Task = builder(rest, folder=Path(folder), run=Path(run), seed=seed)
    return task


# -- what builders of tasks read -------------------------------------------------------------------


def read_table(kind: type[T], values: Mapping[str, Any], where: str = "task") -> T:
    """A table's values in a dataclass; a number may stand for a float, one text for a list."""
    hints = typing.get_type_hints(kind)
    given = {}
    for name, value in values.items():
        check_name(name, list(hints), where)
        given[name] = convert_value(value, hints[name])
        check_value(given[name], hints[name], f"[{where}] {name}")
    return kind(**given)


def resolve_path(folder: Path, text: str) -> Path:
    """A path of the table: relative ones begin at the TOML file's folder."""
    return folder / Path(text).expanduser()


def require_path(folder: Path, text: str, what: str) -> Path:
    """A path that must be there."""
    path = resolve_path(folder, text)
    if not path.exists():
        raise InvalidInputError(
            f"{what} {path} does not exist", hint=f"Relative paths begin at {folder}."
        )
    return path


def read_allowed_files(folder: Path, text: str) -> Resolve | None:
    """Finds the files that a JSON object maps names to, and refuses all others; None without one.

    A server writes it for a run of its clients: their manifests name no other file.
    """
    if not text:
        return None
    path = require_path(folder, text, "the file of files")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(known, dict):
            raise ValueError("it is not an object")
    except (OSError, ValueError) as error:
        raise InvalidSettingError(
            f"{path} cannot be read: {error}", hint='{"name": "/its/path"}'
        ) from error

    def find(name: str) -> Path:
        if name not in known:
            raise InvalidInputError("that file may not be read", hint=f"Add it to {path}.")
        return Path(str(known[name]))

    return find


def read_lora(value: int | Mapping[str, Any]) -> LoraConfig | None:
    """The adapter that `lora` of a task asks for: a rank, or a table."""
    from anyrig.training.lora import LoraConfig

    if isinstance(value, int):
        return LoraConfig(value) if value else None
    return read_table(LoraConfig, value, "task.lora")


@contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Torch draws from a seed inside, and goes on afterwards as if nothing had been drawn."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
