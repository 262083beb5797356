"""Requests that end: those that kill, fail, take too long, wait too long, or are left alone."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from websockets.sync.client import connect

from anyrig.app.live_speech import OPENAI_VOICES
from anyrig.app.settings import ServerSettings
from anyrig.errors import OverloadedError
from anyrig.server.routes.documents import submit_patiently
from anyrig.server.state import ServerState
from anyrig.server.waiting import BoundedStarter, TaskTimeout, wait_for_task
from tests.server import odd_worker
from tests.server.conftest import build_server, environment_of
from tests.server.test_serve_jobs import begun, over, sent, until
from tests.server.test_serve_stream import heard
from tests.waiting import wait_until

WAV = (
    b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00"
)
STORY = b"".join(b"CHAPTER %s\n\nIt was ten.\n\n" % one for one in (b"I", b"II", b"III", b"IV"))
TASKS = ("transcribe", "book_plan", "book_cover", "book_chapter")


@dataclass
class Door:
    """A server in this process, and what its document workers do."""

    url: str
    client: httpx.Client
    state: ServerState
    marks: Path
    upload: str
    job: str
    numbers: list[int]
    """Of the chapters of its book."""

    @contextmanager
    def way(self, way: str) -> Iterator[None]:
        """Tasks that die, fail or go on for long."""
        for task in TASKS:
            (self.marks / task).write_text(way)
        try:
            yield
        finally:
            for path in self.marks.iterdir():
                path.unlink()

    @contextmanager
    def limits(self, **changed: Any) -> Iterator[None]:
        """Other settings."""
        before = self.state.settings
        self.state.settings = replace(before, **changed)
        try:
            yield
        finally:
            self.state.settings = before

    def ask(self, task: str) -> httpx.Response:
        """A request that has a task done."""
        with httpx.Client(timeout=60, trust_env=False) as client:
            return client.send(self._request(task))

    def leave(self, task: str, *, when: Callable[[], Any] | None = None) -> None:
        """Such a request, whose client closes the connection while the task runs."""

        async def run() -> None:
            async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
                asking = asyncio.ensure_future(client.send(request))
                await asyncio.to_thread(
                    wait_until, when or (self.marks / f"{task} begun").exists, what=task
                )
                assert asking.cancel(), asking.result()
                await asyncio.wait([asking])

        request = self._request(task)
        asyncio.run(run())

    def _request(self, task: str) -> httpx.Request:
        build = self.client.build_request
        if task == "transcribe":
            return build("POST", "/v1/audio/transcriptions", files={"file": ("a.wav", WAV)})
        if task == "book_plan":
            return build("POST", "/books/plan", json={"file": self.upload, "engine": "tone"})
        if task == "book_cover":  # those that were seen are remembered
            upload = sent(self.client, STORY, "a.txt").partition(":")[2]
            return build("GET", f"/books/cover/{upload}")
        return build("GET", f"/jobs/{self.job}/chapters/{self.numbers[0]}")

    def counted(self, task: str, outcome: str) -> float:
        """How often a task ended so, by the figures."""
        line = f'anyrig_tasks_total{{outcome="{outcome}",task="{task}"}} '
        found = [one for one in self.client.get("/metrics").text.splitlines() if line in one]
        return float(found[0].rpartition(" ")[2]) if found else 0.0


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One for all tests here."""
    from anyrig.server.app import create_app

    folder = tmp_path_factory.mktemp("ends")
    marks, plugins = folder / "marks", folder / "plugins"
    marks.mkdir()
    plugins.mkdir()
    odd_worker.plugged(plugins)
    paths = [str(plugins), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    more = {odd_worker.FOLDER: str(marks), "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "ANYRIG_SERVER_TEXTS": "8", "ANYRIG_SERVER_QUEUE": "8"}  # fmt: skip
    with ExitStack() as stack:
        sys.path.insert(0, str(plugins))
        stack.callback(sys.path.remove, str(plugins))
        state = build_server(stack, environment_of(folder, more))
        workers: Any = state.documents
        workers._factory = odd_worker.FACTORY
        url = stack.enter_context(_listening(create_app(state, page=False)))
        client = stack.enter_context(httpx.Client(base_url=url, timeout=60, trust_env=False))
        upload = sent(client, STORY, "story.txt")
        job = until(client, begun(client, "book", file=upload, engine="tone")["id"], over)
        assert job["state"] == "done", job
        chapters = client.get(f"/jobs/{job['id']}/chapters").json()["chapters"]
        numbers = [row["number"] for row in chapters]
        yield Door(url, client, state, marks, upload, job["id"], numbers)


@contextmanager
def _listening(app: Any) -> Iterator[str]:
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=60)


def _is_problem(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["hint"]
    return told


# -- work that kills or fails ----------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_task_that_fails_unforeseen_is_no_500_and_is_counted(door: Door, task: str) -> None:
    before = door.counted(task, "failed")
    with door.way("fails"):
        assert "failed" in _is_problem(door.ask(task), 422)["title"]
    assert door.counted(task, "failed") == before + 1


@pytest.mark.parametrize("task", TASKS)
def test_a_task_that_kills_its_worker_is_no_500_and_fails_alone(door: Door, task: str) -> None:
    with door.way("dies"):
        _is_problem(door.ask(task), 422)
    plan = door.ask("book_plan")
    assert plan.status_code == 200, plan.text


def test_plans_and_chapters_are_counted(door: Door) -> None:
    before = [door.counted(task, "done") for task in ("book_plan", "book_chapter")]
    assert door.ask("book_plan").status_code == 200
    heard = door.ask("book_chapter")
    assert heard.status_code == 200, heard.text
    assert door.counted("book_plan", "done") == before[0] + 1
    assert door.counted("book_chapter", "done") == before[1] + 1
    _unmade(door)


def _unmade(door: Door) -> None:
    """Chapters are made once; the next test wants them made again."""
    for path in door.state.data_folder.glob("jobs/*/chapters/*.mp3"):
        path.unlink()


def test_a_text_that_kills_its_voice_is_no_500_and_fails_alone(door: Door) -> None:
    def said(text: str) -> httpx.Response:
        body = {"input": text, "engine": "deadly", "voice": "tone", "response_format": "pcm"}
        return door.client.post("/v1/audio/speech", json=body)

    assert said("All is well.").status_code == 200
    assert "poison" in _is_problem(said("Here is poison."), 422)["title"]
    assert said("All is well again.").status_code == 200
    address = door.url.replace("http", "ws", 1)
    query = "engine=deadly&text=More+poison."
    with connect(f"{address}/stream?{query}", compression=None, proxy=None) as socket:
        _, events, code = heard(socket)
    assert events[-1]["event"] == "backend_error"
    assert "poison" in events[-1]["data"]["message"]
    assert code == 1008  # what was sent is at fault


@pytest.mark.parametrize("word", ["poison", "nonsense"])
def test_a_stream_goes_on_without_a_segment_that_cannot_be_spoken(
    door: Door, word: str, caplog: pytest.LogCaptureFixture
) -> None:
    def said(*sentences: str) -> httpx.Response:
        body = {"input": "\n\n".join(sentences), "engine": "deadly", "voice": "tone",
                "response_format": "pcm"}  # fmt: skip
        return door.client.post("/v1/audio/speech", json=body)

    first, last = "The keeper walked down the long stone stairs.", "The kettle is on the stove."
    alone, whole = said(first), said(first, f"Here is {word}.", last)
    assert whole.status_code == 200
    assert len(whole.content) > len(alone.content) + 24000
    assert word in caplog.text
    assert len(said(first, f"More {word}.").content) >= len(alone.content)
    assert _is_problem(said(f"First {word}.", last), 422 if word == "poison" else 400)


def test_voices_of_openai_are_voices_of_that_name_or_others_of_their_gender(door: Door) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{door.url}/v1", api_key="none", max_retries=0) as client:

        def spoken_by(voice: str, model: str) -> tuple[str, str]:
            made = client.audio.speech.with_raw_response.create(
                model=model, voice=voice, input="The kettle is on.", response_format="pcm"
            )
            return made.headers["x-anyrig-engine"], made.headers["x-anyrig-voice"]

        for model in ("tts-1", "tts-1-hd", "gpt-4o-mini-tts"):
            assert spoken_by("onyx", model) == ("choir", "cm_onyx (for onyx)")
        assert spoken_by("alloy", "tts-1") == ("hibari", "heart (for alloy)")
        found = {name: spoken_by(name, "choir")[1].partition(" ")[0] for name in OPENAI_VOICES}
        for name, voice in found.items():
            assert voice[1] == OPENAI_VOICES[name][0], (name, voice)
        assert (found["onyx"], found["nova"]) == ("cm_onyx", "cf_nova")
        assert set(found.values()) == {"cf_bella", "cf_nova", "cf_sarah", "cm_adam", "cm_onyx"}
        for model in ("tts-99", "gpt-4o", "tts-1-99", "tts-", "gpt-4o-mini-tts-x"):
            with pytest.raises(openai.NotFoundError):
                spoken_by("alloy", model)
        with pytest.raises(openai.BadRequestError):
            spoken_by("nobody", "tts-1")


# -- clients that leave ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_who_leaves_takes_the_work_along(
    door: Door, task: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert door.ask("book_plan").status_code == 200  # the worker exists
    before = door.counted(task, "given up")
    with door.way("long"):
        door.leave(task)
        wait_until((door.marks / f"{task} ended").exists)
    wait_until(lambda: door.counted(task, "given up") == before + 1)
    assert "ClientGone" not in caplog.text
    figures = door.client.get("/metrics").text
    assert 'status="499"' in figures
    assert 'status="500"' not in figures


def _locks() -> list[asyncio.Lock]:
    # Not isinstance, which asks weak references for the class of what may be gone.
    return [one for one in gc.get_objects() if type(one) is asyncio.Lock]


def test_who_leaves_a_chapter_leaves_it_to_those_who_want_it_too(door: Door) -> None:
    answers: list[httpx.Response] = []
    other = threading.Thread(target=lambda: answers.append(door.ask("book_chapter")))

    def joined() -> bool:
        wait_until((door.marks / "book_chapter begun").exists)
        if other.ident is None:
            (door.marks / "book_chapter").unlink()  # the next one is made as always
            other.start()
        return any(lock._waiters for lock in _locks())

    with door.way("long"):
        door.leave("book_chapter", when=joined)
        other.join(timeout=60)
    assert answers[0].status_code == 200, answers[0].text
    _unmade(door)


# Collecting garbage also finds sockets that clients of earlier tests left when they timed out.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_chapters_that_fail_leave_no_locks(door: Door) -> None:
    def locks() -> int:
        gc.collect()
        return len(_locks())

    with door.way("fails"):
        before = locks()
        assert len(door.numbers) == 4
        for number in door.numbers:
            path = f"/jobs/{door.job}/chapters/{number}"
            _is_problem(door.client.get(path), 422)
        # The thread that told of the last one holds its error, and so its request, for now.
        wait_until(lambda: locks() <= before + 1)


# -- work that takes too long ----------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_work_that_has_begun_has_an_end_and_a_job_is_named(door: Door, task: str) -> None:
    assert door.ask("book_plan").status_code == 200
    with door.way("long"), door.limits(work_s=0.3):
        answer = door.ask(task)
        told = _is_problem(answer, 504)
        wait_until((door.marks / f"{task} ended").exists)
    assert "POST /jobs" in told["hint"]
    assert "server.work_s" in told["hint"]
    assert answer.headers["x-should-retry"] == "false"  # as OpenAI's client would
    if task == "transcribe":
        assert "kind transcribe" in told["hint"]


# -- vectors of many passages ----------------------------------------------------------------------


def test_a_file_of_more_passages_than_may_wait_has_vectors(door: Door) -> None:
    pages = "\n\n".join(f"Passage {n}. " + f"Word{n} and others follow. " * 60 for n in range(40))
    answer = door.client.post(
        "/documents/embed/upload", files={"files": ("long.txt", pages)}, data={"model": "hashing"}
    )
    assert answer.status_code == 200, answer.text
    passages = answer.json()["results"][0]["result"]["passages"]
    assert len(passages) > 3 * door.state.settings.texts
    assert {len(one["vector"]) for one in passages} == {256}
    asked = {"input": [passages[-1]["text"]], "model": "hashing"}
    alone = door.client.post("/v1/embeddings", json=asked).json()["data"][0]["embedding"]
    assert passages[-1]["vector"] == pytest.approx(alone, abs=1e-6)


def test_vectors_of_many_passages_have_an_end(door: Door) -> None:
    with door.limits(work_s=1e-9):
        told = _is_problem(
            door.client.post("/documents/embed", json={"texts": ["a"], "model": "hashing"}), 504
        )
    assert "kind index" in told["hint"]


# -- models that load ------------------------------------------------------------------------------


def test_who_waits_for_a_model_that_loads_has_a_deadline(door: Door) -> None:
    body = {"input": "All is well.", "engine": "slow", "voice": "tone", "response_format": "pcm"}
    with door.limits(deadline_s=0.5):
        answer = door.client.post("/v1/audio/speech", json=body)
        assert "start" in _is_problem(answer, 429)["title"]
        assert int(answer.headers["retry-after"]) > 0
    assert door.client.post("/v1/audio/speech", json=body).status_code == 200
    slow = [one for one in door.state.models.loaded_models() if "slow" in one.name]
    assert len(slow) == 1, "it was loaded once, for whoever came next"
    wait_until(
        lambda: (
            next(o for o in door.state.models.loaded_models() if "slow" in o.name).num_borrowers
            == 0
        )
    )


def test_vectors_and_tasks_have_a_deadline_before_they_begin(door: Door) -> None:
    with door.limits(deadline_s=1e-9):
        for path, body in (
            ("/v1/embeddings", {"input": ["a"], "model": "hashing"}),
            ("/documents/embed", {"texts": ["a"], "model": "hashing"}),
            ("/documents/entities", {"texts": ["a"], "engine": "grammar"}),
        ):
            told = _is_problem(door.client.post(path, json=body), 429)
            assert "did not start" in told["title"], path


def test_more_than_may_wait_to_begin_are_refused_at_once() -> None:
    go_on = threading.Event()

    async def all_of_them() -> list[Any]:
        starter, limits = BoundedStarter(2), ServerSettings(queue=3)
        calls = [starter.run(lambda: go_on.wait(60), limits) for _ in range(9)]
        those = [asyncio.ensure_future(call) for call in calls]
        async with asyncio.timeout(60):
            while sum(one.done() for one in those) < 4:
                await asyncio.sleep(0.01)
        go_on.set()
        found = await asyncio.gather(*those, return_exceptions=True)
        assert starter.num_pending == 0
        return found

    found = asyncio.run(all_of_them())
    assert [one for one in found if one is True] == [True] * 5
    assert sum(isinstance(one, OverloadedError) for one in found) == 4


def test_who_waits_too_long_is_told_so_and_what_comes_of_it_is_undone() -> None:
    go_on, undone = threading.Event(), list[str]()

    def call() -> str:
        assert go_on.wait(60)
        return "begun"

    async def one() -> None:
        starter, gate = BoundedStarter(1), asyncio.Semaphore(1)
        short = ServerSettings(deadline_s=0.1)
        for _ in range(2):  # the first one has the thread, the second one waits at the gate
            with pytest.raises(OverloadedError, match="did not start within 0.1 seconds"):
                await starter.run(call, short, semaphore=gate, undo=undone.append)
        assert starter.num_pending == 1, "its thread is still at work"
        assert gate.locked()
        go_on.set()
        assert await starter.run(call, ServerSettings(), semaphore=gate) == "begun"
        assert undone == ["begun"]
        assert starter.num_pending == 0
        assert not gate.locked()

    asyncio.run(one())


def test_who_leaves_before_it_begins_is_let_go_at_once() -> None:
    begun, go_on, undone = threading.Event(), threading.Event(), list[int]()

    def call(number: int) -> int:
        begun.set()
        assert go_on.wait(60)
        return number

    async def one() -> None:
        starter = BoundedStarter(1)
        limits = ServerSettings()
        those = [
            asyncio.ensure_future(starter.run(partial(call, n), limits, undo=undone.append))
            for n in (1, 2, 3)
        ]
        assert await asyncio.to_thread(begun.wait, 60)
        for those_who_leave in those[:2]:
            those_who_leave.cancel()
        gone, _ = await asyncio.wait(those[:2], timeout=30)
        assert len(gone) == 2, "the thread goes on without them"
        go_on.set()
        assert await those[2] == 3
        assert undone == [1], "the second one had not begun"

    asyncio.run(one())


def test_an_error_of_the_call_is_its_own() -> None:
    def call() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(BoundedStarter(1).run(call, ServerSettings()))


class _Task(Future[Any]):
    began: float | None = None


def test_work_has_its_time_from_when_it_began() -> None:
    async def one() -> None:
        piece: Any = _Task()
        waiting = asyncio.ensure_future(wait_for_task(piece, 0.2))
        await asyncio.sleep(0.6)
        assert not waiting.done(), "it waits for its turn"
        piece.began = time.monotonic()
        with pytest.raises(TaskTimeout):
            await asyncio.wait_for(waiting, 60)
        assert piece.cancelled(), "whoever does it is told"
        done: Any = _Task()
        done.set_result("here")
        assert await wait_for_task(done, 0.2) == "here"

    asyncio.run(one())


def test_who_was_let_in_waits_for_room_and_who_was_not_is_refused() -> None:
    tries: list[float] = []

    async def hand_in() -> list[Future[Any]]:
        tries.append(time.monotonic())
        if len(tries) % 3:
            raise OverloadedError("full", hint="wait")
        return []

    assert asyncio.run(submit_patiently(hand_in, 30.0)) == []
    assert len(tries) == 3
    with pytest.raises(OverloadedError):
        asyncio.run(submit_patiently(hand_in, 0.0))
    assert len(tries) == 4
