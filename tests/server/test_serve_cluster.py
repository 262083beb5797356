"""A server that works over a cluster: a real broker, a real worker."""

from __future__ import annotations

import json
from typing import Any

from fastapi.testclient import TestClient

from anyrig.server.auth import find_scopes
from tests.cluster.conftest import Broker, Workers, until
from tests.server.conftest import Server, Start


def told(server: Server) -> Any:
    return server.client.get("/cluster").json()


def rows(server: Server) -> dict[str, Any]:
    return {str(one["name"]): one for one in told(server)["workers"]}


def test_without_a_cluster_there_is_none(app_client: TestClient) -> None:
    assert app_client.get("/cluster").json()["joined"] is False
    refused = app_client.put("/cluster/workers/w1", json={"drain": True})
    assert refused.status_code == 404
    assert "--cluster" in refused.json()["hint"]
    assert app_client.get("/health").json()["cluster"] == []


def test_looking_needs_less_than_changing() -> None:
    assert find_scopes("GET", "/cluster", wants_html=False) == ("read",)
    assert find_scopes("PUT", "/cluster/workers/w1", wants_html=False) == ("admin",)
    assert find_scopes("DELETE", "/cluster/workers/w1", wants_html=False) == ("admin",)


def test_speech_and_jobs_are_made_by_the_workers(
    broker: Broker, workers: Workers, start: Start
) -> None:
    (worker,) = workers(1)
    server = start("--cluster", broker.url, "--no-page")
    until(lambda: rows(server)["w1"]["status"] == "ready" if rows(server) else False)
    heard = server.client.post(
        "/v1/audio/speech", json={"input": "Over there.", "model": "tone", "response_format": "wav"}
    )
    assert heard.status_code == 200, heard.text
    assert heard.content[:4] == b"RIFF"
    until(lambda: broker.living()["w1"].segments_done > 0, what="its next sign of life")
    health = server.client.get("/health").json()
    assert health["workers"] == []  # no process of this machine speaks
    assert [one["name"] for one in health["cluster"]] == ["w1"]

    # A job goes there too; while it is made, somebody who listens does not wait for its end.
    lines = [f"Line number {n} of many that take their time to be said." for n in range(200)]
    slow = {"sleep_s": 0.01}
    job = server.client.post("/jobs", json={"kind": "batch", "arguments": {
        "lines": lines, "engine": "tone", "set": slow}}).json()  # fmt: skip
    stored = server.client.get(f"/jobs/{job['id']}").json()
    assert broker.url not in json.dumps(stored)
    until(lambda: broker.living()["w1"].tasks, what="a shard of the job")
    heard = server.client.post("/v1/audio/speech", json={
        "input": "Me first.", "model": "tone", "options": slow, "response_format": "wav",
    })  # fmt: skip
    assert heard.status_code == 200, heard.text
    assert server.client.get(f"/jobs/{job['id']}").json()["state"] == "running"

    # Cancelling reaches the shard that is being made: far from all lines were spoken.
    server.client.post(f"/jobs/{job['id']}/cancel")
    until(lambda: server.client.get(f"/jobs/{job['id']}").json()["state"] == "cancelled")
    until(lambda: not broker.living()["w1"].tasks, what="the worker to be free")
    assert broker.living()["w1"].segments_done < len(lines)

    # Draining lets it leave; a server without workers says so, and does not hang for ever.
    answer = server.client.put("/cluster/workers/w1", json={"drain": True})
    assert answer.status_code == 200
    until(lambda: worker.process.poll() is not None, what="the worker to leave")
    assert server.client.put("/cluster/workers/w1x", json={"drain": True}).status_code == 404


def test_a_broker_that_is_away_is_told_of(start: Start) -> None:
    server = start("--cluster", "redis://:secret@127.0.0.1:9/0")
    until(lambda: told(server)["state"] == "away")
    found = told(server)
    assert "does not respond" in found["error"]
    assert found["broker"] == "redis://:***@127.0.0.1:9/0"
    health = server.client.get("/health")
    assert health.status_code == 200  # everything else is served
    assert "does not respond" in health.json()["problems"][0]
    heard = server.client.post("/v1/audio/speech", json={"input": "Hello.", "model": "tone"})
    assert heard.status_code == 503
    assert "secret" not in heard.text + server.log()
