"""Documents that do harm, limits, missing packages, many clients, processes that are killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.conftest import Server, Start
from tests.server.documents_files import LETTER, RECIPE, SCAN, drop, hostile, scan, send
from tests.waiting import wait_until

_AWAY = ("rapidocr", "tesseract", "spacy", "en_core_web")


def form(server: Server, task: str, *files: tuple[str, bytes | str], **fields: Any) -> Any:
    parts = [("files", (name, data)) for name, data in files]
    return server.client.post(f"/documents/{task}/upload", files=parts, data=fields, timeout=300)


# -- files that do harm ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["summarise", "embed", "ocr", "analyse"])
def test_hostile_files_fail_alone(server: Server, task: str) -> None:
    if task == "ocr":
        pytest.importorskip("rapidocr")
    good = ("good.png", scan()) if task == "ocr" else ("good.txt", LETTER)
    more = {"model": "hashing"} if task in ("embed", "analyse") else {}
    answer = form(server, task, *hostile().items(), good, **more)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert str(server.home) not in answer.text
    if task == "analyse":
        assert (told["num_documents"], len(told["failed"])) == (1, len(hostile()))
        return
    assert told["results"][-1]["error"] is None
    for one in told["results"][:-1]:
        if (task, one["name"]) == ("ocr", "blank.png"):
            assert one["result"]["text"].strip() == ""
            continue
        assert 400 <= one["error"]["status"] < 500, one
        assert one["error"]["hint"], one


def test_a_hostile_file_alone_is_a_problem_of_its_sender(server: Server) -> None:
    for name in ("cut.pdf", "bomb.epub", "../../up.txt"):
        answer = form(server, "classify", (name, hostile()[name]), labels="a,b", ocr="never")
        assert 400 <= answer.status_code < 500, (name, answer.text)


@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("classify", {"files": ["/etc/passwd"], "labels": ["a", "b"]}),
        ("classify", {"files": ["upload:../../../etc/passwd"], "labels": ["a", "b"]}),
        ("classify", {"texts": ["a"], "labels": ["@/etc/passwd", "x"], "model": "../../etc"}),
        ("classify", {"texts": ["a"], "labels": ["a", "a"]}),
        ("classify", {"texts": ["a"], "labels": ["a", "b"], "templates": ["no place"]}),
        ("classify", {"texts": ["a"], "labels": [], "classifier": ""}),
        ("entities", {"texts": ["a"], "kinds": ["weather"]}),
        ("entities", {"texts": ["a"], "engine": "/bin/sh"}),
        ("summarise", {"texts": ["A text."], "model": "/etc"}),
        ("summarise", {"texts": ["A text."], "sentences": 2, "words": 3}),
        ("summarise", {"texts": []}),
        ("summarise", {"texts": ["\ud800"]}),
        ("ocr", {"files": ["upload:" + "0" * 32]}),
        ("ocr", {"files": []}),
        ("embed", {"texts": ["a"], "use": "harm"}),
        ("analyse", {"texts": ["."]}),
        ("similar", {"to_text": "", "texts": ["a"]}),
        ("similar", {"to_text": "a", "index": "none-of-these"}),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(
    server: Server, task: str, body: dict[str, Any]
) -> None:
    import json

    answer = server.client.post(
        f"/documents/{task}", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["hint"]
    assert "root:" not in answer.text


def test_a_label_that_looks_like_a_file_is_a_label(server: Server) -> None:
    body = {"texts": ["a"], "labels": ["@/etc/passwd", "other"], "model": "hashing"}
    told = server.client.post("/documents/classify", json=body).json()["results"][0]["result"]
    assert set(told["probabilities"]) == {"@/etc/passwd", "other"}


# -- limits ----------------------------------------------------------------------------------------


def test_limits_are_those_of_the_settings(start: Start) -> None:
    own = start(
        environment={
            "ANYRIG_SERVER_TEXT_CHARACTERS": "100",
            "ANYRIG_SERVER_TEXTS": "3",
            "ANYRIG_DOCUMENTS_MAX_PAGES": "1",
            "ANYRIG_DOCUMENTS_MAX_MB": "0.2",
        }
    )
    for texts in (["a" * 101], ["a"] * 4):
        body = {"texts": texts, "engine": "grammar"}
        answer = own.client.post("/documents/entities", json=body)
        assert (answer.status_code, bool(answer.json()["hint"])) == (413, True)
    two = ("two.tiff", scan(form="TIFF", more=("Two.",)))
    for task, more in (("summarise", {}), ("entities", {"engine": "grammar"}), ("embed", {}),
                       ("classify", {"labels": "bill,poem"})):  # fmt: skip
        pages = form(own, task, two, ocr="never", **more)
        assert (pages.status_code, "max_pages" in pages.json()["hint"]) == (413, True), pages.text
    large = form(own, "summarise", ("large.txt", "Words. " * 40_000), ("good.txt", LETTER))
    first, second = large.json()["results"]
    assert (first["error"]["status"], second["error"]) == (413, None)
    assert "max_mb" in first["error"]["hint"]
    many = own.client.post("/documents/ocr", json={"files": ["upload:" + "0" * 32] * 201})
    assert many.status_code == 422


# -- packages that are not there -------------------------------------------------------------------


def test_what_is_not_installed_is_named_with_its_line(start: Start, tmp_path: Path) -> None:
    site = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    fewer, custom = tmp_path / "fewer", tmp_path / "custom"
    fewer.mkdir()
    custom.mkdir()
    for path in site.iterdir():
        if not path.name.startswith(_AWAY):
            (fewer / path.name).symlink_to(path)
    (custom / "sitecustomize.py").write_text(
        f"import sys\nsys.path[:] = [{str(fewer)!r} if p == {str(site)!r} else p for p in sys.path]"
    )
    paths = [str(custom), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    own = start(environment={"PYTHONPATH": os.pathsep.join(paths), "PATH": str(tmp_path)})
    ocr = form(own, "ocr", ("scan.png", scan()))
    assert ocr.status_code == 501, ocr.text
    assert "pip install 'anyrig[ocr]'" in ocr.json()["hint"]
    names = {"texts": ["Maria Jones lives in Paris."]}
    asked = own.client.post("/documents/entities", json={**names, "engine": "spacy"})
    assert (asked.status_code, "pip install" in asked.json()["hint"]) == (501, True), asked.text
    without = own.client.post("/documents/entities", json=names).json()["results"][0]["result"]
    assert any("pip install" in one for one in without["warnings"])
    picture = form(own, "summarise", ("scan.png", scan()))
    assert (picture.status_code, "anyrig[ocr]" in picture.json()["hint"]) == (400, True)
    writes = own.client.post(
        "/documents/summarise", json={"texts": ["A text."], "model": "google-t5/t5-small"}
    )
    assert (writes.status_code, bool(writes.json()["hint"])) == (501, True)


# -- many at once ----------------------------------------------------------------------------------


def test_many_clients_with_many_tasks_get_their_own_answers(server: Server) -> None:
    texts = [f"The garden of flat number {n} has old trees. {RECIPE}" for n in range(8)]

    def one(n: int) -> list[Any]:
        with httpx.Client(base_url=server.url, timeout=300, trust_env=False) as client:
            ask = {"texts": [texts[n]]}
            found = [
                client.post(
                        "/documents/classify",
                        json={**ask, "labels": ["home", "food"], "other": False},
                    ),
                client.post("/documents/entities", json={**ask, "engine": "grammar"}),
                client.post("/documents/summarise", json={**ask, "sentences": 5}),
                client.post("/documents/embed", json={**ask, "model": "hashing"}),
                client.post(
                    "/documents/summarise/upload", data={"sentences": "5"},
                    files=[("files", (f"{n}.txt", texts[n])), ("files", ("bad.pdf", b"%PDF"))],
                ),
            ]  # fmt: skip
            assert [answer.status_code for answer in found] == [200] * 5, found
            return [answer.json()["results"][0] for answer in found]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(one, range(8)))
    alone = server.client.post("/documents/embed", json={"texts": texts, "model": "hashing"})
    assert [row[3]["result"] for row in found] == [one["result"] for one in alone.json()["results"]]
    for n, (label, entities, summary, _, file) in enumerate(found):
        assert label["result"]["label"] == "food"
        assert entities["name"] == "text 1"
        for told in (summary, file):
            assert f"flat number {n} has" in told["result"]["summaries"][0]["text"]
        assert file["name"] == f"{n}.txt"


# -- processes that are killed ---------------------------------------------------------------------


def list_workers(server: Server) -> list[int]:
    """The server's worker processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes()
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"anyrig.work.worker_main" in words and int(parent) == server.process.pid:
            found.append(int(path.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes there")
def test_workers_that_are_killed_are_replaced_and_their_tasks_done(server: Server) -> None:
    pytest.importorskip("rapidocr")
    pages = scan(form="TIFF", more=tuple(f"This is page {n} of it." for n in range(2, 6)))
    answers: list[Any] = []
    thread = threading.Thread(
        target=lambda: answers.append(form(server, "ocr", ("pages.tiff", pages)))
    )
    thread.start()
    for pid in wait_until(lambda: list_workers(server)):
        os.kill(pid, signal.SIGKILL)
    thread.join(timeout=300)
    (answer,) = answers
    assert answer.status_code == 200, answer.text
    read = [
        " ".join(page["text"].split()) for page in answer.json()["results"][0]["result"]["pages"]
    ]
    assert read == [SCAN, *(f"This is page {n} of it." for n in range(2, 6))]
    summary = server.client.post("/documents/summarise", json={"texts": [RECIPE]})
    assert summary.status_code == 200


def test_a_client_who_leaves_leaves_nothing_behind(server: Server) -> None:
    pytest.importorskip("rapidocr")
    before = server.client.get("/uploads").json()
    made = set((server.data / "made").iterdir())
    pages = scan(form="TIFF", more=tuple(f"This is page {n} of it." for n in range(2, 8)))
    with (
        httpx.Client(base_url=server.url, timeout=0.4, trust_env=False) as client,
        pytest.raises(httpx.TimeoutException),
    ):
        client.post(
            "/documents/ocr/upload", files={"files": ("a.tiff", pages)}, data={"format": "pdf"}
        )
    wait_until(
        lambda: (
            server.client.get("/uploads").json() == before
            and set((server.data / "made").iterdir()) <= made
        )
    )
    # The worker may still read; whoever comes next is answered all the same.
    assert form(server, "summarise", ("a.txt", LETTER)).status_code == 200
    assert server.client.get("/uploads").json() == before
    assert set((server.data / "made").iterdir()) <= made


def test_an_upload_that_is_deleted_meanwhile_is_a_404(server: Server) -> None:
    sent = send(server, a_txt=LETTER)
    drop(server, *sent.values())
    answer = server.client.post("/documents/summarise", json={"files": list(sent.values())})
    assert answer.status_code == 404
