"""Spanish and French measures, percentages and sums of money.

A unit is named by its identifier in CLDR (`length-kilometer`), or by a word of its own where CLDR
has none; a currency by its ISO code.
"""

from __future__ import annotations

import re

from anyrig.text.recognizers import Found
from anyrig.text.recognizers.common import FRACTIONS, VULGAR, LazyPattern
from anyrig.text.recognizers.romance.forms import (
    BEFORE,
    DASH,
    DOT,
    MINUS,
    NUMBER,
    close,
    one_of,
    parse_number,
    romance,
    text_after,
    text_before,
    word_before,
)
from anyrig.text.recognizers.romance.numbers import is_degrees
from anyrig.text.recognizers.romance.units import PER_WORDS, SCALES, SIGNS, UNITS
from anyrig.text.values import (
    Abbreviation,
    Dimensions,
    Fraction,
    Measure,
    Money,
    Number,
    Phrase,
    Range,
    Rate,
    Value,
)

# Letters that name seats, classes and models more often than they measure.
_DOUBTFUL = frozenset("A B C F J K N V W L t o j q p. pp.".split())
_SEATED = LazyPattern(
    r"\b(?:asientos?|fila|piso|planta|puerta|letra|aula|clase|grupo|curso|portal|escalera|bloque|"
    r"tipo|talla|sièges?|place|rang|étage|porte|salle|groupe|bâtiment|bloc|taille|type|voie|ligne|"
    r"renault|citroën|peugeot|la|une|sa|ma) $",
    re.IGNORECASE,
)  # fmt: skip
_SYMBOL = {
    language: rf"(?:{one_of(units).replace(chr(92) + ' ', ' ?')})"
    for language, units in UNITS.items()
}
_POWER = r"([²³]|(?<=m)[23](?!\w))?"
_SIDE = {language: rf"({NUMBER})(?: ?({symbol}){_POWER})?" for language, symbol in _SYMBOL.items()}
_TO = {"es": rf"(?:{DASH}| a )", "fr": rf"(?:{DASH}| à )"}


def _unit(language: str, symbol: str) -> str:
    units = UNITS[language]
    compact = symbol.replace(" ", "")
    return units.get(symbol) or next(
        unit for key, unit in units.items() if key.replace(" ", "") == compact
    )


def _power(mark: str | None) -> int:
    return {"²": 2, "2": 2, "³": 3, "3": 3}.get(mark or "", 1)


@romance(
    "measure",
    lambda language: (
        rf"{BEFORE}({MINUS}{NUMBER})(?:{_TO[language]}({MINUS}{NUMBER}))? ?({_SYMBOL[language]})"
        rf"{_POWER}(?:\.?/({_SYMBOL[language]}){_POWER})?{DOT}(?![\w²³'])"
    ),
    weight=1.2,
    digits=True,
    needs=lambda language: UNITS[language],
)
def _measure(language: str, match: re.Match[str]) -> Value | Found | None:
    written, until, symbol, power, per, per_power = match.groups()
    amount = parse_number(written)
    if (
        until
        and re.search(" [aà] ", match[0])
        and int(amount.digits) >= int(parse_number(until).digits)
    ):
        return None  # Vol 447 à 6 h.
    if symbol in _DOUBTFUL and not per:
        glued = not re.search(r"\d \D", match[0])
        if glued and symbol not in "VWLA" or _SEATED.search(text_before(match)):
            return None
        if symbol in "BKCFJNq" and (len(amount.digits) < 2 or symbol in "CF"):
            return None
    value: Value = Measure(
        Range(amount, parse_number(until), _link(language, match)) if until else amount,
        _unit(language, symbol), _power(power),
    )  # fmt: skip
    if symbol.startswith("hab") and int(amount.digits) < 20 and language == "es" and not per:
        value = Measure(amount, "room")
    if per:
        value = Rate(value, _unit(language, per), _power(per_power))
    return close(value, match, language, digits_follow=False)


def _link(language: str, match: re.Match[str]) -> str:
    if word_before(match) == "entre":
        return "y" if language == "es" else "et"
    return "a" if language == "es" else "à"


@romance(
    "measure",
    lambda language: (
        rf"(?<![\w/.])({_SYMBOL[language]}){_POWER}\.?/({_SYMBOL[language]}){_POWER}{DOT}(?![\w²³])"
    ),
    needs="/",
)
def _bare_rate(language: str, match: re.Match[str]) -> Value | Found | None:
    """A unit without a number: en kg/m³."""
    if len(match[0]) < 4 and match[0] != "m/s":
        return None
    unit, per = _unit(language, match[1]), _unit(language, match[3])
    value = Rate(Measure(None, unit, _power(match[2])), per, _power(match[4]))
    return close(value, match, language)


@romance(
    "measure",
    lambda language: (
        rf"{BEFORE}({NUMBER}) ?({_SYMBOL[language]})/(\d+) ?({_SYMBOL[language]})(?![\w²³])"
    ),
    needs="/", weight=1.5,
)  # fmt: skip
def _each_hundred(language: str, match: re.Match[str]) -> Value:
    first = Measure(parse_number(match[1]), _unit(language, match[2]))
    link = "cada" if language == "es" else "aux"
    return Phrase((first, link, Measure(Number(match[3]), _unit(language, match[4]))))


_PART = rf"(\d/\d\d?|[{VULGAR}])"


def _fraction(whole: str | None, part: str) -> Fraction:
    above, below = FRACTIONS[part] if part in FRACTIONS else map(int, part.split("/"))
    return Fraction(above, below, int(whole.strip(" -")) if whole else None)


@romance(
    "measure",
    lambda language: (
        rf"{BEFORE}(?:(\d{{1,3}})(?: | ?(?=[{VULGAR}])))?{_PART} ?({_SYMBOL[language]}){DOT}"
        r"(?![\w'/])"
    ),
    needs="/" + VULGAR, weight=1.5,
)  # fmt: skip
def _part_of_unit(language: str, match: re.Match[str]) -> Value | Found | None:
    """Medio litro, trois quarts d'heure, dos kilos y medio."""
    if match[3] in _DOUBTFUL - {"L"}:
        return None
    value = Measure(_fraction(match[1], match[2]), _unit(language, match[3]))
    return close(value, match, language, digits_follow=False)


@romance(
    "measure",
    lambda language: (
        rf"{BEFORE}{_SIDE[language]} ?[x×] ?{_SIDE[language]}"
        rf"(?: ?[x×] ?{_SIDE[language]})?{DOT}(?![\w²³])"
    ),
    needs="x×", weight=1.3,
)  # fmt: skip
def _dimensions(language: str, match: re.Match[str]) -> Value | Found | None:
    groups = match.groups()
    sides = [groups[place : place + 3] for place in (0, 3, 6) if groups[place]]
    if language == "fr" and re.fullmatch(r"4 ?[x×] ?4", match[0]):
        return Abbreviation("quatre-quatre")
    if len(sides) == 2 and not any(side[1] for side in sides):
        times = "por" if language == "es" else "fois"
        if match[0].endswith("."):
            return None
        return Range(parse_number(sides[0][0]), parse_number(sides[1][0]), times)
    parts = tuple(
        Measure(parse_number(number), _unit(language, symbol), _power(power))
        if symbol
        else parse_number(number)
        for number, symbol, power in sides
    )
    if not sides[-1][1] and match[0].endswith("."):
        return Found(Dimensions(parts), end=match.end() - 1)
    return close(Dimensions(parts), match, language, digits_follow=False)


@romance("measure", rf"{BEFORE}(\d)m(\d\d)(?!\w)", needs="m", weight=1.5)
def _height(language: str, match: re.Match[str]) -> Value:
    """As people are measured: 1m80."""
    return Phrase((Measure(Number(match[1]), "length-meter"), Number(match[2])))


@romance(
    "measure",
    rf"{BEFORE}(\d{{1,3}}) ?(?:'|ft\.?|pi\.?|pies|pieds) ?(?:(?:y|et) )?(\d{{1,2}}(?:[.,]\d)?)"
    r" ?(''|\"|in\b\.?|po\b\.?|pulg\b\.?)?(?!\w)",
    weight=1.4,
    digits=True,
)  # fmt: skip
def _feet(language: str, match: re.Match[str]) -> Value | Found | None:
    """5'11" of a person; 3'30 of a race."""
    marked = match[3] or ""
    link = re.search(r" (y|et) ", match[0])
    if "'" not in match[0].rstrip("'") or re.search("[a-z]", match[0]):
        if not re.match(r"in|po|pulg", marked):
            return None
        parts: tuple[Value | str, ...] = (Measure(Number(match[1]), "length-foot"),)
        parts += (link[1],) if link else ()
        value: Value = Phrase((*parts, Measure(parse_number(match[2]), "length-inch")))
        return close(value, match, language, digits_follow=False)
    timed = re.search(
        r"tiempo|temps|corr|cour|récord|record|tour|vuelta|chrono|minut|\ben $",
        text_before(match, 25).lower(),
    )
    small = float(match[2].replace(",", ".")) < 12 and match[2][0] != "0"
    small = small and not 9 <= int(match[1]) < 60
    if small and marked and not timed:
        return Phrase((
            Measure(Number(match[1]), "length-foot"), Measure(parse_number(match[2]), "length-inch")
        ))  # fmt: skip
    if len(match[1]) < 3 and len(match[2]) == 2 and match[2] < "60":
        return Phrase((Measure(Number(match[1]), "duration-minute"), Number(match[2])))
    return None


@romance(
    "measure", rf"{BEFORE}(?:(\d{{1,3}}[ -])?{_PART}|({NUMBER})) ?\"(?!\w)", needs='"', weight=1.3
)
def _inches(language: str, match: re.Match[str]) -> Value | None:
    """27" of a screen, where no quotation is open."""
    before = re.sub(r"[\d½¼¾] ?\"", "", match.string[: match.start()])
    if before.count('"') % 2:
        return None
    amount = parse_number(match[3]) if match[3] else _fraction(match[1], match[2])
    return Measure(amount, "length-inch")


# -- angles, temperatures, percentages -------------------------------------------------------------

_COMPASS = {
    "es": {"N": "norte", "S": "sur", "E": "este", "O": "oeste", "W": "oeste"},
    "fr": {"N": "nord", "S": "sud", "E": "est", "O": "ouest", "W": "ouest"},
}


@romance(
    "angle",
    rf"{BEFORE}({MINUS}{NUMBER}) ?[°º]"
    r"(?: ?(\d{1,2}) ?'(?: ?(\d{1,2}(?:[.,]\d+)?) ?(?:\"|''))?)?(?: ?([NSEOW])\b\.?)?",
    needs="°º", weight=1.1,
)  # fmt: skip
def _degrees(language: str, match: re.Match[str]) -> Value | Found | None:
    amount = parse_number(match[1])
    if not match[2] and not match[4]:
        if language == "es" and not amount.sign and not amount.decimals:
            noun = re.match(r" ?([a-záéíóú]{4,})", text_after(match))
            ordinal = "°" in match[0] and noun and not is_degrees(match, amount.digits)
            if ordinal or ("º" in match[0] and not is_degrees(match, amount.digits)):
                return None
        if language == "fr" and "º" in match[0] and word_before(match) in ("n", "le", "la"):
            return None
        after = text_after(match, 3)
        if re.match(r" ?[CFK]\b", after):
            return None
        if language == "fr" and (half := re.match(r"(\d)\b", after)):
            return Found(
                Phrase((Measure(amount, "angle-degree"), Number(half[1]))), end=match.end() + 1
            )
        return Phrase((Measure(amount, "angle-degree"), "")) if after[:1].isalnum() else Measure(
            amount, "angle-degree"
        )  # fmt: skip
    parts: list[Value | str] = [Measure(amount, "angle-degree")]
    if match[2]:
        parts.append(Measure(Number(match[2].lstrip("0") or "0"), "duration-minute"))
    if match[3]:
        parts.append(Measure(parse_number(match[3].lstrip("0") or "0"), "duration-second"))
    if match[4]:
        parts.append(_COMPASS[language][match[4]])
    return close(Phrase(tuple(parts)), match, language, digits_follow=False)


@romance(
    "percent",
    lambda language: (
        rf"{BEFORE}(?:({MINUS}{NUMBER}) ?(%)?{_TO[language]})?({MINUS}\+?{NUMBER}) ?([%‰])"
    ),
    needs="%‰", weight=1.2,
)  # fmt: skip
def _percent(language: str, match: re.Match[str]) -> Value:
    unit = "concentr-percent" if match[4] == "%" else "concentr-permille"
    last = parse_number(match[3])
    if not match[1]:
        return Measure(last, unit)
    first: Value = parse_number(match[1])
    if match[2] and language == "fr":
        return Range(Measure(parse_number(match[1]), unit), Measure(last, unit), "à")
    return Measure(Range(first, last, _link(language, match)), unit)


# -- money -----------------------------------------------------------------------------------------

_LEADING_SIGNS = {
    language: [sign for sign in signs if not (sign.isalpha() and sign.islower()) and sign not in
               ("F", "FF", "¢", "$CA", "$ CA", "₿")]
    for language, signs in SIGNS.items()
}  # fmt: skip
_PER = {language: rf"(?: ?/ ?({symbol}){_POWER}(?!\w))?" for language, symbol in _SYMBOL.items()}
# Behind a number with a sign in front, these say which dollars or pesos they are.
_CODES = "USD|MXN|ARS|COP|CLP|UYU|CAD|AUD|pesos"


def _scaled(language: str, number: str, scale: str | None) -> Number:
    return parse_number(number, SCALES[language][scale] if scale else 0)


def _money(
    language: str, amount: Number | Range, sign: str, per: str | None, power: str | None
) -> Value:
    sum_ = Money(amount, SIGNS[language][sign])
    return Rate(sum_, _unit(language, per), _power(power)) if per else sum_


@romance(
    "money",
    lambda language: (
        rf"{BEFORE}({MINUS}{NUMBER})(?:{_TO[language]}({NUMBER}))? ?(?:({one_of(SCALES[language])})"
        rf" ?(?:(?<=\w )de |(?<=\w )d')?)?({one_of(SIGNS[language])})(?![\w€$]){_PER[language]}"
    ),
    weight=1.4,
    digits=True,
    needs=lambda language: SIGNS[language],
)
def _money_after(language: str, match: re.Match[str]) -> Value | Found | None:
    number, until, scale, sign, per, power = match.groups()
    if text_before(match, 1) in ("$", "€", "£"):
        return None
    if sign in ("F", "Bs") and not re.search(r"\d ", match[0]):
        return None
    amount: Number | Range = _scaled(language, number, scale)
    if until:
        amount = Range(amount, _scaled(language, until, scale), _link(language, match))
    value = _money(language, amount, sign, per, power)
    return close(value, match, language) if sign.endswith(".") and not per else value


@romance(
    "money",
    lambda language: (
        rf"(?<![\w$])([-\u2212]?)({one_of(_LEADING_SIGNS[language])}) ?({NUMBER})"
        rf"(?: ?({one_of(SCALES[language])})(?!\w))?(?: (?:de )?({_CODES})(?!\w))?"
        rf"{_PER[language]}(?:\.[-\u2013\u2014])?(?!\w|[.,]\d)"
    ),
    weight=1.4,
    digits=True,
    needs=lambda language: SIGNS[language],
)
def _money_before(language: str, match: re.Match[str]) -> Value:
    minus, sign, number, scale, code, per, power = match.groups()
    amount = _scaled(language, minus + number, scale)
    return _money(language, amount, code if code in SIGNS[language] else sign, per, power)


@romance(
    "money",
    rf"{BEFORE}(\d+)(?: ?([€$£]) ?(\d\d)(?!\d| ?[\w%€])|'(\d\d) ?([€$£]))",
    needs="€$£",
    weight=1.5,
)
def _money_inside(language: str, match: re.Match[str]) -> Value:
    """As price tags have it: 3€50, 3'50 €."""
    cents, sign = match[3] or match[4], match[2] or match[5]
    return Money(Number(match[1], cents), SIGNS[language][sign])


@romance(
    "rate",
    lambda language: rf"(?<=[\w€$£.²]) ?/ ?({one_of(PER_WORDS[language])})(?!\w)",
    needs="/", weight=1.5,
)  # fmt: skip
def _each(language: str, match: re.Match[str]) -> Value:
    """Behind anything counted: 8 horas/día."""
    return Abbreviation(f" {PER_WORDS[language][match[1]]}")


RECOGNIZERS = (
    *_measure, *_bare_rate, *_each_hundred, *_part_of_unit, *_dimensions, *_height, *_feet,
    *_inches, *_degrees, *_percent, *_money_after, *_money_before, *_money_inside, *_each,
)  # fmt: skip
