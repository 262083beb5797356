"""Words counted into places by their hash: a model without weights, for tests and first tries.

It knows nothing of meaning: texts are near when they share words, or pieces of words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.bundle import texts_of
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.placement import Placement

_WORD = re.compile(r"\w{1,100}")  # a longer run is no word, and its pieces would fill a memory
_PIECE = 4
"""Letters of a piece of a word: so `cats` is near `cat`."""


class Hashing(BaseEngine):
    """Bundles of texts to as many vectors, as bytes of float32."""

    name = "hashing"
    version = "1"
    pads = False
    batch_invariant = True

    def __init__(self, placement: Placement, *, dimension: int = 256, **_: object) -> None:
        """Load nothing."""
        self._dimension = dimension

    def run(self, batch: Sequence[bytes]) -> list[bytes]:
        """The vectors of each bundle."""
        return [np.stack([self._vector(text) for text in texts_of(one)]).tobytes() for one in batch]

    def _vector(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        made = np.zeros(self._dimension, np.float32)
        for word in map(re.Match.group, _WORD.finditer(text.lower())):
            for piece, weight in _pieces(word):
                made[piece % self._dimension] += weight
        size = float(np.linalg.norm(made))
        if not size:
            made[0] = size = 1.0
        return made / np.float32(size)


@lru_cache(maxsize=20_000)
def _pieces(word: str) -> tuple[tuple[int, float], ...]:
    """A word's places, and how much it adds to each."""
    found = [(_hash(word), 1.0)]
    if len(word) > _PIECE:
        parts = [word[n : n + _PIECE] for n in range(len(word) - _PIECE + 1)]
        found += [(_hash(f"#{part}"), 0.5 / len(parts) ** 0.5) for part in parts]
    return tuple(found)


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest())
