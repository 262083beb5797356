"""Results kept and read back a second, from one process and from two, beside the peer's.

The peer is diskcache where it is installed, with the same policy (least recently used; it has no
checksums, ours are computed and looked at); else plain files with a checksum, written with flush
and rename, which know nothing of a limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from anyrig.storage.cache import ResultCache
from anyrig.storage.keys import make_key
from benchmarks.harness import ROOT, Row, python

# bytes -> how many of them one process keeps.
SIZES = {4096: 2000, 300_000: 200}
ROUNDS = 3
_SIZE_NAMES = {4096: "4 KB", 300_000: "300 KB"}
# Ours must be at least this share of the peer's, for the worst of its rows: the store is never what
# work waits for, and this notices when that changes.
LOWEST = 0.1
Action = Callable[[str], Any]


def run(hardware: str) -> list[Row]:
    peer = "diskcache" if importlib.util.find_spec("diskcache") else "files"
    name = {"diskcache": "diskcache, LRU", "files": "files, checksum, flush, rename"}[peer]
    rows = []
    for size in SIZES:
        for processes in (1, 2):
            ours, theirs = _rates("ours", size, processes), _rates(peer, size, processes)
            for action in ("put", "get"):
                values, others = ours[action], theirs[action]
                many = "one process" if processes == 1 else "two processes"
                rows.append(
                    Row(f"{action} of {_SIZE_NAMES[size]}, {many}", statistics.median(values), "/s",
                        statistics.median(others), name, low=LOWEST, judge="ratio",
                        spread=f"{min(values):.3g}-{max(values):.3g} of {len(values)}")
                )  # fmt: skip
    return rows


def _rates(who: str, size: int, processes: int) -> dict[str, list[float]]:
    """Operations a second of all processes together, round by round."""
    found: dict[str, list[float]] = {"put": [], "get": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as folder:
            for action in found:
                found[action].append(_rate(who, action, size, processes, folder))
    return found


def _rate(who: str, action: str, size: int, processes: int, folder: str) -> float:
    path = (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    workers = [
        subprocess.Popen(
            python("-m", "benchmarks.store", who, action, str(size), str(number), folder),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT,
        )
        for number in range(processes)
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()  # ready
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    times: list[tuple[float, float]] = [json.loads(worker.communicate()[0]) for worker in workers]
    wall = max(end for _, end in times) - min(start for start, _ in times)
    return processes * SIZES[size] / wall


# -- a worker ----------------------------------------------------------------------------------


def _work(who: str, action: str, size: int, number: int, folder: Path) -> None:
    """Keep or read one process's share; a reader asks for what all of them kept, its own first."""
    keys = [make_key(process=number, number=index) for index in range(SIZES[size])]
    with _OPENED[who](folder, size) as (put, get):
        do = put if action == "put" else get
        print("ready", flush=True)
        sys.stdin.readline()
        start = time.time()
        for name in keys:
            do(name)
        print(json.dumps([start, time.time()]), flush=True)


@contextlib.contextmanager
def _ours(folder: Path, size: int) -> Iterator[tuple[Action, Action]]:
    data = os.urandom(size)
    with ResultCache(folder / "results.sqlite") as store:
        yield (
            lambda name: store.put(name, data, kind="speech", metadata={"engine": "tone"}),
            lambda name: _whole(store.get(name)),
        )


@contextlib.contextmanager
def _diskcache(folder: Path, size: int) -> Iterator[tuple[Action, Action]]:
    diskcache = importlib.import_module("diskcache")
    data = os.urandom(size)
    with diskcache.Cache(
        str(folder), eviction_policy="least-recently-used", size_limit=10 << 30
    ) as cache:
        yield lambda name: cache.add(name, data), lambda name: _whole(cache.get(name))


@contextlib.contextmanager
def _files(folder: Path, size: int) -> Iterator[tuple[Action, Action]]:
    data = os.urandom(size)

    def put(name: str) -> None:
        place = folder / name[3:5]
        place.mkdir(exist_ok=True)
        with open(place / f".{name}", "wb") as file:
            file.write(hashlib.sha256(data).digest())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(place / f".{name}", place / name)

    def get(name: str) -> None:
        found = (folder / name[3:5] / name).read_bytes()
        assert hashlib.sha256(memoryview(found)[32:]).digest() == found[:32]

    yield put, get


def _whole(found: object) -> None:
    assert found is not None


_OPENED = {"ours": _ours, "diskcache": _diskcache, "files": _files}

if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
