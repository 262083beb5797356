"""The event loop is free for others: whatever reads or writes files does so in a thread."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

_WATCHED = ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.utime",
            "shutil.rmtree")  # fmt: skip
_seen: list[str] = []
_state = {"watching": False, "hooked": False}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _state["watching"] and event in _WATCHED and asyncio._get_running_loop() is not None:
        path = str(arguments[0])
        if "/site-packages/" not in path and not path.endswith((".py", ".pyc")):
            _seen.append(f"{event} {path}")


@pytest.fixture
def on_the_loop() -> Iterator[list[str]]:
    """Files that are touched by the thread of the event loop."""
    if not _state["hooked"]:
        sys.addaudithook(_hook)
        _state["hooked"] = True
    _seen.clear()
    _state["watching"] = True
    yield _seen
    _state["watching"] = False


class _DoneTask(Future[Any]):
    began = None


class _NoWorkers:
    """Answers every task at once, without a process."""

    def submit(self, task: str, given: Mapping[str, Any], **more: Any) -> Future[Any]:
        done = _DoneTask()
        if "output" in given:
            Path(given["output"]).write_bytes(b"%PDF-1.7")
        rows = {"indexes": [], "failed": []} if task == "indexes" else [{"result": {}}]
        done.set_result(rows if task != "classifiers" else [])
        return done


@pytest.fixture
def client(app_client: TestClient) -> TestClient:
    app: Any = app_client.app
    app.state.server.documents = _NoWorkers()
    return app_client


def test_files_that_come_with_a_request_are_not_touched_on_the_loop(
    client: TestClient, on_the_loop: list[str]
) -> None:
    letter = {"files": ("letter.txt", b"The rent is due on Monday, 5 May 2025.")}
    for task, data in (
        ("entities", {}), ("summarise", {}), ("analyse", {"format": "json"}),
        ("classify", {"labels": "a,b"}), ("similar", {"index": "none"}), ("ocr", {}),
        ("ocr", {"format": "pdf"}),
    ):  # fmt: skip
        answer = client.post(f"/documents/{task}/upload", files=letter, data=data)
        assert answer.status_code in (200, 404), answer.text
    assert answer.content == b"%PDF-1.7"
    answer = client.post("/uploads", files=letter)
    assert answer.status_code == 201, answer.text
    number = answer.json()["files"][0]["id"]
    for path in ("/uploads", f"/uploads/{number}", f"/uploads/{number}/content",
                 "/documents/indexes", "/documents/indexes/none", "/documents/classifiers",
                 "/jobs", "/runs", "/health", "/config", "/lexicon", "/devices"):  # fmt: skip
        assert client.get(path).status_code in (200, 404, 503), path
    assert client.delete(f"/uploads/{number}").status_code == 200
    wrong = {"file": ("a.wav", b"RIFF")}
    client.post("/v1/audio/transcriptions", files=wrong, data={"model": "/nowhere/model"})
    assert on_the_loop == []


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": []}, [[]], [{}], {"a": {"b": [1, 2.5, None, True, "é\u2028"]}}, ["x"] * 10_000,
     {"rows": [{"box": [1, 2, 3, 4], "text": "a"}, {"box": [], "text": ""}], "n": 0},
     [list(range(9000)), "end"], "text", 5],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_what_is_written_in_pieces_is_json(value: Any) -> None:
    from anyrig.server.json_body import dump

    assert json.loads(dump(value)) == value
