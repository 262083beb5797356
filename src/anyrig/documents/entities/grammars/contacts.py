"""E-mail addresses and telephone numbers.

Digits alone are no telephone number: it needs a + and a country's calling code, the form in which
the countries of the text's language write theirs, or a word such as `Tel.` before it. Which numbers
exist is looked up in phonenumberslite. The form of E.164 is given where the country is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.plain_text import PlainText, Span, build_label

# -- e-mail ----------------------------------------------------------------------------------------

_MAX_LOCAL, _MAX_DOMAIN = 64, 253
_LOCAL = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]+")  # matched backwards
_DOMAIN = re.compile(
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,10}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59})(?![\w@]|-\w)"
)
_EDGE = "'`.*/=?^{|}~!#$%&+-"


def find_emails(source: PlainText) -> Iterator[Entity]:
    """Every address, from one @ to the next: the work is bounded around each."""
    plain = source.plain
    at = plain.find("@")
    while at >= 0:
        span = _locate_email(plain, at)
        if span is not None:
            local, _, domain = source.text[span[0] : span[1]].partition("@")
            yield source.build_entity("email", span, f"{local}@{domain.lower()}", score=0.99)
        at = plain.find("@", at + 1)


def _locate_email(plain: str, at: int) -> Span | None:
    domain = _DOMAIN.match(plain, at + 1, at + 2 + _MAX_DOMAIN)
    if domain is None or at == 0:
        return None
    run = _LOCAL.match(plain[max(0, at - _MAX_LOCAL - 1) : at][::-1])
    if run is None:
        return None
    start = at - run.end()
    while start < at and plain[start] in _EDGE:
        start += 1
    local = plain[start:at]
    if not local or len(local) > _MAX_LOCAL or local.endswith(".") or ".." in local:
        return None
    return None if _is_link(plain, start, domain.end()) else (start, domain.end())


def _is_link(plain: str, start: int, end: int) -> bool:
    """Whether it is part of something else: https://user:word@host, git@host:path, a@b@c."""
    before = plain[max(0, start - 80) : start]
    token = re.split(r"[\s<>(\"]", before)[-1]
    if "://" in token or before.endswith("@"):
        return True
    return re.match(r":[\w.~-]+/\S", plain[end : end + 80]) is not None


# -- telephone -------------------------------------------------------------------------------------

_COUNTRIES = {
    "en": "US GB", "es": "ES MX AR CO CL PE", "fr": "FR BE CH", "de": "DE AT CH", "it": "IT CH",
    "pt": "PT BR", "nl": "NL BE", "ca": "ES", "gl": "ES", "eu": "ES", "pl": "PL", "cs": "CZ",
    "sk": "SK", "sv": "SE", "da": "DK", "no": "NO", "nb": "NO", "fi": "FI", "ro": "RO", "hu": "HU",
    "tr": "TR", "el": "GR", "bg": "BG", "hr": "HR", "sl": "SI", "et": "EE", "lv": "LV", "lt": "LT",
    "ru": "RU", "uk": "UA", "ja": "JP", "ko": "KR", "zh": "CN", "ar": "EG SA", "he": "IL",
    "hi": "IN", "id": "ID", "vi": "VN",
}  # fmt: skip
"""Where a language is spoken, the likeliest country first."""
_INTERNATIONAL = re.compile(
    r"(?<![\w+.,/-])(?:\(?\+ ?|(?<!0)00[ .-]?(?=[1-9]))\(?"
    r"(?P<rest>[1-9](?:[ .()/\u2013-]{0,3}[0-9]){5,18})(?![0-9]|[.,-][0-9])"
)
_WORDS = (
    r"t(?:el|elf|lf|fno)|telephone|telefono|telefon|telefone|phone|fax|mobile|mobil|mob"
    r"|cell(?:ular)?|cellulare|handy|telemovel|celular|movil|portable|gsm|whatsapp|ph"
    r"|call(?: us)?(?: on| at)?|ring(?: us)?(?: on)?|text|dial|hotline|helpline"
    r"|(?:llame|llamar|llamenos|llama)(?: al)?|rufen sie|chiamate|ligue"
    r"|(?:appelez|appeler|joindre)(?:[ -]\w{1,5})?(?: au| le)?"
    r"|contact(?:o)?|standard|centralita|joignable au|reached (?:on|at)"
)
_LABEL = build_label(_WORDS)
_LABELLED = re.compile(
    rf"(?<![A-Za-z])(?:{_WORDS})(?![A-Za-z])[.:#\s)-]{{0,4}}"
    r"(?:(?:no|number|numero|n|is|est|es|al|au|on|at)\b[.:°º\s]{0,3}){0,2}"
    r"(?P<rest>\(?[0-9](?:[ .()/\u2013-]{0,2}[0-9]){5,14})(?![0-9A-Za-z%€$£]|[.,/:-][0-9])",
    re.IGNORECASE,
)
_OTHER_LABEL = re.compile(
    r"(?:ref|reference|order|invoice|facture|factura|pedido|commande|expediente|dossier|case|ticket"
    r"|isbn|issn|part|serial|sku|account|compte|cuenta|version|model|article|id|code|policy|poliza"
    r"|contrat|contrato|contract|tracking|colis|nif|dni|siren|siret|iban|rechnung|bestellung"
    r"|kundennummer|konto|fattura|ordine|conto|encomenda|conta)"
    r"[\W_]{0,3}(?:(?:no|number|numero|num|nr|n)[\W_]{0,4})?$|(?:#|n[°º])\W{0,2}$",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r" (?!(?:or|and|ou|et|o|y|from|for|de|to|a|between|entre|pour|para|during|oder|und|e)\b)[a-z]"
)
_NATIONAL = re.compile(
    r"(?<![0-9A-Za-z+$€£_])(?<![0-9][.,/:-])(?<![0-9] )(?<![/-])"
    r"(?P<rest>\(?[0-9]{1,5}\)?(?:[ .-]?\(?[0-9]{1,8}\)?){0,5})"
    r"(?![0-9A-Za-z%€$£_]|[.,/:-][0-9]| [0-9])"
)
_ANCHOR = re.compile(r"(?:[0-9][ .()/\u2013-]{0,3}){6}")
_DATE_LIKE = re.compile(r"(?:19|20)[0-9]{2}[ .-][0-9]{2}[ .-][0-9]{2}|[0-9]{1,3}(?:\.[0-9]{3})+")


def find_phones(source: PlainText) -> Iterator[Entity]:
    """Every telephone number; `finder` resolves what overlaps."""
    regions = list(source.around(_ANCHOR, 40, 40))
    for found in source.matches(_INTERNATIONAL, regions):
        if entity := _read_international(source, found):
            yield entity
    for found in source.matches(_NATIONAL, regions):
        if entity := _read_national(source, found.span()):
            yield entity
    for found in source.matches(_LABELLED, regions):
        start, end = found.span("rest")
        digits = re.sub(r"[^0-9]", "", found["rest"])
        if not digits.startswith("00"):
            country, value = _resolve(digits, source.language(start))
            start -= source.plain[start - 1 : start] == "+"
            yield _build_phone(source, (start, end), value, country, 0.9)


def _read_international(source: PlainText, found: re.Match[str]) -> Entity | None:
    """The longest run of digits that is a number of the country whose code it begins with."""
    import phonenumbers

    rest = re.sub(r"\(0\)", "   ", found["rest"])
    ends = [one.end() for one in re.finditer(r"[0-9]+", rest)]
    for end in reversed(ends):
        digits = re.sub(r"[^0-9]", "", rest[:end])
        try:
            number = phonenumbers.parse(f"+{digits}")
        except phonenumbers.NumberParseException:
            continue
        has_plus = "+" in found[0]
        check = phonenumbers.is_possible_number if has_plus else phonenumbers.is_valid_number
        if not check(number):
            continue
        start, stop = found.start(), found.start("rest") + end
        if source.plain[start] == "(" and ")" not in source.plain[start:stop]:
            start += 1  # of a bracket around it, not of its own
        country = phonenumbers.region_code_for_country_code(number.country_code or 0)
        value = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
        return _build_phone(source, (start, stop), value, country, 0.99)
    return None


def _read_national(source: PlainText, span: Span) -> Entity | None:
    plain = source.plain
    written = plain[slice(*span)]
    digits = re.sub(r"[^0-9]", "", written)
    if not 8 <= len(digits) <= 12 or _DATE_LIKE.fullmatch(written):
        return None
    groups = len(re.findall(r"[0-9]+", written))
    is_labelled = source.has_label(span[0], _LABEL)
    has_form = groups > 2 or "(" in written or (groups == 2 and digits.startswith("0"))
    if not is_labelled:
        if not has_form and not (digits.startswith("0") and groups == 1):
            return None
        if source.has_label(span[0], _OTHER_LABEL, 30):
            return None
        if (groups == 1 or " " in written) and _COUNTED.match(plain, span[1]):
            return None  # `612 345 678 habitantes`
    country, value = _resolve(digits, source.language(span[0]))
    if not value:
        return None
    score = 1.0 if is_labelled else 0.92 if has_form else 0.75
    return _build_phone(source, span, value, country, score)


@lru_cache(maxsize=4096)
def _resolve(digits: str, language: str) -> tuple[str, str]:
    """The country and E.164 of a national number, in a text of a language."""
    import phonenumbers

    name, _, region = language.partition("-")
    countries: Sequence[str] = (region,) if region else _COUNTRIES.get(name, "").split()
    for country in countries:
        try:
            number = phonenumbers.parse(digits, country)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number_for_region(number, country):
            form = phonenumbers.PhoneNumberFormat.E164
            return country, phonenumbers.format_number(number, form)
    return "", ""


def _build_phone(source: PlainText, span: Span, value: str, country: str, score: float) -> Entity:
    # One code serves North America and the islands: which of them is not certain.
    has_country = country and not value.startswith("+1") and country != "001"
    details = {"country": country} if value and has_country else {}
    return source.build_entity("phone", span, value, score=score, details=details)
