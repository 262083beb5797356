"""Models that are loaded: lent out, unloaded when nobody asks, the longest idle first when short.

    with keeper.lend("speech hibari", load) as studio: ...

`load` is called once, whoever asks first; others wait for it, and hear of its failure; whoever
comes after that tries again. What is lent is never closed: one that is dropped leaves when the last
who has it gives it back. A value whose work is done by workers is a `Counter`, or has one as
`live`: so health and metrics can look at its processes and its queue. Where such a worker has
models in processes of its own, as a clerk has, each of these is idle and unloaded on its own.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from anyrig.errors import AnyrigError, OutOfMemoryError, WorkError, is_disk_full, to_disk_full_error
from anyrig.server.kept import (
    Closes,
    Kept,
    Short,
    Tally,
    counter,
    devices_of,
    inner_name,
    places,
    within,
)

log = logging.getLogger(__name__)
_LET_GO_S = 5.0
"""How long a model within a worker may take to go; its worker says so at once."""


M = TypeVar("M", bound=Closes)


@dataclass(eq=False)
class _Slot:
    name: str
    value: Closes | None = None
    attempt: Future[Any] | None = None
    """Of whoever loads it now."""
    lent: int = 0
    used: float = 0.0
    leaves: str = ""
    """Why it is no longer lent to anybody new."""


class _Idle(NamedTuple):
    """Something that could be unloaded."""

    slot: _Slot
    held: str
    """A model within the slot's value; empty is all of it."""
    used: float
    devices: frozenset[str]

    @property
    def name(self) -> str:
        return inner_name(self.slot.name, self.held) if self.held else self.slot.name


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
        self._leaving: list[_Slot] = []
        """Dropped, and closed once nobody has them any more."""
        self._closed = False
        self.tally = Tally()
        self.short: Callable[[], Collection[Short]] = tuple
        """Says which memory is short; set by whoever watches it."""

    @contextlib.contextmanager
    def lend(self, name: str, load: Callable[[], M]) -> Iterator[M]:
        """A model, loaded where it is not. It takes as long as that: call it in a thread.

        Giving it back takes no time: it may be done anywhere.
        """
        slot, value = self._taken(name, load)
        try:
            yield cast("M", value)
        finally:
            with self._lock:
                slot.lent -= 1
                slot.used = self._clock()

    def loaded(self) -> list[str]:
        """The names of those that are loaded."""
        return [one.name for one in self.kept()]

    def kept(self) -> list[Kept]:
        """Those that are loaded, by name; asks nobody."""
        now = self._clock()
        with self._lock:
            found = [
                Kept(s.name, s.value, s.lent, 0.0 if s.lent else max(0.0, now - s.used))
                for s in self._slots.values()
                if s.value is not None
            ]
        return sorted(found, key=lambda one: one.name)

    # -- unloading ---------------------------------------------------------------------------------

    def sweep(self) -> list[str]:
        """Unload what is idle or broken, and one more for each memory that is short; their names.

        It takes as long as closing does: call it in a thread.
        """
        for one in self.kept():
            live = counter(one.value)
            if live is not None and not live.open:
                self.drop(one.name, one.value)
        gone = self._see_off()
        if self._idle_s:
            before = self._clock() - self._idle_s
            # What stands by itself first: with a clerk goes all that it has.
            for idle in sorted(self._idle(), key=lambda idle: bool(idle.held)):
                if idle.used < before and self._unload(idle, "idle"):
                    gone.append(idle.name)
        return gone + self._room_where_short()

    def make_room(self, devices: Collection[str] = ()) -> str:
        """Unload the one that was idle for the longest; its name, or nothing.

        Args:
            devices: only one that works on any of these; anything when empty.
        """
        gone = self._see_off()
        if gone:
            return gone[0]
        for one in self._idle():
            if (not devices or one.devices & set(devices)) and self._unload(one, "memory"):
                return one.name
        return ""

    def drop(self, name: str, value: Any) -> None:
        """Forget a model that broke, unless another has taken its place; the next who asks loads it
        anew. It is closed by the next sweep, when nobody has it any more.
        """
        with self._lock:
            slot = self._slots.get(name)
            if slot is not None and slot.value is value:
                self._lead_out(slot, "broken")

    def renew(self) -> list[str]:
        """Let everything be loaded anew, on another device perhaps; the names of what leaves."""
        with self._lock:
            found = list(self._slots.values())
            for slot in found:
                self._lead_out(slot, "renewed")
        return [slot.name for slot in found]

    def close(self) -> None:
        """Unload everything, lent or not, and lend no more."""
        with self._lock:
            self._closed = True
            slots = [*self._slots.values(), *self._leaving]
            values = [slot.value for slot in slots if slot.value is not None]
            for slot in slots:
                slot.value = None
            self._slots.clear()
            self._leaving.clear()
        for value in values:
            _shut(value)

    # -- within ------------------------------------------------------------------------------------

    def _taken(self, name: str, load: Callable[[], M]) -> tuple[_Slot, Closes]:
        """A slot with its value, lent once more."""
        while True:
            with self._lock:
                if self._closed:
                    raise WorkError("the server is ending", hint="Ask again when it is back.")
                slot = self._slots.setdefault(name, _Slot(name))
                if slot.value is not None:
                    slot.lent += 1
                    return slot, slot.value
                attempt = slot.attempt
                if attempt is None:
                    mine: Future[Any] = Future()
                    slot.attempt = mine
            if attempt is None:
                return self._filled(slot, mine, load)
            error = attempt.exception()
            if error is not None:
                raise _told(error)
            # It is there, unless it has left again meanwhile: then it is loaded once more.

    def _filled(
        self, slot: _Slot, mine: Future[Any], load: Callable[[], Closes]
    ) -> tuple[_Slot, Closes]:
        begun = self._clock()
        try:
            value = self._load(load)
        except BaseException as error:
            with self._lock:
                slot.attempt = None
                self.tally.failures += 1
                if self._slots.get(slot.name) is slot:
                    del self._slots[slot.name]
            mine.set_exception(error)
            raise
        with self._lock:
            late, slot.attempt = self._closed, None
            if not late:
                slot.value = value
                slot.lent += 1
                if slot.leaves:  # it was loaded as everything was renewed
                    self._leaving.append(slot)
                self.tally.loads += 1
                self.tally.load_s += self._clock() - begun
        mine.set_result(None)
        if late:
            _shut(value)
            raise WorkError("the server is ending", hint="Ask again when it is back.")
        log.info("loaded: %s", slot.name)
        return slot, value

    def _load(self, load: Callable[[], Closes]) -> Closes:
        """Load with room made before, and again each time that memory does not suffice."""
        self._room_where_short()
        while True:
            try:
                return load()
            except OutOfMemoryError as error:
                with self._lock:
                    self.tally.out_of_memory += 1
                # What works on another GPU than the full one would go for nothing.
                name = self.make_room(error.devices)
                if not name:
                    raise
                log.info("unloaded %s to load another: %s", name, error.message)

    def _room_where_short(self) -> list[str]:
        """Unload one for each memory that is short; their names."""
        gone = []
        for short in self.short():
            if name := self.make_room(short.devices):
                log.info("unloaded %s: %s", name, short.said)
                gone.append(name)
        return gone

    def _idle(self) -> list[_Idle]:
        """What could be unloaded, the longest idle first."""
        with self._lock:
            found = [(slot, slot.value, slot.lent, slot.used) for slot in self._slots.values()
                     if slot.value is not None]  # fmt: skip
        idle = []
        for slot, value, lent, used in found:
            idle += [_Idle(slot, held.name, held.used, devices_of(held.workers))
                     for held in within(value) if not held.busy]  # fmt: skip
            if not lent:
                idle.append(_Idle(slot, "", used, places(value)))
        return sorted(idle, key=lambda one: one.used)

    def _unload(self, one: _Idle, why: str) -> bool:
        return self._let_go(one, why) if one.held else self._close(one.slot, why)

    def _let_go(self, one: _Idle, why: str) -> bool:
        """Have a model within closed; whether it has gone, as a task may just have taken it."""
        value = one.slot.value
        close = getattr(counter(value), "unload_model", None)
        if close is None:
            return False
        close(one.held)
        end = time.monotonic() + _LET_GO_S
        while left := [held for held in within(value) if held.name == one.held]:
            if left[0].busy or time.monotonic() > end:
                return False
            time.sleep(0.05)
        with self._lock:
            self.tally.unloads[why] += 1
        log.info("unloaded: %s (%s)", one.name, why)
        return True

    def _close(self, slot: _Slot, why: str) -> bool:
        with self._lock:
            if slot.lent or slot.value is None or self._slots.get(slot.name) is not slot:
                return False
            value, slot.value = slot.value, None
            del self._slots[slot.name]
            self.tally.unloads[why] += 1
        log.info("unloaded: %s (%s)", slot.name, why)
        _shut(value)
        return True

    def _lead_out(self, slot: _Slot, why: str) -> None:
        """Nobody new gets it; under the lock."""
        del self._slots[slot.name]
        slot.leaves = why
        if slot.value is not None:  # else once it is loaded
            self._leaving.append(slot)

    def _see_off(self) -> list[str]:
        """Close what was dropped and nobody has any more."""
        with self._lock:
            free = [slot for slot in self._leaving if not slot.lent]
            self._leaving = [slot for slot in self._leaving if slot.lent]
            values = [slot.value for slot in free]
            for slot in free:
                slot.value = None
                self.tally.unloads[slot.leaves] += 1
        for slot, value in zip(free, values, strict=True):
            log.info("unloaded: %s (%s)", slot.name, slot.leaves)
            if value is not None:
                _shut(value)
        return [slot.name for slot in free]


def _shut(value: Closes) -> None:
    try:
        value.close()
    except Exception:
        log.exception("a model did not close well")


def _told(error: BaseException) -> AnyrigError:
    """An error of its own for each who waited."""
    if is_disk_full(error):
        return to_disk_full_error(error)
    if isinstance(error, AnyrigError):
        return type(error)(error.message, hint=error.hint)
    return WorkError(f"{type(error).__name__}: {error}", hint="The server's log has the story.")
