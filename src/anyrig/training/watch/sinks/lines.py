"""`metrics.jsonl`: one line for each thing told, readable while it is written and after a kill.

Each line is one write, so a killed process leaves at most a torn last line, which readers pass over
and a resume cuts off together with all that came after the checkpoint.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from anyrig.storage import files
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, RunEvent, Validation, joined
from anyrig.training.watch.history import Thinned
from anyrig.training.watch.sinks import Told

FILE = "metrics.jsonl"
_MOST_READ = 20_000
_FIGURES = re.compile(rb'\{"kind": "step", "step": (\d+), ')


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
        # Half characters, of paths that are no text, are written as JSON's escapes.
        line = json.dumps(row_of(told), ensure_ascii=False) + "\n"
        data = line.encode(errors="backslashreplace")
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
    """All that a run told, oldest first; broken lines are passed over.

    Of a very long run the figures of neighbouring steps are put together: sums and means stay.
    """
    steps: list[Figures] = []
    others: list[Told] = []
    for raw in _raw(folder / FILE):
        told = _told(raw)
        if isinstance(told, Figures):
            steps.append(told)
            if len(steps) > _MOST_READ:
                steps = [joined(steps[n : n + 2]) for n in range(0, len(steps), 2)]
        elif told is not None:
            others.append(told)
    # Figures of a step come before what else was told at it.
    return sorted([*steps, *others], key=lambda told: told.step)


def cut(path: Path, after: int | None) -> list[Told]:
    """Cut off what came after a step, in one stroke; what stays, long histories thinned out.

    A run of a million steps has a gigabyte of lines: they pass through one by one, and only those
    that are remembered are understood.
    """
    steps: Thinned[bytes] = Thinned()
    others: list[bytes] = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.open_atomic(path) as file:
        for raw in _raw(path) if after is not None else ():
            step, is_figures = _step_of(raw)
            if step is None or after is None or step > after:
                continue
            file.write(raw + b"\n")
            if is_figures:
                steps.add(raw)
            else:
                others.append(raw)
    told = [one for raw in [*steps, *others] if (one := _told(raw)) is not None]
    return sorted(told, key=lambda one: one.step)


def _raw(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)
    except FileNotFoundError:
        return


def _step_of(raw: bytes) -> tuple[int | None, bool]:
    """The step a line belongs to, and whether it holds figures; None for a broken line."""
    found = _FIGURES.match(raw)
    if found and raw.endswith(b"}"):
        return int(found[1]), True
    told = _told(raw)
    return (told.step, isinstance(told, Figures)) if told is not None else (None, False)


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
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value), name, odd)
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
