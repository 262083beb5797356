"""What `anyrig profile` runs: a step of any batch size out of a word on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.devices.choose import select_backend
from anyrig.errors import AnyrigError, DeviceUnusableError, InvalidInputError, MissingPackageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.devices.machine import Device, DeviceBackend, Precision

log = logging.getLogger(__name__)
BUILT_IN = "transformer"
# On a CPU the large one would take minutes a step.
_LARGE, _SMALL = (8, 1024, 16, 4096), (2, 256, 4, 1024)
_LENGTH, _SHORT = 1024, 128
_KINDS = {
    "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64",
    "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(bool)": "bool",
    "tensor(uint8)": "uint8", "tensor(int8)": "int8",
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    what: str
    training: bool = True
    shape: tuple[int, ...] = ()
    length: int | None = None
    vocabulary: int | None = None


@dataclass(frozen=True)
class Workload:
    """Something to run at any batch size, and what it is."""

    title: str
    make: Callable[[DeviceHandle, Precision], Callable[[int], object]]
    """Builds the step. The device is held to its budget before this is called."""
    is_onnx: bool = False


def workload(wanted: Wanted, device: Device) -> Workload:
    """The workload that a word names: built in, a function of a module, or an ONNX file."""
    if wanted.what.endswith(".onnx"):
        return _onnx(wanted)
    if wanted.what == BUILT_IN:
        if wanted.shape or wanted.vocabulary:
            raise InvalidInputError(
                "--shape and --tokens are for MODULE:FUNCTION", hint="Here --length sets the input."
            )
        return _built_in(wanted, device)
    if wanted.what.partition(":")[0] and ":" in wanted.what:
        return _factory(wanted)
    raise InvalidInputError(
        f"nothing to measure is called {wanted.what!r}",
        hint=f"Name {BUILT_IN}, MODULE:FUNCTION that returns a torch module, or an .onnx file.",
    )


def way_to(device: Device, word: str, *, is_onnx: bool) -> DeviceBackend:
    """The backend that can run a workload on a device."""
    library = "onnx" if is_onnx else "torch"
    asked = select_backend(device, word)
    if asked is not None and asked.library == library:
        return asked
    for backend in device.backends:
        if backend.library == library and backend.usable:
            return backend
    fix = next((d.fix for d in device.backends if d.library == library and d.fix), "")
    if not is_onnx and importlib.util.find_spec("torch") is None:
        fix = fix or format_install("anyrig[torch]")
        raise MissingPackageError(
            "a torch module needs torch, which is not installed",
            hint=f"{fix}; or name an .onnx file.",
        )
    raise DeviceUnusableError(
        f"{device.name} cannot be used through {'ONNX Runtime' if is_onnx else 'torch'}",
        hint=fix or "Run `anyrig doctor`, or name another --device.",
    )


# -- torch ----------------------------------------------------------------------------------------


def _built_in(wanted: Wanted, device: Device) -> Workload:
    layers, width, heads, inner = _SMALL if device.kind == "cpu" else _LARGE
    length = wanted.length or (_SHORT if device.kind == "cpu" else _LENGTH)

    def make(handle: DeviceHandle, precision: Precision) -> Callable[[int], object]:
        from anyrig.memory.module_step import build_transformer

        model = build_transformer(layers, width, heads, inner)
        return _step(wanted, model, (length, width), handle, precision)

    size = f"{layers} layers, width {width}, length {length}"
    return Workload(f"{_kind(wanted)} of a transformer ({size})", make)


def _factory(wanted: Wanted) -> Workload:
    if not wanted.shape:
        raise InvalidInputError(
            f"{wanted.what} needs the shape of one input",
            hint="Say it with --shape 512,1024, without the batch; --tokens N for token numbers.",
        )

    def make(handle: DeviceHandle, precision: Precision) -> Callable[[int], object]:
        return _step(wanted, _called(wanted.what), wanted.shape, handle, precision)

    shape = " x ".join(map(str, wanted.shape))
    return Workload(f"{_kind(wanted)} of {wanted.what} (input {shape})", make)


def _kind(wanted: Wanted) -> str:
    return "training step with AdamW" if wanted.training else "forward pass"


def _step(
    wanted: Wanted, module: Any, shape: Sequence[int], handle: DeviceHandle, precision: Precision
) -> Callable[[int], object]:
    from anyrig.memory.module_step import build_step

    device: Any = getattr(handle, "device")  # noqa: B009 - only torch's has one
    return build_step(
        module, shape, device,
        training=wanted.training, precision=precision, vocab_size=wanted.vocabulary,
    )  # fmt: skip


def _called(name: str) -> Any:
    """The module that a function of the user's makes."""
    place, _, function = name.partition(":")
    # As with `python -m`: the present folder is searched first.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(place)
    except ImportError as error:
        raise InvalidInputError(
            f"{place} cannot be imported: {error}", hint="Run this where Python finds it."
        ) from error
    except (Exception, SystemExit) as error:
        raise _theirs(f"{place} cannot be imported", error) from error
    factory = getattr(module, function, None)
    if factory is None or not function:
        raise InvalidInputError(
            f"{place} has no {function or 'name'}", hint="Name a function in it."
        )
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise _theirs(f"{name} failed", error) from error
    if not callable(getattr(made, "parameters", None)):
        raise InvalidInputError(
            f"{name} gave {type(made).__name__}, no torch module", hint="It must return one."
        )
    return made


def _theirs(what: str, error: BaseException) -> InvalidInputError:
    """An error of the person's own code or model, in one line."""
    log.debug("%s", what, exc_info=error)
    said = " ".join(str(error).split())[:300]
    return InvalidInputError(f"{what}: {type(error).__name__}: {said}", hint="-vv shows where.")


def checked(work: Workload, step: Callable[[int], object]) -> Callable[[int], object]:
    """A step whose errors are told as the model's own, but for memory that runs out."""
    from anyrig.memory.oom import detect_device_loss, detect_oom

    def run(batch: int) -> object:
        try:
            return step(batch)
        except AnyrigError:
            raise
        except Exception as error:
            if detect_oom(error) is not None or detect_device_loss(error) is not None:
                raise
            raise _theirs(f"the {work.title} failed", error) from error

    return run


# -- ONNX -----------------------------------------------------------------------------------------


def _onnx(wanted: Wanted) -> Workload:
    path = Path(wanted.what)
    if not path.is_file():
        raise InvalidInputError(f"no file {path}", hint="Name an .onnx file that is there.")

    def make(handle: DeviceHandle, precision: Precision) -> Callable[[int], object]:
        from anyrig.backends.onnx import OnnxHandle

        assert isinstance(handle, OnnxHandle)
        try:
            model = handle.load(path)
        except AnyrigError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"{path} cannot be loaded: {str(error).partition(chr(10))[0]}",
                hint="Is it an ONNX model? -vv says more.",
            ) from error
        inputs = [(one.name, one.type, one.shape) for one in model.session.get_inputs()]
        _check_inputs(path, inputs)
        return lambda batch: model.run(_feeds(inputs, batch, wanted))

    return Workload(f"forward pass of {path.name}", make, is_onnx=True)


def _check_inputs(path: Path, inputs: Sequence[tuple[str, str, Sequence[Any]]]) -> None:
    for name, kind, _ in inputs:
        if kind not in _KINDS:
            raise InvalidInputError(
                f"{path}: input {name} is a {kind}", hint="Only plain tensors can be made."
            )
    if not any(shape and not isinstance(shape[0], int) for _, _, shape in inputs):
        raise InvalidInputError(
            f"{path} takes one batch size only: its inputs begin with a fixed number",
            hint="Export it with a dynamic first axis.",
        )


def _feeds(
    inputs: Sequence[tuple[str, str, Sequence[Any]]], batch: int, wanted: Wanted
) -> dict[str, Any]:
    """Inputs of the right shape: noise for floats, ones for whole numbers, valid as any token."""
    import numpy as np

    random = np.random.default_rng(1)
    feeds: dict[str, Any] = {}
    for name, kind, axes in inputs:
        sizes = [axis if isinstance(axis, int) else wanted.length or _SHORT for axis in axes]
        if axes and not isinstance(axes[0], int):
            sizes[0] = batch
        number = np.dtype(_KINDS[kind])
        if number.kind == "f":
            feeds[name] = random.standard_normal(sizes, dtype=np.float32).astype(number)
        else:
            feeds[name] = np.ones(sizes, dtype=number)
    return feeds
