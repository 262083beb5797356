"""Where the metrics of a run go: `metrics.jsonl`, TensorBoard, lines for a person.

Each line of `metrics.jsonl` is one write, so a killed process leaves at most an incomplete last
line. Readers skip it, and a resume removes it with everything after the checkpoint.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from anyrig.errors import MissingPackageError
from anyrig.install import format_install
from anyrig.storage import files
from anyrig.training.metrics import (
    Alert,
    Record,
    RunEvent,
    StepMetrics,
    ThinnedHistory,
    ValidationMetrics,
    join_metrics,
)
from anyrig.units import format_bytes, format_duration

# -- metrics.jsonl --------------------------------------------------------------------------------


LINES = "metrics.jsonl"
_MAX_READ = 20_000
_STEP_LINE = re.compile(rb'\{"kind": "step", "step": (\d+), ')


class JsonLinesLogger:
    """Appends to a run's `metrics.jsonl`.

    Args:
        folder: the run's.
        after: the step that a run resumes from; later lines are cut off. None begins anew.
    """

    name = LINES

    def __init__(self, folder: Path | str, *, after: int | None = None) -> None:
        self.path = Path(folder) / LINES
        self.past = truncate(self.path, after)
        self._file = self.path.open("ab", buffering=0)
        self._incomplete = False

    def log(self, record: Record) -> None:
        # Half characters, of paths that are no text, are written as JSON's escapes.
        line = json.dumps(to_row(record), ensure_ascii=False) + "\n"
        data = line.encode(errors="backslashreplace")
        if self._incomplete:
            data = b"\n" + data
        self._incomplete = True
        written = self._file.write(data)
        if written != len(data):
            raise OSError(f"{written} of {len(data)} bytes were written")
        self._incomplete = False

    def close(self) -> None:
        self._file.close()


def to_row(record: Record) -> dict[str, Any]:
    """A record as plain data; numbers that JSON cannot write are null and named."""
    if isinstance(record, StepMetrics):
        return _finite({"kind": "step", **asdict(record)})
    if isinstance(record, ValidationMetrics):
        return _finite({"kind": "validation", **asdict(record)})
    if isinstance(record, Alert):
        return _finite(
            {"kind": "alert", "alert": record.kind, **_without(record._asdict(), "kind")}
        )
    return _finite({"kind": "event", "event": record.kind, **_without(asdict(record), "kind")})


def from_row(row: Mapping[str, Any]) -> Record | None:
    """The record of a row; None for an unknown kind, or if fields are missing."""
    row = _restore(row)
    try:
        if row["kind"] == "step":
            return StepMetrics.from_row(row)
        if row["kind"] == "validation":
            return ValidationMetrics(row["step"], row["figures"], row["elapsed_s"], row["time_s"])
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


def read_records(folder: Path) -> list[Record]:
    """All records of a run, oldest first; broken lines are skipped.

    In a very long run neighbouring steps are joined; sums and means stay the same.
    """
    steps: list[StepMetrics] = []
    others: list[Record] = []
    for raw in _read_lines(folder / LINES):
        record = _parse(raw)
        if isinstance(record, StepMetrics):
            steps.append(record)
            if len(steps) > _MAX_READ:
                steps = [join_metrics(steps[n : n + 2]) for n in range(0, len(steps), 2)]
        elif record is not None:
            others.append(record)
    # The metrics of a step come before other records of the same step.
    return sorted([*steps, *others], key=lambda record: record.step)


def truncate(path: Path, after: int | None) -> list[Record]:
    """Remove what came after a step; returns the rest, of which long histories are thinned.

    A run of a million steps has a gigabyte of lines: they are copied one by one, and only those
    that are returned are parsed.
    """
    steps: ThinnedHistory[bytes] = ThinnedHistory()
    others: list[bytes] = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.open_atomic(path) as file:
        for raw in _read_lines(path) if after is not None else ():
            step, is_metrics = _parse_step(raw)
            if step is None or after is None or step > after:
                continue
            file.write(raw + b"\n")
            if is_metrics:
                steps.add(raw)
            else:
                others.append(raw)
    records = [one for raw in [*steps, *others] if (one := _parse(raw)) is not None]
    return sorted(records, key=lambda one: one.step)


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)
    except FileNotFoundError:
        return


def _parse_step(raw: bytes) -> tuple[int | None, bool]:
    """The step of a line, and whether it has the metrics of a step; None for a broken line."""
    found = _STEP_LINE.match(raw)
    if found and raw.endswith(b"}"):
        return int(found[1]), True
    record = _parse(raw)
    return (record.step, isinstance(record, StepMetrics)) if record is not None else (None, False)


def _parse(raw: bytes) -> Record | None:
    try:
        row = json.loads(raw)
    except ValueError:  # incomplete, or of another program
        return None
    return from_row(row) if isinstance(row, dict) else None


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


def _restore(row: Mapping[str, Any]) -> dict[str, Any]:
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


# -- TensorBoard ----------------------------------------------------------------------------------


_TENSORBOARD = "tensorboard"
# StepMetrics under the names that TensorBoard groups by what stands before the stroke.
_SCALARS = {
    "train/loss": "loss",
    "train/learning_rate": "rate",
    "train/gradient_norm": "grad_norm",
    "train/loss_scale": "scale",
    "train/skipped_steps": "total_skipped",
    "train/retries": "total_retries",
    "train/micro_batch": "micro_batch",
    "train/epoch": "epoch",
    "speed/step_seconds": "step_s",
    "speed/samples_per_second": "samples_per_s",
    "speed/units_per_second": "units_per_s",
    "speed/mfu": "mfu",
    "memory/allocated_bytes": "memory_allocated_bytes",
    "memory/reserved_bytes": "memory_reserved_bytes",
    "memory/peak_bytes": "memory_peak_bytes",
    "device/temperature_celsius": "device_temperature_c",
    "device/utilisation_ratio": "device_utilisation",
    "device/power_watts": "device_power_w",
}


class TensorBoardLogger:
    """Writes TensorBoard's event files.

    Args:
        folder: the run's.
        after: the step that a run resumes from; TensorBoard then hides what came later before.
    """

    name = _TENSORBOARD

    def __init__(self, folder: Path | str, *, after: int | None = None) -> None:
        purge = None if after is None else after + 1
        self._writer = _writer(Path(folder) / _TENSORBOARD, purge)

    def log(self, record: Record) -> None:
        """Write it."""
        if isinstance(record, StepMetrics):
            self._figures(record)
        elif isinstance(record, ValidationMetrics):
            for name, value in record.figures.items():
                self._scalar(f"validation/{name}", value, record.step, record.time_s)
        elif isinstance(record, (Alert, RunEvent)):
            group = "alerts" if isinstance(record, Alert) else "events"
            self._writer.add_text(f"{group}/{record.kind}", record.text, record.step, record.time_s)

    def close(self) -> None:
        """Write the rest."""
        self._writer.close()

    def _figures(self, record: StepMetrics) -> None:
        for tag, field in _SCALARS.items():
            self._scalar(tag, getattr(record, field), record.step, record.time_s)
        for name, seconds in record.phases.items():
            self._scalar(f"phases/{name}_seconds", seconds, record.step, record.time_s)

    def _scalar(self, tag: str, value: float | None, step: int, time_s: float) -> None:
        if value is not None and not math.isnan(value):
            self._writer.add_scalar(tag, value, step, time_s)


def _writer(folder: Path, purge: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingPackageError(
            "TensorBoard's files need the package tensorboard", hint=format_install("tensorboard")
        ) from error
    return SummaryWriter(str(folder), purge_step=purge)


# -- for a person ---------------------------------------------------------------------------------


class PrintLogger:
    """Prints the figures of a step every few seconds, and validations, warnings and events.

    Args:
        every_s: seconds between two steps that are printed.
    """

    name = "print"

    def __init__(self, every_s: float = 10.0) -> None:
        self._every_s, self._next_s = every_s, 0.0
        self._unprinted: StepMetrics | None = None

    def log(self, record: Record) -> None:
        if not isinstance(record, StepMetrics):
            if isinstance(record, RunEvent) and record.kind == "end":
                self.close()
            self._print(record)
            return
        self._unprinted = record
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + self._every_s
            self.close()

    def close(self) -> None:
        """Print the last step."""
        if self._unprinted is not None:
            self._print(self._unprinted)
            self._unprinted = None

    def _print(self, record: Record) -> None:
        sys.stdout.write(format_record(record) + "\n")
        sys.stdout.flush()


def format_record(record: Record, total_steps: int | None = None, unit: str = "samples") -> str:
    """A record in one line."""
    if isinstance(record, StepMetrics):
        return _format_step(record, total_steps, unit)
    if isinstance(record, ValidationMetrics):
        figures = ", ".join(f"{name} {value:.4g}" for name, value in record.figures.items())
        return f"step {record.step}: validation: {figures}"
    if isinstance(record, Alert):
        return f"step {record.step}: warning: {' '.join(record.text.split())}. {record.hint}"
    return f"step {record.step}: {' '.join(record.text.split())}"


def _format_step(metrics: StepMetrics, total_steps: int | None, unit: str) -> str:
    of = f"/{total_steps}" if total_steps else ""
    parts = [f"step {metrics.step}{of}", f"loss {metrics.loss:.4f}", f"rate {metrics.rate:.3g}"]
    if metrics.units_per_s is not None:
        parts.append(f"{format_count(metrics.units_per_s)} {unit}/s")
    parts.append(f"{format_duration(metrics.step_s)}/step")
    memory = metrics.memory_peak_bytes or metrics.memory_reserved_bytes
    if memory is not None:
        parts.append(format_bytes(memory))
    if metrics.mfu is not None:
        parts.append(f"MFU {metrics.mfu:.1%}")
    if metrics.total_skipped:
        parts.append(f"{metrics.total_skipped} skipped")
    if metrics.eta_s is not None:
        parts.append(f"{format_duration(metrics.eta_s)} left" if metrics.eta_s else "done")
    return "  ".join(parts)


def format_count(value: float) -> str:
    """A count with three digits: `7.25`, `812`, `12.4k`, `3.40M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 0.9995 * size:
            return f"{_round(value / size)}{unit}"
    return _round(value)


def _round(value: float) -> str:
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"
