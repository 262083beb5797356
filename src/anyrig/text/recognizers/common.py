"""Forms and questions that several recognisers share: numbers, the words around a match."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from anyrig.text import values as v
from anyrig.text.recognizers import LazyPattern, Proposal
from anyrig.text.recognizers.languages import french, spanish
from anyrig.text.recognizers.stops import NAMED as NAMED
from anyrig.text.recognizers.stops import STOP_TABLES, look_behind, stop_after

NUMBER = (
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d++)?|\d{1,2}(?:,\d\d){1,4},\d{3}(?![\d,])|\d++(?:\.\d++)?|\.\d++)"
)
"""A number as English writes it, with thousands (or lakhs: 2,50,000) and decimals: no group."""
MINUS = "-−–"
DASH = r" ?[-–—] ?"
FRACTIONS = {
    "½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5),
    "⅗": (3, 5), "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8),
    "⅝": (5, 8), "⅞": (7, 8), "⅑": (1, 9), "⅒": (1, 10),
}  # fmt: skip
VULGAR = "".join(FRACTIONS)
AMOUNT = rf"(?:{NUMBER}|\d{{1,5}}[ -]\d{{1,4}}/\d{{1,4}}|\d{{1,4}}/\d{{1,4}}|\d* ?[{VULGAR}])"
"""A number or a fraction before a unit."""
SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SIGNS = {"+": "+", "±": "±", "~": "~", "≈": "~", "<": "<", ">": ">", "≤": "≤", "≥": "≥"}
ODDS = LazyPattern(
    r"(?i)\b(?:odds (?:of|at|were|are|on|is|stand at|stood at|shortened to|drifted to)|bet at|"
    r"bets at|priced at|backed at|favou?rite at|at odds of|"
    r"outsider at|shot at|returned at|won at|starting price(?: of)?) (?:about )?$|"
    r"\bodds\b[^.;]*\d/\d[^.;]*$"
)
"""Before the odds of a bet: 7/2, 5-1."""
NOT_NOUNS = frozenset(
    "a an and or but for in on at to of from by with as is was than per each every more less "
    "when if so because that this it he she they we i you will would has had were are until after "
    "before which who while since off out up down over under into during plus minus last next one "
    "total away apart ago left worth long wide tall high deep thick old short later earlier early "
    "late not also only just through throughout between among around about above below near behind "
    "beyond within without against toward towards via then there here now today tomorrow yesterday "
    "can could may might must should did does do be been both all any some no nor yet still even "
    "daily weekly monthly yearly annually sharp".split()
)
"""Words after an amount that show it stands alone: `a $5 bill`, `a $5 and a $10`."""
_ARTICLE = LazyPattern(
    r"\b(?:[Aa]n?|[Tt]h(?:e|is|at)|[Hh](?:is|er)|[Tt]heir|[Ii]ts|[Oo]ur|[Mm]y|[Yy]our|[Aa]nother|"
    r"[Ee](?:ach|very)|[Oo]ne|[Nn]o) (?:[a-z]+ )?$"
)


_LARGER = re.compile(r"\d+[ -]?[a-z]{1,3}\.?[ -]$")
_SMALLER = re.compile(r"^[ -]\d+[ -]?[a-z]{1,4}\.?(?=[ -])")
"""The other half of a measure in two: a 2 hr. 14 min. film."""


def parse_sign(text: str | None) -> str:
    """The sign of a number, as `Number.sign` has it."""
    bare = (text or "").strip()
    return _SIGNS.get(bare, "-") if bare else ""


def parse_number(text: str, sign: str | None = None, scale: int = 0) -> v.Number:
    """`1,200.5` as a value."""
    whole, _, decimals = text.replace(",", "").partition(".")
    return v.Number(whole, decimals, parse_sign(sign), scale)


def parse_amount(
    text: str, sign: str | None = None, scale: int = 0, language: str = "en"
) -> v.Number | v.Fraction:
    """A number or a fraction: `3 1/2`, `½`."""
    text = text.strip()
    if text[0] in MINUS and text[1:]:
        text, sign = text[1:], text[0]
    if "/" in text and (mixed := re.fullmatch(r"(?:(\d+)[ -])?(\d+)/(\d+)", text)):
        whole = int(mixed[1]) if mixed[1] else None
        above, below = int(mixed[2]), int(mixed[3])
        # Blood pressure: 120/80.
        style = "over" if not below or (whole is None and above > below >= 30) else ""
        return v.Fraction(int(mixed[2]), int(mixed[3]), whole, parse_sign(sign), style)
    if text[-1] in FRACTIONS:
        whole = int(text[:-1]) if text[:-1].strip() else None
        return v.Fraction(*FRACTIONS[text[-1]], whole, parse_sign(sign))
    if language == "en":
        return parse_number(text, sign, scale)
    return parse_comma_number(f"{parse_sign(sign)}{text}", scale)


def before(match: re.Match[str], length: int = 40) -> str:
    """What stands before a match."""
    return match.string[max(0, match.start() - length) : match.start()]


def after(match: re.Match[str], length: int = 40) -> str:
    """What stands behind a match."""
    return match.string[match.end() : match.end() + length]


def is_span(first: str, last: str) -> bool:
    """Whether two numbers with a hyphen between are the ends of a span: 213-15, but not 22-451."""
    if not (first.isdecimal() and last.isdecimal()):
        return True
    full = last if len(last) >= len(first) else first[: -len(last)] + last
    return 0 < int(full) - int(first) < (100 if len(last) > len(first) else 10 ** len(first))


def is_attributive(match: re.Match[str]) -> bool:
    """Whether an amount tells what kind of thing follows: a $20 bill, the 500 GB drive."""
    rest = _SMALLER.sub("", match.string[match.end() : match.end() + 24])
    if rest.startswith("-a-"):
        return True
    noun = re.match(r"([ -])([a-z]{2,}|[A-Z]{2,5})\b", rest)
    if not noun or noun[2] in NOT_NOUNS:
        return False
    if noun[1] == "-":
        return True
    article = _ARTICLE.search(_LARGER.sub("", before(match, 24)))
    return bool(article) and not (
        article is not None and article[0].lower().startswith("the ") and noun[2].endswith("ed")
    )


def one_of(words: Iterable[str], *, dots: bool = False) -> str:
    """An alternation of words for a pattern, the longest first; `dots` allows `sq. ft`."""
    names = sorted(set(words), key=len, reverse=True)
    return "|".join(
        re.escape(name).replace(r"\ ", r"\.? ") if dots else re.escape(name) for name in names
    )


# A number as it is written: 1.234,5 and 1 234,5, then 1,234.5, then plain ones.
COMMA_NUMBER = (
    r"(?:\d{1,3}(?: \d{3}){1,6}(?!\d)(?:,\d+)?"
    r"|\d{1,3}(?:\.\d{3}){1,6}(?![\d.])(?:,\d+)?"
    r"|\d{1,3}(?:['’]\d{3}){1,4}(?![\d'’])(?:[.,]\d+)?"
    r"|\d{1,3}(?:,\d{3}){1,6}\.\d+"
    r"|\d{1,3}(?:,\d{3}){2,6}(?!\d)"
    r"|\d++(?:[.,]\d++)?)"
)
# Where a number may begin: not inside a word or another number.
NUMBER_START = r"(?<![\w\u00ba\u00aa])(?<!\d[.,:/'])"
OPTIONAL_MINUS = r"(?:(?<![\w)\]%])(?<![\d)\]%] )[-\u2212\u2013](?=\d))?"
SIGNED = rf"{OPTIONAL_MINUS}{COMMA_NUMBER}"
_COMMA_AMOUNT = (
    rf"(?:\d{{2,3}}/\d{{2,3}}(?= ?(?:mmHg|mg|mcg|µg|ml|g)\b)|"
    rf"(?:\d{{1,3}}(?:[ -]| ?(?=[{VULGAR}])))?(?:\d/\d\d?(?!\d)|[{VULGAR}])|{COMMA_NUMBER})"
)
STARTS = {"en": r"(?<![\w.×$£€¥₹#])(?<!\d:)", "es": NUMBER_START, "fr": NUMBER_START}
NUMBERS = {"en": NUMBER, "es": COMMA_NUMBER, "fr": COMMA_NUMBER}
AMOUNTS = {"en": AMOUNT, "es": _COMMA_AMOUNT, "fr": _COMMA_AMOUNT}
SIGNED_AMOUNT = {
    "en": rf"(?P<sign>[{MINUS}+±~≈<>≤≥] ?)?(?P<low>{AMOUNT})",
    **dict.fromkeys(("es", "fr"), rf"(?P<sign>)(?P<low>{OPTIONAL_MINUS}\+?{_COMMA_AMOUNT})"),
}
"""By language: where a number may begin, a number, one or a fraction, and that with its sign."""
NUMBER_END = r"(?![\d\w])(?![.,]\d)"
DOT = r"(?:\.(?!\.))?"
"""The full stop of an abbreviation, which is no part of an ellipsis."""
ROMAN = r"[IVXLCDM]+"
_WORD = LazyPattern(r"\s+([^\W\d_]+(?:['-][^\W\d_]+)*)")
_SENTENCE_START = LazyPattern(r"(?:^|[!?]|[^\W\d_]{4}\.)[\s\"'¿¡—(*_#>-]*$")
_REACH = 60


def parse_comma_number(written: str, scale: int = 0, gender: str = "") -> v.Number:
    """What `COMMA_NUMBER` matched as a value, with or without a sign in front."""
    if written.isdecimal():
        return v.Number(written, "", "", scale, gender)
    text = written.replace(" ", "")
    sign = "-" if text[:1] in ("-", "\u2212", "\u2013") else "+" if text[:1] == "+" else ""
    whole, mark, decimals = _split_decimals(text.lstrip("-\u2212\u2013+"))
    digits = re.sub(r"\D", "", whole) or "0"
    return v.Number(digits, decimals, sign, scale, gender, point=mark == ".")


def _split_decimals(text: str) -> tuple[str, str, str]:
    if "," in text and "." in text:
        mark = max(",.", key=text.rfind)
        whole, _, decimals = text.rpartition(mark)
        return whole, mark, decimals
    if text.count(",") > 1 or re.fullmatch(r"[1-9]\d{0,2}(\.\d{3})+", text):
        return text, "", ""
    if re.fullmatch(r"[1-9]\d{0,2},\d00", text):
        return text, "", ""  # Nobody writes two idle zeros behind a decimal comma.
    for mark in ",.":
        if mark in text:
            return text.partition(mark)
    return text, "", ""


def word_before(match: re.Match[str]) -> str:
    """The word before, in lower case, with the full stop of an abbreviation."""
    lead = before(match, _REACH).rstrip(' \n\t\xa0("')
    bare = lead.removesuffix(".")
    start = len(bare)
    while start and bare[start - 1].isalpha():
        start -= 1
    return lead[start:].lower() if start < len(bare) else ""


def words_after(match: re.Match[str], count: int = 1) -> list[str]:
    """The next words, as long as nothing else stands between."""
    words: list[str] = []
    position = match.end()
    while len(words) < count and (found := _WORD.match(match.string, position, position + _REACH)):
        words.append(found[1])
        position = found.end()
    return words


def word_after(match: re.Match[str]) -> str:
    return next(iter(words_after(match)), "")


def capitalize(words: str, match: re.Match[str]) -> str:
    """The words with a capital where the match has one at the start of a sentence."""
    starts = _SENTENCE_START.search(before(match, _REACH))
    return words[:1].upper() + words[1:] if starts and match[0][:1].isupper() else words


def close(value: v.Value, match: re.Match[str], language: str = "en", **options: Any) -> Proposal:
    """A value whose match may end with the full stop of an abbreviation."""
    if not match[0].endswith("."):
        return Proposal(value)
    if language != "en" and (
        match.string.startswith(" (", match.end()) or _only_leads_in(match, language)
    ):
        return Proposal(value, "abbreviation")
    return Proposal(value, stop_after(match.string, match.end(), language, **options))


_LEADS_IN = {
    "es": LazyPattern(
        r"\W*(?:A|Alrededor de|Hacia|Sobre|Desde|Hasta|Tras|En|El|Del|Antes del?|Después del?|"
        r"Cerca de|Durante|Por|Unos|Unas|Cada|A los|A unos)(?: (?:las?|el|los|unas|eso de las))? "
        r"(?:(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo),? )?"
    ),
    "fr": LazyPattern(
        r"\W*(?:À|A|Vers|Dès|Le|Depuis|Après|Avant|Jusqu'à|Jusqu'au|En|Pendant|Au|Aux|Du|Autour de|"
        r"Toutes les|Durant)(?: (?:les?|la|environ|plus de))? "
        r"(?:(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche),? )?"
    ),
}


def _only_leads_in(match: re.Match[str], language: str) -> bool:
    """Whether a date or a time only opens its sentence: A las 5 p. m. Ana llegó."""
    if not _LEADS_IN[language].fullmatch(match.string, 0, match.start()):
        return False
    following = look_behind(match.string, match.end())
    opens = STOP_TABLES[language].opens_sentence(following.word)
    return following.kind == "capital" and not opens


def is_shouted(match: re.Match[str]) -> bool:
    """Whether the words around are all in capitals, as in titles."""
    line = match.string[max(0, match.start() - 80) : match.end() + 80]
    words = re.findall(r"[^\W\d_]+", line)
    return line.isupper() and len(words) > 1 and sum(map(len, words)) > 7


def agree(language: str, match: re.Match[str], number: int) -> str:
    """The gender of what a number counts; empty where it counts nothing."""
    return _agree_in_spanish(match, number) if language == "es" else _agree_in_french(match)


def _agree_in_spanish(match: re.Match[str], number: int) -> str:
    following = words_after(match, 2)
    if not following or following[0].lower() in spanish.NO_NOUN or following[0][:1].isupper():
        return ""
    if word_before(match) in spanish.LABELS and number == 1:
        return ""
    word = following[0].lower()
    second = following[1].lower() if len(following) > 1 else ""
    if word == "mil" and number >= 200 and second.endswith("s"):
        return spanish.find_gender(second)  # quinientas mil mujeres
    if word in ("mil", "millón", "millones", "billón", "billones"):
        return "m"
    if number != 1 and not word.endswith("s"):
        return ""
    if second and word in (
        "grandes", "nuevas", "primeros", "últimos", "mejores", "posibles", "jóvenes",
    ):  # fmt: skip
        word = second
    return spanish.find_gender(word)


_FRENCH_ADJECTIVES = frozenset(
    "autre autres petite petites grande grandes nouvelles belles jeune jeunes vieilles bonnes "
    "mauvaises longues simple seule".split()
)


def _agree_in_french(match: re.Match[str]) -> str:
    following = words_after(match, 2)
    if not following or word_before(match) in french.LABELS:
        return ""
    word = following[0].lower()
    if word in _FRENCH_ADJECTIVES and len(following) > 1:
        return "f" if re.search(r"(?:t|d|ll|n|v)es?$", word) and not word.startswith(
            ("autre", "jeune", "simple")
        ) else french.find_gender(following[1])  # fmt: skip
    return french.find_gender(word)
