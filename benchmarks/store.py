"""Results that the cache writes and reads a second, from one process and from two, beside files.

The peer is a folder of files with checksums, written with flush and rename; it has no size limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from anyrig.storage.cache import ResultCache
from anyrig.storage.keys import make_key
from benchmarks.harness import Row, median_and_range
from benchmarks.processes import child_environment, start_process

# Size in bytes: how many results one process writes.
SIZES = {4096: 2000, 300_000: 200}
ROUNDS = 3
SIZE_NAMES = {4096: "4 KB", 300_000: "300 KB"}
# The cache is never what an engine waits for; this bar shows when that changes.
LOWEST = 0.1
PEER = "files, checksum, flush, rename"
Action = Callable[[str], Any]


def run(hardware: str) -> list[Row]:
    rows = []
    for size, title in SIZE_NAMES.items():
        for processes, many in ((1, "one process"), (2, "two processes")):
            ours, theirs = _measure("ours", size, processes), _measure("files", size, processes)
            for action, rates in ours.items():
                rate, spread = median_and_range(rates)
                rows.append(
                    Row(f"{action} of {title}, {many}", rate, "/s",
                        median_and_range(theirs[action])[0], PEER, low=LOWEST, judge="ratio",
                        spread=spread)
                )  # fmt: skip
    return rows


def _measure(cache: str, size: int, processes: int) -> dict[str, list[float]]:
    """Operations a second of all processes together, of each round."""
    rates: dict[str, list[float]] = {"put": [], "get": []}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_FOLDER")) as folder:
            for action in rates:
                rates[action].append(_measure_once(cache, action, size, processes, folder))
    return rates


def _measure_once(cache: str, action: str, size: int, processes: int, folder: str) -> float:
    command = [sys.executable, "-m", "benchmarks.store", cache, action, str(size)]
    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(
                start_process(
                    [*command, str(number), folder], child_environment(), stdin=subprocess.PIPE
                )
            )
            for number in range(processes)
        ]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()  # ready
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        times: list[tuple[float, float]] = [json.loads(one.communicate()[0]) for one in workers]
    wall_s = max(end for _, end in times) - min(start for start, _ in times)
    return processes * SIZES[size] / wall_s


# -- a process of its own ------------------------------------------------------------------------


def _work(cache: str, action: str, size: int, number: int, folder: Path) -> None:
    """Write the results of one process, or read them."""
    keys = [make_key(process=number, number=index) for index in range(SIZES[size])]
    with CACHES[cache](folder, size) as (put, get):
        call = put if action == "put" else get
        print("ready", flush=True)
        sys.stdin.readline()
        start = time.time()
        for key in keys:
            call(key)
        print(json.dumps([start, time.time()]), flush=True)


@contextlib.contextmanager
def _ours(folder: Path, size: int) -> Iterator[tuple[Action, Action]]:
    data = os.urandom(size)
    with ResultCache(folder / "results.sqlite") as store:
        yield (
            lambda key: store.put(key, data, kind="speech", metadata={"engine": "tone"}),
            lambda key: _check_found(store.get(key)),
        )


@contextlib.contextmanager
def _files(folder: Path, size: int) -> Iterator[tuple[Action, Action]]:
    data = os.urandom(size)

    def put(key: str) -> None:
        parent = folder / key[3:5]
        parent.mkdir(exist_ok=True)
        with open(parent / f".{key}", "wb") as file:
            file.write(hashlib.sha256(data).digest())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(parent / f".{key}", parent / key)

    def get(key: str) -> None:
        found = (folder / key[3:5] / key).read_bytes()
        assert hashlib.sha256(memoryview(found)[32:]).digest() == found[:32]

    yield put, get


def _check_found(value: object) -> None:
    assert value is not None


CACHES = {"ours": _ours, "files": _files}

if __name__ == "__main__":
    _work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
