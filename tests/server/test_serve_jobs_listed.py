"""The list of jobs, when there are many: state of it, in short, and off the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from anyrig.jobs import JobQueue
from anyrig.jobs.queue import JobOutcome
from anyrig.server.auth import SCOPE_NO_KEY_NEEDED
from anyrig.server.page.api import ApiClient
from anyrig.server.page.jobs import FetchedJobs, JobQuery, describe_name
from anyrig.server.page.translations import get_translator
from anyrig.server.state import ServerState
from tests.server.conftest import MakeApp

LINES = [f"Line number {n}." for n in range(50)]


@pytest.fixture
def app(make_app: MakeApp) -> Iterator[TestClient]:
    """An app whose jobs nobody works on."""
    with TestClient(make_app("--no-jobs"), base_url="http://127.0.0.1:3000") as client:
        yield client


def parts_of(client: TestClient) -> ServerState:
    found: ServerState = client.app.state.server  # type: ignore[attr-defined]
    return found


def queued(client: TestClient, *kinds: str) -> list[str]:
    return [parts_of(client).jobs.submit(kind, {"folder": "/"}).id for kind in kinds]


def ended(client: TestClient, result: Any = None) -> str:
    jobs = parts_of(client).jobs
    assert isinstance(jobs, JobQueue)
    taken = jobs.claim("worker")
    assert taken is not None
    jobs.finish("worker", taken.id, JobOutcome(result=result))
    return taken.id


def ids(told: Any) -> list[str]:
    return [job["id"] for job in told["jobs"]]


def test_jobs_are_listed_in_parts(app: TestClient) -> None:
    made = queued(app, *["book", "index", "batch"] * 2)
    app.post(f"/jobs/{made[0]}/cancel")
    told = app.get("/jobs", params={"limit": 4}).json()
    assert ids(told) == made[2:]
    rest = app.get("/jobs", params={"limit": 4, "before": told["older"]}).json()
    assert ids(rest) == made[:2]
    assert rest["older"] is None
    assert told["counts"] == rest["counts"]
    assert told["counts"] | {"queued": 5, "cancelled": 1} == told["counts"]
    some = app.get("/jobs?kind=book&kind=batch&state=queued").json()
    assert ids(some) == [made[2], made[3], made[5]]
    assert some["counts"]["queued"] == 3
    assert ids(app.get("/jobs", params={"state": "cancelled"}).json()) == made[:1]
    assert ids(app.get("/jobs").json()) == made


def test_a_job_tells_where_it_stands(app: TestClient) -> None:
    first, second, third = queued(app, "book", "index", "book")
    app.post(f"/jobs/{first}/pause")
    told = app.get("/jobs?kind=book").json()
    assert [job["place"] for job in told["jobs"]] == [None, 2]
    assert app.get(f"/jobs/{second}").json()["place"] == 1
    assert app.post(f"/jobs/{first}/resume").json()["place"] == 1
    assert app.get(f"/jobs/{third}").json()["place"] == 3


def test_a_list_holds_nothing_that_is_long(app: TestClient) -> None:
    body = {"kind": "batch", "arguments": {"lines": LINES, "engine": "tone"}}
    job = app.post("/jobs", json=body).json()
    assert job["arguments"]["lines"] == LINES
    assert job["place"] == 1
    done = ended(app, {"failed": [{"file": str(n)} for n in range(150)], "passages": 3})
    assert done == job["id"]
    (listed,) = app.get("/jobs").json()["jobs"]
    assert listed["arguments"] == {"lines": 50, "engine": "tone"}
    assert len(listed["result"]["failed"]) == 100
    whole = app.get(f"/jobs/{done}").json()
    assert len(whole["result"]["failed"]) == 150
    assert whole["arguments"]["lines"] == LINES
    assert listed.keys() == whole.keys()


def test_a_job_of_several_files_has_the_first_name_and_how_many_more(app: TestClient) -> None:
    files = [f"upload:{sent(app, name)}" for name in ("tide and 1 more.txt", "b.txt", "c.txt")]
    told = app.post("/jobs", json={"kind": "index", "arguments": {"files": files}}).json()
    assert (told["name"], told["num_more"]) == ("tide and 1 more.txt", 2)
    assert told["title"] == "tide and 1 more.txt and 2 more"
    assert describe_name(get_translator("es"), told) == "tide and 1 more.txt y 2 más"
    alone = app.post("/jobs", json={"kind": "index", "arguments": {"files": files[:1]}}).json()
    assert describe_name(get_translator("es"), alone) == alone["title"] == "tide and 1 more.txt"


def test_lines_that_were_spoken_are_counted(app: TestClient) -> None:
    body = {"kind": "batch", "arguments": {"lines": LINES, "engine": "tone"}}
    id = app.post("/jobs", json=body).json()["id"]
    out = next((parts_of(app).data_folder / "jobs").iterdir()) / "out"
    for name in ("1.wav", "22.wav", ".3.wav", "4.wav.part", "all.txt", "5"):
        (out / name).write_bytes(b"RIFF")
    (out / "6.wav").symlink_to("/etc/passwd")
    (out / "7.wav").mkdir()
    assert app.get("/jobs").json()["jobs"][0]["num_files"] == 2
    assert len(app.get(f"/jobs/{id}/files").json()["files"]) == 2


def looking(client: TestClient, kind: str) -> JobQuery:
    app: Any = client.app
    api = ApiClient(app, parts_of(client)).for_visitor({SCOPE_NO_KEY_NEEDED: True})
    return JobQuery(api, kind)


def seen(looks: JobQuery, most: int) -> FetchedJobs:
    return asyncio.run(looks.fetch(most, ()))


def test_a_page_shows_what_is_not_over_however_old(app: TestClient) -> None:
    made = queued(app, *["book"] * 6)
    for id in made[2:]:
        app.post(f"/jobs/{id}/cancel")
    looks = looking(app, "book")
    found = seen(looks, 2)
    assert [job["id"] for job in found.jobs] == [made[5], made[4], made[1], made[0]]
    assert [job["place"] for job in found.jobs] == [None, None, 2, 1]
    assert found.total == 6


def test_a_page_sees_the_end_of_an_old_job(app: TestClient) -> None:
    made = queued(app, *["index"] * 4)
    for id in made[1:]:
        app.post(f"/jobs/{id}/cancel")
    looks = looking(app, "index")
    assert made[0] in [job["id"] for job in seen(looks, 2).jobs]
    assert ended(app) == made[0]
    states = {job["id"]: job["state"] for job in seen(looks, 2).jobs}
    assert states[made[0]] == "done"
    assert made[0] not in [job["id"] for job in seen(looks, 2).jobs]  # told once
    looks = looking(app, "index")
    app.post(f"/jobs/{made[1]}/resume")
    seen(looks, 1)
    parts_of(app).jobs.cancel(made[1])
    parts_of(app).jobs.delete(made[1])
    assert [job["id"] for job in seen(looks, 1).jobs] == made[3:]


def sent(client: TestClient, name: str) -> str:
    answer = client.post("/uploads", files={"files": (name, b"A short book.")})
    return str(answer.json()["files"][0]["id"])


def test_uploads_are_not_held_while_an_order_is_looked_at(
    app: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for engines takes seconds; whoever deletes a file meanwhile does not wait for it."""
    state = parts_of(app)
    mine, others = sent(app, "mine.txt"), sent(app, "others.txt")
    looks, go = threading.Event(), threading.Event()
    usual = state.speech.check

    def check(**given: Any) -> None:
        looks.set()
        assert go.wait(60)
        usual(**given)

    monkeypatch.setattr(state.speech, "check", check)
    answers: list[Any] = []
    body = {"kind": "book", "arguments": {"file": f"upload:{mine}", "engine": "tone"}}
    order = threading.Thread(target=lambda: answers.append(app.post("/jobs", json=body)))
    order.start()
    assert looks.wait(60)
    deletes = [threading.Thread(target=app.delete, args=(f"/uploads/{one}",), daemon=True)
               for one in (others, mine)]  # fmt: skip
    for one in deletes:
        one.start()
    for one in deletes:
        one.join(20)
    held = any(one.is_alive() for one in deletes)
    go.set()
    order.join(60)
    assert not held
    (answer,) = answers
    assert answer.status_code == 404, answer.text  # its own file went as well
    assert app.get("/jobs").json()["jobs"] == []
    assert list((state.data_folder / "jobs").iterdir()) == []
    assert app.get("/uploads").json()["files"] == []
