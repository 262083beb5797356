"""The workers of a pool: hired, loading, ready, dead, replaced, set aside."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from anyrig import errors
from anyrig.errors import AnyrigError, DeviceLostError, OutOfMemoryError, WorkError
from anyrig.memory.limits import Key, Limits
from anyrig.units import format_duration
from anyrig.work import known, wire
from anyrig.work.blame import Ledger
from anyrig.work.engine import Recipe
from anyrig.work.known import Sizes
from anyrig.work.outcome import Report
from anyrig.work.schedule import Lane
from anyrig.work.seen import Seen, State
from anyrig.work.worker import Gone, Said, Worker

if TYPE_CHECKING:
    from anyrig.placement import Placement
    from anyrig.work.outcome import Failure

log = logging.getLogger(__name__)
LOADING_S = 1800.0
"""Large weights from a slow disk take minutes; nothing takes half an hour."""
_DEAD_KEPT = 16


class Staff:
    """Who works on which device, and who is to blame for what."""

    def __init__(
        self,
        recipe: Recipe,
        environment: Mapping[str, str],
        events: queue.SimpleQueue[Any],
        *,
        fallback: Placement | None,
        limits: Limits | None,
        stamp: str,
        deterministic: bool,
        beat_s: float = wire.BEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recipe, self._environment, self._events = recipe, environment, events
        self._fallback, self._deterministic = fallback, deterministic
        self._limits, self._stamp = limits, stamp
        self._beat_s, self._clock = beat_s, clock
        self.ready: dict[int, Worker] = {}
        self._loading: dict[int, Worker] = {}
        self._lanes: dict[int, Lane[Any]] = {}
        self._learnt: dict[str, tuple[Placement, wire.Done]] = {}
        """By device: what its worker last said of batch sizes."""
        self._suspended: dict[str, list[Placement]] = {}
        self._refusal: AnyrigError | None = None
        self._number = 0
        self._closed = False
        self._lock = threading.Lock()
        self.ledger = Ledger()
        self.warnings: list[str] = []
        self.total = Report()
        """The figures of everything so far."""
        self._dead: deque[Seen] = deque(maxlen=_DEAD_KEPT)

    @property
    def num_loading(self) -> int:
        """Workers that have not loaded their engine yet."""
        return len(self._loading)

    @property
    def pids(self) -> list[int]:
        """The process numbers of all that live."""
        return [worker.pid for worker in (*self.ready.values(), *self._loading.values())]

    def seen(self) -> tuple[Seen, ...]:
        """Everybody as last seen, from any thread; the last dead first."""
        living = [self._fact(worker, "ready") for worker in list(self.ready.values())]
        living += [self._fact(worker, "loading") for worker in list(self._loading.values())]
        return (*list(self._dead), *living)

    def _fact(self, worker: Worker, state: State, said: str = "") -> Seen:
        placement, lane = worker.placement, self._lanes.get(worker.number)
        # Where nothing runs, nobody has heard yet of what became of it.
        if worker.ended and not said:
            state, said = "dead", worker.ended
        elif state == "loading" and worker.holds:
            state = "ready"
        hand = list(lane.hand.values()) if lane is not None else []
        rate = lane.rate if lane is not None else None
        return Seen(
            worker.pid,
            placement.device.id,
            placement.device.kind,
            placement.drive.selector,
            state,
            worker.started,
            worker.heard,
            worker.holds if state == "ready" else (),
            lane.since if lane is not None and hand else None,
            sum(item.cost for item in hand) / rate if rate else 0.0,
            said,
            worker.held if state == "ready" else (),
        )

    def hire(self, placement: Placement) -> None:
        """One more worker on a placement; it is ready once its engine is loaded."""
        with self._lock:
            if self._closed:
                return
            self._number += 1
            self._loading[self._number] = Worker(
                self._number,
                placement,
                self._recipe,
                self._environment,
                self._events,
                self._sizes(placement),
                grows=not self._deterministic,
                beat_s=self._beat_s,
                clock=self._clock,
            )

    def _sizes(self, placement: Placement) -> Sizes:
        """From this run's other workers on the device, else from earlier runs."""
        if placement.device.id in self._learnt:
            _, told = self._learnt[placement.device.id]
            return Sizes(told.good, told.failed_at)
        return known.sizes(self._limits, self._key(placement)) if self._limits else Sizes()

    def _key(self, placement: Placement) -> Key:
        recipe = self._recipe
        name = recipe.name or recipe.factory
        return known.key_of(placement, name, recipe.version, self._stamp)

    def remember(self) -> None:
        """Keep what was learnt of batch sizes for the next run."""
        for placement, told in self._learnt.values() if self._limits else ():
            assert self._limits is not None
            known.remember(
                self._limits,
                self._key(placement),
                told.good,
                told.failed_at,
                told.peak_bytes,
            )

    def heard(self, said: Said) -> Worker | None:
        """What a message means for the staff; the worker it made ready or lost, if any."""
        worker = self._loading.get(said.number) or self.ready.get(said.number)
        if worker is None:
            return None
        if isinstance(said.message, wire.Ready):
            log.info("%s is ready after %s", worker.placement.device.name,
                     format_duration(said.message.seconds))  # fmt: skip
            self.ready[said.number] = self._loading.pop(said.number)
        elif isinstance(said.message, wire.Refused):
            self._refused(worker, said.message)
        elif isinstance(said.message, Gone) and said.number in self._loading:
            self._died_loading(worker, said.message)
        else:
            return worker
        return None

    def lane(self, worker: Worker) -> Lane[Any]:
        """A ready worker's lane, which remembers its speed from run to run."""
        return self._lanes.setdefault(
            worker.number, Lane(worker.number, prior=worker.placement.speed)
        )

    def learned(self, worker: Worker, told: wire.Done) -> None:
        """How large batches are on a device, for its next worker and the next run."""
        self._learnt[worker.placement.device.id] = (worker.placement, told)
        self.total.batches_done(told)
        self.total.num_items += len(told.parcels) + len(told.failures)

    def lose(self, worker: Worker, said: str, suspects: list[int]) -> None:
        """A ready worker is gone: strike it off, and hire another where the device may go on."""
        self._dead.append(self._fact(worker, "dead", said))
        self.ready.pop(worker.number, None)
        self._lanes.pop(worker.number, None)
        worker.stop()
        self.ledger.died(worker.placement.device.id, suspects)
        self._replace(worker, said)

    def convict(self, index: int) -> None:
        """An item is guilty: the devices it took down come back."""
        for device in self.ledger.convict(index):
            for placement in self._suspended.pop(device, []):
                log.info("%s is used again: item %d was to blame", placement.device.name, index)
                self.hire(placement)

    def check(self) -> None:
        """Make sure that somebody works; the fall-back is called when nobody else does."""
        if self._closed:
            raise WorkError("the pool was closed while it worked", hint="Close it afterwards.")
        self._end_slow_loading()
        if self.ready or self._loading:
            return
        if self._fallback is not None:
            placement, self._fallback = self._fallback, None
            self._warn(f"no device is left; going on with {placement.device.name}")
            self.hire(placement)
            return
        if self._refusal is not None:
            raise self._refusal
        last = self.warnings[-1] if self.warnings else "no worker could be started"
        raise DeviceLostError(last, hint="Run `anyrig doctor`; what was done is kept.")

    def _end_slow_loading(self) -> None:
        """A worker that does not come to an end with loading will not; `Gone` follows."""
        now = self._clock()
        for worker in self._loading.values():
            if now - worker.started > LOADING_S:
                log.warning("%s has been loading for %.0f s and is ended",
                            worker.placement.device.name, now - worker.started)  # fmt: skip
                worker.stop()

    def call_fallback(self) -> bool:
        """Start the fall-back beside the others; whether there was one to start."""
        if self._fallback is None:
            return False
        placement, self._fallback = self._fallback, None
        self.hire(placement)
        return True

    def asks_another(self, failure: Failure, devices: Collection[str]) -> bool:
        """Memory is a device's own; any other error would be the same on all."""
        return failure.kind == "memory"

    def elsewhere(self, devices: Collection[str]) -> bool:
        """Whether somebody works, or will, on another device than these."""
        workers = (*self.ready.values(), *self._loading.values())
        return any(worker.placement.device.id not in devices for worker in workers)

    def dismiss(self) -> None:
        """End everybody."""
        with self._lock:
            self._closed = True
            workers = (*self.ready.values(), *self._loading.values())
        for worker in workers:
            worker.stop()
        self.ready, self._loading, self._fallback = {}, {}, None

    def _refused(self, worker: Worker, message: wire.Refused) -> None:
        """The engine cannot be loaded there: once is enough."""
        self._dead.append(self._fact(worker, "dead", message.said))
        del self._loading[worker.number]
        worker.stop()
        kind = getattr(errors, message.kind, WorkError)
        hint = message.hint or "That is the engine's own error; -vv says more."
        name = worker.placement.device.name
        self._refusal = kind(message.said, hint=hint)
        if isinstance(self._refusal, OutOfMemoryError) and worker.placement.device.kind == "gpu":
            self._refusal.devices = (worker.placement.device.id,)
        self._warn(f"the engine cannot be loaded on {name}: {message.said}")

    def _died_loading(self, worker: Worker, message: Gone) -> None:
        self._dead.append(self._fact(worker, "dead", message.said))
        del self._loading[worker.number]
        worker.stop()
        self.ledger.died(worker.placement.device.id, ())
        self._replace(worker, f"{message.said}, while it loaded")

    def _replace(self, worker: Worker, said: str) -> None:
        placement = worker.placement
        name, device = placement.device.name, placement.device.id
        lonely = not self.elsewhere((device,)) and self._fallback is None
        if not self.ledger.out(device) or (lonely and not self.ledger.hopeless(device)):
            log.warning("a worker on %s %s; another takes its place", name, said)
            self.hire(placement)
            return
        self._suspended.setdefault(device, []).append(placement)
        others = [w for w in self.ready.values() if w.placement.device.id == device]
        if not others:
            self._warn(f"{name} is set aside: its worker {said}")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
            log.warning("%s", text)
