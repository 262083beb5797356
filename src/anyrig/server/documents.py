"""Tasks on documents, between routes and clerks: sources in, an outcome for each out.

Files go to clerks one by one, a few of a request at a time, so that one that kills its process
fails alone and nobody waits for all of somebody else's. Texts go together, as they are short.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyrig.errors import AnyrigError, LimitExceededError, error_from_dict
from anyrig.server.access import named_upload
from anyrig.server.errors import Problem, error_status, format_for_http
from anyrig.server.waiting import Beginning, ClientGone, TookTooLong, within

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.requests import Request

    from anyrig.server.access import Client
    from anyrig.server.state import ServerState
    from anyrig.work.live import Lane

log = logging.getLogger(__name__)
T = TypeVar("T")
SHORT = 20_000
"""Characters of texts up to which a person may wait for them beside others; more is long work."""
ALL_TEXTS = 10
"""All texts of a request may have so many times the characters of the longest."""
_GROUP_TEXTS, _GROUP_CHARACTERS = 64, 50_000
_AT_ONCE = 2
"""Tasks of one request that wait for a clerk at a time."""
_BEGINNING = 16
_JOBS = {
    "transcribe": "POST /jobs with the kind transcribe takes",
    "book_plan": "POST /jobs with the kind book takes",
    "passages": "POST /jobs with the kind index takes",
    "embed": "POST /jobs with the kind index takes",
}
"""What takes the time that a request has not, by task."""


@dataclass(frozen=True)
class Source:
    """A text, or a file that was sent."""

    name: str
    text: str = ""
    path: Path | None = None
    upload: str = ""
    """`upload:ID` of a file that stays; empty for one that came with the request."""

    @property
    def plain(self) -> dict[str, Any]:
        """As clerks take it."""
        if self.path is not None:
            return {"name": self.name, "file": str(self.path)}
        return {"name": self.name, "text": self.text}


class Desk:
    """Takes tasks to the clerks."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        # Handing in may start a process, or load a model: those who wait for it must not use up
        # others' threads.
        lanes: tuple[Lane, ...] = ("live", "bulk")
        self._beginning = {lane: Beginning(_BEGINNING) for lane in lanes}
        self._embedding = Beginning(_BEGINNING)

    # -- what is given -----------------------------------------------------------------------------

    def sources(
        self, client: Client, texts: Sequence[str], files: Sequence[str]
    ) -> list[Source]:  # fmt: skip
        """Texts and uploads of a request, checked; in a thread, as it looks at the disk."""
        limits = self._server.settings
        if len(texts) > limits.texts:
            raise LimitExceededError(
                f"{len(texts)} texts in one request", hint=f"Send {limits.texts} at a time at most."
            )
        longest = max(map(len, texts), default=0)
        if longest > limits.text_characters:
            raise LimitExceededError(
                f"a text of {longest} characters",
                hint=f"{limits.text_characters} are taken; send more as a file.",
            )
        if sum(map(len, texts)) > ALL_TEXTS * limits.text_characters:
            raise LimitExceededError(
                "the texts are too long together", hint="Send fewer at a time, or as files."
            )
        found = [Source(f"text {number}", text) for number, text in enumerate(texts, 1)]
        return found + [self.upload(client, word) for word in files]

    def upload(self, client: Client, word: str) -> Source:
        """The file that a request names."""
        one = named_upload(self._server, client, word)
        return Source(one.name, path=self._server.uploads.path(one.id), upload=word)

    # -- what is done ------------------------------------------------------------------------------

    async def ask(
        self, task: str, arguments: Mapping[str, Any], *, lane: Lane = "live", turn: float = 0.0
    ) -> Any:
        """A task's answer, or a problem."""
        try:
            return await self.result(task, arguments, lane=lane, turn=turn)
        except AnyrigError as error:
            raise foreseen(error) from error

    async def result(
        self, task: str, arguments: Mapping[str, Any], *, lane: Lane = "live", turn: float = 0.0
    ) -> Any:
        """A task's answer, or its error as the clerk has it; a problem where it takes too long.

        It has a time to wait for its turn, and another one to be done in from then on.
        """
        limits, outcome = self._server.settings, "given up"
        submit = partial(self._server.documents.submit, task, arguments, lane=lane, turn=turn)
        try:
            piece = await self._beginning[lane].run(submit, limits, undo=lambda one: one.cancel())
            found = await within(piece, limits.work_s)
            outcome = "done"
        except TookTooLong:
            raise too_long(task, limits.work_s) from None
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._server.metrics.tasks.labels(task, outcome).inc()
        return found

    async def embed(self, submit: Callable[[], Sequence[Future[T]]]) -> Sequence[Future[T]]:
        """What hands in texts to be embedded, called in a thread: it may load a model."""
        return await self._embedding.run(submit, self._server.settings, undo=_cancelled)

    async def each(
        self, task: str, sources: Sequence[Source], options: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """An outcome for each source, of a task that takes `sources` and answers as many rows."""

        async def one(group: Sequence[Source], lane: Lane, turn: int) -> list[dict[str, Any]]:
            arguments = {**options, "sources": [source.plain for source in group]}
            try:
                rows = await self.ask(task, arguments, lane=lane, turn=turn)
            except Problem as error:
                return [_failed(source, error) for source in group]
            return [_outcome(source, row) for source, row in zip(group, rows, strict=True)]

        calls = [
            partial(one, group, lane, turn) for turn, (group, lane) in enumerate(_groups(sources))
        ]
        return [row for rows in await _few(calls) for row in rows]


def answer(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outcomes of a request; where all failed, the first one's problem is raised."""
    failed = [row["error"] for row in rows if row["error"] is not None]
    if rows and len(failed) == len(rows):
        first = failed[0]
        raise Problem(first["status"], first["title"], hint=first["hint"], results=list(rows))
    return {"results": list(rows), "num_failed": len(failed)}


async def while_there(request: Request, work: Awaitable[T]) -> T:
    """Work that is cancelled when its client leaves; then `ClientGone` is raised."""
    doing = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((doing, gone), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientGone
        return doing.result()
    finally:
        gone.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))


def too_long(task: str, most_s: float) -> Problem:
    """The answer to work that had begun and did not end; asked again, it would take as long."""
    job = _JOBS.get(task, "POST /jobs is for what takes")
    hint = f"Send less at a time. {job} as long as it needs; or raise server.work_s."
    said = f"it took longer than {most_s:g} seconds"
    return Problem(504, said, hint=hint, headers={"X-Should-Retry": "false"})


def _cancelled(futures: Sequence[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


def foreseen(error: AnyrigError) -> Problem:
    """An error of a task as a problem; what no class foresees is the fault of what was given."""
    status = error_status(error)
    title, hint = format_for_http(error.message), format_for_http(error.hint)
    return Problem(422 if status == 500 else status, title, hint=hint)


def _outcome(source: Source, row: Mapping[str, Any]) -> dict[str, Any]:
    if "result" not in row:
        return _failed(source, foreseen(error_from_dict(row["error"])))
    return done(source, row["result"])


def done(source: Source, result: Any) -> dict[str, Any]:
    """The outcome of a source that was done."""
    return {"name": source.name, "file": source.upload or None, "result": result, "error": None}


def _failed(source: Source, error: Problem) -> dict[str, Any]:
    said = {"status": error.status, "title": error.title, "hint": error.hint}
    return {"name": source.name, "file": source.upload or None, "result": None, "error": said}


def _groups(sources: Sequence[Source]) -> list[tuple[list[Source], Lane]]:
    """Texts in groups, files alone."""
    texts = [one for one in sources if one.path is None]
    lane: Lane = "live" if sum(len(one.text) for one in texts) <= SHORT else "bulk"
    groups: list[tuple[list[Source], Lane]] = []
    size = _GROUP_CHARACTERS
    for one in texts:
        if size >= _GROUP_CHARACTERS or len(groups[-1][0]) >= _GROUP_TEXTS:
            groups.append(([], lane))
            size = 0
        groups[-1][0].append(one)
        size += len(one.text)
    return groups + [([one], "bulk") for one in sources if one.path is not None]


async def _few(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All of them, a few at a time; a cancelled one takes the others with it."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with limit:
            return await call()

    tasks = [asyncio.ensure_future(one(call)) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
