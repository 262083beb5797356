"""A text as the grammars look at it: without accents and odd spaces, each character in its place.

`plain` has the length of the text, so that what is found in one stands at the same offset in the
other. Which language a part is in decides what `1.234` or 03/04/2024 means.
"""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from anyrig.documents.entities.entity import Entity

Span = tuple[int, int]
_ODD = {
    **dict.fromkeys("\u00a0\u202f\u2009\u2007\u2008\u200a\u2002\u2003\u2005\u3000", " "),
    **dict.fromkeys("\u2010\u2011\ufe63\uff0d", "-"), "\u2212": "-", "\u2012": "\u2013",
    "\u2019": "'", "\u02bc": "'", "\uff0b": "+", "\uff20": "@", "\uff0e": ".", "\uff0c": ",",
    "ª": "ª", "º": "º",
}  # fmt: skip


_RUN = re.compile(r"[0-9]{41,}|@{2,}|[.,:;+$%()/-]{12,}")  # nothing that is looked for
_EMPTY = re.compile(r"~{64,}|[ \n]{64,}")


@lru_cache(maxsize=1)
def _table() -> dict[int, str]:
    """Each accented letter to its plain one, each full-width digit to a digit."""
    table = {ord(odd): usual for odd, usual in _ODD.items()}
    for number in (*range(0xC0, 0x180), *range(0x1E00, 0x1F00), *range(0xFF10, 0xFF1A)):
        character = chr(number)
        base = unicodedata.normalize("NFKD", character)[0]
        if base.isascii() and base.isalnum() and number not in table:
            table[number] = base
    return table


@dataclass(frozen=True)
class PlainText:
    """A text, its plain form, and the language of each part."""

    text: str
    plain: str
    lower: str
    """The plain text in small letters, to look for words in."""
    islands: tuple[Span, ...]
    """All of it but for long runs in which nothing can stand."""
    starts: tuple[int, ...]
    languages: tuple[str, ...]

    def language(self, at: int) -> str:
        """`fr`, `en-GB`: what stands at an offset is in this language."""
        return self.languages[max(0, bisect.bisect_right(self.starts, at) - 1)]

    def around(self, anchor: re.Pattern[str], before: int, after: int) -> Iterator[Span]:
        """Stretches around each place where an anchor stands in small letters, none overlapping.

        A cheap look for what a thing cannot be without spares a dear one at every character.
        """
        start = end = -1
        places = (one for span in self.islands for one in anchor.finditer(self.lower, *span))
        for found in places:
            low, high = found.start() - before, found.end() + after
            if low > end:
                if end > 0:
                    yield max(0, start), end
                start = low
            end = high
        if end > 0:
            yield max(0, start), min(end, len(self.plain))

    def matches(self, pattern: re.Pattern[str], regions: Iterable[Span]) -> Iterator[re.Match[str]]:
        """Where a pattern stands within some stretches of the plain text."""
        for start, end in regions:
            yield from pattern.finditer(self.plain, start, end)

    def build_entity(
        self,
        kind: str,
        span: Span,
        value: str = "",
        *,
        score: float = 1.0,
        valid: bool | None = None,
        details: Mapping[str, str] | None = None,
    ) -> Entity:
        start, end = span
        return Entity(
            kind, self.text[start:end], start, end, value, "grammar", score, valid, details or {}
        )

    def has_label(self, at: int, label: re.Pattern[str], max_distance: int = 40) -> bool:
        """Whether a label, such as `Tel.:`, stands right before an offset on the same line."""
        start = max(0, at - max_distance)
        start = max(start, self.plain.rfind("\n", start, at) + 1)
        return label.search(self.plain, start, at) is not None


def build_label(words: str) -> re.Pattern[str]:
    """A pattern of label words with what may stand between them and the thing: `no.:`."""
    return re.compile(
        rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])[\W_]{{0,4}}"
        r"(?:(?:no|nr|num|number|numero|code|id|is|est|es|of|de|du|del|n)\b[\W_]{0,4}){0,2}$",
        re.IGNORECASE,
    )


def build_plain_text(text: str, languages: Mapping[int, str] | str = "en") -> PlainText:
    """The plain form of a text.

    Args:
        text: any.
        languages: of all of it, or by the offset at which a part begins.
    """
    plain = text if text.isascii() else text.translate(_table())
    plain = _RUN.sub(lambda run: "~" * len(run[0]), plain)
    lower = plain.lower()
    if len(lower) != len(plain):  # a letter that has two small ones
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in plain)
    if isinstance(languages, str):
        languages = {0: languages}
    ordered = sorted(languages.items()) or [(0, "en")]
    return PlainText(
        text,
        plain,
        lower,
        _find_islands(plain),
        tuple(start for start, _ in ordered),
        tuple(name for _, name in ordered),
    )


def _find_islands(plain: str) -> tuple[Span, ...]:
    found, last = [], 0
    for gap in _EMPTY.finditer(plain):
        if gap.start() > last:
            found.append((last, gap.start()))
        last = gap.end()
    return (*found, (last, len(plain))) if last < len(plain) else tuple(found)


def find_code_end(plain: str, at: int, count: int, between: str = " -") -> int | None:
    """Where `count` letters and digits end that begin at an offset; None if they do not fit there.

    One separator may stand between two of them. Neither letter nor digit may follow.
    """
    end, size = at, len(plain)
    for number in range(count):
        if number and end < size and plain[end] in between:
            end += 1
        if end >= size or not (plain[end].isascii() and plain[end].isalnum()):
            return None
        end += 1
    return None if end < size and (plain[end].isalnum() or plain[end] == "_") else end


def compact(plain: str) -> str:
    """Its letters and digits alone, in capitals."""
    return "".join(character for character in plain if character.isalnum()).upper()
