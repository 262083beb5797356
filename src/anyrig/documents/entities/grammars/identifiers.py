"""Numbers that can be checked: bank accounts (IBAN), tax numbers and payment cards.

The checks are python-stdnum's. A number with a country before it, or of a form that nothing else
has, stands for itself; plain digits count only behind a word that says what they are: `SIREN`,
`EIN`, `Partita IVA`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.plain_text import (
    PlainText,
    Span,
    build_label,
    compact,
    find_code_end,
)


def find(source: PlainText) -> Iterator[Entity]:
    """Every number; those that fail their check are marked as invalid."""
    yield from _find_ibans(source)
    yield from _find_tax_numbers(source)
    yield from _find_cards(source)


@cache
def _check(module: str, number: str) -> bool:
    return bool(import_module(f"stdnum.{module}").is_valid(number))


# -- IBAN ------------------------------------------------------------------------------------------

_IBAN_HEAD = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z]{2})[ -]?([0-9]{2})(?=[ -]?[A-Za-z0-9])")
_IBAN_ANCHOR = re.compile(r"[a-z][ -]?[0-9]{2}")
_IBAN_NAME = re.compile(r"iban")
_IBAN_LABEL = build_label(r"iban|i\.b\.a\.n\.?")
_IBAN_LABELLED = re.compile(
    r"(?<![A-Za-z])iban\b\W{0,4}(?:(?:no|nr|number|numero|is|est|es)\b\W{0,3})?"
    r"([A-Za-z]{2}[0-9]{2}(?:[ \-]?[A-Za-z0-9]){8,34})",
    re.IGNORECASE,
)
_IBAN_CLASSES = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Z0-9]"}


@cache
def iban_form(country: str) -> tuple[int, str]:
    """The length of a country's IBANs and a pattern of what follows the check digits; (0, "") for
    a country without IBANs.
    """
    from stdnum import numdb

    info = numdb.get("iban").info(country)[0][1]
    parts = re.findall(r"([0-9]+)!([nac])", info.get("bban", ""))
    size = sum(int(count) for count, _ in parts)
    pattern = "".join(f"{_IBAN_CLASSES[kind]}{{{count}}}" for count, kind in parts)
    return (size + 4, pattern) if parts else (0, "")


def _is_iban(number: str) -> bool:
    from stdnum import iban

    return bool(iban.is_valid(number, check_country=False))


def _find_ibans(source: PlainText) -> Iterator[Entity]:
    last = 0
    for head in source.matches(_IBAN_HEAD, source.around(_IBAN_ANCHOR, 4, 8)):
        size, form = iban_form(head[1].upper())
        if not size or head.start() < last:
            continue
        end = find_code_end(source.plain, head.start(), size, " -\n.")
        if end is None:
            continue
        number = compact(source.plain[head.start() : end])
        is_labelled = source.has_label(head.start(), _IBAN_LABEL)
        is_valid = _is_iban(number)
        if not is_valid and not is_labelled and not re.fullmatch(form, number[4:]):
            continue  # words and numbers that happen to be as long
        yield _build_iban(source, (head.start(), end), number, is_valid, is_labelled)
        last = end
    # What is called an IBAN and has not the length of one is nothing else either.
    for found in source.matches(_IBAN_LABELLED, source.around(_IBAN_NAME, 2, 80)):
        number = compact(found[1])
        size = iban_form(number[:2])[0]
        has_digits = sum(map(str.isdigit, number)) > 8
        if len(number) != size and has_digits and not (size and _is_iban(number[:size])):
            yield _build_iban(source, found.span(1), number, False, True)


def _build_iban(
    source: PlainText, span: Span, number: str, is_valid: bool, is_labelled: bool
) -> Entity:
    score = (1.0 if is_labelled else 0.98) if is_valid else 0.3
    details = {"country": number[:2]}
    return source.build_entity("iban", span, number, score=score, valid=is_valid, details=details)


# -- tax numbers -----------------------------------------------------------------------------------


class _Vat(NamedTuple):
    """The VAT number of a country, which stands behind the country's letters."""

    sizes: tuple[int, ...]
    form: str
    module: str
    prefix: str = ""
    """What the check needs before the number."""


_ES_FORM = r"[0-9]{8}[A-Z]|[XYZKLM][0-9]{7}[A-Z]|[ABCDEFGHJNPQRSUVW][0-9]{7}[0-9A-J]"
_GB_VAT = _Vat((12, 9, 5), "[0-9]{9}(?:[0-9]{3})?|(?:GD|HA)[0-9]{3}", "gb.vat")
_GR_VAT = _Vat((9,), "[0-9]{9}", "gr.vat")
_VAT = {
    "AT": _Vat((9,), "U[0-9]{8}", "at.uid"), "BE": _Vat((10,), "[01][0-9]{9}", "be.vat"),
    "BG": _Vat((10, 9), "[0-9]{9,10}", "bg.vat"), "CHE": _Vat((9,), "[0-9]{9}", "ch.uid", "CHE"),
    "CY": _Vat((9,), "[0-9]{8}[A-Z]", "cy.vat"), "CZ": _Vat((10, 9, 8), "[0-9]{8,10}", "cz.dic"),
    "DE": _Vat((9,), "[1-9][0-9]{8}", "de.vat"), "DK": _Vat((8,), "[0-9]{8}", "dk.cvr"),
    "EE": _Vat((9,), "[0-9]{9}", "ee.kmkr"), "EL": _GR_VAT, "GR": _GR_VAT,
    "ES": _Vat((9,), _ES_FORM, "es.nif"), "FI": _Vat((8,), "[0-9]{8}", "fi.alv"),
    "FR": _Vat((11,), "[0-9A-HJ-NP-Z]{2}[0-9]{9}", "fr.tva"), "GB": _GB_VAT, "XI": _GB_VAT,
    "HR": _Vat((11,), "[0-9]{11}", "hr.oib"), "HU": _Vat((8,), "[0-9]{8}", "hu.anum"),
    "IE": _Vat((9, 8), "[0-9]{7}[A-W][A-IW]?", "ie.vat"), "IT": _Vat((11,), "[0-9]{11}", "it.iva"),
    "LT": _Vat((12, 9), "[0-9]{9}(?:[0-9]{3})?", "lt.pvm"),
    "LU": _Vat((8,), "[0-9]{8}", "lu.tva"), "LV": _Vat((11,), "[0-9]{11}", "lv.pvn"),
    "MT": _Vat((8,), "[0-9]{8}", "mt.vat"), "NL": _Vat((12,), "[0-9]{9}B[0-9]{2}", "nl.btw"),
    "PL": _Vat((10,), "[0-9]{10}", "pl.nip"), "PT": _Vat((9,), "[0-9]{9}", "pt.nif"),
    "RO": _Vat((10, 9, 8, 7), "[1-9][0-9]{6,9}", "ro.cf"),
    "SE": _Vat((12,), "[0-9]{12}", "se.vat"), "SI": _Vat((8,), "[0-9]{8}", "si.ddv"),
    "SK": _Vat((10,), "[0-9]{10}", "sk.dph"),
}  # fmt: skip
_VAT_PREFIX = re.compile(
    rf"(?<![A-Za-z0-9_])({'|'.join(sorted(_VAT, key=len, reverse=True))})[ .-]?(?=[0-9A-Z])"
)
_VAT_LABEL = build_label(
    r"vat(?: reg(?:istration)?)?|tva|iva|btw|mwst|ust|usc|tax(?: id)?|tin|nif|cif|vies|fiscal"
    r"|intracom\w*|ust-?id(?:nr)?\.?|p\. ?iva|partita iva"
)


class _TaxForm(NamedTuple):
    """A tax number that its form gives away."""

    scheme: str
    pattern: re.Pattern[str]
    module: str
    label: re.Pattern[str]
    """A label that makes it certain."""
    has_check: bool = True
    """Whether there are check digits: a rule of which numbers are issued proves nothing."""


class _LabelledTaxForm(NamedTuple):
    """A tax number of plain digits, which needs its label."""

    scheme: str
    words: str
    form: str
    module: str
    has_check: bool = True


def _shape(body: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9_.-])(?:{body})(?![A-Za-z0-9_]|[.-][0-9])")


_ES_LABEL = build_label(
    r"d\.?n\.?i\.?|n\.?i\.?f\.?|n\.?i\.?e\.?|c\.?i\.?f\.?|documento|identidad|fiscal"
)
_SHAPES = (
    _TaxForm("es-nif", _shape(r"(?:[0-9]{8}|[0-9]{1,2}\.[0-9]{3}\.[0-9]{3})[ -]?[A-HJ-NP-TV-Z]"),
           "es.dni", _ES_LABEL),
    _TaxForm("es-nie", _shape(r"[XYZKLM][ -]?[0-9]{7}[ -]?[A-HJ-NP-TV-Z]"), "es.nif", _ES_LABEL),
    _TaxForm("es-cif", _shape(r"[ABCDEFGHJNPQRSUVW][ -]?[0-9]{7}[ -]?[0-9A-J]"
                            r"|[ABCDEFGHJNPQRSUVW]-?[0-9]{2}\.[0-9]{3}\.[0-9]{2}[0-9A-J]"),
           "es.cif", _ES_LABEL),
    _TaxForm("fr-nir", _shape(r"[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[2-9][0-9]) ?(?:[0-9]{2}|2[AB]) ?"
                            r"[0-9]{3} ?[0-9]{3}[ /-]?[0-9]{2}"),
           "fr.nir", build_label(r"nir|securite sociale|secu|insee|ss|assure")),
    _TaxForm("us-ssn", _shape(r"[0-9]{3}-[0-9]{2}-[0-9]{4}"), "us.ssn",
           build_label(r"ssn|social security"), has_check=False),
    _TaxForm("gb-nino", _shape(r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?"
                             r"(?:[0-9]{2} ?){3}[A-D]"),
           "", build_label(r"nino|ni|national insurance"), has_check=False),
    _TaxForm("it-cf", _shape(r"[A-Z]{6}[0-9]{2}[ABCDEHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]"),
           "it.codicefiscale", build_label(r"codice fiscale|c\.?f\.?")),
    _TaxForm("br-cpf", _shape(r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}"), "br.cpf",
           build_label(r"cpf")),
    _TaxForm("br-cnpj", _shape(r"[0-9]{2}\.[0-9]{3}\.[0-9]{3}/[0-9]{4}-[0-9]{2}"), "br.cnpj",
           build_label(r"cnpj")),
)  # fmt: skip
_LABELLED = (
    _LabelledTaxForm("fr-siret", r"siret", "[0-9]{14}", "fr.siret"),
    _LabelledTaxForm("fr-siren", r"siren|rcs(?: [a-z-]{1,20}){0,3}", "[0-9]{9}", "fr.siren"),
    _LabelledTaxForm("fr-spi", r"numero fiscal|spi|identifiant fiscal", "[0-3][0-9]{12}",
                     "fr.nif"),
    _LabelledTaxForm("us-ein",
                     r"f?ein|employer identification|tax(?:payer)? id(?:entification)?|tin",
                     "[0-9]{9}", "us.ein", has_check=False),
    _LabelledTaxForm("us-ssn", r"ssn|social security", "[0-9]{9}", "us.ssn", has_check=False),
    _LabelledTaxForm("gb-utr", r"utr|(?:unique )?taxpayer reference", "[0-9]{10}", "gb.utr"),
    _LabelledTaxForm("gb-vat", r"vat(?: reg(?:istration)?)?", "[0-9]{9}", "gb.vat"),
    _LabelledTaxForm("it-iva", r"p(?:artita|\.)? ?iva", "[0-9]{11}", "it.iva"),
    _LabelledTaxForm("de-steuer-id", r"steuer-?id(?:entifikations)?(?:nummer|nr\.?)?|idnr\.?",
              "[0-9]{11}", "de.idnr"),
    _LabelledTaxForm("pt-nif", r"nif|nipc|contribuinte|n\.?i\.?f\.?", "[0-9]{9}", "pt.nif"),
    _LabelledTaxForm("be-number", r"numero d'entreprise|ondernemingsnummer|btw|bce|kbo",
                     "[01][0-9]{9}", "be.vat"),
    _LabelledTaxForm("pl-nip", r"nip", "[0-9]{10}", "pl.nip"),
    _LabelledTaxForm("br-cpf", r"cpf", "[0-9]{11}", "br.cpf"),
    _LabelledTaxForm("ar-cuit", r"cui[tl]", "[0-9]{11}", "ar.cuit"),
)  # fmt: skip
_TAX_ANCHOR = re.compile(r"(?:[0-9][ ./-]{0,2}){3}")
_TAX_DIGITS = re.compile(r"[0-9](?:[ .-]?[0-9]){8,13}(?![0-9A-Za-z])")
_TAX_WORDS = re.compile(
    rf"(?<![A-Za-z])(?:{'|'.join(one.words for one in _LABELLED)})(?![A-Za-z])"
    r"(?:[\W_]{0,4}(?:no|nr|num|number|numero|id|reg|code|is|est|es|of|de|du|del"
    r"|n)\b){0,3}[\W_]{0,4}",
    re.IGNORECASE,
)


def _find_tax_numbers(source: PlainText) -> Iterator[Entity]:
    regions = list(source.around(_TAX_ANCHOR, 60, 30))
    yield from _find_vat_numbers(source, regions)
    for shape in _SHAPES:
        for found in source.matches(shape.pattern, regions):
            number = compact(found[0])
            is_valid = not shape.module or _check(shape.module, number)
            is_labelled = source.has_label(found.start(), shape.label)
            yield _build_tax(source, found.span(), number, shape.scheme, is_valid,
                             has_check=shape.has_check, is_labelled=is_labelled)  # fmt: skip
    for words in source.matches(_TAX_WORDS, regions):
        digits = _TAX_DIGITS.match(source.plain, words.end())
        if digits is None:
            continue
        number = compact(digits[0])
        fitting = [
            one for one in _LABELLED
            if re.match(rf"(?:{one.words})(?![A-Za-z])", words[0], re.IGNORECASE)
            and re.fullmatch(one.form, number)
        ]  # fmt: skip
        valid = [one for one in fitting if _check(one.module, number)]
        if fitting:  # a label that serves several countries
            one = (valid or fitting)[0]
            yield _build_tax(source, digits.span(), number, one.scheme, bool(valid),
                             has_check=one.has_check, is_labelled=True)  # fmt: skip


def _find_vat_numbers(source: PlainText, regions: Sequence[Span]) -> Iterator[Entity]:
    for head in source.matches(_VAT_PREFIX, regions):
        vat = _VAT[head[1]]
        candidates = []
        for size in vat.sizes:
            end = find_code_end(source.plain, head.end(), size, " .-")
            number = compact(source.plain[head.end() : end or head.end()])
            if end is not None and re.fullmatch(vat.form, number):
                candidates.append((end, number, _check(vat.module, vat.prefix + number)))
        if candidates:
            end, number, is_valid = max(candidates, key=lambda one: one[2])
            is_labelled = source.has_label(head.start(), _VAT_LABEL)
            scheme = f"{head[1][:2].lower()}-vat"
            yield _build_tax(source, (head.start(), end), head[1] + number, scheme, is_valid,
                             has_check=True, is_labelled=is_labelled)  # fmt: skip


def _build_tax(
    source: PlainText, span: Span, number: str, scheme: str, is_valid: bool, *, has_check: bool,
    is_labelled: bool,
) -> Entity:  # fmt: skip
    score = (0.99 if is_labelled else 0.93 if has_check else 0.7) if is_valid else 0.3
    details = {"scheme": scheme, "country": scheme[:2].upper()}
    valid = is_valid if has_check or not is_valid else None
    return source.build_entity("tax", span, number, score=score, valid=valid, details=details)


# -- payment cards ---------------------------------------------------------------------------------

_CARD = re.compile(
    r"(?<![A-Za-z0-9.,+\-/])(?:[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|3[47][0-9]{2}([ -])[0-9]{6}\2[0-9]{5}|[0-9]{13,19})(?![A-Za-z0-9]|[ -][0-9]|[.,][0-9])"
)
_CARD_NETWORKS = (
    ("visa", re.compile(r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})")),
    ("mastercard", re.compile(
        r"(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}")),
    ("amex", re.compile(r"3[47][0-9]{13}")),
    ("diners", re.compile(r"3(?:0[0-5]|[689][0-9])[0-9]{11}")),
    ("discover", re.compile(r"6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}")),
    ("jcb", re.compile(r"35(?:2[89]|[3-8][0-9])[0-9]{12}")),
    ("maestro", re.compile(r"(?:50|5[6-9]|6[0-9])[0-9]{10,17}")),
)  # fmt: skip
_CARD_ANCHOR = re.compile(r"(?:[0-9][ -]?){12}")
_CARD_LABEL = build_label(
    r"card|credit card|debit card|visa|mastercard|amex|american express|carte(?: bancaire| bleue)?"
    r"|cb|tarjeta(?: de credito| de debito)?|pan|carta di credito|cartao|kreditkarte"
)


def _find_cards(source: PlainText) -> Iterator[Entity]:
    """A bare run of digits needs a label unless its network is a large one."""
    from stdnum import luhn

    for found in source.matches(_CARD, source.around(_CARD_ANCHOR, 2, 30)):
        number = compact(found[0])
        network = next((name for name, form in _CARD_NETWORKS if form.fullmatch(number)), "")
        is_labelled = source.has_label(found.start(), _CARD_LABEL)
        is_grouped = len(found[0]) > len(number)
        if not network and not (is_grouped and is_labelled):
            continue
        is_valid = bool(network) and luhn.is_valid(number)
        is_certain = is_valid and network not in ("maestro", "diners")
        if not (is_labelled or is_grouped or is_certain):
            continue
        score = (1.0 if is_labelled else 0.9 if is_grouped else 0.75) if is_valid else 0.3
        details = {"network": network} if network else {}
        yield source.build_entity(
            "card", found.span(), number, score=score, valid=is_valid, details=details
        )
