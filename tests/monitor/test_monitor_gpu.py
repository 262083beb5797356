"""Samples of a real NVIDIA GPU."""

from __future__ import annotations

import os
import statistics
import time

import pytest

from anyrig.backends import open_device
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, Machine
from anyrig.monitor import Monitor

pytestmark = pytest.mark.gpu
GIB = 1024**3


@pytest.fixture
def here() -> Machine:
    return discover(os.environ)


@pytest.fixture
def gpu(here: Machine) -> Device:
    found = [gpu for gpu in here.gpus_of("nvidia") if gpu.usable]
    if not found:
        pytest.skip("no usable NVIDIA GPU")
    return found[0]


def test_what_torch_allocates_shows(here: Machine, gpu: Device) -> None:
    torch = pytest.importorskip("torch")
    backend = next(
        backend for backend in gpu.backends if backend.library == "torch" and backend.usable
    )
    handle = open_device(gpu, backend)
    # The context itself takes memory: created before the first sample.
    torch.zeros(1, device=handle.name)
    handle.synchronize()
    monitor = Monitor(here)
    before = monitor.sample().find(gpu.id)
    taken = torch.empty(2 * GIB, dtype=torch.uint8, device=handle.name)
    handle.synchronize()
    after = monitor.sample().find(gpu.id)
    monitor.stop()
    assert before is not None
    assert after is not None
    assert before.memory_used_bytes is not None
    assert after.memory_used_bytes is not None
    # Others may come and go on a shared GPU; two GiB are not lost in that.
    assert after.memory_used_bytes - before.memory_used_bytes > 1.9 * GIB
    _check_own_memory(after.memory_own_bytes, dict(after.unknown))
    del taken
    handle.release()


def _check_own_memory(ours: int | None, unknown: dict[str, str]) -> None:
    if ours is None:
        assert unknown["memory_own"]
    else:
        assert ours > 1.9 * GIB


def test_figures_are_plausible(here: Machine, gpu: Device) -> None:
    monitor = Monitor(here)
    for _ in range(4):
        snapshot = monitor.sample()
        time.sleep(0.3)
    monitor.stop()
    sample = snapshot.find(gpu.id)
    assert sample is not None
    print({name: value for name, value in vars(sample).items() if value is not None})
    assert not sample.lost
    assert sample.compute_percent is not None
    assert 0 <= sample.compute_percent <= 100
    assert sample.power_w is not None
    assert 0 < sample.power_w < 2000
    assert sample.temperature_c is not None
    assert 10 < sample.temperature_c < 110
    assert sample.clock_mhz
    assert sample.throttling is not None
    if sample.pcie_rx_bytes_s is not None:
        assert 0 <= sample.pcie_rx_bytes_s < 3e11


def test_a_sample_of_a_real_gpu_costs_little(here: Machine, gpu: Device) -> None:
    """CPU time of this process, NVML's own work included: 1 % of one core at one a second."""
    monitor = Monitor(here)
    costs = []
    for _ in range(20):
        before = time.process_time()
        monitor.sample()
        costs.append(time.process_time() - before)
        time.sleep(0.2)
    monitor.stop()
    assert statistics.median(costs) < 0.010, [round(1000 * cost, 1) for cost in costs]
