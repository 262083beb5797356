"""Where figures go: a console's line, a file of lines, TensorBoard, Prometheus.

A sink is handed values as they come and may fail: `Guarded` says so once and the run goes on.
"""

from __future__ import annotations

import logging
from typing import Protocol

from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.figures import Figures, RunEvent, Validation

log = logging.getLogger(__name__)
Told = Figures | Validation | RunEvent | Alert


class Sink(Protocol):
    """Takes what a run tells, one thing after the other, on the recorder's own thread."""

    name: str

    def take(self, told: Told) -> None:
        """One more thing."""

    def close(self) -> None:
        """There is no more."""


class Guarded:
    """A sink whose failures are told once and end nothing; it is tried again each time."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.num_failed = 0

    def take(self, told: Told) -> None:
        """Hand it on."""
        try:
            self.sink.take(told)
        except Exception as error:  # noqa: BLE001 - whatever a sink's trouble is, training goes on
            self._failed(error)

    def close(self) -> None:
        """End it."""
        try:
            self.sink.close()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.num_failed += 1
        if self.num_failed == 1:
            log.warning("%s: not written: %s (training goes on)", self.sink.name, error)
