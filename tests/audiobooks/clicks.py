"""Books of silence with a click where each chapter begins, and where the clicks are found again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from anyrig.audio.samples import Samples
from anyrig.audiobooks.record import ChapterSpan, Timeline


def click(rate: int) -> Samples:
    """A burst that begins at once and dies away within 4 ms."""
    time = np.arange(round(0.004 * rate)) / rate
    burst = np.exp(-time * 900) * np.cos(2 * np.pi * rate / 9 * time)
    return (0.7 * burst).astype(np.float32)


def timeline(
    starts: Sequence[int], end: int, rate: int, titles: Sequence[str] | None = None
) -> Timeline:
    named = titles or [f"Chapter {number}" for number in range(1, len(starts) + 1)]
    marks = [
        ChapterSpan(title, start, stop)
        for title, start, stop in zip(named, starts, [*starts[1:], end], strict=True)
    ]
    return Timeline(rate, tuple(marks), ())


def parts(book: Timeline, size: int = 10007) -> Iterator[Samples]:
    """The book's sound in parts of one size: silence, and a click at each mark."""
    burst = click(book.rate)
    starts = np.array([mark.start for mark in book.chapters])
    for begin in range(0, book.num_samples, size):
        part = np.zeros(min(size, book.num_samples - begin), dtype=np.float32)
        low = np.searchsorted(starts, begin - len(burst))
        high = np.searchsorted(starts, begin + len(part))
        for start in starts[low:high]:
            first, last = max(start, begin), min(start + len(burst), begin + len(part))
            if first < last:
                part[first - begin : last - begin] = burst[first - start : last - start]
        yield part


def heard(path: Path, places_s: Sequence[Fraction]) -> list[float]:
    """How many milliseconds after each place a click is heard, as a player would play the file.

    FFmpeg's decoder leaves out what the edit list tells it to, and frames carry their time.
    """
    import av

    found = []
    with av.open(str(path)) as file:
        stream = file.streams.audio[0]
        rate = stream.rate
        burst = click(rate)
        reach = round(0.02 * rate)
        played = _Played(file.decode(stream), rate)
        for place in places_s:
            centre = round(place * rate)
            sound = played.between(centre - reach, centre + reach + len(burst))
            likeness = np.correlate(sound, burst, "valid")
            at = centre - reach + int(likeness.argmax())
            assert likeness.max() > 0.3 * float(burst @ burst), f"no click near {float(place)} s"
            found.append(float((Fraction(at, rate) - place) * 1000))
    return found


class _Played:
    """Sound by its place, read on as it is asked for; places only grow."""

    def __init__(self, frames: Iterator[object], rate: int) -> None:
        self._frames = frames
        self._rate = rate
        self._held: Samples = np.zeros(0, dtype=np.float32)
        self._first: int | None = None

    def between(self, start: int, end: int) -> Samples:
        while self._first is None or self._first + len(self._held) < end:
            frame = next(self._frames, None)
            if frame is None:
                break
            sound = frame.to_ndarray()[0]  # type: ignore[attr-defined]
            time = round(frame.pts * frame.time_base * self._rate)  # type: ignore[attr-defined]
            if self._first is None:
                self._first = time
            assert time == self._first + len(self._held), "frames follow on each other"
            keep = max(0, min(len(self._held), start - self._first))
            self._held = np.concatenate([self._held[keep:], sound])
            self._first += keep
        assert self._first is not None
        before = max(0, self._first - start)
        inside = self._held[max(0, start - self._first) : max(0, end - self._first)]
        padded = np.concatenate([np.zeros(before, dtype=np.float32), inside])
        return np.pad(padded, (0, max(0, end - start - len(padded))))


def chapters(path: Path) -> list[tuple[str, Fraction, Fraction]]:
    import av

    with av.open(str(path)) as file:
        return [
            (
                found["metadata"].get("title", ""),
                found["start"] * (found["time_base"] or Fraction(1)),
                found["end"] * (found["time_base"] or Fraction(1)),
            )
            for found in file.chapters()
        ]
