"""A worker from its start to its end: names, health, drains, signals, a broker that goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from anyrig.app.cluster_engines import DeviceEngines
from anyrig.app.cluster_worker import WorkerRequest, plan_nodes
from anyrig.app.rig import Rig
from anyrig.cluster import protocol
from anyrig.cluster import worker as worker_module
from anyrig.cluster.broker import HEALTH, RESULT_S, RUN_ITEMS, make_app, make_queue
from anyrig.cluster.pool import ClusterPool
from anyrig.cluster.protocol import EncodedResult, TaskRequest, TaskResult, parse_result
from anyrig.cluster.registry import WorkerRegistry
from anyrig.cluster.speech import SpeechCodec, identify_engine
from anyrig.cluster.worker import ClusterWorker, WorkerDevice
from anyrig.speech.engine import Utterance
from anyrig.speech.engines.tone import Tone
from anyrig.speech.takes import decode_take
from anyrig.version import __version__
from tests.cluster.conftest import Broker, Spread, Worker, Workers, person, story, until

HEALTH_FIELDS = {
    "name", "status", "state", "device_type", "device_name", "device_memory_mb", "engine",
    "gpu_available", "gpu_count", "gpu_memory_free_mb", "tts_model_loaded", "cached_models",
    "device", "host", "pid", "speed", "segments_done", "shards_done", "versions",
}  # fmt: skip


def sent(
    broker: Broker, name: str, task: str, *arguments: Any, timeout: float = 30.0, id: str = ""
) -> Any:
    """What a worker answers to a task."""
    app: Any = make_app(broker.url)
    try:
        asked = app.send_task(
            task, arguments, queue=make_queue(f"anyrig.{name}"), task_id=id or None
        )
        return asked.get(timeout=timeout, disable_sync_subtasks=False)
    finally:
        app.close()


def order(*texts: str, **more: Any) -> dict[str, Any]:
    """A task for the tone engine."""
    voice = more.pop("voice", "tone")
    codec = SpeechCodec()
    items = tuple(
        (n, codec.encode_item(Utterance(text, "en", voice))) for n, text in enumerate(texts)
    )
    return asdict(TaskRequest("speech", identify_engine(Tone.find_weights()), items, **more))


def test_health_is_told_by_a_task_and_seen_at_the_engines(lasting: tuple[Broker, Worker]) -> None:
    broker, worker = lasting
    before = sent(broker, "w1", HEALTH)
    assert set(before) == HEALTH_FIELDS
    assert (before["status"], before["state"]) == ("ok", "ready")
    assert before["device_type"] == "cpu"
    assert before["tts_model_loaded"] is False
    assert before["cached_models"] == []
    assert before["versions"]["anyrig"] == __version__
    answer = sent(broker, "w1", RUN_ITEMS, order("The tide came in at noon."))
    assert answer["refused"] == ""
    assert len(answer["results"]) == 1
    after = sent(broker, "w1", HEALTH)
    assert set(after) == HEALTH_FIELDS
    assert after["tts_model_loaded"] is True
    assert after["cached_models"] == ["tone"]
    assert after["segments_done"] == before["segments_done"] + 1
    assert after["speed"]["tone"] > 0
    assert (before["gpu_available"], before["gpu_count"]) == (False, 0)
    assert before["gpu_memory_free_mb"] == 0
    (line,) = [line for line in worker.log().splitlines() if line.startswith("w1 loaded")]
    assert line.startswith("w1 loaded tone 1 (fp32) on ")
    assert line.endswith("GPU available: no")
    # What another precision, another voice or a path asks for is refused with its reason.
    for more, why in (
        ({"precision": "half"}, "it computes tone in fp32, not in half"),
        ({"voice": "/etc/passwd"}, "has no voice '/etc/passwd' of tone"),
    ):
        refused = sent(broker, "w1", RUN_ITEMS, order("The rope.", **more))
        assert why in refused["refused"]
        assert not refused["results"]


def test_celerys_own_command_inspects_the_workers(
    lasting: tuple[Broker, Worker], tmp_path: Path
) -> None:
    broker, _ = lasting

    def inspect(what: str, *words: str) -> tuple[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "celery", "-A", "anyrig.cluster", "inspect", what, "--json",
             "--timeout", "5", *words],
            capture_output=True, text=True, timeout=60,
            env=person(tmp_path / "operator", {"REDIS_URL": broker.url}),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ((name, answer),) = json.loads(done.stdout).items()
        assert name.startswith("w1@")
        return name, answer

    name, stats = inspect("stats")
    assert stats["pool"]["implementation"].startswith("celery.concurrency.thread")
    assert set(stats["total"]) <= {RUN_ITEMS, HEALTH}
    assert set(stats) >= HEALTH_FIELDS
    assert (stats["device_type"], "tone" in stats["engine"]) == ("cpu", True)
    # Of one that is named the answer is not waited for any longer than it takes.
    assert inspect("active", "--destination", name) == (name, [])
    assert inspect("ping", "--destination", name) == (name, {"ok": "pong"})


def test_events_for_programs_and_a_drain(broker: Broker, workers: Workers) -> None:
    (worker,) = workers(1, "--json")
    link = broker.client
    WorkerRegistry(link).drain("w1")
    link.close()
    assert worker.process.wait(60) == 0, worker.log()
    events = [json.loads(line) for line in worker.said.read_text().splitlines()]
    assert [event["event"] for event in events] == ["ready", "left"]
    assert "tone" in events[0]["engines"]
    assert events[1]["reason"] == "it was drained"
    assert "w1" not in broker.living()
    with broker.redis as redis:
        assert not redis.hexists("anyrig:workers", "w1")
    # The next one under that name is not sent away by the old wish.
    (again,) = workers(1, name="w1-", named=False, device="cpu", wait=False, environment={
        "WORKER_ID": "w1"
    })  # fmt: skip
    until(lambda: broker.living().get("w1", None) and broker.living()["w1"].status == "ready")
    assert again.process.poll() is None


def at_work(broker: Broker, seconds: float) -> tuple[Any, Any]:
    """A task that takes so long runs on w1; the application, and what will come of it."""
    app: Any = make_app(broker.url)
    text = "The tide came in at noon and took the boat."
    asked = app.send_task(
        RUN_ITEMS, (order(text, options={"sleep_s": seconds / len(text)}),),
        queue=make_queue("anyrig.w1"),
    )  # fmt: skip
    until(lambda: asked.id in broker.living()["w1"].tasks, what="the task at work")
    return app, asked


def test_what_is_at_hand_is_finished_before_the_end(broker: Broker, workers: Workers) -> None:
    (worker,) = workers(1)
    app, asked = at_work(broker, 2.0)
    worker.signal(signal.SIGTERM)
    answer = asked.get(timeout=60, disable_sync_subtasks=False)
    app.close()
    assert len(answer["results"]) == 1
    assert answer["returned"] == []
    assert worker.process.wait(60) == 0, worker.log()
    assert "w1 left: SIGTERM" in worker.log()
    assert "Warm shutdown" not in worker.log()


def test_a_second_signal_ends_it_at_once(broker: Broker, workers: Workers) -> None:
    (worker,) = workers(1)
    app: Any = make_app(broker.url)
    app.send_task(
        RUN_ITEMS, (order("The boat, the rope.", options={"sleep_s": 5.0}),),
        queue=make_queue("anyrig.w1"),
    )  # fmt: skip
    app.close()
    until(lambda: broker.living()["w1"].cached_models, what="the engine")
    below = psutil.Process(worker.process.pid).children(recursive=True)
    assert below
    worker.signal(signal.SIGINT)
    until(lambda: broker.living()["w1"].status == "draining")
    worker.signal(signal.SIGINT)
    assert worker.process.wait(60) == 130
    until(lambda: not any(_runs(one) for one in below), what="the engine's end")
    assert "w1" not in broker.living()


@pytest.mark.parametrize("step", ["anyrig.cluster.registry.WorkerRegistry.register",
                                  "celery.worker.heartbeat.Heart.start"])  # fmt: skip
def test_it_can_be_stopped_while_the_broker_is_away(
    broker: Broker, tmp_path: Path, step: str
) -> None:
    """Whatever it was doing when the broker went away, also while it starts."""
    name, _, method = step.rpartition(".")
    script = tmp_path / "worker.py"
    script.write_text(
        "import pkgutil, sys\n"
        "from redis import Redis\n"
        "from anyrig.cli.main import main\n"
        f"cls = pkgutil.resolve_name({name!r})\n"
        f"step = cls.{method}\n"
        "def without_broker(*given, **named):\n"
        f"    with Redis.from_url({broker.url!r}) as redis:\n"
        "        redis.config_set('maxclients', 1)\n"
        "        redis.client_kill_filter(_type='normal', skipme=True)\n"
        "        return step(*given, **named)\n"
        f"cls.{method} = without_broker\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, str(script), "worker", "--broker", broker.url, "--name", "w1",
               "--device", "cpu"]  # fmt: skip
    log = tmp_path / "log.txt"
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, env=person(tmp_path / "home"), cwd=tmp_path
        )
    try:
        until(lambda: "unavailable" in log.read_text(), what="the outage")
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        assert "w1 left: SIGTERM" in log.read_text(), "it was ended by its emergency exit"
    finally:
        process.kill()
        process.wait()
        with broker.redis as redis:
            redis.config_set("maxclients", 10_000)


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_name_belongs_to_one(broker: Broker, workers: Workers) -> None:
    (first,) = workers(1)
    (second,) = workers(
        1, name="other", named=False, wait=False, environment={"WORKER_ID": "w1"}
    )  # fmt: skip
    assert second.process.wait(60) == 2
    assert f"a worker called w1 already exists (process {first.process.pid}" in second.log()
    assert "--name" in second.log()
    # One that was killed leaves its card for a while; its name is free all the same.
    first.kill()
    assert "w1" in broker.living()
    (third,) = workers(1, name="w1x", named=False, wait=False, environment={"WORKER_ID": "w1"})
    until(lambda: broker.living()["w1"].pid == third.process.pid, what="the new one")


def test_without_a_name_a_free_one_is_found(broker: Broker, workers: Workers) -> None:
    workers(2, name="own", named=False, wait=False)
    until(lambda: len(broker.living()) == 2, what="two workers")
    short, long = sorted(broker.living(), key=len)
    assert long == f"{short}-2"


def test_another_version_is_refused_with_both_named(broker: Broker, workers: Workers) -> None:
    with broker.redis as redis:
        redis.set("anyrig:cluster", json.dumps({"version": "0.0.1", "protocol": 1}))
    (worker,) = workers(1, wait=False)
    assert worker.process.wait(60) == 2
    (said,) = [line for line in worker.log().splitlines() if line.startswith("error")]
    assert __version__ in said
    assert "0.0.1" in said
    assert broker.living() == {}


def test_a_broker_that_goes_away_is_waited_for(
    new_broker: Callable[..., Broker], workers: Workers
) -> None:
    own = new_broker()
    (worker,) = workers(1, broker=own)
    own.stop(kill=True)
    until(lambda: "the broker is unavailable" in worker.log(), what="the message")
    own.start()  # and has forgotten everything
    until(lambda: "w1" in own.living(), what="the worker's return")
    assert sent(own, "w1", HEALTH)["state"] == "ready"  # its queue is consumed again
    app: Any = make_app(own.url)
    assert until(lambda: app.control.ping(timeout=2), what="remote control")
    app.close()
    assert worker.log().count("the broker is unavailable") == 1
    assert "Traceback" not in worker.log()
    assert worker.end() == 0, worker.log()


def test_a_broker_that_is_not_there_yet(
    new_broker: Callable[..., Broker], workers: Workers
) -> None:
    own = new_broker()
    own.stop()
    (hasty,) = workers(1, "--wait", "0", name="hasty", broker=own, wait=False)
    assert hasty.process.wait(60) == 1
    assert "does not respond" in hasty.log()
    (patient,) = workers(1, name="patient", broker=own, wait=False)
    until(lambda: "trying again" in patient.log(), what="the message")
    own.start()
    until(lambda: "patient1" in own.living(), what="the worker")
    assert patient.log().count("does not respond") == 1


def test_an_idle_worker_costs_little(lasting: tuple[Broker, Worker]) -> None:
    broker, worker = lasting
    seen = psutil.Process(worker.process.pid)
    first = broker.living()["w1"].heartbeat
    before = seen.cpu_times()
    until(lambda: broker.living()["w1"].heartbeat >= first + 3, what="three beats")
    after = seen.cpu_times()
    spent = after.user + after.system - before.user - before.system
    assert spent < 0.05 * 6  # of the six seconds that three beats take


def test_no_text_is_logged(lasting: tuple[Broker, Worker], spread: Spread) -> None:
    broker, worker = lasting
    Path("b.txt").write_text("Zanzibar quokkas whisper. Mellifluous xylophones.", encoding="utf-8")
    before = broker.living()["w1"].segments_done
    done = spread("speak", "-f", "b.txt", "--engine", "tone", "-o", "a.wav", cluster=broker.url)
    assert done.returncode == 0, done.stderr
    until(lambda: broker.living()["w1"].segments_done > before, what="its work")
    for word in ("quokka", "xylophone"):
        assert word not in worker.log().lower()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be parted here")
def test_nodes_of_one_machine_end_with_their_parent(broker: Broker, workers: Workers) -> None:
    (parent,) = workers(1, wait=False, environment={"NUM_WORKERS": "2"})
    until(lambda: sorted(broker.living()) == ["w1-1", "w1-2"], what="two nodes")
    nodes = [psutil.Process(card.pid) for card in broker.living().values()]
    assert {node.ppid() for node in nodes} == {parent.process.pid}
    if len(os.sched_getaffinity(0)) > 1:
        assert not set(nodes[0].cpu_affinity()) & set(nodes[1].cpu_affinity())
    assert "redis://" not in " ".join(nodes[0].cmdline())
    nodes[0].kill()
    until(
        lambda: sorted(broker.living()) == ["w1-1", "w1-2"]
        and nodes[0].pid not in [card.pid for card in broker.living().values()],
        60, what="the node that died",
    )  # fmt: skip
    assert "died of signal 9" in parent.log()
    pids = [card.pid for card in broker.living().values()]
    assert parent.end() == 0, parent.log()
    assert broker.living() == {}
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert "Fatal" not in parent.log()


def test_a_node_that_was_asked_to_leave_stays_away(broker: Broker, workers: Workers) -> None:
    (parent,) = workers(1, "--nodes", "2", wait=False)
    until(lambda: sorted(broker.living()) == ["w1-1", "w1-2"], what="two nodes")
    with broker.client_open() as link:
        WorkerRegistry(link).drain("w1-2")
    until(lambda: "w1-2 left: it was drained" in parent.log(), what="its end")
    time.sleep(2.5)
    assert sorted(broker.living()) == ["w1-1"]
    assert "Fatal" not in parent.log()
    assert "started again" not in parent.log()


def test_who_was_asked_to_leave_may_stay_after_all(broker: Broker, workers: Workers) -> None:
    (worker,) = workers(1)
    app, asked = at_work(broker, 20.0)
    with broker.client_open() as link:
        WorkerRegistry(link).drain("w1")
        until(lambda: broker.living()["w1"].status == "draining")
        WorkerRegistry(link).drain("w1", on=False)
    until(lambda: broker.living()["w1"].status == "busy", what="that it stays")
    assert len(asked.get(timeout=60, disable_sync_subtasks=False)["results"]) == 1
    app.close()
    until(lambda: broker.living()["w1"].status == "ready")
    assert worker.process.poll() is None


def test_nodes_do_not_outlive_a_parent_that_was_killed(broker: Broker, workers: Workers) -> None:
    (parent,) = workers(1, "--nodes", "2", wait=False)
    until(lambda: len(broker.living()) == 2, what="two nodes")
    parent.kill()
    until(lambda: not broker.living(), what="their end")


@pytest.mark.slow
def test_a_worker_that_is_drained_hands_over_in_the_midst_of_a_book(
    broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    one, other = workers(2)
    Path("b.txt").write_text(story(1, 40), encoding="utf-8")
    client = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "book", "b.txt", "--engine", "tone", "--set",
         "sleep_s=0.004", "--cluster", broker.url, "--json", "--device", "cpu"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=person(tmp_path / "client"),
    )  # fmt: skip
    try:
        until(lambda: broker.living()["w1"].shards_done > 1, what="its first shards")
        link = broker.client
        WorkerRegistry(link).drain("w1")
        link.close()
        assert one.process.wait(60) == 0, one.log()
        assert client.poll() is None, "the book was too short for this test"
        said, errors = client.communicate(timeout=120)
    finally:
        client.kill()
        client.communicate()
    assert client.returncode == 0, errors
    assert "refused a task" not in errors
    assert len(json.loads(said.splitlines()[-1])["files"]) == 1
    assert "w1 left: it was drained" in one.log()
    assert other.process.poll() is None


def test_a_health_task_in_the_default_queue_is_answered_and_nothing_else_is_taken(
    lasting: tuple[Broker, Worker],
) -> None:
    from celery import Celery

    broker, worker = lasting
    foreign = Celery("somebody", broker=broker.url, backend=broker.url)
    pay = foreign.send_task("shop.pay", (17,))
    pickled = foreign.send_task("shop.pack", (object(),), serializer="pickle")
    ours = make_app(broker.url)
    for app, name in ((foreign, HEALTH), (foreign, "health_check"), (ours, HEALTH)):
        found = app.send_task(name).get(timeout=60)
        assert set(found) == HEALTH_FIELDS, worker.log()
        assert found["status"] == "ok"
    ours.close()
    foreign.close()

    def waiting() -> set[str]:
        with broker.redis as redis:
            return {json.loads(one)["headers"]["id"] for one in redis.lrange("celery", 0, -1)}

    until(lambda: waiting() == {pay.id, pickled.id}, what="what is not ours to be put back")
    with broker.redis as redis:
        assert all(redis.ttl(key) > 0 for key in redis.keys("*celery-task-meta-*"))


def test_stats_have_the_facts_of_the_device(lasting: tuple[Broker, Worker]) -> None:
    broker, _ = lasting
    assert sent(broker, "w1", RUN_ITEMS, order("The tide came in."))["results"]
    app = make_app(broker.url)
    try:
        stats: Any = app.control.inspect(timeout=5, limit=1).stats()
        (told,) = stats.values()
    finally:
        app.close()
    assert told["device_type"] == "cpu"
    assert told["device_name"] == broker.living()["w1"].device
    assert told["device_memory_mb"] > 0
    assert "tone" in told["engine"]
    assert told["speed"]["tone"] > 0
    assert told["cached_models"] == ["tone"]
    assert told["versions"]["anyrig"] == __version__


def test_a_task_that_is_revoked_stops_after_the_current_item(
    lasting: tuple[Broker, Worker],
) -> None:
    broker, _ = lasting
    app: Any = make_app(broker.url)
    texts = [f"Number {n} is told by the tide." for n in range(40)]
    try:
        asked = app.send_task(
            RUN_ITEMS, (order(*texts, options={"sleep_s": 0.02}),), queue=make_queue("anyrig.w1")
        )
        until(lambda: asked.id in broker.living()["w1"].tasks, what="the task at work")
        asked.revoke()
        answer = asked.get(timeout=60, disable_sync_subtasks=False)
        assert len(answer["results"]) < len(texts)
        assert len(answer["results"]) + len(answer["returned"]) == len(texts)
        waits = app.send_task(
            RUN_ITEMS, (order("Too late."),), queue=make_queue("anyrig.w1"),
            expires=datetime.now(UTC) - timedelta(minutes=1),
        )  # fmt: skip
        until(lambda: waits.state == "REVOKED", what="what has expired not to be run")
    finally:
        app.close()


CODEC = SpeechCodec()


@contextmanager
def working(broker: Broker, name: str = "w") -> Iterator[tuple[ClusterWorker, list[Any]]]:
    """A worker that has its name; what it reported so far."""
    rig = Rig(environment=dict(os.environ))
    request = WorkerRequest(name=name, device="cpu", no_bench=True)
    (node,) = plan_nodes(rig, request)
    events: list[tuple[str, Mapping[str, Any]]] = []
    with ExitStack() as stack:
        client = broker.client
        stack.callback(client.close)
        worker = ClusterWorker(
            client, name, WorkerDevice(node.device.name, "cpu", "cpu"),
            DeviceEngines(rig, request, node),
            on_event=lambda event, facts: events.append((event, facts)),
        )  # fmt: skip
        stack.callback(worker.close)
        worker.register()
        worker._report_ready()
        yield worker, events


def fetched(broker: Broker, id: str, value: Any) -> tuple[TaskResult, dict[int, EncodedResult]]:
    """A result, and its bytes, which have an end."""
    result = parse_result(value)
    with broker.redis as redis:
        if not result.results:
            return result, {}
        assert 0 < redis.ttl(f"anyrig:blob:{id}") <= RESULT_S
        return result, result.split(cast("bytes", redis.get(f"anyrig:blob:{id}")))


def test_what_takes_too_long_is_returned(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    active: list[str] = []
    monkeypatch.setattr(worker_module, "list_active_tasks", lambda: tuple(active))
    with working(broker) as (worker, events):
        found: list[Any] = []
        slow = order("The boat, the rope and the bell.", options={"sleep_s": 1.0})

        def run() -> None:
            found.append(parse_result(worker.run_items(slow, "s1")))
            active.clear()

        active.append("s1")
        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: len(events) > 1, what="the engine")
        assert events[1][0] == "loaded"
        assert events[1][1]["model"] == "tone"
        assert worker.info().status == "busy"
        assert worker.finish(0.2) is False
        thread.join(20)
        assert found[0].returned == (0,)
        assert not found[0].results
        assert broker.living()["w"].status == "draining"
        late = parse_result(worker.run_items(order("Too late."), "s2"))
        assert (late.returned, late.refused) == ((0,), "")
    assert broker.living() == {}


def test_takes_travel_as_flac_where_it_is_asked_for(broker: Broker) -> None:
    with working(broker) as (worker, _):
        text = "The tide came in at noon."
        plain, packed = (
            fetched(broker, id, worker.run_items(order(text, compress=flac), id))[1][0].data
            for id, flac in (("s1", False), ("s2", True))
        )
        assert b"fLaC" in packed
        assert len(packed) < len(plain)
        assert (decode_take(packed).samples == decode_take(plain).samples).all()


def test_what_is_too_large_for_one_result_is_returned(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working(broker) as (worker, _):
        texts = [f"Number {n} is told by the tide." for n in range(4)]
        whole, results = fetched(broker, "s1", worker.run_items(order(*texts), "s1"))
        assert set(results) == {0, 1, 2, 3}
        monkeypatch.setattr(protocol, "MAX_BLOB_BYTES", sum(whole.sizes) // 2)
        some, results = fetched(broker, "s2", worker.run_items(order(*texts), "s2"))
        assert 0 < len(results) < 4
        assert {*results, *some.returned} == {0, 1, 2, 3}
        monkeypatch.setattr(protocol, "MAX_BLOB_BYTES", 10)
        none, _ = fetched(broker, "s3", worker.run_items(order(*texts), "s3"))
        (failure,) = none.failures.values()
        assert "too large" in failure.message
        assert len(none.returned) == 3


def test_one_that_was_frozen_leaves_its_name_to_who_took_it(broker: Broker) -> None:
    with working(broker) as (frozen, _):
        info = broker.living()["w"]
        with broker.client_open() as client:
            registry = WorkerRegistry(client)
            assert registry.is_alive(info)
            registry.remove("w")  # as if it had no heartbeat for long
            with working(broker) as (fresh, _):
                instance = broker.living()["w"].instance
                assert instance != info.instance
                until(lambda: frozen._replaced, what="that it sees it")
                frozen.close()
                assert broker.living()["w"].instance == instance
                assert not fresh._replaced


def test_a_run_asks_only_who_can_compute_as_it_wants(broker: Broker) -> None:
    with working(broker):
        info = broker.living()["w"]
        engine = info.find_engine("tone")
        assert engine is not None
        for precision, reason in (("fp32", ""), ("half", "it computes tone in fp32, not in half")):
            pool = ClusterPool(broker.client, engine, CODEC, precision=precision)
            assert pool.remote._find_mismatch(info) == reason
            pool.close()
