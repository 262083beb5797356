"""Vectors without a model, for tests of the index: the words of a text, counted by their hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.model import EmbeddingModel
from anyrig.documents.protocol import Use
from anyrig.errors import WorkError

if TYPE_CHECKING:
    from numpy.typing import NDArray

AHEAD = 7
"""Texts that are pulled before the first vector is given, as a model with batches does."""


class Bag:
    """Fits `protocol.Vectors`; counts what it was asked for."""

    def __init__(self, name: str = "bag", dimension: int = 64, bad: str = "") -> None:
        self.model = EmbeddingModel(
            name, Path(), 1 << 20, dimension, fingerprint=f"{name} {dimension}"
        )
        self.asked: list[str] = []
        self.bad = bad
        """A text with this in it cannot be embedded."""

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[NDArray[np.float32]]:
        held: list[str] = []
        for text in texts:
            held.append(text)
            if len(held) >= AHEAD:
                yield np.stack(list(self._made(held)))
                held = []
        if held:
            yield np.stack(list(self._made(held)))

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> NDArray[np.float32]:
        return np.concatenate(list(self.embed(texts, use=use)))

    def _made(self, texts: list[str]) -> Iterator[NDArray[np.float32]]:
        for text in texts:
            if self.bad and self.bad in text:
                raise WorkError(f"no vector of {text[:20]!r}", hint="Leave it out.")
        for text in texts:
            self.asked.append(text)
            yield self.vector(text)

    def vector(self, text: str) -> NDArray[np.float32]:
        made = np.zeros(self.model.dimension, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
            made[number % len(made)] += 1 if number & 1 << 30 else -1
        size = float(np.linalg.norm(made))
        if not size:
            made[0] = size = 1.0
        return made / np.float32(size)
