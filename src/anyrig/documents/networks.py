"""Networks that give a row of numbers for each window of tokens, or for each token: ONNX Runtime,
our packed encoder, transformers.

On a CPU batches are small: 512 tokens are as fast as any and stay in its caches. On a GPU in half
precision nothing is padded (`models/encoder`).

Deterministic with ONNX: every row is padded to a multiple of 64 and only rows of one length go
together, so that a product's shape per text, and with it the order of its sums, is the same in any
batch. With torch each window goes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from anyrig.documents.engine import iter_batches
from anyrig.errors import InvalidInputError, MissingPackageError, MissingWeightsError
from anyrig.install import format_install
from anyrig.memory.oom import detect_oom

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from anyrig.backends import DeviceHandle
    from anyrig.backends.onnx import OnnxHandle, OnnxModel
    from anyrig.backends.onnx_graph import BuiltModel
    from anyrig.backends.torch import TorchHandle
    from anyrig.documents.model import EmbeddingModel
    from anyrig.documents.models.encoder import PackedEncoder, Pooling
    from anyrig.placement import Placement

    Matrix = NDArray[np.float32]
    Tokens = NDArray[np.int32]

TransformersHead = Literal["embed", "sequence", "token"]
_PADDED_BUDGET, _GPU_PADDED_BUDGET = 512, 8192
_PACKED_BUDGET, _GPU_PACKED_BUDGET = 2048, 1 << 17
_TRANSFORMERS_BUDGET, _GPU_TRANSFORMERS_BUDGET = 1024, 16_384
_FIRST_TOKENS = 16_384.0
_SPARE = 1.04
_STEP = 64
_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_STATES = ("last_hidden_state", "token_embeddings", "hidden_states")
_POOLED = ("sentence_embedding", "sentence_embeddings", "pooled")


class Network(Protocol):
    """Gives a row for each window, or for each token."""

    @property
    def handle(self) -> DeviceHandle | None: ...

    budget: int
    """Tokens of a batch."""
    per_token: bool
    any_order: bool
    """Whether windows of any length go together as they are."""
    normalizes: bool
    """Whether rows have length 1."""
    batch_invariant: bool
    first_batch_cost: float

    def plan(self, lengths: NDArray[np.int32]) -> Iterable[NDArray[np.int64]]:
        """The windows of each batch."""

    def compute(self, tokens: Tokens, lengths: NDArray[np.int32]) -> Matrix:
        """The rows of one batch, whose tokens follow each other."""

    def in_full_precision(self) -> Network | None:
        """The same in fp32; None if that is what this one computes in."""


def open_encoder(placement: Placement, model: EmbeddingModel, deterministic: bool) -> Network:
    """The network of an embedding model."""
    if model.form == "onnx" or (model.form == "encoder" and placement.backend.library == "onnx"):
        return OnnxNetwork.open_encoder(placement, model, deterministic)
    if model.form == "encoder":
        return PackedNetwork(placement, model, deterministic)
    return TransformersNetwork(
        placement, model.folder, pooling=model.pooling, batch_invariant=deterministic
    )


def pad_windows(tokens: Tokens, lengths: NDArray[np.int32], size: int, pad: int = 0) -> Any:
    """Windows as one matrix, and where its tokens are real."""
    real = np.arange(size) < lengths[:, None]
    padded = np.full(real.shape, pad, np.int64)
    padded[real] = tokens
    return padded, real.astype(np.int64)


class OnnxNetwork:
    """Through ONNX Runtime: a graph that we build, or a file as others export it.

    Args:
        handle: the device.
        source: a graph of `models/graph`, or a file.
        pooling: of a file that gives the states of tokens; "" takes its first output as it is.
        per_token: whether the row of each token is kept as it is.
        longest: tokens that it has positions for, 0 if unknown: nothing is padded beyond.
        batch_invariant: whether a row is the same bytes in any batch.
        pad: the token that fills rows; None if there is none, and rows go one by one.
    """

    any_order = normalizes = False
    first_batch_cost = 0.0

    def __init__(
        self,
        handle: OnnxHandle,
        source: BuiltModel | Path,
        *,
        pooling: str = "",
        longest: int = 0,
        batch_invariant: bool = False,
        pad: int | None = 0,
        per_token: bool = False,
    ) -> None:
        self.handle, self.per_token = handle, per_token
        self.batch_invariant, self._longest = batch_invariant, longest
        self._step = _STEP if batch_invariant else 1
        self._pad = pad
        self.budget = _PADDED_BUDGET if handle.on_host else _GPU_PADDED_BUDGET
        self._model = _load_onnx(handle, source)
        self._pooling = pooling
        self._file = _OnnxFile(self._model, pooling, source) if isinstance(source, Path) else None
        self._num_real = self._num_padded = 0

    @classmethod
    def open_encoder(
        cls, placement: Placement, model: EmbeddingModel, deterministic: bool
    ) -> OnnxNetwork:
        handle = open_onnx(placement)
        source: BuiltModel | Path = model.folder
        if model.form == "encoder":
            from anyrig.documents.models.arrays import read_encoder
            from anyrig.documents.models.graph import build_graph

            source = build_graph(*read_encoder(model.folder), model.pooling)
        return cls(
            handle, source, pooling=model.pooling, longest=model.longest,
            batch_invariant=deterministic,
        )  # fmt: skip

    @property
    def padding(self) -> float:
        """Padded over real tokens so far; 1.0 is none."""
        return self._num_padded / self._num_real if self._num_real else 1.0

    def plan(self, lengths: NDArray[np.int32]) -> Iterable[NDArray[np.int64]]:
        if self._pad is None:
            return np.arange(len(lengths))[:, None]
        return iter_batches(
            self._round(lengths), self.budget, spare=_SPARE, equal_only=self._step > 1
        )

    def compute(self, tokens: Tokens, lengths: NDArray[np.int32]) -> Matrix:
        size = int(self._round(lengths).max())
        padded, real = pad_windows(tokens, lengths, size, self._pad or 0)
        self._num_real += int(lengths.sum())
        self._num_padded += padded.size
        if self._file is not None:
            states = self._file.run(padded, real)
            if self.per_token:
                rows: Matrix = states[real.astype(bool)]
                return rows
            if self._file.is_pooled or states.ndim == 2:
                return states
            return _pool(states, real.astype(bool)[:, :, None], lengths, self._pooling)
        made: Matrix = self._model.run({"tokens": padded, "lengths": lengths.astype(np.int64)})[0]
        return made

    def in_full_precision(self) -> Network | None:
        return None

    def _round(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """What windows are padded to at least."""
        rounded = -(-np.maximum(lengths, 1) // self._step) * self._step
        return np.maximum(lengths, np.minimum(rounded, self._longest)) if self._longest else rounded


def open_onnx(placement: Placement) -> OnnxHandle:
    from anyrig.backends import open_device
    from anyrig.backends.onnx import OnnxHandle

    handle = open_device(placement.device, placement.backend, threads=placement.threads)
    assert isinstance(handle, OnnxHandle)
    return handle


def _load_onnx(handle: OnnxHandle, source: BuiltModel | Path) -> OnnxModel:
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    try:
        return handle.load(source)
    except Fail as error:
        if not handle.on_host or detect_oom(error) is not None:
            raise
        name = source if isinstance(source, Path) else "the model"
        raise MissingWeightsError(
            f"{name} cannot be loaded: {str(error)[:300]}",
            hint="Download it again: it is damaged or incomplete.",
        ) from error


class _OnnxFile:
    """Which inputs a file wants, and what its outputs are."""

    def __init__(self, model: OnnxModel, pooling: str, file: Path) -> None:
        self._model = model
        self._inputs = [one.name for one in model.session.get_inputs()]
        unknown = [name for name in self._inputs if name not in _INPUTS]
        if unknown:
            raise InvalidInputError(
                f"{file} has an input {unknown[0]!r}", hint="It is not a model of texts."
            )
        names = [one.name for one in model.session.get_outputs()]
        known = [name for name in (*_STATES, *_POOLED) if name in names] if pooling else []
        self._place = names.index(known[0]) if known else 0
        self.is_pooled = not pooling or bool(known and known[0] in _POOLED)

    def run(self, padded: NDArray[np.int64], real: NDArray[np.int64]) -> Matrix:
        given = {
            "input_ids": padded, "attention_mask": real, "token_type_ids": np.zeros_like(padded),
            "position_ids": np.broadcast_to(np.arange(padded.shape[1]), padded.shape),
        }  # fmt: skip
        out = self._model.run({name: given[name] for name in self._inputs})[self._place]
        return np.asarray(out, np.float32)


def _pool(states: Matrix, real: Any, lengths: NDArray[np.int32], pooling: str) -> Matrix:
    """Padded states, [texts, places, size], to a vector for each text."""
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        return states[np.arange(len(states)), lengths - 1]
    if pooling == "max":
        top: Matrix = np.where(real, states, -np.inf).max(axis=1)
        return top
    total: Matrix = np.where(real, states, 0).sum(axis=1)
    by = lengths if pooling == "mean" else np.sqrt(lengths)
    return total / by.astype(np.float32)[:, None]


# -- torch -----------------------------------------------------------------------------------------


def open_torch(placement: Placement) -> TorchHandle:
    from anyrig.backends import open_device
    from anyrig.backends.torch import TorchHandle

    handle = open_device(placement.device, placement.backend, threads=placement.threads)
    assert isinstance(handle, TorchHandle)
    return handle


def get_torch_dtype(precision: str) -> torch.dtype:
    import torch

    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


class PackedNetwork:
    """Our own encoder in torch: the tokens of all windows in one row, nothing padded."""

    any_order = True
    per_token = False

    def __init__(
        self,
        placement: Placement,
        model: EmbeddingModel,
        deterministic: bool,
        *,
        handle: Any = None,
    ) -> None:
        from anyrig.documents.models.encoder import load_encoder

        self.handle: TorchHandle = handle or open_torch(placement)
        self._model, self._precision = model, placement.precision
        self._placement, self.batch_invariant = placement, deterministic
        on_gpu = placement.device.kind == "gpu"
        self.budget = _GPU_PACKED_BUDGET if on_gpu else _PACKED_BUDGET
        self.first_batch_cost = _FIRST_TOKENS if on_gpu else 0.0
        self.normalizes = on_gpu and model.normalise and model.dense is None
        dtype = get_torch_dtype(placement.precision)
        self._encoder: PackedEncoder = load_encoder(model.folder, self.handle.device, dtype)
        self._careful: PackedNetwork | None = None

    def plan(self, lengths: NDArray[np.int32]) -> Iterable[NDArray[np.int64]]:
        if self.batch_invariant:
            return np.arange(len(lengths))[:, None]
        # In the order of length: texts of like length attend to each other's padding least.
        order = np.argsort(lengths, kind="stable") if len(lengths) > 1 else np.arange(len(lengths))
        if int(lengths.sum()) <= self.budget:
            return [np.arange(len(lengths))]
        edges = np.searchsorted(
            np.cumsum(lengths[order]), np.arange(self.budget, int(lengths.sum()), self.budget)
        )
        return [part for part in np.split(order, edges) if len(part)]

    def compute(self, tokens: Tokens, lengths: NDArray[np.int32]) -> Matrix:
        import torch
        from torch.nn.functional import normalize

        with torch.inference_mode():
            made = self._encoder.embed(tokens, lengths, cast("Pooling", self._model.pooling))
            if self.normalizes:
                made = normalize(made, dim=1, eps=1e-12)
            rows: Matrix = made.cpu().numpy()
        return rows

    def in_full_precision(self) -> Network | None:
        from dataclasses import replace

        if self._precision == "fp32":
            return None
        if self._careful is None:
            placement = replace(self._placement, precision="fp32")
            self._careful = PackedNetwork(
                placement, self._model, self.batch_invariant, handle=self.handle
            )
        return self._careful


class TransformersNetwork:
    """Any family that transformers knows, through its own classes; rows are padded.

    Args:
        placement: where it runs, and in which precision.
        folder: of the model; code that may lie in it is not run.
        head: the states of tokens, pooled, or the scores of labels: of the text, or of each token.
        pooling: of the states of a row.
        batch_invariant: whether each row goes alone.
        pad: the token that fills rows, or None if there is none; by default as the config says.
    """

    any_order = normalizes = False
    first_batch_cost = 0.0

    def __init__(
        self,
        placement: Placement,
        folder: Path,
        *,
        head: TransformersHead = "embed",
        pooling: str = "mean",
        batch_invariant: bool = False,
        pad: int | None | Literal["config"] = "config",
        handle: Any = None,
    ) -> None:
        self.handle: TorchHandle = handle or open_torch(placement)
        self._placement, self._folder, self._head = placement, folder, head
        self._pooling, self.batch_invariant = pooling, batch_invariant
        on_gpu = placement.device.kind == "gpu"
        self.budget = _GPU_TRANSFORMERS_BUDGET if on_gpu else _TRANSFORMERS_BUDGET
        self.per_token = head == "token"
        dtype = get_torch_dtype(placement.precision)
        model = _load_encoder(folder, dtype) if head == "embed" else _load_head(folder, head, dtype)
        self._model = model.to(self.handle.device).eval()
        if pad == "config":
            pad = int(getattr(model.config, "pad_token_id", 0) or 0)
        self._pad = pad
        self._careful: TransformersNetwork | None = None

    def plan(self, lengths: NDArray[np.int32]) -> Iterable[NDArray[np.int64]]:
        if self.batch_invariant or self._pad is None:
            return np.arange(len(lengths))[:, None]
        return iter_batches(np.maximum(lengths, 1), self.budget, spare=_SPARE)

    def compute(self, tokens: Tokens, lengths: NDArray[np.int32]) -> Matrix:
        import torch

        from anyrig.documents.models.attend import Rows
        from anyrig.documents.models.encoder import pool_tokens

        padded, real = pad_windows(tokens, lengths, int(lengths.max()), self._pad or 0)
        device = self.handle.device
        mask = torch.from_numpy(real).to(device)
        with torch.inference_mode():
            out = self._model(input_ids=torch.from_numpy(padded).to(device), attention_mask=mask)
            if self._head == "sequence":
                made = out.logits.float()
            elif self._head == "token":
                made = out.logits[mask.bool()].float()
            else:
                rows = Rows(tuple(lengths.tolist()), device)
                states = out.last_hidden_state[mask.bool()]
                made = pool_tokens(states, rows, cast("Pooling", self._pooling))
            found: Matrix = made.cpu().numpy()
        return found

    def in_full_precision(self) -> Network | None:
        from dataclasses import replace

        if self._placement.precision == "fp32":
            return None
        if self._careful is None:
            self._careful = TransformersNetwork(
                replace(self._placement, precision="fp32"), self._folder, head=self._head,
                pooling=self._pooling, batch_invariant=self.batch_invariant, pad=self._pad,
                handle=self.handle,
            )  # fmt: skip
        return self._careful


def _load_encoder(folder: Path, dtype: torch.dtype) -> Any:
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise MissingPackageError(
            "models of this family need transformers", hint=format_install("anyrig[torch]")
        ) from error
    try:
        model, report = AutoModel.from_pretrained(
            folder, dtype=dtype, local_files_only=True, output_loading_info=True
        )
    except Exception as error:
        if detect_oom(error) is not None:
            raise
        # Damaged files and code of their own: transformers raises whatever its parts raise.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidInputError(
            f"transformers cannot load {folder}: {reason}",
            hint="Its files are damaged or incomplete, or its model brings its own code, which"
            " is not run here.",
        ) from error
    # What is missing would be random numbers; a pooler is not used here.
    missing: Sequence[str] = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        raise InvalidInputError(
            f"the weights in {folder} lack {missing[0]}",
            hint="They belong to another model than its config, or are damaged.",
        )
    return model


def _load_head(folder: Path, head: TransformersHead, dtype: torch.dtype) -> Any:
    try:
        from transformers import (
            AutoModelForSequenceClassification,
            AutoModelForTokenClassification,
        )
    except ImportError as error:
        raise MissingPackageError(
            f"a fine-tuned classifier needs the package {error.name}",
            hint=format_install("anyrig[torch]"),
        ) from error
    kind: Any = (
        AutoModelForTokenClassification if head == "token" else AutoModelForSequenceClassification
    )
    try:
        return kind.from_pretrained(str(folder), dtype=dtype, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise MissingWeightsError(
            f"{folder} cannot be loaded: {error}", hint="Save the model again."
        ) from error
