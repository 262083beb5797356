"""Finished jobs are deleted by their owner, or by a limit that the settings name."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig import Rig
from anyrig.app import job_retention
from anyrig.app.job_retention import (
    JOBS_FOLDER,
    Retention,
    delete_job,
    delete_old_jobs,
    delete_orphaned_folders,
)
from anyrig.errors import InvalidInputError
from anyrig.jobs import Job, JobFailure, JobQueue
from anyrig.jobs.queue import JobOutcome

DAY_S = 86400.0
NO_LIMITS = Retention()


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / JOBS_FOLDER).mkdir(parents=True)
    return tmp_path / "data"


@pytest.fixture
def queue(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobQueue]:
    monkeypatch.setattr(job_retention, "MAX_RECORDS", 5)
    with JobQueue(tmp_path / "jobs.sqlite", clock=clock, max_unused=5) as queue:
        yield queue


def submit(queue: JobQueue, data: Path, client: str, kind: str = "book") -> Job:
    folder = data / JOBS_FOLDER / secrets.token_hex(12)
    (folder / "out").mkdir(parents=True)
    return queue.submit(kind, {"folder": str(folder), "requested": {}}, client=client)


def make_book(
    queue: JobQueue, data: Path, client: str, *, num_bytes: int = 4, error: str = ""
) -> Path:
    """A finished job with a file; returns the file."""
    job = submit(queue, data, client)
    claimed = queue.claim("worker")
    assert claimed is not None
    assert claimed.id == job.id
    file = Path(str(job.arguments["folder"])) / "out" / "book.m4b"
    file.write_bytes(b"x" * num_bytes)
    outcome = JobOutcome(error=JobFailure(error, "")) if error else JobOutcome({"made": 1})
    queue.finish("worker", job.id, outcome)
    return file


def sweep(queue: JobQueue, data: Path, clock: Clock, limits: Retention = NO_LIMITS) -> list[str]:
    found = delete_old_jobs(queue, data, limits, clock.now)
    delete_orphaned_folders(queue, data, min_age_s=-1)
    return [job.id for job in found]


def test_a_client_that_submits_and_cancels_erases_nothing(
    queue: JobQueue, data: Path, clock: Clock
) -> None:
    books = [make_book(queue, data, client) for client in ("a", "b", "") for _ in range(2)]
    books.append(make_book(queue, data, "b", error="some passages could not be spoken"))
    for _ in range(40):
        queue.cancel(submit(queue, data, "b").id)
    for _ in range(20):  # these were begun, and made nothing
        job = submit(queue, data, "b")
        queue.claim("worker")
        queue.cancel(job.id)
        queue.finish("worker", job.id, JobOutcome(stopped=True))
    bench = queue.submit("bench", {}, client="b")
    queue.claim("worker")
    queue.finish("worker", bench.id, JobOutcome({"fp32": 1.0}))
    assert len(queue.list_page(None, client="b").jobs) <= 5 + 20 + 3 + 1
    sweep(queue, data, clock)
    assert all(book.exists() for book in books)
    states = [job.state for job in queue.list_page(None, client="b").jobs]
    assert sorted(states) == ["cancelled"] * 5 + ["done"] * 3 + ["failed"]
    assert len(list((data / JOBS_FOLDER).iterdir())) == len(books) + 5


def test_old_jobs_are_deleted_if_the_settings_say_so(
    queue: JobQueue, data: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    old, running = make_book(queue, data, "a"), submit(queue, data, "a")
    queue.claim("worker")
    clock.now += 20 * DAY_S
    queue.renew("worker", [running.id])
    new = make_book(queue, data, "a")
    clock.now += 11 * DAY_S
    queue.renew("worker", [running.id])
    assert sweep(queue, data, clock) == []
    with caplog.at_level(logging.WARNING):
        (deleted,) = sweep(queue, data, clock, Retention(keep_days=30))
    assert (old.exists(), new.exists()) == (False, True)
    assert not old.parents[1].exists()
    assert deleted in caplog.text
    assert "server.keep_jobs_days" in caplog.text
    assert len(queue.list()) == 2


def test_the_size_limit_is_that_of_one_client(
    queue: JobQueue, data: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    small = make_book(queue, data, "a", num_bytes=1000)
    books = []
    for num_bytes in (1000, 2000, 3000, 9000):
        clock.now += 60
        books.append(make_book(queue, data, "b", num_bytes=num_bytes))
    with caplog.at_level(logging.WARNING):
        assert len(sweep(queue, data, clock, Retention(max_gb=13e-6))) == 2
    assert [book.exists() for book in (small, *books)] == [True, False, False, True, True]
    assert "server.max_jobs_gb" in caplog.text
    sweep(queue, data, clock, Retention(max_gb=1e-6))
    assert [book.exists() for book in (small, *books)] == [True, False, False, False, True]


def test_books_survive_the_loss_of_the_queue(queue: JobQueue, data: Path, clock: Clock) -> None:
    book, unused = make_book(queue, data, "a"), submit(queue, data, "a")
    with JobQueue(data / "new.sqlite") as other:
        sweep(other, data, clock)
        assert book.exists()
        assert not Path(str(unused.arguments["folder"])).exists()
        os.utime(book.parents[1], (1, 1))
        delete_orphaned_folders(other, data, min_age_s=1, keep_days=30)
        assert not book.exists()


def test_a_deletion_is_whole_or_not_at_all(queue: JobQueue, data: Path, clock: Clock) -> None:
    book, running = make_book(queue, data, "a"), submit(queue, data, "a")
    queue.claim("worker")
    with pytest.raises(InvalidInputError, match="running"):
        delete_job(queue, data, running)
    assert Path(str(running.arguments["folder"])).is_dir()
    job = queue.list()[0]
    book.parents[1].rename(f"{book.parents[1]}.deleted")  # by a process that was killed then
    delete_job(queue, data, job)
    sweep(queue, data, clock)
    assert [one.name for one in (data / JOBS_FOLDER).iterdir()] == [
        Path(str(running.arguments["folder"])).name
    ]


def test_the_owner_of_the_machine_deletes_a_job_with_its_files() -> None:
    rig = Rig()
    with rig.jobs.open() as queue:
        book = make_book(queue, rig.folders.server, "k1")
    rig.jobs.delete(rig.jobs.list()[0].id)
    assert not book.parents[1].exists()
    assert rig.jobs.list() == ()


def test_a_folder_is_known_by_any_path(
    queue: JobQueue, data: Path, clock: Clock, tmp_path: Path
) -> None:
    waiting = submit(queue, data, "a")
    folder = Path(str(waiting.arguments["folder"]))
    folder.mkdir(parents=True, exist_ok=True)
    link = tmp_path / "link"
    link.symlink_to(data)
    sweep(queue, link, clock)
    assert folder.is_dir()
