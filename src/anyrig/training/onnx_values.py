"""What a recorded value is: its type, its sides, and how it comes to be of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

if TYPE_CHECKING:
    from anyrig.training.onnx_graph import Value, Writer


def dtype_of(node: fx.Node) -> torch.dtype:
    """The type of a node's result."""
    found: torch.dtype = node.meta["val"].dtype
    return found


def rank_of(node: Any) -> int:
    """How many sides it has."""
    return len(node.meta["val"].shape)


def of_type(w: Writer, given: Any, value: Value, dtype: torch.dtype) -> str:
    """A value in a type; `given` is what was recorded in its place."""
    held = given.meta["val"] if isinstance(given, fx.Node) else None
    if isinstance(held, torch.Tensor):
        return str(value) if held.dtype == dtype else w.cast(value, dtype)
    return w.number(value, dtype)


def size_of(w: Writer, node: fx.Node, x: str, side: int) -> Value:
    """One of a value's sides, as a number in the graph."""
    from anyrig.training.onnx_graph import Size

    return Size(w.do("Gather", w.do("Shape", x), w.number(side, torch.int64), axis=0))
