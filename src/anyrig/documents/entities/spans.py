"""From the label of each word to stretches of text: B-, I-, O, and the schemes with ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """What a model found in a window."""

    start: int
    end: int
    label: str
    score: float


class Word(NamedTuple):
    """A word with the label that its first token got."""

    start: int
    end: int
    label: str
    score: float


_PREFIX = re.compile(r"([BIOESLUM])[-_](.+)")
_OPENS, _CLOSES = frozenset("BSU"), frozenset("ESLU")


def words_of(
    offsets: Sequence[tuple[int, int]],
    word_ids: Sequence[int | None],
    labels: Sequence[str],
    scores: Sequence[float],
    text: str,
) -> list[Word]:
    """The words of a row of tokens; special tokens, which belong to no word, are left out."""
    found: list[Word] = []
    last: int | None = None
    for (start, end), number, label, score in zip(offsets, word_ids, labels, scores, strict=True):
        if number is None or end <= start:
            last = None if number is None else last
            continue
        while start < end and text[start].isspace():  # byte-level tokens hold the space before
            start += 1
        if number == last and found:
            found[-1] = found[-1]._replace(end=max(end, found[-1].end))
        elif start < end:
            found.append(Word(start, end, label, score))
            last = number
    return found


def spans_of(words: Iterable[Word], text: str, threshold: float = 0.0) -> list[Span]:
    """Stretches of one label; what stands between two of its words must be blank or nothing."""
    found: list[Span] = []
    scores: list[float] = []
    open_label = ""
    for word in words:
        prefix, label = _parted(word.label)
        if not label:
            open_label = ""
            continue
        near = found and not text[found[-1].end : word.start].strip()
        if open_label == label and prefix not in _OPENS and near:
            scores.append(word.score)
            mean = sum(scores) / len(scores)
            found[-1] = found[-1]._replace(end=word.end, score=mean)
        else:
            scores = [word.score]
            found.append(Span(word.start, word.end, label, word.score))
        open_label = "" if prefix in _CLOSES else label
    return [span for span in found if span.score >= threshold]


def _parted(label: str) -> tuple[str, str]:
    """`B-PER` to its prefix and `PER`; a plain label is inside, `O` is nothing."""
    if label in ("O", "", "o", "OUT"):
        return "", ""
    parted = _PREFIX.fullmatch(label)
    return (parted[1], parted[2]) if parted else ("I", label)


def owned(parts: Sequence[tuple[int, int, list[Span]]]) -> list[Span]:
    """The spans of a text that was read in parts which overlap, each from the part it is deeper in.

    Args:
        parts: where each begins and ends in the text, and what was found there.
    """
    found: list[Span] = []
    begin = -1
    for number, (_, end, spans) in enumerate(parts):
        last = number + 1 == len(parts)
        limit = 1 << 62 if last else (parts[number + 1][0] + end) // 2
        found += [span for span in spans if begin <= span.start < limit]
        begin = limit
    return found
