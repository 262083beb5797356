"""An optimiser's state in the host's memory: it comes to the device for the step, piece by piece.

The optimiser's own arithmetic runs on its own device, over a few weights at a time, so numbers are
the same to the last bit and every optimiser whose weights do not know of each other works. It
stays the same object: schedules, scalers and checkpoints go on as before. Clip gradients before
the step, as always. For AdamW in fp32 eight bytes a weight leave the device, and twice as many
travel in every step.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from anyrig.errors import InvalidSettingError
from anyrig.training.saving.lane import Lane
from anyrig.units import MIB

_PIECE_BYTES = 128 * MIB
_MARK = "anyrig_offloaded"
Group = dict[str, Any]
Piece = list[tuple[Group, list[torch.Tensor]]]


class OffloadedState:
    """What was changed in an optimiser; as a context, or `undo`, puts it back."""

    def __init__(self, optimiser: torch.optim.Optimizer, piece_bytes: int) -> None:
        self._optimiser: Any = optimiser
        self._piece_bytes = piece_bytes
        self._lanes: dict[torch.device, Lane] = {}
        self._step: Callable[..., Any] = optimiser.step
        self._load: Callable[..., Any] = optimiser.load_state_dict
        self._own: dict[str, Any] = {}
        self._hook: Any = optimiser.register_state_dict_pre_hook(lambda _: self.finish())
        for weight in list(optimiser.state):
            self._leave(weight, {})
        self._patch("step", lambda _, closure=None: self.step(closure))
        self._patch("load_state_dict", lambda _, state: self.load(state))

    def _patch(self, name: str, function: Any) -> None:
        before = getattr(self._optimiser, name)
        # Schedules look at what a step is bound to, and leave marks on it.
        function.__dict__.update(getattr(before, "__func__", before).__dict__)
        self._own[name] = types.MethodType(function, self._optimiser)
        setattr(self._optimiser, name, self._own[name])

    @property
    def reason(self) -> str:
        """One sentence for the log."""
        return f"the state of {type(self._optimiser).__name__} is kept in the host's memory"

    def undo(self) -> None:
        """The state on the device, the optimiser as it was; a second call does nothing."""
        if self._hook is None:
            return
        self.finish()
        for weight, held in self._optimiser.state.items():
            self._optimiser.state[weight] = {
                key: value.to(weight.device) if _large(value) else value
                for key, value in held.items()
            }
        for name, before in (("step", self._step), ("load_state_dict", self._load)):
            # What somebody put over it meanwhile stays, and goes through to what was before.
            if self._optimiser.__dict__.get(name) is self._own[name]:
                setattr(self._optimiser, name, before)
        self._optimiser.__dict__.pop(_MARK, None)
        self._hook.remove()
        self._hook = None

    def __enter__(self) -> OffloadedState:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def finish(self) -> None:
        """Wait until the state on the host is whole."""
        for lane in self._lanes.values():
            lane.finish()

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """The optimiser's step, piece by piece; the next piece comes in while one is computed."""
        if self._hook is None:
            undone: float | None = self._step(closure)
            return undone
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups: list[Group] = self._optimiser.param_groups
        whole = [group["params"] for group in groups]
        before, after = _without_hooks(self._optimiser)
        try:
            for hook in before.values():
                hook(self._optimiser, (), {})
            pieces = list(_pieces(groups, self._piece_bytes))
            coming = self._bring(pieces[0]) if pieces else {}
            for number, piece in enumerate(pieces):
                here = coming
                coming = self._bring(pieces[number + 1]) if number + 1 < len(pieces) else {}
                self._compute(piece, here)
        finally:
            for group, weights in zip(groups, whole, strict=True):
                group["params"] = weights
            _with_hooks(self._optimiser, before, after)
        for hook in after.values():
            hook(self._optimiser, (), {})
        return loss

    def _compute(self, piece: Piece, here: Mapping[torch.Tensor, Mapping[str, Any]]) -> None:
        state, hosts = self._optimiser.state, {}
        for weight, arrived in here.items():
            hosts[weight] = {key: state[weight][key] for key in arrived}
            for key, (value, ready) in arrived.items():
                self._lane(weight.device).wait(ready)
                state[weight][key] = value
        for group in self._optimiser.param_groups:
            group["params"] = []
        for group, weights in piece:
            group["params"] = weights
        self._step()
        for _, weights in piece:
            for weight in weights:
                self._leave(weight, hosts.get(weight, {}))

    def _bring(self, piece: Piece) -> dict[torch.Tensor, dict[str, Any]]:
        """Begin to bring a piece's state in."""
        found: dict[torch.Tensor, dict[str, Any]] = {}
        for _, weights in piece:
            for weight in weights:
                lane, held = self._lane(weight.device), self._optimiser.state.get(weight, {})
                found[weight] = {
                    key: lane.back(value) for key, value in held.items() if _away(value, weight)
                }
        return found

    def _leave(self, weight: torch.Tensor, hosts: Mapping[str, torch.Tensor]) -> None:
        """Send a weight's state to the host, into the memory that it had there."""
        held = self._optimiser.state.get(weight, {})
        for key, value in held.items():
            if _large(value) and value.device == weight.device and value.device.type != "cpu":
                held[key] = self._lane(weight.device).out(value, hosts.get(key))

    def load(self, state_dict: Mapping[str, Any]) -> None:
        """As the optimiser's own, but the state goes to the host without passing the device."""
        if self._hook is None:
            self._load(state_dict)
            return
        saved = dict(state_dict["state"])
        self._load({**state_dict, "state": {}})
        numbers = [n for group in state_dict["param_groups"] for n in group["params"]]
        pairs = [(one, group) for group in self._optimiser.param_groups for one in group["params"]]
        self._optimiser.state.clear()
        for number, (weight, group) in zip(numbers, pairs, strict=True):
            if number in saved:
                self._optimiser.state[weight] = {
                    key: self._loaded(key, value, weight, group)
                    for key, value in saved[number].items()
                }

    def _loaded(self, key: str, value: Any, weight: torch.Tensor, group: Group) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if key == "step":
            # Fused kernels count on the device.
            on_device = group.get("fused") or group.get("capturable")
            return value.to(weight.device if on_device else "cpu", torch.float32, copy=True)
        if weight.is_floating_point() and value.is_floating_point():
            value = value.to(weight.dtype)
        if not _large(value):
            return value.to(weight.device, copy=True)
        return self._lane(weight.device).host_like(value).copy_(value)

    def _lane(self, device: torch.device) -> Lane:
        if device not in self._lanes:
            self._lanes[device] = Lane(device)
        return self._lanes[device]


def offload_optimizer(
    optimiser: torch.optim.Optimizer, *, piece_bytes: int = _PIECE_BYTES
) -> OffloadedState:
    """Keep an optimiser's state in the host's memory from now on.

    Args:
        optimiser: before its first step or after; not one that needs a closure to search along a
            line (LBFGS), because its weights know of each other.
        piece_bytes: weights that are computed at once; about twice their state is on the device.
    """
    if isinstance(optimiser, torch.optim.LBFGS):
        raise InvalidSettingError(
            "LBFGS looks at all weights at once", hint="Keep its state on the device."
        )
    if is_offloaded(optimiser):
        raise InvalidSettingError(
            "this optimiser's state is on the host already", hint="Undo it first."
        )
    made = OffloadedState(optimiser, piece_bytes)
    optimiser.__dict__[_MARK] = True
    return made


def offload_state(
    optimiser: torch.optim.Optimizer, *, piece_bytes: int = _PIECE_BYTES
) -> torch.optim.Optimizer:
    """The same optimiser, whose state is in the host's memory from now on: `offload_optimizer`."""
    offload_optimizer(optimiser, piece_bytes=piece_bytes)
    return optimiser


def is_offloaded(optimiser: torch.optim.Optimizer) -> bool:
    """Whether its state is in the host's memory, and its step goes piece by piece."""
    return _MARK in optimiser.__dict__


def _pieces(groups: Sequence[Group], piece_bytes: int) -> Iterator[Piece]:
    """Weights with gradients, a few at a time, in order."""
    piece: Piece = []
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


def _large(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 1


def _away(value: Any, weight: torch.Tensor) -> bool:
    return _large(value) and value.device != weight.device


def _without_hooks(optimiser: Any) -> tuple[OrderedDict[int, Any], OrderedDict[int, Any]]:
    """The hooks of a step, taken off: they are for the step, not for its pieces."""
    before, after = optimiser._optimizer_step_pre_hooks, optimiser._optimizer_step_post_hooks
    _with_hooks(optimiser, OrderedDict(), OrderedDict())
    return before, after


def _with_hooks(
    optimiser: Any, before: OrderedDict[int, Any], after: OrderedDict[int, Any]
) -> None:
    optimiser._optimizer_step_pre_hooks = before
    optimiser._optimizer_step_post_hooks = after
