"""`Monitor`: samples of a machine in the background, with a history and alerts.

One thread keeps the interval and reads the host; each reader has its own, so that a driver that
hangs delays nobody else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from queue import SimpleQueue

from anyrig.backends.memory import read_torch_memory
from anyrig.devices.discovery import discover
from anyrig.devices.machine import Device, Machine
from anyrig.devices.probe import HostProbe, LiveProbe
from anyrig.errors import InvalidInputError
from anyrig.monitor.alerts import AlertDetector, DeviceAlert
from anyrig.monitor.processes import ProcessTable, find_own_processes
from anyrig.monitor.readers import DeviceReader, open_readers
from anyrig.monitor.readers.host import HostReader
from anyrig.monitor.sample import (
    DeviceSample,
    HostSample,
    MachineSnapshot,
    SampleTime,
    unknown_sample,
)

log = logging.getLogger(__name__)
# A reader whose driver has not responded for this long has lost its devices.
_LOST_AFTER_S = 15.0
# How long a sample waits for the slowest reader, as a share of the interval.
_WAIT_SHARE = 0.5
_MIN_WAIT_S, _MAX_WAIT_S = 0.25, 2.0
_STOP_TIMEOUT_S = 1.8
_MAX_ALERTS = 100
_Request = tuple[SampleTime, Future[list[DeviceSample]]]


class Monitor:
    """Samples every device of a machine once an interval.

    Args:
        machine: from `discover`; this one if None.
        interval: seconds between two samples.
        history_length: how many samples of each device are kept.
        find_ours: returns the pids that count as ours; by default this process and its
            descendants.
        readers: instead of those for this machine.
    """

    def __init__(
        self,
        machine: Machine | None = None,
        interval: float = 1.0,
        history_length: int = 600,
        *,
        find_ours: Callable[[], frozenset[int]] = find_own_processes,
        readers: Sequence[DeviceReader] | None = None,
    ) -> None:
        if not interval > 0 or history_length < 1:
            raise InvalidInputError(
                f"invalid monitor options: interval {interval:g} s, history {history_length}",
                hint="The interval must be above 0 s, and the history at least 1 sample long.",
            )
        self._interval_s = interval
        self._wait_s = min(max(_WAIT_SHARE * interval, _MIN_WAIT_S), _MAX_WAIT_S)
        machine = machine or discover(os.environ)
        system = HostProbe(LiveProbe())
        self._readers = list(open_readers(machine, system) if readers is None else readers)
        self._host_reader = HostReader(machine, system)
        self._machine = machine
        self._processes = ProcessTable(find_ours)
        self._histories = {
            device.id: deque[DeviceSample](maxlen=history_length) for device in machine.devices
        }
        self._host_history: deque[HostSample] = deque(maxlen=history_length)
        self._detectors = {device.id: AlertDetector() for device in machine.devices}
        self._alerts: deque[DeviceAlert] = deque(maxlen=_MAX_ALERTS)
        self._callbacks: list[Callable[[DeviceAlert], object]] = []
        self._latest: MachineSnapshot | None = None
        self._lock = threading.Lock()
        """Guards histories and alerts."""
        self._sample_lock = threading.Lock()
        self._reader_threads: list[ReaderThread] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Monitor:
        """Start sampling in the background; no effect if it runs already."""
        if self._thread is None:
            self._stopped.clear()
            self._thread = threading.Thread(target=self._run, name="anyrig-monitor", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Stop within two seconds, even if a driver hangs. The history stays."""
        thread, self._thread = self._thread, None
        end_s = time.monotonic() + _STOP_TIMEOUT_S
        self._stopped.set()
        if thread is not None:
            thread.join(_STOP_TIMEOUT_S)
        readers, self._reader_threads = self._reader_threads, []
        for reader in readers:
            reader.close(max(0.0, end_s - time.monotonic()))

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def latest(self) -> MachineSnapshot | None:
        """The newest snapshot; None before the first."""
        return self._latest

    def history(self, device_id: str) -> list[DeviceSample]:
        """Samples of one device, oldest first."""
        with self._lock:
            return list(self._histories.get(device_id, ()))

    def host_history(self) -> list[HostSample]:
        with self._lock:
            return list(self._host_history)

    def alerts(self) -> list[DeviceAlert]:
        """The last alerts, oldest first."""
        with self._lock:
            return list(self._alerts)

    def on_alert(self, callback: Callable[[DeviceAlert], object]) -> None:
        """Call `callback` with each new alert, on the monitor's thread, instead of a warning in
        the log.
        """
        self._callbacks.append(callback)

    def sample(self) -> MachineSnapshot:
        """Sample once, now, and add it to the history. The background thread calls this."""
        with self._sample_lock:
            snapshot = self._read()
            with self._lock:
                for sample in snapshot.devices:
                    self._histories[sample.device].append(sample)
                self._host_history.append(snapshot.host)
                self._latest = snapshot
            # Only this method changes histories, one call at a time: reading them needs no lock.
            for device_id, history in self._histories.items():
                for alert in self._detectors[device_id].check(history) if history else ():
                    self._publish(alert)
        return snapshot

    def _read(self) -> MachineSnapshot:
        if not self._reader_threads:
            self._reader_threads = [ReaderThread(r, self._processes) for r in self._readers]
        at = SampleTime(time.monotonic(), time.time())
        self._processes.refresh()
        for reader in self._reader_threads:
            reader.request(at)
        end_s = at.monotonic_s + self._wait_s
        samples: dict[str, DeviceSample] = {}
        for reader in self._reader_threads:
            collected = reader.collect(at, max(0.0, end_s - time.monotonic()))
            samples |= {sample.device: sample for sample in collected}
        pids = {process.pid for sample in samples.values() for process in sample.processes or ()}
        host = self._host_reader.read(at, self._processes, pids)
        for device in self._machine.gpus:
            if device.id in samples:
                samples[device.id] = _add_framework_memory(samples[device.id], device)
        cpu = self._host_reader.read_cpu(host)
        samples[cpu.device] = cpu
        ordered = tuple(samples[id_] for id_ in self._histories if id_ in samples)
        return MachineSnapshot(*at, ordered, host)

    def _publish(self, alert: DeviceAlert) -> None:
        with self._lock:
            self._alerts.append(alert)
        level = logging.INFO if self._callbacks else logging.WARNING
        log.log(level, "%s: %s", alert.name, alert.text)
        for callback in self._callbacks:
            try:
                callback(alert)
            except Exception:
                log.exception("alert callback failed")

    def _run(self) -> None:
        """Sample at whole intervals from the start: late samples are skipped, not made up for."""
        start_s = time.monotonic()
        while not self._stopped.is_set():
            try:
                self.sample()
            except Exception:
                log.exception("sampling failed")
            elapsed_s = time.monotonic() - start_s
            self._stopped.wait(self._interval_s - elapsed_s % self._interval_s)


def _add_framework_memory(sample: DeviceSample, device: Device) -> DeviceSample:
    memory = None if sample.lost else read_torch_memory(device)
    if memory is None:
        return sample
    return replace(
        sample,
        memory_allocated_bytes=memory.allocated_bytes,
        memory_reserved_bytes=memory.reserved_bytes,
    )


class ReaderThread:
    """Runs one reader. A daemon: a driver call that never returns cannot keep the process alive."""

    def __init__(self, reader: DeviceReader, processes: ProcessTable) -> None:
        self._reader, self._processes = reader, processes
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._pending: _Request | None = None
        self._thread = threading.Thread(target=self._run, name="anyrig-reader", daemon=True)
        self._thread.start()

    def request(self, at: SampleTime) -> None:
        """Request a reading, unless the last one is still under way."""
        if self._pending is None:
            self._pending = (at, Future())
            self._requests.put(self._pending)

    def collect(self, at: SampleTime, wait_s: float) -> list[DeviceSample]:
        """The samples, or after `wait_s` samples that say how long the driver has been silent."""
        assert self._pending is not None, "request() comes first"
        requested, future = self._pending
        try:
            samples = future.result(wait_s)
        except TimeoutError:
            silent_s = at.monotonic_s - requested.monotonic_s + wait_s
            reason = f"the driver has not responded for {silent_s:.0f} s"
            lost = silent_s >= _LOST_AFTER_S
            return [unknown_sample(d, at, reason, lost=lost) for d in self._reader.devices]
        self._pending = None
        if requested == at:
            return samples
        # Requested earlier, arrived now: in the history times must not decrease.
        return [replace(s, monotonic_s=at.monotonic_s, wall_s=at.wall_s) for s in samples]

    def close(self, timeout_s: float) -> None:
        """End the thread, or abandon it in a call that hangs."""
        self._requests.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while request := self._requests.get():
            at, future = request
            try:
                samples = self._reader.read(at, self._processes)
            except Exception as error:  # noqa: BLE001 - a reader must not end the monitor
                log.debug("reader failed", exc_info=True)
                reason = f"{type(error).__name__}: {error}"
                samples = [unknown_sample(device, at, reason) for device in self._reader.devices]
            future.set_result(samples)
        self._reader.close()
