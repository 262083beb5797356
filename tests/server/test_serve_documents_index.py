"""Searching indexes over HTTP, looking into them, and deleting so that nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Server, run_for
from tests.server.documents_files import LETTER, RECIPE, SCAN, drop, scan, send, traces

ODD = "The quokka Zebedee guards the lighthouse at Kumbalgarh."
OWN_ODD = "The wombat Ophelia sweeps the observatory at Trondheim."
OWN_LETTER = LETTER.replace("landlord", "bailiff").replace("rent", "toll")


def kept_traces(server: Server, *words: str) -> list[str]:
    """Files that the server keeps whose bytes hold one of the words."""
    return traces(server.home / ".cache", *words) + traces(server.home / ".local", *words)


Index = dict[str, str]


def build(server: Server, folder: Path, name: str, letter: str, odd: str) -> Index:
    folder.mkdir()
    (folder / "letter.txt").write_text(letter)
    (folder / "recipe.md").write_text(RECIPE)
    upload = send(server, odd_txt=odd)["odd.txt"]
    path = server.data / "uploads" / f"{upload.removeprefix('upload:')}.txt"
    run_for(
        server.home,
        "index",
        str(folder),
        str(path),
        "--index",
        name,
        "--model",
        "minilm",
        "--no-bench",
    )
    return {"name": name, "folder": str(folder), "upload": upload}


@pytest.fixture(scope="module")
def index(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """For tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("library") / "post"
    made = build(server, folder, "library", LETTER, ODD * 3)
    yield made
    server.client.delete("/documents/indexes/library")
    drop(server, made["upload"])


@pytest.fixture
def own(server: Server, tmp_path: Path) -> Iterator[Index]:
    """For tests that change it, with words that no other index holds."""
    made = build(server, tmp_path / "post", "post", OWN_LETTER, OWN_ODD * 3)
    yield made
    server.client.delete("/documents/indexes/post")
    drop(server, made["upload"])


def search(server: Server, index: Index, question: str, **more: Any) -> dict[str, Any]:
    body = {"index": index["name"], "question": question, **more}
    answer = server.client.post("/documents/search", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_question_finds_passages_with_places_and_what_to_show_bright(
    server: Server, index: Index
) -> None:
    told = search(server, index, "who raised the rent?")
    hit = told["hits"][0]
    assert hit["name"] == "letter.txt"
    assert hit["file"] == f"{index['folder']}/letter.txt"
    assert "rent" in [hit["text"][start:end] for start, end in hit["matches"]]
    assert LETTER[hit["file_start"] : hit["file_end"]] == hit["text"]
    by_words = search(server, index, "cake", mode="keywords")
    assert [one["name"] for one in by_words["hits"]] == ["recipe.md"]
    by_meaning = search(server, index, "sweet food for dessert", mode="vectors")
    assert by_meaning["hits"][0]["name"] == "recipe.md"
    assert by_meaning["hits"][0]["similarity"] > 0.2


def test_a_file_that_was_sent_is_found_under_its_own_name(server: Server, index: Index) -> None:
    hit = search(server, index, "quokka")["hits"][0]
    assert (hit["name"], hit["file"]) == ("odd.txt", index["upload"])
    files = server.client.get("/documents/indexes/library/files").json()
    assert files["total"] == 3
    assert {one["name"]: one["file"] for one in files["files"]}["odd.txt"] == index["upload"]
    some = server.client.get("/documents/indexes/library/files?start=1&limit=1").json()["files"]
    assert some == files["files"][1:2]


def test_files_of_an_index_open_only_where_the_server_allows_their_folder(
    server: Server, index: Index
) -> None:
    path = "/documents/indexes/library"
    opened = server.client.get(f"{path}/content", params={"file": index["upload"]})
    assert (opened.status_code, opened.text) == (200, ODD * 3)
    hit = search(server, index, "quokka")["hits"][0]
    place = {"file": hit["file"], "start": hit["file_start"], "words": hit["text"][:20]}
    read = server.client.get(f"{path}/text", params=place).json()
    assert (read["name"], read["start"], read["num_parts"]) == ("odd.txt", hit["file_start"], 1)
    assert [one["text"] for one in read["blocks"]] == [ODD * 3]
    assert read["url"] == hit["url"]
    for route in ("content", "text"):
        outside = {"file": f"{index['folder']}/letter.txt"}
        refused = server.client.get(f"{path}/{route}", params=outside)
        assert refused.status_code == 400, refused.text
        assert "server.folders" in refused.json()["hint"]
        for file in ("/etc/passwd", f"upload:{'0' * 32}", "letter.txt"):
            refused = server.client.get(f"{path}/{route}", params={"file": file})
            assert refused.status_code in (400, 404), refused.text


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"index": "nothing"}, 404),
        ({"index": "../library"}, 404),
        ({"question": ""}, 422),
        ({"colour": "red"}, 422),
        ({"after": "9" * 18 + "d"}, 400),
        ({"types": ["cobol"]}, 400),
        ({"folders": ["\x00"]}, 400),
        ({"folders": ["~nobody-at-all/x"]}, 400),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_hint(
    server: Server, index: Index, change: dict[str, Any], status: int
) -> None:
    body = {"index": "library", "question": "rent", **change}
    answer = server.client.post("/documents/search", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["hint"]


@pytest.mark.parametrize("question", ['"', "a AND (b", "NEAR(x,", "*", "\x00", "rent" * 2000, "%_"])
def test_questions_that_look_like_commands_are_only_words(
    server: Server, index: Index, question: str
) -> None:
    for mode in ("hybrid", "keywords"):
        search(server, index, question, mode=mode)


def test_indexes_are_listed_with_their_figures(server: Server, index: Index) -> None:
    (found,) = server.client.get("/documents/indexes").json()["indexes"]
    assert (found["name"], found["files"], found["model"]) == ("library", 3, "minilm")
    assert {"path": index["upload"], "name": "odd.txt", "files": 1} in found["folders"]
    assert found == server.client.get("/documents/indexes/library").json()
    assert server.client.get("/documents/indexes/other").status_code == 404
    damaged = next(server.home.rglob("library.sqlite")).with_name("damaged.sqlite")
    damaged.write_bytes(b"no database" * 100)
    try:
        told = server.client.get("/documents/indexes").json()
        assert [one["name"] for one in told["failed"]] == ["damaged"]
        assert server.client.get("/documents/indexes/damaged").status_code == 422
    finally:
        damaged.unlink()


def test_what_is_indexed_meanwhile_is_found(server: Server, own: Index) -> None:
    assert search(server, own, "submarine", mode="keywords")["hits"] == []
    Path(own["folder"], "new.txt").write_text("A yellow submarine.")
    run_for(server.home, "index", "--index", "post", "--no-bench")
    assert [one["name"] for one in search(server, own, "submarine")["hits"]] == ["new.txt"]
    # Deleted and made anew by somebody else: the one that was open is not asked any more.
    run_for(server.home, "index", "--index", "post", "--drop", "--yes", "--no-bench")
    Path(own["folder"], "new.txt").write_text("A green tractor.")
    run_for(
        server.home, "index", own["folder"], "--index", "post", "--model", "minilm", "--no-bench"
    )
    assert search(server, own, "submarine", mode="keywords")["hits"] == []
    assert [one["name"] for one in search(server, own, "tractor")["hits"]] == ["new.txt"]


def test_a_file_taken_out_is_gone_for_good(server: Server, own: Index) -> None:
    assert search(server, own, "wombat")["hits"]
    path = f"{own['folder']}/letter.txt"
    for wrong in ("../letter.txt", "letter.txt", "/etc/passwd", "upload:" + "0" * 32, "upload:x"):
        answer = server.client.post("/documents/indexes/post/remove", json={"files": [wrong]})
        assert answer.status_code == 400, (wrong, answer.text)
    told = server.client.post(
        "/documents/indexes/post/remove", json={"files": [own["upload"], path]}
    ).json()
    assert set(told["files"]) == {own["upload"], path}
    assert told["uploads"] == [own["upload"]]
    assert (told["passages"], told["clean"]) == (2, True)
    assert search(server, own, "wombat", mode="keywords")["hits"] == []
    assert kept_traces(server, "wombat", "Ophelia", "bailiff") == []
    assert Path(path).read_text() == OWN_LETTER  # a folder of the user's is never touched


def test_a_deleted_index_leaves_nothing(server: Server, own: Index) -> None:
    pytest.importorskip("rapidocr")
    Path(own["folder"], "scan.png").write_bytes(scan())
    run_for(server.home, "index", "--index", "post", "--no-bench")
    assert search(server, own, "plumber")["hits"][0]["name"] == "scan.png"
    assert kept_traces(server, "plumber", "wombat")  # it is seen where it is
    told = server.client.delete("/documents/indexes/post").json()
    assert own["upload"] in told["uploads"]
    assert len(told["files"]) == 4
    words = ("wombat", "Ophelia", "bailiff", "plumber", *SCAN.split()[:3])
    assert kept_traces(server, *words[:4]) == []
    assert not list(server.home.rglob("post.sqlite*"))
    upload = own["upload"].removeprefix("upload:")
    assert server.client.get(f"/uploads/{upload}").status_code == 404
    assert server.client.delete("/documents/indexes/post").status_code == 404
    assert Path(own["folder"], "scan.png").is_file()


def test_an_index_that_is_being_filled_is_not_deleted(server: Server, own: Index) -> None:
    from anyrig.documents.index.db import lock_index

    with lock_index(next(server.home.rglob("post.sqlite"))):
        answer = server.client.delete("/documents/indexes/post")
        assert (answer.status_code, bool(answer.json()["hint"])) == (409, True)
    assert search(server, own, "wombat")["hits"]
    told = server.client.delete("/documents/indexes/post?uploads=false").json()
    assert told["uploads"] == []
    upload = own["upload"].removeprefix("upload:")
    assert server.client.get(f"/uploads/{upload}").status_code == 200


def test_a_file_in_two_indexes_keeps_its_name_in_the_one_it_stays_in(
    server: Server, own: Index
) -> None:
    path = server.data / "uploads" / f"{own['upload'].removeprefix('upload:')}.txt"
    run_for(
        server.home, "index", str(path), "--index", "post-2", "--model", "hashing", "--no-bench"
    )
    body = {"files": [own["upload"]]}
    told = server.client.post("/documents/indexes/post-2/remove", json=body).json()
    assert (told["files"], told["uploads"]) == ([own["upload"]], [])
    hit = search(server, own, "wombat")["hits"][0]
    assert (hit["name"], hit["file"]) == ("odd.txt", own["upload"])
    assert server.client.delete("/documents/indexes/post-2").status_code == 200
    # The last one that holds it takes it along.
    told = server.client.post("/documents/indexes/post/remove", json=body).json()
    assert told["uploads"] == [own["upload"]]
