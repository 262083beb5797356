"""Who is in a cluster: a key with a time to live for each worker, with the facts of its device.

A worker writes its `WorkerInfo` every two seconds; when the key lapses, the worker is gone. The
list of names stays: a worker that leaves takes its name off, one that only fell silent is shown as
lost until it comes back, somebody forgets it, or a week is over. `anyrig cluster status`,
`/cluster`, the page and every client read the same keys.
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyrig.cluster.broker import HEARTBEAT_S, LEASE_S, queue_name, to_text
from anyrig.errors import InvalidInputError, mention
from anyrig.version import __version__

if TYPE_CHECKING:
    from anyrig.cluster.broker import BrokerClient

PROTOCOL = 3
"""Of tasks and results; another one cannot be understood."""
LOST = "lost"
LOST_S = 7 * 24 * 3600
"""A lost worker is remembered for so long."""
COORDINATOR_LEASE_S, COORDINATOR_HEARTBEAT_S = 15, 5.0
_MAX_BYTES = 64_000
_DRAIN_S = 24 * 3600
_CLEAN_UP_S = 600.0


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
    pid: int = 0
    boot_id: str = ""
    """Of the system's start; machines that are copies share all names but this."""
    clock: float = 0.0
    """Its time of day, for messages that expire."""
    python: str = ""
    system: str = ""
    device: str = ""
    """Name of what it computes on."""
    kind: str = "cpu"
    word: str = "cpu"
    engines: tuple[EngineId, ...] = ()
    precisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By engine: the classes of number formats it can compute in, its own choice first."""
    status: str = "ready"
    """`loading`, `ready`, `busy`, `draining`."""
    device_type: str = "cpu"
    gpu_available: bool = False
    gpu_count: int = 0
    gpu_memory_free_mb: int | None = 0
    device_memory_mb: int = 0
    """Of the device in all; 0 if unknown."""
    tts_model_loaded: bool = False
    cached_models: tuple[str, ...] = ()
    speeds: Mapping[str, float] = field(default_factory=dict)
    """By engine: measured cost per second (characters, for speech)."""
    segments_done: int = 0
    shards_done: int = 0
    """Tasks."""
    tasks: tuple[str, ...] = ()
    """Ids of those it has received and not finished."""
    heartbeat: int = 0
    """Counted from its start."""

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

    def describe_health(self) -> dict[str, Any]:
        """What the health task, `celery inspect stats` and Flower show."""
        return {
            "status": "ok" if self.status in ("ready", "busy") else self.status,
            "state": self.status, "device_type": self.device_type, "device_name": self.device,
            "device_memory_mb": self.device_memory_mb,
            "engine": ", ".join(one.engine for one in self.engines),
            "speed": dict(self.speeds), **self._describe_device(),
            "segments_done": self.segments_done, "versions": self._versions(),
        }  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """What `anyrig cluster status --json` and `/cluster` show, without the status."""
        return {
            "device_type": self.device_type, **self._describe_device(), "device": self.device,
            "host": self.host, "pid": self.pid, "speed": dict(self.speeds),
            "segments_done": self.segments_done, "shards_done": self.shards_done,
            "versions": self._versions(),
        }  # fmt: skip

    def _describe_device(self) -> dict[str, Any]:
        return {
            "gpu_available": self.gpu_available, "gpu_count": self.gpu_count,
            "gpu_memory_free_mb": self.gpu_memory_free_mb,
            "tts_model_loaded": self.tts_model_loaded, "cached_models": list(self.cached_models),
        }  # fmt: skip

    def _versions(self) -> dict[str, Any]:
        return {
            "anyrig": self.version, "python": self.python, "protocol": self.protocol,
            **{one.engine: one.version for one in self.engines},
        }  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(asdict(self))


_TYPES = {one.name: type(getattr(WorkerInfo("", ""), one.name)) for one in fields(WorkerInfo)}


def parse_worker_info(text: bytes | str) -> WorkerInfo | None:
    """None if any field is not valid: another machine wrote it."""
    if len(text) > _MAX_BYTES:
        return None
    try:
        values = {name: value for name, value in json.loads(text).items() if name in _TYPES}
        values["engines"] = tuple(EngineId(**one) for one in values.get("engines", ()))
        for name in ("cached_models", "tasks"):
            values[name] = tuple(values.get(name, ()))
        classes = values.get("precisions", {})
        values["precisions"] = {name: tuple(some) for name, some in classes.items()}
        info = WorkerInfo(**values)
        return info if _is_valid(info) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _is_valid(info: WorkerInfo) -> bool:
    for name, kind in _TYPES.items():
        value = getattr(info, name)
        if type(value) is not kind and not (name == "gpu_memory_free_mb" and value is None):
            return False
    texts = [
        *(text for one in info.engines
          for text in (one.engine, one.version, one.fingerprint, one.voices)),
        *info.cached_models, *info.tasks, *info.speeds, *info.precisions,
        *(text for some in info.precisions.values() for text in some),
    ]  # fmt: skip
    speeds = info.speeds.values()
    return all(type(text) is str for text in texts) and all(
        type(speed) in (int, float) and 0 <= speed < math.inf for speed in speeds
    )


@dataclass(frozen=True)
class CoordinatorInfo:
    """A coordinator, as it describes itself in the broker for as long as it runs."""

    version: str = ""
    protocol: int = 0
    host: str = ""
    pid: int = 0
    flower: str = ""
    """Address of Flower, if it was started."""
    box: str = ""
    """Always empty: there was an address of a store for large results, which programs may read."""


def parse_coordinator(text: bytes | str | None) -> CoordinatorInfo | None:
    if text is None or len(text) > _MAX_BYTES:
        return None
    try:
        found = json.loads(text)
        given = {
            one.name: found[one.name] for one in fields(CoordinatorInfo)
            if type(found.get(one.name)) is type(one.default)
        }  # fmt: skip
    except (ValueError, AttributeError):
        return None
    return CoordinatorInfo(**given)


@dataclass(frozen=True)
class WorkerRow:
    """One worker of a cluster's status."""

    name: str
    status: str
    """`loading`, `ready`, `busy`, `draining`, or `lost`."""
    info: WorkerInfo | None
    """None if nothing is known."""
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
            "name": self.name, "status": self.status, **info.describe(),
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
        self._names = client.key("workers")

    # -- a worker's own entry --------------------------------------------------------------------

    def write(self, info: WorkerInfo) -> None:
        """A sign of life."""
        pipe = self._client.redis.pipeline(transaction=False)
        pipe.hset(self._names, info.name, info.instance)
        pipe.set(self._key(info.name), info.to_json(), ex=LEASE_S)
        pipe.execute()

    def register(self, info: WorkerInfo) -> WorkerInfo | None:
        """Take a name that is free; otherwise the worker that has it."""
        key, redis = self._key(info.name), self._client.redis
        while not redis.set(key, info.to_json(), ex=LEASE_S, nx=True):
            found = cast("bytes | None", redis.get(key))
            if found is not None:
                return parse_worker_info(found) or WorkerInfo(info.name, "")
        redis.hset(self._names, info.name, info.instance)
        return None

    def owns_name(self, info: WorkerInfo) -> bool:
        """Whether no other worker has registered under its name since."""
        found = cast("bytes | None", self._client.redis.hget(self._names, info.name))
        return found is None or to_text(found) == info.instance

    def unregister(self, info: WorkerInfo) -> None:
        """Free the name of a worker that is dead, unless another has taken it by now."""
        from redis.exceptions import WatchError

        key = self._key(info.name)
        with self._client.redis.pipeline(transaction=True) as pipe:
            pipe.watch(key)  # type: ignore[no-untyped-call]
            found = cast("bytes | None", pipe.get(key))
            now = parse_worker_info(found) if found is not None else None
            if now is not None and now.instance != info.instance:
                return
            pipe.multi()
            pipe.hdel(self._names, info.name)
            pipe.delete(key)
            with suppress(WatchError):  # another was faster
                pipe.execute()

    def remove(self, name: str) -> bool:
        """Take a name off the list, with everything that is kept of it; whether it was there."""
        client = self._client
        pipe = client.redis.pipeline(transaction=False)
        pipe.hdel(self._names, name)
        pipe.delete(
            self._key(name), client.key(LOST, name), client.key("drain", name), queue_name(name)
        )
        found, _ = pipe.execute()
        return bool(found)

    def is_alive(self, info: WorkerInfo, *, shared_pids: bool = True) -> bool:
        """Whether the worker of an entry still runs; waits for its next heartbeat.

        Args:
            info: as it was read.
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

    def list_alive(self) -> dict[str, WorkerInfo]:
        """By name: those with a recent heartbeat."""
        names = self.list_names()
        if not names:
            return {}
        found = cast("list[Any]", self._client.redis.mget([self._key(name) for name in names]))
        entries = {
            name: parse_worker_info(text)
            for name, text in zip(names, found, strict=True)
            if text is not None
        }
        return {
            name: info for name, info in entries.items() if info is not None and info.name == name
        }

    def read_status(self) -> ClusterStatus:
        """Everybody who has joined and not left."""
        names, client = self.list_names(), self._client
        pipe = client.redis.pipeline(transaction=False)
        pipe.get(client.key("cluster"))
        for name in names:
            for key in (self._key(name), client.key(LOST, name)):
                pipe.get(key)
                pipe.pttl(key)
            pipe.exists(client.key("drain", name))
        coordinator, *rest = pipe.execute()
        rows = [_make_row(name, *rest[5 * at : 5 * at + 5]) for at, name in enumerate(names)]
        return ClusterStatus(tuple(rows), parse_coordinator(coordinator))

    def find_workers(self, name: str) -> list[str]:
        """The workers that a name means: one of this name, or all of a machine or host."""
        rows = self.read_status().rows
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
        self._client.redis.set(
            self._client.key("cluster"), json.dumps(asdict(info)), ex=COORDINATOR_LEASE_S
        )

    def remove_coordinator(self) -> None:
        self._client.redis.delete(self._client.key("cluster"))

    def read_coordinator(self) -> CoordinatorInfo | None:
        return parse_coordinator(
            cast("bytes | None", self._client.redis.get(self._client.key("cluster")))
        )

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
        return self._client.key("alive", name)


def _make_row(
    name: str, alive: Any, alive_ms: int, lost: Any, lost_ms: int, draining: int
) -> WorkerRow:
    if alive is not None:
        info = parse_worker_info(alive)
        # Shown at once; the worker itself notices with its next heartbeat.
        status = "draining" if draining else info.status if info else "ready"
        return WorkerRow(name, status, info, _age(LEASE_S, alive_ms))
    info = parse_worker_info(lost) if lost is not None else None
    age = _age(LOST_S, lost_ms) + LEASE_S if lost is not None else None
    return WorkerRow(name, LOST, info, age)


def _age(lease_s: float, left_ms: int) -> float:
    return round(max(0.0, lease_s - left_ms / 1000), 1)


def make_name_taken_error(info: WorkerInfo) -> InvalidInputError:
    return InvalidInputError(
        f"a worker called {info.name} already exists (process {info.pid} on {info.host})",
        hint=f"Pass another {mention('name')}; without one, a free name is found.",
    )


def read_boot_id() -> str:
    """What distinguishes this start of this machine from all others; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class RegistryWatch:
    """Notices who joins, leaves and gets lost, and keeps what is known of lost workers."""

    def __init__(
        self, client: BrokerClient, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._registry, self._clock = client, WorkerRegistry(client), clock
        self._seen: dict[str, WorkerInfo] = {}
        self._cleaned_at = clock()

    def poll(self) -> list[tuple[str, WorkerInfo]]:
        """What happened since the last call: `joined`, `left` or `lost`, and to whom."""
        alive = self._registry.list_alive()
        listed = set(self._registry.list_names()) if self._seen.keys() - alive.keys() else set()
        changes: list[tuple[str, WorkerInfo]] = []
        for name, info in self._seen.items():
            if name in alive:
                continue
            changes.append((LOST if name in listed else "left", info))
            if name in listed:
                key, known = self._client.key(LOST, name), replace(info, tasks=())
                self._client.redis.set(key, known.to_json(), ex=LOST_S)
        changes += [("joined", info) for name, info in alive.items() if name not in self._seen]
        self._seen = alive
        if self._clock() - self._cleaned_at > _CLEAN_UP_S:
            self._forget_long_lost()
        return changes

    def _forget_long_lost(self) -> None:
        """Where every start has a name of its own, lost workers would add up."""
        self._cleaned_at = self._clock()
        redis, key = self._client.redis, self._client.key("absent")
        now = redis.time()[0]  # kept in the broker: the next coordinator goes on with it
        absent = [name for name in self._registry.list_names() if name not in self._seen]
        known = cast("dict[bytes, bytes]", redis.hgetall(key))
        redis.delete(key)
        for name in absent:
            since = int(known.get(name.encode(), now))
            if now - since > LOST_S:
                self._registry.remove(name)
            else:
                redis.hset(key, name, str(since))
