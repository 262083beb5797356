"""Figures for TensorBoard, in the run's folder `tensorboard`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from anyrig.errors import MissingPackageError
from anyrig.install import format_install
from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, RunEvent, Validation
from anyrig.training.watch.sinks import Told

FOLDER = "tensorboard"
# Figures under the names that TensorBoard groups by what stands before the stroke.
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


class Board:
    """Writes TensorBoard's event files.

    Args:
        folder: the run's.
        after: the step that a run resumes from; TensorBoard then hides what came later before.
    """

    name = FOLDER

    def __init__(self, folder: Path, *, after: int | None = None) -> None:
        purge = None if after is None else after + 1
        self._writer = _writer(folder / FOLDER, purge)

    def take(self, told: Told) -> None:
        """Write it."""
        if isinstance(told, Figures):
            self._figures(told)
        elif isinstance(told, Validation):
            for name, value in told.figures.items():
                self._scalar(f"validation/{name}", value, told.step, told.time_s)
        elif isinstance(told, (Alert, RunEvent)):
            group = "alerts" if isinstance(told, Alert) else "events"
            self._writer.add_text(f"{group}/{told.kind}", told.text, told.step, told.time_s)

    def close(self) -> None:
        """Write the rest."""
        self._writer.close()

    def _figures(self, told: Figures) -> None:
        for tag, field in _SCALARS.items():
            self._scalar(tag, getattr(told, field), told.step, told.time_s)
        for name, seconds in told.phases.items():
            self._scalar(f"phases/{name}_seconds", seconds, told.step, told.time_s)

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
