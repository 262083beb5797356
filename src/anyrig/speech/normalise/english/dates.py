"""Days, months, years, decades and eras."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.times import clock
from anyrig.speech.normalise.english.words import DIGITS, cardinal, decade, ordinal, stop, year
from anyrig.speech.normalise.rules import Rule, rule

MONTHS = (
    "January February March April May June July August September October November December".split()
)
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_SHORT = {name[:3]: name for name in MONTHS} | {"Sept": "September"}
_SHORT_DAYS = {name[:3]: name for name in _DAYS} | {
    "Tues": "Tuesday", "Thur": "Thursday", "Thurs": "Thursday", "Weds": "Wednesday",
}  # fmt: skip
_MONTH = rf"(?:{'|'.join(MONTHS)}|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\b\.?)"
_DAY = rf"(?:(?:{'|'.join(_DAYS)}|(?:{'|'.join(_SHORT_DAYS)})\b\.?),? )"
_NTH = r"(?:st|nd|rd|th)"
_YEAR = r"(?:1\d{3}|20\d\d|21\d\d)(?![\d,]\d|\d|(?:\.\d))"
_DASH = r" ?[-–—] ?"
# After a bare month and day these words tell that people or things are counted.
_AFTER = re.compile(r" (?!(?:and|or|at|in|is|was|to|the|for|from|of|on|with|as|a|an|when|but|we|"
                    r"he|she|it|they|by|will|would|has|had|until|through|were|are|after|before|"
                    r"this|that|which|who|because|since|during|if|so|near|not)\b)"
                    r"[a-z]")  # fmt: skip


def month(text: str) -> str:
    """`Sept.` as `September`."""
    bare = text.rstrip(".")
    return _SHORT.get(bare[:4] if bare == "Sept" else bare[:3], bare)


def _weekday(text: str | None) -> str:
    if not text:
        return ""
    bare = text.strip(" ,.")
    return f"{_SHORT_DAYS.get(bare, bare)}, "


def _in_year(text: str | None) -> str:
    return f", {year(text)}" if text else ""


def _valid(day: str | int) -> bool:
    return 1 <= int(day) <= 31


def _month_day(month_number: int, day: str | int, written: str | None) -> str | None:
    if not (1 <= month_number <= 12 and _valid(day)):
        return None
    return f"{MONTHS[month_number - 1]} {ordinal(int(day))}{_in_year(written)}"


@rule("date", rf"\b({_DAY})?({_MONTH}) (\d{{1,2}}){_NTH}?(?:,? ({_YEAR}))?{_DASH}({_MONTH}) "
      rf"(\d{{1,2}}){_NTH}?(?:,? ({_YEAR}))?(?![\d:])", needs=DIGITS)  # fmt: skip
def _month_span(match: re.Match[str]) -> str | None:
    day, first, one, begun, second, two, written = match.groups()
    if not (_valid(one) and _valid(two)):
        return None
    begin = f"{_weekday(day)}{month(first)} {ordinal(one)}{_in_year(begun)}"
    return f"{begin} to {month(second)} {ordinal(two)}{_in_year(written)}"


@rule("date", rf"\b({_DAY})?({_MONTH}) (?:the )?(\d{{1,2}}){_NTH}?(?:{_DASH}(\d{{1,2}}){_NTH}?)?"
      rf"(?:,? ({_YEAR}))?(?![\d:%]|,\d{{3}}|\.\d)", needs=DIGITS)  # fmt: skip
def _month_first(match: re.Match[str]) -> str | None:
    day, name, one, two, written = match.groups()
    if not _valid(one) or (two and not _valid(two)):
        return None
    rest = match.string[match.end() : match.end() + 40]
    if name in ("May", "March") and not written and not day and _AFTER.match(rest):
        return None
    to = f" to {ordinal(two)}" if two else ""
    the = " the" if " the " in match[0] else ""
    return f"{_weekday(day)}{month(name)}{the} {ordinal(one)}{to}{_in_year(written)}"


@rule(
    "date",
    rf"\b({_DAY})?([Tt]he )?\b(\d{{1,2}})({_NTH})?(?:({_DASH}| and | to | & )(\d{{1,2}})"
    rf"{_NTH}?)?"
    rf"( of)? ({_MONTH})(?:{_DASH}(?:the )?(\d{{1,2}}){_NTH}?(?: of)? ({_MONTH}))?"
    rf"(?:,? ({_YEAR}))?(?!\w)",
    needs=DIGITS,
)
def _day_first(match: re.Match[str]) -> str | None:
    weekday, the, one, _, joint, two, _, name, last, end, written = match.groups()
    if not all(_valid(day) for day in (one, two, last) if day):
        return None
    said = f"{_weekday(weekday)}{the or 'the '}{ordinal(one)}"
    if joint and two:
        link = "and" if joint.strip() in ("and", "&") else "to"
        said += f" {link} {'the ' if link == 'to' else ''}{ordinal(two)}"
    said += f" of {month(name)}"
    if last:
        said += f" to the {ordinal(last)} of {month(end)}"
    return said + _in_year(written)


@rule("date", rf"\b({_MONTH}),? ({_YEAR})(?:{_DASH}({_MONTH}) ({_YEAR}))?", needs=DIGITS)
def _month_year(match: re.Match[str]) -> str:
    said = f"{month(match[1])} {year(match[2])}"
    return f"{said} to {month(match[3])} {year(match[4])}" if match[3] else said


@rule("date", r"(?<![\w./-])(\d{4})([-/.])(\d\d)\2(\d\d)(?:[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?"
      r"(Z)?)?(?![\w/-])", needs=DIGITS)  # fmt: skip
def _iso(match: re.Match[str]) -> str | None:
    said = _month_day(int(match[3]), match[4], match[1])
    if said and match[5]:
        hour, minute = match[5].split(":")
        said += f", {clock(int(hour), int(minute))}" + (" U T C" if match[6] else "")
    return said


@rule("date", r"(?<![\w./-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)(?![\w/-]|\.\d)", needs=DIGITS)
def _numeric(match: re.Match[str]) -> str | None:
    first, sign, second, written = int(match[1]), match[2], int(match[3]), match[4]
    if sign == "." and len(written) == 2 or sign == "-" and len(written) == 2 and first > 31:
        return None
    # Americans write the month first; dots and a first number above twelve tell of a day.
    if sign == "." and second <= 12 or first > 12:
        first, second = second, first
    if len(written) == 2:
        written = f"{'20' if int(written) < 50 else '19'}{written}"
    return _month_day(first, second, written)


@rule(
    "date",
    r"(?:(?<=\b[Oo]n )|(?<=\bby )|(?<=\bdue )|(?<=\buntil )|(?<=\bsince )|(?<=\bdated )|"
    r"(?<=\bbirthday is ))(\d{1,2})/(\d{1,2})(?![\w/]|\.\d)",
    needs="/",
)
def _on_slash(match: re.Match[str]) -> str | None:
    return None if match[0] == "9/11" else _month_day(int(match[1]), match[2], None)


_TIMED = re.compile(
    r"(?:\b(?:[Oo]n|[Ee]very|[Nn]ext|[Ll]ast|[Tt]his|[Uu]ntil|[Bb]y|[Ff]rom|to|and|or|[Ss]ince|"
    r"until|of|[Dd]ue) |[-–,:(] ?|\n)$|^$"
)


@rule("date", rf"\b({'|'.join(_SHORT_DAYS)})\.(?=,| (?:\d|[A-Z]|at|from|to|and|evening|morning|"
      rf"afternoon|night|[-–])|$)", needs=".")  # fmt: skip
def _short_day(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 9) : match.start()]
    closes = re.match(r"[\"')\s]*(?:$|[A-Z])", match.string[match.end() :][:9])
    # Words as well: the Sun. The day has a word of time before it, or more behind it.
    plain = re.search(r"\b[Tt]he $", before) or (closes and not _TIMED.search(before))
    if plain and match[1] in ("Sun", "Sat", "Mon", "Wed"):
        return None
    return _SHORT_DAYS[match[1]] + stop(match)


@rule("date", r"\b(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\.(?![A-Za-z])", needs=".")
def _short_month(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 9) : match.start()]
    closes = re.match(r"[\"')\s]*(?:$|[A-Z])", match.string[match.end() :][:9])
    if match[1] == "Jan" and closes and not re.search(r"\b(?:in|[Ss]ince|until|of|by) $", before):
        return None  # A name: so said Jan.
    return month(match[1]) + stop(match)


@rule(
    "year",
    r"(?<![\w.,])(?:(A\.?D\.?|C\.?E\.?) ?(\d{1,4})|(\d{1,4})(?:( ?[-–] ?| to )(\d{1,4}))? "
    r"?"
    r"(B\.?C\.?E\.?|B\.?C\.?|A\.?D\.?|C\.?E\.?))(?![\w%])",
    needs="BC AD",
)
def _era(match: re.Match[str]) -> str:
    written = match[1] or match[6]
    era = " ".join(written.replace(".", ""))
    end = "." if written.endswith(".") and match.end() == len(match.string) else ""
    if match[1]:
        return f"{era} {year(match[2])}"
    span = f" to {year(match[5])}" if match[5] else ""
    return f"{year(match[3])}{span} {era}{end}"


@rule(
    "date",
    rf"\b({'|'.join(_SHORT_DAYS)})\.? ?([-–—]|to) ?({'|'.join(_SHORT_DAYS)})\b"
    rf"(?:\.(?=[,;:)]| [a-z\d]))?|"
    rf"\b({'|'.join(_SHORT)})\.? ?([-–—]) ?({'|'.join(_SHORT)})\b(?:\.(?=[,;:)]| [a-z\d]))?",
)
def _named_span(match: re.Match[str]) -> str:
    if match[1]:
        return f"{_SHORT_DAYS[match[1]]} to {_SHORT_DAYS[match[3]]}"
    return f"{month(match[4])} to {month(match[6])}"


@rule(
    "year",
    r"(?<![\w.,])(?:([12]\d\d0)'?s|'([1-9]0)'?s|([5-9]0)s(?= [a-z])|(?<=\bthe )([2-9]0)"
    r"'?s|"
    r"(?<=\b[Mm]id-)([2-9]0)'?s|((?:(?<=early )|(?<=late )|(?<=mid )|(?<=his )|(?<=her )|"
    r"(?<=their )|(?<=my )|(?<=your ))[2-9]0)'?s)\b",
    needs=DIGITS,
)
def _decade(match: re.Match[str]) -> str:
    if match[1]:
        return decade(int(match[1]))
    return decade(int(next(group for group in match.groups()[1:] if group)), short=True)


@rule(
    "year",
    rf"(?<![\w.,$£€])({_YEAR})( ?(?:--?|[–—]) ?|/)(\d{{4}}|\d\d)(?![\w%/]|[.,-]\d)",
    needs=DIGITS,
)
def _year_span(match: re.Match[str]) -> str | None:
    first, sign, last = int(match[1]), match[2], match[3]
    if len(last) == 4 and not first < int(last) < 2200:
        return None
    if len(last) == 2 and not first % 100 < int(last):
        return None
    to = " " if sign == "/" else " to "
    return f"{year(first)}{to}{year(last) if len(last) == 4 else cardinal(last)}"


@rule("year", r"(?<![\w.,])'(\d\d)(?![\w.,]\w|\w|')", needs="'")
def _short_year(match: re.Match[str]) -> str:
    return f"oh {cardinal(match[1])}" if match[1][0] == "0" else cardinal(match[1])


_COUNTED = (
    "people men women children students dollars euros pounds miles kilometers metres meters feet "
    "words pages votes soldiers troops workers employees jobs homes houses copies calories units "
    "points steps hours days years minutes seconds tons tonnes acres volts watts pieces items "
    "percent times grams members seats copies characters lines rows bytes pixels rpm souls dead "
    "degrees cubic square million thousand different more".split()
)
_NO_NOUN = "was is has his this its as it's does us was across towards always thus perhaps".split()
_PREPOSITION = re.compile(
    r"\b(?:[Ii]n|[Ss]ince|[Bb]y|[Uu]ntil|[Ff]rom|[Dd]uring|[Cc]irca|[Yy]ear|[Ee]arly|[Ll]ate|"
    r"[Bb]efore|[Aa]fter|[Ss]pring|[Ss]ummer|[Aa]utumn|[Ff]all|[Ww]inter|of|[Bb]ack to|"
    r"ca?\.)[ -](?:the )?$"
)


@rule("year", r"(?<![\w.,$£€¥₹#/-])([1-9]\d{3})(?![\w%$£€¥₹°/×^*]|[.,:]\d| ?[×*+^=<>÷] ?\d|-\w)"
      r"(?=( [a-z]+\b)?)", needs=DIGITS)  # fmt: skip
def _plain_year(match: re.Match[str]) -> str | None:
    value, after = int(match[1]), (match[2] or "").strip()
    before = match.string[max(0, match.start() - 16) : match.start()]
    placed = bool(_PREPOSITION.search(before)) or _set_apart(match, before)
    if after in _COUNTED or not 1000 <= value < (3000 if before.endswith("year ") else 2200):
        return None
    if placed:
        return year(value) if value >= 1010 or before.endswith("year ") else None
    # Round numbers count things more often than younger years do.
    likely = (1500 if value % 50 == 0 else 1400) <= value < 2100
    named = value % 50 != 0 and before.lower().endswith("the ")
    return year(value) if likely and (named or not _is_plural(after)) else None


def _set_apart(match: re.Match[str], before: str) -> bool:
    """Whether it stands as years do: `(1066)`, `Hastings, 1066.`"""
    ends = match.string[match.end() : match.end() + 1] in (")", ".", ";", "")
    return ends and bool(re.search(r"[a-z], $|\($", before))


def _is_plural(word: str) -> bool:
    return word.endswith("s") and word not in _NO_NOUN and not word.endswith(("ss", "is", "us"))


RULES: tuple[Rule, ...] = (
    _month_span, _month_first, _day_first, _month_year, _iso, _numeric, _on_slash, _era, _decade,
    _year_span,
)  # fmt: skip
NAMES: tuple[Rule, ...] = (_named_span, _short_day, _short_month)
YEARS: tuple[Rule, ...] = (_short_year, _plain_year)
