"""Real processes on one file: each job by one at a time, and none is lost with its worker."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anyrig.jobs import LocalJobs, owner

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its locks are others")
HANDS = Path(__file__).with_name("hands.py")


def hands(path: Path, folder: Path, lease_s: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(HANDS), str(path), str(folder), str(lease_s)])


def finished(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def test_several_processes_share_a_queue(tmp_path: Path) -> None:
    with LocalJobs(tmp_path / "jobs.sqlite") as jobs:
        ids = [jobs.submit("step", {"steps": 3}).id for _ in range(24)]
        crew = [hands(tmp_path / "jobs.sqlite", tmp_path, 15) for _ in range(3)]
        assert [one.wait(60) for one in crew] == [0, 0, 0]
        assert {(job.state, job.attempts) for job in jobs.list()} == {("done", 1)}
        assert len({str(job.result) for job in jobs.list()}) > 1
    assert sorted(finished(tmp_path)) == sorted(ids)
    assert not (tmp_path / "twice").exists()


def test_killed_workers_lose_nothing(tmp_path: Path) -> None:
    """Workers are killed at random and replaced; every job is done, by one at a time."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    with LocalJobs(tmp_path / "jobs.sqlite") as jobs:
        ids = [jobs.submit("step", {"steps": 20}).id for _ in range(16)]
        crew = [hands(tmp_path / "jobs.sqlite", tmp_path, 15) for _ in range(2)]
        for _ in range(6):
            time.sleep(chance.uniform(0.2, 0.8))
            victim = crew.pop(chance.randrange(len(crew)))
            victim.kill()
            victim.wait()
            crew.append(hands(tmp_path / "jobs.sqlite", tmp_path, 15))
        assert [one.wait(60) for one in crew] == [0, 0], seed
        assert {job.state for job in jobs.list()} == {"done"}, seed
    assert set(finished(tmp_path)) == set(ids), seed
    assert not (tmp_path / "twice").exists(), seed


def test_a_frozen_worker_loses_its_job_and_does_not_finish_it(tmp_path: Path) -> None:
    with LocalJobs(tmp_path / "jobs.sqlite", lease_s=1.0) as jobs:
        job = jobs.submit("step", {"steps": 150})
        first = hands(tmp_path / "jobs.sqlite", tmp_path, 1.0)
        while jobs.get(job.id).progress is None:
            time.sleep(0.02)
        first.send_signal(signal.SIGSTOP)
        second = hands(tmp_path / "jobs.sqlite", tmp_path, 1.0)
        while jobs.get(job.id).attempts < 2:
            time.sleep(0.02)
        first.send_signal(signal.SIGCONT)
        assert (first.wait(60), second.wait(60)) == (0, 0)
        done = jobs.get(job.id)
        assert (done.state, done.attempts) == ("done", 2)
        assert done.result == {"pid": second.pid}
    assert finished(tmp_path) == [job.id]


@pytest.mark.skipif(sys.platform != "linux", reason="only the lease tells there")
def test_the_dead_are_known_at_once(tmp_path: Path) -> None:
    said = [sys.executable, "-c", "from anyrig.jobs import owner; print(owner.mine())"]
    name = subprocess.run(said, capture_output=True, text=True, check=True).stdout.strip()
    assert owner.dead(name)
    mine = owner.mine()
    assert not owner.dead(mine)
    here, pid, began, token = mine.split("/")
    assert owner.dead(f"{here}/{pid}/1/{token}")  # the same number, given anew
    assert not owner.dead(f"elsewhere/1/1/{token}")
    assert not owner.dead("")
