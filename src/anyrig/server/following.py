"""Following jobs: one reader for all who listen, whatever their number.

    async for event in following.events(job_id, after): ...

The file is asked a few times a second for each job that somebody follows, in one thread; listeners
wait on the event loop. Nobody listening, nobody asks.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from anyrig.errors import StorageError
from anyrig.jobs import JobEvent, JobNotFoundError, JobQueue

log = logging.getLogger(__name__)
LOOK_S = 0.3
_MOST_WAITING = 2000


@dataclass(eq=False)
class _Listener:
    """Somebody who follows a job."""

    job: str
    after: int
    news: asyncio.Queue[JobEvent | None] = field(default_factory=asyncio.Queue)


class Following:
    """Who follows which job."""

    def __init__(self, jobs: JobQueue, look_s: float = LOOK_S) -> None:
        self._jobs, self._look_s = jobs, look_s
        self._listeners: set[_Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._complained: set[str] = set()

    async def events(
        self, job: str, after: int = 0, *, beat_s: float = 15.0
    ) -> AsyncIterator[JobEvent | None]:
        """What happens to a job after the event of a number, until it is over; None is a beat."""
        listener = _Listener(job, after)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            while True:
                try:
                    event = await asyncio.wait_for(listener.news.get(), beat_s)
                except TimeoutError:
                    yield None
                    continue
                if event is None:
                    return
                yield event
        finally:
            self._listeners.discard(listener)

    async def _look(self) -> None:
        while self._listeners:
            wanted: dict[str, int] = {}
            for one in self._listeners:
                wanted[one.job] = min(one.after, wanted.get(one.job, one.after))
            try:
                found = await anyio.to_thread.run_sync(self._read, wanted)
            except Exception as error:  # noqa: BLE001 - whoever listens would hear nothing for ever
                self._complain(error)
                found = {}
            for one in list(self._listeners):
                if one.job in found:
                    self._tell(one, *found[one.job])
            await asyncio.sleep(self._look_s)

    def _read(self, wanted: dict[str, int]) -> dict[str, tuple[Sequence[JobEvent], bool]]:
        """New events of each job, and whether it is over."""
        found: dict[str, tuple[Sequence[JobEvent], bool]] = {}
        for job, after in wanted.items():
            try:
                over = self._jobs.get(
                    job
                ).is_finished  # asked first: what ends meanwhile is seen next
                found[job] = list(self._jobs.events(job, after)), over
            except JobNotFoundError:
                found[job] = (), True
            except StorageError:  # busy for a moment
                continue
            except Exception as error:  # noqa: BLE001 - one job must not silence all others
                self._complain(error)
        return found

    def _complain(self, error: Exception) -> None:
        """Once for each kind: it may come again with every look. Without words of the users."""
        kind = type(error).__name__
        if kind not in self._complained:
            self._complained.add(kind)
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("jobs cannot be followed: %s\n%s", kind, where.rstrip())

    def _tell(self, listener: _Listener, events: Sequence[JobEvent], over: bool) -> None:
        if listener.news.qsize() > _MOST_WAITING:  # a client that does not read
            over, events = True, ()
        for event in events:
            if event.number > listener.after:
                listener.after = event.number
                listener.news.put_nowait(event)
        if over:
            self._listeners.discard(listener)
            listener.news.put_nowait(None)
