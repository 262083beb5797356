"""What a training loop of one's own needs of a device: memory, batch sizes, precision, a model that
is put there.

    model = prepare_model(model, compile=True)
    size = find_batch_size(model, (784,), memory_gb=8.0)
    precision = MixedPrecision("float16")
    for inputs, targets in loader:
        with precision.autocast():
            loss = criterion(model(inputs), targets)
        precision.backward(loss, optimizer)
        precision.step(optimizer)

`device` is a selector such as `cuda:1`, everywhere; None is the best device. `cuda` and `gpu` are
the CPU, with a warning, where there is no GPU.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.backends import open_device
from anyrig.backends.memory import MemoryUsage, read_torch_memory, trim_heap
from anyrig.backends.torch import TorchHandle, find_torch_device
from anyrig.devices.machine import Precision
from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.memory import batch_size, recovery
from anyrig.memory.batch_size import BatchSizeResult
from anyrig.memory.module_step import build_step
from anyrig.monitor import DeviceSample, Monitor
from anyrig.placement import Placement
from anyrig.precision.policy import make_policy
from anyrig.precision.scaler import Optimizers, StepOutcome
from anyrig.storage.files import write_atomic
from anyrig.training.compile import Compiled, CompileOption, compile_model
from anyrig.training.config import TrainConfig, choose_placement
from anyrig.training.step import StepSnapshot
from anyrig.units import format_bytes

log = logging.getLogger(__name__)
_MAX_SIZE = 1 << 16
_MAX_TRIAL_S = 20.0
_MAX_REQUESTED_S = 3600.0
"""Of a size that was asked for: a first, small one is slow, and would end the profile."""


# -- memory ----------------------------------------------------------------------------------------


def gpu_info() -> list[DeviceSample]:
    """Load, memory, power and temperature of each GPU, now; empty where there is none.

    `memory_used_bytes` is the card's, by all processes; `memory_allocated_bytes`,
    `memory_reserved_bytes` and `memory_cached_bytes` are those of torch in this process.
    """
    monitor = Monitor()
    try:
        samples = monitor.sample().devices
    finally:
        monitor.stop()
    return [sample for sample in samples if sample.device != "cpu"]


def memory_usage(device: str | torch.device | None = None) -> MemoryUsage:
    """What this process uses of a device: allocated, reserved, cached, the peaks, free and total.

    On a CPU it is the process's resident memory.
    """
    placement = _choose_placement(_selector(device))
    usage = read_torch_memory(placement.device)
    return _open(_selector(device)).memory() if usage is None else usage


def release_memory(device: str | torch.device | None = None) -> int:
    """Collect garbage and return what torch only caches to the device; how many bytes that freed.

    Tensors that are still referred to stay.
    """
    before = memory_usage(device).reserved_bytes or 0
    if before:
        handle = _open(_selector(device))
        recovery.release_memory(handle)
        if handle.on_host:
            trim_heap()
    else:
        gc.collect()
    return max(0, before - (memory_usage(device).reserved_bytes or 0))


def _selector(device: str | torch.device | None) -> str | None:
    return None if device is None else str(device)


@functools.cache
def _choose_placement(selector: str | None) -> Placement:
    return choose_placement(TrainConfig(), selector)


@functools.cache
def _open(selector: str | None) -> TorchHandle:
    """One for the whole process: on a CPU a second one would forget the peak."""
    placement = _choose_placement(selector)
    handle = open_device(placement.device, placement.backend)
    assert isinstance(handle, TorchHandle)
    return handle


# -- a model on a device ---------------------------------------------------------------------------


def prepare_model(
    model: nn.Module,
    device: str | torch.device | None = None,
    *,
    compile: CompileOption = "auto",
    channels_last: bool = False,
) -> nn.Module:
    """The same model on a device, compiled, with its images in channels-last order.

    Args:
        model: changed in place; make the optimizer before or after.
        device: where it will run.
        compile: use torch.compile, or eager mode if that fails; `auto`: where a GPU gains from it.
        channels_last: the memory order of images that tensor cores prefer.
    """
    placement = choose_placement(TrainConfig(), _selector(device))
    where = find_torch_device(placement.device, placement.backend)
    model.to(where)
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in stubs
    compiled = compile_model(
        model, compile, where.type, on_message=lambda text: log.warning("%s", text)
    )
    if compiled.used:
        model._compiled_call_impl = _CompiledCall(model, compiled)
    log.info("%s on %s: %s", type(model).__name__, where, compiled.reason)
    return model


class _CompiledCall:
    """A compiled model's call, which runs as it was written from the moment compiling fails."""

    def __init__(self, model: nn.Module, compiled: Compiled) -> None:
        self._compiled = compiled
        self._fast: Callable[..., Any] = model._compiled_call_impl  # type: ignore[assignment]
        self._plain: Callable[..., Any] = model._call_impl

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._fast(*args, **kwargs)
        except Exception as error:
            if not self._compiled.falls_back(error):
                raise
        return self._plain(*args, **kwargs)


# -- batch sizes -----------------------------------------------------------------------------------


def find_batch_size(
    model: nn.Module,
    shape: Sequence[int],
    *,
    memory_gb: float = 0.0,
    memory_fraction: float = 0.0,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype = "auto",
    training: bool = True,
    vocab_size: int | None = None,
    max_size: int = _MAX_SIZE,
) -> int:
    """The largest batch that fits, by running a few sizes without torch.compile; the model is left
    as it was.

    Args:
        model: takes one tensor.
        shape: of one input, without the batch.
        memory_gb: use at most this many GiB; 0: by `memory_fraction`.
        memory_fraction: use at most this fraction of the device's memory; 0: what is free.
        device: where it runs.
        dtype: float32, bfloat16 or float16; `auto`: what the device trains in best.
        training: forward, backward and AdamW; else the forward pass alone.
        vocab_size: inputs are token ids below this instead of floats.
        max_size: no larger size than this.

    Raises:
        OutOfMemoryError: not even a batch of one fits.
    """
    options = _TrialOptions(memory_gb, memory_fraction, str(device or ""), str(dtype))
    with _open_trials(model, shape, options, training, vocab_size) as trials:
        found = batch_size.find_batch_size(
            trials.step, trials.handle, budget_bytes=trials.placement.budget_bytes,
            max_size=max_size, start=min(trials.least, max_size), max_trial_s=_MAX_TRIAL_S,
        )  # fmt: skip
    log.info("batch size %d: %s", found.batch_size, found.reason)
    return found.batch_size


class MemoryProfile(Mapping[int, int]):
    """Batch sizes and the peak memory of each, in bytes. `print` shows a table, `plot` draws it."""

    def __init__(self, result: BatchSizeResult, subtitle: str) -> None:
        self.result, self.subtitle = result, subtitle
        """Each trial with its time, and the largest size that worked."""
        self._peaks = {
            one.size: one.peak_bytes
            for one in sorted(result.trials, key=lambda one: one.size)
            if one.ran and one.peak_bytes is not None
        }

    def __getitem__(self, size: int) -> int:
        return self._peaks[size]

    def __iter__(self) -> Iterator[int]:
        return iter(self._peaks)

    def __len__(self) -> int:
        return len(self._peaks)

    def __str__(self) -> str:
        rows = [("batch size", "peak memory", "items/s")]
        for one in sorted(self.result.trials, key=lambda one: one.size):
            peak = format_bytes(one.peak_bytes) if one.peak_bytes is not None else "not reported"
            rate = f"{one.rate:.4g}" if one.rate else ""
            rows.append((str(one.size), peak if one.ran else one.outcome, rate))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in rows]
        return "\n".join([self.subtitle, *lines])

    def plot(self, path: Path | str | None = None) -> str:
        """An SVG document of memory and speed by batch size, also written to a file if named."""
        text = batch_size.plot_profile(self.result, self.subtitle)
        if path is not None:
            if Path(path).suffix != ".svg":
                raise InvalidSettingError(
                    f"{path} does not end in .svg", hint="The picture is an SVG document."
                )
            write_atomic(Path(path), text)
        return text

    def _repr_svg_(self) -> str:  # a notebook shows it
        return self.plot()


def profile_memory(
    model: nn.Module,
    shape: Sequence[int],
    *,
    sizes: Sequence[int] = (),
    memory_gb: float = 0.0,
    memory_fraction: float = 0.0,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype = "auto",
    training: bool = True,
    vocab_size: int | None = None,
) -> MemoryProfile:
    """Run batch sizes and read the peak memory of each; the model is left as it was.

    Args:
        sizes: what to run, until one fails; by default powers of two.

    The others are those of `find_batch_size`.
    """
    options = _TrialOptions(memory_gb, memory_fraction, str(device or ""), str(dtype))
    with _open_trials(model, shape, options, training, vocab_size) as trials:
        placement, requested = trials.placement, bool(sizes)
        if trials.least > 1 and not sizes:
            sizes = [1 << power for power in range(1, _MAX_SIZE.bit_length())]
        found = batch_size.sweep_batch_sizes(
            trials.step, trials.handle, sizes=sizes, budget_bytes=placement.budget_bytes,
            max_trial_s=_MAX_REQUESTED_S if requested else _MAX_TRIAL_S,
        )  # fmt: skip
    what = "training step" if training else "forward pass"
    subtitle = f"{type(model).__name__}, {what} in {placement.precision}, {placement.device.name}"
    return MemoryProfile(found, subtitle)


class _TrialOptions(NamedTuple):
    memory_gb: float
    memory_fraction: float
    device: str
    dtype: str


class _Trials(NamedTuple):
    step: Callable[[int], None]
    handle: TorchHandle
    placement: Placement
    least: int
    """The smallest size that can run."""


@contextlib.contextmanager
def _open_trials(
    model: nn.Module,
    shape: Sequence[int],
    options: _TrialOptions,
    training: bool,
    vocab_size: int | None,
) -> Iterator[_Trials]:
    config = TrainConfig(
        precision=options.dtype, memory_gb=options.memory_gb,
        memory_fraction=options.memory_fraction,
    )  # fmt: skip
    placement = choose_placement(config, options.device or None)
    handle = open_device(placement.device, placement.backend)
    assert isinstance(handle, TorchHandle)
    total = handle.memory().total_bytes
    budget = placement.budget_bytes if options.memory_gb or options.memory_fraction else None
    with contextlib.ExitStack() as stack:
        if budget and total and handle.limit(budget):
            stack.callback(handle.limit, total)
        stack.callback(handle.release)
        stack.enter_context(_preserved_model(model, handle.device))
        if any(one._compiled_call_impl is not None for one in model.modules()):
            # Each size would be compiled by itself, for longer than all trials together take.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        step = build_step(
            model, shape, handle.device, training=training, precision=placement.precision,
            vocab_size=vocab_size,
        )  # fmt: skip
        norms = any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in model.modules())
        yield _Trials(step, handle, placement, least=2 if training and norms else 1)


@contextlib.contextmanager
def _preserved_model(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Put weights, buffers, gradients, modes and random numbers back; weights wait on the host."""
    weights = [
        (one, one.device, one.detach().to("cpu", copy=True), one.grad) for one in model.parameters()
    ]
    modes = [(module, module.training) for module in model.modules()]
    snapshot = StepSnapshot(device, model)
    snapshot.take()
    for one in model.parameters():
        one.grad = None
    try:
        yield
    finally:
        snapshot.restore()
        for weight, where, values, gradient in weights:
            weight.data = values.to(where)
            weight.grad = gradient
        for module, mode in modes:
            module.training = mode


# -- precision -------------------------------------------------------------------------------------


class MixedPrecision:
    """Autocast, backward pass and optimizer step in one format, the same calls for all of them.

    A step whose gradients are not finite is skipped, in every format; fp16 scales its loss.

    Args:
        dtype: float16, bfloat16, float32 or tf32, as a name or of torch; `auto`: what the device
            trains in best.
        device: where the model is.
    """

    def __init__(
        self, dtype: str | torch.dtype = "auto", device: str | torch.device | None = None
    ) -> None:
        config = TrainConfig(precision=str(dtype))
        placement = choose_placement(config, _selector(device))
        if placement.precision == "fp8":
            raise InvalidInputError(
                "fp8 is available in the Trainer only", hint='Use MixedPrecision("bfloat16").'
            )
        where = {"rocm": "cuda"}.get(placement.backend.provider, placement.backend.provider)
        self.policy = make_policy(placement.precision, where, training=True, skip_nonfinite=True)
        self._stepped: set[int] = set()
        """Optimizers whose gradients are those of a step that is done."""

    @property
    def precision(self) -> Precision:
        return self.policy.precision

    def autocast(self) -> AbstractContextManager[object]:
        """The context in which the forward pass and the loss run."""
        return self.policy.autocast()

    def backward(self, loss: torch.Tensor, optimizer: Optimizers | None = None) -> None:
        """Run the backward pass.

        With the optimizer, its gradients of the step before are dropped first; those of earlier
        calls since that step add up.
        """
        for one in _as_list(optimizer):
            if id(one) in self._stepped:
                one.zero_grad()
                self._stepped.discard(id(one))
        self.policy.backward(loss)

    def step(self, optimizer: Optimizers, max_norm: float | None = None) -> StepOutcome:
        """Clip to `max_norm`, and step; or skip the step where gradients are not finite."""
        outcome = self.policy.step(optimizer, None, max_norm)
        self._stepped.update(id(one) for one in _as_list(optimizer))
        return outcome

    def state_dict(self) -> dict[str, Any]:
        return self.policy.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.policy.load_state_dict(state)


def _as_list(optimizer: Optimizers | None) -> Sequence[torch.optim.Optimizer]:
    if optimizer is None:
        return ()
    return (optimizer,) if isinstance(optimizer, torch.optim.Optimizer) else optimizer
