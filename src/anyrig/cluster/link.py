"""The broker, as every end of a cluster reaches it: one address, names of keys, patience.

Everything that two machines must agree on lies in the broker for a while and no longer: no key is
without an end, and whether a worker lives is told by the broker's own clock alone, so that no
machine's clock matters.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from anyrig.errors import BrokerUnavailableError as BrokerUnavailableError
from anyrig.errors import InvalidInputError, MissingPackageError
from anyrig.install import format_install

if TYPE_CHECKING:
    from redis import Redis

log = logging.getLogger(__name__)
T = TypeVar("T")
SCHEMES = ("redis", "rediss")
PREFIX = "anyrig"
PORT = 6379
LEASE_S = 10
"""A worker that gave no sign for so long is taken to be gone."""
BEAT_S = 2.0
RUN_LEASE_S = 45
"""What a run asked for is wanted for so long after its last sign."""
SOUND = "result:sound-"
"""Where the takes of an answer lie."""
RESULT_S = 900
"""Results that nobody fetched are gone after this."""
LONGEST_S = 3600.0
"""No shard is at work for longer: what is not done then is given back."""
PATIENCE_S = 600.0
"""How long a broker may be away before whoever needs it gives up."""
_FIRST_S, _MOST_S = 0.2, 2.0
_LABEL = 63
"""Letters of a part of a machine's name, at most."""


def checked(url: str) -> str:
    """An address in one form, a token included; `InvalidInputError` when it is none."""
    from anyrig.cluster import token

    text = token.read(url).broker if token.is_token(url) else url.strip()
    if "://" not in text:
        text = f"redis://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:  # what it says may hold a part of the password
        said = "its machine or port cannot be read; / # @ [ in a password are %2F %23 %40 %5B"
        raise _bad(url, said) from None
    if parts.scheme not in SCHEMES:
        raise _bad(url, f"{parts.scheme}:// is no broker of a cluster")
    if not parts.hostname:
        raise _bad(url, "it names no machine")
    if len(parts.hostname) > 253 or max(map(len, parts.hostname.split("."))) > _LABEL:
        raise _bad("", "no machine has so long a name; a token begins with anyrig1_")
    if parts.path.strip("/") and not parts.path.strip("/").isdigit():
        raise _bad(url, "what follows the machine is no number of a database")
    netloc = parts.netloc if port is not None else f"{parts.netloc}:{PORT}"
    path = parts.path if parts.path.strip("/") else "/0"
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


def shown(url: str) -> str:
    """An address without its password, for logs and screens."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    user = f"{parts.username}:***@" if parts.username else ":***@"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, user + host, parts.path, parts.query, ""))


def _bad(url: str, why: str) -> InvalidInputError:
    from anyrig.cluster import token

    # What cannot be taken apart may have its password anywhere in front of the last @.
    _, at, end = url.rpartition("@")
    told = "what this token holds" if token.is_token(url) else f"***@{end}" if at else url
    return InvalidInputError(
        f"{told or 'this'} is no address of a broker: {why}",
        hint="Such as redis://HOST:6379/0, or rediss://:PASSWORD@HOST:6380/0 with TLS.",
    )


class Link:
    """A connection to the broker that comes back by itself.

    Args:
        url: as `checked` gives it.
        timeout_s: how long one answer may take.
    """

    def __init__(self, url: str, *, timeout_s: float = 10.0) -> None:
        self.url = checked(url)
        self._timeout_s = timeout_s

    @cached_property
    def redis(self) -> Redis:
        """The client; safe to use from several threads."""
        try:
            from redis import Redis
        except ImportError as error:
            raise MissingPackageError(
                "a cluster needs celery and redis, which are not installed",
                hint=format_install("anyrig[cluster]"),
            ) from error
        client: Redis = Redis.from_url(
            self.url, socket_timeout=self._timeout_s, socket_connect_timeout=5.0,
            health_check_interval=30, socket_keepalive=True, decode_responses=False,
        )  # fmt: skip
        return client

    def name(self, *words: str) -> str:
        """A key of ours."""
        return ":".join((PREFIX, *words))

    def check(self) -> None:
        """`BrokerUnavailableError` when it does not answer, with what to do about it."""
        from redis.exceptions import AuthenticationError, RedisError

        try:
            self.redis.ping()
        except AuthenticationError as error:
            raise BrokerUnavailableError(
                f"the broker {shown(self.url)} does not let us in: {error}",
                hint="Give the password in the address, redis://:PASSWORD@HOST:6379/0, or the "
                "token that `anyrig coordinator` prints.",
            ) from error
        except (RedisError, OSError) as error:
            raise BrokerUnavailableError(
                f"the broker {shown(self.url)} does not answer: {error}",
                hint="Is `anyrig coordinator` running there, and is its port open to this machine?",
            ) from error

    def patiently(
        self, what: Callable[[], T], *, gave_up: Callable[[], bool] = lambda: False,
        patience_s: float = PATIENCE_S, also: tuple[type[Exception], ...] = (),
    ) -> T:  # fmt: skip
        """What a call answers; while the broker is away, it is tried again.

        Args:
            what: the call; it may be made more than once.
            gave_up: whether nobody waits for it any more.
            patience_s: how long it is tried; then `BrokerUnavailableError`.
            also: what else says that the broker is away.
        """
        from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError
        from redis.exceptions import ConnectionError as Broken
        from redis.exceptions import ResponseError as Refused
        from redis.exceptions import TimeoutError as Late

        away: tuple[type[Exception], ...] = (
            Broken, Late, BusyLoadingError, OutOfMemoryError, ReadOnlyError, OSError, *also
        )  # fmt: skip
        began, wait_s, told = time.monotonic(), _FIRST_S, False
        while True:
            try:
                return what()
            except Exception as error:
                # MISCONF: its disk is full, or does not take what it writes.
                full = isinstance(error, Refused) and str(error).startswith("MISCONF")
                if not full and not isinstance(error, away):
                    raise
                if gave_up() or time.monotonic() - began > patience_s:
                    raise BrokerUnavailableError(
                        f"the broker {shown(self.url)} has been away for "
                        f"{time.monotonic() - began:.0f} s: {error}",
                        hint="Start it again and run the same command: what was made is kept.",
                    ) from error
                if not told:
                    log.warning("the broker %s is away (%s); waiting", shown(self.url), error)
                    told = True
                time.sleep(wait_s)
                wait_s = min(_MOST_S, 2 * wait_s)

    def close(self) -> None:
        """Close what is open."""
        if "redis" in self.__dict__:
            self.redis.close()


def open_to_the_world(url: str) -> str:
    """Why a broker can be reached by people it should not; empty when nothing speaks for it."""
    parts = urlsplit(url)
    if parts.hostname is None or unquote(parts.password or ""):
        return ""
    if _is_loopback(parts.hostname):
        return ""
    return (
        f"the broker {shown(url)} asks for no password: whoever reaches it can read the texts and "
        "give the workers work"
    )


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


def plain(value: Any) -> Any:
    """What a key holds, as text."""
    return value.decode() if isinstance(value, bytes) else value
