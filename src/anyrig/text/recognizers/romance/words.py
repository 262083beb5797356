"""Spanish and French abbreviations, initials, acronyms, signs and marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType

from anyrig.text.recognizers import Found, Recognizer, Stop, recognizer
from anyrig.text.recognizers.common import LazyPattern
from anyrig.text.recognizers.romance import french, spanish
from anyrig.text.recognizers.romance.forms import (
    CAPITAL,
    SMALL,
    TABLES,
    capitalize,
    is_shouted,
    one_of,
    romance,
    text_after,
    text_before,
    word_after,
    word_before,
)
from anyrig.text.recognizers.signs import GREEK, SAID, SILENT
from anyrig.text.recognizers.stops import look_behind, stop_after
from anyrig.text.values import (
    Abbreviation,
    Digits,
    Label,
    Letters,
    Phrase,
    Sign,
    Silence,
    Value,
)

# -- abbreviations ---------------------------------------------------------------------------------

_NUMBER_NEXT = r"(?= ?(?:[-#(+]?\d|(?-i:[IVXLC]+)\b|(?-i:[LRD])\. ?\d))"
# A name or the rest of one: Foch, de la Paz, l'Europe.
_NAME_NEXT = rf"(?=[ -](?:(?-i:[{CAPITAL}])|(?:de|du|des|la|le|el|los|las)\b|d'|l'))"


def _abbreviations(
    language: str,
    table: Mapping[str, str],
    decide: Callable[[re.Match[str]], Stop | None],
    *,
    before: str = "",
    after: str = "",
    ignore_case: bool = True,
    weight: float = 1.0,
) -> Recognizer:
    """A recogniser of a table's written forms, with any spaces; `decide` may decline."""

    def plain(written: str) -> str:
        text = written.replace(" ", "")
        return text.lower() if ignore_case else text

    known = {plain(key): words for key, words in table.items()}
    # Most have a full stop behind their first letters, which is quicker to look for than they are.
    short = [key for key in table if re.match(r"[^\W\d_]{1,7}\.", key)]
    other = [key for key in table if key not in short]
    stopped = rf"(?=[^\W\d_]{{1,7}}\.)(?:{one_of(short)})"
    choice = "|".join(part for part in (stopped if short else "", one_of(other)) if part)
    choice = choice.replace(r"\ ", " ?")
    end = r"(?:(?<=[.\u00ba\u00aa\u00b0/#])(?!\.\.)|(?![\w']))"

    @recognizer(
        "abbreviation",
        rf"(?<![\w.]){before}(?:{choice}){end}{after}",
        languages=(language,),
        needs=[key.lower() for key in table] if ignore_case else table,
        flags=re.IGNORECASE if ignore_case else 0,
        weight=weight,
    )
    def build(match: re.Match[str]) -> Value | Found | None:
        stop = decide(match) if match[0].endswith(".") else "none"
        if stop is None:
            return None
        words = capitalize(known[plain(match[0])], match)
        joined = text_after(match, 1).isalnum()
        return Found(Abbreviation(f"{words} " if joined else words), stop)

    return build


def _never(match: re.Match[str]) -> Stop:
    """What leads on: it ends a sentence only where the text ends."""
    return "both" if look_behind(match.string, match.end()).kind == "nothing" else "abbreviation"


def _closing(language: str) -> Callable[[re.Match[str]], Stop]:
    return lambda match: stop_after(match.string, match.end(), language, digits_follow=False)


def _title(language: str) -> Callable[[re.Match[str]], Stop]:
    """A name follows; a sentence ends before a word that opens one and a small one: Dr. Il vint."""

    def decide(match: re.Match[str]) -> Stop:
        following = look_behind(match.string, match.end())
        if following.kind == "nothing":
            return "both"
        opens = following.word.lower() in TABLES[language].STARTERS
        if following.kind == "capital" and opens and following.second[:1].islower():
            return "both"
        return "abbreviation"

    return decide


def _titles() -> list[Recognizer]:
    # Without their full stop these must stand before a name: the Spanish Mª and Dª have a mark.
    bare = {key: words for key, words in french.TITLES.items() if not key.endswith(".")}
    dotted = {key: words for key, words in french.TITLES.items() if key.endswith(".")}
    # Ranks are written small too: le col. Blanc.
    dotted |= {
        key.lower(): words for key, words in dotted.items() if re.match(r"[^\W\d_]{3,}\.", key)
    }
    always = {key: bare.pop(key) for key in ("Mme", "Mlle", "Mmes", "Mlles")}
    starters = one_of(word.capitalize() for word in french.STARTERS)
    opening = rf"(?! (?-i:{starters})(?:\b|') (?-i:[a-zà-ÿ]))"
    named = rf"{opening}(?= (?:[{CAPITAL}]|l[ea]s? |et |l'|d[eu] |des |d')|-)"
    doctors = {key: dotted[key] for key in ("Dr.", "Pr.", "Prof.")}
    return [
        _abbreviations("fr", doctors, _title("fr"), ignore_case=False),
        _abbreviations("es", spanish.TITLES, _title("es"), weight=1.1),
        _abbreviations(
            "fr", bare, _never, after=opening + _NAME_NEXT, ignore_case=False, weight=1.2
        ),
        _abbreviations("fr", always, _never, ignore_case=False),
        _abbreviations("fr", dotted, _title("fr"), after=named, ignore_case=False, weight=1.3),
        _abbreviations(
            "fr",
            french.STREETS,
            _never,
            after=opening + _NAME_NEXT,
            before=r"(?!(?:(?<=une )|(?<=la )|(?<=des )|(?<=les )|(?<=cette ))bd)",
        ),
    ]


_ABBREVIATIONS = (
    *_titles(),
    *(
        recognizer_
        for language, table in TABLES.items()
        for recognizer_ in (
            _abbreviations(language, table.NUMBERED, _never, after=_NUMBER_NEXT, weight=1.3),
            _abbreviations(
                language,
                {key: words for key, words in table.CLOSERS.items() if key not in table.AGREEING},
                _closing(language),
                weight=1.15,
            ),
            _abbreviations(language, table.INNER, _never, weight=1.05),
            _abbreviations(
                language,
                table.UNITS_OF_ARMIES,
                _closing(language),
                before=r"(?:(?<=[ºª] )|(?<=[\d.]er )|(?<=\d[edo] )|(?<=\dème ))",
                weight=1.6,
            ),
        )
    ),
    _abbreviations(
        "es", {"No.": "número"}, _never, after=_NUMBER_NEXT, ignore_case=False, weight=1.3
    ),
    _abbreviations(
        "es",
        {"Inf.": "infantería", "Cab.": "caballería", "Art.": "artillería"},
        _closing("es"),
        before=r"(?<=de )",
        ignore_case=False,
        weight=1.5,
    ),
    _abbreviations(
        "es", {"c.": "calle"}, _never, before=r"(?<=\bla )", after=_NUMBER_NEXT, weight=1.5
    ),
    _abbreviations(
        "es",
        {"h.": "hacia", "km": "kilómetro"},
        _never,
        before=r"(?<!\d )(?<!\d)",
        after=_NUMBER_NEXT,
        weight=1.2,
    ),
    _abbreviations(
        "es", {"P. D.": "posdata", "P.D": "posdata"}, _never, after=r"(?=\s?:)", weight=1.5
    ),
    _abbreviations(
        "es", {"Ed.": "editorial"}, _title("es"), after=_NAME_NEXT, ignore_case=False, weight=1.4
    ),
    _abbreviations("fr", {"p.": "pages"}, _never, after=r"(?= ?\d+ ?[-\u2013] ?\d)", weight=1.5),
    _abbreviations(
        "fr",
        {"p.": "pages", "art.": "articles", "chap.": "chapitres", "fig.": "figures"},
        _never,
        before=r"(?<=\bles )",
        after=_NUMBER_NEXT,
        weight=1.5,
    ),
    _abbreviations(
        "fr",
        {"inf.": "infanterie", "cav.": "cavalerie", "art.": "artillerie"},
        _closing("fr"),
        before=r"(?<=d')",
        weight=1.5,
    ),
    _abbreviations("fr", {"ex.": "exemple"}, _never, after=r"(?= ?:| (?-i:[a-zà-ÿ]))"),
)


@romance(
    "abbreviation",
    lambda language: rf"(?<![\w.])(?i:{one_of(TABLES[language].AGREEING)})(?!\w)(?!\.\.)",
    needs=lambda language: TABLES[language].AGREEING,
    weight=1.6,
)
def _agreeing(language: str, match: re.Match[str]) -> Value | Found | None:
    """Temperatura máx.: an adjective where a noun or an article stands before it."""
    table = TABLES[language]
    before = re.search(r"(\d ?)?([^\W\d_]+)\.? $", text_before(match))
    if language == "fr" and match[0][0].isupper() and match.start():
        return None  # Bonjour Max.
    noun = before[2].lower() if before and not before[1] else ""
    ending = _agreeing_ending(language, noun)
    words = capitalize(table.AGREEING[match[0].lower()] + ending, match)
    if not match[0].endswith("."):
        return Abbreviation(words)
    return Found(Abbreviation(words), stop_after(match.string, match.end(), language))


def _agreeing_ending(language: str, noun: str) -> str:
    """Of máximo and maximum behind a word."""
    plain = "o" if language == "es" else "um"
    articles = {"es": {"la": "a", "las": "as", "los": "os"}, "fr": {"la": "ale"}}
    if noun in articles[language]:
        return articles[language][noun]
    table = TABLES[language]
    if len(noun) < 3 or noun in table.STARTERS or noun in table.NO_NOUN:
        return plain
    plural = "s" if noun.endswith("s") and not noun.endswith(("sis", "prix")) else ""
    feminine = table.find_gender(noun) == "f"
    if language == "es":
        return f"{'a' if feminine else 'o'}{plural}"
    return f"ale{plural}" if feminine and not noun.startswith("personne") else plain


@recognizer("abbreviation", r"(?<!\w)et suiv\.(?!\w)", languages=("fr",), needs=["suiv"], weight=2)
def _following(match: re.Match[str]) -> Value | Found:
    """Pages et suivantes, articles et suivants."""
    feminine = re.search(r"\b(?:pp?\.|pages?|fig\.|figures?|sections?|lignes?)[^.]{0,20}$",
                         text_before(match).lower())  # fmt: skip
    words = f"et suivant{'e' if feminine else ''}s"
    if re.match(r" [A-Z]{2,}\b", text_after(match)):
        return Found(Abbreviation(words), "abbreviation")  # et suiv. CGI
    return Found(Abbreviation(words), stop_after(match.string, match.end(), "fr"))


@recognizer(
    "abbreviation",
    r"(?<!\w)[Cc]/ ?(?=[A-ZÁÉÍÓÚ][a-záéíóú])",
    languages=("es",),
    needs="/",
    weight=2,
)
def _street(match: re.Match[str]) -> Value:
    return Abbreviation("Calle " if match.start() == 0 else "calle ")


# A name or an initial before it, no office: then it is an initial too.
_INITIAL_BEFORE = LazyPattern(
    r"(?:(?<!\w)[A-ZÁÉÍÓÚ]\.?|(?<!\w)(?!Presidente|Señor|Director|Ministro|Doctor|Rector|Alcalde|Rey|"
    r"Profesor|General|El|Al|Del|Los|Un)[A-ZÁÉÍÓÚ][a-záéíóúñ]+) ?$"
)


@recognizer(
    "abbreviation",
    r"(?<![\w.])(?:D|S|P|M)\.(?=\s[A-ZÁÉÍÓÚ][a-záéíóúñ]+)|(?<![\w.])P\.?º(?=\s)",
    languages=("es",), weight=1.5,
)  # fmt: skip
def _don(match: re.Match[str]) -> Value | Found | None:
    written = match[0][0]
    before = text_before(match, 30)
    if "º" in match[0]:
        return Abbreviation("paseo")
    if _INITIAL_BEFORE.search(before):
        return None
    if written == "P" and not re.search(
        r"\b(?:[Ee]l|[Aa]l|[Dd]el|[Uu]n|[Nn]uestro|[Ee]se) $", before
    ):
        return None
    if written == "M" and not re.search(r"\b(?:[Ll]a|Rvda\.) $", before):
        return None
    words = {"D": "don", "S": "san", "P": "padre", "M": "madre"}[written]
    return Found(Abbreviation(capitalize(words, match)), "abbreviation")


@recognizer(
    "abbreviation",
    r"(?<![\w.])P\.(?=\s[A-ZÉÈ][a-zà-ÿ]+)",
    languages=("fr",), weight=1.5,
)  # fmt: skip
def _father(match: re.Match[str]) -> Value | Found | None:
    if not re.search(r"\b(?:[Ll]e|[Aa]u|[Dd]u|[Uu]n) $", text_before(match, 6)):
        return None
    return Found(Abbreviation("père"), "abbreviation")


@recognizer(
    "abbreviation",
    rf"(?<!\w)({one_of(spanish.WOMENS_TITLES)})(?= ([A-ZÁÉÍÓÚ][{SMALL}]+)(?: ([A-ZÁÉÍÓÚ]))?)",
    languages=("es",), weight=1.6,
)  # fmt: skip
def _her_title(match: re.Match[str]) -> Value | Found | None:
    """A woman's first name follows."""
    name = match[2].lower()
    if name not in spanish.WOMENS_NAMES and not (name.endswith("a") and match[3]):
        return None
    words = capitalize(spanish.WOMENS_TITLES[match[1]], match)
    return Found(Abbreviation(words), "abbreviation")


@recognizer(
    "abbreviation",
    r"(?<!\w)(?:(?<=\b[Ll]es )nos|(?<=\baux )nos|(?<=\bdes )nos|"
    r"[Nn]os(?= \d+(?:, \d+)*(?: et | à |-|\u2013)\d+(?! [a-zà-ÿ]|\d)))(?= \d)",
    languages=("fr",), weight=1.5,
)  # fmt: skip
def _numbers(match: re.Match[str]) -> Value:
    """Nos 8 enfants are ours; les nos 8 et 9 are numbers."""
    return Abbreviation(capitalize("numéros", match))


@romance("abbreviation", r"(?<!\w)etc\.{3,}", weight=2)
def _trailing(language: str, match: re.Match[str]) -> Value:
    return Abbreviation("etcétera..." if language == "es" else "et cetera...")


# -- initials and acronyms -------------------------------------------------------------------------

_VOWELS = frozenset("AEIOUYÁÉÍÓÚÜÀÂÄÈÊËÎÏÔÖÙÛŒÆ")
_LIQUID = re.compile(r"(?:[PBTDCGFK][RL]|[CPGTS]H|QU|ST|SC|SP|SM|SN|GN|PS)")
_CODA = re.compile(r"[RLN][KTDPCGN]$")
# A letter behind one of these is its name, and a full stop behind the letter ends the sentence.
_LETTERED = LazyPattern(
    r"(?:Plan|Vitamin[ae]|Gr[uo]upo?|Clas[se]e?|Tipo|Type|Letra|Lettre|Anexo|Annexe|Opción|Option|"
    r"Serie|Série|Zona|Zone|Bloque|Bloc|Apartado|Hepatitis|Hépatite) $"
)
_NAMED = LazyPattern(r"(?:^|\W)[A-ZÁÉÍÓÚÑÀÂÇÈÊËÎÏÔÛ][a-zà-ÿ]+ $")
# A name follows these, where no letter was named just before: de A. Camus, but entre A et B.
_LEADING = LazyPattern(
    r"(?:^|[\s(])(?:de|par|avec|selon|chez|con|por|según|(?<!\b[A-Z] )(?:et|y))[ ]$|"
    r"[^\W\d_]{3,}, $|: $|\b(?:abbé|père|frère|sœur|don|doña|fray|padre) $|"
    r"\b(?:MM?\.|Mme|Mlle|Dr\.?|Sr\.|Sra\.|D\.) $"
)
_ROW = rf"(?<![\w.])(?:[{CAPITAL}]\. ?-?){{2,6}}"


@romance("initials", rf"{_ROW}(?=[{CAPITAL}][{SMALL}])", weight=0.9)
def _row_of_initials(language: str, match: re.Match[str]) -> Value | Found | None:
    """J. R. R. before a name."""
    if (
        look_behind(match.string, match.start() + len(match[0].rstrip())).word.lower()
        in TABLES[language].STARTERS
    ):
        return None
    letters = "".join(re.findall(r"\w", match[0]))
    if language == "fr" and re.fullmatch(r"M\. \w\. ", match[0]):
        return None  # M. V. Hugo: monsieur.
    return Found(Phrase((Letters(letters), "")), "abbreviation")


@romance(
    "initials",
    rf"{_ROW}(?![{CAPITAL}]\b)(?<=\.)|(?<![\w.])(?:[{CAPITAL}]\.){{1,5}}[{CAPITAL}](?![\w.])",
    weight=0.85,
)
def _dotted_acronym(language: str, match: re.Match[str]) -> Value | Found | None:
    """U. S. A. by itself, its last full stop written or not."""
    letters = re.sub(r"\W", "", match[0])
    if language == "fr" and re.match(r"M\. \w\. [^\W\d_]", match.string[match.start() :]):
        return None  # M. V. Hugo: monsieur.
    spelled = _spell(letters, TABLES[language])
    value: Value = Letters(letters) if spelled else Abbreviation(letters)
    if not match[0].endswith("."):
        return value
    return Found(value, stop_after(match.string, match.end(), language))


@romance(
    "initials",
    rf"(?<![\w.])([{CAPITAL}])\."
    rf"(?= (?:(?:de la|de|du|des|von|van) |d')?[{CAPITAL}](?:[{SMALL}]|\.))",
    weight=0.8,
)
def _initial(language: str, match: re.Match[str]) -> Value | Found | None:
    """A single initial stands before a name, at the start or behind another name."""
    before = text_before(match, 30)
    following = look_behind(match.string, match.end())
    if following.word.lower() in TABLES[language].STARTERS and len(following.word) > 1:
        return None
    named = _NAMED.search(before)
    if _LEADING.search(before) or not before or (named and not _LETTERED.search(named[0])):
        return Found(Letters(match[1]), "abbreviation")
    return None


@romance("initials", rf"(?<=[a-z.] )([A-Z])\.(?=\s+[{SMALL}])", needs=".", weight=1.2)
def _hidden_name(language: str, match: re.Match[str]) -> Value | Found | None:
    """A name that is not told: M. X. a 21 ans."""
    titled = re.search(r"(?:\b(?:Sr|Sra|Srta|Dr|Dra|D|M)\.|\bM(?:me|lle|gr)|\b[Dd]on|\b[Dd]oña) $",
                       text_before(match))  # fmt: skip
    return Found(Letters(match[1]), "abbreviation") if titled else None


def _acronym(language: str, written: str, match: re.Match[str]) -> Value | None:
    table = TABLES[language]
    if written in table.FULL_ACRONYMS:
        return Abbreviation(table.FULL_ACRONYMS[written])
    if is_shouted(match) and (written in table.PLAIN_WORDS or _is_sayable(written)):
        return None
    return Letters(written) if _spell(written, table) else None


@romance("acronym", rf"(?<![\w@])(?<![\w]\.)([{CAPITAL}]{{2,6}})(s?)(?![\w@])", weight=0.7)
def _capitals(language: str, match: re.Match[str]) -> Value | None:
    return _acronym(language, match[1], match)


@romance(
    "acronym",
    rf"(?<![\w@])([{CAPITAL}]{{1,6}})[ -]?(\d{{1,4}})(?![\w.,:]*\d|[-–]\d)(?!\w)",
    weight=0.75,
)
def _acronym_and_number(language: str, match: re.Match[str]) -> Value | None:
    """MP3, COVID-19, A-6, T3, RTX 4090."""
    letters, digits = match[1], match[2]
    gap = match[0][len(letters)]
    if gap == " " and (len(letters) == 1 or letters in TABLES[language].PLAIN_WORDS):
        return None
    name = _acronym(language, letters, match)
    if name is None and len(letters) == 1:
        name = Letters(letters)
    elif name is None and gap != " ":
        name = Abbreviation(letters)
    return Phrase((name, Label(digits))) if name else None


def _spell(written: str, table: ModuleType) -> bool:
    """Whether letters are said by their names."""
    if written in table.SPOKEN_ACRONYMS or written in table.PLAIN_WORDS or not written.isascii():
        return False  # Letters of an acronym carry no accents: it is a word in capitals.
    return written in table.SPELLED_ACRONYMS or len(written) <= 3 or not _is_sayable(written)


def _is_sayable(written: str) -> bool:
    """Whether letters can be read as a word: vowels among them, no heap of consonants."""
    plain = _CODA.sub("T", _LIQUID.sub("T", written.upper()))
    shape = "".join("v" if letter in _VOWELS else "c" for letter in plain)
    return "v" in shape and "ccc" not in shape and not re.match("cc|.*cc$", shape)


# -- telephone numbers and codes -------------------------------------------------------------------

_GAP = "[ .-]"
_CALLED = LazyPattern(
    r"(?:tel[eé]fonos?|tel\.?|tfno\.?|tlf\.?|telf\.?|m[oó]vil|celular|fax|llam\w+|whatsapp|n[uú]mero|"
    r"cel\.?|marc\w+)[^.\d]{0,25}$",
    re.IGNORECASE,
)
# Nine digits of Spain in their groupings, then ten of the Americas.
_SPANISH_PHONES = "|".join((
    rf"[6-9]\d\d{_GAP}\d\d\d{_GAP}\d\d\d",
    rf"[6-9]\d\d(?:{_GAP}\d\d){{3}}",
    rf"[89]\d{_GAP}\d{{3}}{_GAP}\d\d{_GAP}\d\d",
    r"[679]\d{8}",
    rf"\(\d{{2,3}}\) ?\d{{3,4}}{_GAP}\d{{4}}",
    rf"\d\d{_GAP}\d{{4}}{_GAP}\d{{4}}",
    r"\d{3}-\d{3,4}-\d{3,4}",
))  # fmt: skip
_COUNTED_THINGS = frozenset(
    "habitantes personas euros dólares pesos kilómetros km toneladas libros años unidades votos "
    "de metros millones".split()
)


def _groups(written: str) -> Digits:
    groups = re.findall(r"\d+", written)
    if len(groups) == 1 and len(groups[0]) == 9:
        groups = re.findall(r"\d{3}", groups[0])
    return Digits(tuple(groups), plus="+" in written)


@recognizer(
    "phone", rf"(?<![\w+])\(?\+\d{{1,3}}\)?(?:{_GAP}?\(?\d{{1,4}}\)?){{2,6}}(?![\w])",
    languages=("es",), needs="+", weight=1.5,
)  # fmt: skip
def _spanish_abroad(match: re.Match[str]) -> Value | None:
    return _groups(match[0]) if len(re.findall(r"\d", match[0])) >= 8 else None


@recognizer(
    "phone", rf"(?<![\w.,+€$-])(?:{_SPANISH_PHONES})(?![\w]|[.,]\d|{_GAP}\d)",
    languages=("es",), weight=1.5,
)  # fmt: skip
def _spanish_phone(match: re.Match[str]) -> Value | None:
    dotted = "." in match[0] and not _CALLED.search(text_before(match, 50))
    if dotted or word_after(match).lower() in _COUNTED_THINGS:
        return None
    return None if text_after(match, 2).strip()[:1] in tuple("€$%£") else _groups(match[0])


@recognizer(
    "phone", rf"(?<![\w.,+-])\d{{2,5}}(?:{_GAP}?\d{{2,4}}){{0,4}}(?![\w]|[.,]\d)",
    languages=("es",), weight=1.3,
)  # fmt: skip
def _spanish_called(match: re.Match[str]) -> Value | None:
    """Any longer run of digits behind a word that promises a telephone number."""
    before = text_before(match, 50)
    if not _CALLED.search(before) or word_before(match) in ("número", "numero"):
        return None
    count = len(re.findall(r"\d", match[0]))
    short = count == 3 and re.search(r"(?:llam|marc|tel)[^.\d]{0,20}$", before[-30:].lower())
    return _groups(match[0]) if count >= 6 or (short and match[0] != "100") else None


@recognizer(
    "phone", r"(?<![\w.,+€$-])(\d{4})-(\d{4})(?![\w-]|[.,]\d)", languages=("es",), weight=1.1
)
def _spanish_eight(match: re.Match[str]) -> Value | None:
    """Eight digits, unless they are two years."""
    years = all(1000 <= int(group) <= 2100 for group in match.groups())
    return None if years else _groups(match[0])


@recognizer("code", r"(?<![\w.,-])(\d{8})-?([A-Z])(?!\w)", languages=("es",), weight=1.5)
def _identity_card(match: re.Match[str]) -> Value:
    return Phrase((Digits((match[1],)), Letters(match[2])))


@recognizer(
    "phone",
    rf"(?<![\w+])\(?(?:\+|00)\d{{1,3}}\)?(?:{_GAP}?\(0\))?(?:{_GAP}?\d{{1,4}}){{2,7}}(?!\w)",
    languages=("fr",), weight=1.5,
)  # fmt: skip
def _french_abroad(match: re.Match[str]) -> Value | None:
    written = match[0]
    if not 9 <= len(re.findall(r"\d", written)) <= 16:
        return None
    if compact := re.fullmatch(r"\+33([1-9])(\d{8})", written):
        written = f"+33 {compact[1]} {' '.join(re.findall('..', compact[2]))}"
    return _pairs(written)


@recognizer(
    "phone",
    rf"(?<![\w.,+-])(?:0[1-9](?:{_GAP}?\d\d){{4}}(?!\w|[.,]\d|{_GAP}\d)|08\d\d(?:{_GAP}\d{{3}}){{2}}(?!\w)"
    rf"|08\d\d(?:{_GAP}\d\d){{3}}(?!\w))",
    languages=("fr",), needs="0", weight=1.7,
)  # fmt: skip
def _french_phone(match: re.Match[str]) -> Value:
    compact = re.fullmatch(r"\d{10}", match[0])
    return _pairs(" ".join(re.findall("..", match[0])) if compact else match[0])


@recognizer(
    "phone", r"(?<![\w.,+-])(?:3[0-9]|1[0-9]) \d\d(?!\w| \d|[.,]\d)", languages=("fr",), weight=1.5
)
def _french_short(match: re.Match[str]) -> Value | None:
    called = re.search(r"appel|compos|tél|num", text_before(match, 30).lower())
    return _pairs(match[0]) if called else None


@recognizer(
    "phone",
    rf"(?<![\w.,+$-])\(?\d{{3}}\)?{_GAP}\d{{3}}-\d{{4}}(?!\w)",
    languages=("fr",),
    weight=1.5,
)
def _american_phone(match: re.Match[str]) -> Value:
    return _pairs(match[0])


def _pairs(written: str) -> Digits:
    """French groups are said as numbers of two or three digits."""
    groups: list[str] = []
    for group in re.findall(r"\d+", written):
        if len(group) <= 3 or (len(group) == 4 and group[0] == "0"):
            groups.append(group)
        else:
            odd = len(group) % 2
            groups += ([group[0]] if odd else []) + re.findall("..", group[odd:])
    return Digits(tuple(groups), plus="+" in written, by_group=True)


@romance(
    "code",
    r"(?<![\w.,+-])(?:\d{4}(?:[ -]\d{4}){2,5}|\d{1,5}(?:-\d{1,7}){3,5})(?![\w-]|[.,]\d)",
    weight=1.6,
)
def _code(language: str, match: re.Match[str]) -> Value:
    """Numbers of cards, accounts and books: digit by digit, in the groups they are written in."""
    return Digits(tuple(re.findall(r"\d+", match[0])))


# -- signs -----------------------------------------------------------------------------------------

_DOUBLE_SIGNS = ("<=", ">=", "!=", "==", "->", "=>", "§§")
_SIGNS = SAID + GREEK + SILENT + "#/²³µ∆ºª[]"


@romance(
    "sign",
    rf" {{0,4}}({one_of(_DOUBLE_SIGNS)}|[{re.escape(_SIGNS)}]) {{0,4}}",
    needs=_SIGNS,
    weight=0.1,
)
def _sign(language: str, match: re.Match[str]) -> Value:
    sign = match[1]
    if sign * 3 in match.string[max(0, match.start(1) - 2) : match.end(1) + 2]:
        return Silence(space=True)
    closed = text_after(match, 1) in tuple(".,;:!?)")
    return Phrase(("", Sign(sign))) if closed else Phrase(("", Sign(sign), ""))


_QUOTE = '"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a'


@romance("quote", rf" ?[{_QUOTE}] ?|''", weight=0.2)
def _quote(language: str, match: re.Match[str]) -> Found:
    """A quotation mark with the space inside the quotation."""
    text, start, end = match.string, match.start(), match.end()
    mark = start + (text[start] == " ")
    spaced_left = start == 0 or text[start] == " " or text[start - 1] in " (¿¡—\u2013-'"
    spaced_right = text[end - 1] == " " or text[end : end + 1] in (
        "",
        ".",
        ",",
        ";",
        ":",
        "!",
        "?",
        ")",
    )
    count = len(re.findall(rf"[{_QUOTE}]", re.sub(r'\d ?"', "", text[:mark])))
    opens = spaced_left and (not spaced_right or count % 2 == 0)
    if opens:
        return Found(Silence(), start=mark)
    # A sentence may begin behind a closing mark: the space before it stays.
    keeps = text[end : end + 1].isupper() or (start and text[start - 1] in ".!?")
    closed = mark + 1
    return Found(
        Silence(), start=mark if keeps and text[closed : closed + 1] == " " else start, end=closed
    )


@romance(
    "quote",
    r"(?<!\w)'(?=\w[^'\n]{0,200}'(?!\w))|(?<=[\w.,!?\u2026])'(?!\w)", needs="'", weight=0.2,
)  # fmt: skip
def _single_quote(language: str, match: re.Match[str]) -> Value | None:
    opens = not re.search(r"[\w.,!?\u2026]$", text_before(match, 1))
    if not opens and not re.search(r"(?:^|[\s(\u00bf\u00a1])'\w[^\n]*$", text_before(match, 200)):
        return None
    return Silence()


@romance("dash", r"^[ \t]*(?:[\u2014\u2013]|--?(?=\s))[ \t]*", weight=0.3)
def _dialogue_dash(language: str, match: re.Match[str]) -> Value:
    return Silence()


@romance("dash", r" {0,4}(?:[\u2014\u2013]|(?<=\s)--?(?=\s)|--+) {0,4}", weight=0.15)
def _dash(language: str, match: re.Match[str]) -> Value | Found:
    """A dash in a sentence is a pause, unless another mark makes one beside it."""
    before, after = text_before(match, 1), text_after(match, 1)
    if before in (".", "!", "?", "\u2026", '"'):
        # The space before it may part two sentences.
        return Found(Silence(), start=match.end() - len(match[0].lstrip()))
    if not before or before in "\n,;:\u00bf\u00a1(" or not after or after == "\n":
        return Silence(space=True)
    return Silence() if after in ".,;:!?)\u2026" else Abbreviation(", ")


@romance("ellipsis", r"\(\.{3}\)", needs="(", weight=1.5)
def _left_out(language: str, match: re.Match[str]) -> Value:
    """A place where something was left out of a quotation."""
    return Abbreviation("...")


@romance("note", r"(?<=[\w.,;:!?\"])\[\d{1,3}\]", needs="[", weight=2)
def _note(language: str, match: re.Match[str]) -> Value:
    return Silence()


@recognizer(
    "law",
    r"(?:(?<=rticle )|(?<=rticles )|(?<=rt\. ))([LRD])\.(?= ?\d)",
    languages=("fr",),
    weight=2,
)
def _law_letter(match: re.Match[str]) -> Value | Found:
    return Found(Letters(match[1]), "abbreviation")


RECOGNIZERS = (
    *_ABBREVIATIONS, *_agreeing, _following, _street, _don, _father, _her_title, _numbers,
    *_trailing, *_row_of_initials, *_dotted_acronym, *_initial, *_hidden_name, *_capitals,
    *_acronym_and_number, _spanish_abroad, _spanish_phone, _spanish_called, _spanish_eight,
    _identity_card, _french_abroad, _french_phone, _french_short, _american_phone, *_code, *_sign,
    *_quote, *_single_quote, *_dialogue_dash, *_dash, *_left_out, *_note, _law_letter,
)  # fmt: skip
