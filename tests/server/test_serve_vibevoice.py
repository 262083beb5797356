"""GET /config and WS /stream as the server of VibeVoice-Realtime has them, with a small model of
it; and its own page in a real browser, where a checkout of its repository is at hand."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import uvicorn
from fastapi.testclient import TestClient
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from anyrig.server.app import create_app
from tests.server.browsing import NEEDS, Browser
from tests.server.conftest import HERE, build_server, environment_of
from tests.speech.tiny_vibevoice import write_folder

TEXT = "Good morning to all of you."
PAGE = Path(os.environ.get("VIBEVOICE_SOURCE", "none")) / "demo" / "web" / "index.html"


@contextmanager
def open_app(factory: pytest.TempPathFactory) -> Iterator[ASGIApp]:
    """A server whose voice is a small VibeVoice-Realtime."""
    folder = write_folder(factory.mktemp("realtime") / "model")
    variables = {"ANYRIG_SPEECH_MODEL": str(folder), "ANYRIG_SPEECH_ENGINE": "vibevoice-realtime"}
    environment = environment_of(factory.mktemp("home"), variables)
    with ExitStack() as stack:
        state = build_server(stack, environment, "--no-jobs", "--device", "cpu")
        yield create_app(state, page=False)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with (
        open_app(tmp_path_factory) as app,
        TestClient(app, base_url=HERE, raise_server_exceptions=False) as made,
    ):
        yield made


def listen(client: TestClient, **query: Any) -> tuple[list[bytes], list[dict[str, Any]], int]:
    """The frames, the events, and the code that it was closed with."""
    frames: list[bytes] = []
    events: list[dict[str, Any]] = []
    host = {"Host": HERE.partition("//")[2]}
    with client.websocket_connect(f"/stream?{urlencode(query)}", headers=host) as socket:
        while True:
            message = socket.receive()
            if message["type"] == "websocket.close":
                return frames, events, message["code"]
            if message.get("bytes"):
                frames.append(message["bytes"])
            else:
                events.append(json.loads(message["text"]))


def is_same(first: bytes, second: bytes) -> bool:
    """As the same take sounds: a sum on the CPU may round either way, and random weights make more
    of it with every frame.
    """
    left, right = (np.frombuffer(sound, "<i2").astype(float) for sound in (first, second))
    if len(left) != len(right):
        return False
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right)) > 0.99


def test_config_names_the_presets(client: TestClient) -> None:
    config = client.get("/config").json()
    assert {"en-Ada_woman", "en-Carter_man"} <= set(config["voices"])
    assert config["default_voice"] == "en-Carter_man"


def test_a_stream_is_as_the_demo_sends_it(client: TestClient) -> None:
    frames, events, code = listen(client, text=TEXT, cfg="2.5", steps="3", voice="en-Ada_woman")
    assert code == 1000
    assert {len(frame) for frame in frames[:-1]} == {6400}
    assert 0 < len(frames[-1]) <= 6400
    assert all(set(event) == {"type", "event", "data", "timestamp"} for event in events)
    names = [event["event"] for event in events]
    assert names[0] == "backend_request_received"
    assert events[0]["data"] == {
        "text_length": len(TEXT), "cfg_scale": 2.5, "inference_steps": 3, "voice": "en-Ada_woman",
        "ignored": [],
    }  # fmt: skip
    assert names.count("backend_first_chunk_sent") == 1
    assert names.count("model_progress") == len(frames)
    assert names[-1] == "backend_stream_complete"
    progress = [event["data"] for event in events if event["event"] == "model_progress"]
    assert progress[0]["chunk_sec"] == pytest.approx(3200 / 24000, abs=1e-3)
    assert progress[-1]["generated_sec"] == pytest.approx(len(b"".join(frames)) / 48000, abs=0.01)


def test_cfg_and_steps_are_of_one_request_only(client: TestClient) -> None:
    """In the demo, steps stay for whoever comes next."""
    plain = listen(client, text=TEXT)
    other = [listen(client, text=TEXT, **one) for one in ({"cfg": "3"}, {"steps": "9"})]
    again = listen(client, text=TEXT)
    assert is_same(b"".join(plain[0]), b"".join(again[0]))
    assert not any(is_same(b"".join(one[0]), b"".join(plain[0])) for one in other)
    received = [one[1][0]["data"] for one in (plain, *other)]
    assert [one["cfg_scale"] for one in received] == [1.5, 3.0, 1.5]
    assert [one["inference_steps"] for one in received] == [None, None, 9]


@pytest.mark.parametrize(
    "query", [{"cfg": "x", "steps": "many"}, {"cfg": "-1", "steps": "0"}, {"cfg": "nan"}]
)
def test_numbers_that_mean_nothing_are_the_defaults(
    client: TestClient, query: dict[str, str]
) -> None:
    frames, events, code = listen(client, text=TEXT, **query)
    assert code == 1000
    assert events[0]["data"]["cfg_scale"] == 1.5
    assert events[0]["data"]["inference_steps"] is None
    assert is_same(b"".join(frames), b"".join(listen(client, text=TEXT)[0]))


def test_more_steps_than_there_can_be_are_an_error(client: TestClient) -> None:
    frames, events, code = listen(client, text=TEXT, steps="5000")
    assert (frames, code) == ([], 1008)
    assert "between 1 and 100" in events[-1]["data"]["message"]


def test_many_listen_at_once(client: TestClient) -> None:
    """The demo refuses all but one."""
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: listen(client, text=f"Number {n}."), range(4)))
    assert all(code == 1000 for _, _, code in found)
    assert not any(event["event"] == "backend_busy" for _, events, _ in found for event in events)
    assert len({b"".join(frames) for frames, _, _ in found}) == 4


def test_options_of_a_request_are_its_own(client: TestClient) -> None:
    body = {"model": "vibevoice-realtime", "input": TEXT, "response_format": "pcm"}
    plain = client.post("/v1/audio/speech", json=body)
    other = client.post("/v1/audio/speech", json={**body, "options": {"steps": 9}})
    assert plain.status_code == other.status_code == 200
    assert not is_same(plain.content, other.content)
    assert is_same(plain.content, b"".join(listen(client, text=TEXT)[0]))
    assert is_same(other.content, b"".join(listen(client, text=TEXT, steps="9")[0]))


# -- the demo's page -------------------------------------------------------------------------------


@contextmanager
def serving(app: ASGIApp, page: Path) -> Iterator[str]:
    """The server with another page at its root."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        own = scope["type"] == "http" and scope["path"] == "/"
        await (HTMLResponse(page.read_text(encoding="utf-8")) if own else app)(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(serve, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.is_file(), reason="VIBEVOICE_SOURCE names no checkout of VibeVoice")
class TestDemoPage:
    pytestmark = NEEDS

    def test_it_plays(self, tmp_path_factory: pytest.TempPathFactory, driver: Any) -> None:
        with open_app(tmp_path_factory) as app, serving(app, PAGE) as url:
            browser = Browser(driver, url)
            driver.get(url)
            browser.until(lambda: len(browser.all("#voiceSelect option")) > 1)
            chosen = browser.script("return document.getElementById('voiceSelect').value")
            assert chosen == "en-Carter_man"
            browser.script(
                "document.getElementById('prompt').value = arguments[0];"
                "document.getElementById('playback').click()", TEXT,
            )  # fmt: skip
            log = "return document.getElementById('logOutput').textContent"
            browser.until(lambda: "Backend" in browser.script(log))
            seconds = "return Number(document.getElementById('{}').textContent)"
            browser.until(lambda: browser.script(seconds.format("playbackElapsed")) > 0.2)
            assert browser.script(seconds.format("modelGenerated")) > 0.2
            saved = "return !document.getElementById('saveAudio').disabled"
            browser.until(lambda: browser.script(saved))
