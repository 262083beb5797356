"""POST /v1/audio/speech, GET /config, the lexicon: formats, refusals, who is passed, who leaves."""

from __future__ import annotations

import base64
import functools
import io
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from anyrig.server.state import ServerState
from anyrig.speech.engine import Utterance
from anyrig.speech.synthesis import Synthesizer
from tests.server.conftest import MakeApp, Server

TEXT = "The kettle is on. The old keeper walked slowly down the long stone stairs."
LONG = " ".join(f"This is sentence number {number} of a long text." for number in range(600))


def asked(client: httpx.Client | TestClient, text: str = TEXT, **more: Any) -> Any:
    body = {"model": "tone", "input": text, "response_format": "pcm", **more}
    return client.post("/v1/audio/speech", json=body)


def synthesizer_of(app: FastAPI) -> Synthesizer:
    state: ServerState = app.state.server
    value = state.models.loaded_models()[0].model
    assert isinstance(value, Synthesizer)
    return value


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_every_format_is_what_it_says_and_has_the_whole_text(server: Server, name: str) -> None:
    import av

    answer = asked(server.client, response_format=name)
    assert answer.status_code == 200
    whole = len(asked(server.client).content) / 2 / 24000
    assert 4 < whole < 12
    if name == "pcm":
        assert answer.headers["content-type"] == "audio/pcm;rate=24000;channels=1"
        sound = np.frombuffer(answer.content, "<i2")
        assert 0.01 < np.abs(sound / 32768).mean() < 0.5
        return
    with av.open(io.BytesIO(answer.content), "r") as file:
        assert file.streams.audio[0].codec_context.name.startswith(
            {"wav": "pcm_s16le", "mp3": "mp3", "opus": "opus"}.get(name, name)
        )
        frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
        rate = int(file.streams.audio[0].rate)
    count = sum(frame.shape[1] for frame in frames)
    assert count / rate == pytest.approx(whole, abs=0.2)


def test_another_rate_becomes_24_khz(server: Server) -> None:
    answer = asked(server.client, "Hello there.", model="nanotts", language="en")
    assert answer.status_code == 200
    wav = asked(server.client, "Hello there.", model="nanotts", response_format="wav")
    rate = int.from_bytes(wav.content[wav.content.index(b"fmt ") + 12 :][:4], "little")
    assert rate != 24000
    seconds = (len(wav.content) - wav.content.index(b"data") - 8) / 2 / rate
    assert len(answer.content) / 2 / 24000 == pytest.approx(seconds, abs=0.01)


def test_sound_is_sent_while_it_is_made_and_no_more_to_one_who_left(make_app: MakeApp) -> None:
    app = make_app()
    sizes: list[int] = []

    def taken(data: bytes) -> bool:
        sizes.append(len(data))
        return len(sizes) < 3

    anyio.run(_called, app, LONG, taken)
    assert len(sizes) == 3
    live = synthesizer_of(app).live
    assert live.waiting("live") == 0
    assert live.report.num_items < 30, "most of 600 sentences were never begun"
    assert app.state.server.models.loaded_models()[0].num_borrowers == 0


async def _called(
    app: FastAPI, text: str, taken: Callable[[bytes], bool], *, stays: bool = True
) -> list[dict[str, Any]]:
    """Call the app as a server would; the client leaves when `taken` says no, or at once."""
    body = json.dumps({"model": "tone", "input": text, "response_format": "pcm"}).encode()
    gone = anyio.Event()
    if not stays:
        gone.set()
    sent: list[dict[str, Any]] = []
    begun = False

    async def receive() -> dict[str, Any]:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message.get("body") and not taken(message["body"]):
            gone.set()
            await anyio.sleep(0.05)  # as a socket would, give the others their turn

    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": "POST", "scheme": "http", "path": "/v1/audio/speech", "query_string": b"",
        "raw_path": b"/v1/audio/speech", "root_path": "",
        "headers": [(b"content-type", b"application/json"), (b"host", b"127.0.0.1:3000"),
                    (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 3000),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent


def test_a_client_that_leaves_before_the_first_sound_costs_nothing_more(make_app: MakeApp) -> None:
    app = make_app()
    anyio.run(_called, app, "Hello.", lambda data: True)
    live = synthesizer_of(app).live
    before = live.report.num_items
    sent = anyio.run(functools.partial(_called, app, LONG, lambda data: True, stays=False))
    assert not any(message.get("body") for message in sent)
    assert live.waiting("live") == 0
    assert live.report.num_items - before <= 5
    assert app.state.server.models.loaded_models()[0].num_borrowers == 0


def test_voices_of_openai_stand_for_the_one_there_is(server: Server) -> None:
    answer = asked(server.client, voice="alloy")
    assert answer.headers["x-anyrig-voice"] == "tone (for alloy)"
    named = asked(server.client, voice={"id": "tone"})
    assert named.headers["x-anyrig-voice"] == "tone"
    assert named.content == answer.content
    assert named.headers["x-anyrig-engine"] == "tone"


def test_what_has_no_effect_is_named(server: Server) -> None:
    answer = asked(server.client, instructions="Whisper.", mood="sad")
    assert answer.headers["x-anyrig-ignored"] == "instructions, mood"
    assert "x-anyrig-ignored" not in asked(server.client).headers


def test_speed_and_language_are_heeded(server: Server) -> None:
    usual, fast = (len(asked(server.client, speed=speed).content) for speed in (1.0, 2.0))
    assert fast < 0.7 * usual
    assert asked(server.client, language="es").headers["x-anyrig-voice"] == "tono"


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"voice": "tonne"}, 400, "Did you mean tone"),
        ({"voice": "/etc/passwd"}, 400, "unknown voice"),
        ({"voice": "x" * 5000}, 422, "voice"),
        ({"input": '<speak><voice name="/etc/passwd">Hi.</voice></speak>'}, 400, "unknown voice"),
        ({"model": "tome"}, 404, "Did you mean tone"),
        ({"model": "kokoro"}, 501, "anyrig engines get kokoro"),
        ({"speed": 5}, 422, "less than or equal to 4"),
        ({"speed": float("nan")}, 400, "not valid JSON"),
        ({"response_format": "midi"}, 422, "response_format"),
        ({"language": "../x"}, 422, "language"),
        ({"input": ""}, 422, "input"),
        ({"input": " \n "}, 400, "empty"),
        ({"input": "..."}, 400, "nothing to say"),
        ({"input": "a " * 150_000}, 413, "200,000"),
    ],
)
def test_what_cannot_be_spoken_is_refused_with_a_way_out(
    server: Server, more: dict[str, Any], status: int, words: str
) -> None:
    body = json.dumps({"model": "tone", "input": TEXT, **more})
    answer = server.client.post(
        "/v1/audio/speech", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert words.lower() in f"{told['title']} {told['hint']}".lower()
    assert told["error"]["message"]


def test_sixteen_clients_at_once_get_each_their_own(server: Server) -> None:
    texts = [f"Client {number} says {TEXT}" for number in range(16)]
    alone = [asked(server.client, text).content for text in texts]
    together = [f"{text} And more." for text in texts]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda text: asked(server.client, text), together))
    assert {answer.status_code for answer in found} == {200}
    for before, answer in zip(alone, found, strict=True):
        assert len(answer.content) > len(before)
    assert len({answer.content for answer in found}) == 16
    with ThreadPoolExecutor(16) as pool:
        again = list(pool.map(lambda text: asked(server.client, text).content, together))
    assert again == [answer.content for answer in found]


def test_a_few_clients_with_the_default_voice(server: Server) -> None:
    texts = [f"Number {number} is a good number." for number in ("one", "two", "three", "four")]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: asked(server.client, text, model="tts-1"), texts))
    assert {answer.headers["x-anyrig-engine"] for answer in found} == {"hibari"}
    for answer in found:
        assert 1.0 < len(answer.content) / 2 / 24000 < 5.0


def test_a_live_request_passes_a_long_bulk_one(server: Server) -> None:
    state: list[str] = []

    def listen(name: str, text: str, lane: str) -> None:
        body = {"model": "tone", "input": text, "response_format": "pcm", "lane": lane}
        with server.client.stream("POST", "/v1/audio/speech", json=body) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_bytes():
                state.append(name)
                started.set()

    started = threading.Event()
    text = LONG[: len(LONG) // 3].replace("sentence", "bulk sentence")
    bulk = threading.Thread(target=listen, args=("bulk", text, "bulk"))
    bulk.start()
    assert started.wait(60)
    listen("live", TEXT.replace("kettle", "pot"), "live")
    last = len(state) - 1 - state[::-1].index("live")
    bulk.join()
    assert state[last + 1 :].count("bulk") > state[: last + 1].count("bulk")


def test_a_full_queue_is_told_as_429(make_app: MakeApp) -> None:
    app = make_app(environment={"ANYRIG_SERVER_QUEUE": "3"})
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        assert asked(client).status_code == 200
        live = synthesizer_of(app).live
        words = "many words to keep it busy for a while " * 9
        waiting = [live.submit(Utterance(f"{n} {words}"), admitted=True) for n in range(2000)]
        answer = asked(client, "Hello there.")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert answer.json()["title"] == "3 items are waiting already"
        for future in waiting:
            future.cancel()
        assert asked(client, "Hello there.").status_code == 200


def test_workers_that_die_are_replaced_and_a_studio_that_failed_is_made_anew(
    make_app: MakeApp,
) -> None:
    app = make_app()
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        assert asked(client).status_code == 200
        first = synthesizer_of(app)
        for worker in first.live.workers():
            os.kill(worker.pid, signal.SIGKILL)
        assert asked(client, "Another text, after a worker died.").status_code == 200
        assert synthesizer_of(app) is first
        first.close()
        assert asked(client, "A third text, after everything was closed.").status_code == 200
        assert synthesizer_of(app) is not first


def test_config_tells_what_there_is(server: Server) -> None:
    told = server.client.get("/config").json()
    assert told["default_voice"] == "heart"
    assert "heart" in told["voices"]
    assert {"name": "heart", "engine": "hibari", "language": "en", "gender": "female",
            "title": "Heart, American", "region": "US", "short_title": "Heart"
            } in told["details"]  # fmt: skip
    ready = {engine["name"]: engine for engine in told["engines"]}
    assert ready["hibari"]["ready"]
    assert not ready["kokoro"]["ready"]
    assert "anyrig engines get kokoro" in ready["kokoro"]["reason"]
    listed = {engine["name"]: engine for engine in server.client.get("/engines").json()["engines"]}
    for rows in (ready, listed):
        assert "Coqui Public Model License" in rows["xtts"]["licence_notice"]
        assert "https://" in rows["xtts"]["licence_notice"]
        assert not rows["hibari"]["licence_notice"]
    assert sum(device["chosen"] for device in told["devices"]) == 1


@pytest.fixture
def lexicon(server: Server) -> Iterator[None]:
    yield
    server.client.put("/lexicon", json={"text": ""})


@pytest.mark.usefixtures("lexicon")
def test_the_lexicon_changes_what_is_said(server: Server) -> None:
    client = server.client
    assert client.get("/lexicon").json() == {"text": "", "entries": 0}
    before = asked(client, "The kettle is on.").content
    text = '[[say]]\nword = "kettle"\nsay = "extraordinary samovar"\n'
    assert client.put("/lexicon", json={"text": text}).json() == {"text": text, "entries": 1}
    assert client.get("/lexicon").json()["text"] == text
    assert (server.data / "lexicon.toml").read_text() == text
    assert len(asked(client, "The kettle is on.").content) > len(before)


@pytest.mark.parametrize(
    ("text", "status"),
    [("[[say]]", 400), ("nonsense", 400),
     ("[[say]]\nsay='a'\npattern='((a{1,10}){1,10}){1,10}b'", 400),
     ("[[say]]\nsay='a'\npattern='a(?=b)'", 400),
     ("#" * 1_000_001, 413)],
)  # fmt: skip
def test_a_wrong_lexicon_is_refused_and_the_old_one_stays(
    server: Server, text: str, status: int
) -> None:
    answer = server.client.put("/lexicon", json={"text": text})
    assert answer.status_code == status
    assert answer.json()["hint"]
    assert server.client.get("/lexicon").json()["text"] == ""


@pytest.mark.usefixtures("lexicon")
def test_a_pattern_does_not_stop_the_server(server: Server) -> None:
    client = server.client
    text = "[[say]]\npattern = 'a*a*a*a*b'\nsay = 'x'\n"
    assert client.put("/lexicon", json={"text": text}).json()["entries"] == 1
    assert asked(client, "a" * 400 + " is here.").status_code == 200


@pytest.mark.usefixtures("lexicon")
def test_a_lexicon_of_an_older_version_is_read_without_what_is_refused_now(
    server: Server,
) -> None:
    client = server.client
    before = asked(client, "The kettle is on.").content
    text = (
        "[[say]]\npattern = 'x(?=y)'\nsay = 'b'\n"
        "[[say]]\nword = 'kettle'\nsay = 'extraordinary samovar'\n"
    )
    (server.data / "lexicon.toml").write_text(text)
    assert client.get("/lexicon").json() == {"text": text, "entries": 1}
    assert len(asked(client, "The kettle is on.").content) > len(before)


@pytest.mark.parametrize(
    ("damaged", "words"),
    [(b"[[say]]\nword = 'kettle\nsay = 'x'", "line 2"), (b"\xff\x00" * 50, "UTF-8"),
     (b"say = 7", "not a list"), (b"", ""), (None, "folder")],
)  # fmt: skip
def test_a_damaged_lexicon_is_reported_once_and_speech_goes_on(
    make_app: MakeApp, tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: bytes | None,
    words: str,
) -> None:  # fmt: skip
    file = tmp_path / "home" / ".local" / "share" / "anyrig" / "server" / "lexicon.toml"
    file.parent.mkdir(parents=True)
    if damaged is None:
        file.mkdir()
    else:
        file.write_bytes(damaged)
    with TestClient(make_app("--no-jobs"), base_url="http://127.0.0.1:3000") as client:
        assert [asked(client).status_code for _ in range(3)] == [200] * 3
        assert client.get("/lexicon").status_code == 200
        warned = [one.getMessage() for one in caplog.records if str(file) in one.getMessage()]
        assert len(warned) == bool(words), warned
        assert words in "".join(warned)
        if damaged is not None:
            text = '[[say]]\nword = "kettle"\nsay = "extraordinary samovar"\n'
            assert client.put("/lexicon", json={"text": text}).status_code == 200
            assert client.get("/lexicon").json()["text"] == text


def test_a_server_with_old_settings_speaks_with_the_default_voice(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    old = {
        "VIBEVOICE_MODEL": "vibevoice/VibeVoice-1.5B-hf", "VIBEVOICE_DEVICE": "cpu",
        "VIBEVOICE_PORT": "3000", "VIBEVOICE_VOICE": "en-Carter_man",
    }  # fmt: skip
    app = make_app(environment=old)
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warned) == 2, "at the start, once each"
    assert "`anyrig engines get vibevoice` downloads that model." in warned[0]
    assert "VIBEVOICE_VOICE: hibari has no voice 'en-Carter_man'" in warned[1]
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        told = client.get("/config").json()
        assert told["default_voice"] == "heart"
        assert "heart" in told["voices"]
        assert "hibari" in {one["id"] for one in client.get("/v1/models").json()["data"]}
        answer = client.post("/v1/audio/speech", json={"input": "Hello.", "voice": "nobody"})
        assert answer.status_code == 400
        assert "Valid names: heart" in answer.json()["hint"]
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 2


@pytest.mark.slow
def test_a_stopped_worker_is_replaced_while_its_client_waits(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.app.speech.LIVE_SILENCE_LIMIT_S", 4.0)  # two heartbeats
    app = make_app("--no-jobs")
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        assert asked(client, "Hello.").status_code == 200  # it is loaded
        pool = synthesizer_of(app).pool
        before = pool.pids
        for pid in before:
            os.kill(pid, signal.SIGSTOP)
        answer = asked(client, "The kettle is on.")
        assert answer.status_code == 200, answer.text
        assert len(answer.content) > 24000
        assert not set(before) & set(pool.pids)


openai = pytest.importorskip("openai")


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
