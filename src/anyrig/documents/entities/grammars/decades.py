"""Decades: the 1990s, the '80s, les années 60, los años noventa."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.reading import Reading

_WORDS = {
    "vingt": 20, "trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60,
    "soixante-dix": 70, "septante": 70, "quatre-vingt": 80, "quatre-vingts": 80,
    "quatre-vingt-dix": 90, "nonante": 90, "veinte": 20, "treinta": 30, "cuarenta": 40,
    "cincuenta": 50, "sesenta": 60, "setenta": 70, "ochenta": 80, "noventa": 90,
}  # fmt: skip
_LONG = r"1[0-9]{2}0|20[0-9]0"
_ANCHOR = re.compile(r"[0-9]0'?s(?![a-z0-9])|(?<![a-z])(?:annees|anos) ")
_ENGLISH = re.compile(
    rf"(?<![\w.,:/$€£+])(?<![0-9]-)(?:(?P<long>{_LONG})'?|'(?P<short>[2-9]0))s(?![A-Za-z0-9-])"
)
# A number behind the word names the decade; before it, it counts years.
_BEHIND = re.compile(
    rf"(?<![A-Za-z])(?:annees|anos) (?:(?P<long>{_LONG})|(?P<short>[2-9]0)"
    rf"|(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))}))"
    r"(?![A-Za-z0-9%-]|[.,][0-9]| ?[€$£])",
    re.IGNORECASE,
)


def find(reading: Reading) -> Iterator[Entity]:
    """Every decade; one of two digits is of the last century."""
    regions = list(reading.around(_ANCHOR, 8, 24))
    for pattern in (_ENGLISH, _BEHIND):
        for found in reading.matches(pattern, regions):
            said = found.groupdict()
            short = said["short"] or _WORDS.get((said.get("word") or "").lower(), 0)
            first = int(said["long"] or 1900 + int(short))
            yield reading.entity("date", found.span(), f"{first}/{first + 9}", score=0.9)
