"""How a language's rules are applied: each stretch of text is said by the first rule that takes it.

A rule is a pattern and a function that says what it found, or declines with None. Rules are tried
in their order over the whole text; what an earlier one has taken, a later one does not see. What
none takes is left as it stands. So every character of the text is in exactly one `Said`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """A stretch of text and how it is read."""

    start: int
    end: int
    text: str
    """Words as they are said; the stretch itself where no rule took it."""
    kind: str = ""
    """The rule's kind: `money`, `date`; empty where none took it."""


@dataclass(frozen=True)
class Rule:
    """One way of writing, and how it is said."""

    kind: str
    pattern: re.Pattern[str]
    say: Callable[[re.Match[str]], str | None]
    """The words, or None when it is no such thing after all."""


def rule(
    kind: str, pattern: str, *, flags: int = 0
) -> Callable[[Callable[[re.Match[str]], str | None]], Rule]:
    r"""Make a rule of the function that says it: `@rule("percent", r"(\d+) ?%")`."""
    compiled = re.compile(pattern, flags)
    return lambda say: Rule(kind, compiled, say)


def apply(text: str, rules: Iterable[Rule]) -> list[Said]:
    """The whole text, in order, each stretch with how it is read."""
    taken: list[Said] = []
    for each in rules:
        # A pattern sees the whole text, so that it may look behind and ahead, and begins only where
        # nothing is taken yet.
        taken = sorted(taken + list(_found(text, each, taken)), key=lambda said: said.start)
    return list(_filled(text, taken))


def joined(said: Sequence[Said]) -> str:
    """What is read, in one line."""
    return " ".join("".join(one.text for one in said).split())


def _found(text: str, each: Rule, taken: Sequence[Said]) -> Iterable[Said]:
    position = 0
    occupied = [(said.start, said.end) for said in taken]
    while match := each.pattern.search(text, position):
        start, end = match.span()
        clash = next((right for left, right in occupied if left < end and start < right), None)
        if start == end or clash is not None:
            position = max(end + (start == end), min(clash or 0, len(text)), start + 1)
            if position > len(text):
                return
            continue
        words = each.say(match)
        if words is None:
            position = start + 1
            continue
        yield Said(start, end, words, each.kind)
        position = end


def _filled(text: str, taken: Sequence[Said]) -> Iterable[Said]:
    position = 0
    for said in taken:
        if said.start > position:
            yield Said(position, said.start, text[position : said.start])
        yield said
        position = said.end
    if position < len(text):
        yield Said(position, len(text), text[position:])
