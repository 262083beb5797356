"""Whether a full stop ends a sentence, from what stands before and behind it.

Recognisers ask `stop_after` about the full stop of an abbreviation they found; `ends_sentence`
decides about all other stops, and `is_certain_end` names those that need no second look.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from anyrig.text.recognizers import LazyPattern, Stop
from anyrig.text.recognizers.languages import english, french, spanish

OPEN = "\"'`“‘«‹„‚([{¿¡*_"
CLOSE = "\"'”’»›“)]}*_"
_NEXT = re.compile(
    rf"[{re.escape(CLOSE)}]*(?:\[\d{{1,3}}\])*(\s*)[{re.escape(OPEN)}\-–—]*\s*"
    r"(\d|[^\W\d_][\w'’-]*\.?(?:\w\.)*)?(?:[ \n]+([^\s]+))?"
)
_LAST_WORD = re.compile(r"[^\s()\[\]\"“«]{1,40}\Z")
_LAST_PIECE = re.compile(r"[^\W_]+\Z")
_JOINED = LazyPattern(r"[^\W\d_]{3}-[^\W\d_]+\Z")
_FIRST_WORD = re.compile(r"[^\W\d_]+")
_ELISION = re.compile("['’]")
_COUNTED = LazyPattern(r"\d ?[^\W\d_]+\Z")
_VOWELS = frozenset("aeiouyAEIOUY")
_VOWELLESS = LazyPattern(
    r"(?!(?i:h+m+|s+h+|p+s+t+|b+r+|g+r+|z+|p+f+t*|t+s+k+)\Z)(?!(?i:mrs|ms|km|kg|cm|mm|pm|tv)\Z)"
    r"[B-DF-HJ-NP-TV-XZb-df-hj-np-tv-xz][b-df-hj-np-tv-xz]{1,5}"
)
_MEASURE = re.compile(r"\d ?([^\W\d_²³]{1,6})(?:[²³23]?/([^\W\d_]{1,4}))?\Z")
_BREAK = LazyPattern(r"[.!?:;\n]\s")
_AFTER_WORDS = ")]}\"'”’»`*%€£$²³"
_NUMBERED_ITEM = re.compile(r"\s*\(?(?:\d{1,3}|[IVX]{1,5}|[ivx]{1,5})[.)]\s*\Z")
_ITEMS = frozenset("ii iii iv vi vii viii ix xi xii".split())
_SMALL_ITEM = LazyPattern(
    rf"(?:{'|'.join(_ITEMS)})\. [A-Z][a-z]|\(?(?:[a-i]|{'|'.join(_ITEMS)})\) [A-Z]"
)
"""The next item of a list: Dry. iii. Fold. (b) Date it."""
_ROMAN = LazyPattern(r"[IVXLCDM]+\b")
NAMED = rf"\b(?i:(?:{'|'.join(map(re.escape, english.NAMED_NOUNS))})s?\.? )"
"""A noun that a letter or a number behind it names, for a pattern."""
_NO_INITIAL = LazyPattern(
    rf"(?:{NAMED}|\b(?i:an?|letter) |\b\d{{1,3}} ?[A-K],? (?:and |or )?\d{{1,3}} )\Z"
)
_LEADS_IN = LazyPattern(
    r"(?:^|[.!?:;][\"')]* |[\"'(])(?:At|By|On|In|Around|About|Before|After|Until|Since|"
    r"From|During|For|Near|"
    r"Every|Last|Next|Just (?:before|after)|Shortly (?:before|after)) (?:about |around |the )?\Z|"
    r"\b(?:Because|When|But|And|So|Then|Yet|While|As|That|Though|Although|Since) "
    r"(?:at|by|on|in|around|about|before|after|until|since|from) (?:about |around |the )?\Z"
)


@dataclass(frozen=True)
class StopTable:
    """What a language says about words before and behind a full stop."""

    leading: frozenset[str]
    """Titles and the like: a name or a number follows, so no sentence ends there."""
    before_number: frozenset[str]
    """These lead to a number only, and end a sentence elsewhere: `No. 5`."""
    ending: frozenset[str]
    """Abbreviations that may well be the last word."""
    within: frozenset[str]
    """Abbreviations inside a sentence, for a text that has no capitals to tell."""
    starters: frozenset[str]
    """Words that open a sentence when they have a capital, and begin no name."""
    units: frozenset[str]
    numbered: frozenset[str]
    """Abbreviations whose full stop ends no sentence before a number: `fig. 3`."""
    capitals: frozenset[str] = frozenset()
    """Of `leading`, those that are words of their own when written small: `Mal`, `mal`."""
    verbs: LazyPattern | None = None
    """Endings that only verbs have, which open sentences without a pronoun: `Llegó`."""

    def opens_sentence(self, word: str) -> bool:
        """Whether a word with a capital opens a sentence and begins no name; of `L'art` the `L`."""
        if word[1:] == ".":
            return False  # an initial, and no L'art
        first = _ELISION.split(word.rstrip("."), maxsplit=1)[0].lower()
        return first in self.starters or bool(self.verbs and self.verbs.fullmatch(first))

    def is_known(self, word: str) -> bool:
        return (
            word in self.leading
            or word in self.before_number
            or word in self.ending
            or word in self.within
        )


_ENGLISH = frozenset(
    word.lower()
    for table in (
        english.TITLES,
        english.AFTER,
        english.LOWER,
        english.NUMBERED,
        english.SHORT_STATES,
        english.FIRST_NAMES,
    )
    for word in table
) | frozenset(
    word.lower()
    for form in english.SHORT_FORMS
    for words in form.words
    for word in re.findall(r"[A-Za-z]{2,}(?=\.)", words)
) - {"son", "port", "span", "dan", "no"}


_PLURAL_VERBS = frozenset("were are have weren't aren't haven't don't".split())
_SPANISH_VERB = LazyPattern(
    r"(?!mir|jeric|salom)[^\W\d_]{2,}(?:ó|rá|r(?:án|emos|ían?)|[aei]ron|[^\W\d_](?:aban?|aron)|yendo)"
)


def _romance_table(table: ModuleType) -> StopTable:
    def words(*written: Iterable[str]) -> frozenset[str]:
        pieces = (piece for keys in written for key in keys for piece in key.split())
        return frozenset(piece.rstrip(".").lower() for piece in pieces)

    # The single letters of S. A. R. are none.
    titles = [re.sub(r"(?<!\w)\w\. ?(?=\w)|(?<=\. )\w\.$", "", key) for key in table.TITLES]
    return StopTable(
        leading=words(titles, table.LEADING),
        before_number=words(table.NUMBERED, table.SHORT_MONTHS, table.SHORT_WEEKDAYS),
        ending=words(table.CLOSERS),
        within=words(table.INNER, table.UNITS_OF_ARMIES, table.UNITS, ["suiv"]),
        starters=table.STARTERS,
        units=frozenset(table.UNITS),
        numbered=words(key for key in table.NUMBERED if key.endswith(".")) - {"no"},
        capitals=words(key for key in table.TITLES if not key.endswith(".")),
        verbs=_SPANISH_VERB if table is spanish else None,
    )


STOP_TABLES = {
    "en": StopTable(
        english.LEADING, english.BEFORE_NUMBER, english.ENDING, english.WITHIN | _ENGLISH,
        english.STARTERS, frozenset(english.UNITS) - {"in", "A"},
        frozenset(english.NUMBERED) - {"Col", "col"},
    ),
    "es": _romance_table(spanish),
    "fr": _romance_table(french),
}  # fmt: skip


_BRAND = LazyPattern(r"i[A-Z]\w|e[A-Z][a-z]{2}|macOS\b|mRNA\b|p[HK]|[a-z](?:[²³]| ?= ?\d|\^\d)")


def is_small(text: str) -> bool:
    """Whether a text begins with a small letter, and not with a name that does: `iPhone`."""
    return text[:1].islower() and not _BRAND.match(text)


class Following(NamedTuple):
    """What stands behind a full stop."""

    kind: str
    """`nothing`, `mark` (a comma, a dash), `joined` (no space), `digit`, `lower` or `capital`."""
    word: str = ""
    second: str = ""
    """The word after, with what is attached to it."""


def look_behind(text: str, end: int) -> Following:
    """What follows a full stop whose end is given."""
    found = _NEXT.match(text, end)
    word = found[2] or "" if found else ""
    if not found or not word:
        return Following("mark" if text[end:].strip(CLOSE + " \n") else "nothing")
    if not found[1] and text[end : end + 1] not in CLOSE:
        return Following("joined", word)
    kind = "digit" if word[0].isdecimal() else "lower" if is_small(word) else "capital"
    return Following(kind, word.removesuffix("'s").removesuffix("’s"), found[3] or "")


def begins_sentence(follows: Following, language: str = "en") -> bool:
    """Whether what follows opens a sentence, and is no name: `Neighbors were`, `Reward $50`."""
    several = follows.word.endswith("s") and follows.second in _PLURAL_VERBS
    priced = follows.second[:1] in tuple("$£€")
    return several or priced or STOP_TABLES[language].opens_sentence(follows.word)


def stop_after(
    text: str,
    end: int,
    language: str = "en",
    *,
    names_follow: bool = False,
    digits_follow: bool = True,
    continues: Collection[str] = (),
    start: int | None = None,
) -> Stop:
    """What the full stop of an abbreviation that ends at `end` is.

    Args:
        text: the window, with what follows.
        end: behind the stop.
        language: of the text.
        names_follow: whether a capital may go on with the same thing (Acme Inc. Chief ...), so
            that only words that open sentences end this one.
        digits_follow: whether a number may go on with it.
        continues: words with a capital that go on with it: "5 p.m. Monday".
        start: where the token begins; one that only leads into its sentence ("At 3 p.m. Dr. Shah
            came") does not end it.
    """
    next_ = look_behind(text, end)
    if next_.kind == "nothing":
        return "both"
    if next_.kind == "digit":
        return "abbreviation" if digits_follow else "both"
    if next_.kind != "capital" or next_.word.rstrip(".") in continues:
        return "abbreviation"
    if start is not None and _LEADS_IN.search(text, max(0, start - 40), start):
        return "abbreviation"
    if names_follow and not begins_sentence(next_, language):
        return "abbreviation"
    return "both"


def is_certain_end(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a candidate (marks, what closes, white space) ends a sentence beyond doubt."""
    start, end = match.span()
    after = text[end : end + 1]
    mark = text[match.end(1) - 1]
    if not after or (is_small(text[end : end + 6]) and not _SMALL_ITEM.match(text, end)):
        return False
    if after in OPEN or after in "-–—":
        following = text[end : end + 20].lstrip(OPEN + "-–— ")
        small = is_small(following) and not _SMALL_ITEM.match(text, end)
        if not following or small or not following[0].isalnum():
            return False
    elif not after.isalnum():
        return False
    if mark != ".":
        return True
    if match.end(1) - start > 1:
        return not after.isdecimal()
    if _is_in_aside(text, start, end):
        return False
    return _is_plain_end(text, start, end, after, language)


_ASIDE = 80
_MOVE = re.compile(r"(?:[KQRBNDTACF][a-h]?[1-8]?x?[a-h][1-8]|O-O)(?!\w)")
_SHORT_WORD = re.compile(r"(?<![^\W_])[^\W\d_]{1,6}\Z")


def _is_in_aside(text: str, start: int, end: int) -> bool:
    """Whether a short word's full stop stands in brackets behind which the sentence goes on:
    `the appeal (rec. 456/2017), which`.
    """
    opened = text.rfind("(", max(0, start - _ASIDE), start)
    if opened < 1 or text.find(")", opened, start) > 0 or text[opened - 2] in ".!?:":
        return False
    closed = text.find(")", end, end + _ASIDE)
    if closed < 0 or not _SHORT_WORD.search(text, opened, start):
        return False
    rest = text[closed + 1 : closed + 3]
    return rest[:1] in (",", ";", ".") or is_small(rest.lstrip())


def _is_plain_end(text: str, start: int, end: int, after: str, language: str) -> bool:
    """Whether the word before a full stop is no abbreviation beyond doubt."""
    if text[start - 1 : start].isdecimal():
        if _MOVE.match(text, end):
            return False  # 1. e4 e5 2. Nf3
        # A number ends a sentence; one that begins it is an item's of a list.
        word = _find_last_piece(text, start)
        lead = text[max(0, start - 60) : start - len(word)].rstrip()
        return lead[-1:].isalnum() or (len(word) > 1 and bool(lead))
    return _is_plain_word(text, start, end, after, language)


def _find_last_piece(text: str, end: int) -> str:
    """The letters and digits right before a place."""
    piece = text[max(0, end - 41) : end].rpartition(" ")[2]
    if piece.isalnum():
        return piece
    found = _LAST_PIECE.search(piece)
    return found[0] if found else ""


def _is_plain_word(text: str, start: int, end: int, after: str, language: str) -> bool:
    if text[start - 1 : start] in _AFTER_WORDS:
        return True
    # Of a compound the last piece counts: "well-known".
    word = _find_last_piece(text, start)
    table = STOP_TABLES[language]
    if after.isupper() and _is_after_measure(text, start, end, language):
        return True
    if not word.isalpha() and len(word) > 2 and word.isupper() and word[0].isalpha():
        return True  # H2O
    if len(word) < 2 or not word.isalpha() or (after.isdecimal() and word[0].isupper()):
        return False
    if language == "en":
        if len(word) < 4 and not (word.islower() or word.isupper()):
            return False
    elif len(word) < 3 and not word.isupper():
        return bool(_JOINED.search(text, max(0, start - 9), start))  # décompressez-la
    if text[start - len(word) - 1 : start - len(word)] == "." or word in _ITEMS:
        return False
    if not table.is_known(word.lower()):
        cut = SURELY_CUT.get(language)
        return not _is_without_vowel(word) and not (cut and cut.fullmatch(word))
    # Before a word that opens sentences "etc." ends one.
    first = _FIRST_WORD.match(text, end) if after.isupper() and word.lower() == "etc" else None
    return first is not None and first[0].lower() in table.starters


def _is_without_vowel(word: str) -> bool:
    """Whether a word cannot be one: Bp., hdqtrs., Lk. An exclamation is: hmm."""
    return _VOWELS.isdisjoint(word) and bool(_VOWELLESS.fullmatch(word))


def _is_after_measure(text: str, start: int, end: int, language: str) -> bool:
    """Whether a full stop stands behind a unit and its number, and a sentence opens behind it.

    What follows is a word that opens sentences; or the unit is no letter that may be an initial,
    and the measure is not the sentence's beginning, which goes on in Spanish and French: "A las
    15 h. Juan llegó".
    """
    table = STOP_TABLES[language]
    measure = _MEASURE.search(text, max(0, start - 20), start)
    if not measure or not table.units.issuperset(filter(None, measure.groups())):
        return False
    first = _FIRST_WORD.match(text, end)
    if first is None or first[0].lower() in table.starters:
        return first is not None
    if language == "en":
        inside = not OPENED_BY_MEASURE.search(text, max(0, start - 32), start)
    else:
        inside = start > 60 and not _BREAK.search(text, start - 60, start)
    doubtful = len(measure[1]) == 1 and not measure[2] and measure[1] not in "hsgl"
    return inside and not doubtful and not first[0].isupper()


OPENED_BY_MEASURE = LazyPattern(
    r"(?:^|[.!?] )(?:In|Within|After|At|For|Every) (?:about )?\d[\d.,]* ?[^\W\d_]{1,4}\Z"
)
"""A measure that only opens its sentence: In 5 min. Bob left."""


def is_after_plain_word(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a candidate stands behind a number or a word that no recogniser takes.

    Something to read must follow it; before a small letter the word may be a unit ("12 pcs. left").
    """
    start = match.start()
    after = text[match.end() : match.end() + 12].lstrip(OPEN + "-–—>|# ")[:1]
    if not after.isalnum() or (
        after.islower() and _COUNTED.search(text, max(0, start - 41), start)
    ):
        return False
    return text[start - 1 : start].isdecimal() or _is_plain_word(
        text, start, match.end(), after, language
    )


_FACTORIAL = LazyPattern(r"(?<![\w.])(?:\d{1,3}|[nkmr])\Z")
"""Before the sign of a factorial: n! > n."""


def is_certain_inside(
    text: str, match: re.Match[str], language: str, *, careless: bool = False
) -> bool:
    """Whether a candidate ends no sentence beyond doubt: more of it follows, or nothing to read.

    `careless` for a text in which no sentence begins with a capital.
    """
    rest = text[match.end() : match.end() + 12]
    after = rest[:1]
    if (
        match[1] == "!"
        and after in tuple("<>≤≥=")
        and _FACTORIAL.search(text, max(0, match.start() - 4), match.start())
    ):
        return True
    if not after.isalnum():
        after = rest.lstrip(OPEN + CLOSE + "-–—>| ")[:1]
        if not after and match.end() + 12 >= len(text):
            return True
    if careless:
        return False
    small = is_small(rest.lstrip(OPEN + CLOSE + "-–—>| "))
    if after in tuple(",;:") or (small and not _SMALL_ITEM.match(text, match.end())):
        return True
    if after.isdecimal() and rest[0] == after and match[1] == ".":
        return _is_before_number(text, match.start(), match.end(), language)
    if not after.isupper() or match[0][:2] != ". ":
        return False
    return _is_before_name(text, match.start(), match.end(), language)


def _is_before_number(text: str, start: int, end: int, language: str) -> bool:
    """Whether `fig.` or the like stands before a number, and no unit behind another."""
    if _COUNTED.search(text, max(0, start - 41), start):
        return False
    word = last_word(text, start)
    if language == "en" and word in WORDS_BEFORE_NUMBERS:
        return not OTHER_NUMBER.match(text, end)
    return word in STOP_TABLES[language].numbered


WORDS_BEFORE_NUMBERS = frozenset("no art ed tab app ex par sec".split())
"""English abbreviations before a number that are words as well."""
OTHER_NUMBER = LazyPattern(
    r"\d+ (?:of|others|more|people|men|women|times|years|days|hours|minutes|other|percent|"
    r"children)\b|\d+\. [A-Z]"
)
"""A number behind such a word that begins a sentence: the answer is no. 12 people left."""


def _is_before_name(text: str, start: int, end: int, language: str) -> bool:
    """Whether a title stands before a full stop, and no word that opens sentences behind it."""
    title = _LAST_PIECE.search(text, max(0, start - 9), start)
    if not title or not title[0][0].isupper() or title[0].lower() not in _TITLES[language]:
        return False
    if (
        language == "en"
        and title[0] == "Dr"
        and _STREET.search(text, max(0, start - 24), title.start())
    ):
        return False
    name = _FIRST_WORD.match(text, end)
    return name is not None and name[0].lower() not in STOP_TABLES[language].starters


_STREET = LazyPattern(r"[A-Z\d][\w'-]* \Z")
"""A name or a number, behind which `Dr` may be a drive."""
_TITLES = {
    "en": frozenset("dr mr mrs ms prof capt sgt lt gov msgr messrs".split()),
    "es": frozenset("sr sra srta dr dra ing lic prof gral".split()),
    "fr": frozenset("m mm dr pr mgr".split()),
}
"""Titles that are nothing else, by language."""


SURELY_CUT = {
    "es": LazyPattern(
        r"(?!(?:test|set|film|club|bit|clip|top|kit|web|pop|rock|bar|gol)$).*"
        r"(?:[bcfghkmpqtvx]|[^aeiouáéíóú][bcdfghjklmpqrtvz]|(?<![aeiou])[áéíóú][dr])"
    ),
    "fr": LazyPattern(r".*(?:é[bcdfghjklmnpqrtv]{1,2}|[bcdfgptv][lr]|trod)"),
}
"""What no word of the language ends in: la port., le méd."""


def needs_recognizers(text: str, language: str) -> bool:
    """Whether a window may hold anything but plain words."""
    trigger = TRIGGERS.get(language)
    if trigger is None or trigger.search(text):
        return True
    # The last word may be an abbreviation whose stop ends the sentence too.
    bare = text.rstrip(CLOSE)
    if not bare.endswith("."):
        return False
    word = last_word(bare, len(bare) - 1)
    cut = SURELY_CUT.get(language)
    return STOP_TABLES[language].is_known(word) or bool(cut and cut.fullmatch(word))


def _romance_trigger(table: ModuleType) -> LazyPattern:
    capital, small = "A-ZÀ-ÖØ-ÞŒ", "a-zß-öø-ÿœ"
    tables = (
        table.TITLES, table.CLOSERS, table.INNER, table.UNIT_NOUNS, table.AGREEING,
        table.PLAIN_FORMS, table.KEYS,
    )  # fmt: skip
    words = sorted({word for keys in tables for word in keys if word.isalpha()})
    any_case = sorted({word.lower() for keys in tables[1:-1] for word in keys if word.isalpha()})
    return LazyPattern(
        # Digits and signs; capitals in a row, or inside a word; a stop that is not the last sign.
        rf"[^{capital}{small}\s,;:!?¿¡.'’-]|[{capital}]{{2}}|[{small}][{capital}]|"
        r"(?<!\.)\.(?!$|\.\.)|(?<!\w)['’-]|['’-](?!\w)|"
        # Single letters, numerals, and shortened words that are written without a stop.
        rf"(?<!\w)(?:(?![aeouyàôAEOUYÀÔ])[{capital}{small}](?![\w'’])|[ivx]{{2,}}e?(?!\w)|"
        r"[IVX](?:er|re|ère|e|ème|nde?)s?(?!\w)|"
        rf"(?:{'|'.join(words)}|(?i:{'|'.join(any_case)}))(?!\w))|[:;][o^]?[DPpOo](?!\w)"
    )


TRIGGERS = {
    "en": LazyPattern(
        # Digits and signs; capitals in a row, or inside a word; a stop that is not the last sign.
        r"[^A-Za-z\s,;:!?\"'().—–-]|[A-Z][A-Z]|[a-z][A-Z]|--|(?<!\.)\.(?![.\"')]*$|\.\.)|"
        # Single letters, numerals, and shortened words that are written without a stop.
        r"(?<![\w'])(?:[B-HJ-Z]|A's|[ivxl]{2,}|Mrs?|Ms|Dr|St|Prof|Sgt|Capt|Lt|Mt|vs|v|"
        r"approx|etc|dept|"
        r"govt|hrs|yrs|mins|lbs|Ave|Blvd|Rd|Ln|Pkwy|Hwy|Jr|Inc|Ltd|Corp|Ctrl|Cmd|Esc|Del|"
        r"PgUp|PgDn|Bksp|"
        r"bid|tid|qid|prn|[Nn]oon|Tel|[Vv]itamin|Mon|Tue|Tues|Wed|Thu|Thurs|Fri|Sat|Sun|"
        r"Jan|Feb|Mar|Apr|"
        r"Jun|Jul|Aug|Sept?|Oct|Nov|Dec|[Pp]er ?cent|pct)(?![\w'])|"
        r"(?<!\w)A (?:is|was|stands|equals|comes|means|rhymes) |"
        r"(?<=[a-z] )(?:A(?=[-−]? |[-−]?[.!?,;:)])|"
        r"I(?:(?=[.!?])|(?<=(?:type|hase|lass|tage|ctor|erve|rade) I)(?![\w'])))|"
        r"\([ivx]\)|[A-Z][a-z]+,? I(?![\w'])|[:;][-'o^]?[()DPpOo/|\][](?=\s|$|[.,!?])"
    ),
    "es": _romance_trigger(spanish),
    "fr": _romance_trigger(french),
}
"""By language: what a window without anything to recognise does not have."""


def ends_sentence(text: str, match: re.Match[str], language: str, *, careless: bool) -> bool:
    """Whether a candidate outside any recognised token ends a sentence.

    `careless` for a text in which no sentence begins with a capital.
    """
    table = STOP_TABLES[language]
    start, marks = match.start(), match[1]
    follows = text[match.end() : match.end() + 40].lstrip(OPEN + "-–— ")
    closed = match.end(1) < match.end() and not text[match.end(1)].isspace()
    if not follows:
        return True
    word = last_word(text, start)
    if (
        follows[0].isdecimal()
        and marks == "."
        and text[start - len(word) - 1 : start - len(word)] == "("
    ):
        return False  # (compl. 1936)
    if (is_small(follows) and not _SMALL_ITEM.match(follows)) or follows[0] in ",;:":
        if closed or marks[-1] != "." or len(marks) > 1:
            return False
        return careless and not _is_abbreviated(word, table)
    if marks[-1] != "." or len(marks) > 1 or closed:
        return True
    if "://" in word or word.startswith("www."):
        return True
    if _leads_on(text[start - len(word) : start], follows, language):
        return False
    if _is_in_aside(text, start, match.end()):
        return False
    if len(word) == 1 and word.isalpha() and text[start - 1].isupper():
        return _ends_after_letter(text, start, follows, language)
    return True


def _leads_on(word: str, follows: str, language: str) -> bool:
    """Whether an abbreviation by its nature stands before what follows: `Bp. Grey`."""
    table, small = STOP_TABLES[language], word.lower()
    if small in table.leading and (word[:1].isupper() or small not in table.capitals):
        return True
    if follows[0].isdecimal() and len(word) > 2 and word.islower() and _is_without_vowel(word):
        return True
    if follows[0].isupper() and len(word) > 1 and _is_without_vowel(word):
        first = _FIRST_WORD.match(follows)
        return first is None or not table.opens_sentence(first[0])
    if language == "en" or small not in table.before_number:
        return False
    return follows[0].isdigit() or (small != "no" and bool(_ROMAN.match(follows)))


def _ends_after_letter(text: str, start: int, follows: str, language: str) -> bool:
    """Whether a capital and a full stop are the sentence's last word, and no initial."""
    if language == "en" and _NO_INITIAL.search(text, max(0, start - 16), start - 1):
        return True
    if text[start - 2 : start - 1] == "/":
        return True  # $10 O/W.
    if language != "en" and _NAMED_BY_LETTER.search(text, max(0, start - 16), start - 1):
        return True
    return begins_sentence(look_behind(text, start + 1), language)


_NAMED_BY_LETTER = LazyPattern(
    r"(?:\d-|(?:\d\.?[ºª]|\d[eè]|\b(?:gr\.|grupo|groupe|bloque|bloc|bât\.|bâtiment|letra|lettre|tipo|"
    r"type|clas[es]e?|plan|vit\.|vitamin[ae]|hepatitis|hépatite|anexo|annexe|puerta|porte|esc\.|"
    r"escalera|escalier|s[ée]rie|opción|option|zon[ae]|sala|salle|nivel|fila|portal|terminal)) )\Z",
    re.IGNORECASE,
)
"""Behind these a letter is a name, and no initial: réf. 4512-B, grupo B."""


def last_word(text: str, end: int) -> str:
    """The word that ends at a position, in lower case; of `l'art` the last piece."""
    found = _LAST_WORD.search(text, max(0, end - 41), end)
    word = found[0].lower() if found else ""
    return word if "://" in word else re.split(r"[-–—/'’](?=\w+\Z)", word)[-1]


def is_numbered_item(text: str, start: int, end: int) -> bool:
    """Whether a stretch is a list's `2.` alone."""
    return bool(_NUMBERED_ITEM.match(text, start, end))


def _is_abbreviated(word: str, table: StopTable) -> bool:
    if not word:
        return False  # behind a bracket
    return len(word) <= 2 or "." in word or word[0].isdigit() or table.is_known(word)
