"""A checkpoint's tensors by name, on the device and in the format they are wanted in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from anyrig.errors import MissingWeightsError


class Weights:
    """Tensors under a prefix. Each is read when it is asked for, so a model is never held twice."""

    def __init__(
        self,
        read: Callable[[str], Tensor],
        device: torch.device,
        dtype: torch.dtype,
        prefix: str = "",
    ) -> None:
        self._read = read
        self.device = device
        self.dtype = dtype
        self.prefix = prefix

    def __getitem__(self, name: str) -> Tensor:
        """A tensor, in the model's format."""
        return self.exact(name).to(self.dtype)

    def exact(self, name: str) -> Tensor:
        """A tensor in single precision, for what is worked out before it is rounded."""
        return self._read(self.prefix + name).detach().to(self.device, torch.float32)

    def under(self, prefix: str) -> Weights:
        """The tensors whose names begin so."""
        return Weights(self._read, self.device, self.dtype, f"{self.prefix}{prefix}.")

    def packed(self, *names: str) -> Tensor:
        """Several matrices of one input as one: a product with it is one piece of work."""
        return torch.cat([self[name] for name in names])


def of_folder(folder: Path, device: torch.device, dtype: torch.dtype) -> Weights:
    """The tensors of a folder's safetensors files."""
    where = _files(folder)
    opened = {
        path: safe_open(path, framework="pt", device="cpu") for path in sorted(set(where.values()))
    }

    def read(name: str) -> Tensor:
        if name not in where:
            raise MissingWeightsError(
                f"{folder} has no tensor {name}",
                hint="The folder is not complete, or of another model: fetch it again.",
            )
        tensor: Tensor = opened[where[name]].get_tensor(name)  # type: ignore[no-untyped-call]
        return tensor

    return Weights(read, device, dtype)


def of_tensors(tensors: Mapping[str, Tensor], device: torch.device, dtype: torch.dtype) -> Weights:
    """The tensors of a state dict."""
    return Weights(tensors.__getitem__, device, dtype)


def _files(folder: Path) -> dict[str, Path]:
    """Which file holds each tensor."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = json.loads(index.read_text())["weight_map"]
        return {name: folder / file for name, file in named.items()}
    where: dict[str, Path] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt", device="cpu") as opened:
            where.update(dict.fromkeys(opened.keys(), path))
    return where
