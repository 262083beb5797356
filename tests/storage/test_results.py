"""The store in good times: first take, uses, eviction, jobs, threads, processes, pruning."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidInputError
from anyrig.storage.key import Plain, key
from anyrig.storage.protocol import Entry, Results
from anyrig.storage.results import Store
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
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite", limit_bytes=2 * MIB, clock=clock) as store:
        yield store


def _fill(store: Store, count: int, size: int = 20_000, **parts: Any) -> list[str]:
    keys = [key(number=number, **parts) for number in range(count)]
    store.put_many(Entry(name, random.randbytes(size), "speech") for name in keys)
    return keys


def test_a_result_comes_back_as_it_was(store: Store) -> None:
    note: dict[str, Plain] = {
        "engine": "tone",
        "seconds": 1.5,
        "text": "Zwölf \ud83d",
        "list": [None, True],
    }
    assert store.put("a", b"\x00data", kind="speech", note=note)
    found = store.get("a")
    assert found is not None
    assert (found.key, found.kind, found.data, found.note) == ("a", "speech", b"\x00data", note)
    assert found.made > 0
    assert store.get("b") is None
    assert store.put("empty", b"", kind="speech")
    assert store.get_many(["a", "empty", "b", "a"]).keys() == {"a", "empty"}


def test_it_fits_the_protocol(store: Store) -> None:
    results: Results = store
    assert results.has(["a"]) == set()


def test_the_first_take_is_final(store: Store) -> None:
    assert store.put("a", b"first", kind="speech")
    assert not store.put("a", b"second", kind="page", note={"x": 1})
    found = store.get("a")
    assert found is not None
    assert (found.data, found.kind, found.note) == (b"first", "speech", {})
    assert store.put_many([Entry("a", b"3", "speech"), Entry("b", b"4", "speech")]) == 1


def test_a_new_take_and_a_dropped_one(store: Store) -> None:
    store.replace("a", b"first", kind="speech")
    store.replace("a", b"second", kind="speech", note={"take": 2})
    found = store.get("a")
    assert found is not None
    assert (found.data, found.note) == (b"second", {"take": 2})
    assert store.size().num_results == 1
    assert store.drop("a")
    assert not store.drop("a")
    assert store.get("a") is None
    assert store.put("a", b"third", kind="speech")


def test_many_keys_at_once(store: Store) -> None:
    keys = _fill(store, 1200, size=10)
    others = [key(other=number) for number in range(1200)]
    assert store.has([*keys, *others]) == set(keys)
    assert store.get_many([*keys, *others]).keys() == set(keys)


def test_large_results(tmp_path: Path) -> None:
    data = random.randbytes(30_000_000)
    with Store(tmp_path / "r") as store:
        store.put("a", data, kind="speech")
    with Store(tmp_path / "r") as store:
        found = store.get("a")
        assert found is not None
        assert found.data == data
        # The log does not stay as large as what went through it.
        assert store.size().file_bytes < 30_000_000 + 17 * MIB
        store.prune(to_bytes=0)
        assert store.size().file_bytes < 100_000


@pytest.mark.parametrize(
    ("name", "kind", "note"),
    [("", "speech", {}), ("ü", "speech", {}), ("a b", "speech", {}), ("x" * 201, "speech", {}),
     ("a", "", {}), ("a", "Speech", {}), ("a", "a b", {}), ("a", "speech", {"x": b""}),
     ("a", "speech", {"x": float("nan")})],
)  # fmt: skip
def test_what_cannot_be_kept(store: Store, name: str, kind: str, note: Any) -> None:
    with pytest.raises(InvalidInputError):
        store.put(name, b"", kind=kind, note=note)
    assert store.size().num_results == 0


# -- the limit ---------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(store: Store) -> None:
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
    size = store.size()
    assert 0.7 * 2 * MIB < size.used_bytes <= 2 * MIB
    assert size.counters["evicted"] == 120 - size.num_results


def test_eviction_stops_at_nine_tenths(tmp_path: Path) -> None:
    with Store(tmp_path / "r", limit_bytes=MIB) as store:
        used = 0
        for number in range(200):
            store.put(str(number), random.randbytes(10_000), kind="speech")
            now = store.size().used_bytes
            if now < used:
                assert 0.85 * MIB < now <= 0.92 * MIB
            used = now
        assert store.get("199")


def test_uses_outlive_the_process(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "r"
    with Store(path, clock=clock) as store:
        keys = _fill(store, 60)
    with Store(path, clock=clock) as store:
        assert store.get(keys[0])
    with Store(path, limit_bytes=MIB, clock=clock) as store:
        store.prune()
        assert keys[0] in store.has(keys)
        assert keys[1] not in store.has(keys)
        assert store.size().counters["hits"] == 1


def test_a_read_is_no_write(store: Store) -> None:
    """Uses are written down in batches; a reader leaves the file alone in between."""
    keys = _fill(store, 100, size=100)
    log_file = Path(f"{store.path}-wal")
    before = log_file.stat().st_size, log_file.stat().st_mtime_ns
    for name in keys:
        assert store.get(name)
    assert (log_file.stat().st_size, log_file.stat().st_mtime_ns) == before
    store.size()
    assert log_file.stat().st_mtime_ns != before[1]


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    with Store(tmp_path / "r", limit_bytes=2 * MIB) as store:
        for number in range(40):
            _fill(store, 40, size=20_000, round=number)
        assert store.size().used_bytes <= 2 * MIB
    # The free pages of an eviction are filled again; the log is folded in at the end.
    assert (tmp_path / "r").stat().st_size < 4 * MIB


# -- jobs --------------------------------------------------------------------------------------


def test_what_a_job_needs_is_not_evicted(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A book larger than the limit: it goes over, with a warning, and comes back under it."""
    old = _fill(store, 50, old=True)
    caplog.set_level(logging.WARNING)
    with store.holding("book"):
        assert store.has(old[:5]) == set(old[:5])  # asked for in the plan, read at the end
        assert store.get(old[5])
        keys = _fill(store, 100)
        more = _fill(store, 100, more=True)
        assert store.has([*keys, *more, *old[:6]]) == {*keys, *more, *old[:6]}
        assert not store.has(old[6:])
        size = store.size()
        assert size.used_bytes > 2 * MIB
        assert (size.num_held, size.jobs) == (206, ("book",))
        assert "over its limit of 2 MiB" in caplog.text
    assert store.size().used_bytes <= 2 * MIB
    assert store.size().jobs == ()


def test_another_process_heeds_a_job(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with Store(path, limit_bytes=2 * MIB) as one, Store(path, limit_bytes=2 * MIB) as other:
        keys = _fill(one, 50)
        with one.holding("book"):
            assert one.has(keys) == set(keys)
            _fill(other, 100, other=True)
            assert other.has(keys) == set(keys)
            with one.holding("worker of it", release=False):
                pass
            assert set(other.size().jobs) == {"book", "worker of it"}
        _fill(other, 100, third=True)
        assert not other.has(keys)


def _interrupted(store: Store) -> list[str]:
    """The results of a job that was broken off."""
    keys = []
    with contextlib.suppress(KeyboardInterrupt), store.holding("book"):
        keys = _fill(store, 50)
        raise KeyboardInterrupt
    return keys


def test_a_failed_job_keeps_what_it_has(store: Store, clock: Clock) -> None:
    keys = _interrupted(store)
    _fill(store, 200, more=True)
    assert store.has(keys) == set(keys)
    with store.holding("book"):  # resumed: they are still its own
        clock.now += 2 * 86400
        assert store.has(keys) == set(keys)
    clock.now += 60
    _fill(store, 200, third=True)
    assert not store.has(keys)


def test_an_abandoned_job_lapses(store: Store, clock: Clock) -> None:
    keys = _interrupted(store)
    clock.now += 4 * 86400
    _fill(store, 200, more=True)
    assert not store.has(keys)
    assert store.size().jobs == ()


def test_jobs_within_jobs(store: Store) -> None:
    with store.holding("outer"):
        keys = _fill(store, 40)
        with store.holding("inner"):
            assert store.get(keys[0])
            assert store.size().num_held == 40
        _fill(store, 100, more=True)
        assert store.has(keys) == set(keys)


def test_a_hold_does_not_stand_for_a_dropped_result(store: Store) -> None:
    with store.holding("book"):
        store.put("a", b"1", kind="speech")
        store.drop("a")
        assert store.size().num_held == 0
        store.put("a", b"2", kind="speech")
        store.replace("a", b"3", kind="speech")
        assert store.size().num_held == 1


# -- pruning -----------------------------------------------------------------------------------


def test_prune(store: Store, clock: Clock) -> None:
    store.put("old", random.randbytes(1000), kind="speech", note={"engine": "tone"})
    clock.now += 100
    store.put("page", random.randbytes(1000), kind="page", note={"engine": "reader"})
    store.put("new", random.randbytes(1000), kind="speech", note={"engine": "piper"})
    assert store.prune(older_than_s=50, dry_run=True)[:2] == (1, 1000)
    assert store.size().num_results == 3
    assert store.prune() == (0, 0, 0)  # under the limit
    assert store.prune(kind="none") == (0, 0, 0)
    assert store.prune(engine="reader")[:2] == (1, 1000)
    assert store.prune(kind="speech", to_bytes=1500)[:2] == (1, 1000)
    assert store.has(["old", "page", "new"]) == {"new"}
    assert store.prune(to_bytes=0)[:2] == (1, 1000)


def test_prune_leaves_what_jobs_need(store: Store) -> None:
    with store.holding("book"):
        keys = _fill(store, 5)
        store.put("b", b"", kind="page")
        assert store.prune(to_bytes=0) == (0, 0, 6)
        assert store.prune(kind="page", held=True) == (1, 0, 0)
        assert store.has(keys) == set(keys)


def test_prune_gives_the_room_back(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with Store(tmp_path / "r") as store:
        _fill(store, 3000, size=4096)
        full = store.size().file_bytes
        store.prune(to_bytes=MIB, tell=lambda done, total: told.append((done, total)))
        assert store.size().file_bytes <= MIB
        assert store.size().file_bytes < full / 5
    assert told[-1][0] > 2500
    assert len(told) > 1  # in steps


@pytest.mark.parametrize("wal", [True, False], ids=["wal", "delete"])
def test_everything_goes_at_once(tmp_path: Path, wal: bool) -> None:
    """The file itself goes when nobody else has it open; its rows go otherwise."""
    path = tmp_path / "r"
    with Store(path, wal=wal) as one, Store(path, wal=wal) as other:
        keys = _fill(one, 20)
        with other.holding("book"):
            assert other.has(keys) == set(keys)
            assert one.prune(to_bytes=0) == (0, 0, 20)
            assert one.prune(to_bytes=0, held=True)[0] == 20
            assert other.has(keys) == set()
            assert other.put("a", b"1", kind="speech")
            assert one.size().num_held == 1
            path.unlink()  # by hand
            for end in ("-wal", "-shm", "-journal"):
                Path(f"{path}{end}").unlink(missing_ok=True)
            assert other.put("a", b"2", kind="speech")
            assert (one.size().num_held, one.size().jobs) == (1, ("book",))
        other.close()
        assert one.prune(to_bytes=0)[0] == 1
        assert not path.exists()
        assert one.put("b", b"2", kind="speech")
        with Store(path, wal=wal) as third:
            assert third.has("ab") == {"b"}


# -- together ----------------------------------------------------------------------------------


def test_threads(store: Store) -> None:
    failures: list[BaseException] = []
    won = []

    def work(number: int) -> None:
        try:
            for step in range(150):
                name = key(step=step % 40)
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
    assert sorted(won) == sorted(key(step=step) for step in range(40))


_RACER = """
import json, sys
from pathlib import Path
from anyrig.storage.results import Store
path, name = Path(sys.argv[1]), sys.argv[2]
won, seen = [], {}
with Store(path) as store:
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
        "import os, sys; from pathlib import Path; from anyrig.storage.results import Store\n"
        "store = Store(Path(sys.argv[1])); store.put('a', b'1', kind='speech')\n"
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
    code = "import sys, anyrig.storage.results; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert not {"numpy", "torch", "asyncio", "zipfile", "psutil"} & set(done.stdout.split())
