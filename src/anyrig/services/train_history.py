"""What a training run has told so far, out of its `metrics.jsonl`; nothing heavy is loaded.

    rows = history(folder, after=1200, most=500)

Readable while the run goes on: a torn last line is passed over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = "metrics.jsonl"
_LONGEST_LINE = 1 << 20
_STEP = ("step", "epoch", "loss", "rate", "step_s", "samples_per_s", "units_per_s", "eta_s",
         "elapsed_s", "time_s", "grad_norm", "scale", "mfu", "micro_batch",
         "precision", "num_skipped", "num_retries")  # fmt: skip


def history(folder: Path, *, after: int = 0, most: int = 2000) -> list[dict[str, Any]]:
    """Figures of steps, oldest first; where there are more than `most`, evenly thinned out.

    Args:
        folder: the run's.
        after: only steps past this one.
        most: how many at most; the first and the last always are among them.
    """
    rows: list[dict[str, Any]] = []
    stride = 1
    seen = 0
    last: dict[str, Any] | None = None
    for row in _rows(folder / FILE):
        if row.get("kind") != "step" or not _whole(row.get("step")) or row["step"] <= after:
            continue
        last = _figures(row)
        if seen % stride == 0:
            rows.append(last)
            if len(rows) > max(2, most):  # what is kept stays evenly spaced
                rows, stride = rows[::2], stride * 2
        seen += 1
    if last is not None and rows and rows[-1] is not last:
        rows = [*rows[: max(2, most) - 1], last]
    return rows


def others(folder: Path, *, most: int = 500) -> list[dict[str, Any]]:
    """Validations, alerts and events, oldest first; of many the newest."""
    found = [_finite(row) for row in _rows(folder / FILE) if row.get("kind") != "step"]
    return found[-most:]


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: _finite(row.get(name)) for name in _STEP}
    memory = row.get("memory_peak_bytes") or row.get("memory_allocated_bytes")
    found["memory_bytes"] = memory if _whole(memory) else None
    return found


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    yield row
    except OSError:
        return


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value
