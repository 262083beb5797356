"""Encoders in torch, without padding: vectors of token rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.engines.rows import RowEncoder

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from anyrig.documents.models.encoder import Encoder, Pooling
    from anyrig.placement import Placement

_FIRST_TOKENS = 16_384.0


class TorchEncoder(RowEncoder):
    """Bundles of token rows to as many vectors."""

    name = "encoder"
    version = "1"

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        pooling: Pooling = "mean",
        normalise: bool = True,
        dense: str = "",
        deterministic: bool = False,
    ) -> None:
        """Load the encoder of a folder."""
        from anyrig.backends import attach
        from anyrig.backends.torch import TorchBound

        self.bound = attach(placement.device, placement.drive, threads=placement.threads)
        assert isinstance(self.bound, TorchBound)
        self.finish(dense=dense, normalise=normalise)
        self._folder, self._pooling, self._precision = Path(folder), pooling, placement.precision
        self._alone = deterministic
        self.batch_invariant = deterministic
        self._device: torch.device = self.bound.device
        self._encoder = self._load(placement.precision)
        self._careful: Encoder | None = None
        if placement.device.kind == "gpu":
            self.first_cost = _FIRST_TOKENS

    def _load(self, precision: str) -> Encoder:
        import torch

        from anyrig.documents.models.encoder import load

        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        return load(self._folder, self._device, kinds.get(precision, torch.float32))

    def vectors(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row; each by itself where its company must not matter."""
        if self._alone:
            return np.concatenate([self._through(self._encoder, [row]) for row in rows])
        return self._through(self._encoder, rows)

    def carefully(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32] | None:
        """The same in full precision."""
        if self._precision == "fp32":
            return None
        if self._careful is None:
            self._careful = self._load("fp32")
        return self._through(self._careful, rows)

    def _through(self, encoder: Encoder, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        lengths = np.array([len(row) for row in rows], np.int32)
        made: NDArray[np.float32] = (
            encoder.embed(np.concatenate(rows), lengths, self._pooling).cpu().numpy()
        )
        return made
