"""A stream of speech is split in pauses; silence is named."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from anyrig.audio import SPEECH_RATE as RATE
from anyrig.audio.samples import Samples
from anyrig.transcription.segment import MAX_S, WINDOW_S, SilentStretch, SpeechChunk, split_speech

rng = np.random.default_rng(7)


def speech(seconds: float, level: float = 0.2) -> Samples:
    """Noise that swells and fades four times a second, as syllables do, without a pause."""
    time = np.arange(round(seconds * RATE)) / RATE
    swell = 0.35 + 0.65 * np.abs(np.sin(2 * np.pi * 2 * time))
    return (level * swell * rng.standard_normal(len(time))).astype(np.float32)


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * RATE), np.float32)


def blocks(samples: Samples, size: int = 50_000) -> Iterator[Samples]:
    for at in range(0, len(samples), size):
        yield samples[at : at + size]


def checked(samples: Samples, size: int = 50_000) -> list[SpeechChunk | SilentStretch]:
    """The parts, after a look whether each sample is in one of them and as it was."""
    parts = list(split_speech(blocks(samples, size)))
    at = 0
    for part in parts:
        assert part.start == at
        if isinstance(part, SpeechChunk):
            assert 0 < len(part.samples) <= (MAX_S + 45) * RATE
            assert np.array_equal(part.samples, samples[part.start : part.end])
        at = part.end
    assert at == len(samples)
    return parts


def pieces(parts: list[SpeechChunk | SilentStretch]) -> list[SpeechChunk]:
    return [part for part in parts if isinstance(part, SpeechChunk)]


def test_cuts_lie_in_pauses() -> None:
    turns = [part for _ in range(40) for part in (speech(6.3), silence(0.5))]
    whole = np.concatenate(turns)
    found = pieces(checked(whole))
    assert len(found) >= 4
    assert all(len(piece.samples) <= WINDOW_S * RATE for piece in found)
    for piece in found[:-1]:
        around = whole[piece.end - 800 : piece.end + 800]
        assert np.abs(around).max() == 0, "nobody speaks where it is cut"
        assert len(piece.samples) > 25 * RATE, "pieces are filled"


@pytest.mark.parametrize("size", [997, 50_000, 3_000_000])
def test_the_size_of_blocks_changes_nothing(size: int) -> None:
    whole = np.concatenate([silence(3), speech(50), silence(4), speech(7), silence(0.2)])
    spans = [(part.start, part.end) for part in split_speech(blocks(whole, size))]
    assert spans == [(part.start, part.end) for part in split_speech(blocks(whole))]


def test_where_nobody_pauses_a_chunk_goes_on_to_the_next_pause() -> None:
    """An engine joins the windows of a chunk; a cut within a word cannot be mended."""
    first, second = pieces(checked(np.concatenate([speech(80), silence(0.5), speech(55)])))
    assert first.end / RATE == pytest.approx(80.25, abs=0.3)
    assert second.start == first.end


def test_speech_without_any_pause_is_cut_in_the_end() -> None:
    found = pieces(checked(speech(8 * 60)))
    assert len(found) >= 2
    assert all(len(piece.samples) >= MAX_S / 2 * RATE for piece in found[:-1])


def test_silence_is_named() -> None:
    parts = checked(np.concatenate([silence(40), speech(5), silence(100)]))
    (piece,) = pieces(parts)
    assert 39 < piece.start / RATE < 40
    assert 45 <= piece.end / RATE < 46
    quiet = sum(part.end - part.start for part in parts if isinstance(part, SilentStretch))
    assert quiet / RATE > 138


@pytest.mark.parametrize("level", [0.0, 1e-5, 0.01, 0.2])
def test_a_steady_noise_is_no_speech(level: float) -> None:
    noise = (level * rng.standard_normal(50 * RATE)).astype(np.float32)
    assert not pieces(checked(noise))


def test_speech_in_noise_is_found() -> None:
    noise = (0.02 * rng.standard_normal(40 * RATE)).astype(np.float32)
    noise[10 * RATE : 14 * RATE] += speech(4)
    (piece,) = pieces(checked(noise))
    assert piece.start <= 10 * RATE
    assert piece.end >= 14 * RATE
    assert len(piece.samples) < 6 * RATE


@pytest.mark.parametrize("seconds", [0.02, 0.3, 0.9])
def test_a_short_recording_is_a_piece(seconds: float) -> None:
    assert len(pieces(checked(speech(seconds)))) == 1


def test_a_word_at_the_very_end_is_not_lost() -> None:
    whole = np.concatenate([speech(20), silence(30), speech(0.4)])
    assert pieces(checked(whole))[-1].end == len(whole)


def test_memory_does_not_grow() -> None:
    """An hour of talk is never held: what goes in comes out soon."""
    given = 0

    def stream() -> Iterator[Samples]:
        nonlocal given
        turn = np.concatenate([speech(5), silence(0.4)])
        for _ in range(60):
            given += len(turn)
            yield turn

    for part in split_speech(stream()):
        assert given - part.end < 75 * RATE
