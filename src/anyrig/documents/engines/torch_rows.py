"""What every encoder in torch does: a model of a folder on its device, and again in fp32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from anyrig.documents.engines.rows import RowEncoder

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from anyrig.placement import Placement

Model = TypeVar("Model")


class TorchRows(RowEncoder, Generic[Model]):
    """Bundles of token rows to as many vectors. `load` and `through` must be given."""

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        pooling: str = "mean",
        normalise: bool = True,
        dense: str = "",
        deterministic: bool = False,
    ) -> None:
        """Load the model of a folder.

        Args:
            placement: where it runs, and in which numbers.
            folder: of the model.
            pooling: of the states of a row.
            normalise: whether vectors are made of length one.
            dense: the folder of a layer behind the pooling.
            deterministic: whether the company of a row must not matter, to the last bit.
        """
        from anyrig.backends import open_device
        from anyrig.backends.torch import TorchHandle

        self.handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(self.handle, TorchHandle)
        self.finish(dense=dense, normalise=normalise)
        self.folder, self.pooling = folder, pooling
        self.batch_invariant = deterministic
        self.device: torch.device = self.handle.device
        self._precision = placement.precision
        self._model = self._loaded(placement.precision)
        self._careful: Model | None = None

    def load(self, kind: torch.dtype) -> Model:
        """The model of the folder, on the device, in numbers of a kind."""
        raise NotImplementedError

    def through(self, model: Model, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row."""
        raise NotImplementedError

    def vectors(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row."""
        return self.through(self._model, rows)

    def carefully(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32] | None:
        """The same in full precision."""
        if self._precision == "fp32":
            return None
        if self._careful is None:
            self._careful = self._loaded("fp32")
        return self.through(self._careful, rows)

    def _loaded(self, precision: str) -> Model:
        import torch

        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        return self.load(kinds.get(precision, torch.float32))
