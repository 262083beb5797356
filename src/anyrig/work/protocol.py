"""What a pool and its workers agree on: handles, sources of workers, and messages.

Messages to and from a process are pickles, followed by the large arrays in them, as they are in
memory; their lengths come first. Both ends are ours and one started the other, so pickles are safe
here: nothing else can write to the pipe.
"""

from __future__ import annotations

import pickle
import struct
import threading
from collections.abc import Collection, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from anyrig.errors import AnyrigError
from anyrig.work.batching import BatchBudget, WorkItem
from anyrig.work.outcome import BatchStats, ItemFailure

if TYPE_CHECKING:
    from anyrig.devices.machine import DeviceKind
    from anyrig.placement import Placement
    from anyrig.work.engine import EngineFactory
    from anyrig.work.pool import WorkerPool
    from anyrig.work.scheduler import WorkerLoad

HEARTBEAT_S = 2.0

# -- workers as their pool sees them ------------------------------------------------------------


class WorkerHandle(Protocol):
    """One worker. No method may block; what it has to say it puts into the pool's events."""

    number: int
    """Unique in its pool, in the order in which workers came: `next(pool.numbers)`."""
    confirm_errors: bool
    """Whether another worker must fail with an item as well before the item fails: where the
    machine may be at fault."""

    @property
    def source(self) -> WorkerSource:
        """Where it comes from."""

    @property
    def device(self) -> str:
        """Id under which crashes are counted: its device, or the name of a remote worker."""

    @property
    def title(self) -> str:
        """Name for log messages."""

    @property
    def last_heartbeat(self) -> float | None:
        """None if unknown. A worker that sends heartbeats is alive, however long its item takes."""

    def send_items(self, items: Sequence[WorkItem[Any]]) -> Sequence[tuple[int, str]]:
        """Index and reason of those that cannot be sent."""

    def cancel_items(self, indices: Sequence[int]) -> None:
        """Skip those of these that have not started, and return them."""

    def stop(self) -> None:
        """End it; `WorkerExited` follows."""


class WorkerSource:
    """Where the workers of a pool come from: processes of this machine, or other machines.

    A pool calls these methods from one thread. The defaults are those of a source that starts
    nothing itself: its workers come and go.
    """

    @property
    def look_ahead(self) -> int:
        """Items that must be read ahead, at least, to keep its workers busy."""
        return 0

    @property
    def loading(self) -> bool:
        """Whether some of its workers are still loading."""
        return False

    def start(self, pool: WorkerPool) -> None:
        """From now on workers may post `EngineReady`."""
        raise NotImplementedError

    @property
    def devices(self) -> Collection[str]:
        """The device of every worker, also of those that are loading."""
        raise NotImplementedError

    def check(self) -> AnyrigError | None:
        """Why it has no worker and expects none; None while it has or expects some."""
        raise NotImplementedError

    def status(self) -> tuple[WorkerStatus, ...]:
        """Its processes as last seen; from any thread."""
        return ()

    def add_worker(self, worker: Any, load: WorkerLoad[Any]) -> None:
        """One of its workers is ready; sets the speed to expect of it, if that is known."""

    def remove_worker(self, worker: Any, exited: WorkerExited, suspects: Sequence[int]) -> None:
        """One of its workers is gone, perhaps because of these items; a crash is counted."""

    def reuse_devices(self, devices: Sequence[str]) -> None:
        """These devices were suspended, and an item was the cause."""

    def start_fallback(self) -> bool:
        """Start a worker on the device of last resort; False if there is none to start."""
        return False

    def end_run(self) -> None:
        """A run has ended."""

    def close(self) -> None:
        """End every worker."""


class WorkerStatus(NamedTuple):
    """A worker as last seen, for health checks. Times are of the monotonic clock."""

    pid: int
    device: str
    """Device id."""
    kind: DeviceKind
    selector: str
    """How the backend names the device: `cuda:0`, `cpu`."""
    state: Literal["loading", "ready", "dead"]
    started: float
    last_seen: float
    """Time of its last message; a living worker sends a heartbeat every few seconds."""
    models: tuple[str, ...] = ()
    """Names of the models it has loaded."""
    busy_since: float | None = None
    exit_reason: str = ""
    """How a dead worker ended."""
    nested_models: tuple[NestedModel, ...] = ()


class NestedModel(NamedTuple):
    """A model that a worker runs in processes of its own, on other devices perhaps."""

    name: str
    """As in the worker's `models`."""
    opened: float
    used: float
    """When a task last used it."""
    busy: bool
    """Whether the current task uses it."""
    workers: tuple[WorkerStatus, ...]
    num_batches: int = 0
    num_items: int = 0
    busy_s: float = 0.0
    num_out_of_memory: int = 0


# -- messages to a worker -----------------------------------------------------------------------


class BatchSizes(NamedTuple):
    """What is known about batch sizes on a device."""

    worked: float = 0.0
    """Cost of a batch that is known to be good; 0 starts with one item."""
    failed: float | None = None
    """Cost of a batch that ran out of memory."""


class LoadEngine(NamedTuple):
    factory: EngineFactory
    placement: Placement
    paths: tuple[str, ...]
    """Where the parent imports from."""
    sizes: BatchSizes
    grow: bool
    """Whether batches may hold more than one item although results depend on the batch."""
    heartbeat_s: float


class RunItems(NamedTuple):
    items: tuple[tuple[int, PickledValue, float, bool], ...]
    """Index, payload, cost, and whether parts of the result are wanted."""


class CancelItems(NamedTuple):
    """These are done elsewhere: skip those that have not started."""

    indices: tuple[int, ...]


class UnloadModel(NamedTuple):
    """Close one of several models, unless the current task uses it."""

    name: str


# -- messages from a worker ---------------------------------------------------------------------


class EngineReady(NamedTuple):
    seconds: float
    concurrent_items: int = 1
    """How many items it computes at the same time."""


class WorkerFailed(NamedTuple):
    """It cannot load its engine, or has lost its device, and exits."""

    error: dict[str, Any]
    """From `error_to_dict`."""


class Heartbeat(NamedTuple):
    models: tuple[str, ...]
    nested_models: tuple[NestedModel, ...] = ()


class ItemsStarted(NamedTuple):
    """It computes these now. If it dies, one of them may be the cause."""

    indices: tuple[int, ...]


class ItemPart(NamedTuple):
    """A part of a result that is not whole yet; an item that is retried sends its parts again."""

    item: int
    part: Any
    """Over the pipe, a `PickledValue`."""


class BatchDone(NamedTuple):
    """Results of one batch, and of the parts it may have been split into."""

    results: tuple[tuple[int, Any], ...]
    """Index and result; over the pipe, each result is a `PickledValue`."""
    failures: tuple[tuple[int, ItemFailure], ...]
    started: tuple[int, ...]
    """What it computes next."""
    stats: BatchStats
    budget: BatchBudget = BatchBudget(0.0, 1)
    """Of its next batch."""
    sizes: BatchSizes = BatchSizes()


class ItemsReturned(NamedTuple):
    """It will not compute these: they were cancelled, or it cannot."""

    indices: tuple[int, ...]


class Draining(NamedTuple):
    """It finishes what it has and takes nothing new."""


class WorkerExited(NamedTuple):
    """Not sent but observed, once: it is gone."""

    reason: str
    crashed: bool = True
    """Whether it, its device or the items it was computing may be at fault."""
    error: AnyrigError | None = None
    """Why it could not load its engine."""


class WorkerEvent(NamedTuple):
    """A message for the pool, and the worker it is from; neither if it only has to look again."""

    worker: Any
    message: Any


# -- the pipe -----------------------------------------------------------------------------------

_COUNT, _LENGTH = struct.Struct("<I"), struct.Struct("<Q")
_MIN_BUFFER_BYTES = 32 << 10
"""Smaller arrays are copied into the pickle."""
PICKLE_ERRORS = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)
"""Raised for a lambda, an open file, a local class, a very deep list."""


class PickledValue(NamedTuple):
    """A value that was pickled by itself, so that a bad one spoils no other.

    In a message that is pickled in turn, both parts are left where they are.
    """

    data: pickle.PickleBuffer
    arrays: tuple[pickle.PickleBuffer, ...]

    def load(self) -> Any:
        """Raises whatever the classes in it raise."""
        return pickle.loads(self.data, buffers=self.arrays)


def pickle_value(value: Any) -> PickledValue:
    """Raises one of `PICKLE_ERRORS` if the value cannot be pickled."""
    data, arrays = _pickle(value)
    return PickledValue(pickle.PickleBuffer(data), tuple(arrays))


def encode_message(message: Any) -> list[bytes | memoryview]:
    """The parts of a message, to be written one after the other."""
    data, arrays = _pickle(message)
    parts = [memoryview(data), *(array.raw() for array in arrays)]
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    return [_COUNT.pack(len(parts)) + lengths, *parts]


def _pickle(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """A pickle, and the large arrays that belong to it, which are not copied."""
    arrays: list[pickle.PickleBuffer] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _MIN_BUFFER_BYTES:
            return True
        arrays.append(buffer)
        return False

    return pickle.dumps(value, protocol=5, buffer_callback=is_small), arrays


class Connection:
    """One end of a pair of pipes. Sending is safe from several threads."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._reading, self._writing = reading, writing
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Raises `OSError` if the reader is gone."""
        self.write(encode_message(message))

    def write(self, parts: Sequence[bytes | memoryview]) -> None:
        """Send an encoded message."""
        with self._lock:
            for part in parts:
                self._writing.write(part)
            self._writing.flush()

    def receive(self) -> Any:
        """The next message; raises `EOFError` if the other end is gone."""
        (count,) = _COUNT.unpack(self._read(_COUNT.size))
        lengths = [length for (length,) in _LENGTH.iter_unpack(self._read(count * _LENGTH.size))]
        data, *arrays = [self._read(length) for length in lengths]
        return pickle.loads(data, buffers=arrays)

    def _read(self, count: int) -> bytearray:
        """A part: what an array is made of can be written to."""
        data, start = bytearray(count), 0
        view = memoryview(data)
        while start < count:
            read: int | None = self._reading.readinto(view[start:])  # type: ignore[attr-defined]
            if not read:
                raise EOFError
            start += read
        return data
