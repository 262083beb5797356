"""Device handles through torch and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from anyrig.backends import onnx_graph, open_device
from anyrig.backends.onnx import create_session
from anyrig.devices.discover import discover
from anyrig.devices.machine import Device, DeviceBackend, Library, Machine, Memory
from anyrig.units import MIB


@pytest.fixture(scope="module")
def here() -> Machine:
    return discover({})


def find_backend(machine: Machine, library: Library) -> DeviceBackend:
    return next(backend for backend in machine.cpu_device.backends if backend.library == library)


@pytest.mark.parametrize("backend", ["torch", "onnx"])
def test_memory_of_the_cpu(here: Machine, backend: Library) -> None:
    handle = open_device(here.cpu_device, find_backend(here, backend))
    handle.reset_peak()
    before = handle.memory()
    block = np.ones(64 * MIB // 8)
    during = handle.memory()
    del block
    after = handle.memory()
    assert before.allocated_bytes is not None
    assert during.allocated_bytes is not None
    assert during.allocated_bytes - before.allocated_bytes > 60 * MIB
    assert after.peak_bytes is not None
    assert after.peak_bytes - before.allocated_bytes > 60 * MIB
    assert during.free_bytes is not None
    assert during.total_bytes is not None
    assert 0 < during.free_bytes < during.total_bytes
    handle.synchronize()
    handle.release()
    assert not handle.limit(1 << 30)


def test_threads_are_set(here: Machine) -> None:
    before = torch.get_num_threads()
    try:
        open_device(here.cpu_device, find_backend(here, "torch"), threads=1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    session = create_session(
        onnx_graph.build_product(8), here.cpu_device, find_backend(here, "onnx"), threads=1
    )
    assert session.get_session_options().intra_op_num_threads == 1


def test_free_memory_is_within_the_container_limit(here: Machine) -> None:
    limited = Device("cpu", "cpu", "test", "limited", memory=Memory("unified", 8 * MIB, 4 * MIB))
    usage = open_device(limited, find_backend(here, "torch")).memory()
    assert (usage.total_bytes, usage.free_bytes) == (8 * MIB, 0)
