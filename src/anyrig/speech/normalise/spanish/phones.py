"""Telephone numbers in Spanish: digit by digit, in the groups they are written in."""

from __future__ import annotations

import re

from anyrig.speech.normalise.romance.sentences import word_after, word_before
from anyrig.speech.normalise.rules import Rule, rule
from anyrig.speech.normalise.spanish.numbers import digits

_GAP = "[ \u00a0\u202f.-]"
_CALLED = re.compile(
    r"(?:tel[eé]fonos?|tel\.?|tfno\.?|tlf\.?|telf\.?|m[oó]vil|celular|fax|llam\w+|whatsapp|n[uú]mero|cel\.?|marc\w+)[^.\d]{0,25}$",
    re.IGNORECASE,
)


def _grouped(written: str) -> str:
    plus = "más " if written.lstrip("(").startswith(("+", "00")) and "+" in written else ""
    groups = re.findall(r"\d+", written)
    if len(groups) == 1 and len(groups[0]) == 9:
        groups = re.findall(r"\d{3}", groups[0])
    return plus + ", ".join(digits(group) for group in groups)


@rule("phone", rf"(?<![\w+])\(?\+\d{{1,3}}\)?(?:{_GAP}?\(?\d{{1,4}}\)?){{2,6}}(?![\w])")
def _abroad(match: re.Match[str]) -> str | None:
    return _grouped(match.group()) if len(re.findall(r"\d", match.group())) >= 8 else None


# Nine digits of Spain in their groupings, then ten of the Americas.
_SHAPES = "|".join((
    rf"[6-9]\d\d{_GAP}\d\d\d{_GAP}\d\d\d",
    rf"[6-9]\d\d(?:{_GAP}\d\d){{3}}",
    rf"[89]\d{_GAP}\d{{3}}{_GAP}\d\d{_GAP}\d\d",
    r"[679]\d{8}",
    rf"\(\d{{2,3}}\) ?\d{{3,4}}{_GAP}\d{{4}}",
    rf"\d\d{_GAP}\d{{4}}{_GAP}\d{{4}}",
    r"\d{3}-\d{3,4}-\d{3,4}",
))  # fmt: skip


@rule("phone", rf"(?<![\w.,+€$-])(?:{_SHAPES})(?![\w]|[.,]\d|{_GAP}\d)")
def _national(match: re.Match[str]) -> str | None:
    dotted = "." in match.group() and not _called(match)
    counted = word_after(match).lower() in _COUNTED_THINGS
    follows = match.string[match.end() : match.end() + 2].strip()[:1]
    if dotted or counted or follows in tuple("€$%£"):
        return None
    return _grouped(match.group())


_COUNTED_THINGS = frozenset(
    "habitantes personas euros dólares pesos kilómetros km toneladas libros años unidades votos "
    "de metros millones".split()
)


def _called(match: re.Match[str]) -> bool:
    return bool(_CALLED.search(match.string[max(0, match.start() - 50) : match.start()]))


@rule("phone", rf"(?<![\w.,+-])\d{{2,5}}(?:{_GAP}?\d{{2,4}}){{0,4}}(?![\w]|[.,]\d)")
def _after_word(match: re.Match[str]) -> str | None:
    """Any longer run of digits after a word that promises a telephone number."""
    if not _called(match) or word_before(match) in ("número", "numero"):
        return None
    count = len(re.findall(r"\d", match.group()))
    short = count == 3 and re.search(
        r"(?:llam|marc|tel)[^.\d]{0,20}$", match.string[: match.start()][-30:].lower()
    )
    return (
        _grouped(match.group()) if count >= 6 or (short and match.group() not in ("100",)) else None
    )


@rule("code", r"(?<![\w.,-])(\d{8})-?([A-Z])(?!\w)")
def _identity(match: re.Match[str]) -> str | None:
    """The number of an identity card, its letter last."""
    return f"{digits(match[1])} {match[2]}"


@rule("phone", r"(?<![\w.,+€$-])(\d{4})-(\d{4})(?![\w-]|[.,]\d)")
def _eight(match: re.Match[str]) -> str | None:
    """Eight digits, unless they are two years."""
    years = all(1000 <= int(one) <= 2100 for one in match.groups())
    return None if years else _grouped(match.group())


RULES: tuple[Rule, ...] = (_abroad, _national, _after_word, _eight, _identity)
