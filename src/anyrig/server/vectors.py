"""Vectors on their way out: cut to fewer numbers, written as numbers or as base64.

A vector of 384 numbers takes `json.dumps` 315 microseconds and 8.4 kB, its numbers with the nine
digits that fp32 has 105 and 5.2 kB, base64 2 and 2 kB.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from json import dumps
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

Encoding = Literal["float", "base64"]


def shortened(vector: Vector, dimensions: int | None) -> Vector:
    """The first numbers of a vector, made as long as 1 again."""
    if dimensions is None or dimensions >= len(vector):
        return vector
    cut = vector[:dimensions].astype(np.float64)
    size = float(np.linalg.norm(cut))
    return (cut / size if size else cut).astype(np.float32)


def written(vectors: Sequence[Vector], *, encoding: Encoding, model: str, num_tokens: int) -> bytes:
    """The whole answer, as OpenAI's interface has it."""
    write = _base64 if encoding == "base64" else _numbers
    rows = b",".join(
        b'{"object":"embedding","index":%d,"embedding":%b}' % (number, write(vector))
        for number, vector in enumerate(vectors)
    )
    tail = dumps({"prompt_tokens": num_tokens, "total_tokens": num_tokens}).encode()
    return b'{"object":"list","data":[%b],"model":%b,"usage":%b}' % (
        rows, dumps(model).encode(), tail,
    )  # fmt: skip


def _base64(vector: Vector) -> bytes:
    return b'"%b"' % base64.b64encode(vector.astype("<f4", copy=False).tobytes())


def _numbers(vector: Vector) -> bytes:
    return (_pattern(len(vector)) % tuple(vector.tolist())).encode()


@lru_cache(maxsize=64)
def _pattern(count: int) -> str:
    return "[" + ",".join(["%.9g"] * count) + "]"
