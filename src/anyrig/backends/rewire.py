"""Small changes to an ONNX model's bytes, made without the `onnx` package.

Protocol buffers merge by concatenation: a message appended to a model adds to its repeated fields.
So an inner value becomes an output by a few bytes at the end, and the weights are never parsed.
A file that was cut off or is no model at all is `Damaged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.backends.graph import message, node, number, tensor, text

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fields of onnx.proto: of a model, of its graph, of a node.
_GRAPH, _NODE, _INITIALIZER, _INPUT, _OUTPUT, _NAME = 7, 1, 5, 11, 12, 1
_NODE_INPUT, _NODE_OUTPUT, _NODE_KIND = 1, 2, 4
_SIZES, _KIND, _WEIGHT_NAME, _RAW = 1, 2, 8, 9
_FLOAT, _INT8, _INT64, _FLOAT16 = 1, 3, 7, 10
_FIXED = {1: 8, 5: 4}
"""Bytes of a field, by its wire type."""
_LONGEST_SHIFT = 63
Buffer = bytes | memoryview | mmap
_ZERO, _ONE = "anyrig.zero", "anyrig.one"


class Damaged(ValueError):
    """The bytes are no whole model."""


def check(model: Buffer) -> None:
    """That the bytes have the form of a whole model; only its few outermost fields are looked at.

    Damaged tells of one that was cut off, or of something else under its name.
    """
    with memoryview(model) as data:
        if not any(found.field == _GRAPH for found in _fields(data, 0, len(data))):
            raise Damaged("it has no graph")


def with_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """The model with inner values as further outputs, in this order, after its own."""
    added = b"".join(message(_OUTPUT, text(_NAME, name)) for name in names)
    return model + message(_GRAPH, added)


def with_only_outputs(model: bytes, names: Sequence[str]) -> bytes:
    """The model with these values as its outputs, in this order, and no others.

    ONNX Runtime computes what nobody asks for as well, so nodes at the end that make none of them
    are taken out: nodes stand in the order of their computation, and nothing after these needs
    them.
    """
    graph, *more = [found for found in _fields(model, 0, len(model)) if found.field == _GRAPH]
    assert not more, "a graph in several pieces"
    kept = [found for found in _fields(model, graph.body, graph.end) if found.field != _OUTPUT]
    wanted = set(names)
    for found in reversed([found for found in kept if found.field == _NODE]):
        if wanted.intersection(_node_at(model, found).outputs):
            break
        kept.remove(found)
    pieces = [model[start:end] for start, end in _joined(kept)]
    pieces += [message(_OUTPUT, text(_NAME, name)) for name in names]
    return model[: graph.start] + message(_GRAPH, b"".join(pieces)) + model[graph.end :]


def values_of(model: bytes, kind: str) -> list[str]:
    """The outputs of every node of a kind, such as `Ceil`."""
    return [found.outputs[0] for found in _nodes(model) if found.kind == kind]


def weights_in(model: bytes) -> dict[str, NDArray[Any]]:
    """The weights of a model that lie in its own bytes, in their order; others are left out."""
    import numpy as np

    kinds = {_FLOAT: np.float32, _INT8: np.int8, _INT64: np.int64, _FLOAT16: np.float16}
    found: dict[str, NDArray[Any]] = {}
    for graph in _fields(model, 0, len(model)):
        for part in _fields(model, graph.body, graph.end) if graph.field == _GRAPH else ():
            if part.field != _INITIALIZER:
                continue
            weight = _weight(model, part)
            if weight.kind in kinds and weight.raw is not None:
                raw = memoryview(model)[weight.raw.body : weight.raw.end]
                found[weight.name] = np.frombuffer(raw, kinds[weight.kind]).reshape(weight.sizes)
    return found


def _weight(model: bytes, part: _Field) -> _Weight:
    sizes: list[int] = []
    kind, name, raw = 0, "", None
    for field in _fields(model, part.body, part.end):
        if field.field == _SIZES and model[field.start] & 7 == 2:  # packed
            at = field.body
            while at < field.end:
                size, at = _varint(model, at, field.end)
                sizes.append(size)
        elif field.field == _SIZES:
            sizes.append(_varint(model, field.body, field.end)[0])
        elif field.field == _KIND:
            kind = _varint(model, field.body, field.end)[0]
        elif field.field == _WEIGHT_NAME:
            name = _text(model[field.body : field.end])
        elif field.field == _RAW:
            raw = field
    return _Weight(name, kind, sizes, raw)


def noise_from_outside(model: bytes) -> tuple[bytes, list[str]]:
    """The model with its dice taken away, and the names of the inputs that stand for them.

    Each `RandomNormalLike` becomes a row of numbers that the caller gives, read from its beginning
    and round again where it is too short. So a seed decides, and nothing that ran before.
    """
    dice = [found for found in _nodes(model) if found.kind == "RandomNormalLike"]
    if not dice:
        return model, []
    names = [f"anyrig.noise{index}" for index in range(len(dice))]
    (start, body, end), *more = [f[1:] for f in _fields(model, 0, len(model)) if f.field == _GRAPH]
    assert not more, "a graph in several pieces"
    pieces, last = [], body
    for found, name in zip(dice, names, strict=True):
        pieces += [model[last : found.start], _given(name, found.inputs[0], found.outputs[0])]
        last = found.end
    pieces += [model[last:end], _constants(), *(_row(name) for name in names)]
    return model[:start] + message(_GRAPH, b"".join(pieces)) + model[end:], names


def _given(name: str, like: str, output: str) -> bytes:
    """Nodes that shape a row of numbers like a value."""
    steps = [
        ("Shape", [like], "shape"), ("ReduceProd", ["shape"], "count"),
        ("Range", [_ZERO, "count", _ONE], "places"), ("Shape", [name], "length"),
        ("Mod", ["places", "length"], "wrapped"), ("Gather", [name, "wrapped"], "row"),
        ("Reshape", ["row", "shape"], output),
    ]  # fmt: skip
    own = {"shape", "count", "places", "length", "wrapped", "row"}
    out = b""
    for kind, inputs, result in steps:
        told = [f"{name}.{value}" if value in own else value for value in inputs]
        target = f"{name}.{result}" if result in own else result
        fields = {"keepdims": 0} if kind == "ReduceProd" else {}
        out += message(_NODE, node(kind, told, [target], **fields))
    return out


def _constants() -> bytes:
    both = ((_ZERO, 0), (_ONE, 1))
    return b"".join(
        message(_INITIALIZER, tensor(name, _INT64, (), value.to_bytes(8, "little")))
        for name, value in both
    )


def _row(name: str) -> bytes:
    """An input of one dimension and any length."""
    shape = message(1, text(2, f"{name}.length"))
    kind = message(1, number(1, _FLOAT) + message(2, shape))
    return message(_INPUT, text(_NAME, name) + message(2, kind))


# ---------------------------------------------------------------- reading


class _Field(NamedTuple):
    field: int
    start: int
    body: int
    end: int


class _Weight(NamedTuple):
    name: str
    kind: int
    sizes: list[int]
    raw: _Field | None


class _Node(NamedTuple):
    kind: str
    inputs: list[str]
    outputs: list[str]
    start: int
    end: int


def _joined(fields: Sequence[_Field]) -> list[tuple[int, int]]:
    """The stretches that fields cover, those that touch as one."""
    stretches: list[tuple[int, int]] = []
    for found in fields:
        if stretches and stretches[-1][1] == found.start:
            stretches[-1] = (stretches[-1][0], found.end)
        else:
            stretches.append((found.start, found.end))
    return stretches


def _nodes(model: bytes) -> Iterator[_Node]:
    """The nodes of the main graph, in order."""
    for graph in _fields(model, 0, len(model)):
        if graph.field != _GRAPH:
            continue
        for found in _fields(model, graph.body, graph.end):
            if found.field == _NODE:
                yield _node_at(model, found)


def _node_at(model: bytes, found: _Field) -> _Node:
    names: dict[int, list[str]] = {_NODE_INPUT: [], _NODE_OUTPUT: [], _NODE_KIND: []}
    for part in _fields(model, found.body, found.end):
        if part.field in names:
            names[part.field].append(_text(model[part.body : part.end]))
    kind = names[_NODE_KIND][0] if names[_NODE_KIND] else ""
    return _Node(kind, names[_NODE_INPUT], names[_NODE_OUTPUT], found.start, found.end)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Damaged(f"a name in it is no text: {error}") from None


def _fields(data: Buffer, start: int, end: int) -> Iterator[_Field]:
    """The fields of one message: where each begins, where its body does, where it ends."""
    at = start
    while at < end:
        begin = at
        key, at = _varint(data, at, end)
        wire = key & 7
        if not key >> 3:  # what a file that was made room for, and not filled, is full of
            raise Damaged(f"at byte {begin} stands no field")
        if wire == 2:
            size, at = _varint(data, at, end)
        elif wire == 0:
            size = _varint(data, at, end)[1] - at
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise Damaged(f"at byte {begin} stands what no model has")
        if at + size > end:
            raise Damaged(f"it ends {at + size - end} bytes too early")
        yield _Field(key >> 3, begin, at, at + size)
        at += size


def _varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        if at >= end or shift > _LONGEST_SHIFT:
            raise Damaged(f"the number at byte {at} has no end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
