"""Memory for time: activations that are recomputed, optimizer state in host memory; and the micro
batch that fits.

`recompute` gives a model's blocks another `forward`; the modules stay what they are, so names of
weights, classes and hooks do not change. Call it before `torch.compile` and before the model is
shared among processes. Two ways: `blocks` keeps what goes into a block alone; `selective`, for
models that are compiled, also keeps what is expensive (products, attention, convolutions) and
computes norms, activations, dropout and casts again: without a compiler that takes more time and
more memory than `blocks`. Gradients are those of the plain model, bit for bit where the device's
kernels are deterministic: random states and autocast are restored for the second pass, and the
statistics of a batch norm are counted once.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from anyrig.errors import InvalidSettingError
from anyrig.memory.batch_size import BatchSizeResult, find_batch_size
from anyrig.training.batch import Batch, count_items, slice_batch, to_device
from anyrig.training.optim import materialized_state
from anyrig.units import MIB, format_bytes, pluralize

if TYPE_CHECKING:
    from anyrig.backends.torch import TorchHandle
    from anyrig.training.distributed.group import Group
    from anyrig.training.step import TrainStep


# -- blocks ---------------------------------------------------------------------------------------


_CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)
# So few outer blocks are stages: the units inside them are taken when these hold most of them.
_STAGES, _UNIT_SHARE = 6, 0.7
# A second class of blocks counts from this share of the parameters on: a decoder's layers beside
# an encoder's, attention beside the units of a U-Net.
_ALSO = 0.05


def find_blocks(model: nn.Module, types: Sequence[str] = ()) -> dict[str, nn.Module]:
    """The repeated blocks by name, none inside another; empty where nothing repeats.

    The members of the class that holds most of a model, and of other large ones beside it; of
    stages with few members the units that are inside.

    Args:
        model: any module.
        types: class names of the blocks, to say it oneself.
    """
    if types:
        return _find_by_class(model, types)
    total = _count_parameters(model)
    kinds = _group_by_class(model, in_containers=True) or _group_by_class(
        model, in_containers=False
    )
    if not kinds:
        return {}
    first = kinds[0]
    while len(first) <= _STAGES:
        inner = next((kind for kind in kinds if _are_units_of(kind, first)), None)
        if inner is None:
            break
        first = inner
    found = dict(first)
    for kind in kinds:
        if _count_all_parameters(kind) >= _ALSO * total and not _do_overlap(kind, found):
            found.update(kind)
    return _keep_outermost(found)


def find_parts(model: nn.Module, types: Sequence[str] = ()) -> dict[str, nn.Module]:
    """What of a model can be computed again: of every model something, none inside another.

    Its repeated blocks; else a single block in a list, as in a model of one layer; else plain
    sequences of layers, which `recompute` cuts into segments; else the whole model.
    """
    found = find_blocks(model, types)
    if found:
        return found
    single = _keep_outermost(dict(_iterate_candidates(model, in_containers=True)))
    sequences = _keep_outermost(
        {name: one for name, one in model.named_modules() if is_sequence(one)}
    )
    # Embeddings and a head may well be larger than a single block, and keep next to nothing.
    for some, least in ((single, 0.1), (sequences, 0.5)):
        others = sequences if some is single else single
        share = _count_all_parameters(some) / max(1, _count_parameters(model))
        if some and share >= least and _count_all_parameters(some) >= _count_all_parameters(others):
            return some
    return {"": model}


def is_sequence(module: nn.Module) -> bool:
    """Whether a module only runs its layers one after another."""
    return (
        isinstance(module, nn.Sequential)
        and type(module).forward is nn.Sequential.forward
        and len(module) > 1
    )


def _are_units_of(kind: Mapping[str, nn.Module], stages: Mapping[str, nn.Module]) -> bool:
    return (
        len(kind) > len(stages)
        and all(any(_is_within(name, stage) for stage in stages) for name in kind)
        and _count_all_parameters(kind) >= _UNIT_SHARE * _count_all_parameters(stages)
    )


def _group_by_class(model: nn.Module, *, in_containers: bool) -> list[dict[str, nn.Module]]:
    """The members of each class that has several with parameters, the largest class first."""
    members: dict[type[nn.Module], dict[str, nn.Module]] = {}
    for name, module in _iterate_candidates(model, in_containers=in_containers):
        members.setdefault(type(module), {})[name] = module
    outermost = [_keep_outermost(one) for one in members.values()]
    found = [one for one in outermost if len(one) > 1 and _count_all_parameters(one)]
    return sorted(found, key=_count_all_parameters, reverse=True)


def _iterate_candidates(
    model: nn.Module, *, in_containers: bool
) -> Iterator[tuple[str, nn.Module]]:
    """Modules made of others. What is one layer saves nothing when it is computed again."""
    for name, module in model.named_modules():
        if in_containers != isinstance(module, _CONTAINERS):
            continue
        for inner, child in module.named_children():
            if not isinstance(child, _CONTAINERS) and any(True for _ in child.children()):
                yield f"{name}.{inner}" if name else inner, child


def _find_by_class(model: nn.Module, types: Sequence[str]) -> dict[str, nn.Module]:
    classes = {type(one).__name__ for one in model.modules()}
    for word in types:
        if word not in classes:
            near = difflib.get_close_matches(word, classes, n=1)
            there = ", ".join(sorted(classes)[:12])
            hint = f"Did you mean {near[0]!r}?" if near else f"It is made of: {there}."
            raise InvalidSettingError(
                f"{type(model).__name__} has no module of class {word!r}", hint=hint
            )
    names = set(types)
    return _keep_outermost(
        {name: one for name, one in model.named_modules() if type(one).__name__ in names}
    )


def _keep_outermost(found: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Without those that lie in another one."""
    return {
        name: one for name, one in found.items()
        if not any(_is_within(name, other) for other in found if other != name)
    }  # fmt: skip


def _do_overlap(some: Mapping[str, nn.Module], others: Mapping[str, nn.Module]) -> bool:
    return any(
        name == other or _is_within(name, other) or _is_within(other, name)
        for name in some for other in others
    )  # fmt: skip


def _is_within(name: str, outer: str) -> bool:
    return not outer or name.startswith(f"{outer}.")


def _count_all_parameters(some: Mapping[str, nn.Module]) -> int:
    return sum(_count_parameters(one) for one in some.values())


def _count_parameters(module: nn.Module) -> int:
    return sum(one.numel() for one in module.parameters())


# -- recomputing ----------------------------------------------------------------------------------


RecomputeMode = Literal["blocks", "selective"]
# What is expensive, by operation. Not every build of torch has each of them.
_EXPENSIVE = (
    "aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm", "aten._scaled_mm", "aten._grouped_mm",
    "aten._scaled_grouped_mm", "aten.convolution", "aten.linear",
    "aten._scaled_dot_product_flash_attention", "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_cudnn_attention", "aten._scaled_dot_product_flash_attention_for_cpu",
    "aten._scaled_dot_product_fused_attention_overrideable",
    "aten._flash_attention_forward", "aten._efficient_attention_forward",
    "aten._cudnn_attention_forward", "torch_attn._varlen_attn",
)  # fmt: skip


@dataclass
class Recomputing:
    """What was changed in a model; as a context, or `undo`, puts it back."""

    how: RecomputeMode
    names: tuple[str, ...]
    """Of the blocks, or of the sequences of layers that are cut into segments."""
    kinds: tuple[str, ...]
    """Their class names."""
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def reason(self) -> str:
        """One sentence for the log."""
        what = "all but products, attention and convolutions" if self.how == "selective" else "all"
        return (
            f"{what} of {pluralize(len(self.names), 'block')} ({', '.join(self.kinds)}) "
            "is computed again in the backward pass"
        )

    def undo(self) -> None:
        """The model as it was; a second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Recomputing:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def recompute(
    model: nn.Module, how: RecomputeMode = "blocks", types: Sequence[str] = ()
) -> Recomputing:
    """Let a model's blocks compute their activations again in the backward pass.

    Only steps in training mode and with gradients change; an evaluation runs as before.

    Args:
        model: any module that is not compiled yet.
        how: whole `blocks`, or `selective`.
        types: class names of the blocks; found by themselves when empty. A model without repeated
            blocks is cut into segments where it is a sequence of layers; else all of it is one
            block.
    """
    if how not in ("blocks", "selective"):
        raise InvalidSettingError(f"unknown way to recompute: {how!r}", hint="blocks or selective.")
    if hasattr(model, "_orig_mod"):
        raise InvalidSettingError(
            "the model is compiled already, so its blocks cannot be changed any more",
            hint="Call recompute first, then torch.compile.",
        )
    for name, module in model.named_modules():
        if isinstance(module.__dict__.get("forward"), (_Checkpointed, _Segments)):
            raise InvalidSettingError(
                f"{name or 'the model'} is recomputed already", hint="Undo it first."
            )
    blocks = find_parts(model, types)
    kinds = tuple(dict.fromkeys(type(block).__name__ for block in blocks.values()))
    done = Recomputing(how, tuple(blocks), kinds)
    for block in {id(one): one for one in blocks.values()}.values():
        done._undo.append(_patch(block, how))
        if how == "selective" or _begins_in_place(block):
            done._undo.append(_out_of_place(block))
    return done


class _Checkpointed:
    """A block's forward that keeps little. An object and not a closure, so that models with it can
    be copied and pickled.
    """

    def __init__(
        self, block: nn.Module, how: RecomputeMode, before: Callable[..., Any] | None
    ) -> None:
        self.block, self.how, self.before = block, how, before

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.block.training or not torch.is_grad_enabled():
            return self.plain(*args, **kwargs)
        from torch.utils.checkpoint import checkpoint

        if torch.compiler.is_compiling():
            # The compiler cuts the graph by itself: it does not run a block twice.
            if self.how == "selective":
                return checkpoint(
                    self.plain, *args, use_reentrant=False, context_fn=_build_contexts, **kwargs
                )
            return checkpoint(self.plain, *args, use_reentrant=False, **kwargs)
        return checkpoint(
            self._run_without_cast_cache,
            *args,
            use_reentrant=False,
            context_fn=self._pass_contexts,
            **kwargs,
        )

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """The forward that was there before."""
        if self.before is not None:
            return self.before(*args, **kwargs)
        return type(self.block).forward(self.block, *args, **kwargs)

    def _run_without_cast_cache(self, *args: Any, **kwargs: Any) -> Any:
        """Under autocast without its memory of cast weights.

        A weight that was cast outside a block is not cast again in it, but is when the block runs
        again: the two passes would differ, and the casts would be held until the loss is known.
        """
        before = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            return self.plain(*args, **kwargs)
        finally:
            torch.set_autocast_cache_enabled(before)

    def _pass_contexts(self) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        """What is around the first pass, and around the second."""
        from torch.utils.checkpoint import noop_context_fn

        first, second = (_build_contexts if self.how == "selective" else noop_context_fn)()
        return first, _preserved_statistics(self.block, second)


class _Segments:
    """The forward of a sequence of layers, cut into about as many segments as each has layers."""

    def __init__(self, whole: nn.Sequential, how: RecomputeMode) -> None:
        self.whole, self.how = whole, how
        self._parts: list[_Checkpointed] = []

    def __call__(self, given: Any) -> Any:
        for part in self._split_layers():
            part.block.training = self.whole.training
            given = part(given)
        return given

    def _split_layers(self) -> list[_Checkpointed]:
        layers = list(self.whole)
        children = [layer for part in self._parts for layer in part.block.children()]
        if len(children) != len(layers) or any(
            a is not b for a, b in zip(children, layers, strict=True)
        ):
            size = max(1, round(math.sqrt(len(layers))))
            self._parts = [
                _Checkpointed(nn.Sequential(*layers[first : first + size]), self.how, None)
                for first in range(0, len(layers), size)
            ]
        return self._parts


def _patch(block: nn.Module, how: RecomputeMode) -> Callable[[], None]:
    before = block.__dict__.get("forward")
    if before is None and isinstance(block, nn.Sequential) and is_sequence(block):
        block.__dict__["forward"] = _Segments(block, how)
    else:
        block.__dict__["forward"] = _Checkpointed(block, how, before)

    def undo() -> None:
        if before is None:
            block.__dict__.pop("forward", None)
        else:
            block.__dict__["forward"] = before

    return undo


def _begins_in_place(block: nn.Module) -> bool:
    """Whether what goes into a block or a segment is overwritten there: it is needed once more."""
    if is_sequence(block):
        return True
    first = next((one for one in block.modules() if not any(True for _ in one.children())), block)
    return getattr(first, "inplace", False) is True


def _out_of_place(block: nn.Module) -> Callable[[], None]:
    """Activations that overwrite their input would overwrite a product that is kept."""
    changed = [one for one in block.modules() if getattr(one, "inplace", False) is True]
    for one in changed:
        one.inplace = False  # type: ignore[assignment]

    def undo() -> None:
        for one in changed:
            one.inplace = True  # type: ignore[assignment]

    return undo


@contextlib.contextmanager
def _preserved_statistics(block: nn.Module, inner: AbstractContextManager[Any]) -> Iterator[None]:
    """The second pass writes a batch norm's statistics into copies."""
    saved: list[tuple[nn.Module, dict[str, torch.Tensor | None]]] = []
    for module in block.modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            saved.append((module, dict(module._buffers)))
    try:
        for module, buffers in saved:
            module._buffers.update({name: _copy(one) for name, one in buffers.items()})
        with inner:
            yield
    finally:
        for module, buffers in saved:
            module._buffers.update(buffers)


def _copy(buffer: torch.Tensor | None) -> torch.Tensor | None:
    return None if buffer is None else buffer.clone()


def _build_contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    made: tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
    made = create_selective_checkpoint_contexts(_choose_policy)  # type: ignore[no-untyped-call]
    return made


def _choose_policy(context: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import CheckpointPolicy

    expensive = _find_packet(operation) in _EXPENSIVE
    return CheckpointPolicy.MUST_SAVE if expensive else CheckpointPolicy.PREFER_RECOMPUTE


def _find_packet(operation: Any) -> str:
    """`aten.mm` of `aten.mm.default`; the name itself of what is no plain operation."""
    found = getattr(operation, "overloadpacket", operation)
    return str(found)


# -- optimizer state in host memory ---------------------------------------------------------------


_PINNED = frozenset({"cuda", "xpu"})
_PIECE_BYTES = 128 * MIB
_MARK = "anyrig_offloaded"
ParamGroup = dict[str, Any]
ParameterChunk = list[tuple[ParamGroup, list[torch.Tensor]]]


class OffloadedState:
    """An optimizer's state in host memory: a step brings it to the device a piece at a time.

    Copies and kernels are in one order on the device, which the host does not wait for.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, piece_bytes: int) -> None:
        self._optimizer: Any = optimizer
        self._piece_bytes = piece_bytes
        self._hosts: dict[tuple[torch.Tensor, str], torch.Tensor] = {}
        self._step: Callable[..., Any] = optimizer.step
        self._load: Callable[..., Any] = optimizer.load_state_dict
        optimizer.register_state_dict_pre_hook(lambda _: self._synchronize())
        for weight in list(optimizer.state):
            self._evict(weight)
        self._patch("step", lambda _, closure=None: self.step(closure))
        self._patch("load_state_dict", lambda _, state: self.load(state))

    def _patch(self, name: str, function: Any) -> None:
        before = getattr(self._optimizer, name)
        # Schedules look at what a step is bound to, and leave marks on it.
        function.__dict__.update(getattr(before, "__func__", before).__dict__)
        setattr(self._optimizer, name, types.MethodType(function, self._optimizer))

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups: list[ParamGroup] = self._optimizer.param_groups
        whole = [group["params"] for group in groups]
        before, after = _without_hooks(self._optimizer)
        try:
            for hook in before.values():
                hook(self._optimizer, (), {})
            for piece in list(_split_parameters(groups, self._piece_bytes)):
                for group in groups:
                    group["params"] = []
                for group, weights in piece:
                    group["params"] = weights
                self._step_piece([one for _, weights in piece for one in weights])
        finally:
            for group, weights in zip(groups, whole, strict=True):
                group["params"] = weights
            _with_hooks(self._optimizer, before, after)
        for hook in after.values():
            hook(self._optimizer, (), {})
        return loss

    def _step_piece(self, weights: Sequence[torch.Tensor]) -> None:
        for weight in weights:
            state = self._optimizer.state.get(weight, {})
            for key, value in state.items():
                if _is_large(value):
                    state[key] = value.to(weight.device, non_blocking=value.is_pinned())
        self._step()
        for weight in weights:
            self._evict(weight)

    def _evict(self, weight: torch.Tensor) -> None:
        """Send a weight's state to the host, into the memory that it had there."""
        state = self._optimizer.state.get(weight, {})
        for key, value in state.items():
            if _is_large(value) and value.device.type != "cpu":
                host = self._find_host(weight, key, value)
                state[key] = host.copy_(value, non_blocking=host.is_pinned())

    def _find_host(self, weight: torch.Tensor, key: str, value: torch.Tensor) -> torch.Tensor:
        """Memory of the host for a tensor; pinned where the device can copy from it by itself."""
        host = self._hosts.get((weight, key))
        if host is None:
            host = self._hosts[weight, key] = torch.empty_strided(
                value.size(), value.stride(), dtype=value.dtype, device="cpu",
                pin_memory=weight.device.type in _PINNED,
            )  # fmt: skip
        return host

    def _synchronize(self) -> None:
        """Wait until the state on the host is whole."""
        for device in {weight.device for weight, _ in self._hosts}:
            if device.type in _PINNED:
                getattr(torch, device.type).synchronize(device)

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """As the optimizer's own, but the state goes to the host without passing the device."""
        saved = dict(state_dict["state"])
        self._load({**state_dict, "state": {}})
        numbers = [n for group in state_dict["param_groups"] for n in group["params"]]
        pairs = [(one, group) for group in self._optimizer.param_groups for one in group["params"]]
        self._optimizer.state.clear()
        for number, (weight, group) in zip(numbers, pairs, strict=True):
            if number in saved:
                self._optimizer.state[weight] = {
                    key: self._convert_loaded(key, value, weight, group)
                    for key, value in saved[number].items()
                }

    def _convert_loaded(self, key: str, value: Any, weight: torch.Tensor, group: ParamGroup) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if key == "step":
            # Fused kernels count on the device.
            on_device = group.get("fused") or group.get("capturable")
            return value.to(weight.device if on_device else "cpu", torch.float32, copy=True)
        if weight.is_floating_point() and value.is_floating_point():
            value = value.to(weight.dtype)
        if not _is_large(value):
            return value.to(weight.device, copy=True)
        return self._find_host(weight, key, value).copy_(value)


def offload_optimizer(optimizer: torch.optim.Optimizer, *, piece_bytes: int = _PIECE_BYTES) -> None:
    """Keep an optimizer's state in the host's memory from now on.

    Args:
        optimizer: before its first step or after; not one that needs a closure to search along a
            line (LBFGS), because its weights know of each other.
        piece_bytes: of the weights that are computed at once, whose state is on the device.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidSettingError(
            "LBFGS looks at all weights at once", hint="Keep its state on the device."
        )
    if not is_offloaded(optimizer):
        optimizer.__dict__[_MARK] = OffloadedState(optimizer, piece_bytes)


def is_offloaded(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its state is in the host's memory, and its step goes piece by piece."""
    return _MARK in optimizer.__dict__


def _split_parameters(groups: Sequence[ParamGroup], piece_bytes: int) -> Iterator[ParameterChunk]:
    """Weights with gradients, a few at a time, in order."""
    piece: ParameterChunk = []
    size = 0
    for group in groups:
        for weight in group["params"]:
            if weight.grad is None:
                continue
            if piece and size + weight.nbytes > piece_bytes:
                yield piece
                piece, size = [], 0
            if not piece or piece[-1][0] is not group:
                piece.append((group, []))
            piece[-1][1].append(weight)
            size += weight.nbytes
    if piece:
        yield piece


def _is_large(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 1


def _without_hooks(optimizer: Any) -> tuple[OrderedDict[int, Any], OrderedDict[int, Any]]:
    """The hooks of a step, taken off: they are for the step, not for its pieces."""
    before, after = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    _with_hooks(optimizer, OrderedDict(), OrderedDict())
    return before, after


def _with_hooks(
    optimizer: Any, before: OrderedDict[int, Any], after: OrderedDict[int, Any]
) -> None:
    optimizer._optimizer_step_pre_hooks = before
    optimizer._optimizer_step_post_hooks = after


# -- the micro batch ------------------------------------------------------------------------------


_TOGETHER_SHARE = 0.8
"""Of the budget, where processes wait for each other and none may run out."""


def fit_micro_batch(
    step: TrainStep,
    batch: Batch,
    handle: TorchHandle,
    *,
    budget_bytes: int | None,
    on_message: Callable[[str], None] = lambda _: None,
) -> BatchSizeResult:
    """The largest micro batch of a step that works, up to all items of a batch.

    Args:
        step: as it will train; its weights are not changed.
        batch: items of the run, on the host; sizes are cut from it.
        handle: the device.
        budget_bytes: the most that may be taken of it.
        on_message: is told what is being tried.
    """
    least = _min_trial_size(step, batch)
    with _without_trace(step):
        return find_batch_size(
            _build_trial(step, batch, handle, least),
            handle,
            start=least,
            budget_bytes=budget_bytes,
            max_size=count_items(batch),
            on_progress=on_message,
        )


def fit_micro_batch_in_lockstep(
    step: TrainStep, batch: Batch, handle: TorchHandle, group: Group, *, budget_bytes: int | None
) -> tuple[int, str]:
    """A micro batch for processes that wait for each other inside a step, and why.

    If one of them ran out, the others would wait for it for ever, so nothing is tried that could:
    two small sizes are measured by all, and a line through the largest peaks says the rest.
    """
    most = group.min(count_items(batch))
    if budget_bytes is None or most < 3:
        return most, "nothing is known of the memory" if budget_bytes is None else "the whole batch"
    least = _min_trial_size(step, batch)
    trial = _build_trial(step, batch, handle, least)
    peaks = []
    with _without_trace(step):
        for size in (least, least + 1):
            for _ in range(2):
                handle.reset_peak()
                trial(size)
                handle.synchronize()
            now = handle.memory()
            taken = now.peak_reserved_bytes or now.peak_bytes or now.allocated_bytes or 0
            peaks.append(int(group.max(torch.tensor([taken], dtype=torch.int64)).item()))
    available = group.min(int(budget_bytes * _TOGETHER_SHARE)) - peaks[0]
    slope = max(1, peaks[1] - peaks[0])
    found = max(least, min(most, least + max(0, available) // slope))
    return found, (
        f"{format_bytes(peaks[0])} are taken by {pluralize(least, 'item')}, by each further one "
        f"{format_bytes(slope)}, measured "
        f"with all processes; {_TOGETHER_SHARE:.0%} of the budget is used"
    )


@contextlib.contextmanager
def _without_trace(step: TrainStep) -> Iterator[None]:
    """With the optimizer's state; gradients, buffers and random states are put back at the end."""
    step.snapshot.take()
    try:
        with materialized_state(step.optimizer):
            yield
    finally:
        step.zero_grad()
        step.snapshot.restore()


def _min_trial_size(step: TrainStep, batch: Batch) -> int:
    """The fewest items that can be tried: statistics of a single one are refused by torch."""
    normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm)
                 for module in step.model.modules())  # fmt: skip
    return 2 if normed and count_items(batch) > 1 else 1


def _build_trial(
    step: TrainStep, batch: Batch, handle: TorchHandle, least: int
) -> Callable[[int], None]:
    def run(size: int) -> None:
        step.zero_grad()
        piece = to_device(slice_batch(batch, 0, max(size, least)), handle.device)
        step.gradients(piece)

    return run
