"""Health tasks in Celery's default queue, `celery`, where a client puts them that names no queue.

That queue may be another application's: a worker takes nothing out of it but health tasks of ours,
and leaves everything else where it lies.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from anyrig.cluster.link import RESULT_S

if TYPE_CHECKING:
    from anyrig.cluster.link import Link

log = logging.getLogger(__name__)
NAME = "celery"
_LISTS = (NAME, f"{NAME}:6")
"""Of a client with Celery's settings, and of one with ours."""
_TASKS = ("anyrig.health", "health_check")
_NEWEST = 32
_META = "celery-task-meta-"


def answer(link: Link, health: Callable[[], dict[str, Any]]) -> None:
    """Answer the health tasks that wait there.

    Args:
        link: to the broker.
        health: how this worker is.
    """
    from redis.exceptions import ResponseError

    pipe = link.redis.pipeline(transaction=False)
    for name in _LISTS:
        pipe.lrange(name, 0, _NEWEST - 1)
    for name, found in zip(_LISTS, pipe.execute(raise_on_error=False), strict=True):
        if isinstance(found, ResponseError):  # not a list: somebody else's
            continue
        for message in cast("list[bytes]", found):
            id = _id_of(message)
            # Of several workers the one that takes it off the list answers.
            if id and link.redis.lrem(name, 1, cast("str", message)):
                _store(link, id, health())


def _id_of(message: bytes) -> str:
    """The id of a health task; empty for everything else."""
    from anyrig.cluster.calm import rebuilt

    if not any(task.encode() in message for task in _TASKS):
        return ""
    try:
        headers = rebuilt(json.loads(message), NAME)["headers"]
    except (ValueError, RecursionError):
        return ""
    return str(headers["id"]) if headers["task"] in _TASKS else ""


def _store(link: Link, id: str, result: dict[str, Any]) -> None:
    """As Celery stores results: for a client with our settings, and for one with Celery's own."""
    meta = json.dumps({
        "status": "SUCCESS", "result": result, "traceback": None, "children": [],
        "date_done": datetime.now(UTC).isoformat(), "task_id": id,
    })  # fmt: skip
    pipe = link.redis.pipeline(transaction=False)
    for key in (f"{_META}{id}", link.name("result", f"{_META}{id}")):
        pipe.set(key, meta, ex=RESULT_S)
        pipe.publish(key, meta)
    pipe.execute()
    log.info("answered a health task of the default queue")
