"""Units of measure with the amount before them: degrees, feet and inches, sizes, rates, percent."""

from __future__ import annotations

import re

from anyrig.text import values as v
from anyrig.text.recognizers import Found, LazyPattern, Stop, per_language, recognizer
from anyrig.text.recognizers.common import (
    AMOUNT,
    COMMA_NUMBER,
    DASH,
    DOT,
    FRACTIONS,
    MINUS,
    NOT_NOUNS,
    NUMBER,
    NUMBER_START,
    OPTIONAL_MINUS,
    SIGNED,
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
from anyrig.text.recognizers.numbers import is_degrees
from anyrig.text.recognizers.stops import look_behind, stop_after

_UNIT = one_of(english.UNITS, dots=True)
_PERIOD = {
    "second": "s", "minute": "min", "hour": "h", "day": "d", "week": "wk", "month": "mo",
    "year": "yr", "yr": "yr", "mo": "mo", "wk": "wk", "hr": "h", "sec": "s", "d": "d",
    "person": "person", "capita": "capita", "serving": "serving", "acre": "ac", "inch": "in",
    "foot": "ft", "mile": "mi", "gallon": "gal",
}  # fmt: skip
# Units that may be other things when they touch the number, and whether they still count there:
# "5m" is five meters, "5B" a seat or billions.
_TOUCHING = {
    "t": False, "B": False, "K": False, "N": False, "J": False, "F": False, "b": False, "in": True,
    "m": True, "g": True, "s": True, "L": True, "A": True, "V": True, "W": True, "ac": False,
}  # fmt: skip
_POWER = r"(?:\^?[23]|[²³])"
_LINK = r" ?[-–—] ?| to | or | and "
_PLACE = LazyPattern(
    r"\b(?:[Ss]eats?|[Rr]ow|[Gg]ate|[Rr]oom|[Aa]pt\.?|[Aa]partment|[Ss]uite|[Uu]nit|"
    r"[Gg]rade|[Cc]lass|"
    r"[Ss]ection|[Bb]lock|[Pp]latform|[Tt]rack|[Bb]ay|[Zz]one|[Hh]all|[Dd]oor|[Bb]uilding|[Ff]loor|"
    r"[Ss]tand|[Cc]abin|[Bb]erth|[Tt]erminal|[Dd]ock|[Tt]able|[Ff]igure|[Gg]roup|[Tt]eam|[Pp]art|"
    r"[Aa]ppendix|[Ee]xhibit|[Ll]ot|[Bb]ox|[Pp]age|[Ww]ard|[Ss]tudio|[Hh]angar|[Cc]hannel|[Rr]oute|"
    r"Rte\.?|[Hh]ighway|Hwy\.?|Exit|US|U\.S\.|[Ss]pace|[Ll]evel|[Dd]istrict|[Vv]itamin) $"
)
_SIZE = LazyPattern(
    r"\b(?:sizes?|shoes?|boots?|sneakers?|wears?|wore|heels?|feet|pair|skates?|cleats|loafers?|"
    r"sandals?|slippers?|footwear|takes?)\b[^.;]{0,12}$",
    re.IGNORECASE,
)
_DOTTED = frozenset(
    "in ft lb lbs oz min sec hr yd mi tbsp tsp pt qt gal hrs yds pts pcs qts wks yrs "
    "mins secs gals "
    "cm mm km kg mg ml g m l mcg yr wk mos doz tbs ozs deg".split()
)


def _stop_after_unit(match: re.Match[str], dot: str | None) -> Stop:
    if not dot:
        return "none"
    if _DIRECTION_NEXT.match(after(match, 10)):
        return "abbreviation"  # 3 mi. NE of the town
    return stop_after(match.string, match.end(), digits_follow=False)


_DIRECTION_NEXT = LazyPattern(r" (?:[NSEW]|[NS]{1,2}[EW]|[EW][NS][EW])\.? (?:of|from)\b")


@recognizer(
    "measure",
    rf"(?<![\w.])([{MINUS}+±~≈<>≤≥] ?)?({AMOUNT})(?:({_LINK})({AMOUNT}))?"
    rf"(?: (hundred|thousand|million|billion|trillion)\b|([kM])(?= ))?([ -]?)({_UNIT})({_POWER})?"
    rf"(?: ?/ ?({_UNIT}|{one_of(_PERIOD)})({_POWER})?|(?: per |p(?=[hs](?!\w)))({_UNIT}))?"
    r"(?![\w²³°]|/\w|'s|\.\w)(\.(?!\d))?",
    weight=1.3,
    needs=english.UNITS,
)
def _measure(match: re.Match[str]) -> Found | None:
    (sign, low, link, high, word, letter, gap, written, power, below, below_power, per,
     dot) = match.groups()  # fmt: skip
    name = written.replace(". ", " ")
    key = english.UNITS[name]
    if not _is_unit(match, name, gap, dot):
        return None
    scale = english.SCALES[word or letter] if word or letter else 0
    first = parse_amount(low, sign, 0 if high else scale)
    amount: v.Number | v.Range = first  # type: ignore[assignment]
    if high:
        joint = link.strip()
        amount = v.Range(
            first, parse_amount(high, None, scale), joint if joint in ("or", "and") else ""
        )
    attributive = gap == "-" or _describes(match, gap, name)
    value: v.Value = v.Measure(amount, key, _exponent(power), attributive)
    if below or per:
        rate = below or per
        value = v.Rate(
            value, english.UNITS.get(rate) or _PERIOD.get(rate, rate), _exponent(below_power)
        )
    if dot and (name.split()[-1] not in _DOTTED or below or per):
        # A unit that is not written with a full stop: it ends the sentence, if anything.
        if look_behind(match.string, match.end()).kind == "lower":
            return Found(value, stop="abbreviation")
        return Found(value, end=match.start(13))
    if dot and name == "ft" and re.match(r" \d{1,2}(?:[.,;]|$| and)", after(match, 8)):
        return Found(value, stop="abbreviation")  # 5 ft. 3
    return Found(value, stop=_stop_after_unit(match, dot))


def _exponent(text: str | None) -> int:
    return 1 if not text else 2 if text[-1] in "2²" else 3


def _describes(match: re.Match[str], gap: str, name: str) -> bool:
    """Whether a measure tells what kind of thing follows: a 500 GB drive."""
    if is_attributive(match):
        return True
    if name in ("in", "ft", "yd", "mi", "lb") and _THING.match(after(match, 20)):
        return True
    noun = re.match(r" ([a-z]{3,})\b", after(match, 20))
    return bool(noun) and not gap and noun is not None and noun[1] not in NOT_NOUNS and name in (
        "mm", "km", "GB", "MB", "TB", "W", "kW", "V", "cm", "MP", "Hz", "min", "mi")  # fmt: skip


# What a measure before it describes, though no article stands before: 5 lb. bags.
_THING = LazyPattern(
    r" (?:bags?|box(?:es)?|sacks?|weights?|boards?|nails?|pipes?|screws?|bolts?|poles?|ropes?|"
    r"walls?|fences?|ceilings?|waves?|snakes?|ladders?|screens?|pans?|tires?|wheels?|"
    r"pizzas?|drops?|tests?)\b"
)


def _is_unit(match: re.Match[str], name: str, gap: str, dot: str | None) -> bool:
    """Whether what looks like a unit is one here."""
    if name == "in":
        return _is_inch(match, gap, dot)
    if name in _TOUCHING and not gap and not match[10] and not _touches(match, name):
        return False
    if len(name) == 1 and name.isupper():
        return _is_capital_unit(match, name, gap, dot)
    return not (name == "m" and gap and re.match(r" [A-Z]", after(match, 2)))


def _is_inch(match: re.Match[str], gap: str, dot: str | None) -> bool:
    rest = after(match, 30)
    if re.match(r"-\d", rest):
        return False  # a 1-in-10 chance
    if dot:
        return True
    if not gap:
        return not match[2].isdecimal() or len(match[2]) < 3
    return gap == "-" or bool(_AFTER_INCH.match(rest))


_AFTER_INCH = LazyPattern(
    r"\s*(?:[,;)x×]|$|by\b|tall|wide|long|deep|thick|high|pipe|screen|board|in diameter|square)"
)
_WORN = LazyPattern(r"\b(?:sizes?|sits?|sat|seats?|seated)\b[^.;]*$", re.IGNORECASE)
_GARMENT = LazyPattern(r" (?:jackets?|coats?|suits?|blazers?|shirts?|trousers|pants|jeans)\b")
_PRODUCT = LazyPattern(
    r"\b(?:iPhone|iPad|iPod|Galaxy|Pixel|Model|Mark|Xperia|Series|Boeing|type) $"
)


def _touches(match: re.Match[str], name: str) -> bool:
    """Whether a letter that touches the number is a unit: 5m, 10s, but not 5B or iPhone 6s."""
    lead, amount = before(match, 24), match[2]
    if _PRODUCT.search(lead):
        return False
    if not _TOUCHING[name] or (name == "m" and re.search(r"[$£€]$", lead)):
        return False
    if name in "WLAV" and (_PLACE.search(lead) or _WORN.search(before(match, 40))):
        return False
    if name == "L" and amount.isdecimal() and _GARMENT.match(after(match, 16)):
        return False  # a 42L jacket
    tens = amount.endswith("0") and (len(amount) == 4 or after(match, 3) == " of")
    return not (name == "s" and tens)


def _is_capital_unit(match: re.Match[str], name: str, gap: str, dot: str | None) -> bool:
    """Whether a capital is a unit, and no seat, size, direction or beginning of a name."""
    lead, rest = before(match, 24), after(match, 30)
    if _PLACE.search(lead) or (gap and _has_other_seat(match, name)):
        return False
    sized = _SIZE.search(lead) and not re.search(r"\b[Aa]n? $", lead)
    if name == "W" and (match[2][-1] in VULGAR or sized):
        return False
    if name in "NW" and dot and _STREET.match(rest):
        return False
    if not gap or name not in "AKNJBF":
        return True
    # A note's number before its first word ("1 A river in Sicily."), and "Group 5 A students".
    noted = name == "A" and not lead.strip() and rest.startswith(" ")
    return not noted and (bool(dot) or not re.match(r" [A-Z]", rest))


def _has_other_seat(match: re.Match[str], name: str) -> bool:
    """Whether another letter stands with the same number: 14 A and 14 B."""
    around = f"{before(match, 24)} {after(match, 24)}"
    others = re.findall(rf"(?<![\w.]){re.escape(match[2])} ?([A-K])(?!\w)", around)
    return name in "ABCDEFGHJK" and any(other != name for other in others)


_STREET = LazyPattern(
    r" (?:\d+(?:st|nd|rd|th)\b|(?:[A-Z][\w']+ ){1,3}(?:St|Ave|Rd|Blvd|Dr|Ln|Street|Avenue|"
    r"Road|Way)\b)"
)


@recognizer(
    "measure",
    rf"(?<![\w.])([{MINUS}+±~] ?)?({AMOUNT})(?: ?°[CF]?)?(?:({_LINK})({AMOUNT}))? ?(?:°|º|"
    rf"deg\b(\.)?)"
    r"(?: ?([CFKNSEW])(?!\w)| ?(Celsius|Fahrenheit|centigrade|north|south|east|west)\b)?",
    needs=("°", "º", "deg"),
    weight=1.4,
)
def _degrees(match: re.Match[str]) -> Found | v.Value:
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
    return Found(v.Phrase((value, word)) if word else value, stop=stop)


@recognizer(
    "measure",
    rf"(?<![\w.])([{MINUS}] ?)?({NUMBER})[°º] ?(\d{{1,2}}(?:\.\d+)?)'(?: ?(\d{{1,2}}(?:\.\d+)?)\")?"
    r"(?: ?([NSEW])(?!\w))?",
    needs="°º",
    weight=1.6,
)
def _coordinate(match: re.Match[str]) -> v.Value:
    sign, degrees, minutes, seconds, side = match.groups()
    parts: list[v.Value | str] = [
        v.Measure(parse_number(degrees, sign), "°"),
        v.Measure(parse_number(minutes), "min"),
    ]
    if seconds:
        parts.append(v.Measure(parse_number(seconds), "s"))
    if side:
        parts.append({"N": "north", "S": "south", "E": "east", "W": "west"}[side])
    return v.Phrase(tuple(parts))


@recognizer(
    "measure",
    rf"(?<![\w.])(\d{{1,2}}) ?-?(?:ft|foot|feet)\b\.?,? ?-?({AMOUNT}) ?-?(?:in|inch|inches)\b(\.)?",
    needs=("ft", "foot", "feet"),
    weight=1.8,
)
def _feet_inches(match: re.Match[str]) -> Found:
    value = v.Phrase((v.Measure(v.Number(match[1]), "ft"), v.Measure(parse_amount(match[2]), "in")))
    return Found(value, stop=_stop_after_unit(match, match[3]))


@recognizer("measure", rf"(?<![\w.])({AMOUNT})\" ?[x×] ?({AMOUNT})\"", needs='"', weight=1.6)
def _sheet(match: re.Match[str]) -> v.Value:
    return v.Dimensions(tuple(v.Measure(parse_amount(side), "in") for side in match.groups()))


@recognizer(
    "measure",
    r"(?<![\w.])([3-8])' ?-?(\d{1,2}(?:\.\d)?|1?\d ?1/2|1?\d½)(?:\"|''|(?![\w.]))",
    needs="'",
    weight=1.6,
)
def _height(match: re.Match[str]) -> v.Value | None:
    # "5' 11" is no height where the quotation began before.
    return v.Phrase((v.Measure(v.Number(match[1]), "ft", attributive=True), parse_amount(match[2])))


@recognizer(
    "measure",
    r"(?<![\w.\"'/])(\d+(?:\.\d+)?|\d+ \d/\d|\d{1,2}/\d{1,2}|\d*[½¼¾])(\"|"
    r"'')(?![\w])(?=[\s.,;:!?)x×-]|$)",
    needs="\"'",
    weight=1.1,
)
def _inches(match: re.Match[str]) -> v.Value | None:
    lead = before(match, 300)
    if match[2] == '"' and len(re.findall(r'(?<!\d)"', lead)) % 2:
        return None
    return v.Measure(parse_amount(match[1]), "in", attributive=_before_thing(match))


@recognizer(
    "measure", r"(?<![\w.\"'])(\d+(?:\.\d+)?)'(?![\w'])(?=[\s.,;:!?)x×-]|$)", needs="'", weight=1.1
)
def _feet(match: re.Match[str]) -> v.Value | None:
    if re.search(r"(?<!\w)'[^']*$", before(match, 200)):
        return None
    return v.Measure(parse_number(match[1]), "ft", attributive=_before_thing(match))


def _before_thing(match: re.Match[str]) -> bool:
    noun = re.match(r" ([a-z]{3,})", after(match, 20))
    return is_attributive(match) or (noun is not None and noun[1] not in NOT_NOUNS)


@recognizer(
    "number",
    rf"(?<![\w.])({NUMBER}) ?x ?({NUMBER})(?= ?= ?\d| (?:is|equals|makes) \d)",
    needs="x",
    weight=2,
)
def _product(match: re.Match[str]) -> v.Value:
    """A sum, where its result stands beside it."""
    return v.Phrase((parse_number(match[1]), "times", parse_number(match[2])))


@recognizer(
    "dimensions",
    rf"(?<![\w.])({AMOUNT})[ -]?(?:({_UNIT})\b\.?|([\"']))? ?[x×] ?({AMOUNT})[ "
    rf"-]?(?:({_UNIT})\b|([\"']))?"
    rf"(?:\.? ?[x×] ?({AMOUNT})[ -]?(?:({_UNIT})\b|([\"']))?)?(\.(?!\d))?(?! ?\w?[\d^*=+÷]|\w)",
    needs="x×",
    weight=1.6,
)
def _dimensions(match: re.Match[str]) -> Found | None:
    sides = [match[1], match[4], match[7]]
    units = [match[2] or match[3], match[5] or match[6], match[8] or match[9]]
    marks = {"'": "ft", '"': "in"}
    count = 3 if sides[2] else 2
    measured = any(units)
    if "×" in match[0] and not measured and count == 2 and not _is_size(match):
        return None
    keys = [marks.get(one) or english.UNITS[one.replace(". ", " ")] if one else "" for one in units]
    # "ac" and the like need the touch of a number that is no other thing.
    parts = tuple(
        v.Measure(parse_amount(side), key) if key else parse_amount(side)
        for side, key in zip(sides[:count], keys, strict=False)
        if side
    )
    value = v.Dimensions(parts)
    if not match[10]:
        return Found(value)
    if keys[count - 1]:
        return Found(value, stop=_stop_after_unit(match, match[10]))
    return Found(value, end=match.start(10))


def _is_size(match: re.Match[str]) -> bool:
    first, second = match[1], match[4]
    if len(first) >= 3 and len(second) >= 3:
        return True
    return bool(
        re.search(r"\b(?:[Aa]n?|[Tt]he|his|her|my|our|their|is|measures|in) $", before(match, 12))
    ) and not re.match(r" (?:is|equals|makes|=)", after(match))


@recognizer(
    "percent",
    rf"(?<![\w.])([{MINUS}+±~≈<>≤≥] ?)?({NUMBER}|\d* ?[{VULGAR}]|\d+/\d+) ?(?:%(?= ?[-–—]))?"
    rf"(?:( ?[-–—] ?| to | or | and )({NUMBER}))? ?(%|‰|percent\b|per cent\b|pct\b\.?)",
    needs=("%", "‰", "percent", "per", "pct"),
    weight=1.3,
)
def _percent(match: re.Match[str]) -> v.Value | Found:
    sign, low, link, high, mark = match.groups()
    amount: v.Value = parse_amount(low, sign)
    if high:
        joint = link.strip()
        amount = v.Range(amount, parse_number(high), joint if joint in ("or", "and") else "")
    value = v.Measure(amount, "‰" if mark == "‰" else "%")  # type: ignore[arg-type]
    return Found(value, stop=_stop_after_unit(match, ".")) if mark.endswith(".") else value


@recognizer(
    "measure",
    r"(?<=\w )((?:km|m|MB|GB|Mb|kB|ft|mi|mg|kg|L)/(?:h|s|L|ha|min|d))([²2])?(?!\w)",
    digits=False,
    needs="/",
    weight=1.2,
)
def _bare_rate(match: re.Match[str]) -> v.Value:
    above, _, below = match[1].partition("/")
    return v.Rate(
        v.Measure(None, english.UNITS[above]), english.UNITS.get(below, below), 2 if match[2] else 1
    )


@recognizer(
    "rate",
    rf"(?<![\w.$£€])({NUMBER})(k|K|M|bn)? ?/ ?({one_of(_PERIOD)})\b(\.)?(?!/)",
    needs="/",
    weight=1.6,
    digits=True,
)
def _per_period(match: re.Match[str]) -> Found:
    """Without a unit: `30k/yr`, `3/week`."""
    amount = parse_number(match[1], None, english.SCALES[match[2]] if match[2] else 0)
    return Found(v.Rate(amount, _PERIOD[match[3]]), stop=_stop_after_unit(match, match[4]))


@recognizer(
    "size",
    r"(?<![\w.])(\d{1,2} ?[½]|\d{1,2}(?:\.5)?) ?([WNDEM]{1,4})(?![\w.])|"
    r"(?<![\w.])(\d{1,2} ?[½]) ([A-Z]{1,3})(?!\w)",
    weight=1.5,
)
def _shoe(match: re.Match[str]) -> v.Value | None:
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
    "measure",
    rf"(?:(?<=[⁰¹²³⁴-⁹])|(?<=\^\d)|(?<=\^\d\d)|(?<=\^-\d)|(?<=\^-\d\d)) (?!in\b|A\b)"
    rf"({_UNIT})({_POWER})?(?![\w/²³])",
    needs="⁰¹²³⁴⁵⁶⁷⁸⁹^",
    weight=1.5,
)
def _after_power(match: re.Match[str]) -> Found:
    """`10⁻⁹ m`, `10^5 cm²`."""
    unit = english.UNITS[match[1].replace(". ", " ")]
    return Found(v.Measure(None, unit, _exponent(match[2])), start=match.start(1))


@recognizer("measure", rf"(?<![\w.])({AMOUNT}) ?c\.(?= [a-z])", needs=("c",), weight=1.5)
def _cups(match: re.Match[str]) -> Found | None:
    """Of a recipe: `2 c. flour`."""
    amount = parse_amount(match[1])
    if isinstance(amount, v.Number) and (len(amount.digits) > 2 or amount.decimals):
        return None
    return Found(v.Measure(amount, "cup"), stop="abbreviation")


# Spanish and French


# Letters that name seats, classes and models more often than they measure.
_DOUBTFUL = frozenset("A B C F J K N V W L t o j q p. pp.".split())
_SEATED = LazyPattern(
    r"\b(?:asientos?|fila|piso|planta|puerta|letra|aula|clase|grupo|curso|portal|escalera|bloque|"
    r"tipo|talla|sièges?|place|rang|étage|porte|salle|groupe|bâtiment|bloc|taille|type|voie|ligne|"
    r"renault|citroën|peugeot|la|une|sa|ma) $",
    re.IGNORECASE,
)  # fmt: skip
SYMBOL = {
    language: rf"(?:{one_of(table.UNITS).replace(chr(92) + ' ', ' ?')})"
    for language, table in ROMANCE.items()
}
ROMANCE_POWER = r"([²³]|(?<=m)[23](?!\w))?"
_SIDE = {
    language: rf"({COMMA_NUMBER})(?: ?({symbol}){ROMANCE_POWER})?"
    for language, symbol in SYMBOL.items()
}
LINKS = {"es": rf"(?:{DASH}| a )", "fr": rf"(?:{DASH}| à )"}


def find_unit(language: str, symbol: str) -> str:
    symbols: dict[str, str] = TABLES[language].UNITS
    compact = symbol.replace(" ", "")
    return symbols.get(symbol) or next(
        unit for key, unit in symbols.items() if key.replace(" ", "") == compact
    )


def parse_power(mark: str | None) -> int:
    return {"²": 2, "2": 2, "³": 3, "3": 3}.get(mark or "", 1)


@per_language(
    "measure",
    lambda language: (
        rf"{NUMBER_START}({SIGNED})(?:{LINKS[language]}({SIGNED}))? ?({SYMBOL[language]})"
        rf"{ROMANCE_POWER}(?:\.?/({SYMBOL[language]}){ROMANCE_POWER})?{DOT}(?![\w²³'])"
    ),
    weight=1.2,
    needs=lambda language: TABLES[language].UNITS,
)
def _romance_measure(language: str, match: re.Match[str]) -> v.Value | Found | None:
    written, until, symbol, power, per, per_power = match.groups()
    amount = parse_comma_number(written)
    if (
        until
        and re.search(" [aà] ", match[0])
        and int(amount.digits) >= int(parse_comma_number(until).digits)
    ):
        return None  # Vol 447 à 6 h.
    if symbol in _DOUBTFUL and not per:
        glued = not re.search(r"\d \D", match[0])
        if glued and symbol not in "VWLA" or _SEATED.search(before(match)):
            return None
        if symbol in "BKCFJNq" and (len(amount.digits) < 2 or symbol in "CF"):
            return None
    counted: v.Number | v.Range = amount
    if until:
        counted = v.Range(amount, parse_comma_number(until), link_range(language, match))
    value: v.Value = v.Measure(counted, find_unit(language, symbol), parse_power(power))
    if symbol.startswith("hab") and int(amount.digits) < 20 and language == "es" and not per:
        value = v.Measure(amount, "room")
    if per:
        value = v.Rate(value, find_unit(language, per), parse_power(per_power))
    return close(value, match, language, digits_follow=False)


def link_range(language: str, match: re.Match[str]) -> str:
    table = TABLES[language]
    return str(table.AND if word_before(match) == "entre" else table.TO)


@per_language(
    "measure",
    lambda language: (
        rf"(?<![\w/.])({SYMBOL[language]}){ROMANCE_POWER}\.?/"
        rf"({SYMBOL[language]}){ROMANCE_POWER}{DOT}(?![\w²³])"
    ),
    digits=False,
    needs="/",
)
def _romance_bare_rate(language: str, match: re.Match[str]) -> v.Value | Found | None:
    """A unit without a number: en kg/m³."""
    if len(match[0]) < 4 and match[0] != "m/s":
        return None
    unit, per = find_unit(language, match[1]), find_unit(language, match[3])
    value = v.Rate(v.Measure(None, unit, parse_power(match[2])), per, parse_power(match[4]))
    return close(value, match, language)


@per_language(
    "measure",
    lambda language: (
        rf"{NUMBER_START}({COMMA_NUMBER}) ?({SYMBOL[language]})"
        rf"/(\d+) ?({SYMBOL[language]})(?![\w²³])"
    ),
    needs="/", weight=1.5,
)  # fmt: skip
def _each_hundred(language: str, match: re.Match[str]) -> v.Value:
    first = v.Measure(parse_comma_number(match[1]), find_unit(language, match[2]))
    link = "cada" if language == "es" else "aux"
    return v.Phrase((first, link, v.Measure(v.Number(match[3]), find_unit(language, match[4]))))


_PART = rf"(\d/\d\d?|[{VULGAR}])"


def _fraction(whole: str | None, part: str) -> v.Fraction:
    above, below = FRACTIONS[part] if part in FRACTIONS else map(int, part.split("/"))
    return v.Fraction(above, below, int(whole.strip(" -")) if whole else None)


@per_language(
    "measure",
    lambda language: (
        rf"{NUMBER_START}(?:(\d{{1,3}})(?: | ?(?=[{VULGAR}])))?{_PART} ?({SYMBOL[language]}){DOT}"
        r"(?![\w'/])"
    ),
    needs="/" + VULGAR, weight=1.5,
)  # fmt: skip
def _part_of_unit(language: str, match: re.Match[str]) -> v.Value | Found | None:
    """Medio litro, trois quarts d'heure, dos kilos y medio."""
    if match[3] in _DOUBTFUL - {"L"}:
        return None
    value = v.Measure(_fraction(match[1], match[2]), find_unit(language, match[3]))
    return close(value, match, language, digits_follow=False)


@per_language(
    "measure",
    lambda language: (
        rf"{NUMBER_START}{_SIDE[language]} ?[x×] ?{_SIDE[language]}"
        rf"(?: ?[x×] ?{_SIDE[language]})?{DOT}(?![\w²³])"
    ),
    needs="x×", weight=1.3,
)  # fmt: skip
def _romance_dimensions(language: str, match: re.Match[str]) -> v.Value | Found | None:
    groups = match.groups()
    sides = [groups[place : place + 3] for place in (0, 3, 6) if groups[place]]
    if language == "fr" and re.fullmatch(r"4 ?[x×] ?4", match[0]):
        return v.Abbreviation("quatre-quatre")
    if len(sides) == 2 and not any(side[1] for side in sides):
        times = "por" if language == "es" else "fois"
        if match[0].endswith("."):
            return None
        return v.Range(parse_comma_number(sides[0][0]), parse_comma_number(sides[1][0]), times)
    parts = tuple(
        v.Measure(parse_comma_number(number), find_unit(language, symbol), parse_power(power))
        if symbol
        else parse_comma_number(number)
        for number, symbol, power in sides
    )
    if not sides[-1][1] and match[0].endswith("."):
        return Found(v.Dimensions(parts), end=match.end() - 1)
    return close(v.Dimensions(parts), match, language, digits_follow=False)


@per_language("measure", rf"{NUMBER_START}(\d)m(\d\d)(?!\w)", needs="m", weight=1.5)
def _romance_height(language: str, match: re.Match[str]) -> v.Value:
    """As people are measured: 1m80."""
    return v.Phrase((v.Measure(v.Number(match[1]), "length-meter"), v.Number(match[2])))


@per_language(
    "measure",
    rf"{NUMBER_START}(\d{{1,3}}) ?(?:'|ft\.?|pi\.?|pies|pieds) ?(?:(?:y|et) )?"
    r"(\d{1,2}(?:[.,]\d)?) ?(''|\"|in\b\.?|po\b\.?|pulg\b\.?)?(?!\w)",
    weight=1.4,
)  # fmt: skip
def _romance_feet(language: str, match: re.Match[str]) -> v.Value | Found | None:
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
    small = small and not 9 <= int(match[1]) < 60
    if small and marked and not timed:
        inches = v.Measure(parse_comma_number(match[2]), "length-inch")
        return v.Phrase((v.Measure(v.Number(match[1]), "length-foot"), inches))
    if len(match[1]) < 3 and len(match[2]) == 2 and match[2] < "60":
        return v.Phrase((v.Measure(v.Number(match[1]), "duration-minute"), v.Number(match[2])))
    return None


@per_language(
    "measure",
    rf"{NUMBER_START}(?:(\d{{1,3}}[ -])?{_PART}|({COMMA_NUMBER})) ?\"(?!\w)",
    needs='"',
    weight=1.3,
)
def _romance_inches(language: str, match: re.Match[str]) -> v.Value | None:
    """27" of a screen, where no quotation is open."""
    lead = re.sub(r"[\d½¼¾] ?\"", "", match.string[: match.start()])
    if lead.count('"') % 2:
        return None
    amount = parse_comma_number(match[3]) if match[3] else _fraction(match[1], match[2])
    return v.Measure(amount, "length-inch")


_COMPASS = {
    "es": {"N": "norte", "S": "sur", "E": "este", "O": "oeste", "W": "oeste"},
    "fr": {"N": "nord", "S": "sud", "E": "est", "O": "ouest", "W": "ouest"},
}


@per_language(
    "angle",
    rf"{NUMBER_START}({SIGNED}) ?[°º]"
    r"(?: ?(\d{1,2}) ?'(?: ?(\d{1,2}(?:[.,]\d+)?) ?(?:\"|''))?)?(?: ?([NSEOW])\b\.?)?",
    needs="°º", weight=1.1,
)  # fmt: skip
def _romance_degrees(language: str, match: re.Match[str]) -> v.Value | Found | None:
    amount = parse_comma_number(match[1])
    if not match[2] and not match[4]:
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
            return Found(
                v.Phrase((v.Measure(amount, "angle-degree"), v.Number(half[1]))),
                end=match.end() + 1,
            )
        measure = v.Measure(amount, "angle-degree")
        return v.Phrase((measure, "")) if rest[:1].isalnum() else measure
    parts: list[v.Value | str] = [v.Measure(amount, "angle-degree")]
    if match[2]:
        parts.append(v.Measure(v.Number(match[2].lstrip("0") or "0"), "duration-minute"))
    if match[3]:
        parts.append(v.Measure(parse_comma_number(match[3].lstrip("0") or "0"), "duration-second"))
    if match[4]:
        parts.append(_COMPASS[language][match[4]])
    return close(v.Phrase(tuple(parts)), match, language, digits_follow=False)


@per_language(
    "percent",
    lambda language: (
        rf"{NUMBER_START}(?:({SIGNED}) ?(%)?{LINKS[language]})?"
        rf"({OPTIONAL_MINUS}\+?{COMMA_NUMBER}) ?([%‰])"
    ),
    needs="%‰", weight=1.2,
)  # fmt: skip
def _romance_percent(language: str, match: re.Match[str]) -> v.Value:
    unit = "concentr-percent" if match[4] == "%" else "concentr-permille"
    last = parse_comma_number(match[3])
    if not match[1]:
        return v.Measure(last, unit)
    first: v.Value = parse_comma_number(match[1])
    if match[2] and language == "fr":
        return v.Range(v.Measure(parse_comma_number(match[1]), unit), v.Measure(last, unit), "à")
    return v.Measure(v.Range(first, last, link_range(language, match)), unit)
