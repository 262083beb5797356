"""Encoders in torch, without padding: vectors of token rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from anyrig.documents.engines.torch_rows import TorchRows

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from anyrig.documents.models.encoder import Encoder, Pooling
    from anyrig.placement import Placement

_FIRST_TOKENS = 16_384.0


class TorchEncoder(TorchRows["Encoder"]):
    """Bundles of token rows to as many vectors."""

    name = "encoder"
    version = "1"

    def __init__(self, placement: Placement, **options: Any) -> None:
        """Load the encoder of a folder; the options are those of every encoder in torch."""
        super().__init__(placement, **options)
        if placement.device.kind == "gpu":
            self.first_batch_cost = _FIRST_TOKENS

    def load(self, kind: torch.dtype) -> Encoder:
        """Our own encoder, with the weights of the folder."""
        from anyrig.documents.models.encoder import load

        return load(Path(self.folder), self.device, kind)

    def vectors(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row; each by itself where its company must not matter."""
        if self.batch_invariant:
            return np.concatenate([super(TorchEncoder, self).vectors([row]) for row in rows])
        return super().vectors(rows)

    def through(self, model: Encoder, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """All rows at once."""
        lengths = np.array([len(row) for row in rows], np.int32)
        pooling = cast("Pooling", self.pooling)
        made: NDArray[np.float32] = (
            model.embed(np.concatenate(rows), lengths, pooling).cpu().numpy()
        )
        return made
