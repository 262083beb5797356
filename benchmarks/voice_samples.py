"""How often the checks of a voice sample are wrong, on recordings with known faults.

Every English voice here reads two texts; the recordings are then made noisy, clipped, quiet, short,
or joined with another speaker's. A good one that is refused is a false reject, a bad one that
passes all checks a false accept. BENCHMARK_KOKORO names a folder with voice packs of Kokoro: 28 of
them are English. BENCHMARK_RECORDINGS names a folder with readings that were made before, as
VOICE-NUMBER.wav, to be used instead. Pico is left out: what it says is clipped, and refused. Needs
the extras `recognise` and `speakers`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from anyrig.app.rig import Rig
from anyrig.audio.resample import resample
from anyrig.audio.samples import Samples
from anyrig.speech.sample_checks import check_sample
from benchmarks.harness import Row

RATE = 24000
SEED, NUM_PAIRS = 37, 30
TEXTS = (
    "The harbour was quiet in the early morning, and the boats lay still on the grey water. An old"
    " woman walked along the wall with a basket of bread. She counted the gulls, as she did every"
    " day, and wondered how many would come back before the rain.",
    "My brother never liked the train, because it was always late and smelled of coal. He preferred"
    " to walk across the fields, even in winter, with his hands in his pockets. When he arrived,"
    " the soup was cold and everybody was laughing about something else.",
)


class Reading(NamedTuple):
    voice: str
    samples: Samples
    rate: int


def run(hardware: str) -> list[Row]:
    readings = list(_read_aloud())
    rng = np.random.default_rng(SEED)
    rows = []
    for name, is_good, cases in _list_cases(readings, rng):
        with ThreadPoolExecutor() as threads:
            verdicts = list(threads.map(_is_refused, cases))
        wrong = sum(refused == is_good for refused in verdicts)
        kind = "false rejects" if is_good else "false accepts"
        rows.append(
            Row(
                f"{kind}: {name}, {len(verdicts)} recordings",
                100 * wrong / len(verdicts),
                "%",
                high=25.0 if name.startswith("two speakers") else 5.0,  # some sound alike
                spread=f"{wrong} of {len(verdicts)}",
            )  # fmt: skip
        )
    return rows


def _is_refused(one: Reading) -> bool:
    return bool(check_sample(one.samples, one.rate).failures)


def _read_aloud() -> Iterator[Reading]:
    """Each voice reads each text."""
    if recordings := os.environ.get("BENCHMARK_RECORDINGS", ""):
        for path in sorted(Path(recordings).glob("*.wav")):
            samples, rate = soundfile.read(path, dtype="float32")
            yield Reading(path.stem.rpartition("-")[0], resample(samples, rate, RATE), RATE)
        return
    folder = os.environ.get("BENCHMARK_KOKORO", "")
    engines: list[tuple[str, Path | None]] = [("hibari", None), ("piper", None)]
    engines += [("kokoro", Path(folder))] if folder else []
    with Rig() as rig:
        for engine, model in engines:
            for voice in rig.voices(language="en", engine=engine, model=model):
                for text in TEXTS:
                    with rig.speak(
                        text, voice=voice.name, engine=engine, model=model, loudness=0.0
                    ) as speech:
                        audio = resample(speech.read(), speech.sample_rate, RATE)
                        yield Reading(f"{engine} {voice.name}", audio, RATE)


def _list_cases(
    readings: list[Reading], rng: np.random.Generator
) -> Iterator[tuple[str, bool, list[Reading]]]:
    """Name, whether it is a good sample, and the recordings."""

    def change(how: object) -> list[Reading]:
        assert callable(how)
        return [one._replace(samples=how(one).astype(np.float32)) for one in readings]

    yield "clean speech", True, readings
    yield "level of -35 dBFS", True, change(lambda one: _set_level(one.samples, -35))
    yield "white noise at 40 dB", True, change(lambda one: _add_noise(one, 40, rng))
    yield "white noise at 30 dB", True, change(lambda one: _add_noise(one, 30, rng))
    yield "white noise at 15 dB", False, change(lambda one: _add_noise(one, 15, rng))
    yield "white noise at 10 dB", False, change(lambda one: _add_noise(one, 10, rng))
    yield "white noise at 5 dB", False, change(lambda one: _add_noise(one, 5, rng))
    yield (
        "low hum and hiss at 10 dB",
        False,
        change(lambda one: _add_noise(one, 10, rng, pink=True)),
    )
    yield "music under it at 10 dB", False, change(lambda one: _add_music(one, 10))
    yield "clipped, 12 dB too loud", False, change(lambda one: _clip(one.samples, 4.0))
    yield "clipped, then made softer", False, change(lambda one: 0.3 * _clip(one.samples, 4.0))
    yield "level of -50 dBFS", False, change(lambda one: _set_level(one.samples, -50))
    yield "3 s long", False, change(lambda one: one.samples[: 3 * one.rate])
    yield "two speakers, one after the other", False, list(_join(readings, turns=1))
    yield "two speakers in turns", False, list(_join(readings, turns=3))
    yield "nobody speaks", False, [
        Reading("tone", _music(10, 24000)[: 10 * 24000] * 0.3, 24000),
        Reading("silence", np.zeros(10 * 24000, np.float32), 24000),
        Reading("noise", 0.1 * rng.standard_normal(10 * 24000).astype(np.float32), 24000),
        Reading("sine", 0.3 * np.sin(np.arange(240000) / 10).astype(np.float32), 24000),
    ]  # fmt: skip


def _power(samples: Samples) -> float:
    return float((samples.astype(np.float64) ** 2).mean())


def _set_level(samples: Samples, level_db: float) -> Samples:
    return samples * np.float32(10 ** (level_db / 20) / np.sqrt(_power(samples)))


def _mix(one: Reading, other: Samples, snr_db: float) -> Samples:
    gain = np.sqrt(_power(one.samples) / _power(other)) * 10 ** (-snr_db / 20)
    return one.samples + np.float32(gain) * other[: len(one.samples)]


def _add_noise(
    one: Reading, snr_db: float, rng: np.random.Generator, *, pink: bool = False
) -> Samples:
    noise = rng.standard_normal(len(one.samples))
    if pink:  # its power falls by 3 dB an octave
        spectrum = np.fft.rfft(noise)
        noise = np.fft.irfft(spectrum / np.sqrt(np.arange(1, len(spectrum) + 1)), len(noise))
    return _mix(one, noise.astype(np.float32), snr_db)


def _music(seconds: float, rate: int) -> Samples:
    """Chords that change every second."""
    at = np.arange(round(seconds * rate)) / rate
    roots = np.asarray([220.0, 174.6, 261.6, 196.0])[(at.astype(int)) % 4]
    phase = 2 * np.pi * np.cumsum(roots) / rate
    chords = sum(np.sin(phase * step) / 3 for step in (1.0, 1.25, 1.5))
    return np.asarray(chords, np.float32)


def _add_music(one: Reading, snr_db: float) -> Samples:
    return _mix(one, _music(len(one.samples) / one.rate + 1, one.rate), snr_db)


def _clip(samples: Samples, gain: float) -> Samples:
    peak = np.abs(samples).max()
    return np.asarray(np.clip(samples / peak * gain, -1.0, 1.0), np.float32)


def _speaker(one: Reading) -> str:
    """hibari's heart is Kokoro's `af_heart`."""
    return "heart" if "heart" in one.voice else one.voice


def _join(readings: list[Reading], turns: int) -> Iterator[Reading]:
    """Pairs of voices, each with as much to say."""
    drawn = random.Random(SEED)
    pairs = [drawn.sample(readings, 2) for _ in range(4 * NUM_PAIRS)]
    apart = [(a, b) for a, b in pairs if _speaker(a) != _speaker(b)]
    for first, second in apart[:NUM_PAIRS]:
        size = 12 * first.rate // (2 * turns)
        parts = [
            one.samples[turn * size : (turn + 1) * size]
            for turn in range(turns)
            for one in (first, second)
        ]
        yield Reading("two", np.concatenate(parts), first.rate)
