"""A text as numbers that do not mind case, accents, line breaks or marks: to compare and to find.

A shingle is a run of words, hashed. The sketch of a text keeps its smallest hashes, which estimate
how much two texts share; its traces are hashes chosen so that any long passage two texts share
leaves one in both (winnowing), with the place of each.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from anyrig.documents.analyse.words import plain, stem, words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

SHINGLE = 3
"""Words of a shingle that is compared: one changed word costs three of them."""
PASSAGE = 10
"""Words of a hash that finds shared passages."""
WINDOW = 16
"""Of so many such hashes one is kept: 25 words in common leave a trace for certain."""
SKETCH = 2048
_ODD = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Shingled:
    """What a text leaves for comparison."""

    digest: str
    """Of its words: equal for texts that differ in nothing but looks."""
    num_words: int
    sketch: Hashes
    """The smallest hashes of its shingles, in order; all of them in a short text."""
    num_shingles: int
    traces: Hashes
    places: NDArray[np.int32]
    """The word at which the passage of each trace begins."""


def shingled(text: str) -> Shingled:
    """The numbers of a text, in time that grows with its length alone."""
    import numpy as np

    said = [stem(plain(word.text)) for word in words(text)]
    digest = hashlib.sha256(" ".join(said).encode("utf-8", "replace")).hexdigest()
    if not said:
        none = np.empty(0, np.uint64)
        return Shingled(digest, 0, none, 0, none, np.empty(0, np.int32))
    hashed = np.fromiter(map(_hash, said), np.uint64, len(said))
    unique = np.unique(_runs(hashed, min(SHINGLE, len(said))))
    traces, places = _winnowed(_runs(hashed, PASSAGE)) if len(said) >= PASSAGE else _nothing()
    return Shingled(digest, len(said), unique[:SKETCH].copy(), len(unique), traces, places)


def similarity(one: Shingled, other: Shingled) -> float:
    """The share of shingles that two texts have in common, 0 to 1; exact for short texts."""
    import numpy as np

    if one.digest == other.digest:
        return 1.0
    if not len(one.sketch) or not len(other.sketch):
        return 0.0
    both = np.union1d(one.sketch, other.sketch)
    size = SKETCH if max(one.num_shingles, other.num_shingles) > SKETCH else len(both)
    low = both[:size]
    shared = np.isin(low, one.sketch) & np.isin(low, other.sketch)
    return float(shared.mean())


@lru_cache(maxsize=262_144)
def _hash(word: str) -> int:
    data = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(data, "little")


def _runs(hashed: Hashes, length: int) -> Hashes:
    """A hash of each run of so many words."""
    import numpy as np

    total = np.zeros(len(hashed) - length + 1, np.uint64)
    for place in range(length):
        total = total * np.uint64(_ODD | 1) + hashed[place : place + len(total)]
    return mixed(total)


def mixed(values: Hashes) -> Hashes:
    """Numbers whose every bit depends on every bit: the finaliser of SplitMix64."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _winnowed(hashes: Hashes) -> tuple[Hashes, NDArray[np.int32]]:
    """The smallest hash of every window, each place once."""
    import numpy as np

    if len(hashes) <= WINDOW:
        places = np.array([int(hashes.argmin())])
    else:
        windows = np.lib.stride_tricks.sliding_window_view(hashes, WINDOW)
        places = np.unique(windows.argmin(axis=1) + np.arange(len(windows)))
    return hashes[places], places.astype(np.int32)


def _nothing() -> tuple[Hashes, NDArray[np.int32]]:
    import numpy as np

    return np.empty(0, np.uint64), np.empty(0, np.int32)
