"""A worker without Celery's program: what it stores, returns, and how it keeps its name."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import pytest

from anyrig.app.cluster_engines import DeviceEngines
from anyrig.app.cluster_worker import WorkerRequest, plan_nodes
from anyrig.app.rig import Rig
from anyrig.cluster import protocol
from anyrig.cluster import worker as workers
from anyrig.cluster.broker import RESULT_S
from anyrig.cluster.pool import ClusterPool
from anyrig.cluster.protocol import EncodedResult, TaskResult, parse_result
from anyrig.cluster.registry import WorkerRegistry
from anyrig.cluster.speech import SpeechCodec
from anyrig.cluster.worker import ClusterWorker, WorkerDevice
from anyrig.speech.sound.pack import unpack
from tests.cluster.conftest import Broker, until
from tests.cluster.test_cluster_worker import order

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
    monkeypatch.setattr(workers, "list_active_tasks", lambda: tuple(active))
    with working(broker) as (worker, events):
        found: list[Any] = []
        slow = order("The boat, the rope and the bell.", options={"sleep_s": 1.0})

        def run() -> None:
            found.append(parse_result(worker.run_items(slow, "s1")))
            active.clear()

        active.append("s1")
        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: len(events) > 1, 30, what="the engine")
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
        assert (unpack(packed).samples == unpack(plain).samples).all()


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
                until(lambda: frozen._replaced, 15, what="that it sees it")
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
