"""Symbols of units and currencies in Spanish and French.

A unit is named by its identifier in CLDR (`length-kilometer`), or by a word of its own where CLDR
has none; a currency by its ISO code.
"""

from __future__ import annotations

_LENGTHS = {
    "km": "kilometer", "hm": "hectometer", "dm": "decimeter", "cm": "centimeter",
    "mm": "millimeter", "m": "meter", "µm": "micrometer", "μm": "micrometer", "nm": "nanometer",
}  # fmt: skip
_SHARED = {
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
    "K": "temperature-kelvin", "Hz": "frequency-hertz", "kHz": "frequency-kilohertz",
    "MHz": "frequency-megahertz", "GHz": "frequency-gigahertz", "V": "electric-volt",
    "kV": "kilovolt", "W": "power-watt", "kW": "power-kilowatt", "MW": "power-megawatt",
    "GW": "power-gigawatt", "kWh": "kilowatt-hour", "Wh": "watt-hour", "MWh": "megawatt-hour",
    "mAh": "milliampere-hour", "A": "electric-ampere", "mA": "electric-milliampere",
    "Ω": "electric-ohm", "kcal": "energy-kilocalorie", "cal": "energy-calorie",
    "kJ": "energy-kilojoule", "J": "energy-joule", "N": "force-newton", "Pa": "pressure-pascal",
    "hPa": "pressure-hectopascal", "kPa": "pressure-kilopascal", "mmHg": "pressure-millimeter-ofhg",
    "bar": "bar", "dB": "decibel", "CV": "horsepower", "B": "digital-byte",
    "KB": "digital-kilobyte", "kB": "digital-kilobyte", "MB": "digital-megabyte",
    "GB": "digital-gigabyte", "TB": "digital-terabyte", "Gb": "digital-gigabit",
    "Mb": "digital-megabit", "Mbit": "digital-megabit", "Gbit": "digital-gigabit",
    "Mbps": "megabit-per-second", "Gbps": "gigabit-per-second", "kbps": "kilobit-per-second",
    "px": "graphics-pixel", "MP": "graphics-megapixel", "Mpx": "graphics-megapixel",
    "mph": "speed-mile-per-hour", "kph": "speed-kilometer-per-hour",
    "kmh": "speed-kilometer-per-hour", "mi": "length-mile", "ft": "length-foot",
    "ppm": "part-per-million", "mol": "concentr-mole", "lx": "light-lux", "lm": "light-lumen",
    "hab.": "inhabitant", "hab": "inhabitant", "pers.": "person", "pers": "person",
    "Nm": "torque-newton-meter", "kn": "speed-knot",
}  # fmt: skip
UNITS = {
    "es": {
        **_SHARED, "hs": "duration-hour", "hrs": "duration-hour", "hr": "duration-hour",
        "seg": "duration-second", "segs": "duration-second", "mins": "duration-minute",
        "rpm": "revolution-per-minute", "fps": "frame-per-second", "uds.": "item", "ud.": "item",
        "uds": "item", "págs.": "page", "pág.": "page", "pulg.": "length-inch",
        "pulg": "length-inch", "cda.": "volume-tablespoon", "cdas.": "volume-tablespoon",
        "cdta.": "volume-teaspoon", "cdtas.": "volume-teaspoon", "kms": "length-kilometer",
        "m s. n. m.": "meter-above-sea", "m. s. n. m.": "meter-above-sea",
        "msnm": "meter-above-sea",
        "mts": "length-meter", "kgs": "mass-kilogram", "grs": "mass-gram",
        "c. c.": "volume-cubic-centimeter", "cc": "volume-cubic-centimeter", "q": "quintal",
        "cts": "cent", "cts.": "cent",
        "comp.": "tablet", "caps.": "capsule", "gts.": "drop", "amp.": "vial",
    },
    "fr": {
        **_SHARED, "mn": "duration-minute", "sec": "duration-second", "j": "duration-day",
        "sem.": "duration-week", "sem": "duration-week",
        "ch": "horsepower", "o": "digital-byte", "ko": "digital-kilobyte",
        "Ko": "digital-kilobyte", "Mo": "digital-megabyte", "Go": "digital-gigabyte",
        "To": "digital-terabyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
        "TB": "terabyte", "bars": "bar", "tr/min": "turn-per-minute", "p.": "page", "pp.": "page",
        "pages": "page", "ans": "year", "pts": "point", "pi": "length-foot", "po": "length-inch",
        "c. à s.": "volume-tablespoon", "c. à soupe": "volume-tablespoon",
        "c. à c.": "volume-teaspoon", "c. à café": "volume-teaspoon", "cs": "volume-tablespoon",
        "càs": "volume-tablespoon", "càc": "volume-teaspoon", "cuil. à s.": "volume-tablespoon",
        "cuil. à c.": "volume-teaspoon", "cc": "volume-teaspoon", "qx": "quintal", "cts": "cent",
        "cts.": "cent", "comp.": "tablet", "cp": "tablet", "gttes": "drop", "amp.": "vial",
        "gél.": "capsule",
    },
}  # fmt: skip
_SHARED_SIGNS = {
    "€": "EUR", "EUR": "EUR", "euros": "EUR", "euro": "EUR", "$": "USD", "USD": "USD",
    "US$": "USD", "U$S": "USD", "$US": "USD", "£": "GBP", "GBP": "GBP", "¥": "JPY", "JPY": "JPY",
    "CHF": "CHF", "MXN": "MXN", "MX$": "MXN", "BRL": "BRL", "R$": "BRL", "CNY": "CNY", "₹": "INR",
    "INR": "INR", "Rs.": "INR", "Rs": "INR", "₽": "RUB", "RUB": "RUB", "₿": "BTC", "BTC": "BTC",
    "CAD": "CAD", "C$": "CAD", "CA$": "CAD", "$CA": "CAD", "$ CA": "CAD", "$ US": "USD",
    "AUD": "AUD",
    "¢": "¢", "₩": "KRW", "SEK": "SEK", "ARS": "ARS", "COP": "COP", "CLP": "CLP",
}  # fmt: skip
SIGNS = {
    "es": {
        **_SHARED_SIGNS, "dólares": "USD", "libras": "GBP", "PEN": "PEN", "S/": "PEN",
        "S/.": "PEN", "UYU": "UYU", "pesos": "pesos", "Bs": "BOB", "Bs.": "BOB", "₡": "CRC",
        "pts": "ESP", "ptas.": "ESP", "ptas": "ESP", "pta.": "ESP",
    },
    "fr": {
        **_SHARED_SIGNS, "dollars": "USD", "Fr.": "francs", "F": "francs", "FF": "francs",
        "francs": "francs", "FCFA": "XOF", "XOF": "XOF", "MAD": "MAD", "TND": "TND", "DZD": "DZD",
        "livres sterling": "GBP",
    },
}  # fmt: skip
SCALES = {
    "es": {
        "miles de millones": 9, "mil millones": 9, "millones": 6, "millón": 6, "millon": 6,
        "mill.": 6, "billones": 12, "billón": 12, "mil": 3, "MM": 6, "M": 6, "k": 3, "K": 3,
    },
    "fr": {
        "millions": 6, "million": 6, "milliards": 9, "milliard": 9, "billions": 12, "mille": 3,
        "Mds": 9, "Md": 9, "Mrds": 9, "Mrd": 9, "M": 6, "k": 3, "K": 3,
    },
}  # fmt: skip
PER_WORDS = {
    "es": {
        "mes": "al mes", "año": "al año", "día": "al día", "semana": "a la semana",
        "hora": "por hora", "kilo": "por kilo", "litro": "por litro", "persona": "por persona",
        "noche": "por noche", "ud.": "por unidad", "ud": "por unidad", "unidad": "por unidad",
        "u.": "por unidad", "minuto": "por minuto", "pieza": "por pieza",
        "trimestre": "al trimestre", "docena": "por docena", "barril": "por barril",
        "usuario": "por usuario", "alumno": "por alumno",
    },
    "fr": {
        "mois": "par mois", "année": "par an", "an": "par an", "jour": "par jour",
        "semaine": "par semaine", "heure": "par heure", "kilo": "par kilo", "litre": "par litre",
        "personne": "par personne", "pers.": "par personne", "pers": "par personne",
        "nuit": "par nuit", "pièce": "pièce", "unité": "l'unité", "minute": "par minute",
        "tonne": "par tonne", "trimestre": "par trimestre", "baril": "le baril",
        "utilisateur": "par utilisateur", "élève": "par élève",
    },
}  # fmt: skip
