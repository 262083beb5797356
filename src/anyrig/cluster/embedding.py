"""Embeddings over a cluster: how bundles and vectors travel, and how vectors are checked."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from anyrig.cluster.protocol import EncodedResult, to_str
from anyrig.cluster.registry import EngineId
from anyrig.documents.bundle import cost
from anyrig.documents.model import VERSION
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.documents.model import Model

_MAX_BUNDLE = 16 << 20


def identify_model(model: Model) -> EngineId:
    return EngineId(f"embed:{model.name}", VERSION, model.fingerprint)


@dataclass
class EmbeddingCodec:
    """Items are bundles (`documents.bundle`), results the vectors of their rows, both bytes."""

    dimension: int = 0
    """Of the vectors; for whoever examines and compares."""
    kind: ClassVar[str] = "embedding"

    def cost(self, payload: bytes) -> float:
        return cost(payload)

    def encode_item(self, payload: bytes) -> str:
        return base64.b64encode(payload).decode("ascii")

    def decode_item(self, value: Any) -> bytes:
        data = base64.b64decode(to_str(value), validate=True)
        if len(data) > _MAX_BUNDLE:
            raise ValueError("a bundle that is too large")
        count_rows(data)
        return data

    def encode_result(self, result: bytes, *, compress: bool) -> EncodedResult:
        return EncodedResult(result, {})

    def decode_result(self, encoded: EncodedResult) -> bytes:
        return encoded.data

    def check(self, payload: bytes, result: bytes, worker: str) -> bytes:
        import numpy as np

        if len(result) != 4 * self.dimension * count_rows(payload):
            raise InvalidInputError("vectors of another size", hint="Look at that worker.")
        if not np.isfinite(np.frombuffer(result, np.float32)).all():
            raise InvalidInputError("vectors that are not finite", hint="Look at that worker.")
        return result


def count_rows(bundle: bytes) -> int:
    """The rows of a bundle of tokens or of texts; `ValueError` if its lengths are wrong."""
    import numpy as np

    count = int.from_bytes(bundle[:4], "little", signed=True)
    if not 0 < count <= len(bundle) // 4 - 1:
        raise ValueError("a bundle without rows")
    sizes = np.frombuffer(bundle, np.int32, count=count, offset=4)
    total = int(sizes.sum(dtype=np.int64))
    if sizes.min() < 0 or len(bundle) - 4 * (count + 1) not in (total, 4 * total):
        raise ValueError("a bundle whose lengths are wrong")
    return count
