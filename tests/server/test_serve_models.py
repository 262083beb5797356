"""The model cache and models that a worker runs in processes of its own, on other devices."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from anyrig.app.models import LowMemory, ModelCache
from anyrig.errors import OutOfMemoryError
from anyrig.work.live import Lane
from anyrig.work.outcome import RunReport
from anyrig.work.protocol import NestedModel, WorkerStatus
from tests.app.test_models import Clock
from tests.server.conftest import MakeApp


def seen(
    pid: int, device: str, held: tuple[NestedModel, ...] = (), heard: float = 0.0
) -> WorkerStatus:
    kind, word = ("gpu", "cuda:0") if device.startswith("gpu") else ("cpu", "cpu")
    models = ("a model",)
    return WorkerStatus(pid, device, kind, word, "ready", 0.0, heard, models, nested_models=held)  # type: ignore[arg-type]


class Clerks:
    """What a clerk's counter shows: one process, and models in others."""

    is_open, running = True, 0

    def __init__(self, *held: NestedModel, device: str = "cpu", heard: float = 0.0) -> None:
        self.held, self.device, self.heard = list(held), device, heard
        self.report = RunReport()
        self.closed = False
        self.taken = ""
        """A model that a task takes just when it should go."""

    def waiting(self, lane: Lane) -> int:
        return 0

    def workers(self) -> tuple[WorkerStatus, ...]:
        return (seen(1, self.device, tuple(self.held), self.heard),)

    def unload_model(self, name: str) -> None:
        if name == self.taken:
            self.held = [one._replace(busy=one.name == name) for one in self.held]
        self.held = [one for one in self.held if one.name != name or one.busy]

    def __enter__(self) -> Clerks:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


def model(name: str, used: float, device: str, *, busy: bool = False) -> NestedModel:
    return NestedModel(name, 90.0, used, busy, (seen(int(used), device),), 4, 9, 1.5, 2)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Iterator[ModelCache]:
    made = ModelCache(idle_s=10.0, clock=clock)
    yield made
    made.close()


def names(clerks: Clerks) -> list[str]:
    return [one.name for one in clerks.held]


def test_the_longest_unused_of_a_gpu_goes_first_wherever_it_is_kept(
    cache: ModelCache, clock: Clock
) -> None:
    clerks = Clerks(model("ocr", 95, "gpu-1"), model("ears", 99, "gpu-1"), model("b", 91, "gpu-2"))
    voice = Clerks(device="gpu-1")
    with cache.borrow("documents", lambda: clerks):
        clock.now = 97.0
        with cache.borrow("speech", lambda: voice):
            pass
        # The clerk itself is lent, and on the CPU: its models go all the same.
        assert cache.free_memory(("gpu-1",)) == "documents: ocr"
        assert cache.free_memory(("gpu-1",)) == "speech"
        assert cache.free_memory(("gpu-1",)) == "documents: ears"
        assert cache.free_memory(("gpu-1",)) == ""
        assert names(clerks) == ["b"]
    assert not clerks.closed
    assert voice.closed
    assert cache.stats.evictions["memory"] == 3


def test_what_the_task_at_hand_has_stays(cache: ModelCache) -> None:
    clerks = Clerks(model("ocr", 95, "gpu-1", busy=True), model("ears", 96, "gpu-1"))
    clerks.taken = "ears"
    with cache.borrow("documents", lambda: clerks):
        assert cache.free_memory(("gpu-1",)) == ""
        assert names(clerks) == ["ocr", "ears"]
    assert cache.stats.evictions["memory"] == 0


def test_a_model_within_is_idle_on_its_own(cache: ModelCache, clock: Clock) -> None:
    clerks = Clerks(model("ocr", 95, "gpu-1"), model("ears", 99, "gpu-1"))
    for moment in (100.0, 104.0):
        clock.now = moment
        with cache.borrow("documents", lambda: clerks):
            pass
    clock.now = 106.0  # the clerk was asked two seconds ago
    assert cache.evict_idle() == ["documents: ocr"]
    assert names(clerks) == ["ears"]
    assert cache.stats.evictions == {"idle": 1, "memory": 0, "broken": 0, "renewed": 0}
    clock.now = 200.0  # with a clerk goes all that it has
    assert cache.evict_idle() == ["documents"]
    assert clerks.closed


def test_each_memory_that_is_short_gets_room_of_its_own(cache: ModelCache) -> None:
    clerks = Clerks(model("ocr", 95, "gpu-1"), model("b", 96, "gpu-2"), model("c", 97, "gpu-2"))
    cache.find_low_memory = lambda: [
        LowMemory("gpu-2", "little is left"),
        LowMemory("", "little is left"),
    ]
    with cache.borrow("documents", lambda: clerks):
        clerks.held.append(model("d", 98, "gpu-1"))
        assert cache.evict_idle() == ["documents: b", "documents: ocr"]


def test_a_load_without_memory_frees_its_own_device_alone(cache: ModelCache, clock: Clock) -> None:
    others = [Clerks(device="gpu-2"), Clerks(device="cpu")]
    for number, one in enumerate(others):
        with cache.borrow(f"other {number}", lambda one=one: one):  # type: ignore[misc]
            clock.now += 1
    clerks = Clerks(model("ocr", 150, "gpu-1"))
    keeper_has = cache.borrow("documents", lambda: clerks)
    tries = []

    def load() -> Clerks:
        tries.append(names(clerks))
        error = OutOfMemoryError("the GPU is full", hint="Take a smaller model.")
        error.devices = ("gpu-1",)
        if len(tries) < 2:
            raise error
        return Clerks(device="gpu-1")

    with keeper_has, cache.borrow("speech", load):
        assert tries == [["ocr"], []]
    assert not any(one.closed for one in others)

    def never() -> Clerks:
        error = OutOfMemoryError("the GPU is full", hint="Take a smaller model.")
        error.devices = ("gpu-1",)
        raise error

    with pytest.raises(OutOfMemoryError), cache.borrow("more", never):
        pass
    assert [one.name for one in cache.loaded_models()] == ["documents", "other 0", "other 1"]


def test_models_within_are_in_health_and_figures(make_app: MakeApp) -> None:
    import time

    now = time.monotonic()
    inner = NestedModel("ocr", now, now, False, (seen(4712, "gpu-1", heard=now),), 4, 9, 1.5, 2)
    clerks = Clerks(inner, heard=now)
    with TestClient(make_app(), base_url="http://127.0.0.1:3000") as client:
        state = client.app.state.server  # type: ignore[attr-defined]
        with state.models.borrow("documents", lambda: clerks):
            told = client.get("/health").json()
            figures = client.get("/metrics").text
    assert told["worker_ids"] == ["documents:1", "documents: ocr:4712"]
    assert [row["device_type"] for row in told["workers"]] == ["cpu", "cuda"]
    assert told["workers"][1]["cached_models"] == ["a model"]
    assert not told["workers"][1]["tts_model_loaded"]
    assert 'anyrig_workers{model="documents: ocr",status="ready"} 1.0' in figures
    assert 'anyrig_batches_total{model="documents: ocr"} 4.0' in figures
    assert 'anyrig_out_of_memory_total{model="documents: ocr"} 2.0' in figures
