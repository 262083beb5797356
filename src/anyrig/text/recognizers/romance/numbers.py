"""Spanish and French numbers: counts, ordinals, ranges, fractions, Roman numerals."""

from __future__ import annotations

import re

from anyrig.text.recognizers import Found, recognizer
from anyrig.text.recognizers.common import FRACTIONS, VULGAR, LazyPattern
from anyrig.text.recognizers.romance import spanish
from anyrig.text.recognizers.romance.forms import (
    AFTER,
    BEFORE,
    CAPITAL,
    DASH,
    DOT,
    MINUS,
    NUMBER,
    ROMAN,
    SMALL,
    TABLES,
    agree,
    close,
    is_shouted,
    one_of,
    parse_number,
    parse_roman,
    romance,
    text_after,
    text_before,
    word_after,
    word_before,
)
from anyrig.text.recognizers.romance.units import UNITS
from anyrig.text.values import (
    Abbreviation,
    Fraction,
    Label,
    Letters,
    Number,
    Ordinal,
    Phrase,
    Range,
    Roman,
    Value,
    Version,
)

_LINK = {"es": "a", "fr": "à"}

# -- counts ----------------------------------------------------------------------------------------

_POINTED = frozenset(
    "version v web article section point paragraphe figure tableau chapitre art. chap. fig. sect. "
    "python windows".split()
)
_NAMING = frozenset("page numéro n° chambre chapitre ligne".split())


@romance("number", rf"{BEFORE}({MINUS}{NUMBER})(?![\d\w])(?![.,]\d)", weight=0.5, digits=True)
def _count(language: str, match: re.Match[str]) -> Value | None:
    number = parse_number(match[1])
    whole = int(number.digits[:30])
    if number.decimals:
        pointed = number.point and (word_before(match) in _POINTED or number.decimals == "0")
        if language == "fr" and pointed:
            return Version((number.digits, number.decimals))
        return number
    if language == "fr" and word_before(match) in _NAMING:
        return Label(number.digits)
    gender = agree(language, match, whole)
    if language == "es" and whole == 1 and not gender and word_before(match) in ("la", "las"):
        gender = "f"
    number = parse_number(match[1], gender=gender)
    if whole and whole % 1_000_000 == 0 and _is_counting(language, match, gender):
        return Phrase((number, "de"))
    return number


def _is_counting(language: str, match: re.Match[str], gender: str) -> bool:
    """Whether a noun follows: un millón de personas, un million de personnes."""
    if language == "es":
        return bool(gender)
    noun = word_after(match)
    counted = noun.islower() and noun not in TABLES["fr"].NO_NOUN and not noun.startswith("d'")
    return counted and noun[0] not in "aeiouyéèêhœ"


@romance(
    "number",
    rf"{BEFORE}({NUMBER}) ?([Mk])(?!\w)(?<!\d )|{BEFORE}({NUMBER}) M(?= d['e])",
    digits=True,
)
def _shortened(language: str, match: re.Match[str]) -> Value | None:
    """3M, 20k: as counts of people are written."""
    return parse_number(match[1] or match[3], 3 if match[2] == "k" else 6, "m")


@romance(
    "number",
    rf"{BEFORE}({NUMBER})([A-Za-z]{{1,4}})(?!\w)|{BEFORE}({NUMBER})(?=[^\W\d_])"
    r"|(?<=[^\W\d_])(\d+)(?![.,]?\d)",
    digits=True, weight=0.45,
)  # fmt: skip
def _glued(language: str, match: re.Match[str]) -> Value | None:
    """A number that touches letters: 5G, 802.11ac."""
    if match[4]:
        after = " " if match.string[match.end() : match.end() + 1].isalpha() else ""
        return Phrase(("", Label(match[4]), *([""] if after else [])))
    number = parse_number(match[1] or match[3])
    figure: Value = Version((number.digits, number.decimals)) if number.point else number
    if match[3]:
        return Phrase((figure, ""))
    letters = match[2]
    if letters.islower() and len(letters) > 2:
        return Phrase((figure, letters))
    return Phrase((figure, Letters(letters.upper())))


@romance(
    "number",
    rf"(?<=[{SMALL}0-9] )(?<!\d )(\d{{1,2}})([sScCxX])(?!\w)",
    digits=True, weight=3,
)  # fmt: skip
def _model(language: str, match: re.Match[str]) -> Value | None:
    """A thing's name: iPhone 6s."""
    named = re.search(r"(?:[A-ZÉ]\w*|[a-z][A-Z]\w*) $", text_before(match))
    return Phrase((Number(match[1]), Letters(match[2].upper()))) if named else None


@romance("number", r"\d+", weight=0.2, digits=True)
def _rest(language: str, match: re.Match[str]) -> Value:
    """Whatever digits are left: no figure goes unsaid."""
    before = match.string[max(0, match.start() - 1) : match.start()].isalnum()
    after = match.string[match.end() : match.end() + 1].isalnum()
    return Phrase((*([""] if before else []), Number(match[0]), *([""] if after else [])))


@recognizer(
    "number",
    rf"{BEFORE}1(?= de cada {NUMBER} ([a-záéíóúñ]+))",
    languages=("es",),
    weight=2,
    digits=True,
)
def _one_in(match: re.Match[str]) -> Value:
    """One of them has their gender: una de cada tres mujeres."""
    return Abbreviation("una" if spanish.find_gender(match[1]) == "f" else "uno")


@recognizer(
    "number",
    r"(?<!\w)([Dd])e (?=1(?:/\d| (?!(?:à|et|ou|sur|000)\b)[a-zà-ÿA-Z°%€$]))",
    languages=("fr",), weight=2,
)  # fmt: skip
def _elided(match: re.Match[str]) -> Value:
    """D'un kilomètre, but de un à dix."""
    return Abbreviation(f"{match[1]}'")


# -- ranges, ratios, versions ----------------------------------------------------------------------

# A law has a number in parts, no span: loi n° 2015-123.
_CODED = LazyPattern(r"(?:\bn°|\bnuméro|\b[LRD]\.) ?$")


@romance(
    "range", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){AFTER}(?!{DASH}\d)", weight=0.6, digits=True
)
def _range(language: str, match: re.Match[str]) -> Value | None:
    first, last = parse_number(match[1]), parse_number(match[2])
    if match[1] == match[2] == "50":
        return Phrase((first, last))
    spaced = re.search(r"\s[-\u2013]\s", match[0]) and not word_after(match)
    if spaced and int(first.digits) >= int(last.digits):
        return Phrase((first, "menos" if language == "es" else "moins", last))
    if language == "fr" and _CODED.search(text_before(match, 9)):
        return Phrase((first, "tiret", last))
    gender = agree(language, match, int(last.digits))
    between = word_before(match) == "entre"
    link = ({"es": "y", "fr": "et"} if between else _LINK)[language]
    if language == "es":
        first = parse_number(match[1], gender=gender)
    return Range(first, parse_number(match[2], gender=gender), link)


@romance("ratio", rf"{BEFORE}(\d{{1,4}}):({NUMBER}){AFTER}(?!:)", needs=":", weight=0.6)
def _ratio(language: str, match: re.Match[str]) -> Value:
    return Range(Number(match[1]), parse_number(match[2]), _LINK[language])


@romance("version", r"(?<!\w)([vV])(\d+(?:\.\d+){1,4})(?!\w)", needs="vV", weight=1.2)
def _release(language: str, match: re.Match[str]) -> Value:
    return Phrase((match[1], Version(tuple(match[2].split(".")))))


@romance("version", r"(?<![\w.,])\d{1,3}(?:\.\d{1,3}){2,}(?![\w.,]\d)(?!\d)", needs=".")
def _version(language: str, match: re.Match[str]) -> Value | None:
    parts = match[0].split(".")
    if all(len(part) == 3 for part in parts[1:]) and parts[0] not in ("192", "255", "127"):
        return None
    return Version(tuple(parts))


@recognizer(
    "date",
    r"(?<=l )(\d{1,2})(?:-([MSFNJODAE])|([MSFNJ]))(?![\w-])",
    languages=("es",), needs="MSFNJODAE", weight=1.5,
)  # fmt: skip
def _day_letter(match: re.Match[str]) -> Value | None:
    """A day known by its month's first letter: el 8M, el 11-S."""
    if not re.search(r"(?<!\w)(?:el|del|al) $", text_before(match, 5).lower()):
        return None
    names = dict(zip("MSFNJODAE", "eme ese efe ene jota o de a e".split(), strict=True))
    return Phrase((Number(match[1]), names[match[2] or match[3]])) if int(match[1]) < 32 else None


# -- ordinals --------------------------------------------------------------------------------------

_SIDES = frozenset("se fue izq izda izdo dcho dcha izquierda derecha izqda puerta letra".split())
_AFTER_ORDINAL = frozenset("de del y o más menos es en a por con para que al la el los las".split())
_DEGREE_WORDS = frozenset(
    "bajo sobre centígrados celsius fahrenheit norte sur este oeste latitud longitud kelvin "
    "alcohólicos n s e o w".split()
)
_DEGREE_CONTEXT = LazyPattern(
    r"\b(?:hace|hac[ií]a|hará|hizo|haga|temperatura|temp\.|fiebre|ángulo|gir\w+|inclin\w+|latitud|"
    r"longitud|alcohol|frío|calor|horno|hornea\w*|hornee|termómetro|pendiente|rot\w+|máxim\w*|"
    r"mínim\w*|máx\.?|mín\.?|sombra|marc\w+|mercurio|calient\w+|hierve|congel\w+|grados|vino|"
    r"cerveza|agua|norte|sur|clima|termostato|precalient\w+|desvi\w+|arco|vuelta|viraje|lava\w*)\b",
    re.IGNORECASE,
)  # fmt: skip


_RANKED = LazyPattern(
    r"\b(?:qued\w+|termin\w+|acab\w+|lleg\w+|entr\w+|es|fue|finaliz\w+|puesto|clasific\w+|número|"
    r"art\.|artículo|en|piso|planta) $"
)


def is_degrees(match: re.Match[str], number: str) -> bool:
    """Whether a Spanish number with º or ° measures heat or an angle: 40º a la sombra."""
    after = word_after(match)
    if after.lower() in _DEGREE_WORDS:
        return True
    before = word_before(match)
    noun = (
        after.islower() and len(after) > 2 and after not in _AFTER_ORDINAL and after not in _SIDES
    )
    if before == "entre":
        return True
    if before in ("el", "la", "del", "al", "su", "mi", "tu", "este", "ese", "cada", "nuestro"):
        return False
    if noun:
        return "°" in match[0] and before in ("a", "de", "hasta", "los", "unos")
    if _DEGREE_CONTEXT.search(text_before(match, 60)):
        return True
    if before == "a" and (not after or after in ("de", "a", "y", "o", "en", "la")):
        return True
    return int(number) > 20 and not _RANKED.search(text_before(match, 20))


@recognizer(
    "ordinal",
    r"(?<![\w.,])(?<![-\u2212\u2013])(\d{1,3})(?:\.?(º|ª|°(?=\s?[a-z]{4,}))|\.?(os|as)(?!\w)"
    r"|\.?(er|ero|ro|do|to|mo|vo|no|era|ra|da|ta|ma|va|na|o|a)(?!\w))"
    r"(?:\.(?= [a-z]|\s?[A-ZÁÉÍÓÚ][a-z]+\.))?(s?)(?![\da-zá-ú])",
    languages=("es",),
    digits=True,
)
def _spanish_ordinal(match: re.Match[str]) -> Value | None:
    number, ending = int(match[1]), (match[2] or match[3] or match[4]).lower()
    noun = word_after(match)
    before_noun = noun.islower() and noun not in _AFTER_ORDINAL and noun not in _SIDES
    dotted = "." in match[0]
    if not number or (
        match[4] and len(ending) == 1 and not dotted and not (before_noun and len(noun) > 3)
    ):
        return None
    if ending in ("º", "°") and not dotted and is_degrees(match, match[1]):
        return None
    before_noun = before_noun or bool(re.match(r" [A-ZÁ][a-zóé]+\.", text_after(match)))
    feminine = ending in ("ª", "as") or ending.endswith("a")
    short = ending == "er" or (ending == "º" and before_noun)
    plural = bool(match[5]) or ending in ("os", "as")
    value: Value = Ordinal(number, "f" if feminine else "m" if short else "", plural)
    joined = text_after(match, 1).isalpha()
    return Phrase((value, "")) if joined else value


@recognizer(
    "ordinal",
    r"(?<![\w.,])(\d{1,7})(?:(ers|er|res|re|ères|ère)|(ème|eme|ième|ieme|è|e|nde|nd|de|d)(s?))(?!\w)",
    languages=("fr",), weight=1.1,
    digits=True,
)  # fmt: skip
def _french_ordinal(match: re.Match[str]) -> Value | None:
    number, first, ending = int(match[1]), match[2], match[3]
    if first:
        if number != 1:
            return Ordinal(number) if number % 10 == 1 else None
        return Ordinal(1, "m" if first[0] == "e" else "f", first.endswith("s"))
    if not number or (ending in ("nd", "nde", "d", "de") and number != 2):
        return None
    if ending in ("nd", "d", "nde", "de"):
        return Abbreviation(f"second{'e' if ending.endswith('e') else ''}{match[4]}")
    return Ordinal(number, "m" if number > 1 else "", bool(match[4]))


# -- fractions -------------------------------------------------------------------------------------

_FRACTION = (
    rf"{BEFORE}([-\u2212]?)(?:(\d{{1,3}}) ?)?([{VULGAR}])(?!\w)"
    rf"|{BEFORE}(?:(?<!\d )([-\u2212]))?(?:(\d{{1,3}}) )?(\d{{1,3}})[/\u2044](\d{{1,4}})"
    rf"{AFTER}(?!/)"
)
_GRADED = {
    "es": LazyPattern(r"nota|puntu|calific|sacó|saqué|obtuv|valor|examen"),
    "fr": LazyPattern(r"not[eé]|obten|\beu\b|score|moyenne|évalu|examen"),
}
_HALF_AFTER = {"es": _AFTER_ORDINAL, "fr": TABLES["fr"].NO_NOUN}


@romance("fraction", _FRACTION, needs="/\u2044" + VULGAR, weight=0.9)
def _fraction(language: str, match: re.Match[str]) -> Value | Found | None:
    sign = "-" if match[1] or match[4] else ""
    whole = match[2] or match[5]
    above, below = FRACTIONS[match[3]] if match[3] else (int(match[6]), int(match[7]))
    if (above, below) in ((24, 7), (50, 50)) and not whole:
        return Phrase((Number(str(above)), Number(str(below))))
    if 1900 <= below <= 2100:
        slash = "barra" if language == "es" else "slash"
        return Phrase((Number(str(above)), slash, Number(str(below))))
    if whole and above >= below:
        return None
    number = int(whole) if whole else None
    if above == below or _is_graded(language, match, above, below):
        return Fraction(above, below, number, sign, "over")
    if (above, below) == (1, 2):
        return _half(language, match, number)
    noun = word_after(match)
    if above > 1 and below in (5, 10, 20, 100) and noun.islower() and noun.endswith("s"):
        # Nueve de cada diez dentistas, neuf dentistes sur dix; but dos quintas partes, de los.
        counts = noun not in _HALF_AFTER[language] and noun not in ("partes", "parts", "des")
        if counts and language == "es":
            return Phrase((Number(str(above)), "de cada", Number(str(below))))
        if counts:
            parts = (Number(str(above)), noun, "sur", Number(str(below)))
            return Found(Phrase(parts), end=match.end() + 1 + len(noun))
    if above == 1 and not whole and word_before(match) in ("un", "une"):
        return Fraction(above, below, None, sign, "bare")  # The article is there: un 1/4.
    return Fraction(above, below, number, sign)


def _is_graded(language: str, match: re.Match[str], above: int, below: int) -> bool:
    """Marks are out of ten or twenty; other fractions are parts."""
    marked = _GRADED[language].search(text_before(match).lower()) and below in (5, 10, 20, 100)
    return bool(below == 0 or above > below * 3 or marked or (above > 1 and below in (20, 100)))


def _half(language: str, match: re.Match[str], whole: int | None) -> Value:
    """A half agrees with what it halves: media taza, dos y medio."""
    noun = word_after(match).lower()
    counts = bool(noun) and noun not in _HALF_AFTER[language]
    gender = TABLES[language].find_gender(noun) if counts else ""
    if language == "es":
        half = "media" if gender == "f" else "medio"
        if whole is not None:
            return Phrase((Number(str(whole), gender=gender if whole == 1 else ""), "y", half))
        return Abbreviation(half if gender else "un medio")
    if whole is not None:
        return Phrase((Number(str(whole)), "et", "demie" if gender == "f" else "demi"))
    return Abbreviation("un demi")


@romance("fraction", rf"{BEFORE}(\d{{1,3}})(?: 1/2| ?½) ([{SMALL}]+)(?!\w)", needs="/½")
def _and_half(language: str, match: re.Match[str]) -> Value | None:
    """Behind what is counted: dos tazas y media, deux heures et demie."""
    noun = match[2]
    if noun in _HALF_AFTER[language] or noun in UNITS[language]:
        return None
    gender = TABLES[language].find_gender(noun)
    number = Number(match[1], gender=gender)
    if language == "fr":
        return Phrase((number, noun, "et", "demie" if gender == "f" else "demi"))
    if match[1] == "1":
        noun = re.sub(r"(?<=[lrnd])es$|s$", "", noun)
    return Phrase((number, noun, "y", "media" if gender == "f" else "medio"))


@romance("fraction", rf"{BEFORE}(\d+)/(\d+)(?= ?=)", needs="/", weight=1.2)
def _divided(language: str, match: re.Match[str]) -> Value:
    by = "entre" if language == "es" else "divisé par"
    return Phrase((Number(match[1]), by, Number(match[2])))


@recognizer(
    "fraction", rf"{BEFORE}1/(2|4|8|16) (?:de )?(?=finales?\b)", languages=("fr",), weight=2
)
def _round(match: re.Match[str]) -> Value:
    """Of a cup: la demi-finale, le quart de finale."""
    rounds = {"2": "demi-", "4": "quart de ", "8": "huitième de ", "16": "seizième de "}
    return Abbreviation(rounds[match[1]])


@recognizer(
    "fraction",
    r"(?<=[a-z] )(?:1/2|½)(?![\w/])",
    languages=("fr",), needs="/½", weight=1.2,
)  # fmt: skip
def _noun_and_half(match: re.Match[str]) -> Value | None:
    """Behind what is counted: sept ans et demi."""
    noun = word_before(match)
    if noun not in ("an", "ans", "mois", "jours", "kilos", "litres", "heure", "heures"):
        return None
    return Abbreviation("et demie" if noun.startswith("heure") else "et demi")


@recognizer(
    "fraction", rf"{BEFORE}(?:1/2|½) (?=([{SMALL}]+))", languages=("fr",), needs="/½", weight=1.2
)
def _half_of(match: re.Match[str]) -> Value | None:
    """Joined to what it halves: une demi-heure."""
    if match[1] in TABLES["fr"].NO_NOUN:
        return None
    return Abbreviation(f"{'une' if TABLES['fr'].find_gender(match[1]) == 'f' else 'un'} demi-")


# -- Roman numerals --------------------------------------------------------------------------------

_NO_NUMERAL = ("C", "D", "M", "L", "CD", "DC", "MD", "CV", "CM", "MM", "XL", "DVD", "LCD")
_SHORT_COUNTED = {
    "es": ("cap.", "caps.", "t.", "vol.", "fig.", "art.", "núm.", "n.º"),
    "fr": ("chap.", "ch.", "t.", "vol.", "fig.", "art.", "n°"),
}


def _counted_pattern(language: str) -> str:
    heads = [*TABLES[language].COUNTED, *_SHORT_COUNTED[language]]
    link = r"(?:\s?[-\u2013]\s?|,? (?:y|e|o|a|al|et|à|ou) |, )"
    return rf"(?<!\w)((?i:{one_of(heads)})s?) ({ROMAN}(?:{link}{ROMAN})*)(?!\w){DOT}"


@romance("roman", _counted_pattern, needs="IVXLCDM", weight=1.2)
def _counted(language: str, match: re.Match[str]) -> Value | Found | None:
    """Capítulo IV, actes I, II et V."""
    head, numerals = match[1], match[2]
    if numerals in ("L", "C", "D", "M"):
        return None
    words = TABLES[language].NUMBERED.get(head.lower(), head)
    parts: list[Value | str] = [words[0].upper() + words[1:] if head[0].isupper() else words]
    for piece in re.findall(rf"{ROMAN}|[^\W\d_]+|[-\u2013,]", numerals):
        if piece in "-\u2013":
            parts.append(_LINK[language])
        elif piece[0].isupper():
            if not (number := parse_roman(piece)):
                return None
            parts.append(Roman(number))
        else:
            parts.append(piece)
    return close(Phrase(tuple(parts)), match, language, digits_follow=False)


@romance(
    "roman",
    rf"(?<!\w)([{CAPITAL}][{SMALL}]+)(\s+)({ROMAN})(?!\w)(?!\.\s?[{CAPITAL}]\.){DOT}",
    needs="IVXLCDM",
)
def _ruler(language: str, match: re.Match[str]) -> Value | Found | None:
    name, number = match[1].lower(), parse_roman(match[3])
    table = TABLES[language]
    king = name in table.KINGS
    if not number or match[3] in _NO_NUMERAL or (not king and (len(match[3]) < 2 or number > 30)):
        return None
    if not king and (name in table.COUNTED or name in table.STARTERS):
        return None
    value: Value = Roman(number)
    if king:
        value = Ordinal(number, "f" if name in table.QUEENS else "") if number <= 10 else value
        if language == "fr":
            value = Abbreviation("premier") if match[3] == "I" else Roman(number)
    stop = close(value, match, language, digits_follow=False).stop
    return Found(value, stop, start=match.start(3), weight=8 if king else 3)


@recognizer(
    "roman",
    rf"(?<![\w'])({ROMAN})(?:\.?[ºª])?(?=\s+[{CAPITAL}{SMALL}])",
    languages=("es",), needs="IVXLCDM", weight=1.5,
)  # fmt: skip
def _event(match: re.Match[str]) -> Value | None:
    """Before what is counted: la II Guerra Mundial, el XIV Congreso."""
    number, noun = parse_roman(match[1]), word_after(match)
    marked = match[0][-1] in "ºª"
    if not number or match[1] in ("C", "D", "L", "M"):
        return None
    if not (marked or spanish.EVENTS.match(noun.lower())):
        return None
    feminine = match[0][-1] == "ª" or (
        match[0][-1] != "º" and spanish.find_gender(noun) == "f"
    )  # fmt: skip
    return Ordinal(number, "f" if feminine else "m")


_ALONE = (
    r"(?<![\w.])(X{1,3}(?:IX|IV|V?I{1,3})|X{2,3}V?|XI{1,3}|XIV|XVI{0,3}|VI{1,3}|I{2,3}|IV|IX|XX|"
    rf"M[CDMLXVI]{{3,}})(?![\w.]\w|\w){DOT}"
)


@romance("roman", _ALONE, needs="IVXLCDM", weight=0.8)
def _alone(language: str, match: re.Match[str]) -> Value | Found | None:
    number = parse_roman(match[1])
    if not number or is_shouted(match):
        return None
    return close(Roman(number), match, language, digits_follow=False)


_ENDING = r"(?:ère|ième|ème|eme|nde|nd|er|re|e|è)"


@recognizer("century", rf"(?<!\w)([IVXLC]+)({_ENDING})(s?)(?!\w)", languages=("fr",), weight=1.3)
def _french_roman_ordinal(match: re.Match[str]) -> Value | None:
    number = parse_roman(match[1])
    # Le and Ce are words; so are Ver, Vers and Inde, whose endings belong to one and two alone.
    if not number or match[1] in ("L", "C"):
        return None
    if number != {"er": 1, "re": 1, "ère": 1, "nd": 2, "nde": 2}.get(match[2], number):
        return None
    if match[0] == "Ire" and word_before(match) not in ({"la"} | TABLES["fr"].KINGS):
        return None
    return Ordinal(number, "f" if match[2] in ("re", "ère") else "m")


@recognizer(
    "century",
    rf"(?<!\w)([IVX]+)({_ENDING})(?:(\s?[-\u2013]\s?|\s(?:et|ou|au|à)\s(?:le\s)?)([IVX]+){_ENDING})?"
    r"\s(?:s\.|siècles?)",
    languages=("fr",), weight=1.5,
)  # fmt: skip
def _french_century(match: re.Match[str]) -> Value | Found | None:
    first, last = parse_roman(match[1]), parse_roman(match[4] or "I")
    if not first or not last:
        return None
    if not match[4]:
        many = "s" if match[0].endswith("s") else ""
        return _close_century(Phrase((Ordinal(first, "m"), f"siècle{many}")), match)
    link = match[3].strip()
    noun = "siècle" if link in ("au", "à", "et le", "ou le") else "siècles"
    if not link[0].isalpha():
        link = "et" if last == first + 1 else "au"
    return _close_century(Phrase((Ordinal(first, "m"), link, Ordinal(last, "m"), noun)), match)


def _close_century(value: Value, match: re.Match[str]) -> Found:
    """At the start of a sentence more follows: Au XVIIIe s. Paris grandit."""
    if re.fullmatch(
        r"\W*(?:Aux?|Dès le|À la fin du|Au début du|Du|Vers le) ", match.string[: match.start()]
    ):
        return Found(value, "abbreviation" if match[0].endswith(".") else "none")
    return close(value, match, "fr")


@recognizer("century", r"(?<!\w)(s\.|siècle)\s([IVX]+)(?!\w)", languages=("fr",), needs="IVX")
def _french_century_after(match: re.Match[str]) -> Value | None:
    number = parse_roman(match[2])
    return Phrase(("siècle", Roman(number))) if number else None


@recognizer(
    "century",
    r"(?<!\w)([Ss]iglos?|s\.|ss\.)\s?([IVXLC]+)(?:(\s*[-\u2013]\s*|\s(?:y|al?|o)\s)([IVXLC]+))?(?!\w)(?:\.(?!\.))?",
    languages=("es",), needs="IVXLC", weight=1.5,
)  # fmt: skip
def _spanish_century(match: re.Match[str]) -> Value | Found | None:
    first, last = parse_roman(match[2]), parse_roman(match[4] or "I")
    if not first or not last:
        return None
    head = {"s.": "siglo", "ss.": "siglos"}.get(match[1], match[1])
    numbers = [Ordinal(one) if one <= 10 else Roman(one) for one in (first, last)]
    if not match[4]:
        return close(Phrase((head, numbers[0])), match, "es", digits_follow=False)
    link = match[3].strip() if match[3].strip().isalpha() else "a"
    return close(Phrase((head, numbers[0], link, numbers[1])), match, "es", digits_follow=False)


RECOGNIZERS = (
    *_count, *_shortened, *_glued, *_model, *_rest, _one_in, _elided, *_range, *_ratio, *_release,
    *_version, _day_letter, _spanish_ordinal, _french_ordinal, *_fraction, *_and_half, *_divided,
    _round, _noun_and_half, _half_of, *_counted, *_ruler, _event, *_alone, _french_roman_ordinal,
    _french_century, _french_century_after, _spanish_century,
)  # fmt: skip
