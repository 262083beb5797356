"""Jobs over a cluster: kept here, done there; pause, resume and cancel reach the workers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig.app.cluster import ClusterJobQueue
from anyrig.app.jobs import build_arguments, make_job_handler
from anyrig.jobs import JobQueue, run_jobs
from anyrig.storage.keys import JsonValue
from tests.cluster.conftest import Broker, Workers, person, story, until


def test_what_can_be_spread_is_spread(tmp_path: Path) -> None:
    jobs: JobQueue = ClusterJobQueue(tmp_path / "jobs.sqlite")
    assert jobs.submit("book", {"file": "a"}).arguments["cluster"] == "yes"
    assert jobs.submit("batch", {"file": "a"}).arguments["cluster"] == "yes"
    assert jobs.submit("book", {"file": "a", "cluster": "no"}).arguments["cluster"] == "no"
    assert "cluster" not in jobs.submit("index", {"file": "a"}).arguments
    # `anyrig jobs` opens the same file, and sees all of them.
    with JobQueue(tmp_path / "jobs.sqlite") as same:
        assert [one.id for one in same.list()] == [one.id for one in jobs.list()]
    assert isinstance(jobs, ClusterJobQueue)
    jobs.close()


@pytest.fixture
def jobs(tmp_path: Path, broker: Broker) -> Iterator[ClusterJobQueue]:
    """Jobs that are worked on; the broker comes by the environment alone."""
    home = tmp_path / "owner"
    env = person(home, {"ANYRIG_CLUSTER_BROKER": broker.url})
    stop = threading.Event()
    found = ClusterJobQueue(tmp_path / "jobs.sqlite")
    with found:
        thread = threading.Thread(
            target=run_jobs, args=(found, make_job_handler(env)), kwargs={"stop": stop}, daemon=True
        )
        thread.start()
        yield found
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.slow
def test_pause_and_resume_reach_the_workers(
    jobs: ClusterJobQueue, broker: Broker, workers: Workers, tmp_path: Path
) -> None:
    """Cancelling is looked at over HTTP, in tests/server."""
    workers(1)
    file, num = tmp_path / "story.txt", 24
    file.write_text(story(1, num))
    asked: dict[str, JsonValue] = {
        "file": str(file), "output": str(tmp_path / "out.m4b"), "engine": "tone",
        "set": {"sleep_s": 0.004}, "device": "cpu", "no_bench": True,
    }  # fmt: skip
    id = jobs.submit("book", build_arguments("book", asked, tmp_path)).id

    def at_work() -> bool:
        return bool(broker.living()["w1"].tasks)

    def state() -> str:
        job = jobs.get(id)
        assert job.error is None, job.error
        return job.state

    until(at_work, 60, what="a shard at the worker")
    jobs.pause(id)
    until(lambda: state() == "paused", what="the pause")
    until(lambda: not at_work(), 20, what="the worker to be free")
    made = broker.living()["w1"].segments_done
    assert made < num  # it was in the middle

    jobs.resume(id)
    until(lambda: state() == "done", 90, what="the book")
    assert (tmp_path / "out.m4b").stat().st_size > 1000
    assert jobs.get(id).attempts == 2
