"""The broker as every machine reaches it: its address, a client, and the Celery application.

Everything that two machines must agree on is in the broker with a time to live, and only the
broker's clock decides whether a worker is alive: no machine's own clock matters.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, urlsplit, urlunsplit

from anyrig.errors import (
    BrokerAccessError,
    BrokerUnavailableError,
    InvalidInputError,
    MissingPackageError,
)
from anyrig.install import format_install

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Queue
    from redis import Redis

log = logging.getLogger(__name__)
T = TypeVar("T")
LEASE_S = 10
"""Time to live of a worker's registry entry."""
HEARTBEAT_S = 2.0
RESULT_S = 900
"""Time to live of a result, and of its bytes."""
MAX_TASK_S = 3600.0
"""No task runs longer: what is not done then is returned."""
OUTAGE_S = 600.0
"""How long a broker may be unavailable before whoever needs it gives up."""
RUN_ITEMS, HEALTH, HEALTH_CHECK = "anyrig.run_items", "anyrig.health", "health_check"
"""The tasks of a worker; the last is the second under the name that older clusters used."""
DEFAULT_QUEUE = "celery"
"""Celery's own default. Workers run health tasks of it and put everything else back."""
_PREFIX = "anyrig"
_SCHEMES, _PORT = ("redis", "rediss"), 6379
_LOCAL = "redis://127.0.0.1:6379/0"
VARIABLES = ("ANYRIG_CLUSTER_BROKER", "REDIS_URL", "COORDINATOR_IP")
"""Environment variables that name a broker, the strongest first."""
_MAX_LABEL = 63
_FIRST_RETRY_S, _MAX_RETRY_S = 0.2, 2.0
_PROBE_S = 3.0


# -- addresses ------------------------------------------------------------------------------------


def normalize_url(text: str) -> str:
    """A broker's address in one form; `text` may also be a token, or only a host."""
    from anyrig.cluster import token

    url = token.read(text).broker if token.is_token(text) else text.strip()
    if "://" not in url:
        url = f"redis://{url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message may contain a part of the password
        raise _invalid(
            text, "host or port cannot be parsed; / # @ [ in a password are %2F %23 %40 %5B"
        ) from None
    if parts.scheme not in _SCHEMES:
        raise _invalid(text, f"the scheme must be {' or '.join(_SCHEMES)}, not {parts.scheme}")
    if not parts.hostname:
        raise _invalid(text, "it has no host")
    if len(parts.hostname) > 253 or max(map(len, parts.hostname.split("."))) > _MAX_LABEL:
        raise _invalid("", "the host name is too long; a token begins with anyrig1_")
    if parts.path.strip("/") and not parts.path.strip("/").isdigit():
        raise _invalid(text, "the database must be a number")
    netloc = parts.netloc if port is not None else f"{parts.netloc}:{_PORT}"
    path = parts.path if parts.path.strip("/") else "/0"
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


def mask_password(url: str) -> str:
    """An address for logs and screens."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    user = f"{parts.username}:***@" if parts.username else ":***@"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, user + host, parts.path, parts.query, ""))


def find_url(environment: Mapping[str, str]) -> str:
    """The broker that the environment names, or one on this machine."""
    for name in VARIABLES[:2]:
        if environment.get(name):
            return environment[name]
    host = environment.get("COORDINATOR_IP", "")
    if not host or "://" in host or host.startswith("anyrig1_"):
        return host or _LOCAL
    secret = quote(environment.get("REDIS_PASSWORD", ""), safe="")
    machine = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    return normalize_url(f"redis://{f':{secret}@' if secret else ''}{machine}")


def _invalid(text: str, reason: str) -> InvalidInputError:
    from anyrig.cluster import token

    # The password may be anywhere before the last @ of an address that cannot be parsed.
    _, at, end = text.rpartition("@")
    shown = "this token's content" if token.is_token(text) else f"***@{end}" if at else text
    return InvalidInputError(
        f"{shown or 'this'} is not a valid broker address: {reason}",
        hint="Use redis://HOST:6379/0, or rediss://:PASSWORD@HOST:6380/0 with TLS.",
    )


# -- the client -----------------------------------------------------------------------------------


class BrokerClient:
    """A connection to the broker that reconnects by itself; safe to use from several threads.

    Args:
        url: an address or a token.
    """

    def __init__(self, url: str) -> None:
        self.url = normalize_url(url)

    @cached_property
    def redis(self) -> Redis:
        try:
            from redis import Redis
        except ImportError as error:
            raise MissingPackageError(
                "a cluster needs celery and redis, which are not installed",
                hint=format_install("anyrig[cluster]"),
            ) from error
        client: Redis = Redis.from_url(
            self.url, socket_timeout=10.0, socket_connect_timeout=5.0,
            health_check_interval=30, socket_keepalive=True, decode_responses=False,
        )  # fmt: skip
        return client

    def key(self, *words: str) -> str:
        """A key of ours."""
        return ":".join((_PREFIX, *words))

    def check(self) -> None:
        """Raise `BrokerUnavailableError` if it does not respond."""
        from redis.exceptions import AuthenticationError, RedisError

        try:
            self.redis.ping()
        except AuthenticationError as error:
            raise BrokerAccessError(
                f"the broker {mask_password(self.url)} refused the password: {error}",
                hint="Use redis://:PASSWORD@HOST:6379/0, or the token that `anyrig coordinator`"
                " prints now.",
            ) from error
        except (RedisError, OSError) as error:
            raise BrokerUnavailableError(
                f"the broker {mask_password(self.url)} does not respond: {error}",
                hint="Is `anyrig coordinator` running there, and is its port open to this machine?",
            ) from error

    def retry(self, call: Callable[[], T], *, timeout_s: float = OUTAGE_S) -> T:
        """Call until the broker responds; `BrokerUnavailableError` after a while."""
        began, wait_s, warned = time.monotonic(), _FIRST_RETRY_S, False
        while True:
            try:
                return call()
            except Exception as error:
                if not is_outage(error):
                    raise
                unavailable_s = time.monotonic() - began
                if unavailable_s > timeout_s:
                    raise unavailable(self.url, unavailable_s, error) from error
                if not warned:
                    shown, warned = mask_password(self.url), True
                    log.warning("the broker %s is unavailable (%s); retrying", shown, error)
                time.sleep(wait_s)
                wait_s = min(_MAX_RETRY_S, 2 * wait_s)

    def close(self) -> None:
        if "redis" in self.__dict__:
            self.redis.close()


def is_outage(error: BaseException) -> bool:
    """Whether an error means that the broker cannot serve for the moment."""
    from kombu.exceptions import OperationalError
    from redis.exceptions import (
        BusyLoadingError,
        ConnectionError,
        OutOfMemoryError,
        ReadOnlyError,
        ResponseError,
        TimeoutError,
    )  # fmt: skip

    if isinstance(error, ResponseError) and str(error).startswith("MISCONF"):
        return True  # its disk is full
    return isinstance(
        error,
        ConnectionError | TimeoutError | BusyLoadingError | OutOfMemoryError | ReadOnlyError
        | OSError | OperationalError,
    )  # fmt: skip


def unavailable(url: str, seconds: float, error: BaseException) -> BrokerUnavailableError:
    return BrokerUnavailableError(
        f"the broker {mask_password(url)} has been unavailable for {seconds:.0f} s: {error}",
        hint="Start it and run the same command again: finished results are kept.",
    )


# -- Celery ---------------------------------------------------------------------------------------


def make_queue(name: str, *, expires_s: float | None = None) -> Queue:
    """A queue: on Redis, a list and nothing else.

    Args:
        expires_s: for whoever sends: the list is deleted so long after its last message. Without
            it, for whoever receives, nothing is declared, so that nothing is missing after a
            broker was restarted.
    """
    from kombu import Queue

    return Queue(name, routing_key=name, expires=expires_s, no_declare=expires_s is None)


def queue_name(worker: str) -> str:
    return f"{_PREFIX}.{worker}"


def make_app(url: str) -> Celery:
    """The Celery application of a cluster.

    Messages are JSON only. A message is acknowledged when it is received and never delivered again:
    whoever sent it sends it to another worker when this one is lost.
    """
    from celery import Celery
    from celery.loaders.app import AppLoader

    class Loader(AppLoader):
        """Does not import from the working directory, as Celery's own does."""

        def import_from_cwd(self, module: str, imp: Any = None, package: str | None = None) -> Any:
            return self.import_module(module, package)

    url = normalize_url(url)
    app = Celery("anyrig", broker=url, backend=url, loader=Loader, include=["anyrig.cluster.tasks"])
    app.conf.update(
        task_serializer="json", result_serializer="json", event_serializer="json",
        accept_content=["json"], result_accept_content=["json"],
        task_default_queue=DEFAULT_QUEUE, task_queues=[make_queue(DEFAULT_QUEUE)],
        task_acks_late=False, task_track_started=False, result_expires=RESULT_S,
        broker_transport="anyrig.cluster.transport:Transport",
        broker_transport_options={
            # Without it kombu keeps messages in further keys, and restores them with scripts.
            "ack_emulation": False,
            "priority_steps": [0], "sep": ":", "queue_order_strategy": "priority",
            "socket_keepalive": True, "health_check_interval": 30, "socket_timeout": 30.0,
            "socket_connect_timeout": 5.0,
        },
        # A worker keeps a result until the broker accepts it, for ten minutes.
        result_backend_transport_options={
            "retry_policy": {"max_retries": int(OUTAGE_S), "interval_step": 0.2, "interval_max": 1}
        },
        result_backend_thread_safe=True,  # one thread sends, another receives
        redis_socket_timeout=30.0, redis_socket_connect_timeout=5.0, redis_socket_keepalive=True,
        redis_backend_health_check_interval=30,
        broker_connection_retry_on_startup=True, broker_connection_max_retries=None,
        broker_pool_limit=4,
        # Whoever sends has at most two tasks in flight for each worker.
        worker_prefetch_multiplier=0, worker_enable_prefetch_count_reduction=False,
        worker_consumer="anyrig.cluster.worker:Consumer",
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False, worker_redirect_stdouts=False,
        worker_send_task_events=False, task_send_sent_event=False,
        # kombu maintains queues that expire with scripts, which our own broker does not allow.
        control_queue_expires=None, event_queue_expires=None,
    )  # fmt: skip
    if urlsplit(url).scheme == "rediss" and "ssl_cert_reqs" not in url:
        required = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
        app.conf.update(broker_use_ssl=required, redis_backend_use_ssl=required)
    return app


# -- who can reach the broker ---------------------------------------------------------------------


def find_exposures(client: BrokerClient, public_url: str = "") -> list[str]:
    """Reasons why strangers can reach a broker.

    Args:
        public_url: its address for other machines, if that is another one.
    """
    parts, public = urlsplit(client.url), urlsplit(public_url or client.url)
    shown, found = mask_password(client.url), []
    if parts.password and _responds_without_password(client.url):
        found.append(f"the broker {shown} also responds without its password")
    elif not parts.password and (not _is_loopback(parts.hostname or "") or _listens_openly(client)):
        found.append(
            f"the broker {shown} needs no password: whoever reaches it can read the texts and send"
            " tasks to the workers"
        )
    with suppress(ValueError):
        if public.scheme == "redis" and ipaddress.ip_address(public.hostname or "").is_global:
            found.append(
                f"the broker {mask_password(public.geturl())} is reached over the internet without"
                " TLS: password and texts can be read on the way; use rediss://"
            )
    return found


def _responds_without_password(url: str) -> bool:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError
    from redis.retry import Retry

    parts = urlsplit(url)
    without = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    probe = Redis.from_url(
        without, socket_timeout=_PROBE_S, socket_connect_timeout=_PROBE_S,
        retry=Retry(NoBackoff(), 0),
    )  # fmt: skip
    with probe, suppress(RedisError, OSError):
        return bool(probe.ping())
    return False


def _listens_openly(client: BrokerClient) -> bool:
    """Whether a broker of this machine listens on other addresses as well, unprotected."""
    from redis.exceptions import RedisError

    try:
        answer = cast("dict[Any, Any]", client.redis.config_get("bind", "protected-mode"))
    except (RedisError, OSError):  # not allowed to ask
        return False
    settings = {to_text(name): to_text(value) for name, value in answer.items()}
    addresses = settings.get("bind", "127.0.0.1").split()
    local = {"127.0.0.1", "::1", "localhost"}.issuperset(one.lstrip("-") for one in addresses)
    return settings.get("protected-mode", "yes") != "yes" and not (local and addresses)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(one)).is_loopback for one in found)


def to_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
