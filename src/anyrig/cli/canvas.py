"""Lines of styled text for a terminal: widths, bars, graphs. Knows nothing of devices."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from anyrig.cli.escape import esc

Style = Literal["", "good", "warning", "broken", "bold", "dim", "accent"]
_CODES: dict[Style, str] = {
    "good": "32", "warning": "33", "broken": "31", "bold": "1", "dim": "2", "accent": "36",
}  # fmt: skip
_BRAILLE = 0x2800
# The dots of a braille cell from the bottom up, left column and right.
_LEFT = (0x40, 0x04, 0x02, 0x01)
_RIGHT = (0x80, 0x20, 0x10, 0x08)
_STEPS = " .:-=+*#"
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class Span(NamedTuple):
    """A piece of a line in one style."""

    text: str
    style: Style = ""


Line = tuple[Span, ...]


def line(*parts: Span | str) -> Line:
    """A line of pieces; plain text where no style is said."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def rendered(spans: Line, colours: bool) -> str:
    """A line as it is written to a terminal."""
    if not colours:
        return "".join(span.text for span in spans).rstrip()
    mark = esc(sys.stdout)
    return "".join(
        f"{mark}[{_CODES[span.style]}m{span.text}{mark}[0m"
        if span.style and span.text else span.text
        for span in spans
    )  # fmt: skip


def clipped(spans: Line, width: int) -> Line:
    """A line cut to a width."""
    found: list[Span] = []
    for span in spans:
        room = width - sum(wide(done.text) for done in found)
        if room <= 0:
            break
        found.append(Span(cut(span.text, room), span.style))
    return tuple(found)


def clean(text: str) -> str:
    """Text of others without what could move a cursor or turn the writing round."""
    if text.isascii() and text.isprintable():
        return text
    kinds = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return "".join("?" if unicodedata.category(sign) in kinds else sign for sign in text)


def wide(text: str) -> int:
    """How many columns text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(sign) for sign in text)


def _columns(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Text that takes no more columns than there are."""
    if text.isascii():
        return text[: max(0, width)]
    found, taken = [], 0
    for sign in text:
        taken += _columns(sign)
        if taken > width:
            break
        found.append(sign)
    return "".join(found)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Text cut or filled up to exactly a width."""
    text = cut(text, width)
    fill = " " * (width - wide(text))
    return fill + text if right else text + fill


def bar(percent: float | None, width: int, style: Style, *, unicode: bool) -> Line:
    """A filled part and the rest."""
    full, half, rest = ("█", "▌", "░") if unicode else ("#", "", ".")
    if percent is None or width <= 0:
        return (Span(rest * max(0, width), "dim"),)
    halves = round(2 * width * min(100.0, max(0.0, percent)) / 100)
    whole, odd = divmod(halves, 2)
    filled = full * whole + (half if odd else "")
    if not filled and percent > 0:
        filled = half or full
    return (Span(filled, style), Span(rest * (width - len(filled)), "dim"))


def graph(values: Sequence[float | None], width: int, height: int, *, unicode: bool) -> list[str]:
    """The newest percentages as rows of dots, oldest to the left; two samples to a column."""
    if width <= 0 or height <= 0:
        return []
    if not unicode:
        return [_steps(values, width)] + [" " * width] * (height - 1)
    newest = list(values)[-2 * width :]
    padding: list[float | None] = [None] * (2 * width - len(newest))
    levels = [_level(value, 4 * height) for value in padding + newest]
    rows = []
    for row in range(height):
        floor = 4 * (height - 1 - row)
        cells = (
            _dots(levels[2 * column] - floor, _LEFT) | _dots(levels[2 * column + 1] - floor, _RIGHT)
            for column in range(width)
        )
        rows.append("".join(chr(_BRAILLE + cell) if cell else " " for cell in cells))
    return rows


def _steps(values: Sequence[float | None], width: int) -> str:
    signs = [_STEPS[_level(value, len(_STEPS) - 1)] for value in values[-width:]]
    return "".join(signs).rjust(width)


def _level(value: float | None, top: int) -> int:
    """How many dots stand on each other; at least one for what is known."""
    if value is None:
        return 0
    return max(1, round(top * min(100.0, max(0.0, value)) / 100))


def _dots(count: int, column: Sequence[int]) -> int:
    return sum(column[: max(0, min(4, count))])


def columns(values: Sequence[float], *, unicode: bool) -> str:
    """One sign for each percentage: the cores at a glance."""
    steps = _EIGHTHS if unicode else _STEPS
    return "".join(steps[_level(value, len(steps) - 1) if value > 1 else 1] for value in values)
