"""French ordinals, ranges, versions and plain numbers."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.nouns import NO_NOUN, agreement
from anyrig.speech.normalise.french.numbers import (
    cardinal,
    digits,
    label,
    ordinal,
    plural,
    say,
    say_figure,
)
from anyrig.speech.normalise.romance.figures import (
    AFTER,
    BEFORE,
    DASH,
    MINUS,
    NUMBER,
    figure,
)
from anyrig.speech.normalise.romance.sentences import word_after, word_before
from anyrig.speech.normalise.rules import Rule, rule

# A number after one of these is its name and takes no plural: page quatre-vingt.
_NAMING = frozenset("page numéro n° chambre chapitre ligne".split())


@rule(
    "ordinal",
    r"(?<![\w.,])(\d{1,7})(?:(er|ers|re|res|ère|ères|ᵉʳ|ʳᵉ)|(ème|eme|ième|ieme|è|e|ᵉ|nd|nde|d|de)(s?))(?!\w)",
)
def _ordinals(match: re.Match[str]) -> str | None:
    number, first, end, many = int(match[1]), match[2], match[3], match[4] or ""
    if first:
        if number % 10 == 1 and number != 1:
            return ordinal(number)
        many = "s" if first.endswith("s") else ""
        return f"première{many}" if first[0] == "r" or first[0] in "èʳ" else f"premier{many}"
    if not number or (end in ("nd", "nde", "d", "de") and number != 2):
        return None
    if end in ("nd", "d", "nde", "de"):
        return f"second{'e' if end.endswith('e') else ''}{many}"
    return f"{ordinal(number)}{many}"


@rule("number", r"(?<!\w)([Dd])e (?=1 (?!(?:à|et|ou|sur|000)\b)[a-zà-ÿA-Z°%€$])")
def _elided(match: re.Match[str]) -> str | None:
    """D'un kilomètre, but de un à dix."""
    return f"{match[1]}'"


@rule("number", rf"{BEFORE}(\d{{1,4}}):({NUMBER}){AFTER}(?!:)")
def _ratio(match: re.Match[str]) -> str | None:
    """A scale or a proportion; times of day were taken before."""
    return f"{say(match[1])} à {say(match[2])}"


@rule("number", r"(?<!\w)[vV](\d+(?:\.\d+){1,4})(?!\w)")
def _release(match: re.Match[str]) -> str | None:
    parts = match[1].split(".")
    return f"{match.group()[0]} {' point '.join(say(one) for one in parts)}"


@rule("number", rf"{BEFORE}({NUMBER})([Mk])(?!\w)")
def _shortened(match: re.Match[str]) -> str | None:
    """3M, 20k: as counts of people are written."""
    value = figure(match[1])
    if match[2] == "k":
        return "mille" if value.single else f"{say_figure(value)} mille"
    return f"{say_figure(value)} million{'s' if plural(value) else ''}"


@rule("number", r"(?<![\w.,])\d{1,3}(?:\.\d{1,3}){2,}(?![\w.,]\d)(?!\d)")
def _version(match: re.Match[str]) -> str | None:
    parts = match.group().split(".")
    if all(len(one) == 3 for one in parts[1:]) and parts[0] not in ("192", "255", "127"):
        return None
    return " point ".join(digits(one) if one[0] == "0" else cardinal(int(one)) for one in parts)


# A law has a number in parts, no span: loi n° 2015-123.
_CODED = re.compile(r"(?:\bn°|\bnuméro|\b[LRD]\.)[ \u00a0]?$")


@rule("range", rf"{BEFORE}({NUMBER}){DASH}({NUMBER}){AFTER}(?!{DASH}\d)")
def _range(match: re.Match[str]) -> str | None:
    first, last = match[1], match[2]
    spaced = re.search(r"\s[-\u2013]\s", match.group()) and not word_after(match)
    if spaced and figure(first).whole >= figure(last).whole:
        return f"{say(first)} moins {say(last)}"
    if _CODED.search(match.string[max(0, match.start() - 9) : match.start()]):
        return f"{say(first)} tiret {say(last)}"
    link = "et" if word_before(match) == "entre" else "à"
    return f"{say(first)} {link} {say(last, agreement(match))}"


_POINTED = frozenset(
    "version v web article section point paragraphe figure tableau chapitre art. chap. fig. sect. "
    "python windows".split()
)


@rule("number", rf"{BEFORE}({MINUS}{NUMBER})(?![\d\w])(?![.,]\d)")
def _number(match: re.Match[str]) -> str | None:
    value = figure(match[1])
    before = word_before(match)
    if before in _NAMING and not value.decimals and not value.spelt:
        return label(value.whole)
    if value.decimals:
        version = before in _POINTED or value.decimals == "0"
        return say_figure(value, point="point" if version else "virgule")
    words = say_figure(value, agreement(match) if value.whole % 10 == 1 else "")
    if not value.spelt and value.whole and value.whole % 1_000_000 == 0 and _counts(match):
        return f"{words} de"
    return words


def _counts(match: re.Match[str]) -> bool:
    """Whether a noun follows: un million de personnes."""
    noun = word_after(match)
    spoken = noun.islower() and noun not in NO_NOUN and not noun.startswith(("d'", "d\u2019"))
    return spoken and noun[0] not in "aeiouyéèêhœ"


@rule(
    "number",
    rf"{BEFORE}({NUMBER})(?=[^\W\d_])|(?<=[^\W\d_])(\d+)(?![.,]?\d)|(?<=[A-Z])[-\u2010](\d+)(?!\d)",
)
def _glued(match: re.Match[str]) -> str | None:
    """A number that touches letters: 5G, MP3, COVID-19."""
    after = match.string[match.end() : match.end() + 1]
    words = say(match[1] or match[2] or match[3])
    return f"{'' if match[1] else ' '}{words}{' ' if after.isalnum() else ''}"


@rule("number", r"\d+")
def _rest(match: re.Match[str]) -> str | None:
    """Whatever digits are left: no figure goes unsaid."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    return f"{' ' if before.isalnum() else ''}{say(match.group())}{' ' if after.isalnum() else ''}"


# Before the number it leads to.
FIRST: tuple[Rule, ...] = (_elided,)
RULES: tuple[Rule, ...] = (_release, _ratio, _shortened, _ordinals, _version, _range)
# After acronyms, which may hold digits.
LAST: tuple[Rule, ...] = (_glued, _number, _rest)
