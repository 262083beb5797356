"""A worker: a process bound to one device, which loads an engine and computes what it is given.

    python -m anyrig.work.child

Messages come in on its input and go out on a copy of its output made before any library loads;
libraries print what they like to the error stream. A thread reads the input all the time: when it
ends, the pool is gone, and so is the worker at once, whatever it is computing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from anyrig.errors import AnyrigError, DeviceLostError
from anyrig.work import wire
from anyrig.work.attempt import attempt
from anyrig.work.engine import Engine, make
from anyrig.work.outcome import Failure, Outcome, Report
from anyrig.work.pace import Pace
from anyrig.work.pack import Batch, Item, Packer


def main() -> int:
    """Serve one pool until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the pool's to answer
    line = _wire()
    try:
        request = line.receive()
    except (EOFError, OSError):
        return 1
    except Exception as error:  # noqa: BLE001 - an option whose class this process does not have
        line.send(_refusal(error))
        return 0
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    loaded: list[Engine] = []
    threading.Thread(target=_read, args=(line, inbox, loaded), daemon=True).start()
    try:
        engine = _load(request, line)
        loaded.append(engine)
    except Exception as error:  # noqa: BLE001 - whatever a library throws is the answer
        line.send(_refusal(error))
        return 0
    pace = Pace(
        start=request.start or float(getattr(engine, "first_cost", 0.0)),
        failed=request.failed,
        items=engine.most_items,
        pads=engine.pads,
        grows=request.grows or engine.batch_invariant,
        keep=request.placement.batch_speed,
    )
    try:
        Desk(engine, pace, line, inbox).work()
    except DeviceLostError as error:
        line.send(wire.Lost(error.message))
    return 0


def _wire() -> wire.Wire:
    reading, writing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # On Windows a thread that waits on the standard input keeps other libraries from loading.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire.Wire(reading, writing)


def _read(line: wire.Wire, inbox: queue.SimpleQueue[Any], loaded: list[Engine]) -> None:
    """Until the pool is gone, whatever the reason: then this process has nothing to live for."""
    try:
        while True:
            message = line.receive()
            if isinstance(message, wire.LetGo):  # at once: a task at hand may take hours
                given = (line, message.name, list(loaded))
                threading.Thread(target=_let_go, args=given, daemon=True).start()
            else:
                inbox.put(message)
    finally:
        os._exit(1)


def _let_go(line: wire.Wire, name: str, loaded: list[Engine]) -> None:
    """Close a model that nobody needs; said at once, as somebody waits for its memory."""
    with contextlib.suppress(OSError, ValueError):
        for engine in loaded:
            if callable(close := getattr(engine, "let_go", None)):
                close(name)
            line.send(_alive(engine))


def _load(request: wire.Load, line: wire.Wire) -> Engine:
    sys.path.extend(path for path in request.paths if path not in sys.path)
    start = time.perf_counter()
    if request.placement.wrong_attention:
        from anyrig.precision.selftest import disable_attention

        disable_attention(request.placement.wrong_attention)
    engine = make(request.factory, request.placement, request.options)
    if engine.bound is not None and request.placement.budget_bytes is not None:
        engine.bound.limit(request.placement.budget_bytes)
    line.send(_alive(engine))
    line.send(wire.Ready(time.perf_counter() - start, engine.name, engine.version))
    given = (engine, line, request.beat_s)
    threading.Thread(target=_beat, args=given, name="anyrig-beat", daemon=True).start()
    return engine


def _beat(engine: Engine, line: wire.Wire, every_s: float) -> None:
    """Say that this process lives, whatever it computes."""
    last = wire.Beat((engine.name,))
    with contextlib.suppress(OSError):  # the pool is gone
        while True:
            time.sleep(every_s)
            with contextlib.suppress(Exception):  # what it cannot tell now does not stop the beat
                last = _alive(engine)
            line.send(last)


def _alive(engine: Engine) -> wire.Beat:
    """With the models that are loaded here: an engine of several says which."""
    holds, held = getattr(engine, "holds", None), getattr(engine, "held", None)
    return wire.Beat(
        tuple(holds()) if callable(holds) else (engine.name,),
        tuple(held()) if callable(held) else (),
    )


def _refusal(error: Exception) -> wire.Refused:
    if isinstance(error, AnyrigError):
        return wire.Refused(error.message, error.hint, type(error).__name__)
    said = " ".join(str(error).split())[:300]
    return wire.Refused(f"{type(error).__name__}: {said}", "", type(error).__name__)


class Desk:
    """What lies before a worker, and the next batch from it."""

    def __init__(
        self, engine: Engine, pace: Pace, line: wire.Wire, inbox: queue.SimpleQueue[Any]
    ) -> None:
        self._engine, self._pace, self._line, self._inbox = engine, pace, line, inbox
        self._waiting: Packer[Any] = Packer()

    def work(self) -> None:
        """Compute until the input ends, which ends the process."""
        following: Batch[Any] | None = None
        while True:
            if following is None:
                self._sort_in(wait=not len(self._waiting))
                following = self._next()
                if following is None:
                    continue
                self._line.send(wire.Begun(following.indices))
            following = self._compute(following)

    def _next(self) -> Batch[Any] | None:
        if not len(self._waiting):
            return None
        return self._waiting.take(self._waiting.oldest(), self._pace.budget)

    def _sort_in(self, *, wait: bool) -> None:
        """Take in what has come; wait for something when nothing lies here."""
        while True:
            try:
                message = self._inbox.get(block=wait)
            except queue.Empty:
                return
            wait = False
            if isinstance(message, wire.Drop):
                self._drop(message.indices)
            else:
                self._unpack(message.parcels)

    def _unpack(self, parcels: Sequence[wire.Parcel]) -> None:
        """Lay items on the desk; one that cannot be made anew here is answered at once."""
        for parcel in parcels:
            try:
                self._waiting.add(Item(parcel.number, parcel.opened(), parcel.cost))
            except Exception as error:  # noqa: BLE001 - pickle throws whatever a class throws
                said = f"the item cannot be made anew in another process: {error}"
                self._tell([Outcome(parcel.number, failure=Failure("error", said, 1))], Report())

    def _drop(self, indices: tuple[int, ...]) -> None:
        gone = tuple(index for index in indices if index in self._waiting)
        for index in gone:
            self._waiting.remove(index)
        if gone:
            self._line.send(wire.Dropped(gone))

    def _compute(self, batch: Batch[Any]) -> Batch[Any] | None:
        """One batch; what comes after it is told with its outcomes, in one message.

        What was done of it is told even when the device is lost in the middle.
        """
        report = Report()
        done: list[Outcome[Any]] = []
        work = attempt(
            batch,
            self._engine.run,
            pace=self._pace,
            report=report,
            bound=self._engine.bound,
            relief=self._engine.relief,
        )
        try:
            done.extend(work)
        except DeviceLostError:
            told = {outcome.index for outcome in done}
            self._tell(done, report, tuple(i for i in batch.indices if i not in told))
            raise
        self._sort_in(wait=False)
        following = self._next()
        self._tell(done, report, following.indices if following is not None else ())
        return following

    def _tell(
        self, done: Sequence[Outcome[Any]], report: Report, begun: tuple[int, ...] = ()
    ) -> None:
        """Outcomes and figures; a result that cannot be sent is a failure of its item alone."""
        parcels: list[wire.Parcel] = []
        failures: list[tuple[int, Failure]] = []
        for outcome in done:
            if outcome.failure is not None:
                failures.append((outcome.index, outcome.failure))
                continue
            try:
                parcels.append(wire.parcel(outcome.index, outcome.result))
            except wire.UNPICKLABLE as error:
                said = f"the result cannot be sent to another process: {error}"
                failures.append((outcome.index, Failure("error", said, 1)))
        self._line.send(
            wire.Done(
                tuple(parcels),
                tuple(failures),
                begun,
                report.real_cost,
                report.padded_cost,
                report.busy_s,
                report.num_batches,
                report.num_out_of_memory,
                report.peak_bytes,
                self._pace.budget,
                self._pace.good,
                self._pace.failed_at,
            )
        )


if __name__ == "__main__":
    sys.exit(main())
