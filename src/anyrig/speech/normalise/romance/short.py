"""Abbreviations from a table: found in any spacing, closed where they end a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping

from anyrig.speech.normalise.romance.sentences import cased, closed
from anyrig.speech.normalise.rules import Rule, rule

_GAP = "[ \u00a0\u202f]"


def abbreviations(
    table: Mapping[str, str],
    *,
    before: str = "",
    after: str = "",
    anyhow: bool = True,
    may_close: bool = False,
) -> Rule:
    """One rule for a table of written to said.

    Args:
        table: written form, a space where there may be none: `p. ej.`.
        before: a look behind at what may not stand there.
        after: a pattern that what follows must match: a digit, a name.
        anyhow: capitals do not matter.
        may_close: it may be the last word of a sentence, with another one following.
    """
    known = {_plain(key, anyhow): words for key, words in table.items()}
    written = sorted(table, key=len, reverse=True)
    choice = "|".join(re.escape(one).replace(r"\ ", f"{_GAP}?") for one in written)
    end = r"(?:(?<=[.\u00ba\u00aa\u00b0/#])|(?![\w'\u2019]))"
    flags = re.IGNORECASE if anyhow else 0

    def say(match: re.Match[str]) -> str | None:
        words = known.get(_plain(match.group(), anyhow))
        if words is None:
            return None
        follows = match.string[match.end() : match.end() + 1]
        said = closed(cased(words, match), match, may_close=may_close)
        return f"{said} " if follows.isalnum() else said

    return rule("abbreviation", rf"(?<![\w.]){before}(?:{choice}){end}{after}", flags=flags)(say)


def _plain(written: str, anyhow: bool) -> str:
    text = re.sub(r"[\s\u00a0\u202f]", "", written)
    return text.lower() if anyhow else text
