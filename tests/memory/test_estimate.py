"""The line through the probes, budgets, and the arithmetic for placement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyrig.backends.memory import MemoryUsage
from anyrig.errors import InvalidInputError
from anyrig.memory.estimate import Point, budget, outlook, training_bytes, weight_bytes
from anyrig.units import GIB, MIB


@given(st.integers(0, 8 * GIB), st.integers(MIB, GIB), st.integers(2, 40), st.integers(9, 80))
def test_a_true_line_is_found(fixed: int, slope: int, size: int, gib: int) -> None:
    points = [Point(n, fixed + slope * n, fixed + slope * n) for n in (1, size)]
    capacity = max(gib * GIB, points[-1].taken_bytes)
    true = (capacity - fixed) // slope
    view = outlook(points, capacity, rest_bytes=fixed)
    assert view.bound is not None
    assert view.sure <= true <= view.bound
    assert view.sure >= size


def test_what_the_allocator_keeps_counts_against_the_sure_size_only() -> None:
    points = [Point(1, 3 * GIB, 3 * GIB), Point(10, 12 * GIB, 13 * GIB)]
    held = outlook(points, 24 * GIB, rest_bytes=2 * GIB)
    loose = outlook(points, 24 * GIB, rest_bytes=2 * GIB, held=False)
    assert held.sure == loose.sure == 19
    assert held.bound is not None
    assert loose.bound is not None
    assert held.bound > loose.bound


def test_a_flat_start_bounds_nothing() -> None:
    """The optimiser's peak hides the slope: the sure size is by what rests, and nothing is ruled
    out.
    """
    view = outlook([Point(1, 4 * GIB, 4 * GIB), Point(2, 4 * GIB, 4 * GIB)], 24 * GIB,
                   rest_bytes=2 * GIB)  # fmt: skip
    assert view.bound is None
    assert view.sure == 22


def test_a_size_over_the_budget_still_informs() -> None:
    points = [Point(10, 10 * GIB, 10 * GIB), Point(40, 40 * GIB, 40 * GIB)]
    view = outlook(points, 24 * GIB, held=False)
    assert view.sure == 24
    assert view.bound == 24


def test_a_pressed_peak_promises_no_more() -> None:
    points = [Point(10, 10 * GIB, 11 * GIB), Point(22, 22 * GIB, 24 * GIB)]
    assert outlook(points, 24 * GIB).sure == 22


NOW = MemoryUsage(GIB, 2 * GIB, None, None, 20 * GIB, 24 * GIB)


@pytest.mark.parametrize(
    ("now", "gib", "fraction", "expected", "words"),
    [
        (NOW, None, None, int(22 * GIB * 0.9), "90% of the 22 GiB"),
        (NOW, 10.0, None, 10 * GIB, "10 GiB requested"),
        (NOW, None, 0.5, 12 * GIB, "0.5 of the device"),
        (NOW, 40.0, None, int(22 * GIB * 0.9), "only 22 GiB free; 90% of that is used"),
        (MemoryUsage(), None, None, None, "only speed"),
        (MemoryUsage(), 4.0, None, 4 * GIB, "4 GiB requested"),
        (MemoryUsage(), None, 0.5, None, "only speed"),
    ],
)
def test_budget(
    now: MemoryUsage, gib: float | None, fraction: float | None, expected: int | None, words: str
) -> None:
    found = budget(now, gib=gib, fraction=fraction)
    assert found.num_bytes == expected
    assert words in found.reason


@pytest.mark.parametrize(
    "asked", [{"gib": 0.0}, {"gib": -1.0}, {"fraction": 0.0}, {"fraction": 2.0}]
)
def test_a_budget_that_is_none(asked: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        budget(NOW, **asked)


def test_training_bytes() -> None:
    plain = training_bytes(1_000_000, "fp32")
    assert plain.total == 16_000_000
    assert training_bytes(1_000_000, "bf16").casts == 2_000_000
    assert training_bytes(1_000_000, "fp32", "sgd").total == 8_000_000
    assert weight_bytes(7_000_000_000, "bf16") == 14_000_000_000
