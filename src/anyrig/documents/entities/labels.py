"""What models call things, in our words; and a name without what clings to it."""

from __future__ import annotations

import re
from dataclasses import replace

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.grammars.dates import get_calendar
from anyrig.documents.words import strip_accents

_KINDS = {
    "person": "per pers person people persona personne name givenname surname human individual",
    "organisation": "org organisation organization organizacion company corporation institution "
    "corp group business",
    "place": "loc gpe fac location place geo city country lieu lugar facility address region state",
    "date": "date",
    "money": "money amount currency",
    "percent": "percent percentage",
    "email": "email e-mail emailaddress",
    "phone": "phone telephone phonenumber telephonenumber",
    "iban": "iban",
    "card": "creditcard creditcardnumber",
}
_BY_LABEL = {label: kind for kind, labels in _KINDS.items() for label in labels.split()}
_NOT_NAMES = frozenset(
    "iban bic swift nif nie cif dni siren siret tva vat ein ssn utr nino tel fax email e-mail mail "
    "phone mobile telephone telefono movil portable cc bcc re rcs iva btw ust iban: eur "
    "usd gbp chf "
    "tax id invoice facture factura order ref date total page monday tuesday wednesday thursday "
    "friday saturday sunday lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes "
    "miercoles jueves viernes sabado domingo mr mrs ms dr m mme mlle sr sra don dona bonjour merci "
    "hola gracias hello dear hi thanks regards cordialement atentamente visa mastercard "
    "pdf url http "
    "n ttc ht tva bic reglement montant echeance client cliente objet asunto fecha importe annexe "
    "tableau table figure article courriel correo telf tlf dna concepto b.sc m.sc bsc msc ph.d phd "
    "ba ma mba cv llame llamar appelez call contact contacto telefax euro euros dollar "
    "dollars".split()
)
_ALSO_NAMES = frozenset(("nino", "swift", "iban", "iva"))
"""Abbreviations of those that are names of people in another spelling: `NINO`, `Nino`."""
_TITLE = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Miss|Dr|Prof|Sir|Dame|Lord|Lady|M|MM|Mme|Mlle|Me|Sr|Sra|Srta|Dra"
    r"|Don|Do\u00f1a|D"
    r"|D\u00f1a|Professor|President|Presidente|Pr\u00e9sident|Docteur|Doctor|Ma\u00eetre"
    r"|Monsieur|Madame"
    r"|Se\u00f1or|Se\u00f1ora|Herrn?|Frau|Dear|Querid[oa]s?|Estimad[oa]s?|Lieber?|Chers?|Ch\u00e8res?"
    r")\.? )+(?=[A-Z\u00c0-\u00de])"
)
_GREETING = re.compile(
    r"(?:Dear|Querid[oa]s?|Estimad[oa]s?|Lieber?|Chers?|Ch\u00e8res?|Hello|Hola) "
)
_POSTCODE = re.compile(
    r"[ ,]+(?:[A-Z]{1,2}[0-9][0-9A-Z]? ?[0-9][A-Z]{2}|(?:[A-Z]{2} )?[0-9]{5}(?:-[0-9]{4})?)$"
)
_DETERMINER = re.compile(
    r"(?:the|a|an|le|la|les|un|une|du|des|de|el|los|las|una|del|al|y|et|and|en|by|from|in"
    r"|of|to|at) "
    r"|[ld]['\u2019]|The (?!Hague\b)"
)
_ENDS = re.compile(
    r"[\s,;:!?\u00a1\u00bf()\[\]{}\"\u00ab\u00bb\u201c\u201d\u2018*\u2022|/\\<>=_\u2013\u2014-]+"
)
_ABBREVIATED = re.compile(
    r"(?:\b[A-Z]|\b(?:Inc|Ltd|Co|Corp|Jr|Sr|Bros|Cia|C\u00eda|Plc|Ltda|St|Mt|U\.S|S\.A|S\.L|S\.L\.U"
    r"|S\.A\.S|S\.p\.A|N\.V|B\.V|e\.V|GmbH \& Co))\.$"
)
_PHRASES = frozenset(
    ("national insurance", "social security", "securite sociale", "sécurité sociale", "tax id",
     "unique taxpayer reference", "vat number", "vat no", "p. iva", "partita iva", "credit card")
)  # fmt: skip
# A word that says what a place or a body is, and stands before its name.
_GENERIC = re.compile(
    r"(?!(?:rue|avenue|boulevard|place|quai|calle|plaza|avenida|paseo|hospital|rio|río"
    r"|mont|monte|lac"
    r"|lago|île|isla|mer|mar|street|river|lake|port|puerto|golfe|golfo|cap|cabo) )"
    r"(?:[a-zà-ÿ]+ ){1,2}(?:(?:de|du|del|de la|en|d['\u2019]) ?)?(?=[A-ZÀ-Þ])"
)
_BODY = re.compile(
    r"(?:société|empresa|groupe|grupo|entreprise|compañía|company|firma|firm|banco"
    r"|banque) (?=[A-ZÀ-Þ])"
)
_TAIL = re.compile(
    r"[ ](?:en|de|du|del|la|le|les|el|los|las|y|et|and|of|à|a|au|aux|by|for|in|to|que|qui"
    r"|sur|con|por"
    r"|[a-zà-ÿ]+ó)$"
)
_IMPERATIVE = re.compile(r"[A-ZÀ-Þ][a-zà-ÿ]+ez")
_MONTHS = frozenset((*get_calendar("").months, *get_calendar("").short_months))


def map_label(label: str, *, known_only: bool = False) -> str:
    """The kind that a model's label stands for; its own name if none, or nothing."""
    plain = re.sub(r"[^a-z]", "", label.lower())
    return _BY_LABEL.get(plain, "" if known_only else label.lower())


def clean_name(one: Entity) -> Entity | None:
    """A name less articles, titles, possessives and marks; None if nothing of a name is left."""
    start, end = _trim(one.text, 0, len(one.text))
    newline = re.compile(r"\s*\n").search(one.text, start, end)
    if newline:
        start, end = _trim(one.text, start, newline.start())
    for _ in range(3):
        # `de Gaulle` and `del Toro` keep what looks like an article.
        begin = (_TITLE if one.kind == "person" else _DETERMINER).match(one.text, start, end)
        if begin is None or begin.end() >= end:
            break
        start, end = _trim(one.text, begin.end(), end)
    start, end = _drop_small_words(one, start, end)
    text = one.text[start:end]
    if not _is_name(text) or (one.kind != "person" and _GREETING.match(text)):
        return None
    shown = " ".join(text.split())
    return replace(
        one, text=text, start=one.start + start, end=one.start + end,
        value=shown if shown != text else "",
    )  # fmt: skip


def _drop_small_words(one: Entity, start: int, end: int) -> tuple[int, int]:
    """Less small words around it: `bureau de Lyon`, `Banco Santander ganó`."""
    if one.kind in ("place", "organisation"):
        postcode = _POSTCODE.search(one.text, start, end)
        end = postcode.start() if postcode else end
        generic = _GENERIC if one.kind == "place" else _BODY
        begin = generic.match(one.text, start, end)
        start = begin.end() if begin else start
    for _ in range(3):
        tail = _TAIL.search(one.text, start, end)
        if tail is None:
            break
        end = tail.start()
    return start, end


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    begin = _ENDS.match(text, start, end)
    start = begin.end() if begin else start
    while end > start:
        if _ENDS.fullmatch(text, end - 1, end):
            end -= 1
        elif text[max(start, end - 2) : end] in ("'s", "\u2019s"):
            end -= 2
        elif text[end - 1] in "'\u2019" or (
            text[end - 1] == "." and not _ABBREVIATED.search(text, start, end)
        ):
            end -= 1
        else:
            break
    while start < end and text[start] in ".'\u2019":
        start += 1
    return start, end


def is_no_name(word: str) -> bool:
    """Whether a word is known to name nothing: a label, a greeting, a month, a currency."""
    low = strip_accents(word).lower()
    return low in _MONTHS or (low in _NOT_NAMES and not (low in _ALSO_NAMES and word.istitle()))


def _is_name(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    if letters < 2 or letters * 2 < len(text) or "@" in text or "://" in text or len(text) > 120:
        return False
    if not any(character.isupper() or ord(character) > 0x2FF for character in text):
        return False
    if text.lower() in _PHRASES or _IMPERATIVE.fullmatch(text):
        return False
    words = [word.strip(".,:;'°º") for word in strip_accents(text).split()]
    return not all(is_no_name(word) or word.isdigit() for word in words)
