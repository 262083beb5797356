"""When each written word is heard.

    place_words(script.source, segment, take.words, start_s, end_s)   # the words of a segment

An engine with durations says when each spoken word begins and ends; a recogniser does the same for
what it heard. Captions show written words: `$3.50` is spoken as five, `July 4, 2024` is read as one
date, a soft hyphen stands in the middle of one. What is said for each written word is known from
its segment, and these words are matched with those that have times, letter by letter.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from anyrig.speech.source_text import STAND_IN

if TYPE_CHECKING:
    from anyrig.speech.engine import WordTime
    from anyrig.speech.segment import Segment, Span

Timing = Literal["exact", "aligned"]
"""Where times come from: durations of the engine, or a recogniser that heard the audio."""
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# What dashes join is two words; scripts without spaces have a word for each sign.
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\s\u2013\u2014{_IDEOGRAPHS}]+")
_REFERENCE = re.compile(r"&#?\w+;")
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class WrittenWord:
    """A word as it is written, and when it is heard."""

    text: str
    """With the punctuation on it."""
    span: Span
    """Where it stands in the input."""
    start_s: float
    """From the beginning of the audio."""
    end_s: float


def place_words(
    source: str, segment: Segment, heard: Sequence[WordTime], start_s: float, end_s: float
) -> list[WrittenWord]:
    """The written words of a segment that are spoken, in order.

    Their times rise, and lie between `start_s` and `end_s`, where the segment is heard.

    Args:
        source: of the script.
        segment: of the script.
        heard: spoken words with their times; not empty.
        start_s: where its take begins in the audio.
        end_s: where it ends.
    """
    spans = [match.span() for match in _WORD.finditer(segment.text)]
    spoken_words = _list_spoken_words(segment, spans)
    numbers = [number for number, words in enumerate(spoken_words) if _fold(words)]
    times = time_words([spoken_words[number] for number in numbers], heard, start_s, end_s)
    places = _map_to_source(source, segment)
    return [
        WrittenWord(
            segment.text[slice(*spans[number])],
            (places[spans[number][0]][0], places[spans[number][1] - 1][1]),
            *times[at],
        )
        for at, number in enumerate(numbers)
    ]


def time_words(
    spoken_words: Sequence[str], heard: Sequence[WordTime], start_s: float, end_s: float
) -> list[tuple[float, float]]:
    """When each word is heard, from and to, in seconds.

    Where both sides differ, the words between two that agree share the time of what was heard there
    by their letters; if nothing was, the time in between.
    """
    words, others = [_fold(word) for word in spoken_words], [_fold(word.text) for word in heard]
    ends = list(accumulate(map(len, words)))
    match = _Match(words, others, heard, start_s, end_s)
    times: list[tuple[float, float]] = []
    last_s = start_s
    for word, end in zip(words, ends, strict=True):
        first, until = match.find(end - len(word), end)
        first = min(max(first, last_s), end_s)
        last_s = min(max(until, first), end_s)
        times.append((first, last_s))
    return times


class _Match:
    """Letters of what is said, and the times of those that were heard."""

    def __init__(
        self, words: Sequence[str], others: Sequence[str], heard: Sequence[WordTime],
        start_s: float, end_s: float,
    ) -> None:  # fmt: skip
        self._heard, self._start_s, self._end_s = heard, start_s, end_s
        self._ends = list(accumulate(map(len, others)))
        lengths = list(accumulate(map(len, words), initial=0))
        other_lengths = [0, *self._ends]
        # Pairs of positions that belong together; between two of them they run evenly.
        pairs = {(0, 0), (lengths[-1], other_lengths[-1])}
        if "".join(words) != "".join(others):
            matcher = SequenceMatcher(None, words, others, autojunk=False)
            for left, right, count in matcher.get_matching_blocks():
                pairs.add((lengths[left], other_lengths[right]))
                pairs.add((lengths[left + count], other_lengths[right + count]))
        self._left = [left for left, _ in sorted(pairs)]
        self._right = [right for _, right in sorted(pairs)]

    def find(self, start: int, end: int) -> tuple[float, float]:
        """When some letters are heard."""
        first, last = self._map(start, after=True), self._map(end, after=False)
        if first < last:
            return self._start_at(first), self._end_at(last)
        # Nothing was heard for it: it lies between its neighbours.
        number = min(bisect_right(self._left, start), len(self._left) - 1)
        low, high = self._left[number - 1], self._left[number]
        gap_start_s, gap_end_s = self._end_at(first), self._start_at(first)
        share_s = (gap_end_s - gap_start_s) / max(1, high - low)
        return gap_start_s + share_s * (start - low), gap_start_s + share_s * (end - low)

    def _map(self, position: int, *, after: bool) -> float:
        """A position among the letters that were heard."""
        left, right = self._left, self._right
        number = bisect_right(left, position) if after else bisect_left(left, position)
        number = min(max(1, number), len(left) - 1)
        low, high = left[number - 1], left[number]
        if low == high:
            return right[number] if after else right[number - 1]
        share = (position - low) / (high - low)
        return right[number - 1] + share * (right[number] - right[number - 1])

    def _start_at(self, position: float) -> float:
        """When the letter after a position begins."""
        number = bisect_right(self._ends, position)
        return self._time_in(number, position) if number < len(self._heard) else self._end_s

    def _end_at(self, position: float) -> float:
        """When the letter before a position ends."""
        number = bisect_left(self._ends, position)
        if position <= 0:
            return self._start_s
        return self._time_in(min(number, len(self._heard) - 1), position)

    def _time_in(self, number: int, position: float) -> float:
        word, end = self._heard[number], self._ends[number]
        start = self._ends[number - 1] if number else 0
        share = (position - start) / max(1, end - start)
        return word.start_s + share * (word.end_s - word.start_s)


def _fold(word: str) -> str:
    return "".join(filter(str.isalnum, word.casefold()))


def _list_spoken_words(segment: Segment, spans: Sequence[Span]) -> list[str]:
    """What is said for each written word."""
    spoken_words = [""] * len(spans)
    position = 0
    for start, end, words in (*segment.readings, (len(segment.text), len(segment.text), "")):
        for number in _find_overlaps(spans, position, start):
            low, high = spans[number]
            spoken_words[number] += segment.text[max(low, position) : min(high, start)]
        numbers = list(_find_overlaps(spans, start, end))
        written = [segment.text[slice(*spans[number])] for number in numbers]
        for number, share in zip(numbers, _share_words(written, words.split()), strict=True):
            spoken_words[number] += f" {share} "
        position = max(position, end)
    return spoken_words


def _find_overlaps(spans: Sequence[Span], start: int, end: int) -> range:
    first = bisect_right(spans, start, key=lambda span: span[1])
    return range(first, max(first, bisect_left(spans, end, key=lambda span: span[0])))


def _share_words(written: Sequence[str], spoken_words: Sequence[str]) -> list[str]:
    """What is said for some written words together, split among them: `July 4` is `July fourth`."""
    if len(written) < 2:
        return [" ".join(spoken_words)] * len(written)
    left, right = [_fold(word) for word in written], [_fold(word) for word in spoken_words]
    shares: list[str] = []
    done = (0, 0)
    for first, second, count in SequenceMatcher(None, left, right).get_matching_blocks():
        shares += _split_evenly(left[done[0] : first], spoken_words[done[1] : second])
        shares += spoken_words[second : second + count]
        done = first + count, second + count
    return shares


def _split_evenly(written: Sequence[str], spoken_words: Sequence[str]) -> list[str]:
    """Words for each of the written ones: by its letters, but one at least if there are enough."""
    weights = list(accumulate((max(1, len(word)) for word in written), initial=0))
    cuts = [0]
    for number in range(1, len(written) + 1):
        end = round(len(spoken_words) * weights[number] / weights[-1])
        left = len(spoken_words) - (len(written) - number)  # one for each that follows
        cuts.append(max(cuts[-1], min(max(end, cuts[-1] + 1), max(left, 0))))
    return [" ".join(spoken_words[low:high]) for low, high in zip(cuts, cuts[1:], strict=False)]


def _map_to_source(source: str, segment: Segment) -> list[Span]:
    """Where each character of a segment's text stands in the source."""
    places = [(at, at + 1) for start, end in segment.spans for at in range(start, end)]
    if len(places) == len(segment.text):
        return places
    places = list(_map_references(source, segment))
    # A reading that takes more than one segment leaves nothing of its characters to the others.
    start, end = places[-1] if places else segment.span
    return places + [(start, end)] * (len(segment.text) - len(places))


def _map_references(source: str, segment: Segment) -> Iterator[Span]:
    """The same where the source has `&amp;` for a character, or a tag."""
    number = 0
    for start, end in segment.spans:
        at = start
        while at < end and number < len(segment.text):
            sign, until = segment.text[number], at + 1
            if sign == STAND_IN and (tag := _TAG.match(source, at, end)):
                until = tag.end()
            elif source[at] == "&" and (reference := _REFERENCE.match(source, at, end)):
                meaning = html.unescape(reference[0])
                if segment.text.startswith(meaning, number):
                    until = reference.end()
                    yield from [(at, until)] * (len(meaning) - 1)
                    number += len(meaning) - 1
            yield at, until
            at, number = until, number + 1
