"""Whether cuDNN tries its ways of a convolution and keeps the fastest, while a run lasts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

import torch
from torch import nn


@contextlib.contextmanager
def cudnn_benchmark(
    how: bool | Literal["auto"], device_type: str, *, model: nn.Module | None = None
) -> Iterator[str]:
    """Sets the switch, gives the reason, and puts it back.

    Args:
        how: `auto` is on where a GPU runs a model with convolutions: each new shape is tried once,
            so it pays where shapes repeat, as they do in all batches but an epoch's last.
        device_type: where it runs.
        model: what is trained.
    """
    before = torch.backends.cudnn.benchmark
    wanted, why = _decided(how, device_type, model)
    torch.backends.cudnn.benchmark = wanted
    try:
        yield why
    finally:
        torch.backends.cudnn.benchmark = before


def _decided(
    how: bool | Literal["auto"], device_type: str, model: nn.Module | None
) -> tuple[bool, str]:
    if isinstance(how, bool):
        return how, f"{'on' if how else 'off'}, as set"
    if device_type != "cuda":
        return False, f"off: cuDNN does not drive {device_type}"
    if model is not None and not any(_convolves(module) for module in model.modules()):
        return False, "off: there is no convolution in the model"
    return True, "on: shapes repeat"


def _convolves(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.conv._ConvNd)
