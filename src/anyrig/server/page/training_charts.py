"""Curves of a training run as options of ECharts, in the colours of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.server.page.theme import LIGHT
from anyrig.units import MIB

Row = Mapping[str, Any]
_MOST = 2000  # points that a screen can tell apart


def points(rows: Sequence[Row], *names: str, scale: float = 1.0) -> list[list[float]]:
    """Steps and the first of some figures that a row has, thinned out evenly."""
    found = [
        [row["step"], value * scale]
        for row in rows
        if isinstance(value := _first(row, names), int | float) and not isinstance(value, bool)
    ]
    if len(found) <= _MOST:
        return found
    every = len(found) / _MOST
    return [*(found[int(n * every)] for n in range(_MOST - 1)), found[-1]]


def memory(rows: Sequence[Row]) -> list[list[float]]:
    """The most memory that steps took, in MiB."""
    names = ("memory_bytes", "memory_peak_bytes", "memory_reserved_bytes", "memory_allocated_bytes")
    return points(rows, *names, scale=1 / MIB)


def validation(rows: Sequence[Row]) -> list[list[float]]:
    """Losses on data that was held out."""
    found = []
    for row in rows:
        figures = row.get("figures")
        told = figures if isinstance(figures, Mapping) else row
        loss = told.get("loss", told.get("validation_loss"))
        if isinstance(loss, int | float):
            found.append([row["step"], loss])
    return found


def _first(row: Row, names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def lines(series: Mapping[str, Sequence[Sequence[float]]], *, none: str = "") -> dict[str, Any]:
    """A small chart of one or two curves by step; `none` is said where there are none.

    Colours are the light theme's: drawn as SVG, the style sheet gives each its token, so that a
    chart follows the theme.
    """
    shown = {name: told for name, told in series.items() if told}
    return {
        "animation": False,
        "color": [LIGHT["accent"], LIGHT["warn"]],
        "textStyle": {"fontFamily": "inherit"},
        "title": {"show": bool(none), "text": none, "left": "center", "top": "middle",
                  "textStyle": {"fontSize": 13, "fontWeight": "normal", "color": LIGHT["soft"]}},
        "grid": {"left": 4, "right": 18, "top": 32 if len(shown) > 1 else 12, "bottom": 4,
                 "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True},
        "legend": {"show": len(shown) > 1, "top": 0, "left": 0, "icon": "roundRect",
                   "itemHeight": 3, "itemWidth": 14, "textStyle": {"color": LIGHT["soft"]}},
        "xAxis": {"type": "value", "min": "dataMin", "max": "dataMax", "show": bool(shown),
                  "axisLine": {"lineStyle": {"color": LIGHT["line"]}}, "axisTick": {"show": False},
                  "axisLabel": {"color": LIGHT["soft"], "hideOverlap": True},
                  "splitLine": {"show": False}},
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3, "show": bool(shown),
                  "axisLabel": {"color": LIGHT["soft"]},
                  "splitLine": {"lineStyle": {"color": LIGHT["line"]}}},
        "series": [
            {"name": name, "type": "line", "data": list(told), "showSymbol": len(told) < 3,
             "symbolSize": 6, "lineStyle": {"width": 2},
             **({"areaStyle": {"opacity": 0.1}} if len(shown) == 1 else {})}
            for name, told in shown.items()
        ],
    }  # fmt: skip
