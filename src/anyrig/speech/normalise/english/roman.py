"""Roman numerals: ordinals after the names of kings and popes, numbers after chapters and wars."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.words import cardinal, ordinal, year
from anyrig.speech.normalise.rules import Rule, rule

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_ROMAN = r"(?:M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))"
_CANONICAL = re.compile(_ROMAN)
_NAMES = frozenset(
    "Henry Louis Elizabeth Edward George James Charles William Richard Napoleon Paul Pius "
    "Benedict Leo Gregory Innocent Urban Clement Alexander Catherine Nicholas Peter Ivan "
    "Frederick Wilhelm Philip Ferdinand Ramses Rameses Ramesses Ptolemy Cleopatra Darius Xerxes "
    "Mary Anne Victoria Margaret Harald Olaf Olav Gustav Christian Haakon Carl Carlos Felipe "
    "Alfonso Joseph Rudolf Rudolph Franz Otto Theodosius Constantine Mehmed Selim Murad Suleiman "
    "Thutmose Amenhotep Seti Robert David Malcolm Baldwin Stephen Sixtus Julius Boniface "
    "Celestine Adrian Martin Eugene Callixtus Maximilian Leopold Albert Umberto Victor Emmanuel "
    "Juan Pedro Manuel Isabella Matthew John Thomas Kamehameha Artaxerxes Cyrus Antiochus "
    "Seleucus Attalus Justinian Basil Michael Charlemagne Lothair Conrad Ludwig Friedrich Karl "
    "Gustavus Sigismund Casimir Boris Feodor Vasily Yaroslav Rama Wenceslaus Samuel Walter Arthur "
    "Andrew Daniel Anthony Harry Frank Hamad Abdullah Hassan Mohammed Muhammad Beatrix Juliana "
    "Wilhelmina Frederik Margrethe Rainier Honoré Nebuchadnezzar Mithridates Pepin Thurston Sammy "
    "Theodore Oscar Ernest Cornelius Hugh Harold Edgar Edmund Ethelred Kenneth Donald Alan Ronald "
    "Patrick Jacob Wesley Tiberius Clovis Childeric Robin Davis Francis Lawrence Marcus".split()
)
_RULERS = frozenset(
    "King Queen Pope Emperor Empress Tsar Czar Tsarina Prince Duke Sultan Pharaoh Kaiser Antipope "
    "Earl Baron Shah Count Patriarch".split()
)
_PARTS = (
    "chapter chapters part parts book books volume volumes vol act acts scene scenes section "
    "sections article articles appendix phase type class level grade stage figure table title "
    "canto psalm sonnet symphony division schedule episode unit lesson season round group tier "
    "category war bowl mark amendment column exhibit annex step factor category number no page "
    "sec ch fig vols chap corps schedule zone region quarter olympiad games opus trial verse "
    "stanza movement sonata concerto fantasy quest fighter auto impact effect duty cry evil craft "
    "creed gear hearts kombat souls scrolls rocky rambo jaws apollo saturn gemini titan diablo "
    "civilization windows model diabetes mk variant plan option item paragraph "
    "clause rule law theorem lemma axiom".split()
)
# "Elizabeth I think so": after a name, with a verb that a king's number never has behind it.
_PRONOUN = re.compile(r"(?:'|’| (?:am|think|know|love|need|want|hope|believe|guess|mean|see|don't|"
                      r"can|could|can't|would|will|won't|have|haven't|must|should|do|feel|saw|met|"
                      r"like|never|always|knew|thought|loved|hate|wonder|went|told|said|"
                      r"asked)\b)")  # fmt: skip
_VERB = re.compile(r" (?!of\b|and\b|to\b|in\b|was\b|is\b)[a-z]")  # No. I compare it with ...
_NOT_NUMBERS = frozenset(
    "MIX CD DIM MILD CIVIL LIVID VIVID MID DID LID DILL MILL ILL VIM MM CC DC MC MD MI DI CI LI "
    "XL XXL XX XXX CV IV DM CM MCI DVD VI DX MV MDI LCD LDL CDC CMC DI LCM CID MIDI VID DMI XI L "
    "C D M I V X LL MMC CIV LIV CL ML DL CCM MMI MIC".split()
)  # fmt: skip


def value(text: str) -> int:
    """What a Roman numeral says; zero for what is none."""
    numeral = text.upper()
    if not numeral or not _CANONICAL.fullmatch(numeral):
        return 0
    worths = [_VALUES[letter] for letter in numeral]
    following = [*worths[1:], 0]
    return sum(
        -one if one < next_one else one for one, next_one in zip(worths, following, strict=True)
    )


@rule(
    "roman",
    rf"\b((?i:{'|'.join(sorted(set(_PARTS), key=len, reverse=True))})(?: [Nn]o\.)?\.?[ -])"
    r"([IVXLCDM]+|[ivxl]+)"
    r"(?:( ?[-–—] ?| and | to |, )([IVXLC]+|[ivxlc]+)(?![\w']))?(?![\w&]|'[a-z]{2}|-\w|"
    r"\.\w)",
    needs="IVXLivxl",
)
def _part(match: re.Match[str]) -> str | None:
    noun, numeral, link, last = match.groups()
    found = value(numeral)
    if not found or (len(numeral) == 1 and not noun[0].isupper()):
        return None
    rest = match.string[match.end(2) : match.end(2) + 16]
    if numeral in ("i", "I") and (_PRONOUN.match(rest) or noun == "No. " and _VERB.match(rest)):
        return None
    if len(numeral) == 1 and numeral in "LCDMlc" or numeral == "mix":
        return None
    said = _noun(noun) + cardinal(found)
    if link and last:
        if not value(last):
            return None
        joint = {"and": " and ", "to": " to ", ",": ", "}.get(link.strip(), " to ")
        said += joint + cardinal(value(last))
    return said


def _noun(text: str) -> str:
    full = {"vol": "volume", "ch": "chapter", "chap": "chapter", "fig": "figure", "sec": "section",
            "no": "number", "mk": "mark", "vols": "volumes"}  # fmt: skip
    bare = text.strip(" .-")
    word = full.get(bare.lower())
    if not word:
        return text.replace(".", "").replace("-", " ")
    return f"{word.capitalize() if bare[0].isupper() else word} "


@rule(
    "roman",
    r"\b((?:[A-Z][\w'é-]+\.? )*?)([A-Z][\w'é-]+),? ([IVX]+)(?![\w&]|-[A-Za-z]|\.\w)",
    needs="IVX",
)
def _name(match: re.Match[str]) -> str | None:
    before, name, numeral = match.groups()
    found = value(numeral)
    rest = match.string[match.end() : match.end() + 16]
    if not found or f"{name} {numeral}" == "Malcolm X":
        return None
    # Who is spoken to stands before a comma: "Sir Walter, I found her".
    if numeral == "I" and (_PRONOUN.match(rest) or match[0].endswith(", I")):
        return None
    words = [*before.replace(".", "").split(), name]
    known = name in _NAMES or words[-2:-1] and words[-2] in _RULERS
    if len(numeral) == 1 and not known:
        return None
    family = len(words) > 1 and any(word in _NAMES for word in words)
    if numeral in ("IV", "VI", "XX", "XI") and not (known or family):
        return None
    comma = "," if f"{name}, " in match[0] else ""
    how = f"the {ordinal(found).capitalize()}" if known or family else cardinal(found)
    return f"{match[0][: -len(numeral) - 1].rstrip(',')}{comma} {how}"


@rule(
    " roman",
    r"(?<![\w.&-])([IVXL]{2,})(?=(?:th)? (century|centuries|Century|Olympi))",
    needs="IVXL",
)
def _century(match: re.Match[str]) -> str | None:
    return ordinal(value(match[1])) if value(match[1]) else None


@rule("roman", r"(?<![\w.&-])([IVX]{2,6}|[VX])(?:st|nd|rd|th)(?!\w)", needs="IVX")
def _suffixed(match: re.Match[str]) -> str | None:
    """An ending makes it an ordinal by itself: the XIVth."""
    return ordinal(value(match[1])) if value(match[1]) else None


@rule(
    "roman",
    r"(?<![\w)]\()(?<=\()([ivx]{2,5}|[iv])(?=\))|(?<![\w.&'-])([ivx]{2,5})(?=\.? )(?=\.)|"
    r"(?<![\w.&'-])([IVXLCDM]{2,})(?![\w&]|-\w|'[a-z]|\.\w)",
    needs="IVXLCDMivx",
)
def _bare(match: re.Match[str]) -> str | None:
    numeral = match[1] or match[2] or match[3]
    found = value(numeral)
    if not found or numeral in _NOT_NUMBERS:
        return None
    return year(found) if 1500 <= found < 2100 else cardinal(found)


RULES: tuple[Rule, ...] = (_part, _name, _century, _suffixed, _bare)
