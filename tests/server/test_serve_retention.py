"""Finished jobs of one key outlive what others do, and the limits are those of the settings."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from anyrig.jobs.queue import JobOutcome
from anyrig.server.jobs import delete_expired
from tests.server.conftest import HERE, MakeApp
from tests.server.test_serve_shares import Clients


def submit(client: TestClient) -> str:
    arguments = {"lines": ["One."], "engine": "tone"}
    answer = client.post("/jobs", json={"kind": "batch", "arguments": arguments})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def finish(server: Any, id: str) -> Path:
    """Do the oldest queued job."""
    job = server.jobs.claim("worker")
    assert job.id == id
    file = Path(job.arguments["folder"]) / "out" / "0001.wav"
    file.write_bytes(b"RIFF")
    server.jobs.finish("worker", id, JobOutcome({"made": 1}))
    return file


def test_a_key_that_submits_and_cancels_erases_no_work(make_app: MakeApp) -> None:
    app = make_app("--require-keys", "--no-jobs")
    server = app.state.server
    server.jobs._max_unused = 3
    with TestClient(app, base_url=HERE) as client:
        clients = Clients(client)
        ann, bob = clients.add("ann"), clients.add("bob")
        done = {client: submit(client) for client in (ann, bob)}
        files = [finish(server, id) for id in done.values()]
        for _ in range(10):
            assert bob.post(f"/jobs/{submit(bob)}/cancel").status_code == 200
        submit(bob)
        for folder in (server.data_folder / "jobs").iterdir():
            os.utime(folder, (1, 1))
        delete_expired(server)
        for key, id in done.items():
            assert key.get(f"/jobs/{id}/files/1").content == b"RIFF"
        assert bob.get("/jobs").json()["counts"] == {
            "queued": 1, "running": 0, "paused": 0, "done": 1, "failed": 0, "cancelled": 3,
        }  # fmt: skip
        assert ann.delete(f"/jobs/{done[ann]}").status_code == 200
        assert [file.exists() for file in files] == [False, True]
        assert len(list((server.data_folder / "jobs").iterdir())) == 5


def test_limits_of_the_settings(make_app: MakeApp) -> None:
    variables = {"ANYRIG_SERVER_KEEP_JOBS_DAYS": "30", "ANYRIG_SERVER_MAX_JOBS_GB": "2.5"}
    app = make_app("--no-jobs", environment=variables)
    server = app.state.server
    with TestClient(app, base_url=HERE) as client:
        shown = client.get("/jobs").json()
        assert (shown["keep_jobs_days"], shown["max_jobs_gb"]) == (30, 2.5)
        now = time.time()
        server.jobs._clock = lambda: now - 31 * 86400
        old = submit(client)
        file = finish(server, old)
        server.jobs._clock = time.time
        new = submit(client)
        finish(server, new)
        delete_expired(server)
        assert client.get(f"/jobs/{old}").status_code == 404
        assert not file.exists()
        assert client.get(f"/jobs/{new}/files/1").content == b"RIFF"
