"""What a worker says of itself every few seconds: who it is, what it can do, how it is.

The list of all workers stays until somebody takes a name off; whether one lives is a key of its own
that ends by itself when it is not renewed.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyrig.cluster.link import LEASE_S, Link, plain
from anyrig.version import __version__

if TYPE_CHECKING:
    from anyrig.speech.protocol import Found

log = logging.getLogger(__name__)
PROTOCOL = 2
"""Of orders and answers; another one cannot be understood."""
_LONGEST = 64_000  # bytes of a card: whoever wrote a longer one is not ours


@dataclass(frozen=True)
class Offer:
    """An engine that a worker has: takes of two offers that are equal are the same."""

    engine: str
    version: str
    fingerprint: str
    voices: str
    """A hash of its voices."""

    def differs(self, other: Offer) -> str:
        """How another one differs, for a person; empty when it does not."""
        for name in ("version", "fingerprint", "voices"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                told = {"fingerprint": "weights"}.get(name, name)
                return f"its {self.engine} has other {told} ({theirs[:24]}, not {mine[:24]})"
        return ""


@dataclass(frozen=True)
class Card:
    """A worker, as it last described itself."""

    name: str
    version: str
    """Of anyrig."""
    protocol: int = PROTOCOL
    run: str = ""
    """Drawn at each start: another one under the same name has nothing of what that one had."""
    host: str = ""
    pid: int = 0
    start: str = ""
    """Drawn by the system when it started: machines that are copies share all names but this."""
    python: str = ""
    system: str = ""
    device: str = ""
    """What it computes on, as a person calls it."""
    kind: str = "cpu"
    word: str = "cpu"
    offers: tuple[Offer, ...] = ()
    precisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By engine: the classes of number format that it can compute in, its own choice first."""
    status: str = "ready"
    """`loading`, `ready`, `busy`, `draining`."""
    device_type: str = "cpu"
    gpu_available: bool = False
    gpu_count: int = 0
    gpu_memory_free_mb: int | None = 0
    device_memory_mb: int = 0
    """What the device has in all; 0 where that is not known."""
    tts_model_loaded: bool = False
    cached_models: tuple[str, ...] = ()
    speeds: Mapping[str, float] = field(default_factory=dict)
    """By engine: characters a second, measured."""
    segments_done: int = 0
    shards_done: int = 0
    holds: tuple[str, ...] = ()
    """Shards that it has taken and not answered."""
    beat: int = 0
    """Counted from its start."""

    @property
    def queue(self) -> str:
        """Where its shards are put."""
        return queue_of(self.name)

    def differs(self) -> str:
        """How its anyrig differs from this one, for a person; empty where it does not."""
        if self.version != __version__:
            return f"it runs anyrig {self.version}, this is {__version__}"
        if self.protocol != PROTOCOL:
            return f"it speaks protocol {self.protocol} of the cluster, this speaks {PROTOCOL}"
        return ""

    def offer(self, engine: str) -> Offer | None:
        """What it says of an engine."""
        return next((one for one in self.offers if one.engine == engine), None)

    def plain(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


_KINDS = {one.name: type(getattr(Card("", ""), one.name)) for one in fields(Card)}


def start_of_system() -> str:
    """What tells this start of this machine from all others; empty where nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def queue_of(name: str) -> str:
    """The queue of a worker."""
    return f"anyrig.{name}"


def keys_of(name: str) -> list[str]:
    """What Celery keeps of that queue: messages by priority, and two tables without an end."""
    queue = queue_of(name)
    tables = [f"_kombu.{kind}.{queue}" for kind in ("binding", "binding_permanent")]
    return [queue, *(f"{queue}:{step}" for step in range(1, 10)), *tables]


def health_of(card: Card) -> dict[str, Any]:
    """The fields of a worker's health, and what else is known of it."""
    return {
        "status": card.status, "device_type": card.device_type,
        "gpu_available": card.gpu_available, "gpu_count": card.gpu_count,
        "gpu_memory_free_mb": card.gpu_memory_free_mb,
        "tts_model_loaded": card.tts_model_loaded, "cached_models": list(card.cached_models),
        "speed": dict(card.speeds), "segments_done": card.segments_done,
        "versions": {
            "anyrig": card.version, "python": card.python, "protocol": card.protocol,
            **{one.engine: one.version for one in card.offers},
        },
    }  # fmt: skip


def facts_of(card: Card) -> dict[str, Any]:
    """The worker and its device in plain values, for `celery inspect stats` and Flower."""
    facts = {
        "device_type": card.device_type, "device_name": card.device,
        "device_memory_mb": card.device_memory_mb,
        "engine": ", ".join(one.engine for one in card.offers),
    }  # fmt: skip
    return {**facts, **health_of(card)}


def offer_of(found: Found) -> Offer:
    """What an engine's weights on this machine amount to."""
    import hashlib

    voices = sorted((voice.name, voice.digest) for voice in found.voices)
    digest = hashlib.sha256(json.dumps(voices).encode()).hexdigest()[:16]
    return Offer(found.engine, found.version, found.fingerprint, digest)


def read(text: bytes | str) -> Card | None:
    """A card; None for what is not one."""
    if len(text) > _LONGEST:
        return None
    try:
        found = json.loads(text)
        known = {one.name for one in fields(Card)}
        given = {name: value for name, value in found.items() if name in known}
        given["offers"] = tuple(Offer(**one) for one in given.get("offers", ()))
        given["cached_models"] = tuple(given.get("cached_models", ()))
        given["holds"] = tuple(given.get("holds", ()))
        classes = given.get("precisions", {})
        given["precisions"] = {name: tuple(some) for name, some in classes.items()}
        card = Card(**given)
        return card if _sound(card) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _sound(card: Card) -> bool:
    """Whether every field is of its kind: a card is written by another machine."""
    for name, kind in _KINDS.items():
        value = getattr(card, name)
        if type(value) is not kind and not (name == "gpu_memory_free_mb" and value is None):
            return False
    words = [
        *(word for one in card.offers
          for word in (one.engine, one.version, one.fingerprint, one.voices)),
        *card.cached_models, *card.holds, *card.speeds, *card.precisions,
        *(word for some in card.precisions.values() for word in some),
    ]  # fmt: skip
    rates = card.speeds.values()
    return all(type(word) is str for word in words) and all(
        type(rate) in (int, float) and 0 <= rate < math.inf for rate in rates
    )


class Roll:
    """The workers of a cluster, as the broker has them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._all = link.name("workers")

    def write(self, card: Card) -> None:
        """A sign of life, and who gives it."""
        pipe = self._link.redis.pipeline(transaction=False)
        pipe.hset(self._all, card.name, card.run)
        pipe.set(self._alive(card.name), json.dumps(card.plain()), ex=LEASE_S)
        pipe.execute()

    def claim(self, card: Card) -> Card | None:
        """Take a name that nobody has; else whoever has it."""
        key = self._alive(card.name)
        while not self._link.redis.set(key, json.dumps(card.plain()), ex=LEASE_S, nx=True):
            there = cast("bytes | None", self._link.redis.get(key))
            if there is not None:
                return read(there) or Card(card.name, "")
        self._link.redis.hset(self._all, card.name, card.run)
        return None

    def is_mine(self, card: Card) -> bool:
        """Whether nobody else has taken its name since it was last written."""
        found = cast("bytes | None", self._link.redis.hget(self._all, card.name))
        return found is None or plain(found) == card.run

    def bury(self, card: Card) -> None:
        """Take the name off the list of one that is no more, unless somebody else has it now."""
        from redis.exceptions import WatchError

        key = self._alive(card.name)
        with self._link.redis.pipeline(transaction=True) as pipe:
            pipe.watch(key)  # type: ignore[no-untyped-call]
            there = cast("bytes | None", pipe.get(key))
            now = read(there) if there is not None else None
            if now is not None and now.run != card.run:
                return
            pipe.multi()
            pipe.hdel(self._all, card.name)
            pipe.delete(key)
            with suppress(WatchError):  # somebody was quicker: he is asked for his sign then
                pipe.execute()

    def remove(self, name: str) -> bool:
        """Take a name off the list; whether it was there."""
        pipe = self._link.redis.pipeline(transaction=False)
        pipe.hdel(self._all, name)
        pipe.delete(self._alive(name))
        gone, _ = pipe.execute()
        return bool(gone)

    def names(self) -> list[str]:
        """All that have joined and not left, alive or not."""
        found = cast("Iterable[Any]", self._link.redis.hkeys(self._all))
        return sorted(str(plain(name)) for name in found)

    def living(self) -> dict[str, Card]:
        """Those that gave a sign of late, by name."""
        names = self.names()
        if not names:
            return {}
        found = cast("list[Any]", self._link.redis.mget([self._alive(name) for name in names]))
        cards = {
            name: read(text) for name, text in zip(names, found, strict=True) if text is not None
        }
        return {n: card for n, card in cards.items() if card is not None and card.name == n}

    # -- leaving ---------------------------------------------------------------------------------

    def drain(self, name: str, *, on: bool = True) -> None:
        """Ask a worker to finish what it has and leave; or not to."""
        key = self._link.name("drain", name)
        if on:
            self._link.redis.set(key, "1", ex=24 * 3600)
        else:
            self._link.redis.delete(key)

    def draining(self, name: str) -> bool:
        """Whether it was asked to leave."""
        return bool(self._link.redis.exists(self._link.name("drain", name)))

    def _alive(self, name: str) -> str:
        return self._link.name("alive", name)
