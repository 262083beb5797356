"""How Spanish is read: the order of its rules, from what is most particular to single signs."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.addresses import Words, addresses, codes
from anyrig.speech.normalise.romance.dress import clean, emoji
from anyrig.speech.normalise.romance.letters import Known, letters
from anyrig.speech.normalise.romance.sentences import cased
from anyrig.speech.normalise.romance.short import abbreviations
from anyrig.speech.normalise.romance.signs import pauses, signs
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish import (
    counting,
    dates,
    fractions,
    measures,
    money,
    names,
    phones,
)
from anyrig.speech.normalise.spanish.numbers import cardinal, digits
from anyrig.speech.normalise.spanish.words import (
    ADDRESS,
    ANYWHERE,
    BEFORE_NUMBER,
    CLOSERS,
    FULL,
    PLAIN,
    SAID,
    SIGNS,
    SPELT,
    TITLES,
)

_NUMBER_NEXT = r"(?=[ \u00a0\u202f]?(?:[-#(+]?\d|(?-i:[IVXLC]+)\b))"


def _address_number(written: str) -> str:
    return digits(written) if len(written) > 4 or written[0] == "0" else cardinal(int(written))


def _spelt(written: str) -> bool:
    upper = written.upper()
    return upper == "WWW" or (
        1 < len(upper) <= 4 and not re.search("[AEIOUY]", upper) and upper not in _SAID_TAILS
    )


_SAID_TAILS = frozenset("MX FR CL BR DE".split())


# A name or an initial before it, no office: then it is an initial too.
_INITIAL = re.compile(
    r"(?:(?<!\w)[A-ZÁÉÍÓÚ]\.?|(?<!\w)(?!Presidente|Señor|Director|Ministro|Doctor|Rector|Alcalde|Rey|"
    r"Profesor|General)[A-ZÁÉÍÓÚ][a-záéíóúñ]+)[ \u00a0]?$"
)


@rule("abbreviation", r"(?<!\w)[Cc]/ ?(?=[A-ZÁÉÍÓÚ][a-záéíóú])")
def _street(match: re.Match[str]) -> str | None:
    return "Calle " if match.start() == 0 else "calle "


@rule("abbreviation", r"(?<![\w.])D\.(?=\s[A-ZÁÉÍÓÚ][a-záéíóúñ]+)")
def _don(match: re.Match[str]) -> str | None:
    if _INITIAL.search(match.string[max(0, match.start() - 30) : match.start()]):
        return None
    return "Don" if match.start() == 0 else "don"


@rule(
    "abbreviation",
    r"(?<![\w.])S\.(?=\s(?:[A-ZÁÉÍÓÚ][a-záéíóúñ]+))|(?<![\w.])Cap\.(?=\s[A-ZÁÉÍÓÚ][a-záéíóúñ]+)|(?<![\w.])P\.?º(?=\s)",
)
def _titled(match: re.Match[str]) -> str | None:
    if _INITIAL.search(match.string[max(0, match.start() - 30) : match.start()]):
        return None
    return {"S": "san", "C": "capitán", "P": "paseo"}[match.group()[0]]


@rule(
    "abbreviation",
    r"(?<!\w)(?:Lic|Prof|Arq|Abg|Ing)\.(?= [A-ZÁÉÍÓÚ][a-záéíóúñ]+a [A-ZÁÉÍÓÚ]| (?:Ana|María|"
    r"Carmen|Laura|Marta|Elena|Isabel|Sara|Lucía|Paula|Cristina|Rosa|Julia|Teresa|Eva)\b)",
)
def _her_title(match: re.Match[str]) -> str | None:
    """A first name in -a follows, and then another name."""
    words = {
        "L": "licenciada", "P": "profesora", "I": "ingeniera", "Ar": "arquitecta", "Ab": "abogada"
    }  # fmt: skip
    written = match.group()
    return cased(words.get(written[0]) or words[written[:2]], match)


def _keeps_hyphen(_: str, __: str) -> bool:
    return False


@rule("abbreviation", r"(?<!\w)etc\.{3,}")
def _trailing(match: re.Match[str]) -> str | None:
    return "etcétera..."


# El cap. Juan is a captain; a sentence may begin after el cap.
_NAME_NEXT = (
    r"(?=\s(?!(?-i:El|La|Los|Las|Él|Ella|Lo|Su|Un|Una|Se|En|No|Y|Pero|Es)\b)"
    r"(?-i:[A-ZÁÉÍÓÚ][a-záéíóúñ]+))"
)

_SHORT = (
    measures.SHORT,
    _trailing,
    abbreviations({"cap.": "capitán"}, after=_NAME_NEXT),
    abbreviations({"Ed.": "editorial"}, after=_NAME_NEXT, anyhow=False),
    abbreviations({"c.": "calle"}, before=r"(?<=\bla )", after=_NUMBER_NEXT),
    abbreviations(
        {"h.": "hacia", "km": "kilómetro"}, before=r"(?<!\d )(?<!\d)", after=_NUMBER_NEXT
    ),
    abbreviations(
        {"EE. UU.": "Estados Unidos", "EE. UU. A.": "Estados Unidos de América"}, may_close=True
    ),
    abbreviations(BEFORE_NUMBER, after=_NUMBER_NEXT),
    abbreviations({"No.": "número"}, after=_NUMBER_NEXT, anyhow=False),
    abbreviations({"P. D.": "posdata", "P.D": "posdata"}, after=r"(?=\s?:)"),
    _street,
    abbreviations(CLOSERS, may_close=True),
    abbreviations(ANYWHERE),
    _her_title,
    abbreviations(TITLES),
    _titled,
    _don,
)

CLEAN: tuple[Rule, ...] = clean(_keeps_hyphen)
RULES: tuple[Rule, ...] = (
    *emoji(),
    *addresses(Words(ADDRESS, "hashtag", _address_number, _spelt)),
    *phones.RULES,
    codes(digits),
    *dates.RULES,
    *names.RULES[:1],
    *_SHORT,
    *names.RULES[1:],
    *money.RULES,
    *measures.RULES,
    *fractions.RULES,
    *counting.RULES,
    *letters(Known(SAID, SPELT, PLAIN, FULL)),
    *counting.LAST,
    *pauses(),
    signs(SIGNS),
)
