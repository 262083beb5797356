"""What counts as a bar that was met: a figure that is missing or makes no sense never does."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.harness import Row


def test_a_ratio_to_a_peer_without_a_figure_is_not_met(subtests: pytest.Subtests) -> None:
    end: Any
    for peer in [math.inf, -math.inf, math.nan, 0.0, None, -2.0]:
        for end in [{"low": 0.5}, {"high": 1.5}, {"low": -9.0, "high": 9.0}, {}]:
            with subtests.test(peer=peer, end=end):
                assert not Row("step", 1.0, "ms", peer, "plain torch", judge="ratio", **end).met


def test_a_ratio_of_nothing_measured_is_not_met(subtests: pytest.Subtests) -> None:
    """A run that failed took no memory and no time: that is no success."""
    end: Any
    for ours in [math.inf, -math.inf, math.nan, 0.0, -1.0]:
        for end in [{"low": -9.0}, {"high": 1.5}, {}]:
            with subtests.test(ours=ours, end=end):
                assert not Row("memory", ours, "GiB", 2.0, "plain torch", judge="ratio", **end).met


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_a_figure_that_is_not_finite_is_not_met(wrong: float) -> None:
    assert not Row("time", wrong, "s", high=math.inf).met
    assert not Row("time", wrong, "s").met
    assert not Row("time", 1.0, "s", wrong, "plain torch", high=2.0).met
    assert not Row("time", 1.0, "s", high=wrong).met
    assert not Row("time", 1.0, "s", low=wrong).met


def test_a_good_figure_is_met_and_a_bad_one_is_not() -> None:
    assert Row("time", 1.0, "s", 2.0, "plain torch", high=0.5, judge="ratio").met
    assert not Row("time", 1.1, "s", 2.0, "plain torch", high=0.5, judge="ratio").met
    assert Row("errors", 0.0, "", 0.0, "plain torch", high=0).met
    assert Row("errors", 0.0, "", high=0).met
    with pytest.raises(ValueError, match="ratios"):
        Row("time", 1.0, "s", 2.0, high=0.5, judge="ratios")


def _main(monkeypatch: pytest.MonkeyPatch, **themes: Any) -> int:
    monkeypatch.setattr(harness, "THEMES", dict.fromkeys(themes, ("cpu",)))
    monkeypatch.setattr(sys, "argv", ["run", "cpu", "--no-write"])
    for name, run in themes.items():
        module = types.ModuleType(f"benchmarks.{name}")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"benchmarks.{name}", module)
    return harness.main()


def test_a_theme_that_fails_or_measures_nothing_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_hardware: str) -> list[Row]:
        raise RuntimeError("no peer is installed")

    good = Row("time", 1.0, "s", high=2.0)
    found = _main(
        monkeypatch, broken=fails, empty=lambda _hardware: [], fine=lambda _hardware: [good]
    )
    said = capsys.readouterr().out
    assert found == 1
    assert "BELOW ITS BAR: broken" in said
    assert "no peer is installed" in said
    assert "BELOW ITS BAR: empty" in said
    assert "fine on cpu" in said
    assert _main(monkeypatch, fine=lambda _hardware: [good]) == 0


def test_the_table_says_why_a_row_is_not_met(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = Row("step", 1.0, "ms", math.inf, "plain torch", high=1.0, judge="ratio")
    assert _main(monkeypatch, theme=lambda _hardware: [row]) == 1
    said = capsys.readouterr().out
    assert "NO (no figure of plain torch)" in said
