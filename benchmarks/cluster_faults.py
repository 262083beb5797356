"""A hundred random faults of workers, clients, messages and the broker, while books are made.

Something fails every second or two: workers are killed and restarted, frozen past their lease, or
told to leave; the client is killed and started again, and so is the coordinator; the broker is
killed and restarted with its data or without; messages arrive twice. One worker's clock is hours
wrong, one has another version of the engine. Every book must be equal, byte for byte, to the one
that a single machine makes; the engine counts lines that were spoken more than once.

BENCHMARK_FAULTS, BENCHMARK_VOICE_FAULTS, BENCHMARK_SEED: how many, how many on the default voice.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.local_cluster import LocalCluster, MessageDuplicator, WorkerProcess
from benchmarks.processes import ANYRIG, stop_process
from benchmarks.texts import numbered_book

FAULTS = int(os.environ.get("BENCHMARK_FAULTS", "100"))
VOICE_FAULTS = int(os.environ.get("BENCHMARK_VOICE_FAULTS", "12"))
SEED = int(os.environ.get("BENCHMARK_SEED", "20261116"))
VOICE = "hibari"
CHAR_S = 0.004
LEASE_S = 2
NUM_SENTENCES = 90
FAULTS_PER_BOOK = 6
WORKERS = ("w1", "w2", "w3")
TIMEOUT_S = 180.0
"""A book that takes longer, whatever happened to it, is a failure."""


@dataclass
class FaultReport:
    kinds: Counter[str] = field(default_factory=Counter)
    num_books: int = 0
    num_repeated: int = 0
    """Lines that were spoken again."""
    worst_book: float = 0.0
    """The most lines that were spoken again for each fault of a book."""
    failures: list[str] = field(default_factory=list)

    @property
    def num_faults(self) -> int:
        return self.kinds.total()


class FaultInjector:
    """Makes a cluster fail, and repairs it a little later."""

    def __init__(self, cluster: LocalCluster, rng: random.Random, report: FaultReport) -> None:
        self._cluster, self._rng, self._report = cluster, rng, report
        self._pending: list[tuple[float, Callable[[], object]]] = []
        """Repairs: a time and what to do then."""
        self.restarting: set[str] = set()
        """Workers that are to be started again."""
        self.client: subprocess.Popen[str] | None = None
        self._coordinator: subprocess.Popen[bytes] | None = None
        self._kinds: dict[str, tuple[int, Callable[[], bool]]] = {
            "worker killed": (5, self._kill_worker), "worker asleep": (4, self._freeze_worker),
            "client killed": (3, self._kill_client), "broker killed": (2, self._restart_broker),
            "broker forgot": (2, self._clear_broker), "messages twice": (3, self._send_twice),
            "worker asked to leave": (2, self._drain_worker),
            "coordinator killed": (2, self._kill_coordinator),
        }  # fmt: skip

    def start_worker(self, name: str) -> WorkerProcess:
        """The clock of the last one is wrong."""
        environment = {"SHORT_LEASE_S": str(LEASE_S)}
        if name == WORKERS[-1]:
            environment["CLOCK_SHIFT_S"] = str(self._rng.choice((-1, 1)) * 9000)
        return self._cluster.start_worker(name, char_s=CHAR_S, environment=environment)

    def start_coordinator(self) -> None:
        environment = self._cluster.environment("coordinator")
        options = ("--broker", self._cluster.url, "--host", "127.0.0.1", "--json")
        with (self._cluster.folder / "coordinator.log").open("a") as log:
            self._coordinator = subprocess.Popen(
                [*ANYRIG, "coordinator", *options],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def inject(self) -> None:
        """One fault of a random kind, if it is possible now."""
        weights = [weight for weight, _ in self._kinds.values()]
        kind = self._rng.choices(list(self._kinds), weights)[0]
        if self._kinds[kind][1]():
            self._report.kinds[kind] += 1

    def repair(self, *, everything: bool = False) -> None:
        """Do the repairs that are due."""
        now = time.monotonic()
        due = [one for one in self._pending if everything or one[0] <= now]
        self._pending = [one for one in self._pending if one not in due]
        for _, action in due:
            action()

    def close(self) -> None:
        self.repair(everything=True)
        if self._coordinator is not None:
            stop_process(self._coordinator)

    def _repair_later(self, action: Callable[[], object], low_s: float, high_s: float) -> None:
        self._pending.append((time.monotonic() + self._rng.uniform(low_s, high_s), action))

    def _restart_later(self, worker: WorkerProcess, low_s: float) -> None:
        def restart() -> None:
            worker.stop()
            self.restarting.discard(worker.name)
            self.start_worker(worker.name)

        self.restarting.add(worker.name)
        self._repair_later(restart, low_s, 3.0)

    def _pick_worker(self) -> WorkerProcess | None:
        workers = [self._cluster.workers[name] for name in WORKERS]
        running = [worker for worker in workers if worker.alive and not worker.frozen]
        return self._rng.choice(running) if running else None

    def _kill_worker(self) -> bool:
        if (worker := self._pick_worker()) is None:
            return False
        worker.kill()
        self._restart_later(worker, 0.0)
        return True

    def _drain_worker(self) -> bool:
        if (worker := self._pick_worker()) is None:
            return False
        worker.process.terminate()
        self._restart_later(worker, 0.5)
        return True

    def _freeze_worker(self) -> bool:
        if (worker := self._pick_worker()) is None:
            return False
        worker.freeze()
        self._repair_later(worker.resume, 0.5, 3.0 * LEASE_S)
        return True

    def _kill_client(self) -> bool:
        if self.client is None or self.client.poll() is not None:
            return False
        self.client.kill()
        return True

    def _kill_coordinator(self) -> bool:
        if self._coordinator is None or self._coordinator.poll() is not None:
            return False
        self._coordinator.kill()
        self._coordinator.wait(30)
        self._repair_later(self.start_coordinator, 0.0, 3.0)
        return True

    def _restart_broker(self) -> bool:
        self._cluster.stop_broker(kill=True)
        time.sleep(self._rng.uniform(0.0, 2.0))
        self._cluster.start_broker()
        return True

    def _clear_broker(self) -> bool:
        with contextlib.closing(self._cluster.redis()) as redis:
            redis.flushall()
        return self._restart_broker()

    def _send_twice(self) -> bool:
        redis = self._cluster.redis()
        with contextlib.closing(redis), MessageDuplicator(redis, limit=2) as duplicator:
            deadline = time.monotonic() + 2.0
            while duplicator.count < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
        return duplicator.count > 0


class FaultRun:
    """Books over a cluster, with so many faults."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self._cluster, self._rng, self.report = cluster, random.Random(seed), FaultReport()
        self._injector = FaultInjector(cluster, self._rng, self.report)

    def run(self, num_faults: int, num_voice_faults: int) -> FaultReport:
        """The last faults are on the default voice."""
        for name in WORKERS:
            self._injector.start_worker(name)
        old = {"COUNTING_VERSION": "0", "SHORT_LEASE_S": str(LEASE_S)}
        self._cluster.start_worker("old", environment=old)
        self._injector.start_coordinator()
        self._cluster.wait_for(*WORKERS, "old")
        self._make_books("counting", NUM_SENTENCES, num_faults - num_voice_faults)
        if num_voice_faults:
            self._make_books(VOICE, NUM_SENTENCES // 3, num_faults)
        self._injector.close()
        return self.report

    def _make_books(self, engine: str, num_sentences: int, up_to: int) -> None:
        folder, report = self._cluster.folder, self.report
        source, expected = folder / f"{engine}.txt", folder / f"{engine}-expected.m4b"
        source.write_text(numbered_book(num_sentences, 30), encoding="utf-8")
        self._cluster.make_book(source, expected, home=f"{engine}-local", cluster=False,
                                engine=engine)  # fmt: skip
        while report.num_faults < up_to:
            self._make_book(source, expected.read_bytes(), engine, up_to)
            print(f"{report.num_faults} faults, {report.num_books} books, {report.num_repeated}"
                  f" lines spoken again, {len(report.failures)} wrong", flush=True)  # fmt: skip

    def _make_book(self, source: Path, expected: bytes, engine: str, up_to: int) -> None:
        report, cluster = self.report, self._cluster
        home = f"{engine}-{report.num_books}"
        out, log = cluster.folder / f"{home}.m4b", cluster.folder / f"{home}.log"
        before = report.num_faults
        up_to = min(up_to, before + FAULTS_PER_BOOK)
        deadline = time.monotonic() + TIMEOUT_S
        cluster.spoken_log.unlink(missing_ok=True)
        while True:
            code = self._run_client(source, out, home, engine, up_to, deadline)
            # The broker may have been away when the client started.
            no_broker = "does not respond" in log.read_text()[-400:]
            if code == 0 or (code > 0 and not no_broker) or time.monotonic() > deadline:
                break
        report.num_books += 1
        self._check_workers()
        if code or time.monotonic() > deadline:
            report.failures.append(f"{home} ended with {code}: {log.read_text()[-1500:]}")
        elif out.read_bytes() != expected:
            report.failures.append(f"{home} is not equal to the book of one machine")
        spoken = cluster.count_spoken()
        num_repeated = spoken.total() - len(spoken)
        report.num_repeated += num_repeated
        per_fault = num_repeated / max(1, report.num_faults - before)
        report.worst_book = max(report.worst_book, per_fault)

    def _run_client(
        self, source: Path, out: Path, home: str, engine: str, up_to: int, deadline: float
    ) -> int:
        """Start the client, and inject faults until it ends; its exit code."""
        process = self._cluster.start_book(source, out, home=home, engine=engine)
        self._injector.client = process
        next_s = time.monotonic() + self._rng.uniform(0.5, 3.0)
        while process.poll() is None:
            self._injector.repair()
            if time.monotonic() > next_s and self.report.num_faults < up_to:
                self._injector.inject()
                next_s = time.monotonic() + self._rng.uniform(1.0, 3.5)
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.05)
        process.communicate()
        return process.returncode

    def _check_workers(self) -> None:
        for name in set(WORKERS) - self._injector.restarting:
            worker = self._cluster.workers[name]
            if not worker.alive:
                tail = worker.log.read_text()[-1500:]
                self.report.failures.append(f"{name} ended by itself: {tail}")
                self._injector.start_worker(name)


def run(hardware: str) -> list[Row]:
    print(f"seed {SEED}", flush=True)
    config = {"appendonly": "yes"}
    with tempfile.TemporaryDirectory() as folder, LocalCluster(Path(folder), config) as cluster:
        report = FaultRun(cluster, SEED).run(FAULTS, VOICE_FAULTS)
    for line in report.failures:
        print(line, flush=True)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    # A worker has two shards of a second each, and late ones are given to another as well.
    shard = 1.0 / (CHAR_S * 40) + 2
    per_fault = report.num_repeated / max(1, report.num_faults - VOICE_FAULTS)
    return [
        Row("faults", report.num_faults, "", low=FAULTS, spread=kinds),
        Row("books that differ or were not finished", len(report.failures), "", high=0,
            spread=f"{report.num_books} books, {VOICE_FAULTS} faults on {VOICE}"),
        Row("lines made again for each fault", per_fault, "", high=2 * shard,
            spread=f"the worst book {report.worst_book:.1f}"),
    ]  # fmt: skip
