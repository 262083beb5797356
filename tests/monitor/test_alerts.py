"""Alerts are raised once until their cause is gone, and running out of memory is predicted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.monitor.alerts import (
    AlertDetector,
    DeviceAlert,
    MemoryPoint,
    OutOfMemoryForecast,
    predict_out_of_memory,
)
from anyrig.monitor.sample import DeviceSample, ThrottleReason

GIB = 1024**3
TOTAL = 100 * GIB
HORIZON_S = 180.0


def samples(*used: float | None, **fields: Any) -> list[DeviceSample]:
    return [
        DeviceSample("GPU-1", "H200", float(t), 1000.0 + t, memory_total_bytes=TOTAL,
                     memory_used_bytes=None if gib is None else int(gib * GIB), **fields)
        for t, gib in enumerate(used)
    ]  # fmt: skip


def detect(history: list[DeviceSample]) -> list[DeviceAlert]:
    """The alerts while the samples arrive one by one."""
    detector = AlertDetector()
    return [a for end in range(1, len(history) + 1) for a in detector.check(history[:end])]


def kinds(history: list[DeviceSample]) -> list[str]:
    return [alert.kind for alert in detect(history)]


def test_a_leak_raises_a_trend_once_then_full_memory_once() -> None:
    alerts = detect(samples(*(35 + 0.6 * t for t in range(108))))
    assert [alert.kind for alert in alerts] == ["memory-trend", "memory-full"]
    assert alerts[0].text.startswith("out of memory in about ")
    assert alerts[1].text.startswith("memory is 95% full, ")
    assert alerts[0].device == "GPU-1"


def test_full_memory_is_raised_again_only_after_recovery() -> None:
    full, dip, low = [96.0] * 5, [93.0] * 5, [50.0] * 5
    assert kinds(samples(*full, *dip, *full)) == ["memory-full"]
    assert kinds(samples(*full, *low, *full)) == ["memory-full"] * 2


def test_thermal_throttling_must_last() -> None:
    cool = samples(10.0)
    hot = samples(10.0, throttling=(ThrottleReason.THERMAL,), temperature_c=91.0)
    assert detect([*cool, *hot * 2, *cool]) == []
    alerts = detect([*hot * 5, *cool * 2, *hot * 5])
    assert [alert.text for alert in alerts] == ["thermal throttling at 91 C"]
    assert kinds([*hot * 5, *cool * 12, *hot * 5]) == ["hot", "hot"]
    lost = samples(None, lost="NVML: GPU is lost")
    assert kinds([*hot * 2, *lost, *hot * 2]) == ["lost"]
    assert kinds([*hot * 2, *cool, *hot * 2]) == []
    assert kinds([*hot * 3, *lost, *cool * 12, *hot * 3]) == ["hot", "lost", "hot"]


def test_a_power_limit_raises_nothing() -> None:
    assert detect(samples(*[10.0] * 20, throttling=(ThrottleReason.POWER,))) == []


def test_memory_errors_are_raised_whenever_the_count_grows() -> None:
    counts = [0, 0, 1, 1, 3, 3]
    alerts = detect([samples(10.0, ecc_errors=count)[0] for count in counts])
    assert [alert.text for alert in alerts] == [
        "1 uncorrectable memory error: results may be wrong",
        "3 uncorrectable memory errors: results may be wrong",
    ]
    assert all(alert.kind == "memory-errors" for alert in alerts)


def test_a_lost_device_is_raised_once_until_it_responds_again() -> None:
    lost = samples(None, lost="NVML: GPU is lost")
    alerts = detect([*samples(10.0), *lost * 5, *samples(10.0), *lost * 2])
    assert [alert.kind for alert in alerts] == ["lost", "lost"]
    assert alerts[0].text == "device lost: NVML: GPU is lost"


# -- the forecast ----------------------------------------------------------------------------------


def leak(start: float, per_s: float, seconds: int) -> list[MemoryPoint]:
    return [(float(t), (start + per_s * t) * GIB) for t in range(seconds)]


def predict(points: list[MemoryPoint]) -> list[tuple[float, OutOfMemoryForecast]]:
    """Each forecast of an end within the horizon while the points arrive, with its time."""
    found = []
    for end in range(1, len(points) + 1):
        forecast = predict_out_of_memory(points[:end], TOTAL)
        if forecast is not None and forecast.seconds_left <= HORIZON_S:
            found.append((points[end - 1][0], forecast))
    return found


@pytest.mark.parametrize("per_s", [0.3, 1.0])
def test_a_leak_is_predicted_well_before_the_end(per_s: float) -> None:
    points = leak(30, per_s, int(70 / per_s))
    at_s, forecast = predict(points)[0]
    seconds_left = points[-1][0] - at_s
    assert seconds_left > 40
    assert forecast.seconds_left == pytest.approx(seconds_left, rel=0.2)
    assert forecast.bytes_per_s == pytest.approx(per_s * GIB, rel=0.1)


def test_a_leak_below_a_saw_tooth_is_predicted_by_its_peaks() -> None:
    """Each batch allocates and frees 20 GiB; what stays grows by half a GiB a second."""
    points = [(float(t), (20 + 0.5 * t + 20 * (t % 3 == 2)) * GIB) for t in range(110)]
    at_s, forecast = predict(points)[0]
    assert 20 < forecast.seconds_left < 180
    assert at_s < 100


@pytest.mark.parametrize(
    "level",
    [
        *(
            pytest.param(
                lambda t, p=period: 30 + 60 * (t % p) / (p - 1), id=f"batches of {period} s"
            )
            for period in (2, 7, 20)
        ),
        *(
            pytest.param(lambda t, s=step: 45 if t < s else 80, id=f"a step at {step} s")
            for step in (5, 40)
        ),
        pytest.param(lambda t: 45 + 15 * (t > 20) + 15 * (t > 60), id="two steps"),
        pytest.param(lambda t: 97, id="constant"),
        pytest.param(lambda t: min(38, 2 * t), id="loading a model"),
        pytest.param(lambda t: 45 + 15 * (1 - math.exp(-t / 10)), id="an allocator warming up"),
        pytest.param(lambda t: 50 + 0.01 * t, id="growth beyond the horizon"),
    ],
)
def test_what_is_not_a_trend(level: Callable[[int], float]) -> None:
    assert predict([(float(t), level(t) * GIB) for t in range(300)]) == []


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), level=st.floats(45, 85), noise=st.floats(0, 5))
def test_noise_around_a_level_is_not_a_trend(seed: int, level: float, noise: float) -> None:
    rng = random.Random(seed)
    points = [(float(t), (level + rng.uniform(-noise, noise)) * GIB) for t in range(150)]
    assert predict(points) == []


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), per_s=st.floats(0.35, 1.0))
def test_a_noisy_leak_is_predicted_before_the_end(seed: int, per_s: float) -> None:
    rng = random.Random(seed)
    points = [
        (float(t), (35 + per_s * t + rng.uniform(-1, 1)) * GIB) for t in range(int(64 / per_s))
    ]
    assert points[-1][0] - predict(points)[0][0] > 15
