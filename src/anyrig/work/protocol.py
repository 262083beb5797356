"""What workers and their pool agree on: engines, messages over a pipe, errors between processes.

Messages are pickles with their length before them. Both ends are ours and one started the other, so
pickles are safe here: nothing else can write to the pipe.
"""

from __future__ import annotations

import importlib
import pickle
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from anyrig import errors
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    WorkError,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.work.batching import BatchBudget
from anyrig.work.outcome import BatchStats, ItemFailure

if TYPE_CHECKING:
    from anyrig.backends import DeviceHandle
    from anyrig.devices.machine import DeviceKind
    from anyrig.placement import Placement

# -- engines ------------------------------------------------------------------------------------


class Engine(Protocol):
    """Turns a batch of items into as many results."""

    name: str
    version: str
    pads: bool
    """Whether every item of a batch is padded to the longest."""
    batch_invariant: bool
    """Whether an item's result is the same bytes in any batch."""
    max_items: int
    """In one call."""
    memory_options: Sequence[str]
    """Command line options that need less memory, for errors."""
    handle: DeviceHandle | None
    """The device, to synchronise with and to free memory of; None if there is nothing to do."""

    def run(self, batch: Sequence[Any]) -> Sequence[Any]:
        """A result for each item, in order."""


class BaseEngine:
    """Defaults of an engine: a subclass need only define `run`.

    An engine that keeps several models may also define `loaded_models()` (their names),
    `nested_models()` (a `NestedModel` for each that runs in processes of its own) and
    `unload_model(name)`.
    """

    name = "engine"
    version = "0"
    pads = True
    batch_invariant = False
    max_items = 1 << 30
    first_batch_cost = 0.0
    """Cost of the first batch; 0 starts with one item."""
    memory_options: Sequence[str] = ()
    handle: DeviceHandle | None = None

    def __init__(self, placement: Placement) -> None:
        pass


@dataclass(frozen=True)
class EngineFactory:
    """How a worker makes its engine."""

    target: str
    """`module:name` of something that takes a placement and the options."""
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    """Name and version under which batch sizes are remembered; `target` if empty."""
    version: str = ""


def load_engine(target: str, placement: Placement, options: Mapping[str, Any]) -> Engine:
    module_name, _, name = target.partition(":")
    try:
        made: Any = importlib.import_module(module_name)
        for part in name.split("."):
            made = getattr(made, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"cannot import engine {target}: {error}",
            hint="Use `module:name`, importable by a new process; not a name of `__main__`.",
        ) from error
    engine = made(placement, **options)
    missing = [name for name in (*Engine.__annotations__, "run") if not hasattr(engine, name)]
    if missing:
        raise InvalidInputError(
            f"{target} is not an engine: missing {', '.join(missing)}",
            hint="Inherit from `anyrig.work.protocol.BaseEngine`; `Engine` documents each name.",
        )
    return cast(Engine, engine)


# -- errors between processes -------------------------------------------------------------------


def error_to_dict(error: AnyrigError) -> dict[str, str]:
    """An error as plain JSON; a class of another module is sent as its nearest base in `errors`."""
    if is_disk_full(error):  # its cause is not sent along
        error = to_disk_full_error(error)
    name = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    return {"class": name, "message": error.message, "hint": error.hint}


def error_from_dict(plain: Mapping[str, str]) -> AnyrigError:
    kind = getattr(errors, plain["class"], WorkError)
    return cast("AnyrigError", kind(plain["message"], hint=plain["hint"]))


# -- what is known of a worker ------------------------------------------------------------------


class WorkerStatus(NamedTuple):
    """A worker as last seen, for health checks. Times are of the monotonic clock."""

    pid: int
    device: str
    """Device id."""
    kind: DeviceKind
    word: str
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

HEARTBEAT_S = 2.0


class BatchSizes(NamedTuple):
    """What earlier runs found out about batch sizes."""

    start: float = 0.0
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
    items: tuple[tuple[int, bytes, float], ...]
    """Index, pickled payload and cost; pickled one by one, so that a bad one spoils no other."""


class CancelItems(NamedTuple):
    """These are done elsewhere: skip those that have not started."""

    indices: tuple[int, ...]


class UnloadModel(NamedTuple):
    """Close one of several models, unless the current task uses it."""

    name: str


# -- messages from a worker ---------------------------------------------------------------------


class EngineReady(NamedTuple):
    seconds: float


class LoadFailed(NamedTuple):
    error: dict[str, str]
    """From `error_to_dict`."""
    on_host: bool = False
    """Whether the host ran out of memory, not the device."""


class Heartbeat(NamedTuple):
    models: tuple[str, ...]
    nested_models: tuple[NestedModel, ...] = ()


class ItemsStarted(NamedTuple):
    """It computes these now. If it dies, one of them may be the cause."""

    indices: tuple[int, ...]


class BatchDone(NamedTuple):
    """Results of one batch, and of the parts it may have been split into."""

    results: tuple[tuple[int, Any], ...]
    """Index and result; over the pipe, each result is pickled on its own."""
    failures: tuple[tuple[int, ItemFailure], ...]
    started: tuple[int, ...]
    """What it computes next."""
    stats: BatchStats
    budget: BatchBudget = BatchBudget(0.0, 1)
    """Of its next batch."""
    sizes: BatchSizes = BatchSizes()
    """What it has learnt about batch sizes."""


class ItemsCancelled(NamedTuple):
    """These will not come from it."""

    indices: tuple[int, ...]


class ItemsReturned(NamedTuple):
    """It gives these back unfinished, through no fault of theirs."""

    indices: tuple[int, ...]


class Draining(NamedTuple):
    """It finishes what it has and takes nothing new."""


class DeviceLost(NamedTuple):
    """Its device is lost, and so is the worker."""

    reason: str


class WorkerExited(NamedTuple):
    """Not sent but observed: its process has ended."""

    reason: str


class WorkerEvent(NamedTuple):
    """A message, and the number of the worker it is from."""

    number: int
    message: Any


# -- the pipe -----------------------------------------------------------------------------------

_LENGTH = struct.Struct("<Q")
PICKLE_ERRORS = (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError)
"""Raised for a lambda, an open file, a local class, a very deep list."""


def pickle_value(value: Any) -> bytes:
    """Raises one of `PICKLE_ERRORS` if the value cannot be pickled."""
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def encode_message(message: Any) -> bytes:
    data = pickle_value(message)
    return _LENGTH.pack(len(data)) + data


class Connection:
    """One end of a pair of pipes. Sending is safe from several threads."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._reading, self._writing = reading, writing
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        """Raises `OSError` if the reader is gone."""
        self.write(encode_message(message))

    def write(self, data: bytes) -> None:
        """Send an encoded message."""
        with self._lock:
            self._writing.write(data)
            self._writing.flush()

    def receive(self) -> Any:
        """The next message; raises `EOFError` if the other end is gone."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(length))

    def _read(self, count: int) -> bytes:
        data = self._reading.read(count)
        if data is None or len(data) < count:
            raise EOFError
        return data
