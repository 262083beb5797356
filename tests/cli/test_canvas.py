"""Widths, bars and graphs of text."""

from __future__ import annotations

from anyrig.cli.canvas import bar, clean, clipped, cut, graph, line, padded, rendered, wide


def test_widths() -> None:
    assert wide("日本") == 4
    assert cut("日本", 3) == "日"
    assert padded("日本", 6) == "日本  "
    assert padded("ab", 4, right=True) == "  ab"
    assert clean("a\x1b[31mb\x7f") == "a?[31mb?"
    assert rendered(clipped(line("abc", "def"), 4), colours=False) == "abcd"


def test_bars() -> None:
    def drawn(percent: float | None, unicode: bool = True) -> str:
        return rendered(bar(percent, 10, "good", unicode=unicode), colours=False)

    assert drawn(50) == "█████░░░░░"
    assert drawn(55) == "█████▌░░░░"
    assert drawn(0) == "░░░░░░░░░░"
    assert drawn(1) == "▌░░░░░░░░░"  # a little is not nothing
    assert drawn(None) == drawn(0)
    assert drawn(250) == "██████████"
    assert drawn(50, unicode=False) == "#####....."


def test_graphs() -> None:
    assert graph([0, 100], 1, 1, unicode=True) == ["⣸"]
    assert graph([100, 100, 0, 0], 2, 2, unicode=True) == ["⣿ ", "⣿⣀"]
    assert graph([None, 100], 2, 1, unicode=True) == [" ⢸"]
    assert graph([0, 50, 100], 5, 1, unicode=False) == ["  .=#"]
    assert graph([], 3, 1, unicode=True) == ["   "]
