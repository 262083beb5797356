"""The units English knows, by how they are written."""

from __future__ import annotations

_PREFIXES = {
    "": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "m": "milli", "µ": "micro",
    "μ": "micro", "n": "nano", "c": "centi", "d": "deci", "h": "hecto", "p": "pico",
}  # fmt: skip
# Written sign: the prefixes that occur with it, and its name.
_SCALED: dict[str, tuple[str, str]] = {
    "m": ("k c m µ μ n d", "meter"), "g": ("k m µ μ n", "gram"), "L": ("m d c µ μ", "liter"),
    "l": ("m d c µ μ", "liter"), "W": ("k M G m T", "watt"), "V": ("k m M", "volt"),
    "A": ("m k µ", "amp"), "Wh": ("k M G T", "watt hour"), "Hz": ("k M G T", "hertz"),
    "Pa": ("k M h G", "pascal"), "J": ("k M G", "joule"), "B": ("k K M G T P", "byte"),
    "b": ("k K M G T", "bit"), "bit": ("k M G T", "bit"), "eV": ("k M G T", "electron volt"),
    "cal": ("k", "calorie"), "Ah": ("m", "amp hour"), "N": ("k", "newton"),
    "s": ("m µ μ n", "second"),
    "mol": ("m", "mole"), "F": ("µ n p", "farad"), "Ω": ("k M", "ohm"), "t": ("k M", "ton"),
    "px": ("M", "pixel"),
}  # fmt: skip
_IRREGULAR = {"foot": "feet", "inch": "inches", "square foot": "square feet",
              "cubic foot": "cubic feet", "square inch": "square inches",
              "cubic inch": "cubic inches", "lux": "lux", "light year": "light years"}  # fmt: skip
_PLAIN = {
    "ft": "foot", "in": "inch", "yd": "yard", "yds": "yard", "mi": "mile", "lb": "pound",
    "lbs": "pound", "oz": "ounce", "ozs": "ounce", "fl oz": "fluid ounce",
    "fl. oz": "fluid ounce", "gal": "gallon", "qt": "quart", "qts": "quart", "pt": "pint",
    "pts": "point", "gals": "gallon", "tbsp": "tablespoon", "Tbsp": "tablespoon",
    "tbs": "tablespoon", "tsp": "teaspoon", "min": "minute", "mins": "minute", "sec": "second",
    "secs": "second", "hr": "hour", "hrs": "hour", "h": "hour", "yr": "year", "yrs": "year",
    "wk": "week", "wks": "week", "mos": "month", "hp": "horsepower", "HP": "horsepower",
    "dB": "decibel", "ha": "hectare", "ac": "acre", "sq ft": "square foot",
    "sq. ft": "square foot", "sq m": "square meter", "sq km": "square kilometer",
    "sq mi": "square mile", "sq. mi": "square mile", "sq in": "square inch",
    "cu ft": "cubic foot", "cu m": "cubic meter", "sqft": "square foot", "cc": "cubic centimeter",
    "Hz": "hertz", "bbl": "barrel", "kn": "knot", "kt": "knot", "kts": "knot", "lm": "lumen",
    "lx": "lux", "ly": "light year", "AU": "astronomical unit", "ct": "carat", "mg": "milligram",
    "mcg": "microgram", "W": "watt", "V": "volt", "A": "amp", "m": "meter", "g": "gram",
    "s": "second", "L": "liter", "l": "liter", "t": "ton", "B": "byte", "Pa": "pascal",
    "J": "joule", "N": "newton", "Wh": "watt hour", "K": "kelvin", "cal": "calorie",
    "Cal": "calorie", "px": "pixel", "mol": "mole", "Ω": "ohm", "Nm": "newton meter",
    "MP": "megapixel", "Å": "angstrom", "F": "farad",
    "Ah": "amp hour", "eV": "electron volt", "IU": "international unit", "doz": "dozen",
    "pcs": "piece",
}  # fmt: skip
_FIXED = {
    "mph": "miles per hour", "MPH": "miles per hour", "kph": "kilometers per hour",
    "kmh": "kilometers per hour", "km/h": "kilometers per hour", "mpg": "miles per gallon",
    "MPG": "miles per gallon", "rpm": "revolutions per minute", "RPM": "revolutions per minute",
    "bpm": "beats per minute", "BPM": "beats per minute", "psi": "pounds per square inch",
    "PSI": "pounds per square inch", "fps": "frames per second", "FPS": "frames per second",
    "dpi": "dots per inch", "DPI": "dots per inch", "ppi": "pixels per inch",
    "wpm": "words per minute", "ppm": "parts per million", "ppb": "parts per billion",
    "bps": "bits per second", "kbps": "kilobits per second", "Kbps": "kilobits per second",
    "Mbps": "megabits per second", "Gbps": "gigabits per second", "MBps": "megabytes per second",
    "mmHg": "millimeters of mercury", "mm Hg": "millimeters of mercury",
    "inHg": "inches of mercury", "°C": "degrees Celsius", "°F": "degrees Fahrenheit",
    "kcal": "kilocalories", "ft-lb": "foot pounds", "kgf": "kilograms of force",
}  # fmt: skip


def _names() -> dict[str, str]:
    names = dict(_PLAIN)
    for sign, (prefixes, name) in _SCALED.items():
        for prefix in prefixes.split():
            full = {"P": "peta", "K": "kilo"}.get(prefix) or _PREFIXES[prefix]
            names.setdefault(prefix + sign, full + name)
    # A megabit looks like a thousand-million of something only to a computer.
    names["kWh"] = "kilowatt hour"
    return names


_NAMES = _names()
# Units that may be mistaken for other things when they touch the number, and whether they still
# count there: "5m" is five meters, "5B" a seat or billions.
AFTER_SPACE: dict[str, bool] = {
    "m": True, "g": True, "s": True, "L": True, "l": True, "t": False, "B": False, "K": False,
    "N": False, "J": False, "A": True, "V": True, "W": True, "F": False, "ac": True,
    "pt": True, "ct": True, "h": True, "in": True, "AU": True, "MP": True, "HP": True,
}  # fmt: skip
ANYWHERE: frozenset[str] = frozenset({*_NAMES, *_FIXED}) - AFTER_SPACE.keys()
SPEED_LIKE = ("km/h", "m/s", "MB/s", "GB/s", "Mb/s", "kB/s", "ft/s", "mi/h", "mg/L", "kg/ha")


def unit(name: str, power: str | None, *, one: bool) -> str:
    """A unit in words: `km` with `²` as `square kilometers`."""
    fixed = _FIXED.get(name)
    if fixed:
        return _single(fixed) if one else fixed
    word = _NAMES.get(name, name)
    if power and power[-1] in "2²":
        if word == "second":
            return "second squared"
        word = f"square {word}"
    elif power:
        word = f"cubic {word}"
    return word if one else _plural(word)


def _single(fixed: str) -> str:
    first, _, rest = fixed.partition(" ")
    return f"{'foot' if first == 'feet' else first.removesuffix('s')} {rest}".strip()


def _plural(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(("hertz", "horsepower", "dozen")) or word == "second squared":
        return word
    return word + "s"
