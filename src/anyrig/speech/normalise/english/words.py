"""Numbers and letters as English says them: what all the rules of the language build on."""

from __future__ import annotations

import re

from anyrig.speech.normalise import numbers

DIGITS = "0123456789"
NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
"""A number as it is written, with thousands and decimals: no group of its own."""
MINUS = "-−–"
_VULGAR = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8),
    "⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
VULGAR = "".join(_VULGAR)
SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


STARTERS = frozenset(
    "He She It The They We I You His Her Their This That There In On At But And When My Our Its A "
    "An If Then After Before Later So As For With From What Who Why How Every Each One Some All "
    "No Not Once Since While Although Turn Go Call Please Now Where Next Meet These Those Yet "
    "Still However Even Only Here Yes Perhaps Maybe Did Do Does Is Are Was Were Have Has Can "
    "Could Will Would Let Both Most Many Another Nobody Everyone Nothing Everything Soon Finally "
    "Suddenly Let's Don't Today Tomorrow Yesterday Meanwhile Instead Thus Or Nor To Of By Because "
    "Until Two Three".split()
)
"""Words that begin a sentence and no name."""
NOT_NOUNS = frozenset(
    "a an and or but for in on at to of from by with as is was than per each every more less was "
    "when if so because that this it he she they we i you will would has had were are until after "
    "before which who while since off out up down over under into during plus minus every last "
    "next one".split()
)
"""Words after a measure that show it stands alone: `a $5 bill`, `a $5 and a $10`."""
_ENDS = re.compile(r"""["')\]]*(?:\s*$|\s*\n|\s+["'(]*([A-Z][a-z']*))""")


def stop(match: re.Match[str], *, before_names: bool = False) -> str:
    """The full stop of a shortened word, where it ends the sentence as well.

    `before_names` for a word that a name would not follow: any capital begins a sentence then.
    """
    ends = _ENDS.match(match.string, match.end()) if match[0].endswith(".") else None
    if not ends:
        return ""
    return "." if not ends[1] or before_names or ends[1].partition("'")[0] in STARTERS else ""


def cardinal(text: str | int) -> str:
    """`1,205` as `one thousand two hundred and five`: no comma, a voice would rest there."""
    return numbers.whole(str(text), "en").replace(",", "")


def ordinal(text: str | int) -> str:
    """`22` as `twenty-second`."""
    plain = str(text).replace(",", "")
    if len(plain) > numbers.MOST_DIGITS:
        return cardinal(plain)
    return numbers.ordinal(int(plain), "en").replace(",", "")


def digits(text: str) -> str:
    """`042` as `zero four two`."""
    return numbers.digits(text, "en")


def number(text: str) -> str:
    """A number with a sign, thousands and decimals: `-1,200.05`."""
    text = text.strip()
    sign = ""
    if text[:1] in MINUS + "+" and text:
        sign, text = "plus " if text[0] == "+" else "minus ", text[1:].strip()
    before, point, after = text.partition(".")
    if before == "007":
        said = "double oh seven"
    elif len(before) > 1 and before[0] == "0" and not point:
        said = digits(before)
    else:
        said = cardinal(before or "0")
    return f"{sign}{said} point {digits(after)}" if after else sign + said


def is_one(text: str) -> bool:
    """Whether what is counted stands in the singular."""
    return text.strip().lstrip(MINUS + "+") == "1"


def fraction(above: int, below: int) -> str:
    """`3/4` as `three quarters`."""
    if below == 2:
        name = "half" if above == 1 else "halves"
    elif below == 4:
        name = "quarter" if above == 1 else "quarters"
    else:
        name = ordinal(below) + ("" if above == 1 else "s")
    return f"{cardinal(above)} {name}"


def vulgar(sign: str) -> str:
    """`½` as `one half`."""
    return fraction(*_VULGAR[sign])


def year(text: str | int) -> str:
    """`1905` as `nineteen oh five`, `2007` as `two thousand seven`."""
    value = int(text)
    high, low = divmod(value, 100)
    if value < 100 or value > 9999:
        return cardinal(value)
    if value % 1000 < 10 and value >= 1000:
        return f"{cardinal(value // 1000)} thousand {cardinal(low) if low else ''}".strip()
    return pairs(value) if high else cardinal(low)


def pairs(value: int) -> str:
    """A number that is said two digits at a time: `747`, `1408`, `101`."""
    high, low = divmod(value, 100)
    if not 1 <= high <= 99:
        return cardinal(value)
    if not low:
        return f"{cardinal(high)} hundred" if high % 10 else cardinal(value)
    return f"{cardinal(high)} {'oh ' if low < 10 else ''}{cardinal(low)}"


def decade(value: int, *, short: bool = False) -> str:
    """`1980` as `nineteen eighties`, `1900` as `nineteen hundreds`."""
    words = cardinal(value % 100) if short else year(value)
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def letters(text: str) -> str:
    """`FBI` as `F B I`, digits in it as numbers: `MP3` as `M P three`."""
    said: list[str] = []
    run = ""
    for sign in text + " ":
        if sign in DIGITS:
            run += sign
            continue
        if run:
            said.append(label_number(run))
            run = ""
        if sign.isalpha():
            said.append(sign.upper())
        elif sign == "&":
            said.append("and")
    return " ".join(said)


def label_number(text: str) -> str:
    """A number that names a thing and counts nothing: `66`, `747`, `101`, `2049`, `007`."""
    if text.startswith("0") and len(text) > 1 or len(text) > 4:
        return digits(text)
    value = int(text)
    if len(text) == 3 or (len(text) == 4 and value % 1000 >= 10):
        return pairs(value)
    return cardinal(text)
