"""Models that are loaded: one cache per process, shared by everything that runs in it.

    with rig.models.borrow("embeddings minilm", lambda: open_embedder(...)) as embedder:
        ...

A model that is borrowed is never closed; one that nobody borrows is closed when it was idle for too
long, and the longest idle one first when memory is short. A model whose work is done by worker
processes shows them: it is a `ModelQueue`, has one as `live`, or lists its `pools()`. A worker may
run models in processes of its own, as a document worker does: each of these is evicted by itself.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar, cast, get_args

from anyrig.errors import (
    AnyrigError,
    OutOfMemoryError,
    OverloadedError,
    WorkError,
    error_from_dict,
    error_to_dict,
    is_disk_full,
    to_disk_full_error,
)
from anyrig.units import GIB, MIB, format_bytes
from anyrig.work.outcome import RunReport
from anyrig.work.protocol import NestedModel, WorkerStatus

if TYPE_CHECKING:
    from anyrig.monitor import MachineSnapshot
    from anyrig.work.live import Lane
    from anyrig.work.pool import WorkerPool

log = logging.getLogger(__name__)
M = TypeVar("M")
EvictionReason = Literal["idle", "memory", "broken", "renewed"]
MAX_WORKER_MODELS = 8
"""`max_models` of a worker process."""
_NESTED_UNLOAD_S = 5.0
"""How long a model of a worker may take to close; its worker reports it at once."""
_FREE_SHARE = 0.05


class ModelQueue(Protocol):
    """Where a model's items wait and run, such as a `LiveQueue`. Reading it takes no time."""

    report: RunReport

    @property
    def is_open(self) -> bool:
        """Whether it accepts items; not after its workers failed for good."""

    @property
    def running(self) -> int:
        """Items that a worker has."""

    def waiting(self, lane: Lane) -> int:
        """Items that wait."""

    def workers(self) -> Sequence[WorkerStatus]:
        """Its processes as last seen."""


class LoadedModel(NamedTuple):
    name: str
    model: Any
    num_borrowers: int
    idle_s: float


class LowMemory(NamedTuple):
    device: str
    """Id of the device; empty for the host."""
    message: str


@dataclass
class ModelCacheStats:
    """What a cache did since it was made."""

    loads: int = 0
    load_s: float = 0.0
    failures: int = 0
    evictions: dict[EvictionReason, int] = field(
        default_factory=lambda: dict.fromkeys(get_args(EvictionReason), 0)
    )
    out_of_memory: int = 0
    """Attempts to load a model that ran out of memory, whether another one succeeded or not."""


@dataclass(eq=False)
class _Entry:
    name: str
    version: str
    client: str = ""
    counted: bool = True
    model: Any = None
    stack: ExitStack | None = None
    """Closes the model; None while it is not loaded."""
    loading: Future[None] | None = None
    num_borrowers: int = 0
    loaded_at: float = 0.0
    last_used: float = 0.0
    discarded: EvictionReason | None = None
    """Why nobody new may borrow it."""


class _EvictionCandidate(NamedTuple):
    """Something that could be evicted."""

    entry: _Entry
    nested: str
    """A model of the entry's workers; the entry itself if empty."""
    last_used: float
    devices: frozenset[str]

    @property
    def name(self) -> str:
        return format_nested_name(self.entry.name, self.nested) if self.nested else self.entry.name


class ModelCache:
    """Loads models and shares them.

    Args:
        idle_s: `evict_idle` closes what was not borrowed for so long; 0 never does.
        max_models: when so many models with worker processes are loaded, the longest idle one is
            closed for another. Of those without, `evict_idle` closes the longest idle ones above
            the limit. 0 is no limit.
        refuse: whether `OverloadedError` is raised if all of the `max_models` are borrowed; else
            another one is loaded.
        client_share: how much of `max_models` one client may have loaded.
        keep: whether models stay loaded; otherwise each borrower opens its own.
        shared: whether one model has to serve any request, as in a server; otherwise it may be
            fitted to the request that loads it.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        idle_s: float = 0.0,
        max_models: int = 0,
        refuse: bool = False,
        client_share: float = 1.0,
        keep: bool = True,
        shared: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle_s, self._max_models, self._clock = idle_s, max_models, clock
        self._refuse = refuse
        self._max_client_models = max(1, int(client_share * max_models))
        self.keep, self.shared = keep, keep and shared
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._discarded: list[_Entry] = []
        """Closed once nobody borrows them."""
        self._closed = False
        self.stats = ModelCacheStats()
        self.find_low_memory: Callable[[], Collection[LowMemory]] = tuple
        """Tells which memory is short; set by whoever samples it, see `MemoryWatch`."""

    @contextmanager
    def borrow(
        self,
        name: str,
        load: Callable[[], AbstractContextManager[M]],
        *,
        version: str = "",
        exclusive: bool = False,
        client: str = "",
        counted: bool = True,
    ) -> Iterator[M]:
        """A model, loaded unless it is. Loading blocks: call it in a thread; returning it does not.

        Whoever comes first loads it; others wait, and get an error of their own if that fails. The
        next one tries again. A model whose queue accepts nothing any more is loaded again.

        Args:
            name: for people: `/health` shows it.
            load: opens the model; its context is left when the model is evicted.
            version: a model of the same name and another version is replaced.
            exclusive: for one borrower at a time: while it is borrowed, another one opens its own,
                which is closed after use.
            client: for whom it is loaded; without one, only the limit of all applies.
            counted: whether it is one of the `max_models`; not one that has no worker processes,
                or that everybody needs.
        """
        entry = None
        if self.keep:
            new = _Entry(name, version, client, counted)
            entry = self._acquire(new, load, exclusive=exclusive)
        if entry is None:
            with load() as model:
                yield model
            return
        try:
            yield cast("M", entry.model)
        finally:
            with self._lock:
                entry.num_borrowers -= 1
                entry.last_used = self._clock()

    def loaded_models(self) -> list[LoadedModel]:
        """Those that are loaded, by name; asks no worker."""
        now = self._clock()
        with self._lock:
            loaded = [
                LoadedModel(e.name, e.model, e.num_borrowers,
                            0.0 if e.num_borrowers else max(0.0, now - e.last_used))
                for e in self._entries.values() if e.stack is not None
            ]  # fmt: skip
        return sorted(loaded, key=lambda one: one.name)

    def nested_models(self) -> tuple[NestedModel, ...]:
        """Those that have worker processes, as the engine of a worker process reports them."""
        with self._lock:
            entries = [(e, e.num_borrowers > 0) for e in self._entries.values() if e.stack]
        models = (_describe_nested(entry, busy) for entry, busy in entries)
        return tuple(one for one in models if one.workers)

    # -- eviction ----------------------------------------------------------------------------------

    def evict_idle(self) -> list[str]:
        """Close what is broken, idle or above the limit, and one more for each memory that is
        short; their names. Closing blocks: call it in a thread.
        """
        for one in self.loaded_models():
            if _is_broken(one.model):
                self.discard(one.name, one.model)
        evicted = self._close_discarded()
        if self._idle_s:
            before = self._clock() - self._idle_s
            # Whole entries first: the models of a worker are closed with it.
            for candidate in sorted(self._list_candidates(), key=lambda one: bool(one.nested)):
                if candidate.last_used < before and self._evict(candidate, "idle"):
                    evicted.append(candidate.name)
        return [*evicted, *self._evict_above_limit(), *self._evict_for_memory()]

    def evict_in_background(self, interval_s: float) -> None:
        """Call `evict_idle` again and again in a thread, for as long as this cache is in use."""
        reference = weakref.ref(self)

        def evict() -> None:
            while (cache := reference()) is not None and not cache._closed:
                cache.evict_idle()
                del cache  # else it would never be collected
                time.sleep(interval_s)

        threading.Thread(target=evict, name="anyrig-evict", daemon=True).start()

    def free_memory(self, devices: Collection[str] = ()) -> str:
        """Close the model that was idle for longest, on any of some devices if these are given; its
        name, or "" if there is none.
        """
        if closed := self._close_discarded():
            return closed[0]
        for one in self._list_candidates():
            if (not devices or one.devices & set(devices)) and self._evict(one, "memory"):
                return one.name
        return ""

    def unload(self, name: str) -> None:
        """Close a model unless somebody borrows it, from any thread."""
        entry = self._entries.get(name)
        if entry is not None:
            self._close_entry(entry, "memory")

    def discard(self, name: str, model: object) -> None:
        """Have a broken model loaded again by the next borrower, unless that was done. It is closed
        by the next `evict_idle` after its last borrower returned it.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.stack is not None and entry.model is model:
                self._discard(entry, "broken")

    def reload_all(self) -> list[str]:
        """Have every model loaded again by its next borrower, perhaps on another device; their
        names.
        """
        with self._lock:
            entries = list(self._entries.values())
            for entry in entries:
                self._discard(entry, "renewed")
        return [entry.name for entry in entries]

    def close(self) -> None:
        """Close every model, borrowed or not; nothing can be borrowed afterwards."""
        with self._lock:
            self._closed = True
            entries = [*self._entries.values(), *self._discarded]
            stacks = [(entry.name, _take_stack(entry)) for entry in entries]
            self._entries.clear()
            self._discarded.clear()
        for name, stack in stacks:
            _close_model(name, stack)

    def __enter__(self) -> ModelCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- loading -----------------------------------------------------------------------------------

    def _acquire(
        self, new: _Entry, load: Callable[[], AbstractContextManager[Any]], *, exclusive: bool
    ) -> _Entry | None:
        """The entry of a model that is loaded; None if it is exclusive and another has it."""
        while True:
            with self._lock:
                if self._closed:
                    raise _closed_error()
                entry = self._get_entry(new)
                if exclusive and (entry.num_borrowers or entry.loading is not None):
                    return None
                if entry.stack is not None:
                    entry.num_borrowers += 1
                    return entry
                others = entry.loading
                if others is None:
                    own: Future[None] = Future()
                    entry.loading = own
            if others is None:
                self._close_discarded()
                self._load(entry, own, load)
                return entry
            error = others.exception()
            if error is not None:
                raise _copy_error(error)
            # Loaded, unless it was evicted meanwhile: then it is loaded once more.

    def _get_entry(self, new: _Entry) -> _Entry:
        """The entry of a model, or the new one in place of a broken or outdated one; locked."""
        entry = self._entries.get(new.name)
        outdated = entry is not None and entry.version != new.version
        if entry is not None and (outdated or _is_broken(entry.model)):
            self._discard(entry, "renewed" if outdated else "broken")
            entry = None
        if entry is None:
            self._make_room(new)
            entry = self._entries[new.name] = new
        return entry

    def _make_room(self, new: _Entry) -> None:
        """Discard the longest idle models above the limits, or raise an error; under the lock."""
        if not self._max_models or not new.counted:
            return
        while True:
            counted = [e for e in self._entries.values() if e.counted and _may_have_workers(e)]
            own = [e for e in counted if new.client and e.client == new.client]
            if len(own) >= self._max_client_models:
                some, limit, whose = own, self._max_client_models, "of this client "
            elif len(counted) >= self._max_models:
                some, limit, whose = counted, self._max_models, ""
            else:
                return
            idle = [e for e in some if e.stack is not None and not e.num_borrowers]
            if not idle and not self._refuse:
                return
            if not idle:
                raise OverloadedError(
                    f"{len(some)} models {whose}are in use; the limit is {limit}",
                    hint="Try again when one of them is free; or raise server.max_models.",
                )
            self._discard(min(idle, key=lambda e: e.last_used), "memory")

    def _load(
        self, entry: _Entry, done: Future[None], load: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        began = self._clock()
        try:
            model, stack = self._open(load)
        except BaseException as error:
            with self._lock:
                entry.loading = None
                self.stats.failures += 1
                if self._entries.get(entry.name) is entry:
                    del self._entries[entry.name]
            done.set_exception(error)
            raise
        with self._lock:
            too_late, entry.loading = self._closed, None
            if not too_late:
                entry.model, entry.stack = model, stack
                entry.num_borrowers += 1
                entry.loaded_at = entry.last_used = self._clock()
                if entry.discarded:  # while it was loading
                    self._discarded.append(entry)
                self.stats.loads += 1
                self.stats.load_s += entry.loaded_at - began
        done.set_result(None)
        if too_late:
            _close_model(entry.name, stack)
            raise _closed_error()
        log.info("loaded: %s", entry.name)

    def _open(self, load: Callable[[], AbstractContextManager[Any]]) -> tuple[Any, ExitStack]:
        """Load a model; where memory does not suffice, evict others and try again."""
        self._evict_for_memory()
        while True:
            try:
                with ExitStack() as stack:
                    model = stack.enter_context(load())
                    return model, stack.pop_all()
            except OutOfMemoryError as error:
                with self._lock:
                    self.stats.out_of_memory += 1
                # A model on another device than the full one would be closed in vain.
                name = self.free_memory(error.devices)
                if not name:
                    raise
                log.info("evicted %s to load another model: %s", name, error.message)

    # -- closing -----------------------------------------------------------------------------------

    def _evict_for_memory(self) -> list[str]:
        evicted = []
        for low in self.find_low_memory():
            if name := self.free_memory((low.device,) if low.device else ()):
                log.info("evicted %s: %s", name, low.message)
                evicted.append(name)
        return evicted

    def _evict_above_limit(self) -> list[str]:
        """Counted apart: what costs nothing must not take the place of a model with workers."""
        if not self._max_models:
            return []
        with self._lock:
            entries = [entry for entry in self._entries.values() if entry.stack is not None]
        evicted = []
        for has_workers in (True, False):
            some = [e for e in entries if bool(list_workers(e.model)) == has_workers]
            some.sort(key=lambda entry: entry.last_used)
            for entry in some[: max(0, len(some) - self._max_models)]:
                if self._close_entry(entry, "memory"):
                    evicted.append(entry.name)
        return evicted

    def _list_candidates(self) -> list[_EvictionCandidate]:
        """What could be evicted, the longest idle first."""
        with self._lock:
            entries = [(e, e.model, e.num_borrowers, e.last_used)
                       for e in self._entries.values() if e.stack is not None]  # fmt: skip
        candidates = []
        for entry, model, num_borrowers, last_used in entries:
            candidates += [_EvictionCandidate(entry, one.name, one.used, _list_devices(one.workers))
                           for one in _list_nested(model) if not one.busy]  # fmt: skip
            if not num_borrowers:
                devices = _list_devices(list_workers(model))
                candidates.append(_EvictionCandidate(entry, "", last_used, devices))
        return sorted(candidates, key=lambda one: one.last_used)

    def _evict(self, candidate: _EvictionCandidate, reason: EvictionReason) -> bool:
        """Close a model, or have a worker close one of its own; False if it is in use by now."""
        if not candidate.nested:
            return self._close_entry(candidate.entry, reason)
        model = candidate.entry.model
        unload = getattr(find_queue(model), "unload_model", None)
        if unload is None:
            return False
        unload(candidate.nested)
        end = time.monotonic() + _NESTED_UNLOAD_S
        while left := [one for one in _list_nested(model) if one.name == candidate.nested]:
            if left[0].busy or time.monotonic() > end:
                return False
            time.sleep(0.05)
        with self._lock:
            self.stats.evictions[reason] += 1
        log.info("unloaded: %s (%s)", candidate.name, reason)
        return True

    def _close_entry(self, entry: _Entry, reason: EvictionReason) -> bool:
        """Close a model unless somebody borrows it."""
        with self._lock:
            current = self._entries.get(entry.name) is entry
            if entry.num_borrowers or entry.stack is None or not (current or entry.discarded):
                return False
            stack = _take_stack(entry)
            if current:
                del self._entries[entry.name]
            else:
                self._discarded.remove(entry)
            self.stats.evictions[reason] += 1
        log.info("unloaded: %s (%s)", entry.name, reason)
        _close_model(entry.name, stack)
        return True

    def _discard(self, entry: _Entry, reason: EvictionReason) -> None:
        """Let nobody new borrow it; under the lock."""
        del self._entries[entry.name]
        entry.discarded = reason
        if entry.stack is not None:  # else once it is loaded
            self._discarded.append(entry)

    def _close_discarded(self) -> list[str]:
        with self._lock:
            free = [entry for entry in self._discarded if not entry.num_borrowers]
        return [one.name for one in free if self._close_entry(one, one.discarded or "broken")]


def _may_have_workers(entry: _Entry) -> bool:
    """Whether a model has worker processes, or is loading."""
    return entry.stack is None or bool(list_workers(entry.model))


def _is_broken(model: object) -> bool:
    queue = find_queue(model)
    return queue is not None and not queue.is_open


def _take_stack(entry: _Entry) -> ExitStack | None:
    """Under the lock: from now on the entry has no model."""
    stack, entry.stack, entry.model = entry.stack, None, None
    return stack


def _close_model(name: str, stack: ExitStack | None) -> None:
    try:
        if stack is not None:
            stack.close()
    except Exception:
        log.exception("closing %s failed", name)


def _closed_error() -> WorkError:
    return WorkError("shutting down", hint="Try again after the restart.")


def _copy_error(error: BaseException) -> AnyrigError:
    """An error of its own for each who waited."""
    if is_disk_full(error):
        return to_disk_full_error(error)
    if isinstance(error, AnyrigError):
        return error_from_dict(error_to_dict(error))
    return WorkError(f"{type(error).__name__}: {error}", hint="See the log for details.")


# -- what a model shows of its workers -------------------------------------------------------------


def find_queue(model: object) -> ModelQueue | None:
    """Where a model's items wait, if it shows that."""
    queue = getattr(model, "live", model)
    return cast("ModelQueue", queue) if hasattr(queue, "waiting") else None


def list_workers(model: object) -> Sequence[WorkerStatus]:
    """A model's worker processes as last seen; none if it runs in this process."""
    queue = find_queue(model)
    if queue is not None:
        return queue.workers()
    return [worker for pool in _list_pools(model) for worker in pool.workers()]


def list_all_workers(name: str, model: object) -> list[tuple[str, WorkerStatus]]:
    """A model's workers and the workers of these, each with the name of what it runs."""
    found: list[tuple[str, WorkerStatus]] = []
    for worker in list_workers(model):
        found.append((name, worker))
        for nested in worker.nested_models:
            found += [(format_nested_name(name, nested.name), one) for one in nested.workers]
    return found


def format_nested_name(name: str, nested: str) -> str:
    """The name of a model that another model's workers run."""
    return f"{name}: {nested}"


def _list_pools(model: object) -> tuple[WorkerPool, ...]:
    list_pools = getattr(model, "pools", None)
    return tuple(list_pools()) if callable(list_pools) else ()


def _list_nested(model: object) -> list[NestedModel]:
    return [nested for worker in list_workers(model) for nested in worker.nested_models]


def _list_devices(workers: Iterable[WorkerStatus]) -> frozenset[str]:
    return frozenset(worker.device for worker in workers if worker.state != "dead")


def _describe_nested(entry: _Entry, busy: bool) -> NestedModel:
    total = RunReport()
    for pool in _list_pools(entry.model):
        total.merge(pool.total)
    return NestedModel(
        entry.name, entry.loaded_at, entry.last_used, busy, tuple(list_workers(entry.model)),
        total.num_batches, total.num_items, total.busy_s, total.num_out_of_memory,
    )  # fmt: skip


# -- memory ----------------------------------------------------------------------------------------


class MemoryWatch:
    """Tells which memory is short, of the host or of a device.

    Args:
        latest: the last samples of every device.
        free_mb: what should stay free of each; 0 is a twentieth, at most 1 GiB.
    """

    def __init__(self, latest: Callable[[], MachineSnapshot | None], free_mb: float = 0.0) -> None:
        self._latest, self._free_mb = latest, free_mb
        self._reported: float | None = None
        """Time of the last sample by which memory was short. It counts once: what an eviction frees
        shows only in the next sample."""

    def __call__(self) -> list[LowMemory]:
        """GPUs come first: what is evicted there frees memory of the host as well."""
        snapshot = self._latest()
        if snapshot is None or snapshot.monotonic_s == self._reported:
            return []
        host = snapshot.host
        rows = [(one.device, one.name, one.memory_total_bytes, one.memory_free_bytes)
                for one in snapshot.devices[:-1] if not one.lost]  # fmt: skip
        rows.append(("", "the host", host.memory_total_bytes, host.memory_available_bytes))
        found = []
        for device, name, total, free in rows:
            floor = self._free_mb * MIB or min(_FREE_SHARE * (total or 0), GIB)
            if total and free is not None and free < floor:
                found.append(LowMemory(device, f"{format_bytes(free)} of memory left on {name}"))
        if found:
            self._reported = snapshot.monotonic_s
        return found
