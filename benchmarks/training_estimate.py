"""The estimate of a training step's memory beside the peak that torch measures.

Four models at three batch sizes each, eager, bf16 by autocast, fused AdamW: what `estimate` says
without touching the device, and `torch.cuda.max_memory_allocated` after two steps. Then one size of
each model with recomputed activations. On a plain CPU small models are counted twice instead:
without data, and by the same memory tracker in a real step in fp32.
"""

from __future__ import annotations

import gc
import os

import torch

from anyrig.training.config import Recompute
from anyrig.training.estimate import Estimate, MemoryTracker, estimate, repeat_batch
from anyrig.training.memory import recompute
from anyrig.units import GIB, MIB
from benchmarks.harness import Row
from benchmarks.torch_tools import peak_bytes, release_memory
from benchmarks.training_models import Case, cases, make_batch

MAX_ERROR = {"h200": 0.05, "cpu": 0.005}
"""How far the estimate may be off. On a CPU both agree to the byte, but for one kernel: the mean of
a squared error holds all of its terms until it is freed."""
STEPS = 2


def run(hardware: str) -> list[Row]:
    tiny = hardware == "cpu"
    only = os.environ.get("BENCHMARK_MODEL", "")
    rows = []
    for case in cases(tiny=tiny):
        if only.lower() not in case.name.lower():
            continue
        rows += [_row(case, size, "none", hardware) for size in case.sizes]
        rows += [_row(case, case.sizes[1], how, hardware) for how in ("blocks", "selective")]
    return rows


def _row(case: Case, size: int, how: Recompute, hardware: str) -> Row:
    estimated = _estimate(case, size, how, hardware)
    measured = _count_peak(case, size, how) if hardware == "cpu" else _measure_peak(case, size, how)
    unit, name = (MIB, "MiB") if hardware == "cpu" else (GIB, "GiB")
    label = f"{case.name}, {size} items" + ("" if how == "none" else f", recompute {how}")
    print(f"{label}: {estimated.text}; measured {measured / GIB:.3f} GiB, "
          f"estimate / measured {estimated.peak / measured:.3f}", flush=True)  # fmt: skip
    error = MAX_ERROR[hardware]
    return Row(label, estimated.peak / unit, name, measured / unit, "measured", 1 - error,
               1 + error, "ratio")  # fmt: skip


def _estimate(case: Case, size: int, how: Recompute, hardware: str) -> Estimate:
    cpu = hardware == "cpu"
    with torch.device("meta"):
        model = case.make()
    return estimate(
        model, repeat_batch(case.example), case.loss, micro_batch=size,
        precision="fp32" if cpu else "bf16", recompute=how,
        device_type="cpu" if cpu else "cuda", capability=None if cpu else _capability(),
    )  # fmt: skip


def _capability() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"{major}.{minor}"


def _measure_peak(case: Case, size: int, how: Recompute) -> int:
    """The peak of two steps on the GPU."""
    device = torch.device("cuda")
    release_memory(device)
    with torch.device(device):
        model = case.make().train()
    if how != "none":
        recompute(model, how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    items = make_batch(case, size, device)
    for _ in range(STEPS):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = case.loss(model, items)
        loss.backward()  # type: ignore[no-untyped-call]
        del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    peak = peak_bytes(device)
    requested = torch.cuda.memory_stats().get("requested_bytes.all.peak", 0)
    reserved = torch.cuda.max_memory_reserved()
    print(f"  requested {requested / GIB:.3f} GiB, reserved {reserved / GIB:.3f} GiB", flush=True)
    del model, optimizer, items
    release_memory(device)
    return peak


def _count_peak(case: Case, size: int, how: Recompute) -> int:
    """The peak of the same two steps on tensors with data, by the same memory tracker."""
    model = case.make().train()
    if how != "none":
        recompute(model, how)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    tracker = MemoryTracker()
    tracker.add([*model.parameters(), *model.buffers()], "weights")
    with tracker:
        for _ in range(STEPS):
            items = make_batch(case, size, torch.device("cpu"))
            case.loss(model, items).backward()  # type: ignore[no-untyped-call]
            del items
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            gc.collect()
    return tracker.peak_bytes
