"""Plain numbers: fractions, ordinals, ranges, powers, thousands and millions, counts."""

from __future__ import annotations

import re

from anyrig.text.recognizers import Found, recognizer
from anyrig.text.recognizers.common import (
    FRACTIONS,
    MINUS,
    NUMBER,
    SCALES,
    SUBSCRIPT,
    SUPERSCRIPT,
    VULGAR,
    LazyPattern,
    after,
    before,
    parse_number,
)
from anyrig.text.values import (
    Digits,
    Fraction,
    Label,
    Letters,
    Number,
    Ordinal,
    Phrase,
    Power,
    Range,
    Score,
    Silence,
    Value,
)

_IDIOMS = {
    "24/7": ("24", "7"), "9/11": ("9", "11"), "7/7": ("7", "7"), "50/50": ("50", "50"),
    "20/20": ("20", "20"), "4/20": ("4", "20"),
}  # fmt: skip
_PLACES = LazyPattern(
    r"(?:[Aa]pt\.?|[Aa]partment|[Ss]uite|[Rr]oom|[Uu]nit|[Ss]eat|[Gg]ate|[Gg]rade|"
    r"[Ss]ection|[Rr]ow|[Ee]xit|[Bb]lock|[Ff]lat)s? (?:\d+[A-Z](?:,? and |, | or | to |[-–]))*$"
)
_RATED = LazyPattern(
    r"\b(?:rated?|rating|scored?|gave|give|got|gets|earned|a|quiz|test|mark) [^.]{0,20}$"
)
_SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹"


@recognizer(
    "fraction",
    r"(?<![\w./])(?:(\d+)(?: and |[ -]))?(\d{1,4})[/⁄](\d{1,5})(ths?|rds?|nds?)?(?![\w/]|[.,]\d|%)",
    needs="/⁄",
    weight=1.1,
    digits=True,
)
def _fraction(match: re.Match[str]) -> Value | Found | None:
    whole, above, below, suffix = match.groups()
    if not whole and match[0] in _IDIOMS and not re.match(r" of\b", after(match, 4)):
        first, second = _IDIOMS[match[0]]
        return Found(Score((Number(first), Number(second)), "even"), weight=1.6)
    if not int(below):
        return None
    number = int(whole) if whole else None
    if not whole and len(above) == len(below) == 2 and int(above) + int(below) == 100:
        return Score((Number(above), Number(below)), "even")
    if (not whole and int(above) > 20 and int(below) > 20) or int(below) > 1000:
        return Fraction(int(above), int(below), number, style="over")
    if whole and int(above) >= int(below):
        return None
    if not whole and not suffix and above != "1" and _is_rating(match, above, below):
        return Fraction(int(above), int(below), style="rate")
    return Fraction(int(above), int(below), number)


def _is_rating(match: re.Match[str], above: str, below: str) -> bool:
    rest = after(match, 20)
    if above == below or rest.startswith(" stars"):
        return True
    if re.match(r" of\b", rest):
        return False
    if below in ("5", "10", "20", "100") and _RATED.search(before(match, 30)):
        return True
    # Some of a number of people: 9/10 dentists.
    people = re.match(r" ([a-z]+s|people|men|women|children)\b", rest)
    return below in ("3", "4", "5", "10", "20", "100") and bool(people)


@recognizer(
    "fraction", rf"(?<![\w.])(\d+)?[ -]?([{VULGAR}])", needs=VULGAR, weight=1.1, digits=True
)
def _vulgar(match: re.Match[str]) -> Value:
    return Fraction(*FRACTIONS[match[2]], int(match[1]) if match[1] else None)


@recognizer(
    "ordinal",
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)\^?(?:st|nd|rd|th|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)(s?)\b",
    flags=re.IGNORECASE,
    weight=1.1,
    digits=True,
)
def _ordinal(match: re.Match[str]) -> Value | None:
    digits = match[1].replace(",", "")
    return Ordinal(int(digits), plural=bool(match[2])) if len(digits) < 400 else None


@recognizer(
    "number",
    rf"(?<![\w.])([{MINUS}])?({NUMBER})(?: ?[×x·*] ?10(?:(?:\^|"
    rf"\*\*)\(?([-−+]?\d{{1,4}})\)?|([⁻⁺]?[{_SUPER}]+))|"
    r"[eE]([-+−]?\d{1,4}))(?![\w.]\w|\w)",
    weight=1.8,
    digits=True,
)
def _scientific(match: re.Match[str]) -> Value:
    exponent = (match[3] or match[4] or match[5]).translate(SUPERSCRIPT).replace("−", "-")
    return Power(Number("10"), exponent.removeprefix("+"), parse_number(match[2], match[1]))


@recognizer(
    "number",
    rf"(?<![\w.])({NUMBER}|[A-Za-z])(?:\^\(?([-−]?\w{{1,4}})\)?|([⁻⁺]?[{_SUPER}]+))(?!\d)",
    needs="^⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺",
    weight=1.3,
    digits=True,
)
def _power(match: re.Match[str]) -> Value:
    base: Value | str = match[1] if match[1].isalpha() else parse_number(match[1])
    exponent = (match[2] or match[3]).translate(SUPERSCRIPT).replace("−", "-")
    return Power(base, exponent.removeprefix("+"))


_RUNS = LazyPattern(
    r" (?:run|race|runs|races|fun|walk|road|title|record|runner|runners|event|training|in \d)"
)


@recognizer(
    "number",
    rf"(?<![\w.,])({NUMBER})(?:(k|K|M|B|bn|mn|T)(\+)?(?![\w&]|-?[A-Z])(\.(?= [a-z]))?| (bn|"
    rf"mn|mil|tn)\b(\.(?= [a-z]))?)",
    weight=1.0,
    digits=True,
)
def _shortened(match: re.Match[str]) -> Value | Found | None:
    amount, scale, more = match[1], match[2] or match[5], match[3]
    lead, rest = before(match, 24), after(match, 12)
    if scale == "B" and _PLACES.search(lead):
        return Phrase((Label(amount), Letters("B"))) if amount.isdecimal() else None
    if scale in "kK" and _is_letter_k(match, lead, rest):
        return Found(Phrase((parse_number(amount), Letters("K"))), end=match.end(2), weight=1.3)
    if match[0] == "3M" and (
        not re.match(r" [a-z]+", rest)
        or re.match(r" (?:is|was|has|made|makes|and|said|says|tape|products)\b", rest)
    ):
        return Phrase((parse_number(amount), Letters("M")))
    value: Value = parse_number(amount, None, SCALES[scale])
    return Found(
        Phrase((value, "plus")) if more else value,
        stop="abbreviation" if match[4] or match[6] else "none",
    )


_SCREENS = LazyPattern(r" (?:screen|monitor|display|video|TV|resolution|film|footage|camera)\b")


def _is_letter_k(match: re.Match[str], lead: str, rest: str) -> bool:
    """Whether the letter is said: of a screen, or of a run."""
    if match[0] in ("4K", "8K", "4k") or _RUNS.match(rest) or _SCREENS.match(rest):
        return True
    small = match[1] in ("5", "10", "15", "3", "8", "1.5", "20")
    if small and re.search(r"\b(?:[Tt]he|[Aa]n?|ran|run|[Hh]is|[Hh]er|[Mm]y|first|our) $", lead):
        return not re.match(
            r" (?:followers|fans|people|users|views|from|loan|salary|bonus|fee|budget|"
            r"deposit|prize|of|dollars|fine|raise)",
            rest,
        )
    return False


@recognizer("number", rf"(?<![\w.,])({NUMBER})x(?!\w| ?[-+=*/^])", needs="x", weight=1, digits=True)
def _times(match: re.Match[str]) -> Value:
    return Phrase((parse_number(match[1]), "times"))


@recognizer(
    "range",
    rf"(?<![\w.,/-])([{MINUS}])?({NUMBER})(k|K|M)?( ?[–—] ?|-| - )({NUMBER})(k|K|M|x)?(?! "
    rf"?[-–][\d]|\w|\.\d|/\d)",
    weight=0.8,
    digits=True,
)
def _range(match: re.Match[str]) -> Value | None:
    sign, low, scale, dash, high, scale2 = match.groups()
    if (dash == " - " and re.search(r"[=+*/÷×] ?$", before(match, 2))) or re.match(
        r" ?[=+*÷×/]", after(match, 3)
    ):
        return None
    if dash == " - " and not sign and re.search(r"\d", low) and re.match(r" ?=", after(match, 3)):
        return None
    if dash == "-" and low.startswith("0") and len(low) > 1 and "." not in low:
        return Phrase((Digits((low,)), Digits((high,))))
    first = parse_number(low, sign, SCALES[scale] if scale else 0)
    last = parse_number(high, None, SCALES.get(scale2 or "", 0) if scale2 != "x" else 0)
    span = Range(first, last)
    return Phrase((span, "times")) if scale2 == "x" else span


@recognizer(
    "number", r"(?<![\w.,])(\d{1,3}(?: \d{3})+)(?![\w]|[.,]\d| \d)", weight=0.9, digits=True
)
def _spaced(match: re.Match[str]) -> Value | None:
    many = match[1].count(" ") > 1 or match[1].endswith("000")
    return Number(match[1].replace(" ", "")) if many else None


@recognizer(
    "number",
    r"(?<![\w.,])(1?0{1,6}|1,000|10,000|100,000|1,000,000|10)s of\b",
    needs="0",
    weight=1.5,
    digits=True,
)
def _tens_of(match: re.Match[str]) -> Value | None:
    names = {"10": "tens", "100": "hundreds", "1000": "thousands", "10000": "ten thousands",
             "100000": "hundred thousands", "1000000": "millions"}  # fmt: skip
    name = names.get(match[1].replace(",", ""))
    return Phrase((name, "of")) if name else None


@recognizer("number", r"(?<![\w.])(\d{1,3})ers\b", weight=1, digits=True)
def _people(match: re.Match[str]) -> Value:
    return Label(match[1], "ers")


@recognizer(
    "fraction",
    r"(?<![\w./])(\d+\.\d+)/(10|5|100|4\.0|4)(?![\w/]|\.\d)",
    needs="/",
    weight=1.4,
    digits=True,
)
def _rating(match: re.Match[str]) -> Value:
    return Phrase((parse_number(match[1]), "out of", parse_number(match[2])))


@recognizer(
    "number",
    rf"(?<![\w])([−]|(?<![\w.)\"'])[-–](?=[\d.])|"
    rf"\+(?=\d))?({NUMBER})(?!\d)(?:(?<=\d)([A-Za-z])(?![\w&]))?",
    weight=0.5,
    digits=True,
)
def _number(match: re.Match[str]) -> Value | None:
    sign, text, letter = match.groups()
    start = match.start(2)
    if text.startswith(".") and match.string[max(0, start - 1) : start].isalnum():
        return None
    if not letter:
        return parse_number(text, sign)
    # The number of `221B` names, when it is short.
    number = (
        Label(text)
        if not sign and text.isdecimal() and len(text) <= 4
        else parse_number(text, sign)
    )
    return Phrase((number, Letters(letter)))


@recognizer("number", r"\d+", weight=0.3, digits=True)
def _left(match: re.Match[str]) -> Value:
    lead = match.string[match.start() - 1 : match.start()] if match.start() else ""
    follows = match.string[match.end() : match.end() + 1]
    number: Value = Label(match[0]) if lead.isalpha() else Number(match[0])
    if not lead.isalnum() and not follows.isalnum():
        return number
    return Phrase(
        ((" ",) if lead.isalnum() else ()) + (number,) + ((" ",) if follows.isalnum() else ())
    )


@recognizer("number", "[₀-₉]+|[⁰¹²³⁴-⁹]+", needs="₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹", weight=0.3, digits=True)
def _small(match: re.Match[str]) -> Value:
    plain = match[0].translate(SUBSCRIPT).translate(SUPERSCRIPT)
    if match[0][0] in "₀₁₂₃₄₅₆₇₈₉":
        return Phrase((" ", Number(plain), " "))
    # Behind a word it is the number of a note, which nobody reads.
    word = re.search(r"[A-Za-z,.;]*$", before(match, 4))
    return Silence() if word and len(word[0]) > 2 else Power("", plain)


RECOGNIZERS = (
    _fraction, _vulgar, _ordinal, _scientific, _power, _shortened, _times, _range, _spaced,
    _tens_of, _people, _rating, _number, _left, _small,
)  # fmt: skip
