"""The loss scaler beside torch's own, and the self-test: does it find the fault, and at what price.

On an H200 with torch 2.11 the step that breaks (a mask, length 704, very negative logits) is run as
torch would run it, then again after the self-test has switched cuDNN's attention off.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.devices.discover import discover
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import AnyrigError
from anyrig.precision import kernel_checks, selftest
from anyrig.precision.scaler import LossScaler
from benchmarks.harness import Row, middle

BAD_STEPS = 180
GOOD_STEPS = 60
# Parameters of the step that is timed: a model of many small tensors, and one of fewer on a CPU.
NUM_TENSORS = {"cpu": 100, "h200": 600}
ROUNDS = 15


def run(hardware: str) -> list[Row]:
    where = torch.device("cuda" if hardware == "h200" else "cpu")
    rows = [*_after_bad_steps(where), _step_time(where, hardware)]
    machine = discover(os.environ)
    device = machine.gpus[0] if hardware == "h200" else machine.cpu_device
    backend = next(d for d in device.backends if d.library == "torch")
    try:
        return [*rows, *_self_test(where, device, backend, hardware)]
    except AnyrigError as error:  # what was measured so far is told all the same
        print(f"the self-test did not end: {error.message}")
        return [*rows, Row("self-test", math.inf, "s", high=12.0)]


# -- the scaler ------------------------------------------------------------------------------------


class Way(NamedTuple):
    """One scaler: how it scales a loss, and how it steps."""

    scale: Callable[[torch.Tensor], torch.Tensor]
    step: Callable[[], object]


def _ours(optimiser: torch.optim.Optimizer, scaler: LossScaler) -> Way:
    return Way(scaler.scale_loss, lambda: scaler.step(optimiser))


def _torchs(optimiser: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> Way:
    def step() -> None:
        scaler.step(optimiser)
        scaler.update()

    return Way(scaler.scale, step)


def _after_bad_steps(where: torch.device) -> list[Row]:
    """180 steps whose loss is infinite, then good ones."""
    scaler, torchs = LossScaler(), torch.amp.GradScaler(where.type)
    ours = _trained(where, lambda optimiser: _ours(optimiser, scaler))
    theirs = _trained(where, lambda optimiser: _torchs(optimiser, torchs))
    peer = "torch.amp.GradScaler"
    after = f"after {BAD_STEPS} bad steps"
    return [
        Row(f"loss scale {after} and {GOOD_STEPS} good", scaler.scale, "", torchs.get_scale(), peer,
            low=scaler.settings.floor),
        Row(f"weights that are not finite {after}", ours[0], "", theirs[0], peer, high=0.0),
        Row(f"loss {after} and {GOOD_STEPS} good, of the first", ours[1], "", theirs[1], peer,
            high=0.5),
    ]  # fmt: skip


def _trained(
    where: torch.device, make: Callable[[torch.optim.Optimizer], Way]
) -> tuple[float, float]:
    """Weights that are not finite, and the last loss over the first."""
    torch.manual_seed(0)
    net = nn.Linear(32, 32).to(where)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    way = make(optimiser)
    data = torch.randn(64, 32, device=where)
    losses = []
    for number in range(BAD_STEPS + GOOD_STEPS):
        optimiser.zero_grad()
        loss = (net(data) - data).square().mean()
        way.scale(loss * math.inf if number < BAD_STEPS else loss).backward()  # type: ignore[no-untyped-call]
        way.step()
        losses.append(float(loss.detach()))
    bad = sum(int((~p.isfinite()).sum()) for p in net.parameters())
    return float(bad), losses[-1] / losses[0]


def _step_time(where: torch.device, hardware: str) -> Row:
    """Unscale, check and step over many tensors: ours beside torch's own, in turns."""
    count = NUM_TENSORS[hardware]
    both = []
    for ours in (True, False):
        tensors = [nn.Parameter(torch.randn(256, 64, device=where)) for _ in range(count)]
        optimiser = torch.optim.SGD(tensors, lr=1e-6)
        torchs = torch.amp.GradScaler(where.type)
        both.append(
            (tensors, _ours(optimiser, LossScaler()) if ours else _torchs(optimiser, torchs))
        )
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 3):
        for index, (tensors, way) in enumerate(both):
            for tensor in tensors:
                tensor.grad = None
            loss = sum((t.sum() for t in tensors), torch.zeros((), device=where))
            way.scale(loss).backward()  # type: ignore[no-untyped-call]
            _wait(where)
            start = time.perf_counter()
            way.step()
            _wait(where)
            if number >= 3:
                times[index].append(time.perf_counter() - start)
    value, spread = middle(times[0], 1e3)
    peer, _ = middle(times[1], 1e3)
    # A shared CPU is noisy.
    return Row(f"unscale, check and step over {count} tensors", value, "ms", peer,
               "torch.amp.GradScaler", high=1.25 if hardware == "h200" else 1.5, judge="ratio",
               spread=spread)  # fmt: skip


def _wait(where: torch.device) -> None:
    if where.type == "cuda":
        torch.cuda.synchronize()


# -- the self-test ---------------------------------------------------------------------------------


def _self_test(
    where: torch.device, device: Device, backend: DeviceBackend, hardware: str
) -> list[Row]:
    backends: Any = torch.backends.cuda
    names = ("flash", "mem_efficient", "cudnn")
    before = {name: getattr(backends, f"{name}_sdp_enabled")() for name in names}
    broken = _nonfinite_gradients(where)
    try:
        report = selftest.apply_selftest(device, backend)
        mended = _nonfinite_gradients(where)
    finally:
        for name, on in before.items():
            getattr(backends, f"enable_{name}_sdp")(on)
    for row in selftest.results_table(report.results):
        if row[4].startswith("wrong"):
            print(" | ".join(row))
    for fault in report.attention_faults.values():
        print(fault)
    counts = [r.verdict for r in report.results]
    limit = 12.0 if hardware == "h200" else 5.0
    return [
        Row("self-test", report.seconds, "s", high=limit,
            spread=f"{counts.count('right')} right, {counts.count('wrong')} wrong, "
                   f"{counts.count('unsupported')} unsupported"),
        Row("values not finite in a masked step at length 704", float(mended), "", float(broken),
            "torch's own choice of backend", high=0.0),
        *_flagged(report, hardware),
    ]  # fmt: skip


def _nonfinite_gradients(where: torch.device) -> int:
    """Values that are not finite in one attention step at length 704, as torch runs it now."""
    inputs = kernel_checks.make_attention_inputs(kernel_checks.ATTENTION_CASES[0])
    found = kernel_checks.run_attention(inputs, "bf16", where)
    return sum(int((~tensor.isfinite()).sum()) for tensor in found)


def _flagged(report: selftest.SelfTestReport, hardware: str) -> list[Row]:
    """cuDNN's fault is known on Hopper with torch 2.11; elsewhere there is no bar."""
    if hardware != "h200":
        return []
    flagged = [r for r in report.results if r.backend == "cudnn" and r.is_fault and r.num_bad]
    low = 1.0 if torch.__version__.startswith("2.11.") else None
    return [Row("shapes and formats where cuDNN attention is flagged", len(flagged), "", low=low)]
