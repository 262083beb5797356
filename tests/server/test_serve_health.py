"""Health from outside: loading, ready, killed, silent, healed, idle, short of memory."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import psutil
import pytest
from fastapi.testclient import TestClient

from tests.server.conftest import Server, Start

FIELDS = {"status", "device_type", "gpu_available", "gpu_count", "gpu_memory_free_mb",
          "tts_model_loaded", "cached_models"}  # fmt: skip
QUICK = {"ANYRIG_SPEECH_ENGINE": "tone", "ANYRIG_DOCUMENTS_MODEL": "hashing"}
"""Engines that load at once and compute next to nothing."""
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def until(server: Server, asked: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    """What `/health` says once something holds of it; two minutes are far more than it takes."""
    end = time.monotonic() + 120
    while True:
        answer = server.client.get("/health")
        told: dict[str, Any] = answer.json()
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) > 0
            assert answer.headers["content-type"] == "application/problem+json"
            assert told["status"] == 503
        if asked(answer.status_code, told):
            return told
        assert time.monotonic() < end, told
        time.sleep(0.05)


def embed(server: Server) -> httpx.Response:
    return server.client.post("/v1/embeddings", json={"model": "hashing", "input": "a text"})


def speak(server: Server, text: str = "Hello there.") -> httpx.Response:
    wish = {"model": "tone", "input": text, "voice": "alloy", "response_format": "pcm"}
    return server.client.post("/v1/audio/speech", json=wish)


def rows(told: dict[str, Any]) -> list[tuple[str, int, dict[str, Any]]]:
    found = []
    for name, row in zip(told["worker_ids"], told["workers"], strict=True):
        model, _, pid = name.rpartition(":")
        found.append((model, int(pid), row))
    return found


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
    assert "\nanyrig_ready 0.0\n" in app_client.get("/metrics").text
    alive = app_client.get("/health/live")
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})


def test_a_model_that_cannot_be_preloaded_is_told(start: Start) -> None:
    missing = {**QUICK, "ANYRIG_DOCUMENTS_MODEL": "/nowhere/at/all"}
    server = start("--preload", "embeddings", environment=missing)
    told = until(server, lambda status, told: told["state"] != "starting")
    assert told["state"] == "failed"
    assert "/nowhere/at/all" in told["problems"][0]
    assert (
        speak(server).status_code == 200
    )  # what was not asked for at the start works all the same


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
