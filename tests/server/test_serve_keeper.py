"""The keeper: what is lent is never closed, what is idle leaves, failures are told."""

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

from anyrig.devices.machine import Device, DeviceBackend
from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError, WorkError
from anyrig.monitor.sample import DeviceSample, HostSample, MachineSnapshot
from anyrig.placement import Placement
from anyrig.server.keeper import Keeper
from anyrig.server.kept import Short
from anyrig.server.room import Watch, floor_bytes
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
    """Something that knows whether it was closed while somebody had it."""

    def __init__(self, name: str = "") -> None:
        self.name, self.closed, self.users = name, 0, 0
        self.lock = threading.Lock()
        self.wrong: list[str] = []

    def __enter__(self) -> Thing:
        with self.lock:
            self.users += 1
            if self.closed:
                self.wrong.append("lent after it was closed")
        return self

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.closed:
                self.wrong.append("closed while it was lent")

    def close(self) -> None:
        with self.lock:
            self.closed += 1
            if self.users:
                self.wrong.append("closed while it was lent")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(clock: Clock) -> Iterator[Keeper]:
    made = Keeper(10.0, clock)
    yield made
    made.close()


def use(keeper: Keeper, name: str) -> Thing:
    with keeper.lend(name, lambda: Thing(name)) as thing:
        return thing


def test_a_model_is_loaded_once_and_unloaded_when_idle(keeper: Keeper, clock: Clock) -> None:
    first = use(keeper, "a")
    assert use(keeper, "a") is first
    assert keeper.loaded() == ["a"]
    clock.now += 9
    assert keeper.sweep() == []
    clock.now += 2
    assert keeper.sweep() == ["a"]
    assert first.closed == 1
    assert use(keeper, "a") is not first
    assert (keeper.tally.loads, keeper.tally.unloads["idle"]) == (2, 1)


def test_what_is_lent_is_never_idle(keeper: Keeper, clock: Clock) -> None:
    with keeper.lend("a", Thing) as thing:
        clock.now += 1000
        assert keeper.sweep() == []
        assert keeper.make_room() == ""
        assert thing.closed == 0
    assert keeper.sweep() == []  # it was used a moment ago


def test_the_longest_idle_makes_room(keeper: Keeper, clock: Clock) -> None:
    for name in ("a", "b", "c"):
        use(keeper, name)
        clock.now += 1
    use(keeper, "a")
    assert [keeper.make_room() for _ in range(4)] == ["b", "c", "a", ""]


def test_everybody_who_waits_hears_of_a_failure_and_the_next_tries_again(keeper: Keeper) -> None:
    begun, go = threading.Event(), threading.Event()
    loads = []

    def load() -> Thing:
        loads.append(1)
        begun.set()
        assert go.wait(60)
        raise InvalidInputError("no such voice", hint="Take another.")

    def ask() -> None:
        with keeper.lend("a", load):
            pytest.fail("nothing was loaded")

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask)]
        assert begun.wait(60)
        asked += [threads.submit(ask) for _ in range(5)]
        waiting(keeper, "a", 5)
        go.set()
        errors = [one.exception(60) for one in asked]
    assert [str(error) for error in errors] == ["no such voice"] * 6
    assert all(isinstance(error, InvalidInputError) for error in errors)
    assert len({id(error) for error in errors}) == 6
    assert len(loads) == 1
    assert keeper.loaded() == []
    assert use(keeper, "a").closed == 0


def waiting(keeper: Keeper, name: str, count: int) -> None:
    """Until so many wait for a load: seen by those that its future has."""
    import time

    end = time.monotonic() + 60
    while time.monotonic() < end:
        slot = keeper._slots[name]
        assert slot.attempt is not None
        with slot.attempt._condition:
            there = len(slot.attempt._condition._waiters)  # type: ignore[attr-defined]
        if there >= count:
            return
        time.sleep(0.01)
    pytest.fail("nobody waits")


def test_a_load_without_memory_unloads_others_and_tries_again(keeper: Keeper, clock: Clock) -> None:
    for name in ("a", "b", "c"):
        use(keeper, name)
        clock.now += 1

    def load() -> Thing:
        if len(keeper.loaded()) > 1:
            raise OutOfMemoryError("the GPU is full", hint="Take a smaller model.")
        return Thing("d")

    with keeper.lend("d", load):
        assert keeper.loaded() == ["c", "d"]
    assert keeper.tally.out_of_memory == 2
    assert keeper.tally.unloads["memory"] == 2


def test_a_load_that_never_fits_says_so_once_nothing_is_left_to_unload(keeper: Keeper) -> None:
    use(keeper, "a")

    def load() -> Thing:
        raise OutOfMemoryError("the GPU is full", hint="Take a smaller model.")

    with pytest.raises(OutOfMemoryError), keeper.lend("b", load):
        pass
    assert keeper.loaded() == []


def test_one_that_broke_is_closed_after_the_last_who_has_it(keeper: Keeper) -> None:
    with keeper.lend("a", Thing) as broken:
        keeper.drop("a", broken)
        with keeper.lend("a", Thing) as fresh:
            assert fresh is not broken
        assert keeper.sweep() == []
        assert broken.closed == 0
        keeper.drop("a", broken)  # another has taken its place
        assert keeper.loaded() == ["a"]
    assert keeper.sweep() == ["a"]
    assert (broken.closed, fresh.closed) == (1, 0)


def test_renewing_loads_everything_anew_and_disturbs_nobody(keeper: Keeper) -> None:
    with keeper.lend("a", Thing) as old:
        assert keeper.renew() == ["a"]
        with keeper.lend("a", Thing) as new:
            assert new is not old
            assert old.closed == 0
    keeper.sweep()
    assert (old.closed, new.closed) == (1, 0)


def test_a_closed_keeper_lends_nothing(keeper: Keeper) -> None:
    thing = use(keeper, "a")
    keeper.close()
    assert thing.closed == 1
    with pytest.raises(WorkError, match="ending"), keeper.lend("a", Thing):
        pass


def test_what_is_loaded_too_late_is_closed() -> None:
    keeper = Keeper()
    late = Thing()

    def load() -> Thing:
        keeper.close()
        return late

    with pytest.raises(WorkError, match="ending"), keeper.lend("a", load):
        pass
    assert late.closed == 1


def test_one_that_does_not_close_well_hinders_no_other(keeper: Keeper) -> None:
    class Bad(Thing):
        def close(self) -> None:
            raise RuntimeError("the driver is gone")

    with keeper.lend("a", Bad):
        pass
    thing = use(keeper, "b")
    keeper.close()
    assert thing.closed == 1


def test_a_counter_that_fails_as_a_whole_is_swept_out(keeper: Keeper) -> None:
    """The real thing: a pool whose device dies for good."""
    backend = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
    place = Placement(Device("one", "cpu", "test", "one"), backend)

    def load() -> LiveQueue[float, float]:
        recipe = EngineFactory("anyrig.work.fake:FakeEngine", {"broken_devices": ["one"]})
        return LiveQueue(
            WorkerPool(LocalWorkers([place], recipe, environment=os.environ)), cost=float
        )

    with keeper.lend("a", load) as live:
        futures = [live.submit(0.001) for _ in range(40)]
        errors = [one.exception(120) for one in futures]
        assert all(isinstance(error, (DeviceLostError, WorkError)) for error in errors)
        assert not live.open
    assert keeper.sweep() == ["a"]
    assert keeper.tally.unloads["broken"] == 1


# -- under threads ---------------------------------------------------------------------------------


class Crowd:
    """Does at random what a server's threads do."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.keeper = Keeper(5.0, self.clock)
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
                self.keeper.sweep()
            elif what < 0.97:
                self.keeper.make_room()
            else:
                self.keeper.renew()

    def borrow(self, name: str, dice: random.Random) -> None:
        def load() -> Thing:
            if dice.random() < 0.05:
                raise OutOfMemoryError("full", hint="-")
            if dice.random() < 0.05:
                raise InvalidInputError("no", hint="-")
            self.made.append(Thing(name))
            return self.made[-1]

        with self.keeper.lend(name, load) as thing, thing:
            assert thing.name == name
            if dice.random() < 0.1:
                self.keeper.drop(name, thing)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), num_threads=st.integers(2, 8))
def test_whatever_many_threads_do_nothing_is_closed_that_somebody_has(
    seed: int, num_threads: int
) -> None:
    crowd = Crowd()
    with ThreadPoolExecutor(num_threads) as threads:
        for done in [threads.submit(crowd.act, seed + number) for number in range(num_threads)]:
            done.result()
    loaded = crowd.keeper.kept()
    assert all(one.lent == 0 for one in loaded)
    assert len({one.name for one in loaded}) == len(loaded)
    crowd.keeper.close()
    assert [thing.wrong for thing in crowd.made if thing.wrong] == []
    assert {thing.closed for thing in crowd.made} <= {1}
    assert crowd.keeper.tally.loads == len(crowd.made)


# -- memory ----------------------------------------------------------------------------------------


def snapshot(moment: float, host_free: int, gpu_free: int) -> MachineSnapshot:
    host = HostSample(moment, 0.0, memory_total_bytes=16 * GIB, memory_available_bytes=host_free)
    gpu = DeviceSample("gpu-1", "GPU", moment, 0.0, memory_total_bytes=24 * GIB,
                 memory_used_bytes=24 * GIB - gpu_free)  # fmt: skip
    return MachineSnapshot(moment, 0.0, (gpu, DeviceSample("cpu", "CPU", moment, 0.0)), host)


def test_memory_is_short_below_its_floor_and_told_once_of_a_sample() -> None:
    now = snapshot(1.0, 8 * GIB, 20 * GIB)
    watch = Watch(lambda: now)
    assert watch() == []
    now = snapshot(2.0, 8 * GIB, GIB // 2)
    assert watch() == [Short("gpu-1", "512 MiB of memory are left on GPU")]
    assert watch() == []
    now = snapshot(3.0, GIB // 2, GIB // 2)  # a host that is always short hides no GPU
    assert [short.device for short in watch()] == ["gpu-1", ""]
    assert Watch(lambda: None)() == []


def test_the_floor_is_what_the_settings_say() -> None:
    assert floor_bytes(100 * GIB, 0) == GIB
    assert floor_bytes(10 * GIB, 0) == GIB / 2
    assert floor_bytes(10 * GIB, 2048) == 2 * GIB


def test_a_sweep_unloads_one_when_memory_is_short(keeper: Keeper, clock: Clock) -> None:
    use(keeper, "a")
    clock.now += 1
    use(keeper, "b")
    told = iter([[Short("", "100 MiB are left")], []])
    keeper.short = lambda: next(told)
    assert keeper.sweep() == ["a"]
    assert keeper.sweep() == []
    assert keeper.loaded() == ["b"]


def test_a_device_that_is_short_takes_nothing_from_others(keeper: Keeper) -> None:
    use(keeper, "a")  # it shows no worker on that device
    keeper.short = lambda: [Short("gpu-1", "100 MiB are left")]
    assert keeper.sweep() == []


def test_room_is_made_before_a_load_when_memory_is_short(keeper: Keeper) -> None:
    use(keeper, "a")
    told = iter([[Short("", "100 MiB are left")]])
    keeper.short = lambda: next(told)
    with keeper.lend("b", Thing):
        assert keeper.loaded() == ["b"]
