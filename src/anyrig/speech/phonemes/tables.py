"""hibari's dictionary and tagger, parsed where a word needs them.

As JSON they are 270,000 entries that take half a second to parse, and a sentence looks up a few
dozen. Cutting their text into entries takes a fifth of that; an entry is parsed when it is found.
"""

from __future__ import annotations

import gzip
import json
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EVERY = 500


class Dictionary:
    """A JSON object with sorted keys; values are strings, or objects by part of speech."""

    def __init__(self, text: bytes) -> None:
        self._entries: list[bytes] = []
        """As `key":"value"`."""
        self._by_tag: dict[bytes, bytes] = {}
        for part in text[1:-1].split(b"}"):
            plain, is_object, forms = part.partition(b":{")
            entries = plain.lstrip(b",")[1:].split(b',"')
            if is_object:
                self._by_tag[entries.pop().rstrip(b'"')] = forms
            self._entries += entries
        self._found: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """A word's phonemes, or those by part of speech; None for a word that it does not have."""
        if key not in self._found:
            self._found[key] = self._search(key.encode())
        return self._found[key]

    def is_sorted(self) -> bool:
        """Whether some of its keys are in order."""
        keys = [_key(entry) for entry in self._entries[::_EVERY]]
        return keys == sorted(keys)

    def _search(self, key: bytes) -> Any:
        forms = self._by_tag.get(key)
        if forms is not None:
            return json.loads(b"{" + forms + b"}")
        place = bisect_left(self._entries, key, key=_key)
        if place == len(self._entries) or _key(self._entries[place]) != key:
            return None
        return self._entries[place][len(key) + 3 : -1].decode()


def _key(entry: bytes) -> bytes:
    return entry[: entry.index(b'"')]


class TagScorer:
    """The weights of the tagger's features, a JSON object of objects, and the tag they speak for.

    hibari adds them up tag by tag in Python, which is half of its reading. As rows of one array the
    sums and the tags are the same, to the bit.
    """

    def __init__(self, text: bytes, tags: Sequence[str]) -> None:
        entries = text[2 : text.rindex(b"}}")].split(b'},"')
        self._texts: dict[bytes, bytes] = dict(map(methodcaller("split", b'":{', 1), entries))
        self._tags = sorted(tags, reverse=True)  # of equal scores the last in the alphabet wins
        self._columns = {tag: index for index, tag in enumerate(self._tags)}
        self._rows: dict[str, NDArray[np.float64] | None] = {}

    def predict(self, features: Sequence[str]) -> str:
        rows = [row for row in map(self._get, features) if row is not None]
        return self._tags[int(sum(rows[1:], rows[0]).argmax())] if rows else "NN"

    def _get(self, feature: str) -> NDArray[np.float64] | None:
        if feature not in self._rows:
            self._rows[feature] = self._parse(feature)
        return self._rows[feature]

    def _parse(self, feature: str) -> NDArray[np.float64] | None:
        import numpy as np

        text = self._texts.get(json.dumps(feature, ensure_ascii=False)[1:-1].encode())
        if not text:
            return None
        row = np.zeros(len(self._tags))
        for tag, weight in json.loads(b"{" + text + b"}").items():
            row[self._columns[tag]] = weight
        return row


class DictionaryFile:
    """A dictionary that is read when a word is first looked up: most words are in the first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> Any:
        return self._dictionary.get(key)

    @cached_property
    def _dictionary(self) -> Dictionary | dict[str, Any]:
        text = _unpack(self._path)
        if text.startswith(b'{"') and b"\\" not in text and b'": ' not in text:
            dictionary = Dictionary(text)
            if dictionary.is_sorted():
                return dictionary
        whole: dict[str, Any] = json.loads(text)  # another version of the package writes otherwise
        return whole


def read_tagger(path: Path) -> tuple[dict[str, Any], TagScorer]:
    """The tagger's model without its weights, nine tenths of it, which come last; and those."""
    text = _unpack(path)
    start = text.index(b',"weights":{')
    model: dict[str, Any] = json.loads(text[:start] + b"}")
    scorer = TagScorer(text[text.index(b"{", start) : -1], model["tags"])
    return {**model, "weights": {}}, scorer


def _unpack(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())
