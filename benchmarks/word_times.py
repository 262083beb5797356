"""Word times found by listening, beside the exact ones of the engine.

The default voice says when each word is heard. The same audio is then listened to as if it did not
(`aligned`), and the starts of words are compared. How much later each format is decoded than the
samples that were encoded is measured too, as times must fit the file that is played.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np

from anyrig.app.rig import Rig
from anyrig.app.speech import Speech, TimedTake
from anyrig.audio.decode import open_audio
from anyrig.speech.word_times import WrittenWord
from benchmarks.harness import Row, percentile
from benchmarks.voice_samples import TEXTS

NUMBERS = (
    "Dr. Lee paid $3.50 for tea on July 4, 2024. In 1984 2,500 people lived here. It was 5:30."
)


def run(hardware: str) -> list[Row]:
    errors: list[float] = []
    with Rig() as rig:
        for text in (*TEXTS, NUMBERS):
            with rig.speak(text) as speech:
                exact = speech.words
                speech.takes = [TimedTake(one.segment, one.start, one.end) for one in speech.takes]
                del speech.word_times
                errors += _compare(exact, speech.words)
        rows = [
            Row("aligned starts of words, median error", 1000 * statistics.median(errors), "ms",
                high=100, spread=f"{len(errors)} words"),
            Row("aligned starts of words, 95th percentile", 1000 * percentile(errors, 0.95), "ms",
                high=300, spread=f"{len(errors)} words"),
        ]  # fmt: skip
        with rig.speak(TEXTS[0]) as speech:
            rows += [
                Row(f"{name}: heard later than written", 1000 * _find_delay(speech, name), "ms",
                    low=-60, high=60)
                for name in ("wav", "flac", "mp3", "opus", "m4a", "aac")
            ]  # fmt: skip
    return rows


def _compare(exact: tuple[WrittenWord, ...], aligned: tuple[WrittenWord, ...]) -> list[float]:
    starts = {word.span: word.start_s for word in aligned}
    return [abs(word.start_s - starts[word.span]) for word in exact if word.span in starts]


def _find_delay(speech: Speech, name: str) -> float:
    """In seconds, by correlation of what was encoded with what is decoded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"speech.{name}"
        speech.save(path)
        with open_audio(path) as file:
            decoded = np.concatenate(list(file.read()))
            rate = file.rate
    at = np.arange(len(speech.read())) / speech.sample_rate
    there = np.arange(len(decoded)) / rate
    decoded = np.interp(at, there, decoded)
    size = 1 << (len(at) * 2).bit_length()
    product = np.fft.rfft(decoded, size) * np.conj(np.fft.rfft(speech.read(), size))
    shift = int(np.fft.irfft(product, size).argmax())
    return (shift if shift < size // 2 else shift - size) / speech.sample_rate
