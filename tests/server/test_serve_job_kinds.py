"""What each kind of job takes, as it is described: nothing is left out, and examples are true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from anyrig.app.jobs import JOB_KINDS
from anyrig.server.job_requests import EXAMPLES, list_arguments
from tests.server.conftest import MakeApp

UPLOAD = re.compile(r"upload:[0-9a-f]{32}")


@pytest.fixture
def client(make_app: MakeApp) -> TestClient:
    return TestClient(make_app("--no-jobs"), base_url="http://127.0.0.1:3000")


def test_the_description_has_every_kind_with_an_example(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()["components"]["schemas"]["NewJob"]
    kinds = {one["title"]: one for one in schema["oneOf"]}
    assert kinds.keys() == JOB_KINDS.keys() == EXAMPLES.keys()
    assert {one["kind"] for one in schema["examples"]} == {*schema["properties"]["kind"]["enum"]}
    index = kinds["index"]["properties"]["arguments"]["properties"]["index"]
    assert "name" in index["description"]
    page = client.get("/docs").text
    for kind, example in EXAMPLES.items():
        assert f"<h3>{kind}</h3>" in page
        assert all(f"<code>{name}</code>" in page for name in list_arguments(kind))
        assert all(name in list_arguments(kind) for name in example)


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_every_example_is_taken(client: TestClient, kind: str) -> None:
    data = b'[task]\nkind = "text"\n' if kind == "train" else b"CHAPTER I\n\nThe tide came in."
    sent = client.post("/uploads", files={"files": ("a.txt", data)}).json()["files"][0]["id"]
    example = UPLOAD.sub(f"upload:{sent}", json.dumps(EXAMPLES[kind]))
    answer = client.post("/jobs", json={"kind": kind, "arguments": json.loads(example)})
    assert answer.status_code == 201, answer.text


def upload(client: TestClient, name: str, data: bytes) -> str:
    return (
        f"upload:{client.post('/uploads', files={'files': (name, data)}).json()['files'][0]['id']}"
    )


def post(client: TestClient, kind: str, **arguments: Any) -> Any:
    return client.post("/jobs", json={"kind": kind, "arguments": arguments})


@pytest.mark.parametrize(("length", "status"), [(15_000, 201), (20_000, 201), (20_001, 400)])
def test_a_line_has_one_limit_however_it_is_sent(
    client: TestClient, length: int, status: int
) -> None:
    text = "word " * (length // 5) + "x" * (length % 5)
    file = upload(client, "lines.txt", text.encode() + b"\nGood bye.\n")
    answers = [
        post(client, "batch", lines=[text], engine="tone"),
        post(client, "batch", lines=[{"text": text}], engine="tone"),
        post(client, "batch", file=file, engine="tone"),
    ]
    assert [one.status_code for one in answers] == [status] * 3, [one.text for one in answers]
    if status == 400:
        assert {one.json()["title"] for one in answers} == {"line 1 has 20,001 characters"}


@pytest.mark.parametrize("spelled", ["m4b", "M4B", ".M4b", " m4b"])
def test_a_format_is_spelled_in_any_case(client: TestClient, spelled: str) -> None:
    file = upload(client, "book.txt", b"CHAPTER I\n\nThe tide came in.")
    answer = post(client, "book", file=file, engine="tone", format=spelled)
    assert answer.status_code == 201, answer.text
    job = client.app.state.server.jobs.get(answer.json()["id"])  # type: ignore[attr-defined]
    assert job.arguments["format"] == "m4b"
    assert Path(job.arguments["output"]).name == "book.m4b"


def test_transcripts_are_named_by_their_format(client: TestClient) -> None:
    file = upload(client, "talk.wav", b"RIFF")
    answer = post(client, "transcribe", file=file, format="SRT, .Txt")
    assert answer.status_code == 201, answer.text
    job = client.app.state.server.jobs.get(answer.json()["id"])  # type: ignore[attr-defined]
    assert job.arguments["format"] == ["srt", "txt"]
    assert Path(job.arguments["output"]).name == "transcript.srt"
    assert post(client, "transcribe", file=file, format="../x").status_code == 400


@pytest.mark.parametrize("kind", ["book", "batch", "index", "train", "bench"])
def test_processes_have_a_limit(client: TestClient, kind: str) -> None:
    name = "nproc" if kind == "train" else "workers_per_device"
    data = b'[task]\nkind = "text"\n' if kind == "train" else b"CHAPTER I\n\nThe tide came in."
    sent = client.post("/uploads", files={"files": ("a.txt", data)}).json()["files"][0]["id"]
    example = json.loads(UPLOAD.sub(f"upload:{sent}", json.dumps(EXAMPLES[kind])))
    for count in (1000, 10**12):
        value = str(count) if kind == "train" else count
        answer = client.post("/jobs", json={"kind": kind, "arguments": {**example, name: value}})
        assert answer.status_code == 400, answer.text
        assert name in answer.json()["title"]
    assert client.get("/jobs").json()["jobs"] == []


@pytest.mark.parametrize("count", [1000, "1000", 10**12])
def test_processes_that_read_training_data_have_a_limit(
    client: TestClient, count: int | str
) -> None:
    in_file = f'[task]\nkind = "text"\n[train]\nloading.num_workers = {int(count)}\n'
    plain = upload(client, "run.toml", b'[task]\nkind = "text"\n')
    answers = [
        post(client, "train", file=upload(client, "run.toml", in_file.encode())),
        post(client, "train", file=plain, set={"train.loading.num_workers": count}),
        post(client, "train", file=plain, set={"train.loading": f"{{num_workers = {count}}}"}),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert "train.loading.num_workers" in answer.json()["title"]
    for few in (0, 2, "auto"):
        answer = post(client, "train", file=plain, set={"train.loading.num_workers": few})
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("name", ["x", "../x", 7, ["wav"]])
def test_a_batch_of_an_unknown_format_is_refused_at_once(client: TestClient, name: object) -> None:
    assert post(client, "batch", lines=["One."], engine="tone", format=name).status_code == 400
    assert post(client, "batch", lines=["One."], engine="tone", format="MP3").status_code == 201
