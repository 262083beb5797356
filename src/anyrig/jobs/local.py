"""Jobs of one machine, in one file: what people and doors ask of them.

Any number of processes may look at the file, and any number may work the queue (`work.py`).
"""

from __future__ import annotations

import base64
import contextlib
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from anyrig.errors import InvalidInputError
from anyrig.jobs import owner
from anyrig.jobs.file import File
from anyrig.jobs.job import Event, Job, JobNotFoundError, Listing, Plain, State
from anyrig.jobs.marks import Chosen, Mark, chosen, counts, marks, owned, places, rows
from anyrig.jobs.rows import FIELDS, Row, add_event, event_of, job_of, move, to_text

MOST_ARGUMENT_BYTES = 1 << 20
_LOOK_S = 0.2


class LocalJobs:
    """The jobs in a file.

    Args:
        path: of the file; made when it is first needed.
        clock: seconds since 1970.
        wal: False on a network drive.
        lease_s: a job whose worker gave no sign for so long is free for another.
        num_events: how many events of a job are kept.
        num_ended: how many jobs that are over are kept; the oldest are forgotten.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        wal: bool = True,
        lease_s: float = 15.0,
        num_events: int = 500,
        num_ended: int = 1000,
    ) -> None:
        self.file = File(path, wal=wal)
        self.clock, self.lease_s, self.num_events = clock, lease_s, num_events
        self._num_ended = num_ended

    def close(self) -> None:
        """Close the file; it opens again when it is asked."""
        self.file.close()

    def __enter__(self) -> LocalJobs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, kind: str, arguments: Mapping[str, Plain], *, client: str = "") -> Job:
        """A new job, queued."""
        text = to_text(dict(arguments), "the arguments")
        if len(text) > MOST_ARGUMENT_BYTES:
            raise InvalidInputError(
                f"the arguments take {len(text)} bytes", hint="Name files instead of their words."
            )
        # 80 bits: who does not know an id cannot guess it.
        id = base64.b32encode(secrets.token_bytes(10)).decode("ascii").lower()
        now = self.clock()

        def work(connection: sqlite3.Connection) -> None:
            done = connection.execute(
                "INSERT INTO jobs (id, kind, arguments, state, created, client)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (id, kind, text, "queued", now, client),
            )
            assert done.lastrowid is not None
            self.note(connection, done.lastrowid, "state", {"state": "queued"})
            connection.execute(
                "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs WHERE state IN"
                " ('done', 'failed', 'cancelled') ORDER BY ended DESC LIMIT -1 OFFSET ?)",
                (self._num_ended,),
            )

        self.file.write(work)
        return self.get(id)

    def get(self, id: str) -> Job:
        """A job by its id."""
        return self.file.read(lambda connection: self._job(self._row(connection, id)))

    def list(
        self, *, kinds: Sequence[str] = (), states: Sequence[State] = ()
    ) -> tuple[Job, ...]:  # fmt: skip
        """Those of some kinds and states, or all; the oldest first."""

        def work(connection: sqlite3.Connection) -> Sequence[Row]:
            if not kinds and not states:
                return rows(connection)
            some = [one.number for one in marks(connection, self.left)
                    if one.fits(kinds, states)]  # fmt: skip
            return rows(connection, some)

        return self._jobs(self.file.read(work))

    def listing(
        self,
        most: int,
        *,
        before: int | None = None,
        kinds: Sequence[str] = (),
        states: Sequence[State] = (),
        client: str | None = None,
    ) -> Listing:
        """The newest that fit, so many at most; with 0 it only counts."""

        def work(
            connection: sqlite3.Connection,
        ) -> tuple[tuple[Sequence[Mark], Sequence[Mark]], Chosen, Sequence[Row]]:
            all_of_them = marks(connection, self.left)
            own = all_of_them if client is None else owned(connection, all_of_them, client)
            found = chosen(own, most, before=before, kinds=kinds, states=states)
            return (all_of_them, own), found, rows(connection, found.numbers)

        (all_of_them, own), found, some = self.file.read(work)
        return Listing(
            self._jobs(some), counts(own, kinds), found.older, places(all_of_them),
        )  # fmt: skip

    def events(self, id: str, after: int = 0, *, follow: bool = False) -> Iterator[Event]:
        """What happened after the event of a number; with `follow` until the job is over."""
        job = self.get(id)
        while True:
            # Deleted while it is followed: there is nothing more to tell.
            with contextlib.suppress(JobNotFoundError):
                job, found = self._news(id, after)
                yield from found
                after = found[-1].number if found else after
                if follow and not job.over:
                    time.sleep(_LOOK_S)
                    continue
            return

    def _news(self, id: str, after: int) -> tuple[Job, tuple[Event, ...]]:
        def work(connection: sqlite3.Connection) -> tuple[Job, tuple[Event, ...]]:
            row = self._row(connection, id)
            found = connection.execute(
                "SELECT number, time, kind, data FROM events WHERE job = ? AND number > ?"
                " ORDER BY number",
                (row[0], after),
            )
            return self._job(row), tuple(event_of(one) for one in found)

        return self.file.read(work)

    def pause(self, id: str) -> Job:
        """Let it rest; what runs stops soon after."""

        def change(connection: sqlite3.Connection, row: Row, job: Job) -> None:
            if job.over:
                raise InvalidInputError(
                    f"the job is {job.state}", hint="There is nothing left to pause."
                )
            if job.state == "running":
                # Who asked for its end does not get a rest instead.
                self._wish(connection, row, job.asked or "pause")
            elif job.state == "queued":
                self.move(connection, row, "paused")

        return self._change(id, change)

    def resume(self, id: str) -> Job:
        """Queue it again: after a pause, a failure or a change of mind."""

        def change(connection: sqlite3.Connection, row: Row, job: Job) -> None:
            if job.state == "done":
                raise InvalidInputError("the job is done", hint="Submit a new one to do it again.")
            if job.state == "running":
                # If it has stopped for that wish already, it is queued instead of put to rest.
                self._wish(connection, row, "")
            elif row[4] != "queued":
                self.move(connection, row, "queued")
                connection.execute("UPDATE jobs SET deaths = 0 WHERE number = ?", (row[0],))

        return self._change(id, change)

    def cancel(self, id: str) -> Job:
        """Give it up; what runs stops soon after."""

        def change(connection: sqlite3.Connection, row: Row, job: Job) -> None:
            if job.state in ("done", "failed"):
                raise InvalidInputError(
                    f"the job is {job.state}", hint="There is nothing left to cancel."
                )
            if job.state == "running":
                self._wish(connection, row, "cancel")
            elif job.state != "cancelled":
                self.move(connection, row, "cancelled")

        return self._change(id, change)

    def delete(self, id: str) -> None:
        """Forget a job that does not run."""

        def work(connection: sqlite3.Connection) -> None:
            row = self._row(connection, id)
            if self._job(row).state == "running":
                raise InvalidInputError("the job is running", hint="Cancel it first.")
            connection.execute("DELETE FROM jobs WHERE number = ?", (row[0],))

        self.file.write(work)

    # -- for those who work the queue too ----------------------------------------------------------

    def left(self, row: Row) -> bool:
        """Whether a job that was being worked on has lost its worker."""
        state, name, beat = row[4], str(row[14]), row[15]
        if state != "running":
            return False
        # Not from the future either: a clock that was set back must not keep a job for a day.
        late = not isinstance(beat, float) or abs(self.clock() - beat) > self.lease_s
        return late or owner.dead(name)

    def move(self, connection: sqlite3.Connection, row: Row, state: State) -> None:
        """Another state, within a transaction."""
        number = row[0]
        assert isinstance(number, int)
        move(connection, number, state, self.clock(), self.num_events)

    def note(
        self, connection: sqlite3.Connection, number: int, kind: str, data: Mapping[str, Plain]
    ) -> None:
        """Keep an event, within a transaction."""
        add_event(connection, number, self.clock(), kind, data, self.num_events)

    def _change(self, id: str, change: Callable[[sqlite3.Connection, Row, Job], None]) -> Job:
        def work(connection: sqlite3.Connection) -> Job:
            row = self._row(connection, id)
            change(connection, row, self._job(row))
            return self._job(self._row(connection, id))

        return self.file.write(work)

    def _wish(self, connection: sqlite3.Connection, row: Row, wish: str) -> None:
        connection.execute("UPDATE jobs SET wish = ? WHERE number = ?", (wish, row[0]))

    def _row(self, connection: sqlite3.Connection, id: str) -> Row:
        row = connection.execute(f"SELECT {FIELDS} FROM jobs WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise JobNotFoundError(f"there is no job {id}", hint="`anyrig jobs` lists them.")
        found: Row = row
        return found

    def _jobs(self, some: Sequence[Row]) -> tuple[Job, ...]:
        """Rows as jobs, once the file is free again: others wait for it."""
        with self.file.translated():
            return tuple(map(self._job, some))

    def _job(self, row: Row) -> Job:
        return job_of(row, left=self.left(row))
