"""The monitor: rings, beats, slow and failing readers, warnings, stopping."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from anyrig.backends.memory import MemoryUsage
from anyrig.devices.describe import Device, Machine
from anyrig.errors import InvalidInputError
from anyrig.monitor import Monitor, NullMonitor, Sample
from anyrig.monitor.alerts import Alert
from anyrig.monitor.processes import Crowd
from anyrig.monitor.readers import NoReader
from anyrig.monitor.sample import Moment

GIB = 1024**3


class Scripted:
    """A reader whose used memory follows a list; a stand-in for hardware."""

    def __init__(self, device: Device, used: list[int] | None = None) -> None:
        self.devices: tuple[Device, ...] = (device,)
        self.used = used or [GIB]
        self.reads = 0
        self.closed = 0

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        used = self.used[min(self.reads, len(self.used) - 1)]
        self.reads += 1
        device = self.devices[0]
        return [Sample(device.id, device.name, *moment, memory_total_bytes=100 * GIB,
                       memory_used_bytes=used)]  # fmt: skip

    def close(self) -> None:
        self.closed += 1


class Hanging(Scripted):
    """A driver that does not come back until it is let go."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.let_go = threading.Event()

    def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
        self.let_go.wait(30)
        return super().read(moment, crowd)


@pytest.fixture
def h200(machine: Callable[..., Machine]) -> Machine:
    return machine("h200-linux")


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for the background; only ever fails when it never comes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def test_samples_come_by_themselves_and_are_kept(h200: Machine) -> None:
    gpu = h200.gpus[0].id
    reader = Scripted(h200.gpus[0])
    with Monitor(h200, 0.02, length=5, readers=[reader]) as monitor:
        until(lambda: reader.reads >= 12)
        latest = monitor.latest()
    assert latest is not None
    assert [sample.device for sample in latest.devices] == [gpu, "cpu"]
    assert latest.of(gpu) is not None
    assert latest.of("nothing") is None
    history = monitor.history(gpu)
    assert len(history) == 5
    assert history == sorted(history, key=lambda sample: sample.monotonic_s)
    assert len(monitor.history("cpu")) == 5
    assert len(monitor.host_history()) == 5
    assert monitor.history("nothing") == []
    assert reader.closed == 1


def test_history_of_the_last_seconds(h200: Machine) -> None:
    monitor = Monitor(h200, 1.0, readers=[Scripted(h200.gpus[0])])
    for _ in range(4):
        monitor.sample()
    monitor.stop()
    whole = monitor.history("cpu")
    between = (whole[-1].monotonic_s - whole[1].monotonic_s) + 1e-9
    assert monitor.history("cpu", between) == whole[1:]
    assert monitor.history("cpu", 0.0) == whole[-1:]


def test_beats_stay_on_the_grid(h200: Machine) -> None:
    """A slow sample leaves beats out; it does not shift those after it."""
    interval = 0.05

    class Slow(Scripted):
        def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
            if self.reads == 2:
                time.sleep(0.12)
            return super().read(moment, crowd)

    reader = Slow(h200.gpus[0])
    with Monitor(h200, interval, readers=[reader]) as monitor:
        until(lambda: len(monitor.history("cpu")) >= 10)
    times = [sample.monotonic_s for sample in monitor.history("cpu")]
    beats = [(when - times[0]) / interval for when in times]
    # Samples are never before their beat, whatever the machine is doing.
    assert all(later - earlier > 0.5 for earlier, later in zip(beats, beats[1:], strict=False))


def test_a_reader_that_hangs_holds_nobody_up(h200: Machine) -> None:
    other = replace(h200.gpus[0], id="GPU-2", name="second")
    both = replace(h200, gpus=(h200.gpus[0], other))
    hanging, fine = Hanging(h200.gpus[0]), Scripted(other)
    monitor = Monitor(both, 0.05, readers=[hanging, fine])
    with monitor:
        until(lambda: fine.reads >= 3)
        latest = monitor.latest()
    assert latest is not None
    silent, answering, _ = latest.devices
    assert answering.memory_used_bytes == GIB
    assert silent.memory_used_bytes is None
    assert "silent for" in silent.unknown["device"]
    assert not silent.lost  # not yet
    hanging.let_go.set()


def test_late_samples_keep_the_order_of_time(h200: Machine) -> None:
    hanging = Hanging(h200.gpus[0])
    monitor = Monitor(h200, 0.1, readers=[hanging])
    monitor.sample()
    hanging.let_go.set()
    until(lambda: hanging.reads == 1)
    monitor.sample()
    monitor.stop()
    first, second = monitor.history(h200.gpus[0].id)
    assert first.memory_used_bytes is None
    assert second.memory_used_bytes == GIB
    assert second.monotonic_s > first.monotonic_s
    assert second.monotonic_s == monitor.history("cpu")[-1].monotonic_s


def test_stop_does_not_wait_for_a_hanging_driver(h200: Machine) -> None:
    hanging = Hanging(h200.gpus[0])
    monitor = Monitor(h200, 60.0, readers=[hanging]).start()
    until(lambda: any(thread.name == "anyrig-reader" for thread in threading.enumerate()))
    monitor.stop()
    assert not hanging.let_go.is_set()  # it came back before the driver did
    hanging.let_go.set()
    until(lambda: hanging.closed == 1)


def test_a_long_silence_is_a_loss(h200: Machine) -> None:
    hanging = Hanging(h200.gpus[0])
    monitor = Monitor(h200, 0.1, readers=[hanging])
    monitor.sample()
    lane = monitor._lanes[0]
    later = Moment(time.monotonic() + 20, time.time() + 20)
    assert "silent for" in lane.take(later, 0.0)[0].lost
    hanging.let_go.set()
    monitor.stop()


def test_a_reader_that_fails_says_why(h200: Machine) -> None:
    class Failing(Scripted):
        def read(self, moment: Moment, crowd: Crowd) -> list[Sample]:
            raise ValueError("nobody foresaw this")

    monitor = Monitor(h200, readers=[Failing(h200.gpus[0])])
    sample = monitor.sample().devices[0]
    monitor.stop()
    assert sample.unknown == {"device": "no answer: ValueError: nobody foresaw this"}


def test_it_starts_again_after_a_stop(h200: Machine) -> None:
    reader = Scripted(h200.gpus[0])
    monitor = Monitor(h200, 0.02, readers=[reader])
    with monitor:
        assert monitor.start() is monitor  # already running
        until(lambda: reader.reads >= 2)
    seen = reader.reads
    with monitor:
        until(lambda: reader.reads >= seen + 2)
    monitor.stop()


def test_the_frameworks_own_figures(h200: Machine) -> None:
    gpu = h200.gpus[0].id

    def memory() -> MemoryUsage:
        return MemoryUsage(3 * GIB, 4 * GIB, 5 * GIB, 6 * GIB, 7 * GIB, 8 * GIB)

    monitor = Monitor(h200, extra={gpu: memory}, readers=[Scripted(h200.gpus[0])])
    sample = monitor.sample().devices[0]
    monitor.stop()
    assert sample.framework is not None
    assert sample.framework.allocated_bytes == 3 * GIB
    assert sample.framework.reserved_bytes == 4 * GIB
    assert sample.framework.peak_bytes == 5 * GIB
    assert monitor.history("cpu")[0].framework is None


def test_a_framework_that_fails_is_unknown(h200: Machine) -> None:
    def broken() -> MemoryUsage:
        raise RuntimeError("CUDA error: unspecified launch failure")

    gpu = h200.gpus[0]
    monitor = Monitor(h200, extra={gpu.id: broken}, readers=[Scripted(gpu)])
    sample = monitor.sample().devices[0]
    monitor.stop()
    assert sample.framework is None
    assert "launch failure" in sample.unknown["framework"]
    assert sample.memory_used_bytes == GIB


def test_warnings_reach_their_receivers(h200: Machine, caplog: pytest.LogCaptureFixture) -> None:
    gpu = h200.gpus[0]
    monitor = Monitor(h200, readers=[Scripted(gpu, [GIB, 97 * GIB, 97 * GIB])])
    told: list[Alert] = []

    def broken(alert: Alert) -> None:
        raise RuntimeError("receiver")

    monitor.on_warning(broken)
    monitor.on_warning(told.append)
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            monitor.sample()
    monitor.stop()
    assert [alert.kind for alert in told] == ["memory-full"]
    assert told == monitor.warnings()
    assert "receiver failed" in caplog.text


def test_without_a_receiver_warnings_are_logged(
    h200: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = Monitor(h200, readers=[Scripted(h200.gpus[0], [97 * GIB])])
    with caplog.at_level(logging.WARNING):
        monitor.sample()
    monitor.stop()
    assert "NVIDIA H200: memory is 97% full, 3 GiB left" in caplog.text


@pytest.mark.parametrize(("interval", "length"), [(0.0, 10), (-1.0, 10), (1.0, 0)])
def test_nonsense_is_refused(h200: Machine, interval: float, length: int) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Monitor(h200, interval, length)
    assert caught.value.hint


def test_nothing_is_read_before_it_starts(h200: Machine) -> None:
    before = threading.active_count()
    monitor = Monitor(h200, readers=[NoReader([h200.gpus[0]], "test")])
    assert threading.active_count() == before
    assert monitor.latest() is None
    monitor.stop()


def test_the_null_monitor_has_the_same_face(h200: Machine) -> None:
    real = Monitor(h200, readers=[])
    names, null_names = (
        {name for name in dir(monitor) if not name.startswith("_")}
        for monitor in (real, NullMonitor())
    )
    assert names == null_names
    with NullMonitor() as monitor:
        snapshot = monitor.sample()
        assert snapshot.devices == ()
        assert snapshot.host.memory_total_bytes is None
        monitor.on_warning(print)
        assert monitor.latest() is None
        assert not monitor.history("cpu")
        assert not monitor.host_history()
        assert not monitor.warnings()
