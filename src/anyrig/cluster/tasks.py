"""The tasks of a worker: nothing else is ever run, whatever a message asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import Task, shared_task

from anyrig.cluster.broker import HEALTH, HEALTH_CHECK, RUN_ITEMS

if TYPE_CHECKING:
    from anyrig.cluster.worker import ClusterWorker

_worker: ClusterWorker | None = None


def set_worker(worker: ClusterWorker | None) -> None:
    """Have the tasks of this process run by a worker."""
    global _worker
    _worker = worker


def get_worker() -> ClusterWorker:
    if _worker is None:
        raise RuntimeError("this process was not started by `anyrig worker`")
    return _worker


class CheckedTask(Task[Any, Any]):
    Strategy = "anyrig.cluster.worker:check_and_run"


@shared_task(name=RUN_ITEMS, base=CheckedTask, bind=True)
def run_items(self: Task[Any, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Compute items with an engine: a `TaskRequest` in, a `TaskResult` out."""
    return get_worker().run_items(request, str(self.request.id))


def describe_worker() -> dict[str, Any]:
    """`{"status": "ok", "device_type": ..., "device_name": ..., "gpu_memory_free_mb": ...}`."""
    return get_worker().info().describe()


health = shared_task(name=HEALTH, base=CheckedTask)(describe_worker)
health_check = shared_task(name=HEALTH_CHECK, base=CheckedTask)(describe_worker)
