"""Encoders of any family that transformers knows, through its own classes; rows are padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anyrig.documents.engines.onnx_encoder import pooled
from anyrig.documents.engines.rows import RowEncoder, batches, padded
from anyrig.errors import BadInput, MissingPackage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.placement import Placement

_BUDGET, _GPU_BUDGET = 1024, 16_384


class AutoEncoder(RowEncoder):
    """Bundles of token rows to as many vectors."""

    name = "transformers encoder"
    version = "1"

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
        """Load the model of a folder; code that may lie in the folder is not run."""
        from anyrig.backends import attach
        from anyrig.backends.torch import TorchBound

        self.bound = attach(placement.device, placement.drive, threads=placement.threads)
        assert isinstance(self.bound, TorchBound)
        self.finish(dense=dense, normalise=normalise)
        self._folder, self._pooling, self._deterministic = folder, pooling, deterministic
        self.batch_invariant = deterministic
        self._device = self.bound.device
        self._model = self._load(placement.precision)
        self._careful: Any = None
        self._precision = placement.precision
        self._budget = _BUDGET if placement.device.kind == "cpu" else _GPU_BUDGET

    def _load(self, precision: str) -> Any:
        import torch

        try:
            from transformers import AutoModel
        except ImportError as error:
            raise MissingPackage(
                "models of this family need transformers", hint="pip install 'anyrig[torch]'"
            ) from error
        kinds = {"fp16": torch.float16, "bf16": torch.bfloat16}
        try:
            made = AutoModel.from_pretrained(
                self._folder, dtype=kinds.get(precision, torch.float32), local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise BadInput(
                f"transformers cannot load {self._folder}: {str(error).splitlines()[0]}",
                hint="A folder whose model brings its own code is not run here.",
            ) from error
        return made.to(self._device).eval()

    def vectors(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row."""
        return self._through(self._model, rows)

    def carefully(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32] | None:
        """The same in full precision."""
        if self._precision == "fp32":
            return None
        if self._careful is None:
            self._careful = self._load("fp32")
        return self._through(self._careful, rows)

    def _through(self, model: Any, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        import torch

        found: NDArray[np.float32] | None = None
        budget = 1 if self._deterministic else self._budget
        pad = int(getattr(model.config, "pad_token_id", 0) or 0)
        for length, members in batches(rows, budget):
            tokens = padded(rows, members, length, pad)
            lengths = np.array([len(rows[n]) for n in members], np.int64)
            mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
            with torch.inference_mode():
                states = model(
                    input_ids=torch.from_numpy(tokens).to(self._device),
                    attention_mask=torch.from_numpy(mask).to(self._device),
                ).last_hidden_state
            made = pooled(states.float().cpu().numpy(), lengths, self._pooling)
            if found is None:
                found = np.empty((len(rows), made.shape[1]), np.float32)
            found[members] = made
        assert found is not None
        return found
