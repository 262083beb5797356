"""Pairs of texts to teach an embedding model with: a table, or lines of JSON.

    pairs.jsonl    {"query": ..., "passage": ..., "negatives": [...]} on each line
    pairs.csv      query,passage or query,passage,negative; or text1,text2,score

A score says how near two texts are, from -1 (opposite) or 0 (nothing in common) to 1 (the same).
A line that makes no sense is reported, and the rest go on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyrig.errors import InvalidInputError
from anyrig.text.manifest import (
    Trouble,
    check_size,
    is_json,
    open_text,
    read_json_rows,
    read_table_rows,
)

_FIRST = ("anchor", "query", "question", "text1", "sentence1", "text_1", "sentence_1", "source")
_SECOND = (
    "positive", "passage", "answer", "text2", "sentence2", "text_2", "sentence_2", "document",
    "target",
)  # fmt: skip
_NEGATIVE = re.compile(r"(hard_)?negatives?(_?\d+)?")
_SCORE = ("score", "similarity")
_HINT = (
    "JSON lines or a CSV with query and passage (and perhaps negative), or text1, text2 and score."
)


@dataclass(frozen=True)
class TextPair:
    """Two texts, and what is known of them."""

    one: str
    other: str
    negatives: tuple[str, ...] = ()
    """Texts that are no match for the first."""
    score: float | None = None


@dataclass(frozen=True)
class PairFile:
    """What a file holds."""

    found: list[TextPair]
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def scored(self) -> bool:
        """Whether they have scores."""
        return bool(self.found) and self.found[0].score is not None


def read_pairs(path: Path) -> PairFile:
    """All pairs of a file.

    InvalidInputError where there are none, or where only some have scores.
    """
    pairs = PairFile([])
    for place, row in _rows(path):
        one = row if isinstance(row, Trouble) else _couple(row, place)
        if isinstance(one, Trouble):
            pairs.troubles.append(one)
        else:
            pairs.found.append(one)
    if not pairs.found:
        why = f": {pairs.troubles[0].place}: {pairs.troubles[0].reason}" if pairs.troubles else ""
        raise InvalidInputError(f"there are no pairs in {path}{why}", hint=_HINT)
    if any((one.score is not None) != pairs.scored for one in pairs.found):
        raise InvalidInputError(
            f"{path.name} has pairs with scores and without", hint="Keep one kind."
        )
    return pairs


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | Trouble]]:
    check_size(path, _HINT)
    with open_text(path, _HINT) as file:
        if is_json(path, file, _HINT):
            yield from read_json_rows(file, path.name, _HINT)
            return

        def rate(head: Sequence[str]) -> int:
            return len(set(head) & {*_FIRST, *_SECOND})

        rows = read_table_rows(file, path.name, rate, _HINT)
        head = [cell.strip().lower() for cell in next(rows)[1]]
        if rate(head) < 2:
            raise InvalidInputError(
                f"{path.name} does not say which columns are the two texts", hint=_HINT
            )
        for line, row in rows:
            if row:
                yield f"{path.name}, line {line}", dict(zip(head, row, strict=False))


def _couple(named: Mapping[str, Any], place: str) -> TextPair | Trouble:
    one, other = (
        next((named[name] for name in names if isinstance(named.get(name), str)), "")
        for names in (_FIRST, _SECOND)
    )
    if not one.strip() or not other.strip():
        return Trouble(place, "one of its two texts is missing or empty")
    given = next((named[name] for name in _SCORE if named.get(name) not in (None, "")), None)
    if given is None:
        return TextPair(one, other, _negatives(named))
    try:
        score = float(given)
    except (TypeError, ValueError):
        return Trouble(place, f"the score is not a number: {str(given)[:40]!r}")
    if not math.isfinite(score) or not -1 <= score <= 1:
        return Trouble(place, f"its score is {score:g}, and must be from -1 to 1")
    return TextPair(one, other, score=score)


def _negatives(named: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for name, value in named.items():
        if _NEGATIVE.fullmatch(name):
            several = value if isinstance(value, list) else [value]
            found += [text for text in several if isinstance(text, str) and text.strip()]
    return tuple(dict.fromkeys(found))
