"""Training runs over HTTP: real folders, written as training writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anyrig.training import runs
from anyrig.training.config_file import ConfigFile
from anyrig.training.runs import TrainingResult


def begun(registry: Path, folder: Path) -> runs.Run:
    data = folder.parent / "secret place" / "book.txt"
    config = ConfigFile(
        folder.parent / "language.toml", folder.parent, "[task]\n",
        {"kind": "language", "text": str(data)}, {"steps": 600},
    )  # fmt: skip
    run = runs.create_run(folder, config, config.train, {})
    registry.mkdir(parents=True, exist_ok=True)
    runs.register_run(registry, run)
    return run


def step(number: int, loss: float | None) -> str:
    return json.dumps(
        {"kind": "step", "step": number, "epoch": 0, "loss": loss, "rate": 0.001, "step_s": 0.1,
         "memory_peak_bytes": 1000 + number, "elapsed_s": number / 10, "time_s": 1.0}
    )  # fmt: skip


@pytest.fixture
def registry(app_client: TestClient) -> Path:
    found: Path = app_client.app.state.server.rig.folders.runs  # type: ignore[attr-defined]
    return found


def test_a_run_is_listed_told_and_drawn(
    app_client: TestClient, registry: Path, tmp_path: Path
) -> None:
    assert app_client.get("/runs").json() == {"runs": []}
    run = begun(registry, tmp_path / "runs" / "language-1")
    runs.write_state(run.folder, "running", steps=600)
    lines = [step(n, 5 - n / 200) for n in range(1, 501)]
    lines.insert(3, json.dumps({"kind": "validation", "step": 3, "figures": {"loss": 4.0}}))
    lines += [step(501, None), '{"kind": "step", "st']  # torn by a kill
    (run.folder / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (found,) = app_client.get("/runs").json()["runs"]
    assert (found["name"], found["kind"], found["state"]) == ("language-1", "language", "running")
    assert (found["step"], found["steps"], found["job"]) == (501, 600, None)

    summary = app_client.get(f"/runs/{found['id']}").json()
    assert summary["task"] == {"kind": "language", "text": "book.txt"}
    assert str(tmp_path) not in json.dumps(summary)
    assert summary["result"] is None
    runs.write_result(run.folder, TrainingResult(str(run.folder), finished=True, loss=1.5))
    assert app_client.get(f"/runs/{found['id']}").json()["result"]["loss"] == 1.5

    history = app_client.get(f"/runs/{found['id']}/history").json()
    assert [row["step"] for row in history["rows"]] == list(range(1, 502))
    assert history["rows"][9]["memory_bytes"] == 1010
    assert history["rows"][-1]["loss"] is None
    assert history["others"] == [{"kind": "validation", "step": 3, "figures": {"loss": 4.0}}]
    few = app_client.get(f"/runs/{found['id']}/history", params={"most": 20}).json()["rows"]
    assert len(few) <= 20
    assert (few[0]["step"], few[-1]["step"]) == (1, 501)
    gaps = {b["step"] - a["step"] for a, b in zip(few[:-2], few[1:-1], strict=True)}
    assert len(gaps) == 1  # evenly thinned
    new = app_client.get(f"/runs/{found['id']}/history", params={"after": 499}).json()["rows"]
    assert [row["step"] for row in new] == [500, 501]


def test_what_is_not_there_is_a_problem(
    app_client: TestClient, registry: Path, tmp_path: Path
) -> None:
    run = begun(registry, tmp_path / "runs" / "gone")
    id = runs.make_run_id(run.folder)
    assert app_client.get(f"/runs/{id}").status_code == 200
    os.rename(run.folder, tmp_path / "elsewhere")
    assert app_client.get("/runs").json() == {"runs": []}
    for path in (f"/runs/{id}", f"/runs/{id}/history", "/runs/..%2F..%2Fetc", "/runs/x/history"):
        assert app_client.get(path).status_code == 404
    assert app_client.get(f"/runs/{id}/history", params={"most": 0}).status_code == 422
