"""The forecast from a few measurements, and memory budgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrig.backends.memory import MemoryUsage
from anyrig.errors import InvalidInputError
from anyrig.memory.estimate import (
    PeakMemory,
    forecast_memory,
    resolve_budget,
)
from anyrig.units import GIB, MIB


@given(st.integers(0, 8 * GIB), st.integers(MIB, GIB), st.integers(2, 40), st.integers(9, 80))
def test_exact_line(fixed: int, slope: int, size: int, gib: int) -> None:
    points = [PeakMemory(n, fixed + slope * n, fixed + slope * n) for n in (1, size)]
    capacity = max(gib * GIB, points[-1].reserved_bytes)
    true = (capacity - fixed) // slope
    view = forecast_memory(points, capacity, idle_bytes=fixed)
    assert view.max_size is not None
    assert view.safe_size <= true <= view.max_size
    assert view.safe_size >= size


def test_cached_memory_counts_against_the_safe_size_only() -> None:
    points = [PeakMemory(1, 3 * GIB, 3 * GIB), PeakMemory(10, 12 * GIB, 13 * GIB)]
    capped = forecast_memory(points, 24 * GIB, idle_bytes=2 * GIB)
    loose = forecast_memory(points, 24 * GIB, idle_bytes=2 * GIB, capped=False)
    assert capped.safe_size == loose.safe_size == 19
    assert capped.max_size is not None
    assert loose.max_size is not None
    assert capped.max_size > loose.max_size


def test_flat_start_gives_no_upper_bound() -> None:
    """The optimizer's peak hides the slope: the safe size follows from idle memory alone."""
    points = [PeakMemory(size, 4 * GIB, 4 * GIB) for size in (1, 2)]
    view = forecast_memory(points, 24 * GIB, idle_bytes=2 * GIB)
    assert view.max_size is None
    assert view.safe_size == 22


def test_a_size_over_the_budget_is_used() -> None:
    points = [PeakMemory(10, 10 * GIB, 10 * GIB), PeakMemory(40, 40 * GIB, 40 * GIB)]
    view = forecast_memory(points, 24 * GIB, capped=False)
    assert view.safe_size == 24
    assert view.max_size == 24


def test_a_peak_at_the_budget_predicts_nothing() -> None:
    points = [PeakMemory(10, 10 * GIB, 11 * GIB), PeakMemory(22, 22 * GIB, 24 * GIB)]
    assert forecast_memory(points, 24 * GIB).safe_size == 22


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
    "asked", [{"gib": 0.0}, {"gib": -1.0}, {"fraction": 0.0}, {"fraction": 2.0}]
)
def test_invalid_budget(asked: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        resolve_budget(NOW, **asked)
