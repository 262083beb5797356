"""Faults of a real broker and real workers: every line comes, as one machine alone makes it.

Shards take a second or so here, and the leases of the workers are short. What is made twice is
counted by the engine itself.
"""

from __future__ import annotations

import math
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from anyrig.cluster import pool as pools
from anyrig.cluster.broker import BrokerClient
from anyrig.cluster.pool import ClusterPool
from anyrig.cluster.speech import SpeechCodec
from anyrig.speech.protocol import Line
from anyrig.work.outcome import ItemOutcome
from benchmarks.cluster_rig import POISON, Doubler, Node, Room, lines, offer, plainly, spoken, until

CHAR_S = 0.004
LEASE_S = 2
COUNT = 32
A_SHARD = math.ceil(1.0 / (CHAR_S * 40)) + 2
"""Lines that a worker is given at once, at most: a second of them, and a little."""


@pytest.fixture(scope="module")
def _room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with Room(tmp_path_factory.mktemp("room"), config={"appendonly": "yes"}) as room:
        yield room


@pytest.fixture
def room(_room: Room, monkeypatch: pytest.MonkeyPatch) -> Room:
    """A broker and two workers, a and b, whatever became of those of the test before."""
    monkeypatch.setattr(pools, "_MISSING_S", 1.5)
    for name, node in list(_room.nodes.items()):
        if name not in ("a", "b"):
            node.end()
            del _room.nodes[name]
    for name, core in (("a", 0), ("b", 1)):
        if name not in _room.nodes or not _room.nodes[name].alive:
            started(_room, name, core=core)
    _room.wait_for("a", "b")
    _room.counted.unlink(missing_ok=True)
    return _room


def started(room: Room, name: str, **more: Any) -> Node:
    environment = {"SHORT_LEASE_S": str(LEASE_S), **more.pop("environment", {})}
    return room.worker(name, char_s=CHAR_S, environment=environment, **more)


def speak(
    room: Room, said: list[Line], at: int = 0, then: Callable[[], object] = lambda: None,
    **options: Any,
) -> tuple[list[ItemOutcome[Any]], list[str]]:  # fmt: skip
    """Lines over the cluster; something happens once so many of them are there."""
    fleet = ClusterPool(BrokerClient(room.url), offer(), SpeechCodec(), **options)
    outcomes = []
    with closing(fleet):
        fleet.wait_ready()
        for outcome in fleet.run(said, cost=lambda line: line.cost):
            outcomes.append(outcome)
            if len(outcomes) == at:
                then()
        return outcomes, list(fleet.warnings)


def check(room: Room, said: list[Line], outcomes: list[ItemOutcome[Any]], again: int) -> None:
    """All of it came, to the byte, and no more was made twice than may have been lost."""
    assert [outcome.index for outcome in outcomes] == list(range(len(said)))
    assert [outcome.failure for outcome in outcomes] == [None] * len(said)
    assert [plainly(outcome.result) for outcome in outcomes] == spoken(said)
    texts = {line.text for line in said}  # a straggler may still speak a line of the test before
    made = {text: count for text, count in room.made().items() if text in texts}
    assert set(made) == texts
    assert sum(made.values()) - len(said) <= again


def endless(room: Room) -> set[str]:
    """The keys of the broker that have no end."""
    with closing(room.redis()) as redis:
        return {key.decode() for key in redis.scan_iter() if redis.ttl(key) == -1}


def test_a_worker_that_is_killed_takes_nothing_with_it(room: Room) -> None:
    said, victim = lines(COUNT, "kill"), room.nodes["a"]
    outcomes, _ = speak(room, said, 10, victim.kill)
    # Its two shards, and what was given to two at the end.
    check(room, said, outcomes, 3 * A_SHARD)
    until(lambda: not victim.family(), 10, "its engine's end")


@pytest.mark.slow
def test_a_worker_that_slept_past_its_lease_is_welcome_again(room: Room) -> None:
    said, victim = lines(3 * COUNT, "sleep"), room.nodes["a"]
    awake = threading.Timer(LEASE_S + 3.0, victim.thaw)

    def sleep() -> None:
        victim.freeze()
        awake.start()

    outcomes, warnings = speak(room, said, 10, sleep)
    awake.join()
    check(room, said, outcomes, 4 * A_SHARD)
    assert any("a (" in told and "has no heartbeat" in told for told in warnings), warnings
    assert victim.alive
    until(lambda: room.living()["a"].status == "ready", 20, "an idle worker")


@pytest.mark.parametrize(
    "forgets", [pytest.param(False, marks=pytest.mark.slow), True], ids=["persistent", "forgetful"]
)
def test_a_broker_that_is_started_anew_finds_everybody_again(room: Room, forgets: bool) -> None:
    said = lines(COUNT, f"broker {forgets}")

    def restart() -> None:
        with closing(room.redis()) as redis:
            if forgets:
                redis.flushall()
        room.stop_broker(kill=True)
        time.sleep(1.0)
        room.start_broker()

    outcomes, _ = speak(room, said, 10, restart)
    # What lay in the broker is lost with it: two shards of each worker at most.
    check(room, said, outcomes, 5 * A_SHARD)


@pytest.mark.slow
def test_a_client_that_is_killed_goes_on_where_it_was(room: Room) -> None:
    text = "CHAPTER 1\n\n" + " ".join(f"Number {n} is told by the tide." for n in range(80))
    source = room.folder / "book.txt"
    source.write_text(text, encoding="utf-8")
    process = room.book(source, room.folder / "book.m4b", home="killed")
    until(lambda: sum(room.made().values()) >= 20, 60, "some lines")
    process.kill()
    process.communicate()
    before = sum(room.made().values())
    room.whole(source, room.folder / "book.m4b", home="killed")
    made = room.made()
    assert before < len(made)
    assert sum(made.values()) - len(made) <= 5 * A_SHARD
    alone = room.folder / "alone.m4b"
    room.whole(source, alone, home="alone", cluster=False)
    assert (room.folder / "book.m4b").read_bytes() == alone.read_bytes()


def test_the_same_message_twice_is_done_once(room: Room) -> None:
    said = lines(COUNT, "twice")
    with closing(room.redis()) as redis, Doubler(redis) as doubler:
        outcomes, _ = speak(room, said)
    assert doubler.count
    check(room, said, outcomes, A_SHARD)  # of the end alone
    told = "".join(room.nodes[name].log.read_text() for name in "ab")
    assert told.count("came twice") == doubler.count


def test_a_worker_of_another_version_is_given_nothing_and_named(room: Room) -> None:
    started(room, "old", environment={"COUNTING_VERSION": "0"})
    room.wait_for("old")
    said = lines(20, "version")
    outcomes, warnings = speak(room, said)
    check(room, said, outcomes, A_SHARD)
    assert "old is not used: its counting has other version (0, not 1)" in warnings
    assert room.living()["old"].shards_done == 0


@pytest.mark.slow
def test_a_clock_that_is_hours_wrong_changes_nothing(room: Room) -> None:
    for name, hours in (("late", -30), ("early", 30)):
        started(room, name, environment={"CLOCK_SHIFT_S": str(hours * 3600)})
    room.wait_for("late", "early")
    said = lines(COUNT, "clock")
    outcomes, _ = speak(room, said)
    check(room, said, outcomes, 3 * A_SHARD)
    cards = room.living()
    idle = [name for name in ("late", "early", "a", "b") if not cards[name].shards_done]
    assert not idle


def test_a_line_that_kills_three_workers_is_set_aside_and_the_rest_goes_on(room: Room) -> None:
    said = lines(12, "poison")
    bad = 5
    said[bad] = Line(f"A cup of {POISON}.", voice="tone", seed=bad)
    names = ("a", "b", "c", "d")
    for name in names[2:]:
        started(room, name)
    room.wait_for(*names)
    outcomes, warnings = speak(room, said)
    failure = outcomes[bad].failure
    assert failure is not None
    assert (failure.kind, failure.tries) == ("crash", 3)
    good = [outcome for outcome in outcomes if outcome.index != bad]
    assert [plainly(one.result) for one in good] == spoken([said[one.index] for one in good])
    assert sum(not room.nodes[name].alive for name in names) == 3
    assert len([told for told in warnings if "its work goes to others" in told]) == 3


def test_who_leaves_before_the_end_stops_everybody_and_leaves_nothing_behind(room: Room) -> None:
    static = endless(room)
    fleet = ClusterPool(BrokerClient(room.url), offer(), SpeechCodec())
    run = fleet.run(lines(400, "cancel"), cost=lambda line: line.cost)
    for _ in range(5):
        next(run)
    assert endless(room) <= static
    run.close()  # type: ignore[attr-defined]
    fleet.close()
    idle = lambda: all(room.living()[name].status == "ready" for name in "ab")  # noqa: E731
    until(idle, 10, "idle workers")
    time.sleep(0.5)  # the line that was at work is finished
    before = sum(room.made().values())
    assert before < 100
    time.sleep(1.0)
    assert sum(room.made().values()) == before
    assert endless(room) <= static


@pytest.mark.slow
def test_a_full_disk_of_a_worker_is_no_other_workers_trouble(room: Room) -> None:
    home = room.folder / "full"
    home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a file system of its own needs root")
    try:
        environment = {"TMPDIR": str(home), "COUNTED": str(home / "counted")}
        started(room, "full", environment=environment)
        with pytest.raises(OSError, match="No space"):
            (home / "rest").write_bytes(b"x" * (1 << 20))
        room.wait_for("full")
        said = lines(COUNT, "disk")
        outcomes, _ = speak(room, said)
        check(room, said, outcomes, 3 * A_SHARD)
    finally:
        room.nodes.pop("full").end()
        subprocess.run(["umount", "-l", str(home)], check=True)


@pytest.fixture
def far(room: Room) -> Iterator[Callable[[bool], None]]:
    """A worker `far` on a host of its own, and a switch for the cable."""
    mark = f"ar{random.randrange(16**6):06x}"
    near, away = f"{mark}n", f"{mark}f"
    net = f"10.{random.randrange(200, 250)}.{random.randrange(250)}"
    order = [
        f"ip netns add {mark}", f"ip link add {near} type veth peer name {away}",
        f"ip link set {away} netns {mark}", f"ip addr add {net}.1/24 dev {near}",
        f"ip link set {near} up", f"ip netns exec {mark} ip addr add {net}.2/24 dev {away}",
        f"ip netns exec {mark} ip link set {away} up", f"ip netns exec {mark} ip link set lo up",
    ]  # fmt: skip
    with Room(room.folder / mark, host="0.0.0.0") as other:
        try:
            for step in order:
                done = subprocess.run(step.split(), capture_output=True, text=True)
                if done.returncode:
                    pytest.skip(f"a host of its own needs root and ip: {done.stderr.strip()}")
            started(
                other, "far", before=("ip", "netns", "exec", mark),
                url=f"redis://{net}.1:{other.port}/0",
            )  # fmt: skip
            started(other, "near")
            other.wait_for("far", "near")
            other.__dict__["cable"] = lambda up: subprocess.run(
                ["ip", "link", "set", near, "up" if up else "down"], check=True
            )
            yield other  # type: ignore[misc]
        finally:
            subprocess.run(["ip", "link", "del", near], capture_output=True)
            other.close()
            subprocess.run(["ip", "netns", "del", mark], capture_output=True)


@pytest.mark.slow
def test_a_cable_that_is_pulled_and_put_back(far: Any) -> None:
    said = lines(3 * COUNT, "cable")
    back = threading.Timer(LEASE_S + 4.0, lambda: far.cable(True))

    def pull() -> None:
        far.cable(False)
        back.start()

    outcomes, warnings = speak(far, said, 10, pull)
    back.join()
    check(far, said, outcomes, 5 * A_SHARD)
    assert any("far (" in told and "has no heartbeat" in told for told in warnings), warnings
    until(lambda: "far" in far.living(), 30, "the far worker's return")
