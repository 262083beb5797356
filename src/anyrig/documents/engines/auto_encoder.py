"""Encoders of any family that transformers knows, through its own classes; rows are padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anyrig.documents.engines.onnx_encoder import pooled
from anyrig.documents.engines.rows import batches, padded
from anyrig.documents.engines.torch_rows import TorchRows
from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.install import format_install
from anyrig.memory.oom import detect_oom

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from anyrig.placement import Placement

_BUDGET, _GPU_BUDGET = 1024, 16_384


class AutoEncoder(TorchRows[Any]):
    """Bundles of token rows to as many vectors."""

    name = "transformers encoder"
    version = "1"

    def __init__(self, placement: Placement, **options: Any) -> None:
        """Load the model of a folder; the options are those of every encoder in torch."""
        super().__init__(placement, **options)
        self._budget = _BUDGET if placement.device.kind == "cpu" else _GPU_BUDGET

    def load(self, kind: torch.dtype) -> Any:
        """What transformers makes of the folder; code that may lie in it is not run."""
        try:
            from transformers import AutoModel
        except ImportError as error:
            raise MissingPackageError(
                "models of this family need transformers", hint=format_install("anyrig[torch]")
            ) from error
        try:
            made, report = AutoModel.from_pretrained(
                self.folder, dtype=kind, local_files_only=True, output_loading_info=True
            )
        except Exception as error:
            if detect_oom(error) is not None:
                raise
            # Damaged files and code of their own: transformers raises whatever its parts raise.
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InvalidInputError(
                f"transformers cannot load {self.folder}: {reason}",
                hint="Its files are damaged or incomplete, or its model brings its own code, which"
                " is not run here.",
            ) from error
        # What is missing would be random numbers; a pooler is not used here.
        missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
        if missing:
            raise InvalidInputError(
                f"the weights in {self.folder} lack {missing[0]}",
                hint="They belong to another model than its config, or are damaged.",
            )
        return made.to(self.device).eval()

    def through(self, model: Any, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Rows of like length together."""
        import torch

        found: NDArray[np.float32] | None = None
        budget = 1 if self.batch_invariant else self._budget
        pad = int(getattr(model.config, "pad_token_id", 0) or 0)
        for length, members in batches(rows, budget):
            tokens = padded(rows, members, length, pad)
            lengths = np.array([len(rows[n]) for n in members], np.int64)
            mask = (np.arange(length) < lengths[:, None]).astype(np.int64)
            with torch.inference_mode():
                states = model(
                    input_ids=torch.from_numpy(tokens).to(self.device),
                    attention_mask=torch.from_numpy(mask).to(self.device),
                ).last_hidden_state
            made = pooled(states.float().cpu().numpy(), lengths, self.pooling)
            if found is None:
                found = np.empty((len(rows), made.shape[1]), np.float32)
            found[members] = made
        assert found is not None
        return found
