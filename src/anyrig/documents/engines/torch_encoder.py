"""Encoders in torch, without padding: vectors of token rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import DeviceError
from anyrig.work.engine import Usual

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from anyrig.documents.models.encoder import Encoder, Pooling
    from anyrig.placement import Placement

_FIRST_TOKENS = 16_384.0


class TorchEncoder(Usual):
    """Bundles of token rows to as many vectors, as bytes of float32."""

    name = "encoder"
    version = "1"
    pads = False

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        pooling: Pooling = "mean",
        normalise: bool = True,
    ) -> None:
        """Load the encoder of a folder."""
        from anyrig.backends import attach
        from anyrig.backends.torch import TorchBound

        self.bound = attach(placement.device, placement.drive, threads=placement.threads)
        assert isinstance(self.bound, TorchBound)
        self._folder, self._pooling, self._normalise = Path(folder), pooling, normalise
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

    def run(self, batch: Sequence[bytes]) -> list[bytes]:
        """The vectors of each bundle."""
        import numpy as np

        from anyrig.documents.bundle import opened

        parts = [opened(one) for one in batch]
        lengths = np.concatenate([counts for counts, _ in parts])
        tokens = np.concatenate([row for _, row in parts])
        vectors = self._encoder.embed(tokens, lengths, self._pooling)
        if not bool(vectors.isfinite().all()):
            vectors = self._mended(vectors, tokens, lengths)
        found = self._finished(vectors).cpu().numpy()
        edges = np.cumsum([len(counts) for counts, _ in parts])[:-1]
        return [part.tobytes() for part in np.split(found, edges)]

    def _finished(self, vectors: Tensor) -> Tensor:
        import torch.nn.functional as F

        return F.normalize(vectors, dim=-1) if self._normalise else vectors

    def _mended(
        self, vectors: Tensor, tokens: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> Tensor:
        """Vectors that are not finite, made again in full precision."""
        import numpy as np

        bad = (~vectors.isfinite().all(dim=1)).nonzero().flatten().cpu().numpy()
        if self._careful is None:
            self._careful = self._load("fp32")
        rows = np.split(tokens, np.cumsum(lengths)[:-1])
        again = self._careful.embed(
            np.concatenate([rows[n] for n in bad]), lengths[bad], self._pooling
        )
        if not bool(again.isfinite().all()):
            raise DeviceError(
                "the model gives no finite vector for a text", hint="Its weights may be damaged."
            )
        vectors[bad.tolist()] = again
        return vectors
