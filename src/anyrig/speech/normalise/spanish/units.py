"""Spanish names of units and currencies: singular, plural, gender."""

from __future__ import annotations

from anyrig.speech.normalise.spanish.numbers import Gender

Noun = tuple[str, str, Gender]


def _m(one: str, many: str = "") -> Noun:
    return one, many or f"{one}s", "m"


def _f(one: str, many: str = "") -> Noun:
    return one, many or f"{one}s", "f"


_LENGTHS = {
    "km": "kilómetro", "hm": "hectómetro", "dm": "decímetro", "cm": "centímetro", "mm": "milímetro",
    "m": "metro", "µm": "micrómetro", "μm": "micrómetro", "nm": "nanómetro",
}  # fmt: skip
UNITS: dict[str, Noun] = {
    **{short: _m(name) for short, name in _LENGTHS.items()},
    **{
        f"{short}{mark}": _m(f"{name} {kind}", f"{name}s {kind}s")
        for short, name in _LENGTHS.items()
        for mark, kind in (("²", "cuadrado"), ("2", "cuadrado"), ("³", "cúbico"), ("3", "cúbico"))
    },
    "kg": _m("kilogramo"), "Kg": _m("kilogramo"), "g": _m("gramo"), "gr": _m("gramo"),
    "mg": _m("miligramo"), "µg": _m("microgramo"), "t": _f("tonelada"), "lb": _f("libra"),
    "lbs": _f("libra"), "oz": _f("onza"), "l": _m("litro"), "L": _m("litro"), "dl": _m("decilitro"),
    "cl": _m("centilitro"), "ml": _m("mililitro"), "mL": _m("mililitro"), "hl": _m("hectolitro"),
    "ha": _f("hectárea"), "h": _f("hora"), "hs": _f("hora"), "hrs": _f("hora"), "hr": _f("hora"),
    "min": _m("minuto"), "s": _m("segundo"), "seg": _m("segundo"), "ms": _m("milisegundo"),
    "ns": _m("nanosegundo"), "°C": _m("grado Celsius", "grados Celsius"),
    "ºC": _m("grado Celsius", "grados Celsius"), "° C": _m("grado Celsius", "grados Celsius"),
    "°F": _m("grado Fahrenheit", "grados Fahrenheit"),
    "ºF": _m("grado Fahrenheit", "grados Fahrenheit"), "°": _m("grado"),
    "K": _m("kelvin", "kelvin"), "Hz": _m("hercio"), "kHz": _m("kilohercio"),
    "MHz": _m("megahercio"), "GHz": _m("gigahercio"), "V": _m("voltio"), "kV": _m("kilovoltio"),
    "W": _m("vatio"), "kW": _m("kilovatio"), "MW": _m("megavatio"), "GW": _m("gigavatio"),
    "kWh": _m("kilovatio hora", "kilovatios hora"), "Wh": _m("vatio hora", "vatios hora"),
    "mAh": _m("miliamperio hora", "miliamperios hora"), "A": _m("amperio"),
    "mA": _m("miliamperio"), "Ω": _m("ohmio"), "kcal": _f("kilocaloría"), "cal": _f("caloría"),
    "kJ": _m("kilojulio"), "J": _m("julio"), "N": _m("newton", "newtons"),
    "Pa": _m("pascal", "pascales"),
    "hPa": _m("hectopascal", "hectopascales"), "kPa": _m("kilopascal", "kilopascales"),
    "bar": _m("bar", "bares"), "dB": _m("decibelio"), "CV": _m("caballo", "caballos"),
    "B": _m("byte"), "KB": _m("kilobyte"), "kB": _m("kilobyte"), "MB": _m("megabyte"),
    "GB": _m("gigabyte"), "TB": _m("terabyte"), "Gb": _m("gigabit", "gigabits"),
    "Mb": _m("megabit", "megabits"), "Mbps": _m("megabit por segundo", "megabits por segundo"),
    "Gbps": _m("gigabit por segundo", "gigabits por segundo"),
    "kbps": _m("kilobit por segundo", "kilobits por segundo"),
    "Mb/s": _m("megabit por segundo", "megabits por segundo"),
    "MB/s": _m("megabyte por segundo", "megabytes por segundo"),
    "px": _m("píxel", "píxeles"), "MP": _m("megapíxel", "megapíxeles"),
    "mph": _f("milla por hora", "millas por hora"), "mi": _f("milla"),
    "kph": _m("kilómetro por hora", "kilómetros por hora"),
    "rpm": _f("revolución por minuto", "revoluciones por minuto"),
    "ppm": _f("parte por millón", "partes por millón"),
    "fps": _m("fotograma por segundo", "fotogramas por segundo"), "hab.": _m("habitante"),
    "hab": _m("habitante"),
    "m/s²": _m("metro por segundo al cuadrado", "metros por segundo al cuadrado"),
    "uds.": _f("unidad", "unidades"), "ud.": _f("unidad", "unidades"), "págs.": _f("página"),
    "pág.": _f("página"), "° N": _m("grado norte", "grados norte"),
    "° S": _m("grado sur", "grados sur"),
    "° O": _m("grado oeste", "grados oeste"), "° E": _m("grado este", "grados este"),
    "ft": _m("pie"), "mmHg": _m("milímetro de mercurio", "milímetros de mercurio"),
    "mol": _m("mol", "moles"), "lx": _m("lux", "lux"),
}  # fmt: skip
MONEY: dict[str, Noun] = {
    "€": _m("euro"), "EUR": _m("euro"), "euros": _m("euro"), "euro": _m("euro"),
    "$": _m("dólar", "dólares"), "USD": _m("dólar", "dólares"),
    "US$": _m("dólar", "dólares"), "U$S": _m("dólar", "dólares"), "dólares": _m("dólar", "dólares"),
    "£": _f("libra"), "GBP": _f("libra esterlina", "libras esterlinas"), "libras": _f("libra"),
    "¥": _m("yen", "yenes"), "JPY": _m("yen", "yenes"), "CHF": _m("franco suizo", "francos suizos"),
    "MXN": _m("peso mexicano", "pesos mexicanos"), "MX$": _m("peso mexicano", "pesos mexicanos"),
    "ARS": _m("peso argentino", "pesos argentinos"),
    "COP": _m("peso colombiano", "pesos colombianos"),
    "CLP": _m("peso chileno", "pesos chilenos"), "PEN": _m("sol", "soles"),
    "S/": _m("sol", "soles"),
    "UYU": _m("peso uruguayo", "pesos uruguayos"), "BRL": _m("real brasileño", "reales brasileños"),
    "R$": _m("real", "reales"), "CNY": _m("yuan", "yuanes"), "₹": _f("rupia"), "INR": _f("rupia"),
    "₽": _m("rublo"), "₿": _m("bitcoin", "bitcoins"), "BTC": _m("bitcoin", "bitcoins"),
    "CAD": _m("dólar canadiense", "dólares canadienses"),
    "C$": _m("dólar canadiense", "dólares canadienses"),
    "AUD": _m("dólar australiano", "dólares australianos"), "pesos": _m("peso"), "¢": _m("centavo"),
    "Bs": _m("boliviano"), "₡": _m("colón", "colones"), "₩": _m("won", "wones"),
    "pts": _f("peseta"), "ptas.": _f("peseta"),
}  # fmt: skip
COINS = {
    "€": ("céntimo", "céntimos"), "EUR": ("céntimo", "céntimos"), "euros": ("céntimo", "céntimos"),
    "£": ("penique", "peniques"), "GBP": ("penique", "peniques"), "libras": ("penique", "peniques"),
    "PEN": ("céntimo", "céntimos"), "S/": ("céntimo", "céntimos"), "CHF": ("céntimo", "céntimos"),
}  # fmt: skip
PER = {
    "mes": "al mes", "año": "al año", "día": "al día", "semana": "a la semana", "h": "por hora",
    "hora": "por hora", "kg": "por kilogramo", "Kg": "por kilogramo", "kilo": "por kilo",
    "l": "por litro", "L": "por litro", "litro": "por litro", "m²": "por metro cuadrado",
    "m2": "por metro cuadrado", "persona": "por persona", "noche": "por noche", "ud": "por unidad",
    "ud.": "por unidad", "unidad": "por unidad", "u.": "por unidad", "kWh": "por kilovatio hora",
    "min": "por minuto", "minuto": "por minuto", "t": "por tonelada", "GB": "por gigabyte",
    "km": "por kilómetro", "pieza": "por pieza", "trimestre": "al trimestre",
    "docena": "por docena",
    "barril": "por barril", "usuario": "por usuario", "m": "por metro", "g": "por gramo",
}  # fmt: skip
