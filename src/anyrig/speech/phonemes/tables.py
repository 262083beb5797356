"""hibari's dictionary and tagger, as tables that are searched without being parsed.

As JSON they are 270,000 entries that take half a second to parse, and a sentence looks up a few
dozen. Their entries are sorted once and kept between processes; an entry is parsed when it is
found.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.storage import derived

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORMAT = "1"


class Table:
    """Sorted lines, each with a key, a tab, and a string or the JSON of an object."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines
        self._found: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """What stands beside a key; None without that key."""
        if key not in self._found:
            self._found[key] = self._search(key.encode())
        return self._found[key]

    def _search(self, key: bytes) -> Any:
        value = find_line(self._lines, key)
        if value is None:
            return None
        return json.loads(value) if value.startswith(b"{") else value.decode()


def find_line(lines: bytes, key: bytes) -> bytes | None:
    """What follows a key and a tab in sorted lines; None without that key."""
    prefix, low, high = key + b"\t", 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        start = lines.rfind(b"\n", low, middle) + 1 or low
        if lines[start : start + len(prefix)] < prefix:
            low = lines.find(b"\n", middle, high) + 1 or high
        else:
            high = start
    if not lines.startswith(prefix, low):
        return None
    end = lines.find(b"\n", low)
    return lines[low + len(prefix) : end if end >= 0 else len(lines)]


class DictionaryFile:
    """A dictionary that is read when a word is first looked up: most words are in the first.

    `get` gives a word's phonemes, or those by part of speech.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        return self._table.get(key)

    @cached_property
    def _table(self) -> Table:
        return Table(_derive(self._path, _list_words))


class TagScorer:
    """The weights of the tagger's features, and the tag they speak for.

    hibari adds them up tag by tag in Python, which is half of its reading. As rows of one array the
    sums and the tags are the same, to the bit.
    """

    def __init__(self, weights: Table, tags: Sequence[str]) -> None:
        self._weights = weights
        self._tags = sorted(tags, reverse=True)  # of equal scores the last in the alphabet wins
        self._columns = {tag: index for index, tag in enumerate(self._tags)}
        self._rows: dict[str, NDArray[np.float64] | None] = {}

    def predict(self, features: Sequence[str]) -> str:
        rows = [row for row in map(self._get, features) if row is not None]
        return self._tags[int(sum(rows[1:], rows[0]).argmax())] if rows else "NN"

    def _get(self, feature: str) -> NDArray[np.float64] | None:
        if feature not in self._rows:
            self._rows[feature] = self._build_row(feature)
        return self._rows[feature]

    def _build_row(self, feature: str) -> NDArray[np.float64] | None:
        import numpy as np

        weights: dict[str, float] | None = self._weights.get(feature)
        if not weights:
            return None
        row = np.zeros(len(self._tags))
        for tag, weight in weights.items():
            row[self._columns[tag]] = weight
        return row


def read_tagger(path: Path) -> tuple[dict[str, Any], TagScorer]:
    """The tagger's model without its weights, nine tenths of it; and those."""
    first, _, lines = _derive(path, _list_weights).partition(b"\n")
    model: dict[str, Any] = json.loads(first)
    return {**model, "weights": {}}, TagScorer(Table(lines), model["tags"])


def _list_words(text: bytes) -> Iterable[bytes]:
    """The lines of a dictionary."""
    words: dict[str, Any] = json.loads(text)
    return sorted(
        f"{word}\t{found if isinstance(found, str) else json.dumps(found)}".encode()
        for word, found in words.items()
    )


def _list_weights(text: bytes) -> Iterable[bytes]:
    """The tagger's model without its weights, which come last; and their lines."""
    start = text.index(b',"weights":{')
    entries = text[start + len(b',"weights":{"') : text.rindex(b"}}}")].split(b'},"')
    lines = [entry.replace(b'":{', b"\t{", 1) + b"}" for entry in entries]
    for number, line in enumerate(lines):
        if b"\\" in line:
            key, _, weights = line.partition(b"\t")
            lines[number] = json.loads(b'"' + key + b'"').encode() + b"\t" + weights
    return [text[:start] + b"}", *sorted(lines)]


def _derive(path: Path, list_lines: Callable[[bytes], Iterable[bytes]]) -> bytes:
    """The lines of a file of the package, from an earlier process if there was one."""
    packed = path.read_bytes()
    return derived.derive(
        path.name.partition(".")[0], _FORMAT, hashlib.sha256(packed).hexdigest(),
        build=lambda: b"\n".join(list_lines(gzip.decompress(packed))),
    )  # fmt: skip
