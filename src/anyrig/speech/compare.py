"""Whether two takes of one line are the same reading, made on two machines.

An engine that always says a line in one way differs between processors by rounding alone: by a
sample or two in length, and far under what can be heard. Some networks turn the phase of a wave
with the last bits; then loudness by pitch and time decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anyrig.audio.samples import Samples
from anyrig.speech.engine import Take

_LENGTH, _LENGTH_S = 0.02, 0.05
"""How far lengths may be apart: a share, and seconds for short ones."""
_ALIKE = 0.95
"""Waves whose correlation is above this are the same."""
_BLOCK_S, _LAG_S = 0.256, 0.025
"""Compared piece by piece, as one wrong word is lost in a mean of many; a piece may come so much
earlier or later, as lengths of sounds are rounded."""
_NOTHING = 1e-4
"""The norm of a piece that is silent."""
_FRAME_S, _BANDS = 0.032, 20
_FLOOR_DB = -50.0  # of the loudest: nothing under it is compared
_LEVEL_DB, _MOST_DB = 6.0, 4.5
"""Differences of loudness that still count as the same: of a block, and by its bands and frames."""


def difference(one: Take, other: Take) -> str:
    """How two takes of a line differ, for a person; empty where they do not."""
    if one.rate != other.rate:
        return f"{other.rate} Hz instead of {one.rate}"
    mine, theirs = len(one.samples) / one.rate, len(other.samples) / other.rate
    if abs(mine - theirs) > max(_LENGTH_S, _LENGTH * mine):
        return f"{theirs:.2f} s instead of {mine:.2f} s"
    size = min(len(one.samples), len(other.samples))
    if not size:
        return ""
    first, second = _loudness_db(one.samples, one.rate), _loudness_db(other.samples, one.rate)
    floor = max(float(first.max()), float(second.max())) + _FLOOR_DB
    step = max(1, round(_BLOCK_S * one.rate))
    for start in range(0, size, step):
        if _is_same_wave(one.samples[start : start + step], other.samples, start, one.rate):
            continue
        frames = slice(_frame_of(start, one.rate), _frame_of(start + step, one.rate))
        apart = _apart_db(first[frames], second[frames], floor)
        if apart > _MOST_DB:
            return f"{apart:.0f} dB apart at {start / one.rate:.1f} s"
    return ""


def _frame_of(sample: int, rate: int) -> int:
    return sample // max(64, round(_FRAME_S * rate))


def _is_same_wave(piece: Samples, other: Samples, start: int, rate: int) -> bool:
    """Whether a piece of one take is found in the other, at about the same place."""
    lag = round(_LAG_S * rate)
    first = max(0, start - lag)
    there = other[first : start + len(piece) + lag].astype(np.float64)
    mine = float(np.linalg.norm(piece))
    if len(there) < len(piece):
        there = np.pad(there, (0, len(piece) - len(there)))
    sums = np.concatenate([[0.0], np.cumsum(there**2)])
    theirs = np.sqrt(np.maximum(sums[len(piece) :] - sums[: len(sums) - len(piece)], 0.0))
    if mine < _NOTHING:
        return bool(theirs.min() < _NOTHING)
    size = 1 << (len(there) + len(piece)).bit_length()
    spectrum = np.fft.rfft(there, size) * np.conj(np.fft.rfft(piece, size))
    products = np.fft.irfft(spectrum, size)[: len(theirs)]
    best = int(np.argmax(products / (theirs + _NOTHING)))
    if theirs[best] < _NOTHING or products[best] < _ALIKE * mine * theirs[best]:
        return False
    return abs(20.0 * float(np.log10(mine / theirs[best]))) <= _LEVEL_DB


def _apart_db(first: NDArray[np.float64], second: NDArray[np.float64], floor: float) -> float:
    """The mean difference of loudness by band and frame, where either can be heard."""
    count = min(len(first), len(second))
    one, other = np.maximum(first[:count], floor), np.maximum(second[:count], floor)
    heard = (one > floor) | (other > floor)
    return float(np.abs(one - other)[heard].mean()) if heard.any() else 0.0


def _loudness_db(samples: Samples, rate: int) -> NDArray[np.float64]:
    size = max(64, round(_FRAME_S * rate))
    count = max(1, -(-len(samples) // size))
    framed = np.zeros(count * size)
    framed[: len(samples)] = samples
    power = np.abs(np.fft.rfft(framed.reshape(count, size) * np.hanning(size), axis=1)) ** 2
    edges = np.unique(np.geomspace(2, power.shape[1], _BANDS + 1).astype(int))
    bands = np.add.reduceat(power, edges[:-1], axis=1)
    loud: NDArray[np.float64] = 10.0 * np.log10(bands + 1e-12)
    return loud
