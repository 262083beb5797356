"""Sound on its way from a device to the host, while the device goes on."""

from __future__ import annotations

import torch

from anyrig.audio.samples import Samples


class Landing:
    """A block on its way to the host."""

    def __init__(self, sound: torch.Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        if sound.device.type != "cuda":
            self._host = sound.cpu()
            return
        self._host = torch.empty(sound.shape, dtype=sound.dtype, pin_memory=True)
        self._host.copy_(sound, non_blocking=True)
        self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._event.record()

    def wait(self) -> Samples:
        """The block, once it is there."""
        if self._event is not None:
            self._event.synchronize()
        landed: Samples = self._host.numpy()
        return landed
