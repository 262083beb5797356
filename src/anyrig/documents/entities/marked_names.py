"""Names that carry a mark: a title before a person, a legal form behind a company; and countries.

They need no model, so they serve every language here, and mend what a small model misses. Places
are the countries and the cities of time zones, as the Unicode locale data spell them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.plain_text import PlainText, build_plain_text

SOURCE, GAZETTEER = "marks", "gazetteer"
_CAPITAL = r"[A-Z][A-Za-z]*(?:['-][A-Z]?[A-Za-z]+){0,3}"
_PARTICLE = (
    r"(?:de la|de los|de las|de|del|van der|van|von der|von|du|des|di|da|dos|la|le|bin|al|y)"
)
_PERSON = re.compile(
    r"(?<![\w.])(?:Mr|Mrs|Ms|Miss|Mx|Dr|Dra|Prof|Sir|Mme|Mlle|Mgr|M|Sr|Sra|Srta|Don|Dona|Monsieur"
    r"|Madame|Mademoiselle|Maitre|Senor|Senora|Senorita|Doctor|Doctora|Docteur|Professor|Professeur"
    r"|Profesor|Profesora|Herrn?|Frau)\.?[ ](?P<name>(?:[A-Z]\. ?){0,3}"
    rf"{_CAPITAL}(?: (?:{_PARTICLE} )?(?:{_CAPITAL}|[A-Z]\.(?= [A-Z]))){{0,3}})"
)
_DOTLESS_M = re.compile(r"M [A-Z]")
_COMPANY = re.compile(
    rf"(?<![\w.])(?P<name>{_CAPITAL}(?:(?: & | |-){_CAPITAL}){{0,4}},? "
    r"(?:Inc|Ltd|LLC|LLP|PLC|plc|Plc|Corp|Co|GmbH|AG|KG|SE|S\.A\.S|S\.A\.U|S\.A|SAS|SARL"
    r"|SASU|EURL|SNC|SCI"
    r"|S\.L\.U|S\.L|SLU|SL|S\.p\.A|SpA|S\.r\.l|B\.V|BV|N\.V|NV|Oy|Limited|Incorporated"
    r"|Corporation|SA)"
    r"(?![A-Za-z])\.?)"
)
_ARTICLE = re.compile(r"(?:The|A|La|Le|Les|El|Los|Las|Un|Une|Una|Notre|Our|Nuestra) (?=[A-Z])")
_ABBREVIATED = re.compile(r"(?:Inc|Ltd|Corp|Co|\.[A-Za-z])\.$")
_OTHER_WORDS = frozenset(
    "jordan chad georgia jersey guernsey regina stanley wallis wake midway easter "
    "chatham davis casey "
    "palmer mawson troll vincennes knox nome center currie eucla lindeman winamac "
    "marengo vevay monaco "
    "melbourne santiago victoria adelaide sydney samara azores truk johnston reunion turkey guinea "
    "antigua saint creston dawson jujuy lima faso mahe man martin nassau paz sal thule north pole "
    "vaduz cuba niger mali benin togo oman inuvik resolute unknown city chile guam ujung union onu "
    "naciones unidas nations unies macao kerguelen mayotte pacific eastern western central".split()
) - {"cuba", "chile", "lima", "melbourne", "monaco", "sydney", "mali", "benin", "togo", "oman"}


def find(text: PlainText) -> Iterator[Entity]:
    """Every name with a mark, and every country or great city that stands by itself."""
    for found in text.matches(_PERSON, text.islands):
        if not _DOTLESS_M.match(found[0]) or text.language(found.start()).startswith("fr"):
            span = found.span("name")
            yield replace(text.build_entity("person", span, score=0.9), source=SOURCE)
    for found in text.matches(_COMPANY, text.islands):
        start, end = found.span("name")
        article = _ARTICLE.match(text.plain, start, end)
        start = article.end() if article else start
        if text.plain[end - 1] == "." and not _ABBREVIATED.search(text.plain, start, end):
            end -= 1
        yield replace(text.build_entity("organisation", (start, end), score=0.9), source=SOURCE)
    yield from _find_places(text)


def correct_places(names: Sequence[Entity]) -> list[Entity]:
    """Names in which a known place is no organisation because a model took it for one."""
    places = {(one.start, one.end) for one in names if one.source == GAZETTEER}
    return [
        replace(one, kind="place")
        if one.kind == "organisation" and one.source != SOURCE and (one.start, one.end) in places
        else one
        for one in names
    ]


def _find_places(text: PlainText) -> Iterator[Entity]:
    """Known names that are no part of a longer one: `England` in `Bank of England` is left out."""
    for found in text.matches(_build_pattern(), text.islands):
        before = text.plain[max(0, found.start() - 24) : found.start()]
        after = text.plain[found.end() : found.end() + 16]
        # A capital before it, or the name of a body of which it is a part.
        inside = re.search(
            r"(?:^|[^.!?\s])\s*\b[A-Z][\w'&-]* (?:(?:of|de|du|del|of the) )?$", before
        )
        first = re.search(r"(?:^|[.!?:]\s*|\n)[A-Z][\w']* $", before)
        if (inside and not first) or re.match(r"[ -][A-Z]|'s [A-Z]", after):
            continue
        yield replace(text.build_entity("place", found.span(), score=0.7), source=GAZETTEER)


def is_place(text: str) -> bool:
    return _build_pattern().fullmatch(text) is not None or text.lower() in _AMBIGUOUS_PLACES


_AMBIGUOUS_PLACES = _OTHER_WORDS | frozenset(
    "africa america asia europe europa asie afrique amerique australia antarctica york vegas"
    " francisco diego angeles".split()
)


@lru_cache(maxsize=1)
def _build_pattern() -> re.Pattern[str]:
    """Countries and cities in the three languages, in plain letters."""
    names: set[str] = set()
    for name in _list_places():
        plain = build_plain_text(name).plain
        usual = re.fullmatch(r"[A-Z][a-z]+(?:[ '-][A-Za-z][a-z]*){0,4}", plain) is not None
        if usual and len(plain) > 3 and not set(plain.lower().split()) & _OTHER_WORDS:
            names.add(re.escape(plain))
    longest = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w@./-])(?:{'|'.join(longest)})(?![\w@]|\.[a-z]|-[a-z])")


def _list_places() -> Iterator[str]:
    from babel import Locale

    for language in ("en", "fr", "es"):
        locale = Locale(language)
        for code, name in locale.territories.items():
            if len(str(code)) == 2 and str(code).isalpha() and str(code) not in ("ZZ", "XA", "XB"):
                yield str(name)
        for zone, names_of_zone in locale.time_zones.items():
            region, _, city = str(zone).rpartition("/")
            if region in ("Europe", "Asia", "America", "Africa", "Australia"):
                yield str(names_of_zone.get("city") or city.replace("_", " "))
    yield from (
        "Madrid Barcelona Sevilla Valencia Bilbao Zaragoza Granada Lyon Marseille "
        "Toulouse Bordeaux "
        "Nice Nantes Strasbourg Lille Geneva Genève Ginebra Munich Hamburg Frankfurt "
        "Milan Florence "
        "Barcelone Séville Lisbon Lisbonne Lisboa Bruxelles Bruselas Brussels London Londres "
        "Manchester Birmingham Liverpool Edinburgh Glasgow Bristol Boston Seattle "
        "Washington Houston "
        "Dallas Miami Philadelphia Atlanta Montréal Montreal Québec Quebec Ottawa Vancouver Osaka "
        "Kyoto Mumbai Delhi Beijing"
    ).split()
    yield from (
        "San Francisco",
        "Los Angeles",
        "Los Ángeles",
        "New York",
        "Nueva York",
        "Las Vegas",
    )
