"""Training runs that need nothing but a file: settings that suit two cores as well as a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

ReadyName = Literal["language", "classifier"]
READY_NAMES: tuple[ReadyName, ...] = get_args(ReadyName)


@dataclass(frozen=True)
class ReadyRun:
    task: str
    """The `[task]` table of its TOML file, with FILE for the data."""
    train: str
    steps: int
    """By default."""


READY_RUNS: dict[ReadyName, ReadyRun] = {
    "language": ReadyRun(
        'kind = "language"\ntext = "FILE"\ntokenizer = "train"\nvocabulary = 1024\n'
        'model = "tiny"\ncontext = 64\nsample = 200\nvalidation = 0.1\n',
        "batch = 32\nlearning_rate = 3e-3\nweight_decay = 0.1\nvalidate_every = 100\n",
        400,
    ),
    "classifier": ReadyRun(
        'kind = "classifier"\nexamples = "FILE"\nmodel = "minilm"\nvalidation = 0.2\n',
        "batch = 16\nlearning_rate = 3e-4\nwarmup = 0.1\ndrop_last = false\nvalidate_every = 20\n",
        60,
    ),
}


def build_ready_config(name: ReadyName, file: str, steps: int | None = None) -> str:
    """The TOML file of a ready-made run.

    Args:
        name: what is trained.
        file: a text for `language`; examples with texts and labels for `classifier`.
        steps: how many; the default is that of the run.
    """
    ready = READY_RUNS[name]
    task = ready.task.replace("FILE", file)
    return f"[task]\n{task}\n[train]\nsteps = {steps or ready.steps}\n{ready.train}"
