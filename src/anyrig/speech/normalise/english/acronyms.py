"""Acronyms, said as a word or spelled, and names made of letters and digits."""

from __future__ import annotations

import re

from anyrig.speech.normalise.english.acronym_words import PLAIN, SAID, SPECIAL, SPELLED
from anyrig.speech.normalise.english.words import STARTERS, label_number, letters, stop
from anyrig.speech.normalise.rules import Rule, rule

_SHOUTED = re.compile(r"[A-Z']{2,}")
# How English words begin, where they begin with more than one consonant.
_ONSETS = "[BCFGKPS]L|[BCDFGKPTW]R|[CGKPRSTW]H|[DST]W|S[CKMNPQT]|KN|PS|QU|TS|GN"
_DOUBTFUL = ("US", "IT", "ADD", "AM", "AD", "ID", "MA")


def _is_shouted(match: re.Match[str]) -> bool:
    """Whether the words beside it are in capitals too, and are no acronyms."""
    before = re.search(
        r"([A-Za-z']+)[^A-Za-z0-9]{1,3}$", match.string[max(0, match.start() - 30) : match.start()]
    )
    after = re.match(r"[^A-Za-z0-9]{1,3}([A-Za-z']+)", match.string[match.end() : match.end() + 30])
    return any(found and _plain_word(found[1]) for found in (before, after))


def _plain_word(word: str) -> bool:
    if not _SHOUTED.fullmatch(word) or word in SPELLED or word in SAID:
        return False
    return word in PLAIN or len(word) > 3 and _sayable(word)


def _sayable(word: str) -> bool:
    vowels = len(re.findall("[AEIOUY]", word))
    if not re.match(rf"{_ONSETS}|[^AEIOUY]?[AEIOUY]", word):
        return False
    return bool(vowels) and not re.search(r"[^AEIOUY]{5}|^[^AEIOUY]{4}|^([AEIU])\1", word)


def _spell(word: str, match: re.Match[str]) -> bool:
    if word in SAID:
        return False
    if word in SPELLED:
        return word not in _DOUBTFUL or not _is_shouted(match)
    if word in PLAIN and len(word) > 1:
        named = match.string[max(0, match.start() - 4) : match.start()].lower() == "the "
        acts = re.match(
            r" (?:says|said|report|recommend|declare|warn)", match.string[match.end() :][:10]
        )
        return word == "WHO" and bool(named or acts)
    if len(word) <= 3:
        return not (_is_shouted(match) and _sayable(word))
    return not _sayable(word)


@rule(
    "acronym",
    r"(?<![\w&])(?:"
    rf"{'|'.join(re.escape(one) for one in sorted(SPECIAL, key=len, reverse=True))})"
    r"(?![\w+])",
)
def _special(match: re.Match[str]) -> str:
    return SPECIAL[match[0]]


@rule("acronym", r"(?<![\w&])([A-Z]{1,4}(?:&(?:amp;)?[A-Z]{1,3})+)(s|'s)?(?![\w&])", needs="&")
def _ampersand(match: re.Match[str]) -> str:
    return letters(match[1].replace("amp;", "")) + (match[2] or "")


@rule(
    "acronym",
    r"(?<![\w&])([A-Z]{2,6})-?(\d{1,4})(?:[-.](\d{1,3}))?(s|'s)?(?![\w&]|-\d)",
    needs="0123456789",
)
def _numbered(match: re.Match[str]) -> str | None:
    word, digits, more, tail = match.groups()
    said = word if word in SAID or (len(word) > 3 and _sayable(word)) else letters(word)
    number = label_number(digits)
    if more:
        number += f"{' point' if '.' in match[0] else ''} {label_number(more)}"
    return f"{said} {number}{tail or ''}"


@rule("acronym", r"(?<![\w&.])([A-Z])-(\d{1,4})([A-Z])?(s|'s)?(?![\w&]|-\d)", needs="-")
def _lettered(match: re.Match[str]) -> str:
    return (
        f"{match[1]} {label_number(match[2])}{' ' + match[3] if match[3] else ''}{match[4] or ''}"
    )


@rule(
    "acronym",
    r"(?<![\w&.,])(?=[A-Za-z0-9-]{0,12}\d)(?=[0-9-]{0,10}[A-Z])((?:[A-Z]{1,4}|\d{1,4})"
    r"(?:-?(?:[A-Z]{1,4}|\d{1,4}))+)(s|'s|i)?(?![\w&]|-[A-Za-z0-9])",
    needs="0123456789",
)
def _mixed(match: re.Match[str]) -> str:
    parts = re.findall(r"[A-Z]+|\d+", match[1])
    said = [
        label_number(part) if part.isdecimal() else part if part in SAID else letters(part)
        for part in parts
    ]
    return " ".join(said) + (f" {match[2]}" if match[2] == "i" else match[2] or "")


@rule("acronym", r"(?<![\w&])([A-Z]{2,5})-([A-Z]{1,5})(?![\w&-])", needs="-")
def _hyphened(match: re.Match[str]) -> str | None:
    said = [_one(word, match) for word in match.groups()]
    return " ".join(said) if said != list(match.groups()) else None


def _one(word: str, match: re.Match[str]) -> str:
    return letters(word) if len(word) == 1 or _spell(word, match) else word


@rule(
    "acronym",
    r"(?<![\w&'])([A-Z]{2,8})(s|'s|es|ed|'d|ing)?(?![\w&])",
    needs="ABCDEFGHIJKLMNOPQRSTUVWXYZ",
)
def _acronym(match: re.Match[str]) -> str | None:
    word, tail = match[1], match[2] or ""
    if re.match(r"'[A-Z]", match.string[match.end() : match.end() + 2]) or not _spell(word, match):
        return None
    return letters(word) + tail


@rule("acronym", r"(?<![\w.])((?:[A-Z]\.){2,6})([A-Z](?![\w.]))?('s|s)?(?!\w)", needs=".")
def _dotted(match: re.Match[str]) -> str:
    return " ".join(re.findall("[A-Z]", match[0])) + (match[3] or "") + stop(match)


@rule("initials", r"(?<![\w.'])((?:[A-Z]\.[ -]?)+)(?=[A-Z][a-z'])", needs=".")
def _initials(match: re.Match[str]) -> str | None:
    rest = match.string[match.end() : match.end() + 12]
    many = match[1].count(".") > 1
    starts = re.match(r"[A-Z][a-z']*", rest)
    if starts and starts[0].partition("'")[0] in STARTERS and " " not in match[1].strip():
        return None  # He left the U.S. He went home.
    before = match.string[max(0, match.start() - 3) : match.start()].rstrip()
    if not many and match[1][0] == "I" and before[-1:].islower():
        return None
    return " ".join(re.findall("[A-Z]", match[1])) + " "


@rule("initials", r"(?<![\w.'])([A-HJ-Z])\. (?=[a-z]{3,})", needs=".")
def _species(match: re.Match[str]) -> str:
    return f"{match[1]} "


RULES: tuple[Rule, ...] = (
    _special, _ampersand, _numbered, _lettered, _mixed, _hyphened, _acronym,
)  # fmt: skip
DOTTED: tuple[Rule, ...] = (_initials, _species, _dotted)
