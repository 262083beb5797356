"""Health from outside: loading, ready, killed, silent, healed, idle, short of memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from fastapi.testclient import TestClient

from tests.server.conftest import MakeApp, Server, Start, environment_of
from tests.waiting import wait_until

FIELDS = {"status", "device_type", "gpu_available", "gpu_count", "gpu_memory_free_mb",
          "tts_model_loaded", "cached_models"}  # fmt: skip
QUICK = {"ANYRIG_SPEECH_ENGINE": "tone", "ANYRIG_DOCUMENTS_MODEL": "hashing"}
"""Engines that load at once and compute next to nothing."""
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def until(server: Server, asked: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    """What `/health` says once something holds of it."""

    def matching() -> dict[str, Any] | None:
        answer = server.client.get("/health")
        told: dict[str, Any] = answer.json()
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) > 0
            assert answer.headers["content-type"] == "application/problem+json"
            assert told["status"] == 503
        return told if asked(answer.status_code, told) else None

    return wait_until(matching)


def embed(server: Server) -> httpx.Response:
    return server.client.post("/v1/embeddings", json={"model": "hashing", "input": "a text"})


def speak(server: Server, text: str = "Hello there.") -> httpx.Response:
    wish = {"model": "tone", "input": text, "voice": "alloy", "response_format": "pcm"}
    return server.client.post("/v1/audio/speech", json=wish)


def rows(told: dict[str, Any]) -> list[tuple[str, int, dict[str, Any]]]:
    """Each worker: its model, its process and its fields."""
    found = []
    for name, row in zip(told["worker_ids"], told["workers"], strict=True):
        model, _, pid = name.rpartition(":")
        found.append((model, int(pid), row))
    return found


# -- within this process ---------------------------------------------------------------------------


def test_a_fresh_server_is_ready_and_has_no_worker(app_client: TestClient) -> None:
    answer = app_client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "state": "ready", "workers": [],
                             "worker_ids": [], "models": [], "problems": [],
                             "cluster": []}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("is_ready", False, "starting"),
        ("preload_error", "speech could not be loaded: no voice", "failed"),
        ("is_ending", True, "ending"),
    ],
)
def test_one_that_is_not_ready_says_so_and_still_lives(
    app_client: TestClient, field: str, value: Any, name: str
) -> None:
    setattr(app_client.app.state.server, field, value)  # type: ignore[attr-defined]
    answer = app_client.get("/health")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) > 0
    told = answer.json()
    assert (told["ready"], told["state"], told["status"]) == (False, name, 503)
    assert told["problems"] == ([value] if field == "preload_error" else [])
    alive = app_client.get("/health/live")
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})


def test_probes_need_no_key(make_app: MakeApp) -> None:
    with TestClient(make_app("--require-keys"), base_url="http://127.0.0.1:3000") as client:
        assert client.get("/health/live").status_code == 200


def test_a_word_that_cannot_be_preloaded_is_refused_at_the_start(tmp_path: Path) -> None:
    order = [sys.executable, "-m", "anyrig", "serve", "--port", "0", "--preload", "speech, speach"]
    done = subprocess.run(
        order, env=environment_of(tmp_path), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--preload must be one of" in done.stderr
    assert "'speach'" in done.stderr
    assert "speech, embeddings, documents, entities, summarise, classify" in done.stderr


def test_a_model_that_cannot_be_preloaded_is_told(start: Start) -> None:
    missing = {**QUICK, "ANYRIG_DOCUMENTS_MODEL": "/nowhere/at/all"}
    server = start("--preload", "embeddings", environment=missing)
    told = until(server, lambda status, told: told["state"] != "starting")
    assert told["state"] == "failed"
    assert "/nowhere/at/all" in told["problems"][0]
    assert (
        speak(server).status_code == 200
    )  # what was not asked for at the start works all the same


def test_tasks_on_documents_can_be_preloaded(start: Start) -> None:
    words = "documents, entities,summarise,classify"
    server = start("--preload", words, environment=QUICK)
    told = until(server, lambda status, told: told["state"] != "starting")
    assert (told["state"], told["problems"]) == ("ready", [])
    assert told["models"] == ["documents"]
    until(server, lambda status, told: len(told["workers"][0]["cached_models"]) >= 2)
    told = server.client.get("/health").json()
    for name in (*told["workers"][0]["cached_models"], *told["models"], *told["worker_ids"]):
        assert not re.search(r"\b(True|False|None)\b|[0-9a-f]{12}|/", name), name
        assert name.startswith(("documents", "entities by ", "embeddings ", "choice of model",
                                "file reader")), name  # fmt: skip


# -- a real server ---------------------------------------------------------------------------------


@posix
def test_workers_are_told_as_they_are_killed_frozen_and_healed(start: Start) -> None:
    server = start("--preload", "speech,embeddings", environment=QUICK)
    told = until(server, lambda status, told: status == 200)
    assert told["state"] == "ready"
    assert [name.split()[0] for name in told["models"]] == ["embeddings", "speech"]
    for model, pid, worker in rows(told):
        assert set(worker) == FIELDS
        assert worker["status"] in ("ready", "busy")
        assert worker["device_type"] == "cpu"
        assert worker["gpu_available"] == (worker["gpu_count"] > 0)
        assert worker["cached_models"]
        assert worker["tts_model_loaded"] == model.startswith("speech")
        assert psutil.pid_exists(pid)
    victims = {pid for _, pid, worker in rows(told) if worker["tts_model_loaded"]}
    assert victims
    _killed_and_healed(server, victims)
    _frozen_and_thawed(server)


def _killed_and_healed(server: Server, victims: set[int]) -> None:
    for pid in victims:
        os.kill(pid, signal.SIGKILL)

    def healed(status: int, told: dict[str, Any]) -> bool:
        dead = {pid for _, pid, worker in rows(told) if worker["status"] == "dead"}
        fresh = [w for w in told["workers"] if w["tts_model_loaded"]]
        return status == 200 and dead == victims and len(fresh) == len(victims)

    told = until(server, healed)
    assert len(told["problems"]) == len(victims)
    assert all(str(pid) in " ".join(told["problems"]) for pid in victims)
    gone = [w for w in told["workers"] if w["status"] == "dead"]
    assert all(w["cached_models"] == [] and not w["tts_model_loaded"] for w in gone)
    answer = speak(server, "It speaks again.")
    assert answer.status_code == 200
    assert len(answer.content) > 1000


def _frozen_and_thawed(server: Server) -> None:
    """A worker that is stopped says nothing: it hangs, and a model that has no other is stalled."""
    told = server.client.get("/health").json()
    frozen = [pid for _, pid, worker in rows(told) if worker["tts_model_loaded"]]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        told = until(server, lambda status, told: told["state"] == "stalled")
        assert "\nanyrig_ready 0.0\n" in server.client.get("/metrics").text
        hangs = {pid for _, pid, worker in rows(told) if worker["status"] == "hangs"}
        assert hangs == set(frozen)
        assert any("has not responded" in problem for problem in told["problems"])
        assert embed(server).status_code == 200  # the others are not held up
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    until(server, lambda status, told: status == 200)
    assert speak(server, "It goes on.").status_code == 200


def test_an_idle_model_is_unloaded_and_comes_back(start: Start) -> None:
    server = start(environment={**QUICK, "ANYRIG_SERVER_IDLE_S": "3"})
    for _ in range(2):
        assert embed(server).status_code == 200
        told = until(server, lambda status, told: status == 200)
        workers = [psutil.Process(pid) for _, pid, _ in rows(told)]
        assert workers
        until(server, lambda status, told: not told["models"])
        assert psutil.wait_procs(workers, timeout=30)[1] == []


def test_idle_models_go_when_memory_is_short(start: Start) -> None:
    server = start(environment={**QUICK, "ANYRIG_SERVER_MEMORY_FREE_MB": "90000000"})
    assert embed(server).status_code == 200
    assert speak(server).status_code == 200
    until(server, lambda status, told: not told["models"])
    figures = server.client.get("/metrics").text
    assert 'anyrig_model_unloads_total{reason="memory"} 2.0' in figures


@posix
def test_a_server_that_ends_leaves_nothing_behind(start: Start) -> None:
    server = start("--preload", "speech", environment=QUICK)
    until(server, lambda status, told: status == 200)
    children = psutil.Process(server.process.pid).children(recursive=True)
    assert children
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
