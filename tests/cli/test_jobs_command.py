"""`anyrig jobs` as a person meets it, with real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyrig import Rig
from anyrig.jobs import Job, JobFailure, JobQueue
from anyrig.jobs.queue import JobOutcome
from tests.conftest import Anyrig
from tests.waiting import wait_until

STORY = "CHAPTER I\n\n" + "\n\n".join(
    f"Mr. Hale opened the shop on day {n} and closed it again." for n in range(12)
)
TONE = ("--engine", "tone", "--device", "cpu")
SLOW = (*TONE, "--set", "sleep_s=0.02")


@pytest.fixture(autouse=True)
def story() -> Path:
    path = Path("story.txt")
    path.write_text(STORY, encoding="utf-8")
    return path


def jobs(anyrig: Anyrig, *words: str, code: int = 0) -> Any:
    done = anyrig("jobs", *words, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else None


def queued(anyrig: Anyrig, *flags: str) -> str:
    done = anyrig("book", "story.txt", "--queue", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["id"])


def started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "anyrig", "jobs", "run"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def until(id: str, true: Callable[[Job], bool]) -> None:
    path = Path(os.environ["XDG_DATA_HOME"]) / "anyrig" / "jobs.sqlite"
    with JobQueue(path) as found:
        wait_until(lambda: true(found.get(id)))


def half_way(job: Job) -> bool:
    done = job.progress["done"] if job.progress else 0.0
    return isinstance(done, float) and done > 0.1 and job.state == "running"


def test_a_book_is_queued_shown_made_and_forgotten(anyrig: Anyrig) -> None:
    assert "no jobs" in anyrig("jobs").stdout
    assert jobs(anyrig) == []
    id = queued(anyrig, *TONE)
    assert not Path("story.m4b").exists()
    listed = anyrig("jobs").stdout
    assert id in listed
    assert "story.txt" in listed
    done = anyrig("jobs", "run")
    assert done.returncode == 0, done.stderr
    assert f"made {Path('story.m4b').absolute()}" in done.stdout
    assert "begun" in done.stderr
    shown = anyrig("jobs", "show", id[:5])
    assert "done" in shown.stdout
    assert "story.m4b" in shown.stdout
    followed = anyrig("jobs", "follow", id, "--json")
    events = [json.loads(line) for line in followed.stdout.splitlines()]
    assert [event["number"] for event in events] == sorted({event["number"] for event in events})
    assert events[-1]["data"]["state"] == "done"
    assert anyrig("jobs", "run").stdout == "Nothing is queued.\n"
    assert jobs(anyrig, "delete", id)[0]["deleted"] is True
    assert jobs(anyrig) == []


def test_a_killed_worker_leaves_its_book_to_the_next(anyrig: Anyrig) -> None:
    id = queued(anyrig, *SLOW)
    worker = started()
    until(id, half_way)
    children = _children(worker.pid)
    assert children
    worker.kill()
    worker.wait()
    for child in children:  # what it started ends with it
        while _alive(child):
            time.sleep(0.02)
    assert not Path("story.m4b").exists()
    assert jobs(anyrig, "show", id)["state"] == "queued"
    done = anyrig("jobs", "run")
    assert done.returncode == 0, done.stderr
    job = jobs(anyrig, "show", id)
    assert (job["state"], job["attempts"]) == ("done", 2)
    assert job["result"]["cached"] > 0
    assert Path("story.m4b").exists()


def test_a_terminated_worker_says_that_its_book_is_queued_again(anyrig: Anyrig) -> None:
    id = queued(anyrig, *SLOW)
    worker = subprocess.Popen(
        [sys.executable, "-m", "anyrig", "jobs", "run"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(id, half_way)
    worker.terminate()
    _, told = worker.communicate(timeout=60)
    assert worker.returncode == 128 + signal.SIGTERM
    assert "Queued again; `anyrig jobs run` continues" in told
    assert jobs(anyrig, "show", id)["state"] == "queued"


def test_a_running_book_is_paused_resumed_and_cancelled(anyrig: Anyrig) -> None:
    # Long enough that something is left to do after the pause, whatever commands take.
    long = "\n\n".join(f"Mr. Hale opened on day {n}, and closed." for n in range(60))
    Path("story.txt").write_text(f"CHAPTER I\n\n{long}", encoding="utf-8")
    id = queued(anyrig, *SLOW)
    worker = started()
    until(id, half_way)
    jobs(anyrig, "pause", id)
    until(id, lambda job: job.state == "paused")
    assert worker.wait(60) == 0  # nothing is left to do
    jobs(anyrig, "resume", id)
    worker = started()
    until(id, half_way)
    cancelled = anyrig("jobs", "cancel", id, "--json")
    assert worker.wait(60) == 0
    if "the job is done" in cancelled.stderr:  # a fast machine was quicker than the command
        assert {path.name for path in Path().iterdir()} == {"story.txt", "story.m4b"}
        return
    assert cancelled.returncode == 0
    until(id, lambda job: job.state == "cancelled")
    # Most of it was kept by then: the book may have been whole the moment before.
    assert {path.name for path in Path().iterdir()} <= {"story.txt", "story.m4b"}
    assert anyrig("jobs", "follow", id).returncode == 1


def test_a_failed_book_says_why_and_what_to_do(anyrig: Anyrig) -> None:
    id = queued(anyrig, *TONE, "--chapters", "9")
    done = anyrig("jobs", "run")
    assert done.returncode == 1
    shown = anyrig("jobs", "show", id).stdout
    assert "error: " in shown
    assert "hint: " in shown
    assert jobs(anyrig, "show", id)["error"]["hint"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("frobnicate",), "Valid actions: list"),
        (("shw",), "Did you mean `anyrig jobs show`"),
        (("show",), "needs an id"),
        (("run", "abc"), "takes no id"),
        (("show", "nothing"), "job nothing not found"),
        (("run", "--at-once", "0"), "--at-once 0"),
    ],
)
def test_slips_are_told(anyrig: Anyrig, words: tuple[str, ...], said: str) -> None:
    done = anyrig("jobs", *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_only_what_can_be_made_is_queued(anyrig: Anyrig) -> None:
    for flags in (("--list",), ("--sample", "5s"), ("--format", "ogg"), ("--captions", "txt")):
        done = anyrig("book", "story.txt", "--queue", *flags)
        assert done.returncode == 2, done.stdout
    assert anyrig("book", "no.txt", "--queue").returncode == 2
    assert jobs(anyrig) == []


def test_a_damaged_list_is_one_error(anyrig: Anyrig) -> None:
    path = Path(os.environ["XDG_DATA_HOME"]) / "anyrig" / "jobs.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database " * 500)
    for words in ((), ("run",), ("show", "abcd")):
        done = anyrig("jobs", *words)
        assert done.returncode == 1
        assert "is damaged" in done.stderr
        assert "Traceback" not in done.stderr


def _children(pid: int) -> list[int]:
    text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    direct = [int(word) for word in text.split()]
    return direct + [one for child in direct for one in _children(child)]


def _alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def test_titles_of_others_cannot_forge_or_turn_a_line(anyrig: Anyrig) -> None:
    title = "a\r\nk3vq2mzx7a4hn5we: done\u202egpj.\x1b[2J\u2067\u2028.epub"
    with Rig().jobs.open() as queue:
        id = queue.submit("book", {"folder": "/", "called": title, "voice": title}).id
        queue.claim("worker")
        queue.report_event("worker", id, "progress", {"done": 0.5, "title": title})
        failed = JobFailure(f"{title} is not a valid EPUB", title)
        queue.finish("worker", id, JobOutcome({"files": [title], "warnings": [title]}, failed))
    for words, num_lines in ((("list",), 2), (("show", id), None), (("follow", id), None)):
        shown = anyrig("jobs", *words).stdout
        assert not set("\r\x1b\u202e\u2067\u2028") & set(shown), words
        assert "a\\u000d\\u000ak3vq" in shown
        assert "\\u202egpj" in shown
        assert num_lines is None or len(shown.splitlines()) == num_lines
    assert jobs(anyrig)[0]["arguments"]["called"] == title
