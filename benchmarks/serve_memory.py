"""2,000 requests of all kinds against a real server: its resident memory must not grow.

Eight clients send what `mixed_load` says. The server runs with its default voice and models, one
process each, and its page; nothing is unloaded in between. Resident memory of the whole process
tree is read after the first requests have loaded everything, and again later, each time when the
server is idle and has forgotten the pages that were closed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from anyrig.units import MIB
from benchmarks.harness import Row
from benchmarks.mixed_load import MixedLoad
from benchmarks.processes import AnyrigServer, process_memory

REQUESTS = int(os.environ.get("BENCHMARK_REQUESTS", "2000"))
WARM_UP = 0.2
"""The share of requests after which everything is loaded and has seen its largest batch."""
NUM_CLIENTS = 8
_IDLE_S = 10.0
"""The server forgets a closed page some seconds later."""


def run(hardware: str) -> list[Row]:
    with (
        tempfile.TemporaryDirectory() as home,
        AnyrigServer(Path(home), ANYRIG_SERVER_IDLE_S="0") as server,
    ):
        load = MixedLoad(server.url, NUM_CLIENTS)
        load.prepare()
        load.send(round(REQUESTS * WARM_UP))
        totals = [_resident_bytes(server.pid)]
        for _ in range(4):
            load.send(round(REQUESTS * (1 - WARM_UP) / 4))
            totals.append(_resident_bytes(server.pid))
    by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(load.counts.items()))
    print(f"requests: {by_kind}\nresident, MiB: {_format_mib(totals)}")
    for line in load.failures[:20]:
        print(f"unexpected: {line}")
    after = statistics.median(totals[-2:])
    return [
        Row("memory after all requests", after / MIB, "MiB", totals[0] / MIB,
            "after the first fifth", high=1.05, judge="ratio", spread=_format_mib(totals)),
        Row("requests", load.counts.total(), "", low=REQUESTS),
        Row("unexpected answers", len(load.failures), "", high=0),
    ]  # fmt: skip


def _format_mib(values: list[float]) -> str:
    return " ".join(f"{value / MIB:.0f}" for value in values)


def _resident_bytes(pid: int) -> float:
    """Of the server and its children, when idle."""
    time.sleep(_IDLE_S)
    samples = []
    for _ in range(3):
        samples.append(sum(process_memory(pid).values()))
        time.sleep(0.5)
    return statistics.median(samples)
