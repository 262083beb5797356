"""Forms and questions that the recognisers of Spanish and French share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import Any

from anyrig.text.recognizers import Found, Recognizer, recognizer
from anyrig.text.recognizers.common import LazyPattern
from anyrig.text.recognizers.romance import french, spanish
from anyrig.text.recognizers.stops import look_behind, stop_after
from anyrig.text.values import Number, Value

TABLES: dict[str, ModuleType] = {"es": spanish, "fr": french}

# A number as it is written: 1.234,5 and 1 234,5, then 1,234.5, then plain ones.
NUMBER = (
    r"(?:\d{1,3}(?: \d{3}){1,6}(?!\d)(?:,\d+)?"
    r"|\d{1,3}(?:\.\d{3}){1,6}(?![\d.])(?:,\d+)?"
    r"|\d{1,3}(?:,\d{3}){1,6}\.\d+"
    r"|\d{1,3}(?:,\d{3}){2,6}(?!\d)"
    r"|\d+(?:[.,]\d+)?)"
)
# Where a number may begin: not inside a word or another number.
BEFORE = r"(?<![\w\u00ba\u00aa])(?<!\d[.,:/'])"
MINUS = r"(?:(?<![\w)\]%])(?<![\d)\]%] )[-\u2212\u2013](?=\d))?"
AFTER = r"(?![\d\w])(?![.,]\d)"
DASH = r" ?[-\u2013\u2014] ?"
DOT = r"(?:\.(?!\.))?"
"""The full stop of an abbreviation, which is no part of an ellipsis."""
CAPITAL = "A-ZÁÉÍÓÚÜÑÀÂÄÇÈÊËÎÏÔÖÙÛŸŒÆ"
SMALL = "a-záéíóúüñàâäçèêëîïôöùûÿœæ"
ROMAN = r"[IVXLCDM]+"
_ROMAN = LazyPattern(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_WORD = LazyPattern(r"\s+([^\W\d_]+(?:['-][^\W\d_]+)*)")
_LAST_WORD = LazyPattern(r"([^\W\d_]+(?:\.|\b))[\s(\"]*$")
_SENTENCE_START = LazyPattern(r"(?:^|[!?]|[^\W\d_]{4}\.)[\s\"'¿¡—(*_#>-]*$")
_REACH = 60

Build = Callable[[str, "re.Match[str]"], Value | Found | None]


def romance(
    kind: str,
    pattern: str | Callable[[str], str],
    *,
    needs: Iterable[str] | Callable[[str], Iterable[str]] = "",
    digits: bool = False,
    weight: float = 1.0,
    flags: int = 0,
) -> Callable[[Build], tuple[Recognizer, ...]]:
    """Make a recogniser for each language of a function that is given language and match."""

    def make(build: Build) -> tuple[Recognizer, ...]:
        return tuple(
            recognizer(
                kind,
                pattern if isinstance(pattern, str) else pattern(language),
                languages=(language,),
                needs=needs(language) if callable(needs) else needs,
                digits=digits,
                weight=weight,
                flags=flags,
            )(partial(build, language))
            for language in TABLES
        )

    return make


def one_of(words: Iterable[str]) -> str:
    """A pattern for any of these, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def parse_number(written: str, scale: int = 0, gender: str = "") -> Number:
    """What `NUMBER` matched as a value, with or without a sign in front."""
    text = written.replace(" ", "")
    sign = "-" if text[:1] in ("-", "\u2212", "\u2013") else "+" if text[:1] == "+" else ""
    whole, mark, decimals = _split_decimals(text.lstrip("-\u2212\u2013+"))
    digits = re.sub(r"\D", "", whole) or "0"
    return Number(digits, decimals, sign, scale, gender, point=mark == ".")


def _split_decimals(text: str) -> tuple[str, str, str]:
    if "," in text and "." in text:
        mark = max(",.", key=text.rfind)
        whole, _, decimals = text.rpartition(mark)
        return whole, mark, decimals
    if text.count(",") > 1 or re.fullmatch(r"\d{1,3}(\.\d{3})+", text):
        return text, "", ""
    if re.fullmatch(r"[1-9]\d{0,2},\d00", text):
        return text, "", ""  # Nobody writes two idle zeros behind a decimal comma.
    for mark in ",.":
        if mark in text:
            return text.partition(mark)
    return text, "", ""


def parse_roman(written: str) -> int:
    """What a Roman numeral is worth; 0 when it is not well formed."""
    if not written or not _ROMAN.fullmatch(written):
        return 0
    total = 0
    for one, following in zip(written, f"{written[1:]} ", strict=True):
        value = _ROMAN_DIGITS[one]
        total += -value if _ROMAN_DIGITS.get(following, 0) > value else value
    return total


def text_before(match: re.Match[str], length: int = 40) -> str:
    return match.string[max(0, match.start() - length) : match.start()]


def text_after(match: re.Match[str], length: int = 40) -> str:
    return match.string[match.end() : match.end() + length]


def word_before(match: re.Match[str]) -> str:
    """The word before, in lower case, with the full stop of an abbreviation."""
    found = _LAST_WORD.search(text_before(match, _REACH))
    return found[1].lower() if found else ""


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
    starts = _SENTENCE_START.search(text_before(match, _REACH))
    return words[:1].upper() + words[1:] if starts and match[0][:1].isupper() else words


def close(value: Value, match: re.Match[str], language: str, **options: Any) -> Found:
    """A value whose match may end with the full stop of an abbreviation."""
    if not match[0].endswith("."):
        return Found(value)
    if match.string.startswith(" (", match.end()) or _only_leads_in(match, language):
        return Found(value, "abbreviation")
    return Found(value, stop_after(match.string, match.end(), language, **options))


_LEADS_IN = {
    "es": LazyPattern(
        r"\W*(?:A|Alrededor de|Hacia|Sobre|Desde|Hasta|Tras|En|El|Del|Antes del?|Después del?|"
        r"Cerca de|Durante|Por|Unos|Unas|Cada|A los|A unos)(?: (?:las?|el|los|unas|eso de las))? "
    ),
    "fr": LazyPattern(
        r"\W*(?:À|A|Vers|Dès|Le|Depuis|Après|Avant|Jusqu'à|Jusqu'au|En|Pendant|Au|Aux|Du|Autour de|"
        r"Toutes les|Durant)(?: (?:les?|la|environ|plus de))? "
    ),
}


def _only_leads_in(match: re.Match[str], language: str) -> bool:
    """Whether a date or a time only opens its sentence: A las 5 p. m. Ana llegó."""
    if not _LEADS_IN[language].fullmatch(match.string, 0, match.start()):
        return False
    following = look_behind(match.string, match.end())
    return following.kind == "capital" and following.word.lower() not in TABLES[language].STARTERS


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
