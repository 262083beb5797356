"""Times of day, lengths of time, scores, ratios and verses, which are written alike."""

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
    NUMBER,
    ODDS,
    after,
    before,
    close,
    one_of,
    parse_number,
)
from anyrig.text.recognizers.languages import TABLES, english
from anyrig.text.recognizers.stops import stop_after
from anyrig.text.roman_numerals import roman_value

_HALF = r"(?:([ap])\. ?m\.|([AaPp])\.?[Mm](?!\w)\.?)"
_ZONES = (
    "EST|EDT|ET|CST|CDT|CT|MST|MDT|MT|PST|PDT|PT|AKST|HST|GMT|UTC|BST|CET|CEST|EET|EEST|"
    "IST|JST|AEST|"
    "AEDT|MSK|WET|SGT|HKT|Z"
)
ZONE = rf"(?: ?\(?({_ZONES})(?![\w&])\)?(\.)?(?! ?[+−-] ?\d))"
# Words with a capital that go on with a time: 7 a.m. Monday.
_GOES_ON = frozenset(
    [*(form for name in (*english.WEEKDAYS, *english.MONTHS) for form in (name, name[:3])),
     *_ZONES.split("|"), "Eastern", "Central", "Mountain", "Pacific", "Greenwich", "Tues", "Thurs",
     "Sept", "Christmas", "Easter"]
)  # fmt: skip
_DAYS_OR_OFFSET = LazyPattern(
    r"(?<=[mM]\.) (?:GMT|UTC) ?[-+−–]\d| (?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days"
    r"(?:[,;.:)]|$| (?:and|or|to|through|thru|only|except|until|from|in|at|[-–—])(?!\w))"
)
"""`5 p.m. Fridays`, but not `5 p.m. Fridays are busy`."""
_RATIO = LazyPattern(
    r"\b(?:ratio|ratios|odds|scale|mix|proportions?|aspect|of about|mixed|favou?red|"
    r"dilut\w*)\b[^.]{0,30}$",
    re.IGNORECASE,
)
_RATIO_AFTER = LazyPattern(
    r"(?: |-)(?:ratio|odds|mix|mixture|majority|scale|favou?rite|split|lead|aspect|blend)\b"
)
_RAN = LazyPattern(
    r"\b(?:ran|run|runs|raced?|finish\w*|swam|clocked|record|won|marathon|mile|lasts?|"
    r"lasted|length|"
    r"runtime|running time|split|best|time)\b[^.;]{0,20}\b(?:in|of|for) $"
)
_IN_TIME = LazyPattern(r"\b(?:[Ii]n|time of|[Aa]t the) (?:just |only |about )?$")


def _half_stop(match: re.Match[str]) -> Stop:
    """What the full stop of a match that ends in p.m. or in a zone is."""
    if not match[0].endswith("."):
        return "none"
    if _DAYS_OR_OFFSET.match(match.string, match.end()):
        return "abbreviation"
    return stop_after(
        match.string, match.end(), digits_follow=False, continues=_GOES_ON, start=match.start()
    )


def _is_time(hour: str | int, minute: str | int | None) -> bool:
    return int(hour) <= 24 and int(minute or 0) < 60


@recognizer(
    "time",
    rf"(?<![\w:.,])(\d{{1,2}})(?:[:.](\d\d))?(?: ?{_HALF})?({DASH}| to | and "
    rf")(\d{{1,2}})(?:[:.](\d\d))? ?{_HALF}"
    rf"{ZONE}?",
    weight=1.7,
    needs="mM",
)
def propose_span(match: re.Match[str]) -> Proposal | None:
    hour, minute, link, until, to = match[1], match[2], match[5].strip(), match[6], match[7]
    if not (_is_time(hour, minute) and _is_time(until, to)):
        return None
    half = (match[3] or match[4] or "").lower()
    if link == "and" and not half:
        return None
    last = v.Time(
        int(until), int(to or 0), half=(match[8] or match[9]).lower(), zone=match[10] or ""
    )
    first = v.Time(int(hour), int(minute or 0), half=half)
    # Without a half of its own the first hour is said bare: nine to five P M.
    begin: v.Value = first if half or (minute or "00") != "00" else v.Number(hour)
    return Proposal(v.Range(begin, last, link if link.isalpha() else ""), stop=_half_stop(match))


@recognizer(
    "time",
    rf"(?<![\w:.,])(\d{{1,2}})(?:[:.](\d\d))?(?::(\d\d))? ?{_HALF}{ZONE}?",
    weight=1.7,
    needs="mM",
)
def propose_half_day(match: re.Match[str]) -> Proposal | None:
    hour, minute, second = match[1], match[2], match[3]
    if not _is_time(hour, minute):
        return None
    half = (match[4] or match[5]).lower()
    time = v.Time(
        int(hour), int(minute or 0), int(second) if second else None, half, match[6] or ""
    )
    return Proposal(time, stop=_half_stop(match))


@recognizer(
    "time",
    r"(?<![\w:.,])(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,](\d{1,3}))?(?:( ?[-–—] ?| to "
    r")(\d{1,2}):(\d\d))?"
    rf"(?!\w|:\d|\.\d)(?:( hours| hrs| o'clock)|{ZONE})?",
    needs=":",
    weight=1.2,
)
def propose_clock(match: re.Match[str]) -> v.Value | Proposal | None:
    hour, minute, second, part, dash, until, to, word, zone, _ = match.groups()
    lead = before(match)
    if part and len(part) == 3 and "," in match[0]:
        return None  # a scale: 1:50,000
    if second or part:
        return _with_seconds(match, lead)
    if int(minute) > 59:
        return None
    if int(hour) > 24:  # of a run: in 41:05
        return v.Time(int(hour), int(minute)) if _IN_TIME.search(lead) else None
    if (
        (_RATIO.search(lead) and not re.search(r"\d.*\b(?:at|by|until|till|before|after) $", lead))
        or _RATIO_AFTER.match(after(match))
        or (hour == minute and int(hour) > 24)
    ):
        return None
    if minute == "00" and _RAN.search(lead) and not dash and not zone:
        return v.Duration(minutes=int(hour))
    if word:
        style = "military" if "h" in word else ""
        time: v.Value = v.Time(int(hour), int(minute), style=style)
        if "h" in word:
            return v.Phrase((time, "hours"))
        return (
            v.Phrase((v.Number(hour), "o'clock")) if minute == "00" else v.Phrase((time, "o'clock"))
        )
    first = v.Time(int(hour), int(minute), zone="" if dash else zone or "")
    stop = _half_stop(match)
    if dash and int(until) <= 24:
        last = v.Time(int(until), int(to), zone=zone or "")
        return Proposal(v.Range(first, last), stop=stop)
    return Proposal(first, stop=stop)


def _with_seconds(match: re.Match[str], lead: str) -> v.Value | Proposal | None:
    hour, minute, second, part, zone = match[1], match[2], match[3], match[4] or "", match[9]
    if int(minute) > 59 or int(second or 0) > 59:
        return None
    if not second:
        return v.Duration(minutes=int(hour), seconds=int(minute), decimals=part)
    if zone or (lead.endswith(" at ") and int(hour) < 24 and not part):
        time = v.Time(int(hour), int(minute), int(second), zone=zone or "")
        return Proposal(time, stop=_half_stop(match))
    return v.Duration(int(hour), int(minute), int(second), part)


@recognizer("time", r"(?<![\w:.,])(\d{1,2}):(\d\d)([AaPp])(?![\w']|\.\w)", needs="aApP", weight=2)
def propose_letter_half(match: re.Match[str]) -> v.Value | None:
    """Of a ticket: 6:05A."""
    if not _is_time(match[1], match[2]) or int(match[1]) > 12:
        return None
    return v.Time(int(match[1]), int(match[2]), half=match[3].lower())


@recognizer(
    "time",
    rf"(?<![\w:.,])(\d{{1,2}})(?::(\d\d))?{DASH}(\d{{1,2}})(?::(\d\d))?(?![\w:–—-]|[.,]\d)",
    needs=":",
    weight=1.6,
)
def propose_open_span(match: re.Match[str]) -> v.Value | None:
    """One end has minutes, the other none: 8–8:45."""
    hour, minute, until, to = match.groups()
    if (minute is None) == (to is None) or int(minute or to) % 5 or int(minute or to) > 59:
        return None
    book = re.search(r"([A-Z][a-z]+)\.? $", before(match, 16))
    cited = book and book[1] in (*english.BOOKS, *english.BOOKS.values(), *english.MORE_BOOKS)
    if max(int(hour), int(until)) > 24 or cited:
        return None
    return v.Range(_parse_hour(hour, minute), _parse_hour(until, to))


def _parse_hour(hour: str, minute: str | None) -> v.Value:
    return v.Time(int(hour), int(minute)) if minute else v.Number(hour)


_OF_MUSIC = LazyPattern(
    r" (?:time|met(?:er|re)|signature|beats?|measures?|bars?|rhythm|groove|waltz|march|jig|reel)\b"
)
_MUSIC_BEFORE = LazyPattern(
    r"(?i)\b(?:time signatures?|met(?:er|re)|song|tune|waltz|jig|march|piece|movement|played|"
    r"counted|"
    r"bars?|melody|theme|score) (?:[a-z]+ )?(?:is|of|was|in|from|to|as) (?:in |a )?$"
)


@recognizer("time", r"(?<![\w./])(\d{1,2})/(2|4|8|16)(?![\w/]|\.\d)", needs="/", weight=2)
def propose_time_signature(match: re.Match[str]) -> v.Value | None:
    """Of music: in 6/8 time."""
    if not _OF_MUSIC.match(match.string, match.end()) and not _MUSIC_BEFORE.search(before(match)):
        return None
    return v.Score((v.Number(match[1]), v.Number(match[2])), "even")


@recognizer("time", r"(?<![\w./])(\d{1,2})/(\d{1,2})c(?![\w/]|\.\w)", needs="/", weight=2)
def propose_central(match: re.Match[str]) -> v.Value | None:
    """When something is shown: `8/7c`."""
    if (int(match[1]) - int(match[2])) % 12 != 1:
        return None
    return v.Phrase((v.Number(match[1]), v.Number(match[2]), "Central"))


_AT_HOUR = LazyPattern(
    r"\b(?:[Aa]t|[Bb]y|until|till|[Ff]rom|around|before|after|since|between|left|landed|"
    r"departs?|arrives?|"
    r"starts?|to|set for|scheduled for|"
    r"(?:hour|time|launch|take-?off|reveille|curfew|sunrise|sunset|deadline|departure|arrival|"
    r"muster|briefing|watch|ETA|ETD) (?:is|was)) (?:about |around )?$"
)


_RIDE = LazyPattern(
    r" (?:to|from|train|flight|bus|ferry|sailing|departure|service|report|briefing|news|launch|"
    r"reveille|patrol|watch)\b"
)
_OTHER_HOUR = LazyPattern(r"\b(?:at|between|from) 0\d[0-5]\d(?:, 0\d[0-5]\d)*,? (?:and|or|to) $")


@recognizer(
    "time",
    rf"(?<![\w:.,$£€#/-])([01]\d|2[0-4])([0-5]\d)(?:(?: ?(hours|hrs|h)\b\.?)|{ZONE}| "
    rf"Zulu)?(?![\w%:/]|[.,-]\d)",
    weight=1.4,
)
def propose_military(match: re.Match[str]) -> v.Value | Proposal | None:
    """`0600`; without `hours` behind it, after `at` and the like."""
    hour, minute = int(match[1]), int(match[2])
    time = v.Time(hour, minute, style="military", zone=match[4] or "")
    if match[3]:
        stop: Stop = "none"
        if match[0].endswith("."):
            stop = stop_after(match.string, match.end())
        return Proposal(v.Phrase((time, "hours")), stop=stop)
    if match[4]:
        return Proposal(time, stop=_half_stop(match))
    if match[0].endswith("Zulu"):
        return v.Phrase((time, "Zulu"))
    lead = before(match, 24)
    ride = match[1][0] == "0" and re.search(r"\b(?:[Tt]he|[Aa]n|[Hh]er|[Hh]is|[Oo]ur) $", lead)
    ride = ride and _RIDE.match(match.string, match.end())
    if not ride and not _AT_HOUR.search(lead) and not _OTHER_HOUR.search(lead):
        return None
    counted = re.match(
        r" [a-z]+s\b(?<!was)(?<!is)(?<!has)(?<!this)| (?:people|men|women)\b", after(match, 12)
    )
    at = re.search(r"\b(?:[Aa]t|is|was) $", lead) or match[1] in ("22", "23")
    if (
        counted
        or (match[1][0] != "0" and not at)
        or (match[1] in ("19", "20") and match[2] != "00")
    ):
        return None
    return time


@recognizer(
    "time",
    rf"(?<![\w:.,$£€#/–-])(?:([01]\d|2[0-4])([0-5]\d)){DASH}(?:([01]\d|2[0-4])([0-5]\d))"
    rf"(?:( ?(?:hours|hrs|h)\b\.?| Zulu\b|L\b)|{ZONE})?(?![\w%:/–-]|[.,]\d)",
    needs="-–—",
    weight=1.8,
)
def propose_military_span(match: re.Match[str]) -> Proposal | None:
    """`0200–0430 UTC`, `0900-1700`."""
    hour, minute, until, to, word, zone, _ = match.groups()
    marked = word or zone
    if not marked and (hour[0] != "0" or int(minute) % 5 or int(to) % 5):
        return None  # 1939-1945
    first = v.Time(int(hour), int(minute), style="military")
    last = v.Time(int(until), int(to), style="military", zone=zone or "")
    span: v.Value = v.Range(first, last)
    if word:
        said = {"Z": "Zulu", "L": "local"}.get(word.strip()[0], "hours")
        return close(v.Phrase((span, said)), match)
    return Proposal(span, stop=_half_stop(match))


@recognizer(
    "duration",
    r"(?<![\w:.,])(?:(\d{1,3}) ?h ?(\d{1,2})(?: ?m(?:in)?\.?)?(?: ?(\d{1,2}) ?s)?|"
    r"(\d{1,3}) ?m(?:in)? ?(\d{1,2}) ?s(?:ec)?)(?!\w)",
    needs="hm",
    weight=1.4,
)
def propose_hours_minutes(match: re.Match[str]) -> Proposal:
    """`1h 30m`, `28 min 30 s`."""
    hours, minutes, seconds = (int(one) if one else None for one in match.group(1, 2, 3))
    if match[4]:
        minutes, seconds = int(match[4]), int(match[5])
    return close(v.Duration(hours, minutes, seconds), match, digits_follow=False)


@recognizer(
    "duration", r"(?<![\w:.,])(\d{1,3})\+(\d{1,2})(?:['′](?![\w'])|(?= min))", needs="+", weight=1.6
)
def propose_added_time(match: re.Match[str]) -> v.Value:
    """Of a match: 45+2'."""
    return v.Phrase((v.Number(match[1]), "plus", v.Number(match[2])))


@recognizer(
    "ratio",
    rf"(?<![\w:.,])({NUMBER}) ?: ?({NUMBER})(?: ?: ?({NUMBER}))?(?![\w:]|\.\d)",
    needs=":",
    weight=0.9,
)
def propose_ratio(match: re.Match[str]) -> v.Value | None:
    ratio = _RATIO.search(before(match)) or _RATIO_AFTER.match(after(match))
    shares = len(match[1]) == 2 and _add_up(match[1], match[2])
    ratio = ratio or (match if shares and not match[3] else None)  # 60:40
    if not ratio and re.match(r"\d+(?:st|nd|rd|th)?: ", match[0]):
        return None  # In 2001: 14 cases.
    if re.fullmatch(r"\d{2,3}:0\d" if ratio else r"(?!(\d\d):\1)\d{2,3}:[0-5]\d", match[0]):
        return v.Duration(minutes=int(match[1]), seconds=int(match[2]))
    numbers = tuple(parse_number(one) for one in match.groups() if one)
    if match[0] in ("50:50", "50 : 50"):
        return v.Score(numbers, "even")
    return v.Score(numbers, "ratio")


def _add_up(first: str, second: str) -> bool:
    """Whether two numbers are the shares of a hundred."""
    return first.isdecimal() and second.isdecimal() and int(first) + int(second) == 100


_SCORED = LazyPattern(
    r"\b(?:[Ww]on|[Ww]in|[Ww]ins|lost|lose|loses|beat|beats|beaten|tied?|ties|drew|"
    r"score\w*|led|leads?|"
    r"trail\w*|defeat\w*|victory|ruled?|voted?|passed|failed|upset|edged|over \w+|up|down|"
    r"ahead|final|"
    r"game|match|were|was|is|it|record|result|went|go|goes|finished|ended|split)\b[^.;]{0,30}$"
)
_TEAM_RECORD = LazyPattern(
    r"\b(?:went|go|goes|record of|record is|finished|are|were|season|improved to|"
    r"fell to)(?: now)? $|"
    r"\b(?:[Tt]hey|[Ww]e)['’]re (?:now )?$|\b(?:[Ss]he|[Hh]e)['’]s (?:now )?$"
)


_HOURS_BEFORE = LazyPattern(r"\b[Hh]ours?\b[^.;]*$")


def _is_height(match: re.Match[str]) -> bool:
    """Whether it is a player's, in feet and inches: Jones, 6-3, scored twice."""
    feet, inches = int(match[1]), int(match[2])
    named = re.search(r"[A-Z][a-z]+, $", before(match, 20)) and after(match, 1) == ","
    return 5 <= feet <= 7 and inches < 12 and bool(named)


@recognizer(
    "score",
    r"(?<![\w:.,/$£€–-])(\d{1,3})[-–](\d{1,3})(?![\w%:/°]|[.,-]\d|-\w)(?! ?[+=*/])",
    needs="-–",
    weight=0.9,
)
def propose_score(match: re.Match[str]) -> v.Value | Proposal | None:
    first, second = match[1], match[2]
    shares = len(first) == len(second) == 2 and int(first) + int(second) == 100
    if shares and first[1] in "05":
        return Proposal(v.Score((v.Number(first), v.Number(second)), "even"), weight=1.5)
    if (first, second) in (("7", "11"), ("20", "20"), ("9", "11")) and first != "20":
        return Proposal(v.Score((v.Number(first), v.Number(second)), "even"), weight=1.2)
    lead = before(match)
    coded = (len(first) > 1 and first[0] == "0") or (len(second) > 1 and second[0] == "0")
    if coded or _HOURS_BEFORE.search(lead):
        return None  # hours are 10-2
    if _is_height(match):
        return Proposal(v.Score((v.Number(first), v.Number(second)), "even"), weight=1.2)
    if re.match(r" (?:count|pitch)\b", after(match, 7)) and max(int(first), int(second)) < 4:
        return Proposal(v.Score((v.Number(first), v.Number(second)), "even"), weight=1.5)
    if ODDS.search(lead):
        return Proposal(v.Score((v.Number(first), v.Number(second))), weight=1.5)
    team = re.match(r" [A-Z][a-z]+s\b", after(match, 20))
    if team and re.search(r"\b(?:[Tt]he|then|now|\w+ly) $", lead) and first != second:
        return Proposal(v.Range(v.Number(first), v.Number(second), "and"), weight=1.2)
    recorded = bool(_TEAM_RECORD.search(lead[-12:]))
    if (
        not recorded
        and not _SCORED.search(lead)
        and not re.match(
            r" (?:win|loss|victory|defeat|lead|record|vote|draw|tie)\b", after(match, 10)
        )
    ):
        return None
    if (
        recorded
        and first != second
        and not re.match(r" (?:in overtime|on|against|at)", after(match, 12))
    ):
        return Proposal(v.Range(v.Number(first), v.Number(second), "and"), weight=1.2)
    return v.Score((v.Number(first), v.Number(second)))


# Verses of the Bible
_TH = r"(?:\.?[ªº]|[èe]?re|er|e)"


def _books(language: str) -> list[str]:
    table = TABLES[language]
    return [*table.BOOKS, *table.BOOKS.values(), *table.MORE_BOOKS]


def _verse_pattern(language: str) -> str:
    table = TABLES[language]
    short = one_of(key for key in table.BOOKS if len(key) > 1)
    full = one_of([*table.BOOKS.values(), *table.MORE_BOOKS])
    # Behind a comma: Jn 3, 16, which a full name has only without the space.
    mark = "[:.]" if language == "en" else "(?:[:.]|, ?)"
    return (
        rf"(?<!\w)(?:([123]|I{{1,3}}){_TH}? )?(?:({full})|({short})\.?|"
        rf"(?<=[123I] )({one_of(table.BOOKS)})\.?) (\d{{1,3}})({mark})(\d{{1,3}})([a-c](?!\w))?"
        r"(?:[-–—](\d{1,3})(?::(\d{1,3}))?)?(?:(?:, ?|\.)(\d{1,3})(?![\d:]| [A-Z]))?"
        r"(ff?(?!\w)\.?(?= |[,;:)]|$))?(?!\d|[:,]\d|\w)"
    )


@per_language(
    "verse", _verse_pattern, languages=RECOGNIZED_LANGUAGES, needs=_books, weight=2, at="any"
)
def propose_verse(language: str, match: re.Match[str]) -> Proposal | None:
    """`1 Cor. 13:4-8`, `Jn 3, 16`."""
    order, full, short, letter, chapter, mark, verse, part, last, last_verse, more, on = (
        match.groups()
    )
    table = TABLES[language]
    if mark == "." or (full and mark == ", ") or int(chapter) > 150:
        return None
    if re.match(r" ?(?:g|mg|mmol|%)", after(match, 5)):
        return None  # Hb 13,5 g/dl
    name = full or table.BOOKS[short or letter]
    parts: list[v.Value | str] = [table.name_book(name, _order(order)), v.Number(chapter)]
    if last_verse:
        parts += [v.Number(verse), table.TO, v.Number(last), v.Number(last_verse)]
    else:
        parts.append(v.Range(v.Number(verse), v.Number(last)) if last else v.Number(verse))
    if part:
        parts.append(v.Letters(part))
    if more:
        parts += [table.AND, v.Number(more)]
    if on:
        parts.append(_FOLLOWING[language])
    return close(v.Phrase(tuple(parts)), match, language)


_FOLLOWING = {"en": "and following", "es": "y siguientes", "fr": "et suivants"}


def _numbered_forms(language: str) -> str:
    """Books of which there are several, cut short without a full stop: 1 Co 13."""
    table = TABLES[language]
    return one_of(
        key for key, name in table.BOOKS.items() if name in table.NUMBERED_BOOKS and len(key) > 1
    )


def _order(written: str | None) -> int:
    return int(written) if written and written.isdecimal() else len(written or "")


@per_language(
    "verse",
    lambda language: (
        rf"(?<!\w)([123]|I{{1,3}}){_TH}? (?:({one_of(TABLES[language].BOOKS)})\.|"
        rf"({one_of(TABLES[language].NUMBERED_BOOKS)})|({_numbered_forms(language)}))(?= \d)"
    ),
    languages=RECOGNIZED_LANGUAGES,
    needs=_books,
    weight=1.2,
    at="any",
)
def propose_book(language: str, match: re.Match[str]) -> v.Value:
    table = TABLES[language]
    name = match[3] or table.BOOKS[match[2] or match[4]]
    return v.Abbreviation(table.name_book(name, _order(match[1])))


@recognizer(
    "verse",
    rf"\b({one_of(english.BOOKS)})\.(?= \d{{1,3}}(?::\d|[,;.)]|$))",
    needs=english.BOOKS,
    weight=1.4,
    at="needs",
)
def propose_short_book(match: re.Match[str]) -> v.Value | None:
    cited = re.search(r"\d{1,3}:\d[^.]{0,12}[;,] $", before(match, 24))
    if match[1] in ("Ex", "Num", "Col", "Mt", "Est", "Rev", "Sam", "Dan") and not cited:
        return None
    return v.Abbreviation(english.BOOKS[match[1]])


@recognizer(
    "verse",
    rf"(?<!\w)(?:([123]|I{{1,3}}) )?({one_of(english.BOOKS)})\. ([ivxlc]+)(?![\w'])",
    needs=english.BOOKS,
    weight=2,
    digits=False,
    at="any",
)
def propose_roman_chapter(match: re.Match[str]) -> v.Value | None:
    """`Rev. xiii`, `I Cor. xiii`."""
    chapter = roman_value(match[3])
    if not chapter or match[2] in ("Ex", "Num", "Est"):
        return None
    name = english.name_book(english.BOOKS[match[2]], _order(match[1]))
    return v.Phrase((name, v.Roman(chapter)))


@recognizer("time", r"(?<![\w.])([ap])\. ?m\.(?!\w)", digits=False, needs=".", weight=1, at="word")
def propose_bare_half(match: re.Match[str]) -> Proposal:
    return Proposal(v.Letters(f"{match[1].upper()}M"), stop=_half_stop(match))


@per_language(
    "zone",
    r"(?<![\w&])(GMT|UTC) ?([+−–-]) ?(\d{1,2})(?::?(\d\d))?(?![\w:])",
    languages=RECOGNIZED_LANGUAGES,
    needs=("GMT", "UTC"),
    weight=1.8,
)
def propose_offset(language: str, match: re.Match[str]) -> v.Value:
    hours = v.Number(match[3].lstrip("0") or "0", sign="+" if match[2] == "+" else "-")
    minutes = (v.Number(match[4]),) if match[4] and match[4] != "00" else ()
    return v.Phrase((v.Letters(match[1]), hours, *minutes))


@recognizer(
    "zone",
    rf"(?:(?<=[Nn]oon )|(?<=night )|(?<=clock ))({_ZONES})(?![\w&])(\.)?",
    weight=1.1,
    needs=_ZONES.split("|"),
)
def propose_named_zone(match: re.Match[str]) -> Proposal:
    return Proposal(v.Letters(match[1]), stop=_half_stop(match))


# Spanish and French


_ROMANCE_ZONES = frozenset("EST EDT CST PST CET CEST GMT UTC".split())


@recognizer(
    "time",
    r"(?<![\w:.,/])(\d{1,2})(?:[:.h]([0-5]\d))?(?::([0-5]\d))?\s*([aApP])\.?\s?[mM](?:\.|(?!\w))",
    languages=("es",), weight=1.5,
)  # fmt: skip
def propose_spanish_half_day(match: re.Match[str]) -> v.Value | Proposal | None:
    hour = int(match[1])
    if hour > 24 or (match[2] is None and not 1 <= hour <= 12):
        return None
    value: v.Value = v.Time(hour, int(match[2] or 0), half=match[4].lower())
    if hour == 12 and re.search(r"\d (?:a|y) (?:las )?$", before(match)):
        value = v.Phrase((v.Time(hour, int(match[2] or 0)), "de la mañana"))  # de 10 a 12 a. m.
    return close(value, match, "es", continues=_ROMANCE_ZONES)


@recognizer(
    "time",
    r"(?<![\w:.,/])([01]?\d|2[0-4]):([0-5]\d):([0-5]\d)(?![\d:])",
    languages=("es",), needs=":", weight=1.5,
)  # fmt: skip
def propose_spanish_seconds(match: re.Match[str]) -> v.Value:
    return v.Duration(int(match[1]), int(match[2]), int(match[3]))


_HOURS = r"(\s?(?:horas|hrs?|hs?)\b\.?(?!\w))"


@recognizer(
    "time",
    rf"(?<![\w:.,/])([01]?\d|2[0-4])[:h]([0-5]\d)(?![\d:]|[. ]\d{{3}}|[.,]\d){_HOURS}?",
    languages=("es",), weight=1.2,
)  # fmt: skip
def propose_spanish_time(match: re.Match[str]) -> v.Value | Proposal | None:
    return close(
        _by_clock(match[1], int(match[2]), bool(match[3])), match, "es", digits_follow=False
    )


@recognizer(
    "time",
    rf"(?<![\w:.,/])(\d{{1,2}}):([0-5]\d)\s?[-\u2013]\s?(\d{{1,2}}):([0-5]\d)(?![\d:]){_HOURS}?",
    languages=("es",), needs=":", weight=1.3,
)  # fmt: skip
def propose_spanish_span(match: re.Match[str]) -> v.Value | Proposal | None:
    if int(match[1]) > 24 or int(match[3]) > 24:
        return None
    first = _by_clock(match[1], int(match[2]), False)
    first = v.Time(first.hour, first.minute, style=first.style.removesuffix(" hours"))
    last = _by_clock(match[3], int(match[4]), bool(match[5]))
    return close(v.Range(first, last, "a"), match, "es", digits_follow=False)


def _by_clock(hour_written: str, minute: int, marked: bool) -> v.Time:
    """By the clock of 24 hours where it is written so, else as people say it."""
    hour = int(hour_written)
    zero = hour_written.startswith("0") and (len(hour_written) > 1 or not minute)
    if not (marked or hour > 12 or zero) or (hour == 1 and not minute and not zero):
        return v.Time(hour, minute)
    hours = marked or (not minute and (hour > 12 or not hour))
    return v.Time(hour, minute, style="railway hours" if hours else "railway")


@recognizer(
    "time",
    r"(?<=\b[Ll]as )(\d{1,2})\s?(?:h|hs|hrs?)\b\.?(?!\w)|"
    r"(?<=\b[Ll]a )1(?=[.,;]|\s|$)(?!\.?[ªºa°]|[.,]\d)",
    languages=("es",), weight=1.5,
)  # fmt: skip
def propose_spanish_hour(match: re.Match[str]) -> v.Value | Proposal | None:
    if match[1] is None:
        return v.Abbreviation("una")
    if int(match[1]) > 24:
        return None
    return close(v.Time(int(match[1]), style="railway hours"), match, "es", digits_follow=False)


@recognizer(
    "time",
    r"(?<=\blas )(1?\d|2[0-4])\.([0-5]\d)(?!\d|[.,]\d)(\s?h(?:oras)?\b\.?(?!\w))?|"
    r"(?<![\w.,:/])(1?\d|2[0-4])\.([0-5]\d)(\s?h(?:oras)?\b\.?(?!\w))",
    languages=("es",), needs=".", weight=1.7,
)  # fmt: skip
def propose_spanish_time_with_point(match: re.Match[str]) -> v.Value | Proposal | None:
    hour, minute, marked = match.groups()[:3] if match[1] else match.groups()[3:]
    style = ("railway" if int(hour) > 12 or not match[1] else "") + (" hours" if marked else "")
    return close(v.Time(int(hour), int(minute), style=style), match, "es", digits_follow=False)


_AND = r"\s?(?:(y|et)\s)?"


@per_language(
    "duration",
    rf"(?<![\w:.,/])(?:(\d{{1,4}})\s?(?:(?:h|hs|hrs)\b\.?|h(?=\d)){_AND})?"
    rf"(\d{{1,3}})\s?(?:(?:min|mn|m)\b\.?|(?:min|mn|m)(?=\d\d? ?s)|['\u2032])"
    rf"(?:{_AND}([0-5]?\d)(?:\s?(?:seg|sec|s)\b\.?|[\"\u2033]|''))?(?![\w/²'])",
    weight=1.5,
    needs=("min", "mn", "m", "h"),
)
def propose_duration(language: str, match: re.Match[str]) -> v.Value | Proposal | None:
    """1h 30m, 2 h 15 min, 28 min 30 s."""
    hours, first_link, minutes, last_link, seconds = match.groups()
    if not hours and not (seconds and "m" in match[0]):
        return None
    parts: list[v.Value | str] = [v.Duration(hours=int(hours))] if hours else []
    parts += [first_link] if first_link else []
    parts.append(v.Duration(minutes=int(minutes)))
    parts += [last_link] if last_link else []
    parts += [v.Duration(seconds=int(seconds))] if seconds else []
    return close(v.Phrase(tuple(parts)), match, language, digits_follow=False)


@per_language(
    "duration",
    r"(?<![\w:.,/])(?:(\d{1,2})['\u2032])?(\d{1,3})(?:[\"\u2033]|'')(\d{1,3})(?!\w)|"
    r"(?<![\w:.,/])(\d{1,2}):([0-5]\d)[.,](?!000)(\d{1,3})(?![\w:])(?: ?s\b)?",
    weight=1.8, needs='"\u2033:\'',
)  # fmt: skip
def propose_hundredths(language: str, match: re.Match[str]) -> v.Value:
    """Of a race: 45"21, 1'21"456, 1:21.456."""
    minutes, seconds, parts = match.groups()[:3] if match[3] else match.groups()[3:]
    duration = v.Duration(minutes=int(minutes) if minutes else None, seconds=int(seconds))
    return v.Phrase((duration, v.Number(parts)))


@recognizer(
    "time",
    r"(?<=\b[Ll]as )12 ?m\.(?!\w)|(?<=\b[Ll]as )12:00 ?m\.(?!\w)",
    languages=("es",),
    weight=2,
)
def propose_noon(match: re.Match[str]) -> v.Value | Proposal:
    return close(v.Abbreviation("doce del mediodía"), match, "es")


@recognizer(
    "time", r"(?<=\d )y (?:1/2|½)(?![\w/])", languages=("es",), needs="½/", at="any", weight=2
)
def propose_half_past(match: re.Match[str]) -> v.Value | None:
    timed = re.search(
        r"\b[Ll]as? \d{1,2} $", match.string[max(0, match.start() - 9) : match.start()]
    )
    return v.Abbreviation("y media") if timed else None


_FRENCH_HOUR = r"(?<![\w:.,/])([01]?\d|2[0-4])\s?[hH]"


@recognizer(
    "time",
    rf"{_FRENCH_HOUR}\s?([0-5]\d)(?![\w/])()|"
    r"(?<![\w:.,/])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:]| \d{3})(?:\s?h(?:eures)?\b)?",
    languages=("fr",), weight=1.2,
)  # fmt: skip
def propose_french_time(match: re.Match[str]) -> v.Value:
    """14 h 30, 14:30:05."""
    hour, minute, second = match.groups()[:3] if match[1] else match.groups()[3:]
    return v.Time(int(hour), int(minute), int(second) if second else None)


@recognizer(
    "time", r"(?<![\w:.,/])(\d{1,4})\s?[hH]\b\.?(?![\w\u00b2/])", languages=("fr",), weight=1.1
)
def propose_french_hour(match: re.Match[str]) -> v.Value | Proposal:
    return close(v.Time(int(match[1])), match, "fr", digits_follow=False)


@recognizer(
    "time", r"(?<![\w:.,/])(\d{1,2})\s?[hH]?/(24)\b|(?<![\w:.,/])(\d{1,2})\s?[jJ]/(7|365)\b",
    languages=("fr",), needs="/", weight=1.5,
)  # fmt: skip
def propose_round_the_clock(match: re.Match[str]) -> v.Value:
    if match[1]:
        return v.Phrase((v.Time(int(match[1])), "sur", v.Number("24")))
    return v.Phrase((v.Number(match[3]), "jours", "sur", v.Number(match[4])))


@recognizer(
    "time",
    rf"{_FRENCH_HOUR[:-4]}[hH:]([0-5]\d)?\s?[-\u2013]\s?([01]?\d|2[0-4])\s?[hH:]([0-5]\d)?(?!\w)",
    languages=("fr",), weight=1.3,
)  # fmt: skip
def propose_french_span(match: re.Match[str]) -> v.Value:
    first = v.Time(int(match[1]), int(match[2] or 0))
    return v.Range(first, v.Time(int(match[3]), int(match[4] or 0)), "à")
