"""Some of many jobs: the newest, those of a kind or in a state, how many, and who is next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig.jobs import ACTIVE, LocalJobs
from anyrig.jobs.lease import Leases


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[LocalJobs]:
    with LocalJobs(tmp_path / "jobs.sqlite", lease_s=15.0) as jobs:
        yield jobs


def made(jobs: LocalJobs, *kinds: str) -> list[str]:
    return [jobs.submit(kind, {"text": "long " * 2000}).id for kind in kinds]


def test_the_newest_come_first_page_by_page(jobs: LocalJobs) -> None:
    ids = made(jobs, *["batch"] * 5)
    first = jobs.listing(2)
    assert [job.id for job in first.jobs] == ids[3:]
    assert first.jobs[0].arguments == {"text": "long " * 2000}
    assert first.older is not None
    jobs.delete(ids[3])  # whoever turns the page must not stumble over it
    second = jobs.listing(2, before=first.older)
    assert [job.id for job in second.jobs] == ids[1:3]
    last = jobs.listing(2, before=second.older)
    assert [job.id for job in last.jobs] == ids[:1]
    assert last.older is None
    assert jobs.listing(5).older is None
    assert jobs.listing(0).jobs == ()


def test_some_kinds_and_states_are_told_from_others(jobs: LocalJobs) -> None:
    book, batch, index, other = made(jobs, "book", "batch", "index", "book")
    jobs.cancel(batch)
    jobs.pause(index)
    assert [job.id for job in jobs.list(kinds=("book", "index"))] == [book, index, other]
    assert [job.id for job in jobs.list(states=ACTIVE)] == [book, index, other]
    assert [job.id for job in jobs.list(kinds=("book",), states=("cancelled",))] == []
    assert [job.id for job in jobs.list()] == [book, batch, index, other]
    found = jobs.listing(1, kinds=("book",), states=("queued",))
    assert [job.id for job in found.jobs] == [other]
    assert found.older is not None
    # Counted whatever their state, and in the queue whatever their kind.
    assert found.counts == {"queued": 2, "running": 0, "paused": 0, "done": 0, "failed": 0,
                            "cancelled": 0}  # fmt: skip
    assert found.places == {book: 1, other: 2}
    assert jobs.listing(0).counts["paused"] == jobs.listing(0).counts["cancelled"] == 1


def test_one_that_its_worker_left_waits_again(tmp_path: Path) -> None:
    now = 1_700_000_000.0
    with LocalJobs(tmp_path / "jobs.sqlite", clock=lambda: now, lease_s=15.0) as jobs:
        first, second = made(jobs, "book", "book")
        taken = Leases(jobs).claim()
        assert taken is not None
        assert taken.id == first
        assert jobs.listing(9).counts["running"] == 1
        assert jobs.listing(9).places == {second: 1}
        now += 60
        found = jobs.listing(9, states=("queued",))
        assert [job.id for job in found.jobs] == [first, second]
        assert [job.state for job in found.jobs] == ["queued", "queued"]
        assert found.places == {first: 1, second: 2}
        assert jobs.list(states=("running",)) == ()


def test_more_than_one_question_to_the_file(jobs: LocalJobs) -> None:
    jobs.file.write(lambda connection: connection.executemany(
        "INSERT INTO jobs (id, kind, arguments, state, created) VALUES (?, 'batch', '{}', ?, 0)",
        [(str(number), ("queued", "done")[number % 2]) for number in range(1300)],
    ))  # fmt: skip
    assert [job.id for job in jobs.list(states=("done",))] == [str(n) for n in range(1, 1300, 2)]
    assert len(jobs.listing(1200).jobs) == 1200
