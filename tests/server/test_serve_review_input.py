"""Odd input that once was answered with 500, or took gigabytes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anyrig.text import toml


def test_a_number_past_all_floats_is_refused(app_client: TestClient) -> None:
    arguments = {"lines": ["Hello."], "rate": 10**400}
    answer = app_client.post("/jobs", json={"kind": "batch", "arguments": arguments})
    assert answer.status_code == 400
    assert "`rate`" in answer.json()["title"]


@pytest.mark.parametrize(
    "body",
    ['{"text": "a = ' + "[" * 50_000 + '"}', '{"text": "# \\ud800"}',
     '{"text": "' + ".".join("a" * 20_000) + ' = 1"}'],
    ids=["nested", "half a character", "dots"],
)  # fmt: skip
def test_a_lexicon_that_nobody_can_read_is_refused(app_client: TestClient, body: str) -> None:
    kind = {"Content-Type": "application/json"}
    assert app_client.put("/lexicon", content=body, headers=kind).status_code in (400, 422)
    assert app_client.get("/lexicon").json()["entries"] == 0


def test_toml_of_strangers() -> None:
    assert toml.read('[a.b]\nc = "d. e. f."\n') == {"a": {"b": {"c": "d. e. f."}}}
    for text in (f"[{'.'.join('a' * 500)}]", f"a = {'[' * 50_000}"):
        with pytest.raises(tomllib.TOMLDecodeError):
            toml.read(text)


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
