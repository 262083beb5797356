"""A full disk is answered with 507; nothing is left half made, and work goes on afterwards."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.server.conftest import MakeApp

Fill = Callable[..., None]


@pytest.fixture
def client(make_app: MakeApp) -> Iterator[TestClient]:
    app = make_app("--no-jobs")
    with TestClient(
        app, base_url="http://127.0.0.1:3000", raise_server_exceptions=False
    ) as client:  # fmt: skip
        yield client


@pytest.fixture
def fill(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Lets calls of the system fail below the server's data, as they do where no space is left."""
    app: Any = client.app
    data = str(app.state.server.data_folder)

    def full(*names: str, code: int = errno.ENOSPC) -> None:
        for name in names:
            real = getattr(os, name)

            def failing(path: Any, *more: Any, real: Any = real, **options: Any) -> Any:
                if isinstance(path, str | Path) and str(path).startswith(data):
                    writes = not more or not isinstance(more[0], int) or more[0] & os.O_CREAT
                    if writes:
                        raise OSError(code, os.strerror(code), str(path))
                return real(path, *more, **options)

            monkeypatch.setattr(os, name, failing)

    return full


def _check(answer: Any) -> None:
    assert answer.status_code == 507, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "disk is full" in answer.json()["title"]
    assert "space" in answer.json()["hint"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_an_upload_where_no_space_is_left(
    client: TestClient, fill: Fill, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    with monkeypatch.context():
        fill("open", code=code)
        _check(client.post("/uploads", files={"files": ("a.txt", b"words")}))
        _check(client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"RIFF")}))
        _check(client.post("/documents/entities/upload", files={"files": ("a.txt", b"words")}))
    monkeypatch.undo()
    assert client.get("/uploads").json()["files"] == []
    assert client.post("/uploads", files={"files": ("a.txt", b"words")}).status_code == 201


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_an_upload_that_may_not_be_written(client: TestClient, fill: Fill, code: int) -> None:
    fill("open", code=code)
    answer = client.post("/uploads", files={"files": ("a.txt", b"words")})
    assert answer.status_code == 507
    assert "may not read or write its data" in answer.json()["title"]
    assert "permissions" in answer.json()["hint"]


def test_an_upload_whose_last_bytes_find_no_space(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", failing)
    _check(client.post("/uploads", files={"files": ("a.txt", b"words")}))
    monkeypatch.undo()
    app: Any = client.app
    assert list((app.state.server.data_folder / "uploads").iterdir()) == []


def test_a_job_where_no_space_is_left(
    client: TestClient, fill: Fill, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"kind": "batch", "arguments": {"lines": ["Hello."], "engine": "tone"}}
    fill("mkdir")
    _check(client.post("/jobs", json=body))
    monkeypatch.undo()
    assert client.get("/jobs").json()["jobs"] == []
    assert client.post("/jobs", json=body).status_code == 201


def test_a_job_that_the_list_of_jobs_has_no_space_for(client: TestClient) -> None:
    app: Any = client.app
    state = app.state.server
    body = {"kind": "batch", "arguments": {"lines": ["Hello."], "engine": "tone"}}
    assert client.post("/jobs", json=body).status_code == 201

    def bounded(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are

    state.jobs.file.read(bounded)
    long = {**body, "arguments": {"lines": ["Hello. " * 100] * 25, "engine": "tone"}}
    for _ in range(50):
        answer = client.post("/jobs", json=long)
        if answer.status_code != 201:
            break
    _check(answer)
    root = state.data_folder / "jobs"
    assert len(list(root.iterdir())) == len(client.get("/jobs").json()["jobs"])


def test_a_lexicon_where_no_space_is_left(client: TestClient, fill: Fill) -> None:
    fill("open")
    _check(client.put("/lexicon", json={"text": '[[say]]\nword = "GIF"\nsay = "jif"\n'}))


def test_work_on_documents_that_finds_no_space(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of another process says why it failed by the class of its error alone."""
    from anyrig.errors import StorageError, error_from_dict, error_to_dict

    app: Any = client.app
    failed = StorageError("pages.pdf was not written", hint="Look.")
    failed.__cause__ = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def submit(*arguments: Any, **options: Any) -> Any:
        raise error_from_dict(error_to_dict(failed))

    monkeypatch.setattr(app.state.server.documents, "submit", submit)
    answer = client.post("/documents/entities", json={"texts": ["x"], "engine": "grammar"})
    assert answer.status_code == 507, answer.text
