"""The estimate of a training step's memory beside the peak that torch measures.

Four models at three batch sizes each, eager, bf16 by autocast, AdamW with fused kernels: what
`estimate` says without touching the device, and `torch.cuda.max_memory_allocated` after two steps.
Then the same with activations recomputed, for one size of each model. On a plain CPU small models
are counted twice instead: without data, and by the same books in a real step in fp32.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import torch
from torch import nn

from anyrig.training.estimating.books import Books
from anyrig.training.estimating.estimate import Estimate, Recompute, estimate
from anyrig.training.estimating.hollow import batch_like
from anyrig.training.saving.recompute import recompute
from anyrig.units import GIB, MIB
from benchmarks.harness import Row
from benchmarks.training_models import Case, batch, cases

NEAR = {"h200": 0.15, "cpu": 0.005}
"""On a CPU both books agree to the byte, but for a kernel that keeps more than its result: the mean
of a squared error holds all of its terms until it is gone."""
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
    foretold = _estimate(case, size, how, hardware)
    measured = _counted(case, size, how) if hardware == "cpu" else _measured(case, size, how)
    unit, name = (MIB, "MiB") if hardware == "cpu" else (GIB, "GiB")
    label = f"{case.name}, {size} items" + ("" if how == "none" else f", recompute {how}")
    print(f"{label}: {foretold.text}; measured {measured / GIB:.3f} GiB, "
          f"estimate / measured {foretold.peak / measured:.3f}", flush=True)  # fmt: skip
    near = NEAR[hardware]
    return Row(label, foretold.peak / unit, name, measured / unit, "measured", 1 - near, 1 + near,
               "ratio")  # fmt: skip


def _estimate(case: Case, size: int, how: Recompute, hardware: str) -> Estimate:
    plain = hardware == "cpu"
    return estimate(
        case.make, batch_like(case.example), case.loss, micro_batch=size,
        precision="fp32" if plain else "bf16", recompute=how,
        device_type="cpu" if plain else "cuda", capability=None if plain else _capability(),
    )  # fmt: skip


def _capability() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"{major}.{minor}"


def _measured(case: Case, size: int, how: Recompute) -> int:
    """The peak of two steps on the GPU."""
    _clean()
    device = torch.device("cuda")
    torch.cuda.reset_peak_memory_stats()
    with torch.device(device):
        model = case.make().train()
    if how != "none":
        recompute(model, how)
    rule = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    items = batch(case, size, device)
    for _ in range(STEPS):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = case.loss(model, items)
        loss.backward()  # type: ignore[no-untyped-call]
        del loss
        rule.step()
        rule.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    asked = torch.cuda.memory_stats().get("requested_bytes.all.peak", 0)
    reserved = torch.cuda.max_memory_reserved()
    print(f"  asked for {asked / GIB:.3f} GiB, reserved {reserved / GIB:.3f} GiB", flush=True)
    del model, rule, items
    _clean()
    return peak


def _clean() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def _counted(case: Case, size: int, how: Recompute) -> int:
    """The peak of the same two steps on tensors with data, by the same books."""
    model = case.make().train()
    if how != "none":
        recompute(model, how)
    rule = _adamw(model)
    books = Books()
    books.enter([*model.parameters(), *model.buffers()], "weights")
    with books:
        for _ in range(STEPS):
            items = batch(case, size, torch.device("cpu"))
            case.loss(model, items).backward()  # type: ignore[no-untyped-call]
            del items
            rule.step()
            rule.zero_grad(set_to_none=True)
            gc.collect()
    return books.peak_bytes


def _adamw(model: nn.Module) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
