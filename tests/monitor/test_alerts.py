"""Warnings: said once, and again only after it had passed."""

from __future__ import annotations

from typing import Any

from anyrig.monitor.alerts import Alert, Watchdog
from anyrig.monitor.sample import HOT, Sample

GIB = 1024**3
TOTAL = 100 * GIB


def samples(*used: float | None, **fields: Any) -> list[Sample]:
    return [
        Sample("GPU-1", "H200", float(t), 1000.0 + t, memory_total_bytes=TOTAL,
               memory_used_bytes=None if gib is None else int(gib * GIB), **fields)
        for t, gib in enumerate(used)
    ]  # fmt: skip


def watched(history: list[Sample]) -> list[Alert]:
    """What a watchdog says while the samples come in one by one."""
    dog = Watchdog()
    return [alert for end in range(1, len(history) + 1) for alert in dog.check(history[:end])]


def test_a_leak_warns_once_and_the_end_of_it_once() -> None:
    said = watched(samples(*(35 + 0.6 * t for t in range(108))))
    assert [alert.kind for alert in said] == ["memory-trend", "memory-full"]
    assert "until memory runs out at this rate" in said[0].text
    assert said[1].text.startswith("memory is 95% full, ")
    assert said[0].device == "GPU-1"


def test_nearly_full_warns_again_only_after_recovering() -> None:
    full, dip, low = [96.0] * 5, [93.0] * 5, [50.0] * 5
    assert [a.kind for a in watched(samples(*full, *dip, *full))] == ["memory-full"]
    assert [a.kind for a in watched(samples(*full, *low, *full))] == ["memory-full"] * 2


def test_a_plateau_near_full_is_said_and_is_no_trend() -> None:
    assert [a.kind for a in watched(samples(*[97.0] * 100))] == ["memory-full"]


def test_batches_that_come_and_go_say_nothing() -> None:
    assert watched(samples(*(40 + 45 * (t % 4) / 3 for t in range(200)))) == []


def test_heat_counts_when_it_stays() -> None:
    cool, hot = samples(10.0), samples(10.0, throttling=(HOT,), temperature_c=91.0)
    assert watched([*cool, *hot * 2, *cool]) == []
    said = watched([*hot * 5, *cool * 2, *hot * 5])
    assert [alert.kind for alert in said] == ["hot"]
    assert said[0].text == "too hot at 91 C: clocks are held down"
    again = watched([*hot * 5, *cool * 12, *hot * 5])
    assert [alert.kind for alert in again] == ["hot", "hot"]


def test_a_power_limit_is_no_warning() -> None:
    assert watched(samples(*[10.0] * 20, throttling=("power limit",))) == []


def test_memory_errors_are_said_whenever_there_are_more() -> None:
    counts = [0, 0, 1, 1, 3, 3]
    history = [samples(10.0, ecc_errors=count)[0] for count in counts]
    said = watched(history)
    assert [alert.text.split()[0] for alert in said] == ["1", "3"]
    assert all(alert.kind == "memory-errors" for alert in said)


def test_a_lost_device_is_said_once_until_it_answers_again() -> None:
    gone = samples(None, lost="NVML: GPU is lost")
    said = watched([*samples(10.0), *gone * 5, *samples(10.0), *gone * 2])
    assert [alert.kind for alert in said] == ["lost", "lost"]
    assert said[0].text == "lost: NVML: GPU is lost"


def test_nothing_known_says_nothing() -> None:
    assert watched([Sample("x", "X", float(t), 0.0) for t in range(50)]) == []
    assert Watchdog().check([]) == []
