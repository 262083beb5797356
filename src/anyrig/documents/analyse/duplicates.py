"""Which texts are the same or nearly so, and what differs.

A shingle is a run of words, hashed, whatever their case, accents, line breaks and marks. The sketch
of a text keeps its smallest hashes, which estimate how much two texts share. Candidates come from
bands of MinHash values (locality-sensitive hashing), so that the cost grows with the texts and not
with their pairs; every candidate is then compared by its sketch.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from anyrig.documents.words import plain, stem, words
from anyrig.text.labels import one_line
from anyrig.text.tokens import split_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

NEAR = 0.5
"""The share of shingles in common from which texts count as near-duplicates: about one word in
eleven may differ."""
_BANDS, _ROWS = 40, 3  # half alike is found with 99.5 %, a fifth alike is looked at with 27 %
_LOOKED_AT = 0.3  # of MinHash values in common: fewer cannot be half alike
_MOST_SHOWN = 6
_MOST_SENTENCES = 3_000
_SHOWN = 160
SHINGLE = 3
"""Words of a shingle: one changed word costs three of them."""
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


def build_shingles(text: str) -> Shingled:
    """The numbers of a text, in time that grows with its length alone."""
    import numpy as np

    tokens = [stem(plain(word.text)) for word in words(text)]
    digest = hashlib.sha256(" ".join(tokens).encode("utf-8", "replace")).hexdigest()
    if not tokens:
        return Shingled(digest, 0, np.empty(0, np.uint64), 0)
    hashed = np.fromiter(map(_hash, tokens), np.uint64, len(tokens))
    unique = np.unique(_hash_runs(hashed, min(SHINGLE, len(tokens))))
    return Shingled(digest, len(tokens), unique[:SKETCH].copy(), len(unique))


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


def _hash_runs(hashed: Hashes, length: int) -> Hashes:
    """A hash of each run of so many words."""
    import numpy as np

    total = np.zeros(len(hashed) - length + 1, np.uint64)
    for place in range(length):
        total = total * np.uint64(_ODD | 1) + hashed[place : place + len(total)]
    return _mix(total)


def _mix(values: Hashes) -> Hashes:
    """Numbers whose every bit depends on every bit: the finaliser of SplitMix64."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True)
class Change:
    """A place where two texts differ; one side is empty where something was added or left out."""

    before: str
    after: str


@dataclass(frozen=True)
class DuplicateText:
    """A text of a group, beside the group's first."""

    index: int
    similarity: float
    exact: bool
    """Whether the words are the same; looks may differ."""
    changes: tuple[Change, ...] = ()
    num_changes: int = 0


@dataclass(frozen=True)
class DuplicateGroup:
    """Texts that are nearly the same."""

    first: int
    members: tuple[DuplicateText, ...]
    """The others, the most alike first."""

    @property
    def exact(self) -> bool:
        """Whether all have the same words."""
        return all(member.exact for member in self.members)


def group_duplicates(texts: Sequence[Shingled]) -> list[DuplicateGroup]:
    """Groups of near-duplicates, the largest first; a text is in one at most."""
    found: dict[tuple[int, int], float] = {}
    for pair in _candidates(texts):
        alike = similarity(texts[pair[0]], texts[pair[1]])
        if alike >= NEAR:
            found[pair] = alike
    made = [_group(members, texts) for members in _group_pairs(found)]
    return sorted(made, key=lambda group: (-len(group.members), group.first))


def _group(members: Sequence[int], texts: Sequence[Shingled]) -> DuplicateGroup:
    # What has most copies; then the longest, from which others were cut as a rule.
    copies = Counter(texts[index].digest for index in members)
    first = max(
        members,
        key=lambda index: (copies[texts[index].digest], texts[index].num_words, -index),
    )
    others = [
        DuplicateText(index, similarity(texts[first], texts[index]),
               texts[first].digest == texts[index].digest)
        for index in members if index != first
    ]  # fmt: skip
    return DuplicateGroup(
        first, tuple(sorted(others, key=lambda one: (-one.similarity, one.index)))
    )


def _candidates(texts: Sequence[Shingled]) -> Iterable[tuple[int, int]]:
    """Pairs that share a band; of texts that are equal, each with the first of them only."""
    seen: set[tuple[int, int]] = set()
    firsts: dict[str, int] = {}
    distinct = []
    for index, text in enumerate(texts):
        if text.num_words < SHINGLE:
            continue
        first = firsts.setdefault(text.digest, index)
        if first == index:
            distinct.append(index)
        else:
            seen.add((first, index))
    signatures = {index: _signature(texts[index]) for index in distinct}
    buckets: dict[bytes, list[int]] = defaultdict(list)
    for index, signature in signatures.items():
        for band in range(_BANDS):
            part = signature[band * _ROWS : (band + 1) * _ROWS]
            buckets[bytes([band]) + part.tobytes()].append(index)
    met: set[tuple[int, int]] = set()
    for bucket in buckets.values():
        # A bucket of thousands is one form filled in again and again: neighbours join it up.
        few = len(bucket) <= 64
        met.update(combinations(bucket, 2) if few else zip(bucket, bucket[1:], strict=False))
    seen.update(
        pair for pair in met
        if float((signatures[pair[0]] == signatures[pair[1]]).mean()) >= _LOOKED_AT
    )  # fmt: skip
    return sorted(seen)


def _signature(text: Shingled) -> NDArray[np.uint64]:
    """MinHash values in one pass: the smallest hash of each bin; an empty bin has its neighbour's.

    Of the sketch only, which is a fair sample of a text as long as lengths are alike.
    """
    import numpy as np

    count = _BANDS * _ROWS
    # The sketch is in order, so the first of each bin is its smallest.
    bins, firsts = np.unique(_mix(text.sketch) % np.uint64(count), return_index=True)
    filled = np.searchsorted(bins, np.arange(count)) % len(bins)
    found: NDArray[np.uint64] = text.sketch[firsts[filled]]
    return found


def _group_pairs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Pairs that hang together as sorted groups."""
    parent: dict[int, int] = {}

    def root(index: int) -> int:
        while parent.setdefault(index, index) != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for one, other in pairs:
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    found: dict[int, list[int]] = defaultdict(list)
    for index in sorted(parent):
        found[root(index)].append(index)
    return list(found.values())


def list_changes(before: str, after: str, language: str) -> tuple[tuple[Change, ...], int]:
    """The first places where two texts differ, sentence by sentence, and how many there are."""
    one = [before[slice(*span)] for span in split_text(before, language)[:_MOST_SENTENCES]]
    other = [after[slice(*span)] for span in split_text(after, language)[:_MOST_SENTENCES]]
    matcher = difflib.SequenceMatcher(
        None,
        [_fold_sentence(text) for text in one],
        [_fold_sentence(text) for text in other],
        autojunk=False,
    )
    found = [
        Change(" ".join(one[a:b]), " ".join(other[c:d]))
        for what, a, b, c, d in matcher.get_opcodes()
        if what != "equal"
    ]
    return tuple(_focus_change(change) for change in found[:_MOST_SHOWN]), len(found)


def _fold_sentence(text: str) -> str:
    return " ".join(stem(plain(word.text)) for word in words(text))


def _focus_change(change: Change) -> Change:
    """A change cut to the words that differ, with a few around them."""
    one, other = change.before.split(), change.after.split()
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    start = max(0, start - 4)
    return Change(*(_cut_side(side, start) for side in (one, other)))


def _cut_side(tokens: Sequence[str], start: int) -> str:
    text = one_line(" ".join(tokens[start:]), 4 * _SHOWN)
    if len(text) > _SHOWN:
        text = (text[:_SHOWN].rpartition(" ")[0] or text[:_SHOWN]) + " …"
    return f"… {text}" if start and text else text


def count_copies(groups: Iterable[DuplicateGroup]) -> Counter[str]:
    """How many texts are exact and how many are near copies of another."""
    return Counter(
        "exact" if member.exact else "near" for group in groups for member in group.members
    )
