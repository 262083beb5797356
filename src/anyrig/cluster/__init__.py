"""Machines that work together: ordinary Celery workers under `work`'s own scheduler.

Queues
    `anyrig.NAME`  one for each worker. The client's scheduler decides who gets which items and
                   sends them there as tasks `anyrig.run_items`, at most two in flight.
    `celery`       Celery's default. Every worker reads it, for the task `anyrig.health` alone.

Retries
    Happen in one place: `work.dispatch`, in the client. When a worker's registry entry is older
    than ten seconds, or a task is neither listed there nor answered, `pool` revokes the task and
    gives its items back to the scheduler, which sends them to another worker. Messages are
    acknowledged on receipt and never redelivered; no task uses Celery's `retry`.

Files
    broker         the address of a broker, a client of it, and the Celery application
    transport      kombu's Redis transport, which drops messages that are not valid
    registry       who is there: a key with a time to live for each worker, with its device
    protocol       the task's arguments and its result, checked on both sides
    blobs          the bytes of results, beside them in the broker
    pool           the client: a `work` pool whose workers are on other machines; checks: of results
    worker, tasks  the Celery worker
    speech         how lines and takes travel; embedding: tokens and vectors
    coordinator    starts the broker (broker_server) and Flower (flower), watches the registry
    token          the one word that lets a machine join

`celery -A anyrig.cluster inspect stats` finds the application here, over the broker that the
environment names.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import os

    from anyrig.cluster.broker import find_url, make_app

    app = make_app(find_url(os.environ))
    # Flower sends eight requests at once, each over two connections: a bounded pool deadlocks.
    app.conf.broker_pool_limit = None
    globals()["app"] = app
    return app
