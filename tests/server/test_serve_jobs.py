"""Jobs over HTTP, against a real server: a book from upload to download, and everything hostile."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyrig.audio.decode import open_audio
from anyrig.jobs import JobQueue
from benchmarks.serve_kills import kill_servers
from tests.server.conftest import Server, Start
from tests.waiting import wait_until

BOOK = Path(__file__).parents[2] / "examples" / "the-tide-clock.epub"
SLOW = {"sleep_s": 0.05}  # for each character of the `tone` voice


@pytest.fixture(scope="module")
def book(server: Server) -> str:
    return sent(server.client, BOOK.read_bytes(), "The Tide Clock – día uno.epub")


def sent(client: httpx.Client, data: bytes, name: str) -> str:
    answer = client.post("/uploads", files={"files": (name, data)})
    assert answer.status_code == 201, answer.text
    return f"upload:{answer.json()['files'][0]['id']}"


def begun(client: httpx.Client, kind: str, **arguments: Any) -> dict[str, Any]:
    answer = client.post("/jobs", json={"kind": kind, "arguments": arguments})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def until(client: Any, id: str, right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    def matching() -> dict[str, Any] | None:
        job: dict[str, Any] = client.get(f"/jobs/{id}").json()
        return job if right(job) else None

    return wait_until(matching)


def over(job: dict[str, Any]) -> bool:
    return job["state"] in ("done", "failed", "cancelled")


def events(
    client: httpx.Client, id: str, after: str = "", most: int = 10_000
) -> Iterator[dict[str, str]]:
    """Server-sent events, read as the specification has it."""
    headers = {"Last-Event-ID": after} if after else {}
    with client.stream("GET", f"/jobs/{id}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if not line:
                if "data" in fields:
                    yield fields
                    most -= 1
                    if not most:
                        return
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")


# -- a book ----------------------------------------------------------------------------------------


def test_a_book_from_upload_to_download(server: Server, book: str, tmp_path: Path) -> None:
    client = server.client
    job = begun(client, "book", file=book, engine="tone", captions=["srt"], chapters=[4, 5])
    assert job["state"] == "queued"
    assert job["title"] == "The Tide Clock – día uno.epub"
    told = list(events(client, job["id"]))
    numbers = [int(one["id"]) for one in told]
    assert numbers == sorted(set(numbers))
    kinds = [one["event"] for one in told]
    assert kinds[:2] == ["state", "state"]
    assert {"begin", "progress"} <= set(kinds)
    last = json.loads(told[-1]["data"])
    assert last["data"] == {"state": "done"}
    told_progress = [json.loads(one["data"])["data"] for one in told if one["event"] == "progress"]
    assert told_progress[-1]["done"] == 1.0
    assert "speed" in told_progress[-1]
    assert "left_s" in told_progress[-1]
    whole = json.dumps(told) + client.get(f"/jobs/{job['id']}").text
    assert str(server.home) not in whole  # no path of the machine

    files = client.get(f"/jobs/{job['id']}/files").json()["files"]
    assert [(one["number"], one["type"]) for one in files] == [
        (1, "audio/mp4"), (2, "application/x-subrip")
    ]  # fmt: skip
    assert files[0]["name"] == "The Tide Clock – día uno.m4b"
    data = client.get(files[0]["url"])
    assert data.status_code == 200
    assert len(data.content) == files[0]["size"]
    made = tmp_path / "book.m4b"
    made.write_bytes(data.content)
    with open_audio(made) as audio:
        assert [mark.title for mark in audio.chapters] == ["Part One: The Parcel", "One Hand"]
    check_ranges(client, files[0]["url"], data)
    assert client.get(f"/jobs/{job['id']}/files/3").status_code == 404
    assert client.get(f"/jobs/{job['id']}/files/0").status_code == 422


def check_ranges(client: httpx.Client, url: str, whole: httpx.Response) -> None:
    """RFC 9110: parts, conditions, refusals."""
    size, etag = len(whole.content), whole.headers["etag"]
    ranges = {
        "bytes=0-99": (0, 100), "bytes=100-": (100, size), "bytes=-50": (size - 50, size),
        f"bytes=10-{size + 5}": (10, size),
    }  # fmt: skip
    for asked, (start, end) in ranges.items():
        part = client.get(url, headers={"Range": asked})
        assert part.status_code == 206
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
        assert part.content == whole.content[start:end]
    for asked in (f"bytes={size}-", "bytes=-0"):
        past = client.get(url, headers={"Range": asked})
        assert past.status_code == 416
        assert past.headers["content-range"] == f"bytes */{size}"
        assert past.headers["content-type"] == "application/problem+json"
    for odd in ("bytes=9-3", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", "bytes=", "bytes=--1"):
        assert client.get(url, headers={"Range": odd}).status_code == 200
    other = client.get(url, headers={"Range": "bytes=0-9", "If-Range": '"another"'})
    assert (other.status_code, len(other.content)) == (200, size)
    same = client.get(url, headers={"Range": "bytes=0-9", "If-Range": etag})
    assert (same.status_code, len(same.content)) == (206, 10)
    assert client.get(url, headers={"If-None-Match": etag}).status_code == 304
    head = client.head(url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(size)
    assert head.headers["accept-ranges"] == "bytes"
    said = head.headers["content-disposition"]
    assert said.startswith('attachment; filename="')
    assert "filename*=UTF-8''The%20Tide%20Clock%20%E2%80%93%20d%C3%ADa%20uno.m4b" in said


def test_events_go_on_after_a_break(server: Server, book: str) -> None:
    client = server.client
    job = begun(client, "book", file=book, engine="tone", chapters="4")
    first = list(events(client, job["id"], most=2))
    assert [one["id"] for one in first] == ["1", "2"]
    rest = list(events(client, job["id"], after="2"))
    assert int(rest[0]["id"]) == 3
    assert json.loads(rest[-1]["data"])["data"]["state"] == "done"
    last = rest[-1]["id"]
    nothing = client.get(f"/jobs/{job['id']}/events", headers={"Last-Event-ID": last})
    assert nothing.status_code == 204  # so that a browser does not ask for ever
    for odd in ("x", "-1", "9" * 40, "²"):
        headers = [(b"Last-Event-ID", odd.encode())]
        with client.stream("GET", f"/jobs/{job['id']}/events", headers=headers) as answer:
            assert answer.status_code in (200, 204)


def test_a_job_rests_goes_on_and_is_given_up(server: Server, book: str) -> None:
    client = server.client
    job = begun(client, "book", file=book, engine="tone", set=SLOW)
    id = job["id"]
    until(client, id, lambda job: job["state"] == "running" and job["progress"] is not None)
    assert client.post(f"/jobs/{id}/pause").json()["requested"] in ("pause", "")
    until(client, id, lambda job: job["state"] == "paused")
    assert client.post(f"/jobs/{id}/pause").json()["state"] == "paused"
    assert client.post(f"/jobs/{id}/resume").json()["state"] in ("queued", "running")
    again = until(client, id, lambda job: job["state"] == "running")
    assert again["attempts"] == 2
    client.post(f"/jobs/{id}/cancel")
    until(client, id, lambda job: job["state"] == "cancelled")
    assert client.post(f"/jobs/{id}/pause").status_code == 409
    client.post(f"/jobs/{id}/resume")
    until(client, id, lambda job: job["state"] == "running")
    folders = set((server.data / "jobs").iterdir())
    gone = client.delete(f"/jobs/{id}")  # also while it runs
    assert gone.json() == {"id": id, "deleted": True}
    assert client.get(f"/jobs/{id}").status_code == 404
    assert client.get(f"/jobs/{id}/events").status_code == 404
    assert client.post(f"/jobs/{id}/resume").status_code == 404
    left = set((server.data / "jobs").iterdir())
    assert len(folders - left) == 1
    assert id not in [one["id"] for one in client.get("/jobs").json()["jobs"]]


def test_a_failure_says_why_without_paths(server: Server) -> None:
    bad = sent(server.client, b"%PDF-1.4 this is none", "report.pdf")
    job = begun(server.client, "book", file=bad, engine="tone")
    done = until(server.client, job["id"], over)
    assert done["state"] == "failed"
    assert done["error"]["hint"]
    assert "report.pdf" in done["error"]["message"]
    assert str(server.home) not in json.dumps(done)
    assert bad.partition(":")[2] not in done["error"]["message"]
    good = sent(server.client, b"CHAPTER I\n\nThe tide came in.\n", "tide.txt")
    job = begun(server.client, "book", file=good, engine="tone", chapters=[99])
    done = until(server.client, job["id"], over)
    assert done["state"] == "failed"
    assert "--" not in done["error"]["message"] + done["error"]["hint"], done["error"]
    assert "POST /books/plan" in done["error"]["hint"]


# -- other kinds -----------------------------------------------------------------------------------


def test_many_lines_are_spoken_and_heard_one_by_one(server: Server) -> None:
    client = server.client
    lines = ["One.", {"text": "Two.", "voice": "tone", "id": "../../x"}, "***", "Four words here."]
    job = begun(client, "batch", lines=lines, engine="tone", format="flac")
    done = until(client, job["id"], over)
    assert done["state"] == "done", done
    assert done["result"]["made"] == 3
    assert done["result"]["failed"] == ["0003"]
    files = client.get(f"/jobs/{job['id']}/files").json()["files"]
    assert [(one["number"], one["name"]) for one in files] == [
        (1, "0001 One.flac"), (2, "0002 Two.flac"), (4, "0004 Four words here.flac")
    ]  # fmt: skip
    assert client.get(files[1]["url"]).content.startswith(b"fLaC")
    listed = sent(client, b'{"text": "Hello."}\n{"text": "Bye."}\n', "lines.jsonl")
    again = until(client, begun(client, "batch", file=listed, engine="tone")["id"], over)
    assert again["result"]["made"] == 2


def test_the_benchmark_is_a_job(server: Server) -> None:
    job = begun(server.client, "bench", quick=True, device="cpu")
    done = until(server.client, job["id"], over)
    assert done["state"] == "done", done
    (page,) = done["result"]["devices"]
    assert page["device"] == "cpu"
    assert page["figures"][0]["value"] > 0


def test_files_are_indexed_and_a_recording_is_a_job(server: Server) -> None:
    client = server.client
    notes = [sent(client, text.encode(), f"note{n}.txt")
             for n, text in enumerate(("The rent is due.", "The tide comes at noon."))]  # fmt: skip
    done = until(client, begun(client, "index", files=notes, index="jobs-test")["id"], over)
    assert done["state"] == "done", done
    assert done["result"]["new"] == 2
    wrong = until(client, begun(client, "transcribe", file=notes[0])["id"], over)
    assert wrong["state"] == "failed"
    assert "note0.txt" in wrong["error"]["message"]


def test_a_model_is_trained_on_a_file_that_was_sent(server: Server) -> None:
    client = server.client
    story = "The tide came in at noon and the keeper counted the stairs. " * 200
    text = sent(client, story.encode(), "story.txt")
    config = f"""[task]
kind = "language"
text = "{text}"
context = 32
model = {{ preset = "nano" }}
[train]
batch = 4
steps = 4
"""
    job = begun(client, "train", file=sent(client, config.encode(), "my run.toml"), device="cpu")
    done = until(client, job["id"], over)
    assert done["state"] == "done", done
    assert done["result"]["steps"] == 4
    (run,) = [one for one in client.get("/runs").json()["runs"] if one["job"] == job["id"]]
    assert (run["name"], run["state"], run["step"]) == ("my-run", "finished", 4)
    rows = client.get(f"/runs/{run['id']}/history").json()["rows"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    files = client.get(f"/jobs/{job['id']}/files").json()["files"]
    assert {"config.json", "report.html"} <= {one["name"] for one in files}
    report = next(one for one in files if one["name"] == "report.html")
    answer = client.get(report["url"])  # may hold anything that was sent: saved, never shown
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"] == "application/octet-stream"


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("book", {}),
        ("book", {"file": "/etc/passwd"}),
        ("book", {"file": "upload:../../etc/passwd"}),
        ("book", {"file": ["upload:x"]}),
        ("book", {"output": "/tmp/x.m4b"}),
        ("book", {"config": "/tmp/x.toml"}),
        ("book", {"folder": "/tmp"}),
        ("book", {"model": "/etc"}),
        ("book", {"model": "kokoro"}),
        ("book", {"lexicon": "/etc/passwd"}),
        ("book", {"cover": "https://example.org/x.png"}),
        ("book", {"voice": "/etc/passwd"}),
        ("book", {"voice": "../recording.wav"}),
        ("book", {"voice": "~/x"}),
        ("book", {"engine": "a/b"}),
        ("book", {"set": {"x": "/etc/passwd"}}),
        ("book", {"set": {"a=b": 1}}),
        ("book", {"chapters": "1; rm -rf"}),
        ("book", {"title": "a\0b"}),
        ("book", {"title": "\ud800"}),
        ("book", {"title": "x" * 20_000}),
        ("book", {"untitled": "x"}),
        ("book", {"rate": float("1e999")}),
        ("book", {"set": {"x": [[[[[[[[1]]]]]]]]}}),
        ("index", {"index": "../x"}),
        ("index", {"folder": "/etc"}),
        ("index", {"files": []}),
        ("index", {"files": ["/etc/passwd"]}),
        ("transcribe", {"model": "../x"}),
        ("transcribe", {"fetch": True}),
        ("transcribe", {"format": "../../x"}),
        ("train", {"run": "/tmp/run"}),
        ("train", {"export": "/tmp/model"}),
        ("batch", {"lines": []}),
        ("batch", {"lines": [{"text": "x", "voice": "/etc/passwd"}]}),
        ("batch", {"lines": [{"text": "x", "path": "y"}]}),
        ("batch", {"lines": ['<speak><voice name="/etc/passwd">x</voice></speak>']}),
        ("batch", {"lines": [5]}),
        ("bench", {"plot": "/tmp/x.svg"}),
        ("bench", {"device": "../../x"}),
        ("shell", {"words": "ls"}),
    ],
)
def test_hostile_arguments_are_refused_and_leave_nothing(
    server: Server, book: str, kind: str, arguments: dict[str, Any]
) -> None:
    root = server.data / "jobs"
    before = set(root.iterdir()) if root.is_dir() else set()
    num = len(server.client.get("/jobs").json()["jobs"])
    given = {"file": book, **arguments} if arguments and kind == "book" else arguments
    body = json.dumps({"kind": kind, "arguments": given})
    answer = server.client.post("/jobs", content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["hint"]
    assert (set(root.iterdir()) if root.is_dir() else set()) == before
    assert len(server.client.get("/jobs").json()["jobs"]) == num


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[task]\nkind = "language"\ntext = "/etc/passwd"\n', 400),
        ('[task]\nkind = "language"\ntext = "../../x"\n', 400),
        ('[task]\nkind = "language"\ntext = "upload:0123"\n', 404),
        ('[task]\nkind = "language"\nmore = { deep = ["~/x"] }\n', 400),
        ("[task\n", 400),
    ],
)
def test_a_training_file_reaches_nothing_of_the_machine(
    server: Server, text: str, code: int
) -> None:
    config = sent(server.client, text.encode(), "run.toml")
    answer = server.client.post("/jobs", json={"kind": "train", "arguments": {"file": config}})
    assert answer.status_code in (code, 400), answer.text


def test_jobs_wait_where_nobody_works_and_are_done_later(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "home of a server"
    idle = start("--no-jobs", "--no-page", home=home)
    waiting = begun(idle.client, "batch", lines=["One."], engine="tone")
    time.sleep(1.0)
    assert idle.client.get(f"/jobs/{waiting['id']}").json()["state"] == "queued"
    worker = start("--no-page", home=home)  # another server on the same queue
    assert until(worker.client, waiting["id"], over)["state"] == "done"
    assert idle.client.get(f"/jobs/{waiting['id']}/files").json()["files"][0]["number"] == 1


def test_a_server_that_is_stopped_hands_its_job_back(start: Start, tmp_path: Path) -> None:
    home = tmp_path / "home of a server"
    server = start("--no-page", home=home)
    file = sent(server.client, BOOK.read_bytes(), "book.epub")
    job = begun(server.client, "book", file=file, engine="tone", set=SLOW)
    until(server.client, job["id"], lambda job: job["progress"] is not None)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    with JobQueue(home / ".local" / "share" / "anyrig" / "jobs.sqlite") as jobs:
        left = jobs.get(job["id"])
        states = [event.data["state"] for event in jobs.events(left.id) if event.kind == "state"]
    assert left.state == "queued"
    assert states == ["queued", "running", "queued"]  # told, and not found dead by the next one


KILLS = 3


def test_a_job_outlives_its_server_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    report = kill_servers(tmp_path, KILLS)
    assert report.failures == []
    assert report.num_kills == KILLS
    assert report.phases["making"] + report.phases["writing"] >= 1
