"""Spanish numbers in words: gender, the short form before a noun, decimals, ordinals."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from anyrig.speech.normalise import numbers
from anyrig.speech.normalise.romance.figures import Figure, figure

Gender = Literal["", "m", "f"]
"""What the number stands before: nothing, a masculine noun, a feminine one."""

_UNITS = "cero primero segundo tercero cuarto quinto sexto séptimo octavo noveno".split()
_TEENS = (
    "décimo undécimo duodécimo decimotercero decimocuarto decimoquinto decimosexto decimoséptimo "
    "decimoctavo decimonoveno"
).split()
_TENS = (
    "vigésimo trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo nonagésimo"
).split()
_HUNDREDS = (
    "centésimo ducentésimo tricentésimo cuadringentésimo quingentésimo sexcentésimo "
    "septingentésimo octingentésimo noningentésimo"
).split()
_PARTS = {
    2: "medio", 3: "tercio", 4: "cuarto", 5: "quinto", 6: "sexto", 7: "séptimo", 8: "octavo",
    9: "noveno", 10: "décimo", 100: "centésimo", 1000: "milésimo", 1_000_000: "millonésimo",
}  # fmt: skip


@lru_cache(maxsize=4096)
def cardinal(number: int, gender: Gender = "") -> str:
    """`veintiuno`, before a noun `veintiún` or `veintiuna`."""
    if number < 0:
        return f"menos {cardinal(-number, gender)}"
    words = numbers.cardinal(number, "es")
    # The library leaves out the short form inside: veintiuno mil.
    words = re.sub(r"veintiuno(?= (?:mil|\w+ill))", "veintiún", words)
    words = re.sub(r"\buno(?= (?:mil|\w+ill))", "un", words)
    return _agreeing(words, gender) if gender else words


def _agreeing(words: str, gender: Gender) -> str:
    if gender == "m":
        return re.sub(r"\buno$", "un", re.sub(r"veintiuno$", "veintiún", words))
    # Only what comes after the millions takes the gender of what is counted.
    head, million, rest = words.rpartition(" millones")
    if not million:
        head, million, rest = words.rpartition(" millón")
    rest = re.sub(r"(cient|quinient)os\b", r"\1as", rest)
    rest = re.sub(r"veintiún(?= mil)", "veintiuna", re.sub(r"uno$", "una", rest))
    return f"{head}{million}{re.sub(r' un(?= mil)', ' una', rest)}"


def digits(written: str) -> str:
    """Digit by digit."""
    return " ".join(cardinal(int(one)) for one in written if one.isdecimal())


def ordinal(number: int, gender: Gender = "m") -> str:
    """`primero`, `decimotercera`, `vigésimo primero`; a cardinal from a thousand on."""
    if not 0 < number < 1000:
        return cardinal(number)
    words = []
    hundreds, rest = divmod(number, 100)
    if hundreds:
        words.append(_HUNDREDS[hundreds - 1])
    if 10 <= rest < 20:
        words.append(_TEENS[rest - 10])
    else:
        tens, units = divmod(rest, 10)
        words += [_TENS[tens - 2]] if tens else []
        words += [_UNITS[units]] if units else []
    if gender == "f":
        words = [f"{word[:-1]}a" for word in words]
    return " ".join(words)


def short_ordinal(number: int) -> str:
    """`primer`, `tercer`: as they are before a masculine noun."""
    return re.sub(r"(primer|tercer)o$", r"\1", ordinal(number))


def say(written: str, gender: Gender = "") -> str:
    """A number as it is written, with its sign and decimals."""
    return say_figure(figure(written), gender)


def say_figure(number: Figure, gender: Gender = "") -> str:
    """The same, taken apart already."""
    if number.decimals:
        whole = digits(number.digits) if number.spelt else cardinal(number.whole)
        words = f"{whole} {'punto' if number.point else 'coma'} {decimals(number.decimals)}"
    elif number.spelt:
        words = digits(number.digits)
    else:
        words = cardinal(number.whole, gender)
    return f"menos {words}" if number.negative else words


def decimals(written: str) -> str:
    """Up to three are read as a number, more of them one by one; zeros in front are said."""
    rest = written.lstrip("0")
    if len(rest) > 3 or not rest:
        return digits(written)
    return " ".join(["cero"] * (len(written) - len(rest)) + [cardinal(int(rest))])


def fraction(over: int, under: int) -> str:
    """`tres cuartos`, `un onceavo`, `quince sobre veinte`."""
    part = _PARTS.get(under) or _eleventh(under)
    if under < 2 or not part:
        return f"{cardinal(over)} sobre {cardinal(under)}"
    return f"{cardinal(over, 'm')} {part}{'' if over == 1 else 's'}"


def _eleventh(under: int) -> str:
    """Denominators from eleven on have a name of their own, seldom used beyond the tens."""
    if not 11 <= under <= 99:
        return ""
    stem = cardinal(under).replace(" y ", "i").translate(str.maketrans("éó", "eo"))
    return f"{re.sub('uno$', 'un', stem).removesuffix('a')}avo"
