"""Long bodies: read in a thread and in steps, and as a parser would that takes all at once."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from anyrig.server import reading

LONG = "x" * reading.LONG_BYTES
VALUES: tuple[Any, ...] = (
    {}, [], "", 0, -1.5e300, None, True, [[]], [{}], {"": ""}, [1], [1, 2, 3], [1, "two", None],
    ["a", "b"], [[1, 2], [3]], {"a": [1, {"b": [True, False, None]}]}, "é\u2028\U0001f600\"\\\n",
    [0.1, 1e5, -0], {"x": {"y": {"z": [[[1]]]}}}, [{"a": 1, "b": [2]}, 3, 4, {"c": {}}],
)  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_what_is_read_in_steps_is_the_same(value: Any) -> None:
    for more in ({}, {"indent": 2}, {"ensure_ascii": False, "separators": (",", ":")}):
        text = json.dumps(value, **more)
        assert reading.loads(text.encode()) == json.loads(text)
        assert reading.loads(f" \n{text}\t ".encode()) == value
    for encoding in ("utf-8-sig", "utf-16", "utf-32-le"):
        assert reading.loads(json.dumps(value).encode(encoding)) == value


def test_many_numbers_and_texts_between_them() -> None:
    dice = random.Random(7)
    for _ in range(20):
        value = [dice.choice([dice.randrange(10**6), dice.random(), "a, [text] 5", [1, 2], None])
                 for _ in range(dice.randrange(20_000))]  # fmt: skip
        assert reading.loads(json.dumps({"input": value}).encode()) == {"input": value}
    numbers = list(range(200_000))
    assert reading.loads(json.dumps([numbers, numbers]).encode()) == [numbers, numbers]


@pytest.mark.parametrize(
    "wrong",
    ["", " ", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1, 2", "{", '{"a"}',
     "{}}", '{"a":}', '{"a" 1}', "{a: 1}", '{"a": 1,}', "1 2", '"', '"\n"', "[1]]", "nul", "[01]",
     "[1, 2}", "[" * 5000, '{"a":' * 5000],
)  # fmt: skip
def test_what_is_no_json_is_refused(wrong: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        reading.loads(wrong.encode())


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(json.JSONDecodeError):
        reading.loads(b'["' + b"a" * 100_000 + b'\xff"]')


def test_no_step_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that is given much at once lets nobody else do anything meanwhile."""
    sizes: list[int] = []
    usual, leaf = json.loads, reading._leaf

    def loads(text: Any, **more: Any) -> Any:
        sizes.append(len(text))
        return usual(text, **more)

    def one(text: str, at: int) -> Any:
        value, end = leaf(text, at)
        sizes.append(end - at)
        return value, end

    monkeypatch.setattr(json, "loads", loads)
    monkeypatch.setattr(reading, "_leaf", one)
    value = {"input": [list(range(100_000)), ["a text " * 100] * 1000, 5]}
    assert reading.loads(json.dumps(value).encode()) == value
    assert max(sizes) < 100_000


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_VALUES", 1000)
    reading.loads(json.dumps(list(range(900))).encode())
    fields = {str(n): n for n in range(1100)}
    several: tuple[Any, ...] = (list(range(1100)), ["a"] * 1100, [[]] * 1100, fields)
    for many in several:
        with pytest.raises(HTTPException) as caught:
            reading.loads(json.dumps(many).encode())
        assert caught.value.status_code == 413


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads in which bodies were read in steps."""
    found: list[str] = []
    usual = reading.loads

    def loads(body: bytes) -> Any:
        found.append(threading.current_thread().name)
        return usual(body)

    monkeypatch.setattr(reading, "loads", loads)
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/embeddings", {"model": "hashing", "input": LONG}),
     ("/jobs", {"kind": "batch", "arguments": {"lines": [LONG]}}),
     ("/documents/entities", {"texts": [LONG]}),
     ("/documents/similar", {"to_text": "A text.", "texts": [LONG]}),
     ("/v1/audio/speech", {"model": "tone", "voice": "alloy", "input": LONG}),
     ("/books/plan", {"file": "upload:none", "title": LONG})],
)  # fmt: skip
def test_long_bodies_are_not_read_on_the_loop(
    app_client: TestClient, threads: list[str], path: str, body: dict[str, Any]
) -> None:
    answer = app_client.post(path, json=body)
    assert answer.status_code in (400, 404, 413, 422), answer.text
    assert len(threads) == 1
    assert "worker thread" in threads[0]
    assert app_client.post(path, json={}).status_code == 422
    assert len(threads) == 1  # a short one is read where it comes


@pytest.mark.parametrize("path", ["/v1/embeddings", "/jobs"])
def test_long_bodies_that_are_wrong_are_told_as_short_ones(
    app_client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"Content-Type": "application/json"}
    half = r'{"model": "hashing", "input": "\ud800", "kind": "batch", "arguments": {"\ud800": 1}}'
    for wrong, least in (("[1, 2", 400), ("[" * 90, 400), ("{}", 422), ("[]", 422), (half, 400)):
        for more in ("", " " * reading.LONG_BYTES):
            answer = app_client.post(path, content=wrong + more, headers=headers)
            assert least <= answer.status_code <= 422, answer.text
            assert answer.json()["hint"]
    monkeypatch.setattr(reading, "MOST_VALUES", 1000)
    answer = app_client.post(path, json={"input": [LONG, *["a"] * 1000]})
    assert answer.status_code == 413
    assert answer.json()["hint"]
