"""Two keys on one server: neither sees, fetches, changes or uses what the other made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.server.conftest import HERE, MakeApp
from tests.server.test_serve_jobs import over, until
from tests.waiting import wait_until

SCOPES = ("speech", "embeddings", "documents", "jobs", "train", "read")
TEXT = "The parrots sing in the attic at night."


@dataclass
class People:
    """Clients of one server: two with keys of their own, an admin, and one for the page alone."""

    ann: TestClient
    bob: TestClient
    admin: TestClient
    app: Any


@pytest.fixture
def people(make_app: MakeApp) -> Iterator[People]:
    app = make_app("--require-keys", "--no-jobs")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        yield _people(client)


def _people(client: TestClient) -> People:
    app: Any = client.app

    def one(name: str, *scopes: str) -> TestClient:
        text, _ = app.state.server.keys.add(name, scopes=scopes)
        found = TestClient(app, base_url=HERE, raise_server_exceptions=False)
        found.headers["Authorization"] = f"Bearer {text}"
        return found

    return People(one("ann", *SCOPES), one("bob", *SCOPES), one("boss", "admin"), app)


def sent(client: TestClient, name: str = "letter.txt", text: str = TEXT) -> str:
    answer = client.post("/uploads", files={"files": (name, text.encode())})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["files"][0]["id"])


def begun(client: TestClient, kind: str, **arguments: Any) -> str:
    answer = client.post("/jobs", json={"kind": kind, "arguments": arguments})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def same_as_none(answer: Any, none: Any, id: str, missing: str) -> bool:
    """Whether the answer about something of another key is that about nothing at all."""
    same = answer.status_code == none.status_code
    return bool(same and answer.text.replace(id, missing) == none.text)


def test_uploads_belong_to_the_key_that_sent_them(people: People) -> None:
    mine, none = sent(people.ann), "0" * 32
    assert [one["id"] for one in people.ann.get("/uploads").json()["files"]] == [mine]
    assert people.bob.get("/uploads").json()["files"] == []
    assert [one["id"] for one in people.admin.get("/uploads").json()["files"]] == [mine]
    for method, path in (
        ("GET", "/uploads/{}"), ("GET", "/uploads/{}/content"), ("DELETE", "/uploads/{}"),
        ("GET", "/books/cover/{}"),
    ):  # fmt: skip
        answer = people.bob.request(method, path.format(mine))
        missing = people.bob.request(method, path.format(none))
        assert missing.status_code == 404
        assert same_as_none(answer, missing, mine, none), (method, path, answer.text)
    assert people.ann.get(f"/uploads/{mine}/content").text == TEXT
    assert people.admin.get(f"/uploads/{mine}/content").text == TEXT


def test_uploads_of_others_cannot_be_used_by_their_id(people: People) -> None:
    mine, none = sent(people.ann), "0" * 32
    toml = sent(people.bob, "run.toml", f'[task]\nkind = "language"\ntext = "upload:{mine}"\n')
    uses: list[tuple[str, dict[str, Any]]] = [
        ("/books/plan", {"file": "upload:{}"}),
        ("/documents/embed", {"files": ["upload:{}"], "model": "hashing"}),
        ("/documents/entities", {"files": ["upload:{}"], "engine": "grammar"}),
        ("/documents/summarise", {"files": ["upload:{}"]}),
        ("/documents/analyse", {"files": ["upload:{}"]}),
        ("/documents/ocr", {"files": ["upload:{}"]}),
        ("/documents/classify", {"files": ["upload:{}"], "labels": ["a", "b"]}),
        ("/documents/similar", {"to_file": "upload:{}", "texts": ["x"]}),
        ("/documents/similar", {"to_text": "x", "files": ["upload:{}"]}),
        ("/jobs", {"kind": "book", "arguments": {"file": "upload:{}"}}),
        ("/jobs", {"kind": "transcribe", "arguments": {"file": "upload:{}"}}),
        ("/jobs", {"kind": "index", "arguments": {"files": ["upload:{}"]}}),
        ("/jobs", {"kind": "batch", "arguments": {"file": "upload:{}"}}),
        ("/jobs", {"kind": "train", "arguments": {"file": "upload:{}"}}),
    ]
    for path, body in uses:
        answers = [
            people.bob.post(path, json=json.loads(json.dumps(body).replace("{}", id)))
            for id in (mine, none)
        ]
        assert answers[1].status_code == 404, (path, body, answers[1].text)
        assert same_as_none(answers[0], answers[1], mine, none), (path, body, answers[0].text)
    with_toml = {"kind": "train", "arguments": {"file": f"upload:{toml}"}}
    assert people.bob.post("/jobs", json=with_toml).status_code == 404
    own = sent(people.bob, "book.txt", "CHAPTER I\n\nThe tide came in.")
    for name in ("cover", "cast", "lexicon"):
        arguments = {"file": f"upload:{own}", name: f"upload:{mine}"}
        answer = people.bob.post("/jobs", json={"kind": "book", "arguments": arguments})
        assert answer.status_code == 404, (name, answer.text)


LEXICON = '[[say]]\nword = "{word}"\nsay = "extraordinary samovar"\n'


def test_a_lexicon_belongs_to_a_key_and_the_owners_applies_to_all(people: People) -> None:
    def spoken(client: TestClient, text: str = "The kettle is on.") -> int:
        body = {"model": "tone", "input": text, "response_format": "pcm"}
        answer = client.post("/v1/audio/speech", json=body)
        assert answer.status_code == 200, answer.text
        return len(answer.content)

    plain, empty = spoken(people.bob), {"text": "", "entries": 0}
    text = LEXICON.format(word="kettle")
    assert people.ann.put("/lexicon", json={"text": text}).json() == {"text": text, "entries": 1}
    assert people.ann.get("/lexicon").json()["text"] == text
    assert [one.get("/lexicon").json() for one in (people.bob, people.admin)] == [empty, empty]
    assert spoken(people.ann) > plain
    assert spoken(people.bob) == spoken(people.admin) == plain

    owners = LEXICON.format(word="on")
    assert people.admin.put("/lexicon", json={"text": owners}).status_code == 200
    assert people.bob.get("/lexicon").json() == empty
    assert people.ann.get("/lexicon").json()["text"] == text
    assert spoken(people.bob) == spoken(people.admin) > plain
    assert spoken(people.ann) > spoken(people.bob)
    # A key's own word counts before the owner's.
    people.bob.put("/lexicon", json={"text": '[[say]]\nword = "on"\nsay = "on"\n'})
    assert spoken(people.bob) == plain
    people.ann.put("/lexicon", json={"text": ""})
    assert spoken(people.ann) == spoken(people.admin)


def test_jobs_belong_to_the_key_that_began_them(people: People) -> None:
    id = begun(people.ann, "batch", lines=["Hello."], engine="tone")
    theirs = begun(people.bob, "batch", lines=["Good bye."], engine="tone")
    assert [one["id"] for one in people.ann.get("/jobs").json()["jobs"]] == [id]
    listed = people.bob.get("/jobs").json()
    assert [one["id"] for one in listed["jobs"]] == [theirs]
    assert listed["counts"]["queued"] == 1
    assert len(people.admin.get("/jobs").json()["jobs"]) == 2
    none = "a" * len(id)
    for method, path in (
        ("GET", "/jobs/{}"), ("GET", "/jobs/{}/events"), ("GET", "/jobs/{}/files"),
        ("GET", "/jobs/{}/files/1"), ("HEAD", "/jobs/{}/files/1"), ("GET", "/jobs/{}/chapters"),
        ("GET", "/jobs/{}/chapters/1"), ("POST", "/jobs/{}/pause"), ("POST", "/jobs/{}/resume"),
        ("POST", "/jobs/{}/cancel"), ("DELETE", "/jobs/{}"),
    ):  # fmt: skip
        answer = people.bob.request(method, path.format(id))
        missing = people.bob.request(method, path.format(none))
        assert missing.status_code == 404, (path, missing.text)
        assert same_as_none(answer, missing, id, none), (method, path, answer.text)
    assert people.ann.get(f"/jobs/{id}").json()["state"] == "queued"
    assert people.admin.post(f"/jobs/{id}/pause").json()["state"] == "paused"
    assert people.ann.delete(f"/jobs/{id}").status_code == 200


def test_a_key_that_is_made_anew_under_an_old_name_inherits_nothing(people: People) -> None:
    sent(people.ann)
    keys = people.app.state.server.keys
    keys.remove("ann")
    text, _ = keys.add("ann", scopes=SCOPES)
    people.ann.headers["Authorization"] = f"Bearer {text}"
    assert people.ann.get("/uploads").json()["files"] == []


def test_what_was_made_without_a_key_is_for_admins(people: People) -> None:
    state = people.app.state.server
    with state.uploads.receive("old.txt") as file:
        file.write(b"from before")
    job = state.jobs.submit("batch", {"lines": []})
    old = file.upload.id
    card = state.data_folder / "uploads" / f"{old}.json"
    told = json.loads(card.read_text())
    del told["owner"]  # as 0.1.0 wrote it
    card.write_text(json.dumps(told))
    for client in (people.ann, people.bob):
        assert client.get("/uploads").json()["files"] == []
        assert client.get(f"/uploads/{old}").status_code == 404
        assert client.get("/jobs").json()["jobs"] == []
        assert client.get(f"/jobs/{job.id}").status_code == 404
    assert people.admin.get(f"/uploads/{old}/content").text == "from before"
    assert people.admin.get(f"/jobs/{job.id}").status_code == 200


def test_without_keys_everything_is_everybodys(make_app: MakeApp) -> None:
    with TestClient(make_app("--require-keys", "--no-jobs"), base_url=HERE) as client:
        people = _people(client)
        mine, job = sent(people.ann), begun(people.ann, "batch", lines=["x"], engine="tone")
    with TestClient(make_app("--no-jobs"), base_url=HERE) as anybody:
        other = sent(anybody)
        assert {one["id"] for one in anybody.get("/uploads").json()["files"]} == {mine, other}
        assert anybody.get(f"/jobs/{job}").status_code == 200
        assert anybody.delete(f"/uploads/{mine}").status_code == 200


def test_the_page_shows_a_visitor_what_belongs_to_their_key(people: People) -> None:
    from anyrig.server.auth import KEY_NEEDED_HEADER
    from anyrig.server.page.api import ApiClient

    sent(people.ann), begun(people.ann, "batch", lines=["Hello."], engine="tone")
    state = people.app.state.server
    text, _ = state.keys.add("visitor", scopes=("page",))

    def visit(key: str) -> ApiClient:
        headers = [(b"authorization", f"Bearer {key}".encode()), (KEY_NEEDED_HEADER, b"1")]
        return ApiClient(people.app, state).for_visitor({"headers": headers})

    async def seen(api: ApiClient) -> tuple[int, int]:
        return (
            len((await api.get("/uploads"))["files"]), len((await api.get("/jobs"))["jobs"])
        )  # fmt: skip

    import anyio

    assert anyio.run(seen, visit(text)) == (0, 0)
    ann = people.ann.headers["Authorization"].removeprefix("Bearer ")
    boss = people.admin.headers["Authorization"].removeprefix("Bearer ")
    assert anyio.run(seen, visit(ann)) == anyio.run(seen, visit(boss)) == (1, 1)


def test_indexes_belong_to_the_key_that_made_them(make_app: MakeApp) -> None:
    app = make_app("--require-keys", environment={"ANYRIG_DOCUMENTS_MODEL": "hashing"})
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        people = _people(client)
        mine = sent(people.ann)
        job = until(people.ann, begun(people.ann, "index", files=[f"upload:{mine}"]), over)
        assert job["state"] == "done", job
        assert job["result"]["index"] == "default"
        question = {"question": "parrots", "mode": "keywords"}
        hits = people.ann.post("/documents/search", json=question).json()
        assert hits["index"] == "default"
        assert [one["file"] for one in hits["hits"]] == [f"upload:{mine}"]
        (one,) = people.ann.get("/documents/indexes").json()["indexes"]
        assert (one["name"], one["files"]) == ("default", 1)

        # The same name is another index for another key, which has none yet.
        assert people.bob.get("/documents/indexes").json()["indexes"] == []
        (seen,) = people.admin.get("/documents/indexes").json()["indexes"]
        stored = seen["name"]
        for name in ("default", stored):
            for method, path, body in (
                ("GET", f"/documents/indexes/{name}", None),
                ("GET", f"/documents/indexes/{name}/files", None),
                ("GET", f"/documents/indexes/{name}/content?file=upload:{mine}", None),
                ("GET", f"/documents/indexes/{name}/text?file=upload:{mine}", None),
                ("DELETE", f"/documents/indexes/{name}", None),
                ("POST", f"/documents/indexes/{name}/remove", {"files": [f"upload:{mine}"]}),
                ("POST", "/documents/search", {**question, "index": name}),
                ("POST", "/documents/search/batch", {"questions": ["parrots"], "index": name}),
                ("POST", "/documents/similar", {"to_text": "parrots", "index": name}),
            ):  # fmt: skip
                answer = people.bob.request(method, path, json=body)
                assert answer.status_code == 404, (method, path, answer.text)
        form = people.bob.post(
            "/documents/similar/upload", files={"files": ("a.txt", b"parrots")},
            data={"index": stored},
        )  # fmt: skip
        assert form.status_code == 404, form.text
        theirs = sent(people.bob, "rent.txt", "The rent is due.")
        filled = until(people.bob, begun(people.bob, "index", files=[f"upload:{theirs}"]), over)
        assert filled["state"] == "done", filled
        found = people.bob.post("/documents/search", json=question).json()
        assert found["hits"] == []
        assert people.ann.get("/documents/indexes/default").json()["files"] == 1
        assert people.admin.post(
            "/documents/search", json={**question, "index": stored}
        ).json()["hits"]  # fmt: skip
        gone = people.bob.delete("/documents/indexes/default").json()
        assert gone["uploads"] == [f"upload:{theirs}"]
        assert people.ann.get("/documents/indexes/default/files").json()["total"] == 1


def _create_index(path: Path) -> None:
    from anyrig.documents.index.db import IndexDatabase, list_roots

    with IndexDatabase(path) as index:
        assert index.read(list_roots) == []


def test_indexes_and_classifiers_of_the_machine_are_shared_by_a_setting(
    make_app: MakeApp,
) -> None:
    def made(shared: str) -> Any:
        return make_app(
            "--require-keys", "--no-jobs", environment={"ANYRIG_SERVER_SHARED": shared}
        )  # fmt: skip

    app = made("")
    folder = app.state.server.rig.folders.indexes
    _create_index(folder / "letters.sqlite")
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        people = _people(client)
        assert people.ann.get("/documents/indexes/letters/files").status_code == 404
        assert people.admin.get("/documents/indexes/letters/files").status_code == 200
        body = {"texts": ["x"], "classifier": "bills@2"}
        refused = people.ann.post("/documents/classify", json=body)
        assert refused.status_code == 400
        assert "classifier 'bills' not found" in refused.json()["title"]
    with TestClient(made("letters, bills"), base_url=HERE) as client:
        text, _ = client.app.state.server.keys.add("eve", scopes=SCOPES)  # type: ignore[attr-defined]
        client.headers["Authorization"] = f"Bearer {text}"
        (one,) = client.get("/documents/indexes").json()["indexes"]
        assert one["name"] == "letters"
        assert client.get("/documents/indexes/letters/files").status_code == 200
        assert client.delete("/documents/indexes/letters").status_code == 404


def test_sharing_everything_does_not_share_the_indexes_of_keys(make_app: MakeApp) -> None:
    app = make_app("--require-keys", "--no-jobs", environment={"ANYRIG_SERVER_SHARED": "*"})
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        people = _people(client)
        key = next(one.id for one in app.state.server.keys.list_keys() if one.name == "ann")
        folder = app.state.server.rig.folders.indexes
        _create_index(folder / f"diary--{key}.sqlite")
        _create_index(folder / "letters.sqlite")
        names = [one["name"] for one in people.bob.get("/documents/indexes").json()["indexes"]]
        assert names == ["letters"]
        for name in (f"diary--{key}", f"diary--{key.upper()}", f"DIARY--{key}"):
            for path in (f"/documents/indexes/{name}", f"/documents/indexes/{name}/files"):
                assert people.bob.get(path).status_code == 404, path
            assert people.bob.delete(f"/documents/indexes/{name}").status_code == 404
        for name in ("diary", "Diary"):
            assert people.ann.get(f"/documents/indexes/{name}/files").status_code == 200
        assert people.bob.get("/documents/indexes/Letters/files").status_code == 200


def test_an_index_of_a_key_is_not_shared_in_any_case(make_app: MakeApp) -> None:
    """As on a file system that does not tell `--abcdef` from `--ABCDEF`."""
    app = make_app("--require-keys", "--no-jobs", environment={"ANYRIG_SERVER_SHARED": "*"})
    with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
        people = _people(client)
        folder = app.state.server.rig.folders.indexes
        for name in ("diary--0123456789AB", "diary--0123456789\ufb00"):
            _create_index(folder / f"{name}.sqlite")
            assert people.bob.get(f"/documents/indexes/{name}/files").status_code == 404
        assert people.bob.get("/documents/indexes").json()["indexes"] == []


def test_health_does_not_name_what_others_made(people: People) -> None:
    mine = sent(people.ann)
    state = people.app.state.server
    key = next(one.id for one in state.keys.list_keys() if one.name == "ann")
    _create_index(state.rig.folders.indexes / f"diary--{key}.sqlite")
    people.ann.post("/documents/search", json={"index": "diary", "question": "parrots"})
    assert people.ann.post(
        "/documents/embed", json={"files": [f"upload:{mine}"], "model": "hashing"}
    ).is_success  # fmt: skip

    def health() -> Any:
        return people.bob.get("/health")

    # Workers report what they have loaded now and then.
    wait_until(lambda: health().json()["workers"][0]["cached_models"])
    told = health().text
    assert "diary" not in told
    assert key not in told


def test_training_runs_belong_to_the_key_of_their_job(people: People, tmp_path: Path) -> None:
    from anyrig.training.config_file import read_config
    from anyrig.training.runs import create_run, register_run

    toml = tmp_path / "run.toml"
    toml.write_text('[task]\nkind = "language"\ntext = "x"\n')
    state = people.app.state.server
    config = read_config(toml)
    runs = []
    for name in ("ann", "nobody"):
        folder = tmp_path / name
        run = create_run(folder, config, {}, {})
        register_run(state.rig.folders.runs, run)
        runs.append(run)
    key = next(one.id for one in state.keys.list_keys() if one.name == "ann")
    state.jobs.submit("train", {"run": str(tmp_path / "ann")}, client=key)
    ids = [one["id"] for one in people.admin.get("/runs").json()["runs"]]
    assert len(ids) == 2
    (mine,) = [one["id"] for one in people.ann.get("/runs").json()["runs"]]
    assert people.bob.get("/runs").json()["runs"] == []
    for path in (f"/runs/{mine}", f"/runs/{mine}/history"):
        assert people.ann.get(path).status_code == 200, path
        answer, missing = people.bob.get(path), people.bob.get(path.replace(mine, "r0"))
        assert missing.status_code == 404
        assert answer.text == missing.text
