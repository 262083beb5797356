"""The recogniser's last step: from what it saw in each column to characters and their places.

The network knows 18,710 characters, and a third of its time went into weighing all of them for
every column. Its last layer is therefore taken out of the graph and done here, for the characters
of the script that the page is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

_BORROWED, _RARE = 2.0, 4.0
"""How much less likely a letter is that a language borrows, or that it has no use for: as powers
of e, seven and fifty times."""


_COLUMNS = 256
"""Of a line that are weighed at once."""
_OVERLOOKED = {"ï": 4.0, "ë": 2.0, "ü": 2.0, "œ": 2.0}
"""Letters that the recogniser prints too seldom, where a language has them. Of 72 letters in noisy
French lines, it held `ï` for e to the 7th times less likely than `i`, or less, on every plain `i`,
and for at most e times less likely on every `ï`."""


@dataclass(frozen=True)
class Char:
    """A character in a line."""

    text: str
    column: float
    """Where its likeliest column is; 0 is the beginning of the line, 1 its end."""
    confidence: float


@dataclass(frozen=True)
class Alphabet:
    """The last layer, for some characters."""

    characters: tuple[str, ...]
    """The first is the blank."""
    weights: NDArray[np.float32]
    bias: NDArray[np.float32]

    def only(self, wanted: Iterable[str]) -> Alphabet:
        """For the blank and these characters alone."""
        kept = set(wanted)
        places = [n for n, one in enumerate(self.characters) if n == 0 or one in kept]
        return Alphabet(
            tuple(self.characters[n] for n in places),
            np.ascontiguousarray(self.weights[:, places]), self.bias[places],
        )  # fmt: skip

    def expecting(self, own: frozenset[str], loans: frozenset[str]) -> Alphabet:
        """The same, with letters beyond its own held to be rare: only a clear sight prints them."""
        bias = self.bias.copy()
        for number, one in enumerate(self.characters):
            if one.isalpha() and one.lower() not in own:
                bias[number] -= _BORROWED if one.lower() in loans else _RARE
            elif one.isalpha():
                bias[number] += _OVERLOOKED.get(one.lower(), 0.0)
        return replace(self, bias=bias)

    def best(self, seen: NDArray[np.float32]) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The likeliest character of each column, and how likely it is."""
        if len(seen) > _COLUMNS:  # all characters of a long line would take 200 MB
            parts = [self.best(seen[n : n + _COLUMNS]) for n in range(0, len(seen), _COLUMNS)]
            return np.concatenate([a for a, _ in parts]), np.concatenate([b for _, b in parts])
        weighed = seen @ self.weights + self.bias
        best = weighed.argmax(axis=1)
        weighed -= weighed[np.arange(len(best)), best][:, None]
        # Below this a number says nothing and soon becomes one that CPUs are slow with.
        np.maximum(weighed, -30.0, out=weighed)
        return best, np.asarray(1 / np.exp(weighed).sum(axis=1), np.float32)

    def read(self, seen: NDArray[np.float32], share: float = 1.0) -> list[Char]:
        """The characters of a line.

        Args:
            seen: columns x features.
            share: how much of the columns is the line; the rest is padding.
        """
        columns = max(1, min(len(seen), round(len(seen) * share)))
        best, sure = self.best(seen)
        found: list[Char] = []
        start = 0
        for end in range(1, len(best) + 1):
            if end < len(best) and best[end] == best[start]:
                continue
            if best[start]:
                place = start + int(sure[start:end].argmax())
                column = min(1.0, (place + 0.5) / columns)
                found.append(Char(self.characters[best[start]], column, float(sure[place])))
            start = end
        return found


def joined(chars: Sequence[Char]) -> str:
    """The text of characters."""
    return "".join(char.text for char in chars)


def certainty(chars: Sequence[Char]) -> float:
    """Their mean confidence; 0 for none."""
    return float(np.mean([char.confidence for char in chars])) if chars else 0.0
