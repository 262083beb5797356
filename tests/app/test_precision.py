"""fp8 is for training: everything else refuses it with the reason, wherever it is requested."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from anyrig.app.compute import ComputeOptions
from anyrig.app.embedding import EmbedRequest
from anyrig.app.jobs import JOB_KINDS
from anyrig.app.rig import Rig
from anyrig.app.speech import SpeechRequest
from anyrig.app.training import TrainingRequest, merge_settings
from anyrig.errors import InvalidOptionError
from anyrig.options import json_schema
from tests.conftest import Anyrig
from tests.server.conftest import MakeApp, make_app  # noqa: F401 - a fixture

REASON = "cannot be fp8: only `anyrig train` computes in fp8"


@pytest.mark.parametrize(
    "words",
    [
        ("speak", "Hello.", "--precision", "fp8"), ("speak", "Hello.", "--precision", "float8"),
        ("book", "a.txt", "--precision", "fp8"), ("embed", "a text", "--precision", "FP8"),
        ("index", ".", "--precision", "fp8"), ("serve", "--precision", "fp8"),
        ("worker", "--precision", "fp8"), ("bench", "--speech", "--precision", "fp8"),
        ("transcribe", "a.wav", "--precision", "fp8"), ("profile", "--precision", "fp8"),
        ("classify", "a.txt", "--precision", "fp8"), ("summarise", "a.txt", "--precision=fp8"),
    ],
)  # fmt: skip
def test_commands_refuse_fp8(anyrig: Anyrig, words: tuple[str, ...]) -> None:
    done = anyrig(*words)
    assert done.returncode == 2, done.stderr
    assert f"--precision {REASON}" in done.stderr
    assert "Use one of auto, fp32, tf32, fp16, bf16." in done.stderr


def test_python_refuses_fp8() -> None:
    rig = Rig(environment={})
    with pytest.raises(InvalidOptionError, match="only `anyrig train`"):
        rig.speak("Hello.", precision="fp8")
    for kind, given in ((SpeechRequest, {"text": "Hello."}), (EmbedRequest, {})):
        with pytest.raises(InvalidOptionError) as caught:
            rig.request(kind, **given, precision="float8_e4m3fn")
        assert caught.value.option == "precision"


def test_jobs_over_http_refuse_fp8(make_app: MakeApp) -> None:  # noqa: F811
    client = TestClient(make_app("--no-jobs"), base_url="http://127.0.0.1:3000")
    upload = client.post("/uploads", files={"files": ("a.txt", b"CHAPTER I\n\nThe tide.")})
    file = upload.json()["files"][0]["id"]
    given = {"file": f"upload:{file}", "precision": "fp8"}
    answer = client.post("/jobs", json={"kind": "book", "arguments": given})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == "precision"
    assert REASON in error["message"]
    for kind, request in JOB_KINDS.items():
        schema = json_schema(request.request, http=True)["properties"].get("precision", {})
        assert ("fp8" in schema.get("enum", ())) is (kind == "train"), kind


def test_setting_fp8_is_for_training(tmp_path: Path) -> None:
    """The setting is valid, since training uses it; what does not train refuses it."""
    file = tmp_path / "anyrig.toml"
    file.write_text('[compute]\nprecision = "fp8"\n', encoding="utf-8")
    rig = Rig(config=file, environment={})
    with pytest.raises(InvalidOptionError, match="only `anyrig train`"):
        rig.request(SpeechRequest, text="Hello.")
    with pytest.raises(InvalidOptionError, match="only `anyrig train`"):
        rig.request(ComputeOptions)
    request = rig.request(TrainingRequest, file=Path("run.toml"))
    assert merge_settings(rig, request, {})["precision"] == "fp8"
    assert merge_settings(rig, request, {"precision": "bf16"})["precision"] == "bf16"
