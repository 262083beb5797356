"""Files that people send: kept whole or not at all, found by id, never by what they are called."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from anyrig.app.access import Client
from anyrig.app.uploads import UploadNotFoundError, Uploads, clean_name
from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError
from anyrig.server.app import delete_expired_uploads
from anyrig.server.state import ServerState
from anyrig.server.uploads import IndexFiles
from tests.server.conftest import MakeApp, Server, run_for


def test_a_file_is_sent_listed_read_and_deleted_for_good(server: Server) -> None:
    text = b"Once upon a time.\n" * 100_000
    sent = server.client.post("/uploads", files={"files": ("A tale.txt", text)})
    assert sent.status_code == 201, sent.text
    (file,) = sent.json()["files"]
    assert (file["name"], file["size"], file["kind"]) == ("A tale.txt", len(text), "txt")
    assert file in server.client.get("/uploads").json()["files"]
    assert server.client.get(f"/uploads/{file['id']}").json() == file
    whole = server.client.get(f"/uploads/{file['id']}/content")
    assert whole.content == text
    assert whole.headers["content-disposition"].startswith("attachment")
    part = server.client.get(f"/uploads/{file['id']}/content", headers={"Range": "bytes=5-8"})
    assert (part.status_code, part.content) == (206, b"upon")
    assert server.client.delete(f"/uploads/{file['id']}").json() == file
    assert server.client.get(f"/uploads/{file['id']}").status_code == 404
    assert not [one for one in (server.data / "uploads").iterdir() if file["id"] in one.name]


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads", max_bytes=1000, max_files=3)


def _sent(uploads: Uploads, name: str, data: bytes = b"something") -> str:
    with uploads.receive(name) as file:
        file.write(data)
    return file.upload.id


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system32\\x.dll", "x.dll"),
        ("/etc/shadow", "shadow"),
        ("..", "file"),
        ("", "file"),
        ("a\x00b.txt", "ab.txt"),
        ("line\r\nSet-Cookie: x=1", "lineSet-Cookie: x=1"),
        ("book\u202efdp.exe", "bookfdp.exe"),
        ("x" * 500 + ".epub", "x" * 145 + ".epub"),
        ("  the   cat .txt ", "the cat .txt"),
        ("livre été.pdf", "livre été.pdf"),
        ("\ud800.txt", "txt"),
    ],
)
def test_names_are_shown_and_are_no_paths(uploads: Uploads, name: str, shown: str) -> None:
    assert clean_name(name) == shown
    upload_id = _sent(uploads, name)
    path = uploads.path(upload_id)
    assert path.parent == uploads.path(upload_id).parent.resolve()
    assert path.name.partition(".")[0] == upload_id
    json.dumps(uploads.get(upload_id).name).encode("utf-8")


@pytest.mark.parametrize(
    "word",
    ["", "upload:", "upload:../../etc/passwd", "/etc/passwd", "upload:" + "0" * 32,
     "UPLOAD:" + "0" * 32, "upload:" + "0" * 31 + "\n", "file:///etc/passwd"],
)  # fmt: skip
def test_a_file_is_named_by_its_id_alone(uploads: Uploads, word: str) -> None:
    with pytest.raises(InvalidInputError):
        uploads.find(word)
    with pytest.raises(UploadNotFoundError):
        uploads.path(word)


def test_too_large_too_many_and_empty_leave_nothing(uploads: Uploads, tmp_path: Path) -> None:
    big = uploads.receive("big.txt")
    big.write(b"x" * 900)
    with pytest.raises(LimitExceededError, match="larger than"), big:
        big.write(b"x" * 101)
    with pytest.raises(InvalidInputError, match="empty"), uploads.receive("empty.txt"):
        pass
    assert list((tmp_path / "uploads").iterdir()) == []
    for number in range(3):
        _sent(uploads, f"{number}.txt")
    with pytest.raises(LimitExceededError, match="keeps at most"):
        uploads.receive("4.txt")
    uploads.delete(uploads.list_uploads()[0].id)
    _sent(uploads, "4.txt")


def test_files_that_are_coming_count(uploads: Uploads) -> None:
    coming = [uploads.receive("a.txt") for _ in range(3)]
    with pytest.raises(LimitExceededError):
        uploads.receive("b.txt")
    for one in coming:
        one.abandon()
        one.abandon()  # twice does no harm
    _sent(uploads, "b.txt")


def test_all_files_together_have_an_end(tmp_path: Path) -> None:
    folder = tmp_path / "uploads"
    uploads = Uploads(folder, max_bytes=100_000, max_files=30, max_total=200_000)
    first = _sent(uploads, "a.txt", b"x" * 90_000)
    coming = uploads.receive("b.txt")
    coming.write(b"x" * 90_000)
    with pytest.raises(LimitExceededError, match="0.2 MB in total") as caught:
        _sent(uploads, "c.txt", b"x" * 30_000)  # what was there, with this one, is too much
    assert "server.upload_total_mb" in caught.value.hint
    coming.finish()
    _sent(uploads, "d.txt", b"x" * 20_000)
    with pytest.raises(LimitExceededError, match="in total"):
        _sent(uploads, "e.txt", b"x")
    assert len(uploads.list_uploads()) == 3
    uploads.delete(first)
    _sent(uploads, "e.txt", b"x")
    assert not [one for one in folder.iterdir() if one.name.startswith(("part-", "card-"))]


def test_what_nobody_uses_is_unused(uploads: Uploads, tmp_path: Path) -> None:
    old, used, new = (_sent(uploads, name) for name in ("old.txt", "used.txt", "new.txt"))
    for one in (old, used):
        os.utime(tmp_path / "uploads" / f"{one}.json", (1000, 1000))
    uploads.get(old)  # a look at the list is no use
    uploads.path(uploads.find(f"upload:{used}").id)
    assert uploads.list_unused(time.time() - 3600) == [old]
    assert new in uploads.list_unused(time.time() + 3600)


def test_old_uploads_go_unless_a_job_or_an_index_needs_them(make_app: MakeApp) -> None:
    app = make_app("--no-jobs", environment={"ANYRIG_DOCUMENTS_MODEL": "hashing"})
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        state = app.state.server
        files = [("files", (f"{name}.txt", f"CHAPTER I\n\n{name} came in.".encode()))
                 for name in ("old", "indexed", "queued", "fresh")]  # fmt: skip
        sent = client.post("/uploads", files=files).json()["files"]
        old, indexed, queued, fresh = (one["id"] for one in sent)
        assert delete_expired_uploads(state) == []  # no worker is asked if nothing is old
        assert state.models.loaded_models() == []
        order = {"kind": "book", "arguments": {"file": f"upload:{queued}"}}
        assert client.post("/jobs", json=order).status_code in (201, 202)
        _index(state, state.uploads.path(indexed))
        for one in (old, indexed, queued):
            os.utime(state.data_folder / "uploads" / f"{one}.json", (1000, 1000))
        assert delete_expired_uploads(state) == [old]
        assert {one["id"] for one in client.get("/uploads").json()["files"]} == {
            indexed, queued, fresh}  # fmt: skip
        (state.rig.folders.indexes / "broken.sqlite").write_bytes(b"no database" * 500)
        os.utime(state.data_folder / "uploads" / f"{fresh}.json", (1000, 1000))
        with pytest.raises(AnyrigError):  # nobody knows what a broken index holds
            delete_expired_uploads(state)
        assert client.get(f"/uploads/{fresh}").status_code == 200


def _index(state: ServerState, path: Path) -> None:
    """An index of one file, as a job makes it."""
    home = state.data_folder.parents[3]  # of HOME/.local/share/anyrig/server
    run_for(home, "index", str(path), "--index", "post", "--model", "hashing", "--no-bench")


def test_another_process_sees_them(uploads: Uploads, tmp_path: Path) -> None:
    upload_id = _sent(uploads, "a.txt")
    other = Uploads(tmp_path / "uploads", max_bytes=1000, max_files=3)
    assert other.path(upload_id).read_bytes() == b"something"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("x.txt", b"%PDF-1.7\n" + b"0" * 50, "pdf"),
        ("x.pdf", b"plain words that are no PDF", "other"),
        ("x.md", b"# A heading\n", "md"),
        ("x", b"RIFF\x00\x00\x00\x00WAVEfmt ", "wav"),
        ("x.epub", b"fLaC\x00\x00", "flac"),
        ("x.png", b"\x89PNG\r\n\x1a\n" + b"\x00" * 30, "png"),
        ("x.txt", b"\x7fELF\x02\x01\x01" + b"\x00" * 40, "other"),
        ("x.pkl", b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n", "other"),
        ("x.toml", b"[train]\nsteps = 3\n", "toml"),
        ("x.zip", b"PK\x03\x04" + b"\x00" * 40, "zip"),
        ("x.html", b"<!doctype html><p>Hello", "html"),
    ],
)
def test_kinds_are_told_by_content(uploads: Uploads, name: str, data: bytes, kind: str) -> None:
    assert uploads.get(_sent(uploads, name, data)).kind == kind


def _form(*state: bytes, end: bytes = b"--B--\r\n") -> bytes:
    return b"".join(b"--B\r\n" + part + b"\r\n" for part in state) + end


_HEAD = {"Content-Type": "multipart/form-data; boundary=B"}
_LONG = {"Content-Type": "multipart/form-data; boundary=" + "B" * 500}
_FILE = b'Content-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s'


def test_bad_forms_are_refused_and_leave_nothing(
    app_client: TestClient, subtests: pytest.Subtests
) -> None:
    for body, headers, status in (
        (b"", _HEAD, 400),
        (b"no form at all", _HEAD, 400),
        (_form(_FILE % (b"a.txt", b"one"), end=b""), _HEAD, 400),
        (_form(_FILE % (b"a.txt", b"one"), _FILE % (b"b.txt", b"")), _HEAD, 400),
        (_form(b'Content-Disposition: form-data; name="other"; filename="x"\r\n\r\nx'), _HEAD, 400),
        (_form(b'Content-Disposition: form-data; name="files"\r\n\r\nno file'), _HEAD, 400),
        (_form(b"\r\nno head"), _HEAD, 400),
        (_form(_FILE % (b"a.txt", b"one")), {"Content-Type": "text/plain"}, 415),
        (_form(_FILE % (b"a.txt", b"one")), {"Content-Type": "multipart/form-data"}, 415),
        (_form(_FILE % (b"a.txt", b"one")), _LONG, 400),
        (_form(*[b'Content-Disposition: form-data; name="n"\r\n\r\nx'] * 2001), _HEAD, 413),
        (_form(b'Content-Disposition: form-data; name="n"\r\n\r\n' + b"x" * (2 << 20)), _HEAD, 413),
    ):  # fmt: skip
        with subtests.test(body=body[:200], headers=headers):
            answer = app_client.post("/uploads", content=body, headers=headers)
            assert answer.status_code == status, answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["hint"]
            assert app_client.get("/uploads").json() == {"files": []}


def test_one_file_too_large_takes_the_others_of_its_form_with_it(make_app: MakeApp) -> None:
    app = make_app(environment={"ANYRIG_SERVER_UPLOAD_MB": "0.001"})
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        files = [("files", ("a.txt", b"small")), ("files", ("b.txt", b"x" * 1001))]
        assert client.post("/uploads", files=files).status_code == 413
        assert client.get("/uploads").json() == {"files": []}
        assert client.post("/uploads", files=files[:1]).status_code == 201


@pytest.mark.parametrize("name", ['a"; filename="b.txt', "a;b.txt", "naïve ☃.txt", "a\\b.txt"])
def test_odd_names_go_through_the_wire(server: Server, name: str) -> None:
    sent = server.client.post("/uploads", files={"files": (name, b"x")})
    assert sent.status_code == 201, sent.text
    (file,) = sent.json()["files"]
    assert "/" not in file["name"]
    content = server.client.get(f"/uploads/{file['id']}/content")
    assert content.content == b"x"
    assert content.headers.get_list("content-disposition")[0].startswith("attachment")
    server.client.delete(f"/uploads/{file['id']}")


def test_what_a_job_needs_stays_until_the_job_is_over(make_app: MakeApp) -> None:
    toml = b'[task]\nkind = "text"\ntrain = "upload:%s"\n'
    with TestClient(make_app("--no-jobs"), base_url="http://127.0.0.1:3000") as client:

        def sent(name: str, data: bytes) -> str:
            answer = client.post("/uploads", files={"files": (name, data)})
            return str(answer.json()["files"][0]["id"])

        book, data = sent("a.txt", b"CHAPTER I\n\nThe tide came in."), sent("b.txt", b"one\ntwo\n")
        run = sent("run.toml", toml % data.encode())
        for id, kind, file in ((book, "book", book), (data, "train", run)):
            job = client.post(
                "/jobs", json={"kind": kind, "arguments": {"file": f"upload:{file}"}}
            ).json()
            assert job["state"] == "queued", job
            for change in ("", "pause"):
                if change:
                    assert client.post(f"/jobs/{job['id']}/{change}").status_code == 200
                answer = client.delete(f"/uploads/{id}")
                assert answer.status_code == 409, answer.text
                assert job["id"] in answer.json()["hint"]
                assert answer.json()["job"] == job["id"]
                assert client.get(f"/uploads/{id}/content").status_code == 200
            assert client.post(f"/jobs/{job['id']}/cancel").status_code == 200
            assert client.delete(f"/uploads/{id}").status_code == 200
        assert client.delete(f"/uploads/{run}").status_code == 200  # the job had its own copy


def test_a_json_file_comes_back_as_it_was_sent(app_client: TestClient) -> None:
    data = b'[{"text": "pay me", "label": "bill"}]'
    sent = app_client.post("/uploads", files={"files": ("x.json", data)}).json()["files"][0]
    assert set(sent) == {
        "id",
        "name",
        "size",
        "kind",
        "made_at",
        "purpose",
    }  # not whose key sent it
    assert (sent["kind"], sent["size"]) == ("json", len(data))
    assert app_client.get(f"/uploads/{sent['id']}/content").content == data
    assert app_client.delete(f"/uploads/{sent['id']}").status_code == 200
    assert app_client.get("/uploads").json()["files"] == []


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were begun on the disk."""
    names: list[str] = []
    receive = Uploads.receive

    def note(uploads: Uploads, name: str, *more: Any, **options: Any) -> Any:
        names.append(name)
        return receive(uploads, name, *more, **options)

    monkeypatch.setattr(Uploads, "receive", note)
    return names


@pytest.mark.parametrize(
    ("path", "most"),
    [("/uploads", 500), ("/documents/entities/upload", 200), ("/v1/audio/transcriptions", 20)],
)
def test_too_many_files_in_a_form_are_refused_before_any_is_written(
    app_client: TestClient, written: list[str], path: str, most: int
) -> None:
    field = "file" if path.startswith("/v1") else "files"
    files = [(field, (f"{number}.txt", b"a")) for number in range(1500)]
    answer = app_client.post(path, files=files)
    assert answer.status_code == 413, answer.text
    assert answer.json()["title"] == f"the form has more than {most} files"
    assert written == []
    assert app_client.get("/uploads").json()["files"] == []


def test_more_files_than_there_is_room_for_are_refused_before_any_is_written(
    make_app: MakeApp, written: list[str]
) -> None:
    app = make_app(environment={"ANYRIG_SERVER_UPLOAD_FILES": "3"})
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        assert client.post("/uploads", files={"files": ("a.txt", b"a")}).status_code == 201
        files = [("files", (f"{number}.txt", b"a")) for number in range(3)]
        answer = client.post("/uploads", files=files)
        assert answer.status_code == 413
        assert answer.json()["title"] == "the server keeps at most 3 files"
        assert "server.upload_files" in answer.json()["hint"]
        assert len(written) == 1
        assert client.post("/uploads", files=files[:2]).status_code == 201


def test_many_fields_in_a_form_are_refused(app_client: TestClient) -> None:
    part = b'Content-Disposition: form-data; name="a"\r\n\r\nb'
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    for path in ("/uploads", "/documents/entities/upload"):
        answer = app_client.post(path, content=_form(*[part] * 1001), headers=headers)
        assert answer.status_code == 413, answer.text


def test_all_files_together_are_counted_while_they_come(make_app: MakeApp) -> None:
    app = make_app(environment={"ANYRIG_SERVER_UPLOAD_TOTAL_MB": "0.001"})
    with TestClient(app, base_url="http://127.0.0.1:3000") as client:
        sent = client.post("/uploads", files={"files": ("a.txt", b"a" * 600)})
        assert sent.status_code == 201
        assert client.post("/uploads", files={"files": ("b.txt", b"b" * 600)}).status_code == 413
        client.delete(f"/uploads/{sent.json()['files'][0]['id']}")
        assert client.post("/uploads", files={"files": ("b.txt", b"b" * 600)}).status_code == 201


def test_hits_say_where_their_file_is_opened_if_it_may_be(
    make_app: MakeApp, tmp_path: Path
) -> None:
    """An index of the command line may contain files of any folder."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    app = make_app(environment={"ANYRIG_SERVER_FOLDERS": str(allowed)})
    server = app.state.server
    with server.uploads.receive("a.txt") as writer:
        writer.write(b"The tide.")
    files = [str(allowed / "b c.txt"), str(tmp_path / "d.txt"), f"upload:{writer.upload.id}",
             f"upload:{'0' * 32}"]  # fmt: skip
    rows: list[dict[str, Any]] = [{"file": file} for file in files]
    IndexFiles(server).add_urls(Client(sees_all=True), "my notes", rows)
    address = "/documents/indexes/my%20notes/content?file="
    assert [row["url"] for row in rows] == [
        f"{address}{quote(files[0])}", None, f"{address}{quote(files[2])}", None
    ]  # fmt: skip


def test_an_upload_remembers_that_it_is_a_book(uploads: Uploads) -> None:
    id = _sent(uploads, "a.txt", b"Chapter one.")
    assert uploads.get(id).purpose == ""
    uploads.set_purpose(id, "book")
    assert uploads.get(id).purpose == "book"
    assert [one.id for one in uploads.list_uploads()] == [id]
