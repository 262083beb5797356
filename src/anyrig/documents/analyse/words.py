"""The words of a text with their places, in any script, and the form under which they are counted.

Chinese, Japanese and Thai do not part words by spaces: each of their characters counts as one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_WHOLE = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED = re.compile(f"[{_WHOLE}]")
_WORD = re.compile(rf"[{_WHOLE}]|[^\W_{_WHOLE}]+(?:[-'’.](?=[^\W_])[^\W_{_WHOLE}]+)*['’]?")
# Words that lose their last letter before a vowel: l'homme, d'eau, dell'acqua.
_ELIDED = re.compile(
    r"(?i)(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|dell|all|nell|sull|dall|un)['’]"
)
_LATIN = re.compile(r"[a-z]+\Z")
_LONGEST = 60


class TextWord(NamedTuple):
    """A word where it stands."""

    text: str
    start: int
    end: int


def words(text: str) -> Iterator[TextWord]:
    """The words in order; what is elided stands apart: `l'`, `homme`."""
    for found in _WORD.finditer(text):
        start, piece = found.start(), found[0]
        elided = _ELIDED.match(piece)
        if elided and elided.end() <= len(piece):
            end = start + elided.end()
            yield TextWord(text[start:end], start, end)
            start, piece = end, piece[elided.end() :]
        piece = piece.rstrip("'’")
        if piece:
            yield TextWord(piece, start, start + len(piece))


@lru_cache(maxsize=65_536)
def plain(word: str) -> str:
    """A word in small letters, composed, with one kind of apostrophe."""
    return unicodedata.normalize("NFKC", word).lower().replace("’", "'")[:_LONGEST]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A plain word without accents and without its plural: what counts as the same word.

    Far from a real stemmer on purpose: `policy` and `police` must stay two.
    """
    bare = "".join(
        one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one)
    )
    if not _LATIN.match(bare) or len(bare) < 4:
        return bare
    if bare.endswith("ies") and len(bare) > 4:
        return bare[:-3] + "y"
    if bare.endswith("aux") and len(bare) > 5:
        return bare[:-3] + "al"
    if bare.endswith("s") and not bare.endswith(("ss", "us", "is")):
        return bare[:-1].rstrip("e") if bare.endswith("es") else bare[:-1]
    return bare.rstrip("e") if len(bare) > 4 else bare


def is_unspaced(text: str) -> bool:
    """Whether a word is a character of a script that writes no spaces."""
    return bool(_UNSPACED.match(text))
