"""Rows of frames packed one behind the other into lanes of one length, with short gaps.

A vocoder only hears a few frames to each side, so rows need not be padded to the longest: they
share a lane, and the steps beside a row are zeroed before every convolution, which is what a row
hears beside itself when it is alone. Each then comes out as it would alone, to its last sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from anyrig.speech.models.convolve import Silence, spans, to_device

# Lanes come in few lengths: each new one makes the device's libraries look for kernels anew.
_ROUND = 256


class Place(NamedTuple):
    """Where a row lies."""

    row: int
    lane: int
    start: int
    """Its first frame."""


class Lanes(NamedTuple):
    """Rows in lanes."""

    places: tuple[Place, ...]
    num_lanes: int
    length: int
    """Of every lane, in frames."""

    def flat(self, frames: Sequence[int]) -> NDArray[np.int64]:
        """The places of all frames of all rows, in the order of `places`, lanes end to end."""
        starts = [place.lane * self.length + place.start for place in self.places]
        lengths = [frames[place.row] for place in self.places]
        return spans(
            starts, [start + length for start, length in zip(starts, lengths, strict=False)]
        )

    def silence(
        self, frames: Sequence[int], rate: int, reach: int, device: torch.device
    ) -> Silence:
        """What to zero at `rate` steps a frame, for convolutions that hear `reach` steps away."""
        size = self.length * rate
        starts, ends = [], []
        for place in self.places:
            base, first = place.lane * size, place.start * rate
            last = first + frames[place.row] * rate
            starts += [base + max(0, first - reach), base + last]
            ends += [base + first, base + min(size, last + reach)]
        positions = np.unique(spans(starts, ends))
        return Silence(to_device(positions, device) if len(positions) else None)


def pack(frames: Sequence[int], gap: int, most: int) -> list[Lanes]:
    """Blocks of lanes that hold all rows, each of at most `most` frames unless a row is longer.

    Args:
        frames: how many each row has.
        gap: between rows of a lane.
        most: of a block, gaps and all.
    """
    order = sorted(range(len(frames)), key=lambda row: -frames[row])
    blocks = []
    while order:
        length = _lane_length(frames[order[0]], sum(frames[row] + gap for row in order) - gap, most)
        lanes = max(1, most // length)
        block, order = _filled(order, frames, gap, length, lanes)
        blocks.append(block)
    return blocks


def _lane_length(longest: int, total: int, most: int) -> int:
    """As long as the longest row, or twice that, so that little is left over at its end."""
    length = min(total, max(longest, min(2 * longest, most)))
    return -(-length // _ROUND) * _ROUND if length > _ROUND else length


def _filled(
    order: Sequence[int], frames: Sequence[int], gap: int, length: int, lanes: int
) -> tuple[Lanes, list[int]]:
    """A block of the rows that fit, longest first, and the rows that are left."""
    free: list[int] = []
    places, left = [], []
    for row in order:
        need = frames[row]
        lane = next((number for number, room in enumerate(free) if room >= need), None)
        if lane is None and len(free) < lanes:
            lane = len(free)
            free.append(length)
        if lane is None:
            left.append(row)
            continue
        places.append(Place(row, lane, length - free[lane]))
        free[lane] -= need + gap
    return Lanes(tuple(places), len(free), length), left
