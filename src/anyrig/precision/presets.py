"""What each profile means, in one table. `choose` reads the first half, `profiles` the second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from anyrig.errors import InvalidSettingError

Profile = Literal["quality", "balanced", "fast", "low-memory"]
Rule = Literal["best", "quickest", "smallest"]
When = Literal["never", "if needed", "always"]


@dataclass(frozen=True)
class Preset:
    """One profile, before it meets a device."""

    says: str
    """One line for people."""
    rule: Rule
    """Take the author's best format, the quickest, or the one with the fewest bytes."""
    gain: float
    """How many times as fast a format must be for one that its author ranks higher to be left."""
    fp8: bool
    """Whether fp8 is taken without being asked for by name."""
    memory: float
    """The share of a device's own memory that work may fill."""
    memory_shared: float
    """The same where the system and everybody else live in that memory: CPUs, unified memory."""
    batch: float
    """The smallest batch is taken that keeps this share of the best speed."""
    checkpointing: When
    """Training: compute activations again in the backward pass instead of keeping them."""
    offload: When
    """Training: keep the optimiser's state in the host's memory, where the device has its own."""


PRESETS: Mapping[Profile, Preset] = {
    "quality": Preset(
        says="the best numbers the model has, tf32 off",
        rule="best", gain=1.0, fp8=False, memory=0.85, memory_shared=0.65, batch=0.95,
        checkpointing="if needed", offload="never",
    ),
    "balanced": Preset(
        says="the quickest format that keeps the model's quality",
        rule="quickest", gain=1.3, fp8=False, memory=0.90, memory_shared=0.70, batch=0.95,
        checkpointing="if needed", offload="never",
    ),
    "fast": Preset(
        says="the quickest format the model allows at all, fp8 too",
        rule="quickest", gain=1.02, fp8=True, memory=0.92, memory_shared=0.75, batch=1.0,
        checkpointing="never", offload="never",
    ),
    "low-memory": Preset(
        says="the smallest format, small batches, room for others",
        rule="smallest", gain=1.0, fp8=True, memory=0.55, memory_shared=0.40, batch=0.50,
        checkpointing="always", offload="if needed",
    ),
}  # fmt: skip


def preset(name: str) -> Preset:
    """The preset of that name; an error lists the names there are."""
    for known, found in PRESETS.items():
        if known == name.strip().lower().replace("_", "-"):
            return found
    raise InvalidSettingError(
        f"no profile is called {name!r}", hint=f"There are: {', '.join(PRESETS)}."
    )
