"""An encoder written as an ONNX graph: tokens and lengths in, a vector for each text out.

So a folder of weights runs wherever ONNX Runtime does, on any brand of GPU and without torch, with
attention and norms as single steps. Pooling is in the graph too: only vectors come back.

ModernBERT is not written; it runs through torch, or from an ONNX file of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anyrig.backends.graph import Builder, Written
from anyrig.documents.models.families import Array, Layer, Shape, Weights
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


def writable(family: str, activation: str, pooling: str) -> bool:
    """Whether such an encoder can be written."""
    return family in WRITTEN and activation in _ACTIVATIONS and pooling in POOLINGS


def write(shape: Shape, weights: Weights[Array], pooling: str) -> Written:
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
        raise InvalidInputError(f"pooling {pooling!r}", hint=f"There are: {', '.join(POOLINGS)}.")
    return _Writer(shape, weights).written(pooling)


class _Writer:
    """The graph as it grows."""

    def __init__(self, shape: Shape, weights: Weights[Array]) -> None:
        self._shape, self._weights = shape, weights
        self._graph = Builder()

    def written(self, pooling: str) -> Written:
        graph = self._graph
        graph.input("tokens", "int64", ("texts", "tokens"))
        graph.input("lengths", "int64", ("texts",))
        self._places()
        x = self._embedded()
        for number, layer in enumerate(self._weights.layers):
            x = self._layer(x, layer, f"layer{number}")
        graph.step("Identity", [self._pooled(x, pooling)], "vectors")
        graph.output("vectors", "float32", ("texts", self._shape.hidden))
        return graph.model()

    def _places(self) -> None:
        """Which places are real, and what is added to the scores of the others."""
        graph = self._graph
        graph.step("Shape", ["tokens"], "size")
        graph.step("Gather", ["size", graph.constant(np.int64(1))], "longest")
        graph.step(
            "Range", [graph.constant(np.int64(0)), "longest", graph.constant(np.int64(1))], "places"
        )
        graph.step("Unsqueeze", ["lengths", graph.constant(np.array([1]))], "counts")
        graph.step("Less", ["places", "counts"], "real")
        graph.step("Cast", ["real"], "shares", to="float32")
        graph.step("Unsqueeze", ["real", graph.constant(np.array([1, 2]))], "seen")
        bias = self._distances() if self._weights.bias is not None else None
        if bias is None:
            one = np.ones(1, np.int64)
            graph.step("Unsqueeze", ["longest", graph.constant(np.array([0]))], "row")
            graph.step("Concat", [graph.constant(one), graph.constant(one), "row", "row"],
                       "square", axis=0)  # fmt: skip
            bias = graph.step("Expand", [graph.constant(np.zeros((1, 1, 1, 1), np.float32)),
                                         "square"], "level")  # fmt: skip
        graph.step("Where", ["seen", bias, graph.constant(np.float32(_LEAST))], "bias")

    def _distances(self) -> str:
        """MPNet's bias for each pair of places, out of a table by distance."""
        graph, table = self._graph, self._weights.bias
        assert table is not None
        longest = self._shape.longest
        by_distance = table[_buckets(longest, len(table))].astype(np.float32)  # [2n-1, heads]
        graph.step("Unsqueeze", ["places", graph.constant(np.array([0]))], "across")
        graph.step("Unsqueeze", ["places", graph.constant(np.array([1]))], "down")
        graph.step("Sub", ["across", "down"], "away")
        graph.step("Add", ["away", graph.constant(np.int64(longest - 1))], "shifted")
        graph.step("Gather", [graph.weight("distances", by_distance), "shifted"], "scores", axis=0)
        graph.step("Transpose", ["scores"], "scores by head", perm=[2, 0, 1])
        return graph.step(
            "Unsqueeze", ["scores by head", graph.constant(np.array([0]))], "relative"
        )

    def _embedded(self) -> str:
        graph, weights = self._graph, self._weights
        x = graph.step("Gather", [graph.weight("words", weights.words), "tokens"], "words.x")
        if weights.scale is not None:
            graph.step("Cast", [x], "words.wide", to="float32")
            graph.step("Gather", [graph.weight("words.scale", weights.scale), "tokens"], "scales")
            x = graph.step("Mul", ["words.wide", "scales"], "words.scaled")
        if weights.positions is not None:
            learnt = weights.positions[self._shape.offset :]
            if weights.types is not None:
                learnt = learnt + weights.types
            graph.step("Gather", [graph.weight("positions", learnt), "places"], "positions.x")
            x = graph.step("Add", [x, "positions.x"], "sum")
        return self._norm(x, weights.norm, weights.norm_bias, "start")

    def _layer(self, x: str, layer: Layer[Array], at: str) -> str:
        graph = self._graph
        parts, size = [], self._shape.hidden
        for number, name in enumerate("qkv"):
            rows = slice(number * size, (number + 1) * size)
            bias = None if layer.qkv_bias is None else layer.qkv_bias[rows]
            parts.append(self._linear(x, layer.qkv[rows], bias, f"{at}.{name}"))
        found = graph.step(
            "MultiHeadAttention", [*parts, "", "", "bias"], f"{at}.attention",
            domain="com.microsoft", num_heads=self._shape.heads,
        )  # fmt: skip
        y = self._linear(found, layer.out, layer.out_bias, f"{at}.out")
        assert layer.norm_1 is not None
        x = self._norm(
            graph.step("Add", [x, y], f"{at}.sum1"), layer.norm_1, layer.norm_1_bias, f"{at}.1"
        )
        kind, more = _ACTIVATIONS[self._shape.activation]
        y = self._linear(x, layer.up, layer.up_bias, f"{at}.up")
        y = graph.step(kind, [y], f"{at}.active", **more)
        y = self._linear(y, layer.down, layer.down_bias, f"{at}.down")
        return self._norm(
            graph.step("Add", [x, y], f"{at}.sum2"), layer.norm_2, layer.norm_2_bias, f"{at}.2"
        )

    def _linear(self, x: str, weight: Array, bias: Array | None, name: str) -> str:
        graph = self._graph
        turned = graph.weight(f"{name}.weight", np.ascontiguousarray(weight.T))
        y = graph.step("MatMul", [x, turned], f"{name}.product")
        if bias is None:
            return y
        return graph.step("Add", [y, graph.weight(f"{name}.bias", bias)], f"{name}.y")

    def _norm(self, x: str, scale: Array, bias: Array | None, at: str) -> str:
        graph = self._graph
        shift = np.zeros_like(scale) if bias is None else bias
        inputs = [x, graph.weight(f"{at}.scale", scale), graph.weight(f"{at}.shift", shift)]
        return graph.step(
            "LayerNormalization", inputs, f"{at}.norm", epsilon=self._shape.eps, axis=-1
        )

    def _pooled(self, x: str, pooling: str) -> str:
        graph = self._graph
        if pooling == "cls":
            return graph.step("Gather", [x, graph.constant(np.int64(0))], "first", axis=1)
        wide = graph.step("Unsqueeze", ["shares", graph.constant(np.array([2]))], "weights")
        if pooling == "max":
            mask = graph.step("Unsqueeze", ["real", graph.constant(np.array([2]))], "there")
            x = graph.step("Where", [mask, x, graph.constant(np.float32(_LEAST))], "masked")
            return graph.step("ReduceMax", [x, graph.constant(np.array([1]))], "top", keepdims=0)
        # A row of shares times the states: their sum, without a copy of the states.
        graph.step("Transpose", [wide], "row of shares", perm=[0, 2, 1])
        graph.step("MatMul", ["row of shares", x], "total")
        total = graph.step("Squeeze", ["total", graph.constant(np.array([1]))], "totals")
        graph.step("Cast", ["counts"], "counts.wide", to="float32")
        by = "counts.wide"
        if pooling == "mean_sqrt":
            by = graph.step("Sqrt", [by], "counts.root")
        return graph.step("Div", [total, by], "mean")


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
