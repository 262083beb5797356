"""Acronyms, said as a word or spelled, initials, and names made of letters and digits.

What is in no list is spelled when it is short or has no vowel, and left alone otherwise.
"""

from __future__ import annotations

import re
from types import ModuleType

from anyrig.text import values as v
from anyrig.text.recognizers import (
    RECOGNIZED_LANGUAGES,
    LazyPattern,
    Proposal,
    Stop,
    per_language,
    recognizer,
)
from anyrig.text.recognizers.common import NAMED, after, before, close, is_shouted, one_of
from anyrig.text.recognizers.languages import TABLES, english
from anyrig.text.recognizers.languages.shared import CAPITAL, SMALL
from anyrig.text.recognizers.stops import (
    STOP_TABLES,
    Following,
    begins_sentence,
    look_behind,
    stop_after,
)

_IN_ADDRESS = frozenset(
    "ai api au bbc br cdn cfg ch cn cnn cpp css csv de dll docx eu exe faq flac fm fr ftp gg "
    "hr htm html http https ibm id ini io ip iso jp jpg js md mit mp nhs nl npr nyt pbs pc "
    "pdf php png ppt pptx pr py rb rss rtf ru se sh sql ssh svg ts tsv tv txt ucla uk uri url "
    "us usa vpn wav www xls xlsx xml yml".split()
)
_SHOUTED = LazyPattern(r"[A-Z']{2,}")
# How English words begin, where they begin with more than one consonant.
_ONSETS = (
    "[BCFGKPS]L|[BCDFGKPTW]R|[CGKPRSTW]H|[DST]W|S[CKMNPQT]|KN|PS|QU|TS|GN|S[CPT]R|SPL|[CPST]HR|SCH"
)
_DOUBTFUL = ("US", "IT", "ADD", "AM", "AD", "ID", "MA")
_NATIONS = frozenset("U.S. U.K. U.N. E.U. U.S.A. U.A.E. U.S.S.R. L.A. N.Y. D.C. N.Z. P.R.".split())


_THINGS = frozenset("ID TV CD DVD DNA RNA HIV IQ UFO GPA PC VIP IOU RSVP AC".split())
"""No name goes on with these."""


def is_word(acronym: str) -> bool:
    """Whether an acronym is said as a word: NASA."""
    return acronym in english.SPOKEN_ACRONYMS or (
        acronym not in english.SPELLED_ACRONYMS and len(acronym) > 3 and _is_sayable(acronym)
    )


def spells_in_address(word: str, *, after_dot: bool) -> bool:
    """Whether a part of a web address or a file's name is spelled."""
    lower = word.lower()
    if (lower in _IN_ADDRESS and (lower != "us" or after_dot)) or word in english.SPELLED_ACRONYMS:
        return True
    return 1 < len(word) < 6 and not re.search("[aeiouy]", lower)


def _is_shouted(match: re.Match[str]) -> bool:
    """Whether the words beside it are in capitals too, and are no acronyms."""
    lead = re.search(r"([A-Za-z']+)[^A-Za-z0-9]{1,3}$", before(match, 30))
    rest = re.match(r"[^A-Za-z0-9]{1,3}([A-Za-z']+)", after(match, 30))
    return any(found and _is_plain_word(found[1]) for found in (lead, rest))


def _is_plain_word(word: str) -> bool:
    if (
        not _SHOUTED.fullmatch(word)
        or word in english.SPELLED_ACRONYMS
        or word in english.SPOKEN_ACRONYMS
    ):
        return False
    return word in english.PLAIN_WORDS or (len(word) > 3 and _is_sayable(word))


def _is_sayable(word: str) -> bool:
    vowels = len(re.findall("[AEIOUY]", word))
    if not re.match(rf"(?:{_ONSETS}|[^AEIOUY]?)[AEIOUY]", word):
        return False
    return bool(vowels) and not re.search(r"[^AEIOUY]{5}|^[^AEIOUY]{4}|^([AEIU])\1", word)


def _is_spelled(word: str, match: re.Match[str]) -> bool:
    if word in english.SPOKEN_ACRONYMS:
        return False
    if word in english.SPELLED_ACRONYMS:
        return word not in _DOUBTFUL or not _is_shouted(match)
    if word in english.PLAIN_WORDS and len(word) > 1:
        named = before(match, 4).lower() == "the "
        acts = re.match(r" (?:says|said|report|recommend|declare|warn|met)", after(match, 10))
        return word == "WHO" and bool(named or acts)
    if len(word) <= 3:
        if before(match, 1) == "(" and after(match, 1) == ")":
            return True  # WASHINGTON (AP)
        return not (_is_shouted(match) and _is_sayable(word))
    return not _is_sayable(word)


def _spell_or_say(word: str) -> v.Value | str:
    return word if is_word(word) else v.Letters(word)


@recognizer(
    "acronym",
    rf"(?<![\w&])(?:{one_of(english.FULL_ACRONYMS)})(?![\w+])",
    weight=1.5,
    needs=english.FULL_ACRONYMS,
    at="needs",
)
def propose_known_acronym(match: re.Match[str]) -> v.Value:
    parts = []
    for part in re.split(r" (?=[A-Z] |[A-Z]$)|(?<=\b[A-Z]) ", english.FULL_ACRONYMS[match[0]]):
        parts.append(v.Letters(part[0], part[1:]) if re.fullmatch(r"[A-Z]s?", part) else part)
    joined: list[v.Value | str] = []
    for part in parts:
        if isinstance(part, v.Letters) and joined and isinstance(joined[-1], v.Letters):
            joined[-1] = v.Letters(joined[-1].letters + part.letters, part.suffix)
        else:
            joined.append(part)
    return v.Phrase(tuple(joined))


@recognizer(
    "acronym", r"(?<![\w&])([A-Z]{1,4}(?:&[A-Z]{1,3})+)(s|'s)?(?![\w&])", needs="&", weight=1.5
)
def propose_ampersand(match: re.Match[str]) -> v.Value:
    return v.Letters(match[1], match[2] or "")


@recognizer(
    "model",
    r"(?<![\w&])([A-Z]{2,6})-?(\d{1,4})(?:([-.])(\d{1,3}))?(s|'s)?(?![\w&]|-\d)",
    needs="0123456789",
    weight=1.1,
    at="capital",
)
def propose_acronym_and_digits(match: re.Match[str]) -> v.Value:
    word, digits, sign, more, tail = match.groups()
    parts: list[v.Value | str] = [_spell_or_say(word), v.Label(digits)]
    if more:
        parts += ["point", v.Label(more)] if sign == "." else [v.Label(more)]
    if tail:
        parts[-1] = v.Label(more or digits, tail)
    return v.Phrase(tuple(parts))


@recognizer(
    "model",
    r"(?<![\w&.])([A-Z])-(\d{1,4})([A-Z])?(s|'s)?(?![\w&]|-\d)",
    needs="-",
    weight=1.2,
    at="capital",
)
def propose_letter_and_digits(match: re.Match[str]) -> v.Value:
    parts: list[v.Value | str] = [
        v.Letters(match[1]),
        v.Label(match[2], "" if match[3] else match[4] or ""),
    ]
    if match[3]:
        parts.append(v.Letters(match[3], match[4] or ""))
    return v.Phrase(tuple(parts))


@recognizer(
    "model",
    r"(?<![\w&.,])(?=[A-Za-z0-9-]{0,12}\d)(?=[0-9-]{0,10}[A-Z])((?:[A-Z]{1,4}|"
    r"\d{1,4})(?:-?(?:[A-Z]{1,4}|\d{1,4}))+)"
    r"(s|'s|i)?(?![\w&]|-[A-Za-z0-9])",
    needs="0123456789",
    at="any",
)
def propose_model_code(match: re.Match[str]) -> v.Value:
    parts: list[v.Value | str] = [
        v.Label(part)
        if part.isdecimal()
        else part
        if part in english.SPOKEN_ACRONYMS
        else v.Letters(part)
        for part in re.findall(r"[A-Z]+|\d+", match[1])
    ]
    tail = match[2]
    if tail == "i":
        parts.append(v.Letters("i"))
    elif tail:
        last = parts[-1]
        if isinstance(last, v.Label):
            parts[-1] = v.Label(last.digits, tail)
        elif isinstance(last, v.Letters):
            parts[-1] = v.Letters(last.letters, tail)
    return v.Phrase(tuple(parts))


@recognizer(
    "model",
    r"(?<![\w&-])i(?:([3579])-(\d{4,5})([A-Z]{1,2})?(?!\w)|([3579]|\d\d)(?=[ ,.;:)]|$))",
    needs="0123456789",
    weight=2,
    at="word",
)
def propose_processor(match: re.Match[str]) -> v.Value:
    """`i7`, `i7-9700K`."""
    numbers = tuple(v.Label(one) for one in match.group(1, 2, 4) if one)
    kind = (v.Letters(match[3]),) if match[3] else ()
    return v.Phrase((v.Letters("i"), *numbers, *kind))


@recognizer("acronym", r"(?<![\w&])([A-Z]{2,5})-([A-Z]{1,5})(?![\w&-])", needs="-", weight=1.1)
def propose_acronym_pair(match: re.Match[str]) -> v.Value | None:
    parts = tuple(
        v.Letters(word) if len(word) == 1 or _is_spelled(word, match) else word
        for word in match.groups()
    )
    return v.Phrase(parts) if any(isinstance(part, v.Letters) for part in parts) else None


@recognizer(
    "acronym",
    r"(?<![\w&'])([A-Z]{2,8})(s|'s|es|ed|'d|ing)?(?![\w&])",
    needs="ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    weight=0.9,
)
def propose_acronym(match: re.Match[str]) -> v.Value | None:
    word, tail = match[1], match[2] or ""
    if re.match(r"'[A-Z]", after(match, 2)) or not _is_spelled(word, match):
        return None
    return v.Letters(word, tail)


@recognizer(
    "acronym",
    r"(?<![\w.])((?:[A-Z]\.){2,6}|LL\.[BDM]\.)([A-Z](?![\w.]))?('s|s)?(?!\w)",
    needs=".",
    weight=1.2,
)
def propose_letters_with_points(match: re.Match[str]) -> Proposal:
    letters = "".join(re.findall("[A-Z]", match[0]))
    value = v.Letters(letters, match[3] or "")
    if not match[0].endswith("."):
        return Proposal(value)
    follows = look_behind(match.string, match.end())
    if follows.kind == "digit":
        return Proposal(value, stop="abbreviation")
    if follows.kind != "capital":
        return close(value, match)
    word = follows.word.rstrip(".")
    if word.lower() in STOP_TABLES["en"].starters or letters in _ADVERBS:
        return Proposal(value, stop="both")
    if word.removesuffix("s") in english.WEEKDAYS:
        return Proposal(value, stop="abbreviation")
    if letters in _THINGS and follows.second[:1].islower():
        return Proposal(value, stop="both")
    if match[0] in _NATIONS:
        return Proposal(value, stop=_stop_after_nation(match, follows))
    ship = letters in ("USS", "HMS", "SS", "RMS")
    ends = _HAS_ARTICLE.search(before(match, 9)) and follows.second[:1].islower() and not ship
    ends = ends or _is_place_of_letters(match[0], match, follows)
    return Proposal(value, stop="both" if ends else "abbreviation")


def _is_place_of_letters(written: str, match: re.Match[str], follows: Following) -> bool:
    """Whether letters name where somebody is, or what they got, and a sentence opens behind.

    Of N.Y.U. in `at N.Y.U. Tuition is free`, and of a degree in `got a B.A. History suited him`.
    """
    if " " in written:
        return False
    placed = len(written) > 5 and _AT.search(before(match, 6))
    owned = written.count(".") > 1 and _OWNED.search(before(match, 5))
    return bool((placed or owned) and _VERB.match(follows.second))


_AT = LazyPattern(r"\b(?:[Aa]t|[Ii]n|[Tt]o|[Ff]or|[Ff]rom) $")
_OWNED = LazyPattern(r"\b(?:[Aa]n?|[Hh]is|[Hh]er|[Mm]y) $")
_VERB = LazyPattern(
    r"(?:is|was|are|were|has|had|have|will|would|can|could|does|did|do|may|might|never|always|"
    r"[a-z]{3,}ed|rose|fell|came|went|won|lost|began|ran)(?!\w)"
)
_HAS_ARTICLE = LazyPattern(r"\b(?:[Tt]he|[Aa]n?|[Hh]is|[Hh]er) $")
_PLACED = LazyPattern(
    r"\b(?:[Ii]n|[Ff]rom|[Tt]o|[Oo]f|[Aa]cross|[Ff]or|[Ii]nto|[Ll]eft|[Vv]isited|[Aa]t|[Bb]y|[Ww]ith|"
    r"near|outside|inside) (?:the )?$"
)


def _stop_after_nation(match: re.Match[str], follows: Following) -> Stop:
    """Whether the U.K. ends its sentence: "in the U.K. Prices rose", but "the U.K. Treasury"."""
    ended = follows.second[:1].islower()
    if re.search(r"[A-Z]\w+, $", before(match, 24)):
        # "Washington, D.C. Congress met", but "Washington, D.C. Mayor Jane Bell".
        return "both" if ended else "abbreviation"
    if follows.word.rstrip(".") in english.INSTITUTIONS:
        return "abbreviation"
    placed = _PLACED.search(before(match, 16))
    return "both" if placed and (ended or not follows.second) else "abbreviation"


_ADVERBS = frozenset("ASAP RSVP EOD COB AWOL".split())
"""Letters that go on with no name."""
_NO_INITIALS = LazyPattern(rf"{NAMED}$|\b(?:[Mm]r|is|was|and I|an?|the|with|but) $")


@recognizer("initials", r"(?<![\w.'])((?:[A-Z]\.[ -]?)+)(?=[A-Z][a-z'])", needs=".", weight=1.3)
def propose_initials(match: re.Match[str]) -> Proposal | None:
    many = match[1].count(".") > 1
    follows = look_behind(match.string, match.start() + len(match[1].rstrip()))
    opens = begins_sentence(follows)
    if opens and " " not in match[1].strip():
        return None  # He left the U.S. He went home.
    lead = before(match, 20)
    if not many and (match[1][0] == "I" and lead.rstrip()[-1:].islower()):
        return None
    if (
        not many
        and _NO_INITIALS.search(lead)
        and not re.search(r"\b(?:the|an?|is|was|with|but) $", lead)
    ):
        return None
    if " " not in match[1].strip() and match[1].count(".") > 2 and lead.lower().endswith("the "):
        return None  # the F.B.I. Agents came.
    if many and _is_place_of_letters(match[1].strip(), match, follows):
        return None
    ruler = re.search(r"([A-Z]\w+) $", lead)
    if match[1].strip(". ") in ("I", "V", "X") and ruler and ruler[1] in english.KINGS:
        return None
    if not many and re.search(r"\ban? $", lead):
        return None  # She got an A. Grade ...
    if match[1].replace(" ", "") in _NATIONS or (not many and re.search(r"\d $", lead)):
        return None  # seat 12 A. Row 5 is free.
    bare = match[1].rstrip(" -")
    letters = "".join(re.findall("[A-Z]", match[1]))
    if letters in _THINGS or letters in _ADVERBS:
        return None
    return Proposal(v.Letters(letters), end=match.start() + len(bare), stop="abbreviation")


@recognizer(
    "initials",
    r"(?<=[a-z], )((?:[A-Z]\. ){1,3}[A-Z]\.)(?=[,;:)]| \(| and\b| &)",
    needs=".",
    weight=1.4,
)
def propose_initials_after_surname(match: re.Match[str]) -> Proposal:
    """Of a list of works: `Poe, E. A., Tales`."""
    letters = "".join(re.findall("[A-Z]", match[1]))
    return Proposal(v.Letters(letters), stop="abbreviation")


@recognizer("initials", r"(?<![\w.'])([A-HJ-Z])\. (?=[a-z]{3,})", needs=".", weight=1)
def propose_species(match: re.Match[str]) -> Proposal:
    return Proposal(v.Letters(match[1]), end=match.end() - 1, stop="abbreviation")


@recognizer(
    "letter",
    r"(?:(?<=[a-z]s )|(?<=\b[Ff]rom )|(?<=\b\d)|(?<=\b\d\d))([A-Z]) ?[-–] ?([A-Z])(?![\w'&-]|\.\w)",
    needs="-–",
    weight=2,
    at="any",
)
def propose_letter_span(match: re.Match[str]) -> v.Value | None:
    """Screws A-D, seats 14A–C."""
    if match[1] >= match[2] or (match[1], match[2]) in (("A", "V"), ("D", "J"), ("T", "V")):
        return None
    joint = " " if before(match, 1).isdecimal() else ""
    return v.Phrase((*([""] if joint else []), v.Letters(match[1]), "to", v.Letters(match[2])))


_SMALL_LETTERS = r"(?<![\w.'’])(?:[a-z]\.){2,5}(?![\w'’])"


@per_language(
    "initials", _SMALL_LETTERS, languages=RECOGNIZED_LANGUAGES, needs=["innerDot"], at="any"
)
def propose_small_letters(language: str, match: re.Match[str]) -> Proposal:
    """Small letters with full stops that no table knows: h.t., s.c."""
    letters = match[0].replace(".", "").upper()
    return close(v.Letters(letters), match, language)


@recognizer("letter", r"(?<![\w'.&-])(?:(A)|(?<=\d )([B-F]))('s)(?!\w)", needs="'", at="capital")
def propose_grade_letter(match: re.Match[str]) -> v.Value | None:
    if match[1] and re.match(r" [a-z]+ing\b", after(match, 12)):
        return None
    return v.Letters(match[1] or match[2], match[3])


@recognizer(
    "letter",
    rf"\b(?:(?:[a-z]+ |{NAMED}|Series )"
    r"(?:(A)(?= [a-z]|[,;:)])|([A-Z])(?=[.!?][\"')\]]*(?:$|\s)))|"
    r"(A)(?= (?:is|was|stands|equals|comes|means|rhymes) ))",
    needs="ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    weight=1.1,
    at="word",
)
def propose_single_letter(match: re.Match[str]) -> Proposal | None:
    """A letter that names something, and one that ends a sentence: plan A, vitamin C, A is for
    apple.
    """
    letter = match.lastindex or 1
    return Proposal(v.Letters(match[letter]), start=match.start(letter))


@recognizer(
    "letter",
    r"\b[A-Z][\w'’-]*\.? ([B-HJ-Z])(?=[.!?])",
    needs="BCDEFGHJKLMNOPQRSTUVWXYZ",
    weight=1.1,
    at="capital",
)
def propose_last_letter(match: re.Match[str]) -> Proposal | None:
    """A letter at a sentence's end, whose full stop is the sentence's: Malcolm X."""
    follows = look_behind(match.string, match.end() + 1)
    opens = follows.kind == "capital" and begins_sentence(follows)
    if follows.kind != "nothing" and not opens:
        return None
    return Proposal(v.Letters(match[1]), start=match.start(1))


# Spanish and French


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
_ROW = rf"(?<![\w.])(?:[{CAPITAL}]\.(?!ª) ?-?){{2,6}}"


@per_language(
    "initials", rf"{_ROW}(?=[{CAPITAL}](?:[{SMALL}]|\.?ª))", needs=["capitalDot"], weight=0.9
)
def propose_row_of_initials(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """J. R. R. before a name."""
    following = look_behind(match.string, match.start() + len(match[0].rstrip()))
    if STOP_TABLES[language].opens_sentence(following.word):
        return None
    letters = "".join(re.findall(r"\w", match[0]))
    if language == "fr" and re.fullmatch(r"M\. \w\. ", match[0]):
        return None  # M. V. Hugo: monsieur.
    return Proposal(v.Phrase((v.Letters(letters), "")), "abbreviation")


@per_language(
    "initials",
    rf"{_ROW}(?![{CAPITAL}]\b)(?<=\.)(?!ª)|(?<![\w.])(?:[{CAPITAL}]\.){{1,5}}[{CAPITAL}](?![\w.])",
    needs=["capitalDot"],
    weight=0.85,
)
def propose_dotted_acronym(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """U. S. A. by itself, its last full stop written or not."""
    letters = re.sub(r"\W", "", match[0])
    if language == "fr" and re.match(r"M\. \w\. [^\W\d_]", match.string[match.start() :]):
        return None  # M. V. Hugo: monsieur.
    spoken = letters in TABLES[language].SPOKEN_ACRONYMS
    value: v.Value = v.Abbreviation(letters) if spoken else v.Letters(letters)
    if not match[0].endswith("."):
        return value
    return Proposal(value, stop_after(match.string, match.end(), language))


@per_language(
    "initials",
    rf"(?<![\w.])([{CAPITAL}])\."
    rf"(?= (?:(?:de la|de|du|des|von|van) |d')?[{CAPITAL}](?:[{SMALL}]|\.))",
    needs=["capitalDot"],
    weight=0.8,
)
def propose_initial(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """A single initial stands before a name, at the start or behind another name."""
    lead = before(match, 30)
    following = look_behind(match.string, match.end())
    if STOP_TABLES[language].opens_sentence(following.word) and len(following.word) > 1:
        return None
    named = _NAMED.search(lead)
    if _LEADING.search(lead) or not lead or (named and not _LETTERED.search(named[0])):
        return Proposal(v.Letters(match[1]), "abbreviation")
    return None


@per_language(
    "initials", rf"(?<=[a-z.] )([A-Z])(?:\.{{3}}|…|\.)(?=\s+[{SMALL}]|[,;])", needs=".…", weight=1.2
)
def propose_name_as_letter(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """A name that is not told: M. X. a 21 ans."""
    titled = re.search(r"(?:\b(?:Sr|Sra|Srta|Dr|Dra|D|M)\.|\bM(?:me|lle|gr)|\b[Dd]on|\b[Dd]oña) $",
                       before(match))  # fmt: skip
    return Proposal(v.Letters(match[1]), "abbreviation") if titled else None


def _romance_acronym(language: str, written: str, match: re.Match[str]) -> v.Value | None:
    table = TABLES[language]
    if written in table.FULL_ACRONYMS:
        return v.Abbreviation(table.FULL_ACRONYMS[written])
    if is_shouted(match) and (written in table.PLAIN_WORDS or _romance_is_sayable(written)):
        return None
    return v.Letters(written) if _spell(written, table) else None


@per_language(
    "acronym",
    rf"(?<![\w@])(?<![\w]\.)([{CAPITAL}]{{2,6}})(s?)(?![\w@])",
    needs=["twoCapitals"],
    weight=0.7,
)
def propose_capitals(language: str, match: re.Match[str]) -> v.Value | None:
    return _romance_acronym(language, match[1], match)


@per_language(
    "acronym",
    rf"(?<![\w@])([{CAPITAL}]{{1,6}})[ -]?(\d{{1,4}})(?![\w.,:]*\d|[-–]\d)(?!\w)",
    weight=0.75,
)
def propose_acronym_and_number(language: str, match: re.Match[str]) -> v.Value | None:
    """MP3, COVID-19, A-6, T3, RTX 4090."""
    letters, digits = match[1], match[2]
    gap = match[0][len(letters)]
    if gap == " " and (len(letters) == 1 or letters in TABLES[language].PLAIN_WORDS):
        return None
    name = _romance_acronym(language, letters, match)
    if name is None and len(letters) == 1:
        name = v.Letters(letters)
    elif name is None and gap != " ":
        name = v.Abbreviation(letters)
    return v.Phrase((name, v.Label(digits))) if name else None


@per_language(
    "acronym",
    r"(?<!\w)(LO|CE|TA|DE|LE|EN|ES)(?= \d{1,3}/\d{4}\b)|(?<=[/(])(CE|UE|EE|DE)(?=[),.; ]|$)|"
    r"(?:(?<=\b[Ll]e )|(?<=\b[Ll]a )|(?<=\b[Dd]u )|(?<=\b[Aa]u )|(?<=\b[Ee]l )|(?<=del ))"
    r"(CE|TA|TE|SA|DES|MES|ES|SE|ME|SU|NO|SI|LE|LES|UNE|UN|TES|TU|ET|EST|VA)(?!\w)|"
    r"^(CE)(?=, \d)",
    needs=["twoCapitals"],
    weight=1,
)
def propose_like_words(language: str, match: re.Match[str]) -> v.Value | None:
    """Letters that look like a small word, where no such word can stand: le TA de Lyon."""
    return None if is_shouted(match) else v.Letters(match[0])


@per_language(
    "acronym", r"(?<!\w)(Sat|Sp|Pa|Fi)(O|CO)2(?!\w)", needs=["innerDigit"], weight=2, digits=True
)
def propose_saturation(language: str, match: re.Match[str]) -> v.Value:
    """Of oxygen in the blood: SpO2."""
    lead: v.Value | str = match[1] if match[1] == "Sat" else v.Letters(match[1].upper())
    return v.Phrase((lead, v.Letters(match[2]), v.Number("2")))


def _spell(written: str, table: ModuleType) -> bool:
    """Whether letters are said by their names."""
    if written in table.SPOKEN_ACRONYMS or written in table.PLAIN_WORDS or not written.isascii():
        return False  # Letters of an acronym carry no accents: it is a word in capitals.
    return (
        written in table.SPELLED_ACRONYMS or len(written) <= 3 or not _romance_is_sayable(written)
    )


def _romance_is_sayable(written: str) -> bool:
    """Whether letters can be read as a word: vowels among them, no heap of consonants."""
    plain = _CODA.sub("T", _LIQUID.sub("T", written.upper()))
    shape = "".join("v" if letter in _VOWELS else "c" for letter in plain)
    return "v" in shape and "ccc" not in shape and not re.match("cc|.*cc$", shape)
