"""Tasks on documents, between routes and worker processes: sources in, an outcome for each out.

Files go to the workers one by one, a few of a request at a time, so that one that kills its process
fails alone and nobody waits for all of another client's. Texts go together, as they are short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import to_thread

from anyrig.app.access import current_client, find_named_upload
from anyrig.errors import AnyrigError, LimitExceededError, error_from_dict, render_json
from anyrig.server.errors import Problem, error_status
from anyrig.server.uploads import IndexFiles
from anyrig.server.waiting import (
    BoundedStarter,
    ClientDisconnected,
    TaskTimeout,
    wait_for_disconnect,
    wait_for_task,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from anyrig.app.access import Client
    from anyrig.server.state import ServerState
    from anyrig.work.live import Lane

T = TypeVar("T")
_LIVE_CHARACTERS = 20_000
"""Texts up to this size are for a person who waits; more is bulk work."""
MAX_TEXTS_FACTOR = 10
"""All texts of a request may have so many times the characters of the longest."""
_GROUP_TEXTS, _GROUP_CHARACTERS = 64, 50_000
_MAX_TASKS = 2
"""Tasks of one request that wait for a worker at a time."""
_MAX_STARTING = 16
_JOB_HINTS = {
    "transcribe": "POST /jobs with the kind transcribe takes",
    "book_plan": "POST /jobs with the kind book takes",
    "passages": "POST /jobs with the kind index takes",
    "embed": "POST /jobs with the kind index takes",
}
"""What takes longer than a request may, by task."""


@dataclass(frozen=True)
class Source:
    """A text, or a file that was uploaded."""

    name: str
    text: str = ""
    path: Path | None = None
    upload: str = ""
    """`upload:ID` of a file that stays; empty for one that came with the request."""

    def rename(self, message: str) -> str:
        """A message with the name of the client's file instead of the one it is stored under."""
        if self.path is None:
            return message
        return message.replace(str(self.path), self.name).replace(self.path.name, self.name)


class DocumentTasks:
    """Submits tasks to the document workers, and waits for them."""

    def __init__(self, server: ServerState) -> None:
        self.server = server
        self.index_files = IndexFiles(server)
        # Submitting may start a process or load a model: those who wait for that must not use up
        # the threads of others.
        lanes: tuple[Lane, ...] = ("live", "bulk")
        self._starting = {lane: BoundedStarter(_MAX_STARTING) for lane in lanes}
        self._embedding = BoundedStarter(_MAX_STARTING)

    async def find_sources(
        self, client: Client, texts: Sequence[str], files: Sequence[str]
    ) -> list[Source]:
        """The texts and uploads of a request, checked."""
        limits = self.server.settings
        if len(texts) > limits.texts:
            raise LimitExceededError(
                f"{len(texts)} texts in one request", hint=f"Send at most {limits.texts} at a time."
            )
        longest = max(map(len, texts), default=0)
        if longest > limits.text_characters:
            raise LimitExceededError(
                f"a text of {longest} characters",
                hint=f"At most {limits.text_characters} are allowed; send longer ones as files.",
            )
        if sum(map(len, texts)) > MAX_TEXTS_FACTOR * limits.text_characters:
            raise LimitExceededError(
                "the texts are too long together", hint="Send fewer at a time, or as files."
            )
        return await to_thread.run_sync(self._list_sources, client, texts, files)

    def _list_sources(
        self, client: Client, texts: Sequence[str], files: Sequence[str]
    ) -> list[Source]:
        uploads = self.server.uploads
        sources = [Source(f"text {number}", text) for number, text in enumerate(texts, 1)]
        for name in files:
            upload = find_named_upload(self.server, client, name)
            sources.append(Source(upload.name, path=uploads.path(upload.id), upload=name))
        return sources

    async def ask(
        self,
        task: str,
        given: Mapping[str, Any],
        *,
        lane: Lane = "live",
        priority: float = 0.0,
        sources: Sequence[Source] = (),
    ) -> Any:
        """The result of a task of `app.document_worker.TASKS`, or a problem, in which `sources`
        have the names that clients know.
        """
        try:
            return await self.result(task, given, lane=lane, priority=priority)
        except AnyrigError as error:
            problem = to_problem(error)
            for source in sources:
                problem.title, problem.hint = map(source.rename, (problem.title, problem.hint))
            raise problem from error

    async def result(
        self, task: str, given: Mapping[str, Any], *, lane: Lane = "live", priority: float = 0.0
    ) -> Any:
        """A task's result, or its error as the worker raised it; a problem if it takes too long.

        It may wait for some time, and from then on it may run for some time.
        """
        limits, outcome = self.server.settings, "given up"
        submit = partial(
            self.server.documents.submit, task, given, lane=lane, priority=priority,
            client=current_client.get().id,
        )  # fmt: skip
        try:
            future = await self._starting[lane].run(submit, limits, undo=lambda one: one.cancel())
            found = await wait_for_task(future, limits.work_s)
            outcome = "done"
            found = render_json(found, "http")
        except TaskTimeout:
            raise build_timeout(task, limits.work_s) from None
        except Exception:
            outcome = "failed"
            raise
        finally:
            self.server.metrics.tasks.labels(task, outcome).inc()
        return found

    async def embed(self, submit: Callable[[], Sequence[Future[T]]]) -> Sequence[Future[T]]:
        """Call what submits texts to be embedded, in a thread: it may load a model."""
        return await self._embedding.run(submit, self.server.settings, undo=_cancel)

    async def run_each(
        self, task: str, sources: Sequence[Source], given: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """An outcome for each source, of a task that answers a row for each text or file."""

        async def run(group: Sequence[Source], lane: Lane, priority: int) -> list[dict[str, Any]]:
            if group[0].path is not None:
                what: dict[str, Any] = {"files": [str(one.path) for one in group]}
            else:
                what = {"texts": [one.text for one in group], "names": [one.name for one in group]}
            try:
                rows = await self.ask(task, {**given, **what}, lane=lane, priority=priority)
            except Problem as error:
                return [_build_failure(source, error) for source in group]
            return [
                build_success(source, row["result"]) if "result" in row
                else _build_failure(source, to_problem(error_from_dict(row["error"])))
                for source, row in zip(group, rows, strict=True)
            ]  # fmt: skip

        calls = [
            partial(run, group, lane, priority)
            for priority, (group, lane) in enumerate(_group_sources(sources))
        ]
        return [row for rows in await run_few(calls, _MAX_TASKS) for row in rows]


def build_results(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outcomes of a request; if all failed, the first one's problem is raised."""
    failed = [row["error"] for row in rows if row["error"] is not None]
    if rows and len(failed) == len(rows):
        first = failed[0]
        raise Problem(first["status"], first["title"], hint=first["hint"], results=list(rows))
    return {"results": list(rows), "num_failed": len(failed)}


async def run_while_connected(request: Request | WebSocket, work: Awaitable[T]) -> T:
    """Work that is cancelled when its client disconnects; then `ClientDisconnected` is raised."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(wait_for_disconnect(request))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnected
        return working.result()
    finally:
        gone.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


def build_timeout(task: str, max_s: float) -> Problem:
    """For a task that had begun and did not end: another attempt would take as long."""
    job = _JOB_HINTS.get(task, "POST /jobs is for what takes")
    hint = f"Send less at a time. {job} as long as it needs; or raise server.work_s."
    message = f"it took longer than {max_s:g} seconds"
    return Problem(504, message, hint=hint, headers={"X-Should-Retry": "false"})


def to_problem(error: AnyrigError) -> Problem:
    """An error of a task as a problem; one of no known status is the fault of what was sent."""
    status = error_status(error)
    return Problem(422 if status == 500 else status, error.message, hint=error.hint)


def build_success(source: Source, result: Any) -> dict[str, Any]:
    """The outcome of a source that was done."""
    return {"name": source.name, "file": source.upload or None, "result": result, "error": None}


def _build_failure(source: Source, problem: Problem) -> dict[str, Any]:
    title, hint = source.rename(problem.title), source.rename(problem.hint)
    error = {"status": problem.status, "title": title, "hint": hint}
    return {"name": source.name, "file": source.upload or None, "result": None, "error": error}


def _group_sources(sources: Sequence[Source]) -> list[tuple[list[Source], Lane]]:
    """Texts in groups, files alone."""
    texts = [one for one in sources if one.path is None]
    total = sum(len(one.text) for one in texts)
    lane: Lane = "live" if total <= _LIVE_CHARACTERS else "bulk"
    groups: list[tuple[list[Source], Lane]] = []
    size = _GROUP_CHARACTERS
    for one in texts:
        if size >= _GROUP_CHARACTERS or len(groups[-1][0]) >= _GROUP_TEXTS:
            groups.append(([], lane))
            size = 0
        groups[-1][0].append(one)
        size += len(one.text)
    return groups + [([one], "bulk") for one in sources if one.path is not None]


async def run_few(calls: Sequence[Callable[[], Awaitable[T]]], max_at_once: int) -> list[T]:
    """Run all, a few at a time; one that fails takes the others with it."""
    limit = asyncio.Semaphore(max_at_once)

    async def run(call: Callable[[], Awaitable[T]]) -> T:
        async with limit:
            return await call()

    tasks = [asyncio.ensure_future(run(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _cancel(futures: Sequence[Future[Any]]) -> None:
    for future in futures:
        future.cancel()
