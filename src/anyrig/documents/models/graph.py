"""An encoder written as an ONNX graph: tokens and lengths in, a vector for each text out.

So a folder of weights runs wherever ONNX Runtime does, on any brand of GPU and without torch, with
attention and norms as single steps. Pooling is in the graph too: only vectors come back.

ModernBERT is not written; it runs through torch, or from an ONNX file of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anyrig.backends.onnx_graph import BuiltModel, GraphBuilder
from anyrig.documents.models.families import Array, EncoderLayer, EncoderShape, EncoderWeights
from anyrig.errors import InvalidInputError
from anyrig.install import format_install

WRITTEN = ("bert", "roberta", "xlm-roberta", "camembert", "mpnet", "distilbert")
POOLINGS = ("mean", "cls", "max", "mean_sqrt")
_ACTIVATIONS = {
    "gelu": ("Gelu", {}),
    "gelu_new": ("Gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("Gelu", {"approximate": "tanh"}),
    "relu": ("Relu", {}),
}
_LEAST = -1e9
"""What is added to the score of a place that is not there."""


def is_writable(family: str, activation: str, pooling: str) -> bool:
    """Whether such an encoder can be written."""
    return family in WRITTEN and activation in _ACTIVATIONS and pooling in POOLINGS


def build_graph(shape: EncoderShape, weights: EncoderWeights[Array], pooling: str) -> BuiltModel:
    """The model.

    Args:
        shape: what it is.
        weights: what it knows.
        pooling: how a text's tokens become one vector.
    """
    if shape.family not in WRITTEN or shape.activation not in _ACTIVATIONS:
        raise InvalidInputError(
            f"{shape.family} with {shape.activation} is not written as a graph",
            hint=f"It runs through torch: {format_install('anyrig[torch]')}",
        )
    if pooling not in POOLINGS:
        raise InvalidInputError(f"pooling {pooling!r}", hint=f"Valid names: {', '.join(POOLINGS)}.")
    return _EncoderGraph(shape, weights).write(pooling)


class _EncoderGraph:
    """The graph as it grows."""

    def __init__(self, shape: EncoderShape, weights: EncoderWeights[Array]) -> None:
        self._shape, self._weights = shape, weights
        self._graph = GraphBuilder()

    def write(self, pooling: str) -> BuiltModel:
        graph = self._graph
        graph.add_input("tokens", "int64", ("texts", "tokens"))
        graph.add_input("lengths", "int64", ("texts",))
        self._places()
        x = self._embed()
        for number, layer in enumerate(self._weights.layers):
            x = self._layer(x, layer, f"layer{number}")
        graph.add_node("Identity", [self._pool(x, pooling)], "vectors")
        graph.add_output("vectors", "float32", ("texts", self._shape.hidden))
        return graph.build()

    def _places(self) -> None:
        """Which places are real, and what is added to the scores of the others."""
        graph = self._graph
        graph.add_node("Shape", ["tokens"], "size")
        graph.add_node("Gather", ["size", graph.add_constant(np.int64(1))], "longest")
        graph.add_node(
            "Range",
            [graph.add_constant(np.int64(0)), "longest", graph.add_constant(np.int64(1))],
            "places",
        )
        graph.add_node("Unsqueeze", ["lengths", graph.add_constant(np.array([1]))], "counts")
        graph.add_node("Less", ["places", "counts"], "real")
        graph.add_node("Cast", ["real"], "shares", to="float32")
        graph.add_node("Unsqueeze", ["real", graph.add_constant(np.array([1, 2]))], "seen")
        bias = self._distances() if self._weights.bias is not None else None
        if bias is None:
            one = graph.add_constant(np.ones(1, np.int64))
            graph.add_node("Unsqueeze", ["longest", graph.add_constant(np.array([0]))], "row")
            graph.add_node("Concat", [one, one, "row", "row"], "square", axis=0)
            bias = graph.add_node("Expand", [graph.add_constant(np.zeros((1, 1, 1, 1), np.float32)),
                                         "square"], "level")  # fmt: skip
        graph.add_node("Where", ["seen", bias, graph.add_constant(np.float32(_LEAST))], "bias")

    def _distances(self) -> str:
        """MPNet's bias for each pair of places, out of a table by distance."""
        graph, table = self._graph, self._weights.bias
        assert table is not None
        longest = self._shape.longest
        by_distance = table[_buckets(longest, len(table))].astype(np.float32)  # [2n-1, heads]
        graph.add_node("Unsqueeze", ["places", graph.add_constant(np.array([0]))], "across")
        graph.add_node("Unsqueeze", ["places", graph.add_constant(np.array([1]))], "down")
        graph.add_node("Sub", ["across", "down"], "away")
        graph.add_node("Add", ["away", graph.add_constant(np.int64(longest - 1))], "shifted")
        graph.add_node(
            "Gather", [graph.add_weight("distances", by_distance), "shifted"], "scores", axis=0
        )
        graph.add_node("Transpose", ["scores"], "scores by head", perm=[2, 0, 1])
        return graph.add_node(
            "Unsqueeze", ["scores by head", graph.add_constant(np.array([0]))], "relative"
        )

    def _embed(self) -> str:
        graph, weights = self._graph, self._weights
        x = graph.add_node(
            "Gather", [graph.add_weight("words", weights.words), "tokens"], "words.x"
        )
        if weights.scale is not None:
            graph.add_node("Cast", [x], "words.wide", to="float32")
            graph.add_node(
                "Gather", [graph.add_weight("words.scale", weights.scale), "tokens"], "scales"
            )
            x = graph.add_node("Mul", ["words.wide", "scales"], "words.scaled")
        if weights.positions is not None:
            learnt = weights.positions[self._shape.offset :]
            if weights.types is not None:
                learnt = learnt + weights.types
            graph.add_node(
                "Gather", [graph.add_weight("positions", learnt), "places"], "positions.x"
            )
            x = graph.add_node("Add", [x, "positions.x"], "sum")
        return self._norm(x, weights.norm, weights.norm_bias, "start")

    def _layer(self, x: str, layer: EncoderLayer[Array], at: str) -> str:
        graph = self._graph
        parts, size = [], self._shape.hidden
        for number, name in enumerate("qkv"):
            rows = slice(number * size, (number + 1) * size)
            bias = None if layer.qkv_bias is None else layer.qkv_bias[rows]
            parts.append(self._linear(x, layer.qkv[rows], bias, f"{at}.{name}"))
        found = graph.add_node(
            "MultiHeadAttention", [*parts, "", "", "bias"], f"{at}.attention",
            domain="com.microsoft", num_heads=self._shape.heads,
        )  # fmt: skip
        y = self._linear(found, layer.out, layer.out_bias, f"{at}.out")
        assert layer.norm_1 is not None
        x = self._norm(
            graph.add_node("Add", [x, y], f"{at}.sum1"), layer.norm_1, layer.norm_1_bias, f"{at}.1"
        )
        kind, more = _ACTIVATIONS[self._shape.activation]
        y = self._linear(x, layer.up, layer.up_bias, f"{at}.up")
        y = graph.add_node(kind, [y], f"{at}.active", **more)
        y = self._linear(y, layer.down, layer.down_bias, f"{at}.down")
        return self._norm(
            graph.add_node("Add", [x, y], f"{at}.sum2"), layer.norm_2, layer.norm_2_bias, f"{at}.2"
        )

    def _linear(self, x: str, weight: Array, bias: Array | None, name: str) -> str:
        graph = self._graph
        turned = graph.add_weight(f"{name}.weight", np.ascontiguousarray(weight.T))
        y = graph.add_node("MatMul", [x, turned], f"{name}.product")
        if bias is None:
            return y
        return graph.add_node("Add", [y, graph.add_weight(f"{name}.bias", bias)], f"{name}.y")

    def _norm(self, x: str, scale: Array, bias: Array | None, at: str) -> str:
        graph = self._graph
        shift = np.zeros_like(scale) if bias is None else bias
        inputs = [x, graph.add_weight(f"{at}.scale", scale), graph.add_weight(f"{at}.shift", shift)]
        return graph.add_node(
            "LayerNormalization", inputs, f"{at}.norm", epsilon=self._shape.eps, axis=-1
        )

    def _pool(self, x: str, pooling: str) -> str:
        graph = self._graph
        if pooling == "cls":
            return graph.add_node("Gather", [x, graph.add_constant(np.int64(0))], "first", axis=1)
        wide = graph.add_node("Unsqueeze", ["shares", graph.add_constant(np.array([2]))], "weights")
        if pooling == "max":
            mask = graph.add_node("Unsqueeze", ["real", graph.add_constant(np.array([2]))], "there")
            x = graph.add_node("Where", [mask, x, graph.add_constant(np.float32(_LEAST))], "masked")
            return graph.add_node(
                "ReduceMax", [x, graph.add_constant(np.array([1]))], "top", keepdims=0
            )
        # A row of shares times the states: their sum, without a copy of the states.
        graph.add_node("Transpose", [wide], "row of shares", perm=[0, 2, 1])
        graph.add_node("MatMul", ["row of shares", x], "total")
        total = graph.add_node("Squeeze", ["total", graph.add_constant(np.array([1]))], "totals")
        graph.add_node("Cast", ["counts"], "counts.wide", to="float32")
        by = "counts.wide"
        if pooling == "mean_sqrt":
            by = graph.add_node("Sqrt", [by], "counts.root")
        return graph.add_node("Div", [total, by], "mean")


def _buckets(longest: int, count: int) -> Any:
    """The row of the table for each distance from -(longest-1) to longest-1."""
    half = count // 2
    near = half // 2
    away = np.arange(-(longest - 1), longest)
    far = np.abs(away)
    with np.errstate(divide="ignore"):
        scaled = np.log(np.maximum(far, 1).astype(np.float32) / np.float32(near))
    scaled = scaled / np.float32(math.log(128 / near)) * np.float32(half - near)
    rows = np.where(far < near, far, np.minimum(near + scaled.astype(np.int64), half - 1))
    return rows + np.where(away > 0, half, 0)
