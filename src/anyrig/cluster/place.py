"""A worker's side: engines that are loaded once and kept, shards done in turn, signs of life.

A shard runs through the same `work` as everything else: processes of its own on the worker's
device, batches that fit, a segment that kills its process set aside. Shards of bulk work come one
after the other; where somebody listens, lines pass them at the next one.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any

from anyrig.cluster import default_queue, parcel
from anyrig.cluster.card import Card, Offer, Roll, facts_of, health_of, keys_of, start_of_system
from anyrig.cluster.link import BEAT_S, LONGEST_S, PATIENCE_S, Link
from anyrig.cluster.loaded import About, Engines, Open
from anyrig.cluster.shard import Answer, Order, order_of
from anyrig.cluster.wanted import LOOK_S, Wanted
from anyrig.errors import AnyrigError, InvalidInputError, OutOfMemoryError, PoisonItemError
from anyrig.speech.booth import Recording
from anyrig.version import __version__
from anyrig.work.outcome import FailureKind, ItemFailure

log = logging.getLogger(__name__)
MOST_BULK = 24
"""Shards of bulk work that are taken at once, of all runs; see `THREADS` of the node."""
_SMOOTH = 0.3
_REMEMBERED = 4096
_ANSWERING_S = PATIENCE_S + 60.0
"""After this an answer that could not be stored is given up; so is its shard, then."""


class Workplace:
    """Does the shards of one worker.

    Args:
        link: to the broker.
        about: who it is.
        open: loads an engine.
        observed: what the device says of itself now: the fields of health.
        small: packs a take for the way, where an order asks for it.
        told: is told of what a person should see: an event, and facts of it.
        beat: is told its name at every beat, whether or not the broker is there.
    """

    def __init__(
        self,
        link: Link,
        about: About,
        open: Open,
        *,
        observed: Callable[[], Mapping[str, Any]] = dict,
        small: Callable[[bytes], bytes] = lambda data: data,
        told: Callable[[str, Mapping[str, Any]], None] = lambda event, facts: None,
        beat: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._link, self._about, self._beat = link, about, beat
        self._observed, self._small = observed, small
        self._roll = Roll(link)
        self._engines = Engines(about, open, observed, told)
        self._bulk, self._waiting = threading.Lock(), threading.Semaphore(MOST_BULK)
        self._lock = threading.Lock()
        self._holds: dict[str, float] = {}
        """Shards that are not answered, and when they need not be any more."""
        self._came: OrderedDict[str, None] = OrderedDict()
        """The last shards, answered or not."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        """Runs that the broker does not know."""
        self._speeds: dict[str, float] = {}
        self._segments = self._shards = self._beats = 0
        self._end = threading.Event()
        self._run = secrets.token_hex(8)
        self._idle_since = time.monotonic()
        self._enough = threading.Event()
        self.drained = threading.Event()
        """Somebody asked in the broker that it leaves."""
        self.started = False
        self.draining = False
        """Whether it takes nothing new."""
        self.replaced = False
        """Whether another worker has its name now."""
        self._thread = threading.Thread(target=self._beating, name="anyrig-beat", daemon=True)

    # -- being there -----------------------------------------------------------------------------

    @property
    def offers(self) -> tuple[Offer, ...]:
        """The engines that it has."""
        return self._about.offers

    def claim(self) -> Card | None:
        """Take the name and keep it from now on; whoever has it, where somebody has."""
        other = self._link.patiently(lambda: self._roll.claim(self.card()))
        if other is None:  # what was asked was meant for the one before
            self._link.patiently(lambda: self._roll.drain(self._about.name, on=False))
            self._thread.start()
        return other

    def take_over(self, other: Card) -> None:
        """The name of one that is no more."""
        self._link.patiently(lambda: self._roll.bury(other))

    def start(self) -> None:
        """Shards are taken from now on."""
        self.started = True
        with suppress(Exception):  # the next beat says it, where the broker is just away
            self._roll.write(self.card())

    def leave(self, within_s: float) -> bool:
        """Take nothing new and finish what is here; what takes longer is given back as it is.

        Whether all of it was finished.
        """
        self.draining = True
        self.drained.clear()  # it cannot be taken back any more
        with suppress(Exception):  # a broker that is away learns it by its silence
            self._roll.write(self.card())
        if self._empty(within_s):
            return True
        self._enough.set()
        self._empty(2 * LOOK_S)
        return False

    def _empty(self, within_s: float) -> bool:
        end = time.monotonic() + within_s
        while self.idle_s == 0.0 and time.monotonic() < end:
            time.sleep(0.05)
        return self.idle_s > 0.0

    def close(self) -> None:
        """Leave."""
        self.withdraw()
        self._engines.close()

    def withdraw(self) -> None:
        """Let nothing of this worker stay in the broker."""
        self._end.set()
        if self._thread.is_alive():  # a last beat would put the name on the list again
            self._thread.join(timeout=BEAT_S)
        if not self.replaced:
            with suppress(Exception):  # a broker that is away sees its lease end
                self._roll.remove(self._about.name)
                self._link.redis.delete(*keys_of(self._about.name))

    @property
    def idle_s(self) -> float:
        """How long it has had nothing to do."""
        with self._lock:
            return 0.0 if self._holds else time.monotonic() - self._idle_since

    def card(self) -> Card:
        """How it is now."""
        observed = self._observed()
        self._let_go()
        with self._lock:
            holds, speeds = tuple(self._holds), dict(self._speeds)
            self._beats += 1
        seen = self._engines.seen()
        models = tuple(dict.fromkeys(name for one in seen for name in one.models))
        word = seen[-1].word if seen else self._about.word
        ready = "ready" if self.started else "loading"
        status = "draining" if self.draining else "busy" if holds else ready
        about = self._about
        return Card(
            about.name, __version__, run=self._run, host=socket.gethostname(), pid=os.getpid(),
            start=start_of_system(),
            python=platform.python_version(), system=platform.platform(terse=True),
            device=about.device, kind=about.kind, word=word, offers=about.offers,
            precisions=about.precisions, status=status, device_type=word.partition(":")[0],
            gpu_available=bool(observed.get("gpu_available", False)),
            gpu_count=int(observed.get("gpu_count", 0)),
            gpu_memory_free_mb=observed.get("gpu_memory_free_mb", 0),
            device_memory_mb=about.memory_mb,
            tts_model_loaded=bool(models), cached_models=models, speeds=speeds,
            segments_done=self._segments, shards_done=self._shards, holds=holds,
            beat=self._beats,
        )  # fmt: skip

    def health(self) -> dict[str, Any]:
        """For the health task."""
        return health_of(self.card())

    def facts(self) -> dict[str, Any]:
        """For Celery's own tools."""
        return facts_of(self.card())

    def _beating(self) -> None:
        away = False
        while not self._end.wait(BEAT_S):
            self._beat(self._about.name)
            try:
                card = self.card()
                if not self._roll.is_mine(card):  # it was frozen, and somebody took its place
                    self.replaced = self.draining = True
                    self.drained.set()
                    return
                self._roll.write(card)
                if self._roll.draining(card.name):
                    self.draining = True
                    self.drained.set()
                elif self.drained.is_set():  # that was taken back
                    self.draining = False
                    self.drained.clear()
                if not self.draining:
                    default_queue.answer(self._link, self.health)
                if away:
                    log.warning("the broker is there again")
                away = False
            except Exception as error:  # noqa: BLE001 - a broker that is away comes back
                if not away:
                    log.warning("the broker is away (%s); waiting for it", error)
                away = True

    # -- shards ----------------------------------------------------------------------------------

    def do(self, found: Any) -> dict[str, Any]:
        """A shard's answer, as it travels; never an error."""
        try:
            order = order_of(found)
        except InvalidInputError as error:
            id = found.get("id", "") if isinstance(found, dict) else ""
            return Answer(str(id)[:64], refused=error.message).plain()
        if self.draining:  # nothing is wrong with it, and nobody need be told
            return Answer(order.id, left=_indices(order)).plain()
        self._hold(order.id)
        try:
            answer = parcel.fitting(self._link, self._about.box_key, order, self._done(order))
            return parcel.packed(self._link, answer)
        except AnyrigError as error:
            log.warning("shard %s: %s", order.id, error.message)
            return Answer(order.id, refused=error.message).plain()
        finally:
            with self._lock:  # until its answer lies in the backend, it is still held
                self._holds[order.id] = time.monotonic() + _ANSWERING_S

    def _hold(self, id: str) -> None:
        """Take a shard; one that is here already, or was, is left alone.

        A message can come twice: when the broker was away, when a clock is wrong, when whoever sent
        it could not know that it had arrived.
        """
        from celery.exceptions import Ignore

        with self._lock:
            if id in self._came:
                log.info("shard %s came twice", id)
                raise Ignore
            self._holds[id] = math.inf
            self._came[id] = None
            while len(self._came) > _REMEMBERED:
                self._came.popitem(last=False)

    def _let_go(self, *ids: str) -> None:
        """Shards are answered; so are those whose answer could not be stored in all this time."""
        now = time.monotonic()
        with self._lock:
            for id in [*ids, *(one for one, end in self._holds.items() if end < now)]:
                if self._holds.pop(id, None) is not None:
                    self._idle_since = now

    def answered(self, found: Any, task: str) -> None:
        """The answer lies in the backend: whoever waits for it is told."""
        self._let_go(task)
        run = found.get("run") if isinstance(found, dict) else None
        if not isinstance(run, str):
            return
        key = self._link.name("run", run, "done")
        try:
            pipe = self._link.redis.pipeline(transaction=False)
            pipe.rpush(key, task)
            pipe.expire(key, 600)
            pipe.execute()
        except Exception as error:  # noqa: BLE001 - the run looks by itself, only later
            log.warning("a run could not be told of its shard: %s", error)

    def _done(self, order: Order) -> Answer:
        wanted = Wanted(self._link, order, self._gone)
        if not wanted.at_first():
            return Answer(order.id, left=_indices(order))
        if order.lane == "live":
            return self._spoken(order, wanted)
        if not self._waiting.acquire(blocking=False):  # or none would be left for who listens
            return Answer(order.id, left=_indices(order))
        try:
            with self._bulk:  # the next one is here already, and begins when this one ends
                if not wanted.now(anew=True):
                    return Answer(order.id, left=_indices(order))
                return self._spoken(order, wanted)
        finally:
            self._waiting.release()

    def _spoken(self, order: Order, wanted: Wanted) -> Answer:
        loaded = self._engines.of(order)
        lane = "live" if order.lane == "live" else "bulk"
        began, before = time.monotonic(), loaded.live.report.num_out_of_memory
        futures: dict[Future[Recording], int] = {}
        try:
            for turn, (index, line) in enumerate(order.lines):
                futures[loaded.live.submit(line, lane=lane, turn=turn)] = index  # type: ignore[arg-type]
            recordings, failures, left = self._gathered(futures, wanted)
        finally:
            for future in futures:
                future.cancel()
        seconds = time.monotonic() - began
        done = sum(line.cost for index, line in order.lines if index not in left)
        if recordings and lane == "bulk":
            self._learn(order.offer.engine, done, seconds)
        with self._lock:
            self._segments += len(recordings)
            self._shards += 1
        small = self._small if order.small else _as_it_is
        packed = {n: replace(one, data=small(one.data)) for n, one in recordings.items()}
        return Answer(
            order.id, packed, failures, tuple(left), cost=done, seconds=seconds,
            num_batches=int(bool(recordings)),  # one that fails at once is not the fastest
            num_out_of_memory=loaded.live.report.num_out_of_memory - before,
        )  # fmt: skip

    def _gathered(
        self, futures: Mapping[Future[Recording], int], wanted: Wanted
    ) -> tuple[dict[int, Recording], dict[int, ItemFailure], list[int]]:
        recordings: dict[int, Recording] = {}
        failures: dict[int, ItemFailure] = {}
        waiting = set(futures)
        end = time.monotonic() + LONGEST_S
        while waiting:
            done, waiting = wait(waiting, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    recordings[futures[future]] = future.result()
                except AnyrigError as error:
                    failures[futures[future]] = _failure(error)
            enough = self._enough.is_set() or time.monotonic() > end
            if waiting and (enough or not wanted.now()):
                break
        return recordings, failures, [futures[future] for future in waiting]

    def _learn(self, engine: str, cost: float, seconds: float) -> None:
        now = cost / max(seconds, 1e-6)
        with self._lock:
            before = self._speeds.get(engine)
            self._speeds[engine] = now if before is None else before + _SMOOTH * (now - before)


def _failure(error: AnyrigError) -> ItemFailure:
    kind: FailureKind = "killed" if isinstance(error, PoisonItemError) else "error"
    if isinstance(error, OutOfMemoryError):
        kind = "memory"
    return ItemFailure(kind, error.message, 1, error.hint)


def _indices(order: Order) -> tuple[int, ...]:
    return tuple(index for index, _ in order.lines)


def _as_it_is(data: bytes) -> bytes:
    return data
