"""Scalars on their way from the device to the host, read when they have arrived.

On CUDA and XPU they are copied into pinned memory behind the work that makes them, and an event
says when. Elsewhere reading waits for nothing (CPU), or there is no such copy: then a value is kept
on the device and read a few steps later.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import torch

from anyrig.training.watch.phases import Event, EventClock

_PINNED = frozenset({"cuda", "xpu"})


class Arrival(NamedTuple):
    """Numbers that were sent."""

    values: torch.Tensor
    """Where they arrive: one host row, or the device's where copies wait."""
    event: Event | None = None
    pinned: bool = False

    def ready(self) -> bool:
        """Whether they can be read without waiting."""
        return self.event is None or self.event.query()

    def wait(self) -> None:
        """Wait until they can."""
        if self.event is not None:
            self.event.synchronize()

    def numbers(self) -> list[float]:
        """The numbers."""
        return [float(one) for one in self.values.tolist()]


class Readback:
    """Sends rows of scalars to the host.

    Args:
        device: where the scalars are.
        width: how many are in a row.
        depth: how many rows may be under way.
    """

    def __init__(self, device: torch.device, width: int, depth: int) -> None:
        self._device = device
        self._width = width
        self._clock = EventClock(device) if device.type in _PINNED | {"mps"} else None
        self._rows: deque[torch.Tensor] = deque()
        # fp64 keeps counts of units exact; not every GPU has it.
        self.dtype = torch.float64 if device.type in ("cpu", "cuda") else torch.float32
        if device.type in _PINNED:
            block = torch.zeros(depth, width, dtype=self.dtype, pin_memory=True)
            self._rows.extend(block.unbind(0))

    def send(self, numbers: list[torch.Tensor | float]) -> Arrival:
        """Send a row; what is no tensor is written on the host."""
        if self._device.type in _PINNED and self._rows:
            return self._send_pinned(numbers)
        if self._device.type != "cpu":
            row = torch.stack([self._on_device(one) for one in numbers])
            return Arrival(row, self._clock.mark() if self._clock else None)
        # A copy: an accumulator may be written to again before anyone looks.
        return Arrival(torch.tensor([float(one) for one in numbers], dtype=self.dtype))

    def _send_pinned(self, numbers: list[torch.Tensor | float]) -> Arrival:
        assert self._clock is not None
        row = self._rows.popleft()
        for place, one in enumerate(numbers):
            if isinstance(one, torch.Tensor):
                row[place].copy_(one.detach().reshape(()), non_blocking=True)
            else:
                row[place] = one
        return Arrival(row, self._clock.mark(), pinned=True)

    def _on_device(self, one: torch.Tensor | float) -> torch.Tensor:
        if isinstance(one, torch.Tensor):
            return one.detach().to(self._device, self.dtype).reshape(())
        return torch.full((), float(one), dtype=self.dtype, device=self._device)

    def give_back(self, arrival: Arrival) -> None:
        """A row that was read."""
        if arrival.pinned:
            self._rows.append(arrival.values)
        if arrival.event is not None and self._clock is not None:
            self._clock.give_back([arrival.event])
