"""French numbers in words: gender, decimals, ordinals, fractions."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from anyrig.speech.normalise import numbers
from anyrig.speech.normalise.romance.figures import Figure, figure

Gender = Literal["", "m", "f"]
"""What the number stands before: nothing or a masculine noun, or a feminine one."""

_PARTS = {2: "demi", 3: "tiers", 4: "quart"}


@lru_cache(maxsize=4096)
def cardinal(number: int, gender: Gender = "") -> str:
    """`vingt et un`, before a feminine noun `vingt et une`."""
    if number < 0:
        return f"moins {cardinal(-number, gender)}"
    words = numbers.cardinal(number, "fr")
    return re.sub(r"\bun$", "une", words) if gender == "f" else words


def label(number: int) -> str:
    """A number that names, not counts: page quatre-vingt, les années quatre-vingt."""
    return re.sub(r"(vingt|cent)s$", r"\1", cardinal(number))


def digits(written: str) -> str:
    """Digit by digit."""
    return " ".join(cardinal(int(one)) for one in written if one.isdecimal())


def pairs(written: str) -> str:
    """A group of a telephone number: zéro un, vingt-trois."""
    if written.startswith("0") and len(written) > 1:
        return f"zéro {pairs(written[1:])}"
    return cardinal(int(written)) if len(written) <= 3 else digits(written)


def ordinal(number: int, gender: Gender = "m") -> str:
    """`premier`, `première`, `vingt et unième`, `quatre-vingtième`."""
    if number == 1:
        return "première" if gender == "f" else "premier"
    words = re.sub(r"(?<=[a-z])s$", "", cardinal(number)) if number % 10 == 0 else cardinal(number)
    if words.endswith("cinq"):
        return f"{words}uième"
    if words.endswith("neuf"):
        return f"{words[:-1]}vième"
    words = words.removesuffix("e")
    return f"{words}ième"


def say(written: str, gender: Gender = "") -> str:
    """A number as it is written, with its sign and decimals."""
    return say_figure(figure(written), gender)


def say_figure(number: Figure, gender: Gender = "", *, point: str = "virgule") -> str:
    """The same, taken apart already; `point` is what a decimal point is called."""
    if number.decimals:
        whole = digits(number.digits) if number.spelt else cardinal(number.whole)
        words = f"{whole} {point if number.point else 'virgule'} {decimals(number.decimals)}"
    elif number.spelt:
        words = digits(number.digits)
    else:
        words = cardinal(number.whole, gender)
    return f"moins {words}" if number.negative else words


def decimals(written: str) -> str:
    """Up to three are read as a number, more of them one by one; zeros in front are said."""
    rest = written.lstrip("0")
    if len(rest) > 3 or not rest:
        return digits(written)
    return " ".join(["zéro"] * (len(written) - len(rest)) + [cardinal(int(rest))])


def plural(number: Figure) -> bool:
    """From two on; one and a half is still singular."""
    return number.whole >= 2


def fraction(over: int, under: int) -> str:
    """`trois quarts`, `deux tiers`, `cinq huitièmes`."""
    if under < 2:
        return f"{cardinal(over)} sur {cardinal(under)}"
    part = _PARTS.get(under) or ordinal(under)
    many = "s" if over > 1 and not part.endswith("s") else ""
    return f"{cardinal(over)} {part}{many}"
