"""Cached vectors: the key of each text, its vector as bytes, and what may be trusted.

    cached = CachedEmbedder(embedder, VectorCache(cache, model))
    for block in cached.embed(texts): ...

A vector is stored as little-endian float32 under a key made of everything that shapes it. What
comes back is checked: of another length, or not finite, it counts as missing and is dropped. A
cache that fails costs a warning and the vectors being made again; it is asked again half a minute
later.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, get_args

from anyrig.documents.model import VERSION
from anyrig.documents.ordered import iter_chunks, run_ordered
from anyrig.documents.protocol import Use
from anyrig.errors import StorageError
from anyrig.storage.cache import CacheEntry
from anyrig.storage.keys import JsonValue, make_key, make_key_function

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.protocol import LongTexts, Vectors
    from anyrig.storage.cache import Cache

    Matrix = NDArray[np.float32]

log = logging.getLogger(__name__)
T = TypeVar("T")
KIND = "embedding"
"""What vectors are called in the cache."""
RETRY_S = 30.0
"""How long a cache that failed is left alone."""
BLOCK = 1024
"""Texts that are looked up, and written, at once."""
_MAX_BLOCKS = 8
"""Blocks of found vectors that may wait for one that is made."""


class VectorCache:
    """The vectors of one model in a cache. Threads may share it if they may share the cache.

    Args:
        cache: of this machine, or shared.
        model: whose vectors; with what follows it shapes them. The device does not.
        precision: the precision class: `fp32`, `half`, `int8`.
        long: what becomes of a text that is longer than the model takes.
        deterministic: whether a text's vector is the same bytes in any batch.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        cache: Cache,
        model: EmbeddingModel,
        *,
        precision: str = "fp32",
        long: LongTexts = "windows",
        deterministic: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache, self._model, self._clock = cache, model, clock
        self._precision, self._long, self._deterministic = precision, long, deterministic
        self._key_functions: dict[str, Callable[[str], str]] = {}
        self._retry_at = float("-inf")

    def make_key(self, text: str, use: Use = "passage") -> str:
        """The key of a text's vector."""
        function = self._key_functions.get(use)
        if function is None:
            base = self._make_base_key(use)
            function = self._key_functions[use] = make_key_function(kind=KIND, base=base)
        return function(text)

    def _make_base_key(self, use: Use) -> str:
        """The key of all that shapes a vector. Uses with the same prompt share their vectors."""
        model, prompt = self._model, self._model.prompt(use)
        windows = "pooled" if self._long == "windows" else "cut"
        # Each window has the prompt; the key of a model without prompts is the old one.
        windows = f"{windows}, prompted" if prompt else windows
        return make_key(
            weights=model.fingerprint, tokenizer="", precision=self._precision,
            longest=model.longest, overlap=model.overlap, windows=windows,
            pooling=model.pooling, normalise=model.normalise, deterministic=self._deterministic,
            prompt=prompt, version=VERSION,
        )  # fmt: skip

    def get_many(self, keys: Iterable[str]) -> dict[str, Matrix]:
        """Those of the vectors that are cached and whole, by key."""
        import numpy as np

        nothing: dict[str, CacheEntry] = {}
        wanted = list(keys)
        found = self._try(lambda: self._cache.get_many(wanted), nothing)
        size = 4 * self._model.dimension
        fit = [one for one in found.values() if one.kind == KIND and len(one.data) == size]
        rows = np.frombuffer(b"".join(one.data for one in fit), "<f4")
        matrix = rows.reshape(len(fit), self._model.dimension).astype(np.float32)
        finite: list[bool] = np.logical_and.reduce(np.isfinite(matrix), axis=1).tolist()
        whole = {one.key: row for one, row, good in zip(fit, matrix, finite, strict=True) if good}
        for name in found.keys() - whole.keys():
            log.warning("the cached vector %s is damaged, and is made again", name)
            self._try(lambda name=name: self._cache.delete(name), False)  # type: ignore[misc]
        return whole

    def put_many(self, keys: Sequence[str], vectors: Matrix | Sequence[Matrix]) -> None:
        """Cache vectors; of those that are cached already the first stays."""
        note: dict[str, JsonValue] = {
            "dimension": self._model.dimension, "engine": self._model.name,
        }  # fmt: skip
        data = (vector.astype("<f4", copy=False).tobytes() for vector in vectors)
        entries = [CacheEntry(key, one, KIND, note) for key, one in zip(keys, data, strict=True)]
        if entries:
            self._try(lambda: self._cache.put_many(entries), 0)

    def forget(self, texts: Iterable[str]) -> int:
        """Delete the vectors of these texts; returns how many. A failure is raised."""
        names = {self.make_key(text, use) for text in texts for use in get_args(Use)}
        # A shared cache that does not answer says it has none; to delete one it must answer.
        there = self._cache.has(names) or set(islice(names, 1))
        return sum(self._cache.delete(name) for name in there)

    def _try(self, ask: Callable[[], T], otherwise: T) -> T:
        """What the cache answers; `otherwise` if it fails, or did so a moment ago."""
        if self._clock() < self._retry_at:
            return otherwise
        try:
            return ask()
        except StorageError as error:
            self._retry_at = self._clock() + RETRY_S
            log.warning("vectors are made without the cache for now: %s", error.message)
            return otherwise


@dataclass(frozen=True)
class _CachedBlock:
    """Texts that were looked up together."""

    keys: list[str]
    found: dict[str, Matrix]
    missing: dict[str, str]
    """The texts whose vectors are to be made, each once, by key."""


class CachedEmbedder:
    """Vectors that are looked up first; those that are missing are made, and cached.

    Several threads may share it if they may share what it stands on. What is made is written when
    it comes.

    Args:
        vectors: make what is missing.
        cache: is looked up first.
        on_found: called with the texts whose vectors are there.
    """

    def __init__(
        self,
        vectors: Vectors,
        cache: VectorCache,
        on_found: Callable[[Sequence[str], Use], None] = lambda *_: None,
    ) -> None:
        self._vectors, self._cache, self._on_found = vectors, cache, on_found
        self.num_found = self.num_made = 0
        """Over all calls so far."""

    @property
    def model(self) -> EmbeddingModel:
        return self._vectors.model

    def embed(self, texts: Iterable[str], *, use: Use = "passage") -> Iterator[Matrix]:
        keys: deque[str] = deque()
        """Of the vectors that are being made, in order."""

        def look_up(some: Sequence[str]) -> tuple[_CachedBlock, list[str]]:
            block = self._look_up(some, use)
            keys.extend(block.missing)
            return block, list(block.missing.values())

        def make(missing: Iterator[str]) -> Iterator[Matrix]:
            for rows in self._vectors.embed(missing, use=use):
                self._cache.put_many([keys.popleft() for _ in rows], rows)
                yield from rows

        return run_ordered(
            iter_chunks(texts, BLOCK), look_up, make, self._join, max_pending=_MAX_BLOCKS
        )

    def matrix(self, texts: Iterable[str], *, use: Use = "passage") -> Matrix:
        return stack_blocks(self.embed(texts, use=use), self.model.dimension)

    def _look_up(self, texts: Sequence[str], use: Use) -> _CachedBlock:
        keys = [self._cache.make_key(text, use) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        found = self._cache.get_many(by_key)
        self._on_found([by_key[key] for key in found], use)
        return _CachedBlock(keys, found, {key: by_key[key] for key in by_key if key not in found})

    def _join(self, block: _CachedBlock, made: list[Matrix]) -> Matrix:
        import numpy as np

        self.num_made += len(made)
        self.num_found += len(block.keys) - len(made)
        vectors = {**block.found, **dict(zip(block.missing, made, strict=True))}
        return np.stack([vectors[key] for key in block.keys])


def stack_blocks(blocks: Iterable[Matrix], dimension: int) -> Matrix:
    """All rows as one matrix."""
    import numpy as np

    found = list(blocks)
    return np.concatenate(found) if found else np.empty((0, dimension), np.float32)
