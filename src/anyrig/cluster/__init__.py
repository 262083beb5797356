"""Machines that work together: a transport made of Celery under `app`.

    broker         the address of a broker, a client of it, and the Celery application
    transport      kombu's Redis transport, which drops messages that are not valid
    registry       who is there: a key with a time to live for each worker, with its device
    protocol       the task's arguments and its result, checked on both sides
    blobs          the bytes of results, beside them in the broker
    pool           ClusterPool: a `work` pool whose workers are on other machines
    speech         how lines and takes travel, and how takes are checked
    worker         the Celery worker; engines: what it has loaded
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
