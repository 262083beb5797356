"""A stream of audio in chunks that are transcribed one by one, split where nobody speaks.

Loudness is looked at in frames of ten milliseconds. What is quiet depends on what lies around it:
well below the loudest, or near the floor of noise. A chunk ends in the best pause that keeps it
under a minute; where nobody pauses, it goes on to the next pause. Joining the windows inside it is
the engine's work, which Whisper does better than a cut in a pause of a sentence: chunks of half a
minute took 0.9 of the time and had 50 false full stops where these have 39. Every sample is in a
chunk or in a `Silence`, which is not transcribed: engines hear words in silence and steady noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from anyrig.audio import SPEECH_RATE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.audio.samples import Samples

    Levels = NDArray[np.float64]

WINDOW_S = 60.0
"""Of a chunk: short enough to cache, to share among workers and to show progress."""
MAX_S = 180.0
"""Of a chunk without a pause; it is then split where it is quietest."""
FRAME = SPEECH_RATE // 100
# In frames:
_MIN_CHUNK = 3000  # where a pause allows it
_MARGIN = 25  # of quiet that is left around speech: soft beginnings and ends of words
_PAUSE, _SHORT_PAUSE = 20, 11  # shorter ones may be inside a word
_LONG_PAUSE = 250  # ends a chunk whatever its length
_MIN_SILENCE = 50  # what is shorter is left to the chunk that follows
_CLICK = 4  # louder, but too short to be speech
_PAST = 2000
_MIN_STEADY = 500
_SILENT_DB = -65.0  # below full scale: nothing that is softer is heard
_BELOW_DB, _ABOVE_DB, _STEADY_DB = 35.0, 6.0, 5.0


class SpeechChunk(NamedTuple):
    """Something to transcribe."""

    start: int
    """In samples from the beginning."""
    samples: Samples

    @property
    def end(self) -> int:
        """The sample after its last."""
        return self.start + len(self.samples)


class SilentStretch(NamedTuple):
    """A stretch in which nobody speaks."""

    start: int
    end: int
    steady: bool = False
    """Whether it is a steady noise rather than silence."""


def split_speech(blocks: Iterable[Samples]) -> Iterator[SpeechChunk | SilentStretch]:
    """The chunks of a stream and the silence between them, in order and without a gap."""
    splitter = _Splitter()
    for block in blocks:
        splitter.feed(block)
        yield from splitter.split(last=False)
    yield from splitter.split(last=True)


class _Splitter:
    """Holds what has come and is not split yet."""

    def __init__(self) -> None:
        import numpy as np

        self._start = 0
        self._pending: Samples = np.zeros(0, np.float32)
        self._past: Levels = np.zeros(0)
        self._window = round(WINDOW_S * 100)
        """Frames of the next chunk, unless it has no pause."""

    def feed(self, block: Samples) -> None:
        import numpy as np

        self._pending = np.concatenate([self._pending, block])

    def split(self, *, last: bool) -> Iterator[SpeechChunk | SilentStretch]:
        """What is certain from the audio so far; all of it at the end."""
        while len(self._pending) and (last or len(self._pending) >= self._num_needed):
            part = self._split_first(last=last and len(self._pending) <= self._num_needed)
            if part is None:  # no pause: look further
                self._window = min(2 * self._window, round(MAX_S * 100))
                continue
            yield part
            self._window = round(WINDOW_S * 100)
            self._drop(part.end - self._start)

    @property
    def _num_needed(self) -> int:
        return (self._window + 2 * _LONG_PAUSE) * FRAME

    def _drop(self, count: int) -> None:
        import numpy as np

        gone = measure_levels(self._pending[:count])
        self._past = np.concatenate([self._past, gone])[-_PAST:]
        self._pending = self._pending[count:]
        self._start += count

    def _split_first(self, *, last: bool) -> SpeechChunk | SilentStretch | None:
        import numpy as np

        here = measure_levels(self._pending[: self._num_needed])
        limit, steady = _find_limit(np.concatenate([self._past, here]), here)
        loud = _find_loud(here, limit)
        places = np.flatnonzero(loud)
        if not len(places):
            stop = len(self._pending) if last else (len(here) - _MARGIN) * FRAME
            return SilentStretch(self._start, self._start + stop, steady)
        onset = max(0, int(places[0]) - _MARGIN)
        if onset >= _MIN_SILENCE:
            return SilentStretch(self._start, self._start + onset * FRAME, steady)
        end = self._find_end(here, loud, int(places[0]), last=last)
        if end is None:
            return None
        stop = (
            len(self._pending)
            if last and end >= len(here)
            else min(end * FRAME, len(self._pending))
        )
        return SpeechChunk(self._start, self._pending[:stop])

    def _find_end(
        self, here: Levels, loud: NDArray[np.bool_], onset: int, *, last: bool
    ) -> int | None:
        """The frame in which the chunk ends; None where there is no pause yet."""
        import numpy as np

        pauses = _find_pauses(loud, onset)
        for start, stop in pauses:
            if stop - start >= _LONG_PAUSE and start + _MARGIN <= self._window:
                return start + _MARGIN
        if last and len(here) <= self._window:
            final = int(loud.nonzero()[0][-1]) + 1
            return final + _MARGIN if len(here) - final >= _MIN_SILENCE + _MARGIN else len(here)
        for shortest, earliest in ((_PAUSE, _MIN_CHUNK), (_PAUSE, 200), (_SHORT_PAUSE, 200)):
            best = self._choose_pause(pauses, shortest, earliest)
            if best is not None:
                return best
        if self._window < MAX_S * 100:
            return None
        soft = np.convolve(here, np.ones(5) / 5, mode="same")
        first = self._window // 2
        return first + int(soft[first : self._window].argmin())

    def _choose_pause(
        self, pauses: list[tuple[int, int]], shortest: int, earliest: int
    ) -> int | None:
        """In the longest pause, later ones preferred a little; in a long one near its beginning."""
        found = []
        for start, stop in pauses:
            place = min((start + stop) // 2, start + _MARGIN)
            if stop - start >= shortest and earliest <= place <= self._window:
                found.append((min(stop - start, 100) + 40 * place / self._window, place))
        return max(found)[1] if found else None


def measure_levels(samples: Samples) -> Levels:
    """The loudness of each frame in dB below full scale; a constant offset is not heard."""
    import numpy as np

    count = -(-len(samples) // FRAME)
    padded = np.zeros(count * FRAME, np.float32)
    padded[: len(samples)] = samples
    frames = padded.reshape(count, FRAME)
    power = np.square(frames - frames.mean(axis=1, keepdims=True)).mean(axis=1, dtype=np.float64)
    decibels: Levels = 10 * np.log10(power + 1e-10)
    return decibels


def split_windows(samples: Samples, max_s: float) -> Iterator[SpeechChunk]:
    """A chunk in windows of `max_s` at most, split where the second half of each is quietest."""
    import numpy as np

    start, size = 0, round(max_s * 100)
    while len(samples) - start > size * FRAME:
        levels = measure_levels(samples[start : start + size * FRAME])
        soft = np.convolve(levels, np.ones(9) / 9, mode="same")
        end = start + (size // 2 + int(soft[size // 2 : -4].argmin())) * FRAME
        yield SpeechChunk(start, samples[start:end])
        start = end
    yield SpeechChunk(start, samples[start:])


def find_loud_frames(samples: Samples) -> NDArray[np.bool_]:
    """In which frames of a short recording something is heard."""
    levels = measure_levels(samples)
    limit = _find_limit(levels, levels)[0] if len(levels) else _SILENT_DB
    loud: NDArray[np.bool_] = levels > (limit if limit < float("inf") else _SILENT_DB)
    return loud


def _find_limit(around: Levels, here: Levels) -> tuple[float, bool]:
    """Below which loudness a frame is quiet, and whether all is one steady noise."""
    import numpy as np

    peak, floor = (float(np.percentile(around, share)) for share in (99.5, 10))
    top = float(np.percentile(here, 99.5))
    if max(peak, top) < _SILENT_DB:
        return float("inf"), False
    smooth = np.convolve(around, np.ones(5) / 5, mode="valid") if len(around) >= 5 else around
    high, low = (float(np.percentile(smooth, share)) for share in (99.5, 5))
    if len(around) >= _MIN_STEADY and high - low < _STEADY_DB:
        return float("inf"), True
    # Where nobody pauses the floor is speech itself: quiet is then well below the loudest.
    near_floor = min(floor + _ABOVE_DB, peak - _ABOVE_DB)
    return max(_SILENT_DB, near_floor, peak - _BELOW_DB), False


def _find_loud(here: Levels, limit: float) -> NDArray[np.bool_]:
    """The frames in which something is heard; clicks are not."""
    import numpy as np

    loud = here >= limit
    edges = np.flatnonzero(np.diff(np.concatenate([[False], loud, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop - start < _CLICK and stop < len(here) and start > 0:
            loud[start:stop] = False
    return loud


def _find_pauses(loud: NDArray[np.bool_], onset: int) -> list[tuple[int, int]]:
    """The quiet stretches after the onset."""
    import numpy as np

    quiet = ~loud
    quiet[:onset] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
