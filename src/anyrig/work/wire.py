"""Messages between a pool and its workers: pickles with their length, over a pipe.

Both ends are ours and started one another, so pickles are safe here; nothing else can write to the
pipe.
"""

from __future__ import annotations

import pickle
import struct
import threading
from typing import IO, Any, NamedTuple

from anyrig.work.outcome import Failure
from anyrig.work.seen import Held

BEAT_S = 2.0
"""How often a worker says that it lives."""
_LENGTH = struct.Struct("<Q")


class Load(NamedTuple):
    """To a worker: make this engine ready."""

    factory: str
    """`module:name`, called in the worker."""
    placement: Any
    options: dict[str, Any]
    paths: tuple[str, ...]
    """Where the parent imports from."""
    start: float
    """The cost of a batch that is known to be good; 0 when none is."""
    failed: float | None
    """The cost of a batch that did not fit."""
    grows: bool
    beat_s: float = BEAT_S
    """How often it says that it lives."""


class Parcel(NamedTuple):
    """An item or a result on its way: packed on its own, so that a bad one spoils no other."""

    number: int
    """The item's index."""
    data: bytes
    cost: float = 0.0

    def opened(self) -> Any:
        """What is inside; whatever pickle throws where it cannot be made anew."""
        return pickle.loads(self.data)


class Do(NamedTuple):
    """To a worker: these items."""

    parcels: tuple[Parcel, ...]


class Drop(NamedTuple):
    """To a worker: these are done elsewhere; leave them out when they have not begun."""

    indices: tuple[int, ...]


class LetGo(NamedTuple):
    """To a worker: close this model of several, unless the task at hand has it."""

    name: str


class Ready(NamedTuple):
    """From a worker: the engine is loaded."""

    seconds: float
    name: str
    version: str


class Beat(NamedTuple):
    """From a worker, every few seconds: it lives, and has these models loaded."""

    holds: tuple[str, ...]
    held: tuple[Held, ...] = ()
    """Those of them that are in processes of its own."""


class Refused(NamedTuple):
    """From a worker: the engine cannot be loaded."""

    said: str
    hint: str
    kind: str
    """The error's class."""


class Begun(NamedTuple):
    """From a worker: it computes these now. If it dies, one of them may be why."""

    indices: tuple[int, ...]


class Done(NamedTuple):
    """From a worker: outcomes of one call, and what it took."""

    parcels: tuple[Parcel, ...]
    failures: tuple[tuple[int, Failure], ...]
    begun: tuple[int, ...]
    """What it computes next."""
    real_cost: float
    padded_cost: float
    seconds: float
    num_batches: int
    num_out_of_memory: int
    peak_bytes: int | None
    budget: Any
    good: float
    """The size of batch that was found good; 0 when none was yet."""
    failed_at: float | None


class Dropped(NamedTuple):
    """From a worker: these will not come from it."""

    indices: tuple[int, ...]


class Back(NamedTuple):
    """From a worker: these it gives back undone, and nobody is to blame; they are given again."""

    indices: tuple[int, ...]


class Leaving(NamedTuple):
    """From a worker: it finishes what it has, and takes nothing new."""


class Lost(NamedTuple):
    """From a worker: its device is gone, and so is it."""

    said: str


def parcel(index: int, thing: Any, cost: float = 0.0) -> Parcel:
    """A thing packed; one of `UNPICKLABLE` when it cannot be."""
    return Parcel(index, pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL), cost)


def encode(message: Any) -> bytes:
    """A message as it goes over the pipe; an error when something in it cannot be pickled."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


UNPICKLABLE = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)
"""What pickling throws at a lambda, an open file, a local class, a very deep list."""


class Wire:
    """One end of a pair of pipes. Sending is safe from several threads."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._reading, self._writing = reading, writing
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Write a message whole. A reader that is gone raises `OSError`."""
        self.write(encode(message))

    def write(self, data: bytes) -> None:
        """Write an encoded message whole."""
        with self._lock:
            self._writing.write(data)
            self._writing.flush()

    def receive(self) -> Any:
        """The next message; `EOFError` when the other end is gone."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        data = self._reading.read(count)
        if data is None or len(data) < count:
            raise EOFError
        return data
