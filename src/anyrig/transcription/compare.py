"""How far a transcript is from the text, in words.

Spelling is not speech, so both sides become readings first: a number may be written in digits or in
words and read in several ways, `Mr.` is `mister`, `colour` is `color`, `light house` is
`lighthouse`. Of several fair readings the one that fits best counts: both texts are graphs with a
path for each reading, and the edit distance is that of the closest two paths.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from anyrig.text.roman_numerals import roman_value

Reading = tuple[str, ...]
ReadingChoice = tuple[Reading, ...]
"""The fair readings of something written; the first is the usual one."""

# One of two spellings, or the long form of a short one.
_SAME = {
    "mr": "mister", "mrs": "missus", "missis": "missus", "dr": "doctor", "prof": "professor",
    "lt": "lieutenant", "capt": "captain", "sgt": "sergeant", "col": "colonel", "gen": "general",
    "rev": "reverend", "hon": "honorable", "jr": "junior", "sr": "senior", "ave": "avenue",
    "blvd": "boulevard", "rd": "road", "mt": "mount", "ft": "feet", "etc": "et cetera",
    "vs": "versus", "ok": "okay", "alright": "all right", "cannot": "can not", "percent":
    "per cent", "grey": "gray", "toward": "towards", "centre": "center", "theatre": "theater",
    "metre": "meter", "metres": "meters", "kilometre": "kilometer", "kilometres": "kilometers",
    "litre": "liter", "litres": "liters", "programme": "program", "travelled": "traveled",
    "travelling": "traveling", "traveller": "traveler", "jewellery": "jewelry", "grandad":
    "granddad", "storey": "story", "cheque": "check", "tyre": "tire", "plough": "plow", "sceptical":
    "skeptical", "defence": "defense", "offence": "offense", "licence": "license", "fulfil":
    "fulfill", "skilful": "skillful", "whisky": "whiskey", "ageing": "aging", "moustache":
    "mustache", "oclock": "o'clock", "zeroth": "zero", "oh": "o", "gonna": "going to",
    "wanna": "want to", "gotta": "got to", "til": "till", "until": "till", "omelette": "omelet",
}  # fmt: skip
_OUR = re.compile(
    r"^(col|fav|hon|lab|neighb|harb|behavi|hum|rum|vap|vig|flav|sav|arm|od|parl|cand|endeav|splend)"
    r"our(?=s?$|ed$|ing$|able$|ful$|ite$|less$|hood$|ly$)"
)
_ISE = re.compile(r"^([a-z]{3,}[lnrtgdcm])is(e[drs]?|ing|ation|ations)$")
_CONTRACTED = {
    "won't": "will not", "can't": "can not", "shan't": "shall not", "ain't": "is not",
    "let's": "let us", "i'm": "i am", "y'all": "you all", "ma'am": "madam", "'tis": "it is",
}  # fmt: skip
_ENDINGS = (("n't", " not"), ("'re", " are"), ("'ll", " will"), ("'ve", " have"))
_AMBIGUOUS = {"st": (("saint",), ("street",)), "no": (("no",), ("number",))}
_UNITS = {"$": "dollar", "£": "pound", "€": "euro"}
_SCALES = "hundred|thousand|million|billion|trillion"
_PER_CENT = {"en": "per cent", "es": "por ciento", "fr": "pour cent", "de": "prozent"}
_PIECES = re.compile(
    rf"(?P<money>[$£€]\s?\d[\d.,]*\d|[$£€]\s?\d)(?P<scale>\s(?:{_SCALES}))?"
    r"|(?P<time>\d{1,2}:\d\d)"
    r"|(?P<ordinal>\d[\d,]*)(?:st|nd|rd|th)\b"
    r"|(?P<number>\d[\d.,]*\d|\d)(?P<percent>\s?%)?(?P<plural>'?s\b)?"
    r"|(?P<letters>\b(?:[A-Za-z]\.){2,})"
    r"|(?P<word>'?[^\W\d_]+(?:'[^\W\d_]+)*'?)"
    r"|(?P<and>&)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class WordErrors:
    """The difference between two texts."""

    errors: int
    """Words that were changed, left out or added."""
    words: int
    """Of the text."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Text and transcript where they differ; one of the two may be empty."""

    @property
    def rate(self) -> float:
        """Errors for each word; it may be above 1."""
        return self.errors / self.words if self.words else float(self.errors > 0)


def count_word_errors(text: str, transcript: str, language: str = "en") -> WordErrors:
    """The word errors of a transcript."""
    code = language.partition("-")[0].lower() or "en"
    steps = _align(_build_graph(text, code), _build_graph(transcript, code))
    wrong = [step for step in steps if step.cost]
    return WordErrors(
        sum(step.cost for step in wrong),
        sum(step.num_words for step in steps),
        tuple((step.left, step.right) for step in wrong),
    )


@dataclass(frozen=True)
class _WordEdge:
    word: str
    end: int
    num_words: int = 1


@dataclass
class _WordGraph:
    """Readings of a text: every path from the first node to the last is one."""

    edges: list[list[_WordEdge]] = field(default_factory=lambda: [[]])
    """By the node that they leave; every edge leads to a higher node."""
    compounds: list[list[_WordEdge]] = field(default_factory=list)
    """Two words written as one."""

    def add(self, token: ReadingChoice) -> None:
        start = len(self.edges) - 1
        end = start + 1 + sum(len(reading) - 1 for reading in token)
        self.edges += [[] for _ in range(end - start)]
        free = start + 1
        for reading in token:
            at = start
            for word in reading[:-1]:
                self.edges[at].append(_WordEdge(word, free))
                at, free = free, free + 1
            self.edges[at].append(_WordEdge(reading[-1], end))


def _build_graph(text: str, language: str) -> _WordGraph:
    graph = _WordGraph()
    for token in _tokenize(text, language):
        graph.add(token)
    graph.compounds = [
        [
            _WordEdge(one.word + two.word, two.end, 2)
            for one in leaving
            for two in graph.edges[one.end]
        ]
        for leaving in graph.edges
    ]  # fmt: skip
    return graph


@dataclass(frozen=True)
class _AlignmentStep:
    """What the alignment makes of a word of each side; empty where it has none."""

    left: str
    right: str
    cost: int
    num_words: int
    """Of the left side."""
    start: tuple[int, int]


def _align(left: _WordGraph, right: _WordGraph) -> list[_AlignmentStep]:
    """The cheapest way through both graphs, in order."""
    last = len(left.edges) - 1, len(right.edges) - 1
    # Cheapest first, so that only the places near the best way are looked at.
    waiting: deque[tuple[int, tuple[int, int]]] = deque([(0, (0, 0))])
    costs: dict[tuple[int, int], int] = {(0, 0): 0}
    steps: dict[tuple[int, int], _AlignmentStep] = {}
    while waiting:
        here, place = waiting.popleft()
        if place == last:
            break
        if here > costs[place]:
            continue
        for end, one, other, cost, num_words in _list_moves(left, right, *place):
            if here + cost < costs.get(end, 1 << 30):
                costs[end] = here + cost
                steps[end] = _AlignmentStep(one, other, cost, num_words, place)
                (waiting.append if cost else waiting.appendleft)((here + cost, end))
    found: list[_AlignmentStep] = []
    while last != (0, 0):
        found.append(steps[last])
        last = steps[last].start
    return found[::-1]


def _list_moves(
    left: _WordGraph, right: _WordGraph, i: int, j: int
) -> Iterator[tuple[tuple[int, int], str, str, int, int]]:
    for one in left.edges[i]:
        for other in right.edges[j]:
            yield (one.end, other.end), one.word, other.word, int(one.word != other.word), 1
        yield (one.end, j), one.word, "", 1, 1
        for other in right.compounds[j]:
            if other.word == one.word:
                yield (one.end, other.end), one.word, other.word, 0, 1
    for other in right.edges[j]:
        yield (i, other.end), "", other.word, 1, 0
        for one in left.compounds[i]:
            if one.word == other.word:
                yield (one.end, other.end), one.word, other.word, 0, one.num_words


def _tokenize(text: str, language: str) -> list[ReadingChoice]:
    """A text as tokens."""
    text = unicodedata.normalize("NFKC", text).replace("\u2019", "'").replace("\u2018", "'")
    text = re.sub(r"\b([ap])\.?\s?m\b\.?", r"\1m", text, flags=re.IGNORECASE)
    found = [_read_token(piece, language) for piece in _PIECES.finditer(text)]
    return [token for token in found if token]


def _read_token(piece: re.Match[str], language: str) -> ReadingChoice:
    kind = piece.lastgroup if piece.lastgroup not in ("scale", "percent", "plural") else ""
    if piece["money"]:
        return _read_money(piece["money"], (piece["scale"] or "").strip(), language)
    if kind == "time":
        return _read_time(piece["time"], language)
    if kind == "ordinal":
        return _merge_readings(_ordinal(int(piece["ordinal"].replace(",", "")), language))
    if piece["number"]:
        return _read_number(piece, language)
    if kind == "letters":
        joined = piece["letters"].replace(".", "").lower()
        return ((joined,), tuple(joined))
    if kind == "and":
        return (("and",),)
    return _read_word(piece["word"], language)


def _read_word(written: str, language: str) -> ReadingChoice:
    word = written.lower().strip("'")
    if language != "en":
        return ((word,),) if word else ()
    if len(written) > 1 and not written.strip("IVX") and (number := roman_value(written)):
        return (
            (word,),
            *_merge_readings(_list_cardinals(number, "en"), [f"the {_ordinal(number, 'en')[0]}"]),
        )
    if word in _AMBIGUOUS:
        return _AMBIGUOUS[word]
    if word in _CONTRACTED:
        return _merge_readings([_CONTRACTED[word]])
    for ending, long in _ENDINGS:
        if word.endswith(ending):
            return _merge_readings([word.removesuffix(ending) + long])
    if word.endswith("'s"):
        stem = _unify_spelling(word[:-2])
        return ((stem + "s",), (stem, "is"), (stem, "has"), (stem,))
    if word.endswith("'d"):
        return ((word[:-2], "would"), (word[:-2], "had"), (word[:-2] + "d",))
    return _merge_readings([_unify_spelling(word.replace("'", ""))])


def _unify_spelling(word: str) -> str:
    """The one spelling of an English word."""
    word = _OUR.sub(r"\1or", word)
    found = _ISE.match(word)
    if found:
        word = f"{found[1]}iz{found[2]}"
    return _SAME.get(word, word)


def _read_number(piece: re.Match[str], language: str) -> ReadingChoice:
    written = piece["number"]
    if piece["percent"]:
        unit = _PER_CENT.get(language, "%")
        return _merge_readings(
            [f"{phrase} {unit}" for phrase in _list_quantities(written, language)]
        )
    readings = _list_quantities(written, language)
    if written.isdigit():
        readings += _list_years(int(written), language) if len(written) == 4 else []
        if len(written) <= 4:
            readings += [f"the {phrase}" for phrase in _ordinal(int(written), language)]
            readings += _ordinal(int(written), language)
        if len(written) > 1:
            readings += _list_digit_groups(written, language)
    if piece["plural"]:
        readings = [re.sub(r"y$", "ie", phrase) + "s" for phrase in readings]
    return _merge_readings(readings)


def _list_quantities(written: str, language: str) -> list[str]:
    """Readings of a number with or without a fraction."""
    point, thousands = (".", ",") if language == "en" else (",", ".")
    whole, _, fraction = written.replace(thousands, "").partition(point)
    if not whole.isdigit() or (fraction and not fraction.isdigit()) or len(whole) > 15:
        return [" ".join(_digits(re.sub(r"\D", "", written), language))]
    readings = _list_cardinals(int(whole), language)
    if fraction:
        named = {"en": "point", "es": "coma", "fr": "virgule", "de": "komma"}.get(language, "")
        after = " ".join(_digits(fraction, language))
        readings = [f"{phrase} {named} {after}" for phrase in readings]
        if language != "en":
            readings += [
                f"{_cardinal(int(whole), language)} {named} {_cardinal(int(fraction), language)}"
            ]
    return readings


def _list_cardinals(number: int, language: str) -> list[str]:
    cardinal = _cardinal(number, language)
    readings = [cardinal]
    if language == "en":
        readings.append(cardinal.replace(" and ", " "))
        readings += [re.sub(r"^one ", "a ", phrase) for phrase in list(readings)]
    return readings


def _list_years(number: int, language: str) -> list[str]:
    if language != "en" or not 1000 <= number <= 2999:
        return []
    high, low = divmod(number, 100)
    first = _cardinal(high, "en")
    if low == 0:
        return [f"{first} hundred"]
    return [f"{first} {_cardinal(low, 'en')}"] + (
        [f"{first} o {_cardinal(low, 'en')}"] * (low < 10)
    )


def _list_digit_groups(written: str, language: str) -> list[str]:
    """Digit by digit, and by twos: as numbers of telephones and houses are read."""
    readings = [" ".join(_digits(written, language))]
    if len(written) in (3, 4):
        head, tail = written[:-2], written[-2:]
        tail_reading = _cardinal(int(tail), language)
        if tail.startswith("0"):
            tail_reading = f"o {tail_reading}" if tail != "00" else "hundred"
        readings.append(f"{_cardinal(int(head), language)} {tail_reading}")
    return readings


def _read_money(written: str, scale: str, language: str) -> ReadingChoice:
    unit = _UNITS[written[0]]
    amount = written[1:].strip()
    readings = []
    for phrase in _list_quantities(amount, language):
        many = unit if amount in ("1", "1.00") and not scale else f"{unit}s"
        readings.append(" ".join(filter(None, (phrase, scale, many))))
    whole, point, cents = amount.replace(",", "").partition(".")
    if point and len(cents) == 2 and whole.isdigit() and not scale:
        few, rest = _cardinal(int(whole), language), _cardinal(int(cents), language)
        many = unit if whole == "1" else f"{unit}s"
        small = {"pound": "pence", "euro": "cents"}.get(unit, "cents")
        readings += [f"{few} {many} and {rest} {small}", f"{few} {many} {rest}", f"{few} {rest}"]
    return _merge_readings(readings)


def _read_time(written: str, language: str) -> ReadingChoice:
    hours, minutes = (int(part) for part in written.split(":"))
    hour, minute = _cardinal(hours, language), _cardinal(minutes, language)
    if minutes == 0:
        return _merge_readings([hour, f"{hour} o'clock", f"{hour} hundred"])
    if minutes < 10:
        return _merge_readings([f"{hour} o {minute}", f"{hour} {minute}"])
    return _merge_readings([f"{hour} {minute}"])


@lru_cache(maxsize=4096)
def _cardinal(number: int, language: str) -> str:
    from num2words import num2words

    try:
        phrase = str(num2words(number, lang=language))
    except NotImplementedError:
        phrase = str(number)
    return phrase.lower().replace("-", " ").replace(",", "")


def _ordinal(number: int, language: str) -> list[str]:
    from num2words import num2words

    try:
        phrase = str(num2words(number, lang=language, to="ordinal"))
    except (NotImplementedError, OverflowError):
        return [str(number)]
    plain = phrase.lower().replace("-", " ").replace(",", "")
    return [plain, plain.replace(" and ", " ")] if " and " in plain else [plain]


def _digits(written: str, language: str) -> list[str]:
    return [_cardinal(int(digit), language) for digit in written]


def _merge_readings(*groups: list[str]) -> ReadingChoice:
    """Readings without those that come twice."""
    split = (tuple(phrase.split()) for group in groups for phrase in group)
    return tuple(dict.fromkeys(reading for reading in split if reading))
