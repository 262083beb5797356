"""Tax numbers, with their check digits: Spain, France, the US, the UK, and the VAT of the EU.

A number with a country before it, or of a form that nothing else has, stands for itself. Plain
digits count only behind a word that says what they are: `SIREN`, `EIN`, `Partita IVA`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars import tax_checks as checks
from anyrig.documents.entities.grammars.digits import mod_11_10
from anyrig.documents.entities.reading import Reading, Span, collected, compact, label

Check = Callable[[str], bool]
_ES = r"[0-9]{8}[A-Z]|[XYZKLM][0-9]{7}[A-Z]|[ABCDEFGHJNPQRSUVW][0-9]{7}[0-9A-J]"
# Country before the number -> (lengths, form, check).
_VAT: dict[str, tuple[tuple[int, ...], str, Check]] = {
    "AT": ((9,), "U[0-9]{8}", checks.at_uid), "BE": ((10,), "[01][0-9]{9}", checks.be_number),
    "CHE": ((9,), "[0-9]{9}", checks.ch_uid), "DE": ((9,), "[1-9][0-9]{8}", mod_11_10),
    "DK": ((8,), "[0-9]{8}", checks.dk_cvr), "EL": ((9,), "[0-9]{9}", checks.el_afm),
    "ES": ((9,), _ES, checks.es_any), "FI": ((8,), "[0-9]{8}", checks.fi_alv),
    "FR": ((11,), "[0-9A-HJ-NP-Z]{2}[0-9]{9}", checks.fr_tva),
    "GB": ((12, 9, 5), "[0-9]{9}(?:[0-9]{3})?|(?:GD|HA)[0-9]{3}", checks.gb_vat),
    "GR": ((9,), "[0-9]{9}", checks.el_afm),
    "IE": ((9, 8), "[0-9]{7}[A-W][A-IW]?", checks.ie_vat),
    "IT": ((11,), "[0-9]{11}", checks.it_iva), "LU": ((8,), "[0-9]{8}", checks.lu_tva),
    "NL": ((12,), "[0-9]{9}B[0-9]{2}", checks.nl_btw), "PL": ((10,), "[0-9]{10}", checks.pl_nip),
    "PT": ((9,), "[0-9]{9}", checks.pt_nif), "SE": ((12,), "[0-9]{12}", checks.se_moms),
    "XI": ((12, 9, 5), "[0-9]{9}(?:[0-9]{3})?|(?:GD|HA)[0-9]{3}", checks.gb_vat),
}  # fmt: skip
_PREFIX = re.compile(
    rf"(?<![A-Za-z0-9_])({'|'.join(sorted(_VAT, key=len, reverse=True))})[ .-]?(?=[0-9A-Z])"
)
_ANY = (
    r"vat(?: reg(?:istration)?)?|tva|iva|btw|mwst|ust|usc|tax(?: id)?|tin|nif|cif|vies|fiscal"
    r"|intracom\w*|ust-?id(?:nr)?\.?|p\. ?iva|partita iva"
)
_LABEL = label(_ANY)


class _Shape(NamedTuple):
    """A number that its form gives away."""

    scheme: str
    pattern: re.Pattern[str]
    check: Check
    words: re.Pattern[str]
    """A label that makes it sure."""
    checked: bool = True
    """Whether there are check digits; a rule of what is given out proves nothing."""
    alone: bool = True


class _Said(NamedTuple):
    """A number of plain digits, which needs its label."""

    scheme: str
    words: str
    form: str
    check: Check
    checked: bool = True


def _shape(body: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_.-])(?:{body})(?![A-Za-z0-9_]|[.-][0-9])")


_DNI_WORDS = label(
    r"d\.?n\.?i\.?|n\.?i\.?f\.?|n\.?i\.?e\.?|c\.?i\.?f\.?|documento|identidad|fiscal"
)
_SHAPES = (
    _Shape("es-nif", _shape(r"(?:[0-9]{8}|[0-9]{1,2}\.[0-9]{3}\.[0-9]{3})[ -]?[A-HJ-NP-TV-Z]"),
           lambda n: checks.es_dni(n.rjust(9, "0")), _DNI_WORDS),
    _Shape("es-nie", _shape(r"[XYZKLM][ -]?[0-9]{7}[ -]?[A-HJ-NP-TV-Z]"), checks.es_dni,
           _DNI_WORDS),
    _Shape("es-cif", _shape(r"[ABCDEFGHJNPQRSUVW][ -]?[0-9]{7}[ -]?[0-9A-J]"
                            r"|[ABCDEFGHJNPQRSUVW]-?[0-9]{2}\.[0-9]{3}\.[0-9]{2}[0-9A-J]"),
           checks.es_cif, _DNI_WORDS),
    _Shape("fr-nir", _shape(r"[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[2-9][0-9]) ?(?:[0-9]{2}|2[AB]) ?"
                            r"[0-9]{3} ?[0-9]{3}[ /-]?[0-9]{2}"),
           checks.fr_nir, label(r"nir|securite sociale|secu|insee|ss|assure")),
    _Shape("us-ssn", _shape(r"[0-9]{3}-[0-9]{2}-[0-9]{4}"), checks.us_ssn,
           label(r"ssn|social security"), checked=False),
    _Shape("gb-nino", _shape(r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?(?:[0-9]{2} ?){3}[A-D]"),
           lambda n: n[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ"),
           label(r"nino|ni|national insurance"), checked=False),
    _Shape("it-cf", _shape(r"[A-Z]{6}[0-9]{2}[ABCDEHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]"),
           checks.it_codice, label(r"codice fiscale|c\.?f\.?")),
)  # fmt: skip
_SAID = (
    _Said("fr-siret", r"siret", "[0-9]{14}", checks.fr_siret),
    _Said("fr-siren", r"siren|rcs(?: [a-z-]{1,20}){0,3}", "[0-9]{9}", checks.fr_siren),
    _Said("fr-spi", r"numero fiscal|spi|identifiant fiscal", "[0-3][0-9]{12}", checks.fr_spi),
    _Said("us-ein", r"f?ein|employer identification|tax(?:payer)? id(?:entification)?|tin",
          "[0-9]{9}", checks.us_ein, checked=False),
    _Said("us-ssn", r"ssn|social security", "[0-9]{9}", checks.us_ssn, checked=False),
    _Said("gb-utr", r"utr|(?:unique )?taxpayer reference", "[0-9]{10}", checks.gb_utr),
    _Said("gb-vat", r"vat(?: reg(?:istration)?)?", "[0-9]{9}", checks.gb_vat),
    _Said("it-iva", r"p(?:artita|\.)? ?iva", "[0-9]{11}", checks.it_iva),
    _Said("de-steuer-id", r"steuer-?id(?:entifikations)?(?:nummer|nr\.?)?|idnr\.?", "[0-9]{11}",
          checks.de_steuer_id),
    _Said("pt-nif", r"nif|nipc|contribuinte|n\.?i\.?f\.?", "[0-9]{9}", checks.pt_nif),
    _Said("be-number", r"numero d'entreprise|ondernemingsnummer|btw|bce|kbo", "[01][0-9]{9}",
          checks.be_number),
    _Said("pl-nip", r"nip", "[0-9]{10}", checks.pl_nip),
)  # fmt: skip
_SEVERAL = re.compile(r"(?:[0-9][ ./-]{0,2}){3}")
_DIGITS = re.compile(r"[0-9](?:[ .-]?[0-9]){8,13}(?![0-9A-Za-z])")
_WORDS = re.compile(
    rf"(?<![A-Za-z])(?:{'|'.join(one.words for one in _SAID)})(?![A-Za-z])"
    r"(?:[\W_]{0,4}(?:no|nr|num|number|numero|id|reg|code|is|est|es|of|de|du|del"
    r"|n)\b){0,3}[\W_]{0,4}",
    re.IGNORECASE,
)


def find(reading: Reading) -> Iterator[Entity]:
    """Every tax number; those that fail their check are marked so."""
    regions = list(reading.around(_SEVERAL, 60, 30))
    yield from _with_country(reading, regions)
    for shape in _SHAPES:
        for found in reading.matches(shape.pattern, regions):
            number = compact(found[0])
            named = reading.labelled(found.start(), shape.words)
            yield _entity(reading, found.span(), number, shape.scheme,
                          shape.check(number), shape.checked, named)  # fmt: skip
    yield from _behind_words(reading, regions)


def _with_country(reading: Reading, regions: Sequence[Span]) -> Iterator[Entity]:
    for head in reading.matches(_PREFIX, regions):
        sizes, form, check = _VAT[head[1]]
        for size in sizes:
            end = collected(reading.plain, head.end(), size, " .-")
            if end is None:
                continue
            number = compact(reading.plain[head.end() : end])
            if not re.fullmatch(form, number):
                continue
            named = reading.labelled(head.start(), _LABEL)
            yield _entity(reading, (head.start(), end), head[1] + number,
                          f"{head[1][:2].lower()}-vat", check(number), True, named)  # fmt: skip
            break


def _behind_words(reading: Reading, regions: Sequence[Span]) -> Iterator[Entity]:
    """Plain digits behind a label; a label that serves several countries tries each."""
    for words in reading.matches(_WORDS, regions):
        found = _DIGITS.match(reading.plain, words.end())
        if found is None:
            continue
        number = compact(found[0])
        fitting = [one for one in _SAID if _says(one, words[0]) and re.fullmatch(one.form, number)]
        held = [one for one in fitting if one.check(number)]
        if fitting:
            one = (held or fitting)[0]
            yield _entity(reading, found.span(), number, one.scheme, bool(held), one.checked, True)


def _says(one: _Said, words: str) -> bool:
    return re.match(rf"(?:{one.words})(?![A-Za-z])", words, re.IGNORECASE) is not None


def _entity(
    reading: Reading, span: tuple[int, int], number: str, scheme: str, holds: bool, checked: bool,
    named: bool,
) -> Entity:  # fmt: skip
    score = (0.99 if named else 0.93 if checked else 0.7) if holds else 0.3
    details = {"scheme": scheme, "country": scheme[:2].upper()}
    valid = holds if checked or not holds else None
    return reading.entity("tax", span, number, score=score, valid=valid, details=details)
