"""2,000 requests of all kinds against a real server: its resident memory must not grow.

Eight clients do what `serve_crowd` says. The server runs with its default voice and models, one
process each, and its page; nothing is unloaded in between. What is resident in the whole process
tree is looked at after the first requests have loaded everything, and again at the end, both times
when nothing is going on and pages that were closed are forgotten.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.harness import ROOT, Row
from benchmarks.serve_crowd import Crowd

REQUESTS = int(os.environ.get("BENCHMARK_REQUESTS", "2000"))
WARM = 0.2
"""The share of requests after which everything has been loaded and has seen its largest batch."""
CLIENTS = 8
_RESTS_S = 10.0
"""A page that was left is forgotten some seconds later."""


def run(hardware: str) -> list[Row]:
    """The growth, and what was answered."""
    with tempfile.TemporaryDirectory() as home, _server(Path(home)) as (url, process):
        crowd = Crowd(url, CLIENTS)
        crowd.prepare()
        crowd.send(round(REQUESTS * WARM))
        before = _resident(process)
        points, parts = [before], [_parts(process, crowd)]
        for _ in range(4):
            crowd.send(round(REQUESTS * (1 - WARM) / 4))
            points.append(_resident(process))
            parts.append(_parts(process, crowd))
        by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(crowd.done.items()))
        print(f"requests: {by_kind}")
        print(f"resident, MiB: {', '.join(f'{one / 2**20:.0f}' for one in points)}")
        for one in sorted(set().union(*parts)):
            print(f"  {one}: {', '.join(f'{part.get(one, 0) / 2**20:.0f}' for part in parts)}")
        for line in crowd.wrong[:20]:
            print(f"unexpected: {line}")
        after = statistics.median(points[-2:])
        return [
            Row("memory after all requests", after / 2**20, "MiB", before / 2**20,
                "after the first fifth", high=1.05, judge="ratio",
                spread=" ".join(f"{one / 2**20:.0f}" for one in points)),
            Row("requests", sum(crowd.done.values()), "", low=REQUESTS),
            Row("unexpected answers", len(crowd.wrong), "", high=0),
        ]  # fmt: skip


# -- the server ------------------------------------------------------------------------------------


@contextmanager
def _server(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    environment = {
        **os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"), "ANYRIG_SERVER_IDLE_S": "0",
        "ANYRIG_CONTAINER": "0", "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
    }  # fmt: skip
    command = [sys.executable, "-m", "anyrig", "serve", "--port", "0", "--json", "--no-bench"]
    with (home / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=home, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if '"listening"' in line:
                yield json.loads(line)["url"], psutil.Process(process.pid)
                break
        else:
            raise RuntimeError((home / "log.txt").read_text())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _resident(process: psutil.Process) -> float:
    """Bytes of the process and all its children, once they rest."""
    time.sleep(_RESTS_S)
    seen = []
    for _ in range(3):
        seen.append(sum(one for _, one in _each(process)))
        time.sleep(0.5)
    return statistics.median(seen)


def _each(process: psutil.Process) -> list[tuple[int, int]]:
    found = []
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.Error):
            found.append((one.pid, one.memory_info().rss))
    return found


def _parts(process: psutil.Process, crowd: Crowd) -> dict[str, int]:
    """Bytes of each process by what it is: a worker by its name, another by its parent's."""
    names = {process.pid: "server", **crowd.workers()}
    for one in process.children(recursive=True):
        with suppress(psutil.Error):
            names.setdefault(one.pid, f"below {names.get(one.ppid(), '?')}: {one.pid}")
    found: dict[str, int] = {}
    for pid, rss in _each(process):
        name = names.get(pid, str(pid))
        found[name] = found.get(name, 0) + rss
    return found
