"""Ready-made jobs by name: what a TOML file's `[task]` table says becomes a `Task`.

    task = build({"kind": "language", "text": "book.txt"}, folder=Path(), run=Path("run"), seed=0)

A kind is imported when it is asked for; other packages bring theirs by the entry point
`anyrig.training`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidSettingError
from anyrig.plugins import load_class

if TYPE_CHECKING:
    from anyrig.training.protocol import Task

TASKS = {
    "language": "anyrig.training.tasks.language:build",
    "images": "anyrig.training.tasks.images:build",
    "diffusion": "anyrig.training.tasks.diffusion:build",
}
"""Kind -> its builder. Those that need documents too are in `anyrig.app.training_tasks`."""
GROUP = "anyrig.training"


def build(
    config: Mapping[str, Any],
    folder: Path,
    run: Path,
    seed: int,
    *,
    kinds: Mapping[str, str] = TASKS,
) -> Task:
    """The job that a `[task]` table describes; everything drawn at random comes from the seed.

    Args:
        config: the table; its `kind` names the job, the rest is the job's own.
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
    builder = load_class(kind, kinds, GROUP)
    task: Task = builder(rest, folder=Path(folder), run=Path(run), seed=seed)
    return task
