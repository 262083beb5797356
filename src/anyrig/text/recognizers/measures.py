"""Units of measure with the amount before them: degrees, feet and inches, sizes, rates, percent."""

from __future__ import annotations

import re
from dataclasses import replace

from anyrig.text import values as v
from anyrig.text.recognizers import (
    RECOGNIZED_LANGUAGES,
    LazyPattern,
    Proposal,
    Stop,
    per_language,
    recognizer,
)
from anyrig.text.recognizers.common import (
    AMOUNT,
    AMOUNTS,
    COMMA_NUMBER,
    DASH,
    DOT,
    MINUS,
    NAMED,
    NOT_NOUNS,
    NUMBER,
    NUMBER_START,
    NUMBERS,
    OPTIONAL_MINUS,
    SIGNED,
    SIGNED_AMOUNT,
    STARTS,
    VULGAR,
    after,
    before,
    close,
    is_attributive,
    one_of,
    parse_amount,
    parse_comma_number,
    parse_number,
    word_before,
)
from anyrig.text.recognizers.languages import ROMANCE, TABLES, english
from anyrig.text.recognizers.languages.shared import CAPITAL, SMALL
from anyrig.text.recognizers.numbers import is_degrees
from anyrig.text.recognizers.stops import (
    OPENED_BY_MEASURE,
    begins_sentence,
    look_behind,
    stop_after,
)

UNIT = {
    "en": one_of(english.UNITS, dots=True),
    **{
        language: f"(?:{one_of(table.UNITS)})".replace(r"\ ", " ?")
        for language, table in ROMANCE.items()
    },
}
"""The units of each language, for a pattern."""
_UNIT = UNIT["en"]
# Units that may be other things when they touch the number, and whether they still count there:
# "5m" is five meters, "5B" a seat or billions.
_TOUCHING = {
    "t": False, "B": False, "K": False, "N": False, "J": False, "F": False, "b": False, "in": True,
    "m": True, "g": True, "s": True, "L": True, "A": True, "V": True, "W": True, "ac": False,
}  # fmt: skip
POWER = r"(?:\^[23]|[²³]|(?<=[a-z])[23](?!\w))"
LINKS = {
    "en": " ?[-–—] ?| to | or | and ",
    "es": rf"(?:{DASH}| a )",
    "fr": rf"(?:{DASH}| à )",
}
"""What stands between the two ends of a span."""


def find_unit(language: str, symbol: str) -> str:
    symbols: dict[str, str] = TABLES[language].UNITS
    compact = symbol.replace(" ", "")
    return (
        symbols.get(symbol)
        or symbols.get(symbol.replace(". ", " "))
        or next(
            (unit for key, unit in symbols.items() if key.replace(" ", "") == compact),
            english.PERIODS.get(symbol, symbol),
        )
    )


def parse_power(mark: str | None) -> int:
    return 1 if not mark else 2 if mark[-1] in "2²" else 3


def link_range(language: str, match: re.Match[str]) -> str:
    """The word between the two ends of a span, empty for the usual one of English."""
    if language == "en":
        word = str(match["link"]).strip()
        return word if word in ("or", "and") else ""
    table = TABLES[language]
    return str(table.AND if word_before(match) == "entre" else table.TO)


_PLACE = LazyPattern(
    rf"{NAMED}(?:is |was |are |were |= )?$|\b(?:US|U\.S\.|[Dd]istrict|"
    r"(?:am|are|is|was|were|be|sits?|sat|sitting|seated) in|moved to) $|['’](?:m|s|re) in $"
)
_LISTED_PLACE = LazyPattern(rf"{NAMED}[\w(),;. ]{{1,40}}?(?:and|or|to|,) $")
_SIZE = LazyPattern(
    r"\b(?:sizes?|shoes?|boots?|sneakers?|wears?|wore|heels?|feet|pair|skates?|cleats|loafers?|"
    r"sandals?|slippers?|footwear|takes?)\b[^.;]{0,12}$",
    re.IGNORECASE,
)
_DOTTED = frozenset(
    "in ft lb lbs oz min sec hr yd mi tbsp tsp pt qt gal hrs yds pts pcs qts wks yrs "
    "mins secs gals "
    "cm mm km kg mg ml g m l mcg yr wk mos doz tbs ozs deg tab tabs caps".split()
)


_WITHOUT_STOP = frozenset("km kg cm mm kW GB MB °C ºC".split())
"""Units that are no abbreviations with a full stop: one behind them is the sentence's."""


def _close(value: v.Value, match: re.Match[str], language: str = "en") -> Proposal:
    """A measure whose match may end with the full stop of its unit."""
    if match[0].endswith(".") and _GOES_ON.match(match.string, match.end()):
        return Proposal(value, "abbreviation")
    unit = match.groupdict().get("unit", "")
    rated = bool(match.groupdict().get("per"))
    if language != "en" and match[0].endswith(".") and (rated or unit in _WITHOUT_STOP):
        return Proposal(value, stop_after(match.string, match.end(), language, digits_follow=False))
    if language == "en" and OPENED_BY_MEASURE.search(
        match.string, max(0, match.end() - 32), match.end() - 1
    ):
        follows = look_behind(match.string, match.end())
        if follows.kind == "capital" and not begins_sentence(follows):
            return Proposal(value, "abbreviation")
    return close(value, match, language, digits_follow=False)


_GOES_ON = LazyPattern(
    r" (?:(?:[NSEW]|[NS]{1,2}[EW]|[EW][NS][EW])\.? (?:of|from|on|along|to|via|at)\b|"
    r"\d{1,2} ?(?:min|mins|sec|secs|in|oz|lb|lbs|x|×|fois|veces|times)\b|\(\d|\d{1,3} ?['′\"″]|"
    r"(?:Mon|Tue|Tues|Wed|Thu|Thurs|Fri|Sat|Sun)(?:\.|(?:s|nes|rs|ur)?day\b))"
)
"""What belongs to a measure with a full stop: 3 mi. NE of the town, 1 hr. 15 min., 2 tab. 3 x."""


def _measure_pattern(language: str) -> str:
    unit, amount = UNIT[language], AMOUNTS[language]
    return (
        rf"{STARTS[language]}{SIGNED_AMOUNT[language]}"
        rf"(?:(?P<link>{LINKS[language]})(?P<high>{OPTIONAL_MINUS}{amount}))?"
        + _MEASURE[language].format(unit=unit, power=POWER, period=one_of(english.PERIODS))
    )


_MEASURE = {
    "en": r"(?: (?P<word>hundred|thousand|lakh|crore|million|billion|trillion)\b|"
    r"(?: (?=M (?!in\b)))?(?P<letter>[kKM])(?= ))?"
    r"(?P<gap>[ -]?)(?P<unit>{unit})(?P<power>{power})?"
    r"(?:\.? ?/ ?(?P<per>{unit}|{period})(?P<per_power>{power})?|"
    r"(?: per |p(?=[hs](?!\w)))(?P<per_word>{unit}))?"
    r"(?![\w²³°]|/\w|'s|\.\w)(?P<dot>\.(?!\d))?",
    **dict.fromkeys(
        ROMANCE,
        r"(?P<gap> ?)(?P<unit>{unit})(?P<power>{power})?"
        r"(?:\.?/(?P<per>{unit})(?P<per_power>{power})?)?(?P<dot>\.(?!\.))?(?![\w²³'])",
    ),
}


@per_language(
    "measure",
    _measure_pattern,
    languages=RECOGNIZED_LANGUAGES,
    needs=lambda language: TABLES[language].UNITS,
    weight=1.3,
)
def propose_measure(language: str, match: re.Match[str]) -> Proposal | None:
    written = match.groupdict() if language == "en" else {}
    name, per = match["unit"], match["per"] or written.get("per_word")
    scale = english.SCALES[word] if (word := written.get("word") or written.get("letter")) else 0
    counted = _parse_counted(language, match, scale)
    if counted is None:
        return None
    unit = find_unit(language, name)
    if language == "en":
        unit = _choose_unit(match, unit, counted)
    attributive = language == "en" and (match["gap"] == "-" or _describes(match))
    value: v.Value = v.Measure(counted, unit, parse_power(match["power"]), attributive)
    if name == "cc" and language == "fr" and _size(counted) > 20:
        value = v.Measure(counted, "volume-cubic-centimeter")  # no spoons
    if name == "p." and language == "fr" and _HOME.search(match.string):
        value = v.Measure(counted, "piece")
    if unit == "point" and language == "es" and _PRICED.search(before(match, 30)):
        value = v.Measure(counted, "peseta")
    if name.startswith("hab") and language == "es" and not per and _size(counted) < 20:
        value = v.Measure(counted, "room")
    if name == "bps" and (_YIELD.search(before(match, 60)) or _YIELD.search(after(match, 40))):
        value = v.Phrase((counted, "basis points"))
    if per:
        below = (
            TABLES[language].UNITS.get(per) or english.PERIODS.get(per) or find_unit(language, per)
        )
        value = v.Rate(value, below, parse_power(match["per_power"]))
    if language == "en" and match["dot"]:
        return _close_english(value, match, bool(per))
    return _close(value, match, language)


def _choose_unit(match: re.Match[str], unit: str, counted: v.Value) -> str:
    """Of two units that are written alike the one that is meant."""
    if match["unit"] == "F" and not _CAPACITOR.search(match.string):
        return "°F"
    if match["unit"] == "mb" and _size(counted) < 800:
        return "MB"  # the air weighs more
    return unit


def _parse_counted(
    language: str, match: re.Match[str], scale: int
) -> v.Number | v.Fraction | v.Range | None:
    """The amount of a measure, or None where it is no measure."""
    amount = parse_amount(match["low"], match["sign"], 0 if match["high"] else scale, language)
    if not (_is_unit(match) if language == "en" else _is_romance_unit(match, amount)):
        return None
    if match["high"]:
        if isinstance(amount, v.Fraction) and language != "en" and " " in match["link"].strip("-"):
            return None  # le 8/6 à 21 h
        last = parse_amount(match["high"], None, scale, language)
        if re.search(" [aà] ", match[0]) and _size(amount) >= _size(last):
            return None  # Vol 447 à 6 h.
        return v.Range(amount, last, link_range(language, match))
    rated = isinstance(amount, v.Fraction) and amount.style and not match["unit"].startswith("mm")
    if isinstance(amount, v.Fraction) and (rated or _are_two(amount)):
        choice = not rated and amount.below <= 2.5 * amount.above
        link = _OR[language] if choice else _SLASH[language]
        return v.Range(v.Number(str(amount.above)), v.Number(str(amount.below)), link)
    return amount


def _close_english(value: v.Value, match: re.Match[str], rated: bool) -> Proposal:
    """A measure with a full stop behind it."""
    name = match["unit"].replace(". ", " ").split()[-1]
    follows = look_behind(match.string, match.end())
    if match["gap"] == "-":
        # What it describes follows, but for the end of a sentence: a 6-in. pipe.
        opens = follows.kind == "capital" and follows.word.lower() in english.STARTERS
        ends = opens or follows.kind == "nothing"
        return Proposal(value, stop="both" if ends else "abbreviation")
    if name not in _DOTTED or rated:
        # A unit that is not written with a full stop: it ends the sentence, if anything.
        if follows.kind == "lower":
            return Proposal(value, stop="abbreviation")
        return Proposal(value, end=match.start("dot"))
    if name == "ft" and re.match(r" \d{1,2}(?:[.,;]|$| and)", after(match, 8)):
        return Proposal(value, stop="abbreviation")  # 5 ft. 3
    return _close(value, match)


_HOME = LazyPattern(r"\d ?m²|(?i:\bappt|\bappart|\bmaison|\bvilla|\bstudio|\bpavillon)")
_PRICED = LazyPattern(
    r"(?i)\b(?:cuest\w+|costab?\w*|cobr\w+|gan[aó]\w*|multa|sueldo|billetes?|"
    r"pagó|pagué|valía|vale|precio|por|de) [^.;]{0,12}$"
)
"""Before a sum: costaba 500 pts."""
_CAPACITOR = LazyPattern(r"(?i)capacit|farad|condenser")
"""Of something else the letter means degrees: T 98.6 F."""
_OR = {"en": "or", "es": "o", "fr": "ou"}
_SLASH = {"en": "slash", "es": "barra", "fr": "sur"}
_YIELD = LazyPattern(
    r"(?i)\b(?:yields?|rates?|spreads?|basis|Fed|ECB|margins?|bonds?|Treasur(?:y|ies)|cut|hike[ds]?|fees?)\b"
)


def _are_two(amount: v.Fraction) -> bool:
    """Whether a stroke stands between two values: 50/60 Hz, 110/220 V."""
    parts = (10, 12, 16, 20, 32, 64, 100, 1000)
    return (
        amount.whole is None
        and not amount.style
        and (amount.above >= 10 or (amount.above > 1 and amount.below > 128))
        and (amount.below > amount.above and amount.below not in parts)
    )


def _size(amount: v.Value) -> int:
    return int(amount.digits or "0") if isinstance(amount, v.Number) else 0


def _is_romance_unit(match: re.Match[str], amount: v.Number | v.Fraction) -> bool:
    """Whether a letter measures, and names no seat, class or model."""
    unit = match["unit"]
    if unit == "a." and not match["gap"]:
        return False  # fig. 3a.
    if unit == "a." and re.match(r" ?(?:[mMC]\b|de C|J)", after(match, 6)):
        return False  # 5 a. m., 44 a. C.
    if unit not in _DOUBTFUL or match["per"]:
        return True
    if isinstance(amount, v.Fraction):
        return unit == "L"
    if (not match["gap"] and unit not in "VWLA") or _SEATED.search(before(match)):
        return False
    return unit not in "BKCFJNq" or (len(amount.digits) > 1 and unit not in "CF")


def _describes(match: re.Match[str]) -> bool:
    """Whether a measure tells what kind of thing follows: a 500 GB drive."""
    gap, name = match["gap"], match["unit"].replace(". ", " ")
    if is_attributive(match) or _AGED.match(match.string, match.end()):
        return True
    if name in ("in", "ft", "yd", "mi", "lb") and _THING.match(after(match, 20)):
        return True
    noun = re.match(r" ([a-z]{3,})\b", after(match, 20))
    return bool(noun) and not gap and noun is not None and noun[1] not in NOT_NOUNS and name in (
        "mm", "km", "GB", "MB", "TB", "W", "kW", "V", "cm", "MP", "Hz", "min", "mi")  # fmt: skip


_AGED = LazyPattern(
    r"[ -]old,? (?!when|who|and|or|in|at|to|now|then|but|by|on|as|that|he|she|"
    r"they)[a-z]"
)
# What a measure before it describes, though no article stands before: 5 lb. bags.
_THING = LazyPattern(
    r" (?:bags?|box(?:es)?|sacks?|weights?|boards?|nails?|pipes?|screws?|bolts?|poles?|ropes?|"
    r"walls?|fences?|ceilings?|waves?|snakes?|ladders?|screens?|pans?|tires?|wheels?|"
    r"pizzas?|drops?|tests?)\b"
)


def _is_unit(match: re.Match[str]) -> bool:
    """Whether what looks like a unit is one here."""
    name, gap, dot = match["unit"].replace(". ", " "), match["gap"], match["dot"]
    if name == "in":
        return _is_inch(match, gap, dot)
    if name in _TOUCHING and not gap and not match["per"] and not _touches(match, name):
        return False
    if len(name) == 1 and name.isupper():
        if gap == "-" and name in "BCFJKNM":
            return False  # item 4471-B
        return _is_capital_unit(match, name, gap, dot)
    return not (name == "m" and gap and not dot and re.match(r" [A-Z]", after(match, 2)))


def _is_inch(match: re.Match[str], gap: str, dot: str | None) -> bool:
    rest = after(match, 30)
    if re.match(r"-\d", rest):
        return False  # a 1-in-10 chance
    if dot:
        return True
    if not gap:
        return not match["low"].isdecimal() or len(match["low"]) < 3
    return gap == "-" or bool(_AFTER_INCH.match(rest))


_AFTER_INCH = LazyPattern(
    r"\s*(?:[,;)x×]|$|by\b|tall|wide|long|deep|thick|high|pipe|screen|board|in diameter|square)"
)
_WORN = LazyPattern(r"\b(?:sizes?|sits?|sat|seats?|seated)\b[^.;]*$", re.IGNORECASE)
_GARMENT = LazyPattern(r" (?:jackets?|coats?|suits?|blazers?|shirts?|trousers|pants|jeans)\b")
_PRODUCT = LazyPattern(
    r"\b(?:iPhone|iPad|iPod|Galaxy|Pixel|Model|Mark|Xperia|Series|Boeing|type) $"
)


_DECADE = LazyPattern(
    r"(?:\b(?:[Tt]he|[Ee]arly|[Ll]ate|[Ll]ow|[Hh]igh|[Uu]pper|[Hh]is|[Hh]er|[Tt]heir|[Mm]y|[Oo]ur|"
    r"[Rr]oaring) |\b[Mm]id-?)$"
)
_TIMED_THING = LazyPattern(
    r" (?:delay|timeout|limit|clip|video|exposure|interval|sprint|window|pause|ad|spot|mark)\b"
)


def _touches(match: re.Match[str], name: str) -> bool:
    """Whether a letter that touches the number is a unit: 5m, 10s, but not 5B or iPhone 6s."""
    lead, amount = before(match, 24), match["low"]
    if _PRODUCT.search(lead):
        return False
    if not _TOUCHING[name] or (name == "m" and re.search(r"[$£€]$", lead)):
        return False
    listed = _LISTED_PLACE.search(before(match, 60))
    if name in "WLAV" and (listed or _PLACE.search(lead) or _WORN.search(before(match, 40))):
        return False
    if name == "L" and amount.isdecimal() and _GARMENT.match(after(match, 16)):
        return False  # a 42L jacket
    if name != "s":
        return True
    if _DECADE.search(lead) and len(amount) == 2 and amount[1] == "0":
        return bool(_TIMED_THING.match(after(match, 12)))
    # Several of a thing that has a number: MiG-21s, 1,000s, 2x4s.
    named = (
        re.search(r"(?:[A-Za-z]-|\d[x×]|\d |[a-z]['’]s )$", lead)
        or "," in amount
        or amount.endswith("00")
    )
    return not (named or (amount.endswith("0") and (len(amount) == 4 or after(match, 3) == " of")))


def _is_capital_unit(match: re.Match[str], name: str, gap: str, dot: str | None) -> bool:
    """Whether a capital is a unit, and no seat, size, direction or beginning of a name."""
    lead, rest = before(match, 24), after(match, 30)
    if name == "N" and re.search(r"\b(?:I|US|SR|M|A)-$", lead):
        return False  # I-95 N
    if _PLACE.search(lead) or (gap and _has_other_place(match, name)):
        return False
    sized = _SIZE.search(lead) and not re.search(r"\b[Aa]n? $", lead)
    if name == "W" and (match["low"][-1] in VULGAR or sized):
        return False
    if name in "NW" and dot and _STREET.match(rest):
        return False
    if not gap or name not in "AKNJBF":
        return True
    # A note's number before its first word ("1 A river in Sicily."), and "Group 5 A students".
    noted = name == "A" and not lead.strip() and rest.startswith(" ")
    return not noted and (bool(dot) or not re.match(r" [A-Z]", rest))


def _has_other_place(match: re.Match[str], name: str) -> bool:
    """Whether another letter stands with the same number: 14 A and 14 B."""
    around = f"{before(match, 24)} {after(match, 24)}"
    others = re.findall(rf"(?<![\w.]){re.escape(match['low'])} ?([A-K])(?!\w)", around)
    if name not in "ABCDEFGHJK":
        return False
    return any(other != name for other in others) or bool(_SEATS.search(before(match, 60)))


_SEATS = LazyPattern(r"\b(?:[Ss]eat(?:s|ed)?|[Ss]at|[Ss]it(?:s|ting)?)\b[^.;]*$")
_STREET = LazyPattern(
    r" (?:\d+(?:st|nd|rd|th)\b|(?:[A-Z][\w']+ ){1,3}(?:St|Ave|Rd|Blvd|Dr|Ln|Street|Avenue|"
    r"Road|Way)\b)"
)


@recognizer(
    "measure",
    rf"(?<![\w.])([{MINUS}+±~] ?)?({AMOUNT})(?: ?°[CF]?)?(?:({LINKS['en']})({AMOUNT}))? ?(?:°|º|"
    rf"deg\b(\.)?)"
    r"(?: ?([CFKNSEW])(?!\w)(?:\.(?= [a-z]))?|"
    r" ?(Celsius|Fahrenheit|centigrade|north|south|east|west)\b)?",
    needs=("°", "º", "deg"),
    weight=1.4,
)
def propose_degrees(match: re.Match[str]) -> Proposal | v.Value:
    sign, low, link, high, dot, letter, word = match.groups()
    amount: v.Value = parse_amount(low, sign)
    joint = (link or "").strip()
    scale = (
        re.match(r"[^°]+° ?([CF]?)", match[0][: match.start(4) - match.start()]) if high else None
    )
    if high and scale and joint.isalpha():
        last = v.Measure(parse_amount(high), f"°{letter}" if letter else "°")
        return v.Phrase((v.Measure(amount, f"°{scale[1]}"), joint, last))  # type: ignore[arg-type]
    if high:
        amount = v.Range(amount, parse_amount(high), "or" if joint == "or" else "")
    stop: Stop = "none"
    if dot and not letter and not word:
        stop = stop_after(match.string, match.end())
    unit = f"°{letter}" if letter else "°"
    value = v.Measure(amount, unit, attributive=not letter and not word and is_attributive(match))  # type: ignore[arg-type]
    return Proposal(v.Phrase((value, word)) if word else value, stop=stop)


_CHANGED = LazyPattern(
    r"(?i)\b(?:rose|fell|up|down|by|gained?|lost|climbed|dropped|slipped|slid|added|shed|widened|"
    r"narrowed|jumped|cut|grew|shrank|declined|lead of|gap of|swing of|margin of|an?) (?:of |by )?$"
)


@recognizer(
    "percent",
    rf"(?<![\w.£$€])({NUMBER})(?: |-)?(?:ppts?|pps?)\b(\.)?(?! ?\d)",
    needs=("pp", "pps", "ppt", "ppts"),
    weight=1.8,
)
def propose_percentage_points(match: re.Match[str]) -> Proposal | None:
    """`0.3 pp.`, `down 2 pp`."""
    number = parse_number(match[1])
    if not number.decimals and not _CHANGED.search(before(match, 16)):
        return None
    single = number.digits == "1" and not number.decimals
    return _close(v.Phrase((number, f"percentage point{'' if single else 's'}")), match)


@recognizer("angle", r"(?<![\w.])(\d{1,3}°(?:[-–/]\d{1,3}°){1,4})(?!\w)", needs="°", weight=2)
def propose_angles(match: re.Match[str]) -> v.Value | None:
    """Of a triangle: `30°-60°-90°`."""
    described = is_attributive(match)
    if match[1].count("°") == 2 and not re.match(r" (?:right )?triangles?\b", after(match, 20)):
        return None
    parts: list[v.Value | str] = []
    for one in re.findall(r"\d+", match[1]):
        parts += [","] if parts else []
        parts.append(v.Measure(v.Number(one), "°", attributive=described))
    return v.Phrase(tuple(parts))


@recognizer(
    "measure",
    rf"(?<![\w.])({NUMBER})(?:({DASH}| to )({NUMBER}))? ?"
    rf"({_UNIT})/({_UNIT})/({_UNIT}|{one_of(english.PERIODS)})"
    r"(?![\w/²³])",
    needs="/",
    weight=2,
)
def propose_double_rate(match: re.Match[str]) -> v.Value:
    """Of a dose: `30 mL/kg/day`."""
    low, _, high, unit, first, second = match.groups()
    amount: v.Number | v.Range = parse_number(low)
    amount = v.Range(amount, parse_number(high)) if high else amount
    inner = v.Rate(v.Measure(amount, find_unit("en", unit)), find_unit("en", first))
    return v.Rate(inner, english.PERIODS.get(second) or find_unit("en", second))


@recognizer(
    "measure",
    rf"(?<![\w.])({NUMBER})\+ ?({_UNIT})(?![\w/²³])",
    needs="+",
    weight=1.5,
)
def propose_at_least(match: re.Match[str]) -> v.Value | None:
    """`4+ GB`."""
    if len(match[2]) < 2:
        return None
    measure = v.Measure(parse_number(match[1]), find_unit("en", match[2]))
    return v.Phrase((v.Number(match[1].replace(",", "")), "plus", replace(measure, amount=None)))


@recognizer(
    "size",
    rf"(?<![\w./])(\d{{1,2}}/\d{{1,2}}|[{VULGAR}])-(\d\d)"
    r"(?= (?:nut|bolt|screw|thread|tap|stud|x\b))",
    needs=("/", *VULGAR),
    at="number",
    weight=2,
)
def propose_thread(match: re.Match[str]) -> v.Value:
    """Of a screw: `¼-20`."""
    return v.Phrase((parse_amount(match[1]), v.Number(match[2])))


@recognizer(
    "measure",
    rf"(?<![\w.])(\d{{1,2}}) ?-?(?:ft|foot|feet)\b\.?,? ?-?({AMOUNT}) ?-?(?:in|inch|inches)\b(\.)?",
    needs=("ft", "foot", "feet"),
    weight=1.8,
)
def propose_feet_inches(match: re.Match[str]) -> Proposal:
    described = match[0].count("-") > 1
    feet = v.Measure(v.Number(match[1]), "ft", attributive=described)
    inches = v.Measure(parse_amount(match[2]), "in", attributive=described)
    value = v.Phrase((feet, inches))
    return _close(value, match)


_BY = r"(?: ?[x×] ?| by )"
_SIDE = rf"({AMOUNT}\"|\d{{1,4}}'(?: ?-?{AMOUNT}(?:\"|''))?)"


@recognizer(
    "measure",
    rf"(?<![\w.]){_SIDE}{_BY}{_SIDE}(?:{_BY}{_SIDE})?(?![\w'\"])",
    needs="\"'",
    weight=1.8,
)
def propose_sheet(match: re.Match[str]) -> v.Value:
    """Sides in feet and inches: `8" x 10"`, `7' x 6'6"`."""
    value = v.Dimensions(tuple(_parse_side(side) for side in match.groups() if side))
    return _make_attributive(value) if is_attributive(match) else value


def _make_attributive(value: v.Value) -> v.Value:
    """Sides that tell what kind of thing follows: a 9x13-in. pan, a 2" x 4" stud."""
    if isinstance(value, v.Measure):
        return replace(value, attributive=True)
    if isinstance(value, v.Dimensions):
        return v.Dimensions(tuple(map(_make_attributive, value.parts)))
    if isinstance(value, v.Phrase):
        parts: list[v.Value | str] = [
            one if isinstance(one, str) else _make_attributive(one) for one in value.parts
        ]
        return v.Phrase(tuple(parts))
    return value


_EDGES = {"W": "wide", "D": "deep", "H": "high", "L": "long"}
_EDGE = rf"({AMOUNT}) ?(\"|in\.?|cm|mm|ft\.?)? ?([WDHL])"


@recognizer(
    "dimensions",
    rf"(?<![\w.]){_EDGE} ?[x×] ?{_EDGE}(?: ?[x×] ?{_EDGE})?(?![\w\"])",
    needs="x×",
    weight=2,
)
def propose_edges(match: re.Match[str]) -> v.Value | None:
    """Sides that say which they are: `84" W x 36" D`."""
    parts: list[v.Value | str] = []
    for at in (1, 4, 7):
        amount, unit, edge = match.group(at, at + 1, at + 2)
        if amount:
            number = parse_amount(amount)
            key = _MARKS["en"].get(unit) or find_unit("en", unit.rstrip(".")) if unit else ""
            parts += ["by"] if parts else []
            parts += [v.Measure(number, key) if unit else number, _EDGES[edge]]
    return v.Phrase(tuple(parts)) if match[2] or match[5] else None


def _parse_side(written: str) -> v.Value:
    feet, mark, inches = written.partition("'")
    if not mark:
        return v.Measure(parse_amount(written.rstrip('"')), "in")
    value = v.Measure(v.Number(feet), "ft")
    if not inches.strip("'\" -"):
        return value
    return v.Phrase((value, v.Measure(parse_amount(inches.strip("'\" -")), "in")))


@recognizer(
    "measure",
    r"(?<![\w.])([3-8])' ?-?(\d{1,2}(?:\.\d)?|1?\d ?1/2|1?\d½)(?:\"|''|(?![\w.]))",
    needs="'",
    weight=1.6,
)
def propose_height(match: re.Match[str]) -> v.Value | None:
    if match[2].isdecimal() and int(match[2]) > 11:
        if match[0].endswith('"') and int(match[2]) < 60:
            return v.Duration(minutes=int(match[1]), seconds=int(match[2]))
        return None
    # "5' 11" is no height where the quotation began before.
    if _LENGTH.match(match.string, match.end()):
        return v.Phrase(
            (v.Measure(v.Number(match[1]), "ft"), v.Measure(parse_amount(match[2]), "in"))
        )
    return v.Phrase((v.Measure(v.Number(match[1]), "ft", attributive=True), parse_amount(match[2])))


@per_language(
    "measure",
    lambda language: (
        rf"{STARTS[language]}(?<![\"'/])({AMOUNTS[language]}) ?(\"|'')(?!\w)(?=[\s.,;:!?)x×-]|$)"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs="\"'",
    weight=1.2,
)
def propose_inches(language: str, match: re.Match[str]) -> v.Value | None:
    """27" of a screen, where no quotation is open."""
    if match[2] == '"' and len(re.findall(rf'(?<![\d{VULGAR}])"', before(match, 300))) % 2:
        return None
    amount = parse_amount(match[1], language=language)
    attributive = language == "en" and _before_thing(match)
    return v.Measure(amount, _MARKS[language]['"'], attributive=attributive)


@recognizer(
    "measure",
    rf"(?<![\w.\"'])(?<!\d,)({NUMBER})'(?![\w'])(?=[\s.,;:!?)x×-]|$)",
    needs="'",
    weight=1.1,
)
def propose_feet(match: re.Match[str]) -> v.Value | None:
    if re.search(r"(?<!\w)'[^']*$", before(match, 200)):
        return None
    if match[1].isdecimal() and _GOAL.search(before(match, 24)) and after(match, 1) in (",", ")"):
        return v.Measure(v.Number(match[1]), "min")
    return v.Measure(parse_number(match[1]), "ft", attributive=_before_thing(match))


@recognizer(
    "measure",
    rf"(?<![\w.\"'])(\d{{1,4}})' ?-?({AMOUNT}) ?(?:\"|'')(?![\w\"])",
    needs="'",
    weight=1.5,
)
def propose_feet_and_inches(match: re.Match[str]) -> v.Value | None:
    """A length: `2' 3"`, `12'6"`."""
    inches = parse_amount(match[2])
    if isinstance(inches, v.Number) and float(f"{inches.digits or 0}.{inches.decimals or 0}") >= 12:
        return None
    described = is_attributive(match)
    feet = v.Measure(v.Number(match[1]), "ft", attributive=described)
    return v.Phrase((feet, v.Measure(inches, "in", attributive=described)))


@recognizer(
    "measure",
    rf"(?<![\w.\"'])({AMOUNT})([\"'])({DASH}| to | or )({AMOUNT})\2(?![\w\"'])",
    needs="\"'",
    weight=2,
)
def propose_marked_span(match: re.Match[str]) -> v.Value:
    """`18"–24"`, `3'–4'`."""
    link = "or" if match[3].strip() == "or" else ""
    span = v.Range(parse_amount(match[1]), parse_amount(match[4]), link)
    return v.Measure(span, _MARKS["en"][match[2]], attributive=is_attributive(match))


@recognizer(
    "measure",
    rf"(?<![\w.\"'/-])({AMOUNT})({DASH}| to | or )({AMOUNT}) ?([\"'])(?![\w\"'])"
    r"(?=[\s.,;:!?)x×-]|$)",
    needs="\"'",
    weight=1.9,
)
def propose_span_of_inches(match: re.Match[str]) -> v.Value | None:
    """`6-8"`, where no quotation is open."""
    mark = re.escape(match[4])
    if len(re.findall(rf"(?<![\d{VULGAR}]){mark}(?!s\b)", before(match, 300))) % 2:
        return None
    low, high = parse_amount(match[1]), parse_amount(match[3])
    if _size(low) >= _size(high) > 0:
        return None
    span = v.Range(low, high, "or" if match[2].strip() == "or" else "")
    return v.Measure(span, _MARKS["en"][match[4]], attributive=is_attributive(match))


_LENGTH = LazyPattern(
    r" (?:long|wide|deep|high|thick|square|across|apart|away|in (?:length|width|height|diameter)|"
    r"by|from|off|of|above|below)\b"
)
"""Behind a length that is no person's height."""
_GOAL = LazyPattern(r"[(,;] ?(?:[A-Z][\w'-]+ )+(?:\d+', )*$")
"""The scorer of a match, with his minutes: `(Saka 12', 88')`."""


def _before_thing(match: re.Match[str]) -> bool:
    noun = re.match(r" (?:No\. \d+ )?([a-z]{3,})", after(match, 20))
    return is_attributive(match) or (noun is not None and noun[1] not in NOT_NOUNS)


@recognizer(
    "number",
    rf"(?<![\w.])({NUMBER}) ?x ?({NUMBER})(?= ?= ?\d| (?:is|equals|makes) \d)",
    needs="x",
    weight=2,
)
def propose_product(match: re.Match[str]) -> v.Value:
    """A sum, where its result stands beside it."""
    return v.Phrase((parse_number(match[1]), "times", parse_number(match[2])))


_MARKS = {
    "en": {"'": "ft", '"': "in"},
    **dict.fromkeys(ROMANCE, {"'": "length-foot", '"': "length-inch"}),
}
_TIMES = {"es": "por", "fr": "fois"}


def _dimensions_pattern(language: str) -> str:
    first, second, third = (
        rf"(?P<side{number}>{AMOUNTS[language]})"
        rf"(?:[ -]?(?P<unit{number}>{UNIT[language]}|[\"'])(?P<power{number}>{POWER})?(?![\w²³]))?"
        for number in (1, 2, 3)
    )
    by = r"\.? ?[x×] ?"
    end = r"(?! ?\w?[\d^*=+÷]|\w)" if language == "en" else r"(?![\w²³])"
    return rf"{STARTS[language]}{first}{by}{second}(?:{by}{third})?(?:\.(?![\d.]))?{end}"


@per_language(
    "dimensions", _dimensions_pattern, languages=RECOGNIZED_LANGUAGES, needs="x×", weight=1.5
)
def propose_dimensions(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    sides = [
        (match[f"side{number}"], match[f"unit{number}"], match[f"power{number}"])
        for number in (1, 2, 3)
        if match[f"side{number}"]
    ]
    measured = any(unit for _, unit, _ in sides)
    if any(unit in ("h", "d", "j") for _, unit, _ in sides):
        return None  # cada 8 h x 7 días
    if language == "fr" and match[0].replace(" ", "") in ("4x4", "4×4"):
        return v.Abbreviation("quatre-quatre")
    if language == "en" and not measured and len(sides) == 2 and not _is_size(match):
        return None
    parts = tuple(
        v.Measure(
            amount, _MARKS[language].get(unit) or find_unit(language, unit), parse_power(power)
        )
        if unit
        else amount
        for side, unit, power in sides
        for amount in (parse_amount(side, language=language),)
    )
    joined = isinstance(parts[-1], v.Measure) and re.search(r"\d-[a-z]+\.?$", match[0])
    value: v.Value = v.Dimensions(parts)
    if language == "en" and (joined or is_attributive(match)):
        value = _make_attributive(value)
    if language != "en" and not measured and len(sides) == 2:
        sized = language == "fr" and len(sides[1][0]) < 3 and " " not in match[0]
        value = v.Range(parts[0], parts[1], "sur" if sized else _TIMES[language])
    if language == "fr" and len(parts) == 2 and _is_relay(sides):
        value = v.Phrase((parts[0], "fois", parts[1]))
    if match[0].endswith(".") and not sides[-1][1]:
        return Proposal(value, end=match.end() - 1)
    return _close(value, match, language)


def _is_relay(sides: list[tuple[str, str, str]]) -> bool:
    """Whether several run or swim: 4 x 100 m."""
    (first, unit, _), (second, last, _) = sides
    return not unit and len(first) == 1 and second.isdecimal() and last == "m" and int(second) > 40


def _is_size(match: re.Match[str]) -> bool:
    """Whether two numbers are a size, and no product: `×` may be either."""
    first, second = match["side1"], match["side2"]
    if "×" not in match[0] or len(first) >= 3 and len(second) >= 3:
        return True
    return bool(
        re.search(r"\b(?:[Aa]n?|[Tt]he|his|her|my|our|their|is|measures|in) $", before(match, 12))
    ) and not re.match(r" (?:is|equals|makes|=)", after(match))


_PERCENT = {
    "en": ("%", "‰"),
    **dict.fromkeys(ROMANCE, ("concentr-percent", "concentr-permille")),
}
_BEFORE_DASH = {"en": "(?= ?[-–—])", "es": "", "fr": ""}
_PERCENT_WORDS = r"|percent\b|per cent\b|pct\b\.?"


@per_language(
    "percent",
    lambda language: (
        rf"{STARTS[language]}{SIGNED_AMOUNT[language]} ?(?P<first>%{_BEFORE_DASH[language]})?"
        rf"(?:(?P<link>{LINKS[language]})(?P<high>{OPTIONAL_MINUS}{NUMBERS[language]}))? ?"
        rf"(?P<mark>[%‰]{_PERCENT_WORDS if language == 'en' else ''})"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs=lambda language: ("%", "‰", *(("percent", "per", "pct") if language == "en" else ())),
    weight=1.3,
)
def propose_percent(language: str, match: re.Match[str]) -> v.Value | Proposal:
    unit = _PERCENT[language][match["mark"] == "‰"]
    first = parse_amount(match["low"], match["sign"], language=language)
    if not match["high"]:
        return _close(v.Measure(first, unit), match, language)
    last = parse_amount(match["high"], language=language)
    link = link_range(language, match)
    if match["first"] and language == "fr":
        return v.Range(v.Measure(first, unit), v.Measure(last, unit), link)
    return _close(v.Measure(v.Range(first, last, link), unit), match, language)


_TIMES_PER = [key for key in english.PERIODS if len(key) > 1 and key not in ("ea", "pp")] + ["d"]
"""Behind a bare number, where a single letter is rather something else."""


@recognizer(
    "rate",
    rf"(?<![\w.$£€])({NUMBER})(k|K|M|bn| ?[x×])? ?/ ?({one_of(_TIMES_PER)})\b(\.)?(?!/)",
    needs="/",
    weight=1.6,
    digits=True,
    at="number",
)
def propose_per_period(match: re.Match[str]) -> Proposal:
    """Without a unit: `30k/yr`, `3/week`, `2x/day`."""
    scale = english.SCALES.get(match[2] or "", 0)
    amount: v.Value = parse_number(match[1], None, scale)
    if match[2] and not scale:
        amount = v.Phrase((amount, "times"))
    return _close(v.Rate(amount, english.PERIODS[match[3]]), match)


@recognizer(
    "rate",
    rf"(?<![\w.$£€/])({NUMBER})(?:(k|K|M|bn)|( thousand| million| billion))? ?/ ?"
    rf"(?:({one_of(english.UNITS, dots=True)})({POWER})?)(\.)?(?![\w/])",
    needs="/",
    weight=1.4,
    digits=True,
    at="number",
)
def propose_count_per_unit(match: re.Match[str]) -> Proposal | None:
    """What has no unit of its own: `1,200/km²`, `3/sq. mi.`."""
    unit, power = match[4], parse_power(match[5])
    if power == 1 and (len(unit) < 2 or unit in ("pt", "pc", "in", "ct")):
        return None
    scale = (match[2] or match[3] or "").strip()
    amount = parse_number(match[1], None, english.SCALES[scale] if scale else 0)
    return _close(v.Rate(amount, find_unit("en", unit), power), match)


@recognizer(
    "size",
    r"(?<![\w.])(\d{1,2} ?[½]|\d{1,2}(?:\.5)?) ?([WNDEM]{1,4})(?![\w.])|"
    r"(?<![\w.])(\d{1,2} ?[½]) ([A-Z]{1,3})(?!\w)",
    weight=1.5,
)
def propose_shoe(match: re.Match[str]) -> v.Value | None:
    """A shoe's size with its width: `10½ W`."""
    amount, width = match[1] or match[3], match[2] or match[4]
    if not _SIZE.search(before(match, 24)) and "½" not in amount:
        return None
    if "½" not in amount and not re.search(
        r"(?i)\b(?:size|shoes?|boots?|sneakers|skates) (?:is |are |was |were |in )?(?:an? )?$",
        before(match, 24),
    ):
        return None
    return v.Phrase((parse_amount(amount), v.Letters(width)))


@recognizer(
    "size",
    r"(?<![\w./])(1\d(?:½|\.5)?|[2-4]\d)(/| ?[x×] ?)([2-4]\d)(?![\w/]|\.\d)",
    needs="/x×",
    weight=2,
)
def propose_collar_or_waist(match: re.Match[str]) -> v.Value | None:
    """Two sizes of a garment: `a 16/34 shirt`, `32x34 jeans`."""
    if not _GARMENT.match(after(match, 16)):
        return None
    link = ("by",) if match[2] != "/" else ()
    return v.Phrase((parse_amount(match[1]), *link, v.Number(match[3])))


@per_language(
    "measure",
    lambda language: (
        r"(?:(?<=[⁰¹²³⁴-⁹])|(?<=\^\d)|(?<=\^\d\d)|(?<=\^-\d)|(?<=\^-\d\d)) (?!in\b|A\b|a\.?\b)"
        rf"({UNIT[language]})({POWER})?(?![\w/²³])"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs="⁰¹²³⁴⁵⁶⁷⁸⁹^",
    weight=1.5,
    at="any",
)
def propose_after_power(language: str, match: re.Match[str]) -> Proposal:
    """`10⁻⁹ m`, `10^5 cm²`."""
    unit = find_unit(language, match[1])
    return Proposal(v.Measure(None, unit, parse_power(match[2])), start=match.start(1))


@recognizer(
    "measure",
    rf"(?<![\w.])([{MINUS}])?({NUMBER})[eE]([-+−]?\d{{1,3}}) ({_UNIT})({POWER})?(?![\w/²³])",
    needs="eE",
    weight=2,
)
def propose_scientific_measure(match: re.Match[str]) -> v.Value:
    """`1.5e8 km`."""
    factor = parse_number(match[2], match[1])
    exponent = match[3].replace("−", "-").removeprefix("+")
    unit = english.UNITS[match[4].replace(". ", " ")]
    power = v.Power(v.Number("10"), exponent, factor)
    return v.Phrase((power, v.Measure(None, unit, parse_power(match[5]))))


@recognizer(
    "measure",
    rf"(?<![\w.])({NUMBER})(?: d\b|-d)(\.)?(?=[ ,;)]|$)",
    needs=("d",),
    weight=1.2,
)
def propose_days(match: re.Match[str]) -> Proposal | None:
    """Of doses and periods: kept for 30 d."""
    if "-" in match[0]:
        stop: Stop = "abbreviation" if match[2] else "none"
        return Proposal(v.Measure(parse_number(match[1]), "d", attributive=True), stop=stop)
    if not re.search(r"\b(?:for|in|within|after|every|x|×|of|to) $", before(match, 8)):
        return None
    return _close(v.Measure(parse_number(match[1]), "d"), match)


_SPOONS = {"c": "cup", "T": "tbsp", "t": "tsp"}


@recognizer(
    "measure",
    rf"(?<![\w.])({AMOUNT}) ?([cTt])\.(?= (?!of\b)[a-z]|$| [A-Z])",
    needs=_SPOONS,
    weight=1.5,
)
def propose_cups(match: re.Match[str]) -> Proposal | None:
    """Of a recipe: `2 c. flour`, `1 t. salt`."""
    amount = parse_amount(match[1])
    if isinstance(amount, v.Number) and (len(amount.digits) > 2 or amount.decimals):
        return None
    if match[2] == "c" and _PRICED_AT.search(before(match, 30)):
        return Proposal(v.Money(amount, "¢"), stop="abbreviation")
    if not re.match(r" [a-z]", after(match, 2)) and (
        not _LISTED_FOOD.search(before(match, 30))
        or (match[2] == "t" and not _IN_RECIPE.search(match.string))
    ):
        return None
    return close(v.Measure(amount, _SPOONS[match[2]]), match, digits_follow=False)


_LISTED_FOOD = LazyPattern(r"(?:^|[.;,] )[A-Z][a-z]+(?: [a-z]+){0,2}: (?:about )?$")
"""What an amount in a list is of: Brown sugar: 1 c."""
_IN_RECIPE = LazyPattern(r"\d ?(?:[cT]\.|[Tt]bsp|tsp|cups?\b)")


_PRICED_AT = LazyPattern(
    r"(?i)\b(?:pa(?:id|ys?)|cost(?:s|ing)?|prices?|priced|sold|sells?|charged?|for only|worth|only|"
    r"penny|¢|c\.) (?:[\d¢c.]+ (?:and|or|to) |for |at |about |only )*$"
)


# Spanish and French


# Letters that name seats, classes and models more often than they measure.
_DOUBTFUL = frozenset("A B C F J K N V W L t o j d q p. pp.".split())
_SEATED = LazyPattern(
    r"\b(?:asientos?|fila|piso|planta|puerta|letra|aula|clase|grupo|curso|portal|escalera|bloque|"
    r"art\.|article|artículo|tipo|talla|plaza|pl\.|pza\.|voit\.|wagon|coche|vagón|butaca|sièges?|place|rang|étage|porte|salle|groupe|bâtiment|bloc|taille|type|voie|ligne|"
    r"renault|citroën|peugeot|la|une|sa|ma) $",
    re.IGNORECASE,
)  # fmt: skip


_ABOVE = {"en": r"(?<=\w )(km|m|MB|GB|Mb|kB|ft|mi|mg|kg|L)"} | {
    language: rf"(?<![\w/.])({UNIT[language]})" for language in ROMANCE
}
_BELOW = UNIT | {"en": "h|s|L|ha|min|d"}


@per_language(
    "measure",
    lambda language: (
        rf"{_ABOVE[language]}({POWER})?\.?/({_BELOW[language]})({POWER})?{DOT}(?![\w²³])"
    ),
    languages=RECOGNIZED_LANGUAGES,
    digits=False,
    needs="/",
    at="any",
)
def propose_bare_rate(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """A unit without a number: en kg/m³."""
    if len(match[0]) < 4 and match[0] != "m/s":
        return None
    unit, per = find_unit(language, match[1]), find_unit(language, match[3])
    value = v.Rate(v.Measure(None, unit, parse_power(match[2])), per, parse_power(match[4]))
    return close(value, match, language)


@per_language(
    "rate",
    lambda language: (
        r"(?:(?<=[a-zà-ÿ]{2}s)|(?<=people)|(?<=children)|(?<=mujeres))/"
        rf"({UNIT[language]}{f'|{one_of(english.PERIODS)}' if language == 'en' else ''})"
        rf"({POWER})?(?![\w/²³-])"
    ),
    languages=RECOGNIZED_LANGUAGES,
    digits=False,
    needs="/",
    at="any",
    weight=1.4,
)
def propose_rate_of_things(language: str, match: re.Match[str]) -> v.Value | None:
    """Behind what is counted: `cells/mL`, `habitantes/km²`."""
    if len(match[1]) < 2 and not match[2] and match[1] not in "hdsLl":
        return None
    unit = english.PERIODS.get(match[1], "") if language == "en" else ""
    unit = unit or find_unit(language, match[1])
    return v.Rate(v.Abbreviation(""), unit, parse_power(match[2]))


_PER = {"en": "per", "es": "por cada", "fr": "pour"}


@per_language(
    "rate",
    r"(?:(?<=[a-zà-ÿ]{2}s)|(?<=people))/(?=\d{1,3}(?:[ .,]?000)+ (?:hab|people|pers|adult|live|"
    r"births|niñ|nacid|enfants|naiss|euro))",
    languages=RECOGNIZED_LANGUAGES,
    digits=True,
    needs="/",
    at="any",
    weight=3,
)
def propose_per_thousand(language: str, match: re.Match[str]) -> v.Value:
    """`3 médicos/1.000 hab.`"""
    return v.Abbreviation(f" {_PER[language]} ")


@recognizer("rate", r"(?<![\w/])[fƒ]/(?=\d)", digits=True, needs="/", at="any", weight=2)
def propose_aperture(match: re.Match[str]) -> v.Value:
    """Of a lens: `f/2.8`."""
    return v.Phrase((v.Letters("F"), " "))


_EACH = {"en": "per", "es": "cada", "fr": "aux"}
_EVERY = {**_EACH, "fr": "toutes les"}
"""Before hours: un comprimé toutes les 8 h."""


@per_language(
    "measure",
    lambda language: (
        rf"{STARTS[language]}({NUMBERS[language]}) ?({UNIT[language]})"
        rf"\.? ?/ ?(\d+) ?({UNIT[language]})(?![\w²³])"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs="/", weight=1.5,
)  # fmt: skip
def propose_each_hundred(language: str, match: re.Match[str]) -> v.Value | None:
    """6.5 L/100 km."""
    if match[2] == match[4]:
        return None  # 9 h / 14 h
    first = v.Measure(parse_amount(match[1], language=language), find_unit(language, match[2]))
    last = v.Measure(v.Number(match[3]), find_unit(language, match[4]))
    each = _EVERY if match[4] in ("h", "hs", "hrs", "d", "j") else _EACH
    return v.Phrase((first, each[language], last))


@per_language(
    "measure",
    rf"{NUMBER_START}({COMMA_NUMBER}) ?['′]"
    r"(?= de (?:largo|ancho|alto|long|large|haut|profond|diamètre)| ?[x×] ?\d)",
    needs="'′", weight=1.6,
)  # fmt: skip
def propose_romance_bare_feet(language: str, match: re.Match[str]) -> v.Value:
    return v.Measure(parse_comma_number(match[1]), "length-foot")


_SCORER = LazyPattern(
    rf"(?:[{CAPITAL}][{SMALL}]+ \(|\b(?:[Ee]l|[Aa]l|[Dd]el) )"
    r"(?:\d{1,3}['′](?:\+\d['′]?)?(?:,| y| et) )*$"
)
_TIMED = LazyPattern(
    r"diferencia|ventaja|retraso|tiempo|crono|carrera|líder|pelotón|récord|vuelta|pole|marca|"
    r"étape|écart|retard|avance|peloton|chrono|tour\b|course|leader|temps|seconde",
    re.IGNORECASE,
)


@per_language(
    "duration",
    rf"{NUMBER_START}(\d{{1,3}}) ?['′](?:\+(\d{{1,2}})['′]?)?(?![\w'′\"″])(?! ?\d)",
    needs="'′",
    weight=1.3,
)
def propose_romance_minutes(language: str, match: re.Match[str]) -> v.Value | None:
    """Reposar 15'; of a goal the minute: Xavi (35', 90'+2')."""
    if match[0].count("'") % 2 and re.search(r"(?<!\w)'\w[^']*$", before(match, 60)):
        return None  # A quotation ends.
    minutes = v.Number(match[1])
    if not match[2] and not _SCORER.search(before(match, 60)):
        return v.Duration(minutes=int(match[1]))
    if language == "fr":
        value: v.Value = v.Phrase((v.Ordinal(int(match[1]), "f"), "minute"))
    else:
        value = v.Phrase(("minuto", minutes))
    if not match[2]:
        return value
    return v.Phrase((value, "más" if language == "es" else "plus", v.Number(match[2])))


@per_language(
    "duration",
    rf"{NUMBER_START}(\d{{1,2}}) ?(?:\"|″|'')(?!\w)(?=[\s.,;:!?)]|$)",
    needs="\"″'",
    weight=1.4,
)
def propose_romance_seconds(language: str, match: re.Match[str]) -> v.Value | None:
    """A lead of 3", where the sentence is about time; else they are inches."""
    if not _TIMED.search(before(match, 60)) and not _TIMED.search(after(match, 40)):
        return None
    if len(re.findall(r'(?<!\d)"', before(match, 300))) % 2:
        return None
    return v.Duration(seconds=int(match[1]))


@per_language(
    "rate",
    lambda language: rf"(?<=\d) ?/ ?({UNIT[language]})({POWER})?(?![\w/²³])",
    needs="/",
    at="any",
    digits=True,
    weight=1.6,
)
def propose_for_each(language: str, match: re.Match[str]) -> v.Value | None:
    """Behind a bare number: 11 200/mm³."""
    if len(match[1]) < 2 and not match[2]:
        return None
    return v.Rate(v.Abbreviation(""), find_unit(language, match[1]), parse_power(match[2]))


_MONTHS_OLD = LazyPattern(
    r"\b(?:niñ[oa]|bebé|lactante|paciente|varón|crío|fillette|enfant|nourrisson|bébé|garçon|patiente?)"
    r" de (?:\d+ a\. y |\d+ ans et )?$",
    re.IGNORECASE,
)


@per_language("measure", rf"{NUMBER_START}(\d{{1,2}}) ?m(?![\w²³/])", weight=2)
def propose_months_old(language: str, match: re.Match[str]) -> v.Value | None:
    """Of a child: niña de 21 m."""
    if not _MONTHS_OLD.search(before(match, 48)):
        return None
    return v.Measure(v.Number(match[1]), "duration-month")


@per_language(
    "rate",
    r"(?<=[a-zà-ÿ.])(?<!\bc) ?/ ?(\d{1,2}) ?h\b(?!\w)",
    needs="/",
    at="any",
    digits=True,
    weight=2,
)
def propose_every_hours(language: str, match: re.Match[str]) -> v.Value:
    """Behind a dose: 1 dose/6 h."""
    hours = v.Measure(v.Number(match[1]), "duration-hour")
    return v.Phrase(("", _EVERY[language], hours))


@per_language("measure", rf"{NUMBER_START}(\d)m(\d\d)(?!\w)", needs="m", weight=1.5)
def propose_romance_height(language: str, match: re.Match[str]) -> v.Value:
    """As people are measured: 1m80."""
    return v.Phrase((v.Measure(v.Number(match[1]), "length-meter"), v.Number(match[2])))


@per_language(
    "measure",
    rf"{NUMBER_START}(\d{{1,3}}) ?(?:'|ft\.?|pi\.?|pies|pieds) ?(?:(?:y|et) )?"
    r"(\d{1,2}(?:[.,]\d)?) ?(''|\"|in\b\.?|po\b\.?|pulg\b\.?)?(?!\w)",
    needs=("'", "ft", "pi", "pies", "pieds"), weight=1.4,
)  # fmt: skip
def propose_romance_feet(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """5'11" of a person; 3'30 of a race."""
    marked = match[3] or ""
    link = re.search(r" (y|et) ", match[0])
    if "'" not in match[0].rstrip("'") or re.search("[a-z]", match[0]):
        if not re.match(r"in|po|pulg", marked):
            return None
        parts: tuple[v.Value | str, ...] = (v.Measure(v.Number(match[1]), "length-foot"),)
        parts += (link[1],) if link else ()
        value: v.Value = v.Phrase((*parts, v.Measure(parse_comma_number(match[2]), "length-inch")))
        return close(value, match, language, digits_follow=False)
    timed = re.search(
        r"tiempo|temps|corr|cour|récord|record|tour|vuelta|chrono|minut|\ben $",
        before(match, 25).lower(),
    )
    small = float(match[2].replace(",", ".")) < 12 and match[2][0] != "0"
    measured = _MEASURED.search(before(match, 40))
    small = small and bool(measured or not 9 <= int(match[1]) < 60)
    if small and marked and not timed:
        inches = v.Measure(parse_comma_number(match[2]), "length-inch")
        return v.Phrase((v.Measure(v.Number(match[1]), "length-foot"), inches))
    if len(match[1]) < 3 and len(match[2]) == 2 and match[2] < "60":
        return v.Phrase((v.Measure(v.Number(match[1]), "duration-minute"), v.Number(match[2])))
    return None


_MEASURED = LazyPattern(
    r"(?i)\b(?:mid(?:e|en|ió)|medía|largo|ancho|alto|eslora|altura|tabla|barco|velero|mesure\w*|long|"
    r"longueur|large|haut|hauteur|bateau|voilier|planche|fait)\b[^.;]*$"
)
_COMPASS = {
    "en": {"N": "north", "S": "south", "E": "east", "W": "west", "O": ""},
    "es": {"N": "norte", "S": "sur", "E": "este", "O": "oeste", "W": "oeste"},
    "fr": {"N": "nord", "S": "sud", "E": "est", "O": "ouest", "W": "ouest"},
}
_SIXTIETHS = r"(\d{1,2}(?:[.,]\d+)?)"
_ANGLES = {"en": ("°", "min", "s")} | dict.fromkeys(
    ROMANCE, ("angle-degree", "duration-minute", "duration-second")
)


@per_language(
    "angle",
    lambda language: (
        rf"{STARTS[language]}({OPTIONAL_MINUS}{NUMBERS[language]}) ?[°º] ?{_SIXTIETHS} ?'"
        rf"(?: ?{_SIXTIETHS} ?(?:\"|''))?(?: ?([NSEOW])(?!\w)\.?)?"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs="°º",
    weight=1.6,
)
def propose_coordinate(language: str, match: re.Match[str]) -> Proposal:
    """`40° 26' 46" N`."""
    written = (
        match[1],
        *((part.lstrip("0") or "0") if part else "" for part in match.groups()[1:3]),
    )
    parts: list[v.Value | str] = [
        v.Measure(parse_amount(number, language=language), unit)
        for number, unit in zip(written, _ANGLES[language], strict=True)
        if number
    ]
    if match[4]:
        parts.append(_COMPASS[language][match[4]])
    return _close(v.Phrase(tuple(parts)), match, language)


@per_language(
    "angle",
    rf"{NUMBER_START}(\d{{1,3}}) ?[°º]{DASH}(\d{{1,3}}) ?[°º](?: ?(C)(?!\w))?(?!\w)",
    needs="°º",
    weight=2,
)
def propose_span_of_degrees(language: str, match: re.Match[str]) -> v.Value:
    """`16º-18º`."""
    unit = "temperature-celsius" if match[3] else "angle-degree"
    return v.Measure(v.Range(v.Number(match[1]), v.Number(match[2]), TABLES[language].TO), unit)


@per_language(
    "angle",
    rf"{NUMBER_START}({SIGNED}) ?[°º](?: ?([NSEOW])\b\.?)?",
    needs="°º", weight=1.1,
)  # fmt: skip
def propose_romance_degrees(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    amount = parse_comma_number(match[1])
    if not match[2]:
        if language == "es" and not amount.sign and not amount.decimals:
            noun = re.match(r" ?([a-záéíóú]{4,})", after(match))
            ordinal = "°" in match[0] and noun and not is_degrees(match, amount.digits)
            if ordinal or ("º" in match[0] and not is_degrees(match, amount.digits)):
                return None
        if language == "fr" and "º" in match[0] and word_before(match) in ("n", "le", "la"):
            return None
        rest = after(match, 3)
        if re.match(r" ?[CFK]\b", rest):
            return None
        if language == "fr" and (half := re.match(r"(\d)\b", rest)):
            return Proposal(
                v.Phrase((v.Measure(amount, "angle-degree"), v.Number(half[1]))),
                end=match.end() + 1,
            )
        measure = v.Measure(amount, "angle-degree")
        return v.Phrase((measure, "")) if rest[:1].isalnum() else measure
    value = v.Phrase((v.Measure(amount, "angle-degree"), _COMPASS[language][match[2]]))
    return close(value, match, language, digits_follow=False)
