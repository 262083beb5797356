"""Texts to vectors: cut into tokens ahead of time, packed by budget, on every device placed.

    with Embedder(model, placed=placed, environment=environment) as embedder:
        for vector in embedder.embed(texts): ...

A text longer than the model takes is embedded in windows that overlap, and its vector is their
mean, each weighed by its tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.bundle import Bundle, bundles
from anyrig.documents.tokenise import Chunk, Tokeniser
from anyrig.errors import WorkFailed
from anyrig.work.engine import Recipe
from anyrig.work.outcome import Outcome, Report
from anyrig.work.pool import Pool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.memory.limits import Limits
    from anyrig.placement import Placed

LOOK_AHEAD = 1024
"""Bundles that may be made ahead."""


@dataclass(frozen=True)
class Model:
    """An embedding model, found without loading it."""

    name: str
    folder: Path
    longest: int
    """Tokens of a window."""
    dimension: int
    pooling: str = "mean"
    normalise: bool = True
    fingerprint: str = ""
    engine: str = "anyrig.documents.engines.torch_encoder:TorchEncoder"
    overlap: int = 32


class Embedder:
    """A model on every device that was placed."""

    def __init__(
        self,
        model: Model,
        *,
        placed: Placed,
        environment: Mapping[str, str],
        limits: Limits | None = None,
        stamp: str = "",
    ) -> None:
        """Start the workers; they load while this goes on."""
        self.model = model
        self._tokeniser = Tokeniser(
            model.folder / "tokenizer.json", longest=model.longest, overlap=model.overlap
        )
        recipe = Recipe(
            model.engine,
            {"folder": str(model.folder), "pooling": model.pooling, "normalise": model.normalise},
            name=f"embed {model.name}",
            version=model.fingerprint[:12],
        )
        self._pool = Pool(
            placed.placements, recipe, environment=environment, fallback=placed.fallback,
            limits=limits, stamp=stamp,
        )  # fmt: skip

    def wait_ready(self) -> None:
        """Wait until the model is loaded everywhere."""
        self._pool.wait_ready()

    def close(self) -> None:
        """End every worker."""
        self._pool.close()

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def embed(
        self, texts: Iterable[str], *, report: Report | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """A vector of each text, in order."""
        told: deque[tuple[Chunk, list[Bundle]]] = deque()

        def parcels() -> Iterator[bytes]:
            for chunk in self._tokeniser.chunks(texts):
                packed = list(bundles(chunk.windows))
                told.append((chunk, packed))
                yield from (bundle.data for bundle in packed)

        outcomes = self._pool.run(
            parcels(), cost=lambda data: len(data) / 4, look_ahead=LOOK_AHEAD, report=report
        )
        for first in outcomes:
            chunk, packed = told.popleft()
            got = [first, *(next(outcomes) for _ in packed[1:])]
            yield from self._texts(chunk, packed, [_vectors(one) for one in got])

    def _texts(
        self, chunk: Chunk, packed: Sequence[Bundle], results: Sequence[bytes]
    ) -> Iterator[NDArray[np.float32]]:
        """The vectors of a chunk's texts, in order."""
        import numpy as np

        found = np.empty((len(chunk.windows), self.model.dimension), np.float32)
        for bundle, data in zip(packed, results, strict=True):
            vectors = np.frombuffer(data, np.float32)
            found[bundle.rows] = vectors.reshape(len(bundle.rows), -1)
        if len(chunk.windows) == chunk.num_texts:
            yield from found
            return
        edges = np.searchsorted(chunk.owners, np.arange(chunk.num_texts + 1))
        for start, end in pairwise(edges):
            lengths = [len(window) for window in chunk.windows[start:end]]
            yield found[start] if end - start == 1 else self._joined(found[start:end], lengths)

    def _joined(self, vectors: NDArray[np.float32], lengths: Sequence[int]) -> NDArray[np.float32]:
        """The vector of a text that was taken in windows."""
        import numpy as np

        mean = np.average(vectors, axis=0, weights=lengths)
        size = float(np.linalg.norm(mean)) if self.model.normalise else 1.0
        joined: NDArray[np.float32] = (mean / size if size else mean).astype(np.float32)
        return joined


def _vectors(outcome: Outcome[bytes]) -> bytes:
    if outcome.result is None:
        said = outcome.failure.said if outcome.failure else "no vector"
        hint = outcome.failure.hint if outcome.failure else ""
        raise WorkFailed(f"a text could not be embedded: {said}", hint=hint or "-vv says more.")
    return outcome.result
