"""Twenty real failures in a row on a GPU: `pytest -m gpu`."""

from __future__ import annotations

import os
import weakref

import pytest

from anyrig.memory.oom import recognise
from anyrig.memory.recover import attempt

pytestmark = pytest.mark.gpu
_MIB = 2**20
_LIMIT = 4096 * _MIB


def test_twenty_failures_leave_the_memory_as_it_was() -> None:
    import torch

    from anyrig.backends import open_device
    from anyrig.devices.discover import discover

    gpu = next(gpu for gpu in discover(os.environ).gpus if any(_torch(d) for d in gpu.backends))
    bound = open_device(gpu, next(drive for drive in gpu.backends if _torch(drive)))
    device = torch.device(bound.name)
    if device.type != "cuda":
        pytest.skip("its books are those of torch.cuda")
    assert bound.limit(_LIMIT)
    kept = torch.ones(512 * _MIB // 4, device=device)  # a model's weights, so to speak
    held: list[weakref.ref[torch.Tensor]] = []

    def step(depth: int = 0) -> None:
        tensor = torch.ones(256 * _MIB // 4, device=device, requires_grad=True)
        product = tensor * 2 + kept.sum()
        held.extend([weakref.ref(tensor), weakref.ref(product)])
        if depth < 3:
            step(depth + 1)
        torch.ones(_LIMIT // 4, device=device)

    try:
        attempt(lambda: float((kept * 2).sum()), recognise, bound)
        before = torch.cuda.memory_allocated(device)
        for _ in range(20):
            outcome = attempt(step, recognise, bound)
            assert outcome.shortage is not None
            assert outcome.shortage.where == "device"
            assert not outcome.shortage.fatal
            assert outcome.shortage.asked_bytes
            assert all(ref() is None for ref in held)
            assert torch.cuda.memory_allocated(device) < before * 1.01
        assert len(held) == 160
        assert float(kept[:1024].sum()) == 1024  # the device still computes
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)


def _torch(drive: object) -> bool:
    return getattr(drive, "backend", "") == "torch" and bool(getattr(drive, "usable", False))
