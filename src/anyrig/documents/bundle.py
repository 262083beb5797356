"""Rows of tokens, or texts, on their way to a worker and vectors back, many in one parcel.

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
_PER_TOKEN = 4
"""Bytes of a token, and about as many letters of a text."""


class Bundle(NamedTuple):
    """Some rows of a chunk."""

    rows: list[int]
    """Their numbers in the chunk."""
    data: bytes
    num_tokens: int


def cost(data: bytes) -> float:
    """What a bundle costs, in tokens."""
    return len(data) / _PER_TOKEN


def bundles(windows: Sequence[NDArray[np.int32]]) -> Iterator[Bundle]:
    """Rows sorted by length, some in each; every row in one."""
    for rows, count in _together([len(window) for window in windows]):
        head = np.array([len(rows), *(len(windows[n]) for n in rows)], dtype=np.int32)
        yield Bundle(rows, np.concatenate([head, *(windows[n] for n in rows)]).tobytes(), count)


def text_bundles(texts: Sequence[str]) -> Iterator[Bundle]:
    """Texts sorted by length, some in each; every text in one."""
    for rows, count in _together([len(text) // _PER_TOKEN + 1 for text in texts]):
        parts = [texts[n].encode("utf-8", "replace") for n in rows]
        head = np.array([len(rows), *map(len, parts)], dtype=np.int32)
        yield Bundle(rows, head.tobytes() + b"".join(parts), count)


def _together(lengths: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Numbers of rows that travel together, and their tokens."""
    rows: list[int] = []
    count = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if rows and (count + lengths[number] > TOKENS or len(rows) >= ROWS):
            yield rows, count
            rows, count = [], 0
        rows.append(number)
        count += lengths[number]
    if rows:
        yield rows, count


def opened(data: bytes) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The lengths of a bundle's rows, and their tokens one after the other."""
    whole = np.frombuffer(data, dtype=np.int32)
    count = int(whole[0])
    return whole[1 : count + 1], whole[count + 1 :]


def texts_of(data: bytes) -> list[str]:
    """The texts of a bundle."""
    count = int.from_bytes(data[:4], "little")
    sizes = np.frombuffer(data, dtype=np.int32, count=count, offset=4)
    ends = np.cumsum(sizes) + 4 * (count + 1)
    return [data[e - s : e].decode() for s, e in zip(sizes.tolist(), ends.tolist(), strict=True)]
