"""English as it is read aloud, the American way where the ways differ.

What was chosen where readers differ:
- numbers with `and` ("one hundred and five"), years in pairs ("nineteen oh five", "two thousand
  seven"), `05/04/2021` with the month first;
- telephone numbers digit by digit with "zero", a rest after each group;
- acronyms as words where people say them so (NASA), else letter by letter ("F B I");
- web addresses from the host on, without the protocol;
- emoji and emoticons are left out: a reader of a book would not name them;
- names in code as the words they are made of.
"""

from __future__ import annotations

import re

from anyrig.speech.normalise import markup
from anyrig.speech.normalise.english import (
    abbreviations,
    acronyms,
    addresses,
    dates,
    labels,
    measures,
    money,
    numerals,
    roman,
    symbols,
    times,
)
from anyrig.speech.normalise.rules import Rule, rule

_TITLES = "Mr Mrs Ms Dr St Prof Gen Col Capt Lt Sgt Rev Sen Rep Gov No pp".split()
_AFTER_TITLE = "|".join(rf"(?<=\b{title}\.)" for title in _TITLES)


@rule(
    "space",
    r"(?<=[^\s])(?: {2,}|[ \t]{0,9}\r?\n[ \t]{0,9}(?=[a-z])|"
    rf"(?:{_AFTER_TITLE})[ \t]{{0,9}}\r?\n[ \t]{{0,9}})(?=\S)",
)
def _wrapped(match: re.Match[str]) -> str:
    """A line that ends in the middle of a sentence, and more spaces than one."""
    return " "


CLEAN: tuple[Rule, ...] = (*markup.CLEAN, _wrapped)
# The longer and stricter way of writing comes first: an address before a date, a date before a
# fraction, a unit before a number; the last rules leave no digit and no sign unsaid.
RULES: tuple[Rule, ...] = (
    *symbols.FIRST,
    *addresses.RULES,
    *dates.RULES,
    *times.RULES,
    *money.RULES,
    *numerals.FIRST,
    *labels.RULES,
    *measures.RULES,
    *numerals.RULES,
    *dates.NAMES,
    *roman.RULES,
    *abbreviations.RULES,
    *acronyms.DOTTED,
    *numerals.COUNTS,
    *dates.YEARS,
    *acronyms.RULES,
    *symbols.NUMBERS,
    *numerals.LAST,
    *symbols.RULES,
)

__all__ = ["CLEAN", "RULES"]
