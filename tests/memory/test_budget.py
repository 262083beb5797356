"""Memory budgets: what was requested, but no more than is available."""

from __future__ import annotations

import pytest

from anyrig.backends.memory import MemoryUsage
from anyrig.errors import InvalidInputError
from anyrig.memory.budget import resolve_budget
from anyrig.units import GIB

NOW = MemoryUsage(GIB, 2 * GIB, None, None, 20 * GIB, 24 * GIB)


@pytest.mark.parametrize(
    ("now", "gib", "fraction", "expected", "words"),
    [
        (NOW, None, None, int(22 * GIB * 0.9), "90% of 22 GiB free"),
        (NOW, 10.0, None, 10 * GIB, "10 GiB requested"),
        (NOW, None, 0.5, 12 * GIB, "50% of the device"),
        (NOW, 40.0, None, int(22 * GIB * 0.9), "but only 22 GiB free; using 90% of that"),
        (MemoryUsage(), None, None, None, "only speed"),
        (MemoryUsage(), 4.0, None, 4 * GIB, "4 GiB requested"),
        (MemoryUsage(), None, 0.5, None, "only speed"),
    ],
)
def test_budget(
    now: MemoryUsage, gib: float | None, fraction: float | None, expected: int | None, words: str
) -> None:
    found = resolve_budget(now, gib=gib, fraction=fraction)
    assert found.num_bytes == expected
    assert words in found.reason


@pytest.mark.parametrize(
    "request_", [{"gib": 0.0}, {"gib": -1.0}, {"fraction": 0.0}, {"fraction": 2.0}]
)
def test_invalid_budget(request_: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        resolve_budget(NOW, **request_)
