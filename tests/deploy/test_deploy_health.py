"""The health checks of the image: what a container is started anew for, and what not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from anyrig.app.heartbeat_file import HeartbeatFile
from anyrig.cluster.broker import BrokerClient
from anyrig.cluster.registry import LOST_S, WorkerInfo, WorkerRegistry
from anyrig.version import __version__
from tests.cluster.conftest import Broker, Workers, until
from tests.deploy import files
from tests.deploy.files import DOCKER
from tests.storage.redis_server import free_port

HEALTH = DOCKER / "healthcheck.py"


def check(role: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HEALTH), role], capture_output=True, text=True, env=environment
    )


def said(role: str, environment: dict[str, str]) -> str:
    """Why it is not well; empty where it is."""
    done = check(role, environment)
    assert done.returncode == (1 if done.stderr else 0)
    return done.stderr.strip()


def around(program: Path, folder: Path, broker: str) -> dict[str, str]:
    path = f"{program}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "REDIS_URL": broker, "ANYRIG_BEATS": str(folder)}


def grow_old(path: Path, by_s: float) -> None:
    moment = time.time() - by_s
    os.utime(path, (moment, moment))


def _join(link: BrokerClient, name: str) -> None:
    """A worker's sign of life, which stays however slow this machine is."""
    WorkerRegistry(link).write(WorkerInfo(name, __version__))
    link.redis.expire(link.key("worker", name), 2 * LOST_S)


def test_a_worker_is_well_while_it_beats_and_nobody_asks_the_broker(
    program: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "beats"
    # Nothing listens there, and whoever called anyrig would be told so.
    environment = around(program, folder, f"redis://127.0.0.1:{free_port()}/0")
    (program / "anyrig").write_text("#!/bin/sh\necho asked >> $ANYRIG_BEATS/../asked\nexit 1\n")
    assert said("worker", environment) == "no beat yet"
    one, other = HeartbeatFile(environment, "w1-cuda0"), HeartbeatFile(environment, "w1-cuda1")
    one()
    assert said("worker", environment) == ""  # it waits for the broker, and has no name yet
    one("w1-cuda0")
    other("w1-cuda1")
    grow_old(folder / "w1-cuda0", 120)
    assert said("worker", environment) == ""  # a host that swallows everything takes its time
    grow_old(folder / "w1-cuda1", 400)
    for role in ("worker", "coordinator"):
        assert said(role, environment).startswith("w1-cuda1 has not beaten for 40")
    other.delete()  # it left by itself
    assert said("worker", environment) == ""
    (folder / "w1-cuda0~").write_text("half")
    grow_old(folder / "w1-cuda0~", 400)
    assert said("worker", environment) == ""  # was about to be written when its process died
    assert not (tmp_path / "asked").exists()
    assert check("nobody", environment).returncode == 1


def test_a_worker_has_joined_by_the_names_that_it_has(broker: Broker, program: Path) -> None:
    folder = program.parent / "beats"
    environment = around(program, folder, broker.url)
    assert said("joined", environment) == "no worker has joined"
    pod = "anyrig-worker-gpu-" + 40 * "x"  # the worker's own name is cut
    HeartbeatFile(environment, ".all")()
    beat = HeartbeatFile(environment, pod)
    beat()
    assert said("joined", environment) == f"{pod} has not joined"
    beat(pod[:48])
    with broker.client_open() as link:
        _join(link, f"{pod[:48]}-2")  # somebody else's, which is lost
        link.redis.delete(link.key("worker", f"{pod[:48]}-2"))
        assert said("joined", environment) == f"no sign of {pod[:48]}"
        _join(link, pod[:48])
        assert said("joined", environment) == ""
        link.redis.delete(link.key("worker", pod[:48]))  # as when it falls silent
        assert said("joined", environment) == f"no sign of {pod[:48]}"


def test_a_real_worker_outlives_its_broker_and_is_well(
    new_broker: Callable[..., Broker], workers: Workers, program: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "beats"
    over = new_broker()
    environment = around(program, folder, over.url)
    (worker,) = workers(1, broker=over, environment={"ANYRIG_BEATS": str(folder)})
    until(lambda: (folder / "w1").read_text() == "w1", what="its beat")
    assert said("worker", environment) == said("joined", environment) == ""

    over.stop(kill=True)
    grow_old(folder / "w1", 400)
    until(lambda: said("worker", environment) == "", what="a beat without a broker")
    assert "does not respond" in said("joined", environment)
    worker.signal(signal.SIGSTOP)  # this one does hang
    grow_old(folder / "w1", 400)
    time.sleep(3)
    assert re.match(r"w1 has not beaten for 4\d\d", said("worker", environment))
    assert worker.end() == 0
    assert list(folder.iterdir()) == []


def test_a_worker_that_waits_for_its_first_broker_is_well(
    workers: Workers, program: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "beats"
    url = f"redis://127.0.0.1:{free_port()}/0"
    environment = around(program, folder, url)
    workers(1, url=url, wait=False, environment={"ANYRIG_BEATS": str(folder)})
    until(lambda: said("worker", environment) == "", what="its first beat")
    grow_old(folder / "w1", 400)
    until(lambda: said("worker", environment) == "", what="the next one")
    assert said("joined", environment) == "w1 has not joined"


def test_several_nodes_beat_each_for_itself(
    broker: Broker, workers: Workers, program: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "beats"
    environment = around(program, folder, broker.url)
    workers(1, "--nodes", "2", wait=False, environment={"ANYRIG_BEATS": str(folder)})
    until(lambda: said("joined", environment) == "", what="both to join")
    assert {path.name for path in folder.iterdir()} == {".all", "w1-1", "w1-2"}
    with broker.client_open() as link:
        WorkerRegistry(link).drain("w1-2", on=True)
    until(lambda: not (folder / "w1-2").exists(), what="one to leave")
    assert said("worker", environment) == said("joined", environment) == ""


def test_a_container_begins_without_the_beats_of_the_last_one(program: Path) -> None:
    folder = program.parent / "beats"
    environment = around(program, folder, "redis://127.0.0.1:9/0")
    HeartbeatFile(environment, "of-a-gpu-that-is-gone")("w1")
    (program / "anyrig").write_text("#!/bin/sh\nexit 0\n")
    subprocess.run([str(DOCKER / "entrypoint"), "worker"], check=True, env=environment)
    assert not folder.exists()
    for target in files.TARGETS:  # and it is the same folder that the check looks at
        assert files.variables(target)["ANYRIG_BEATS"] == "/tmp/anyrig-beats"
