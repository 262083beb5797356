"""Around the queue: folders that are allowed, folders that are swept, many who follow one job."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.access import Client
from anyrig.errors import InvalidInputError
from anyrig.jobs import JobEvent, JobQueue
from anyrig.server.job_requests import prepare_job
from anyrig.server.jobs import JobFollower, delete_expired, run_queue
from anyrig.server.state import ServerState
from tests.server.conftest import MakeApp

ANYBODY = Client(sees_all=True)


def parts_of(make_app: MakeApp, **environment: str) -> ServerState:
    found: ServerState = make_app(environment=environment).state.server
    return found


def test_folders_are_named_only_where_their_owner_allows(make_app: MakeApp, tmp_path: Path) -> None:
    inside, outside = tmp_path / "allowed", tmp_path / "allowed too much"
    for folder in (inside / "notes", outside):
        folder.mkdir(parents=True)
    (inside / "way out").symlink_to(outside)
    state = parts_of(make_app, ANYRIG_SERVER_FOLDERS=f"/nowhere, {inside}")
    with prepare_job(state, ANYBODY, "index", {"folder": str(inside / "notes")}) as found:
        assert found["file"] == str(inside / "notes")
        assert found["called"] == "notes"
    for wrong in (
        outside, inside / "way out", inside / ".." / "allowed too much", "notes", "/", 5,
        inside / "notes" / ".." / "..",
    ):  # fmt: skip
        given: Any = wrong if isinstance(wrong, int) else str(wrong)
        with pytest.raises(InvalidInputError, match="may not be named"), prepare_job(
            state, ANYBODY, "index", {"folder": given}
        ):  # fmt: skip
            pass
    assert len(list((state.data_folder / "jobs").iterdir())) == 1  # refused ones leave nothing


def test_models_are_named_only_where_their_owner_allows(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    state = parts_of(make_app, ANYRIG_SERVER_MODELS=str(tmp_path / "models"))
    lines = {"lines": ["One."], "engine": "tone"}
    mine = str(tmp_path / "models" / "mine")
    with prepare_job(state, ANYBODY, "batch", {**lines, "model": mine}) as found:
        assert found["model"] == mine
    with (
        pytest.raises(InvalidInputError),
        prepare_job(state, ANYBODY, "batch", {**lines, "model": str(tmp_path)}),
    ):
        pass


def test_folders_of_forgotten_jobs_are_swept(make_app: MakeApp) -> None:
    state = parts_of(make_app)
    with prepare_job(state, ANYBODY, "batch", {"lines": ["One."], "engine": "tone"}) as found:
        job = state.jobs.submit("batch", found)
    (orphan := state.data_folder / "jobs" / "0123").mkdir()
    long_ago = time.time() - 7200
    for folder in (state.data_folder / "jobs").iterdir():
        os.utime(folder, (long_ago, long_ago))
    (fresh := state.data_folder / "jobs" / "4567").mkdir()  # of a request that is being looked at
    delete_expired(state)
    assert not orphan.exists()
    assert Path(str(job.arguments["folder"])).is_dir()
    state.jobs.delete(job.id)
    delete_expired(state)
    assert list((state.data_folder / "jobs").iterdir()) == [fresh]


def test_the_queue_is_worked_within_the_block_and_handed_back_at_its_end(
    make_app: MakeApp,
) -> None:
    state = parts_of(make_app)
    begun, told = threading.Event(), threading.Event()

    def run(job: Any, tell: Any, stop: Any) -> None:
        from anyrig.jobs import JobStopped

        begun.set()
        while not stop.wait(0.05):
            pass
        told.set()
        raise JobStopped

    state.job_handler = run
    job = state.jobs.submit("bench", {"folder": "/"})
    with run_queue(state):
        assert begun.wait(60)
        assert state.jobs.get(job.id).state == "running"
    assert told.is_set()
    assert state.jobs.get(job.id).state == "queued"
    state.job_handler = None
    with run_queue(state):
        assert state.jobs.get(job.id).attempts == 1


class Counting(JobQueue):
    """Counts how often it is asked."""

    num_asked = 0

    def events(self, id: str, after: int = 0, *, follow: bool = False) -> Any:
        self.num_asked += 1
        return super().events(id, after, follow=follow)


def test_many_who_follow_are_served_by_one_reader(tmp_path: Path) -> None:
    heard: list[list[JobEvent | None]] = [[] for _ in range(200)]

    async def follow(following: JobFollower, id: str, number: int) -> None:
        async for event in following.follow(id, number % 2, heartbeat_s=0.2):
            heard[number].append(event)

    async def all_of_them() -> float:
        following, began = JobFollower(jobs, poll_s=0.05), time.monotonic()
        those = [asyncio.create_task(follow(following, job.id, n)) for n in range(len(heard))]
        while not all(None in events for events in heard):  # beats, while nothing happened
            await asyncio.sleep(0.05)
        jobs.cancel(job.id)
        await asyncio.gather(*those)
        return time.monotonic() - began

    jobs = Counting(tmp_path / "jobs.sqlite")
    with jobs:
        job = jobs.submit("bench", {})
        lasted_s = asyncio.run(all_of_them())
        # A reader for each would have asked 200 times as often.
        assert jobs.num_asked <= 10 + 2 * lasted_s / 0.05
    for n, events in enumerate(heard):
        told = [event.data["state"] for event in events if event is not None]
        assert told == ["queued", "cancelled"][n % 2 :]


class Stumbling(JobQueue):
    """Fails in a way that nobody foresaw, for a while."""

    num_failed = 0
    said = "a secret of the user"  # not where a traceback quotes it

    def events(self, id: str, after: int = 0, *, follow: bool = False) -> Any:
        if self.num_failed < 3:
            self.num_failed += 1
            raise ValueError(self.said)
        return super().events(id, after, follow=follow)


def test_who_follows_hears_again_after_any_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def follow() -> list[JobEvent | None]:
        following = JobFollower(jobs, poll_s=0.05)
        events = following.follow(job.id, heartbeat_s=60)
        return [event async for event in events]

    jobs = Stumbling(tmp_path / "jobs.sqlite")
    with jobs:
        job = jobs.submit("bench", {})
        jobs.cancel(job.id)
        heard = asyncio.run(asyncio.wait_for(follow(), 60))
    assert [event.data["state"] for event in heard if event] == ["queued", "cancelled"]
    assert jobs.num_failed == 3
    assert caplog.text.count("jobs cannot be followed: ValueError") == 1
    assert "a secret" not in caplog.text
