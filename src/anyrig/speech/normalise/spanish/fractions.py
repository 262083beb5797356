"""Spanish fractions: parts, mixed numbers, marks out of ten."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.figures import (
    BEFORE,
    FRACTION,
    GLYPHS,
    SPACE,
    choice,
)
from anyrig.speech.normalise.romance.sentences import closed, word_after, word_before
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.nouns import AFTER_HALF, gender
from anyrig.speech.normalise.spanish.numbers import (
    Gender,
    cardinal,
    fraction,
    say,
)
from anyrig.speech.normalise.spanish.units import UNITS

_HALVED = "l L kg g h km m lb ha dl cl".split()


def _half(match: re.Match[str], whole: int | None) -> str:
    """A half agrees with what it halves: media taza, dos y medio."""
    noun = word_after(match).lower()
    kind: Gender = gender(noun) if noun and noun not in AFTER_HALF else ""
    half = "media" if kind == "f" else "medio"
    if whole is not None:
        return f"{cardinal(whole, kind if whole == 1 else '')} y {half}"
    return half if kind else "un medio"


@rule("fraction", r"(?<![\w)\]])(?<!\d )[-\u2212](?=\d{1,3}(?: \d{1,3})?/\d)")
def _negative(match: re.Match[str]) -> str | None:
    return "menos "


@rule("fraction", rf"{BEFORE}(\d{{1,3}})(?:{SPACE}1/2|{SPACE}?½){SPACE}([a-záéíóúñ]+)(?!\w)")
def _and_half(match: re.Match[str]) -> str | None:
    """After what is counted: dos tazas y media."""
    whole, noun = int(match[1]), match[2]
    if noun in AFTER_HALF:
        return None
    if whole == 1:
        noun = re.sub(r"(?<=[lrnd])es$|s$", "", noun)
    kind = gender(noun)
    return f"{cardinal(whole, kind)} {noun} y {'media' if kind == 'f' else 'medio'}"


@rule("fraction", rf"{BEFORE}(\d+)/(\d+)(?={SPACE}?=)")
def _divided(match: re.Match[str]) -> str | None:
    return f"{say(match[1])} entre {say(match[2])}"


@rule("fraction", rf"{BEFORE}(1/2|½|1/4|¼|3/4|¾){SPACE}?({choice(_HALVED)})(?!\w)")
def _of_unit(match: re.Match[str]) -> str | None:
    """Medio litro, tres cuartos de hora."""
    one, _, kind = UNITS[match[2]]
    if match[1] in ("1/2", "½"):
        return closed(f"{'media' if kind == 'f' else 'medio'} {one}", match)
    return f"{'un cuarto' if match[1][0] in '1¼' else 'tres cuartos'} de {one}"


@rule("fraction", FRACTION)
def _fraction(match: re.Match[str]) -> str | None:
    whole = match[1] or match[3]
    over, under = GLYPHS[match[2]] if match[2] else (int(match[4]), int(match[5]))
    if (over, under) == (24, 7):
        return "veinticuatro siete"
    if over == under == 50:
        return "cincuenta cincuenta"
    if whole and over >= under:
        return None
    if 1900 <= under <= 2100:
        return f"{cardinal(over)} barra {cardinal(under)}"
    if over == under:
        return f"{cardinal(over)} sobre {cardinal(under)}"
    if (over, under) == (1, 2):
        return _half(match, int(whole) if whole else None)
    words = _graded(match, over, under)
    if over == 1 and word_before(match) in ("un",):
        return words.removeprefix("un ")  # It is there already: un 1/4.
    return f"{cardinal(int(whole))} y {words}" if whole else words


def _graded(match: re.Match[str], over: int, under: int) -> str:
    before = match.string[max(0, match.start() - 40) : match.start()].lower()
    marked = re.search(r"nota|puntu|calific|sacó|saqué|obtuv|valor|examen", before)
    if (
        under == 0
        or over > under * 3
        or (marked and under in (5, 10, 20, 100))
        or (over > 1 and under in (20, 100))
    ):
        return f"{cardinal(over)} sobre {cardinal(under)}"
    return fraction(over, under)


RULES: tuple[Rule, ...] = (
    _negative, _and_half, _divided, _of_unit, _fraction,
)  # fmt: skip
