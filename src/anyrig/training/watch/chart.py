"""Lines and stacked areas over the steps of a run as SVG, by our own hand.

Colours are classes that the page's style gives, so that a chart fits a light and a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from anyrig.training.watch.axes import (
    Axis,
    Unit,
    labels,
    log_ticks,
    nice_step,
    step_label,
    ticks,
)

Points = Sequence[tuple[float, float]]
Style = Literal["line", "faint", "dots", "steps", "area"]
_MOST_POINTS = 400


class Series(NamedTuple):
    """Values over steps; one that is not finite is a gap."""

    name: str
    colour: str
    points: Points
    style: Style = "line"


class Mark(NamedTuple):
    """Something that happened."""

    step: int
    text: str
    grave: bool = False


@dataclass(frozen=True)
class Chart:
    """What is drawn."""

    title: str
    unit: Unit
    series: tuple[Series, ...]
    from_zero: bool = True
    may_be_log: bool = False
    marks: tuple[Mark, ...] = ()
    ticked: tuple[Mark, ...] = ()
    """Small strokes at the bottom, such as skipped steps."""
    ticked_name: str = ""


class Size(NamedTuple):
    """Of a drawing, in its own units."""

    name: str
    width: int
    height: int
    left: int = 52
    bottom: int = 30


WIDE = Size("wide", 560, 250)
NARROW = Size("narrow", 300, 210, 44)


def svg(chart: Chart, size: Size) -> str:
    """The chart in one size."""
    across, up = _axes(chart, size)
    parts = [
        f'<svg class="{size.name}" viewBox="0 0 {size.width} {size.height}" role="img" '
        f'aria-label="{escape(chart.title)}">',
        *_grid(across, up, chart.unit, size),
        *(_mark(mark, across, up) for mark in chart.marks),
        *(part for series in chart.series for part in _series(series, across, up, chart)),
        *dict.fromkeys(_ticked(mark, across, up) for mark in chart.ticked),
        "</svg>",
    ]
    return "".join(parts)


def legend(chart: Chart) -> str:
    """Names and colours, where there is more than one thing to tell apart."""
    named = [(one.name, one.colour, one.style) for one in chart.series]
    if chart.ticked:
        named.append((chart.ticked_name, "bad", "area"))
    if len(named) < 2:
        return ""
    items = "".join(
        f'<li><i class="key {colour} {style}"></i>{escape(name)}</li>'
        for name, colour, style in named
    )
    return f'<ul class="legend">{items}</ul>'


def is_log(chart: Chart) -> bool:
    """Whether its values are drawn by their logarithm."""
    return _range(chart)[2]


def _axes(chart: Chart, size: Size) -> tuple[Axis, Axis]:
    steps = [step for series in chart.series for step, _ in series.points]
    steps += [mark.step for mark in chart.ticked]
    low, high, log = _range(chart)
    first, last = min(steps, default=0), max(steps, default=1)
    if first == last:
        first, last = first - 1, last + 1
    across = Axis(first, last, size.left, size.width - 10)
    return across, Axis(low, high, size.height - size.bottom, 10, log)


def _range(chart: Chart) -> tuple[float, float, bool]:
    """The range of values, in the chart's unit: a few outliers do not flatten the rest."""
    values: list[float] = []
    for series in chart.series:
        known = [value for _, value in series.points if math.isfinite(value)]
        values += _without_outliers(known) if series.style in ("line", "faint") else known
    values = [value / chart.unit.size for value in values]
    if not values:
        return 0.0, 1.0, False
    low, high = min(values), max(values)
    if chart.may_be_log and low > 0 and high / low > 20:
        return low / 1.1, high * 1.1, True
    if chart.from_zero and low >= 0:
        step = nice_step(high or 1.0, 5)
        return 0.0, math.ceil((high or 1.0) / step - 1e-9) * step, False
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room, False


def _without_outliers(values: list[float]) -> list[float]:
    if len(values) < 50:
        return values
    ordered = sorted(values)
    # The first steps of a run are high by nature and stay in view unless they dwarf the rest.
    low, high = ordered[len(values) // 100], ordered[-1 - len(values) // 100]
    room = 4 * (high - low) + 1e-12
    return [value for value in values if low - room <= value <= high + room]


def _grid(across: Axis, up: Axis, unit: Unit, size: Size) -> Iterator[str]:
    rows = log_ticks(up.low, up.high) if up.log else ticks(up.low, up.high, 5)
    for value, text in zip(rows, labels(rows), strict=True):
        y = up.place(value)
        yield f'<path class="grid" d="M{across.begin:g} {y:.1f}H{across.end:g}"/>'
        yield f'<text class="end" x="{across.begin - 6:g}" y="{y + 4:.1f}">{text}</text>'
    most = 4 if size.width < 400 else 7
    for step in ticks(across.low, across.high, most, whole=True):
        x = across.place(step)
        yield f'<text class="middle" x="{x:.1f}" y="{up.begin + 16:g}">{step_label(step)}</text>'
    yield f'<path class="axis" d="M{across.begin:g} {up.begin:g}H{across.end:g}"/>'
    yield f'<text class="end" x="{across.end:g}" y="{up.begin + 28:g}">step</text>'


def _mark(mark: Mark, across: Axis, up: Axis) -> str:
    x = across.place(mark.step)
    kind = "grave" if mark.grave else "plain"
    return (
        f'<g class="mark {kind}"><title>step {mark.step}: {escape(mark.text)}</title>'
        f'<path d="M{x:.1f} {up.end:g}V{up.begin:g}"/>'
        f'<circle cx="{x:.1f}" cy="{up.end:g}" r="3.5"/></g>'
    )


def _ticked(mark: Mark, across: Axis, up: Axis) -> str:
    x = round(across.place(mark.step))
    return f'<path class="stroke bad" d="M{x} {up.begin:g}v-9"/>'


def _series(series: Series, across: Axis, up: Axis, chart: Chart) -> Iterator[str]:
    unit = chart.unit.size
    if series.style == "area":
        yield _area(series, across, up, unit)
        return
    points = thin(series.points)
    kind = "faint" if series.style == "faint" else "line"
    for piece in _pieces(points):
        if series.style == "steps":
            piece = _stairs(piece)
        yield _line(piece, across, up, unit, f"{kind} {series.colour}")
    if series.style == "dots":
        yield from (_dot(one, across, up, unit, series.colour) for one in points)
    lost = (across.place(step) for step, value in series.points if not math.isfinite(value))
    for x in dict.fromkeys(map(round, lost)):
        yield f'<text class="lost middle" x="{x}" y="{up.end + 8:g}">✕</text>'


def _dot(point: tuple[float, float], across: Axis, up: Axis, unit: float, colour: str) -> str:
    step, value = point
    if not math.isfinite(value):
        return ""
    x, y = across.place(step), up.place(value / unit)
    label = f"<title>step {step:g}: {value:.4g}</title>"
    return f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3">{label}</circle>'


def _line(points: Points, across: Axis, up: Axis, unit: float, kind: str) -> str:
    if not points:
        return ""
    if len(points) == 1:
        (step, value), radius = points[0], 2.5
        x, y = across.place(step), up.place(value / unit)
        return f'<circle class="dot {kind.split()[-1]}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
    places = " ".join(f"{across.place(s):.1f},{up.place(v / unit):.1f}" for s, v in points)
    return f'<polyline class="{kind}" points="{places}"/>'


def _area(series: Series, across: Axis, up: Axis, unit: float) -> str:
    """From the bottom to the values; stacked ones are drawn from the highest down."""
    if not series.points:
        return ""
    points = [*series.points]
    if len(points) == 1:  # one step alone has no width
        points = [(across.low, points[0][1]), (across.high, points[0][1])]
    tops = " ".join(f"{across.place(s):.1f},{up.place(v / unit):.1f}" for s, v in points)
    first, last = across.place(points[0][0]), across.place(points[-1][0])
    base = f"{last:.1f},{up.begin:g} {first:.1f},{up.begin:g}"
    return f'<polygon class="area {series.colour}" points="{tops} {base}"/>'


def _pieces(points: Points) -> Iterator[Points]:
    """Stretches without a gap."""
    piece: list[tuple[float, float]] = []
    for step, value in points:
        if math.isfinite(value):
            piece.append((step, value))
        elif piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _stairs(points: Points) -> list[tuple[float, float]]:
    """Values that hold until they change; what repeats is left out."""
    if not points:
        return []
    stairs = [points[0]]
    for (_, before), (step, after) in pairwise(points):
        if after != before:
            stairs += [(step, before), (step, after)]
    return [*stairs, points[-1]]


def thin(points: Points, most: int = _MOST_POINTS) -> Points:
    """Fewer points that look the same: of each stretch its lowest and its highest; a stretch
    without a finite value is a gap.
    """
    if len(points) <= most:
        return points
    kept: list[tuple[float, float]] = [points[0]]
    size = 2 * len(points) / most
    for number in range(most // 2):
        piece = points[round(number * size) : round((number + 1) * size)]
        known = [one for one in piece if math.isfinite(one[1])]
        if known:
            ends = {min(known, key=lambda one: one[1]), max(known, key=lambda one: one[1])}
            kept += sorted(ends)
        else:
            kept += piece[:1]
    return [*kept, points[-1]]


def averaged(points: Points, most: int = 120) -> list[tuple[float, float]]:
    """Means of equal stretches, for what is stacked."""
    count = min(most, len(points))
    size = len(points) / count if count else 1.0
    means = []
    for number in range(count):
        piece = points[round(number * size) : round((number + 1) * size)] or points[-1:]
        middle = piece[len(piece) // 2][0]
        means.append((middle, sum(value for _, value in piece) / len(piece)))
    if means:  # from the first step to the last
        means[0] = (points[0][0], means[0][1])
        means[-1] = (points[-1][0], means[-1][1])
    return means


def smoothed(points: Points) -> list[tuple[float, float]]:
    """Means over a fortieth of the run around each step, so that nothing lags; gaps stay out."""
    known = [(step, value) for step, value in points if math.isfinite(value)]
    sums = [0.0, *accumulate(value for _, value in known)]
    reach = max(2, len(known) // 80)
    result = []
    for place, (step, _) in enumerate(known):
        # Towards the ends as far to one side as to the other, or the mean would bend there.
        side = max(min(reach, place, len(known) - 1 - place), reach // 4)
        low, high = max(0, place - side), min(len(known), place + side + 1)
        result.append((step, (sums[high] - sums[low]) / (high - low)))
    return result
