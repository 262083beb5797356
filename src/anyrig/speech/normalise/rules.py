"""How a language's rules are applied: each stretch of text is said by the first rule that takes it.

A rule is a pattern and a function that says what it found, or declines with None. Rules are tried
in their order over the whole text; what an earlier one has taken, a later one does not see. What
none takes is left as it stands. So every character of the text is in exactly one `Said`.

Some ways of writing hide others: a word cut at a line's end, `&nbsp;` between a number and its
unit, stars around a name. `after` therefore lets a second set of rules read what a first set made
of the text, and still tells where in the text each stretch stood.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate


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
    written: str | re.Pattern[str]
    """Its pattern."""
    say: Callable[[re.Match[str]], str | None]
    """The words, or None when it is no such thing after all."""
    needs: frozenset[str] = frozenset()
    """Of these characters a text must have at least one, or the rule is not tried."""
    flags: int = 0

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first tried: all together cost 0.3 s, and plain prose needs few."""
        return re.compile(self.written, self.flags)


def rule(
    kind: str, pattern: str, *, flags: int = 0, needs: str = ""
) -> Callable[[Callable[[re.Match[str]], str | None]], Rule]:
    r"""Make a rule of the function that says it: `@rule("percent", r"(\d+) ?%")`."""
    return lambda say: Rule(kind, pattern, say, frozenset(needs), flags)


def apply(text: str, rules: Iterable[Rule]) -> list[Said]:
    """The whole text, in order, each stretch with how it is read."""
    taken: list[Said] = []
    characters = set(text)
    for each in rules:
        if each.needs and each.needs.isdisjoint(characters):
            continue
        # A pattern sees the whole text, so that it may look behind and ahead, and begins only where
        # nothing is taken yet.
        if found := list(_found(text, each, taken)):
            taken = sorted(taken + found, key=_start)
    return list(_filled(text, taken))


def after(first: Sequence[Said], rules: Iterable[Rule]) -> list[Said]:
    """What `rules` make of what a first reading made, with places in the text of the first."""
    second = apply("".join(one.text for one in first), rules)
    if not any(one.kind for one in first):
        return second
    return _traced(_Origin(first), second)


def joined(said: Sequence[Said]) -> str:
    """What is read, in one line."""
    return " ".join("".join(one.text for one in said).split())


def _start(said: Said) -> int:
    return said.start


def _found(text: str, each: Rule, taken: Sequence[Said]) -> Iterator[Said]:
    position = 0
    starts = [said.start for said in taken]
    ends = [said.end for said in taken]
    while position <= len(text) and (match := each.pattern.search(text, position)):
        start, end = match.span()
        # The last stretch that begins before this match ends is the only one it can end inside.
        index = bisect_left(starts, end) - 1
        if index >= 0 and ends[index] > start:
            first = bisect_left(ends, start + 1)
            position = max(ends[first], start + 1)
            continue
        words = each.say(match) if end > start else None
        if words is None:
            position = start + 1
            continue
        yield Said(start, end, words, each.kind)
        position = end


def _filled(text: str, taken: Sequence[Said]) -> Iterator[Said]:
    position = 0
    for said in taken:
        if said.start > position:
            yield Said(position, said.start, text[position : said.start])
        yield said
        position = said.end
    if position < len(text):
        yield Said(position, len(text), text[position:])


class _Origin:
    """Where the characters of a first reading's words come from."""

    def __init__(self, first: Sequence[Said]) -> None:
        self.end = first[-1].end
        self.pieces = [one for one in first if one.text]
        lengths = accumulate((len(one.text) for one in self.pieces), initial=0)
        self.offsets = list(lengths)

    def begin(self, position: int) -> int:
        """Where the character at a position comes from; what a rule said is owned by its first."""
        index = bisect_right(self.offsets, position) - 1
        piece, used = self.pieces[index], position - self.offsets[index]
        if not used:
            return piece.start
        return piece.end if piece.kind else piece.start + used

    def last(self, position: int) -> int:
        """Where the character before a position ends."""
        index = bisect_right(self.offsets, position - 1) - 1
        piece = self.pieces[index]
        return piece.end if piece.kind else piece.start + position - self.offsets[index]

    def parts(self, said: Said) -> Iterator[Said]:
        """A stretch; one that no second rule took is cut where the first reading's pieces meet."""
        position = said.end if said.kind else said.start
        if said.kind:
            yield said
        while position < said.end:
            index = bisect_right(self.offsets, position) - 1
            stop = min(said.end, self.offsets[index + 1])
            words = said.text[position - said.start : stop - said.start]
            yield Said(position, stop, words, self.pieces[index].kind)
            position = stop


def _traced(origin: _Origin, second: Sequence[Said]) -> list[Said]:
    traced: list[Said] = []
    position = 0
    for part in (part for said in second for part in origin.parts(said)):
        start = max(position, origin.begin(part.start))
        end = max(start, origin.last(part.end))
        if start > position:
            traced.append(Said(position, start, "", "markup"))
        if end > start:
            traced.append(Said(start, end, part.text, part.kind))
        else:  # Words without a place of their own belong to what the first rule took.
            traced[-1] = replace(traced[-1], text=traced[-1].text + part.text)
        position = end
    if position < origin.end:
        traced.append(Said(position, origin.end, "", "markup"))
    return traced
