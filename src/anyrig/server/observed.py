"""What was seen of the workers: from the processes themselves and the last samples, never from what
was asked for. Nobody is asked: it reads what is kept, in well under a millisecond.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from anyrig.app.models import list_all_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyrig.server.state import ServerState
    from anyrig.work.protocol import WorkerStatus

Status = Literal["ready", "busy", "loading", "hangs", "dead"]
SILENT_S = 15.0
"""A worker says every two seconds that it lives; one that has not for so long hangs."""
DEAD_TOLD_S = 60.0
"""For how long a worker that died is still told of."""
_MB = 1 << 20
_NAMED_BY_PEOPLE = ("index", "book plan")


class Worker(NamedTuple):
    """One worker process."""

    model: str
    """The model's name in the cache; of a process of a worker's own, with the name of its model."""
    seen: WorkerStatus
    status: Status
    silent_s: float


def workers(server: ServerState) -> list[Worker]:
    """Every worker of every model that is loaded, those that workers have of their own, and those
    that died lately.
    """
    now = time.monotonic()
    return [
        Worker(name, seen, status(seen, now), now - seen.last_seen)
        for one in server.models.loaded_models()
        for name, seen in list_all_workers(one.name, one.model)
        if seen.state != "dead" or now - seen.last_seen <= DEAD_TOLD_S
    ]  # fmt: skip


def status(seen: WorkerStatus, now: float) -> Status:
    """How a worker is doing."""
    if seen.state != "ready":
        return seen.state
    if now - seen.last_seen > SILENT_S:
        return "hangs"
    return "ready" if seen.busy_since is None else "busy"


def health(server: ServerState) -> tuple[list[str], list[dict[str, Any]]]:
    """For `/health`: what each worker is called, and its fields."""
    answering = gpus(server.machine.now())
    found = workers(server)
    names = [f"{worker.model}:{worker.seen.pid}" for worker in found]
    return names, [_fields(worker, answering) for worker in found]


def gpus(now: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The GPUs that answered the last time they were sampled, by id."""
    rows = [row for row in now["devices"] if row["kind"] == "gpu" and not row["lost"]]
    return {row["device"]: row for row in rows if "device" not in row["unknown"]}


def _fields(worker: Worker, answering: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    seen = worker.seen
    alive = seen.state == "ready" and worker.status != "hangs"
    mine = [answering[seen.device]] if seen.device in answering else []
    rows = mine if seen.kind == "gpu" else list(answering.values())
    free = [row["memory_free_bytes"] for row in rows if row["memory_free_bytes"] is not None]
    return {
        "status": worker.status,
        "device_type": seen.word.partition(":")[0],
        "gpu_available": bool(rows),
        "gpu_count": len(answering),
        "gpu_memory_free_mb": round(max(free) / _MB) if free else None if rows else 0,
        "tts_model_loaded": alive and worker.model.startswith("speech"),
        "cached_models": list(dict.fromkeys(map(_model_name, seen.models))) if alive else [],
    }


def _model_name(held: str) -> str:
    """What a worker holds, without the names that people gave: every key may read this."""
    return next((kind for kind in _NAMED_BY_PEOPLE if held.startswith(f"{kind} ")), held)


def problems(server: ServerState) -> list[str]:
    """What is wrong with workers, for a person."""
    found = []
    for worker in workers(server):
        seen = worker.seen
        if worker.status == "dead":
            found.append(f"{worker.model}: worker {seen.pid} {seen.exit_reason or 'died'}")
        elif worker.status == "hangs":
            found.append(f"{worker.model}: worker {seen.pid} says nothing for "
                         f"{worker.silent_s:.0f} s")  # fmt: skip
    return found


def cluster_problems(server: ServerState) -> list[str]:
    """What is wrong with the cluster, for a person; who is asked to leave is no problem."""
    if server.cluster is None:
        return []
    now = server.cluster.now()
    found = [f"cluster: {now['error']}"] if now["error"] else []
    if not found and not any(row["trouble"] == "" for row in now["workers"]):
        found = ["cluster: no worker is there; speech waits for one to join"]
    return found + [
        f"cluster: {row['name']}: {row['trouble']}" for row in now["workers"]
        if row["trouble"] and row["status"] != "draining"
    ]  # fmt: skip


def stalled(server: ServerState) -> list[str]:
    """Models that are loaded, and have no worker that could answer now."""
    able: dict[str, bool] = {}
    for worker in workers(server):
        able[worker.model] = able.get(worker.model, False) or worker.status in ("ready", "busy")
    return sorted(model for model, one in able.items() if not one)
