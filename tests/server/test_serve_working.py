"""Around the queue: folders that are swept, and many who follow one job."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from anyrig.app.access import Client
from anyrig.jobs import JobEvent, JobQueue
from anyrig.server.job_requests import prepare_job
from anyrig.server.jobs import JobFollower, delete_orphaned_folders
from anyrig.server.state import ServerState
from tests.server.conftest import MakeApp


def test_folders_of_forgotten_jobs_are_swept(make_app: MakeApp) -> None:
    state: ServerState = make_app().state.server
    lines = {"lines": ["One."], "engine": "tone"}
    with prepare_job(state, Client(sees_all=True), "batch", lines) as found:
        job = state.jobs.submit("batch", found)
    (orphan := state.data_folder / "jobs" / "0123").mkdir()
    long_ago = time.time() - 7200
    for folder in (state.data_folder / "jobs").iterdir():
        os.utime(folder, (long_ago, long_ago))
    (fresh := state.data_folder / "jobs" / "4567").mkdir()  # of a request that is being looked at
    assert delete_orphaned_folders(state) == [orphan]
    assert Path(str(job.arguments["folder"])).is_dir()
    state.jobs.delete(job.id)
    assert len(delete_orphaned_folders(state)) == 1
    assert list((state.data_folder / "jobs").iterdir()) == [fresh]


class Counting(JobQueue):
    num_asked = 0

    def events(self, id: str, after: int = 0, *, follow: bool = False) -> Any:
        self.num_asked += 1
        return super().events(id, after, follow=follow)


def test_many_who_follow_are_served_by_one_reader(tmp_path: Path) -> None:
    async def follow(following: JobFollower, id: str, after: int) -> list[JobEvent | None]:
        return [event async for event in following.follow(id, after, heartbeat_s=0.2)]

    async def all_of_them() -> list[list[JobEvent | None]]:
        following = JobFollower(jobs, poll_s=0.05)
        those = [asyncio.create_task(follow(following, job.id, n % 2)) for n in range(200)]
        await asyncio.sleep(1.0)
        jobs.cancel(job.id)
        return await asyncio.gather(*those)

    jobs = Counting(tmp_path / "jobs.sqlite")
    with jobs:
        job = jobs.submit("bench", {})
        heard = asyncio.run(all_of_them())
        assert jobs.num_asked < 100  # a reader for each would have asked thousands of times
    for n, events in enumerate(heard):
        told = [event.data["state"] for event in events if event is not None]
        assert told == ["queued", "cancelled"][n % 2 :]
        assert None in events  # beats, while nothing happened


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
        heard = asyncio.run(asyncio.wait_for(follow(), 20))
    assert [event.data["state"] for event in heard if event] == ["queued", "cancelled"]
    assert jobs.num_failed == 3
    assert caplog.text.count("jobs cannot be followed: ValueError") == 1
    assert "a secret" not in caplog.text
