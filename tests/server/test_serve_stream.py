"""WS /stream as clients of VibeVoice's demo use it, with the `websockets` client."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.server.conftest import Server

TEXT = "The kettle is on. The old keeper walked slowly down the long stone stairs."


def opened(server: Server, **query: Any) -> ClientConnection:
    address = server.url.replace("http", "ws", 1)
    return connect(f"{address}/stream?{urlencode(query)}", compression=None, proxy=None)


def heard(socket: ClientConnection) -> tuple[bytes, list[dict[str, Any]], int]:
    """The sound, the events and the code that it was closed with."""
    sound, events = b"", []
    try:
        while True:
            message = socket.recv(timeout=60)
            if isinstance(message, bytes):
                sound += message
            else:
                events.append(json.loads(message))
    except ConnectionClosed as closed:
        return sound, events, closed.rcvd.code if closed.rcvd else 0


def test_sound_and_events_come_as_the_demo_has_them(server: Server) -> None:
    with opened(server, text=TEXT, voice="tone", engine="tone", cfg="1.5", steps="5") as socket:
        sound, events, code = heard(socket)
    assert code == 1000
    assert all(set(event) == {"type", "event", "data", "timestamp"} for event in events)
    assert {event["type"] for event in events} == {"log"}
    names = [event["event"] for event in events]
    assert names[0] == "backend_request_received"
    assert events[0]["data"]["text_length"] == len(TEXT)
    assert events[0]["data"]["ignored"] == ["cfg", "steps"]
    assert names[1] == "backend_first_chunk_sent"
    assert set(names[2:-1]) == {"model_progress"}
    assert names[-1] == "backend_stream_complete"
    assert events[-2]["data"]["generated_sec"] == pytest.approx(len(sound) / 48000, abs=0.01)
    body = {"model": "tone", "input": TEXT, "response_format": "pcm"}
    assert sound == server.client.post("/v1/audio/speech", json=body).content


def test_a_text_too_long_for_an_address_comes_as_the_first_frame(server: Server) -> None:
    with opened(server) as socket:
        socket.send(json.dumps({"text": TEXT, "engine": "tone", "speed": 2}))
        sound, events, code = heard(socket)
    assert code == 1000
    assert 2.0 < len(sound) / 48000 < 5.0


def test_many_at_once(server: Server) -> None:
    def listen(number: int) -> int:
        with opened(server, text=f"Number {number}. {TEXT}", engine="tone") as socket:
            sound, events, code = heard(socket)
        assert "backend_busy" not in [event["event"] for event in events]
        assert code == 1000
        return len(sound)

    with ThreadPoolExecutor(16) as pool:
        assert min(pool.map(listen, range(16))) > 48000


@pytest.mark.parametrize(
    ("query", "frame", "words"),
    [
        ({"text": "Hello.", "voice": "nobody"}, None, "no voice"),
        ({"text": "...", "engine": "tone"}, None, "nothing to say"),
        ({"text": "Hello.", "speed": "9"}, None, "speed"),
        ({"text": "Hello.", "language": "!"}, None, "language"),
        ({"text": ""}, None, "empty"),
        ({"text": "", "engine": "tone", "voice": "tone"}, None, "empty"),
        ({"text": " "}, None, "empty"),
        ({}, "no JSON", "no text"),
        ({}, '{"text": "Hello.", "speed": NaN}', "no text"),
        ({}, '{"text": 7}', "no text"),
        ({}, '{"text": ""}', "empty"),
        ({}, "[" * 5000, "no text"),
    ],
)
def test_what_cannot_be_spoken_is_told(
    server: Server, query: dict[str, str], frame: str | None, words: str
) -> None:
    with opened(server, **query) as socket:
        if frame is not None:
            socket.send(frame)
        sound, events, code = heard(socket)
    assert code == 1008
    assert not sound
    assert events[-1]["event"] == "backend_error"
    told = events[-1]["data"]
    assert words in f"{told['message']} {told['hint']}".lower()


def test_a_plain_request_is_told_to_open_a_websocket(server: Server) -> None:
    for query in ("", "?text=", "?text=Hello."):
        for method in ("GET", "POST"):
            answer = server.client.request(method, f"/stream{query}")
            assert answer.status_code == 426
            assert answer.headers["upgrade"] == "websocket"
            assert "/v1/audio/speech" in answer.json()["hint"]


def made(server: Server) -> float:
    """Seconds of sound that the server has made so far."""
    lines = server.client.get("/metrics").text.splitlines()
    found = [line for line in lines if line.startswith("anyrig_audio_seconds_total{")]
    return sum(float(line.split()[-1]) for line in found)


def test_one_who_leaves_is_not_served_on(server: Server) -> None:
    began = made(server)
    text = " ".join(f"Sentence {number} of those that nobody hears." for number in range(800))
    with opened(server) as socket:
        socket.send(json.dumps({"text": text, "engine": "tone"}))
        while not isinstance(socket.recv(timeout=60), bytes):
            pass
        socket.close()

    now = last = made(server)
    for _ in range(100):
        time.sleep(0.05)
        now, last = made(server), now
        if now == last:
            break
    assert now == last, "nothing more is made"
    assert now - began < 300, "of half an hour"
