"""Charts: where points are drawn, ticks, units, fewer and smoother points."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from anyrig.plots import (
    NARROW,
    WIDE,
    Axis,
    AxisUnit,
    ChartBar,
    ChartSeries,
    LineChart,
    average_blocks,
    choose_byte_unit,
    choose_power_of_ten,
    choose_time_unit,
    downsample,
    draw_bars,
    draw_chart,
    draw_document,
    format_count,
    format_ticks,
    log_ticks,
    smooth,
    ticks,
)


def test_a_line_is_drawn_where_its_values_are() -> None:
    chart = LineChart(
        "t", AxisUnit(1.0, ""), (ChartSeries("a", "c0", [(0, 0.0), (10, 5.0), (20, 10.0)]),)
    )
    for size in (WIDE, NARROW):
        found = re.search(r'polyline class="line c0" points="([^"]+)"', draw_chart(chart, size))
        assert found
        places = [tuple(map(float, pair.split(","))) for pair in found[1].split()]
        bottom, right = size.height - size.bottom, size.width - 10
        assert places == [
            (size.left, bottom),
            ((size.left + right) / 2, (bottom + 10) / 2),
            (right, 10),
        ]


def test_gaps_break_a_line_and_are_crossed() -> None:
    points = [(1, 1.0), (2, 2.0), (3, math.nan), (4, 1.0), (5, 2.0)]
    drawing = draw_chart(LineChart("t", AxisUnit(1.0, ""), (ChartSeries("a", "c0", points),)), WIDE)
    assert drawing.count("<polyline") == 2
    assert drawing.count("✕") == 1


def test_ticks_are_round_and_within() -> None:
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(0.13, 0.47) == [pytest.approx(0.2), pytest.approx(0.3), pytest.approx(0.4)]
    assert ticks(1, 4, 7, whole=True) == [1, 2, 3, 4]
    assert log_ticks(0.9, 1100) == [1, 10, 100, 1000]
    assert format_ticks([0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert format_ticks([-20.0, 0.0, 20.0]) == ["−20", "0", "20"]
    assert [format_count(n) for n in (0, 800, 1500, 20_000, 1.2e6)] == [
        "0", "800", "1.5k", "20k", "1.2M",
    ]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), [(0.5, 30), (1e-6, 1e6), (3, 70), (1, 21), (0.011, 0.3)])
def test_a_logarithmic_axis_has_a_few_ticks(low: float, high: float) -> None:
    found = log_ticks(low, high)
    assert 2 <= len(found) <= 7
    assert all(low <= one <= high for one in found)
    assert len(set(format_ticks(found))) == len(found)


def test_units_fit_the_values() -> None:
    assert choose_power_of_ten(3e-4).name == "×10⁻⁴"
    assert choose_power_of_ten(3e-4).size == pytest.approx(1e-4)
    assert choose_power_of_ten(0.1) == AxisUnit(1.0, "")
    assert [choose_time_unit(value).name for value in (1e-5, 0.06, 5.0, 900)] == [
        "µs",
        "ms",
        "s",
        "min",
    ]
    assert [choose_byte_unit(value).name for value in (2**20, 2**33)] == ["MiB", "GiB"]
    assert Axis(1, 100, 0, 10, log=True).place(10) == pytest.approx(5)
    assert Axis(0, 1, 0, 10).place(7) == 10


def test_thinning_keeps_the_extremes() -> None:
    points = [(float(n), 1.0) for n in range(100_000)]
    points[31_337] = (31_337.0, 9.0)
    kept = downsample(points)
    assert len(kept) <= 402
    assert (31_337.0, 9.0) in kept
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]


def test_smoothing_and_averaging_keep_the_mean() -> None:
    flat = [(float(n), 3.0) for n in range(500)]
    assert all(value == pytest.approx(3.0) for _, value in [*smooth(flat), *average_blocks(flat)])
    rising = [(float(n), float(n)) for n in range(500)]
    assert smooth(rising)[250][1] == pytest.approx(250.0)  # nothing lags
    gaps = [(float(n), math.nan if n % 2 else 3.0) for n in range(100)]
    assert all(value == pytest.approx(3.0) for _, value in smooth(gaps))
    means = average_blocks(rising, 10)
    assert len(means) == 10
    assert means[4][1] == pytest.approx(224.5)


def test_a_document_has_literal_colours_for_both_themes() -> None:
    chart = LineChart("a & b", AxisUnit(1.0, ""), (ChartSeries("a", "c0", [(1, 1.0), (8, 2.0)]),))
    for text in (
        draw_document("<title>", "s" * 200, [chart, chart]),
        draw_bars("<title>", "", [ChartBar("x & y", 3.0, "c1")], str),
        draw_bars("<title>", "", [], str),
    ):
        ElementTree.fromstring(text)
        assert "var(" not in text
        assert "prefers-color-scheme: dark" in text
        assert "&lt;title&gt;" in text


def test_bars_are_logarithmic() -> None:
    bars = [ChartBar("slow", 10.0, "c0"), ChartBar("fast", 1000.0, "c1")]
    text = draw_bars("speed", "", bars, lambda value: f"{value:g} FLOP/s")
    widths = [float(width) for width in re.findall(r'class="area c\d".*? width="([\d.]+)"', text)]
    assert widths[0] == 1.0  # the left end is the power of ten below the lowest
    assert widths[1] > 100
    assert "1000 FLOP/s" in text
