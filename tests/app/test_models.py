"""The model cache: what is borrowed is never closed, what is idle is, failures are reported."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyrig.app.models import LowMemory, MemoryWatch, ModelCache
from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import (
    DeviceLostError,
    InvalidInputError,
    OutOfMemoryError,
    OverloadedError,
    WorkError,
)
from anyrig.monitor.sample import DeviceSample, HostSample, MachineSnapshot
from anyrig.placement import Placement
from anyrig.units import GIB
from anyrig.work.engine import EngineFactory
from anyrig.work.live import LiveQueue
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Thing:
    """A model that knows whether it was closed while somebody used it."""

    def __init__(self, name: str = "") -> None:
        self.name, self.closed, self.users = name, 0, 0
        self.lock = threading.Lock()
        self.wrong: list[str] = []

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        with self.lock:
            self.users += 1
            if self.closed:
                self.wrong.append("borrowed after it was closed")
        yield
        with self.lock:
            self.users -= 1
            if self.closed:
                self.wrong.append("closed while it was borrowed")

    def __enter__(self) -> Thing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self.lock:
            self.closed += 1
            if self.users:
                self.wrong.append("closed while it was borrowed")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Iterator[ModelCache]:
    made = ModelCache(idle_s=10.0, clock=clock)
    yield made
    made.close()


def names(cache: ModelCache) -> list[str]:
    return [one.name for one in cache.loaded_models()]


def use(cache: ModelCache, name: str) -> Thing:
    with cache.borrow(name, lambda: Thing(name)) as thing:
        return thing


def test_a_model_is_loaded_once_and_closed_when_idle(cache: ModelCache, clock: Clock) -> None:
    first = use(cache, "a")
    assert use(cache, "a") is first
    assert names(cache) == ["a"]
    clock.now += 9
    assert cache.evict_idle() == []
    clock.now += 2
    assert cache.evict_idle() == ["a"]
    assert first.closed == 1
    assert use(cache, "a") is not first
    assert (cache.stats.loads, cache.stats.evictions["idle"]) == (2, 1)


def test_everybody_who_waits_hears_of_a_failure_and_the_next_tries_again(cache: ModelCache) -> None:
    begun, go = threading.Event(), threading.Event()
    loads = []

    def load() -> Thing:
        loads.append(1)
        begun.set()
        assert go.wait(60)
        raise InvalidInputError("no such voice", hint="Take another.")

    def ask() -> None:
        with cache.borrow("a", load):
            pytest.fail("nothing was loaded")

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask)]
        assert begun.wait(60)
        asked += [threads.submit(ask) for _ in range(5)]
        waiting(cache, "a", 5)
        go.set()
        errors = [one.exception(60) for one in asked]
    assert [str(error) for error in errors] == ["no such voice"] * 6
    assert all(isinstance(error, InvalidInputError) for error in errors)
    assert len({id(error) for error in errors}) == 6
    assert len(loads) == 1
    assert names(cache) == []
    assert use(cache, "a").closed == 0


def waiting(cache: ModelCache, name: str, count: int) -> None:
    """Until so many wait for a load: seen by those that its future has."""
    import time

    end = time.monotonic() + 60
    while time.monotonic() < end:
        slot = cache._entries[name]
        assert slot.loading is not None
        with slot.loading._condition:
            there = len(slot.loading._condition._waiters)  # type: ignore[attr-defined]
        if there >= count:
            return
        time.sleep(0.01)
    pytest.fail("nobody waits")


def test_a_load_without_memory_unloads_others_and_tries_again(
    cache: ModelCache, clock: Clock
) -> None:
    for name in ("a", "b", "c"):
        use(cache, name)
        clock.now += 1

    def load() -> Thing:
        if len(names(cache)) > 1:
            raise OutOfMemoryError("the GPU is full", hint="Take a smaller model.")
        return Thing("d")

    with cache.borrow("d", load):
        assert names(cache) == ["c", "d"]
    assert cache.stats.out_of_memory == 2
    assert cache.stats.evictions["memory"] == 2


def test_a_load_that_never_fits_says_so_once_nothing_is_left_to_unload(cache: ModelCache) -> None:
    use(cache, "a")

    def load() -> Thing:
        raise OutOfMemoryError("the GPU is full", hint="Take a smaller model.")

    with pytest.raises(OutOfMemoryError), cache.borrow("b", load):
        pass
    assert names(cache) == []


def test_one_that_broke_is_closed_after_the_last_who_has_it(cache: ModelCache) -> None:
    with cache.borrow("a", Thing) as broken:
        cache.discard("a", broken)
        with cache.borrow("a", Thing) as fresh:
            assert fresh is not broken
        assert cache.evict_idle() == []
        assert broken.closed == 0
        cache.discard("a", broken)  # another has taken its place
        assert names(cache) == ["a"]
    assert cache.evict_idle() == ["a"]
    assert (broken.closed, fresh.closed) == (1, 0)


def test_a_closed_keeper_lends_nothing(cache: ModelCache) -> None:
    thing = use(cache, "a")
    cache.close()
    assert thing.closed == 1
    with pytest.raises(WorkError, match="shutting down"), cache.borrow("a", Thing):
        pass


def test_what_is_loaded_too_late_is_closed() -> None:
    cache = ModelCache()
    late = Thing()

    def load() -> Thing:
        cache.close()
        return late

    with pytest.raises(WorkError, match="shutting down"), cache.borrow("a", load):
        pass
    assert late.closed == 1


def test_one_that_does_not_close_well_hinders_no_other(cache: ModelCache) -> None:
    class Bad(Thing):
        def close(self) -> None:
            raise RuntimeError("the driver is gone")

    with cache.borrow("a", Bad):
        pass
    thing = use(cache, "b")
    cache.close()
    assert thing.closed == 1


def test_a_counter_that_fails_as_a_whole_is_swept_out(cache: ModelCache) -> None:
    """The real thing: a pool whose device dies for good."""
    backend = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
    place = Placement(Device("one", "cpu", "test", "one"), backend)

    def load() -> LiveQueue[float, float]:
        recipe = EngineFactory("anyrig.work.fake:FakeEngine", {"broken_devices": ["one"]})
        return LiveQueue(
            WorkerPool(LocalWorkers([place], recipe, environment=os.environ)), cost=float
        )

    with cache.borrow("a", load) as live:
        futures = [live.submit(0.001) for _ in range(40)]
        errors = [one.exception(120) for one in futures]
        assert all(isinstance(error, (DeviceLostError, WorkError)) for error in errors)
        assert not live.is_open
    assert cache.evict_idle() == ["a"]
    assert cache.stats.evictions["broken"] == 1


# -- under threads ---------------------------------------------------------------------------------


class Crowd:
    """Does at random what a server's threads do."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cache = ModelCache(idle_s=5.0, clock=self.clock)
        self.made: list[Thing] = []

    def act(self, seed: int) -> None:
        dice = random.Random(seed)
        for _ in range(60):
            what, name = dice.random(), dice.choice("abc")
            self.clock.now += dice.random()
            if what < 0.7:
                with contextlib.suppress(OutOfMemoryError, InvalidInputError):
                    self.borrow(name, dice)
            elif what < 0.85:
                self.cache.evict_idle()
            elif what < 0.97:
                self.cache.free_memory()
            else:
                self.cache.reload_all()

    def borrow(self, name: str, dice: random.Random) -> None:
        def load() -> Thing:
            if dice.random() < 0.05:
                raise OutOfMemoryError("full", hint="-")
            if dice.random() < 0.05:
                raise InvalidInputError("no", hint="-")
            self.made.append(Thing(name))
            return self.made[-1]

        with self.cache.borrow(name, load) as thing, thing.used():
            assert thing.name == name
            if dice.random() < 0.1:
                self.cache.discard(name, thing)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), num_threads=st.integers(2, 8))
def test_whatever_many_threads_do_nothing_is_closed_that_somebody_has(
    seed: int, num_threads: int
) -> None:
    crowd = Crowd()
    with ThreadPoolExecutor(num_threads) as threads:
        for done in [threads.submit(crowd.act, seed + number) for number in range(num_threads)]:
            done.result()
    loaded = crowd.cache.loaded_models()
    assert all(one.num_borrowers == 0 for one in loaded)
    assert len({one.name for one in loaded}) == len(loaded)
    crowd.cache.close()
    assert [thing.wrong for thing in crowd.made if thing.wrong] == []
    assert {thing.closed for thing in crowd.made} <= {1}
    assert crowd.cache.stats.loads == len(crowd.made)


# -- memory ----------------------------------------------------------------------------------------


def snapshot(moment: float, host_free: int, gpu_free: int) -> MachineSnapshot:
    host = HostSample(moment, 0.0, memory_total_bytes=16 * GIB, memory_available_bytes=host_free)
    gpu = DeviceSample("gpu-1", "GPU", moment, 0.0, memory_total_bytes=24 * GIB,
                 memory_used_bytes=24 * GIB - gpu_free)  # fmt: skip
    return MachineSnapshot(moment, 0.0, (gpu, DeviceSample("cpu", "CPU", moment, 0.0)), host)


def test_memory_is_short_below_its_floor_and_told_once_of_a_sample() -> None:
    now = snapshot(1.0, 8 * GIB, 20 * GIB)
    watch = MemoryWatch(lambda: now)
    assert watch() == []
    now = snapshot(2.0, 8 * GIB, GIB // 2)
    assert watch() == [LowMemory("gpu-1", "512 MiB of memory left on GPU")]
    assert watch() == []
    now = snapshot(3.0, GIB // 2, GIB // 2)  # a host that is always short hides no GPU
    assert [short.device for short in watch()] == ["gpu-1", ""]
    assert MemoryWatch(lambda: None)() == []


def test_a_sweep_unloads_one_when_memory_is_short(cache: ModelCache, clock: Clock) -> None:
    use(cache, "a")
    clock.now += 1
    use(cache, "b")
    told = iter([[LowMemory("", "100 MiB are left")], []])
    cache.find_low_memory = lambda: next(told)
    assert cache.evict_idle() == ["a"]
    assert cache.evict_idle() == []
    assert names(cache) == ["b"]


def test_room_is_made_before_a_load_when_memory_is_short(cache: ModelCache) -> None:
    use(cache, "a")
    told = iter([[LowMemory("", "100 MiB are left")]])
    cache.find_low_memory = lambda: next(told)
    with cache.borrow("b", Thing):
        assert names(cache) == ["b"]


# -- in a worker process, and in a command ---------------------------------------------------------


def test_the_longest_idle_above_the_limit_are_closed(clock: Clock) -> None:
    cache = ModelCache(max_models=2, clock=clock)
    for name in ("a", "b", "c"):
        use(cache, name)
        clock.now += 1
    use(cache, "a")
    assert cache.evict_idle() == ["b"]
    with cache.borrow("c", Thing):
        use(cache, "d")
        assert cache.evict_idle() == []  # the oldest is in use
    assert names(cache) == ["a", "c", "d"]


class Worked(Thing):
    """A model with a worker process."""

    running, is_open = 0, True

    def waiting(self, lane: str) -> int:
        return 0

    def workers(self) -> list[object]:
        return [self]


def test_no_more_models_than_the_limit_are_loaded(clock: Clock) -> None:
    cache = ModelCache(max_models=2, refuse=True, clock=clock)
    models = {}
    for name in ("a", "b", "a", "c"):
        clock.now += 1
        with cache.borrow(name, Worked) as models[name]:
            pass
    assert names(cache) == ["a", "c"]
    assert [models[name].closed for name in "abc"] == [0, 1, 0], "before the next one was loaded"
    with cache.borrow("a", Worked), cache.borrow("c", Worked):
        with (
            pytest.raises(OverloadedError, match="2 models are in use; the limit is 2"),
            cache.borrow("d", Worked),
        ):
            pass
        with cache.borrow("a", Worked), cache.borrow("files", Worked, counted=False):
            assert names(cache) == ["a", "c", "files"]
    with cache.borrow("d", Worked):
        assert names(cache) == ["c", "d", "files"]


def test_models_that_are_loading_are_counted(clock: Clock) -> None:
    cache = ModelCache(max_models=2, refuse=True, clock=clock)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def load() -> Worked:
        begun.release()
        assert go_on.wait(60)
        return Worked()

    def borrow(name: str) -> None:
        with cache.borrow(name, load):
            pass

    with ThreadPoolExecutor(2) as threads:
        threads.map(borrow, ("a", "b"))
        assert begun.acquire(timeout=60)
        assert begun.acquire(timeout=60)
        with pytest.raises(OverloadedError), cache.borrow("c", Worked):
            pass
        go_on.set()
    assert names(cache) == ["a", "b"]


def test_a_client_has_a_share_of_the_models(clock: Clock) -> None:
    cache = ModelCache(max_models=4, client_share=0.5, refuse=True, clock=clock)
    for name in ("a", "b", "c"):
        clock.now += 1
        with cache.borrow(name, Worked, client="ann"):
            pass
    assert names(cache) == ["b", "c"]
    with cache.borrow("b", Worked, client="ann"), cache.borrow("c", Worked, client="ann"):
        with (
            pytest.raises(OverloadedError, match="2 models of this client are in use"),
            cache.borrow("d", Worked, client="ann"),
        ):
            pass
        with cache.borrow("d", Worked, client="bob"), cache.borrow("b", Worked, client="bob"):
            assert names(cache) == ["b", "c", "d"]


def test_a_cache_that_refuses_nobody_exceeds_its_limit_only_while_all_are_in_use(
    clock: Clock,
) -> None:
    cache = ModelCache(max_models=1, clock=clock)
    with cache.borrow("a", Worked), cache.borrow("b", Worked):
        assert names(cache) == ["a", "b"]
    with cache.borrow("c", Worked):
        assert names(cache) == ["c"]


def test_another_version_replaces_a_model(cache: ModelCache) -> None:
    with cache.borrow("a", Thing, version="1") as old:
        pass
    with cache.borrow("a", Thing, version="2") as new:
        assert new is not old
        assert (old.closed, new.closed) == (1, 0)
        with cache.borrow("a", Thing, version="2") as same:
            assert same is new


def test_a_cache_that_keeps_nothing_opens_a_model_for_each_borrower() -> None:
    cache = ModelCache(keep=False)
    with cache.borrow("a", Thing) as one:
        with cache.borrow("a", Thing) as two:
            assert two is not one
        assert (one.closed, two.closed) == (0, 1)
    assert one.closed == 1
    assert names(cache) == []


def test_one_model_is_unloaded_unless_it_is_borrowed(cache: ModelCache) -> None:
    with cache.borrow("a", Thing) as thing:
        cache.unload("a")
        assert thing.closed == 0
    cache.unload("a")
    cache.unload("b")
    assert thing.closed == 1
