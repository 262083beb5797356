"""Whether a take is a plausible reading of its line, told from the sound alone and cheaply.

Length against the text, silence, clipping, repetition, samples that are no numbers. The bounds are
generous: a voice that speaks slowly or leaves long pauses must pass, since every false alarm costs
a take. What a take says is not heard here: that is `--verify`.

Costs 1 to 2 % of the synthesis of the default voice, most of it for repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.expect import Expected, expected, repeats
from anyrig.speech.repetition import repetition

Kind = Literal["length", "silence", "clipping", "repetition", "non-finite", "empty"]
_FRAME_S = 0.01
_SPEECH = 10.0**-4.5  # of the loudest frame's power: 45 dB under it nothing counts as speech
_FAINT = 1e-5  # the power of -50 dBFS: a take whose loudest frame is under it says nothing
_EDGE_S = 2.0  # silence before or after the words; the default voice leaves half a second
_SHORT = 0.8  # of the usual length: with another sign, something is missing
_CLIP_RUN = 4  # samples in a row at the top: a wave that was cut, not one that just reached it
_CLIP_SHARE = 0.015  # a small voice of 16 bits always cuts up to 1 %
_LOUD = 0.01  # of the loudest frame's power: a vowel, not the end of one
# What problems take from the score, so that the least bad of several takes can be kept.
_WEIGHT: dict[Kind, float] = {"silence": 0.5, "length": 0.5, "repetition": 0.6, "clipping": 0.2}


class Problem(NamedTuple):
    """Something wrong with a take."""

    kind: Kind
    said: str
    """For a person."""


@dataclass(frozen=True)
class Verdict:
    """What was found in a take."""

    problems: tuple[Problem, ...] = ()
    score: float = 1.0
    """1 when nothing is wrong; the higher, the better a take is among bad ones."""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def examine(take: Take, line: Utterance) -> Verdict:
    """What is wrong with a take of a line."""
    samples, rate = take.samples, take.rate
    if not len(samples):
        return Verdict((Problem("empty", "it has no samples"),), 0.0)
    power = _power(samples, rate)
    if not np.isfinite(power).all():
        return Verdict((Problem("non-finite", "some samples are not finite"),), 0.0)
    told = expected(line)
    loudest = float(power.max())
    speech = np.flatnonzero(power > loudest * _SPEECH)
    if loudest < _FAINT or not len(speech):
        if not told.most_s:
            return Verdict()
        return Verdict((Problem("silence", "it is silent"),), 0.0)
    problems: list[Problem] = []
    spoken_s = (int(speech[-1]) - int(speech[0]) + 1) * _FRAME_S
    breaks_off = float(power[-2:].max()) > _LOUD * loudest
    off = _length(problems, spoken_s, breaks_off, told)
    _silence(problems, speech, len(power), told)
    _clipping(problems, samples)
    if not repeats(line.text):
        _repetition(problems, samples, rate, told.slow)
    return _verdict(problems, off)


def _verdict(problems: list[Problem], off: float) -> Verdict:
    """Args: off: how far the length is off, 0 to 1: it decides between equals."""
    if not problems:
        return Verdict()
    lost = sum(_WEIGHT[problem.kind] for problem in problems) + 0.1 * off
    return Verdict(tuple(problems), 1.0 / (1.0 + lost))


def _length(problems: list[Problem], seconds: float, breaks_off: bool, told: Expected) -> float:
    if seconds > told.most_s:
        said = f"it takes {seconds:.1f} s, expected at most {told.most_s:.1f} s"
        problems.append(Problem("length", said))
        return min(1.0, (seconds - told.most_s) / (told.most_s + 1.0))
    if seconds < told.least_s:
        said = f"it takes {seconds:.1f} s, expected at least {told.least_s:.1f} s"
        problems.append(Problem("length", said))
        return min(1.0, (told.least_s - seconds) / told.least_s)
    if breaks_off and seconds < _SHORT * told.usual_s:
        problems.append(Problem("length", f"it ends abruptly after {seconds:.1f} s"))
        return 1.0 - seconds / told.usual_s
    return 0.0


def _silence(
    problems: list[Problem], speech: NDArray[np.intp], num_frames: int, told: Expected
) -> None:
    gap_s = float(np.diff(speech).max(initial=1) - 1) * _FRAME_S
    if gap_s > told.gap_s:
        problems.append(Problem("silence", f"{gap_s:.1f} s of silence in the middle"))
    edge_s = max(int(speech[0]), num_frames - 1 - int(speech[-1])) * _FRAME_S
    spoken_s = (int(speech[-1]) - int(speech[0])) * _FRAME_S
    usual_s = _EDGE_S if spoken_s > _SHORT * told.usual_s else _EDGE_S / 2
    if edge_s > usual_s * told.slow:
        problems.append(Problem("silence", f"{edge_s:.1f} s of silence at an end"))


def _clipping(problems: list[Problem], samples: Samples) -> None:
    peak = max(float(samples.max()), -float(samples.min()))
    if peak < 0.97:
        return
    top = np.abs(samples) >= 0.999 * peak
    held = top[_CLIP_RUN - 1 :].copy()
    for back in range(1, _CLIP_RUN):
        held &= top[_CLIP_RUN - 1 - back : len(top) - back]
    share = float(np.count_nonzero(held)) / len(samples)
    if share > _CLIP_SHARE:
        problems.append(Problem("clipping", f"{100 * share:.1f} % of the samples are clipped"))


def _repetition(problems: list[Problem], samples: Samples, rate: int, slow: float) -> None:
    found = repetition(samples, rate, slow=slow)
    if found is not None:
        said = f"{found.period_s:.1f} s are repeated from {found.start_s:.1f} s on"
        problems.append(Problem("repetition", said))


def _power(samples: Samples, rate: int) -> NDArray[np.float32]:
    """The mean square of every ten milliseconds; the rest of a frame at the end counts as one."""
    size = max(1, round(_FRAME_S * rate))
    whole = len(samples) // size * size
    framed = samples[:whole].reshape(-1, size)
    power: NDArray[np.float32] = np.einsum("ij,ij->i", framed, framed) / np.float32(size)
    rest = samples[whole:]
    if len(rest):
        power = np.append(power, np.float32(np.dot(rest, rest) / size))
    return power
