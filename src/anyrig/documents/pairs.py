"""Pairs of texts to teach an embedding model with: a table, or lines of JSON.

    pairs.jsonl    {"query": ..., "passage": ..., "negatives": [...]} on each line
    pairs.csv      query,passage or query,passage,negative; or text1,text2,score

A score says how near two texts are, from -1 (opposite) or 0 (nothing in common) to 1 (the same).
A line that makes no sense is told of, and the rest go on.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyrig.documents.classify.examples import Trouble
from anyrig.errors import InvalidInputError
from anyrig.text.decode import decode

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
_MOST_BYTES = 500_000_000
_LONGEST_FIELD = 50_000_000


@dataclass(frozen=True)
class Couple:
    """Two texts, and what is known of them."""

    one: str
    other: str
    negatives: tuple[str, ...] = ()
    """Texts that are no match for the first."""
    score: float | None = None


@dataclass(frozen=True)
class Couples:
    """What a file holds."""

    found: list[Couple]
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def scored(self) -> bool:
        """Whether they have scores."""
        return bool(self.found) and self.found[0].score is not None


def pairs(path: Path) -> Couples:
    """All pairs of a file.

    InvalidInputError where there are none, or where only some have scores.
    """
    told = Couples([])
    for place, row in _rows(path):
        one = row if isinstance(row, Trouble) else _couple(row, place)
        if isinstance(one, Trouble):
            told.troubles.append(one)
        else:
            told.found.append(one)
    if not told.found:
        why = f": {told.troubles[0].place}: {told.troubles[0].said}" if told.troubles else ""
        raise InvalidInputError(f"there are no pairs in {path}{why}", hint=_HINT)
    if any((one.score is not None) != told.scored for one in told.found):
        raise InvalidInputError(
            f"{path.name} has pairs with scores and without", hint="Keep one kind."
        )
    return told


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | Trouble]]:
    try:
        size = path.stat().st_size
        data = path.read_bytes() if path.is_file() and size <= _MOST_BYTES else b""
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}", hint=_HINT
        ) from error
    if not data.strip():
        said = "larger than 500 MB" if size > _MOST_BYTES else "empty, or not a regular file"
        raise InvalidInputError(f"{path.name} is {said}", hint=_HINT)
    text = decode(data, path.name).lstrip("\ufeff")
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json") or text.lstrip()[:1] in ("{", "["):
        yield from _of_json(text, path.name)
    else:
        yield from _of_table(text, path.name)


def _of_json(text: str, name: str) -> Iterator[tuple[str, Mapping[str, Any] | Trouble]]:
    lines: list[Any] = text.split("\n")
    what = "line"
    if text.lstrip().startswith("["):
        try:
            lines, what = json.loads(text), "entry"
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"{name} is not valid JSON: {error}", hint=_HINT) from error
    for number, line in enumerate(lines, 1):
        place, row = f"{name}, {what} {number}", line
        if what == "line":
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield place, Trouble(place, f"it is not valid JSON: {error}")
                continue
        if isinstance(row, dict):
            yield place, row
        else:
            yield place, Trouble(place, "it is not a JSON object")


def _of_table(text: str, name: str) -> Iterator[tuple[str, Mapping[str, Any] | Trouble]]:
    csv.field_size_limit(_LONGEST_FIELD)
    first = text.lstrip("\r\n").split("\n", 1)[0]

    def sense(mark: str) -> int:
        cells = {cell.strip().lower() for cell in next(csv.reader([first], delimiter=mark), [])}
        return len(cells & {*_FIRST, *_SECOND})

    mark = max((",", ";", "\t"), key=sense)
    if sense(mark) < 2:
        raise InvalidInputError(f"{name} does not say which columns are the two texts", hint=_HINT)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark)
    try:
        for row in reader:
            place = f"{name}, line {reader.line_num}"
            yield place, {key: value for key, value in row.items() if isinstance(key, str)}
    except csv.Error as error:
        raise InvalidInputError(
            f"{name} is not a valid table: line {reader.line_num}: {error}", hint=_HINT
        ) from error


def _couple(row: Mapping[str, Any], place: str) -> Couple | Trouble:
    named = {str(key).strip().lower(): value for key, value in row.items()}
    one, other = (
        next((named[name] for name in names if isinstance(named.get(name), str)), "")
        for names in (_FIRST, _SECOND)
    )
    if not one.strip() or not other.strip():
        return Trouble(place, "one of its two texts is missing or empty")
    given = next((named[name] for name in _SCORE if named.get(name) not in (None, "")), None)
    if given is None:
        return Couple(one, other, _negatives(named))
    try:
        score = float(given)
    except (TypeError, ValueError):
        return Trouble(place, f"the score is not a number: {str(given)[:40]!r}")
    if not math.isfinite(score) or not -1 <= score <= 1:
        return Trouble(place, f"its score is {score:g}, and must be from -1 to 1")
    return Couple(one, other, score=score)


def _negatives(named: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for name, value in named.items():
        if _NEGATIVE.fullmatch(name):
            several = value if isinstance(value, list) else [value]
            found += [text for text in several if isinstance(text, str) and text.strip()]
    return tuple(dict.fromkeys(found))
