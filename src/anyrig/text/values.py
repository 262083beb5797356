"""What a stretch of written text means: the typed values of tokens.

A value says what was written, in no language's words: `Time(17, 0, half="p")`. A verbalizer
(`speech/normalize/english.py`) makes words of it. Digits are kept as text where leading zeros or
length matter. `Phrase` puts values and plain words of the text's own language in a row.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A count: `-1,200.05` is Number("1200", "05", "-"), `3 million` is Number("3", scale=6)."""

    digits: str
    decimals: str = ""
    sign: str = ""
    """`-`, `+`, `±`, `~` (approximately), `<` or `>`."""
    scale: int = 0
    """A power of ten that is said as a word: 2, 3, 5 (lakh), 6, 7 (crore), 9 or 12."""
    gender: str = ""
    """`m` or `f`, where the language of the noun behind it needs one."""
    point: bool = False
    """Whether a point stood before the decimals, where the language writes a comma."""

    @property
    def is_one(self) -> bool:
        """Whether what is counted stands in the singular."""
        return self.digits == "1" and not self.decimals and not self.scale


@dataclass(frozen=True, slots=True)
class Ordinal:
    """`3rd`, `2ª`, `XIVe`."""

    number: int
    gender: str = ""
    """`m` before a masculine noun (el primer piso), `f`; empty where it stands alone."""
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Fraction:
    """`3 1/2`, `½`, and a share such as `9/10 of the sites`."""

    above: int
    below: int
    whole: int | None = None
    sign: str = ""
    style: str = ""
    """`over` (`25 over 36`) or `rate` (`nine out of ten dentists`); empty for halves, thirds ..."""


@dataclass(frozen=True, slots=True)
class Year:
    """`1905`, `44 BC`."""

    number: int
    era: str = ""
    """As it is spelled: `BC`, `AD`, `a. C.`."""
    era_first: bool = False


@dataclass(frozen=True, slots=True)
class Decade:
    """`the 1980s`, `the '80s` (short)."""

    number: int
    short: bool = False


@dataclass(frozen=True, slots=True)
class Date:
    """A day, a month, a year or any two of them; a weekday before."""

    day: int = 0
    month: int = 0
    year: int | None = None
    weekday: int | None = None
    """0 is Monday."""
    day_first: bool = False
    article: str = ""
    """The article as it stood before the day."""
    short_year: bool = False


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day."""

    hour: int
    minute: int = 0
    second: int | None = None
    half: str = ""
    """`a` or `p` where the text says so, with its language's word for it elsewhere."""
    zone: str = ""
    """Letters: `EST`, `GMT`."""
    style: str = ""
    """`military` for `0600 hours`; `hours` for `14h30`; empty for the clock."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: `1h 30m`, `14:27` of a run."""

    hours: int | None = None
    minutes: int | None = None
    seconds: int | None = None
    decimals: str = ""
    """Of the seconds."""


@dataclass(frozen=True, slots=True)
class Money:
    """A sum; the currency is an ISO code, or the sign where it has none."""

    amount: Number | Fraction | Range
    currency: str
    attributive: bool = False
    """Before a noun: a twenty dollar bill."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An amount of a unit, which is a key of the table of units: `km`, `sq ft`, `%`."""

    amount: Number | Fraction | Range | None
    """None for a unit alone."""
    unit: str
    power: int = 1
    attributive: bool = False
    """Before a noun: a ten kilometer run."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So much per so much: `30k/yr`, `hab./km²`, `$5/lb`."""

    amount: Value
    per: str
    """A unit's key, or a word of the text."""
    power: int = 1


@dataclass(frozen=True, slots=True)
class Range:
    """`10-20`, `May 3-5`, `$5 or $10`; `link` is a word of the text or empty."""

    first: Value
    last: Value
    link: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """`21-14`, `3:1` of a match; a ratio; `50-50` (even)."""

    numbers: tuple[Number, ...]
    style: str = ""
    """`ratio`, `even` (fifty-fifty) or empty for a score."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """`8.5 x 11 in`: values said with `by` between them."""

    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Digits:
    """Digits said one by one, a rest after each group: phone numbers, ISBN, postal codes."""

    groups: tuple[str, ...]
    """Letters in a group are spelled."""
    plus: bool = False
    extension: str = ""
    by_group: bool = False
    """Whether each group is said as a number, as French telephone numbers are."""


@dataclass(frozen=True, slots=True)
class Label:
    """A number that names a thing and counts nothing: room 101, flight 249, model 4090."""

    digits: str
    suffix: str = ""
    """Said with it: the 747s, the 49ers."""


@dataclass(frozen=True, slots=True)
class Version:
    """Numbers between points: `2.0.1`; `dots` where people say dot (an internet address)."""

    parts: tuple[str, ...]
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Roman:
    """A Roman numeral; `ordinal` after a ruler's name or before `century`."""

    number: int
    ordinal: bool = False
    article: bool = False
    """Whether the language's article is said before it: Henry the Eighth."""


@dataclass(frozen=True, slots=True)
class Letters:
    """Letters said by their names: `CIA`, `a.m.`; `suffix` is said with the last: IPOs."""

    letters: str
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Abbreviation:
    """A shortened word and the words it stands for, in the text's own language."""

    words: str


@dataclass(frozen=True, slots=True)
class Web:
    """An address, a path, a file's name: said sign by sign."""

    address: str


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name in code, a handle, a hashtag: said as the words it is made of."""

    name: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A chemical formula: element symbols, counts, charges, in order."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Power:
    """`x²`, `10^-3`, `2.5 × 10⁶`."""

    base: Value | str
    exponent: str
    factor: Number | None = None


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign that is said as a word: `&`, `≤`, `©`."""

    sign: str
    between: bool = False
    """Whether it stands between two things: is less than."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Something that is not read: an emoji, a note's number."""

    space: bool = False


@dataclass(frozen=True, slots=True)
class Phrase:
    """Values and plain words (strings) in a row, with a space between two of them."""

    parts: tuple[Value | str, ...]


Value = (
    Number | Ordinal | Fraction | Year | Decade | Date | Time | Duration | Money | Measure | Rate
    | Range | Score | Dimensions | Digits | Label | Version | Roman | Letters | Abbreviation | Web
    | Identifier | Formula | Power | Sign | Silence | Phrase
)  # fmt: skip
