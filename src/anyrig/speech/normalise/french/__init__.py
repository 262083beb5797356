"""How French is read: the order of its rules, from what is most particular to single signs."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french import (
    counting,
    dates,
    fractions,
    measures,
    money,
    names,
    phones,
)
from anyrig.speech.normalise.french.numbers import cardinal, digits
from anyrig.speech.normalise.french.words import (
    ADDRESS,
    ANYWHERE,
    BEFORE_NUMBER,
    CLOSERS,
    FULL,
    PLAIN,
    SAID,
    SIGNS,
    SPELT,
    STREETS,
    TITLES,
)
from anyrig.speech.normalise.romance.addresses import Words, addresses, codes
from anyrig.speech.normalise.romance.dress import clean, emoji
from anyrig.speech.normalise.romance.letters import Known, letters
from anyrig.speech.normalise.romance.sentences import cased
from anyrig.speech.normalise.romance.short import abbreviations
from anyrig.speech.normalise.romance.signs import pauses, signs
from anyrig.speech.normalise.rules import Rule, rule

_NUMBER_NEXT = r"(?=[ \u00a0\u202f]?(?:[-#(+]?\d|(?-i:[IVXLC]+)\b))"
# What begins a sentence and no name: il est au Cap. Elle reste.
_STARTERS = (
    r"(?![ \u00a0\u202f](?-i:Il|Ils|Elle|Elles|On|Nous|Vous|Je|Tu|Mais|Et|Puis|Un|Une|Ce|Cette|Ces|"
    r"Dans|Pour|Alors|Quand|Son|Sa|Ses|Mon|Ma|Mes|Après|Avant|Oui|Non)\b)"
)
_NAME_NEXT = _STARTERS + r"(?=[ \u00a0\u202f-](?:(?-i:[A-ZÀÂÇÉÈÊÎÔ])|(?:de|du|des|la|le)\b|d'|l'))"
# Une bd is no boulevard.
_NO_COMIC = r"(?<!une )(?<!la )(?<!des )(?<!les )(?<!cette )"
# What follows a hyphen that belongs to the word.
_JOINED = frozenset(
    "il ils elle elles on je tu nous vous moi toi lui leur y en ce ci là t même mêmes être midi "
    "dire vingt dix deux trois quatre cinq six sept huit neuf onze douze treize quatorze quinze "
    "seize".split()
)
_JOINING = frozenset(
    "peut est a y vice ex quasi semi demi mi sous sur avant après arrière contre non auto grand "
    "grands "
    "petit petite grande beau belle porte vingt trente quarante cinquante soixante quatre dix "
    "celui "
    "celle ceux celles moi toi lui elle eux nous vous qu jusque c chef rendez tout toute haut bas "
    "franco anglo nord sud".split()
)


def _keeps_hyphen(before: str, after: str) -> bool:
    return after in _JOINED or (before in _JOINING and len(after) > 3)


def _address_number(written: str) -> str:
    return digits(written) if len(written) > 4 or written[0] == "0" else cardinal(int(written))


def _spelt(written: str) -> bool:
    upper = written.upper()
    vowelless = 2 < len(upper) <= 4 and not re.search("[AEIOUY]", upper)
    return upper == "WWW" or vowelless


@rule("abbreviation", r"(?<![\w.])MM?\.(?= [A-ZÀÂÇÉÈÊÎÔ]| (?:le|la|et) | l')")
def _mister(match: re.Match[str]) -> str | None:
    words = "messieurs" if match.group().startswith("MM") else "monsieur"
    return words.capitalize() if match.start() == 0 else words


@rule("abbreviation", r"(?<!\w)etc\.{3,}")
def _trailing(match: re.Match[str]) -> str | None:
    return "et cetera..."


@rule(
    "abbreviation",
    r"(?<!\w)(?:(?<=\b[Ll]es )nos|(?<=\baux )nos|(?<=\bdes )nos|"
    r"[Nn]os(?=[ \u00a0]\d+(?:, \d+)*(?: et | à |-|\u2013)\d+(?! [a-zà-ÿ]|\d)))(?=[ \u00a0]\d)",
)
def _numbers(match: re.Match[str]) -> str | None:
    """Nos 8 enfants are ours; les nos 8 et 9 are numbers."""
    return cased("numéros", match)


_SHORT = (
    _trailing,
    _numbers,
    abbreviations({"p.": "pages"}, after=r"(?=[ \u00a0]?\d+[ \u00a0]?[-\u2013][ \u00a0]?\d)"),
    abbreviations({"p.": "pages"}, before=r"(?<=\bles )", after=_NUMBER_NEXT),
    abbreviations(BEFORE_NUMBER, after=_NUMBER_NEXT),
    _mister,
    abbreviations(TITLES, after=_NAME_NEXT, anyhow=False),
    abbreviations({key: TITLES[key] for key in ("Mme", "Mlle", "Mmes", "Mlles")}, anyhow=False),
    abbreviations(STREETS, before=_NO_COMIC, after=_NAME_NEXT),
    abbreviations({"max.": "maximum", "ann.": "annexe"}, anyhow=False, may_close=True),
    abbreviations(CLOSERS, may_close=True),
    abbreviations(ANYWHERE),
    abbreviations({"ex.": "exemple"}, after=r"(?=[ \u00a0]?:|[ \u00a0](?-i:[a-zà-ÿ]))"),
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
    *counting.FIRST,
    *money.RULES,
    *measures.RULES,
    *fractions.RULES,
    *counting.RULES,
    *letters(Known(SAID, SPELT, PLAIN, FULL)),
    *counting.LAST,
    *pauses(),
    signs(SIGNS),
)
