"""Which texts are the same or nearly so, what differs, and which passages stand in several.

Candidates come from bands of MinHash values (locality-sensitive hashing), so that the cost grows
with the texts and not with their pairs; every candidate is then compared by its sketch.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from anyrig.documents.analyse.shingles import PASSAGE, Shingled, mixed, similarity
from anyrig.documents.analyse.words import plain, stem, words
from anyrig.text.labels import one_line
from anyrig.text.tokens import split_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEAR = 0.5
"""The share of shingles in common from which texts count as near-duplicates: about one word in
eleven may differ."""
_BANDS, _ROWS = 40, 3  # half alike is found with 99.5 %, a fifth alike is looked at with 27 %
_LOOKED_AT = 0.3  # of MinHash values in common: fewer cannot be half alike
_MOST_SHOWN = 6
_MOST_SENTENCES = 3_000
_SHOWN = 160
_PASSAGE_WORDS = 40
_GAP = 60
_MOST_PASSAGES = 50
_COMMON = 8  # a trace in more texts than this is a form's own words, not a copy


@dataclass(frozen=True)
class Change:
    """A place where two texts differ; one side is empty where something was added or left out."""

    before: str
    after: str


@dataclass(frozen=True)
class Member:
    """A text of a group, beside the group's first."""

    index: int
    similarity: float
    exact: bool
    """Whether the words are the same; looks may differ."""
    changes: tuple[Change, ...] = ()
    num_changes: int = 0


@dataclass(frozen=True)
class Group:
    """Texts that are nearly the same."""

    first: int
    members: tuple[Member, ...]
    """The others, the most alike first."""

    @property
    def exact(self) -> bool:
        """Whether all have the same words."""
        return all(member.exact for member in self.members)


@dataclass(frozen=True)
class Shared:
    """A long passage that stands in two texts which are not duplicates."""

    first: int
    second: int
    num_words: int
    text: str
    """As the first has it, shortened."""


def groups(texts: Sequence[Shingled], *, near: float = NEAR, fewest_words: int = 3) -> list[Group]:
    """Groups of near-duplicates, the largest first; a text is in one at most."""
    found: dict[tuple[int, int], float] = {}
    for pair in _candidates(texts, fewest_words):
        alike = similarity(texts[pair[0]], texts[pair[1]])
        if alike >= near:
            found[pair] = alike
    made = [_group(members, texts) for members in _joined(found)]
    return sorted(made, key=lambda group: (-len(group.members), group.first))


def _group(members: Sequence[int], texts: Sequence[Shingled]) -> Group:
    # What has most copies; then the longest, from which others were cut as a rule.
    copies = Counter(texts[index].digest for index in members)
    first = max(
        members,
        key=lambda index: (copies[texts[index].digest], texts[index].num_words, -index),
    )
    others = [
        Member(index, similarity(texts[first], texts[index]),
               texts[first].digest == texts[index].digest)
        for index in members if index != first
    ]  # fmt: skip
    return Group(first, tuple(sorted(others, key=lambda one: (-one.similarity, one.index))))


def _candidates(texts: Sequence[Shingled], fewest_words: int) -> Iterable[tuple[int, int]]:
    """Pairs that share a band; of texts that are equal, each with the first of them only."""
    seen: set[tuple[int, int]] = set()
    firsts: dict[str, int] = {}
    distinct = []
    for index, text in enumerate(texts):
        if text.num_words < fewest_words:
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
    bins, firsts = np.unique(mixed(text.sketch) % np.uint64(count), return_index=True)
    filled = np.searchsorted(bins, np.arange(count)) % len(bins)
    found: NDArray[np.uint64] = text.sketch[firsts[filled]]
    return found


def _joined(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
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


def changes(before: str, after: str, language: str) -> tuple[tuple[Change, ...], int]:
    """The first places where two texts differ, sentence by sentence, and how many there are."""
    one = [before[slice(*span)] for span in split_text(before, language)[:_MOST_SENTENCES]]
    other = [after[slice(*span)] for span in split_text(after, language)[:_MOST_SENTENCES]]
    matcher = difflib.SequenceMatcher(
        None, [_folded(text) for text in one], [_folded(text) for text in other], autojunk=False
    )
    found = [
        Change(" ".join(one[a:b]), " ".join(other[c:d]))
        for what, a, b, c, d in matcher.get_opcodes()
        if what != "equal"
    ]
    return tuple(_focused(change) for change in found[:_MOST_SHOWN]), len(found)


def _folded(text: str) -> str:
    return " ".join(stem(plain(word.text)) for word in words(text))


def _focused(change: Change) -> Change:
    """A change cut to the words that differ, with a few around them."""
    one, other = change.before.split(), change.after.split()
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    start = max(0, start - 4)
    return Change(*(_shown(side, start) for side in (one, other)))


def _shown(said: Sequence[str], start: int) -> str:
    text = one_line(" ".join(said[start:]), 4 * _SHOWN)
    if len(text) > _SHOWN:
        text = (text[:_SHOWN].rpartition(" ")[0] or text[:_SHOWN]) + " …"
    return f"… {text}" if start and text else text


def shared_passages(
    texts: Sequence[Shingled], groups: Sequence[Group], text_of: Callable[[int], str]
) -> list[Shared]:
    """Long passages that two texts have in common, the longest first; duplicates are left out."""
    same = {
        tuple(sorted(pair))
        for group in groups
        for pair in combinations([group.first, *(one.index for one in group.members)], 2)
    }
    runs: list[tuple[int, int, int, int]] = []
    for pair, places in _meetings(texts).items():
        if pair not in same:
            runs += [(length, start, *pair) for start, length in _runs(places)]
    runs = [run for run in runs if run[0] >= _PASSAGE_WORDS]
    runs.sort(key=lambda run: (-run[0], run[2:], run[1]))
    return [
        Shared(first, second, length, _passage(text_of(first), start, length))
        for length, start, first, second in runs[:_MOST_PASSAGES]
    ]


def _meetings(texts: Sequence[Shingled]) -> Mapping[tuple[int, int], list[tuple[int, int]]]:
    """By pair of texts: the places of the traces that both have."""
    import numpy as np

    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    if not texts:
        return found
    traces = np.concatenate([text.traces for text in texts])
    owners = np.repeat(np.arange(len(texts)), [len(text.traces) for text in texts])
    places = np.concatenate([text.places for text in texts])
    order = np.argsort(traces, kind="stable")
    edges = np.flatnonzero(np.diff(traces[order])) + 1
    for rows in np.split(order, edges):
        if len(rows) < 2 or len(rows) > 4 * _COMMON:
            continue
        firsts = {int(owners[row]): int(places[row]) for row in rows[::-1]}
        if 2 <= len(firsts) <= _COMMON:
            for one, other in combinations(sorted(firsts), 2):
                found[one, other].append((firsts[one], firsts[other]))
    return found


def _runs(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of the first text, start and length in words, that follow each other in both."""
    places = sorted(places)
    found: list[list[int]] = []
    last: tuple[int, int] | None = None
    for one, other in places:
        near = last is not None and one - last[0] <= _GAP and 0 < other - last[1] <= _GAP
        if near:
            found[-1][1] = one + PASSAGE
        else:
            found.append([one, one + PASSAGE])
        last = (one, other)
    return [(start, end - start) for start, end in found]


def _passage(text: str, start: int, length: int) -> str:
    """So many words from the one named on, shortened."""
    begin = end = 0
    for number, word in enumerate(words(text)):
        if number == start:
            begin = word.start
        end = word.end
        if number == min(start + length, start + 60) - 1:
            break
    return one_line(text[begin:end], 400) + (" …" if length > 60 else "")


def counted(groups: Iterable[Group]) -> Counter[str]:
    """How many texts are exact and how many are near copies of another."""
    return Counter(
        "exact" if member.exact else "near" for group in groups for member in group.members
    )
