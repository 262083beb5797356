"""What the parts of documents need of an embedding model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.model import EmbeddingModel

    Matrix = NDArray[np.float32]

Use = Literal["passage", "query"]
"""What a vector is for: some models have another prompt for queries."""


LongTexts = Literal["windows", "cut"]
"""What is done with a text that is longer than the model takes."""


_CHARACTERS_PER_TOKEN = 4
_TEXT_COST = 2
"""Of a text beside its characters, in tokens: those at its ends."""


class TextBlock(NamedTuple):
    """Some texts that travel to a worker together: a short one costs a device less than a queue."""

    texts: Sequence[str]
    use: Use = "passage"


def estimate_cost(block: TextBlock) -> float:
    """What a block costs, in tokens."""
    return sum(map(len, block.texts)) / _CHARACTERS_PER_TOKEN + _TEXT_COST * len(block.texts)


class Vectors(Protocol):
    """Texts to vectors: an `Embedder`, perhaps behind a cache."""

    @property
    def model(self) -> EmbeddingModel: ...

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[Matrix]:
        """The vectors in order, in blocks of rows; of length 1 if the model normalizes."""

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Matrix:
        """All vectors as the rows of one matrix."""
