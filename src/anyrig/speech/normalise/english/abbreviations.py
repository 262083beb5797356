"""Shortened words, and the two hard ones: St. and Dr., which are a person's or a street's."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.shortened import (
    AFTER,
    FIXED,
    LOWER,
    NAMES_TOO,
    NUMBERED,
    SAINTS,
    STATES,
    TITLES,
    WORDS_TOO,
)
from anyrig.speech.normalise.english.words import DIGITS, STARTERS, stop
from anyrig.speech.normalise.rules import Rule, rule


def _following(match: re.Match[str]) -> str:
    found = re.match(r"['\"]?\s*([A-Za-z][\w-]*)", match.string[match.end() : match.end() + 30])
    return found[1] if found else ""


def _preceding(match: re.Match[str]) -> tuple[str, bool]:
    """The word before, and whether it begins the sentence."""
    before = match.string[max(0, match.start() - 60) : match.start()].rstrip(" ")
    found = re.search(r"([\w'.-]+)$", before)
    if not found:
        return "", True
    lead = before[: found.start()].rstrip(" \"'(")
    titled = re.search(r"\b(?:Mrs?|Ms|Dr|St|Prof|Jr|Sr|Rev|Gen|Col|Capt|[A-Z])\.$", lead)
    return found[1], not lead or (lead[-1] in ".!?:\n" and not titled)


_NO_STREETS = frozenset("Lake Mount Mt Port Fort Dear Professor And But".split())
_STREET_PARTS = frozenset("NW NE SW SE Station Bridge North South East West Apt Suite Ste".split())


def _is_street(match: re.Match[str]) -> bool:
    """Whether the word before is a street's name, and what follows is no person's."""
    word, starts = _preceding(match)
    following = _following(match)
    named = bool(re.match(r"[A-Z][\w'-]+$|\d+(?:st|nd|rd|th)$", word))
    if not named or word in _NO_STREETS:
        return False
    if (
        not following
        or not following[0].isupper()
        or match.string[match.end() : match.end() + 1] == ","
    ):
        return not starts or not following or bool(re.match(r"\d", word))
    numbered = re.search(
        r"\b\d+[A-Z]? (?:[NSEW]\.? )?(?:[A-Z][\w'-]+ ?){1,3}$",
        match.string[max(0, match.start() - 60) : match.start()],
    )
    if starts and not numbered and not word[0].isdigit():
        return False
    initial = re.match(r" [A-Z]\.", match.string[match.end() : match.end() + 3])
    if following in STARTERS and not initial or numbered or re.match(r"\d", word):
        return True
    return following in _STREET_PARTS


@rule("abbreviation", r"\bSt\b\.?(?!\w)", needs="S")
def _street(match: re.Match[str]) -> str | None:
    following = _following(match).removesuffix("'s")
    word, _ = _preceding(match)
    if (
        following in SAINTS
        and not re.match(r"\d", word)
        and not re.search(r"\b\d+ \w+ $", match.string[max(0, match.start() - 30) : match.start()])
    ):
        return "Saint"
    if _is_street(match):
        return "Street" + stop(match)
    if following[:1].isupper() or "-" in match.string[match.end() : match.end() + 1]:
        return "Saint"
    return "Street" + stop(match) if word[:1].isupper() else None


@rule("abbreviation", r"\bDr\b\.?(?!\w)", needs="D")
def _doctor(match: re.Match[str]) -> str | None:
    if _is_street(match):
        return "Drive" + stop(match)
    if _following(match)[:1].isupper() or "." in match[0]:
        return "Doctor" + (stop(match) if not _following(match) else "")
    return None


@rule(
    "abbreviation",
    rf"\b({'|'.join(TITLES)})\.(?= ?[A-Z]| and (?:Mr|Ms|Dr|Prof)| & )|\b(Mrs|Mr|Ms|Prof|"
    r"Sgt|Capt|Lt|Mt)(?= [A-Z][a-z])",
    needs="ABCDFGHILMPRSV",
)
def _title(match: re.Match[str]) -> str | None:
    short = match[1] or match[2]
    word, starts = _preceding(match)
    if short == "Sr" and word[:1].isupper() and not starts:
        return "Senior"
    if short in ("Pt", "Sec") and not match.string[match.end() :].startswith(" "):
        return None
    space = "" if match.string[match.end() : match.end() + 1] == " " else " "
    return TITLES[short] + space


# Of the numbered, those that end a sentence as words of their own.
_WORDS_BEFORE = frozenset(
    "No Nos Art Sec App Tab Ex Lot no nos art sec ed par para app tab ex est ser ver apt fig figs "
    "chap sect op lat vols c d l ll n p r v".split()
)


@rule(
    "abbreviation",
    rf"(?<![\w.])({'|'.join(sorted(NUMBERED, key=len, reverse=True))})\. ?(?=\d|[IVX]+\b(?!'))",
    needs=DIGITS + "IVX",
)
def _numbered(match: re.Match[str]) -> str | None:
    short = match[1]
    spoken = re.match(r"I(?:['’]| (?!of\b|and\b|to\b)[a-z])", match.string[match.end() :][:6])
    if (short in _WORDS_BEFORE or short == "P") and spoken:
        return None  # The answer is no. I asked why.
    if short in ("n", "l", "d", "b", "r", "v", "Q", "c", "P") and (
        match[0].endswith(".") and not match.string[match.end()].isdigit()
    ):
        return None
    if short in ("no", "art", "ed", "tab", "app", "ex", "par") and " " in match[0]:
        word, _ = _preceding(match)
        if re.match(r"\d+\. [A-Z]", match.string[match.end() :]) or word.lower() in (
            "said",
            "oh",
            "say",
        ):
            return None
    return NUMBERED[short] + " "


@rule("abbreviation", r"№ ?(?=\d)", needs="№")
def _numero(match: re.Match[str]) -> str:
    return "number "


@rule("abbreviation", rf"(?<![\w.])(?:{'|'.join(f'({one})' for one in FIXED)})(?!\w)", needs="./")
def _fixed(match: re.Match[str]) -> str:
    said = tuple(FIXED.values())[(match.lastindex or 1) - 1]
    if said.endswith(","):
        return said
    return said + stop(match)


@rule(
    "abbreviation",
    rf"(?<![\w.])({'|'.join(sorted(AFTER, key=len, reverse=True))})\.(?!\w)|(?<=[a-z] )"
    r"(Ave|Blvd|Rd|Ln|Pkwy|Hwy|Jr|Inc|Ltd|Corp)\b(?![.\w'])",
    needs="ABCDEFGHIJLMNOPRSTUW",
)
def _after(match: re.Match[str]) -> str | None:
    short = match[1] or match[2]
    beside = (
        match.string[max(0, match.start() - 2) : match.start()] + match.string[match.end() :][:1]
    )
    if short in NAMES_TOO and not _preceding(match)[0][:1].isupper() and "," not in beside:
        return None
    return AFTER[short] + stop(match)


def _at_end(match: re.Match[str]) -> bool:
    return bool(re.match(r"[\"')\s]*$", match.string[match.end() : match.end() + 9]))


@rule(
    "abbreviation",
    rf"(?<![\w.'])({'|'.join(sorted(map(re.escape, LOWER), key=len, reverse=True))})"
    r"\.(?!\w)|(?<![\w.'])(vs|approx|etc|dept|govt|hrs|yrs|mins|lbs)(?![\w.'])",
    needs=".vaedghyml",
)
def _lower(match: re.Match[str]) -> str | None:
    short = match[1] or match[2]
    if short in WORDS_TOO and (stop(match) or _at_end(match)):
        return None
    return LOWER[short] + stop(match, before_names=short != "vs")


@rule("abbreviation", r"&c\b\.?", needs="&")
def _and_the_rest(match: re.Match[str]) -> str:
    return "et cetera" + stop(match)


@rule("abbreviation", r"(?<![\w.])v\. (?=[A-Z])", needs="v")
def _versus(match: re.Match[str]) -> str:
    return "versus "


@rule(
    "abbreviation",
    r"\b([NSEW])\. (?=(?:[A-Z][a-z]+|\d+(?:st|nd|rd|th)) (?:St|Ave|Rd|Blvd|Dr|Ln|Street|"
    r"Avenue|Road|Drive|Lane|Boulevard)\b)",
    needs="NSEW",
)
def _direction(match: re.Match[str]) -> str:
    return {"N": "North ", "S": "South ", "E": "East ", "W": "West "}[match[1]]


@rule(
    "abbreviation",
    r"(?:(?<=\w\. )|(?<=\w\w, )|(?<=reet )|(?<=enue )|(?<=Road ))(NW|NE|SW|SE)(?![\w])",
    needs="NS",
)
def _corner(match: re.Match[str]) -> str:
    return {"NW": "Northwest", "NE": "Northeast", "SW": "Southwest", "SE": "Southeast"}[match[1]]


@rule("abbreviation", rf"(?<=[a-z], )({'|'.join(STATES)})(?![\w.&-])", needs=",")
def _state(match: re.Match[str]) -> str | None:
    city = re.search(r"[A-Z][\w'.]+, $", match.string[max(0, match.start() - 30) : match.start()])
    # These four are words as well.
    return STATES[match[1]] if city and match[1] not in ("OK", "ME", "HI", "ID") else None


RULES: tuple[Rule, ...] = (
    _fixed, _and_the_rest, _direction, _street, _doctor, _numbered, _numero, _title, _after,
    _lower, _versus, _corner, _state,
)  # fmt: skip
