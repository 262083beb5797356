"""A narrator's words inside a speech that has no marks to part them: `, dit-il,` in French.

French leaves the quotation open around them, in « » and after a dash alike. They are known by the
verb that comes before its subject right after a comma or the end of a sentence.
"""

from __future__ import annotations

import re
from functools import lru_cache

from anyrig.text.saying import sayings

Span = tuple[int, int]
_PRONOUN = r"-(?:t-)?(?:il|elle|ils|elles|on|je|nous|vous)\b"
# The subject, where it is no tied pronoun: a name or a noun with its article.
_SUBJECT = (
    r"\s+(?:(?:le|la|les|un|une|mon|ma|son|sa|notre|M\.|Mr\.|Mme|Mlle)\s+\w|l['’]\w|[A-ZÉÈÀÂÎÔÇ])"
)
_SPACES = " \u00a0\u202f"


@lru_cache(maxsize=1)
def _french() -> re.Pattern[str]:
    """`, dit-il en riant,` up to the comma or the full stop that ends it."""
    words = sayings("fr")
    verbs = sorted((verb.replace("'", "['’]") for verb in words.verbs), key=len, reverse=True)
    ends = r"(?P<tail>(?:M\.|Mr\.|[^.,;:!?…»«“”])*)(?P<end>[.,;:!?…]|$)"
    return re.compile(
        rf"(?<=[,!?…»”])(?P<lead>[\s»”]*)(?P<incise>(?:(?:lui|leur|me|nous)\s+)?(?:{'|'.join(verbs)})"
        rf"(?:{_PRONOUN}|(?={_SUBJECT})){ends})",
    )


def without_incises(text: str, start: int, end: int, language: str) -> list[Span]:
    """A spoken stretch without what the narrator says in between."""
    if language.lower().startswith("fr"):
        return _cut(_french(), text, start, end)
    return [(start, end)]


def without_tags(text: str, start: int, end: int) -> list[Span]:
    """The same of English that opens with a dash: `—I will not, he said.`"""
    return _cut(_english(), text, start, end)


@lru_cache(maxsize=1)
def _english() -> re.Pattern[str]:
    verbs = "|".join(sorted(sayings("en").verbs, key=len, reverse=True))
    who = r"(?:he|she|I|they|[A-Z]\w+(?:\s[A-Z]\w+)?|[Tt]he\s\w+)"
    return re.compile(
        rf"(?<=[,!?])(?P<lead>\s*)(?P<incise>(?:{who}\s(?:{verbs})|(?:{verbs})\s{who})\b"
        r"[^.,;:!?…]*(?P<end>[.,;:!?…]|$))"
    )


def _cut(pattern: re.Pattern[str], text: str, start: int, end: int) -> list[Span]:
    pieces: list[Span] = []
    position = start
    for match in pattern.finditer(text, start, end):
        low, high = match.span("incise")
        if low < position:
            continue
        pieces.append((position, match.start("lead")))
        position, more = _resumed(text, match, high, end)
        if not more:
            break
    if position < end:
        pieces.append((position, end))
    return [(low, high) for low, high in pieces if any(map(str.isalnum, text[low:high]))]


def _resumed(text: str, match: re.Match[str], high: int, end: int) -> tuple[int, bool]:
    """Where the speech goes on after an incise, and whether it does."""
    high = _long_incise(text, match, high, end)
    rest = text[high:end].lstrip(_SPACES)
    place = end - len(rest)
    narrates = re.match(r"(?:Et |Puis |Alors )?(?:il|elle|ils|elles)\s", rest, re.IGNORECASE)
    if match["end"] == "." and narrates:
        return end, False
    return place, True


def _long_incise(text: str, match: re.Match[str], high: int, end: int) -> int:
    """`dit-il, en tirant sa montre,`: a participle carries the incise on."""
    if match["end"] != ",":
        return high
    more = re.compile(
        r"\s*(?:en\s+\w+ant\b|d['’]un(?:e)?\s+(?:voix|ton|air)\b|\w+ant\s+(?:la|le|les|sa|son|ses)\b|"
        r"avec\s+un|sans\s+(?:se|le|la|lever)\b|après\s+un)[^.,;:!?»]*(?:[.,;:!?]|$)"
    )
    found = more.match(text, high, end)
    return found.end() if found else high
