r"""Recognisers of written forms: one module per class of token, with tables per language.

A recogniser is a pattern and a function that makes a typed value of a match, or declines with None.
All of a language propose candidates over a stretch of text; `find_best` takes those that do not
overlap and score highest together. A candidate scores its length times its weight: about 0.5 for a
form that is often something else (a bare number), 1 for a usual one, up to 3 where the words around
confirm it. So "7 a.m. Monday" beats "7" and "a.m.", and what covers more of the text wins.

    @recognizer("ratio", r"(\d+):(\d+)", languages=("en", "fr"), needs=":")
    def propose_ratio(match: re.Match[str]) -> Value | Proposal | None: ...

A recogniser whose match ends in a full stop decides whether that also ends the sentence
(`recognizers/stops.py`) and returns `Proposal(value, stop=...)`; without one the stop is left out
of the match. `per_language` makes one of a function for each of several languages.

Few stretches hold what a recogniser looks for. `needs` names characters or words without which it
is not tried, and `at` where its matches begin: then the pattern is tried at those places alone,
which are looked up once for all recognisers, and not at every character.
"""

from __future__ import annotations

import importlib
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from anyrig.text.values import Value

_DIGITS = frozenset("0123456789½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉")
_WORD = re.compile(r"[^\W\d_]+")
_WORD_OR_SIGN = re.compile(r"[^\W\d_]+|[^\w\s]")
_NUMBER = re.compile(r"(?<!\d)(?:[-−–+±~≈<>≤≥('§]{1,2} ?)?\.?([\d½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒])")
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
At = Literal["any", "number", "word", "capital", "needs"]
"""Where matches begin: at any character, a number or the sign before it, a word, a word with a
capital, a word or sign of those that the recogniser needs."""
_BEGINNINGS: dict[str, At] = {
    **dict.fromkeys(_NUMERIC, "number"),
    **dict.fromkeys("abbreviation direction dose keys state zone".split(), "needs"),
    **dict.fromkeys("acronym initials law".split(), "capital"),
    **dict.fromkeys("century roman".split(), "word"),
}
"""Where the matches of most recognisers of a kind begin."""
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
class Proposal:
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


Build = Callable[[re.Match[str]], "Value | Proposal | None"]
LanguageBuild = Callable[[str, re.Match[str]], "Value | Proposal | None"]


_MARKS = {
    "innerCapital": re.compile(r"[a-z][A-Z]"),
    "innerDot": re.compile(r"\.[A-Za-z]"),
    "innerDigit": re.compile(r"[A-Za-z)][\d₀-₉(]|[⁺⁻+]"),
    "capitalDot": re.compile(r"[A-ZÀ-ÝŸŒ]\."),
    "twoCapitals": re.compile(r"[A-ZÀ-ÝŸŒ]{2}"),
    "fourDigits": re.compile(r"\d{4}"),
    "clipped": re.compile(r"[^\W\d_]{2}\.(?:[,;:)\s]|\Z)"),
}
"""What recognisers may need beside characters and words."""


class Stretch:
    """A stretch of text, and where its words and numbers begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: dict[str, list[int]] = {}
        """The places of each word, as it is written and in lower case, and of each sign."""
        for match in _WORD_OR_SIGN.finditer(text):
            word, place = match[0], match.start()
            self.words.setdefault(word, []).append(place)
            if (lower := word.lower()) != word:
                self.words.setdefault(lower, []).append(place)
        self.present = {*text, *self.words}
        """All characters and words, for what recognisers need."""
        self.present.update(mark for mark, pattern in _MARKS.items() if pattern.search(text))
        self.has_digits = not _DIGITS.isdisjoint(self.present)
        self._places: dict[At, list[int]] = {}

    def find_places(self, at: At, needs: frozenset[str]) -> list[int]:
        """Where a recogniser is tried, in order."""
        if at == "needs":
            words = self.words
            found = [place for word in needs.intersection(words) for place in words[word]]
            return sorted(set(found)) if len(found) > 1 else found
        if (places := self._places.get(at)) is None:
            places = self._places[at] = list(self._find(at))
        return places

    def _find(self, at: At) -> Iterator[int]:
        if at in ("word", "capital"):
            for match in _WORD.finditer(self.text):
                if at == "word" or match[0][0].isupper():
                    yield match.start()
            return
        for match in _NUMBER.finditer(self.text):
            yield from range(match.start(), match.end())


@dataclass(frozen=True)
class Recognizer:
    kind: str
    pattern: str
    build: Build
    needs: frozenset[str]
    """Of these characters or words a text must have at least one, or the pattern is not tried."""
    at: At
    digits: bool
    """Whether it must have a digit or a fraction too."""
    weight: float
    flags: int

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """Compiled when first tried: all together cost 0.3 s, and plain prose needs few."""
        return re.compile(self.pattern, self.flags)

    def propose(self, stretch: Stretch) -> list[Candidate]:
        text, position, proposed = stretch.text, 0, []
        if self.at == "any":
            while match := self.compiled.search(text, position):
                position = match.start() + 1
                if candidate := self._answer(match):
                    proposed.append(candidate)
                    position = max(candidate.end, position)
            return proposed
        try_at = self.compiled.match
        for place in stretch.find_places(self.at, self.needs):
            if place < position or not (match := try_at(text, place)):
                continue
            if candidate := self._answer(match):
                proposed.append(candidate)
                position = candidate.end
        return proposed

    def _answer(self, match: re.Match[str]) -> Candidate | None:
        answer = self.build(match) if match.end() > match.start() else None
        if answer is None:
            return None
        if not isinstance(answer, Proposal):
            score = (match.end() - match.start()) * self.weight - 0.01
            return Candidate(match.start(), match.end(), self.kind, answer, "none", score)
        start = match.start() if answer.start is None else answer.start
        end = match.end() if answer.end is None else answer.end
        # The small deduction prefers one token to two of the same length together.
        score = (end - start) * (self.weight if answer.weight is None else answer.weight) - 0.01
        return Candidate(start, end, self.kind, answer.value, answer.stop, score)


def recognizer(
    kind: str,
    pattern: str,
    *,
    languages: tuple[str, ...] = ("en",),
    needs: Iterable[str] = "",
    at: At | None = None,
    digits: bool | None = None,
    weight: float = 1.0,
    flags: int = 0,
) -> Callable[[Build], Build]:
    """Make a recogniser of the function that builds its value.

    `needs` are characters, or written forms of which the first word counts (`op. cit.`: `op`).
    Whether a digit must be there, and where matches begin, follows from the kind, unless `digits`
    and `at` say it.
    """
    digits = kind in _NUMERIC if digits is None else digits
    at = at or _BEGINNINGS.get(kind, "any")
    at = "any" if at == "needs" and not needs else at
    triggers = frozenset(word[0] if (word := _WORD.match(one)) else one[:1] for one in needs)

    def register(build: Build) -> Build:
        made = Recognizer(kind, pattern, build, triggers, at, digits, weight, flags)
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
    at: At | None = None,
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
                at=at,
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


_STOPPED = frozenset(
    "abbreviation acronym angle century date dimensions direction dose duration emoji initials law "
    "letter measure money ordinal percent quote rate roman state time verse year zone".split()
)
"""Kinds of tokens that hold a full stop, stand before one that is in doubt, or are not read."""


class _Index:
    """Recognisers of a language by what they need, so that most are passed over unasked."""

    def __init__(self, recognizers: Iterable[Recognizer]) -> None:
        self._recognizers = tuple(recognizers)
        self._always: set[int] = set()
        self._by_need: dict[str, set[int]] = {}
        self._by_word: dict[str, set[int]] = {}
        for number, one in enumerate(self._recognizers):
            table = self._by_word if one.at == "needs" else self._by_need
            for need in one.needs:
                table.setdefault(need, set()).add(number)
            if not one.needs:
                self._always.add(number)

    def select(self, stretch: Stretch) -> Iterator[Recognizer]:
        """Those that may find something, in their order."""
        found = self._always.union(
            *(self._by_need[need] for need in stretch.present & self._by_need.keys()),
            *(self._by_word[word] for word in stretch.words.keys() & self._by_word.keys()),
        )
        for number in sorted(found):
            one = self._recognizers[number]
            if stretch.has_digits or not one.digits:
                yield one


@lru_cache(maxsize=8)
def _load_index(language: str, only_stopped: bool) -> _Index:
    return _Index(one for one in load(language) if not only_stopped or one.kind in _STOPPED)


def find_best(text: str, language: str, *, only_stopped: bool = False) -> list[Candidate]:
    """The candidates in a short stretch of text that score highest together, in order.

    `only_stopped` looks for those alone that decide where a sentence ends.
    """
    stretch = Stretch(text)
    candidates: list[Candidate] = []
    for one in _load_index(language, only_stopped).select(stretch):
        candidates += one.propose(stretch)
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
