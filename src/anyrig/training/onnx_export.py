"""A model as an ONNX file by torch.onnx, run in ONNX Runtime beside the model before it is kept."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.errors import InvalidInputError
from anyrig.install import format_install

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sides = Mapping[str, Mapping[int, str]]
_MOST_BYTES = (2 << 30) - (8 << 20)  # of one protobuf message
_LEAST_ITEMS = 2
_NEAR = 1e-3
"""How far a number may be off, as a share of itself, and of the largest one a tenth of it."""
_LOGGERS = ("torch.export", "torch.onnx", "torch.fx", "onnxscript", "onnx_ir")


def exported(
    model: nn.Module, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str], dynamic: Sides
) -> bytes:
    """The ONNX file of a model in evaluation mode, on the host; checked at several sizes."""
    _check_inputs(inputs, dynamic)
    asked = _Asked(model, tuple(inputs), len(outputs))
    # As it is now: what exporting does to a model must not change what it is compared with.
    expected = [(given, _run(asked, given)) for given in _sizes(asked, inputs, dynamic)]
    data = _written(asked, inputs, outputs, dynamic)
    _compare(data, expected, type(model).__name__)
    return data


class _Asked(nn.Module):
    """Calls by name, as models that have many inputs are called; gives the first outputs alone."""

    def __init__(self, model: nn.Module, names: Sequence[str], num_outputs: int) -> None:
        super().__init__()
        self.model, self.names, self.num_outputs = model, tuple(names), num_outputs

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**dict(zip(self.names, values, strict=True)))
        if isinstance(found, torch.Tensor):
            found = (found,)
        if isinstance(found, Mapping):  # what transformers gives
            found = tuple(found.values())
        tensors = tuple(one for one in found if isinstance(one, torch.Tensor))
        if len(tensors) < self.num_outputs:
            raise InvalidInputError(
                f"{type(self.model).__name__} gives {len(tensors)} tensors, "
                f"{self.num_outputs} are named",
                hint="Name as many outputs as it gives, or fewer.",
            )
        return tensors[: self.num_outputs]


def _check_inputs(inputs: Mapping[str, torch.Tensor], dynamic: Sides) -> None:
    for name, value in inputs.items():
        for side, word in dynamic.get(name, {}).items():
            if value.shape[side] < _LEAST_ITEMS:
                raise InvalidInputError(
                    f"the example's {name} has {value.shape[side]} {word}",
                    hint="Two at least: a size of one is taken to be always one.",
                )


# -- writing ---------------------------------------------------------------------------------------


def _written(
    asked: _Asked, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str], dynamic: Sides
) -> bytes:
    what = type(asked.model).__name__
    held = {one.data_ptr(): one.nbytes for one in (*asked.parameters(), *asked.buffers())}
    if sum(held.values()) > _MOST_BYTES:
        raise InvalidInputError(
            "an ONNX file takes 2 GiB of weights at most",
            hint="Export a folder instead: `anyrig embed --model` runs that.",
        )
    # A name without a size: torch finds out for itself whether a side may vary.
    shapes = tuple(dict(dynamic.get(name, {})) for name in inputs)
    with _quiet():
        try:
            program: Any = torch.onnx.export(
                asked, tuple(inputs.values()), dynamo=True, dynamic_shapes=(shapes,),
                input_names=list(inputs), output_names=list(outputs), external_data=False,
                verbose=False,
            )  # fmt: skip
            data: bytes = program.model_proto.SerializeToString()
        except ModuleNotFoundError as error:
            raise InvalidInputError(
                f"ONNX files need the package {error.name}",
                hint=f"Install it: {format_install('anyrig[torch]')}",
            ) from error
        except Exception as error:  # noqa: BLE001  # torch has no root of what this raises
            raise InvalidInputError(
                f"{what} cannot be exported to ONNX: {_reason(error)}",
                hint="Its forward must not choose its way by the values of tensors, and every "
                "operation must have a counterpart in ONNX. export_folder writes the weights.",
            ) from error
    return data


def _reason(error: BaseException) -> str:
    """What went wrong in torch's words: the first cause says more than the summary of it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300].rstrip(": ")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's words to its own programmers."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    unread = io.StringIO()  # what it cannot record is printed as code
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(unread),
        contextlib.redirect_stderr(unread),
    ):
        warnings.simplefilter("ignore")
        try:
            for name in before:
                logging.getLogger(name).setLevel(logging.ERROR)
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)


# -- checking --------------------------------------------------------------------------------------


def _sizes(
    asked: _Asked, inputs: Mapping[str, torch.Tensor], dynamic: Sides
) -> Iterator[Mapping[str, torch.Tensor]]:
    """The example, and inputs of other sizes that the model takes: each side by itself, then all.

    A size that the model itself does not take, such as a text that is too long, is left out; other
    numbers of items must be among those that remain.
    """
    yield inputs
    words: dict[str, int] = {}
    for name, sides in dynamic.items():
        for side, word in sides.items():
            words.setdefault(word, int(inputs[name].shape[side]))
    changes = [{word: size} for word, now in words.items() for size in (1, now + 1, 2 * now + 3)]
    if len(words) > 1:
        changes += [{word: now + more for word, now in words.items()} for more in (-1, 1)]
    taken: set[str] = set()
    for number, change in enumerate(changes):
        given = _resized(inputs, dynamic, change, number)
        try:
            _run(asked, given)
        except Exception:  # noqa: BLE001  # anybody's model, at a size nobody promised
            continue
        taken.update(change)
        yield given
    if missing := [word for word in words if word not in taken]:
        raise InvalidInputError(
            f"{type(asked.model).__name__} runs with {words[missing[0]]} {missing[0]} only",
            hint="Leave that side out of `dynamic`, or let the model take other sizes.",
        )


def _resized(
    inputs: Mapping[str, torch.Tensor], dynamic: Sides, change: Mapping[str, int], seed: int
) -> dict[str, torch.Tensor]:
    """The example with other sizes: numbers of its own kind, whole ones out of its own."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, value in inputs.items():
        for side, word in dynamic.get(name, {}).items():
            if word in change:
                picks = torch.arange(change[word]) % value.shape[side]
                value = value.index_select(side, picks)
        if value.is_floating_point():
            spread = float(value.float().std()) if value.numel() > 1 else 0.0
            noise = torch.randn(value.shape, generator=generator) * (spread or 1.0)
            value = value + noise.to(value.dtype)
        found[name] = value
    return found


def _run(asked: _Asked, given: Mapping[str, torch.Tensor]) -> list[NDArray[Any]]:
    with torch.no_grad(), _quiet():
        return [one.detach().numpy().copy() for one in asked(*given.values())]


def _compare(
    data: bytes,
    expected: Sequence[tuple[Mapping[str, torch.Tensor], list[NDArray[Any]]]],
    what: str,
) -> None:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        # Inputs that change nothing are left out of a graph.
        names = {one.name for one in session.get_inputs()}
        for given, right in expected:
            sizes = ", ".join("x".join(map(str, one.shape)) for one in given.values())
            fed = {name: value.numpy() for name, value in given.items() if name in names}
            found = session.run(None, fed)
            for one, other in zip(found, right, strict=True):
                _check_near(one, other, f"{what} with inputs of {sizes}")
    except InvalidInputError:
        raise
    except Exception as error:  # noqa: BLE001  # onnxruntime has a class of its own for each failure
        raise InvalidInputError(
            f"the ONNX file of {what} does not run in ONNX Runtime: {_reason(error)}",
            hint="It is not written. export_folder writes the weights instead.",
        ) from error


def _check_near(found: NDArray[Any], right: NDArray[Any], what: str) -> None:
    import numpy as np

    if found.shape != right.shape:
        apart = f"the shape {found.shape} instead of {right.shape}"
    elif not np.issubdtype(right.dtype, np.inexact):
        if np.array_equal(found, right):
            return
        apart = f"{int((found != right).sum())} of {right.size} differ"
    else:
        finite = np.abs(right[np.isfinite(right)])
        largest = float(finite.max()) if finite.size else 0.0
        if np.allclose(found, right, rtol=_NEAR, atol=_NEAR / 10 * largest, equal_nan=True):
            return
        with np.errstate(invalid="ignore"):
            apart = f"{float(np.nanmax(np.abs(found - right))):.3g} off, of {largest:.3g} at most"
    raise InvalidInputError(
        f"the ONNX file of {what} gives other numbers than the model: {apart}",
        hint="It is not written: a fault of the exporter, or a model that draws random numbers. "
        "export_folder writes the weights instead.",
    )
