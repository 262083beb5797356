"""French words for values.

What was chosen where readers differ:
- telephone numbers in groups of two digits;
- "kilomètres par heure", "et cetera", sums with cents without "centimes" ("trois euros cinquante").
"""

from __future__ import annotations

import re
from functools import lru_cache

from anyrig.speech.normalize.romance import Noun, RomanceVerbalizer
from anyrig.text import values as v
from anyrig.text.recognizers.languages import french as tables

_SCALES = {3: "mille", 6: "million", 9: "milliard", 12: "billion"}
_UNITS = {
    "inhabitant": "habitant", "person": "personne", "item": "unité", "piece": "pièce",
    "beat-per-minute": "battement par minute", "page": "page",
    "quintal": "quintal", "cent": "centime", "tablet": "comprimé", "capsule": "gélule",
    "drop": "goutte", "vial": "ampoule", "length-hectometer": "hectomètre",
    "watt-hour": "wattheure", "ampere-hour": "ampère-heure", "volt-ampere": "voltampère",
    "electron-volt": "électronvolt", "farad": "farad", "henry": "henry", "tesla": "tesla",
    "coulomb": "coulomb", "becquerel": "becquerel", "sievert": "sievert", "gray": "gray",
    "curie": "curie", "molar": "molaire", "candela": "candela", "dalton": "dalton",
    "parsec": "parsec", "equivalent": "équivalent", "osmole": "osmole", "angstrom": "angström",
    "torr": "torr", "kilogram-force": "kilogramme-force", "part-per-billion": "partie par milliard",
    "bar": "bar", "decibel": "décibel", "bit-per-second": "bit par seconde",
    "revolution-per-minute": "tour par minute",
    "horsepower": "cheval", "part-per-million": "partie par million",
    "turn-per-minute": "tour par minute", "year": "an",
    "basis-point": "point de base", "percentage-point": "point de pourcentage",
    "international-unit": "unité internationale", "frame-per-second": "image par seconde",
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
_ADDRESS_SIGNS = {
    ".": "point", "@": "arobase", "/": "slash", "-": "tiret", "_": "tiret bas", ":": "deux points",
    "?": "point d'interrogation", "=": "égale", "&": "et", "+": "plus", "#": "dièse",
    "%": "pour cent", "~": "tilde", "\\": "antislash",
}  # fmt: skip


@lru_cache(maxsize=4096)
def _cardinal(number: int, gender: str) -> str:
    from num2words import num2words

    words: str = num2words(number, lang="fr")
    return re.sub(r"\bun$", "une", words) if gender == "f" else words


class French(RomanceVerbalizer):
    language = "fr"
    months, weekdays = tables.MONTHS, tables.WEEKDAYS
    leads = {"-": "moins ", "+": "plus ", "±": "plus ou moins ", "~": "environ "}
    signs, address_signs = _SIGNS, _ADDRESS_SIGNS
    greek = (
        "alpha bêta gamma delta epsilon zêta êta thêta iota kappa lambda mu nu xi "
        "omicron pi rhô sigma tau upsilon phi chi psi oméga gamma delta thêta lambda "
        "xi pi sigma phi psi oméga"
    )
    units, currencies = _UNITS, _CURRENCIES
    prefixes = {"mega": "méga", "tera": "téra", "peta": "péta", "deci": "déci"}
    feminine_units = _FEMININE
    to, and_, over, by, per, times = "à", "et", "sur", "sur", "par", "fois"
    point, thousand = "point", "mille"
    powers = {"2": "au carré", "3": "au cube", "^": "puissance"}
    percent = {"concentr-percent": "pour cent", "concentr-permille": "pour mille"}
    durations = (("heure", "heures", "f"), ("minute", "minutes", "f"), ("seconde", "secondes", "f"))
    min_spelled = 3

    def cardinal(self, number: int, gender: str = "") -> str:
        """`vingt et un`, before a feminine noun `vingt et une`."""
        return _cardinal(number, gender)

    def name_number(self, number: int) -> str:
        """Page quatre-vingt, les années quatre-vingt."""
        return _drop_plural(self.cardinal(number))

    def decimal_mark(self, value: v.Number) -> str:
        return "virgule"

    def join_scale(self, words: str, value: v.Number) -> str:
        if value.scale == 3:
            return f"{_drop_plural(words)} mille"  # deux cent mille
        return f"{words} {_SCALES[value.scale]}{'s' if self.is_plural(value) else ''}"

    def is_plural(self, amount: v.Number) -> bool:
        """From two on; one and a half is still singular."""
        return int(amount.digits) >= 2

    def ordinal(self, number: int, gender: str = "") -> str:
        """`premier`, `première`, `vingt et unième`, `quatre-vingtième`."""
        if number == 1:
            return "première" if gender == "f" else "premier"
        words = re.sub(r"(million|milliard)s$", r"\1", self.name_number(number))
        if words.endswith("cinq"):
            return f"{words}uième"
        if words.endswith("neuf"):
            return f"{words[:-1]}vième"
        return f"{words.removesuffix('e')}ième"

    def join_fraction(self, above: int, below: int) -> str:
        part = {2: "demi", 3: "tiers", 4: "quart"}.get(below) or self.ordinal(below)
        many = "s" if above > 1 and not part.endswith("s") else ""
        return f"{self.cardinal(above)} {part}{many}"

    def digit_group(self, group: str, value: v.Digits) -> str:
        """A group of a telephone number is a number: zéro un, vingt-trois."""
        if not value.by_group:
            return super().digit_group(group, value)
        if group.startswith("0") and len(group) > 1:
            return f"zéro {self.digit_group(group[1:], value)}"
        return self.cardinal(int(group)) if len(group) <= 3 else self.digits(group)

    def speak_date(self, value: v.Date) -> str:
        words = self.months[value.month - 1]
        if value.day:
            words = f"{'premier' if value.day == 1 else self.cardinal(value.day)} {words}"
        if value.weekday is not None:
            words = f"{self.weekdays[value.weekday]} {words}"
        return words if value.year is None else f"{words} {self.name_number(value.year)}"

    def speak_time(self, value: v.Time) -> str:
        if value.second is not None:
            return self.speak_duration(v.Duration(value.hour, value.minute, value.second))
        words = self.speak_duration(v.Duration(value.hour))
        if not value.minute:
            return words
        feminine = "f" if value.minute % 10 == 1 and value.minute != 11 else ""
        return f"{words} {self.cardinal(value.minute, feminine)}"

    def inflect(self, phrase: str) -> Noun:
        noun, space, rest = phrase.partition(" ")
        gender = "f" if _FEMININE.match(phrase) else "m"
        adjective = rest and not rest.startswith(("par ", "CFA", "sterling"))
        many = noun.replace("-", "s-") if "-" in noun else _plural(noun)
        return phrase, f"{many}{space}{_plural(rest) if adjective else rest}", gender

    def raise_noun(self, noun: Noun, power: int, unit: str) -> Noun:
        one, many, gender = noun
        if power == 2:
            return f"{one} carré{'e' if gender == 'f' else ''}", f"{many} carrés", gender
        return f"{one} cube", f"{many} cubes", gender

    def with_de(self, noun: str) -> str:
        """`d'euros`, `de dollars`."""
        return f"d'{noun}" if noun[0] in "aeiouéh" else f"de {noun}"

    def join_unit_fraction(self, amount: v.Fraction, noun: Noun) -> str:
        half = (amount.above, amount.below) == (1, 2)
        part = self.join_fraction(amount.above, amount.below)
        if amount.whole is not None:
            if half:
                part = "demie" if noun[2] == "f" else "demi"
            return f"{self.count(v.Number(str(amount.whole)), noun)} et {part}"
        if half:
            return f"{'une' if noun[2] == 'f' else 'un'} demi-{noun[0]}"
        return f"{part} {self.with_de(noun[0])}"

    def join_cents(self, whole: v.Number, cents: int, currency: str) -> str:
        if not int(whole.digits):
            coin, coins = _COINS.get(currency, ("centime", "centimes"))
            lead = self.leads.get(whole.sign, "")
            return f"{lead}{self.cardinal(cents)} {coin if cents == 1 else coins}"
        return (
            f"{self.count(whole, self.inflect(self.currencies[currency]))} {self.cardinal(cents)}"
        )


def _drop_plural(words: str) -> str:
    """Quatre-vingts and deux cents without their s."""
    return re.sub(r"(vingt|cent)s$", r"\1", words)


def _plural(word: str) -> str:
    if word.endswith("al") and word not in ("pascal", "quintal"):
        return f"{word[:-2]}aux"
    return word if word.endswith("s") else f"{word}s"


speak = French().speak
