"""Word times with the audio: `timestamps` of /v1/audio/speech, and Kokoro-FastAPI's route."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

TEXT = "The kettle is on. Dr. Lee paid $3.50 for the old stone stairs, and left."
FIELDS = {"model": "tone", "input": TEXT, "response_format": "pcm"}


def check_words(words: list[dict[str, Any]], audio: bytes, text: str = TEXT) -> None:
    """In the order of the text, inside the audio, each where there is sound."""
    samples = np.abs(np.frombuffer(audio, "<i2").astype(np.float32)) / 32768
    assert [text[slice(*word["span"])] for word in words] == text.split()
    assert all(one["end"] <= two["start"] + 1e-3 for one, two in pairwise(words))
    assert words[-1]["end"] <= len(samples) / 24000 + 1e-3
    loudest = samples.max()
    for word in words:
        heard = samples[round(word["start"] * 24000) : round(word["end"] * 24000)]
        assert heard.max() > 0.5 * loudest, word
    for one, two in pairwise(words):
        if two["start"] - one["end"] > 0.25:  # the pause after a sentence
            gap = samples[round(one["end"] * 24000) + 480 : round(two["start"] * 24000) - 480]
            assert gap.max(initial=0) < 0.01 * loudest, (one, two)


@pytest.fixture
def openai_client(shared_client: TestClient) -> Any:
    openai = pytest.importorskip("openai")
    return openai.OpenAI(
        base_url=f"{shared_client.base_url}/v1", api_key="none", http_client=shared_client
    )


def test_the_official_client_gets_audio_and_words(openai_client: Any) -> None:
    answer = openai_client.audio.speech.create(
        model="tone",
        voice="tone",
        input=TEXT,
        response_format="pcm",
        extra_body={"timestamps": True},
    )
    found = json.loads(answer.content)
    audio = base64.b64decode(found["audio"])
    assert (found["format"], found["timing"]) == ("pcm", "exact")
    assert found["duration"] == pytest.approx(len(audio) / 48000, abs=0.002)
    check_words(found["words"], audio)


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_times_fit_at_another_pace(shared_client: TestClient, speed: float) -> None:
    answer = shared_client.post(
        "/v1/audio/speech", json={**FIELDS, "timestamps": True, "speed": speed}
    )
    check_words(answer.json()["words"], base64.b64decode(answer.json()["audio"]))


def test_the_official_client_streams_events_with_words(openai_client: Any) -> None:
    text = " ".join(f"This is sentence number {number}." for number in range(12))
    with openai_client.audio.speech.with_streaming_response.create(
        model="tone", voice="tone", input=text, response_format="pcm", stream_format="sse",
        extra_body={"timestamps": True},
    ) as answer:  # fmt: skip
        lines = [line for line in answer.iter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    kinds = [event["type"] for event in events]
    assert kinds[-1] == "speech.audio.done"
    assert kinds.count("speech.audio.words") > 3  # with the audio that they are heard in
    assert kinds.index("speech.audio.words") < kinds.index("speech.audio.delta", 1)
    audio = b"".join(base64.b64decode(one["audio"]) for one in events if "audio" in one)
    words = [word for one in events for word in one.get("words", ())]
    assert {one["timing"] for one in events if "timing" in one} == {"exact"}
    check_words(words, audio, text)


def test_without_timestamps_no_event_has_words(shared_client: TestClient) -> None:
    answer = shared_client.post("/v1/audio/speech", json={**FIELDS, "stream_format": "sse"})
    assert "speech.audio.words" not in answer.text


def test_clients_of_kokoro_fastapi_read_a_line_of_json_for_each_part(
    shared_client: TestClient,
) -> None:
    """As its README has it: `for chunk in response.iter_lines(): json.loads(chunk)`."""
    audio, words = b"", []
    with shared_client.stream("POST", "/dev/captioned_speech", json=FIELDS) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        for line in answer.iter_lines():
            found = json.loads(line)
            assert set(found) == {"audio", "audio_format", "timestamps"}
            assert found["audio_format"] == "audio/pcm"
            audio += base64.b64decode(found["audio"])
            words += found["timestamps"]
    assert set(words[0]) == {"word", "start_time", "end_time"}
    assert [word["word"] for word in words] == TEXT.split()
    assert words[-1]["end_time"] <= len(audio) / 48000


def test_kokoro_fastapis_other_fields(shared_client: TestClient) -> None:
    def ask(**more: Any) -> Any:
        return shared_client.post("/dev/captioned_speech", json={**FIELDS, "stream": False, **more})

    whole = ask().json()
    assert [word["word"] for word in whole["timestamps"]] == TEXT.split()
    plain = ask(return_timestamps=False, lang_code="a", allow_voice_tags=True)
    assert plain.json()["timestamps"] is None
    assert plain.headers["x-anyrig-ignored"] == "allow_voice_tags"
    assert plain.json()["audio"] == whole["audio"]
    quiet = np.frombuffer(base64.b64decode(ask(volume_multiplier=0.25).json()["audio"]), "<i2")
    loud = np.frombuffer(base64.b64decode(whole["audio"]), "<i2")
    ratio = np.abs(quiet).astype(float).mean() / np.abs(loud).astype(float).mean()
    assert ratio == pytest.approx(0.25, rel=0.1)
    assert ask(lang_code="no such").status_code == 422
    assert ask(voice="nobody").status_code == 400


def test_an_engine_without_durations_says_what_is_missing_before_any_audio(
    app_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anyrig.transcription.models as models

    monkeypatch.setattr(models, "find_spec", lambda name: None)
    body = {"model": "nanotts", "input": "Hello there.", "timestamps": True}
    answer = app_client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 501
    assert "nanotts gives no word times" in answer.json()["title"]
    assert "anyrig[recognise]" in answer.json()["hint"]
    assert "hibari" in answer.json()["hint"]
