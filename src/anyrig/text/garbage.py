"""Whether a page's own text can be used, judged by its letters alone: no dictionary, no model.

Text layers go wrong in a few ways: letters that the file does not name, one encoding taken for
another, numbers of glyphs taken for letters. Each shows in figures that no language has. A page
that is judged wrongly costs a reading of its picture; the text is kept for where that fails.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from collections import Counter

_FEW = 60
"""Letters of a page under which figures say nothing."""
_UNKNOWN = 0.2
_SAMPLE = 20_000
_CID = re.compile(r"\(cid:\d{1,5}\)")
# What UTF-8 looks like when it is read as Windows-1252 or Latin-1: a lead byte, then others.
_TWICE = re.compile(
    "[\u00c2-\u00c5\u00c8-\u00cf\u00d0-\u00d1\u00e2\u00e3][\u0080-\u00bf"
    "\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d\u2018\u2019"
    "\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178]"
)
# Pairs of letters, without their accents, that make up most of the text in the languages of Europe
# that are written in Latin letters: about six in ten of all pairs, one in nine of those by chance.
_PAIRS = frozenset(
    "th he in er an re on at en nd ti es or te ed is it al ar st to nt ng se ha as ou io le ve co"
    " me de hi ri ro ic ne ea ra ce li ch ll la el os ad ue qu do da ci ta ie ei un ge be ur ai us"
    " ma si om no na sa so di ne lo po pa ni ki sz cz ij ee aa ka la ja vi tr nh ho am ec".split()
)
_LEAST_PAIRS = 0.3
_VOWELS = "aeiouy"


def find_fault(text: str, num_unknown: int = 0) -> str:
    """What is wrong with a text as a whole; empty if nothing is.

    Args:
        text: of one page.
        num_unknown: letters that the file draws without naming them, beyond those in the text.
    """
    whole, text = len(text), _sample(text)
    signs = _count_signs(text)
    num_signs = signs.total()
    if not num_signs:
        return ""
    unknown = num_unknown * len(text) / whole or _count_unknown(signs)
    if unknown > _UNKNOWN * num_signs:
        return "the file does not say which letters it shows"
    if 6 * len(_CID.findall(text)) > _UNKNOWN * num_signs:
        return "its letters are numbers of glyphs"
    if not any(map(str.isalnum, signs)):
        return "there are no letters in its text"
    return _odd_letters(text, signs)


def is_readable(text: str) -> bool:
    """Whether at least half of a text is letters that someone could read."""
    text = _sample(text)
    signs = _count_signs(text)
    bad = _count_unknown(signs) + 7 * len(_CID.findall(text))
    return 2 * bad < signs.total() and any(map(str.isalnum, signs))


def _sample(text: str) -> str:
    """A long text by its beginning and its middle."""
    if len(text) <= 2 * _SAMPLE:
        return text
    middle = len(text) // 2
    return text[:_SAMPLE] + text[middle : middle + _SAMPLE]


def _count_signs(text: str) -> Counter[str]:
    """How often each character is there, without white space."""
    return Counter("".join(text.split()))


def _count_unknown(signs: Counter[str]) -> int:
    return sum(
        count for sign, count in signs.items()
        if sign == "\ufffd" or unicodedata.category(sign) in ("Co", "Cn", "Cc", "Cs")
    )  # fmt: skip


def _odd_letters(text: str, signs: Counter[str]) -> str:
    letters = sum(count for sign, count in signs.items() if sign.isalpha())
    if letters < _FEW:
        return ""
    if len(_TWICE.findall(text)) > 0.02 * letters:
        return "its letters are those of another encoding"
    latin = {sign: count for sign, count in signs.items() if sign.isalpha() and _is_latin(sign)}
    num_latin = sum(latin.values())
    if num_latin < 0.7 * letters or num_latin < _FEW:
        return ""
    if sum(count for sign, count in latin.items() if sign > "\x7f") > 0.5 * num_latin:
        return "its letters are those of another encoding"
    return _odd_words(text)


def _is_latin(sign: str) -> bool:
    return sign < "\u0250" or "\u1e00" <= sign <= "\u1eff"


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    return "".join(sign for sign in text if not unicodedata.combining(sign))


def _odd_words(text: str) -> str:
    """By pairs of letters: only those inside of words count."""
    # Without accents of their own first: to sort thousands on one letter takes their square.
    plain = unicodedata.normalize("NFKD", _without_accents(text)).lower()
    words = re.findall(r"[a-z]+", _without_accents(plain))
    lengths = list(map(len, words))
    singles = lengths.count(1)
    if singles > 0.8 * len(words) and singles >= _FEW:
        return "its letters stand apart"
    total = sum(lengths) - len(words)
    if total < _FEW:
        return ""
    known = sum(
        count for word, count in Counter(words).items()
        for pair in map(operator.concat, word, word[1:]) if pair in _PAIRS
    )  # fmt: skip
    share = sum(map("".join(words).count, _VOWELS)) / sum(lengths)
    if known < _LEAST_PAIRS * total and (share < 0.28 or share > 0.6 or known < 0.18 * total):
        return "its letters make no words"
    return ""
