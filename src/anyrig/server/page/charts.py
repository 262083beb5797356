"""Charts in the colours of the page's tokens, so that both themes have them.

Lines are SVG that stretches; the words beside them are HTML, so that they keep their size on a
phone. A screen reader hears the label, and so should it say what the chart shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from nicegui import ui

_WIDTH, _HEIGHT = 600, 100


@dataclass(frozen=True)
class Series:
    """One line: points of (x, y) in the order of x."""

    name: str
    points: Sequence[tuple[float, float]]


class Chart(ui.html):
    """A place for a chart, drawn anew by `draw(lines(...))` or `draw(bars(...))`."""

    def __init__(self, label: str, content: str = "", *, classes: str = "") -> None:
        super().__init__(content, sanitize=False, tag="div")
        self.classes(f"chart {classes}".strip())
        self.props["role"] = "img"
        self.props["aria-label"] = label

    def draw(self, content: str, label: str = "") -> None:
        """Show this one; `label` is what it says in words."""
        self.content = content
        if label:
            self.props["aria-label"] = label
            self.update()


def lines(
    series: Sequence[Series], *, top: float | None = None, bottom: float | None = 0.0,
    write_y: Callable[[float], str] = str, write_x: Callable[[float], str] | None = None,
    legend: bool = False, fill: bool = True, steps: int = 2,
) -> str:  # fmt: skip
    """Lines over a common x.

    Args:
        series: up to three.
        top: what the upper edge stands for; a little over the highest when not given.
        bottom: what the lower edge stands for; a little under the lowest when None.
        write_y: a value as words for the axis.
        write_x: the same for the two ends of x; none are written without it.
        legend: whether the names of the lines are told.
        fill: whether the ground under the lines is tinted.
        steps: parts that the axis is cut into.
    """
    points = [point for one in series for point in one.points]
    ys = [y for _, y in points] or [0.0, 1.0]
    spread = max(ys) - min(ys) or abs(max(ys)) or 1.0
    low = bottom if bottom is not None else min(ys) - 0.08 * spread
    high = top if top is not None else max(max(ys) + 0.08 * spread, low + 1e-9)
    left, right = min((x for x, _ in points), default=0), max((x for x, _ in points), default=1)

    def at(x: float, y: float) -> tuple[float, float]:
        share = (x - left) / (right - left) if right > left else 1.0
        up = (min(high, max(low, y)) - low) / (high - low)
        return _WIDTH * share, _HEIGHT * (1 - up)

    drawn = [f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
             for y in (_HEIGHT * step / steps for step in range(steps + 1))]  # fmt: skip
    for number, one in enumerate(series):
        path = " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in one.points)
        if path and fill:
            first, last = at(*one.points[0])[0], at(*one.points[-1])[0]
            drawn.append(f'<polygon class="area s{number}" points="{first:.1f},{_HEIGHT} {path} '
                         f'{last:.1f},{_HEIGHT}"/>')  # fmt: skip
        if path:
            drawn.append(f'<polyline class="line s{number}" points="{path}"/>')
    said = "".join(f"<span>{escape(write_y(high - (high - low) * step / steps))}</span>"
                   for step in range(steps + 1))  # fmt: skip
    ends = [escape(write_x(x)) for x in (left, right)] if write_x and points else []
    return (
        _legend(series, legend)
        + f'<div class="plot"><div class="ys">{said}</div><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none" aria-hidden="true" focusable="false">{"".join(drawn)}</svg>'
        + ('<div class="ends-x"><span>{}</span><span>{}</span></div>'.format(*ends) if ends else "")
        + "</div>"
    )


def bars(rows: Sequence[tuple[str, float, str]], *, colours: Sequence[int] = ()) -> str:
    """Lying bars: a name, a value, and the value in words. `colours` is 0 to 2 for each."""
    highest = max((value for _, value, _ in rows), default=0) or 1
    drawn = []
    for number, (name, value, said) in enumerate(rows):
        colour = colours[number] if number < len(colours) else 0
        share = max(0.6, 100 * value / highest)
        drawn.append(
            f'<div class="lying"><span>{escape(name)}</span><span class="figures">{escape(said)}'
            f'</span><div class="track"><div class="fill s{colour}" style="width:{share:.1f}%">'
            "</div></div></div>"
        )
    return "".join(drawn)


def _legend(series: Sequence[Series], wanted: bool) -> str:
    if not wanted:
        return ""
    said = "".join(f'<span class="s{n}">{escape(one.name)}</span>' for n, one in enumerate(series))
    return f'<div class="legend">{said}</div>'
