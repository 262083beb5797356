"""The job queue: its file, its pages, and the leases of workers."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    StorageBusyError,
    StorageError,
    render,
    render_json,
)
from anyrig.jobs import ACTIVE_STATES, Job, JobFailure, JobNotFoundError, JobQueue
from anyrig.jobs.queue import FORMAT, MAX_EVENT_BYTES, JobOutcome, is_dead, make_owner_name
from anyrig.storage.keys import JsonValue


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(tmp_path: Path, clock: Clock) -> Iterator[JobQueue]:
    with JobQueue(tmp_path / "jobs.sqlite", clock=clock) as queue:
        yield queue


def submit(queue: JobQueue, *kinds: str) -> list[str]:
    return [queue.submit(kind, {"text": "long " * 2000}).id for kind in kinds]


def claim(queue: JobQueue, owner: str = "worker") -> str | None:
    job = queue.claim(owner)
    return job.id if job else None


def test_ids_cannot_be_guessed(queue: JobQueue) -> None:
    ids = {queue.submit("echo", {}).id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(id) == 16 and id.isalnum() for id in ids)
    assert len({id[0] for id in ids}) > 5
    with pytest.raises(JobNotFoundError):
        queue.get("a")


def test_the_options_that_an_error_names_are_kept_as_data(queue: JobQueue) -> None:
    id, message = queue.submit("ocr", {}).id, Message("pass {p}", p=OptionRef("pages", "1-3"))
    assert claim(queue, "w") == id
    queue.report_event("w", id, "log", {"text": message})
    queue.finish("w", id, JobOutcome(error=JobFailure(message, message)))
    error = queue.get(id).error
    assert error is not None
    for text in (
        *error,
        *(one.data.get("text") or one.data["error"] for one in list(queue.events(id))[-2:]),
    ):
        assert render_json(text, "command") == "pass --pages 1-3"
        assert render_json(text, "http") == 'pass "pages": "1-3"'


def test_options_in_texts_of_early_versions_are_shown(queue: JobQueue, tmp_path: Path) -> None:
    old = "{0} \ue000max_pages=3\ue001, or \ue000all\ue001."
    id = queue.submit("speak", {"text": old}).id
    assert claim(queue, "w") == id
    queue.report_event("w", id, "log", {"text": old})
    queue.finish("w", id, JobOutcome({"warnings": [old]}))
    with sqlite3.connect(tmp_path / "jobs.sqlite") as file:
        file.execute("UPDATE jobs SET error = ?, hint = ?", (old, old))
    job = queue.get(id)
    assert job.arguments["text"] == old  # of a user
    assert job.error is not None
    (event,) = (one for one in queue.events(id) if one.kind == "log")
    shown = "{0} --max-pages 3, or --all."
    assert [render(text, "command") for text in job.error] == [shown, shown]
    assert render_json(job.result, "command") == {"warnings": [shown]}
    assert render_json(event.data["text"], "command") == shown


@pytest.mark.parametrize("arguments", [{"n": float("inf")}, {"x": b"y"}, {"t": "x" * (1 << 20)}])
def test_invalid_arguments_are_refused(queue: JobQueue, arguments: dict[str, JsonValue]) -> None:
    with pytest.raises(InvalidInputError):
        queue.submit("echo", arguments)
    assert queue.list() == ()


def test_json_keys_of_a_job(queue: JobQueue) -> None:
    job = queue.submit("book", {"file": "a.txt"}, client="k1")
    assert job.to_json() == {
        "id": job.id, "kind": "book", "arguments": {"file": "a.txt"}, "state": "queued",
        "created": job.created, "started": None, "ended": None, "progress": None, "error": None,
        "result": None, "attempts": 0, "requested": "", "client": "k1", "kills": 0,
    }  # fmt: skip


def test_old_cancelled_jobs_of_a_client_are_deleted(tmp_path: Path) -> None:
    with JobQueue(tmp_path / "jobs.sqlite", max_unused=3) as queue:
        others = [queue.submit("quick", {}, client="other").id for _ in range(5)]
        for id in others:
            queue.cancel(id)
        done = queue.submit("quick", {})
        queue.claim("worker")
        queue.finish("worker", done.id, JobOutcome())
        paused = queue.submit("waits", {})
        queue.pause(paused.id)
        cancelled = [queue.submit("quick", {}).id for _ in range(6)]
        for id in cancelled:
            queue.cancel(id)
        last = queue.submit("quick", {}).id
        kept = [*others, done.id, paused.id, *cancelled[3:], last]
        assert [job.id for job in queue.list()] == kept
    with sqlite3.connect(tmp_path / "jobs.sqlite") as connection:
        ((count,),) = connection.execute("SELECT count(DISTINCT job) FROM events")
    connection.close()
    assert count == len(kept)


# -- pages -----------------------------------------------------------------------------------------


def test_pages_from_the_newest_to_the_oldest(queue: JobQueue) -> None:
    ids = submit(queue, *["batch"] * 5)
    first = queue.list_page(2)
    assert [job.id for job in first.jobs] == ids[3:]
    assert first.jobs[0].arguments == {"text": "long " * 2000}
    assert first.next_before is not None
    queue.delete(ids[3])  # between two pages
    second = queue.list_page(2, before=first.next_before)
    assert [job.id for job in second.jobs] == ids[1:3]
    last = queue.list_page(2, before=second.next_before)
    assert [job.id for job in last.jobs] == ids[:1]
    assert last.next_before is None
    assert queue.list_page(5).next_before is None
    assert queue.list_page(0).jobs == ()


def test_kinds_and_states(queue: JobQueue) -> None:
    book, batch, index, other = submit(queue, "book", "batch", "index", "book")
    queue.cancel(batch)
    queue.pause(index)
    assert [job.id for job in queue.list(kinds=("book", "index"))] == [book, index, other]
    assert [job.id for job in queue.list(states=ACTIVE_STATES)] == [book, index, other]
    assert [job.id for job in queue.list(kinds=("book",), states=("cancelled",))] == []
    assert [job.id for job in queue.list()] == [book, batch, index, other]
    page = queue.list_page(1, kinds=("book",), states=("queued",))
    assert [job.id for job in page.jobs] == [other]
    assert page.next_before is not None
    # Counts are of any state, positions of any kind.
    assert page.counts == {"queued": 2, "running": 0, "paused": 0, "done": 0, "failed": 0,
                           "cancelled": 0}  # fmt: skip
    assert page.queue_positions == {book: 1, other: 2}
    assert queue.list_page(0).counts["paused"] == queue.list_page(0).counts["cancelled"] == 1


def test_more_jobs_than_variables_in_a_statement(queue: JobQueue) -> None:
    queue.file.write(lambda connection: connection.executemany(
        "INSERT INTO jobs (id, kind, arguments, state, created) VALUES (?, 'batch', '{}', ?, 0)",
        [(str(number), ("queued", "done")[number % 2]) for number in range(1300)],
    ))  # fmt: skip
    assert [job.id for job in queue.list(states=("done",))] == [str(n) for n in range(1, 1300, 2)]
    assert len(queue.list_page(1200).jobs) == 1200


# -- leases ----------------------------------------------------------------------------------------


def test_a_lease_that_is_not_renewed_expires(queue: JobQueue, clock: Clock) -> None:
    job = queue.submit("long", {})
    assert claim(queue, "first") == job.id
    assert claim(queue, "second") is None
    clock.now += 10
    assert queue.renew("first", ["unknown"]) == set()
    assert queue.renew("first", [job.id, "unknown"]) == {job.id}
    clock.now += 10
    assert queue.get(job.id).state == "running"
    assert claim(queue, "second") is None
    clock.now += 6
    assert queue.get(job.id).state == "queued"
    assert claim(queue, "second") == job.id
    assert queue.get(job.id).attempts == 2
    # The first comes back to life: nothing that it writes counts.
    assert queue.renew("first", [job.id]) == set()
    queue.report_event("first", job.id, "progress", {"done": 1})
    queue.finish("first", job.id, JobOutcome(result="first"))
    assert queue.get(job.id).state == "running"
    assert queue.get(job.id).progress is None
    queue.finish("second", job.id, JobOutcome(result="second"))
    assert queue.get(job.id).result == "second"


def test_an_abandoned_job_is_listed_as_queued(queue: JobQueue, clock: Clock) -> None:
    first, second = submit(queue, "book", "book")
    assert claim(queue) == first
    assert queue.list_page(9).counts["running"] == 1
    assert queue.list_page(9).queue_positions == {second: 1}
    clock.now += 60
    page = queue.list_page(9, states=("queued",))
    assert [job.id for job in page.jobs] == [first, second]
    assert [job.state for job in page.jobs] == ["queued", "queued"]
    assert page.queue_positions == {first: 1, second: 2}
    assert queue.list(states=("running",)) == ()


def test_a_clock_that_was_set_back_keeps_no_job(queue: JobQueue, clock: Clock) -> None:
    job = queue.submit("long", {})
    assert claim(queue, "first") == job.id
    clock.now -= 86400
    assert claim(queue, "second") == job.id


@pytest.mark.parametrize(
    ("request_stop", "state"), [(JobQueue.cancel, "cancelled"), (JobQueue.pause, "paused")]
)
def test_a_stop_request_outlives_the_worker(
    queue: JobQueue, clock: Clock, request_stop: Callable[[JobQueue, str], Job], state: str
) -> None:
    job, later = queue.submit("long", {}), queue.submit("later", {})
    claim(queue, "first")
    assert request_stop(queue, job.id).state == "running"
    assert queue.list_stop_requests("first") == [job.id]
    clock.now += 60
    assert claim(queue, "second") == later.id
    assert queue.get(job.id).state == state


def test_a_job_that_crashes_its_workers_waits_for_the_others_and_fails(
    queue: JobQueue, clock: Clock
) -> None:
    deadly, other = queue.submit("deadly", {}), queue.submit("other", {})
    for number in range(4):
        assert claim(queue, f"worker {number}") == deadly.id
        clock.now += 60
    assert claim(queue) == other.id
    queue.finish("worker", other.id, JobOutcome())
    for number in range(4, 104):
        claim(queue, f"worker {number}")
        clock.now += 60
    assert claim(queue) is None
    error = queue.get(deadly.id).error
    assert error is not None
    assert "crashed 100 times" in error.message


def test_progress_resets_the_number_of_crashes(queue: JobQueue, clock: Clock) -> None:
    job = queue.submit("long", {})
    for number in range(150):
        assert claim(queue, f"worker {number}") == job.id
        queue.report_event(f"worker {number}", job.id, "progress", {"done": 0.1})
        clock.now += 60
    assert queue.get(job.id).state == "queued"


def test_a_new_attempt_keeps_the_progress_without_its_rates(queue: JobQueue) -> None:
    job = queue.submit("long", {})
    claim(queue)
    progress: dict[str, JsonValue] = {
        "done": 0.4, "stage": "speaking", "speed": 21.5, "left_s": 48.0
    }  # fmt: skip
    queue.report_event("worker", job.id, "progress", progress)
    queue.pause(job.id)
    queue.finish("worker", job.id, JobOutcome(stopped=True))
    assert queue.get(job.id).progress == progress
    queue.resume(job.id)
    claim(queue)
    assert queue.get(job.id).progress == {"done": 0.4, "stage": "speaking"}


def test_events_are_bounded(tmp_path: Path) -> None:
    with JobQueue(tmp_path / "jobs.sqlite", max_events=50) as queue:
        job = queue.submit("long", {})
        claim(queue)
        queue.report_event("worker", job.id, "begin", {"title": "x"})
        for n in range(200):
            queue.report_event("worker", job.id, "progress", {"n": n})
        queue.report_event("worker", job.id, "note", {"text": "x" * MAX_EVENT_BYTES})
        queue.finish("worker", job.id, JobOutcome())
        events = list(queue.events(job.id))
        assert len(events) == 50
        # What is not progress is kept; numbers only grow.
        kinds = [event.kind for event in events if event.kind != "progress"]
        assert kinds == ["state", "state", "begin", "note", "state"]
        assert all(a.number < b.number for a, b in itertools.pairwise(events))
        assert events[-1].number == 205
        assert "left_out" in events[-2].data
        assert queue.get(job.id).progress == {"n": 199}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the lease tells")
def test_a_dead_owner_is_noticed_at_once() -> None:
    code = "from anyrig.jobs.queue import make_owner_name; print(make_owner_name())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert is_dead(done.stdout.strip())
    owner = make_owner_name()
    assert not is_dead(owner)
    machine, pid, _, token = owner.split("/")
    assert is_dead(f"{machine}/{pid}/1/{token}")  # another process that had the same id
    assert not is_dead(f"elsewhere/1/1/{token}")
    assert not is_dead("")


# -- the file --------------------------------------------------------------------------------------


def tear(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def overwrite(path: Path) -> None:
    path.write_bytes(b"this is not a database" * 100)


def drop_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE events")
    connection.close()


def break_json(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE jobs SET arguments = '{'")
    connection.close()


@pytest.mark.parametrize("damage", [tear, overwrite, drop_table, break_json])
def test_a_damaged_file_is_refused_and_left_alone(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "jobs.sqlite"
    with JobQueue(path) as queue:
        queue.submit("echo", {"x": "y" * 100})
    damage(path)
    before = path.read_bytes()
    with JobQueue(path) as queue:
        with pytest.raises(StorageError, match="is damaged") as caught:
            queue.list()
        assert "Move it away" in caught.value.hint
        with pytest.raises(StorageError, match="is damaged"):
            queue.claim("worker")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.glob("jobs.sqlite.*")] == []
    path.rename(tmp_path / "away")
    with JobQueue(path) as queue:
        assert queue.list() == ()


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A file of 0.1.0, without the column for clients."""
    path = tmp_path / "jobs.sqlite"
    with sqlite3.connect(path) as connection:
        for statement in FORMAT.schema:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {FORMAT.application_id}")
        connection.execute(f"PRAGMA user_version = {FORMAT.version}")
        connection.execute(
            "INSERT INTO jobs (id, kind, arguments, state, created) "
            "VALUES ('abc', 'book', '{}', 'queued', 1.0)"
        )
    connection.close()
    return path


def test_a_read_only_file_is_listed(old_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write everywhere, so the system's answer is replaced."""
    monkeypatch.setattr("anyrig.storage.sqlite.os.access", lambda *_: False)
    with JobQueue(old_file) as queue, pytest.raises(StorageError, match="older anyrig"):
        queue.list()
    monkeypatch.undo()
    with JobQueue(old_file) as queue:
        queue.list()
    monkeypatch.setattr("anyrig.storage.sqlite.os.access", lambda *_: False)
    with JobQueue(old_file) as queue:
        assert [job.id for job in queue.list()] == ["abc"]
        with pytest.raises(StorageError, match="is not writable"):
            queue.submit("echo", {})


def test_a_file_without_clients_gets_the_column(old_file: Path) -> None:
    with JobQueue(old_file) as queue:
        assert [(job.id, job.client) for job in queue.list()] == [("abc", "")]
        new = queue.submit("book", {}, client="k1")
        assert [job.id for job in queue.list_page(10, client="k1").jobs] == [new.id]
        assert [job.id for job in queue.list_page(10).jobs] == ["abc", new.id]
    with JobQueue(old_file) as again:
        assert len(again.list()) == 2


def test_a_locked_file_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyrig.jobs.queue.FORMAT", replace(FORMAT, busy_timeout_s=0.1))
    path = tmp_path / "jobs.sqlite"
    with JobQueue(path) as queue:
        queue.submit("bench", {})
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageBusyError, match="another process") as caught:
            queue.submit("bench", {})
        assert "try again" in caught.value.hint
        other.execute("ROLLBACK")
        other.close()
        assert len([queue.submit("bench", {}), *queue.list()]) == 3


# -- cost ------------------------------------------------------------------------------------------


def read_bytes_of(work: Callable[[], object]) -> int:
    """How many bytes this thread read from files in the meantime, cached by the system or not."""

    def count() -> int:
        lines = Path("/proc/thread-self/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("rchar")).split()[1])

    before = count()
    work()
    return count() - before


@pytest.mark.skipif(not Path("/proc/thread-self/io").exists(), reason="counts reads as Linux does")
def test_looking_for_work_does_not_read_the_arguments_of_open_jobs(
    tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "jobs.sqlite"
    with JobQueue(path, clock=clock) as queue:
        for number in range(60):
            queue.submit("batch", {"text": "x" * 200_000})
            if number < 30:
                claim(queue, "another")

    def look() -> None:  # with a cache that is empty, as it is after each commit of another process
        with JobQueue(path, clock=clock) as queue:
            assert queue.has_work()
            assert len(queue.list_heartbeats("worker")) == 30
            assert claim(queue) is not None
            assert queue.list_stop_requests("worker") == []

    assert read_bytes_of(look) < 5 * 200_000  # of 60: the one that was claimed


# -- killed ----------------------------------------------------------------------------------------

KILLED = JobOutcome(error=JobFailure("killed by signal 9", "Resume it."), killed=True)


def test_a_killed_job_is_tried_again_once(queue: JobQueue) -> None:
    job, later = submit(queue, "book", "book")
    assert claim(queue) == job
    queue.finish("worker", job, KILLED)
    assert (queue.get(job).state, queue.get(job).error) == ("queued", None)
    texts = [event.data["text"] for event in queue.events(job) if event.kind == "log"]
    assert texts == ["killed by signal 9; the job is tried again once"]
    assert claim(queue) == job
    queue.report_event("worker", job, "progress", {"done": 0.9})  # no reason to go on for ever
    queue.finish("worker", job, KILLED)
    assert (queue.get(job).state, queue.get(job).attempts) == ("failed", 2)
    assert queue.get(job).error == KILLED.error
    assert claim(queue) == later
    queue.resume(job)
    assert claim(queue) == job
    queue.finish("worker", job, KILLED)
    assert queue.get(job).state == "queued"


@pytest.mark.parametrize(
    ("request_stop", "state"), [(JobQueue.pause, "paused"), (JobQueue.cancel, "cancelled")]
)
def test_a_killed_job_that_was_told_to_stop_is_not_tried_again(
    queue: JobQueue, request_stop: Callable[[JobQueue, str], Job], state: str
) -> None:
    (job,) = submit(queue, "book")
    claim(queue)
    request_stop(queue, job)
    queue.finish("worker", job, KILLED)
    assert queue.get(job).state == state
