"""The wire of a client to its workers: shards out, answers in, and what is still wanted.

Whatever is written to the broker is written by one thread, in the order in which it was asked for,
and again until it has worked: so nobody waits for a broker that is away, and what the broker holds
is what is wanted now. Nothing is written without an end.
"""

from __future__ import annotations

import json
import logging
import math
import queue
import re
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from anyrig.cluster.app import PRIORITIES, UNACKED, UNACKED_INDEX, made
from anyrig.cluster.card import Card, Offer, Roll
from anyrig.cluster.link import LONGEST_S, RUN_LEASE_S, SOUND, Link, plain
from anyrig.cluster.notice import of as notice_of
from anyrig.cluster.shard import MOST_BYTES, Answer, Order, answer_of
from anyrig.errors import AnyrigError, WorkError
from anyrig.speech.protocol import Line, Value

if TYPE_CHECKING:
    from anyrig.work.batching import WorkItem

log = logging.getLogger(__name__)
SHARD = "anyrig.shard"
RESULT = "result:celery-task-meta-"
_WAIT_S = 1
_AT_ONCE = 64
_SEEN = 256
"""Messages of a queue that are looked through; more than a worker is ever sent."""
_QUEUE_S = int(LONGEST_S)
"""A queue that nobody reads is gone so long after its last message."""
_TAKEN_S = int(4 * LONGEST_S)
"""The same of Celery's own list of what workers have taken."""
_MOST = MOST_BYTES + (4 << 20)
_CLOSED_BOX_S = 60.0
_ID = re.compile(r"[0-9a-f]{24}")


def new_id() -> str:
    """For a shard; nobody can guess it."""
    return secrets.token_hex(12)


@dataclass(eq=False)
class Sent:
    """A shard that was sent and not answered."""

    order: Order
    queue: str
    seat: int
    at: float = field(default_factory=time.monotonic)
    """When it was sent on its way."""


class Heard(NamedTuple):
    """A shard that a worker is done with."""

    id: str
    sent: Sent | None
    """None where nobody waits for it any more."""
    answer: Answer | None
    """None where it cannot be read."""


class Calls:
    """One run after the other over a broker, under one name that nobody else has."""

    def __init__(
        self, link: Link, offer: Offer, *, precision: str, options: Mapping[str, Value],
        lane: str, small: bool, box: str = "", box_key: str = "",
    ) -> None:  # fmt: skip
        self._link, self.offer, self.precision = link, offer, precision
        self._options, self._lane, self._small = dict(options), lane, small
        self.box, self.box_key = box, box_key
        self._open_box_at = 0.0
        """When a box that could not be reached is tried again."""
        self._app = made(link.url)
        self._roll = Roll(link)
        self._run, self._host = secrets.token_hex(8), socket.gethostname()
        self._lock = threading.Lock()
        self._sent: dict[str, Sent] = {}
        self._queues: set[str] = set()
        self._told: deque[str] = deque()
        """Shards that workers say are done and whose answers were not fetched yet."""
        self._renewing = False
        self._outbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._writer = threading.Thread(target=self._write, name="anyrig-calls", daemon=True)
        self._writer.start()

    # -- what is wanted --------------------------------------------------------------------------

    def renew(self) -> None:
        """Say again what is wanted, and for how long: a broker may have forgotten it."""
        with self._lock:
            if self._renewing:
                return  # once is enough, however long the broker is away
            self._renewing = True
        self._outbox.put(self._renew)

    def _renew(self) -> None:
        with self._lock:
            open, queues = list(self._sent), list(self._queues)
        pipe = self._link.redis.pipeline(transaction=True)
        pipe.set(self._key(), "1", ex=RUN_LEASE_S)
        pipe.delete(self._key("open"))
        if open:
            pipe.sadd(self._key("open"), *open)
            pipe.expire(self._key("open"), RUN_LEASE_S)
        self._end_queues(pipe, queues)
        pipe.get(self._link.name("cluster"))
        told = notice_of(pipe.execute()[-1])
        if told is not None and time.monotonic() >= self._open_box_at:
            # A coordinator may come, and come back elsewhere.
            self.box, self.box_key = told.box, told.box_key

    def _end_queues(self, pipe: Any, queues: Collection[str]) -> None:
        """Messages of a worker that is no more end with their queue."""
        for name in queues:
            for one in _lists(name):
                pipe.expire(one, _QUEUE_S)
        for name in (UNACKED, UNACKED_INDEX) if queues else ():
            pipe.expire(name, _TAKEN_S)

    def over(self) -> None:
        """A run has ended: whoever still works for it stops."""
        with self._lock:
            sent, self._sent = self._sent, {}
        if sent:
            self._outbox.put(partial(self._take_back, sent))

    def _take_back(self, sent: Mapping[str, Sent]) -> None:
        pipe = self._link.redis.pipeline(transaction=True)
        pipe.srem(self._key("open"), *sent)
        for id in sent:
            pipe.delete(*self._places(id))
        pipe.execute()
        for name in {one.queue for one in sent.values()}:
            self._withdraw(name, sent)

    def _leave(self) -> None:
        """Nothing is wanted any more, and nothing stays."""
        pipe = self._link.redis.pipeline(transaction=True)
        pipe.set(self._key("over"), "1", ex=RUN_LEASE_S)
        pipe.delete(self._key(), self._key("open"), self._key("done"))
        self._end_queues(pipe, self._queues)
        pipe.execute()

    def _key(self, *words: str) -> str:
        return self._link.name("run", self._run, *words)

    # -- out -------------------------------------------------------------------------------------

    def send(self, id: str, seat: int, card: Card, items: Sequence[WorkItem[Line]]) -> None:
        """Put a shard into a worker's queue; by another thread."""
        lines = tuple((item.index, item.payload) for item in items)
        order = Order(
            id, self._run, self.offer, lines, self.precision, self._options, self._lane, self.box,
            # Within one machine nothing is gained by it, and it costs 4 % of the default voice.
            self._small and card.host != self._host,
        )  # fmt: skip
        with self._lock:
            self._sent[id] = Sent(order, card.queue, seat)
            self._queues.add(card.queue)
        self._outbox.put(partial(self._put, id))

    def _put(self, id: str) -> None:
        with self._lock:
            sent = self._sent.get(id)
        if sent is None:
            return  # not wanted any more
        order = sent.order
        pipe = self._link.redis.pipeline(transaction=False)
        pipe.sadd(self._key("open"), id)
        pipe.expire(self._key("open"), RUN_LEASE_S)
        pipe.set(self._key(), "1", ex=RUN_LEASE_S)
        pipe.execute()
        self._publish(order, sent.queue)

    def _publish(self, order: Order, name: str) -> None:
        """As a task of Celery, straight into the queue.

        `send_task` would find the queue by a table that a broker loses when it is started anew, and
        have the broker send every answer here a second time.
        """
        task = self._app.amqp.as_task_v2(order.id, SHARD, args=(order.plain(),), argsrepr="(...)")
        with self._app.amqp.producer_pool.acquire(block=True) as producer:
            producer.publish(
                task.body, exchange="", routing_key=name, serializer="json", retry=False,
                headers=task.headers, priority=PRIORITIES[order.lane], **task.properties,
            )  # fmt: skip

    def forget(self, id: str) -> None:
        """A shard is not wanted any more."""
        with self._lock:
            sent = self._sent.pop(id, None)
        if sent is not None:
            self._outbox.put(lambda: cast(None, self._link.redis.srem(self._key("open"), id)))

    def withdraw(self, name: str, ids: Collection[str]) -> None:
        """Take messages out of the queue of a worker that is no more."""
        self._outbox.put(partial(self._withdraw, name, frozenset(ids)))
        with self._lock:
            if all(sent.queue != name for sent in self._sent.values()):
                self._queues.discard(name)

    def _withdraw(self, name: str, ids: Collection[str]) -> None:
        redis = self._link.redis
        for one in _lists(name):
            for message in cast("list[bytes]", redis.lrange(one, 0, _SEEN)):
                if _id_of(message) in ids:
                    redis.lrem(one, 0, cast("str", message))

    def _write(self) -> None:
        from kombu.exceptions import OperationalError

        while (what := self._outbox.get()) is not None:
            try:
                self._link.patiently(what, gave_up=self._closed.is_set, also=(OperationalError,))
            except AnyrigError as error:
                log.warning("%s", error.message)
            except Exception:
                log.exception("something could not be sent")
            if what == self._renew:
                self._renewing = False

    def wake(self) -> None:
        """Have whoever waits for answers look around."""
        with suppress(Exception):  # the broker is away: it looks by itself, only later
            pipe = self._link.redis.pipeline(transaction=False)
            pipe.rpush(self._key("done"), "")
            pipe.expire(self._key("done"), RUN_LEASE_S)
            pipe.execute()

    # -- in --------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Heard]:
        """Shards that workers are done with, waited for a moment.

        What was told and could not be fetched, as the broker went away, comes with the next call.
        """
        redis, key = self._link.redis, self._key("done")
        if not self._told:
            first = cast("Any", redis.blpop([key], timeout=_WAIT_S))
            if first is None:
                return
            self._told.append(str(plain(first[1])))
            more = cast("Any", redis.lpop(key, _AT_ONCE)) or []
            self._told.extend(str(plain(one)) for one in more)
        while self._told:
            heard = self._fetched(self._told[0])
            self._told.popleft()
            if heard is not None:
                yield heard

    def look(self, ids: Collection[str]) -> Iterator[Heard]:
        """The answers that lie there of some shards, where nobody told of them."""
        for id in ids:
            heard = self._fetched(id)
            if heard is not None:
                yield heard

    def _fetched(self, id: str) -> Heard | None:
        """An answer, which is deleted at once; None where there is none."""
        if not _ID.fullmatch(id):
            return None
        raw = self._lying(RESULT + id)
        if not raw:
            return None
        with self._lock:
            sent = self._sent.get(id)
        answer = self._read(id, raw) if sent is not None else None
        self.forget(id)
        self._outbox.put(lambda: cast(None, self._link.redis.delete(*self._places(id))))
        return Heard(id, sent, answer)

    def _read(self, id: str, raw: bytes) -> Answer | None:
        try:
            if len(raw) > _MOST:
                raise ValueError("it is too large")
            told = json.loads(raw)
            if told.get("status") != "SUCCESS":
                return Answer(id, refused=f"the task failed: {str(told.get('result'))[:200]}")
            result = told["result"]
            if not any("size" in one for one in result["recordings"].values()):
                answer = answer_of(result)
                return answer if not answer.box else self._from_box(answer)
            sound = self._lying(SOUND + id)
            # A broker that was started anew may have kept the one and not the other.
            return answer_of(result, sound) if sound else Answer(id)
        except (
            AnyrigError, ValueError, KeyError, TypeError, AttributeError, RecursionError,
            ArithmeticError,
        ) as error:  # fmt: skip
            log.warning("an answer of shard %s cannot be read: %s", id, error)
            return None

    def _places(self, id: str) -> tuple[str, str]:
        """Where the answer of a shard lies, and its sound."""
        return self._link.name(RESULT + id), self._link.name(SOUND + id)

    def _lying(self, name: str) -> bytes:
        """What lies under a name, up to a bound."""
        return cast("bytes", self._link.redis.getrange(self._link.name(name), 0, _MOST))

    def _from_box(self, answer: Answer) -> Answer:
        from anyrig.cluster.box import get

        if answer.box != self.box:  # the key goes nowhere but where the coordinator says
            log.warning("an answer lies in a box that is not the coordinator's now; given again")
            return Answer(answer.id)
        try:
            return get(answer, self.box_key)
        except WorkError as error:
            log.warning("%s; large answers are made in parts for a while", error.message)
            self._open_box_at, self.box = time.monotonic() + _CLOSED_BOX_S, ""
            return Answer(answer.id)

    # -- who is there ----------------------------------------------------------------------------

    def living(self) -> dict[str, Card]:
        """The workers that gave a sign of late."""
        return self._roll.living()

    def sent_at(self, id: str) -> float:
        """When a shard was sent; long ago where nobody knows of it any more."""
        with self._lock:
            sent = self._sent.get(id)
        return sent.at if sent is not None else -math.inf

    def queued(self, name: str) -> set[str]:
        """The shards that lie in a queue and were not taken."""
        redis = self._link.redis
        found = [cast("list[bytes]", redis.lrange(one, 0, _SEEN)) for one in _lists(name)]
        return {_id_of(message) for some in found for message in some}

    def close(self) -> None:
        """End the thread, once what waits is sent or the broker is away."""
        self.over()
        self._outbox.put(self._leave)
        self._outbox.put(None)
        self._writer.join(timeout=3)
        self._closed.set()
        with suppress(Exception):  # its connections are gone either way
            self._app.close()


def _lists(name: str) -> list[str]:
    """Where Celery keeps a queue's messages: a list for each priority."""
    return [name if step == 0 else f"{name}:{step}" for step in sorted(PRIORITIES.values())]


def _id_of(message: bytes) -> str:
    try:
        return str(json.loads(message)["headers"]["id"])
    except (ValueError, KeyError, TypeError):
        return ""
