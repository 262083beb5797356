"""Memory and speed against batch size as SVG, by hand: two lines need no plotting library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from anyrig.memory.batch_size import BatchSizeResult, BatchTrial
from anyrig.units import GIB, MIB

_WIDTH, _HEIGHT = 960, 420
_TOP, _BOTTOM, _PANEL = 96, 348, 360
_LEFTS = (76, 560)
_BLUE, _ORANGE, _RED, _GREY = "#4c78a8", "#f58518", "#e45756", "#555"


class _Panel(NamedTuple):
    """Where numbers lie on the page."""

    left: int
    sizes: tuple[int, int]
    top: float

    def x(self, size: float) -> float:
        low, high = (math.log2(one) for one in self.sizes)
        share = (math.log2(size) - low) / (high - low) if high > low else 0.5
        return self.left + share * _PANEL

    def y(self, value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * min(1.0, value / self.top)


def plot_profile(found: BatchSizeResult, subtitle: str) -> str:
    """Two panels: peak memory beside the budget, and items a second; failures are crosses."""
    tries = sorted(found.trials, key=lambda one: one.size)
    sizes = (tries[0].size, tries[-1].size)
    short = subtitle if len(subtitle) <= 130 else subtitle[:128] + "…"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        '<text x="16" y="28" font-size="17" font-weight="bold">Memory and speed by batch size'
        f" (largest: {found.batch_size})</text>",
        f'<text x="16" y="48" fill="{_GREY}">{escape(short)}</text>',
        *_memory(found, tries, sizes),
        *_speed(found, tries, sizes),
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _memory(
    found: BatchSizeResult, tries: Sequence[BatchTrial], sizes: tuple[int, int]
) -> list[str]:
    peaks = [(one.size, one.peak_bytes) for one in tries if one.peak_bytes is not None]
    highest = max([n for _, n in peaks] + [found.budget_bytes or 0]) or GIB
    unit, name = (GIB, "GiB") if highest >= 2 * GIB else (MIB, "MiB")
    top, step = _scale(highest / unit)
    panel = _Panel(_LEFTS[0], sizes, top)
    parts = _frame(panel, tries, step, f"peak memory, {name}")
    if not peaks:
        return [*parts, _note(panel, "nobody tells this device's memory")]
    if found.budget_bytes is not None:
        y = panel.y(found.budget_bytes / unit)
        parts += [
            f'<line x1="{panel.left}" y1="{y:.1f}" x2="{panel.left + _PANEL}" y2="{y:.1f}" '
            f'stroke="{_RED}" stroke-dasharray="5 4"/>',
            f'<text x="{panel.left + 4}" y="{y - 5:.1f}" fill="{_RED}">'
            f"budget {found.budget_bytes / unit:.4g} {name}</text>",
        ]
    parts += _line(panel, [(size, n / unit) for size, n in peaks], _BLUE)
    return parts + _crosses(panel, tries, lambda one: one.peak_bytes is None)


def _speed(
    found: BatchSizeResult, tries: Sequence[BatchTrial], sizes: tuple[int, int]
) -> list[str]:
    rates = [(one.size, one.rate) for one in tries if one.rate]
    top, step = _scale(max((rate for _, rate in rates), default=1.0))
    panel = _Panel(_LEFTS[1], sizes, top)
    parts = _frame(panel, tries, step, "items a second")
    parts += _line(panel, rates, _ORANGE)
    x = panel.x(found.batch_size)
    parts.append(
        f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{_BOTTOM}" stroke="{_GREY}" '
        'stroke-dasharray="2 3"/>'
    )
    return parts + _crosses(panel, tries, lambda one: not one.rate)


def _frame(panel: _Panel, tries: Sequence[BatchTrial], step: float, title: str) -> list[str]:
    """Grid, axes and their numbers."""
    right = panel.left + _PANEL
    parts = [f'<text x="{panel.left}" y="{_TOP - 14}" font-weight="bold">{title}</text>']
    for number in range(round(panel.top / step) + 1):
        y = panel.y(number * step)
        parts.append(
            f'<line x1="{panel.left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#e2e2e2"/>'
        )
        parts.append(
            f'<text x="{panel.left - 8}" y="{y + 4:.1f}" fill="{_GREY}" text-anchor="end">'
            f"{number * step:g}</text>"
        )
    for size in _ticks(panel, [one.size for one in tries]):
        parts.append(
            f'<text x="{panel.x(size):.1f}" y="{_BOTTOM + 18}" fill="{_GREY}" '
            f'text-anchor="middle">{size}</text>'
        )
    parts.append(
        f'<text x="{panel.left + _PANEL / 2}" y="{_BOTTOM + 42}" fill="{_GREY}" '
        'text-anchor="middle">batch size, logarithmic</text>'
    )
    return parts


def _ticks(panel: _Panel, sizes: Sequence[int]) -> list[int]:
    """Sizes with room for their number; the last one always."""
    kept: list[int] = []
    for size in reversed(sizes):
        if not kept or panel.x(kept[-1]) - panel.x(size) >= 30:
            kept.append(size)
    return kept


def _scale(highest: float) -> tuple[float, float]:
    """The top of an axis and the step of its grid: four to eight round steps."""
    rough = max(highest, 1e-9) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough)
    return math.ceil(highest * 1.02 / step) * step, step


def _line(panel: _Panel, points: Sequence[tuple[int, float]], colour: str) -> list[str]:
    places = [(panel.x(size), panel.y(value)) for size, value in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _crosses(
    panel: _Panel, tries: Sequence[BatchTrial], missing: Callable[[BatchTrial], bool]
) -> list[str]:
    """A cross at the top for each size that failed."""
    return [
        f'<text x="{panel.x(one.size):.1f}" y="{_TOP + 5}" fill="{_RED}" font-size="15" '
        f'text-anchor="middle"><title>{one.size}: {one.outcome}</title>✕</text>'
        for one in tries
        if not one.ran and missing(one)
    ]


def _note(panel: _Panel, text: str) -> str:
    return (
        f'<text x="{panel.left + _PANEL / 2}" y="{(_TOP + _BOTTOM) / 2}" fill="{_GREY}" '
        f'text-anchor="middle">{escape(text)}</text>'
    )
