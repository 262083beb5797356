"""Layers in ONNX's words: products, norms, attention, convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from anyrig.training.onnx_values import dtype_of, of_type, rank_of, size_of

if TYPE_CHECKING:
    from anyrig.training.onnx_graph import Writer

Step = Callable[..., Any]
_LEAST = -3.4028234663852886e38
"""What takes the score's place where attention may not look."""


def _product(w: Writer, node: fx.Node, left: str, right: str) -> str:
    return w.do("MatMul", left, right)


def _addmm(w: Writer, node: fx.Node, bias: str, left: str, right: str) -> str:
    return w.do("Add", w.do("MatMul", left, right), bias)


def _linear(w: Writer, node: fx.Node, x: str, weight: str, bias: str | None = None) -> str:
    found = w.do("MatMul", x, w.do("Transpose", weight, perm=[1, 0]))
    return found if bias is None else w.do("Add", found, bias)


def _softmax(kind: str) -> Step:
    def step(w: Writer, node: fx.Node, x: str, side: int, *_: Any, **__: Any) -> str:
        return w.do(kind, of_type(w, node.args[0], x, dtype_of(node)), axis=side)

    return step


def _layer_norm(
    w: Writer, node: fx.Node, x: str, shape: Sequence[int], weight: str | None = None,
    bias: str | None = None, eps: float = 1e-5, *_: Any,
) -> str:  # fmt: skip
    scale = weight or w.array(torch.ones(list(shape)))
    inputs = [x, scale] + ([bias] if bias else [])
    return w.do("LayerNormalization", *inputs, axis=-len(shape), epsilon=float(eps))


def _native_layer_norm(w: Writer, node: fx.Node, *arguments: Any) -> list[Any]:
    return [_layer_norm(w, node, *arguments), None, None]


def _batch_norm(
    w: Writer, node: fx.Node, x: str, weight: str | None, bias: str | None, mean: str, var: str,
    training: bool, momentum: float, eps: float, *_: Any,
) -> str:  # fmt: skip
    given: Any = node.args[3]
    size = given.meta["val"].shape
    scale = weight or w.array(torch.ones(size))
    shift = bias or w.array(torch.zeros(size))
    return w.do("BatchNormalization", x, scale, shift, mean, var, epsilon=float(eps))


def _batch_norm_once(
    w: Writer, node: fx.Node, x: str, weight: str | None, bias: str | None, mean: str, var: str,
    momentum: float, eps: float,
) -> list[Any]:  # fmt: skip
    return [_batch_norm(w, node, x, weight, bias, mean, var, False, momentum, eps), None, None]


def _group_norm(
    w: Writer, node: fx.Node, x: str, groups: int, weight: str | None = None,
    bias: str | None = None, eps: float = 1e-5, *_: Any,
) -> str:  # fmt: skip
    given: Any = node.args[0]
    sides = given.meta["val"].shape
    flat = w.do("Reshape", x, w.ints([0, groups, -1]))
    ones, zeros = w.array(torch.ones(groups)), w.array(torch.zeros(groups))
    found = w.do("InstanceNormalization", flat, ones, zeros, epsilon=float(eps))
    found = w.do("Reshape", found, w.do("Shape", x))
    wide = w.ints([1, int(sides[1]), *[1] * (len(sides) - 2)])
    if weight:
        found = w.do("Mul", found, w.do("Reshape", weight, wide))
    return w.do("Add", found, w.do("Reshape", bias, wide)) if bias else found


def _attention(
    w: Writer, node: fx.Node, query: str, key: str, value: str, mask: str | None = None,
    dropout: float = 0.0, is_causal: bool = False, *, scale: float | None = None, **_: Any,
) -> str:  # fmt: skip
    given: Any = node.args[0]
    rank, size = rank_of(given), int(given.meta["val"].shape[-1])
    factor = w.number(scale or 1 / math.sqrt(size), dtype_of(given))
    turned = w.do("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = w.do("MatMul", w.do("Mul", query, factor), turned)
    if is_causal:
        mask = _causal(w, node, query, key)
    if mask is not None:
        held: Any = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        if is_causal or held.meta["val"].dtype is torch.bool:
            scores = w.do("Where", mask, scores, w.number(_LEAST, dtype_of(given)))
        else:
            scores = w.do("Add", scores, mask)
    return w.do("MatMul", w.do("Softmax", scores, axis=-1), value)


def _causal(w: Writer, node: fx.Node, query: str, key: str) -> str:
    rows, columns = (_places(w, size_of(w, node, one, -2)) for one in (query, key))
    down = w.do("Unsqueeze", rows, w.ints([1]))
    return w.do("GreaterOrEqual", down, w.do("Unsqueeze", columns, w.ints([0])))


def _places(w: Writer, count: str) -> str:
    zero, one = w.number(0, torch.int64), w.number(1, torch.int64)
    return w.do("Range", zero, count, one)


def _convolution(
    w: Writer, node: fx.Node, x: str, weight: str, bias: str | None = None,
    stride: Sequence[int] = (1,), padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> str:  # fmt: skip
    sides = rank_of(node) - 2
    wide, far = (list(v) * (sides if len(v) == 1 else 1) for v in (padding, dilation))
    steps = list(stride) * (sides if len(stride) == 1 else 1)
    inputs = [x, weight] + ([bias] if bias else [])
    return w.do("Conv", *inputs, strides=steps, pads=wide * 2, dilations=far, group=groups)


def _convolution_whole(
    w: Writer, node: fx.Node, x: str, weight: str, bias: str | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, more: Sequence[int],
    groups: int,
) -> str:  # fmt: skip
    if not transposed:
        return _convolution(w, node, x, weight, bias, stride, padding, dilation, groups)
    inputs = [x, weight] + ([bias] if bias else [])
    return w.do(
        "ConvTranspose", *inputs, strides=list(stride), pads=list(padding) * 2,
        dilations=list(dilation), group=groups, output_padding=list(more),
    )  # fmt: skip


def _pooled(kind: str) -> Step:
    def step(
        w: Writer, node: fx.Node, x: str, size: Sequence[int], stride: Sequence[int] = (),
        padding: Sequence[int] = (0, 0), *_: Any, **__: Any,
    ) -> str:  # fmt: skip
        more = {"count_include_pad": 1} if kind == "AveragePool" else {}
        return w.do(kind, x, kernel_shape=list(size), strides=list(stride or size),
                    pads=list(padding) * 2, **more)  # fmt: skip

    return step


LAYERS: dict[str, Step] = {
    "mm": _product, "bmm": _product, "matmul": _product, "addmm": _addmm, "linear": _linear,
    "_softmax": _softmax("Softmax"), "softmax": _softmax("Softmax"),
    "_log_softmax": _softmax("LogSoftmax"), "log_softmax": _softmax("LogSoftmax"),
    "layer_norm": _layer_norm, "native_layer_norm": _native_layer_norm,
    "batch_norm": _batch_norm, "_native_batch_norm_legit_no_training": _batch_norm_once,
    "group_norm": _group_norm, "scaled_dot_product_attention": _attention,
    "conv1d": _convolution, "conv2d": _convolution, "convolution": _convolution_whole,
    "max_pool2d": _pooled("MaxPool"), "avg_pool2d": _pooled("AveragePool"),
}  # fmt: skip
