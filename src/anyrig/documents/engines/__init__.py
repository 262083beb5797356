"""Engines of the document room: made in a worker by what drives its device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.engine import BaseEngine


def encoder(placement: Placement, *, form: str, longest: int = 0, **options: Any) -> BaseEngine:
    """The engine that makes vectors of bundles, for a model's form on a device's backend."""
    if form == "hashing":
        from anyrig.documents.engines.hashing import Hashing

        return Hashing(placement, **options)
    if form == "text":
        from anyrig.documents.engines.text_graph import TextGraph

        return TextGraph(placement, **options)
    if form == "onnx" or (form == "encoder" and placement.backend.library == "onnx"):
        from anyrig.documents.engines.onnx_encoder import OnnxEncoder

        return OnnxEncoder(placement, written=form == "encoder", longest=longest, **options)
    if form == "encoder":
        from anyrig.documents.engines.torch_encoder import TorchEncoder

        return TorchEncoder(placement, **options)
    from anyrig.documents.engines.auto_encoder import AutoEncoder

    return AutoEncoder(placement, **options)
