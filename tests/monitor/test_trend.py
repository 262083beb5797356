"""When memory runs out, on series whose end is known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.monitor.trend import USUAL, Outlook, Point, outlook, slope

GIB = 1024.0**3
TOTAL = 100 * GIB


def leak(start: float, per_s: float, seconds: int) -> list[Point]:
    return [(float(t), (start + per_s * t) * GIB) for t in range(seconds)]


def saw(low: float, high: float, period: int, seconds: int) -> list[Point]:
    return [
        (float(t), (low + (high - low) * (t % period) / (period - 1)) * GIB) for t in range(seconds)
    ]


def warned(points: list[Point]) -> list[tuple[float, Outlook]]:
    """Every moment at which a watcher would have warned, with what it would have said."""
    found = []
    for end in range(1, len(points) + 1):
        told = outlook(points[:end], TOTAL)
        if told is not None and told.seconds_left <= USUAL.horizon_s:
            found.append((points[end - 1][0], told))
    return found


@pytest.mark.parametrize("per_s", [0.3, 0.5, 1.0])
def test_a_leak_is_seen_well_before_the_end(per_s: float) -> None:
    points = leak(30, per_s, int(70 / per_s))
    first, told = warned(points)[0]
    really_left = points[-1][0] - first
    assert really_left > 40
    assert told.seconds_left == pytest.approx(really_left, rel=0.2)
    assert told.rate_bytes_s == pytest.approx(per_s * GIB, rel=0.1)


def test_the_words() -> None:
    told = Outlook(42.4, 0.5 * GIB, 79 * GIB, 100 * GIB)
    assert told.text == (
        "about 42 s until memory runs out at this rate (512 MiB a second, 21 GiB left)"
    )


def test_a_leak_under_a_saw_tooth_is_seen_by_its_peaks() -> None:
    """Each batch takes and gives back 20 GiB; what stays grows by half a GiB a second."""
    points = [(float(t), (20 + 0.5 * t + 20 * (t % 3 == 2)) * GIB) for t in range(110)]
    first, told = warned(points)[0]
    assert 20 < told.seconds_left < 180
    assert first < 100


@pytest.mark.parametrize("period", [2, 3, 5, 7, 10, 20])
def test_a_saw_tooth_never_warns(period: int) -> None:
    """Batches that come and go, up to nine tenths of the memory."""
    assert warned(saw(30, 90, period, 300)) == []


def test_a_slow_saw_tooth_warns_at_most_while_it_first_rises() -> None:
    """What has been up here before and came down is no leak."""
    times = [when for when, _ in warned(saw(30, 90, 60, 600))]
    assert all(when < 60 for when in times)


@pytest.mark.parametrize("at", range(5, 60, 5))
def test_a_step_never_warns(at: int) -> None:
    points = [(float(t), (45 if t < at else 80) * GIB) for t in range(120)]
    assert warned(points) == []


def test_two_steps_never_warn() -> None:
    points = [(float(t), (45 + 15 * (t > 20) + 15 * (t > 60)) * GIB) for t in range(150)]
    assert warned(points) == []


def test_a_plateau_never_warns_of_a_trend() -> None:
    assert warned([(float(t), 97 * GIB) for t in range(200)]) == []


def test_a_model_being_loaded_never_warns() -> None:
    points = leak(0, 2.0, 19) + [(float(t), 38 * GIB) for t in range(19, 120)]
    assert warned(points) == []


def test_growth_that_levels_off_is_not_extended() -> None:
    """An allocator that warms up: 60 GiB in the end, most of it soon."""
    points = [(float(t), (45 + 15 * (1 - math.exp(-t / 10))) * GIB) for t in range(200)]
    assert warned(points) == []


def test_slow_growth_is_nobodys_worry() -> None:
    assert warned(leak(50, 0.01, 600)) == []


def test_a_short_history_is_no_trend() -> None:
    assert outlook(leak(60, 1.0, 15), TOTAL) is None
    assert outlook([], TOTAL) is None
    assert outlook(leak(60, 1.0, 40), 0) is None


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), level=st.floats(45, 85), noise=st.floats(0, 5))
def test_noise_around_a_level_never_warns(seed: int, level: float, noise: float) -> None:
    chance = random.Random(seed)
    points = [(float(t), (level + chance.uniform(-noise, noise)) * GIB) for t in range(150)]
    assert warned(points) == []


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), per_s=st.floats(0.35, 1.0))
def test_a_noisy_leak_is_seen_before_the_end(seed: int, per_s: float) -> None:
    chance = random.Random(seed)
    points = [
        (float(t), (35 + per_s * t + chance.uniform(-1, 1)) * GIB) for t in range(int(64 / per_s))
    ]
    first, _ = warned(points)[0]
    assert points[-1][0] - first > 15


def test_the_slope_ignores_outliers() -> None:
    points = [(float(t), 3.0 * t) for t in range(20)]
    points[7] = (7.0, 900.0)
    assert slope(points) == pytest.approx(3.0)
