"""A coordinator: the broker, Flower, and the token that lets machines join.

    with Coordinator(folder, state_file, listen, ...) as coordinator:
        coordinator.start()
        while ...: coordinator.poll()

Its passwords and ports are kept in a file, so that the token is the same after a restart; with
`new_token` they are drawn again, and every machine must join with the new token.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from anyrig.cluster.broker import BrokerClient, find_exposures, mask_password, normalize_url
from anyrig.cluster.broker_server import USER, BrokerServer, check_port
from anyrig.cluster.flower import USER as FLOWER_USER
from anyrig.cluster.flower import Flower
from anyrig.cluster.registry import (
    COORDINATOR_HEARTBEAT_S,
    PROTOCOL,
    CoordinatorInfo,
    RegistryWatch,
    WorkerRegistry,
)
from anyrig.cluster.token import JoinToken
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    OptionRef,
    OverloadedError,
    StorageError,
)
from anyrig.storage.files import make_folder
from anyrig.version import __version__

PORT, FLOWER_PORT = 6379, 5555
_LOCAL = "127.0.0.1"
_ANY = ("0.0.0.0", "::")
_MAX_FLOWER_WAIT_S = 600.0


# -- what is kept from start to start -------------------------------------------------------------


@dataclass(frozen=True)
class CoordinatorState:
    password: str = ""
    flower_password: str = ""
    port: int = 0
    broker: str = ""
    """The last broker, as this machine reaches it; empty if none was ever started."""


def load_state(path: Path, *, new_secrets: bool = False) -> CoordinatorState:
    """What is in a file, with new secrets where there are none or they are to be replaced."""
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = {one.name: found[one.name] for one in fields(CoordinatorState) if one.name in found}
        state = CoordinatorState(**known)
    except FileNotFoundError:
        state = CoordinatorState()
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(
            f"{path} cannot be read: {error}",
            hint="Fix or delete it: then there is a new password, and workers join again.",
        ) from error
    names = ("password", "flower_password")
    new: dict[str, Any] = {
        name: secrets.token_urlsafe(32) for name in names if new_secrets or not getattr(state, name)
    }
    return replace(state, **new)


def save_state(path: Path, state: CoordinatorState) -> None:
    """Readable by its owner only; whole or not at all."""
    make_folder(path.parent)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(state), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


# -- addresses ------------------------------------------------------------------------------------


class ListenAddress(NamedTuple):
    hosts: tuple[str, ...]
    """Where it listens."""
    public: str
    """How other machines reach it."""
    local: str
    """How this machine reaches it."""
    warnings: tuple[str, ...] = ()


def choose_address(host: str, public: str) -> ListenAddress:
    """Where to listen.

    Args:
        host: as requested. Without, this machine's address if that is private, else this machine
            alone: nothing is opened to the internet unasked.
        public: how other machines shall call it.
    """
    own = find_own_address()
    if not host:
        if own and ipaddress.ip_address(own).is_private:
            return ListenAddress((own, _LOCAL), public or own, _LOCAL)
        reason = f"its address {own} is public" if own else "it has no network"
        warning = Message(
            "only this machine can join: {reason}; {host} opens it to others",
            reason=reason,
            host=OptionRef("host"),
        )
        return ListenAddress((_LOCAL,), public or _LOCAL, _LOCAL, (warning,))
    address = _resolve(host.strip("[]"))
    if address in _ANY:
        local = _LOCAL if address == "0.0.0.0" else "::1"
        return ListenAddress((address,), public or own or socket.gethostname(), local)
    if ipaddress.ip_address(address).is_loopback:
        warning = Message(
            "only this machine can join; {host} opens it to others", host=OptionRef("host")
        )
        return ListenAddress((address,), public or address, address, (warning,))
    return ListenAddress((address, _LOCAL), public or host.strip("[]"), _LOCAL)


def find_own_address() -> str:
    """This machine's address in its network; empty without one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation, RFC 5737
            found = str(probe.getsockname()[0])
        except OSError:
            return ""
    return "" if ipaddress.ip_address(found).is_loopback else found


def _resolve(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            Message(
                "{host}: not an address of this machine: {error}",
                host=OptionRef("host", host),
                error=error,
            ),
            hint="127.0.0.1 is this machine alone, 0.0.0.0 every network it is in.",
        ) from None
    best = sorted(found, key=lambda one: one[0] != socket.AF_INET)[0]
    return str(best[4][0])


def _choose_port(requested: int | None, last: int, default: int) -> int:
    """0 is a free one, which is kept."""
    if requested is None:
        return last or default
    return requested or last or _find_free_port()


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOCAL, 0))
        return int(probe.getsockname()[1])


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# -- the coordinator ------------------------------------------------------------------------------


class Coordinator:
    """Everything that a coordinator starts.

    Args:
        broker: one that runs already; one is started if empty.
        flower_port: of Flower; None starts none.
        on_event: called with `joined`, `left` or `lost`, and the facts of the worker.
    """

    def __init__(
        self,
        folder: Path,
        state_file: Path,
        address: ListenAddress,
        *,
        broker: str = "",
        port: int | None = None,
        flower_port: int | None = None,
        new_token: bool = False,
        environment: Mapping[str, str],
        on_event: Callable[[str, Mapping[str, Any]], None],
        warn: Callable[[str], None],
    ) -> None:
        self._folder, self._state_file, self._address = folder, state_file, address
        self._broker, self._port = broker, port
        self._flower_port, self._new_token = flower_port, new_token
        self._environment, self._on_event, self._warn = environment, on_event, warn
        self._stack = ExitStack()
        self._server: BrokerServer | None = None
        self._flower: Flower | None = None
        self._poll_at = self._flower_at = 0.0
        self._flower_wait_s = 1.0
        self._unavailable = False

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        self._lock()
        left_over = Flower(self._folder)
        if left_over.find():
            left_over.stop()
        self._state = load_state(self._state_file, new_secrets=self._new_token)
        if self._broker:
            local = self._url = normalize_url(self._broker)
        else:
            local = self._start_broker()
        self._client = BrokerClient(local)
        self._stack.callback(self._client.close)
        self._client.check()
        self._registry = WorkerRegistry(self._client)
        self._watch = RegistryWatch(self._registry)
        self._state = replace(self._state, broker=local)
        save_state(self._state_file, self._state)
        self._info = CoordinatorInfo(
            __version__, PROTOCOL, socket.gethostname(), os.getpid(), self._start_flower(local)
        )
        other = self._registry.read_coordinator()
        self._registry.write_coordinator(self._info)
        self._stack.callback(self._withdraw)
        self.warnings = [*self._address.warnings, *find_exposures(self._client, self._url)]
        if other is not None and other.host != socket.gethostname():
            self.warnings.append(
                f"another coordinator, on {other.host}, uses this broker: stop one of them"
            )
        if self._broker and urlsplit(self._url).hostname in (_LOCAL, "localhost", "::1"):
            self.warnings.append(
                "the broker's address is this machine's loopback: other machines cannot use this"
                " token"
            )

    def describe(self) -> dict[str, Any]:
        """Where everything is, and the token."""
        token = JoinToken(self._url).text
        found: dict[str, Any] = {
            "broker": mask_password(self._url),
            "flower": self._info.flower, "token": token, "join": f"anyrig worker --join {token}",
            "adopted": self._server is not None and self._server.adopted,
            "warnings": self.warnings,
        }  # fmt: skip
        if self._info.flower:
            found |= {
                "flower_user": FLOWER_USER, "flower_password": self._state.flower_password
            }  # fmt: skip
        return found

    def poll(self) -> None:
        """Restart what died, renew the registry entry, report who came and went."""
        from redis.exceptions import RedisError

        if self._server is not None and not self._server.is_running:
            self._warn("the broker died; it is started again over its data")
            try:
                self._server.start()
            except (AnyrigError, OSError) as error:
                self._warn(f"it cannot be started: {error}")
                return
        self._check_flower()
        if time.monotonic() < self._poll_at:
            return
        self._poll_at = time.monotonic() + COORDINATOR_HEARTBEAT_S
        try:
            self._registry.write_coordinator(self._info)
            for event, info in self._watch.poll():
                self._on_event(event, {"worker": info.name, "device": info.device})
            self._unavailable = False
        except (RedisError, OSError) as error:
            if not self._unavailable:
                self._warn(f"the broker does not respond: {error}")
            self._unavailable = True

    def _lock(self) -> None:
        """One coordinator of a user at a time."""
        from anyrig.storage.files import lock_file

        make_folder(self._folder)
        if not self._stack.enter_context(lock_file(self._folder / ".lock", 0.5)):
            raise OverloadedError(
                "a coordinator is already running here",
                hint="`anyrig cluster status` lists its workers.",
            )

    def _start_broker(self) -> str:
        """Its address for this machine."""
        port = _choose_port(self._port, self._state.port, PORT)
        self._server = BrokerServer(
            self._folder / "broker", hosts=self._address.hosts, port=port,
            password=self._state.password,
        )  # fmt: skip
        self._stack.callback(self._server.stop)
        self._server.start()
        self._state = replace(self._state, port=port)
        self._url, local = (
            f"redis://{USER}:{self._state.password}@{_bracket(host)}:{port}/0"
            for host in (self._address.public, self._address.local)
        )
        return local

    def _start_flower(self, url: str) -> str:
        if self._flower_port is None:
            return ""
        port, host = self._flower_port or _find_free_port(), self._address.hosts[0]
        check_port(
            host, port, Message("Pass another {flower_port}.", flower_port=OptionRef("flower_port"))
        )
        self._flower = Flower(self._folder)
        self._flower.configure(
            self._environment, url, host=host, port=port, password=self._state.flower_password
        )
        self._stack.callback(self._flower.stop)
        self._flower.start()
        return f"http://{_bracket(self._address.public)}:{port}"

    def _check_flower(self) -> None:
        """Restart it, each time after twice as long: it may be unable to run here."""
        now = time.monotonic()
        if self._flower is None or self._flower.is_running or now < self._flower_at:
            return
        self._flower_wait_s = min(_MAX_FLOWER_WAIT_S, 2 * self._flower_wait_s)
        self._flower_at = now + self._flower_wait_s
        self._warn(f"Flower stopped, see {self._flower.log_file}; it is started again")
        try:
            self._flower.start()
        except (AnyrigError, OSError) as error:  # the cluster works without it
            self._warn(f"Flower cannot be started: {error}")

    def _withdraw(self) -> None:
        with contextlib.suppress(Exception):  # its entry lapses by itself
            self._registry.remove_coordinator()
