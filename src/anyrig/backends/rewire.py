"""Small changes to an ONNX model's bytes, made without the `onnx` package.

Protocol buffers merge by concatenation: a message appended to a model adds to its repeated fields.
So an inner value becomes an output by a few bytes at the end, and the weights are never parsed.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyrig.backends.graph import message, text

_GRAPH, _OUTPUT, _NAME = 7, 12, 1


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """The model with inner values as further outputs, in this order, after its own."""
    added = b"".join(message(_OUTPUT, text(_NAME, name)) for name in names)
    return model + message(_GRAPH, added)
