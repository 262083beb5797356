"""What a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Saved:
    """A run between two steps: what is needed to go on as if it had never stopped."""

    step: int
    """Steps that are done."""
    epoch: int = 0
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Parameters and buffers, whole, under the plain model's names."""
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    """A nest of tensors and plain values; also masters of weights, averages, and the like."""
    plain: Mapping[str, Any] = field(default_factory=dict)
    """Precision, scaler, schedule, data position, settings, versions, figures: no tensors needed,
    though some may be in it."""
    random: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Random states by rank, as `rng.capture` gives them."""
    loss: float | None = None
    """On the validation data, where that was measured: the best are kept by it."""
