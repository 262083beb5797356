"""The official `openai` client, unmodified, against a real server."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

openai = pytest.importorskip("openai")

from tests.server.conftest import Server  # noqa: E402

TEXT = "The kettle is on. The old keeper walked slowly down the long stone stairs."


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none needed", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_create_writes_a_file(
    client: Any, tmp_path: Path, name: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
) -> None:
    path = tmp_path / f"speech.{name}"
    client.audio.speech.create(
        model="tone", voice="alloy", input=TEXT, response_format=name
    ).write_to_file(path)
    assert path.stat().st_size > 5000


def test_with_streaming_response(client: Any, tmp_path: Path) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="coral", input=TEXT, response_format="pcm", speed=1.25,
        instructions="Speak in a cheerful tone.",
    ) as answer:  # fmt: skip
        assert answer.headers["x-anyrig-ignored"] == "instructions"
        parts = list(answer.iter_bytes())
    assert len(parts) > 1
    assert 2.0 < len(b"".join(parts)) / 48000 < 8.0
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT
    ) as answer:
        answer.stream_to_file(tmp_path / "speech.mp3")
    assert (tmp_path / "speech.mp3").read_bytes()[:2] in (b"\xff\xf3", b"\xff\xfb", b"ID")


def test_events(client: Any) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tone", voice="alloy", input=TEXT, response_format="pcm", stream_format="sse"
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line]
    kinds = [event["type"] for event in events]
    assert set(kinds[:-1]) == {"speech.audio.delta"}
    assert kinds[-1] == "speech.audio.done"
    assert events[-1]["usage"]["input_tokens"] == len(TEXT)
    sound = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    plain = client.audio.speech.create(
        model="tone", voice="alloy", input=TEXT, response_format="pcm"
    )
    assert sound == plain.content


def test_its_errors_are_raised_as_its_own(client: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="Did you mean heart"):
        client.audio.speech.create(model="tts-1", voice="hart", input=TEXT)
    with pytest.raises(openai.APIStatusError) as raised:
        client.audio.speech.create(model="tone", voice="alloy", input="a " * 150_000)
    assert raised.value.status_code == 413


_ODD = ("\r\nX-Evil: 1", "\x00", "\x1b[31m", "\n", "\x7f", "\x85")


@pytest.mark.parametrize("odd", _ODD, ids=repr)
def test_control_characters_in_names_are_refused(server: Server, odd: str) -> None:
    usual = {"model": "tts-1", "voice": "alloy", "input": "Hello."}
    for name in ("model", "voice", "engine"):
        answer = server.client.post(
            "/v1/audio/speech", json={**usual, name: f"{usual.get(name, 'tone')}{odd}"}
        )
        assert answer.status_code == 422, answer.text
        assert answer.json()["title"].startswith(f"{name}: must not contain control characters")
    embed = {"model": f"text-embedding-3{odd}", "input": "Hello."}
    assert server.client.post("/v1/embeddings", json=embed).status_code == 422
    form = {"model": f"gpt-4o{odd}x"}
    sound = {"file": ("a.wav", b"RIFF")}
    answer = server.client.post("/v1/audio/transcriptions", data=form, files=sound)
    assert answer.status_code == 400, answer.text
    assert answer.json()["title"] == "model: must not contain control characters"


def test_control_characters_reach_no_header(server: Server) -> None:
    odd = {"x\r\nX-Evil: 1": 1, "é\x00": 2, "\x1b]0;t\x07": 3}
    for path, body in (
        ("/v1/audio/speech", {"model": "tone", "input": "Hello.", **odd}),
        ("/v1/embeddings", {"model": "hashing", "input": "Hello.", **odd}),
    ):
        answer = server.client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert "x-evil" not in answer.headers
        assert all(value.isprintable() for value in answer.headers.values())
