"""What benchmarks need of torch on a GPU; nothing to do on a CPU."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import torch


def synchronize(device: torch.device | str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def release_memory(device: torch.device | str) -> None:
    """Free unused memory, and reset the peak."""
    gc.collect()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    reset_peak(device)


def reset_peak(device: torch.device | str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def peak_bytes(device: torch.device | str) -> int:
    """The most in live tensors since the last reset; 0 on a CPU."""
    return torch.cuda.max_memory_allocated() if torch.device(device).type == "cuda" else 0


@contextlib.contextmanager
def full_fp32() -> Iterator[None]:
    """No TF32, in a peer's convolutions either."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
