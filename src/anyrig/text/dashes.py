"""Dialogue that opens with a dash, and the narrator's words between its dashes.

Spanish writes `—Hola —dijo Juan—. Adiós.`: a dash that leans on the next word begins what the
narrator says, and one that leans on the word before ends it. French opens with a dash too, and
parts the narrator's words with commas alone.
"""

from __future__ import annotations

import re

from anyrig.text.incises import without_incises, without_tags
from anyrig.text.saying import sayings

Span = tuple[int, int]
_OPENING = re.compile(r"\s*(?:[—–―]|--)[ \u00a0\u202f]*(?=\S)|\s*-[ \u00a0\u202f]+(?=\S)")
_DASH = re.compile(r"--|[—–―]|(?<=\s)-|(?<=\w)-(?=[.,;:!?…\s])")
_TIGHT = "[.,;:!?…]"


def dashed(text: str, language: str = "en") -> list[Span]:
    """The spoken stretches of a paragraph that opens with a dash; none where it does not."""
    match = _OPENING.match(text)
    if match is None or not _is_talk(text, match, language):
        return []
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    base = language.partition("-")[0].lower()
    if base == "en":
        return without_tags(text, start, end)
    if base == "fr":
        return without_incises(text, start, end, language)
    return _parted(text, start, match.end(), end, language)


def _is_talk(text: str, match: re.Match[str], language: str) -> bool:
    """Whether the dash is no bullet, and the line below no verse is no author's name."""
    rest = text[match.end() :].rstrip()
    if not any(map(str.isalpha, rest)):
        return False
    english = language.partition("-")[0].lower() == "en"
    if english:
        return match[0].strip() in "—―" and rest[-1] in ".!?…" and len(rest.split()) > 2
    return match[0].strip() != "-" or rest[-1] in ".!?…,:"


def _parted(text: str, start: int, first: int, end: int, language: str) -> list[Span]:
    """Speech and narrator in turns, parted by dashes."""
    spans: list[Span] = []
    position, telling = start, False
    for match in _DASH.finditer(text, first, end):
        if not telling and _begins(text, match, end, language):
            spans.append((position, _before(text, match.start())))
            telling = True
        elif telling and _finishes(text, match):
            position = re.compile(rf"{_TIGHT}*\s*").match(text, match.end()).end()  # type: ignore[union-attr]  # it matches nothing, too
            telling = False
    if not telling:
        spans.append((position, end))
    return [(low, high) for low, high in spans if any(map(str.isalnum, text[low:high]))]


def _before(text: str, place: int) -> int:
    return len(text[:place].rstrip())


def _begins(text: str, match: re.Match[str], end: int, language: str) -> bool:
    """Whether a dash begins the narrator's words."""
    before = text[match.start() - 1]
    after = text[match.end() : end]
    if not before.isspace() or not after.strip():
        return False
    if after[0].isspace():  # as wide on both sides: only a verb of saying tells it from a pause
        return _says(after, language)
    return after[0].isalpha() or after[0] in "¡¿(…"


def _says(after: str, language: str) -> bool:
    words = re.findall(r"[^\W\d_]+", after.lower()[:60])[:3]
    return any(word in sayings(language).verbs for word in words)


def _finishes(text: str, match: re.Match[str]) -> bool:
    """Whether a dash ends the narrator's words: it leans on them, or stands between spaces."""
    before = text[match.start() - 1]
    after = text[match.end() : match.end() + 1]
    return not before.isspace() or not after.strip() or after in ".,;:!?…"
