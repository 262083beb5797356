"""Embeddings over a cluster: how texts and vectors travel, and how vectors are checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

from anyrig.cluster.protocol import EncodedResult, to_str
from anyrig.cluster.registry import EngineId
from anyrig.documents.protocol import TextBlock, Use, estimate_cost
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from anyrig.documents.model import EmbeddingModel

_VERSION = "2"
"""Of how texts travel; to version 1 they were tokens."""
_MAX_CHARACTERS = 16 << 20


def identify_model(model: EmbeddingModel) -> EngineId:
    return EngineId(f"embed:{model.name}", _VERSION, model.fingerprint)


@dataclass
class EmbeddingCodec:
    """Items are blocks of texts, results the matrices of their vectors."""

    dimension: int = 0
    """Of the vectors; for whoever examines and compares."""
    kind: ClassVar[str] = "embedding"

    def cost(self, payload: TextBlock) -> float:
        return estimate_cost(payload)

    def encode_item(self, payload: TextBlock) -> dict[str, Any]:
        return {
            "texts": [text.encode("utf-8", "replace").decode() for text in payload.texts],
            "use": payload.use,
        }

    def decode_item(self, value: Any) -> TextBlock:
        if not isinstance(value, dict) or not isinstance(value.get("texts"), list):
            raise ValueError("a block without texts")
        texts, use = [to_str(text) for text in value["texts"]], value.get("use")
        if not texts or use not in get_args(Use):
            raise ValueError("a block without texts, or of an unknown use")
        if sum(map(len, texts)) > _MAX_CHARACTERS:
            raise ValueError("a block that is too large")
        return TextBlock(texts, cast("Use", use))

    def encode_result(self, result: NDArray[np.float32], *, compress: bool) -> EncodedResult:
        return EncodedResult(result.astype("<f4", copy=False).tobytes(), {})

    def decode_result(self, encoded: EncodedResult) -> bytes:
        return encoded.data

    def check(self, payload: TextBlock, result: bytes, worker: str) -> NDArray[np.float32]:
        import numpy as np

        if len(result) != 4 * self.dimension * len(payload.texts):
            raise InvalidInputError("vectors of another size", hint="Look at that worker.")
        vectors = np.frombuffer(result, "<f4").reshape(len(payload.texts), -1)
        if not np.isfinite(vectors).all():
            raise InvalidInputError("vectors that are not finite", hint="Look at that worker.")
        return vectors.astype(np.float32)
