"""Activations in the host's memory until the backward pass wants them.

    with offload_activations(model.parameters()) as offload:
        loss = loss_of(model, batch)
    loss.backward()

What autograd keeps goes to pinned host memory on a stream of its own, beside the forward pass, and
comes back ahead of its use, in the order in which backward will ask. Whole storages are moved, each
once: queries, keys and values that are views of one product travel together. On a CPU nothing is
moved, and `reason` says so. A compiled model keeps its activations itself: this changes nothing
there.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from typing import Any

import torch

from anyrig.training.saving.lane import Lane
from anyrig.units import MIB, format_bytes

# Smaller tensors cost more to move than they take.
_LEAST_BYTES = MIB
# How many tensors come back ahead of their use.
_AHEAD = 2
_STAY = frozenset({"cpu", "meta"})


class _Away:
    """A storage that is on the host until backward wants it."""

    def __init__(self, number: int, host: torch.Tensor, device: torch.device) -> None:
        self.number, self.host, self.device = number, host, device
        self.back: torch.Tensor | None = None
        self.ready: Any = None
        """An event after which `back` holds the data."""
        self.num_kept = 0
        """How many tensors on this storage autograd keeps."""
        self.num_asked = 0


class _View:
    """A tensor on a storage that is away."""

    def __init__(self, away: _Away, tensor: torch.Tensor) -> None:
        self.away, self.dtype, self.offset = away, tensor.dtype, tensor.storage_offset()
        self.size, self.stride = tensor.size(), tensor.stride()
        away.num_kept += 1

    def on(self, raw: torch.Tensor) -> torch.Tensor:
        """The same view of the storage that came back."""
        made = torch.empty(0, dtype=self.dtype, device=raw.device)
        return made.set_(raw.untyped_storage(), self.offset, self.size, self.stride)


class offload_activations(torch.autograd.graph.saved_tensors_hooks):  # noqa: N801  a context
    """Around a forward pass, and the next: what is kept for backward waits on the host.

    Args:
        weights: never moved, nor any view of them.
        least_bytes: smaller storages stay.
        ahead: how many come back before backward asks for them.
        stay: types of devices whose tensors stay where they are.
    """

    def __init__(
        self,
        weights: Iterable[torch.Tensor] = (),
        *,
        least_bytes: int = _LEAST_BYTES,
        ahead: int = _AHEAD,
        stay: Collection[str] = _STAY,
    ) -> None:
        self._given = tuple(weights)
        self._weights: frozenset[int] = frozenset()
        self._least_bytes, self._ahead, self._stay = least_bytes, ahead, frozenset(stay)
        self._known: dict[int, tuple[weakref.ref[Any], int, weakref.ref[_Away]]] = {}
        self._by_number: weakref.WeakValueDictionary[int, _Away] = weakref.WeakValueDictionary()
        self._count = 0
        self._lanes: dict[torch.device, Lane] = {}
        self.num_bytes = 0
        """Moved to the host so far."""
        super().__init__(self._pack, self._unpack)

    def __enter__(self) -> offload_activations:  # type: ignore[override]  # torch gives nothing
        # Anew each time: weights move when they are cast or shared out.
        self._weights = frozenset(one.untyped_storage().data_ptr() for one in self._given)
        super().__enter__()
        return self

    @property
    def reason(self) -> str:
        """One sentence for the log."""
        if not self.num_bytes:
            return "no activations were moved: all are small, weights, or on the host already"
        return f"{format_bytes(self.num_bytes)} of activations went to the host and back"

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor | _View:
        if not self._worth(tensor):
            return tensor
        return _View(self._away(tensor), tensor)

    def _worth(self, tensor: torch.Tensor) -> bool:
        if tensor.device.type in self._stay or tensor.layout != torch.strided:
            return False
        if type(tensor) is not torch.Tensor:
            return False  # a weight, or a kind of tensor with a storage of its own making
        storage = tensor.untyped_storage()
        return storage.nbytes() >= self._least_bytes and storage.data_ptr() not in self._weights

    def _away(self, tensor: torch.Tensor) -> _Away:
        """The storage on its way to the host; one that was kept before is not sent again."""
        storage = tensor.untyped_storage()
        found = self._known.get(id(storage))
        if found is not None:
            there, version, sent = found
            away = sent()
            if there() is storage and version == tensor._version and away is not None:
                return away
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
        self._count += 1
        away = _Away(self._count, self._lane(tensor.device).out(raw), tensor.device)
        self._by_number[self._count] = away
        key = id(storage)
        gone = weakref.ref(storage, lambda _: self._known.pop(key, None))
        self._known[key] = (gone, tensor._version, weakref.ref(away))
        self.num_bytes += away.host.nbytes
        return away

    def _unpack(self, packed: torch.Tensor | _View) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        away = packed.away
        self._fetch(away)
        # Backward asks in the reverse of the order in which tensors were kept.
        for number in range(away.number - 1, away.number - 1 - self._ahead, -1):
            near = self._by_number.get(number)
            if near is not None and near.num_asked < near.num_kept:
                self._fetch(near)
        assert away.back is not None
        self._lane(away.device).wait(away.ready)
        found = packed.on(away.back)
        away.num_asked += 1
        if away.num_asked >= away.num_kept:
            away.back = away.ready = None  # lives as long as backward holds a view of it
        return found

    def _fetch(self, away: _Away) -> None:
        if away.back is None:
            away.back, away.ready = self._lane(away.device).back(away.host)

    def _lane(self, device: torch.device) -> Lane:
        if device not in self._lanes:
            self._lanes[device] = Lane(device)
        return self._lanes[device]
