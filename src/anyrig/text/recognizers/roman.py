"""Roman numerals: ordinals after the names of kings and popes, numbers after chapters and wars."""

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
from anyrig.text.recognizers.common import (
    DOT,
    after,
    before,
    close,
    is_shouted,
    one_of,
    word_after,
    word_before,
)
from anyrig.text.recognizers.languages import TABLES, english, spanish
from anyrig.text.recognizers.languages.shared import CAPITAL, SMALL
from anyrig.text.recognizers.stops import begins_sentence, look_behind, stop_after
from anyrig.text.roman_numerals import roman_value

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
        "sec sc ch fig vols chap corps zone region quarter olympiad games opus trial verse "
        "stanza movement sonata concerto fantasy quest fighter auto impact effect duty cry evil "
        "craft "
        "creed gear hearts kombat souls scrolls rocky rambo jaws apollo saturn gemini titan diablo "
        "civilization windows model diabetes mk variant plan option item paragraph "
        "map plate folio sheet leaf legion nerve sura apparatus exercise problem proposition "
        "clause rule law theorem lemma axiom items steps phases types classes levels stages "
        "figures tables titles clauses paragraphs rules options schedules exhibits categories art"
    ).split()
)
_NOUN = LazyPattern(r"([A-Za-z]+(?:\.(?= ))?)(?: [Nn]o\.)?[ -]$")
# "Elizabeth I think so": after a name, with a verb that a king's number never has behind it.
_PRONOUN = LazyPattern(r"(?:'|’| (?:am|think|know|love|need|want|hope|believe|guess|mean|see|don't|"
                      r"can|could|can't|would|will|won't|have|haven't|must|should|do|feel|saw|met|"
                      r"like|never|always|knew|thought|loved|hate|wonder|went|told|said|"
                      r"asked)\b)")  # fmt: skip
_OWNS = LazyPattern(r"['’]s [a-z]")
_VERB = LazyPattern(r" (?!of\b|and\b|to\b|in\b|was\b|is\b)[a-z]")  # No. I compare it with ...
_NOT_NUMBERS = frozenset(
    "MIX CD DIM MILD CIVIL LIVID VIVID MID DID LID DILL MILL ILL VIM MM CC DC MC MD MI DI CI LI "
    "XL XXL XX XXX CV IV DM CM MCI DVD VI DX MV MDI LCD LDL CDC CMC DI LCM CID MIDI VID DMI XI L "
    "C D M I V X LL MMC CIV LIV CL ML DL CCM MMI MIC".split()
)  # fmt: skip


def _is_numbered_noun(noun: str) -> bool:
    if noun.endswith("."):
        return noun[:-1] in english.NUMBERED or _is_numbered_noun(noun[:-1])
    return noun.lower() in _PARTS or noun.lower().removesuffix("s") in _PARTS


_TYPED = LazyPattern(
    r" (?:errors?|trials?|stud(?:y|ies)|diabetes|collagen|cells?|patients?|interferon|"
    r"fib(?:er|re)s?|muscles?|reactions?|fractures?|tumou?rs?|cancers?|disease|disorder|supernovae?|codes?|"
    r"restriction|devices?|water|antiarrhythmic|areas?|lesions?|hypersensitivity|evidence|schools?)\b"
)
"""What is of a class with a number: a type I error, phase I trials."""


def _is_small_part(match: re.Match[str], noun: str, numeral: str) -> bool:
    """Whether one capital behind a small noun is a number: cranial nerve X, a type I error."""
    if noun in ("nerve", "factor", "legion"):
        return numeral in "IVX"
    return numeral in "IV" and bool(_TYPED.match(match.string, match.end(1)))


@recognizer(
    "roman",
    r"(?<=[ -])([IVXLCDM]+|[ivxl]+)((?:(?:, and | and |, or | or |, | & | to | ?[-–—] ?)"
    r"(?:[IVXLC]+|[ivxlc]+)(?![\w']))*)(?![\w&]|'[a-z]{2}|-\w|\.\w)",
    needs="IVXLivxl",
)
def propose_part(match: re.Match[str]) -> Proposal | None:
    """After a noun, in a row too: `Acts I, II, and V`."""
    numeral, more = match.groups()
    preceding = _NOUN.search(before(match, 24))
    noun = preceding[1] if preceding else ""
    number = roman_value(numeral)
    # In vol. I. I saw it.
    marked = noun.endswith(".") and noun != "no." and re.match(r"[.,;:)]|$", after(match, 1))
    if (
        not number
        or not _is_numbered_noun(noun)
        or (
            len(numeral) == 1
            and not (more or noun[0].isupper() or marked)
            and not _is_small_part(match, noun, numeral)
        )
    ):
        return None
    if len(numeral) == 1 and noun == "Model":
        return None  # a car
    rest = match.string[match.end(1) : match.end(1) + 16]
    if numeral in ("i", "I") and not more and (
        _PRONOUN.match(rest) or (noun.lower() in ("no", "no.") and _VERB.match(rest))
    ):  # fmt: skip
        return None
    if (len(numeral) == 1 and numeral in "LCDMlc") or numeral in ("mix", "dim", "mild", "civil"):
        return None
    parts: list[v.Value | str] = [v.Roman(number)]
    end = match.end(1)
    for link, one in re.findall(
        r"(, and |, or | and | or |, | & | to | ?[-–—] ?)([IVXLCivxlc]+)", more
    ):
        worth = roman_value(one)
        cut_short = match.string.startswith(".", end + len(link) + 1)
        if not worth or (one == "I" and link == ", ") or (one in "lc" and cut_short):
            break
        word = link.strip(" ,") or ","
        if word in "-–—":
            last = parts.pop()
            assert not isinstance(last, str)
            parts.append(v.Range(last, v.Roman(worth)))
        else:
            parts += ["and" if word == "&" else word, v.Roman(worth)]
        end += len(link) + len(one)
    return Proposal(v.Phrase(tuple(parts)), end=end, weight=2.5)


@recognizer(
    "roman",
    r"(?<=[a-z] )([IVX]{1,4})([a-dA-D])(?![\w'-])",
    needs="IVX",
    weight=1.8,
    at="capital",
)
def propose_lettered_part(match: re.Match[str]) -> v.Value | None:
    """`stage IIIb`, `type IIA`."""
    preceding = _NOUN.search(before(match, 24))
    number = roman_value(match[1])
    if not number or preceding is None or not _is_numbered_noun(preceding[1]):
        return None
    return v.Phrase((v.Roman(number), v.Letters(match[2].upper())))


@recognizer(
    "roman",
    r"(?<![\w.])([Pp]p?)\. ?([ivxlc]+)(?: ?[-–—] ?([ivxlc]+))?(?![\w'])",
    needs="ivxlc",
    weight=2,
)
def propose_page(match: re.Match[str]) -> v.Value | None:
    number = roman_value(match[2])
    if not number:
        return None
    first: v.Value = v.Roman(number)
    if match[3] and (last := roman_value(match[3])):
        first = v.Range(first, v.Roman(last))
    words = "pages" if len(match[1]) > 1 else "page"
    return v.Phrase((words.capitalize() if match[1][0] == "P" else words, first))


@recognizer(
    "roman",
    r"\b((?:[A-Z][\w'é-]+\.? )*?)([A-Z][\w'é-]+)(,?) ([IVX]+)(?![\w&]|-[A-Za-z]|\.\w)",
    needs="IVX",
    weight=1.3,
    at="capital",
)
def propose_name(match: re.Match[str]) -> Proposal | None:
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
    if numeral == "I" and ((_PRONOUN.match(rest) and not _OWNS.match(rest)) or comma):
        return None
    if len(numeral) == 1 and _INITIAL.match(match.string, match.end()):
        titled = _HONORIFIC.search(before(match, 11) + lead) or _DEGREE.match(
            match.string, match.end()
        )
        if titled:
            return None
    words = [*lead.replace(".", "").split(), name]
    known = name in english.KINGS or (words[-2:-1] and words[-2] in _RULERS)
    if len(numeral) == 1 and not known:
        return None
    family = len(words) > 1 and any(word in english.KINGS for word in words)
    if numeral in ("IV", "VI", "XX", "XI") and not (known or family):
        return None
    if not (known or family) and numeral in _NOT_NUMBERS:
        return None
    ordinal = bool(known or family)
    return Proposal(v.Roman(number, ordinal, ordinal), start=match.start(4), weight=2.5)


_INITIAL = LazyPattern(r"\. [A-Z][a-z]+")
_HONORIFIC = LazyPattern(r"(?:^|\b)(?:Mrs?|Ms|Dr|Prof|Rev|Hon|Sen|Rep|Gov|Judge|Professor)\.? ")
_DEGREE = LazyPattern(
    r"\. [A-Z][\w'-]+,? (?:Jr\.|Sr\.|Esq\.|M\.?D\b|Ph\.?D\b|R\.?N\b|D\.?D\b|CPA\b|J\.?D\b|MBE\b)"
)
"""Around the initial of a person, who is no king: Elizabeth I. Smith, M.D."""


@recognizer(
    "roman",
    r"(?<![\w.&-])(?:([IVX]{2,6}|[VX])(?:st|nd|rd|th)(?!\w)|"
    r"([IVXL]{2,})(?=(?:th)? (?:century|centuries|Century|Olympi|c\.)))",
    needs="IVXL",
    weight=2,
    at="capital",
)
def propose_century(match: re.Match[str]) -> v.Value | None:
    """Before a century, and where an ending makes it an ordinal by itself: the XIVth."""
    number = roman_value(match[1] or match[2])
    return v.Roman(number, ordinal=True) if number else None


@recognizer(
    "roman",
    r"(?<![\w.&'-])([IVXLCDM]{2,})(?![\w&]|-\w|'[a-z]|\.\w)",
    needs="IVXLCDM",
    weight=1.6,
    at="capital",
)
def propose_numeral_alone(match: re.Match[str]) -> v.Value | None:
    number = roman_value(match[1])
    if not number or (match[1] in _NOT_NUMBERS and not _in_list(match, match[1])):
        return None
    return v.Roman(number)


_SMALL_NUMERALS = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx".split()


@recognizer(
    "roman",
    r"(?<![\w)]\()(?<=\()([ivx]{2,5}|[iv])(?=\))|(?<= )([ivx]{1,5})(?=\) [^\W\d_])|"
    r"(?<![\w.&'-])([ivx]{2,5})(?=\.? )(?=\.)",
    languages=RECOGNIZED_LANGUAGES,
    needs=_SMALL_NUMERALS,
    at="needs",
    weight=1.6,
)
def propose_numeral_in_list(match: re.Match[str]) -> v.Value | None:
    """In a list within a sentence: `i) stir, ii) heat`."""
    number = roman_value(match[1] or match[2] or match[3])
    return v.Roman(number) if number else None


def _in_list(match: re.Match[str], numeral: str) -> bool:
    """Whether other numerals stand beside it: `II, IV and VI`."""
    if numeral not in ("IV", "VI", "XI", "XX", "XL", "XXX"):
        return False
    lead = re.search(r"\b([IVX]+)(?:,? and |, | or |[-–—])$", before(match, 12))
    rest = re.match(r"(?:,? and |, | or |[-–—])([IVX]+)\b", after(match, 12))
    return any(found is not None and roman_value(found[1]) > 0 for found in (lead, rest))


@recognizer(
    "roman",
    rf"(?:[IVX]{{1,5}}|[ivx]{{1,5}})(?=[.)] [¿¡«\"'(]?[{CAPITAL}])",
    languages=RECOGNIZED_LANGUAGES,
    needs=(*_SMALL_NUMERALS, *map(str.upper, _SMALL_NUMERALS)),
    at="needs",
    weight=1.2,
)
def propose_item(match: re.Match[str]) -> Proposal | None:
    """The number of a list's item: `IV. The garden`."""
    number = roman_value(match[0])
    if not number or match.string[: match.start()].strip(" ("):
        return None
    listed = _ITEM_TEXT.match(match.string, match.end())
    if match[0] == "I" and not listed:
        return None
    return Proposal(v.Roman(number), weight=4 if listed else None)


_ITEM_TEXT = LazyPattern(
    r"[.)] (?:[¿¡«]?[A-ZÀ-Ý][^\W\d_]+ (?:the|an?|your|all|this|these|out|to|of|and|in|on|el|la|los|"
    r"las|un|una|de|y|les?|des?|du|et|à)\b|(?:Introduc|Background|Overview|Summary|Method|Scope|"
    r"Purpose|Defini|General|Généralit|Antecedentes|Objet)\w*)"
)
"""What the first item of a list says, and no name does: `I. Open the box`."""


# Spanish and French


ROMAN = r"[IVXLCDM]+"
_NO_NUMERAL = ("C", "D", "M", "L", "CD", "DC", "MD", "CV", "CM", "MM", "XL", "DVD", "LCD")
_SHORT_COUNTED = {
    "es": ("cap.", "caps.", "t.", "vol.", "fig.", "art.", "núm.", "n.º"),
    "fr": ("chap.", "ch.", "t.", "vol.", "fig.", "art.", "n°"),
}


def _counted_pattern(language: str) -> str:
    heads = [*TABLES[language].COUNTED, *_SHORT_COUNTED[language]]
    link = r"(?:\s?[-\u2013]\s?|,? (?:y|e|o|a|al|et|à|ou) |, )"
    return rf"(?<!\w)((?i:{one_of(heads)})s?) ({ROMAN}(?:{link}{ROMAN})*)(?!\w){DOT}"


def _counted_heads(language: str) -> list[str]:
    heads = [*TABLES[language].COUNTED, *_SHORT_COUNTED[language]]
    return [*heads, *(f"{head}s" for head in heads)]


@per_language("roman", _counted_pattern, needs=_counted_heads, at="needs", weight=1.2)
def propose_romance_part(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """Capítulo IV, actes I, II et V."""
    head, numerals = match[1], match[2]
    if numerals in ("L", "C", "D", "M"):
        return None
    words = TABLES[language].NUMBERED.get(head.lower(), head)
    parts: list[v.Value | str] = [words[0].upper() + words[1:] if head[0].isupper() else words]
    for piece in re.findall(rf"{ROMAN}|[^\W\d_]+|[-\u2013,]", numerals):
        if piece in "-\u2013":
            parts.append(TABLES[language].TO)
        elif piece[0].isupper():
            if not (number := roman_value(piece)):
                return None
            parts.append(v.Roman(number))
        else:
            parts.append(piece)
    value = v.Phrase(tuple(parts))
    if not match[0].endswith("."):
        return value
    return Proposal(value, stop_after(match.string, match.end(), language, digits_follow=False))


_SMALL_COUNTED = {
    "es": "página páginas pág. págs. pp. p. capítulo cap. escena esc. acto libro tomo nota".split(),
    "fr": "page pages pp. p. chapitre chap. scène sc. acte livre tome planche pl. note".split(),
}


@per_language(
    "roman",
    lambda language: (
        rf"(?<!\w)((?i:{one_of(_SMALL_COUNTED[language])})) ([ivxl]{{1,7}})"
        r"(?:\s?[-–]\s?([ivxl]{1,7}))?(?![\w'’])"
    ),
    needs=_SMALL_COUNTED.__getitem__,
    at="needs",
    weight=1.6,
)
def propose_small_part(language: str, match: re.Match[str]) -> v.Value | None:
    """`scène iv`, `págs. ix-xi`."""
    head, numeral, until = match.groups()
    number, last = roman_value(numeral), roman_value(until or "i")
    if not number or not last or numeral == "l" or (len(numeral) == 1 and head == "note"):
        return None
    words = TABLES[language].NUMBERED.get(head.lower(), head)
    if until and words == "page":
        words = "pages"
    words = words[0].upper() + words[1:] if head[0].isupper() else words
    more = (TABLES[language].TO, v.Roman(last)) if until else ()
    return v.Phrase((words, v.Roman(number), *more))


@per_language(
    "roman",
    rf"(?<!\w)([{CAPITAL}][{SMALL}]+)(\s+)({ROMAN})(?!\w)(?!\.\s?[{CAPITAL}]\.){DOT}",
    needs="IVXLCDM",
    at="capital",
)
def propose_ruler(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    name, number = match[1].lower(), roman_value(match[3])
    table = TABLES[language]
    king = name in table.KINGS
    if not number or match[3] in _NO_NUMERAL or (not king and (len(match[3]) < 2 or number > 30)):
        return None
    if not king and (name in table.COUNTED or name in table.STARTERS):
        return None
    value: v.Value = v.Roman(number)
    if king:
        value = v.Ordinal(number, "f" if name in table.QUEENS else "") if number <= 10 else value
        if language == "fr":
            value = v.Abbreviation("premier") if match[3] == "I" else v.Roman(number)
    stop = close(value, match, language, digits_follow=False).stop
    return Proposal(value, stop, start=match.start(3), weight=8 if king else 3)


@recognizer(
    "roman",
    rf"(?<![\w'])({ROMAN})(?:\.?[ºª])?(?=\s+[{CAPITAL}{SMALL}])",
    languages=("es",), needs="IVXLCDM", weight=1.5, at="capital",
)  # fmt: skip
def propose_event(match: re.Match[str]) -> v.Value | None:
    """Before what is counted: la II Guerra Mundial, el XIV Congreso."""
    number, noun = roman_value(match[1]), word_after(match)
    marked = match[0][-1] in "ºª"
    if not number or match[1] in ("C", "D", "L", "M"):
        return None
    if not (marked or spanish.EVENTS.match(noun.lower())):
        return None
    feminine = match[0][-1] == "ª" or (
        match[0][-1] != "º" and spanish.find_gender(noun) == "f"
    )  # fmt: skip
    return v.Ordinal(number, "f" if feminine else "m")


@recognizer(
    "century",
    r"(?<!\w)([IVX]{1,4})(?= [ad]\. ?(?:de )?(?:C|J)\.)",
    languages=("es",),
    needs="IVX",
    at="capital",
    weight=3,
)
def propose_century_of_era(match: re.Match[str]) -> v.Value | None:
    """Del s. I a. C. al II d. C."""
    number = roman_value(match[1])
    if not number:
        return None
    return v.Ordinal(number) if number <= 10 else v.Roman(number)


_ALONE = (
    r"(?<![\w.])(X{1,3}(?:IX|IV|V?I{1,3})|X{2,3}V?|XI{1,3}|XIV|XVI{0,3}|VI{1,3}|I{2,3}|IV|IX|XX|"
    rf"M[CDMLXVI]{{3,}})(?![\w.]\w|\w){DOT}"
)


@per_language("roman", _ALONE, needs="IVXLCDM", weight=0.8, at="capital")
def propose_romance_numeral(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    number = roman_value(match[1])
    if not number or is_shouted(match):
        return None
    return close(v.Roman(number), match, language, digits_follow=False)


_ENDING = r"(?:ère|ième|ème|eme|nde|nd|er|re|e|è)"


@recognizer(
    "century",
    rf"(?<!\w)([IVXLC]+)({_ENDING})(s?)(?!\w)",
    languages=("fr",),
    weight=1.3,
    at="capital",
)
def propose_french_roman_ordinal(match: re.Match[str]) -> v.Value | None:
    number = roman_value(match[1])
    # Le and Ce are words; so are Ver, Vers and Inde, whose endings belong to one and two alone.
    if not number or match[1] in ("L", "C"):
        return None
    if number != {"er": 1, "re": 1, "ère": 1, "nd": 2, "nde": 2}.get(match[2], number):
        return None
    if match[0] == "Ire" and word_before(match) not in ({"la"} | TABLES["fr"].KINGS):
        return None
    return v.Ordinal(number, "f" if match[2] in ("re", "ère") else "m")


@recognizer(
    "century",
    r"(?<!\w)([ivx]{1,6})e(?= (?:siècle|s\.|arr))",
    languages=("fr",),
    at="word",
    weight=1.5,
)
def propose_small_century(match: re.Match[str]) -> v.Value | None:
    """As printers set small capitals: au xive siècle."""
    number = roman_value(match[1])
    return v.Ordinal(number, "m") if number else None


@recognizer(
    "century",
    rf"(?<!\w)([IVX]+)({_ENDING})(?:(\s?[-\u2013]\s?|\s(?:et|ou|au|à)\s(?:le\s)?)([IVX]+){_ENDING})?"
    r"\s(?:s\.|siècles?)",
    languages=("fr",), weight=1.5, at="capital",
)  # fmt: skip
def propose_french_century(match: re.Match[str]) -> v.Value | Proposal | None:
    first, last = roman_value(match[1]), roman_value(match[4] or "I")
    if not first or not last:
        return None
    if not match[4]:
        many = "s" if match[0].endswith("s") else ""
        return _close_century(v.Phrase((v.Ordinal(first, "m"), f"siècle{many}")), match)
    link = match[3].strip()
    noun = "siècle" if link in ("au", "à", "et le", "ou le") else "siècles"
    if not link[0].isalpha():
        link = "et" if last == first + 1 else "au"
    return _close_century(
        v.Phrase((v.Ordinal(first, "m"), link, v.Ordinal(last, "m"), noun)), match
    )


def _close_century(value: v.Value, match: re.Match[str]) -> Proposal:
    """At the start of a sentence more follows: Au XVIIIe s. Paris grandit."""
    if re.fullmatch(
        r"\W*(?:Aux?|Dès le|À la fin du|Au début du|Du|Vers le) ", match.string[: match.start()]
    ) and not begins_sentence(look_behind(match.string, match.end()), "fr"):
        return Proposal(value, "abbreviation" if match[0].endswith(".") else "none")
    return close(value, match, "fr")


@recognizer(
    "century",
    r"(?<!\w)(s\.|siècle)\s([IVX]+)(?!\w)",
    languages=("fr",),
    needs=("s", "siècle"),
    at="needs",
)
def propose_french_century_after(match: re.Match[str]) -> v.Value | None:
    number = roman_value(match[2])
    return v.Phrase(("siècle", v.Roman(number))) if number else None


@recognizer(
    "century",
    r"(?<!\w)([Ss]iglos?|ss?\.|Ss?\.(?= ?[IVXLC]{2}))\s?([IVXLC]+)"
    r"(?:(\s*[-\u2013]\s*|\s(?:y|al?|o)\s)([IVXLC]+))?(?!\w)(?:\.(?!\.))?",
    languages=("es",), needs="siglo siglos Siglo Siglos s ss S Ss".split(), at="needs", weight=1.5,
)  # fmt: skip
def propose_spanish_century(match: re.Match[str]) -> v.Value | Proposal | None:
    first, last = roman_value(match[2]), roman_value(match[4] or "I")
    if not first or not last:
        return None
    several = match[4] and before(match, 4).lower() == "los "
    head = {"s.": "siglos" if several else "siglo", "ss.": "siglos"}.get(match[1].lower(), match[1])
    numbers = [v.Ordinal(one) if one <= 10 else v.Roman(one) for one in (first, last)]
    if not match[4]:
        return close(v.Phrase((head, numbers[0])), match, "es", digits_follow=False)
    link = match[3].strip() if match[3].strip().isalpha() else "a"
    return close(v.Phrase((head, numbers[0], link, numbers[1])), match, "es", digits_follow=False)
