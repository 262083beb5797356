"""Spanish words for values.

What was chosen where readers differ:
- kings and centuries up to the tenth by ordinals, later ones by cardinals;
- times as people say them up to twelve ("nueve y cuarto"), by the clock of 24 hours where they are
  written so ("catorce cero cinco");
- telephone numbers digit by digit; percentages without agreement ("veintiuno por ciento").
"""

from __future__ import annotations

import re
from functools import lru_cache

from anyrig.speech.normalize.romance import Noun, RomanceVerbalizer
from anyrig.text import values as v
from anyrig.text.recognizers.languages import spanish as tables

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
_SCALES = {3: ("mil", "mil"), 6: ("millón", "millones"), 9: ("mil millones", "mil millones"),
           12: ("billón", "billones")}  # fmt: skip
_UNITS = {
    "inhabitant": "habitante", "point": "punto", "peseta": "peseta",
    "person": "persona", "item": "unidad", "page": "página",
    "beat-per-minute": "latido por minuto",
    "room": "habitación", "quintal": "quintal", "cent": "céntimo", "tablet": "comprimido",
    "capsule": "cápsula",
    "drop": "gota", "vial": "ampolla",
    "length-hectometer": "hectómetro",
    "watt-hour": "vatio hora", "ampere-hour": "amperio hora", "volt-ampere": "voltamperio",
    "electron-volt": "electronvoltio", "farad": "faradio", "henry": "henrio", "tesla": "tesla",
    "coulomb": "culombio", "becquerel": "becquerel", "sievert": "sievert", "gray": "gray",
    "curie": "curio", "molar": "molar", "candela": "candela", "dalton": "dalton",
    "parsec": "pársec", "equivalent": "equivalente", "osmole": "osmol", "angstrom": "ángstrom",
    "torr": "torr", "kilogram-force": "kilo de fuerza",
    "part-per-billion": "parte por mil millones",
    "power-watt": "vatio", "bar": "bar", "bit-per-second": "bit por segundo",
    "decibel": "decibelio", "horsepower": "caballo", "part-per-million": "parte por millón",
    "revolution-per-minute": "revolución por minuto",
    "frame-per-second": "fotograma por segundo", "year": "año", "light-lux": "lux",
    "serving": "ración", "basis-point": "punto básico", "percentage-point": "punto porcentual",
    "piece": "pieza",
    "international-unit": "unidad internacional",
    "meter-above-sea": "metro sobre el nivel del mar",
}  # fmt: skip
_CURRENCIES = {
    "EUR": "euro", "USD": "dólar", "GBP": "libra", "JPY": "yen", "CHF": "franco suizo",
    "MXN": "peso mexicano", "ARS": "peso argentino", "COP": "peso colombiano",
    "CLP": "peso chileno", "PEN": "sol", "UYU": "peso uruguayo", "BRL": "real brasileño",
    "CNY": "yuan", "INR": "rupia", "RUB": "rublo", "BTC": "bitcoin", "CAD": "dólar canadiense",
    "AUD": "dólar australiano", "pesos": "peso", "¢": "centavo", "BOB": "boliviano",
    "CRC": "colón", "KRW": "won", "ESP": "peseta", "ESR": "real", "SEK": "corona sueca",
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
_ADDRESS_SIGNS = {
    ".": "punto", "@": "arroba", "/": "barra", "-": "guion", "_": "guion bajo", ":": "dos puntos",
    "?": "interrogación", "=": "igual", "&": "y", "+": "más", "#": "almohadilla",
    "%": "por ciento", "~": "virgulilla", "\\": "barra invertida",
}  # fmt: skip


@lru_cache(maxsize=4096)
def _cardinal(number: int, gender: str) -> str:
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


class Spanish(RomanceVerbalizer):
    language = "es"
    months, weekdays = tables.MONTHS, tables.WEEKDAYS
    leads = {"-": "menos ", "+": "más ", "±": "más menos ", "~": "aproximadamente "}
    signs, address_signs = _SIGNS, _ADDRESS_SIGNS
    greek = (
        "alfa beta gamma delta épsilon dseta eta zeta iota kappa lambda mi ni xi "
        "ómicron pi ro sigma tau ípsilon fi ji psi omega gamma delta zeta lambda xi pi "
        "sigma fi psi omega"
    )
    units, currencies = _UNITS, _CURRENCIES
    prefixes = {"milli": "mili"}
    feminine_units = re.compile(r"a(?: |$)|^(?:libra|onza|hora|tonelada)")
    to, and_, over, by, per, times = "a", "y", "sobre", "por", "por", "por"
    point, thousand = "punto", "mil"
    powers = {"2": "al cuadrado", "3": "al cubo", "^": "elevado a"}
    percent = {"concentr-percent": "por ciento", "concentr-permille": "por mil"}
    durations = (("hora", "horas", "f"), ("minuto", "minutos", "m"), ("segundo", "segundos", "m"))
    spoken_endings = frozenset("MX FR CL BR DE".split())

    def cardinal(self, number: int, gender: str = "") -> str:
        """`veintiuno`; before a noun `veintiún` or `veintiuna`."""
        return _cardinal(number, gender)

    def decimal_mark(self, value: v.Number) -> str:
        return "punto" if value.point else "coma"

    def join_scale(self, words: str, value: v.Number) -> str:
        single = value.digits == "1" and not value.decimals
        return f"{words} {_SCALES[value.scale][0 if single else 1]}"

    def ordinal(self, number: int, gender: str = "") -> str:
        """`primero`, `decimotercera`; `primer`, `tercer` before a masculine noun."""
        if not 0 < number < 1000:
            return self.cardinal(number)
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

    def join_fraction(self, above: int, below: int) -> str:
        """`tres cuartos`, `un onceavo`, `dos sobre ciento veinte`."""
        part = _PARTS.get(below, "")
        if not part and 11 <= below <= 99:
            stem = self.cardinal(below).replace(" y ", "i").translate(str.maketrans("éó", "eo"))
            part = f"{re.sub('uno$', 'un', stem).removesuffix('a')}avo"
        if not part:
            return f"{self.cardinal(above)} sobre {self.cardinal(below)}"
        return f"{self.cardinal(above, 'm')} {part}{'' if above == 1 else 's'}"

    def speak_date(self, value: v.Date) -> str:
        words = self.months[value.month - 1]
        if value.day:
            words = f"{self.cardinal(value.day)} de {words}"
        if value.weekday is not None:
            words = f"{self.weekdays[value.weekday]} {words}"
        if value.year is None:
            return words
        return f"{words} {'del' if value.article else 'de'} {self.cardinal(value.year)}"

    def speak_time(self, value: v.Time) -> str:
        if value.style.startswith("railway"):
            words = self.cardinal(value.hour, "f")
            if value.minute:
                words += f" {'cero ' if value.minute < 10 else ''}{self.cardinal(value.minute)}"
        else:
            words = self._clock(value.hour, value.minute)
        if value.style.endswith("hours"):
            words += " hora" if value.hour == 1 and not value.minute else " horas"
        if value.half:
            words += f" {_part_of_day(value.hour, value.half == 'p')}"
        return words

    def _clock(self, hour: int, minute: int) -> str:
        """As people say it: `nueve y cuarto`, `diez y media`, `diez cuarenta y cinco`."""
        words = self.cardinal(hour, "f")
        if not minute:
            return words
        if named := {15: "y cuarto", 30: "y media"}.get(minute):
            return f"{words} {named}"
        return f"{words} {'y ' if minute < 30 else ''}{self.cardinal(minute)}"

    def speak_duration(self, value: v.Duration) -> str:
        if None in (value.hours, value.minutes, value.seconds):
            return super().speak_duration(value)
        first = super().speak_duration(v.Duration(value.hours, value.minutes))
        return f"{first} y {super().speak_duration(v.Duration(seconds=value.seconds))}"

    def inflect(self, phrase: str) -> Noun:
        noun, space, rest = phrase.partition(" ")
        gender = "f" if re.search(r"a$|dad$|ción$", noun) else "m"
        adjective = rest and not rest.startswith(("por ", "de ", "hora", "sobre "))
        many = f"{tables.pluralize(noun)}{space}{tables.pluralize(rest) if adjective else rest}"
        return phrase, many, gender

    def raise_noun(self, noun: Noun, power: int, unit: str) -> Noun:
        one, many, gender = noun
        if unit.startswith("duration"):
            return f"{one} al cuadrado", f"{many} al cuadrado", gender
        adjective = ("cuadrad" if power == 2 else "cúbic") + ("a" if gender == "f" else "o")
        return f"{one} {adjective}", f"{many} {adjective}s", gender

    def join_unit_fraction(self, amount: v.Fraction, noun: Noun) -> str:
        half = (amount.above, amount.below) == (1, 2)
        part = self.join_fraction(amount.above, amount.below)
        if half:
            part = "media" if noun[2] == "f" else "medio"
        if amount.whole is not None:
            return f"{self.count(v.Number(str(amount.whole)), noun)} y {part}"
        return f"{part} {noun[0]}" if half else f"{part} de {noun[0]}"

    def join_cents(self, whole: v.Number, cents: int, currency: str) -> str:
        small = self.count(v.Number(str(cents)), self.inflect(_COINS.get(currency, "centavo")))
        if not int(whole.digits):
            return self.leads.get(whole.sign, "") + small
        return f"{self.count(whole, self.inflect(self.currencies[currency]))} con {small}"


def _part_of_day(hour: int, afternoon: bool) -> str:
    if afternoon:
        if hour == 12:
            return "del mediodía"
        return "de la noche" if 8 <= hour <= 11 or hour > 20 else "de la tarde"
    return "de la noche" if hour == 12 else "de la mañana"


speak = Spanish().speak
