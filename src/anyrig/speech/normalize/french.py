"""French words for values.

What was chosen where readers differ:
- telephone numbers in groups of two digits;
- "kilomètres par heure", "et cetera", sums with cents without "centimes" ("trois euros cinquante").
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
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
).split()
_WEEKDAYS = "lundi mardi mercredi jeudi vendredi samedi dimanche".split()
_LEADS = {"-": "moins ", "+": "plus ", "±": "plus ou moins ", "~": "environ "}
_SCALES = {3: "mille", 6: "million", 9: "milliard", 12: "billion"}
# Units that CLDR lacks, or calls by a name that nobody says.
_UNITS = {
    "inhabitant": "habitant", "person": "personne", "item": "unité", "page": "page",
    "quintal": "quintal", "cent": "centime", "tablet": "comprimé", "capsule": "gélule",
    "drop": "goutte", "vial": "ampoule", "length-hectometer": "hectomètre",
    "kilovolt": "kilovolt",
    "kilowatt-hour": "kilowattheure", "watt-hour": "wattheure", "megawatt-hour": "mégawattheure",
    "milliampere-hour": "milliampère-heure", "bar": "bar", "decibel": "décibel",
    "horsepower": "cheval", "megabit-per-second": "mégabit par seconde",
    "gigabit-per-second": "gigabit par seconde", "kilobit-per-second": "kilobit par seconde",
    "part-per-million": "partie par million", "turn-per-minute": "tour par minute", "year": "an",
    "point": "point", "kilobyte": "kilobyte", "megabyte": "mégabyte", "gigabyte": "gigabyte",
    "terabyte": "térabyte",
}  # fmt: skip
_FEMININE = re.compile(
    r"^(?:tonne|livre|once|heure|minute|seconde|milliseconde|nanoseconde|microseconde|calorie|"
    r"kilocalorie|partie|personne|page|unité|mole|cuillère|pinte|roupie|couronne|gélule|goutte|"
    r"ampoule)"
)
_CURRENCIES = {
    "EUR": "euro", "USD": "dollar", "GBP": "livre sterling", "JPY": "yen", "CHF": "franc suisse",
    "francs": "franc", "XOF": "franc CFA", "CAD": "dollar canadien", "AUD": "dollar australien",
    "MXN": "peso mexicain", "BRL": "réal brésilien", "CNY": "yuan", "INR": "roupie",
    "RUB": "rouble", "BTC": "bitcoin", "MAD": "dirham marocain", "TND": "dinar tunisien",
    "DZD": "dinar algérien", "SEK": "couronne suédoise", "¢": "cent", "KRW": "won",
    "ARS": "peso argentin", "COP": "peso colombien", "CLP": "peso chilien",
}  # fmt: skip
_COINS = {"GBP": ("penny", "pence"), "USD": ("cent", "cents"), "CAD": ("cent", "cents")}
_SIGNS = {
    "&": "et", "@": "arobase", "#": "dièse", "+": "plus", "=": "égale", "<": "inférieur à",
    ">": "supérieur à", "±": "plus ou moins", "×": "fois", "÷": "divisé par", "§": "paragraphe",
    "©": "copyright", "®": "marque déposée", "™": "marque déposée", "°": "degrés", "/": "slash",
    "→": "flèche", "←": "flèche gauche", "↑": "flèche haut", "↓": "flèche bas", "≈": "environ",
    "≠": "différent de", "≤": "inférieur ou égal à", "≥": "supérieur ou égal à",
    "√": "racine carrée de", "∞": "infini", "%": "pour cent", "‰": "pour mille",
    "€": "euros", "£": "livres sterling", "$": "dollars", "¥": "yens", "²": "au carré",
    "³": "au cube", "−": "moins", "*": "fois", "^": "puissance", "~": "environ",
    "_": "tiret bas", "\\": "antislash", "µ": "micro", "Ω": "ohms", "∑": "somme", "∆": "delta",
    "¶": "paragraphe", "⇒": "implique",
    "<=": "inférieur ou égal à", ">=": "supérieur ou égal à", "!=": "différent de", "==": "égale",
    "->": "flèche", "=>": "flèche", "¬": "non", "∈": "appartient à", "∅": "ensemble vide",
}  # fmt: skip
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
        (
            "alpha bêta gamma delta epsilon zêta êta thêta iota kappa lambda mu nu xi "
            "omicron pi rhô sigma tau upsilon phi chi psi oméga gamma delta thêta lambda "
            "xi pi sigma phi psi oméga"
        ).split(),
        strict=True,
    )
)
_WEB_SIGNS = {
    ".": "point", "@": "arobase", "/": "slash", "-": "tiret", "_": "tiret bas", ":": "deux points",
    "?": "point d'interrogation", "=": "égale", "&": "et", "+": "plus", "#": "dièse",
    "%": "pour cent", "~": "tilde", "\\": "antislash",
}  # fmt: skip


def speak(value: Value) -> str:
    """The words for a value."""
    return _SPEAKERS[type(value)](value)


# -- numbers ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def cardinal(number: int, gender: str = "") -> str:
    """`vingt et un`, before a feminine noun `vingt et une`."""
    from num2words import num2words

    words: str = num2words(number, lang="fr")
    return re.sub(r"\bun$", "une", words) if gender == "f" else words


def label(number: int) -> str:
    """A number that names and does not count: page quatre-vingt, les années quatre-vingt."""
    return re.sub(r"(vingt|cent)s$", r"\1", cardinal(number))


def digits(written: str) -> str:
    return " ".join(cardinal(int(digit)) for digit in written if digit.isdecimal())


def digit_group(written: str) -> str:
    """A group of a telephone number: zéro un, vingt-trois."""
    if written.startswith("0") and len(written) > 1:
        return f"zéro {digit_group(written[1:])}"
    return cardinal(int(written)) if len(written) <= 3 else digits(written)


def number(value: Number, gender: str = "") -> str:
    """A count with its sign, decimals and scale: `moins douze virgule cinq`, `trois millions`."""
    gender = gender or value.gender
    if value.scale == 3 and value.digits == "1" and not value.decimals:
        return "mille"
    if value.decimals:
        words = f"{_whole(value.digits)} virgule {decimals(value.decimals)}"
    else:
        words = _whole(value.digits, "" if value.scale else gender)
    if value.scale == 3:
        words = re.sub(r"(vingt|cent)s$", r"\1", words)  # deux cent mille
    if value.scale:
        plural = "s" if _is_plural(value) and value.scale != 3 else ""
        words = f"{words} {_SCALES[value.scale]}{plural}"
    return f"{_LEADS.get(value.sign, '')}{words}"


def _whole(written: str, gender: str = "") -> str:
    if len(written) > 15 or (len(written) > 1 and written[0] == "0"):
        return digits(written)
    return cardinal(int(written or "0"), gender)


def _is_plural(amount: Number) -> bool:
    """From two on; one and a half is still singular."""
    return int(amount.digits) >= 2


def decimals(written: str) -> str:
    """Up to three digits are read as a number, more one by one; leading zeros are said."""
    rest = written.lstrip("0")
    if len(rest) > 3 or not rest:
        return digits(written)
    return " ".join(["zéro"] * (len(written) - len(rest)) + [cardinal(int(rest))])


def ordinal(number: int, gender: str = "") -> str:
    """`premier`, `première`, `vingt et unième`, `quatre-vingtième`."""
    if number == 1:
        return "première" if gender == "f" else "premier"
    words = label(number)
    words = re.sub(r"(million|milliard)s$", r"\1", words)
    if words.endswith("cinq"):
        return f"{words}uième"
    if words.endswith("neuf"):
        return f"{words[:-1]}vième"
    return f"{words.removesuffix('e')}ième"


def _fraction(value: Fraction) -> str:
    lead = _LEADS.get(value.sign, "")
    if value.style == "over" or value.below < 2:
        words = f"{cardinal(value.above)} sur {cardinal(value.below)}"
    else:
        part = {2: "demi", 3: "tiers", 4: "quart"}.get(value.below) or ordinal(value.below)
        many = "s" if value.above > 1 and not part.endswith("s") else ""
        words = f"{cardinal(value.above)} {part}{many}"
    if value.style == "bare":
        words = words.removeprefix("un ")
    return f"{lead}{cardinal(value.whole)} et {words}" if value.whole is not None else lead + words


def _version_part(written: str) -> str:
    return digits(written) if written[0] == "0" else _whole(written)


def _digits_and_letters(group: str) -> str:
    parts = re.findall(r"\d+|[^\W\d_]+", group)
    return " ".join(digits(part) if part.isdecimal() else spell(part) for part in parts)


def _grouped_digits(value: Digits) -> str:
    say = digit_group if value.by_group else _digits_and_letters
    groups = ", ".join(map(say, value.groups))
    return f"plus {groups}" if value.plus else groups


def _label(value: Label) -> str:
    spelled = value.digits.startswith("0") or len(value.digits) > 15
    return digits(value.digits) if spelled else label(int(value.digits))


def _power(value: Power) -> str:
    base = value.base if isinstance(value.base, str) else speak(value.base)
    exponent = {"2": "au carré", "3": "au cube"}.get(value.exponent)
    if not exponent:
        sign = "-" if value.exponent.startswith(("-", "−")) else ""
        exponent = f"puissance {number(Number(value.exponent.lstrip('-−+'), sign=sign))}"
    factor = f"{number(value.factor)} fois " if value.factor else ""
    return f"{factor}{base} {exponent}"


# -- dates and times -------------------------------------------------------------------------------


def _date(value: Date) -> str:
    words = _MONTHS[value.month - 1]
    if value.day:
        words = f"{'premier' if value.day == 1 else cardinal(value.day)} {words}"
    if value.weekday is not None:
        words = f"{_WEEKDAYS[value.weekday]} {words}"
    return words if value.year is None else f"{words} {cardinal(value.year)}"


def _time(value: Time) -> str:
    if value.second is not None:
        return _duration(Duration(value.hour, value.minute, value.second))
    words = f"{cardinal(value.hour, 'f')} heure{'s' if value.hour > 1 else ''}"
    if not value.minute:
        return words
    feminine = "f" if value.minute % 10 == 1 and value.minute != 11 else ""
    return f"{words} {cardinal(value.minute, feminine)}"


def _duration(value: Duration) -> str:
    counts = ((value.hours, "heure"), (value.minutes, "minute"), (value.seconds, "seconde"))
    return " ".join(
        f"{cardinal(count, 'f')} {noun}{'s' if count > 1 else ''}"
        for count, noun in counts
        if count is not None
    )


# -- measures and money ----------------------------------------------------------------------------


def _inflect(phrase: str) -> tuple[str, str, str]:
    """Singular, plural and gender of a noun and the adjective behind it."""
    noun, space, rest = phrase.partition(" ")
    gender = "f" if _FEMININE.match(phrase) or noun == "livre" else "m"
    adjective = rest and not rest.startswith(("par ", "CFA", "sterling"))
    many = noun.replace("-", "s-") if "-" in noun else _plural(noun)
    return phrase, f"{many}{space}{_plural(rest) if adjective else rest}", gender


def _plural(word: str) -> str:
    if word.endswith(("al",)) and word not in ("pascal", "quintal"):
        return f"{word[:-2]}aux"
    return word if word.endswith("s") else f"{word}s"


def _unit_noun(unit: str, power: int = 1) -> tuple[str, str, str]:
    one, many, gender = (
        _inflect(_UNITS[unit]) if unit in _UNITS else name_unit(unit, "fr", _GRAMMAR)
    )
    if power == 2:
        one, many = f"{one} carré{'e' if gender == 'f' else ''}", f"{many} carrés"
    return (f"{one} cube", f"{many} cubes", gender) if power == 3 else (one, many, gender)


def _with_de(noun: str) -> str:
    """`d'euros`, `de dollars`."""
    return f"d'{noun}" if noun[0] in "aeiouéh" else f"de {noun}"


def _counted(amount: Number, noun: tuple[str, str, str]) -> str:
    one, many, gender = noun
    if amount.scale:
        return f"{number(amount)} {many if amount.scale == 3 else _with_de(many)}"
    words = many if _is_plural(amount) else one
    whole = int(amount.digits) if not amount.decimals and len(amount.digits) <= 15 else 0
    if whole and whole % 1_000_000 == 0:
        words = _with_de(words)
    return f"{number(amount, gender)} {words}"


def _measure(value: Measure) -> str:
    if value.unit.startswith("concentr-per"):
        words = "pour cent" if value.unit.endswith("percent") else "pour mille"
        return f"{speak(value.amount)} {words}" if value.amount else words
    noun = _unit_noun(value.unit, value.power)
    match value.amount:
        case Range(first, last, link) if isinstance(first, Number) and isinstance(last, Number):
            return f"{number(first, noun[2])} {link or 'à'} {_counted(last, noun)}"
        case Fraction(above, below, whole):
            if whole is not None:
                half = "demie" if noun[2] == "f" else "demi"
                part = half if (above, below) == (1, 2) else _fraction(Fraction(above, below))
                return f"{_counted(Number(str(whole)), noun)} et {part}"
            if (above, below) == (1, 2):
                return f"{'une' if noun[2] == 'f' else 'un'} demi-{noun[0]}"
            return f"{_fraction(Fraction(above, below))} {_with_de(noun[0])}"
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
        return f"{number(first)} {amount.link or 'à'} {_money(Money(last, value.currency))}"
    assert isinstance(amount, Number)
    if amount.scale or not amount.decimals or len(amount.decimals) > 2:
        return _counted(amount, noun)
    whole = Number(amount.digits, sign=amount.sign)
    cents = int(amount.decimals.ljust(2, "0"))
    if not cents:
        return _counted(whole, noun)
    if not int(amount.digits):
        coin, coins = _COINS.get(value.currency, ("centime", "centimes"))
        return f"{_LEADS.get(amount.sign, '')}{cardinal(cents)} {coin if cents == 1 else coins}"
    return f"{_counted(whole, noun)} {cardinal(cents)}"


_GRAMMAR = Grammar(
    cardinal=cardinal, digits=digits, spoken_letters=frozenset(), feminine_units=_FEMININE,
    min_spelled=3,
)  # fmt: skip

_SPEAKERS: dict[type, Callable[[Any], str]] = {
    Number: number,
    Label: _label,
    Year: lambda value: label(value.number),
    Decade: lambda value: label(value.number),
    Ordinal: lambda value: ordinal(value.number, value.gender) + ("s" if value.plural else ""),
    Roman: lambda value: (ordinal if value.ordinal else cardinal)(value.number),
    Fraction: _fraction,
    Date: _date,
    Time: _time,
    Duration: _duration,
    Money: _money,
    Measure: _measure,
    Rate: lambda value: f"{speak(value.amount)} par {_unit_noun(value.per, value.power)[0]}",
    Range: lambda value: f"{speak(value.first)} {value.link or 'à'} {speak(value.last)}",
    Score: lambda value: " à ".join(map(number, value.numbers)),
    Dimensions: lambda value: " sur ".join(map(speak, value.parts)),
    Digits: _grouped_digits,
    Version: lambda value: " point ".join(map(_version_part, value.parts)),
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
