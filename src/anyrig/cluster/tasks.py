"""What a worker may be asked to do: nothing else than these, by name."""

from __future__ import annotations

from typing import Any

from celery import Task, shared_task

from anyrig.cluster.place import Workplace

SHARD, HEALTH, HEALTH_CHECK = "anyrig.shard", "anyrig.health", "health_check"
_here: list[Workplace] = []


def open_at(place: Workplace) -> None:
    """From now on tasks of this process are done there."""
    _here[:] = [place]


class _Shard(Task[Any, Any]):
    """A shard whose run is told when its answer lies in the backend, and not before."""

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        if _here and args:
            _here[0].answered(args[0], task_id)


@shared_task(name=SHARD, base=_Shard, bind=True)
def shard(self: Task[Any, Any], order: dict[str, Any]) -> dict[str, Any]:
    """Speak lines."""
    if not _here:
        return {"refused": "this worker was not started by `anyrig worker`"}
    return _here[0].do(order)


@shared_task(name=HEALTH)
def health() -> dict[str, Any]:
    """How this worker is."""
    if not _here:
        return {"status": "not started by `anyrig worker`"}
    return _here[0].health()


@shared_task(name=HEALTH_CHECK)
def health_check() -> dict[str, Any]:
    """The same, under the name that operators of older clusters know."""
    found: dict[str, Any] = health()
    return found
