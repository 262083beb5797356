"""Loss scaling for fp16 that cannot ruin a run: floor, ceiling, hysteresis, no NaN in weights.

A step whose gradients are not all finite is skipped, whatever the scale. Each skipped step uses up
hysteresis; once it is used up, every further skipped step lowers the scale. `interval` good steps
in a row raise the scale and restore the hysteresis. Single good steps do not restore it, as in
Megatron: a run in which every second step overflows would otherwise never back off. torch's own
scaler has neither floor nor hysteresis: 180 bad steps take it to 0.0, and the next good one writes
NaN into the weights.

The scale is a plain number on the host. One value is read back per step, the only synchronisation.

Gradients may come from several parameter groups, optimizers and devices, may be sparse, missing,
shared, or sharded over processes (DTensors).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from anyrig.errors import InvalidInputError
from anyrig.precision.settings import ScalerSettings

log = logging.getLogger(__name__)
Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer]
SyncFlag = Callable[[torch.Tensor], object]
_STATE_KEYS = ("scale", "good_steps", "patience", "num_skipped", "skipped_in_a_row")


class StepOutcome(NamedTuple):
    skipped: bool
    grad_norm: torch.Tensor | None = None
    """Norm before clipping, on the device: reading it synchronises. None if nothing was clipped."""
    scale: float = 1.0
    """The loss scale of this step."""


class NoOpScaler:
    """Backward and step without scaling, for fp32, tf32 and bf16.

    Args:
        skip_nonfinite: skip a step whose gradients are not finite, at the price of one
            synchronisation.
        sync_flag: see `LossScaler`.
    """

    def __init__(self, *, skip_nonfinite: bool = False, sync_flag: SyncFlag | None = None) -> None:
        self._skip_nonfinite = skip_nonfinite
        self._sync_flag = sync_flag

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        return loss

    def step(
        self,
        optimizers: Optimizers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Clip and step; see `LossScaler.step`."""
        optimizers = _as_tuple(optimizers)
        if not self._skip_nonfinite and max_norm is None:
            _step_all(optimizers)
            return StepOutcome(False)
        gradients = collect_gradients(optimizers, parameters)
        if self._skip_nonfinite and unscale_gradients(gradients, 1.0, self._sync_flag):
            log.warning("step skipped: its gradients are not finite")
            return StepOutcome(True)
        return StepOutcome(False, _clip_and_step(optimizers, gradients, max_norm))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state:
            log.info("ignoring the checkpoint's loss scale: this run does not scale the loss")


class LossScaler:
    """A loss scaler with a floor, a ceiling and hysteresis.

        scaler.scale_loss(loss).backward()
        scaler.step(optimizer, max_norm=1.0)
        optimizer.zero_grad()

    Args:
        sync_flag: for gradients that differ between processes: called with the tensor that says
            whether gradients overflowed, to make it the same in all of them, such as
            `lambda flag: torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)`.
    """

    def __init__(
        self, settings: ScalerSettings | None = None, *, sync_flag: SyncFlag | None = None
    ) -> None:
        self.settings = settings or ScalerSettings()
        self.scale = float(self.settings.initial)
        self.num_skipped = 0
        self._skipped_in_a_row = 0
        self._sync_flag = sync_flag
        self._good_steps = 0
        self._hysteresis_left = self.settings.hysteresis
        self._has_scaled = False

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss to call `backward` on. Call it for every part of an accumulated step."""
        self._has_scaled = True
        return loss * self.scale

    def step(
        self,
        optimizers: Optimizers,
        parameters: Iterable[torch.Tensor] | None = None,
        max_norm: float | None = None,
    ) -> StepOutcome:
        """Unscale, clip, step and adjust the scale, or skip the step if gradients are not finite.

        Gradients stay as they are until the caller's `zero_grad`, after a skipped step too.

        Args:
            optimizers: one or several; they all step, or none does.
            parameters: whose gradients are clipped; None means those of the optimizers.
            max_norm: the norm to clip to; None does not clip.
        """
        if not self._has_scaled:
            raise InvalidInputError(
                "step without a scaled backward pass: its gradients would be unscaled twice",
                hint="Call backward on scale_loss(loss) before every step.",
            )
        self._has_scaled = False
        optimizers = _as_tuple(optimizers)
        gradients = collect_gradients(optimizers, parameters)
        scale = self.scale
        if not gradients.all and self._sync_flag is None:
            return StepOutcome(False, None, scale)
        if unscale_gradients(gradients, 1.0 / scale, self._sync_flag):
            self._record_skipped()
            return StepOutcome(True, None, scale)
        norm = _clip_and_step(optimizers, gradients, max_norm)
        self._record_good()
        return StepOutcome(False, norm, scale)

    def _record_skipped(self) -> None:
        self._good_steps = 0
        self.num_skipped += 1
        self._skipped_in_a_row += 1
        self._hysteresis_left = max(0, self._hysteresis_left - 1)
        before = self.scale
        if self._hysteresis_left == 0:
            self.scale = max(self.settings.floor, self.scale * self.settings.backoff)
        log.info("gradient overflow: step skipped, loss scale %g -> %g", before, self.scale)

    def _record_good(self) -> None:
        self._skipped_in_a_row = 0
        self._good_steps += 1
        if self._good_steps >= self.settings.interval:
            self._good_steps = 0
            self._hysteresis_left = self.settings.hysteresis
            self.scale = min(self.settings.ceiling, self.scale * self.settings.growth)

    def state_dict(self) -> dict[str, Any]:
        counts = (self._good_steps, self._hysteresis_left, self.num_skipped, self._skipped_in_a_row)
        return dict(zip(_STATE_KEYS, (self.scale, *counts), strict=True))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint's state; an invalid one is rejected before anything changes."""
        state = state.get("inner", state)  # of a run with DynamicPrecision
        if not state:  # the run so far did not scale
            return
        if set(state) != set(_STATE_KEYS):
            unexpected = sorted(set(state) ^ set(_STATE_KEYS))
            raise _invalid_state(f"unexpected or missing: {', '.join(unexpected)}")
        scale, *counts = (state[name] for name in _STATE_KEYS)
        number = isinstance(scale, (int, float)) and not isinstance(scale, bool)
        if not number or not math.isfinite(scale) or scale <= 0:
            raise _invalid_state(f"scale is {scale!r}")
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
            raise _invalid_state(f"counts are {counts}")
        self.scale = min(self.settings.ceiling, max(self.settings.floor, float(scale)))
        self._good_steps, patience, self.num_skipped, self._skipped_in_a_row = counts
        self._hysteresis_left = min(patience, self.settings.hysteresis)
        self._has_scaled = False


def _invalid_state(problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"the checkpoint's loss scaler state is invalid: {problem}",
        hint="Use an earlier checkpoint, or leave the state out to start with a fresh scale.",
    )


def _as_tuple(optimizers: Optimizers) -> tuple[torch.optim.Optimizer, ...]:
    if isinstance(optimizers, torch.optim.Optimizer):
        return (optimizers,)
    return tuple(optimizers)


def _clip_and_step(
    optimizers: Sequence[torch.optim.Optimizer], gradients: Gradients, max_norm: float | None
) -> torch.Tensor | None:
    norm = clip_gradients(gradients.clipped, max_norm) if max_norm is not None else None
    _step_all(optimizers)
    return norm


def _step_all(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    for optimizer in optimizers:
        optimizer.step()


# -- gradients -------------------------------------------------------------------------------------


class Gradients(NamedTuple):
    """Dense tensors that alias the gradients; of a sparse gradient, its values."""

    all: Sequence[torch.Tensor]
    """Of a sharded gradient (DTensor), this process's shard."""
    clipped: Sequence[torch.Tensor]
    """Those of the parameters to clip; sharded ones as DTensors."""
    device: torch.device
    """Of the first parameter."""


def collect_gradients(
    optimizers: Sequence[torch.optim.Optimizer], parameters: Iterable[torch.Tensor] | None
) -> Gradients:
    """Collect the gradients of the optimizers' parameters and of those to clip, each once."""
    owned = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    to_clip = owned if parameters is None else list(parameters)
    found: dict[int, torch.Tensor] = {}
    for parameter in (*owned, *to_clip):
        if parameter.grad is not None and id(parameter) not in found:
            found[id(parameter)] = _dense_gradient(parameter)
    clip_ids = dict.fromkeys(id(p) for p in to_clip)
    device = owned[0].device if owned else torch.device("cpu")
    shards = [_local_shard(gradient) for gradient in found.values()]
    return Gradients(shards, [found[key] for key in clip_ids if key in found], device)


def _dense_gradient(parameter: torch.Tensor) -> torch.Tensor:
    gradient = parameter.grad
    assert gradient is not None
    if not gradient.is_sparse:
        return gradient
    # Duplicate entries may add up to infinity, so they are summed before they are checked.
    parameter.grad = gradient.coalesce()
    return parameter.grad._values()


def _local_shard(gradient: torch.Tensor) -> torch.Tensor:
    """This process's shard of a DTensor, sharing its memory; any other tensor itself."""
    if type(gradient) is torch.Tensor or not hasattr(gradient, "to_local"):
        return gradient
    local: torch.Tensor = gradient.to_local()
    return local


def unscale_gradients(
    gradients: Gradients, inverse_scale: float, sync_flag: SyncFlag | None = None
) -> bool:
    """Multiply gradients in place; whether any value is not finite. Synchronises once."""
    flags: list[torch.Tensor] = []
    for (device, dtype), group in _group_by_dtype(gradients.all).items():
        if dtype == torch.float16 and inverse_scale != 1.0:
            raise InvalidInputError(
                "fp16 gradients underflow when they are unscaled",
                hint="Keep the weights in fp32 and let autocast compute in fp16.",
            )
        flags.append(_unscale_group(group, device, inverse_scale))
    if not flags and sync_flag is None:
        return False
    overflowed = flags[0] if flags else torch.zeros(1, device=gradients.device)
    for flag in flags[1:]:
        overflowed = overflowed + flag.to(overflowed.device, non_blocking=True)
    if sync_flag is not None:
        sync_flag(overflowed)
    return bool(overflowed.item())


def _unscale_group(
    group: list[torch.Tensor], device: torch.device, inverse_scale: float
) -> torch.Tensor:
    """Unscale tensors of one device and dtype; a flag above 0 if a value is not finite."""
    flag = torch.zeros(1, dtype=torch.float32, device=device)
    factor = torch.full((1,), inverse_scale, dtype=torch.float32, device=device)
    try:
        torch._amp_foreach_non_finite_check_and_unscale_(group, flag, factor)
    except (AttributeError, NotImplementedError):
        # DirectML and other plug-in devices lack the fused kernel.
        if inverse_scale != 1.0:
            torch._foreach_mul_(group, inverse_scale)
        bad = [torch.isfinite(tensor).all().logical_not().to(torch.float32) for tensor in group]
        flag += torch.stack(bad).sum()
    return flag


def _group_by_dtype(
    tensors: Sequence[torch.Tensor],
) -> dict[tuple[torch.device, torch.dtype], list[torch.Tensor]]:
    groups: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for tensor in tensors:
        groups.setdefault((tensor.device, tensor.dtype), []).append(tensor)
    return groups


def clip_gradients(tensors: Sequence[torch.Tensor], max_norm: float) -> torch.Tensor | None:
    """Scale gradients down to a common norm, in place, without synchronising; their norm before.

    The norm of sharded gradients (DTensors) is that of the whole: all processes must call this.
    """
    total = gradient_norm(tensors)
    if total is None:
        return None
    factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
    for (device, _), group in _group_by_dtype([_local_shard(one) for one in tensors]).items():
        torch._foreach_mul_(group, factor.to(device, non_blocking=True))
    return total


def gradient_norm(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The common norm of gradients, on the device of the first; see `clip_gradients`."""
    shards = [_local_shard(tensor) for tensor in tensors]
    if not shards:
        return None
    by_mesh: dict[tuple[Any, ...], list[torch.Tensor]] = {}
    for tensor, shard in zip(tensors, shards, strict=True):
        groups = () if shard is tensor else _shard_groups(tensor)
        by_mesh.setdefault(groups, []).append(shard)
    norms = [_norm(alike, groups, shards[0].device) for groups, alike in by_mesh.items()]
    total: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return total


def _shard_groups(tensor: Any) -> tuple[Any, ...]:
    """The process groups over which a DTensor is sharded."""
    mesh = tensor.device_mesh
    return tuple(
        mesh.get_group(dim) for dim, place in enumerate(tensor.placements) if place.is_shard()
    )


def _norm(
    shards: list[torch.Tensor], process_groups: tuple[Any, ...], device: torch.device
) -> torch.Tensor:
    """The norm of tensors that are sharded alike; fp32, or fp64 where a gradient is."""
    wide = any(shard.dtype == torch.float64 for shard in shards)
    dtype = torch.float64 if wide else torch.float32
    norms = [
        norm.to(device, dtype, non_blocking=True)
        for group in _group_by_dtype(shards).values()
        for norm in torch._foreach_norm(group, 2.0)
    ]
    norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms))
    if not process_groups:
        return norm
    import torch.distributed as dist

    squares = norm.double().square()  # large squares overflow fp32
    for group in process_groups:
        dist.all_reduce(squares, group=group)
    return squares.sqrt().to(dtype)
