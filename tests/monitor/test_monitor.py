"""The monitor: history, intervals, slow and failing readers, alerts, stopping."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, Machine
from anyrig.devices.probe import HostProbe, LiveProbe
from anyrig.monitor import DeviceSample, Monitor
from anyrig.monitor.alerts import DeviceAlert
from anyrig.monitor.monitor import ReaderThread
from anyrig.monitor.processes import ProcessTable
from anyrig.monitor.readers import DeviceReader
from anyrig.monitor.readers.nvidia import NvidiaReader
from anyrig.monitor.sample import SampleTime
from tests.monitor.fake_nvml import FakeNvml
from tests.waiting import wait_until

GIB = 1024**3


class ScriptedReader(DeviceReader):
    """Used memory follows a list."""

    def __init__(self, device: Device, used: list[int] | None = None) -> None:
        super().__init__([device], HostProbe(LiveProbe()))
        self.used = used or [GIB]
        self.num_reads = 0
        self.num_closed = 0

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        used = self.used[min(self.num_reads, len(self.used) - 1)]
        self.num_reads += 1
        device = self.devices[0]
        return [DeviceSample(device.id, device.name, *at, memory_total_bytes=100 * GIB,
                             memory_used_bytes=used)]  # fmt: skip

    def close(self) -> None:
        self.num_closed += 1


class HangingReader(ScriptedReader):
    """A driver call that does not return until it is released."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.released = threading.Event()

    def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
        self.released.wait(60)
        return super().read(at, processes)


@pytest.fixture
def h200(machine: Callable[..., Machine]) -> Machine:
    return machine("h200-linux")


def test_samples_are_taken_in_the_background_and_kept(h200: Machine) -> None:
    gpu = h200.gpus[0].id
    reader = ScriptedReader(h200.gpus[0])
    with Monitor(h200, 0.02, history_length=5, readers=[reader]) as monitor:
        wait_until(lambda: reader.num_reads >= 12)
        latest = monitor.latest()
    assert latest is not None
    assert [sample.device for sample in latest.devices] == [gpu, "cpu"]
    assert latest.find(gpu) is not None
    assert latest.find("nothing") is None
    history = monitor.history(gpu)
    assert len(history) == 5
    assert history == sorted(history, key=lambda sample: sample.monotonic_s)
    assert len(monitor.history("cpu")) == 5
    assert len(monitor.host_history()) == 5
    assert monitor.history("nothing") == []
    assert reader.num_closed == 1


def test_a_driver_that_hangs_delays_nobody_else(h200: Machine) -> None:
    other = replace(h200.gpus[0], id="GPU-2", name="second")
    both = replace(h200, gpus=(h200.gpus[0], other))
    hanging, working = HangingReader(h200.gpus[0]), ScriptedReader(other)
    with Monitor(both, 0.05, readers=[hanging, working]) as monitor:
        wait_until(lambda: working.num_reads >= 3)
        latest = monitor.latest()
    assert latest is not None
    silent, responding, _ = latest.devices
    assert responding.memory_used_bytes == GIB
    assert silent.memory_used_bytes is None
    assert "has not responded for" in silent.unknown["device"]
    assert not silent.lost  # not yet
    hanging.released.set()


def test_stop_does_not_wait_for_a_driver_that_hangs(h200: Machine) -> None:
    hanging = HangingReader(h200.gpus[0])
    monitor = Monitor(h200, 60.0, readers=[hanging]).start()
    wait_until(lambda: any(thread.name == "anyrig-reader" for thread in threading.enumerate()))
    monitor.stop()
    assert not hanging.released.is_set()  # stop() returned before the driver did
    hanging.released.set()
    wait_until(lambda: hanging.num_closed == 1)


def test_a_driver_that_hangs_for_long_has_lost_its_devices(h200: Machine) -> None:
    hanging = HangingReader(h200.gpus[0])
    thread = ReaderThread(hanging, ProcessTable(frozenset))
    thread.request(SampleTime(100.0, 0.0))
    assert not thread.collect(SampleTime(114.0, 0.0), 0.0)[0].lost
    assert "has not responded for 15 s" in thread.collect(SampleTime(115.0, 0.0), 0.0)[0].lost
    hanging.released.set()
    thread.close(20.0)
    assert hanging.num_closed == 1


def test_a_reader_that_fails_reports_why(h200: Machine) -> None:
    class FailingReader(ScriptedReader):
        def read(self, at: SampleTime, processes: ProcessTable) -> list[DeviceSample]:
            raise ValueError("unforeseen")

    monitor = Monitor(h200, readers=[FailingReader(h200.gpus[0])])
    sample = monitor.sample().devices[0]
    monitor.stop()
    assert sample.unknown == {"device": "ValueError: unforeseen"}


def test_callbacks_receive_alerts(h200: Machine, caplog: pytest.LogCaptureFixture) -> None:
    monitor = Monitor(h200, readers=[ScriptedReader(h200.gpus[0], [GIB, 97 * GIB, 97 * GIB])])
    received: list[DeviceAlert] = []

    def broken(alert: DeviceAlert) -> None:
        raise RuntimeError

    monitor.on_alert(broken)
    monitor.on_alert(received.append)
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            monitor.sample()
    monitor.stop()
    assert [alert.kind for alert in received] == ["memory-full"]
    assert received == monitor.alerts()
    assert "alert callback failed" in caplog.text


BAR_S = 0.010
"""CPU time of a sample, the least of many: other work only ever adds to it."""


def _costs(monitor: Monitor, num_samples: int = 30) -> list[float]:
    found = []
    for _ in range(num_samples):
        before = time.process_time()
        monitor.sample()
        found.append(time.process_time() - before)
        time.sleep(0.02)
    monitor.stop()
    return found


def test_a_sample_of_this_machine() -> None:
    costs = _costs(Monitor(discover(os.environ)))
    assert min(costs) < BAR_S, [round(1000 * cost, 1) for cost in costs]


def test_our_own_part_of_eight_gpus(machine: Callable[..., Machine]) -> None:
    """Everything but NVML's own work, which benchmarks/monitor.py measures on a real GPU."""
    here = machine("h200-linux")
    gpus = tuple(Device(f"GPU-{n}", "gpu", "nvidia", "H200") for n in range(8))
    nvml = FakeNvml()
    nvml.uuids = {gpu.id: "h0" for gpu in gpus}
    there = Machine(here.host, here.cpu, gpus, here.cpu_device)
    costs = _costs(Monitor(there, readers=[NvidiaReader(gpus, HostProbe(LiveProbe()), nvml)]))
    assert min(costs) < BAR_S, [round(1000 * cost, 1) for cost in costs]
