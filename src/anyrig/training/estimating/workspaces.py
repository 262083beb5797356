"""What a GPU's kernels take beside their results, after the sources of the libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from anyrig.units import KIB, MIB

_HALVES = (torch.float16, torch.bfloat16)
# cuBLAS keeps one for the thread that runs forward and one for backward's: torch gives it 32 MiB
# on Hopper and later, and 8,320 KiB (:4096:2:16:8) elsewhere.
_CUBLAS_LARGE, _CUBLAS = 2 * 32 * MIB, 2 * 8320 * KIB


def constant_bytes(device_type: str, capability: str | None = None) -> int:
    """What stays taken for as long as products run.

    Args:
        device_type: torch's word.
        capability: CUDA's, as `9.0`; unknown counts as the largest.
    """
    if device_type != "cuda":
        return 0
    if capability is None or capability.startswith("gfx"):
        return _CUBLAS_LARGE
    return _CUBLAS_LARGE if int(capability.partition(".")[0] or 0) >= 9 else _CUBLAS


def kernel_bytes(operation: str, args: tuple[Any, ...], results: Any) -> int:
    """What one operation takes until it ends."""
    for prefix, count in _KERNELS.items():
        if operation.startswith(prefix):
            return count(args, results)
    return 0


def _attention_backward(args: tuple[Any, ...], results: Any) -> int:
    """Gradients of the queries are added up in fp32 when they are in half, beside a row's sums."""
    query = args[1]
    rows = int(query.numel() // query.shape[-1])
    return (int(query.numel()) * 4 if query.dtype in _HALVES else 0) + rows * 4


def _convolution(args: tuple[Any, ...], results: Any) -> int:
    """Matrix units want channels last: cuDNN turns input and output round in its workspace."""
    return _turned(args[0], results)


def _convolution_backward(args: tuple[Any, ...], results: Any) -> int:
    return _turned(args[1], args[0])


def _turned(given: torch.Tensor, made: torch.Tensor) -> int:
    if given.dtype not in _HALVES or given.dim() != 4 or given.shape[1] < 8:
        return 0
    if given.is_contiguous(memory_format=torch.channels_last):
        return 0
    return given.numel() * given.element_size() + made.numel() * made.element_size()


def _embedding_backward(args: tuple[Any, ...], results: Any) -> int:
    """Token numbers are sorted: two copies of them, and the order."""
    return int(args[1].numel()) * 8 * 4


_KERNELS: Mapping[str, Callable[[tuple[Any, ...], Any], int]] = {
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "aten.convolution_backward": _convolution_backward,
    "aten.convolution.": _convolution,
    "aten.embedding_dense_backward": _embedding_backward,
}
