"""Memory held after an out-of-memory error, and after twenty: ours beside accelerate.

accelerate empties the cache inside `except`, while the traceback holds the tensors of the failed
step. Each runs in a process of its own.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import weakref
from pathlib import Path
from typing import Any

from anyrig.units import MIB
from benchmarks.harness import Row
from benchmarks.processes import run_module

NUM_EVENTS = 20
DEPTH = 4
# What a step allocates in each of its frames, and what the process may use.
TENSOR_MIB = {"cpu": 32, "h200": 1024}
LIMIT_MIB = {"cpu": 512, "h200": 16384}


def run(hardware: str) -> list[Row]:
    ours = run_module("benchmarks.recovery", hardware, "ours")
    peer: dict[str, float] = {}
    # accelerate does not recognise the error that torch raises on a CPU.
    has_peer = hardware == "h200" and importlib.util.find_spec("accelerate") is not None
    name = "accelerate" if has_peer else ""
    if has_peer:
        peer = run_module("benchmarks.recovery", hardware, name)
    step_mib = DEPTH * TENSOR_MIB[hardware]
    # A GPU's figures are exact; the resident memory of a process is not.
    growth = 1.0 if hardware == "h200" else 3.0
    rows = [
        Row("tensors of the failed step alive when its memory is given back", ours["alive"],
            "tensors", peer.get("alive"), name, high=0),
        Row(f"memory held when it is given back, of a step of {step_mib} MiB", ours["while_mib"],
            "MiB", peer.get("while_mib"), name, high=step_mib * 0.05),
        Row(f"more memory held after {NUM_EVENTS} out-of-memory events", ours["growth"], "%",
            peer.get("growth"), name, high=growth),
    ]  # fmt: skip
    if hardware == "h200":
        rows.append(Row("memory kept from other processes after it was given back",
                        ours["reserved_mib"], "MiB", peer.get("reserved_mib"), name))  # fmt: skip
    return rows


class RecoveryTrial:
    """A step that runs out of memory, and what is held when memory is released."""

    def __init__(self, hardware: str) -> None:
        import torch

        from anyrig.backends import open_device
        from anyrig.devices.discovery import discover

        machine = discover(os.environ)
        self.device = machine.gpus[0] if hardware == "h200" else machine.cpu_device
        backend = next(d for d in self.device.backends if d.library == "torch" and d.usable)
        self.handle = open_device(self.device, backend)
        self.torch_device = torch.device(self.handle.name)
        self.size = TENSOR_MIB[hardware] * MIB
        self.refs: list[weakref.ref[Any]] = []
        self.alive: list[int] = []
        self.held: list[int] = []
        self.reserved: list[int] = []
        self.weights = torch.ones(self.size // 4, device=self.torch_device)
        self._limit(LIMIT_MIB[hardware] * MIB)
        self._fail_once()
        self.base = self.memory()

    def _limit(self, num_bytes: int) -> None:
        if self.torch_device.type != "cpu":
            assert self.handle.limit(num_bytes)
            return
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + num_bytes, -1))

    def _fail_once(self) -> None:
        """The first failure loads modules and compiles patterns."""
        import torch

        from anyrig.memory.recovery import run_with_recovery

        run_with_recovery(lambda: torch.ones(1 << 40, device=self.torch_device), self.handle)

    def memory(self) -> int:
        return self.handle.memory().allocated_bytes or 0

    def step(self, depth: int = 1) -> None:
        import torch

        tensor = torch.ones(self.size // 4, device=self.torch_device)
        self.refs.append(weakref.ref(tensor))
        if depth < DEPTH:
            self.step(depth + 1)
        torch.ones(1 << 40, device=self.torch_device)

    def note(self) -> None:
        """Called when memory is about to be released."""
        self.alive.append(sum(ref() is not None for ref in self.refs))
        self.held.append(self.memory())

    def note_reserved(self) -> None:
        self.reserved.append(self.handle.memory().reserved_bytes or 0)

    def result(self) -> dict[str, float]:
        gc.collect()
        return {
            "alive": max(self.alive),
            "while_mib": (max(self.held) - self.base) / MIB,
            "growth": max(0.0, 100 * (self.memory() / self.base - 1)),
            "reserved_mib": max(self.reserved) / MIB,
        }


def _ours(trial: RecoveryTrial) -> None:
    from anyrig.memory.recovery import run_with_recovery

    class NotingDevice:
        """The device; notes what is held when it releases memory."""

        def synchronize(self) -> None:
            trial.handle.synchronize()

        def release(self) -> None:
            trial.note()
            trial.handle.release()
            trial.note_reserved()

    for _ in range(NUM_EVENTS):
        assert run_with_recovery(trial.step, NotingDevice()).shortage is not None


def _accelerate(trial: RecoveryTrial) -> None:
    from accelerate.utils import memory

    clear_device_cache = memory.clear_device_cache
    steps = iter(range(NUM_EVENTS))

    def noted(garbage_collection: bool = False) -> None:
        gc.collect()
        trial.note()
        clear_device_cache(garbage_collection)
        trial.note_reserved()

    def train(batch_size: int) -> int:
        for _ in steps:
            trial.step()
        return batch_size

    memory.clear_device_cache = noted
    memory.find_executable_batch_size(train, starting_batch_size=1024)()


if __name__ == "__main__":
    trial = RecoveryTrial(sys.argv[1])
    (_ours if sys.argv[2] == "ours" else _accelerate)(trial)
    print(json.dumps(trial.result()))
