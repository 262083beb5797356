"""A thread for each reader, so that a driver that hangs holds up nobody else.

Threads are daemons: a call that never comes back cannot keep the process from ending.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from anyrig.devices.machine import Device
from anyrig.monitor.processes import Crowd
from anyrig.monitor.readers import Reader
from anyrig.monitor.sample import Moment, Sample

log = logging.getLogger(__name__)
# A reader that has been silent for so long has lost its devices.
LOST_AFTER_S = 15.0


class Lane:
    """One reader on a thread of its own."""

    def __init__(self, reader: Reader, crowd: Crowd) -> None:
        self._reader, self._crowd = reader, crowd
        self._ready = threading.Condition()
        self._wanted: Moment | None = None
        self._samples: list[Sample] | None = None
        self._asked_s: float | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="anyrig-reader", daemon=True)
        self._thread.start()

    def ask(self, moment: Moment) -> None:
        """Have the devices looked at; nothing new while the last look is still going on."""
        with self._ready:
            if self._asked_s is None:
                self._asked_s, self._wanted = moment.monotonic_s, moment
                self._ready.notify_all()

    def take(self, moment: Moment, wait_s: float) -> list[Sample]:
        """What came of it within so long; else samples that say how long they are awaited."""
        with self._ready:
            self._ready.wait_for(lambda: self._samples is not None or self._closed, wait_s)
            samples, self._samples = self._samples, None
            if samples is not None:
                asked_s, self._asked_s = self._asked_s, None
                return samples if asked_s == moment.monotonic_s else _now(samples, moment)
            asked_s = moment.monotonic_s if self._asked_s is None else self._asked_s
        silent_s = moment.monotonic_s - asked_s + wait_s
        return [_awaited(device, moment, silent_s) for device in self._reader.devices]

    def close(self, wait_s: float) -> None:
        """End the thread, or leave it to its hanging call."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        self._thread.join(wait_s)

    def _work(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._wanted is not None or self._closed)
                moment, self._wanted = self._wanted, None
            if moment is None:
                break
            samples = self._read(moment)
            with self._ready:
                self._samples = samples
                self._ready.notify_all()
        self._reader.close()

    def _read(self, moment: Moment) -> list[Sample]:
        try:
            return self._reader.read(moment, self._crowd)
        except Exception as error:  # noqa: BLE001 - a reader must not end the watch
            log.debug("a reader failed", exc_info=True)
            reason = {"device": f"no answer: {type(error).__name__}: {error}"}
            return [Sample(d.id, d.name, *moment, unknown=reason) for d in self._reader.devices]


def _now(samples: list[Sample], moment: Moment) -> list[Sample]:
    """Samples asked for earlier that came just now, in the order of time with all others."""
    return [
        replace(sample, monotonic_s=moment.monotonic_s, wall_s=moment.wall_s) for sample in samples
    ]


def _awaited(device: Device, moment: Moment, silent_s: float) -> Sample:
    text = f"no answer: the driver has been silent for {silent_s:.0f} s"
    return Sample(
        device.id,
        device.name,
        *moment,
        lost=text if silent_s >= LOST_AFTER_S else "",
        memory_total_bytes=device.memory.total_bytes,
        unknown={"device": text},
    )
