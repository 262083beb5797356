"""`anyrig cluster`: who works, who is lost, who may leave; and who else can reach the broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyrig.cli.main import main
from anyrig.cluster.broker import LEASE_S, BrokerClient, find_exposures
from anyrig.cluster.registry import (
    LOST,
    CoordinatorInfo,
    EngineId,
    RegistryWatch,
    WorkerInfo,
    WorkerRegistry,
    parse_worker_info,
)
from anyrig.version import __version__
from tests.cluster.conftest import Broker, person
from tests.cluster.test_cluster_worker import HEALTH_FIELDS

FIELDS = HEALTH_FIELDS | {"last_sign_s", "trouble"}
GPU = WorkerInfo(
    "attic", __version__, instance="a", host="attic.lan", pid=7, python="3.12.1", device="RTX 4090",
    kind="gpu", word="cuda:0", device_type="cuda", gpu_available=True, gpu_count=2,
    gpu_memory_free_mb=21_034, tts_model_loaded=True, cached_models=("hibari fp16",),
    speeds={"hibari": 5120.4}, segments_done=1812, shards_done=60, status="busy",
    engines=(EngineId("hibari", "2/0.2.1", "f", "v"),),
)  # fmt: skip


def cluster(broker: Broker, *words: str) -> int:
    return main(["cluster", *words, "--broker", broker.url])


@pytest.fixture
def roll(broker: Broker) -> Any:
    link = broker.client
    yield WorkerRegistry(link)
    link.close()


def test_every_worker_is_told_of_in_full(
    broker: Broker, roll: WorkerRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    roll.write(GPU)
    roll.write(replace(GPU, name="old", instance="b", version="0.0.1", status="ready"))
    roll.write(replace(GPU, name="gone", instance="c"))
    broker.silence("gone")
    link = broker.client
    WorkerRegistry(link).write_coordinator(CoordinatorInfo(__version__, 1, host="h"))
    link.close()
    assert cluster(broker, "status", "--json") == 0
    said = capsys.readouterr().out
    found = json.loads(said)
    assert found["coordinator"]["host"] == "h"
    rows = {one["name"]: one for one in found["workers"]}
    assert all(set(one) == FIELDS for one in rows.values())
    attic = rows["attic"]
    assert 0 <= attic.pop("last_sign_s") < LEASE_S
    assert attic == {
        "name": "attic", "status": "busy", "state": "busy", "device_name": "RTX 4090",
        "device_memory_mb": 0, "engine": "hibari", "device_type": "cuda", "gpu_available": True,
        "gpu_count": 2, "gpu_memory_free_mb": 21_034, "tts_model_loaded": True,
        "cached_models": ["hibari fp16"], "device": "RTX 4090", "host": "attic.lan", "pid": 7,
        "speed": {"hibari": 5120.4}, "segments_done": 1812, "shards_done": 60,
        "versions": {"anyrig": __version__, "python": "3.12.1", "protocol": GPU.protocol,
                     "hibari": "2/0.2.1"},
        "trouble": "",
    }  # fmt: skip
    assert rows["old"]["trouble"] == f"it runs anyrig 0.0.1, this is {__version__}"
    assert rows["gone"]["status"] == LOST
    assert rows["gone"]["last_sign_s"] > LEASE_S
    assert rows["gone"]["device"] == "RTX 4090"

    assert cluster(broker) == 0
    text = capsys.readouterr().out
    words = "attic busy cuda (RTX 4090) 2 21034 hibari fp16 hibari 5,120 1,812"
    assert f"{words} {__version__} attic.lan" in " ".join(text.split())
    assert "1 of 3 workers can be given work" in text
    assert "gone: no heartbeat" in text


def test_a_coordinator_notices_who_comes_and_goes(broker: Broker, roll: WorkerRegistry) -> None:
    link = broker.client
    watch = RegistryWatch(WorkerRegistry(link))
    assert watch.poll() == []
    roll.write(GPU)
    roll.write(replace(GPU, name="cellar", instance="b"))
    assert sorted((what, one.name) for what, one in watch.poll()) == [
        ("joined", "attic"),
        ("joined", "cellar"),
    ]
    broker.silence("attic")
    roll.remove("cellar")
    assert sorted((what, one.name) for what, one in watch.poll()) == [
        ("left", "cellar"),
        ("lost", "attic"),
    ]
    (row,) = WorkerRegistry(link).read_status().rows
    assert (row.name, row.status) == ("attic", LOST)
    assert row.info == GPU
    assert row.last_sign_s is not None
    assert row.last_sign_s < 60
    roll.write(GPU)  # it was only asleep
    assert [(what, one.name) for what, one in watch.poll()] == [("joined", "attic")]
    assert [row.status for row in WorkerRegistry(link).read_status().rows] == ["busy"]
    link.close()


def test_letting_a_worker_go(
    broker: Broker, roll: WorkerRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    roll.write(GPU)
    assert cluster(broker, "drain", "attic") == 0
    assert roll.is_draining("attic")
    assert cluster(broker, "undrain", "attic") == 0
    assert not roll.is_draining("attic")
    assert cluster(broker, "drain", "atic") == 2
    assert "Did you mean attic?" in capsys.readouterr().err
    assert cluster(broker, "forget", "attic") == 2
    assert "drain attic" in capsys.readouterr().err
    broker.silence("attic")
    assert cluster(broker, "forget", "attic") == 0
    assert roll.list_names() == []
    for words in (["drain"], ["status", "attic"], ["dance"]):
        assert cluster(broker, *words) == 2, words


def test_a_machine_is_drained_by_one_name(
    broker: Broker, roll: WorkerRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 1):
        roll.write(replace(GPU, name=f"attic-cuda{number}", machine="attic"))
    roll.write(replace(GPU, name="cellar", machine="cellar"))
    assert cluster(broker, "drain", "attic", "--json") == 0
    drained = ["attic-cuda0", "attic-cuda1"]
    assert json.loads(capsys.readouterr().out) == {"action": "drain", "workers": drained}
    assert [row.name for row in roll.list_workers() if row.status == "draining"] == drained
    assert cluster(broker, "undrain", "attic.lan") == 0  # by the host's name: all of it
    assert not any(row.status == "draining" for row in roll.list_workers())


def test_waiting_until_a_worker_has_nothing_left(
    broker: Broker, roll: WorkerRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    roll.write(replace(GPU, tasks=("one",)))
    assert cluster(broker, "drain", "attic", "--wait", "--timeout", "0.1") == 1
    assert "attic still has work" in capsys.readouterr().err
    code: list[int] = []
    waiting = threading.Thread(
        target=lambda: code.append(cluster(broker, "drain", "attic", "--wait"))
    )
    waiting.start()
    roll.write(replace(GPU, tasks=("one",), status="draining"))
    assert not code
    roll.write(replace(GPU, tasks=(), status="draining"))
    waiting.join(20)
    assert code == [0]


def test_watching_goes_on_until_it_is_ended(
    broker: Broker, roll: WorkerRegistry, tmp_path: Path
) -> None:
    roll.write(GPU)
    process = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "cluster", "status", "--watch", "--interval", "0.1",
         "--json", "--broker", broker.url],
        stdout=subprocess.PIPE, text=True, env=person(tmp_path),
    )  # fmt: skip
    assert process.stdout is not None
    try:
        said = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert all(one["workers"][0]["name"] == "attic" for one in said)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        process.stdout.close()


# -- who else can reach it -------------------------------------------------------------------------


def told(url: str) -> list[str]:
    link = BrokerClient(url)
    try:
        return find_exposures(link)
    finally:
        link.close()


def test_a_broker_open_to_the_world_is_warned_about(
    broker: Broker, new_broker: Callable[..., Broker]
) -> None:
    assert told(broker.url) == []  # protected, and on this machine alone
    open = new_broker(config={"protected-mode": "no", "bind": "*"})
    assert "needs no password" in told(open.url)[0]
    assert told(open.url.replace("127.0.0.1", "10.255.255.1"))[0].endswith(
        "send tasks to the workers"
    )
    assert "without TLS" in told("redis://:secret@8.8.8.8:9/0")[-1]
    assert "secret" not in told("redis://:secret@8.8.8.8:9/0")[-1]


def test_a_password_that_nobody_needs_is_warned_about(
    broker: Broker, new_broker: Callable[..., Broker]
) -> None:
    lax = new_broker()
    with lax.redis as redis:
        redis.execute_command("ACL", "SETUSER", "anna", "on", ">secret", "~*", "&*", "+@all")
    url = lax.url.replace("redis://", "redis://anna:secret@")
    assert "responds without its password" in told(url)[0]
    with lax.redis as redis:
        redis.execute_command("ACL", "SETUSER", "default", "off")
    assert told(url) == []


def test_a_card_with_a_field_of_another_kind_is_none(roll: WorkerRegistry, broker: Broker) -> None:
    good = json.loads(GPU.to_json())
    assert parse_worker_info(json.dumps(good)) == GPU
    for field, bad in (
        ("name", 7), ("speeds", {"hibari": "fast"}), ("speeds", {"hibari": -1}), ("speeds", [1]),
        ("speeds", {"hibari": float("nan")}), ("tasks", [{}]), ("pid", "7"), ("pid", True),
        ("engines", [{"engine": 1, "version": "", "fingerprint": "", "voices": ""}]),
        ("precisions", {"hibari": [1]}), ("status", None), ("gpu_available", 1), ("heartbeat", 1.5),
    ):  # fmt: skip
        assert parse_worker_info(json.dumps({**good, field: bad})) is None, (field, bad)
    assert parse_worker_info(json.dumps({**good, "gpu_memory_free_mb": None})) is not None
    roll.write(GPU)
    roll.write(replace(GPU, name="cellar", instance="b"))
    with broker.redis as redis:  # one that says it is another
        redis.set("anyrig:worker:cellar", json.dumps(good), keepttl=True)
    assert set(roll.list_alive()) == {"attic"}


def test_a_name_is_taken_from_a_dead_worker_only(broker: Broker, roll: WorkerRegistry) -> None:
    fresh = replace(GPU, instance="fresh")
    assert roll.register(GPU) is None
    assert roll.register(fresh) == GPU
    assert roll.register(fresh, replaces=replace(GPU, instance="before")) == GPU  # it was quicker
    assert roll.register(fresh, replaces=GPU) is None
    assert not roll.owns_name(GPU)
    broker.silence("attic")
    assert roll.register(GPU) is None


def test_a_worker_whose_entry_has_expired_is_forgotten(
    broker: Broker, roll: WorkerRegistry
) -> None:
    watch = RegistryWatch(roll)
    roll.write(GPU)
    watch.poll()
    broker.silence("attic")
    watch.poll()
    assert roll.list_names() == ["attic"]
    with broker.redis as redis:
        redis.delete("anyrig:worker:attic")
    watch.poll()
    assert roll.list_names() == []


def test_a_worker_that_was_asked_to_leave_is_draining_at_once(
    broker: Broker, roll: WorkerRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    roll.write(replace(GPU, status="ready"))  # its next sign comes in two seconds

    def status() -> str:
        capsys.readouterr()
        assert cluster(broker, "status", "--json") == 0
        (row,) = json.loads(capsys.readouterr().out)["workers"]
        return str(row["status"])

    assert status() == "ready"
    assert cluster(broker, "drain", "attic") == 0
    assert status() == "draining"
    assert cluster(broker, "status") == 0
    told = capsys.readouterr().out
    assert "0 of 1 worker can be given work" in told
    assert "attic: draining" in told
    assert cluster(broker, "undrain", "attic") == 0
    assert status() == "ready"
