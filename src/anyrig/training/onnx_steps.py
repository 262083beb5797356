"""torch's core operations in ONNX's words: one small function each, or a name in a table.

Each gets the writer, the recorded node (whose `meta["val"]` has the result's type and sides) and
the operation's own arguments: names of values, sizes, numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from anyrig.training.onnx_layers import LAYERS
from anyrig.training.onnx_values import dtype_of, of_type, rank_of, size_of

if TYPE_CHECKING:
    from anyrig.training.onnx_graph import Value, Writer

Step = Callable[..., Any]
_END = (1 << 63) - 1
_UNARY = {
    "relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "erf": "Erf", "sin": "Sin", "cos": "Cos", "abs": "Abs", "neg": "Neg",
    "floor": "Floor", "ceil": "Ceil", "reciprocal": "Reciprocal", "logical_not": "Not",
    "bitwise_not": "Not", "mish": "Mish", "softplus": "Softplus",
}  # fmt: skip
_BINARY = {
    "mul": "Mul", "maximum": "Max", "minimum": "Min", "pow": "Pow",
    "logical_and": "And", "logical_or": "Or", "bitwise_and": "And", "bitwise_or": "Or",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}  # fmt: skip
_SAME = ("clone alias detach contiguous lift_fresh_copy dropout native_dropout"
         " detach_ _conj").split()  # fmt: skip


def _common(node: fx.Node) -> torch.dtype:
    """What both of a comparison's sides become before they are compared."""
    left, right = (arg.meta["val"] if isinstance(arg, fx.Node) else arg for arg in node.args[:2])
    if not isinstance(left, torch.Tensor) and not isinstance(right, torch.Tensor):
        return dtype_of(node)
    numbers: list[Any] = [0 if isinstance(one, torch.SymInt) else one for one in (left, right)]
    return torch.result_type(*numbers)


def _unary(kind: str) -> Step:
    def step(w: Writer, node: fx.Node, x: str, *_: Any, **__: Any) -> str:
        return w.do(kind, of_type(w, node.args[0], x, dtype_of(node)))

    return step


def _binary(kind: str) -> Step:
    def step(w: Writer, node: fx.Node, left: Value, right: Value, **_: Any) -> str:
        common = _common(node)
        return w.do(
            kind,
            of_type(w, node.args[0], left, common),
            of_type(w, node.args[1], right, common),
        )

    return step


def _sum_of(kind: str) -> Step:
    """Sums and differences, with torch's factor before the second."""

    def step(w: Writer, node: fx.Node, left: Value, right: Value, alpha: Value = 1) -> str:
        dtype = dtype_of(node)
        second = of_type(w, node.args[1], right, dtype)
        if alpha != 1:
            second = w.do("Mul", second, w.number(alpha, dtype))
        return w.do(kind, of_type(w, node.args[0], left, dtype), second)

    return step


def _rsub(w: Writer, node: fx.Node, left: Value, right: Value, alpha: Value = 1) -> str:
    second = w.do("Mul", left, w.number(alpha, dtype_of(node)))
    return w.do("Sub", w.number(right, dtype_of(node)), second)


def _div(
    w: Writer, node: fx.Node, left: Value, right: Value, rounding_mode: str | None = None
) -> str:
    dtype = dtype_of(node)
    inner = torch.float32 if rounding_mode else dtype
    found = w.do(
        "Div",
        of_type(w, node.args[0], left, inner),
        of_type(w, node.args[1], right, inner),
    )
    if rounding_mode == "floor":
        found = w.do("Floor", found)
    return w.cast(found, dtype) if rounding_mode and dtype != inner else found


def _not_equal(w: Writer, node: fx.Node, left: Value, right: Value) -> str:
    return w.do("Not", str(_binary("Equal")(w, node, left, right)))


def _size_of(kind: str) -> Step:
    """Python's own arithmetic between sizes."""

    def step(w: Writer, node: fx.Node, left: Value, right: Value) -> Value:
        from anyrig.training.onnx_graph import Size

        return Size(w.do(kind, w.number(left, torch.int64), w.number(right, torch.int64)))

    return step


def _getitem(w: Writer, node: fx.Node, held: Sequence[Value], place: int) -> Value:
    return held[place]


def _same(w: Writer, node: fx.Node, x: str, *_: Any, **__: Any) -> str:
    return x


def _to_copy(w: Writer, node: fx.Node, x: str, *_: Any, **__: Any) -> str:
    return of_type(w, node.args[0], x, dtype_of(node))


def _rsqrt(w: Writer, node: fx.Node, x: str) -> str:
    return w.do("Reciprocal", w.do("Sqrt", x))


def _silu(w: Writer, node: fx.Node, x: str) -> str:
    return w.do("Mul", x, w.do("Sigmoid", x))


def _gelu(w: Writer, node: fx.Node, x: str, approximate: str = "none") -> str:
    return w.do("Gelu", x, approximate=approximate)


def _clamp(w: Writer, node: fx.Node, x: str, low: Value = None, high: Value = None) -> str:
    if low is not None:
        x = w.do("Max", x, w.number(low, dtype_of(node)))
    return x if high is None else w.do("Min", x, w.number(high, dtype_of(node)))


def _where(w: Writer, node: fx.Node, which: str, left: Value, right: Value) -> str:
    dtype = dtype_of(node)
    one, other = (
        of_type(w, given, value, dtype)
        for given, value in zip(node.args[1:3], (left, right), strict=True)
    )
    return w.do("Where", which, one, other)


# ---------------------------------------------------------------- shapes


def _view(w: Writer, node: fx.Node, x: str, shape: Sequence[Value]) -> str:
    return w.do("Reshape", x, w.ints(shape))


def _expand(w: Writer, node: fx.Node, x: str, shape: Sequence[Value], **_: Any) -> str:
    return w.do("Expand", x, w.ints([1 if isinstance(s, int) and s == -1 else s for s in shape]))


def _permute(w: Writer, node: fx.Node, x: str, order: Sequence[int]) -> str:
    rank = len(order)
    return w.do("Transpose", x, perm=[side % rank for side in order])


def _transpose(w: Writer, node: fx.Node, x: str, left: int, right: int) -> str:
    order = list(range(rank_of(node)))
    order[left], order[right] = order[right], order[left]
    return w.do("Transpose", x, perm=order)


def _unsqueeze(w: Writer, node: fx.Node, x: str, side: int) -> str:
    return w.do("Unsqueeze", x, w.ints([side]))


def _squeeze(w: Writer, node: fx.Node, x: str, side: Any = None) -> str:
    given: Any = node.args[0]
    sizes = given.meta["val"].shape
    sides = range(len(sizes)) if side is None else [side] if isinstance(side, int) else side
    ones = [one for one in sides if isinstance(sizes[one], int) and sizes[one] == 1]
    return w.do("Squeeze", x, w.ints(ones)) if ones else x


def _slice(
    w: Writer, node: fx.Node, x: str, side: int = 0, start: Value = None, end: Value = None,
    step: int = 1,
) -> str:  # fmt: skip
    first, last = 0 if start is None else start, _END if end is None else end
    return w.do("Slice", x, w.ints([first]), w.ints([last]), w.ints([side]), w.ints([step]))


def _select(w: Writer, node: fx.Node, x: str, side: int, place: Value) -> str:
    return w.do("Gather", x, w.number(place, torch.int64), axis=side)


def _split(w: Writer, node: fx.Node, x: str, sizes: Sequence[Value], side: int = 0) -> list[str]:
    made = node.meta["val"]
    counts = sizes if isinstance(sizes, list | tuple) else [one.shape[side] for one in made]
    found, at = [], 0
    for count in counts:
        found.append(_slice(w, node, x, side, at, at + int(count)))
        at += int(count)
    return found


def _unbind(w: Writer, node: fx.Node, x: str, side: int = 0) -> list[str]:
    return [_select(w, node, x, side, number) for number in range(len(node.meta["val"]))]


def _cat(w: Writer, node: fx.Node, parts: Sequence[str], side: int = 0) -> str:
    return w.do("Concat", *parts, axis=side)


def _stack(w: Writer, node: fx.Node, parts: Sequence[str], side: int = 0) -> str:
    return w.do("Concat", *(_unsqueeze(w, node, one, side) for one in parts), axis=side)


# ---------------------------------------------------------------- looking up


def _embedding(w: Writer, node: fx.Node, table: str, places: str, *_: Any) -> str:
    return w.do("Gather", table, places, axis=0)


def _gather(w: Writer, node: fx.Node, x: str, side: int, places: str, *_: Any, **__: Any) -> str:
    return w.do("GatherElements", x, places, axis=side)


def _index(w: Writer, node: fx.Node, x: str, places: Sequence[str | None]) -> str:
    there = [number for number, one in enumerate(places) if one is not None]
    if len(there) == 1:
        return w.do("Gather", x, str(places[there[0]]), axis=there[0])
    if there != list(range(len(there))):
        from anyrig.errors import BadInput

        raise BadInput("an index with gaps is not written as ONNX", hint="Export a folder.")
    zero, level = w.number(0, torch.int64), ""
    for number in there:
        none = w.do("Mul", str(places[number]), zero)
        level = w.do("Add", level, none) if level else none
    columns = [
        w.do("Unsqueeze", w.do("Add", str(places[number]), level), w.ints([-1])) for number in there
    ]
    return w.do("GatherND", x, w.do("Concat", *columns, axis=-1))


# ---------------------------------------------------------------- making and reducing


def _arange(w: Writer, node: fx.Node, *ends: Value, **_: Any) -> str:
    dtype = dtype_of(node)
    start, end, step = {1: (0, *ends, 1), 2: (*ends, 1), 3: ends}[len(ends)]
    return w.do("Range", *(w.number(one, dtype) for one in (start, end, step)))


def _full(w: Writer, node: fx.Node, shape: Sequence[Value], value: Value, **_: Any) -> str:
    number = w.number(value, dtype_of(node))
    return w.do("Expand", number, w.ints(shape)) if shape else number


def _filled(value: float) -> Step:
    def step(w: Writer, node: fx.Node, shape: Any, *_: Any, **__: Any) -> str:
        if isinstance(shape, str):  # like another
            return _full_like(w, node, shape, value)
        return _full(w, node, shape, value)

    return step


def _full_like(w: Writer, node: fx.Node, x: str, value: Value, **_: Any) -> str:
    return w.do("Expand", w.number(value, dtype_of(node)), w.do("Shape", x))


def _scalar(w: Writer, node: fx.Node, value: Value, **_: Any) -> str:
    return w.number(value, dtype_of(node))


def _reduced(kind: str) -> Step:
    def step(
        w: Writer, node: fx.Node, x: str, sides: Any = None, keep: bool = False, **_: Any
    ) -> str:
        x = of_type(w, node.args[0], x, dtype_of(node))
        if sides is None or sides == []:
            return w.do(kind, x, keepdims=int(keep))
        axes = [sides] if isinstance(sides, int) else list(sides)
        return w.do(kind, x, w.ints(axes), keepdims=int(keep))

    return step


def _any(kind: str) -> Step:
    def step(w: Writer, node: fx.Node, x: str, sides: Any = None, keep: bool = False) -> str:
        number = of_type(w, node.args[0], x, torch.int32)
        axes = [] if sides is None else [sides] if isinstance(sides, int) else list(sides)
        inputs = [number, w.ints(axes)] if axes else [number]
        return w.cast(w.do(kind, *inputs, keepdims=int(keep)), torch.bool)

    return step


def _cumsum(w: Writer, node: fx.Node, x: str, side: int, **_: Any) -> str:
    number = of_type(w, node.args[0], x, dtype_of(node))
    return w.do("CumSum", number, w.number(side, torch.int64))


STEPS: dict[str, Step] = {
    **{name: _unary(kind) for name, kind in _UNARY.items()},
    **{name: _binary(kind) for name, kind in _BINARY.items()},
    **dict.fromkeys(_SAME, _same),
    "add": _sum_of("Add"), "sub": _sum_of("Sub"), "rsub": _rsub, "div": _div, "ne": _not_equal,
    "py_add": _size_of("Add"), "py_sub": _size_of("Sub"), "py_mul": _size_of("Mul"),
    "py_floordiv": _size_of("Div"), "py_getitem": _getitem, "sym_size": size_of,
    "_to_copy": _to_copy, "to": _to_copy, "rsqrt": _rsqrt, "silu": _silu, "gelu": _gelu,
    "clamp": _clamp, "where": _where,
    **LAYERS,
    "view": _view, "reshape": _view, "_unsafe_view": _view, "expand": _expand,
    "permute": _permute, "transpose": _transpose, "unsqueeze": _unsqueeze, "squeeze": _squeeze,
    "slice": _slice, "select": _select, "split_with_sizes": _split, "split": _split,
    "unbind": _unbind, "cat": _cat, "stack": _stack,
    "embedding": _embedding, "gather": _gather, "index": _index,
    "arange": _arange, "full": _full, "full_like": _full_like, "ones": _filled(1),
    "zeros": _filled(0), "ones_like": _filled(1), "zeros_like": _filled(0),
    "scalar_tensor": _scalar, "mean": _reduced("ReduceMean"), "sum": _reduced("ReduceSum"),
    "amax": _reduced("ReduceMax"), "amin": _reduced("ReduceMin"), "any": _any("ReduceMax"),
    "all": _any("ReduceMin"), "cumsum": _cumsum,
}  # fmt: skip
