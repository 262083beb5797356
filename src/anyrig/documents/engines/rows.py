"""What every encoder does around its model: bundles opened, rows sorted, vectors mended and packed.

A model takes rows of tokens and gives a vector for each. One that is not finite is asked for again
in full precision, and if it still is not, that is an error: it is never given out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.bundle import opened
from anyrig.errors import DeviceError
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from numpy.typing import NDArray


SPARE = 1.04
"""Padded over real tokens of a batch: rather a smaller batch than more of nothing."""


class RowEncoder(BaseEngine):
    """Bundles of token rows to as many vectors, as bytes of float32. `vectors` must be given."""

    pads = False

    def finish(self, *, dense: str, normalise: bool) -> None:
        """What is done with a vector when the model has given it."""
        self._normalise = normalise
        self._dense = Dense(Path(dense)) if dense else None

    def vectors(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row, as the model gives it."""
        raise NotImplementedError

    def carefully(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32] | None:
        """The same in full precision; None where that is what `vectors` does."""
        return None

    def run(self, batch: Sequence[bytes]) -> list[bytes]:
        """The vectors of each bundle."""
        parts = [opened(one) for one in batch]
        rows = [row for counts, tokens in parts for row in np.split(tokens, np.cumsum(counts)[:-1])]
        found = self._finite(self.vectors(rows), rows)
        found = self._finished(found)
        edges = np.cumsum([len(counts) for counts, _ in parts])[:-1]
        wide = np.ascontiguousarray(found, np.float32)
        return [part.tobytes() for part in np.split(wide, edges)]

    def _finished(self, found: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._dense is not None and self.batch_invariant:
            # A product of many rows sums in another order than one of a single row.
            found = np.concatenate([self._dense(row[None]) for row in found])
        elif self._dense is not None:
            found = self._dense(found)
        if self._normalise:
            sizes = np.linalg.norm(found.astype(np.float64), axis=1, keepdims=True)
            found = (found / np.maximum(sizes, 1e-12)).astype(np.float32)
        if not np.isfinite(found).all():
            raise _not_finite()
        return found

    def _finite(
        self, found: NDArray[np.float32], rows: Sequence[NDArray[np.int32]]
    ) -> NDArray[np.float32]:
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1)).tolist()
        if not bad:
            return found
        again = self.carefully([rows[n] for n in bad])
        if again is None or not np.isfinite(again).all():
            raise _not_finite()
        mended = np.array(found)
        mended[bad] = again
        return mended


def _not_finite() -> DeviceError:
    return DeviceError(
        "the model gives no finite vector for a text", hint="Its weights may be damaged."
    )


class Dense:
    """A layer that sentence-transformers puts behind the pooling: LaBSE has one."""

    def __init__(self, folder: Path) -> None:
        import json

        from anyrig.documents.models.arrays import tensors
        from anyrig.errors import InvalidInputError, MissingWeightsError

        file, told = folder / "model.safetensors", {}
        with suppress(OSError, ValueError):
            told = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = str(told.get("activation_function", "")).rpartition(".")[2]
        if kind not in ("Tanh", "Identity", ""):
            raise InvalidInputError(
                f"a Dense layer with {kind}", hint="Tanh and Identity are supported."
            )
        found = tensors(file)
        weight = found.get("linear.weight")
        if weight is None or weight.ndim != 2:
            raise MissingWeightsError(
                f"{file} has no weights of a Dense layer", hint="Download it again: it is damaged."
            )
        self._weight = weight
        self._bias = found.get("linear.bias", np.zeros(len(weight), np.float32))
        self._tanh = kind == "Tanh"

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vectors behind it."""
        made = vectors @ self._weight.T + self._bias
        return np.tanh(made) if self._tanh else made


def batches(
    rows: Sequence[NDArray[np.int32]], budget: int, *, step: int = 1, most: int = 0
) -> list[tuple[int, list[int]]]:
    """Rows of like length together: the length they are padded to, and their numbers.

    Args:
        rows: of tokens.
        budget: the most tokens of a batch, padding included; a longer row has one of its own.
        step: lengths are rounded up to a multiple of it, and only equal ones are put together
            where it is more than 1.
        most: tokens that the model has positions for, 0 where that is not known: none is padded
            beyond it.
    """
    lengths = [-(-max(1, len(row)) // step) * step for row in rows]
    if most:
        lengths = [max(len(row), min(size, most)) for row, size in zip(rows, lengths, strict=True)]
    found: list[tuple[int, list[int]]] = []
    real = 0
    for number in sorted(range(len(rows)), key=lengths.__getitem__):
        length = lengths[number]
        if found:
            size, members = found[-1]
            whole = (len(members) + 1) * length
            near = size == length if step > 1 else whole <= SPARE * (real + length)
            if near and whole <= budget:
                members.append(number)
                found[-1] = (length, members)
                real += length
                continue
        found.append((length, [number]))
        real = length
    return found


def padded(
    rows: Sequence[NDArray[np.int32]], members: Sequence[int], length: int, pad: int = 0
) -> NDArray[np.int64]:
    """Some rows as one matrix."""
    made = np.full((len(members), length), pad, np.int64)
    for place, number in enumerate(members):
        made[place, : len(rows[number])] = rows[number]
    return made
