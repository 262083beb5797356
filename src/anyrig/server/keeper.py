"""Models that are loaded: lent out, unloaded when nobody asks, the longest idle first when short.

    with keeper.lend("speech hibari", load) as studio: ...

`load` is called once, whoever asks first; others wait for it, and hear of its failure; whoever
comes after that tries again. What is lent is never closed: one that is dropped leaves when the last
who has it gives it back. A value whose work is done by workers is a `Counter`, or has one as
`live`: so health and metrics can look at its processes and its queue.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from anyrig.errors import AnyrigError, OutOfMemory, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyrig.work.live import Lane
    from anyrig.work.outcome import Report
    from anyrig.work.seen import Seen

log = logging.getLogger(__name__)


class Closes(Protocol):
    """Something that holds a device's memory."""

    def close(self) -> None:
        """Give it back."""


class Counter(Protocol):
    """Where a model's items wait and are worked on, as in a `Live`. Looking takes no time."""

    report: Report

    @property
    def open(self) -> bool:
        """Whether it takes anything."""

    @property
    def running(self) -> int:
        """Items at work."""

    def waiting(self, lane: Lane) -> int:
        """Items that wait."""

    def workers(self) -> Sequence[Seen]:
        """Its processes, as they were last seen."""


M = TypeVar("M", bound=Closes)


class Short(NamedTuple):
    """Memory that is short."""

    device: str
    """Whose memory; empty is the host's."""
    said: str


class Kept(NamedTuple):
    """A model that is loaded, as it stands."""

    name: str
    value: Closes
    lent: int
    idle_s: float


@dataclass
class Tally:
    """What a keeper has done so far."""

    loads: int = 0
    load_s: float = 0.0
    failures: int = 0
    unloads: dict[str, int] = field(
        default_factory=lambda: {"idle": 0, "memory": 0, "broken": 0, "renewed": 0}
    )
    """By reason."""
    out_of_memory: int = 0
    """Loads that found too little memory, whether a second try went well or not."""


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
        self.short: Callable[[], Short | None] = lambda: None
        """Says whether memory is short; set by whoever watches it."""

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
        """Unload what is idle or broken, and one more when memory is short; their names.

        It takes as long as closing does: call it in a thread.
        """
        for one in self.kept():
            live = counter(one.value)
            if live is not None and not live.open:
                self.drop(one.name, one.value)
        gone = self._see_off()
        if self._idle_s:
            before = self._clock() - self._idle_s
            gone += [slot.name for slot in self._idle() if slot.used < before
                     and self._unload(slot, "idle")]  # fmt: skip
        short = self.short()
        if short is not None and (name := self.make_room(short.device)):
            log.info("unloaded %s: %s", name, short.said)
            gone.append(name)
        return gone

    def make_room(self, device: str = "") -> str:
        """Unload the one that was idle for the longest; its name, or nothing.

        Args:
            device: only one that works there; any when empty.
        """
        gone = self._see_off()
        if gone:
            return gone[0]
        for slot in self._idle():
            if device and device not in _places(slot.value):
                continue
            if self._unload(slot, "memory"):
                return slot.name
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
                    raise WorkFailed("the server is ending", hint="Ask again when it is back.")
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
            raise WorkFailed("the server is ending", hint="Ask again when it is back.")
        log.info("loaded: %s", slot.name)
        return slot, value

    def _load(self, load: Callable[[], Closes]) -> Closes:
        """Load with room made before, and again each time that memory does not suffice."""
        short = self.short()
        if short is not None and (name := self.make_room(short.device)):
            log.info("unloaded %s to load another: %s", name, short.said)
        while True:
            try:
                return load()
            except OutOfMemory as error:
                with self._lock:
                    self.tally.out_of_memory += 1
                name = self.make_room()
                if not name:
                    raise
                log.info("unloaded %s to load another: %s", name, error.message)

    def _idle(self) -> list[_Slot]:
        """Loaded and not lent, the longest idle first."""
        with self._lock:
            idle = [slot for slot in self._slots.values() if slot.value is not None
                    and not slot.lent]  # fmt: skip
        return sorted(idle, key=lambda slot: slot.used)

    def _unload(self, slot: _Slot, why: str) -> bool:
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


def counter(value: object) -> Counter | None:
    """What a model's items wait at, where it shows that."""
    found = getattr(value, "live", value)
    return cast("Counter", found) if hasattr(found, "workers") else None


def _places(value: object) -> set[str]:
    live = counter(value)
    return {seen.device for seen in live.workers()} if live is not None else set()


def _shut(value: Closes) -> None:
    try:
        value.close()
    except Exception:
        log.exception("a model did not close well")


def _told(error: BaseException) -> AnyrigError:
    """An error of its own for each who waited."""
    if isinstance(error, AnyrigError):
        return type(error)(error.message, hint=error.hint)
    return WorkFailed(f"{type(error).__name__}: {error}", hint="The server's log has the story.")
