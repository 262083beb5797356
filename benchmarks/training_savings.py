"""What three well-known means really save in memory and time, beside what is usually promised.

Gradient checkpointing (promised: 30-50 % of memory), mixed precision (1.5-2 times the speed) and
attention that writes no scores down (20-40 % of memory), on GPT-2 124M, BERT-base and ResNet-50.
Every figure is of a whole training step in eager mode with AdamW in fused kernels: the most in live
tensors (`torch.cuda.max_memory_allocated`), and the median time of a few steps. Nothing here is a
bar: a promise that does not hold is a result.

The first row of each model is what the others are beside: bf16 for checkpointing and attention,
fp32 for precisions. On a plain CPU small models run once, to show that the script does.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from anyrig.precision.policy import make_policy
from anyrig.training.saving.recompute import How, recompute
from anyrig.units import GIB, MIB, format_bytes
from benchmarks.harness import Row
from benchmarks.training_models import Case, batch, cases

ITEMS = {"GPT-2 124M": 16, "BERT-base": 32, "ResNet-50": 64}
WARM, TIMED = 2, 5
# Steps are stopped early past this, so that a slow one does not hold up the rest.
LONGEST_S = 2.5
PROMISES = {
    "checkpointing": "promised: 30-50 % less memory",
    "precision": "promised: 1.5-2 times as fast",
    "attention": "promised: 20-40 % less memory",
}


class Way(NamedTuple):
    """One way to run a model's step."""

    theme: str
    name: str
    precision: str = "bf16"
    how: How | None = None
    attention: SDPBackend | None = None


class Cost(NamedTuple):
    """What a step took."""

    peak_bytes: int
    seconds: float


PLAIN = Way("", "bf16")
FULL = Way("precision", "fp32", "fp32")
CHECKPOINTING = (
    Way("checkpointing", "whole blocks", how="blocks"),
    Way("checkpointing", "selective", how="selective"),
)
PRECISION = (
    Way("precision", "tf32", "tf32"),
    Way("precision", "bf16", "bf16"),
    Way("precision", "fp16", "fp16"),
)
SCORES = Way("attention", "math: scores written", attention=SDPBackend.MATH)
ATTENTION = (
    Way("attention", "flash", attention=SDPBackend.FLASH_ATTENTION),
    Way("attention", "memory-efficient", attention=SDPBackend.EFFICIENT_ATTENTION),
    Way("attention", "cuDNN", attention=SDPBackend.CUDNN_ATTENTION),
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
        rows += _compared(case, size, device, PLAIN, CHECKPOINTING)
        rows += _compared(case, size, device, FULL, PRECISION)
        if case.attention:
            rows += _compared(case, size, device, SCORES, ATTENTION)
    return rows


def _compared(
    case: Case, size: int, device: torch.device, plain: Way, ways: tuple[Way, ...]
) -> list[Row]:
    """Each way beside the plain one, in memory and in time."""
    base = _cost(case, size, device, plain)
    if base is None:
        return []
    rows = []
    for way in ways:
        found = _cost(case, size, device, way)
        if found is None:
            continue
        memory = 1 - found.peak_bytes / base.peak_bytes if base.peak_bytes else 0.0
        speed = base.seconds / found.seconds
        print(f"  {way.name} beside {plain.name}: {memory:+.0%} memory saved, {speed:.2f} times as "
              f"fast ({PROMISES[way.theme]})", flush=True)  # fmt: skip
        label, promise = f"{case.name}, {way.theme}: {way.name}", PROMISES[way.theme]
        unit, name = (MIB, "MiB") if device.type == "cpu" else (GIB, "GiB")
        rows += [
            Row(f"{label}, memory", found.peak_bytes / unit, name, base.peak_bytes / unit,
                plain.name, spread=f"{memory:.0%} less; {promise}"),
            Row(f"{label}, time", found.seconds * 1000, "ms", base.seconds * 1000, plain.name,
                spread=f"{speed:.2f} times as fast; {promise}"),
        ]  # fmt: skip
    return rows


def _cost(case: Case, size: int, device: torch.device, way: Way) -> Cost | None:
    """The cost of a step, or None with words where the device has no such kernel."""
    try:
        cost = _run(case, size, device, way)
    except RuntimeError as error:
        print(f"  {way.name}: {str(error).splitlines()[0][:120]}", flush=True)
        cost = None
    _clean(device)
    if cost is not None:
        print(f"  {way.name}: {format_bytes(cost.peak_bytes)}, {cost.seconds * 1000:.1f} ms",
              flush=True)  # fmt: skip
    return cost


def _run(case: Case, size: int, device: torch.device, way: Way) -> Cost:
    torch.manual_seed(0)
    with torch.device(device):
        model = case.make().train()
    applied = make_policy(way.precision, device.type, training=True)  # type: ignore[arg-type]
    if way.how is not None:
        recompute(model, way.how)
    rule = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    items = batch(case, size, device)

    def step() -> None:
        with applied.autocast(), _attention(way.attention):
            loss = case.loss(model, items)
        with _attention(way.attention):  # a recomputed block chooses again
            applied.backward(loss)
        applied.step(rule)
        rule.zero_grad(set_to_none=True)

    try:
        return _timed(step, device)
    finally:
        applied.restore()


def _attention(backend: SDPBackend | None) -> AbstractContextManager[Any]:
    return contextlib.nullcontext() if backend is None else sdpa_kernel(backend)


def _timed(step: Callable[[], None], device: torch.device) -> Cost:
    for _ in range(WARM):
        step()
    with _peak(device) as peak:
        times: list[float] = []
        begun = time.perf_counter()
        while len(times) < TIMED and time.perf_counter() - begun < LONGEST_S:
            before = time.perf_counter()
            step()
            _wait(device)
            times.append(time.perf_counter() - before)
    return Cost(peak[0], statistics.median(times))


@contextlib.contextmanager
def _peak(device: torch.device) -> Iterator[list[int]]:
    """The most in live tensors meanwhile; 0 on a CPU, where torch keeps no books."""
    found = [0]
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    yield found
    if device.type == "cuda":
        torch.cuda.synchronize()
        found[0] = torch.cuda.max_memory_allocated()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _clean(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
