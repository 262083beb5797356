r"""Recognisers of written forms: one module per class of token, with tables per language.

A recogniser is a pattern and a function that makes a typed value of a match, or declines with None.
All of a language propose candidates over a stretch of text; `find_best` takes those that do not
overlap and score highest together. A candidate scores its length times its weight: about 0.5 for a
form that is often something else (a bare number), 1 for a usual one, up to 3 where the words around
confirm it. So "7 a.m. Monday" beats "7" and "a.m.", and what covers more of the text wins.

    @recognizer("ratio", r"(\d+):(\d+)", languages=("en", "fr"), needs=":")
    def _ratio(match: re.Match[str]) -> Value | Found | None: ...

A recogniser whose match ends in a full stop decides whether that also ends the sentence
(`recognizers/stops.py`) and returns `Found(value, stop=...)`; without one the stop is left out of
the match. `per_language` makes one of a function for each of several languages.
"""

from __future__ import annotations

import importlib
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal

from anyrig.text.values import Value

_DIGITS = frozenset("0123456789½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉")
_WORD = re.compile(r"[^\W\d_]+")
Stop = Literal["none", "abbreviation", "end", "both"]
"""What a full stop at a token's end is: none there, an abbreviation's, a sentence's, or both."""
MODULES: tuple[str, ...] = (
    "web", "dates", "times", "money", "measures", "numbers", "names", "abbreviations", "acronyms",
    "roman", "formulas", "signs",
)  # fmt: skip
"""The modules of this package that register recognisers."""
RECOGNIZED_LANGUAGES = ("en", "es", "fr")
_NUMERIC = frozenset(
    "angle date decade digits dimensions duration fraction iban isbn label measure model money "
    "number ordinal percent phone postcode range ratio score screen section size time verse "
    "version year".split()
)
"""Kinds of tokens with a digit in them."""
_REGISTERED: dict[str, list[Recognizer]] = {language: [] for language in RECOGNIZED_LANGUAGES}


class LazyPattern:
    """A pattern that is compiled when it is first used, as few of them are in a short text."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.search(text, start, end)

    def match(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.match(text, start, end)

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.fullmatch(text, start, end)


@dataclass(frozen=True, slots=True)
class Found:
    """A recogniser's answer where the value alone does not say everything."""

    value: Value
    stop: Stop = "none"
    start: int | None = None
    end: int | None = None
    """Where the token begins and ends; the match's own where None."""
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    start: int
    end: int
    kind: str
    value: Value
    stop: Stop
    score: float


Build = Callable[[re.Match[str]], Value | Found | None]
LanguageBuild = Callable[[str, re.Match[str]], Value | Found | None]


@dataclass(frozen=True)
class Recognizer:
    kind: str
    pattern: str
    build: Build
    needs: frozenset[str]
    """Of these characters or words a text must have at least one, or the pattern is not tried."""
    digits: bool
    """Whether it must have a digit or a fraction too."""
    weight: float
    flags: int

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Compiled when first tried: all together cost 0.3 s, and plain prose needs few."""
        return re.compile(self.pattern, self.flags)

    def propose(self, text: str) -> Iterator[Candidate]:
        position = 0
        search = self.compiled.search
        while match := search(text, position):
            answer = self.build(match) if match.end() > match.start() else None
            if answer is None:
                position = match.start() + 1
                continue
            found = answer if isinstance(answer, Found) else Found(answer)
            start = match.start() if found.start is None else found.start
            end = match.end() if found.end is None else found.end
            weight = self.weight if found.weight is None else found.weight
            # The small deduction prefers one token to two of the same length together.
            score = (end - start) * weight - 0.01
            yield Candidate(start, end, self.kind, found.value, found.stop, score)
            position = max(end, match.start() + 1)


def recognizer(
    kind: str,
    pattern: str,
    *,
    languages: tuple[str, ...] = ("en",),
    needs: Iterable[str] = "",
    digits: bool | None = None,
    weight: float = 1.0,
    flags: int = 0,
) -> Callable[[Build], Build]:
    """Make a recogniser of the function that builds its value.

    `needs` are characters, or written forms of which the first word counts (`op. cit.`: `op`).
    Whether a digit must be there follows from the kind, unless `digits` says it.
    """
    digits = kind in _NUMERIC if digits is None else digits
    triggers = frozenset(word[0] if (word := _WORD.match(one)) else one[:1] for one in needs)

    def register(build: Build) -> Build:
        made = Recognizer(kind, pattern, build, triggers, digits, weight, flags)
        for language in languages:
            _REGISTERED[language].append(made)
        return build

    return register


def constant(kind: str, pattern: str, value: Value, **options: Any) -> None:
    """Register a recogniser of something that always means the same."""
    recognizer(kind, pattern, **options)(lambda match: value)


def per_language(
    kind: str,
    pattern: str | Callable[[str], str],
    *,
    languages: tuple[str, ...] = ("es", "fr"),
    needs: Iterable[str] | Callable[[str], Iterable[str]] = "",
    digits: bool | None = None,
    weight: float = 1.0,
    flags: int = 0,
) -> Callable[[LanguageBuild], LanguageBuild]:
    """Make a recogniser for each language of a function that is given language and match."""

    def register(build: LanguageBuild) -> LanguageBuild:
        for language in languages:
            recognizer(
                kind,
                pattern(language) if callable(pattern) else pattern,
                languages=(language,),
                needs=needs(language) if callable(needs) else needs,
                digits=digits,
                weight=weight,
                flags=flags,
            )(partial(build, language))
        return build

    return register


@lru_cache(maxsize=8)
def load(language: str) -> tuple[Recognizer, ...]:
    """All recognisers of a language."""
    for name in MODULES:
        importlib.import_module(f"anyrig.text.recognizers.{name}")
    return tuple(_REGISTERED[language])


@lru_cache(maxsize=8)
def _load_stopped(language: str) -> tuple[Recognizer, ...]:
    return tuple(one for one in load(language) if one.kind in _STOPPED)


_STOPPED = frozenset(
    "abbreviation acronym angle century date dimensions direction dose duration emoji initials law "
    "letter measure money ordinal percent quote rate roman state time verse year zone".split()
)
"""Kinds of tokens that hold a full stop, stand before one that is in doubt, or are not read."""


def find_best(text: str, language: str, *, only_stopped: bool = False) -> list[Candidate]:
    """The candidates in a short stretch of text that score highest together, in order.

    `only_stopped` looks for those alone that decide where a sentence ends.
    """
    present = set(text)
    digits = not _DIGITS.isdisjoint(present)
    present.update(_WORD.findall(text))
    present.update(_WORD.findall(text.lower()))
    candidates: list[Candidate] = []
    for one in _load_stopped(language) if only_stopped else load(language):
        if (one.digits and not digits) or (one.needs and one.needs.isdisjoint(present)):
            continue
        candidates += one.propose(text)
    return choose_path(candidates)


def choose_path(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The path without overlap whose total score is highest (weighted interval scheduling)."""
    if len(candidates) < 2:
        return list(candidates)
    ordered = sorted(candidates, key=lambda one: (one.end, one.start))
    ends = [one.end for one in ordered]
    best = [0.0]
    taken: list[bool] = []
    for index, one in enumerate(ordered):
        before = bisect_right(ends, one.start, 0, index)
        score = best[before] + one.score
        taken.append(score > best[index])
        best.append(max(score, best[index]))
    path: list[Candidate] = []
    index = len(ordered) - 1
    while index >= 0:
        if taken[index]:
            path.append(ordered[index])
            index = bisect_right(ends, ordered[index].start, 0, index) - 1
        else:
            index -= 1
    path.reverse()
    return path
