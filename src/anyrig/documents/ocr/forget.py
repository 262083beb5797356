"""Kept pages of a document that is removed, found by their words.

A page is kept under the hash of its picture, and whoever removes a document has its text alone. So
every kept page is looked at: one most of whose runs of words stand in what is removed goes too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from anyrig.documents.ocr.page import from_bytes
from anyrig.storage.cache import CacheEntry

KIND = "page"
_WORD = re.compile(r"\w+")
_RUN = 4
"""Words that stand together."""
_MOST = 0.5
"""Of a page's runs: passages are cut at sentences, and OCR of another day differs in places."""


def pages_of(texts: Iterable[str], kept: Iterable[CacheEntry]) -> Iterator[str]:
    """The keys of those kept pages that the texts were read from.

    Args:
        texts: what is removed, and stands in no other document.
        kept: results of the kind `page`.
    """
    gone: set[tuple[str, ...]] = set()
    for text in texts:
        gone.update(_runs(text))
    for result in kept:
        try:
            page = from_bytes(result.data)
        except (ValueError, KeyError, TypeError):
            continue  # of an older form: nobody reads it again
        own = set(_runs(page.text))
        if own and sum(run in gone for run in own) > _MOST * len(own):
            yield result.key


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < _RUN:
        if words:
            yield tuple(words)
        return
    for start in range(len(words) - _RUN + 1):
        yield tuple(words[start : start + _RUN])
