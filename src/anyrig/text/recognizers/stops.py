"""Whether a full stop ends a sentence, from what stands before and behind it.

Recognisers ask `stop_after` about the full stop of an abbreviation they found; `ends_sentence`
decides about all other stops, and `is_certain_end` names those that need no second look.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import NamedTuple

from anyrig.text.recognizers import LazyPattern, Stop
from anyrig.text.recognizers.languages import english, french, spanish
from anyrig.text.recognizers.languages.units import UNITS

OPEN = "\"'`“‘«‹„‚([{¿¡*_"
CLOSE = "\"'”’»›“)]}*_"
_NEXT = re.compile(
    rf"[{re.escape(CLOSE)}]*(?:\[\d{{1,3}}\])*(\s*)[{re.escape(OPEN)}\-–—]*\s*"
    r"(\d|[^\W\d_][\w'’-]*\.?(?:\w\.)*)?(?:[ \n]+([^\s]+))?"
)
_LAST_WORD = re.compile(r"[^\s()\[\]\"“«]{1,40}\Z")
_LAST_PIECE = re.compile(r"[^\W_]+\Z")
_COUNTED = LazyPattern(r"\d ?[^\W\d_]+\Z")
_AFTER_WORDS = ")]}\"'”’»`*%"
_NUMBERED_ITEM = re.compile(r"\s*\(?(?:\d{1,3}|[IVX]{1,5}|[ivx]{1,5})[.)]\s*\Z")
_ROMAN = LazyPattern(r"[IVXLCDM]+\b")
_NO_INITIAL = LazyPattern(
    r"\b(?:an?|letter|vitamin|plan|hepatitis|type|group|class|grade|section|part|exhibit|"
    r"team|point|"
    r"appendix|option|answer|building|gate|wing|studio|category) \Z",
    re.IGNORECASE,
)
_LEADS_IN = LazyPattern(
    r"(?:^|[.!?:;][\"')]* |[\"'(])(?:At|By|On|In|Around|About|Before|After|Until|Since|"
    r"From|During|For|Near|"
    r"Every|Last|Next|Just (?:before|after)|Shortly (?:before|after)) (?:about |around |the )?\Z"
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

    def is_known(self, word: str) -> bool:
        return (
            word in self.leading
            or word in self.before_number
            or word in self.ending
            or word in self.within
        )


_ENGLISH = {
    word.lower()
    for table in (
        english.TITLES, english.AFTER, english.LOWER, english.NUMBERED,
        english.SHORT_STATES, english.FIRST_NAMES,
    )
    for word in table
}  # fmt: skip


def _table(leading: str, before_number: str, ending: str, within: str, starters: str) -> StopTable:
    return StopTable(*(frozenset(words.split()) for words in (
        leading, before_number, ending, within, starters)))  # fmt: skip


def _romance_table(language: str, table: ModuleType) -> StopTable:
    def words(*written: Iterable[str]) -> frozenset[str]:
        pieces = (piece for keys in written for key in keys for piece in key.split())
        return frozenset(piece.rstrip(".").lower() for piece in pieces)

    return StopTable(
        leading=words(table.TITLES),
        before_number=words(table.NUMBERED, table.SHORT_MONTHS, table.SHORT_WEEKDAYS),
        ending=words(table.CLOSERS),
        within=words(table.INNER, table.UNITS_OF_ARMIES, UNITS[language], ["suiv"]),
        starters=table.STARTERS,
    )


STOP_TABLES = {
    "en": _table(
        "mr mrs ms messrs mses dr drs prof rev hon fr br gen col maj capt cmdr cdr lt sgt cpl "
        "pvt sen sens rep reps gov govs pres adm brig amb atty msgr mme mlle ven mt ft supt "
        "insp det vs cf viz approx e.g i.e ed eds wm chas geo jas jos thos st pfc cpt ens",
        "no nos nr num fig figs vol vols p pp pg art arts ch chap cap sec sect eq ex para bldg "
        "apt rte ste rm lot hwy tbl ext op bk pt ep ver par app prop props cl sched reg stat "
        "flt lv lvl q jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed weds "
        "thu thur thurs fri sat sun max min c ca est b d r fl",
        "etc jr sr inc ltd co corp bros p.m a.m pm am u.s u.k u.s.a e.u u.n b.c a.d b.c.e c.e "
        "d.c ph.d m.d b.a m.a st ave av rd blvd ln dr pl sq ct hwy pkwy ter esq llc plc",
        "govt dept lbs lb oz tsp tbsp temp tues thurs weds approx est misc avg assn assoc univ "
        "natl intl mfg ctr hts jct bn inf div regt kg km cm mm hr hrs min mins sec secs yr yrs "
        "wk mo ft in yd mi gal qt pt ref incl excl esp orig cont prev resp sq cu rs wash calif "
        "mass penn tenn conn ariz fla ill mich minn wis okla ont ore kan neb nev ala ark colo "
        "del ga ia ind ky la md mo mont pa tex vt va miss w.va n.y n.j n.c s.c n.h n.m n.d s.d "
        "r.i b.i.d t.i.d q.d vs al cit ibid e w n s ne nw se sw dist dir mgr asst sup ct cir",
        "the a an he she it they we i you this that these those there then but and so what when "
        "where why how who if in on at after before my his her our your their its as for yet no "
        "yes now not nobody everyone everybody nothing everything something someone one some "
        "all both most many another each every once since while although though because until "
        "unless with from by to of or nor however meanwhile instead thus perhaps maybe later "
        "soon finally suddenly still even only here did do does is are was were have has had "
        "can could will would should let let's don't didn't please turn go call meet today "
        "tomorrow yesterday two three such few several nearly almost about over under during "
            "despite according then we're it's he's she's i'm they're that's there's yours "
            "mine ours hers theirs you're we've "
        "i've isn't wasn't can't won't",
    ),
    "es": _romance_table("es", spanish),
    "fr": _romance_table("fr", french),
}  # fmt: skip
STOP_TABLES["en"] = replace(
    STOP_TABLES["en"], within=STOP_TABLES["en"].within | frozenset(_ENGLISH)
)


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
    kind = "digit" if word[0].isdecimal() else "lower" if word[0].islower() else "capital"
    return Following(kind, word.removesuffix("'s").removesuffix("’s"), found[3] or "")


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
    if names_follow and next_.word.lower() not in STOP_TABLES[language].starters:
        return "abbreviation"
    return "both"


def is_certain_end(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a candidate (marks, what closes, white space) ends a sentence beyond doubt."""
    start, end = match.span()
    after = text[end : end + 1]
    mark = text[match.end(1) - 1]
    if after.islower() or not after:
        return False
    if after in OPEN or after in "-–—":
        following = text[end : end + 20].lstrip(OPEN + "-–— ")
        if not following or following[0].islower() or not following[0].isalnum():
            return False
    elif not after.isalnum():
        return False
    if mark != ".":
        return True
    if match.end(1) - start > 1:
        return not after.isdecimal()
    return _is_plain_end(text, start, after, language)


def _is_plain_end(text: str, start: int, after: str, language: str) -> bool:
    """Whether the word before a full stop is no abbreviation beyond doubt."""
    if text[start - 1 : start].isdecimal():
        # A number ends a sentence; one that begins it is an item's of a list.
        found = _LAST_PIECE.search(text, max(0, start - 41), start)
        word = found[0] if found else ""
        lead = text[max(0, start - 60) : start - len(word)].rstrip()
        return lead[-1:].isalnum() or (len(word) > 1 and bool(lead))
    return _is_plain_word(text, start, after, language)


def _is_plain_word(text: str, start: int, after: str, language: str) -> bool:
    if text[start - 1 : start] in _AFTER_WORDS:
        return True
    # Of a compound the last piece counts: "well-known".
    found = _LAST_PIECE.search(text, max(0, start - 41), start)
    word = found[0] if found else ""
    if len(word) < 2 or not word.isalpha() or (after.isdecimal() and word[0].isupper()):
        return False
    if language == "en":
        if len(word) < 4 and not (word.islower() or word.isupper()):
            return False
    elif len(word) < 3 or not word[-1].islower():
        return False  # EE. UU., av. J.-C.
    if text[start - len(word) - 1 : start - len(word)] == ".":
        return False
    return not STOP_TABLES[language].is_known(word.lower())


def is_after_plain_word(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a candidate stands behind a number or a word that no recogniser takes.

    Something to read must follow it; before a small letter the word may be a unit ("12 pcs. left").
    """
    start = match.start()
    after = text[match.end() : match.end() + 12].lstrip(OPEN + "-–— ")[:1]
    if not after.isalnum() or (
        after.islower() and _COUNTED.search(text, max(0, start - 41), start)
    ):
        return False
    return text[start - 1 : start].isdecimal() or _is_plain_word(text, start, after, language)


def is_certain_inside(text: str, match: re.Match[str], language: str) -> bool:
    """Whether a candidate ends no sentence beyond doubt, in a text that uses capitals."""
    after = text[match.end() : match.end() + 1]
    if after in OPEN or after in "-–—>|":
        after = text[match.end() : match.end() + 12].lstrip(OPEN + "-–—>| ")[:1]
        return after.islower()
    if after.islower() or after in ",;:":
        return True
    if not after.isupper() or match[0][:2] != ". ":
        return False
    return text[max(0, match.start() - 5) : match.start()].endswith(ALWAYS_TITLES.get(language, ()))


ALWAYS_TITLES = {"en": (" Mr", " Mrs", " Ms", "\nMr", "\nMrs", '"Mr', '"Mrs', "“Mr", "“Mrs")}


def needs_recognizers(text: str, language: str) -> bool:
    """Whether a window may hold anything but plain words."""
    trigger = TRIGGERS.get(language)
    if trigger is None or trigger.search(text):
        return True
    # The last word may be an abbreviation whose stop ends the sentence too.
    bare = text.rstrip(CLOSE)
    return bare.endswith(".") and STOP_TABLES[language].is_known(last_word(bare, len(bare) - 1))


TRIGGERS = {
    "en": re.compile(
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
        r"(?<=[a-z] )(?:A(?=[ .!?,;:)])|I(?=[.!?]))|"
        r"\([ivx]\)|[A-Z][a-z]+,? I(?![\w'])|[:;][-'o^]?[()DPpOo/|\][](?=\s|$|[.,!?])"
    )
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
    if follows[0].islower():
        if closed or marks[-1] != "." or len(marks) > 1:
            return False
        return careless and not _is_abbreviated(word, table)
    if marks[-1] != "." or len(marks) > 1 or closed:
        return True
    if "://" in word or word.startswith("www."):
        return True
    if word in table.leading:
        return False
    if _NUMBERED_ITEM.match(text[:start] + ".") and len(text) > start + 2:
        return False
    if (
        language != "en"
        and word in table.before_number
        and (follows[0].isdigit() or _ROMAN.match(follows))
    ):
        return not (word != "no" or follows[0].isdigit())
    if len(word) == 1 and word.isalpha() and text[start - 1].isupper():
        return _ends_after_letter(text, start, follows, language)
    return True


def _ends_after_letter(text: str, start: int, follows: str, language: str) -> bool:
    """Whether a capital and a full stop are the sentence's last word, and no initial."""
    if language == "en" and _NO_INITIAL.search(text, max(0, start - 16), start - 1):
        return True
    first = re.match(r"[\w'’]+", follows)
    return bool(first and first[0].lower() in STOP_TABLES[language].starters)


def last_word(text: str, end: int) -> str:
    """The word that ends at a position, in lower case; of `l'art` the last piece."""
    found = _LAST_WORD.search(text, max(0, end - 41), end)
    word = found[0].lower() if found else ""
    return word if "://" in word else re.split(r"[-–—/'’](?=\w+\Z)", word)[-1]


def is_numbered_item(text: str, start: int, end: int) -> bool:
    """Whether a stretch is a list's `2.` alone."""
    return bool(_NUMBERED_ITEM.match(text, start, end))


def _is_abbreviated(word: str, table: StopTable) -> bool:
    return len(word) <= 2 or "." in word or word[0].isdigit() or table.is_known(word)
