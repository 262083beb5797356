"""What each kind of job takes, as it is described: nothing is left out, and examples are true."""

from __future__ import annotations

import json
import re

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
