"""The worker's side of the file: taking a job, keeping it, telling of it, handing it back.

A job is taken in one transaction, so no two take the same. Everything written later names the
taker: who has lost a job to another can no longer change it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple, cast

from anyrig.jobs import owner
from anyrig.jobs.job import Job, Plain, State, Trouble, Wish
from anyrig.jobs.local import LocalJobs
from anyrig.jobs.rows import FIELDS, Row, job_of, move, to_text

_DOUBTFUL, _MOST_DEATHS = 3, 100
_DIED = Trouble(
    f"whoever worked on it died {_MOST_DEATHS} times before anything was done",
    "See the system's log for what ended them; resume the job when that is mended.",
)


class Outcome(NamedTuple):
    """How a run ended: with a result, with trouble, or told to stop."""

    result: Plain = None
    trouble: Trouble | None = None
    stopped: bool = False


class Leases:
    """The jobs that this worker has taken."""

    def __init__(self, jobs: LocalJobs) -> None:
        self._jobs = jobs
        self._me = owner.mine()

    def claim(self) -> Job | None:
        """The next job, now ours; None when nothing waits."""
        if not self.waiting():
            return None

        def work(connection: sqlite3.Connection) -> Job | None:
            self._take_over(connection)
            # One that kills its workers waits until the others are through.
            row = connection.execute(
                f"SELECT {FIELDS} FROM jobs WHERE state = 'queued' ORDER BY deaths > ?, number",
                (_DOUBTFUL,),
            ).fetchone()
            return None if row is None else self._take(connection, row)

        return self._jobs.file.write(work)

    def waiting(self) -> bool:
        """Whether something is queued, or was left by its worker."""
        return any(row[4] == "queued" or self._jobs.left(row) for row in self._open())

    def others(self) -> dict[str, float]:
        """When whoever works on other jobs gave the last sign, by the job's id."""
        rows = [row for row in self._open() if row[4] == "running" and row[14] != self._me]
        return {str(row[1]): cast(float, row[15]) for row in rows}

    def _open(self) -> list[Row]:
        return self._jobs.file.read(
            lambda connection: connection.execute(
                f"SELECT {FIELDS} FROM jobs WHERE state IN ('queued', 'running')"
            ).fetchall()
        )

    def _take(self, connection: sqlite3.Connection, row: Row) -> Job:
        now = self._jobs.clock()
        connection.execute(
            "UPDATE jobs SET state = 'running', owner = ?, beat = ?, attempts = attempts + 1,"
            " started = coalesce(started, ?) WHERE number = ?",
            (self._me, now, now, row[0]),
        )
        self._jobs.note(connection, cast(int, row[0]), "state", {"state": "running"})
        taken = connection.execute(f"SELECT {FIELDS} FROM jobs WHERE number = ?", (row[0],))
        return job_of(taken.fetchone(), left=False)

    def _take_over(self, connection: sqlite3.Connection) -> None:
        """Queue what the dead have left, or do with it what they were asked to."""
        running = connection.execute(f"SELECT {FIELDS}, deaths FROM jobs WHERE state = 'running'")
        for row in running.fetchall():
            if not self._jobs.left(row):
                continue
            number, deaths = row[0], row[-1] + 1
            state = _instead(row[5])
            trouble = _DIED if state == "queued" and deaths >= _MOST_DEATHS else None
            state = "failed" if trouble else state
            now, most = self._jobs.clock(), self._jobs.num_events
            move(connection, number, state, now, most, trouble=trouble)
            connection.execute("UPDATE jobs SET deaths = ? WHERE number = ?", (deaths, number))

    def beat(self, ids: set[str]) -> set[str]:
        """Keep the jobs for another while; those that are still ours."""

        def work(connection: sqlite3.Connection) -> set[str]:
            ours = {id for id, _ in self._ours(connection)} & ids
            connection.executemany(
                "UPDATE jobs SET beat = ? WHERE id = ?", [(self._jobs.clock(), id) for id in ours]
            )
            return ours

        return self._jobs.file.write(work)

    def wishes(self) -> dict[str, Wish]:
        """What is asked of our jobs, by id."""
        return dict(self._jobs.file.read(self._ours))

    def _ours(self, connection: sqlite3.Connection) -> list[tuple[str, Wish]]:
        return connection.execute(
            "SELECT id, wish FROM jobs WHERE state = 'running' AND owner = ?", (self._me,)
        ).fetchall()

    def tell(self, id: str, kind: str, data: Mapping[str, Plain]) -> None:
        """Keep an event of a job of ours; progress also with the job itself."""

        def work(connection: sqlite3.Connection) -> None:
            number = self._number(connection, id)
            if number is None:
                return
            if kind == "progress":
                connection.execute(
                    "UPDATE jobs SET progress = ?, deaths = 0 WHERE number = ?",
                    (to_text(data, "progress"), number),
                )
            self._jobs.note(connection, number, kind, data)

        self._jobs.file.write(work)

    def end(self, id: str, outcome: Outcome) -> None:
        """Keep how it ended; one that was stopped goes where it was asked to."""
        result = None if outcome.result is None else to_text(outcome.result, "the result")

        def work(connection: sqlite3.Connection) -> None:
            number = self._number(connection, id)
            if number is None:
                return
            ((wish,),) = connection.execute("SELECT wish FROM jobs WHERE number = ?", (number,))
            state: State = "failed" if outcome.trouble else "done"
            if outcome.stopped:
                state = _instead(wish)
            elif wish == "cancel":
                state = "cancelled"
            connection.execute("UPDATE jobs SET result = ? WHERE number = ?", (result, number))
            now, most = self._jobs.clock(), self._jobs.num_events
            trouble = outcome.trouble if state == "failed" else None
            move(connection, number, state, now, most, trouble=trouble)

        self._jobs.file.write(work)

    def _number(self, connection: sqlite3.Connection, id: str) -> int | None:
        row = connection.execute(
            "SELECT number FROM jobs WHERE id = ? AND state = 'running' AND owner = ?",
            (id, self._me),
        ).fetchone()
        return None if row is None else int(row[0])


def _instead(wish: str) -> State:
    """Where a job goes that nobody works on any more."""
    return "cancelled" if wish == "cancel" else "paused" if wish == "pause" else "queued"
