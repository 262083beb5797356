"""`/v1/audio/transcriptions`, asked by OpenAI's own client and by those who send nonsense."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
from openai import OpenAI

from anyrig.transcription.compare import count_word_errors
from tests.server.conftest import Server
from tests.speech.takes import RATE, said, sentences

TEXT = " ".join(sentences()[:2])
PATH = "/v1/audio/transcriptions"


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = [said(text).samples for text in sentences()[:2]]
    rest = np.zeros(RATE, np.float32)
    path = tmp_path_factory.mktemp("talk") / "talk.wav"
    soundfile.write(path, np.concatenate([parts[0], rest, parts[1], rest]), RATE)
    return path


@pytest.fixture(scope="module")
def client(server: Server) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)


def test_the_openai_client_is_answered_in_every_form(client: OpenAI, talk: Path) -> None:
    made = client.audio.transcriptions
    plain = made.create(model="whisper-1", file=talk, language="en")
    assert count_word_errors(TEXT, plain.text).rate <= 0.15
    text: Any = made.create(model="whisper-1", file=talk, language="en", response_format="text")
    assert str(text).strip() == plain.text.strip()
    srt: Any = made.create(model="whisper-1", file=talk, language="en", response_format="srt")
    assert str(srt).splitlines()[1].startswith("00:00:0")
    vtt: Any = made.create(model="whisper-1", file=talk, language="en", response_format="vtt")
    assert str(vtt).startswith("WEBVTT")
    verbose = made.create(
        model="gpt-4o-transcribe", file=talk, language="en", response_format="verbose_json",
        timestamp_granularities=["segment"], prompt="The keeper.", temperature=0.2,
    )  # fmt: skip
    assert verbose.language == "en"
    assert verbose.segments is not None
    assert 0 <= verbose.segments[0].start < verbose.segments[0].end <= float(verbose.duration)


def test_it_streams_to_the_openai_client(client: OpenAI, talk: Path) -> None:
    events = list(
        client.audio.transcriptions.create(model="whisper-1", file=talk, language="en", stream=True)
    )
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert events[-1].type == "transcript.text.done"
    assert "".join(deltas) == events[-1].text
    assert count_word_errors(TEXT, events[-1].text).rate <= 0.15


def test_what_was_not_used_is_said_and_nothing_is_kept(server: Server, talk: Path) -> None:
    before = server.client.get("/uploads").json()
    answer = server.client.post(
        PATH, files={"file": ("talk.wav", talk.read_bytes())},
        data={"model": "whisper-1", "language": "en", "prompt": "x", "temperature": "0"},
    )  # fmt: skip
    assert answer.status_code == 200
    assert answer.headers["x-anyrig-ignored"] == "prompt, temperature"
    assert answer.json()["usage"]["type"] == "duration"
    assert server.client.get("/uploads").json() == before


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"response_format": "mp3"}, "unknown response_format"),
        ({"model": "/etc"}, "may not be named"),
        ({"model": "nobody-knows"}, "nobody-knows"),
        ({"language": "../en"}, "not a language code"),
        ({"timestamp_granularities[]": "word"}, "verbose_json"),
        ({"response_format": "srt", "stream": "true"}, "streamed"),
        ({"path": "/etc/passwd"}, "unknown field"),
    ],
)
def test_bad_fields_are_problems(
    server: Server, talk: Path, fields: dict[str, str], said: str
) -> None:
    before = server.client.get("/uploads").json()
    answer = server.client.post(
        PATH, files={"file": ("talk.wav", talk.read_bytes())}, data={"model": "", **fields}
    )
    assert 400 <= answer.status_code < 502
    assert answer.status_code != 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["title"]
    assert server.client.get("/uploads").json() == before


def test_what_is_no_recording_is_refused(server: Server, client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as found:
        client.audio.transcriptions.create(
            model="whisper-1", file=("talk.mp3", io.BytesIO(b"not a sound at all"))
        )
    assert "talk.mp3" in found.value.message
    assert server.client.post(PATH, data={"model": "x"}).status_code == 415
    nothing = server.client.post(PATH, files={"model": (None, "whisper-1")})
    assert nothing.status_code == 400
