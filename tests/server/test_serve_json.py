"""JSON bodies: parsed once and cheaply, off the event loop where they are long, and bounded."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pydantic
import pytest
from fastapi.testclient import TestClient

LONG_BYTES = 300_000
LONG = "x" * LONG_BYTES
JSON = {"Content-Type": "application/json"}
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/embeddings", {"model": "hashing", "input": LONG}),
    ("/jobs", {"kind": "batch", "arguments": {"lines": [LONG]}}),
    ("/documents/entities", {"texts": [LONG]}),
    ("/documents/ocr", {"files": [LONG]}),
    ("/documents/similar", {"to_text": "A text.", "texts": [LONG]}),
    ("/v1/audio/speech", {"model": "tone", "voice": "alloy", "input": LONG}),
    ("/books/plan", {"file": "upload:none", "title": LONG}),
]


def test_a_long_list_costs_no_multiple_of_parsing_it(app_client: TestClient) -> None:
    body = json.dumps({"model": "hashing", "input": ["a b"] * 400_000})
    begun = time.process_time()
    json.loads(body)
    plain_s = time.process_time() - begun
    begun = time.process_time()
    answer = app_client.post("/v1/embeddings", content=body, headers=JSON)
    assert answer.status_code == 413, answer.text
    assert time.process_time() - begun < 20 * plain_s + 0.2


@pytest.mark.parametrize(("path", "body"), ROUTES, ids=[path for path, _ in ROUTES])
def test_long_bodies_are_not_parsed_on_the_event_loop(
    app_client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    validate = pydantic.BaseModel.__dict__["model_validate"].__func__
    threads: list[str] = []

    def note(cls: type[pydantic.BaseModel], /, value: Any, **more: Any) -> Any:
        threads.append(threading.current_thread().name)
        return validate(cls, value, **more)

    monkeypatch.setattr(pydantic.BaseModel, "model_validate", classmethod(note))
    answer = app_client.post(path, json=body)
    assert answer.status_code in (400, 404, 413, 422), answer.text
    assert len(threads) == 1
    assert "worker thread" in threads[0]
    assert app_client.post(path, json={}).status_code == 422
    assert len(threads) == 2
    assert "worker thread" not in threads[1]


WRONG = (
    "", "[", "[1", "[1,]", '{"a"}', "{}}", "{a: 1}", '{"a": 1,}', "1 2", '"\n"', "nul", "[01]",
    "[" * 5000, '{"a":' * 5000, "[" * 5000 + "]" * 5000, r'{"input": "\ud800"}',
    r'{"arguments": {"\udc00": 1}}', '{"speed": NaN}', '{"arguments": {"rate": Infinity}}',
    '{"arguments": {"rate": -1e999}}', '{"texts": 1e400}', '{"input": ' + "1" * 5000 + "}",
)  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/embeddings", "/jobs"])
@pytest.mark.parametrize("more", [1, LONG_BYTES], ids=["short", "long"])
def test_what_is_not_json_is_refused(app_client: TestClient, path: str, more: int) -> None:
    for wrong in WRONG:
        answer = app_client.post(path, content=wrong + " " * more, headers=JSON)
        assert answer.status_code == 400, answer.text
        assert answer.json()["title"].startswith("the body is not valid JSON: ")
        assert answer.json()["hint"] == "Send one complete JSON value."
        assert len(answer.content) < 2000


def test_every_encoding_of_json_is_read(app_client: TestClient) -> None:
    for more in ("", " " * LONG_BYTES):
        for wrong in (b'{"input": "\xff', "{}".encode("utf-16") + b"\x00"):
            answer = app_client.post("/v1/embeddings", content=wrong + more.encode(), headers=JSON)
            assert answer.status_code == 400, answer.text
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32-le"):
            text = json.dumps({"model": "hashing", "input": "é\U0001f600"}) + more
            answer = app_client.post("/v1/embeddings", content=text.encode(encoding), headers=JSON)
            assert answer.status_code == 200, answer.text


def test_too_many_values_are_refused_before_they_are_made(app_client: TestClient) -> None:
    num = 2_000_001
    for many in ("1," * num, "[]," * num, "{}," * num, '"",' * num):
        body = '{"input": [' + many.rstrip(",") + "]}"
        answer = app_client.post("/v1/embeddings", content=body, headers=JSON)
        assert answer.status_code == 413, answer.text
        assert answer.json()["title"] == "the request has more than 2,000,000 values"
        assert answer.json()["hint"]


def test_commas_inside_of_a_text_are_not_values(app_client: TestClient) -> None:
    text = '\\",[{' * 600_000
    answer = app_client.post("/v1/embeddings", json={"model": "hashing", "input": text})
    assert answer.status_code == 413, answer.text
    assert answer.json()["title"].startswith("the input has a text of ")


def test_many_invalid_values_get_one_short_answer(app_client: TestClient) -> None:
    num = 20_000
    fields = {f"k{n}": n for n in range(num)}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/embeddings", {"input": [1.5] * num}),
        ("/v1/embeddings", {"input": [[1.5] * 100] * (num // 100)}),
        ("/documents/embed", {"texts": [1] * num}),
        ("/documents/similar", {"to_text": "a", "texts": [[]] * num}),
        ("/documents/embed", fields),
        ("/jobs", {"kind": "batch", "arguments": fields}),
        ("/jobs", {"kind": "batch", "arguments": {"lines": [1] * num}}),
    ]
    for path, body in bodies:
        answer = app_client.post(path, json=body)
        assert answer.status_code in (400, 413, 422), answer.text
        assert len(answer.content) < 5000
        assert len(answer.json().get("errors", ())) < 5


def test_the_last_of_two_values_with_one_name_holds(app_client: TestClient) -> None:
    body = '{"model": "hashing", "input": 5.5, "input": "a text"}'
    assert app_client.post("/v1/embeddings", content=body, headers=JSON).status_code == 200


def test_json_that_is_not_called_json_is_refused(app_client: TestClient) -> None:
    for kind in ("text/plain", "text/x+json", "application/x-www-form-urlencoded"):
        for path in ("/v1/embeddings", "/jobs", "/documents/embed"):
            answer = app_client.post(path, content="{}", headers={"Content-Type": kind})
            assert answer.status_code == 415, answer.text
