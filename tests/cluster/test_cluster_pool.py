"""A cluster pool against workers that answer in every way but the right one.

The broker is real; the workers here read their queue and store results as Celery does, and no more,
so that they can be made to refuse, to answer twice, to return half and to forget.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from anyrig.cluster import pool as pools
from anyrig.cluster import protocol
from anyrig.cluster.broker import RESULT_S
from anyrig.cluster.pool import ClusterPool
from anyrig.cluster.protocol import TaskRequest, TaskResult, pack_results, parse_request
from anyrig.cluster.registry import EngineId, WorkerInfo, WorkerRegistry
from anyrig.cluster.speech import SpeechCodec
from anyrig.errors import WorkError
from anyrig.speech.engine import Utterance
from anyrig.speech.quality import CheckedTake
from anyrig.version import __version__
from anyrig.work.outcome import ItemFailure, ItemOutcome
from benchmarks.local_cluster import counting_identity, make_lines
from tests.cluster.conftest import Broker, until
from tests.waiting import LONG_S


class PlainCodec(SpeechCodec):
    """Takes are whatever bytes a puppet sends."""

    def check(self, payload: Utterance, result: CheckedTake, worker: str) -> CheckedTake:
        return result


CODEC = PlainCodec()
LOST_TASK_S = 1000.0


@dataclass
class Order:
    """A task as it came."""

    id: str
    request: TaskRequest
    lines: list[tuple[int, Utterance]]


Behaviour = Callable[["Puppet", Order], None]


class Puppet:
    """A worker with heartbeats that treats tasks as it is told."""

    def __init__(
        self, broker: Broker, name: str, behaves: Behaviour, engine: EngineId | None = None,
        speed: float = 500.0,
    ) -> None:  # fmt: skip
        self.name, self.behaves = name, behaves
        self.client, self.orders = broker.client, list[Order]()
        self.tasks: tuple[str, ...] = ()
        self.engine, self.speed = engine or counting_identity(), speed
        self._end = threading.Event()
        self._beat()
        self._threads = [threading.Thread(target=one) for one in (self._live, self._work)]
        for thread in self._threads:
            thread.start()

    def _beat(self) -> None:
        info = WorkerInfo(self.name, __version__, instance=f"run-{self.name}", device="a puppet",
                          host="h", clock=time.time(), engines=(self.engine,), tasks=self.tasks,
                          speeds={self.engine.engine: self.speed})  # fmt: skip
        WorkerRegistry(self.client).write(info)

    def _live(self) -> None:
        while not self._end.wait(0.2):
            self._beat()

    def _work(self) -> None:
        while not self._end.is_set():
            found: Any = self.client.redis.brpop([f"anyrig.{self.name}"], timeout=0.2)
            if found is not None:
                message = json.loads(found[1])
                request = parse_request(json.loads(base64.b64decode(message["body"]))[0][0])
                items = [(index, CODEC.decode_item(item)) for index, item in request.items]
                order = Order(message["headers"]["id"], request, items)
                self.orders.append(order)
                self.behaves(self, order)

    def store(self, id: str, result: Any, *, status: str = "SUCCESS", tell: bool = True) -> None:
        """A result, as Celery's backend stores it and tells of it."""
        meta = {"status": status, "result": result, "traceback": None, "children": [],
                "task_id": id}  # fmt: skip
        text = json.dumps(meta) if status else result
        self.client.redis.set(f"celery-task-meta-{id}", text, ex=60)
        if tell:
            self.client.redis.publish(f"celery-task-meta-{id}", text)

    def blob(self, id: str, data: bytes) -> None:
        self.client.redis.set(f"anyrig:blob:{id}", data, ex=60)

    def answer(self, order: Order, *, tell: bool = True, blob: bool = True, **more: Any) -> None:
        """A result with takes of all lines, or as told."""
        result, data = answer(order, **more)
        if blob and data:
            self.blob(order.id, data)
        self.store(order.id, asdict(result), tell=tell)

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self.client.close()


def take(line: Utterance) -> CheckedTake:
    return CheckedTake(line.text.encode())


def encode(takes: dict[int, CheckedTake]) -> Any:
    return {n: CODEC.encode_result(one, compress=False) for n, one in takes.items()}


def answer(order: Order, **more: Any) -> tuple[TaskResult, bytes]:
    made = more.pop("takes", {index: take(line) for index, line in order.lines})
    cost = sum(line.cost for _, line in order.lines)
    result = TaskResult(**{"cost": cost, "seconds": 0.05, "num_batches": 1, **more})
    return pack_results(result, encode(made))


def good(puppet: Puppet, order: Order) -> None:
    puppet.answer(order)


@pytest.fixture
def puppet(broker: Broker) -> Iterator[Callable[..., Puppet]]:
    made: list[Puppet] = []

    def start(name: str, behaves: Behaviour = good) -> Puppet:
        made.append(Puppet(broker, name, behaves))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def fleet(broker: Broker) -> Iterator[Callable[..., ClusterPool]]:
    made: list[ClusterPool] = []

    def start(**options: Any) -> ClusterPool:
        made.append(
            ClusterPool(broker.client, counting_identity(), CODEC, **{"wait_s": LONG_S, **options})
        )
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_BACKOFF_S", (0.1, 0.2, 0.3))
    monkeypatch.setattr(pools, "_LOST_TASK_S", 0.5)


class Clock:
    """The pool's, which can be put forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A task is lost by this clock alone, however slow the machine is."""
    clock = Clock()
    monkeypatch.setattr(pools, "_LOST_TASK_S", LOST_TASK_S)
    monkeypatch.setattr(pools, "time", clock)
    return clock


def fail_soon(over: ClusterPool) -> None:
    """Once its workers are there, a pool without a useful one fails."""
    over.wait_ready()
    over.remote._wait_s = 1.5


def run(over: ClusterPool, said: list[Utterance]) -> list[ItemOutcome[Any]]:
    return list(over.run(said, cost=lambda line: line.cost))


def right(outcomes: list[ItemOutcome[Any]], said: list[Utterance]) -> bool:
    found = [outcome.result and outcome.result.data for outcome in outcomes]
    return found == [line.text.encode() for line in said]


def results(broker: Broker) -> set[str]:
    with closing(broker.redis) as redis:
        return {key.decode() for key in redis.scan_iter("celery-task-meta-*")}


def test_answers_that_come_twice_late_or_for_nobody_change_nothing(
    broker: Broker, puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    def noisy(one: Puppet, order: Order) -> None:
        one.store("no id of ours", {})
        one.client.redis.publish(f"celery-task-meta-{order.id}", "not JSON")
        one.client.redis.publish(f"celery-task-meta-{order.id}", "[]")
        good(one, order)
        good(one, order)
        for before in one.orders[:-1]:
            one.answer(before, takes={before.lines[0][0]: CheckedTake(b"x")})

    puppet("a", noisy)
    said = make_lines(40)
    over = fleet()
    assert right(run(over, said), said)
    assert right(run(over, said[:5]), said[:5])  # nothing of the run before is taken for this one
    over.close()
    with closing(broker.redis) as redis:  # what came after the end goes by itself
        assert all(0 < redis.ttl(key) <= RESULT_S for key in results(broker))


def test_what_a_worker_returns_is_sent_again_and_nobody_is_blamed(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    def half(one: Puppet, order: Order) -> None:
        keep = order.lines[: (len(order.lines) + 1) // 2]
        made = {index: take(line) for index, line in keep}
        left = tuple(index for index, _ in order.lines if index not in made)
        one.answer(order, takes=made, returned=left)

    puppet("a", half)
    said = make_lines(40)
    over = fleet()
    assert right(run(over, said), said)
    assert over.warnings == []


def test_bytes_that_the_broker_lost_are_made_again_and_nobody_is_blamed(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], broker: Broker
) -> None:
    def forgetful(one: Puppet, order: Order) -> None:
        one.answer(order, blob=len(one.orders) != 2)

    one, said = puppet("a", forgetful), make_lines(40)
    over = fleet()
    assert right(run(over, said), said)
    assert over.warnings == []
    assert sum(len(order.lines) for order in one.orders) > len(said)
    over.close()
    assert results(broker) == set()  # all of it was fetched and deleted
    with closing(broker.redis) as redis:
        assert not list(redis.scan_iter("anyrig:blob:*"))


def test_at_most_two_tasks_are_in_flight(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], clock: Clock
) -> None:
    most = []

    def slow(one: Puppet, order: Order) -> None:  # far slower than it says: it is always late
        def count_waiting() -> Any:
            return one.client.redis.llen(f"anyrig.{one.name}")

        if len(one.orders) == 1:
            until(count_waiting, what="the next task")
        time.sleep(0.1)  # enough for more of them
        most.append(1 + count_waiting())
        good(one, order)

    one = puppet("a", slow)
    one.speed = 1e5
    said = make_lines(40)
    assert right(run(fleet(slice_s=0.005), said), said)
    assert len(one.orders) > 4
    assert max(most) == 2


@pytest.mark.parametrize(
    ("status", "result", "told"),
    [
        ("SUCCESS", asdict(TaskResult(refused="the disk is full")), "the disk is full"),
        ("FAILURE", {"exc_type": "OSError", "exc_message": "no space"}, "the task failed"),
        ("SUCCESS", {"results": 7}, "its result is not valid"),
        ("", "not even JSON", "its result is not valid"),
    ],
)
def test_a_worker_that_refuses_everything_is_not_waited_for(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool],
    monkeypatch: pytest.MonkeyPatch, status: str, result: Any, told: str,
) -> None:  # fmt: skip
    def refuse(one: Puppet, order: Order) -> None:
        one.store(order.id, result, status=status)

    monkeypatch.setattr(pools, "_BACKOFF_S", (0.1, 0.2, 0.3, 60.0))
    bad = puppet("bad", refuse)
    over = fleet()
    fail_soon(over)
    with pytest.raises(WorkError, match=told):
        run(over, make_lines(20))
    assert len(bad.orders) <= 2 * 4  # two in flight, each time after a longer pause
    assert any("bad" in warning and told in warning for warning in over.warnings)


def test_a_worker_that_is_well_again_is_given_work_again(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    def recovers(one: Puppet, order: Order) -> None:
        if len(one.orders) > 8:
            good(one, order)
        else:
            one.store(order.id, asdict(TaskResult(refused="the disk is full")))

    one, said = puppet("a", recovers), make_lines(30)
    over = fleet()
    assert right(run(over, said), said)
    assert len(one.orders) > 8
    assert over.remote._known["a"].num_refusals == 0


def test_a_worker_that_drains_does_so_in_the_next_run_too(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    def holds(one: Puppet, order: Order) -> None:
        one.tasks = (order.id,)

    old, over = puppet("old", holds), fleet()
    said = make_lines(5)
    outcomes: list[ItemOutcome[Any]] = []
    taker = threading.Thread(target=lambda: outcomes.extend(run(over, said)))
    taker.start()
    until(lambda: bool(old.tasks))
    worker = over.remote._workers["old"]
    until(lambda: worker.last_heartbeat is not None)
    assert not over.loads[worker.number].draining
    with over.remote.lock:
        over.remote._drain(worker)
    until(lambda: over.loads[worker.number].draining)
    old.behaves, old.tasks = good, ()
    good(old, old.orders[0])
    until(lambda: worker.last_heartbeat is None)
    taker.join(LONG_S)
    assert right(outcomes, said)


class FragileCodec(PlainCodec):
    """Fails with an exception when it decodes the takes of one worker."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def decode_result(self, encoded: Any) -> CheckedTake:
        if encoded.data == b"crafted":
            raise self._error
        return super().decode_result(encoded)


@pytest.mark.parametrize(
    "error",
    [OverflowError("math range error"), RecursionError("too deep"), MemoryError(), KeyError("x"),
     ZeroDivisionError(), OSError("no sound"), ConnectionError("not the broker's"),
     struct.error("short"), AssertionError(), UnicodeDecodeError("utf-8", b"x", 0, 1, "y")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_a_worker_whose_takes_cannot_be_decoded_is_set_aside(
    puppet: Callable[..., Puppet], broker: Broker, error: Exception
) -> None:
    def craft(one: Puppet, order: Order) -> None:
        one.answer(order, takes={index: CheckedTake(b"crafted") for index, _ in order.lines})

    puppet("bad", craft)
    puppet("good")
    said = make_lines(30)
    codec = FragileCodec(error)
    over = ClusterPool(broker.client, counting_identity(), codec)
    with over:
        assert right(run(over, said), said)
        assert any("bad" in one and "result is not valid" in one for one in over.warnings)


_DEEP = '{"status": "SUCCESS", "task_id": "%s", "result": ' + "[" * 900 + "]" * 900 + "}"
_DEEPER = '{"status": "SUCCESS", "task_id": "%s", "result": ' + "[" * 90_000 + "]" * 90_000 + "}"


_CRAFTED = (
    _DEEP, _DEEPER, '{"status": "SUCCESS", "task_id": "%s", "result": {"cost": 1e999}}',
    '{"status": "SUCCESS", "task_id": "%s", "result": {"cost": ' + "9" * 4000 + "}}",
    '{"status": "SUCCESS", "task_id": "%s", "result": {"results": {"1e400": {}}, "sizes": [1]}}',
    '{"status": "FAILURE", "task_id": "%s", "result": {"exc_type": [], "exc_message": {}}}',
    '{"status": [], "task_id": "%s"}', '{"status": "SUCCESS"}', "[]", "{", "\ud800",
)  # fmt: skip


def _craft(text: str, one: Puppet, order: Order) -> None:
    raw = text.replace("%s", order.id).encode("utf-8", "surrogatepass")
    one.store(order.id, raw, status="")


@pytest.mark.parametrize("text", _CRAFTED, ids=lambda text: text[:70])
def test_crafted_results_of_one_worker_are_computed_by_another(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], text: str
) -> None:
    puppet("bad", partial(_craft, text))
    puppet("good")
    said = make_lines(30)
    assert right(run(fleet(), said), said)


@pytest.mark.slow
@pytest.mark.parametrize("text", _CRAFTED, ids=lambda text: text[:70])
def test_a_worker_whose_results_are_all_crafted_is_not_waited_for(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], text: str
) -> None:
    puppet("bad", partial(_craft, text))
    over = fleet()
    fail_soon(over)
    with pytest.raises(WorkError, match="bad"):
        run(over, make_lines(20))


def test_what_a_bad_worker_refuses_is_done_by_a_good_one(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    def refuse(one: Puppet, order: Order) -> None:
        one.store(order.id, asdict(TaskResult(refused="no room")))

    puppet("bad", refuse)
    puppet("good")
    said = make_lines(40)
    assert right(run(fleet(), said), said)


def test_a_worker_that_drains_finishes_what_it_has(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    def leaves(one: Puppet, order: Order) -> None:
        if len(one.orders) == 1:  # it is asked to leave, and works on this one
            one.tasks = (order.id,)
            return
        one.store(order.id, asdict(TaskResult(returned=tuple(n for n, _ in order.lines))))

    old, said = puppet("old", leaves), make_lines(60)
    over = fleet(slice_s=0.05)
    going = over.run(said, cost=lambda line: line.cost)
    outcomes: list[ItemOutcome[Any]] = []
    taker = threading.Thread(target=lambda: outcomes.extend(going))
    taker.start()
    until(lambda: len(old.orders) == 2)
    worker = over.remote._workers["old"]
    until(lambda: worker.draining)
    time.sleep(1.5)  # the registry is polled again, and it stays while it works
    assert len(old.orders) == 2
    assert worker.tasks
    good(old, old.orders[0])
    old.tasks = ()
    old.behaves = good
    taker.join(LONG_S)
    assert right(outcomes, said)
    first = {index for index, _ in old.orders[0].lines}
    again = [index for order in old.orders[1:] for index, _ in order.lines if index in first]
    assert (again, over.warnings) == ([], [])


def test_a_task_that_was_lost_is_sent_again(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], clock: Clock
) -> None:
    def forgetful(one: Puppet, order: Order) -> None:
        if len(one.orders) != 2:
            good(one, order)
        else:
            until(lambda: over.remote._tasks[order.id].sent_at)
            clock.ahead_s += 2.1 * LOST_TASK_S

    over, said = fleet(), make_lines(30)
    puppet("a", forgetful)
    assert right(run(over, said), said)
    assert over.warnings == []


def test_a_result_that_nobody_told_of_is_found(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], clock: Clock
) -> None:
    def silent(one: Puppet, order: Order) -> None:
        one.answer(order, tell=False)
        until(lambda: over.remote._tasks[order.id].sent_at)
        clock.ahead_s += 1.1 * LOST_TASK_S

    over, said = fleet(), make_lines(12)
    quiet = puppet("a", silent)
    assert right(run(over, said), said)
    assert sum(len(order.lines) for order in quiet.orders) == len(said)  # nothing twice


def test_a_task_expires_by_the_clock_of_its_worker(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], broker: Broker,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    sent: list[Any] = []

    puppet("a")
    over = fleet()
    until(lambda: over.size == 1)
    publish = over.remote._publish

    def publish_and_keep(task: Any) -> None:
        task.worker.info = replace(task.worker.info, clock=time.time() - 7200)
        publish(task)

    monkeypatch.setattr(over.remote, "_publish", publish_and_keep)
    from celery.signals import before_task_publish

    def note(headers: Any, **more: Any) -> None:
        sent.append(datetime.fromisoformat(headers["expires"]))

    before_task_publish.connect(note)
    try:
        assert right(run(over, make_lines(3)), make_lines(3))
    finally:
        before_task_publish.disconnect(note)
    behind = datetime.now(UTC) - sent[0]
    assert abs(behind.total_seconds() - (7200 - pools.EXPIRES_S)) < 60
    assert "expiration date" not in caplog.text


def test_a_line_that_one_worker_cannot_speak_is_tried_by_another(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool]
) -> None:
    broken = {3, 4}

    def fails(one: Puppet, order: Order) -> None:
        made = {n: take(line) for n, line in order.lines if line.seed not in broken}
        wrong = ItemFailure("error", "no space left on device", 1)
        failed = {n: wrong for n, line in order.lines if line.seed in broken}
        one.answer(order, takes=made, failures=failed)

    puppet("a", fails)
    puppet("b")
    said = make_lines(10)
    assert right(run(fleet(), said), said)


def test_a_line_that_nobody_can_speak_fails_after_two_have_tried(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], clock: Clock
) -> None:
    def fails(one: Puppet, order: Order) -> None:
        made = {n: take(line) for n, line in order.lines if line.seed != 3}
        failed = {n: ItemFailure("error", "no", 1) for n, line in order.lines if line.seed == 3}
        one.answer(order, takes=made, failures=failed)

    tried = [puppet(name, fails) for name in "abc"]
    outcomes = run(fleet(), make_lines(10))
    assert [one.index for one in outcomes if one.failure] == [3]
    orders = [order for one in tried for order in one.orders]
    assert sum(any(line.seed == 3 for _, line in order.lines) for order in orders) == 2


def test_a_result_over_the_limit_is_not_fetched(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(protocol, "MAX_BLOB_BYTES", 4096)

    def huge(one: Puppet, order: Order) -> None:
        facts: dict[int, dict[str, Any]] = {n: {} for n, _ in order.lines}
        one.store(order.id, asdict(TaskResult(facts, (8192,) * len(facts))))

    puppet("a", huge)
    over = fleet()
    fail_soon(over)
    with pytest.raises(WorkError, match="its result is not valid"):
        run(over, make_lines(4))


def test_a_straggler_is_given_nothing_until_it_knows_that_its_task_was_revoked(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], broker: Broker
) -> None:
    held: list[Order] = []

    def stuck(one: Puppet, order: Order) -> None:
        held.append(order)
        one.tasks = tuple(order.id for order in held)

    slow, said = puppet("slow", stuck), make_lines(30)
    puppet("quick")
    over = fleet()
    until(lambda: over.size == 2)
    redis: Any = broker.redis
    with closing(redis.pubsub()) as control:
        control.psubscribe("/0.celery.pidbox*")
        assert right(run(over, said), said)
        assert 1 <= len(slow.orders) <= 2

        def revoked() -> bool:
            message: Any = control.get_message(timeout=0.1)
            if not message or message["type"] != "pmessage":
                return False
            body = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
            ids = body["arguments"]["task_id"]
            return body["method"] == "revoke" and held[0].id in ids and body["destination"] == [
                "slow@h"
            ]  # fmt: skip

        until(revoked, what="the revoke")


def test_closing_in_the_middle_leaves_nothing_without_an_end(
    puppet: Callable[..., Puppet], fleet: Callable[..., ClusterPool], broker: Broker
) -> None:
    def slowly(one: Puppet, order: Order) -> None:
        time.sleep(0.2)
        good(one, order)

    puppet("a", slowly)
    over = fleet()
    going = over.run(make_lines(400), cost=lambda line: line.cost)
    next(going)
    going.close()  # type: ignore[attr-defined]
    over.close()
    with closing(broker.redis) as redis:
        left = {key.decode() for key in redis.scan_iter() if redis.ttl(key) == -1}
    assert left <= {"anyrig:workers"}
