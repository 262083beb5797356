"""Texts to vectors: cut into tokens ahead of time, packed by budget, on every device placed.

    with Embedder(model, placed=placed, environment=environment) as embedder:
        for vector in embedder.embed(texts): ...

A text longer than the model takes is embedded in windows that overlap, and its vector is their
mean, each weighed by its tokens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.tokenise import Tokeniser
from anyrig.errors import WorkFailed
from anyrig.work.engine import Recipe
from anyrig.work.outcome import Report
from anyrig.work.pool import Pool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.memory.limits import Limits
    from anyrig.placement import Placed

LOOK_AHEAD = 32_768
_EACH = 4.0  # tokens that a text costs beside its own


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
        import numpy as np

        told: deque[tuple[int, bool]] = deque()

        def payloads() -> Iterator[bytes]:
            for window in self._tokeniser.windows(texts):
                told.append((len(window.tokens), window.last))
                yield window.tokens.tobytes()

        parts: list[tuple[int, NDArray[np.float32]]] = []
        outcomes = self._pool.run(
            payloads(), cost=lambda row: len(row) / 4 + _EACH, look_ahead=LOOK_AHEAD, report=report
        )
        for outcome in outcomes:
            count, last = told.popleft()
            if outcome.result is None:
                said = outcome.failure.said if outcome.failure else "no vector"
                raise WorkFailed(f"a text could not be embedded: {said}", hint="See -vv.")
            parts.append((count, np.frombuffer(outcome.result, dtype=np.float32)))
            if last:
                yield parts[0][1] if len(parts) == 1 else self._joined(parts)
                parts = []

    def _joined(self, parts: list[tuple[int, NDArray[np.float32]]]) -> NDArray[np.float32]:
        """The vector of a text that was taken in windows."""
        import numpy as np

        weights = np.array([count for count, _ in parts], np.float32)
        mean = np.average(np.stack([vector for _, vector in parts]), axis=0, weights=weights)
        size = float(np.linalg.norm(mean)) if self.model.normalise else 1.0
        joined: NDArray[np.float32] = (mean / size if size else mean).astype(np.float32)
        return joined
