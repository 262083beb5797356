"""English words for values, the American way where the ways differ.

What was chosen where readers differ:
- numbers with `and` ("one hundred and five"), years in pairs ("nineteen oh five", "two thousand
  seven");
- telephone numbers digit by digit with "zero", a rest after each group;
- web addresses from the host on, without the protocol;
- emoji and emoticons are left out: a reader of a book would not name them;
- names in code as the words they are made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from anyrig.speech.normalize import spell, split_exponent, words
from anyrig.text import values as v
from anyrig.text.recognizers.acronyms import is_word, spells_in_address
from anyrig.text.recognizers.languages import english

_SCALES = {
    2: "hundred", 3: "thousand", 5: "lakh", 6: "million", 7: "crore", 9: "billion", 12: "trillion",
}  # fmt: skip
_LEADS = {
    "-": "minus ", "+": "plus ", "±": "plus or minus ", "~": "approximately ", "<": "less than ",
    ">": "greater than ", "≤": "at most ", "≥": "at least ",
}  # fmt: skip
_PREFIXES = {
    "k": "kilo", "K": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta", "m": "milli",
    "µ": "micro", "n": "nano", "c": "centi", "d": "deci", "h": "hecto", "p": "pico",
    "E": "exa", "Ki": "kibi", "Mi": "mebi", "Gi": "gibi", "Ti": "tebi", "Pi": "pebi",
}  # fmt: skip
_UNITS = {
    "m": "meter", "g": "gram", "L": "liter", "W": "watt", "V": "volt", "A": "amp", "Hz": "hertz",
    "Wh": "watt hour", "Pa": "pascal", "J": "joule", "B": "byte", "b": "bit", "bit": "bit",
    "eV": "electron volt", "cal": "calorie", "Ah": "amp hour", "N": "newton", "s": "second",
    "mol": "mole", "Eq": "equivalent", "Osm": "osmole", "F": "farad",
    "Ω": "ohm", "t": "ton", "px": "pixel", "ft": "foot", "in": "inch",
    "yd": "yard", "mi": "mile", "lb": "pound", "oz": "ounce", "fl oz": "fluid ounce",
    "gal": "gallon", "qt": "quart", "pt": "pint", "point": "point", "tbsp": "tablespoon",
    "tsp": "teaspoon", "min": "minute", "h": "hour", "d": "day", "wk": "week", "mo": "month",
    "yr": "year", "hp": "horsepower", "dB": "decibel", "ha": "hectare", "ac": "acre",
    "sq ft": "square foot", "sq in": "square inch", "sq m": "square meter",
    "sq km": "square kilometer", "sq mi": "square mile", "sq yd": "square yard",
    "cu ft": "cubic foot", "cu m": "cubic meter", "cu in": "cubic inch",
    "cu yd": "cubic yard", "cu mi": "cubic mile", "cu cm": "cubic centimeter",
    "cu km": "cubic kilometer", "sq cm": "square centimeter", "cc": "cubic centimeter",
    "bbl": "barrel", "kn": "knot", "lm": "lumen", "lx": "lux", "ly": "light year",
    "AU": "astronomical unit", "ct": "carat", "mcg": "microgram", "K": "kelvin", "MP": "megapixel",
    "Nm": "newton meter", "Å": "angstrom", "IU": "international unit", "doz": "dozen",
    "pc": "piece", "ea": "each", "°": "degree", "tab": "tablet", "cup": "cup", "drop": "drop",
    "nmi": "nautical mile",
    "pax": "passenger", "bar": "bar", "Bq": "becquerel", "Sv": "sievert", "Gy": "gray",
    "Ci": "curie", "cd": "candela", "Da": "dalton", "atm": "atmosphere", "torr": "torr",
    "H": "henry", "T": "tesla", "C": "coulomb", "M": "molar", "U": "unit", "VA": "volt amp",
    "We": "watt electric", "Wt": "watt thermal", "Wth": "watt thermal", "Wp": "watt peak",
    "FLOPS": "flops", "cwt": "hundredweight", "BTU": spell("BTU"),
}  # fmt: skip
_RATES = {
    "mph": "miles per hour", "kph": "kilometers per hour", "mpg": "miles per gallon",
    "rpm": "revolutions per minute", "bpm": "beats per minute", "psi": "pounds per square inch",
    "fps": "frames per second", "dpi": "dots per inch", "ppi": "pixels per inch",
    "wpm": "words per minute", "ppm": "parts per million", "ppb": "parts per billion",
    "bps": "bits per second", "kbps": "kilobits per second", "Mbps": "megabits per second",
    "Gbps": "gigabits per second", "Tbps": "terabits per second", "lbf": "pounds of force",
    "cfm": "cubic feet per minute", "gpm": "gallons per minute", "gph": "gallons per hour",
    "gpd": "gallons per day", "MBps": "megabytes per second",
    "mmHg": "millimeters of mercury", "inHg": "inches of mercury", "ft-lb": "foot pounds",
    "in-lb": "inch pounds",
    "kgf": "kilograms of force", "%": "percent", "‰": "per mille", "°C": "degrees Celsius",
    "°F": "degrees Fahrenheit", "°K": "degrees Kelvin", "°N": "degrees north",
    "°S": "degrees south", "°E": "degrees east", "°W": "degrees west", "pp": "percentage points",
    "bp": "basis points",
}  # fmt: skip
_CURRENCIES: dict[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "USD": (f"{spell('US')} dollar", f"{spell('US')} dollars", "cent", "cents"),
    "AUD": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "HKD": ("Hong Kong dollar", "Hong Kong dollars", "cent", "cents"),
    "NZD": ("New Zealand dollar", "New Zealand dollars", "cent", "cents"),
    "SGD": ("Singapore dollar", "Singapore dollars", "cent", "cents"),
    "BRL": ("Brazilian real", "Brazilian reais", "centavo", "centavos"),
    "£": ("pound", "pounds", "penny", "pence"), "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""), "₹": ("rupee", "rupees", "paisa", "paise"),
    "₽": ("ruble", "rubles", "kopek", "kopeks"), "₩": ("won", "won", "", ""),
    "₺": ("lira", "lira", "", ""), "₪": ("shekel", "shekels", "", ""),
    "₫": ("dong", "dong", "", ""), "₴": ("hryvnia", "hryvnias", "", ""),
    "₦": ("naira", "naira", "", ""), "₱": ("peso", "pesos", "centavo", "centavos"),
    "฿": ("baht", "baht", "", ""), "₿": ("bitcoin", "bitcoins", "", ""),
    "GBP": ("British pound", "British pounds", "penny", "pence"),
    "JPY": ("Japanese yen", "Japanese yen", "", ""),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CNY": ("Chinese yuan", "Chinese yuan", "", ""), "RMB": ("yuan", "yuan", "", ""),
    "INR": ("Indian rupee", "Indian rupees", "paisa", "paise"),
    "MXN": ("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "SEK": ("Swedish krona", "Swedish kronor", "", ""),
    "NOK": ("Norwegian krone", "Norwegian kroner", "", ""),
    "DKK": ("Danish krone", "Danish kroner", "", ""), "kr": ("krone", "kroner", "", ""),
    "KRW": ("Korean won", "Korean won", "", ""), "zł": ("zloty", "zlotys", "", ""),
    "PLN": ("Polish zloty", "Polish zlotys", "", ""),
    "TRY": ("Turkish lira", "Turkish lira", "", ""),
    "ZAR": ("rand", "rand", "cent", "cents"), "PKR": ("rupee", "rupees", "paisa", "paise"),
    "¢": ("cent", "cents", "", ""), "p": ("penny", "pence", "", ""),
}  # fmt: skip
_SIGNS = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "<": "less than", ">": "greater than",
    "±": "plus or minus", "×": "times", "*": "times", "÷": "divided by", "/": "slash",
    "§": "section", "§§": "sections", "©": "copyright", "®": "registered", "™": "trademark",
    "°": "degrees", "→": "to", "←": "from", "↔": "to and from", "⇒": "implies",
    "⇔": "if and only if", "↑": "up", "↓": "down", "➜": "to", "➔": "to", "≈": "approximately",
    "≠": "not equal to", "≤": "less than or equal to", "≥": "greater than or equal to",
    "∞": "infinity", "√": "square root of", "∑": "sum of", "∫": "integral of", "∂": "partial",
    "∈": "in", "∀": "for all", "∃": "there exists", "∅": "empty set", "∩": "intersection",
    "∪": "union", "⊂": "subset of", "¬": "not", "∧": "and", "∨": "or", "∝": "proportional to",
    "¶": "paragraph", "¶¶": "paragraphs", "№": "number", "#": "number", "%": "percent",
    "‰": "per mille",
    "^": "caret", "\\": "backslash", "$": "dollars", "£": "pounds", "€": "euros", "¥": "yen",
    "¢": "cents", "₹": "rupees", "−": "minus", "-": "minus", "℃": "degrees Celsius",
    "℉": "degrees Fahrenheit", "∴": "therefore", "∵": "because", "♯": "sharp", "♭": "flat",
    "℮": "e", "∠": "angle", "⊥": "perpendicular to", "∥": "parallel to", "!=": "not equal to",
    "<=": "less than or equal to", ">=": "greater than or equal to", "==": "equals", "->": "to",
    "=>": "to", "<-": "from", "~": "approximately",
}  # fmt: skip
_SIGNS |= dict(zip("αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho "
    "sigma tau upsilon phi chi psi omega gamma delta theta lambda xi pi sigma "
    "phi psi omega").split(), strict=True))  # fmt: skip
_ADDRESS_SIGNS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "?": "question mark", "=": "equals",
    "&": "and", "#": "hash", "%": "percent", "~": "tilde", "+": "plus", ":": "colon", "@": "at",
    ",": "comma", "\\": "backslash", "*": "star", "!": "exclamation mark", ";": "semicolon",
    "$": "dollar",
}  # fmt: skip


def speak(value: v.Value) -> str:
    """The words for a value; letters that are said by their names are marked (`spell`)."""
    return _SPEAKERS[type(value)](value)


# Numbers


@lru_cache(maxsize=4096)
def cardinal(text: str | int) -> str:
    """`1205` as `one thousand two hundred and five`: no comma, a voice would rest there."""
    return words.integer(str(text), "en").replace(",", "")


def ordinal(number: int) -> str:
    if number >= 10**words.MAX_DIGITS:
        return cardinal(number)
    return words.ordinal(number, "en").replace(",", "")


def _digits(text: str) -> str:
    return words.digits(text, "en")


def _number(value: v.Number) -> str:
    lead = _LEADS.get(value.sign, "")
    if value.digits == "007":
        spoken = "double oh seven"
    elif len(value.digits) > 1 and value.digits[0] == "0" and not value.decimals:
        spoken = _digits(value.digits)
    else:
        spoken = cardinal(value.digits or "0")
        if not value.digits:
            spoken = "" if value.decimals else "zero"
    if value.decimals:
        spoken = f"{spoken} point {_digits(value.decimals)}".strip()
    return lead + spoken + (f" {_SCALES[value.scale]}" if value.scale else "")


def _ordinal(value: v.Ordinal) -> str:
    return ordinal(value.number) + ("s" if value.plural else "")


def _fraction(value: v.Fraction) -> str:
    lead = _LEADS.get(value.sign, "")
    if value.style == "over":
        spoken = f"{cardinal(value.above)} over {cardinal(value.below)}"
    elif value.style == "rate":
        spoken = f"{cardinal(value.above)} out of {cardinal(value.below)}"
    else:
        one = value.above == 1
        names = {2: "half" if one else "halves", 4: "quarter" if one else "quarters"}
        name = names.get(value.below) or ordinal(value.below) + ("" if one else "s")
        # After a whole number: three and a half.
        article = value.whole is not None and one and value.below in (2, 4)
        spoken = f"{'a' if article else cardinal(value.above)} {name}"
    if value.whole is not None:
        spoken = f"{cardinal(value.whole)} and {spoken}"
    return lead + spoken


def _range(value: v.Range) -> str:
    first, last = value.first, value.last
    if isinstance(first, v.Date) and isinstance(last, v.Date) and last.day and not last.month:
        return _day_range(first, last, value.link)
    if isinstance(first, v.Year) and isinstance(last, v.Year) and last.number < 100:
        spoken_last = cardinal(last.number) if last.number > 9 else f"oh {cardinal(last.number)}"
        return f"{speak(first)} {value.link or 'to'} {spoken_last}"
    if isinstance(first, v.Money) and isinstance(last, v.Money) and not value.link:
        return _money_range(first, last)
    return f"{speak(first)} {value.link or 'to'} {speak(last)}"


def _label(value: v.Label) -> str:
    if value.suffix == "ers":
        return cardinal(value.digits).removesuffix("e") + "ers"
    spoken = label(value.digits)
    if value.suffix == "s" and spoken.endswith("y"):
        return spoken[:-1] + "ies"
    if value.suffix == "s" and spoken.endswith("x"):
        return spoken + "es"
    return spoken + value.suffix


def label(text: str) -> str:
    """A number that names a thing: `66`, `747`, `101`, `2049`, `007`."""
    if (text.startswith("0") and len(text) > 1) or len(text) > 4:
        return _digits(text)
    number = int(text)
    if len(text) == 3 or (len(text) == 4 and number % 1000 >= 10):
        return pairs(number)
    return cardinal(text)


def pairs(number: int) -> str:
    """A number that is said two digits at a time: `747`, `1408`, `101`."""
    high, low = divmod(number, 100)
    if not 1 <= high <= 99:
        return cardinal(number)
    if not low:
        return f"{cardinal(high)} hundred" if high % 10 else cardinal(number)
    return f"{cardinal(high)} {'oh ' if low < 10 else ''}{cardinal(low)}"


def _score(value: v.Score) -> str:
    if value.style == "even" and value.numbers[0].digits == "50":
        return "fifty-fifty"
    link = "" if value.style == "even" else " to"
    return f"{link} ".join(_number(one) for one in value.numbers)


def _version(value: v.Version) -> str:
    if value.dots:
        return " dot ".join(label(part) for part in value.parts)
    return " point ".join(_number(v.Number(part)) for part in value.parts)


def _roman(value: v.Roman) -> str:
    if value.ordinal:
        spoken = ordinal(value.number)
        return f"the {spoken.capitalize()}" if value.article else spoken
    return year(value.number) if 1500 <= value.number < 2100 else cardinal(value.number)


def _power(value: v.Power) -> str:
    base = value.base if isinstance(value.base, str) else speak(value.base)
    if isinstance(value.base, str) and len(value.base) == 1:
        base = spell(value.base) if value.base in "aA" else value.base
    exponent = value.exponent
    if value.factor is not None:
        base = f"{_number(value.factor)} times {base}"
    elif exponent in ("2", "3"):
        return f"{base} squared" if exponent == "2" else f"{base} cubed"
    digits, letters = split_exponent(exponent)
    number = v.Number(digits, sign="-" if exponent.startswith("-") else "")
    words = [_number(number)] if digits else []
    return " ".join([base, "to the power of", *words, *letters])


# Dates and times


def year(number: int) -> str:
    """`1905` as `nineteen oh five`, `2007` as `two thousand seven`."""
    high, low = divmod(number, 100)
    if number < 100 or number > 9999:
        return cardinal(number)
    if number % 1000 < 10 and number >= 1000:
        return f"{cardinal(number // 1000)} thousand {cardinal(low) if low else ''}".strip()
    return pairs(number) if high else cardinal(low)


def _year(value: v.Year) -> str:
    if not value.era:
        return year(value.number)
    era = spell(value.era)
    return f"{era} {year(value.number)}" if value.era_first else f"{year(value.number)} {era}"


def _decade(value: v.Decade) -> str:
    spoken = cardinal(value.number % 100) if value.short else year(value.number)
    return spoken[:-1] + "ies" if spoken.endswith("y") else spoken + "s"


def _date(value: v.Date) -> str:
    spoken = "" if value.weekday is None else f"{english.WEEKDAYS[value.weekday]}, "
    month = english.MONTHS[value.month - 1] if value.month else ""
    if not value.day:
        spoken = spoken.rstrip(", ") if not month else spoken + month
        return f"{spoken} {_short_or_full(value)}" if value.year is not None else spoken
    if not month:
        return (
            f"{spoken}{value.article} {ordinal(value.day)}"
            if value.article
            else spoken + ordinal(value.day)
        )
    if value.day_first:
        spoken += f"{value.article or 'the'} {ordinal(value.day)} of {month}"
    else:
        the = f"{value.article} " if value.article else ""
        spoken += f"{month} {the}{ordinal(value.day)}"
    return f"{spoken}, {_short_or_full(value)}" if value.year is not None else spoken


def _short_or_full(value: v.Date) -> str:
    assert value.year is not None
    if not value.short_year:
        return year(value.year)
    return cardinal(value.year) if value.year > 9 else f"oh {cardinal(value.year)}"


def _day_range(first: v.Date, last: v.Date, link: str) -> str:
    """Two days of one month: `May 3-5`, `the 3rd to 5th of May`."""
    link = link or "to"
    if first.day_first:
        the = "the " if link != "and" else ""
        whole = _date(v.Date(last.day, first.month, first.year, day_first=True))
        begin = _date(v.Date(first.day, weekday=first.weekday, article=first.article or "the"))
        return f"{begin} {link} {the}{whole.removeprefix('the ')}"
    begin = _date(v.Date(first.day, first.month, weekday=first.weekday))
    spoken = f"{begin} {link} {ordinal(last.day)}"
    return f"{spoken}, {year(first.year)}" if first.year is not None else spoken


def _time(value: v.Time) -> str:
    hour, minute = value.hour, value.minute
    if value.style == "military":
        spoken = f"oh {cardinal(hour)}" if 0 < hour < 10 else cardinal(hour)
        if hour == 0:
            spoken = "zero"
        spoken += (
            f" {'oh ' if minute < 10 else ''}{cardinal(minute)}" if minute else " hundred"
        )  # fmt: skip
    elif value.half and not minute:
        spoken = cardinal(hour)
    elif hour == 0 and minute == 0:
        spoken = "midnight"
    elif not minute:
        spoken = f"{cardinal(hour)} o'clock" if hour <= 12 else f"{cardinal(hour)} hundred"
    else:
        spoken = f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"
    if value.second is not None:
        spoken += f" and {_count(value.second, 'second')}"
    if value.half:
        spoken += f" {spell(value.half.upper() + 'M')}"
    return f"{spoken} {spell(value.zone)}" if value.zone else spoken


def _duration(value: v.Duration) -> str:
    parts = []
    if value.hours is not None:
        parts.append(_count(value.hours, "hour"))
    if value.minutes is not None:
        parts.append(_count(value.minutes, "minute"))
    if value.seconds is not None:
        seconds = _number(v.Number(str(value.seconds), value.decimals))
        plural = "" if value.seconds == 1 and not value.decimals else "s"
        parts.append(f"{'and ' if len(parts) == 2 else ''}{seconds} second{plural}")
    return " ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{cardinal(number)} {noun}{'' if number == 1 else 's'}"


# Money and measures


def _money(value: v.Money) -> str:
    one, many, part, parts = _CURRENCIES.get(value.currency) or (
        value.currency, value.currency, "", ""
    )  # fmt: skip
    amount = value.amount
    if isinstance(amount, v.Range):
        return f"{speak(amount)} {many}"
    if isinstance(amount, v.Fraction):
        return f"{_fraction(amount)} {one if amount.whole is None else many}"
    lead = _LEADS.get(amount.sign, "")
    plain = v.Number(amount.digits, amount.decimals, scale=amount.scale)
    if amount.scale:
        return f"{lead}{_number(plain)} {one if value.attributive else many}"
    if len(amount.decimals) == 2 and part:
        cents = int(amount.decimals)
        whole = int(amount.digits[:30] or "0")
        small = f"{cardinal(cents)} {part if cents == 1 or value.attributive else parts}"
        if not whole and cents:
            return lead + small
        spoken = f"{cardinal(whole)} {one if whole == 1 or value.attributive else many}"
        return f"{lead}{spoken} and {small}" if cents else lead + spoken
    if amount.decimals == "00":
        plain = v.Number(amount.digits)
    name = one if value.attributive or plain.is_one else many
    return f"{lead}{_number(plain)} {name}"


def _money_range(first: v.Money, last: v.Money) -> str:
    """The currency is said once, unless there are cents: `$5-10`."""
    amount, end = first.amount, last.amount
    if (
        isinstance(amount, v.Number)
        and isinstance(end, v.Number)
        and first.currency == last.currency
    ):
        cents = len(amount.decimals) == 2 and not end.scale
        if not cents:
            scale = 0 if amount.scale == end.scale else amount.scale
            begin = v.Number(amount.digits, amount.decimals, amount.sign, scale)
            return f"{_number(begin)} to {_money(last)}"
    return f"{_money(first)} to {_money(last)}"


def _measure(value: v.Measure) -> str:
    amount = value.amount
    if amount is None:
        return unit(value.unit, value.power, one=value.attributive)
    last = amount.last if isinstance(amount, v.Range) else amount
    one = value.attributive or (isinstance(last, v.Number) and last.is_one)
    if isinstance(last, v.Fraction) and last.whole is None and last.style != "over":
        one = True
    spoken = speak(amount)
    return f"{spoken} {unit(value.unit, value.power, one=one)}"


def unit(key: str, power: int = 1, *, one: bool) -> str:
    """A unit in words: `km` with power 2 as `square kilometers`."""
    if fixed := _RATES.get(key):
        first, _, rest = fixed.partition(" ")
        if not one or key in ("%", "‰"):
            return fixed
        return f"{'foot' if first == 'feet' else first.removesuffix('s')} {rest}".strip()
    word = _unit_word(key)
    if word == "second" and power > 1:
        return "second squared" if power == 2 else "second cubed"
    word = {2: "square ", 3: "cubic "}.get(power, "") + word
    if one or word.endswith(_WITHOUT_PLURAL):
        return word
    if word.endswith("foot"):
        return word.removesuffix("foot") + "feet"
    if "watt " in word and not word.endswith("hour"):
        return word.replace("watt", "watts")  # megawatts electric
    return word + ("es" if word.endswith("inch") else "s")


_WITHOUT_PLURAL = (
    "hertz", "horsepower", "dozen", "lux", "each", "kelvin", "molar", "flops", "hundredweight",
)  # fmt: skip


def _unit_word(key: str) -> str:
    if key in _UNITS:
        return _UNITS[key]
    for size in (1, 2):
        prefix, base = key[:size], key[size:]
        if prefix in _PREFIXES and base in _UNITS:
            return _PREFIXES[prefix] + _UNITS[base]
    return key


def _rate(value: v.Rate) -> str:
    per = unit(value.per, value.power, one=True)
    if value.per == "ea":
        return f"{speak(value.amount)} each"
    return f"{speak(value.amount)} per {per}"


def _dimensions(value: v.Dimensions) -> str:
    return " by ".join(speak(part) for part in value.parts)


# Names, letters, addresses, signs


def _digit_groups(value: v.Digits) -> str:
    """Each group digit by digit, with a rest after it."""
    groups = [_digit_group(group) for group in value.groups]
    spoken = ("plus " if value.plus else "") + ", ".join(groups)
    if not value.extension:
        return spoken
    short = len(value.extension) < 3
    extension = cardinal(value.extension) if short else _digits(value.extension)
    return f"{spoken}, extension {extension}"


def _digit_group(group: str) -> str:
    if group.isalpha() and len(group) > 3:
        return group
    if " " in group:
        return " ".join(_digit_group(part) for part in group.split())
    if group in ("800", "900"):
        return f"{cardinal(group[0])} hundred"
    parts = re.findall(r"\d+|[A-Za-z]+", group)
    return " ".join(_digits(part) if part.isdecimal() else spell(part.upper()) for part in parts)


def _letters(value: v.Letters) -> str:
    """Letters by name, digits in them as numbers: `MP3` as `M P three`."""
    parts = re.findall(r"[^\W\d_]+|\d+|&", value.letters)
    spoken = [
        label(part) if part.isdecimal() else "and" if part == "&" else spell(part.upper())
        for part in parts
    ]
    if value.suffix and spoken and spoken[-1].endswith("\ue001"):
        spoken[-1] = spoken[-1][:-1] + value.suffix + "\ue001"
        return " ".join(spoken)
    return " ".join(spoken) + value.suffix


def _formula(value: v.Formula) -> str:
    spoken = []
    for part in value.parts:
        if part.isdecimal():
            spoken.append(cardinal(part))
        else:
            spoken.append({"+": "plus", "-": "minus"}.get(part) or spell(part.upper()))
    return " ".join(spoken)


def _web(value: v.Web) -> str:
    spoken: list[str] = []
    for part in re.findall(r"[^\W\d_]+|\d+|[\W_]", value.address):
        if part.isdecimal():
            spoken.append(_digits(part) if len(part) > 4 or part[0] == "0" else label(part))
        elif part.isalpha():
            spoken.append(_address_word(part, after_dot=spoken[-1:] == ["dot"]))
        elif name := _ADDRESS_SIGNS.get(part):
            spoken.append(name)
    return " ".join(spoken)


def _address_word(text: str, *, after_dot: bool) -> str:
    lower = text.lower()
    if lower in ("jpeg", "gif"):
        return "jay peg" if lower == "jpeg" else "gif"
    if spells_in_address(text, after_dot=after_dot):
        return spell(text.upper())
    return split_name(text)


def split_name(text: str) -> str:
    """`ThrowbackThursday` and `throw_back2` as words."""
    spaced = re.sub(r"_+", " ", text)
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", spaced)
    spaced = re.sub(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])", " ", spaced)
    parts = []
    for part in spaced.split():
        if part.isdecimal():
            parts.append(_number(v.Number(part)))
        elif len(part) > 1 and part.isupper() and not is_word(part):
            parts.append(spell(part))
        else:
            parts.append(part)
    return " ".join(parts)


def _sign(value: v.Sign) -> str:
    spoken = _SIGNS.get(value.sign, "")
    return f" is {spoken} " if value.between else f" {spoken} "


def _phrase(value: v.Phrase) -> str:
    parts = (part if isinstance(part, str) else speak(part) for part in value.parts)
    return " ".join(part for part in parts if part).replace(" ,", ",")


_SPEAKERS: dict[type, Callable[..., str]] = {
    v.Number: _number, v.Ordinal: _ordinal, v.Fraction: _fraction, v.Year: _year, v.Decade: _decade,
    v.Date: _date, v.Time: _time, v.Duration: _duration, v.Money: _money, v.Measure: _measure,
    v.Rate: _rate, v.Range: _range, v.Score: _score, v.Dimensions: _dimensions,
    v.Digits: _digit_groups, v.Label: _label,
    v.Version: _version, v.Roman: _roman, v.Letters: _letters, v.Web: _web, v.Formula: _formula,
    v.Identifier: lambda value: split_name(value.name),
    v.Power: _power, v.Sign: _sign, v.Phrase: _phrase,
    v.Abbreviation: lambda value: value.words,
    v.Silence: lambda value: " " if value.space else "",
}  # fmt: skip
