"""Small ONNX graphs, written byte by byte: the `onnx` package is not needed to multiply matrices.

Only the few fields of ONNX's protobuf that these graphs use are written; field numbers are those of
onnx.proto (ModelProto, GraphProto, NodeProto, TensorProto, ValueInfoProto).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FLOAT, _FLOAT16 = 1, 10
_OPSET, _IR_VERSION = 13, 8
_BUILT_OPSET, _BUILT_IR_VERSION = 20, 9  # Gelu and LayerNormalization are steps of their own
_KINDS = {"float32": 1, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
_LARGE_BYTES, _ELSEWHERE = 4096, "beside"
Attribute = int | float | str | Sequence[int]


def product(size: int) -> bytes:
    """`product = left @ right`, fp32, all of them inputs and outputs."""
    shape = (size, size)
    return _model(
        nodes=[node("MatMul", ["left", "right"], ["product"])],
        inputs=[_value("left", _FLOAT, shape), _value("right", _FLOAT, shape)],
        outputs=[_value("product", _FLOAT, shape)],
    )


def product_chain(matrix: NDArray[Any], num_products: int) -> bytes:
    """`num_products` products in a row of a matrix that the graph holds, reduced to one number.

    The scale is an input so that nothing can be computed ahead; the output is one number so that
    nothing large travels back.
    """
    kind = _FLOAT16 if matrix.dtype.itemsize == 2 else _FLOAT
    nodes = [_cast("scale", "factor", kind), node("Mul", ["matrix", "factor"], ["p0"])]
    nodes += [node("MatMul", [f"p{n}", "matrix"], [f"p{n + 1}"]) for n in range(num_products)]
    nodes += [node("ReduceMax", [f"p{num_products}"], ["top"], keepdims=0),
              _cast("top", "result", _FLOAT)]  # fmt: skip
    return _model(
        nodes=nodes,
        inputs=[_value("scale", _FLOAT, (1,))],
        outputs=[_value("result", _FLOAT, ())],
        weights=[tensor("matrix", kind, matrix.shape, matrix.tobytes())],
    )


def sweep_chain(num_values: int, num_sweeps: int) -> bytes:
    """`num_sweeps` passes over a vector that read it and write it, reduced to one number."""
    shape = tensor("shape", 7, (1,), num_values.to_bytes(8, "little"))
    nodes = [node("Expand", ["scale", "shape"], ["v0"])]
    nodes += [node("Neg", [f"v{n}"], [f"v{n + 1}"]) for n in range(num_sweeps)]
    nodes += [node("ReduceMax", [f"v{num_sweeps}"], ["result"], keepdims=0)]
    return _model(
        nodes=nodes,
        inputs=[_value("scale", _FLOAT, (1,))],
        outputs=[_value("result", _FLOAT, ())],
        weights=[shape],
    )


class Written(NamedTuple):
    """A model, and the arrays that it names as lying elsewhere."""

    model: bytes
    arrays: dict[str, NDArray[Any]]


class Builder:
    """A larger graph, step by step; names of values are the caller's, and unique.

    Large arrays are not copied into it: they are named as lying elsewhere, and handed to the
    session beside the graph (`Written.arrays`).
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self._nodes: list[bytes] = []
        self._weights: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def input(self, name: str, kind: str, shape: Sequence[int | str]) -> None:
        """A value from outside; a size that is a word may be any."""
        self._inputs.append(_value(name, _KINDS[kind], shape))

    def output(self, name: str, kind: str, shape: Sequence[int | str]) -> None:
        """A value that is wanted."""
        self._outputs.append(_value(name, _KINDS[kind], shape))

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """An array that the graph holds."""
        kind = _KINDS[str(array.dtype)]
        if array.nbytes < _LARGE_BYTES:
            self._weights.append(tensor(name, kind, array.shape, array.tobytes()))
            return name
        self._arrays[name] = array
        sizes = b"".join(number(1, size) for size in array.shape)
        place = message(13, text(1, "location") + text(2, _ELSEWHERE))
        self._weights.append(sizes + number(2, kind) + text(8, name) + place + number(14, 1))
        return name

    def constant(self, value: Any) -> str:
        """A number or a small array; the same one twice is one."""
        key = (str(value.dtype), value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(f"constant {len(self._constants)}", value)
        return self._constants[key]

    def step(
        self, kind: str, inputs: list[str], output: str, *, domain: str = "", **more: Attribute
    ) -> str:
        """A node with one output, whose name is given back."""
        body = b"".join(text(1, name) for name in inputs)
        body += text(2, output) + text(3, output) + text(4, kind)
        for name, value in more.items():
            told = _KINDS[str(value)] if name == "to" else value
            body += message(5, _attribute(name, told))
        self._nodes.append(body + (text(7, domain) if domain else b""))
        return output

    def model(self) -> Written:
        """The whole."""
        parts = [message(1, node) for node in self._nodes] + [text(2, "anyrig")]
        parts += [message(5, weight) for weight in self._weights]
        parts += [message(11, value) for value in self._inputs]
        parts += [message(12, value) for value in self._outputs]
        opsets = message(8, number(2, _BUILT_OPSET))
        opsets += message(8, text(1, "com.microsoft") + number(2, 1))
        whole = number(1, _BUILT_IR_VERSION) + message(7, b"".join(parts)) + opsets
        return Written(whole, self._arrays)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, bool | int):
        return text(1, name) + _signed(3, value) + number(20, 2)
    if isinstance(value, float):
        return text(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, str):
        return text(1, name) + text(4, value) + number(20, 3)
    return text(1, name) + b"".join(_signed(8, one) for one in value) + number(20, 7)


def _signed(field: int, value: int) -> bytes:
    return number(field, value & 0xFFFF_FFFF_FFFF_FFFF)


def _model(
    nodes: list[bytes],
    inputs: list[bytes],
    outputs: list[bytes],
    weights: list[bytes] | None = None,
) -> bytes:
    graph = b"".join(message(1, node) for node in nodes) + text(2, "kernel")
    graph += b"".join(message(5, weight) for weight in weights or [])
    graph += b"".join(message(11, value) for value in inputs)
    graph += b"".join(message(12, value) for value in outputs)
    return number(1, _IR_VERSION) + message(7, graph) + message(8, number(2, _OPSET))


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: int) -> bytes:
    """A node, named after its first output."""
    body = b"".join(text(1, name) for name in inputs)
    body += b"".join(text(2, name) for name in outputs) + text(3, outputs[0]) + text(4, kind)
    for name, value in attributes.items():
        body += message(5, text(1, name) + number(3, value) + number(20, 2))
    return body


def _cast(source: str, target: str, kind: int) -> bytes:
    return node("Cast", [source], [target], to=kind)


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sizes = b"".join(
        message(1, text(2, size) if isinstance(size, str) else number(1, size)) for size in shape
    )
    return text(1, name) + message(2, message(1, number(1, kind) + message(2, sizes)))


def tensor(name: str, kind: int, shape: tuple[int, ...], raw: bytes) -> bytes:
    """A weight with its values."""
    sizes = b"".join(number(1, size) for size in shape)
    return sizes + number(2, kind) + text(8, name) + message(9, raw)


def varint(value: int) -> bytes:
    """A number as protocol buffers write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that holds a number."""
    return varint(field << 3) + varint(value)


def message(field: int, body: bytes) -> bytes:
    """A field that holds bytes or another message."""
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """A field that holds text."""
    return message(field, value.encode())
