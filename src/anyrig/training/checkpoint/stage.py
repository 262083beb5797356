"""Copies of a run's tensors in the host's memory, so that training may go on at once.

On a GPU the copy is put into the device's queue and goes to pinned memory: whatever is queued after
it, the next step's changes too, waits for it on the device, and the caller does not. `Staged.wait`
returns when the copies are there. Memory is used again by the next copy: a keeper holds one
copy of the state, no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from anyrig.errors import InvalidInputError
from anyrig.training.checkpoint import nest

_Key = tuple[Any, ...]


class Staging:
    """Host memory that is used again and again."""

    def __init__(self) -> None:
        self._free: dict[_Key, list[torch.Tensor]] = {}
        self._used: list[tuple[_Key, torch.Tensor]] = []

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the tensor as it is now in the device's order of work."""
        pinned = tensor.device.type == "cuda"
        key = (tensor.dtype, tuple(tensor.shape), _dense_stride(tensor), pinned)
        free = self._free.get(key)
        held = free.pop() if free else self._new(tensor, key[2], pinned)
        self._used.append((key, held))
        held.copy_(tensor, non_blocking=pinned)
        return held

    def _new(self, tensor: torch.Tensor, stride: tuple[int, ...], pinned: bool) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, pin_memory=pinned)

    def give_back(self) -> None:
        """All copies are done with; memory that the last round did not use is let go."""
        self._free = {}
        for key, held in self._used:
            self._free.setdefault(key, []).append(held)
        self._used = []


def _dense_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """Channels-last and turned matrices stay so; views with gaps become plain."""
    return tuple(torch.empty_like(tensor, device="meta").stride())


class Gathered:
    """One file's tensors: copies by name, and names that stand for one and the same tensor."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._names: dict[_Key, str] = {}
        self._alive: list[torch.Tensor] = []  # or another could come to lie at the same address
        self.devices: set[torch.device] = set()
        self.tensors: dict[str, torch.Tensor] = {}
        self.same: dict[str, str] = {}
        """A name to the one under which its tensor is kept: tied weights."""

    def add(self, name: str, tensor: torch.Tensor) -> str:
        """Keep a tensor; the name it is kept under."""
        _plain_tensor(name, tensor)
        tensor = tensor.detach()
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        kept = self._names.get(key) if tensor.numel() else None
        if kept is not None:
            self.same[name] = kept
            return kept
        self._names[key] = name
        self._alive.append(tensor)
        self.devices.add(tensor.device)
        self.tensors[name] = self._staging.copy(tensor)
        return name

    def take(self, tensor: torch.Tensor) -> str:
        """Keep a tensor of a nest, under a number."""
        return self.add(f"t{len(self.tensors) + len(self.same)}", tensor)

    def nest(self, value: Any, where: str) -> nest.Json:
        """A nest in JSON values; its tensors are kept."""
        return nest.encode(value, self.take, where)


def _plain_tensor(name: str, tensor: torch.Tensor) -> None:
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    what = ""
    if tensor.device.type == "meta":
        what = "has no values (it is on the meta device)"
    elif is_traceable_wrapper_subclass(tensor):
        what = f"is a {type(tensor).__name__}, perhaps a shard"
    elif tensor.layout is not torch.strided or tensor.is_quantized:
        what = "is sparse or quantised"
    if what:
        raise InvalidInputError(
            f"{name} {what}, which a checkpoint cannot store",
            hint="Pass whole, dense tensors: `group.weights` gathers them.",
        )


class Event:
    """When what was queued on some devices is done."""

    def __init__(self, devices: Iterable[torch.device]) -> None:
        self._events = [
            torch.cuda.current_stream(device).record_event()
            for device in set(devices)
            if device.type == "cuda"
        ]

    def wait(self) -> None:
        """Return when it is."""
        for event in self._events:
            event.synchronize()
