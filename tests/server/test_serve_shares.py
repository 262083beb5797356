"""What one key may use of a server, so that others can use it too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.server.conftest import HERE, MakeApp

SCOPES = ("speech", "embeddings", "documents", "jobs", "train", "read")


class Clients:
    """Clients of one server that requires keys."""

    def __init__(self, client: TestClient) -> None:
        self.app: Any = client.app

    def add(self, name: str) -> TestClient:
        text, _ = self.app.state.server.keys.add(name, scopes=SCOPES)
        found = TestClient(self.app, base_url=HERE, raise_server_exceptions=False)
        found.headers["Authorization"] = f"Bearer {text}"
        return found


@pytest.fixture
def clients(make_app: MakeApp) -> Iterator[Clients]:
    app = make_app(
        "--require-keys", "--no-jobs",
        environment={
            "ANYRIG_SERVER_UPLOAD_FILES": "8", "ANYRIG_SERVER_UPLOAD_TOTAL_MB": "0.01",
            "ANYRIG_SERVER_QUEUE": "6", "ANYRIG_SERVER_MAX_MODELS": "4",
        },
    )  # fmt: skip
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield Clients(client)


def upload(client: TestClient, *sizes: int) -> Any:
    files = [("files", (f"{number}.txt", b"a" * size)) for number, size in enumerate(sizes)]
    return client.post("/uploads", files=files)


def submit(client: TestClient) -> Any:
    return client.post("/jobs", json={"kind": "bench", "arguments": {"quick": True}})


def test_the_files_of_one_key_leave_room_for_others(clients: Clients) -> None:
    ann, bob = clients.add("ann"), clients.add("bob")
    assert upload(ann, 1, 1, 1, 1, 1).status_code == 413, "all in one form"
    for _ in range(4):
        answer = upload(ann, 1)
        assert answer.status_code == 201
    refused = upload(ann, 1)
    assert refused.status_code == 413
    assert refused.json()["title"] == "a key may have at most 4 files here"
    assert "server.client_share" in refused.json()["hint"]
    assert upload(bob, 1, 1).status_code == 201
    ann.delete(f"/uploads/{answer.json()['files'][0]['id']}")
    assert upload(ann, 1).status_code == 201


def test_the_bytes_of_one_key_leave_room_for_others(clients: Clients) -> None:
    ann, bob = clients.add("ann"), clients.add("bob")
    first = upload(ann, 3000)
    assert first.status_code == 201
    refused = upload(ann, 3000)
    assert refused.status_code == 413
    assert refused.json()["title"] == "the files of this key exceed 0.005 MB in total"
    assert upload(bob, 3000).status_code == 201
    ann.delete(f"/uploads/{first.json()['files'][0]['id']}")
    assert upload(ann, 3000).status_code == 201


def test_the_waiting_jobs_of_one_key_leave_room_for_others(clients: Clients) -> None:
    ann, bob = clients.add("ann"), clients.add("bob")
    jobs = [submit(ann) for _ in range(3)]
    assert [one.status_code for one in jobs] == [201] * 3
    ann.post(f"/jobs/{jobs[0].json()['id']}/pause")
    refused = submit(ann)
    assert refused.status_code == 429
    assert refused.json()["title"] == "3 jobs of this key are waiting already; the limit is 3"
    assert int(refused.headers["retry-after"]) > 0
    assert submit(bob).status_code == 201
    ann.post(f"/jobs/{jobs[0].json()['id']}/cancel")
    assert submit(ann).status_code == 201


def test_jobs_of_several_keys_take_turns(clients: Clients) -> None:
    ann, bob = clients.add("ann"), clients.add("bob")
    many = [submit(ann).json()["id"] for _ in range(3)]
    few = [submit(bob).json()["id"] for _ in range(2)]
    places = {job["id"]: job["place"] for job in bob.get("/jobs").json()["jobs"]}
    assert places == {few[0]: 2, few[1]: 4}
    queue = clients.app.state.server.jobs
    claimed = [queue.claim("me").id for _ in range(5)]
    assert claimed == [many[0], few[0], many[1], few[1], many[2]]


def speak(client: TestClient, **options: Any) -> Any:
    body = {"model": "tone", "input": "Hello.", "response_format": "pcm", "options": options}
    return client.post("/v1/audio/speech", json=body)


def list_loaded(clients: Clients) -> list[str]:
    models = clients.app.state.server.models.loaded_models()
    return [one.name for one in models if one.name.startswith("speech")]


def test_each_value_of_an_option_does_not_load_one_more_engine(clients: Clients) -> None:
    ann, bob = clients.add("ann"), clients.add("bob")
    assert speak(bob).status_code == 200
    for memory_items in (150, 160, 170, 180):
        assert speak(ann, memory_items=memory_items).status_code == 200
        assert len(list_loaded(clients)) <= 3
    assert list_loaded(clients) == [
        "speech tone",
        "speech tone memory_items=170",
        "speech tone memory_items=180",
    ]


def test_engines_in_use_are_not_unloaded_for_another(clients: Clients) -> None:
    ann, bob = clients.add("ann"), clients.add("bob")
    speech, key = clients.app.state.server.speech, clients.app.state.server.keys.list_keys()[0].id
    with ExitStack() as stack:
        for memory_items in (150, 160):
            request = speech.request(
                text="Hello.", engine="tone", set={"memory_items": memory_items}
            )
            stack.enter_context(speech.start(request, client=key))
        refused = speak(ann, memory_items=170)
        assert refused.status_code == 429, refused.text
        assert refused.json()["title"] == "2 models of this client are in use; the limit is 2"
        assert int(refused.headers["retry-after"]) > 0
        assert speak(bob, memory_items=170).status_code == 200
    assert speak(ann, memory_items=170).status_code == 200
