"""A model as an ONNX graph, written from what torch.export records of it.

No other package is needed: torch's own exporter asks for `onnx` and `onnxscript`. What a model does
is recorded with open sizes (any number of items), taken apart into torch's core operations, and
each is written by `onnx_steps`. An operation that is not known there is named in the error.
"""

from __future__ import annotations

import logging
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import fx, nn

from anyrig.backends import graph as wire
from anyrig.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Value: TypeAlias = Any
"""The name of a value in the graph, a `Size` of it, a plain number, or a list of these."""
_MOST_BYTES = (2 << 30) - (8 << 20)  # of one protobuf message
_LEAST_ITEMS = 2
# Kept whole when a model is taken apart, as ONNX has a step for each.
_WHOLE = ("linear", "layer_norm", "conv2d", "conv1d", "batch_norm", "group_norm",
          "scaled_dot_product_attention", "silu", "max_pool2d", "avg_pool2d")  # fmt: skip


class Size(str):
    """The name of a whole number in the graph: a side that is not known yet."""


class Filed(wire.Builder):
    """A graph that holds its arrays itself, for a file."""

    num_bytes = 0

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """An array, written into the graph."""
        self.num_bytes += array.nbytes
        if self.num_bytes > _MOST_BYTES:
            raise BadInput(
                "an ONNX file takes 2 GiB of weights at most",
                hint="Export a folder instead: `anyrig embed --model` runs that.",
            )
        kind = _KINDS[str(array.dtype)]
        self._weights.append(wire.tensor(name, kind, array.shape, array.tobytes()))
        return name


_KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
          "float64": 11}  # fmt: skip


def translated(
    model: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Mapping[int, str]],
) -> bytes:
    """The ONNX file of a model in evaluation mode, on the host."""
    program = _recorded(model, inputs, dynamic)
    words = [(name, dynamic.get(name, {})) for name in inputs]
    return Writer(program, words).written(outputs)


class _Asked(nn.Module):
    """Calls by name, as models that have many inputs are called."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *values: torch.Tensor) -> Any:
        found = self.model(**dict(zip(self.names, values, strict=True)))
        if isinstance(found, Mapping):  # what transformers gives
            found = tuple(value for value in found.values() if isinstance(value, torch.Tensor))
        return found


def _recorded(
    model: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    dynamic: Mapping[str, Mapping[int, str]],
) -> torch.export.ExportedProgram:
    for name, value in inputs.items():
        for side, word in dynamic.get(name, {}).items():
            if value.shape[side] < _LEAST_ITEMS:
                raise BadInput(
                    f"the example's {name} has {value.shape[side]} {word}",
                    hint="Two at least: a size of one is taken to be always one.",
                )
    shapes = tuple(
        dict.fromkeys(dynamic.get(name, {}), torch.export.Dim.DYNAMIC) for name in inputs
    )
    said = logging.getLogger("torch.export")
    level = said.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's words to its own programmers
        said.setLevel(logging.ERROR)
        try:
            asked = _Asked(model, tuple(inputs))
            program = torch.export.export(
                asked, tuple(inputs.values()), dynamic_shapes=(shapes,), strict=False
            )
            table: dict[Any, Any] = dict(torch.export.default_decompositions())
            for op in [op for op in table if getattr(op, "_opname", "") in _WHOLE]:
                table.pop(op)
            found: torch.export.ExportedProgram = program.run_decompositions(table)
            return found
        except Exception as error:  # noqa: BLE001  # torch has no root of what this raises
            raise BadInput(
                f"torch cannot record {type(model).__name__}: {str(error).splitlines()[0]}",
                hint="Its forward must not choose its way by the values of tensors.",
            ) from error
        finally:
            said.setLevel(level)


class Writer:
    """The graph as it grows; steps call its methods."""

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        inputs: Sequence[tuple[str, Mapping[int, str]]],
    ) -> None:
        self.graph = Filed()
        self._program, self._inputs = program, list(inputs)
        self._values: dict[fx.Node, Value] = {}
        self._count = 0

    def written(self, outputs: Sequence[str]) -> bytes:
        """The file."""
        from anyrig.training.onnx_steps import STEPS

        self._begin()
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                self._values[node] = self._step(node, STEPS)
        self._end(outputs)
        return self.graph.model().model

    # ---------------------------------------------------------------- ends

    def _begin(self) -> None:
        signature, constants = self._program.graph_signature, self._program.constants
        held = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        state: Any = {**constants, **self._program.state_dict}
        for node in self._program.graph.nodes:
            where = held.get(node.name)
            if node.op == "placeholder" and where is None:
                self._values[node] = self._input(node)
            elif node.op == "placeholder" and node.users:
                self._values[node] = self.array(state[where], node.name)

    def _input(self, node: fx.Node) -> str:
        name, words = self._inputs.pop(0)
        value = node.meta["val"]
        shape = [words[side] if side in words else int(n) for side, n in enumerate(value.shape)]
        self.graph.input(name, _dtype_name(value.dtype), shape)
        return name

    def _end(self, outputs: Sequence[str]) -> None:
        (given,) = next(node for node in self._program.graph.nodes if node.op == "output").args
        wanted = self._program.graph_signature.user_outputs
        nodes = [node for node in given if getattr(node, "name", None) in wanted]
        if len(nodes) < len(outputs):
            raise BadInput(
                f"the model gives {len(nodes)} tensors, {len(outputs)} are named",
                hint="Name as many outputs as it gives, or fewer.",
            )
        for name, node in zip(outputs, nodes, strict=False):
            value = node.meta["val"]
            self.graph.step("Identity", [self._values[node]], name)
            shape = [s if isinstance(s, int) else f"{name}_{n}" for n, s in enumerate(value.shape)]
            self.graph.output(name, _dtype_name(value.dtype), shape)

    # ---------------------------------------------------------------- steps

    def _step(self, node: fx.Node, steps: Mapping[str, Callable[..., Value]]) -> Value:
        target: Any = node.target
        own = target in _PYTHON
        name = f"py_{target.__name__}" if own else str(getattr(target, "_opname", target))
        if name.startswith("_assert"):
            return None
        if name not in steps:
            raise BadInput(
                f"{name} is not written as ONNX here",
                hint="Export a folder instead, or call torch.onnx.export, which needs onnxscript.",
            )
        arguments = fx.node.map_arg(node.args, self._values.__getitem__)
        keywords = fx.node.map_arg(node.kwargs, self._values.__getitem__)
        return steps[name](self, node, *arguments, **keywords)

    def name(self) -> str:
        """A new name for a value."""
        self._count += 1
        return f"v{self._count}"

    def do(self, kind: str, *inputs: str, **more: Any) -> str:
        """A step of ONNX with one output."""
        return self.graph.step(kind, list(inputs), self.name(), **more)

    def array(self, tensor: torch.Tensor, name: str = "") -> str:
        """A tensor that the graph holds."""
        return self.graph.weight(name or self.name(), tensor.detach().cpu().contiguous().numpy())

    def number(self, value: Value, dtype: torch.dtype) -> str:
        """A plain number, or a size, as a value of a type."""
        if isinstance(value, Size):
            return value if dtype is torch.int64 else self.cast(value, dtype)
        if isinstance(value, str):
            return value
        return self.graph.constant(torch.tensor(value, dtype=dtype).numpy())

    def ints(self, values: Sequence[Value]) -> str:
        """A list of whole numbers, some of them sizes, as one vector."""
        if not any(isinstance(one, Size) for one in values):
            return self.graph.constant(_vector(values))
        parts = [
            self.do("Unsqueeze", one, self.graph.constant(_vector([0])))
            if isinstance(one, Size)
            else self.graph.constant(_vector([one]))
            for one in values
        ]
        return self.do("Concat", *parts, axis=0)

    def cast(self, value: str, dtype: torch.dtype) -> str:
        """The same numbers in another type."""
        return self.do("Cast", value, to=_dtype_name(dtype))


_PYTHON = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.getitem)


def _vector(values: Sequence[int]) -> NDArray[np.int64]:
    import numpy as np

    return np.array([int(one) for one in values], np.int64)


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
