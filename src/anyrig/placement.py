"""Need in, placement out: device, backend, precision and budget, with reasons. No framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anyrig.devices.describe import Device, Drive, Precision


@dataclass(frozen=True)
class Placement:
    """Where a piece of work runs, how, and why."""

    device: Device
    drive: Drive
    precision: Precision = "fp32"
    budget_bytes: int | None = None
    """Memory that one worker may use; None when nobody can tell."""
    threads: int = 1
    """Of the host, for one worker."""
    workers: int = 1
    """Processes on this device."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What a worker's environment must hold before its framework loads."""
    speed: float | None = None
    """The device's measured speed at this precision, to begin with."""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
