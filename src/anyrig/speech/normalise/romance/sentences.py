"""Where in its sentence a match stands: at the start, at the end, what comes before and after."""

from __future__ import annotations

import re

_START = re.compile(r"(?:^|[.!?\u2026\n])[\s\"'\u00ab\u00bb\u201c\u00bf\u00a1\u2014(*_#>-]*$")
_END = re.compile(r"[\s\"'\u00bb\u201d)\]*_]*$")
_NEXT = re.compile(
    r"[\"'\u00bb\u201d)]*\s+[\"'\u00ab\u201c\u00bf\u00a1\u2014(]*[^\W\d_a-z\u00df-\u00ff]"
)
_WORD = re.compile(r"[\s\u00a0\u202f]+([^\W\d_]+(?:['\u2019-][^\W\d_]+)*)")
_BACK = re.compile(r"([^\W\d_]+\.?)[\s\u00a0\u202f(]*$")
_REACH = 60


def starts(match: re.Match[str]) -> bool:
    """Whether a sentence begins with the match."""
    before = match.string[max(0, match.start() - _REACH) : match.start()]
    return bool(_START.search(before)) or match.start() == 0


def ends(match: re.Match[str], *, may_close: bool = True) -> bool:
    """Whether the full stop the match ends with also ends a sentence.

    At the end of a text it does. Before a capital it does for what can close a sentence, as
    "etc." can and "Sr." cannot.
    """
    if not match.group().endswith("."):
        return False
    rest = match.string[match.end() : match.end() + _REACH]
    if len(rest) < _REACH and _END.fullmatch(rest):
        return True
    return may_close and (bool(_NEXT.match(rest)) or rest.startswith("\n\n"))


def closed(words: str, match: re.Match[str], *, may_close: bool = True) -> str:
    """The words, with the sentence's full stop where an abbreviation swallowed it."""
    return f"{words}." if ends(match, may_close=may_close) else words


def cased(words: str, match: re.Match[str]) -> str:
    """The words with a capital where a capital begins a sentence."""
    written = match.group().lstrip()[:1]
    return words[:1].upper() + words[1:] if written.isupper() and starts(match) else words


def word_after(match: re.Match[str]) -> str:
    """The next word, as written; empty when something else comes first."""
    found = _WORD.match(match.string, match.end(), match.end() + _REACH)
    return found[1] if found else ""


def words_after(match: re.Match[str], count: int) -> list[str]:
    """The next words on the same stretch of text."""
    words: list[str] = []
    position = match.end()
    while len(words) < count and (found := _WORD.match(match.string, position, position + _REACH)):
        words.append(found[1])
        position = found.end()
    return words


def word_before(match: re.Match[str]) -> str:
    """The word before, in lower case, its full stop kept."""
    found = _BACK.search(match.string[max(0, match.start() - _REACH) : match.start()])
    return found[1].lower() if found else ""
