"""Lines that begin a chapter: "CHAPTER I. Down the Rabbit-Hole", "Zweiter Teil", "IV", "Epilogue".

Only the line itself is judged here. Whether a numeral alone is a chapter, and whether a row of
such lines is a printed table of contents, is known only from the whole text (`divisions.py`).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from anyrig.text.roman_numerals import sum_letters

Sort = Literal[
    "volume", "book", "part", "chapter", "scene", "titled", "numeral", "named", "contents"
]
RANK: dict[Sort, int] = {
    "volume": 1, "book": 2, "part": 3, "chapter": 4, "titled": 5, "scene": 6, "numeral": 7,
}  # fmt: skip

# What each level is called, in the languages that books are most often in.
_WORDS: dict[Sort, str] = {
    "volume": "volume vol tome tomo band том volumen svazek deel tom",
    "book": "book livre libro livro buch boek книга bok bog księga kniha liber",
    "part": "part partie parte teil часть część část rész osa act acte acto atto akt aufzug ato"
    " bedrijf действие actus jornada del",
    "chapter": "chapter chapitre capítulo capitulo capitolo kapitel hoofdstuk глава rozdział"
    " kapitola kapittel luku fejezet bölüm κεφάλαιο capítol caput розділ poglavlje capitolul canto"
    " chant letter lettre carta lettera stave fytte",
    "scene": "scene scène escena scena szene cena scoena section sección sezione abschnitt раздел",
}
_SORTS = {word: sort for sort, words in _WORDS.items() for word in words.split()}
_NAMED = frozenset(
    "prologue epilogue prolog epilog prólogo epílogo prologo epilogo пролог эпилог proloog epiloog"
    " preface foreword introduction introductory afterword postscript interlude conclusion appendix"
    " dedication acknowledgements acknowledgments glossary bibliography footnotes endnotes préface"
    " avant-propos introducción conclusión apéndice prefacio prefazione introduzione vorwort"
    " einleitung nachwort anhang voorwoord inleiding nawoord предисловие послесловие введение"
    " заключение прологъ esipuhe forord förord efterord postface introdução prefácio posfácio"
    " transcriber's_note author's_note editor's_note translator's_note index notes".split()
)
_CONTENTS = frozenset(
    "contents|table of contents|table des matières|índice|contenido|indice|sommario|inhalt"
    "|inhaltsverzeichnis|inhoud|inhoudsopgave|содержание|оглавление|sumário|sommaire|spis treści"
    "|obsah|innehåll|indhold|sisällys|tartalom|目次|目录|目錄|the contents|contents.".split("|")
)
_ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_ONES += " sixteen seventeen eighteen nineteen twenty"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_ORDINALS += (
    " thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_OTHERS = (
    "premier deuxième troisième quatrième cinquième sixième septième huitième neuvième dixième",
    "première seconde",
    "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    "primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo",
    "primera segunda tercera cuarta quinta sexta séptima octava novena décima",
    "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince",
    "primo secondo terzo quarto quinto sesto settimo ottavo nono decimo",
    "prima seconda terza quarta quinta sesta settima ottava nona decima",
    "uno due tre quattro cinque sei sette otto nove dieci undici dodici",
    "primeiro segundo terceiro quarto quinto sexto sétimo oitavo nono décimo",
    "primeira segunda terceira quarta quinta sexta sétima oitava nona décima",
    "erster zweiter dritter vierter fünfter sechster siebter achter neunter zehnter",
    "erstes zweites drittes viertes fünftes sechstes siebtes achtes neuntes zehntes",
    "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn",
    "primus secundus tertius quartus quintus sextus septimus octavus nonus decimus",
    "prima secunda tertia quarta quinta sexta septima octava nona decima",
    "primum secundum tertium quartum quintum",
    "первая вторая третья четвёртая пятая шестая седьмая восьмая девятая десятая",
    "первый второй третий четвёртый пятый шестой седьмой восьмой девятый десятый",
    "eerste tweede derde vierde vijfde zesde zevende achtste negende tiende",
)


_FIRSTS = frozenset(_SORTS) | {
    word.partition(sign)[0] for sign, names in (("_", _NAMED), (" ", _CONTENTS)) for word in names
}


def _number_words() -> dict[str, int]:
    table: dict[str, int] = {}
    for row in (_ONES, _ORDINALS, *_OTHERS):
        for number, word in enumerate(row.split(), 1):
            table.setdefault(word, number)
    for tens, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2):
        table.setdefault(word, tens * 10)
        for one, name in enumerate(_ONES.split()[:9], 1):
            table[f"{word}-{name}"] = tens * 10 + one
        for one, name in enumerate(_ORDINALS.split()[:9], 1):
            table[f"{word}-{name}"] = tens * 10 + one
    table["last"] = table["the last"] = 999
    return table


NUMBER_WORDS = _number_words()
_CARDINALS = frozenset(
    word
    for row in (_ONES, *(row for row in _OTHERS if row.split()[0] in ("un", "uno", "eins")))
    for word in row.split()
)
_ENGLISH_ORDINALS = frozenset(_ORDINALS.split()) | {"last"}
_MOST_ROMAN = 400
"""In small letters, `di`, `mi` and `mix` are numerals of 501, 1001 and 1009, and words."""
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,4})(?:XC|XL|L?X{0,4})(?:IX|IV|V?I{0,4})", re.I)
_WORD_FIRST = re.compile(
    r"(?P<word>[^\W\d_]+)\.?\s+(?:(?:the|nr\.?|no\.?|n[o°º]\.?|n°|№)\s*)?(?P<num>[\w-]+)"
    r"(?P<sep>\s*[.:)\]—–-]+\s*|\s+|$)(?P<title>.*)",
    re.I,
)
_NUMBER_FIRST = re.compile(
    r"(?:the\s+)?(?P<num>[\w-]+)\.?\s+(?P<word>[^\W\d_]+)(?P<sep>\s*[.:—–-]+\s*|$)(?P<title>.*)",
    re.I,
)
_HAN = re.compile(
    r"第\s*(?P<num>[〇零一二三四五六七八九十百千两0-9０-９]{1,9})\s*(?P<word>[章回节節話话卷部篇集幕])"
    r"[\s:：.、]*(?P<title>.*)"
)
_HAN_SORTS: dict[str, Sort] = {"卷": "book", "部": "part", "篇": "part", "集": "part", "幕": "part"}
_HAN_DIGITS = {digit: value for value, digit in enumerate("〇一二三四五六七八九")}
_NUMERAL = re.compile(r"(?P<num>\d{1,3}|[IVXLC]{1,8}|[ivxlc]{1,8})(?:\s*[.)\]:—–-]+)?")
_TITLED = re.compile(r"(?P<num>\d{1,3}|[IVXLC]{1,8})(?P<sep>\s*[.):—–-]+\s+)(?P<title>\S.*)")
_INITIALS = re.compile(r"(?:[^\W\d_]\.\s*)+")
_DECORATION = " \t_*=~#|<>«»·•—–-"


class HeadingLabel(NamedTuple):
    """What a line calls itself."""

    sort: Sort
    number: int = 0
    title: str = ""
    """What follows the number."""
    roman: bool = False


def parse_label(line: str) -> HeadingLabel | None:
    """What a line calls itself, if it can be the first of a chapter."""
    bare = " ".join(line.split()).strip(_DECORATION)
    if not bare or len(bare) > 300 or (bare[0].islower() and len(bare) > 12):
        return None
    firsts = {word.strip(".:,—–-").lower().replace("’", "'") for word in bare.split(None, 3)[:3]}
    found = None
    if firsts & _FIRSTS or bare.lower() in _CONTENTS:
        found = _alone(bare) or _parse_worded(bare)
    return found or _han(bare) or _parse_numbered(bare)


def parse_number(word: str) -> int:
    """The value of a numeral, Roman or not, or of a number's name; 0 if it is none."""
    low = word.lower().strip(".")
    if low.isdecimal():
        return int(low) if len(low) <= 4 else 0
    if low in NUMBER_WORDS:
        return NUMBER_WORDS[low]
    if low and _ROMAN.fullmatch(low) and (word.isupper() or len(word) == 1 or word.islower()):
        value = sum_letters(low)
        return value if word.isupper() or len(word) == 1 or value <= _MOST_ROMAN else 0
    return 0


def _alone(bare: str) -> HeadingLabel | None:
    """A line that is a name and nothing more, or a name, a sign and a short title."""
    low = bare.lower().rstrip(".:").replace("’", "'")
    if low in _CONTENTS:
        return HeadingLabel("contents")
    name, _, title = (part.strip() for part in _partition(low))
    plain = bare[:1].isupper() or not bare[:1].islower()
    if plain and name.replace(" ", "_") in _NAMED and len(bare) <= 80:
        return HeadingLabel("named", 0, bare[len(name) :].lstrip(" .:—–-") if title else name)
    return None


def _partition(low: str) -> tuple[str, str, str]:
    found = re.search(r"\s*[.:—–]\s*|\s-\s", low)
    return (low[: found.start()], found[0], low[found.end() :]) if found else (low, "", "")


def _parse_worded(bare: str) -> HeadingLabel | None:
    for pattern in (_WORD_FIRST, _NUMBER_FIRST):
        found = pattern.fullmatch(bare)
        if not found or found["word"].lower() not in _SORTS:
            continue
        value = parse_number(found["num"])
        if pattern is _NUMBER_FIRST and found["num"].lower() in _CARDINALS:
            continue  # "One letter.", "Un livre."
        if value and _is_heading(bare, found):
            sort = _SORTS[found["word"].lower()]
            return HeadingLabel(sort, value, found["title"].strip())
    return None


def _is_heading(bare: str, found: re.Match[str]) -> bool:
    """A heading and not the first words of a sentence, such as "Part I was over"."""
    if not bare[:1].isupper():
        return False
    title = found["title"].strip()
    shouted = found["word"].isupper()
    if not title:
        sentence = bare.endswith(".") and not shouted and "the" not in bare.lower().split()
        is_order = sentence and found["num"].lower() in _ENGLISH_ORDINALS
        return not is_order or bare.lower().startswith(found["num"].lower())  # "Act first."
    first = re.sub(r"""^["'“”‘’«„(_*]+""", "", title)[:1]
    if not shouted and (first.islower() or len(bare) > 120):
        return False
    return not (first.islower() and not found["sep"].strip())


def _han(bare: str) -> HeadingLabel | None:
    found = _HAN.fullmatch(bare)
    if not found or len(bare) > 60:
        return None
    return HeadingLabel(
        _HAN_SORTS.get(found["word"], "chapter"), _han_number(found["num"]), found["title"]
    )


def _han_number(digits: str) -> int:
    if digits.isdecimal():
        return int(digits)
    total = section = 0
    for digit in digits.replace("零", "〇").replace("两", "二"):
        scale = {"十": 10, "百": 100, "千": 1000}.get(digit)
        if scale:
            total += (section or 1) * scale
            section = 0
        else:
            section = _HAN_DIGITS.get(digit, 0)
    return total + section


def _parse_numbered(bare: str) -> HeadingLabel | None:
    """A numeral alone, or with a title: only its neighbours show whether it counts chapters."""
    found = _NUMERAL.fullmatch(bare)
    if found and parse_number(found["num"]):
        return HeadingLabel(
            "numeral", parse_number(found["num"]), roman=not found["num"].isdecimal()
        )
    found = _TITLED.fullmatch(bare)
    if not found or len(bare) > 90 or not parse_number(found["num"]):
        return None
    title = found["title"]
    if _INITIALS.fullmatch(title):  # a signature: "I. N."
        return None
    if title[:1].islower() or title[-1] in ",;:" or (title[-1] == "." and not title.isupper()):
        return None
    return HeadingLabel(
        "titled", parse_number(found["num"]), title, roman=not found["num"].isdecimal()
    )
