"""Encoders through ONNX Runtime: on the CPU, and on any brand of GPU.

The graph is written from the model's weights (`models/graph`), or is the folder's own ONNX file.
Batches are small: on a CPU a batch of 512 tokens is as fast as any and stays in its caches.

Deterministic: every row is padded to a multiple of 64 and only rows of one length go together, so
a product's shape per text, and with it the order of its sums, is the same in any company.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anyrig.documents.engines.rows import RowEncoder, batches, padded
from anyrig.errors import InvalidInputError, MissingWeightsError
from anyrig.memory.oom import detect_oom

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.backends.onnx import OnnxHandle
    from anyrig.backends.onnx import OnnxModel as Loaded
    from anyrig.backends.onnx_graph import BuiltModel
    from anyrig.placement import Placement

_BUDGET, _GPU_BUDGET = 512, 8192
_STEP = 64
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_STATES = ("last_hidden_state", "token_embeddings", "hidden_states")
_POOLED = ("sentence_embedding", "sentence_embeddings", "pooled")


class OnnxEncoder(RowEncoder):
    """Bundles of token rows to as many vectors."""

    name = "onnx encoder"
    version = "1"

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        pooling: str = "mean",
        normalise: bool = True,
        dense: str = "",
        written: bool = True,
        deterministic: bool = False,
        longest: int = 0,
    ) -> None:
        """Load the encoder of a folder, or an ONNX file; `longest` is what no text is over."""
        from anyrig.backends import open_device
        from anyrig.backends.onnx import OnnxHandle

        handle = open_device(placement.device, placement.backend, threads=placement.threads)
        assert isinstance(handle, OnnxHandle)
        self.handle = handle
        self.finish(dense=dense, normalise=normalise)
        self._step, self._most = _STEP if deterministic else 1, longest
        self.batch_invariant = deterministic
        self._budget = _BUDGET if handle.on_host else _GPU_BUDGET
        self._model = _load(handle, folder, pooling, written)
        self._foreign = None if written else _Foreign(self._model, pooling, folder)
        self._real = self._padded = 0

    @property
    def padding(self) -> float:
        """Padded over real tokens so far; 1.0 is none."""
        return self._padded / self._real if self._real else 1.0

    def vectors(self, rows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """A vector for each row."""
        found: NDArray[np.float32] | None = None
        for length, members in batches(rows, self._budget, step=self._step, most=self._most):
            tokens = padded(rows, members, length)
            lengths = np.array([len(rows[n]) for n in members], np.int64)
            self._real += int(lengths.sum())
            self._padded += tokens.size
            made = self._run(tokens, lengths)
            if found is None:
                found = np.empty((len(rows), made.shape[1]), np.float32)
            found[members] = made
        assert found is not None
        return found

    def _run(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        if self._foreign is not None:
            return self._foreign.run(tokens, lengths)
        made: NDArray[np.float32] = self._model.run({"tokens": tokens, "lengths": lengths})[0]
        return made


def _load(handle: OnnxHandle, folder: str, pooling: str, written: bool) -> Loaded:
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    try:
        return handle.load(_written(Path(folder), pooling) if written else folder)
    except Fail as error:
        if not handle.on_host or detect_oom(error) is not None:
            raise
        raise MissingWeightsError(
            f"{folder} cannot be loaded: {str(error)[:300]}",
            hint="Download it again: it is damaged or incomplete.",
        ) from error


def _written(folder: Path, pooling: str) -> BuiltModel:
    from anyrig.documents.models.arrays import read
    from anyrig.documents.models.graph import write

    return write(*read(folder), pooling)


class _Foreign:
    """An ONNX file as others export it: which inputs it wants, and what its outputs are."""

    def __init__(self, model: Loaded, pooling: str, file: str) -> None:
        self._model, self._pooling = model, pooling
        self._inputs = [one.name for one in model.session.get_inputs()]
        strange = [name for name in self._inputs if name not in _INPUTS]
        if strange:
            raise InvalidInputError(
                f"{file} wants an input {strange[0]!r}", hint="It is not a text encoder."
            )
        names = [one.name for one in model.session.get_outputs()]
        self._place, self._is_pooled = _output(names)

    def run(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        """A vector for each row."""
        mask = (np.arange(tokens.shape[1]) < lengths[:, None]).astype(np.int64)
        known = {
            "input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens),
            "position_ids": np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape),
        }  # fmt: skip
        out = self._model.run({name: known[name] for name in self._inputs})[self._place]
        wide: NDArray[np.float32] = np.asarray(out, np.float32)
        return wide if self._is_pooled or wide.ndim == 2 else pooled(wide, lengths, self._pooling)


def _output(names: Sequence[str]) -> tuple[int, bool]:
    for wanted, is_pooled in ((_STATES, False), (_POOLED, True)):
        for name in wanted:
            if name in names:
                return list(names).index(name), is_pooled
    return 0, False


def pooled(
    states: NDArray[np.float32], lengths: NDArray[np.int64], pooling: str
) -> NDArray[np.float32]:
    """Padded states, [texts, places, size], to a vector for each text."""
    real = (np.arange(states.shape[1]) < lengths[:, None])[:, :, None]
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        return states[np.arange(len(states)), lengths - 1]
    if pooling == "max":
        top: NDArray[np.float32] = np.where(real, states, -np.inf).max(axis=1)
        return top
    total: NDArray[np.float32] = np.where(real, states, 0).sum(axis=1)
    by = lengths if pooling == "mean" else np.sqrt(lengths)
    return total / by.astype(np.float32)[:, None]
