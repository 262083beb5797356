"""Real takes of the default voice, made once for all tests of a process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from anyrig.audio.samples import Samples
from anyrig.speech.engine import Take

RATE = 24000
SENTENCES = Path(__file__).parent / "sentences.txt"


@lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


@lru_cache(maxsize=1)
def voice():  # type: ignore[no-untyped-def]  # the package has no types
    from hibari import Hibari

    return Hibari()


@lru_cache(maxsize=256)
def said(text: str, rate: float = 1.0) -> Take:
    samples: Samples = np.asarray(voice()(text, speed=rate, seed=1), dtype=np.float32)
    return Take(samples, RATE)


def sine(seconds: float, hertz: float = 440.0, rate: int = RATE, peak: float = 0.5) -> Samples:
    time = np.arange(round(seconds * rate)) / rate
    return (peak * np.sin(2 * np.pi * hertz * time)).astype(np.float32)
