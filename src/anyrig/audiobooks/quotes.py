"""Quotation marks of any style, and the quotations between them.

The outer marks win: what is quoted inside a quotation is part of it. A single mark is trusted only
where it closes after punctuation, or before it, because `dogs'`, `'tis` and `rock 'n' roll` are
written with the same sign.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

# What opens, and what may close it. German closes with the mark that English opens with, and turns
# the pointed ones round.
_CLOSERS = {
    "“": "”\"", '"': "\"”", "”": "”\"", "„": "“”\"", "«": "»", "»": "«»", "‹": "›", "›": "‹",
    "‚": "‘’'", "‘": "’'", "'": "'’", "`": "'’", "``": "''", "「": "」", "『": "』",
}  # fmt: skip
_MARK = re.compile("``|[“\"”„«»‹›‚‘'’`「『]")
_SINGLE_MARKS = frozenset("‘'`‚")
_BEFORE_MARK = "([{—–-―*_/¡¿…"
"""What may stand right before a mark that opens, beside white space."""
_PUNCTUATION = '.,!?…;:—–-―)”"*_'
_AFTER_WEAK = ",.;:!?…—–)"
# Words that lose their beginning: the sign before them is an apostrophe.
_CLIPPED = re.compile(
    r"(?:tis|twas|twere|twill|twould|twixt|til|till|em|er|im|cause|cos|cuz|bout|round|n|neath|"
    r"ere|ello|orse|ouse|ome|ave|ad|ow|ell|fraid|nother|nuff|gainst|tain|taint|mongst|ud|"
    r"midst|pon|sblood|zounds|swounds|struth|s|t|d|ll|re|ve|m|\d\ds?)\b",
    re.IGNORECASE,
)
# The few of them that are set with the wrong sign, one that can only open.
_CLIPPED_TURNED = re.compile(
    r"(?:tis|twas|twere|twill|twould|til|em|n|cause|\d\ds?)\b", re.IGNORECASE
)
_REOPENING = re.compile(r"[\s(—][‘'`](?=[^\W\d_])")
_QUOTE_DASHES = "—–-"
_MAX_SIGNS = 200
"""Looked at for the end of one quotation: thousands of words of the most colloquial speech."""
# After a digit: more words of the same quotation, and its own end.
_INCHES = re.compile(r"[^\"“”]*[.,!?…]\"(?!\w)")


class Quote(NamedTuple):
    """A quotation with its marks."""

    start: int
    end: int
    closed: bool
    """Whether it ends in this paragraph."""


def find_quotes(text: str) -> list[Quote]:
    """The outermost quotations, in order."""
    found: list[Quote] = []
    position = 0
    while match := _MARK.search(text, position):
        quote = _open_quote(text, match)
        if quote is None:
            position = match.end()
            continue
        found.append(quote)
        position = quote.end
    return found


def starts_with_quote(text: str) -> bool:
    """Whether a paragraph begins with a mark that opens."""
    match = _MARK.match(text, len(text) - len(text.lstrip()))
    return match is not None and _may_open(text, match)


def _may_open(text: str, match: re.Match[str]) -> bool:
    mark, start, end = match[0], match.start(), match.end()
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if mark not in _CLOSERS:
        return False
    if mark in "„«‹‚「『“":
        return True
    fresh = before.isspace() or before in _BEFORE_MARK
    if mark in "»›":  # the German way; else it closes what never opened
        return fresh and not after.isspace()
    if mark == '"' and (before in "“‘«(" or not text[:start].strip()):
        return True
    fresh = fresh or before in '“"«„'
    return fresh and not after.isspace() and after not in ",.;:!?)"


def _open_quote(text: str, match: re.Match[str]) -> Quote | None:
    """The quotation that this mark opens, if it does."""
    if not _may_open(text, match):
        return None
    mark = match[0]
    if mark in _SINGLE_MARKS:
        return _open_single_quote(text, match)
    end = _find_closing_mark(text, mark, match.end())
    if end:
        return Quote(match.start(), end, True)
    if mark in '"”»' and text[: match.start()].strip(" ([—–") and not _sentence_before(text, match):
        return None  # a lone sign in the middle of a line: inches, a slip
    return Quote(match.start(), len(text.rstrip()), False)


def _sentence_before(text: str, match: re.Match[str]) -> bool:
    near = text[max(0, match.start() - 4) : match.start()].rstrip()
    return near.endswith((".", "!", "?", "…", ":", ",", "—", "-"))


def _find_closing_mark(text: str, mark: str, position: int) -> int:
    """Behind the mark that closes a double quotation, or 0."""
    if mark == "``":
        place = text.find("''", position)
        return place + 2 if place >= 0 else 0
    closers, depth = _CLOSERS[mark], 1
    signs = re.compile(f"[{re.escape(closers + mark)}]").finditer(text, position)
    for match in islice(signs, _MAX_SIGNS):
        sign, at = match[0], match.start()
        if sign == mark and sign not in closers:
            depth += 1 if mark in "«‹„" else 0
        elif sign == '"' and _reopens(text, at):
            continue
        else:
            depth -= 1
            if not depth:
                return at + 1
    return 0


def _reopens(text: str, at: int) -> bool:
    """Whether a straight mark inside a quotation looks the other way, or counts inches."""
    before, after = text[at - 1], text[at + 1 : at + 2] or " "
    if before.isdigit():
        return _INCHES.match(text, at + 1) is not None
    return before.isspace() and not after.isspace() and after not in ",.;:!?)"


def _open_single_quote(text: str, match: re.Match[str]) -> Quote | None:
    """A quotation in single marks: the first firm end, else the first end before punctuation."""
    start, mark = match.start(), match[0]
    clipped = (_CLIPPED if mark == "'" else _CLIPPED_TURNED).match(text, match.end()) is not None
    loose = clipped or (mark == "'" and start > 0 and not _sentence_before(text, match))
    weak = 0
    signs = re.compile(f"[‘`{_CLOSERS[mark]}]").finditer(text, match.end())
    for found in islice(signs, _MAX_SIGNS):
        at = found.start()
        if found[0] in "‘`" and found[0] not in _CLOSERS[mark]:
            if weak:
                break
            continue
        kind = _classify_end(text, at)
        if kind == "firm":
            if (weak or loose) and _begins_again(text, weak or match.end(), at):
                break
            return Quote(start, at + 1, True)
        weak = weak or (at + 1 if kind == "weak" and not clipped else 0)
    if weak:
        return Quote(start, weak, True)
    return _leave_open(text, match) if not clipped else None


def _begins_again(text: str, start: int, end: int) -> bool:
    """Whether another quotation opens between two places."""
    signs = _REOPENING.finditer(text, start, end)
    return any(not _CLIPPED.match(text, sign.end()) for sign in signs)


def _classify_end(text: str, at: int) -> str:
    """Whether a single mark closes: firmly after punctuation, weakly before it."""
    before, after = text[at - 1], text[at + 1 : at + 2] or " "
    if after.isalnum():
        return ""
    if before in _PUNCTUATION and (
        before not in _QUOTE_DASHES or not text[at + 1 : at + 2].isalnum()
    ):
        return "firm"
    whole = text[at + 1 :].lstrip(".,;:!?)…")
    if before.isalnum() and (after in _AFTER_WEAK or not whole.strip()):
        return "weak"
    # A short quotation inside a sentence, 'expert', must not swallow what follows it.
    return "weak" if before.isalnum() and after.isspace() and before not in "sS" else ""


def _leave_open(text: str, match: re.Match[str]) -> Quote | None:
    """A speech that goes on in the next paragraph: only one that opens this one."""
    rest = text[match.end() :].strip()
    whole = not text[: match.start()].strip()
    if whole and rest[:1].isupper() and rest.endswith((".", "!", "?", "…", ":", "—")):
        return Quote(match.start(), len(text.rstrip()), False)
    return None
