"""What the log of a server holds of errors: their kind and their way, not the words they quote."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import StorageError
from anyrig.jobs import Job, JobQueue, run_jobs
from anyrig.server.log import JsonFormatter, configure_log

SECRET = "Dear Anna, the key is under the stone."
Said = Callable[[], str]


@pytest.fixture
def configured() -> Iterator[Callable[..., Said]]:
    """Sets a server's log up on a stream of the test's own, and takes it away again."""
    root, streams = logging.getLogger(), []
    before, level = list(root.handlers), root.level

    def configure(**options: Any) -> Said:
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        if options.get("as_json"):
            handler.setFormatter(JsonFormatter())
        root.handlers[:] = [handler]
        streams.append(handler)
        configure_log(as_json=False, verbose=2, texts=bool(options.get("texts")))
        return stream.getvalue

    yield configure
    root.handlers[:] = before
    root.setLevel(level)


def fails() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        raise KeyError(f"{SECRET} again") from error


def logged(log: logging.Logger) -> None:
    try:
        fails()
    except KeyError as error:
        log.exception("something went wrong")
        log.exception(error)  # as the page's framework has it
        log.warning("it is not kept: %s", error)
        log.error("of %s", {"file": "a.txt"}, exc_info=error)


@pytest.mark.parametrize("as_json", [False, True])
def test_errors_are_told_without_their_words(
    configured: Callable[..., Said], as_json: bool
) -> None:
    said = configured(as_json=as_json)
    logged(logging.getLogger("anyrig.server.somewhere"))
    text = said()
    assert "Anna" not in text
    assert "stone" not in text
    for kept in ("something went wrong", "KeyError", "ValueError", "in fails", "a.txt",
                 "server.log_texts"):  # fmt: skip
        assert kept in text
    if as_json:
        lines = [json.loads(line) for line in text.splitlines()]
        assert len(lines) == 4
        assert "in fails" in lines[0]["trace"]


@pytest.mark.parametrize("as_json", [False, True])
def test_their_words_are_told_where_the_owner_wants_them(
    configured: Callable[..., Said], as_json: bool
) -> None:
    said = configured(as_json=as_json, texts=True)
    logged(logging.getLogger("anyrig.server.somewhere"))
    assert said().count("Dear Anna") >= 4


def test_what_our_own_errors_and_the_disk_say_stays(configured: Callable[..., Said]) -> None:
    said = configured()
    log = logging.getLogger("anyrig.server.somewhere")
    log.warning("rests: %s", StorageError("the disk is full", hint="Free some space."))
    log.warning("rests: %s", OSError(28, "No space left on device"))
    log.warning("%d of %d", 3, 4)
    assert "the disk is full" in said()
    assert "No space left" in said()
    assert "3 of 4" in said()


def test_a_job_that_fails_tells_its_owner_and_not_the_log(
    configured: Callable[..., Said], tmp_path: Path
) -> None:
    said = configured()

    def run(job: Job, tell: Any, stop: Any) -> None:
        raise ValueError(SECRET)

    with JobQueue(tmp_path / "jobs.sqlite") as jobs:
        job = jobs.submit("book", {})
        run_jobs(jobs, run, until_empty=True)
        error = jobs.get(job.id).error
    assert error is not None
    assert SECRET in error.message
    assert f"job {job.id} failed" in said()
    assert "ValueError" in said()
    assert "Anna" not in said()


def test_what_the_loop_says_of_tasks_that_nobody_awaits(configured: Callable[..., Said]) -> None:
    said = configured()

    async def lost() -> None:
        async def wrong() -> None:
            raise ValueError(SECRET)

        task = asyncio.ensure_future(wrong())
        await asyncio.sleep(0)
        del task
        import gc

        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(lost())
    assert "never retrieved" in said()
    assert "Anna" not in said()
