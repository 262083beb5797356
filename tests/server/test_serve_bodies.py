"""Bodies of requests: slow, long, not JSON, hostile; none of them blocks the event loop."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pydantic
import pytest
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException
from starlette.types import Message

from anyrig.server.security import limit_body
from anyrig.settings.toml import parse_toml
from tests.waiting import run_without_waiting

MOST = 1_000_000


def pieces(sizes: Sequence[int], every_s: float, *, taken_s: float = 0.0) -> int:
    """How much of a body is taken: pieces come at intervals, and are read by somebody as slow."""

    async def read() -> int:
        left = list(sizes)

        async def receive() -> Message:
            await asyncio.sleep(every_s)
            size = left.pop(0)
            return {"type": "http.request", "body": b"x" * size, "more_body": bool(left)}

        taken, more = 0, True
        next_one = limit_body(receive, MOST, idle_s=0.2, rate=1000.0)
        while more:
            message = await next_one()
            taken, more = taken + len(message["body"]), message["more_body"]
            await asyncio.sleep(taken_s)
        return taken

    return run_without_waiting(read())


def test_a_byte_now_and_then_is_refused() -> None:
    with pytest.raises(HTTPException, match="too slow") as caught:
        pieces([1] * 1000, 0.05)
    assert caught.value.status_code == 408
    assert caught.value.headers == {"Connection": "close"}


def test_one_who_began_well_and_then_lingers_is_refused_too() -> None:
    with pytest.raises(HTTPException, match="too slow"):
        pieces([500_000] + [1] * 1000, 0.05)


def test_a_slow_line_that_moves_is_waited_for() -> None:
    assert pieces([200] * 12, 0.05) == 2400


def test_nobody_is_blamed_for_a_slow_reader() -> None:
    assert pieces([1] * 12, 0.0, taken_s=0.05) == 12


def test_one_who_sends_nothing_is_refused() -> None:
    with pytest.raises(HTTPException, match="stalled"):
        pieces([1, 1], 0.5)


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


def test_a_long_list_costs_no_multiple_of_parsing_it(shared_client: TestClient) -> None:
    body = json.dumps({"model": "hashing", "input": ["a b"] * 400_000})
    begun = time.process_time()
    json.loads(body)
    plain_s = time.process_time() - begun
    begun = time.process_time()
    answer = shared_client.post("/v1/embeddings", content=body, headers=JSON)
    assert answer.status_code == 413, answer.text
    assert time.process_time() - begun < 20 * plain_s + 1.0


@pytest.mark.parametrize(
    ("path", "megabytes"),
    [("/v1/audio/speech", 4), ("/books/plan", 2), ("/documents/entities", 26),
     ("/v1/embeddings", 33), ("/devices/chosen", 2)],
)  # fmt: skip
@pytest.mark.parametrize("counted", [True, False], ids=["length", "chunked"])
def test_what_no_request_can_have_is_not_parsed(
    shared_client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, megabytes: int,
    counted: bool,
) -> None:  # fmt: skip
    """A body is refused by its size, whatever would come of it."""

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was parsed")

    monkeypatch.setattr("anyrig.server.json_body.from_json", fail)
    monkeypatch.setattr("json.loads", fail)
    part = b"\\u00e9" * 20_000
    parts = [b'{"input": "', *[part] * (megabytes * 1_000_000 // len(part) + 1), b'"}']
    body = b"".join(parts) if counted else iter(parts)
    answer = shared_client.request(
        "PUT" if path == "/devices/chosen" else "POST", path, content=body, headers=JSON
    )
    monkeypatch.undo()
    assert answer.status_code == 413, answer.text
    assert "the limit" in answer.json()["title"]


def test_a_long_text_is_read_however_it_is_written(shared_client: TestClient) -> None:
    """As many characters as the settings allow, each as two escapes."""
    body = json.dumps({"model": "tone", "input": "\U0001f600" * 200_000 + "a"})
    assert len(body) > 2_400_000
    answer = shared_client.post("/v1/audio/speech", content=body, headers=JSON)
    assert answer.json()["title"] == "the text has 200,001 characters"


def test_a_long_text_costs_no_multiple_of_parsing_it(shared_client: TestClient) -> None:
    body = json.dumps({"model": "hashing", "input": "\u00e9" * 2_000_000})
    begun = time.process_time()
    json.loads(body)
    plain_s = time.process_time() - begun
    begun = time.process_time()
    answer = shared_client.post("/v1/embeddings", content=body, headers=JSON)
    assert answer.status_code == 413, answer.text
    assert time.process_time() - begun < 10 * plain_s + 1.0


@pytest.mark.parametrize(("path", "body"), ROUTES, ids=[path for path, _ in ROUTES])
def test_long_bodies_are_not_parsed_on_the_event_loop(
    shared_client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    validate = pydantic.BaseModel.__dict__["model_validate"].__func__
    threads: list[str] = []

    def note(cls: type[pydantic.BaseModel], /, value: Any, **more: Any) -> Any:
        threads.append(threading.current_thread().name)
        return validate(cls, value, **more)

    monkeypatch.setattr(pydantic.BaseModel, "model_validate", classmethod(note))
    answer = shared_client.post(path, json=body)
    assert answer.status_code in (400, 404, 413, 422), answer.text
    assert len(threads) == 1
    assert "worker thread" in threads[0]
    assert shared_client.post(path, json={}).status_code == 422
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
def test_what_is_not_json_is_refused(shared_client: TestClient, path: str, more: int) -> None:
    for wrong in WRONG:
        answer = shared_client.post(path, content=wrong + " " * more, headers=JSON)
        assert answer.status_code == 400, answer.text
        assert answer.json()["title"].startswith("the body is not valid JSON: ")
        assert answer.json()["hint"] == "Send one complete JSON value."
        assert len(answer.content) < 2000


def test_every_encoding_of_json_is_read(shared_client: TestClient) -> None:
    for more in ("", " " * LONG_BYTES):
        for wrong in (b'{"input": "\xff', "{}".encode("utf-16") + b"\x00"):
            answer = shared_client.post(
                "/v1/embeddings", content=wrong + more.encode(), headers=JSON
            )
            assert answer.status_code == 400, answer.text
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32-le"):
            text = json.dumps({"model": "hashing", "input": "é\U0001f600"}) + more
            answer = shared_client.post(
                "/v1/embeddings", content=text.encode(encoding), headers=JSON
            )
            assert answer.status_code == 200, answer.text


def test_too_many_values_are_refused_before_they_are_made(shared_client: TestClient) -> None:
    num = 2_000_001
    for many in ("1," * num, "[]," * num, "{}," * num, '"",' * num):
        body = '{"input": [' + many.rstrip(",") + "]}"
        answer = shared_client.post("/v1/embeddings", content=body, headers=JSON)
        assert answer.status_code == 413, answer.text
        assert answer.json()["title"] == "the request has more than 2,000,000 values"
        assert answer.json()["hint"]


def test_commas_inside_of_a_text_are_not_values(shared_client: TestClient) -> None:
    text = '\\",[{' * 600_000
    answer = shared_client.post("/v1/embeddings", json={"model": "hashing", "input": text})
    assert answer.status_code == 413, answer.text
    assert answer.json()["title"].startswith("the input has a text of ")


def test_many_invalid_values_get_one_short_answer(shared_client: TestClient) -> None:
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
        answer = shared_client.post(path, json=body)
        assert answer.status_code in (400, 413, 422), answer.text
        assert len(answer.content) < 5000
        assert len(answer.json().get("errors", ())) < 5


def test_the_last_of_two_values_with_one_name_holds(shared_client: TestClient) -> None:
    body = '{"model": "hashing", "input": 5.5, "input": "a text"}'
    assert shared_client.post("/v1/embeddings", content=body, headers=JSON).status_code == 200


def test_json_that_is_not_called_json_is_refused(shared_client: TestClient) -> None:
    for kind in ("text/plain", "text/x+json", "application/x-www-form-urlencoded"):
        for path in ("/v1/embeddings", "/jobs", "/documents/embed"):
            answer = shared_client.post(path, content="{}", headers={"Content-Type": kind})
            assert answer.status_code == 415, answer.text


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


def test_a_number_past_all_floats_is_refused(shared_client: TestClient) -> None:
    arguments = {"lines": ["Hello."], "rate": 10**400}
    answer = shared_client.post("/jobs", json={"kind": "batch", "arguments": arguments})
    assert answer.status_code == 400
    assert "`rate`" in answer.json()["title"]


@pytest.mark.parametrize(
    "body",
    ['{"text": "a = ' + "[" * 50_000 + '"}', '{"text": "# \\ud800"}',
     '{"text": "' + ".".join("a" * 20_000) + ' = 1"}'],
    ids=["nested", "half a character", "dots"],
)  # fmt: skip
def test_a_lexicon_that_nobody_can_read_is_refused(shared_client: TestClient, body: str) -> None:
    kind = {"Content-Type": "application/json"}
    assert shared_client.put("/lexicon", content=body, headers=kind).status_code in (400, 422)
    assert shared_client.get("/lexicon").json()["entries"] == 0


def test_toml_of_strangers() -> None:
    assert parse_toml('[a.b]\nc = "d. e. f."\n') == {"a": {"b": {"c": "d. e. f."}}}
    for text in (f"[{'.'.join('a' * 500)}]", f"a = {'[' * 50_000}"):
        with pytest.raises(tomllib.TOMLDecodeError):
            parse_toml(text)


def _sent(client: TestClient, name: str, data: bytes) -> str:
    answer = client.post("/uploads", files={"files": (name, data)})
    return str(answer.json()["files"][0]["id"])


def test_a_cast_names_no_file_of_this_machine(app_client: TestClient, tmp_path: Path) -> None:
    recording = tmp_path / "private.wav"
    recording.write_bytes(b"RIFF....WAVE")
    book = _sent(app_client, "book.txt", b"Hello, said Tom.")
    for voice in (str(recording), str(tmp_path / "none.wav"), "../private.wav"):
        cast = _sent(app_client, "cast.toml", f'[roles]\nTom = "{voice}"\n'.encode())
        arguments = {"file": f"upload:{book}", "cast": f"upload:{cast}"}
        answer = app_client.post("/jobs", json={"kind": "book", "arguments": arguments})
        assert answer.status_code == 400
        assert "is not a valid name" in answer.json()["title"]


def test_ranges_of_an_upload(app_client: TestClient) -> None:
    path = f"/uploads/{_sent(app_client, 'a.txt', b'0123456789')}/content"
    part = app_client.get(path, headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    beyond = app_client.get(path, headers={"Range": "bytes=50-"})
    assert (beyond.status_code, beyond.json()["status"]) == (416, 416)
    for odd in ("bytes=a-b", "chars=1", "bytes=0-0,2-2"):
        assert app_client.get(path, headers={"Range": odd}).content == b"0123456789"
