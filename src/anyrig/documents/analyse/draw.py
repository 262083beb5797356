"""Plots as SVG by hand: bars, columns and a map of points, coloured by the page's own style.

Every text goes through `escaped`: names and words come from files of others. A plot is drawn for a
narrow column, so that its letters stay readable on a telephone; the page scales it up.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from anyrig.text.labels import one_line

WIDTH = 380
COLOURS = 8
"""Classes c0 to c7 of the style; more kinds begin again."""
_ROW = 36
_EDGE = 26.0
_MOST_NAMES = 40
_LETTER = 7.6  # of a wide typeface at 13 units
# What XML 1.0 has no place for, and what turns the direction of the rest of a line.
_ILLEGAL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]"
)

Box = tuple[float, float, float, float]


class Bar(NamedTuple):
    """One value with its name."""

    label: str
    value: float
    text: str
    """The value as it is written."""
    colour: int = 0


class Dot(NamedTuple):
    """A point of a map, -1 to 1 both ways."""

    x: float
    y: float
    label: str
    colour: int


class Spot(NamedTuple):
    """A number that is written large on the map, where a cluster lies."""

    x: float
    y: float
    text: str
    colour: int


def escape_text(text: str) -> str:
    """Text that can do nothing but be read, in an element or an attribute."""
    return html.escape(_ILLEGAL.sub("\ufffd", text), quote=True)


def short(text: str, most: int) -> str:
    """A line of so many characters, its middle left out where it is longer."""
    line = one_line(text, 400)
    if len(line) <= most:
        return line
    head = (most - 1) * 3 // 5
    return f"{line[:head]}…{line[-(most - 1 - head) :]}"


def bars(title: str, told: str, rows: Sequence[Bar]) -> str:
    """Horizontal bars, each under its name, the longest as wide as the plot."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    parts = []
    for number, row in enumerate(rows):
        y = number * _ROW
        width = max(2.0, row.value / most * WIDTH)
        room = int((WIDTH - _LETTER * (len(row.text) + 2)) / _LETTER)
        parts += [
            f'<text x="0" y="{y + 14}">{escape_text(short(row.label, room))}'
            f"<title>{escape_text(row.label)}</title></text>",
            f'<text x="{WIDTH}" y="{y + 14}" class="value" text-anchor="end">'
            f"{escape_text(row.text)}</text>",
            f'<rect x="0" y="{y + 19}" width="{WIDTH}" height="9" rx="2" class="track"/>',
            f'<rect x="0" y="{y + 19}" width="{width:.1f}" height="9" rx="2" '
            f'class="c{row.colour % COLOURS}"/>',
        ]
    return _svg(title, told, max(1, len(rows)) * _ROW, parts)


def columns(title: str, told: str, rows: Sequence[Bar], *, height: int = 190) -> str:
    """Upright columns side by side, their names below; names that would collide are left out."""
    most = max((row.value for row in rows), default=0.0) or 1.0
    step = WIDTH / max(1, len(rows))
    wide = max((len(row.label) for row in rows), default=1) * _LETTER + 6
    every = max(1, math.ceil(wide / step))
    floor, parts = height - 24, []
    for number, row in enumerate(rows):
        tall = row.value / most * (floor - 22)
        x = number * step
        parts.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{floor - tall:.1f}" width="{step * 0.8:.1f}" '
            f'height="{tall:.1f}" class="c{row.colour % COLOURS}">'
            f"<title>{escape_text(row.label)}: {escape_text(row.text)}</title></rect>"
        )
        if row.value and len(row.text) * _LETTER < step * 1.2:
            parts.append(_middle(x + step / 2, floor - tall - 6, row.text, "value"))
        if number % every == 0:
            parts.append(_middle(x + step / 2, height - 7, row.label, ""))
    parts.append(f'<line x1="0" y1="{floor}" x2="{WIDTH}" y2="{floor}" class="axis"/>')
    return _svg(title, told, height, parts)


def scatter(
    title: str, told: str, dots: Sequence[Dot], spots: Sequence[Spot], *, height: int = 340
) -> str:
    """Points on a plane, with numbers where their clusters lie, and names while there is room."""
    radius = 5.0 if len(dots) <= 60 else 3.5 if len(dots) <= 400 else 2.4
    parts = [
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" class="frame"/>'
    ]
    places = [_place(dot.x, dot.y, height) for dot in dots]
    for dot, (x, y) in zip(dots, places, strict=True):
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="c{dot.colour % COLOURS} dot">'
            f"<title>{escape_text(dot.label)}</title></circle>"
        )
    taken: list[Box] = []
    for spot in spots:
        x, y = _place(spot.x, spot.y, height)
        y = max(13.0, y - 18)  # above its points
        taken.append((x - 11, y - 11, x + 11, y + 11))
        kind = f"spot s{spot.colour % COLOURS}"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="11" class="{kind}"/>')
        parts.append(_middle(x, y + 4.5, spot.text, "spotted"))
    if len(dots) <= _MOST_NAMES:
        parts += _names(dots, places, taken)
    return _svg(title, told, height, parts)


def _place(x: float, y: float, height: int) -> tuple[float, float]:
    """Where a point of the map lies on the plot."""
    return (
        _EDGE + (x + 1) / 2 * (WIDTH - 2 * _EDGE),
        _EDGE + (1 - y) / 2 * (height - 2 * _EDGE),
    )


def _names(
    dots: Sequence[Dot], places: Sequence[tuple[float, float]], taken: list[Box]
) -> Iterable[str]:
    """The names of points that run into nothing."""
    found = []
    for dot, (x, y) in zip(dots, places, strict=True):
        text = short(dot.label.rpartition("/")[2], 22)
        wide = len(text) * 6.2
        left = x + 8 if x + 8 + wide < WIDTH else x - 8 - wide
        box = (left, y - 8, left + wide, y + 6)
        if left < 0 or any(_meet(box, other) for other in taken):
            continue
        taken.append(box)
        found.append(
            f'<text x="{left:.1f}" y="{y + 4:.1f}" class="name">{escape_text(text)}</text>'
        )
    return found


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _middle(x: float, y: float, text: str, kind: str) -> str:
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{marked}>{escape_text(text)}</text>'


def _svg(title: str, told: str, height: int, parts: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">',
            f"<title>{escape_text(title)}</title>",
            f"<desc>{escape_text(told)}</desc>",
            *parts,
            "</svg>",
        ]
    )
