"""What the rooms of documents ask of each other: vectors of texts, and pages that are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.model import Model

Use = Literal["passage", "query"]
"""What a vector is for: some models want other words before a question than before an answer."""


class Vectors(Protocol):
    """Texts to vectors, whatever model and devices stand behind it, kept ones not made again."""

    @property
    def model(self) -> Model:
        """Whose vectors they are: `fingerprint` names them, `dimension` is their length."""

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[NDArray[np.float32]]:
        """A vector of each text in order, of length 1 and finite; made a few at a time."""

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> NDArray[np.float32]:
        """All vectors as the rows of one matrix."""
