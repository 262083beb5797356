"""French names of units and currencies: singular, plural, gender."""

from __future__ import annotations

from anyrig.speech.normalise.french.numbers import Gender

Noun = tuple[str, str, Gender]


def _m(one: str, many: str = "") -> Noun:
    return one, many or f"{one}s", "m"


def _f(one: str, many: str = "") -> Noun:
    return one, many or f"{one}s", "f"


_LENGTHS = {
    "km": "kilomètre", "hm": "hectomètre", "dm": "décimètre", "cm": "centimètre",
    "mm": "millimètre",
    "m": "mètre", "µm": "micromètre", "μm": "micromètre", "nm": "nanomètre",
}  # fmt: skip
UNITS: dict[str, Noun] = {
    **{short: _m(name) for short, name in _LENGTHS.items()},
    **{
        f"{short}{mark}": _m(f"{name} {kind}", f"{name}s {kind}s")
        for short, name in _LENGTHS.items()
        for mark, kind in (("²", "carré"), ("2", "carré"), ("³", "cube"), ("3", "cube"))
    },
    "kg": _m("kilogramme"), "Kg": _m("kilogramme"), "g": _m("gramme"), "gr": _m("gramme"),
    "mg": _m("milligramme"), "µg": _m("microgramme"), "t": _f("tonne"), "lb": _f("livre"),
    "oz": _f("once"), "l": _m("litre"), "L": _m("litre"), "dl": _m("décilitre"),
    "cl": _m("centilitre"), "cL": _m("centilitre"), "ml": _m("millilitre"), "mL": _m("millilitre"),
    "hl": _m("hectolitre"),
    "ha": _m("hectare"), "h": _f("heure"), "min": _f("minute"), "mn": _f("minute"),
    "s": _f("seconde"), "sec": _f("seconde"), "ms": _f("milliseconde"), "ns": _f("nanoseconde"),
    "j": _m("jour"), "°C": _m("degré Celsius", "degrés Celsius"),
    "ºC": _m("degré Celsius", "degrés Celsius"), "° C": _m("degré Celsius", "degrés Celsius"),
    "°F": _m("degré Fahrenheit", "degrés Fahrenheit"), "°": _m("degré"), "K": _m("kelvin"),
    "Hz": _m("hertz", "hertz"), "kHz": _m("kilohertz", "kilohertz"),
    "MHz": _m("mégahertz", "mégahertz"), "GHz": _m("gigahertz", "gigahertz"), "V": _m("volt"),
    "kV": _m("kilovolt"), "W": _m("watt"), "kW": _m("kilowatt"), "MW": _m("mégawatt"),
    "GW": _m("gigawatt"), "kWh": _m("kilowattheure"), "Wh": _m("wattheure"),
    "MWh": _m("mégawattheure"),
    "mAh": _m("milliampère-heure", "milliampères-heure"), "A": _m("ampère"),
    "mA": _m("milliampère"), "Ω": _m("ohm"),
    "kcal": _f("kilocalorie"), "cal": _f("calorie"), "kJ": _m("kilojoule"), "J": _m("joule"),
    "N": _m("newton"), "Pa": _m("pascal"), "hPa": _m("hectopascal"), "kPa": _m("kilopascal"),
    "bar": _m("bar"), "bars": _m("bar"), "dB": _m("décibel"), "ch": _m("cheval", "chevaux"),
    "CV": _m("cheval", "chevaux"),
    "o": _m("octet"), "ko": _m("kilooctet"), "Ko": _m("kilooctet"), "Mo": _m("mégaoctet"),
    "Go": _m("gigaoctet"), "To": _m("téraoctet"), "KB": _m("kilobyte"), "MB": _m("mégabyte"),
    "GB": _m("gigabyte"), "TB": _m("térabyte"), "Mb": _m("mégabit"), "Gb": _m("gigabit"),
    "Mbps": _m("mégabit par seconde", "mégabits par seconde"),
    "Gbps": _m("gigabit par seconde", "gigabits par seconde"),
    "Mb/s": _m("mégabit par seconde", "mégabits par seconde"),
    "Mbit/s": _m("mégabit par seconde", "mégabits par seconde"),
    "Mo/s": _m("mégaoctet par seconde", "mégaoctets par seconde"),
    "px": _m("pixel"), "Mpx": _m("mégapixel"), "MP": _m("mégapixel"),
    "mph": _m("mile par heure", "miles par heure"), "mi": _m("mile"),
    "kmh": _m("kilomètre par heure", "kilomètres par heure"),
    "tr/min": _m("tour par minute", "tours par minute"),
    "ppm": _f("partie par million", "parties par million"),
    "hab.": _m("habitant"), "hab": _m("habitant"),
    "m/s²": _m("mètre par seconde carrée", "mètres par seconde carrée"),
    "pers.": _f("personne"), "p.": _f("page"), "pp.": _f("page"), "pages": _f("page"),
    "mol": _f("mole"),
    "mmHg": _m("millimètre de mercure", "millimètres de mercure"), "ft": _m("pied"),
    "° N": _m("degré nord", "degrés nord"), "° S": _m("degré sud", "degrés sud"),
    "° E": _m("degré est", "degrés est"), "lx": _m("lux", "lux"), "ans": _m("an"),
    "pts": _m("point"),
}  # fmt: skip
MONEY: dict[str, Noun] = {
    "€": _m("euro"), "EUR": _m("euro"), "euros": _m("euro"), "euro": _m("euro"), "$": _m("dollar"),
    "USD": _m("dollar"), "US$": _m("dollar"),
    "$US": _m("dollar américain", "dollars américains"), "dollars": _m("dollar"),
    "£": _f("livre sterling", "livres sterling"), "GBP": _f("livre sterling", "livres sterling"),
    "¥": _m("yen"), "JPY": _m("yen"), "CHF": _m("franc suisse", "francs suisses"),
    "Fr.": _m("franc"),
    "F": _m("franc"), "FF": _m("franc"), "francs": _m("franc"),
    "FCFA": _m("franc CFA", "francs CFA"),
    "CAD": _m("dollar canadien", "dollars canadiens"),
    "$CA": _m("dollar canadien", "dollars canadiens"),
    "CA$": _m("dollar canadien", "dollars canadiens"),
    "$ CA": _m("dollar canadien", "dollars canadiens"),
    "AUD": _m("dollar australien", "dollars australiens"),
    "MXN": _m("peso mexicain", "pesos mexicains"), "BRL": _m("réal brésilien", "réaux brésiliens"),
    "CNY": _m("yuan"), "₹": _f("roupie"), "INR": _f("roupie"), "₽": _m("rouble"),
    "RUB": _m("rouble"),
    "₿": _m("bitcoin"), "BTC": _m("bitcoin"), "MAD": _m("dirham marocain", "dirhams marocains"),
    "TND": _m("dinar tunisien", "dinars tunisiens"),
    "DZD": _m("dinar algérien", "dinars algériens"),
    "XOF": _m("franc CFA", "francs CFA"), "SEK": _f("couronne suédoise", "couronnes suédoises"),
    "livres sterling": _f("livre sterling", "livres sterling"), "¢": _m("cent"), "₩": _m("won"),
}  # fmt: skip
COINS = {
    "£": ("penny", "pence"), "GBP": ("penny", "pence"), "$": ("cent", "cents"),
    "USD": ("cent", "cents"), "US$": ("cent", "cents"), "CAD": ("cent", "cents"),
}  # fmt: skip
PER = {
    "mois": "par mois", "an": "par an", "année": "par an", "jour": "par jour", "j": "par jour",
    "semaine": "par semaine", "h": "par heure", "heure": "par heure", "kg": "par kilogramme",
    "kilo": "par kilo", "l": "par litre", "L": "par litre", "litre": "par litre",
    "m²": "par mètre carré",
    "m2": "par mètre carré", "pers.": "par personne", "personne": "par personne",
    "nuit": "par nuit", "pers": "par personne",
    "pièce": "pièce", "unité": "l'unité", "kWh": "par kilowattheure", "min": "par minute",
    "minute": "par minute", "t": "par tonne", "tonne": "par tonne", "km": "par kilomètre",
    "trimestre": "par trimestre", "baril": "le baril", "Mo": "par mégaoctet", "Go": "par gigaoctet",
    "utilisateur": "par utilisateur", "g": "le gramme", "m": "le mètre",
}  # fmt: skip
