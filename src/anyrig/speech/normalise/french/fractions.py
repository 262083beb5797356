"""French fractions: parts, mixed numbers, marks out of ten."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.nouns import NO_NOUN, gender
from anyrig.speech.normalise.french.numbers import (
    cardinal,
    fraction,
    say,
)
from anyrig.speech.normalise.french.units import UNITS
from anyrig.speech.normalise.romance.figures import (
    BEFORE,
    FRACTION,
    GLYPHS,
    SPACE,
    choice,
)
from anyrig.speech.normalise.romance.sentences import closed, word_after, word_before
from anyrig.speech.normalise.rules import Rule, rule

_HALVED = "l L kg g h km m ha dl cl".split()
_ROUNDS = {"2": "demi-", "4": "quart de ", "8": "huitième de ", "16": "seizième de "}


@rule("fraction", rf"{BEFORE}1/(2|4|8|16){SPACE}(?:de )?(?=finales?\b)")
def _round(match: re.Match[str]) -> str | None:
    """Of a cup: la demi-finale, le quart de finale."""
    return _ROUNDS[match[1]]


@rule(
    "fraction",
    r"(?:(?<=\bans )|(?<=\ban )|(?<=\bmois )|(?<=\bjours )|(?<=\bkilos )|(?<=\blitres )|"
    r"(?<=\bheures )|(?<=\bheure ))(?:1/2|½)(?![\w/])",
)
def _noun_and_half(match: re.Match[str]) -> str | None:
    """After what is counted: sept ans et demi."""
    return "et demie" if word_before(match).startswith("heure") else "et demi"


@rule("fraction", rf"{BEFORE}(1/2|½|1/4|¼|3/4|¾){SPACE}?({choice(_HALVED)})(?![\w'])")
def _of_unit(match: re.Match[str]) -> str | None:
    """Un demi-litre, trois quarts de litre."""
    one, _, kind = UNITS[match[2]]
    if match[1] in ("1/2", "½"):
        return closed(f"{'une' if kind == 'f' else 'un'} demi-{one}", match)
    link = "d'" if one[0] in "aeiouhé" else "de "
    return f"{'un quart' if match[1][0] in '1¼' else 'trois quarts'} {link}{one}"


@rule("fraction", r"(?<![\w)\]])(?<!\d )[-\u2212](?=\d{1,3}(?: \d{1,3})?/\d)")
def _negative(match: re.Match[str]) -> str | None:
    return "moins "


@rule("fraction", rf"{BEFORE}(\d{{1,3}})(?:{SPACE}1/2|{SPACE}?½){SPACE}([a-zà-ÿœ]+)(?!\w)")
def _and_half(match: re.Match[str]) -> str | None:
    """After what is counted: deux heures et demie."""
    whole, noun = int(match[1]), match[2]
    if noun in NO_NOUN:
        return None
    kind = gender(noun)
    return f"{cardinal(whole, kind)} {noun} et demi{'e' if kind == 'f' else ''}"


@rule("fraction", rf"{BEFORE}(\d+)/(\d+)(?={SPACE}?=)")
def _divided(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} divisé par {say(match[2])}"


@rule("fraction", rf"{BEFORE}(?:1/2|½) (?=([a-zà-ÿœ]+))")
def _half_of(match: re.Match[str]) -> str | None:
    """Joined to what it halves: une demi-heure."""
    if match[1] in NO_NOUN:
        return None
    return f"{'une' if gender(match[1]) == 'f' else 'un'} demi-"


@rule("fraction", FRACTION)
def _fraction(match: re.Match[str]) -> str | None:
    whole = match[1] or match[3]
    over, under = GLYPHS[match[2]] if match[2] else (int(match[4]), int(match[5]))
    if (over, under) == (24, 7):
        return "vingt-quatre sept"
    if over == under == 50:
        return "cinquante cinquante"
    if 1900 <= under <= 2100:
        return f"{cardinal(over)} slash {cardinal(under)}"
    if over == under:
        return f"{cardinal(over)} sur {cardinal(under)}"
    if whole and over >= under:
        return None
    if (over, under) == (1, 2):
        return _half(match, whole)
    words = _graded(match, over, under)
    if over == 1 and word_before(match) in ("un", "une"):
        return words.removeprefix("un ")  # It is there already: un 1/4.
    return f"{cardinal(int(whole))} et {words}" if whole else words


def _half(match: re.Match[str], whole: str | None) -> str:
    noun = word_after(match).lower()
    counts = bool(noun) and noun not in NO_NOUN
    if whole:
        return f"{cardinal(int(whole))} et demi{'e' if counts and gender(noun) == 'f' else ''}"
    return "un demi"


def _graded(match: re.Match[str], over: int, under: int) -> str:
    """Marks are out of ten or twenty; other fractions are parts."""
    before = match.string[max(0, match.start() - 40) : match.start()].lower()
    marked = re.search(r"not[eé]|obten|\beu\b|score|moyenne|évalu|examen", before)
    if under == 0 or over > under * 3 or (marked and under in (5, 10, 20, 100)):
        return f"{cardinal(over)} sur {cardinal(under)}"
    if over > 1 and under in (20, 100):
        return f"{cardinal(over)} sur {cardinal(under)}"
    return fraction(over, under)


RULES: tuple[Rule, ...] = (
    _round, _noun_and_half, _of_unit, _negative, _and_half, _divided, _half_of, _fraction,
)  # fmt: skip
