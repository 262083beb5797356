"""A book as a job: the same command in a process of its own, on a leash."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from anyrig.backends.process import kill_process_group, start_module
from anyrig.errors import InvalidInputError, WorkError
from anyrig.jobs import Job, JobQueue, JobStopped, StopSignal, run_jobs
from anyrig.services.jobs import check, runner
from anyrig.storage.keys import JsonValue

STORY = "CHAPTER I\n\nIt was ten past nine.\n\nCHAPTER II\n\nThe tide came in at noon.\n"


def job_of(arguments: dict[str, JsonValue]) -> Job:
    asked = {"file": "story.txt", "engine": "tone", "device": "cpu", **arguments}
    return Job("x", "book", check("book", asked, Path.cwd()), "running", 0.0)


def silent(kind: str, data: Mapping[str, JsonValue]) -> None:
    pass


@pytest.fixture(autouse=True)
def story() -> Path:
    path = Path("story.txt")
    path.write_text(STORY, encoding="utf-8")
    return path


def test_a_book_is_made(tmp_path: Path) -> None:
    with JobQueue(tmp_path / "jobs.sqlite") as jobs:
        job = jobs.submit("book", job_of({"captions": ["srt"]}).arguments)
        run_jobs(jobs, runner(os.environ), until_empty=True)
        done = jobs.get(job.id)
        assert done.error is None
        assert isinstance(done.result, Mapping)
        assert done.result["files"] == [str(Path("story.m4b").absolute())]
        assert done.result["beside"] == [str(Path("story.srt").absolute())]
        assert Path("story.m4b").stat().st_size > 1000
        assert "segments" not in done.result
        kinds = [event.kind for event in jobs.events(job.id)]
        assert kinds[:3] == ["state", "state", "begin"]
        assert "progress" in kinds
        assert done.progress is not None
        assert done.progress["num_chapters"] == 2


def test_a_failure_has_the_commands_own_words() -> None:
    with pytest.raises(WorkError, match="unknown engine 'nope'") as found:
        runner(os.environ)(job_of({"engine": "nope"}), silent, StopSignal())
    assert "tone" in found.value.hint
    assert "hint:" not in found.value.message


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    job = Job("x", "book", {**job_of({}).arguments, "folder": str(tmp_path / "no")}, "running", 0.0)
    with pytest.raises(InvalidInputError, match="not there any more"):
        runner(os.environ)(job, silent, StopSignal())


@pytest.mark.parametrize("end", [StopSignal.set, lambda stop: stop.extend_lease(time.monotonic())])
def test_a_running_book_stops(end: Callable[[StopSignal], None]) -> None:
    """When it is asked to, and when it may have passed to another."""
    stop, told = StopSignal(), threading.Event()

    def tell(kind: str, data: Mapping[str, JsonValue]) -> None:
        if kind == "progress" and not told.is_set():
            told.set()
            end(stop)

    with pytest.raises(JobStopped):
        runner(os.environ)(job_of({"set": {"sleep_s": 0.5}}), tell, stop)
    assert told.is_set()
    assert sorted(path.name for path in Path().iterdir()) == ["story.txt"]


@pytest.mark.parametrize("said", [None, b"0.2\n", b"60\n0.2\n"])
def test_the_leash_ends_a_process(said: bytes | None) -> None:
    """The starter is gone, or its time is over; the command itself would take minutes."""
    Path("long.txt").write_text(STORY * 50, encoding="utf-8")
    words = ["book", "long.txt", "--engine", "tone", "--set", "sleep_s=1", "--device", "cpu"]
    process = start_module("anyrig.services.leash", os.environ, args=words)
    assert process.stdin is not None
    if said is None:
        process.stdin.close()
    else:
        process.stdin.write(said)
        process.stdin.flush()
    try:
        assert process.wait(60) != 0
    finally:
        kill_process_group(process)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def test_a_warning_is_told_as_it_happens(tmp_path: Path) -> None:
    """And is no result, though it may be the last thing that is said."""
    (tmp_path / "file").write_text("no folder: nothing can be kept there")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
    told: list[tuple[str, Mapping[str, JsonValue]]] = []
    result = runner(environment)(
        job_of({}), lambda kind, data: told.append((kind, data)), StopSignal()
    )
    assert isinstance(result, Mapping)
    assert result["files"] == [str(Path("story.m4b").absolute())]
    logs = [data["text"] for kind, data in told if kind == "log"]
    assert any("kept beside the book" in str(text) for text in logs)
    assert set(logs) <= set(result["warnings"])  # type: ignore[arg-type]
