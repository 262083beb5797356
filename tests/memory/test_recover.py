"""Nothing of a step that ran out of memory stays alive: weak references and real failures."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from typing import Any

import pytest

from anyrig.memory import recover
from anyrig.memory.oom import Shortage, recognise
from anyrig.memory.recover import Outcome, attempt, clear


class Tensor:
    """Stands for a tensor: a thing that can be referred to weakly."""


class Device:
    """A device whose library can be told to fail, and that notes what is asked of it."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked: list[str] = []
        self.alive_when_released: object = "never released"
        self.watched: list[weakref.ref[Tensor]] = []

    def synchronize(self) -> None:
        self.asked.append("synchronize")
        if self.errors:
            raise self.errors.pop(0)

    def release(self) -> None:
        self.asked.append("release")
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


def test_a_result_comes_through() -> None:
    outcome = attempt(lambda: 7, recognise)
    assert outcome == Outcome(7)
    assert outcome.fitted


def test_nothing_of_a_failed_step_is_alive_when_the_cache_is_emptied() -> None:
    device = Device()
    outcome = attempt(lambda: _fails(device.watched, MemoryError("too much")), recognise, device)
    assert outcome.shortage == Shortage("host", said="too much")
    assert not outcome.fitted
    assert device.asked == ["synchronize", "release"]
    assert device.alive_when_released == []
    assert len(device.watched) == 4


def test_emptying_the_cache_inside_the_handler_finds_them_alive() -> None:
    """What others do, and why it is done differently here."""
    device = Device()
    try:
        _fails(device.watched, MemoryError())
    except MemoryError:
        device.release()
    assert isinstance(device.alive_when_released, list)
    assert len(device.alive_when_released) == 4


def test_other_errors_leave_as_they_are() -> None:
    def step() -> None:
        raise KeyError("x")

    device = Device()
    with pytest.raises(KeyError) as raised:
        attempt(step, recognise, device)
    assert raised.traceback[-1].name == "step"
    assert device.asked == []


def test_everything_behind_an_error_is_let_go() -> None:
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

    outcome = attempt(step, recognise)
    assert outcome.shortage is not None
    assert outcome.shortage.said == "in a group"
    assert len(watched) > 4
    assert _alive(watched) == 0


def test_an_error_that_is_handled_further_out_keeps_its_frames() -> None:
    watched: list[weakref.ref[Tensor]] = []
    inner: list[weakref.ref[Tensor]] = []
    try:
        _fails(watched, ValueError("not ours"))
    except ValueError:
        attempt(lambda: _fails(inner, MemoryError()), recognise)
        assert _alive(inner) == 0
        assert _alive(watched) == 4


def test_frames_that_run_keep_what_they_hold() -> None:
    tensor = Tensor()
    held = weakref.ref(tensor)
    try:
        raise MemoryError
    except MemoryError as error:
        clear(error)
    assert held() is tensor


def test_lines_can_be_kept() -> None:
    watched: list[weakref.ref[Tensor]] = []
    with pytest.raises(MemoryError) as raised:
        _fails(watched, MemoryError())
    clear(raised.value, keep_lines=True)
    assert _alive(watched) == 0
    assert raised.value.__traceback__ is not None
    clear(raised.value)
    assert raised.value.__traceback__ is None


def test_a_ring_of_errors_ends() -> None:
    left, right = MemoryError("left"), MemoryError("right")
    left.__context__, right.__context__ = right, left
    clear(left)


def test_a_failure_that_is_told_once_is_over(caplog: pytest.LogCaptureFixture) -> None:
    device = Device(RuntimeError("CUDA error: out of memory"))
    outcome = attempt(lambda: _fails(device.watched, MemoryError()), recognise, device)
    assert outcome.shortage is not None
    assert not outcome.shortage.fatal
    assert device.asked == ["synchronize", "synchronize", "release"]
    assert "CUDA error: out of memory" in caplog.text


def test_a_device_that_answers_no_more_makes_it_fatal() -> None:
    lost = [RuntimeError("CUDA error: unspecified launch failure") for _ in range(2)]
    device = Device(*lost)
    outcome = attempt(lambda: _fails(device.watched, MemoryError()), recognise, device)
    assert outcome.shortage is not None
    assert outcome.shortage.fatal


def test_recovery_without_a_device() -> None:
    watched: list[weakref.ref[Tensor]] = []
    failed: BaseException | None = None
    try:
        _fails(watched, MemoryError())
    except MemoryError as error:
        failed = error
    assert failed is not None
    assert recover.recover(failed)
    assert _alive(watched) == 0


# -- real failures ---------------------------------------------------------------------------------

_CHILD = """
import gc, json, resource, sys, weakref
from anyrig.memory.oom import recognise
from anyrig.memory.recover import attempt
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

attempt(lambda: allocate(32 * MIB) is None, recognise)  # whatever the first use sets up
resource.setrlimit(resource.RLIMIT_AS, (statm(0) + 512 * MIB, -1))
held, alive, failures, said = [], [], 0, set()
for _ in range(20):
    outcome = attempt(step, recognise)
    failures += outcome.shortage is not None
    said.add(outcome.shortage.where)
    alive.append(sum(ref() is not None for ref in refs))
    held.append(statm(1))
print(json.dumps({"failures": failures, "alive": alive, "held": held, "where": sorted(said),
                  "tensors": len(refs)}))
"""


@pytest.mark.parametrize("kind", ["python", "numpy", "torch"])
def test_twenty_real_failures_in_a_row_leave_nothing(kind: str) -> None:
    """Under a limit of address space, in a process of its own: 128 MiB a step, 512 MiB in all."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, kind], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["failures"] == 20
    assert told["tensors"] == 80
    assert told["where"] == ["host"]
    assert told["alive"] == [0] * 20
    # A single tensor that stayed would be 32 MiB; twenty steps of them 2.5 GiB.
    assert told["held"][-1] - told["held"][0] < 8 * 2**20
