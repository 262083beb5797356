"""How far what was heard is from what should have been said, in words.

Spelling is not speech, so both sides are first brought to one form (`spoken.py`): a number may be
written in digits or in words and read in several ways, `Mr.` is `mister`, `colour` is `color`,
`light house` is `lighthouse`. Of several fair readings the one that fits best counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyrig.transcription.spoken import Token, tokens

_Words = list[str]


@dataclass(frozen=True)
class WordErrors:
    """The difference between two texts."""

    errors: int
    """Words that were changed, left out or added."""
    words: int
    """Of what should have been said."""
    pairs: tuple[tuple[str, str], ...] = ()
    """What should have been said and what was heard, where they differ; one may be empty."""

    @property
    def rate(self) -> float:
        """Errors for each word; it may be above 1."""
        return self.errors / self.words if self.words else float(self.errors > 0)


def word_errors(said: str, heard: str, language: str = "en") -> WordErrors:
    """The word errors of what was heard against what should have been said."""
    code = language.partition("-")[0].lower() or "en"
    left, right = tokens(said, code), tokens(heard, code)
    picked_left, picked_right = [0] * len(left), [0] * len(right)
    best = _errors(_flat(left, picked_left), _flat(right, picked_right))
    for side, picked in ((left, picked_left), (right, picked_right)):
        for at, token in enumerate(side):
            for number in range(1, len(token)):
                before, picked[at] = picked[at], number
                now = _errors(_flat(left, picked_left), _flat(right, picked_right))
                if now < best:
                    best = now
                else:
                    picked[at] = before
    one, other = _flat(left, picked_left), _flat(right, picked_right)
    return WordErrors(best, len(one), tuple(_pairs(one, other)))


def _flat(side: list[Token], picked: list[int]) -> _Words:
    return [word for token, number in zip(side, picked, strict=True) for word in token[number]]


def _errors(one: _Words, other: _Words) -> int:
    return _table(one, other)[-1][-1]


def _table(one: _Words, other: _Words) -> list[list[int]]:
    """Levenshtein's, in which two words that are one word on the other side are no error."""
    rows = [list(range(len(other) + 1))]
    for i, word in enumerate(one, 1):
        row = [i]
        for j, against in enumerate(other, 1):
            least = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (word != against))
            if i > 1 and one[i - 2] + word == against:
                least = min(least, rows[i - 2][j - 1])
            if j > 1 and other[j - 2] + against == word:
                least = min(least, rows[i - 1][j - 2])
            row.append(least)
        rows.append(row)
    return rows


def _pairs(one: _Words, other: _Words) -> list[tuple[str, str]]:
    """Where the two differ, in order, found by walking the table back."""
    rows = _table(one, other)
    found: list[tuple[str, str]] = []
    i, j = len(one), len(other)
    while i or j:
        here = rows[i][j]
        if i and j and rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]) == here:
            if one[i - 1] != other[j - 1]:
                found.append((one[i - 1], other[j - 1]))
            i, j = i - 1, j - 1
        elif i > 1 and j and one[i - 2] + one[i - 1] == other[j - 1] and rows[i - 2][j - 1] == here:
            i, j = i - 2, j - 1
        elif (
            j > 1 and i and other[j - 2] + other[j - 1] == one[i - 1] and rows[i - 1][j - 2] == here
        ):
            i, j = i - 1, j - 2
        elif i and rows[i - 1][j] + 1 == here:
            found.append((one[i - 1], ""))
            i -= 1
        else:
            found.append(("", other[j - 1]))
            j -= 1
    return found[::-1]
