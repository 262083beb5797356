"""Numbers that are names: phones, ISBN, versions, rooms, flights, models, sections, keys."""

from __future__ import annotations

import re

from anyrig.text import values as v
from anyrig.text.recognizers import (
    RECOGNIZED_LANGUAGES,
    LazyPattern,
    Proposal,
    per_language,
    recognizer,
)
from anyrig.text.recognizers.acronyms import is_word
from anyrig.text.recognizers.common import (
    after,
    before,
    one_of,
    word_after,
    word_before,
)
from anyrig.text.recognizers.languages import ROMANCE, TABLES, english
from anyrig.text.recognizers.languages.shared import CAPITAL, SMALL
from anyrig.text.roman_numerals import roman_value

_STREET = (
    r"(?:Street|Avenue|Road|Drive|Lane|Boulevard|Way|Court|Place|Terrace|Square|Highway|Parkway|"
    r"Circle|Row|St|Ave|Rd|Dr|Ln|Blvd|Ct|Pl|Sq|Hwy|Pkwy)\b"
)
_EXT = r"(?:,? ?(?:ext\.?|x|extension) ?(\d{1,6})(?!\w))?"
# Phones and other rows of digits
_GAP = "[ .-]"
_PHONES = {
    # The world, America, 1-800 with letters, without an area, Britain.
    "en": r"(?<![\w.,$£€-])(\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){2,5}|"
    r"(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}|"
    r"1-8\d\d-[A-Z0-9]{3,4}(?:-?[A-Z0-9]{2,7})?|1-8\d\d-[A-Z]{4,10}|\d{3}-\d{4}|"
    r"\(?0\d{2,4}\)?[ -]\d{3,4}[ -]?\d{3,4}|0\d{9,10}|0\d(?: \d\d){4})" + _EXT + r"(?![\w-]|\.\d)",
    # The world, nine digits of Spain in their groupings, ten and eight of the Americas.
    "es": rf"(?<![\w.,+€$-])(\(?\+\d{{1,3}}\)?(?:{_GAP}?\(?\d{{1,4}}\)?){{2,6}}|"
    rf"[6-9]\d\d{_GAP}\d\d\d{_GAP}\d\d\d|[6-9]\d\d(?:{_GAP}\d\d){{3}}|"
    rf"[89]\d{_GAP}\d{{3}}{_GAP}\d\d{_GAP}\d\d|[679]\d{{8}}|\(\d{{2,3}}\) ?\d{{3,4}}{_GAP}\d{{4}}|"
    rf"\d\d{_GAP}\d{{4}}{_GAP}\d{{4}}|\d{{3}}-\d{{3,4}}-\d{{3,4}}|\d{{4}}-\d{{4}})"
    rf"(?![\w-]|[.,]\d|{_GAP}\d)",
    # The world, ten digits of France, America.
    "fr": rf"(?<![\w.,+$-])(\(?(?:\+|00)\d{{1,3}}\)?(?:{_GAP}?\(0\))?(?:{_GAP}?\d{{1,4}}){{2,7}}"
    r"(?!\w)|"
    rf"0[1-9](?:{_GAP}?\d\d){{4}}(?!\w|[.,]\d|{_GAP}\d)|08\d\d(?:{_GAP}\d{{3}}){{2}}(?!\w)|"
    rf"08\d\d(?:{_GAP}\d\d){{3}}(?!\w)|\(?\d{{3}}\)?{_GAP}\d{{3}}-\d{{4}}(?!\w))",
}
_CALLED = LazyPattern(
    r"(?:tel[eé]fonos?|tel\.?|tfno\.?|tlf\.?|telf\.?|m[oó]vil|celular|fax|llam\w+|whatsapp|n[uú]mero|"
    r"cel\.?|marc\w+)[^.\d]{0,25}$",
    re.IGNORECASE,
)
_COUNTED_THINGS = frozenset(
    "habitantes personas euros dólares pesos kilómetros km toneladas libros años unidades votos "
    "de metros millones".split()
)


@per_language("phone", _PHONES.__getitem__, languages=RECOGNIZED_LANGUAGES, weight=1.8)
def propose_phone(language: str, match: re.Match[str]) -> v.Value | None:
    written = match[1]
    abroad = re.match(r"\(?(?:\+|00)", written)
    count = sum(sign.isdecimal() for sign in written)
    if abroad and not 8 <= count <= 16:
        return None
    if language == "es" and not abroad and _is_count(match):
        return None
    if language == "fr":
        return _pairs(written)
    return v.Digits(_groups(written), plus="+" in written, extension=(*match.groups(), "")[1] or "")


def _is_count(match: re.Match[str]) -> bool:
    """Whether a Spanish number counts something or names two years."""
    written = match[1]
    if years := re.fullmatch(r"(\d{4})-(\d{4})", written):
        return all(1000 <= int(year) <= 2100 for year in years.groups())
    dotted = "." in written and not _CALLED.search(before(match, 50))
    counted = word_after(match).lower() in _COUNTED_THINGS
    return dotted or counted or after(match, 2).strip()[:1] in tuple("€$%£")


def _groups(written: str) -> tuple[str, ...]:
    groups = re.findall(r"\d+|[A-Za-z]+", written)
    if len(groups) == 1 and len(groups[0]) == 9:
        groups = re.findall(r"\d{3}", groups[0])
    if written.startswith("1-8"):
        groups[:2] = [" ".join(groups[:2])]
    return tuple(groups)


def _pairs(written: str) -> v.Digits:
    """French groups are said as numbers of two or three digits."""
    if compact := re.fullmatch(r"\+33([1-9])(\d{8})|(\d{10})", written):
        pairs = " ".join(re.findall("..", compact[2] or compact[3]))
        written = f"+33 {compact[1]} {pairs}" if compact[1] else pairs
    groups: list[str] = []
    for group in re.findall(r"\d+", written):
        if len(group) <= 3 or (len(group) == 4 and group[0] == "0"):
            groups.append(group)
        else:
            odd = len(group) % 2
            groups += ([group[0]] if odd else []) + re.findall("..", group[odd:])
    return v.Digits(tuple(groups), plus="+" in written, by_group=True)


@recognizer(
    "phone",
    r"(?<![\w.,$£€-])(?<!Porsche )(?<!\b[Aa] )(911)(?![\w%,]\w|\w|\.\d)(?! [a-z]+s\b)|"
    r"(?<!\d)(?<=\b[Aa] )(911)(?= (?:call|operator|dispatch\w*|caller|center|system|tape|line)\b)|"
    r"(?:(?<=[Dd]ial )|(?<=[Cc]all ))(\d{3})(?!\w|[.,]\d| [a-z]+s\b)",
    weight=1.2,
)
def propose_emergency(match: re.Match[str]) -> v.Value:
    return v.Digits((match[0],))


@recognizer(
    "phone",
    r"(?:(?<=\bat )|(?<=\bto )|(?<=[Cc]all )|(?<=[Dd]ial )|(?<=[Pp]hone ))x(\d{3,5})(?![\w.]\w|\w)",
    needs="x",
    at="word",
    digits=True,
    weight=2,
)
def propose_extension_alone(match: re.Match[str]) -> v.Value:
    """`RSVP to x4410.`"""
    return v.Phrase(("extension", v.Digits((match[1],))))


@recognizer("phone", r"(?:(?<=\bat )|(?<=\bon ))([2-8]11)(?![\w%]|[.,-]\d| [a-z]+s\b)", weight=1.6)
def propose_service_number(match: re.Match[str]) -> v.Value | None:
    """`Call the city at 311.`"""
    return v.Digits((match[1],)) if _TO_CALL.search(before(match, 60)) else None


_TO_CALL = LazyPattern(r"(?i)\b(?:call|dial|phone|contact|text|reach)\b[^;!?]*$")


@recognizer("digits", r"(?<=\bto )(\d{5,6})(?![\w%]|[.,-]\d| [a-z]+s\b)", weight=1.6)
def propose_short_number(match: re.Match[str]) -> v.Value | None:
    """`Text STOP to 55512.`"""
    return v.Digits((match[1],)) if _TO_TEXT.search(before(match, 60)) else None


_TO_TEXT = LazyPattern(r"\b(?:[Tt]ext|[Ss]end|SMS|[Mm]essage)\b[^.;!?]*$")


@recognizer(
    "phone",
    r"\b([Ee]xt|[Ee]xtension)\b\.?( is| was| number| no\.)?:? ?#?(\d{1,6})(?!\w)",
    needs=("ext", "Ext", "extension", "Extension"),
    weight=1.5,
    at="needs",
)
def propose_bare_extension(match: re.Match[str]) -> v.Value:
    number, word = match[3], (match[2] or "").strip()
    extension = v.Number(number) if len(number) < 3 else v.Digits((number,))
    linked = ("number" if word == "no." else word,) if word else ()
    return v.Phrase(("Extension" if match[1][0] == "E" else "extension", *linked, extension))


@recognizer(
    "digits",
    r"\b(?:[Tt]el(?:ephone)?\b\.?:?|[Pp]hone:?|[Ff]ax:?|[Pp]in|PIN|[Cc]ode|[Pp]assword|"
    r"[Aa]ccount|[Ss]erial|"
    r"[Oo]rder|[Tt]racking|[Cc]ase|SKU|IMO|MMSI|EIN|NPI|UPC|"
    r"ID|[Zz]ip|ZIP)(?: (?:number|code|no\.|is|was))?:? "
    r"#?(\d{3,20})(?!\w|[.,]\d)",
    weight=1.3,
    at="word",
)
def propose_code_behind_word(match: re.Match[str]) -> Proposal | None:
    digits = match[1]
    if re.match(r"(?i)order|case", match[0]) and len(digits) < 5:
        return None
    return Proposal(v.Digits((digits,)), start=match.start(1), weight=2.5)


@recognizer(
    "isbn",
    r"\bISBN(?:-1[03])?:? ?(?:is |was )?((?:97[89][- ]?)?(?:\d[- ]?){9}[\dXx])(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs=("ISBN",),
    weight=3,
    at="needs",
)
def propose_isbn(match: re.Match[str]) -> Proposal:
    groups = tuple(one.upper() for one in re.split(r"[- ]", match[1]) if one)
    return Proposal(v.Digits(groups), start=match.start(1))


@recognizer(
    "iban",
    r"\b(IBAN:? (?:is )?)?([A-Z]{2}\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?|"
    r"[A-Z]{2}\d\d[A-Z0-9]{11,30})\b",
    languages=RECOGNIZED_LANGUAGES,
    weight=3,
    at="capital",
)
def propose_iban(match: re.Match[str]) -> Proposal | None:
    written = match[2]
    if " " not in written:
        digits = sum(one.isdecimal() for one in written)
        if digits < 10:
            return None
        written = " ".join(written[at : at + 4] for at in range(0, len(written), 4))
    groups = (" ".join(group) if group.isalpha() else group for group in written.split())
    return Proposal(v.Digits(tuple(groups)), start=match.start(2))


@recognizer(
    "code",
    r"\b(CVE|CWE)-(?:(\d{4})-)?(\d{1,7})(?![\w-])",
    languages=RECOGNIZED_LANGUAGES,
    needs=("CVE", "CWE"),
    weight=3,
    digits=True,
    at="needs",
)
def propose_cve(match: re.Match[str]) -> v.Value:
    parts: list[v.Value | str] = [v.Letters(match[1])]
    if match[2]:
        parts.append(v.Year(int(match[2])))
    parts.append(v.Digits((match[3],)) if len(match[3]) > 4 else v.Label(match[3]))
    return v.Phrase(tuple(parts))


@recognizer(
    "digits",
    r"(?<![\w.,$£€#-])(?:(\d{3})-(\d\d)-(\d{4})|(\d{5})-(\d{4}))(?![\w-])|"
    r"\b([A-Z]{1,2}\d[A-Z\d]?) (\d[A-Z]{2})\b|\b([A-Z]\d[A-Z]) (\d[A-Z]\d)\b",
    weight=1.8,
    at="any",
)
def propose_digit_groups(match: re.Match[str]) -> v.Value:
    """Social security, postal codes of America, Britain and Canada."""
    return v.Digits(tuple(group for group in match.groups() if group))


@recognizer(
    "postcode",
    r"(?:(?<=, )|(?<=[a-z] ))([A-Z]{2}),? (\d{5})(?:-(\d{4}))?(?!\d)",
    weight=1.8,
    at="capital",
)
def propose_zip(match: re.Match[str]) -> v.Value | None:
    state: v.Value = (
        v.Abbreviation(english.STATES[match[1]])
        if english.STATES.get(match[1], "D C") != "D C"
        else v.Letters(match[1])
    )
    if match[1] not in english.STATES:
        return None
    return v.Phrase((state, v.Digits((match[2], match[3]) if match[3] else (match[2],))))


@recognizer(
    "postcode",
    rf"(?:{one_of([*english.SHORT_STATES, *english.DOTTED_STATES, 'D.C'])})\.? (\d{{5}})(?![\d,])|"
    r"(?<=, )(?:NYC|[A-Z][a-z]+(?: [A-Z][a-z]+)?) (\d{5})(?=[.,;]|$)",
    at="capital",
)
def propose_zip_after_place(match: re.Match[str]) -> Proposal:
    """Behind a state, and behind a city at the end of an address: `34th Fl., NYC 10118`."""
    start = match.end() - 5
    return Proposal(v.Digits((match[0][-5:],)), start=start, weight=1.5)


@recognizer(
    "code",
    r"(?<![\w.])[A-Z][A-Z\d]*(?:_[A-Z\d]+)+(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs="_",
    weight=2,
    at="capital",
)
def propose_constant(match: re.Match[str]) -> v.Value:
    """Of a program: `MAX_RETRIES`, words and no acronyms."""
    parts: list[v.Value | str] = []
    for part in match[0].split("_"):
        if part.isdecimal():
            parts.append(v.Number(part))
        elif (
            part.isalpha()
            and len(part) > 2
            and part not in english.SPELLED_ACRONYMS
            and (re.search("[AEIOUY]", part))
        ):
            parts.append(part.lower())
        else:
            parts.append(v.Letters(part))
    return v.Phrase(tuple(parts))


@recognizer(
    "code", r"(?<![\w.])([1-9])(xx|XX)(?!\w)", needs="xX", weight=2, digits=True, at="number"
)
def propose_status_class(match: re.Match[str]) -> v.Value:
    """Of HTTP: `a 5xx code`."""
    return v.Phrase((v.Number(match[1]), v.Letters("XX")))


@recognizer(
    "code",
    r"(?<!\w)([-−])?0[xX]([0-9A-Fa-f]{2,16})(?!\w)",
    languages=RECOGNIZED_LANGUAGES,
    needs="xX",
    weight=3,
    digits=True,
    at="number",
)
def propose_hexadecimal(match: re.Match[str]) -> v.Value:
    """`0x80070005`, sign by sign."""
    zero = v.Number("0", sign="-" if match[1] else "")
    return v.Phrase((zero, v.Letters("X"), v.Digits((match[2].upper(),))))


# Versions


@recognizer(
    "version",
    r"(?<![\w.])(?:([vV])(?:er\. ?|\. ?|)|([Vv]ersion|[Rr]elease|[Uu]pdate) "
    r")(\d+(?:\.\d+){0,4})(?![\w]|\.\d)",
    needs="vVRrUu",
    weight=1.8,
    at="word",
)
def propose_version(match: re.Match[str]) -> v.Value | Proposal | None:
    if match[1]:
        if match[0][1:].isdecimal() and match[1] == "V":
            return v.Phrase((v.Letters("V"), v.Number(match[3])))  # an engine: V8
        if match[0][:3] == "v. " and "." not in match[3] and _IN_BIBLE.search(before(match, 30)):
            return None
        if (
            match[0].startswith(("v. ", "V. "))
            and "." not in match[3]
            and re.match(r"\w", after(match, 1))
        ):
            return None
        number = v.Version(tuple(match[3].split(".")))
        if _VERSIONED.search(before(match, 10)):
            return Proposal(number)
        return v.Phrase(("version", number))
    if match[2] in ("Release", "release", "Update", "update") and "." not in match[3]:
        return None
    return Proposal(v.Version(tuple(match[3].split("."))), start=match.start(3))


@recognizer(
    "version",
    r"(?<![\w.,-])(\d{1,4}(?:\.\d{1,4}){2,6})(?::(\d{2,5})(?![\d:]))?(?![\w]|\.\d)",
    needs=".",
    weight=1.6,
)
def propose_dotted_version(match: re.Match[str]) -> v.Value | None:
    """A section, a version, or the address of a machine, which has a port or three-digit parts."""
    parts = tuple(match[1].split("."))
    address = len(parts) == 4 and all(int(part) < 256 for part in parts)
    named = match[2] or parts[0] in ("10", "127", "0") or _HOST.search(before(match, 20))
    if not (address and (named or any(len(part) == 3 for part in parts))):
        return None if match[2] else v.Version(parts)
    value = v.Version(parts, dots=True)
    return v.Phrase((value, ",", "port", v.Label(match[2]))) if match[2] else value


_VERSIONED = LazyPattern(r"(?i)\bversions? $")
_IN_BIBLE = LazyPattern(
    rf"\b(?:(?:{one_of([*english.BOOKS.values(), *english.MORE_BOOKS])}|verses?|[Cc]hapter)\b|"
    r"[Cc]h\.)[^.;]{0,12}$"
)
_HOST = LazyPattern(
    r"\b(?:IP|address|host|server|ping|gateway|subnet|at|DNS)(?: is| was)? $", re.IGNORECASE
)


@recognizer(
    "version",
    r"\b(?:Python|Java|Node|Ruby|PHP|Perl|Django|Linux|Ubuntu|Debian|Android|iOS|macOS|"
    r"Windows|kernel|Go|Rust|Postgres|"
    r"PyTorch|CUDA|Bluetooth|USB|HTTP|TLS|SSL|HDMI|PCIe|OpenGL|Unicode|Chrome|Firefox) "
    r"(?:[<>=~!]=? ?)?v?(\d{1,3}\.\d{1,3})(?![\w]|\.\d)|"
    r"\b(?:[Uu]p|[Dd]own)grad(?:e[sd]?|ing) (?:(?:from|to) )?(\d{1,3}\.\d{1,3})(?![\w%]|\.\d)|"
    r"(?:\b[Vv]ersions?\b[^.;:\d]{0,24}(?:\d+(?:\.\d+)+[^.;:\d]{0,8}){0,3}?|"
    r"(?:\b(?:in|on|with|to|since|needs?|requires?|using|under|than|before|after|install|and|or|"
    r"of|via) )"
    r"(?!(?:Exhibit|Group|Lot|Euro|Dow|Section|Article)\b)[A-Z][A-Za-z]{2,}[ -])"
    r"((?!0)\d{1,2}\.\d\d)(?![\w%]|\.\d| ?(?:[-–—] ?\d|percent|million|billion|[a-z]{1,3}[/²³])\b)",
    needs=".",
    weight=1.3,
    at="word",
)
def propose_software(match: re.Match[str]) -> Proposal | None:
    """`Python 3.12`; two digits behind the point: `versions before 1.32`, `in Automake 1.12`."""
    if match[3] and word_after(match) in english.UNITS:
        return None
    version = match[1] or match[2] or match[3]
    start = match.end() - len(version)
    return Proposal(v.Version(tuple(version.split("."))), start=start, weight=2)


@recognizer(
    "version", r"(?<=[a-z])(\d{1,2}\.\d{1,3})(?![\w.]\w|\w)", needs=".", weight=1.5, at="number"
)
def propose_version_behind_letters(match: re.Match[str]) -> v.Value:
    """`py3.12`."""
    return v.Phrase((" ", v.Version(tuple(match[1].split(".")))))


@recognizer("version", r"(?<![\w.])(802\.\d{1,2})([a-z]{1,2})?(?![\w]|\.\d)", needs=".", weight=2)
def propose_standard(match: re.Match[str]) -> v.Value:
    """The standards of the IEEE: 802.11ac."""
    first, second = match[1].split(".")
    parts: tuple[v.Value | str, ...] = (v.Label(first), "point", v.Number(second))
    return v.Phrase((*parts, v.Letters(match[2])) if match[2] else parts)


_BODIES = "ISO IEC EN DIN NF BS UNE UNI ASTM ASME ANSI IEEE MIL-STD NFPA JIS ETSI NIST".split()
_DASHES = {"en": "", "es": "guion", "fr": "tiret"}


@per_language(
    "code",
    rf"(?<![\w./-])((?:{one_of(_BODIES)})(?:[ /](?:{one_of(_BODIES)})){{0,3}})[ -]"
    r"([A-Z]?)(\d{2,5})"
    r"((?:-\d{1,3}){0,4})(?::((?:19|20)\d\d))?([A-Z])?(?![\w]|[.,-]\d)",
    languages=RECOGNIZED_LANGUAGES,
    needs=_BODIES,
    at="capital",
    weight=1.9,
)
def propose_norm(language: str, match: re.Match[str]) -> v.Value | None:
    """A standard with its parts and its year: `NF EN 1090-2`, `ISO 9001:2015`."""
    bodies, letter, number, parts, year, more = match.groups()
    if not (parts or year or " " in bodies or len(number) == 5):
        return None
    said: list[v.Value | str] = [v.Letters(one) for one in re.findall("[A-Z]+", bodies)]
    said += [v.Letters(letter)] if letter else []
    said.append(v.Label(number) if len(number) < 5 else v.Number(number))
    for part in re.findall(r"\d+", parts):
        said += [_DASHES[language]] if _DASHES[language] else []
        said.append(v.Number(part))
    said += [v.Year(int(year))] if year else []
    said += [v.Letters(more)] if more else []
    return v.Phrase(tuple(said))


@recognizer(
    "model", r"(?<![\w.])([A-Z])\.(\d{2,3})(?!\w|[.,]\w)", needs=".", at="capital", weight=1.6
)
def propose_recommendation(match: re.Match[str]) -> v.Value:
    """Of the telegraph union: `H.264`, `V.90`."""
    return v.Phrase((v.Letters(match[1]), "dot", v.Label(match[2])))


@recognizer(
    "model",
    r"(?<![\w./])(?:(P|LT)?(\d{3})/(\d{2})) ?(ZR|R)(\d{2})(?!\w)",
    needs="/",
    weight=3,
    digits=True,
    at="any",
)
def propose_tire(match: re.Match[str]) -> v.Value:
    """`225/65R17`."""
    lead = (v.Letters(match[1]),) if match[1] else ()
    numbers = v.Label(match[2]), v.Number(match[3]), v.Letters(match[4]), v.Number(match[5])
    return v.Phrase((*lead, *numbers))


@recognizer(
    "label",
    r"(?<![\w./])(\d{1,2})/(\d{1,3})(?= (?:Cav|Marines|Inf|Infantry|Cavalry|FA|Bn|Para)\b)",
    needs="/",
    weight=2,
)
def propose_battalion(match: re.Match[str]) -> v.Value:
    """`2/7 Cav.`: a battalion of a regiment."""
    return v.Phrase((v.Number(match[1]), v.Label(match[2])))


@recognizer(
    "label",
    r"(?<![\w.,-])(\d{1,4})([A-Za-z])[-–](\d{1,4})([A-Za-z])(?![\w-])",
    needs="-–",
    weight=1.6,
)
def propose_lettered_span(match: re.Match[str]) -> v.Value | None:
    """Pages or seats: `fols. 12r–15v`."""
    if int(match[3]) <= int(match[1]):
        return None
    first = v.Label(match[1]), v.Letters(match[2].upper())
    return v.Phrase((*first, "to", v.Label(match[3]), v.Letters(match[4].upper())))


# Rooms, flights, houses, models


@recognizer(
    "label",
    r"\b(Rooms?|rooms?|[Ff]lights?|[Rr]outes?|[Hh]ighway|Interstate|Boeing|Airbus|"
    r"[Aa]partment|[Aa]pt\.|[Ss]uite|"
    r"[Bb]us|[Uu]nit|Hwy\.?|Rte\.?|Porsche|Peugeot|Cessna|Fahrenheit|Airlines|Airways|"
    r"Delta|Lufthansa|RFC|ISO|"
    r"[Ff]orm|[Pp]ort|[Ee]xit|[Cc]hannel|[Ll]ocker|[Cc]abin|[Cc]ell|[Tt]rain|[Mm]odel|chmod|"
    r"[Aa]ir Force|"
    r"Box|[Rr]m\.?|Ste\.?|Bldg\.?|Flt\.?|Xbox|U\.S\.|BMW|Nokia|Ryzen|[Gg]ate|[Pp]latform|"
    rf"(?:{one_of(english.COURSES)})\.?) "
    r"(\d{3,5})(?![\w%]|[.,]\d)"
    r"(?! (?:million|billion|percent|people|men|troops|times|dollars|miles))",
    weight=1.4,
    at="word",
)
def propose_number_of_thing(match: re.Match[str]) -> Proposal | None:
    digits = match[2]
    if len(digits) == 5 and match[1] not in ("RFC", "ISO", "Form"):
        return None
    return Proposal(v.Label(digits), start=match.start(2), weight=2)


@recognizer(
    "label",
    r"(?<![\w.&-])([A-Z]{2,4}) (\d{2,4})([A-Za-z]{1,2}|Ti|XT)?(?![\w%]|[.,:/-]\d)(?! "
    r"(?:percent|million|billion|people|"
    r"men|women|students|points|miles|km|dollars|times|years|hours|days|of))",
    weight=1.3,
    at="capital",
)
def propose_letters_and_number(match: re.Match[str]) -> v.Value | None:
    """Letters and a number that name a thing: `RTX 4090`, `BA 249`."""
    letters, digits, more = match.groups()
    if (
        is_word(letters)
        or letters in _NO_MODELS
        or (letters in english.STATES and re.search(r", $", before(match, 2)))
    ):
        return None
    parts: list[v.Value | str] = [v.Letters(letters), v.Label(digits)]
    if more:
        parts.append(v.Letters(more) if len(more) == 1 or more in ("Ti", "XT") else more)
    return v.Phrase(tuple(parts))


_NO_MODELS = frozenset(
    "AM PM AD BC CE BCE IN ON AT BY TO OF OR AND THE FOR WITH FROM ALL ONLY NOT I IS IT".split()
)


@recognizer(
    "number",
    r"(?<![\w.-])([A-Z][a-z]+)-(\d{3})(?![\w,-]|\.\d)",
    needs="-",
    weight=1.2,
    at="capital",
)
def propose_name_and_number(match: re.Match[str]) -> v.Value:
    return v.Phrase((match[1], v.Label(match[2])))


@recognizer(
    "label",
    rf"(?<![\w.,$£€#-])(\d{{3,5}})([A-Z])?(?= (?:[NSEW]\.? |North |South |East |West "
    rf")?(?:[A-Z][\w'-]+ ){{1,3}}{_STREET}|"
    rf"(?: (?:[NSEW]\.? )?\d+(?:st|nd|rd|th) {_STREET}))",
    weight=1.3,
)
def propose_house(match: re.Match[str]) -> v.Value:
    digits = match[1]
    number: v.Value = v.Label(digits) if len(digits) < 5 else v.Digits((digits,))
    return v.Phrase((number, v.Letters(match[2]))) if match[2] else number


@recognizer(
    "label",
    r"(?:(?<=\b[Aa] )|(?<=\b[Aa]n ))(?:911|928|356|924|944)()"
    r"(?=[,.;:]|$| (?:[A-Z]|and\b|or\b|that\b|is\b|was\b))|"
    r"(?<=\b(?:[Tt]he|his|her) )7[0-8]7(s)?(?![\w,%]|\.\d)(?! (?!was|is|has)[a-z]+s\b)|"
    r"(?<=\b[Aa] )7[0-8]7(?= (?:MAX|Max|jet|pilot|freighter|crew|took|landed|crashed|with|carrying|"
    r"bound)\b)|"
    r"(?<![\w.,$#-])(?:\d{1,2}00(?= block\b)|\d{3}(?= plans?\b))",
    weight=1.5,
)
def propose_bare_model(match: re.Match[str]) -> v.Value:
    """A thing without its make: `a 911`, `the 747s`; a block or a plan: `the 1200 block`."""
    return v.Label(match[0].rstrip("s"), match[2] or "")


@recognizer(
    "model",
    r"(?<!\w)(IP|TLS|HTTP|SSL|SMB|NFS)v(\d(?:\.\d)?)(?!\w)",
    needs="v",
    at="capital",
    weight=2,
)
def propose_protocol(match: re.Match[str]) -> v.Value:
    """`IPv4`."""
    return v.Phrase((v.Letters(f"{match[1]}V"), v.Version(tuple(match[2].split(".")))))


_AIRCRAFT = {
    "en": r"(?:(?<=Boeing )|(?<=Airbus )|"
    r"(?<![\w.,$£€#-])(?=7[0-8]7-(?:\d00|[89]|10)(?![\w%-]|[.,]\d)))"
    r"([A-Z]?)(\d{3})-(\d{1,4})([A-Z]{1,3})?(?!\w)",
    **dict.fromkeys(
        ROMANCE,
        r"(?:(?<=Boeing )|(?<=Airbus )|(?<=\b[Uu]n )|(?<=\b[EeLl][le] )|(?<=\b[Dd]el )|"
        r"(?<=\b[Dd]u ))(A?)(7\d7|3\d0|2\d0)-(\d{2,4})()(?![\w%-]|[.,]\d)",
    ),
}


@per_language(
    "label", _AIRCRAFT.__getitem__, languages=RECOGNIZED_LANGUAGES, needs="-", at="any", weight=2
)
def propose_aircraft(language: str, match: re.Match[str]) -> v.Value:
    """`Boeing 737-800`, `the 747-8`, `un A350-900`."""
    maker, model, series, kind = match.groups()
    letters = (v.Letters(maker),) if maker else ()
    numbers = v.Label(model), v.Label(series)
    return v.Phrase((*letters, *numbers, *((v.Letters(kind),) if kind else ())))


# Sections, forms, keys, screens


@recognizer("section", r"(?<![\w.,$£€-])(401|403|457)[ -]?([kKbB])(s?)(?![\w(])", weight=2)
def propose_savings_plan(match: re.Match[str]) -> v.Value:
    """`a 401k`."""
    return v.Phrase((v.Label(match[1]), v.Letters(match[2].upper(), match[3])))


@recognizer(
    "code",
    r"(?<![\w.:-])(?:(\d):)?(\d\d)-(cv|cr|mc|md|bk|ap|CV|CR)-(\d{1,5})(?![\w])",
    digits=True,
    at="number",
    needs="-",
    weight=2,
)
def propose_docket(match: re.Match[str]) -> v.Value:
    """A case before a court: `1:19-cv-1234`."""
    first = (v.Number(match[1]),) if match[1] else ()
    number = v.Label(match[4]) if len(match[4]) < 5 else v.Digits((match[4],))
    return v.Phrase((*first, v.Number(match[2]), v.Letters(match[3].upper()), number))


_MEASURES = {"Res": "Resolution", "J": "Joint", "Con": "Concurrent"}


@recognizer(
    "law",
    r"(?<![\w.])([HS]|H\. ?R)\. ?(?:(J|Con)\. ?)?(?:(Res)\. ?|(?<=[HSR]\. ))(\d{1,4})"
    r"(?![\w%]|[.,]\d)",
    digits=True,
    weight=2,
)
def propose_bill(match: re.Match[str]) -> Proposal | None:
    """A measure before Congress: `H.J.Res. 7`, `S. 1253`."""
    if not match[3] and (
        (match[1] == "H" and not match[0].startswith("H.R."))
        or not re.search(r"(?:^|[,;(] |\b(?:bill|and|of|on|passed|or) )$", before(match, 12))
    ):
        return None
    words = [_MEASURES[one] for one in (match[2], match[3]) if one]
    house = v.Letters("HR" if "R" in match[1] else match[1])
    return Proposal(v.Phrase((house, *words, v.Label(match[4]))))


_REPORTERS = {
    "F.": "F", "F. Supp.": "F Supp", "U.S.": "US", "S. Ct.": "Supreme Court", "A.": "A",
    "P.": "P", "N.E.": "NE", "N.W.": "NW", "S.E.": "SE", "S.W.": "SW", "So.": "Southern",
    "L. Ed.": "Lawyers' Edition", "Cal.": "California", "Cal. App.": "California Appeals",
    "N.Y.": "New York", "Ill.": "Illinois", "F. App'x": "Federal Appendix",
}  # fmt: skip


@recognizer(
    "law",
    rf"(?<![\w.,])(\d{{1,4}}) ({one_of(_REPORTERS)}) ?(2d|3d|[4-9]th)?,? (at )?(\d{{1,5}})"
    r"(?!\w|[.,]\d)",
    digits=True,
    at="number",
    weight=2,
)
def propose_law_report(match: re.Match[str]) -> v.Value | None:
    """A decision in a series of reports: `12 F.3d 345`, `410 U.S. 113`."""
    volume, reporter, series, cited, page = match.groups()
    if not series and reporter not in ("U.S.", "S. Ct.", "F. Supp.", "L. Ed."):
        return None
    name = _REPORTERS[reporter]
    parts: list[v.Value | str] = [v.Label(volume)]
    parts.append(v.Letters(name) if name.isupper() else name)
    if series:
        parts.append(v.Ordinal(int(series[0])))
    if cited:
        parts.append("at")
    parts.append(v.Label(page) if len(page) < 5 else v.Number(page))
    return v.Phrase(tuple(parts))


@recognizer(
    "section",
    r"(?<![\w.])(§§? ?)?"
    r"(\d{1,4}(?:(?:\.\d{1,4}){1,4}|[A-Z]|(?<=§ \d\d)[a-z]|(?<=§ \d{4})[a-z])?)"
    r"((?:\((?:[a-zA-Z]|[ivx]{2,5}|\d{1,2})\))+)(s)?(?!\w)",
    needs="(",
    weight=1.8,
)
def propose_section(match: re.Match[str]) -> v.Value:
    """`§3(a)(ii)`, `401(k)`, `29 C.F.R. § 1604.11(a)`."""
    sign, number, inner, plural = match.groups()
    lead = ("sections" if "§§" in sign else "section",) if sign else ()
    first, *rest = re.findall(r"\d+", number)
    parts: list[v.Value | str] = [v.Label(first) if len(first) > 2 else v.Number(first)]
    for part in rest:
        parts += ["point", v.Number(part)]
    if number[-1].isalpha():
        parts.append(v.Letters(number[-1].upper()))
    parts += _parse_subsections(inner)
    last = parts[-1]
    if plural and isinstance(last, v.Letters):
        parts[-1] = v.Letters(last.letters, "s")
    return v.Phrase((*lead, *parts))


@recognizer(
    "section", r"(?<![\w/.])(\d{2,4})/(\d{1,4})/(E[CU]|EEC|Euratom)(?![\w/])", needs="/", weight=3
)
def propose_directive(match: re.Match[str]) -> v.Value:
    """Of the European Union: `95/46/EC`."""
    office = v.Letters(match[3]) if match[3].isupper() else match[3]
    year = v.Label(match[1]) if len(match[1]) < 4 else v.Year(int(match[1]))
    return v.Phrase((year, v.Number(match[2]), office))


@recognizer(
    "section",
    r"(?<![\w.])([IVX]{1,5})((?:\.(?:[A-H]|\d{1,2}|[a-h]))+)(?!\w|\.\w)",
    needs=["capitalDot"],
    digits=False,
    at="capital",
    weight=2,
)
def propose_roman_section(match: re.Match[str]) -> v.Value | None:
    """`Section IV.B.2`."""
    number = roman_value(match[1])
    if not number or not _SECTION_BEFORE.search(before(match, 14)):
        return None
    inner: list[v.Value] = [
        v.Number(part) if part.isdecimal() else v.Letters(part.upper())
        for part in match[2][1:].split(".")
    ]
    return v.Phrase((v.Number(str(number)), *inner))


_SECTION_BEFORE = LazyPattern(
    r"(?i)\b(?:sections?|secs?\.|parts?|chapters?|paragraphs?|articles?|arts?\.|appendix|annex) $"
)


def _parse_subsections(written: str) -> list[v.Value | str]:
    """`(a)(2)(ii)`."""
    parts: list[v.Value | str] = []
    for item in re.findall(r"\((\w+)\)", written):
        if item.isdecimal():
            parts.append(v.Number(item))
        elif roman_value(item) and (len(item) > 1 or (item in "ivx" and "(" in written[1:])):
            parts.append(v.Roman(roman_value(item)))
        else:
            parts.append(v.Letters(item))
    return parts


@recognizer(
    "section",
    r"(?:§ ?|(?<=[Rr]ule )|"
    r"(?<=[Ss]ection ))(\d+(?:\.\d+)+)([a-z])-(\d+)(?![\w(])",
    weight=2,
)
def propose_lettered_section(match: re.Match[str]) -> v.Value:
    """`§ 240.10b-5`."""
    lead = ("section",) if "§" in match[0] else ()
    number = v.Version(tuple(match[1].split(".")))
    return v.Phrase((*lead, number, v.Letters(match[2].upper()), v.Number(match[3])))


@recognizer(
    "section", r"(§§?) ?(\d+(?:\.\d+)*)(?:([-–])(\d+(?:\.\d+)*))?(?![\w(])", needs="§", weight=1.5
)
def propose_paragraph_sign(match: re.Match[str]) -> v.Value:
    number: v.Value = (
        v.Version(tuple(match[2].split(".")))
        if "." in match[2]
        else v.Label(match[2])
        if len(match[2]) == 4
        else v.Number(match[2])
    )
    if match[4]:
        last: v.Value = v.Number(match[4])
        last = v.Version(tuple(match[4].split("."))) if "." in match[4] else last
        number = v.Range(number, last)
    return v.Phrase(("sections" if match[1] == "§§" or match[4] else "section", number))


@recognizer(
    "screen",
    r"(?<![\w.,])(\d{3,4})([pi])(\d{2,3})?(?![\w])",
    languages=RECOGNIZED_LANGUAGES,
    needs="pi",
    weight=1.5,
)
def propose_screen(match: re.Match[str]) -> v.Value | None:
    if match[1] not in ("240", "360", "480", "540", "576", "720", "1080", "1440", "2160", "4320"):
        return None
    parts: tuple[v.Value | str, ...] = (v.Label(match[1]), v.Letters(match[2].upper()))
    return v.Phrase((*parts, v.Label(match[3])) if match[3] else parts)


_MODIFIERS = "Ctrl Control Alt AltGr Shift Cmd Command Opt Option Win Fn Meta Super".split()


@per_language(
    "keys",
    lambda language: (
        rf"(?<!\w)(?:{one_of([*_MODIFIERS, *TABLES[language].KEYS])})"
        rf"(?: ?[+-] ?(?:[{CAPITAL}][{SMALL}]+[A-Z]?[{SMALL}]*|F\d{{1,2}}|[A-Z0-9](?!\w)|"
        r"[/=.,;'\[\]-](?= |$)))+"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs=lambda language: (*_MODIFIERS, *TABLES[language].KEYS),
    weight=2,
)
def propose_keys(language: str, match: re.Match[str]) -> v.Value | None:
    """Keys that are pressed together: `Ctrl+C`."""
    parts: list[v.Value | str] = []
    for key in re.split(r" ?[+-] ?(?=\S)", match[0]):
        if re.fullmatch(r"F\d+", key):
            parts += [v.Letters("F"), v.Number(key[1:])]
        elif key.isdecimal():
            parts.append(v.Number(key))
        elif len(key) == 1 and key.isalpha():
            parts.append(v.Letters(key))
        else:
            parts.append(TABLES[language].KEYS.get(key, key))
    return v.Phrase(tuple(parts))


@per_language(
    "keys",
    lambda language: (
        r"(?<!\w)(Ctrl|Cmd|Esc|PgUp|PgDn|PrtSc|Bksp|Del|Supr|Suppr|Mayús|Échap|AvPág|RePág)"
        rf"(?!\w| ?[+-]\w)(?=[ .,;)/]|$)|(?<={TABLES[language].KEY_WORD} )"
        rf"({one_of(TABLES[language].KEYS)})(?!\w)"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs=lambda language: TABLES[language].KEYS,
    weight=1.1,
)
def propose_key(language: str, match: re.Match[str]) -> v.Value | None:
    key = match[1] or match[2]
    if key not in TABLES[language].KEYS:
        return None
    if key == "Del" and (language != "en" or re.match(r" [A-Z]", after(match, 3))) and match[1]:
        return None  # of Spanish, or Delaware
    return v.Abbreviation(TABLES[language].KEYS[key])


# Spanish and French


@recognizer(
    "phone", rf"(?<![\w.,+-])\d{{2,5}}(?:{_GAP}?\d{{2,4}}){{0,4}}(?![\w]|[.,]\d)",
    languages=("es",), weight=1.3,
)  # fmt: skip
def propose_spanish_phone_behind_word(match: re.Match[str]) -> v.Value | None:
    """Any longer run of digits behind a word that promises a telephone number."""
    lead, count = before(match, 50), sum(map(str.isdecimal, match[0]))
    if count != 3 and count < 6:
        return None
    if not _CALLED.search(lead) or word_before(match) in ("número", "numero"):
        return None
    short = count == 3 and re.search(r"(?:llam|marc|tel)[^.\d]{0,20}$", lead[-30:].lower())
    return v.Digits(_groups(match[0])) if count >= 6 or (short and match[0] != "100") else None


@recognizer("code", r"(?<![\w.,-])(\d{8})-?([A-Z])(?!\w)", languages=("es",), weight=1.5)
def propose_identity_card(match: re.Match[str]) -> v.Value:
    return v.Phrase((v.Digits((match[1],)), v.Letters(match[2])))


@recognizer(
    "phone", r"(?<![\w.,+-])(?:3[0-9]|1[0-9]) \d\d(?!\w| \d|[.,]\d)", languages=("fr",), weight=1.5
)
def propose_french_short(match: re.Match[str]) -> v.Value | None:
    called = re.search(r"appel|compos|tél|num", before(match, 30).lower())
    return _pairs(match[0]) if called else None


_CODES = {
    "en": r"(?<![\w.,$£€#-])\d{4}(?:[ -]\d{4}){3}(?![\w-])",
    **dict.fromkeys(
        ROMANCE,
        r"(?<![\w.,+-])(?:\d{4}(?:[ -]\d{4}){2,5}|\d{1,5}(?:-\d{1,7}){3,5})(?![\w-]|[.,]\d)",
    ),
}


@per_language(
    "code",
    _CODES.__getitem__,
    languages=RECOGNIZED_LANGUAGES,
    needs=["fourDigits", "-"],
    at="number",
    weight=1.7,
)
def propose_code(language: str, match: re.Match[str]) -> v.Value:
    """Numbers of cards, accounts and books: digit by digit, in the groups they are written in."""
    return v.Digits(tuple(re.findall(r"\d+", match[0])))
