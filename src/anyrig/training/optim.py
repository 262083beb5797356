"""Optimizers by name, their state before the first step, and learning rates.

Weight decay is for matrices, embeddings included (a row that is never looked up shrinks slowly, as
in GPT-2's and most others' training), and not for biases, norms and other vectors. A tied weight
is in one group once; frozen ones are in none.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from anyrig.errors import InvalidInputError, InvalidSettingError
from anyrig.memory.oom import detect_oom
from anyrig.training.config import Schedule
from anyrig.units import pluralize

Factory: TypeAlias = Callable[..., torch.optim.Optimizer]
NAMES = ("adamw", "adam", "sgd", "momentum", "adafactor")
_FUSED = frozenset({"adamw", "adam", "sgd", "momentum"})
# torch names plug-in devices as well, but DirectML, one of them, has no such kernels.
_FUSED_DEVICES = frozenset({"cuda", "xpu", "mps", "cpu"})
_NORMS = (
    nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase,
    nn.LocalResponseNorm,
)  # fmt: skip


class BuiltOptimizer(NamedTuple):
    """An optimizer, and why it is as it is."""

    optimizer: torch.optim.Optimizer
    reason: str


class WeightSplit(NamedTuple):
    """Weights with decay and without."""

    decayed: list[torch.Tensor]
    spared: list[torch.Tensor]


def build_optimizer(
    requested: str | Factory | torch.optim.Optimizer,
    model: nn.Module,
    *,
    learning_rate: float = 3e-4,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.95),
    momentum: float = 0.9,
    fused: bool | Literal["auto"] = "auto",
) -> BuiltOptimizer:
    """An optimizer for a model's weights.

    Args:
        requested: one of `NAMES`; torch's or your own optimizer class; a function of the groups; or
            an optimizer, which is checked and taken as it is.
        model: whose weights are trained.
        learning_rate: the peak of a schedule.
        weight_decay: of matrices.
        betas: of the Adam family.
        momentum: of `momentum`.
        fused: one kernel for all weights; `auto` where a small trial of it works.
    """
    split = split_weights(model)
    if isinstance(requested, torch.optim.Optimizer):
        return BuiltOptimizer(requested, _describe_given(requested, split))
    if not (split.decayed or split.spared):
        raise InvalidInputError(
            "the model has no weights to train", hint="Set requires_grad on those that should be."
        )
    groups = build_groups(split, weight_decay)
    if not isinstance(requested, str) and not callable(requested):
        raise InvalidSettingError(
            f"the optimizer is a {type(requested).__name__}",
            hint="Pass one optimizer, a name, a class or a function of the weights. Several, as in "
            "a GAN, take a loop of your own: anyrig.training.MixedPrecision steps each.",
        )
    if not isinstance(requested, str):
        return BuiltOptimizer(
            _call_factory(requested, groups, learning_rate, split),
            f"{_name_factory(requested)}, as given",
        )
    options = _optimizer_options(requested, learning_rate, betas, momentum)
    quick, why = _choose_fused(requested, fused, split, model)
    if quick:
        options["fused"] = True
    optimizer = _CLASSES[requested](groups, **options)
    decay = f"weight decay {weight_decay:g} on {pluralize(len(split.decayed), 'weight')}"
    return BuiltOptimizer(optimizer, f"{requested}, {why}; {decay}, none on {len(split.spared)}")


_CLASSES: Mapping[str, Factory] = {
    "adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD,
    "momentum": torch.optim.SGD, "adafactor": torch.optim.Adafactor,
}  # fmt: skip


def _optimizer_options(
    name: str, learning_rate: float, betas: tuple[float, float], momentum: float
) -> dict[str, Any]:
    if name not in NAMES:
        near = difflib.get_close_matches(name.lower(), NAMES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Valid names: {', '.join(NAMES)}."
        raise InvalidSettingError(f"unknown optimizer {name!r}", hint=hint)
    options: dict[str, Any] = {"lr": learning_rate}
    if name in ("adamw", "adam"):
        options["betas"] = betas
    if name == "momentum":
        options["momentum"] = momentum
    return options


# -- groups ----------------------------------------------------------------------------------------


def split_weights(model: nn.Module) -> WeightSplit:
    """The weights to train, with and without decay, each once."""
    norms = {
        id(weight)
        for module in model.modules()
        if isinstance(module, _NORMS)
        for weight in module.parameters(recurse=False)
    }
    split = WeightSplit([], [])
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            spare = weight.dim() < 2 or name.endswith("bias") or id(weight) in norms
            (split.spared if spare else split.decayed).append(weight)
    return split


def build_groups(split: WeightSplit, weight_decay: float) -> list[dict[str, Any]]:
    """Groups as an optimizer takes them; an empty one is left out."""
    groups = [
        {"params": split.decayed, "weight_decay": weight_decay},
        {"params": split.spared, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _describe_given(optimizer: torch.optim.Optimizer, split: WeightSplit) -> str:
    optimized = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    ours = {id(weight) for weight in (*split.decayed, *split.spared)}
    if ours and not optimized & ours:
        raise InvalidInputError(
            "the optimizer has none of the model's weights",
            hint="Make it of the parameters of this very model, after the model was last changed.",
        )
    left = len(ours - optimized)
    note = (
        f"; {pluralize(left, 'trainable weight')} are not in it and stay as they are"
        if left
        else ""
    )
    return f"{type(optimizer).__name__}, as given{note}"


def _call_factory(
    factory: Factory, groups: list[dict[str, Any]], learning_rate: float, split: WeightSplit
) -> torch.optim.Optimizer:
    options: dict[str, Any] = {}
    with contextlib.suppress(TypeError, ValueError):  # some built-ins have no signature
        if "lr" in inspect.signature(factory).parameters:
            options["lr"] = learning_rate
    optimizer = factory(groups, **options)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidInputError(
            f"{_name_factory(factory)} made {type(optimizer).__name__}, which is not an optimizer",
            hint="It is given groups of weights and must return a torch.optim.Optimizer.",
        )
    _describe_given(optimizer, split)
    return optimizer


def _name_factory(factory: Factory) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


# -- fused kernels ---------------------------------------------------------------------------------


def _choose_fused(
    name: str, requested: bool | Literal["auto"], split: WeightSplit, model: nn.Module
) -> tuple[bool, str]:
    """Whether fused kernels are used, and why in words."""
    if requested is False:
        return False, "not fused, as set"
    why_not = _why_not_fused(name, split, model)
    if not why_not:
        return True, "fused"
    if requested is True:
        return False, f"not fused although requested: {why_not}"
    return False, f"not fused: {why_not}"


def _why_not_fused(name: str, split: WeightSplit, model: nn.Module) -> str:
    if name not in _FUSED:
        return f"torch has no fused {name}"
    if any(getattr(one, "sparse", False) for one in model.modules()):
        return "an embedding gives sparse gradients"
    kinds: dict[Any, torch.Tensor] = {}
    for weight in sorted((*split.decayed, *split.spared), key=torch.numel):
        kinds.setdefault((weight.device, weight.dtype), weight)
    for weight in kinds.values():
        if weight.device.type not in _FUSED_DEVICES:
            return f"{weight.device.type} has no fused kernels"
        why_not = _try_fused(name, weight)
        if why_not:
            return why_not
    return ""


def _try_fused(name: str, like: torch.Tensor) -> str:
    """What goes wrong when a weight like this, perhaps a shard, takes a fused step; nothing when it
    works.
    """
    if like.device.type == "meta":
        return ""
    weight = torch.zeros_like(like, requires_grad=True)
    weight.grad = torch.zeros_like(weight)
    try:
        options = {"momentum": 0.5} if name == "momentum" else {}
        _CLASSES[name]([weight], lr=0.0, fused=True, **options).step()
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        if detect_oom(error) is not None:
            raise
        lines = str(error).strip().splitlines()
        return (
            f"the kernel does not run on {like.device.type}: {lines[0] if lines else repr(error)}"
        )
    return ""


# -- state before the first step ------------------------------------------------------------------


# A step with gradients, rate and decay of zero leaves zeros in their state and a count of one.
_ZERO_IS_FRESH = (
    torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.RAdam,
    torch.optim.Adadelta, torch.optim.Adafactor,
)  # fmt: skip


@contextlib.contextmanager
def materialized_state(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """An optimizer's state exists meanwhile, as its first step would make it.

    It stays where it is what a first step begins with; else it is dropped at the end, and weights
    are put back.
    """
    missing = [
        weight
        for group in optimizer.param_groups
        for weight in group["params"]
        if weight.requires_grad and not optimizer.state.get(weight)
    ]
    if not missing:
        yield
        return
    skips = supports_found_inf(optimizer)
    stays = skips or (type(optimizer) in _ZERO_IS_FRESH and not _is_damped(optimizer))
    before = [] if stays else [weight.detach().to("cpu", copy=True) for weight in missing]
    with _without_gradients_and_hooks(optimizer, missing):
        if skips:
            with skip_on_device(optimizer, torch.ones((), device=missing[0].device)):
                optimizer.step()
        else:
            _step_with_zeros(optimizer, missing)
    try:
        yield
    finally:
        for weight, old in zip(missing, before, strict=False):
            optimizer.state.pop(weight, None)
            with torch.no_grad():
                weight.copy_(old)


def _is_damped(optimizer: torch.optim.Optimizer) -> bool:
    """Damped momentum takes its first gradient whole, so zeros are not how it begins."""
    return any(group.get("dampening") for group in optimizer.param_groups)


def _step_with_zeros(optimizer: torch.optim.Optimizer, missing: Sequence[torch.Tensor]) -> None:
    try:
        with _zero_rates(optimizer):
            optimizer.step()
    except Exception as error:  # anybody's optimizer: what it keeps is then not known
        if detect_oom(error) is not None:
            raise
    for weight in missing:
        state = optimizer.state.get(weight, {})
        if isinstance(state.get("step"), torch.Tensor):
            state["step"].zero_()
        elif "step" in state:
            state["step"] = 0


@contextlib.contextmanager
def _without_gradients_and_hooks(
    optimizer: torch.optim.Optimizer, missing: Sequence[torch.Tensor]
) -> Iterator[None]:
    """Gradients of zero for weights without state, none for others; nobody hears of the step."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    gradients = [weight.grad for weight in weights]
    missing_ids = {id(weight) for weight in missing}
    hooks = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    saved = {name: getattr(optimizer, name) for name in hooks if hasattr(optimizer, name)}
    try:
        for name, value in saved.items():
            setattr(optimizer, name, type(value)())
        for weight in weights:
            weight.grad = torch.zeros_like(weight) if id(weight) in missing_ids else None
        yield
    finally:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        for name, value in saved.items():
            setattr(optimizer, name, value)


@contextlib.contextmanager
def _zero_rates(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Rates and decay of zero."""
    saved: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        saved.append({name: group[name] for name in ("lr", "weight_decay") if name in group})
    try:
        for group in optimizer.param_groups:
            if "lr" in group:
                rate = group["lr"]
                group["lr"] = torch.zeros_like(rate) if isinstance(rate, torch.Tensor) else 0.0
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
        yield
    finally:
        for group, values in zip(optimizer.param_groups, saved, strict=True):
            group.update(values)


# -- steps that are called off on the device ------------------------------------------------------


def supports_found_inf(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its step can be called off by a tensor on the device, with no wait."""
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        return False
    if not isinstance(optimizer, (torch.optim.Adam, torch.optim.SGD)):
        return False
    # A first step that is called off leaves fused SGD with momentum that was never filled. Zeros
    # put there first are right where momentum is not damped.
    return not any(group.get("dampening") for group in optimizer.param_groups)


@contextlib.contextmanager
def skip_on_device(optimizer: torch.optim.Optimizer, flag: torch.Tensor) -> Iterator[None]:
    """Steps in here change nothing (weights, moments, count) where a flag is above 0.

    Args:
        optimizer: one that `supports_found_inf`.
        flag: one number on a device. It is read by the kernels, not by the host.
    """
    if not supports_found_inf(optimizer):
        raise InvalidInputError(
            f"{type(optimizer).__name__} cannot be called off on the device",
            hint="Make it fused, or read the flag on the host.",
        )
    _fill_momentum(optimizer)
    # The kernels take the flag off the count of steps, so it must be one exactly.
    target: Any = optimizer
    target.found_inf = (flag.detach().reshape(()) > 0).to(torch.float32)
    try:
        yield
    finally:
        del target.found_inf


def _fill_momentum(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        if group.get("momentum") and isinstance(optimizer, torch.optim.SGD):
            for weight in group["params"]:
                state = optimizer.state[weight]
                if weight.grad is not None and state.get("momentum_buffer") is None:
                    state["momentum_buffer"] = torch.zeros_like(weight.grad)


# -- learning rates -------------------------------------------------------------------------------


_DECAY = 0.2
"""The share of a run at its end in which a trapezoid falls."""


def rate_at(
    step: int,
    *,
    total: int,
    peak: float,
    schedule: Schedule = "cosine",
    warmup: float = 0.0,
    final: float = 0.0,
) -> float:
    """The learning rate of a step.

    Args:
        step: counted from 0; from `total` on the rate stays where it ended.
        total: steps of the whole run.
        peak: the highest rate.
        schedule: constant, linear, cosine, or trapezoid: flat, then linear over the last fifth.
        warmup: steps of a linear rise to the peak; a share of the run below 1.
        final: what the rate falls to, as a share of the peak. A constant rate does not fall.
    """
    if schedule not in get_args(Schedule):
        raise InvalidSettingError(
            f"unknown schedule {schedule!r}",
            hint=f"Valid names: {', '.join(get_args(Schedule))}.",
        )
    rise = warmup_steps(warmup, total)
    if step < rise:
        return peak * (step + 1) / (rise + 1)  # step 0 already learns a little
    falls = _remaining_share(schedule, min(step, total), rise, total)
    return peak * (final + (1.0 - final) * falls)


def warmup_steps(warmup: float, total: int) -> int:
    """Steps of warm-up: a share of the run below 1, a number of steps from 1 on."""
    return min(total, round(warmup * total) if warmup < 1 else round(warmup))


def _remaining_share(schedule: Schedule, step: int, rise: int, total: int) -> float:
    """How much of the way from final to peak is left: 1 at the peak, 0 at the end."""
    if schedule == "constant":
        return 1.0
    start = max(rise, total - round(_DECAY * total)) if schedule == "trapezoid" else rise
    if step <= start or total <= start:
        return 1.0
    done = (step - start) / (total - start)
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * done))
    return 1.0 - done


class RateScheduler:
    """Sets the learning rates of an optimizer's groups before each step.

    Every group keeps its proportion: one that began with a tenth of the first group's rate has a
    tenth of it throughout. Rates that are tensors (of compiled and captured optimizers) are filled
    in place, so that nothing is compiled or recorded again.

    Args:
        optimizer: its groups' `initial_lr`, or else their `lr`, are their peaks.
        total: steps of the whole run.
        schedule: see `rate_at`.
        warmup: see `rate_at`.
        final: see `rate_at`.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        total: int,
        schedule: Schedule = "cosine",
        warmup: float = 0.0,
        final: float = 0.0,
    ) -> None:
        self._optimizer = optimizer
        self._rate_at = functools.partial(
            rate_at, total=total, schedule=schedule, warmup=warmup, final=final
        )
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", float(group["lr"]))
        self._peaks = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self._num_steps = 0
        self._set_rates()

    def step(self) -> float:
        """A step is done: set the next one's rates; the rate that the done one had."""
        before = self._rate_at(self._num_steps, peak=self._peaks[0])
        self._num_steps += 1
        self._set_rates()
        return before

    def _set_rates(self) -> None:
        for group, peak in zip(self._optimizer.param_groups, self._peaks, strict=True):
            group["initial_lr"] = peak  # what a checkpoint of the optimizer had may be another
            rate = self._rate_at(self._num_steps, peak=peak)
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain numbers."""
        return {"steps": self._num_steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a checkpoint stood; a longer or shorter run than before is followed."""
        steps = state.get("steps")
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise InvalidInputError(
                f"the checkpoint's schedule is not valid: steps is {steps!r}",
                hint="Take an earlier checkpoint.",
            )
        self._num_steps = steps
        self._set_rates()


class TorchScheduler:
    """A learning rate scheduler of torch, with the calls of `RateScheduler`.

    Args:
        scheduler: of the optimizer, or a function of it.
        optimizer: that trains.
    """

    def __init__(
        self,
        scheduler: LRScheduler | Callable[[torch.optim.Optimizer], LRScheduler],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        if not callable(scheduler) and not isinstance(scheduler, LRScheduler):
            raise InvalidSettingError(
                f"the scheduler is {scheduler!r}",
                hint="Pass one of torch.optim.lr_scheduler, or a function of the optimizer. The "
                "setting `schedule` takes a name, such as cosine.",
            )
        built = scheduler if isinstance(scheduler, LRScheduler) else scheduler(optimizer)
        if not isinstance(built, LRScheduler) or isinstance(built, ReduceLROnPlateau):
            raise InvalidSettingError(
                f"a {type(built).__name__} is not a scheduler that steps by itself",
                hint="Pass one of torch.optim.lr_scheduler, or a function of the optimizer that "
                "returns one; step ReduceLROnPlateau in on_validate of a callback.",
            )
        if built.optimizer is not optimizer:
            raise InvalidSettingError(
                "the scheduler is of another optimizer",
                hint="Pass its optimizer too, or scheduler=lambda optimizer: StepLR(optimizer, 5).",
            )
        self._scheduler, self._optimizer = built, optimizer

    def step(self) -> float:
        """A step is done: set the next one's rates; the rate that the done one had."""
        before = float(self._optimizer.param_groups[0]["lr"])
        self._scheduler.step()
        return before

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self._scheduler.last_epoch, "scheduler": self._scheduler.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "scheduler" not in state:
            raise InvalidInputError(
                "the checkpoint has no state of a scheduler",
                hint="Resume without scheduler, as the run was started, or start over.",
            )
        self._scheduler.load_state_dict(dict(state["scheduler"]))
