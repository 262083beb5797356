"""Models that are loaded: lent out, unloaded when nobody asks, the longest idle first when short.

    with keeper.lend("speech hibari", load) as studio: ...

`load` is called once, whoever asks first; others wait for it. What is lent is never unloaded.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

log = logging.getLogger(__name__)


class Closes(Protocol):
    """Something that holds a device's memory."""

    def close(self) -> None:
        """Give it back."""


M = TypeVar("M", bound=Closes)


@dataclass
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    value: Closes | None = None
    lent: int = 0
    used: float = 0.0


class Keeper:
    """Lends models.

    Args:
        idle_s: what nobody asked for this long is unloaded by `sweep`; 0 never.
        clock: seconds that only go forward.
    """

    def __init__(self, idle_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._clock = idle_s, clock
        self._lock = threading.Lock()
        self._slots: dict[str, _Slot] = {}

    @contextlib.contextmanager
    def lend(self, name: str, load: Callable[[], M]) -> Iterator[M]:
        """A model, loaded where it is not. It takes as long as that: call it in a thread."""
        with self._lock:
            slot = self._slots.setdefault(name, _Slot())
            slot.lent += 1
        try:
            with slot.lock:
                if slot.value is None:
                    slot.value = load()
            yield cast("M", slot.value)
        finally:
            with self._lock:
                slot.lent -= 1
                slot.used = self._clock()

    def loaded(self) -> list[str]:
        """The names of those that are loaded."""
        with self._lock:
            return sorted(name for name, slot in self._slots.items() if slot.value is not None)

    def sweep(self) -> list[str]:
        """Unload what is idle; their names."""
        if not self._idle_s:
            return []
        before = self._clock() - self._idle_s
        return [name for name in self._idle() if self._slots[name].used < before
                and self._unload(name)]  # fmt: skip

    def make_room(self) -> str:
        """Unload the one that was idle for the longest; its name, or nothing."""
        return next((name for name in self._idle() if self._unload(name)), "")

    def drop(self, name: str, value: Any) -> None:
        """Forget a model that broke, unless another has taken its place."""
        with self._lock:
            slot = self._slots.get(name)
            if slot is not None and slot.value is value:
                slot.value = None

    def close(self) -> None:
        """Unload everything."""
        with self._lock:
            values = [slot.value for slot in self._slots.values() if slot.value is not None]
            self._slots.clear()
        for value in values:
            value.close()

    def _idle(self) -> list[str]:
        """Loaded and not lent, the longest idle first."""
        with self._lock:
            idle = [(slot.used, name) for name, slot in self._slots.items()
                    if slot.value is not None and not slot.lent]  # fmt: skip
        return [name for _, name in sorted(idle)]

    def _unload(self, name: str) -> bool:
        with self._lock:
            slot = self._slots.get(name)
            if slot is None or slot.lent or slot.value is None:
                return False
            value, slot.value = slot.value, None
        log.info("unloaded: %s", name)
        value.close()
        return True
