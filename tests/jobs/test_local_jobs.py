"""Jobs in a file: what can be asked of them, and what a worker does."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anyrig.errors import AnyrigError, InvalidInputError, StorageError, WorkError
from anyrig.jobs import Job, JobNotFoundError, LocalJobs, Plain, Stop, Stopped, Tell, work
from anyrig.jobs.lease import Leases, Outcome
from anyrig.jobs.rows import MOST_EVENT_BYTES


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def jobs(tmp_path: Path, clock: Clock) -> Iterator[LocalJobs]:
    with LocalJobs(tmp_path / "jobs.sqlite", clock=clock) as jobs:
        yield jobs


def echo(job: Job, tell: Tell, stop: Stop) -> Plain:
    tell("progress", {"done": 0.5})
    return dict(job.arguments)


def endless(job: Job, tell: Tell, stop: Stop) -> Plain:
    while not stop.wait(0.01):
        pass
    raise Stopped


def until(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


@pytest.fixture
def working(jobs: LocalJobs) -> Iterator[threading.Event]:
    """Somebody works the queue with `endless` jobs, until the event is set."""
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(jobs, endless), kwargs={"stop": stop})
    thread.start()
    yield stop
    stop.set()
    thread.join()


def states(jobs: LocalJobs, id: str) -> list[Plain]:
    return [event.data["state"] for event in jobs.events(id) if event.kind == "state"]


def test_a_job_is_done_and_all_of_it_is_kept(jobs: LocalJobs, tmp_path: Path, clock: Clock) -> None:
    job = jobs.submit("echo", {"text": "héllo \udcff", "list": [1, None, True]})
    assert (job.state, job.attempts, job.created) == ("queued", 0, clock.now)
    clock.now += 5
    work(jobs, echo, until_empty=True)
    jobs.close()
    with LocalJobs(tmp_path / "jobs.sqlite") as later:
        done = later.get(job.id)
        assert (done.state, done.attempts, done.error) == ("done", 1, None)
        assert done.result == done.arguments == job.arguments
        assert done.progress == {"done": 0.5}
        assert (done.started, done.ended) == (clock.now, clock.now)
        found = list(later.events(job.id))
        assert [event.number for event in found] == [1, 2, 3, 4]
        assert [event.kind for event in found] == ["state", "state", "progress", "state"]
        assert list(later.events(job.id, after=3)) == found[3:]


def test_ids_cannot_be_guessed(jobs: LocalJobs) -> None:
    ids = {jobs.submit("echo", {}).id for _ in range(50)}
    assert len(ids) == 50
    assert all(len(id) == 16 and id.isalnum() for id in ids)
    assert len({id[0] for id in ids}) > 5
    with pytest.raises(JobNotFoundError):
        jobs.get("a")


def test_jobs_are_done_in_their_order_so_many_at_once(jobs: LocalJobs) -> None:
    order, now, most, lock = [], 0, 0, threading.Lock()

    def run(job: Job, tell: Tell, stop: Stop) -> Plain:
        nonlocal now, most
        with lock:
            order.append(job.arguments["n"])
            now += 1
            most = max(most, now)
        time.sleep(0.02)
        with lock:
            now -= 1
        return None

    for n in range(9):
        jobs.submit("count", {"n": n})
    work(jobs, run, num_at_once=3, until_empty=True)
    assert sorted(map(str, order)) == list("012345678")
    assert order[0] in (0, 1, 2)
    assert most == 3
    assert {job.state for job in jobs.list()} == {"done"}


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (WorkError("no voice", hint="Name one."), "no voice", "Name one."),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", "-vv"),
    ],
)
def test_a_failure_keeps_its_words_and_the_rest_goes_on(
    jobs: LocalJobs, error: Exception, message: str, hint: str
) -> None:
    def run(job: Job, tell: Tell, stop: Stop) -> Plain:
        if job.kind == "bad":
            raise error
        return None

    bad, good = jobs.submit("bad", {}), jobs.submit("good", {})
    work(jobs, run, until_empty=True)
    failed = jobs.get(bad.id)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error.message == message
    assert hint in failed.error.hint
    assert jobs.get(good.id).state == "done"
    (*_, last) = jobs.events(bad.id)
    assert last.data["error"] == message
    # Tried again, it forgets why it failed.
    assert jobs.resume(bad.id).error is None
    work(jobs, echo, until_empty=True)
    assert (jobs.get(bad.id).state, jobs.get(bad.id).attempts) == ("done", 2)


def test_a_result_that_is_no_json_fails_the_job(jobs: LocalJobs) -> None:
    job = jobs.submit("bad", {})
    work(jobs, lambda job, tell, stop: {"n": float("nan")}, until_empty=True)
    error = jobs.get(job.id).error
    assert error is not None
    assert "JSON" in error.message


@pytest.mark.parametrize("arguments", [{"n": float("inf")}, {"x": b"y"}, {"t": "x" * (1 << 20)}])
def test_arguments_that_cannot_be_kept_are_refused(
    jobs: LocalJobs, arguments: dict[str, Plain]
) -> None:
    with pytest.raises(InvalidInputError):
        jobs.submit("echo", arguments)
    assert jobs.list() == ()


def test_pause_resume_and_cancel_reach_a_running_job(
    jobs: LocalJobs, working: threading.Event
) -> None:
    job = jobs.submit("long", {})
    until(lambda: jobs.get(job.id).state == "running")
    with pytest.raises(InvalidInputError, match="running"):
        jobs.delete(job.id)
    assert jobs.pause(job.id).asked == "pause"
    until(lambda: jobs.get(job.id).state == "paused")
    assert jobs.get(job.id).asked == ""
    jobs.resume(job.id)
    until(lambda: jobs.get(job.id).state == "running")
    assert jobs.cancel(job.id).asked == "cancel"
    assert jobs.pause(job.id).asked == "cancel"
    until(lambda: jobs.get(job.id).state == "cancelled")
    assert states(jobs, job.id) == [
        "queued", "running", "paused", "queued", "running", "cancelled"
    ]  # fmt: skip
    assert jobs.get(job.id).attempts == 2
    jobs.delete(job.id)
    with pytest.raises(JobNotFoundError):
        jobs.get(job.id)


def test_what_waits_is_paused_and_cancelled_at_once(jobs: LocalJobs) -> None:
    job = jobs.submit("long", {})
    assert jobs.pause(job.id).state == "paused"
    work(jobs, echo, until_empty=True)
    assert jobs.get(job.id).state == "paused"
    assert jobs.cancel(job.id).state == "cancelled"
    assert jobs.cancel(job.id).state == "cancelled"
    with pytest.raises(InvalidInputError):
        jobs.pause(job.id)
    assert jobs.resume(job.id).state == "queued"
    work(jobs, echo, until_empty=True)
    for change in (jobs.pause, jobs.resume, jobs.cancel):
        with pytest.raises(InvalidInputError):
            change(job.id)


def test_a_worker_that_is_told_to_stop_hands_its_job_back(
    jobs: LocalJobs, working: threading.Event
) -> None:
    job = jobs.submit("long", {})
    until(lambda: jobs.get(job.id).state == "running")
    working.set()
    until(lambda: jobs.get(job.id).state == "queued")
    work(jobs, echo, until_empty=True)
    assert jobs.get(job.id).state == "done"


def test_a_lease_that_is_not_renewed_runs_out(jobs: LocalJobs, clock: Clock) -> None:
    job = jobs.submit("long", {})
    first, second = Leases(jobs), Leases(jobs)
    taken = first.claim()
    assert taken is not None
    assert second.claim() is None
    clock.now += 10
    assert first.beat({job.id}) == {job.id}
    clock.now += 10
    assert jobs.get(job.id).state == "running"
    assert second.claim() is None
    clock.now += 6
    assert jobs.get(job.id).state == "queued"
    again = second.claim()
    assert again is not None
    assert again.attempts == 2
    # The first comes back to life: nothing that it says counts.
    assert first.beat({job.id}) == set()
    first.tell(job.id, "progress", {"done": 1})
    first.end(job.id, Outcome(result="first"))
    assert jobs.get(job.id).state == "running"
    assert jobs.get(job.id).progress is None
    second.end(job.id, Outcome(result="second"))
    assert jobs.get(job.id).result == "second"


def test_a_clock_that_was_set_back_keeps_no_job(jobs: LocalJobs, clock: Clock) -> None:
    jobs.submit("long", {})
    assert Leases(jobs).claim() is not None
    clock.now -= 86400
    assert Leases(jobs).claim() is not None


@pytest.mark.parametrize(
    ("ask", "state"), [(LocalJobs.cancel, "cancelled"), (LocalJobs.pause, "paused")]
)
def test_what_the_dead_were_asked_is_done(
    jobs: LocalJobs, clock: Clock, ask: Callable[[LocalJobs, str], Job], state: str
) -> None:
    job, later = jobs.submit("long", {}), jobs.submit("later", {})
    Leases(jobs).claim()
    assert ask(jobs, job.id).state == "running"
    clock.now += 60
    taken = Leases(jobs).claim()
    assert taken is not None
    assert taken.id == later.id
    assert jobs.get(job.id).state == state


def test_a_job_that_kills_its_workers_is_put_behind_and_given_up(
    jobs: LocalJobs, clock: Clock
) -> None:
    deadly, other = jobs.submit("deadly", {}), jobs.submit("other", {})
    for _ in range(4):
        taken = Leases(jobs).claim()
        assert taken is not None
        assert taken.id == deadly.id
        clock.now += 60
    leases = Leases(jobs)
    taken = leases.claim()
    assert taken is not None
    assert taken.id == other.id
    leases.end(other.id, Outcome())
    for _ in range(100):
        Leases(jobs).claim()
        clock.now += 60
    assert Leases(jobs).claim() is None
    error = jobs.get(deadly.id).error
    assert error is not None
    assert "died" in error.message


def test_progress_between_deaths_is_life(jobs: LocalJobs, clock: Clock) -> None:
    job = jobs.submit("long", {})
    for _ in range(150):
        leases = Leases(jobs)
        assert leases.claim() is not None
        leases.tell(job.id, "progress", {"done": 0.1})
        clock.now += 60
    assert jobs.get(job.id).state == "queued"


def test_a_frozen_worker_stops_by_itself(tmp_path: Path) -> None:
    """Its lease could not be renewed: the runner hears of it before another may begin."""
    stop = Stop(held_s=0.05)
    assert not stop.asked
    assert stop.wait(60)
    with pytest.raises(Stopped):
        stop.check()


def test_a_full_log_of_events_stays_bounded(tmp_path: Path) -> None:
    with LocalJobs(tmp_path / "jobs.sqlite", num_events=50) as jobs:
        job = jobs.submit("long", {})
        leases = Leases(jobs)
        leases.claim()
        leases.tell(job.id, "begin", {"title": "x"})
        for n in range(200):
            leases.tell(job.id, "progress", {"n": n})
        leases.tell(job.id, "note", {"text": "x" * MOST_EVENT_BYTES})
        leases.end(job.id, Outcome())
        found = list(jobs.events(job.id))
        assert len(found) == 50
        # What is not progress is kept; numbers only grow.
        kinds = [event.kind for event in found if event.kind != "progress"]
        assert kinds == ["state", "state", "begin", "note", "state"]
        assert all(a.number < b.number for a, b in itertools.pairwise(found))
        assert found[-1].number == 205
        assert "left_out" in found[-2].data
        assert jobs.get(job.id).progress == {"n": 199}


def test_progress_is_thinned_out_and_its_last_is_kept(jobs: LocalJobs) -> None:
    def run(job: Job, tell: Tell, stop: Stop) -> Plain:
        for n in range(2000):
            tell("progress", {"n": n})
        return None

    job = jobs.submit("quick", {})
    work(jobs, run, until_empty=True)
    told = [event for event in jobs.events(job.id) if event.kind == "progress"]
    assert len(told) < 200
    assert told[0].data == {"n": 0}
    assert jobs.get(job.id).progress == told[-1].data == {"n": 1999}


def test_jobs_that_are_over_are_forgotten_in_time(tmp_path: Path) -> None:
    with LocalJobs(tmp_path / "jobs.sqlite", num_ended=3) as jobs:
        kept = jobs.submit("waits", {})
        jobs.pause(kept.id)
        for _ in range(6):
            jobs.submit("quick", {})
            work(jobs, echo, until_empty=True)
        jobs.submit("quick", {})
        assert len(jobs.list()) == 5
        assert jobs.list()[0].id == kept.id
    with sqlite3.connect(tmp_path / "jobs.sqlite") as connection:
        ((count,),) = connection.execute("SELECT count(DISTINCT job) FROM events")
    connection.close()
    assert count == 5


def test_events_are_followed_until_the_end(jobs: LocalJobs, working: threading.Event) -> None:
    job = jobs.submit("long", {})
    found: list[Plain] = []

    def read() -> None:
        found.extend(event.data["state"] for event in jobs.events(job.id, follow=True))

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: "running" in found)
    jobs.cancel(job.id)
    reader.join(30)
    assert found == ["queued", "running", "cancelled"]


# -- trouble with the file -------------------------------------------------------------------------


def torn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def replaced(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 100)


def emptied(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE events")
    connection.close()


def garbled(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE jobs SET arguments = '{'")
    connection.close()


@pytest.mark.parametrize("harm", [torn, replaced, emptied, garbled])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    path = tmp_path / "jobs.sqlite"
    with LocalJobs(path) as jobs:
        jobs.submit("echo", {"x": "y" * 100})
    harm(path)
    before = path.read_bytes()
    with LocalJobs(path) as jobs:
        with pytest.raises(StorageError, match="damaged") as found:
            jobs.list()
        assert "Move it away" in found.value.hint
        with pytest.raises(StorageError):
            work(jobs, echo, until_empty=True)
    assert path.read_bytes() == before
    path.rename(tmp_path / "away")
    with LocalJobs(path) as jobs:
        assert jobs.list() == ()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StorageError, match="another program"):
        LocalJobs(path).list()
    newer = tmp_path / "newer.sqlite"
    with LocalJobs(newer) as jobs:
        jobs.list()
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StorageError, match="newer anyrig"):
        LocalJobs(newer).list()


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnyrigError, match="cannot use"):
        LocalJobs(tmp_path / "file" / "jobs.sqlite").list()


def test_a_file_that_was_moved_away_is_begun_anew(jobs: LocalJobs, tmp_path: Path) -> None:
    jobs.submit("echo", {})
    (tmp_path / "jobs.sqlite").rename(tmp_path / "away")
    assert jobs.list() == ()


def test_a_network_drive_has_no_log_beside_the_file(tmp_path: Path) -> None:
    with LocalJobs(tmp_path / "jobs.sqlite", wal=False) as jobs:
        jobs.submit("echo", {})
        work(jobs, echo, until_empty=True)
        assert not (tmp_path / "jobs.sqlite-wal").exists()
        assert jobs.list()[0].state == "done"
