"""How a process that cannot go on asks for a new start of all, with a smaller micro batch.

For shards, where nobody can go on once one ran out of memory in the middle of a step. The request
is a small file in the run's folder; the launcher sees the exit code and starts all again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from anyrig.storage.files import write_atomic

START_AGAIN = 75
"""The exit code that asks for a new start: the system's own for "try again later"."""
_NAME = "smaller.json"


def ask_smaller(folder: Path, micro_batch: int) -> None:
    """Ask that the next start computes at most so many items at once; the smallest number holds."""
    before = asked_micro_batch(folder)
    size = max(1, micro_batch if before is None else min(before, micro_batch))
    write_atomic(folder / _NAME, json.dumps({"micro_batch": size}) + "\n")


def asked_micro_batch(folder: Path) -> int | None:
    """The largest micro batch that a new start may compute; None where nobody asked."""
    try:
        value = json.loads((folder / _NAME).read_text(encoding="utf-8"))["micro_batch"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return value if type(value) is int and value >= 1 else None


def forget(folder: Path) -> None:
    """The request was granted."""
    (folder / _NAME).unlink(missing_ok=True)


def leave(folder: Path, micro_batch: int) -> NoReturn:
    """Ask for a smaller micro batch and end this process with the code that starts all again."""
    ask_smaller(folder, micro_batch)
    raise SystemExit(START_AGAIN)
