"""No path that a client sends is opened unless it is an upload of its own, or allowed."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from anyrig.server.app import create_app
from tests.server.conftest import HERE, MakeApp, build_server, environment_of
from tests.server.test_serve_jobs import over, until

SECRET = "the dog's name is Rex"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that the server can read, and its clients may not."""
    path = tmp_path_factory.mktemp("files") / "private" / "diary.txt"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


@pytest.fixture(scope="module")
def allowed(outside: Path) -> Path:
    """A folder that the settings allow, with a link that leads out of it."""
    folder = outside.parents[1] / "allowed"
    folder.mkdir()
    (folder / "letter.txt").write_text("The rent is due on Monday.")
    if sys.platform != "win32":
        (folder / "link").symlink_to(outside.parent, target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, allowed: Path) -> Iterator[TestClient]:
    """A server that asks for keys, called with one that is not admin's."""
    environment = environment_of(
        tmp_path_factory.mktemp("home"),
        {"ANYRIG_SERVER_MODELS": str(allowed), "ANYRIG_SERVER_FOLDERS": str(allowed),
         "ANYRIG_SERVER_REQUESTS_PER_MINUTE": "100000"},
    )  # fmt: skip
    with ExitStack() as stack:
        app = create_app(build_server(stack, environment, "--require-keys", "--no-jobs"))
        with TestClient(app, base_url=HERE, raise_server_exceptions=False) as client:
            client.headers.update(key(client, "trainer"))
            yield client


_numbers = itertools.count()


def key(client: TestClient, name: str, *scopes: str) -> dict[str, str]:
    app: Any = client.app
    scopes = scopes or ("train", "jobs", "documents", "speech", "read")
    text, _ = app.state.server.keys.add(f"{name} {next(_numbers)}", scopes=scopes)
    return {"Authorization": f"Bearer {text}"}


def sent(client: TestClient, text: str, name: str, **more: Any) -> str:
    answer = client.post("/uploads", files={"files": (name, text.encode())}, **more)
    assert answer.status_code == 201, answer.text
    return f"upload:{answer.json()['files'][0]['id']}"


def trained(client: TestClient, config: str, **more: Any) -> Any:
    arguments = {"file": sent(client, config, "run.toml"), **more}
    return client.post("/jobs", json={"kind": "train", "arguments": arguments})


def classifier(examples: str) -> str:
    return f'[task]\nkind = "classifier"\nexamples = "{examples}"\n'


def rows(name: str, form: str) -> tuple[str, str]:
    """Examples that name a file, in one of the forms they may have."""
    if form == "jsonl":
        lines = [{"text": "pay me", "label": "a"}, {"file": name, "label": "b"}]
        return "\n".join(map(json.dumps, lines)), "examples.jsonl"
    if form == "json":
        return json.dumps([{"path": name, "labels": ["b"]}]), "examples.json"
    if form == "csv":
        return f"file,label\n{name},b\n", "examples.csv"
    return f"{name}\tb\n{name}\ta\n", "bare.tsv"


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
@pytest.mark.parametrize("there", [True, False])
def test_a_path_in_uploaded_examples_is_refused_whether_it_is_there_or_not(
    client: TestClient, outside: Path, form: str, there: bool
) -> None:
    name = str(outside if there else outside.with_name("none.txt"))
    text, called = rows(name, form)
    jobs = client.get("/jobs").json()
    answer = trained(client, classifier(sent(client, text, called)))
    assert answer.status_code == 400, answer.text
    told = answer.json()["title"]
    assert told.endswith("that file may not be named by a request")
    assert name not in answer.text
    assert SECRET not in answer.text
    assert client.get("/jobs").json() == jobs


@pytest.mark.parametrize(
    "name",
    ["../../private/diary.txt", "~/diary.txt", "diary.txt", "upload:0123", "upload:" + "0" * 32,
     "{allowed}/../private/diary.txt", "{allowed}/link/diary.txt", "{stored}", "C:\\diary.txt",
     "file:///etc/passwd", "{allowed}/letter.txt\\u0000"],
)  # fmt: skip
def test_no_other_spelling_of_a_path_in_examples_is_opened(
    client: TestClient, allowed: Path, name: str
) -> None:
    other = sent(client, SECRET, "diary.txt", headers=key(client, "somebody else"))
    name = name.replace("{allowed}", str(allowed)).replace(
        "{stored}", f"{other.partition(':')[2]}.txt"
    )
    line = json.dumps({"file": "NAME", "label": "b"}).replace("NAME", name.replace("\\d", "\\\\d"))
    examples = sent(client, line, "examples.jsonl")
    answer = trained(client, classifier(examples))
    assert answer.status_code == 400, (name, answer.text)


def test_an_upload_of_another_key_is_not_opened_by_its_id(client: TestClient) -> None:
    theirs = sent(client, SECRET, "diary.txt", headers=key(client, "somebody else"))
    text, called = rows(theirs, "jsonl")
    assert trained(client, classifier(sent(client, text, called))).status_code == 400
    assert trained(client, classifier(theirs)).status_code == 404
    config = classifier("upload:" + "0" * 32)
    assert trained(client, config).status_code == 404
    assert trained(client, classifier("x.csv"), set={"task.examples": theirs}).status_code == 404
    own = sent(client, "text,label\npay me,bill\n", "examples.csv")
    assert trained(client, classifier("x.csv"), set={"task.examples": own}).status_code == 201


def test_uploads_and_allowed_files_may_be_named_in_examples(
    client: TestClient, allowed: Path
) -> None:
    letter = sent(client, "Dear Ann", "letter.txt")
    lines = [
        {"file": letter, "label": "letter"},
        {"file": str(allowed / "letter.txt"), "label": "bill"},
        {"text": "plain words", "label": "bill"},
    ]
    examples = sent(client, "\n".join(map(json.dumps, lines)), "examples.jsonl")
    answer = trained(client, classifier(examples))
    assert answer.status_code == 201, answer.text
    # The job needs the file, so it cannot go before the job is over.
    held = client.delete(f"/uploads/{letter.partition(':')[2]}")
    assert held.status_code == 409
    table = sent(client, "some words,a\nother words,b\n", "texts.csv")
    assert trained(client, classifier(table)).status_code == 201


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ('[task]\nkind = "classifier"\nexamples = "x.csv"\nfiles = "/etc/passwd"\n', {}),
        ('[task]\nkind = "classifier"\nexamples = "x.csv"\nfiles = "x.json"\n', {}),
        ('[task]\nkind = "classifier"\nexamples = "x.csv"\n', {"task.files": "x.json"}),
        ('[task]\nkind = "classifier"\nexamples = "x.csv"\n', {"task.examples": "{outside}"}),
        ('[task]\nkind = "classifier"\nexamples = "{outside}"\n', {}),
        ('[task]\nkind = "classifier"\nexamples = "{allowed}/link/diary.txt"\n', {}),
        ('[task]\nkind = "classifier"\nexamples = "\\u002fetc\\u002fpasswd"\n', {}),
        ('[task]\nkind = "language"\ntext = ["{outside}"]\n', {}),
        ('[task]\nkind = "language"\ntext = "{allowed}/link"\n', {}),
        ('[task]\nkind = "language"\ntext = "x"\ntokenizer = "{outside}"\n', {}),
        ('[task]\nkind = "images"\ndata = "{allowed}/../private"\n', {}),
        ('[task]\nkind = "language"\ntext = "x"\nmodel = "{outside}"\n', {}),
        ('task = { kind = "language", text = "{outside}" }\n', {}),
    ],
)
def test_no_path_of_a_training_file_leads_out_of_what_is_allowed(
    client: TestClient, outside: Path, allowed: Path, config: str, options: dict[str, str]
) -> None:
    def filled(text: str) -> str:
        return text.replace("{outside}", str(outside)).replace("{allowed}", str(allowed))

    answer = trained(client, filled(config), set={n: filled(v) for n, v in options.items()})
    assert answer.status_code == 400, answer.text
    assert str(outside) not in answer.text


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("index", {"folder": "{allowed}/link"}),
        ("index", {"folder": "{allowed}/../private"}),
        ("index", {"folder": "{outside}"}),
        ("index", {"folder": "{outside}.none"}),
        ("transcribe", {"file": "UPLOAD", "model": "{outside}"}),
        ("transcribe", {"file": "UPLOAD", "model": "{allowed}/link/diary.txt"}),
        ("book", {"file": "UPLOAD", "model": "{allowed}/link"}),
        ("book", {"file": "UPLOAD", "cover": "{outside}"}),
        ("book", {"file": "UPLOAD", "set": {"samples": "{outside}"}}),
        ("book", {"file": "UPLOAD", "set": {"samples": ".."}}),
        ("batch", {"lines": ['<speak><voice name="{outside}">x</voice></speak>']}),
        ("batch", {"lines": [
            '<s:speak xmlns:s="http://www.w3.org/2001/10/synthesis">'
            '<s:voice name="{outside}">x</s:voice></s:speak>']}),
        ("batch", {"lines": [{"text": "x", "voice": "{outside}"}]}),
    ],
)  # fmt: skip
def test_no_path_of_a_job_leads_out_and_what_is_there_is_not_told(
    client: TestClient, outside: Path, allowed: Path, kind: str, arguments: dict[str, Any]
) -> None:
    upload = sent(client, "some words", "words.txt")

    def filled(value: Any, path: Path) -> Any:
        text = json.dumps(value).replace("{outside}", str(path)).replace("UPLOAD", upload)
        return json.loads(text.replace("{allowed}", str(allowed)))

    answers = [
        client.post("/jobs", json={"kind": kind, "arguments": filled(arguments, path)})
        for path in (outside, outside.with_name("nothing.txt"))
    ]
    assert [one.status_code for one in answers] == [400, 400]
    assert answers[0].json() == answers[1].json()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_an_allowed_folder_is_indexed_without_what_its_links_lead_to(
    make_app: MakeApp, allowed: Path, outside: Path
) -> None:
    app = make_app(
        "--require-keys",
        environment={
            "ANYRIG_SERVER_FOLDERS": str(allowed), "ANYRIG_DOCUMENTS_MODEL": "hashing",
        },
    )  # fmt: skip
    with TestClient(app, base_url=HERE) as client:
        client.headers.update(key(client, "librarian"))
        arguments = {"folder": str(allowed), "index": "letters"}
        job = client.post("/jobs", json={"kind": "index", "arguments": arguments}).json()
        job = until(client, job["id"], over)
        assert job["state"] == "done", job
        assert any("not followed" in one for one in job["result"]["warnings"])
        files = client.get("/documents/indexes/letters/files").json()["files"]
        assert [Path(one["file"]).name for one in files] == ["letter.txt"]


def test_requests_for_documents_name_no_file_but_uploads_and_allowed_models(
    client: TestClient, outside: Path
) -> None:
    for body in ({"files": [str(outside)]}, {"texts": ["x"], "model": str(outside)}):
        answer = client.post("/documents/embed", json=body)
        assert 400 <= answer.status_code < 500
        assert SECRET not in answer.text
    there, not_there = (
        client.post("/documents/summarise", json={"texts": ["One. Two."], "model": str(path)})
        for path in (outside, outside.with_name("none"))
    )
    assert there.status_code == not_there.status_code == 400
    assert there.text.replace("diary.txt", "none") == not_there.text


@pytest.mark.parametrize("kind", ["images", "language"])
def test_a_path_in_an_uploaded_manifest_is_refused(
    client: TestClient, outside: Path, kind: str
) -> None:
    text, called = rows(str(outside), "csv")
    config = f'[task]\nkind = "{kind}"\ndata = "{sent(client, text, called)}"\n'
    answer = trained(client, config)
    assert answer.status_code == 400, answer.text
    assert answer.json()["title"].endswith("that file may not be named by a request")
    mine = sent(client, "It is high tide.", "tide.txt")
    text, called = rows(mine, "csv")
    config = f'[task]\nkind = "{kind}"\ndata = "{sent(client, text, called)}"\n'
    assert trained(client, config).status_code == 201


def test_a_training_file_is_not_taken_for_the_settings_of_its_job(client: TestClient) -> None:
    config = sent(client, '[task]\nkind = "language"\ntext = "x"\n', "anyrig.toml")
    answer = client.post("/jobs", json={"kind": "train", "arguments": {"file": config}})
    assert answer.status_code == 201, answer.text
    app: Any = client.app
    folder = app.state.server.data_folder / "jobs"
    files = [path.name for path in folder.rglob("*.toml") if path.name.startswith("anyrig")]
    assert files == ["anyrig-run.toml"]


def test_a_classifier_run_opens_only_the_files_it_was_told_of(
    outside: Path, tmp_path: Path
) -> None:
    from anyrig.app.training import TASKS
    from anyrig.errors import InvalidInputError
    from anyrig.training.tasks import build_task

    (tmp_path / "examples.jsonl").write_text(json.dumps({"file": str(outside), "label": "b"}))
    (tmp_path / "files.json").write_text("{}")
    config = {"kind": "classifier", "examples": "examples.jsonl", "files": "files.json"}
    with pytest.raises(InvalidInputError, match="that file may not be read"):
        build_task(config, tmp_path, tmp_path / "run", 0, kinds=TASKS)
