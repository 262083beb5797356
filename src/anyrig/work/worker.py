"""A worker as its pool sees it: a process, what it is told, what it says. Never blocks the pool."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.backends.process import (
    StderrTail,
    bind_device,
    describe_exit,
    kill_process_group,
    start_module,
)
from anyrig.errors import InvalidInputError
from anyrig.work import wire
from anyrig.work.known import Sizes

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.engine import Recipe
    from anyrig.work.pack import Item
    from anyrig.work.seen import Held

log = logging.getLogger(__name__)
_LAST_WORDS_S = 2.0


class Gone(NamedTuple):
    """A worker's process has ended."""

    said: str


class Said(NamedTuple):
    """A message, and whose it is."""

    number: int
    message: Any


class Worker:
    """One process on one device."""

    def __init__(
        self,
        number: int,
        placement: Placement,
        recipe: Recipe,
        environment: Mapping[str, str],
        events: queue.SimpleQueue[Any],
        known: Sizes,
        *,
        grows: bool = True,
        beat_s: float = wire.BEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number, self.placement = number, placement
        self._clock = clock
        self.started = clock()
        self.heard = self.started
        """When it last said anything."""
        self.holds: tuple[str, ...] = ()
        """The models it says that it has loaded."""
        self.held: tuple[Held, ...] = ()
        """Those of them that are in processes of its own."""
        self.ended = ""
        """How the process ended; empty while it lives."""
        self._stopped = self._given_up = False
        variables, seen = bind_device(placement.device, environment)
        paths = tuple(path for path in (*sys.path, os.getcwd()) if path)
        there = replace(placement, device=seen)
        # Before a process is there: what cannot be sent leaves none behind.
        load = _encoded(recipe, wire.Load(recipe.factory, there, dict(recipe.options), paths,
                                          *known, grows, beat_s))  # fmt: skip
        self._process = start_module(
            "anyrig.work.child",
            {**environment, **threads(placement.threads, environment), **variables,
             **placement.variables},
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._murmur = StderrTail(self._process.stderr)
        self._wire = wire.Wire(self._process.stdout, self._process.stdin)
        self._events = events
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._outbox.put(load)
        self._reader = threading.Thread(target=self._read, daemon=True)
        for thread in (self._reader, *(threading.Thread(target=task, daemon=True)
                                       for task in (self._write, self._watch))):  # fmt: skip
            thread.name = f"anyrig-worker-{number}"
            thread.start()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def beat_at(self) -> float:
        """When it last said anything; heartbeats come from a thread of its own."""
        return self.heard

    @property
    def place(self) -> str:
        """The id of its device."""
        return self.placement.device.id

    @property
    def called(self) -> str:
        """The name of its device."""
        return self.placement.device.name

    def give(self, items: Sequence[Item[Any]]) -> list[tuple[int, str]]:
        """Send items, each packed on its own; the indices of those that cannot be, and why."""
        parcels, refused = [], []
        for item in items:
            try:
                parcels.append(wire.parcel(item.index, item.payload, item.cost))
            except wire.UNPICKLABLE as error:
                said = f"the item cannot be sent to another process: {error}"
                refused.append((item.index, said))
        if parcels:
            self._tell(wire.Do(tuple(parcels)))
        return refused

    def drop(self, indices: Sequence[int]) -> None:
        """These are done elsewhere; it leaves them out where they have not begun."""
        self._tell(wire.Drop(tuple(indices)))

    def let_go(self, name: str) -> None:
        """It closes this model of several, busy with others or not."""
        self._tell(wire.LetGo(name))

    def _tell(self, message: Any) -> None:
        """Send from a thread of its own: a worker that does not read stops nobody."""
        self._outbox.put(wire.encode(message))

    def stop(self) -> None:
        """End the process now; one that cannot be ended is given up."""
        if self._given_up:
            return
        self._stopped = True
        self._outbox.put(None)
        if kill_process_group(self._process) is None:
            self._given_up = True
            self.ended = "was killed and has not ended"
            self._events.put(Said(self.number, Gone(self.ended)))

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (data := self._outbox.get()) is not None:
                self._wire.write(data)

    def _read(self) -> None:
        try:
            while True:
                message = self._wire.receive()
                self.heard = self._clock()
                if isinstance(message, wire.Beat):
                    self.holds, self.held = message.holds, message.held
                else:
                    self._events.put(Said(self.number, message))
        except (EOFError, OSError, ValueError):
            pass  # it is gone, and `_watch` says so
        except Exception:  # a message that cannot be read: there is no going on with this worker
            log.exception("a message of worker %d cannot be read", self.number)
            self._process.kill()
        finally:
            with contextlib.suppress(OSError, ValueError):
                assert self._process.stdout is not None
                self._process.stdout.close()

    def _watch(self) -> None:
        """Wait for the process itself: a pipe may be held open by what it started."""
        code = self._process.wait()
        self._reader.join(timeout=_LAST_WORDS_S)
        self.ended = said = describe_exit(code, self._murmur.lines())
        if not self._stopped:
            log.debug("worker %d %s", self.number, said)
        self._events.put(Said(self.number, Gone(said)))


def _encoded(recipe: Recipe, load: wire.Load) -> bytes:
    try:
        return wire.encode(load)
    except wire.UNPICKLABLE as error:
        raise InvalidInputError(
            f"the options of {recipe.factory} cannot be sent to another process: {error}",
            hint="Give plain values, or names that a worker can import.",
        ) from error


def threads(count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold a child's libraries to so many threads; the user's own stay."""
    counts = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    # numpy's own: its threads spin while they wait for a next product, and small ones come often.
    # A voice spent a third of its CPU time on that.
    counts["OPENBLAS_NUM_THREADS"] = 1
    return {name: str(number) for name, number in counts.items() if name not in environment}
