"""What a step changes beside the weights, remembered so that it can be made again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.training.checkpoint import random


class Before:
    """What a step changes beside the weights: random states, and buffers such as batch statistics.

    Which buffers a model changes is seen in its first steps; the others are not copied any more.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model, self._device = model, device
        self._random: dict[str, Any] = {}
        self._copies: dict[tuple[nn.Module, str], _Copy] = {}
        self._steady: set[tuple[nn.Module, str]] = set()

    def take(self) -> None:
        """Remember how things stand."""
        for place, copy in self._copies.items():
            if copy.holder is _buffer(place) and copy.holder._version == copy.version:
                self._steady.add(place)
        self._random = random.capture(self._device)
        self._copies = {
            place: _Copy(buffer, buffer.detach().clone(), buffer._version)
            for place, buffer in self._changing()
        }

    def put_back(self) -> None:
        """As it stood; a buffer that another was put in place of is in its place again."""
        random.restore({0: self._random}, 0, self._device)
        with torch.no_grad():
            for (module, name), copy in self._copies.items():
                copy.holder.copy_(copy.value)
                module._buffers[name] = copy.holder

    def _changing(self) -> Iterator[tuple[tuple[nn.Module, str], torch.Tensor]]:
        for module in self._model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and (module, name) not in self._steady:
                    yield (module, name), buffer


class _Copy(NamedTuple):
    holder: torch.Tensor
    value: torch.Tensor
    version: int


def _buffer(place: tuple[nn.Module, str]) -> torch.Tensor | None:
    module, name = place
    return module._buffers.get(name)
