"""Signs that are said, and quotes, dashes and dots that are only heard as pauses."""

from __future__ import annotations

import re
from collections.abc import Mapping

from anyrig.speech.normalise.rules import Rule, rule

_GAP = "[ \u00a0\u202f]{0,4}"
_DASH = "[\u2014\u2013]"


def signs(table: Mapping[str, str]) -> Rule:
    """One rule for the signs of a table: always words of their own."""
    choice = "|".join(sorted(map(re.escape, table), key=len, reverse=True))

    def say(match: re.Match[str]) -> str:
        words = f" {table[match[1]]}" if table[match[1]] else ""
        after = match.string[match.end() : match.end() + 1]
        return words if after in tuple(".,;:!?)") else f"{words} "

    return rule("symbol", rf"{_GAP}({choice}){_GAP}")(say)


def pauses() -> tuple[Rule, ...]:
    """Quotes go, a dash of dialogue goes, dashes in a sentence become a comma."""
    single = r"(?<!\w)['\u2018](?=\w[^'\u2018\n]{0,200}['](?!\w))"
    return (
        rule("quote", rf"[\u00ab\u2039]{_GAP}|{_GAP}[\u00bb\u203a]")(lambda _: ""),
        rule("quote", "[\"\u201c\u201d\u201e\u201f]|''")(lambda _: ""),
        rule("quote", r"\u2018(?=\w)")(lambda _: ""),
        rule("quote", single, needs="'\u2018")(lambda _: ""),
        rule("quote", r"(?<=[\w.,!?\u2026])'(?!\w)", needs="'")(_closing_quote),
        rule("dash", rf"^[ \t]*(?:{_DASH}|--?(?=\s))[ \t]*", flags=re.M)(lambda _: ""),
        rule("dash", rf"{_GAP}(?:{_DASH}|(?<=\s)--?(?=\s)|--+){_GAP}")(_pause),
        rule("ellipsis", r"\u2026|\.{3,}", needs="\u2026.")(lambda _: "..."),
    )  # fmt: skip


def _pause(match: re.Match[str]) -> str:
    """A dash in a sentence is a pause, unless another mark makes one beside it."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    if not before or before in "\n.,;:!?\u2026\u00bf\u00a1(" or not after or after == "\n":
        return " "
    return "" if after in ".,;:!?)\u2026" else ", "


def _closing_quote(match: re.Match[str]) -> str | None:
    """A closing single quote, when one was opened shortly before."""
    before = match.string[max(0, match.start() - 200) : match.start()]
    return "" if re.search(r"(?:^|[\s(\u00bf\u00a1])['\u2018]\w[^\n]*$", before) else None
