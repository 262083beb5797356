"""Build and edit ONNX models as bytes, without the `onnx` package.

Only the few fields of ONNX's protobuf that are needed are written and read; field numbers are those
of onnx.proto. Protobuf messages merge by concatenation: a message appended to a model adds to its
repeated fields. So an inner value becomes an output by a few bytes at the end, and weights are
never parsed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fields of onnx.proto: ModelProto, GraphProto, NodeProto, TensorProto.
_IR_VERSION, _GRAPH, _OPSET_IMPORT = 1, 7, 8
_NODE, _GRAPH_NAME, _INITIALIZER, _INPUT, _OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _OP_TYPE, _ATTRIBUTE, _DOMAIN = 1, 2, 3, 4, 5, 7
_DIMS, _DATA_TYPE, _TENSOR_NAME, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 1, 2, 8, 9, 13, 14
_VALUE_NAME, _VALUE_TYPE = 1, 2
_DATA_TYPES = {"float32": 1, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
_READABLE_TYPES = {1: "float32", 3: "int8", 7: "int64", 10: "float16"}
_OPSET = 20  # Gelu and LayerNormalization are operators
_KERNEL_OPSET = 13
_EXTERNAL_BYTES = 4096
_FIXED_SIZES = {1: 8, 5: 4}  # by wire type
_MAX_SHIFT = 63
Attribute = int | float | str | Sequence[int]
Buffer = bytes | memoryview | mmap


class InvalidOnnxError(ValueError):
    """The bytes are not a whole ONNX model."""


# -- protobuf --------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_field(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def bytes_field(field: int, body: bytes) -> bytes:
    """A field that holds bytes or another message."""
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def text_field(field: int, value: str) -> bytes:
    return bytes_field(field, value.encode())


class _ProtoField(NamedTuple):
    field: int
    start: int
    body: int
    end: int


def _fields(data: Buffer, start: int, end: int) -> Iterator[_ProtoField]:
    """The fields of a message."""
    at = start
    while at < end:
        begin = at
        key, at = _read_varint(data, at, end)
        wire = key & 7
        if not key >> 3:  # a file that was allocated and not filled is full of zeros
            raise InvalidOnnxError(f"no field at byte {begin}")
        if wire == 2:
            size, at = _read_varint(data, at, end)
        elif wire == 0:
            size = _read_varint(data, at, end)[1] - at
        elif wire in _FIXED_SIZES:
            size = _FIXED_SIZES[wire]
        else:
            raise InvalidOnnxError(f"unknown wire type {wire} at byte {begin}")
        if at + size > end:
            raise InvalidOnnxError(f"truncated: {at + size - end} bytes are missing")
        yield _ProtoField(key >> 3, begin, at, at + size)
        at += size


def _read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if at >= end or shift > _MAX_SHIFT:
            raise InvalidOnnxError(f"unterminated number at byte {at}")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


# -- building --------------------------------------------------------------------------------------


class BuiltModel(NamedTuple):
    """A model, and the large arrays that it refers to as external data."""

    model: bytes
    arrays: dict[str, NDArray[Any]]


class GraphBuilder:
    """Builds a graph node by node. The caller chooses names of values, which must be unique.

    Large arrays are not copied into the model: they are handed to the session as external data
    (`BuiltModel.arrays`).
    """

    def __init__(self, opset: int = _OPSET) -> None:
        self._opset = opset
        self._parts: list[bytes] = []
        self._arrays: dict[str, NDArray[Any]] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add_input(self, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """A size that is a string is a symbolic dimension."""
        self._parts.append(bytes_field(_INPUT, _encode_value(name, dtype, shape)))

    def add_output(self, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        self._parts.append(bytes_field(_OUTPUT, _encode_value(name, dtype, shape)))

    def add_weight(self, name: str, array: NDArray[Any], *, embed: bool = False) -> str:
        tensor = _encode_tensor(name, str(array.dtype), array.shape)
        if embed or array.nbytes < _EXTERNAL_BYTES:
            tensor += bytes_field(_RAW_DATA, array.tobytes())
        else:
            self._arrays[name] = array
            location = text_field(1, "location") + text_field(2, "arrays")
            tensor += bytes_field(_EXTERNAL_DATA, location) + int_field(_DATA_LOCATION, 1)
        self._parts.append(bytes_field(_INITIALIZER, tensor))
        return name

    def add_constant(self, value: Any) -> str:
        """A number or a small array; equal ones share a weight."""
        key = (str(value.dtype), value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = self.add_weight(f"constant {len(self._constants)}", value)
        return self._constants[key]

    def add_node(
        self, op_type: str, inputs: Sequence[str], output: str, *, domain: str = "",
        **attributes: Attribute,
    ) -> str:  # fmt: skip
        """Add a node with one output, whose name is returned."""
        node = encode_node(op_type, inputs, output, domain=domain, **attributes)
        self._parts.append(bytes_field(_NODE, node))
        return output

    def build(self) -> BuiltModel:
        graph = b"".join([*self._parts, text_field(_GRAPH_NAME, "anyrig")])
        opsets = bytes_field(_OPSET_IMPORT, int_field(2, self._opset))
        if self._opset != _KERNEL_OPSET:
            opsets += bytes_field(_OPSET_IMPORT, text_field(1, "com.microsoft") + int_field(2, 1))
        ir_version = 8 if self._opset == _KERNEL_OPSET else 9
        model = int_field(_IR_VERSION, ir_version) + bytes_field(_GRAPH, graph) + opsets
        return BuiltModel(model, self._arrays)


def encode_node(
    op_type: str, inputs: Sequence[str], output: str, *, domain: str = "", **attributes: Attribute
) -> bytes:
    """A node, named after its output. The attribute `to` of a Cast is a dtype by name."""
    body = b"".join(text_field(_NODE_INPUT, name) for name in inputs)
    body += text_field(_NODE_OUTPUT, output) + text_field(_NODE_NAME, output)
    body += text_field(_OP_TYPE, op_type)
    for name, value in attributes.items():
        encoded = _DATA_TYPES[str(value)] if name == "to" else value
        body += bytes_field(_ATTRIBUTE, _encode_attribute(name, encoded))
    return body + (text_field(_DOMAIN, domain) if domain else b"")


def _encode_attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, bool | int):
        return text_field(1, name) + int_field(3, value) + int_field(20, 2)
    if isinstance(value, float):
        body = _varint(2 << 3 | 5) + struct.pack("<f", value)
        return text_field(1, name) + body + int_field(20, 1)
    if isinstance(value, str):
        return text_field(1, name) + text_field(4, value) + int_field(20, 3)
    return text_field(1, name) + b"".join(int_field(8, one) for one in value) + int_field(20, 7)


def _encode_tensor(name: str, dtype: str, shape: Sequence[int] = ()) -> bytes:
    """A weight, without its values."""
    dims = b"".join(int_field(_DIMS, size) for size in shape)
    return dims + int_field(_DATA_TYPE, _DATA_TYPES[dtype]) + text_field(_TENSOR_NAME, name)


def _encode_value(name: str, dtype: str, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(
        bytes_field(1, text_field(2, size) if isinstance(size, str) else int_field(1, size))
        for size in shape
    )
    tensor = int_field(1, _DATA_TYPES[dtype]) + bytes_field(2, dims)
    return text_field(_VALUE_NAME, name) + bytes_field(_VALUE_TYPE, bytes_field(1, tensor))


def build_product(size: int) -> bytes:
    """`product = left @ right` in fp32."""
    graph = GraphBuilder(_KERNEL_OPSET)
    graph.add_input("left", "float32", (size, size))
    graph.add_input("right", "float32", (size, size))
    graph.add_node("MatMul", ["left", "right"], "product")
    graph.add_output("product", "float32", (size, size))
    return graph.build().model


def build_product_chain(matrix: NDArray[Any], num_products: int) -> bytes:
    """`num_products` products in a row of an embedded matrix, reduced to one number.

    The scale is an input so that nothing can be precomputed; the output is one number so that
    nothing large is copied back.
    """
    graph = GraphBuilder(_KERNEL_OPSET)
    graph.add_input("scale", "float32", (1,))
    graph.add_weight("matrix", matrix, embed=True)
    factor = graph.add_node("Cast", ["scale"], "factor", to=str(matrix.dtype))
    last = graph.add_node("Mul", ["matrix", factor], "p0")
    for number in range(1, num_products + 1):
        last = graph.add_node("MatMul", [last, "matrix"], f"p{number}")
    top = graph.add_node("ReduceMax", [last], "top", keepdims=0)
    graph.add_node("Cast", [top], "result", to="float32")
    graph.add_output("result", "float32", ())
    return graph.build().model


def build_copy_chain(num_values: int, num_copies: int) -> bytes:
    """`num_copies` passes that read and write a vector, reduced to one number."""
    import numpy as np

    graph = GraphBuilder(_KERNEL_OPSET)
    graph.add_input("scale", "float32", (1,))
    graph.add_weight("shape", np.array([num_values], np.int64))
    last = graph.add_node("Expand", ["scale", "shape"], "v0")
    for number in range(1, num_copies + 1):
        last = graph.add_node("Neg", [last], f"v{number}")
    graph.add_node("ReduceMax", [last], "result", keepdims=0)
    graph.add_output("result", "float32", ())
    return graph.build().model


# -- reading and editing ---------------------------------------------------------------------------


def check_model(model: Buffer) -> None:
    """Raise InvalidOnnxError unless the bytes have the form of a whole model.

    Only the outermost fields are read.
    """
    with memoryview(model) as data:
        if not any(field.field == _GRAPH for field in _fields(data, 0, len(data))):
            raise InvalidOnnxError("it has no graph")


def add_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """Add inner values to the model's outputs, after its own."""
    return model + bytes_field(_GRAPH, _encode_outputs(names))


def _encode_outputs(names: Sequence[str]) -> bytes:
    return b"".join(bytes_field(_OUTPUT, text_field(_VALUE_NAME, name)) for name in names)


def replace_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """Make these values the model's only outputs.

    ONNX Runtime computes nodes whose results are not used as well, so nodes at the end that produce
    none of them are removed: nodes are in the order of computation, and nothing later needs them.
    """
    graph = _only_graph(model)
    kept = [field for field in _fields(model, graph.body, graph.end) if field.field != _OUTPUT]
    wanted = set(names)
    for field in reversed([field for field in kept if field.field == _NODE]):
        if wanted.intersection(_read_node(model, field).outputs):
            break
        kept.remove(field)
    pieces = [model[field.start : field.end] for field in kept]
    edited = bytes_field(_GRAPH, b"".join([*pieces, _encode_outputs(names)]))
    return model[: graph.start] + edited + model[graph.end :]


def find_node_outputs(model: bytes, op_type: str) -> list[str]:
    """The first output of every node of a type, such as `Ceil`."""
    return [node.outputs[0] for node in _read_nodes(model) if node.op_type == op_type]


def read_weights(model: bytes) -> dict[str, NDArray[Any]]:
    """The weights in the model's own bytes, in order, as views; external ones are left out."""
    import numpy as np

    weights: dict[str, NDArray[Any]] = {}
    for field in _graph_fields(model):
        if field.field != _INITIALIZER:
            continue
        name, data_type, dims, raw = _read_tensor(model, field)
        if data_type in _READABLE_TYPES and raw is not None:
            data = memoryview(model)[raw.body : raw.end]
            weights[name] = np.frombuffer(data, _READABLE_TYPES[data_type]).reshape(dims)
    return weights


def _read_tensor(
    model: bytes, tensor: _ProtoField
) -> tuple[str, int, list[int], _ProtoField | None]:
    dims: list[int] = []
    name, data_type, raw = "", 0, None
    for field in _fields(model, tensor.body, tensor.end):
        if field.field == _DIMS and model[field.start] & 7 == 2:  # packed
            at = field.body
            while at < field.end:
                size, at = _read_varint(model, at, field.end)
                dims.append(size)
        elif field.field == _DIMS:
            dims.append(_read_varint(model, field.body, field.end)[0])
        elif field.field == _DATA_TYPE:
            data_type = _read_varint(model, field.body, field.end)[0]
        elif field.field == _TENSOR_NAME:
            name = _decode(model[field.body : field.end])
        elif field.field == _RAW_DATA:
            raw = field
    return name, data_type, dims, raw


def replace_noise(model: bytes) -> tuple[bytes, list[str]]:
    """Replace the model's random nodes by inputs; the model and the names of these inputs.

    Each `RandomNormalLike` becomes a row of numbers that the caller gives, read from the start and
    repeated if it is too short. So a seed decides the result, whatever ran before.
    """
    nodes = [node for node in _read_nodes(model) if node.op_type == "RandomNormalLike"]
    if not nodes:
        return model, []
    names = [f"anyrig.noise{index}" for index in range(len(nodes))]
    graph = _only_graph(model)
    pieces, last = [], graph.body
    for node, name in zip(nodes, names, strict=True):
        pieces.append(model[last : node.start])
        pieces.append(_encode_reshaped(name, node.inputs[0], node.outputs[0]))
        last = node.end
    pieces.append(model[last : graph.end])
    for constant, value in (("anyrig.zero", 0), ("anyrig.one", 1)):
        raw = bytes_field(_RAW_DATA, value.to_bytes(8, "little"))
        pieces.append(bytes_field(_INITIALIZER, _encode_tensor(constant, "int64") + raw))
    for name in names:
        pieces.append(bytes_field(_INPUT, _encode_value(name, "float32", [f"{name}.length"])))
    edited = bytes_field(_GRAPH, b"".join(pieces))
    return model[: graph.start] + edited + model[graph.end :], names


def _encode_reshaped(row: str, like: str, output: str) -> bytes:
    """Nodes that give a row of numbers the shape of another value, repeating it as needed."""
    shape, count, places, length, wrapped, taken = (
        f"{row}.{name}" for name in ("shape", "count", "places", "length", "wrapped", "row")
    )
    nodes = (
        encode_node("Shape", [like], shape),
        encode_node("ReduceProd", [shape], count, keepdims=0),
        encode_node("Range", ["anyrig.zero", count, "anyrig.one"], places),
        encode_node("Shape", [row], length),
        encode_node("Mod", [places, length], wrapped),
        encode_node("Gather", [row, wrapped], taken),
        encode_node("Reshape", [taken, shape], output),
    )
    return b"".join(bytes_field(_NODE, node) for node in nodes)


class _Node(NamedTuple):
    op_type: str
    inputs: list[str]
    outputs: list[str]
    start: int
    end: int


def _graph_fields(model: bytes) -> Iterator[_ProtoField]:
    """The fields of the main graph, which may be in several pieces."""
    for graph in _fields(model, 0, len(model)):
        if graph.field == _GRAPH:
            yield from _fields(model, graph.body, graph.end)


def _only_graph(model: bytes) -> _ProtoField:
    graph, *more = [field for field in _fields(model, 0, len(model)) if field.field == _GRAPH]
    assert not more, "a graph in several pieces"
    return graph


def _read_nodes(model: bytes) -> Iterator[_Node]:
    for field in _graph_fields(model):
        if field.field == _NODE:
            yield _read_node(model, field)


def _read_node(model: bytes, node: _ProtoField) -> _Node:
    names: dict[int, list[str]] = {_NODE_INPUT: [], _NODE_OUTPUT: [], _OP_TYPE: []}
    for field in _fields(model, node.body, node.end):
        if field.field in names:
            names[field.field].append(_decode(model[field.body : field.end]))
    op_type = names[_OP_TYPE][0] if names[_OP_TYPE] else ""
    return _Node(op_type, names[_NODE_INPUT], names[_NODE_OUTPUT], node.start, node.end)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidOnnxError(f"a name is not valid UTF-8: {error}") from None
