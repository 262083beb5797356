"""Ready-made jobs by name: what a TOML file's `[task]` table says becomes a `Task`.

    table = {"kind": "language", "text": "book.txt"}
    task = build_task(table, folder=Path(), run=Path("run"), seed=0)

A kind is imported when it is asked for; other packages bring theirs by the entry point
`anyrig.training`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidSettingError
from anyrig.plugins import load_class

if TYPE_CHECKING:
    from torch import nn

    from anyrig.training.batch import Batch
    from anyrig.training.evaluate import Metric
    from anyrig.training.losses import CountUnits, TensorLoss

TASKS = {
    "language": "anyrig.training.tasks.language:build",
    "images": "anyrig.training.tasks.images:build",
}
"""Kind -> its builder. Those that need documents too are in `anyrig.app.training_tasks`."""
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
