"""The largest batch: how few tries it takes, how near it comes, beside accelerate's own finder.

On an H200 held to 24 GiB: a training step of an 8-layer transformer (width 1024, 16 heads, inner
4096, length 1024, AdamW, bf16 autocast). The truth is found by bisection, each size run for as many
steps as an answer of ours. accelerate's find_executable_batch_size runs the same step in three
forms: as in its own example, where the model is made inside the function and moved to the device,
made there, and with the model kept. Ours makes it once in each form.

On a plain CPU the same script runs over a stand-in: a step with a memory curve like the H200's that
raises torch's own error. It says how many tries are made, nothing of seconds.
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

CAP = 24 * GIB
LENGTH, WIDTH = 1024, 1024
STEPS, FURTHER, ROUNDS = 2, 20, 3
TOO_MANY = 256
Step = Callable[[int], object]


class Rig(Protocol):
    """A device held to a cap, and a model to build on it."""

    meter: DeviceHandle
    cap: int

    def build(self, *, on_host: bool = False) -> Step:
        """A step over a fresh model and optimiser; made on the host and moved, or in place."""

    def clean(self) -> None:
        """Give everything back."""


class Search(NamedTuple):
    """What a finder did."""

    batch: int
    seconds: float
    tries: int
    failures: int


class Gpu:
    """The first GPU, through torch, held to the cap."""

    def __init__(self) -> None:
        device = discover(os.environ).gpus[0]
        handle = open_device(device, find_backend(device))
        self.meter: DeviceHandle = handle
        self.cap = CAP
        self._device: torch.device = handle.device  # type: ignore[attr-defined]
        if not handle.limit(CAP):
            raise RuntimeError("this device cannot be held to a cap")

    def build(self, *, on_host: bool = False) -> Step:
        with torch.device("cpu" if on_host else self._device):
            model = build_transformer(8, WIDTH, 16, 4096).to(self._device)
        return build_step(model, (LENGTH, WIDTH), self._device, precision="bf16")

    def clean(self) -> None:
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


class StandIn:
    """A memory curve like the GPU's, with an error like torch's: for machines without one."""

    fixed, slope, optimiser, kept, stuck = 2 * GIB, 250 * MIB, GIB, 0.05, 0.5
    name, on_host = "stand-in", False

    def __init__(self) -> None:
        self.meter: DeviceHandle = self
        self.cap = CAP
        self._peak = (0, 0)

    def build(self, *, on_host: bool = False) -> Step:
        return self._step

    def clean(self) -> None:
        gc.collect()

    def _step(self, batch: int) -> object:
        tensors = max(self.slope * batch, self.optimiser)
        live, taken = self.fixed + tensors, self.fixed + int(tensors * (1 + self.kept))
        if self.fixed + tensors * (1 + self.kept * self.stuck) > self.cap:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 256.00 MiB.")
        self._peak = (max(self._peak[0], live), max(self._peak[1], min(taken, self.cap)))
        return torch.ones(8, 8) @ torch.ones(8, 8)

    def synchronize(self) -> None:
        pass

    def memory(self) -> MemoryUsage:
        return MemoryUsage(self.fixed, self.fixed, *self._peak, self.cap - self.fixed, self.cap)

    def reset_peak(self) -> None:
        self._peak = (0, 0)

    def release(self) -> None:
        pass

    def limit(self, num_bytes: int) -> bool:
        return False


def run(hardware: str) -> list[Row]:
    rig: Rig = Gpu() if hardware == "h200" else StandIn()
    _warm_up(rig)
    truth = _bisect(rig)
    print(f"bisection: {truth} is the largest that runs {STEPS} steps", flush=True)
    ours, found, survived = _ours(rig)
    rows = [
        Row("fit: tries", max(one.tries for one in ours), "tries", high=6),
        Row("fit: out of memory", max(one.failures for one in ours), "times", high=1),
        Row("fit: batch beside the largest", min(one.batch for one in ours), "items", truth,
            "bisection", 0.95, 1.05, "ratio", f"{found.batch_size}: {found.reason}"),
        Row("fit: further steps survived", survived, "steps", low=FURTHER),
    ]  # fmt: skip
    seconds = [one.seconds for one in ours]
    spread = f"{min(seconds):.2f}-{max(seconds):.2f} of {len(seconds)}"
    if importlib.util.find_spec("accelerate") is None:
        print("accelerate is not installed: nothing to compare with", flush=True)
        return [*rows, Row("fit: time", statistics.median(seconds), "s", spread=spread)]
    return rows + _beside(rig, ours, spread, timed=hardware == "h200")


# How a model comes to the function that accelerate calls again and again. Its own example makes it
# inside, and moves it to the device, as people do: that form is what the bar is for.
FORMS = ("model made inside", "model made inside, on the device", "model kept")


def _beside(rig: Rig, ours: list[Search], spread: str, *, timed: bool) -> list[Row]:
    """Ours beside accelerate's, from far above and from its default."""
    tries = statistics.median(one.tries for one in ours)
    rows = []
    for start, bar in ((4096, 1 / 8), (128, 1.0)):
        for form in FORMS if timed else FORMS[2:]:
            seconds = statistics.median(one.seconds for one in ours) + _making(rig, form)
            peer = _accelerate(rig, start, form)
            name = f"accelerate from {start}, {form}"
            print(f"{name}: {peer}", flush=True)
            judge = "ratio" if form == FORMS[0] else "ours"
            if timed:
                rows.append(Row(f"fit: time, {form}", seconds, "s", peer.seconds, name,
                                high=bar if judge == "ratio" else None, judge=judge,
                                spread=spread))  # fmt: skip
        told = f"it ends at {peer.batch} after {peer.failures} failures"
        rows.append(Row("fit: tries", tries, "tries", peer.tries, f"accelerate from {start}",
                        spread=told))  # fmt: skip
    return rows


def _making(rig: Rig, form: str) -> float:
    """What making the model once costs us in a form."""
    if form == FORMS[2]:
        return 0.0
    begun = time.perf_counter()
    step = rig.build(on_host=form == FORMS[0])
    rig.meter.synchronize()
    seconds = time.perf_counter() - begun
    del step
    rig.clean()
    return seconds


def _warm_up(rig: Rig) -> None:
    """Libraries load and kernels are found on first use: nobody's time."""
    step = rig.build()
    for batch in (1, 16, 64):
        try:
            step(batch)
        except RuntimeError:
            break
    rig.meter.synchronize()
    del step
    rig.clean()


def _bisect(rig: Rig) -> int:
    trial = TrialRunner(rig.build(), rig.meter, rig.cap, STEPS)
    low, high = 0, TOO_MANY
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trial.run(middle).ran else (low, middle)
    del trial
    rig.clean()
    return low


def _ours(rig: Rig) -> tuple[list[Search], BatchSizeResult, int]:
    """Every round with a fresh model; after the last one the answer goes on for a while."""
    rounds: list[Search] = []
    while True:
        step = rig.build()
        rig.meter.synchronize()
        begun = time.perf_counter()
        found = find_batch_size(step, rig.meter, budget_bytes=rig.cap)
        rig.meter.synchronize()
        seconds = time.perf_counter() - begun
        rounds.append(Search(found.batch_size, seconds, len(found.trials), found.num_out_of_memory))
        shown = ", ".join(f"{one.size} {one.outcome} {one.seconds:.2f} s" for one in found.trials)
        print(f"ours: {rounds[-1]}: {shown}", flush=True)
        if len(rounds) == ROUNDS:
            break
        del step
        rig.clean()
    survived = _further(rig, step, found.batch_size)
    del step
    rig.clean()
    return rounds, found, survived


def _further(rig: Rig, step: Step, batch: int) -> int:
    for number in range(FURTHER):
        try:
            step(batch)
            rig.meter.synchronize()
        except RuntimeError as error:
            print(f"step {number} after the answer failed: {error}", flush=True)
            return number
    return FURTHER


def _accelerate(rig: Rig, start: int, form: str) -> Search:
    from accelerate.utils import (
        find_executable_batch_size,
    )

    tried: list[int] = []

    def work(batch_size: int, kept: Step | None) -> int:
        tried.append(batch_size)
        step = rig.build(on_host=form == FORMS[0]) if kept is None else kept
        for _ in range(STEPS):
            step(batch_size)
        rig.meter.synchronize()
        return batch_size

    finder: Any = find_executable_batch_size(work, starting_batch_size=start)
    model = rig.build() if form == FORMS[2] else None
    begun = time.perf_counter()
    batch = finder(model)
    seconds = time.perf_counter() - begun
    del model
    rig.clean()
    return Search(batch, seconds, len(tried), len(tried) - 1)
