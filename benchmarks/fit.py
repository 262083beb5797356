"""Finding the largest batch: how many tries it takes and how near it comes, beside accelerate.

On an H200 limited to 24 GiB: a training step of an 8-layer transformer (width 1024, 16 heads, inner
4096, length 1024, AdamW, bf16 autocast). The true size is found by bisection, each size run for as
many steps as an answer of ours. accelerate's find_executable_batch_size runs the same step in three
setups: as in its own example, where the model is built inside the function and moved to the device,
built there, and with the model kept. Ours builds it once in each setup.

On a plain CPU a simulated device with a memory curve like the H200's raises torch's own error. That
measures the number of tries, not seconds.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from anyrig.app.bench import find_backend
from anyrig.backends import DeviceHandle, open_device
from anyrig.backends.memory import MemoryUsage
from anyrig.devices.discover import discover
from anyrig.memory.batch_size import BatchSizeResult, TrialRunner, find_batch_size
from anyrig.memory.module_step import build_step, build_transformer
from anyrig.units import GIB, MIB
from benchmarks.harness import Row

LIMIT_BYTES = 24 * GIB
LENGTH, WIDTH = 1024, 1024
STEPS, FURTHER_STEPS, ROUNDS = 2, 20, 3
MAX_BATCH = 256
Step = Callable[[int], object]


class LimitedDevice(Protocol):
    """A device with a memory limit, and a model to build on it."""

    meter: DeviceHandle
    limit_bytes: int

    def build(self, *, on_host: bool = False) -> Step:
        """A step with a new model and optimizer; built on the host and moved, or on the device."""

    def clean(self) -> None:
        """Free all memory."""


class BatchSearch(NamedTuple):
    batch: int
    seconds: float
    tries: int
    failures: int


class GpuDevice:
    """The first GPU, through torch."""

    def __init__(self) -> None:
        gpu = discover(os.environ).gpus[0]
        handle = open_device(gpu, find_backend(gpu))
        self.meter: DeviceHandle = handle
        self.limit_bytes = LIMIT_BYTES
        self._device: torch.device = handle.device  # type: ignore[attr-defined]
        if not handle.limit(LIMIT_BYTES):
            raise RuntimeError("the memory of this device cannot be limited")

    def build(self, *, on_host: bool = False) -> Step:
        with torch.device("cpu" if on_host else self._device):
            model = build_transformer(8, WIDTH, 16, 4096).to(self._device)
        return build_step(model, (LENGTH, WIDTH), self._device, precision="bf16")

    def clean(self) -> None:
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


class SimulatedDevice:
    """A memory curve like the GPU's and torch's error, for machines without a GPU."""

    fixed, slope, optimiser, kept, stuck = 2 * GIB, 250 * MIB, GIB, 0.05, 0.5
    name, on_host = "simulated", False

    def __init__(self) -> None:
        self.meter: DeviceHandle = self
        self.limit_bytes = LIMIT_BYTES
        self._peak = (0, 0)

    def build(self, *, on_host: bool = False) -> Step:
        return self._step

    def clean(self) -> None:
        gc.collect()

    def _step(self, batch: int) -> object:
        tensors = max(self.slope * batch, self.optimiser)
        live, taken = self.fixed + tensors, self.fixed + int(tensors * (1 + self.kept))
        if self.fixed + tensors * (1 + self.kept * self.stuck) > self.limit_bytes:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 256.00 MiB.")
        self._peak = (max(self._peak[0], live), max(self._peak[1], min(taken, self.limit_bytes)))
        return torch.ones(8, 8) @ torch.ones(8, 8)

    def synchronize(self) -> None:
        pass

    def memory(self) -> MemoryUsage:
        return MemoryUsage(
            self.fixed, self.fixed, *self._peak, self.limit_bytes - self.fixed, self.limit_bytes
        )

    def reset_peak(self) -> None:
        self._peak = (0, 0)

    def release(self) -> None:
        pass

    def limit(self, num_bytes: int) -> bool:
        return False


def run(hardware: str) -> list[Row]:
    device: LimitedDevice = GpuDevice() if hardware == "h200" else SimulatedDevice()
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
    return rows + _compare(device, ours, spread, timed=hardware == "h200")


# Where the function that accelerate calls again and again gets its model. Its own example builds
# the model inside and moves it to the device: the bar is for that one.
SETUPS = ("model made inside", "model made inside, on the device", "model kept")


def _compare(
    device: LimitedDevice, ours: list[BatchSearch], spread: str, *, timed: bool
) -> list[Row]:
    """Ours beside accelerate's, from far above and from its default."""
    tries = statistics.median(one.tries for one in ours)
    rows = []
    for start, bar in ((4096, 1 / 8), (128, 1.0)):
        for setup in SETUPS if timed else SETUPS[2:]:
            seconds = statistics.median(one.seconds for one in ours) + _build_s(device, setup)
            peer = run_accelerate(device, start, setup)
            name = f"accelerate from {start}, {setup}"
            print(f"{name}: {peer}", flush=True)
            judge = "ratio" if setup == SETUPS[0] else "ours"
            if timed:
                rows.append(Row(f"fit: time, {setup}", seconds, "s", peer.seconds, name,
                                high=bar if judge == "ratio" else None, judge=judge,
                                spread=spread))  # fmt: skip
        ending = f"it ends at {peer.batch} after {peer.failures} failures"
        rows.append(Row("fit: tries", tries, "tries", peer.tries, f"accelerate from {start}",
                        spread=ending))  # fmt: skip
    return rows


def _build_s(device: LimitedDevice, setup: str) -> float:
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


def warm_up(device: LimitedDevice) -> None:
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


def bisect(device: LimitedDevice) -> int:
    trial = TrialRunner(device.build(), device.meter, device.limit_bytes, STEPS)
    low, high = 0, MAX_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trial.run(middle).ran else (low, middle)
    del trial
    device.clean()
    return low


def _measure_ours(device: LimitedDevice) -> tuple[list[BatchSearch], BatchSizeResult, int]:
    """Each round with a new model; after the last one more steps run at that batch size."""
    rounds: list[BatchSearch] = []
    while True:
        step = device.build()
        device.meter.synchronize()
        start_s = time.perf_counter()
        found = find_batch_size(step, device.meter, budget_bytes=device.limit_bytes)
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


def _run_further(device: LimitedDevice, step: Step, batch: int) -> int:
    for number in range(FURTHER_STEPS):
        try:
            step(batch)
            device.meter.synchronize()
        except RuntimeError as error:
            print(f"step {number} after the answer failed: {error}", flush=True)
            return number
    return FURTHER_STEPS


def run_accelerate(device: LimitedDevice, start: int, setup: str) -> BatchSearch:
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
