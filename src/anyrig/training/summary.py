"""Where a run stands, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyrig.training.feed import Position


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    steps: int
    """Of the optimiser, over the whole run with its earlier parts."""
    epochs: float
    loss: float | None
    """The last step's mean over all processes; None when none was made."""
    validation: Mapping[str, float]
    seconds: float
    samples_per_s: float | None
    units_per_s: float | None
    peak_bytes: int | None
    precision: str
    micro_batch: int
    num_retries: int
    """How often memory ran out."""
    num_skipped: int
    """Steps whose gradients were not finite."""
    finished: bool
    """False when it was asked to end early; it can be resumed."""
    resumed_from: int | None
    checkpoint: Path | None
    reasons: tuple[str, ...]
    micro_batch_why: str = ""
    """Empty if it was set."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """What the task wrote at the end."""
    report: Path | None = None


@dataclass
class State:
    """Where a run stands."""

    step: int = 0
    position: Position = Position()
    resumed_from: int | None = None
    validation: dict[str, float] = field(default_factory=dict)
    validated_step: int = -1
    """The step that these figures were measured after."""
    lowest_loss: float = math.inf
    """Of all measurements of this part of the run."""
    is_best: bool = False
    """Whether the model was measured after this very step, and never was as good."""
    retries: int = 0
    saved_step: int = -1

    def validate(self, figures: dict[str, float]) -> None:
        """The model was measured after this step."""
        self.validation, self.validated_step = figures, self.step
        loss = figures.get("loss", math.inf)
        self.is_best = loss < self.lowest_loss
        self.lowest_loss = min(self.lowest_loss, loss)

    def advance(self, steps_in_epoch: int | None) -> int:
        """A step is made; the epoch that it was of."""
        epoch, step = self.position
        self.step += 1
        self.is_best = False
        over = steps_in_epoch is not None and step + 1 >= steps_in_epoch
        self.position = Position(epoch + 1, 0) if over else Position(epoch, step + 1)
        return epoch
