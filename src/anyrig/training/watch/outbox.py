"""A thread that hands things to sinks, so that a slow disk never holds up a step."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from anyrig.training.watch.alerts import Alert
from anyrig.training.watch.sinks import Guarded, Sink, Told

log = logging.getLogger(__name__)
_BEAT_S = 1.0
_CLOSE_S = 30.0


class Outbox:
    """Things to tell, in order. The thread starts with the first of them.

    Args:
        sinks: who is told.
        on_alert: is handed warnings after the sinks.
        beat: is called about once a second.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        on_alert: Callable[[Alert], None],
        beat: Callable[[], None],
    ) -> None:
        self._sinks = [Guarded(sink) for sink in sinks]
        self._on_alert = on_alert
        self._beat = beat
        self._queue: queue.SimpleQueue[Told | threading.Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.closed = False
        self._blind = False

    def put(self, told: Told) -> None:
        """Tell it soon."""
        if self.closed:
            return
        self._queue.put(told)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="anyrig-watch", daemon=True)
            self._thread.start()

    def flush(self) -> None:
        """Wait until everything so far was told."""
        if self._thread in (None, threading.current_thread()) or self.closed:
            return
        done = threading.Event()
        self._queue.put(done)
        if not done.wait(_CLOSE_S):
            log.warning("figures are still not written after %g s; training goes on", _CLOSE_S)

    def close(self) -> None:
        """Tell the rest and end the sinks."""
        self.closed = True
        self._queue.put(None)
        if self._thread not in (None, threading.current_thread()):
            assert self._thread is not None
            self._thread.join(_CLOSE_S)
        for sink in self._sinks:
            sink.close()

    def _run(self) -> None:
        due = time.monotonic() + _BEAT_S
        while True:
            try:
                told = self._queue.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                pass
            else:
                if told is None:
                    return
                self._hand_on(told)
            if time.monotonic() >= due:
                due = time.monotonic() + _BEAT_S
                self._look()

    def _look(self) -> None:
        try:
            self._beat()
        except Exception as error:  # noqa: BLE001 - a lost device ends the loop, not its records
            if not self._blind:
                log.warning("figures can no longer be read: %s", error)
            self._blind = True

    def _hand_on(self, told: Told | threading.Event) -> None:
        if isinstance(told, threading.Event):
            told.set()
            return
        for sink in self._sinks:
            sink.take(told)
        if isinstance(told, Alert):
            self._on_alert(told)
