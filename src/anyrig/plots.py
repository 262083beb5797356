"""Line, area and bar charts as SVG, for a light and a dark page alike.

`draw_chart` draws into an HTML page that includes `CSS`; `draw_document` and `draw_bars` return
whole SVG files. Colours are classes, `c0` to `c5`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple

from anyrig.units import shorten

Points = Sequence[tuple[float, float]]
SeriesStyle = Literal["line", "faint", "dots", "steps", "area"]
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MAX_POINTS = 400
_TOP, _RIGHT = 10, 10
# Of a light and of a dark page.
_PALETTE = {
    "card": ("#ffffff", "#1b2129"),
    "ink": ("#1c2430", "#e6eaf0"),
    "soft": ("#5c6675", "#9aa5b4"),
    "rule": ("#e3e6eb", "#2c3541"),
    "axis": ("#aab2bd", "#566273"),
    "bad": ("#c62f3b", "#ff7b84"),
    "c0": ("#2f6db5", "#74aef2"),
    "c1": ("#d9700f", "#f5a259"),
    "c2": ("#2a8a57", "#67c795"),
    "c3": ("#7a55b0", "#bb9bf0"),
    "c4": ("#b8860b", "#e3c05c"),
    "c5": ("#8b95a3", "#7d8896"),
}
_RULES = """
svg text { fill: var(--soft); font-size: 11.5px; font-variant-numeric: tabular-nums; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .title { fill: var(--ink); font-size: 17px; font-weight: 600; }
svg .heading { fill: var(--ink); font-size: 13px; font-weight: 600; }
.background { fill: var(--card); }
.grid { stroke: var(--rule); } .axis { stroke: var(--axis); }
.line, .faint { fill: none; stroke-width: 2; stroke-linejoin: round; }
.faint { stroke-width: 1; opacity: .35; }
.area { opacity: .88; } svg .lost { fill: var(--bad); font-size: 12px; }
.mark path { stroke-dasharray: 2 4; stroke: var(--soft); }
.mark circle { fill: var(--soft); }
.mark.severe path { stroke: var(--bad); } .mark.severe circle { fill: var(--bad); }
.limit { stroke: var(--bad); stroke-dasharray: 5 4; } svg .limit-name { fill: var(--bad); }
.stroke.bad { stroke: var(--bad); stroke-width: 1.5; }
""" + "".join(
    f".line.c{n}, .faint.c{n} {{ stroke: var(--c{n}); }} "
    f".area.c{n}, .dot.c{n} {{ fill: var(--c{n}); }} .key.c{n} {{ background: var(--c{n}); }}\n"
    for n in range(6)
)  # fmt: skip


def _declare(theme: int) -> str:
    return " ".join(f"--{name}: {colours[theme]};" for name, colours in _PALETTE.items())


CSS = (
    f":root {{ color-scheme: light dark; {_declare(0)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root {{ {_declare(1)} }} }}{_RULES}"
)
"""The style of charts in a page; its variables `--card`, `--ink` and so on serve the page too."""


class AxisUnit(NamedTuple):
    """What values are divided by to be shown, and its name."""

    size: float
    name: str


class ChartSeries(NamedTuple):
    """Values along x; one that is not finite is a gap."""

    name: str
    colour: str
    points: Points
    style: SeriesStyle = "line"


class ChartMark(NamedTuple):
    """An event, drawn as a vertical line."""

    x: float
    text: str
    severe: bool = False


@dataclass(frozen=True)
class LineChart:
    title: str
    unit: AxisUnit
    series: tuple[ChartSeries, ...]
    from_zero: bool = True
    may_be_log: bool = False
    marks: tuple[ChartMark, ...] = ()
    ticked: tuple[ChartMark, ...] = ()
    """Small strokes at the bottom, such as skipped steps."""
    ticked_name: str = ""
    limit: tuple[float, str] | None = None
    """A value that is drawn as a line, and its name."""
    x_name: str = "step"
    x_values: tuple[float, ...] = ()
    """Where the x axis, then logarithmic, has its ticks; round numbers by default."""

    @property
    def is_log(self) -> bool:
        """Whether its values are drawn on a logarithmic scale."""
        return _find_range(self)[2]


class ChartSize(NamedTuple):
    name: str
    width: int
    height: int
    left: int = 52
    bottom: int = 30


WIDE = ChartSize("wide", 560, 250)
NARROW = ChartSize("narrow", 300, 210, 44)


def draw_chart(chart: LineChart, size: ChartSize) -> str:
    return (
        f'<svg class="{size.name}" viewBox="0 0 {size.width} {size.height}" role="img" '
        f'aria-label="{escape(chart.title)}">{_draw_parts(chart, size)}</svg>'
    )


def draw_legend(chart: LineChart) -> str:
    """Names and colours as HTML; empty for a single series."""
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


def draw_document(title: str, subtitle: str, charts: Sequence[LineChart]) -> str:
    """An SVG file with charts side by side."""
    parts = []
    for number, chart in enumerate(charts):
        notes = ", ".join(filter(None, (chart.title, chart.unit.name)))
        parts.append(
            f'<g transform="translate({16 + number * (WIDE.width + 16)} 84)">'
            f'<text class="heading" x="{WIDE.left}" y="-4">{escape(notes)}</text>'
            f"{_draw_parts(chart, WIDE)}</g>"
        )
    width = 16 + len(charts) * (WIDE.width + 16)
    return _wrap_document(title, subtitle, width, 84 + WIDE.height + 16, parts)


class ChartBar(NamedTuple):
    label: str
    value: float
    colour: str


def draw_bars(
    title: str, subtitle: str, bars: Sequence[ChartBar], format_value: Callable[[float], str]
) -> str:
    """An SVG file with horizontal bars on a logarithmic scale."""
    left, top, row, width = 330, 70, 26, 900
    powers = [math.log10(bar.value) for bar in bars]
    low, high = math.floor(min(powers, default=9)), math.ceil(max(powers, default=12) + 1e-9)
    axis = Axis(10.0**low, 10.0**high, left, width - 130, log=True)
    bottom = top + row * len(bars)
    parts = []
    for value in _select_ticks([10.0**power for power in range(low, high + 1)], axis, 90):
        x, label = axis.place(value), escape(format_value(value))
        parts.append(f'<path class="grid" d="M{x:.1f} {top - 8}V{bottom}"/>')
        parts.append(f'<text class="middle" x="{x:.1f}" y="{bottom + 18}">{label}</text>')
    for number, bar in enumerate(bars):
        y, end = top + number * row, axis.place(bar.value)
        parts += [
            f'<text class="end" x="{left - 10}" y="{y + 14}">{escape(bar.label)}</text>',
            f'<rect class="area {bar.colour}" x="{left}" y="{y}" '
            f'width="{max(1.0, end - left):.1f}" height="{row - 8}"/>',
            f'<text x="{end + 6:.1f}" y="{y + 14}">{escape(format_value(bar.value))}</text>',
        ]
    return _wrap_document(title, subtitle, width, bottom + 34, parts)


def _wrap_document(title: str, subtitle: str, width: int, height: int, parts: Sequence[str]) -> str:
    # Literal colours: many image viewers know no CSS variables.
    light = re.sub(r"var\(--(\w+)\)", lambda name: _PALETTE[name[1]][0], _RULES)
    dark = re.sub(r"var\(--(\w+)\)", lambda name: _PALETTE[name[1]][1], _RULES)
    return "\n".join((
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f"<style>{light}@media (prefers-color-scheme: dark) {{{dark}}}</style>",
        f'<rect class="background" width="{width}" height="{height}"/>',
        f'<text class="title" x="16" y="28">{escape(title)}</text>',
        f'<text x="16" y="48">{escape(shorten(subtitle, 130))}</text>',
        *parts,
        "</svg>\n",
    ))  # fmt: skip


# -- drawing a line chart --------------------------------------------------------------------------


class Axis(NamedTuple):
    """A range of values along a line on the page."""

    low: float
    high: float
    begin: float
    """Where `low` is on the page."""
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value is; beyond the range, at its end."""
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(one, 1e-300)) for one in (value, low, high))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.begin + min(1.0, max(0.0, share)) * (self.end - self.begin)


def _draw_parts(chart: LineChart, size: ChartSize) -> str:
    x_axis, y_axis = _build_axes(chart, size)
    parts = [
        *_draw_grid(chart, x_axis, y_axis, size),
        *(_draw_mark(mark, chart, x_axis, y_axis) for mark in chart.marks),
        *(part for one in chart.series for part in _draw_series(one, chart, x_axis, y_axis)),
        *dict.fromkeys(
            f'<path class="stroke bad" d="M{round(x_axis.place(mark.x))} {y_axis.begin:g}v-9"/>'
            for mark in chart.ticked
        ),
    ]
    return "".join(parts)


def _build_axes(chart: LineChart, size: ChartSize) -> tuple[Axis, Axis]:
    xs = [x for series in chart.series for x, _ in series.points]
    xs += [mark.x for mark in chart.ticked] + list(chart.x_values)
    first, last = min(xs, default=0), max(xs, default=1)
    if first == last and not chart.x_values:
        first, last = first - 1, last + 1
    low, high, log = _find_range(chart)
    x_axis = Axis(first, last, size.left, size.width - _RIGHT, bool(chart.x_values))
    return x_axis, Axis(low, high, size.height - size.bottom, _TOP, log)


def _find_range(chart: LineChart) -> tuple[float, float, bool]:
    """The range of values in the chart's unit, and whether it is logarithmic."""
    values = [chart.limit[0]] if chart.limit else []
    for series in chart.series:
        known = [value for _, value in series.points if math.isfinite(value)]
        values += _drop_outliers(known) if series.style in ("line", "faint") else known
    values = [value / chart.unit.size for value in values]
    if not values:
        return 0.0, 1.0, False
    low, high = min(values), max(values)
    if chart.may_be_log and low > 0 and high / low > 20:
        return low / 1.1, high * 1.1, True
    if chart.from_zero and low >= 0:
        step = _round_step(high or 1.0, 5)
        return 0.0, math.ceil((high or 1.0) / step - 1e-9) * step, False
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room, False


def _drop_outliers(values: list[float]) -> list[float]:
    """Without the few that would flatten the rest. The first steps of a run are high by nature:
    they stay unless they dwarf the rest.
    """
    if len(values) < 50:
        return values
    ordered = sorted(values)
    low, high = ordered[len(values) // 100], ordered[-1 - len(values) // 100]
    room = 4 * (high - low) + 1e-12
    return [value for value in values if low - room <= value <= high + room]


def _draw_grid(chart: LineChart, x_axis: Axis, y_axis: Axis, size: ChartSize) -> Iterator[str]:
    left, right, bottom = x_axis.begin, x_axis.end, y_axis.begin
    find_ticks = log_ticks if y_axis.log else ticks
    rows = find_ticks(y_axis.low, y_axis.high)
    for value, text in zip(rows, format_ticks(rows), strict=True):
        y = y_axis.place(value)
        yield f'<path class="grid" d="M{left:g} {y:.1f}H{right:g}"/>'
        yield f'<text class="end" x="{left - 6:g}" y="{y + 4:.1f}">{text}</text>'
    if chart.limit:
        y = y_axis.place(chart.limit[0] / chart.unit.size)
        name = escape(chart.limit[1])
        yield f'<path class="limit" d="M{left:g} {y:.1f}H{right:g}"/>'
        yield f'<text class="limit-name" x="{left + 4:g}" y="{y - 5:.1f}">{name}</text>'
    columns = _select_ticks(chart.x_values, x_axis, 30) or ticks(
        x_axis.low, x_axis.high, 4 if size.width < 400 else 7, whole=True
    )
    for value in columns:
        x = x_axis.place(value)
        text = f"{value:g}" if chart.x_values else format_count(value)
        yield f'<text class="middle" x="{x:.1f}" y="{bottom + 16:g}">{text}</text>'
    yield f'<path class="axis" d="M{left:g} {bottom:g}H{right:g}"/>'
    yield f'<text class="end" x="{right:g}" y="{bottom + 28:g}">{escape(chart.x_name)}</text>'


def _select_ticks(values: Sequence[float], axis: Axis, distance: float) -> list[float]:
    """Those with room for their label, the highest always."""
    kept: list[float] = []
    for value in sorted(values, reverse=True):
        if not kept or axis.place(kept[-1]) - axis.place(value) >= distance:
            kept.append(value)
    return kept


def _draw_mark(mark: ChartMark, chart: LineChart, x_axis: Axis, y_axis: Axis) -> str:
    x = x_axis.place(mark.x)
    kind = "severe" if mark.severe else "plain"
    title = escape(f"{chart.x_name} {mark.x:g}: {mark.text}")
    return (
        f'<g class="mark {kind}"><title>{title}</title>'
        f'<path d="M{x:.1f} {y_axis.end:g}V{y_axis.begin:g}"/>'
        f'<circle cx="{x:.1f}" cy="{y_axis.end:g}" r="3.5"/></g>'
    )


def _draw_series(
    series: ChartSeries, chart: LineChart, x_axis: Axis, y_axis: Axis
) -> Iterator[str]:
    def place(points: Points) -> list[tuple[float, float]]:
        return [(x_axis.place(x), y_axis.place(y / chart.unit.size)) for x, y in points]

    if series.style == "area":
        yield from _draw_area(series.colour, place(series.points), x_axis, y_axis)
        return
    points = downsample(series.points)
    kind = "faint" if series.style == "faint" else "line"
    for stretch in _split_at_gaps(points):
        places = place(_build_stairs(stretch) if series.style == "steps" else stretch)
        if len(stretch) > 1:
            yield f'<polyline class="{kind} {series.colour}" points="{_join(places)}"/>'
        if len(stretch) == 1 or series.style == "dots":
            for (x, value), where in zip(stretch, places, strict=False):
                title = f"{chart.x_name} {x:g}: {value / chart.unit.size:.4g} {chart.unit.name}"
                yield _draw_dot(series.colour, where, title.rstrip())
    lost = (x_axis.place(x) for x, value in series.points if not math.isfinite(value))
    for at in dict.fromkeys(map(round, lost)):
        yield f'<text class="lost middle" x="{at}" y="{y_axis.end + 8:g}">✕</text>'


def _draw_area(
    colour: str, places: list[tuple[float, float]], x_axis: Axis, y_axis: Axis
) -> Iterator[str]:
    """From the bottom to the values; stacked areas are drawn from the highest down."""
    if len(places) == 1:  # a single step has no width
        places = [(x_axis.begin, places[0][1]), (x_axis.end, places[0][1])]
    if places:
        base = f"{places[-1][0]:.1f},{y_axis.begin:g} {places[0][0]:.1f},{y_axis.begin:g}"
        yield f'<polygon class="area {colour}" points="{_join(places)} {base}"/>'


def _draw_dot(colour: str, place: tuple[float, float], title: str) -> str:
    circle = f'<circle class="dot {colour}" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="3">'
    return f"{circle}<title>{escape(title)}</title></circle>"


def _join(places: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _split_at_gaps(points: Points) -> Iterator[Points]:
    stretch: list[tuple[float, float]] = []
    for x, value in points:
        if math.isfinite(value):
            stretch.append((x, value))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _build_stairs(points: Points) -> Points:
    """Values that hold until they change; repeated ones are left out."""
    stairs = [points[0]]
    for (_, before), (x, after) in pairwise(points):
        if after != before:
            stairs += [(x, before), (x, after)]
    return [*stairs, points[-1]]


# -- fewer and smoother points ---------------------------------------------------------------------


def downsample(points: Points, max_points: int = _MAX_POINTS) -> Points:
    """Fewer points that look the same: the lowest and the highest of each stretch; one without a
    finite value is a gap.
    """
    if len(points) <= max_points:
        return points
    kept: list[tuple[float, float]] = [points[0]]
    size = 2 * len(points) / max_points
    for number in range(max_points // 2):
        stretch = points[round(number * size) : round((number + 1) * size)]
        known = [one for one in stretch if math.isfinite(one[1])]
        if known:
            kept += sorted({min(known, key=lambda one: one[1]), max(known, key=lambda one: one[1])})
        else:
            kept += stretch[:1]
    return [*kept, points[-1]]


def average_blocks(points: Points, max_points: int = 120) -> list[tuple[float, float]]:
    """Means of equal stretches, for what is stacked; from the first x to the last."""
    count = min(max_points, len(points))
    size = len(points) / count if count else 1.0
    means = []
    for number in range(count):
        block = points[round(number * size) : round((number + 1) * size)] or points[-1:]
        means.append((block[len(block) // 2][0], sum(value for _, value in block) / len(block)))
    if means:
        means[0] = (points[0][0], means[0][1])
        means[-1] = (points[-1][0], means[-1][1])
    return means


def smooth(points: Points) -> list[tuple[float, float]]:
    """Means over a fortieth of the run, centred so that nothing lags; gaps are left out."""
    known = [(x, value) for x, value in points if math.isfinite(value)]
    sums = [0.0, *accumulate(value for _, value in known)]
    reach = max(2, len(known) // 80)
    result = []
    for place, (x, _) in enumerate(known):
        # Towards the ends as far to one side as to the other, or the mean would bend there.
        side = max(min(reach, place, len(known) - 1 - place), reach // 4)
        low, high = max(0, place - side), min(len(known), place + side + 1)
        result.append((x, (sums[high] - sums[low]) / (high - low)))
    return result


# -- ticks and units -------------------------------------------------------------------------------


def _round_step(span: float, max_steps: int) -> float:
    rough = max(span, 1e-300) / max_steps
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * (1 - 1e-9))


def ticks(low: float, high: float, max_ticks: int = 5, *, whole: bool = False) -> list[float]:
    """Round numbers within a range."""
    step = _round_step(high - low, max_ticks)
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """Round numbers within a range of a logarithmic axis."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        every = [digit * 10.0**power for power in powers for digit in digits]
        found = [one for one in every if low <= one <= high]
        if len(found) <= max_ticks:
            break
    if len(found) > max_ticks:
        found = found[:: math.ceil(len(found) / max_ticks)]
    return found if len(found) >= 2 else ticks(low, high)


def format_ticks(values: Sequence[float]) -> list[str]:
    """Numbers with as many digits as distinguish them, and no more."""
    for digits in range(7):
        shown = [f"{value:.{digits}f}" for value in values]
        exact = all(
            abs(float(text) - value) <= 1e-6 * max(abs(value), 1e-12)
            for text, value in zip(shown, values, strict=True)
        )
        if exact and len(set(shown)) == len(set(values)):
            return [text.replace("-", "−") for text in shown]
    return [f"{value:g}" for value in values]


def format_count(count: float) -> str:
    """`800`, `1.5k`, `20k`, `1.2M`."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:g}{unit}"
    return f"{count:g}"


def choose_count_unit(highest: float, name: str) -> AxisUnit:
    for size, word in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if highest >= size * 10:
            return AxisUnit(size, f"{word} {name}")
    return AxisUnit(1.0, name)


def choose_time_unit(highest_s: float) -> AxisUnit:
    if highest_s < 1e-3:
        return AxisUnit(1e-6, "µs")
    if highest_s < 2.0:
        return AxisUnit(1e-3, "ms")
    return AxisUnit(60.0, "min") if highest_s >= 600 else AxisUnit(1.0, "s")


def choose_byte_unit(highest: float) -> AxisUnit:
    return AxisUnit(2.0**30, "GiB") if highest >= 2**31 else AxisUnit(2.0**20, "MiB")


def choose_power_of_ten(highest: float) -> AxisUnit:
    """A power of ten for very small and very large numbers, such as learning rates."""
    if highest <= 0 or 0.01 <= highest < 1e5:
        return AxisUnit(1.0, "")
    power = math.floor(math.log10(highest) + 1e-9)
    return AxisUnit(10.0**power, "×10" + str(power).translate(_SUPERSCRIPTS))
