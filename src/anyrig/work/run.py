"""Batches through an engine in this process, results in order while later batches run."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from anyrig.work.attempt import Call, attempt
from anyrig.work.outcome import Outcome, Report, in_order
from anyrig.work.pace import Pace
from anyrig.work.pack import LOOK_AHEAD, Packer
from anyrig.work.source import Source

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
_LEAVE_S = 5.0
_PULSE_S = 0.5


def run(
    payloads: Iterable[T],
    call: Call[T, R],
    *,
    cost: Callable[[T], float],
    pace: Pace | None = None,
    bound: DeviceHandle | None = None,
    look_ahead: int = LOOK_AHEAD,
    report: Report | None = None,
    relief: Sequence[str] = (),
) -> Iterator[Outcome[R]]:
    """An outcome for every item, in the order of the input.

    The engine works ahead of whoever takes the results, by no more than `look_ahead` items. An item
    that fails twice is an outcome with a `failure`, and the rest go on.

    Args:
        payloads: the items, which may come as a stream.
        call: the engine: a list of items in, as many results out.
        cost: what an item costs, in the engine's unit: tokens, characters, pixels.
        pace: how batches are sized; `Pace(grows=False)` gives the same bytes whatever the company.
        bound: the device, to wait for it and to free its memory after running out.
        look_ahead: how many items are read ahead to be sorted.
        report: is filled with the figures of the run.
        relief: options that need less memory, as a person types them, for errors.
    """
    report = report if report is not None else Report()
    source = Source(payloads, cost, look_ahead)
    ahead = _Ahead(source, call, pace or Pace(), bound, report, relief)
    try:
        for outcome in in_order(ahead.outcomes()):
            source.done()
            yield outcome
    finally:
        ahead.leave()


def taken(
    ready: queue.SimpleQueue[Outcome[R] | BaseException | None],
) -> Iterator[Outcome[R]]:
    """Outcomes as they come. Looks up now and then, so that Ctrl-C is heard on every system."""
    while True:
        try:
            outcome = ready.get(timeout=_PULSE_S)
        except queue.Empty:
            continue
        if outcome is None:
            return
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome


class _Ahead(Generic[T, R]):
    """The thread that computes while results are taken."""

    def __init__(
        self,
        source: Source[T],
        call: Call[T, R],
        pace: Pace,
        bound: DeviceHandle | None,
        report: Report,
        relief: Sequence[str],
    ) -> None:
        self._source, self._call, self._pace = source, call, pace
        self._bound, self._report, self._relief = bound, report, relief
        self._ready: queue.SimpleQueue[Outcome[R] | BaseException | None] = queue.SimpleQueue()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._work, name="anyrig-work", daemon=True)
        self._thread.start()

    def outcomes(self) -> Iterator[Outcome[R]]:
        """Outcomes as they come."""
        yield from taken(self._ready)

    def leave(self) -> None:
        """Stop after the present batch."""
        self._left.set()
        self._source.close()
        self._thread.join(timeout=_LEAVE_S)

    def _work(self) -> None:
        try:
            for outcome in self._outcomes():
                self._report.add(outcome)
                self._ready.put(outcome)
                if self._left.is_set():
                    return
            self._ready.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where results are taken
            self._ready.put(error)

    def _outcomes(self) -> Iterator[Outcome[R]]:
        waiting: Packer[T] = Packer()
        while not self._left.is_set():
            for item in self._source.take(wait=not len(waiting)):
                waiting.add(item)
            if not len(waiting):
                break
            batch = waiting.take(waiting.oldest(), self._pace.budget)
            yield from attempt(
                batch,
                self._call,
                pace=self._pace,
                report=self._report,
                bound=self._bound,
                relief=self._relief,
            )
        if self._source.error is not None:
            raise self._source.error
