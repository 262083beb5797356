"""Nothing of a step that ran out of memory stays alive: weak references and real failures."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from anyrig.memory.oom import MemoryShortage
from anyrig.memory.recovery import clear_frames, run_with_recovery
from anyrig.units import MIB
from tests.memory.conftest import GPU_LIMIT

if TYPE_CHECKING:
    from anyrig.backends.torch import TorchHandle


class Tensor:
    """Stands for a tensor: can be referenced weakly."""


class Device:
    """A device whose calls fail on demand and are logged."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls: list[str] = []
        self.alive_when_released: object = "never released"
        self.watched: list[weakref.ref[Tensor]] = []

    def synchronize(self) -> None:
        self.calls.append("synchronize")
        if self.errors:
            raise self.errors.pop(0)

    def release(self) -> None:
        self.calls.append("release")
        self.alive_when_released = [ref() for ref in self.watched if ref() is not None]


def _fails(watched: list[weakref.ref[Tensor]], error: BaseException) -> None:
    """A step some frames deep, with a tensor in each."""
    tensor = Tensor()
    watched.append(weakref.ref(tensor))
    if len(watched) < 4:
        _fails(watched, error)
    raise error


def _alive(watched: list[weakref.ref[Tensor]]) -> int:
    return sum(ref() is not None for ref in watched)


def test_tensors_are_freed_before_the_cache_is_emptied() -> None:
    device = Device()
    outcome = run_with_recovery(lambda: _fails(device.watched, MemoryError("too much")), device)
    assert outcome.shortage == MemoryShortage("host", message="too much")
    assert not outcome.succeeded
    assert device.calls == ["synchronize", "release"]
    assert device.alive_when_released == []
    assert len(device.watched) == 4


def test_other_errors_are_raised_unchanged() -> None:
    def step() -> None:
        raise KeyError("x")

    device = Device()
    with pytest.raises(KeyError) as raised:
        run_with_recovery(step, device)
    assert raised.traceback[-1].name == "step"
    assert device.calls == []


def test_causes_contexts_and_groups_are_cleared() -> None:
    watched: list[weakref.ref[Tensor]] = []

    def step() -> None:
        members: list[Exception] = []
        try:
            _fails(watched, MemoryError("in a group"))
        except MemoryError as error:
            members.append(error)
        try:
            _fails(watched, ValueError("handled"))
        except ValueError:
            try:
                _fails(watched, MemoryError("beside it"))
            except MemoryError as error:
                members.append(error)
        cause = ExceptionGroup("several", members)
        raise RuntimeError("the engine failed") from cause

    outcome = run_with_recovery(step)
    assert outcome.shortage is not None
    assert outcome.shortage.message == "in a group"
    assert len(watched) > 4
    assert _alive(watched) == 0


def test_an_error_handled_further_out_keeps_its_frames() -> None:
    watched: list[weakref.ref[Tensor]] = []
    inner: list[weakref.ref[Tensor]] = []
    try:
        _fails(watched, ValueError("not ours"))
    except ValueError:
        run_with_recovery(lambda: _fails(inner, MemoryError()))
        assert _alive(inner) == 0
        assert _alive(watched) == 4


def test_running_frames_and_cyclic_chains() -> None:
    tensor = Tensor()
    left, right = MemoryError("left"), MemoryError("right")
    left.__context__, right.__context__ = right, left
    try:
        raise left
    except MemoryError as error:
        clear_frames(error)
    assert weakref.ref(tensor)() is tensor


def test_a_failure_reported_once_is_over(caplog: pytest.LogCaptureFixture) -> None:
    device = Device(RuntimeError("CUDA error: out of memory"))
    outcome = run_with_recovery(lambda: _fails(device.watched, MemoryError()), device)
    assert outcome.shortage is not None
    assert not outcome.shortage.fatal
    assert device.calls == ["synchronize", "synchronize", "release"]
    assert "CUDA error: out of memory" in caplog.text


def test_a_device_that_stopped_responding_is_fatal() -> None:
    lost = [RuntimeError("CUDA error: unspecified launch failure") for _ in range(2)]
    device = Device(*lost)
    outcome = run_with_recovery(lambda: _fails(device.watched, MemoryError()), device)
    assert outcome.shortage is not None
    assert outcome.shortage.fatal


# -- real failures ---------------------------------------------------------------------------------

_CHILD = """
import gc, json, resource, sys, weakref
from anyrig.memory.recovery import run_with_recovery
kind = sys.argv[1]
if kind == "torch":
    import torch
    allocate = lambda num_bytes: torch.ones(num_bytes // 4)
elif kind == "numpy":
    import numpy
    allocate = lambda num_bytes: numpy.ones(num_bytes // 4, numpy.float32)
else:
    class Block(bytearray):
        pass
    allocate = Block

def statm(field):
    with open("/proc/self/statm") as file:
        return int(file.read().split()[field]) * resource.getpagesize()

MIB = 2**20
refs = []
def step(depth=0):
    tensor = allocate(32 * MIB)
    refs.append(weakref.ref(tensor))
    if depth < 3:
        step(depth + 1)
    allocate(1024 * MIB)

run_with_recovery(lambda: allocate(32 * MIB) is None)  # whatever the first use sets up
resource.setrlimit(resource.RLIMIT_AS, (statm(0) + 512 * MIB, -1))
held, alive, failures, locations = [], [], 0, set()
for _ in range(20):
    outcome = run_with_recovery(step)
    failures += outcome.shortage is not None
    locations.add(outcome.shortage.location)
    alive.append(sum(ref() is not None for ref in refs))
    held.append(statm(1))
print(json.dumps({"failures": failures, "alive": alive, "held": held, "where": sorted(locations),
                  "tensors": len(refs)}))
"""


@pytest.mark.parametrize("kind", ["python", "numpy", "torch"])
def test_twenty_real_failures_leave_nothing(kind: str) -> None:
    """With limited address space, in a process of its own: 128 MiB per step, 512 MiB in total."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, kind], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failures"] == 20
    assert report["tensors"] == 80
    assert report["where"] == ["host"]
    assert report["alive"] == [0] * 20
    # A single tensor that stayed would be 32 MiB; twenty steps of them 2.5 GiB.
    assert report["held"][-1] - report["held"][0] < 8 * 2**20


@pytest.mark.gpu
def test_twenty_failures_on_a_gpu(limited_gpu: TorchHandle) -> None:
    import torch

    device = limited_gpu.device
    kept = torch.ones(512 * MIB // 4, device=device)  # stands for a model's weights
    held: list[weakref.ref[torch.Tensor]] = []

    def step(depth: int = 0) -> None:
        tensor = torch.ones(256 * MIB // 4, device=device, requires_grad=True)
        product = tensor * 2 + kept.sum()
        held.extend([weakref.ref(tensor), weakref.ref(product)])
        if depth < 3:
            step(depth + 1)
        torch.ones(GPU_LIMIT // 4, device=device)

    run_with_recovery(lambda: float((kept * 2).sum()), limited_gpu)
    before = limited_gpu.memory().allocated_bytes or 0
    for _ in range(20):
        outcome = run_with_recovery(step, limited_gpu)
        assert outcome.shortage is not None
        assert outcome.shortage.location == "device"
        assert not outcome.shortage.fatal
        assert outcome.shortage.requested_bytes
        assert all(ref() is None for ref in held)
        assert (limited_gpu.memory().allocated_bytes or 0) < before * 1.01
    assert len(held) == 160
    assert float(kept[:1024].sum()) == 1024  # the device still computes
