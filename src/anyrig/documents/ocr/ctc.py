"""The recogniser's last step: from what it saw in each column to characters and their places.

The network knows 18,710 characters, and a third of its time went into weighing all of them for
every column. Its last layer is therefore taken out of the graph and done here, for the characters
of the script that the page is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np  # noqa: TID253 - arrays are all this file is about
from numpy.typing import NDArray


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

    def probabilities(self, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        """Columns x characters."""
        weighed = seen @ self.weights + self.bias
        weighed -= weighed.max(axis=1, keepdims=True)
        np.exp(weighed, out=weighed)
        weighed /= weighed.sum(axis=1, keepdims=True)
        return np.asarray(weighed, np.float32)

    def read(self, seen: NDArray[np.float32], share: float = 1.0) -> list[Char]:
        """The characters of a line.

        Args:
            seen: columns x features.
            share: how much of the columns is the line; the rest is padding.
        """
        columns = max(1, min(len(seen), round(len(seen) * share)))
        weighed = self.probabilities(seen)
        best = weighed.argmax(axis=1)
        sure = weighed[np.arange(len(best)), best]
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
