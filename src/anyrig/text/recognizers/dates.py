"""Days, months, years, decades and eras."""

from __future__ import annotations

import re

from anyrig.text import values as v
from anyrig.text.recognizers import (
    RECOGNIZED_LANGUAGES,
    LazyPattern,
    Proposal,
    Stop,
    per_language,
    recognizer,
)
from anyrig.text.recognizers.common import (
    DASH,
    DOT,
    after,
    before,
    capitalize,
    close,
    one_of,
    word_before,
)
from anyrig.text.recognizers.languages import ROMANCE, TABLES, english, spanish
from anyrig.text.recognizers.languages.shared import SMALL
from anyrig.text.recognizers.stops import STOP_TABLES, look_behind, stop_after
from anyrig.text.roman_numerals import roman_value

_MONTH_NUMBERS = {name: number for number, name in enumerate(english.MONTHS, 1)}


_MONTH_NUMBERS |= {name[:3]: number for name, number in list(_MONTH_NUMBERS.items())}


_MONTH_NUMBERS["Sept"] = 9
_SHORT_MONTHS = "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec"
_SHORT_DAYS = {name[:3]: number for number, name in enumerate(english.WEEKDAYS)} | {
    "Tues": 1, "Weds": 2, "Thur": 3, "Thurs": 3,
}  # fmt: skip
_DAY_NUMBERS = _SHORT_DAYS | {name: number for number, name in enumerate(english.WEEKDAYS)}
MONTH = rf"(?:{'|'.join(english.MONTHS)}|(?:{_SHORT_MONTHS})\b\.?)"
_DAY = rf"(?:(?:{'|'.join(english.WEEKDAYS)}|(?:{'|'.join(_SHORT_DAYS)})\b\.?),? )"
_NTH = r"(?:st|nd|rd|th|d(?= of))"
YEAR = r"(?:1\d{3}|20\d\d|21\d\d)(?![\d,]\d|\d|(?:\.\d))"
# Nouns whose number stands before: "On page 12 May says".
_NUMBERED = LazyPattern(
    r"\b(?:pages?|pp?\.|chapters?|ch\.|chap\.|rooms?|no\.|number|lines?|verses?|act|scene|part|"
    r"volumes?|vol\.|sections?|sec\.|figures?|fig\.|tables?|items?|questions?|exercise|step|day|"
    r"week|grade|level|lesson|unit|gate|exit|platform|track|flight|bus|route|highway|seat|row|apartment|suite|"
    r"article|book|episode|season|round|game|match|psalm|and|or|aged?|turned|is|was|only|just) $",
    re.IGNORECASE,
)
# After a bare month and day these words tell that the day stands alone.
_NOT_COUNTED = frozenset(
    "and or at in is was to the for from of on with as a an when but we he she it they "
    "by will would "
    "has had were are until through after before this that which who because since "
    "during if so near "
    "not off attack attacks riot march meeting deadline election elections date issue "
    "edition debate "
    "game match meetings vote hearing event release show speech ceremony launch report letter memo "
    "speech quake shooting crash raid trial session until i you my his her our their came went did "
    "saw marked marks brought became may might can could should must".split()
)
_PERSON_VERBS = frozenset(
    "says said meets met tells told asks asked goes went comes came sees saw finds found thinks "
    "thought knows knew gives gave takes took makes made learns learned reads read writes wrote "
    "returns returned dies died leaves left arrives arrived falls fell runs ran feels felt begins "
    "began appears appeared speaks spoke hears heard realizes realized decides decided is was has "
    "had does did will would can could never always finally also still just".split()
)


def month_number(text: str) -> int:
    """`Sept.` as 9."""
    return _MONTH_NUMBERS[text.rstrip(".")]


def _weekday(text: str | None) -> int | None:
    return _DAY_NUMBERS[text.strip(" ,.")] if text else None


def _year(text: str | None) -> int | None:
    return int(text) if text else None


def _is_day(text: str | int) -> bool:
    return 1 <= int(text) <= 31


def _month_stop(match: re.Match[str]) -> Stop:
    """What the full stop of a month at the end of a match is."""
    return (
        stop_after(match.string, match.end(), start=match.start())
        if match[0].endswith(".")
        else "none"
    )


@recognizer(
    "date",
    rf"\b({_DAY})?({MONTH}) (\d{{1,2}}){_NTH}?(?:,? ({YEAR}))?{DASH}({MONTH}) (\d{{1,2}}){_NTH}?"
    rf"(?:,? ({YEAR}))?(?![\d:])",
    weight=1.6,
    needs=(*_MONTH_NUMBERS, *_DAY_NUMBERS),
    at="needs",
)
def propose_month_span(match: re.Match[str]) -> v.Value | None:
    weekday, first, one, begun, second, two, written = match.groups()
    if not (_is_day(one) and _is_day(two)):
        return None
    begin = v.Date(int(one), month_number(first), _year(begun), _weekday(weekday))
    return v.Range(begin, v.Date(int(two), month_number(second), _year(written)))


@recognizer(
    "date",
    rf"\b({_DAY})?({MONTH}) (the )?(\d{{1,2}})({_NTH})?(?:({DASH}| and | or | & )(\d{{1,2}}){_NTH}?"
    rf"(?! [a-z]+s\b))?(?:,? ({YEAR}))?(?![\d:%°/$]|,\d{{3}}|\.\d|-[a-z])",
    weight=1.6,
    needs=(*_MONTH_NUMBERS, *_DAY_NUMBERS),
    at="needs",
)
def propose_month_first(match: re.Match[str]) -> v.Value | Proposal | None:
    weekday, name, the, one, nth, link, two, written = match.groups()
    if not _is_day(one) or (two and not _is_day(two)):
        return None
    ambiguous = not (written or weekday or nth or the)
    if ambiguous and not two and _counts_things(match):
        return None
    first = v.Date(
        int(one), month_number(name), _year(written), _weekday(weekday), article=(the or "").strip()
    )
    if not two:
        return first
    joint = (link or "").strip()
    return v.Range(
        first, v.Date(int(two)), "and" if joint in ("and", "&") else joint if joint == "or" else ""
    )


def _counts_things(match: re.Match[str]) -> bool:
    """Whether the number after a month counts what follows: "In June 12 people left"."""
    follows = re.match(r" ([A-Za-z]+)", after(match, 24))
    if (
        follows
        and follows[1] in ("had", "have", "were", "are")
        and re.search(r"\b(?:[Ii]n|[Bb]y) $", before(match, 4))
    ):
        return True  # By March 20 had left.
    if not follows or follows[1] in _NOT_COUNTED or not follows[1].islower():
        return follows is not None and follows[1] in ("PM", "AM")
    name, noun = match[2], follows[1]
    if name in ("May", "March") and not noun.endswith(("ly", "ed")):
        return True
    preceded = re.search(
        r"\b(?:[Ii]n|[Bb]y|[Ll]ast|[Ss]ince|[Tt]his|[Nn]ext|[Dd]uring) $", before(match, 9)
    )
    return bool(preceded) and not noun.endswith("ly")


@recognizer(
    "date",
    rf"\b({_DAY})?([Tt]he )?\b(\d{{1,2}})({_NTH})?(?:({DASH}| and | to | & )(\d{{1,2}}){_NTH}?)?"
    rf"( of)? ({MONTH})(?:{DASH}(?:the )?(\d{{1,2}}){_NTH}?(?: of)? ({MONTH}))?"
    rf"(?:,? ({YEAR}))?(?!\w)",
    weight=1.6,
    needs=_MONTH_NUMBERS,
    at="any",
)
def propose_day_first(match: re.Match[str]) -> v.Value | Proposal | None:
    weekday, the, one, nth, joint, two, of, name, last, end, written = match.groups()
    if not all(_is_day(day) for day in (one, two, last) if day):
        return None
    if not (weekday or the or nth or of or written or two or last):
        lead = before(match, 16)
        if _NUMBERED.search(lead) or re.search(r"[\d$£€#] ?$", lead):
            return None
        verb = re.match(r" ([a-z]+)", after(match, 16))
        # A first name that is a month: "12 April smiled" has no day.
        if (
            name in ("May", "April", "June", "August")
            and verb
            and verb[1]
            in _PERSON_VERBS
            - {"is", "was", "had", "did", "found", "came", "can", "could", "will", "would", "saw"}
        ):
            return None
        if name == "May" and verb and _NUMBERED.search(lead):
            return None
    first = v.Date(int(one), month_number(name), _year(written), _weekday(weekday), day_first=True,
                 article=(the or "").strip())  # fmt: skip
    if last:
        return v.Range(first, v.Date(int(last), month_number(end), _year(written), day_first=True))
    stop = _month_stop(match)
    if joint and two:
        link = "and" if joint.strip() in ("and", "&") else ""
        return Proposal(v.Range(first, v.Date(int(two)), link), stop=stop)
    return Proposal(first, stop=stop)


_FULL_DAY = rf"(\d{{1,2}}){_NTH}? ({MONTH}) ({YEAR})"


@recognizer(
    "date",
    rf"(?<![\w.,]){_FULL_DAY}{DASH}{_FULL_DAY}(?!\w)",
    weight=1.7,
    needs=_MONTH_NUMBERS,
)
def propose_life_span(match: re.Match[str]) -> v.Value | None:
    """10 Dec. 1815 – 27 Nov. 1852."""
    begun, ended = (
        v.Date(int(match[at]), month_number(match[at + 1]), int(match[at + 2]), day_first=True)
        for at in (1, 4)
    )
    return v.Range(begun, ended) if _is_day(begun.day) and _is_day(ended.day) else None


@recognizer(
    "date",
    rf"\b({MONTH}),? ({YEAR})(?:{DASH}({MONTH}) ({YEAR}))?",
    weight=1.5,
    needs=_MONTH_NUMBERS,
    at="needs",
)
def propose_month_year(match: re.Match[str]) -> v.Value:
    first = v.Date(month=month_number(match[1]), year=int(match[2]))
    if not match[3]:
        return first
    return v.Range(first, v.Date(month=month_number(match[3]), year=int(match[4])))


_DATED = LazyPattern(
    r"\b(?:[Oo]n|[Bb]y|[Bb]etween|due|[Uu]ntil|till|[Ss]ince|dated|[Bb]efore|[Aa]fter|[Ff]rom|"
    r"through|starts?|deadline is|"
    r"deadline of|birthday is|expires|date is|date was|[Dd]ate:|[Dd]ue:|week of|born|"
    r"starting|beginning|"
    r"(?:Mon|Tues?|Wed(?:s|nes)?|Thu(?:rs?)?|Fri|Sat(?:ur)?|Sun)(?:day)?\.?,?|"
    r"ending|effective|as of|scheduled for|set for|run|runs|ran|open|closed|starts|ends|"
    r"(?:letter|ltr\.|memo|email|invoice|order|issue|edition|notice|meeting|minutes|[Yy]ours) "
    r"of) $"
)


@recognizer(
    "date",
    r"(?<![\w/.])(\d{1,2})/(\d{1,2})(?:( ?[-–—] ?| to | through | and "
    r")(\d{1,2})/(\d{1,2}))?(?![\w/]|\.\d)",
    needs="/",
    weight=1.5,
)
def propose_slash(match: re.Match[str]) -> v.Value | None:
    """A day without a year, where a word says that it is one: "before 9/30"."""
    first, second = int(match[1]), int(match[2])
    if not (1 <= first <= 12 and _is_day(second)) or match[0] in ("9/11", "24/7"):
        return None
    lead, rest = before(match, 16), after(match, 16)
    share = re.match(r" (?:of\b|cups?|in\.|inch|miles?|teaspoons?|tablespoons?|full|done)", rest)
    odd = second in _NO_DENOMINATORS and not re.search(
        r"(?:[\d-]|\b(?:other|about|only|just|remaining|nearly|than)) ?$", lead
    )
    dated = _DATED.search(lead) or odd or (match[4] and second > 9)
    if share or not (dated or (first > second and _has_other_date(match))):
        return None
    date = v.Date(second, first)
    if not match[4]:
        return date
    month, day = int(match[4]), int(match[5])
    if not (1 <= month <= 12 and _is_day(day)):
        return None
    link = (match[3] or "").strip()
    return v.Range(date, v.Date(day, month), link if link.isalpha() and link != "to" else "")


def _has_other_date(match: re.Match[str]) -> bool:
    """Whether a day that is no fraction stands near: 5/1 and 5/15."""
    near = match.string[max(0, match.start() - 40) : match.end() + 40]
    days = re.findall(r"(?<![\w/.])(?:1[0-2]|[1-9])/(\d\d)(?![\w/])", near)
    return bool(_DAY_SPAN.search(near)) or any(
        int(day) in _NO_DENOMINATORS or int(day) == 15 for day in days
    )


_DAY_SPAN = LazyPattern(rf"(?<![\w/.])\d\d?/\d\d?{DASH}\d\d?/\d\d?(?![\w/])")
_NO_DENOMINATORS = frozenset((13, 14, 17, 18, 19, 21, 22, 23, 26, 27, 28, 29, 30, 31))
"""What nobody cuts things into: the day of a date."""
_TIMED = LazyPattern(
    r"(?:\b(?:[Oo]n|[Ee]very|[Nn]ext|[Ll]ast|[Tt]his|[Uu]ntil|[Bb]y|[Ff]rom|to|and|or|"
    r"[Ss]ince|through|"
    r"until|of|[Dd]ue|is|are|was|open|closed|[Oo]pen|[Cc]losed|EOD|COB|noon|night|"
    r"at) |& |[-–,:(] ?|\n)$"
)


@recognizer(
    "date",
    rf"\b({'|'.join(_SHORT_DAYS)})\.(?![\w])",
    needs=_SHORT_DAYS,
    weight=1.2,
    digits=False,
    at="needs",
)
def propose_short_day(match: re.Match[str]) -> Proposal | None:
    follows = look_behind(match.string, match.end())
    lead = before(match, 12)
    # Words as well: the Sun. The day has a word of time before it, or more behind it.
    if match[1] in ("Sun", "Sat", "Mon", "Wed", "Fri", "Thu"):
        if re.search(r"\b[Tt]he $", lead) and (follows.kind != "lower" or match[1] == "Sun"):
            return None
        timed = bool(_TIMED.search(lead)) or lead[-2:-1].isdecimal()
        timed = timed or (match[1] != "Sun" and bool(re.search(r"[a-z]\.? $", lead)))
        if follows.kind in ("nothing", "capital") and not timed:
            return None
        if follows.kind == "lower" and not lead.strip() and match[1] == "Sun":
            pass
    stop = stop_after(match.string, match.end(), continues=_AFTER_DAY, start=match.start())
    return Proposal(v.Date(weekday=_SHORT_DAYS[match[1]]), stop=stop)


_AFTER_DAY = frozenset([*english.MONTHS, *_SHORT_MONTHS.split("|"), "AM", "PM", "Eve"])
_IN_MONTH = LazyPattern(
    r"\b(?:[Ii]n|for|[Ss]ince|[Uu]ntil|of|by|[Ll]ast|[Nn]ext|[Tt]his|[Ee]arly|[Ll]ate|mid|"
    r"[Ff]rom|to|and|through|[Bb]efore|[Aa]fter|[Ee]very|\d) ?-?$"
)


@recognizer(
    "date",
    rf"\b({_SHORT_MONTHS})\.(?![A-Za-z])",
    needs=_MONTH_NUMBERS,
    weight=1.2,
    digits=False,
    at="needs",
)
def propose_short_month(match: re.Match[str]) -> Proposal | None:
    follows = look_behind(match.string, match.end())
    placed = _IN_MONTH.search(before(match, 9))
    if match[1] in ("Jan", "Mar") and follows.kind in ("nothing", "capital") and not placed:
        return None  # A name: so said Jan.
    return Proposal(
        v.Date(month=month_number(match[1])),
        stop=stop_after(match.string, match.end(), start=match.start()),
    )


_ERA = r"(B\.?C\.?E\.?|B\.?C\.?|A\.?D\.?|C\.?E\.?)"


@recognizer(
    "year",
    rf"(?<![\w.,])(?:(A\.?D\.?|C\.?E\.?) ?(\d{{1,4}})|(\d{{1,4}})(?:( ?[-–] ?| to "
    rf")(\d{{1,4}}))? ?{_ERA})(?![\w%])",
    needs="BCAD",
    weight=1.5,
    at="any",
)
def propose_era(match: re.Match[str]) -> Proposal:
    written = match[1] or match[6]
    era = written.replace(".", "")
    if match[1]:
        return Proposal(v.Year(int(match[2]), era, era_first=True))
    stop = stop_after(match.string, match.end()) if written.endswith(".") else "none"
    last = v.Year(int(match[5] or match[3]), era)
    return Proposal(v.Range(v.Year(int(match[3])), last) if match[5] else last, stop=stop)


@recognizer(
    "date",
    rf"\b({'|'.join(_SHORT_DAYS)})\.? ?(?:[-–—]|to|through|thru) ?({'|'.join(_SHORT_DAYS)})\b\.?|"
    rf"\b({_SHORT_MONTHS})\.? ?[-–—] ?({_SHORT_MONTHS})\b\.?",
    weight=1.2,
    needs=(*_SHORT_DAYS, *_MONTH_NUMBERS),
    digits=False,
    at="needs",
)
def propose_named_span(match: re.Match[str]) -> Proposal:
    if match[1]:
        link = "through" if re.search("thr", match[0]) else ""
        value = v.Range(
            v.Date(weekday=_SHORT_DAYS[match[1]]), v.Date(weekday=_SHORT_DAYS[match[2]]), link
        )
    else:
        value = v.Range(v.Date(month=month_number(match[3])), v.Date(month=month_number(match[4])))
    if not match[0].endswith("."):
        return Proposal(value)
    stop = stop_after(match.string, match.end())
    return Proposal(value, stop=stop)


_DAY_LETTERS = {"M": 0, "Tu": 1, "W": 2, "Th": 3, "F": 4, "Sa": 5, "Su": 6}


@recognizer(
    "date",
    r"(?<![\w.&-])(M|Tu|W|Th|F|Sa)[-–](W|Th|F|Sa|Su)(?=[:,]? (?:\d|at \d|from \d|[Nn]oon))",
    needs=_DAY_LETTERS,
    digits=False,
    weight=2,
    at="needs",
)
def propose_opening_days(match: re.Match[str]) -> v.Value:
    """Of a shop: `M-F 9-5`."""
    first, last = (v.Date(weekday=_DAY_LETTERS[match[at]]) for at in (1, 2))
    return v.Range(first, last)


@recognizer(
    "year",
    r"(?<![\w.,])(?:([12]\d\d0)'?s|'([1-9]0)'?s|([5-9]0)s(?= [a-z])|(?<=\b[Tt]he "
    r")([2-9]0)'?s|([2-9]0)s(?= (?:and|or) [2-9]0s)|(?<=0s and )([2-9]0)s|"
    r"(?<=\b[Mm]id-)([2-9]0)'?s|((?:(?<=early )|(?<=late )|(?<=mid )|(?<=his )|(?<=her )|"
    r"(?<=their )|(?<=my )|(?<=your )|(?<=our )|(?<=His )|(?<=Her )|(?<=low )|(?<=high )|(?<=upper "
    r"))[1-9]0)'?s)\b(?! of| (?:delay|timeout|limit|clip|exposure|interval|sprint|window|pause|ad|"
    r"spot)\b)",
    weight=1.5,
)
def propose_decade(match: re.Match[str]) -> v.Value | None:
    if match[1] == "1000" and word_before(match) != "the":
        return None
    if match[1]:
        return v.Decade(int(match[1]))
    return v.Decade(int(next(group for group in match.groups()[1:] if group)), short=True)


@recognizer(
    "year",
    rf"(?<![\w.,$£€])({YEAR})( ?(?:--?|[–—]) ?|/)(\d{{4}}|\d\d)(?![\w%/]|[.,-]\d)",
    weight=1.3,
)
def propose_year_span(match: re.Match[str]) -> v.Value | None:
    first, sign, last = int(match[1]), match[2], int(match[3])
    if len(match[3]) == 4 and not first < last < 2200:
        return None
    if len(match[3]) == 2 and not first % 100 < last:
        return None
    if sign == "/":
        return v.Phrase((v.Year(first), v.Year(last)))
    return v.Range(v.Year(first), v.Year(last))


@recognizer(
    "year",
    r"(?<![\w.,$£€-])([12]\d{3}) ?[-–—] ?(present|today|now|date)(?!\w)",
    needs=("present", "today", "now", "date"),
    weight=1.5,
)
def propose_open_years(match: re.Match[str]) -> v.Value:
    """`2017-present`."""
    return v.Phrase((v.Year(int(match[1])), "to", match[2]))


@recognizer("year", r"(?<![\w.,])'(\d\d)(?![\w.,]\w|\w|')", needs="'", weight=0.8)
def propose_short_year(match: re.Match[str]) -> v.Value:
    return v.Date(year=int(match[1]), short_year=True)


_COUNTED = frozenset(
    "people men women children students dollars euros pounds miles kilometers metres meters feet "
    "words pages votes soldiers troops workers employees jobs homes houses copies calories units "
    "points steps hours days years minutes seconds tons tonnes acres volts watts pieces items "
    "percent times grams members seats characters lines rows bytes pixels rpm souls dead "
    "degrees cubic square million thousand different more".split()
)
_NO_NOUN = frozenset(
    "was is has his this its as it's does us across towards always thus perhaps sales results "
    "elections games season's polls olympics".split()
)
_PREPOSITION = LazyPattern(
    r"\b(?:[Ii]n|[Ss]ince|[Bb]y|[Uu]ntil|[Ff]rom|[Dd]uring|[Cc]irca|[Yy]ear|[Ee]arly|[Ll]ate|"
    r"[Bb]efore|[Aa]fter|[Ss]pring|[Ss]ummer|[Aa]utumn|[Ff]all|[Ww]inter|of|[Bb]ack to|"
    r"ca?\.|[Ee]st\.|established|founded|born|died|d\.|b\.|©|[Cc]opyright)[ -](?:the )?$|©$"
)


@recognizer(
    "year",
    r"(?<![\w.,$£€¥₹#/-])([1-9]\d{3})(?![\w%$£€¥₹°/×^*]|[.,:]\d| ?[×*+^=<>÷] ?\d|-\w)(?=( "
    r"[A-Za-z]+\b)?)",
    weight=0.9,
)
def propose_plain_year(match: re.Match[str]) -> v.Value | None:
    number, follows = int(match[1]), (match[2] or "").strip()
    lead = before(match, 16)
    placed = bool(_PREPOSITION.search(lead)) or _is_apart(match, lead)
    if follows in _COUNTED or not 1000 <= number < (3000 if lead.endswith("year ") else 2200):
        return None
    if placed:
        return v.Year(number) if number >= 1010 or lead.endswith("year ") else None
    # Round numbers count things more often than younger years do.
    likely = (1500 if number % 50 == 0 else 1400) <= number < 2100
    named = number % 50 != 0 and lead.lower().endswith("the ")
    return v.Year(number) if likely and (named or not _is_plural(follows)) else None


def _is_apart(match: re.Match[str], lead: str) -> bool:
    """Whether it stands as years do: `(1066)`, `Hastings, 1066.`"""
    ends = match.string[match.end() : match.end() + 1] in (")", ".", ";", "")
    return ends and bool(re.search(r"[a-z], $|\($", lead))


def _is_plural(word: str) -> bool:
    return (
        word.islower()
        and word.endswith("s")
        and word not in _NO_NOUN
        and not word.endswith(("ss", "is", "us"))
    )


# Spanish and French


_MONTH = {
    language: rf"(?:{one_of([*table.MONTHS, *table.SHORT_MONTHS])})(?![^\W\d_]){DOT}"
    for language, table in ROMANCE.items()
}
_WEEKDAY = {
    language: rf"(?:{one_of(table.SHORT_WEEKDAYS)})\." for language, table in ROMANCE.items()
}
# A street named after a day; what follows is the house.
_STREET = LazyPattern(
    r"\b(?:Avda\.|Av\.|[Aa]venida|[Cc]alle|[Pp]laza|[Cc]/|[Rr]ue|[Pp]lace)\s*(?:du )?$"
)
_ARTICLES = {"el", "del", "al", "desde", "día"}
# Words of their own, which are months only beside a year.
_DOUBTFUL = {"es": ("mar", "set", "may", "dic"), "fr": ("mar", "dec")}


def _month(language: str, written: str) -> int:
    table, name = TABLES[language], written.rstrip(".").lower()
    months: list[str] = table.MONTHS
    short: dict[str, int] = table.SHORT_MONTHS
    return months.index(name) + 1 if name in months else short[name]


def _weekday_number(language: str, written: str | None) -> int | None:
    numbers: dict[str, int] = TABLES[language].SHORT_WEEKDAYS
    return numbers[written.rstrip(".").lower()] if written else None


def _date(day: int, month: int, year: str = "", *, day_first: bool = True) -> v.Date | None:
    """A date in numbers; a year of two digits is of the nearest century."""
    if not (1 <= day <= 31 and 1 <= month <= 12):
        return None
    number = int(year) if year else None
    if number is not None and len(year) == 2:
        number += 2000 if number < 40 else 1900
    return v.Date(day, month, number, day_first=day_first)


_UNTIL = {"es": "y|al", "fr": "et|au"}


@per_language(
    "date",
    lambda language: (
        rf"(?:(?<!\w)({_WEEKDAY[language]}),?\s+)?(?<![\w.,/])(\d{{1,2}}(?:er)?)"
        rf"(?:\s*([-\u2013]|{_UNTIL[language]})\s*(\d{{1,2}}(?:er)?))?(?:\s+|[-/])(?:de\s+)?"
        rf"({_MONTH[language]})(?:(?:,?\s+(?:(del?)\s+)?|[-/])(\d{{4}}))?(?!\w)"
    ),
    needs=lambda language: (*TABLES[language].MONTHS, *TABLES[language].SHORT_MONTHS),
    flags=re.IGNORECASE,
    weight=1.3,
    at="any",
)
def propose_day_and_name(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """`3 de mayo de 1999`, `1er mai`, `3-5 sept. 2020`."""
    weekday, day, link, until, month, article, year = match.groups()
    number = int(day.removesuffix("er"))
    if not 1 <= number <= 31 or (month.lower() in _DOUBTFUL[language] and not year):
        return None
    if month[0].isupper() and word_before(match) in TABLES[language].LABELS - _ARTICLES:
        return None  # En la página 12 Mayo habla.
    if language == "es" and year and _STREET.search(before(match, 14)):
        name = match[0][: -len(year)].rstrip(" ,").removeprefix(day).strip()
        return v.Phrase((v.Number(day), name, v.Number(year)))
    last: v.Value = v.Date(
        int((until or day).removesuffix("er")), _month(language, month),
        int(year) if year else None, weekday=_weekday_number(language, weekday), day_first=True,
        article="del" if article == "del" else "",
    )  # fmt: skip
    if until:
        premier = language == "fr" and number == 1
        first: v.Value = v.Abbreviation("premier") if premier else v.Number(str(number))
        last = v.Range(first, last, link if link.isalpha() else _UNTIL[language].split("|")[1])
    return close(last, match, language, digits_follow=False)


@recognizer(
    "date",
    r"(?<!\w)1\.?(?:º|°|ero|ro|er|o)\.?\s+de\s+(?=([a-z]+))",
    languages=("es",),
    weight=2,
    needs="1",
)
def propose_spanish_first(match: re.Match[str]) -> v.Value | None:
    return v.Abbreviation("primero de ") if match[1] in spanish.MONTHS else None


@per_language(
    "date",
    r"(?<![\w.,/-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})"
    r"(?:[T ](\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(Z)?)?(?![\w/-])",
    languages=RECOGNIZED_LANGUAGES,
    weight=1.8,
    needs=["fourDigits"],
)
def propose_iso(language: str, match: re.Match[str]) -> v.Value | None:
    date = _date(int(match[4]), int(match[3]), match[1], day_first=language != "en")
    if not date or not match[5]:
        return date
    time = v.Time(int(match[5]), int(match[6]), zone="UTC" if match[7] else "")
    return v.Phrase((date, ",", time))


@per_language(
    "date",
    r"(?<![\w.,/-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)(?![\w/-]|\.\d|[\s-]\d\d(?:\D|$))",
    languages=RECOGNIZED_LANGUAGES,
    weight=1.6,
)
def propose_numeric(language: str, match: re.Match[str]) -> v.Value | None:
    """Americans write the month first, unless there are dots or a day that is no month."""
    day, mark, month, year = int(match[1]), match[2], int(match[3]), match[4]
    if language == "en" and mark == "." and len(year) == 2:
        return None
    if (language == "en" and mark != "." and day <= 12) or month > 12 >= day:
        day, month = month, day
    return _date(day, month, year, day_first=language != "en")


@per_language("date", r"(?<![\w.,/-])(\d{1,2})([-/.])([IVX]{1,4})\2(\d{4})(?![\w-])", weight=2)
def propose_roman_month(language: str, match: re.Match[str]) -> v.Value | None:
    return _date(int(match[1]), roman_value(match[3]), match[4])


@per_language(
    "date", r"(?<![\w.,/-])((?:19|20)\d\d)/((?:19|20)\d\d|\d\d)(?![\d/-])", needs="/", weight=1.5
)
def propose_school_year(language: str, match: re.Match[str]) -> v.Value:
    """A course that runs over New Year."""
    return v.Phrase((v.Number(match[1]), v.Number(match[2])))


_DAY_BEFORE = {
    "es": r"(?:(?<=\b[Ee]l )|(?<=\b[Dd]el )|(?<=\b[Aa]l )|(?<=\b[Dd]ía ))",
    "fr": r"(?:(?<=\b[Ll]e )|(?<=\b[Dd]u )|(?<=\b[Aa]u ))",
}
_UNTIL_DAY = {
    "es": r"(?:(?<=\bantes del )|(?<=\bhasta el )|(?<=\bdesde el )|(?<=\bpartir del ))",
    "fr": r"(?:(?<=\bavant le )|(?<=\baprès le )|(?<=\bdepuis le )|(?<=\bjusqu'au )|"
    r"(?<=\bpartir du ))",
}
_SHARE = {"es": r" de (?:l|su|mi|tu|est|cada)", "fr": r" d(?:e la|es|u)\b"}


@per_language(
    "date",
    lambda language: (
        rf"(?:{_UNTIL_DAY[language]}|{_DAY_BEFORE[language]}"
        r"(?!(?:1/[2-9]|2/3|3/4)\b(?= ?d(?:e|el|es|u)?\b| partes?\b|$)))"
        r"(\d{1,2})/(\d{1,2})"
        rf"(?![\d/]|[.,]\d|{_SHARE[language]})"
    ),
    needs="/", weight=1.5)  # fmt: skip
def propose_day_and_month(language: str, match: re.Match[str]) -> v.Value | None:
    return _date(int(match[1]), int(match[2]))


@per_language(
    "date",
    lambda language: (
        r"(?<![\w/])(0[1-9]|1[0-2])/(\d{4})(?![\d/])"
        rf"|(?<!\w)({_MONTH[language]})([-/ ])(?:de )?(\d{{4}})(?!\d)"
    ),
    needs=lambda language: ("/", *TABLES[language].MONTHS, *TABLES[language].SHORT_MONTHS),
    flags=re.I, weight=1.2, at="any",
)  # fmt: skip
def propose_month_and_year(language: str, match: re.Match[str]) -> v.Value | None:
    if match[1]:
        return v.Date(month=int(match[1]), year=int(match[2]))
    if match[3].lower() in TABLES[language].MONTHS:
        if " de " in match[0]:
            return v.Phrase((match[3], "de", v.Number(match[5])))
        if match[4] == " " or language == "fr":
            return v.Phrase((match[3], v.Number(match[5])))
    return v.Date(month=_month(language, match[3]), year=int(match[5]))


_MONTHS_LIKE_WORDS = frozenset("mar set may aout".split())
_BEFORE_MONTH = (
    r"(?:(?<=\b[Dd]e )|(?<=\ba )|(?<=sde )|(?<=sta )|(?<=cia )|(?<=ara )|(?<=\bà )|(?<=ès )|"
    r"(?<=puis )|(?<=\bd')|(?<=fin )|(?<=mi-)|(?<=but )|(?<=qu'en ))"
)


def _clear_months(language: str) -> str:
    return one_of(TABLES[language].SHORT_MONTHS.keys() - _MONTHS_LIKE_WORDS)


# Months cut short by themselves: en sept. Words such as mar. and nov. need a preposition.
@per_language(
    "date",
    lambda language: (
        r"(?:(?<=\b[Ee]n )|(?<=\. [ye] )|(?<=\. et )|(?<=º de )|(?<=primero de ))"
        rf"({one_of(TABLES[language].SHORT_MONTHS)})\.(?!\w)"
        rf"|(?<!\w)({one_of(TABLES[language].SHORT_MONTHS)})\.(?=\s?[-\u2013/]\s?{_MONTH[language]})"
        rf"|(?<!\w)({_clear_months(language)})\.(?=[,;:)]| [{SMALL}])"
        rf"|{_BEFORE_MONTH}({_clear_months(language)})\.(?!\w)"
    ),
    weight=1.5, needs=lambda language: TABLES[language].SHORT_MONTHS, at="needs", digits=False,
)  # fmt: skip
def propose_month_alone(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    written = next(filter(None, match.groups()))
    name = TABLES[language].MONTHS[_month(language, written) - 1]
    return close(v.Abbreviation(name), match, language, digits_follow=False)


@per_language(
    "date",
    lambda language: (
        rf"(?<!\w)({one_of(TABLES[language].SHORT_WEEKDAYS)})\.?\s?[-\u2013]\s?"
        rf"({one_of(TABLES[language].SHORT_WEEKDAYS)})\.(?!\w)"
    ),
    flags=re.IGNORECASE,
    digits=False,
    needs=lambda language: TABLES[language].SHORT_WEEKDAYS,
    at="needs",
)
def propose_weekdays(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    first, last = (_weekday_name(language, part) for part in match.groups())
    link = "a" if language == "es" else "à"
    return close(v.Abbreviation(capitalize(f"{first} {link} {last}", match)), match, language)


_PLAIN_WEEKDAYS = {
    "es": "lun|mart|mié|miérc|juev?|vier?|sáb|dom", "fr": "lun|merc|vendr?|ven|sam|dim",
}  # fmt: skip


def _weekday_name(language: str, written: str) -> str:
    names: list[str] = TABLES[language].WEEKDAYS
    return names[_weekday_number(language, written) or 0]


# Mer, mar and jeu are words too: these need a number or a span of days behind them.
@per_language(
    "date",
    lambda language: (
        rf"(?<!\w)({_WEEKDAY[language]})(?=,?\s+(?:\d|au\s|à\s|al?\s|(?:(?:y|e|o|et|ou)\s)?"
        rf"{_WEEKDAY[language]}))"
        rf"|(?<!\w)((?:{_PLAIN_WEEKDAYS[language]})\.)(?!\w|\s?:)"
        rf"|(?:(?<=(?:lun|mar|mer|jeu|ven|sam|mié|vie|sáb)\. et )|"
        rf"(?<=(?:lun|mar|mer|jue|mié|vie|sáb)\. y )){_WEEKDAY[language]}(?!\w)"
        rf"|(?:(?<=\ble )|(?<=\bdu )|(?<=\bau )|(?<=\bel )|(?<=\bal ))({_WEEKDAY[language]})(?!\w)"
    ),
    flags=re.IGNORECASE,
    needs=lambda language: TABLES[language].SHORT_WEEKDAYS,
    digits=False,
    at="needs",
)
def propose_romance_weekday(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    written, following = match[0].lower(), after(match)
    if match[3] and len(re.findall(_WEEKDAY[language], match.string)) < 2:
        return None  # By itself `le mar.` may be anything.
    # El mar. 12 barcos: a noun that is counted follows, and no time or place.
    counted = re.match(r",?\s+\d+ (?!heures?\b|dans\b|pour\b|à\b|a\b|de\b)[a-zà-ÿ]{3,}", following)
    if counted and written in ("mar.", "mer.", "jeu."):
        return None
    if written == "sam." and match[0][0] == "S" and not re.match("[-\u2013]", following):
        return None  # Sam is a name too.
    name = _weekday_name(language, match[0])
    if not name.endswith("s") and _SEVERAL_DAYS.search(before(match, 30)):
        name += "s"  # los sáb. y dom.
    return close(v.Abbreviation(name), match, language)


_SEVERAL_DAYS = LazyPattern(r"(?i)\blos (?:[a-záé]{3,9}\.?(?:,| y|, y) )*$")
_ERAS = {
    "es": r"(?<!\w)(a|d)\.?\s?(?:de\s)?(?:C|J\.?\s?C)\b\.?(?![\w'])",
    "fr": r"(?<!\w)(?i:(av|apr|ap|avant|après)\.?\s?J\.?-?\s?C\b\.?)(?!\w)",
}
_ERA_FORMS = ("av", "apr", "ap", "avant", "après")


@per_language(
    "date",
    _ERAS.__getitem__,
    needs=lambda language: (
        "ad" if language == "es" else (*_ERA_FORMS, *map(str.capitalize, _ERA_FORMS))
    ),
    weight=2,
    digits=False,
    at="needs",
)
def propose_romance_era(language: str, match: re.Match[str]) -> Proposal | None:
    """44 a. C., vers 50 av. J.-C."""
    if language == "fr":
        side = "avant" if match[1].lower().startswith("av") else "après"
        return _close_era(v.Abbreviation(f"{side} Jésus-Christ"), match, "fr")
    dated = re.search(r"(?:\d|[IVXLC]|siglo|año)\.?\s*$", before(match, 12))
    if match[0].count(".") < (1 if dated else 2):
        return None
    words = "antes de Cristo" if match[1] == "a" else "después de Cristo"
    return _close_era(v.Abbreviation(words), match, "es")


def _close_era(value: v.Value, match: re.Match[str], language: str) -> Proposal:
    """At the start of a sentence more follows: Au Ier s. av. J.-C. César vint."""
    opening = r"\W*(?:Aux?|En|Vers|Dès|Du|Hacia|Durante|Desde|A)\b[^,;:]{0,30}"
    following = look_behind(match.string, match.end())
    opens = STOP_TABLES[language].opens_sentence(following.word)
    named = following.kind == "capital" and not opens
    if named and re.fullmatch(opening, match.string[: match.start()]):
        return Proposal(value, "abbreviation")
    return close(value, match, language)


@recognizer(
    "decade",
    r"(?<=[sS] )'?([1-9]0)'?s?(?![\w%°º'])(?!\s?[%€$°º]|[.,]\d)|(?<!\w)'(\d\d)s?(?![\w'])|"
    r"(?<!\w)([12]\d\d0)s(?![\w'])",
    languages=("es",), weight=2,
)  # fmt: skip
def propose_spanish_decade(match: re.Match[str]) -> v.Value | None:
    if match[1]:
        head = r"\b(?:años|(?:década|decenio) de los)\s$" + ("|los $" if "s" in match[0] else "")
        if not re.search(head, before(match).lower()):
            return None
    return v.Decade(int(match[1] or match[2] or match[3]), short=not match[3])


@recognizer(
    "decade",
    r"(?<!\w)((?:années|ann\.|décennie)\s+)'?(\d{4}|[1-9]0)"
    r"(?:\s*(-|\u2013|et|à|ou)\s*'?(\d{4}|[1-9]0))?(?!\w|[.,]\d)",
    languages=("fr",), needs=("années", "ann", "décennie"), at="needs", flags=re.I, weight=1.5,
)  # fmt: skip
def propose_french_decade(match: re.Match[str]) -> v.Value:
    head = match[1].strip().replace("ann.", "années")
    if not match[4]:
        return v.Phrase((head, v.Label(match[2])))
    long = ("à",) if len(match[4]) == 4 else ()
    link = (match[3],) if match[3].isalpha() else long
    return v.Phrase((head, v.Label(match[2]), *link, v.Label(match[4])))
