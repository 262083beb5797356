"""Several readings of one line made into one: each word by the vote of those who saw it."""

from __future__ import annotations

from collections.abc import Sequence

from anyrig.documents.ocr.ctc import Char, certainty, joined

_APART = 0.03
"""How far apart a word may begin in two readings, as a share of the line."""


def voted(readings: Sequence[list[Char]]) -> list[Char]:
    """The reading of which each word was seen most often, and most surely.

    Readings with as many words as most have are compared word by word. Where no two have as many,
    the surest is taken whole.
    """
    some = [words(reading) for reading in readings]
    counts = [len(one) for one in some]
    usual = max(counts, key=lambda count: (counts.count(count), -counts.index(count)))
    if counts.count(usual) == 1:
        return max(readings, key=certainty)
    alike = [one for one in some if len(one) == usual]
    found: list[Char] = []
    for choices in zip(*alike, strict=True):
        found += _best(choices)
    lengths = [len(reading) for reading in readings]
    # Readings that part their words elsewhere would give some of them twice.
    if not min(lengths) <= len(found) <= max(lengths) or _shifted(alike):
        return max(readings, key=certainty)
    return found


def _shifted(alike: Sequence[list[list[Char]]]) -> bool:
    """Whether words of the same number are not the same words."""
    for choices in zip(*alike, strict=True):
        starts = [one[0].column for one in choices]
        if max(starts) - min(starts) > _APART:
            return True
    return False


def words(chars: Sequence[Char]) -> list[list[Char]]:
    """A line cut after its white: each word holds the space that follows it."""
    found: list[list[Char]] = [[]]
    for char in chars:
        found[-1].append(char)
        if char.text.isspace():
            found.append([])
    return [one for one in found if one]


def _best(choices: Sequence[list[Char]]) -> list[Char]:
    said: dict[str, list[list[Char]]] = {}
    for one in choices:
        said.setdefault(joined(one).strip(), []).append(one)
    most = max(said.values(), key=lambda same: sum(map(_weight, same)))
    return max(most, key=certainty)


def _weight(chars: Sequence[Char]) -> float:
    """As sure as its least sure character."""
    return min((char.confidence for char in chars), default=0.0)
