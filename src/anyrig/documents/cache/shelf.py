"""Where vectors lie in a store: the key of each text, its vector as bytes, what may be trusted.

A vector is kept as little-endian float32 under a key made of everything that shapes it. What comes
back is looked at again: of another length, or not finite, it counts as missing and is dropped, so
that it is made anew. A store that fails costs a warning and the vectors' being made, never the
vectors; it is asked again half a minute later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from anyrig.errors import StorageError
from anyrig.storage.cache import CacheEntry, Claim
from anyrig.storage.keys import JsonValue, make_key, make_key_function

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.protocol import Use
    from anyrig.storage.cache import Cache

    Vector = NDArray[np.float32]

log = logging.getLogger(__name__)
T = TypeVar("T")
KIND = "embedding"
"""What vectors are called in the store."""
AGAIN_S = 30.0
"""How long a store that failed is left alone."""
LAPSE_S = 30.0
"""How long a claim stands whose holder died."""


@dataclass(frozen=True)
class Marks:
    """Everything beside the text that shapes its vector. The device is not among it."""

    weights: str
    """The hash of the model's weights."""
    tokenizer: str
    """The hash of the tokenizer's file."""
    precision: str = "fp32"
    """The precision class: `fp32`, `half`, `int8`."""
    longest: int = 512
    """Tokens of a window."""
    overlap: int = 0
    """Tokens that neighbouring windows share."""
    windows: str = "pooled"
    """What becomes of a longer text: `pooled` over its windows, or `cut`."""
    pooling: str = "mean"
    normalise: bool = True
    deterministic: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The words set before a text, by what its vector is for: `passage`, `query`."""
    engine: str = ""
    """Who made it, for `anyrig cache prune --engine`; no part of the key."""
    version: str = ""
    """Of the way vectors are made: a change that moves them takes another."""

    def base(self, use: Use) -> str:
        """The key of all of it, for one use. Uses with the same prompt share their vectors."""
        prompt = self.prompts.get(use, "")
        # Each window has the prompt; the key of a model without prompts is the old one.
        windows = f"{self.windows}, prompted" if prompt else self.windows
        return make_key(
            weights=self.weights, tokenizer=self.tokenizer, precision=self.precision,
            longest=self.longest, overlap=self.overlap, windows=windows,
            pooling=self.pooling, normalise=self.normalise, deterministic=self.deterministic,
            prompt=prompt, version=self.version,
        )  # fmt: skip


class Shelf:
    """The vectors of one model in a store. Threads may share it where they may share the store.

    Args:
        store: any cache; a shared one lets machines divide the work.
        marks: what shapes the vectors.
        dimension: their length.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        store: Cache,
        marks: Marks,
        dimension: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dimension = dimension
        self._store, self._marks, self._clock = store, marks, clock
        self._keys: dict[str, Callable[[str], str]] = {}
        self._quiet_until = float("-inf")

    def key(self, text: str, use: Use = "passage") -> str:
        """The key of a text's vector."""
        of = self._keys.get(use)
        if of is None:
            of = self._keys[use] = make_key_function(kind=KIND, base=self._marks.base(use))
        return of(text)

    def find(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Those of the vectors that are kept and whole, by key."""
        asked = list(keys)
        nothing: dict[str, CacheEntry] = {}
        found = self._try(lambda: self._store.get_many(asked), nothing)
        whole, bad = self._vectors(list(found.values()))
        for name in bad:
            log.warning("the vector %s is not what was kept, and is made again", name)
            self._drop(name)
        return whole

    def keep(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by key; of those that are kept already the first stays."""
        note: dict[str, JsonValue] = {"dimension": self.dimension, "engine": self._marks.engine}
        entries = [
            CacheEntry(name, vector.astype("<f4", copy=False).tobytes(), KIND, note)
            for name, vector in vectors.items()
        ]
        if entries:
            self._try(lambda: self._store.put_many(entries), 0)

    def forget(self, texts: Iterable[str], uses: Sequence[Use] = ("passage", "query")) -> int:
        """Drop the vectors of these texts for good; how many there were. A failure is raised."""
        names = {self.key(text, use) for text in texts for use in uses}
        # A shared store that does not answer says it has none; to drop one of them it must answer.
        there = self._store.has(names) or set(islice(names, 1))
        return sum(self._store.delete(name) for name in there)

    def claim(self, keys: Iterable[str]) -> Claim:
        """Those that this caller is to make; the rest is in another's hands."""
        asked = tuple(keys)
        alone = Claim("", frozenset(asked))
        if not asked:
            return alone
        return self._try(lambda: self._store.claim(asked, expires_s=LAPSE_S), alone)

    def release(self, claim: Claim) -> None:
        """Let others make what this caller did not."""
        if claim.token and claim.keys:
            self._try(lambda: self._store.release(claim), None)

    def _drop(self, name: str) -> bool:
        return self._try(lambda: self._store.delete(name), False)

    def _vectors(self, results: Sequence[CacheEntry]) -> tuple[dict[str, Vector], list[str]]:
        """Whole ones as rows of one new matrix, and the keys of the others."""
        import numpy as np

        size = 4 * self.dimension
        fit = [one for one in results if one.kind == KIND and len(one.data) == size]
        rows = np.frombuffer(b"".join(one.data for one in fit), "<f4")
        matrix = rows.reshape(len(fit), self.dimension).astype(np.float32)
        finite = np.logical_and.reduce(np.isfinite(matrix), axis=1).tolist()
        whole = {one.key: row for one, row, good in zip(fit, matrix, finite, strict=True) if good}
        return whole, [one.key for one in results if one.key not in whole]

    def _try(self, ask: Callable[[], T], otherwise: T) -> T:
        """What the store answers; `otherwise` where it fails, or did so a moment ago."""
        if self._clock() < self._quiet_until:
            return otherwise
        try:
            return ask()
        except StorageError as error:
            self._quiet_until = self._clock() + AGAIN_S
            log.warning("vectors are made without the store for now: %s", error.message)
            return otherwise
