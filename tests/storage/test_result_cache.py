"""The result cache: results, eviction, pins of jobs, pruning, threads and processes, misuse."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage.cache import Cache, CacheEntry, Claim, ResultCache, TolerantCache
from anyrig.storage.keys import JsonValue, make_key
from anyrig.units import MIB
from tests.conftest import ROOT


class Clock:
    """A clock that moves when progress to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite", limit_bytes=2 * MIB, clock=clock) as cache:
        yield cache


def _fill(cache: ResultCache, count: int, size: int = 20_000, **parts: Any) -> list[str]:
    keys = [make_key(number=number, **parts) for number in range(count)]
    cache.put_many(CacheEntry(name, random.randbytes(size), "speech") for name in keys)
    return keys


def test_put_and_get(cache: ResultCache) -> None:
    note: dict[str, JsonValue] = {
        "engine": "tone",
        "seconds": 1.5,
        "text": "Zwölf \ud83d",
        "list": [None, True],
    }
    assert cache.put("a", b"\x00data", kind="speech", metadata=note)
    found = cache.get("a")
    assert found is not None
    assert (found.key, found.kind, found.data, found.metadata) == ("a", "speech", b"\x00data", note)
    assert cache.get("b") is None
    assert cache.put("empty", b"", kind="speech")
    assert cache.get_many(["a", "empty", "b", "a"]).keys() == {"a", "empty"}


def test_the_first_result_is_final(cache: ResultCache) -> None:
    assert cache.put("a", b"first", kind="speech")
    assert not cache.put("a", b"second", kind="page", metadata={"x": 1})
    found = cache.get("a")
    assert found is not None
    assert (found.data, found.kind, found.metadata) == (b"first", "speech", {})
    assert cache.put_many([CacheEntry("a", b"3", "speech"), CacheEntry("b", b"4", "speech")]) == 1


def test_replace_and_delete(cache: ResultCache) -> None:
    cache.replace("a", b"first", kind="speech")
    cache.replace("a", b"second", kind="speech", metadata={"take": 2})
    found = cache.get("a")
    assert found is not None
    assert (found.data, found.metadata) == (b"second", {"take": 2})
    assert cache.stats().num_results == 1
    assert cache.delete("a")
    assert not cache.delete("a")
    assert cache.get("a") is None
    assert cache.put("a", b"third", kind="speech")


def test_many_keys_at_once(cache: ResultCache) -> None:
    keys = _fill(cache, 1200, size=10)
    others = [make_key(other=number) for number in range(1200)]
    assert cache.has([*keys, *others]) == set(keys)
    assert cache.get_many([*keys, *others]).keys() == set(keys)


def test_large_results(tmp_path: Path) -> None:
    data = random.randbytes(30_000_000)
    with ResultCache(tmp_path / "r") as cache:
        cache.put("a", data, kind="speech")
    with ResultCache(tmp_path / "r") as cache:
        found = cache.get("a")
        assert found is not None
        assert found.data == data
        # The log does not stay as large as what went through it.
        assert cache.stats().file_bytes < 30_000_000 + 17 * MIB
        cache.prune(to_bytes=0)
        assert cache.stats().file_bytes < 100_000


@pytest.mark.parametrize(
    ("name", "kind", "note"),
    [("", "speech", {}), ("ü", "speech", {}), ("a b", "speech", {}), ("x" * 201, "speech", {}),
     ("a", "", {}), ("a", "Speech", {}), ("a", "a b", {}), ("a", "speech", {"x": b""}),
     ("a", "speech", {"x": float("nan")})],
)  # fmt: skip
def test_invalid_entries_are_refused(cache: ResultCache, name: str, kind: str, note: Any) -> None:
    with pytest.raises(InvalidInputError):
        cache.put(name, b"", kind=kind, metadata=note)
    assert cache.stats().num_results == 0


# -- the limit ---------------------------------------------------------------------------------


def test_the_least_recently_used_are_evicted(cache: ResultCache, clock: Clock) -> None:
    """2 MiB hold some 80 of these; the first ten are read again and again."""
    keys = _fill(cache, 60)
    clock.now += 4000  # of uses within an hour only one is noted
    for name in keys[:10]:
        assert cache.get(name)
    more = _fill(cache, 60, more=True)
    is_cached = [name in cache.has([*keys, *more]) for name in [*keys, *more]]
    assert all(is_cached[:10])
    assert all(is_cached[-30:])
    middle = is_cached[10:-30]
    assert middle == sorted(middle)
    assert not all(middle)
    size = cache.stats()
    assert 0.85 * 2 * MIB < size.used_bytes <= 2 * MIB
    assert size.counters["evicted"] == 120 - size.num_results


def test_usage_is_kept_between_processes(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "r"
    with ResultCache(path, clock=clock) as cache:
        keys = _fill(cache, 60)
    clock.now += 4000
    with ResultCache(path, clock=clock) as cache:
        assert cache.get(keys[0])
    with ResultCache(path, limit_bytes=MIB, clock=clock) as cache:
        cache.prune()
        assert keys[0] in cache.has(keys)
        assert keys[1] not in cache.has(keys)
        assert cache.stats().counters["hits"] == 1


def test_reading_does_not_write(cache: ResultCache) -> None:
    """Uses are written down in batches; a reader leaves the file alone in between."""
    keys = _fill(cache, 100, size=100)
    log_file = Path(f"{cache.path}-wal")
    before = log_file.stat().st_size, log_file.stat().st_mtime_ns
    for name in keys:
        assert cache.get(name)
    assert (log_file.stat().st_size, log_file.stat().st_mtime_ns) == before
    cache.stats()
    assert log_file.stat().st_mtime_ns != before[1]


def test_free_pages_are_reused(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "r", limit_bytes=2 * MIB) as cache:
        for number in range(40):
            _fill(cache, 40, size=20_000, round=number)
        assert cache.stats().used_bytes <= 2 * MIB
    # The free pages of an eviction are filled again; the log is folded in at the end.
    assert (tmp_path / "r").stat().st_size < 4 * MIB


# -- jobs --------------------------------------------------------------------------------------


def test_pinned_results_are_not_evicted(
    cache: ResultCache, caplog: pytest.LogCaptureFixture
) -> None:
    """A book larger than the limit: it goes over, with a warning, and comes back under it."""
    old = _fill(cache, 50, old=True)
    caplog.set_level(logging.WARNING)
    with cache.pin_for_job("book"):
        assert cache.has(old[:5]) == set(old[:5])  # looked up in the plan, read at the end
        assert cache.get(old[5])
        keys = _fill(cache, 100)
        more = _fill(cache, 100, more=True)
        assert cache.has([*keys, *more, *old[:6]]) == {*keys, *more, *old[:6]}
        assert not cache.has(old[6:])
        size = cache.stats()
        assert size.used_bytes > 2 * MIB
        assert (size.num_pinned, size.jobs) == (206, ("book",))
        assert "over its limit of 2 MiB" in caplog.text
    assert cache.stats().used_bytes <= 2 * MIB
    assert cache.stats().jobs == ()


def test_other_processes_respect_pins(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with (
        ResultCache(path, limit_bytes=2 * MIB) as one,
        ResultCache(path, limit_bytes=2 * MIB) as other,
    ):
        keys = _fill(one, 50)
        with one.pin_for_job("book"):
            assert one.has(keys) == set(keys)
            _fill(other, 100, other=True)
            assert other.has(keys) == set(keys)
            assert other.stats().jobs == ("book",)
        _fill(other, 100, third=True)
        assert not other.has(keys)


def _interrupt_job(cache: ResultCache) -> list[str]:
    """The results of a job that was broken off."""
    keys = []
    with contextlib.suppress(KeyboardInterrupt), cache.pin_for_job("book"):
        keys = _fill(cache, 50)
        raise KeyboardInterrupt
    return keys


def test_pins_of_a_failed_job_stay(cache: ResultCache, clock: Clock) -> None:
    keys = _interrupt_job(cache)
    _fill(cache, 200, more=True)
    assert cache.has(keys) == set(keys)
    with cache.pin_for_job("book"):  # resumed: they are still its own
        clock.now += 2 * 86400
        assert cache.has(keys) == set(keys)
    clock.now += 60
    _fill(cache, 200, third=True)
    assert not cache.has(keys)


def test_pins_of_an_abandoned_job_expire(cache: ResultCache, clock: Clock) -> None:
    keys = _interrupt_job(cache)
    clock.now += 4 * 86400
    _fill(cache, 200, more=True)
    assert not cache.has(keys)
    assert cache.stats().jobs == ()


def test_a_deleted_result_is_no_longer_pinned(cache: ResultCache) -> None:
    with cache.pin_for_job("book"):
        cache.put("a", b"1", kind="speech")
        cache.delete("a")
        assert cache.stats().num_pinned == 0
        cache.put("a", b"2", kind="speech")
        cache.replace("a", b"3", kind="speech")
        assert cache.stats().num_pinned == 1


# -- pruning -----------------------------------------------------------------------------------


def test_prune(cache: ResultCache, clock: Clock) -> None:
    cache.put("old", random.randbytes(1000), kind="speech", metadata={"engine": "tone"})
    clock.now += 100
    cache.put("page", random.randbytes(1000), kind="page", metadata={"engine": "reader"})
    cache.put("new", random.randbytes(1000), kind="speech", metadata={"engine": "piper"})
    assert cache.prune(older_than_s=50, dry_run=True)[:2] == (1, 1000)
    assert cache.stats().num_results == 3
    assert cache.prune() == (0, 0, 0)  # under the limit
    assert cache.prune(kind="none") == (0, 0, 0)
    assert cache.prune(engine="reader")[:2] == (1, 1000)
    assert cache.prune(kind="speech", to_bytes=1500)[:2] == (1, 1000)
    assert cache.has(["old", "page", "new"]) == {"new"}
    assert cache.prune(to_bytes=0)[:2] == (1, 1000)


def test_prune_leaves_pinned_results(cache: ResultCache) -> None:
    with cache.pin_for_job("book"):
        keys = _fill(cache, 5)
        cache.put("b", b"", kind="page")
        assert cache.prune(to_bytes=0) == (0, 0, 6)
        assert cache.prune(kind="page", include_pinned=True) == (1, 0, 0)
        assert cache.has(keys) == set(keys)


def test_prune_returns_space_to_the_disk(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    with ResultCache(tmp_path / "r") as cache:
        _fill(cache, 3000, size=4096)
        full = cache.stats().file_bytes
        cache.prune(to_bytes=MIB, on_progress=lambda done, total: progress.append((done, total)))
        assert cache.stats().file_bytes <= MIB
        assert cache.stats().file_bytes < full / 5
    assert progress[-1][0] > 2500
    assert len(progress) > 1  # in steps


@pytest.mark.parametrize("drive", ["", "nfs4"], ids=["wal", "delete"])
def test_prune_deletes_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: str
) -> None:
    """Unless a job is active; other processes continue with a new file."""
    monkeypatch.setattr("anyrig.storage.sqlite.detect_network_drive", lambda path: drive)
    path = tmp_path / "r"
    with ResultCache(path) as one, ResultCache(path) as other:
        keys = _fill(one, 20)
        with other.pin_for_job("book"):
            assert other.has(keys) == set(keys)
            assert one.prune(to_bytes=0) == (0, 0, 20)
            assert one.prune(to_bytes=0, include_pinned=True)[0] == 20
            assert other.has(keys) == set()
            assert other.put("a", b"1", kind="speech")
            assert one.stats().num_pinned == 1
            path.unlink()  # by hand
            for end in ("-wal", "-shm", "-journal"):
                Path(f"{path}{end}").unlink(missing_ok=True)
            assert other.put("a", b"2", kind="speech")
            assert (one.stats().num_pinned, one.stats().jobs) == (1, ("book",))
        assert one.prune(to_bytes=0)[0] == 1
        assert path.exists() == bool(drive)
        assert other.put("b", b"2", kind="speech")
        assert one.has("ab") == {"b"}


def test_prune_on_a_network_drive_leaves_the_journals_of_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has the old file open does not take the journal of a new one for its own."""
    monkeypatch.setattr("anyrig.storage.sqlite.detect_network_drive", lambda path: "nfs4")
    with ResultCache(tmp_path / "r") as one, ResultCache(tmp_path / "r") as other:
        _fill(one, 20)
        assert other.stats().num_results == 20

        def read_late(connection: sqlite3.Connection) -> None:
            assert one.prune(to_bytes=0)[0] == 20
            one.file.write(partial(write_much, reader=connection))

        def write_much(connection: sqlite3.Connection, reader: sqlite3.Connection) -> None:
            connection.execute("PRAGMA cache_size = 10")  # the journal is flushed before the end
            connection.execute("INSERT INTO data VALUES (99, zeroblob(400000))")
            with contextlib.suppress(sqlite3.OperationalError):  # locked
                reader.execute("PRAGMA busy_timeout = 0")
                reader.execute("SELECT count(*) FROM results").fetchall()
            assert (tmp_path / "r-journal").exists()

        other.file.read(read_late)
        assert other.put("a", b"1", kind="speech")
        assert one.has("a") == {"a"}


# -- together ----------------------------------------------------------------------------------


def test_threads(cache: ResultCache) -> None:
    failures: list[BaseException] = []
    first = []

    def work(number: int) -> None:
        try:
            for step in range(150):
                name = make_key(step=step % 40)
                if cache.put(name, f"{number}".encode() * 100, kind="speech"):
                    first.append(name)
                found = cache.get(name)
                assert found is not None
                assert len(set(found.data)) == 1
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(first) == sorted(make_key(step=step) for step in range(40))


_PUT_ALL = """
import json, sys
from pathlib import Path
from anyrig.storage.cache import ResultCache
path, name = Path(sys.argv[1]), sys.argv[2]
first, seen = [], {}
with ResultCache(path) as cache:
    for number in range(300):
        if cache.put(f"key-{number}", f"{name} {number}".encode(), kind="speech"):
            first.append(number)
        seen[number] = cache.get(f"key-{number}").data.decode()
print(json.dumps([first, seen]))
"""


def test_processes_agree_on_the_first_result(tmp_path: Path) -> None:
    """All begin at once, on a file that is not there yet."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _PUT_ALL, str(tmp_path / "new" / "r")]
    processes = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=environment)
        for name in ("one", "two", "three", "four")
    ]
    progress = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    all_first = [number for first, _ in progress for number in first]
    assert sorted(all_first) == list(range(300))
    assert all(seen == progress[0][1] for _, seen in progress)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_opens_its_own_connection(tmp_path: Path) -> None:
    """A child that inherits a cache opens the file for itself."""
    code = (
        "import os, sys; from pathlib import Path; from anyrig.storage.cache import ResultCache\n"
        "cache = ResultCache(Path(sys.argv[1])); cache.put('a', b'1', kind='speech')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    cache.put('b', b'2', kind='speech'); cache.close(); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "cache.put('c', b'3', kind='speech')\n"
        "assert cache.has('abc') == set('abc'); cache.close()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r")], check=True, env=environment, timeout=60
    )


# -- misuse ------------------------------------------------------------------------------------


def _pin(cache: ResultCache) -> None:
    with cache.pin_for_job("job"):
        pass


@pytest.mark.parametrize(
    "call",
    [
        lambda cache: cache.get("a"),
        lambda cache: cache.get_many([]),
        lambda cache: cache.has(["a"]),
        lambda cache: cache.put("a", b"", kind="speech"),
        lambda cache: cache.put_many([]),
        lambda cache: cache.replace("a", b"", kind="speech"),
        lambda cache: cache.delete("a"),
        lambda cache: cache.stats(),
        lambda cache: cache.prune(),
        lambda cache: cache.verify(),
        lambda cache: list(cache.iter_results()),
        _pin,
    ],
)
def test_a_closed_cache_refuses_every_call(
    tmp_path: Path, call: Callable[[ResultCache], object]
) -> None:
    cache = ResultCache(tmp_path / "r")
    cache.put("a", b"1", kind="speech")
    cache.close()
    cache.close()
    with pytest.raises(StorageError, match="is closed") as caught:
        call(cache)
    assert "reopen it" in caught.value.hint


@pytest.mark.parametrize("limit", [0, -5, float("nan")])
def test_invalid_limit(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="limit_bytes is") as caught:
        ResultCache(tmp_path / "r", limit_bytes=limit)
    assert "10 GiB" in caught.value.hint


@pytest.mark.parametrize("data", ["x", 5, None, [1, 2]])
def test_data_that_is_not_bytes(tmp_path: Path, data: Any) -> None:
    with ResultCache(tmp_path / "r") as cache:
        with pytest.raises(
            InvalidInputError, match=f"data is {type(data).__name__}, not bytes"
        ) as caught:
            cache.put("a", data, kind="speech")
        assert ".encode()" in caught.value.hint
        good: list[Any] = [bytearray(b"1"), memoryview(b"1")]
        assert [cache.put(f"b{n}", data, kind="speech") for n, data in enumerate(good)] == [
            True
        ] * 2


def test_a_folder_is_not_a_cache_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder") as caught:
        ResultCache(tmp_path)
    assert str(tmp_path / "results.sqlite") in caught.value.hint


# -- deleting -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [12, 3_000, 200_000])
def test_deleted_bytes_are_overwritten(tmp_path: Path, size: int) -> None:
    secret = (b"the secret of %d bytes " % size * (size // 10))[:size]
    with ResultCache(tmp_path / "results.sqlite") as cache:
        for number in range(20):
            cache.put(make_key(text=str(number)), b"%d" % number * 500, kind="embedding")
        cache.put(make_key(text="secret"), secret, kind="embedding")
        for number in range(20, 40):
            cache.put(make_key(text=str(number)), b"%d" % number * 500, kind="embedding")
        assert _contains(tmp_path, secret[:12])
        assert cache.delete(make_key(text="secret"))
        cache.scrub()
        assert not _contains(tmp_path, secret[:12])
        assert cache.stats().num_results == 40


def _contains(folder: Path, needle: bytes) -> bool:
    return any(needle in path.read_bytes() for path in folder.glob("results.sqlite*"))


class Failing(ResultCache):
    """Its disk is gone."""

    def get_many(self, keys: Iterable[str]) -> dict[str, CacheEntry]:
        raise StorageError("the disk is gone", hint="Find it.")

    def claim(self, keys: Iterable[str], *, expires_s: float) -> Claim:
        raise StorageError("the disk is gone", hint="Find it.")

    def release(self, claim: Claim) -> None:
        raise StorageError("the disk is gone", hint="Find it.")


def test_a_good_cache_is_used(tmp_path: Path) -> None:
    errors: list[StorageError] = []
    with ResultCache(tmp_path / "results.sqlite") as inner:
        cache: Cache = TolerantCache(inner, errors.append)
        assert cache.put("a", b"1", kind="speech")
        assert cache.get_many(["a", "b"]).keys() == {"a"}
        assert cache.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
    assert errors == []


def test_a_failure_is_reported_once(tmp_path: Path) -> None:
    errors: list[StorageError] = []
    with Failing(tmp_path / "results.sqlite") as inner:
        cache = TolerantCache(inner, errors.append)
        assert cache.get_many(["a"]) == {}
        assert cache.get_many(["a"]) == {}
        assert cache.claim(["a"], expires_s=1) == Claim("", frozenset({"a"}))
        cache.release(Claim("token", frozenset({"a"})))
    assert len(errors) == 1


class FailingOnce(ResultCache):
    """Its disk is gone for a moment."""

    is_gone = True

    def has(self, keys: Iterable[str]) -> set[str]:
        if self.is_gone:
            self.is_gone = False
            raise StorageError("the disk is gone", hint="Find it.")
        return super().has(keys)


def test_after_a_failure_nothing_is_found_and_the_cache_is_left_alone(tmp_path: Path) -> None:
    errors: list[StorageError] = []
    with FailingOnce(tmp_path / "results.sqlite") as inner:
        cache: Cache = TolerantCache(inner, errors.append)
        cache.put("a", b"1", kind="speech")
        for _ in range(2):
            assert cache.has(["a"]) == set()
            assert cache.get("a") is None
        assert cache.put("b", b"2", kind="speech") is False
        assert cache.delete("a") is False
        cache.replace("a", b"3", kind="speech")
        assert inner.has(["a", "b"]) == {"a"}
        assert inner.get_many(["a"])["a"].data == b"1"
    assert len(errors) == 1


@pytest.mark.parametrize("when", ["before", "within"])
def test_pins_of_a_cache_that_fails_cost_no_work(tmp_path: Path, when: str) -> None:
    errors: list[StorageError] = []
    inner = ResultCache(tmp_path / "results.sqlite")
    cache: Cache = TolerantCache(inner, errors.append)
    worked = False
    if when == "before":
        inner.file.close()
    with cache.pin_for_job("book"):
        inner.file.close()
        assert cache.get("a") is None
        worked = True
    cache.close()
    assert worked
    assert len(errors) == 1
    with pytest.raises(ZeroDivisionError), cache.pin_for_job("book"):
        raise ZeroDivisionError
