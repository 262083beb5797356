"""Figures for Prometheus: as text for a server, and as `metrics.prom` for a node exporter.

Names are in base units, as in `anyrig.monitor.prometheus`. What is not known is left out; a loss
that is not a number is said as such, which Prometheus knows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from anyrig.storage import files
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, Validation
from anyrig.training.watch.sinks import Told

FILE = "metrics.prom"
# Of all metric names of anyrig.
PREFIX = "anyrig"
Row = tuple[dict[str, str], float | None]


class _Metric(NamedTuple):
    name: str
    help: str
    field: str
    kind: str = "gauge"


_METRICS = (
    _Metric("step", "Steps of the optimiser so far.", "step"),
    _Metric("epoch", "The epoch under way.", "epoch"),
    _Metric("loss", "Mean over units.", "loss"),
    _Metric("learning_rate", "Of the first group.", "rate"),
    _Metric("step_seconds", "Time of a step, without validation and checkpoints.", "step_s"),
    _Metric("epoch_seconds", "Since the epoch began.", "epoch_s"),
    _Metric("elapsed_seconds", "Since the run began.", "elapsed_s"),
    _Metric("remaining_seconds", "Until the last step, at this pace.", "eta_s"),
    _Metric("samples_per_second", "Of all processes.", "samples_per_s"),
    _Metric("units_per_second", "Of all processes: tokens, or samples.", "units_per_s"),
    _Metric("mfu_ratio", "Useful FLOPs as a share of the measured peak.", "mfu"),
    _Metric("gradient_norm", "Before clipping.", "grad_norm"),
    _Metric("loss_scale", "What the loss is multiplied with.", "scale"),
    _Metric("skipped_steps_total", "Steps whose gradients were not finite.", "total_skipped",
            "counter"),
    _Metric("retries_total", "Times that memory ran out and a step was repeated.", "total_retries",
            "counter"),
    _Metric("micro_batch", "Items computed at once.", "micro_batch"),
    _Metric("memory_allocated_bytes", "In live tensors.", "memory_allocated_bytes"),
    _Metric("memory_reserved_bytes", "Taken from the driver.", "memory_reserved_bytes"),
    _Metric("memory_peak_bytes", "The most that was allocated.", "memory_peak_bytes"),
    _Metric("last_time_seconds", "When this was told, since 1970.", "time_s"),
)  # fmt: skip


class Prometheus:
    """Keeps `metrics.prom` in the run's folder up to date.

    Args:
        folder: the run's.
        run: its name, as a label.
        every_s: between two writes of the file.
    """

    name = FILE

    def __init__(self, folder: Path, *, run: str = "", every_s: float = 5.0) -> None:
        self._path = folder / FILE
        self._run = run or folder.name
        self._every_s = every_s
        self._written_at: float | None = None
        self._figures: Figures | None = None
        self._validation: Validation | None = None
        self._alerts: dict[str, int] = {}

    def take(self, told: Told) -> None:
        """Keep it, and write the file when it is time."""
        if isinstance(told, Figures):
            self._figures = told
        elif isinstance(told, Validation):
            self._validation = told
        elif isinstance(told, Alert):
            self._alerts[told.kind] = self._alerts.get(told.kind, 0) + 1
        now = time.monotonic()
        if self._written_at is None or now - self._written_at >= self._every_s:
            self._written_at = now
            self._save()

    def text(self) -> str:
        """The same text as in the file, of this moment."""
        return text(self._figures, self._validation, self._alerts, run=self._run)

    def close(self) -> None:
        """The last figures stay in the file."""
        self._save()

    def _save(self) -> None:
        files.write_atomic(self._path, self.text().encode(errors="replace").decode())


def text(
    figures: Figures | None,
    validation: Validation | None = None,
    alerts: dict[str, int] | None = None,
    *,
    run: str,
) -> str:
    """Figures in Prometheus' text exposition format."""
    label = {"run": run}
    lines: list[str] = []
    if figures is not None:
        for metric in _METRICS:
            value: float | None = getattr(figures, metric.field)
            lines += _block(metric.name, metric.help, metric.kind, [(label, value)])
        phases: list[Row] = [({**label, "phase": k}, v) for k, v in figures.phases.items()]
        lines += _block("phase_seconds", "Mean time of a phase in a step.", "gauge", phases)
        formats: list[Row] = [({**label, "precision": figures.precision}, 1)]
        lines += _block("precision_info", "1 for the precision in use.", "gauge", formats)
    if validation is not None:
        rows: list[Row] = [({**label, "figure": k}, v) for k, v in validation.figures.items()]
        lines += _block("validation", "The last measurement, by figure.", "gauge", rows)
    warned: list[Row] = [({**label, "kind": k}, v) for k, v in (alerts or {}).items()]
    lines += _block("alerts_total", "Warnings so far, by kind.", "counter", warned)
    return "\n".join(lines) + "\n" if lines else ""


def _block(name: str, help_text: str, kind: str, rows: Iterable[Row]) -> list[str]:
    told = [(labels, value) for labels, value in rows if value is not None]
    if not told:
        return []
    full = f"{PREFIX}_train_{name}"
    head = [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
    return head + [f"{full}{_braces(labels)} {_number(value)}" for labels, value in told]


def _braces(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(value: str) -> str:
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    return value.replace("\n", "\\n").replace("\r", " ")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))
