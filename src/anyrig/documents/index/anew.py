"""Texts of an index embedded anew, after a change of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyrig.documents.index.nearest import unit
from anyrig.errors import Message, OutOfMemoryError, WorkError

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors

MOST_BROKEN = 20
"""In a row that cannot be embedded: then it is not their fault."""


class Anew:
    """A text that gets no vector costs itself alone, unless many in a row get none."""

    def __init__(self, vectors: Vectors) -> None:
        self.warnings: list[str] = []
        self._vectors, self._num_broken = vectors, 0

    def made(self, some: Sequence[tuple[int, str]]) -> list[tuple[int, bytes]]:
        """Vectors of numbered texts, as bytes under their numbers."""
        try:
            found = self._vectors.matrix([body for _, body in some])
        except (WorkError, OutOfMemoryError) as error:
            if len(some) > 1:
                half = len(some) // 2
                return self.made(some[:half]) + self.made(some[half:])
            self._num_broken += 1
            if self._num_broken >= MOST_BROKEN:
                raise
            self.warnings.append(
                Message("a passage has no vector: {problem}", problem=error.message)
            )
            return []
        self._num_broken = 0
        model = self._vectors.model
        return [
            (number, unit(one, model).tobytes())
            for (number, _), one in zip(some, found, strict=True)
        ]
