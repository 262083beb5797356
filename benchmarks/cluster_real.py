"""Real workers of unequal speed: a broker, a client and three processes at speeds 1, 1 and 1/40.

The engine sleeps for each character, so that the speeds are what they are said to be. The same text
is spoken by the two fast ones, then by all three: the slow one must never make it longer. Beside
it, Celery as it comes, with the text handed out in chapters to workers of the same speeds.

BENCHMARK_LINES, BENCHMARK_CHAR_S, BENCHMARK_REPEATS: how much, how slow, how often.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster_rig import Room, lines, offer, plainly, spoken
from benchmarks.harness import Row, middle

LINES = int(os.environ.get("BENCHMARK_LINES", "240"))
CHAR_S = float(os.environ.get("BENCHMARK_CHAR_S", "0.004"))
REPEATS = int(os.environ.get("BENCHMARK_REPEATS", "3"))
SLOWER = 40
CHAPTERS, CHAPTER_S = 9, 0.5
_MOST_S = 150.0
_CELERY = """
import os, time
from celery import Celery
app = Celery("chapters", broker=os.environ["BROKER"], backend=os.environ["BROKER"])

@app.task
def speak(chapter_s):
    time.sleep(chapter_s * float(os.environ["SLOWER"]))
"""


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        two, three, wrong = _ours(Path(folder) / "ours")
        naive_two, naive_three = _celery(Path(folder) / "celery")
    said = lines(LINES)
    work_s = sum(line.cost for line in said) * CHAR_S
    segment_s = max(line.cost for line in said) * CHAR_S
    ideal_two = max(work_s / 2, segment_s)
    ideal_three = max(work_s / (2 + 1 / SLOWER), segment_s)
    chapters_two = CHAPTERS * CHAPTER_S / 2
    chapters_three = CHAPTERS * CHAPTER_S / (2 + 1 / SLOWER)
    took_two, spread_two = middle(two)
    took_three, spread_three = middle(three)
    longer_s = took_three - took_two
    return [
        Row("two fast workers, over the ideal", took_two / ideal_two, "times",
            naive_two / chapters_two, "Celery, chapters", high=1.08,
            spread=f"{spread_two} s, ideal {ideal_two:.2f} s"),
        Row("the same and a slow one, over the ideal", took_three / ideal_three, "times",
            naive_three / chapters_three, "Celery, chapters", high=1.08,
            spread=f"{spread_three} s, ideal {ideal_three:.2f} s"),
        Row("longer by the slow one, in segments of the fastest", longer_s / segment_s, "",
            (naive_three - naive_two) / CHAPTER_S, "Celery, in chapters", high=1.0,
            spread=f"{longer_s:+.2f} s, a segment takes {segment_s:.2f} s"),
        Row("lines that differ from one machine's", wrong, "", high=0),
    ]  # fmt: skip


def _ours(folder: Path) -> tuple[list[float], list[float], int]:
    """Seconds with two workers and with three, and how many lines were wrong."""
    said = lines(LINES)
    right, wrong = spoken(said), 0
    with Room(folder) as room:
        cores = sorted(os.sched_getaffinity(0))
        for number, name in enumerate(("fast1", "fast2")):
            room.worker(name, char_s=CHAR_S, core=cores[number % len(cores)])
        room.wait_for("fast1", "fast2")
        _time(room, lines(40, "warm-up"))
        two = []
        for _ in range(REPEATS):
            took, got = _time(room, said)
            wrong += sum(one != other for one, other in zip(got, right, strict=True))
            two.append(took)
            print(f"two fast workers: {took:.2f} s", flush=True)
        room.worker("slow", char_s=CHAR_S * SLOWER, core=cores[-1])
        room.wait_for("slow")
        _time(room, lines(100, "warm-up again"))
        three = []
        for _ in range(REPEATS):
            took, got = _time(room, said)
            wrong += sum(one != other for one, other in zip(got, right, strict=True))
            three.append(took)
            print(f"and a slow one: {took:.2f} s", flush=True)
    return two, three, wrong


def _time(room: Room, said: Sequence[Any]) -> tuple[float, list[bytes]]:
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.pool import ClusterPool
    from anyrig.cluster.speech import SpeechCodec

    with contextlib.closing(ClusterPool(BrokerClient(room.url), offer(), SpeechCodec())) as fleet:
        fleet.wait_ready()
        began = time.perf_counter()
        outcomes = list(fleet.run(said, cost=lambda line: line.cost))
        took = time.perf_counter() - began
    return took, [plainly(outcome.result) for outcome in outcomes]


def _celery(folder: Path) -> tuple[float, float]:
    """Seconds for chapters by Celery's defaults, with two workers and with three."""
    with Room(folder) as room:
        (folder / "chapters.py").write_text(_CELERY)
        fast, slow = ("1", "1"), ("1", "1", str(SLOWER))
        found = [
            statistics.median(_chapters(room, slower) for _ in range(1)) for slower in (fast, slow)
        ]
    print(f"Celery, chapters: {found[0]:.1f} s, with the slow one {found[1]:.1f} s", flush=True)
    return found[0], found[1]


def _chapters(room: Room, slower: Sequence[str]) -> float:
    code = (
        "import chapters, time, sys\n"
        "while len((chapters.app.control.inspect(timeout=1).ping() or {})) < int(sys.argv[1]):\n"
        "    time.sleep(0.2)\n"
        "began = time.perf_counter()\n"
        f"sent = [chapters.speak.delay({CHAPTER_S}) for _ in range({CHAPTERS})]\n"
        f"while not all(one.ready() for one in sent) and time.perf_counter() - began < {_MOST_S}:\n"
        "    time.sleep(0.02)\n"
        "print(time.perf_counter() - began)\n"
    )
    nodes = []
    try:
        for number, times in enumerate(slower):
            env = {**os.environ, "BROKER": room.url, "SLOWER": times}
            order = ["-m", "celery", "-A", "chapters", "worker", "-c", "1", "-n", f"n{number}@h"]
            nodes.append(
                subprocess.Popen(
                    [sys.executable, *order], cwd=room.folder, env=env,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                )
            )  # fmt: skip
        env = {**os.environ, "BROKER": room.url, "SLOWER": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code, str(len(slower))], cwd=room.folder, env=env, text=True,
            capture_output=True, check=True,
        )  # fmt: skip
        return float(done.stdout)
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(node.pid, 9)
            node.wait()
        with contextlib.closing(room.redis()) as redis:
            redis.flushall()
