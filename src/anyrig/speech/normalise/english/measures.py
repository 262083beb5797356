"""Units of measure with the number before them, degrees, feet and inches, sizes."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.units import (
    AFTER_SPACE,
    ANYWHERE,
    SPEED_LIKE,
    unit,
)
from anyrig.speech.normalise.english.words import (
    DIGITS,
    MINUS,
    NOT_NOUNS,
    NUMBER,
    SUPERSCRIPT,
    VULGAR,
    cardinal,
    fraction,
    is_one,
    number,
    stop,
    vulgar,
)
from anyrig.speech.normalise.rules import Rule, rule

_DASH = r" ?[-–—] ?| to | or | and "
_ALL = "|".join(
    re.escape(name) for name in sorted({*ANYWHERE, *AFTER_SPACE}, key=len, reverse=True)
)
_COUNT = rf"(?:{NUMBER}|\d+ \d+/\d+|\d+/\d+|\d* ?[{VULGAR}])"
_SCALED = r"(?: (hundred|thousand|million|billion|trillion)\b|([kM])(?= ))?"
_WHOLE = "second|minute|hour|day|week|month|year|person|capita|serving|acre|inch|foot|mile|gallon"
_ARTICLE = re.compile(r"\b[Aa]n? $")
# Written without a space before a noun, these say of what kind it is: a 50mm lens.
_DESCRIBING = ("mm", "km", "GB", "MB", "TB", "W", "kW", "V", "cm", "MP", "Hz", "min", "mi")
_POWER = r"(?:\^?[23]|[²³])"


def count(text: str) -> str:
    """A number before a unit, fractions included: `3 1/2`, `½`."""
    if mixed := re.fullmatch(r"(?:(\d+) )?(\d+)/(\d+)", text):
        whole, above, below = mixed.groups()
        said = fraction(int(above), int(below)) if int(below) else f"{cardinal(above)} over zero"
        if not whole:
            return said
        return f"{cardinal(whole)} and {after_whole(said)}"
    if text[-1] in VULGAR:
        whole = text[:-1].strip()
        return (
            f"{cardinal(whole)} and {after_whole(vulgar(text[-1]))}" if whole else vulgar(text[-1])
        )
    return number(text)


def after_whole(said: str) -> str:
    """After a whole number: `three and a half`."""
    return "a half" if said == "one half" else "a quarter" if said == "one quarter" else said


def _singular(text: str) -> bool:
    return is_one(text) or bool(re.fullmatch(rf"\d+/\d+|[{VULGAR}]", text))


@rule(
    "unit",
    rf"(?<![\w.])([{MINUS}+±~≈] ?)?({_COUNT})(?:({_DASH})({_COUNT}))?{_SCALED}([ -]?)"
    rf"({_ALL})({_POWER})?"
    rf"(?: ?/ ?({_ALL}|{_WHOLE})({_POWER})?|(?: per |p(?=[hs](?!\w)))({_ALL}))?"
    r"(?![\w²³°]|\.\w|/\w|'s)"
    r"(\.(?!\d))?",
    needs=DIGITS + VULGAR,
)
def _measure(match: re.Match[str]) -> str | None:
    (sign, low, dash, high, scale, short, gap, name, power, below, below_power, per,
     dot) = match.groups()  # fmt: skip
    if not _is_unit(match, name, gap, dot):
        return None
    last = high or low
    one = _singular(last) and not scale and not short
    attached = gap == "-" or _before_noun(match)
    said = _lead(sign) + count(low)
    if high:
        link = dash.strip()
        said += f" {link if link in ('or', 'and') else 'to'} {count(high)}"
    scale = scale or {"k": "thousand", "M": "million"}.get(short or "")
    said += f" {scale}" if scale else ""
    said += " " + unit(name, power, one=one or attached)
    if below or per:
        said += " per " + unit(below or per, below_power, one=True)
    return said + _kept(match, dot)


def _before_noun(match: re.Match[str]) -> bool:
    """Whether a measure tells what kind of thing follows: a 500 GB drive."""
    after = re.match(r" ([a-z]{3,})\b", match.string[match.end() : match.end() + 20])
    if not after or after[1] in NOT_NOUNS:
        return False
    before = match.string[max(0, match.start() - 3) : match.start()]
    return match[0].endswith(_DESCRIBING) and " " not in match[0] or bool(_ARTICLE.search(before))


def _lead(sign: str | None) -> str:
    return {"": "", "+": "plus ", "±": "plus or minus ", "~": "approximately ",
            "≈": "approximately "}.get((sign or "").strip(), "minus ")  # fmt: skip


def _kept(match: re.Match[str], dot: str | None) -> str:
    """The full stop of an abbreviation, where it also ends a sentence."""
    if not dot:
        return ""
    name = match[8]
    dotted = name in ("in", "ft", "lb", "lbs", "oz", "min", "sec", "hr", "yd", "mi", "tbsp", "tsp",
                      "pt", "qt", "gal", "sq ft", "sq. ft", "hrs", "yds", "cu ft", "pts", "pcs",
                      "qts", "wks", "yrs", "mins", "secs", "gals")  # fmt: skip
    return "." if not dotted else stop(match, before_names=True)


_ROUTE = re.compile(r"\b(?:[Rr]oute|Rte\.?|[Hh]ighway|Hwy\.?|Exit|US|U\.S\.) $")


def _is_unit(match: re.Match[str], name: str, gap: str, dot: str | None) -> bool:
    rest = match.string[match.end() : match.end() + 30]
    if name == "in":
        return bool(dot) or bool(re.match(r"\s*(?:[,;)x×]|$|by\b|tall|wide|long|deep)", rest))
    if name == "W" and not gap and _ROUTE.search(match.string[: match.start()][-12:]):
        return False
    if name in AFTER_SPACE and not gap and not match[10]:
        return AFTER_SPACE[name]
    if name in ("W", "V", "A") and dot and re.match(r" (?:[A-Z]|\d+(?:st|nd|rd|th))", rest):
        return False
    if name == "A" and gap and not match.string[: match.start()].strip() and rest[:1] == " ":
        return False  # a note's number before its first word: "1 A river in Sicily."
    if name in ("A", "m", "C", "F", "V", "W", "K", "N", "J") and gap:
        # A letter that may begin a name: "Group 5 A students".
        return not re.match(r" [A-Z]", rest) or name in ("V", "W")
    return not (name == "s" and gap == "" and match[2].endswith("0") and len(match[2]) == 4)


@rule(
    "unit",
    rf"(?<![\w.])([{MINUS}+±~] ?)?({_COUNT})(?: ?°[CF]?)?(?:({_DASH})({_COUNT}))? ?(?:°|º|"
    r"deg\b\.?)"
    r"(?: ?([CFKNSEW])(?!\w)| ?(Celsius|Fahrenheit|centigrade|north|south|east|west)\b)?",
    needs="°ºd",
)
def _degrees(match: re.Match[str]) -> str:
    sign, low, dash, high, letter, word = match.groups()
    said = _lead(sign) + count(low)
    if high:
        said += f" {'or' if dash.strip() == 'or' else 'to'} {count(high)}"
    said += " degree" if is_one(high or low) else " degrees"
    scale = word or {"C": "Celsius", "F": "Fahrenheit", "K": "Kelvin", "N": "north", "S": "south",
                     "E": "east", "W": "west"}.get(letter or "")  # fmt: skip
    return f"{said} {scale}" if scale else said


@rule(
    "unit",
    rf"(?<![\w.])([{MINUS}] ?)?({NUMBER})[°º] ?(\d{{1,2}}(?:\.\d+)?)'(?: "
    rf"?(\d{{1,2}}(?:\.\d+)?)\")?"
    r"(?: ?([NSEW])(?!\w))?",
    needs="°º",
)
def _coordinate(match: re.Match[str]) -> str:
    sign, degrees, minutes, seconds, side = match.groups()
    said = f"{_lead(sign)}{_counted(degrees, 'degree')} {_counted(minutes, 'minute')}"
    if seconds:
        said += f" {_counted(seconds, 'second')}"
    sides = {"N": "north", "S": "south", "E": "east", "W": "west"}
    return f"{said} {sides[side]}" if side else said


def _counted(text: str, noun: str) -> str:
    return f"{number(text)} {noun}{'' if is_one(text) else 's'}"


@rule("unit", rf"(?<![\w.])({_COUNT})\" ?[x×] ?({_COUNT})\"", needs='"')
def _sheet(match: re.Match[str]) -> str:
    return " by ".join(
        f"{count(side)} {'inch' if is_one(side) else 'inches'}" for side in match.groups()
    )


@rule("unit", r"(?<![\w.])([3-8])' ?-?(\d{1,2}(?:\.\d)?|1?\d ?1/2)(?:\"|''|(?![\w.]))", needs="'")
def _height(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} foot {count(match[2])}"


@rule(
    "unit",
    r"(?<![\w.\"'/])(\d+(?:\.\d+)?|\d+ \d/\d|\d{1,2}/\d{1,2})(\"|'')(?![\w])(?=[\s.,;:!?)x×-]|$)",
    needs="\"'",
)
def _inches(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 300) : match.start()]
    if match[2] == '"' and len(re.findall(r'(?<!\d)"', before)) % 2:
        return None
    one = is_one(match[1]) or "/" in match[1] and " " not in match[1]
    return f"{count(match[1])} {'inch' if one else 'inches'}"


@rule("unit", r"(?<![\w.\"'])(\d+(?:\.\d+)?)'(?![\w'])(?=[\s.,;:!?)x×-]|$)", needs="'")
def _feet(match: re.Match[str]) -> str | None:
    if re.search(r"(?<!\w)'[^']*$", match.string[max(0, match.start() - 200) : match.start()]):
        return None
    return f"{number(match[1])} {'foot' if is_one(match[1]) else 'feet'}"


@rule(
    "number", rf"(?<![\w.])({NUMBER}) ?x ?({NUMBER})(?= ?= ?\d| (?:is|equals|makes) \d)", needs="x"
)
def _product(match: re.Match[str]) -> str:
    """A sum, where its result stands beside it."""
    return f"{number(match[1])} times {number(match[2])}"


@rule(
    "unit",
    rf"(?<![\w.])({_COUNT}) ?(?:({_ALL})\.? ?)?[x×] ?({_COUNT}) ?(?:({_ALL})\b)?(?: ?[x×] "
    rf"?({_COUNT}))? ?(?:({_ALL})\b)?"
    r"(?! ?\w?[\d^*=+÷]|\w)",
    needs="x×",
)
def _size(match: re.Match[str]) -> str | None:
    first, unit1, second, unit2, third, unit3 = match.groups()
    measured = unit1 or unit2 or unit3
    if "×" in match[0] and not measured and not _like_size(first, second):
        return None
    parts = [count(first) + _unit(unit1, first), count(second) + _unit(unit2, second)]
    if third:
        parts.append(count(third) + _unit(unit3, third))
    elif unit3:
        parts[-1] += _unit(unit3, second)
    return " by ".join(parts)


def _like_size(first: str, second: str) -> bool:
    return len(first) >= 3 and len(second) >= 3


def _unit(name: str | None, amount: str) -> str:
    return " " + unit(name, None, one=_singular(amount)) if name else ""


@rule("unit", rf"(?<=\w )({'|'.join(SPEED_LIKE)})(?!\w)", needs="/")
def _bare(match: re.Match[str]) -> str:
    above, _, below = match[1].partition("/")
    return f"{unit(above, None, one=False)} per {unit(below, None, one=True)}"


def squared(text: str) -> str:
    """A power: `²` as `squared`."""
    power = text.translate(SUPERSCRIPT).lstrip("^")
    return {"2": "squared", "3": "cubed"}.get(power, f"to the power of {number(power)}")


RULES: tuple[Rule, ...] = (
    _coordinate, _sheet, _height, _product, _size, _measure, _degrees, _inches, _feet, _bare,
)  # fmt: skip
