"""A stream of sound into pieces that a recogniser takes at once, cut where nobody speaks.

Loudness is looked at in frames of ten milliseconds. What is quiet is told from what lies around
it: well below the loudest, or near the floor of noise. A piece ends in the best pause that keeps
it under `most_s`; where nobody pauses, two pieces overlap by `OVERLAP_S` and are joined by their
words (`stitch.py`). Every sample is in a piece, or in a stretch that is named quiet: silence, or a
steady noise, in which recognisers would hear things that nobody said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from anyrig.audio import SPEECH_RATE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]
    Levels = NDArray[np.float64]

MOST_S = 28.0
"""Of a piece: what Whisper hears at once, less a little."""
OVERLAP_S = 2.0
FRAME = SPEECH_RATE // 100
_LEAST = 1000  # frames of a piece, where a pause allows it
_MARGIN = 25  # frames of quiet that are left around speech: soft beginnings and ends of words
_PAUSE = 20  # a shorter one may be inside a word
_SHORT_PAUSE = 11
_ENDS = 250  # a pause as long as this ends a piece whatever its length
_NAMED = 50  # quiet shorter than this is left to the piece that follows
_CLICK = 4  # anything louder that is shorter is no speech
_PAST = 2000
SILENT_DB = -65.0
"""Below full scale: nothing that is softer is heard."""
_BELOW_DB, _ABOVE_DB, _STEADY_DB = 35.0, 6.0, 5.0
_LEAST_STEADY = 500


class Piece(NamedTuple):
    """Something to be heard."""

    start: int
    """In samples from the beginning."""
    samples: Samples
    overlap: int = 0
    """How many samples at its beginning are also the end of the piece before."""

    @property
    def end(self) -> int:
        """The sample after its last."""
        return self.start + len(self.samples)


class Quiet(NamedTuple):
    """A stretch in which nobody speaks."""

    start: int
    end: int
    steady: bool = False
    """Whether it is a steady noise rather than silence."""


def cut(blocks: Iterable[Samples], most_s: float = MOST_S) -> Iterator[Piece | Quiet]:
    """The pieces of a stream and what is quiet between them, in order and without a gap."""
    cutter = _Cutter(round(most_s * SPEECH_RATE))
    for block in blocks:
        cutter.feed(block)
        yield from cutter.ready(last=False)
    yield from cutter.ready(last=True)


class _Cutter:
    """What has come and is not given yet."""

    def __init__(self, most: int) -> None:
        import numpy as np

        self._most = most // FRAME
        self._at = 0
        self._held: Samples = np.zeros(0, np.float32)
        self._past: Levels = np.zeros(0)
        self._overlap = 0

    def feed(self, block: Samples) -> None:
        import numpy as np

        self._held = np.concatenate([self._held, block])

    def ready(self, *, last: bool) -> Iterator[Piece | Quiet]:
        """What can be told from the sound so far; all of it at the end."""
        window = (self._most + 2 * _ENDS) * FRAME
        while len(self._held) >= window or (last and len(self._held)):
            made = self._next(last=last and len(self._held) <= window, window=window)
            yield made
            begin = made.end if isinstance(made, Quiet) else made.end - self._overlap
            self._forget(begin - self._at)

    def _forget(self, count: int) -> None:
        import numpy as np

        assert count > 0, "it goes on"
        gone = levels(self._held[:count])
        self._past = np.concatenate([self._past, gone])[-_PAST:]
        self._held = self._held[count:]
        self._at += count

    def _next(self, *, last: bool, window: int) -> Piece | Quiet:
        import numpy as np

        overlap, self._overlap = self._overlap, 0
        here = levels(self._held[:window])
        around = np.concatenate([self._past, here])
        limit, steady = _limit(around, here)
        loud = _loud(here, limit)
        places = np.flatnonzero(loud)
        if not len(places):
            return self._quiet(len(here) if last else len(here) - _MARGIN, steady, last=last)
        onset = max(0, int(places[0]) - _MARGIN)
        if onset >= _NAMED and not overlap:
            return self._quiet(onset, steady, last=False)
        end, self._overlap = self._end(here, loud, int(places[0]), last=last)
        stop = len(self._held) if last and end >= len(here) else min(end * FRAME, len(self._held))
        return Piece(self._at, self._held[:stop], overlap)

    def _quiet(self, frames: int, steady: bool, *, last: bool) -> Quiet:
        stop = len(self._held) if last else frames * FRAME
        return Quiet(self._at, self._at + stop, steady)

    def _end(
        self, here: Levels, loud: NDArray[np.bool_], onset: int, *, last: bool
    ) -> tuple[int, int]:
        """The frame in which the piece ends, and how many samples the next one shares with it."""
        pauses = _pauses(loud, onset)
        for start, stop in pauses:
            if stop - start >= _ENDS and start + _MARGIN <= self._most:
                return start + _MARGIN, 0
        if last and len(here) <= self._most:
            final = int(loud.nonzero()[0][-1]) + 1
            return (final + _MARGIN if len(here) - final >= _NAMED + _MARGIN else len(here)), 0
        for shortest, least in ((_PAUSE, _LEAST), (_PAUSE, 200), (_SHORT_PAUSE, 200)):
            best = self._best(pauses, shortest, least)
            if best is not None:
                return best, 0
        return self._forced(here)

    def _best(self, pauses: list[tuple[int, int]], shortest: int, least: int) -> int | None:
        """In the longest pause, later ones preferred a little; in a long one near its beginning."""
        found = []
        for start, stop in pauses:
            place = min((start + stop) // 2, start + _MARGIN)
            if stop - start >= shortest and least <= place <= self._most:
                found.append((min(stop - start, 100) + 40 * place / self._most, place))
        return max(found)[1] if found else None

    def _forced(self, here: Levels) -> tuple[int, int]:
        """In the quietest place near the end, with the next piece beginning before it."""
        import numpy as np

        half = round(OVERLAP_S * 50)
        first, final = max(self._most - 6 * half, 1), self._most - half
        soft = np.convolve(here, np.ones(5) / 5, mode="same")
        place = first + int(soft[first:final].argmin()) if final > first else self._most // 2
        return place + half, 2 * half * FRAME


def levels(samples: Samples) -> Levels:
    """The loudness of each frame in dB below full scale; a constant offset is not heard."""
    import numpy as np

    count = -(-len(samples) // FRAME)
    padded = np.zeros(count * FRAME, np.float32)
    padded[: len(samples)] = samples
    frames = padded.reshape(count, FRAME)
    power = np.square(frames - frames.mean(axis=1, keepdims=True)).mean(axis=1, dtype=np.float64)
    decibels: Levels = 10 * np.log10(power + 1e-10)
    return decibels


def quietest(samples: Samples) -> int:
    """Where a short recording is best cut in two: the softest place of its middle half."""
    import numpy as np

    soft = np.convolve(levels(samples), np.ones(9) / 9, mode="same")
    low, high = len(soft) // 4, max(len(soft) // 4 + 1, 3 * len(soft) // 4)
    return min(len(samples), (low + int(soft[low:high].argmin())) * FRAME)


def quiet_limit(around: Levels) -> float:
    """Below which loudness a frame is quiet."""
    limit, _ = _limit(around, around)
    return limit if limit < float("inf") else SILENT_DB


def _limit(around: Levels, here: Levels) -> tuple[float, bool]:
    """Below which loudness a frame is quiet, and whether all is one steady noise."""
    import numpy as np

    peak, floor = (float(np.percentile(around, share)) for share in (99.5, 10))
    top = float(np.percentile(here, 99.5))
    if max(peak, top) < SILENT_DB:
        return float("inf"), False
    smooth = np.convolve(around, np.ones(5) / 5, mode="valid") if len(around) >= 5 else around
    high, low = (float(np.percentile(smooth, share)) for share in (99.5, 5))
    if len(around) >= _LEAST_STEADY and high - low < _STEADY_DB:
        return float("inf"), True
    # Where nobody pauses the floor is speech itself: quiet is then well below the loudest.
    near_floor = min(floor + _ABOVE_DB, peak - _ABOVE_DB)
    return max(SILENT_DB, near_floor, peak - _BELOW_DB), False


def _loud(here: Levels, limit: float) -> NDArray[np.bool_]:
    """The frames in which something is heard; clicks are not."""
    import numpy as np

    loud = here >= limit
    edges = np.flatnonzero(np.diff(np.concatenate([[False], loud, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop - start < _CLICK and stop < len(here) and start > 0:
            loud[start:stop] = False
    return loud


def _pauses(loud: NDArray[np.bool_], onset: int) -> list[tuple[int, int]]:
    """The quiet stretches after the onset."""
    import numpy as np

    quiet = ~loud
    quiet[:onset] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
