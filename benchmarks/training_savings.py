"""What three well-known techniques save in memory and time, beside what is usually promised.

Gradient checkpointing (promised: 30-50 % of memory), mixed precision (1.5-2 times the speed) and
attention that does not store its scores (20-40 % of memory), on GPT-2 124M, BERT-base and
ResNet-50. Each figure is of a whole training step in eager mode with fused AdamW: peak memory of
live tensors, and the median time of a few steps. There are no bars.

Each is compared with a baseline: bf16 for checkpointing, fp32 for precisions, math attention for
attention. On a plain CPU small models run once, to show that the script works.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyrig.precision.policy import make_policy
from anyrig.training.memory import RecomputeMode, recompute
from anyrig.units import GIB, MIB, format_bytes
from benchmarks.harness import Row
from benchmarks.torch_tools import peak_bytes, release_memory, reset_peak, synchronize
from benchmarks.training_models import Case, cases, make_batch

ITEMS = {"GPT-2 124M": 16, "BERT-base": 32, "ResNet-50": 64}
WARM_UP, TIMED = 2, 5
# No further step is timed after this.
MAX_S = 2.5
PROMISES = {
    "checkpointing": "promised: 30-50 % less memory",
    "precision": "promised: 1.5-2 times as fast",
    "attention": "promised: 20-40 % less memory",
}


class Variant(NamedTuple):
    """How a step runs."""

    theme: str
    name: str
    precision: str = "bf16"
    recompute_mode: RecomputeMode | None = None
    attention: SDPBackend | None = None


class StepCost(NamedTuple):
    peak_bytes: int
    seconds: float


BF16 = Variant("", "bf16")
FP32 = Variant("precision", "fp32", "fp32")
CHECKPOINTING = (
    Variant("checkpointing", "whole blocks", recompute_mode="blocks"),
    Variant("checkpointing", "selective", recompute_mode="selective"),
)
PRECISION = (
    Variant("precision", "tf32", "tf32"),
    Variant("precision", "bf16", "bf16"),
    Variant("precision", "fp16", "fp16"),
)
MATH_ATTENTION = Variant("attention", "math: scores written", attention=SDPBackend.MATH)
ATTENTION = (
    Variant("attention", "flash", attention=SDPBackend.FLASH_ATTENTION),
    Variant("attention", "memory-efficient", attention=SDPBackend.EFFICIENT_ATTENTION),
    Variant("attention", "cuDNN", attention=SDPBackend.CUDNN_ATTENTION),
)


def run(hardware: str) -> list[Row]:
    tiny = hardware == "cpu"
    device = torch.device("cpu" if tiny else "cuda")
    rows: list[Row] = []
    for case in cases(tiny=tiny):
        if case.name not in ITEMS:
            continue
        size = 2 if tiny else ITEMS[case.name]
        print(f"\n{case.name}, {size} items", flush=True)
        rows += _compare(case, size, device, BF16, CHECKPOINTING)
        rows += _compare(case, size, device, FP32, PRECISION)
        if case.attention:
            rows += _compare(case, size, device, MATH_ATTENTION, ATTENTION)
    return rows


def _compare(
    case: Case, size: int, device: torch.device, baseline: Variant, variants: tuple[Variant, ...]
) -> list[Row]:
    """Each variant beside the baseline, in memory and in time."""
    base = _measure(case, size, device, baseline)
    if base is None:
        return []
    rows = []
    for variant in variants:
        found = _measure(case, size, device, variant)
        if found is None:
            continue
        memory = 1 - found.peak_bytes / base.peak_bytes if base.peak_bytes else 0.0
        speed = base.seconds / found.seconds
        label, promise = f"{case.name}, {variant.theme}: {variant.name}", PROMISES[variant.theme]
        print(f"  {variant.name} beside {baseline.name}: {memory:+.0%} memory saved, "
              f"{speed:.2f} times as fast ({promise})", flush=True)  # fmt: skip
        unit, name = (MIB, "MiB") if device.type == "cpu" else (GIB, "GiB")
        rows += [
            Row(f"{label}, memory", found.peak_bytes / unit, name, base.peak_bytes / unit,
                baseline.name, spread=f"{memory:.0%} less; {promise}"),
            Row(f"{label}, time", found.seconds * 1000, "ms", base.seconds * 1000, baseline.name,
                spread=f"{speed:.2f} times as fast; {promise}"),
        ]  # fmt: skip
    return rows


def _measure(case: Case, size: int, device: torch.device, variant: Variant) -> StepCost | None:
    """None where the device has no such kernel."""
    try:
        cost = _run(case, size, device, variant)
    except RuntimeError as error:
        print(f"  {variant.name}: {str(error).splitlines()[0][:120]}", flush=True)
        cost = None
    release_memory(device)
    if cost is not None:
        print(f"  {variant.name}: {format_bytes(cost.peak_bytes)}, {cost.seconds * 1000:.1f} ms",
              flush=True)  # fmt: skip
    return cost


def _run(case: Case, size: int, device: torch.device, variant: Variant) -> StepCost:
    torch.manual_seed(0)
    with torch.device(device):
        model = case.make().train()
    policy = make_policy(variant.precision, device.type, training=True)  # type: ignore[arg-type]
    if variant.recompute_mode is not None:
        recompute(model, variant.recompute_mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    items = make_batch(case, size, device)

    def step() -> None:
        with policy.autocast(), _attention(variant.attention):
            loss = case.loss(model, items)
        with _attention(variant.attention):  # a recomputed block chooses again
            policy.backward(loss)
        policy.step(optimizer)
        optimizer.zero_grad(set_to_none=True)

    try:
        return _time_step(step, device)
    finally:
        policy.restore()


def _attention(backend: SDPBackend | None) -> AbstractContextManager[Any]:
    return contextlib.nullcontext() if backend is None else sdpa_kernel(backend)


def _time_step(step: Callable[[], None], device: torch.device) -> StepCost:
    for _ in range(WARM_UP):
        step()
    reset_peak(device)
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < TIMED and time.perf_counter() - start < MAX_S:
        before = time.perf_counter()
        step()
        synchronize(device)
        times.append(time.perf_counter() - before)
    return StepCost(peak_bytes(device), statistics.median(times))
