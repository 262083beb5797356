"""The Celery application: `celery -A anyrig.cluster.app inspect stats` finds it here.

    app = made("redis://HOST:6379/0")

Messages are JSON and nothing else. A shard is acknowledged when it is done and goes back when its
worker is lost; a worker takes no more than it has threads for.
"""

from __future__ import annotations

import os
import ssl
from typing import Any
from urllib.parse import quote, urlsplit

from celery import Celery

from anyrig.cluster.default_queue import NAME as DEFAULT_QUEUE
from anyrig.cluster.link import LONGEST_S, RESULT_S, checked

LOCAL = "redis://127.0.0.1:6379/0"
BROKER_VARIABLES = ("ANYRIG_CLUSTER_BROKER", "REDIS_URL")
UNACKED, UNACKED_INDEX = "anyrig:unacked", "anyrig:unacked_index"
"""Where what a worker has taken lies until it is answered."""
PRIORITIES = {"live": 0, "bulk": 6}
"""As Celery has them on Redis: 0 comes first."""


def made(url: str) -> Celery:
    """The application over a broker."""
    broker = checked(url)
    app = Celery(
        "anyrig", broker=broker, backend=f"anyrig.cluster.results:Results+{broker}",
        include=["anyrig.cluster.tasks"],
    )  # fmt: skip
    transport: dict[str, Any] = {
        # Above the longest shard: one at work is not given out again by Celery. Who waits for it in
        # the same worker may wait longer; coming twice, it is left alone there.
        "visibility_timeout": LONGEST_S * 2, "priority_steps": sorted(PRIORITIES.values()),
        "sep": ":", "queue_order_strategy": "priority", "socket_keepalive": True,
        "health_check_interval": 30, "socket_timeout": 30.0, "socket_connect_timeout": 5.0,
        # Of our own: another Celery may use the same database.
        "unacked_key": UNACKED, "unacked_index_key": UNACKED_INDEX,
        "unacked_mutex_key": f"{UNACKED}_mutex",
    }  # fmt: skip
    app.conf.update(
        task_serializer="json", result_serializer="json", accept_content=["json"],
        result_accept_content=["json"], event_serializer="json",
        task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1,
        task_acks_on_failure_or_timeout=True, task_create_missing_queues=True,
        task_default_queue=DEFAULT_QUEUE, task_default_priority=PRIORITIES["bulk"],
        task_track_started=False, task_ignore_result=False, task_store_errors_even_if_ignored=False,
        result_expires=RESULT_S, visibility_timeout=LONGEST_S * 2,
        broker_transport_options=transport,
        result_backend_transport_options={
            "visibility_timeout": LONGEST_S * 2, "global_keyprefix": "anyrig:result:",
            "retry_policy": {"timeout": 30.0},
        },
        # An answer is kept until the broker takes it, for ten minutes at least.
        result_backend_always_retry=True, result_backend_max_retries=1200,
        result_backend_max_sleep_between_retries_ms=1000,
        broker_connection_retry_on_startup=True, broker_connection_max_retries=None,
        broker_pool_limit=4, redis_socket_timeout=30.0, redis_socket_keepalive=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False, worker_redirect_stdouts=False,
        worker_enable_remote_control=True, worker_send_task_events=False,
        task_send_sent_event=False, timezone="UTC", enable_utc=True,
        # kombu keeps tables of queues that end by themselves with scripts, which our own broker
        # runs for nobody.
        control_queue_expires=None, event_queue_expires=None,
    )  # fmt: skip
    if urlsplit(broker).scheme == "rediss" and "ssl_cert_reqs" not in broker:
        secure = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        app.conf.update(broker_use_ssl=secure, redis_backend_use_ssl=secure)
    return app


def named(environment: Any = os.environ) -> str:
    """The broker that the environment names; this machine's own otherwise."""
    for name in BROKER_VARIABLES:
        if environment.get(name):
            return str(environment[name])
    host = str(environment.get("COORDINATOR_IP", ""))
    if not host or "://" in host or host.startswith("anyrig1_"):
        return host or LOCAL
    secret = quote(environment.get("REDIS_PASSWORD", ""), safe="")
    machine = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    return checked(f"redis://{f':{secret}@' if secret else ''}{machine}")


def __getattr__(name: str) -> Any:
    """`app`, for Celery's own commands: over the broker that the environment names.

    Made when it is asked for: `anyrig` makes its own, for the broker that it is told.
    """
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anyrig.cluster import calm

    calm.restore_nothing()
    found = made(named())
    # Flower asks eight things at once, each over two connections: a bounded pool would lock up.
    found.conf.broker_pool_limit = None
    globals()["app"] = found
    return found
