"""Glyphs to pieces of lines: what stands together on one base line, with its spaces."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from anyrig.text.formats.pdf_page import Glyph, Piece, Span

GAP = 0.75
"""A wider gap, in ems, ends a piece: a column's gutter may be as narrow as one em."""
_WIDE = 0.17  # ems between words, where PDFium saw no space
_SEEN = 0.08  # ems between words, where it saw one: tight lines have spaces of an eighth of an em
_TIGHT = 0.05  # ems between letters that touch
_INITIAL = 0.45  # a letter that is larger still stands over several lines
_RAISED_LESS = 0.85  # how much smaller the type of a note's number is


def pieces_of(glyphs: Sequence[Glyph]) -> tuple[Piece, ...]:
    """The pieces of a page, from the top to the bottom and from left to right."""
    aside = [glyph for glyph in glyphs if glyph.aside]
    plain = [glyph for glyph in glyphs if not glyph.aside]
    runs = _joined(_runs(plain))
    made = [_piece(run) for run in runs] + [_aside(run) for run in _cut(aside)]
    found = [piece for piece in made if piece.text]
    return tuple(sorted(found, key=lambda piece: (-piece.base, piece.left)))


def _runs(glyphs: Sequence[Glyph]) -> list[list[Glyph]]:
    """Glyphs in the file's order, cut where one does not follow the one before on its line."""
    runs: list[list[Glyph]] = []
    for glyph in glyphs:
        if runs and _follows(runs[-1], glyph):
            runs[-1].append(glyph)
        else:
            runs.append([glyph])
    return runs


def _cut(aside: list[Glyph]) -> list[list[Glyph]]:
    """What stands aside, in stretches that are short enough to be named."""
    return [aside[start : start + 400] for start in range(0, len(aside), 400)]


def _aside(run: list[Glyph]) -> Piece:
    """What stands aside, in the file's order: its place on the page says nothing."""
    text = "".join((" " if glyph.space else "") + glyph.text for glyph in run).strip()
    first = run[0]
    return Piece(text, first.left, first.right, first.base, first.size, 0.0, aside=True)


def _follows(run: list[Glyph], glyph: Glyph) -> bool:
    before = run[-1]
    if glyph.left == before.left and glyph.base == before.base:
        return True  # the next letter of a ligature
    size = max(before.size, glyph.size)
    gap = glyph.left - before.right
    if not -0.4 * size < gap < GAP * size:
        return False
    rise = abs(glyph.base - before.base)
    if rise <= 0.15 * size:
        return True
    # Small type above or below the line belongs to it when it touches the word before.
    least = min(before.size, glyph.size)
    if _INITIAL * size < least <= _RAISED_LESS * size and rise < 0.6 * size and gap < 0.35 * size:
        return True
    return rise < 0.6 * size and any(
        abs(glyph.base - other.base) <= 0.15 * size for other in run[-6:]
    )


def _joined(runs: list[list[Glyph]]) -> list[list[Glyph]]:
    """Runs that stand on one line without a wide gap are one, whatever order they came in."""
    ordered = sorted(runs, key=lambda run: (-_base(run), run[0].left))
    rows: list[tuple[float, float, list[list[Glyph]]]] = []
    for run in ordered:
        base, size = _base(run), max(glyph.size for glyph in run)
        for row in reversed(rows[-4:]):
            if abs(row[0] - base) <= 0.2 * min(size, row[1]):
                row[2].append(run)
                break
        else:
            rows.append((base, size, [run]))
    made: list[list[Glyph]] = []
    for _, _, row_runs in rows:
        made += _row_joined(sorted(row_runs, key=lambda run: min(g.left for g in run)))
    return made


def _row_joined(row: list[list[Glyph]]) -> list[list[Glyph]]:
    made: list[list[Glyph]] = []
    for run in row:
        left = min(glyph.left for glyph in run)
        if made:
            right = max(glyph.right for glyph in made[-1])
            size = min(max(g.size for g in made[-1]), max(g.size for g in run))
            if -2 * size < left - right < GAP * size and _alike(made[-1], run):
                made[-1] = made[-1] + run
                continue
        made.append(list(run))
    return made


def _alike(one: list[Glyph], other: list[Glyph]) -> bool:
    """A large initial is not of the line beside it, nor is a watermark."""
    sizes = max(g.size for g in one), max(g.size for g in other)
    return max(sizes) < 1.8 * min(sizes) or (len(one) > 3 and len(other) > 3)


def _base(run: list[Glyph]) -> float:
    """The base line of a run: that of its largest type."""
    largest = max(glyph.size for glyph in run)
    return median(glyph.base for glyph in run if glyph.size > 0.9 * largest)


def _piece(run: list[Glyph]) -> Piece:
    """A run as text. Order on the line is by place, except that right-to-left text is turned."""
    size = _size(run)
    base = _base(run)
    ordered = _accents_last(_in_order(run))
    least_gap = _find_least_gap(ordered, size)
    text, raised, first_end = "", [], 0.0
    for number, glyph in enumerate(ordered):
        if number and _is_gap(ordered[number - 1], glyph, least_gap, size):
            text += " "
        elif text and _is_accent(glyph, ordered[number - 1]):
            text = unicodedata.normalize("NFC", text + _ACCENTS.get(glyph.text, glyph.text))
            continue
        if " " not in text:
            first_end = glyph.right
        start = len(text)
        text += _SPACING.get(glyph.text, glyph.text)
        if glyph.size <= _RAISED_LESS * size and glyph.base - base > 0.15 * size:
            raised.append((start, len(text)))
    left = min(glyph.left for glyph in run)
    letters = len(run)
    return Piece(
        text=text, left=left,
        right=max(glyph.right for glyph in run), base=base, size=size,
        first=max(0.0, first_end - left),
        bold=sum(glyph.bold for glyph in run) > 0.8 * letters,
        mono=sum(glyph.mono for glyph in run) > 0.9 * letters,
        raised=_merged(raised),
    )  # fmt: skip


def _size(run: list[Glyph]) -> float:
    """The size of most of a run, by letters."""
    counts: dict[float, int] = {}
    for glyph in run:
        key = round(glyph.size, 1)
        counts[key] = counts.get(key, 0) + 1
    return max(counts, key=lambda size: (counts[size], size))


class _LeastGap(NamedTuple):
    """How wide, in ems, a gap must be to part two words."""

    unseen: float
    seen: float
    """Where PDFium took it for a space."""


def _find_least_gap(ordered: list[Glyph], size: float) -> _LeastGap:
    """What parts words on this line: more where letters are spaced out, less in tight lines."""
    gaps = sorted(
        (after.left - before.right) / size
        for before, after in zip(ordered, ordered[1:], strict=False)
        if before.text[-1].isalnum() and after.text[0].isalnum()
    )
    if len(gaps) < 3:
        return _LeastGap(_WIDE, _SEEN)
    usual = gaps[len(gaps) // 2]
    if usual >= 0.12:  # spaced out: PDFium takes every gap for a space
        return _LeastGap(usual + _WIDE, usual + _WIDE)
    wider = [gap for gap in gaps if gap > usual + _TIGHT]
    if len(wider) >= 3 and 20 * len(wider) > len(gaps) and 2 * len(wider) < len(gaps):
        half = usual + (wider[len(wider) // 2] - usual) / 2
        if half > usual + _TIGHT:  # two sorts of gaps: between letters, and between words
            return _LeastGap(min(_WIDE, half), min(_SEEN, half))
    return _LeastGap(_WIDE, _SEEN)


def _is_gap(before: Glyph, after: Glyph, least: _LeastGap, size: float) -> bool:
    gap = after.left - before.right
    if gap < 0:  # right to left
        gap = max(gap, before.left - after.right)
    if after.space == 2 and gap > -0.2 * after.size:
        return True  # a space that the file has
    return gap > size * (least.seen if after.space == 1 else least.unseen)


def _in_order(run: list[Glyph]) -> list[Glyph]:
    ordered = sorted(run, key=lambda glyph: glyph.left)
    leftward = sum(unicodedata.bidirectional(g.text[0]) in ("R", "AL") for g in run)
    rightward = sum(unicodedata.bidirectional(g.text[0]) == "L" for g in run)
    if leftward <= rightward:
        return ordered
    made: list[Glyph] = []
    for glyph in reversed(ordered):
        # Numbers and foreign words inside keep their own direction.
        kind = unicodedata.bidirectional(glyph.text[0])
        if kind in ("L", "EN", "AN"):
            place = len(made)
            while place and unicodedata.bidirectional(made[place - 1].text[0]) in ("L", "EN", "AN"):
                place -= 1
            made.insert(place, glyph)
        else:
            made.append(glyph)
    return made


_ACCENTS = {
    "\u00b4": "\u0301", "`": "\u0300", "\u00a8": "\u0308", "\u02c6": "\u0302", "\u02dc": "\u0303",
    "\u02c7": "\u030c", "\u00b8": "\u0327", "\u00af": "\u0304", "\u02da": "\u030a",
    "\u02d8": "\u0306", "\u02d9": "\u0307", "\u02dd": "\u030b", "\u02db": "\u0328",
}  # fmt: skip
_SPACING = {combining: spacing for spacing, combining in _ACCENTS.items()}
"""Accents that stand over no letter: some fonts call their quotation marks so."""


def _is_accent(glyph: Glyph, before: Glyph) -> bool:
    """An accent that is drawn over the letter before it."""
    is_accent = glyph.text in _ACCENTS or bool(unicodedata.combining(glyph.text[0]))
    return is_accent and before.text[-1:].isalpha() and _over(glyph, before)


def _over(accent: Glyph, letter: Glyph) -> bool:
    return letter.left < (accent.left + accent.right) / 2 < letter.right


def _accents_last(ordered: list[Glyph]) -> list[Glyph]:
    """Accents after the letters that they are drawn over."""
    made = list(ordered)
    for place in range(len(made) - 1):
        one, two = made[place : place + 2]
        if one.text in _ACCENTS and two.text[-1:].isalpha() and _over(one, two):
            made[place : place + 2] = two, one
    return made


def _merged(spans: list[Span]) -> tuple[Span, ...]:
    made: list[Span] = []
    for start, end in spans:
        if made and made[-1][1] == start:
            made[-1] = (made[-1][0], end)
        else:
            made.append((start, end))
    return tuple(made)
