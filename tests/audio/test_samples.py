"""Takes put together: pauses, trims, fades, loudness, limiter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from anyrig.audio.limiter import Limiter
from anyrig.audio.loudness import (
    CEILING_DBTP,
    Leveller,
    Meter,
    compute_gain_db,
    level_parts,
    level_whole,
)
from anyrig.audio.samples import Samples, Trimmer, fade, silence
from anyrig.speech.chunks import trim
from anyrig.speech.engine import Take, WordTime
from tests.audio.measuring import measure
from tests.speech.takes import RATE, said, sentences, sine

# Soft first and last sounds: h, f, th, s, wh.
SOFT = (
    "Half of this was for Seth.",
    "This is the fifth leaf.",
    "Who has his half?",
    "She is safe.",
)


@pytest.mark.parametrize("text", [*sentences()[:6], *SOFT, "Yes."])
def test_only_silence_is_trimmed(text: str) -> None:
    take = said(text)
    trimmed = trim(take)
    start = _place(take.samples, trimmed.samples)
    cut = np.concatenate([take.samples[:start], take.samples[start + len(trimmed.samples) :]])
    # Nothing within 55 dB of the loudest vowel may go: soft consonants are above that.
    loudest = _loudest(take.samples)
    assert _loudest(cut) < loudest - 55
    assert len(cut) > 0.1 * RATE, "the default voice leaves silence at its ends"


def test_words_move_with_the_trim() -> None:
    sound = np.concatenate([np.zeros(RATE), sine(0.5), np.zeros(RATE)]).astype(np.float32)
    words = (WordTime("a", 1.0, 1.2), WordTime("b", 1.2, 2.4))
    trimmed = trim(Take(sound, RATE, words))
    assert trimmed.words[0].start_s == pytest.approx(0.05, abs=0.005)
    assert trimmed.words[0].end_s == pytest.approx(0.25, abs=0.005)
    assert trimmed.words[1].end_s == pytest.approx(trimmed.duration_s)


@pytest.mark.parametrize("sizes", [(1,), (37, 100), (480, 481, 7), (5000,), (10**6,)])
def test_parts_are_trimmed_as_the_whole(sizes: tuple[int, ...]) -> None:
    take = said("She is safe.")
    samples = take.samples if sizes != (1,) else take.samples[4000:10000]
    trimmer = Trimmer(RATE)
    parts, at, turn = [], 0, 0
    while at < len(samples):
        size = sizes[turn % len(sizes)]
        parts.append(trimmer.feed(samples[at : at + size]))
        at, turn = at + size, turn + 1
    parts.append(trimmer.finish())
    made = np.concatenate(parts)
    # A slice of the whole at the place it says, and it keeps all that the whole trim keeps.
    assert np.array_equal(made, samples[trimmer.dropped : trimmer.dropped + len(made)])
    whole = trim(Take(samples, RATE)).samples
    first = _place(samples, whole)
    assert trimmer.dropped <= first + 120
    grid = 120  # its frames begin elsewhere
    assert trimmer.dropped + len(made) >= first + len(whole) - grid
    assert len(made) <= len(whole) + 0.15 * RATE


def test_fades_leave_no_step() -> None:
    loud = np.full(2400, 0.8, dtype=np.float32)
    soft = fade(loud, RATE)
    joined = np.concatenate([silence(0.1, RATE), soft, silence(0.1, RATE)])
    # A click is a jump: without fades it is 0.8, over 5 ms a raised cosine moves 1.3 % a sample.
    assert float(np.abs(np.diff(joined)).max()) < 0.02
    assert soft[1200] == loud[1200]
    assert loud[0] == np.float32(0.8), "the given samples are not changed"


def _loudest(samples: Samples) -> float:
    """The loudest 5 ms in decibels."""
    framed = samples[: len(samples) // 120 * 120].reshape(-1, 120).astype(np.float64)
    return float(10 * np.log10((framed**2).mean(axis=1).max(initial=0.0) + 1e-14))


def _place(whole: Samples, part: Samples) -> int:
    """Where a slice begins in what it was cut from."""
    first, start = (int(of.__array_interface__["data"][0]) for of in (whole, part))
    return (start - first) // 4


@pytest.fixture(scope="module")
def parts() -> list[Samples]:
    """Half a minute as a listener gets it."""
    made = []
    for text in sentences()[:8]:
        made += [fade(trim(said(text)).samples, RATE), silence(0.4, RATE)]
    return made


def test_the_meter_agrees_with_the_standard() -> None:
    # EBU Tech 3341: 1 kHz at -23 dBFS is -23 LUFS in stereo, so 3 LU less in mono.
    tone = sine(5.0, 997.0, 48000, peak=10 ** (-23 / 20))
    found = measure(tone, 48000)
    assert found.lufs == pytest.approx(-26.0, abs=0.1)
    assert found.true_peak_db == pytest.approx(-23.0, abs=0.1)


@pytest.mark.parametrize("target", [-30.0, -23.0, -19.0, -16.0])
def test_a_whole_is_at_the_target(parts: list[Samples], target: float) -> None:
    made = np.concatenate(list(level_parts(lambda: parts, RATE, target_lufs=target)))
    found = measure(made, RATE)
    assert len(made) == sum(map(len, parts))
    assert found.lufs == pytest.approx(target, abs=0.2)
    assert found.true_peak_db <= CEILING_DBTP


@pytest.mark.parametrize("before_db", [-15.0, 0.0, 8.0])
def test_a_stream_is_at_the_target(parts: list[Samples], before_db: float) -> None:
    scaled = [part * np.float32(10 ** (before_db / 20)) for part in parts]
    leveller = Leveller(RATE)
    made = [leveller.apply(part) for part in scaled]
    assert [len(part) for part in made] == [len(part) for part in parts]
    found = measure(np.concatenate(made), RATE)
    assert found.lufs == pytest.approx(-19.0, abs=0.5)
    assert found.true_peak_db <= CEILING_DBTP
    # From the very first sentence on, as a listener hears that one first.
    assert measure(made[0], RATE).lufs == pytest.approx(-19.0, abs=1.0)


def test_a_long_whole_is_measured_by_samples_of_it(parts: list[Samples]) -> None:
    random = np.random.default_rng(4)
    long = [part * np.float32(random.uniform(0.8, 1.2)) for part in parts * 6]
    every, some = Meter(RATE), Meter(RATE, subsample_after_s=30.0)
    for part in long:
        every.add(part)
        some.add(part)
    assert sum(map(len, long)) > 180 * RATE
    assert some.integrated_lufs == pytest.approx(every.integrated_lufs, abs=0.2)
    in_pieces, whole = Meter(RATE, subsample_after_s=30.0), np.concatenate(long)
    for start in range(0, len(whole), 5003):
        in_pieces.add(whole[start : start + 5003])
    assert in_pieces.integrated_lufs == pytest.approx(some.integrated_lufs, abs=1e-6)


def test_the_running_gain_does_not_pump(parts: list[Samples]) -> None:
    # A speaker who whispers for a while: the gain moves by half a decibel a second at most, and
    # the whisper stays softer than the voice.
    quiet = [part * np.float32(0.2) for part in parts]
    leveller = Leveller(RATE, target_lufs=-30.0)  # far from the ceiling: the gain alone is seen
    gains: list[float] = []
    for part in [*parts, *quiet, *parts]:
        made = leveller.apply(part)
        strong = np.abs(part) > 0.02
        if strong.any():
            ratio = made[strong] / part[strong]
            gains.append(20 * math.log10(float(ratio[-1])))
            moved = 20 * math.log10(float(ratio.max() / ratio.min()))
            assert moved <= 0.5 * len(part) / RATE + 0.01
    assert max(gains) - min(gains) < 3.0


def test_the_gain_waits_for_a_voice() -> None:
    leveller = Leveller(RATE)
    assert not leveller.apply(silence(1.0, RATE)).any()
    made = leveller.apply(said(sentences()[0]).samples)
    assert measure(made, RATE).lufs == pytest.approx(-19.0, abs=1.0)
    assert len(leveller.apply(np.zeros(0, dtype=np.float32))) == 0


def test_silence_and_noise_are_not_blown_up() -> None:
    assert not level_whole(silence(1.0, RATE), RATE).any()
    assert compute_gain_db(-math.inf) == 0.0
    assert compute_gain_db(-69.0) == 24.0
    assert Meter(RATE).integrated_lufs == -math.inf


def test_peaks_between_samples_are_seen() -> None:
    # A quarter of the rate at 45 degrees: every sample is 3 dB under the wave's true peak.
    time = np.arange(RATE) / RATE
    tone = np.sin(2 * np.pi * 6000 * time + np.pi / 4).astype(np.float32)
    assert float(np.abs(tone).max()) < 0.71
    made = Limiter(RATE, -1.0).apply(tone)
    assert measure(made, RATE).true_peak_db <= -1.0
    assert measure(made, RATE).true_peak_db > -1.6, "and no more than needed"


def test_the_limiter_leaves_the_rest_alone() -> None:
    sound = sine(2.0, 200.0, peak=0.3)
    sound[24000:24100] *= 4.0
    made = Limiter(RATE, -1.5).apply(sound)
    far = np.ones(len(sound), dtype=bool)
    far[24000 - 480 : 24100 + 480] = False
    assert np.array_equal(made[far], sound[far])
    assert float(np.abs(made).max()) <= 10 ** (-1.5 / 20) + 1e-6


def test_the_limiter_goes_on_from_part_to_part() -> None:
    loud = sine(1.0, 220.0, peak=2.0)
    limiter = Limiter(RATE, -1.5)
    made = np.concatenate([limiter.apply(loud[at : at + 3000]) for at in range(0, len(loud), 3000)])
    whole = Limiter(RATE, -1.5).apply(loud)
    assert float(np.abs(made - whole).max()) < 0.02
    assert float(np.abs(made).max()) <= 10 ** (-1.5 / 20) + 1e-6
