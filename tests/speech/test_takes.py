"""Takes as bytes: nothing is lost that can be heard, and damage is told."""

from __future__ import annotations

import io
import json
import struct
import zlib

import numpy as np
import pytest
import soundfile

from anyrig.errors import StorageError
from anyrig.speech.engine import Take, WordTime
from anyrig.speech.takes import decode_take, encode_take
from tests.speech.takes import RATE, said, sine

WORDS = (WordTime("née", 0.1, 0.35), WordTime("Ωmega", 1 / 3, 2 / 3))


@pytest.mark.parametrize("small", [False, True])
def test_a_take_comes_back_within_a_step_of_16_bits(small: bool) -> None:
    take = Take(said("The tide was out.").samples, RATE, WORDS)
    back = decode_take(encode_take(take, flac=small))
    assert back.rate == RATE
    assert back.words == WORDS
    assert back.samples.dtype == np.float32
    # Half a step of 16 bits, under a scale no more than twice the peak.
    step = float(np.abs(take.samples).max()) * 2 / 32768
    assert float(np.abs(back.samples - take.samples).max()) <= step / 2 * 1.01


@pytest.mark.parametrize("peak", [0.0, 1e-4, 0.5, 1.0, 1.0 + 1e-7, 1.00002, 1.5, 2.0, 40.0])
@pytest.mark.parametrize("small", [False, True])
def test_packing_again_gives_the_same_bytes(peak: float, small: bool) -> None:
    once = encode_take(Take(sine(0.2, peak=peak), RATE, WORDS), flac=small)
    assert encode_take(decode_take(once), flac=small) == once
    # A single extreme sample too: rounding it is where a scale could change.
    lone = encode_take(Take(np.array([peak, -peak / 3, 0.0], dtype=np.float32), 16000), flac=small)
    assert encode_take(decode_take(lone), flac=small) == lone


def test_peaks_above_one_survive() -> None:
    back = decode_take(encode_take(Take(np.array([0.25, -1.7, 1.2], dtype=np.float32), RATE)))
    assert np.allclose(back.samples, [0.25, -1.7, 1.2], atol=1e-4)


def test_quiet_takes_keep_their_detail() -> None:
    quiet = sine(0.1, peak=0.002)
    back = decode_take(encode_take(Take(quiet, RATE)))
    assert float(np.abs(back.samples - quiet).max()) < 1e-6  # plain 16 bits would be 1.5e-5


def test_what_is_no_number_becomes_zero() -> None:
    broken = np.array([0.5, np.nan, np.inf, -np.inf, -0.5], dtype=np.float32)
    back = decode_take(encode_take(Take(broken, RATE)))
    assert np.allclose(back.samples, [0.5, 0.0, 0.0, 0.0, -0.5], atol=2e-5)


@pytest.mark.parametrize("small", [False, True])
def test_an_empty_take_is_a_take(small: bool) -> None:
    assert (
        len(decode_take(encode_take(Take(np.zeros(0, dtype=np.float32), RATE), flac=small)).samples)
        == 0
    )


@pytest.mark.parametrize("small", [False, True])
def test_every_damage_is_told(small: bool) -> None:
    packed = encode_take(Take(sine(0.05), RATE, WORDS), flac=small)
    for cut in (0, 3, 20, len(packed) // 2, len(packed) - 1):
        with pytest.raises(StorageError, match="damaged"):
            decode_take(packed[:cut])
    for at in range(len(packed)):
        flipped = bytearray(packed)
        flipped[at] ^= 0x40
        with pytest.raises(StorageError) as caught:
            decode_take(bytes(flipped))
        assert caught.value.hint


def test_a_newer_form_is_named() -> None:
    packed = bytearray(encode_take(Take(sine(0.01), RATE)))
    packed[4] = 9
    with pytest.raises(StorageError, match=r"version 9") as caught:
        decode_take(bytes(packed))
    assert "newer" in caught.value.hint


def craft(
    words: bytes = b"", sound: bytes = b"\0\0" * 8, *, exponent: int = 0, rate: int = RATE,
    count: int = 8, codec: int = 0,
) -> bytes:  # fmt: skip
    """A take with whatever is given and a checksum that is right."""
    header = struct.pack("<4sBBhIQI", b"ARTK", 1, codec, exponent, rate, count, len(words))
    check = zlib.crc32(words + sound, zlib.crc32(header))
    return header + struct.pack("<I", check) + words + sound


def flac(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="FLAC", subtype="PCM_16")
    return file.getvalue()


CRAFTED = {
    "exponent": craft(exponent=32_000),
    "negative exponent": craft(exponent=-32_000),
    "infinite scale": craft(exponent=1000),
    "nested words": craft(b"[" * 100_000),
    "words that are not JSON": craft(b"nonsense"),
    "words that are not UTF-8": craft(b'["\xff\xfe"]'),
    "a number in place of words": craft(b"7"),
    "a word of one part": craft(b'[["a"]]'),
    "a word of four parts": craft(b'[["a", 0, 1, 2]]'),
    "a word that is a number": craft(b"[[1, 0, 1]]"),
    "a time that is a text": craft(b'[["a", "0", 1]]'),
    "a time that is not finite": craft(b'[["a", 0, Infinity]]'),
    "a time without end": craft(b'[["a", 0, 1' + b"0" * 400 + b"]]"),
    "words as an object": craft(json.dumps({"text": 1}).encode()),
    "half a sample": craft(sound=b"\0" * 17),
    "fewer samples": craft(count=9),
    "more samples": craft(count=7),
    "more samples than exist": craft(count=1 << 60),
    "rate 0": craft(rate=0),
    "rate 1": craft(rate=1),
    "a rate of billions": craft(rate=(1 << 32) - 1),
    "FLAC that is none": craft(sound=b"fLaC" + b"\xff" * 60, codec=1),
    "stereo": craft(sound=flac(np.zeros((8, 2), dtype=np.int16)), codec=1),
    "long FLAC": craft(sound=flac(np.zeros(8, dtype=np.int16)), codec=1, count=1 << 50),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_what_somebody_crafted_is_damaged(name: str) -> None:
    with pytest.raises(StorageError, match="damaged"):
        decode_take(CRAFTED[name])


def test_what_is_crafted_well_is_a_take() -> None:
    assert len(decode_take(craft(b'[["a", 0, 1]]')).samples) == 8
