"""Copies between a device and the host that run beside what the device computes."""

from __future__ import annotations

from typing import Any

import torch

# Whose streams and events torch gives in the same words.
_STREAMS = frozenset({"cuda", "xpu"})


class Lane:
    """A stream for copies; where a device has none, copies are made at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._module: Any = getattr(torch, device.type) if device.type in _STREAMS else None
        self._stream: Any = None if self._module is None else self._module.Stream(device)

    def out(self, tensor: torch.Tensor, host: torch.Tensor | None = None) -> torch.Tensor:
        """The tensor on the host, underway, after all that the device was given before.

        Args:
            tensor: on the device; it may be let go at once.
            host: where to; made anew when None.
        """
        if host is None:
            host = self.host_like(tensor)
        if self._stream is None:
            return host.copy_(tensor)
        self._stream.wait_stream(self._module.current_stream(self.device))
        with self._module.stream(self._stream):
            host.copy_(tensor, non_blocking=True)
        # The allocator gives memory away that nobody holds: not before it has been read.
        tensor.record_stream(self._stream)
        return host

    def back(self, host: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """A copy on the device, underway, and the event after which it is there."""
        made = torch.empty_strided(host.size(), host.stride(), dtype=host.dtype, device=self.device)
        if self._stream is None:
            return made.copy_(host), None
        # Its memory may have been another tensor's, which the device still reads.
        self._stream.wait_stream(self._module.current_stream(self.device))
        with self._module.stream(self._stream):
            made.copy_(host, non_blocking=True)
            ready = self._module.Event()
            ready.record(self._stream)
        made.record_stream(self._stream)
        return made, ready

    def wait(self, ready: Any) -> None:
        """What the device is given from now on comes after an event."""
        if ready is not None:
            self._module.current_stream(self.device).wait_event(ready)

    def finish(self) -> None:
        """Wait on the host until every copy is made."""
        if self._stream is not None:
            self._stream.synchronize()

    def host_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Memory on the host for a tensor; pinned where the device can copy from it by itself."""
        return torch.empty_strided(
            tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu",
            pin_memory=self._stream is not None,
        )  # fmt: skip
