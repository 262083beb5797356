"""A real broker, a client and three workers, two of which are 40 times as fast as the third.

The engine sleeps for each character, so that the speeds are exact. The two fast workers speak a
text, then all three: the slow one must not make it longer. The peer is Celery as it comes, with a
text in chapters and workers of the same speeds.

BENCHMARK_LINES, BENCHMARK_CHAR_S, BENCHMARK_REPEATS: how many lines, seconds a character, rounds.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, median_and_range
from benchmarks.local_cluster import (
    LocalCluster,
    counting_identity,
    make_lines,
    plain_bytes,
    speak_locally,
)
from benchmarks.processes import measure_command, start_process

LINES = int(os.environ.get("BENCHMARK_LINES", "240"))
CHAR_S = float(os.environ.get("BENCHMARK_CHAR_S", "0.004"))
ROUNDS = int(os.environ.get("BENCHMARK_REPEATS", "3"))
SLOWER = 40
NUM_CHAPTERS, CHAPTER_S = 9, 0.5
_TIMEOUT_S = 150.0
_CELERY_APP = """
import os, time
from celery import Celery
app = Celery("chapters", broker=os.environ["BROKER"], backend=os.environ["BROKER"])

@app.task
def speak(chapter_s):
    time.sleep(chapter_s * float(os.environ["SLOWER"]))
"""
_CELERY_CLIENT = f"""
import chapters, sys, time
while len((chapters.app.control.inspect(timeout=1).ping() or {{}})) < int(sys.argv[1]):
    time.sleep(0.2)
start = time.perf_counter()
sent = [chapters.speak.delay({CHAPTER_S}) for _ in range({NUM_CHAPTERS})]
while not all(one.ready() for one in sent) and time.perf_counter() - start < {_TIMEOUT_S}:
    time.sleep(0.02)
print(time.perf_counter() - start)
"""


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        two, three, num_wrong = _measure_ours(Path(folder) / "ours")
        celery_two, celery_three = _measure_celery(Path(folder) / "celery")
    costs = [line.cost for line in make_lines(LINES)]
    work_s, segment_s = sum(costs) * CHAR_S, max(costs) * CHAR_S
    speeds = (2, 2 + 1 / SLOWER)
    ideal_two, ideal_three = (max(work_s / speed, segment_s) for speed in speeds)
    chapters_two, chapters_three = (NUM_CHAPTERS * CHAPTER_S / speed for speed in speeds)
    two_s, spread_two = median_and_range(two)
    three_s, spread_three = median_and_range(three)
    return [
        Row("two fast workers, over the ideal", two_s / ideal_two, "times",
            celery_two / chapters_two, "Celery, chapters", high=1.08,
            spread=f"{spread_two} s, ideal {ideal_two:.2f} s"),
        Row("the same and a slow one, over the ideal", three_s / ideal_three, "times",
            celery_three / chapters_three, "Celery, chapters", high=1.08,
            spread=f"{spread_three} s, ideal {ideal_three:.2f} s"),
        Row("longer by the slow one, in segments of the fastest", (three_s - two_s) / segment_s, "",
            (celery_three - celery_two) / CHAPTER_S, "Celery, in chapters", high=1.0,
            spread=f"{three_s - two_s:+.2f} s, a segment takes {segment_s:.2f} s"),
        Row("lines that differ from one machine's", num_wrong, "", high=0),
    ]  # fmt: skip


def _measure_ours(folder: Path) -> tuple[list[float], list[float], int]:
    """Seconds with two workers and with three, and how many lines were wrong."""
    expected = speak_locally(make_lines(LINES))
    cores = sorted(os.sched_getaffinity(0))
    num_wrong = 0

    def measure(title: str) -> list[float]:
        nonlocal num_wrong
        times = []
        for _ in range(ROUNDS):
            took_s, takes = _speak(cluster, make_lines(LINES))
            num_wrong += sum(one != other for one, other in zip(takes, expected, strict=True))
            times.append(took_s)
            print(f"{title}: {took_s:.2f} s", flush=True)
        return times

    with LocalCluster(folder) as cluster:
        for number, name in enumerate(("fast1", "fast2")):
            cluster.start_worker(name, char_s=CHAR_S, core=cores[number % len(cores)])
        cluster.wait_for("fast1", "fast2")
        _speak(cluster, make_lines(40, "warm-up"))
        two = measure("two fast workers")
        cluster.start_worker("slow", char_s=CHAR_S * SLOWER, core=cores[-1])
        cluster.wait_for("slow")
        _speak(cluster, make_lines(100, "warm-up again"))
        return two, measure("and a slow one"), num_wrong


def _speak(cluster: LocalCluster, lines: Sequence[Any]) -> tuple[float, list[bytes]]:
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.pool import ClusterPool
    from anyrig.cluster.speech import SpeechCodec

    pool = ClusterPool(BrokerClient(cluster.url), counting_identity(), SpeechCodec())
    with contextlib.closing(pool):
        pool.wait_ready()
        start = time.perf_counter()
        outcomes = list(pool.run(lines, cost=lambda line: line.cost))
        took_s = time.perf_counter() - start
    return took_s, [plain_bytes(outcome.result) for outcome in outcomes]


def _measure_celery(folder: Path) -> tuple[float, float]:
    """Seconds for chapters by Celery's defaults, with two workers and with three."""
    with LocalCluster(folder) as cluster:
        (folder / "chapters.py").write_text(_CELERY_APP)
        two = _run_celery(cluster, ("1", "1"))
        three = _run_celery(cluster, ("1", "1", str(SLOWER)))
    print(f"Celery, chapters: {two:.1f} s, with the slow one {three:.1f} s", flush=True)
    return two, three


def _run_celery(cluster: LocalCluster, slower: Sequence[str]) -> float:
    path = f"{cluster.folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": path, "BROKER": cluster.url}
    command = [sys.executable, "-m", "celery", "-A", "chapters", "worker", "-c", "1", "-n"]
    with contextlib.ExitStack() as stack:
        for number, factor in enumerate(slower):
            own = {**environment, "SLOWER": factor}
            log = cluster.folder / "celery.log"
            stack.enter_context(start_process([*command, f"n{number}@h"], own, log))
        client = [sys.executable, "-c", _CELERY_CLIENT, str(len(slower))]
        took_s = float(measure_command(client, {**environment, "SLOWER": "1"}).output)
        with contextlib.closing(cluster.redis()) as redis:
            redis.flushall()
    return took_s
