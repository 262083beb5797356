"""Spanish words for values.

What was chosen where readers differ:
- kings and centuries up to the tenth by ordinals, later ones by cardinals;
- times as people say them up to twelve ("nueve y cuarto"), by the clock of 24 hours where they are
  written so ("catorce cero cinco");
- telephone numbers digit by digit; percentages without agreement ("veintiuno por ciento").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from anyrig.speech.normalize import spell
from anyrig.speech.normalize.romance import (
    Grammar,
    join_phrase,
    name_unit,
    speak_formula,
    speak_web,
)
from anyrig.text.values import (
    Abbreviation,
    Date,
    Decade,
    Digits,
    Dimensions,
    Duration,
    Formula,
    Fraction,
    Identifier,
    Label,
    Letters,
    Measure,
    Money,
    Number,
    Ordinal,
    Phrase,
    Power,
    Range,
    Rate,
    Roman,
    Score,
    Sign,
    Silence,
    Time,
    Value,
    Version,
    Web,
    Year,
)

_MONTHS = (
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
).split()
_WEEKDAYS = "lunes martes miércoles jueves viernes sábado domingo".split()
_ORDINAL_UNITS = "primero segundo tercero cuarto quinto sexto séptimo octavo noveno".split()
_ORDINAL_TEENS = (
    "décimo undécimo duodécimo decimotercero decimocuarto decimoquinto decimosexto decimoséptimo "
    "decimoctavo decimonoveno"
).split()
_ORDINAL_TENS = (
    "vigésimo trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo nonagésimo"
).split()
_ORDINAL_HUNDREDS = (
    "centésimo ducentésimo tricentésimo cuadringentésimo quingentésimo sexcentésimo "
    "septingentésimo octingentésimo noningentésimo"
).split()
_PARTS = {
    2: "medio", 3: "tercio", 4: "cuarto", 5: "quinto", 6: "sexto", 7: "séptimo", 8: "octavo",
    9: "noveno", 10: "décimo", 100: "centésimo", 1000: "milésimo", 1_000_000: "millonésimo",
}  # fmt: skip
_LEADS = {"-": "menos ", "+": "más ", "±": "más menos ", "~": "aproximadamente "}
_SCALES = {3: ("mil", "mil"), 6: ("millón", "millones"), 9: ("mil millones", "mil millones"),
           12: ("billón", "billones")}  # fmt: skip
# Units that CLDR lacks, or calls by a name that nobody says.
_UNITS = {
    "inhabitant": "habitante", "person": "persona", "item": "unidad", "page": "página",
    "room": "habitación", "quintal": "quintal", "cent": "céntimo", "tablet": "comprimido",
    "capsule": "cápsula",
    "drop": "gota", "vial": "ampolla",
    "length-hectometer": "hectómetro",
    "kilovolt": "kilovoltio", "kilowatt-hour": "kilovatio hora", "watt-hour": "vatio hora",
    "megawatt-hour": "megavatio hora", "milliampere-hour": "miliamperio hora", "bar": "bar",
    "decibel": "decibelio", "horsepower": "caballo", "megabit-per-second": "megabit por segundo",
    "gigabit-per-second": "gigabit por segundo", "kilobit-per-second": "kilobit por segundo",
    "part-per-million": "parte por millón", "revolution-per-minute": "revolución por minuto",
    "frame-per-second": "fotograma por segundo", "year": "año", "light-lux": "lux",
    "meter-above-sea": "metro sobre el nivel del mar",
}  # fmt: skip
_CURRENCIES = {
    "EUR": "euro", "USD": "dólar", "GBP": "libra", "JPY": "yen", "CHF": "franco suizo",
    "MXN": "peso mexicano", "ARS": "peso argentino", "COP": "peso colombiano",
    "CLP": "peso chileno", "PEN": "sol", "UYU": "peso uruguayo", "BRL": "real brasileño",
    "CNY": "yuan", "INR": "rupia", "RUB": "rublo", "BTC": "bitcoin", "CAD": "dólar canadiense",
    "AUD": "dólar australiano", "pesos": "peso", "¢": "centavo", "BOB": "boliviano",
    "CRC": "colón", "KRW": "won", "ESP": "peseta", "SEK": "corona sueca",
}  # fmt: skip
_COINS = {"EUR": "céntimo", "GBP": "penique", "PEN": "céntimo", "CHF": "céntimo"}
_SIGNS = {
    "&": "y", "@": "arroba", "#": "almohadilla", "+": "más", "=": "igual a", "<": "menor que",
    ">": "mayor que", "±": "más menos", "×": "por", "÷": "entre", "§": "párrafo", "©": "copyright",
    "®": "marca registrada", "™": "marca registrada", "°": "grados", "/": "barra", "→": "flecha",
    "←": "flecha izquierda", "↑": "flecha arriba", "↓": "flecha abajo", "≈": "aproximadamente",
    "≠": "distinto de", "≤": "menor o igual que", "≥": "mayor o igual que", "√": "raíz cuadrada de",
    "∞": "infinito", "%": "por ciento", "‰": "por mil", "€": "euros", "£": "libras",
    "$": "dólares", "¥": "yenes", "²": "al cuadrado", "³": "al cubo", "−": "menos", "*": "por",
    "^": "elevado a", "~": "aproximadamente", "_": "guion bajo", "\\": "barra invertida",
    "µ": "micro", "Ω": "ohmios", "∑": "suma", "∆": "delta",
    "¶": "párrafo", "⇒": "implica", "<=": "menor o igual que", ">=": "mayor o igual que",
    "!=": "distinto de", "==": "igual a", "->": "flecha", "=>": "flecha", "¬": "no",
    "∈": "pertenece a", "∅": "conjunto vacío",
}  # fmt: skip
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
        (
            "alfa beta gamma delta épsilon dseta eta zeta iota kappa lambda mi ni xi "
            "ómicron pi ro sigma tau ípsilon fi ji psi omega gamma delta zeta lambda xi pi "
            "sigma fi psi omega"
        ).split(),
        strict=True,
    )
)
_WEB_SIGNS = {
    ".": "punto", "@": "arroba", "/": "barra", "-": "guion", "_": "guion bajo", ":": "dos puntos",
    "?": "interrogación", "=": "igual", "&": "y", "+": "más", "#": "almohadilla",
    "%": "por ciento", "~": "virgulilla", "\\": "barra invertida",
}  # fmt: skip


def speak(value: Value) -> str:
    """The words for a value."""
    return _SPEAKERS[type(value)](value)


# -- numbers ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def cardinal(number: int, gender: str = "") -> str:
    """`veintiuno`; before a noun `veintiún` or `veintiuna`."""
    from num2words import num2words

    words: str = num2words(number, lang="es")
    # num2words says "veintiuno mil".
    words = re.sub(r"veintiuno(?= (?:mil|\w+ill))", "veintiún", words)
    words = re.sub(r"\buno(?= (?:mil|\w+ill))", "un", words)
    if gender == "m":
        return re.sub(r"\buno$", "un", re.sub(r"veintiuno$", "veintiún", words))
    if gender == "f":
        # Only what follows the millions agrees with the noun.
        head, million, rest = re.split(r"( mill(?:ones|ón)(?!.*mill))|^", words, maxsplit=1)[-3:]
        rest = re.sub(r"(cient|quinient)os\b", r"\1as", rest)
        rest = re.sub(r"veintiún(?= mil)", "veintiuna", re.sub(r"uno$", "una", rest))
        return f"{head}{million or ''}{re.sub(r' un(?= mil)', ' una', rest)}"
    return words


def digits(written: str) -> str:
    return " ".join(cardinal(int(digit)) for digit in written if digit.isdecimal())


def number(value: Number, gender: str = "") -> str:
    """A count with its sign, decimals and scale: `menos doce coma cinco`, `tres millones`."""
    gender = gender or value.gender
    one, many = _SCALES.get(value.scale, ("", ""))
    single = value.digits == "1" and not value.decimals
    if value.scale == 3 and single:
        return "mil"
    if value.decimals:
        mark = "punto" if value.point else "coma"
        words = f"{_whole(value.digits)} {mark} {decimals(value.decimals)}"
    else:
        words = _whole(value.digits, "m" if value.scale else gender)
    return f"{_LEADS.get(value.sign, '')}{words} {one if single else many}".rstrip()


def _whole(written: str, gender: str = "") -> str:
    if len(written) > 15 or (len(written) > 1 and written[0] == "0"):
        return digits(written)
    return cardinal(int(written or "0"), gender)


def decimals(written: str) -> str:
    """Up to three digits are read as a number, more one by one; leading zeros are said."""
    rest = written.lstrip("0")
    if len(rest) > 3 or not rest:
        return digits(written)
    return " ".join(["cero"] * (len(written) - len(rest)) + [cardinal(int(rest))])


def ordinal(number: int, gender: str = "") -> str:
    """`primero`, `decimotercera`; `primer`, `tercer` before a masculine noun."""
    if not 0 < number < 1000:
        return cardinal(number)
    words = []
    hundreds, rest = divmod(number, 100)
    if hundreds:
        words.append(_ORDINAL_HUNDREDS[hundreds - 1])
    if 10 <= rest < 20:
        words.append(_ORDINAL_TEENS[rest - 10])
    else:
        tens, units = divmod(rest, 10)
        words += [_ORDINAL_TENS[tens - 2]] if tens else []
        words += [_ORDINAL_UNITS[units - 1]] if units else []
    if gender == "f":
        return " ".join(f"{word[:-1]}a" for word in words)
    joined = " ".join(words)
    return re.sub(r"(primer|tercer)o$", r"\1", joined) if gender == "m" else joined


def _fraction(value: Fraction) -> str:
    lead = _LEADS.get(value.sign, "")
    if value.style == "over":
        words = f"{cardinal(value.above)} sobre {cardinal(value.below)}"
    else:
        words = _parts(value.above, value.below)
    if value.style == "bare":
        words = words.removeprefix("un ")
    return f"{lead}{cardinal(value.whole)} y {words}" if value.whole is not None else lead + words


def _parts(above: int, below: int) -> str:
    """`tres cuartos`, `un onceavo`, `dos sobre ciento veinte`."""
    part = _PARTS.get(below, "")
    if not part and 11 <= below <= 99:
        stem = cardinal(below).replace(" y ", "i").translate(str.maketrans("éó", "eo"))
        part = f"{re.sub('uno$', 'un', stem).removesuffix('a')}avo"
    if not part:
        return f"{cardinal(above)} sobre {cardinal(below)}"
    return f"{cardinal(above, 'm')} {part}{'' if above == 1 else 's'}"


def _version_part(written: str) -> str:
    return digits(written) if len(written) > 1 and written[0] == "0" else _whole(written)


def _digits_and_letters(group: str) -> str:
    parts = re.findall(r"\d+|[^\W\d_]+", group)
    return " ".join(digits(part) if part.isdecimal() else spell(part) for part in parts)


def _grouped_digits(value: Digits) -> str:
    groups = ", ".join(map(_digits_and_letters, value.groups))
    return f"más {groups}" if value.plus else groups


def _power(value: Power) -> str:
    base = value.base if isinstance(value.base, str) else speak(value.base)
    exponent = {"2": "al cuadrado", "3": "al cubo"}.get(value.exponent)
    if not exponent:
        sign = "-" if value.exponent.startswith(("-", "−")) else ""
        exponent = f"elevado a {number(Number(value.exponent.lstrip('-−+'), sign=sign))}"
    factor = f"{number(value.factor)} por " if value.factor else ""
    return f"{factor}{base} {exponent}"


# -- dates and times -------------------------------------------------------------------------------


def _date(value: Date) -> str:
    words = _MONTHS[value.month - 1]
    if value.day:
        words = f"{cardinal(value.day)} de {words}"
    if value.weekday is not None:
        words = f"{_WEEKDAYS[value.weekday]} {words}"
    if value.year is None:
        return words
    return f"{words} {'del' if value.article else 'de'} {cardinal(value.year)}"


def _time(value: Time) -> str:
    if value.style.startswith("railway"):
        words = cardinal(value.hour, "f")
        if value.minute:
            words += f" {'cero ' if value.minute < 10 else ''}{cardinal(value.minute)}"
    else:
        words = _clock(value.hour, value.minute)
    if value.style.endswith("hours"):
        words += " hora" if value.hour == 1 and not value.minute else " horas"
    if value.half:
        words += f" {_part_of_day(value.hour, value.half == 'p')}"
    return words


def _clock(hour: int, minute: int) -> str:
    """As people say it: `nueve y cuarto`, `diez y media`, `diez cuarenta y cinco`."""
    words = cardinal(hour, "f")
    if not minute:
        return words
    if named := {15: "y cuarto", 30: "y media"}.get(minute):
        return f"{words} {named}"
    return f"{words} {'y ' if minute < 30 else ''}{cardinal(minute)}"


def _part_of_day(hour: int, afternoon: bool) -> str:
    if afternoon:
        if hour == 12:
            return "del mediodía"
        return "de la noche" if 8 <= hour <= 11 or hour > 20 else "de la tarde"
    return "de la noche" if hour == 12 else "de la mañana"


def _duration(value: Duration) -> str:
    parts = [
        _counted(Number(str(count)), (noun, f"{noun}s", gender))
        for count, noun, gender in (
            (value.hours, "hora", "f"), (value.minutes, "minuto", "m"),
            (value.seconds, "segundo", "m"),
        )
        if count is not None
    ]  # fmt: skip
    if len(parts) == 3:
        return f"{parts[0]} {parts[1]} y {parts[2]}"
    return " ".join(parts)


# -- measures and money ----------------------------------------------------------------------------


def _inflect(phrase: str) -> tuple[str, str, str]:
    """Singular, plural and gender of a noun and the adjective behind it."""
    noun, space, rest = phrase.partition(" ")
    gender = "f" if re.search(r"a$|dad$|ción$", noun) else "m"
    adjective = rest and not rest.startswith(("por ", "de ", "hora", "sobre "))
    return phrase, f"{_plural(noun)}{space}{_plural(rest) if adjective else rest}", gender


def _plural(word: str) -> str:
    if word.endswith("x"):
        return word
    if word.endswith(("ón", "ión")):
        return f"{word[:-2]}ones"
    if word[-1] in "aeo" or word.endswith(("bit", "bitcoin")):
        return f"{word}s"
    return f"{word}es"


def _unit_noun(unit: str, power: int = 1) -> tuple[str, str, str]:
    one, many, gender = (
        _inflect(_UNITS[unit]) if unit in _UNITS else name_unit(unit, "es", _GRAMMAR)
    )
    if power > 1 and unit.startswith("duration"):
        return f"{one} al cuadrado", f"{many} al cuadrado", gender
    if power > 1:
        kind = "cuadrad" if power == 2 else "cúbic"
        ending = "a" if gender == "f" else "o"
        one, many = f"{one} {kind}{ending}", f"{many} {kind}{ending}s"
    return one, many, gender


def _counted(amount: Number, noun: tuple[str, str, str]) -> str:
    one, many, gender = noun
    words = many if not amount.is_one else one
    if amount.scale:
        link = "" if amount.scale == 3 else "de "
        return f"{number(amount)} {link}{many}"
    whole = int(amount.digits) if not amount.decimals and len(amount.digits) <= 15 else 0
    link = "de " if whole and whole % 1_000_000 == 0 else ""
    return f"{number(amount, gender)} {link}{words}"


def _measure(value: Measure) -> str:
    if value.unit.startswith("concentr-per"):
        words = "por ciento" if value.unit.endswith("percent") else "por mil"
        return f"{speak(value.amount)} {words}" if value.amount else words
    noun = _unit_noun(value.unit, value.power)
    match value.amount:
        case Range(first, last, link) if isinstance(first, Number) and isinstance(last, Number):
            return f"{number(first, noun[2])} {link or 'a'} {_counted(last, noun)}"
        case Fraction(above, below, whole):
            half = "media" if noun[2] == "f" else "medio"
            part = half if (above, below) == (1, 2) else _parts(above, below)
            if whole is not None:
                return f"{_counted(Number(str(whole)), noun)} y {part}"
            return f"{part} {noun[0]}" if part == half else f"{part} de {noun[0]}"
        case Number() as amount:
            return _counted(amount, noun)
    return noun[1]


def _money(value: Money) -> str:
    noun = _inflect(_CURRENCIES[value.currency])
    amount = value.amount
    if isinstance(amount, Range):
        first, last = amount.first, amount.last
        assert isinstance(first, Number)
        assert isinstance(last, Number)
        return f"{number(first)} {amount.link or 'a'} {_money(Money(last, value.currency))}"
    assert isinstance(amount, Number)
    if amount.scale or not amount.decimals or len(amount.decimals) > 2:
        return _counted(amount, noun)
    whole = Number(amount.digits, sign=amount.sign)
    cents = int(amount.decimals.ljust(2, "0"))
    if not cents:
        return _counted(whole, noun)
    coin = _inflect(_COINS.get(value.currency, "centavo"))
    small = _counted(Number(str(cents)), coin)
    if not int(amount.digits):
        return f"{_LEADS.get(amount.sign, '')}{small}"
    return f"{_counted(whole, noun)} con {small}"


_GRAMMAR = Grammar(
    cardinal=cardinal, digits=digits, spoken_letters=frozenset("MX FR CL BR DE".split()),
    feminine_units=re.compile(r"a(?: |$)|^(?:libra|onza|hora|tonelada)"),
)  # fmt: skip

_SPEAKERS: dict[type, Callable[[Any], str]] = {
    Number: number,
    Label: lambda value: _whole(value.digits),
    Year: lambda value: cardinal(value.number),
    Decade: lambda value: cardinal(value.number),
    Ordinal: lambda value: ordinal(value.number, value.gender) + ("s" if value.plural else ""),
    Roman: lambda value: (ordinal if value.ordinal else cardinal)(value.number),
    Fraction: _fraction,
    Date: _date,
    Time: _time,
    Duration: _duration,
    Money: _money,
    Measure: _measure,
    Rate: lambda value: f"{speak(value.amount)} por {_unit_noun(value.per, value.power)[0]}",
    Range: lambda value: f"{speak(value.first)} {value.link or 'a'} {speak(value.last)}",
    Score: lambda value: " a ".join(map(number, value.numbers)),
    Dimensions: lambda value: " por ".join(map(speak, value.parts)),
    Digits: _grouped_digits,
    Version: lambda value: " punto ".join(map(_version_part, value.parts)),
    Letters: lambda value: spell(value.letters) + value.suffix,
    Abbreviation: lambda value: value.words,
    Web: lambda value: speak_web(value.address, _WEB_SIGNS, _GRAMMAR),
    Identifier: lambda value: speak_web(value.name, _WEB_SIGNS, _GRAMMAR),
    Formula: lambda value: speak_formula(value, _GRAMMAR),
    Power: _power,
    Sign: lambda value: _SIGNS.get(value.sign) or _GREEK.get(value.sign, ""),
    Silence: lambda value: " " if value.space else "",
    Phrase: lambda value: join_phrase(value, speak),
}
