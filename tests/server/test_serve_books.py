"""Books over HTTP: looked at, made, and listened to while they are made."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest
import soundfile

from tests.server.conftest import Server
from tests.server.test_serve_jobs import BOOK, begun, over, sent, until


@pytest.fixture(scope="module")
def book(server: Server) -> str:
    return sent(server.client, BOOK.read_bytes(), "The Tide Clock.epub")


@pytest.mark.parametrize("data", [bytes(range(128, 256)) * 40, b"%PDF-1.7\nno more"])
@pytest.mark.parametrize("path", ["/books/plan", "/documents/summarise"])
def test_a_damaged_pdf_is_called_that(server: Server, data: bytes, path: str) -> None:
    file = sent(server.client, data, "My book.pdf")
    body = {"file": file} if path == "/books/plan" else {"files": [file]}
    answer = server.client.post(path, json=body).json()
    failed = answer if path == "/books/plan" else answer["results"][0]["error"]
    assert "My book.pdf is not a valid PDF (damaged?)" in str(failed), answer
    server.client.delete(f"/uploads/{file.removeprefix('upload:')}")


def planned(server: Server, **asked: Any) -> dict[str, Any]:
    answer = server.client.post("/books/plan", json=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_book_is_looked_at_without_being_made(server: Server, book: str) -> None:
    plan = planned(server, file=book, engine="tone")
    assert (plan["title"], plan["author"], plan["language"]) == (
        "The Tide Clock", "The anyrig authors", "en"
    )  # fmt: skip
    rows = {row["number"]: row for row in plan["chapters"]}
    assert [number for number, row in rows.items() if not row["chosen"]] == [1, 3]
    assert rows[1]["kind"] == "cover"
    assert rows[5]["title"] == "One Hand"
    assert plan["words"] == sum(row["words"] for row in rows.values() if row["chosen"])
    assert plan["audio_s"] > 60
    picture = server.client.get(plan["cover"])
    assert picture.headers["content-type"] == "image/jpeg"
    assert picture.content.startswith(b"\xff\xd8\xff")
    some = planned(server, file=book, engine="tone", chapters=[5], rate=2.0)
    assert [row["number"] for row in some["chapters"] if row["chosen"]] == [5]
    assert some["audio_s"] < rows[5]["seconds"]


def test_chapters_are_heard_while_the_rest_is_made(server: Server, book: str) -> None:
    client = server.client
    job = begun(client, "book", file=book, engine="tone", set={"sleep_s": 0.02})
    id = job["id"]
    chapters: list[dict[str, Any]] = []

    def some_done(job: dict[str, Any]) -> bool:
        nonlocal chapters
        chapters = client.get(f"/jobs/{id}/chapters").json()["chapters"]
        return sum(row["state"] == "done" for row in chapters) >= 2 or over(job)

    running = until(client, id, some_done)
    assert running["state"] == "running", running
    done = [row for row in chapters if row["state"] == "done"]
    waiting = [row for row in chapters if row["state"] == "waiting"]
    assert [row["number"] for row in chapters] == [2, 4, 5, 6, 7, 8, 9]
    assert all(row["url"] is None for row in waiting)
    heard = client.get(done[0]["url"])
    assert heard.status_code == 200, heard.text
    assert heard.headers["content-type"] == "audio/mpeg"
    sound, rate = soundfile.read(io.BytesIO(heard.content))
    assert 2 < len(sound) / rate < 20
    assert abs(sound).max() > 0.01
    part = client.get(done[0]["url"], headers={"Range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, heard.content[:10])
    if waiting:
        early = client.get(f"/jobs/{id}/chapters/{waiting[-1]['number']}")
        assert early.status_code in (200, 409)  # it may be made by now
    client.post(f"/jobs/{id}/cancel")
    until(client, id, over)
    assert client.delete(f"/jobs/{id}").status_code == 200


def test_hostile_books_and_words_are_refused(server: Server, book: str) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("x.xhtml", b"0" * (300 << 20))
    wrong = [
        {"file": sent(server.client, b"%PDF-1.7\n" + b"\xff" * 5000, "x.pdf")},
        {"file": sent(server.client, bomb.getvalue(), "bomb.epub")},
        {"file": book, "voice": "/etc/passwd"},
        {"file": book, "output": "/tmp/x"},
        {"file": book, "chapters": "99"},
        {"file": book, "notes": "sing"},
        {"file": book, "engine": "nobody"},
        {"file": "/etc/passwd"},
        {"file": "upload:" + "0" * 32},
        {},
    ]
    for asked in wrong:
        answer = server.client.post("/books/plan", json=asked)
        assert 400 <= answer.status_code < 500, (asked, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert str(server.home) not in answer.text, answer.text
    assert server.client.get("/books/cover/..%2F..%2Fetc%2Fpasswd").status_code == 404
    assert server.client.get(f"/books/cover/{'0' * 32}").status_code == 404
    batch = begun(server.client, "batch", lines=["One."], engine="tone")
    assert server.client.get(f"/jobs/{batch['id']}/chapters").status_code == 409
    assert server.client.get(f"/jobs/{batch['id']}/chapters/1").status_code == 409
    assert json.loads(server.client.get("/openapi.json").text)["paths"]["/books/plan"]
