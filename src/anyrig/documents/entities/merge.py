"""From everything that was found to what is told: no two overlap, and the surer one stays.

What a grammar checked beats a name; of grammars the stricter comes first, and of equals the longer.
A number that fails its check still keeps others from making a telephone number of its digits.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from anyrig.documents.entities.entity import NAMES, Entity
from anyrig.documents.entities.labels import cleaned

_RANKS = {
    "iban": 0,
    "email": 0,
    "tax": 1,
    "card": 2,
    "percent": 3,
    "money": 3,
    "date": 3,
    "phone": 4,
}
_SURE = 0.9


def merged(
    found: Iterable[Entity],
    *,
    unchecked: bool = False,
    kinds: Sequence[str] | None = None,
) -> list[Entity]:
    """What stays, in the order of the text.

    Args:
        found: by grammars and models, in any order.
        unchecked: whether what fails its check is told, marked as such.
        kinds: those that are wanted; all when None. The others still settle what overlaps.
    """
    kept = _Kept()
    for one in sorted(found, key=_order):
        if one.kind in NAMES or one.source != "grammar":
            one = kept.rest_of(one) or one
        if kept.is_free(one):
            kept.add(one)
    told = (one for one in kept.entities() if unchecked or one.valid is not False)
    return [one for one in told if kinds is None or one.kind in kinds]


def _order(one: Entity) -> tuple[float, float, int, float, int]:
    """The surest first: a check that holds, a strict form, length."""
    rank: float = _RANKS.get(one.kind, 5)
    if one.source != "grammar":
        rank = 7.0 if one.source == "gazetteer" else 6.0
    holds = 0 if one.valid or (one.valid is None and one.score >= _SURE) else 1
    holds = 0 if rank >= 6 else holds
    # A check that fails must not hide a number of another kind whose check holds.
    failed = 4.5 if one.valid is False and rank < 3 else rank
    return (failed, holds, -(one.end - one.start), -one.score, one.start)


class _Kept:
    """Stretches that are taken, found by halving."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._entities: list[Entity] = []

    def entities(self) -> list[Entity]:
        return self._entities

    def is_free(self, one: Entity) -> bool:
        return one.end > one.start and not self._overlapped(one)

    def add(self, one: Entity) -> None:
        at = bisect.bisect_left(self._starts, one.start)
        self._starts.insert(at, one.start)
        self._entities.insert(at, one)

    def rest_of(self, one: Entity) -> Entity | None:
        """A name less what is taken at one of its ends: `Ana Ruiz 12 de mayo`."""
        over = self._overlapped(one)
        if len(over) != 1 or over[0].source != "grammar":
            return None
        (other,) = over
        if other.start > one.start and other.end >= one.end:
            text = one.text[: other.start - one.start].rstrip(" ,;:(-\n\t")
            start = one.start
        elif other.start <= one.start and other.end < one.end:
            rest = one.text[other.end - one.start :]
            text = rest.lstrip(" ,;:)-\n\t.")
            start = one.end - len(text)
        else:
            return None
        if sum(map(str.isalpha, text)) < 2 or not any(map(str.isupper, text)):
            return None
        return cleaned(replace(one, text=text, start=start, end=start + len(text)))

    def _overlapped(self, one: Entity) -> list[Entity]:
        at = max(0, bisect.bisect_right(self._starts, one.start) - 1)
        over = []
        while at < len(self._starts) and self._starts[at] < one.end:
            if self._entities[at].end > one.start:
                over.append(self._entities[at])
            at += 1
        return over


def joined(names: Sequence[Entity], between: Callable[[int, int], str]) -> list[Entity]:
    """Names with their parts in one piece: `Jean` and `-Luc`, `María` and `López`.

    Args:
        names: in order, none overlapping.
        between: the text from one offset to another.
    """
    whole: list[Entity] = []
    for one in names:
        last = whole[-1] if whole else None
        if (
            last is not None and last.kind == one.kind == "person" and last.source == one.source
            and 0 <= one.start - last.end <= 1 and between(last.end, one.start) in ("", " ", "-")
        ):  # fmt: skip
            text = last.text + between(last.end, one.start) + one.text
            score = min(last.score, one.score)
            whole[-1] = replace(last, text=text, end=one.end, score=score)
        else:
            whole.append(one)
    return whole
