"""A run put together: device, precision, model, optimiser, step, in the order they need.

Each part is made by its own room or file; here is only who comes after whom, and what is said of
each choice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from anyrig.backends import open_device
from anyrig.errors import InvalidSettingError
from anyrig.precision.policy import PrecisionPolicy
from anyrig.training import optimisers
from anyrig.training.checkpoint import random
from anyrig.training.masters import Masters
from anyrig.training.protocol import Group, Loss, Units, Watch
from anyrig.training.step import Step

if TYPE_CHECKING:
    from anyrig.backends.torch import TorchHandle
    from anyrig.memory.batch_size import BatchSizeResult
    from anyrig.placement import Placement
    from anyrig.precision.policy import FallbackEvent
    from anyrig.training.compiling import Compiled
    from anyrig.training.settings import Settings

OptimiserLike = str | Callable[..., torch.optim.Optimizer] | torch.optim.Optimizer


@dataclass
class Parts:
    """What a run is made of."""

    placement: Placement
    handle: TorchHandle
    group: Group
    model: nn.Module
    optimiser: torch.optim.Optimizer
    applied: PrecisionPolicy
    step: Step
    masters: Masters | None
    reasons: list[str] = field(default_factory=list)
    """Every choice in a sentence."""
    fit: BatchSizeResult | None = None
    """How the micro batch was found, where it was."""
    micro_batch_why: str = ""
    """The micro batch and why it was chosen, unless it was set."""
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Puts back what was set process-wide, and what was changed in the model."""

    def explain_micro_batch(self, why: str) -> None:
        self.micro_batch_why = why
        self.reasons.append(f"micro batch: {why}")

    @property
    def device(self) -> torch.device:
        """Where it computes, in torch's words."""
        return self.handle.device

    @property
    def whole(self) -> nn.Module:
        """What holds the weights that are saved: the masters where there are some."""
        return self.masters or self.model


def assembled(
    model: nn.Module,
    loss: Loss,
    optimizer: OptimiserLike,
    settings: Settings,
    placement: Placement,
    group: Group | None,
    *,
    units: Units | None,
    watch: Watch,
    environment: Mapping[str, str],
) -> Parts:
    """All parts of a run; what was begun is undone when one of them fails."""
    from anyrig.backends.torch import TorchHandle

    handle = open_device(placement.device, placement.backend, threads=placement.threads)
    assert isinstance(handle, TorchHandle)
    reasons = list(placement.reasons)
    with contextlib.ExitStack() as undo:
        _limited(handle, settings, placement, undo, reasons)
        if group is None:
            group = _group(settings, environment, handle.device, reasons)
            undo.callback(group.close)
        random.restore({}, group.rank, handle.device, seed=settings.seed)
        model = model.to(handle.device).train()
        applied = _applied(model, settings, placement, group, watch)
        undo.callback(applied.restore)
        masters = _shaped(model, settings, applied, group, undo, reasons)
        optimiser = _optimiser(masters or model, optimizer, settings, group, model, reasons)
        _tune_loss(loss, settings, applied, reasons)
        compiled = _sped_up(model, loss, settings, handle.device, undo, reasons, watch)
        step = Step(
            model,
            optimiser,
            loss,
            applied,
            handle.device,
            micro_batch=_first_micro(settings, group),
            group=group,
            units=units,
            max_norm=settings.max_norm or None,
            guard=settings.guard,
            masters=masters,
            handle=handle,
            around=_around(settings, model),
            compiled=compiled,
            cuda_graphs=settings.cuda_graphs,
            watch=watch,
        )
        return Parts(
            placement, handle, group, model, optimiser, applied, step, masters, reasons,
            undo=undo.pop_all(),
        )  # fmt: skip


def _limited(
    handle: TorchHandle,
    settings: Settings,
    placement: Placement,
    undo: contextlib.ExitStack,
    reasons: list[str],
) -> None:
    """Hold the framework to what was asked for, so that a run never takes what others need."""
    if (settings.memory_gb or settings.memory_fraction) and placement.budget_bytes:
        held = handle.limit(placement.budget_bytes)
        total = handle.memory().total_bytes
        if held and total:
            undo.callback(handle.limit, total)
        reasons.append(
            "memory: the framework is held to it"
            if held
            else "memory: the framework cannot be held to it; batches are fitted to it"
        )


def _group(
    settings: Settings, environment: Mapping[str, str], device: torch.device, reasons: list[str]
) -> Group:
    from anyrig.training.distributed.joining import open_group

    half = torch.bfloat16 if settings.half_weights else None
    group = open_group(
        settings.strategy, environment, device, shares=settings.shares, param_dtype=half
    )
    if group.size > 1:
        reasons.append(f"process {group.rank + 1} of {group.size}, {type(group).__name__.lower()}")
    return group


def _applied(
    model: nn.Module,
    settings: Settings,
    placement: Placement,
    group: Group,
    watch: Watch,
) -> PrecisionPolicy:
    from anyrig.training.eighths import choose_format

    wide = any(weight.dtype == torch.float64 for weight in model.parameters())
    precision = "fp64" if wide else placement.precision
    device_type = placement.backend.provider
    device_type = {"rocm": "cuda"}.get(device_type, device_type)
    features = placement.device.features

    def moved(event: FallbackEvent) -> None:
        watch.event("precision", f"{event.reason}: on in {event.after}", **event._asdict())

    fallback: Any = None
    if settings.dynamic and precision == "fp16":
        fallback = "bf16" if features.bf16 and placement.device.kind == "gpu" else "fp32"
    return choose_format(
        precision,
        device_type,
        scaler=settings.scaler,
        fallback=fallback,
        fallback_settings=settings.moving,
        on_fallback=moved,
        # Where kernels can call a step off, `Step` guards without a wait.
        skip_nonfinite=settings.guard,
        sync_flag=group.agree if group.size > 1 else None,
    )


def _shaped(
    model: nn.Module,
    settings: Settings,
    applied: PrecisionPolicy,
    group: Group,
    undo: contextlib.ExitStack,
    reasons: list[str],
) -> Masters | None:
    """Cast, recompute, share out; the order matters: shards are made of what is cast."""
    applied.cast_model(model)
    if settings.recompute != "none":
        from anyrig.training.saving.recompute import recompute

        again = recompute(model, settings.recompute, settings.recompute_types)
        undo.enter_context(again)
        reasons.append(f"recompute: {again.reason}")
    masters = None
    if settings.half_weights and not group.lockstep:
        masters = Masters(model)
        undo.callback(masters.give_back)
        reasons.append("weights: computed with in bf16, trained in fp32")
    group.prepare(masters or model)
    if masters is not None:
        masters.publish()  # all processes begin with the first one's
    return masters


def _optimiser(
    held: nn.Module,
    optimizer: OptimiserLike,
    settings: Settings,
    group: Group,
    model: nn.Module,
    reasons: list[str],
) -> torch.optim.Optimizer:
    if isinstance(optimizer, torch.optim.Optimizer) and held is not model:
        raise InvalidSettingError(
            "half_weights trains copies of the weights, which this optimiser does not have",
            hint="Pass the optimiser by name or as a function of the weights.",
        )
    if isinstance(optimizer, torch.optim.Optimizer):
        group.adopt(optimizer)
    made = optimisers.make(
        optimizer,
        held,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        betas=settings.betas,
        momentum=settings.momentum,
        fused=settings.fused_optimizer,
    )
    reasons.append(f"optimiser: {made.reason}")
    if settings.offload_optimizer:
        from anyrig.training.saving.offload_state import offload_state

        offloaded = offload_state(made.optimiser)
        reasons.append("optimiser: its state is kept in the host's memory")
        return offloaded
    return made.optimiser


def _tune_loss(
    loss: Loss, settings: Settings, applied: PrecisionPolicy, reasons: list[str]
) -> None:
    """A loss that can be computed in pieces and in fp8 is told what the settings say."""
    from anyrig.training.head import LanguageLoss

    if isinstance(loss, LanguageLoss):
        loss.chunks = settings.loss_chunks
        loss.eighths = applied.precision == "fp8"
        reasons.append(f"loss: in pieces ({settings.loss_chunks})")


def _sped_up(
    model: nn.Module,
    loss: Loss,
    settings: Settings,
    device: torch.device,
    undo: contextlib.ExitStack,
    reasons: list[str],
    watch: Watch,
) -> Compiled:
    from anyrig.training.compiling import compile_model
    from anyrig.training.graphs import cudnn_benchmark

    core = getattr(loss, "core", None)
    target = core(model) if core is not None else model
    compiled = compile_model(
        target, settings.compile, device.type, tell=lambda text: watch.event("compile", text)
    )
    reasons.append(f"compile: {compiled.reason}")
    undo.enter_context(compiled)
    search = undo.enter_context(cudnn_benchmark(settings.cudnn_benchmark, device.type, fixed=True))
    reasons.append(f"cuDNN: {search.reason}")
    return compiled


def _around(settings: Settings, model: nn.Module) -> AbstractContextManager[object] | None:
    if not settings.offload_activations:
        return None
    from anyrig.training.saving.offload import offload_activations

    return offload_activations(model.parameters())


def _first_micro(settings: Settings, group: Group) -> int:
    most = -(-settings.batch // group.size)
    return most if settings.micro_batch == "auto" else min(settings.micro_batch, settings.batch)
