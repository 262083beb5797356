"""What the verbalizers of Spanish and French share; each adds its words, numbers and dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from anyrig.speech.normalize import spell, split_exponent
from anyrig.text import values as v

Noun = tuple[str, str, str]
"""Singular, plural and gender."""
_GREEK = "αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ"


class RomanceVerbalizer:
    """Words for values: `speak` calls the method for a value's class."""

    language: str
    months: list[str]
    weekdays: list[str]
    leads: Mapping[str, str]
    """What a number's sign is called."""
    signs: Mapping[str, str]
    greek: str
    """The names of the Greek letters, small ones first."""
    address_signs: Mapping[str, str]
    units: Mapping[str, str]
    """Units that CLDR lacks, or calls by a name that nobody says."""
    prefixes: Mapping[str, str]
    """Of metric units, where they differ from the international ones."""
    feminine_units: re.Pattern[str]
    currencies: Mapping[str, str]
    to: str
    """Between the ends of a range."""
    and_: str
    over: str
    """Between the two numbers of a fraction, and the sides of what is measured (`by`)."""
    by: str
    per: str
    point: str
    times: str
    thousand: str
    powers: Mapping[str, str]
    """`2` and `3`, and `^` for any other exponent."""
    percent: Mapping[str, str]
    durations: tuple[Noun, Noun, Noun]
    """Hours, minutes, seconds."""
    spoken_endings: frozenset[str] = frozenset()
    """Ends of addresses without a vowel that are said as a word all the same."""
    min_spelled = 2
    """Letters without a vowel in an address are spelled from this many on."""

    def speak(self, value: v.Value) -> str:
        """The words for a value."""
        words: str = getattr(self, f"speak_{type(value).__name__.lower()}")(value)
        return words

    # What differs between the languages

    def cardinal(self, number: int, gender: str = "") -> str:
        raise NotImplementedError

    def ordinal(self, number: int, gender: str = "") -> str:
        raise NotImplementedError

    def name_number(self, number: int) -> str:
        """A number that names and does not count: a page, a year."""
        return self.cardinal(number)

    def join_scale(self, words: str, value: v.Number) -> str:
        """A number and its millions."""
        raise NotImplementedError

    def join_fraction(self, above: int, below: int) -> str:
        raise NotImplementedError

    def join_unit_fraction(self, amount: v.Fraction, noun: Noun) -> str:
        """A part of a unit: `medio litro`, `trois quarts d'heure`."""
        raise NotImplementedError

    def join_cents(self, whole: v.Number, cents: int, currency: str) -> str:
        raise NotImplementedError

    def inflect(self, phrase: str) -> Noun:
        """The forms of a noun and the adjective behind it."""
        raise NotImplementedError

    def raise_noun(self, noun: Noun, power: int, unit: str) -> Noun:
        """`metro cuadrado`."""
        raise NotImplementedError

    def is_plural(self, amount: v.Number) -> bool:
        return not amount.is_one

    def with_de(self, noun: str) -> str:
        return f"de {noun}"

    def decimal_mark(self, value: v.Number) -> str:
        raise NotImplementedError

    # Numbers

    def digits(self, written: str) -> str:
        return " ".join(self.cardinal(int(digit)) for digit in written if digit.isdecimal())

    def whole(self, written: str, gender: str = "") -> str:
        if len(written) > 15 or (len(written) > 1 and written[0] == "0"):
            return self.digits(written)
        return self.cardinal(int(written or "0"), gender)

    def decimals(self, written: str) -> str:
        """Up to three digits are read as a number, more one by one; leading zeros are said."""
        rest = written.lstrip("0")
        if len(rest) > 3 or not rest:
            return self.digits(written)
        zeros = [self.cardinal(0)] * (len(written) - len(rest))
        return " ".join([*zeros, self.cardinal(int(rest))])

    def speak_number(self, value: v.Number, gender: str = "") -> str:
        """With its sign, decimals and scale: `menos doce coma cinco`, `trois millions`."""
        if value.scale == 3 and value.digits == "1" and not value.decimals:
            return self.thousand
        if value.decimals:
            mark = self.decimal_mark(value)
            words = f"{self.whole(value.digits)} {mark} {self.decimals(value.decimals)}"
        else:
            words = self.whole(value.digits, "m" if value.scale else gender or value.gender)
        if value.scale:
            words = self.join_scale(words, value)
        return self.leads.get(value.sign, "") + words

    def speak_label(self, value: v.Label) -> str:
        if value.digits.startswith("0") or len(value.digits) > 15:
            return self.digits(value.digits)
        return self.name_number(int(value.digits))

    def speak_year(self, value: v.Year) -> str:
        return self.name_number(value.number)

    def speak_decade(self, value: v.Decade) -> str:
        return self.name_number(value.number)

    def speak_ordinal(self, value: v.Ordinal) -> str:
        return self.ordinal(value.number, value.gender) + ("s" if value.plural else "")

    def speak_roman(self, value: v.Roman) -> str:
        return (self.ordinal if value.ordinal else self.cardinal)(value.number)

    def speak_fraction(self, value: v.Fraction) -> str:
        lead = self.leads.get(value.sign, "")
        if value.style == "over" or value.below < 2:
            words = f"{self.cardinal(value.above)} {self.over} {self.cardinal(value.below)}"
        else:
            words = self.join_fraction(value.above, value.below)
        if value.style == "bare":
            words = words.removeprefix("un ")
        if value.whole is None:
            return lead + words
        return f"{lead}{self.cardinal(value.whole)} {self.and_} {words}"

    def speak_version(self, value: v.Version) -> str:
        return f" {self.point} ".join(map(self.whole, value.parts))

    def speak_digits(self, value: v.Digits) -> str:
        groups = ", ".join(self.digit_group(group, value) for group in value.groups)
        return self.leads["+"] + groups if value.plus else groups

    def digit_group(self, group: str, value: v.Digits) -> str:
        parts = re.findall(r"\d+|[^\W\d_]+", group)
        return " ".join(self.digits(part) if part.isdecimal() else spell(part) for part in parts)

    def speak_power(self, value: v.Power) -> str:
        base = value.base if isinstance(value.base, str) else self.speak(value.base)
        of_ten = isinstance(value.base, v.Number) and value.base.digits == "10"
        exponent = "" if of_ten else self.powers.get(value.exponent, "")
        if not exponent:
            sign = "-" if value.exponent.startswith(("-", "−")) else ""
            digits, letters = split_exponent(value.exponent)
            words = [self.speak_number(v.Number(digits, sign=sign))] if digits else []
            exponent = " ".join([self.powers["^"], *words, *letters])
        factor = f"{self.speak_number(value.factor)} {self.times} " if value.factor else ""
        return f"{factor}{base} {exponent}"

    def speak_range(self, value: v.Range) -> str:
        return f"{self.speak(value.first)} {value.link or self.to} {self.speak(value.last)}"

    def speak_score(self, value: v.Score) -> str:
        return f" {self.to} ".join(map(self.speak_number, value.numbers))

    # Measures and money

    def speak_duration(self, value: v.Duration) -> str:
        counts = (value.hours, value.minutes, value.seconds)
        parts = [
            self.count(v.Number(str(count)), noun)
            for count, noun in zip(counts, self.durations, strict=True)
            if count is not None
        ]
        return " ".join(parts)

    def name_unit(self, unit: str, power: int = 1) -> Noun:
        prefix, _, base = unit.rpartition("+")
        noun = self.inflect(self.units[base]) if base in self.units else self._cldr_unit(base)
        if prefix:
            lead = self.prefixes.get(prefix, prefix)
            noun = lead + noun[0], lead + noun[1], noun[2]
        return self.raise_noun(noun, power, base) if power > 1 else noun

    def _cldr_unit(self, unit: str) -> Noun:
        one, many = _format_unit(unit, self.language)
        return one, many, "f" if self.feminine_units.search(one) else "m"

    def count(self, amount: v.Number, noun: Noun) -> str:
        one, many, gender = noun
        if amount.scale:
            return (
                f"{self.speak_number(amount)} {many if amount.scale == 3 else self.with_de(many)}"
            )
        words = many if self.is_plural(amount) else one
        whole = int(amount.digits) if not amount.decimals and len(amount.digits) <= 15 else 0
        if whole and whole % 1_000_000 == 0:
            words = self.with_de(words)
        return f"{self.speak_number(amount, gender)} {words}"

    def speak_measure(self, value: v.Measure) -> str:
        if words := self.percent.get(value.unit):
            return f"{self.speak(value.amount)} {words}" if value.amount else words
        noun = self.name_unit(value.unit, value.power)
        match value.amount:
            case v.Range(v.Number() as first, v.Number() as last, link):
                begin = self.speak_number(first, noun[2])
                return f"{begin} {link or self.to} {self.count(last, noun)}"
            case v.Fraction(style="over") as amount:
                return f"{self.speak_fraction(amount)} {noun[1]}"
            case v.Fraction() as amount:
                return self.join_unit_fraction(amount, noun)
            case v.Number() as amount:
                return self.count(amount, noun)
        return noun[1]

    def speak_money(self, value: v.Money) -> str:
        noun, amount = self.inflect(self.currencies[value.currency]), value.amount
        match amount:
            case v.Range(v.Number() as first, v.Number() as last, link):
                end = self.speak_money(v.Money(last, value.currency))
                return f"{self.speak_number(first)} {link or self.to} {end}"
            case v.Number(digits, decimals, sign, scale):
                cents = 0 if scale or len(decimals) > 2 else int(decimals.ljust(2, "0") or "0")
                if cents:
                    return self.join_cents(v.Number(digits, sign=sign), cents, value.currency)
                if scale or len(decimals) > 2:
                    return self.count(amount, noun)
                return self.count(v.Number(digits, sign=sign), noun)
        raise TypeError(f"no sum of money: {amount}")

    def speak_rate(self, value: v.Rate) -> str:
        return f"{self.speak(value.amount)} {self.per} {self.name_unit(value.per, value.power)[0]}"

    def speak_dimensions(self, value: v.Dimensions) -> str:
        return f" {self.by} ".join(map(self.speak, value.parts))

    # Letters, addresses, signs

    def speak_letters(self, value: v.Letters) -> str:
        return spell(value.letters) + value.suffix

    def speak_abbreviation(self, value: v.Abbreviation) -> str:
        return value.words

    def speak_web(self, value: v.Web) -> str:
        return self.speak_address(value.address)

    def speak_identifier(self, value: v.Identifier) -> str:
        return self.speak_address(value.name)

    def speak_address(self, written: str) -> str:
        """Sign by sign; letters that cannot be said as a word are spelled."""
        words = []
        for part in re.findall(r"\d+|[^\W\d_]+|.", written, re.DOTALL):
            if part.isdecimal():
                long = len(part) > 4 or part[0] == "0"
                words.append(self.digits(part) if long else self.cardinal(int(part)))
            elif part.isalpha():
                upper = part.upper()
                short = self.min_spelled <= len(upper) <= 4
                spelled = short and not re.search("[AEIOUYÁÉÍÓÚ]", upper)
                words.append(spell(upper) if spelled and upper not in self.spoken_endings else part)
            elif part in self.address_signs:
                words.append(self.address_signs[part])
        return " ".join(words)

    def speak_formula(self, value: v.Formula) -> str:
        """Elements letter by letter, counts as numbers: `C O dos`."""
        return " ".join(
            self.leads[part].strip()
            if part in "+-"
            else self.cardinal(int(part))
            if part.isdecimal()
            else spell(part.upper())
            for part in value.parts
        )

    def speak_sign(self, value: v.Sign) -> str:
        if value.sign in self.signs:
            return self.signs[value.sign]
        return dict(zip(_GREEK, self.greek.split(), strict=True)).get(value.sign, "")

    def speak_silence(self, value: v.Silence) -> str:
        return " " if value.space else ""

    def speak_phrase(self, value: v.Phrase) -> str:
        """Words and values with a space between; an empty part makes a space at an end."""
        parts = (part if isinstance(part, str) else self.speak(part) for part in value.parts)
        return " ".join(parts).replace(" ,", ",")


@lru_cache(maxsize=512)
def _format_unit(unit: str, language: str) -> tuple[str, str]:
    """One and two of a unit, as CLDR has them, without the number."""
    from babel.units import format_unit

    one, many = (
        format_unit(count, unit, length="long", locale=language).replace(str(count), "").strip()
        for count in (1, 2)
    )
    return one.replace("’", "'"), many.replace("’", "'")
