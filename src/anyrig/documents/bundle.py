"""Rows of tokens on their way to a worker and vectors on their way back, many in one parcel.

A short text costs a device a few microseconds and a queue more than that, so texts of like length
travel together. A bundle is small beside a batch: packing and splitting stay as fine as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TOKENS, ROWS = 2048, 64
"""The most of a bundle, unless one row is longer."""


class Bundle(NamedTuple):
    """Some rows of a chunk."""

    rows: list[int]
    """Their numbers in the chunk."""
    data: bytes
    num_tokens: int


def bundles(windows: Sequence[NDArray[np.int32]]) -> Iterator[Bundle]:
    """Rows sorted by length, some in each; every row in one."""
    lengths = [len(window) for window in windows]
    order = sorted(range(len(windows)), key=lengths.__getitem__)
    rows: list[int] = []
    count = 0
    for number in order:
        if rows and (count + lengths[number] > TOKENS or len(rows) >= ROWS):
            yield _bundle(rows, windows, count)
            rows, count = [], 0
        rows.append(number)
        count += lengths[number]
    if rows:
        yield _bundle(rows, windows, count)


def _bundle(rows: list[int], windows: Sequence[NDArray[np.int32]], count: int) -> Bundle:
    head = np.array([len(rows), *(len(windows[n]) for n in rows)], dtype=np.int32)
    return Bundle(rows, np.concatenate([head, *(windows[n] for n in rows)]).tobytes(), count)


def opened(data: bytes) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The lengths of a bundle's rows, and their tokens one after the other."""
    whole = np.frombuffer(data, dtype=np.int32)
    count = int(whole[0])
    return whole[1 : count + 1], whole[count + 1 :]
