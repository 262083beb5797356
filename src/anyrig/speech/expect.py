"""How long a line may take to say: the least and the most, from its text and its language.

Counted in letters and words. What is written short and said long (digits, symbols, letters in
capitals) widens the range, as nobody here knows how it was read.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from anyrig.speech.engine import Utterance

# Seconds for a letter (a word's end counts as one), of voices of several engines at rate 1.
_PACE = {"en": 0.057, "es": 0.062, "fr": 0.050, "de": 0.062, "it": 0.064, "pt": 0.060}
_OTHER = 0.062
_FASTEST, _SLOWEST = 0.58, 1.6
_FASTEST_OTHER, _SLOWEST_OTHER = 0.4, 2.2
_WIDE = 3.0  # letters that a Chinese, Japanese or Korean character stands for
_PHONEMES = re.compile(r"\[\[(.*?)\]\]")
_PAUSE = re.compile(r"[,;:.!?…—–\n]+(?=\s|$)|\s[-–—]\s")
_STOP = re.compile(r"[.!?…—–\n]+[\"'”’)]*\s")
_LONG_TWICE = 16  # letters: a second, at the pace of the fastest voices half of one
_TWICE = re.compile(r"(\w)\1{3,}|(\w{2,}?)\2{2,}|(\w{8,}?)\3")
"""Within a word: drawn out, the same syllable three times, or all of a long stretch again."""
_CAPITALS = re.compile(r"\b(?:[A-Z]\.?){2,}\b")


class Expected(NamedTuple):
    """What a reading of a line may be like."""

    least_s: float
    most_s: float
    """0 when there is nothing to say."""
    usual_s: float
    """What it takes when nothing in it is longer than it looks."""
    gap_s: float
    """The longest pause within it."""
    slow: float
    """How many times as long silences are at this rate; 1 at least."""


def expected(line: Utterance) -> Expected:
    """The bounds for a line."""
    least, most = _letters(line.text)
    language = line.language.partition("-")[0].lower()
    pace = _PACE.get(language, _OTHER)
    known = language in _PACE
    fastest, slowest = (_FASTEST, _SLOWEST) if known else (_FASTEST_OTHER, _SLOWEST_OTHER)
    rate = max(line.rate, 0.05)
    slow = max(1.0, 1.0 / rate)
    pauses = len(_PAUSE.findall(line.text))
    if not most:
        return Expected(0.0, 0.0, 0.0, 1.0, slow)
    least_s = max(0.04, least * pace * fastest / rate - 0.15)
    most_s = (most * pace * slowest + 0.6 + 0.35 * max(0, pauses - 1)) / min(rate, 1.5)
    # A voice that whispers takes a second at a comma; most take a third of that.
    gap_s = (2.5 if _STOP.search(line.text.strip()) else 1.7 if pauses > 1 else 1.2) * slow
    return Expected(least_s, most_s, least * pace / rate, gap_s, slow)


def repeats(text: str) -> bool:
    """Whether a text says the same thing again and again by itself: `No, no, no!`, `hahaha`.

    What is said twice counts only where it is long: two seconds of sound must be alike before a
    take is called a loop, and no `had had` or `remember` lasts as long.
    """
    words = re.findall(r"\w+", text.lower())
    for size in range(1, len(words) // 2 + 1):
        alike = 0
        for at in range(size, len(words)):
            alike = alike + 1 if words[at] == words[at - size] else 0
            if alike >= 2 * size:
                return True
            again = words[at - alike + 1 : at + 1]
            if alike == size and sum(len(word) + 1 for word in again) >= _LONG_TWICE:
                return True
    return any(_TWICE.search(word) for word in words)


def _letters(text: str) -> tuple[float, float]:
    """How many letters are said, at least and at most."""
    capitals = sum(len(found) for found in _CAPITALS.findall(text))
    text = _PHONEMES.sub(r"\1", text)
    least = most = 0.0
    for character in text:
        few, many = _weight(character)
        least += few
        most += many
    words = len(re.findall(r"\w+", text))
    return least + 0.8 * words, most + words + 2.5 * capitals


def _weight(character: str) -> tuple[float, float]:
    category = unicodedata.category(character)
    if category[0] == "L":
        wide = unicodedata.east_asian_width(character) in "WF"
        return (0.8 * _WIDE, 1.5 * _WIDE) if wide else (1.0, 1.0)
    if category[0] == "N":
        return 1.0, 5.5
    if category in ("Sc", "Sm", "So", "Sk") or character in "%&@#/*":
        return 0.0, 8.0
    return 0.0, 0.0
