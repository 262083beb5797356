"""What the tables of languages share: short forms, letters, symbols of units and currencies.

A unit is named by its identifier in CLDR (`length-kilometer`), or by a word of its own where CLDR
has none; a currency by its ISO code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

CAPITAL = "A-ZÁÉÍÓÚÜÑÀÂÄÇÈÊËÎÏÔÖÙÛŸŒÆ"
SMALL = "a-záéíóúüñàâäçèêëîïôöùûÿœæ"
NUMBER_NEXT = r"(?= ?(?:[-#(+]?\d|(?-i:[IVXLC]+|[ivx]{2,5})\b(?!['’])|(?-i:[LRD])\. ?\d))"
YEAR_NEXT = r"(?= (?:en |c\. |v\. )?1\d{3}\b| (?:le |el )?\d{1,2} )"
NAME_NEXT = rf"(?=[ -](?:(?-i:[{CAPITAL}])|(?:de|du|des|la|le|el|los|las)\b|d'|l'))"
"""A name or the rest of one: Foch, de la Paz, l'Europe."""


class ShortForm(NamedTuple):
    """Shortened words that mean this only beside certain others."""

    words: Mapping[str, str]
    lead: str = ""
    """A look-behind for what must stand before."""
    rest: str = ""
    """A look-ahead for what must follow."""
    ends: Literal["never", "any", "name", "title"] = "never"
    """Whether the full stop may end a sentence: not where the phrase goes on, nor where a name may
    follow and what follows opens no sentence; behind a `title` only where it surely opens one."""
    weight: float = 1.5
    any_case: bool = False
    """Whether it makes no difference which letters are capitals."""
    acronyms: bool = False
    """Whether three capitals that the table has not are an acronym: NAC. at a sentence's end."""


def behind(*words: str) -> str:
    """A look-behind for one of these words, with the space behind it."""
    return f"(?:{'|'.join(rf'(?<={word} )' for word in words)})"


def unit_forms(nouns: Mapping[str, str], articles: str, many: str) -> tuple[ShortForm, ShortForm]:
    """Units without a number: behind `millions of`, in the plural, and behind an article."""
    plurals = {key: re.sub(r"(\w)(?= |$)", r"\1s", noun).replace("horas", "hora")
               for key, noun in nouns.items()}  # fmt: skip
    alone = r"(?![/²³\d])"
    return (
        ShortForm(plurals, behind(*many.split(", ")), alone, "any", 1.6, any_case=True),
        ShortForm(nouns, behind(*(rf"\b{one}" for one in articles.split())), alone, "any", 1.6,
                  any_case=True),
    )  # fmt: skip


_PREFIXES = {
    "E": "exa", "P": "peta", "T": "tera", "G": "giga", "M": "mega", "k": "kilo", "h": "hecto",
    "d": "deci", "c": "centi", "m": "milli", "µ": "micro", "μ": "micro", "n": "nano", "p": "pico",
    "Ki": "kibi", "Mi": "mebi", "Gi": "gibi", "Ti": "tebi", "Pi": "pebi",
}  # fmt: skip
_BASES = {
    "V": ("electric-volt", "k M G m µ μ n"), "A": ("electric-ampere", "k m µ μ n p"),
    "Ω": ("electric-ohm", "k M G m µ μ"), "W": ("power-watt", "k M G T m µ μ n"),
    "Wh": ("watt-hour", "k M G T m"), "Ah": ("ampere-hour", "k m"), "VA": ("volt-ampere", "k M"),
    "J": ("energy-joule", "k M G T m µ μ n"), "eV": ("electron-volt", "k M G T m"),
    "N": ("force-newton", "k M m µ μ n"), "Pa": ("pressure-pascal", "k M G h m"),
    "bar": ("bar", "m k"), "Hz": ("frequency-hertz", "k M G T m"), "F": ("farad", "m µ μ n p"),
    "H": ("henry", "m µ μ n"), "T": ("tesla", "m µ μ n"), "C": ("coulomb", "m µ μ n p"),
    "Bq": ("becquerel", "k M G T m"), "Sv": ("sievert", "m µ μ n"), "Gy": ("gray", "m c µ μ"),
    "Ci": ("curie", "m µ μ n"), "mol": ("concentr-mole", "k m µ μ n p"),
    "M": ("molar", "µ μ n p"), "lm": ("light-lumen", "k"), "lx": ("light-lux", "k"),
    "cd": ("candela", "m k"), "g": ("mass-gram", "n p"), "s": ("duration-second", "p"),
    "t": ("mass-tonne", "k M G"), "L": ("volume-liter", "n h d µ μ"),
    "l": ("volume-liter", "n µ μ"),
    "B": ("digital-byte", "P E Ki Mi Gi Ti Pi"), "bit": ("digital-bit", "k M G T Ki Mi Gi"),
    "bps": ("bit-per-second", "k M G T"), "Da": ("dalton", "k M"), "pc": ("parsec", "k M G"),
    "Eq": ("equivalent", "m µ μ"), "Osm": ("osmole", "m"), "rad": ("angle-radian", "m µ μ"),
    "m": ("length-meter", "p"), "cal": ("energy-calorie", "k"),
}  # fmt: skip
"""Of a base unit its name, and the prefixes that it is written with."""
_METRIC_UNITS = {
    f"{prefix}{symbol}": f"{_PREFIXES[prefix]}+{name}"
    for symbol, (name, prefixes) in _BASES.items()
    for prefix in prefixes.split()
    if prefix + symbol not in ("pm", "ps")
}
"""`kilo+electric-volt`: a prefix and a unit."""
_LENGTHS = {
    "km": "kilometer", "hm": "hectometer", "dm": "decimeter", "cm": "centimeter",
    "mm": "millimeter", "m": "meter", "µm": "micrometer", "μm": "micrometer", "nm": "nanometer",
}  # fmt: skip
SHARED_UNITS = {
    **_METRIC_UNITS, "eV": "electron-volt", "Wh": "watt-hour", "Ah": "ampere-hour",
    "bps": "bit-per-second", "Bq": "becquerel", "Sv": "sievert", "Gy": "gray", "cd": "candela",
    "Da": "dalton", "yd": "length-yard", "gal": "volume-gallon", "nmi": "length-nautical-mile",
    "psi": "pressure-pound-force-per-square-inch", "atm": "pressure-atmosphere", "hp": "horsepower",
    "dBA": "decibel", "dB(A)": "decibel", "ppb": "part-per-billion", "bbl": "volume-barrel",
    "fps": "frame-per-second", "rpm": "revolution-per-minute", "bpm": "beat-per-minute",
    "dpi": "graphics-dot-per-inch", "ppi": "graphics-pixel-per-inch", "Å": "angstrom",
    "UA": "length-astronomical-unit", "inHg": "pressure-inch-ofhg", "kgf": "kilogram-force",
    "Torr": "torr",
    **{symbol: f"length-{name}" for symbol, name in _LENGTHS.items()},
    "kg": "mass-kilogram", "Kg": "mass-kilogram", "g": "mass-gram", "gr": "mass-gram",
    "mg": "mass-milligram", "µg": "mass-microgram", "t": "mass-tonne", "lb": "mass-pound",
    "lbs": "mass-pound", "oz": "mass-ounce", "l": "volume-liter", "L": "volume-liter",
    "dl": "volume-deciliter", "cl": "volume-centiliter", "cL": "volume-centiliter",
    "ml": "volume-milliliter", "mL": "volume-milliliter", "hl": "volume-hectoliter",
    "ha": "area-hectare", "h": "duration-hour", "min": "duration-minute", "s": "duration-second",
    "ms": "duration-millisecond", "ns": "duration-nanosecond", "µs": "duration-microsecond",
    "°C": "temperature-celsius", "ºC": "temperature-celsius", "° C": "temperature-celsius",
    "º C": "temperature-celsius", "°F": "temperature-fahrenheit", "ºF": "temperature-fahrenheit",
    "K": "temperature-kelvin", "Hz": "frequency-hertz", "V": "electric-volt",
    "W": "power-watt", "A": "electric-ampere",
    "Ω": "electric-ohm", "kcal": "energy-kilocalorie", "cal": "energy-calorie",
    "J": "energy-joule", "N": "force-newton", "Pa": "pressure-pascal",
    "mmHg": "pressure-millimeter-ofhg",
    "bar": "bar", "dB": "decibel", "CV": "horsepower", "B": "digital-byte",
    "KB": "digital-kilobyte", "kB": "digital-kilobyte", "MB": "digital-megabyte",
    "GB": "digital-gigabyte", "TB": "digital-terabyte", "Gb": "digital-gigabit",
    "Mb": "digital-megabit", "Mbit": "digital-megabit", "Gbit": "digital-gigabit",
    "px": "graphics-pixel", "MP": "graphics-megapixel", "Mpx": "graphics-megapixel",
    "mph": "speed-mile-per-hour", "kph": "speed-kilometer-per-hour",
    "kmh": "speed-kilometer-per-hour", "mi": "length-mile", "ft": "length-foot",
    "rad": "angle-radian", "img/s": "frame-per-second",
    "ppm": "part-per-million", "mol": "concentr-mole", "lx": "light-lux", "lm": "light-lumen",
    "hab.": "inhabitant", "hab": "inhabitant", "pers.": "person", "pers": "person",
    "Nm": "torque-newton-meter", "N·m": "torque-newton-meter", "kn": "speed-knot",
}  # fmt: skip
SHARED_SIGNS = {
    "€": "EUR", "EUR": "EUR", "euros": "EUR", "euro": "EUR", "$": "USD", "USD": "USD",
    "US$": "USD", "U$S": "USD", "$US": "USD", "£": "GBP", "GBP": "GBP", "¥": "JPY", "JPY": "JPY",
    "CHF": "CHF", "MXN": "MXN", "MX$": "MXN", "BRL": "BRL", "R$": "BRL", "CNY": "CNY", "₹": "INR",
    "INR": "INR", "Rs.": "INR", "Rs": "INR", "₽": "RUB", "RUB": "RUB", "₿": "BTC", "BTC": "BTC",
    "CAD": "CAD", "C$": "CAD", "CA$": "CAD", "$CA": "CAD", "$ CA": "CAD", "$ US": "USD",
    "AUD": "AUD",
    "¢": "¢", "₩": "KRW", "SEK": "SEK", "ARS": "ARS", "COP": "COP", "CLP": "CLP",
}  # fmt: skip
