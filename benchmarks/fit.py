"""Finding the largest batch: how many tries it takes and how near it comes, beside accelerate.

On a GPU limited to 24 GiB: a training step of an 8-layer transformer (width 1024, 16 heads, inner
4096, length 1024, AdamW, bf16 autocast). The true size is found by bisection, each size run for as
many steps as an answer of ours. accelerate's find_executable_batch_size runs the same step in three
setups: as in its own example, where the model is built inside the function and moved to the device,
built there, and with the model kept. Ours builds it once in each setup.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from anyrig.app.bench import find_backend
from anyrig.backends import DeviceHandle, open_device
from anyrig.devices.discovery import discover
from anyrig.memory.batch_size import BatchSizeResult, TrialRunner, find_batch_size
from anyrig.memory.module_step import build_step, build_transformer
from anyrig.units import GIB
from benchmarks.harness import Row
from benchmarks.torch_tools import release_memory

LIMIT_BYTES = 24 * GIB
LENGTH, WIDTH = 1024, 1024
STEPS, FURTHER_STEPS, ROUNDS = 2, 20, 3
MAX_BATCH = 256
Step = Callable[[int], object]


class BatchSearch(NamedTuple):
    batch: int
    seconds: float
    tries: int
    failures: int


class LimitedGpu:
    """The first GPU through torch, with a memory limit, and a model to build on it."""

    def __init__(self) -> None:
        gpu = discover(os.environ).gpus[0]
        handle = open_device(gpu, find_backend(gpu))
        self.meter: DeviceHandle = handle
        self._device: torch.device = handle.device  # type: ignore[attr-defined]
        if not handle.limit(LIMIT_BYTES):
            raise RuntimeError("the memory of this device cannot be limited")

    def build(self, *, on_host: bool = False) -> Step:
        """A step with a new model and optimizer; built on the host and moved, or on the device."""
        with torch.device("cpu" if on_host else self._device):
            model = build_transformer(8, WIDTH, 16, 4096).to(self._device)
        return build_step(model, (LENGTH, WIDTH), self._device, precision="bf16")

    def clean(self) -> None:
        release_memory(self._device)


def run(hardware: str) -> list[Row]:
    device = LimitedGpu()
    warm_up(device)
    truth = bisect(device)
    print(f"bisection: {truth} is the largest that runs {STEPS} steps", flush=True)
    ours, found, survived = _measure_ours(device)
    rows = [
        Row("fit: tries", max(one.tries for one in ours), "tries", high=6),
        Row("fit: out of memory", max(one.failures for one in ours), "times", high=1),
        Row("fit: batch beside the largest", min(one.batch for one in ours), "items", truth,
            "bisection", 0.95, 1.05, "ratio", f"{found.batch_size}: {found.reason}"),
        Row("fit: further steps survived", survived, "steps", low=FURTHER_STEPS),
    ]  # fmt: skip
    seconds = [one.seconds for one in ours]
    spread = f"{min(seconds):.2f}-{max(seconds):.2f} of {len(seconds)}"
    if importlib.util.find_spec("accelerate") is None:
        print("accelerate is not installed: no peer", flush=True)
        return [*rows, Row("fit: time", statistics.median(seconds), "s", spread=spread)]
    return rows + _compare(device, ours, spread)


# Where the function that accelerate calls again and again gets its model. Its own example builds
# the model inside and moves it to the device: the bar is for that one.
SETUPS = ("model made inside", "model made inside, on the device", "model kept")


def _compare(device: LimitedGpu, ours: list[BatchSearch], spread: str) -> list[Row]:
    """Ours beside accelerate's, from far above and from its default."""
    tries = statistics.median(one.tries for one in ours)
    rows = []
    for start, bar in ((4096, 1 / 8), (128, 1.0)):
        for setup in SETUPS:
            seconds = statistics.median(one.seconds for one in ours) + _build_s(device, setup)
            peer = run_accelerate(device, start, setup)
            name = f"accelerate from {start}, {setup}"
            print(f"{name}: {peer}", flush=True)
            judge = "ratio" if setup == SETUPS[0] else "ours"
            rows.append(Row(f"fit: time, {setup}", seconds, "s", peer.seconds, name,
                            high=bar if judge == "ratio" else None, judge=judge,
                            spread=spread))  # fmt: skip
        ending = f"it ends at {peer.batch} after {peer.failures} failures"
        rows.append(Row("fit: tries", tries, "tries", peer.tries, f"accelerate from {start}",
                        spread=ending))  # fmt: skip
    return rows


def _build_s(device: LimitedGpu, setup: str) -> float:
    """Seconds to build the model once."""
    if setup == SETUPS[2]:
        return 0.0
    start_s = time.perf_counter()
    step = device.build(on_host=setup == SETUPS[0])
    device.meter.synchronize()
    seconds = time.perf_counter() - start_s
    del step
    device.clean()
    return seconds


def warm_up(device: LimitedGpu) -> None:
    """The first use loads libraries and selects kernels."""
    step = device.build()
    for batch in (1, 16, 64):
        try:
            step(batch)
        except RuntimeError:
            break
    device.meter.synchronize()
    del step
    device.clean()


def bisect(device: LimitedGpu) -> int:
    trial = TrialRunner(device.build(), device.meter, LIMIT_BYTES, STEPS)
    low, high = 0, MAX_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trial.run(middle).ran else (low, middle)
    del trial
    device.clean()
    return low


def _measure_ours(device: LimitedGpu) -> tuple[list[BatchSearch], BatchSizeResult, int]:
    """Each round with a new model; after the last one more steps run at that batch size."""
    rounds: list[BatchSearch] = []
    while True:
        step = device.build()
        device.meter.synchronize()
        start_s = time.perf_counter()
        found = find_batch_size(step, device.meter, budget_bytes=LIMIT_BYTES)
        device.meter.synchronize()
        seconds = time.perf_counter() - start_s
        rounds.append(
            BatchSearch(found.batch_size, seconds, len(found.trials), found.num_out_of_memory)
        )
        shown = ", ".join(f"{one.size} {one.outcome} {one.seconds:.2f} s" for one in found.trials)
        print(f"ours: {rounds[-1]}: {shown}", flush=True)
        if len(rounds) == ROUNDS:
            break
        del step
        device.clean()
    survived = _run_further(device, step, found.batch_size)
    del step
    device.clean()
    return rounds, found, survived


def _run_further(device: LimitedGpu, step: Step, batch: int) -> int:
    for number in range(FURTHER_STEPS):
        try:
            step(batch)
            device.meter.synchronize()
        except RuntimeError as error:
            print(f"step {number} after the answer failed: {error}", flush=True)
            return number
    return FURTHER_STEPS


def run_accelerate(device: LimitedGpu, start: int, setup: str) -> BatchSearch:
    from accelerate.utils import find_executable_batch_size

    tried: list[int] = []

    def work(batch_size: int, kept: Step | None) -> int:
        tried.append(batch_size)
        step = device.build(on_host=setup == SETUPS[0]) if kept is None else kept
        for _ in range(STEPS):
            step(batch_size)
        device.meter.synchronize()
        return batch_size

    finder: Any = find_executable_batch_size(work, starting_batch_size=start)
    model = device.build() if setup == SETUPS[2] else None
    start_s = time.perf_counter()
    batch = finder(model)
    seconds = time.perf_counter() - start_s
    del model
    device.clean()
    return BatchSearch(batch, seconds, len(tried), len(tried) - 1)
