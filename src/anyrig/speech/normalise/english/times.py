"""Times of day, lengths of time, and ratios, which are written alike."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.words import DIGITS, NUMBER, cardinal, number, stop
from anyrig.speech.normalise.rules import Rule, rule

_HALF = r"(?:([ap])\.m\.|([AaPp])\.?[Mm](?!\w)\.?)"
_DASH = r"(?: ?[-–—] ?| to )"
_LIKE_RATIO = re.compile(
    r"\b(?:ratio|ratios|odds|scale|mix|proportion|proportions|score|aspect|of about|mixed)"
    r"\b[^.]{0,30}$",
    re.IGNORECASE,
)
_SCRIPTURE = re.compile(
    r"\b(?:Gen\.|Exod?\.|Matt\.|Rom\.|Cor\.|Ps\.|Prov\.|Isa\.|Genesis|Exodus|Leviticus|Numbers|Deuteronomy|Joshua|Judges|Ruth|Samuel|Kings|Chronicles|"
    r"Ezra|Esther|Job|Psalms?|Proverbs|Ecclesiastes|Isaiah|Jeremiah|Ezekiel|Daniel|Hosea|Joel|Amos|"
    r"Micah|Matthew|Mark|Luke|John|Acts|Romans|Corinthians|Galatians|Ephesians|Philippians|"
    r"Colossians|Timothy|Titus|Hebrews|James|Peter|Jude|Revelation|Surah|Quran) $"
)


def clock(hour: int, minute: int) -> str:
    """An hour of the day and its minutes."""
    if hour == 0 and minute == 0:
        return "midnight"
    if not minute:
        return f"{cardinal(hour)} o'clock" if hour <= 12 else f"{cardinal(hour)} hundred"
    return f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"


def _half(match: re.Match[str], dotted: int) -> str:
    """`p.m.` as `P M`, with the full stop that also ended the sentence."""
    letter = (match[dotted] or match[dotted + 1] or "").upper()
    if not letter:
        return ""
    return f" {letter} M{stop(match)}"


def _spoken(hour: int, minute: int, half: str) -> str:
    if half and not minute:
        return cardinal(hour)
    return clock(hour, minute)


@rule(
    "time",
    rf"(?<![\w:.,])(\d{{1,2}})(?:[:.](\d\d))?(?: ?{_HALF})?{_DASH}(\d{{1,2}})(?:[:.](\d\d))"
    rf"? ?{_HALF}",
    needs=DIGITS,
)
def _span(match: re.Match[str]) -> str | None:
    hour, minute, until, to = match[1], match[2], match[5], match[6]
    if not (int(hour) <= 24 and int(until) <= 24 and int(minute or 0) < 60 and int(to or 0) < 60):
        return None
    half = (match[3] or match[4] or "").upper()
    first = _spoken(int(hour), int(minute or 0), "x") + (f" {half} M" if half else "")
    return f"{first} to {_spoken(int(until), int(to or 0), 'x')}{_half(match, 7)}"


@rule("time", rf"(?<![\w:.,])(\d{{1,2}})(?:[:.](\d\d))?(?::(\d\d))? ?{_HALF}", needs=DIGITS)
def _half_day(match: re.Match[str]) -> str | None:
    hour, minute, second = int(match[1]), int(match[2] or 0), match[3]
    if hour > 24 or minute > 59:
        return None
    said = _spoken(hour, minute, "x")
    if second:
        said += f" and {_count(second, 'second')}"
    return said + _half(match, 4)


@rule("time", r"(?<![\w:.,])(\d{1,2}):(\d\d)(?::(\d\d))?(?:[.,](\d{1,3}))?(?:( ?[-–—] ?| to )"
      r"(\d{1,2}):(\d\d))?(?![\w:]|\.\d)( (?:hours|hrs|o'clock))?", needs=":")  # fmt: skip
def _clock(match: re.Match[str]) -> str | None:
    hour, minute, second, part, dash, until, to, after = match.groups()
    before = match.string[max(0, match.start() - 40) : match.start()]
    if _SCRIPTURE.search(before):
        return _verse(match)
    if int(minute) > 59 or (second and int(second) > 59) or (not second and int(hour) > 24):
        return None
    if second:
        return f"{_count(hour, 'hour')} {_count(minute, 'minute')} and {_seconds(second, part)}"
    if part:
        return f"{_count(hour, 'minute')} {_seconds(minute, part)}"
    if _LIKE_RATIO.search(before):
        return None
    said = clock(int(hour), int(minute))
    if dash and int(until) <= 24:
        said += f" to {clock(int(until), int(to))}"
    if after and said.endswith("o'clock"):
        said = said.removesuffix(" o'clock") + (" hundred" if "h" in after else "")
    return said + (" hours" if after and "h" in after else " o'clock" if after else "")


def _verse(match: re.Match[str]) -> str:
    return f"{cardinal(match[1])} {cardinal(match[2])}"


def _seconds(text: str, part: str | None) -> str:
    return f"{number(f'{int(text)}.{part}')} seconds" if part else _count(text, "second")


def _count(text: str, noun: str) -> str:
    value = int(text)
    return f"{cardinal(value)} {noun}{'' if value == 1 else 's'}"


@rule("time", r"(?<![\w:.,])([01]\d|2[0-4])([0-5]\d) (?=hours\b|hrs\b|GMT|UTC|Zulu)", needs=DIGITS)
def _military(match: re.Match[str]) -> str:
    hour, minute = match[1], match[2]
    said = f"oh {cardinal(hour[1])}" if hour[0] == "0" and hour != "00" else cardinal(int(hour))
    if minute == "00":
        return f"{said} hundred "
    return f"{said} {'oh ' if minute[0] == '0' else ''}{cardinal(int(minute))} "


@rule(
    "time",
    r"(?<![\w:.,])(\d{1,3}) ?h ?(\d{1,2})(?: ?m(?:in)?)?(?: ?(\d{1,2}) ?s)?(?!\w)",
    needs="h",
)
def _hours_minutes(match: re.Match[str]) -> str:
    said = f"{_count(match[1], 'hour')} {_count(match[2], 'minute')}"
    return f"{said} {_count(match[3], 'second')}" if match[3] else said


@rule("time", r"(?<![\w:.,])(\d{1,3}) ?m(?:in)? ?(\d{1,2}) ?s(?:ec)?(?!\w)", needs="m")
def _minutes_seconds(match: re.Match[str]) -> str:
    return f"{_count(match[1], 'minute')} {_count(match[2], 'second')}"


@rule(
    " ratio", rf"(?<![\w:.,])({NUMBER}) ?: ?({NUMBER})(?: ?: ?({NUMBER}))?(?![\w:]|\.\d)", needs=":"
)
def _ratio(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 40) : match.start()]
    if _SCRIPTURE.search(before):
        return f"{number(match[1])} {number(match[2])}"
    said = f"{number(match[1])} to {number(match[2])}"
    return f"{said} to {number(match[3])}" if match[3] else said


@rule("time", r"(?<![\w.])([ap])\.m\.(?!\w)", needs=".")
def _bare_half(match: re.Match[str]) -> str:
    return f"{match[1].upper()} M" + ("." if match.end() == len(match.string) else "")


RULES: tuple[Rule, ...] = (
    _span, _half_day, _clock, _military, _hours_minutes, _minutes_seconds, _ratio,
    _bare_half,
)  # fmt: skip
