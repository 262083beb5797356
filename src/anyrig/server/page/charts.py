"""Small charts in the colours of the page's theme.

The line is SVG that stretches to the width of its place; labels are HTML, which keeps their size on
a phone. Screen readers read the chart's label, so it has to tell the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from nicegui import ui

_WIDTH, _HEIGHT = 600, 100
_INTERVALS = 2
_MIN_BAR_PERCENT = 0.6


class Chart(ui.html):
    """A place for a chart of `draw_line` or `draw_bars`."""

    def __init__(self, label: str, content: str = "") -> None:
        super().__init__(content, sanitize=False, tag="div")
        self.classes("chart")
        self.props["role"] = "img"
        self.props["aria-label"] = label

    def replace(self, content: str, label: str) -> None:
        self.content = content
        self.props["aria-label"] = label
        self.update()


def draw_line(
    points: Sequence[tuple[float, float]], *, top: float | None = None,
    format_y: Callable[[float], str] = lambda _: "", format_x: Callable[[float], str] = str,
) -> str:  # fmt: skip
    """A line over x, with the area below it.

    Args:
        points: (x, y) by ascending x.
        top: the value of the upper edge; slightly above the maximum by default.
        format_y: the label of a value.
        format_x: the label of the first and the last x.
    """
    high = top or 1.08 * max((y for _, y in points), default=0.0) or 1.0
    first, last = (points[0][0], points[-1][0]) if points else (0.0, 1.0)

    def position(x: float, y: float) -> str:
        share = (x - first) / (last - first) if last > first else 1.0
        return f"{_WIDTH * share:.1f},{_HEIGHT * (1 - min(1.0, max(0.0, y / high))):.1f}"

    steps = [step / _INTERVALS for step in range(_INTERVALS + 1)]
    shapes = [f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
              for y in (_HEIGHT * step for step in steps)]  # fmt: skip
    x_labels = ""
    if points:
        path = " ".join(position(x, y) for x, y in points)
        left = 0 if last > first else _WIDTH
        shapes.append(f'<polygon class="area" points="{left},{_HEIGHT} {path} '
                      f'{_WIDTH},{_HEIGHT}"/><polyline class="line" points="{path}"/>')  # fmt: skip
        ends = "".join(f"<span>{escape(format_x(x))}</span>" for x in (first, last))
        x_labels = f'<div class="ends-x">{ends}</div>'
    y_labels = "".join(f"<span>{escape(format_y(high * (1 - step)))}</span>" for step in steps)
    return (
        f'<div class="plot"><div class="ys">{y_labels}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false">{"".join(shapes)}</svg>{x_labels}</div>'
    )


def draw_bars(rows: Sequence[tuple[str, float, str]], *, top: float | None = None) -> str:
    """Horizontal bars: of each its name, its value, and the value's text.

    `top` is the value of a full bar, 1 for shares; the highest value by default. A value alone,
    with nothing to compare it to, has no bar.
    """
    highest = top or max((value for _, value, _ in rows), default=0) or 1
    has_bars = top is not None or len(rows) > 1

    def draw_bar(value: float) -> str:
        width = max(_MIN_BAR_PERCENT, 100 * value / highest)
        return f'<div class="track"><div class="fill" style="width:{width:.1f}%"></div></div>'

    return "".join(
        f'<div class="hbar"><span>{escape(name)}</span><span class="figures">{escape(text)}</span>'
        f"{draw_bar(value) if has_bars else ''}</div>"
        for name, value, text in rows
    )
