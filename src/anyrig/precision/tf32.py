"""TF32 on or off, in the way that readers of the older flags do not raise.

torch has two ways to say it. After the newer one (`torch.backends.cuda.matmul.fp32_precision`) any
read of `torch.backends.cuda.matmul.allow_tf32` or `torch.get_float32_matmul_precision()` raises,
and libraries do read them (Lightning dies on it). `torch.set_float32_matmul_precision` sets both
and mends what the newer one left; for cuDNN the older flag does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def set_tf32(on: bool) -> Callable[[], None]:
    """Let fp32 products be rounded to TF32 from here on, or not; the answer undoes it."""
    matmul, convolution = _matmul_now(), _convolution_now()
    torch.set_float32_matmul_precision("high" if on else "highest")
    torch.backends.cudnn.allow_tf32 = on

    def undo() -> None:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = convolution

    return undo


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """TF32 on or off for a while."""
    undo = set_tf32(on)
    try:
        yield
    finally:
        undo()


def _matmul_now() -> str:
    """The setting as it was, even where somebody used the newer way alone."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "high" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _convolution_now() -> bool:
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:
        newer: Any = torch.backends.cudnn
        return bool(newer.conv.fp32_precision == "tf32")
