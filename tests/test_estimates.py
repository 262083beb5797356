"""Estimates over recorded sequences: a range at first, then one figure that does not swing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from anyrig.estimates import (
    StageEstimate,
    SteadyEstimate,
    TimeLeft,
    WorkEstimate,
    read_time_left,
)
from anyrig.events import JsonEvents, ProgressEvent
from anyrig.units import format_time_left


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


class Shown(NamedTuple):
    at_s: float
    left: TimeLeft | None


def play(sequence: Sequence[tuple[float, float]], total: float) -> Iterator[Shown]:
    """What is shown after each of (seconds, units)."""
    clock = Clock()
    estimate = WorkEstimate(total, clock)
    for seconds, units in sequence:
        clock.s += seconds
        estimate.add(units)
        yield Shown(clock.s, estimate.left)


LOADING_THEN_FAST = [(24.0, 80.0)] + [(0.25, 80.0)] * 400
STEADY = [(1.0, 50.0)] * 120
# Batches of several workers: eight come together every four seconds.
BURSTS = [(4.0 if n % 8 == 0 else 0.01, 60.0) for n in range(320)]
UNEVEN = [(0.5 * (1 + n % 5), 40.0 + 60 * (n % 3)) for n in range(200)]
SEQUENCES = {
    "loading then fast": LOADING_THEN_FAST, "steady": STEADY, "bursts": BURSTS, "uneven": UNEVEN,
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_ranges_hold_and_figures_are_steady(name: str) -> None:
    sequence = SEQUENCES[name]
    total = sum(units for _, units in sequence)
    end_s = sum(seconds for seconds, _ in sequence)
    shown = [one for one in play(sequence, total) if one.left is not None]
    known = [one for one in shown if one.left and one.left.is_known]
    for at_s, left in shown:
        assert left is not None
        true_s = end_s - at_s
        assert left.low_s <= 1.5 * true_s + 5  # a burst is 4 s
        assert left.high_s >= true_s / 1.5 - 5
    ends = [at_s + left.high_s for at_s, left in known if left]
    assert max(ends) <= 1.5 * min(ends)  # when it will be done: nothing like a factor of 6
    assert known[-1].left == TimeLeft(0.0, 0.0)
    assert len(known) > len(shown) / 2


def test_nothing_then_a_range_then_a_figure() -> None:
    kinds = [
        "none" if left is None else "figure" if left.is_known else "range"
        for _, left in play([(20.0, 1.0), *[(1.0, 1.0)] * 59], 600.0)
    ]
    assert kinds[0] == "none"
    assert kinds.index("range") < kinds.index("figure")
    assert list(dict.fromkeys(kinds)) == ["none", "range", "figure"]  # and never back


def test_loading_does_not_count() -> None:
    first, *later = play([(600.0, 10.0), *[(1.0, 10.0)] * 30], 1000.0)
    assert first.left is None
    assert later[-1].left == TimeLeft(69.0, 69.0)


def test_a_pause_moves_the_estimate_slowly() -> None:
    """One segment of 15 seconds among hundreds of one second."""
    sequence = [(1.0, 10.0)] * 100 + [(15.0, 10.0)] + [(1.0, 10.0)] * 10
    shown = list(play(sequence, 5000.0))
    before, after = shown[99].left, shown[100].left
    assert before is not None
    assert after is not None
    assert after.high_s < 1.4 * before.high_s


def test_a_change_of_speed_is_followed_within_minutes() -> None:
    sequence = [(1.0, 10.0)] * 300 + [(4.0, 10.0)] * 60
    *_, last = play(sequence, 10_000.0)
    assert last.left is not None
    assert last.left.high_s == pytest.approx((10_000 - 3600) / 2.5, rel=0.1)


def test_cached_segments_say_nothing() -> None:
    """A mix of cached and made ones: only the made ones are the work."""
    clock = Clock()
    estimate = StageEstimate(clock)
    audio_s = made = 0.0
    ends = []
    for number in range(200):
        audio_s += 5.0
        if number % 2:  # every other one was cached
            clock.s += 1.0 if number > 1 else 30.0
            made += 50
        left, speed = estimate.update("speaking", made, 5000, audio_s)
        if left is not None and left.is_known:
            ends.append(clock.s + left.high_s)
            assert speed is None or speed == pytest.approx(5.0, rel=0.2)
    assert max(ends) <= 1.1 * min(ends)
    assert ends[-1] == pytest.approx(129.0)


def test_a_stage_starts_anew() -> None:
    clock = Clock()
    estimate = StageEstimate(clock)
    for done in range(30):
        clock.s += 1.0
        left, _ = estimate.update("reading", done, 30)
    assert left is not None
    assert estimate.update("embedding", 0, 30) == (None, None)
    assert estimate.update("embedding", 1, 0) == (None, None)  # of how many is not known


def test_estimates_of_others_become_steady() -> None:
    clock = Clock()
    steady = SteadyEstimate(clock)
    assert steady.update(None) is None
    shown = []
    for number in range(120):
        clock.s += 1.0
        raw = (200 - clock.s) * (2.0 if number % 2 else 0.5)
        shown.append((clock.s, steady.update(raw)))
    assert shown[0][1] is not None
    assert not shown[0][1].is_known
    ends = [at_s + left.high_s for at_s, left in shown[40:] if left]
    assert max(ends) <= 1.5 * min(ends)  # the raw figures differ by a factor of 4
    assert steady.update(0.0) == TimeLeft(0.0, 0.0)


@pytest.mark.parametrize(
    ("low_s", "high_s", "text"),
    [
        (245.0, 245.0, "4 min 05 s left"), (130.0, 290.0, "2 to 5 min left"),
        (4.2, 20.0, "4 to 20 s left"), (40.0, 200.0, "up to 4 min left"),
        (4000.0, 9000.0, "1 to 3 h left"), (0.2, 0.9, "up to 1 s left"),
        (0.0085, 0.0085, "under 1 s left"),
    ],
)  # fmt: skip
def test_format(low_s: float, high_s: float, text: str) -> None:
    assert format_time_left(low_s, high_s) == text


@pytest.mark.parametrize("left", [TimeLeft(12.0, 12.0), TimeLeft(120.0, 300.0)])
def test_json(left: TimeLeft) -> None:
    assert read_time_left(left.to_json()) == left
    assert (left.to_json()["left_s"] is None) is not left.is_known


def test_rows_of_jobs_have_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("anyrig.events.StageEstimate", lambda: StageEstimate(clock))
    events, rows = JsonEvents(interval_s=0.0), []
    for done in range(101):
        clock.s += 20.0 if done == 1 else 1.0
        row = events.encode(ProgressEvent("speaking", done, 100, "", 7.0 * done))
        assert row is not None
        rows.append(row)
    assert rows[1]["left_s"] is None  # the voice was loading
    assert rows[1]["speed"] is None
    assert rows[4]["left_range_s"][0] < 96 < rows[4]["left_range_s"][1]
    assert rows[50]["left_s"] == pytest.approx(50.0)
    assert rows[50]["speed"] == pytest.approx(7.0)
    assert rows[100]["left_s"] == 0.0
