"""A graph that takes texts as they are, its tokenizer inside: Universal Sentence Encoder.

Its tokenizer needs onnxruntime-extensions, and runs on the CPU. One text at a time: the graph's
sums depend on its company, and a batch gains little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anyrig.documents.bundle import texts_of
from anyrig.errors import DeviceError, MissingPackageError
from anyrig.install import format_install
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.placement import Placement

_BATCH = 16


class TextGraph(BaseEngine):
    """Bundles of texts to as many vectors, as bytes of float32."""

    name = "text graph"
    version = "1"
    pads = False

    def __init__(
        self,
        placement: Placement,
        *,
        folder: str,
        normalise: bool = True,
        deterministic: bool = False,
        **_: object,
    ) -> None:
        """Load an ONNX file."""
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
            folder, settings, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name
        self._normalise = normalise
        self.batch_invariant = deterministic
        self._most = 1 if deterministic else _BATCH

    def run(self, batch: Sequence[bytes]) -> list[bytes]:
        """The vectors of each bundle."""
        return [self._vectors(texts_of(one)).tobytes() for one in batch]

    def _vectors(self, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        found = np.concatenate([
            self._session.run(None, {self._input: np.array(texts[n : n + self._most], object)})[0]
            for n in range(0, len(texts), self._most)
        ]).astype(np.float32)  # fmt: skip
        if not np.isfinite(found).all():
            raise DeviceError(
                "the model gives no finite vector for a text", hint="Its weights may be damaged."
            )
        if self._normalise:
            found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        return found
