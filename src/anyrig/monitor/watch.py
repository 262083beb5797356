"""Watching a machine: samples in the background, kept for a while, with warnings.

One thread keeps the beat and looks at the host, one per reader asks the devices. Nothing here waits
for a framework or a device to finish work.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from anyrig.devices.describe import Machine
from anyrig.devices.sources.live import LiveAnswers
from anyrig.devices.sources.system import System
from anyrig.errors import InvalidInputError
from anyrig.monitor.alerts import Alert, Watchdog
from anyrig.monitor.lanes import Lane
from anyrig.monitor.processes import Crowd, WhoIsOurs, family
from anyrig.monitor.readers import Reader, open_readers
from anyrig.monitor.readers.host import HostReader
from anyrig.monitor.sample import Framework, HostSample, Moment, Sample, Snapshot
from anyrig.monitor.trend import USUAL, Limits

if TYPE_CHECKING:
    from anyrig.backends.memory import MemoryUsage

log = logging.getLogger(__name__)
# How long a beat waits for the slowest reader, as a share of the interval.
_PATIENCE = 0.5
_MOST_PATIENCE_S = 2.0
_STOP_S = 1.8
_KEPT_ALERTS = 100


class Monitor:
    """Samples of every device of a machine, once an interval.

    Args:
        machine: what `discover` found here.
        interval_s: between two samples.
        length: how many samples of each device are kept.
        extra: the framework's own figures by device id, such as `{device.id: bound.memory}`.
        ours: which processes count as ours; this one and its children when None.
        limits: when to warn of memory.
        readers: instead of those for this machine.
    """

    def __init__(
        self,
        machine: Machine,
        interval_s: float = 1.0,
        length: int = 600,
        *,
        extra: Mapping[str, Callable[[], MemoryUsage]] | None = None,
        ours: WhoIsOurs | None = None,
        limits: Limits = USUAL,
        readers: Sequence[Reader] | None = None,
    ) -> None:
        if not interval_s > 0 or length < 1:
            raise InvalidInputError(
                f"cannot sample every {interval_s:g} s and keep {length}",
                hint="The interval is more than 0 s and at least one sample is kept.",
            )
        self._interval_s = interval_s
        self._extra = dict(extra or {})
        system = System(LiveAnswers())
        self._readers = list(open_readers(machine, system) if readers is None else readers)
        self._host = HostReader(machine, system)
        self._crowd = Crowd(ours or family())
        self._order = {device.id: place for place, device in enumerate(machine.devices)}
        self._rings = {d.id: deque[Sample](maxlen=length) for d in machine.devices}
        self._hosts: deque[HostSample] = deque(maxlen=length)
        self._dogs = {device.id: Watchdog(limits) for device in machine.devices}
        self._alerts: deque[Alert] = deque(maxlen=_KEPT_ALERTS)
        self._callbacks: list[Callable[[Alert], object]] = []
        self._latest: Snapshot | None = None
        self._lock = threading.Lock()
        self._one_at_a_time = threading.Lock()
        self._lanes: list[Lane] = []
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Monitor:
        """Begin to sample; nothing if it has begun."""
        if self._thread is None:
            self._stopped.clear()
            self._thread = threading.Thread(target=self._beat, name="anyrig-monitor", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End within two seconds, whatever a driver does. What was sampled stays."""
        thread, self._thread = self._thread, None
        until = time.monotonic() + _STOP_S
        self._stopped.set()
        if thread is not None:
            thread.join(_STOP_S)
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.close(max(0.0, until - time.monotonic()))

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def latest(self) -> Snapshot | None:
        """The newest samples; None before the first."""
        return self._latest

    def history(self, device_id: str, seconds: float | None = None) -> list[Sample]:
        """The samples of one device, oldest first; of the last so many seconds."""
        with self._lock:
            kept = list(self._rings.get(device_id, ()))
        return _since(kept, seconds)

    def host_history(self, seconds: float | None = None) -> list[HostSample]:
        """The samples of the host, oldest first."""
        with self._lock:
            kept = list(self._hosts)
        return _since(kept, seconds)

    def on_warning(self, callback: Callable[[Alert], object]) -> None:
        """Have warnings told as they come, on the monitor's thread."""
        self._callbacks.append(callback)

    def warnings(self) -> list[Alert]:
        """The warnings so far, oldest first."""
        with self._lock:
            return list(self._alerts)

    def sample(self) -> Snapshot:
        """Look once, now, and keep it. The background does this by itself."""
        with self._one_at_a_time:
            if not self._lanes:
                self._lanes = [Lane(reader, self._crowd) for reader in self._readers]
            moment = Moment(time.monotonic(), time.time())
            self._crowd.refresh()
            for lane in self._lanes:
                lane.ask(moment)
            patience_s = min(max(_PATIENCE * self._interval_s, 0.25), _MOST_PATIENCE_S)
            until = moment.monotonic_s + patience_s
            samples: list[Sample] = []
            for lane in self._lanes:
                samples += lane.take(moment, max(0.0, until - time.monotonic()))
            pids = {use.pid for sample in samples for use in sample.processes or ()}
            host = self._host.read(moment, self._crowd, pids)
            samples.append(self._host.as_device(host))
            samples.sort(key=lambda sample: self._order.get(sample.device, len(self._order)))
            samples = [self._with_framework(sample) for sample in samples]
            return self._keep(Snapshot(*moment, tuple(samples), host))

    def _with_framework(self, sample: Sample) -> Sample:
        ask = self._extra.get(sample.device)
        if ask is None or sample.lost:
            return sample
        try:
            told = ask()
        except Exception as error:  # noqa: BLE001 - a framework's figures are an extra
            unknown = {**sample.unknown, "framework": f"no answer: {error}"}
            return replace(sample, unknown=unknown)
        books = Framework(
            told.allocated_bytes, told.reserved_bytes, told.peak_bytes, told.peak_reserved_bytes
        )
        return replace(sample, framework=books)

    def _keep(self, snapshot: Snapshot) -> Snapshot:
        with self._lock:
            for sample in snapshot.devices:
                if sample.device in self._rings:
                    self._rings[sample.device].append(sample)
            self._hosts.append(snapshot.host)
            self._latest = snapshot
            histories = {name: list(ring) for name, ring in self._rings.items() if ring}
        for device_id, history in histories.items():
            for alert in self._dogs[device_id].check(history):
                self._tell(alert)
        return snapshot

    def _tell(self, alert: Alert) -> None:
        with self._lock:
            self._alerts.append(alert)
        # Whoever asked to be told says it in his own way.
        log.log(
            logging.INFO if self._callbacks else logging.WARNING, "%s: %s", alert.name, alert.text
        )
        for callback in self._callbacks:
            try:
                callback(alert)
            except Exception:
                log.exception("a warning's receiver failed")

    def _beat(self) -> None:
        """Sample at whole intervals from the start: late beats are left out, never made up for."""
        start = time.monotonic()
        beat = 0
        while not self._stopped.is_set():
            try:
                self.sample()
            except Exception:
                log.exception("a sample failed")
            elapsed = time.monotonic() - start
            beat = max(beat + 1, int(elapsed / self._interval_s) + 1)
            self._stopped.wait(start + beat * self._interval_s - time.monotonic())


class NullMonitor:
    """Watches nothing, with the same face: for work that nobody wants watched."""

    def start(self) -> NullMonitor:
        """Nothing begins."""
        return self

    def stop(self) -> None:
        """Nothing ends."""

    def __enter__(self) -> NullMonitor:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing ends."""

    def latest(self) -> Snapshot | None:
        """Never anything."""
        return None

    def history(self, device_id: str, seconds: float | None = None) -> list[Sample]:
        """Never anything."""
        return []

    def host_history(self, seconds: float | None = None) -> list[HostSample]:
        """Never anything."""
        return []

    def on_warning(self, callback: Callable[[Alert], object]) -> None:
        """There are no warnings."""

    def warnings(self) -> list[Alert]:
        """There are no warnings."""
        return []

    def sample(self) -> Snapshot:
        """A look at nothing: no device is in it, and nothing is kept."""
        moment = Moment(time.monotonic(), time.time())
        return Snapshot(*moment, (), HostSample(*moment, unknown={"host": "not watched"}))


S = TypeVar("S", Sample, HostSample)


def _since(samples: list[S], seconds: float | None) -> list[S]:
    if seconds is None or not samples:
        return samples
    start = samples[-1].monotonic_s - seconds
    return [sample for sample in samples if sample.monotonic_s >= start]
