"""Clauses: long sentences cut at natural places, short ones joined, the first clause set free.

All lengths are of what is spoken, as `2024` is longer in the mouth than on paper. A cut falls
between two spans: a word, or what is said for one token (a date, an amount, a marked word), so
every character stays in exactly one clause.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

SHORT_WORDS = 3
"""Sentences of so few words make some engines stumble (VibeVoice at three or fewer)."""
_SHORT_CHARS = 24
_MAX_JOINED_CHARS = 250
_WORD = re.compile(r"\s*\S+\s*")
_CLOSERS = "\"'”’»)]}*_"
_CONJUNCTIONS = frozenset(
    "and but or nor so yet because which who whom whose that when while where if although though "
    "unless until since as than then y e o u ni pero porque que cuando si aunque mientras donde "
    "pues et ou mais donc car qui quand lorsque puisque où dont und oder aber weil dass wenn als "
    "ob sondern denn ma perché che quando se mentre dove".split()
)
# The first clause of a text that is listened to: heard soon, and long enough to sound like speech.
_MAX_WAIT_S = 0.5
_FIRST_MIN, _FIRST_USUAL = 18, 45
_PUNCTUATION = 0.15


@dataclass(frozen=True, slots=True)
class SpokenSpan:
    """What is said for a stretch of the text."""

    start: int
    end: int
    engine_text: str
    """For the engine: IPA stands between [[ and ]]."""
    spoken: str = ""
    """For people, where that differs: `P M` where the engine is given IPA."""
    plain: bool = False
    """Whether it is the text itself, character for character; else it is cut only if too long."""


@dataclass(frozen=True)
class Clause:
    """Readings in a row that are spoken at once: a sentence, a part of one, or several."""

    spans: tuple[SpokenSpan, ...]
    ends: bool = True
    """Whether a sentence ends with it."""

    @property
    def start(self) -> int:
        return self.spans[0].start

    @property
    def end(self) -> int:
        return self.spans[-1].end

    @cached_property
    def engine_text(self) -> str:
        """For the engine, in one line."""
        return " ".join("".join([one.engine_text for one in self.spans]).split())

    @cached_property
    def spoken(self) -> str:
        """For people, in one line."""
        return " ".join("".join([one.spoken or one.engine_text for one in self.spans]).split())

    @cached_property
    def is_speakable(self) -> bool:
        """Whether there is a letter or a figure to say."""
        return any(map(str.isalnum, self.engine_text))


def cut_long(clause: Clause, max_chars: int) -> list[Clause]:
    """A clause as several of at most so many characters, alike in length, at natural places."""
    if len(clause.engine_text) <= max_chars:
        return [clause]
    words = [word for one in clause.spans for word in _split_words(one, max_chars)]
    sums = [0, *accumulate(len(word.engine_text) for word in words)]
    cuts, start = [0], 0
    while sums[-1] - sums[start] > max_chars:
        start = _best_cut(words, sums, start, max_chars)
        cuts.append(start)
    cuts.append(len(words))
    groups = [tuple(words[left:right]) for left, right in pairwise(cuts)]
    return [*(Clause(group, ends=False) for group in groups[:-1]), Clause(groups[-1], clause.ends)]


def cut_first(clause: Clause, seconds_per_character: float) -> list[Clause]:
    """The first clause of a text that is listened to, at punctuation, and the rest.

    A sentence that the engine speaks in half a second or less stays whole, and so does one without
    punctuation: a pause inside a phrase sounds worse than a later start.
    """
    if len(clause.engine_text) * seconds_per_character <= _MAX_WAIT_S:
        return [clause]
    words = [word for one in clause.spans for word in _split_words(one, len(clause.engine_text))]
    sums = [0, *accumulate(len(word.engine_text) for word in words)]
    places = [
        at for at in range(1, len(words))
        if _FIRST_MIN <= sums[at] <= sums[-1] - _FIRST_MIN and _roughness(words, at) <= _PUNCTUATION
    ]  # fmt: skip
    if not places:
        return [clause]
    at = min(places, key=lambda at: abs(sums[at] - _FIRST_USUAL))
    return [Clause(tuple(words[:at]), ends=False), Clause(tuple(words[at:]), clause.ends)]


def join_short(
    clauses: Sequence[Clause], max_chars: int, short_words: int = SHORT_WORDS
) -> list[Clause]:
    """Clauses of one voice and paragraph, the very short sentences put to a neighbour."""
    most = min(max_chars, _MAX_JOINED_CHARS)
    joined: list[Clause] = []
    lengths: list[int] = []
    too_short: list[bool] = []
    for clause in clauses:
        length = len(clause.engine_text)
        is_short = length <= _SHORT_CHARS and clause.engine_text.count(" ") < short_words
        whole = clause.ends and bool(joined) and joined[-1].ends  # a cut was made for a reason
        fits = whole and lengths[-1] + 1 + length <= most
        if fits and (is_short or too_short[-1]):
            before = joined[-1]
            space = SpokenSpan(before.end, clause.start, " ")
            joined[-1] = Clause((*before.spans, space, *clause.spans), clause.ends)
            lengths[-1] += 1 + length
            too_short[-1] = too_short[-1] and is_short and lengths[-1] < _SHORT_CHARS
            continue
        joined.append(clause)
        lengths.append(length)
        too_short.append(is_short)
    return joined


def _split_words(span: SpokenSpan, max_chars: int) -> Iterator[SpokenSpan]:
    """The words of a plain span, each with the space after it; one too long is cut hard."""
    if not span.plain:
        yield from _cut_hard(span, max_chars)
        return
    position = span.start
    for match in _WORD.finditer(span.engine_text):
        word = SpokenSpan(position, position + len(match[0]), match[0], plain=True)
        position = word.end
        yield from _cut_hard(word, max_chars)
    if position < span.end:  # only white space
        yield SpokenSpan(position, span.end, span.engine_text[position - span.start :], plain=True)


def _cut_hard(span: SpokenSpan, max_chars: int) -> Iterator[SpokenSpan]:
    """Pieces of at most so many characters: at spaces, else anywhere, but never within IPA."""
    if len(span.engine_text) <= max_chars or "[[" in span.engine_text:
        yield span
        return
    size, length, done = span.end - span.start, len(span.engine_text), 0
    while done < length:
        space = span.engine_text.rfind(" ", done, done + max_chars)
        stop = space + 1 if space > done else done + max_chars
        stop = length if length - done <= max_chars else stop
        # Of words longer than what they stand for, each piece has its share of the characters.
        left, right = (span.start + size * at // length for at in (done, stop))
        yield SpokenSpan(left, right, span.engine_text[done:stop], plain=span.plain)
        done = stop


def _best_cut(words: Sequence[SpokenSpan], sums: Sequence[int], start: int, max_chars: int) -> int:
    """Where the clause that begins with the word `start` should end."""
    left = sums[-1] - sums[start]
    ideal = left / -(-left // max_chars)
    high = max(start + 1, bisect_right(sums, sums[start] + max_chars) - 1)
    low = bisect_right(sums, sums[start] + 0.4 * ideal)
    places = range(max(start + 1, min(low, high)), high + 1)
    return min(
        places,
        key=lambda at: abs(sums[at] - sums[start] - ideal) / ideal + _roughness(words, at),
    )


def _roughness(words: Sequence[SpokenSpan], at: int) -> float:
    """How unnatural a cut before this word sounds, from 0 to 1.5."""
    if at >= len(words):
        return 0.0
    before, after = words[at - 1].engine_text, words[at].engine_text
    bare = before.rstrip()
    if bare == before and after[:1].strip():
        return 1.5  # within a word
    core = bare.rstrip(_CLOSERS)
    if core.endswith((".", "!", "?", "…")) and len(core) > 3:
        return 0.0
    if core.endswith((";", ":", "—", "–", "--")):
        return 0.05
    if core.endswith(",") or after.lstrip()[:1] in ("(", "—", "–", "“"):
        return 0.15
    word = after.split()
    return 0.45 if word and word[0].lower() in _CONJUNCTIONS else 0.7
