"""The engines of a worker: loaded when the first shard needs one, and kept."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyrig.cluster.card import Offer
from anyrig.errors import InvalidInputError

if TYPE_CHECKING:
    from anyrig.cluster.shard import Order
    from anyrig.speech.booth import Recording
    from anyrig.speech.protocol import Line, Value
    from anyrig.work.live import LiveQueue
    from anyrig.work.protocol import WorkerStatus

log = logging.getLogger(__name__)
_MOST = 2


class Loaded(Protocol):
    """An engine that is ready to speak."""

    live: LiveQueue[Line, Recording]
    offer: Offer
    voices: frozenset[str]
    """Their names; a line that names another is refused, and no file is ever opened by a name."""

    def close(self) -> None:
        """Let it go."""


Open = Callable[[str, str, "Mapping[str, Value]"], Loaded]
"""Loads an engine: its name, the class of precision, its options."""


@dataclass(frozen=True)
class About:
    """What a worker is, before it has done anything."""

    name: str
    device: str
    kind: str
    word: str
    offers: tuple[Offer, ...]
    precisions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By engine, as the card has them."""
    box_key: str = ""
    memory_mb: int = 0
    """Of its device; 0 where that is not known."""


class Engines:
    """Those that are loaded; the one that was used least leaves where there are too many.

    Args:
        about: who the worker is.
        open: loads an engine.
        observed: what the device says of itself now.
        told: is told that one was loaded.
    """

    def __init__(
        self,
        about: About,
        open: Open,
        observed: Callable[[], Mapping[str, Any]],
        told: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._about, self._open, self._observed, self._told = about, open, observed, told
        self._engines: OrderedDict[tuple[str, str, str], Loaded] = OrderedDict()
        self._loading, self._lock = threading.Lock(), threading.Lock()

    def seen(self) -> list[WorkerStatus]:
        """Their processes that are ready, as they were last seen."""
        with self._lock:
            loaded = list(self._engines.values())
        return [one for each in loaded for one in each.live.workers() if one.state == "ready"]

    def close(self) -> None:
        """Let all of them go."""
        with self._lock, ExitStack() as stack:
            for loaded in self._engines.values():
                stack.callback(loaded.close)
            self._engines.clear()

    def of(self, order: Order) -> Loaded:
        """The engine of an order, loaded once; one that is not the same to the byte is refused."""
        mine = next((one for one in self._about.offers if one.engine == order.offer.engine), None)
        if mine is None:
            raise InvalidInputError(
                f"there is no {order.offer.engine} here", hint="Install it there."
            )
        if differs := order.offer.differs(mine):
            raise InvalidInputError(
                f"{self._about.name}: {differs}", hint="Install the same one there."
            )
        able = self._about.precisions.get(order.offer.engine)
        if able is not None and order.precision not in able:
            raise InvalidInputError(
                f"{self._about.name} cannot compute {order.offer.engine} in {order.precision}, "
                f"only in {', '.join(able)}",
                hint="Name a --precision that all of them have.",
            )
        key = (order.offer.engine, order.precision, repr(sorted(order.options.items())))
        with self._loading:
            found = self._engines.get(key)
            if found is None or not found.live.open:
                found = self._load(key, order)
            self._engines.move_to_end(key)
        strange = next((line.voice for _, line in order.lines if not _known(line, found)), "")
        if strange:
            raise InvalidInputError(
                f"{self._about.name} has no voice {strange[:60]!r} of {order.offer.engine}",
                hint="Recordings of one machine are no voices of another.",
            )
        return found

    def _load(self, key: tuple[str, str, str], order: Order) -> Loaded:
        """Load an engine; the one that was used least leaves where there are too many."""
        with self._lock:
            before = self._engines.pop(key, None)
        if before is not None:
            before.close()
        began = time.monotonic()
        found = self._open(order.offer.engine, order.precision, order.options)
        with self._lock:
            self._engines[key] = found
        word = next((one.word for one in found.live.workers()), self._about.word)
        facts = {
            "model": order.offer.engine, "version": order.offer.version,
            "precision": order.precision, "device": self._about.device, "word": word,
            "gpu_available": bool(self._observed().get("gpu_available", False)),
            "seconds": round(time.monotonic() - began, 2),
        }  # fmt: skip
        log.info("loaded: %s", facts)
        self._told("loaded", facts)
        while len(self._engines) > _MOST:
            with self._lock:  # not one that speaks: its lines would be told that they failed
                idle = (
                    name for name, one in self._engines.items()
                    if one is not found and not one.live.running
                )  # fmt: skip
                name = next(idle, None)
                if name is None:
                    break
                oldest = self._engines.pop(name)
            oldest.close()
        return found


def _known(line: Line, loaded: Loaded) -> bool:
    """Whether a line's voice, or each of those that it blends, is one of the engine's own."""
    parts = [part.partition(":")[0].strip() for part in line.voice.split("+")]
    return not line.voice or line.voice in loaded.voices or loaded.voices.issuperset(parts)
