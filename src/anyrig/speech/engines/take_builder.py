"""A take joined from parts, with the time of each word, for engines that predict durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyrig.audio.samples import Samples
    from anyrig.speech.engine import Take, WordTime
    from anyrig.speech.phonemes import PronouncedWord

_MARK_PAUSE_S = 0.3
"""Between two parts that are cut at punctuation: hibari makes 0.2 to 0.45 s at a comma."""
_JOIN_KEEP_S = 0.015
KOKORO_EARLY = 2
"""In Kokoro's family a word is heard this many units of 25 ms before its durations say."""


class TakeBuilder:
    """The take of an utterance that a model speaks in parts, with the time of each word.

    A part has silence at both ends, 0.7 s where two meet. It is cut at the join, to the pause that
    these voices make at a comma, or to nothing between two words.
    """

    def __init__(self, unit: int, rate: int, early: int = 0) -> None:
        """Start with nothing.

        Args:
            unit: samples that a duration of 1 lasts.
            rate: samples per second.
            early: how many units before its durations say a word is heard.
        """
        self._parts: list[Samples] = []
        self._words: list[WordTime] = []
        self._unit, self._rate, self._early, self._length = unit, rate, early, 0
        self._ends_with_mark = False

    def add(
        self,
        wave: Samples,
        durations: Sequence[int],
        words: Sequence[PronouncedWord],
        owners: Sequence[int],
    ) -> None:
        """Add a part.

        Args:
            wave: its samples.
            durations: in units, for each phoneme and for the zeros at both ends; empty if unknown.
            words: what it says.
            owners: for each phoneme, its word.
        """
        from anyrig.speech.engine import WordTime

        lead = self._join(wave) if self._parts else 0
        starts: dict[int, int] = {}
        ends: dict[int, int] = {}
        at = self._length - lead
        at += max(0, durations[0] - self._early) * self._unit if durations else 0
        for owner, duration in zip(owners, durations[1:-1], strict=True) if durations else ():
            starts.setdefault(owner, max(self._length, at))
            at += duration * self._unit
            ends[owner] = at
        self._append(wave[lead:])
        for owner, start in starts.items():
            if words[owner].spoken:
                end = min(ends[owner], self._length)
                text = words[owner].text
                self._words.append(WordTime(text, start / self._rate, end / self._rate))
        self._ends_with_mark = bool(words) and not words[-1].spoken

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def build(self) -> Take:
        """The whole take."""
        import numpy as np

        from anyrig.speech.engine import Take

        whole = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        return Take(np.ascontiguousarray(whole, np.float32), self._rate, tuple(self._words))

    def _append(self, wave: Samples) -> None:
        self._parts.append(wave)
        self._length += len(wave)

    def _join(self, wave: Samples) -> int:
        """Cut the silence before the next part; how many samples to cut at its beginning."""
        from anyrig.audio.samples import FADE_S, count_samples, fade, find_sound, silence
        from anyrig.speech.engine import WordTime

        last = self._parts.pop()
        self._length -= len(last)
        _, end = find_sound(last, self._rate, keep_s=_JOIN_KEEP_S)
        begin, _ = find_sound(wave, self._rate, keep_s=_JOIN_KEEP_S)
        self._append(fade(last[:end], self._rate, start=False))
        if self._ends_with_mark:
            self._append(silence(_MARK_PAUSE_S - 2 * _JOIN_KEEP_S, self._rate))
        length = count_samples(FADE_S, self._rate)
        wave[begin : begin + length] = fade(wave[begin:], self._rate, end=False)[:length]
        if self._words:
            word, limit = self._words[-1], self._length / self._rate
            self._words[-1] = WordTime(word.text, word.start_s, min(word.end_s, limit))
        return begin
