"""A data folder that cannot be written is answered with 507, and reading goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.server.conftest import HERE, MakeApp, environment_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts a folder as Linux does")
LINES = {"kind": "batch", "arguments": {"lines": ["Hello."], "engine": "tone"}}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The data folder, which `make_read_only` can mount."""
    folder = tmp_path / "home" / ".local" / "share" / "anyrig"
    folder.mkdir(parents=True)
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True).returncode:
        pytest.skip("a folder can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def make_read_only(data: Path) -> None:
    # Files that are open for writing would keep a real disk writable: a mount of it is not.
    subprocess.run(["mount", "-o", "remount,ro,bind", data], check=True)


def test_a_server_whose_data_cannot_be_written(make_app: MakeApp, data: Path) -> None:
    app: Any = make_app("--no-jobs")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        sent = client.post("/uploads", files={"files": ("a.txt", b"words")}).json()["files"][0]
        job = client.post("/jobs", json=LINES).json()["id"]
        app.state.server.jobs.file._disconnect()
        make_read_only(data)
        answers = {
            "upload": client.post("/uploads", files={"files": ("b.txt", b"words")}),
            "job": client.post("/jobs", json=LINES),
            "cancel": client.post(f"/jobs/{job}/cancel"),
            "delete job": client.delete(f"/jobs/{job}"),
            "delete upload": client.delete(f"/uploads/{sent['id']}"),
            "lexicon": client.put("/lexicon", json={"text": ""}),
            "recording": client.post(
                "/v1/audio/transcriptions", files={"file": ("a.wav", b"RIFF")}
            ),
            "document": client.post(
                "/documents/entities/upload", files={"files": ("a.txt", b"words")}
            ),
        }
        assert {name: one.status_code for name, one in answers.items()} == dict.fromkeys(
            answers, 507
        )
        for one in answers.values():
            assert one.headers["content-type"] == "application/problem+json"
            assert "permissions" in one.json()["hint"]
        assert client.get("/jobs").json()["jobs"][0]["id"] == job
        assert client.get("/uploads").json()["files"][0]["id"] == sent["id"]


@pytest.mark.parametrize(
    "words",
    [
        ("speak", "--lines", "lines.txt", "--engine", "tone", "--no-bench", "--queue"),
        ("jobs", "run"),
        ("index", "lines.txt", "--model", "hashing", "--no-bench"),
        ("serve", "--port", "0"),
    ],
)
def test_commands_say_in_one_line_that_data_cannot_be_written(
    data: Path, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("The tide came in.")
    make_read_only(data)
    environment = environment_of(tmp_path / "home")
    done = subprocess.run(
        [sys.executable, "-m", "anyrig", *words], env=environment, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    error, hint = done.stderr.strip().splitlines()[-2:]
    assert error.startswith("error: ")
    assert str(data) in error
    assert "ermissions" in hint
    assert os.listdir(data) == []
