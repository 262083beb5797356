"""Whether what was heard can have been said: recognisers loop, and hear words in noise.

A text that repeats itself compresses far better than speech does, and a loop has more letters
than anybody can say in the time. Such a recording is cut in two at its softest place and heard
again, as the cause is mostly where it began; what is still doubtful is kept and says so.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from anyrig.audio import SPEECH_RATE
from anyrig.transcription.cut import SILENT_DB, levels, quiet_limit, quietest
from anyrig.transcription.protocol import Line, Transcript

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Samples = NDArray[np.float32]

MOST_COMPRESSED = 2.4
"""The ratio above which a text repeats itself; Whisper's authors found it."""
_MOST_LETTERS = 40.0  # a second; a fast reader says 20
_LEAST_LETTERS = 40  # a short text may be anything
_SHORTEST_S = 1.0
_SLACK_S = 0.3
_LEAD_S = 0.1
_LEAST_LOGPROB = -1.0
_REPEATED = re.compile(r"(\S.{0,60}?)(?:[\s,.]+\1){4,}", re.IGNORECASE)
LOOPS = "the text repeats itself"
HASTY = "the text is too long for its time"
UNSURE = "low confidence"


def compression_ratio(text: str) -> float:
    """How much smaller a text becomes when it is compressed; speech has 1 to 2."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data) / len(zlib.compress(data)) if data else 0.0


def doubt(text: str, seconds: float) -> str:
    """What speaks against a text that was heard in so many seconds; empty when nothing does."""
    if len(text) < _LEAST_LETTERS:
        return ""
    if compression_ratio(text) > MOST_COMPRESSED or _REPEATED.search(text):
        return LOOPS
    return HASTY if len(text) / max(seconds, 0.1) > _MOST_LETTERS else ""


def careful(
    hear: Callable[[Samples], Transcript], samples: Samples, first: Transcript | None = None
) -> Transcript:
    """What is heard; heard again in two parts where it cannot have been said like that.

    Args:
        hear: what hears a recording.
        samples: the recording.
        first: what was heard already.
    """
    first = hear(samples) if first is None else first
    seconds = len(samples) / SPEECH_RATE
    against = doubt(first.text, seconds)
    if against and seconds >= 2 * _SHORTEST_S:
        place = quietest(samples)
        if _SHORTEST_S * SPEECH_RATE / 2 <= place <= len(samples) - _SHORTEST_S * SPEECH_RATE / 2:
            again = _joined(hear(samples[:place]), hear(samples[place:]), place / SPEECH_RATE)
            if not doubt(again.text, seconds) or len(again.text) < len(first.text):
                first, against = again, doubt(again.text, seconds)
    loud = levels(samples) > _limit_of(samples)
    lines = tuple(
        _judged(_tight(line, loud), against) for line in first.lines if _sounds(line, samples)
    )
    return replace(first, text=" ".join(line.text for line in lines), lines=lines)


def _sounds(line: Line, samples: Samples) -> bool:
    """Whether there is any sound where a line is said to be; times of lines are not exact."""
    start = max(0, round((line.start_s - _SLACK_S) * SPEECH_RATE))
    there = samples[start : round((line.end_s + _SLACK_S) * SPEECH_RATE)]
    return bool(len(there)) and float(levels(there).max()) > SILENT_DB


def _limit_of(samples: Samples) -> float:
    return quiet_limit(levels(samples)) if len(samples) else SILENT_DB


def _tight(line: Line, loud: NDArray[np.bool_]) -> Line:
    """A line without the quiet at its ends: Whisper often rounds its times to seconds."""
    start, end = round(line.start_s * 100), round(line.end_s * 100)
    there = loud[start:end].nonzero()[0]
    if line.words or not len(there):
        return line
    first, last = start + int(there[0]), start + int(there[-1]) + 1
    return replace(
        line,
        start_s=max(line.start_s, first / 100 - _LEAD_S),
        end_s=min(line.end_s, last / 100 + _LEAD_S),
    )


def _joined(one: Transcript, other: Transcript, place_s: float) -> Transcript:
    lines = (*one.lines, *(line.later(place_s) for line in other.lines))
    text = " ".join(filter(None, (one.text, other.text)))
    return Transcript(text, one.language or other.language, lines, one.languages)


def _judged(line: Line, against: str) -> Line:
    """A line with its ratio, and with what speaks against it or against its recording."""
    own = doubt(line.text, max(line.end_s - line.start_s, 1.0))
    if not own and line.avg_logprob is not None and line.avg_logprob < _LEAST_LOGPROB:
        own = UNSURE
    ratio = line.compression_ratio
    return replace(
        line,
        doubt=line.doubt or own or against,
        compression_ratio=compression_ratio(line.text) if ratio is None else ratio,
    )
