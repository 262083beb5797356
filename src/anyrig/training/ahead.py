"""The next batch is read and copied to the device while this one is computed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from anyrig.training.nests import tensors_of, to_device
from anyrig.training.protocol import Batch


class Ahead:
    """Batches on a device; on CUDA and ROCm they are copied on a stream of their own.

    A loop that waits for the device in each step calls `prefetch` before it waits: the next batch
    is then read and copied beside the work. Copies are beside it from pinned memory only. One more
    batch is held on the device. Elsewhere `prefetch` does nothing.

    Args:
        batches: on the host.
        device: where they go.
    """

    def __init__(self, batches: Iterable[Batch], device: torch.device | str) -> None:
        self._batches = iter(batches)
        self._device = torch.device(device)
        make: Any = torch.cuda.Stream
        self._side = make(self._device) if self._device.type == "cuda" else None
        self._held: tuple[Batch] | None = None
        self._error: Exception | None = None

    def __iter__(self) -> Ahead:
        return self

    def prefetch(self) -> None:
        """Send the next batch now. What goes wrong is raised when the batch is asked for."""
        if self._side is None or self._held is not None or self._error is not None:
            return
        try:
            self._held = (self._sent(),)
        except Exception as error:  # noqa: BLE001  # it is raised later, in its place
            self._error = error

    def __next__(self) -> Batch:
        error, self._error = self._error, None
        if error is not None:
            raise error
        held, self._held = self._held, None
        batch = held[0] if held else self._sent()
        if self._side is not None:
            now = torch.cuda.current_stream(self._device)
            now.wait_stream(self._side)
            for tensor in tensors_of(batch):
                # Its memory came from the side stream: it is not given away while this one reads.
                tensor.record_stream(now)
        return batch

    def _sent(self) -> Batch:
        batch = next(self._batches)
        if self._side is None:
            return to_device(batch, self._device)
        with torch.cuda.stream(self._side):
            return to_device(batch, self._device)

    def close(self) -> None:
        """Drop what was sent ahead, and end the batches' iterator where it can be ended."""
        self._held = self._error = None
        end = getattr(self._batches, "close", None)
        if end is not None:
            end()


def ahead(batches: Iterable[Batch], device: torch.device | str) -> Iterator[Batch]:
    """Batches on a device, each copied while the one before it is computed on; see `Ahead`."""
    return Ahead(batches, device)
