"""Errors as problems: the class names the status, the hint goes along, nothing else leaks."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import WebSocket
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from anyrig import errors
from anyrig.app.uploads import UploadNotFoundError
from anyrig.errors import StorageError
from anyrig.jobs import Job, JobNotFoundError, JobQueue, run_jobs
from anyrig.server.errors import (
    Problem,
    error_event,
    error_response,
    error_status,
)
from anyrig.server.log import JsonFormatter, configure_log
from tests.server.conftest import HERE, MakeApp

SECRET = "secretwords"  # a traceback quotes lines of code, so they must not hold it


STATUSES = [
    (errors.InvalidInputError, 400),
    (errors.UnspeakableTextError, 400),
    (errors.UnsupportedLanguageError, 400),
    (errors.MissingVoiceError, 400),
    (errors.ProtectedFileError, 400),
    (errors.DeviceNotFoundError, 404),
    (JobNotFoundError, 404),
    (UploadNotFoundError, 404),
    (errors.LimitExceededError, 413),
    (errors.OverloadedError, 429),
    (errors.MissingPackageError, 501),
    (errors.MissingWeightsError, 501),
    (errors.OutOfMemoryError, 503),
    (errors.DeviceLostError, 503),
    (errors.StorageError, 507),
    (errors.StorageBusyError, 503),
    (errors.WorkError, 500),
    (errors.PoisonItemError, 422),
    (errors.WorkersLostError, 503),
]  # fmt: skip


def test_the_nearest_class_names_the_status(subtests: pytest.Subtests) -> None:
    for kind, status in STATUSES:
        with subtests.test(kind=kind, status=status):
            error = kind("went wrong", hint="do this")
            assert error_status(error) == status
            answer = error_response(error)
            assert answer.status_code == status
            assert ("retry-after" in answer.headers) == (status in (429, 503))
            body = error_event(error)
            assert body["type"] == "about:blank"
            hint = "GET /jobs lists them." if kind is JobNotFoundError else "do this"
            assert (body["title"], body["status"], body["hint"]) == ("went wrong", status, hint)
            assert body["error"]["message"] == f"went wrong. {hint}"


def test_a_problem_has_its_own_headers_and_members() -> None:
    answer = error_response(
        Problem(429, "slow", hint="wait", headers={"Retry-After": "7"}, limit=3)
    )
    assert answer.headers["retry-after"] == "7"
    assert b'"limit":3' in bytes(answer.body)
    assert (
        error_response(Problem(401, "who", hint="a key"))
        .headers["www-authenticate"]
        .startswith("Bearer")
    )


def test_half_a_character_in_an_error_is_no_second_error() -> None:
    answer = error_response(errors.InvalidInputError("no voice \ud800", hint="\udfff"))
    assert answer.status_code == 400
    assert bytes(answer.body).decode()


@pytest.fixture
def broken(make_app: MakeApp) -> TestClient:
    app = make_app()

    @app.post("/breaks")
    async def _breaks(body: dict[str, Any]) -> None:
        raise RuntimeError(f"cannot read {body['text']}")

    @app.post("/fails")
    async def _fails(body: dict[str, Any]) -> None:
        raise errors.WorkError(f"cannot say {body['text']}", hint="Say less.")

    @app.get("/halfway")
    async def _halfway() -> StreamingResponse:
        def pieces() -> Any:
            yield b"one"
            raise RuntimeError(SECRET)

        return StreamingResponse(pieces())

    @app.websocket("/stream2")
    async def _socket(socket: WebSocket) -> None:
        await socket.accept()
        raise RuntimeError(SECRET)

    return TestClient(app, base_url=HERE, raise_server_exceptions=False)


def test_what_was_not_foreseen_is_told_to_nobody_and_texts_stay_out_of_the_log(
    broken: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        answer = broken.post("/breaks", json={"text": "secretwords"})
        assert answer.status_code == 500
        assert "secretwords" not in answer.text
        assert broken.post("/fails", json={"text": "secretwords"}).status_code == 500
    ours = [one for one in caplog.records if one.name.startswith("anyrig")]
    said = "\n".join(one.getMessage() + str(one.exc_info) for one in ours)
    assert "RuntimeError" in said
    assert "_breaks" in said  # where it came from
    assert "WorkError" in said
    assert "secretwords" not in said


def test_texts_are_logged_where_that_was_asked_for(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(environment={"ANYRIG_SERVER_LOG_TEXTS": "true"})

    @app.get("/breaks")
    async def _breaks() -> None:
        raise RuntimeError(SECRET)

    client = TestClient(app, base_url=HERE, raise_server_exceptions=False)
    assert client.get("/breaks").status_code == 500
    assert "secretwords" in caplog.text


def test_an_answer_that_breaks_off_and_a_socket_that_fails_take_nobody_along(
    broken: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert broken.get("/halfway").content == b"one"
    host = {"host": "127.0.0.1:3000"}
    with broken.websocket_connect("/stream2", headers=host) as socket:
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_text()
        assert closed.value.code == 1011
    assert broken.get("/health/live").status_code == 200
    ours = [one.getMessage() for one in caplog.records if one.name.startswith("anyrig")]
    assert [place for place in ("in pieces", "in _socket") if place not in str(ours)] == []
    assert "secretwords" not in str(ours)


def test_fields_that_do_not_fit_are_named_and_not_quoted(broken: TestClient) -> None:
    answer = broken.post("/v1/embeddings", json={"input": {"secretwords": 1}, "dimensions": "x"})
    assert answer.status_code == 422
    told = answer.json()
    assert any("dimensions" in one["where"] for one in told["errors"])
    assert "'secretwords'" not in answer.text
    assert all(one["message"] for one in told["errors"])


WORDS = "Dear Anna, the key is under the stone."
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
        raise ValueError(WORDS)
    except ValueError as error:
        raise KeyError(f"{WORDS} again") from error


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
        raise ValueError(WORDS)

    with JobQueue(tmp_path / "jobs.sqlite") as jobs:
        job = jobs.submit("book", {})
        run_jobs(jobs, run, until_empty=True)
        error = jobs.get(job.id).error
    assert error is not None
    assert WORDS in error.message
    assert f"job {job.id} failed" in said()
    assert "ValueError" in said()
    assert "Anna" not in said()


def test_what_the_loop_says_of_tasks_that_nobody_awaits(configured: Callable[..., Said]) -> None:
    said = configured()

    async def lost() -> None:
        async def wrong() -> None:
            raise ValueError(WORDS)

        task = asyncio.ensure_future(wrong())
        await asyncio.sleep(0)
        del task
        import gc

        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(lost())
    assert "never retrieved" in said()
    assert "Anna" not in said()
