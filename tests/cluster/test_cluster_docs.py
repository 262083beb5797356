"""The walk of docs/cluster.md on one machine: a coordinator with Flower, three workers of unequal
speed, one that is killed, one that is drained, and a book that is what one machine makes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyrig.cluster.broker import BrokerClient
from anyrig.cluster.registry import WorkerRegistry
from benchmarks.counting_engine import install_counting_engine
from benchmarks.harness import ROOT
from tests.cluster.conftest import Workers, person, story, until
from tests.cluster.test_cluster_coordinator import Run, lead  # noqa: F401 - a fixture

SPEEDS = {"attic": 0.004, "cellar": 0.004, "shed": 0.16}


@pytest.fixture
def counting(tmp_path: Path) -> Mapping[str, str]:
    """The environment of a machine with an engine whose speed can be set."""
    paths = [install_counting_engine(tmp_path / "plugin"), str(ROOT / "src"), str(ROOT)]
    return {"PYTHONPATH": os.pathsep.join(paths), "COUNTING_LOG": str(tmp_path / "counted")}


@pytest.mark.slow
def test_the_walk_of_the_documentation(
    lead: Callable[..., Run],  # noqa: F811
    workers: Workers,
    counting: Mapping[str, str],
    tmp_path: Path,
) -> None:
    run = lead("--flower", "--flower-port", "0")
    token, secret = run.said["token"], (run.said["flower_user"], run.said["flower_password"])
    started = {}
    for name, char_s in SPEEDS.items():
        environment = {**counting, "COUNTING_CHAR_S": str(char_s), "WORKER_ID": name}
        (started[name],) = workers(
            1, "--join", token, url="-", name=name, named=False, wait=False,
            environment=environment,
        )  # fmt: skip
    client = BrokerClient(run.url)
    registry = WorkerRegistry(client)
    until(
        lambda: [one.status for one in registry.list_alive().values()] == ["ready"] * 3, 90,
        what="three workers",
    )  # fmt: skip

    def flower(path: str) -> Any:
        return httpx.get(
            f"{run.said['flower']}/api/{path}", auth=secret, timeout=20, trust_env=False
        ).json()

    until(lambda: len(flower("workers?refresh=1")) == 3, what="Flower")
    Path("b.txt").write_text(story(2, 60), encoding="utf-8")
    book = ("book", "b.txt", "--engine", "counting", "--device", "cpu")
    making = subprocess.Popen(
        [sys.executable, "-m", "anyrig", *book, "-o", "cluster.m4b", "--cluster", token],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=person(tmp_path / "client", counting),
    )  # fmt: skip
    try:
        until(lambda: registry.list_alive()["attic"].shards_done > 1, 90, what="its first tasks")
        started["cellar"].kill()
        drained = subprocess.run(
            [sys.executable, "-m", "anyrig", "cluster", "drain", "shed", "--wait", "--json",
             "--broker", token],
            capture_output=True, text=True, env=person(tmp_path / "operator"), timeout=90,
        )  # fmt: skip
        assert drained.returncode == 0, drained.stderr
        assert json.loads(drained.stdout) == {"action": "drain", "workers": ["shed"]}
        assert started["shed"].process.wait(60) == 0, started["shed"].log()
        _, errors = making.communicate(timeout=180)
    finally:
        making.kill()
        making.communicate()
    assert making.returncode == 0, errors
    assert "cellar (" in errors  # who was lost is named
    tasks = flower("tasks").values()
    assert {"anyrig.run_items"} <= {one["name"] for one in tasks}
    assert all("Sentence number" not in json.dumps(one) for one in tasks)
    local = subprocess.run(
        [sys.executable, "-m", "anyrig", *book, "-o", "local.m4b"],
        capture_output=True, text=True, env=person(tmp_path / "alone", counting), timeout=300,
    )  # fmt: skip
    assert local.returncode == 0, local.stderr
    assert Path("cluster.m4b").read_bytes() == Path("local.m4b").read_bytes()
    status = {row.name: row.status for row in registry.read_status().rows}
    client.close()
    assert status["attic"] in ("ready", "busy")
    assert status["cellar"] == "lost"
    assert "shed" not in status
    assert run.end() == 0
