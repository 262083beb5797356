"""Roman numerals: ordinals after the names of kings and popes, numbers after chapters and wars."""

from __future__ import annotations

import re

from anyrig.text.recognizers import Found, recognizer
from anyrig.text.recognizers.common import LazyPattern, after, before
from anyrig.text.values import Phrase, Range, Roman, Value

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_CANONICAL = LazyPattern(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
RULER_NAMES = frozenset(
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
_PARTS = frozenset(
    (
        "chapter chapters part parts book books volume volumes vol act acts scene scenes section "
        "sections article articles appendix phase type class level grade stage figure table title "
        "canto psalm sonnet symphony division schedule episode unit lesson season round group tier "
        "category war bowl mark amendment column exhibit annex step factor category number no page "
        "sec ch fig vols chap corps schedule zone region quarter olympiad games opus trial verse "
        "stanza movement sonata concerto fantasy quest fighter auto impact effect duty cry evil "
        "craft "
        "creed gear hearts kombat souls scrolls rocky rambo jaws apollo saturn gemini titan diablo "
        "civilization windows model diabetes mk variant plan option item paragraph "
        "clause rule law theorem lemma axiom items steps phases types classes levels stages "
        "figures tables titles clauses paragraphs rules options schedules exhibits categories art"
    ).split()
)
_NOUN = LazyPattern(r"([A-Za-z]+)(?: [Nn]o\.)?\.?[ -]$")
# "Elizabeth I think so": after a name, with a verb that a king's number never has behind it.
_PRONOUN = LazyPattern(r"(?:'|’| (?:am|think|know|love|need|want|hope|believe|guess|mean|see|don't|"
                      r"can|could|can't|would|will|won't|have|haven't|must|should|do|feel|saw|met|"
                      r"like|never|always|knew|thought|loved|hate|wonder|went|told|said|"
                      r"asked)\b)")  # fmt: skip
_VERB = LazyPattern(r" (?!of\b|and\b|to\b|in\b|was\b|is\b)[a-z]")  # No. I compare it with ...
_NOT_NUMBERS = frozenset(
    "MIX CD DIM MILD CIVIL LIVID VIVID MID DID LID DILL MILL ILL VIM MM CC DC MC MD MI DI CI LI "
    "XL XXL XX XXX CV IV DM CM MCI DVD VI DX MV MDI LCD LDL CDC CMC DI LCM CID MIDI VID DMI XI L "
    "C D M I V X LL MMC CIV LIV CL ML DL CCM MMI MIC".split()
)  # fmt: skip


def roman_value(text: str) -> int:
    """What a Roman numeral says; zero for what is none."""
    numeral = text.upper()
    if not numeral or not _CANONICAL.fullmatch(numeral):
        return 0
    worths = [_VALUES[letter] for letter in numeral]
    following = [*worths[1:], 0]
    return sum(-one if one < next_ else one for one, next_ in zip(worths, following, strict=True))


def _is_numbered_noun(noun: str) -> bool:
    return noun.lower() in _PARTS or noun.lower().removesuffix("s") in _PARTS


@recognizer(
    "roman",
    r"(?<=[ -])([IVXLCDM]+|[ivxl]+)((?:(?:, and | and |, or | or |, | & | to | ?[-–—] ?)"
    r"(?:[IVXLC]+|[ivxlc]+)(?![\w']))*)(?![\w&]|'[a-z]{2}|-\w|\.\w)",
    needs="IVXLivxl",
)
def _part(match: re.Match[str]) -> Found | None:
    """After a noun, in a row too: `Acts I, II, and V`."""
    numeral, more = match.groups()
    preceding = _NOUN.search(before(match, 24))
    noun = preceding[1] if preceding else ""
    number = roman_value(numeral)
    if (
        not number
        or not _is_numbered_noun(noun)
        or (len(numeral) == 1 and not more and not noun[0].isupper())
    ):
        return None
    if len(numeral) == 1 and noun == "Model":
        return None  # a car
    rest = match.string[match.end(1) : match.end(1) + 16]
    if numeral in ("i", "I") and not more and (
        _PRONOUN.match(rest) or (noun.lower() == "no" and _VERB.match(rest))
    ):  # fmt: skip
        return None
    if (len(numeral) == 1 and numeral in "LCDMlc") or numeral in ("mix", "dim", "mild", "civil"):
        return None
    parts: list[Value | str] = [Roman(number)]
    end = match.end(1)
    for link, one in re.findall(
        r"(, and |, or | and | or |, | & | to | ?[-–—] ?)([IVXLCivxlc]+)", more
    ):
        worth = roman_value(one)
        if not worth or (one == "I" and link == ", "):
            break
        word = link.strip(" ,") or ","
        if word in "-–—":
            last = parts.pop()
            assert not isinstance(last, str)
            parts.append(Range(last, Roman(worth)))
        else:
            parts += ["and" if word == "&" else word, Roman(worth)]
        end += len(link) + len(one)
    return Found(Phrase(tuple(parts)), end=end, weight=2.5)


@recognizer("roman", r"(?<![\w.])(pp?)\. ?([ivxlc]+)(?![\w'])", needs="ivxlc", weight=2)
def _page(match: re.Match[str]) -> Value | None:
    number = roman_value(match[2])
    return Phrase(("page" if match[1] == "p" else "pages", Roman(number))) if number else None


@recognizer(
    "roman",
    r"\b((?:[A-Z][\w'é-]+\.? )*?)([A-Z][\w'é-]+)(,?) ([IVX]+)(?![\w&]|-[A-Za-z]|\.\w)",
    needs="IVX",
    weight=1.3,
)
def _name(match: re.Match[str]) -> Found | None:
    lead, name, comma, numeral = match.groups()
    number = roman_value(numeral)
    rest = after(match, 16)
    if (
        not number
        or f"{name} {numeral}" == "Malcolm X"
        or name in ("Chapter", "Model", "Generation", "Gen")
    ):
        return None
    # Who is spoken to stands before a comma: "Sir Walter, I found her".
    if numeral == "I" and (_PRONOUN.match(rest) or comma):
        return None
    words = [*lead.replace(".", "").split(), name]
    known = name in RULER_NAMES or (words[-2:-1] and words[-2] in _RULERS)
    if len(numeral) == 1 and not known:
        return None
    family = len(words) > 1 and any(word in RULER_NAMES for word in words)
    if numeral in ("IV", "VI", "XX", "XI") and not (known or family):
        return None
    if not (known or family) and numeral in _NOT_NUMBERS:
        return None
    ordinal = bool(known or family)
    return Found(Roman(number, ordinal, ordinal), start=match.start(4), weight=2.5)


@recognizer(
    "roman",
    r"(?<![\w.&-])([IVXL]{2,})(?=(?:th)? (century|centuries|Century|Olympi))",
    needs="IVXL",
    weight=2,
)
def _century(match: re.Match[str]) -> Value | None:
    number = roman_value(match[1])
    return Roman(number, ordinal=True) if number else None


@recognizer("roman", r"(?<![\w.&-])([IVX]{2,6}|[VX])(?:st|nd|rd|th)(?!\w)", needs="IVX", weight=1.6)
def _suffixed(match: re.Match[str]) -> Value | None:
    """An ending makes it an ordinal by itself: the XIVth."""
    number = roman_value(match[1])
    return Roman(number, ordinal=True) if number else None


@recognizer(
    "roman",
    r"(?<![\w)]\()(?<=\()([ivx]{2,5}|[iv])(?=\))|(?<= )([ivx]{1,5})(?=\) [a-z])|"
    r"(?<![\w.&'-])([ivx]{2,5})(?=\.? )(?=\.)|"
    r"(?<![\w.&'-])([IVXLCDM]{2,})(?![\w&]|-\w|'[a-z]|\.\w)",
    needs="IVXLCDMivx",
    weight=1.1,
)
def _bare(match: re.Match[str]) -> Value | Found | None:
    numeral = next(group for group in match.groups() if group)
    number = roman_value(numeral)
    if not number:
        return None
    if numeral in _NOT_NUMBERS and not _in_list(match, numeral):
        return None
    return Found(Roman(number), weight=1.6)


def _in_list(match: re.Match[str], numeral: str) -> bool:
    """Whether other numerals stand beside it: `II, IV and VI`."""
    if numeral not in ("IV", "VI", "XI", "XX", "XL", "XXX"):
        return False
    lead = re.search(r"\b([IVX]+)(?:,? and |, | or |[-–—])$", before(match, 12))
    rest = re.match(r"(?:,? and |, | or |[-–—])([IVX]+)\b", after(match, 12))
    return any(found is not None and roman_value(found[1]) > 0 for found in (lead, rest))


@recognizer(
    "roman",
    r"^\s*\(?([IVX]{1,5}|[ivx]{1,5})[.)](?= [A-Z])|(?<=\n)([IVX]{1,5})[.)](?= [A-Z])",
    needs="IVXivx",
    weight=1.2,
)
def _item(match: re.Match[str]) -> Found | None:
    """The number of a list's item: `IV. The garden`."""
    numeral = match[1] or match[2]
    number = roman_value(numeral)
    group = 1 if match[1] else 2
    if not number or (numeral == "I" and re.match(r" (?:[A-Z][a-z]* ?){1}$", after(match, 4))):
        return None
    return Found(Roman(number), start=match.start(group), end=match.end(group))


RECOGNIZERS = (_part, _page, _name, _century, _suffixed, _bare, _item)
