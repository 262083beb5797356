"""How a newcomer is answered: what is wrong, with which field, and what to do over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from anyrig.errors import InvalidInputError
from anyrig.server.job_requests import check_lines
from tests.server.conftest import Server

JSON = {"Content-Type": "application/json"}
SPEECH, VECTORS = "/v1/audio/speech", "/v1/embeddings"


@pytest.mark.parametrize(
    ("path", "body", "status", "title", "param"),
    [
        (SPEECH, '{"input": ', 400, "the body is not valid JSON: EOF while parsing a value", None),
        (SPEECH, '{"model": "tts-1"}', 422, "input: is required", "input"),
        (SPEECH, '{"input": "a", "speed": 9}', 422, "speed: should be less than", "speed"),
        (SPEECH, '{"input": "Hi", "voice": "nobody"}', 400, "unknown voice 'nobody'", "voice"),
        (SPEECH, '{"input": "Hi", "model": "tome"}', 404, "unknown speech model", "model"),
        (VECTORS, '{"input": {"a": 1}}', 422, "input: should be a valid string or", "input"),
        (VECTORS, '{"input": "a", "dimensions": 9999}', 400, "minilm has 384 dimensions",
         "dimensions"),
        ("/documents/classify", '{"texts": ["a"]}', 422, "give either labels or", None),
        ("/jobs", "[1]", 422, "the body must be a JSON object", None),
        ("/jobs", '{"kind": "index", "arguments": {"name": 1}}', 400,
         "unknown option 'name'", "name"),
        ("/jobs", '{"kind": "book", "arguments": {"file": "/etc/passwd"}}', 400,
         "`file` must be an uploaded file", "file"),
        ("/jobs", '{"kind": "book", "options": {}}', 422, "options: unknown field", "options"),
        (SPEECH, '{"input": ""}', 422, "input: must not be empty", "input"),
        ("/documents/search", '{"question": "a", "index": ""}', 422, "index: ", "index"),
        ("/v1/audio/translations", "{}", 404, "Not found", None),
        ("/v1/models", "{}", 405, "Method not allowed", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_field(
    server: Server, path: str, body: str, status: int, title: str, param: str | None
) -> None:
    answer = server.client.post(path, content=body, headers=JSON)
    told = answer.json()
    assert (answer.status_code, told["error"]["param"]) == (status, param), told
    assert told["title"].startswith(title)
    assert "--" not in told["hint"]
    assert "Value error" not in answer.text


@pytest.mark.parametrize("path", ["/jobs", "/v1/audio/speech"])
@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
def test_json_that_does_not_say_so_is_415(server: Server, path: str, kind: str | None) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = server.client.post(path, content=b'{"kind": "bench", "input": "a"}', headers=headers)
    assert answer.status_code == 415, answer.text
    assert "application/json" in answer.json()["hint"]


def spoken_by(client: httpx.Client | TestClient, **more: Any) -> Any:
    wish = {"input": "Hello.", "response_format": "pcm", **more}
    return client.post("/v1/audio/speech", json=wish)


def heard_by(client: httpx.Client | TestClient, sound: bytes, **fields: str) -> Any:
    return client.post("/v1/audio/transcriptions", data=fields, files={"file": ("talk.wav", sound)})


def test_one_rule_for_models_of_three_kinds(server: Server) -> None:
    client = server.client
    sound = spoken_by(client, response_format="wav").content
    calls: dict[str, tuple[str, Callable[[str], Any]]] = {
        "speech": ("tts-1-hd", lambda model: spoken_by(client, model=model)),
        "embeddings": ("text-embedding-99", lambda model: client.post(
            "/v1/embeddings", json={"input": "a", "model": model})),
        "transcriptions": ("gpt-99-transcribe", lambda model: heard_by(
            client, sound, model=model, language="en")),
    }  # fmt: skip
    for name, (theirs, call) in calls.items():
        wrong = call("tome")
        assert wrong.status_code == 404, (name, wrong.text)
        assert wrong.json()["error"]["param"] == "model"
        right = call(theirs)
        assert right.status_code == 200, (name, right.text)
        model = right.headers["x-anyrig-model"]
        assert (
            right.headers["x-anyrig-note"]
            == f"{theirs} is not on this machine; used {model} instead"
        )
        own = call(model)
        assert (own.status_code, own.headers["x-anyrig-model"]) == (200, model), name
        assert "x-anyrig-note" not in own.headers
    kept = [one for worker in client.get("/health").json()["workers"]
            for one in worker["cached_models"]]  # fmt: skip
    assert [one for one in kept if "(" in one or "=" in one] == []
    assert "transcription whisper-base en" in kept


@pytest.mark.parametrize(
    ("kind", "arguments", "status", "words"),
    [
        ("batch", {"lines": ["a"], "voice": "nobody"}, 400, "unknown voice 'nobody'"),
        ("batch", {"lines": ["a", {"text": "b", "voice": "nobody"}]}, 400, "voice 'nobody'"),
        ("batch", {"lines": ["a"], "engine": "tome"}, 404, "tome"),
        ("batch", {"lines": ["a"], "engine": "kokoro"}, 501, "Kokoro"),
        ("batch", {"lines": ["a"], "engine": "tone", "set": {"nonsense": 1}}, 400, "nonsense"),
        ("bench", {"voice": "nobody"}, 400, "unknown voice 'nobody'"),
    ],
)  # fmt: skip
def test_who_cannot_speak_is_refused_before_a_job_waits(
    shared_client: TestClient, kind: str, arguments: dict[str, Any], status: int, words: str
) -> None:
    answer = shared_client.post("/jobs", json={"kind": kind, "arguments": arguments})
    assert answer.status_code == status, answer.text
    assert words in answer.json()["title"]
    assert shared_client.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"rate": 9}, "rate"), ({"rate": True}, "rate"), ({"seed": 1 << 80}, "seed"),
        ({"language": "../x"}, "language"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_line_is_of_its_kind(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=f"line 2: {words}"):
        check_lines(["one", {"text": "two", **more}])
