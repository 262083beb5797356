"""What a step changes beside the weights, remembered so that it can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from anyrig.training.checkpoint import random


class Before:
    """What a step changes beside the weights: random states, and buffers such as batch statistics.

    Every buffer is copied before every step, into memory that is kept. Whether one will change
    cannot be known: a layer is unfrozen late, `.data` is written to, a CUDA graph is replayed.
    """

    def __init__(self, device: torch.device, *modules: object) -> None:
        self._device = device
        self._roots = [module for module in modules if isinstance(module, nn.Module)]
        self._random: dict[str, Any] = {}
        self._tables: list[tuple[nn.Module, dict[str, torch.Tensor | None]]] = []
        self._copies: dict[torch.Tensor, torch.Tensor] = {}

    def take(self) -> None:
        """Remember how things stand."""
        self._random = random.capture(self._device)
        self._tables = [
            (module, dict(module._buffers)) for module in self._modules() if module._buffers
        ]
        held = {
            buffer for _, buffers in self._tables for buffer in buffers.values()
            if buffer is not None
        }  # fmt: skip
        before, self._copies = self._copies, {}
        again: list[torch.Tensor] = []
        for buffer in held:
            copy = before.get(buffer)
            if copy is not None and _alike(buffer, copy):
                self._copies[buffer] = copy
                again.append(buffer)
            else:
                self._copies[buffer] = buffer.detach().clone()
        if again:
            with torch.no_grad():
                torch._foreach_copy_(
                    [self._copies[one] for one in again], [one.detach() for one in again]
                )

    def put_back(self) -> None:
        """As it stood; a buffer that another was put in place of is in its place again."""
        random.restore({0: self._random}, 0, self._device)
        with torch.no_grad():
            for buffer, copy in self._copies.items():
                if _alike(buffer, copy) and torch._debug_has_internal_overlap(buffer) != 1:
                    buffer.copy_(copy)
                else:
                    # Another shape by now, or places that share memory (`expand`).
                    buffer.data = copy.clone()
        for module, buffers in self._tables:
            module._buffers.clear()
            module._buffers.update(buffers)

    def _modules(self) -> Iterator[nn.Module]:
        for root in self._roots:
            yield from root.modules()


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and one.device == other.device
        and one.layout == other.layout == torch.strided
    )
