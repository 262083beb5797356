"""Memory and speed of a model by batch size, and the largest batch that fits."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.app.compute import ComputeOptions, place, test_device
from anyrig.app.files import check_writable
from anyrig.devices.choose import select_backend
from anyrig.errors import (
    MORE_DETAILS,
    AnyrigError,
    DeviceUnusableError,
    InvalidInputError,
    Message,
    MissingPackageError,
    OptionRef,
)
from anyrig.events import OnEvent, ProgressEvent
from anyrig.install import format_install
from anyrig.options import option

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.backends import DeviceHandle
    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.machine import Device, DeviceBackend, Precision
    from anyrig.memory.batch_size import BatchSizeResult
    from anyrig.placement import Placement

log = logging.getLogger(__name__)
BUILT_IN = "transformer"
# Layers, width, heads and inner width. On a CPU the large one would take minutes a step.
_LARGE, _SMALL = (8, 1024, 16, 4096), (2, 256, 4, 1024)
_LENGTH, _SHORT_LENGTH = 1024, 128
_NUMPY_TYPES = {
    "tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64",
    "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(bool)": "bool",
    "tensor(uint8)": "uint8", "tensor(int8)": "int8",
}  # fmt: skip
BuildStep = Callable[["DeviceHandle", "Precision"], Callable[[int], object]]


@dataclass(frozen=True, kw_only=True)
class ProfileRequest(ComputeOptions):
    """Profiling."""

    what: str = option(
        BUILT_IN, f"{BUILT_IN} (the default), MODULE:FUNCTION that returns a torch module, or an"
        " .onnx file", positional=True, metavar="WHAT",
    )  # fmt: skip
    inference: bool = option(False, "the forward pass instead of a training step")
    shape: tuple[int, ...] = option(
        (), "shape of one input of MODULE:FUNCTION, without the batch", ge=1, metavar="N,N"
    )
    tokens: int | None = option(None, "inputs are token ids below N instead of floats", ge=1)
    length: int | None = option(
        None, "sequence length; also of other dynamic axes of an .onnx file", ge=1
    )
    sizes: tuple[int, ...] = option(
        (), "batch sizes to measure; default: 1, 2, 4, ... while they fit", ge=1,
        metavar="N,N",
    )  # fmt: skip
    most: int | None = option(None, "largest batch size to try", ge=1)
    longest: float = option(
        30.0, "maximum seconds per step; default 30", gt=0, unit="seconds", metavar="S"
    )
    plot: Path | None = option(None, "also write a plot as SVG", http=False, metavar="FILE")
    workers_per_device: int | None = option(1, flag=False, http=False)


@dataclass(frozen=True)
class BatchSizeProfile:
    """What was measured."""

    device: Device
    backend: DeviceBackend
    title: str
    precision: str
    budget_bytes: int | None
    budget_reason: str
    sizes: BatchSizeResult

    def to_json(self) -> dict[str, Any]:
        sizes = self.sizes
        return {
            "device": self.device.id,
            "backend": self.backend.library,
            "what": self.title,
            "precision": self.precision,
            "budget_bytes": self.budget_bytes,
            "budget_reason": self.budget_reason,
            "batch": sizes.batch_size,
            "reason": sizes.reason,
            "fastest": sizes.fastest.size,
            "items_per_s": sizes.best.rate,
            "peak_bytes": sizes.best.peak_bytes,
            "out_of_memory": sizes.num_out_of_memory,
            "tries": [{**asdict(one), "items_per_s": one.rate} for one in sizes.trials],
        }


@dataclass(frozen=True)
class _Target:
    """A model to run at any batch size."""

    title: str
    build_step: BuildStep
    """Called once the device is held to its memory budget."""
    is_onnx: bool = False


def profile(rig: Rig, request: ProfileRequest, on_event: OnEvent) -> BatchSizeProfile:
    """Run a model at growing batch sizes; running out of memory at some size is part of it."""
    from anyrig.backends import open_device
    from anyrig.memory.batch_size import sweep_batch_sizes

    if request.plot is not None:
        check_writable(request.plot)
    first = rig.preview_device(request)  # what cannot run is reported before anything is measured
    _find_backend(first.device, first.selector, _find_target(request, first.device))
    choice = rig.choose_device(request)
    target = _find_target(request, choice.device)
    placement = _place(rig, request, choice, target)
    handle = open_device(placement.device, placement.backend, threads=placement.threads)
    test_device(rig, placement, request)
    has_limit = request.memory_gb is not None or request.memory_fraction is not None
    if has_limit and placement.budget_bytes is not None:
        handle.limit(placement.budget_bytes)

    def report(text: str, done: int, total: int) -> None:
        on_event(ProgressEvent("profiling", done, max(total, done + 1), text))

    sizes = [size for size in request.sizes if request.most is None or size <= request.most]
    found = sweep_batch_sizes(
        _with_model_errors(target, target.build_step(handle, placement.precision)),
        handle,
        sizes=sizes or (request.sizes and [1]),
        budget_bytes=placement.budget_bytes,
        max_size=request.most,
        max_trial_s=request.longest,
        on_progress=report,
    )
    precision = "as in the file" if target.is_onnx else placement.precision
    result = build_profile(placement, target.title, precision, found)
    if request.plot is not None:
        write_plot(result, request.plot)
    return result


def build_profile(
    placement: Placement, title: str, precision: str, sizes: BatchSizeResult
) -> BatchSizeProfile:
    return BatchSizeProfile(
        placement.device, placement.backend, title, precision, placement.budget_bytes,
        placement.budget_reason, sizes,
    )  # fmt: skip


def write_plot(result: BatchSizeProfile, path: Path) -> None:
    from anyrig.memory.batch_size import plot_profile
    from anyrig.storage.files import write_atomic

    subtitle = f"{result.title}, {result.precision}, on {result.device.name}"
    write_atomic(path, plot_profile(result.sizes, subtitle))


def _place(rig: Rig, request: ProfileRequest, choice: DeviceChoice, target: _Target) -> Placement:
    from anyrig.placement import Workload

    backend = _find_backend(choice.device, choice.selector, target)
    formats: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
    if target.is_onnx:
        formats = ("fp32",)
        if request.precision != "auto":
            rig.warn(
                Message(
                    "{precision} is ignored: an .onnx file has its own precision",
                    precision=OptionRef("precision"),
                )
            )
            request = replace(request, precision="auto")
    workload = Workload(target.title, (backend.library,), formats, training=not request.inference)
    one = replace(choice, devices=(choice.device,))
    return place(rig, one, workload, request).placements[0]


def _find_backend(device: Device, selector: str, target: _Target) -> DeviceBackend:
    library = "onnx" if target.is_onnx else "torch"
    requested = select_backend(device, selector)
    if requested is not None and requested.library == library:
        return requested
    for backend in device.backends:
        if backend.library == library and backend.usable:
            return backend
    fix = next((one.fix for one in device.backends if one.library == library and one.fix), "")
    if not target.is_onnx and importlib.util.find_spec("torch") is None:
        raise MissingPackageError(
            "a torch module needs torch, which is not installed",
            hint=f"{fix or format_install('anyrig[torch]')}; or profile an .onnx file.",
        )
    raise DeviceUnusableError(
        f"{'ONNX Runtime' if target.is_onnx else 'torch'} cannot use {device.name}",
        hint=fix
        or Message("Run `anyrig doctor`, or choose another {device}.", device=OptionRef("device")),
    )


def _find_target(request: ProfileRequest, device: Device) -> _Target:
    what = request.what
    if what.endswith(".onnx"):
        return _find_onnx_model(request)
    if what == BUILT_IN:
        if request.shape or request.tokens:
            raise InvalidInputError(
                Message(
                    "{shape} and {tokens} are for MODULE:FUNCTION",
                    shape=OptionRef("shape"),
                    tokens=OptionRef("tokens"),
                ),
                hint=Message(
                    "Set the length of the input with {length}.", length=OptionRef("length")
                ),
            )
        return _find_built_in(request, device)
    if ":" in what and what.partition(":")[0]:
        return _find_function(request)
    raise InvalidInputError(
        f"unknown model {what!r}",
        hint=f"Name {BUILT_IN}, MODULE:FUNCTION that returns a torch module, or an .onnx file.",
    )


def _with_model_errors(target: _Target, step: Callable[[int], object]) -> Callable[[int], object]:
    """Report errors of a step as the model's own, except for a lack of memory."""
    from anyrig.memory.oom import detect_device_loss, detect_oom

    def run(batch: int) -> object:
        try:
            return step(batch)
        except AnyrigError:
            raise
        except Exception as error:
            if detect_oom(error) is not None or detect_device_loss(error) is not None:
                raise
            raise _model_error(f"the {target.title} failed", error) from error

    return run


def _model_error(what: str, error: BaseException) -> InvalidInputError:
    """An error of the user's own code or model, in one line."""
    log.debug("%s", what, exc_info=error)
    message = " ".join(str(error).split())[:300]
    return InvalidInputError(f"{what}: {type(error).__name__}: {message}", hint=MORE_DETAILS)


# -- torch -----------------------------------------------------------------------------------------


def _find_built_in(request: ProfileRequest, device: Device) -> _Target:
    layers, width, heads, inner = _SMALL if device.kind == "cpu" else _LARGE
    length = request.length or (_SHORT_LENGTH if device.kind == "cpu" else _LENGTH)

    def build(handle: DeviceHandle, precision: Precision) -> Callable[[int], object]:
        from anyrig.memory.module_step import build_transformer

        model = build_transformer(layers, width, heads, inner)
        return _build_module_step(request, model, (length, width), handle, precision)

    size = f"{layers} layers, width {width}, length {length}"
    return _Target(f"{_describe_step(request)} of a transformer ({size})", build)


def _find_function(request: ProfileRequest) -> _Target:
    if not request.shape:
        raise InvalidInputError(
            f"{request.what} needs the shape of one input",
            hint=Message(
                "Pass {shape}, without the batch; {tokens} for token ids.",
                shape=OptionRef("shape", "512,1024"),
                tokens=OptionRef("tokens"),
            ),
        )

    def build(handle: DeviceHandle, precision: Precision) -> Callable[[int], object]:
        module = _call_function(request.what)
        return _build_module_step(request, module, request.shape, handle, precision)

    shape = " x ".join(map(str, request.shape))
    return _Target(f"{_describe_step(request)} of {request.what} (input {shape})", build)


def _describe_step(request: ProfileRequest) -> str:
    return "forward pass" if request.inference else "training step with AdamW"


def _build_module_step(
    request: ProfileRequest,
    module: Any,
    shape: Sequence[int],
    handle: DeviceHandle,
    precision: Precision,
) -> Callable[[int], object]:
    from anyrig.memory.module_step import build_step

    device: Any = getattr(handle, "device")  # noqa: B009 - only torch's has one
    return build_step(
        module, shape, device, training=not request.inference, precision=precision,
        vocab_size=request.tokens,
    )  # fmt: skip


def _call_function(name: str) -> Any:
    """The torch module that a function of the user's returns."""
    place, _, function = name.partition(":")
    # As with `python -m` the working directory is searched first, but for this module alone:
    # nothing there may shadow what is imported later.
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(place)
    except ImportError as error:
        raise InvalidInputError(
            f"cannot import {place}: {error}", hint="Run this where Python finds the module."
        ) from error
    except (Exception, SystemExit) as error:
        raise _model_error(f"cannot import {place}", error) from error
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)
    factory = getattr(module, function, None)
    if factory is None or not function:
        raise InvalidInputError(
            f"{place} has no {function or 'such name'}", hint="Name a function of the module."
        )
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise _model_error(f"{name} failed", error) from error
    if not callable(getattr(made, "parameters", None)):
        raise InvalidInputError(
            f"{name} returned {type(made).__name__}, not a torch module",
            hint="It must return a torch.nn.Module.",
        )
    return made


# -- ONNX ------------------------------------------------------------------------------------------


def _find_onnx_model(request: ProfileRequest) -> _Target:
    path = Path(request.what)
    if not path.is_file():
        raise InvalidInputError(f"file not found: {path}", hint="Check the path.")

    def build(handle: DeviceHandle, precision: Precision) -> Callable[[int], object]:
        from anyrig.backends.onnx import OnnxHandle

        assert isinstance(handle, OnnxHandle)
        try:
            model = handle.load(path)
        except AnyrigError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"cannot load {path}: {str(error).partition(chr(10))[0]}",
                hint=Message("Check that it is an ONNX model. {more}", more=MORE_DETAILS),
            ) from error
        inputs = [(one.name, one.type, one.shape) for one in model.session.get_inputs()]
        _check_inputs(path, inputs)
        return lambda batch: model.run(_build_inputs(inputs, batch, request))

    return _Target(f"forward pass of {path.name}", build, is_onnx=True)


def _check_inputs(path: Path, inputs: Sequence[tuple[str, str, Sequence[Any]]]) -> None:
    for name, kind, _ in inputs:
        if kind not in _NUMPY_TYPES:
            raise InvalidInputError(
                f"{path}: input {name} is a {kind}", hint="Only plain tensors are supported."
            )
    if not any(shape and not isinstance(shape[0], int) for _, _, shape in inputs):
        raise InvalidInputError(
            f"{path} has a fixed batch size", hint="Export it with a dynamic first axis."
        )


def _build_inputs(
    inputs: Sequence[tuple[str, str, Sequence[Any]]], batch: int, request: ProfileRequest
) -> dict[str, Any]:
    """Noise for floats, ones for integers, which are valid as any token."""
    import numpy as np

    random = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for name, kind, axes in inputs:
        sizes = [
            axis if isinstance(axis, int) else request.length or _SHORT_LENGTH for axis in axes
        ]
        if axes and not isinstance(axes[0], int):
            sizes[0] = batch
        dtype = np.dtype(_NUMPY_TYPES[kind])
        if dtype.kind == "f":
            arrays[name] = random.standard_normal(sizes, dtype=np.float32).astype(dtype)
        else:
            arrays[name] = np.ones(sizes, dtype=dtype)
    return arrays
