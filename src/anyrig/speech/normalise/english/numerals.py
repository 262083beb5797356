"""Plain numbers: percentages, fractions, ordinals, ranges, powers, versions, labels, counts."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.measures import after_whole, count, squared
from anyrig.speech.normalise.english.words import (
    DIGITS,
    MINUS,
    NUMBER,
    SUBSCRIPT,
    SUPERSCRIPT,
    VULGAR,
    cardinal,
    digits,
    fraction,
    label_number,
    number,
    ordinal,
)
from anyrig.speech.normalise.rules import Rule, rule

_SPECIAL = {
    "24/7": "twenty-four seven", "9/11": "nine eleven", "7/7": "seven seven",
    "50/50": "fifty-fifty", "20/20": "twenty twenty", "4/20": "four twenty",
}  # fmt: skip
_PLACES = re.compile(
    r"(?:[Aa]pt\.?|[Aa]partment|[Ss]uite|[Rr]oom|[Uu]nit|[Ss]eat|[Gg]ate|[Gg]rade|[Ss]ection) $"
)
_RATED = re.compile(r"\b(?:rated?|rating|scored?|gave|give|got|gets|earned)\b[^.]{0,20}$")
_SCALES = {"k": "thousand", "K": "thousand", "M": "million", "m": "million", "B": "billion",
           "bn": "billion", "T": "trillion", "mn": "million"}  # fmt: skip


@rule(
    "percent",
    rf"(?<![\w.])([{MINUS}+±~≈<>] ?)?({NUMBER}|\d* ?[{VULGAR}]|\d+/\d+) ?(?:%(?= ?[-–—]))"
    r"?(?:( ?[-–—] ?| to | or | and )"
    rf"({NUMBER}))? ?(%|‰|percent\b|per cent\b|pct\b\.?)",
    needs="%‰p",
)
def _percent(match: re.Match[str]) -> str:
    sign, low, link, high, mark = match.groups()
    lead = {"+": "plus ", "±": "plus or minus ", "~": "approximately ", "≈": "approximately ",
            "<": "less than ", ">": "greater than "}  # fmt: skip
    said = lead.get(sign.strip(), "minus ") if sign else ""
    said += count(low)
    if high:
        bare = link.strip()
        said += f" {bare if bare in ('or', 'and') else 'to'} {number(high)}"
    return f"{said} {'per mille' if mark == '‰' else 'percent'}"


@rule(
    "fraction",
    r"(?<![\w./])(?:(\d+)(?: and |[ -]))?(\d{1,4})[/⁄](\d{1,5})(ths?|rds?|nds?)"
    r"?(?![\w/]|[.,]\d|%)",
    needs="/⁄",
)
def _fraction(match: re.Match[str]) -> str | None:
    whole, above, below, _ = match.groups()
    if not whole and match[0] in _SPECIAL:
        return _SPECIAL[match[0]]
    if not int(below):
        return None
    if not whole and len(above) == len(below) == 2 and int(above) + int(below) == 100:
        return f"{cardinal(above)} {cardinal(below)}"
    if not whole and int(above) > 20 and int(below) > 20 or int(below) > 1000:
        return f"{_whole(whole)}{cardinal(above)} over {cardinal(below)}"
    if whole and int(above) >= int(below):
        return None
    if not whole and above != "1" and _is_rating(match, above, below):
        return f"{cardinal(above)} out of {cardinal(below)}"
    said = fraction(int(above), int(below))
    return _whole(whole) + (after_whole(said) if whole else said)


def _is_rating(match: re.Match[str], above: str, below: str) -> bool:
    if above == below or match.string.startswith(" stars", match.end()):
        return True
    before = match.string[max(0, match.start() - 30) : match.start()]
    return below in ("5", "10", "100") and bool(_RATED.search(before))


def _whole(text: str | None) -> str:
    return f"{cardinal(text)} and " if text else ""


@rule("fraction", rf"(?<![\w.])(\d+)? ?([{VULGAR}])", needs=VULGAR)
def _vulgar(match: re.Match[str]) -> str:
    return count(match[0].strip())


@rule(
    "ordinal",
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)\^?(?:st|nd|rd|th|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)(s?)\b",
    needs=DIGITS,
    flags=re.IGNORECASE,
)
def _ordinal(match: re.Match[str]) -> str:
    return ordinal(match[1]) + match[2].lower()


@rule(
    "number",
    rf"(?<![\w.])([{MINUS}])?({NUMBER})(?: ?[×x·*] ?10(?:\^|\*\*)?(?:\(?([-−+]?\d{{1,4}})\)"
    r"?|([⁻⁺]?[⁰¹²³⁴-⁹]+))|"
    r"[eE]([-+−]?\d{1,4}))(?![\w.]\w|\w)",
    needs=DIGITS,
)
def _scientific(match: re.Match[str]) -> str | None:
    power = match[3] or match[4] or match[5]
    if match[3] and "^" not in match[0] and "**" not in match[0]:
        return None
    exponent = power.translate(SUPERSCRIPT).replace("−", "-")
    sign = "minus " if match[1] else ""
    return f"{sign}{number(match[2])} times ten to the power of {number(exponent)}"


@rule(
    "number",
    rf"(?<![\w.])({NUMBER}|[A-Za-z])(?:\^\(?([-−]?\w{{1,4}})\)?|([⁻⁺]?[⁰¹²³⁴-⁹]+))(?!\d)",
    needs="^⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺",
)
def _power(match: re.Match[str]) -> str:
    base = match[1] if match[1].isalpha() else number(match[1])
    power = (match[2] or match[3]).translate(SUPERSCRIPT)
    if not re.fullmatch(r"[-−]?\d+", power):
        return f"{base} to the power of {power}"
    return f"{base} {squared(power)}"


@rule("number", rf"(?<![\w.,])({NUMBER})(k|K|M|B|bn|mn|T)(\+)?(?![\w&]|-?[A-Z])", needs=DIGITS)
def _shortened(match: re.Match[str]) -> str | None:
    amount, scale, more = match.groups()
    before = match.string[max(0, match.start() - 12) : match.start()]
    if scale == "B" and _PLACES.search(before):
        return f"{label_number(amount)} B" if amount.isdecimal() else None
    after = match.string[match.end() : match.end() + 6]
    if scale in "kK" and _is_k(match[0], before, after):
        return f"{number(amount)} K"
    if match[0] == "3M" and not re.match(r" [a-z]+", after):
        return "three M"
    return f"{number(amount)} {_SCALES[scale]}" + (" plus" if more else "")


def _is_k(written: str, before: str, after: str) -> bool:
    """Whether the letter is said: of a screen, or of a run."""
    if written in ("4K", "8K") or after.startswith((" run", " race")):
        return True
    return bool(re.search(r"\b[Aa] $", before)) and not after.startswith((" f", " s"))


@rule("number", rf"(?<![\w.,])({NUMBER})x(?!\w| ?[-+=*/^])", needs="x")
def _times(match: re.Match[str]) -> str:
    return f"{number(match[1])} times"


@rule(
    "number",
    rf"(?<![\w.,/-])([{MINUS}])?({NUMBER})(k|K|M)?( ?[–—] ?|-| - )({NUMBER})(k|K|M|x)?(?! "
    r"?[-–][\d]|\w|\.\d)",
    needs=DIGITS,
)
def _range(match: re.Match[str]) -> str | None:
    sign, low, scale, dash, high, scale2 = match.groups()
    if (
        dash == " - "
        and re.search(r"[=+*/÷×] ?$", match.string[max(0, match.start() - 2) : match.start()])
        or re.match(r" ?[=+*÷×/]", match.string[match.end() : match.end() + 3])
    ):
        return None
    if dash == "-" and (low.startswith("0") and len(low) > 1 and "." not in low):
        return f"{digits(low)} {digits(high)}"
    said = number(low) + (f" {_SCALES[scale]}" if scale else "")
    last = {"x": "times"}.get(scale2 or "") or _SCALES.get(scale2 or "", "")
    return f"{'minus ' if sign else ''}{said} to {number(high)} {last}".rstrip()


@rule("number", r"(?<![\w.,])(\d{1,3}(?: \d{3})+)(?![\w]|[.,]\d| \d)", needs=DIGITS)
def _spaced(match: re.Match[str]) -> str | None:
    return cardinal(match[1]) if match[1].count(" ") > 1 or match[1].endswith("000") else None


@rule("number", r"(?<![\w.,-])(\d{1,4})-(?=[a-z]{2,})", needs="-")
def _compound(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])}-"


@rule(
    "number",
    rf"(?<![\w])([−]|(?<![\w.)\"'])[-–](?=[\d.])|\+(?=\d))?({NUMBER})(?!\d)(?:(?<=\d)"
    r"([A-Za-z])(?![\w&]))?",
    needs=DIGITS,
)
def _number(match: re.Match[str]) -> str | None:
    sign, text, letter = match.groups()
    start = match.start(2)
    if text.startswith(".") and match.string[start - 1 : start].isalnum():
        return None
    said = number((sign or "") + text) if not letter or sign else _tagged(text)
    return f"{said} {letter}" if letter else said


def _tagged(text: str) -> str:
    """The number of `221B`: one that names, when it is short."""
    return label_number(text) if text.isdecimal() and len(text) <= 4 else number(text)


@rule("number", r"\d+", needs=DIGITS)
def _left(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    said = label_number(match[0]) if before.isalpha() else number(match[0])
    return (" " if before.isalnum() else "") + said + (" " if after.isalnum() else "")


@rule("number", r"(?<![\w.,])(100|1,?000|10,000|100,000|1,000,000)s of\b", needs="0")
def _many(match: re.Match[str]) -> str:
    return f"{cardinal(match[1]).removeprefix('one ')}s of"


@rule("number", r"(?<![\w.])(\d{1,3})ers\b", needs=DIGITS)
def _people(match: re.Match[str]) -> str:
    said = cardinal(match[1])
    return f"{said.removesuffix('e')}ers"


@rule("fraction", r"(?<![\w./])(\d+\.\d+)/(10|5|100)(?![\w/]|\.\d)", needs="/")
def _rating(match: re.Match[str]) -> str:
    return f"{number(match[1])} out of {cardinal(match[2])}"


@rule("number", r"(?<=\d),(?=\d)", needs=",")
def _comma(match: re.Match[str]) -> str:
    return ", "


@rule("number", r"(?<=[A-Za-z]{2})-(?=\d)", needs="-")
def _joint(match: re.Match[str]) -> str:
    return " "


@rule("number", "[₀-₉]+|[⁰¹²³⁴-⁹]+|\\d", needs="₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹")
def _small(match: re.Match[str]) -> str:
    plain = match[0].translate(SUBSCRIPT).translate(SUPERSCRIPT)
    if match[0][0] in "₀₁₂₃₄₅₆₇₈₉" or match[0].isdecimal():
        return f" {number(plain)} "
    # Behind a word it is the number of a note, which nobody reads.
    word = re.search(r"[A-Za-z,.;]*$", match.string[max(0, match.start() - 4) : match.start()])
    return "" if word and len(word[0]) > 2 else f" {squared(plain)} "


FIRST: tuple[Rule, ...] = (_scientific, _many)
RULES: tuple[Rule, ...] = (
    _percent, _power, _rating, _fraction, _vulgar, _ordinal,
)  # fmt: skip
COUNTS: tuple[Rule, ...] = (_shortened, _times, _range, _spaced, _compound)
LAST: tuple[Rule, ...] = (_people, _joint, _number, _left, _comma, _small)
