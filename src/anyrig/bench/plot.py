"""A bar chart of figures as SVG, by hand: a plotting library would cost 60 MB for one chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from anyrig.bench.figures import Measured
from anyrig.units import format_flops

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 900, 26, 330, 130, 70
_COLOURS = {
    "fp32": "#4c78a8",
    "tf32": "#72b7b2",
    "fp16": "#f58518",
    "bf16": "#e45756",
    "fp8": "#54a24b",
}


def svg(pages: Sequence[Measured]) -> str:
    """Products of matrices by device and number format, on a logarithmic scale."""
    bars = [
        (f"{page.name}, {figure.size}", figure.precision, figure.value)
        for page in pages
        for figure in page.figures
        if figure.kernel == "product"
    ]
    height = _TOP + _ROW * max(1, len(bars)) + 40
    low, high = _range([value for _, _, value in bars])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        '<text x="16" y="28" font-size="17" font-weight="bold">Matrix products by device</text>',
        '<text x="16" y="48" fill="#555">median of several rounds, ten products each; '
        "logarithmic scale</text>",
        *_grid(low, high, height),
        *(line for number, bar in enumerate(bars) for line in _bar(number, bar, low, high)),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _range(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 9.0, 12.0
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)


def _x(value: float, low: float, high: float) -> float:
    share = (math.log10(value) - low) / max(1.0, high - low)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _grid(low: float, high: float, height: int) -> list[str]:
    lines = []
    for power in range(int(low), int(high) + 1):
        x = _x(10.0**power, low, high)
        lines.append(f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{height - 34}" '
                     'stroke="#ddd"/>')  # fmt: skip
        lines.append(f'<text x="{x:.1f}" y="{height - 16}" fill="#555" text-anchor="middle">'
                     f"{format_flops(10.0**power)}</text>")  # fmt: skip
    return lines


def _bar(number: int, bar: tuple[str, str, float], low: float, high: float) -> list[str]:
    label, precision, value = bar
    y = _TOP + number * _ROW
    end = _x(value, low, high)
    short = label if len(label) <= 42 else label[:40] + "…"
    return [
        f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(short)} {precision}</text>',
        f'<rect x="{_LEFT}" y="{y}" width="{max(1.0, end - _LEFT):.1f}" height="{_ROW - 8}" '
        f'fill="{_COLOURS.get(precision, "#888")}"/>',
        f'<text x="{end + 6:.1f}" y="{y + 14}">{format_flops(value)}</text>',
    ]
