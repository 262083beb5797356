"""Curves of a training run as options of ECharts, in the colours of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anyrig.server.page.theme import LIGHT
from anyrig.units import MIB

Row = Mapping[str, Any]
_MOST = 2000  # points that a screen can tell apart


def points(rows: Sequence[Row], name: str, scale: float = 1.0) -> list[list[float]]:
    """Steps and one of their figures, thinned out evenly."""
    found = [[row["step"], row[name] * scale] for row in rows if row.get(name) is not None]
    if len(found) <= _MOST:
        return found
    every = len(found) / _MOST
    return [*(found[int(n * every)] for n in range(_MOST - 1)), found[-1]]


def memory(rows: Sequence[Row]) -> list[list[float]]:
    """The most memory that steps took, in MiB."""
    return points(rows, "memory_bytes", 1 / MIB)


def validation(rows: Sequence[Row]) -> list[list[float]]:
    """Losses on data that was held out."""
    told = [(row["step"], (row.get("figures") or {}).get("loss")) for row in rows]
    return [[step, loss] for step, loss in told if loss is not None]


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
