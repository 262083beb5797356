"""How many workers read data, and how far ahead: by measurement, an explicit value wins.

A batch is made a few times in the main process. Where that takes next to nothing beside a step
there are no workers: they cost memory, start-up and a copy of every batch. Else there are as many
as keep up with the device, as far as cores and memory go.
"""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils.data import IterableDataset

from anyrig.errors import DataLoadingError
from anyrig.training.loader import Loader, Options, StreamLoader
from anyrig.training.nests import bytes_of
from anyrig.training.reading import Collate, Reader, numbered
from anyrig.units import format_bytes, format_duration, pluralize

if TYPE_CHECKING:
    from anyrig.training.settings import Loading

_NOTHING = 0.05
"""The share of a step that a batch may take in the main process."""
_UNKNOWN_STEP_S = 0.05
_HEADROOM = 1.3
"""Workers' batches cost more than they did alone: they are copied, and cores are shared."""
_MEASURE_S = 1.0
_MEMORY_SHARE = 0.25
_PINNING = frozenset({"cuda", "xpu"})
_PREFETCH, _PREFETCH_UNEVEN = 2, 4
_UNEVEN = 3.0


@dataclass(frozen=True)
class Host:
    """What the host has for workers."""

    cores: float = 1.0
    free_bytes: int | None = None
    shared_bytes: int | None = None
    """Free in the memory file system that batches travel through."""
    forks: bool = True
    """Whether a worker begins as a copy of this process, and nothing must be pickled."""


class Cost(NamedTuple):
    """What a batch costs in the main process."""

    batch_s: float
    cpu_share: float
    """How much of that the CPU was at work; the rest was waiting for a disk or a network."""
    num_bytes: int
    uneven: bool
    """Whether some batches take much longer than others."""


class Plan(NamedTuple):
    """How data is read, and why."""

    num_workers: int
    pin_memory: bool
    prefetch_factor: int
    persistent_workers: bool
    reasons: tuple[str, ...]

    def options(self, seed: int = 0) -> Options:
        """As a loader takes them."""
        return Options(*self[:4], seed=seed)


class _Count(NamedTuple):
    num: int
    why: str


def plan(
    data: Any,
    collate: Collate | None,
    samples: Sequence[Sequence[int]],
    loading: Loading,
    device_type: str,
    step_s: float | None = None,
    *,
    batch: int = 0,
    num_processes: int = 1,
    host: Host | None = None,
) -> Plan:
    """How to read a data set.

    Args:
        data: items by number, or an iterable of items.
        collate: items to a batch; torch's when None.
        samples: the items of some batches; for an iterable its first ones are taken.
        loading: explicit values win.
        device_type: what computes: cuda, xpu, mps, cpu.
        step_s: how long a step takes without reading; None when nobody knows yet.
        batch: items in a batch of an iterable.
        num_processes: how many train on this host and share its cores.
        host: asked for when None.
    """
    host = host or host_now()
    host = replace(host, cores=host.cores / num_processes)
    cost: Cost | None = None
    if loading.num_workers == "auto":
        cost = _cost(data, collate, samples, batch)
        count = _auto(data, collate, cost, step_s, host, device_type)
    else:
        count = _Count(loading.num_workers, f"{pluralize(loading.num_workers, 'worker')}, as set")
    if not numbered(data):
        count = _for_iterable(data, count)
    pin, pin_why = _pin(loading, device_type)
    ahead = _ahead(loading, cost)
    if loading.num_workers == "auto":
        count = _within_memory(count, ahead, cost, data, host)
    stay = count.num > 0 if loading.persistent_workers == "auto" else loading.persistent_workers
    return Plan(count.num, pin, ahead, stay and count.num > 0, (count.why, pin_why))


# -- measuring -------------------------------------------------------------------------------------


def host_now() -> Host:
    """This host, as far as this process may use it."""
    import multiprocessing

    from anyrig.devices import cpu
    from anyrig.devices.probe import HostProbe, LiveProbe

    found = cpu.read_cpu(HostProbe(LiveProbe()))
    shared = None
    if os.path.isdir("/dev/shm"):
        space = os.statvfs("/dev/shm")
        shared = space.f_bavail * space.f_frsize
    forks = multiprocessing.get_start_method() == "fork"
    return Host(found.cores_usable, found.memory.free_bytes, shared, forks)


def _cost(
    data: Any, collate: Collate | None, samples: Sequence[Sequence[int]], batch: int
) -> Cost | None:
    """What the samples cost; None where they cannot be read, which the run says in its place."""
    if numbered(data):
        if not samples or Reader(data, collate, 0).at_once:
            return None
        return measure(iter(Loader(data, samples, collate)))
    if iter(data) is data:
        return None  # what is read to be measured would be gone
    return measure(iter(StreamLoader(data, max(1, batch), collate)))


def measure(batches: Iterable[Any]) -> Cost | None:
    """Time a few batches, about a second of them; the first is left out where there are more."""
    seconds: list[float] = []
    cpu: list[float] = []
    size = 0
    running, began = iter(batches), time.perf_counter()
    while not seconds or (time.perf_counter() - began < _MEASURE_S and len(seconds) < 8):
        wall, process = time.perf_counter(), time.process_time()
        try:
            batch = next(running)
        except (StopIteration, DataLoadingError):
            break
        seconds.append(time.perf_counter() - wall)
        cpu.append(time.process_time() - process)
        size = max(size, bytes_of(batch))
    if not seconds:
        return None
    warm = seconds[1:] or seconds
    batch_s = sum(warm) / len(warm)
    usual = sorted(warm)[len(warm) // 2]
    share = min(1.0, sum(cpu) / max(sum(seconds), 1e-9))
    return Cost(batch_s, share, size, max(warm) > _UNEVEN * usual)


# -- deciding --------------------------------------------------------------------------------------


def _auto(
    data: Any,
    collate: Collate | None,
    cost: Cost | None,
    step_s: float | None,
    host: Host,
    device_type: str,
) -> _Count:
    if cost is None:
        if numbered(data) and Reader(data, collate, 0).at_once:
            return _Count(0, "no workers: batches are cut out of tensors in memory")
        return _Count(0, "no workers: nothing could be measured")
    count = workers_for(cost, step_s, host.cores, device_type)
    if count.num and not host.forks and not _picklable(data, collate):
        return _Count(0, "no workers: the data set or collate cannot be pickled for them")
    return count


def workers_for(cost: Cost, step_s: float | None, cores: float, device_type: str) -> _Count:
    """How many workers keep up with a device, and why."""
    step = step_s or _UNKNOWN_STEP_S
    took = f"a batch takes {format_duration(cost.batch_s)}"
    beside = f"a step {format_duration(step)}" + ("" if step_s else " by guess")
    if cost.batch_s <= _NOTHING * step:
        return _Count(0, f"no workers: {took}, {beside}")
    if device_type == "cpu" and cost.cpu_share > 0.5:
        return _Count(0, f"no workers: {took} of the cores that train as well")
    needed = max(1, math.ceil(cost.batch_s * _HEADROOM / step))
    # The loop needs a core for itself. Workers that wait for a disk need none.
    most = max(1, math.floor((cores - 1) / max(cost.cpu_share, 0.25)))
    if needed <= most:
        return _Count(needed, f"{pluralize(needed, 'worker')}: {took}, {beside}")
    return _Count(
        most,
        f"{pluralize(most, 'worker')}: {took}, {beside}; {needed} would keep up, but there are "
        f"{pluralize(math.floor(cores), 'core')}",
    )


def _for_iterable(data: Any, count: _Count) -> _Count:
    if iter(data) is data and count.num:
        return _Count(0, "no workers: an iterator can only be read where it was made")
    if count.num > 1 and not isinstance(data, IterableDataset):
        return _Count(1, "1 worker: each further one would read the whole iterable again")
    return count


def _pin(loading: Loading, device_type: str) -> tuple[bool, str]:
    able = device_type in _PINNING
    if loading.pin_memory == "auto":
        if able:
            return True, f"pinned memory: {device_type} copies from it beside its work"
        return False, f"memory is not pinned: {device_type} gains nothing from it"
    if loading.pin_memory and not able:
        return False, f"memory is not pinned although requested: {device_type} cannot use it"
    return loading.pin_memory, f"memory is {'' if loading.pin_memory else 'not '}pinned, as set"


def _ahead(loading: Loading, cost: Cost | None) -> int:
    if loading.prefetch_factor != "auto":
        return loading.prefetch_factor
    return _PREFETCH_UNEVEN if cost is not None and cost.uneven else _PREFETCH


def _within_memory(count: _Count, ahead: int, cost: Cost | None, data: Any, host: Host) -> _Count:
    """Fewer workers where batches under way, or copies of the data set, do not fit."""
    if not count.num or cost is None:
        return count
    each = max(1, cost.num_bytes * (ahead + 1))
    limits = []
    if host.shared_bytes is not None:
        limits.append((host.shared_bytes // each, "shared memory", host.shared_bytes))
    if host.free_bytes is not None:
        # Counting references writes to every object, so a forked copy does not stay shared.
        room = int(host.free_bytes * _MEMORY_SHARE)
        limits.append((room // (each + objects_bytes(data)), "memory", host.free_bytes))
    for most, what, free in limits:
        if most < count.num:
            why = f"{format_bytes(free)} of {what} are free"
            said = pluralize(most, "worker") if most else "no workers"
            count = _Count(int(most), f"{said} instead of {count.num}: {why}")
    return count


def objects_bytes(data: Any) -> int:
    """About what a data set's lists and mappings of Python objects take; arrays stay shared."""
    held = list(vars(data).values()) if hasattr(data, "__dict__") else [data]
    return sum(_container_bytes(value) for value in held)


def _container_bytes(value: Any) -> int:
    import sys

    if not isinstance(value, (list, tuple, dict, set)) or not value:
        return 0
    some = [one for one, _ in zip(_members(value), range(100), strict=False)]
    each = sum(sys.getsizeof(one) for one in some) / len(some)
    return sys.getsizeof(value) + int(each * len(value))


def _members(value: Any) -> Iterator[Any]:
    return iter(value.values()) if isinstance(value, dict) else iter(value)


def _picklable(data: Any, collate: Collate | None) -> bool:
    try:
        pickle.dumps((data, collate))
    except Exception:  # noqa: BLE001  # anything may be wrong with anybody's objects
        return False
    return True
