"""How a cluster is: every worker as it last told of itself, those that are lost, and who may see.

    for row in look(link).rows: print(row.name, row.status)

A worker that leaves takes its name off the list; one that only fell silent stays on it as lost,
until it comes back, somebody forgets it, or a week is over.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from anyrig.cluster.card import Card, Roll, keys_of, read
from anyrig.cluster.link import LEASE_S, Link, open_to_the_world, shown
from anyrig.cluster.notice import Notice
from anyrig.cluster.notice import of as notice_of

LOST = "lost"
LOST_S = 7 * 24 * 3600
"""A lost worker is remembered for so long."""
_TIDY_S = 600.0
_PROBE_S = 3.0


@dataclass(frozen=True)
class Row:
    """One worker."""

    name: str
    status: str
    """`loading`, `ready`, `busy`, `draining`, or `lost`."""
    card: Card | None
    """As it last described itself; None where nobody remembers."""
    last_sign_s: float | None
    """How long ago it gave a sign, by the broker's clock; None where nobody remembers."""

    @property
    def trouble(self) -> str:
        """Why it gets no work, for a person; empty where it may."""
        if self.status == LOST:
            return "it gives no sign"
        if self.card is None:
            return "what it says of itself cannot be read"
        if other := self.card.differs():
            return other
        return "it is asked to leave" if self.status == "draining" else ""

    def plain(self) -> dict[str, Any]:
        """For programs: the fields of health, and what else is known."""
        card = self.card or Card(self.name, "", protocol=0)
        return {
            "name": self.name, "status": self.status, "device_type": card.device_type,
            "gpu_available": card.gpu_available, "gpu_count": card.gpu_count,
            "gpu_memory_free_mb": card.gpu_memory_free_mb,
            "tts_model_loaded": card.tts_model_loaded, "cached_models": list(card.cached_models),
            "device": card.device, "host": card.host, "pid": card.pid, "speed": dict(card.speeds),
            "segments_done": card.segments_done, "shards_done": card.shards_done,
            "versions": {
                "anyrig": card.version, "python": card.python, "protocol": card.protocol,
                **{one.engine: one.version for one in card.offers},
            },
            "last_sign_s": self.last_sign_s, "trouble": self.trouble,
        }  # fmt: skip


@dataclass(frozen=True)
class Status:
    """A cluster at a moment."""

    rows: tuple[Row, ...]
    coordinator: Notice | None
    """None where none runs: then there is no box, and all else goes on."""

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return {
            "coordinator": self.coordinator.public() if self.coordinator else None,
            "workers": [row.plain() for row in self.rows],
        }


def look(link: Link) -> Status:
    """Everybody who has joined and not left."""
    roll = Roll(link)
    names = roll.names()
    pipe = link.redis.pipeline(transaction=False)
    pipe.get(link.name("cluster"))
    for name in names:
        for kind in ("alive", LOST):
            pipe.get(link.name(kind, name))
            pipe.pttl(link.name(kind, name))
        pipe.exists(link.name("drain", name))
    said, *rest = pipe.execute()
    rows = [_row(name, *rest[5 * at : 5 * at + 5]) for at, name in enumerate(names)]
    return Status(tuple(rows), notice_of(said))


def _row(name: str, alive: Any, alive_ms: int, lost: Any, lost_ms: int, drain: int) -> Row:
    if alive is not None:
        card = read(alive)
        # Whoever asked it to leave sees that at once; the worker itself says so with its next sign.
        status = "draining" if drain else card.status if card else "ready"
        return Row(name, status, card, _ago(LEASE_S, alive_ms))
    card = read(lost) if lost is not None else None
    # It was noticed when its lease had ended.
    last = _ago(LOST_S, lost_ms) + LEASE_S if lost is not None else None
    return Row(name, LOST, card, last)


def _ago(lease_s: float, left_ms: int) -> float:
    return round(max(0.0, lease_s - left_ms / 1000), 1)


class Watch:
    """Remembers who was there, so that what is known of a lost worker outlives it."""

    def __init__(self, link: Link, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._link, self._roll, self._clock = link, Roll(link), clock
        self._seen: dict[str, Card] = {}
        self._tidied = clock()

    def look(self) -> list[tuple[str, str, Card]]:
        """What happened since the last look: `joined`, `left` or `lost`, and to whom."""
        living = self._roll.living()
        listed = set(self._roll.names()) if self._seen.keys() - living.keys() else set()
        told: list[tuple[str, str, Card]] = []
        for name, card in self._seen.items():
            if name in living:
                continue
            told.append(("lost" if name in listed else "left", name, card))
            if name in listed:
                plain = json.dumps(replace(card, holds=()).plain())
                self._link.redis.set(self._link.name(LOST, name), plain, ex=LOST_S)
        told += [("joined", name, card) for name, card in living.items() if name not in self._seen]
        self._seen = living
        if self._clock() - self._tidied > _TIDY_S:
            self._tidy()
        return told

    def _tidy(self) -> None:
        """Forget whoever is lost for long: where each start has a name of its own, they add up."""
        self._tidied = self._clock()
        redis, key = self._link.redis, self._link.name("absent")
        now = redis.time()[0]  # since when is told to the next one, too
        absent = [name for name in self._roll.names() if name not in self._seen]
        known = cast("dict[bytes, bytes]", redis.hgetall(key))
        redis.delete(key)
        for name in absent:
            since = int(known.get(name.encode(), now))
            if now - since > LOST_S:
                forget(self._link, name)
            else:
                redis.hset(key, name, str(since))


def forget(link: Link, name: str) -> bool:
    """Take a name off the list; whether it was there."""
    link.redis.delete(link.name(LOST, name), link.name("drain", name), *keys_of(name))
    return Roll(link).remove(name)


# -- who can reach the broker ----------------------------------------------------------------------


def exposed(link: Link, public: str = "") -> list[str]:
    """Why people whom nobody asked can reach a broker; nothing where nothing speaks for it.

    Args:
        link: to it.
        public: its address for other machines, where that is another one.
    """
    found = [open_to_the_world(link.url) or _lets_anybody_in(link.url) or _listens_openly(link)]
    named = public or link.url
    parts = urlsplit(named)
    with contextlib.suppress(ValueError):
        if parts.scheme == "redis" and ipaddress.ip_address(parts.hostname or "").is_global:
            found.append(
                f"the broker {shown(named)} is reached over the open net without TLS: password "
                "and texts can be read on the way; use rediss://"
            )
    return [one for one in found if one]


def _lets_anybody_in(url: str) -> str:
    """Whether a broker answers to whoever names no password, though one was given."""
    parts = urlsplit(url)
    if not parts.password:
        return ""
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if not _answers(bare):
        return ""
    return f"the broker {shown(url)} answers without its password too"


def _answers(url: str) -> bool:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError
    from redis.retry import Retry

    client = Redis.from_url(
        url, socket_timeout=_PROBE_S, socket_connect_timeout=_PROBE_S, retry=Retry(NoBackoff(), 0)
    )
    with client, contextlib.suppress(RedisError, OSError):
        return bool(client.ping())
    return False


def _listens_openly(link: Link) -> str:
    """Whether a broker that we reach on this machine listens to others without a password."""
    from redis.exceptions import RedisError

    if urlsplit(link.url).password:
        return ""
    try:
        said = cast("dict[Any, Any]", link.redis.config_get("bind", "protected-mode"))
    except (RedisError, OSError):  # not for us to know
        return ""
    told = {_word(name): _word(value) for name, value in said.items()}
    inside = all(one.lstrip("-") in ("127.0.0.1", "::1", "localhost") for one in told.get(
        "bind", "127.0.0.1").split())  # fmt: skip
    if told.get("protected-mode", "yes") == "yes" or (inside and told.get("bind")):
        return ""
    return (
        f"the broker {shown(link.url)} listens on every address and asks for no password: whoever "
        "reaches it can read the texts and give the workers work"
    )


def _word(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
