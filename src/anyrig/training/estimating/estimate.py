"""What a training step will take of a device, before anything is loaded and without the device.

A step is run on tensors without data: forward, loss, backward, the optimizer, and all of it again,
because state appears with the first step. `Books` counts what lives. Rules of a GPU that change
memory are followed (`stand_in`), and what its libraries take is added (`workspaces`).

Left out: the driver's own context (hundreds of MiB), what the caching allocator keeps between
tensors, and compiled models, which mostly take less.
"""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import nn

from anyrig.devices.machine import Precision, parse_precision
from anyrig.errors import AnyrigError, InvalidInputError, InvalidSettingError
from anyrig.training.batch import tensors_of
from anyrig.training.estimating.books import Books
from anyrig.training.estimating.hollow import Make, hollow, hollow_batch
from anyrig.training.estimating.stand_in import Casts, gpu_rules
from anyrig.training.estimating.workspaces import constant_bytes, kernel_bytes
from anyrig.training.losses import Loss, LossOutput
from anyrig.units import format_bytes

Recompute = Literal["none", "blocks", "selective"]
OptimizerChoice = str | Callable[..., torch.optim.Optimizer]
_HALF: Mapping[str, torch.dtype] = {
    "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16
}  # fmt: skip
_GPUS = frozenset({"cuda", "xpu", "mps"})
# Metal's attention writes the scores down.
_NO_SCORES = frozenset({"cuda", "xpu"})
_FUSED = frozenset({"adamw", "adam", "sgd", "momentum"})
_STEPS = 2
# Further micro batches take what the second takes.
_MICROS = 2


@dataclass(frozen=True)
class Estimate:
    """What a step takes at its peak, in bytes; the parts add up to it."""

    micro_batch: int
    precision: Precision
    device_type: str
    weights: int
    gradients: int
    state: int
    """The optimizer's."""
    activations: int
    """With the batch, casts of weights, and whatever else lives for a while."""
    workspace: int
    """What libraries take beside tensors."""
    peak: int
    by_phase: Mapping[str, int]
    """The peak of forward, backward and optimise."""
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """One line for a person."""
        parts = ", ".join(
            f"{name} {format_bytes(getattr(self, name))}"
            for name in ("weights", "gradients", "state", "activations", "workspace")
        )
        return f"{format_bytes(self.peak)} at a micro batch of {self.micro_batch} ({parts})"


def estimate(
    model: nn.Module | Make,
    batch: Callable[[int], Any],
    loss: Loss,
    *,
    micro_batch: int = 1,
    num_micro: int = 1,
    precision: Precision = "fp32",
    optimizer: OptimizerChoice = "adamw",
    fused: bool = True,
    recompute: Recompute = "none",
    recompute_types: Sequence[str] = (),
    offload_optimizer: bool = False,
    device_type: str = "cuda",
    capability: str | None = None,
) -> Estimate:
    """The peak of a training step in eager mode.

    Args:
        model: a module, which is left as it is, or what makes one.
        batch: gives a batch of a size; `batch_like(example)` makes such a function.
        loss: of the model and a batch, a scalar, as the Trainer takes it.
        micro_batch: items computed at once.
        num_micro: micro batches in a step; from two on, gradients live during the forward pass.
        precision: as for the Trainer: bf16 and fp16 by autocast, fp8 counted as bf16.
        optimizer: a name that the Trainer knows, or a function of the model's parameter groups.
        fused: whether its kernels are fused; those that are not make copies of the weights.
        recompute: whether activations are computed again.
        recompute_types: class names of the blocks.
        offload_optimizer: its state is in the host's memory.
        device_type: torch's word for the device it is for.
        capability: of a CUDA device, for the size of its libraries' workspaces.
    """
    if micro_batch < 1 or num_micro < 1:
        raise InvalidInputError(
            f"a micro batch of {micro_batch}, {num_micro} of them", hint="Count from 1 up."
        )
    precision = cast("Precision", parse_precision(precision) or precision)
    run = _Run(precision, device_type, offload_optimizer)
    try:
        # A model that must be made with data draws its weights: the caller's draws stay the same.
        with _quiet(), torch.random.fork_rng(devices=[]), _rules(device_type) as casts:
            made, reason = hollow(model, run.mode)
            with run.mode, contextlib.ExitStack() as stack:
                if recompute != "none":
                    stack.enter_context(_recomputed(made, recompute, recompute_types))
                rule = _build_optimizer(made, optimizer, fused, device_type)
                run.steps(made, lambda: batch(micro_batch), loss, rule, num_micro, casts)
    except AnyrigError:
        raise
    except Exception as error:
        raise _cannot(error) from error
    reasons = (reason, *run.reasons)
    return run.told(micro_batch, constant_bytes(device_type, capability), reasons)


class _Run:
    """Steps on tensors without data, and their books."""

    def __init__(self, precision: Precision, device_type: str, state_elsewhere: bool) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        gpu = device_type in _GPUS
        self.books = Books(workspace=kernel_bytes if device_type == "cuda" else None)
        self._precision, self._device_type = precision, device_type
        self._half = _HALF.get(precision)
        self._state_elsewhere = state_elsewhere
        self.reasons = [f"counted by {device_type}'s rules" if gpu else "counted as on a CPU"]

    def steps(
        self,
        model: nn.Module,
        batch: Callable[[], Any],
        loss: Loss,
        rule: torch.optim.Optimizer,
        num_micro: int,
        casts: Casts | None,
    ) -> None:
        """Two steps, as a plain loop runs them."""
        model.train()
        books = self.books
        books.enter([*model.parameters(), *model.buffers()], "weights")
        trained: list[Any] = [one for one in model.parameters() if one.requires_grad]
        hooks = [
            one.register_post_accumulate_grad_hook(
                lambda weight: books.enter([weight.grad], "gradients")
            )
            for one in trained
        ]
        with books:
            for number in range(_STEPS):
                if number:
                    gc.collect()  # what a step leaves in circles is gone before it matters
                for _ in range(min(num_micro, _MICROS)):
                    books.counting = False
                    given = hollow_batch(batch(), self.mode)
                    books.counting = True
                    self._micro(model, given, loss, casts)
                    del given
                books.phase = "optimise"
                rule.step()
                books.enter(_state(rule), "elsewhere" if self._state_elsewhere else "state")
                rule.zero_grad(set_to_none=True)
        for hook in hooks:
            hook.remove()

    def _micro(self, model: nn.Module, batch: Any, loss: Loss, casts: Casts | None) -> None:
        books = self.books
        books.phase = "forward"
        books.enter(tensors_of(batch), "batch")
        with self._autocast():
            found = loss(model, batch)
            value = found.loss if isinstance(found, LossOutput) else found
        if casts is not None:
            casts.forget()
        books.phase = "backward"
        value.backward()  # type: ignore[no-untyped-call]

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self._half is None:
            return contextlib.nullcontext()
        return torch.autocast("cpu", dtype=self._half)

    def told(self, micro_batch: int, constant: int, reasons: tuple[str, ...]) -> Estimate:
        """What the books say."""
        books, at = self.books, self.books.at_peak
        return Estimate(
            micro_batch=micro_batch,
            precision=self._precision,
            device_type=self._device_type,
            weights=at.get("weights", 0),
            gradients=at.get("gradients", 0),
            state=at.get("state", 0),
            activations=at.get("activations", 0) + at.get("batch", 0),
            workspace=at.get("workspace", 0) + constant,
            peak=books.peak_bytes + constant,
            by_phase={name: n + constant for name, n in books.peaks.items() if name},
            reasons=reasons,
        )


def _state(rule: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for held in rule.state.values():
        yield from (one for one in held.values() if isinstance(one, torch.Tensor))


def _build_optimizer(
    model: nn.Module, wanted: OptimizerChoice, fused: bool, device_type: str
) -> torch.optim.Optimizer:
    from anyrig.training.optim import build_optimizer

    quick = fused and wanted in _FUSED and device_type in _GPUS | {"cpu"}
    rule = build_optimizer(wanted, model, fused=quick).optimizer
    if not quick and device_type in _GPUS and "foreach" in rule.defaults:
        # What torch does by itself on a GPU.
        for group in rule.param_groups:
            group["foreach"] = True
    return rule


def _recomputed(model: nn.Module, how: Recompute, types: Sequence[str]) -> Any:
    from anyrig.training.memory import recompute

    if how == "none":
        return contextlib.nullcontext()
    return recompute(model, how, types)


@contextlib.contextmanager
def _rules(device_type: str) -> Iterator[Casts | None]:
    if device_type not in _GPUS:
        yield None
        return
    with gpu_rules(attention=device_type in _NO_SCORES) as casts:
        yield casts


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What models warn of (no CUDA here, no data) says nothing of the real run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _cannot(error: Exception) -> InvalidSettingError:
    said = str(error).strip().splitlines() or [type(error).__name__]
    return InvalidSettingError(
        f"this step cannot be counted without data: {said[0][:200]}",
        hint="A model or loss that reads values (.item(), .any() in an if) can only be measured: "
        "run a profile of it.",
    )
