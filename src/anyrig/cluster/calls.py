"""The wire of a run to its workers: shards out, answers in, and what is still wanted."""

from __future__ import annotations

import json
import logging
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from anyrig.cluster.app import PRIORITIES, made
from anyrig.cluster.card import Card, Offer, Roll
from anyrig.cluster.link import RUN_LEASE_S, Link, plain
from anyrig.cluster.shard import Answer, Order, answer_of
from anyrig.errors import AnyrigError, BadInput
from anyrig.speech.protocol import Line, Value

if TYPE_CHECKING:
    from anyrig.work.pack import Item

log = logging.getLogger(__name__)
SHARD = "anyrig.shard"
_WAIT_S = 1


def new_id() -> str:
    """For a shard; nobody can guess it."""
    return secrets.token_hex(12)


@dataclass(frozen=True)
class Sent:
    """A shard that was sent and not answered."""

    order: Order
    queue: str


class Calls:
    """One run after the other over a broker.

    Nothing here waits for the broker but the two threads that are made for it.
    """

    def __init__(
        self, link: Link, offer: Offer, *, precision: str, options: Mapping[str, Value],
        lane: str, small: bool,
    ) -> None:  # fmt: skip
        self._link, self.offer, self._precision = link, offer, precision
        self._options, self._lane, self._small = dict(options), lane, small
        self._app = made(link.url)
        self._roll = Roll(link)
        self._lock = threading.Lock()
        self._sent: dict[str, Sent] = {}
        self._run = ""
        self.box = ""
        self._outbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._writer = threading.Thread(target=self._write, name="anyrig-calls", daemon=True)
        self._writer.start()

    # -- a run -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """A new run: from now on what is sent is wanted."""
        with self._lock:
            self._run, self._sent = secrets.token_hex(8), {}
        self._outbox.put(self.renew)

    def renew(self) -> None:
        """Say again what is wanted, and for how long: a broker may have forgotten it."""
        with self._lock:
            run, open = self._run, list(self._sent)
        if not run:
            return
        names = [self._link.name("run", run), self._link.name("run", run, "open")]
        pipe = self._link.redis.pipeline(transaction=True)
        pipe.set(names[0], "1", ex=RUN_LEASE_S)
        if open:
            pipe.sadd(names[1], *open)
            pipe.expire(names[1], RUN_LEASE_S)
        pipe.execute()

    def over(self) -> None:
        """The run has ended: whoever still works for it stops."""
        with self._lock:
            run, sent = self._run, list(self._sent.values())
            self._run, self._sent = "", {}
        if run:
            self._outbox.put(lambda: self._end(run, sent))

    def _end(self, run: str, sent: Sequence[Sent]) -> None:
        pipe = self._link.redis.pipeline(transaction=True)
        pipe.set(self._link.name("run", run, "over"), "1", ex=RUN_LEASE_S)
        for words in ((), ("open",), ("done",)):
            pipe.delete(self._link.name("run", run, *words))
        pipe.execute()
        for one in sent:
            with suppress(Exception):
                self._app.AsyncResult(one.order.id).forget()

    # -- out -------------------------------------------------------------------------------------

    def send(self, id: str, card: Card, items: Sequence[Item[Line]]) -> None:
        """Put a shard into a worker's queue; by another thread."""
        with self._lock:
            order = Order(
                id, self._run, self.offer,
                tuple((item.index, item.payload) for item in items), self._precision,
                self._options, self._lane, self.box, self._small,
            )  # fmt: skip
            self._sent[order.id] = Sent(order, card.queue)
        self._outbox.put(lambda: self._put(id))

    def _put(self, id: str) -> None:
        with self._lock:
            sent = self._sent.get(id)
        if sent is None:
            return  # not wanted any more
        order = sent.order
        redis = self._link.redis
        pipe = redis.pipeline(transaction=False)
        pipe.sadd(self._link.name("run", order.run, "open"), id)
        pipe.expire(self._link.name("run", order.run, "open"), RUN_LEASE_S)
        pipe.set(self._link.name("run", order.run), "1", ex=RUN_LEASE_S)
        pipe.execute()
        self._app.send_task(
            SHARD, (order.plain(),), task_id=id, queue=sent.queue,
            priority=PRIORITIES[order.lane], retry=False,
        )  # fmt: skip

    def forget(self, id: str) -> None:
        """A shard is not wanted any more."""
        with self._lock:
            sent = self._sent.pop(id, None)
        if sent is not None:
            key = self._link.name("run", sent.order.run, "open")
            self._outbox.put(lambda: cast(None, self._link.redis.srem(key, id)))

    def _write(self) -> None:
        while (what := self._outbox.get()) is not None:
            try:
                self._link.patiently(what, gave_up=self._closed.is_set)
            except AnyrigError as error:
                log.warning("%s", error.message)
            except Exception:
                log.exception("something could not be sent")

    # -- in --------------------------------------------------------------------------------------

    def answers(self) -> list[tuple[str, Answer | None]]:
        """Shards that were answered, waited for a moment; None for what cannot be read."""
        with self._lock:
            run = self._run
        if not run:
            self._closed.wait(0.05)
            return []
        redis = self._link.redis
        key = self._link.name("run", run, "done")
        first = cast("Any", redis.blpop([key], timeout=_WAIT_S))
        if first is None:
            return []
        more = cast("Any", redis.lpop(key, 64)) or []
        ids = [str(plain(one)) for one in (first[1], *more)]
        return [(id, answer) for id in ids for answer in self._fetched(id)]

    def look(self, ids: Sequence[str]) -> list[tuple[str, Answer | None]]:
        """The answers that lie there of some shards, where nobody told of them."""
        return [(id, answer) for id in ids for answer in self._fetched(id)]

    def _fetched(self, id: str) -> list[Answer | None]:
        """An answer, which is deleted at once; nothing where there is none."""
        backend: Any = self._app.backend
        raw = backend.get(backend.get_key_for_task(id))
        backend.delete(backend.get_key_for_task(id))
        with self._lock:
            wanted = self._sent.pop(id, None)
        if raw is None or wanted is None:
            return []
        self.forget(id)
        try:
            told = json.loads(raw)
            if told.get("status") != "SUCCESS":
                said = str(told.get("result"))[:200]
                return [Answer(id, refused=f"the task failed: {said}")]
            answer = answer_of(told["result"])
            return [answer if not answer.box else self._from_box(answer)]
        except (BadInput, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("an answer of shard %s cannot be read: %s", id, error)
            return [None]

    def _from_box(self, answer: Answer) -> Answer:
        from anyrig.cluster.box import get

        return get(answer, self.box_key)

    box_key = ""

    # -- who is there ----------------------------------------------------------------------------

    def living(self) -> dict[str, Card]:
        """The workers that gave a sign of late."""
        return self._roll.living()

    def waiting(self, queues: Sequence[str]) -> dict[str, int]:
        """How much lies in queues and was not taken."""
        pipe = self._link.redis.pipeline(transaction=False)
        names = [(name, step) for name in queues for step in sorted(PRIORITIES.values())]
        for name, step in names:
            pipe.llen(name if step == 0 else f"{name}:{step}")
        counts: dict[str, int] = dict.fromkeys(queues, 0)
        for (name, _), count in zip(names, pipe.execute(), strict=True):
            counts[name] += int(count)
        return counts

    def close(self) -> None:
        """End the thread, once what waits is sent or the broker is away."""
        self.over()
        self._outbox.put(None)
        self._writer.join(timeout=3)
        self._closed.set()
        with suppress(Exception):
            self._app.close()
