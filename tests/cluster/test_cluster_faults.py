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
from anyrig.speech.engine import Utterance
from anyrig.work.outcome import ItemOutcome
from benchmarks.counting_engine import POISON
from benchmarks.local_cluster import (
    LocalCluster,
    MessageDuplicator,
    WorkerProcess,
    counting_identity,
    make_lines,
    plain_bytes,
    speak_locally,
)
from tests.cluster.conftest import until

CHAR_S = 0.004
LEASE_S = 2
COUNT = 32
A_SHARD = math.ceil(1.0 / (CHAR_S * 40)) + 2
"""Lines that a worker is given at once, at most: a second of them, and a little."""


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), config={"appendonly": "yes"}) as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """A broker and two workers, a and b, whatever became of those of the test before."""
    monkeypatch.setattr(pools, "_MISSING_S", 1.5)
    for name, worker in list(_cluster.workers.items()):
        if name not in ("a", "b"):
            worker.stop()
            del _cluster.workers[name]
    for name, core in (("a", 0), ("b", 1)):
        if name not in _cluster.workers or not _cluster.workers[name].alive:
            started(_cluster, name, core=core)
    _cluster.wait_for("a", "b")
    _cluster.spoken_log.unlink(missing_ok=True)
    return _cluster


def started(cluster: LocalCluster, name: str, **more: Any) -> WorkerProcess:
    environment = {"SHORT_LEASE_S": str(LEASE_S), **more.pop("environment", {})}
    return cluster.start_worker(name, char_s=CHAR_S, environment=environment, **more)


def speak(
    cluster: LocalCluster, said: list[Utterance], at: int = 0,
    then: Callable[[], object] = lambda: None,
    **options: Any,
) -> tuple[list[ItemOutcome[Any]], list[str]]:  # fmt: skip
    """Lines over the cluster; something happens once so many of them are there."""
    pool = ClusterPool(BrokerClient(cluster.url), counting_identity(), SpeechCodec(), **options)
    outcomes = []
    with closing(pool):
        pool.wait_ready()
        for outcome in pool.run(said, cost=lambda line: line.cost):
            outcomes.append(outcome)
            if len(outcomes) == at:
                then()
        return outcomes, list(pool.warnings)


def check(
    cluster: LocalCluster, said: list[Utterance], outcomes: list[ItemOutcome[Any]], again: int
) -> None:
    """All of it came, to the byte, and no more was made twice than may have been lost."""
    assert [outcome.index for outcome in outcomes] == list(range(len(said)))
    assert [outcome.failure for outcome in outcomes] == [None] * len(said)
    assert [plain_bytes(outcome.result) for outcome in outcomes] == speak_locally(said)
    texts = {line.text for line in said}  # a straggler may still speak a line of the test before
    made = {text: count for text, count in cluster.count_spoken().items() if text in texts}
    assert set(made) == texts
    assert sum(made.values()) - len(said) <= again


def endless(cluster: LocalCluster) -> set[str]:
    """The keys of the broker that have no end."""
    with closing(cluster.redis()) as redis:
        return {key.decode() for key in redis.scan_iter() if redis.ttl(key) == -1}


def test_a_worker_that_is_killed_takes_nothing_with_it(cluster: LocalCluster) -> None:
    said, victim = make_lines(COUNT, "kill"), cluster.workers["a"]
    outcomes, _ = speak(cluster, said, 10, victim.kill)
    # Its two shards, and what was given to two at the end.
    check(cluster, said, outcomes, 3 * A_SHARD)
    until(lambda: not victim.group_pids(), what="its engine's end")


@pytest.mark.slow
def test_a_worker_that_slept_past_its_lease_is_welcome_again(cluster: LocalCluster) -> None:
    said, victim = make_lines(3 * COUNT, "sleep"), cluster.workers["a"]
    awake = threading.Timer(LEASE_S + 3.0, victim.resume)

    def sleep() -> None:
        victim.freeze()
        awake.start()

    outcomes, warnings = speak(cluster, said, 10, sleep)
    awake.join()
    check(cluster, said, outcomes, 4 * A_SHARD)
    assert any("a (" in told and "has no heartbeat" in told for told in warnings), warnings
    assert victim.alive
    until(lambda: cluster.list_alive()["a"].status == "ready", what="an idle worker")


@pytest.mark.parametrize(
    "forgets", [pytest.param(False, marks=pytest.mark.slow), True], ids=["persistent", "forgetful"]
)
def test_a_broker_that_is_started_anew_finds_everybody_again(
    cluster: LocalCluster, forgets: bool
) -> None:
    said = make_lines(COUNT, f"broker {forgets}")

    def restart() -> None:
        with closing(cluster.redis()) as redis:
            if forgets:
                redis.flushall()
        cluster.stop_broker(kill=True)
        time.sleep(1.0)
        cluster.start_broker()

    outcomes, _ = speak(cluster, said, 10, restart)
    # What lay in the broker is lost with it: two shards of each worker at most.
    check(cluster, said, outcomes, 5 * A_SHARD)


@pytest.mark.slow
def test_a_client_that_is_killed_goes_on_where_it_was(cluster: LocalCluster) -> None:
    text = "CHAPTER 1\n\n" + " ".join(f"Number {n} is told by the tide." for n in range(80))
    source = cluster.folder / "book.txt"
    source.write_text(text, encoding="utf-8")
    process = cluster.start_book(source, cluster.folder / "book.m4b", home="killed")
    until(lambda: sum(cluster.count_spoken().values()) >= 20, what="some lines")
    process.kill()
    process.communicate()
    before = sum(cluster.count_spoken().values())
    cluster.make_book(source, cluster.folder / "book.m4b", home="killed")
    made = cluster.count_spoken()
    assert before < len(made)
    assert sum(made.values()) - len(made) <= 5 * A_SHARD
    alone = cluster.folder / "alone.m4b"
    cluster.make_book(source, alone, home="alone", cluster=False)
    assert (cluster.folder / "book.m4b").read_bytes() == alone.read_bytes()


def test_the_same_message_twice_is_done_once(cluster: LocalCluster) -> None:
    said = make_lines(COUNT, "twice")
    with closing(cluster.redis()) as redis, MessageDuplicator(redis) as duplicator:
        outcomes, _ = speak(cluster, said)
    assert duplicator.count
    check(cluster, said, outcomes, A_SHARD)  # of the end alone
    told = "".join(cluster.workers[name].log.read_text() for name in "ab")
    assert told.count("came twice") == duplicator.count


def test_a_worker_of_another_version_is_given_nothing_and_named(cluster: LocalCluster) -> None:
    started(cluster, "old", environment={"COUNTING_VERSION": "0"})
    cluster.wait_for("old")
    said = make_lines(20, "version")
    outcomes, warnings = speak(cluster, said)
    check(cluster, said, outcomes, A_SHARD)
    assert "old is not used: its counting has other version (0, not 1)" in warnings
    assert cluster.list_alive()["old"].shards_done == 0


@pytest.mark.slow
def test_a_clock_that_is_hours_wrong_changes_nothing(cluster: LocalCluster) -> None:
    for name, hours in (("late", -30), ("early", 30)):
        started(cluster, name, environment={"CLOCK_SHIFT_S": str(hours * 3600)})
    cluster.wait_for("late", "early")
    said = make_lines(COUNT, "clock")
    outcomes, _ = speak(cluster, said)
    check(cluster, said, outcomes, 3 * A_SHARD)
    cards = cluster.list_alive()
    idle = [name for name in ("late", "early", "a", "b") if not cards[name].shards_done]
    assert not idle


def test_a_line_that_kills_three_workers_is_set_aside_and_the_rest_goes_on(
    cluster: LocalCluster,
) -> None:
    said = make_lines(12, "poison")
    bad = 5
    said[bad] = Utterance(f"A cup of {POISON}.", voice="tone", seed=bad)
    names = ("a", "b", "c", "d")
    for name in names[2:]:
        started(cluster, name)
    cluster.wait_for(*names)
    outcomes, warnings = speak(cluster, said)
    failure = outcomes[bad].failure
    assert failure is not None
    assert (failure.kind, failure.tries) == ("crash", 3)
    good = [outcome for outcome in outcomes if outcome.index != bad]
    assert [plain_bytes(one.result) for one in good] == speak_locally(
        [said[one.index] for one in good]
    )
    assert sum(not cluster.workers[name].alive for name in names) == 3
    assert len([told for told in warnings if "its work goes to others" in told]) == 3


def test_who_leaves_before_the_end_stops_everybody_and_leaves_nothing_behind(
    cluster: LocalCluster,
) -> None:
    static = endless(cluster)
    pool = ClusterPool(BrokerClient(cluster.url), counting_identity(), SpeechCodec())
    run = pool.run(make_lines(400, "cancel"), cost=lambda line: line.cost)
    for _ in range(5):
        next(run)
    assert endless(cluster) <= static
    run.close()  # type: ignore[attr-defined]
    pool.close()
    idle = lambda: all(cluster.list_alive()[name].status == "ready" for name in "ab")  # noqa: E731
    until(idle, what="idle workers")
    time.sleep(0.5)  # the line that was at work is finished
    before = sum(cluster.count_spoken().values())
    assert before < 100
    time.sleep(1.0)
    assert sum(cluster.count_spoken().values()) == before
    assert endless(cluster) <= static


@pytest.mark.slow
def test_a_full_disk_of_a_worker_is_no_other_workers_trouble(cluster: LocalCluster) -> None:
    home = cluster.folder / "full"
    home.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a file system of its own needs root")
    try:
        environment = {"TMPDIR": str(home), "COUNTING_LOG": str(home / "counted")}
        started(cluster, "full", environment=environment)
        with pytest.raises(OSError, match="No space"):
            (home / "rest").write_bytes(b"x" * (1 << 20))
        cluster.wait_for("full")
        said = make_lines(COUNT, "disk")
        outcomes, _ = speak(cluster, said)
        check(cluster, said, outcomes, 3 * A_SHARD)
    finally:
        cluster.workers.pop("full").stop()
        subprocess.run(["umount", "-l", str(home)], check=True)


@pytest.fixture
def far(cluster: LocalCluster) -> Iterator[Callable[[bool], None]]:
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
    with LocalCluster(cluster.folder / mark, host="0.0.0.0") as other:
        try:
            for step in order:
                done = subprocess.run(step.split(), capture_output=True, text=True)
                if done.returncode:
                    pytest.skip(f"a host of its own needs root and ip: {done.stderr.strip()}")
            started(
                other, "far", prefix=("ip", "netns", "exec", mark),
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
    said = make_lines(3 * COUNT, "cable")
    back = threading.Timer(LEASE_S + 4.0, lambda: far.cable(True))

    def pull() -> None:
        far.cable(False)
        back.start()

    outcomes, warnings = speak(far, said, 10, pull)
    back.join()
    check(far, said, outcomes, 5 * A_SHARD)
    assert any("far (" in told and "has no heartbeat" in told for told in warnings), warnings
    until(lambda: "far" in far.list_alive(), what="the far worker's return")
