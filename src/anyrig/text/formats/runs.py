"""Runs of text, as word processors keep them, woven into one block's text and its inlines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from anyrig.text.document import Inline, InlineKind

_SPACES = re.compile(r"[ \t\r\n\f\v\u00a0\u2028\u2029]+")
_SPACES_IN_LINE = re.compile(r"[ \t\r\f\v\u00a0\u2028\u2029]+")


class InlineRun(NamedTuple):
    """A stretch of text of one kind."""

    text: str
    kind: InlineKind | None = None
    value: str = ""
    language: str = ""


class InlineText(NamedTuple):
    """A block's text, and what stands in it."""

    text: str
    inlines: tuple[Inline, ...] = ()
    language: str = ""
    """Of all of it, where all of it has one."""


def join_runs(runs: Iterable[InlineRun], *, lines: bool = False) -> InlineText:
    """One text with single spaces, from runs that may begin and end with any.

    Args:
        runs: in order.
        lines: whether line ends stay, as in a poem or code.
    """
    spaces = _SPACES_IN_LINE if lines else _SPACES
    parts: list[str] = []
    inlines: list[Inline] = []
    tongues: list[InlineRun] = []
    length, last = 0, " "
    for run in runs:
        piece = spaces.sub(" ", run.text)
        if last.isspace():
            piece = piece.lstrip(" ")
        if not piece:
            continue
        if (
            parts and piece[0] in "\n\x1f" and last == " "
        ):  # no space before a line's or a cell's end
            parts[-1] = parts[-1][:-1]
            tongues[-1] = tongues[-1]._replace(text=parts[-1])
            length -= 1
        if run.kind:
            inlines.append(_build_inline(piece, length, run.kind, run.value))
        tongues.append(InlineRun(piece, language=run.language))
        parts.append(piece)
        length += len(piece)
        last = piece[-1]
    text = "".join(parts)
    whole, stretches = _languages(tongues)
    kept = [_within(one, text) for one in (*stretches, *inlines)]
    ordered = sorted((one for one in kept if one.end > one.start), key=_order)
    return InlineText(text.rstrip(), tuple(ordered), whole)


def spread_cells(rows: Sequence[Sequence[Sequence[InlineRun]]]) -> list[InlineRun]:
    """The rows of a table as runs: a tab between cells, a line end between rows."""
    made: list[InlineRun] = []
    for row in rows:
        if made:
            made.append(InlineRun("\n"))
        for place, cell in enumerate(row):
            if place:
                made.append(InlineRun("\x1f"))
            made.extend(run._replace(text=run.text.replace("\n", " ")) for run in cell)
    return made


def build_table(rows: Sequence[Sequence[Sequence[InlineRun]]]) -> InlineText:
    """A table's text: cells parted by tabs, rows by line ends."""
    cleaned = join_runs(spread_cells(rows), lines=True)
    return cleaned._replace(text=cleaned.text.replace("\x1f", "\t"))


def _build_inline(piece: str, start: int, kind: InlineKind, value: str) -> Inline:
    lead = len(piece) - len(piece.lstrip())
    return Inline(start + lead, start + len(piece.rstrip()), kind, value)


def _within(one: Inline, text: str) -> Inline:
    end = min(one.end, len(text.rstrip()))
    return Inline(one.start, end, one.kind, one.value)


def _order(one: Inline) -> tuple[int, bool, int]:
    return (one.start, one.kind != "language", one.end)


def _languages(tongues: Sequence[InlineRun]) -> tuple[str, list[Inline]]:
    """The one language of all runs, or the stretches that have any."""
    spoken = {run.language for run in tongues if run.text.strip()}
    if len(spoken) <= 1:
        return next(iter(spoken), ""), []
    made: list[Inline] = []
    at = 0
    for run in tongues:
        end = at + len(run.text)
        if run.language:
            before = made[-1] if made else None
            if before and before.end == at and before.value == run.language:
                made[-1] = Inline(before.start, end, "language", run.language)
            else:
                made.append(Inline(at, end, "language", run.language))
        at = end
    return "", made
