"""Who is in a cluster: a key with a time to live for each worker, with the facts of its device.

A worker writes its `WorkerInfo` every two seconds. Its key lives for a week: the time that is left
tells, by the broker's clock alone, how old the last heartbeat is. After ten seconds the worker is
lost and its tasks are scheduled again; it is shown as lost until it comes back, somebody forgets
it, or the key expires. A worker that leaves deletes its key. `anyrig cluster status`, `/cluster`,
the page and every client read the same keys.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter

from anyrig.cluster.broker import HEARTBEAT_S, LEASE_S, queue_name, to_text
from anyrig.errors import InvalidInputError, Message, OptionRef
from anyrig.version import __version__

if TYPE_CHECKING:
    from anyrig.cluster.broker import BrokerClient

T = TypeVar("T")
PROTOCOL = 3
"""Of tasks and results; another one cannot be understood."""
LOST = "lost"
LOST_S = 7 * 24 * 3600
"""A lost worker is remembered for so long."""
COORDINATOR_LEASE_S, COORDINATOR_HEARTBEAT_S = 15, 5.0
_MAX_BYTES = 64_000
_DRAIN_S = 24 * 3600
Speed = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, le=1 << 53)]
Clock = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
"""Seconds since 1970, within what a `datetime` can have."""


@dataclass(frozen=True)
class EngineId:
    """An engine with its weights: what two machines with equal ones compute is the same."""

    engine: str
    version: str
    fingerprint: str
    voices: str = ""
    """A hash of its voices."""

    def describe_difference(self, other: EngineId) -> str:
        """How another one differs; empty if it does not."""
        for name in ("version", "fingerprint", "voices"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                label = {"fingerprint": "weights"}.get(name, name)
                return f"its {self.engine} has other {label} ({theirs[:24]}, not {mine[:24]})"
        return ""


def find_mismatch(
    engine: EngineId, precision: str, engines: Iterable[EngineId],
    precisions: Mapping[str, Sequence[str]],
) -> str:  # fmt: skip
    """Why a worker with these engines cannot compute for an engine; empty if it can."""
    name = engine.engine
    theirs = next((one for one in engines if one.engine == name), None)
    if theirs is None:
        return f"it has no {name}"
    classes = precisions.get(name, ())
    if classes and precision not in classes:
        return f"it computes {name} in {', '.join(classes)}, not in {precision}"
    return engine.describe_difference(theirs)


@dataclass(frozen=True)
class WorkerInfo:
    """A worker, as it last described itself."""

    name: str
    version: str
    """Of anyrig."""
    protocol: int = PROTOCOL
    instance: str = ""
    """Random, of one start: another start under the same name has none of its tasks."""
    machine: str = ""
    """Name that all workers of a machine share."""
    host: str = ""
    pid: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    boot_id: str = ""
    """Of the system's start; machines that are copies share all names but this."""
    clock: Clock = 0.0
    """Its time of day, for messages that expire."""
    python: str = ""
    system: str = ""
    device: str = ""
    """Name of what it computes on."""
    kind: str = "cpu"
    word: str = "cpu"
    engines: tuple[EngineId, ...] = ()
    precisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By engine: the precision classes it can compute in, its own choice first."""
    status: str = "ready"
    """`loading`, `ready`, `busy`, `draining`."""
    device_type: str = "cpu"
    gpu_available: bool = False
    gpu_count: Number = 0
    gpu_memory_free_mb: Number | None = 0
    device_memory_mb: Number = 0
    """Of the device in all; 0 if unknown."""
    tts_model_loaded: bool = False
    cached_models: tuple[str, ...] = ()
    speeds: Mapping[str, Speed] = field(default_factory=dict)
    """By engine: measured cost per second (characters, for speech)."""
    segments_done: Number = 0
    shards_done: Number = 0
    """Tasks."""
    tasks: tuple[str, ...] = ()
    """Ids of those it has received and not finished."""
    heartbeat: Number = 0
    """Counted from its start."""
    lease_s: Annotated[int, Field(gt=0, le=60)] = LEASE_S
    """It is lost when its last heartbeat is older."""

    @property
    def queue(self) -> str:
        return queue_name(self.name)

    @property
    def hostname(self) -> str:
        """Name under which Celery knows it."""
        return f"{self.name}@{self.host}"

    def find_engine(self, name: str) -> EngineId | None:
        return next((one for one in self.engines if one.engine == name), None)

    def describe_difference(self) -> str:
        """How its anyrig differs from this one; empty if it does not."""
        if self.version != __version__:
            return f"it runs anyrig {self.version}, this is {__version__}"
        if self.protocol != PROTOCOL:
            return f"it uses protocol {self.protocol} of the cluster, this uses {PROTOCOL}"
        return ""

    def describe(self) -> dict[str, Any]:
        """What the health task, `celery inspect stats`, Flower, `anyrig cluster status --json` and
        `/cluster` show.
        """
        return {
            "name": self.name, "status": "ok" if self.status in ("ready", "busy") else self.status,
            "state": self.status, "device_type": self.device_type, "device_name": self.device,
            "device_memory_mb": self.device_memory_mb, "gpu_available": self.gpu_available,
            "gpu_count": self.gpu_count, "gpu_memory_free_mb": self.gpu_memory_free_mb,
            "engine": ", ".join(one.engine for one in self.engines), "speed": dict(self.speeds),
            "tts_model_loaded": self.tts_model_loaded, "cached_models": list(self.cached_models),
            "device": self.device, "host": self.host, "pid": self.pid,
            "segments_done": self.segments_done, "shards_done": self.shards_done,
            "versions": {
                "anyrig": self.version, "python": self.python, "protocol": self.protocol,
                **{one.engine: one.version for one in self.engines},
            },
        }  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class CoordinatorInfo:
    """A coordinator, as it describes itself in the broker for as long as it runs."""

    version: str = ""
    protocol: int = 0
    host: str = ""
    pid: int = 0
    flower: str = ""
    """Address of Flower, if it was started."""


_WORKER, _COORDINATOR = TypeAdapter(WorkerInfo), TypeAdapter(CoordinatorInfo)


def parse_worker_info(text: bytes | str) -> WorkerInfo | None:
    """None if any field is not valid: another machine wrote it."""
    return _parse(_WORKER, text)


def _parse(kind: TypeAdapter[T], text: bytes | str | None) -> T | None:
    if text is None or len(text) > _MAX_BYTES:
        return None
    try:
        return kind.validate_json(text, strict=True)
    except Exception:  # noqa: BLE001 - whatever it contains, it is not valid
        return None


@dataclass(frozen=True)
class WorkerRow:
    """One worker of a cluster's status."""

    name: str
    status: str
    """`loading`, `ready`, `busy`, `draining`, or `lost`."""
    info: WorkerInfo | None
    """None if its entry is not valid, or expired."""
    last_sign_s: float | None
    """Age of its last heartbeat by the broker's clock; None if unknown."""

    @property
    def trouble(self) -> str:
        """Why it gets no work; empty if it may."""
        if self.status == LOST:
            return "no heartbeat"
        if self.info is None:
            return "its registry entry is not valid"
        if difference := self.info.describe_difference():
            return difference
        return "draining" if self.status == "draining" else ""

    def describe(self) -> dict[str, Any]:
        info = self.info or WorkerInfo(self.name, "", protocol=0)
        return {
            **info.describe(), "status": self.status, "state": self.status,
            "last_sign_s": self.last_sign_s, "trouble": self.trouble,
        }  # fmt: skip


@dataclass(frozen=True)
class ClusterStatus:
    rows: tuple[WorkerRow, ...]
    coordinator: CoordinatorInfo | None
    """None if none runs: the workers go on without it."""

    def describe(self) -> dict[str, Any]:
        return {
            "coordinator": asdict(self.coordinator) if self.coordinator else None,
            "workers": [row.describe() for row in self.rows],
        }


class WorkerRegistry:
    """The workers of a cluster, as the broker has them."""

    def __init__(self, client: BrokerClient) -> None:
        self._client = client
        self._names, self._coordinator = client.key("workers"), client.key("cluster")

    # -- a worker's own entry --------------------------------------------------------------------

    def write(self, info: WorkerInfo) -> None:
        """A heartbeat."""
        pipe = self._client.redis.pipeline(transaction=False)
        self._write(pipe, info)
        pipe.execute()

    def _write(self, pipe: Any, info: WorkerInfo) -> None:
        pipe.hset(self._names, info.name, info.instance)
        pipe.set(self._key(info.name), info.to_json(), ex=LOST_S)

    def register(
        self, info: WorkerInfo, *, replaces: WorkerInfo | None = None
    ) -> WorkerInfo | None:
        """Take a name unless a worker with recent heartbeats has it; that worker.

        Args:
            replaces: a worker of this name that is known to be dead.
        """
        key, other = self._key(info.name), None

        def take(pipe: Any) -> None:
            nonlocal other
            text, left_ms = pipe.get(key), pipe.pttl(key)
            other = (parse_worker_info(text) or WorkerInfo(info.name, "")) if text else None
            is_dead = replaces and other and other.instance == replaces.instance
            if other and (is_dead or _age(left_ms) > other.lease_s):
                other = None
            pipe.multi()
            if other is None:
                self._write(pipe, info)

        self._client.redis.transaction(take, key)
        return other

    def owns_name(self, info: WorkerInfo) -> bool:
        """Whether no other worker has registered under its name since."""
        found = cast("bytes | None", self._client.redis.hget(self._names, info.name))
        return found is None or to_text(found) == info.instance

    def remove(self, name: str) -> None:
        """Take a name off the list, with everything that is kept of it."""
        pipe = self._client.redis.pipeline(transaction=False)
        pipe.hdel(self._names, name)
        pipe.delete(self._key(name), self._client.key("drain", name), queue_name(name))
        pipe.execute()

    def is_alive(self, info: WorkerInfo, *, shared_pids: bool = True) -> bool:
        """Whether the worker of an entry still runs; waits for its next heartbeat.

        Args:
            shared_pids: whether process ids of its host are those of this process; not in a
                container.
        """
        from psutil import pid_exists

        local = (info.host, info.boot_id) == (socket.gethostname(), read_boot_id())
        if shared_pids and local and info.pid and not pid_exists(info.pid):
            return False
        end = time.monotonic() + 2.5 * HEARTBEAT_S
        while time.monotonic() < end:
            time.sleep(0.2)
            now = self._client.retry(self.list_alive).get(info.name)
            if now is None:
                return False
            if (now.instance, now.heartbeat) != (info.instance, info.heartbeat):
                return True
        return False

    # -- everybody -------------------------------------------------------------------------------

    def list_names(self) -> list[str]:
        """All that have joined and not left, alive or not."""
        found = cast("Iterable[Any]", self._client.redis.hkeys(self._names))
        return sorted(to_text(name) for name in found)

    def list_workers(self) -> list[WorkerRow]:
        """All that have joined and not left."""
        names = self.list_names()
        if not names:
            return []
        keys = [self._key(name) for name in names]
        pipe = self._client.redis.pipeline(transaction=False)
        pipe.mget(keys)
        pipe.mget([self._client.key("drain", name) for name in names])
        for key in keys:
            pipe.pttl(key)
        entries, drains, *left_ms = pipe.execute()
        return [_make_row(*facts) for facts in zip(names, entries, drains, left_ms, strict=True)]

    def list_alive(self) -> dict[str, WorkerInfo]:
        """By name: those with a recent heartbeat, as they wrote it."""
        return {
            row.name: row.info for row in self.list_workers()
            if row.info is not None and row.status != LOST
        }  # fmt: skip

    def read_status(self) -> ClusterStatus:
        return ClusterStatus(tuple(self.list_workers()), self.read_coordinator())

    def find_workers(self, name: str) -> list[str]:
        """The workers that a name means: one of this name, or all of a machine or host."""
        rows = self.list_workers()
        if any(row.name == name for row in rows):
            return [name]
        return [
            row.name for row in rows
            if row.info is not None and name in (row.info.machine, row.info.host)
        ]  # fmt: skip

    # -- draining --------------------------------------------------------------------------------

    def drain(self, name: str, *, on: bool = True) -> None:
        """Ask a worker to finish what it has and to leave; or not to."""
        key = self._client.key("drain", name)
        if on:
            self._client.redis.set(key, "1", ex=_DRAIN_S)
        else:
            self._client.redis.delete(key)

    def is_draining(self, name: str) -> bool:
        return bool(self._client.redis.exists(self._client.key("drain", name)))

    # -- the coordinator -------------------------------------------------------------------------

    def write_coordinator(self, info: CoordinatorInfo) -> None:
        self._client.redis.set(self._coordinator, json.dumps(asdict(info)), ex=COORDINATOR_LEASE_S)

    def remove_coordinator(self) -> None:
        self._client.redis.delete(self._coordinator)

    def read_coordinator(self) -> CoordinatorInfo | None:
        text = cast("bytes | None", self._client.redis.get(self._coordinator))
        return _parse(_COORDINATOR, text)

    def check_version(self) -> None:
        """Raise an error if the cluster's coordinator has another version of anyrig."""
        found = self.read_coordinator()
        if found is None or (found.version == __version__ and found.protocol in (0, PROTOCOL)):
            return
        protocols = f" (protocols {PROTOCOL} and {found.protocol})"
        raise InvalidInputError(
            f"this worker runs anyrig {__version__}, and the cluster's coordinator anyrig"
            f" {found.version}{protocols if found.version == __version__ else ''}",
            hint="Install the same version on all machines.",
        )

    def _key(self, name: str) -> str:
        return self._client.key("worker", name)


def _make_row(name: str, entry: bytes | None, drain: bytes | None, left_ms: int) -> WorkerRow:
    info = parse_worker_info(entry) if entry is not None else None
    if info is not None and info.name != name:  # it pretends to be another
        info = None
    if entry is None:
        return WorkerRow(name, LOST, None, None)
    age = _age(left_ms)
    # Shown as draining at once; the worker itself notices with its next heartbeat.
    status = "draining" if drain else info.status if info else "ready"
    lease_s = info.lease_s if info else LEASE_S
    return WorkerRow(name, status if age <= lease_s else LOST, info, age)


def _age(left_ms: int) -> float:
    return round(max(0.0, LOST_S - left_ms / 1000), 1)


def make_name_taken_error(info: WorkerInfo) -> InvalidInputError:
    return InvalidInputError(
        f"a worker called {info.name} already exists (process {info.pid} on {info.host})",
        hint=Message(
            "Pass another {name}; without one, a free name is found.", name=OptionRef("name")
        ),
    )


def read_boot_id() -> str:
    """What distinguishes this start of this machine from all others; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class RegistryWatch:
    """Notices who joins, leaves and gets lost."""

    def __init__(self, registry: WorkerRegistry) -> None:
        self._registry = registry
        self._seen: dict[str, WorkerInfo] = {}

    def poll(self) -> list[tuple[str, WorkerInfo]]:
        """What happened since the last call: `joined`, `left` or `lost`, and to whom."""
        rows = {row.name: row for row in self._registry.list_workers()}
        alive = {
            name: row.info for name, row in rows.items()
            if row.info is not None and row.status != LOST
        }  # fmt: skip
        changes = [
            (LOST if name in rows else "left", info)
            for name, info in self._seen.items()
            if name not in alive
        ]
        changes += [("joined", info) for name, info in alive.items() if name not in self._seen]
        self._seen = alive
        for row in rows.values():
            if row.last_sign_s is None:  # its key has expired
                self._registry.remove(row.name)
        return changes
