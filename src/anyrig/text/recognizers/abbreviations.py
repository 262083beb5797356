"""Shortened words: titles, streets and saints, states, directions, doses, Latin.

Each decides with what follows whether its full stop also ends the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from anyrig.text import values as v
from anyrig.text.recognizers import LazyPattern, Proposal, Stop, per_language, recognizer
from anyrig.text.recognizers.common import (
    after,
    before,
    capitalize,
    close,
    is_shouted,
    is_span,
    one_of,
    word_after,
)
from anyrig.text.recognizers.languages import TABLES, english, spanish
from anyrig.text.recognizers.languages.shared import CAPITAL, SMALL, ShortForm
from anyrig.text.recognizers.stops import (
    OTHER_NUMBER,
    STOP_TABLES,
    SURELY_CUT,
    WORDS_BEFORE_NUMBERS,
    Following,
    begins_sentence,
    look_behind,
    stop_after,
)

_STARTERS = STOP_TABLES["en"].starters
_NO_STREETS = frozenset(
    "Lake Mount Mt Port Fort Dear Professor And But Sault Mont The Near Upper Great Meet See Visit "
    "When If Then So Then For With From In On At To Of By Our His Her My Their That This".split()
)
_STREET_PARTS = frozenset(
    "NW NE SW SE N.W N.E S.W S.E N S E W Station Bridge North South East West Apt Suite "
    "Ste Unit Bldg Market Pier "
    "Church Theater Theatre School Cafe Hospital".split()
)
_ON = LazyPattern(
    r"\b(?:on|along|down|up|off|at|of|from|to|near|and|between|past|via|cross|crosses|onto|toward|"
    r"towards|take|takes|took|in|by|over|across|behind|walked|is|was) (?:[NSEW]\.? "
    r")?(?:[A-Z][\w']+ ){0,2}$",
    re.IGNORECASE,
)


def _word_before(match: re.Match[str]) -> tuple[str, bool]:
    """The word before, and whether it begins the sentence."""
    lead = before(match, 60).rstrip(" ")
    found = re.search(r"([\w'.-]+)$", lead)
    if not found:
        return "", True
    earlier = lead[: found.start()].rstrip(" \"'(")
    titled = re.search(r"\b(?:Mrs?|Ms|Dr|St|Prof|Jr|Sr|Rev|Gen|Col|Capt|[A-Z])\.$", earlier)
    return found[1], not earlier or (earlier[-1] in ".!?:\n" and not titled)


def _is_title(follows: Following) -> bool:
    return follows.word.endswith(".") and follows.word[:-1] in {
        *english.TITLES,
        "Dr",
        "Mr",
        "Mrs",
        "Ms",
    }


def _is_street(match: re.Match[str], follows: Following) -> bool:
    """Whether the word before is a street's name, and what follows is no person's."""
    word, starts = _word_before(match)
    numbered = re.search(
        r"\b\d+[A-Z]? (?:[NSEW]\.? )?(?:[A-Z][\w'-]+ ?){1,3}$", before(match, 60)
    ) or re.match(r"\d+(?:st|nd|rd|th)$", word)
    if numbered or re.search(r"\bSt\. [A-Z]\w+ $", before(match, 24)):
        # The 1st St. Patrick's parade.
        return not (word[-1:].islower() and word[:1].isdecimal() and _is_saints(match, follows))
    if re.match(r"[A-Z]$", word) and _ON.search(before(match, 24).removesuffix(word + " ")):
        return True
    if not re.match(r"[A-Z][\w'-]+$", word):
        return False
    if follows.kind != "capital":
        return not starts or follows.kind == "nothing"
    if word in _NO_STREETS:
        return False
    if follows.word.rstrip(".") in _STREET_PARTS or _is_title(follows):
        return True
    if follows.word.lower() in _STARTERS and not re.match(r" [A-Z]\.", after(match, 3)):
        return True
    placed = bool(_ON.search(before(match, 40).removesuffix(word + " ")))
    name = follows.word.rstrip(".")
    if match[0].startswith("St"):
        if name in english.SAINTS:
            return placed and bool(follows.second[:1].islower()) and word not in english.SAINTS
        verb = follows.second[:1].islower()
        return (
            placed or (verb and not word.lower().endswith(("ing", "ed")))
        ) and word not in english.SAINTS
    return placed and not starts


def _is_saints(match: re.Match[str], follows: Following) -> bool:
    """Whether what follows belongs to a saint."""
    owned = re.match(r" [A-Z][a-z]+['’]s", after(match, 24))
    return follows.word in english.SAINTS and owned is not None


_IN_STREET = LazyPattern(
    r"(?:^|[.!?] )(?:At|On|In|Near|From|By|Along|Off|Beyond|Past) "
    r"(?:[NSEW]\. )?(?:[A-Z\d][\w'-]* ){1,3}$"
)
"""A street that only opens its sentence."""
_PEOPLE_FOLLOW = LazyPattern(r" \d+ (?!blocks|feet|miles|yards|doors)[a-z]{3,}s ")


def _street_stop(match: re.Match[str]) -> Stop:
    if not match[0].endswith("."):
        return "none"
    counts = _PEOPLE_FOLLOW.match(match.string, match.end())  # Fifth Ave. 12 buses stop
    follows = look_behind(match.string, match.end())
    named = follows.kind == "capital" and not begins_sentence(follows)
    if named and _IN_STREET.search(before(match, 48)) and not _is_title(follows):
        return "abbreviation"  # At 5th Ave. Bob turned.
    return stop_after(
        match.string, match.end(), continues=_STREET_PARTS, digits_follow=counts is None
    )


@recognizer("abbreviation", r"\bSt\b\.?(?!\w)", needs=("St",), weight=1.2)
def propose_street_or_saint(match: re.Match[str]) -> Proposal | None:
    follows = look_behind(match.string, match.end())
    if _is_street(match, follows):
        return Proposal(v.Abbreviation("Street"), stop=_street_stop(match))
    rest = after(match, 1)
    if follows.kind == "capital" or rest == "-":
        return Proposal(v.Abbreviation("Saint"), stop="abbreviation")
    word, _ = _word_before(match)
    return (
        Proposal(v.Abbreviation("Street"), stop=_street_stop(match)) if word[:1].isupper() else None
    )


@recognizer("abbreviation", r"\bDr\b\.?(?!\w)", needs=("Dr",), weight=1.2)
def propose_doctor_or_drive(match: re.Match[str]) -> Proposal | None:
    follows = look_behind(match.string, match.end())
    if _is_street(match, follows):
        return Proposal(v.Abbreviation("Drive"), stop=_street_stop(match))
    if follows.kind == "capital":
        alone = follows.word in "He She It They We I You The His Her But".split()
        return Proposal(v.Abbreviation("Doctor"), stop="both" if alone else "abbreviation")
    if "." in match[0]:
        return Proposal(
            v.Abbreviation("Doctor"), stop="both" if follows.kind == "nothing" else "abbreviation"
        )
    return None


@recognizer(
    "abbreviation",
    rf"\b({one_of(english.TITLES)})\.(?= ?[A-Z]| \d(?:st|nd|rd|th) |"
    rf" and (?:Mr|Ms|Dr|Prof|Mrs)| & | \")|\b(Mrs|Mr|Ms|"
    rf"Prof|Sgt|Capt|Lt|Mt)(?= [A-Z][a-z])",
    needs=english.TITLES,
    weight=1.3,
)
def propose_title(match: re.Match[str]) -> Proposal | v.Value | None:
    short = match[1] or match[2]
    word, starts = _word_before(match)
    if short == "Sr" and word[:1].isupper() and not starts:
        return Proposal(v.Abbreviation("Senior"), stop=_name_stop(match))
    if short == "Sr" and _RANKED.search(before(match, 12)):
        return Proposal(v.Abbreviation("Senior"), stop="abbreviation")
    rest = after(match, 2)
    if short in ("Pt", "Sec") and not rest.startswith(" "):
        return None
    if short == "Rev" and re.match(r" [A-Z]\b(?!\.| [A-Z])", after(match, 4)):
        return Proposal(v.Abbreviation("Revision"), stop="abbreviation")
    if short in ("Fr", "Ft", "Pt", "Sec", "Det", "Brig", "Col", "Br", "Ven") and not re.match(
        r" [A-Z][a-z.]", after(match, 3)
    ):
        return None
    follows = look_behind(match.string, match.end())
    ranked = short in ("Lt", "Sgt", "Maj", "Capt") and re.match(r"\d(?:st|nd|rd|th)$", word)
    if (word[:1].isdigit() and word[-1] != "." and not ranked) or (
        short in ("Gen", "Ft", "Br", "Fr", "Det") and follows.word.lower() in _STARTERS
    ):
        return None
    space = "" if not match[1] or rest.startswith(" ") else " "
    stop: Stop = "abbreviation" if match[1] else "none"
    if match[1] and follows.word.lower() in _STARTERS and _MADE.search(before(match, 16)):
        stop = "both"  # He made Sgt. Then he left.
    return Proposal(v.Abbreviation(english.TITLES[short] + space), stop=stop)


@recognizer(
    "abbreviation",
    rf"(?<![\w.])({one_of(english.FIRST_NAMES)})\.(?!\w)",
    needs=english.FIRST_NAMES,
    weight=1.3,
)
def propose_first_name(match: re.Match[str]) -> Proposal | None:
    if match[1] == "Matt" and re.match(r" \d", after(match, 2)):
        return None  # the gospel
    stop = stop_after(match.string, match.end(), names_follow=True)
    return Proposal(v.Abbreviation(english.FIRST_NAMES[match[1]]), stop=stop)


_MADE = LazyPattern(r"\b(?:an?|made|became|rank of|as|promoted to|was|is) $")
_RANKED = LazyPattern(r"\b(?:[Aa]n?|[Tt]wo|[Aa]s|[Ee]very|[Oo]ur|[Ff]or|new|hiring|promoted to) $")
"""Before a rank, and no nun: a Sr. Buyer."""

_MONTH_OR_YEAR = (
    r"(?:(?:[Cc]a?|abt|bef|aft)\.? )?(?:\d{1,2} )?"
    r"(?:(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]{0,6}\.? )?\d"
)
_LIFE = {
    "b": ("born", LazyPattern(rf" (?:{_MONTH_OR_YEAR}|(?:in|at|on) [A-Z\d])")),
    "d": ("died", LazyPattern(rf" (?:{_MONTH_OR_YEAR}|A\.?D\.? ?\d|(?:in|at|on|of|unm|young)\b)")),
    "def": ("defeated", LazyPattern(r" (?:[A-Z][\w'.-]+ ){1,3}\d{1,3}[-–]\d")),
    "m": ("married", LazyPattern(
        rf" (?:\(?[123](?:st|nd|rd)?\b|{_MONTH_OR_YEAR}|(?:in|at|on) [A-Z\d]|[A-Z][a-z]+\.? [A-Z])"
    )),
    "s": ("son", LazyPattern(r" of [A-Z]")),
}  # fmt: skip
_LIFE_BEFORE = LazyPattern(
    r"(?:^|[,;)(] |\bwas |\bwere |\b[Hh]e |\b[Ss]he |\bwho |\band |\b[A-Z]\w+ )$"
)


@recognizer("abbreviation", r"(?<![\w.'])([bdms]|def)\.(?= )", needs=_LIFE, weight=1.4)
def propose_life(match: re.Match[str]) -> Proposal | None:
    """Of genealogies: `b. 1802, m. Ann Cole, d. at Bath`; of matches: `Nadal d. Federer 6-4`."""
    words, follows = _LIFE[match[1]]
    if match[1] == "d" and _LIFE["def"][1].match(match.string, match.end()):
        words, follows = _LIFE["def"]
    if not follows.match(match.string, match.end()) or not _LIFE_BEFORE.search(before(match, 24)):
        return None
    return Proposal(v.Abbreviation(words), stop="abbreviation")


@recognizer(
    "abbreviation",
    r"(?<=\d)[ -]?(?:y\.o\.|y/o|yo)(?= (?:[a-z]|[MF]\b)|[,;)])",
    needs=("y", "yo"),
    digits=True,
    weight=1.5,
    at="any",
)
def propose_year_old(match: re.Match[str]) -> Proposal:
    return Proposal(
        v.Abbreviation(" year old"), stop="abbreviation" if match[0].endswith(".") else "none"
    )


@recognizer(
    "abbreviation",
    r"(?<=[½\d])-?(BR|BA|BD|br|ba|bdrm)(?=[/,.;) ]|$)",
    needs=("BR", "BA", "BD", "br", "ba", "bdrm"),
    digits=True,
    weight=1.5,
    at="any",
)
def propose_rooms(match: re.Match[str]) -> v.Value:
    """Of a flat: 2BR/1BA."""
    return v.Abbreviation(" bath" if match[1].lower() == "ba" else " bedroom")


def _name_stop(match: re.Match[str]) -> Stop:
    """After `Jr.`, `Inc.`: a capital may still belong to the name."""
    follows = look_behind(match.string, match.end())
    if follows.kind != "capital":
        return stop_after(match.string, match.end())
    if follows.word.lower() in _STARTERS or _is_title(follows):
        return "both"
    if follows.word.rstrip(".") in english.AFTER:
        return "abbreviation"
    verb = re.match(r"[a-z]+(?:s|ed)?\b", follows.second)
    office = follows.word in _OFFICES
    return (
        "both"
        if verb and not office and follows.second not in ("of", "and", "for", "&")
        else "abbreviation"
    )


_OFFICES = frozenset(
    "Chief Chairman Chairwoman Chair President Vice Executive Director CEO CFO CTO Spokesman "
    "Spokeswoman Founder Co-founder Senior Analyst Stadium Park High School Elementary Memorial "
    "Award Foundation Boulevard Avenue Street Drive Highway Day Center Hall Library Ltd "
    "Limited Inc "
    "KG GmbH Group Holdings".split()
)
# Of the numbered, those that are words of their own.
_WORDS_BEFORE = frozenset(
    "No Nos Art Sec App Tab Ex Lot no nos art sec ed par para app tab ex est ser ver apt fig figs "
    "chap sect op lat vols c d l ll n p r v Pl pl Reg reg Res Ord Str Unit col Col Mk "
    "Long arts Arts "
    "Rev gr Gr dist pts".split()
)


@recognizer(
    "abbreviation",
    r"(?<![\w.])([A-Za-z]{1,8})\. ?(?=#?\(?(?:[~≈<>≤≥±+−-] ?)?\d|[IVX]+\b(?!')|"
    r"§|[A-H](?=[ ,;:).]|$)|"
    r"(?:(?!ill)[ivxl]{2,7}|[vx])(?=[-–,;:)]|\.? [a-z]|\.$|\. [A-Z])|[A-Z]{1,3}-?\d)",
    needs=english.NUMBERED,
    weight=1.3,
)
def propose_word_before_number(match: re.Match[str]) -> Proposal | None:
    if match[1] not in english.NUMBERED or not _is_numbering(match):
        return None
    short, rest = match[1], after(match, 12)
    shown = short == "Ex" and re.match(r"(?![IVX])[A-Z]", rest)
    words = "Exhibit" if shown else english.NUMBERED[short]
    plural = re.match(r"(\d+) ?([-–—]|and|&) ?(\d+)", rest)
    if (
        plural
        and (plural[2] != "-" or is_span(plural[1], plural[3]))
        and short in "p ch Ch sec Sec fig Fig vol Vol art Art no No v l P".split()
    ):
        words += "s"
    bare = match[0].rstrip(" ")
    space = "" if len(bare) < len(match[0]) else " "
    return Proposal(
        v.Abbreviation(words + space), end=match.start() + len(bare), stop="abbreviation"
    )


def _is_numbering(match: re.Match[str]) -> bool:
    """Whether what follows is the number or the letter of a thing: `fig. 3`, `Ex. A`."""
    short, rest, lead = match[1], after(match, 12), before(match, 30)
    spoken = re.match(r"I(?:['’]| (?!of\b|and\b|to\b)[a-z])", rest)
    if (short in _WORDS_BEFORE or short == "P") and spoken:
        return False  # The answer is no. I asked why.
    if re.match(r"[A-Z]+-?\d", rest) and short not in "No no Nos nos Fig fig Tab".split():
        return False
    if short == "Rd" and re.search(r"[A-Z\d][\w'.-]* $", lead):
        return False
    if re.match(r"[A-H](?:[ ,;:).]|$)", rest) and short not in _LETTERED:
        return False
    if short in ("n", "l", "d", "b", "r", "v", "Q", "c", "P") and not rest[:1].isdigit():
        return False
    if (short in WORDS_BEFORE_NUMBERS or short == "No") and " " in match[0]:
        other = OTHER_NUMBER.match(match.string, match.end())
        listed = other is not None and other[0][-1].isupper()
        named = short == "No" and re.search(r"[a-z,] $", lead)  # beat No. 8. Fans cheered.
        named = named or (listed and short not in ("no", "No"))  # See sec. 4. Then call.
        if short not in ("no", "No") and _CITED.search(lead):
            return True  # at art. 5 of the treaty
        if listed and short == "no" and not _ANSWERED.search(lead):
            return True  # It was no. 2. Nobody knew.
        if other and not (named and listed) and not _NUMBERED_PAPER.search(lead):
            return False
    return (
        short != "Col"
        or rest[:1].isdigit()
        or bool(re.search(r"\b(?:[Ss]ee|[Ii]n|[Pp]\.|,) ?$", lead))
    )


_NUMBERED_PAPER = LazyPattern(
    r"\b(?:order|invoice|account|acct\.|policy|case|serial|patent|part|model|licen[cs]e|permit|file|"
    r"reference|ref\.|cheque|check|passport|flight|contract|bill|lot|item) $",
    re.IGNORECASE,
)
_ANSWERED = LazyPattern(
    r"(?i)(?:\banswer(?:s|ed)?(?: is| was|:)?|\bsa(?:y|ys|id)|\b(?:is|was) (?:a|still|always)|"
    r"[,?:;]|"
    r"\ba|\bmeans?|\bor|\bshe|\bhe|\bthey|\btold \w+|\bhave|\bbe) $"
)
_CITED = LazyPattern(r"\b(?:at|in|under|of|see|by|per|to|with|cf\.|from) (?:the )?$", re.IGNORECASE)
_LETTERED = frozenset(
    "Sched Exh App Fig Apt Bldg Rm Sec Ex Att Ste Blk Grp Gp Div Pl Encl Ques Prob Cat Ann "
    "Doc".split()
)
"""Of these, what a letter may follow as well: `Ex. A`."""


_LATIN = {
    "e.g.": "for example,", "eg.": "for example,", "i.e.": "that is,", "ie.": "that is,",
    "E.g.": "For example,", "I.e.": "That is,",
}  # fmt: skip


@recognizer(
    "abbreviation",
    r"(?<![\w.])(?:[Ee]\.g\.|eg\.|[Ii]\. ?e\.|ie\.),?",
    needs=("e", "E", "i", "I", "eg", "ie"),
    weight=1.6,
)
def propose_latin(match: re.Match[str]) -> Proposal:
    return Proposal(
        v.Abbreviation(_LATIN[match[0].replace(" ", "").rstrip(",")]), stop="abbreviation"
    )


# Words for letters with points, wherever they stand; capitals in a row are spelled.
_FIXED = {
    "op. cit.": "op cit", "Op. cit.": "Op cit", "Loc. cit.": "Loc cit", "s.v.": "SV",
    "Fed. R. Civ. P.": "Federal Rule of Civil Procedure",
    "Fed. R. Crim. P.": "Federal Rule of Criminal Procedure",
    "Fed. R. Evid.": "Federal Rule of Evidence", "et al.": "et al", "q.v.": "which see", "D.Phil.":
    "D Phil",
    "M.Phil.": "M Phil", "Psy.D.": "Psy D", "r.p.m.": "revolutions per minute",
    "m.p.h.": "miles per hour", "Litt.D.": "Litt D", "o.k.": "okay", "p.a.": "per annum",
    "w.r.t.": "with respect to", "A.k.a.": "Also known as", "a.k.a.": "also known as",
    "loc. cit.": "loc cit", "et seq.": "et seq", "et seqq.": "et seq", "viz.": "namely",
    "b.i.d.": "twice a day", "t.i.d.": "three times a day", "q.i.d.": "four times a day",
    "q.d.": "once a day", "p.r.n.": "as needed", "p.o.": "by mouth", "q.h.": "every hour",
    "i.v.": "IV", "i.m.": "IM", "s.c.": "subcutaneously", "s.l.": "under the tongue",
    "q.h.s.": "at bedtime", "h.s.": "at bedtime", "a.c.": "before meals", "p.c.": "after meals",
    "q.o.d.": "every other day", "sq. ft.": "square feet", "fl. oz.": "fluid ounces",
    "sq. mi.": "square miles", "sq. in.": "square inches", "n.d.": "no date",
    "Ph.D.": "PHD", "PhD.": "PHD", "Ph. D.": "PHD", "B.Sc.": "BSC", "M.Sc.": "MSC", "Ed.D.": "EDD",
    "LL.B.": "LLB", "LL.M.": "LLM", "n.b.": "NB", "N.b.": "NB", "c.v.": "CV", "Ph.D.s": "PHD",
    "P.P.S.": "PPS", "Ed.M.": "EDM", "Th.D.": "THD",
    "Lt. j.g.": "Lieutenant junior grade", "Attn.": "Attention",
}  # fmt: skip
_LEADING = frozenset(
    (
        "s.v.",
        "a.k.a.",
        "A.k.a.",
        "Fed. R. Civ. P.",
        "Fed. R. Crim. P.",
        "Fed. R. Evid.",
        "Lt. j.g.",
        "Attn.",
    )
)
"""Of these, what a name or a number follows."""


@recognizer("abbreviation", rf"(?<![\w.])(?:{one_of(_FIXED)})(?!\w)", needs=_FIXED, weight=1.6)
def propose_dotted_phrase(match: re.Match[str]) -> Proposal:
    words = _FIXED[match[0]]
    if match[0] in _LEADING:
        return Proposal(
            v.Letters(words) if words.isupper() else v.Abbreviation(words), "abbreviation"
        )
    value: v.Value = (
        v.Letters(words, "s" if match[0].endswith("s") else "")
        if words.isupper()
        else v.Abbreviation(words)
    )
    return close(value, match, digits_follow=match[0] not in _FIXED_UNITS)


_FIXED_UNITS = ("r.p.m.", "m.p.h.", "p.a.", "sq. ft.", "fl. oz.", "sq. mi.", "sq. in.")
"""Of these, units: a number behind them begins a sentence."""


@recognizer(
    "abbreviation",
    rf"(?<=[a-z][ -])({one_of(english.COUNTED)})\.(?!\w)",
    needs=english.COUNTED,
    weight=1.4,
)
def propose_unit_behind_word(match: re.Match[str]) -> Proposal | None:
    """A unit behind a number that is written as a word: `two min. later`, `a half-mi. run`."""
    number = re.search(r"([A-Za-z]+)[ -]$", before(match, 14))
    if not number or number[1].lower() not in english.NUMBER_WORDS:
        return None
    noun = english.COUNTED[match[1]]
    single = number[1].lower() in ("one", "half") or before(match, 1) == "-"
    plural = {"foot": "feet", "inch": "inches", "percent": "percent"}.get(noun, f"{noun}s")
    stop = stop_after(match.string, match.end(), digits_follow=False)
    return Proposal(v.Abbreviation(noun if single else plural), stop=stop)


@recognizer(
    "dose",
    r"(?<![\w.])[qQ]\.? ?(\d{1,2})(?: ?[-–] ?(\d{1,2}))? ?(?:h(?:rs?)?|H|(min))\b(?:\.(?= [a-z]))?|"
    r"\b(?:bid|tid|qid|prn|qd|qhs|BID|TID|QID|PRN|QD|QHS)\b(?= for| with| until| x ?\d|[.,;]|$)",
    needs=(
        "q",
        "Q",
        "bid",
        "tid",
        "qid",
        "prn",
        "qd",
        "qhs",
        "BID",
        "TID",
        "QID",
        "PRN",
        "QD",
        "QHS",
    ),
    weight=1.3,
)
def propose_dose(match: re.Match[str]) -> v.Value | None:
    if match[1]:
        hours: v.Value = v.Number(match[1])
        hours = v.Range(hours, v.Number(match[2])) if match[2] else hours
        return v.Phrase(("every", hours, "minutes" if match[3] else "hours"))
    if not re.search(
        r"(?:\d ?(?:mg|mcg|mL|ml|g|tabs?|tablets?|units?|capsules?|U|puffs?|drops?)|"
        r"[qQ]\S{0,6}[hH])"
        r"(?: [a-zA-Z]{2})? $",
        before(match, 20),
    ):
        return None
    words = {
        "bid": "twice a day",
        "tid": "three times a day",
        "qid": "four times a day",
        "prn": "as needed",
        "qd": "once a day",
        "qhs": "at bedtime",
    }
    return v.Abbreviation(words[match[0].lower()])


@recognizer("abbreviation", r"(?<=\d)ff\.?(?!\w)", needs=("ff",), at="needs", digits=True, weight=3)
def propose_following_pages(match: re.Match[str]) -> Proposal:
    """`pp. 14ff.`"""
    return close(v.Abbreviation(" and following"), match)


@recognizer(
    "dose",
    r"(?<=\w )[x×] ?(\d{1,3})(?: ?[-–] ?(\d{1,3}))? ?"
    r"(d|days?|wks?|weeks?|mos?|months?|doses?)\b(\.)?",
    needs="x×",
    digits=True,
    at="any",
    weight=2,
)
def propose_course(match: re.Match[str]) -> Proposal:
    """How long something is taken: `BID x7d`."""
    unit = {"d": "d", "w": "wk", "m": "mo"}.get(match[3][0], "")
    number: v.Number | v.Range = v.Number(match[1])
    number = v.Range(number, v.Number(match[2])) if match[2] else number
    if match[3].startswith("dose"):
        value: v.Value = v.Phrase(("for", number, match[3]))
    else:
        value = v.Phrase(("for", v.Measure(number, unit)))
    return close(value, match)


_OF_NAMES = frozenset("Is Pen Sch Lib Mus Pk Soc Org Comm Cos Div Plt Ch".split())
_NAME_GOES_ON = frozenset("Jr Sr Esq Bn Inf Div Regt Cav Armd".split())
_CONTINUED = frozenset("Inc Ltd Corp Co Bros LLC LLP Plc".split())
_STREETS = frozenset(
    "Ave Av Blvd Rd Ln Pkwy Hwy Sq Ct Pl Ter Cir Expy Tpke Fwy Aly Cres Trl Plz Gdns".split()
)


@recognizer(
    "abbreviation",
    rf"(?<![\w.])({one_of(english.AFTER)})\.(?!\w)|(?<=[a-z] )(Ave|Blvd|Rd|Ln|Pkwy|Hwy|Jr|Inc|Ltd|"
    rf"Corp)\b(?![.\w'])",
    needs=english.AFTER,
    weight=1.1,
)
def propose_word_after_name(match: re.Match[str]) -> Proposal | None:
    short = match[1] or match[2]
    word, _ = _word_before(match)
    named = word[:1].isupper() or word[:1].isdigit() or "&" in before(match, 3)
    if short in english.NAMES_TOO and not named and "," not in before(match, 2) + after(match, 1):
        return None
    if short in _OF_NAMES and not named:
        return None
    follows = look_behind(match.string, match.end())
    if short == "Ste" and follows.kind == "capital" and follows.word.lower() not in _STARTERS:
        return Proposal(v.Abbreviation("Sainte"), stop="abbreviation")
    if short == "Co" and re.match(r"[A-Z]$", follows.word) and match[1]:
        return Proposal(v.Abbreviation("Company"), stop="abbreviation")
    words = english.AFTER[short]
    if not match[1]:
        return Proposal(v.Abbreviation(words))
    if short in _STREETS:
        stop = _street_stop(match)
    elif short in _CONTINUED or short in _NAME_GOES_ON:
        stop = _name_stop(match)
    else:
        stop = stop_after(match.string, match.end(), names_follow=True)
    return Proposal(v.Abbreviation(words), stop=stop)


_CAPITALIZED = sorted(
    {word.capitalize() for word in english.LOWER}
    - {*english.TITLES, *english.FIRST_NAMES, *english.SHORT_STATES, *english.MONTHS}
    - set("Ave Blvd Rd Hwy Corp Inc Ltd Assoc Bldg Dist Admin Exp Mod Sing Resp Grad".split())
)
"""Of those, what a heading or a sentence may begin with: `Wt.: 5 lb.`, `Avail. now`."""
_APOSTROPHED = sorted(
    {form for word in english.LOWER if "'" in word for form in (word, word.capitalize())}
)
"""Those that need no full stop: aff'd, Int'l."""


@recognizer(
    "abbreviation",
    rf"(?<![\w.'])({one_of(english.LOWER)})\.(?!\w)|(?<![\w.'])(vs|approx|etc|dept|govt|hrs|yrs|"
    rf"mins|lbs|{one_of(_APOSTROPHED)})(?![\w.'])|(?<![\w.'])({one_of(_CAPITALIZED)})\.(?=:| "
    rf"[a-z\d$£€]|(?<=Cf\.) |(?<=Pl[sz]\.) |(?<=Avail\.) )",
    needs=english.LOWER,
    weight=1.1,
)
def propose_small_word(match: re.Match[str]) -> Proposal | None:
    short = match[1] or match[2] or match[3]
    follows = look_behind(match.string, match.end())
    words = english.LOWER[short.lower()]
    if match[3] or short[0].isupper():
        words = words.capitalize()
    if not (match[1] or match[3]):
        return Proposal(v.Abbreviation(words))
    short = short.lower() if match[3] else short
    opens = follows.word.lower() in _STARTERS and follows.second[:1].islower()
    half = (short == "approx" and follows.word.lower() in _STARTERS | {"half"}) or (
        short in _INCLUDED and opens
    )
    if short in _INSIDE and follows.kind == "capital" and not half:
        return Proposal(v.Abbreviation(words), stop="abbreviation")
    stop = stop_after(match.string, match.end(), names_follow=short in _KIN)
    if short in _INCLUDED and stop == "both":
        words = _INCLUDED[short]
    if short in english.WORDS_TOO and (stop == "both" or follows.kind == "nothing"):
        return None
    return Proposal(v.Abbreviation(words), stop=stop)


_CLIPPED_ENGLISH = {
    **english.CLIPPED,
    **{word.capitalize(): words.capitalize() for word, words in english.CLIPPED.items()},
}


@recognizer(
    "abbreviation",
    r"(?<![\w.'’-])([A-Za-z]{2,8})\.(?=[,;:]|\)[,;:]|"
    r"\)? [a-z]|()(?: [A-Z]|$))",
    needs=_CLIPPED_ENGLISH,
    weight=0.9,
)
def propose_clipped_word(match: re.Match[str]) -> Proposal | None:
    """`the econ. policy`: no sentence goes on small, and none ends on `fl`."""
    words = _CLIPPED_ENGLISH.get(match[1])
    if words and match[2] is not None:
        if not match[1].islower() or match[1] in english.CLIPPED_LIKE_WORDS:
            return None
        return close(v.Abbreviation(words), match)
    careless = match.string[:1].islower()
    if not words or careless or re.match(r" [a-z]\.(?!\w)", after(match, 5)):
        return None
    if match[1][0].isupper() and re.search(r"\b[A-Z][a-z]*\. $", before(match, 12)):
        return None  # Bibl. Nat., in another language
    return Proposal(v.Abbreviation(words), stop="abbreviation")


_KIN = frozenset("bro bros dau daus abt bef aft nr".split())
"""A name may follow."""
_INCLUDED = {"incl": "included", "excl": "excluded"}
"""At the end of a sentence."""
_INSIDE = frozenset("vs cf exc incl excl esp viz ca approx avail ref acct pls plz".split())
_DIRECTIONS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_CORNERS = {
    "NW": "Northwest", "NE": "Northeast", "SW": "Southwest", "SE": "Southeast",
    "NNW": "north northwest", "NNE": "north northeast", "SSW": "south southwest",
    "SSE": "south southeast", "ENE": "east northeast", "ESE": "east southeast",
    "WNW": "west northwest", "WSW": "west southwest",
}  # fmt: skip
_REGIONS = (
    "Korea|Korean|Koreans|Africa|African|Carolina|Dakota|Virginia|Vietnam|Ireland|"
    "America|American|Sudan|Yemen|"
    "Germany|German|Timor|Hollywood|Bank|Pacific|Atlantic|Sea|Pole|Macedonia|Ossetia|"
    "Asia|Europe|Lothian|Sussex|"
    "Yorkshire|Midlands|Anglia|Side|Coast|London|Bengal|Island|Wales|Australia|Rhine|"
    "Beach|Point|Palm|Texas|Kentucky|Tennessee|Florida|Michigan|Ontario|Canada|England|Scotland|India|"
    "China|France|Italy|Spain|Jerusalem|Berlin|Side|winds?|coast|bank|shore|side|slope|face|wall|gate|"
    "wing|end|entrance|exit|door|porch|window|tower|transept|aisle|elevation|ridge|rim|border|"
    "boundary|edge|half|quarter|quadrant|lawn|lot|fork|branch|stand|stairs|staircase|hemisphere|"
    "corner|terminal|platform|bound|ramp|lanes?"
)


@recognizer(
    "direction",
    r"(?<=\d )([NSEW]) (?=(?:[A-Z][\w'-]+|\d+(?:st|nd|rd|th)) (?:St|Ave|Rd|Blvd|Dr|Ln)\b)|"
    rf"\b([NSEW])\. (?=(?:{_REGIONS})\b|(?:(?:[A-Z][\w'-]+|\d+(?:st|nd|rd|th)) "
    rf"){{1,3}}(?:St|Ave|Rd|Blvd|Dr|Ln|Street|"
    r"Avenue|Road|Drive|Lane|Boulevard|Way|Pkwy|Hwy|Ct|Pl|Cir|Ter|Trl|Sq|Court|Place|Circle|"
    r"Terrace|Trail|Parkway|Highway)\b|\d+(?:st|nd|rd|th)\b)",
    needs=_DIRECTIONS,
    weight=1.7,
)
def propose_direction(match: re.Match[str]) -> Proposal:
    words = _DIRECTIONS[match[0][0]]
    stop: Stop = "abbreviation" if match[0][1] == "." else "none"
    if match[0][0] == "N" and after(match, 7) == "Ireland":
        words = "Northern"
    return Proposal(v.Abbreviation(words), stop, end=match.end() - 1)


_MOVING = LazyPattern(
    r"\b(?:mov(?:ed?|es|ing)|head(?:ed|s|ing)?|turn(?:ed|s|ing)?|winds?|blow(?:s|ing)?|"
    r"blew|miles?|km|kilometers?|"
    r"due|to the|facing|faces|from the|runs?|ran|drift(?:ed|s|ing)?|toward|towards|went|"
    r"go|flew|flies|sail(?:ed|s|ing)?|"
    r"then|track(?:ed|s|ing)?|in the|of the) $",
    re.IGNORECASE,
)


_LIES = LazyPattern(
    r"\b(?:lies?|lay|is|are|was|were|located|situated|stands?|stood|just|far|and|"
    r"area|corner|part) $"
)
_DISTANCE = LazyPattern(
    r"(?:\d ?(?:mi|km|m|yd|ft)\.?|\b(?:miles?|kilomet(?:er|re)s?|met(?:er|re)s?|yards?|feet|"
    r"blocks?|leagues?)) $"
)


_ROAD = LazyPattern(
    r"(?:\b(?:Hwy|Rte|Rt|Highway|Route|US|Road|Interstate)\.? |\bU\.S\. |"
    r"\b(?:I|US|SR|CR|M|A)-)\d+ $"
)


@recognizer(
    "direction",
    r"(?<= )([NSEW])(?:\.(?= (?:of|on|along|to|via|at|from|until|toward)\b)|(?= of [A-Za-z]))|"
    r"(?<=\d )([NSEW])(?:\.(?=[,;:)]| [a-z]))?"
    r"(?=[,;:!?)]|\.?$|\.? (?:[A-Z(]|at|to|toward|near|past|until|and|or|for|is|was))",
    needs=_DIRECTIONS,
    weight=1.6,
)
def propose_direction_from_place(match: re.Match[str]) -> Proposal | None:
    """`5 km N of the lake`, `0.5 mi. E. on Oak`, `Hwy. 101 S. to Calle`, `I-95 N`."""
    lead = before(match, 24)
    moved = match[1] and "." in match[0] and _MOVING.search(lead)
    far = match[1] and _DISTANCE.search(lead[-16:])
    if not (moved or far or _ROAD.search(lead)):
        return None
    stop: Stop = "abbreviation" if match[0].endswith(".") else "none"
    return Proposal(v.Abbreviation(_DIRECTIONS[match[0][0]].lower()), stop=stop)


_STREET_BEFORE = LazyPattern(
    r"\b(?:St|Ave?|Rd|Blvd|Dr|Ln|Ct|Pl|Pkwy|Hwy|Rte|Street|Avenue|Road|Drive|Lane|Boulevard|Way|"
    r"Place|Court|Parkway|Highway|Broadway|Park|Row|Square|"
    r"Terrace|Sq|Ter)\.? $"
)


@recognizer("direction", r"(?<= )([NSEW])\.(?!\w)", needs=_DIRECTIONS, weight=1.6)
def propose_side_of_street(match: re.Match[str]) -> Proposal | None:
    """`St. Clair Ave. W. is long`."""
    if not _STREET_BEFORE.search(before(match, 12)) or re.match(r" ?[A-Z]\.", after(match, 3)):
        return None
    return close(v.Abbreviation(_DIRECTIONS[match[1]]), match, names_follow=True)


@recognizer(
    "direction",
    r"(?:(?<=\b[Ii]n )|(?<=\b[Nn]ear )|(?<=\bacross )|(?<=\bthroughout ))"
    r"([NSEW])\.(?= [A-Z][a-z]{2})|"
    r"(?:(?<=\b[Tt]o )|(?<=\bfrom )|(?<=\bthrough )|(?<=\boutside ))([NSEW])\.(?= (?:"
    r"Bend|Haven|Hampton|Platte|Orange|Las Vegas|Little Rock|Charleston|Lansing|Hartford|"
    r"St\. Louis|St\. Paul|Memphis|Boston|Chicago|Philadelphia|Philly|Brooklyn|Bronx|"
    r"Miami|Dallas|Seattle|Shields|Georgia|Borneo|Sumatra|Oxford|Adams|Andover|Conway|Ronaldsay|Uist)\b)",
    needs=_DIRECTIONS,
    weight=1.6,
)
def propose_part_of_place(match: re.Match[str]) -> Proposal | None:
    """`in S. Boston`, but not `in E. Nesbit's book`."""
    place = re.match(r" ([A-Z][a-z]+)(['’]s)?", after(match, 20))
    if place is None or place[2] or place[1].lower() in _STARTERS:
        return None
    direction = _DIRECTIONS[match[1] or match[2]]
    return Proposal(v.Abbreviation(direction), stop="abbreviation")


@recognizer("direction", r"(?<= )([NS]{1,2}[EW]|[EW][NS][EW])(?!\w)", needs=_CORNERS, weight=1.3)
def propose_corner(match: re.Match[str]) -> v.Value | None:
    street = re.search(r"(?:\w\.|reet|enue|Road|Drive|Place|,) $", before(match, 8))
    moving = _MOVING.search(before(match, 20))
    lies = _LIES.search(before(match, 20)) and after(match, 4).startswith(" of ")
    if not street and not moving and not lies or match[1] not in _CORNERS:
        return None
    words = _CORNERS[match[1]]
    return v.Abbreviation(words if street else words.lower())


@recognizer(
    "state",
    rf"(?<=[a-z], )({'|'.join(english.STATES)})(?![\w.&-])",
    needs=english.STATES,
    weight=1.2,
)
def propose_state(match: re.Match[str]) -> v.Value | None:
    city = re.search(r"[A-Z][\w'.]+, $", before(match, 30))
    # These four are words as well.
    if not city or match[1] in ("OK", "ME", "HI", "ID"):
        return None
    return v.Letters("DC") if match[1] == "DC" else v.Abbreviation(english.STATES[match[1]])


_IN = LazyPattern(
    r"\b(?:[Ii]n|[Ff]rom|[Oo]f|[Tt]o|[Nn]ear|and|[Aa]cross|[Ll]eft|[Tt]hrough|[Ii]nto|"
    r"northern|southern|eastern|western|central|rural|(?:left|bound|headed|heads|moved) for) $"
)


_STATES_FOLLOW = LazyPattern(
    rf"\.,(?: and| or)? (?:{one_of([*english.SHORT_STATES])})\.(?:,| and\b| or\b)"
)
_PLACE_FOLLOWS = LazyPattern(r" (?:State|City|Times|County|Tech|Legislature)\b")


def _is_subject(match: re.Match[str]) -> bool:
    """Whether a state begins its sentence: `Ariz. was hot.`"""
    lead = before(match, 3).strip()
    return (not lead or lead[-1] in ".!?") and bool(
        re.match(r" [a-z]{2,}(?!\.)\b", after(match, 16))
    )


_OF_STATE = LazyPattern(r"\b(?:[Tt]he|[Aa]n?|[Hh]is|[Hh]er|[Tt]heir|[Oo]ur) $")
"""Before a small word a state tells what kind: the Mass. senate."""
_STREET_FOLLOWS = LazyPattern(r" (?:Ave|Av|St|Blvd|Rd|Pkwy|Tpke|Dr)\b")
"""`77 Mass. Ave.`"""


@recognizer(
    "state",
    rf"(?<![\w.])({one_of(english.SHORT_STATES)})\.(?!\w)",
    needs=english.SHORT_STATES,
    weight=1.4,
)
def propose_short_state(match: re.Match[str]) -> Proposal | None:
    lead = before(match, 30)
    city = re.search(r"[A-Z][\w'.-]+(?:, | \()$", lead) or re.match(r", D\.C\.", after(match, 6))
    placed = _IN.search(lead)
    if not city and _STATES_FOLLOW.match(match.string, match.end() - 1):
        return Proposal(v.Abbreviation(english.SHORT_STATES[match[1]]), stop="abbreviation")
    if _STREET_FOLLOWS.match(match.string, match.end()):
        return Proposal(v.Abbreviation(english.SHORT_STATES[match[1]]), stop="abbreviation")
    named = match[1] not in english.STATES_LIKE_WORDS
    if _OF_STATE.search(lead) and re.match(r" [a-z]{3}", after(match, 4)):
        return Proposal(v.Abbreviation(english.SHORT_STATES[match[1]]), stop="abbreviation")
    named = named or bool(re.match(r" (?:is|was|has|had|will|votes?|voted) ", after(match, 8)))
    if named and (_PLACE_FOLLOWS.match(match.string, match.end()) or _is_subject(match)):
        return Proposal(v.Abbreviation(english.SHORT_STATES[match[1]]), stop="abbreviation")
    goes_on = re.match(r" [a-z]", after(match, 2))
    if not city and (not placed or (match[1] in english.STATES_LIKE_WORDS and not goes_on)):
        return None
    return close(v.Abbreviation(english.SHORT_STATES[match[1]]), match)


@recognizer(
    "state",
    rf"(?<![\w.])({one_of(english.DOTTED_STATES)})(?!\w)",
    needs=english.DOTTED_STATES,
    weight=1.5,
)
def propose_dotted_state(match: re.Match[str]) -> Proposal | None:
    lead = before(match, 30)
    city = re.search(r"[A-Z][\w'.-]+, $", lead)
    placed = _IN.search(lead) and match[1] not in "B.C. N.S. P.E.I. S.C. S.D.".split()
    if not city and not placed and not match[1][-2].islower():
        return None
    state = v.Abbreviation(english.DOTTED_STATES[match[1]])
    if _PLACE_FOLLOWS.match(match.string, match.end()):
        return Proposal(state, stop="abbreviation")
    return close(state, match)


_PARTIES = {"D": "Democrat", "R": "Republican", "I": "Independent"}
_STATES_BY_FORM = {
    **english.STATES,
    **{f"{short}.": words for short, words in english.SHORT_STATES.items()},
    **english.DOTTED_STATES,
    **{name: name for name in english.STATES.values()},
}


@recognizer(
    "state",
    rf"(?:(?<=, )|(?<=\())([DRI])[-\u2013]({one_of(_STATES_BY_FORM)})(?!\w)",
    needs=_PARTIES,
    weight=2,
)
def propose_party_and_state(match: re.Match[str]) -> Proposal:
    """Of a member of Congress: `Casey, D-Pa.,`."""
    words = f"{_PARTIES[match[1]]} of {_STATES_BY_FORM[match[2]]}"
    return close(v.Abbreviation(words), match)


def _register_short_forms(language: str, form: ShortForm) -> None:
    """Register a recogniser of a table's written forms, with any spaces."""

    def plain(written: str) -> str:
        text = written.replace(" ", "")
        return text.lower() if form.any_case else text

    known = {plain(key): words for key, words in form.words.items()}
    # Most have a full stop behind their first letters, which is quicker to look for than they are.
    short = [key for key in form.words if re.match(r"[^\W\d_]{1,7}\.", key)]
    other = [key for key in form.words if key not in short]
    stopped = rf"(?=[^\W\d_]{{1,7}}\.)(?:{one_of(short)})"
    choice = "|".join(part for part in (stopped if short else "", one_of(other)) if part)
    choice = choice.replace(r"\ ", " ?")
    end = r"(?:(?<=[.\u00ba\u00aa\u00b0/#])(?!\.\.)|(?![\w']))"

    @recognizer(
        "abbreviation",
        rf"(?<![\w.]){form.lead}(?:{choice}){end}{form.rest}",
        languages=(language,),
        needs=[*known, *((key.lower() for key in form.words) if form.any_case else form.words)],
        flags=re.IGNORECASE if form.any_case else 0,
        weight=form.weight,
    )
    def build(match: re.Match[str]) -> v.Value | Proposal | None:
        written = match[0].rstrip(".")
        capitals = written.isalpha() and written.isupper() and len(written) > 2
        if form.acronyms and capitals and match[0] not in form.words and not is_shouted(match):
            return None
        stop = _decide_stop(language, form, match) if match[0].endswith(".") else "none"
        words = capitalize(known[plain(match[0])], match)
        joined = after(match, 1).isalnum()
        return Proposal(v.Abbreviation(f"{words} " if joined else words), stop)


def _decide_stop(language: str, form: ShortForm, match: re.Match[str]) -> Stop:
    follows = look_behind(match.string, match.end())
    if follows.kind == "nothing":
        return "both"
    if form.ends == "any":
        digits = language == "en"
        return stop_after(match.string, match.end(), language, digits_follow=digits)
    if form.ends == "name":
        return stop_after(match.string, match.end(), language, names_follow=True)
    # A sentence ends before a word that opens one and a small one: Dr. Il vint.
    opens = follows.kind == "capital" and STOP_TABLES[language].opens_sentence(follows.word)
    goes_on = follows.second[:1].islower() or follows.second[:1].isdecimal()
    goes_on = goes_on or "'" in follows.word.replace("’", "'")
    goes_on = goes_on or (not follows.second and len(follows.word) > 2)
    return "both" if form.ends == "title" and opens and goes_on else "abbreviation"


for _language, _table in TABLES.items():
    for _form in _table.SHORT_FORMS:
        _register_short_forms(_language, _form)


# Spanish and French
_SIDES = {
    "es": (r"(?:(?<=\bdel )|(?<=\bal )|(?<=\bel ))", "norte sur este oeste",
           r"vient|aire|rumbo|sopla|orient|hacia|rola"),
    "fr": (r"(?:(?<=\bdu )|(?<=\bau )|(?<=\ble )|(?<=\bl')|(?<=\bl’))", "nord sud est ouest",
           r"vent|souffl|orient|vers|cap|expos|secteur"),
}  # fmt: skip
"""What stands before a letter of the compass, what these mean, and what speaks of the wind."""
_TO_SIDE = LazyPattern(r"\b(?:al|au|à l['’]) ?$")


@per_language(
    "direction",
    lambda language: rf"{_SIDES[language][0]}([NSEO])(?:\b\.?(?= d)|(?=[.,;:!?)]|$))",
    needs="NSEO",
    weight=2,
    at="capital",
)
def propose_side(language: str, match: re.Match[str]) -> Proposal | None:
    """Al N. de Ávila, au S. de la France, el viento viene del N."""
    _, names, winds = _SIDES[language]
    of_place = match.string.startswith(" d", match.end()) and _TO_SIDE.search(before(match, 5))
    if not of_place and not re.search(winds, before(match, 60).lower()):
        return None
    words = dict(zip("NSEO", names.split(), strict=True))
    return Proposal(v.Abbreviation(words[match[1]]), "abbreviation" if "." in match[0] else "none")


_SIDES_BETWEEN = {
    "es": {"NE": "noreste", "NO": "noroeste", "SE": "sureste", "SO": "suroeste", "NW": "noroeste",
           "SW": "suroeste", "NNE": "nornoreste", "NNO": "nornoroeste", "SSE": "sursureste",
           "SSO": "sursuroeste", "ENE": "estenoreste", "ESE": "estesureste", "ONO": "oesnoroeste",
           "OSO": "oessuroeste"},
    "fr": {"NE": "nord-est", "NO": "nord-ouest", "SE": "sud-est", "SO": "sud-ouest",
           "NNE": "nord-nord-est", "NNO": "nord-nord-ouest", "SSE": "sud-sud-est",
           "SSO": "sud-sud-ouest", "ENE": "est-nord-est", "ESE": "est-sud-est",
           "ONO": "ouest-nord-ouest", "OSO": "ouest-sud-ouest"},
}  # fmt: skip


@per_language(
    "direction",
    lambda language: (
        rf"(?:{_SIDES[language][0]}|(?<=iento )|(?<=ientos )|(?<=vent )|(?<=vents ))"
        rf"({one_of(_SIDES_BETWEEN[language])})(?![\w.]\w|\w)"
    ),
    needs=lambda language: _SIDES_BETWEEN[language],
    weight=2,
    at="capital",
)
def propose_side_between(language: str, match: re.Match[str]) -> v.Value:
    """Viento del NE, au SO de Paris."""
    return v.Abbreviation(_SIDES_BETWEEN[language][match[1]])


_VOWELS = frozenset("aeiouyáéíóúüàâèêëîïôöùûœ")
_CLIPPED = (
    rf"(?:(?<![\w.'’-])|(?<=\b[lLdD]['’]))"
    rf"([{CAPITAL}]?[{SMALL}]{{1,9}}[^\W\d_aeiouyáéíóúàâèêëîïôùû])(s?)\."
    rf"(?=[,;:]|\)[,;:. ]| [{SMALL}]| ?:|(?:$| [{CAPITAL}\d]))"
)
_LISTED = LazyPattern(r"(?:[^\W\d_]\.|\d ?[^\W\d_]{1,3}[²³]?\.?), (?:y |et )?$")
"""Behind other short forms: 65 m², 2e ét., asc."""


@per_language("abbreviation", _CLIPPED, needs=["clipped"], at="word", weight=0.9)
def propose_clipped(language: str, match: re.Match[str]) -> Proposal | None:
    """A word cut short before a vowel, where a small letter or a mark shows that it is no end."""
    short = match[1].lower()
    table, rest = TABLES[language], after(match, 1)
    if len(short) < 3 or short in table.STARTERS or match.string[:1].islower():
        return None
    if rest == " " and short in table.WORDS_LIKE_CLIPPED:
        return None
    follows = look_behind(match.string, match.end()).kind
    ends = follows in ("nothing", "capital", "digit")
    lead = before(match, 48)
    masculine = _MASCULINE.search(lead)
    nouns = _complete(short, table.CLIPPED)
    noun = next(nouns, "")
    gender = "m" if masculine else "f" if _FEMININE_LEAD.search(lead) else ""
    if gender and noun and (table.find_gender(noun) == "f") != (gender == "f"):
        noun = next(
            (one for one in nouns if (table.find_gender(one) == "f") == (gender == "f")), noun
        )
    quality = next(iter(_complete(short, table.CLIPPED_ADJECTIVES)), "")
    described = "" if masculine else _find_described(language, lead)
    row = (
        bool(quality and described) and lead.endswith(". ") and match[1].islower()
    )  # chauff. élec.
    surely = match[1].islower() and SURELY_CUT[language].fullmatch(short)
    if ends and not row and not surely and not _LISTED.search(lead):
        return None
    if quality and (described or not noun):
        words = _agree_with(language, quality, described)
    elif noun:
        several = match[2] or _SEVERAL.search(lead)
        words = table.pluralize(noun) if several else noun
    else:
        return None
    if match[1][0].isupper():
        words = words[0].upper() + words[1:]
    priced = re.match(r" \d[\d.,]* ?[€$]", after(match, 12))  # sin asc. 165.000 €
    stop = stop_after(match.string, match.end(), language, digits_follow=priced is None)
    return Proposal(v.Abbreviation(words), stop if ends else "abbreviation")


_MASCULINE = LazyPattern(r"(?i)\b(?:el|del|al|un|su|le|du|au|mon|ton|son|votre|notre) $")
_FEMININE_LEAD = LazyPattern(r"(?i)\b(?:la|una|une|cette|esta|ma|ta|sa) $")
_SEVERAL = LazyPattern(r"(?<![\d.,])(?!1 )[\d ]*\d $")
"""Behind a number: 300 sold."""


def _find_described(language: str, lead: str) -> str:
    """The noun that an adjective stands behind, whole where it is cut short itself."""
    table = TABLES[language]
    joined = re.search(r"(?:,| y| e| et| ou) $", lead)
    for word in reversed(re.findall(r"[^\W\d_]{2,}\.?", lead.rpartition(":")[2])):
        short = word.rstrip(".").lower()
        described = word[-1] == "." and any(_complete(short, table.CLIPPED_ADJECTIVES))
        if described or (short in ("et", "ou", "ed") and word[-1] != "."):
            joined = None if described else joined
            continue
        if joined:
            return ""  # asc. y gar.: another noun
        if word[-1] == ".":
            return next(iter(_complete(short, table.CLIPPED)), "")
        return "" if short in table.STARTERS or short in table.NO_NOUN else short
    return ""


def _complete(short: str, words: Iterable[str]) -> Iterator[str]:
    """The words that go on with a vowel behind what is written of them, or with `r` and one."""
    size = len(short)
    for word in words:
        rest = word[size:] if word.startswith(short) else ""
        if rest[:1] in _VOWELS or (rest[:1] in ("l", "r") and rest[1:2] in _VOWELS):
            yield word


_FEMININE = (
    ("et", "ète"), ("er", "ère"), ("el", "elle"), ("if", "ive"), ("eux", "euse"), ("c", "que"),
    ("en", "enne"),
)  # fmt: skip


def _agree_with(language: str, adjective: str, noun: str) -> str:
    """An adjective with the ending that its noun wants."""
    feminine = TABLES[language].find_gender(noun) == "f" if noun else False
    plural = noun.endswith("s") and not noun.endswith(("sis", "ís"))
    if language == "fr":
        if feminine and not adjective.endswith("e"):
            adjective = next(
                (
                    adjective.removesuffix(end) + new
                    for end, new in _FEMININE
                    if adjective.endswith(end)
                ),
                f"{adjective}e",
            )
        plural = plural and noun not in ("temps", "fois", "mois", "pays", "prix", "corps", "repas")
        return f"{adjective}{'s' if plural else ''}"
    if adjective.endswith("o"):
        adjective = f"{adjective[:-1]}a" if feminine else adjective
        return f"{adjective}s" if plural else adjective
    return f"{adjective}{'es' if adjective[-1] in 'lnr' else 's'}" if plural else adjective


@per_language(
    "abbreviation",
    lambda language: rf"(?<![\w.])(?i:{one_of(TABLES[language].AGREEING)})(?!\w)(?!\.\.)",
    needs=lambda language: TABLES[language].AGREEING,
    weight=1.6,
)
def propose_adjective(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """Temperatura máx.: an adjective where a noun or an article stands before it."""
    table = TABLES[language]
    if match[0] == "inc." and re.match(r" (?:\d|[a-z]\)|de\b)", after(match, 4)):
        return None  # inciso
    lead = re.search(r"(\d ?)?([^\W\d_]+)\.? $", before(match))
    whole = _find_described(language, before(match, 48)) if lead and lead[0][-2] == "." else ""
    if language == "fr" and match[0][0].isupper() and match.start():
        return None  # Bonjour Max.
    noun = whole or (lead[2].lower() if lead and not lead[1] else "")
    if not noun and (earlier := _TEMPERATURE.search(before(match, 60))):
        noun = earlier[1].lower()  # Temperatura máx. 38º, mín. 21º.
    ending = _agreeing_ending(language, noun)
    words = capitalize(table.AGREEING[match[0].lower()] + ending, match)
    if not match[0].endswith("."):
        return v.Abbreviation(words)
    return Proposal(v.Abbreviation(words), stop_after(match.string, match.end(), language))


_TEMPERATURE = LazyPattern(r"\b([Tt]emp[ée]rat[ur]+[ae])\b[^;:!?]{0,30}, $")


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


@recognizer(
    "abbreviation",
    r"(?<!\w)et (?:suiv|ss?)\.(?!\w)",
    languages=("fr",),
    needs=["et"],
    weight=2,
)
def propose_word_behind(match: re.Match[str]) -> v.Value | Proposal:
    """Pages et suivantes, articles et suivants."""
    feminine = re.search(r"\b(?:pp?\.|pages?|fig\.|figures?|sections?|lignes?)[^.]{0,20}$",
                         before(match).lower())  # fmt: skip
    words = f"et suivant{'e' if feminine else ''}s"
    if re.match(r" [A-Z]{2,}\b", after(match)):
        return Proposal(v.Abbreviation(words), "abbreviation")  # et suiv. CGI
    return Proposal(v.Abbreviation(words), stop_after(match.string, match.end(), "fr"))


@recognizer(
    "abbreviation",
    r"(?<!\w)[Cc]/ ?(?=[A-ZÁÉÍÓÚ][a-záéíóú])",
    languages=("es",),
    needs="/",
    weight=2,
    at="any",
)
def propose_street(match: re.Match[str]) -> v.Value:
    return v.Abbreviation("Calle " if match.start() == 0 else "calle ")


# A name or an initial before it, no office: then it is an initial too.
_INITIAL_BEFORE = LazyPattern(
    r"(?:(?<!\w)[A-ZÁÉÍÓÚ]\.?|(?<!\w)(?!Presidente|Señor|Director|Ministro|Doctor|Rector|Alcalde|Rey|"
    r"Profesor|General|El|Al|Del|Los|Un)[A-ZÁÉÍÓÚ][a-záéíóúñ]+) ?$"
)


@recognizer(
    "abbreviation",
    r"(?<![\w.])(?:D|S|P|M)\.(?=\s[A-ZÁÉÍÓÚ][a-záéíóúñ]+)|(?<![\w.])P\.?º(?=\s)|"
    r"(?:(?<=ante, )|(?<=ado, )|(?<=actor, )|(?<=contra )|(?<=perito )|(?<=testigo ))"
    r"D\.(?=\s[A-Z]\.)",
    languages=("es",), weight=1.5, at="capital",
)  # fmt: skip
def propose_don(match: re.Match[str]) -> v.Value | Proposal | None:
    written = match[0][0]
    lead = before(match, 30)
    if "º" in match[0]:
        return v.Abbreviation("paseo")
    if _INITIAL_BEFORE.search(lead):
        return None
    if written == "D" and word_after(match).lower() in spanish.STARTERS:
        return None  # La vitamina D. Yo prefiero
    if written == "P" and not re.search(
        r"(?:\b(?:[Ee]l|[Aa]l|[Dd]el|[Uu]n|[Nn]uestro|[Ee]se)|do\.) $", lead
    ):
        return None
    if written == "M" and not re.search(r"\b(?:[Ll]a|Rvda\.) $", lead):
        return None
    words = {"D": "don", "S": "san", "P": "padre", "M": "madre"}[written]
    initials = re.match(r"\s[A-Z]\.", after(match, 3))
    value = v.Abbreviation(capitalize(words, match))
    return Proposal(value, "abbreviation", weight=5 if initials else None)


@recognizer(
    "abbreviation",
    rf"(?<!\w)({one_of(spanish.WOMENS_TITLES)})(?= ([A-ZÁÉÍÓÚ][{SMALL}]+)(?: ([A-ZÁÉÍÓÚ]))?)",
    languages=("es",), needs=spanish.WOMENS_TITLES, weight=1.6,
)  # fmt: skip
def propose_title_of_woman(match: re.Match[str]) -> v.Value | Proposal | None:
    """A woman's first name follows."""
    name = match[2].lower()
    called = re.search(r"\b(?:[Ll]a|[Uu]na|[Ss]ra\.) $", before(match, 5))
    if match[1].islower() and not called:
        return None
    if not called and name not in spanish.WOMENS_NAMES and not (name.endswith("a") and match[3]):
        return None
    words = capitalize(spanish.WOMENS_TITLES[match[1]], match)
    return Proposal(v.Abbreviation(words), "abbreviation")


@per_language("abbreviation", r"(?<!\w)etc\.{3,}", needs=("etc",), weight=2)
def propose_closing_word(language: str, match: re.Match[str]) -> v.Value:
    return v.Abbreviation("etcétera..." if language == "es" else "et cetera...")


@recognizer(
    "law",
    r"(?:(?<=rticle )|(?<=rticles )|(?<=rt\. )|(?<=\d et )|(?<=\d ou ))([LRD])\.(?= ?\d)",
    languages=("fr",),
    weight=2,
)
def propose_law_letter(match: re.Match[str]) -> v.Value | Proposal:
    return Proposal(v.Letters(match[1]), "abbreviation")
