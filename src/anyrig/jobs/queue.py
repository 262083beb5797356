"""The jobs of a machine in one SQLite file, for any number of processes.

Every change is flushed to the disk before it is acknowledged: a submitted job survives a power
failure. A damaged file is refused and left alone, as jobs cannot be computed again.

A worker claims a job in one transaction, so no two claim the same. Everything it writes later names
it as the owner: a worker that lost its job to another can no longer change it.
"""

from __future__ import annotations

import base64
import contextlib
import heapq
import json
import os
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from anyrig.errors import (
    InvalidInputError,
    Message,
    OptionRef,
    dump_message,
    load_message,
    messages_to_json,
)
from anyrig.jobs.job import (
    ACTIVE_STATES,
    FINISHED_STATES,
    FinishedJob,
    Job,
    JobEvent,
    JobFailure,
    JobNotFoundError,
    JobPage,
    JobState,
    StopRequest,
)
from anyrig.storage.keys import JsonValue
from anyrig.storage.sqlite import MAX_VARIABLES, DatabaseFormat, SqliteFile

_MAX_ARGUMENT_BYTES = 1 << 20
MAX_EVENT_BYTES = 64 << 10
_POLL_S = 0.2
# Crashes of its worker without progress: after so many a job waits for all others, then it fails.
_SUSPECT_CRASHES, _MAX_CRASHES = 3, 100
_CRASHED = JobFailure(
    f"its worker crashed {_MAX_CRASHES} times without any progress",
    "Check the system's log for the cause; resume the job when it is fixed.",
)
FORMAT = DatabaseFormat(
    application_id=0x616E796A,  # "anyj"
    version=1,
    schema=(
        """CREATE TABLE jobs (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
        arguments TEXT NOT NULL, state TEXT NOT NULL, wish TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL, started REAL, ended REAL, progress TEXT, error TEXT, hint TEXT,
        result TEXT, attempts INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0,
        owner TEXT NOT NULL DEFAULT '', beat REAL, events INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX jobs_by_state ON jobs (state, number)",
        """CREATE TABLE events (
        job INTEGER NOT NULL, number INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
        data TEXT NOT NULL, PRIMARY KEY (job, number)) WITHOUT ROWID""",
        """CREATE TRIGGER forgotten AFTER DELETE ON jobs BEGIN
        DELETE FROM events WHERE job = old.number; END""",
    ),
    additions={
        # Since 0.2.0; 0.1.0 reads such files all the same. The index serves to list the jobs of a
        # client without reading past the arguments of every job.
        "jobs_by_client": (
            "ALTER TABLE jobs ADD COLUMN client TEXT NOT NULL DEFAULT ''",
            "CREATE INDEX jobs_by_client ON jobs (client, number)",
        ),
        # Also since 0.2.0: runners look at the queue several times a second.
        "jobs_running": (
            "ALTER TABLE jobs ADD COLUMN kills INTEGER NOT NULL DEFAULT 0",
            f"CREATE INDEX jobs_to_claim ON jobs (state, deaths > {_SUSPECT_CRASHES}, number)"
            " WHERE state = 'queued'",
            "CREATE INDEX jobs_running ON jobs (state, number, id, owner, beat, wish, deaths)"
            " WHERE state = 'running'",
        ),
        "jobs_unused": (
            "CREATE INDEX jobs_unused ON jobs (client, state, started, number)"
            " WHERE state = 'cancelled' AND started IS NULL",
        ),
        # Also since 0.2.0: when each client's job was last claimed, counted in claims.
        "turns": ("CREATE TABLE turns (client TEXT PRIMARY KEY, turn INTEGER NOT NULL)",),
    },
    pragmas=("secure_delete = ON",),  # nothing is left of the texts of a deleted job
    busy_timeout_s=10.0,  # less than a lease: who waits for the file must not lose its jobs
    durable=True,
    damage_hint="Move it away, and a new one is created. The results of jobs are not in it: "
    "submitted again, they reuse what is cached.",
)
_FIELDS = (
    "number, id, kind, arguments, state, wish, created, started, ended, progress, error, hint,"
    " result, attempts, owner, beat, client, kills"
)


class _Row(NamedTuple):
    number: int
    id: str
    kind: str
    arguments: str
    state: JobState
    stop_request: StopRequest
    created: float
    started: float | None
    ended: float | None
    progress: str | None
    error: str | None
    hint: str | None
    result: str | None
    attempts: int
    owner: str
    heartbeat: float | None
    client: str
    kills: int


class _RunningRow(NamedTuple):
    """What an index has of a running job: its arguments are not read."""

    number: int
    id: str
    owner: str
    heartbeat: float | None
    stop_request: StopRequest
    crashes: int


class JobOutcome(NamedTuple):
    """How a run of a job ended: with a result, with an error, or because it was told to stop."""

    result: JsonValue = None
    error: JobFailure | None = None
    stopped: bool = False
    killed: bool = False
    """The error is that the system killed its process: it is tried again once."""


class JobQueue:
    """Jobs in a file, to submit, watch, control and work on.

    Args:
        path: the file; created on first use.
        clock: seconds since 1970.
        lease_s: a job whose owner did not renew it for so long is free for another.
        max_events: how many events of a job are kept.
        max_unused: how many cancelled jobs of one client are kept that never ran; the oldest are
            deleted. All other finished jobs are kept until somebody deletes them.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        lease_s: float = 15.0,
        max_events: int = 500,
        max_unused: int = 1000,
    ) -> None:
        self.file = SqliteFile(path, FORMAT)
        self.lease_s = lease_s
        self._clock, self._max_events, self._max_unused = clock, max_events, max_unused

    def close(self) -> None:
        """Close the file; every later call fails."""
        self.file.close()

    def __enter__(self) -> JobQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- for people --------------------------------------------------------------------------------

    def submit(self, kind: str, arguments: Mapping[str, JsonValue], *, client: str = "") -> Job:
        """Queue a new job; `client` is the id of the API key that submits it."""
        text = _arguments_to_json(arguments)

        def insert(connection: sqlite3.Connection) -> str:
            id, _ = self._insert(connection, kind, text, client)
            connection.execute(
                "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs WHERE client = ?"
                " AND state = 'cancelled' AND started IS NULL ORDER BY number DESC"
                " LIMIT -1 OFFSET ?)",
                (client, self._max_unused),
            )
            return id

        return self.get(self.file.write(insert))

    def record(
        self,
        kind: str,
        arguments: Mapping[str, JsonValue],
        result: Mapping[str, JsonValue],
        started: float,
    ) -> Job:
        """List work of this user that was done without the queue, as a finished job. It replaces
        those with the same files.
        """
        text, outcome = _arguments_to_json(arguments), _to_json(result, "result")
        same = [
            (job.id,) for job in self.list(kinds=[kind], states=["done"])
            if not job.client and isinstance(job.result, Mapping)
            and job.result.get("files") == result.get("files")
        ]  # fmt: skip

        def insert(connection: sqlite3.Connection) -> str:
            id, number = self._insert(connection, kind, text, "")
            _update(connection, number, result=outcome, created=started, started=started)
            self._set_state(connection, number, "done")
            connection.executemany("DELETE FROM jobs WHERE id = ?", same)
            return id

        return self.get(self.file.write(insert))

    def _insert(
        self, connection: sqlite3.Connection, kind: str, arguments: str, client: str
    ) -> tuple[str, int]:
        """Queue a job; its id and number."""
        # 80 bits: an id cannot be guessed.
        id = base64.b32encode(secrets.token_bytes(10)).decode("ascii").lower()
        cursor = connection.execute(
            "INSERT INTO jobs (id, kind, arguments, state, created, client)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (id, kind, arguments, "queued", self._clock(), client),
        )
        assert cursor.lastrowid is not None
        self._add_event(connection, cursor.lastrowid, "state", {"state": "queued"})
        return id, cursor.lastrowid

    def get(self, id: str) -> Job:
        """A job by its id; `JobNotFoundError`."""
        return self._to_job(self.file.read(partial(_select_job, id=id)))

    def list(self, *, kinds: Sequence[str] = (), states: Sequence[JobState] = ()) -> Sequence[Job]:
        """Those of some kinds and states, or all; the oldest first."""
        return self.list_page(None, kinds=kinds, states=states).jobs

    def list_page(
        self,
        limit: int | None,
        *,
        before: int | None = None,
        kinds: Sequence[str] = (),
        states: Sequence[JobState] = (),
        client: str | None = None,
    ) -> JobPage:
        """The newest jobs that match, and counts.

        Args:
            limit: how many at most; with 0 only the counts.
            before: `next_before` of the page before this one.
            kinds: only these.
            states: only these; they do not change the counts.
            client: only what this client submitted.
        """

        def select(
            connection: sqlite3.Connection,
        ) -> tuple[Sequence[_Row], dict[JobState, int], int | None, dict[str, int]]:
            # SQLite has to walk through a row to reach what stands behind its arguments. States are
            # therefore read from their index; kinds stand before the arguments.
            running = _select_running(connection)
            abandoned = {
                row.number for row in running if self._is_abandoned(row.owner, row.heartbeat)
            }
            state_of = dict(connection.execute("SELECT number, state FROM jobs ORDER BY state"))
            own = None if client is None else _select_numbers(connection, client)
            counts = dict.fromkeys((*ACTIVE_STATES, *FINISHED_STATES), 0)
            ids: dict[int, str] = {}
            found = []
            for number, id, kind in connection.execute(
                "SELECT number, id, kind FROM jobs ORDER BY number"
            ):
                state: JobState = "queued" if number in abandoned else state_of[number]
                if state == "queued":
                    ids[number] = id
                if (kinds and kind not in kinds) or (own is not None and number not in own):
                    continue
                counts[state] += 1
                if (not states or state in states) and (before is None or number < before):
                    found.append(number)
            order = _order_queued(
                connection, sorted(ids), {row.number for row in running} - abandoned
            )
            positions = {ids[number]: place for place, number in enumerate(order, 1)}
            page = found if limit is None else found[max(0, len(found) - limit) :]
            next_before = page[0] if page and len(found) > len(page) else None
            return _select_jobs(connection, page), counts, next_before, positions

        rows, counts, next_before, positions = self.file.read_snapshot(select)
        # Decoded once the file is free again: others wait for it.
        return JobPage(tuple(map(self._to_job, rows)), counts, next_before, positions)

    def events(self, id: str, after: int = 0, *, follow: bool = False) -> Iterator[JobEvent]:
        """What happened after the event of a number; with `follow` until the job is finished."""

        def select(connection: sqlite3.Connection) -> tuple[_Row, Sequence[tuple[Any, ...]]]:
            row = _select_job(connection, id)
            query = (
                "SELECT number, time, kind, data FROM events WHERE job = ? AND number > ?"
                " ORDER BY number"
            )
            return row, connection.execute(query, (row.number, after)).fetchall()

        self.get(id)
        # Deleted while it is followed: there is nothing more to report.
        with contextlib.suppress(JobNotFoundError):
            while True:
                row, events = self.file.read_snapshot(select)
                for after, when, kind, data in events:
                    yield JobEvent(after, when, kind, self._decode_object(data, is_report=True))
                if not follow or self._get_state(row) in FINISHED_STATES:
                    return
                time.sleep(_POLL_S)

    def pause(self, id: str) -> Job:
        """Do not work on it until it is resumed; what runs stops soon after."""
        return self._stop(id, "pause", "paused")

    def cancel(self, id: str) -> Job:
        """Give it up; what runs stops soon after."""
        return self._stop(id, "cancel", "cancelled")

    def _stop(self, id: str, request: StopRequest, stopped_state: JobState) -> Job:
        def change(connection: sqlite3.Connection) -> Job:
            row = _select_job(connection, id)
            state = self._get_state(row)
            if state in FINISHED_STATES and state != stopped_state:
                raise InvalidInputError(
                    f"the job is {state}", hint=f"Only active jobs can be {stopped_state}."
                )
            if state == "running":
                # A job that was told to end is not paused instead.
                if row.stop_request != "cancel":
                    _update(connection, row.number, wish=request)
            elif state != stopped_state:
                self._set_state(connection, row.number, stopped_state)
            return self._to_job(_select_job(connection, id))

        return self.file.write(change)

    def resume(self, id: str) -> Job:
        """Queue it again, after it was paused or cancelled, or failed."""

        def change(connection: sqlite3.Connection) -> Job:
            row = _select_job(connection, id)
            state = self._get_state(row)
            if state == "done":
                raise InvalidInputError("the job is done", hint="Submit a new one to do it again.")
            if state == "running":
                # If it has stopped for a request already, it is queued instead of paused.
                _update(connection, row.number, wish="")
            elif row.state != "queued":
                self._set_state(connection, row.number, "queued")
                _update(connection, row.number, deaths=0, kills=0)
            return self._to_job(_select_job(connection, id))

        return self.file.write(change)

    def delete(self, id: str) -> None:
        """Delete a job that is not running."""

        def delete(connection: sqlite3.Connection) -> None:
            row = _select_job(connection, id)
            if self._get_state(row) == "running":
                raise InvalidInputError("the job is running", hint="Cancel it first.")
            connection.execute("DELETE FROM jobs WHERE number = ?", (row.number,))

        self.file.write(delete)

    def list_finished(self) -> Sequence[FinishedJob]:
        """Jobs that have ended, without their arguments."""
        query = (
            "SELECT id, kind, client, state, ended, json_extract(arguments, '$.folder') FROM jobs"
            " WHERE state IN ('done', 'failed', 'cancelled') ORDER BY number"
        )
        rows = self.file.read(lambda connection: connection.execute(query).fetchall())
        return [FinishedJob(*row) for row in rows]

    def list_folders(self) -> set[str]:
        """The folders that jobs run in."""
        query = "SELECT json_extract(arguments, '$.folder') FROM jobs"
        rows = self.file.read(lambda connection: connection.execute(query).fetchall())
        return {str(folder) for (folder,) in rows}

    def delete_finished(self, job: FinishedJob) -> bool:
        """Delete a job; False if it was resumed or deleted in the meantime."""
        query = "DELETE FROM jobs WHERE id = ? AND state = ? AND ended = ?"
        values = job.id, job.state, job.ended
        return self.file.write(lambda connection: connection.execute(query, values).rowcount > 0)

    # -- for workers -------------------------------------------------------------------------------

    def claim(self, owner: str) -> Job | None:
        """Take the next job; None if there is none. Clients take turns.

        The owner's own running jobs are not taken for abandoned: it knows better, and a clock that
        was set or a computer that slept makes every lease look expired.
        """
        if not self.has_work():
            return None

        def claim(connection: sqlite3.Connection) -> Job | None:
            self._requeue_abandoned(connection, owner)
            queued = connection.execute(
                "SELECT number FROM jobs WHERE state = 'queued'"
                f" AND (deaths > {_SUSPECT_CRASHES}) = 0"
            ).fetchall() or connection.execute("SELECT number FROM jobs WHERE state = 'queued'")
            running = connection.execute("SELECT number FROM jobs WHERE state = 'running'")
            order = _order_queued(
                connection, [number for (number,) in queued], {number for (number,) in running}
            )
            if not order:
                return None
            row = order[:1]
            connection.execute(
                "INSERT OR REPLACE INTO turns SELECT client, ifnull((SELECT max(turn) FROM turns),"
                " 0) + 1 FROM jobs WHERE number = ?",
                row,
            )
            connection.execute(  # the rates of an earlier attempt no longer hold
                "UPDATE jobs SET state = 'running', owner = ?1, beat = ?2, attempts = attempts + 1,"
                " started = coalesce(started, ?2),"
                " progress = json_remove(progress, '$.speed', '$.left_s', '$.left_range_s')"
                " WHERE number = ?3",
                (owner, self._clock(), row[0]),
            )
            self._add_event(connection, row[0], "state", {"state": "running"})
            return self._to_job(_select_jobs(connection, row)[0])

        return self.file.write(claim)

    def has_work(self) -> bool:
        """Whether a job is queued, or was abandoned by its owner."""

        def look(connection: sqlite3.Connection) -> bool:
            query = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued')"
            ((is_queued,),) = connection.execute(query)
            return bool(is_queued) or any(
                self._is_abandoned(row.owner, row.heartbeat) for row in _select_running(connection)
            )

        return self.file.read(look)

    def list_heartbeats(self, owner: str) -> dict[str, float | None]:
        """When the jobs that others work on were last renewed, by id."""
        running = self.file.read(_select_running)
        return {row.id: row.heartbeat for row in running if row.owner != owner}

    def renew(self, owner: str, ids: Iterable[str]) -> set[str]:
        """Renew the leases of jobs that an owner runs; those that are still its own."""

        def renew(connection: sqlite3.Connection) -> set[str]:
            owned = set(ids) & set(_select_owned(connection, owner))
            now = self._clock()
            connection.executemany(
                "UPDATE jobs SET beat = ? WHERE id = ?", [(now, id) for id in owned]
            )
            return owned

        return self.file.write(renew)

    def list_stop_requests(self, owner: str) -> Sequence[str]:
        """The ids of an owner's jobs that were told to stop."""
        owned = self.file.read(lambda connection: _select_owned(connection, owner))
        return [id for id, request in owned.items() if request]

    def report_event(self, owner: str, id: str, kind: str, data: Mapping[str, JsonValue]) -> None:
        """Record an event of an owner's job; progress also in the job itself."""

        def insert(connection: sqlite3.Connection) -> None:
            row = _select_job(connection, id)
            if row.owner != owner:
                return
            if kind == "progress":
                _update(connection, row.number, progress=_to_json(data, "progress"), deaths=0)
            self._add_event(connection, row.number, kind, data)

        with contextlib.suppress(JobNotFoundError):
            self.file.write(insert)

    def finish(self, owner: str, id: str, outcome: JobOutcome) -> None:
        """Record how an owner's run of a job ended."""
        result = None if outcome.result is None else _to_json(outcome.result, "result")

        def update(connection: sqlite3.Connection) -> None:
            row = _select_job(connection, id)
            if row.owner != owner:
                return
            if outcome.stopped:
                state = _state_after_stop(row.stop_request)
            elif row.stop_request == "cancel":
                state = "cancelled"
            elif outcome.killed and not row.kills:
                state = _state_after_stop(row.stop_request)
                assert outcome.error is not None
                text = Message(
                    "{problem}; the job is tried again once", problem=outcome.error.message
                )
                self._add_event(connection, row.number, "log", {"text": text})
            else:
                state = "failed" if outcome.error else "done"
            kills = row.kills + outcome.killed
            _update(connection, row.number, result=result, kills=kills)
            error = outcome.error if state == "failed" else None
            self._set_state(connection, row.number, state, error)

        with contextlib.suppress(JobNotFoundError):
            self.file.write(update)

    def _requeue_abandoned(self, connection: sqlite3.Connection, owner: str) -> None:
        """Queue what other, crashed workers left, or do with it what they were told to."""
        for row in _select_running(connection):
            if row.owner == owner or not self._is_abandoned(row.owner, row.heartbeat):
                continue
            state, error, crashes = _state_after_stop(row.stop_request), None, row.crashes + 1
            if state == "queued" and crashes >= _MAX_CRASHES:
                state, error = "failed", _CRASHED
            self._set_state(connection, row.number, state, error)
            _update(connection, row.number, deaths=crashes)

    # -- rows --------------------------------------------------------------------------------------

    def _set_state(
        self,
        connection: sqlite3.Connection,
        number: int,
        state: JobState,
        error: JobFailure | None = None,
    ) -> None:
        ended = self._clock() if state in FINISHED_STATES else None
        _update(
            connection, number, state=state, wish="", owner="", beat=None, ended=ended,
            error=error and dump_message(error.message), hint=error and dump_message(error.hint),
        )  # fmt: skip
        data: dict[str, JsonValue] = {"state": state}
        if error:
            data |= {"error": error.message, "hint": error.hint}
        self._add_event(connection, number, "state", data)

    def _add_event(
        self, connection: sqlite3.Connection, job: int, kind: str, data: Mapping[str, JsonValue]
    ) -> None:
        """Number and record an event; over the limit, the oldest progress is deleted first."""
        text = _to_json(data, "event")
        if len(text) > MAX_EVENT_BYTES:
            text = _to_json({"left_out": f"{len(text)} bytes"}, "event")
        connection.execute("UPDATE jobs SET events = events + 1 WHERE number = ?", (job,))
        connection.execute(
            "INSERT INTO events SELECT number, events, ?, ?, ? FROM jobs WHERE number = ?",
            (self._clock(), kind, text, job),
        )
        ((count,),) = connection.execute("SELECT count(*) FROM events WHERE job = ?", (job,))
        if count > self._max_events:
            connection.execute(
                "DELETE FROM events WHERE job = ?1 AND number IN (SELECT number FROM events"
                " WHERE job = ?1 ORDER BY kind = 'progress' DESC, number LIMIT ?2)",
                (job, count - self._max_events),
            )

    def _is_abandoned(self, owner: str, heartbeat: float | None) -> bool:
        """Whether the owner of a running job is gone."""
        # Not from the future either: a clock that was set back must not keep a job for a day.
        late = heartbeat is None or abs(self._clock() - heartbeat) > self.lease_s
        return late or is_dead(owner)

    def _get_state(self, row: _Row) -> JobState:
        if row.state == "running" and self._is_abandoned(row.owner, row.heartbeat):
            return "queued"
        return row.state

    def _to_job(self, row: _Row) -> Job:
        return Job(
            id=row.id,
            kind=row.kind,
            arguments=self._decode_object(row.arguments),
            state=self._get_state(row),
            created=row.created,
            started=row.started,
            ended=row.ended,
            progress=None
            if row.progress is None
            else self._decode_object(row.progress, is_report=True),
            error=None if row.error is None else _load_failure(row.error, str(row.hint)),
            result=None if row.result is None else self._decode(row.result, is_report=True),
            attempts=row.attempts,
            stop_request=row.stop_request,
            client=row.client,
            kills=row.kills,
        )

    def _decode(self, text: str, *, is_report: bool = False) -> JsonValue:
        try:
            value = json.loads(text)
            return cast(JsonValue, _convert_old_marks(value) if is_report else value)
        except (TypeError, ValueError) as error:
            raise self.file.damage_error(f"a row is not JSON ({error})") from error

    def _decode_object(self, text: str, *, is_report: bool = False) -> dict[str, JsonValue]:
        value = self._decode(text, is_report=is_report)
        if not isinstance(value, dict):
            raise self.file.damage_error("a row is not a JSON object")
        return value


def _select_rows(
    connection: sqlite3.Connection, condition: str, values: Sequence[object] = ()
) -> list[_Row]:
    query = f"SELECT {_FIELDS} FROM jobs WHERE {condition} ORDER BY number"
    return [_Row(*row) for row in connection.execute(query, values)]


def _select_running(connection: sqlite3.Connection) -> list[_RunningRow]:
    query = (
        "SELECT number, id, owner, beat, wish, deaths FROM jobs WHERE state = 'running'"
        " ORDER BY number"
    )
    return [_RunningRow(*row) for row in connection.execute(query)]


def _select_job(connection: sqlite3.Connection, id: str) -> _Row:
    for row in _select_rows(connection, "id = ?", (id,)):
        return row
    raise JobNotFoundError(f"job {id} not found", hint="`anyrig jobs` lists them.")


def _select_jobs(connection: sqlite3.Connection, numbers: Sequence[int]) -> list[_Row]:
    """Those of some numbers, the oldest first."""
    rows: list[_Row] = []
    for start in range(0, len(numbers), MAX_VARIABLES):
        some = numbers[start : start + MAX_VARIABLES]
        rows += _select_rows(connection, f"number IN ({', '.join('?' * len(some))})", some)
    return rows


def _order_queued(
    connection: sqlite3.Connection, queued: Sequence[int], running: Collection[int]
) -> list[int]:
    """The numbers of queued jobs in the order in which they are claimed: the client with the fewest
    running jobs is next, then the one whose turn was longest ago; of each client, the oldest job.
    """
    clients = dict(connection.execute("SELECT number, client FROM jobs ORDER BY client"))
    turns = dict(connection.execute("SELECT client, turn FROM turns"))
    num_running = Counter(clients[number] for number in running)
    waiting: dict[str, list[int]] = {}
    for number in sorted(queued, reverse=True):
        waiting.setdefault(clients[number], []).append(number)
    heap = [
        (num_running[client], turns.get(client, 0), numbers[-1], client)
        for client, numbers in waiting.items()
    ]
    heapq.heapify(heap)
    last_turn = max(turns.values(), default=0)
    order = []
    while heap:
        count, _, _, client = heapq.heappop(heap)
        order.append(waiting[client].pop())
        last_turn += 1
        if waiting[client]:
            heapq.heappush(heap, (count + 1, last_turn, waiting[client][-1], client))
    return order


def _select_numbers(connection: sqlite3.Connection, client: str) -> set[int]:
    cursor = connection.execute("SELECT number FROM jobs WHERE client = ?", (client,))
    return {number for (number,) in cursor}


def _select_owned(connection: sqlite3.Connection, owner: str) -> dict[str, StopRequest]:
    query = "SELECT id, wish FROM jobs WHERE state = 'running' AND owner = ?"
    return dict(connection.execute(query, (owner,)))


def _update(connection: sqlite3.Connection, number: int, **columns: object) -> None:
    terms = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(f"UPDATE jobs SET {terms} WHERE number = ?", (*columns.values(), number))


def _state_after_stop(request: StopRequest) -> JobState:
    return "cancelled" if request == "cancel" else "paused" if request == "pause" else "queued"


def _arguments_to_json(arguments: Mapping[str, JsonValue]) -> str:
    text = _to_json(dict(arguments), "arguments")
    if len(text) > _MAX_ARGUMENT_BYTES:
        raise InvalidInputError(
            f"the job's arguments are {len(text):,} bytes; the limit is {_MAX_ARGUMENT_BYTES:,}",
            hint="Name files instead of passing their contents.",
        )
    return text


def _to_json(data: JsonValue, what: str) -> str:
    try:
        return json.dumps(messages_to_json(data), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"a job's {what} cannot be written as JSON: {error}",
            hint="Use text, numbers, true, false, null, lists and objects of those.",
        ) from error


def _load_failure(message: str, hint: str) -> JobFailure:
    return JobFailure(*(_convert_old_marks(load_message(text)) for text in (message, hint)))


# Options in the texts of early versions stand between two characters for private use.
_OLD_MARK = re.compile("\ue000(\\w+)(?:=([^\ue001]*))?\ue001")


def _convert_old_marks(value: Any) -> Any:
    if isinstance(value, str):
        if "\ue000" not in value:
            return value
        words = iter(_OLD_MARK.split(value))
        message = Message("{text}", text=next(words))
        for name, content, text in zip(words, words, words, strict=True):
            option = OptionRef(name, content or "")
            message = Message("{message}{option}{text}", message=message, option=option, text=text)
        return message
    if isinstance(value, dict):
        return {name: _convert_old_marks(one) for name, one in value.items()}
    return [_convert_old_marks(one) for one in value] if isinstance(value, list) else value


# -- owners ----------------------------------------------------------------------------------------
# A lease that is not renewed suffices everywhere. On Linux a killed process is noticed at once: its
# id is free, or belongs to one that started later. Ids are compared only within one boot of one
# machine and one namespace, as containers count their processes for themselves.

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def make_owner_name() -> str:
    """A name for this process that no other ever has."""
    start = _start_time(os.getpid())
    return "/".join((_machine_name(), str(os.getpid()), start or "", secrets.token_hex(6)))


def is_dead(owner: str) -> bool:
    """Whether the process of that name has ended; False where that cannot be known."""
    parts = owner.split("/")
    if len(parts) != 4:
        return False
    machine, pid, start, _ = parts
    if not machine or machine != _machine_name() or not pid.isdecimal() or not start:
        return False
    return _start_time(int(pid)) != start


def _machine_name() -> str:
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """When a process started, in the kernel's own count; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # its name, in brackets, may contain spaces
    is_zombie = fields[0] in ("Z", "X")
    return None if is_zombie else fields[19]
