"""Voices from samples over HTTP, for the owner alone."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anyrig import Rig
from tests.server.conftest import HERE, MakeApp, add_key, environment_of

pytestmark = pytest.mark.skipif(find_spec("faster_whisper") is None, reason="no voice detector")
TEXT = (
    "The harbour was quiet in the early morning, and the boats lay still on the grey water. An old"
    " woman walked along the wall with a basket of bread."
)


@pytest.fixture(scope="module")
def sample() -> bytes:
    data = io.BytesIO()
    with Rig() as rig:
        rig.speak(TEXT, engine="hibari").save(data, "wav")
    return data.getvalue()


def test_a_voice_is_added_used_and_removed(app_client: TestClient, sample: bytes) -> None:
    form = {"name": "anna", "engine": "tone", "consent_by": "A. Miller"}
    answer = app_client.post("/voices", data=form, files={"file": ("me.wav", sample)})
    assert answer.status_code == 201, answer.text
    assert answer.json()["file"] == "me.wav"
    assert {one["name"] for one in answer.json()["checks"]} >= {"length", "level", "noise"}
    shown = app_client.get("/voices/tone/anna").json()
    assert shown["sample"]["consent_by"] == "A. Miller"
    speech = {"model": "tone", "voice": "anna", "input": "Hello.", "response_format": "pcm"}
    assert app_client.post("/v1/audio/speech", json=speech).status_code == 200
    preview = app_client.get("/voices/tone/anna/sample")
    assert preview.headers["content-type"] == "audio/mpeg"
    assert app_client.get("/uploads").json() == {"files": []}
    assert app_client.delete("/voices/tone/anna").status_code == 204
    assert app_client.delete("/voices/tone/anna").status_code == 404
    assert app_client.post("/v1/audio/speech", json=speech).status_code == 400


def test_what_is_wrong_is_said(app_client: TestClient, sample: bytes) -> None:
    def send(data: bytes = sample, **form: str) -> tuple[int, str]:
        answer = app_client.post(
            "/voices", data={"engine": "tone", **form}, files={"file": ("me.wav", data)}
        )
        return answer.status_code, answer.json().get("title", "")

    assert send(name="ben") == (400, "the speaker's consent was not declared")
    assert send(b"no audio", name="ben", consent_by="A. Miller")[0] == 400
    status, title = send(sample[:60_000], name="ben", consent_by="A. Miller")
    assert status == 400
    assert title.startswith("me.wav will not do as a sample (length: ")
    assert app_client.get("/voices/tone/ben").status_code == 404


def test_only_the_owner_adds_sees_consent_and_removes(
    make_app: MakeApp, tmp_path: Path, sample: bytes
) -> None:
    home = tmp_path / "home"
    environment_of(home)
    keys = {name: add_key(home, name, "--scopes", name) for name in ("speech", "admin")}
    app = make_app("--require-keys")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:

        def call(method: str, path: str, key: str, **more: object) -> int:
            headers = {"Authorization": f"Bearer {keys[key]}"}
            return client.request(method, path, headers=headers, **more).status_code  # type: ignore[arg-type]

        form = {"name": "anna", "engine": "tone", "consent_by": "A. Miller"}
        files = {"file": ("me.wav", sample)}
        assert call("POST", "/voices", "speech", data=form, files=files) == 403
        assert call("POST", "/voices", "admin", data=form, files=files) == 201
        headers = {"Authorization": f"Bearer {keys['speech']}"}
        assert client.get("/voices/tone/anna", headers=headers).json()["sample"] is None
        assert call("DELETE", "/voices/tone/anna", "speech") == 403
        assert call("DELETE", "/voices/tone/anna", "admin") == 204
