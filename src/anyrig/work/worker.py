"""A worker as its pool sees it: a process, what it is told, what it says. Never blocks the pool."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.backends import spawn
from anyrig.backends.bind import bind
from anyrig.work import wire
from anyrig.work.known import Sizes

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.engine import Recipe

log = logging.getLogger(__name__)


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
    ) -> None:
        self.number, self.placement = number, placement
        self._stopped = False
        variables, seen = bind(placement.device, environment)
        self._process = spawn.start(
            "anyrig.work.child",
            {**environment, **threads(placement.threads, environment), **variables,
             **placement.variables},
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._murmur = spawn.Murmur(self._process.stderr)
        self._wire = wire.Wire(self._process.stdout, self._process.stdin)
        self._events = events
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        for task in (self._read, self._write):
            threading.Thread(target=task, name=f"anyrig-worker-{number}", daemon=True).start()
        paths = tuple(path for path in (*sys.path, os.getcwd()) if path)
        there = replace(placement, device=seen)
        options = dict(recipe.options)
        self.tell(wire.Load(recipe.factory, there, options, paths, *known, grows))

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def tell(self, message: Any) -> None:
        """Send a message, from a thread of its own: a worker that does not read stops nobody.

        One of `wire.UNPICKLABLE` is raised here, before anything is sent.
        """
        self._outbox.put(wire.encode(message))

    def stop(self) -> None:
        """End the process now."""
        self._stopped = True
        self._outbox.put(None)
        spawn.stop(self._process)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (data := self._outbox.get()) is not None:
                self._wire.write(data)

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self._events.put(Said(self.number, self._wire.receive()))
        with contextlib.suppress(OSError):
            code = self._process.wait()
            said = spawn.death(code, self._murmur.lines())
            if not self._stopped:
                log.debug("worker %d %s", self.number, said)
            self._events.put(Said(self.number, Gone(said)))


def threads(count: int, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold a child's libraries to so many threads; the user's own stay."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: str(count) for name in names if name not in environment}
