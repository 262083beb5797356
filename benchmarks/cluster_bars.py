"""What a cluster costs: CPU beside a single machine, a thousand idle workers, a long queue.

- A text of 20,000 words with the default voice on this machine: CPU seconds of `anyrig book`, and
  of the same book through a cluster of one worker: client, worker with its engine, broker. The
  worker runs already and has loaded nothing. Both in turns, several times.
- 1,000 workers that send real heartbeats, and Celery's own, to a real broker: the CPU of `anyrig
  coordinator`, and of a run that waits with all of them.
- 100,000 segments: how long a run over the cluster takes until the first result, keys and look-up
  in the cache included, and the memory of its process then and after a fifth of the results.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.harness import Row
from benchmarks.local_cluster import LocalCluster
from benchmarks.processes import (
    ANYRIG,
    child_environment,
    measure_command,
    start_process,
    tree_cpu_seconds,
)
from benchmarks.texts import read_novel

WORDS = int(os.environ.get("BENCHMARK_WORDS", "20000"))
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "3"))
WORKERS = int(os.environ.get("BENCHMARK_WORKERS", "1000"))
SEGMENTS = int(os.environ.get("BENCHMARK_SEGMENTS", "100000"))
LATER = SEGMENTS // 5
IDLE_S = float(os.environ.get("BENCHMARK_IDLE_S", "30"))


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [*_book_cost(folder), *_idle_cost(folder), *_long_queue(folder)]


# -- the cost of a book --------------------------------------------------------------------------


def _book_cost(folder: Path) -> list[Row]:
    source = folder / "book.txt"
    words = read_novel().split(" ")
    while len(words) < WORDS:
        words += words
    source.write_text(" ".join(words[:WORDS]), encoding="utf-8")
    local, clustered = [], []
    for number in range(ROUNDS):
        homes = folder / f"local-{number}", folder / f"cluster-{number}"
        local.append(_make_book(homes[0], source))
        clustered.append(_make_clustered_book(homes[1], source))
        print(f"round {number + 1}: alone {local[-1]:.1f} CPU s, through a cluster "
              f"{clustered[-1]:.1f}", flush=True)  # fmt: skip
        one, other = ((home / "book.m4b").read_bytes() for home in homes)
        assert one == other, "the two books differ"
    ratios = [one / other for one, other in zip(clustered, local, strict=True)]
    return [
        Row(f"{WORDS} words through a cluster of one worker: CPU seconds, times one machine alone",
            statistics.median(ratios), "x", high=1.05,
            spread=f"{min(ratios):.3f}-{max(ratios):.3f} of {ROUNDS}"),
        Row("the same", statistics.median(clustered), "CPU s", statistics.median(local), "alone"),
    ]  # fmt: skip


def _make_book(home: Path, source: Path, *options: str) -> float:
    """CPU seconds of the command."""
    command = [*ANYRIG, "book", str(source), "-o", str(home / "book.m4b"), "--json"]
    environment = child_environment(home)
    return measure_command([*command, "--device", "cpu", *options], environment).cpu_s


def _make_clustered_book(home: Path, source: Path) -> float:
    """CPU seconds of the command, the worker and the broker."""
    with LocalCluster(home / "cluster") as cluster:
        worker = cluster.start_worker("one")
        cluster.wait_for("one")
        time.sleep(2)
        pids = cluster.broker_pid, worker.process.pid
        before = sum(map(tree_cpu_seconds, pids))
        client_s = _make_book(home, source, "--cluster", cluster.url)
        return client_s + sum(map(tree_cpu_seconds, pids)) - before


# -- idle workers --------------------------------------------------------------------------------


def _idle_cost(folder: Path) -> list[Row]:
    module, environment = [sys.executable, "-m", "benchmarks.cluster_bars"], child_environment()
    with ExitStack() as stack:
        url = stack.enter_context(LocalCluster(folder / "idle")).url
        workers = stack.enter_context(
            start_process([*module, "heartbeats", url, str(WORKERS)], environment)
        )
        assert workers.stdout is not None
        workers.stdout.readline()
        command = [*ANYRIG, "coordinator", "--broker", url, "--json"]
        home = child_environment(folder / "coordinator")
        coordinator = stack.enter_context(start_process(command, home))
        client = stack.enter_context(start_process([*module, "wait", url], environment))
        assert client.stdout is not None
        num_workers = json.loads(client.stdout.readline())
        time.sleep(3)
        pids = {"coordinator": coordinator.pid, "a run that waits": client.pid}
        before = {name: tree_cpu_seconds(pid) for name, pid in pids.items()}
        start = time.monotonic()
        time.sleep(IDLE_S)
        took_s = time.monotonic() - start
        shares = {name: (tree_cpu_seconds(pid) - before[name]) / took_s
                  for name, pid in pids.items()}  # fmt: skip
    assert num_workers == WORKERS, num_workers
    return [
        Row(f"{WORKERS} idle workers' signs of life and events: {name}, share of a core",
            share, "", high=0.10)
        for name, share in shares.items()
    ]  # fmt: skip


def _send_heartbeats(url: str, count: int) -> None:
    """Register so many workers, and send their heartbeats without end."""
    from dataclasses import replace

    from anyrig.cluster.broker import HEARTBEAT_S, BrokerClient, make_app
    from anyrig.cluster.registry import WorkerInfo, WorkerRegistry
    from anyrig.cluster.speech import identify_engine
    from anyrig.speech.engines.tone import Tone
    from anyrig.version import __version__

    app, registry = make_app(url), WorkerRegistry(BrokerClient(url))
    engine = identify_engine(Tone.find_weights())
    workers = [
        WorkerInfo(f"w{number}", __version__, instance=f"{number:016x}", host=f"host{number}",
             pid=number, python="3.12.1", system="Linux", device="A GPU", kind="gpu", word="cuda:0",
             engines=(engine,), speeds={"tone": 1000.0}, gpu_available=True, gpu_count=1,
             device_type="cuda", gpu_memory_free_mb=20_000)
        for number in range(count)
    ]  # fmt: skip
    with app.connection_for_write() as connection:
        dispatchers = [
            app.events.Dispatcher(connection, hostname=f"w{number}@host{number}")
            for number in range(count)
        ]
        for beat in range(1, 1 << 30):
            start = time.monotonic()
            for worker, dispatcher in zip(workers, dispatchers, strict=True):
                registry.write(replace(worker, heartbeat=beat))
                dispatcher.send("worker-heartbeat", freq=HEARTBEAT_S, active=0, processed=0)
            if beat == 1:
                print("ready", flush=True)
            time.sleep(max(0.0, HEARTBEAT_S - (time.monotonic() - start)))


def _open_pool(url: str) -> Any:
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.pool import ClusterPool
    from anyrig.cluster.speech import SpeechCodec, identify_engine
    from anyrig.speech.engines.tone import Tone

    pool = ClusterPool(BrokerClient(url), identify_engine(Tone.find_weights()), SpeechCodec())
    pool.wait_ready()
    return pool


def _wait_for_lines(url: str) -> None:
    """A run whose first line never comes."""
    pool = _open_pool(url)
    deadline = time.monotonic() + 30
    while pool.size < WORKERS and time.monotonic() < deadline:
        time.sleep(0.2)
    print(pool.size, flush=True)

    def no_lines() -> Iterator[Any]:
        threading.Event().wait()
        yield

    list(pool.run(no_lines(), cost=lambda line: line.cost))


# -- a long queue --------------------------------------------------------------------------------


def _long_queue(folder: Path) -> list[Row]:
    with LocalCluster(folder / "queue") as cluster:
        cluster.start_worker("one")
        cluster.wait_for("one")
        command = [sys.executable, "-m", "benchmarks.cluster_bars", "queue", cluster.url]
        command.append(str(folder / "queue.sqlite"))
        with start_process(command, child_environment()) as client:
            assert client.stdout is not None
            first, later = (json.loads(client.stdout.readline()) for _ in range(2))
    return [
        Row(f"{SEGMENTS} segments: from the order to the first answer", first["seconds"], "s",
            high=10.0),
        Row(f"{SEGMENTS} segments: memory of the command then", first["resident_mb"], "MB",
            high=300.0),
        Row(f"the same after {LATER} answers", later["resident_mb"], "MB", high=300.0),
    ]  # fmt: skip


def _speak_many(url: str, cache: str) -> None:
    """Speak very many segments over a cluster; print when the first and a later one are done."""
    import psutil

    from anyrig.devices.machine import Device, DeviceBackend
    from anyrig.placement import Placement, PlacementPlan
    from anyrig.speech.engine import Utterance
    from anyrig.speech.engines.tone import Tone
    from anyrig.speech.segment import Segment
    from anyrig.speech.synthesis import Synthesizer
    from anyrig.storage.cache import ResultCache

    pool = _open_pool(url)
    texts = [f"This is sentence {n} of a very long book." for n in range(SEGMENTS)]
    segments = [Segment(Utterance(text), ((0, len(text)),), text) for text in texts]
    backend = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
    placed = PlacementPlan((Placement(Device("cpu", "cpu", "test", "CPU"), backend),))
    process = psutil.Process()
    with ResultCache(Path(cache)) as store:
        start = time.monotonic()
        synthesizer = Synthesizer(
            engine="tone", weights=Tone.find_weights(), plan=placed, environment=os.environ,
            cache=store, open_pool=lambda factory: pool,
        )  # fmt: skip
        with synthesizer, synthesizer.read(segments) as reading:
            for number, _ in enumerate(reading, 1):
                if number in (1, LATER):
                    report = {"seconds": time.monotonic() - start,
                              "resident_mb": process.memory_info().rss / 1e6}  # fmt: skip
                    print(json.dumps(report), flush=True)
                if number == LATER:
                    return


if __name__ == "__main__":
    if sys.argv[1] == "heartbeats":
        _send_heartbeats(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "wait":
        _wait_for_lines(sys.argv[2])
    else:
        _speak_many(sys.argv[2], sys.argv[3])
