"""Metrics for Prometheus, and the state of worker processes.

Counters count what happens; gauges and the state of workers are read when somebody asks, from what
is in memory: that takes well under a millisecond and asks no process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from anyrig.app.models import LoadedModel, find_queue, format_nested_name, list_all_workers
from anyrig.monitor.prometheus import prometheus_text
from anyrig.work.live import LANES

if TYPE_CHECKING:
    from anyrig.server.state import ServerState
    from anyrig.work.outcome import RunReport
    from anyrig.work.protocol import NestedModel, WorkerStatus

log = logging.getLogger(__name__)

# -- workers ---------------------------------------------------------------------------------------

Status = Literal["ready", "busy", "loading", "hangs", "dead"]
_STATUSES: tuple[Status, ...] = ("ready", "busy", "loading", "hangs", "dead")
SILENT_S = 15.0
"""A worker sends a heartbeat every two seconds; one that has not for this long hangs."""
DEAD_S = 60.0
"""How long a worker that died is still listed."""
_MIB = 1 << 20
_PRIVATE_KINDS = ("index", "book plan")


class Worker(NamedTuple):
    """A worker process."""

    model: str
    """Its name in the model cache; with the nested model's name, for a worker's own process."""
    seen: WorkerStatus
    status: Status
    silent_s: float


def list_workers(server: ServerState) -> list[Worker]:
    """The workers of all loaded models, nested ones too, and those that died lately."""
    now = time.monotonic()
    return [
        Worker(name, seen, get_status(seen, now), now - seen.last_seen)
        for model in server.models.loaded_models()
        for name, seen in list_all_workers(model.name, model.model)
        if seen.state != "dead" or now - seen.last_seen <= DEAD_S
    ]  # fmt: skip


def get_status(seen: WorkerStatus, now: float) -> Status:
    if seen.state != "ready":
        return seen.state
    if now - seen.last_seen > SILENT_S:
        return "hangs"
    return "ready" if seen.busy_since is None else "busy"


def describe_workers(server: ServerState) -> tuple[list[str], list[dict[str, Any]]]:
    """For `/health`: the names of the workers, and what is known of each."""
    gpus = find_gpus(server.machine.now())
    workers = list_workers(server)
    names = [f"{worker.model}:{worker.seen.pid}" for worker in workers]
    return names, [_describe_worker(worker, gpus) for worker in workers]


def find_gpus(now: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The GPUs that answered when they were last sampled, by id."""
    rows = [row for row in now["devices"] if row["kind"] == "gpu" and not row["lost"]]
    return {row["device"]: row for row in rows if "device" not in row["unknown"]}


def _describe_worker(worker: Worker, gpus: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    seen = worker.seen
    is_alive = seen.state == "ready" and worker.status != "hangs"
    own = [gpus[seen.device]] if seen.device in gpus else []
    rows = own if seen.kind == "gpu" else list(gpus.values())
    free = [row["memory_free_bytes"] for row in rows if row["memory_free_bytes"] is not None]
    return {
        "status": worker.status,
        "device_type": seen.selector.partition(":")[0],
        "gpu_available": bool(rows),
        "gpu_count": len(gpus),
        "gpu_memory_free_mb": round(max(free) / _MIB) if free else None if rows else 0,
        "tts_model_loaded": is_alive and worker.model.startswith("speech"),
        "cached_models": list(dict.fromkeys(map(_hide_name, seen.models))) if is_alive else [],
    }


def _hide_name(model: str) -> str:
    """A loaded model without names that users gave: every key may read this."""
    return next((kind for kind in _PRIVATE_KINDS if model.startswith(f"{kind} ")), model)


def list_worker_problems(server: ServerState) -> list[str]:
    found = []
    for worker in list_workers(server):
        name = f"{worker.model}: worker {worker.seen.pid}"
        if worker.status == "dead":
            found.append(f"{name} {worker.seen.exit_reason or 'died'}")
        elif worker.status == "hangs":
            found.append(f"{name} has not responded for {worker.silent_s:.0f} s")
    return found


def list_cluster_problems(server: ServerState) -> list[str]:
    if server.cluster is None:
        return []
    now = server.cluster.now()
    found = [f"cluster: {now['error']}"] if now["error"] else []
    if not found and not any(row["trouble"] == "" for row in now["workers"]):
        found = ["cluster: no worker is available; speech waits for one to join"]
    return found + [
        f"cluster: {row['name']}: {row['trouble']}" for row in now["workers"]
        if row["trouble"] and row["status"] != "draining"
    ]  # fmt: skip


def list_stalled_models(server: ServerState) -> list[str]:
    """Loaded models without a worker that could answer now."""
    able: dict[str, bool] = {}
    for worker in list_workers(server):
        able[worker.model] = able.get(worker.model, False) or worker.status in ("ready", "busy")
    return sorted(model for model, is_able in able.items() if not is_able)


ServerStatus = Literal["starting", "ready", "failed", "stalled", "ending"]


def get_server_status(server: ServerState) -> ServerStatus:
    """The state of the server, for `/health` and `anyrig_ready`."""
    if server.is_ending:
        return "ending"
    if server.preload_error:
        return "failed"
    if not server.is_ready:
        return "starting"
    # Models that were not preloaded are loaded when they are needed.
    stalled = any(name in server.preloaded for name in list_stalled_models(server))
    return "stalled" if stalled else "ready"


# -- counters --------------------------------------------------------------------------------------

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """The counters of a server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"registry": self.registry, "namespace": "anyrig"}
        self.requests = Counter("requests", "Requests", ["route", "method", "status"], **common)
        self.seconds = Histogram(
            "request_seconds", "Duration of requests", ["route"], buckets=_BUCKETS_S, **common
        )
        self.audio = Counter("audio_seconds", "Audio synthesised", ["engine"], **common)
        self.first_audio = Histogram(
            "first_audio_seconds", "Time to first audio", [], buckets=_BUCKETS_S, **common
        )
        self.texts = Counter("texts_embedded", "Texts embedded", ["model"], **common)
        self.tasks = Counter("tasks", "Document tasks", ["task", "outcome"], **common)
        self.batches = Counter("batches", "Batches run by engines", ["model"], **common)
        self.items = Counter("batch_items", "Items in these batches", ["model"], **common)
        self.busy = Counter("engine_busy_seconds", "Time inside engines", ["model"], **common)
        self.out_of_memory = Counter(
            "out_of_memory", "Batches and loads that ran out of memory", ["model"], **common
        )
        self.deaths = Counter("worker_deaths", "Workers that died", ["model"], **common)
        self._counted: dict[Hashable, tuple[RunReport | NestedModel, list[float]]] = {}
        """By the id of a report, what of it was counted; holding the report keeps its id unique."""
        self._dead: set[int] = set()
        self._lock = threading.Lock()

    def observe(self, models: Iterable[LoadedModel]) -> None:
        """Count what loaded models did since the last call, which must be before they unload."""
        with self._lock:
            reports: set[Hashable] = set()
            dead: set[int] = set()
            for model in models:
                live = find_queue(model.model)
                if live is None:
                    continue
                self._count(model.name, id(live.report), live.report)
                reports.add(id(live.report))
                for worker in live.workers():
                    for nested in worker.nested_models:
                        key = (worker.pid, nested.name, nested.opened)
                        self._count(format_nested_name(model.name, nested.name), key, nested)
                        reports.add(key)
                for name, worker in list_all_workers(model.name, model.model):
                    if worker.state != "dead":
                        continue
                    dead.add(worker.pid)
                    if worker.pid not in self._dead:
                        self.deaths.labels(name).inc()
            self._dead = dead
            self._counted = {key: seen for key, seen in self._counted.items() if key in reports}

    def _count(self, name: str, key: Hashable, report: RunReport | NestedModel) -> None:
        now = [float(report.num_batches), float(report.num_items), report.busy_s,
               float(report.num_out_of_memory)]  # fmt: skip
        before = self._counted.get(key, (report, [0.0] * len(now)))[1]
        counters = (self.batches, self.items, self.busy, self.out_of_memory)
        for metric, new, old in zip(counters, now, before, strict=True):
            metric.labels(name).inc(max(0.0, new - old))
        self._counted[key] = (report, now)


# -- text format -----------------------------------------------------------------------------------

_CLUSTER_STATUSES = ("ready", "busy", "loading", "draining", "lost", "refused")
Family = GaugeMetricFamily | CounterMetricFamily


def format_metrics(server: ServerState, gauges: CollectorRegistry) -> bytes:
    """All metrics in Prometheus' text format; `gauges` is of `register_gauges`."""
    server.metrics.observe(server.models.loaded_models())
    snapshot = server.machine.snapshot()
    devices = prometheus_text(snapshot).encode() if snapshot is not None else b""
    return generate_latest(server.metrics.registry) + generate_latest(gauges) + devices


def register_gauges(server: ServerState) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Gauges(server))
    return registry


class _Gauges(Collector):
    """What is read when somebody asks."""

    def __init__(self, server: ServerState) -> None:
        self._server = server

    def describe(self) -> Iterable[Family]:
        return []

    def collect(self) -> Iterator[Family]:
        is_ready = get_server_status(self._server) == "ready"
        yield _gauge("ready", "1 while the server is ready.", {(): is_ready})
        yield from self._collect_models()
        yield from self._collect_workers()
        yield from self._collect_loads()
        yield from self._collect_jobs()
        yield from self._collect_cluster()

    def _collect_models(self) -> Iterator[Family]:
        models = self._server.models.loaded_models()
        queues = [(one.name, live) for one in models if (live := find_queue(one.model)) is not None]
        yield _gauge("models_loaded", "Loaded models.", {(): len(models)})
        waiting = {(name, lane): live.waiting(lane) for name, live in queues for lane in LANES}
        yield _gauge("queue", "Waiting items.", waiting, "model", "lane")
        running = {(name,): live.running for name, live in queues}
        yield _gauge("running", "Items being processed.", running, "model")
        idle = {(one.name,): one.idle_s for one in models}
        yield _gauge("model_idle_seconds", "Time since last use.", idle, "model")

    def _collect_workers(self) -> Iterator[Family]:
        workers = list_workers(self._server)
        counts = {(one.model, status): 0 for one in workers for status in _STATUSES}
        for worker in workers:
            counts[worker.model, worker.status] += 1
        yield _gauge("workers", "Processes.", counts, "model", "status")

    def _collect_loads(self) -> Iterator[Family]:
        stats = self._server.models.stats
        for name, text, value in (
            ("loads", "Models that were loaded.", stats.loads),
            ("load_seconds", "Time spent loading.", stats.load_s),
            ("load_failures", "Loads that failed.", stats.failures),
            ("load_out_of_memory", "Loads that ran out of memory.", stats.out_of_memory),
        ):
            yield CounterMetricFamily(f"anyrig_model_{name}", text, value=float(value))
        family = CounterMetricFamily("anyrig_model_unloads", "Models unloaded.", labels=["reason"])
        for reason, count in stats.evictions.items():
            family.add_metric([reason], count)
        yield family

    def _collect_jobs(self) -> Iterator[Family]:
        try:
            counts = self._server.jobs.list_page(0).counts
        except Exception:
            # All other metrics are needed most when one thing is broken.
            log.exception("cannot count the jobs")
            return
        yield _gauge("jobs", "Jobs by state.", {(one,): n for one, n in counts.items()}, "state")

    def _collect_cluster(self) -> Iterator[Family]:
        """Nothing without a cluster; while the broker is away, the workers as they were last."""
        up: dict[tuple[()], float] = {}
        counts: dict[tuple[str], float] = {}
        if self._server.cluster is not None:
            now = self._server.cluster.now()
            up = {(): now["state"] == "ready"}
            counts = {(status,): 0 for status in _CLUSTER_STATUSES}
            for row in now["workers"]:
                status = row["status"]
                refused = row["trouble"] and status not in ("lost", "draining")
                # It may be of another version: what it says of itself may be anything.
                known = not refused and status in _CLUSTER_STATUSES
                counts[(status if known else "refused",)] += 1
        yield _gauge("cluster_up", "1 while the broker answers.", up)
        yield _gauge("cluster_workers", "Workers of the cluster.", counts, "status")


def _gauge(name: str, text: str, values: Mapping[Any, float], *labels: str) -> GaugeMetricFamily:
    """A gauge; the values are by tuples of what the labels are."""
    family = GaugeMetricFamily(f"anyrig_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, float(value))
    return family
