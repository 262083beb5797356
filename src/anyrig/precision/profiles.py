"""Profiles: what to prefer when the precision, the memory budget and the batch size are chosen.

`choose.py` applies the format rule, `placement` the memory share and the batch speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from anyrig.devices.machine import Device
from anyrig.errors import InvalidSettingError

ProfileName = Literal["quality", "balanced", "fast", "low-memory"]


@dataclass(frozen=True)
class Profile:
    description: str
    rule: Literal["best", "fastest", "smallest"]
    """Take the format that the model's author ranks first, the fastest, or the smallest."""
    min_speedup: float
    """How many times faster a format must be to be preferred to one that is ranked higher."""
    memory_fraction: float
    """Share of a device's own memory that work may use."""
    shared_memory_fraction: float
    """The same for memory that the rest of the system uses too: CPUs and integrated GPUs."""
    batch_speed: float
    """The smallest batch that reaches this share of the best throughput is used."""

    def memory_share(self, device: Device) -> float:
        dedicated = device.kind == "gpu" and device.memory.kind == "dedicated"
        return self.memory_fraction if dedicated else self.shared_memory_fraction


PROFILES: Mapping[ProfileName, Profile] = {
    "quality": Profile(
        "the format that the model's author ranks first, without TF32",
        rule="best", min_speedup=1.0,
        memory_fraction=0.85, shared_memory_fraction=0.65, batch_speed=0.95,
    ),
    "balanced": Profile(
        "the fastest format that keeps the model's quality",
        rule="fastest", min_speedup=1.3,
        memory_fraction=0.90, shared_memory_fraction=0.70, batch_speed=0.95,
    ),
    "fast": Profile(
        "the fastest format that the model supports",
        rule="fastest", min_speedup=1.02,
        memory_fraction=0.92, shared_memory_fraction=0.75, batch_speed=1.0,
    ),
    "low-memory": Profile(
        "the smallest format and small batches, leaving memory for other programs",
        rule="smallest", min_speedup=1.0,
        memory_fraction=0.55, shared_memory_fraction=0.40, batch_speed=0.50,
    ),
}  # fmt: skip


def get_profile(name: str) -> Profile:
    for known, profile in PROFILES.items():
        if known == name.strip().lower().replace("_", "-"):
            return profile
    raise InvalidSettingError(
        f"unknown profile {name!r}", hint=f"Available profiles: {', '.join(PROFILES)}."
    )
