"""The order in which a person reads what stands on a page: columns one after the other.

The page is cut across at every row of white. Bands that share a gutter belong together and are read
column by column; a title above them, or a picture's caption below, crosses the gutter and ends
them. Short cells beside each other are a table, not columns: it is read row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple


@dataclass(frozen=True)
class PlacedBox:
    """An upright box and the number of what stands in it."""

    left: float
    top: float
    right: float
    bottom: float
    number: int

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Half-way down."""
        return (self.top + self.bottom) / 2


Row = list[PlacedBox]
Gap = tuple[float, float]
# In line heights: the least gutter, and how wide the lines of a column are at least.
_GUTTER, _COLUMN = 0.7, 5.0
_FEWEST = 3
"""Rows on both sides of a gutter, or it is only the white between two words."""
_BREAK = 1.4
"""How much further than usual the next row is, where a new block begins."""
_SAME_ROW = 0.5


class _GutterGroup(NamedTuple):
    places: list[PlacedBox]
    gutters: list[Gap]


def order_blocks(places: Sequence[PlacedBox]) -> list[list[Row]]:
    """Blocks in reading order: rows from top to bottom, places of a row from left to right."""
    if not places:
        return []
    unit = median(place.height for place in places)
    found: list[list[Row]] = []
    for group in _groups(places, unit):
        for column in _columns(group, unit):
            found += _parts(_rows(column))
    return found


def _groups(places: Sequence[PlacedBox], unit: float) -> list[_GutterGroup]:
    """Bands that share a gutter, and bands between those."""
    groups: list[_GutterGroup] = []
    for band in _bands(places):
        gutters = _gutters(band, unit)
        last = groups[-1] if groups else None
        shared = _list_shared_gutters(last.gutters, band, unit) if last else []
        if last is not None and (shared or not (last.gutters or gutters)):
            groups[-1] = _GutterGroup(last.places + band, shared)
        else:
            groups.append(_GutterGroup(band, gutters))
    return groups


def _bands(places: Sequence[PlacedBox]) -> list[list[PlacedBox]]:
    """What lies between rows of white. Boxes are a little higher than their letters."""
    bands: list[list[PlacedBox]] = []
    end = float("-inf")
    for place in sorted(places, key=lambda one: one.top):
        slack = place.height * 0.25
        if place.top + slack < end:
            bands[-1].append(place)
        else:
            bands.append([place])
        end = max(end, place.bottom - slack)
    return bands


def _gutters(places: Sequence[PlacedBox], unit: float) -> list[Gap]:
    """White that runs down between places."""
    gaps: list[Gap] = []
    reached = float("-inf")
    for place in sorted(places, key=lambda one: one.left):
        if reached > float("-inf") and place.left - reached >= _GUTTER * unit:
            gaps.append((reached, place.left))
        reached = max(reached, place.right)
    return gaps


def _list_shared_gutters(
    gutters: Sequence[Gap], band: Sequence[PlacedBox], unit: float
) -> list[Gap]:
    """What a further band leaves of gutters."""
    left: list[Gap] = []
    for start, end in gutters:
        for place in band:
            middle = (start + end) / 2
            if place.left < end and place.right > start:  # it reaches in, or crosses
                if place.right <= middle:
                    start = max(start, place.right)
                elif place.left >= middle:
                    end = min(end, place.left)
                else:
                    start = end
        if end - start >= _GUTTER * unit * 0.7:
            left.append((start, end))
    return left


def _columns(group: _GutterGroup, unit: float) -> list[list[PlacedBox]]:
    """The columns of a group, from left to right; all of it where it has none."""
    parts: list[list[PlacedBox]] = [group.places]
    for start, end in group.gutters:
        middle = (start + end) / 2
        last = parts.pop()
        parts += [[p for p in last if p.right <= middle], [p for p in last if p.right > middle]]
    wide = all(
        len(_rows(part)) >= _FEWEST and median(p.right - p.left for p in part) >= _COLUMN * unit
        for part in parts
    )
    return parts if wide else [group.places]


def _rows(places: Sequence[PlacedBox]) -> list[Row]:
    """Places of like height beside each other."""
    rows: list[Row] = []
    for place in sorted(places, key=lambda one: one.middle):
        if rows and _beside(rows[-1], place):
            rows[-1].append(place)
        else:
            rows.append([place])
    return [sorted(row, key=lambda one: one.left) for row in rows]


def _beside(row: Row, place: PlacedBox) -> bool:
    last = row[-1]
    common = min(last.bottom, place.bottom) - max(last.top, place.top)
    if common < _SAME_ROW * min(last.height, place.height):
        return False
    return all(place.left >= one.right - one.height or place.right <= one.left + one.height
               for one in row)  # fmt: skip


def _parts(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows cut where the white between them is wider than usual."""
    middles = [median(place.middle for place in row) for row in rows]
    steps = [after - before for before, after in zip(middles, middles[1:], strict=False)]
    usual = median(steps) if steps else 0.0
    parts: list[list[Row]] = [[]]
    for number, row in enumerate(rows):
        if number and steps[number - 1] > usual * _BREAK and usual > 0:
            parts.append([])
        parts[-1].append(row)
    return [part for part in parts if part]
