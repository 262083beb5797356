"""The loss scaler beside torch's own, and the self-test: what it finds, and what it costs.

On an H200 with torch 2.11 the step that breaks (a mask, length 704, very negative logits) is run as
torch would run it, then again after the self-test has disabled cuDNN's attention.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import AnyrigError
from anyrig.precision import kernel_checks, selftest
from anyrig.precision.scaler import LossScaler
from benchmarks.harness import Row, median_and_range
from benchmarks.torch_tools import synchronize

BAD_STEPS = 180
GOOD_STEPS = 60
# Parameters of the step that is timed.
NUM_TENSORS = {"cpu": 100, "h200": 600}
ROUNDS = 15


def run(hardware: str) -> list[Row]:
    torch_device = torch.device("cuda" if hardware == "h200" else "cpu")
    rows = [*_after_bad_steps(torch_device), _step_time(torch_device, hardware)]
    machine = discover(os.environ)
    device = machine.gpus[0] if hardware == "h200" else machine.cpu_device
    backend = next(d for d in device.backends if d.library == "torch")
    try:
        return [*rows, *_self_test(torch_device, device, backend, hardware)]
    except AnyrigError as error:  # what was measured so far is reported
        print(f"the self-test did not end: {error.message}")
        return [*rows, Row("self-test", math.inf, "s", high=12.0)]


# -- the scaler ------------------------------------------------------------------------------------


class Scaler(NamedTuple):
    """How a loss is scaled, and how a step is made."""

    scale: Callable[[torch.Tensor], torch.Tensor]
    step: Callable[[], object]


def _our_scaler(optimiser: torch.optim.Optimizer, scaler: LossScaler) -> Scaler:
    return Scaler(scaler.scale_loss, lambda: scaler.step(optimiser))


def _torch_scaler(optimiser: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> Scaler:
    def step() -> None:
        scaler.step(optimiser)
        scaler.update()

    return Scaler(scaler.scale, step)


def _after_bad_steps(device: torch.device) -> list[Row]:
    """180 steps whose loss is infinite, then good ones."""
    scaler, torchs = LossScaler(), torch.amp.GradScaler(device.type)
    ours = _train(device, lambda optimiser: _our_scaler(optimiser, scaler))
    theirs = _train(device, lambda optimiser: _torch_scaler(optimiser, torchs))
    peer = "torch.amp.GradScaler"
    after = f"after {BAD_STEPS} bad steps"
    return [
        Row(f"loss scale {after} and {GOOD_STEPS} good", scaler.scale, "", torchs.get_scale(), peer,
            low=scaler.settings.floor),
        Row(f"weights that are not finite {after}", ours[0], "", theirs[0], peer, high=0.0),
        Row(f"loss {after} and {GOOD_STEPS} good, of the first", ours[1], "", high=0.5,
            spread=f"{peer}: {theirs[1]:.4g}"),
    ]  # fmt: skip


def _train(
    device: torch.device, make: Callable[[torch.optim.Optimizer], Scaler]
) -> tuple[float, float]:
    """Weights that are not finite, and the last loss over the first."""
    torch.manual_seed(0)
    net = nn.Linear(32, 32).to(device)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    scaler = make(optimiser)
    data = torch.randn(64, 32, device=device)
    losses = []
    for number in range(BAD_STEPS + GOOD_STEPS):
        optimiser.zero_grad()
        loss = (net(data) - data).square().mean()
        scaler.scale(loss * math.inf if number < BAD_STEPS else loss).backward()  # type: ignore[no-untyped-call]
        scaler.step()
        losses.append(float(loss.detach()))
    bad = sum(int((~p.isfinite()).sum()) for p in net.parameters())
    return float(bad), losses[-1] / losses[0]


def _step_time(device: torch.device, hardware: str) -> Row:
    """Unscale, check and step over many tensors: ours beside torch's own, in turns."""
    count = NUM_TENSORS[hardware]
    both = []
    for ours in (True, False):
        tensors = [nn.Parameter(torch.randn(256, 64, device=device)) for _ in range(count)]
        optimiser = torch.optim.SGD(tensors, lr=1e-6)
        torchs = torch.amp.GradScaler(device.type)
        scaler = _our_scaler(optimiser, LossScaler()) if ours else _torch_scaler(optimiser, torchs)
        both.append((tensors, scaler))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 3):
        for index, (tensors, scaler) in enumerate(both):
            for tensor in tensors:
                tensor.grad = None
            loss = sum((t.sum() for t in tensors), torch.zeros((), device=device))
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            synchronize(device)
            start = time.perf_counter()
            scaler.step()
            synchronize(device)
            if number >= 3:
                times[index].append(time.perf_counter() - start)
    value, spread = median_and_range(times[0], 1e3)
    peer, _ = median_and_range(times[1], 1e3)
    # A shared CPU is noisy.
    return Row(f"unscale, check and step over {count} tensors", value, "ms", peer,
               "torch.amp.GradScaler", high=1.25 if hardware == "h200" else 1.5, judge="ratio",
               spread=spread)  # fmt: skip


# -- the self-test ---------------------------------------------------------------------------------


def _self_test(
    torch_device: torch.device, device: Device, backend: DeviceBackend, hardware: str
) -> list[Row]:
    backends: Any = torch.backends.cuda
    names = ("flash", "mem_efficient", "cudnn")
    before = {name: getattr(backends, f"{name}_sdp_enabled")() for name in names}
    num_before = _nonfinite_gradients(torch_device)
    try:
        report = selftest.apply_selftest(device, backend)
        num_after = _nonfinite_gradients(torch_device)
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
        Row("values not finite in a masked step at length 704", float(num_after), "",
            float(num_before), "torch's own choice of backend", high=0.0),
        *_cudnn_faults(report, hardware),
    ]  # fmt: skip


def _nonfinite_gradients(device: torch.device) -> int:
    """Values that are not finite in one attention step at length 704, as torch runs it now."""
    inputs = kernel_checks.make_attention_inputs(kernel_checks.ATTENTION_CASES[0])
    found = kernel_checks.run_attention(inputs, "bf16", device)
    return sum(int((~tensor.isfinite()).sum()) for tensor in found)


def _cudnn_faults(report: selftest.SelfTestReport, hardware: str) -> list[Row]:
    """cuDNN's fault is known on Hopper with torch 2.11; elsewhere there is no bar."""
    if hardware != "h200":
        return []
    flagged = [r for r in report.results if r.backend == "cudnn" and r.is_fault and r.num_bad]
    low = 1.0 if torch.__version__.startswith("2.11.") else None
    return [Row("shapes and formats where cuDNN attention is flagged", len(flagged), "", low=low)]
