"""A fleet against workers that answer in every way but the right one.

The broker is real; the workers here speak its wire and no more, so that they can be made to refuse,
to answer twice, to leave half undone and to forget.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from anyrig.cluster import calls, hands
from anyrig.cluster.card import Card, Roll
from anyrig.cluster.fleet import Fleet
from anyrig.cluster.link import RESULT_S
from anyrig.cluster.shard import Answer, Order, order_of
from anyrig.errors import WorkError
from anyrig.speech.booth import Recording
from anyrig.speech.protocol import Line
from anyrig.version import __version__
from anyrig.work.outcome import ItemFailure, ItemOutcome
from benchmarks.cluster_rig import lines, offer
from tests.cluster.conftest import Broker, until

Behaviour = Callable[["Puppet", Order], None]


class Puppet:
    """A worker that gives signs of life and treats shards as it is told."""

    def __init__(self, broker: Broker, name: str, behaves: Behaviour) -> None:
        self.name, self.behaves = name, behaves
        self.link, self.orders = broker.link, list[Order]()
        self.holds: tuple[str, ...] = ()
        self._end = threading.Event()
        self._beat()
        self._threads = [threading.Thread(target=one) for one in (self._live, self._work)]
        for thread in self._threads:
            thread.start()

    def _beat(self) -> None:
        card = Card(self.name, __version__, run=f"run-{self.name}", device="a puppet",
                    offers=(offer(),), holds=self.holds, speeds={"counting": 500.0})  # fmt: skip
        Roll(self.link).write(card)

    def _live(self) -> None:
        while not self._end.wait(0.2):
            self._beat()

    def _work(self) -> None:
        queue = f"anyrig.{self.name}"
        while not self._end.is_set():
            found: Any = self.link.redis.brpop([queue, f"{queue}:6"], timeout=0.2)
            if found is not None:
                message = json.loads(found[1])
                order = order_of(json.loads(base64.b64decode(message["body"]))[0][0])
                self.orders.append(order)
                self.behaves(self, order)

    def store(self, id: str, result: Any, *, status: str = "SUCCESS") -> None:
        """An answer into the backend."""
        text = json.dumps({"status": status, "result": result}) if status else result
        self.link.redis.set(f"anyrig:result:celery-task-meta-{id}", text, ex=60)

    def tell(self, order: Order, id: str = "") -> None:
        """That a shard is answered."""
        self.link.redis.rpush(f"anyrig:run:{order.run}:done", id or order.id)

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self.link.close()


def take(line: Line) -> Recording:
    return Recording(line.text.encode())


def answer(order: Order, **more: Any) -> dict[str, Any]:
    made = {index: take(line) for index, line in order.lines}
    return Answer(order.id, **{"recordings": made, "cost": order.cost, "seconds": 0.05,
                               "num_batches": 1, **more}).plain()  # fmt: skip


def good(puppet: Puppet, order: Order) -> None:
    puppet.store(order.id, answer(order))
    puppet.tell(order)


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
def fleet(broker: Broker) -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def start(**options: Any) -> Fleet:
        made.append(Fleet(broker.link, offer(), **{"patience_s": 1.5, **options}))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hands, "_ASIDE_S", (0.1, 0.2, 0.3))
    monkeypatch.setattr(hands, "_LOST_S", 0.5)


def run(over: Fleet, said: list[Line]) -> list[ItemOutcome[Any]]:
    return list(over.run(said, cost=lambda line: line.cost))


def right(outcomes: list[ItemOutcome[Any]], said: list[Line]) -> bool:
    found = [outcome.result and outcome.result.data for outcome in outcomes]
    return found == [line.text.encode() for line in said]


def results(broker: Broker) -> set[str]:
    with closing(broker.redis) as redis:
        return {key.decode() for key in redis.scan_iter("anyrig:result:*")}


def test_answers_that_come_twice_late_or_for_nobody_change_nothing(
    broker: Broker, puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def noisy(one: Puppet, order: Order) -> None:
        one.tell(order, "no id of ours")
        one.tell(order, "0" * 24)
        one.tell(order)  # before it is there
        good(one, order)
        one.tell(order)
        open: Any = one.link.redis.smembers(f"anyrig:run:{order.run}:open")
        for before in (past for past in one.orders[:-1] if past.id.encode() not in open):
            one.store(before.id, answer(before, recordings={before.lines[0][0]: Recording(b"x")}))
            one.tell(before)

    puppet("a", noisy)
    said = lines(40)
    over = fleet()
    assert right(run(over, said), said)
    assert right(run(over, said[:5]), said[:5])  # nothing of the run before is taken for this one
    over.close()
    with closing(broker.redis) as redis:  # what came after the end goes by itself
        assert all(0 < redis.ttl(key) <= RESULT_S for key in results(broker))


def test_what_a_worker_leaves_is_given_again_and_nobody_is_blamed(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def half(one: Puppet, order: Order) -> None:
        keep = order.lines[: (len(order.lines) + 1) // 2]
        made = {index: take(line) for index, line in keep}
        left = tuple(index for index, _ in order.lines if index not in made)
        one.store(order.id, answer(order, recordings=made, left=left))
        one.tell(order)

    puppet("a", half)
    said = lines(40)
    over = fleet()
    assert right(run(over, said), said)
    assert over.warnings == []


def test_sound_that_the_broker_forgot_is_made_again_and_nobody_is_blamed(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet], broker: Broker
) -> None:
    def apart(one: Puppet, order: Order) -> None:
        made = {index: take(line) for index, line in order.lines}
        whole = Answer(order.id, made, cost=order.cost, seconds=0.05, num_batches=1)
        one.store(order.id, whole.plain(apart=True))
        if len(one.orders) != 2:
            one.link.redis.set(f"anyrig:result:sound-{order.id}", whole.sound, ex=60)
        one.tell(order)

    one, said = puppet("a", apart), lines(40)
    over = fleet(patience_s=30.0)
    assert right(run(over, said), said)
    assert over.warnings == []
    assert sum(len(order.lines) for order in one.orders) > len(said)
    over.close()
    assert results(broker) == set()  # all of it was fetched and deleted


@pytest.mark.parametrize(
    ("status", "result", "told"),
    [
        ("SUCCESS", Answer("x", refused="the disk is full").plain(), "the disk is full"),
        ("FAILURE", {"exc_message": "no space"}, "the task failed"),
        ("SUCCESS", {"recordings": 7}, "its answer cannot be read"),
        ("", "not even JSON", "its answer cannot be read"),
    ],
)
def test_a_worker_that_gives_everything_back_is_nobody_to_wait_for(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch,
    status: str, result: Any, told: str,
) -> None:  # fmt: skip
    def refuse(one: Puppet, order: Order) -> None:
        one.store(order.id, result, status=status)
        one.tell(order)

    monkeypatch.setattr(hands, "_ASIDE_S", (0.1, 0.2, 0.3, 60.0))
    bad = puppet("bad", refuse)
    over = fleet()
    over.wait_ready()
    with pytest.raises(WorkError, match=told):
        run(over, lines(20))
    assert len(bad.orders) <= 2 * 4  # one at work and one ready, each time after a longer pause
    assert any("bad" in warning and told in warning for warning in over.warnings)


def test_a_worker_that_is_well_again_is_given_work_again(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def recovers(one: Puppet, order: Order) -> None:
        if len(one.orders) > 8:
            good(one, order)
        else:
            one.store(order.id, Answer(order.id, refused="the disk is full").plain())
            one.tell(order)

    one, said = puppet("a", recovers), lines(30)
    over = fleet(patience_s=30.0)
    assert right(run(over, said), said)
    assert len(one.orders) > 8
    assert over._hands._refusals == {}


def test_a_shard_that_its_client_lost_track_of_is_given_again(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    over = fleet(patience_s=30.0)

    def loses(one: Puppet, order: Order) -> None:
        if len(one.orders) == 2:  # as where the broker went away while answers were fetched
            over._calls.forget(order.id)
        else:
            good(one, order)

    puppet("a", loses)
    said = lines(30)
    assert right(run(over, said), said)
    assert over.warnings == []


def test_one_that_leaves_does_so_in_the_next_run_too_and_one_that_is_at_it_does_not_hang(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def holds(one: Puppet, order: Order) -> None:
        one.holds = (order.id,)

    old, over = puppet("old", holds), fleet(patience_s=30.0)
    said = lines(5)
    outcomes: list[ItemOutcome[Any]] = []
    taker = threading.Thread(target=lambda: outcomes.extend(run(over, said)))
    taker.start()
    until(lambda: bool(old.holds))
    seat = over._hands._seats["old"]
    until(lambda: seat.at_it)
    assert not over.loads[seat.number].draining
    seat.leave()
    until(lambda: over.loads[seat.number].draining)
    old.behaves, old.holds = good, ()
    good(old, old.orders[0])
    until(lambda: not seat.at_it)
    taker.join(timeout=30)
    assert right(outcomes, said)


def test_what_a_bad_worker_gives_back_is_done_by_a_good_one(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def refuse(one: Puppet, order: Order) -> None:
        one.store(order.id, Answer(order.id, refused="no room").plain())
        one.tell(order)

    puppet("bad", refuse)
    puppet("good")
    said = lines(40)
    assert right(run(fleet(), said), said)


def test_a_worker_that_leaves_finishes_what_it_has(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def leaves(one: Puppet, order: Order) -> None:
        if len(one.orders) == 1:  # it is asked to leave, and works on this one
            one.holds = (order.id,)
            return
        one.store(order.id, Answer(order.id, left=tuple(n for n, _ in order.lines)).plain())
        one.tell(order)

    old, said = puppet("old", leaves), lines(60)
    over = fleet(slice_s=0.05)
    going = over.run(said, cost=lambda line: line.cost)
    outcomes: list[ItemOutcome[Any]] = []
    taker = threading.Thread(target=lambda: outcomes.extend(going))
    taker.start()
    until(lambda: len(old.orders) == 2)
    seat = over._hands._seats["old"]
    until(lambda: seat.leaving)
    time.sleep(1.5)  # it is looked at again, and keeps its seat while it works
    assert len(old.orders) == 2
    assert not seat.idle
    good(old, old.orders[0])
    old.holds = ()
    old.behaves = good
    taker.join(timeout=30)
    assert right(outcomes, said)
    first = {index for index, _ in old.orders[0].lines}
    again = [index for order in old.orders[1:] for index, _ in order.lines if index in first]
    assert (again, over.warnings) == ([], [])


def test_a_shard_that_got_lost_is_given_again(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def forgetful(one: Puppet, order: Order) -> None:
        if len(one.orders) != 2:
            good(one, order)

    puppet("a", forgetful)
    said = lines(30)
    over = fleet(patience_s=30.0)
    assert right(run(over, said), said)
    assert over.warnings == []


def test_an_answer_that_nobody_told_of_is_found(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def silent(one: Puppet, order: Order) -> None:
        one.store(order.id, answer(order))

    quiet = puppet("a", silent)
    said = lines(12)
    assert right(run(fleet(patience_s=30.0), said), said)
    assert sum(len(order.lines) for order in quiet.orders) == len(said)  # nothing twice


def test_a_line_that_one_worker_cannot_speak_is_tried_by_another(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    broken = {3, 4}

    def fails(one: Puppet, order: Order) -> None:
        made = {n: take(line) for n, line in order.lines if line.seed not in broken}
        wrong = ItemFailure("error", "no space left on device", 1)
        failed = {n: wrong for n, line in order.lines if line.seed in broken}
        one.store(order.id, answer(order, recordings=made, failures=failed))
        one.tell(order)

    puppet("a", fails)
    puppet("b")
    said = lines(10)
    assert right(run(fleet(), said), said)


def test_a_line_that_nobody_can_speak_fails_after_two_have_tried(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet]
) -> None:
    def fails(one: Puppet, order: Order) -> None:
        made = {n: take(line) for n, line in order.lines if line.seed != 3}
        failed = {n: ItemFailure("error", "no", 1) for n, line in order.lines if line.seed == 3}
        one.store(order.id, answer(order, recordings=made, failures=failed))
        one.tell(order)

    tried = [puppet(name, fails) for name in "abc"]
    outcomes = run(fleet(), lines(10))
    assert [one.index for one in outcomes if one.failure] == [3]
    orders = [order for one in tried for order in one.orders]
    assert sum(any(line.seed == 3 for _, line in order.lines) for order in orders) == 2


def test_an_answer_over_the_bound_is_not_taken(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_MOST", 4096)

    def huge(one: Puppet, order: Order) -> None:
        made = {n: Recording(b"x" * 8192) for n, _ in order.lines}
        one.store(order.id, answer(order, recordings=made))
        one.tell(order)

    puppet("a", huge)
    over = fleet()
    over.wait_ready()
    with pytest.raises(WorkError, match="cannot be read"):
        run(over, lines(4))


def test_a_straggler_is_given_nothing_until_it_knows_that_its_shard_is_done(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet], broker: Broker
) -> None:
    held: list[Order] = []

    def stuck(one: Puppet, order: Order) -> None:
        held.append(order)
        one.holds = tuple(order.id for order in held)

    slow, said = puppet("slow", stuck), lines(30)
    puppet("quick")
    over = fleet()
    until(lambda: over.size == 2)
    assert right(run(over, said), said)
    assert 1 <= len(slow.orders) <= 2
    with closing(broker.redis) as redis:
        run_id = held[0].run
        until(lambda: not redis.smembers(f"anyrig:run:{run_id}:open"), 5)


def test_closing_in_the_middle_takes_everything_back(
    puppet: Callable[..., Puppet], fleet: Callable[..., Fleet], broker: Broker
) -> None:
    def slowly(one: Puppet, order: Order) -> None:
        time.sleep(0.2)
        good(one, order)

    one = puppet("a", slowly)
    over = fleet()
    going = over.run(lines(400), cost=lambda line: line.cost)
    next(going)
    going.close()  # type: ignore[attr-defined]
    with closing(broker.redis) as redis:
        until(lambda: not redis.exists(f"anyrig:run:{one.orders[0].run}:open"), 5)
    over.close()
    with closing(broker.redis) as redis:
        left = {key.decode() for key in redis.scan_iter() if redis.ttl(key) == -1}
    assert left <= {"anyrig:workers"}
