"""Telephone numbers in French: two digits at a time."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.numbers import pairs
from anyrig.speech.normalise.rules import Rule, rule

_GAP = "[ \u00a0\u202f.-]"


def _grouped(written: str) -> str:
    plus = "plus " if "+" in written else ""
    groups = re.findall(r"\d+", written)
    return plus + ", ".join(pairs(one) for group in groups for one in _halves(group))


def _halves(group: str) -> list[str]:
    if len(group) <= 3:
        return [group]
    if len(group) == 4 and group[0] == "0":
        return [group]
    odd = len(group) % 2
    return ([group[0]] if odd else []) + re.findall("..", group[odd:])


@rule(
    "phone",
    rf"(?<![\w+])\(?(?:\+|00){{1}}\d{{1,3}}\)?(?:{_GAP}?\(0\))?(?:{_GAP}?\d{{1,4}}){{2,7}}(?!\w)",
)
def _abroad(match: re.Match[str]) -> str | None:
    written = match.group()
    if not 9 <= len(re.findall(r"\d", written)) <= 16:
        return None
    compact = re.fullmatch(r"\+33([1-9])(\d{8})", written)
    if compact:
        written = f"+33 {compact[1]} {' '.join(re.findall('..', compact[2]))}"
    return _grouped(written)


@rule("phone", rf"(?<![\w.,+-])0[1-9](?:{_GAP}?\d\d){{4}}(?!\w|[.,]\d|{_GAP}\d)")
def _national(match: re.Match[str]) -> str | None:
    return ", ".join(pairs(one) for one in re.findall(r"\d\d", match.group()))


@rule(
    "phone",
    rf"(?<![\w.,+-])08\d\d(?:{_GAP}\d{{3}}){{2}}(?!\w)|(?<![\w.,+-])08\d\d(?:{_GAP}\d\d){{3}}(?!\w)",
)
def _free(match: re.Match[str]) -> str | None:
    return _grouped(match.group())


@rule("phone", r"(?<![\w.,+-])(?:3[0-9]|1[0-9]) \d\d(?!\w| \d|[.,]\d)")
def _short(match: re.Match[str]) -> str | None:
    called = match.string[max(0, match.start() - 30) : match.start()].lower()
    return _grouped(match.group()) if re.search(r"appel|compos|tél|num", called) else None


@rule("phone", rf"(?<![\w.,+$-])\(?\d{{3}}\)?{_GAP}\d{{3}}-\d{{4}}(?!\w)")
def _american(match: re.Match[str]) -> str | None:
    groups = re.findall(r"\d+", match.group())
    return ", ".join(" ".join(pairs(one) for one in group) for group in groups)


RULES: tuple[Rule, ...] = (_abroad, _national, _free, _short, _american)
