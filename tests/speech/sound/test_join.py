"""Trims that lose no speech, fades that do not click, pauses of exact length."""

from __future__ import annotations

import numpy as np
import pytest

from anyrig.speech.audio import Samples, Take, WordTime
from anyrig.speech.sound.join import Trimmer, faded, frames, pause, trim
from tests.speech.sound.takes import RATE, said, sentences, sine

# Soft first and last sounds: h, f, th, s, wh.
SOFT = (
    "Half of this was for Seth.",
    "This is the fifth leaf.",
    "Who has his half?",
    "She is safe.",
)


def test_a_pause_is_exact() -> None:
    assert len(pause(0.25, 22050)) == 5512
    assert len(pause(-1.0, RATE)) == 0
    assert frames(1 / 3, 24000) == 8000
    assert not pause(0.1, RATE).any()


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


def test_the_margin_stays() -> None:
    sound = np.concatenate([np.zeros(RATE), sine(0.5), np.zeros(RATE)]).astype(np.float32)
    trimmed = trim(Take(sound, RATE), keep_s=0.03)
    assert abs(trimmed.duration_s - 0.56) < 0.011


def test_words_move_with_the_trim() -> None:
    sound = np.concatenate([np.zeros(RATE), sine(0.5), np.zeros(RATE)]).astype(np.float32)
    words = (WordTime("a", 1.0, 1.2), WordTime("b", 1.2, 2.4))
    trimmed = trim(Take(sound, RATE, words), keep_s=0.05)
    assert trimmed.words[0].start_s == pytest.approx(0.05, abs=0.005)
    assert trimmed.words[0].end_s == pytest.approx(0.25, abs=0.005)
    assert trimmed.words[1].end_s == pytest.approx(trimmed.duration_s)


def test_silence_becomes_nothing() -> None:
    assert len(trim(Take(np.zeros(RATE, dtype=np.float32), RATE)).samples) == 0
    assert len(trim(Take(np.zeros(0, dtype=np.float32), RATE)).samples) == 0


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


def test_a_trimmed_stream_of_silence_is_nothing() -> None:
    trimmer = Trimmer(RATE)
    given = [trimmer.feed(np.zeros(1000, dtype=np.float32)) for _ in range(50)]
    assert sum(map(len, given)) + len(trimmer.finish()) == 0


def test_fades_leave_no_step() -> None:
    loud = np.full(2400, 0.8, dtype=np.float32)
    soft = faded(loud, RATE)
    joined = np.concatenate([pause(0.1, RATE), soft, pause(0.1, RATE)])
    # A click is a jump: without fades it is 0.8, over 5 ms a raised cosine moves 1.3 % a sample.
    assert float(np.abs(np.diff(joined)).max()) < 0.02
    assert soft[1200] == loud[1200]
    assert loud[0] == np.float32(0.8), "the given samples are not changed"


def test_only_the_edges_that_are_asked_for_fade() -> None:
    loud = np.full(2400, 0.8, dtype=np.float32)
    begun = faded(loud, RATE, end=False)
    assert begun[0] < 0.01
    assert begun[-1] == loud[-1]
    assert faded(loud, RATE, start=False, end=False) is loud
    assert len(faded(loud[:3], RATE)) == 3
    assert len(faded(loud[:0], RATE)) == 0


def _loudest(samples: Samples) -> float:
    """The loudest 5 ms in decibels."""
    framed = samples[: len(samples) // 120 * 120].reshape(-1, 120).astype(np.float64)
    return float(10 * np.log10((framed**2).mean(axis=1).max(initial=0.0) + 1e-14))


def _place(whole: Samples, part: Samples) -> int:
    """Where a slice begins in what it was cut from."""
    first, start = (int(of.__array_interface__["data"][0]) for of in (whole, part))
    return (start - first) // 4
