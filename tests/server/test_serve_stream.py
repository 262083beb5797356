"""WS /stream as clients of VibeVoice's demo use it, with the `websockets` client."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from anyrig.app.models import ModelCache
from anyrig.app.settings import ServerSettings
from anyrig.server.streaming import SpeechStream, StreamThreads
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
        ({"text": "Hello.", "voice": "nobody"}, None, "unknown voice"),
        ({"text": "...", "engine": "tone"}, None, "nothing to say"),
        ({"text": "Hello.", "speed": "9"}, None, "speed"),
        ({"text": "Hello.", "language": "!"}, None, "language"),
        ({"text": ""}, None, "empty"),
        ({"text": "", "engine": "tone", "voice": "tone"}, None, "empty"),
        ({"text": " "}, None, "empty"),
        ({}, "no JSON", "no text"),
        ({}, '{"text": 7}', "no text"),
        ({}, '{"text": ""}', "empty"),
        ({}, "[" * 5000, "no text was sent: the first message is not valid json"),
        ({}, '{"text": "Hello.", "speed": NaN}', "not valid json"),
        ({}, json.dumps({"text": "Hello."}).encode(), "the first message is binary"),
        (
            {},
            '{"text": "Hello.", "voice": [1]}',
            "voice: should be a valid string or a valid object",
        ),
        (
            {},
            '{"text": "Hello.", "voice": "a\\u0000b"}',
            "voice: must not contain control characters ",
        ),
    ],
)
def test_what_cannot_be_spoken_is_told(
    server: Server, query: dict[str, str], frame: str | bytes | None, words: str
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


@pytest.mark.parametrize("name", ["cfg", "steps"])
def test_a_number_past_all_floats_is_the_default(server: Server, name: str) -> None:
    with opened(server) as socket:
        socket.send(f'{{"text": "{TEXT}", "engine": "tone", "{name}": 1{"0" * 400}}}')
        sound, _, code = heard(socket)
    assert code == 1000
    assert sound


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


class Session:
    """One that is begun and never goes on."""

    sample_rate, num_samples, done, engine = 24000, 0, False, "test"

    def __init__(self) -> None:
        self.closed = 0

    def next_part(self) -> None:
        return None

    def finish(self, segment: object) -> Any:
        raise OSError("no sound")

    def close(self) -> None:
        self.closed += 1


class Late:
    """A lock; somebody leaves after the last look of who holds it, before it is given back."""

    def __init__(self, stream: SpeechStream) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if not self._stream._closed:
            self._stream.close()
        self._lock.release()


def open_stream(session: Session) -> SpeechStream:
    parts = SimpleNamespace(
        speech=SimpleNamespace(start=lambda _, **more: session, request=lambda **_: None)
    )
    return SpeechStream(cast("Any", parts), {"text": "a text"}, "pcm", StreamThreads())


def test_one_who_leaves_as_it_has_begun_is_let_go() -> None:
    session = Session()
    made = open_stream(session)
    made._busy = cast("Any", Late(made))
    made._open()
    assert session.closed, "its model would be lent for ever"


def test_one_who_leaves_as_a_part_is_made_is_let_go() -> None:
    session = Session()
    made = open_stream(session)
    made._open()
    made._busy = cast("Any", Late(made))
    with pytest.raises(OSError, match="no sound"):
        made._encode(cast("Any", None))
    assert session.closed


def test_an_encoder_that_cannot_be_given_up_keeps_no_model() -> None:
    session = Session()
    made = open_stream(session)
    made._open()

    def broken() -> None:
        raise RuntimeError("the encoder is in pieces")

    made._encoder.abort = broken  # type: ignore[union-attr, method-assign]
    with pytest.raises(RuntimeError):
        made.close()
    assert session.closed


class Thing:
    def __init__(self) -> None:
        self.closed = False

    def __enter__(self) -> Thing:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


def test_what_is_loaded_while_everything_is_renewed_leaves_as_well() -> None:
    cache = ModelCache()
    begun, go_on = threading.Event(), threading.Event()
    made: list[Thing] = []
    given_back = threading.Event()

    def load() -> Thing:
        mine = Thing()
        made.append(mine)
        if len(made) == 1:
            begun.set()
            assert go_on.wait(60)
        return mine

    def use() -> None:
        with cache.borrow("a", load):
            assert given_back.wait(60)

    thread = threading.Thread(target=use)
    thread.start()
    assert begun.wait(60)
    assert cache.reload_all() == ["a"]
    go_on.set()
    with cache.borrow("a", load) as new:
        assert new is made[1], "the first one is on the device of before"
        cache.evict_idle()
        assert not made[0].closed, "somebody has it"
        given_back.set()
        thread.join(60)
        assert cache.evict_idle() == ["a"]
        assert made[0].closed
        assert not new.closed
    cache.close()
    assert made[1].closed


def test_those_who_wait_for_an_engine_that_loads_keep_nobody_else_out() -> None:
    """More wait for one than there are threads for its like; another's engine is there."""
    loaded, begun = threading.Event(), threading.Semaphore(0)

    def start(request: Any, **_: Any) -> Session:
        if request.engine == "large":
            begun.release()
            assert loaded.wait(60)
        return Session()

    settings = ServerSettings(queue=200)
    parts = SimpleNamespace(
        speech=SimpleNamespace(start=start, request=SimpleNamespace), settings=settings
    )
    threads = StreamThreads()

    async def open_(engine: str) -> None:
        made = SpeechStream(
            cast("Any", parts), {"text": "a text", "engine": engine}, "pcm", threads
        )
        with pytest.raises(AssertionError, match="a text has audio"):  # `Session` never goes on
            await made.start()
        made.close()

    async def all_of_them() -> None:
        waiting = [asyncio.create_task(open_("large")) for _ in range(200)]
        while not begun.acquire(blocking=False):
            await asyncio.sleep(0.01)
        try:
            await asyncio.wait_for(open_("small"), 60)
        finally:
            loaded.set()
        await asyncio.gather(*waiting)
        assert threads.starter.num_pending == 0
        assert not threads._per_voice

    asyncio.run(all_of_them())
