"""`metrics.jsonl`: one line for each thing told, readable while it is written and after a kill.

Each line is one write, so a killed process leaves at most a torn last line, which readers pass over
and a resume cuts off together with all that came after the checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyrig.store import atomic
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, RunEvent, Validation
from anyrig.training.watch.sinks import Told

FILE = "metrics.jsonl"


class Lines:
    """Appends to a run's `metrics.jsonl`.

    Args:
        folder: the run's.
        after: the step that a run resumes from; later lines are cut off. None begins anew.
    """

    name = FILE

    def __init__(self, folder: Path, *, after: int | None = None) -> None:
        self.path = folder / FILE
        self.past = cut(self.path, after)
        self._file = self.path.open("ab", buffering=0)
        self._torn = False

    def take(self, told: Told) -> None:
        """Write a line."""
        data = (json.dumps(row_of(told), ensure_ascii=False) + "\n").encode()
        if self._torn:
            data = b"\n" + data
        self._torn = True
        written = self._file.write(data)
        if written != len(data):
            raise OSError(f"{written} of {len(data)} bytes were written")
        self._torn = False

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def row_of(told: Told) -> dict[str, Any]:
    """What was told as plain data; numbers JSON has no word for are null and named."""
    if isinstance(told, Figures):
        return _finite({"kind": "step", **told.plain()})
    if isinstance(told, Validation):
        return _finite({"kind": "validation", **asdict(told)})
    if isinstance(told, Alert):
        return _finite({"kind": "alert", "alert": told.kind, **_without(told._asdict(), "kind")})
    return _finite({"kind": "event", "event": told.kind, **_without(asdict(told), "kind")})


def told_of(row: Mapping[str, Any]) -> Told | None:
    """The way back; None for a line of an unknown kind or with parts missing."""
    row = _restored(row)
    try:
        if row["kind"] == "step":
            return Figures.of(row)
        if row["kind"] == "validation":
            return Validation(row["step"], row["figures"], row["elapsed_s"], row["time_s"])
        if row["kind"] == "alert":
            return Alert(row["alert"], row["text"], row["step"], row["hint"], row["time_s"])
        if row["kind"] == "event":
            return RunEvent(
                row["event"], row["text"], row["step"], row["elapsed_s"], row["time_s"],
                row.get("facts") or {},
            )  # fmt: skip
    except (KeyError, TypeError):
        return None
    return None


def read(folder: Path) -> list[Told]:
    """All that a run told, oldest first; broken lines are passed over."""
    return [told for told, _ in _lines(folder / FILE)]


def cut(path: Path, after: int | None) -> list[Told]:
    """Cut off what came after a step, in one stroke; what stays."""
    kept = (
        [] if after is None else [(told, raw) for told, raw in _lines(path) if told.step <= after]
    )
    data = b"".join(raw + b"\n" for _, raw in kept)
    if not path.exists() or path.read_bytes() != data:
        with atomic.replacing(path) as file:
            file.write(data)
    return [told for told, _ in kept]


def _lines(path: Path) -> Iterator[tuple[Told, bytes]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for raw in data.split(b"\n"):
        told = _told(raw)
        if told is not None:
            yield told, raw


def _told(raw: bytes) -> Told | None:
    try:
        row = json.loads(raw)
    except ValueError:  # torn, or not ours
        return None
    return told_of(row) if isinstance(row, dict) else None


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers that are not finite become null, with their names and kinds beside them."""
    odd: dict[str, str] = {}
    row = {name: _plain(value, name, odd) for name, value in row.items()}
    return {**row, "nonfinite": odd} if odd else row


def _plain(value: Any, name: str, odd: dict[str, str]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        odd[name] = str(value)
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(one, f"{name}.{key}", odd) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, f"{name}.{place}", odd) for place, one in enumerate(value)]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _restored(row: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(row)
    odd = result.pop("nonfinite", None)
    for name, text in odd.items() if isinstance(odd, dict) else ():
        top, _, inner = name.partition(".")
        if not inner:
            result[top] = float(text)
        elif isinstance(result.get(top), dict):
            result[top] = {**result[top], inner: float(text)}
    return result


def _without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}
