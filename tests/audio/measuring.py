"""Loudness and true peak of a sound, as `book --verify` measures them."""

from __future__ import annotations

from anyrig.audio.samples import Samples
from anyrig.audiobooks.verify_audio import AudioFigures, AudioMeter


def measure(samples: Samples, rate: int) -> AudioFigures:
    meter = AudioMeter(rate)
    meter.add(samples)
    return meter.measure()
