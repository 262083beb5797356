"""Memory budgets: what was requested, but no more than is available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from anyrig.devices.machine import Machine, Memory
from anyrig.placement import PlacementOptions, memory_budget
from anyrig.units import GIB

NOW = Memory("dedicated", 24 * GIB, 22 * GIB)
BUSY = Memory("dedicated", 24 * GIB, 10 * GIB)


@pytest.mark.parametrize(
    ("memory", "gib", "fraction", "expected", "words"),
    [
        (NOW, None, None, int(24 * GIB * 0.9), "90% of 24 GiB (balanced profile)"),
        (BUSY, None, None, 9 * GIB, "90% of the 10 GiB free"),
        (NOW, 10.0, None, 10 * GIB, "10 GiB requested"),
        (NOW, None, 0.5, 12 * GIB, "50% of the device's memory requested"),
        (BUSY, 40.0, None, 9 * GIB, "40 GiB requested, but only 10 GiB free; using 90% of that"),
        (BUSY, None, 0.5, 9 * GIB, "requested, but only 10 GiB free; using 90% of that"),
        (replace(NOW, free_bytes=None), 40.0, None, int(24 * GIB * 0.9), "but only 24 GiB free"),
        (NOW, 1e-12, None, 1, "requested"),
        (Memory(), None, None, None, "only speed"),
        (Memory(), 4.0, None, 4 * GIB, "4 GiB requested"),
        (Memory(), None, 0.5, None, "only speed"),
        (Memory("unified", None, 10 * GIB), None, 0.5, 9 * GIB, "90% of the 10 GiB free"),
    ],
)
def test_budget(
    machine: Callable[..., Machine],
    memory: Memory,
    gib: float | None,
    fraction: float | None,
    expected: int | None,
    words: str,
) -> None:
    device = replace(machine("h200-linux").gpus[0], memory=memory)
    options = PlacementOptions(memory_gb=gib, memory_fraction=fraction)
    num_bytes, reason = memory_budget(device, options)
    assert num_bytes == expected
    assert words in reason
