"""The result cache: results, eviction, pins of jobs, pruning, threads and processes, misuse."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidInputError, StorageError
from anyrig.storage.cache import Cache, CacheEntry, ResultCache
from anyrig.storage.keys import JsonValue, make_key
from anyrig.units import MIB
from tests.conftest import ROOT


class Clock:
    """A clock that moves when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "results.sqlite", limit_bytes=2 * MIB, clock=clock) as store:
        yield store


def _fill(store: ResultCache, count: int, size: int = 20_000, **parts: Any) -> list[str]:
    keys = [make_key(number=number, **parts) for number in range(count)]
    store.put_many(CacheEntry(name, random.randbytes(size), "speech") for name in keys)
    return keys


def test_a_result_comes_back_as_it_was(store: ResultCache) -> None:
    note: dict[str, JsonValue] = {
        "engine": "tone",
        "seconds": 1.5,
        "text": "Zwölf \ud83d",
        "list": [None, True],
    }
    assert store.put("a", b"\x00data", kind="speech", metadata=note)
    found = store.get("a")
    assert found is not None
    assert (found.key, found.kind, found.data, found.metadata) == ("a", "speech", b"\x00data", note)
    assert store.get("b") is None
    assert store.put("empty", b"", kind="speech")
    assert store.get_many(["a", "empty", "b", "a"]).keys() == {"a", "empty"}


def test_it_fits_the_protocol(store: ResultCache) -> None:
    results: Cache = store
    assert results.has(["a"]) == set()


def test_the_first_take_is_final(store: ResultCache) -> None:
    assert store.put("a", b"first", kind="speech")
    assert not store.put("a", b"second", kind="page", metadata={"x": 1})
    found = store.get("a")
    assert found is not None
    assert (found.data, found.kind, found.metadata) == (b"first", "speech", {})
    assert store.put_many([CacheEntry("a", b"3", "speech"), CacheEntry("b", b"4", "speech")]) == 1


def test_a_new_take_and_a_dropped_one(store: ResultCache) -> None:
    store.replace("a", b"first", kind="speech")
    store.replace("a", b"second", kind="speech", metadata={"take": 2})
    found = store.get("a")
    assert found is not None
    assert (found.data, found.metadata) == (b"second", {"take": 2})
    assert store.stats().num_results == 1
    assert store.delete("a")
    assert not store.delete("a")
    assert store.get("a") is None
    assert store.put("a", b"third", kind="speech")


def test_many_keys_at_once(store: ResultCache) -> None:
    keys = _fill(store, 1200, size=10)
    others = [make_key(other=number) for number in range(1200)]
    assert store.has([*keys, *others]) == set(keys)
    assert store.get_many([*keys, *others]).keys() == set(keys)


def test_large_results(tmp_path: Path) -> None:
    data = random.randbytes(30_000_000)
    with ResultCache(tmp_path / "r") as store:
        store.put("a", data, kind="speech")
    with ResultCache(tmp_path / "r") as store:
        found = store.get("a")
        assert found is not None
        assert found.data == data
        # The log does not stay as large as what went through it.
        assert store.stats().file_bytes < 30_000_000 + 17 * MIB
        store.prune(to_bytes=0)
        assert store.stats().file_bytes < 100_000


@pytest.mark.parametrize(
    ("name", "kind", "note"),
    [("", "speech", {}), ("ü", "speech", {}), ("a b", "speech", {}), ("x" * 201, "speech", {}),
     ("a", "", {}), ("a", "Speech", {}), ("a", "a b", {}), ("a", "speech", {"x": b""}),
     ("a", "speech", {"x": float("nan")})],
)  # fmt: skip
def test_what_cannot_be_kept(store: ResultCache, name: str, kind: str, note: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.put(name, b"", kind=kind, metadata=note)
    assert store.stats().num_results == 0


# -- the limit ---------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(store: ResultCache) -> None:
    """2 MiB hold some 80 of these; the first ten are read again and again."""
    keys = _fill(store, 60)
    for name in keys[:10]:
        assert store.get(name)
    more = _fill(store, 60, more=True)
    kept = [name in store.has([*keys, *more]) for name in [*keys, *more]]
    assert all(kept[:10])
    assert all(kept[-30:])
    middle = kept[10:-30]
    # Oldest first: what is gone lies before what is kept.
    assert middle == sorted(middle)
    assert not all(middle)
    size = store.stats()
    assert 0.7 * 2 * MIB < size.used_bytes <= 2 * MIB
    assert size.counters["evicted"] == 120 - size.num_results


def test_eviction_stops_at_nine_tenths(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "r", limit_bytes=MIB) as store:
        used = 0
        for number in range(200):
            store.put(str(number), random.randbytes(10_000), kind="speech")
            now = store.stats().used_bytes
            if now < used:
                assert 0.85 * MIB < now <= 0.92 * MIB
            used = now
        assert store.get("199")


def test_uses_outlive_the_process(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "r"
    with ResultCache(path, clock=clock) as store:
        keys = _fill(store, 60)
    with ResultCache(path, clock=clock) as store:
        assert store.get(keys[0])
    with ResultCache(path, limit_bytes=MIB, clock=clock) as store:
        store.prune()
        assert keys[0] in store.has(keys)
        assert keys[1] not in store.has(keys)
        assert store.stats().counters["hits"] == 1


def test_a_read_is_no_write(store: ResultCache) -> None:
    """Uses are written down in batches; a reader leaves the file alone in between."""
    keys = _fill(store, 100, size=100)
    log_file = Path(f"{store.path}-wal")
    before = log_file.stat().st_size, log_file.stat().st_mtime_ns
    for name in keys:
        assert store.get(name)
    assert (log_file.stat().st_size, log_file.stat().st_mtime_ns) == before
    store.stats()
    assert log_file.stat().st_mtime_ns != before[1]


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    with ResultCache(tmp_path / "r", limit_bytes=2 * MIB) as store:
        for number in range(40):
            _fill(store, 40, size=20_000, round=number)
        assert store.stats().used_bytes <= 2 * MIB
    # The free pages of an eviction are filled again; the log is folded in at the end.
    assert (tmp_path / "r").stat().st_size < 4 * MIB


# -- jobs --------------------------------------------------------------------------------------


def test_what_a_job_needs_is_not_evicted(
    store: ResultCache, caplog: pytest.LogCaptureFixture
) -> None:
    """A book larger than the limit: it goes over, with a warning, and comes back under it."""
    old = _fill(store, 50, old=True)
    caplog.set_level(logging.WARNING)
    with store.pin_for_job("book"):
        assert store.has(old[:5]) == set(old[:5])  # asked for in the plan, read at the end
        assert store.get(old[5])
        keys = _fill(store, 100)
        more = _fill(store, 100, more=True)
        assert store.has([*keys, *more, *old[:6]]) == {*keys, *more, *old[:6]}
        assert not store.has(old[6:])
        size = store.stats()
        assert size.used_bytes > 2 * MIB
        assert (size.num_pinned, size.jobs) == (206, ("book",))
        assert "over its limit of 2 MiB" in caplog.text
    assert store.stats().used_bytes <= 2 * MIB
    assert store.stats().jobs == ()


def test_another_process_heeds_a_job(tmp_path: Path) -> None:
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


def _interrupted(store: ResultCache) -> list[str]:
    """The results of a job that was broken off."""
    keys = []
    with contextlib.suppress(KeyboardInterrupt), store.pin_for_job("book"):
        keys = _fill(store, 50)
        raise KeyboardInterrupt
    return keys


def test_a_failed_job_keeps_what_it_has(store: ResultCache, clock: Clock) -> None:
    keys = _interrupted(store)
    _fill(store, 200, more=True)
    assert store.has(keys) == set(keys)
    with store.pin_for_job("book"):  # resumed: they are still its own
        clock.now += 2 * 86400
        assert store.has(keys) == set(keys)
    clock.now += 60
    _fill(store, 200, third=True)
    assert not store.has(keys)


def test_an_abandoned_job_lapses(store: ResultCache, clock: Clock) -> None:
    keys = _interrupted(store)
    clock.now += 4 * 86400
    _fill(store, 200, more=True)
    assert not store.has(keys)
    assert store.stats().jobs == ()


def test_jobs_within_jobs(store: ResultCache) -> None:
    with store.pin_for_job("outer"):
        keys = _fill(store, 40)
        with store.pin_for_job("inner"):
            assert store.get(keys[0])
            assert store.stats().num_pinned == 40
        _fill(store, 100, more=True)
        assert store.has(keys) == set(keys)


def test_a_hold_does_not_stand_for_a_dropped_result(store: ResultCache) -> None:
    with store.pin_for_job("book"):
        store.put("a", b"1", kind="speech")
        store.delete("a")
        assert store.stats().num_pinned == 0
        store.put("a", b"2", kind="speech")
        store.replace("a", b"3", kind="speech")
        assert store.stats().num_pinned == 1


# -- pruning -----------------------------------------------------------------------------------


def test_prune(store: ResultCache, clock: Clock) -> None:
    store.put("old", random.randbytes(1000), kind="speech", metadata={"engine": "tone"})
    clock.now += 100
    store.put("page", random.randbytes(1000), kind="page", metadata={"engine": "reader"})
    store.put("new", random.randbytes(1000), kind="speech", metadata={"engine": "piper"})
    assert store.prune(older_than_s=50, dry_run=True)[:2] == (1, 1000)
    assert store.stats().num_results == 3
    assert store.prune() == (0, 0, 0)  # under the limit
    assert store.prune(kind="none") == (0, 0, 0)
    assert store.prune(engine="reader")[:2] == (1, 1000)
    assert store.prune(kind="speech", to_bytes=1500)[:2] == (1, 1000)
    assert store.has(["old", "page", "new"]) == {"new"}
    assert store.prune(to_bytes=0)[:2] == (1, 1000)


def test_prune_leaves_what_jobs_need(store: ResultCache) -> None:
    with store.pin_for_job("book"):
        keys = _fill(store, 5)
        store.put("b", b"", kind="page")
        assert store.prune(to_bytes=0) == (0, 0, 6)
        assert store.prune(kind="page", include_pinned=True) == (1, 0, 0)
        assert store.has(keys) == set(keys)


def test_prune_gives_the_room_back(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with ResultCache(tmp_path / "r") as store:
        _fill(store, 3000, size=4096)
        full = store.stats().file_bytes
        store.prune(to_bytes=MIB, on_progress=lambda done, total: told.append((done, total)))
        assert store.stats().file_bytes <= MIB
        assert store.stats().file_bytes < full / 5
    assert told[-1][0] > 2500
    assert len(told) > 1  # in steps


@pytest.mark.parametrize("drive", ["", "nfs4"], ids=["wal", "delete"])
def test_prune_deletes_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: str
) -> None:
    """When no other process has it open; otherwise its rows."""
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
        other.close()
        assert one.prune(to_bytes=0)[0] == 1
        assert not path.exists()
        assert one.put("b", b"2", kind="speech")
        with ResultCache(path) as third:
            assert third.has("ab") == {"b"}


# -- together ----------------------------------------------------------------------------------


def test_threads(store: ResultCache) -> None:
    failures: list[BaseException] = []
    won = []

    def work(number: int) -> None:
        try:
            for step in range(150):
                name = make_key(step=step % 40)
                if store.put(name, f"{number}".encode() * 100, kind="speech"):
                    won.append(name)
                found = store.get(name)
                assert found is not None
                assert len(set(found.data)) == 1
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(won) == sorted(make_key(step=step) for step in range(40))


_RACER = """
import json, sys
from pathlib import Path
from anyrig.storage.cache import ResultCache
path, name = Path(sys.argv[1]), sys.argv[2]
won, seen = [], {}
with ResultCache(path) as store:
    for number in range(300):
        if store.put(f"key-{number}", f"{name} {number}".encode(), kind="speech"):
            won.append(number)
        seen[number] = store.get(f"key-{number}").data.decode()
print(json.dumps([won, seen]))
"""


def test_processes_agree_on_who_was_first(tmp_path: Path) -> None:
    """All begin at once, on a file that is not there yet."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", _RACER, str(tmp_path / "new" / "r")]
    racers = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=environment)
        for name in ("one", "two", "three", "four")
    ]
    told = [json.loads(racer.communicate(timeout=120)[0]) for racer in racers]
    wins = [number for won, _ in told for number in won]
    assert sorted(wins) == list(range(300))
    assert all(seen == told[0][1] for _, seen in told)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_carries_no_connection(tmp_path: Path) -> None:
    """A child that inherits a store opens the file for itself."""
    code = (
        "import os, sys; from pathlib import Path; from anyrig.storage.cache import ResultCache\n"
        "store = ResultCache(Path(sys.argv[1])); store.put('a', b'1', kind='speech')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    store.put('b', b'2', kind='speech'); store.close(); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "store.put('c', b'3', kind='speech')\n"
        "assert store.has('abc') == set('abc'); store.close()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r")], check=True, env=environment, timeout=60
    )


def test_the_store_is_light() -> None:
    """It is opened by every worker: nothing heavy comes along."""
    code = "import sys, anyrig.storage.cache; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert not {"numpy", "torch", "asyncio", "zipfile", "psutil"} & set(done.stdout.split())


# -- misuse ------------------------------------------------------------------------------------


def _pin(store: ResultCache) -> None:
    with store.pin_for_job("job"):
        pass


def test_a_path_of_text(tmp_path: Path) -> None:
    with ResultCache(str(tmp_path / "r")) as store:
        assert store.put("a", b"1", kind="speech")
        assert store.path == tmp_path / "r"


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get("a"),
        lambda store: store.get_many([]),
        lambda store: store.has(["a"]),
        lambda store: store.put("a", b"", kind="speech"),
        lambda store: store.put_many([]),
        lambda store: store.replace("a", b"", kind="speech"),
        lambda store: store.delete("a"),
        lambda store: store.stats(),
        lambda store: store.prune(),
        lambda store: store.verify(),
        lambda store: list(store.iter_results()),
        _pin,
    ],
)
def test_a_closed_store_refuses_everything(
    tmp_path: Path, call: Callable[[ResultCache], object]
) -> None:
    store = ResultCache(tmp_path / "r")
    store.put("a", b"1", kind="speech")
    store.close()
    store.close()
    with pytest.raises(StorageError, match="is closed") as caught:
        call(store)
    assert "reopen it" in caught.value.hint


@pytest.mark.parametrize("limit", [0, -5, float("nan")])
def test_a_limit_below_a_byte(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="limit_bytes is") as caught:
        ResultCache(tmp_path / "r", limit_bytes=limit)
    assert "10 GiB" in caught.value.hint


@pytest.mark.parametrize("data", ["x", 5, None, [1, 2]])
def test_data_that_is_not_bytes(tmp_path: Path, data: Any) -> None:
    with ResultCache(tmp_path / "r") as store:
        with pytest.raises(
            InvalidInputError, match=f"data is {type(data).__name__}, not bytes"
        ) as caught:
            store.put("a", data, kind="speech")
        assert ".encode()" in caught.value.hint
        good: list[Any] = [bytearray(b"1"), memoryview(b"1")]
        assert [store.put(f"b{n}", data, kind="speech") for n, data in enumerate(good)] == [
            True
        ] * 2


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is a folder") as caught:
        ResultCache(tmp_path)
    assert str(tmp_path / "results.sqlite") in caught.value.hint


# -- deleting for good -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [12, 3_000, 200_000])
def test_no_byte_is_left_of_what_was_dropped(tmp_path: Path, size: int) -> None:
    secret = (b"the secret of %d bytes " % size * (size // 10))[:size]
    with ResultCache(tmp_path / "results.sqlite") as store:
        for number in range(20):
            store.put(make_key(text=str(number)), b"%d" % number * 500, kind="embedding")
        store.put(make_key(text="secret"), secret, kind="embedding")
        for number in range(20, 40):
            store.put(make_key(text=str(number)), b"%d" % number * 500, kind="embedding")
        assert _found(tmp_path, secret[:12])
        assert store.delete(make_key(text="secret"))
        store.scrub()
        assert not _found(tmp_path, secret[:12])
        assert store.stats().num_results == 40


def _found(folder: Path, needle: bytes) -> bool:
    return any(needle in path.read_bytes() for path in folder.glob("results.sqlite*"))
